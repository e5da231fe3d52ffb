//! The part of an execution that begins when an attempt does not simply succeed.
//!
//! It carries out what the retry policy decides, races copies and ends what takes too long. It judges no failure itself,
//! and leaves forgotten statements to `unprepared`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::fibre::{Fibre, FibreState, NextPlace};
use super::{AttemptId, Cluster, Execution, ExecutionOutput, Filled, Phase, StatementKind};
use crate::conn::CloseReason;
use crate::error::connect::{AttemptError, ConnectionError, Fate};
use crate::error::request::{Attempt, RequestError, RequestErrorKind};
use crate::exec::targets::Planned;
use crate::policy::retry::{Failure, FailureClass, RetryDecision};
use crate::wire::consistency::Consistency;
use crate::wire::header::{Opcode, ProtocolVersion};
use crate::wire::response::{Response, ResponseFrame};
use crate::wire::server_error::ServerErrorDetail;
use crate::wire::supported::ProtocolFeatures;

impl<H: Clone> Execution<H> {
    /// Takes every reply that is not the plain success of the first fibre.
    #[cold]
    pub(super) fn handle_trouble(
        &mut self,
        now: Instant,
        attempt: AttemptId,
        reply: Result<ResponseFrame, AttemptError>,
        cluster: Cluster<'_, H>,
    ) {
        let now = self.advance_clock(now);
        if self.phase != Phase::Running {
            return;
        }
        let found = self
            .fibres()
            .position(|fibre| fibre.attempt == attempt && fibre.is_out());
        let Some(at) = found else { return };
        match reply {
            Err(error) => self.handle_loss(at, error, cluster),
            Ok(frame) if frame.header.opcode == Opcode::Result => {
                self.handle_result(at, frame, cluster)
            }
            Ok(frame) => self.handle_refusal(at, &frame, cluster),
        }
        if self.phase == Phase::Running {
            self.handle_due(now, cluster);
        }
    }

    fn handle_due(&mut self, now: Instant, cluster: Cluster<'_, H>) {
        if self.is_late(now) {
            self.expire(cluster);
            return;
        }
        self.end_pauses(now, cluster);
        self.start_copies(now, cluster);
    }

    fn handle_result(&mut self, at: usize, frame: ResponseFrame, cluster: Cluster<'_, H>) {
        let Some(fibre) = self.fibre_mut(at) else {
            return;
        };
        match fibre.state {
            FibreState::Preparing => match fibre.past().preparing.take() {
                Some(preparation) => self.handle_prepared(at, &preparation, &frame, cluster),
                None => self.send(at),
            },
            _ => self.succeed(at, frame),
        }
    }

    /// Takes an answer that is no result: an error, or something that does not belong here.
    fn handle_refusal(&mut self, at: usize, frame: &ResponseFrame, cluster: Cluster<'_, H>) {
        let executing = self
            .fibre(at)
            .is_some_and(|fibre| fibre.state == FibreState::Waiting);
        // Without a readable answer nobody knows what became of the request.
        let unknown = if executing {
            Fate::MaybeApplied
        } else {
            Fate::NotSent
        };
        let envelope = match frame.parse(&self.features(at, cluster)) {
            Ok(envelope) => envelope,
            Err(error) => {
                return self.fail(at, RequestErrorKind::Protocol(error), unknown, cluster);
            }
        };
        let Response::Error(error) = envelope.response else {
            let kind = RequestErrorKind::UnexpectedAnswer {
                opcode: frame.header.opcode,
            };
            return self.fail(at, kind, unknown, cluster);
        };
        match error.detail {
            ServerErrorDetail::Unprepared { id } if executing => {
                self.handle_unprepared(at, id, cluster)
            }
            _ => {
                // A refused PREPARE says that the request itself was not executed.
                let fate = if executing {
                    Fate::Answered
                } else {
                    Fate::NotSent
                };
                self.fail(at, RequestErrorKind::Server(error), fate, cluster);
            }
        }
    }

