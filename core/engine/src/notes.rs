//! Where notes for operators and events for applications wait to be read, and the bridge to `tracing`.
//! Both queues are bounded: nobody has to read them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
#[cfg(feature = "tracing")]
use messina_core::notify::Severity;
use messina_core::notify::{ClusterEvent, Note};

use crate::metrics::Counters;

/// How many unread notes are kept; older ones give way.
const NOTES_MAX: usize = 256;
/// How many unread events one reader may have; a slow reader loses the oldest and is told so.
const EVENTS_MAX: usize = 1024;

/// The notes and events of one session.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    counters: Arc<Counters>,
    notes: Mutex<VecDeque<Note>>,
    readers: Mutex<Vec<Arc<Mutex<Reader>>>>,
}

#[derive(Debug, Default)]
struct Reader {
    events: VecDeque<ClusterEvent>,
    lost: u64,
    waker: Option<Waker>,
    ended: bool,
}

impl Notes {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self {
            counters,
            ..Self::default()
        }
    }

    /// Keeps a note for whoever asks, and tells `tracing` where that is switched on.
    pub(crate) fn push(&self, note: Note) {
        #[cfg(feature = "tracing")]
        trace(&note);
        self.counters.noted(&note);
        let mut notes = lock(&self.notes);
        let oldest = if notes.len() < NOTES_MAX {
            None
        } else {
            notes.pop_front()
        };
        notes.push_back(note);
        drop(notes);
        if oldest.is_some() {
            self.counters.notes_lost.add(1);
        }
    }

    /// Takes the notes that nobody has read yet.
    pub(crate) fn take(&self) -> Vec<Note> {
        lock(&self.notes).drain(..).collect()
    }

    /// Hands an event to every reader.
    pub(crate) fn notify(&self, event: ClusterEvent) {
        #[cfg(feature = "tracing")]
        tracing::info!(target: "messina", "{event}");
        let mut wakers = Vec::new();
        let mut readers = lock(&self.readers);
        readers.retain(|reader| 1 < Arc::strong_count(reader));
        for reader in readers.iter() {
            let mut reader = lock(reader);
            if EVENTS_MAX <= reader.events.len() {
                reader.events.pop_front();
                reader.lost += 1;
            }
            reader.events.push_back(event.clone());
            wakers.extend(reader.waker.take());
        }
        drop(readers);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends the events of every reader.
    pub(crate) fn end(&self) {
        let readers = std::mem::take(&mut *lock(&self.readers));
        for reader in readers {
            let mut state = lock(&reader);
            state.ended = true;
            let waker = state.waker.take();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Starts to collect events for a new reader.
    pub(crate) fn subscribe(&self) -> Events {
        let reader = Arc::new(Mutex::new(Reader::default()));
        lock(&self.readers).push(Arc::clone(&reader));
        Events { reader }
    }
}

/// The changes of the cluster since this value was made, as a stream.
#[derive(Debug)]
pub struct Events {
    reader: Arc<Mutex<Reader>>,
}

impl Events {
    /// Waits for the next event; nothing more comes after the session was closed.
    pub async fn next(&mut self) -> Option<ClusterEvent> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    /// Returns how many events were dropped because they were not read in time.
    pub fn lost(&self) -> u64 {
        lock(&self.reader).lost
    }

    fn poll_event(&self, cx: &Context<'_>) -> Poll<Option<ClusterEvent>> {
        let mut waker = Some(cx.waker().clone());
        let mut reader = lock(&self.reader);
        let event = reader.events.pop_front();
        let ended = reader.ended;
        if event.is_none() {
            std::mem::swap(&mut reader.waker, &mut waker);
        }
        drop(reader);
        drop(waker);
        match event {
            Some(event) => Poll::Ready(Some(event)),
            None if ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Stream for Events {
    type Item = ClusterEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ClusterEvent>> {
        self.poll_event(cx)
    }
}

/// Hands a note to `tracing`, at the level of its urgency.
#[cfg(feature = "tracing")]
fn trace(note: &Note) {
    match note.severity() {
        Severity::Debug => tracing::debug!(target: "messina", "{note}"),
        Severity::Info => tracing::info!(target: "messina", "{note}"),
        Severity::Warning => tracing::warn!(target: "messina", "{note}"),
        Severity::Error => tracing::error!(target: "messina", "{note}"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use messina_core::conn::Address;

    use super::*;

    fn note(kind: &str) -> Note {
        Note::EventUnknown {
            address: Address::Tcp(std::net::SocketAddr::from(([192, 0, 2, 1], 9042))),
            kind: kind.into(),
        }
    }

    #[test]
    fn of_too_many_notes_the_oldest_give_way_and_are_counted() {
        let counters = Arc::new(Counters::default());
        let notes = Notes::new(Arc::clone(&counters));
        (0..NOTES_MAX + 3).for_each(|at| notes.push(note(&at.to_string())));
        let kept = notes.take();
        assert_eq!(kept.len(), NOTES_MAX);
        assert!(matches!(&kept[0], Note::EventUnknown { kind, .. } if kind == "3"));
        assert!(notes.take().is_empty(), "each is read once");
        assert_eq!(format!("{:?}", counters.notes_lost), "Count(3)");
    }

    #[test]
    fn a_slow_reader_of_events_loses_the_oldest_and_is_told_so() {
        let notes = Notes::default();
        let events = notes.subscribe();
        for _ in 0..EVENTS_MAX + 2 {
            notes.notify(ClusterEvent::Resynced);
        }
        notes.end();
        assert_eq!(events.lost(), 2);
        let idle = Context::from_waker(Waker::noop());
        let mut read = 0;
        while let Poll::Ready(Some(_)) = events.poll_event(&idle) {
            read += 1;
        }
        assert_eq!(read, EVENTS_MAX);
        assert!(events.poll_event(&idle).is_ready(), "the end stays");
    }

    #[cfg(feature = "tracing")]
    #[test]
    fn every_note_and_event_becomes_a_trace_event_at_the_level_of_its_urgency() {
        use std::time::Duration;

        use tracing::field::{Field, Visit};
        use tracing::span::{Attributes, Id, Record};
        use tracing::{Event, Level, Metadata, Subscriber};

        #[derive(Clone, Default)]
        struct Collect(Arc<Mutex<Vec<(Level, String)>>>);

        struct Text(String);

        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }

        impl Subscriber for Collect {
            fn enabled(&self, metadata: &Metadata<'_>) -> bool {
                metadata.target() == "messina"
            }
            fn new_span(&self, _: &Attributes<'_>) -> Id {
                Id::from_u64(1)
            }
            fn record(&self, _: &Id, _: &Record<'_>) {}
            fn record_follows_from(&self, _: &Id, _: &Id) {}
            fn event(&self, event: &Event<'_>) {
                let mut text = Text(String::new());
                event.record(&mut text);
                lock(&self.0).push((*event.metadata().level(), text.0));
            }
            fn enter(&self, _: &Id) {}
            fn exit(&self, _: &Id) {}
        }

        let collect = Collect::default();
        tracing::subscriber::with_default(collect.clone(), || {
            let notes = Notes::default();
            notes.push(note("NEW_KIND"));
            notes.push(Note::HostsRefused { count: 1 });
            notes.push(Note::NoControlConnection {
                failures: Vec::new(),
                retry_in: Duration::from_secs(1),
            });
            notes.push(Note::ServerWarning {
                address: Address::Tcp(std::net::SocketAddr::from(([192, 0, 2, 1], 9042))),
                text: "too hot".into(),
            });
            notes.push(Note::Resharded {
                address: Address::Tcp(std::net::SocketAddr::from(([192, 0, 2, 1], 9042))),
                before: None,
                now: None,
            });
            notes.notify(ClusterEvent::Resynced);
            assert_eq!(notes.take().len(), 5, "they are readable all the same");
        });
        let told = lock(&collect.0);
        let levels: Vec<Level> = told.iter().map(|(level, _)| *level).collect();
        assert_eq!(
            levels,
            [
                Level::DEBUG,
                Level::ERROR,
                Level::ERROR,
                Level::WARN,
                Level::INFO,
                Level::INFO
            ]
        );
        assert!(
            told[0].1.contains("NEW_KIND") && told[3].1.contains("too hot"),
            "{told:?}"
        );
    }
}
