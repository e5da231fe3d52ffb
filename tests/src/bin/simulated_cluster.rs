//! Runs a simulated cluster.
fn main() {}
