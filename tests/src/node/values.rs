//! The bytes of CQL values as the node stores them: are they well formed, and what is in a collection. In which order
//! they come is in `values::order`. This is written apart from the driver's own codec on purpose, so that each checks the other.

mod order;

use bytes::Bytes;
use messina_core::types::column_type::ColumnType;

pub(crate) use order::{compare, put_clustering, varint_from_digits};

/// Says what is wrong with the bytes of a value, or that nothing is.
///
/// An empty value is fine for every type but collections, tuples aside, as old data may hold it.
pub(crate) fn validate(ty: &ColumnType, bytes: &[u8]) -> Result<(), String> {
    if let Some(width) = fixed_width(ty) {
        return if bytes.is_empty() || bytes.len() == width {
            validate_fixed(ty, bytes)
        } else {
            Err(format!(
                "Validation failed - expected {width} bytes, got {}",
                bytes.len()
            ))
        };
    }
    match ty {
        ColumnType::Ascii if !bytes.is_ascii() => {
            Err("Validation failed - non-ASCII character in an ASCII string".to_owned())
        }
        ColumnType::Text if std::str::from_utf8(bytes).is_err() => {
            Err("Validation failed - non-UTF8 character in a UTF8 string".to_owned())
        }
        ColumnType::Inet if !matches!(bytes.len(), 0 | 4 | 16) => Err(format!(
            "Validation failed for inet_addr - got {} bytes",
            bytes.len()
        )),
        ColumnType::Decimal if !bytes.is_empty() && bytes.len() < 5 => Err(format!(
            "decimal value is too short - got {} bytes",
            bytes.len()
        )),
        ColumnType::List(element) | ColumnType::Set(element) => {
            for item in items(bytes)? {
                validate(element, item)?;
            }
            Ok(())
        }
        ColumnType::Map(types) => {
            for (key, value) in entries(bytes)? {
                validate(&types.0, key)?;
                validate(&types.1, value)?;
            }
            Ok(())
        }
        ColumnType::Tuple(components) => {
            validate_components(components.iter(), bytes, components.len())
        }
        ColumnType::Udt(udt) => {
            validate_components(udt.fields.iter().map(|(_, ty)| ty), bytes, udt.fields.len())
        }
        ColumnType::Vector { element, dimension } => {
            for item in vector_items(element, *dimension, bytes)? {
                validate(element, item)?;
            }
            Ok(())
        }
        ColumnType::Duration => match duration_parts(bytes) {
            Some(_) => Ok(()),
            None => Err("malformed duration".to_owned()),
        },
        _ => Ok(()),
    }
}

fn validate_fixed(ty: &ColumnType, bytes: &[u8]) -> Result<(), String> {
    match ty {
        ColumnType::Time if !bytes.is_empty() => {
            let nanoseconds = i64::from_be_bytes(array(bytes));
            if (0..NANOSECONDS_OF_DAY).contains(&nanoseconds) {
                Ok(())
            } else {
                Err("Validation failed - time out of range".to_owned())
            }
        }
        ColumnType::Timeuuid if bytes.get(6).is_some_and(|byte| byte >> 4 != 1) => {
            Err("Unsupported UUID version for a timeuuid".to_owned())
        }
        _ => Ok(()),
    }
}

const NANOSECONDS_OF_DAY: i64 = 86_400_000_000_000;

fn validate_components<'a>(
    types: impl Iterator<Item = &'a ColumnType>,
    bytes: &[u8],
    count: usize,
) -> Result<(), String> {
    let components = components(bytes, count)?;
    for (ty, component) in types.zip(components) {
        if let Some(component) = component {
            validate(ty, component)?;
        }
    }
    Ok(())
}

/// How many bytes every value of a type has, if that is always the same.
pub(crate) fn fixed_width(ty: &ColumnType) -> Option<usize> {
    match ty {
        ColumnType::Boolean | ColumnType::TinyInt => Some(1),
        ColumnType::SmallInt => Some(2),
        ColumnType::Int | ColumnType::Float | ColumnType::Date => Some(4),
        ColumnType::BigInt
        | ColumnType::Counter
        | ColumnType::Double
        | ColumnType::Timestamp
        | ColumnType::Time => Some(8),
        ColumnType::Uuid | ColumnType::Timeuuid => Some(16),
        _ => None,
    }
}

