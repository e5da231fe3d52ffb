//! One request's way through the cluster: where it goes, what follows a failure, and when it has failed for good.
//!
//! [`Execution`] is a plain value in the caller's future. It never touches a connection and never reads an answer
//! that succeeds: it says where to send and is told what came back. This module leaves out the order of targets
//! (`policy::load_balancing`), the judgement of failures (`policy::retry`) and everything about rows
//! ([`result`]).

pub mod batch;
pub mod cache;
pub mod columns;
mod fibre;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod paging;
pub mod plan;
pub mod prepared;
pub mod preparing;
pub mod ready;
mod recovery;
pub mod result;
pub mod statement;
pub mod straight;
pub mod targets;
pub mod trace;
mod unprepared;
pub mod using;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

pub use plan::{
    AttemptId, Connections, Coordinator, ExecutionOutput, ExecutionPlan, SendParams, StatementKind,
};

use crate::error::connect::AttemptError;
use crate::error::request::{Attempt, RequestError};
use crate::exec::fibre::{Fibre, FibreState};
use crate::exec::targets::{Planned, Target, Targets};
use crate::policy::load_balancing::{PlanRequest, RoutingView};
use crate::routing::Routing;
use crate::wire::header::Opcode;
use crate::wire::response::ResponseFrame;

/// Carries one request from its plan to its outcome.
///
/// Driven like every machine: after [`start`](Self::start) or a `handle_*`, call
/// [`poll_output`](Self::poll_output) until it is empty, then [`poll_timeout`](Self::poll_timeout). The snapshot
/// is passed in each time, because a retry needs a fresh one. A request that is answered at once costs no
/// allocation and no look into its answer.
#[derive(Debug)]
pub struct Execution<H> {
    plan: ExecutionPlan,
    filled: Filled,
    phase: Phase,
    /// Whether the first attempt has begun and nobody was told yet.
    send_first: bool,
    attempts_begun: u32,
    clock: Option<Instant>,
    first: Fibre<H>,
    result: Option<Result<ResponseFrame, RequestError>>,
    /// What only a request needs that does not succeed at once.
    trouble: Option<Box<Trouble<H>>>,
}

impl<H: Clone> Execution<H> {
    /// Makes an execution that has not started.
    pub const fn new(plan: ExecutionPlan) -> Self {
        let first = Fibre::new(plan.settings.consistency);
        Self {
            plan,
            filled: Filled::Nothing,
            phase: Phase::New,
            send_first: false,
            attempts_begun: 0,
            clock: None,
            first,
            result: None,
            trouble: None,
        }
    }

    /// Sends the request to its first target.
    pub fn start(&mut self, now: Instant, routing: &Routing<H>, connections: &dyn Connections<H>) {
        if self.phase != Phase::New {
            return;
        }
        self.phase = Phase::Running;
        self.clock = Some(now);
        let cluster = Cluster {
            routing,
            connections,
        };
        if self.is_late(now) {
            self.expire(cluster);
            return;
        }
        let choice = match (self.plan.only, self.plan.prefer) {
            (None, None) => {
                self.filled = Filled::First;
                let (request, view) = (self.plan_request(), cluster.view());
                self.plan.profile.load_balancing.first(&request, &view)
            }
            (None, Some(prefer)) => Some(prefer),
            (Some(only), _) => {
                self.filled = Filled::All;
                Some(only)
            }
        };
        match choice.and_then(|choice| cluster.connect(choice, self.plan.seed)) {
            Some(target) if !matches!(self.plan.kind, StatementKind::TextWithValues(_)) => {
                self.attempts_begun = 1;
                let limit = self.attempt_limit();
                self.first.begin(AttemptId(1), target, self.clock, limit);
                self.first.state = FibreState::Waiting;
                self.send_first = true;
            }
            Some(target) => self.dispatch(0, target),
            None => {
                let trouble = self.trouble();
                choice
                    .into_iter()
                    .for_each(|choice| trouble.targets.push(choice));
                self.go_on(0, cluster);
            }
        }
        if self.plan.profile.speculative.is_watching() {
            self.arm_copies(now);
        }
    }

