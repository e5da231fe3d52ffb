//! Values in JSON, and what is refused there. The values of the vectors go through formats in `foreign`.

use messina_core::types::{Date, Decimal, Duration, Time, Timestamp, Value, Varint};
use serde_json::json;

#[test]
fn values_stand_in_json_under_the_names_of_their_types() {
    let id = "d2177dd0-eaa2-11de-a572-001b779c76e3";
    for (value, expected) in [
        (Value::Null, json!("null")),
        (Value::Unset, json!("unset")),
        (Value::Empty, json!("empty")),
        (Value::Int(-7), json!({"int": -7})),
        (Value::BigInt(i64::MAX), json!({"bigint": i64::MAX})),
        (Value::TinyInt(1), json!({"tinyint": 1})),
        (Value::SmallInt(1), json!({"smallint": 1})),
        (Value::Counter(1), json!({"counter": 1})),
        (Value::Boolean(true), json!({"boolean": true})),
        (Value::Text("a".into()), json!({"text": "a"})),
        (Value::Ascii("a".into()), json!({"ascii": "a"})),
        (Value::Double(1.5), json!({"double": 1.5})),
        (Value::Float(f32::INFINITY), json!({"float": "Infinity"})),
        (
            Value::Double(f64::NEG_INFINITY),
            json!({"double": "-Infinity"}),
        ),
        (
            Value::Varint("123456789012345678901234567890".parse().unwrap()),
            json!({"varint": "123456789012345678901234567890"}),
        ),
        (
            Value::Decimal(Decimal {
                scale: 2,
                unscaled: Varint::from(150_i64),
            }),
            json!({"decimal": {"scale": 2, "unscaled": "150"}}),
        ),
        (
            Value::Blob(vec![0xca, 0x0e].into()),
            json!({"blob": "0xca0e"}),
        ),
        (Value::Custom(Vec::new().into()), json!({"custom": "0x"})),
        (Value::Uuid(id.parse().unwrap()), json!({"uuid": id})),
        (
            Value::Timeuuid(id.parse().unwrap()),
            json!({"timeuuid": id}),
        ),
        (Value::Inet("::1".parse().unwrap()), json!({"inet": "::1"})),
        (Value::Date(Date(-1)), json!({"date": -1})),
        (Value::Time(Time(1)), json!({"time": 1})),
        (Value::Timestamp(Timestamp(1)), json!({"timestamp": 1})),
        (
            Value::Duration(Duration {
                months: 1,
                days: 2,
                nanos: 3,
            }),
            json!({"duration": {"months": 1, "days": 2, "nanos": 3}}),
        ),
        (
            Value::Map(vec![(Value::Int(1), Value::Null)]),
            json!({"map": [[{"int": 1}, "null"]]}),
        ),
        (
            Value::List(vec![Value::Int(1)]),
            json!({"list": [{"int": 1}]}),
        ),
        (Value::Set(vec![]), json!({"set": []})),
        (Value::Tuple(vec![]), json!({"tuple": []})),
        (Value::Vector(vec![]), json!({"vector": []})),
        (
            Value::Udt {
                keyspace: "ks".into(),
                name: "t".into(),
                fields: vec![("a".into(), Value::Int(1))],
            },
            json!({"udt": {"keyspace": "ks", "name": "t", "fields": [["a", {"int": 1}]]}}),
        ),
    ] {
        assert_eq!(serde_json::to_value(&value).unwrap(), expected);
        assert_eq!(serde_json::from_value::<Value>(expected).unwrap(), value);
        let packed = postcard::to_allocvec(&value).unwrap();
        assert_eq!(postcard::from_bytes::<Value>(&packed).unwrap(), value);
    }
}

#[test]
fn a_number_that_is_none_keeps_its_kind() {
    let text = serde_json::to_string(&Value::Double(f64::NAN)).unwrap();
    assert_eq!(text, r#"{"double":"NaN"}"#);
    let back: Value = serde_json::from_str(&text).unwrap();
    assert!(matches!(back, Value::Double(number) if number.is_nan()));
    // Whole numbers are floats too, where they stand for one.
    assert_eq!(
        serde_json::from_str::<Value>(r#"{"float":-3}"#).unwrap(),
        Value::Float(-3.0)
    );
}

#[test]
fn what_is_not_a_value_is_refused() {
    for text in [
        r#"{"int":3000000000}"#,
        r#"{"blob":"cafe"}"#,
        r#"{"blob":"0xcaf"}"#,
        r#"{"blob":"0xzz"}"#,
        r#"{"varint":"1.5"}"#,
        r#"{"double":"many"}"#,
        r#"{"integer":1}"#,
        r#""nothing""#,
        "7",
    ] {
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
    }
}
