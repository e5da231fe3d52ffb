//! The straight way of a request that is answered at its first target: an owner sends it without an [`Execution`]
//! and makes one only when something goes wrong. The choice of the target is the same on both ways.

use std::time::Instant;

use super::fibre::FibreState;
use super::{AttemptId, Cluster, Connections, Execution, ExecutionPlan, Filled, Phase};
use crate::config::profile::ExecutionProfile;
use crate::exec::targets::{Planned, Target};
use crate::policy::load_balancing::{PlanRequest, RoutingView};
use crate::routing::Routing;

/// Says whether requests of a profile may go straight: no copies of slow requests, no limit of single attempts.
#[inline]
#[must_use]
pub fn goes_straight(profile: &ExecutionProfile) -> bool {
    profile.attempt_timeout.is_none() && !profile.speculative.is_watching()
}

/// Chooses where a request goes first, as [`Execution::start`] does; none when that place has no connection.
#[inline]
#[must_use]
pub fn first_target<H: Clone>(
    request: &PlanRequest,
    profile: &ExecutionProfile,
    routing: &Routing<H>,
    connections: &dyn Connections<H>,
) -> Option<Target<H>> {
    let view = RoutingView::new(routing, connections);
    let planned = profile.load_balancing.first(request, &view)?;
    connect(planned, request, routing, connections)
}

/// Finds the connection to a place that was chosen for a request; none when it has none.
#[inline(always)] // On the path of every request.
pub(super) fn connect<H: Clone>(
    planned: Planned,
    request: &PlanRequest,
    routing: &Routing<H>,
    connections: &dyn Connections<H>,
) -> Option<Target<H>> {
    let cluster = Cluster {
        routing,
        connections,
    };
    cluster.connect(planned, request.seed)
}

impl<H: Clone> Execution<H> {
    /// Makes the execution of a request that was sent straight to `target` at `since`, as the attempt
    /// [`STRAIGHT`]; what became of it is reported with [`handle_reply`](Self::handle_reply).
    #[must_use]
    pub fn sent_straight(plan: ExecutionPlan, since: Instant, target: Target<H>) -> Self {
        let mut execution = Self::new(plan);
        execution.phase = Phase::Running;
        execution.clock = Some(since);
        execution.filled = Filled::First;
        execution.attempts_begun = STRAIGHT.0;
        execution.first.begin(STRAIGHT, target, Some(since), None);
        execution.first.state = FibreState::Waiting;
        execution
    }
}

/// The attempt of a request that was sent straight.
pub const STRAIGHT: AttemptId = AttemptId(1);
