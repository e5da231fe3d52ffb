//! TODO

pub mod token;
pub mod shard;
pub mod ring;
pub mod replicas;
pub mod snapshot;
