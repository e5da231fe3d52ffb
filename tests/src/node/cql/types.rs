//! Column types as the schema keeps them: the types of the wire know neither `frozen` nor names that may change.

use std::collections::BTreeMap;
use std::sync::Arc;

use messina_core::types::column_type::{ColumnType, UdtType};

use crate::node::CqlError;

use super::ast::RawType;
use super::parser::is_reserved;

/// The type of a column in the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CqlType {
    Native(ColumnType),
    List {
        element: Box<Self>,
        frozen: bool,
    },
    Set {
        element: Box<Self>,
        frozen: bool,
    },
    Map {
        key: Box<Self>,
        value: Box<Self>,
        frozen: bool,
    },
    Tuple(Vec<Self>),
    Udt {
        name: String,
        frozen: bool,
    },
    Vector {
        element: Box<Self>,
        dimension: u32,
    },
}

/// The user types of one keyspace.
pub(crate) type UserTypes = BTreeMap<String, UserType>;

/// Types with more parts than this, user types written out, are refused.
const TYPE_PARTS_MAX: usize = 10_000;
/// Types that are deeper than this are refused.
const TYPE_DEPTH_MAX: usize = 64;

/// A user type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserType {
    pub(crate) fields: Vec<(String, CqlType)>,
}

impl CqlType {
    /// Looks up the names of a type that was read in `keyspace`.
    pub(crate) fn from_raw(
        raw: &RawType,
        keyspace: &str,
        types: &UserTypes,
    ) -> Result<Self, CqlError> {
        Self::build(raw, keyspace, types, false)
    }

    fn build(
        raw: &RawType,
        keyspace: &str,
        types: &UserTypes,
        frozen: bool,
    ) -> Result<Self, CqlError> {
        let inner = |raw: &RawType| -> Result<Box<Self>, CqlError> {
            let ty = Self::build(raw, keyspace, types, frozen)?;
            if ty.is_multi_cell() {
                return Err(CqlError::invalid(
                    "Non-frozen user types or collections are not allowed inside collections",
                ));
            }
            Ok(Box::new(ty))
        };
        match raw {
            RawType::Named {
                keyspace: written,
                name,
            } => {
                if let (None, Some(native)) = (written, native_type(name)) {
                    return Ok(Self::Native(native));
                }
                if written
                    .as_deref()
                    .is_some_and(|written| written != keyspace)
                {
                    return Err(CqlError::invalid(format!(
                        "Statement on keyspace {keyspace} cannot refer to a user type in keyspace {}; user types can only be used in the keyspace they are defined in",
                        written.as_deref().unwrap_or("")
                    )));
                }
                if !types.contains_key(name) {
                    return Err(CqlError::invalid(format!("Unknown type {keyspace}.{name}")));
                }
                Ok(Self::Udt {
                    name: name.clone(),
                    frozen,
                })
            }
            RawType::List(element) => Ok(Self::List {
                element: inner(element)?,
                frozen,
            }),
            RawType::Set(element) => Ok(Self::Set {
                element: inner(element)?,
                frozen,
            }),
            RawType::Map(key, value) => Ok(Self::Map {
                key: inner(key)?,
                value: inner(value)?,
                frozen,
            }),
            RawType::Tuple(items) => {
                let items = items
                    .iter()
                    .map(|item| Self::build(item, keyspace, types, true));
                Ok(Self::Tuple(items.collect::<Result<_, _>>()?))
            }
            RawType::Vector(element, dimension) => {
                let element = Box::new(Self::build(element, keyspace, types, true)?);
                Ok(Self::Vector {
                    element,
                    dimension: *dimension,
                })
            }
            RawType::Frozen(inner) => Self::build(inner, keyspace, types, true),
            RawType::Custom(class) => Ok(Self::Native(ColumnType::Custom(class.as_str().into()))),
        }
    }

    /// Refuses types that are nested so deep, or so often, that writing them out would not end.
    pub(crate) fn check_size(&self, types: &UserTypes) -> Result<(), CqlError> {
        let mut left = TYPE_PARTS_MAX;
        if self.fits(types, TYPE_DEPTH_MAX, &mut left) {
            return Ok(());
        }
        Err(CqlError::invalid("the type is nested too deeply"))
    }

