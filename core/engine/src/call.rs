//! One request from its start to its answer, in the caller's own future: runs the `Execution` over lanes.
//! No task, no channel and no timer of its own in the common case; the connection enforces the deadline.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use messina_core::conn::Ticket;
use messina_core::error::connect::{AttemptError, AttemptErrorKind, Fate};
use messina_core::error::request::{RequestError, RequestErrorKind};
use messina_core::exec::result::QueryResult;
use messina_core::exec::statement::StatementOptions;
use messina_core::exec::targets::{Planned, Target};
use messina_core::exec::{
    AttemptId, Connections, Coordinator, Execution, ExecutionOutput, ExecutionPlan,
};
use messina_core::routing::{Loads, Routing};
use messina_core::wire::{
    Opcode, ProtocolFeatures, Response, ResponseFrame, ResultBody, ValuesRef,
};

use crate::lane::{Delivery, Lane, Refused};
use crate::outgoing::Outgoing;
use crate::runtime::Runtime;
use crate::session::Shared;
use crate::source::Source;

/// A request that is under way.
pub(crate) struct Call<R: Runtime> {
    execution: Execution<Arc<Lane>>,
    started: bool,
    /// The attempt that waits for its reply; nearly always the only one.
    flight: Option<Flight>,
    /// Further attempts that race with it.
    others: Vec<Flight>,
    /// Whose reply was taken last.
    answered: Option<Arc<Lane>>,
    timer: Option<Timer<R>>,
}

/// The answer to a request, still unread.
pub(crate) struct Answer {
    pub(crate) frame: ResponseFrame,
    pub(crate) features: ProtocolFeatures,
    pub(crate) coordinator: Option<Coordinator>,
}

/// Where a request is to go, beside the policy's choice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Aim {
    pub(crate) only: Option<Planned>,
    pub(crate) prefer: Option<Planned>,
    /// Whether the server may not cut the answer into pages.
    pub(crate) unpaged: bool,
}

struct Flight {
    attempt: AttemptId,
    lane: Arc<Lane>,
    ticket: Ticket,
    /// A PREPARE that goes ahead of the request itself.
    preparing: bool,
}

/// Armed only for pauses between attempts and for copies of slow requests.
struct Timer<R: Runtime> {
    sleep: Pin<Box<R::Sleep>>,
    at: Instant,
}

impl<R: Runtime> Call<R> {
    /// Plans a request; nothing is sent before the first poll.
    pub(crate) fn new(shared: &Shared<R>, source: &impl Source, aim: Aim) -> Self {
        let now = shared.runtime.now();
        let options = source.options();
        let profile = options
            .and_then(|options| options.profile.as_ref())
            .unwrap_or(&shared.profile);
        let timestamp = || shared.timestamp();
        let mut settings = match options {
            Some(options) => options.settle(now, profile, timestamp),
            None => StatementOptions::default().settle(now, profile, timestamp),
        };
        settings.idempotent = source.is_idempotent(settings.idempotent);
        if aim.unpaged {
            settings.page_size = None;
        }
        let mut plan = ExecutionPlan::new(
            source.kind(),
            Arc::clone(profile),
            settings,
            shared.next_seed(),
        );
        let routing = shared.published.routing();
        (plan.table, plan.token) = source.route(&routing);
        plan.conditional = source.is_conditional();
        plan.only = aim
            .only
            .or_else(|| options.and_then(|options| options.target));
        plan.prefer = aim.prefer;
        let mut execution = Execution::new(plan);
        execution.start(now, &routing, &LaneConnections);
        Self {
            execution,
            started: false,
            flight: None,
            others: Vec::new(),
            answered: None,
            timer: None,
        }
    }

