//! One request from its start to its answer, in the caller's own future.
//! No task, no channel and no timer of its own in the common case; the connection enforces the deadline.
//!
//! Most requests are answered by the first node that is asked. Such a request goes straight: it costs no
//! `Execution`, which is made only when something else comes back. And most of those are plain EXECUTEs of a statement
//! that is ready: they settle no option and put no frame together.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use messina_core::config::profile::ExecutionProfile;
use messina_core::conn::{Reply, Ticket};
use messina_core::error::protocol::FrameEncodeError;
use messina_core::error::request::{Attempt, RequestError, RequestErrorKind};
use messina_core::exec::plan::{self, Aim, profile_of};
use messina_core::exec::prepared::Preparation;
use messina_core::exec::ready::Ready;
use messina_core::exec::statement::RequestSettings;
use messina_core::exec::straight::{STRAIGHT, first_target, goes_straight};
use messina_core::exec::targets::{Planned, Target};
use messina_core::exec::{Connections, Coordinator, Execution, ExecutionPlan};
use messina_core::policy::load_balancing::PlanRequest;
use messina_core::routing::{HostIdx, Loads, Routing, Shard};
use messina_core::types::EncodedValues;
use messina_core::wire::{Opcode, ProtocolFeatures, ResponseFrame, ValuesRef};

use crate::lane::{Arena, Lane};
use crate::mailbox::Mailbox;
use crate::runtime::Runtime;
use crate::session::Shared;
use crate::source::{Encoded, Source};
use crate::winding::Winding;

/// A request that is under way.
///
/// One place for each way it can go instead of an enum: what is usual is then looked at, left and dropped at little
/// cost.
pub(crate) struct Call<R: Runtime> {
    aim: Aim,
    started: bool,
    /// Set while the first node asked has it.
    straight: Option<Straight>,
    winding: Option<Box<Winding<R>>>,
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
    since: Instant,
    /// The timestamp that was drawn for it, which further attempts carry too.
    timestamp: i64,
    seed: u64,
    unpaged: bool,
}

impl Straight {
    /// Takes the reply, once it is there, and returns the lane that it came on; none is a bare Void.
    #[inline(always)] // On the path of every request.
    pub(crate) fn poll_into(
        &mut self,
        cx: &Context<'_>,
        reply: &mut Option<Reply>,
    ) -> Poll<Arc<Lane>> {
        self.flight.poll_into(cx, reply)
    }
}

impl<R: Runtime> Call<R> {
    /// Plans a request; nothing is sent before the first poll.
    pub(crate) const fn new(aim: Aim) -> Self {
        Self {
            aim,
            started: false,
            straight: None,
            winding: None,
        }
    }

    /// Returns the request while the first node asked has it.
    #[inline]
    pub(crate) const fn straight(&mut self) -> Option<&mut Straight> {
        self.straight.as_mut()
    }

