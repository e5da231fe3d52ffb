//! Owns the order in which hosts are tried for a request: the policy trait, what a policy sees, the default policy.
//! Connections are not its matter: a policy names hosts and shards.
//!
//! A policy of one's own is a value that implements [`LoadBalancingPolicy`]. It keeps no state and asks no clock, so
//! the same request finds the same plan, on any thread and in a simulation. This one tries hosts of a newer version
//! first, in turn, and leaves everything else to the default policy:
//!
//! ```
//! use messina_core::policy::load_balancing::{
//!     ClusterView, DefaultLoadBalancing, LoadBalancingPolicy, Planned, PlanRequest, Targets,
//! };
//! use messina_core::routing::{Host, HostIdx, HostState};
//!
//! #[derive(Debug, Default)]
//! struct NewerFirst {
//!     version: String,
//!     others: DefaultLoadBalancing,
//! }
//!
//! impl NewerFirst {
//!     fn is_newer(&self, host: &Host) -> bool {
//!         let version = host.release_version.as_deref();
//!         host.usable() && host.local && host.state == HostState::Up && version.is_some_and(|own| *self.version <= *own)
//!     }
//! }
//!
//! impl LoadBalancingPolicy for NewerFirst {
//!     fn first(&self, request: &PlanRequest, cluster: &dyn ClusterView) -> Option<Planned> {
//!         let mut newer: Vec<HostIdx> = Vec::new(); // A policy for many requests a second would not allocate.
//!         for (host, at) in cluster.hosts().iter().zip(0..) {
//!             newer.extend(self.is_newer(host).then_some(HostIdx(at)));
//!         }
//!         let turn = usize::try_from(request.seed % 1_000).unwrap_or(0);
//!         match newer.get(turn % newer.len().max(1)) {
//!             Some(host) => Some(Planned { host: *host, shard: cluster.shard(*host, request) }),
//!             None => self.others.first(request, cluster),
//!         }
//!     }
//!
//!     fn rest(&self, request: &PlanRequest, cluster: &dyn ClusterView, targets: &mut Targets) {
//!         self.others.rest(request, cluster, targets);
//!     }
//!
//!     fn reaches(&self, host: &Host) -> bool {
//!         self.others.reaches(host)
//!     }
//!
//!     fn name(&self) -> &str {
//!         "newer-first"
//!     }
//! }
//! ```
//!
//! A session takes it with `builder.load_balancing(policy)`, or a profile in
//! [`ExecutionProfile::load_balancing`](crate::config::profile::ExecutionProfile::load_balancing).

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;

use super::explain::Place;
pub use crate::exec::targets::{Planned, Targets};
use crate::routing::{Host, HostIdx, HostState, Loads, Routing, Shard, TableIdx, Token};
use crate::wire::consistency::Consistency;

/// Orders the hosts for a request.
///
/// A policy is a pure function of its arguments: all randomness comes from [`PlanRequest::seed`].
pub trait LoadBalancingPolicy: Any + fmt::Debug + Send + Sync {
    /// Chooses the target to try first; `None` where no host may be tried.
    fn first(&self, request: &PlanRequest, cluster: &dyn ClusterView) -> Option<Planned>;

    /// Appends the further targets in order; `targets` holds those already chosen and drops repeated hosts.
    ///
    /// Called only when the first target did not serve.
    fn rest(&self, request: &PlanRequest, cluster: &dyn ClusterView, targets: &mut Targets);

    /// Says whether hosts outside of the local datacenter may be chosen; where not, they get no connections.
    fn reaches_remote_datacenters(&self) -> bool {
        true
    }

    /// Says whether requests may ever go to a host that the host filter allows; where not, it gets no connections.
    ///
    /// Asked of the policy of the session's profile whenever the facts of hosts change; must be a pure function of them.
    /// By default every host of the local datacenter, and those of others if
    /// [`reaches_remote_datacenters`](Self::reaches_remote_datacenters) says so.
    fn reaches(&self, host: &Host) -> bool {
        host.local || self.reaches_remote_datacenters()
    }

    /// How many hosts of each datacenter other than the local one get connections: the first that are up; unset, all.
    fn remote_hosts_max(&self) -> Option<NonZeroU16> {
        None
    }

