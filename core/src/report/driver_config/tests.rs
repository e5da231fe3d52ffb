//! What the document says of settings, one by one: each changes its own leaf and no other.

use std::num::NonZeroU16;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::config::client_routes::{ClientRouteEndpoint, ClientRoutes};
use crate::config::pool::{PoolSize, ShardAwarePort};
use crate::config::session::Inference;
use crate::policy::host_filter::{AllowList, DatacenterFilter};
use crate::wire::Consistency;

mod policies;

const MS: Duration = Duration::from_millis(1);
const MICRO: Duration = Duration::from_micros(1);

/// Is a session that prefers no place.
fn plain() -> SessionConfig {
    SessionConfig {
        inference: Inference {
            datacenter: false,
            rack: false,
        },
        ..SessionConfig::default()
    }
}

fn facts(session: &SessionConfig) -> DriverConfigFacts<'_> {
    DriverConfigFacts {
        session,
        scylla: true,
        datacenter: None,
        rack: None,
    }
}

fn text(session: &SessionConfig) -> String {
    driver_config(&facts(session)).expect("a document")
}

fn parsed(facts: &DriverConfigFacts<'_>) -> Value {
    let text = driver_config(facts).expect("a document");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    // The same bytes in another order of keys: nothing else than keys and values is there.
    assert_eq!(value.to_string().len(), text.len(), "{text}");
    value
}

/// Says what the document has instead of, or in addition to, that of a plain session: pointers and values, null for
/// what is gone.
fn differences(facts: &DriverConfigFacts<'_>) -> Vec<(String, Value)> {
    fn leaves(at: String, value: &Value, found: &mut Vec<(String, Value)>) {
        match value {
            Value::Object(entries) if !entries.is_empty() => {
                for (key, value) in entries {
                    leaves(format!("{at}/{key}"), value, found);
                }
            }
            value => found.push((at, value.clone())),
        }
    }
    let (mut before, mut after) = (Vec::new(), Vec::new());
    leaves(String::new(), &parsed(&self::facts(&plain())), &mut before);
    leaves(String::new(), &parsed(facts), &mut after);
    let gone = |(at, _): &&(String, Value)| after.iter().all(|(other, _)| other != at);
    let gone = before
        .iter()
        .filter(gone)
        .map(|(at, _)| (at.clone(), Value::Null));
    let mut differences: Vec<_> = gone.collect();
    differences.extend(after.iter().filter(|leaf| !before.contains(leaf)).cloned());
    differences
}

/// Checks that a change of the settings changes these leaves of the document and no others.
#[track_caller]
fn shows(change: impl FnOnce(&mut SessionConfig), expected: &[(&str, Value)]) {
    let mut session = plain();
    change(&mut session);
    told(&facts(&session), expected);
}

#[track_caller]
fn told(facts: &DriverConfigFacts<'_>, expected: &[(&str, Value)]) {
    let mut found = differences(facts);
    let mut expected: Vec<(String, Value)> = expected
        .iter()
        .map(|(at, value)| ((*at).to_owned(), value.clone()))
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    expected.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(found, expected);
}

#[test]
fn a_session_of_defaults_shows_them_in_the_schemas_order_and_in_as_few_bytes_as_json_needs() {
    let expected = concat!(
        r#"{"version":1,"connection":{"connect":{"timeout-ms":5000},"requests":{"in-flight":{"max":32766},"#,
        r#""orphaned":{"max":1023}},"pool":{"shard-aware":{"enabled":true}},"socket":{"tcp-no-delay":true,"#,
        r#""keep-alive":false,"reuse-address":false},"reconnection":{"policy":{"type":"exponential","base-ms":1000,"#,
        r#""max-ms":60000}}},"control-plane":{"queries":{"system":{"timeout":{"client-side-ms":10000,"#,
        r#""server-side-ms":10000}}},"schema":{"agreement":{"timeout-ms":60000}}},"query":{"defaults":{"#,
        r#""consistency":"LOCAL_QUORUM","serial-consistency":"LOCAL_SERIAL","idempotence":false,"#,
        r#""client-timestamps":true,"page":{"size":5000},"request":{"timeout-ms":30000}},"retry":{"policy":{"#,
        r#""type":"standard-error-aware"}},"load-balancing":{"policy":{"type":"token-aware","#,
        r#""load-distribution":"shuffle","fallback-to-non-preferred-nodes":true,"adaptive-ordering":{"#,
        r#""signals":["in-flight-requests"]}}}}}"#,
    );
    assert_eq!(text(&plain()), expected);
}

