//! Rows: `ToRow` for what a statement binds, `FromRow` for what a page holds, and the walk over a page. Cells themselves are `decode`'s.

use std::fmt;
use std::slice;

use bytes::Bytes;

use crate::error::value::{
    DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, TypeError, TypeErrorKind,
};
use crate::types::decode::{Cell, FromValue};
use crate::types::encode::RowWriter;
use crate::wire::read::Reader;
use crate::wire::result::ColumnSpec;

mod derived;

pub use derived::{FieldPlan, Picked, write_in_order, write_named};

/// Writes the values that a statement binds.
///
/// Tuples, slices, arrays and `Vec` give values in order, maps by name, and `derive(ToRow)` makes a struct do either.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the values of a statement",
    label = "not a row of values",
    note = "structs become rows with `#[derive(ToRow)]`; a single value is a tuple of one: `(value,)`"
)]
pub trait ToRow {
    /// Writes one value for each of the columns, in their order.
    ///
    /// # Errors
    /// When the number of values differs, a name is missing or unknown, or a value does not fit.
    fn to_row(&self, columns: &[ColumnSpec], out: &mut RowWriter<'_>) -> Result<(), EncodeError>;
}

/// Writes values that have names; `#[cql(flatten)]` puts them beside those of another struct.
///
/// `derive(ToRow)` implements it for structs whose fields are found by name.
///
/// ```
/// # #[cfg(feature = "derive")] {
/// use messina_core::ToRow;
/// use messina_core::types::NamedRow;
///
/// #[derive(ToRow)]
/// struct Key {
///     id: i32,
/// }
///
/// #[derive(ToRow)]
/// struct User {
///     name: String,
///     #[cql(flatten)]
///     key: Key,
/// }
///
/// assert_eq!(User::COUNT, 2);
/// assert_eq!((User::name_at(0), User::name_at(1)), (Some("name"), Some("id")));
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "the values of `{Self}` have no names",
    label = "cannot be flattened",
    note = "structs whose fields are found by name have them with `#[derive(ToRow)]`"
)]
pub trait NamedRow {
    /// How many values there are.
    const COUNT: usize;

    /// Returns the name of the value at this place, from zero; `None` behind the last.
    fn name_at(place: usize) -> Option<&'static str>;

    /// Writes the value at this place for a column of its name.
    ///
    /// # Errors
    /// When the value does not fit the column.
    fn write_at(
        &self,
        place: usize,
        column: &ColumnSpec,
        out: &mut RowWriter<'_>,
    ) -> Result<(), EncodeError>;
}

/// Reads a row of a page; `'r` is the life of the page it may borrow from.
///
/// Tuples and `Vec` take all columns in order, [`Row`] any column by name, and `derive(FromRow)` makes a struct do
/// either.
#[diagnostic::on_unimplemented(
    message = "a row cannot be read into `{Self}`",
    label = "not a row",
    note = "structs become rows with `#[derive(FromRow)]`; a single column is a tuple of one: `(T,)`"
)]
pub trait FromRow<'r>: Sized {
    /// What is found out once per page: which column goes where.
    type Plan;

    /// Compares the columns with `Self`.
    ///
    /// # Errors
    /// When a column is missing, or of a type that does not fit.
    fn plan(columns: &[ColumnSpec]) -> Result<Self::Plan, TypeError>;

    /// Reads one row. Cells that are left unread are skipped.
    ///
    /// # Errors
    /// When a cell does not decode; the rows behind it can still be read.
    fn from_row(plan: &Self::Plan, row: &mut RowView<'r>) -> Result<Self, DecodeError>;
}

/// Hands out the cells of one row from left to right.
#[derive(Clone, Debug)]
pub struct RowView<'r> {
    columns: slice::Iter<'r, ColumnSpec>,
    reader: Reader<'r>,
    frame: &'r Bytes,
    broken: bool,
}

