//! What the driver may cost, in counts that do not depend on the machine: sizes, allocations, bytes, wake-ups. Times are
//! the benches' business.

use std::fmt::Display;

mod alloc;
mod cluster;
mod idle;
mod plane;
mod requests;
mod sizes;

/// Tells a figure to whoever runs the suite with `--nocapture`.
fn figure(what: &str, value: impl Display) {
    println!("{what}: {value}");
}
