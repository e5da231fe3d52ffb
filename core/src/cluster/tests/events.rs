//! Events, floods of them, and the loss of the control connection.

use std::time::Duration;

use super::world::*;
use crate::cluster::ControlOutput;
use crate::config::session::RefreshConfig;
use crate::conn::Role;
use crate::notify::{ClusterEvent, Note};
use crate::wire::{SchemaChange, SchemaChangeKind, SchemaTarget, ServerEvent};

fn schema(change: SchemaChangeKind, keyspace: &str, target: SchemaTarget) -> ServerEvent {
    ServerEvent::Schema(SchemaChange {
        change,
        target,
        keyspace: keyspace.into(),
    })
}

fn altered(keyspace: &str) -> ServerEvent {
    schema(SchemaChangeKind::Updated, keyspace, SchemaTarget::Keyspace)
}

#[test]
fn a_changed_keyspace_gets_its_new_replicas_and_nothing_else_is_read() {
    let mut world = World::started(3);
    assert_eq!(world.replicas(150), [2, 3]);
    world.keyspaces[0].1[1].1 = "3";
    world.event(altered("ks"));
    world.run();
    assert_eq!(world.replicas(150), [2, 3, 1]);
    assert!(
        world
            .asked
            .iter()
            .all(|text| text.contains("WHERE keyspace_name='ks'")),
        "{:?}",
        world.asked
    );
    assert_eq!(world.asked.len(), 4);
    assert!(
        matches!(&world.events[..], [ClusterEvent::SchemaChanged(change)] if change.keyspace == "ks")
    );
}

#[test]
fn drops_out_of_order_and_of_unknown_things_end_in_the_true_picture() {
    let mut settings = config(&["192.0.2.1"]);
    settings.refresh = RefreshConfig::default();
    let mut world = World::new(2, settings);
    world.run();
    world.forget();
    world.keyspaces.push((
        "MyKs",
        vec![("class", "SimpleStrategy"), ("replication_factor", "1")],
    ));
    world.tables = vec![("MyKs", "t")];
    world.keyspaces.remove(0);
    let table = |name: &str| SchemaTarget::Table { name: name.into() };
    world.event(schema(SchemaChangeKind::Dropped, "ks", table("t")));
    world.event(schema(
        SchemaChangeKind::Dropped,
        "ks",
        SchemaTarget::Keyspace,
    ));
    world.event(schema(SchemaChangeKind::Updated, "ks", table("t2")));
    world.event(schema(SchemaChangeKind::Created, "MyKs", table("t")));
    world.pass(Duration::from_secs(1));
    assert!(world.replicas(150).is_empty());
    let table = world.routing.table_idx("MyKs", "t").expect("the new table");
    assert_eq!(
        world
            .routing
            .replicas(table, crate::routing::Token(150))
            .len(),
        1
    );
    assert_eq!(world.routing.table_idx("myks", "t"), None);
    assert_eq!(
        world.asked.len(),
        8,
        "each keyspace is read once: {:?}",
        world.asked
    );
}

#[test]
fn changes_of_types_and_functions_read_nothing_that_routing_does_not_need() {
    let mut world = World::started(1);
    world.event(schema(
        SchemaChangeKind::Created,
        "ks",
        SchemaTarget::Type { name: "ty".into() },
    ));
    world.run();
    assert!(world.asked.is_empty());
    assert_eq!(world.events.len(), 1);
}

#[test]
fn a_flood_of_events_costs_one_read_and_no_memory() {
    let mut world = World::started(2);
    world.plane.refresh(world.now);
    world.drain();
    let held = world.submits.len();
    for round in 0..1_000 {
        world.event(altered(&format!("ks{}", round % 50)));
        world.event(ServerEvent::Status {
            up: true,
            address: address(200),
        });
        world.event(ServerEvent::Topology {
            change: crate::wire::TopologyChange::NewNode,
            address: address(201),
        });
    }
    assert_eq!(
        world.submits.len(),
        held,
        "nothing more is asked while answers are due"
    );
    world.run();
    assert_eq!(
        world
            .asked
            .iter()
            .filter(|text| text.contains("system.peers"))
            .count(),
        2
    );
    assert_eq!(
        world
            .asked
            .iter()
            .filter(|text| text.contains("system_schema.keyspaces"))
            .count(),
        2
    );
}

#[test]
fn an_owner_that_does_not_drain_loses_events_and_is_told_so() {
    let mut world = World::started(1);
    let (conn, _) = world.control().expect("a control connection");
    for _ in 0..100_000 {
        world.plane.handle_event(world.now, conn, altered("ks"));
    }
    let mut queued = Vec::new();
    while let Some(output) = world.plane.poll_output() {
        queued.push(output);
    }
    assert!(queued.len() < 2_000, "{}", queued.len());
    for output in queued {
        if let ControlOutput::Submit {
            conn,
            query,
            request,
            deadline,
        } = output
        {
            world.submits.push_back(Submitted {
                conn,
                query,
                request,
                deadline,
            });
        }
    }
    world.run();
    assert!(world.events.contains(&ClusterEvent::Resynced));
}

