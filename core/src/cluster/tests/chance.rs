//! Hosts that come, go and move by chance: those that should be connected are, in the end, and no other.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use super::preference::{NotRack, up};
use super::world::*;
use crate::conn::Role;
use crate::policy::load_balancing::DefaultLoadBalancing;

/// The hosts that should be connected in the end, by the plainest reading of the settings.
fn expected(world: &World, named: Option<&str>, limit: Option<u16>, refused_rack: &str) -> Vec<u8> {
    let mut taken: Vec<(&str, u16)> = Vec::new();
    let mut expected = Vec::new();
    for host in world.routing.hosts.iter() {
        let node = world.nodes.iter().find(|node| node.id == host.id.as_u128());
        let node = node.expect("hosts are nodes");
        if node.rack == refused_rack {
            continue;
        }
        let is_local = world.routing.local_datacenter.as_deref() == Some(node.datacenter);
        if !is_local {
            if named.is_some_and(|named| named != node.datacenter) {
                continue;
            }
            let at = taken.iter().position(|(own, _)| *own == node.datacenter);
            let at = at.unwrap_or_else(|| {
                taken.push((node.datacenter, 0));
                taken.len() - 1
            });
            taken[at].1 += 1;
            if limit.is_some_and(|limit| limit < taken[at].1) {
                continue;
            }
        }
        expected.extend(u8::try_from(node.id));
    }
    expected.sort_unstable();
    expected
}

#[test]
fn whatever_hosts_do_those_that_should_be_connected_are_in_the_end_and_no_other() {
    for seed in 0..60 {
        let mut random = crate::seed::Seed::from_u64(seed).random();
        let limit = [None, Some(1), Some(2)][random.index(3)];
        let named = [None, Some("dc2"), Some("dc3")][random.index(3)];
        let mut policy = DefaultLoadBalancing {
            datacenter_failover: true,
            remote_datacenters: named.map(|named| [named.into()].into()),
            ..DefaultLoadBalancing::default()
        };
        policy.remote_hosts_max = limit.and_then(NonZeroU16::new);
        let mut settings = config(&["192.0.2.1", "192.0.2.4"]);
        settings.profile.load_balancing = Arc::new(policy);
        settings.host_filter = Some(Arc::new(NotRack("c")));
        settings.inference.rack = random.below(2) == 0;
        settings.ready = crate::config::session::ReadinessRule::ControlConnection;
        let mut world = World::seeded(9, settings, seed);
        let datacenters = ["dc1", "dc2", "dc3"];
        for (node, at) in world.nodes.iter_mut().zip(0..) {
            node.datacenter = datacenters[at / 3];
        }
        world.run();
        for _ in 0..150 {
            let at = random.index(world.nodes.len());
            match random.below(6) {
                0 => world.nodes[at].alive ^= true,
                1 => world.nodes[at].rack = ["a", "b", "c"][random.index(3)],
                2 => world.nodes[at].datacenter = datacenters[random.index(3)],
                3 => world.plane.refresh(world.now),
                4 => {
                    if let Some((conn, _, _)) = random.choose(&world.open).copied() {
                        world.lose(conn);
                    }
                }
                _ => world.tick(world.now + Duration::from_millis(random.below(20_000))),
            }
            world.run();
        }
        world.nodes.iter_mut().for_each(|node| node.alive = true);
        world.pass(Duration::from_secs(600));
        world.plane.refresh(world.now);
        world.pass(Duration::from_secs(3_600));
        let expected = expected(&world, named, limit, "c");
        let mut connected = up(&world);
        connected.sort_unstable();
        assert_eq!(connected, expected, "seed {seed}");
        let (_, control) = world.control().expect("a control connection");
        let at = world.nodes.iter().position(|node| node.address == control);
        let at = u8::try_from(at.expect("a node") + 1).expect("few");
        assert!(
            expected.is_empty() || expected.contains(&at),
            "seed {seed}: {at} of {expected:?}"
        );
        let data = |(_, at, role): &&(_, SocketAddr, Role)| {
            *role == Role::Data && !expected.iter().any(|last| address(*last) == *at)
        };
        assert_eq!(
            world.open.iter().find(data),
            None,
            "seed {seed}: nothing else is open"
        );
    }
}
