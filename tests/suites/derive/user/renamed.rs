//! An application that gave the adapter another name.
#![deny(warnings)]

use driver::{FromRow, FromValue, ToRow, ToValue};

/// A row.
#[derive(FromRow, ToRow)]
pub struct Item {
    /// A value.
    pub kind: Kind,
    /// A user-defined type.
    pub size: Size,
}

/// A value.
#[derive(FromValue, ToValue)]
pub enum Kind {
    /// One.
    Book,
}

/// A user-defined type.
#[derive(FromValue, ToValue)]
pub struct Size {
    /// A field.
    pub width: i32,
}
