//! The simulated cluster: several nodes that share schema and data, and the topology around them.
//! It owns no socket, thread or clock; the module `serve` puts it on real ones.

/// What a simulated cluster looks like when it starts.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// The name shown in `system.local`.
    pub cluster_name: String,
    /// The datacenters with their number of nodes, in the order in which the nodes are numbered.
    pub datacenters: Vec<(String, usize)>,
    /// How many racks each datacenter has; its nodes are dealt out to them in turn.
    pub racks: usize,
    /// How many shards each node has.
    pub shards: u16,
    /// How many tokens each node owns.
    pub tokens_per_node: usize,
    /// The role and password that clients must give; `None` asks for none.
    pub credentials: Option<(String, String)>,
    /// Decides host ids and tokens, so that two runs look the same.
    pub seed: u64,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            cluster_name: "simulated".to_owned(),
            datacenters: vec![("dc1".to_owned(), 1)],
            racks: 1,
            shards: 2,
            tokens_per_node: 16,
            credentials: None,
            seed: 1,
        }
    }
}