    /// Takes the connection's word that there is no answer.
    fn handle_loss(&mut self, at: usize, error: AttemptError, cluster: Cluster<'_, H>) {
        let Some(fibre) = self.fibre(at) else { return };
        // While a PREPARE is out, the request itself is not.
        let fate = if fibre.state == FibreState::Preparing {
            Fate::NotSent
        } else {
            error.fate
        };
        let limited = fibre.limit.is_some();
        match RequestErrorKind::of_attempt(error) {
            RequestErrorKind::Expired if !limited => {
                self.note(at, RequestErrorKind::Expired, fate, cluster);
                if let Some(fibre) = self.fibre_mut(at) {
                    fibre.state = FibreState::Ended;
                }
                self.expire(cluster);
            }
            kind @ RequestErrorKind::Encode(_) => self.fail_for_good(at, kind, fate, cluster),
            kind => self.fail(at, kind, fate, cluster),
        }
    }

    /// Ends the request with an error that no other attempt can avoid.
    pub(super) fn fail_for_good(
        &mut self,
        at: usize,
        kind: RequestErrorKind,
        fate: Fate,
        cluster: Cluster<'_, H>,
    ) {
        self.note(at, kind.clone(), fate, cluster);
        if let Some(fibre) = self.fibre_mut(at) {
            fibre.state = FibreState::Ended;
        }
        self.finish_with(kind);
    }

    /// Asks the policy about a failed attempt and does what it says.
    pub(super) fn fail(
        &mut self,
        at: usize,
        kind: RequestErrorKind,
        fate: Fate,
        cluster: Cluster<'_, H>,
    ) {
        self.note(at, kind.clone(), answered_or(&kind, fate), cluster);
        let class = FailureClass::of(&kind);
        let seed = self
            .plan
            .seed
            .rotate_left(7)
            .wrapping_add(u64::from(self.attempts_begun));
        let idempotent =
            self.plan.settings.idempotent || matches!(self.plan.kind, StatementKind::Prepare);
        let (conditional, policy) = (self.plan.conditional, Arc::clone(&self.plan.profile.retry));
        let Some(fibre) = self.fibre_mut(at) else {
            return;
        };
        fibre.state = FibreState::Idle;
        let consistency = fibre.consistency;
        let history = &mut fibre.past().history;
        let failure = Failure {
            error: &kind,
            fate,
            idempotent,
            conditional,
            consistency,
            history,
            seed,
        };
        // A connection that is on its way out for reasons of its own says nothing about its node.
        let spared = fate == Fate::NotSent && history.count(class) == 0 && spares_node(&kind);
        let decision = match spared {
            true => RetryDecision::Same,
            false => policy.decide(&failure),
        };
        history.failed(class);
        let risky = fate == Fate::MaybeApplied && !idempotent;
        match decision {
            // An ignored error reads as if something was done.
            RetryDecision::Ignore => {
                self.succeed(at, ResponseFrame::void(0, ProtocolVersion::V4));
            }
            RetryDecision::Stop => self.give_up(at),
            _ if risky => self.give_up(at),
            RetryDecision::Same => self.repeat(at, NextPlace::Same, None, cluster),
            RetryDecision::SameAt(level) => self.repeat_at(at, NextPlace::Same, level, cluster),
            RetryDecision::SameAfter(pause) => {
                self.repeat(at, NextPlace::Same, Some(pause), cluster)
            }
            RetryDecision::Next => self.repeat(at, NextPlace::Next, None, cluster),
            RetryDecision::NextAt(level) => self.repeat_at(at, NextPlace::Next, level, cluster),
            RetryDecision::NextAfter(pause) => {
                self.repeat(at, NextPlace::Next, Some(pause), cluster)
            }
        }
    }

    fn repeat_at(
        &mut self,
        at: usize,
        next: NextPlace,
        level: Consistency,
        cluster: Cluster<'_, H>,
    ) {
        let may_change =
            |fibre: &&mut Fibre<H>| !fibre.consistency.is_serial() || level.is_serial();
        if let Some(fibre) = self.fibre_mut(at).filter(may_change) {
            fibre.consistency = level;
        }
        self.repeat(at, next, None, cluster);
    }

