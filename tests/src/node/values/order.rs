//! The order of CQL values as the server has it, and whole numbers of any length in decimal and binary form.

use std::cmp::Ordering;

use messina_core::types::column_type::ColumnType;

use super::{array, components, entries, items, vector_items};
use crate::node::cql::ast::Direction;

/// Compares two values of one type as the server orders them; null comes first.
pub(crate) fn compare(ty: &ColumnType, a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
    let key = |value: Option<&[u8]>| {
        let mut out = Vec::new();
        put_ordered(ty, value, &mut out);
        out
    };
    key(a).cmp(&key(b))
}

/// Appends one component of a clustering key in a form whose byte order is the order of the values.
pub(crate) fn put_clustering(
    ty: &ColumnType,
    bytes: &[u8],
    direction: Direction,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    put_ordered(ty, Some(bytes), out);
    if direction == Direction::Descending {
        for byte in out.iter_mut().skip(start) {
            *byte = !*byte;
        }
    }
}

/// No ordered form is a prefix of another one of the same type.
fn put_ordered(ty: &ColumnType, value: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(bytes) = value else {
        out.push(0);
        return;
    };
    if bytes.is_empty() {
        out.push(1);
        return;
    }
    out.push(2);
    match ty {
        ColumnType::TinyInt
        | ColumnType::SmallInt
        | ColumnType::Int
        | ColumnType::BigInt
        | ColumnType::Counter
        | ColumnType::Timestamp
        | ColumnType::Time => put_signed(bytes, out),
        ColumnType::Float | ColumnType::Double => put_float(bytes, out),
        ColumnType::Boolean | ColumnType::Date => out.extend_from_slice(bytes),
        ColumnType::Timeuuid => put_timeuuid(bytes, out),
        ColumnType::Uuid => {
            let version = bytes.get(6).map_or(0, |byte| byte >> 4);
            out.push(version);
            if version == 1 {
                put_timeuuid(bytes, out)
            } else {
                out.extend_from_slice(bytes)
            }
        }
        ColumnType::Varint => put_varint(bytes, out),
        ColumnType::Decimal => put_decimal(bytes, out),
        ColumnType::List(element) | ColumnType::Set(element) => {
            for item in items(bytes).unwrap_or_default() {
                out.push(1);
                put_ordered(element, Some(item), out);
            }
            out.push(0);
        }
        ColumnType::Map(types) => {
            for (key, value) in entries(bytes).unwrap_or_default() {
                out.push(1);
                put_ordered(&types.0, Some(key), out);
                put_ordered(&types.1, Some(value), out);
            }
            out.push(0);
        }
        ColumnType::Tuple(types) => {
            let parts = components(bytes, types.len()).unwrap_or_default();
            for (at, ty) in types.iter().enumerate() {
                put_ordered(ty, parts.get(at).copied().flatten(), out);
            }
        }
        ColumnType::Udt(udt) => {
            let parts = components(bytes, udt.fields.len()).unwrap_or_default();
            for (at, (_, ty)) in udt.fields.iter().enumerate() {
                put_ordered(ty, parts.get(at).copied().flatten(), out);
            }
        }
        ColumnType::Vector { element, dimension } => {
            for item in vector_items(element, *dimension, bytes).unwrap_or_default() {
                put_ordered(element, Some(item), out);
            }
        }
        _ => put_escaped(bytes, out),
    }
}

fn put_signed(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(bytes);
    if let Some(first) = out.get_mut(start) {
        *first ^= 0x80;
    }
}

/// NaN comes last, as the server has it.
fn put_float(bytes: &[u8], out: &mut Vec<u8>) {
    let nan = match bytes.len() {
        4 => f32::from_be_bytes(array(bytes)).is_nan(),
        _ => f64::from_be_bytes(array(bytes)).is_nan(),
    };
    if nan {
        out.extend(std::iter::repeat_n(0xff, bytes.len()));
        return;
    }
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    if negative {
        out.extend(bytes.iter().map(|byte| !byte));
    } else {
        put_signed(bytes, out);
    }
}

/// Time first, then the rest as signed bytes.
fn put_timeuuid(bytes: &[u8], out: &mut Vec<u8>) {
    let uuid: [u8; 16] = array(bytes);
    out.extend_from_slice(&[uuid[6] & 0x0f, uuid[7], uuid[4], uuid[5]]);
    out.extend_from_slice(&uuid[..4]);
    out.extend(uuid[8..].iter().map(|byte| byte ^ 0x80));
}

