//! How members are read: bad rows, odd addresses, moves and removals.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::frames::*;
use super::world::*;
use crate::config::session::RefreshConfig;
use crate::conn::{CloseReason, Role};
use crate::notify::{ClusterEvent, Note};
use crate::routing::{HostIdx, HostState};
use crate::wire::{ServerEvent, TopologyChange};

fn refresh(world: &mut World) {
    world.plane.refresh(world.now);
    world.run();
}

fn skipped(world: &World) -> usize {
    world
        .notes
        .iter()
        .filter(|note| matches!(note, Note::RowSkipped { .. }))
        .count()
}

fn ids(world: &World) -> Vec<u128> {
    let members = world
        .routing
        .hosts
        .iter()
        .filter(|host| host.state != HostState::Removed);
    let mut ids: Vec<u128> = members.map(|host| host.id.as_u128()).collect();
    ids.sort_unstable();
    ids
}

/// The rows of nodes 2 and up, each changed by `change`.
fn peers(count: u8, change: impl Fn(u8, &mut Cells)) -> crate::wire::ResponseFrame {
    let row = |last: u8| {
        let mut row = node_row(&node(last));
        change(last, &mut row);
        row
    };
    rows_frame(&node_columns("peer"), (2..=count).map(row).collect())
}

const BROADCAST: usize = 1;
const CLIENT: usize = 2;
const HOST_ID: usize = 3;
const DATACENTER: usize = 4;
const RACK: usize = 5;
const TOKENS: usize = 6;

#[test]
fn broken_rows_are_skipped_and_good_ones_are_used() {
    let mut world = World::new(1, config(&["192.0.2.1"]));
    world.peers = Some(peers(9, |last, row| match last {
        2 => row[HOST_ID] = None,
        3 => row[CLIENT] = None,
        4 => row[DATACENTER] = None,
        5 => row[RACK] = None,
        6 => row[TOKENS] = None,
        7 => row[TOKENS] = Some([0, 0, 0, 1, 0, 0, 0, 3, b'a', b'b', b'c'].to_vec()),
        8 => row[HOST_ID] = uuid_cell(0),
        _ => (),
    }));
    world.run();
    assert!(world.ready.is_some());
    // A node without tokens is a member that owns no range.
    assert_eq!(ids(&world), [1, 6, 9]);
    assert_eq!(skipped(&world), 6);
    assert!(!world.routing.ring.owners().contains(&world.host(6)));
}

#[test]
fn a_wildcard_address_is_replaced_by_one_that_leads_somewhere() {
    for wildcard in ["0.0.0.0", "::"] {
        let wildcard: IpAddr = wildcard.parse().expect("an address");
        let mut world = World::new(1, config(&["192.0.2.1"]));
        world.peers = Some(peers(3, |last, row| {
            row[CLIENT] = ip_cell(wildcard);
            if last == 3 {
                row[BROADCAST] = ip_cell(wildcard);
            }
        }));
        let mut local = node_row(&node(1));
        local[CLIENT] = ip_cell(wildcard);
        local[BROADCAST] = None;
        world.local = Some(rows_frame(&node_columns("broadcast_address"), vec![local]));
        world.run();
        assert_eq!(ids(&world), [1, 2]);
        let at = |id| world.routing.host(world.host(id)).map(|host| host.address);
        assert_eq!(at(1), Some(address(1)));
        assert_eq!(at(2), Some(address(2)));
    }
}

#[test]
fn a_node_that_lists_itself_among_its_peers_is_one_node() {
    let mut world = World::new(2, config(&["192.0.2.1"]));
    let rows = vec![node_row(&node(1)), node_row(&node(2))];
    world.peers = Some(rows_frame(&node_columns("peer"), rows));
    world.run();
    assert_eq!(ids(&world), [1, 2]);
    let data = world
        .dialled
        .iter()
        .filter(|(role, _)| *role == Role::Data)
        .count();
    assert_eq!(data, 2);
}

#[test]
fn of_two_rows_with_one_id_the_same_is_chosen_whatever_their_order() {
    let twin = |last: u8| {
        let mut row = node_row(&node(last));
        row[HOST_ID] = uuid_cell(7);
        row
    };
    let mut world = World::new(6, config(&["192.0.2.1"]));
    let frame = |order: [u8; 2]| rows_frame(&node_columns("peer"), order.map(twin).into());
    world.peers = Some(frame([6, 5]));
    world.run();
    let at = |world: &World| world.routing.host(world.host(7)).map(|host| host.address);
    assert_eq!(at(&world), Some(address(5)));
    world.forget();
    for order in [[5, 6], [6, 5]] {
        world.peers = Some(frame(order));
        refresh(&mut world);
        assert_eq!(at(&world), Some(address(5)));
    }
    assert!(world.dialled.is_empty(), "no pool moved");
    assert_eq!(skipped(&world), 2);
}

