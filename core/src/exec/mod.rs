//! One request's way through the cluster: where it goes, what follows a failure, and when it has failed for good.
//!
//! [`Execution`] is a plain value in the caller's future. It never touches a connection and never reads an answer
//! that succeeds: it says where to send and is told what came back. This module leaves out the order of targets
//! (`policy::load_balancing`), the judgement of failures (`policy::retry`) and everything about rows
//! ([`result`]).

pub mod batch;
mod fibre;
#[cfg(test)]
mod fixtures;
pub mod paging;
pub mod plan;
pub mod prepared;
mod recovery;
pub mod result;
pub mod statement;
pub mod targets;

use std::collections::VecDeque;
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
    targets: Targets,
    /// How many of the targets have been used up.
    used: usize,
    filled: Filled,
    phase: Phase,
    clock: Option<Instant>,
    first: Fibre<H>,
    attempts_begun: u32,
    output: Option<ExecutionOutput<H>>,
    /// What only a request needs that does not succeed at once.
    trouble: Option<Box<Trouble<H>>>,
}

impl<H: Clone> Execution<H> {
    /// Makes an execution that has not started.
    pub const fn new(plan: ExecutionPlan) -> Self {
        let first = Fibre::new(plan.settings.consistency);
        Self {
            plan,
            targets: Targets::new(),
            used: 0,
            filled: Filled::Nothing,
            phase: Phase::New,
            clock: None,
            first,
            attempts_begun: 0,
            output: None,
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
        match (self.plan.only, self.plan.prefer) {
            (Some(only), _) => {
                self.targets.push(only);
                self.filled = Filled::All;
            }
            (None, Some(prefer)) => self.targets.push(prefer),
            (None, None) => self.fill(cluster),
        }
        self.go_on(0, cluster);
        self.arm_copies(now);
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
        let is_first = self.first.attempt == attempt && self.first.state == FibreState::Waiting;
        match reply {
            Ok(frame)
                if is_first
                    && frame.header.opcode == Opcode::Result
                    && self.phase == Phase::Running =>
            {
                self.succeed(0, frame);
            }
            reply => self.handle_trouble(
                now,
                attempt,
                reply,
                Cluster {
                    routing,
                    connections,
                },
            ),
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
        match self.output.take() {
            Some(output) => Some(output),
            None => self.trouble.as_mut()?.outputs.pop_front(),
        }
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
        if let Some(fibre) = self.fibre_mut(at) {
            fibre.state = FibreState::Ended;
        }
        self.finish(Ok(frame));
    }

    fn finish(&mut self, result: Result<ResponseFrame, RequestError>) {
        self.phase = Phase::Ended;
        if self.trouble.is_some() {
            self.abandon_all();
        }
        self.push(ExecutionOutput::Done(result));
    }

    /// Moves a fibre to the next target that has a connection, or ends it.
    fn go_on(&mut self, at: usize, cluster: Cluster<'_, H>) {
        match self.next_target(cluster) {
            Some(target) => self.dispatch(at, target),
            None => self.give_up(at),
        }
    }

    fn next_target(&mut self, cluster: Cluster<'_, H>) -> Option<Target<H>> {
        loop {
            match self.targets.get(self.used) {
                Some(planned) => {
                    self.used += 1;
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
        let request = PlanRequest {
            table: self.plan.table,
            token: self.plan.token,
            stable: self.plan.conditional || self.plan.settings.consistency.is_serial(),
            seed: self.plan.seed,
        };
        let view = RoutingView::new(cluster.routing, cluster.connections);
        let policy = &*self.plan.profile.load_balancing;
        match self.filled {
            Filled::Nothing => {
                self.filled = Filled::First;
                if let Some(first) = policy.first(&request, &view) {
                    self.targets.push(first);
                }
            }
            Filled::First => {
                self.filled = Filled::All;
                policy.rest(&request, &view, &mut self.targets);
            }
            Filled::All => (),
        }
    }

    /// Begins an attempt.
    fn dispatch(&mut self, at: usize, target: Target<H>) {
        self.attempts_begun += 1;
        let attempt = AttemptId(self.attempts_begun);
        let deadline = self.attempt_deadline();
        let limited = deadline != self.plan.settings.deadline;
        let clock = self.clock;
        if let Some(fibre) = self.fibre_mut(at) {
            fibre.begin(attempt, target, clock, deadline, limited);
        }
        match &self.plan.kind {
            StatementKind::TextWithValues(text) => {
                let text = text.clone();
                self.prepare(at, text, None);
            }
            _ => self.send(at),
        }
    }

    fn send(&mut self, at: usize) {
        let Some(fibre) = self.fibre_mut(at) else {
            return;
        };
        fibre.state = FibreState::Waiting;
        let Some(to) = fibre.target.clone() else {
            return;
        };
        let params = SendParams::new(fibre.consistency, fibre.deadline);
        let output = ExecutionOutput::Send {
            attempt: fibre.attempt,
            to,
            params,
        };
        self.push(output);
    }

    fn push(&mut self, output: ExecutionOutput<H>) {
        let is_first = self.output.is_none()
            && self
                .trouble
                .as_ref()
                .is_none_or(|trouble| trouble.outputs.is_empty());
        if is_first {
            self.output = Some(output);
        } else {
            self.trouble().outputs.push_back(output);
        }
    }

    fn attempt_deadline(&self) -> Option<Instant> {
        let limit = self.plan.profile.attempt_timeout;
        let own = limit
            .zip(self.clock)
            .and_then(|(limit, now)| now.checked_add(limit));
        match (own, self.plan.settings.deadline) {
            (Some(own), Some(whole)) => Some(own.min(whole)),
            (own, whole) => own.or(whole),
        }
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
        self.trouble.get_or_insert_with(Box::default)
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
    attempts: Vec<Attempt>,
    /// Outputs behind the first one.
    outputs: VecDeque<ExecutionOutput<H>>,
    /// Copies of the request that race with the first one.
    copies: Vec<Fibre<H>>,
    /// When the next copy starts.
    copy_at: Option<Instant>,
    /// Where the answer came from, when not from the first fibre.
    winner: Option<Planned>,
}

impl<H> Default for Trouble<H> {
    fn default() -> Self {
        Self {
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

impl<H: Clone> Cluster<'_, H> {
    /// Picks the least busy connection to a place: of its shard if that has one, else of the whole node.
    fn connect(self, planned: Planned, seed: u64) -> Option<Target<H>> {
        let pool = self.routing.pool(planned.host)?;
        let on_shard = planned.shard.map_or(&[][..], |shard| pool.on_shard(shard));
        let candidates = if on_shard.is_empty() {
            pool.connections()
        } else {
            on_shard
        };
        let handle = match candidates {
            [only] => only,
            several => {
                // Equally busy connections share the work: the search starts at a random one.
                let turn = usize::try_from(seed >> 32)
                    .unwrap_or(0)
                    .checked_rem(several.len())?;
                let (before, after) = several.split_at(turn);
                after
                    .iter()
                    .chain(before)
                    .min_by_key(|handle| self.connections.in_flight(handle))?
            }
        };
        Some(Target {
            host: planned.host,
            shard: planned.shard,
            handle: handle.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
