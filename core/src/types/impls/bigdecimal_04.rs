//! Decimal numbers of bigdecimal.
//!
//! A peer chooses the scale, up to two thousand million digits on either side of the point. Reading and writing cost
//! nothing for it; arithmetic on such a number may ask for that many digits.

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::BigInt;

use crate::error::value::{DecodeError, EncodeError, EncodeErrorKind, TypeError};
use crate::types::column_type::ColumnType;
use crate::types::decode::{Cell, FromValue};
use crate::types::encode::{ToValue, ValueWriter};
use crate::types::impls::{accept, named_as};
use crate::types::value::{Decimal, NumberRangeError, Varint};

impl TryFrom<&BigDecimal> for Decimal {
    type Error = NumberRangeError;

    /// Refuses scales that CQL has no room for.
    fn try_from(number: &BigDecimal) -> Result<Self, NumberRangeError> {
        let (unscaled, scale) = number.as_bigint_and_scale();
        match i32::try_from(scale) {
            Ok(scale) => Ok(Self {
                scale,
                unscaled: Varint::from_bytes(&unscaled.to_signed_bytes_be()),
            }),
            Err(_) => Err(NumberRangeError),
        }
    }
}

impl From<&Decimal> for BigDecimal {
    fn from(number: &Decimal) -> Self {
        let unscaled = BigInt::from_signed_bytes_be(number.unscaled.as_bytes());
        Self::new(unscaled, i64::from(number.scale))
    }
}

impl<'r> FromValue<'r> for BigDecimal {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Decimal)
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        match Decimal::from_value(ty, cell) {
            Ok(number) => Ok(Self::from(&number)),
            Err(error) => Err(named_as::<Self>(ty, error)),
        }
    }
}

impl ToValue for BigDecimal {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Decimal)
    }

    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        <Self as ToValue>::check(ty)?;
        match Decimal::try_from(self) {
            Ok(number) => number.to_value(ty, out),
            Err(NumberRangeError) => Err(EncodeError::of::<Self>(ty, EncodeErrorKind::OutOfRange)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::value::DecodeErrorKind;
    use crate::types::impls::crate_tests::{read, round_trip, written};

    fn number(digits: i64, scale: i64) -> BigDecimal {
        BigDecimal::new(BigInt::from(digits), scale)
    }

    #[test]
    fn decimals_keep_their_scale_and_their_trailing_zeros() {
        for (bytes, digits, scale) in [
            (&[0, 0, 0, 2, 0x00, 0x96][..], 150, 2),
            (&[0, 0, 0, 1, 0x0f], 15, 1),
            (&[0xff, 0xff, 0xff, 0xfe, 0x05], 5, -2),
            (&[0, 0, 0, 0, 0xff], -1, 0),
            (&[0x7f, 0xff, 0xff, 0xff, 0x01], 1, i64::from(i32::MAX)),
            (&[0x80, 0, 0, 0, 0x01], 1, i64::from(i32::MIN)),
        ] {
            let read = read::<BigDecimal>(&ColumnType::Decimal, bytes).unwrap();
            // Equality of numbers looks past trailing zeros; the parts do not.
            assert_eq!(read.as_bigint_and_exponent(), (BigInt::from(digits), scale));
            assert_eq!(written(&ColumnType::Decimal, &read).unwrap(), bytes);
        }
        round_trip(&ColumnType::Decimal, &[0, 0, 0, 1, 0x0f], number(15, 1));
    }

    #[test]
    fn a_scale_that_does_not_fit_is_a_range_error() {
        for scale in [i64::from(i32::MAX) + 1, i64::from(i32::MIN) - 1] {
            let error = written(&ColumnType::Decimal, &number(1, scale)).unwrap_err();
            assert!(matches!(error.kind(), EncodeErrorKind::OutOfRange));
        }
    }

    #[test]
    fn a_decimal_without_digits_is_refused_under_its_own_name() {
        let error = read::<BigDecimal>(&ColumnType::Decimal, &[0, 0, 0, 1]).unwrap_err();
        assert!(matches!(error.kind(), DecodeErrorKind::Size { .. }));
        assert!(error.rust_type().unwrap().contains("BigDecimal"));
    }
}
