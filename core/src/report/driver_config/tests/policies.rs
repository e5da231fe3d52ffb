//! What the document says of policies and of the place that requests prefer.

use super::*;
use crate::policy::load_balancing::{
    ClusterView, DefaultLoadBalancing, LoadBalancingPolicy, PlanRequest, Planned, Targets,
};
use crate::policy::reconnect::{ReconnectDelays, ReconnectPolicy};
use crate::policy::retry::{
    BackoffRetry, DowngradingRetry, Failure, FallthroughRetry, LimitedRetry, RetryDecision,
    RetryPolicy,
};
use crate::policy::speculative::SpeculativePolicy;

/// Is a policy of an application, with what nobody else should see.
#[derive(Debug)]
struct Secret<T> {
    #[expect(dead_code, reason = "must not be shown")]
    password: &'static str,
    name: Option<&'static str>,
    inner: T,
}

fn secret<T>(name: Option<&'static str>, inner: T) -> Secret<T> {
    Secret {
        password: "hunter2",
        name,
        inner,
    }
}

impl<T: std::fmt::Debug + Send + Sync + 'static> ReconnectDelays for Secret<T> {
    fn delay(&self, _: u32, _: u32) -> Duration {
        MS
    }

    fn name(&self) -> &str {
        self.name.unwrap_or_else(std::any::type_name::<Self>)
    }
}

/// Is a policy that says nothing of its name.
#[derive(Debug)]
struct JitterPolicy;

impl ReconnectDelays for JitterPolicy {
    fn delay(&self, _: u32, _: u32) -> Duration {
        MS
    }
}

impl<T: std::fmt::Debug + Send + Sync + 'static> RetryPolicy for Secret<T> {
    fn decide(&self, _: &Failure<'_>) -> RetryDecision {
        RetryDecision::Stop
    }
}

impl LoadBalancingPolicy for Secret<DefaultLoadBalancing> {
    fn first(&self, request: &PlanRequest, cluster: &dyn ClusterView) -> Option<Planned> {
        self.inner.first(request, cluster)
    }

    fn rest(&self, request: &PlanRequest, cluster: &dyn ClusterView, targets: &mut Targets) {
        self.inner.rest(request, cluster, targets);
    }

    fn name(&self) -> &str {
        match self.name {
            Some("panic") => panic!("the password is hunter2"),
            Some(name) => name,
            None => self.inner.name(),
        }
    }
}

#[test]
fn delays_between_attempts_to_connect_are_those_that_are_waited() {
    let policy = "/connection/reconnection/policy";
    let at = |key: &str| format!("{policy}/{key}");
    let (kind, base, max, delay) = (at("type"), at("base-ms"), at("max-ms"), at("delay-ms"));
    let exponential = |base, max| {
        move |session: &mut SessionConfig| {
            session.reconnect = ReconnectPolicy::Exponential { base, max };
        }
    };
    let constant = |delay| {
        move |session: &mut SessionConfig| session.reconnect = ReconnectPolicy::Constant { delay }
    };
    let is_constant = |wait: u64| {
        [
            (&*kind, json!("constant")),
            (&*base, Value::Null),
            (&*max, Value::Null),
            (&*delay, json!(wait)),
        ]
    };
    shows(
        exponential(50 * MS, 10_000 * MS),
        &[(&base, json!(50)), (&max, json!(10_000))],
    );
    shows(exponential(5_000 * MS, 1_000 * MS), &[(&max, json!(1_000))]);
    shows(
        exponential(MICRO, MICRO),
        &[(&base, json!(1)), (&max, json!(1))],
    );
    shows(
        exponential(1_000 * MS, Duration::MAX),
        &[(&max, json!(9_007_199_254_740_991_u64))],
    );
    shows(exponential(Duration::ZERO, MS), &is_constant(0));
    shows(constant(250 * MS), &is_constant(250));
    shows(constant(Duration::ZERO), &is_constant(0));
    shows(constant(MICRO), &is_constant(1));
}