    /// Takes the reply to an attempt, or why there is none.
    ///
    /// A reply to an attempt that was given up is ignored.
    #[inline]
    pub fn handle_reply(
        &mut self,
        now: Instant,
        attempt: AttemptId,
        reply: Result<ResponseFrame, AttemptError>,
        routing: &Routing<H>,
        connections: &dyn Connections<H>,
    ) {
        // The likely case: the only attempt is out and is answered with a result.
        let is_plain = self.trouble.is_none() && self.first.is_waiting_for(attempt);
        match reply {
            Ok(frame) if is_plain && frame.header.opcode == Opcode::Result => {
                self.measure(now);
                self.phase = Phase::Ended;
                self.first.state = FibreState::Ended;
                self.result = Some(Ok(frame));
            }
            reply => {
                let cluster = Cluster {
                    routing,
                    connections,
                };
                self.handle_trouble(now, attempt, reply, cluster);
            }
        }
    }

    /// Ends pauses and the request itself when their time has come.
    pub fn handle_timeout(
        &mut self,
        now: Instant,
        routing: &Routing<H>,
        connections: &dyn Connections<H>,
    ) {
        let now = self.advance_clock(now);
        let cluster = Cluster {
            routing,
            connections,
        };
        if self.phase != Phase::Running {
            return;
        }
        if self.is_late(now) {
            self.expire(cluster);
            return;
        }
        self.end_pauses(now, cluster);
        self.start_copies(now, cluster);
    }

