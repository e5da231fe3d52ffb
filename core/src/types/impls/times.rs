//! Dates, times and durations.

use std::time::SystemTime;

use crate::error::value::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, TypeError};
use crate::types::column_type::ColumnType;
use crate::types::decode::{Cell, FromValue, not_null};
use crate::types::encode::{ToValue, ValueWriter};
use crate::types::impls::accept;
use crate::types::value::{Date, Duration, Time, Timestamp};
use crate::wire::read::Reader;

macro_rules! counted_time {
    ($($time:ident;)*) => {$(
        impl<'r> FromValue<'r> for $time {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                accept!(ty, ColumnType::$time)
            }

            #[inline]
            fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
                not_null::<Self>(ty, cell)?.fixed::<Self, 8>(ty).map(|bytes| Self(i64::from_be_bytes(bytes)))
            }
        }

        impl ToValue for $time {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                accept!(ty, ColumnType::$time)
            }

            #[inline]
            fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
                <Self as ToValue>::check(ty)?;
                out.fixed(self.0.to_be_bytes())
            }
        }
    )*};
}

counted_time! {
    Time;
    Timestamp;
}

impl<'r> FromValue<'r> for Date {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Date)
    }

    #[inline]
    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        not_null::<Self>(ty, cell)?
            .fixed::<Self, 4>(ty)
            .map(Self::from_bytes)
    }
}

impl ToValue for Date {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Date)
    }

    #[inline]
    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        <Self as ToValue>::check(ty)?;
        out.fixed(self.to_bytes())
    }
}

impl<'r> FromValue<'r> for Duration {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Duration)
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(not_null::<Self>(ty, cell)?.bytes());
        let (months, days, nanos) = (reader.vint()?, reader.vint()?, reader.vint()?);
        if !reader.is_empty() {
            return Err(DecodeError::of::<Self>(
                ty,
                DecodeErrorKind::Surplus {
                    bytes: reader.remaining(),
                },
            ));
        }
        match (i32::try_from(months), i32::try_from(days)) {
            (Ok(months), Ok(days)) => Ok(Self {
                months,
                days,
                nanos,
            }),
            _ => Err(DecodeError::of::<Self>(ty, DecodeErrorKind::OutOfRange)),
        }
    }
}

impl ToValue for Duration {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Duration)
    }

    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        <Self as ToValue>::check(ty)?;
        let (bytes, len) = self.to_bytes();
        out.bytes(bytes.get(..len).unwrap_or_default())
    }
}

impl<'r> FromValue<'r> for SystemTime {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Timestamp)
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        match Timestamp::from_value(ty, cell)?.system_time() {
            Some(time) => Ok(time),
            None => Err(DecodeError::of::<Self>(ty, DecodeErrorKind::OutOfRange)),
        }
    }
}

impl ToValue for SystemTime {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Timestamp)
    }

    /// Writes the millisecond that the instant falls into: the type has nothing finer.
    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        match Timestamp::from_system_time(*self) {
            Some(time) => time.to_value(ty, out),
            None => Err(EncodeError::of::<Self>(ty, EncodeErrorKind::OutOfRange)),
        }
    }
}
