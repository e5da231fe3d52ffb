//! Nodes that come back with other shards.

use std::collections::BTreeSet;
use std::time::Duration;

use super::shards::{full, on_shard, reached, step};
use super::world::*;
use crate::cluster::ConnId;
use crate::conn::{CloseReason, Role};
use crate::notify::Note;
use crate::routing::{Shard, Token};

/// A full pool of eight shards.
fn eight() -> World {
    let mut world = full(1, |_| ());
    world.nodes[0].sharding.shards = 8;
    world.pass(Duration::from_secs(60));
    let conn = on_shard(&world, 0);
    world.lose(conn);
    world.run();
    assert_eq!(reached(&world), [0, 1, 2, 3, 4, 5, 6, 7]);
    world.pass(Duration::from_secs(60));
    world.forget();
    world.drained.clear();
    world
}

fn lose_on(world: &mut World, shard: u16) {
    let conn = on_shard(world, shard);
    world.forget();
    world.lose(conn);
}

fn data_open(world: &World) -> usize {
    let data = |(_, _, role): &&(ConnId, _, Role)| *role == Role::Data;
    world.open.iter().filter(data).count()
}

#[test]
fn more_shards_keep_the_connections_and_open_the_missing_ones() {
    let mut world = full(1, |_| ());
    world.pass(Duration::from_secs(60));
    world.nodes[0].sharding.shards = 8;
    let kept = [0, 1, 3].map(|shard| on_shard(&world, shard));
    lose_on(&mut world, 2);
    step(&mut world);
    let six_or_two = reached(&world);
    assert!(six_or_two == [0, 1, 2, 3] || six_or_two == [0, 1, 3, 6]);
    assert_eq!(world.connects.len(), 4);
    assert!(world.disconnected.is_empty() && world.drained.is_empty());
    world.run();
    assert_eq!(reached(&world), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!([0, 1, 3].map(|shard| on_shard(&world, shard)), kept);
    let told: Vec<_> = world.notes.iter().collect();
    assert!(matches!(told[..], [_, Note::Resharded { .. }]), "{told:?}");
}

#[test]
fn a_connection_on_another_shard_because_of_other_shards_is_no_reason_to_leave_source_ports_alone()
{
    let world = eight();
    let mut world = world;
    lose_on(&mut world, 5);
    assert!(world.source_ports[0].is_some());
    let told = |note: &Note| matches!(note, Note::SourcePortIgnored { .. });
    assert!(!world.notes.iter().any(told));
}

#[test]
fn fewer_shards_let_the_surplus_end_after_its_requests() {
    let mut world = eight();
    world.busy = true;
    world.nodes[0].sharding.shards = 4;
    let kept = [0, 1, 2].map(|shard| on_shard(&world, shard));
    let surplus = [4, 5, 6, 7].map(|shard| on_shard(&world, shard));
    lose_on(&mut world, 3);
    world.run();
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    assert_eq!([0, 1, 2].map(|shard| on_shard(&world, shard)), kept);
    let drained: BTreeSet<ConnId> = world.drained.iter().map(|(conn, _)| *conn).collect();
    assert_eq!(drained, surplus.into_iter().collect());
    assert!(
        world
            .drained
            .iter()
            .all(|(_, why)| *why == CloseReason::Resharded)
    );
    assert!(
        world.disconnected.is_empty(),
        "nothing in flight is cut off"
    );
    assert_eq!(data_open(&world), 8);
    world.forget();
    surplus
        .into_iter()
        .for_each(|conn| world.finish_drain(conn));
    world.run();
    assert_eq!(data_open(&world), 4);
    assert!(world.dialled.is_empty());
}

#[test]
fn a_shard_that_is_gone_is_served_by_the_others_and_not_sought() {
    let mut world = eight();
    world.nodes[0].sharding.shards = 4;
    lose_on(&mut world, 3);
    world.run();
    let pool = world.routing.pool(world.host(1)).expect("a pool");
    assert!(pool.on_shard(Shard(6)).is_empty());
    assert_eq!(pool.connections().len(), 4);
    world.forget();
    let host = world.host(1);
    world.plane.handle_demand(world.now, host, Shard(6));
    world.run();
    assert!(world.dialled.is_empty());
}

#[test]
fn other_ignored_bits_alone_change_the_arithmetic_and_no_connection() {
    let mut world = full(1, |_| ());
    world.pass(Duration::from_secs(60));
    let token = Token(1 << 61);
    let host = world.host(1);
    let before = world.routing.shard_of(host, token);
    world.nodes[0].sharding.ignore_msb = 0;
    let kept = [0, 1, 3].map(|shard| on_shard(&world, shard));
    lose_on(&mut world, 2);
    world.run();
    assert_ne!(world.routing.shard_of(host, token), before);
    assert_eq!(world.routing.shard_of(host, token), Some(Shard(2)));
    assert_eq!([0, 1, 3].map(|shard| on_shard(&world, shard)), kept);
    assert!(world.disconnected.is_empty() && world.drained.is_empty());
    assert_eq!(world.dialled.len(), 1);
}

#[test]
fn an_answer_from_before_the_change_does_not_bring_the_old_shards_back() {
    let mut world = full(1, |_| ());
    world.pass(Duration::from_secs(60));
    let lost = [1, 2].map(|shard| on_shard(&world, shard));
    lost.into_iter().for_each(|conn| world.lose(conn));
    assert_eq!(world.connects.len(), 2);
    world.nodes[0].sharding.shards = 8;
    step(&mut world);
    let shards = |world: &World| {
        let stats = world.routing.shard_aware_stats();
        stats[0].shards
    };
    assert_eq!(shards(&world), 8);
    world.forget();
    world.nodes[0].sharding.shards = 4;
    step(&mut world);
    assert_eq!(shards(&world), 8);
    assert!(matches!(
        world.disconnected[..],
        [(_, CloseReason::Resharded)]
    ));
    world.nodes[0].sharding.shards = 8;
    world.run();
    assert_eq!(reached(&world), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_node_that_stops_telling_of_shards_gets_one_connection_and_shards_again_when_it_tells() {
    let mut world = full(1, |_| ());
    world.pass(Duration::from_secs(60));
    world.nodes[0].sharding.shards = 0;
    lose_on(&mut world, 2);
    world.run();
    assert_eq!(data_open(&world), 1);
    assert!(!world.routing.is_shard_aware());
    world.pass(Duration::from_secs(60));
    world.nodes[0].sharding.shards = 4;
    let conn = world.data(address(1)).expect("a connection");
    world.lose(conn);
    world.run();
    assert_eq!(reached(&world), [0, 1, 2, 3]);
}

#[test]
fn a_node_that_changes_its_shards_all_the_time_is_not_dialled_in_a_loop() {
    let mut world = full(1, |_| ());
    world.pass(Duration::from_secs(60));
    world.forget();
    let conn = on_shard(&world, 2);
    world.lose(conn);
    let end = world.now + Duration::from_secs(600);
    let mut turn = 0;
    while world.now < end {
        while let Some(dialled) = world.connects.pop_front() {
            turn += 1;
            world.nodes[0].sharding.shards = [4, 8][turn % 2];
            world.connect(dialled);
            assert!(turn < 2_000, "too many attempts");
        }
        let next = world.plane.poll_timeout().unwrap_or(end).min(end);
        world.tick(next);
    }
    world.nodes[0].sharding.shards = 4;
    world.pass(Duration::from_secs(120));
    assert_eq!(reached(&world), [0, 1, 2, 3]);
}