    /// Drives the request.
    pub(crate) fn poll(
        &mut self,
        shared: &Shared<R>,
        source: &mut impl Source,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Answer, RequestError>> {
        if self.started {
            self.take_replies(shared, source, cx)?;
        }
        self.started = true;
        loop {
            if let Some(result) = self.perform(shared, source, cx) {
                return Poll::Ready(result);
            }
            if !self.poll_timer(shared, cx) {
                return Poll::Pending;
            }
        }
    }

    /// Lists what failed before the answer came.
    pub(crate) fn finish(&self, result: QueryResult) -> QueryResult {
        match self.execution.attempts() {
            [] => result,
            attempts => result.with_attempts(attempts),
        }
    }

    fn take_replies(
        &mut self,
        shared: &Shared<R>,
        source: &mut impl Source,
        cx: &Context<'_>,
    ) -> Result<(), RequestError> {
        if let Some(flight) = &self.flight {
            if let Poll::Ready(delivery) = flight.lane.poll_reply(flight.ticket, cx) {
                if let Some(flight) = self.flight.take() {
                    self.handle_reply(shared, source, flight, delivery)?;
                }
            }
        }
        let mut at = 0;
        while let Some(flight) = self.others.get(at) {
            match flight.lane.poll_reply(flight.ticket, cx) {
                Poll::Ready(delivery) => {
                    let flight = self.others.swap_remove(at);
                    self.handle_reply(shared, source, flight, delivery)?;
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
        flight: Flight,
        delivery: Delivery,
    ) -> Result<(), RequestError> {
        let routing = shared.published.routing();
        if flight.preparing {
            if let Ok(frame) = &delivery.reply {
                bind(source, frame, &flight.lane.info().features, &routing)?;
            }
        }
        let Delivery { at, reply } = delivery;
        self.execution
            .handle_reply(at, flight.attempt, reply, &routing, &LaneConnections);
        self.answered = Some(flight.lane);
        Ok(())
    }

    /// Does what the execution asks for; returns its outcome when it is over.
    fn perform(
        &mut self,
        shared: &Shared<R>,
        source: &impl Source,
        cx: &Context<'_>,
    ) -> Option<Result<Answer, RequestError>> {
        while let Some(output) = self.execution.poll_output() {
            match output {
                ExecutionOutput::Send {
                    attempt,
                    to,
                    params,
                } => {
                    let settings = self.execution.plan().settings;
                    let request = source.outgoing(&settings, params.consistency);
                    self.send(
                        shared,
                        cx,
                        attempt,
                        to,
                        request,
                        source.values(),
                        params.deadline,
                        false,
                    );
                }
                ExecutionOutput::Prepare {
                    attempt,
                    to,
                    text,
                    keyspace,
                    deadline,
                } => {
                    let request = Outgoing::Prepare { text, keyspace };
                    self.send(
                        shared,
                        cx,
                        attempt,
                        to,
                        request,
                        ValuesRef::default(),
                        deadline,
                        true,
                    );
                }
                ExecutionOutput::Abandon { attempt } => {
                    if let Some(flight) = self.take_flight(attempt) {
                        flight.lane.abandon(flight.ticket);
                    }
                }
                ExecutionOutput::Done(result) => return Some(self.answer(shared, result)),
                _ => (),
            }
        }
        None
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of one output of the execution"
    )]
    fn send(
        &mut self,
        shared: &Shared<R>,
        cx: &Context<'_>,
        attempt: AttemptId,
        to: Target<Arc<Lane>>,
        request: Outgoing,
        values: ValuesRef<'_>,
        deadline: Option<Instant>,
        preparing: bool,
    ) {
        let lane = to.handle;
        match lane.submit(request, values, deadline, cx.waker()) {
            Ok(ticket) => {
                let flight = Flight {
                    attempt,
                    lane,
                    ticket,
                    preparing,
                };
                match &mut self.flight {
                    None => self.flight = Some(flight),
                    Some(_) => self.others.push(flight),
                }
            }
            Err(refused) => {
                let kind = match refused {
                    Refused::Closed(error) => AttemptErrorKind::Connection(error),
                    Refused::Full => AttemptErrorKind::Overloaded,
                };
                let reply = Err(AttemptError::new(kind, Fate::NotSent));
                let routing = shared.published.routing();
                self.execution.handle_reply(
                    shared.runtime.now(),
                    attempt,
                    reply,
                    &routing,
                    &LaneConnections,
                );
            }
        }
    }

    fn take_flight(&mut self, attempt: AttemptId) -> Option<Flight> {
        if self
            .flight
            .as_ref()
            .is_some_and(|flight| flight.attempt == attempt)
        {
            return self.flight.take();
        }
        let at = self
            .others
            .iter()
            .position(|flight| flight.attempt == attempt)?;
        Some(self.others.swap_remove(at))
    }

    fn answer(
        &mut self,
        shared: &Shared<R>,
        result: Result<ResponseFrame, RequestError>,
    ) -> Result<Answer, RequestError> {
        let frame = result?;
        let features = self
            .answered
            .take()
            .map(|lane| lane.info().features)
            .unwrap_or_default();
        let place = self.execution.coordinator();
        let coordinator =
            place.and_then(|place| Coordinator::of(place, &shared.published.routing()));
        Ok(Answer {
            frame,
            features,
            coordinator,
        })
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
        self.execution
            .handle_timeout(now, &shared.published.routing(), &LaneConnections);
        true
    }
}

impl<R: Runtime> Drop for Call<R> {
    fn drop(&mut self) {
        for flight in self.flight.take().into_iter().chain(self.others.drain(..)) {
            flight.lane.abandon(flight.ticket);
        }
    }
}

/// Binds the values of a text that has just been prepared; an answer that is no PREPARED is left to the execution.
fn bind(
    source: &mut impl Source,
    frame: &ResponseFrame,
    features: &ProtocolFeatures,
    routing: &Routing<Arc<Lane>>,
) -> Result<(), RequestError> {
    if frame.header.opcode != Opcode::Result || source.announced().is_some() {
        return Ok(());
    }
    let Ok(envelope) = frame.parse(features) else {
        return Ok(());
    };
    let Response::Result(ResultBody::Prepared(body)) = envelope.response else {
        return Ok(());
    };
    source
        .bind(body, routing)
        .map_err(|error| RequestError::new(RequestErrorKind::Bind(error)))
}

/// Tells an execution about lanes.
pub(crate) struct LaneConnections;

impl Loads<Arc<Lane>> for LaneConnections {
    fn in_flight(&self, handle: &Arc<Lane>) -> u32 {
        handle.in_flight()
    }
}

impl Connections<Arc<Lane>> for LaneConnections {
    fn features(&self, handle: &Arc<Lane>) -> ProtocolFeatures {
        handle.info().features
    }
}
