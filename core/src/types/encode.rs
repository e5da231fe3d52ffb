//! Writing values: `ToValue`, the writers it is given, and the storage of a bound set of values. Requests around them are `wire`'s.

use bytes::Bytes;

use crate::error::value::{EncodeError, EncodeErrorKind, TypeError};
use crate::types::column_type::ColumnType;
use crate::types::encode::buffer::ValueBuffer;
use crate::wire::request::{LargeValue, ValuesRef};

mod buffer;
mod writer;

use writer::something_since;
pub use writer::{ContentWriter, ValueWriter};

/// Writes a Rust value as a CQL value.
///
/// ```
/// use messina_core::types::{ColumnType, EncodeError, ToValue, TypeError, ValueWriter};
///
/// /// A temperature, stored as an `int` of millikelvins.
/// struct Kelvin(f64);
///
/// impl ToValue for Kelvin {
///     fn check(ty: &ColumnType) -> Result<(), TypeError> {
///         <i32 as ToValue>::check(ty)
///     }
///     fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
///         ((self.0 * 1000.0) as i32).to_value(ty, out)
///     }
/// }
///
/// let mut bytes = Vec::new();
/// messina_core::types::encode_value(&Kelvin(1.5), &ColumnType::Int, &mut bytes)?;
/// assert_eq!(bytes, [0, 0, 0, 4, 0, 0, 0x05, 0xdc]);
/// # Ok::<(), EncodeError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be written as a CQL value",
    label = "not a CQL value",
    note = "structs and enums become values with `#[derive(ToValue)]`",
    note = "the module `types` has a table of the types that are values, some under features for other crates"
)]
pub trait ToValue {
    /// Says whether values of this type can be written as `ty` at all.
    ///
    /// # Errors
    /// A `TypeError` that names both types.
    fn check(ty: &ColumnType) -> Result<(), TypeError>
    where
        Self: Sized;

    /// Writes the value; implementations check `ty` themselves, since nothing else may have.
    ///
    /// # Errors
    /// When the type does not fit or the value is outside of what the type can hold.
    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError>;
}

/// Appends one value with its length in front, as `[value]`, to `out`.
///
/// # Errors
/// As [`ToValue::to_value`]; nothing is appended then.
pub fn encode_value<T: ToValue + ?Sized>(
    value: &T,
    ty: &ColumnType,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut buffer = ValueBuffer::append_to(std::mem::take(out));
    let start = buffer.len();
    let written = value.to_value(ty, ValueWriter::plain(&mut buffer));
    let written = written.and_then(|()| something_since(&buffer, start));
    if written.is_err() {
        buffer.truncate(start);
    }
    *out = buffer.into_heap();
    written
}

/// Keeps the encoded values of one statement, ready to be sent and to be hashed.
///
/// Up to 256 bytes stay inside; more goes to the heap. A `Bytes` of more than 1 KiB is kept as it is
/// and spliced into the request without a copy. Clear and use it again to keep what was allocated.
///
/// ```
/// use messina_core::types::EncodedValues;
///
/// let values = EncodedValues::new();
/// assert_eq!(values.len(), 0);
/// assert_eq!(values.value_at(0), None);
/// ```
#[derive(Clone, Debug)]
pub struct EncodedValues {
    buffer: ValueBuffer,
    /// What lies elsewhere, where anything does.
    #[expect(
        clippy::box_collection,
        reason = "one word to look at and to drop for each request"
    )]
    large: Option<Box<Vec<LargeValue>>>,
    count: u16,
}

impl Default for EncodedValues {
    fn default() -> Self {
        Self::new()
    }
}