#[test]
fn nodes_behind_one_address_are_different_nodes() {
    let mut world = World::new(2, config(&["192.0.2.1"]));
    world.scylla = false;
    world.peers = Some(peers(3, |_, row| row[CLIENT] = ip_cell(address(2).ip())));
    world.run();
    assert_eq!(ids(&world), [1, 2, 3]);
    assert_eq!(
        world
            .routing
            .pools
            .iter()
            .filter(|pool| !pool.is_empty())
            .count(),
        3
    );
}

#[test]
fn peers_without_a_port_have_that_of_the_control_connection() {
    let mut world = World::new(2, config(&["192.0.2.1:9142"]));
    world
        .nodes
        .iter_mut()
        .for_each(|node| node.address.set_port(9142));
    world.run();
    assert!(
        world
            .dialled
            .iter()
            .all(|(_, address)| address.port() == 9142),
        "{:?}",
        world.dialled
    );
    assert_eq!(world.dialled.len(), 3);
}

#[test]
fn cassandra_peers_may_have_ports_of_their_own() {
    let mut world = World::new(1, config(&["192.0.2.1"]));
    world.scylla = false;
    world.nodes.push(Node {
        address: SocketAddr::from(([192, 0, 2, 2], 9242)),
        ..node(2)
    });
    let columns: Vec<_> = vec![
        ("peer", INET),
        ("native_address", INET),
        ("native_port", INT),
        ("host_id", UUID),
        ("data_center", TEXT),
        ("rack", TEXT),
    ];
    let ip = || ip_cell(address(2).ip());
    let row = vec![
        ip(),
        ip(),
        Some(9242_i32.to_be_bytes().to_vec()),
        uuid_cell(2),
        cell("dc1"),
        cell("r"),
    ];
    while world.ready.is_none() {
        world.drain();
        if let Some(dialled) = world.connects.pop_front() {
            world.connect(dialled);
        } else {
            let submitted = world.submits.pop_front().expect("something to do");
            if submitted.text().contains("peers_v2") {
                world.reply_with(submitted, Ok(rows_frame(&columns, vec![row.clone()])));
            } else {
                world.answer(submitted);
            }
        }
    }
    assert_eq!(
        world
            .routing
            .host(world.host(2))
            .map(|host| host.address.port()),
        Some(9242)
    );
}

#[test]
fn a_server_without_the_new_peers_table_is_asked_for_the_old_one() {
    let mut world = World::new(2, config(&["192.0.2.1"]));
    world.scylla = false;
    world.run();
    assert!(world.ready.is_some());
    let peers: Vec<_> = world
        .asked
        .iter()
        .filter(|text| text.contains("peers"))
        .collect();
    assert_eq!(
        peers,
        [
            "SELECT * FROM system.peers_v2",
            "SELECT * FROM system.peers"
        ]
    );
    assert!(world.asked.iter().all(|text| !text.contains("TIMEOUT")));
    assert!(
        world
            .asked
            .iter()
            .all(|text| !text.contains("scylla_tables"))
    );
    world.asked.clear();
    refresh(&mut world);
    assert!(
        world.asked.iter().all(|text| !text.contains("peers_v2")),
        "it is asked once"
    );
}

#[test]
fn scylla_is_asked_for_the_old_table_only_and_told_how_long_it_may_work() {
    let world = {
        let mut world = World::new(2, config(&["192.0.2.1"]));
        world.run();
        world
    };
    assert!(
        world
            .asked
            .iter()
            .all(|text| !text.contains("peers_v2") && text.ends_with("USING TIMEOUT 10000ms"))
    );
    assert!(
        world
            .asked
            .iter()
            .any(|text| text.contains("scylla_tables"))
    );
}

#[test]
fn internal_reads_have_a_deadline_and_ask_for_pages() {
    let mut world = World::new(1, config(&["192.0.2.1"]));
    let dialled = world.connects.pop_front().expect("an attempt");
    world.accept(dialled);
    for submitted in &world.submits {
        assert_eq!(
            submitted.deadline,
            Some(world.now + Duration::from_secs(10))
        );
        let crate::wire::Request::Query { params, .. } = &submitted.request else {
            panic!("a query")
        };
        assert!(params.page_size.is_some());
    }
}

