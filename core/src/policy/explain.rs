//! Owns the explanation of where a request would go: the targets of a policy in order, and who is left out and why.
//! It asks the policy as a request does and sends nothing.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use uuid::Uuid;

use super::load_balancing::{
    ClusterView, LoadBalancingPolicy, PlanRequest, RoutingView, as_default,
};
use crate::config::profile::ExecutionProfile;
use crate::error::session::NodeFailure;
use crate::exec::statement::Bound;
use crate::exec::targets::{Planned, Targets};
use crate::routing::status::place;
use crate::routing::{Host, HostIdx, HostState, Loads, Routing, Shard, Token};

/// Where a request would go now, and why.
///
/// Shows itself as a few lines of text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RoutePlan {
    /// The name of the policy that was asked; `None` where the request names its target itself.
    pub policy: Option<String>,
    /// The keyspace and table that the request is routed by, where they are known to routing.
    pub table: Option<(Arc<str>, Arc<str>)>,
    /// The token of its partition key, where the key is known.
    pub token: Option<Token>,
    /// Whether its replicas are tried in a fixed order, as conditional statements and serial reads want it.
    pub stable: bool,
    /// The targets in the order in which they are tried. The order among equals differs from request to request.
    pub targets: Vec<PlannedTarget>,
    /// The members that are not tried.
    pub left_out: Vec<LeftOut>,
}

/// A member of the cluster as a plan names it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanHost {
    /// Its identity.
    pub id: Uuid,
    /// Its address, before any translation.
    pub address: SocketAddr,
    /// Its datacenter.
    pub datacenter: Option<Arc<str>>,
    /// Its rack.
    pub rack: Option<Arc<str>>,
    /// Its place among the replicas of the token, the first being 0; `None` for a host that is no replica.
    pub replica: Option<usize>,
}

/// One target of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedTarget {
    /// The host.
    pub host: PlanHost,
    /// How near it is.
    pub place: Place,
    /// The shard that is asked for; `None` lets the pool choose.
    pub shard: Option<Shard>,
    /// Whether that shard has a connection now; without one, another connection of the host serves.
    pub shard_connected: bool,
    /// How many requests wait on the least busy connection that would serve; `None` where none is open.
    pub in_flight: Option<u32>,
}

/// How near a host is to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Place {
    /// In the local rack.
    LocalRack,
    /// In the local datacenter, or anywhere when none is local.
    LocalDatacenter,
    /// In another datacenter.
    RemoteDatacenter,
}

/// A member that a plan leaves out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeftOut {
    /// The host.
    pub host: PlanHost,
    /// Why.
    pub why: LeftOutCause,
}

/// Why a plan leaves a member out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LeftOutCause {
    /// The host filter does not allow it.
    Filtered,
    /// The session wants no connection to it, because of the policy of its profile.
    NotReached,
    /// No connection to it was tried yet.
    NotTried,
    /// No connection to it is open.
    Down(Option<Arc<NodeFailure>>),
    /// It could be used, and the policy does not choose it for this request.
    NotChosen,
}

impl RoutePlan {
    /// Explains the plan of a request with a bound statement, in a session with this profile.
    #[must_use]
    pub fn of_bound<H>(
        bound: &Bound,
        profile: &ExecutionProfile,
        seed: u64,
        routing: &Routing<H>,
        loads: &dyn Loads<H>,
    ) -> Self {
        let options = bound.options();
        let profile = options.profile.as_deref().unwrap_or(profile);
        let consistency = options.consistency.unwrap_or(profile.consistency);
        let request = PlanRequest {
            table: bound.statement().table(routing),
            token: bound.token(),
            stable: PlanRequest::is_stable(bound.statement().is_conditional(), consistency),
            seed,
        };
        let policy = &*profile.load_balancing;
        Self::of(&request, options.target, policy, routing, loads)
    }

