//! The task of one connection: connects, then owns the `Connection` and its stream until the end.
//! It looks at no body and holds no lock while it encodes, reads or writes.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use futures_io::{AsyncRead, AsyncWrite};
use messina_core::conn::{
    Address, CloseReason, ConnectSpec, Connection, ConnectionInfo, ConnectionOutput,
    ConnectionPlan, Reply, Role, StreamKey, Ticket,
};
use messina_core::error::connect::{ConnectCause, ConnectError, ConnectPhase, ConnectionError};

use messina_core::time::later;
use messina_core::wire::RequestOptionsRef;

use crate::lane::{Intake, Lane, Submission};
use crate::mailbox::Link;
use crate::notes::Notes;
use crate::runtime::Runtime;

/// How many slices one write gathers: a batch of small requests is one slice, a large value is one more.
const SLICES_MAX: usize = 8;
/// How many bytes one turn reads before other tasks get their chance.
const READ_BUDGET: usize = 256 * 1024;
/// A batch below this size may wait one poll for company.
const SMALL_BATCH: usize = 8;

/// What a connection's task is told by the session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Whether a small batch waits one poll for company.
    pub(crate) coalesce: bool,
    /// How many requests the lane takes, its backlog included.
    pub(crate) in_flight_max: u32,
    /// How many of them can be on the wire.
    pub(crate) streams_max: u32,
}

/// Opens one connection and drives it until it ends; reports to the control task what happens.
pub(crate) async fn run<R: Runtime>(
    runtime: R,
    link: Arc<Link>,
    notes: Arc<Notes>,
    spec: ConnectSpec,
    plan: Box<ConnectionPlan>,
    settings: Settings,
) {
    let mut report = Report {
        link,
        address: spec.address.clone(),
        phase: Phase::Opening,
    };
    let deadline = later(runtime.now(), plan.session.connection.connect_timeout);
    match open(&runtime, &report.link, spec, deadline).await {
        Ok(stream) => ConnTask::new(runtime, stream, *plan, report, notes, settings).await,
        Err(cause) => report.connect_failed(ConnectPhase::Tcp, cause),
    }
}

async fn open<R: Runtime>(
    runtime: &R,
    link: &Link,
    spec: ConnectSpec,
    deadline: Instant,
) -> Result<R::Stream, ConnectCause> {
    let mut connect = pin!(runtime.connect(spec));
    let mut sleep = pin!(runtime.sleep_until(deadline));
    poll_fn(|cx| {
        if let Poll::Ready(reason) = link.poll_disconnect(cx) {
            return Poll::Ready(Err(ConnectCause::GivenUp(reason)));
        }
        if let Poll::Ready(result) = connect.as_mut().poll(cx) {
            return Poll::Ready(result.map_err(|error| ConnectCause::Io(error.into())));
        }
        sleep.as_mut().poll(cx).map(|()| Err(ConnectCause::Timeout))
    })
    .await
}

/// Tells the control task the end of the connection exactly once, even when the executor drops the task.
struct Report {
    link: Arc<Link>,
    address: Address,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    Open,
    Over,
}

impl Report {
    fn connected(&mut self, lane: Arc<Lane>) {
        self.phase = Phase::Open;
        self.link.connected(lane);
    }

    fn connect_failed(&mut self, phase: ConnectPhase, cause: ConnectCause) {
        let address = self.address.clone();
        self.ended(ConnectionError::from(ConnectError {
            address,
            phase,
            cause,
        }));
    }

    fn ended(&mut self, error: ConnectionError) {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Open => self.link.closed(error),
            Phase::Opening => self
                .link
                .connect_failed(ConnectError::of_end(self.address.clone(), error)),
            Phase::Over => (),
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.ended(dropped());
    }
}

/// The end of a connection whose task the executor has dropped.
fn dropped() -> ConnectionError {
    ConnectionError::Closed(CloseReason::RuntimeGone)
}

struct ConnTask<R: Runtime> {
    runtime: R,
    stream: R::Stream,
    conn: Connection,
    lane: Option<Arc<Lane>>,
    report: Report,
    notes: Arc<Notes>,
    settings: Settings,
    intake: Intake,
    /// The stream of each submitted ticket, by the ticket's slot, so that it can be abandoned.
    streams: Vec<Option<(Ticket, StreamKey)>>,
    /// What was answered without the connection: requests that it did not take.
    refused: Vec<(Ticket, Reply)>,
    /// Room for the wakers of one delivery.
    wakers: Vec<Waker>,
    /// A waker of this task, to be left at the lane.
    spare: Option<Waker>,
    sleep: Pin<Box<R::Sleep>>,
    /// When the timer fires; nothing once it has.
    armed: Option<Instant>,
    yielded: bool,
    /// Server events come on the control connection only.
    control: bool,
}

