//! Columns, pages and values without a connection.

use bytes::Bytes;
use messina_core::types::{
    Cell, ColumnSpec, ColumnType, DecodeError, EncodeError, EncodedValues, FromRow, FromValue,
    RowWriter, Rows, ToRow, ToValue, TypeError, UdtType, encode_value,
};

/// Makes columns from their names and types.
pub(crate) fn columns<const N: usize>(columns: [(&str, ColumnType); N]) -> [ColumnSpec; N] {
    columns.map(|(name, ty)| ColumnSpec {
        keyspace: "ks".into(),
        table: "t".into(),
        name: name.into(),
        ty,
    })
}

/// Makes the cells of a page, or the fields of a value of a user-defined type.
pub(crate) fn page(cells: &[Option<&[u8]>]) -> Bytes {
    let mut bytes = Vec::new();
    for cell in cells {
        match cell {
            Some(cell) => {
                let length = i32::try_from(cell.len()).expect("a short cell");
                bytes.extend(length.to_be_bytes());
                bytes.extend_from_slice(cell);
            }
            None => bytes.extend((-1_i32).to_be_bytes()),
        }
    }
    bytes.into()
}

/// Reads the only row of a page.
pub(crate) fn row<'p, T: FromRow<'p>>(
    columns: &'p [ColumnSpec],
    cells: &'p Bytes,
) -> Result<T, DecodeError> {
    rows(columns, 1, cells)?
        .next()
        .expect("a page of one row has a row")
}

/// Starts to read a page.
pub(crate) fn rows<'p, T: FromRow<'p>>(
    columns: &'p [ColumnSpec],
    count: usize,
    cells: &'p Bytes,
) -> Result<Rows<'p, T>, TypeError> {
    Rows::new(columns, count, cells)
}

/// Returns the bytes of the values that a statement with these markers binds.
pub(crate) fn bound(columns: &[ColumnSpec], values: &impl ToRow) -> Result<Vec<u8>, EncodeError> {
    let mut encoded = EncodedValues::new();
    values.to_row(columns, &mut RowWriter::new(&mut encoded))?;
    Ok(encoded.values().bytes.to_vec())
}

/// Makes a user-defined type.
pub(crate) fn udt<const N: usize>(fields: [(&str, ColumnType); N]) -> ColumnType {
    let fields = fields
        .into_iter()
        .map(|(name, ty)| (name.into(), ty))
        .collect();
    let (keyspace, name) = ("ks".into(), "u".into());
    ColumnType::Udt(
        UdtType {
            keyspace,
            name,
            fields,
        }
        .into(),
    )
}

/// Reads a value.
pub(crate) fn read<'r, T: FromValue<'r>>(
    ty: &'r ColumnType,
    bytes: &'r [u8],
) -> Result<T, DecodeError> {
    T::check(ty)?;
    T::from_value(ty, Some(Cell::of_slice(bytes)))
}

/// Returns the bytes of a value without their length.
pub(crate) fn written(ty: &ColumnType, value: &impl ToValue) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = Vec::new();
    encode_value(value, ty, &mut bytes)?;
    Ok(bytes.split_off(4))
}

pub(crate) const ONE: Option<&[u8]> = Some(&[0, 0, 0, 1]);
pub(crate) const TWO: Option<&[u8]> = Some(&[0, 0, 0, 2]);
pub(crate) const THREE: Option<&[u8]> = Some(&[0, 0, 0, 3]);
