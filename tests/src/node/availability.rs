//! Whether enough replicas are up for a consistency level. All replicas share one copy of the data, so a level that
//! can be reached always sees the latest write.

use std::sync::Arc;

use messina_core::routing::replicas::{PlacementIdx, Strategy};
use messina_core::routing::ring::Ring;
use messina_core::routing::snapshot::{Host, HostIdx};
use messina_core::routing::token::Token;
use messina_core::wire::consistency::Consistency;

use super::schema::Keyspace;
use super::{CqlError, CqlErrorDetail, Node, NodeState};

/// Refuses a statement when too few replicas of its partition are up.
///
/// The token is asked for only when it matters; without one every range of the ring must be readable.
pub(crate) fn check(
    nodes: &[Node],
    coordinator: usize,
    keyspace: &Keyspace,
    token: impl FnOnce() -> Option<i64>,
    consistency: Consistency,
) -> Result<(), CqlError> {
    let strategy = strategy(keyspace);
    if matches!(strategy, Strategy::Local) || consistency == Consistency::Any {
        return Ok(());
    }
    let factors = factors(keyspace);
    let all_up = nodes.iter().all(|node| node.state != NodeState::Down);
    if all_up && fits(nodes, &factors) {
        return Ok(());
    }
    let (ring, placement) = (ring(nodes, &strategy), PlacementIdx(0));
    let tokens: Vec<Token> = match token() {
        Some(token) => vec![Token(token)],
        None => ring.tokens().to_vec(),
    };
    for token in tokens {
        let replicas = ring.replicas(placement, token);
        let replicas: Vec<&Node> = replicas
            .iter()
            .filter_map(|host| nodes.get(usize::from(host.0)))
            .collect();
        check_range(&replicas, nodes.get(coordinator), &factors, consistency)?;
    }
    Ok(())
}

/// The replication factor of each datacenter; the one without a name counts for the whole cluster.
fn factors(keyspace: &Keyspace) -> Vec<(Option<String>, usize)> {
    let options = keyspace
        .replication
        .iter()
        .filter(|(key, _)| key != "class");
    let options = options.map(|(key, value)| {
        let datacenter = (key != "replication_factor").then(|| key.clone());
        (datacenter, value.parse().unwrap_or(0))
    });
    options.collect()
}

fn fits(nodes: &[Node], factors: &[(Option<String>, usize)]) -> bool {
    factors.iter().all(|(datacenter, factor)| {
        let members = nodes.iter().filter(|node| node.state != NodeState::Removed);
        let members =
            members.filter(|node| datacenter.as_ref().is_none_or(|dc| *dc == node.datacenter));
        *factor <= members.count()
    })
}

fn ring(nodes: &[Node], strategy: &Strategy) -> Ring {
    let hosts: Vec<Host> = nodes
        .iter()
        .map(|node| {
            let mut host = Host::new(node.host_id, node.address);
            host.datacenter = Some(Arc::from(node.datacenter.as_str()));
            host.rack = Some(Arc::from(node.rack.as_str()));
            host
        })
        .collect();
    let mut entries = Vec::new();
    for (index, node) in nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.state != NodeState::Removed)
    {
        let Ok(index) = u16::try_from(index) else {
            continue;
        };
        entries.extend(
            node.tokens
                .iter()
                .map(|token| (Token(*token), HostIdx(index))),
        );
    }
    Ring::new(entries, &hosts, std::slice::from_ref(strategy))
}

fn check_range(
    replicas: &[&Node],
    coordinator: Option<&Node>,
    factors: &[(Option<String>, usize)],
    consistency: Consistency,
) -> Result<(), CqlError> {
    let up = |datacenter: Option<&str>| {
        let live = replicas.iter().filter(|node| node.state == NodeState::Up);
        live.filter(|node| datacenter.is_none_or(|dc| dc == node.datacenter))
            .count()
    };
    let here = coordinator.map(|node| node.datacenter.as_str());
    let (required, alive) = match consistency {
        Consistency::EachQuorum => {
            let short = factors
                .iter()
                .map(|(dc, factor)| (quorum(*factor), up(dc.as_deref())))
                .find(|(required, alive)| alive < required);
            short.unwrap_or((0, 0))
        }
        Consistency::LocalOne | Consistency::LocalQuorum | Consistency::LocalSerial => {
            (needed(factors, here, consistency), up(here))
        }
        _ => (needed(factors, here, consistency), up(None)),
    };
    if required <= alive {
        return Ok(());
    }
    Err(CqlError {
        code: CqlError::UNAVAILABLE,
        message: format!(
            "Cannot achieve consistency level for cl {}. Requires {required}, alive {alive}",
            consistency.name()
        ),
        detail: CqlErrorDetail::Unavailable {
            consistency: consistency.code(),
            required: number(required),
            alive: number(alive),
        },
    })
}

/// How many replicas a level needs, seen from a datacenter.
fn needed(
    factors: &[(Option<String>, usize)],
    here: Option<&str>,
    consistency: Consistency,
) -> usize {
    let total: usize = factors.iter().map(|(_, factor)| factor).sum();
    let local = factors
        .iter()
        .find(|(dc, _)| dc.is_none() || dc.as_deref() == here)
        .map_or(0, |(_, factor)| *factor);
    match consistency {
        Consistency::One | Consistency::LocalOne => 1,
        Consistency::Two => 2,
        Consistency::Three => 3,
        Consistency::Quorum | Consistency::Serial => quorum(total),
        Consistency::All => total,
        Consistency::LocalQuorum | Consistency::LocalSerial => quorum(local),
        Consistency::EachQuorum => factors.iter().map(|(_, factor)| quorum(*factor)).sum(),
        _ => 0,
    }
}

fn quorum(factor: usize) -> usize {
    factor / 2 + 1
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// How many replicas a level needs, as errors tell it.
pub(crate) fn required(
    coordinator: Option<&Node>,
    keyspace: &Keyspace,
    consistency: Consistency,
) -> i32 {
    let here = coordinator.map(|node| node.datacenter.as_str());
    number(needed(&factors(keyspace), here, consistency))
}

/// Whether a node has a copy of the partitions with this token.
pub(crate) fn is_replica(nodes: &[Node], node: usize, keyspace: &Keyspace, token: i64) -> bool {
    let strategy = strategy(keyspace);
    let ring = ring(nodes, &strategy);
    ring.replicas(PlacementIdx(0), Token(token))
        .iter()
        .any(|host| usize::from(host.0) == node)
}

fn strategy(keyspace: &Keyspace) -> Strategy {
    let options = keyspace
        .replication
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    Strategy::from_options(options)
}
