//! Owns where data lives: tokens, shards, the ring, replica lists, and the published snapshot of them.
//! It decides nothing about which replica to use; that is a load-balancing policy's job.

pub mod replicas;
pub mod ring;
pub mod shard;
pub mod snapshot;
pub mod status;
pub mod token;

pub use replicas::{Placement, PlacementIdx, Strategy};
pub use ring::Ring;
pub use shard::{Shard, Sharder};
pub use snapshot::{
    Host, HostIdx, HostState, Loads, PoolView, Routing, ShardAwareStats, TableIdx, TableRouting,
};
pub use status::{ConnectionStatus, HostStatus};
pub use token::{Partitioner, Token, TokenHasher};
