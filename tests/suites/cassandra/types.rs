//! Every CQL type to the server and back. What the server understood is read twice: as a value, and as the JSON that the
//! server itself makes of it, so that a mistake made both ways in the driver cannot hide.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use messina_tokio::types::{Unset, Value};
use messina_tokio::{FromValue, Session, ToValue};
use uuid::Uuid;

use super::in_each_mode;
use super::samples::{Sample, native_samples, nested_samples, vector_samples};

#[tokio::test]
async fn every_native_type_comes_back_as_it_went() {
    in_each_mode("native_types", async |session| {
        round_trip(&session, &native_samples()).await;
    })
    .await;
}

#[tokio::test]
async fn collections_and_tuples_come_back_as_they_went_also_in_each_other() {
    in_each_mode("collections", async |session| {
        round_trip(&session, &nested_samples()).await;
    })
    .await;
}

#[tokio::test]
async fn vectors_of_fixed_and_of_variable_elements_come_back_as_they_went() {
    in_each_mode("vectors", async |session| {
        round_trip(&session, &vector_samples()).await;
    })
    .await;
}

#[tokio::test]
async fn every_type_may_be_null() {
    in_each_mode("nulls", async |session| {
        let samples: Vec<Sample> = native_samples()
            .into_iter()
            .chain(nested_samples())
            .chain(vector_samples())
            .collect();
        let nulls = samples.into_iter().map(|sample| Sample {
            value: Value::Null,
            json: "null",
            ..sample
        });
        round_trip(&session, &nulls.collect::<Vec<_>>()).await;
    })
    .await;
}

#[tokio::test]
async fn empty_texts_and_blobs_are_values_and_empty_collections_are_nulls() {
    in_each_mode("empties", async |session| {
        round_trip(
            &session,
            &[
                Sample {
                    ty: "ascii",
                    value: Value::Ascii(String::new()),
                    json: r#""""#,
                },
                Sample {
                    ty: "text",
                    value: Value::Text(String::new()),
                    json: r#""""#,
                },
                Sample {
                    ty: "blob",
                    value: Value::Blob(Bytes::new()),
                    json: r#""0x""#,
                },
                Sample {
                    ty: "frozen<list<int>>",
                    value: Value::List(Vec::new()),
                    json: "[]",
                },
                Sample {
                    ty: "frozen<map<int, text>>",
                    value: Value::Map(Vec::new()),
                    json: "{}",
                },
            ],
        )
        .await;
        session
            .execute("CREATE TABLE l (pk int PRIMARY KEY, v list<int>)", ())
            .await
            .unwrap();
        let insert = session
            .prepare("INSERT INTO l (pk, v) VALUES (1, ?)")
            .await
            .unwrap();

        session
            .execute(&insert, (Vec::<i32>::new(),))
            .await
            .unwrap();

        let result = session.execute("SELECT v FROM l", ()).await.unwrap();
        assert_eq!(result.one::<(Value,)>().unwrap(), (Value::Null,));
    })
    .await;
}

#[tokio::test]
async fn the_zero_length_value_of_a_number_is_neither_null_nor_a_number() {
    in_each_mode("zero_length", async |session| {
        session
            .execute("CREATE TABLE t (pk int PRIMARY KEY, v int)", ())
            .await
            .unwrap();
        let insert = session
            .prepare("INSERT INTO t (pk, v) VALUES (?, ?)")
            .await
            .unwrap();

        session
            .execute("INSERT INTO t (pk, v) VALUES (1, blob_as_int(0x))", ())
            .await
            .unwrap();
        session.execute(&insert, (2, Value::Empty)).await.unwrap();

        let result = session.execute("SELECT v FROM t", ()).await.unwrap();
        let values: Vec<(Value,)> = result.rows().unwrap().map(Result::unwrap).collect();
        assert_eq!(values, [(Value::Empty,), (Value::Empty,)]);
        assert!(
            result.rows::<(i32,)>().unwrap().all(|row| row.is_err()),
            "empty was read as a number"
        );
    })
    .await;
}

#[tokio::test]
async fn unset_leaves_a_column_and_null_deletes_it() {
    in_each_mode("unset", async |session| {
        session
            .execute("CREATE TABLE t (pk int PRIMARY KEY, a int, b int)", ())
            .await
            .unwrap();
        let insert = session
            .prepare("INSERT INTO t (pk, a, b) VALUES (?, ?, ?)")
            .await
            .unwrap();
        session.execute(&insert, (1, 10, 20)).await.unwrap();

        session
            .execute(&insert, (1, Unset, None::<i32>))
            .await
            .unwrap();

        let result = session.execute("SELECT a, b FROM t", ()).await.unwrap();
        assert_eq!(
            result.one::<(Option<i32>, Option<i32>)>().unwrap(),
            (Some(10), None)
        );
    })
    .await;
}