#[test]
fn limits_in_time_are_whole_milliseconds_and_absent_where_there_are_none() {
    let timeout = "/connection/connect/timeout-ms";
    let connect = |limit: Duration| {
        move |session: &mut SessionConfig| session.connection.connect_timeout = limit
    };
    shows(connect(1234 * MS), &[(timeout, json!(1234))]);
    shows(connect(300 * MICRO), &[(timeout, json!(1))]);
    shows(connect(1999 * MICRO), &[(timeout, json!(1))]);
    shows(
        connect(Duration::MAX),
        &[(timeout, Value::Null), ("/connection/connect", json!({}))],
    );
    shows(
        connect(Duration::from_secs(u64::MAX)),
        &[(timeout, json!(9_007_199_254_740_991_u64))],
    );
    let request = "/query/defaults/request/timeout-ms";
    shows(
        |session| session.profile.request_timeout = None,
        &[(request, Value::Null)],
    );
    shows(
        |session| session.profile.request_timeout = Some(Duration::MAX),
        &[(request, Value::Null)],
    );
}

#[test]
fn time_limits_of_requests_are_no_limits_of_sockets_which_there_are_none_of() {
    let change = |session: &mut SessionConfig| {
        session.profile.request_timeout = Some(MS);
        session.profile.attempt_timeout = Some(MS);
        session.connection.handshake_timeout = MS;
        session.connection.keepalive_interval = Some(MS);
        session.connection.keepalive_timeout = MS;
    };
    // The limit of requests is told as such, and nothing else of the document changes.
    shows(change, &[("/query/defaults/request/timeout-ms", json!(1))]);
    let mut changed = plain();
    change(&mut changed);
    for session in [plain(), changed] {
        let document = parsed(&facts(&session));
        for group in ["read", "write", "heartbeat"] {
            assert_eq!(document.pointer(&format!("/connection/{group}")), None);
        }
    }
}

#[test]
fn the_bounds_on_requests_are_those_that_hold() {
    let (in_flight, orphaned) = (
        "/connection/requests/in-flight/max",
        "/connection/requests/orphaned/max",
    );
    shows(
        |session| {
            session.limits.in_flight_max = 2048;
            session.limits.orphans_max = 65;
        },
        &[(in_flight, json!(2048)), (orphaned, json!(64))],
    );
    shows(
        |session| session.limits.orphans_max = 1,
        &[(orphaned, json!(0))],
    );
    shows(|session| session.limits.in_flight_max = u16::MAX, &[]);
    shows(
        |session| session.limits.orphans_max = u16::MAX,
        &[(orphaned, json!(16_382))],
    );
    for in_flight_max in [1, 2, 3, 1_024, u16::MAX] {
        for orphans_max in [1, 2, 1_024, u16::MAX] {
            let mut session = plain();
            session.limits.in_flight_max = in_flight_max;
            session.limits.orphans_max = orphans_max;
            let document = parsed(&facts(&session));
            let number = |at| document.pointer(at).and_then(Value::as_u64);
            let [requests, orphans] = [in_flight, orphaned].map(number);
            assert!(orphans.is_some() && orphans < requests, "{document}");
        }
    }
}

#[test]
fn the_shard_aware_port_is_on_unless_a_setting_rules_it_out() {
    let enabled = "/connection/pool/shard-aware/enabled";
    let off = [(enabled, json!(false))];
    let routes = |shard_awareness| {
        let mut routes = ClientRoutes::new(vec![ClientRouteEndpoint::new("route")]);
        routes.shard_awareness = shard_awareness;
        Some(routes)
    };
    shows(
        |session| session.pool.shard_aware_port = ShardAwarePort::Never,
        &off,
    );
    shows(
        |session| session.pool.size = PoolSize::PerHost(NonZeroU16::MIN),
        &off,
    );
    shows(|session| session.client_routes = routes(false), &off);
    shows(|session| session.client_routes = routes(true), &[]);
    shows(
        |session| {
            session.client_routes = routes(true);
            session.pool.shard_aware_port = ShardAwarePort::Never;
        },
        &off,
    );
}

#[test]
fn socket_options_are_those_that_are_set() {
    shows(
        |session| {
            session.connection.socket.nodelay = false;
            session.connection.socket.keepalive = Some(Duration::from_secs(30));
            session.connection.socket.reuse_address = true;
        },
        &[
            ("/connection/socket/tcp-no-delay", json!(false)),
            ("/connection/socket/keep-alive", json!(true)),
            ("/connection/socket/reuse-address", json!(true)),
        ],
    );
    shows(
        |session| {
            session.connection.socket.linger = Some(7900 * MS);
            session.connection.socket.recv_buffer = Some(65_536);
            session.connection.socket.send_buffer = Some(32_768);
        },
        &[
            ("/connection/socket/linger/interval-s", json!(7)),
            (
                "/connection/socket/receive-buffer/size-bytes",
                json!(65_536),
            ),
            ("/connection/socket/send-buffer/size-bytes", json!(32_768)),
        ],
    );
    shows(
        |session| {
            session.connection.socket.linger = Some(Duration::ZERO);
            session.connection.socket.recv_buffer = Some(0);
        },
        &[("/connection/socket/linger/interval-s", json!(0))],
    );
}