    /// Returns what to do next; none when there is nothing to do but wait.
    #[inline]
    pub fn poll_output(&mut self) -> Option<ExecutionOutput<H>> {
        if self.send_first {
            self.send_first = false;
            return self.send_output(&self.first);
        }
        let queued = self
            .trouble
            .as_mut()
            .and_then(|trouble| trouble.outputs.pop_front());
        queued.or_else(|| self.result.take().map(ExecutionOutput::Done))
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout); none while attempts wait, because they carry
    /// the deadline themselves.
    #[inline]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let trouble = self
            .trouble
            .as_deref()
            .filter(|_| self.phase == Phase::Running)?;
        let pauses = self.fibres().filter_map(Fibre::pause_ends);
        let wake = pauses.chain(trouble.copy_at).min()?;
        Some(
            self.plan
                .settings
                .deadline
                .map_or(wake, |deadline| wake.min(deadline)),
        )
    }

    /// Returns the plan.
    pub const fn plan(&self) -> &ExecutionPlan {
        &self.plan
    }

    /// Returns the target whose answer ended the execution, or the one that was tried last.
    pub fn coordinator(&self) -> Option<Planned> {
        let winner = self.trouble.as_ref().and_then(|trouble| trouble.winner);
        winner.or_else(|| self.first.place())
    }

    /// Says whether the answer came from a copy of the request, and not from the first line of attempts.
    pub fn won_by_copy(&self) -> bool {
        self.trouble
            .as_ref()
            .is_some_and(|trouble| trouble.winner.is_some())
    }

    /// Lists the attempts that failed so far, in the order they ended.
    pub fn attempts(&self) -> &[Attempt] {
        self.trouble
            .as_ref()
            .map_or(&[], |trouble| &trouble.attempts)
    }

    /// Returns how many times the request was sent again after a failure.
    pub fn retries(&self) -> u32 {
        self.fibres().map(|fibre| u32::from(fibre.retries())).sum()
    }

    fn succeed(&mut self, at: usize, frame: ResponseFrame) {
        if at != 0 {
            let winner = self.fibre(at).and_then(Fibre::place);
            self.trouble().winner = winner;
        }
        if let Some(now) = self.clock {
            self.measure(now);
        }
        if let Some(fibre) = self.fibre_mut(at) {
            fibre.state = FibreState::Ended;
        }
        self.finish(Ok(frame));
    }

    /// Takes note of how long the first line of attempts took, or had taken when a copy overtook it.
    fn measure(&self, now: Instant) {
        if let Some(since) = self.first.since {
            let took = now.saturating_duration_since(since);
            self.plan.profile.speculative.record(took);
        }
    }

    fn finish(&mut self, result: Result<ResponseFrame, RequestError>) {
        self.phase = Phase::Ended;
        if self.trouble.is_some() {
            self.abandon_all();
        }
        self.result = Some(result);
    }

    /// Moves a fibre to the next target that has a connection, or ends it.
    #[cold]
    fn go_on(&mut self, at: usize, cluster: Cluster<'_, H>) {
        match self.next_target(cluster) {
            Some(target) => self.dispatch(at, target),
            None => self.give_up(at),
        }
    }

    fn next_target(&mut self, cluster: Cluster<'_, H>) -> Option<Target<H>> {
        loop {
            let trouble = self.trouble();
            match trouble.targets.get(trouble.used) {
                Some(planned) => {
                    trouble.used += 1;
                    match cluster.connect(planned, self.plan.seed) {
                        Some(target) => return Some(target),
                        None => self.note_no_connection(planned, cluster),
                    }
                }
                None if self.filled == Filled::All => return None,
                None => self.fill(cluster),
            }
        }
    }

    /// Asks the policy for its first target, and when that was not enough for all others.
    fn fill(&mut self, cluster: Cluster<'_, H>) {
        let (request, view) = (self.plan_request(), cluster.view());
        let profile = Arc::clone(&self.plan.profile);
        let filled = self.filled;
        let targets = &mut self.trouble().targets;
        self.filled = match filled {
            Filled::Nothing => {
                let first = profile.load_balancing.first(&request, &view);
                first.into_iter().for_each(|first| targets.push(first));
                Filled::First
            }
            Filled::First | Filled::All => {
                profile.load_balancing.rest(&request, &view, targets);
                Filled::All
            }
        };
    }

    fn plan_request(&self) -> PlanRequest {
        PlanRequest {
            table: self.plan.table,
            token: self.plan.token,
            stable: PlanRequest::is_stable(self.plan.conditional, self.plan.settings.consistency),
            seed: self.plan.seed,
        }
    }

    /// Begins an attempt that is not simply the first one.
    fn dispatch(&mut self, at: usize, target: Target<H>) {
        self.attempts_begun += 1;
        let attempt = AttemptId(self.attempts_begun);
        let (clock, limit) = (self.clock, self.attempt_limit());
        if let Some(fibre) = self.fibre_mut(at) {
            fibre.begin(attempt, target, clock, limit);
        }
        match &self.plan.kind {
            StatementKind::TextWithValues(text) => {
                let text = Arc::clone(text);
                self.prepare(at, text, None);
            }
            _ => self.send(at),
        }
    }

    fn send(&mut self, at: usize) {
        if let Some(fibre) = self.fibre_mut(at) {
            fibre.state = FibreState::Waiting;
        }
        let output = self.fibre(at).and_then(|fibre| self.send_output(fibre));
        self.trouble().outputs.extend(output);
    }

    fn send_output(&self, fibre: &Fibre<H>) -> Option<ExecutionOutput<H>> {
        let to = fibre.target.clone()?;
        let params = SendParams::new(fibre.consistency, self.deadline_of(fibre));
        Some(ExecutionOutput::Send {
            attempt: fibre.attempt,
            to,
            params,
        })
    }

    /// Returns when an attempt that begins now is over by its own limit, where that comes before the request's.
    fn attempt_limit(&self) -> Option<Instant> {
        let limit = self.plan.profile.attempt_timeout?;
        let own = self.clock?.checked_add(limit)?;
        self.plan
            .settings
            .deadline
            .is_none_or(|whole| own < whole)
            .then_some(own)
    }

    fn deadline_of(&self, fibre: &Fibre<H>) -> Option<Instant> {
        fibre.limit.or(self.plan.settings.deadline)
    }

    fn is_late(&self, now: Instant) -> bool {
        self.plan
            .settings
            .deadline
            .is_some_and(|deadline| deadline <= now)
    }

    fn advance_clock(&mut self, now: Instant) -> Instant {
        let now = self.clock.map_or(now, |clock| clock.max(now));
        self.clock = Some(now);
        now
    }

    fn fibre(&self, at: usize) -> Option<&Fibre<H>> {
        match at.checked_sub(1) {
            None => Some(&self.first),
            Some(at) => self.trouble.as_ref()?.copies.get(at),
        }
    }

    fn fibre_mut(&mut self, at: usize) -> Option<&mut Fibre<H>> {
        match at.checked_sub(1) {
            None => Some(&mut self.first),
            Some(at) => self.trouble.as_mut()?.copies.get_mut(at),
        }
    }

    fn fibres(&self) -> impl Iterator<Item = &Fibre<H>> {
        std::iter::once(&self.first).chain(self.trouble.iter().flat_map(|trouble| &trouble.copies))
    }

    fn trouble(&mut self) -> &mut Trouble<H> {
        let first = self.first.place();
        self.trouble
            .get_or_insert_with(|| Box::new(Trouble::new(first)))
    }
}

