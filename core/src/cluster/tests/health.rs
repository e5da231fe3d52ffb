//! Connections that go out of use: drained, aged, idle, silent.

use std::collections::BTreeSet;
use std::time::Duration;

use super::frames::error_frame;
use super::shards::{full, on_shard, reached, sharded, step};
use super::world::*;
use crate::cluster::ConnId;
use crate::config::pool::PoolSize;
use crate::conn::{CloseReason, Role};
use crate::error::connect::ConnectionError;
use crate::routing::{HostState, Shard};
use crate::wire::{Request, ServerEvent};

fn draining(world: &mut World, conn: ConnId, error: ConnectionError) {
    world.plane.handle_draining(world.now, conn, error);
    world.drain();
}

fn ended(world: &mut World, conn: ConnId) {
    world.lose(conn);
    world.run();
}

#[test]
fn a_connection_that_drains_is_out_of_use_at_once_and_replaced() {
    let mut world = full(1, |_| ());
    world.pass(Duration::from_secs(60));
    let conn = on_shard(&world, 1);
    draining(&mut world, conn, ConnectionError::Orphans { count: 1_025 });
    assert_eq!(reached(&world), [0, 2, 3]);
    assert_eq!(world.source_ports[0].map(|port| port % 4), Some(1));
    world.run();
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    assert!(world.disconnected.is_empty(), "its requests go on");
    world.forget();
    ended(&mut world, conn);
    assert!(world.dialled.is_empty(), "it has been replaced already");
    assert_eq!(reached(&world), [0, 1, 2, 3]);
}

#[test]
fn the_only_connection_of_a_host_is_replaced_when_it_drains() {
    let mut world = World::started(1);
    world.pass(Duration::from_secs(60));
    let conn = world.data(address(1)).expect("a connection");
    draining(&mut world, conn, ConnectionError::Orphans { count: 1_025 });
    world.run();
    let pool = world.routing.pool(world.host(1)).expect("a pool");
    assert_eq!(pool.connections().len(), 1);
    ended(&mut world, conn);
    let host = world.routing.host(world.host(1)).expect("a host");
    assert_eq!(host.state, HostState::Up);
}

#[test]
fn a_change_of_the_keyspace_does_not_wait_for_a_connection_that_drains() {
    let mut world = full(1, |_| ());
    let conn = on_shard(&world, 1);
    let deadline = world.now + Duration::from_secs(5);
    let id = crate::cluster::CommandId(1);
    world
        .plane
        .use_keyspace(world.now, id, "ks".into(), deadline);
    world.drain();
    draining(&mut world, conn, ConnectionError::Orphans { count: 1_025 });
    world.submits.retain(|submitted| submitted.conn != conn);
    world.lose(conn);
    world.run();
    assert!(matches!(world.keyspaces_used[..], [(_, Ok(()))]));
}

#[test]
fn closing_cuts_connections_that_drain_still() {
    let mut world = full(1, |_| ());
    let conn = on_shard(&world, 1);
    draining(&mut world, conn, ConnectionError::Orphans { count: 1_025 });
    world.plane.close(world.now);
    world.drain();
    assert!(
        world
            .disconnected
            .contains(&(conn, CloseReason::SessionClosed))
    );
    assert!(world.plane.is_closed());
}

#[test]
fn connections_of_a_certain_age_are_replaced_before_they_end() {
    let hour = Duration::from_secs(3_600);
    let mut world = full(1, |config| config.pool.connection_age_max = Some(hour));
    world.busy = true;
    let first: BTreeSet<ConnId> = (0..4).map(|shard| on_shard(&world, shard)).collect();
    let start = world.now;
    let mut starts = BTreeSet::new();
    while world.drained.len() < 4 {
        let next = world.plane.poll_timeout().expect("an age");
        world.tick(next);
        assert_eq!(
            reached(&world),
            [0, 1, 2, 3],
            "each shard is served all the time"
        );
        if !world.connects.is_empty() {
            starts.insert(world.now - start);
        }
        world.run();
        assert_eq!(reached(&world), [0, 1, 2, 3]);
    }
    let drained: BTreeSet<ConnId> = world.drained.iter().map(|(conn, _)| *conn).collect();
    assert_eq!(drained, first);
    assert!(
        world
            .drained
            .iter()
            .all(|(_, why)| *why == CloseReason::Aged)
    );
    assert!(
        starts
            .iter()
            .all(|at| Duration::from_secs(3_060) <= *at && *at <= hour)
    );
    assert!(1 < starts.len(), "not all at once");
    assert!(world.disconnected.is_empty());
    let pool = world.routing.pool(world.host(1)).expect("a pool");
    assert_eq!(pool.connections().len(), 4);
}