    /// Returns the one thing that people and servers are told of a policy that is not the default one: the name of its
    /// type unless it says otherwise. No configured value belongs into it.
    fn name(&self) -> &str {
        super::short_type_name(std::any::type_name::<Self>())
    }
}

/// Returns the default policy if it is that one itself: one that wraps or imitates it may do anything.
pub(crate) fn as_default(policy: &dyn LoadBalancingPolicy) -> Option<&DefaultLoadBalancing> {
    (policy as &dyn Any).downcast_ref()
}

/// The request to find targets for.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequest {
    /// The table, where known.
    pub table: Option<TableIdx>,
    /// The token of the partition key, where known.
    pub token: Option<Token>,
    /// Whether replicas keep the order of the ring, as conditional statements want it.
    pub stable: bool,
    /// The random number of this request.
    pub seed: u64,
}

impl PlanRequest {
    /// Says whether a request wants its replicas in the order of the ring: its statement is conditional, or it reads at a
    /// serial consistency.
    #[inline]
    #[must_use]
    pub const fn is_stable(conditional: bool, consistency: Consistency) -> bool {
        conditional || consistency.is_serial()
    }
}

/// What a policy sees of the cluster.
pub trait ClusterView {
    /// Every host of the session's life, by index; those not [`Host::usable`] must not be chosen.
    fn hosts(&self) -> &[Host];

    /// The replicas of the request in ring order; empty where they are not known.
    fn replicas(&self, request: &PlanRequest) -> &[HostIdx];

    /// The shard of a host that owns the request's token.
    fn shard(&self, host: HostIdx, request: &PlanRequest) -> Option<Shard>;

    /// How many requests wait on the least busy connection that would be used; `None` where none is open.
    fn in_flight(&self, host: HostIdx, shard: Option<Shard>) -> Option<u32>;
}

/// A [`ClusterView`] of a routing snapshot.
pub struct RoutingView<'a, H> {
    routing: &'a Routing<H>,
    loads: &'a dyn Loads<H>,
}

impl<H> fmt::Debug for RoutingView<'_, H> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RoutingView")
            .field("generation", &self.routing.generation)
            .finish_non_exhaustive()
    }
}

impl<'a, H> RoutingView<'a, H> {
    /// Looks at a snapshot and at the loads of its connections.
    pub fn new(routing: &'a Routing<H>, loads: &'a dyn Loads<H>) -> Self {
        Self { routing, loads }
    }
}

impl<H> ClusterView for RoutingView<'_, H> {
    #[inline]
    fn hosts(&self) -> &[Host] {
        &self.routing.hosts
    }

    #[inline(always)] // On the path of every request.
    fn replicas(&self, request: &PlanRequest) -> &[HostIdx] {
        match (request.table, request.token) {
            (Some(table), Some(token)) => self.routing.replicas(table, token),
            _ => &[],
        }
    }

    #[inline]
    fn shard(&self, host: HostIdx, request: &PlanRequest) -> Option<Shard> {
        self.routing.shard_of(host, request.token?)
    }

    fn in_flight(&self, host: HostIdx, shard: Option<Shard>) -> Option<u32> {
        let pool = self.routing.pool(host)?;
        let on_shard = shard.map_or(&[][..], |shard| pool.on_shard(shard));
        let candidates = if on_shard.is_empty() {
            pool.connections()
        } else {
            on_shard
        };
        candidates
            .iter()
            .map(|handle| self.loads.in_flight(handle))
            .min()
    }
}

/// Prefers the local rack and datacenter and the replicas of the request, and of equals the less busy.
///
/// The order: replicas in the local rack, in the local datacenter, in other datacenters; then other hosts in the same
/// three steps. Other datacenters only with [`datacenter_failover`](Self::datacenter_failover). Of each group two random
/// hosts are compared and the one with fewer requests in flight comes first. Replicas of stable requests keep the ring's
/// order and ignore racks, so that every client sends them to the same host of a datacenter.
/// Costs no allocation while no more than the usual number of replicas is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefaultLoadBalancing {
    /// Whether replicas are tried before other hosts. Default: yes.
    pub token_aware: bool,
    /// Whether hosts of other datacenters are tried after those of the local one. Default: no.
    pub datacenter_failover: bool,
    /// The other datacenters that may be tried then, by exact name; unset, all. Default: unset.
    pub remote_datacenters: Option<BTreeSet<Arc<str>>>,
    /// How many hosts of each of them may be tried: the first that are up; unset, all. The others get no connections
    /// when this is the policy of the session's profile. Default: unset.
    pub remote_hosts_max: Option<NonZeroU16>,
}