#[test]
fn some_policy_of_connecting_again_is_always_told_and_never_a_number_of_attempts() {
    let every = [
        ReconnectPolicy::default(),
        ReconnectPolicy::Exponential { base: MS, max: MS },
        ReconnectPolicy::Exponential {
            base: Duration::ZERO,
            max: Duration::ZERO,
        },
        ReconnectPolicy::Exponential {
            base: Duration::MAX,
            max: Duration::MAX,
        },
        ReconnectPolicy::Constant {
            delay: Duration::ZERO,
        },
        ReconnectPolicy::Constant {
            delay: Duration::MAX,
        },
        ReconnectPolicy::Custom(Arc::new(JitterPolicy)),
        ReconnectPolicy::Custom(Arc::new(secret(None, ()))),
    ];
    for policy in every {
        let mut session = plain();
        session.reconnect = policy;
        let document = parsed(&facts(&session));
        let told = document.pointer("/connection/reconnection/policy");
        let told = told.and_then(Value::as_object).expect("a policy");
        let keys: Vec<&str> = told.keys().map(String::as_str).collect();
        // Keys of JSON come in the order of the alphabet here.
        let all: &[&str] = match told["type"].as_str() {
            Some("exponential") => &["base-ms", "max-ms", "type"],
            Some("constant") => &["delay-ms", "type"],
            Some("custom") => &["name", "type"],
            other => panic!("{other:?}"),
        };
        assert_eq!(keys, all, "{:?}", session.reconnect);
    }
}

#[test]
fn the_default_policy_is_told_to_draw_and_to_look_at_requests_whatever_its_settings() {
    let other = DefaultLoadBalancing {
        datacenter_failover: true,
        remote_hosts_max: NonZeroU16::new(2),
        remote_datacenters: Some(["dc2".into()].into()),
        ..DefaultLoadBalancing::default()
    };
    let closed = DefaultLoadBalancing {
        datacenter_failover: true,
        remote_datacenters: Some([].into()),
        ..DefaultLoadBalancing::default()
    };
    for policy in [DefaultLoadBalancing::default(), other, closed] {
        for (datacenter, rack) in [(None, None), (Some("dc1"), None), (Some("dc1"), Some("r1"))] {
            let mut session = plain();
            session.profile.load_balancing = Arc::new(policy.clone());
            session.local_datacenter = datacenter.map(Into::into);
            session.local_rack = rack.map(Into::into);
            let document = parsed(&facts(&session));
            let told = document.pointer("/query/load-balancing/policy");
            let told = told.expect("a policy");
            assert_eq!(told["type"], "token-aware");
            assert_eq!(told["load-distribution"], "shuffle", "{policy:?}");
            let ordering = json!({ "signals": ["in-flight-requests"] });
            assert_eq!(told["adaptive-ordering"], ordering, "{policy:?}");
        }
    }
}

#[test]
fn a_policy_of_the_applications_own_is_a_name_and_nothing_else() {
    let policy = |group: &str, name: &str, gone: &[&str]| {
        let mut expected = vec![
            (format!("{group}/type"), json!("custom")),
            (format!("{group}/name"), json!(name)),
        ];
        expected.extend(
            gone.iter()
                .map(|key| (format!("{group}/{key}"), Value::Null)),
        );
        expected
    };
    let check = |change: &dyn Fn(&mut SessionConfig), expected: Vec<(String, Value)>| {
        let mut session = plain();
        change(&mut session);
        let expected: Vec<_> = expected
            .iter()
            .map(|(at, value)| (&**at, value.clone()))
            .collect();
        told(&facts(&session), &expected);
        assert!(!text(&session).contains("hunter2"));
    };
    let reconnection = |name| {
        policy(
            "/connection/reconnection/policy",
            name,
            &["base-ms", "max-ms"],
        )
    };
    let custom = |name| ReconnectPolicy::Custom(Arc::new(secret(name, ())));
    check(
        &|session| session.reconnect = custom(None),
        reconnection("Secret"),
    );
    check(
        &|session| session.reconnect = ReconnectPolicy::Custom(Arc::new(JitterPolicy)),
        reconnection("JitterPolicy"),
    );
    for (told, shown) in [
        ("", "unknown"),
        ("my_app::net::Jitter<my_app::Password>", "Jitter"),
        ("wait \"a\" bit\n", "wait \"a\" bit\n"),
    ] {
        check(
            &|session| session.reconnect = custom(Some(told)),
            reconnection(shown),
        );
    }
    check(
        &|session| session.profile.retry = Arc::new(secret(None, FallthroughRetry)),
        policy("/query/retry/policy", "Secret", &[]),
    );
    let load_balancing = |name| {
        let gone = [
            "load-distribution",
            "fallback-to-non-preferred-nodes",
            "adaptive-ordering/signals",
        ];
        policy("/query/load-balancing/policy", name, &gone)
    };
    let balancing = |name: Option<&'static str>| {
        move |session: &mut SessionConfig| {
            let policy = secret(name, DefaultLoadBalancing::default());
            session.profile.load_balancing = Arc::new(policy);
        }
    };
    check(&balancing(Some("nearest")), load_balancing("nearest"));
    check(&balancing(Some("")), load_balancing("unknown"));
    check(&balancing(None), load_balancing("DefaultLoadBalancing"));
}

