//! A library that offers the driver to others under a name of its own.

pub use messina_tokio as driver;
