//! Rust enums as values: what their derives call. Structs are `row`'s and `udt`'s.

use std::fmt;

use crate::error::value::{DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, TypeError};
use crate::types::column_type::ColumnType;
use crate::types::decode::{Cell, not_null};
use crate::types::encode::ValueWriter;

/// Returns the text of an enum's value.
///
/// # Errors
/// When the value is null or not text.
pub fn text_of<'r, T>(ty: &ColumnType, cell: Option<Cell<'r>>) -> Result<&'r str, DecodeError> {
    match std::str::from_utf8(not_null::<T>(ty, cell)?.bytes()) {
        Ok(text) => Ok(text),
        Err(_) => Err(DecodeError::of::<T>(ty, DecodeErrorKind::NotUtf8)),
    }
}

/// Returns the bytes of an enum's number.
///
/// # Errors
/// When the value is null or of another size.
pub fn bytes_of<T, const N: usize>(
    ty: &ColumnType,
    cell: Option<Cell<'_>>,
) -> Result<[u8; N], DecodeError> {
    not_null::<T>(ty, cell)?.fixed::<T, N>(ty)
}

/// Makes the error that says that no variant of `T` stands for this value.
#[cold]
#[inline(never)]
#[must_use]
pub fn unknown<T>(ty: &ColumnType, value: &dyn fmt::Display) -> DecodeError {
    // A peer may send any amount of text; what tells the values apart is at the front.
    let mut value = format!("{value:.width$}", width = SHOWN_MAX + 1);
    if let Some((end, _)) = value.char_indices().nth(SHOWN_MAX) {
        value.replace_range(end.., "...");
    }
    let value = value.into_boxed_str();
    DecodeError::of::<T>(ty, DecodeErrorKind::UnknownVariant { value })
}

/// Writes the text of an enum's variant.
///
/// # Errors
/// When the type is not one of text, or does not take the characters.
pub fn write_text<T>(text: &str, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
    match ty {
        ColumnType::Text => out.bytes(text.as_bytes()),
        ColumnType::Ascii if text.is_ascii() => out.bytes(text.as_bytes()),
        ColumnType::Ascii => Err(EncodeError::of::<T>(ty, EncodeErrorKind::NotAscii)),
        _ => Err(TypeError::mismatch::<T>(ty).into()),
    }
}

/// How many characters of an unknown value an error keeps: longer than names get, short enough for a log line.
const SHOWN_MAX: usize = 64;
