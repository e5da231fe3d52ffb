//! Whole numbers of any size of num-bigint.

use num_bigint::BigInt;

use crate::error::value::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, TypeError};
use crate::types::column_type::ColumnType;
use crate::types::decode::{Cell, FromValue, not_null};
use crate::types::encode::{ToValue, ValueWriter};
use crate::types::impls::accept;
use crate::types::value::Varint;

impl From<&BigInt> for Varint {
    fn from(number: &BigInt) -> Self {
        Self::from_bytes(&number.to_signed_bytes_be())
    }
}

impl From<&Varint> for BigInt {
    fn from(number: &Varint) -> Self {
        Self::from_signed_bytes_be(number.as_bytes())
    }
}

impl<'r> FromValue<'r> for BigInt {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        accept!(ty, ColumnType::Varint)
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        let bytes = not_null::<Self>(ty, cell)?.bytes();
        if bytes.is_empty() {
            return Err(DecodeError::of::<Self>(ty, DecodeErrorKind::Empty));
        }
        Ok(Self::from_signed_bytes_be(bytes))
    }
}

impl ToValue for BigInt {
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
            ColumnType::Varint => out.bytes(&self.to_signed_bytes_be()),
            _ => match i64::try_from(self) {
                Ok(number) => out.fixed(number.to_be_bytes()),
                Err(_) => Err(EncodeError::of::<Self>(ty, EncodeErrorKind::OutOfRange)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::impls::crate_tests::{read, round_trip, written};

    #[test]
    fn numbers_of_any_size_are_written_in_their_shortest_form_with_a_sign() {
        let wide: BigInt = BigInt::from(1) << 63;
        for (number, bytes) in [
            (BigInt::from(0), &[0x00][..]),
            (BigInt::from(127), &[0x7f]),
            (BigInt::from(128), &[0x00, 0x80]),
            (BigInt::from(255), &[0x00, 0xff]),
            (BigInt::from(256), &[0x01, 0x00]),
            (BigInt::from(-1), &[0xff]),
            (BigInt::from(-128), &[0x80]),
            (BigInt::from(-129), &[0xff, 0x7f]),
            (wide.clone(), &[0, 0x80, 0, 0, 0, 0, 0, 0, 0]),
            (
                -wide - 1,
                &[0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            ),
        ] {
            round_trip(&ColumnType::Varint, bytes, number.clone());
            assert_eq!(BigInt::from(&Varint::from(&number)), number);
        }
        // More bytes than needed are the same number.
        let long = read::<BigInt>(&ColumnType::Varint, &[0xff, 0xff, 0x7f]).unwrap();
        assert_eq!(long, BigInt::from(-129));
    }

    #[test]
    fn a_number_that_does_not_fit_a_bigint_is_a_range_error() {
        let fits = BigInt::from(i64::MIN);
        assert_eq!(
            written(&ColumnType::BigInt, &fits).unwrap(),
            i64::MIN.to_be_bytes()
        );
        let error = written(&ColumnType::BigInt, &(fits - 1)).unwrap_err();
        assert!(matches!(error.kind(), EncodeErrorKind::OutOfRange));
        assert!(written(&ColumnType::Int, &BigInt::from(1)).is_err());
        let error = read::<BigInt>(&ColumnType::Varint, &[]).unwrap_err();
        assert!(matches!(error.kind(), DecodeErrorKind::Empty));
    }
}
