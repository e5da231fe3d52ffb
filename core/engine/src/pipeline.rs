//! One statement executed many times from one task: values go in, outcomes come out, and no future is made for each.
//! Where a request goes and what follows a failure is decided as for every other one (`call`).

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use messina_core::conn::Ticket;
use messina_core::error::request::RequestError;
use messina_core::exec::prepared::PreparedStatement;
use messina_core::exec::result::QueryResult;
use messina_core::types::ToRow;

use crate::execute::Exchange;
use crate::runtime::Runtime;
use crate::session::Shared;
use crate::source::StatementSource;

/// How many requests are out at once by default: enough to keep several nodes busy, few enough for their queues.
const IN_FLIGHT_MAX: usize = 1_024;

/// Executes one statement with many rows of values, many at once, from one task.
///
/// [`push`](Self::push) sends a request at once, and [`completion`](Self::completion) waits for the next outcome, in
/// whatever order they come. A request costs what it costs elsewhere, but no future, no task and no waker of its own,
/// and the task wakes up once for all outcomes that have come together.
///
/// Each request has its own deadline and its own retries; these make progress while outcomes are taken. Dropping the
/// pipeline gives up the requests that are still out.
///
/// ```no_run
/// # async fn load<R: messina_engine::Runtime>(session: messina_engine::Session<R>)
/// # -> Result<(), messina_engine::api::RequestError> {
/// let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await?;
/// let mut pipeline = session.pipeline(&insert);
/// for id in 0..1_000_000 {
///     let mut values = (id, "somebody");
///     while let Err(full) = pipeline.push(values) {
///         values = full.0;
///         if let Some(completion) = pipeline.completion().await {
///             completion.result?;
///         }
///     }
/// }
/// while let Some(completion) = pipeline.completion().await {
///     completion.result?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct Pipeline<'s, R: Runtime, V> {
    shared: &'s Shared<R>,
    statement: &'s PreparedStatement,
    slots: Vec<Slot<'s, R, V>>,
    free: Vec<usize>,
    in_flight_max: usize,
    pushed: u64,
    ready: Arc<Ready>,
    /// The slots to look at, taken out of `ready`.
    due: Vec<usize>,
}

/// The outcome of one request of a pipeline.
#[derive(Debug)]
#[non_exhaustive]
pub struct Completion {
    /// What [`Pipeline::push`] returned for the request.
    pub ticket: Ticket,
    /// What became of it.
    pub result: Result<QueryResult, RequestError>,
}

/// Gives back values that a pipeline had no room for; take a completion and push them again.
#[derive(Debug)]
pub struct Full<V>(
    /// The values.
    pub V,
);

impl<V> fmt::Display for Full<V> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the pipeline has as many requests out as it may have")
    }
}

impl<V: fmt::Debug> std::error::Error for Full<V> {}

/// The place of one request; it is used again when the request is over.
struct Slot<'s, R: Runtime, V> {
    request: Option<Request<'s, R, V>>,
    /// The outcome of a request that was over as soon as it was sent.
    ended: Option<Completion>,
    due: Arc<Due>,
    waker: Waker,
}

struct Request<'s, R: Runtime, V> {
    ticket: Ticket,
    exchange: Exchange<'s, R>,
    source: StatementSource<'s, V>,
}

impl<'s, R: Runtime, V: ToRow> Pipeline<'s, R, V> {
    pub(crate) fn new(shared: &'s Shared<R>, statement: &'s PreparedStatement) -> Self {
        Self {
            shared,
            statement,
            slots: Vec::new(),
            free: Vec::new(),
            in_flight_max: IN_FLIGHT_MAX,
            pushed: 0,
            ready: Arc::new(Ready::default()),
            due: Vec::new(),
        }
    }

    /// Has at most so many requests out at once, at least one. Default: 1,024.
    #[must_use]
    pub fn in_flight_max(mut self, requests: usize) -> Self {
        self.in_flight_max = requests.max(1);
        self
    }

