//! Conversations with a cluster at the level of frames.

#![expect(
    clippy::type_complexity,
    reason = "rows are tuples of what their columns hold"
)]

mod statements;

use std::time::Duration;

use messina_core::wire::consistency::Consistency;
use messina_core::wire::event::{
    EventKind, SchemaChange, SchemaChangeKind, SchemaTarget, ServerEvent,
};
use messina_core::wire::request::{ParamsRef, RequestRef};
use messina_core::wire::response::Response;
use messina_core::wire::result::ResultBody;
use messina_core::wire::server_error::ServerErrorDetail;

use super::*;
use crate::node::Reaction;
use crate::node::testing::{World, outcome};

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    crate::node::cql::lexer::decode_hex(&digits).unwrap()
}

fn startup(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn version_five_is_refused_on_stream_zero_with_the_words_that_drivers_look_for() {
    let mut world = World::with_nodes(1);
    let mut link = world.connect(0);
    world.send_bytes(&mut link, &hex("05 00 0007 05 00000000"));
    let mut expected = hex("84 00 0000 00 00000030 0000000A 002A");
    expected.extend_from_slice(b"Invalid or unsupported protocol version: 5");
    assert_eq!(link.received, expected);
    assert!(link.closed);
}

#[test]
fn frames_may_arrive_in_any_pieces() {
    let mut world = World::with_nodes(1);
    let mut link = world.connect(0);
    for byte in hex("04 00 0001 05 00000000") {
        assert!(link.received.is_empty());
        world.send_bytes(&mut link, &[byte]);
    }
    assert!(link.next_frame().is_some());
    // Two at once.
    world.send_bytes(
        &mut link,
        &hex("04 00 0001 05 00000000 04 00 0002 05 00000000"),
    );
    assert_eq!(link.next_frame().unwrap().header.stream, 1);
    assert_eq!(link.next_frame().unwrap().header.stream, 2);
}

#[test]
fn supported_tells_the_truth_in_the_server_s_order() {
    let mut world = World::with_nodes(1);
    let mut first = world.connect(0);
    let mut second = world.connect(0);
    let supported =
        |world: &mut World, link: &mut _| match world.ask(link, RequestRef::Options).response {
            Response::Supported(supported) => supported,
            other => panic!("{other:?}"),
        };
    let found = supported(&mut world, &mut first);
    let keys: Vec<&str> = found.options.iter().map(|(key, _)| key.as_str()).collect();
    let expected = [
        "CLIENT_OPTIONS",
        "COMPRESSION",
        "CQL_VERSION",
        "SCYLLA_HOST_ID",
        "SCYLLA_LWT_ADD_METADATA_MARK",
        "SCYLLA_NR_SHARDS",
        "SCYLLA_PARTITIONER",
        "SCYLLA_RATE_LIMIT_ERROR",
        "SCYLLA_SHARD",
        "SCYLLA_SHARDING_ALGORITHM",
        "SCYLLA_SHARDING_IGNORE_MSB",
        "SCYLLA_USE_METADATA_ID",
        "TABLETS_ROUTING_V1",
    ];
    assert_eq!(keys, expected);
    assert_eq!(found.host_id(), world.cluster.host_id(0));
    let info = found.shard_info().unwrap();
    assert_eq!(
        (info.shard.0, info.shards.get(), info.ignore_msb, info.port),
        (0, 2, 12, None)
    );
    let found = supported(&mut world, &mut second);
    assert_eq!(found.shard_info().unwrap().shard.0, 1);
}

#[test]
fn the_order_of_the_handshake_is_enforced_with_the_server_s_words() {
    let mut world = World::with_nodes(1);
    let mut link = world.connect(0);
    let error = world
        .query(&mut link, "SELECT * FROM system.local")
        .unwrap_err();
    assert_eq!(
        error.message,
        "Unexpected message QUERY, expecting STARTUP or OPTIONS"
    );
    let bad = startup(&[("COMPRESSION", "ZSTD")]);
    let error = outcome(world.ask(&mut link, RequestRef::Startup(&bad))).unwrap_err();
    assert_eq!(error.message, "Unknown compression algorithm: zstd");
    let good = startup(&[("CQL_VERSION", "4.0.0"), ("UNKNOWN", "x")]);
    assert_eq!(
        world.ask(&mut link, RequestRef::Startup(&good)).response,
        Response::Ready
    );
    let error = outcome(world.ask(&mut link, RequestRef::Startup(&good))).unwrap_err();
    assert_eq!(
        error.message,
        "Unexpected message STARTUP, the connection is already initialized"
    );
    assert!(matches!(
        world.ask(&mut link, RequestRef::Options).response,
        Response::Supported(_)
    ));
}

#[test]
fn a_login_is_asked_for_and_a_wrong_one_may_be_repeated() {
    let credentials = Some(("scylla".to_owned(), "secret".to_owned()));
    let mut world = World::new(ClusterConfig {
        credentials,
        ..ClusterConfig::default()
    });
    let mut link = world.connect(0);
    let answer = world.ask(
        &mut link,
        RequestRef::Startup(&startup(&[("CQL_VERSION", "3.0.0")])),
    );
    let class = "org.apache.cassandra.auth.PasswordAuthenticator".to_owned();
    assert_eq!(answer.response, Response::Authenticate(class));
    let error = world
        .query(&mut link, "SELECT * FROM system.local")
        .unwrap_err();
    assert_eq!(
        error.message,
        "Unexpected message QUERY, expecting SASL_RESPONSE"
    );
    let wrong = world.ask(
        &mut link,
        RequestRef::AuthResponse(Some(b"\0scylla\0wrong")),
    );
    let error = outcome(wrong).unwrap_err();
    assert_eq!(
        (error.code, error.detail),
        (0x0100, ServerErrorDetail::AuthenticationFailed)
    );
    let right = world.ask(
        &mut link,
        RequestRef::AuthResponse(Some(b"\0scylla\0secret")),
    );
    assert!(matches!(right.response, Response::AuthSuccess(Some(token)) if token.is_empty()));
    let users: Vec<(String,)> = world.rows(&mut link, "SELECT username FROM system.clients");
    assert_eq!(users, [("scylla".to_owned(),)]);
}

#[test]
fn ready_is_compressed_already_and_events_never_are() {
    let mut world = World::with_nodes(1);
    let mut link = world.connect(0);
    let options = startup(&[("COMPRESSION", "LZ4")]);
    world.send(&mut link, RequestRef::Startup(&options));
    assert_eq!(link.received, hex("84 01 0001 02 00000005 0000000000"));
    link.received.clear();
    world.send(&mut link, RequestRef::Register(&[EventKind::SchemaChange]));
    link.received.clear();
    let now = world.now;
    world.cluster.execute(now, KEYSPACE).unwrap();
    world.collect(&mut link);
    assert_eq!(link.received[..5], hex("84 00 FFFF 0C"));
    // A compressed request is read, one that cannot be unpacked ends the connection.
    link.received.clear();
    world.send_bytes(&mut link, &hex("04 01 0005 05 00000005 0000000000"));
    assert_eq!(link.received[..5], hex("84 01 0005 06"));
    link.received.clear();
    world.send_bytes(&mut link, &hex("04 01 0006 05 00000002 0000"));
    assert_eq!(link.received[..5], hex("84 00 0000 00"));
    assert!(link.closed);
}

#[test]
fn malformed_requests_are_answered_and_the_connection_stays() {
    let mut world = World::with_nodes(1);
    let mut link = world.open(0);
    for (frame, code, text) in [
        (
            "04 00 0001 07 00000006 00000010 7878",
            10,
            "truncated frame: expected",
        ),
        (
            "04 00 0001 07 00000008 00000001 ff 0001 00",
            10,
            "Cannot decode string as UTF8",
        ),
        (
            "04 00 0001 07 00000008 00000001 78 00ff 00",
            10,
            "Unknown code 255 for a consistency level",
        ),
        (
            "04 00 0001 07 00000008 00000001 78 0001 80",
            0,
            "Bit mask contains invalid enumeration indices.",
        ),
        (
            "04 00 0001 07 0000000e 00000001 78 0001 01 0001 fffffffd",
            10,
            "invalid value length: -3",
        ),
        (
            "04 00 0001 0d 00000009 00 0001 07 0000000000",
            10,
            "Invalid query kind in BATCH messages. Must be 0 or 1 but got 7",
        ),
        (
            "04 00 0001 0b 00000006 0001 0002 5858",
            10,
            "Invalid value 'XX' for Event.Type",
        ),
        ("04 00 0001 63 00000000", 10, "Unknown opcode 99"),
        ("04 00 0001 02 00000000", 10, "Unknown opcode 2"),
    ] {
        world.send_bytes(&mut link, &hex(frame));
        let answer = link.next_frame().unwrap_or_else(|| panic!("{frame}"));
        assert_eq!(answer.header.stream, 1, "{frame}");
        let error = outcome(answer.parse(&link.features).unwrap()).unwrap_err();
        assert_eq!(error.code, code, "{frame}");
        assert!(
            error.message.starts_with(text),
            "{frame}: {}",
            error.message
        );
        assert!(!link.closed);
    }
    world.send_bytes(&mut link, &hex("03 00 0001 05 00000000"));
    let error = outcome(link.next_frame().unwrap().parse(&link.features).unwrap()).unwrap_err();
    assert!(
        error.message.starts_with("Invalid message version. Got 3"),
        "{}",
        error.message
    );
    assert!(link.closed);
}

#[test]
fn a_first_frame_that_is_too_long_is_refused_before_it_arrives() {
    let mut world = World::with_nodes(1);
    let mut link = world.connect(0);
    world.send_bytes(&mut link, &hex("04 00 0001 01 000186a1"));
    let error = outcome(link.next_frame().unwrap().parse(&link.features).unwrap()).unwrap_err();
    assert_eq!(
        error.message,
        "Initial message size too large (100001), rejecting as invalid"
    );
    assert!(link.closed);
}

#[test]
fn a_connection_that_ends_inside_a_header_is_told_so() {
    let mut world = World::with_nodes(1);
    let mut link = world.connect(0);
    world.send_bytes(&mut link, &hex("04 00 00"));
    let now = world.now;
    world.cluster.handle_eof(now, link.id);
    world.collect(&mut link);
    let error = outcome(link.next_frame().unwrap().parse(&link.features).unwrap()).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (0, "bad cql binary frame")
    );
    assert!(link.closed);
}

