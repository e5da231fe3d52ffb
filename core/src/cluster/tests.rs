//! Conversations with a control plane in virtual time.

mod agreement;
mod events;
mod frames;
mod keyspace;
mod pools;
mod schema;
mod start;
mod topology;
mod version;
mod world;