impl<'r> RowView<'r> {
    /// Returns how many cells are left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.columns.len()
    }

    /// Returns the next column with its cell; `None` behind the last one.
    ///
    /// # Errors
    /// When the page ends inside the cell; no row behind it can be read then.
    #[inline]
    pub fn next_cell(&mut self) -> Option<Result<(&'r ColumnSpec, Option<Cell<'r>>), DecodeError>> {
        let column = self.columns.next()?;
        Some(match self.reader.bytes() {
            Ok(bytes) => Ok((column, bytes.map(|bytes| Cell::new(self.frame, bytes)))),
            Err(error) => {
                self.broken = true;
                Err(in_column(error.into(), column))
            }
        })
    }

    /// Reads the next cell as a `T`, whose type was checked before.
    ///
    /// # Errors
    /// When there is no cell left, or it does not decode.
    #[inline]
    pub fn read<'a, T: FromValue<'a>>(&mut self) -> Result<T, DecodeError>
    where
        'r: 'a,
    {
        match self.next_cell() {
            Some(Ok((column, cell))) => match T::from_value(&column.ty, cell) {
                Ok(value) => Ok(value),
                Err(error) => Err(in_column(error, column)),
            },
            Some(Err(error)) => Err(error),
            None => Err(DecodeError::new(DecodeErrorKind::NoColumn)),
        }
    }

    /// Takes the first `N` cells of a row to read them without looking for the end of the columns.
    ///
    /// Until [`FirstCells::end`] the row stays where it is, so that whoever stops early leaves it whole.
    #[doc(hidden)]
    #[inline(always)]
    pub fn first<const N: usize>(&self) -> Result<FirstCells<'r, N>, DecodeError> {
        match self.columns.as_slice().first_chunk::<N>() {
            Some(columns) => Ok(FirstCells {
                columns,
                reader: self.reader.clone(),
                frame: self.frame,
            }),
            None => Err(DecodeError::new(DecodeErrorKind::NoColumn)),
        }
    }

    /// Steps over the cells that are left.
    fn skip(&mut self) -> Result<(), DecodeError> {
        while let Some(cell) = self.next_cell() {
            cell?;
        }
        Ok(())
    }
}

/// The first cells of a row, kept apart from the row so that the compiler can hold them in registers.
#[derive(Debug)]
#[doc(hidden)]
pub struct FirstCells<'r, const N: usize> {
    columns: &'r [ColumnSpec; N],
    reader: Reader<'r>,
    frame: &'r Bytes,
}

impl<'r, const N: usize> FirstCells<'r, N> {
    /// Reads the next cell, which is that of column `index`.
    // Measured: a call for each cell costs more than the cell.
    #[inline(always)]
    pub fn read<'a, T: FromValue<'a>>(&mut self, index: usize) -> Result<T, DecodeError>
    where
        'r: 'a,
    {
        let Some(column) = self.columns.get(index) else {
            return Err(DecodeError::new(DecodeErrorKind::NoColumn));
        };
        let bytes = match self.reader.bytes() {
            Ok(bytes) => bytes,
            Err(error) => return Err(in_column(error.into(), column)),
        };
        match T::from_value(&column.ty, bytes.map(|bytes| Cell::new(self.frame, bytes))) {
            Ok(value) => Ok(value),
            Err(error) => Err(in_column(error, column)),
        }
    }

    /// Moves the row behind the cells that were read.
    #[inline(always)]
    pub fn end(self, row: &mut RowView<'r>) {
        row.reader = self.reader;
        row.columns = row.columns.as_slice().get(N..).unwrap_or_default().iter();
    }
}

#[cold]
#[inline(never)]
fn in_column(error: DecodeError, column: &ColumnSpec) -> DecodeError {
    error.in_column(&column.name)
}

/// Goes over the rows of a page.
///
/// A row that does not decode is an error in its place, and the next row follows. Where the page itself is cut short
/// the iterator ends after the error.
pub struct Rows<'p, T: FromRow<'p>> {
    columns: &'p [ColumnSpec],
    row: RowView<'p>,
    left: usize,
    plan: T::Plan,
}

impl<'p, T: FromRow<'p>> Rows<'p, T> {
    /// Compares the columns with `T` and starts at the first row.
    ///
    /// # Errors
    /// When `T` does not fit the columns.
    pub fn new(
        columns: &'p [ColumnSpec],
        row_count: usize,
        cells: &'p Bytes,
    ) -> Result<Self, TypeError> {
        let plan = T::plan(columns)?;
        let row = RowView {
            columns: [].iter(),
            reader: Reader::new(cells),
            frame: cells,
            broken: false,
        };
        Ok(Self {
            columns,
            row,
            left: row_count,
            plan,
        })
    }
}