/// The bytes of a two's complement number without needless leading ones.
fn trim_varint(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let [first, second, ..] = rest {
        let needless =
            (*first == 0 && second & 0x80 == 0) || (*first == 0xff && second & 0x80 != 0);
        if !needless {
            break;
        }
        rest = &rest[1..];
    }
    rest
}

fn put_varint(bytes: &[u8], out: &mut Vec<u8>) {
    let bytes = trim_varint(bytes);
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.push(u8::from(!negative));
    out.extend_from_slice(&(if negative { !len } else { len }).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Sign, exponent and digits of `0.digits · 10^exponent`, so that 1.0 and 1.00 are equal.
fn put_decimal(bytes: &[u8], out: &mut Vec<u8>) {
    let Some((scale, unscaled)) = bytes.split_first_chunk::<4>() else {
        return put_escaped(bytes, out);
    };
    if DECIMAL_ORDER_MAX < unscaled.len() {
        // Turning so many digits into decimal ones would take too long; any fixed order does.
        out.push(3);
        return put_escaped(bytes, out);
    }
    let negative = unscaled.first().is_some_and(|byte| byte & 0x80 != 0);
    let digits = decimal_digits(unscaled);
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        out.push(1);
        return;
    }
    let exponent =
        i64::try_from(digits.len()).unwrap_or(i64::MAX) - i64::from(i32::from_be_bytes(*scale));
    let start = out.len() + 1;
    out.push(if negative { 0 } else { 2 });
    out.extend_from_slice(&(exponent ^ i64::MIN).to_be_bytes());
    out.extend_from_slice(significant.as_bytes());
    out.push(0);
    if negative {
        for byte in out.iter_mut().skip(start) {
            *byte = !*byte;
        }
    }
}

/// The length of unscaled numbers beyond which decimals are not ordered by value.
const DECIMAL_ORDER_MAX: usize = 8 * 1024;

/// The decimal digits of the magnitude of a two's complement number, without leading zeros.
pub(crate) fn decimal_digits(bytes: &[u8]) -> String {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let mut limbs: Vec<u64> = Vec::new();
    for byte in bytes {
        let byte = if negative { !byte } else { *byte };
        let mut carry = u64::from(byte);
        for limb in &mut limbs {
            let wide = *limb * 256 + carry;
            *limb = wide % LIMB;
            carry = wide / LIMB;
        }
        if carry != 0 {
            limbs.push(carry);
        }
    }
    if negative {
        // The magnitude of a negative number is its complement plus one.
        let mut carry = 1;
        for limb in &mut limbs {
            let wide = *limb + carry;
            *limb = wide % LIMB;
            carry = wide / LIMB;
        }
        if carry != 0 {
            limbs.push(carry);
        }
    }
    let mut text: String = limbs
        .iter()
        .rev()
        .map(|limb| format!("{limb:09}"))
        .collect();
    let zeros = text.len() - text.trim_start_matches('0').len();
    text.drain(..zeros);
    text
}

const LIMB: u64 = 1_000_000_000;

/// The shortest two's complement form of a decimal number; `None` when it is none or much too long.
pub(crate) fn varint_from_digits(text: &str) -> Option<Vec<u8>> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits.is_empty() || DIGITS_MAX < digits.len() || !digits.bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    // Little-endian magnitude.
    let mut magnitude: Vec<u8> = vec![0];
    for digit in digits.bytes() {
        let mut carry = u16::from(digit - b'0');
        for byte in &mut magnitude {
            let [high, low] = (u16::from(*byte) * 10 + carry).to_be_bytes();
            *byte = low;
            carry = u16::from(high);
        }
        if carry != 0 {
            magnitude.push(carry.to_be_bytes()[1]);
        }
    }
    magnitude.push(0);
    if negative {
        let mut carry = true;
        for byte in &mut magnitude {
            let (value, overflow) = (!*byte).overflowing_add(u8::from(carry));
            *byte = value;
            carry = overflow;
        }
    }
    magnitude.reverse();
    Some(trim_varint(&magnitude).to_vec())
}

/// Longer numbers in CQL text are refused: converting them takes quadratic time.
const DIGITS_MAX: usize = 10_000;

/// Zero bytes are escaped and the end is marked, so that the order is that of the bytes.
fn put_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}