#[test]
fn schema_changes_are_told_to_registered_connections_of_every_node_and_change_the_version() {
    let mut world = World::with_nodes(2);
    let (mut client, mut elsewhere, mut deaf) = (world.open(0), world.open(1), world.open(1));
    world.register(&mut client, &[EventKind::SchemaChange]);
    world.register(&mut elsewhere, &[EventKind::SchemaChange]);
    let version = |world: &mut World, link: &mut _| -> Vec<(Uuid,)> {
        world.rows(
            link,
            "SELECT schema_version FROM system.local WHERE key='local'",
        )
    };
    let before = version(&mut world, &mut deaf);
    let created = SchemaChange {
        change: SchemaChangeKind::Created,
        target: SchemaTarget::Keyspace,
        keyspace: "k".to_owned(),
    };
    let result = world.query(&mut client, KEYSPACE).unwrap();
    assert_eq!(result, ResultBody::SchemaChange(created.clone()));
    let event = ServerEvent::Schema(created);
    assert_eq!(world.events(&mut client), std::slice::from_ref(&event));
    assert_eq!(world.events(&mut elsewhere), [event]);
    assert!(world.events(&mut deaf).is_empty());
    let after = version(&mut world, &mut deaf);
    assert_ne!(before, after);
    assert_eq!(
        after,
        version(&mut world, &mut deaf),
        "the same until the next change"
    );
    let peers: Vec<(Uuid,)> = world.rows(&mut deaf, "SELECT schema_version FROM system.peers");
    assert_eq!(peers, after);
}

