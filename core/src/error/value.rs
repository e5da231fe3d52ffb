//! Errors of values: binding, encoding, type checks and decoding. Frames and their layout are `error::protocol`'s.

use std::fmt;

use thiserror::Error;

use crate::error::protocol::ProtocolError;
use crate::types::column_type::ColumnType;

mod type_error;

pub use type_error::{TypeError, TypeErrorKind};

/// Says why a value or a request could not be written as bytes.
///
/// Nothing was sent; the caller's input has to change.
#[derive(Clone, Debug)]
pub struct EncodeError(Box<EncodeErrorParts>);

#[derive(Clone, Debug)]
struct EncodeErrorParts {
    rust_type: Option<&'static str>,
    cql_type: Option<ColumnType>,
    column: Option<Box<str>>,
    kind: EncodeErrorKind,
}

/// Says what kept a value or a request from being written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EncodeErrorKind {
    /// The Rust type does not fit the CQL type.
    Type(TypeError),
    /// Something is longer than its length field can say.
    TooLong {
        /// What is too long, such as "statement text".
        what: &'static str,
        /// Its length, in bytes or elements.
        len: usize,
        /// The longest that fits.
        max: usize,
    },
    /// The number is outside of what the CQL type can hold.
    OutOfRange,
    /// A string with other characters was given for an `ascii` column.
    NotAscii,
    /// "Not set" was given for a part of a value; only whole values can be left unset.
    UnsetInside,
    /// Null was given for an element of a vector.
    NullInVector,
    /// The value is zero-length, and values of this type cannot be.
    EmptyNotAllowed,
    /// A value has another number of elements than its type.
    ElementCount {
        /// What the type says.
        expected: usize,
        /// What the value has.
        actual: usize,
    },
    /// The number of values differs from the number of markers in the statement.
    ValueCount {
        /// How many markers the statement has.
        expected: usize,
        /// How many values were given.
        actual: usize,
    },
    /// A marker has no value of its name.
    ValueMissing,
    /// A value was named that the statement or the type does not know.
    NameUnknown {
        /// The name.
        name: Box<str>,
    },
    /// An implementation of `ToValue` returned without writing a value.
    NothingWritten,
    /// The types nest deeper than the driver follows.
    TooDeep,
    /// An implementation outside of this crate failed.
    Custom(Box<str>),
}

impl EncodeError {
    /// Makes an error without a value's types; they can be added on the way up.
    #[cold]
    #[must_use]
    pub fn new(kind: EncodeErrorKind) -> Self {
        Self(Box::new(EncodeErrorParts {
            rust_type: None,
            cql_type: None,
            column: None,
            kind,
        }))
    }

    /// Makes an error about a value of type `T`.
    #[cold]
    #[must_use]
    pub fn of<T: ?Sized>(cql_type: &ColumnType, kind: EncodeErrorKind) -> Self {
        Self(Box::new(EncodeErrorParts {
            rust_type: Some(std::any::type_name::<T>()),
            cql_type: Some(cql_type.clone()),
            column: None,
            kind,
        }))
    }

    /// Makes an error about something longer than its length field can say.
    #[cold]
    #[must_use]
    pub fn too_long(what: &'static str, len: usize, max: usize) -> Self {
        Self::new(EncodeErrorKind::TooLong { what, len, max })
    }

    /// Names the column; the first name given stays.
    #[cold]
    #[must_use]
    pub fn in_column(mut self, column: &str) -> Self {
        self.0.column.get_or_insert_with(|| column.into());
        self
    }

    /// Returns what is wrong.
    #[must_use]
    pub fn kind(&self) -> &EncodeErrorKind {
        &self.0.kind
    }

    /// Returns the name of the column or marker, when the error belongs to one.
    #[must_use]
    pub fn column(&self) -> Option<&str> {
        self.0.column.as_deref()
    }

    /// Returns the name of the Rust type, when the error belongs to a value.
    #[must_use]
    pub fn rust_type(&self) -> Option<&'static str> {
        match &self.0.kind {
            EncodeErrorKind::Type(error) => Some(error.rust_type()),
            _ => self.0.rust_type,
        }
    }

    /// Returns the CQL type, when the error belongs to a value.
    #[must_use]
    pub fn cql_type(&self) -> Option<&ColumnType> {
        match &self.0.kind {
            EncodeErrorKind::Type(error) => error.cql_type(),
            _ => self.0.cql_type.as_ref(),
        }
    }
}