#[test]
fn connections_are_held_to_a_datacenter_only_by_a_filter_for_one() {
    let filter = |names: &[&str]| DatacenterFilter {
        datacenters: names.iter().map(|name| (*name).into()).collect(),
    };
    shows(
        |session| session.host_filter = Some(Arc::new(filter(&["dc1"]))),
        &[
            ("/connection/node-preference/type", json!("dc")),
            ("/connection/node-preference/local-dc", json!("dc1")),
        ],
    );
    for names in [&[][..], &["dc1", "dc2"], &[""]] {
        shows(
            |session| session.host_filter = Some(Arc::new(filter(names))),
            &[],
        );
    }
    shows(
        |session| session.host_filter = Some(Arc::new(AllowList::new())),
        &[],
    );
}

#[test]
fn limits_of_the_drivers_own_reads_are_those_it_keeps_and_sends() {
    let (client, server, agreement) = (
        "/control-plane/queries/system/timeout/client-side-ms",
        "/control-plane/queries/system/timeout/server-side-ms",
        "/control-plane/schema/agreement/timeout-ms",
    );
    shows(
        |session| {
            session.metadata_timeout = Some(7_000 * MS);
            session.agreement_timeout = Duration::ZERO;
        },
        &[
            (client, json!(7000)),
            (server, json!(7000)),
            (agreement, json!(0)),
        ],
    );
    shows(
        |session| session.agreement_timeout = MICRO,
        &[(agreement, json!(1))],
    );
    shows(
        |session| session.agreement_timeout = Duration::MAX,
        &[(agreement, json!(9_007_199_254_740_991_u64))],
    );
    for never in [None, Some(Duration::MAX)] {
        shows(
            |session| session.metadata_timeout = never,
            &[
                (client, Value::Null),
                (server, Value::Null),
                ("/control-plane/queries/system/timeout", json!({})),
            ],
        );
    }
    let plain = plain();
    let elsewhere = DriverConfigFacts {
        scylla: false,
        ..facts(&plain)
    };
    told(&elsewhere, &[(server, Value::Null)]);
}

#[test]
fn defaults_of_statements_are_those_of_the_default_profile() {
    let at = |key: &str| format!("/query/defaults/{key}");
    shows(
        |session| {
            session.profile.consistency = Consistency::EachQuorum;
            session.profile.serial_consistency = None;
            session.profile.request_timeout = None;
        },
        &[
            (&at("consistency"), json!("EACH_QUORUM")),
            (&at("serial-consistency"), Value::Null),
            (&at("request/timeout-ms"), Value::Null),
        ],
    );
    shows(
        |session| session.profile.page_size = None,
        &[(&at("page/size"), Value::Null)],
    );
    shows(
        |session| session.profile.idempotent = true,
        &[(&at("idempotence"), json!(true))],
    );
    shows(
        |session| session.profile.client_timestamps = false,
        &[(&at("client-timestamps"), json!(false))],
    );
}

#[test]
fn a_document_of_exactly_the_greatest_length_is_sent_and_a_longer_one_is_not() {
    let mut session = plain();
    let named = |session: &mut SessionConfig, len| {
        session.local_datacenter = Some("n".repeat(len).into());
    };
    named(&mut session, 1);
    let base = text(&session).len() - 1;
    named(&mut session, DRIVER_CONFIG_LEN_MAX - base);
    assert_eq!(text(&session).len(), 32_768);
    named(&mut session, DRIVER_CONFIG_LEN_MAX - base + 1);
    assert_eq!(
        driver_config(&facts(&session)),
        Err(NotReported::TooLong { len: 32_769 })
    );
    // The length that counts is that of the bytes.
    session.local_datacenter = Some("\u{20ac}".repeat(12_000).into());
    assert!(driver_config(&facts(&session)).is_err());
}

#[cfg(feature = "ring")]
#[test]
fn encryption_is_told_with_what_is_known_of_its_checks() {
    use rustls::time_provider::DefaultTimeProvider;

    use crate::conn::tls::{ServerNameRule, TlsPlan};

    let builder = || TlsPlan::builder(Arc::new(DefaultTimeProvider));
    let unchecked = || builder().dangerous_accept_any_certificate();
    let verification = "/connection/tls/hostname-verification";
    let mut session = plain();
    session.encryption = unchecked().build().expect("a plan").into();
    told(&facts(&session), &[(verification, json!(false))]);
    let config = Arc::new(
        rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth(),
    );
    session.encryption = TlsPlan::from_config(config, ServerNameRule::Dialed).into();
    told(&facts(&session), &[("/connection/tls", json!({}))]);
}
