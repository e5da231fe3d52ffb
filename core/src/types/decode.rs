//! Reading values: `FromValue`, the cell it is given, and iterators over the parts of one value. Rows are `row`'s.

use std::marker::PhantomData;

use bytes::Bytes;

use crate::error::protocol::ProtocolError;
use crate::error::value::{DecodeError, DecodeErrorKind, PathStep, TypeError};
use crate::types::column_type::ColumnType;
use crate::wire::read::Reader;

/// Reads a Rust value from the bytes of a CQL value; `'r` is the life of the page it may borrow from.
///
/// `check` is called once per page; `from_value` only for types that passed it, and need not look again.
///
/// ```
/// use messina_core::types::{Cell, ColumnType, DecodeError, FromValue, TypeError};
///
/// /// A temperature, stored as an `int` of millikelvins.
/// struct Kelvin(f64);
///
/// impl<'r> FromValue<'r> for Kelvin {
///     fn check(ty: &ColumnType) -> Result<(), TypeError> {
///         <i32 as FromValue>::check(ty)
///     }
///     fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
///         Ok(Kelvin(f64::from(i32::from_value(ty, cell)?) / 1000.0))
///     }
/// }
///
/// let warm = Kelvin::from_value(&ColumnType::Int, Some(Cell::of_slice(&[0, 0, 0x05, 0xdc])))?;
/// assert_eq!(warm.0, 1.5);
/// # Ok::<(), DecodeError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from a CQL value",
    label = "not a CQL value",
    note = "structs and enums become values with `#[derive(FromValue)]`",
    note = "the module `types` has a table of the types that are values, some under features for other crates"
)]
pub trait FromValue<'r>: Sized {
    /// Says whether values of this CQL type can be read as `Self`.
    ///
    /// # Errors
    /// A `TypeError` that names both types.
    fn check(ty: &ColumnType) -> Result<(), TypeError>;

    /// Reads the value; `None` is null.
    ///
    /// # Errors
    /// When the bytes are not a value of the type, or hold one that `Self` cannot.
    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError>;
}

/// Shows the bytes of one value inside the page that owns them.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'r> {
    frame: Option<&'r Bytes>,
    bytes: &'r [u8],
}

impl<'r> Cell<'r> {
    /// Shows bytes that lie inside `frame`.
    #[inline]
    #[must_use]
    pub fn new(frame: &'r Bytes, bytes: &'r [u8]) -> Self {
        Self {
            frame: Some(frame),
            bytes,
        }
    }

    /// Shows bytes that nobody shares.
    #[inline]
    #[must_use]
    pub fn of_slice(bytes: &'r [u8]) -> Self {
        Self { frame: None, bytes }
    }

    /// Returns the bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &'r [u8] {
        self.bytes
    }

    /// Shows a part of this cell.
    #[inline]
    #[must_use]
    pub fn part(&self, bytes: &'r [u8]) -> Self {
        Self {
            frame: self.frame,
            bytes,
        }
    }

    /// Returns the bytes as a handle of their own, which keeps the whole page alive; copies only what no page owns.
    #[must_use]
    pub fn shared(&self) -> Bytes {
        let inside = self.frame.filter(|frame| {
            let (outer, inner) = (frame.as_ptr_range(), self.bytes.as_ptr_range());
            outer.start <= inner.start && inner.end <= outer.end
        });
        match inside {
            Some(frame) => frame.slice_ref(self.bytes),
            None => Bytes::copy_from_slice(self.bytes),
        }
    }

    /// Returns the bytes as an array.
    ///
    /// # Errors
    /// When there are more or fewer; zero-length cells have an error of their own.
    #[inline]
    pub fn fixed<T, const N: usize>(&self, ty: &ColumnType) -> Result<[u8; N], DecodeError> {
        match <[u8; N]>::try_from(self.bytes) {
            Ok(array) => Ok(array),
            Err(_) => Err(wrong_size::<T>(ty, N, self.bytes.len())),
        }
    }
}

/// Returns the cell, or the error that says that `T` has no null.
///
/// # Errors
/// When the cell is null.
#[inline]
pub fn not_null<'r, T>(ty: &ColumnType, cell: Option<Cell<'r>>) -> Result<Cell<'r>, DecodeError> {
    match cell {
        Some(cell) => Ok(cell),
        None => Err(is_null::<T>(ty)),
    }
}