impl From<TypeError> for EncodeError {
    fn from(error: TypeError) -> Self {
        let column = error.column().map(Into::into);
        let mut encode = Self::new(EncodeErrorKind::Type(error));
        encode.0.column = column;
        encode
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &*self.0;
        write_place(f, parts.column.as_deref(), &[])?;
        match &parts.kind {
            EncodeErrorKind::Type(_) => f.write_str("the value's type does not fit")?,
            EncodeErrorKind::TooLong { what, len, max } => {
                write!(f, "{what} of length {len} is longer than {max}")?
            }
            EncodeErrorKind::OutOfRange => f.write_str("the value is out of range")?,
            EncodeErrorKind::NotAscii => f.write_str("the text has characters outside of ASCII")?,
            EncodeErrorKind::UnsetInside => f.write_str("a part of a value cannot be unset")?,
            EncodeErrorKind::NullInVector => {
                f.write_str("an element of a vector cannot be null")?
            }
            EncodeErrorKind::EmptyNotAllowed => {
                f.write_str("a zero-length value is not allowed")?
            }
            EncodeErrorKind::ElementCount { expected, actual } => {
                write!(
                    f,
                    "the value has {actual} elements where its type has {expected}"
                )?;
            }
            EncodeErrorKind::ValueCount { expected, actual } => {
                write!(f, "{actual} values were given for {expected} markers")?;
            }
            EncodeErrorKind::ValueMissing => f.write_str("no value was given")?,
            EncodeErrorKind::NameUnknown { name } => {
                write!(f, "there is nothing named \"{name}\" to write to")?
            }
            EncodeErrorKind::NothingWritten => {
                f.write_str("the value's implementation wrote nothing")?
            }
            EncodeErrorKind::TooDeep => f.write_str("the type nests too deep")?,
            EncodeErrorKind::Custom(text) => f.write_str(text)?,
        }
        write_types(f, parts.rust_type, parts.cql_type.as_ref())
    }
}

impl std::error::Error for EncodeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            EncodeErrorKind::Type(error) => Some(error),
            _ => None,
        }
    }
}

/// Says why the bytes of a cell could not be read.
///
/// It fails its row, never the page around it.
#[derive(Clone, Debug)]
pub struct DecodeError(Box<DecodeErrorParts>);

#[derive(Clone, Debug)]
struct DecodeErrorParts {
    rust_type: Option<&'static str>,
    cql_type: Option<ColumnType>,
    column: Option<Box<str>>,
    /// Innermost first, because errors are wrapped on the way up.
    path: Vec<PathStep>,
    kind: DecodeErrorKind,
}

/// Names one step from a cell to the part of it that did not decode.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathStep {
    /// An element of a list, set, vector or tuple, from zero.
    Element(usize),
    /// The key of a map entry, from zero.
    Key(usize),
    /// The value of a map entry, from zero.
    Value(usize),
    /// A field of a user-defined type.
    Field(Box<str>),
}

/// Says what was wrong with the bytes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The Rust type does not fit the CQL type.
    Type(TypeError),
    /// The cell is null, and the Rust type has no null; `Option` has.
    Null,
    /// The cell is zero-length, and the Rust type has no such value; `MaybeEmpty` has.
    Empty,
    /// The cell has another size than values of its type.
    Size {
        /// The size of the type.
        expected: usize,
        /// The size of the cell.
        actual: usize,
    },
    /// An address has neither four nor sixteen bytes.
    AddressSize {
        /// The size of the cell.
        actual: usize,
    },
    /// Text that is not UTF-8.
    NotUtf8,
    /// A byte above 7F in an `ascii` cell.
    NotAscii,
    /// The number does not fit the Rust type.
    OutOfRange,
    /// The bytes end early, or a count or length in them is impossible.
    Malformed(ProtocolError),
    /// Bytes are left after the value.
    Surplus {
        /// How many.
        bytes: usize,
    },
    /// The types nest deeper than the driver follows.
    TooDeep,
    /// A short value stands for more nulls than the driver unfolds.
    TooLarge,
    /// No variant of the Rust enum stands for this value.
    UnknownVariant {
        /// The value as text, cut short where it is long.
        value: Box<str>,
    },
    /// The row has fewer columns than were asked for.
    NoColumn,
    /// An implementation outside of this crate failed.
    Custom(Box<str>),
}

impl DecodeError {
    /// Makes an error without types; they can be added on the way up.
    #[cold]
    #[must_use]
    pub fn new(kind: DecodeErrorKind) -> Self {
        Self(Box::new(DecodeErrorParts {
            rust_type: None,
            cql_type: None,
            column: None,
            path: Vec::new(),
            kind,
        }))
    }

    /// Makes an error about a value read as type `T`.
    #[cold]
    #[must_use]
    pub fn of<T: ?Sized>(cql_type: &ColumnType, kind: DecodeErrorKind) -> Self {
        Self(Box::new(DecodeErrorParts {
            rust_type: Some(std::any::type_name::<T>()),
            cql_type: Some(cql_type.clone()),
            column: None,
            path: Vec::new(),
            kind,
        }))
    }

    /// Names the column; the first name given stays.
    #[cold]
    #[must_use]
    pub fn in_column(mut self, column: &str) -> Self {
        self.0.column.get_or_insert_with(|| column.into());
        self
    }

    /// Adds the step that leads from the enclosing value to the failed part.
    #[cold]
    #[must_use]
    pub fn at(mut self, step: PathStep) -> Self {
        self.0.path.push(step);
        self
    }

    /// Returns what is wrong.
    #[must_use]
    pub fn kind(&self) -> &DecodeErrorKind {
        &self.0.kind
    }

    /// Returns the name of the column, when it is known.
    #[must_use]
    pub fn column(&self) -> Option<&str> {
        self.0.column.as_deref()
    }