    /// Explains the plan of a request, which goes to `only` where that is given.
    #[must_use]
    pub fn of<H>(
        request: &PlanRequest,
        only: Option<Planned>,
        policy: &dyn LoadBalancingPolicy,
        routing: &Routing<H>,
        loads: &dyn Loads<H>,
    ) -> Self {
        let view = RoutingView::new(routing, loads);
        let mut targets = Targets::new();
        match only {
            Some(only) => targets.push(only),
            None => {
                let first = policy.first(request, &view);
                first.into_iter().for_each(|first| targets.push(first));
                policy.rest(request, &view, &mut targets);
            }
        }
        let replicas = view.replicas(request);
        let target = |planned: Planned| {
            let host = routing.host(planned.host)?;
            let on_shard = |shard| routing.pool(planned.host).map(|pool| pool.on_shard(shard));
            Some(PlannedTarget {
                host: PlanHost::new(host, planned.host, replicas),
                place: Place::of(host),
                shard: planned.shard,
                shard_connected: planned
                    .shard
                    .and_then(on_shard)
                    .is_some_and(|open| !open.is_empty()),
                in_flight: view.in_flight(planned.host, planned.shard),
            })
        };
        let left_out = HostIdx::all()
            .zip(routing.hosts.iter())
            .filter(|(idx, host)| !targets.contains(*idx) && host.state != HostState::Removed)
            .map(|(idx, host)| LeftOut {
                host: PlanHost::new(host, idx, replicas),
                why: LeftOutCause::of(host),
            });
        let table = request.table.and_then(|table| routing.table(table));
        Self {
            policy: only.is_none().then(|| name(policy)),
            table: table.map(|table| (Arc::clone(&table.keyspace), Arc::clone(&table.name))),
            token: request.token,
            stable: request.stable,
            targets: targets.iter().filter_map(target).collect(),
            left_out: left_out.collect(),
        }
    }
}

fn name(policy: &dyn LoadBalancingPolicy) -> String {
    match as_default(policy) {
        Some(_) => "default".into(),
        None => policy.name().into(),
    }
}

impl PlanHost {
    fn new(host: &Host, idx: HostIdx, replicas: &[HostIdx]) -> Self {
        Self {
            id: host.id,
            address: host.address,
            datacenter: host.datacenter.clone(),
            rack: host.rack.clone(),
            replica: replicas.iter().position(|replica| *replica == idx),
        }
    }
}

impl Place {
    #[inline]
    pub(super) fn of(host: &Host) -> Self {
        match (host.local, host.local_rack) {
            (true, true) => Self::LocalRack,
            (true, false) => Self::LocalDatacenter,
            (false, _) => Self::RemoteDatacenter,
        }
    }
}

impl LeftOutCause {
    fn of(host: &Host) -> Self {
        match host.state {
            _ if !host.allowed => Self::Filtered,
            HostState::Up => Self::NotChosen,
            _ if !host.wanted => Self::NotReached,
            HostState::Unknown => Self::NotTried,
            HostState::Down | HostState::Removed => Self::Down(host.failure.clone()),
        }
    }
}

impl fmt::Display for RoutePlan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.table, self.token) {
            (Some((keyspace, table)), Some(token)) => {
                write!(out, "token {} of {keyspace}.{table}", token.0)?;
            }
            (None, Some(token)) => write!(out, "token {} of an unknown table", token.0)?,
            (Some((keyspace, table)), None) => {
                write!(out, "{keyspace}.{table} without a partition key")?;
            }
            (None, None) => out.write_str("no table and no partition key")?,
        }
        match &self.policy {
            Some(policy) => write!(out, ", {policy} policy")?,
            None => out.write_str(", target named by the request")?,
        }
        if self.stable {
            out.write_str(", replicas in a fixed order")?;
        }
        if self.targets.is_empty() {
            out.write_str("\n  no host can be tried")?;
        }
        for (at, target) in self.targets.iter().enumerate() {
            write!(out, "\n  {}. {target}", at + 1)?;
        }
        self.left_out
            .iter()
            .try_for_each(|host| write!(out, "\n  not {host}"))
    }
}

impl fmt::Display for PlanHost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = place(self.datacenter.as_deref(), self.rack.as_deref());
        write!(out, "{} {place}", self.address)?;
        match self.replica {
            Some(at) => write!(out, ", replica {}", at + 1),
            None => Ok(()),
        }
    }
}

impl fmt::Display for PlannedTarget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}, {}", self.host, self.place)?;
        match self.shard {
            Some(shard) if self.shard_connected => write!(out, ", shard {}", shard.0)?,
            Some(shard) => write!(out, ", shard {} (no connection, another serves)", shard.0)?,
            None => (),
        }
        match self.in_flight {
            Some(count) => write!(out, ", {count} in flight"),
            None => out.write_str(", no connection"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::LocalRack => "local rack",
            Self::LocalDatacenter => "local datacenter",
            Self::RemoteDatacenter => "remote datacenter",
        })
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.host, self.why)
    }
}

impl fmt::Display for LeftOutCause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filtered => out.write_str("the host filter does not allow it"),
            Self::NotReached => out.write_str("the policy does not go there"),
            Self::NotTried => out.write_str("not tried yet"),
            Self::Down(None) => out.write_str("down"),
            Self::Down(Some(failure)) => write!(out, "down: {failure}"),
            Self::NotChosen => out.write_str("the policy does not choose it for this request"),
        }
    }
}
