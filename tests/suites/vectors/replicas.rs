//! Replicas of tokens under each replication strategy.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use messina_core::routing::{Host, HostIdx, PlacementIdx, Ring, Strategy, Token};
use serde_json::Value as Json;
use uuid::Uuid;

use crate::files::VectorFile;

#[test]
fn replicas_come_in_ring_order_for_every_strategy_that_servers_agree_on() {
    let Some(file) = VectorFile::open("replicas.json") else {
        return;
    };
    file.run("cases", disputed, |case| {
        let ring = ring(case);
        for result in case["results"].as_array().expect("results") {
            let actual = replicas(&ring, result);
            let expected: Vec<usize> = numbers(&result["replicas"]);
            if actual != expected {
                return Err(format!(
                    "token {}: {actual:?}, not {expected:?}",
                    result["token"]
                ));
            }
        }
        Ok(())
    });
}

#[test]
fn where_drivers_disagree_nobody_or_everybody_or_the_owner_is_named() {
    let Some(file) = VectorFile::open("replicas.json") else {
        return;
    };
    let settled = |case: &Json| disputed(case).is_none().then_some("all agree on it");
    file.run("cases", settled, |case| {
        let ring = ring(case);
        let everybody: BTreeSet<usize> =
            (0..case["nodes"].as_array().expect("nodes").len()).collect();
        for result in case["results"].as_array().expect("results") {
            let actual = replicas(&ring, result);
            let fits = match strategy(case) {
                Strategy::Local => actual.is_empty(),
                Strategy::Everywhere => {
                    actual.iter().copied().collect::<BTreeSet<_>>() == everybody
                }
                _ => actual == numbers(&result["scylla_rust_driver"]),
            };
            if !fits {
                return Err(format!("token {}: {actual:?}", result["token"]));
            }
        }
        Ok(())
    });
}

fn disputed(case: &Json) -> Option<&'static str> {
    let mut results = case["results"].as_array().expect("results").iter();
    results
        .any(|result| result["replicas"].is_null())
        .then_some("drivers disagree on it")
}

fn ring(case: &Json) -> Ring {
    let nodes = case["nodes"].as_array().expect("nodes");
    let hosts: Vec<Host> = (1..).zip(nodes).map(|(id, node)| host(id, node)).collect();
    let entry = |pair: &Json| {
        let owner = pair[1]
            .as_u64()
            .and_then(|at| u16::try_from(at).ok())
            .expect("a node");
        (token(&pair[0]), HostIdx(owner))
    };
    let entries = case["ring"]
        .as_array()
        .expect("a ring")
        .iter()
        .map(entry)
        .collect();
    Ring::new(entries, &hosts, &[strategy(case)])
}

fn host(id: u128, node: &Json) -> Host {
    let mut host = Host::new(
        Uuid::from_u128(id),
        SocketAddr::from(([192, 0, 2, 1], 9042)),
    );
    host.datacenter = node["dc"].as_str().map(Arc::from);
    host.rack = node["rack"].as_str().map(Arc::from);
    host
}

fn strategy(case: &Json) -> Strategy {
    let options = case["options"].as_object().expect("options");
    Strategy::from_options(
        options
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str().expect("text"))),
    )
}

fn replicas(ring: &Ring, result: &Json) -> Vec<usize> {
    let found = ring.replicas(PlacementIdx(0), token(&result["token"]));
    found.iter().map(|host| host.at()).collect()
}

fn token(json: &Json) -> Token {
    Token(
        json.as_str()
            .and_then(|text| text.parse().ok())
            .expect("a token"),
    )
}

fn numbers(json: &Json) -> Vec<usize> {
    let number = |json: &Json| {
        json.as_u64()
            .and_then(|number| number.try_into().ok())
            .expect("a number")
    };
    json.as_array()
        .expect("a list")
        .iter()
        .map(number)
        .collect()
}
