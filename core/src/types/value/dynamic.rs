//! The dynamic value: any CQL value without a Rust type of its own.

use std::net::IpAddr;

use bytes::Bytes;
use uuid::Uuid;

use crate::error::value::{
    DecodeError, DecodeErrorKind, EncodeError, EncodeErrorKind, PathStep, TypeError,
};
use crate::types::column_type::{ColumnType, UdtType};
use crate::types::decode::{Cell, Elements, FromValue, Parts, has_empty};
use crate::types::encode::{ContentWriter, ToValue, ValueWriter, encode_value};
use crate::types::value::{Date, Decimal, Duration, Time, Timestamp, Varint};

/// Holds any CQL value.
///
/// Null, "not set" and the zero-length "empty" are three different things. Bytes are shared with the page they were
/// read from, which they keep alive.
///
/// ```
/// use messina_core::types::{ColumnType, Value};
///
/// let ty = ColumnType::List(ColumnType::Int.into());
/// let value = Value::List(vec![Value::Int(1), Value::Null]);
/// let mut bytes = Vec::new();
/// value.encode(&ty, &mut bytes)?;
/// assert_eq!(Value::decode(&ty, bytes.get(4..))?, value);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// With the feature `serde` it can be kept in other formats. Every value stands there under the name of its CQL type,
/// so that nothing is lost: `{"int":7}`, `{"list":[{"text":"a"},"null"]}`.
///
/// | value | in formats for people, such as JSON | in others |
/// |---|---|---|
/// | null, unset, empty | `"null"`, `"unset"`, `"empty"` | the variant |
/// | numbers up to 64 bits, booleans, text | as they are | as they are |
/// | floats that are not finite | `"NaN"`, `"Infinity"`, `"-Infinity"` | as they are |
/// | `varint` | the digits as a string | two's complement bytes |
/// | `decimal` | `{"scale":2,"unscaled":"150"}` | both parts |
/// | `blob`, custom types | `"0xcafe"` | bytes |
/// | `uuid`, `timeuuid`, `inet` | a string | bytes |
/// | `date`, `time`, `timestamp` | days, nanoseconds, milliseconds, as in [`Date`], [`Time`], [`Timestamp`] | the same |
/// | `duration` | `{"months":1,"days":2,"nanos":3}` | the parts |
/// | `list`, `set`, `vector`, `tuple` | an array | a sequence |
/// | `map` | an array of pairs | a sequence of pairs |
/// | user-defined types | `{"keyspace":"ks","name":"t","fields":[["a",{"int":1}]]}` | the parts |
///
/// How deep a text may nest is the format's to limit; JSON's own limit is far below what the driver reads.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Value {
    /// No value.
    #[default]
    Null,
    /// Leave the column as it is; only for values that are sent.
    Unset,
    /// The zero-length value of a type whose ordinary values are longer.
    Empty,
    /// `ascii`
    Ascii(String),
    /// `bigint`
    BigInt(i64),
    /// `blob`
    Blob(#[cfg_attr(feature = "serde", serde(with = "super::serde::bytes"))] Bytes),
    /// `boolean`
    Boolean(bool),
    /// `counter`
    Counter(i64),
    /// `decimal`
    Decimal(Decimal),
    /// `double`
    Double(#[cfg_attr(feature = "serde", serde(with = "super::serde::double"))] f64),
    /// `float`
    Float(#[cfg_attr(feature = "serde", serde(with = "super::serde::float"))] f32),
    /// `int`
    Int(i32),
    /// `timestamp`
    Timestamp(Timestamp),
    /// `uuid`
    Uuid(Uuid),
    /// `text`
    Text(String),
    /// `varint`
    Varint(Varint),
    /// `timeuuid`
    Timeuuid(Uuid),
    /// `inet`
    Inet(IpAddr),
    /// `date`
    Date(Date),
    /// `time`
    Time(Time),
    /// `smallint`
    SmallInt(i16),
    /// `tinyint`
    TinyInt(i8),
    /// `duration`
    Duration(Duration),
    /// `list`
    List(Vec<Self>),
    /// `set`
    Set(Vec<Self>),
    /// `map`, in the order of the wire
    Map(Vec<(Self, Self)>),
    /// `tuple`
    Tuple(Vec<Self>),
    /// A user-defined type; written by the names of its fields, those left out are null.
    Udt {
        /// The keyspace of the type.
        keyspace: String,
        /// The name of the type.
        name: String,
        /// The fields.
        fields: Vec<(String, Self)>,
    },
    /// `vector`
    Vector(Vec<Self>),
    /// The bytes of a type that CQL has no name for.
    Custom(#[cfg_attr(feature = "serde", serde(with = "super::serde::bytes"))] Bytes),
}

impl Value {
    /// Reads a value of this type; `None` is null.
    ///
    /// # Errors
    /// When the bytes are not a value of the type, or nest deeper than the driver follows.
    pub fn decode(ty: &ColumnType, cell: Option<&[u8]>) -> Result<Self, DecodeError> {
        Self::decode_cell(ty, cell.map(Cell::of_slice))
    }

    /// Appends the value with its length in front, as `[value]`.
    ///
    /// # Errors
    /// When the value is not one of this type; nothing is appended then.
    pub fn encode(&self, ty: &ColumnType, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        encode_value(self, ty, out)
    }

    fn decode_cell<'r>(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        let mut budget = NULLS_MAX;
        decode(ty, cell, Depth(DEPTH_MAX), &mut budget)
    }
}

impl<'r> FromValue<'r> for Value {
    fn check(_ty: &ColumnType) -> Result<(), TypeError> {
        Ok(())
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        Self::decode_cell(ty, cell)
    }
}

impl ToValue for Value {
    fn check(_ty: &ColumnType) -> Result<(), TypeError> {
        Ok(())
    }

    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        encode(self, ty, out, Depth(DEPTH_MAX))
    }
}

/// How deep values may nest: as deep as types may, with room on any thread's stack.
const DEPTH_MAX: u16 = 200;

/// How many nulls the missing tails of short tuples in one cell may unfold to, since a few bytes can stand for as
/// many as a type has components.
const NULLS_MAX: usize = 65_536;

/// Counts how much deeper values may nest.
#[derive(Clone, Copy)]
struct Depth(u16);

impl Depth {
    fn deeper(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

fn decode<'r>(
    ty: &'r ColumnType,
    cell: Option<Cell<'r>>,
    depth: Depth,
    nulls: &mut usize,
) -> Result<Value, DecodeError> {
    let Some(full) = cell else {
        return Ok(Value::Null);
    };
    if full.bytes().is_empty() && has_empty(ty) {
        return Ok(Value::Empty);
    }
    Ok(match ty {
        ColumnType::Ascii => Value::Ascii(String::from_value(ty, cell)?),
        ColumnType::BigInt => Value::BigInt(i64::from_value(ty, cell)?),
        ColumnType::Blob => Value::Blob(full.shared()),
        ColumnType::Boolean => Value::Boolean(bool::from_value(ty, cell)?),
        ColumnType::Counter => Value::Counter(i64::from_value(ty, cell)?),
        ColumnType::Decimal => Value::Decimal(Decimal::from_value(ty, cell)?),
        ColumnType::Double => Value::Double(f64::from_value(ty, cell)?),
        ColumnType::Float => Value::Float(f32::from_value(ty, cell)?),
        ColumnType::Int => Value::Int(i32::from_value(ty, cell)?),
        ColumnType::Timestamp => Value::Timestamp(Timestamp::from_value(ty, cell)?),
        ColumnType::Uuid => Value::Uuid(Uuid::from_value(ty, cell)?),
        ColumnType::Text => Value::Text(String::from_value(ty, cell)?),
        ColumnType::Varint => Value::Varint(Varint::from_value(ty, cell)?),
        ColumnType::Timeuuid => Value::Timeuuid(Uuid::from_value(ty, cell)?),
        ColumnType::Inet => Value::Inet(IpAddr::from_value(ty, cell)?),
        ColumnType::Date => Value::Date(Date::from_value(ty, cell)?),
        ColumnType::Time => Value::Time(Time::from_value(ty, cell)?),
        ColumnType::SmallInt => Value::SmallInt(i16::from_value(ty, cell)?),
        ColumnType::TinyInt => Value::TinyInt(i8::from_value(ty, cell)?),
        ColumnType::Duration => Value::Duration(Duration::from_value(ty, cell)?),
        ColumnType::Custom(_) => Value::Custom(full.shared()),
        _ => return decode_nested(ty, full, depth, nulls),
    })
}

/// Reads the types that have parts; apart, so that the common types need little stack.
fn decode_nested<'r>(
    ty: &'r ColumnType,
    cell: Cell<'r>,
    depth: Depth,
    nulls: &mut usize,
) -> Result<Value, DecodeError> {
    let Some(depth) = depth.deeper() else {
        return Err(DecodeError::of::<Value>(ty, DecodeErrorKind::TooDeep));
    };
    match ty {
        ColumnType::List(_) => decode_items(ty, cell, depth, nulls).map(Value::List),
        ColumnType::Set(_) => decode_items(ty, cell, depth, nulls).map(Value::Set),
        ColumnType::Vector { .. } => decode_items(ty, cell, depth, nulls).map(Value::Vector),
        ColumnType::Map(types) => {
            let mut elements = Elements::counted::<Value>(ty, &types.0, Some(cell), 2)?;
            let mut entries = Vec::with_capacity(elements.left);
            while let Some(key) = elements.next_part() {
                let index = entries.len();
                let key = decode(&types.0, key?, depth, nulls)
                    .map_err(|error| error.at(PathStep::Key(index)))?;
                let value = elements.read_part()?;
                let value = decode(&types.1, value, depth, nulls)
                    .map_err(|error| error.at(PathStep::Value(index)))?;
                entries.push((key, value));
            }
            elements.check_end()?;
            Ok(Value::Map(entries))
        }
        ColumnType::Tuple(components) => {
            let mut parts = Parts::new(cell);
            let mut values = Vec::new();
            for (index, component) in components.iter().enumerate() {
                let value = decode_part(component, &mut parts, depth, nulls);
                values.push(value.map_err(|error| error.at(PathStep::Element(index)))?);
            }
            parts.finish()?;
            Ok(Value::Tuple(values))
        }
        ColumnType::Udt(udt) => {
            let mut parts = Parts::new(cell);
            let mut fields = Vec::new();
            for (name, field) in &udt.fields {
                let value = decode_part(field, &mut parts, depth, nulls);
                fields.push((
                    name.to_string(),
                    value.map_err(|error| error.at(PathStep::Field((**name).into())))?,
                ));
            }
            parts.finish()?;
            Ok(Value::Udt {
                keyspace: udt.keyspace.to_string(),
                name: udt.name.to_string(),
                fields,
            })
        }
        _ => Err(TypeError::mismatch::<Value>(ty).into()),
    }
}

fn decode_items<'r>(
    ty: &'r ColumnType,
    cell: Cell<'r>,
    depth: Depth,
    nulls: &mut usize,
) -> Result<Vec<Value>, DecodeError> {
    let mut elements = Elements::new::<Value>(ty, Some(cell))?;
    let element = elements.element;
    let mut values = Vec::with_capacity(elements.left);
    while let Some(cell) = elements.next_cell() {
        let value = cell.and_then(|cell| decode(element, cell, depth, nulls));
        values.push(value.map_err(|error| error.at(PathStep::Element(values.len())))?);
    }
    Ok(values)
}