// Nothing in it is pinned in place.
impl<R: Runtime> Unpin for ConnTask<R> {}

impl<R: Runtime> ConnTask<R> {
    fn new(
        runtime: R,
        stream: R::Stream,
        plan: ConnectionPlan,
        report: Report,
        notes: Arc<Notes>,
        settings: Settings,
    ) -> Self {
        let now = runtime.now();
        let sleep = Box::pin(runtime.sleep_until(now));
        let control = plan.role == Role::Control;
        Self {
            control,
            conn: Connection::new(now, plan),
            runtime,
            stream,
            lane: None,
            report,
            notes,
            settings,
            intake: Intake::default(),
            streams: Vec::new(),
            refused: Vec::new(),
            wakers: Vec::new(),
            spare: None,
            sleep,
            armed: None,
            yielded: false,
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = self.runtime.now();
        if self.armed.is_some_and(|at| at <= now) {
            self.armed = None;
            self.conn.handle_timeout(now);
            self.give_back_memory();
        }
        let batch = self.take(now, cx);
        if self.waits_for_company(batch) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.write(now, cx);
        let more = self.read(now, cx);
        if self.hand_out(cx) {
            // An encrypted connection says that it ends here on purpose, if the socket takes it at once.
            self.write(now, cx);
            return Poll::Ready(());
        }
        self.write(now, cx);
        self.arm(cx);
        if more {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Takes what callers handed in and encodes it; returns how many requests that were.
    fn take(&mut self, now: Instant, cx: &Context<'_>) -> usize {
        let Some(lane) = &self.lane else {
            if let Poll::Ready(reason) = self.report.link.poll_disconnect(cx) {
                self.conn.close(now, reason);
            }
            return 0;
        };
        if !self
            .spare
            .as_ref()
            .is_some_and(|spare| spare.will_wake(cx.waker()))
        {
            self.spare = Some(cx.waker().clone());
        }
        lane.take(&mut self.intake, &mut self.spare);
        for ticket in self.intake.abandoned.drain(..) {
            let stream = slot_of(ticket).and_then(|slot| self.streams.get(slot));
            if let Some(Some((owner, key))) = stream
                && *owner == ticket
            {
                self.conn.abandon(now, *key);
            }
        }
        let batch = self.intake.inbox.len();
        self.submit_all(now);
        if let Some(reason) = self.intake.drain.take() {
            self.conn.drain(now, reason);
        }
        if let Some(reason) = self.intake.close.take() {
            self.conn.close(now, reason);
        }
        batch
    }

    /// Submits what was handed in: in one piece where that is possible.
    fn submit_all(&mut self, now: Instant) {
        let mut inbox = std::mem::take(&mut self.intake.inbox);
        let (conn, streams) = (&mut self.conn, &mut self.streams);
        let whole = self.intake.arena.whole().filter(|_| !inbox.is_empty());
        let taken = whole.is_some_and(|frames| {
            let requests = inbox.iter().map(Submission::adopted);
            conn.submit_encoded(now, frames, requests, |ticket, key| {
                note(streams, ticket, key);
            })
        });
        if !taken {
            for submission in inbox.drain(..) {
                self.submit(now, submission);
            }
        }
        inbox.clear();
        self.intake.inbox = inbox;
        self.intake.arena.clear();
    }

    fn submit(&mut self, now: Instant, submission: Submission) {
        let Submission {
            ticket,
            deadline,
            frame,
            withdrawn,
        } = submission;
        if withdrawn {
            return;
        }
        let request = self.intake.arena.request(frame);
        let options = RequestOptionsRef::default();
        let result = self.conn.submit(now, ticket, request, &options, deadline);
        match result {
            Ok(key) => note(&mut self.streams, ticket, key),
            Err(error) => {
                self.refused.push((ticket, Reply::Failed(error.into())));
            }
        }
    }

    /// Says whether to let other callers join a small batch: never for a lone request, at most once in a row.
    fn waits_for_company(&mut self, batch: usize) -> bool {
        let others = usize::try_from(self.intake.in_flight)
            .unwrap_or(usize::MAX)
            .saturating_sub(batch);
        let waits = self.settings.coalesce
            && !self.yielded
            && 0 < batch
            && batch < SMALL_BATCH
            && 0 < others;
        self.yielded = waits;
        waits
    }

    fn write(&mut self, now: Instant, cx: &mut Context<'_>) {
        loop {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.conn.poll_transmit(&mut slices);
            if count == 0 {
                return;
            }
            let slices = slices.get(..count).unwrap_or(&[]);
            let wrote = match slices {
                [one] => Pin::new(&mut self.stream).poll_write(cx, one),
                many => Pin::new(&mut self.stream).poll_write_vectored(cx, many),
            };
            match wrote {
                Poll::Ready(Ok(0)) => {
                    return self.conn.handle_write_error(now, io::ErrorKind::WriteZero);
                }
                Poll::Ready(Ok(len)) => self.conn.handle_transmitted(now, len),
                Poll::Ready(Err(error)) => return self.conn.handle_write_error(now, error),
                Poll::Pending => return,
            }
        }
    }

    /// Reads until the socket is empty; returns whether the budget ended first.
    fn read(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        if self.control && self.report.link.poll_room(cx).is_pending() {
            return false;
        }
        let mut budget = READ_BUDGET;
        loop {
            let buffer = self.conn.recv_buffer();
            if buffer.is_empty() {
                // The connection has ended and reads no more.
                return false;
            }
            match Pin::new(&mut self.stream).poll_read(cx, buffer) {
                Poll::Ready(Ok(0)) => {
                    self.conn.handle_eof(now);
                    return false;
                }
                Poll::Ready(Ok(len)) => {
                    self.conn.handle_received(now, len);
                    budget = budget.saturating_sub(len);
                    if budget == 0 {
                        return true;
                    }
                }
                Poll::Ready(Err(error)) => {
                    self.conn.handle_io_error(now, error);
                    return false;
                }
                Poll::Pending => return false,
            }
        }
    }

    /// Hands out what the connection has to say; returns whether that was its last word.
    fn hand_out(&mut self, cx: &Context<'_>) -> bool {
        let mut end = None;
        loop {
            if let Some(lane) = &self.lane {
                let (refused, conn) = (&mut self.refused, &mut self.conn);
                lane.deliver_done(conn, &mut self.wakers);
                lane.deliver(
                    || refused.pop().or_else(|| conn.poll_reply()),
                    &mut self.wakers,
                );
            }
            let Some(output) = self.conn.poll_output() else {
                break;
            };
            match output {
                ConnectionOutput::Ready(info) => self.ready(info, cx),
                ConnectionOutput::Event(event) => self.report.link.event(event),
                ConnectionOutput::Note(note) => self.notes.push(note),
                ConnectionOutput::Reported(document) => self.report.link.reported(document),
                ConnectionOutput::Draining(error) => self.report.link.draining(error),
                ConnectionOutput::Closed(error) => end = Some(error),
                _ => (),
            }
        }
        let Some(error) = end else { return false };
        if let Some(lane) = &self.lane {
            lane.fail(&error);
        }
        self.report.ended(error);
        true
    }

    /// Gives back what a burst of requests made grow; the timer of an idle connection fires for its keepalive.
    fn give_back_memory(&mut self) {
        if self
            .lane
            .as_ref()
            .is_some_and(|lane| lane.give_back_memory())
        {
            self.intake = Intake::default();
            self.streams = Vec::new();
            self.refused = Vec::new();
            self.wakers = Vec::new();
        }
    }

    fn ready(&mut self, info: ConnectionInfo, cx: &Context<'_>) {
        let lane = Arc::new(Lane::new(
            info,
            self.settings.in_flight_max,
            self.settings.streams_max,
        ));
        self.lane = Some(Arc::clone(&lane));
        self.report.connected(lane);
        // Callers may be quick: the lane has no waker yet.
        cx.waker().wake_by_ref();
    }

    /// Arms the timer when the next deadline is earlier than the armed one; a later one is met by firing early.
    fn arm(&mut self, cx: &mut Context<'_>) {
        let Some(at) = self.conn.poll_timeout() else {
            return;
        };
        if self.armed.is_some_and(|armed| armed <= at) {
            return;
        }
        R::reset(self.sleep.as_mut(), at);
        self.armed = Some(at);
        if self.sleep.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}

impl<R: Runtime> Future for ConnTask<R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.get_mut().turn(cx)
    }
}

impl<R: Runtime> Drop for ConnTask<R> {
    fn drop(&mut self) {
        if let Some(lane) = &self.lane {
            // Does nothing after a regular end; an executor that goes away ends the connection here.
            lane.fail(&dropped());
        }
    }
}

/// Notes the stream of a ticket.
#[inline]
fn note(streams: &mut Vec<Option<(Ticket, StreamKey)>>, ticket: Ticket, key: StreamKey) {
    let Some(slot) = slot_of(ticket) else { return };
    if streams.len() <= slot {
        streams.resize(slot + 1, None);
    }
    if let Some(stream) = streams.get_mut(slot) {
        *stream = Some((ticket, key));
    }
}

fn slot_of(ticket: Ticket) -> Option<usize> {
    usize::try_from(ticket.0 & u64::from(u32::MAX)).ok()
}