impl<'p, T: FromRow<'p>> Rows<'p, T> {
    /// Steps over the cells of the row that were not read.
    fn skip_rest(&mut self) -> Result<(), DecodeError> {
        let skipped = self.row.skip();
        if self.row.broken {
            self.left = 0;
        }
        skipped
    }
}

impl<'p, T: FromRow<'p>> Iterator for Rows<'p, T> {
    type Item = Result<T, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.row.columns = self.columns.iter();
        let read = T::from_row(&self.plan, &mut self.row);
        if self.row.columns.len() == 0 && !self.row.broken {
            return Some(read);
        }
        Some(match self.skip_rest() {
            Ok(()) => read,
            // That the page is cut short is worse than whatever was found in this row.
            Err(error) => Err(error),
        })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        // Broken pages end early.
        (0, Some(self.left))
    }
}

impl<'p, T: FromRow<'p>> fmt::Debug for Rows<'p, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("columns", &self.columns)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// Holds one row without a type of its own; columns are read by name or place, each checked when it is read.
///
/// ```
/// # use std::sync::Arc;
/// use bytes::Bytes;
/// use messina_core::types::{ColumnSpec, ColumnType, Row, Rows};
///
/// let (keyspace, table): (Arc<str>, Arc<str>) = ("ks".into(), "t".into());
/// let columns = [ColumnSpec { keyspace, table, name: "id".into(), ty: ColumnType::Int }];
/// let cells = Bytes::from_static(&[0, 0, 0, 4, 0, 0, 0, 7]);
/// for row in Rows::<Row<'_>>::new(&columns, 1, &cells)? {
///     assert_eq!(row?.read::<i32>("id")?, 7);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Row<'r> {
    cells: Vec<(&'r ColumnSpec, Option<Cell<'r>>)>,
}

impl<'r> Row<'r> {
    /// Returns the columns in their order.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = &'r ColumnSpec> {
        self.cells.iter().map(|(column, _)| *column)
    }

    /// Reads the column of this name.
    ///
    /// # Errors
    /// When there is no such column, its type does not fit, or its cell does not decode.
    pub fn read<T: FromValue<'r>>(&self, name: &str) -> Result<T, DecodeError> {
        match self
            .cells
            .iter()
            .position(|(column, _)| &*column.name == name)
        {
            Some(index) => self.read_at(index),
            None => Err(DecodeError::new(DecodeErrorKind::NoColumn).in_column(name)),
        }
    }

    /// Reads the column at this place, from zero.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_at<T: FromValue<'r>>(&self, index: usize) -> Result<T, DecodeError> {
        let Some((column, cell)) = self.cells.get(index) else {
            return Err(DecodeError::new(DecodeErrorKind::NoColumn));
        };
        let read = match T::check(&column.ty) {
            Ok(()) => T::from_value(&column.ty, *cell),
            Err(error) => Err(error.into()),
        };
        read.map_err(|error| error.in_column(&column.name))
    }

    /// Says whether there is a column of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.cells.iter().any(|(column, _)| &*column.name == name)
    }
}

impl<'r> FromRow<'r> for Row<'r> {
    type Plan = ();

    fn plan(_columns: &[ColumnSpec]) -> Result<(), TypeError> {
        Ok(())
    }

    fn from_row(_plan: &(), row: &mut RowView<'r>) -> Result<Self, DecodeError> {
        let mut cells = Vec::with_capacity(row.left());
        while let Some(cell) = row.next_cell() {
            cells.push(cell?);
        }
        Ok(Self { cells })
    }
}

/// Compares the number of columns with what `T` has.
pub(crate) fn check_count<T>(columns: &[ColumnSpec], expected: usize) -> Result<(), TypeError> {
    let actual = columns.len();
    if actual == expected {
        return Ok(());
    }
    Err(TypeError::new::<T>(
        None,
        TypeErrorKind::Count {
            what: "columns",
            expected,
            actual,
        },
    ))
}

/// Compares the number of values with the number of markers.
#[inline]
#[doc(hidden)]
pub fn check_values(columns: &[ColumnSpec], actual: usize) -> Result<(), EncodeError> {
    let expected = columns.len();
    if actual == expected {
        return Ok(());
    }
    Err(EncodeError::new(EncodeErrorKind::ValueCount {
        expected,
        actual,
    }))
}

#[cfg(test)]
mod tests;
