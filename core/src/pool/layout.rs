//! Owns where a connection of a pool belongs: the slots of a node's shards, what is in excess, what follows when the
//! node's shards change.
//! When connections are opened is the refill's business.

use std::time::Instant;

use super::refill::{Attempt, Goal};
use super::{AGE_SPREAD_PERCENT, Pool, PoolOutput};
use crate::cluster::ConnId;
use crate::config::pool::PoolSize;
use crate::conn::{Address, CloseReason, ConnectionInfo};
use crate::notify::Note;
use crate::routing::{Shard, Sharder};
use crate::wire::ShardInfo;

/// How the node is sharded, as far as connections showed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    /// None for a node without shards, and before the first connection.
    pub(super) sharder: Option<Sharder>,
    /// Whether a connection has shown it.
    pub(super) is_known: bool,
    /// Counts the changes, so that an attempt knows which layout it was made for.
    pub(super) generation: u32,
}

/// An open connection.
#[derive(Clone, Debug)]
pub(super) struct Member<H> {
    pub(super) conn: ConnId,
    pub(super) handle: H,
    pub(super) shard: Option<Shard>,
    pub(super) since: Instant,
    pub(super) standing: Standing,
    /// Whether it was asked for a sign of life.
    pub(super) probing: bool,
    /// When another connection is to take its place.
    pub(super) ages_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// On its way into the keyspace.
    Entering,
    Serving,
    /// Serving until another connection takes its place.
    Aged,
    /// Landed where enough are; kept so that the server hands out other shards, and never used.
    Excess,
}

impl<H> Member<H> {
    pub(super) fn is_serving(&self) -> bool {
        matches!(self.standing, Standing::Serving | Standing::Aged)
    }
}

/// What a slot has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    /// Connections that count, those on their way into the keyspace included.
    pub(super) fresh: usize,
    /// Connections that are to be replaced.
    pub(super) aged: usize,
    /// Attempts with a source port for this slot.
    pub(super) asked: usize,
}

/// What a pool has, slot by slot.
#[derive(Clone, Debug)]
pub(super) struct Census {
    pub(super) slots: Vec<Slot>,
    /// Attempts that may land anywhere.
    pub(super) roaming: usize,
    pub(super) excess: usize,
}

/// A node that changes its shards more often than this does so again and again.
const RESHARD_INTERVAL: std::time::Duration = std::time::Duration::from_secs(10);

impl<H: Clone> Pool<H> {
    /// How the pool has a slot for each shard; none where it has one slot for all connections.
    pub(super) fn by_shard(&self) -> Option<Sharder> {
        let one_slot = matches!(self.config.pool.size, PoolSize::PerHost(_));
        self.layout.sharder.filter(|_| !one_slot)
    }

    pub(super) fn opens_on_demand(&self) -> bool {
        matches!(self.config.pool.size, PoolSize::OnDemand { .. })
    }

    fn slot_of(&self, shard: Option<Shard>) -> Option<usize> {
        match self.by_shard() {
            None => Some(0),
            Some(sharder) => shard
                .filter(|shard| shard.0 < sharder.shards.get())
                .map(|shard| usize::from(shard.0)),
        }
    }

    /// How many connections a slot should have.
    pub(super) fn target(&self, slot: usize) -> usize {
        match self.config.pool.size {
            PoolSize::PerShard(count) | PoolSize::PerHost(count) => usize::from(count.get()),
            PoolSize::OnDemand { .. } if self.by_shard().is_none() => 1,
            PoolSize::OnDemand { .. } => {
                let wanted = u16::try_from(slot).is_ok_and(|slot| self.demanded.contains(&slot));
                usize::from(wanted)
            }
        }
    }

    /// Counts what there is, in one pass over connections and attempts.
    pub(super) fn census(&self) -> Census {
        let slots = self
            .by_shard()
            .map_or(1, |own| usize::from(own.shards.get()));
        let mut census = Census {
            slots: vec![Slot::default(); slots],
            roaming: 0,
            excess: 0,
        };
        for member in &self.members {
            let slot = self
                .slot_of(member.shard)
                .and_then(|slot| census.slots.get_mut(slot));
            match (member.standing, slot) {
                (Standing::Excess, _) => census.excess += 1,
                (Standing::Aged, Some(slot)) => slot.aged += 1,
                (Standing::Entering | Standing::Serving, Some(slot)) => slot.fresh += 1,
                (_, None) => (),
            }
        }
        for attempt in &self.attempts {
            let slot = match &attempt.goal {
                Goal::Shard(shard, _) if attempt.generation == self.layout.generation => {
                    census.slots.get_mut(usize::from(shard.0))
                }
                _ => None,
            };
            match slot {
                Some(slot) => slot.asked += 1,
                None => census.roaming += 1,
            }
        }
        census
    }

