//! One request from its start to its answer, in the caller's own future.
//! No task, no channel and no timer of its own in the common case; the connection enforces the deadline.
//!
//! Most requests are answered by the first node that is asked. Such a request goes straight: it costs no
//! `Execution`, which is made only when something else comes back.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use messina_core::config::profile::ExecutionProfile;
use messina_core::conn::Ticket;
use messina_core::error::connect::{AttemptError, AttemptErrorKind, Fate};
use messina_core::error::protocol::FrameEncodeError;
use messina_core::error::request::{Attempt, RequestError, RequestErrorKind};
use messina_core::exec::statement::{RequestSettings, StatementOptions};
use messina_core::exec::straight::{STRAIGHT, first_target, goes_straight};
use messina_core::exec::targets::{Planned, Target};
use messina_core::exec::{
    AttemptId, Connections, Coordinator, Execution, ExecutionOutput, ExecutionPlan,
};
use messina_core::policy::load_balancing::PlanRequest;
use messina_core::routing::{HostIdx, Loads, Routing, Shard, TableIdx, Token};
use messina_core::types::EncodedValues;
use messina_core::wire::{
    Opcode, ProtocolFeatures, RequestOptionsRef, RequestRef, Response, ResponseFrame, ResultBody,
    ValuesRef,
};

use crate::lane::{Arena, Delivery, Lane, Refused};
use crate::mailbox::Mailbox;
use crate::metrics::Detour;
use crate::runtime::Runtime;
use crate::session::Shared;
use crate::source::{Encoded, Source};

/// A request that is under way.
pub(crate) enum Call<R: Runtime> {
    New(Aim),
    Straight(Straight),
    Winding(Box<Winding<R>>),
}

/// Where a request is to go, beside the policy's choice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Aim {
    pub(crate) only: Option<Planned>,
    pub(crate) prefer: Option<Planned>,
    /// Whether the server may not cut the answer into pages.
    pub(crate) unpaged: bool,
}

/// The answer to a request, still unread.
pub(crate) struct Answer<'a> {
    pub(crate) frame: &'a ResponseFrame,
    pub(crate) features: &'a ProtocolFeatures,
    pub(crate) coordinator: Option<Coordinator>,
    /// What failed before the answer came.
    pub(crate) attempts: &'a [Attempt],
    /// Whether a copy of the request brought it.
    pub(crate) won_by_copy: bool,
}

/// A request that waits for the answer of the first node asked.
pub(crate) struct Straight {
    flight: InFlight,
    place: Planned,
    coordinator: Option<Coordinator>,
    since: Instant,
    settings: RequestSettings,
    table: Option<TableIdx>,
    token: Option<Token>,
    seed: u64,
}

impl<R: Runtime> Call<R> {
    /// Plans a request; nothing is sent before the first poll.
    pub(crate) const fn new(aim: Aim) -> Self {
        Self::New(aim)
    }

