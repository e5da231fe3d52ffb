//! CQL values and their bytes.

use std::net::IpAddr;

use bytes::Bytes;
use messina_core::types::{ColumnType, Date, Decimal, Duration, Time, Timestamp, Value, Varint};
use serde_json::Value as Json;

use crate::files::{self, VectorFile};

#[test]
fn every_value_is_read_from_its_bytes() {
    let Some(file) = VectorFile::open("values.json") else {
        return;
    };
    file.run("values", files::none, |case| {
        let (ty, bytes) = (files::column_type(&case["type"]), files::bytes(case, "hex"));
        let expected = value(&ty, &case["value"]);
        let actual = Value::decode(&ty, Some(&bytes)).map_err(|error| error.to_string())?;
        if same(&actual, &expected) {
            Ok(())
        } else {
            Err(format!("read {actual:?}, expected {expected:?}"))
        }
    });
}

#[test]
fn every_value_is_written_as_its_bytes() {
    let Some(file) = VectorFile::open("values.json") else {
        return;
    };
    let only_read = |case: &Json| (case["direction"] == "decode").then_some("only for reading");
    file.run("values", only_read, |case| {
        let (ty, bytes) = (files::column_type(&case["type"]), files::bytes(case, "hex"));
        let mut actual = Vec::new();
        value(&ty, &case["value"])
            .encode(&ty, &mut actual)
            .map_err(|error| error.to_string())?;
        let length = i32::try_from(bytes.len()).expect("a short value");
        if actual == [&length.to_be_bytes(), bytes.as_slice()].concat() {
            Ok(())
        } else {
            Err(format!("wrote {actual:02x?}"))
        }
    });
}

#[test]
fn what_was_read_can_be_written_and_read_again() {
    let Some(file) = VectorFile::open("values.json") else {
        return;
    };
    file.run("values", files::none, |case| {
        let (ty, bytes) = (files::column_type(&case["type"]), files::bytes(case, "hex"));
        let first = Value::decode(&ty, Some(&bytes)).map_err(|error| error.to_string())?;
        let mut written = Vec::new();
        first
            .encode(&ty, &mut written)
            .map_err(|error| error.to_string())?;
        let second = Value::decode(&ty, written.get(4..)).map_err(|error| error.to_string())?;
        if same(&first, &second) {
            Ok(())
        } else {
            Err(format!("first {first:?}, then {second:?}"))
        }
    });
}

#[test]
fn every_malformed_value_is_refused() {
    let Some(file) = VectorFile::open("values.json") else {
        return;
    };
    file.run("invalid", files::none, |case| {
        let (ty, bytes) = (files::column_type(&case["type"]), files::bytes(case, "hex"));
        match Value::decode(&ty, Some(&bytes)) {
            Err(_) => Ok(()),
            Ok(value) => Err(format!("read {value:?}")),
        }
    });
}

