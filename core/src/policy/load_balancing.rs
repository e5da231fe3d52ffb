//! Owns the order in which hosts are tried for a request: the policy trait, what a policy sees, the default policy.
//! Connections are not its matter: a policy names hosts and shards.

use std::fmt;

use crate::exec::targets::{Planned, Targets};
use crate::routing::{Host, HostIdx, Loads, Routing, Shard, TableIdx, Token};

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
        out.debug_struct("RoutingView").field("generation", &self.routing.generation).finish_non_exhaustive()
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
        let candidates = if on_shard.is_empty() { pool.connections() } else { on_shard };
        candidates.iter().map(|handle| self.loads.in_flight(handle)).min()
    }
}

/// Prefers the local datacenter and the replicas of the request, and of these the less busy.
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
        Self { token_aware: true, datacenter_failover: false }
    }
}
