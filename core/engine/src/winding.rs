//! A request whose way an execution decides: several attempts, pauses, copies, a PREPARE in between.
//! The caller's own future drives it; what becomes of the answer is `call`'s.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use messina_core::conn::{Reply, Ticket};
use messina_core::error::connect::{AttemptError, AttemptErrorKind, Fate};
use messina_core::error::request::RequestError;
use messina_core::exec::preparing::read_prepared;
use messina_core::exec::{AttemptId, Execution, ExecutionOutput};
use messina_core::routing::Routing;
use messina_core::types::EncodedValues;
use messina_core::wire::{ProtocolFeatures, RequestOptionsRef, RequestRef, ResponseFrame};

use crate::call::{InFlight, LaneConnections, encode};
use crate::lane::{Lane, Refused};
use crate::metrics::Detour;
use crate::runtime::Runtime;
use crate::session::Shared;
use crate::source::Source;

/// A request whose way is decided by an execution, over several attempts if need be.
pub(crate) struct Winding<R: Runtime> {
    pub(crate) execution: Execution<Arc<Lane>>,
    flights: Vec<Flight>,
    /// Whose reply was taken last.
    pub(crate) answered: Option<Arc<Lane>>,
    timer: Option<Timer<R>>,
    /// Lets the end of the session wait for this request between two attempts.
    pub(crate) detour: Option<Detour>,
}

struct Flight {
    attempt: AttemptId,
    flight: InFlight,
    /// A PREPARE that goes ahead of the request itself.
    preparing: bool,
}

/// Armed only for pauses between attempts and for copies of slow requests.
struct Timer<R: Runtime> {
    sleep: Pin<Box<R::Sleep>>,
    at: Instant,
}

impl<R: Runtime> Winding<R> {
    pub(crate) fn new(shared: &Shared<R>, execution: Execution<Arc<Lane>>) -> Self {
        Self {
            execution,
            flights: Vec::new(),
            answered: None,
            timer: None,
            detour: Some(shared.counters.detour()),
        }
    }

