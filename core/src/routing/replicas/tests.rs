use std::net::SocketAddr;

use uuid::Uuid;

use super::*;
use crate::routing::{Ring, Token};

fn host(at: usize, datacenter: &str, rack: &str) -> Host {
    let mut host = Host::new(
        Uuid::from_u128(at as u128 + 1),
        SocketAddr::from(([192, 0, 2, 1], 9042)),
    );
    host.datacenter = Some(datacenter.into());
    host.rack = Some(rack.into());
    host
}

const HOSTS: [(&str, &str, &[i64]); 7] = [
    ("eu", "r1", &[50, 250, 400]),
    ("eu", "r1", &[100, 600, 900]),
    ("eu", "r1", &[300, 650, 700]),
    ("us", "r1", &[350, 550]),
    ("us", "r1", &[150, 750]),
    ("us", "r2", &[200, 450]),
    ("eu", "r2", &[500, 800]),
];
const NAMES: &str = "ABCDEFG";

fn replicas(strategy: Strategy, token: i64) -> String {
    let hosts: Vec<Host> = HOSTS
        .iter()
        .enumerate()
        .map(|(at, (dc, rack, _))| host(at, dc, rack))
        .collect();
    let entries = (0..).zip(&HOSTS).flat_map(|(at, (_, _, tokens))| {
        tokens.iter().map(move |token| (Token(*token), HostIdx(at)))
    });
    let ring = Ring::new(entries.collect(), &hosts, &[strategy]);
    let name = |host: &HostIdx| NAMES.chars().nth(host.at()).expect("seven hosts");
    ring.replicas(PlacementIdx(0), Token(token))
        .iter()
        .map(name)
        .collect()
}

fn network(datacenter: &str, factor: u32) -> Strategy {
    Strategy::NetworkTopology {
        factors: vec![(datacenter.into(), factor)],
    }
}

fn simple(factor: u32) -> Strategy {
    Strategy::Simple { factor }
}

#[test]
fn a_simple_strategy_takes_the_next_distinct_nodes() {
    assert_eq!(replicas(simple(2), 160), "FA");
    assert_eq!(replicas(simple(7), 200), "FACDGBE");
    assert_eq!(replicas(simple(70), 200), "FACDGBE");
    assert_eq!(replicas(simple(1), 160), "F");
    assert_eq!(replicas(simple(0), 160), "");
}

#[test]
fn a_network_topology_skips_a_used_rack_unless_racks_are_too_few() {
    let eu = [1, 2, 3, 4, 5].map(|factor| replicas(network("eu", factor), 160));
    assert_eq!(eu, ["A", "AG", "ACG", "ACGB", "ACGB"]);
    let us = [1, 2, 3, 4].map(|factor| replicas(network("us", factor), 160));
    assert_eq!(us, ["F", "FD", "FDE", "FDE"]);
}

#[test]
fn replicas_of_several_datacenters_come_in_the_order_of_the_ring() {
    let strategy = Strategy::NetworkTopology {
        factors: vec![("eu".into(), 3), ("us".into(), 3)],
    };
    // The ring from 160: 200F 250A 300C 350D 400A 450F 500G 550D … 750E.
    assert_eq!(replicas(strategy, 160), "FACDGE");
}

#[test]
fn the_walk_passes_the_end_of_the_ring() {
    assert_eq!(replicas(simple(3), 900), "BAE");
    assert_eq!(replicas(simple(3), 901), "ABE");
    assert_eq!(replicas(network("us", 2), 800), "EF");
}

#[test]
fn a_factor_of_zero_and_an_unknown_datacenter_give_nothing() {
    assert_eq!(replicas(network("eu", 0), 160), "");
    assert_eq!(replicas(network("au", 3), 160), "");
}

#[test]
fn special_strategies_have_nobody_everybody_or_the_owner() {
    assert_eq!(replicas(Strategy::Local, 160), "");
    assert_eq!(replicas(Strategy::Everywhere, 160).len(), 7);
    assert_eq!(
        replicas(
            Strategy::Other {
                class: "com.example.Mine".into()
            },
            160
        ),
        "F"
    );
}