fn decode_part<'r>(
    ty: &'r ColumnType,
    parts: &mut Parts<'r>,
    depth: Depth,
    nulls: &mut usize,
) -> Result<Value, DecodeError> {
    if parts.is_at_end() {
        match nulls.checked_sub(1) {
            Some(left) => *nulls = left,
            None => return Err(DecodeError::of::<Value>(ty, DecodeErrorKind::TooLarge)),
        }
    }
    decode(ty, parts.next_part()?, depth, nulls)
}

fn encode(
    value: &Value,
    ty: &ColumnType,
    out: ValueWriter<'_>,
    depth: Depth,
) -> Result<(), EncodeError> {
    match value {
        Value::Null => out.null(),
        Value::Unset => out.unset(),
        Value::Empty if has_empty(ty) || may_be_empty_text(ty) => out.bytes(&[]),
        Value::Empty => Err(EncodeError::of::<Value>(
            ty,
            EncodeErrorKind::EmptyNotAllowed,
        )),
        Value::Ascii(text) | Value::Text(text) => text.to_value(ty, out),
        Value::BigInt(number) | Value::Counter(number) => number.to_value(ty, out),
        Value::Blob(bytes) | Value::Custom(bytes) => bytes.to_value(ty, out),
        Value::Boolean(value) => value.to_value(ty, out),
        Value::Decimal(number) => number.to_value(ty, out),
        Value::Double(number) => number.to_value(ty, out),
        Value::Float(number) => number.to_value(ty, out),
        Value::Int(number) => number.to_value(ty, out),
        Value::Timestamp(time) => time.to_value(ty, out),
        Value::Uuid(id) | Value::Timeuuid(id) => id.to_value(ty, out),
        Value::Varint(number) => number.to_value(ty, out),
        Value::Inet(address) => address.to_value(ty, out),
        Value::Date(date) => date.to_value(ty, out),
        Value::Time(time) => time.to_value(ty, out),
        Value::SmallInt(number) => number.to_value(ty, out),
        Value::TinyInt(number) => number.to_value(ty, out),
        Value::Duration(duration) => duration.to_value(ty, out),
        Value::List(_)
        | Value::Set(_)
        | Value::Map(_)
        | Value::Tuple(_)
        | Value::Udt { .. }
        | Value::Vector(_) => encode_nested(value, ty, out, depth),
    }
}