/// Takes one `[bytes]` off the front: `None` is null.
fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, String> {
    let truncated = || "read_simple - not enough bytes".to_owned();
    let (head, after) = rest.split_first_chunk::<4>().ok_or_else(truncated)?;
    let Ok(len) = usize::try_from(i32::from_be_bytes(*head)) else {
        *rest = after;
        return Ok(None);
    };
    let (value, after) = after.split_at_checked(len).ok_or_else(truncated)?;
    *rest = after;
    Ok(Some(value))
}

/// The elements of a list or set.
pub(crate) fn items(bytes: &[u8]) -> Result<Vec<&[u8]>, String> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let mut rest = bytes;
    let count = take_count(&mut rest, 4)?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(take_bytes(&mut rest)?.ok_or("null is not supported inside collections")?);
    }
    if rest.is_empty() {
        Ok(items)
    } else {
        Err("trailing bytes after a collection".to_owned())
    }
}

fn take_count(rest: &mut &[u8], item_len_min: usize) -> Result<usize, String> {
    let (head, after) = rest
        .split_first_chunk::<4>()
        .ok_or("collection without a count")?;
    let count = usize::try_from(i32::from_be_bytes(*head)).map_err(|_| "negative count")?;
    if after.len() / item_len_min < count {
        return Err("read_simple - not enough bytes".to_owned());
    }
    *rest = after;
    Ok(count)
}

/// Key and value of a map.
pub(crate) type Entry<'a> = (&'a [u8], &'a [u8]);

/// The entries of a map.
pub(crate) fn entries(bytes: &[u8]) -> Result<Vec<Entry<'_>>, String> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let mut rest = bytes;
    let count = take_count(&mut rest, 8)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let key = take_bytes(&mut rest)?.ok_or("null is not supported inside collections")?;
        let value = take_bytes(&mut rest)?.ok_or("null is not supported inside collections")?;
        entries.push((key, value));
    }
    if rest.is_empty() {
        Ok(entries)
    } else {
        Err("trailing bytes after a map".to_owned())
    }
}

/// The components of a tuple or user type; missing ones are null.
pub(crate) fn components(bytes: &[u8], count: usize) -> Result<Vec<Option<&[u8]>>, String> {
    let mut rest = bytes;
    let mut components = Vec::with_capacity(count);
    for _ in 0..count {
        components.push(if rest.is_empty() {
            None
        } else {
            take_bytes(&mut rest)?
        });
    }
    if rest.is_empty() {
        Ok(components)
    } else {
        Err("too many components".to_owned())
    }
}

/// The elements of a vector.
pub(crate) fn vector_items<'a>(
    element: &ColumnType,
    dimension: u32,
    bytes: &'a [u8],
) -> Result<Vec<&'a [u8]>, String> {
    let mut rest = bytes;
    let mut items = Vec::new();
    for _ in 0..dimension {
        let len = match vector_width(element) {
            Some(width) => width,
            None => {
                let len = take_unsigned_vint(&mut rest).ok_or("vector is too short")?;
                usize::try_from(len).map_err(|_| "vector is too short")?
            }
        };
        let (item, after) = rest.split_at_checked(len).ok_or("vector is too short")?;
        items.push(item);
        rest = after;
    }
    if rest.is_empty() {
        Ok(items)
    } else {
        Err("vector is too long".to_owned())
    }
}

/// The width of a type inside a vector, where it stands without a length.
pub(crate) fn vector_width(ty: &ColumnType) -> Option<usize> {
    match ty {
        ColumnType::Boolean
        | ColumnType::Int
        | ColumnType::Float
        | ColumnType::BigInt
        | ColumnType::Double
        | ColumnType::Timestamp
        | ColumnType::Uuid
        | ColumnType::Timeuuid => fixed_width(ty),
        ColumnType::Vector { element, dimension } => {
            vector_width(element)?.checked_mul(usize::try_from(*dimension).ok()?)
        }
        _ => None,
    }
}