#[test]
fn events_during_the_very_first_read_are_not_lost() {
    let mut world = World::new(2, config(&["192.0.2.1"]));
    let dialled = world.connects.pop_front().expect("an attempt");
    world.accept(dialled);
    let held: Vec<_> = world.submits.drain(..).collect();
    let answers: Vec<_> = held
        .iter()
        .map(|submitted| world.reply(submitted))
        .collect();
    for _ in 0..1_000 {
        world.event(altered("ks"));
    }
    world.nodes.push(node(3));
    world.event(ServerEvent::Status {
        up: true,
        address: address(3),
    });
    for (submitted, answer) in held.into_iter().zip(answers) {
        world.reply_with(submitted, Ok(answer));
    }
    world.run();
    assert!(world.ready.is_some());
    assert_eq!(world.routing.hosts.len(), 3);
}

#[test]
fn reads_wait_a_random_part_of_the_configured_delay() {
    let mut settings = config(&["192.0.2.1"]);
    settings.refresh = RefreshConfig::default();
    let mut world = World::new(2, settings);
    world.run();
    world.forget();
    world.nodes.push(node(3));
    let joined = ServerEvent::Topology {
        change: crate::wire::TopologyChange::NewNode,
        address: address(3),
    };
    world.event(joined);
    assert!(world.submits.is_empty());
    world.pass(Duration::from_secs(1));
    assert_eq!(world.routing.hosts.len(), 3);
    // A node that left is taken out without delay.
    world.nodes[2].member = false;
    let left = ServerEvent::Topology {
        change: crate::wire::TopologyChange::RemovedNode,
        address: address(3),
    };
    world.event(left);
    assert_eq!(world.submits.len(), 2);
}

#[test]
fn a_lost_control_connection_moves_to_another_node_and_reads_everything() {
    let mut world = World::started(3);
    let (control, at) = world.control().expect("a control connection");
    world.nodes.push(node(4));
    world.keyspaces[0].1[1].1 = "3";
    world
        .nodes
        .iter_mut()
        .filter(|node| node.address == at)
        .for_each(|node| node.alive = false);
    world.lose(control);
    world.run();
    let (_, next) = world.control().expect("another control connection");
    assert_ne!(next, at);
    assert_eq!(world.routing.hosts.len(), 4);
    assert_eq!(world.replicas(150), [2, 3, 4]);
    assert!(
        world
            .notes
            .iter()
            .any(|note| matches!(note, Note::ConnectionLost { .. }))
    );
    assert_eq!(world.events.last(), Some(&ClusterEvent::Resynced));
    let plans = world
        .dialled
        .iter()
        .filter(|(role, _)| *role == Role::Control)
        .count();
    assert!(1 <= plans);
}

#[test]
fn the_only_node_of_a_cluster_is_tried_again_after_a_lost_control_connection() {
    let mut world = World::started(1);
    let (control, _) = world.control().expect("a control connection");
    world.plane.refresh(world.now);
    world.drain();
    world.lose(control);
    world.run();
    assert_eq!(world.control().map(|(_, at)| at), Some(address(1)));
    assert!(world.fatal.is_none());
}

#[test]
fn when_every_node_is_gone_names_are_resolved_again_and_the_session_lives_on() {
    let mut world = World::new(1, config(&["db.example"]));
    let (id, _) = world.resolves.pop_front().expect("a name");
    world
        .plane
        .handle_resolved(world.now, id, Ok(vec![address(1)]));
    world.run();
    world.nodes[0].alive = false;
    for (conn, _, _) in world.open.clone() {
        world.lose(conn);
    }
    let (id, _) = world.resolves.pop_front().expect("the name again");
    world
        .plane
        .handle_resolved(world.now, id, Err(std::io::ErrorKind::TimedOut.into()));
    world.run();
    assert!(world.control().is_none());
    // The whole cluster moved; the hosts are the same.
    world.nodes[0].alive = true;
    world.nodes[0].address = address(101);
    let at = loop {
        let at = world.plane.poll_timeout().expect("another round");
        world.tick(at);
        if let Some((id, _)) = world.resolves.pop_front() {
            world
                .plane
                .handle_resolved(world.now, id, Ok(vec![address(101)]));
            break world.now;
        }
        world.run();
    };
    world.run();
    assert_eq!(world.control().map(|(_, at)| at), Some(address(101)));
    assert_eq!(world.routing.hosts.len(), 1);
    assert_eq!(world.routing.hosts[0].address, address(101));
    assert!(world.data(address(101)).is_some());
    assert!(world.fatal.is_none());
    assert!(at <= world.now);
}