#[test]
fn the_other_nodes_tell_when_a_node_stops_starts_joins_and_leaves() {
    let mut world = World::with_nodes(2);
    let mut link = world.open(0);
    world.register(
        &mut link,
        &[EventKind::StatusChange, EventKind::TopologyChange],
    );
    let mut victim = world.open(1);
    world.cluster.stop_node(1);
    world.collect(&mut victim);
    assert!(victim.closed);
    let expected = hex(
        "84 00 FFFF 0C 0000001E 000D 5354415455535F4348414E4745 0004 444F574E 04 7F000002 00002352",
    );
    world.collect(&mut link);
    assert_eq!(link.received, expected);
    assert_eq!(world.events(&mut link).len(), 1);
    let peer = SocketAddr::from(([127, 0, 0, 1], 5));
    let now = world.now;
    assert_eq!(world.cluster.accept(now, 1, PortKind::Normal, peer), None);
    world.cluster.start_node(1);
    let address = SocketAddr::from(([127, 0, 0, 2], 9042));
    assert_eq!(
        world.events(&mut link),
        [ServerEvent::Status { up: true, address }]
    );
    let node = world.cluster.add_node("dc1", "rack1");
    let events = world.events(&mut link);
    assert!(matches!(
        events[0],
        ServerEvent::Topology {
            change: TopologyChange::NewNode,
            ..
        }
    ));
    assert!(matches!(events[1], ServerEvent::Status { up: true, .. }));
    let peers: Vec<(Uuid,)> = world.rows(&mut link, "SELECT host_id FROM system.peers");
    assert_eq!(peers.len(), 2);
    world.cluster.remove_node(node);
    assert_eq!(world.events(&mut link).len(), 2);
    let peers: Vec<(Uuid,)> = world.rows(&mut link, "SELECT host_id FROM system.peers");
    assert_eq!(peers, [(world.cluster.host_id(1).unwrap(),)]);
}

