//! Whole and decimal numbers of any size, as CQL carries them. Arithmetic is left to crates made for it.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Holds a whole number of any size: two's complement, big-endian, in its shortest form.
///
/// ```
/// use messina_core::types::Varint;
///
/// let number = Varint::from(128_i64);
/// assert_eq!(number.as_bytes(), [0x00, 0x80]);
/// assert_eq!(number.to_string(), "128");
/// assert_eq!("-129".parse::<Varint>()?.as_bytes(), [0xff, 0x7f]);
/// assert_eq!(i64::try_from(&number), Ok(128));
/// # Ok::<(), messina_core::types::ParseNumberError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Varint(Vec<u8>);

impl Varint {
    /// Takes two's complement bytes, most significant first, in any length; no bytes are zero.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut rest = bytes;
        while let [first, second, ..] = rest {
            let sign_repeats =
                (*first == 0 && *second < 0x80) || (*first == 0xff && 0x80 <= *second);
            if !sign_repeats {
                break;
            }
            rest = rest.split_first().map_or(rest, |(_, rest)| rest);
        }
        if rest.is_empty() {
            Self(vec![0])
        } else {
            Self(rest.to_vec())
        }
    }

    /// Returns the shortest two's complement bytes, most significant first; at least one.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Says whether the number is below zero.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.0.first().is_some_and(|first| 0x80 <= *first)
    }

    fn extend<const N: usize>(&self) -> Result<[u8; N], NumberRangeError> {
        let mut all = if self.is_negative() {
            [0xff; N]
        } else {
            [0; N]
        };
        let start = N.checked_sub(self.0.len()).ok_or(NumberRangeError)?;
        all.get_mut(start..)
            .ok_or(NumberRangeError)?
            .copy_from_slice(&self.0);
        Ok(all)
    }

    /// Returns the bytes of the number without its sign.
    fn magnitude(&self) -> Vec<u8> {
        let mut bytes = self.0.clone();
        if self.is_negative() {
            negate(&mut bytes);
        }
        bytes
    }
}

/// Turns two's complement bytes into those of the negative, in place.
fn negate(bytes: &mut [u8]) {
    let mut carry = true;
    for byte in bytes.iter_mut().rev() {
        let (value, more) = (!*byte).overflowing_add(u8::from(carry));
        (*byte, carry) = (value, more);
    }
}

impl Default for Varint {
    /// Zero.
    fn default() -> Self {
        Self(vec![0])
    }
}

impl From<i64> for Varint {
    fn from(value: i64) -> Self {
        Self::from_bytes(&value.to_be_bytes())
    }
}

impl From<i128> for Varint {
    fn from(value: i128) -> Self {
        Self::from_bytes(&value.to_be_bytes())
    }
}

impl TryFrom<&Varint> for i64 {
    type Error = NumberRangeError;

    fn try_from(value: &Varint) -> Result<Self, NumberRangeError> {
        value.extend().map(Self::from_be_bytes)
    }
}

impl TryFrom<&Varint> for i128 {
    type Error = NumberRangeError;

    fn try_from(value: &Varint) -> Result<Self, NumberRangeError> {
        value.extend().map(Self::from_be_bytes)
    }
}

impl fmt::Display for Varint {
    /// Writes the decimal digits; the cost grows with the square of their number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.magnitude();
        let mut groups = Vec::new();
        while rest.iter().any(|byte| *byte != 0) {
            let mut remainder = 0_u64;
            for byte in &mut rest {
                let value = (remainder << 8) | u64::from(*byte);
                // Below 256, because the remainder is below the divisor.
                *byte = u8::try_from(value / GROUP).unwrap_or(u8::MAX);
                remainder = value % GROUP;
            }
            groups.push(remainder);
        }
        let mut digits = groups.pop().unwrap_or_default().to_string();
        for group in groups.iter().rev() {
            digits.push_str(&format!("{group:09}"));
        }
        f.pad_integral(!self.is_negative(), "", &digits)
    }
}

/// Nine decimal digits: the largest group whose remainder still has room for one more byte.
const GROUP: u64 = 1_000_000_000;

impl fmt::Debug for Varint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Varint({self})")
    }
}

impl FromStr for Varint {
    type Err = ParseNumberError;

    fn from_str(text: &str) -> Result<Self, ParseNumberError> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if digits.is_empty() {
            return Err(ParseNumberError);
        }
        // Least significant first while it grows.
        let mut bytes: Vec<u8> = Vec::with_capacity(digits.len() / 2 + 2);
        for digit in digits.chars() {
            let mut carry = digit.to_digit(10).ok_or(ParseNumberError)?;
            for byte in &mut bytes {
                let value = u32::from(*byte) * 10 + carry;
                let [_, _, high, low] = value.to_be_bytes();
                (*byte, carry) = (low, u32::from(high));
            }
            if carry != 0 {
                let [.., low] = carry.to_be_bytes();
                bytes.push(low);
            }
        }
        bytes.push(0);
        bytes.reverse();
        if negative {
            negate(&mut bytes);
        }
        Ok(Self::from_bytes(&bytes))
    }
}

/// Holds a decimal number: `unscaled` divided by ten to the power of `scale`, which may be negative.
///
/// 1.5 and 1.50 are different values with different bytes.
///
/// ```
/// use messina_core::types::{Decimal, Varint};
///
/// assert_eq!(Decimal { scale: 2, unscaled: Varint::from(150_i64) }.to_string(), "1.50");
/// assert_eq!(Decimal { scale: -2, unscaled: Varint::from(5_i64) }.to_string(), "5E2");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Decimal {
    /// How many digits of `unscaled` stand behind the point.
    pub scale: i32,
    /// The digits.
    pub unscaled: Varint,
}

impl fmt::Display for Decimal {
    /// Writes digits with a point, or with an exponent where the point would be far away.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.unscaled.to_string();
        let (sign, digits) = digits
            .strip_prefix('-')
            .map_or(("", digits.as_str()), |digits| ("-", digits));
        let exponent = -i64::from(self.scale);
        match usize::try_from(self.scale) {
            Ok(0) => write!(f, "{sign}{digits}"),
            Ok(scale) if scale <= PLAIN_SCALE_MAX => {
                let digits = format!("{digits:0>width$}", width = scale + 1);
                let (whole, part) = digits.split_at(digits.len() - scale);
                write!(f, "{sign}{whole}.{part}")
            }
            _ => write!(f, "{sign}{digits}E{exponent}"),
        }
    }
}

/// Above this many digits behind the point an exponent reads better, and a hostile scale costs no memory.
const PLAIN_SCALE_MAX: usize = 64;

/// Says that a text is not a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the text is not a whole number")]
pub struct ParseNumberError;

/// Says that a number does not fit a type of fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the number does not fit")]
pub struct NumberRangeError;
