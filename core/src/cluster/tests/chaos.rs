//! Nodes that do what they like for a while, and then heal: every pool must be full again, and nothing else be open.

use std::time::Duration;

use super::shards::sharded;
use super::world::*;
use crate::conn::Role;
use crate::error::connect::{ConnectCause, ConnectionError};
use crate::routing::Shard;
use crate::seed::{Random, Seed};
use crate::wire::ServerEvent;

const NODES: u8 = 3;

/// One thing that happens to the cluster or the connections.
fn disturb(world: &mut World, random: &mut Random) {
    let at = random.index(world.nodes.len());
    match random.below(14) {
        0 => world.nodes[at].alive ^= true,
        1 => {
            world.nodes[at].sharding.door =
                [Door::Open, Door::Refused, Door::Silent][random.index(3)]
        }
        2 => world.nodes[at].sharding.nat = [0, 0, 1, 2][random.index(4)],
        3 => world.nodes[at].sharding.shards = [0, 1, 3, 4, 7][random.index(5)],
        4 => {
            let shards = u64::from(world.nodes[at].sharding.shards);
            let next = (0..random.below(30)).map(|_| u16::try_from(random.below(shards)));
            world.nodes[at].sharding.next = next.map(|shard| shard.unwrap_or(0)).collect();
            if shards == 0 {
                world.nodes[at].sharding.next.clear();
            }
        }
        5 | 6 => {
            if let Some((conn, _, _)) = random.choose(&world.open).copied() {
                let drains = world.drained.iter().any(|(own, _)| *own == conn);
                if !drains && random.below(3) == 0 {
                    let error = ConnectionError::Orphans { count: 2_000 };
                    world.plane.handle_draining(world.now, conn, error);
                    world.drain();
                }
                world.lose(conn);
            }
        }
        7 => {
            if world.control().is_some() {
                let up = random.below(2) == 0;
                let address = world.nodes[at].address;
                world.event(ServerEvent::Status { up, address });
            }
        }
        8 => {
            if let Some(submitted) = world.submits.pop_front() {
                world.reply_with(submitted, Err(expired()));
            }
        }
        9 => {
            if let Some(dialled) = world.connects.pop_front() {
                let cause = [ConnectCause::Closed, ConnectCause::Timeout][random.index(2)].clone();
                world.refuse(dialled, cause);
            }
        }
        10 => world.tick(world.now + Duration::from_millis(random.below(20_000))),
        11 => {
            if let Some(submitted) = world.submits.pop_front() {
                world.answer(submitted);
            }
        }
        _ => {
            if !world.connects.is_empty() {
                let which = random.index(world.connects.len());
                let dialled = world.connects.remove(which).expect("it is there");
                world.connect(dialled);
            }
        }
    }
}

/// What must hold at any moment.
fn check(world: &World) {
    let opening = |dialled: &&Dialled| dialled.plan.role == Role::Data;
    let opening = world
        .connects
        .iter()
        .chain(&world.unanswered)
        .filter(opening);
    assert!(opening.count() <= 8, "the budget holds");
    for node in &world.nodes {
        let here = |(_, at, role): &&(_, _, Role)| *at == node.address && *role == Role::Data;
        // Seven shards, twice as many in excess, one on its way, and what one change of shards leaves behind.
        assert!(world.open.iter().filter(here).count() <= 3 * 7 + 7 + 8);
    }
    for pool in world.routing.pools.iter() {
        for handle in pool.connections() {
            let open = world.open.iter().find(|(conn, _, _)| conn.index == *handle);
            let (conn, _, role) = open.expect("requests use open connections only");
            assert_eq!(*role, Role::Data);
            assert!(!world.drained.iter().any(|(own, _)| own == conn));
        }
    }
}

fn heal(world: &mut World) {
    for node in &mut world.nodes {
        node.alive = true;
        node.sharding.door = Door::Open;
        node.sharding.nat = 0;
        node.sharding.next.clear();
        node.sharding.shards = node.sharding.shards.max(1);
    }
}

#[test]
fn whatever_happened_every_shard_of_a_healthy_cluster_is_connected_in_the_end() {
    for seed in 0..60 {
        let mut random = Seed::from_u64(seed).random();
        let port = [Some(19_042), None][random.index(2)];
        let mut world = sharded(NODES, port, |config| {
            config.pool.opening_max = 8;
            config.pool.connection_age_max =
                [None, Some(Duration::from_secs(200))][random.index(2)];
        });
        world.run();
        for _ in 0..400 {
            disturb(&mut world, &mut random);
            check(&world);
        }
        heal(&mut world);
        world.pass(Duration::from_secs(3_600));
        // Those that hung during the disturbance took their old shards with them; nothing more does.
        check(&world);
        for node in &world.nodes {
            let pool = world.routing.pool(world.host(node.id)).expect("a pool");
            let shards = pool.sharder().map_or(1, |own| own.shards.get());
            assert!(!pool.is_empty(), "seed {seed}");
            let reached = (0..shards).filter(|shard| {
                pool.sharder().is_none() || !pool.on_shard(Shard(*shard)).is_empty()
            });
            assert_eq!(reached.count(), usize::from(shards), "seed {seed}");
            let here = |(_, at, role): &&(_, _, Role)| *at == node.address && *role == Role::Data;
            let open = world.open.iter().filter(here).count();
            assert_eq!(
                open,
                pool.connections().len(),
                "seed {seed}: nothing in excess"
            );
        }
    }
}
