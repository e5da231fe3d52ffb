//! User-defined types as Rust structs: what their derives call. The type itself is `column_type::UdtType`.

use std::iter::Enumerate;
use std::slice;
use std::sync::Arc;

use crate::error::value::{
    DecodeError, EncodeError, EncodeErrorKind, PathStep, TypeError, TypeErrorKind,
};
use crate::types::column_type::{ColumnType, UdtType};
use crate::types::decode::{Cell, FromValue, Parts, not_null};
use crate::types::encode::{ToValue, ValueWriter};

/// Writes fields that have names; `#[cql(flatten)]` puts them beside those of another struct.
///
/// `derive(ToValue)` implements it for structs whose fields are found by name.
#[diagnostic::on_unimplemented(
    message = "the fields of `{Self}` have no names",
    label = "cannot be flattened",
    note = "structs whose fields are found by name have them with `#[derive(ToValue)]`"
)]
pub trait NamedFields {
    /// Writes the field of this name, or gives the writer back when there is none.
    ///
    /// # Errors
    /// When the field's value cannot be written as this type.
    fn write_field<'w>(
        &self,
        name: &str,
        ty: &ColumnType,
        out: ValueWriter<'w>,
    ) -> Result<Option<ValueWriter<'w>>, EncodeError>;
}

/// Finds the user-defined type behind a column type.
///
/// # Errors
/// When it is another kind of type.
pub fn udt_of<T: ?Sized>(ty: &ColumnType) -> Result<&UdtType, TypeError> {
    match ty {
        ColumnType::Udt(udt) => Ok(udt),
        _ => Err(TypeError::mismatch::<T>(ty)),
    }
}

/// Checks that a field of `T` can be read from the field of this name.
///
/// # Errors
/// When the field is missing and required, or its type does not fit.
pub fn check_read<'r, T, F: FromValue<'r>>(
    ty: &ColumnType,
    name: &str,
    required: bool,
) -> Result<(), TypeError> {
    match field(udt_of::<T>(ty)?, name) {
        Some(field) => F::check(field).map_err(|error| in_field::<T>(error, ty, name)),
        None if required => Err(TypeError::new::<T>(
            Some(ty),
            TypeErrorKind::Missing { name: name.into() },
        )),
        None => Ok(()),
    }
}

/// Checks that a field of `T` can be written as the field of this name.
///
/// # Errors
/// When the field is missing, or its type does not fit.
pub fn check_write<T, F: ToValue>(ty: &ColumnType, name: &str) -> Result<(), TypeError> {
    match field(udt_of::<T>(ty)?, name) {
        Some(field) => F::check(field).map_err(|error| in_field::<T>(error, ty, name)),
        None => Err(TypeError::new::<T>(
            Some(ty),
            TypeErrorKind::Missing { name: name.into() },
        )),
    }
}

/// Checks that there are as many fields as `T` has.
///
/// # Errors
/// When there are more or fewer.
pub fn check_order<T>(ty: &ColumnType, count: usize) -> Result<(), TypeError> {
    let actual = udt_of::<T>(ty)?.fields.len();
    if actual == count {
        return Ok(());
    }
    let kind = TypeErrorKind::Count {
        what: "fields",
        expected: count,
        actual,
    };
    Err(TypeError::new::<T>(Some(ty), kind))
}

/// Checks that a field of `T` can be read from the field at this place.
///
/// # Errors
/// When its type does not fit.
pub fn check_read_at<'r, T, F: FromValue<'r>>(
    ty: &ColumnType,
    place: usize,
) -> Result<(), TypeError> {
    match udt_of::<T>(ty)?.fields.get(place) {
        Some((name, field)) => F::check(field).map_err(|error| in_field::<T>(error, ty, name)),
        None => check_order::<T>(ty, place + 1),
    }
}

/// Checks that a field of `T` can be written as the field at this place.
///
/// # Errors
/// When its type does not fit.
pub fn check_write_at<T, F: ToValue>(ty: &ColumnType, place: usize) -> Result<(), TypeError> {
    match udt_of::<T>(ty)?.fields.get(place) {
        Some((name, field)) => F::check(field).map_err(|error| in_field::<T>(error, ty, name)),
        None => check_order::<T>(ty, place + 1),
    }
}

