//! What is read of the schema, and what survives odd schemas.

use std::time::Duration;

use super::world::*;
use crate::config::session::SessionConfig;
use crate::conn::Role;
use crate::routing::{Partitioner, Strategy, Token};

#[test]
fn views_are_routed_like_tables_and_logs_by_their_own_partitioner() {
    let mut world = World::new(3, config(&["192.0.2.1"]));
    world.views.push(("ks", "by_name"));
    world.tables.push(("ks", "t_scylla_cdc_log"));
    world
        .partitioners
        .push(("ks", "t_scylla_cdc_log", "com.scylladb.dht.CDCPartitioner"));
    world.run();
    let partitioner = |name: &str| {
        let table = world
            .routing
            .table_idx("ks", name)
            .and_then(|idx| world.routing.table(idx));
        table.map(|table| table.partitioner)
    };
    assert_eq!(partitioner("t_scylla_cdc_log"), Some(Partitioner::Cdc));
    assert_eq!(partitioner("by_name"), Some(Partitioner::Murmur3));
    let view = world.routing.table_idx("ks", "by_name").expect("a view");
    assert_eq!(world.routing.replicas(view, Token(150)).len(), 2);
}

#[test]
fn a_server_that_does_not_know_the_timeout_clause_is_asked_without_it() {
    let mut world = World::new(2, config(&["192.0.2.1"]));
    world.bounded = false;
    world.run();
    assert!(world.ready.is_some(), "{:?}", world.notes);
    assert!(world.routing.table_idx("ks", "t").is_some());
    assert!(world.notes.is_empty(), "{:?}", world.notes);
    assert_eq!(
        world
            .dialled
            .iter()
            .filter(|(role, _)| *role == Role::Control)
            .count(),
        1
    );
    world.asked.clear();
    world.plane.refresh(world.now);
    world.run();
    assert!(world.asked.iter().all(|text| !text.contains("TIMEOUT")));
}

#[test]
fn one_odd_keyspace_does_not_spoil_the_others() {
    let mut world = World::new(3, config(&["192.0.2.1"]));
    world.keyspaces = vec![
        (
            "ks",
            vec![("class", "NetworkTopologyStrategy"), ("dc1", "2")],
        ),
        ("odd", vec![("class", "com.example.My"), ("x", "y")]),
        ("empty", vec![]),
        (
            "transient",
            vec![("class", "NetworkTopologyStrategy"), ("dc1", "3/1")],
        ),
        (
            "local",
            vec![("class", "org.apache.cassandra.locator.LocalStrategy")],
        ),
    ];
    world.tables = world
        .keyspaces
        .iter()
        .map(|(name, _)| (*name, "t"))
        .collect();
    world.run();
    let replicas = |keyspace: &str| {
        let table = world.routing.table_idx(keyspace, "t").expect("a table");
        world.routing.replicas(table, Token(150)).len()
    };
    let counts = ["ks", "odd", "empty", "transient", "local"].map(replicas);
    assert_eq!(counts, [2, 1, 1, 3, 0]);
    let odd = world
        .routing
        .ring
        .placements()
        .iter()
        .filter(|placement| matches!(placement.strategy(), Strategy::Other { .. }));
    assert_eq!(odd.count(), 2);
}

#[test]
fn settings_without_limits_work() {
    let mut settings = SessionConfig {
        readiness_timeout: Duration::MAX,
        ..config(&["192.0.2.1"])
    };
    settings.metadata_timeout = Some(Duration::MAX);
    settings.connection.connect_timeout = Duration::MAX;
    settings.connection.keepalive_timeout = Duration::MAX;
    settings.reconnect = crate::policy::reconnect::ReconnectPolicy::Exponential {
        base: Duration::MAX,
        max: Duration::MAX,
    };
    settings.refresh.schema_delay_max = Duration::MAX;
    let mut world = World::new(2, settings);
    world.run();
    assert!(world.ready.is_some());
    for (conn, _, _) in world.open.clone() {
        world.lose(conn);
    }
    world.run();
    assert!(world.control().is_some());
}

#[test]
fn a_schema_that_is_answered_before_the_members_is_not_lost() {
    let mut world = World::new(3, config(&["192.0.2.1"]));
    let dialled = world.connects.pop_front().expect("an attempt");
    world.accept(dialled);
    while let Some(submitted) = world.submits.pop_back() {
        world.answer(submitted);
    }
    world.run();
    assert!(world.ready.is_some());
    assert_eq!(world.replicas(150), [2, 3]);
}
