//! How a session finds its cluster, or says why it cannot.

use std::io;
use std::time::Duration;

use super::frames::*;
use super::world::*;
use crate::config::session::{ReadinessRule, SessionConfig};
use crate::conn::Role;
use crate::error::connect::ConnectCause;
use crate::error::session::{ConfigError, NodeCause, NodeName, SessionErrorKind};
use crate::notify::Note;
use crate::routing::HostState;
use crate::wire::{EventKind, ServerError};

#[test]
fn a_session_starts_from_one_contact_point_and_finds_every_node() {
    let mut world = World::new(3, config(&["192.0.2.1"]));
    world.run();
    let ready = world.ready.expect("ready");
    assert_eq!(ready.wanted, 3);
    assert_eq!(world.routing.hosts.len(), 3);
    assert!(
        world
            .routing
            .hosts
            .iter()
            .all(|host| host.state == HostState::Up)
    );
    assert!(
        world
            .routing
            .pools
            .iter()
            .all(|pool| pool.connections().len() == 1)
    );
    assert_eq!(world.replicas(150), [2, 3]);
    assert!(world.notes.is_empty(), "{:?}", world.notes);
    let controls = world
        .dialled
        .iter()
        .filter(|(role, _)| *role == Role::Control)
        .count();
    assert_eq!((controls, world.dialled.len()), (1, 4));
}

#[test]
fn the_control_connection_registers_for_events_and_data_connections_enter_the_keyspace() {
    let mut world = World::new(
        1,
        SessionConfig {
            keyspace: Some("ks".into()),
            ..config(&["192.0.2.1"])
        },
    );
    let control = &world.connects[0].plan;
    let kinds = [
        EventKind::TopologyChange,
        EventKind::StatusChange,
        EventKind::SchemaChange,
    ];
    assert_eq!(control.events, kinds);
    assert_eq!(control.keyspace, None);
    let dialled = world.connects.pop_front().expect("a control connection");
    world.accept(dialled);
    while world.connects.is_empty() {
        let submitted = world.submits.pop_front().expect("a read");
        world.answer(submitted);
    }
    let data = &world.connects[0].plan;
    assert_eq!(
        (data.role, data.keyspace.as_deref()),
        (Role::Data, Some("ks"))
    );
    assert!(data.events.is_empty());
}

#[test]
fn ready_comes_only_after_the_snapshot_that_requests_need() {
    let mut world = World::new(1, config(&["192.0.2.1"]));
    let dialled = world.connects.pop_front().expect("a control connection");
    world.accept(dialled);
    while let Some(submitted) = world.submits.pop_front() {
        world.answer(submitted);
    }
    assert!(world.ready.is_none());
    world.run();
    assert!(world.ready.is_some());
    assert!(world.routing.table_idx("ks", "t").is_some());
}

#[test]
fn the_control_connection_alone_can_be_enough() {
    let mut world = World::new(
        1,
        SessionConfig {
            ready: ReadinessRule::ControlConnection,
            ..config(&["192.0.2.1"])
        },
    );
    let dialled = world.connects.pop_front().expect("a control connection");
    world.accept(dialled);
    while let Some(submitted) = world.submits.pop_front() {
        world.answer(submitted);
    }
    assert_eq!(
        world.ready.map(|ready| (ready.connected, ready.wanted)),
        Some((0, 1))
    );
}

#[test]
fn a_quorum_waits_for_more_than_half_of_the_hosts() {
    let mut world = World::new(
        3,
        SessionConfig {
            ready: ReadinessRule::Quorum,
            ..config(&["192.0.2.1"])
        },
    );
    world.nodes[1].alive = false;
    world.nodes[2].alive = false;
    world.run();
    assert!(world.ready.is_none());
    world.nodes[1].alive = true;
    world.pass(Duration::from_secs(3));
    assert_eq!(world.ready.map(|ready| ready.connected), Some(2));
}

