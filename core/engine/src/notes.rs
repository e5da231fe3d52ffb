//! Where notes for operators and events for applications wait to be read, and the bridge to `tracing`.
//! Both queues are bounded: nobody has to read them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use messina_core::notify::{ClusterEvent, Note};

/// How many unread notes are kept; older ones give way.
const NOTES_MAX: usize = 256;
/// How many unread events one reader may have; a slow reader loses the oldest and is told so.
const EVENTS_MAX: usize = 1024;

/// The notes and events of one session.
#[derive(Debug, Default)]
pub(crate) struct Notes {
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
    /// Keeps a note for whoever asks, and tells `tracing` where that is switched on.
    pub(crate) fn push(&self, note: Note) {
        #[cfg(feature = "tracing")]
        trace(&note);
        let mut notes = lock(&self.notes);
        let oldest = if notes.len() < NOTES_MAX {
            None
        } else {
            notes.pop_front()
        };
        notes.push_back(note);
        drop(notes);
        drop(oldest);
    }

    /// Takes the notes that nobody has read yet.
    pub(crate) fn take(&self) -> Vec<Note> {
        lock(&self.notes).drain(..).collect()
    }

    /// Hands an event to every reader.
    pub(crate) fn notify(&self, event: ClusterEvent) {
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

#[cfg(feature = "tracing")]
fn trace(note: &Note) {
    tracing::info!(target: "messina", "{note:?}");
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