#[test]
fn tables_of_several_pages_are_read_to_the_end() {
    let mut world = World::new(3, config(&["192.0.2.1"]));
    let dialled = world.connects.pop_front().expect("an attempt");
    world.accept(dialled);
    let mut pages = 0;
    while let Some(submitted) = world.submits.pop_front() {
        let crate::wire::Request::Query { text, params } = &submitted.request else {
            panic!("a query")
        };
        if !text.contains("system.peers") {
            world.answer(submitted);
            continue;
        }
        pages += 1;
        let columns = node_columns("peer");
        let reply = match params.paging_state.as_deref() {
            None => paged_rows_frame(&columns, vec![node_row(&node(2))], Some(b"second")),
            Some(b"second") => paged_rows_frame(&columns, vec![], Some(b"third")),
            Some(b"third") => rows_frame(&columns, vec![node_row(&node(3))]),
            other => panic!("{other:?}"),
        };
        world.reply_with(submitted, Ok(reply));
    }
    world.run();
    assert_eq!(pages, 3);
    assert_eq!(ids(&world), [1, 2, 3]);
}

#[test]
fn a_new_node_is_added_once_and_connected() {
    let mut settings = config(&["192.0.2.1"]);
    settings.refresh = RefreshConfig::default();
    let mut world = World::new(2, settings);
    world.run();
    world.forget();
    world.nodes.push(node(3));
    let event = ServerEvent::Topology {
        change: TopologyChange::NewNode,
        address: address(3),
    };
    world.event(event.clone());
    world.event(event);
    world.event(ServerEvent::Status {
        up: true,
        address: address(3),
    });
    world.pass(Duration::from_secs(1));
    assert_eq!(world.dialled, [(Role::Data, address(3))]);
    assert_eq!(
        world
            .asked
            .iter()
            .filter(|text| text.contains("system.peers"))
            .count(),
        1
    );
    let host_id = uuid::Uuid::from_u128(3);
    assert_eq!(
        world.events,
        [
            ClusterEvent::HostAdded {
                host_id,
                address: address(3)
            },
            ClusterEvent::HostUp {
                host_id,
                address: address(3)
            },
        ]
    );
    assert_eq!(world.replicas(250), [3, 1]);
}

#[test]
fn an_up_event_for_an_unknown_node_reads_the_members() {
    let mut world = World::started(1);
    world.nodes.push(node(7));
    world.event(ServerEvent::Status {
        up: true,
        address: address(7),
    });
    world.run();
    assert_eq!(ids(&world), [1, 7]);
    assert_eq!(world.dialled, [(Role::Data, address(7))]);
}

#[test]
fn a_removed_node_keeps_its_index_and_loses_its_connection() {
    let mut world = World::started(3);
    let (second, third) = (world.host(2), world.host(3));
    let conn = world.data(address(2)).expect("a connection");
    world.nodes[1].member = false;
    world.event(ServerEvent::Topology {
        change: TopologyChange::RemovedNode,
        address: address(2),
    });
    world.run();
    assert_eq!(
        world.routing.host(second).map(|host| host.state),
        Some(HostState::Removed)
    );
    assert!(
        world
            .routing
            .pool(second)
            .is_some_and(|pool| pool.is_empty())
    );
    assert_eq!(world.disconnected, [(conn, CloseReason::HostRemoved)]);
    assert_eq!(world.host(3), third);
    assert!(!world.routing.ring.owners().contains(&second));
    let removed = ClusterEvent::HostRemoved {
        host_id: uuid::Uuid::from_u128(2),
        address: address(2),
    };
    assert!(world.events.contains(&removed), "{:?}", world.events);
    world.forget();
    world.nodes[1].member = true;
    refresh(&mut world);
    assert_eq!(
        world.host(2),
        second,
        "a host that comes back has its old index"
    );
    assert_eq!(world.dialled, [(Role::Data, address(2))]);
}

#[test]
fn a_node_with_a_new_address_is_the_same_host() {
    let mut world = World::started(2);
    let second = world.host(2);
    let old = world.data(address(2)).expect("a connection");
    world.nodes[1].address = address(22);
    world.event(ServerEvent::Status {
        up: true,
        address: address(22),
    });
    world.run();
    assert_eq!(world.host(2), second);
    assert_eq!(world.routing.hosts.len(), 2);
    assert_eq!(world.dialled, [(Role::Data, address(22))]);
    assert_eq!(world.disconnected, [(old, CloseReason::AddressChanged)]);
    assert_eq!(world.replicas(150), [2, 1]);
    world.pass(Duration::from_secs(600));
    assert!(
        world.dialled.iter().all(|(_, at)| *at != address(2)),
        "nobody dials the old address"
    );
}

#[test]
fn a_damaged_row_of_a_known_host_does_not_remove_it() {
    let mut world = World::started(2);
    world.peers = Some(peers(2, |_, row| row[DATACENTER] = None));
    refresh(&mut world);
    assert_eq!(ids(&world), [1, 2]);
    assert_eq!(
        world.routing.host(world.host(2)).map(|host| host.state),
        Some(HostState::Up)
    );
}