#[test]
fn nodes_without_a_rack_share_one() {
    let mut hosts: Vec<Host> = (0..3).map(|at| host(at, "dc", "r")).collect();
    hosts[0].rack = None;
    hosts[1].rack = None;
    let entries = vec![
        (Token(1), HostIdx(0)),
        (Token(2), HostIdx(1)),
        (Token(3), HostIdx(2)),
    ];
    let ring = Ring::new(entries, &hosts, &[network("dc", 2)]);
    assert_eq!(
        ring.replicas(PlacementIdx(0), Token(0)),
        [HostIdx(0), HostIdx(2)]
    );
}

#[test]
fn nodes_without_tokens_are_never_replicas() {
    let hosts: Vec<Host> = (0..3).map(|at| host(at, "dc", "r")).collect();
    let entries = vec![(Token(1), HostIdx(0)), (Token(2), HostIdx(2))];
    let ring = Ring::new(entries, &hosts, &[network("dc", 3), Strategy::Everywhere]);
    assert_eq!(
        ring.replicas(PlacementIdx(0), Token(0)),
        [HostIdx(0), HostIdx(2)]
    );
    assert_eq!(
        ring.replicas(PlacementIdx(1), Token(0)),
        [HostIdx(0), HostIdx(2)]
    );
}

#[test]
fn an_owner_that_is_no_host_is_left_out_and_nothing_panics() {
    let hosts = [host(0, "dc", "r")];
    let entries = vec![(Token(1), HostIdx(0)), (Token(2), HostIdx(9))];
    let ring = Ring::new(
        entries,
        &hosts,
        &[network("dc", 2), simple(2), Strategy::Everywhere],
    );
    for placement in 0..3 {
        assert_eq!(
            ring.replicas(PlacementIdx(placement), Token(2)),
            [HostIdx(0)]
        );
    }
}

#[test]
fn options_are_read_with_short_and_full_class_names() {
    let read =
        |options: &[(&'static str, &'static str)]| Strategy::from_options(options.iter().copied());
    let full = "org.apache.cassandra.locator.SimpleStrategy";
    assert_eq!(
        read(&[("class", full), ("replication_factor", "3")]),
        simple(3)
    );
    assert_eq!(
        read(&[("class", "SimpleStrategy"), ("replication_factor", "3")]),
        simple(3)
    );
    assert_eq!(read(&[("class", "LocalStrategy")]), Strategy::Local);
    assert_eq!(
        read(&[("class", "org.apache.cassandra.locator.EverywhereStrategy")]),
        Strategy::Everywhere
    );
    let network = Strategy::NetworkTopology {
        factors: vec![("a".into(), 1), ("b".into(), 2)],
    };
    assert_eq!(
        read(&[("b", "2"), ("class", "NetworkTopologyStrategy"), ("a", "1")]),
        network
    );
}

#[test]
fn transient_replicas_count_as_replicas() {
    let read = |text| Strategy::from_options([("class", "NetworkTopologyStrategy"), ("dc1", text)]);
    assert_eq!(read("3/1"), network("dc1", 3));
    for text in ["3/4", "3/", "/1", "3/1/1", "a/b"] {
        assert!(matches!(read(text), Strategy::Other { .. }), "{text}");
    }
}

#[test]
fn odd_options_make_the_keyspace_other() {
    let other = |options: &[(&'static str, &'static str)]| {
        matches!(
            Strategy::from_options(options.iter().copied()),
            Strategy::Other { .. }
        )
    };
    assert!(other(&[]));
    assert!(other(&[("class", "com.example.My")]));
    assert!(other(&[("class", "SimpleStrategy")]));
    assert!(other(&[
        ("class", "SimpleStrategy"),
        ("replication_factor", "abc")
    ]));
    assert!(other(&[
        ("class", "SimpleStrategy"),
        ("replication_factor", "-1")
    ]));
    assert!(other(&[
        ("class", "NetworkTopologyStrategy"),
        ("replication_factor", "3")
    ]));
}