impl Default for DefaultLoadBalancing {
    /// Token-aware, and never to another datacenter: a silent move there changes consistency and latency.
    fn default() -> Self {
        Self {
            token_aware: true,
            datacenter_failover: false,
            remote_datacenters: None,
            remote_hosts_max: None,
        }
    }
}

impl LoadBalancingPolicy for DefaultLoadBalancing {
    fn first(&self, request: &PlanRequest, cluster: &dyn ClusterView) -> Option<Planned> {
        self.first_of(request, cluster)
    }

    fn rest(&self, request: &PlanRequest, cluster: &dyn ClusterView, targets: &mut Targets) {
        let hosts = cluster.hosts();
        let mut random = Random(request.seed);
        if self.token_aware {
            let replicas = cluster.replicas(request);
            let turn = if request.stable {
                0
            } else {
                random.below(replicas.len())
            };
            let (before, after) = replicas.split_at(turn);
            for own in PLACES {
                let turned = after.iter().chain(before).copied();
                let group = turned.filter(|idx| match self.place(hosts, *idx) {
                    Some(Place::LocalRack) if request.stable => own == Place::LocalDatacenter,
                    place => place == Some(own),
                });
                group.for_each(|idx| targets.push(planned(idx, request, cluster)));
            }
        }
        let turn = random.below(hosts.len());
        for own in PLACES {
            let turned = indexes(hosts).skip(turn).chain(indexes(hosts).take(turn));
            let group = turned.filter(|idx| self.place(hosts, *idx) == Some(own));
            group.for_each(|idx| targets.push(planned(idx, request, cluster)));
        }
    }

    fn reaches_remote_datacenters(&self) -> bool {
        self.datacenter_failover
    }

    fn reaches(&self, host: &Host) -> bool {
        host.local || self.permits(host)
    }

    fn remote_hosts_max(&self) -> Option<NonZeroU16> {
        self.remote_hosts_max
    }
}

/// The places of hosts, near ones first.
const PLACES: [Place; 3] = [
    Place::LocalRack,
    Place::LocalDatacenter,
    Place::RemoteDatacenter,
];

impl DefaultLoadBalancing {
    /// Chooses as [`first`](LoadBalancingPolicy::first) does, in a view whose type is known where it is used.
    #[inline(always)] // On the path of every request.
    pub(crate) fn first_of<V: ClusterView + ?Sized>(
        &self,
        request: &PlanRequest,
        cluster: &V,
    ) -> Option<Planned> {
        let replicas = match self.token_aware {
            true => cluster.replicas(request),
            false => &[],
        };
        if let [only] = *replicas
            && self.place(cluster.hosts(), only).is_some()
        {
            return Some(planned(only, request, cluster));
        }
        self.first_of_several(replicas, request, cluster)
    }

    #[inline(never)]
    fn first_of_several<V: ClusterView + ?Sized>(
        &self,
        replicas: &[HostIdx],
        request: &PlanRequest,
        cluster: &V,
    ) -> Option<Planned> {
        let mut random = Random(request.seed);
        let replicas = replicas.iter().copied();
        let mut host = match request.stable {
            true => self.nearest_in_order(replicas, cluster.hosts()),
            false => self.nearest(replicas, request, cluster, &mut random),
        };
        if host.is_none() {
            let hosts = indexes(cluster.hosts());
            host = self.nearest(hosts, request, cluster, &mut random);
        }
        host.map(|host| planned(host, request, cluster))
    }

    /// How near a host is; nothing for one that must not be tried now.
    #[inline]
    fn place(&self, hosts: &[Host], idx: HostIdx) -> Option<Place> {
        let host = hosts.get(idx.at()).filter(|host| serves(host))?;
        let place = Place::of(host);
        (place != Place::RemoteDatacenter || self.admits(hosts, host, idx)).then_some(place)
    }

