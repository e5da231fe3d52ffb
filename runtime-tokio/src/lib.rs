//! Messina, a ScyllaDB and Cassandra driver, on tokio.
//!
//! This crate is thin: it lends tokio's sockets, timers, name resolution and tasks to `messina-engine` and offers the
//! whole interface of the driver under one name. The other adapters offer the same interface.
//!
//! ```no_run
//! use messina_tokio::Session;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let session = Session::builder().contact_point("node1.example:9042").local_datacenter("dc1").build().await?;
//! let insert = session.prepare("INSERT INTO ks.t (id, name) VALUES (?, ?)").await?;
//! session.execute(&insert, (7, "ada")).await?;
//!
//! let select = session.prepare("SELECT id, name FROM ks.t WHERE id = ?").await?;
//! let mut pages = session.pages(&select, (7,));
//! while let Some(page) = pages.next().await? {
//!     for row in page.rows::<(i32, &str)>()? {
//!         let (id, name) = row?;
//!         println!("{id}: {name}");
//!     }
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

// The derives name this crate in what they generate, in its own examples too.
extern crate self as messina_tokio;

mod runtime;
mod stream;

pub use messina_engine::api::*;
pub use runtime::Tokio;
pub use stream::Stream;

/// A session on tokio; cloning it is cheap, and dropping the last clone closes it.
pub type Session = messina_engine::Session<Tokio>;
/// Collects the settings of a session on tokio.
pub type SessionBuilder = messina_engine::SessionBuilder<Tokio>;

/// Compiles the code of the project's front page.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
