//! Filling pools shard by shard: source ports, connections in excess, translated addresses.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU16;
use std::time::Duration;

use super::world::*;
use crate::cluster::ConnId;
use crate::config::pool::{PoolSize, ShardAwarePort, SourcePorts};
use crate::config::session::{ReadinessRule, SessionConfig};
use crate::conn::{CloseReason, Role};
use crate::error::connect::{ConnectCause, ConnectError, ConnectPhase};
use crate::notify::Note;
use crate::routing::Shard;

const PORT: u16 = 19_042;
const TLS_PORT: u16 = 19_142;

/// A world of nodes with four shards, of which the control connection gets the first one.
pub(super) fn sharded(
    nodes: u8,
    port: Option<u16>,
    change: impl FnOnce(&mut SessionConfig),
) -> World {
    let mut settings = config(&["192.0.2.1"]);
    change(&mut settings);
    let mut world = World::new(nodes, settings);
    for node in &mut world.nodes {
        node.sharding.shards = 4;
        node.sharding.port = port;
    }
    world
}

/// A ready world in which every pool is full.
pub(super) fn full(nodes: u8, change: impl FnOnce(&mut SessionConfig)) -> World {
    let mut world = sharded(nodes, Some(PORT), change);
    world.run();
    assert!(world.ready.is_some(), "{:?} {:?}", world.fatal, world.notes);
    let stats = world.routing.shard_aware_stats();
    assert!(stats.iter().all(|own| own.connected == 4), "{stats:?}");
    world.forget();
    world
}

/// A world of one node whose pool is empty, with its first connection for requests to be answered next.
pub(super) fn before_the_first(mut world: World, next: &[u16]) -> World {
    world.nodes[0].sharding.next = [0].into_iter().chain(next.iter().copied()).collect();
    let dialled = world.connects.pop_front().expect("the control connection");
    world.accept(dialled);
    while let Some(submitted) = world.submits.pop_front() {
        world.answer(submitted);
    }
    assert_eq!(world.connects.len(), 1, "the first connection comes alone");
    world.forget();
    world
}

pub(super) fn step(world: &mut World) {
    let dialled = world.connects.pop_front().expect("an attempt");
    world.connect(dialled);
}

/// The shards that requests can reach on their own, of the first node.
pub(super) fn reached(world: &World) -> Vec<u16> {
    let pool = world.routing.pool(world.host(1)).expect("a pool");
    let shards = pool.sharder().map_or(0, |sharder| sharder.shards.get());
    (0..shards)
        .filter(|shard| !pool.on_shard(Shard(*shard)).is_empty())
        .collect()
}

/// The connection for requests on a shard of the first node.
pub(super) fn on_shard(world: &World, shard: u16) -> ConnId {
    let found = world
        .landed
        .iter()
        .find(|own| own.role == Role::Data && own.node == address(1) && own.shard == shard);
    found.expect("a connection").conn
}

pub(super) fn data_open(world: &World, last: u8) -> usize {
    let data = |(_, at, role): &&(ConnId, _, Role)| *role == Role::Data && *at == address(last);
    world.open.iter().filter(data).count()
}

fn to_port(world: &World, port: u16) -> usize {
    let dialled = world.dialled.iter();
    dialled.filter(|(_, at)| at.port() == port).count()
}

fn source_port_notes(world: &World) -> usize {
    let is_it = |note: &&Note| matches!(note, Note::SourcePortIgnored { .. });
    world.notes.iter().filter(is_it).count()
}

#[test]
fn the_first_connection_comes_alone_and_the_missing_shards_together() {
    let mut world = before_the_first(sharded(1, Some(PORT), |_| ()), &[2]);
    step(&mut world);
    let mut residues: Vec<u16> = world
        .source_ports
        .iter()
        .map(|port| port.expect("a source port") % 4)
        .collect();
    residues.sort_unstable();
    assert_eq!(residues, [0, 1, 3]);
    assert_eq!(to_port(&world, PORT), 3);
    assert_eq!(world.connects.len(), 3, "at the same time");
    world.run();
    let stats = world.routing.shard_aware_stats();
    assert_eq!((stats[0].shards, stats[0].connected), (4, 4));
    assert!(world.routing.is_shard_aware());
    world.forget();
    world.pass(Duration::from_secs(60));
    assert!(world.dialled.is_empty() && world.disconnected.is_empty());
}