    fn fits(&self, types: &UserTypes, depth: usize, left: &mut usize) -> bool {
        if depth == 0 || *left == 0 {
            return false;
        }
        *left -= 1;
        let mut inner = |ty: &Self| ty.fits(types, depth - 1, left);
        match self {
            Self::Native(_) => true,
            Self::List { element, .. }
            | Self::Set { element, .. }
            | Self::Vector { element, .. } => inner(element),
            Self::Map { key, value, .. } => inner(key) && inner(value),
            Self::Tuple(items) => items.iter().all(inner),
            Self::Udt { name, .. } => {
                let fields = types.get(name).map_or(&[][..], |udt| &udt.fields);
                fields.iter().all(|(_, ty)| inner(ty))
            }
        }
    }

    /// Whether single elements can be written.
    pub(crate) fn is_multi_cell(&self) -> bool {
        matches!(
            self,
            Self::List { frozen: false, .. }
                | Self::Set { frozen: false, .. }
                | Self::Map { frozen: false, .. }
                | Self::Udt { frozen: false, .. }
        )
    }

    /// Whether a user type occurs in it.
    pub(crate) fn mentions(&self, udt: &str) -> bool {
        match self {
            Self::Native(_) => false,
            Self::List { element, .. }
            | Self::Set { element, .. }
            | Self::Vector { element, .. } => element.mentions(udt),
            Self::Map { key, value, .. } => key.mentions(udt) || value.mentions(udt),
            Self::Tuple(items) => items.iter().any(|item| item.mentions(udt)),
            Self::Udt { name, .. } => name == udt,
        }
    }

    /// The type as the wire describes it.
    pub(crate) fn on_wire(&self, keyspace: &Arc<str>, types: &UserTypes) -> ColumnType {
        let inner = |ty: &Self| ty.on_wire(keyspace, types);
        match self {
            Self::Native(native) => native.clone(),
            Self::List { element, .. } => ColumnType::List(Arc::new(inner(element))),
            Self::Set { element, .. } => ColumnType::Set(Arc::new(inner(element))),
            Self::Map { key, value, .. } => ColumnType::Map(Arc::new((inner(key), inner(value)))),
            Self::Tuple(items) => ColumnType::Tuple(items.iter().map(inner).collect()),
            Self::Vector { element, dimension } => ColumnType::Vector {
                element: Arc::new(inner(element)),
                dimension: *dimension,
            },
            Self::Udt { name, .. } => {
                let fields = types.get(name).map_or(&[][..], |udt| &udt.fields);
                let fields = fields
                    .iter()
                    .map(|(name, ty)| (name.as_str().into(), inner(ty)));
                ColumnType::Udt(Arc::new(UdtType {
                    keyspace: keyspace.clone(),
                    name: name.as_str().into(),
                    fields: fields.collect(),
                }))
            }
        }
    }

    /// The type as the schema tables show it.
    pub(crate) fn text(&self) -> String {
        let (text, frozen) = match self {
            Self::Native(native) => (native.to_string(), false),
            Self::List { element, frozen } => (format!("list<{}>", element.text()), *frozen),
            Self::Set { element, frozen } => (format!("set<{}>", element.text()), *frozen),
            Self::Map { key, value, frozen } => {
                (format!("map<{}, {}>", key.text(), value.text()), *frozen)
            }
            Self::Tuple(items) => {
                let items: Vec<String> = items.iter().map(Self::text).collect();
                (format!("tuple<{}>", items.join(", ")), true)
            }
            Self::Udt { name, frozen } => (quoted(name), *frozen),
            Self::Vector { element, dimension } => {
                (format!("vector<{}, {dimension}>", element.text()), false)
            }
        };
        if frozen {
            format!("frozen<{text}>")
        } else {
            text
        }
    }
}

