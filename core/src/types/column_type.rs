//! The type of a column, as result metadata describe it. Class names are read in [`crate::types::custom_type`],
//! the bytes of type options in [`crate::wire::result`].

use std::fmt;
use std::sync::Arc;

/// The CQL type of a column, a bind marker, or a part of another type. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ColumnType {
    /// `ascii`
    Ascii,
    /// `bigint`
    BigInt,
    /// `blob`
    Blob,
    /// `boolean`
    Boolean,
    /// `counter`
    Counter,
    /// `decimal`
    Decimal,
    /// `double`
    Double,
    /// `float`
    Float,
    /// `int`
    Int,
    /// `timestamp`
    Timestamp,
    /// `uuid`
    Uuid,
    /// `text`, also known as `varchar`
    Text,
    /// `varint`
    Varint,
    /// `timeuuid`
    Timeuuid,
    /// `inet`
    Inet,
    /// `date`
    Date,
    /// `time`
    Time,
    /// `smallint`
    SmallInt,
    /// `tinyint`
    TinyInt,
    /// `duration`
    Duration,
    /// `list` of an element type
    List(Arc<Self>),
    /// `set` of an element type
    Set(Arc<Self>),
    /// `map` from a key type to a value type
    Map(Arc<(Self, Self)>),
    /// `tuple` of component types
    Tuple(Arc<[Self]>),
    /// A user-defined type
    Udt(Arc<UdtType>),
    /// `vector` of a fixed number of elements
    Vector {
        /// The element type.
        element: Arc<Self>,
        /// How many elements each value has.
        dimension: u32,
    },
    /// A type that CQL has no name for, by its class name.
    Custom(Arc<str>),
}

/// A user-defined type: a name and fields in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UdtType {
    /// The keyspace the type lives in.
    pub keyspace: Arc<str>,
    /// The name of the type.
    pub name: Arc<str>,
    /// Names and types of the fields, in the order of the wire.
    pub fields: Vec<(Arc<str>, ColumnType)>,
}

/// How deep types may be nested: far beyond what servers accept, and far from the end of any stack.
pub const TYPE_DEPTH_MAX: usize = 200;

impl ColumnType {
    /// Tells whether bytes that were written as `older` mean the same when they are read as this type.
    ///
    /// That is so for equal types, and for a user type that has got more fields or other names for them since: a
    /// value that is shorter than its type ends in nulls.
    pub fn reads_values_of(&self, older: &Self) -> bool {
        match (self, older) {
            (Self::List(new), Self::List(old)) | (Self::Set(new), Self::Set(old)) => {
                new.reads_values_of(old)
            }
            (Self::Map(new), Self::Map(old)) => {
                new.0.reads_values_of(&old.0) && new.1.reads_values_of(&old.1)
            }
            (Self::Tuple(new), Self::Tuple(old)) => {
                new.len() == old.len() && new.iter().zip(&**old).all(|(n, o)| n.reads_values_of(o))
            }
            (Self::Udt(new), Self::Udt(old)) => {
                let names = (&new.keyspace, &new.name) == (&old.keyspace, &old.name);
                let mut fields = new.fields.iter().zip(&old.fields);
                names
                    && old.fields.len() <= new.fields.len()
                    && fields.all(|((_, n), (_, o))| n.reads_values_of(o))
            }
            (
                Self::Vector {
                    element: new,
                    dimension,
                },
                Self::Vector {
                    element: old,
                    dimension: old_dimension,
                },
            ) => dimension == old_dimension && new.reads_values_of(old),
            _ => self == older,
        }
    }
}