    fn is_full(&self, census: &Census) -> bool {
        let mut slots = census.slots.iter().enumerate();
        slots.all(|(at, slot)| self.target(at) <= slot.fresh)
    }

    /// Says whether every slot has what it should have.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_up() && self.is_full(&self.census())
    }

    /// Puts a connection where it belongs, or closes it.
    pub(super) fn place(
        &mut self,
        attempt: &Attempt,
        info: &ConnectionInfo,
        handle: H,
        entered: bool,
    ) {
        let conn = attempt.conn;
        let told = info.shard.filter(|_| self.config.pool.shard_awareness);
        if !self.adopt(attempt, told, &info.address) {
            return self.put(PoolOutput::Close(conn, CloseReason::Resharded));
        }
        self.source.port = told.and_then(|told| shard_aware_port(told, self.config.uses_tls()));
        self.check_source_port(attempt, told, &info.address);
        let shard = told.map(|told| told.shard);
        let census = self.census();
        let slot = self
            .slot_of(shard)
            .and_then(|slot| Some((slot, census.slots.get(slot)?)));
        let is_short = slot.is_some_and(|(at, slot)| {
            // On demand, a slot that has nothing takes whatever comes.
            slot.fresh < self.target(at).max(usize::from(self.opens_on_demand()))
        });
        let mut member = Member {
            conn,
            handle,
            shard,
            since: self.now,
            standing: Standing::Entering,
            probing: false,
            ages_at: None,
        };
        if is_short {
            member.ages_at = self.end_of_life();
            self.members.push(member);
            self.placed(conn, shard, entered);
        } else if self.by_shard().is_none()
            || matches!(attempt.goal, Goal::Shard(..))
            || self.is_full(&census)
        {
            self.put(PoolOutput::Close(conn, CloseReason::Surplus));
        } else {
            member.standing = Standing::Excess;
            self.members.push(member);
            self.bound_excess(&info.address);
        }
    }

    fn placed(&mut self, conn: ConnId, shard: Option<Shard>, entered: bool) {
        self.patience.progressed = true;
        if self.opens_on_demand() {
            self.demanded.extend(shard.map(|shard| shard.0));
        }
        if self.is_full(&self.census()) {
            self.patience.stalls = 0;
            self.source.has_failed = false;
            self.again.clear();
            self.close_excess();
        }
        if entered {
            self.serve(conn);
        } else {
            self.put(PoolOutput::Enter(conn));
        }
    }

    /// Hands a connection to requests, in the place of one that has aged where there is one.
    pub(super) fn serve(&mut self, conn: ConnId) {
        let Some(member) = self.members.iter_mut().find(|member| member.conn == conn) else {
            return;
        };
        member.standing = Standing::Serving;
        let shard = member.shard;
        self.patience.healthy_since.get_or_insert(self.now);
        self.put(PoolOutput::Changed);
        let Some(slot) = self.slot_of(shard) else {
            return;
        };
        // The oldest goes first.
        let target = self.target(slot).max(1);
        loop {
            let mut here = self.members.iter().filter(|member| {
                member.standing != Standing::Excess && self.slot_of(member.shard) == Some(slot)
            });
            if here.clone().count() <= target {
                return;
            }
            let aged = here.clone().find(|own| own.standing == Standing::Aged);
            let Some(old) = aged.or_else(|| here.next()).map(|old| old.conn) else {
                return;
            };
            self.retire(old, CloseReason::Aged);
        }
    }

    /// Takes a connection out of use; it ends after the requests in flight.
    fn retire(&mut self, conn: ConnId, reason: CloseReason) {
        let Some(member) = self.take_member(conn) else {
            return;
        };
        self.put(match member.is_serving() {
            true => PoolOutput::Drain(conn, reason),
            false => PoolOutput::Close(conn, reason),
        });
    }

    fn end_of_life(&mut self) -> Option<Instant> {
        let limit = self.config.pool.connection_age_max?;
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let early = self.random.below(nanos / 100 * AGE_SPREAD_PERCENT + 1);
        self.now
            .checked_add(limit.saturating_sub(std::time::Duration::from_nanos(early)))
    }

    /// Closes all connections in excess once there are too many, and waits when they did not help.
    fn bound_excess(&mut self, address: &Address) {
        let census = self.census();
        let shards = self.by_shard().map_or(1, |own| own.shards.get());
        if census.excess <= self.config.pool.excess_max(shards) {
            return;
        }
        self.close_excess();
        if std::mem::take(&mut self.patience.progressed) {
            return;
        }
        let retry_in = self.stall();
        let slots = census.slots.iter().enumerate();
        let missing = slots.filter(|(at, slot)| slot.fresh < self.target(*at));
        let note = Note::ShardsNotReached {
            address: address.clone(),
            missing: missing.count(),
            shards: usize::from(shards),
            retry_in,
        };
        if self.patience.stalls == 1 {
            self.put(PoolOutput::Note(note));
        }
    }

    /// Waits longer each time that attempts lead nowhere.
    fn stall(&mut self) -> std::time::Duration {
        let delay = self.pause(self.patience.stalls);
        self.patience.stalls = self.patience.stalls.saturating_add(1);
        self.again.clear();
        delay
    }

    fn close_excess(&mut self) {
        let excess = |member: &Member<H>| member.standing == Standing::Excess;
        let conns: Vec<ConnId> = self
            .members
            .iter()
            .filter(|member| excess(member))
            .map(|member| member.conn)
            .collect();
        self.members.retain(|member| !excess(member));
        for conn in conns {
            self.put(PoolOutput::Close(conn, CloseReason::Surplus));
        }
    }

    /// Takes on the shards that a connection shows; false when it shows those of before a change.
    fn adopt(&mut self, attempt: &Attempt, told: Option<ShardInfo>, address: &Address) -> bool {
        let sharder = told.map(|told| Sharder {
            shards: told.shards,
            ignore_msb: told.ignore_msb,
        });
        if self.layout.is_known && self.layout.sharder == sharder {
            return true;
        }
        if !self.members.is_empty() && attempt.generation != self.layout.generation {
            return false;
        }
        let before = self.layout;
        self.layout = Layout {
            sharder,
            is_known: true,
            generation: before.generation.wrapping_add(1),
        };
        self.again.clear();
        if before.is_known {
            self.resharded(before, address);
        }
        true
    }

    /// Keeps the connections whose shards still exist; the others end after their requests.
    fn resharded(&mut self, before: Layout, address: &Address) {
        let count = |layout: &Layout| layout.sharder.map(|sharder| sharder.shards);
        if count(&before) != count(&self.layout) {
            let note = Note::Resharded {
                address: address.clone(),
                before: count(&before),
                now: count(&self.layout),
            };
            self.put(PoolOutput::Note(note));
        }
        self.close_excess();
        // Without shards nothing tells old connections apart from new ones, so all of the old ones go.
        let shards = count(&self.layout).map_or(0, std::num::NonZeroU16::get);
        let homeless: Vec<ConnId> = self
            .members
            .iter()
            .filter(|member| member.shard.is_none_or(|shard| shards <= shard.0))
            .map(|member| member.conn)
            .collect();
        for conn in homeless {
            self.retire(conn, CloseReason::Resharded);
        }
        self.demanded.retain(|shard| *shard < shards);
        self.put(PoolOutput::Changed);
        let again = self
            .patience
            .resharded
            .replace(self.now)
            .is_some_and(|at| self.now.saturating_duration_since(at) < RESHARD_INTERVAL);
        if again {
            self.stall();
        }
    }

    /// Leaves source ports alone for a while when one did not lead where it should.
    fn check_source_port(&mut self, attempt: &Attempt, told: Option<ShardInfo>, address: &Address) {
        let (Goal::Shard(wanted, shards), Some(told)) = (&attempt.goal, told) else {
            return;
        };
        if *shards != told.shards || *wanted == told.shard || self.source.is_cooling(self.now) {
            return;
        }
        let pause = self.config.pool.source_port_cooldown;
        self.source.cooldown_until = self.now.checked_add(pause);
        let note = Note::SourcePortIgnored {
            address: address.clone(),
            wanted: *wanted,
            reached: told.shard,
            pause,
        };
        self.put(PoolOutput::Note(note));
    }
}

/// The port where the client's own port chooses the shard; an encrypted connection never goes to the plain one.
fn shard_aware_port(told: ShardInfo, uses_tls: bool) -> Option<u16> {
    match uses_tls {
        true => told.tls_port,
        false => told.port,
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    #[test]
    fn encryption_chooses_the_port_and_never_falls_back_to_the_plain_one() {
        let told = |port, tls_port| ShardInfo {
            shard: Shard(0),
            shards: NonZeroU16::MIN,
            ignore_msb: 12,
            port,
            tls_port,
        };
        let both = told(Some(19_042), Some(19_142));
        assert_eq!(shard_aware_port(both, true), Some(19_142));
        assert_eq!(shard_aware_port(both, false), Some(19_042));
        assert_eq!(shard_aware_port(told(Some(19_042), None), true), None);
        assert_eq!(shard_aware_port(told(None, Some(19_142)), false), None);
    }
}
