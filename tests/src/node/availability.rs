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
    let options = keyspace
        .replication
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    let strategy = Strategy::from_options(options);
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
    let total: usize = factors.iter().map(|(_, factor)| factor).sum();
    let up = |datacenter: Option<&str>| {
        let live = replicas.iter().filter(|node| node.state == NodeState::Up);
        live.filter(|node| datacenter.is_none_or(|dc| dc == node.datacenter))
            .count()
    };
    let here = coordinator.map(|node| node.datacenter.as_str());
    let local = factors
        .iter()
        .find(|(dc, _)| dc.is_none() || dc.as_deref() == here)
        .map_or(0, |(_, factor)| *factor);
    let quorum = |factor: usize| factor / 2 + 1;
    let (required, alive) = match consistency {
        Consistency::One => (1, up(None)),
        Consistency::Two => (2, up(None)),
        Consistency::Three => (3, up(None)),
        Consistency::Quorum | Consistency::Serial => (quorum(total), up(None)),
        Consistency::All => (total, up(None)),
        Consistency::LocalOne => (1, up(here)),
        Consistency::LocalQuorum | Consistency::LocalSerial => (quorum(local), up(here)),
        Consistency::EachQuorum => {
            let short = factors
                .iter()
                .map(|(dc, factor)| (quorum(*factor), up(dc.as_deref())))
                .find(|(required, alive)| alive < required);
            short.unwrap_or((0, 0))
        }
        _ => (0, 0),
    };
    if required <= alive {
        return Ok(());
    }
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
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