impl fmt::Display for ColumnType {
    /// Writes the CQL text of the type; whether it is frozen is not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Ascii => "ascii",
            Self::BigInt => "bigint",
            Self::Blob => "blob",
            Self::Boolean => "boolean",
            Self::Counter => "counter",
            Self::Decimal => "decimal",
            Self::Double => "double",
            Self::Float => "float",
            Self::Int => "int",
            Self::Timestamp => "timestamp",
            Self::Uuid => "uuid",
            Self::Text => "text",
            Self::Varint => "varint",
            Self::Timeuuid => "timeuuid",
            Self::Inet => "inet",
            Self::Date => "date",
            Self::Time => "time",
            Self::SmallInt => "smallint",
            Self::TinyInt => "tinyint",
            Self::Duration => "duration",
            Self::List(element) => return write!(f, "list<{element}>"),
            Self::Set(element) => return write!(f, "set<{element}>"),
            Self::Map(types) => return write!(f, "map<{}, {}>", types.0, types.1),
            Self::Tuple(components) => {
                f.write_str("tuple<")?;
                for (i, component) in components.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{component}")?;
                }
                ">"
            }
            Self::Udt(udt) => {
                return write!(f, "{}.{}", Identifier(&udt.keyspace), Identifier(&udt.name));
            }
            Self::Vector { element, dimension } => {
                return write!(f, "vector<{element}, {dimension}>");
            }
            Self::Custom(class) => return write!(f, "'{class}'"),
        };
        f.write_str(text)
    }
}

/// Shows a name as CQL wants it: quoted unless it is a plain lower-case one.
struct Identifier<'a>(&'a str);

impl fmt::Display for Identifier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.0.starts_with(|c: char| c.is_ascii_lowercase())
            && self
                .0
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if plain {
            f.write_str(self.0)
        } else {
            write!(f, "\"{}\"", self.0.replace('"', "\"\""))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_shown_as_cql() {
        let map = ColumnType::Map(Arc::new((
            ColumnType::Text,
            ColumnType::List(Arc::new(ColumnType::Int)),
        )));
        assert_eq!(map.to_string(), "map<text, list<int>>");
        let tuple = ColumnType::Tuple(Arc::from([ColumnType::Int, map]));
        assert_eq!(tuple.to_string(), "tuple<int, map<text, list<int>>>");
        let vector = ColumnType::Vector {
            element: Arc::new(ColumnType::Float),
            dimension: 3,
        };
        assert_eq!(vector.to_string(), "vector<float, 3>");
    }

    #[test]
    fn values_of_a_type_are_read_as_a_newer_one_only_where_they_mean_the_same() {
        let udt = |fields: &[(&str, ColumnType)]| {
            let fields = fields.iter().map(|(name, ty)| ((*name).into(), ty.clone()));
            ColumnType::Udt(Arc::new(UdtType {
                keyspace: "ks".into(),
                name: "t".into(),
                fields: fields.collect(),
            }))
        };
        let list = |element: ColumnType| ColumnType::List(Arc::new(element));
        let old = list(udt(&[("a", ColumnType::Int)]));
        let grown = list(udt(&[("b", ColumnType::Int), ("c", ColumnType::Text)]));
        let other = list(udt(&[("a", ColumnType::Text)]));
        assert!(old.reads_values_of(&old) && grown.reads_values_of(&old));
        assert!(!old.reads_values_of(&grown), "a field was taken away");
        assert!(!other.reads_values_of(&old), "a field has another type");
        assert!(!ColumnType::Text.reads_values_of(&ColumnType::Int));
        assert!(
            !ColumnType::Set(Arc::new(ColumnType::Int)).reads_values_of(&list(ColumnType::Int))
        );
    }

    #[test]
    fn names_of_user_types_are_quoted_where_cql_wants_it() {
        let udt = |name: &str| {
            ColumnType::Udt(Arc::new(UdtType {
                keyspace: "ks".into(),
                name: name.into(),
                fields: vec![],
            }))
        };
        assert_eq!(udt("addr_2").to_string(), "ks.addr_2");
        assert_eq!(udt("Ad\"dr").to_string(), "ks.\"Ad\"\"dr\"");
        assert_eq!(udt("2").to_string(), "ks.\"2\"");
    }
}
