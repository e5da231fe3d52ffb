//! An application that knows the driver only through a library.
#![deny(warnings)]

use facade::driver::{FromRow, FromValue, ToRow, ToValue};

/// A row.
#[derive(FromRow, ToRow)]
#[cql(crate = facade::driver)]
pub struct Item {
    /// A value.
    pub kind: Kind,
    /// A user-defined type.
    pub size: Size,
}

/// A value.
#[derive(FromValue, ToValue)]
#[cql(crate = "facade::driver", int)]
pub enum Kind {
    /// One.
    Book = 1,
}

/// A user-defined type.
#[derive(FromValue, ToValue)]
#[cql(crate = ::facade::driver)]
pub struct Size {
    /// A field.
    pub width: i32,
}