#[test]
fn a_reply_that_makes_no_sense_leaves_the_picture_as_it_was() {
    for garbage in [
        rows_frame(&[("nonsense", INT)], vec![vec![None]]),
        frame(crate::wire::Opcode::Result, vec![0, 0, 0, 2, 0xff, 0xff]),
        error_frame(0x1001, "overloaded"),
    ] {
        let mut world = World::started(3);
        world.peers = Some(garbage);
        refresh(&mut world);
        assert_eq!(ids(&world), [1, 2, 3]);
        assert!(
            world
                .notes
                .iter()
                .any(|note| matches!(note, Note::ReadFailed { .. }))
        );
        world.peers = None;
        world.nodes.push(node(4));
        world.pass(Duration::from_secs(2));
        assert_eq!(ids(&world), [1, 2, 3, 4], "it is read again");
    }
}

#[test]
fn a_node_that_never_answers_reads_is_left_for_another() {
    let mut world = World::started(2);
    let (_, first) = world.control().expect("a control connection");
    world.plane.refresh(world.now);
    world.drain();
    let mut reads = 0;
    while world.control().is_some_and(|(_, at)| at == first) {
        reads += 1;
        assert!(reads < 10, "it is given up");
        for submitted in world.submits.drain(..).collect::<Vec<_>>() {
            world.reply_with(submitted, Err(expired()));
        }
        if world.control().is_some() {
            let at = world.plane.poll_timeout().expect("another try");
            world.tick(at);
        }
    }
    world.run();
    let events = world
        .events
        .iter()
        .filter(|event| matches!(event, ClusterEvent::Resynced))
        .count();
    assert_eq!(events, 1);
    assert!(world.dialled.iter().any(|(role, _)| *role == Role::Control));
}

#[test]
fn with_another_partitioner_nothing_is_routed_by_token() {
    let mut world = World::new(2, config(&["192.0.2.1"]));
    let mut local = node_row(&node(1));
    local[8] = cell("org.apache.cassandra.dht.RandomPartitioner");
    world.local = Some(rows_frame(&node_columns("broadcast_address"), vec![local]));
    let huge = "170141183460469231731687303715884105727";
    world.peers = Some(peers(2, |_, row| {
        let mut tokens = vec![0, 0, 0, 1, 0, 0, 0, 39];
        tokens.extend(huge.as_bytes());
        row[TOKENS] = Some(tokens);
    }));
    world.run();
    assert_eq!(ids(&world), [1, 2]);
    assert!(world.routing.ring.tokens().is_empty());
    let table = world
        .routing
        .table_idx("ks", "t")
        .and_then(|idx| world.routing.table(idx));
    assert_eq!(
        table.map(|table| table.partitioner),
        Some(crate::routing::Partitioner::Other)
    );
}

#[test]
fn a_node_behind_a_nat_is_reached_where_it_answered_and_else_at_its_own_address() {
    let mut world = World::new(0, config(&["203.0.113.1:9999"]));
    let outside: SocketAddr = "203.0.113.1:9999".parse().expect("an address");
    let mut inside = node(1);
    inside.address = outside;
    world.nodes.push(inside);
    let mut local = node_row(&node(1));
    local[CLIENT] = ip_cell(address(1).ip());
    world.local = Some(rows_frame(&node_columns("broadcast_address"), vec![local]));
    world.run();
    assert!(world.ready.is_some());
    assert_eq!(
        world.dialled,
        [(Role::Control, outside), (Role::Data, outside)]
    );
    let own = SocketAddr::new(address(1).ip(), 9999);
    assert_eq!(
        world.routing.host(HostIdx(0)).map(|host| host.address),
        Some(own)
    );
    world.nodes[0].alive = false;
    world.forget();
    let conn = world.data(outside).expect("a connection");
    world.lose(conn);
    world.pass(Duration::from_secs(4));
    assert!(
        world.dialled.contains(&(Role::Data, own)),
        "{:?}",
        world.dialled
    );
}

#[test]
fn a_connection_that_leads_to_another_node_is_not_used() {
    let mut world = World::new(2, config(&["192.0.2.1"]));
    let dialled = world.connects.pop_front().expect("an attempt");
    world.accept(dialled);
    while let Some(submitted) = world.submits.pop_front() {
        world.answer(submitted);
    }
    let strays: Vec<_> = world.connects.drain(..).collect();
    assert_eq!(strays.len(), 2);
    for stray in strays {
        world.accept_as(stray, Some(uuid::Uuid::from_u128(99)));
    }
    assert!(world.ready.is_none());
    assert!(world.routing.pools.iter().all(|pool| pool.is_empty()));
    assert_eq!(world.disconnected.len(), 2);
}