    /// Drives the request; `read` makes something of its answer.
    pub(crate) fn poll<S: Source, T>(
        &mut self,
        shared: &Shared<R>,
        source: &mut S,
        cx: &mut Context<'_>,
        read: impl FnOnce(&S, Answer<'_>) -> Result<T, RequestError>,
    ) -> Poll<Result<T, RequestError>> {
        if let Some(straight) = &mut self.straight {
            let reply = ready!(straight.flight.poll(cx));
            return self.answered(shared, source, cx, reply, read);
        }
        if !self.started && self.start(shared, source, cx)? {
            return Poll::Pending;
        }
        self.wind(shared, source, cx, read)
    }

    /// Forgets a request that went straight and whose reply was taken.
    #[inline]
    pub(crate) fn end_straight(&mut self) {
        self.straight = None;
    }

    /// Makes something of the reply to a request that went straight.
    #[inline]
    pub(crate) fn answered<S: Source, T>(
        &mut self,
        shared: &Shared<R>,
        source: &mut S,
        cx: &mut Context<'_>,
        (lane, reply): (Arc<Lane>, Reply),
        read: impl FnOnce(&S, Answer<'_>) -> Result<T, RequestError>,
    ) -> Poll<Result<T, RequestError>> {
        match &reply {
            Reply::Frame(frame) if frame.header.opcode == Opcode::Result => {
                self.straight = None;
                let answer = Answer {
                    frame,
                    features: &lane.info().features,
                    coordinator: lane.coordinator().copied(),
                    attempts: &[],
                    won_by_copy: false,
                };
                Poll::Ready(read(source, answer))
            }
            _ => {
                self.leave_straight(shared, source, lane, reply);
                self.wind(shared, source, cx, read)
            }
        }
    }

    /// Says whether the request was sent, or has failed to be.
    #[inline]
    pub(crate) const fn is_started(&self) -> bool {
        self.started
    }

    /// Sends the request; returns whether it went straight.
    #[inline]
    pub(crate) fn start(
        &mut self,
        shared: &Shared<R>,
        source: &impl Source,
        cx: &Context<'_>,
    ) -> Result<bool, RequestError> {
        self.started = true;
        if shared.published.is_closing() {
            return Err(closing());
        }
        let seed = shared.next_seed();
        if self.aim.is_open()
            && let Some((ready, preparation)) = source.ready(&shared.profile)
            && let Some(straight) = send_ready(shared, source, ready, preparation, seed, cx)?
        {
            self.straight = Some(straight);
            return Ok(true);
        }
        self.start_any(shared, source, seed, cx)
    }

    /// Sends a request of any kind.
    #[inline(never)]
    fn start_any(
        &mut self,
        shared: &Shared<R>,
        source: &impl Source,
        seed: u64,
        cx: &Context<'_>,
    ) -> Result<bool, RequestError> {
        let aim = self.aim.within(source.options());
        let now = shared.runtime.now();
        let profile = profile_of(source.options(), &shared.profile);
        let mut drawn = None;
        let settings = settle(source, profile, now, aim.unpaged, || {
            *drawn.get_or_insert_with(|| shared.timestamp(now))
        });
        let routing = shared.published.routing();
        let mut scratch = EncodedValues::new();
        let encoded = source
            .encode(&routing, &mut scratch)
            .map_err(RequestError::from)?;
        let straight = aim.only.is_none() && aim.prefer.is_none() && source.is_plain();
        if straight && goes_straight(profile) {
            let outline = Outline {
                since: now,
                timestamp: drawn.unwrap_or_default(),
                settings,
                seed,
                unpaged: aim.unpaged,
            };
            if let Some(straight) = outline.send(shared, source, &encoded, profile, &routing, cx) {
                self.straight = Some(straight);
                return Ok(true);
            }
        }
        let mut plan = ExecutionPlan::new(source.kind(), Arc::clone(profile), settings, seed);
        (plan.table, plan.token) = (encoded.table, encoded.token);
        plan.conditional = source.is_conditional();
        (plan.only, plan.prefer) = (aim.only, aim.prefer);
        let mut execution = Execution::new(plan);
        execution.start(now, &routing, &LaneConnections(&shared.mailbox));
        self.winding = Some(Box::new(Winding::new(shared, execution)));
        Ok(false)
    }

    /// Hands a request that was not simply answered over to an execution.
    #[cold]
    fn leave_straight(
        &mut self,
        shared: &Shared<R>,
        source: &impl Source,
        lane: Arc<Lane>,
        reply: Reply,
    ) {
        let Some(straight) = self.straight.take() else {
            return;
        };
        let profile = profile_of(source.options(), &shared.profile);
        let Straight {
            place,
            since,
            timestamp,
            seed,
            unpaged,
            ..
        } = straight;
        let settings = settle(source, profile, since, unpaged, || timestamp);
        let mut plan = ExecutionPlan::new(source.kind(), Arc::clone(profile), settings, seed);
        let routing = shared.published.routing();
        let mut scratch = EncodedValues::new();
        // Where the values cannot be encoded any more, the attempt that needs them will say why.
        if let Ok(encoded) = source.encode(&routing, &mut scratch) {
            (plan.table, plan.token) = (encoded.table, encoded.token);
        }
        plan.conditional = source.is_conditional();
        let Planned { host, shard } = place;
        let target = Target {
            host,
            shard,
            handle: Arc::clone(&lane),
        };
        let mut execution = Execution::sent_straight(plan, since, target);
        execution.handle_reply(
            shared.runtime.now(),
            STRAIGHT,
            reply.into_frame(lane.info().features.version),
            &routing,
            &LaneConnections(&shared.mailbox),
        );
        let mut winding = Winding::new(shared, execution);
        winding.answered = Some(lane);
        self.winding = Some(Box::new(winding));
    }

    #[cold]
    pub(crate) fn wind<S: Source, T>(
        &mut self,
        shared: &Shared<R>,
        source: &mut S,
        cx: &mut Context<'_>,
        read: impl FnOnce(&S, Answer<'_>) -> Result<T, RequestError>,
    ) -> Poll<Result<T, RequestError>> {
        let Some(winding) = &mut self.winding else {
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

/// Sends a plain EXECUTE of a statement that is ready; nothing when there is no node for it, or when its lane refuses:
/// the long way chooses the same node again and reports why.
#[inline]
fn send_ready<R: Runtime>(
    shared: &Shared<R>,
    source: &impl Source,
    ready: &Ready,
    preparation: &Preparation,
    seed: u64,
    cx: &Context<'_>,
) -> Result<Option<Straight>, RequestError> {
    let mut values = EncodedValues::new();
    let token = match source.encode_row(preparation, &mut values) {
        Ok(token) => token,
        Err(error) => return Err(RequestError::from(error)),
    };
    let routing = shared.published.routing();
    let request = PlanRequest {
        table: preparation.table(&routing),
        token,
        stable: ready.is_stable(),
        seed,
    };
    let connections = LaneConnections(&shared.mailbox);
    let Some(target) = ready.first_target(&request, &routing, &connections) else {
        return Ok(None);
    };
    let lane = target.handle;
    let template = ready.template();
    if !template.fits(lane.layout(), &values) {
        return Ok(None);
    }
    lane.leads_to(target.host, &routing);
    let since = shared.runtime.now();
    let Ok(mut entry) = lane.enter(cx.waker()) else {
        return Ok(None);
    };
    let (mut timestamp, mut now, mut is_old) = (0, 0, false);
    if template.is_stamped() {
        now = entry.stamp().at(since, || {
            let (now, old) = shared.clock.tell(since);
            is_old = old;
            now
        });
        timestamp = shared.stamp(now);
    }
    let frame = entry
        .arena()
        .put_execute(|out| template.write(out, values.block(), timestamp));
    let ticket = entry.submit(frame, ready.deadline(since));
    // The lane is free again: what follows may take a lock, and a note may reach code of the application.
    shared.watch_drift(timestamp, now);
    if is_old {
        shared.clock.look_again(since, &shared.runtime);
    }
    Ok(Some(Straight {
        flight: InFlight::new(lane, ticket),
        place: Planned {
            host: target.host,
            shard: target.shard,
        },
        since,
        timestamp,
        seed,
        unpaged: false,
    }))
}

/// A request about to go straight.
struct Outline {
    since: Instant,
    timestamp: i64,
    settings: RequestSettings,
    seed: u64,
    unpaged: bool,
}

impl Outline {
    /// Sends the request to its first node; nothing when there is none, or when its lane refuses: the long way
    /// chooses the same node again and reports why.
    fn send<R: Runtime>(
        self,
        shared: &Shared<R>,
        source: &impl Source,
        encoded: &Encoded<'_>,
        profile: &ExecutionProfile,
        routing: &Routing<Arc<Lane>>,
        cx: &Context<'_>,
    ) -> Option<Straight> {
        let settings = self.settings;
        let request = PlanRequest {
            table: encoded.table,
            token: encoded.token,
            stable: PlanRequest::is_stable(source.is_conditional(), settings.consistency),
            seed: self.seed,
        };
        let connections = LaneConnections(&shared.mailbox);
        let target = first_target(&request, profile, routing, &connections)?;
        let lane = target.handle;
        let submitted = lane.submit(settings.deadline, cx.waker(), |arena, features| {
            encode(source, &settings, encoded.values, features, arena)
        });
        let ticket = submitted.ok()?;
        lane.leads_to(target.host, routing);
        Some(Straight {
            flight: InFlight::new(lane, ticket),
            place: Planned {
                host: target.host,
                shard: target.shard,
            },
            since: self.since,
            timestamp: self.timestamp,
            seed: self.seed,
            unpaged: self.unpaged,
        })
    }
}

/// A request that a lane has taken; dropping it before the reply is there gives the request up.
pub(crate) struct InFlight {
    /// Where the request is, until its reply was taken.
    lane: Option<Arc<Lane>>,
    ticket: Ticket,
}

impl InFlight {
    #[inline]
    pub(crate) const fn new(lane: Arc<Lane>, ticket: Ticket) -> Self {
        Self {
            lane: Some(lane),
            ticket,
        }
    }

    /// Takes the reply, once it is there, with the lane that it came on.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<(Arc<Lane>, Reply)> {
        let mut reply = None;
        self.poll_into(cx, &mut reply)
            .map(|lane| (lane, reply.unwrap_or(Reply::Void)))
    }

    /// Does what [`poll`](Self::poll) does, and writes to `reply` only where it is more than a word.
    #[inline(always)] // On the path of every request.
    fn poll_into(&mut self, cx: &Context<'_>, reply: &mut Option<Reply>) -> Poll<Arc<Lane>> {
        let Some(lane) = &self.lane else {
            debug_assert!(false, "a reply is taken once");
            return Poll::Pending;
        };
        ready!(lane.poll_into(self.ticket, cx, reply));
        self.lane.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for InFlight {
    #[inline]
    fn drop(&mut self) {
        if let Some(lane) = &self.lane {
            lane.abandon(self.ticket);
        }
    }
}

/// Settles the options of a request that started at `since`.
fn settle(
    source: &impl Source,
    profile: &ExecutionProfile,
    since: Instant,
    unpaged: bool,
    timestamp: impl FnOnce() -> i64,
) -> RequestSettings {
    let is_idempotent = |settled| source.is_idempotent(settled);
    plan::settle(
        source.options(),
        profile,
        since,
        unpaged,
        is_idempotent,
        timestamp,
    )
}

#[cold]
fn closing() -> RequestError {
    RequestError::new(RequestErrorKind::Closed)
}

/// Writes the frame of a request.
pub(crate) fn encode(
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

/// Tells an execution about lanes, and the control task about shards without one.
pub(crate) struct LaneConnections<'a>(pub(crate) &'a Mailbox);

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