    fn repeat(
        &mut self,
        at: usize,
        next: NextPlace,
        pause: Option<Duration>,
        cluster: Cluster<'_, H>,
    ) {
        let until = pause
            .zip(self.clock)
            .map(|(pause, now)| now.checked_add(pause).unwrap_or(now));
        let Some(fibre) = self.fibre_mut(at) else {
            return;
        };
        match until {
            Some(until) => fibre.state = FibreState::Pausing { until, next },
            None => self.repeat_now(at, next, cluster),
        }
    }

    fn repeat_now(&mut self, at: usize, next: NextPlace, cluster: Cluster<'_, H>) {
        if self.clock.is_some_and(|now| self.is_late(now)) {
            return self.expire(cluster);
        }
        let seed = self.plan.seed;
        let Some(fibre) = self.fibre_mut(at) else {
            return;
        };
        fibre.past().history.retried();
        fibre.state = FibreState::Idle;
        let same = match next {
            NextPlace::Same => fibre.place().and_then(|place| cluster.connect(place, seed)),
            NextPlace::Next => None,
        };
        match same {
            Some(target) => self.dispatch(at, target),
            None => self.go_on(at, cluster),
        }
    }

    /// Ends a fibre; the request ends with it unless another one may still bring an answer.
    pub(super) fn give_up(&mut self, at: usize) {
        if let Some(fibre) = self.fibre_mut(at) {
            fibre.state = FibreState::Ended;
        }
        let kind = self.last_error();
        let avoidable = !matches!(
            FailureClass::of(&kind),
            FailureClass::Rejected | FailureClass::Protocol
        );
        if avoidable && (self.fibres().any(Fibre::is_alive) || self.copy_may_start()) {
            return;
        }
        self.finish_with(kind);
    }

    /// Returns what ended the last attempt that was really made.
    fn last_error(&self) -> RequestErrorKind {
        let real = |attempt: &&Attempt| !matches!(attempt.error, RequestErrorKind::NoConnection);
        self.attempts()
            .iter()
            .rev()
            .find(real)
            .map_or(RequestErrorKind::NoTarget, |attempt| attempt.error.clone())
    }

    fn finish_with(&mut self, kind: RequestErrorKind) {
        let attempts = self
            .trouble
            .as_mut()
            .map(|trouble| std::mem::take(&mut trouble.attempts))
            .unwrap_or_default();
        self.finish(Err(RequestError::after(kind, attempts)));
    }

    /// Ends the request because its time is over.
    #[cold]
    pub(super) fn expire(&mut self, cluster: Cluster<'_, H>) {
        let out: Vec<usize> = self
            .fibres()
            .enumerate()
            .filter(|(_, fibre)| fibre.is_out())
            .map(|(at, _)| at)
            .collect();
        for at in out {
            let executing = self
                .fibre(at)
                .is_some_and(|fibre| fibre.state == FibreState::Waiting);
            let fate = if executing {
                Fate::MaybeApplied
            } else {
                Fate::NotSent
            };
            self.note(at, RequestErrorKind::Expired, fate, cluster);
        }
        self.finish_with(RequestErrorKind::Expired);
    }

    pub(super) fn abandon_all(&mut self) {
        let out: Vec<AttemptId> = self
            .fibres()
            .filter(|fibre| fibre.is_out())
            .map(|fibre| fibre.attempt)
            .collect();
        for attempt in out {
            self.trouble()
                .outputs
                .push_back(ExecutionOutput::Abandon { attempt });
        }
    }

    pub(super) fn end_pauses(&mut self, now: Instant, cluster: Cluster<'_, H>) {
        let mut at = 0;
        while let Some(fibre) = self.fibre(at) {
            match fibre.state {
                FibreState::Pausing { until, next }
                    if until <= now && self.phase == Phase::Running =>
                {
                    self.repeat_now(at, next, cluster);
                }
                _ => (),
            }
            at += 1;
        }
    }

    /// Plans the first copy of a request that may be copied.
    pub(super) fn arm_copies(&mut self, now: Instant) {
        let pause = self.plan.profile.speculative.pause_after(0);
        let Some(pause) = pause else { return };
        let may_go_anywhere =
            self.plan.only.is_none() && !matches!(self.plan.kind, StatementKind::Prepare);
        if self.plan.settings.idempotent && may_go_anywhere && self.phase == Phase::Running {
            self.trouble().copy_at = now.checked_add(pause);
        }
    }