/// Reads the notation of the vectors, by type.
pub(crate) fn value(ty: &ColumnType, json: &Json) -> Value {
    if json.is_null() {
        return Value::Null;
    }
    if json["empty"] == true {
        return Value::Empty;
    }
    match ty {
        ColumnType::Ascii => Value::Ascii(json_text(json).to_owned()),
        ColumnType::Text => Value::Text(json_text(json).to_owned()),
        ColumnType::Blob => Value::Blob(blob(json)),
        ColumnType::Custom(_) => Value::Custom(blob(json)),
        ColumnType::Boolean => Value::Boolean(json.as_bool().expect("a boolean")),
        ColumnType::TinyInt => Value::TinyInt(number(json)),
        ColumnType::SmallInt => Value::SmallInt(number(json)),
        ColumnType::Int => Value::Int(number(json)),
        ColumnType::BigInt => Value::BigInt(number(json)),
        ColumnType::Counter => Value::Counter(number(json)),
        ColumnType::Timestamp => Value::Timestamp(Timestamp(number(json))),
        ColumnType::Time => Value::Time(Time(number(json))),
        ColumnType::Varint => Value::Varint(number(json)),
        ColumnType::Float => Value::Float(f32::from_bits(bits(json).try_into().expect("32 bits"))),
        ColumnType::Double => Value::Double(f64::from_bits(bits(json))),
        ColumnType::Uuid => Value::Uuid(json_text(json).parse().expect("a uuid")),
        ColumnType::Timeuuid => Value::Timeuuid(json_text(json).parse().expect("a uuid")),
        ColumnType::Inet => Value::Inet(json_text(json).parse::<IpAddr>().expect("an address")),
        ColumnType::Date => Value::Date(Date(small(&json["days"]))),
        ColumnType::Decimal => Value::Decimal(Decimal {
            scale: small(&json["scale"]),
            unscaled: number::<Varint>(&json["unscaled"]),
        }),
        ColumnType::Duration => Value::Duration(Duration {
            months: small(&json["months"]),
            days: small(&json["days"]),
            nanos: number(&json["nanos"]),
        }),
        ColumnType::List(element) => Value::List(values(element, json)),
        ColumnType::Set(element) => Value::Set(values(element, json)),
        ColumnType::Vector { element, .. } => Value::Vector(values(element, json)),
        ColumnType::Map(types) => Value::Map(
            items(json)
                .iter()
                .map(|entry| (value(&types.0, &entry[0]), value(&types.1, &entry[1])))
                .collect(),
        ),
        ColumnType::Tuple(components) => Value::Tuple(
            components
                .iter()
                .zip(items(json))
                .map(|(component, json)| value(component, json))
                .collect(),
        ),
        ColumnType::Udt(udt) => Value::Udt {
            keyspace: udt.keyspace.to_string(),
            name: udt.name.to_string(),
            fields: udt
                .fields
                .iter()
                .zip(items(json))
                .map(|((name, field), json)| (name.to_string(), value(field, &json[1])))
                .collect(),
        },
        other => panic!("no notation for {other}"),
    }
}

/// Compares values, taking every NaN for the same.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    let all = |left: &[Value], right: &[Value]| {
        left.len() == right.len()
            && left
                .iter()
                .zip(right)
                .all(|(left, right)| same(left, right))
    };
    match (left, right) {
        (Value::Float(left), Value::Float(right)) => {
            left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan())
        }
        (Value::Double(left), Value::Double(right)) => {
            left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan())
        }
        (Value::List(left), Value::List(right))
        | (Value::Set(left), Value::Set(right))
        | (Value::Tuple(left), Value::Tuple(right))
        | (Value::Vector(left), Value::Vector(right)) => all(left, right),
        (Value::Map(left), Value::Map(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| same(&left.0, &right.0) && same(&left.1, &right.1))
        }
        (Value::Udt { fields: left, .. }, Value::Udt { fields: right, .. }) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| left.0 == right.0 && same(&left.1, &right.1))
        }
        _ => left == right,
    }
}

fn values(element: &ColumnType, json: &Json) -> Vec<Value> {
    items(json)
        .iter()
        .map(|json| value(element, json))
        .collect()
}

fn items(json: &Json) -> &[Json] {
    json.as_array().expect("an array")
}

fn json_text(json: &Json) -> &str {
    json.as_str().expect("text")
}

fn blob(json: &Json) -> Bytes {
    files::hex(json_text(json).strip_prefix("0x").expect("0x")).into()
}

fn number<T: std::str::FromStr>(json: &Json) -> T {
    let Ok(number) = json_text(json).parse() else {
        panic!("not a number of the type: {json}")
    };
    number
}

fn small(json: &Json) -> i32 {
    json.as_i64()
        .and_then(|number| number.try_into().ok())
        .expect("a number of 32 bits")
}

fn bits(json: &Json) -> u64 {
    u64::from_str_radix(files::text(json, "bits"), 16).expect("hex digits")
}