#[test]
fn a_policy_that_panics_costs_the_document_and_nothing_else() {
    let mut session = plain();
    session.profile.load_balancing =
        Arc::new(secret(Some("panic"), DefaultLoadBalancing::default()));
    let error = driver_config(&facts(&session)).expect_err("the name is not known");
    assert_eq!(error, NotReported::PolicyPanicked);
    assert!(!error.to_string().contains("hunter2"));
}

#[test]
fn built_in_retries_are_told_by_their_kind() {
    shows(
        |session| session.profile.retry = Arc::new(FallthroughRetry),
        &[("/query/retry/policy/type", json!("fallthrough"))],
    );
    let (kind, most) = (
        "/query/retry/policy/type",
        "/query/retry/policy/max-retries",
    );
    shows(
        |session| session.profile.retry = Arc::new(DowngradingRetry),
        &[(kind, json!("downgrading-consistency"))],
    );
    shows(
        |session| session.profile.retry = Arc::new(LimitedRetry { retries_max: 3 }),
        &[(kind, json!("simple")), (most, json!(3))],
    );
    let backoff = |pause_min: Duration, pause_max: Duration| {
        move |session: &mut SessionConfig| {
            session.profile.retry = Arc::new(BackoffRetry {
                retries_max: 5,
                pause_min,
                pause_max,
            });
        }
    };
    let waits = |base: u64, max: u64| {
        [
            (most, json!(5)),
            ("/query/retry/backoff/type", json!("exponential")),
            ("/query/retry/backoff/base-ms", json!(base)),
            ("/query/retry/backoff/max-ms", json!(max)),
        ]
    };
    shows(backoff(100 * MS, 10_000 * MS), &waits(100, 10_000));
    shows(backoff(10_000 * MS, 100 * MS), &waits(100, 100));
    shows(backoff(MICRO, MICRO), &waits(1, 1));
    shows(backoff(Duration::ZERO, MS), &[(most, json!(5))]);
}

#[test]
fn copies_are_told_where_any_can_be_sent() {
    let at = |key: &str| format!("/query/speculative-execution/policy/{key}");
    let constant = |delay, copies_max| {
        move |session: &mut SessionConfig| {
            session.profile.speculative = SpeculativePolicy::Constant { delay, copies_max };
        }
    };
    let told = |delay: u64| {
        [
            (at("type"), json!("constant")),
            (at("max-executions"), json!(2)),
            (at("delay-ms"), json!(delay)),
        ]
    };
    for (delay, shown) in [(100 * MS, 100), (Duration::ZERO, 0), (MICRO, 1)] {
        let told = told(shown);
        let told: Vec<_> = told
            .iter()
            .map(|(at, value)| (&**at, value.clone()))
            .collect();
        shows(constant(delay, 2), &told);
    }
    shows(constant(100 * MS, 0), &[]);
    shows(constant(Duration::MAX, 2), &[]);
    shows(
        |session| session.profile.speculative = SpeculativePolicy::None,
        &[],
    );
    let percentile = |percent: f64, copies_max: u8| {
        move |session: &mut SessionConfig| {
            session.profile.speculative = SpeculativePolicy::percentile(percent, copies_max);
        }
    };
    for (percent, shown) in [(99.5, json!(99.5)), (99.0, json!(99))] {
        shows(
            percentile(percent, 1),
            &[
                (&at("type"), json!("percentile")),
                (&at("max-executions"), json!(1)),
                (&at("percentile"), shown),
            ],
        );
    }
    for nonsense in [0.0, 100.0, -1.0, f64::NAN, f64::INFINITY] {
        shows(
            percentile(nonsense, 1),
            &[
                (&at("type"), json!("custom")),
                (&at("name"), json!("LatencyPause")),
            ],
        );
    }
    shows(percentile(99.0, 0), &[]);
}

const FALLBACK: &str = "/query/load-balancing/policy/fallback-to-non-preferred-nodes";

/// Names a leaf of the preference of requests.
fn preference(key: &str) -> String {
    format!("/query/load-balancing/node-preference/{key}")
}

