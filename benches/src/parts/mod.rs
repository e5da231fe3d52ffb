//! Single parts of the core under load, without sockets and without a runtime: for the criterion suites, and to be
//! counted. Each is a loop that does the same in every turn.

pub mod connection;
pub mod routing;
pub mod values;
pub mod wire;

// The same pretended cluster as that of the budget suite.
#[path = "../../../tests/suites/budget/plane.rs"]
#[allow(dead_code, reason = "the suite looks at more of it")]
mod plane;
