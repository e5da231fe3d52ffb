//! Owns the target `value_decode`: any bytes are read as a value of any type; what can be read can be written, and
//! where there is only one way to write it, it is the same bytes.

use bytes::Bytes;
use messina_core::types::decode::vector_element_len;
use messina_core::types::{Cell, ColumnType, Entries, FromValue, Items, Parts, Value};

use crate::input::Input;
use crate::types::read_type;

/// Reads a value: first the type in the notation of [`crate::types`], then the cell.
pub fn value_decode(data: &[u8]) {
    let _ = read_value(data);
}

/// Does the same and says whether there was a value.
pub fn read_value(data: &[u8]) -> bool {
    let mut input = Input::new(data);
    let ty = read_type(&mut input, DEPTH_MAX);
    let cell = input.rest();
    let _ = ty.to_string();
    iterate(&ty, cell);
    let Ok(value) = Value::decode(&ty, Some(cell)) else {
        return false;
    };
    if let Value::Decimal(number) = &value {
        let _ = number.to_string();
    }
    let first = encode(&value, &ty);
    let content = first.get(4..).expect("a value that was read is not null");
    let again = Value::decode(&ty, Some(content)).expect("what was written can be read");
    assert_eq!(
        first,
        encode(&again, &ty),
        "a value changed on its way: {value:?}"
    );
    if is_canonical(&ty) && !has_null(&value) {
        assert_eq!(
            content, cell,
            "a value is written in another way than it was read: {value:?}"
        );
    }
    true
}

fn encode(value: &Value, ty: &ColumnType) -> Vec<u8> {
    let mut bytes = Vec::new();
    value
        .encode(ty, &mut bytes)
        .expect("what was read can be written");
    bytes
}

/// Goes over parts where they lie, as typed reads do.
fn iterate(ty: &ColumnType, bytes: &[u8]) {
    let cell = Cell::of_slice(bytes);
    if Items::<Value>::check(ty).is_ok()
        && let Ok(items) = Items::<Value>::from_value(ty, Some(cell))
    {
        assert!(items.take(bytes.len() + 2).count() <= bytes.len() + 1);
    }
    if Entries::<Value, Value>::check(ty).is_ok()
        && let Ok(entries) = Entries::<Value, Value>::from_value(ty, Some(cell))
    {
        assert!(entries.take(bytes.len() + 2).count() <= bytes.len() + 1);
    }
    let frame = Bytes::copy_from_slice(bytes);
    let mut parts = Parts::new(Cell::new(&frame, &frame));
    while !parts.is_at_end() {
        if parts.next_part().is_err() {
            break;
        }
    }
}

/// Says whether each value of the type has only one form, nulls aside.
fn is_canonical(ty: &ColumnType) -> bool {
    match ty {
        // Any byte but zero is true; these three may be longer than they need be.
        ColumnType::Boolean | ColumnType::Varint | ColumnType::Decimal | ColumnType::Duration => {
            false
        }
        ColumnType::List(element) | ColumnType::Set(element) => is_canonical(element),
        // A length in front of an element may be longer than it need be.
        ColumnType::Vector { element, .. } => {
            vector_element_len(element).is_some() && is_canonical(element)
        }
        ColumnType::Map(types) => is_canonical(&types.0) && is_canonical(&types.1),
        // A tail may be missing, and one that was added may be left unread.
        ColumnType::Tuple(_) | ColumnType::Udt(_) => false,
        _ => true,
    }
}

/// Says whether there is a null, which any negative length stands for.
fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::List(values) | Value::Set(values) | Value::Vector(values) => {
            values.iter().any(has_null)
        }
        Value::Map(entries) => entries
            .iter()
            .any(|(key, value)| has_null(key) || has_null(value)),
        _ => false,
    }
}

/// Deep enough to find what depth breaks, at a few bytes a level.
const DEPTH_MAX: usize = 260;
