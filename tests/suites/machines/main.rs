//! Conversations of single machines with a scripted peer, in virtual time, and what they cost.

mod allocations;
mod connection;
mod driver;
mod tls;
