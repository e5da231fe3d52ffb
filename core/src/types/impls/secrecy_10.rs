//! Secrets of the crate secrecy: values that show themselves in no log and are wiped when they are dropped.
//!
//! The page they are read from and the request they are written into are ordinary memory, which is not wiped.

use secrecy::zeroize::Zeroize;
use secrecy::{ExposeSecret, SecretBox, SecretSlice, SecretString};

use crate::error::value::{DecodeError, EncodeError, TypeError};
use crate::types::column_type::ColumnType;
use crate::types::decode::{Cell, FromValue};
use crate::types::encode::{ToValue, ValueWriter};

impl<'r, T: FromValue<'r> + Zeroize> FromValue<'r> for SecretBox<T> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        T::check(ty)
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        T::from_value(ty, cell).map(|value| Self::new(Box::new(value)))
    }
}

impl<T: ToValue + Zeroize> ToValue for SecretBox<T> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        T::check(ty)
    }

    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        self.expose_secret().to_value(ty, out)
    }
}

macro_rules! unsized_secret {
    ($($secret:ty: $borrowed:ty, $owned:ty;)*) => {$(
        impl<'r> FromValue<'r> for $secret {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                <$borrowed as FromValue>::check(ty)
            }

            fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
                // The exact size is known, so that no copy is left behind by growing or shrinking.
                <$owned>::from_value(ty, cell).map(Self::from)
            }
        }

        impl ToValue for $secret {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                <$borrowed as ToValue>::check(ty)
            }

            fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
                self.expose_secret().to_value(ty, out)
            }
        }
    )*};
}

unsized_secret! {
    SecretString: &str, String;
    SecretSlice<u8>: &[u8], Vec<u8>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::impls::crate_tests::{read, written};

    #[test]
    fn secrets_are_written_and_read_like_what_they_hold() {
        let text: SecretString = read(&ColumnType::Text, b"hunter2").unwrap();
        assert_eq!(text.expose_secret(), "hunter2");
        assert_eq!(written(&ColumnType::Text, &text).unwrap(), b"hunter2");
        let blob: SecretSlice<u8> = read(&ColumnType::Blob, &[1, 2]).unwrap();
        assert_eq!(blob.expose_secret(), [1, 2]);
        assert_eq!(written(&ColumnType::Blob, &blob).unwrap(), [1, 2]);
        let number: SecretBox<i32> = read(&ColumnType::Int, &[0, 0, 0, 7]).unwrap();
        assert_eq!(*number.expose_secret(), 7);
        assert_eq!(written(&ColumnType::Int, &number).unwrap(), [0, 0, 0, 7]);
    }

    #[test]
    fn a_secret_shows_itself_neither_in_debug_nor_in_errors() {
        let text: SecretString = read(&ColumnType::Text, b"hunter2").unwrap();
        assert!(!format!("{text:?}").contains("hunter2"));
        let errors = [
            written(&ColumnType::Int, &text).unwrap_err().to_string(),
            read::<SecretString>(&ColumnType::Text, b"hunter2\xff")
                .unwrap_err()
                .to_string(),
        ];
        assert!(errors.iter().all(|error| !error.contains("hunter2")));
    }
}
