//! Conversations with a control plane in virtual time.

mod agreement;
mod chance;
mod chaos;
mod events;
mod excess;
mod frames;
mod health;
mod keyspace;
mod members;
mod nodes;
mod pools;
mod preference;
mod reshard;
mod schema;
mod shards;
mod start;
mod topology;
mod version;
mod world;