#[test]
fn contact_points_are_tried_until_one_answers() {
    let mut world = World::new(3, config(&["192.0.2.1", "192.0.2.2", "192.0.2.3"]));
    world.nodes[0].alive = false;
    world.nodes[1].alive = false;
    world.run();
    assert!(world.ready.is_some());
    assert_eq!(world.control().map(|(_, at)| at), Some(address(3)));
}

#[test]
fn the_order_of_contact_points_depends_on_the_seed_alone() {
    let points = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
    let first = |seed| World::seeded(3, config(&points), seed).connects[0].address;
    assert_eq!(first(5), first(5));
    let mut seen: Vec<_> = (0..30).map(first).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

#[test]
fn a_contact_point_that_does_not_answer_does_not_hold_up_the_next_one() {
    let mut world = World::new(2, config(&["192.0.2.1", "192.0.2.2"]));
    let silent = world.connects.pop_front().expect("a first attempt");
    world.tick(world.now + Duration::from_secs(1));
    let second = world
        .connects
        .pop_front()
        .expect("a second attempt beside the first");
    assert_ne!(silent.address, second.address);
    world.connects.push_back(silent);
    world.accept(second);
    assert_eq!(
        world.disconnected.len(),
        1,
        "the slower attempt is given up"
    );
    world.run();
    assert!(world.ready.is_some());
}

#[test]
fn an_unknown_name_is_noted_and_the_others_are_still_tried() {
    let mut world = World::new(1, config(&["bad.invalid", "192.0.2.1"]));
    let (id, name) = world.resolves.pop_front().expect("a name to resolve");
    assert_eq!(name, "bad.invalid");
    world
        .plane
        .handle_resolved(world.now, id, Err(io::ErrorKind::NotFound.into()));
    world.run();
    assert!(world.ready.is_some());
    let noted = world
        .notes
        .iter()
        .any(|note| matches!(note, Note::NameUnresolved { name, .. } if &**name == "bad.invalid"));
    assert!(noted, "{:?}", world.notes);
}

#[test]
fn names_that_all_fail_end_the_start_with_each_name_and_cause() {
    let mut world = World::new(
        1,
        config(&["bad.invalid", "worse.invalid", "empty.invalid"]),
    );
    for (id, name) in std::mem::take(&mut world.resolves) {
        let found = if name == "empty.invalid" {
            Ok(Vec::new())
        } else {
            Err(io::ErrorKind::NotFound.into())
        };
        world.plane.handle_resolved(world.now, id, found);
    }
    world.run();
    let error = world.fatal.expect("no contact point is left");
    assert!(matches!(error.kind(), SessionErrorKind::NoContactPoint));
    let text = error.to_string();
    for name in [
        "bad.invalid",
        "worse.invalid",
        "empty.invalid: the name has no address",
    ] {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn every_address_of_a_name_is_tried() {
    let mut world = World::new(3, config(&["db.example"]));
    world.nodes[0].alive = false;
    world.nodes[1].alive = false;
    let (id, _) = world.resolves.pop_front().expect("a name to resolve");
    world
        .plane
        .handle_resolved(world.now, id, Ok(vec![address(1), address(2), address(3)]));
    world.run();
    assert!(world.ready.is_some());
    assert_eq!(world.control().map(|(_, at)| at), Some(address(3)));
}

#[test]
fn a_resolver_that_never_answers_is_given_up() {
    let mut world = World::new(1, config(&["db.example"]));
    world.tick(world.now + Duration::from_secs(5));
    let error = world.fatal.expect("nobody is left");
    assert!(matches!(
        &error.failures()[0].cause,
        NodeCause::Resolve(error) if error.kind() == io::ErrorKind::TimedOut
    ));
    assert_eq!(world.plane.poll_timeout(), None);
}

#[test]
fn contact_points_that_all_refuse_end_the_start_with_every_cause() {
    let mut world = World::new(3, config(&["192.0.2.1", "192.0.2.2", "192.0.2.3"]));
    world.nodes.iter_mut().for_each(|node| node.alive = false);
    world.run();
    let error = world.fatal.as_ref().expect("nobody is left");
    assert!(matches!(error.kind(), SessionErrorKind::NoContactPoint));
    assert_eq!(error.failures().len(), 3);
    assert!(world.plane.is_closed());
    assert_eq!(
        world.plane.poll_timeout(),
        None,
        "nothing goes on in the background"
    );
}

#[test]
fn wrong_credentials_end_the_start_and_say_so() {
    let mut world = World::new(1, config(&["192.0.2.1"]));
    let dialled = world.connects.pop_front().expect("an attempt");
    let message = "Username and/or password are incorrect".to_string();
    let detail = crate::wire::ServerErrorDetail::AuthenticationFailed;
    let refused = ServerError {
        code: 0x0100,
        message,
        detail,
    };
    world.refuse(dialled, ConnectCause::Server(refused.into()));
    let error = world.fatal.expect("nobody is left");
    assert!(
        matches!(&error.failures()[0].cause, NodeCause::Connect(error) if matches!(error.cause, ConnectCause::Server(_)))
    );
    assert!(matches!(
        &error.failures()[0].node,
        NodeName::Address { .. }
    ));
}

#[test]
fn a_start_that_takes_too_long_lists_who_did_not_answer() {
    let config = SessionConfig {
        readiness_timeout: Duration::from_secs(2),
        ..config(&["192.0.2.1", "192.0.2.2"])
    };
    let mut world = World::new(2, config);
    world.tick(world.now + Duration::from_millis(1_999));
    assert!(world.fatal.is_none());
    world.tick(world.now + Duration::from_millis(1));
    let error = world.fatal.as_ref().expect("time is over");
    assert_eq!(error.failures().len(), 2);
    assert!(
        error
            .failures()
            .iter()
            .all(|failure| matches!(failure.cause, NodeCause::Unanswered))
    );
    assert!(world.plane.is_closed());
    assert_eq!(world.plane.poll_timeout(), None);
}

#[test]
fn a_cluster_without_a_data_connection_in_time_is_not_ready() {
    let mut world = World::new(2, config(&["192.0.2.1"]));
    let dialled = world.connects.pop_front().expect("a control connection");
    world.accept(dialled);
    world.nodes.iter_mut().for_each(|node| node.alive = false);
    world.pass(Duration::from_secs(30));
    let error = world.fatal.expect("no data connection came about");
    assert!(matches!(error.kind(), SessionErrorKind::NotReady { .. }));
    assert_eq!(error.failures().len(), 2);
    assert!(
        error
            .failures()
            .iter()
            .all(|failure| matches!(failure.node, NodeName::Host { .. }))
    );
    assert!(error.failures()[0].retry_in.is_some());
}

#[test]
fn a_local_datacenter_that_nobody_is_in_ends_the_start_and_lists_the_others() {
    let mut world = World::new(
        2,
        SessionConfig {
            local_datacenter: Some("dc9".into()),
            ..config(&["192.0.2.1"])
        },
    );
    world.run();
    let error = world.fatal.expect("no request could ever be sent");
    match error.kind() {
        SessionErrorKind::Config(ConfigError::LocalDatacenter { name, known }) => {
            assert_eq!((&**name, known.len(), &*known[0]), ("dc9", 1, "dc1"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_configured_datacenter_that_of_the_first_node_is_local() {
    let mut world = World::new(2, config(&["192.0.2.2"]));
    world.nodes[0].datacenter = "dc2";
    world.run();
    assert_eq!(world.routing.local_datacenter.as_deref(), Some("dc1"));
    let first = world.routing.host(world.host(1)).expect("a host");
    assert!(!first.local);
    assert_eq!(
        world.data(address(1)),
        None,
        "the default policy never goes there"
    );
    assert_eq!(world.ready.map(|ready| ready.wanted), Some(1));
}

#[test]
fn settings_that_cannot_work_end_the_start_before_anything_is_dialled() {
    let world = World::new(1, config(&[]));
    assert!(matches!(
        world.fatal.expect("refused").kind(),
        SessionErrorKind::Config(ConfigError::NoContactPoint)
    ));
    assert!(world.dialled.is_empty());
}

#[test]
fn a_contact_point_whose_tables_make_no_sense_is_left_for_the_next() {
    for garbage in [
        rows_frame(&[("nonsense", INT)], vec![]),
        rows_frame(&node_columns("broadcast_address"), vec![]),
        error_frame(0x0000, "out of order"),
        frame(crate::wire::Opcode::Result, vec![0xff; 40]),
        frame(crate::wire::Opcode::Ready, Vec::new()),
    ] {
        let mut world = World::new(2, config(&["192.0.2.1", "192.0.2.2"]));
        let first = world.connects[0].address;
        let dialled = world.connects.pop_front().expect("an attempt");
        world.accept(dialled);
        let local = world
            .submits
            .pop_front()
            .expect("the read of the local table");
        assert!(local.text().contains("system.local"));
        world.reply_with(local, Ok(garbage));
        world.run();
        assert!(world.ready.is_some());
        assert_ne!(world.control().map(|(_, at)| at), Some(first));
        assert!(
            world
                .notes
                .iter()
                .any(|note| matches!(note, Note::ReadFailed { .. }))
        );
    }
}

#[test]
fn a_schema_that_cannot_be_read_does_not_keep_the_session_from_starting() {
    let mut world = World::new(1, config(&["192.0.2.1"]));
    let dialled = world.connects.pop_front().expect("an attempt");
    world.accept(dialled);
    let mut refused = 0;
    for _ in 0..20 {
        let Some(submitted) = world.submits.pop_front() else {
            break;
        };
        if submitted.text().contains("system_schema.keyspaces") {
            refused += 1;
            world.reply_with(submitted, Ok(error_frame(0x1001, "overloaded")));
        } else {
            world.answer(submitted);
        }
    }
    world.run();
    assert_eq!(refused, 1);
    assert!(world.ready.is_some());
    assert_eq!(world.routing.table_idx("ks", "t"), None);
    world.pass(Duration::from_secs(2));
    assert!(
        world.routing.table_idx("ks", "t").is_some(),
        "it is read again"
    );
}

#[test]
fn closing_while_everything_refuses_leaves_nothing_behind() {
    let mut world = World::started(2);
    world.nodes.iter_mut().for_each(|node| node.alive = false);
    for conn in world.open.clone() {
        world.lose(conn.0);
    }
    world.run();
    world.plane.close(world.now);
    world.plane.close(world.now);
    world.drain();
    assert!(world.plane.is_closed());
    assert_eq!(world.plane.poll_timeout(), None);
    world.pass(Duration::from_secs(600));
    assert!(world.connects.is_empty());
}

#[test]
fn a_connection_that_becomes_usable_after_it_was_given_up_is_not_used() {
    let mut world = World::new(
        1,
        SessionConfig {
            readiness_timeout: Duration::from_secs(2),
            ..config(&["192.0.2.1"])
        },
    );
    let dialled = world.connects.pop_front().expect("an attempt");
    let (conn, at) = (dialled.conn, dialled.address);
    world.tick(world.now + Duration::from_secs(2));
    assert!(world.fatal.is_some());
    assert!(!world.plane.is_closed(), "its end was not reported");
    let info = crate::conn::ConnectionInfo {
        address: at.into(),
        features: crate::wire::ProtocolFeatures::default(),
        shard: None,
        host_id: None,
    };
    world.plane.handle_connected(world.now, conn, info, 7);
    world.drain();
    assert!(world.submits.is_empty());
    world
        .plane
        .handle_closed(world.now, conn, crate::error::connect::ConnectionError::Eof);
    assert!(world.plane.is_closed());
}
