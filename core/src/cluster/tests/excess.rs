//! Connections that land on a shard that has enough.

use std::time::Duration;

use super::shards::{before_the_first, data_open, on_shard, reached, sharded, step};
use crate::conn::CloseReason;
use crate::notify::Note;

const PORT: u16 = 19_042;

#[test]
fn a_second_connection_on_a_shard_is_kept_aside_and_never_used() {
    let mut world = before_the_first(sharded(1, None, |_| ()), &[0, 1, 1, 0]);
    (0..4).for_each(|_| step(&mut world));
    assert_eq!(reached(&world), [0, 1]);
    let pool = world.routing.pool(world.host(1)).expect("a pool");
    assert_eq!(pool.connections().len(), 2);
    let stats = world.routing.shard_aware_stats();
    assert_eq!((stats[0].shards, stats[0].connected), (4, 2));
    assert_eq!(data_open(&world, 1), 4);
    assert!(world.disconnected.is_empty());
}

#[test]
fn connections_in_excess_are_closed_together_once_every_shard_has_one() {
    let mut world = before_the_first(sharded(1, None, |_| ()), &[0, 0, 0, 1, 0, 2, 0, 3]);
    while reached(&world).len() < 4 {
        assert!(world.disconnected.is_empty(), "not one by one");
        step(&mut world);
    }
    assert_eq!(world.disconnected.len(), 4);
    world.run();
    assert_eq!(data_open(&world, 1), 4);
    assert!(world.notes.is_empty());
}

#[test]
fn too_many_connections_in_excess_are_closed_together_and_the_search_goes_on() {
    let mut next = vec![0, 1, 2];
    next.extend([0; 9]);
    next.push(3);
    let mut world = before_the_first(sharded(1, None, |_| ()), &next);
    (0..11).for_each(|_| step(&mut world));
    assert_eq!(data_open(&world, 1), 11);
    assert!(world.disconnected.is_empty());
    step(&mut world);
    assert_eq!(world.disconnected.len(), 9, "the ninth one included");
    world.run();
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    assert_eq!(data_open(&world, 1), 4);
}

#[test]
fn a_server_that_hands_out_one_shard_alone_is_not_asked_in_a_loop() {
    let mut world = before_the_first(sharded(1, None, |_| ()), &[]);
    world.nodes[0].sharding.next = std::iter::repeat_n(0, 100_000).collect();
    world.pass(Duration::from_secs(3_600));
    assert!(world.dialled.len() < 1_000, "{}", world.dialled.len());
    let told = world
        .notes
        .iter()
        .filter(|note| matches!(note, Note::ShardsNotReached { missing: 3, .. }));
    assert_eq!(told.count(), 1);
    assert_eq!(reached(&world), [0]);
    world.nodes[0].sharding.next.clear();
    world.pass(Duration::from_secs(120));
    assert_eq!(reached(&world), [0, 1, 2, 3]);
}

#[test]
fn a_connection_in_excess_is_not_promoted_when_its_shard_loses_the_one_in_use() {
    let mut world = before_the_first(sharded(1, None, |_| ()), &[1, 1, 2]);
    (0..3).for_each(|_| step(&mut world));
    assert_eq!(reached(&world), [1, 2]);
    let used = on_shard(&world, 1);
    world.tick(world.now + Duration::from_secs(11));
    world.forget();
    world.lose(used);
    assert_eq!(reached(&world), [2]);
    assert!(
        data_open(&world, 1) == 2,
        "the one in excess stays as it is"
    );
    assert_eq!(world.dialled.len(), 1, "another one is opened");
}

#[test]
fn an_attempt_that_ends_late_at_a_full_pool_is_closed_at_once() {
    let mut world = before_the_first(sharded(1, Some(PORT), |_| ()), &[2]);
    world.nodes[0].sharding.nat = 1;
    step(&mut world);
    let at = world
        .connects
        .iter()
        .position(|dialled| dialled.source_port.map(|port| port % 4) == Some(1))
        .expect("an attempt for the second shard");
    let late = world.connects.remove(at).expect("found");
    world.run();
    world.pass(Duration::from_secs(5));
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    let conn = late.conn;
    world.forget();
    world.accept(late);
    assert_eq!(world.disconnected, [(conn, CloseReason::Surplus)]);
    assert!(world.dialled.is_empty());
}