#[cold]
#[inline(never)]
fn is_null<T>(ty: &ColumnType) -> DecodeError {
    DecodeError::of::<T>(ty, DecodeErrorKind::Null)
}

#[cold]
#[inline(never)]
fn wrong_size<T>(ty: &ColumnType, expected: usize, actual: usize) -> DecodeError {
    let kind = if actual == 0 {
        DecodeErrorKind::Empty
    } else {
        DecodeErrorKind::Size { expected, actual }
    };
    DecodeError::of::<T>(ty, kind)
}

/// Says whether a zero-length value of this type is neither null nor a value, but "empty".
#[must_use]
pub fn has_empty(ty: &ColumnType) -> bool {
    match ty {
        ColumnType::BigInt
        | ColumnType::Boolean
        | ColumnType::Decimal
        | ColumnType::Double
        | ColumnType::Float
        | ColumnType::Int
        | ColumnType::Timestamp
        | ColumnType::Uuid
        | ColumnType::Varint
        | ColumnType::Timeuuid
        | ColumnType::Inet
        | ColumnType::Date
        | ColumnType::Time
        | ColumnType::SmallInt
        | ColumnType::TinyInt => true,
        // These have an ordinary zero-length value, or may not be zero-length at all.
        _ => false,
    }
}

/// Returns the size of an element that lies in a vector without a length in front; `None` when it has one.
#[must_use]
pub fn vector_element_len(element: &ColumnType) -> Option<usize> {
    // Vectors of vectors multiply; the loop keeps deep types off the stack.
    let mut factor = 1_usize;
    let mut ty = element;
    loop {
        match ty {
            ColumnType::Boolean => return Some(factor),
            ColumnType::Int | ColumnType::Float => return factor.checked_mul(4),
            ColumnType::BigInt | ColumnType::Double | ColumnType::Timestamp => {
                return factor.checked_mul(8);
            }
            ColumnType::Uuid | ColumnType::Timeuuid => return factor.checked_mul(16),
            ColumnType::Vector { element, dimension } => {
                // A product that no memory can hold matches no cell either.
                factor = factor.saturating_mul(usize::try_from(*dimension).unwrap_or(usize::MAX));
                ty = element;
            }
            // Some of these are of constant size, and servers put a length in front all the same.
            _ => return None,
        }
    }
}

/// Goes over the elements of a list, set or vector where they lie.
///
/// It is itself a `FromValue`, the way to read a collection without an allocation. Null reads as no elements, as a
/// column that is not frozen keeps its empty collection; `Option` tells the two apart.
///
/// ```
/// use messina_core::types::{Cell, ColumnType, DecodeError, FromValue, Items};
///
/// let ty = ColumnType::List(ColumnType::Text.into());
/// let bytes = [0, 0, 0, 1, 0, 0, 0, 2, b'o', b'k'];
/// let mut items = Items::<&str>::from_value(&ty, Some(Cell::of_slice(&bytes)))?;
/// assert_eq!(items.next().transpose()?, Some("ok"));
/// assert!(items.next().is_none());
/// # Ok::<(), DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Items<'r, T> {
    elements: Elements<'r>,
    read: PhantomData<fn() -> T>,
}

impl<'r, T: FromValue<'r>> FromValue<'r> for Items<'r, T> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        match ty {
            ColumnType::List(element)
            | ColumnType::Set(element)
            | ColumnType::Vector { element, .. } => {
                T::check(element).map_err(|error| error.in_part::<Self>(ty, "element"))
            }
            _ => Err(TypeError::mismatch::<Self>(ty)),
        }
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        Ok(Self {
            elements: Elements::new::<Self>(ty, cell)?,
            read: PhantomData,
        })
    }
}

impl<'r, T: FromValue<'r>> Iterator for Items<'r, T> {
    type Item = Result<T, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let index = self.elements.index;
        let element = self.elements.element;
        let read = match self.elements.next_cell()? {
            Ok(cell) => T::from_value(element, cell),
            Err(error) => Err(error),
        };
        Some(read.map_err(|error| error.at(PathStep::Element(index))))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.elements.left, Some(self.elements.left))
    }
}