    /// Returns how many requests are out, those with an outcome that was not taken included.
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Sends a request with these values; its outcome comes with the ticket that is returned.
    ///
    /// Values that do not fit the statement are an outcome as well.
    ///
    /// # Errors
    /// As many requests are out as may be; the values come back.
    pub fn push(&mut self, values: V) -> Result<Ticket, Full<V>> {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.slots.len() < self.in_flight_max => self.add_slot(),
            None => return Err(Full(values)),
        };
        self.pushed += 1;
        let ticket = Ticket(self.pushed);
        let Some(slot) = self.slots.get_mut(at) else {
            return Err(Full(values));
        };
        slot.request = Some(Request {
            ticket,
            exchange: Exchange::new(self.shared, false),
            source: StatementSource::new(self.statement, values),
        });
        self.send(at);
        Ok(ticket)
    }

    /// Waits for the next outcome; none when no request is out.
    pub async fn completion(&mut self) -> Option<Completion> {
        poll_fn(|cx| self.poll_completion(cx)).await
    }

    /// Adds all outcomes there are to `completions` and returns their number; waits for one if there is none, and
    /// returns zero when no request is out.
    pub fn poll_completions(
        &mut self,
        cx: &Context<'_>,
        completions: &mut Vec<Completion>,
    ) -> Poll<usize> {
        let before = completions.len();
        loop {
            match self.poll_completion(cx) {
                Poll::Ready(Some(completion)) => completions.push(completion),
                Poll::Pending if before == completions.len() => return Poll::Pending,
                Poll::Ready(None) | Poll::Pending => {
                    return Poll::Ready(completions.len() - before);
                }
            }
        }
    }

    /// Returns the next outcome, as [`completion`](Self::completion) does.
    pub fn poll_completion(&mut self, cx: &Context<'_>) -> Poll<Option<Completion>> {
        loop {
            while let Some(at) = self.due.pop() {
                if let Some(completion) = self.look(at) {
                    return Poll::Ready(Some(completion));
                }
            }
            if self.in_flight() == 0 {
                return Poll::Ready(None);
            }
            if !self.ready.take(&mut self.due, cx) {
                return Poll::Pending;
            }
        }
    }

    fn add_slot(&mut self) -> usize {
        let at = self.slots.len();
        let due = Arc::new(Due {
            slot: at,
            queued: AtomicBool::new(false),
            ready: Arc::clone(&self.ready),
        });
        self.slots.push(Slot {
            request: None,
            ended: None,
            waker: Waker::from(Arc::clone(&due)),
            due,
        });
        at
    }

    /// Starts the request of a slot; what ends at once is looked at again, where outcomes are taken.
    fn send(&mut self, at: usize) {
        let Some(slot) = self.slots.get_mut(at) else {
            return;
        };
        let Some(request) = &mut slot.request else {
            return;
        };
        let mut cx = Context::from_waker(&slot.waker);
        if let Poll::Ready(result) = request.exchange.poll(&mut request.source, &mut cx) {
            let ticket = request.ticket;
            slot.request = None;
            slot.ended = Some(Completion { ticket, result });
            self.due.push(at);
        }
    }

    /// Drives the request of a slot; returns its outcome once it is over.
    fn look(&mut self, at: usize) -> Option<Completion> {
        let slot = self.slots.get_mut(at)?;
        // Before the look, so that a wake-up during it counts.
        slot.due.queued.store(false, Ordering::Release);
        let kept = match &mut slot.request {
            None => slot.ended.take(),
            Some(request) => {
                let mut cx = Context::from_waker(&slot.waker);
                match request.exchange.poll(&mut request.source, &mut cx) {
                    Poll::Pending => None,
                    Poll::Ready(result) => Some(Completion {
                        ticket: request.ticket,
                        result,
                    }),
                }
            }
        };
        if kept.is_some() {
            slot.request = None;
            self.free.push(at);
        }
        kept
    }
}

impl<R: Runtime, V> fmt::Debug for Pipeline<'_, R, V> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Pipeline")
            .field("in_flight", &(self.slots.len() - self.free.len()))
            .field("in_flight_max", &self.in_flight_max)
            .finish_non_exhaustive()
    }
}

/// The slots that may have made progress, and the task that waits for one.
#[derive(Debug, Default)]
struct Ready {
    state: Mutex<ReadyState>,
}

#[derive(Debug, Default)]
struct ReadyState {
    slots: Vec<usize>,
    task: Option<Waker>,
}

impl Ready {
    /// Swaps the slots that are due into `due`, or leaves the waker of the task behind; returns whether there are any.
    fn take(&self, due: &mut Vec<usize>, cx: &Context<'_>) -> bool {
        let mut spare = None;
        let mut state = self.lock();
        mem::swap(&mut state.slots, due);
        if due.is_empty()
            && !state
                .task
                .as_ref()
                .is_some_and(|task| task.will_wake(cx.waker()))
        {
            spare = state.task.replace(cx.waker().clone());
        }
        drop(state);
        drop(spare);
        !due.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, ReadyState> {
        // Nothing under the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What wakes one slot: it is put on the list once, and the task is woken with the first of a list.
#[derive(Debug)]
struct Due {
    slot: usize,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Due {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut state = self.ready.lock();
        state.slots.push(self.slot);
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}
