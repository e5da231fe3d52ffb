//! A page turned on its side: the values of each column one after the other, the base for columnar programs.
//!
//! Rows lie behind each other in a page. The places of their cells are found once, in one walk; a column is then read
//! straight from the page. This module leaves out how a cell becomes a value (`types`).

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;

use bytes::Bytes;

use crate::error::value::{DecodeError, DecodeErrorKind};
use crate::types::column_type::ColumnType;
use crate::types::decode::{Cell, FromValue};
use crate::wire::read::Reader;
use crate::wire::result::ColumnSpec;

/// The columns of one page, in memory of four bytes a cell beside the page.
///
/// ```
/// # use std::sync::Arc;
/// use bytes::Bytes;
/// use messina_core::exec::columns::PageColumns;
/// use messina_core::types::{ColumnSpec, ColumnType};
///
/// let (keyspace, table): (Arc<str>, Arc<str>) = ("ks".into(), "t".into());
/// let columns = [ColumnSpec { keyspace, table, name: "id".into(), ty: ColumnType::Int }];
/// let cells = Bytes::from_static(&[0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 8]);
/// let page = PageColumns::new(&columns, 2, &cells)?;
/// let ids: Result<Vec<i32>, _> = page.named::<i32>("id")?.collect();
/// assert_eq!(ids?, [7, 8]);
/// # Ok::<(), messina_core::types::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PageColumns<'p> {
    columns: &'p [ColumnSpec],
    row_count: usize,
    cells: &'p Bytes,
    /// Where each cell's length lies in the page, row by row.
    places: Vec<u32>,
}

impl<'p> PageColumns<'p> {
    /// Finds the cells of a page.
    ///
    /// # Errors
    /// The page is cut short.
    pub fn new(
        columns: &'p [ColumnSpec],
        row_count: usize,
        cells: &'p Bytes,
    ) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(cells);
        // Each cell takes four bytes at least, whatever the counts say.
        let cells_max = cells.len() / 4;
        let count = row_count.saturating_mul(columns.len()).min(cells_max);
        let mut places = Vec::with_capacity(count);
        for _ in 0..row_count {
            for column in columns {
                let place = u32::try_from(reader.offset());
                let read = reader.bytes().map_err(DecodeError::from);
                read.map_err(|error| error.in_column(&column.name))?;
                places.push(place.unwrap_or(u32::MAX));
            }
        }
        Ok(Self {
            columns,
            row_count,
            cells,
            places,
        })
    }

    /// Describes the columns.
    pub const fn columns(&self) -> &'p [ColumnSpec] {
        self.columns
    }

    /// Returns how many values each column has.
    pub const fn row_count(&self) -> usize {
        self.row_count
    }

    /// Goes over the values of the column at this place, from zero; its type is compared with `T` once.
    ///
    /// # Errors
    /// There is no such column, or `T` does not fit its type.
    pub fn at<T: FromValue<'p>>(
        &self,
        index: usize,
    ) -> Result<ColumnValues<'_, 'p, T>, DecodeError> {
        let Some(column) = self.columns.get(index) else {
            return Err(DecodeError::new(DecodeErrorKind::NoColumn));
        };
        T::check(&column.ty).map_err(|error| DecodeError::from(error).in_column(&column.name))?;
        Ok(ColumnValues {
            column,
            places: self.places.get(index..).unwrap_or_default(),
            step: self.columns.len(),
            left: self.row_count,
            cells: self.cells,
            value: PhantomData,
        })
    }

    /// Goes over the values of the column of this name.
    ///
    /// # Errors
    /// There is no such column, or `T` does not fit its type.
    pub fn named<T: FromValue<'p>>(
        &self,
        name: &str,
    ) -> Result<ColumnValues<'_, 'p, T>, DecodeError> {
        let place = self.columns.iter().position(|column| &*column.name == name);
        match place {
            Some(index) => self.at(index),
            None => Err(DecodeError::new(DecodeErrorKind::NoColumn).in_column(name)),
        }
    }
}

/// Goes over the values of one column. A value that does not decode is an error in its place.
pub struct ColumnValues<'a, 'p, T> {
    column: &'p ColumnSpec,
    places: &'a [u32],
    step: usize,
    left: usize,
    cells: &'p Bytes,
    value: PhantomData<fn() -> T>,
}

