//! Owns what a pool opens next: whether, how urgently, to which shard and from which source port.
//! Where a connection lands in the end is the layout's business.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use super::Pool;
use super::layout::{Census, Standing};
use super::ports::PortWalk;
use crate::cluster::ConnId;
use crate::config::pool::{PoolSize, ShardAwarePort};
use crate::error::connect::{ConnectCause, ConnectError, ConnectPhase};
use crate::error::session::NodeCause;
use crate::routing::{Shard, Sharder};

/// How much a pool needs another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// The host has none.
    Host,
    /// A shard has none.
    Shard,
    /// All shards have some.
    More,
}

/// Where a host is dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) address: SocketAddr,
    /// Whether it is dialled at its own port, so that its other ports can be reached as well.
    pub(crate) is_own_port: bool,
}

/// An attempt that is about to begin.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) address: SocketAddr,
    pub(crate) source_port: Option<u16>,
    /// After how much idle time the connection closes by itself.
    pub(crate) idle_max: Option<Duration>,
    goal: Goal,
    walk: Option<PortWalk>,
}

/// An attempt under way.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) conn: ConnId,
    pub(super) goal: Goal,
    /// The layout it was made for.
    pub(super) generation: u32,
    walk: Option<PortWalk>,
}

/// Where an attempt leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// To a shard of the server's choice.
    Anywhere,
    /// To a shard, of so many.
    Shard(Shard, NonZeroU16),
}

/// An attempt that does not wait.
#[derive(Clone, Debug)]
pub(super) enum Again {
    /// To whatever is missing.
    Usual,
    /// On the regular port.
    Regular,
    /// From the next source port.
    NextPort(Shard, PortWalk),
}

/// What is known of the port where the client's own port chooses the shard.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    /// The server's port, as the last connection told it.
    pub(super) port: Option<u16>,
    /// Until when it is left alone because source ports do not lead where they should.
    pub(super) cooldown_until: Option<Instant>,
    /// Whether it could not be reached since the pool was last full or paused.
    pub(super) has_failed: bool,
}

impl Source {
    pub(super) fn is_cooling(&self, now: Instant) -> bool {
        self.cooldown_until.is_some_and(|until| now < until)
    }
}

/// Some systems refuse single ports for good; where all are refused the regular port is not far.
const REFUSED_PORTS_MAX: u32 = 8;

impl<H: Clone> Pool<H> {
    /// Says whether an attempt should begin now, and how urgent it is.
    pub(crate) fn wish(&self) -> Option<Urgency> {
        if !self.is_on || self.config.pool.opening_per_host_max <= self.attempts.len() {
            return None;
        }
        if self.again.is_empty() && self.patience.retry_at.is_some() {
            return None;
        }
        if !self.is_up() {
            // One at a time: the host may be down.
            let entering = self
                .members
                .iter()
                .any(|member| member.standing == Standing::Entering);
            return (self.attempts.is_empty() && !entering).then_some(Urgency::Host);
        }
        let census = self.census();
        let mut missing = 0;
        let mut urgency = Urgency::More;
        for (at, slot) in census.slots.iter().enumerate() {
            let short = self.target(at).saturating_sub(slot.fresh + slot.asked);
            missing += short;
            if 0 < short && slot.fresh + slot.aged == 0 {
                urgency = Urgency::Shard;
            }
        }
        (census.roaming < missing).then_some(urgency)
    }

    /// Says what to dial, in answer to a wish; [`begun`](Self::begun) follows.
    pub(crate) fn next(&mut self, now: Instant, route: Route) -> Start {
        self.clock(now);
        let again = self.again.pop();
        let port = self.shard_aware_port(route);
        let (goal, walk, source_port) = match (again, self.by_shard(), port) {
            (Some(Again::NextPort(shard, walk)), Some(sharder), Some(_)) if self.is_up() => {
                from_port(shard, sharder, walk)
            }
            (None | Some(Again::Usual), Some(sharder), Some(_)) if self.is_up() => {
                let census = self.census();
                match self.choose_slot(&census) {
                    Some(shard) => {
                        let range = self.config.pool.source_ports;
                        let walk = PortWalk::new(range, sharder.shards, shard, &mut self.random);
                        from_port(shard, sharder, walk)
                    }
                    None => ANYWHERE,
                }
            }
            _ => ANYWHERE,
        };
        let mut address = route.address;
        if let (Some(port), Some(_)) = (port, source_port) {
            address.set_port(port);
        }
        let idle_max = match self.config.pool.size {
            PoolSize::OnDemand { idle } => Some(idle).filter(|_| self.is_up()),
            _ => None,
        };
        Start {
            address,
            source_port,
            idle_max,
            goal,
            walk,
        }
    }

