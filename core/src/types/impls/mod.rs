//! The Rust types that values are read into and written from. One file per kind of type; nothing here is public by name.

mod collections;
mod ids;
mod numbers;
mod rows;
mod text;
mod times;
mod tuples;
mod wrappers;

/// Writes the body of a `check` that takes the listed column types.
macro_rules! accept {
    ($ty:expr, $($accepted:pat_param)|+) => {
        match $ty {
            $($accepted)|+ => Ok(()),
            other => Err($crate::error::value::TypeError::mismatch::<Self>(other)),
        }
    };
}

pub(crate) use accept;