#[test]
fn a_host_that_cannot_be_reached_gets_one_attempt_at_a_time() {
    let mut world = full(2, |_| ());
    world.nodes[1].alive = false;
    let lost: Vec<ConnId> = world
        .landed
        .iter()
        .filter(|own| own.node == address(2))
        .map(|own| own.conn)
        .collect();
    lost.into_iter().for_each(|conn| world.lose(conn));
    world.run();
    world.forget();
    for _ in 0..5 {
        let next = world.plane.poll_timeout().expect("another attempt");
        world.tick(next);
        assert_eq!(world.connects.len(), 1);
        world.run();
    }
    world.nodes[1].alive = true;
    world.pass(Duration::from_secs(60));
    assert_eq!(data_open(&world, 2), 4);
}

#[test]
fn a_refused_shard_aware_port_is_followed_at_once_by_the_regular_one() {
    let mut world = sharded(1, Some(PORT), |_| ());
    world.nodes[0].sharding.door = Door::Refused;
    world.run();
    assert_eq!(reached(&world), [0, 1, 2, 3], "without a pause");
    assert_eq!(to_port(&world, PORT), 3);
    assert!(world.notes.is_empty(), "{:?}", world.notes);
}

#[test]
fn a_shard_aware_port_that_never_answers_is_waited_for_once() {
    let mut world = sharded(1, Some(PORT), |config| config.pool.opening_per_host_max = 1);
    world.nodes[0].sharding.door = Door::Silent;
    world.pass(Duration::from_secs(10));
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    assert_eq!(to_port(&world, PORT), 1);
}

#[test]
fn a_busy_source_port_is_followed_by_the_next_one_at_once() {
    let mut world = before_the_first(sharded(1, Some(PORT), |_| ()), &[2]);
    step(&mut world);
    for kind in [
        io::ErrorKind::AddrInUse,
        io::ErrorKind::AddrNotAvailable,
        io::ErrorKind::PermissionDenied,
    ] {
        let dialled = world.connects.pop_back().expect("an attempt");
        let port = dialled.source_port.expect("a source port");
        world.refuse(dialled, ConnectCause::Io(kind.into()));
        let next = world.connects.back().expect("the next attempt");
        let next_port = next.source_port.expect("a source port");
        assert_ne!(port, next_port);
        assert_eq!((port % 4, next.address.port()), (next_port % 4, PORT));
    }
    world.run();
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    assert!(world.notes.is_empty(), "no failure was counted");
}

#[test]
fn a_shard_without_a_free_source_port_is_sought_on_the_regular_port() {
    let few = SourcePorts::new(50_000, 50_011).expect("a range");
    let mut world = before_the_first(
        sharded(1, Some(PORT), |config| config.pool.source_ports = few),
        &[2],
    );
    step(&mut world);
    let mut tried = 0;
    loop {
        let dialled = world.connects.pop_front().expect("an attempt");
        if dialled.source_port.is_none() {
            assert_eq!(dialled.address, address(1));
            world.connects.push_front(dialled);
            break;
        }
        tried += 1;
        world.refuse(dialled, ConnectCause::Io(io::ErrorKind::AddrInUse.into()));
    }
    assert!(tried <= 9, "each of the three ports of each shard once");
    while let Some(dialled) = world.connects.pop_front() {
        match dialled.source_port {
            Some(_) => world.refuse(dialled, ConnectCause::Io(io::ErrorKind::AddrInUse.into())),
            None => world.connect(dialled),
        }
    }
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    assert!(world.notes.is_empty());
}

#[test]
fn without_the_shard_aware_port_every_shard_is_found_all_the_same() {
    let mut world = sharded(2, Some(PORT), |config| {
        config.pool.shard_aware_port = ShardAwarePort::Never;
    });
    world.run();
    assert_eq!(to_port(&world, PORT), 0);
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    assert!(world.source_ports.iter().all(Option::is_none));
    assert_eq!((data_open(&world, 1), data_open(&world, 2)), (4, 4));
}

