//! Owns what the cluster can say of the connections that its nodes have, for tests and for programs.
//! The same is in the table `system.clients` of each node.

use std::net::SocketAddr;

use super::Cluster;

/// A connection to a node, as the node's table of clients shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Client {
    /// The node, from 0.
    pub node: usize,
    /// Where the connection comes from.
    pub address: SocketAddr,
    /// The shard that serves it.
    pub shard: u16,
    /// How far its handshake is: `ESTABLISHED`, `AUTHENTICATING` or `READY`.
    pub stage: &'static str,
    /// The options of its first message, in the order in which they came.
    pub options: Vec<(String, String)>,
}

impl Cluster {
    /// The connections of all nodes, by node and address.
    pub fn clients(&self) -> Vec<Client> {
        let clients = self.connections.values().map(|connection| Client {
            node: connection.node,
            address: connection.peer,
            shard: connection.shard,
            stage: connection.stage.name(),
            options: connection.options.clone(),
        });
        let mut clients: Vec<Client> = clients.collect();
        clients.sort_by_key(|client| (client.node, client.address));
        clients
    }
}
