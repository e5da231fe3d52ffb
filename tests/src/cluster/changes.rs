//! Changes of single nodes that a cluster lives through in production, and looks at what is in it.
//! Whole nodes that come and go are the parent's matter.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use messina_core::error::value::DecodeError;
use messina_core::types::{FromRow, Rows};
use messina_core::wire::event::{EventKind, TopologyChange};
use messina_core::wire::result::ColumnSpec;

use super::{Cluster, ConnectionId};
use crate::node::cql::executor::Outcome;
use crate::node::events::Announcement;
use crate::node::{CqlError, NodeState, Shards};

/// Rows that an administrator has read.
#[derive(Clone, Debug)]
pub struct AdministratorRows {
    columns: Arc<[ColumnSpec]>,
    row_count: usize,
    cells: Bytes,
}

impl AdministratorRows {
    /// Reads the rows as a type.
    ///
    /// # Errors
    /// The columns or a value do not fit it.
    pub fn rows<'r, T: FromRow<'r>>(&'r self) -> Result<Vec<T>, DecodeError> {
        Rows::new(&self.columns, self.row_count, &self.cells)
            .map_err(DecodeError::from)?
            .collect()
    }
}

impl Cluster {
    /// Gives a stopped node another address, under which it comes back.
    pub fn set_address(&mut self, node: usize, ip: IpAddr) {
        if let Some(node) = self.stopped(node) {
            node.address.set_ip(ip);
        }
    }

    /// Gives a stopped node another number of shards; with none, it does not tell about shards.
    pub fn set_shards(&mut self, node: usize, shards: u16) {
        if let Some(node) = self.stopped(node) {
            node.shards = Shards::new(shards);
            node.statistics.by_shard = vec![0; usize::from(shards.max(1))];
        }
    }

    /// Gives a node other tokens and announces that it has moved.
    pub fn set_tokens(&mut self, node: usize, mut tokens: Vec<i64>) {
        let Some(found) = self.nodes.get_mut(node) else {
            return;
        };
        tokens.sort_unstable();
        tokens.dedup();
        found.tokens = tokens;
        self.announce(&Announcement::Topology {
            change: TopologyChange::MovedNode,
            node,
        });
    }

    /// Lets the other nodes say that a node is up or down, whether that is so or not.
    pub fn announce_status(&mut self, node: usize, up: bool) {
        if node < self.nodes.len() {
            self.announce(&Announcement::Status { up, node });
        }
    }

    /// The number of shards that a node tells about, if it does.
    #[must_use]
    pub fn shards(&self, node: usize) -> Option<u16> {
        self.nodes.get(node).and_then(|node| node.shards.told())
    }

    /// The tokens that a node owns, in order.
    #[must_use]
    pub fn tokens(&self, node: usize) -> &[i64] {
        self.nodes.get(node).map_or(&[], |node| &node.tokens)
    }

    /// The node whose connections a connection belongs to.
    #[must_use]
    pub fn node_of(&self, id: ConnectionId) -> Option<usize> {
        self.connections.get(&id).map(|connection| connection.node)
    }

    /// How many connections asked for events about the cluster's members.
    #[must_use]
    pub fn listeners(&self) -> usize {
        let connections = self.connections.values();
        connections
            .filter(|connection| connection.hears(EventKind::TopologyChange))
            .count()
    }

    /// Runs one SELECT without a connection, as an administrator would.
    ///
    /// # Errors
    /// What a client would be told.
    pub fn select(&mut self, now: Instant, cql: &str) -> Result<AdministratorRows, CqlError> {
        match self.outcome_for_administrator(now, cql)? {
            Outcome::Rows(rows) => Ok(AdministratorRows {
                columns: rows.columns,
                row_count: rows.row_count,
                cells: rows.cells.into(),
            }),
            _ => Err(CqlError::invalid("not a statement that reads")),
        }
    }

    fn stopped(&mut self, node: usize) -> Option<&mut crate::node::Node> {
        self.nodes
            .get_mut(node)
            .filter(|node| node.state == NodeState::Down)
    }
}