/// A name as CQL text must write it.
pub(crate) fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !is_reserved(name);
    if plain {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// A built-in type by its name.
pub(crate) fn native_type(name: &str) -> Option<ColumnType> {
    Some(match name {
        "ascii" => ColumnType::Ascii,
        "bigint" => ColumnType::BigInt,
        "blob" => ColumnType::Blob,
        "boolean" => ColumnType::Boolean,
        "counter" => ColumnType::Counter,
        "date" => ColumnType::Date,
        "decimal" => ColumnType::Decimal,
        "double" => ColumnType::Double,
        "duration" => ColumnType::Duration,
        "float" => ColumnType::Float,
        "inet" => ColumnType::Inet,
        "int" => ColumnType::Int,
        "smallint" => ColumnType::SmallInt,
        "text" | "varchar" => ColumnType::Text,
        "time" => ColumnType::Time,
        "timestamp" => ColumnType::Timestamp,
        "timeuuid" => ColumnType::Timeuuid,
        "tinyint" => ColumnType::TinyInt,
        "uuid" => ColumnType::Uuid,
        "varint" => ColumnType::Varint,
        _ => return None,
    })
}

/// The Java class name that a type has in metadata ids.
pub(crate) fn marshal_name(ty: &ColumnType) -> String {
    let class = match ty {
        ColumnType::Ascii => "AsciiType",
        ColumnType::BigInt => "LongType",
        ColumnType::Blob => "BytesType",
        ColumnType::Boolean => "BooleanType",
        ColumnType::Counter => "CounterColumnType",
        ColumnType::Date => "SimpleDateType",
        ColumnType::Decimal => "DecimalType",
        ColumnType::Double => "DoubleType",
        ColumnType::Duration => "DurationType",
        ColumnType::Float => "FloatType",
        ColumnType::Inet => "InetAddressType",
        ColumnType::Int => "Int32Type",
        ColumnType::SmallInt => "ShortType",
        ColumnType::Text => "UTF8Type",
        ColumnType::Time => "TimeType",
        ColumnType::Timestamp => "TimestampType",
        ColumnType::Timeuuid => "TimeUUIDType",
        ColumnType::TinyInt => "ByteType",
        ColumnType::Uuid => "UUIDType",
        ColumnType::Varint => "IntegerType",
        ColumnType::List(element) => return marshal_call("ListType", &[marshal_name(element)]),
        ColumnType::Set(element) => return marshal_call("SetType", &[marshal_name(element)]),
        ColumnType::Map(types) => {
            return marshal_call("MapType", &[marshal_name(&types.0), marshal_name(&types.1)]);
        }
        ColumnType::Tuple(items) => {
            let items: Vec<String> = items.iter().map(marshal_name).collect();
            return marshal_call("TupleType", &items);
        }
        ColumnType::Udt(udt) => {
            let mut items = vec![udt.keyspace.to_string(), hex(&udt.name)];
            let fields = udt.fields.iter();
            items.extend(fields.map(|(name, ty)| format!("{}:{}", hex(name), marshal_name(ty))));
            return marshal_call("UserType", &items);
        }
        ColumnType::Vector { element, dimension } => {
            let name = format!("VectorType({}, {dimension})", marshal_name(element));
            return format!("{MARSHAL}{name}");
        }
        ColumnType::Custom(class) => return class.to_string(),
        _ => "BytesType",
    };
    format!("{MARSHAL}{class}")
}

const MARSHAL: &str = "org.apache.cassandra.db.marshal.";

fn marshal_call(class: &str, items: &[String]) -> String {
    format!("{MARSHAL}{class}({})", items.join(","))
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(name: &str) -> Box<RawType> {
        Box::new(RawType::Named {
            keyspace: None,
            name: name.into(),
        })
    }

    #[test]
    fn the_text_of_a_type_shows_what_is_frozen() {
        let types = UserTypes::from([("Addr".to_owned(), UserType { fields: Vec::new() })]);
        let list = RawType::List(raw("Addr"));
        assert!(
            CqlType::from_raw(&list, "ks", &types).is_err(),
            "not frozen inside"
        );
        let map = RawType::Map(raw("text"), Box::new(RawType::Frozen(Box::new(list))));
        let ty = CqlType::from_raw(&map, "ks", &types).unwrap();
        assert_eq!(ty.text(), "map<text, frozen<list<frozen<\"Addr\">>>>");
        assert!(ty.is_multi_cell() && ty.mentions("Addr"));
        let tuple = CqlType::from_raw(&RawType::Tuple(vec![*raw("int")]), "ks", &types).unwrap();
        assert_eq!(tuple.text(), "frozen<tuple<int>>");
    }

    #[test]
    fn unknown_types_are_refused() {
        let error = CqlType::from_raw(&raw("nope"), "ks", &UserTypes::new()).unwrap_err();
        assert_eq!(error.message, "Unknown type ks.nope");
    }
}
