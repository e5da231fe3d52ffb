//! What the driver may cost, in counts that do not depend on the machine: sizes, allocations, bytes, wake-ups. Times are
//! the benches' business.

mod alloc;
mod cluster;
mod idle;
mod plane;
mod requests;
mod sizes;