impl EncodedValues {
    /// Makes an empty set of values; allocates nothing.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buffer: ValueBuffer::new(),
            large: None,
            count: 0,
        }
    }

    /// Forgets the values and keeps the memory.
    pub fn clear(&mut self) {
        self.buffer.truncate(0);
        self.large = None;
        self.count = 0;
    }

    /// Returns the values as a request takes them.
    #[must_use]
    pub fn values(&self) -> ValuesRef<'_> {
        ValuesRef {
            count: self.count,
            bytes: self.buffer.bytes(),
            large: self.large(),
            names: None,
        }
    }

    /// Returns how many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Returns how many values there are, as a request counts them.
    #[inline]
    pub(crate) const fn count(&self) -> u16 {
        self.count
    }

    /// Says whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes of a value where they lie; `None` for null, unset, and when there is no such value.
    #[must_use]
    pub fn value_at(&self, index: usize) -> Option<&[u8]> {
        if self.len() <= index {
            return None;
        }
        // Keys are few and mostly in front, so their places are looked for instead of kept.
        let mut at = 0;
        for _ in 0..index {
            at = self.end_of(at)?;
        }
        let (length, rest) = self.buffer.bytes().get(at..)?.split_first_chunk::<4>()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
        match self.shared_at(at) {
            Some(shared) => Some(shared),
            None => rest.get(..length),
        }
    }

    /// Finds where the value that starts here ends in the block.
    fn end_of(&self, at: usize) -> Option<usize> {
        let length = self.buffer.bytes().get(at..)?.first_chunk::<4>()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        match self.shared_at(at) {
            Some(_) => Some(at + 4),
            None => Some(at + 4 + length),
        }
    }

    /// Finds the bytes of the value that starts here, if they lie elsewhere.
    fn shared_at(&self, at: usize) -> Option<&Bytes> {
        let at = at + 4;
        let large = self.large();
        let index = large.binary_search_by_key(&at, |large| large.at).ok()?;
        large.get(index).map(|large| &large.bytes)
    }

    /// Returns the bytes of the first value, where [`value_at`](Self::value_at) would and they lie in the block.
    #[inline]
    pub(crate) fn first(&self) -> Option<&[u8]> {
        let (length, rest) = self.buffer.bytes().split_first_chunk::<4>()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
        // A value that lies elsewhere leaves its length behind, with other values after it.
        rest.get(..length).filter(|_| self.large.is_none())
    }

    /// Returns how many bytes the values take in a request, lengths included.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let large = self.large().iter().map(|large| large.bytes.len());
        self.buffer.len() + large.sum::<usize>()
    }

    /// Counts a value; false when there can be no more, or when the one before ended too far behind.
    #[inline]
    fn count_one(&mut self, start: usize) -> bool {
        let Some(count) = self.count.checked_add(1).filter(|_| start <= LENGTH_MAX) else {
            return false;
        };
        self.count = count;
        true
    }

    /// Returns the values that lie in one block.
    #[inline]
    pub fn block(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// Says whether all values lie in one block.
    #[inline]
    pub fn is_one_block(&self) -> bool {
        self.large.is_none()
    }

    #[inline]
    fn large(&self) -> &[LargeValue] {
        self.large.as_deref().map_or(&[], Vec::as_slice)
    }
}

/// Collects the values of one row, in the order of its columns.
#[derive(Debug)]
pub struct RowWriter<'a> {
    values: &'a mut EncodedValues,
}

impl<'a> RowWriter<'a> {
    /// Starts a row that is written behind what `values` already holds.
    #[must_use]
    pub fn new(values: &'a mut EncodedValues) -> Self {
        Self { values }
    }

    /// Returns how many values were written so far.
    #[must_use]
    pub fn written(&self) -> usize {
        self.values.len()
    }

    /// Writes the next value.
    ///
    /// # Errors
    /// As [`ToValue::to_value`], or when there are more than 65535 values; nothing is added then.
    #[inline(always)] // One call for each value otherwise.
    pub fn write<T: ToValue + ?Sized>(
        &mut self,
        ty: &ColumnType,
        value: &T,
    ) -> Result<(), EncodeError> {
        let start = self.values.buffer.len();
        let large = self.values.large().len();
        let out = ValueWriter::of_row(self.values);
        let written = value.to_value(ty, out);
        if written.is_ok() && start < self.values.buffer.len() && self.values.count_one(start) {
            return Ok(());
        }
        Err(self.undo(start, large, written))
    }

    /// Takes a value back that could not be written or counted, and says why.
    #[cold]
    #[inline(never)]
    fn undo(
        &mut self,
        start: usize,
        large: usize,
        written: Result<(), EncodeError>,
    ) -> EncodeError {
        let end = self.values.buffer.len();
        self.values.buffer.truncate(start);
        if let Some(more) = &mut self.values.large {
            more.truncate(large);
        }
        if large == 0 {
            self.values.large = None;
        }
        match written {
            Err(error) => error,
            Ok(()) if start == end => EncodeError::new(EncodeErrorKind::NothingWritten),
            Ok(()) if self.values.count == u16::MAX => {
                let max = usize::from(u16::MAX);
                EncodeError::too_long("the list of values", max + 1, max)
            }
            Ok(()) => EncodeError::too_long("the values", start, LENGTH_MAX),
        }
    }
}

/// What a length field of four signed bytes can say.
const LENGTH_MAX: usize = 0x7fff_ffff;

#[cfg(test)]
mod tests;