    /// Drives the request; `read` makes something of its answer.
    #[inline]
    pub(crate) fn poll<S: Source, T>(
        &mut self,
        shared: &Shared<R>,
        source: &mut S,
        cx: &mut Context<'_>,
        read: impl FnOnce(&S, Answer<'_>) -> Result<T, RequestError>,
    ) -> Poll<Result<T, RequestError>> {
        let Self::Straight(straight) = self else {
            let waits = matches!(self, Self::New(_)) && self.start(shared, source, cx)?;
            return if waits {
                Poll::Pending
            } else {
                self.wind(shared, source, cx, read)
            };
        };
        let Delivery { at, reply } = ready!(straight.flight.poll(cx));
        match &reply {
            Ok(frame) if frame.header.opcode == Opcode::Result => {
                let features = &straight.flight.lane.info().features;
                let coordinator = straight.coordinator;
                Poll::Ready(read(
                    source,
                    Answer {
                        frame,
                        features,
                        coordinator,
                        attempts: &[],
                        won_by_copy: false,
                    },
                ))
            }
            _ => {
                self.leave_straight(shared, source, at, reply);
                self.wind(shared, source, cx, read)
            }
        }
    }

    /// Sends the request; returns whether it went straight.
    #[inline]
    fn start(
        &mut self,
        shared: &Shared<R>,
        source: &impl Source,
        cx: &Context<'_>,
    ) -> Result<bool, RequestError> {
        let Self::New(aim) = *self else {
            return Ok(false);
        };
        if shared.published.is_closing() {
            return Err(RequestError::new(RequestErrorKind::Closed));
        }
        let now = shared.runtime.now();
        let options = source.options();
        let profile = options
            .and_then(|options| options.profile.as_ref())
            .unwrap_or(&shared.profile);
        let settings = settle(shared, source, profile, now, aim);
        let seed = shared.next_seed();
        let only = aim
            .only
            .or_else(|| options.and_then(|options| options.target));
        let routing = shared.published.routing();
        let mut scratch = EncodedValues::new();
        let encoded = source
            .encode(&routing, &mut scratch)
            .map_err(RequestError::from)?;
        let straight = only.is_none() && aim.prefer.is_none() && source.is_plain();
        if straight && goes_straight(profile) {
            let outline = Outline {
                now,
                settings,
                seed,
            };
            if let Some(straight) = outline.send(shared, source, &encoded, profile, &routing, cx) {
                *self = Self::Straight(straight);
                return Ok(true);
            }
        }
        let mut plan = ExecutionPlan::new(source.kind(), Arc::clone(profile), settings, seed);
        (plan.table, plan.token) = (encoded.table, encoded.token);
        plan.conditional = source.is_conditional();
        (plan.only, plan.prefer) = (only, aim.prefer);
        let mut execution = Execution::new(plan);
        execution.start(now, &routing, &LaneConnections(&shared.mailbox));
        *self = Self::Winding(Box::new(Winding::new(shared, execution)));
        Ok(false)
    }

    /// Hands a request that was not simply answered over to an execution.
    #[cold]
    fn leave_straight(
        &mut self,
        shared: &Shared<R>,
        source: &impl Source,
        at: Instant,
        reply: Result<ResponseFrame, AttemptError>,
    ) {
        let Self::Straight(straight) = self else {
            return;
        };
        let options = source.options();
        let profile = options
            .and_then(|options| options.profile.as_ref())
            .unwrap_or(&shared.profile);
        let mut plan = ExecutionPlan::new(
            source.kind(),
            Arc::clone(profile),
            straight.settings,
            straight.seed,
        );
        (plan.table, plan.token) = (straight.table, straight.token);
        plan.conditional = source.is_conditional();
        let Planned { host, shard } = straight.place;
        let lane = Arc::clone(&straight.flight.lane);
        let target = Target {
            host,
            shard,
            handle: Arc::clone(&lane),
        };
        let mut execution = Execution::sent_straight(plan, straight.since, target);
        let routing = shared.published.routing();
        execution.handle_reply(
            at,
            STRAIGHT,
            reply,
            &routing,
            &LaneConnections(&shared.mailbox),
        );
        let mut winding = Winding::new(shared, execution);
        winding.answered = Some(lane);
        *self = Self::Winding(Box::new(winding));
    }

    #[cold]
    fn wind<S: Source, T>(
        &mut self,
        shared: &Shared<R>,
        source: &mut S,
        cx: &mut Context<'_>,
        read: impl FnOnce(&S, Answer<'_>) -> Result<T, RequestError>,
    ) -> Poll<Result<T, RequestError>> {
        let Self::Winding(winding) = self else {
            let kind = RequestErrorKind::Internal("a request is polled after its end");
            return Poll::Ready(Err(RequestError::new(kind)));
        };
        let outcome = ready!(winding.poll(shared, source, cx));
        shared
            .counters
            .retries
            .add(winding.execution.retries().into());
        winding.detour = None;
        shared.counters.requests_failed.add(outcome.is_err().into());
        let frame = outcome.map_err(|error| shared.with_absent_nodes(error))?;
        let features = winding
            .answered
            .as_ref()
            .map(|lane| lane.info().features)
            .unwrap_or_default();
        let place = winding.execution.coordinator();
        let shard = winding.answered.as_ref().and_then(|lane| lane.shard());
        let coordinator = place
            .and_then(|place| Coordinator::of(place, &shared.published.routing()))
            .map(|own| own.served_on(shard));
        let attempts = winding.execution.attempts();
        Poll::Ready(read(
            source,
            Answer {
                frame: &frame,
                features: &features,
                coordinator,
                attempts,
                won_by_copy: winding.execution.won_by_copy(),
            },
        ))
    }
}

/// A request about to go straight.
struct Outline {
    now: Instant,
    settings: RequestSettings,
    seed: u64,
}

impl Outline {
    /// Sends the request to its first node; nothing when there is none, or when its lane refuses: the long way
    /// chooses the same node again and reports why.
    #[inline]
    fn send<R: Runtime>(
        self,
        shared: &Shared<R>,
        source: &impl Source,
        encoded: &Encoded<'_>,
        profile: &ExecutionProfile,
        routing: &Routing<Arc<Lane>>,
        cx: &Context<'_>,
    ) -> Option<Straight> {
        let Self {
            now,
            settings,
            seed,
        } = self;
        let request = PlanRequest {
            table: encoded.table,
            token: encoded.token,
            stable: source.is_conditional() || settings.consistency.is_serial(),
            seed,
        };
        let connections = LaneConnections(&shared.mailbox);
        let target = first_target(&request, profile, routing, &connections)?;
        let lane = target.handle;
        let submitted = lane.submit(settings.deadline, cx.waker(), |arena, features| {
            encode(source, &settings, encoded.values, features, arena)
        });
        let ticket = submitted.ok()?;
        let place = Planned {
            host: target.host,
            shard: target.shard,
        };
        let coordinator = Coordinator::of(place, routing);
        let coordinator = coordinator.map(|own| own.served_on(lane.shard()));
        Some(Straight {
            flight: InFlight::new(lane, ticket),
            place,
            coordinator,
            since: now,
            settings,
            table: encoded.table,
            token: encoded.token,
            seed,
        })
    }
}

/// A request that a lane has taken; dropping it before the reply is there gives the request up.
struct InFlight {
    lane: Arc<Lane>,
    ticket: Ticket,
    waits: bool,
}

impl InFlight {
    #[inline]
    const fn new(lane: Arc<Lane>, ticket: Ticket) -> Self {
        Self {
            lane,
            ticket,
            waits: true,
        }
    }

    #[inline]
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Delivery> {
        let delivery = ready!(self.lane.poll_reply(self.ticket, cx));
        self.waits = false;
        Poll::Ready(delivery)
    }
}

impl Drop for InFlight {
    #[inline]
    fn drop(&mut self) {
        if self.waits {
            self.lane.abandon(self.ticket);
        }
    }
}

/// Settles the options of a request.
#[inline]
fn settle<R: Runtime>(
    shared: &Shared<R>,
    source: &impl Source,
    profile: &ExecutionProfile,
    now: Instant,
    aim: Aim,
) -> RequestSettings {
    let timestamp = || shared.timestamp(now);
    let mut settings = match source.options() {
        Some(options) => options.settle(now, profile, timestamp),
        None => StatementOptions::default().settle(now, profile, timestamp),
    };
    settings.idempotent = source.is_idempotent(settings.idempotent);
    if aim.unpaged {
        settings.page_size = None;
    }
    settings
}

/// A request whose way is decided by an execution, over several attempts if need be.
pub(crate) struct Winding<R: Runtime> {
    execution: Execution<Arc<Lane>>,
    flights: Vec<Flight>,
    /// Whose reply was taken last.
    answered: Option<Arc<Lane>>,
    timer: Option<Timer<R>>,
    /// Lets the end of the session wait for this request between two attempts.
    detour: Option<Detour>,
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
    fn new(shared: &Shared<R>, execution: Execution<Arc<Lane>>) -> Self {
        Self {
            execution,
            flights: Vec::new(),
            answered: None,
            timer: None,
            detour: Some(shared.counters.detour()),
        }
    }

    fn poll(
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
                Poll::Ready(delivery) => {
                    let flight = self.flights.swap_remove(at);
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
        let Delivery { at, reply } = delivery;
        if let (true, Ok(frame)) = (flight.preparing, &reply) {
            bind(source, frame, &flight.flight.lane.info().features, &routing)?;
        }
        self.execution.handle_reply(
            at,
            flight.attempt,
            reply,
            &routing,
            &LaneConnections(&shared.mailbox),
        );
        self.answered = Some(Arc::clone(&flight.flight.lane));
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

/// Writes the frame of a request.
#[inline]
fn encode(
    source: &impl Source,
    settings: &RequestSettings,
    values: ValuesRef<'_>,
    features: &ProtocolFeatures,
    arena: &mut Arena,
) -> Result<Opcode, FrameEncodeError> {
    source.lend(settings, values, features, |request, options| {
        request.encode(arena, features, 0, options)?;
        Ok(request.opcode())
    })
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
    source.bind(body, routing).map_err(RequestError::from)
}

/// Tells an execution about lanes, and the control task about shards without one.
struct LaneConnections<'a>(&'a Mailbox);

impl Loads<Arc<Lane>> for LaneConnections<'_> {
    #[inline]
    fn in_flight(&self, handle: &Arc<Lane>) -> u32 {
        handle.in_flight()
    }

    #[inline]
    fn is_full(&self, handle: &Arc<Lane>) -> bool {
        handle.is_full()
    }

    fn missed(&self, host: HostIdx, shard: Shard) {
        self.0.missed(host, shard);
    }
}

impl Connections<Arc<Lane>> for LaneConnections<'_> {
    fn features(&self, handle: &Arc<Lane>) -> ProtocolFeatures {
        handle.info().features
    }
}