#[test]
fn without_shard_awareness_a_node_has_one_connection_and_no_shards() {
    let mut world = sharded(2, Some(PORT), |config| config.pool.shard_awareness = false);
    world.run();
    assert_eq!((data_open(&world, 1), data_open(&world, 2)), (1, 1));
    assert!(!world.routing.is_shard_aware());
    assert!(world.routing.shard_aware_stats().is_empty());
    world.pass(Duration::from_secs(60));
    assert_eq!(data_open(&world, 1), 1);
}

#[test]
fn a_node_that_does_not_tell_of_shards_has_as_many_connections_as_one_shard() {
    let mut world = sharded(1, None, |config| {
        config.pool.size = PoolSize::PerShard(NonZeroU16::new(2).expect("not zero"));
    });
    world.nodes[0].sharding.shards = 0;
    world.run();
    assert_eq!(data_open(&world, 1), 2);
    assert!(!world.routing.is_shard_aware());
}

#[test]
fn a_pool_of_a_fixed_size_per_host_takes_any_shard_and_keeps_nothing_in_excess() {
    let mut world = sharded(1, Some(PORT), |config| {
        config.pool.size = PoolSize::PerHost(NonZeroU16::new(3).expect("not zero"));
    });
    world.nodes[0].sharding.next = VecDeque::from([0, 1, 1, 1]);
    world.run();
    assert_eq!(data_open(&world, 1), 3);
    assert_eq!(to_port(&world, PORT), 0);
    let pool = world.routing.pool(world.host(1)).expect("a pool");
    assert_eq!(pool.connections().len(), 3);
    assert!(world.disconnected.is_empty());
}

#[test]
fn several_connections_to_a_shard_are_opened_after_each_shard_has_one() {
    let mut world = sharded(1, Some(PORT), |config| {
        config.pool.size = PoolSize::PerShard(NonZeroU16::new(2).expect("not zero"));
        config.pool.opening_per_host_max = 1;
    });
    let mut order = Vec::new();
    while let Some(dialled) = world.connects.pop_front() {
        world.connect(dialled);
        while let Some(submitted) = world.submits.pop_front() {
            world.answer(submitted);
        }
        order.push(reached_or_none(&world).len());
    }
    assert_eq!(order, [0, 1, 2, 3, 4, 4, 4, 4, 4]);
    let pool = world.routing.pool(world.host(1)).expect("a pool");
    assert!((0..4).all(|shard| pool.on_shard(Shard(shard)).len() == 2));
}

fn reached_or_none(world: &World) -> Vec<u16> {
    match world.routing.hosts.is_empty() {
        true => Vec::new(),
        false => reached(world),
    }
}

#[test]
fn a_connection_on_another_shard_than_meant_is_used_where_it_fits() {
    let mut world = before_the_first(sharded(1, Some(PORT), |_| ()), &[2]);
    world.nodes[0].sharding.nat = 1;
    step(&mut world);
    let residue = |dialled: &Dialled| dialled.source_port.map(|port| port % 4);
    let at = world
        .connects
        .iter()
        .position(|dialled| residue(dialled) == Some(3))
        .expect("an attempt for the last shard");
    let dialled = world.connects.remove(at).expect("found");
    world.accept(dialled);
    assert_eq!(reached(&world), [0, 2], "it landed on the first shard");
    assert_eq!(source_port_notes(&world), 1);
    let new = world.connects.back().expect("another attempt");
    assert_eq!((new.source_port, new.address), (None, address(1)));
}

#[test]
fn a_connection_on_another_shard_than_meant_is_closed_where_it_does_not_fit() {
    let mut world = before_the_first(sharded(1, Some(PORT), |_| ()), &[2]);
    world.nodes[0].sharding.nat = 1;
    step(&mut world);
    let at = world
        .connects
        .iter()
        .position(|dialled| dialled.source_port.map(|port| port % 4) == Some(1))
        .expect("an attempt for the second shard");
    let dialled = world.connects.remove(at).expect("found");
    let conn = dialled.conn;
    world.accept(dialled);
    assert_eq!(world.disconnected, [(conn, CloseReason::Surplus)]);
    assert_eq!(source_port_notes(&world), 1);
    let new = world.connects.back().expect("another attempt");
    assert_eq!((new.source_port, new.address), (None, address(1)));
}