    /// Says whether a host of another datacenter is among those that may be tried.
    #[cold]
    fn admits(&self, hosts: &[Host], host: &Host, idx: HostIdx) -> bool {
        if !self.permits(host) {
            return false;
        }
        let Some(limit) = self.remote_hosts_max.map(NonZeroU16::get).map(usize::from) else {
            return true;
        };
        let same = |other: &&Host| other.datacenter == host.datacenter && serves(other);
        hosts.iter().take(idx.at()).filter(same).take(limit).count() < limit
    }

    /// Says whether the datacenter of a host may be tried although it is not the local one.
    fn permits(&self, host: &Host) -> bool {
        let named = |names: &BTreeSet<Arc<str>>| {
            let own = host.datacenter.as_deref();
            own.is_some_and(|own| names.contains(own))
        };
        self.datacenter_failover && self.remote_datacenters.as_ref().is_none_or(named)
    }

    /// Takes the first of the nearest hosts; racks make no difference.
    fn nearest_in_order(
        &self,
        group: impl Iterator<Item = HostIdx>,
        hosts: &[Host],
    ) -> Option<HostIdx> {
        let mut remote = None;
        for idx in group {
            match self.place(hosts, idx) {
                Some(Place::LocalRack | Place::LocalDatacenter) => return Some(idx),
                Some(Place::RemoteDatacenter) => remote = remote.or(Some(idx)),
                None => (),
            }
        }
        remote
    }

    /// Draws two of the nearest hosts of the group and takes the one with fewer requests in flight.
    #[inline]
    fn nearest<V: ClusterView + ?Sized>(
        &self,
        group: impl Iterator<Item = HostIdx>,
        request: &PlanRequest,
        cluster: &V,
        random: &mut Random,
    ) -> Option<HostIdx> {
        let hosts = cluster.hosts();
        let mut drawn: [Option<HostIdx>; 2] = [None, None];
        let mut nearest = Place::RemoteDatacenter;
        let mut seen = 0;
        for idx in group {
            let Some(place) = self.place(hosts, idx) else {
                continue;
            };
            if nearest < place {
                continue;
            }
            if place < nearest {
                (nearest, seen, drawn) = (place, 0, [None, None]);
            }
            let slot = if seen < 2 {
                seen
            } else {
                random.below(seen + 1)
            };
            if let Some(slot) = drawn.get_mut(slot) {
                *slot = Some(idx);
            }
            seen += 1;
        }
        less_busy(drawn, request, cluster, random)
    }
}

fn indexes(hosts: &[Host]) -> impl Iterator<Item = HostIdx> {
    HostIdx::all().take(hosts.len())
}

/// Says whether requests may be sent to a host now.
fn serves(host: &Host) -> bool {
    host.allowed && host.state == HostState::Up
}

#[inline]
fn planned<V: ClusterView + ?Sized>(host: HostIdx, request: &PlanRequest, cluster: &V) -> Planned {
    Planned {
        host,
        shard: cluster.shard(host, request),
    }
}

/// Takes the host with fewer requests in flight.
#[inline]
fn less_busy<V: ClusterView + ?Sized>(
    drawn: [Option<HostIdx>; 2],
    request: &PlanRequest,
    cluster: &V,
    random: &mut Random,
) -> Option<HostIdx> {
    let (one, other) = match drawn {
        [Some(one), Some(other)] => (one, other),
        [one, _] => return one,
    };
    // Without this turn the first of two equally busy hosts would get every request.
    let (one, other) = if random.below(2) == 0 {
        (one, other)
    } else {
        (other, one)
    };
    let load = |host| {
        cluster
            .in_flight(host, cluster.shard(host, request))
            .unwrap_or(u32::MAX)
    };
    Some(if load(other) < load(one) { other } else { one })
}

/// A small generator that spreads one seed over the draws of one request.
struct Random(u64);

impl Random {
    /// Draws a number below `bound`, or 0 when that is 0.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let scaled = (u128::from(mixed) * (bound as u128)) >> 64;
        usize::try_from(scaled).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