    /// Takes note that an attempt has begun.
    pub(crate) fn begun(&mut self, conn: ConnId, start: Start) {
        self.attempts.push(Attempt {
            conn,
            goal: start.goal,
            generation: self.layout.generation,
            walk: start.walk,
        });
    }

    /// The port where the client's own port chooses the shard, where it can be used now.
    fn shard_aware_port(&self, route: Route) -> Option<u16> {
        let pool = &self.config.pool;
        let reachable = route.is_own_port || pool.shard_aware_port == ShardAwarePort::Always;
        let usable = self.config.uses_shard_aware_port()
            && reachable
            && !self.source.has_failed
            && !self.source.is_cooling(self.now);
        self.source.port.filter(|_| usable)
    }

    /// Chooses a slot that lacks a connection: one that has none before others, a random one among equals, so that a
    /// shard that cannot be reached does not keep the others waiting.
    fn choose_slot(&mut self, census: &Census) -> Option<Shard> {
        let short = |at: usize| {
            let slot = census.slots.get(at)?;
            let has_none = slot.fresh + slot.aged == 0;
            (slot.fresh + slot.asked < self.target(at)).then_some((!has_none, at))
        };
        let len = census.slots.len();
        let mut slots: Vec<(bool, usize)> = (0..len).filter_map(short).collect();
        let best = slots.iter().map(|(has_some, _)| *has_some).min()?;
        slots.retain(|(has_some, _)| *has_some == best);
        let (_, at) = *self.random.choose(&slots)?;
        u16::try_from(at).ok().map(Shard)
    }

    /// What to do at once about an attempt that failed for no fault of the host; none where it counts as a failure.
    pub(super) fn way_out(&mut self, attempt: Attempt, cause: &NodeCause) -> Option<Again> {
        let (Goal::Shard(shard, _), NodeCause::Connect(error)) = (attempt.goal, cause) else {
            return None;
        };
        let walk = attempt.walk?;
        if is_port_busy(error, walk.taken()) {
            let is_current = attempt.generation == self.layout.generation;
            return Some(if walk.is_over() || !is_current {
                Again::Regular
            } else {
                Again::NextPort(shard, walk)
            });
        }
        let early = matches!(
            error.phase,
            ConnectPhase::Tcp | ConnectPhase::Tls | ConnectPhase::Options
        );
        let unreachable = matches!(
            error.cause,
            ConnectCause::Io(_)
                | ConnectCause::Timeout
                | ConnectCause::Closed
                | ConnectCause::Protocol(_)
        );
        if !early || !unreachable || !self.is_up() {
            // Without any connection left it is the host that fails, not its port.
            return None;
        }
        self.source.has_failed = true;
        Some(Again::Regular)
    }
}

const ANYWHERE: (Goal, Option<PortWalk>, Option<u16>) = (Goal::Anywhere, None, None);

/// Takes the next port of a walk; the end of the walk leads anywhere.
fn from_port(
    shard: Shard,
    sharder: Sharder,
    mut walk: PortWalk,
) -> (Goal, Option<PortWalk>, Option<u16>) {
    match walk.next() {
        Some(port) => (Goal::Shard(shard, sharder.shards), Some(walk), Some(port)),
        None => ANYWHERE,
    }
}

/// Says whether a local port could not be bound, or is in use towards this very server.
fn is_port_busy(error: &ConnectError, taken: u32) -> bool {
    if error.phase != ConnectPhase::Tcp {
        return false;
    }
    let ConnectCause::Io(cause) = &error.cause else {
        return false;
    };
    match cause.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable => true,
        io::ErrorKind::PermissionDenied => taken < REFUSED_PORTS_MAX,
        _ => false,
    }
}
