//! Runs a real Cassandra.
fn main() {}
