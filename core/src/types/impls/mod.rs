//! The Rust types that values are read into and written from. One file per kind of type; nothing here is public by name.

#[cfg(feature = "bigdecimal-04")]
mod bigdecimal_04;
#[cfg(feature = "chrono-04")]
mod chrono_04;
mod collections;
mod ids;
#[cfg(feature = "num-bigint-04")]
mod num_bigint_04;
mod numbers;
mod rows;
#[cfg(feature = "secrecy-10")]
mod secrecy_10;
mod text;
#[cfg(feature = "time-03")]
mod time_03;
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

/// Reads foreign types as one of ours each, from which they are converted.
#[cfg(any(feature = "chrono-04", feature = "time-03"))]
macro_rules! read_as {
    ($($foreign:ty as $ours:ident;)*) => {$(
        impl<'r> FromValue<'r> for $foreign {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                accept!(ty, ColumnType::$ours)
            }

            /// Refuses what lies outside of the type's range.
            fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
                match $ours::from_value(ty, cell) {
                    Ok(value) => Self::try_from(value)
                        .map_err(|_| DecodeError::of::<Self>(ty, DecodeErrorKind::OutOfRange)),
                    Err(error) => Err($crate::types::impls::named_as::<Self>(ty, error)),
                }
            }
        }
    )*};
}

/// Writes foreign types as one of ours each, to which they are converted.
#[cfg(any(feature = "chrono-04", feature = "time-03"))]
macro_rules! write_as {
    ($($foreign:ty as $ours:ident;)*) => {$(
        impl ToValue for $foreign {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                accept!(ty, ColumnType::$ours)
            }

            /// Writes what the CQL type can hold; finer parts of a second are cut, downwards.
            fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
                <Self as ToValue>::check(ty)?;
                match $ours::try_from(*self) {
                    Ok(value) => value.to_value(ty, out),
                    Err(_) => Err(EncodeError::of::<Self>(ty, EncodeErrorKind::OutOfRange)),
                }
            }
        }
    )*};
}

#[cfg(any(feature = "chrono-04", feature = "time-03"))]
pub(crate) use {read_as, write_as};

/// Says of an error that it happened to a `T`, not to the type that read the bytes for it.
#[cfg(any(feature = "bigdecimal-04", feature = "chrono-04", feature = "time-03"))]
#[cold]
pub(crate) fn named_as<T>(
    ty: &crate::types::ColumnType,
    error: crate::error::value::DecodeError,
) -> crate::error::value::DecodeError {
    crate::error::value::DecodeError::of::<T>(ty, error.kind().clone())
}

/// What the tests of foreign types have in common.
#[cfg(all(
    test,
    any(
        feature = "bigdecimal-04",
        feature = "chrono-04",
        feature = "num-bigint-04",
        feature = "secrecy-10",
        feature = "time-03"
    )
))]
pub(crate) mod crate_tests {
    use std::fmt::Debug;
    use std::sync::Arc;

    use crate::error::value::{DecodeError, EncodeError};
    use crate::types::{Cell, ColumnType, FromValue, ToValue, encode_value};

    /// Reads the bytes of a value.
    pub(crate) fn read<'r, T: FromValue<'r>>(
        ty: &'r ColumnType,
        bytes: &'r [u8],
    ) -> Result<T, DecodeError> {
        T::check(ty)?;
        T::from_value(ty, Some(Cell::of_slice(bytes)))
    }

    /// Returns the bytes of a value without their length.
    pub(crate) fn written(ty: &ColumnType, value: &impl ToValue) -> Result<Vec<u8>, EncodeError> {
        let mut bytes = Vec::new();
        encode_value(value, ty, &mut bytes)?;
        Ok(bytes.split_off(4))
    }

    /// Holds that these bytes are this value in both directions, alone and as elements of a list and a vector.
    pub(crate) fn round_trip<T>(ty: &ColumnType, bytes: &[u8], value: T)
    where
        T: for<'r> FromValue<'r> + ToValue + PartialEq + Debug,
    {
        assert_eq!(read::<T>(ty, bytes).unwrap(), value);
        assert_eq!(written(ty, &value).unwrap(), bytes, "{value:?}");
        let element = Arc::new(ty.clone());
        let all = [value];
        for ty in [
            ColumnType::List(element.clone()),
            ColumnType::Vector {
                element,
                dimension: 1,
            },
        ] {
            let bytes = written(&ty, &all.as_slice()).unwrap();
            assert_eq!(read::<Vec<T>>(&ty, &bytes).unwrap(), all);
        }
    }
}