fn may_be_empty_text(ty: &ColumnType) -> bool {
    matches!(
        ty,
        ColumnType::Ascii | ColumnType::Text | ColumnType::Blob | ColumnType::Custom(_)
    )
}

fn encode_nested(
    value: &Value,
    ty: &ColumnType,
    out: ValueWriter<'_>,
    depth: Depth,
) -> Result<(), EncodeError> {
    let Some(depth) = depth.deeper() else {
        return Err(EncodeError::of::<Value>(ty, EncodeErrorKind::TooDeep));
    };
    match (value, ty) {
        (Value::List(values), ColumnType::List(element))
        | (Value::Set(values), ColumnType::Set(element)) => out.content(|content| {
            content.count(values.len())?;
            values
                .iter()
                .try_for_each(|value| encode(value, element, content.part(), depth))
        }),
        (Value::Vector(values), ColumnType::Vector { element, dimension }) => {
            check_dimension::<Value>(ty, *dimension, values.len())?;
            out.content(|content| {
                values.iter().try_for_each(|value| {
                    encode(value, element, content.vector_element(element), depth)
                })
            })
        }
        (Value::Map(entries), ColumnType::Map(types)) => out.content(|content| {
            content.count(entries.len())?;
            entries.iter().try_for_each(|(key, value)| {
                encode(key, &types.0, content.part(), depth)?;
                encode(value, &types.1, content.part(), depth)
            })
        }),
        (Value::Tuple(values), ColumnType::Tuple(components)) => {
            if values.len() != components.len() {
                let kind = EncodeErrorKind::ElementCount {
                    expected: components.len(),
                    actual: values.len(),
                };
                return Err(EncodeError::of::<Value>(ty, kind));
            }
            out.content(|content| {
                values
                    .iter()
                    .zip(components.iter())
                    .try_for_each(|(value, component)| {
                        encode(value, component, content.part(), depth)
                    })
            })
        }
        (Value::Udt { fields, .. }, ColumnType::Udt(udt)) => {
            out.content(|content| encode_fields(fields, udt, content, depth))
        }
        _ => Err(TypeError::mismatch::<Value>(ty).into()),
    }
}

