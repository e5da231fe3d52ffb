//! Text and bytes. Borrowed types show the page itself; `Bytes` shares it.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::value::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, TypeError};
use crate::types::column_type::ColumnType;
use crate::types::decode::{Cell, FromValue, not_null};
use crate::types::encode::{ToValue, ValueWriter};
use crate::types::impls::accept;

impl<'r> FromValue<'r> for &'r str {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Text | ColumnType::Ascii)
    }

    #[inline]
    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        let bytes = not_null::<Self>(ty, cell)?.bytes();
        match std::str::from_utf8(bytes) {
            Ok(text) if !matches!(ty, ColumnType::Ascii) || text.is_ascii() => Ok(text),
            Ok(_) => Err(bad_text(ty, DecodeErrorKind::NotAscii)),
            Err(_) if matches!(ty, ColumnType::Ascii) => {
                Err(bad_text(ty, DecodeErrorKind::NotAscii))
            }
            Err(_) => Err(bad_text(ty, DecodeErrorKind::NotUtf8)),
        }
    }
}

#[cold]
fn bad_text(ty: &ColumnType, kind: DecodeErrorKind) -> DecodeError {
    DecodeError::of::<&str>(ty, kind)
}

impl ToValue for str {
    #[inline]
    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        match ty {
            ColumnType::Text => out.bytes(self.as_bytes()),
            ColumnType::Ascii if self.is_ascii() => out.bytes(self.as_bytes()),
            ColumnType::Ascii => Err(EncodeError::of::<Self>(ty, EncodeErrorKind::NotAscii)),
            _ => Err(TypeError::mismatch::<Self>(ty).into()),
        }
    }
}

fn check_text<T: ?Sized>(ty: &ColumnType) -> Result<(), TypeError> {
    match ty {
        ColumnType::Text | ColumnType::Ascii => Ok(()),
        _ => Err(TypeError::mismatch::<T>(ty)),
    }
}

impl ToValue for &str {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        check_text::<Self>(ty)
    }

    #[inline]
    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        str::to_value(self, ty, out)
    }
}

macro_rules! owned_text {
    ($($text:ty),*) => {$(
        impl<'r> FromValue<'r> for $text {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                check_text::<Self>(ty)
            }

            #[inline]
            fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
                <&'r str as FromValue<'r>>::from_value(ty, cell).map(Self::from)
            }
        }

        impl ToValue for $text {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                check_text::<Self>(ty)
            }

            #[inline]
            fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
                str::to_value(self, ty, out)
            }
        }
    )*};
}

owned_text!(String, Box<str>, Arc<str>);

impl<'r> FromValue<'r> for Cow<'r, str> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        check_text::<Self>(ty)
    }

    #[inline]
    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        <&'r str as FromValue<'r>>::from_value(ty, cell).map(Cow::Borrowed)
    }
}

impl ToValue for Cow<'_, str> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        check_text::<Self>(ty)
    }

    #[inline]
    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        str::to_value(self, ty, out)
    }
}

fn check_bytes<T: ?Sized>(ty: &ColumnType) -> Result<(), TypeError> {
    match ty {
        ColumnType::Blob | ColumnType::Custom(_) => Ok(()),
        _ => Err(TypeError::mismatch::<T>(ty)),
    }
}

impl<'r> FromValue<'r> for &'r [u8] {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        check_bytes::<Self>(ty)
    }

    #[inline]
    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        not_null::<Self>(ty, cell).map(|cell| cell.bytes())
    }
}

impl<'r> FromValue<'r> for Vec<u8> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        check_bytes::<Self>(ty)
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        not_null::<Self>(ty, cell).map(|cell| cell.bytes().to_vec())
    }
}

impl<'r> FromValue<'r> for Bytes {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        check_bytes::<Self>(ty)
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        not_null::<Self>(ty, cell).map(|cell| cell.shared())
    }
}

impl ToValue for [u8] {
    #[inline]
    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        check_bytes::<Self>(ty)?;
        out.bytes(self)
    }
}

macro_rules! written_bytes {
    ($([$($generics:tt)*] $bytes:ty),*) => {$(
        impl<$($generics)*> ToValue for $bytes {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                check_bytes::<Self>(ty)
            }

            #[inline]
            fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
                check_bytes::<Self>(ty)?;
                out.bytes(&self[..])
            }
        }
    )*};
}

written_bytes!([] &[u8], [] Vec<u8>, [const N: usize] [u8; N]);

impl ToValue for Bytes {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        check_bytes::<Self>(ty)
    }

    #[inline]
    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        check_bytes::<Self>(ty)?;
        out.shared(self)
    }
}
