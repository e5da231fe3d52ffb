//! Values without a Rust type of their own: the dynamic `Value` and the CQL types that std has no match for.

mod big;
mod dynamic;
#[cfg(feature = "serde")]
mod serde;
mod temporal;

pub use big::{Decimal, NumberRangeError, ParseNumberError, Varint};
pub use dynamic::Value;
pub(crate) use dynamic::check_dimension;
pub(crate) use temporal::vint_bytes;
pub use temporal::{Date, Duration, Time, TimeRangeError, Timestamp};

/// Leaves a column as it is: the value of a marker that is not set.
///
/// Null deletes what a column holds, `Unset` does not touch it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Unset;

/// Holds a value or leaves the column as it is.
///
/// ```
/// use messina_core::types::{ColumnType, EncodedValues, MaybeUnset, RowWriter};
///
/// let mut values = EncodedValues::new();
/// RowWriter::new(&mut values).write(&ColumnType::Int, &MaybeUnset::<i32>::Unset)?;
/// assert_eq!(values.values().bytes, (-2_i32).to_be_bytes());
/// # Ok::<(), messina_core::types::EncodeError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MaybeUnset<T> {
    /// Not set.
    #[default]
    Unset,
    /// Set to this value.
    Set(T),
}

impl<T> From<Option<T>> for MaybeUnset<T> {
    /// Takes `None` as "not set", not as null.
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unset, Self::Set)
    }
}

/// Holds a value or the zero-length "empty" that old data has in columns of numbers, times and ids.
///
/// Empty is neither null nor a number; a plain `i32` refuses to read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaybeEmpty<T> {
    /// Zero bytes.
    Empty,
    /// A value.
    Value(T),
}

impl<T> MaybeEmpty<T> {
    /// Returns the value, if there is one.
    #[must_use]
    pub fn value(self) -> Option<T> {
        match self {
            Self::Empty => None,
            Self::Value(value) => Some(value),
        }
    }
}