/// Goes over the entries of a map where they lie.
///
/// Null reads as no entries, as for [`Items`].
#[derive(Clone, Debug)]
pub struct Entries<'r, K, V> {
    elements: Elements<'r>,
    value_type: &'r ColumnType,
    read: PhantomData<fn() -> (K, V)>,
}

impl<'r, K: FromValue<'r>, V: FromValue<'r>> FromValue<'r> for Entries<'r, K, V> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        let ColumnType::Map(types) = ty else {
            return Err(TypeError::mismatch::<Self>(ty));
        };
        K::check(&types.0).map_err(|error| error.in_part::<Self>(ty, "key"))?;
        V::check(&types.1).map_err(|error| error.in_part::<Self>(ty, "value"))
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        let ColumnType::Map(types) = ty else {
            return Err(TypeError::mismatch::<Self>(ty).into());
        };
        let elements = Elements::counted::<Self>(ty, &types.0, cell, 2)?;
        Ok(Self {
            elements,
            value_type: &types.1,
            read: PhantomData,
        })
    }
}

impl<'r, K: FromValue<'r>, V: FromValue<'r>> Entries<'r, K, V> {
    fn read_entry(&mut self, index: usize, key: Option<Cell<'r>>) -> Result<(K, V), DecodeError> {
        let key = K::from_value(self.elements.element, key)
            .map_err(|error| error.at(PathStep::Key(index)));
        // The value is stepped over even if the key did not decode, so that later entries stay in step.
        let value = self.elements.read_part()?;
        let key = key?;
        let value = V::from_value(self.value_type, value)
            .map_err(|error| error.at(PathStep::Value(index)))?;
        Ok((key, value))
    }
}

impl<'r, K: FromValue<'r>, V: FromValue<'r>> Iterator for Entries<'r, K, V> {
    type Item = Result<(K, V), DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let index = self.elements.index;
        match self.elements.next_part()? {
            Ok(key) => {
                let entry = self.read_entry(index, key);
                let end = self.elements.check_end();
                Some(entry.and_then(|entry| end.map(|()| entry)))
            }
            Err(error) => Some(Err(error)),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.elements.left, Some(self.elements.left))
    }
}

/// The raw walk behind the iterators above.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'r> {
    reader: Reader<'r>,
    whole: Cell<'r>,
    pub(crate) element: &'r ColumnType,
    layout: Layout,
    pub(crate) index: usize,
    pub(crate) left: usize,
}

#[derive(Clone, Copy, Debug)]
enum Layout {
    Parts,
    Fixed(usize),
    Sized,
}

impl<'r> Elements<'r> {
    /// Starts at the first element of a list, set or vector.
    pub(crate) fn new<T>(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        match ty {
            ColumnType::List(element) | ColumnType::Set(element) => {
                Self::counted::<T>(ty, element, cell, 1)
            }
            ColumnType::Vector { element, dimension } => {
                let cell = not_null::<T>(ty, cell)?;
                Self::vector::<T>(ty, element, *dimension, cell)
            }
            _ => Err(TypeError::mismatch::<T>(ty).into()),
        }
    }

    /// Starts behind the count that lists, sets and maps begin with.
    pub(crate) fn counted<T>(
        ty: &'r ColumnType,
        element: &'r ColumnType,
        cell: Option<Cell<'r>>,
        parts: usize,
    ) -> Result<Self, DecodeError> {
        let Some(cell) = cell else {
            let whole = Cell::of_slice(&[]);
            let reader = Reader::new(&[]);
            return Ok(Self {
                reader,
                whole,
                element,
                layout: Layout::Parts,
                index: 0,
                left: 0,
            });
        };
        if cell.bytes.is_empty() {
            return Err(DecodeError::of::<T>(ty, DecodeErrorKind::Empty));
        }
        let mut reader = Reader::new(cell.bytes);
        // Each part has at least its length of four bytes, which bounds the count by what is there.
        let left = reader.int_count(parts * 4)?;
        let elements = Self {
            reader,
            whole: cell,
            element,
            layout: Layout::Parts,
            index: 0,
            left,
        };
        elements.check_end()?;
        Ok(elements)
    }

