//! The check of a node that is stopped and started; what the cluster has to do for it goes through a pipe.

use std::collections::HashSet;
use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;

use scylla::statement::prepared::PreparedStatement;
use tokio::time::Instant;

use super::{Outcome, PATIENCE, World, same, wait_until};

pub(super) async fn a_node_that_is_stopped_and_started_is_left_out_and_used_again(
    world: &World,
) -> Outcome {
    world
        .run("CREATE TABLE outage (pk int PRIMARY KEY, v int)")
        .await?;
    let mut insert = world
        .session
        .prepare("INSERT INTO outage (pk, v) VALUES (?, ?)")
        .await?;
    insert.set_is_idempotent(true);
    let last = world.arguments.nodes - 1;
    let address: SocketAddr = world.arguments.contact_points[last].parse()?;
    let is_connected = || {
        let state = world.session.get_cluster_state();
        let node = state
            .get_nodes_info()
            .iter()
            .find(|node| node.address.ip() == address.ip());
        node.is_some_and(|node| node.is_connected())
    };
    command(world, "stop", last)?;
    let stopped = wait_until(|| !is_connected(), "the stopped node is left").await;
    let without = coordinators(world, &insert).await;
    command(world, "start", last)?;
    stopped?;
    same(
        "the stopped node is used",
        without?.contains(&address),
        false,
    )?;
    wait_until(is_connected, "the started node is connected").await?;
    let until = Instant::now() + PATIENCE;
    while !coordinators(world, &insert).await?.contains(&address) {
        if until < Instant::now() {
            return Err("no request for the started node".into());
        }
    }
    same(
        "rows",
        world.count("SELECT COUNT(*) FROM outage").await?,
        200,
    )
}

/// Writes 200 rows and tells which nodes answered.
async fn coordinators(
    world: &World,
    insert: &PreparedStatement,
) -> Result<HashSet<SocketAddr>, Box<dyn Error + Send + Sync>> {
    let mut found = HashSet::new();
    for key in 0..200 {
        let result = world.session.execute_unpaged(insert, (key, key)).await?;
        let coordinator = result.request_coordinator().connection_address();
        found.insert(SocketAddr::new(coordinator.ip(), world.port()?));
    }
    Ok(found)
}

/// Tells the cluster to stop or start a node.
fn command(world: &World, verb: &str, node: usize) -> Outcome {
    let mut pipe = OpenOptions::new()
        .append(true)
        .open(&world.arguments.commands)?;
    Ok(writeln!(pipe, "{verb} {node}")?)
}
