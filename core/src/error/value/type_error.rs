//! The error of a type check.

use std::fmt;

use crate::types::column_type::ColumnType;

/// Says that a Rust type does not fit a CQL type, or a row type does not fit the columns.
///
/// It is found once, before the first row of a page is read or the first byte of a value is written.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeError(Box<TypeErrorParts>);

#[derive(Clone, Debug, PartialEq)]
struct TypeErrorParts {
    rust_type: &'static str,
    cql_type: Option<ColumnType>,
    column: Option<Box<str>>,
    kind: TypeErrorKind,
}

/// Says what kept a Rust type from fitting.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TypeErrorKind {
    /// The Rust type has no reading of this CQL type.
    Mismatch,
    /// The container fits, a part of it does not.
    Part {
        /// Which part: "element", "key", "value", "component 2", "field name".
        part: Box<str>,
        /// What is wrong with it.
        error: TypeError,
    },
    /// The number of components, elements or columns differs.
    Count {
        /// What is counted: "columns", "components", "elements".
        what: &'static str,
        /// How many the Rust type has.
        expected: usize,
        /// How many the CQL side has.
        actual: usize,
    },
    /// A column or field that the Rust type needs is not there.
    Missing {
        /// Its name.
        name: Box<str>,
    },
    /// A name occurs more than once, so a field cannot be told from another.
    Duplicate {
        /// The name.
        name: Box<str>,
    },
}

impl TypeError {
    /// Makes an error that says: `T` cannot be read from, or written as, this CQL type.
    #[cold]
    #[must_use]
    pub fn mismatch<T: ?Sized>(cql_type: &ColumnType) -> Self {
        Self::new::<T>(Some(cql_type), TypeErrorKind::Mismatch)
    }

    /// Makes an error about the Rust type `T`.
    #[cold]
    #[must_use]
    pub fn new<T: ?Sized>(cql_type: Option<&ColumnType>, kind: TypeErrorKind) -> Self {
        Self(Box::new(TypeErrorParts {
            rust_type: std::any::type_name::<T>(),
            cql_type: cql_type.cloned(),
            column: None,
            kind,
        }))
    }

    /// Wraps this error as one about a part of the container `T`.
    #[cold]
    #[must_use]
    pub fn in_part<T: ?Sized>(self, cql_type: &ColumnType, part: impl Into<Box<str>>) -> Self {
        let part = part.into();
        Self::new::<T>(Some(cql_type), TypeErrorKind::Part { part, error: self })
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
    pub fn kind(&self) -> &TypeErrorKind {
        &self.0.kind
    }

    /// Returns the name of the column, when the error belongs to one.
    #[must_use]
    pub fn column(&self) -> Option<&str> {
        self.0.column.as_deref()
    }

    /// Returns the name of the Rust type.
    #[must_use]
    pub fn rust_type(&self) -> &'static str {
        self.0.rust_type
    }

    /// Returns the CQL type; errors about whole rows have none.
    #[must_use]
    pub fn cql_type(&self) -> Option<&ColumnType> {
        self.0.cql_type.as_ref()
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &*self.0;
        super::write_place(f, parts.column.as_deref(), &[])?;
        let rust = parts.rust_type;
        match (&parts.kind, &parts.cql_type) {
            (TypeErrorKind::Mismatch, Some(cql)) => {
                write!(f, "{rust} does not fit the CQL type {cql}")
            }
            (TypeErrorKind::Mismatch, None) => write!(f, "{rust} does not fit the columns"),
            (TypeErrorKind::Part { part, .. }, Some(cql)) => {
                write!(f, "{rust} does not fit the CQL type {cql} in its {part}")
            }
            (TypeErrorKind::Part { part, .. }, None) => {
                write!(f, "{rust} does not fit in its {part}")
            }
            (
                TypeErrorKind::Count {
                    what,
                    expected,
                    actual,
                },
                cql,
            ) => {
                write!(f, "{rust} has {expected} {what} where ")?;
                match cql {
                    Some(cql) => write!(f, "{cql} has {actual}"),
                    None => write!(f, "the statement has {actual}"),
                }
            }
            (TypeErrorKind::Missing { name }, cql) => {
                write!(f, "{rust} needs \"{name}\", which ")?;
                match cql {
                    Some(cql) => write!(f, "{cql} does not have"),
                    None => f.write_str("is not among the columns"),
                }
            }
            (TypeErrorKind::Duplicate { name }, _) => {
                write!(f, "{rust} finds the name \"{name}\" more than once")
            }
        }
    }
}

impl std::error::Error for TypeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            TypeErrorKind::Part { error, .. } => Some(error),
            _ => None,
        }
    }
}