#[test]
fn a_pool_behind_a_translation_of_ports_becomes_full_in_few_attempts() {
    for nat in 1..4 {
        let mut world = sharded(1, Some(PORT), |_| ());
        world.nodes[0].sharding.nat = nat;
        world.run();
        assert_eq!(reached(&world), [0, 1, 2, 3]);
        assert_eq!(source_port_notes(&world), 1, "one warning");
        assert!(world.dialled.len() <= 12, "{:?}", world.dialled);
        world.forget();
        world.pass(Duration::from_secs(3_600));
        assert!(world.dialled.is_empty() && world.disconnected.is_empty());
    }
}

/// Lets a connection end that has lasted, and answers what follows.
fn lose_on(world: &mut World, shard: u16) {
    let conn = on_shard(world, shard);
    world.forget();
    world.lose(conn);
    world.run();
}

#[test]
fn source_ports_are_left_alone_for_five_minutes_and_not_longer() {
    let mut world = full(2, |_| ());
    world.pass(Duration::from_secs(60));
    world.nodes[0].sharding.nat = 1;
    lose_on(&mut world, 3);
    assert_eq!(source_port_notes(&world), 1);
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    world.pass(Duration::from_secs(299));
    lose_on(&mut world, 2);
    assert_eq!(to_port(&world, PORT), 0, "too early");
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    world.pass(Duration::from_secs(2));
    lose_on(&mut world, 1);
    assert_eq!(to_port(&world, PORT), 1, "one new try");
    assert_eq!(source_port_notes(&world), 1, "and one new warning");
    assert_eq!(reached(&world), [0, 1, 2, 3]);
}

#[test]
fn a_later_mismatch_does_not_prolong_the_pause() {
    let mut world = before_the_first(sharded(1, Some(PORT), |_| ()), &[2]);
    world.nodes[0].sharding.nat = 1;
    step(&mut world);
    let late = world.connects.pop_back().expect("an attempt");
    world.run();
    world.tick(world.now + Duration::from_secs(9));
    world.accept(late);
    world.run();
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    assert_eq!(source_port_notes(&world), 1);
    world.pass(Duration::from_secs(292));
    lose_on(&mut world, 1);
    assert_eq!(to_port(&world, PORT), 1, "five minutes after the first one");
}

#[test]
fn source_ports_that_fail_at_one_host_are_used_at_another() {
    let mut world = sharded(2, Some(PORT), |_| ());
    world.nodes[0].sharding.nat = 1;
    world.run();
    let to_second =
        |(_, at): &&(Role, std::net::SocketAddr)| at.ip() == address(2).ip() && at.port() == PORT;
    assert_eq!(world.dialled.iter().filter(to_second).count(), 3);
    assert_eq!((data_open(&world, 1), data_open(&world, 2)), (4, 4));
    assert_eq!(source_port_notes(&world), 1);
}

#[test]
fn a_host_with_a_new_address_gets_source_ports_anew() {
    let mut world = sharded(2, Some(PORT), |_| ());
    world.nodes[1].sharding.nat = 1;
    world.run();
    world.nodes[1].address = address(22);
    world.nodes[1].sharding.nat = 0;
    world.forget();
    world.plane.refresh(world.now);
    world.run();
    assert_eq!(to_port(&world, PORT), 3);
    assert_eq!(data_open(&world, 22), 4);
}

#[test]
fn a_lost_connection_is_replaced_on_its_own_shard_while_others_serve() {
    let mut world = full(1, |_| ());
    world.pass(Duration::from_secs(60));
    let conn = on_shard(&world, 2);
    world.lose(conn);
    assert_eq!(reached(&world), [0, 1, 3]);
    assert_eq!(world.connects.len(), 1, "one attempt");
    assert_eq!(world.source_ports[0].map(|port| port % 4), Some(2));
    world.run();
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    assert!(world.events.is_empty(), "the host was up all the time");
}

#[test]
fn a_shard_whose_attempt_failed_is_tried_again_after_a_pause() {
    let mut world = full(1, |_| ());
    world.pass(Duration::from_secs(60));
    let conn = on_shard(&world, 2);
    world.lose(conn);
    let dialled = world.connects.pop_front().expect("an attempt");
    let error = ConnectError {
        phase: ConnectPhase::Keyspace,
        ..failure(dialled.address, ConnectCause::Timeout)
    };
    world
        .plane
        .handle_connect_failed(world.now, dialled.conn, error);
    world.drain();
    assert!(world.connects.is_empty(), "after a pause");
    assert!(matches!(&world.notes[..], [.., Note::ConnectFailed(_)]));
    world.pass(Duration::from_secs(2));
    assert_eq!(reached(&world), [0, 1, 2, 3]);
    assert!(world.events.is_empty(), "the host was up all the time");
}

