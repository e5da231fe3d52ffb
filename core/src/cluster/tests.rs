//! Conversations with a control plane in virtual time.

mod agreement;
mod events;
mod keyspace;
mod pools;
mod start;
mod topology;
mod world;
