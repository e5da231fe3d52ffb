//! Owns the writers of one value and of its parts, with what their lengths look like in each place.
//! Leaves out where the bytes are kept, which `buffer` and the bound set of values own.

use bytes::Bytes;

use super::buffer::ValueBuffer;
use super::{EncodedValues, LENGTH_MAX, ToValue};
use crate::error::value::{EncodeError, EncodeErrorKind};
use crate::types::column_type::ColumnType;
use crate::types::decode::vector_element_len;
use crate::wire::request::LargeValue;

/// Takes exactly one value; every method ends it.
#[derive(Debug)]
pub struct ValueWriter<'a> {
    out: Sink<'a>,
    place: Place,
}

impl<'a> ValueWriter<'a> {
    /// Writes a value of a row, which can keep long bytes aside.
    #[inline]
    pub(super) fn of_row(values: &'a mut EncodedValues) -> Self {
        Self {
            out: Sink::Row(values),
            place: Place::Value,
        }
    }

    /// Writes a value on its own.
    #[inline]
    pub(super) fn plain(buffer: &'a mut ValueBuffer) -> Self {
        Self {
            out: Sink::Plain(buffer),
            place: Place::Value,
        }
    }

    /// Writes null.
    ///
    /// # Errors
    /// Inside a vector, which has no nulls.
    #[inline]
    pub fn null(self) -> Result<(), EncodeError> {
        match self.place {
            Place::Value | Place::Part => {
                self.out.buffer().push(&LENGTH_NULL);
                Ok(())
            }
            Place::Fixed(_) | Place::Sized => Err(EncodeError::new(EncodeErrorKind::NullInVector)),
        }
    }

    /// Writes "not set": the column keeps what it has.
    ///
    /// # Errors
    /// Anywhere but as a whole value of a statement.
    #[inline]
    pub fn unset(self) -> Result<(), EncodeError> {
        match self.place {
            Place::Value => {
                self.out.buffer().push(&LENGTH_UNSET);
                Ok(())
            }
            Place::Part | Place::Fixed(_) | Place::Sized => {
                Err(EncodeError::new(EncodeErrorKind::UnsetInside))
            }
        }
    }

    /// Writes a value of a size known at compile time.
    ///
    /// # Errors
    /// When the place asks for another size, as elements of some vectors do.
    #[inline(always)]
    pub fn fixed<const N: usize>(self, bytes: [u8; N]) -> Result<(), EncodeError> {
        self.bytes(&bytes)
    }

    /// Writes these bytes as the value.
    ///
    /// # Errors
    /// When there are more than a length can say, or the place asks for another size.
    #[inline(always)]
    pub fn bytes(self, bytes: &[u8]) -> Result<(), EncodeError> {
        match (self.place, i32::try_from(bytes.len())) {
            (Place::Value | Place::Part, Ok(length)) => {
                self.out.buffer().push_two(&length.to_be_bytes(), bytes);
                Ok(())
            }
            (Place::Value | Place::Part, Err(_)) => Err(too_long(bytes.len())),
            (Place::Fixed(_) | Place::Sized, _) => self.element(bytes),
        }
    }

    /// Writes an element of a vector.
    #[inline(never)]
    fn element(self, bytes: &[u8]) -> Result<(), EncodeError> {
        match self.place {
            Place::Fixed(expected) => {
                fits(expected, bytes.len())?;
                self.out.buffer().push(bytes);
            }
            Place::Value | Place::Part | Place::Sized => {
                let (prefix, len) = unsigned_vint(bytes.len());
                let prefix = prefix.get(..len).unwrap_or_default();
                self.out.buffer().push_two(prefix, bytes);
            }
        }
        Ok(())
    }

    /// Writes these bytes as the value, and shares them instead of copying when they are long and stand alone.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub fn shared(self, bytes: &Bytes) -> Result<(), EncodeError> {
        match (self.place, self.out) {
            (Place::Value, Sink::Row(values)) if SHARE_MIN < bytes.len() => {
                let length = length_of(bytes.len())?;
                values.buffer.push(&length.to_be_bytes());
                let at = values.buffer.len();
                values.large.get_or_insert_default().push(LargeValue {
                    at,
                    bytes: bytes.clone(),
                });
                Ok(())
            }
            (place, out) => ValueWriter { out, place }.bytes(bytes),
        }
    }

    /// Writes a value made of parts; its length is filled in afterwards.
    ///
    /// # Errors
    /// Those of `content`, or when the content is longer than a length can say.
    pub fn content(
        self,
        content: impl FnOnce(&mut ContentWriter<'_>) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let place = self.place;
        let out = self.out.buffer();
        let start = out.len();
        if matches!(place, Place::Value | Place::Part) {
            out.push(&[0; 4]);
        }
        let inner = out.len();
        content(&mut ContentWriter { out })?;
        let len = out.len() - inner;
        match place {
            Place::Value | Place::Part => out.patch(start, length_of(len)?.to_be_bytes()),
            Place::Fixed(expected) => fits(expected, len)?,
            Place::Sized => {
                let (prefix, prefix_len) = unsigned_vint(len);
                out.insert(inner, prefix.get(..prefix_len).unwrap_or_default());
            }
        }
        Ok(())
    }
}

