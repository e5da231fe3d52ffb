//! Types around other types: null, unset, empty, references and boxes.

use std::sync::Arc;

use crate::error::value::{DecodeError, EncodeError, EncodeErrorKind, TypeError};
use crate::types::column_type::ColumnType;
use crate::types::decode::{Cell, FromValue, has_empty};
use crate::types::encode::{ToValue, ValueWriter};
use crate::types::value::{MaybeEmpty, MaybeUnset, Unset};

impl<'r, T: FromValue<'r>> FromValue<'r> for Option<T> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        T::check(ty)
    }

    #[inline]
    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        match cell {
            Some(_) => T::from_value(ty, cell).map(Some),
            None => Ok(None),
        }
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        T::check(ty)
    }

    #[inline]
    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        match self {
            Some(value) => value.to_value(ty, out),
            None => {
                T::check(ty)?;
                out.null()
            }
        }
    }
}

impl ToValue for Unset {
    fn check(_ty: &ColumnType) -> Result<(), TypeError> {
        Ok(())
    }

    fn to_value(&self, _ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        out.unset()
    }
}

impl<T: ToValue> ToValue for MaybeUnset<T> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        T::check(ty)
    }

    #[inline]
    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        match self {
            Self::Set(value) => value.to_value(ty, out),
            Self::Unset => {
                T::check(ty)?;
                out.unset()
            }
        }
    }
}

impl<'r, T: FromValue<'r>> FromValue<'r> for MaybeEmpty<T> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        T::check(ty)
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        match cell {
            Some(cell) if cell.bytes().is_empty() && has_empty(ty) => Ok(Self::Empty),
            _ => T::from_value(ty, cell).map(Self::Value),
        }
    }
}

impl<T: ToValue> ToValue for MaybeEmpty<T> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        T::check(ty)
    }

    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        match self {
            Self::Value(value) => value.to_value(ty, out),
            Self::Empty if has_empty(ty) => out.bytes(&[]),
            Self::Empty => Err(EncodeError::of::<Self>(
                ty,
                EncodeErrorKind::EmptyNotAllowed,
            )),
        }
    }
}

impl<'r, T: FromValue<'r>> FromValue<'r> for Box<T> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        T::check(ty)
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        T::from_value(ty, cell).map(Self::new)
    }
}

macro_rules! forwarded {
    ($($(<$life:lifetime>)? $outer:ty;)*) => {$(
        impl<T: ToValue> ToValue for $outer {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                T::check(ty)
            }

            #[inline]
            fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
                T::to_value(self, ty, out)
            }
        }
    )*};
}

forwarded! {
    &T;
    Box<T>;
    Arc<T>;
}

impl ToValue for &dyn ToValue {
    /// Accepts any type: what is behind the reference checks when it is written.
    fn check(_ty: &ColumnType) -> Result<(), TypeError> {
        Ok(())
    }

    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        (**self).to_value(ty, out)
    }
}

impl ToValue for Box<dyn ToValue> {
    /// Accepts any type: what is in the box checks when it is written.
    fn check(_ty: &ColumnType) -> Result<(), TypeError> {
        Ok(())
    }

    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        (**self).to_value(ty, out)
    }
}
