//! Members with odd facts, members that change their facts, and news about several of them at once.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use uuid::Uuid;

use super::frames::*;
use super::world::*;
use crate::config::session::{RefreshConfig, SessionConfig};
use crate::notify::{ClusterEvent, Note};
use crate::routing::HostState;
use crate::wire::{
    Request, SchemaChange, SchemaChangeKind, SchemaTarget, ServerEvent, TopologyChange,
};

fn members(world: &World) -> Vec<u128> {
    let hosts = world.routing.hosts.iter();
    let mut ids: Vec<u128> = hosts
        .filter(|host| host.state != HostState::Removed)
        .map(|host| host.id.as_u128())
        .collect();
    ids.sort_unstable();
    ids
}

fn status(up: bool, last: u8) -> ServerEvent {
    ServerEvent::Status {
        up,
        address: address(last),
    }
}

fn altered(keyspace: &str) -> ServerEvent {
    ServerEvent::Schema(SchemaChange {
        change: SchemaChangeKind::Updated,
        target: SchemaTarget::Keyspace,
        keyspace: keyspace.into(),
    })
}

fn asked(world: &World, what: &str) -> usize {
    world
        .asked
        .iter()
        .filter(|text| text.contains(what))
        .count()
}

#[test]
fn version_texts_of_any_form_are_taken_as_they_are() {
    let versions = [
        "4.0-alpha1-SNAPSHOT",
        "3.11.4.1",
        "5.4.0-rc1-0.20240101.abcdef",
        "2026.2.0~dev",
        "3.0.8",
        "",
        "unknown",
        "4.0.0.602-a-b",
    ];
    let mut columns = node_columns("peer");
    columns.push(("release_version", TEXT));
    let row = |(version, last): (&&str, u8)| {
        let mut row = node_row(&node(last));
        row.push(cell(version));
        row
    };
    let mut world = World::new(9, config(&["192.0.2.1"]));
    world.peers = Some(rows_frame(
        &columns,
        versions.iter().zip(2..).map(row).collect(),
    ));
    world.run();
    assert!(world.ready.is_some());
    assert_eq!(members(&world).len(), 9);
    for (version, id) in versions.iter().zip(2..) {
        let host = world.routing.host(world.host(id)).expect("a host");
        assert_eq!(host.release_version.as_deref(), Some(*version));
        assert_eq!(host.state, HostState::Up);
    }
}

#[test]
fn nodes_with_addresses_of_the_newer_kind_are_dialled_there() {
    let mut world = World::new(2, config(&["192.0.2.1"]));
    let newer: SocketAddr = "[2001:db8::2]:9042".parse().expect("an address");
    world.nodes[1].address = newer;
    world.run();
    assert!(world.data(newer).is_some(), "{:?}", world.dialled);
    world.event(ServerEvent::Status {
        up: false,
        address: newer,
    });
    let probed = world
        .submits
        .iter()
        .any(|own| matches!(own.request, Request::Options));
    assert!(probed, "events find it by that address");
}

#[test]
fn another_node_at_a_known_address_is_another_host() {
    let mut world = World::started(2);
    let old = world.host(2);
    world.forget();
    let conn = world.data(address(2)).expect("a connection");
    world.lose(conn);
    world.nodes[1].id = 22;
    world.plane.refresh(world.now);
    world.pass(Duration::from_secs(5));
    assert_eq!(members(&world), [1, 22]);
    assert_ne!(world.host(22), old);
    let host = |idx| world.routing.host(idx).expect("a host");
    assert_eq!(host(old).state, HostState::Removed);
    assert_eq!(host(world.host(22)).state, HostState::Up);
    assert!(
        !world.routing.ring.owners().contains(&old),
        "it owns nothing any more"
    );
    let told =
        |fits: fn(&ClusterEvent) -> bool| world.events.iter().filter(|own| fits(own)).count();
    assert_eq!(told(|own| matches!(own, ClusterEvent::HostAdded { .. })), 1);
    assert_eq!(
        told(|own| matches!(own, ClusterEvent::HostRemoved { .. })),
        1
    );
}

#[test]
fn news_about_several_hosts_and_the_schema_at_once_all_have_their_effect() {
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    let mut world = World::started(3);
    world.nodes[2].alive = false;
    let conn = world.data(address(3)).expect("a connection");
    world.lose(conn);
    for round in 0..1_000 {
        // Node 2 is said to be down, node 3 to be up, and a keyspace to have changed; node 3 still refuses.
        world.forget();
        world.asked.clear();
        let rf = ["1", "2"][round % 2];
        world.keyspaces = vec![(
            "ks",
            vec![("class", "NetworkTopologyStrategy"), ("dc1", rf)],
        )];
        let events = [status(false, 2), status(true, 3), altered("ks")];
        for at in orders[round % orders.len()] {
            world.event(events[at].clone());
        }
        let probed = world
            .submits
            .iter()
            .filter(|own| matches!(own.request, Request::Options));
        assert_eq!(probed.count(), 1, "round {round}");
        world.pass(Duration::from_secs(2));
        assert!(
            world.dialled.iter().any(|(_, at)| *at == address(3)),
            "round {round}"
        );
        assert_eq!(world.replicas(5).len(), 1 + round % 2, "round {round}");
    }
}