/// Takes the parts of one value.
#[derive(Debug)]
pub struct ContentWriter<'a> {
    out: &'a mut ValueBuffer,
}

impl ContentWriter<'_> {
    /// Appends bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.push(bytes);
    }

    /// Appends the count of elements that a list, set or map starts with.
    ///
    /// # Errors
    /// When the count does not fit its field.
    pub fn count(&mut self, count: usize) -> Result<(), EncodeError> {
        match i32::try_from(count) {
            Ok(count) => {
                self.out.push(&count.to_be_bytes());
                Ok(())
            }
            Err(_) => Err(EncodeError::too_long("the collection", count, LENGTH_MAX)),
        }
    }

    /// Writes a part with its own length in front: an element, a key, a component, a field.
    ///
    /// # Errors
    /// As [`ToValue::to_value`].
    #[inline]
    pub fn write<T: ToValue + ?Sized>(
        &mut self,
        ty: &ColumnType,
        value: &T,
    ) -> Result<(), EncodeError> {
        let start = self.out.len();
        value.to_value(ty, self.part())?;
        something_since(self.out, start)
    }

    /// Writes an element of a vector of this element type.
    ///
    /// # Errors
    /// As [`ToValue::to_value`].
    #[inline]
    pub fn write_element<T: ToValue + ?Sized>(
        &mut self,
        element: &ColumnType,
        value: &T,
    ) -> Result<(), EncodeError> {
        let start = self.out.len();
        let out = self.vector_element(element);
        let may_be_nothing = matches!(out.place, Place::Fixed(0));
        value.to_value(element, out)?;
        if may_be_nothing {
            Ok(())
        } else {
            something_since(self.out, start)
        }
    }

    /// Returns how many bytes were written so far, those around this value included.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// Starts a part with its own length in front: an element, a key, a component, a field.
    #[inline]
    pub fn part(&mut self) -> ValueWriter<'_> {
        ValueWriter {
            out: Sink::Plain(self.out),
            place: Place::Part,
        }
    }

    /// Starts an element of a vector of this element type.
    #[inline]
    pub fn vector_element(&mut self, element: &ColumnType) -> ValueWriter<'_> {
        let place = match vector_element_len(element) {
            Some(len) => Place::Fixed(len),
            None => Place::Sized,
        };
        ValueWriter {
            out: Sink::Plain(self.out),
            place,
        }
    }
}

/// Where a value stands decides what its length looks like.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A whole value of a statement: a length of four bytes, which can say null and unset.
    Value,
    /// A part of a value: a length of four bytes, which can say null.
    Part,
    /// An element of a vector of elements of this size: no length.
    Fixed(usize),
    /// An element of a vector of other elements: a length of variable size.
    Sized,
}

#[derive(Debug)]
enum Sink<'a> {
    /// A value of a row, which can keep long bytes aside.
    Row(&'a mut EncodedValues),
    /// Anything else.
    Plain(&'a mut ValueBuffer),
}

impl<'a> Sink<'a> {
    #[inline]
    fn buffer(self) -> &'a mut ValueBuffer {
        match self {
            Self::Row(values) => &mut values.buffer,
            Self::Plain(buffer) => buffer,
        }
    }
}

#[inline]
pub(super) fn something_since(buffer: &ValueBuffer, start: usize) -> Result<(), EncodeError> {
    if start < buffer.len() {
        Ok(())
    } else {
        Err(EncodeError::new(EncodeErrorKind::NothingWritten))
    }
}

fn length_of(len: usize) -> Result<i32, EncodeError> {
    i32::try_from(len).map_err(|_| too_long(len))
}

#[cold]
#[inline(never)]
fn too_long(len: usize) -> EncodeError {
    EncodeError::too_long("the value", len, LENGTH_MAX)
}

fn fits(expected: usize, actual: usize) -> Result<(), EncodeError> {
    if expected == actual {
        Ok(())
    } else {
        Err(EncodeError::new(EncodeErrorKind::OutOfRange))
    }
}

/// Writes an unsigned vint of a length and says how many bytes of the array it takes.
fn unsigned_vint(len: usize) -> ([u8; 9], usize) {
    crate::types::value::vint_bytes(u64::try_from(len).unwrap_or(u64::MAX))
}

/// Above this size a shared value is spliced rather than copied; below it a copy costs less than a slice of its own.
const SHARE_MIN: usize = 1024;

const LENGTH_NULL: [u8; 4] = (-1_i32).to_be_bytes();
const LENGTH_UNSET: [u8; 4] = (-2_i32).to_be_bytes();