#[test]
fn events_that_were_named_before_an_unknown_one_are_registered_nevertheless() {
    let mut world = World::with_nodes(1);
    let mut link = world.open(0);
    let mut body = hex("0003");
    for name in ["SCHEMA_CHANGE", "NEWS", "STATUS_CHANGE"] {
        body.extend_from_slice(&u16::try_from(name.len()).unwrap().to_be_bytes());
        body.extend_from_slice(name.as_bytes());
    }
    let mut frame = hex("04 00 0001 0b");
    frame.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(&body);
    world.send_bytes(&mut link, &frame);
    let error = outcome(link.next_frame().unwrap().parse(&link.features).unwrap()).unwrap_err();
    assert_eq!(error.message, "Invalid value 'NEWS' for Event.Type");
    let now = world.now;
    world.cluster.execute(now, KEYSPACE).unwrap();
    assert_eq!(world.events(&mut link).len(), 1);
    let other = world.cluster.add_node("dc1", "rack1");
    world.cluster.stop_node(other);
    assert!(
        world.events(&mut link).is_empty(),
        "what stood behind it is not"
    );
    // Registering again adds up, also with nothing.
    world.register(&mut link, &[]);
    world.register(&mut link, &[EventKind::StatusChange]);
    world.cluster.start_node(other);
    assert_eq!(world.events(&mut link).len(), 1);
}

#[test]
fn too_few_live_replicas_make_a_level_unavailable() {
    let mut world = World::with_nodes(3);
    let mut link = world.open(0);
    let keyspace =
        "CREATE KEYSPACE k WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}";
    world.run(&mut link, keyspace);
    world.run(&mut link, "CREATE TABLE k.t (a int PRIMARY KEY)");
    world.cluster.stop_node(1);
    let mut level = |world: &mut World, consistency| {
        let params = ParamsRef {
            consistency,
            ..ParamsRef::default()
        };
        world.query_with(&mut link, "SELECT * FROM k.t WHERE a = 1", params)
    };
    assert!(level(&mut world, Consistency::LocalQuorum).is_ok());
    let error = level(&mut world, Consistency::All).unwrap_err();
    assert_eq!(
        error.message,
        "Cannot achieve consistency level for cl ALL. Requires 3, alive 2"
    );
    let detail = ServerErrorDetail::Unavailable {
        consistency: Consistency::All,
        required: 3,
        alive: 2,
    };
    assert_eq!(error.detail, detail);
    world.cluster.stop_node(2);
    assert!(level(&mut world, Consistency::LocalQuorum).is_err());
    assert!(level(&mut world, Consistency::One).is_ok());
}