impl<T> ColumnValues<'_, '_, T> {
    /// Describes the column.
    pub const fn column(&self) -> &ColumnSpec {
        self.column
    }
}

impl<'p, T: FromValue<'p>> ColumnValues<'_, 'p, T> {
    fn read(&self, place: u32) -> Result<T, DecodeError> {
        let ty: &'p ColumnType = &self.column.ty;
        let at = usize::try_from(place).unwrap_or(usize::MAX);
        let cell = Reader::new(self.cells.get(at..).unwrap_or_default()).bytes()?;
        T::from_value(ty, cell.map(|bytes| Cell::new(self.cells, bytes)))
    }
}

impl<'p, T: FromValue<'p>> Iterator for ColumnValues<'_, 'p, T> {
    type Item = Result<T, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let place = *self.places.first()?;
        self.places = self.places.get(self.step..).unwrap_or_default();
        let value = self.read(place);
        Some(value.map_err(|error| error.in_column(&self.column.name)))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'p, T: FromValue<'p>> ExactSizeIterator for ColumnValues<'_, 'p, T> {}

impl<'p, T: FromValue<'p>> FusedIterator for ColumnValues<'_, 'p, T> {}

impl<T> fmt::Debug for ColumnValues<'_, '_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ColumnValues")
            .field("column", &self.column.name)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn columns() -> Vec<ColumnSpec> {
        let column = |name: &str, ty| ColumnSpec {
            keyspace: Arc::from("ks"),
            table: Arc::from("t"),
            name: name.into(),
            ty,
        };
        vec![
            column("id", ColumnType::Int),
            column("name", ColumnType::Text),
        ]
    }

    /// Two rows: (1, "ab") and (null, "c").
    const CELLS: &[u8] = b"\0\0\0\x04\0\0\0\x01\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\x01c";

    #[test]
    fn each_column_is_read_by_itself_as_often_as_wanted() {
        let (columns, cells) = (columns(), Bytes::from_static(CELLS));
        let page = PageColumns::new(&columns, 2, &cells).expect("whole");
        for _ in 0..2 {
            let ids = page.at::<Option<i32>>(0).expect("ints");
            assert_eq!(ids.len(), 2);
            let ids: Result<Vec<_>, _> = ids.collect();
            assert_eq!(ids.expect("ints"), [Some(1), None]);
            let names: Result<Vec<&str>, _> = page.named("name").expect("texts").collect();
            assert_eq!(names.expect("texts"), ["ab", "c"]);
        }
    }

    #[test]
    fn a_null_where_none_fits_is_an_error_in_its_place_that_names_the_column() {
        let (columns, cells) = (columns(), Bytes::from_static(CELLS));
        let page = PageColumns::new(&columns, 2, &cells).expect("whole");
        let ids: Vec<Result<i32, _>> = page.at(0).expect("ints").collect();
        assert_eq!(ids[0].as_ref().ok(), Some(&1));
        let error = ids[1].as_ref().expect_err("a null is no int").to_string();
        assert!(error.contains("id"), "{error}");
    }

    #[test]
    fn another_type_and_another_name_are_refused_at_once() {
        let (columns, cells) = (columns(), Bytes::from_static(CELLS));
        let page = PageColumns::new(&columns, 2, &cells).expect("whole");
        let error = page
            .at::<i64>(0)
            .expect_err("an int is no bigint")
            .to_string();
        assert!(error.contains("id"), "{error}");
        assert!(page.named::<i32>("nothing").is_err());
        assert!(page.at::<i32>(2).is_err());
    }

    #[test]
    fn a_page_cut_short_or_with_a_made_up_count_is_an_error_and_costs_no_memory() {
        let columns = columns();
        for len in 0..CELLS.len() {
            let cells = Bytes::from_static(&CELLS[..len]);
            assert!(PageColumns::new(&columns, 2, &cells).is_err(), "{len}");
        }
        let cells = Bytes::from_static(CELLS);
        assert!(PageColumns::new(&columns, usize::MAX, &cells).is_err());
        let empty = PageColumns::new(&columns, 0, &cells).expect("no rows");
        assert_eq!(empty.named::<i32>("id").expect("an int").count(), 0);
    }
}
