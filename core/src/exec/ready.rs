//! What every EXECUTE of a statement has in common, put together once: the settled options, the first choice of a node,
//! and the template of its frame.
//!
//! This module leaves out the values, everything that differs from one request to the next, and what a frame looks like.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::straight::{connect, goes_straight};
use crate::config::profile::ExecutionProfile;
use crate::exec::Connections;
use crate::exec::prepared::Preparation;
use crate::exec::statement::StatementOptions;
use crate::exec::targets::Target;
use crate::policy::load_balancing::{DefaultLoadBalancing, PlanRequest, RoutingView, as_default};
use crate::routing::Routing;
use crate::wire::request::{ExecuteTemplate, RequestOptionsRef, ValuesRef};
use crate::wire::supported::ProtocolFeatures;

/// Holds what does not change from one plain EXECUTE of a statement to the next.
///
/// A request is plain when it goes to the first node that the policy names, with nothing but its values to tell it from
/// others. It costs its owner a copy of the template, the values and a timestamp.
#[derive(Debug)]
pub struct Ready {
    /// Is the profile of the session.
    default: Arc<ExecutionProfile>,
    profile: Arc<ExecutionProfile>,
    /// Is the policy of the profile, if that is the default one: asked without a detour.
    balancing: Option<DefaultLoadBalancing>,
    timeout: Option<Duration>,
    stable: bool,
    template: ExecuteTemplate,
}

/// Holds what the requests of a statement depend on beside its own options.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Is the profile of the session.
    pub profile: Arc<ExecutionProfile>,
    /// Is what most connections of the session have agreed on.
    pub features: ProtocolFeatures,
}

impl Ready {
    /// Puts together what can be; none when the statement's requests are not plain.
    pub(super) fn new(
        preparation: &Preparation,
        options: &StatementOptions,
        defaults: &Defaults,
    ) -> Option<Self> {
        let profile = options.profile.as_ref().unwrap_or(&defaults.profile);
        let is_plain = options.target.is_none()
            && options.paging_state.is_none()
            && options.custom_payload.is_none();
        if !is_plain || !goes_straight(profile) {
            return None;
        }
        let settings = options.settle_timeless(profile);
        let stamped = settings.timestamp.is_none() && profile.client_timestamps;
        let timestamp = settings.timestamp.or_else(|| stamped.then_some(0));
        let values = ValuesRef {
            count: u16::try_from(preparation.bind_columns().len()).ok()?,
            ..ValuesRef::default()
        };
        let mut params = settings.params(settings.consistency, values, None);
        params.timestamp = timestamp;
        let features = &defaults.features;
        let request = preparation.execute(preparation.first_shape(), params, features);
        let extras = RequestOptionsRef {
            tracing: settings.tracing,
            custom_payload: None,
        };
        let template = ExecuteTemplate::new(&request, features, &extras, stamped)?;
        Some(Self {
            balancing: as_default(&*profile.load_balancing).cloned(),
            timeout: options.timeout.or(profile.request_timeout),
            stable: PlanRequest::is_stable(preparation.is_conditional(), settings.consistency),
            template,
            profile: Arc::clone(profile),
            default: Arc::clone(&defaults.profile),
        })
    }

    /// Says whether a session with this profile may use it.
    #[inline]
    pub fn suits(&self, profile: &Arc<ExecutionProfile>) -> bool {
        Arc::ptr_eq(&self.default, profile)
    }

    /// Says whether replicas keep the order of the ring.
    #[inline]
    pub const fn is_stable(&self) -> bool {
        self.stable
    }

    /// Returns the frame that its requests fill in.
    #[inline]
    pub const fn template(&self) -> &ExecuteTemplate {
        &self.template
    }

    /// Returns when a request that starts now has failed.
    #[inline]
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        now.checked_add(self.timeout?)
    }

    /// Chooses where a request goes, as [`first_target`](super::straight::first_target) does.
    #[inline(always)] // On the path of every request.
    pub fn first_target<H: Clone>(
        &self,
        request: &PlanRequest,
        routing: &Routing<H>,
        connections: &dyn Connections<H>,
    ) -> Option<Target<H>> {
        let view = RoutingView::new(routing, connections);
        let planned = match &self.balancing {
            Some(own) => own.first_of(request, &view),
            None => self.profile.load_balancing.first(request, &view),
        }?;
        connect(planned, request, routing, connections)
    }
}

#[cfg(test)]
mod tests;