#[test]
fn an_interceptor_delays_refuses_and_swallows_requests() {
    let mut world = World::with_nodes(1);
    let mut link = world.open(0);
    let decide = |seen: &crate::node::SeenRequest<'_>| match seen.text {
        Some(text) if text.contains("late") => Reaction::Delay(Duration::from_secs(5)),
        Some(text) if text.contains("never") => Reaction::Ignore,
        Some(text) if text.contains("bad") => Reaction::Refuse(CqlError::invalid("no")),
        Some(text) if text.contains("end") => Reaction::Disconnect,
        _ => Reaction::Answer,
    };
    world.cluster.intercept(Some(Interceptor::new(decide)));
    let query = |text| RequestRef::Query {
        text,
        params: ParamsRef::default(),
    };
    let late = world.send(&mut link, query("SELECT now() AS late FROM system.local"));
    assert!(link.next_frame().is_none());
    assert_eq!(
        world.cluster.poll_timeout(),
        Some(world.now + Duration::from_secs(5))
    );
    assert_eq!(world.refusal(&mut link, "bad").1, "no");
    world.send(&mut link, query("never"));
    assert!(link.next_frame().is_none());
    world.pass(Duration::from_secs(5));
    world.collect(&mut link);
    assert_eq!(link.next_frame().unwrap().header.stream, late);
    world.send(&mut link, query("end"));
    assert!(link.closed);
}

#[test]
fn a_traced_request_has_an_id_under_which_its_trace_is_found() {
    let mut world = World::with_nodes(1);
    let mut link = world.open(0);
    let mut frame = hex("04 02 0009 07 0000000d 00000006");
    frame.extend_from_slice(b"SELECT");
    frame.extend_from_slice(&hex("0001 00"));
    world.send_bytes(&mut link, &frame);
    let envelope = link.next_frame().unwrap().parse(&link.features).unwrap();
    assert!(
        matches!(envelope.response, Response::Error(_)),
        "errors are traced, too"
    );
    let id = envelope.tracing_id.unwrap();
    let text =
        format!("SELECT request, duration FROM system_traces.sessions WHERE session_id = {id}");
    let sessions: Vec<(String, i32)> = world.rows(&mut link, &text);
    assert_eq!(sessions, [("Execute CQL3 query".to_owned(), 100)]);
    let text = format!("SELECT event_id, thread FROM system_traces.events WHERE session_id = {id}");
    let events: Vec<(Uuid, String)> = world.rows(&mut link, &text);
    assert_eq!(events[0].1, "shard 0");
}

#[test]
fn any_bytes_after_the_handshake_leave_the_cluster_standing() {
    // A small generator is enough here: the point is that nothing panics.
    let mut state = 1_u64;
    let mut next = || {
        state = mix(state);
        state
    };
    let mut world = World::with_nodes(1);
    for _ in 0..400 {
        let mut link = world.open(0);
        let opcode = [1, 5, 7, 9, 10, 11, 13, 15][usize::try_from(next() % 8).unwrap()];
        let body: Vec<u8> = (0..next() % 64)
            .map(|_| next().to_be_bytes()[0] % 9)
            .collect();
        let mut frame = vec![4, 0, 0, 1, opcode];
        frame.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
        frame.extend_from_slice(&body);
        world.send_bytes(&mut link, &frame);
        assert!(link.next_frame().is_some());
        world.cluster.handle_closed(link.id);
    }
}
