//! Values of every CQL type, for the round trips of `types`.

use bytes::Bytes;
use messina_tokio::types::{Date, Decimal, Duration, Time, Timestamp, Value, Varint};
use uuid::Uuid;

/// A value of a type, and how the server writes it as JSON.
pub(crate) struct Sample {
    pub(crate) ty: &'static str,
    pub(crate) value: Value,
    pub(crate) json: &'static str,
}

pub(crate) fn native_samples() -> Vec<Sample> {
    let uuid = Uuid::from_u128(0x0123_4567_89ab_4cde_8f01_2345_6789_abcd);
    let timeuuid = Uuid::from_u128(0x50554d6e_29bb_11e5_b345_feff819cdc9f);
    let varint = |text: &str| -> Varint { text.parse().unwrap() };
    let sample = |ty, value, json| Sample { ty, value, json };
    vec![
        sample("ascii", Value::Ascii("a ~".to_owned()), r#""a ~""#),
        sample("bigint", Value::BigInt(i64::MIN), "-9223372036854775808"),
        sample(
            "blob",
            Value::Blob(Bytes::from_static(&[0, 0xff])),
            r#""0x00ff""#,
        ),
        sample("boolean", Value::Boolean(true), "true"),
        sample(
            "date",
            Value::Date(Date::from_ymd(2024, 2, 29).unwrap()),
            r#""2024-02-29""#,
        ),
        sample(
            "date",
            Value::Date(Date::from_ymd(1969, 12, 31).unwrap()),
            r#""1969-12-31""#,
        ),
        sample(
            "decimal",
            Value::Decimal(Decimal {
                scale: 3,
                unscaled: varint("-12340"),
            }),
            "-12.340",
        ),
        sample("double", Value::Double(-2.5), "-2.5"),
        sample(
            "duration",
            Value::Duration(Duration {
                months: 14,
                days: 3,
                nanos: 1_000_000_007,
            }),
            r#""1y2mo3d1s7ns""#,
        ),
        sample(
            "duration",
            Value::Duration(Duration {
                months: -1,
                days: -40,
                nanos: -i64::MAX,
            }),
            r#""-1mo40d2562047h47m16s854ms775us807ns""#,
        ),
        sample("float", Value::Float(1.5), "1.5"),
        sample(
            "inet",
            Value::Inet("127.0.0.1".parse().unwrap()),
            r#""127.0.0.1""#,
        ),
        sample(
            "inet",
            Value::Inet("2001:db8::1".parse().unwrap()),
            r#""2001:db8:0:0:0:0:0:1""#,
        ),
        sample("int", Value::Int(-1), "-1"),
        sample("smallint", Value::SmallInt(i16::MIN), "-32768"),
        sample(
            "text",
            Value::Text("zażółć 🦀".to_owned()),
            r#""zażółć 🦀""#,
        ),
        sample(
            "time",
            Value::Time(Time::from_hms_nano(13, 14, 15, 9).unwrap()),
            r#""13:14:15.000000009""#,
        ),
        sample(
            "timestamp",
            Value::Timestamp(Timestamp(1_709_210_096_789)),
            r#""2024-02-29 12:34:56.789Z""#,
        ),
        sample(
            "timestamp",
            Value::Timestamp(Timestamp(-1)),
            r#""1969-12-31 23:59:59.999Z""#,
        ),
        sample(
            "timeuuid",
            Value::Timeuuid(timeuuid),
            r#""50554d6e-29bb-11e5-b345-feff819cdc9f""#,
        ),
        sample("tinyint", Value::TinyInt(i8::MIN), "-128"),
        sample(
            "uuid",
            Value::Uuid(uuid),
            r#""01234567-89ab-4cde-8f01-23456789abcd""#,
        ),
        sample(
            "varint",
            Value::Varint(varint("-123456789012345678901234567890")),
            "-123456789012345678901234567890",
        ),
        sample("varint", Value::Varint(varint("128")), "128"),
        sample("varint", Value::Varint(varint("0")), "0"),
    ]
}

pub(crate) fn nested_samples() -> Vec<Sample> {
    let text = |text: &str| Value::Text(text.to_owned());
    let ints = |ints: &[i32]| -> Vec<Value> { ints.iter().copied().map(Value::Int).collect() };
    let sample = |ty, value, json| Sample { ty, value, json };
    vec![
        sample("list<int>", Value::List(ints(&[3, 1, 3])), "[3, 1, 3]"),
        sample(
            "set<text>",
            Value::Set(vec![text("a"), text("b")]),
            r#"["a", "b"]"#,
        ),
        sample(
            "map<text, int>",
            Value::Map(vec![(text("a"), Value::Int(1)), (text("b"), Value::Int(2))]),
            r#"{"a": 1, "b": 2}"#,
        ),
        sample(
            "tuple<int, text, boolean>",
            Value::Tuple(vec![Value::Int(1), Value::Null, Value::Boolean(false)]),
            "[1, null, false]",
        ),
        sample(
            "list<frozen<set<int>>>",
            Value::List(vec![Value::Set(ints(&[1, 2])), Value::Set(Vec::new())]),
            "[[1, 2], []]",
        ),
        sample(
            "map<int, frozen<map<text, frozen<list<int>>>>>",
            Value::Map(vec![(
                Value::Int(7),
                Value::Map(vec![(text("k"), Value::List(ints(&[5])))]),
            )]),
            r#"{"7": {"k": [5]}}"#,
        ),
        sample(
            "frozen<tuple<frozen<list<text>>, frozen<tuple<int, int>>>>",
            Value::Tuple(vec![
                Value::List(vec![text("x"), text("")]),
                Value::Tuple(ints(&[1, 2])),
            ]),
            r#"[["x", ""], [1, 2]]"#,
        ),
    ]
}

pub(crate) fn vector_samples() -> Vec<Sample> {
    let text = |text: &str| Value::Text(text.to_owned());
    let floats = |floats: &[f32]| Value::Vector(floats.iter().copied().map(Value::Float).collect());
    let sample = |ty, value, json| Sample { ty, value, json };
    vec![
        sample(
            "vector<float, 3>",
            floats(&[1.0, -2.5, 0.0]),
            "[1.0, -2.5, 0.0]",
        ),
        sample(
            "vector<text, 2>",
            Value::Vector(vec![text("ab"), text("")]),
            r#"["ab", ""]"#,
        ),
        sample(
            "vector<frozen<list<int>>, 2>",
            Value::Vector(vec![
                Value::List(vec![Value::Int(1)]),
                Value::List(Vec::new()),
            ]),
            "[[1], []]",
        ),
        sample(
            "list<frozen<vector<float, 2>>>",
            Value::List(vec![floats(&[0.5, 1.5])]),
            "[[0.5, 1.5]]",
        ),
    ]
}