/// Makes the error that says that a value's type has not the field of this name.
#[cold]
#[must_use]
pub fn missing<T>(ty: &ColumnType, name: &str) -> DecodeError {
    TypeError::new::<T>(Some(ty), TypeErrorKind::Missing { name: name.into() }).into()
}

fn field<'t>(udt: &'t UdtType, name: &str) -> Option<&'t ColumnType> {
    udt.fields
        .iter()
        .find(|(field, _)| &**field == name)
        .map(|(_, ty)| ty)
}

#[cold]
fn in_field<T>(error: TypeError, ty: &ColumnType, name: &str) -> TypeError {
    error.in_part::<T>(ty, format!("field \"{name}\""))
}

/// Steps through the fields of a value of a user-defined type, with their names and types.
#[derive(Clone, Debug)]
pub struct UdtFields<'r> {
    fields: Enumerate<slice::Iter<'r, (Arc<str>, ColumnType)>>,
    parts: Parts<'r>,
}

impl<'r> UdtFields<'r> {
    /// Starts at the first field.
    ///
    /// # Errors
    /// When the type is of another kind, or the value is null.
    pub fn new<T>(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        let udt = udt_of::<T>(ty)?;
        let cell = not_null::<T>(ty, cell)?;
        Ok(Self {
            fields: udt.fields.iter().enumerate(),
            parts: Parts::new(cell),
        })
    }

    /// Returns the next field; fields that the value is too old to have are null.
    ///
    /// # Errors
    /// When the value ends inside a field, or has more bytes than the type has fields.
    pub fn next_field(&mut self) -> Result<Option<UdtField<'r>>, DecodeError> {
        let Some((place, (name, ty))) = self.fields.next() else {
            self.parts.clone().finish()?;
            return Ok(None);
        };
        let cell = self
            .parts
            .next_part()
            .map_err(|error| error.at(PathStep::Field((**name).into())))?;
        Ok(Some(UdtField {
            place,
            name,
            ty,
            cell,
        }))
    }
}

/// One field of a value.
#[derive(Clone, Copy, Debug)]
pub struct UdtField<'r> {
    /// Its place, from zero.
    pub place: usize,
    /// Its name.
    pub name: &'r str,
    /// Its type.
    pub ty: &'r ColumnType,
    /// Its bytes.
    pub cell: Option<Cell<'r>>,
}

impl<'r> UdtField<'r> {
    /// Reads the field as an `F`, whose type was checked before.
    ///
    /// # Errors
    /// When it does not decode.
    pub fn read<F: FromValue<'r>>(&self) -> Result<F, DecodeError> {
        F::from_value(self.ty, self.cell)
            .map_err(|error| error.at(PathStep::Field(self.name.into())))
    }
}

/// Writes a value of a user-defined type field by field: `write` gets each field's place, name, type and writer.
///
/// # Errors
/// When the type is of another kind, or those of `write`.
pub fn write_udt<T: ?Sized>(
    ty: &ColumnType,
    out: ValueWriter<'_>,
    mut write: impl FnMut(usize, &str, &ColumnType, ValueWriter<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let udt = udt_of::<T>(ty)?;
    out.content(|content| {
        for (place, (name, ty)) in udt.fields.iter().enumerate() {
            let start = content.len();
            write(place, name, ty, content.part())?;
            if content.len() == start {
                return Err(EncodeError::of::<T>(ty, EncodeErrorKind::NothingWritten));
            }
        }
        Ok(())
    })
}

/// Writes a value of a user-defined type from fields that have names; what has no field is null.
///
/// # Errors
/// When the type is of another kind, or those of the fields.
pub fn write_named<T: NamedFields + ?Sized>(
    value: &T,
    ty: &ColumnType,
    out: ValueWriter<'_>,
) -> Result<(), EncodeError> {
    write_udt::<T>(ty, out, |_, name, ty, out| {
        match value.write_field(name, ty, out)? {
            Some(out) => out.null(),
            None => Ok(()),
        }
    })
}