#[test]
fn a_replacement_that_fails_leaves_the_aged_connection_in_use() {
    let hour = Duration::from_secs(3_600);
    let mut world = full(1, |config| config.pool.connection_age_max = Some(hour));
    world.nodes[0].alive = false;
    world.pass(hour + hour);
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    assert!(world.drained.is_empty());
    world.nodes[0].alive = true;
    world.pass(Duration::from_secs(120));
    assert_eq!(world.drained.len(), 4);
    assert_eq!(reached(&world), [0, 1, 2, 3]);
}

fn on_demand() -> World {
    let idle = Duration::from_secs(60);
    let mut world = sharded(1, Some(19_042), |config| {
        config.pool.size = PoolSize::OnDemand { idle };
    });
    world.nodes[0].sharding.next = [0, 2].into_iter().collect();
    world.run();
    assert_eq!(reached(&world), [2]);
    world.forget();
    world
}

fn demand(world: &mut World, shard: u16) {
    let host = world.host(1);
    world.plane.handle_demand(world.now, host, Shard(shard));
    world.drain();
}

#[test]
fn on_demand_a_shard_that_requests_want_gets_one_connection() {
    let mut world = on_demand();
    for _ in 0..10 {
        demand(&mut world, 1);
        demand(&mut world, 9);
    }
    assert_eq!(world.connects.len(), 1);
    assert_eq!(world.source_ports[0].map(|port| port % 4), Some(1));
    assert_eq!(
        world.connects[0].plan.idle_max,
        Some(Duration::from_secs(60))
    );
    world.run();
    assert_eq!(reached(&world), [1, 2]);
}

#[test]
fn on_demand_an_idle_connection_ends_and_comes_back_when_it_is_wanted() {
    let mut world = on_demand();
    demand(&mut world, 1);
    world.run();
    let conn = on_shard(&world, 1);
    let idle = || ConnectionError::Closed(CloseReason::Idle);
    draining(&mut world, conn, idle());
    ended(&mut world, conn);
    assert_eq!(reached(&world), [2]);
    world.pass(Duration::from_secs(600));
    assert_eq!(reached(&world), [2]);
    demand(&mut world, 1);
    world.run();
    assert_eq!(reached(&world), [1, 2]);
}

#[test]
fn on_demand_a_host_keeps_one_connection() {
    let mut world = on_demand();
    demand(&mut world, 1);
    world.run();
    world.pass(Duration::from_secs(30));
    let first = on_shard(&world, 2);
    world.lose(first);
    world.run();
    let idle = || ConnectionError::Closed(CloseReason::Idle);
    for shard in reached(&world) {
        let conn = on_shard(&world, shard);
        draining(&mut world, conn, idle());
        ended(&mut world, conn);
    }
    assert_eq!(reached(&world).len(), 1);
    let last = world.routing.pool(world.host(1)).expect("a pool");
    assert_eq!(last.connections().len(), 1);
}

#[test]
fn other_pools_ignore_what_requests_missed() {
    let mut world = full(1, |_| ());
    world.pass(Duration::from_secs(60));
    let conn = on_shard(&world, 2);
    world.lose(conn);
    (0..10).for_each(|_| demand(&mut world, 2));
    assert_eq!(world.dialled.len(), 1, "the attempt that comes anyway");
}