#[test]
fn rounds_that_fail_grow_apart_and_never_end_the_session() {
    let mut world = World::started(2);
    world.nodes.iter_mut().for_each(|node| node.alive = false);
    for (conn, _, _) in world.open.clone() {
        world.lose(conn);
    }
    world.pass(Duration::from_secs(3_600));
    assert!(world.fatal.is_none());
    let rounds = world
        .notes
        .iter()
        .filter(|note| matches!(note, Note::NoControlConnection { .. }))
        .count();
    assert!((300..=600).contains(&rounds), "{rounds}");
    world.nodes.iter_mut().for_each(|node| node.alive = true);
    world.pass(Duration::from_secs(60));
    assert!(world.control().is_some());
    assert!(world.routing.pools.iter().all(|pool| !pool.is_empty()));
}

#[test]
fn a_data_connection_that_comes_back_ends_the_wait_for_the_next_round() {
    let mut world = World::started(1);
    world.nodes[0].alive = false;
    for (conn, _, _) in world.open.clone() {
        world.lose(conn);
    }
    world.pass(Duration::from_secs(120));
    world.nodes[0].alive = true;
    loop {
        let at = world.plane.poll_timeout().expect("another attempt");
        world.tick(at);
        let connects: Vec<_> = world.connects.drain(..).collect();
        let mut data = false;
        for dialled in connects {
            if dialled.plan.role == Role::Data {
                data = true;
                world.accept(dialled);
            } else {
                world.refuse(dialled, crate::error::connect::ConnectCause::Closed);
            }
        }
        if data {
            break;
        }
    }
    let seen = world.now;
    world.run();
    world.pass(Duration::from_millis(1));
    assert!(world.control().is_some());
    assert!(world.now - seen <= Duration::from_millis(1));
}

#[test]
fn events_of_other_connections_are_ignored() {
    let mut world = World::started(2);
    let data = world.data(address(2)).expect("a connection");
    world.plane.handle_event(world.now, data, altered("ks"));
    world.drain();
    assert!(world.submits.is_empty() && world.events.is_empty());
}

#[test]
fn an_unknown_event_is_noted_and_changes_nothing() {
    let mut world = World::started(1);
    world.event(ServerEvent::Unknown {
        kind: "LUNAR_ECLIPSE".into(),
    });
    assert!(
        matches!(&world.notes[..], [Note::EventUnknown { kind, .. }] if kind == "LUNAR_ECLIPSE")
    );
    assert!(world.submits.is_empty());
}

#[test]
fn replies_nobody_waits_for_change_nothing() {
    let mut world = World::started(1);
    world.plane.refresh(world.now);
    world.drain();
    let submitted = world.submits.front().cloned().expect("a read");
    let answer = world.reply(&submitted);
    world.run();
    let generation = world.routing.generation;
    world
        .plane
        .handle_reply(world.now, submitted.conn, submitted.query, Ok(answer));
    world.drain();
    assert_eq!(world.routing.generation, generation);
}

#[test]
fn the_same_seed_and_inputs_give_the_same_conversation() {
    let conversation = || {
        let mut world = World::seeded(5, config(&["192.0.2.1", "192.0.2.2", "192.0.2.3"]), 42);
        world.run();
        let start = world.now;
        for (conn, _, _) in world.open.clone() {
            world.lose(conn);
        }
        world.nodes[2].alive = false;
        world.pass(Duration::from_secs(300));
        let next = world.plane.poll_timeout().map(|at| at - start);
        (world.dialled, world.asked, next)
    };
    assert_eq!(conversation(), conversation());
}

#[test]
fn no_reply_made_of_garbage_makes_anything_panic() {
    let mut random = crate::seed::Seed::from_u64(9).random();
    for round in 0..2_000 {
        let mut world = if round % 2 == 0 {
            World::new(2, config(&["192.0.2.1"]))
        } else {
            World::started(2)
        };
        world.plane.refresh(world.now);
        world.drain();
        for _ in 0..12 {
            if let Some(dialled) = world.connects.pop_front() {
                world.connect(dialled);
            }
            let Some(submitted) = world.submits.pop_front() else {
                continue;
            };
            let mut reply = world.reply(&submitted);
            let mut body = reply.body.to_vec();
            match random.index(3) {
                0 => body.truncate(random.index(body.len() + 1)),
                1 => {
                    let at = random.index(body.len());
                    body[at] = u8::try_from(random.below(256)).expect("a byte");
                }
                _ => {
                    let at = random.index(body.len());
                    body[at..].iter_mut().for_each(|byte| *byte = 0xff);
                }
            }
            reply.header.length = u32::try_from(body.len()).expect("short");
            reply.body = body.into();
            world.reply_with(submitted, Ok(reply));
        }
    }
}