#[test]
fn failures_side_by_side_count_once() {
    let mut world = before_the_first(sharded(1, Some(PORT), |_| ()), &[2]);
    step(&mut world);
    for dialled in std::mem::take(&mut world.connects) {
        let error = ConnectError {
            phase: ConnectPhase::Startup,
            ..failure(dialled.address, ConnectCause::Closed)
        };
        world
            .plane
            .handle_connect_failed(world.now, dialled.conn, error);
    }
    world.drain();
    let next = world.plane.poll_timeout().expect("a next try");
    assert!(next - world.now <= Duration::from_millis(1_150));
    world.pass(Duration::from_secs(2));
    assert_eq!(reached(&world), [0, 1, 2, 3]);
}

#[test]
fn a_port_that_is_translated_is_not_used_for_shards_unless_asked_for() {
    #[derive(Debug)]
    struct Elsewhere;
    impl crate::policy::address::AddressTranslator for Elsewhere {
        fn translate(&self, host: &crate::routing::Host) -> Option<std::net::SocketAddr> {
            Some(std::net::SocketAddr::new(host.address.ip(), 19_043))
        }
    }
    for (setting, count) in [(ShardAwarePort::Auto, 0), (ShardAwarePort::Always, 3)] {
        let mut world = sharded(1, Some(PORT), |config| {
            config.address_translator = Some(std::sync::Arc::new(Elsewhere));
            config.pool.shard_aware_port = setting;
        });
        // The second port of the node is what leads to it from outside.
        world.nodes[0].sharding.tls_port = Some(19_043);
        world.run();
        assert_eq!(to_port(&world, PORT), count, "{setting:?}");
    }
}

#[cfg(feature = "ring")]
#[test]
fn with_encryption_shards_are_reached_through_the_encrypted_port_alone() {
    use std::sync::Arc;

    let plan = || {
        let time = Arc::new(rustls::time_provider::DefaultTimeProvider);
        // A plan in which nothing is set but how certificates are checked, as little as there can be.
        let plan = crate::conn::tls::TlsPlan::builder(time).dangerous_accept_any_certificate();
        plan.build().expect("a provider is built in")
    };
    for (encrypted, expected) in [(true, (0, 3)), (false, (3, 0))] {
        let mut world = sharded(1, Some(PORT), |config| {
            if encrypted {
                config.encryption = plan().into();
            }
        });
        world.nodes[0].sharding.tls_port = Some(TLS_PORT);
        world.run();
        let dialled = (to_port(&world, PORT), to_port(&world, TLS_PORT));
        assert_eq!(dialled, expected, "encrypted: {encrypted}");
    }
}

#[test]
fn a_session_may_wait_for_every_shard_but_not_for_hosts_that_are_down() {
    let mut world = sharded(2, Some(PORT), |config| {
        config.ready = ReadinessRule::EveryShard;
    });
    world.nodes[1].alive = false;
    for _ in 0..1_000 {
        if world.ready.is_some() {
            break;
        }
        assert_ne!(reached_or_none(&world), [0, 1, 2, 3], "ready by then");
        match (world.submits.pop_front(), world.connects.pop_front()) {
            (Some(submitted), dialled) => {
                world.connects.extend(dialled);
                world.answer(submitted);
            }
            (None, Some(dialled)) => world.connect(dialled),
            (None, None) => panic!("never ready"),
        }
    }
    assert_eq!(reached(&world), [0, 1, 2, 3]);
}

#[test]
fn opening_connections_of_all_hosts_together_keep_the_budget() {
    let mut world = sharded(3, Some(PORT), |config| config.pool.opening_max = 4);
    while let Some(dialled) = world.connects.pop_front() {
        world.connect(dialled);
        while let Some(submitted) = world.submits.pop_front() {
            world.answer(submitted);
        }
        let data = |dialled: &&Dialled| dialled.plan.role == Role::Data;
        assert!(world.connects.iter().filter(data).count() <= 4);
    }
    assert_eq!(world.open.len(), 13);
}
