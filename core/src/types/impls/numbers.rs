//! Numbers and booleans. Each Rust type has its CQL types; nothing is widened or narrowed in silence.

use crate::error::value::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, TypeError};
use crate::types::column_type::ColumnType;
use crate::types::decode::{Cell, FromValue, not_null};
use crate::types::encode::{ToValue, ValueWriter};
use crate::types::impls::accept;
use crate::types::value::{Decimal, Varint};

macro_rules! fixed_number {
    ($($number:ty => $($accepted:ident)|+;)*) => {$(
        impl<'r> FromValue<'r> for $number {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                accept!(ty, $(ColumnType::$accepted)|+)
            }

            #[inline]
            fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
                let bytes = not_null::<Self>(ty, cell)?.fixed::<Self, { size_of::<$number>() }>(ty)?;
                Ok(Self::from_be_bytes(bytes))
            }
        }

        impl ToValue for $number {
            #[inline]
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                accept!(ty, $(ColumnType::$accepted)|+)
            }

            #[inline]
            fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
                <Self as ToValue>::check(ty)?;
                out.fixed(self.to_be_bytes())
            }
        }
    )*};
}

fixed_number! {
    i8 => TinyInt;
    i16 => SmallInt;
    i32 => Int;
    i64 => BigInt | Counter;
    f32 => Float;
    f64 => Double;
}

impl<'r> FromValue<'r> for bool {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Boolean)
    }

    #[inline]
    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        let [byte] = not_null::<Self>(ty, cell)?.fixed::<Self, 1>(ty)?;
        Ok(byte != 0)
    }
}

impl ToValue for bool {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Boolean)
    }

    #[inline]
    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        <Self as ToValue>::check(ty)?;
        out.fixed([u8::from(*self)])
    }
}

impl<'r> FromValue<'r> for Varint {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Varint)
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        let bytes = not_null::<Self>(ty, cell)?.bytes();
        if bytes.is_empty() {
            return Err(DecodeError::of::<Self>(ty, DecodeErrorKind::Empty));
        }
        Ok(Self::from_bytes(bytes))
    }
}

impl ToValue for Varint {
    /// Takes the types of fixed size as well: numbers that do not fit are refused one by one.
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(
            ty,
            ColumnType::Varint | ColumnType::BigInt | ColumnType::Counter
        )
    }

    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        <Self as ToValue>::check(ty)?;
        match ty {
            ColumnType::Varint => out.bytes(self.as_bytes()),
            _ => match i64::try_from(self) {
                Ok(number) => out.fixed(number.to_be_bytes()),
                Err(_) => Err(EncodeError::of::<Self>(ty, EncodeErrorKind::OutOfRange)),
            },
        }
    }
}

impl<'r> FromValue<'r> for Decimal {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Decimal)
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        let bytes = not_null::<Self>(ty, cell)?.bytes();
        match bytes.split_first_chunk::<4>() {
            Some((scale, unscaled)) if !unscaled.is_empty() => Ok(Self {
                scale: i32::from_be_bytes(*scale),
                unscaled: Varint::from_bytes(unscaled),
            }),
            _ if bytes.is_empty() => Err(DecodeError::of::<Self>(ty, DecodeErrorKind::Empty)),
            _ => {
                let kind = DecodeErrorKind::Size {
                    expected: DECIMAL_MIN,
                    actual: bytes.len(),
                };
                Err(DecodeError::of::<Self>(ty, kind))
            }
        }
    }
}

impl ToValue for Decimal {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Decimal)
    }

    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        <Self as ToValue>::check(ty)?;
        out.content(|content| {
            content.raw(&self.scale.to_be_bytes());
            content.raw(self.unscaled.as_bytes());
            Ok(())
        })
    }
}

/// A scale and one byte of digits.
const DECIMAL_MIN: usize = 5;