#[test]
fn a_down_event_asks_every_connection_of_that_host_and_of_no_other() {
    let mut world = full(2, |_| ());
    for _ in 0..3 {
        world.event(ServerEvent::Status {
            up: false,
            address: address(1),
        });
    }
    let asked: BTreeSet<ConnId> = world.submits.iter().map(|probe| probe.conn).collect();
    let here: BTreeSet<ConnId> = (0..4).map(|shard| on_shard(&world, shard)).collect();
    assert_eq!(asked, here);
    assert_eq!(world.submits.len(), 4, "each once");
    assert!(
        world
            .submits
            .iter()
            .all(|own| own.request == Request::Options)
    );
    let silent = world.submits.pop_front().expect("a probe");
    while let Some(probe) = world.submits.pop_front() {
        world.reply_with(probe, Ok(error_frame(0, "even an error is a sign of life")));
    }
    assert!(world.disconnected.is_empty());
    world.reply_with(silent.clone(), Err(expired()));
    assert_eq!(world.disconnected, [(silent.conn, CloseReason::TimedOut)]);
    let host = world.routing.host(world.host(1)).expect("a host");
    assert_eq!(host.state, HostState::Up, "three connections are left");
    world.pass(Duration::from_secs(2));
    assert_eq!(reached(&world), [0, 1, 2, 3]);
}

#[test]
fn a_host_that_answers_no_probe_leaves_the_plans() {
    let mut world = full(2, |_| ());
    world.event(ServerEvent::Status {
        up: false,
        address: address(1),
    });
    world.nodes[0].alive = false;
    while let Some(probe) = world.submits.pop_front() {
        world.reply_with(probe, Err(expired()));
    }
    let host = world.routing.host(world.host(1)).expect("a host");
    assert_eq!(host.state, HostState::Down);
    assert!(world.disconnected.len() == 4);
    world.nodes[0].alive = true;
    world.pass(Duration::from_secs(60));
    assert_eq!(reached(&world), [0, 1, 2, 3]);
}

#[test]
fn a_connection_that_fell_silent_makes_the_others_be_asked() {
    let mut world = full(1, |_| ());
    world.pass(Duration::from_secs(60));
    let conn = on_shard(&world, 0);
    let silent = ConnectionError::KeepaliveTimeout(Duration::from_secs(10));
    world.open.retain(|(own, _, _)| *own != conn);
    world.landed.retain(|own| own.conn != conn);
    world.plane.handle_closed(world.now, conn, silent);
    world.drain();
    assert_eq!(world.submits.len(), 3);
    world.run();
    assert_eq!(reached(&world), [0, 1, 2, 3]);
}

#[test]
fn an_up_event_ends_the_pause_of_a_pool_that_is_not_full() {
    let mut world = full(1, |_| ());
    world.pass(Duration::from_secs(60));
    world.nodes[0].alive = false;
    let conn = on_shard(&world, 2);
    world.lose(conn);
    world.run();
    assert_eq!(reached(&world), [0, 1, 3]);
    world.nodes[0].alive = true;
    world.forget();
    for _ in 0..10 {
        world.event(ServerEvent::Status {
            up: true,
            address: address(1),
        });
    }
    assert_eq!(world.connects.len(), 1);
    step(&mut world);
    assert_eq!(reached(&world), [0, 1, 2, 3]);
}

#[test]
fn a_host_is_told_up_once_and_down_once_however_many_connections_it_has() {
    let mut world = full(1, |_| ());
    world.nodes[0].alive = false;
    for shard in 0..4 {
        let conn = on_shard(&world, shard);
        world.lose(conn);
    }
    let control = world.control().map(|(conn, _)| conn);
    control.into_iter().for_each(|conn| world.lose(conn));
    world.pass(Duration::from_secs(30));
    world.nodes[0].alive = true;
    world.pass(Duration::from_secs(120));
    let health: Vec<&crate::notify::ClusterEvent> = world
        .events
        .iter()
        .filter(|event| {
            use crate::notify::ClusterEvent::{HostDown, HostUp};
            matches!(event, HostUp { .. } | HostDown { .. })
        })
        .collect();
    assert_eq!(health.len(), 2, "{health:?}");
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    let roles = |role| world.open.iter().filter(|(_, _, own)| *own == role).count();
    assert_eq!((roles(Role::Control), roles(Role::Data)), (1, 4));
}
