//! Ids and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use uuid::Uuid;

use crate::error::value::{DecodeError, DecodeErrorKind, EncodeError, TypeError};
use crate::types::column_type::ColumnType;
use crate::types::decode::{Cell, FromValue, not_null};
use crate::types::encode::{ToValue, ValueWriter};
use crate::types::impls::accept;

impl<'r> FromValue<'r> for Uuid {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Uuid | ColumnType::Timeuuid)
    }

    #[inline]
    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        not_null::<Self>(ty, cell)?
            .fixed::<Self, 16>(ty)
            .map(Self::from_bytes)
    }
}

impl ToValue for Uuid {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Uuid | ColumnType::Timeuuid)
    }

    #[inline]
    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        <Self as ToValue>::check(ty)?;
        out.fixed(*self.as_bytes())
    }
}

impl<'r> FromValue<'r> for IpAddr {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Inet)
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        let bytes = not_null::<Self>(ty, cell)?.bytes();
        if let Ok(four) = <[u8; 4]>::try_from(bytes) {
            return Ok(four.into());
        }
        match <[u8; 16]>::try_from(bytes) {
            Ok(sixteen) => Ok(sixteen.into()),
            Err(_) if bytes.is_empty() => Err(DecodeError::of::<Self>(ty, DecodeErrorKind::Empty)),
            Err(_) => Err(DecodeError::of::<Self>(
                ty,
                DecodeErrorKind::AddressSize {
                    actual: bytes.len(),
                },
            )),
        }
    }
}

impl ToValue for IpAddr {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Inet)
    }

    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        <Self as ToValue>::check(ty)?;
        match self {
            Self::V4(address) => out.fixed(address.octets()),
            Self::V6(address) => out.fixed(address.octets()),
        }
    }
}

macro_rules! one_family {
    ($($address:ty, $variant:ident;)*) => {$(
        impl<'r> FromValue<'r> for $address {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                accept!(ty, ColumnType::Inet)
            }

            /// Refuses addresses of the other family.
            fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
                match IpAddr::from_value(ty, cell)? {
                    IpAddr::$variant(address) => Ok(address),
                    _ => Err(DecodeError::of::<Self>(ty, DecodeErrorKind::OutOfRange)),
                }
            }
        }

        impl ToValue for $address {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                accept!(ty, ColumnType::Inet)
            }

            fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
                <Self as ToValue>::check(ty)?;
                out.fixed(self.octets())
            }
        }
    )*};
}

one_family! {
    Ipv4Addr, V4;
    Ipv6Addr, V6;
}