/// Takes an unsigned variable-length integer off the front.
pub(crate) fn take_unsigned_vint(rest: &mut &[u8]) -> Option<u64> {
    let (&first, after) = rest.split_first()?;
    let extra = usize::try_from(first.leading_ones()).ok()?;
    let (tail, after) = after.split_at_checked(extra)?;
    let kept = if extra >= 7 {
        0
    } else {
        first & (0x7f >> extra)
    };
    *rest = after;
    Some(tail.iter().fold(u64::from(kept), |value, byte| {
        (value << 8) | u64::from(*byte)
    }))
}

/// Appends an unsigned variable-length integer in its shortest form.
pub(crate) fn put_unsigned_vint(value: u64, out: &mut Vec<u8>) {
    let bits = 64 - value.leading_zeros();
    let extra = (1..=8_u32)
        .find(|extra| bits <= 7 * extra)
        .map_or(8, |count| count - 1);
    let bytes = value.to_be_bytes();
    let extra_len = usize::try_from(extra).unwrap_or(8);
    if extra == 8 {
        out.push(0xff);
        out.extend_from_slice(&bytes);
        return;
    }
    let mark = if extra == 0 {
        0
    } else {
        0xff_u8 << (8 - extra)
    };
    let start = 8 - 1 - extra_len;
    out.push(bytes[start] | mark);
    out.extend_from_slice(&bytes[start + 1..]);
}

/// Months, days and nanoseconds of a duration.
pub(crate) fn duration_parts(bytes: &[u8]) -> Option<(i64, i64, i64)> {
    let mut rest = bytes;
    let mut part = || {
        let raw = take_unsigned_vint(&mut rest)?;
        let magnitude = i64::try_from(raw >> 1).ok()?;
        Some(if raw & 1 == 1 { !magnitude } else { magnitude })
    };
    let parts = (part()?, part()?, part()?);
    rest.is_empty().then_some(parts)
}

/// Encodes a duration.
pub(crate) fn encode_duration(months: i32, days: i32, nanoseconds: i64) -> Vec<u8> {
    let mut out = Vec::new();
    for part in [i64::from(months), i64::from(days), nanoseconds] {
        put_unsigned_vint(((part << 1) ^ (part >> 63)).cast_unsigned(), &mut out);
    }
    out
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk::<N>().copied().unwrap_or([0; N])
}

/// Appends `[int]` length and bytes; null is −1.
pub(crate) fn put_cell(value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
        Some(bytes) => {
            let len = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&i32::try_from(count).unwrap_or(i32::MAX).to_be_bytes());
}

/// Encodes a list as it is.
pub(crate) fn encode_list<T: AsRef<[u8]>>(items: &[T]) -> Bytes {
    let mut out = Vec::new();
    put_count(items.len(), &mut out);
    for item in items {
        put_cell(Some(item.as_ref()), &mut out);
    }
    out.into()
}

/// Encodes a set: sorted, each element once.
pub(crate) fn encode_set<T: AsRef<[u8]>>(element: &ColumnType, mut items: Vec<T>) -> Bytes {
    items.sort_by(|a, b| compare(element, Some(a.as_ref()), Some(b.as_ref())));
    items.dedup_by(|a, b| a.as_ref() == b.as_ref());
    encode_list(&items)
}

/// Encodes a map: sorted by key; of equal keys the last one counts.
pub(crate) fn encode_map<T: AsRef<[u8]>>(key: &ColumnType, mut entries: Vec<(T, T)>) -> Bytes {
    entries.reverse();
    entries.sort_by(|a, b| compare(key, Some(a.0.as_ref()), Some(b.0.as_ref())));
    entries.dedup_by(|a, b| a.0.as_ref() == b.0.as_ref());
    let mut out = Vec::new();
    put_count(entries.len(), &mut out);
    for (key, value) in &entries {
        put_cell(Some(key.as_ref()), &mut out);
        put_cell(Some(value.as_ref()), &mut out);
    }
    out.into()
}

/// Brings sets and maps into the server's order; everything else stays as it is.
pub(crate) fn normalised(ty: &ColumnType, bytes: Bytes) -> Bytes {
    match ty {
        ColumnType::Set(element) => match items(&bytes) {
            Ok(items) => encode_set(element, items),
            Err(_) => bytes,
        },
        ColumnType::Map(types) => match entries(&bytes) {
            Ok(entries) => encode_map(&types.0, entries),
            Err(_) => bytes,
        },
        _ => bytes,
    }
}

#[cfg(test)]
mod tests;
