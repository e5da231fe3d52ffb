//! Benches of Messina: the workloads, the peer that costs nothing, the floor, and the driver on each runtime. Holds what
//! the program `messina-bench` is made of; its command line and its counting allocator are the program's own.

pub mod books;
pub mod client;
pub mod floor;
pub mod open;
pub mod parts;
pub mod peer;
pub mod process;
#[cfg(feature = "reference")]
pub mod reference;
pub mod workload;

/// How a bench ends that could not be done.
pub type BenchError = Box<dyn std::error::Error + Send + Sync>;
