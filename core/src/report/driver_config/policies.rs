//! Owns how policies appear in the document: built-in ones by their settings, all others by their names alone.
//! Leaves out what they do.
//!
//! A policy is built-in if its type is: one that wraps or imitates it may do anything.

use std::any::Any;
use std::sync::Arc;

use super::{DriverConfigFacts, Json, Object, limit, millis};
use crate::config::session::SessionConfig;
use crate::policy::host_filter::{DatacenterFilter, HostFilter};
use crate::policy::latency::LatencyPause;
use crate::policy::load_balancing::{DefaultLoadBalancing, LoadBalancingPolicy, as_default};
use crate::policy::reconnect::ReconnectPolicy;
use crate::policy::retry::{
    BackoffRetry, DefaultRetry, DowngradingRetry, FallthroughRetry, LimitedRetry, RetryPolicy,
};
use crate::policy::short_type_name;
use crate::policy::speculative::SpeculativePolicy;

/// Makes the description of a policy that the driver does not know: its name and nothing else.
///
/// A name that is the path of a type is shortened to the type's own name.
fn custom(name: &str) -> Object {
    let name = match short_type_name(name) {
        "" => "unknown",
        name => name,
    };
    Object::typed("custom").with("name", name)
}

pub(super) fn reconnection(policy: &ReconnectPolicy) -> Json {
    let described = match policy {
        ReconnectPolicy::Exponential { base, .. } if base.is_zero() => constant(0),
        ReconnectPolicy::Exponential { base, max } => Object::typed("exponential")
            .with("base-ms", millis(*base.min(max)).max(1))
            .with("max-ms", millis(*max).max(1)),
        ReconnectPolicy::Constant { delay } => constant(millis(*delay)),
        ReconnectPolicy::Custom(delays) => custom(delays.name()),
    };
    described.into()
}

fn constant(delay: u64) -> Object {
    Object::typed("constant").with("delay-ms", delay)
}

/// Is the datacenter outside of which nothing is ever connected to; only a filter can promise that.
pub(super) fn connected_datacenter(session: &SessionConfig) -> Option<Object> {
    let filter: &dyn HostFilter = &**session.host_filter.as_ref()?;
    let filter = (filter as &dyn Any).downcast_ref::<DatacenterFilter>()?;
    let mut names = filter.datacenters.iter();
    match (names.next(), names.next()) {
        (Some(name), None) if !name.is_empty() => {
            Some(Object::typed("dc").with("local-dc", &**name))
        }
        _ => None,
    }
}

pub(super) fn retry(policy: &dyn RetryPolicy) -> Object {
    let any: &dyn Any = policy;
    let described = if any.is::<DefaultRetry>() {
        Object::typed("standard-error-aware")
    } else if any.is::<FallthroughRetry>() {
        Object::typed("fallthrough")
    } else if any.is::<DowngradingRetry>() {
        Object::typed("downgrading-consistency")
    } else if let Some(limited) = any.downcast_ref::<LimitedRetry>() {
        Object::typed("simple").with("max-retries", limited.retries_max)
    } else if let Some(backoff) = any.downcast_ref::<BackoffRetry>() {
        return with_backoff(backoff);
    } else {
        custom(policy.name())
    };
    described.under("policy")
}

/// Describes a policy that looks at errors and waits before it sends a request again.
fn with_backoff(policy: &BackoffRetry) -> Object {
    let described = Object::typed("standard-error-aware").with("max-retries", policy.retries_max);
    let first = policy.pause_min.min(policy.pause_max);
    let backoff = (!first.is_zero()).then(|| {
        Object::typed("exponential")
            .with("base-ms", millis(first))
            .with("max-ms", millis(policy.pause_max))
    });
    described.under("policy").with_some("backoff", backoff)
}

pub(super) fn load_balancing(facts: &DriverConfigFacts<'_>) -> Object {
    let preference = Preference::of(facts);
    let policy: &dyn LoadBalancingPolicy = &*facts.session.profile.load_balancing;
    let described = match as_default(policy) {
        Some(policy) if policy.token_aware => token_aware(policy, &preference),
        _ => custom(policy.name()),
    };
    Object::new()
        .with("policy", described)
        .with_some("node-preference", preference.described())
}