#[tokio::test]
async fn a_counter_adds_up() {
    in_each_mode("counter", async |session| {
        session
            .execute("CREATE TABLE t (pk int PRIMARY KEY, n counter)", ())
            .await
            .unwrap();
        let add = session
            .prepare("UPDATE t SET n = n + ? WHERE pk = ?")
            .await
            .unwrap();

        session.execute(&add, (5_i64, 1)).await.unwrap();
        session.execute(&add, (-8_i64, 1)).await.unwrap();

        let result = session.execute("SELECT n, n FROM t", ()).await.unwrap();
        assert_eq!(
            result.one::<(i64, Value)>().unwrap(),
            (-3, Value::Counter(-3))
        );
    })
    .await;
}

#[tokio::test]
async fn rust_types_stand_for_cql_types() {
    in_each_mode("rust_types", async |session| {
    let create = "CREATE TABLE t (pk int PRIMARY KEY, a tinyint, b smallint, c bigint, d float, e double, f boolean, \
                  g text, h blob, i inet, j uuid, k list<text>, l set<int>, m map<text, int>, n tuple<int, text>)";
    session.execute(create, ()).await.unwrap();
    let insert = session
        .prepare("INSERT INTO t (pk, a, b, c, d, e, f, g, h, i, j, k, l, m, n) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .await
        .unwrap();
    let inet = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    let uuid = Uuid::from_u128(0x0123_4567_89ab_4cde_8f01_2345_6789_abcd);
    let (list, set) = (vec!["b", "a"], BTreeSet::from([3, 1]));
    let (map, tuple) = (BTreeMap::from([("one", 1)]), (7, "seven"));
    let blob: &[u8] = &[0, 255];

    let values = (
        1,
        -8_i8,
        -300_i16,
        i64::MAX,
        1.5_f32,
        -2.25_f64,
        true,
        "text",
        blob,
        inet,
        uuid,
        &list,
        &set,
        &map,
        tuple,
    );
    session.execute(&insert, values).await.unwrap();

    let result = session
        .execute("SELECT a, b, c, d, e, f, g, h, i, j FROM t", ())
        .await
        .unwrap();
    let scalars: (i8, i16, i64, f32, f64, bool, &str, &[u8], IpAddr, Uuid) = result.one().unwrap();
    assert_eq!(
        scalars,
        (
            -8,
            -300,
            i64::MAX,
            1.5,
            -2.25,
            true,
            "text",
            blob,
            inet,
            uuid
        )
    );
    let result = session
        .execute("SELECT k, l, m, n FROM t", ())
        .await
        .unwrap();
    assert_eq!(result.one::<Nested>().unwrap(), (list, set, map, tuple));
    })
    .await;
}

type Nested<'r> = (
    Vec<&'r str>,
    BTreeSet<i32>,
    BTreeMap<&'r str, i32>,
    (i32, &'r str),
);

#[derive(Debug, PartialEq, FromValue, ToValue)]
struct Address {
    street: String,
    zip: Option<i32>,
}

#[derive(Debug, PartialEq, FromValue, ToValue)]
struct Person {
    name: String,
    homes: Vec<Address>,
}

#[tokio::test]
async fn user_types_are_structs_and_may_hold_each_other() {
    in_each_mode("user_types", async |session| {
    session
        .execute("CREATE TYPE address (street text, zip int)", ())
        .await
        .unwrap();
    session
        .execute(
            "CREATE TYPE person (name text, homes list<frozen<address>>)",
            (),
        )
        .await
        .unwrap();
    session
        .execute(
            "CREATE TABLE t (pk int PRIMARY KEY, a address, p frozen<person>)",
            (),
        )
        .await
        .unwrap();
    let insert = session
        .prepare("INSERT INTO t (pk, a, p) VALUES (?, ?, ?)")
        .await
        .unwrap();
    let address = |zip| Address {
        street: "Via Garibaldi".to_owned(),
        zip,
    };
    let person = Person {
        name: "Ada".to_owned(),
        homes: vec![address(Some(98_122)), address(None)],
    };

    session
        .execute(&insert, (1, address(None), &person))
        .await
        .unwrap();

    let result = session
        .execute("SELECT a, p, to_json(p) FROM t", ())
        .await
        .unwrap();
    let (read, nested, json): (Address, Person, String) = result.one().unwrap();
    assert_eq!((read, nested), (address(None), person));
    let homes =
        r#"[{"street": "Via Garibaldi", "zip": 98122}, {"street": "Via Garibaldi", "zip": null}]"#;
    assert_eq!(json, format!(r#"{{"name": "Ada", "homes": {homes}}}"#));
    })
    .await;
}

#[tokio::test]
async fn user_types_may_be_called_like_built_in_ones_or_have_odd_names() {
    in_each_mode("odd_names", async |session| {
        let names = [r#""list""#, r#""Weird_Name""#, r#""int""#, r#""map""#];
        for name in names {
            session
                .execute(&format!("CREATE TYPE {name} (\"a field\" int)"), ())
                .await
                .unwrap();
        }
        let columns: Vec<String> = names
            .iter()
            .enumerate()
            .map(|(at, name)| format!("v{at} list<frozen<{name}>>"))
            .collect();
        session
            .execute(
                &format!(
                    "CREATE TABLE t (pk int PRIMARY KEY, v list<int>, {})",
                    columns.join(", ")
                ),
                (),
            )
            .await
            .unwrap();
        let insert = session
            .prepare("INSERT INTO t (pk, v, v0, v1, v2, v3) VALUES (1, ?, ?, ?, ?, ?)")
            .await
            .unwrap();
        let empty = session.execute("SELECT v FROM t", ()).await.unwrap();
        let keyspace = &empty.columns()[0].keyspace;
        let value = |name: &str| {
            let fields = vec![("a field".to_owned(), Value::Int(5))];
            let name = name.trim_matches('"').to_owned();
            Value::List(vec![Value::Udt {
                keyspace: keyspace.to_string(),
                name,
                fields,
            }])
        };
        let values = [
            Value::List(vec![Value::Int(1)]),
            value(names[0]),
            value(names[1]),
            value(names[2]),
            value(names[3]),
        ];

        session.execute(&insert, &values).await.unwrap();

        let result = session
            .execute("SELECT v, v0, v1, v2, v3 FROM t", ())
            .await
            .unwrap();
        assert_eq!(result.one::<Vec<Value>>().unwrap(), values);
    })
    .await;
}

#[tokio::test]
async fn a_value_of_a_user_type_that_got_a_field_since_reads_the_new_field_as_null() {
    in_each_mode("grown_type", async |session| {
        session
            .execute("CREATE TYPE address (street text)", ())
            .await
            .unwrap();
        session
            .execute("CREATE TABLE t (pk int PRIMARY KEY, a frozen<address>)", ())
            .await
            .unwrap();
        session
            .execute("INSERT INTO t (pk, a) VALUES (1, {street: 'Via Roma'})", ())
            .await
            .unwrap();

        session
            .execute("ALTER TYPE address ADD zip int", ())
            .await
            .unwrap();

        let result = session.execute("SELECT a FROM t", ()).await.unwrap();
        assert_eq!(
            result.one::<(Address,)>().unwrap(),
            (Address {
                street: "Via Roma".to_owned(),
                zip: None
            },)
        );
    })
    .await;
}

#[tokio::test]
async fn a_rust_type_that_does_not_fit_is_refused_before_anything_is_sent_or_read() {
    in_each_mode("misfits", async |session| {
        session
            .execute("CREATE TABLE t (pk int PRIMARY KEY, v int)", ())
            .await
            .unwrap();
        let insert = session
            .prepare("INSERT INTO t (pk, v) VALUES (?, ?)")
            .await
            .unwrap();
        session.execute(&insert, (1, 10)).await.unwrap();

        let bound = insert.bind((1, 10_i64));
        let few = insert.bind((1,));
        let result = session.execute("SELECT v FROM t", ()).await.unwrap();
        let read = result.rows::<(String,)>();

        assert!(bound.is_err(), "a bigint was bound to an int");
        assert!(few.is_err(), "a value is missing");
        assert!(read.is_err(), "an int was read as text");
    })
    .await;
}

/// Writes all samples as one row, and compares what the server gives back with what went.
async fn round_trip(session: &Session, samples: &[Sample]) {
    let names: Vec<String> = (0..samples.len())
        .map(|index| format!("c{index}"))
        .collect();
    let columns: Vec<String> = names
        .iter()
        .zip(samples)
        .map(|(name, sample)| format!("{name} {}", sample.ty))
        .collect();
    let create = format!(
        "CREATE TABLE samples (pk int PRIMARY KEY, {})",
        columns.join(", ")
    );
    session.execute(&create, ()).await.unwrap();
    let markers = vec!["?"; samples.len()].join(", ");
    let insert = format!(
        "INSERT INTO samples (pk, {}) VALUES (1, {markers})",
        names.join(", ")
    );
    let insert = session.prepare(insert).await.unwrap();

    let values: Vec<&Value> = samples.iter().map(|sample| &sample.value).collect();
    session.execute(&insert, values.as_slice()).await.unwrap();

    let select = session
        .prepare(format!("SELECT {} FROM samples", names.join(", ")))
        .await
        .unwrap();
    let result = session.execute(&select, ()).await.unwrap();
    let read: Vec<Value> = result.one().unwrap();
    let as_json: Vec<String> = names
        .iter()
        .map(|name| format!("to_json({name})"))
        .collect();
    let result = session
        .execute(&format!("SELECT {} FROM samples", as_json.join(", ")), ())
        .await
        .unwrap();
    let json: Vec<Value> = result.one().unwrap();
    assert_eq!(read.len(), samples.len());
    for ((sample, read), json) in samples.iter().zip(read).zip(json) {
        assert_eq!(read, sample.value, "{} came back changed", sample.ty);
        assert_eq!(
            json,
            Value::Text(sample.json.to_owned()),
            "the server understood another {}",
            sample.ty
        );
    }
}