fn failover(session: &mut SessionConfig) {
    let policy = DefaultLoadBalancing {
        datacenter_failover: true,
        ..DefaultLoadBalancing::default()
    };
    session.profile.load_balancing = Arc::new(policy);
}

#[test]
fn a_configured_place_is_told_as_it_was_configured() {
    let (kind, dc, rack) = (
        preference("type"),
        preference("local-dc"),
        preference("local-rack"),
    );
    let dc1 = [(&*kind, json!("dc")), (&*dc, json!("dc1"))];
    let confined = [&dc1[..], &[(FALLBACK, json!(false))]].concat();
    let prefer = |session: &mut SessionConfig| session.local_datacenter = Some("dc1".into());
    shows(prefer, &confined);
    shows(
        |session| {
            prefer(session);
            failover(session);
        },
        &dc1,
    );
    shows(
        |session| {
            prefer(session);
            session.local_rack = Some("r1".into());
        },
        &[
            (&kind, json!("rack")),
            (&dc, json!("dc1")),
            (&rack, json!("r1")),
        ],
    );
    // A failover to no datacenter at all is none.
    shows(
        |session| {
            prefer(session);
            let policy = DefaultLoadBalancing {
                datacenter_failover: true,
                remote_datacenters: Some(std::collections::BTreeSet::new()),
                ..DefaultLoadBalancing::default()
            };
            session.profile.load_balancing = Arc::new(policy);
        },
        &confined,
    );
    shows(
        |session| {
            prefer(session);
            session.local_rack = Some("".into());
        },
        &confined,
    );
    shows(
        |session| {
            session.local_datacenter = Some("".into());
            session.local_rack = Some("r1".into());
        },
        &[],
    );
    shows(
        |session| session.local_datacenter = Some(" dc1 ".into()),
        &[
            (&kind, json!("dc")),
            (&dc, json!(" dc1 ")),
            (FALLBACK, json!(false)),
        ],
    );
    shows(failover, &[]);
}

#[test]
fn an_inferred_place_is_told_once_it_is_known_and_never_as_a_configured_one() {
    let kind = preference("type");
    let mut session = plain();
    session.inference.datacenter = true;
    let auto = [(&*kind, json!("dc-auto")), (FALLBACK, json!(false))];
    told(&facts(&session), &auto);
    let known = DriverConfigFacts {
        datacenter: Some("dc1"),
        rack: Some("r2"),
        ..facts(&session)
    };
    told(
        &known,
        &[&auto[..], &[(&preference("local-dc"), json!("dc1"))]].concat(),
    );
    session.inference.rack = true;
    let rack = (&*kind, json!("rack-auto"));
    told(&facts(&session), std::slice::from_ref(&rack));
    let known = DriverConfigFacts {
        datacenter: Some("dc1"),
        rack: Some("r2"),
        ..facts(&session)
    };
    let (dc, inferred_dc) = (preference("local-dc"), preference("inferred-local-dc"));
    let (r, inferred_r) = (preference("local-rack"), preference("inferred-local-rack"));
    told(
        &known,
        &[
            rack.clone(),
            (&inferred_dc, json!("dc1")),
            (&inferred_r, json!("r2")),
        ],
    );
    session.local_rack = Some("r1".into());
    told(&facts(&session), &[rack.clone(), (&r, json!("r1"))]);
    session.local_rack = None;
    session.local_datacenter = Some("dc1".into());
    let known = DriverConfigFacts {
        rack: Some("r2"),
        ..facts(&session)
    };
    told(
        &known,
        &[rack, (&dc, json!("dc1")), (&inferred_r, json!("r2"))],
    );
}

#[test]
fn the_default_policy_without_tokens_is_a_policy_that_the_schema_does_not_know() {
    shows(
        |session| {
            session.local_datacenter = Some("dc1".into());
            let policy = DefaultLoadBalancing {
                token_aware: false,
                ..DefaultLoadBalancing::default()
            };
            session.profile.load_balancing = Arc::new(policy);
        },
        &[
            ("/query/load-balancing/policy/type", json!("custom")),
            (
                "/query/load-balancing/policy/name",
                json!("DefaultLoadBalancing"),
            ),
            (
                "/query/load-balancing/policy/load-distribution",
                Value::Null,
            ),
            (FALLBACK, Value::Null),
            (
                "/query/load-balancing/policy/adaptive-ordering/signals",
                Value::Null,
            ),
            (&preference("type"), json!("dc")),
            (&preference("local-dc"), json!("dc1")),
        ],
    );
}