fn encode_fields(
    fields: &[(String, Value)],
    udt: &UdtType,
    content: &mut ContentWriter<'_>,
    depth: Depth,
) -> Result<(), EncodeError> {
    if let Some((name, _)) = fields
        .iter()
        .find(|(name, _)| !udt.fields.iter().any(|(field, _)| **field == **name))
    {
        return Err(EncodeError::new(EncodeErrorKind::NameUnknown {
            name: name.as_str().into(),
        }));
    }
    udt.fields.iter().try_for_each(|(name, field)| {
        match fields.iter().find(|(given, _)| **given == **name) {
            Some((_, value)) => encode(value, field, content.part(), depth),
            None => content.part().null(),
        }
    })
}

/// Compares the number of elements with the dimension of a vector type.
pub(crate) fn check_dimension<T: ?Sized>(
    ty: &ColumnType,
    dimension: u32,
    actual: usize,
) -> Result<(), EncodeError> {
    let expected = usize::try_from(dimension).unwrap_or(usize::MAX);
    if expected == actual {
        return Ok(());
    }
    Err(EncodeError::of::<T>(
        ty,
        EncodeErrorKind::ElementCount { expected, actual },
    ))
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

value_from! {
    i8 => TinyInt,
    i16 => SmallInt,
    i32 => Int,
    i64 => BigInt,
    f32 => Float,
    f64 => Double,
    bool => Boolean,
    &str => Text,
    String => Text,
    Bytes => Blob,
    Uuid => Uuid,
    IpAddr => Inet,
    Varint => Varint,
    Decimal => Decimal,
    Date => Date,
    Time => Time,
    Timestamp => Timestamp,
    Duration => Duration,
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests;
