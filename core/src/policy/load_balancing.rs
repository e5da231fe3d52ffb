//! Owns the order in which hosts are tried for a request: the policy trait, what a policy sees, the default policy.
//! Connections are not its matter: a policy names hosts and shards.

use std::fmt;

use crate::exec::targets::{Planned, Targets};
use crate::routing::{Host, HostIdx, HostState, Loads, Routing, Shard, TableIdx, Token};

/// Orders the hosts for a request.
///
/// A policy is a pure function of its arguments: all randomness comes from [`PlanRequest::seed`].
pub trait LoadBalancingPolicy: fmt::Debug + Send + Sync {
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

    /// What is reported of the policy to the server.
    fn description(&self) -> PolicyDescription<'_> {
        PolicyDescription::Custom { name: "custom" }
    }
}

/// What a load-balancing policy is to people and to the configuration report.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyDescription<'a> {
    /// The default policy, with its settings.
    Default(&'a DefaultLoadBalancing),
    /// A user's policy; nothing but its name is reported.
    Custom {
        /// The name.
        name: &'a str,
    },
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
    fn hosts(&self) -> &[Host] {
        &self.routing.hosts
    }

    fn replicas(&self, request: &PlanRequest) -> &[HostIdx] {
        match (request.table, request.token) {
            (Some(table), Some(token)) => self.routing.replicas(table, token),
            _ => &[],
        }
    }

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

/// Prefers the local datacenter and the replicas of the request, and of these the less busy.
///
/// The order: replicas of the local datacenter, replicas of others, other hosts of the local datacenter, other hosts;
/// other datacenters only with [`datacenter_failover`](Self::datacenter_failover). Of each group two random hosts are
/// compared and the one with fewer requests in flight comes first; replicas of stable requests keep the ring's order.
/// Costs no allocation while no more than the usual number of replicas is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefaultLoadBalancing {
    /// Whether replicas are tried before other hosts.
    pub token_aware: bool,
    /// Whether hosts of other datacenters are tried after those of the local one.
    pub datacenter_failover: bool,
}

impl Default for DefaultLoadBalancing {
    /// Token-aware, and never to another datacenter: a silent move there changes consistency and latency.
    fn default() -> Self {
        Self {
            token_aware: true,
            datacenter_failover: false,
        }
    }
}

impl LoadBalancingPolicy for DefaultLoadBalancing {
    fn first(&self, request: &PlanRequest, cluster: &dyn ClusterView) -> Option<Planned> {
        let hosts = cluster.hosts();
        let mut random = Random(request.seed);
        if self.token_aware {
            let replicas = cluster.replicas(request);
            for local in self.sides() {
                let group = replicas
                    .iter()
                    .copied()
                    .filter(|idx| eligible(hosts, *idx, *local));
                let found = if request.stable {
                    pick_in_order(group)
                } else {
                    pick(group, request, cluster, &mut random)
                };
                if let Some(host) = found {
                    return Some(planned(host, request, cluster));
                }
            }
        }
        let found = self.sides().iter().find_map(|local| {
            let group = indexes(hosts).filter(|idx| eligible(hosts, *idx, *local));
            pick(group, request, cluster, &mut random)
        });
        found.map(|host| planned(host, request, cluster))
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
            for local in self.sides() {
                let group = after
                    .iter()
                    .chain(before)
                    .copied()
                    .filter(|idx| eligible(hosts, *idx, *local));
                group.for_each(|idx| targets.push(planned(idx, request, cluster)));
            }
        }
        let turn = random.below(hosts.len());
        for local in self.sides() {
            let turned = indexes(hosts).skip(turn).chain(indexes(hosts).take(turn));
            let group = turned.filter(|idx| eligible(hosts, *idx, *local));
            group.for_each(|idx| targets.push(planned(idx, request, cluster)));
        }
    }

    fn reaches_remote_datacenters(&self) -> bool {
        self.datacenter_failover
    }

    fn description(&self) -> PolicyDescription<'_> {
        PolicyDescription::Default(self)
    }
}

impl DefaultLoadBalancing {
    /// The sides to look at in order: the local one, then if allowed the others.
    fn sides(&self) -> &'static [bool] {
        if self.datacenter_failover {
            &[true, false]
        } else {
            &[true]
        }
    }
}

fn indexes(hosts: &[Host]) -> impl Iterator<Item = HostIdx> {
    (0..=u16::MAX).take(hosts.len()).map(HostIdx)
}

fn eligible(hosts: &[Host], idx: HostIdx, local: bool) -> bool {
    hosts
        .get(idx.at())
        .is_some_and(|host| host.local == local && host.allowed && host.state == HostState::Up)
}

fn planned(host: HostIdx, request: &PlanRequest, cluster: &dyn ClusterView) -> Planned {
    Planned {
        host,
        shard: cluster.shard(host, request),
    }
}

fn pick_in_order(mut group: impl Iterator<Item = HostIdx>) -> Option<HostIdx> {
    group.next()
}

/// Draws two hosts of the group and takes the one with fewer requests in flight.
fn pick(
    group: impl Iterator<Item = HostIdx>,
    request: &PlanRequest,
    cluster: &dyn ClusterView,
    random: &mut Random,
) -> Option<HostIdx> {
    let mut drawn: [Option<HostIdx>; 2] = [None, None];
    for (seen, host) in group.enumerate() {
        let slot = if seen < 2 {
            seen
        } else {
            random.below(seen + 1)
        };
        if let Some(slot) = drawn.get_mut(slot) {
            *slot = Some(host);
        }
    }
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