    pub(crate) fn poll(
        &mut self,
        shared: &Shared<R>,
        source: &mut impl Source,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ResponseFrame, RequestError>> {
        self.take_replies(shared, source, cx)?;
        loop {
            if let Some(result) = self.perform(shared, source, cx) {
                return Poll::Ready(result);
            }
            if !self.poll_timer(shared, cx) {
                return Poll::Pending;
            }
        }
    }

    fn take_replies(
        &mut self,
        shared: &Shared<R>,
        source: &mut impl Source,
        cx: &Context<'_>,
    ) -> Result<(), RequestError> {
        let mut at = 0;
        while let Some(flight) = self.flights.get_mut(at) {
            match flight.flight.poll(cx) {
                Poll::Ready((lane, reply)) => {
                    let flight = self.flights.swap_remove(at);
                    self.handle_reply(shared, source, &flight, lane, reply)?;
                }
                Poll::Pending => at += 1,
            }
        }
        Ok(())
    }

    fn handle_reply(
        &mut self,
        shared: &Shared<R>,
        source: &mut impl Source,
        flight: &Flight,
        lane: Arc<Lane>,
        reply: Reply,
    ) -> Result<(), RequestError> {
        let routing = shared.published.routing();
        let at = shared.runtime.now();
        let reply = reply.into_frame(lane.info().features.version);
        if let (true, Ok(frame)) = (flight.preparing, &reply) {
            bind(source, frame, &lane.info().features, &routing)?;
        }
        self.execution.handle_reply(
            at,
            flight.attempt,
            reply,
            &routing,
            &LaneConnections(&shared.mailbox),
        );
        self.answered = Some(lane);
        Ok(())
    }

    /// Does what the execution asks for; returns its outcome when it is over.
    fn perform(
        &mut self,
        shared: &Shared<R>,
        source: &impl Source,
        cx: &Context<'_>,
    ) -> Option<Result<ResponseFrame, RequestError>> {
        while let Some(output) = self.execution.poll_output() {
            match output {
                ExecutionOutput::Send {
                    attempt,
                    to,
                    params,
                } => {
                    let mut settings = self.execution.plan().settings;
                    settings.consistency = params.consistency;
                    let mut scratch = EncodedValues::new();
                    let encoded = match source.encode(&shared.published.routing(), &mut scratch) {
                        Ok(encoded) => encoded,
                        Err(error) => return Some(Err(error.into())),
                    };
                    let submitted =
                        to.handle
                            .submit(params.deadline, cx.waker(), |arena, features| {
                                encode(source, &settings, encoded.values, features, arena)
                            });
                    self.sent(shared, attempt, to.handle, submitted, false);
                }
                ExecutionOutput::Prepare {
                    attempt,
                    to,
                    text,
                    keyspace,
                    deadline,
                } => {
                    let submitted = to.handle.submit(deadline, cx.waker(), |arena, features| {
                        let request = RequestRef::Prepare {
                            text: &text,
                            keyspace: keyspace.as_deref(),
                        };
                        request.encode(arena, features, 0, &RequestOptionsRef::default())?;
                        Ok(request.opcode())
                    });
                    self.sent(shared, attempt, to.handle, submitted, true);
                }
                ExecutionOutput::Abandon { attempt } => {
                    self.flights.retain(|flight| flight.attempt != attempt);
                }
                ExecutionOutput::Done(result) => return Some(result),
                _ => (),
            }
        }
        None
    }

    /// Keeps an attempt that a lane has taken, or reports that it has not.
    fn sent(
        &mut self,
        shared: &Shared<R>,
        attempt: AttemptId,
        lane: Arc<Lane>,
        submitted: Result<Ticket, Refused>,
        preparing: bool,
    ) {
        let kind = match submitted {
            Ok(ticket) => {
                let flight = InFlight::new(lane, ticket);
                return self.flights.push(Flight {
                    attempt,
                    flight,
                    preparing,
                });
            }
            Err(Refused::Closed(error)) => AttemptErrorKind::Connection(error),
            Err(Refused::Full) => AttemptErrorKind::Overloaded,
            Err(Refused::Encode(error)) => AttemptErrorKind::Encode(error),
        };
        let reply = Err(AttemptError::new(kind, Fate::NotSent));
        let (now, routing) = (shared.runtime.now(), shared.published.routing());
        self.execution.handle_reply(
            now,
            attempt,
            reply,
            &routing,
            &LaneConnections(&shared.mailbox),
        );
    }

    /// Waits for the execution's own deadline, if it has one; returns whether that has passed.
    fn poll_timer(&mut self, shared: &Shared<R>, cx: &mut Context<'_>) -> bool {
        let Some(at) = self.execution.poll_timeout() else {
            self.timer = None;
            return false;
        };
        let timer = self.timer.get_or_insert_with(|| {
            let sleep = Box::pin(shared.runtime.sleep_until(at));
            Timer { sleep, at }
        });
        if timer.at != at {
            R::reset(timer.sleep.as_mut(), at);
            timer.at = at;
        }
        if timer.sleep.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.timer = None;
        let now = shared.runtime.now().max(at);
        self.execution.handle_timeout(
            now,
            &shared.published.routing(),
            &LaneConnections(&shared.mailbox),
        );
        true
    }
}

/// Binds the values of a text that has just been prepared; an answer that is no PREPARED is left to the execution.
fn bind(
    source: &mut impl Source,
    frame: &ResponseFrame,
    features: &ProtocolFeatures,
    routing: &Routing<Arc<Lane>>,
) -> Result<(), RequestError> {
    if source.announced().is_some() {
        return Ok(());
    }
    match read_prepared(frame, features) {
        Ok(body) => source.bind(body, routing).map_err(RequestError::from),
        Err(_) => Ok(()),
    }
}