    /// Returns the steps from the cell to the failed part, outermost first.
    pub fn path(&self) -> impl DoubleEndedIterator<Item = &PathStep> {
        self.0.path.iter().rev()
    }

    /// Returns the name of the Rust type, when it is known.
    #[must_use]
    pub fn rust_type(&self) -> Option<&'static str> {
        match &self.0.kind {
            DecodeErrorKind::Type(error) => Some(error.rust_type()),
            _ => self.0.rust_type,
        }
    }

    /// Returns the CQL type of the part that failed, when it is known.
    #[must_use]
    pub fn cql_type(&self) -> Option<&ColumnType> {
        match &self.0.kind {
            DecodeErrorKind::Type(error) => error.cql_type(),
            _ => self.0.cql_type.as_ref(),
        }
    }
}

impl From<ProtocolError> for DecodeError {
    #[cold]
    fn from(error: ProtocolError) -> Self {
        Self::new(DecodeErrorKind::Malformed(error))
    }
}

impl From<TypeError> for DecodeError {
    #[cold]
    fn from(error: TypeError) -> Self {
        let column = error.column().map(Into::into);
        let mut decode = Self::new(DecodeErrorKind::Type(error));
        decode.0.column = column;
        decode
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &*self.0;
        write_place(f, parts.column.as_deref(), &parts.path)?;
        match &parts.kind {
            DecodeErrorKind::Type(_) => f.write_str("the value's type does not fit")?,
            DecodeErrorKind::Null => f.write_str("the value is null")?,
            DecodeErrorKind::Empty => f.write_str("the value is zero-length")?,
            DecodeErrorKind::Size { expected, actual } => {
                write!(
                    f,
                    "the value has {actual} bytes where its type has {expected}"
                )?;
            }
            DecodeErrorKind::AddressSize { actual } => {
                write!(f, "the address has {actual} bytes, neither 4 nor 16")?;
            }
            DecodeErrorKind::NotUtf8 => f.write_str("the text is not UTF-8")?,
            DecodeErrorKind::NotAscii => f.write_str("the text is not ASCII")?,
            DecodeErrorKind::OutOfRange => f.write_str("the value is out of range")?,
            DecodeErrorKind::Malformed(_) => f.write_str("the bytes are malformed")?,
            DecodeErrorKind::Surplus { bytes } => {
                write!(f, "{bytes} bytes are left after the value")?
            }
            DecodeErrorKind::TooDeep => f.write_str("the type nests too deep")?,
            DecodeErrorKind::TooLarge => f.write_str("the value unfolds to too many parts")?,
            DecodeErrorKind::UnknownVariant { value } => {
                write!(f, "no variant of the enum stands for {value:?}")?;
            }
            DecodeErrorKind::NoColumn => f.write_str("the row has no such column")?,
            DecodeErrorKind::Custom(text) => f.write_str(text)?,
        }
        write_types(f, parts.rust_type, parts.cql_type.as_ref())
    }
}

impl std::error::Error for DecodeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            DecodeErrorKind::Type(error) => Some(error),
            DecodeErrorKind::Malformed(error) => Some(error),
            _ => None,
        }
    }
}

/// Says why values could not be bound to a prepared statement.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// A value could not be written.
    #[error(transparent)]
    Values(#[from] EncodeError),
    /// A column of the partition key is null or unset, so the row has no place in the ring.
    #[error("column \"{column}\" of the partition key has no value")]
    KeyMissing {
        /// The column.
        column: Box<str>,
    },
    /// A column of the partition key is longer than a key can be.
    #[error("column \"{column}\" of the partition key has {len} bytes, more than 65535")]
    KeyTooLong {
        /// The column.
        column: Box<str>,
        /// Its length.
        len: usize,
    },
    /// The values wait for their text to be prepared; a session sees to that when it sends a batch.
    #[error("a text with values was not prepared before it was sent")]
    NotPrepared,
    /// The table changed, and values as they were encoded for this statement would be read as something else.
    #[error("the statement's markers changed since it was prepared; prepare it anew")]
    Outdated,
}

fn write_place(f: &mut fmt::Formatter<'_>, column: Option<&str>, path: &[PathStep]) -> fmt::Result {
    if let Some(column) = column {
        write!(f, "column \"{column}\": ")?;
    }
    for step in path.iter().rev() {
        match step {
            PathStep::Element(index) => write!(f, "element {index}: ")?,
            PathStep::Key(index) => write!(f, "key {index}: ")?,
            PathStep::Value(index) => write!(f, "value {index}: ")?,
            PathStep::Field(name) => write!(f, "field \"{name}\": ")?,
        }
    }
    Ok(())
}

fn write_types(
    f: &mut fmt::Formatter<'_>,
    rust_type: Option<&str>,
    cql_type: Option<&ColumnType>,
) -> fmt::Result {
    match (rust_type, cql_type) {
        (Some(rust), Some(cql)) => write!(f, " ({rust}, CQL type {cql})"),
        (Some(rust), None) => write!(f, " ({rust})"),
        (None, Some(cql)) => write!(f, " (CQL type {cql})"),
        (None, None) => Ok(()),
    }
}