    fn vector<T>(
        ty: &'r ColumnType,
        element: &'r ColumnType,
        dimension: u32,
        cell: Cell<'r>,
    ) -> Result<Self, DecodeError> {
        let left = usize::try_from(dimension).unwrap_or(usize::MAX);
        let (layout, expected) = match vector_element_len(element) {
            // Elements without bytes would make a count that no bytes stand behind.
            Some(0) if 0 < left => return Err(DecodeError::of::<T>(ty, DecodeErrorKind::TooLarge)),
            Some(len) => (Layout::Fixed(len), Some(len.saturating_mul(left))),
            None => (Layout::Sized, None),
        };
        let actual = cell.bytes.len();
        if let Some(expected) = expected
            && expected != actual
        {
            return Err(wrong_size::<T>(ty, expected, actual));
        }
        if expected.is_none() && actual < left {
            return Err(wrong_size::<T>(ty, left, actual));
        }
        let elements = Self {
            reader: Reader::new(cell.bytes),
            whole: cell,
            element,
            layout,
            index: 0,
            left,
        };
        elements.check_end()?;
        Ok(elements)
    }

    /// Returns the next element; after an error nothing follows.
    #[inline]
    pub(crate) fn next_cell(&mut self) -> Option<Result<Option<Cell<'r>>, DecodeError>> {
        let cell = self.next_part()?;
        match self.check_end() {
            Err(error) if cell.is_ok() => Some(Err(error)),
            _ => Some(cell),
        }
    }

    /// Counts one element and reads its first part.
    #[inline]
    pub(crate) fn next_part(&mut self) -> Option<Result<Option<Cell<'r>>, DecodeError>> {
        self.left = self.left.checked_sub(1)?;
        self.index += 1;
        Some(self.read_part())
    }

    /// Reads one part without counting it.
    #[inline]
    pub(crate) fn read_part(&mut self) -> Result<Option<Cell<'r>>, DecodeError> {
        let read = match self.layout {
            Layout::Parts => self.reader.bytes(),
            Layout::Fixed(len) => self.reader.bytes_exact(len).map(Some),
            Layout::Sized => sized(&mut self.reader).map(Some),
        };
        match read {
            Ok(bytes) => Ok(bytes.map(|bytes| self.whole.part(bytes))),
            Err(error) => {
                self.left = 0;
                Err(error.into())
            }
        }
    }

    /// Refuses bytes behind the last element.
    #[inline]
    pub(crate) fn check_end(&self) -> Result<(), DecodeError> {
        let bytes = self.reader.remaining();
        if self.left == 0 && 0 < bytes {
            return Err(DecodeError::new(DecodeErrorKind::Surplus { bytes }));
        }
        Ok(())
    }
}

/// Steps through the components of a tuple or the fields of a user-defined type.
#[derive(Clone, Debug)]
pub struct Parts<'r> {
    reader: Reader<'r>,
    whole: Cell<'r>,
}

impl<'r> Parts<'r> {
    /// Starts at the first part.
    #[must_use]
    pub fn new(cell: Cell<'r>) -> Self {
        Self {
            reader: Reader::new(cell.bytes),
            whole: cell,
        }
    }

    /// Says whether the bytes are used up; every part that follows is null then.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.reader.is_empty()
    }

    /// Returns the next part; null when the bytes ended before it, as in values older than their type.
    ///
    /// # Errors
    /// When the bytes end inside of the part.
    #[inline]
    pub fn next_part(&mut self) -> Result<Option<Cell<'r>>, DecodeError> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        Ok(self.reader.bytes()?.map(|bytes| self.whole.part(bytes)))
    }

    /// Ends the walk.
    ///
    /// # Errors
    /// When bytes are left that belong to no part.
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.reader.remaining() {
            0 => Ok(()),
            bytes => Err(DecodeError::new(DecodeErrorKind::Surplus { bytes })),
        }
    }
}

/// Reads a length of variable size and the bytes it announces.
fn sized<'r>(reader: &mut Reader<'r>) -> Result<&'r [u8], ProtocolError> {
    let len = reader.unsigned_vint()?;
    // More than memory can hold is more than is left, which the reader reports.
    reader.bytes_exact(usize::try_from(len).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests;
