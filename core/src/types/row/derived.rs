//! What the derives of rows call; public so that their code can. The traits themselves are `row`'s.

use bytes::Bytes;

use crate::error::value::{
    DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, TypeError, TypeErrorKind,
};
use crate::types::decode::{Cell, FromValue};
use crate::types::encode::RowWriter;
use crate::types::row::{NamedRow, RowView, check_count, check_values, in_column};
use crate::wire::result::ColumnSpec;

/// Remembers which column each of the `N` fields of a struct is read from.
///
/// The derives use it; it is public so that their code can.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct FieldPlan<const N: usize> {
    columns: [Option<u16>; N],
    /// Whether the fields are the first columns in order.
    in_order: bool,
    /// For each column the field it fills; empty when they are in order.
    fields: Vec<Option<u16>>,
}

impl<const N: usize> FieldPlan<N> {
    /// Finds each field's column by its name; a field that is not required may have none.
    pub fn by_name<T>(
        columns: &[ColumnSpec],
        fields: [(&'static str, bool); N],
    ) -> Result<Self, TypeError> {
        let mut places = [None; N];
        for (place, (name, required)) in places.iter_mut().zip(fields) {
            let mut found = columns
                .iter()
                .enumerate()
                .filter(|(_, column)| &*column.name == name);
            *place = match (found.next(), found.next()) {
                (Some((index, _)), None) => u16::try_from(index).ok(),
                (None, _) if !required => None,
                (None, _) => {
                    return Err(TypeError::new::<T>(
                        None,
                        TypeErrorKind::Missing { name: name.into() },
                    ));
                }
                (Some(_), Some(_)) => {
                    return Err(TypeError::new::<T>(
                        None,
                        TypeErrorKind::Duplicate { name: name.into() },
                    ));
                }
            };
        }
        let in_order = places
            .iter()
            .zip(0_u16..)
            .all(|(place, index)| *place == Some(index));
        let mut back = Vec::new();
        if !in_order {
            back.resize(columns.len(), None);
            for (place, field) in places.iter().zip(0_u16..) {
                if let Some(slot) = place.and_then(|place| back.get_mut(usize::from(place))) {
                    *slot = Some(field);
                }
            }
        }
        Ok(Self {
            columns: places,
            in_order,
            fields: back,
        })
    }

    /// Takes the columns in order; there must be exactly as many as fields.
    pub fn by_order<T>(columns: &[ColumnSpec]) -> Result<Self, TypeError> {
        check_count::<T>(columns, N)?;
        let mut places = [None; N];
        for (place, index) in places.iter_mut().zip(0_u16..) {
            *place = Some(index);
        }
        Ok(Self {
            columns: places,
            in_order: true,
            fields: Vec::new(),
        })
    }

    /// Checks the type of a field's column, if it has one.
    pub fn check<'r, T: FromValue<'r>>(
        &self,
        columns: &[ColumnSpec],
        field: usize,
    ) -> Result<(), TypeError> {
        let place = self.columns.get(field).copied().flatten();
        match place.and_then(|place| columns.get(usize::from(place))) {
            Some(column) => T::check(&column.ty).map_err(|error| error.in_column(&column.name)),
            None => Ok(()),
        }
    }

    /// Says whether the fields are the first columns in order, so that they can be read straight.
    #[inline]
    pub fn in_order(&self) -> bool {
        self.in_order
    }

    /// Sorts the cells of a row to the fields they fill.
    #[inline]
    pub fn pick<'r>(&self, row: &mut RowView<'r>) -> Result<Picked<'r, '_, N>, DecodeError> {
        let columns = row.columns.as_slice();
        let mut cells = [None; N];
        let mut reader = row.reader.clone();
        for field in self.fields.iter().take(columns.len()) {
            let bytes = reader.bytes()?;
            if let Some(cell) = field.and_then(|field| cells.get_mut(usize::from(field))) {
                *cell = bytes;
            }
        }
        row.reader = reader;
        row.columns = [].iter();
        Ok(Picked {
            cells,
            places: &self.columns,
            columns,
            frame: row.frame,
        })
    }
}

/// The cells of one row, by field.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct Picked<'r, 'p, const N: usize> {
    cells: [Option<&'r [u8]>; N],
    places: &'p [Option<u16>; N],
    columns: &'r [ColumnSpec],
    frame: &'r Bytes,
}

impl<'r, const N: usize> Picked<'r, '_, N> {
    /// Reads a field that has a column.
    #[inline]
    pub fn read<'a, T: FromValue<'a>>(&self, field: usize) -> Result<T, DecodeError>
    where
        'r: 'a,
    {
        let place = self.places.get(field).copied().flatten();
        let column = place.and_then(|place| self.columns.get(usize::from(place)));
        let (Some(column), Some(bytes)) = (column, self.cells.get(field)) else {
            return Err(DecodeError::new(DecodeErrorKind::NoColumn));
        };
        match T::from_value(&column.ty, bytes.map(|bytes| Cell::new(self.frame, bytes))) {
            Ok(value) => Ok(value),
            Err(error) => Err(in_column(error, column)),
        }
    }

    /// Reads a field that may have no column or no value, which `default` makes then.
    #[inline]
    pub fn read_or<'a, T: FromValue<'a>>(
        &self,
        field: usize,
        default: impl FnOnce() -> T,
    ) -> Result<T, DecodeError>
    where
        'r: 'a,
    {
        match self.places.get(field) {
            Some(Some(_)) => match self.read::<Option<T>>(field) {
                Ok(value) => Ok(value.unwrap_or_else(default)),
                Err(error) => Err(error),
            },
            _ => Ok(default()),
        }
    }
}

/// Writes the values of a struct in order: `write` is told which of `count` fields the next column takes.
#[doc(hidden)]
pub fn write_in_order(
    columns: &[ColumnSpec],
    count: usize,
    mut write: impl FnMut(usize, &ColumnSpec) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    check_values(columns, count)?;
    columns.iter().enumerate().try_for_each(|(place, column)| {
        write(place, column).map_err(|error| error.in_column(&column.name))
    })
}

/// Writes the values of a struct by name: every name must be asked for, every column must be known.
#[doc(hidden)]
pub fn write_named<T: NamedRow>(
    row: &T,
    columns: &[ColumnSpec],
    out: &mut RowWriter<'_>,
) -> Result<(), EncodeError> {
    let mut in_order = columns.len() == T::COUNT;
    for (place, column) in columns.iter().enumerate() {
        let name = &*column.name;
        let index = if T::name_at(place) == Some(name) {
            place
        } else {
            in_order = false;
            match (0..T::COUNT).find(|index| T::name_at(*index) == Some(name)) {
                Some(index) => index,
                None => return Err(EncodeError::new(EncodeErrorKind::ValueMissing).in_column(name)),
            }
        };
        row.write_at(index, column, out)
            .map_err(|error| error.in_column(name))?;
    }
    if in_order {
        return Ok(());
    }
    let unknown = (0..T::COUNT)
        .filter_map(T::name_at)
        .find(|name| !columns.iter().any(|column| &*column.name == *name));
    match unknown {
        Some(name) => Err(EncodeError::new(EncodeErrorKind::NameUnknown {
            name: name.into(),
        })),
        None => Ok(()),
    }
}