#[test]
fn a_ring_of_many_tokens_costs_at_most_forty_bytes_each() {
    let hosts: Vec<Host> = (0..60)
        .map(|at| host(at, ["x", "y"][at % 2], ["a", "b", "c"][at % 3]))
        .collect();
    let mut token = 1_i64;
    let mut entries = Vec::new();
    for at in 0..60 {
        for _ in 0..256 {
            token = token
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            entries.push((Token(token), HostIdx(at)));
        }
    }
    let both = Strategy::NetworkTopology {
        factors: vec![("x".into(), 3), ("y".into(), 3)],
    };
    let ring = Ring::new(entries, &hosts, &[both]);
    let placements: usize = ring.placements().iter().map(Placement::size).sum();
    let bytes = size_of_val(ring.tokens()) + size_of_val(ring.owners()) + placements;
    assert!(
        bytes <= 40 * ring.tokens().len(),
        "{bytes} bytes for {} tokens",
        ring.tokens().len()
    );
}

#[test]
fn a_factor_above_the_number_of_nodes_or_of_an_empty_ring_ends() {
    let hosts = [host(0, "dc", "r"), host(1, "dc", "r")];
    let entries = (0..8)
        .map(|at: i64| (Token(at), HostIdx(u16::from(at % 2 == 1))))
        .collect();
    let ring = Ring::new(entries, &hosts, &[simple(5), simple(0)]);
    assert_eq!(
        ring.replicas(PlacementIdx(0), Token(3)),
        [HostIdx(1), HostIdx(0)]
    );
    assert!(ring.replicas(PlacementIdx(1), Token(3)).is_empty());
    let empty = Ring::new(Vec::new(), &hosts, &[simple(3)]);
    assert!(empty.replicas(PlacementIdx(0), Token(3)).is_empty());
}

#[test]
fn a_rack_of_nodes_without_tokens_takes_no_place_of_a_replica() {
    // Z, alone in rack r2, and the only node of dcY own nothing.
    let mut hosts = vec![
        host(0, "dcX", "r1"),
        host(1, "dcX", "r1"),
        host(2, "dcX", "r2"),
        host(3, "dcY", "r1"),
    ];
    let strategy = Strategy::NetworkTopology {
        factors: vec![("dcX".into(), 2), ("dcY".into(), 1)],
    };
    let mut entries = vec![(Token(-50), HostIdx(0)), (Token(40), HostIdx(1))];
    let ring = Ring::new(entries.clone(), &hosts, std::slice::from_ref(&strategy));
    for token in [-60, -50, 0, 40, 41] {
        let mut found = ring.replicas(PlacementIdx(0), Token(token)).to_vec();
        found.sort();
        assert_eq!(found, [HostIdx(0), HostIdx(1)], "{token}");
    }
    hosts.push(host(4, "dcY", "r1"));
    entries.push((Token(10), HostIdx(4)));
    let ring = Ring::new(entries, &hosts, &[strategy]);
    assert!(
        ring.replicas(PlacementIdx(0), Token(0))
            .contains(&HostIdx(4))
    );
}

#[test]
fn a_datacenter_that_nobody_is_in_has_no_node_to_look_at_however_large_the_ring() {
    let hosts: Vec<Host> = (0..100).map(|at| host(at, "dc1", "r")).collect();
    let owners: Vec<HostIdx> = (0..25_600).map(|at| HostIdx(at % 100)).collect();
    let factors = [("dc1".into(), 3), ("ghost".into(), 3)];
    let mut walk = Walk::network(&factors, &owners, &hosts);
    for position in (0..owners.len()).rev() {
        walk.step(position, position);
    }
    // The nodes that are looked at for a position are those of the chains, each once.
    let looks = |group: &Group| {
        std::iter::successors(group.head, |host| walk.links[host.at()].1)
            .take(1_000)
            .count()
    };
    let looks: Vec<usize> = walk.groups.iter().map(looks).collect();
    assert_eq!(looks, [100, 0]);
    let entries = (0..).map(Token).zip(owners).collect();
    let ghost = Strategy::NetworkTopology {
        factors: factors.to_vec(),
    };
    let ring = Ring::new(entries, &hosts, &[ghost, network("dc1", 200)]);
    assert_eq!(
        ring.replicas(PlacementIdx(0), Token(7)),
        [HostIdx(7), HostIdx(8), HostIdx(9)]
    );
    assert_eq!(ring.replicas(PlacementIdx(1), Token(7)).len(), 100);
}
