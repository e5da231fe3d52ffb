//! The simulation: the shipping engine, or the core's `Driver`, against the simulated cluster, in virtual time, with a network and nodes that
//! fail as a seed decides, and with rules that must hold whatever happens.
//!
//! [`run`] does everything that a seed stands for, on one thread, and [`Report`] tells which rules were broken. The same
//! seed gives the same run, byte for byte: what a session does is a function of its seed, its settings and its inputs.
//! It is here for the driver's own tests and leaves real sockets to [`serve`](crate::serve).

mod answers;
mod checks;
mod client;
mod driver;
mod executor;
mod faults;
mod net;
mod oracle;
mod run;
mod runtime;
mod setup;
mod trace;
mod work;
mod world;

pub use run::{ClientKind, Report, RunOptions, run};
pub use runtime::{SimRuntime, SimSleep, SimStream};
pub use trace::Counts;