#[test]
fn kinds_of_news_that_are_switched_off_cause_no_read() {
    let mut settings = config(&["192.0.2.1"]);
    settings.refresh = RefreshConfig {
        topology_delay_max: Duration::MAX,
        status_delay_max: Duration::MAX,
        schema_delay_max: Duration::MAX,
    };
    let mut world = World::new(1, settings);
    world.run();
    world.asked.clear();
    for change in [
        TopologyChange::NewNode,
        TopologyChange::RemovedNode,
        TopologyChange::MovedNode,
    ] {
        world.event(ServerEvent::Topology {
            change,
            address: address(9),
        });
    }
    world.event(status(true, 9));
    world.event(altered("ks"));
    world.pass(Duration::from_secs(3_600));
    assert_eq!(world.asked, Vec::<String>::new());
    assert!(
        matches!(world.events.last(), Some(ClusterEvent::SchemaChanged(_))),
        "it is told all the same"
    );
    world.plane.refresh(world.now);
    world.run();
    assert_eq!(asked(&world, "system.peers"), 1);
    assert!(0 < asked(&world, "system_schema.keyspaces"));
}

#[test]
fn another_node_at_an_address_is_looked_up_soon_although_news_are_switched_off() {
    let mut settings = config(&["192.0.2.1"]);
    settings.refresh.topology_delay_max = Duration::MAX;
    let mut world = World::new(2, settings);
    world.run();
    let conn = world.data(address(2)).expect("a connection");
    world.lose(conn);
    world.tick(world.now + Duration::from_secs(2));
    let stray = world.connects.pop_front().expect("an attempt");
    assert_eq!(stray.address, address(2));
    world.asked.clear();
    world.accept_as(stray, Some(Uuid::from_u128(99)));
    world.pass(Duration::from_secs(1));
    assert_eq!(asked(&world, "system.peers"), 1);
}

#[test]
fn a_burst_of_news_about_one_table_is_one_read() {
    let mut settings = config(&["192.0.2.1"]);
    settings.refresh.schema_delay_max = Duration::from_secs(2);
    let mut world = World::new(1, settings);
    world.run();
    world.asked.clear();
    for _ in 0..100 {
        world.event(ServerEvent::Schema(SchemaChange {
            change: SchemaChangeKind::Updated,
            target: SchemaTarget::Table { name: "t".into() },
            keyspace: "ks".into(),
        }));
    }
    world.pass(Duration::from_secs(10));
    assert_eq!(asked(&world, "system_schema.tables"), 1);
    let told = world
        .events
        .iter()
        .filter(|own| matches!(own, ClusterEvent::SchemaChanged(_)));
    assert_eq!(told.count(), 100, "each is told, in order");
}

#[test]
fn rows_with_nonsense_in_every_place_are_skipped_and_the_last_good_picture_stays() {
    let mut world = World::started(3);
    let before = members(&world);
    let replicas = world.replicas(150);
    let garbage = || Some(vec![0xff, 0xfe, 0xfd]);
    for place in 0..node_columns("peer").len() {
        let spoil = |last: u8| {
            let mut row = node_row(&node(last));
            row[place] = garbage();
            row
        };
        world.peers = Some(rows_frame(
            &node_columns("peer"),
            (2..=3).map(spoil).collect(),
        ));
        world.plane.refresh(world.now);
        world.run();
        // A row without a readable id says of nobody that he is still there; all other rows do.
        let expected: &[u128] = match node_columns("peer")[place].0 {
            "host_id" => &[1],
            _ => &before,
        };
        assert_eq!(members(&world), expected, "column {place}");
        world.peers = None;
        world.plane.refresh(world.now);
        world.run();
        assert_eq!(members(&world), before, "column {place}");
        assert_eq!(world.replicas(150), replicas, "column {place}");
    }
    assert!(
        world
            .notes
            .iter()
            .any(|note| matches!(note, Note::RowSkipped { .. }))
    );
}

#[test]
fn ports_and_tokens_out_of_range_are_not_believed() {
    let ip = |last: u8| IpAddr::from([192, 0, 2, last]);
    let columns: Vec<(&str, &[u8])> = vec![
        ("peer", INET),
        ("native_address", INET),
        ("native_port", INT),
        ("host_id", UUID),
        ("data_center", TEXT),
        ("rack", TEXT),
        ("tokens", TEXT_SET),
    ];
    let row = |last: u8, port: i32, token: &str| {
        vec![
            ip_cell(ip(last)),
            ip_cell(ip(last)),
            Some(port.to_be_bytes().to_vec()),
            uuid_cell(last.into()),
            cell("dc1"),
            cell("a"),
            Some(text_set(&[token.into()])),
        ]
    };
    let mut world = World::new(
        6,
        SessionConfig {
            ..config(&["192.0.2.1"])
        },
    );
    world.scylla = false;
    world.peers_v2 = Some(rows_frame(
        &columns,
        vec![
            row(2, 70_000, "1"),
            row(3, -1, "2"),
            row(4, 0, "3"),
            row(5, 9042, "9223372036854775808"),
            row(6, 9042, "1e3"),
        ],
    ));
    world.run();
    assert!(world.ready.is_some());
    assert_eq!(
        members(&world),
        [1, 2, 3, 4],
        "tokens that are not 64 bits are no tokens"
    );
    let default_port = world
        .routing
        .hosts
        .iter()
        .all(|host| host.address.port() == 9042);
    assert!(
        default_port,
        "impossible ports give way to that of the control connection"
    );
}