/// Says how far the list of targets is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    /// The policy was not asked.
    Nothing,
    /// The policy named its first choice.
    First,
    /// There are no other targets than those listed.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    Running,
    Ended,
}

/// Holds what only a request needs that does not succeed at once.
#[derive(Debug)]
struct Trouble<H> {
    targets: Targets,
    /// How many of the targets have been used up.
    used: usize,
    attempts: Vec<Attempt>,
    /// Outputs before the result.
    outputs: VecDeque<ExecutionOutput<H>>,
    /// Copies of the request that race with the first one.
    copies: Vec<Fibre<H>>,
    /// When the next copy starts.
    copy_at: Option<Instant>,
    /// Where the answer came from, when not from the first fibre.
    winner: Option<Planned>,
}

impl<H> Trouble<H> {
    /// Begins after the first attempt, which used up one target.
    fn new(first: Option<Planned>) -> Self {
        let mut targets = Targets::new();
        first.into_iter().for_each(|first| targets.push(first));
        Self {
            used: targets.len(),
            targets,
            attempts: Vec::new(),
            outputs: VecDeque::new(),
            copies: Vec::new(),
            copy_at: None,
            winner: None,
        }
    }
}

/// Holds what an owner passes in with each input.
struct Cluster<'a, H> {
    routing: &'a Routing<H>,
    connections: &'a dyn Connections<H>,
}

impl<H> Clone for Cluster<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Cluster<'_, H> {}

impl<'a, H: Clone> Cluster<'a, H> {
    fn view(self) -> RoutingView<'a, H> {
        RoutingView::new(self.routing, self.connections)
    }

    /// Picks a connection to a place: one of its shard if that has any, else of the whole node; a less busy one before
    /// others, and one with room before one where the request would wait.
    #[inline(always)] // On the path of every request.
    fn connect(self, planned: Planned, seed: u64) -> Option<Target<H>> {
        let pool = self.routing.pool(planned.host)?;
        let all = pool.connections();
        let mut candidates = planned.shard.map_or(&[][..], |shard| pool.on_shard(shard));
        if candidates.is_empty() {
            if let Some(shard) = planned.shard.filter(|_| pool.sharder().is_some()) {
                self.connections.missed(planned.host, shard);
            }
            candidates = all;
        }
        let mut handle = match candidates {
            [only] => only,
            several => self.less_busy(several, seed)?,
        };
        if 1 < all.len() && self.connections.is_full(handle) {
            handle = self.with_room(all, seed).unwrap_or(handle);
        }
        Some(Target {
            host: planned.host,
            shard: planned.shard,
            handle: handle.clone(),
        })
    }

    /// Takes the less busy one of two random connections, which is nearly as good as the least busy one of all.
    #[inline(never)]
    fn less_busy(self, several: &[H], seed: u64) -> Option<&H> {
        let len = u64::try_from(several.len()).unwrap_or(u64::MAX);
        // The high bits of either half, scaled to the number of connections; the second is another one than the first.
        let scaled = |bits: u64, len: u64| usize::try_from((bits * len) >> 16).unwrap_or(0);
        let first = scaled(seed >> 48, len);
        let second = scaled((seed >> 16) & 0xffff, len.checked_sub(1)?);
        let second = second + usize::from(first <= second);
        let (one, other) = (several.get(first)?, several.get(second)?);
        let other_is_idler = self.connections.in_flight(other) < self.connections.in_flight(one);
        Some(if other_is_idler { other } else { one })
    }

    /// Finds the least busy connection of a node that has room; none when all are full.
    #[cold]
    fn with_room(self, all: &[H], seed: u64) -> Option<&H> {
        // Equally busy connections share the work: the search starts at a random one.
        let turn = usize::try_from(seed >> 32)
            .unwrap_or(0)
            .checked_rem(all.len())?;
        let (before, after) = all.split_at(turn);
        after
            .iter()
            .chain(before)
            .filter(|handle| !self.connections.is_full(handle))
            .min_by_key(|handle| self.connections.in_flight(handle))
    }
}

#[cfg(test)]
mod tests;
