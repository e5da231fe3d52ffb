//! The rules that are checked on the world itself: bounds at each step, and what must hold once all faults are over.
//! What single requests may give is checked by the workload.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::PoisonError;
use std::time::Duration;

use super::client::Picture;
use super::oracle::Stored;
use super::world::World;
use crate::node::NodeState;

/// What the session under test promises about its connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// Connections that open at the same time, the control connection aside.
    pub(super) opening_max: usize,
    /// The same to one node.
    pub(super) opening_per_host_max: usize,
    /// Control connections that open at the same time: while one gets no answer, the next node is tried.
    pub(super) control_max: usize,
    /// Connections to one node for each of its shards, beyond which is surplus.
    pub(super) per_shard: usize,
}

/// Shards that a node has at most, in any of its lives.
const SHARDS_MAX: usize = 8;
/// Tasks and timers of the run itself.
const OWN_TASKS: usize = 1;

impl World {
    /// Tells the nodes' answers what time it is, and hears what they have noticed.
    pub(super) fn look_at_answers(&mut self) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.now = Some(self.now);
        let broken = std::mem::take(&mut answers.broken);
        drop(answers);
        for what in broken {
            self.violate(what);
        }
    }

    /// Checks how many connections open at the same time.
    pub(super) fn check_opening(&mut self, node: Option<usize>) {
        let bounds = self.bounds;
        let (all, _) = self.net.held_by_stage(None);
        if bounds.opening_max + bounds.control_max < all {
            self.violate(format!("{all} connections open at the same time"));
        }
        if node.is_some() {
            let (own, _) = self.net.held_by_stage(node);
            if bounds.opening_per_host_max + bounds.control_max < own {
                self.violate(format!(
                    "{own} connections to one node open at the same time"
                ));
            }
        }
    }

    /// Checks how many connections there are to a node.
    pub(super) fn check_open(&mut self, node: Option<usize>) {
        let Some(node) = node else { return };
        let (_, open) = self.net.held_by_stage(Some(node));
        // In use, their successors while they drain, the surplus that finds the missing shards, and control.
        let most = SHARDS_MAX * (self.bounds.per_shard * 2 + 2) + 2;
        if most < open {
            self.violate(format!("{open} connections to one node"));
        }
    }

    /// Says what is still missing until a client's picture of the cluster is right; nothing when it is.
    pub(super) fn missing(
        &self,
        picture: &Picture,
        sharded: bool,
        every_shard: bool,
    ) -> Option<String> {
        let mut hosts: BTreeMap<_, _> = picture.hosts.iter().map(|host| (host.id, host)).collect();
        let mut tokens = Vec::new();
        for node in 0..self.cluster.node_count() {
            if self.cluster.state(node) == Some(NodeState::Removed) {
                continue;
            }
            tokens.extend_from_slice(self.cluster.tokens(node));
            let id = self.cluster.host_id(node)?;
            let Some(host) = hosts.remove(&id) else {
                return Some(format!("node {node} is not known"));
            };
            if self.cluster.address(node) != Some(host.address) {
                return Some(format!("node {node} is looked for at {}", host.address));
            }
            if !host.up || host.connections == 0 {
                return Some(format!("node {node} is held to be down"));
            }
            if sharded && self.cluster.shards(node) != host.shards {
                return Some(format!(
                    "node {node} is taken to have {:?} shards",
                    host.shards
                ));
            }
            if every_shard && !host.bare.is_empty() {
                return Some(format!(
                    "node {node} has no connection to its shards {:?}",
                    host.bare
                ));
            }
        }
        if let Some(id) = hosts.keys().next() {
            return Some(format!("{id} is taken for a member"));
        }
        tokens.sort_unstable();
        if tokens != picture.tokens {
            return Some(format!(
                "the tokens are not those of the nodes ({} instead of {})",
                picture.tokens.len(),
                tokens.len()
            ));
        }
        match self.cluster.listeners() {
            1 => None,
            count => Some(format!("{count} connections listen to events")),
        }
    }

    /// Checks that connections found their shards by source ports, however many of those were taken: the first one of a
    /// node cannot know its shards, and the control connection has none.
    pub(super) fn check_source_ports(&mut self) {
        for node in 0..self.cluster.node_count() {
            let unchosen = self.net.unchosen(node);
            if 2 < unchosen {
                self.violate(format!(
                    "{unchosen} connections to node {node} did not choose their shard"
                ));
            }
        }
    }

    /// Reads what the nodes have.
    pub(super) fn stored(&mut self) -> Stored {
        let now = self.now;
        let mut read = |table: &str| -> BTreeMap<i32, String> {
            let rows = self
                .cluster
                .select(now, &format!("SELECT k, v FROM sim.{table}"));
            let rows = rows.ok().and_then(|rows| rows.rows::<(i32, String)>().ok());
            rows.unwrap_or_default().into_iter().collect()
        };
        let (registers, marks, locks) = (read("registers"), read("marks"), read("locks"));
        let rows = self.cluster.select(now, "SELECT k, n FROM sim.tallies");
        let rows = rows.ok().and_then(|rows| rows.rows::<(i32, i64)>().ok());
        Stored {
            registers,
            marks,
            tallies: rows.unwrap_or_default().into_iter().collect(),
            locks,
        }
    }

    /// Checks that nothing is left of a session that was closed.
    pub(super) fn check_nothing_left(&mut self, tasks: usize, sleeps_before: usize) {
        if OWN_TASKS < tasks {
            self.violate(format!(
                "{} tasks are left after the end",
                tasks - OWN_TASKS
            ));
        }
        let held = self.net.held_by_stage(None);
        if held != (0, 0) {
            self.violate(format!("connections are left after the end: {held:?}"));
        }
        let sleeps = self.sleeps_held();
        if sleeps_before < sleeps {
            self.violate(format!(
                "{} timers are left after the end",
                sleeps - sleeps_before
            ));
        }
        let open: u64 = (0..self.cluster.node_count())
            .filter_map(|node| self.cluster.statistics(node))
            .map(|statistics| statistics.open)
            .sum();
        if 0 < open {
            self.violate(format!("the nodes still have {open} connections"));
        }
    }

    /// Looks up a host name, as it is now.
    pub(super) fn look_up(&mut self, host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        self.counts.add("names looked up");
        let nodes = match self.names.get(host) {
            Some(name) if !name.broken => name.nodes.clone(),
            _ => {
                self.counts.add("names not found");
                return Err(std::io::ErrorKind::NotFound.into());
            }
        };
        let addresses = nodes.iter().filter_map(|node| self.cluster.address(*node));
        Ok(addresses
            .map(|address| SocketAddr::new(address.ip(), port))
            .collect())
    }

    pub(super) fn resolving_takes(&mut self) -> Duration {
        Duration::from_micros(100 + self.random.below(20_000))
    }
}