fn token_aware(policy: &DefaultLoadBalancing, preference: &Preference<'_>) -> Object {
    let permits_none = |names: &std::collections::BTreeSet<Arc<str>>| names.is_empty();
    let leaves_datacenter =
        policy.datacenter_failover && !policy.remote_datacenters.as_ref().is_some_and(permits_none);
    let falls_back = match preference {
        // Nothing confines a request; or other racks of the datacenter are there to turn to.
        Preference::None | Preference::Rack { .. } => true,
        Preference::Datacenter(_) => leaves_datacenter,
    };
    // Of equal hosts two are drawn by lot, and the one with fewer requests in flight is taken.
    let signals = Json::List(vec!["in-flight-requests".into()]);
    Object::typed("token-aware")
        .with("load-distribution", "shuffle")
        .with("fallback-to-non-preferred-nodes", falls_back)
        .with("adaptive-ordering", Object::new().with("signals", signals))
}

/// Is where requests go first.
enum Preference<'a> {
    None,
    Datacenter(Place<'a>),
    Rack {
        datacenter: Place<'a>,
        rack: Place<'a>,
    },
}

/// Is the name of a datacenter or rack, and where it comes from.
#[derive(Clone, Copy)]
enum Place<'a> {
    Configured(&'a str),
    /// Is none until a node was seen.
    Inferred(Option<&'a str>),
}

impl<'a> Place<'a> {
    fn of(configured: Option<&'a str>, infers: bool, inferred: Option<&'a str>) -> Option<Self> {
        match configured {
            Some("") => None,
            Some(name) => Some(Self::Configured(name)),
            None => infers.then_some(Self::Inferred(inferred.filter(|name| !name.is_empty()))),
        }
    }

    const fn configured(self) -> Option<&'a str> {
        match self {
            Self::Configured(name) => Some(name),
            Self::Inferred(_) => None,
        }
    }

    const fn inferred(self) -> Option<&'a str> {
        match self {
            Self::Configured(_) => None,
            Self::Inferred(name) => name,
        }
    }
}

impl<'a> Preference<'a> {
    fn of(facts: &DriverConfigFacts<'a>) -> Self {
        let session = facts.session;
        let datacenter = Place::of(
            session.local_datacenter.as_deref(),
            session.inference.datacenter,
            facts.datacenter,
        );
        let rack = Place::of(
            session.local_rack.as_deref(),
            session.inference.rack,
            facts.rack,
        );
        match (datacenter, rack) {
            (None, _) => Self::None,
            (Some(datacenter), None) => Self::Datacenter(datacenter),
            (Some(datacenter), Some(rack)) => Self::Rack { datacenter, rack },
        }
    }

    fn described(&self) -> Option<Object> {
        Some(match self {
            Self::None => return None,
            Self::Datacenter(Place::Configured(name)) => {
                Object::typed("dc").with("local-dc", *name)
            }
            Self::Datacenter(Place::Inferred(name)) => {
                Object::typed("dc-auto").with_some("local-dc", *name)
            }
            Self::Rack {
                datacenter: Place::Configured(datacenter),
                rack: Place::Configured(rack),
            } => Object::typed("rack")
                .with("local-dc", *datacenter)
                .with("local-rack", *rack),
            Self::Rack { datacenter, rack } => Object::typed("rack-auto")
                .with_some("local-dc", datacenter.configured())
                .with_some("local-rack", rack.configured())
                .with_some("inferred-local-dc", datacenter.inferred())
                .with_some("inferred-local-rack", rack.inferred()),
        })
    }
}

pub(super) fn speculative(policy: &SpeculativePolicy) -> Option<Object> {
    let described = match policy {
        SpeculativePolicy::None => return None,
        SpeculativePolicy::Constant { copies_max: 0, .. } => return None,
        // A copy after all time has passed is never sent.
        SpeculativePolicy::Constant { delay, .. }
            if !delay.is_zero() && limit(Some(*delay)).is_none() =>
        {
            return None;
        }
        SpeculativePolicy::Constant { delay, copies_max } => Object::typed("constant")
            .with("max-executions", u16::from(*copies_max))
            .with("delay-ms", millis(*delay)),
        SpeculativePolicy::Percentile(pause) if pause.copies_max() == 0 => return None,
        SpeculativePolicy::Percentile(pause) if !is_percentile(pause.percent()) => {
            custom(std::any::type_name::<LatencyPause>())
        }
        SpeculativePolicy::Percentile(pause) => Object::typed("percentile")
            .with("max-executions", u16::from(pause.copies_max()))
            .with("percentile", pause.percent()),
    };
    Some(described.under("policy"))
}

fn is_percentile(percent: f64) -> bool {
    0.0 < percent && percent < 100.0
}
