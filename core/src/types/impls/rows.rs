//! Rust types as rows: tuples, slices and `Vec` in order, maps by name.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use crate::error::value::{DecodeError, EncodeError, EncodeErrorKind, TypeError};
use crate::types::decode::FromValue;
use crate::types::encode::{RowWriter, ToValue};
use crate::types::row::{FromRow, RowView, ToRow, check_count, check_values};
use crate::wire::result::ColumnSpec;

#[cold]
fn in_column(error: TypeError, column: &ColumnSpec) -> TypeError {
    error.in_column(&column.name)
}

macro_rules! row {
    ($count:literal: $($name:ident $index:tt),+) => {
        impl<'r, $($name: FromValue<'r>),+> FromRow<'r> for ($($name,)+) {
            type Plan = ();

            fn plan(columns: &[ColumnSpec]) -> Result<(), TypeError> {
                check_count::<Self>(columns, $count)?;
                let mut columns = columns.iter();
                $(if let Some(column) = columns.next() {
                    $name::check(&column.ty).map_err(|error| in_column(error, column))?;
                })+
                Ok(())
            }

            #[inline]
            fn from_row(_plan: &(), row: &mut RowView<'r>) -> Result<Self, DecodeError> {
                let mut cells = row.first::<$count>()?;
                let read = ($(cells.read::<$name>($index)?,)+);
                cells.end(row);
                Ok(read)
            }
        }

        impl<$($name: ToValue),+> ToRow for ($($name,)+) {
            #[inline]
            fn to_row(&self, columns: &[ColumnSpec], out: &mut RowWriter<'_>) -> Result<(), EncodeError> {
                check_values(columns, $count)?;
                let mut columns = columns.iter();
                $(if let Some(column) = columns.next() {
                    write(column, &self.$index, out)?;
                })+
                Ok(())
            }
        }
    };
}

row!(1: A 0);
row!(2: A 0, B 1);
row!(3: A 0, B 1, C 2);
row!(4: A 0, B 1, C 2, D 3);
row!(5: A 0, B 1, C 2, D 3, E 4);
row!(6: A 0, B 1, C 2, D 3, E 4, F 5);
row!(7: A 0, B 1, C 2, D 3, E 4, F 5, G 6);
row!(8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
row!(9: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
row!(10: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
row!(11: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
row!(12: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
row!(13: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12);
row!(14: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13);
row!(15: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14);
row!(16: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15);

#[inline]
fn write<T: ToValue + ?Sized>(
    column: &ColumnSpec,
    value: &T,
    out: &mut RowWriter<'_>,
) -> Result<(), EncodeError> {
    match out.write(&column.ty, value) {
        Ok(()) => Ok(()),
        Err(error) => Err(error.in_column(&column.name)),
    }
}

impl ToRow for () {
    fn to_row(&self, columns: &[ColumnSpec], _out: &mut RowWriter<'_>) -> Result<(), EncodeError> {
        check_values(columns, 0)
    }
}

impl<'r> FromRow<'r> for () {
    type Plan = ();

    /// Takes any columns and reads none of them.
    fn plan(_columns: &[ColumnSpec]) -> Result<(), TypeError> {
        Ok(())
    }

    fn from_row(_plan: &(), _row: &mut RowView<'r>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

impl<T: ToRow + ?Sized> ToRow for &T {
    #[inline]
    fn to_row(&self, columns: &[ColumnSpec], out: &mut RowWriter<'_>) -> Result<(), EncodeError> {
        (**self).to_row(columns, out)
    }
}

impl<T: ToRow + ?Sized> ToRow for Box<T> {
    #[inline]
    fn to_row(&self, columns: &[ColumnSpec], out: &mut RowWriter<'_>) -> Result<(), EncodeError> {
        (**self).to_row(columns, out)
    }
}

impl<T: ToValue> ToRow for [T] {
    fn to_row(&self, columns: &[ColumnSpec], out: &mut RowWriter<'_>) -> Result<(), EncodeError> {
        check_values(columns, self.len())?;
        columns
            .iter()
            .zip(self)
            .try_for_each(|(column, value)| write(column, value, out))
    }
}

impl<T: ToValue> ToRow for Vec<T> {
    fn to_row(&self, columns: &[ColumnSpec], out: &mut RowWriter<'_>) -> Result<(), EncodeError> {
        self.as_slice().to_row(columns, out)
    }
}

impl<T: ToValue, const N: usize> ToRow for [T; N] {
    fn to_row(&self, columns: &[ColumnSpec], out: &mut RowWriter<'_>) -> Result<(), EncodeError> {
        self.as_slice().to_row(columns, out)
    }
}

impl<'r, T: FromValue<'r>> FromRow<'r> for Vec<T> {
    type Plan = ();

    fn plan(columns: &[ColumnSpec]) -> Result<(), TypeError> {
        columns
            .iter()
            .try_for_each(|column| T::check(&column.ty).map_err(|error| in_column(error, column)))
    }

    fn from_row(_plan: &(), row: &mut RowView<'r>) -> Result<Self, DecodeError> {
        (0..row.left()).map(|_| row.read()).collect()
    }
}

/// Writes values by name; every name that is `given` must be that of a column.
fn write_named<'v, V: ToValue + 'v>(
    columns: &[ColumnSpec],
    out: &mut RowWriter<'_>,
    value: impl Fn(&str) -> Option<&'v V>,
    mut given: impl Iterator<Item = &'v str>,
) -> Result<(), EncodeError> {
    for column in columns {
        match value(&column.name) {
            Some(value) => write(column, value, out)?,
            None => {
                return Err(EncodeError::new(EncodeErrorKind::ValueMissing).in_column(&column.name));
            }
        }
    }
    match given.find(|name| !columns.iter().any(|column| *column.name == **name)) {
        Some(name) => Err(EncodeError::new(EncodeErrorKind::NameUnknown {
            name: name.into(),
        })),
        None => Ok(()),
    }
}

impl<K: std::borrow::Borrow<str> + Ord, V: ToValue> ToRow for BTreeMap<K, V> {
    fn to_row(&self, columns: &[ColumnSpec], out: &mut RowWriter<'_>) -> Result<(), EncodeError> {
        write_named(
            columns,
            out,
            |name| self.get(name),
            self.keys().map(std::borrow::Borrow::borrow),
        )
    }
}

impl<K: std::borrow::Borrow<str> + Eq + std::hash::Hash, V: ToValue, S: BuildHasher> ToRow
    for HashMap<K, V, S>
{
    fn to_row(&self, columns: &[ColumnSpec], out: &mut RowWriter<'_>) -> Result<(), EncodeError> {
        write_named(
            columns,
            out,
            |name| self.get(name),
            self.keys().map(std::borrow::Borrow::borrow),
        )
    }
}
