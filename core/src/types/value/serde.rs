//! Values in the formats that serde knows; the mapping is told at `Value`. Statements and rows have no serde form.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::types::value::Varint;

impl Serialize for Varint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_bytes(self.as_bytes())
        }
    }
}

impl<'de> Deserialize<'de> for Varint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(Digits)
        } else {
            let bytes = deserializer.deserialize_byte_buf(RawBytes)?;
            Ok(Self::from_bytes(&bytes))
        }
    }
}

/// Reads the digits of a whole number.
struct Digits;

impl Visitor<'_> for Digits {
    type Value = Varint;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the digits of a whole number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Varint, E> {
        text.parse()
            .map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Reads bytes in whatever way the format has them.
struct RawBytes;

impl<'de> Visitor<'de> for RawBytes {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u8>, A::Error> {
        // What the format says about its length is not believed: the bytes come one by one.
        let mut bytes = Vec::new();
        while let Some(byte) = seq.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes)
    }
}

/// Blobs: `0x` and hexadecimal digits for people, as CQL writes them, bytes for others.
pub(super) mod bytes {
    use bytes::Bytes;
    use serde::de::{Error, Unexpected, Visitor};
    use serde::{Deserializer, Serializer};

    use super::{RawBytes, fmt};

    pub(crate) fn serialize<S: Serializer>(
        value: &Bytes,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(&format_args!("0x{value:x}"))
        } else {
            serializer.serialize_bytes(value)
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Bytes, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(Hex)
        } else {
            deserializer.deserialize_byte_buf(RawBytes).map(Bytes::from)
        }
    }

    struct Hex;

    impl Visitor<'_> for Hex {
        type Value = Bytes;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("`0x` and pairs of hexadecimal digits")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
            let wrong = || E::invalid_value(Unexpected::Str(text), &self);
            let digits = text.strip_prefix("0x").ok_or_else(wrong)?.as_bytes();
            let (pairs, []) = digits.as_chunks::<2>() else {
                return Err(wrong());
            };
            let byte = |pair: &[u8; 2]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
            let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
            bytes.map(Bytes::from).ok_or_else(wrong)
        }
    }

    fn digit(character: u8) -> Option<u8> {
        match character {
            b'0'..=b'9' => Some(character - b'0'),
            b'a'..=b'f' => Some(character - b'a' + 10),
            b'A'..=b'F' => Some(character - b'A' + 10),
            _ => None,
        }
    }
}

macro_rules! floats {
    ($($module:ident: $float:ident, $serialize:ident;)*) => {$(
        /// Numbers, and for people words where a number is not finite: JSON has no number for it.
        pub(super) mod $module {
            use serde::de::{Error, Unexpected, Visitor};
            use serde::{Deserialize, Deserializer, Serializer};

            use super::fmt;

            pub(crate) fn serialize<S: Serializer>(value: &$float, serializer: S) -> Result<S::Ok, S::Error> {
                if value.is_finite() || !serializer.is_human_readable() {
                    return serializer.$serialize(*value);
                }
                serializer.serialize_str(match value {
                    value if value.is_nan() => "NaN",
                    value if 0.0 < *value => "Infinity",
                    _ => "-Infinity",
                })
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$float, D::Error> {
                if deserializer.is_human_readable() {
                    deserializer.deserialize_any(NumberOrWord)
                } else {
                    $float::deserialize(deserializer)
                }
            }

            struct NumberOrWord;

            impl Visitor<'_> for NumberOrWord {
                type Value = $float;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a number, `NaN`, `Infinity` or `-Infinity`")
                }

                fn visit_str<E: Error>(self, text: &str) -> Result<$float, E> {
                    match text {
                        "NaN" => Ok($float::NAN),
                        "Infinity" => Ok($float::INFINITY),
                        "-Infinity" => Ok($float::NEG_INFINITY),
                        _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                    }
                }

                fn visit_f32<E: Error>(self, number: f32) -> Result<$float, E> {
                    Ok($float::from(number))
                }

                // Numbers of people's formats are rounded to the type, as every reader of decimal digits does.
                #[allow(clippy::cast_possible_truncation, trivial_numeric_casts)]
                fn visit_f64<E: Error>(self, number: f64) -> Result<$float, E> {
                    Ok(number as $float)
                }

                #[allow(clippy::cast_precision_loss)]
                fn visit_i64<E: Error>(self, number: i64) -> Result<$float, E> {
                    Ok(number as $float)
                }

                #[allow(clippy::cast_precision_loss)]
                fn visit_u64<E: Error>(self, number: u64) -> Result<$float, E> {
                    Ok(number as $float)
                }
            }
        }
    )*};
}

floats! {
    float: f32, serialize_f32;
    double: f64, serialize_f64;
}