    fn copy_may_start(&self) -> bool {
        self.trouble.as_ref().is_some_and(|trouble| {
            let more_targets = self.filled != Filled::All || trouble.used < trouble.targets.len();
            trouble.copy_at.is_some() && more_targets
        })
    }

    /// Sends the next copy when its time has come.
    pub(super) fn start_copies(&mut self, now: Instant, cluster: Cluster<'_, H>) {
        let due = self
            .trouble
            .as_ref()
            .and_then(|trouble| trouble.copy_at)
            .is_some_and(|at| at <= now);
        if !due || self.phase != Phase::Running {
            return;
        }
        let profile = Arc::clone(&self.plan.profile);
        let consistency = self.plan.settings.consistency;
        let target = self.next_target(cluster);
        let trouble = self.trouble();
        let Some(target) = target else {
            trouble.copy_at = None;
            if !self.fibres().any(Fibre::is_alive) {
                let kind = self.last_error();
                self.finish_with(kind);
            }
            return;
        };
        trouble.copies.push(Fibre::new(consistency));
        let copies = trouble.copies.len();
        let pause = profile
            .speculative
            .pause_after(u8::try_from(copies).unwrap_or(u8::MAX));
        trouble.copy_at = pause.and_then(|pause| now.checked_add(pause));
        self.dispatch(copies, target);
    }

    pub(super) fn features(&self, at: usize, cluster: Cluster<'_, H>) -> ProtocolFeatures {
        let target = self.fibre(at).and_then(|fibre| fibre.target.as_ref());
        target
            .map(|target| cluster.connections.features(&target.handle))
            .unwrap_or_default()
    }

    /// Records a failed attempt.
    fn note(&mut self, at: usize, error: RequestErrorKind, fate: Fate, cluster: Cluster<'_, H>) {
        let Some(fibre) = self.fibre(at) else { return };
        let Some(place) = fibre.place() else { return };
        let elapsed = self
            .clock
            .zip(fibre.since)
            .map_or(Duration::ZERO, |(now, since)| {
                now.saturating_duration_since(since)
            });
        let (queued, on_wire) = match fate {
            Fate::NotSent => (elapsed, Duration::ZERO),
            _ => (Duration::ZERO, elapsed),
        };
        self.record(place, queued, on_wire, fate, error, cluster);
    }

    #[cold]
    pub(super) fn note_no_connection(&mut self, place: Planned, cluster: Cluster<'_, H>) {
        let error = RequestErrorKind::NoConnection;
        self.record(
            place,
            Duration::ZERO,
            Duration::ZERO,
            Fate::NotSent,
            error,
            cluster,
        );
    }

    fn record(
        &mut self,
        place: Planned,
        queued: Duration,
        on_wire: Duration,
        fate: Fate,
        error: RequestErrorKind,
        cluster: Cluster<'_, H>,
    ) {
        let host = cluster.routing.host(place.host);
        let host_id = host.map_or(Uuid::nil(), |host| host.id);
        let address = host.map_or(NOWHERE, |host| host.address);
        self.trouble().attempts.push(Attempt {
            host_id,
            address,
            shard: place.shard,
            queued,
            on_wire,
            fate,
            error,
        });
    }
}

/// A server that answers with an error has answered, also where the policy is told that the request was not sent.
fn answered_or(kind: &RequestErrorKind, fate: Fate) -> Fate {
    if matches!(kind, RequestErrorKind::Server(_)) {
        Fate::Answered
    } else {
        fate
    }
}

/// The address of a host that is in no snapshot; indexes are stable, so it is never shown in practice.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Says whether a connection refused a request while others to the same node serve it.
fn spares_node(kind: &RequestErrorKind) -> bool {
    let RequestErrorKind::Connection(error) = kind else {
        return false;
    };
    match error {
        ConnectionError::Orphans { .. } => true,
        ConnectionError::Closed(reason) => matches!(
            reason,
            CloseReason::Surplus | CloseReason::Aged | CloseReason::Resharded | CloseReason::Idle
        ),
        _ => false,
    }
}
