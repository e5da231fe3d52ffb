//! Owns the sample responses; errors have a file of their own.

mod errors;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use messina_core::types::{ColumnSpec, ColumnType, UdtType, Value};
use messina_core::wire::{
    Envelope, PreparedBody, Response, ResultBody, ResultMetadata, RowsBody, SchemaChange,
    SchemaChangeKind, SchemaTarget, ServerEvent, Supported, TopologyChange,
};
use uuid::Uuid;

use super::Sample;
use crate::input::{EXTENDED, V5, features};

/// Valid responses of every kind, in the layouts where they differ: inputs of the targets for responses.
pub fn responses() -> Vec<Sample> {
    let mut samples = Vec::new();
    for (layout, bits) in [("v4", 0), ("v4x", EXTENDED), ("v5", V5)] {
        for (name, envelope) in envelopes(bits) {
            let mut bytes = vec![bits];
            envelope
                .encode(&mut bytes, &features(bits), 1)
                .expect("samples can be written");
            samples.push(Sample {
                name: format!("{layout}-{name}"),
                bytes,
            });
        }
    }
    samples
}

fn envelopes(bits: u8) -> Vec<(String, Envelope)> {
    let mut all: Vec<(String, Response)> = vec![
        ("ready".into(), Response::Ready),
        (
            "authenticate".into(),
            Response::Authenticate("org.apache.cassandra.auth.PasswordAuthenticator".into()),
        ),
        ("supported".into(), Response::Supported(supported())),
        (
            "auth-challenge".into(),
            Response::AuthChallenge(Some(Bytes::from_static(b"nonce"))),
        ),
        ("auth-success".into(), Response::AuthSuccess(None)),
    ];
    all.extend(
        results(bits)
            .into_iter()
            .map(|(name, result)| (name, Response::Result(result))),
    );
    all.extend(
        events()
            .into_iter()
            .map(|(name, event)| (name, Response::Event(event))),
    );
    all.extend(
        errors::errors(bits)
            .into_iter()
            .map(|(name, error)| (name, Response::Error(error))),
    );
    let mut envelopes: Vec<(String, Envelope)> = all
        .into_iter()
        .map(|(name, response)| (name, response.into()))
        .collect();
    envelopes.push((
        "everything-around".into(),
        Envelope {
            tracing_id: Some(Uuid::from_u128(7)),
            warnings: vec!["slow".into(), "large partition".into()],
            custom_payload: vec![
                ("tablet".into(), Some(Bytes::from_static(b"\0\x01"))),
                ("none".into(), None),
            ],
            response: Response::Result(ResultBody::Rows(rows(false))),
        },
    ));
    envelopes
}

fn supported() -> Supported {
    let options = [
        ("CQL_VERSION", vec!["3.3.1", "3.4.5"]),
        ("COMPRESSION", vec!["lz4", "snappy"]),
        ("SCYLLA_SHARD", vec!["3"]),
        ("SCYLLA_NR_SHARDS", vec!["8"]),
        (
            "SCYLLA_SHARDING_ALGORITHM",
            vec!["biased-token-round-robin"],
        ),
        ("SCYLLA_SHARDING_IGNORE_MSB", vec!["12"]),
        ("SCYLLA_RATE_LIMIT_ERROR", vec!["ERROR_CODE=61440"]),
        (
            "SCYLLA_LWT_ADD_METADATA_MARK",
            vec!["LWT_OPTIMIZATION_META_BIT_MASK=2147483648"],
        ),
    ];
    Supported {
        options: options
            .into_iter()
            .map(|(key, values)| (key.into(), values.into_iter().map(Into::into).collect()))
            .collect(),
    }
}

fn results(bits: u8) -> Vec<(String, ResultBody)> {
    let mut results: Vec<(String, ResultBody)> = vec![
        ("void".into(), ResultBody::Void),
        ("rows".into(), ResultBody::Rows(rows(false))),
        ("rows-of-two-tables".into(), ResultBody::Rows(rows(true))),
        (
            "rows-without-metadata".into(),
            ResultBody::Rows(without_metadata()),
        ),
        ("set-keyspace".into(), ResultBody::SetKeyspace("ks".into())),
        ("prepared".into(), ResultBody::Prepared(prepared(bits))),
    ];
    let changes = schema_changes();
    results.extend(
        changes
            .into_iter()
            .map(|(name, change)| (name, ResultBody::SchemaChange(change))),
    );
    results
}

fn column(table: &str, name: &str, ty: ColumnType) -> ColumnSpec {
    ColumnSpec {
        keyspace: "ks".into(),
        table: table.into(),
        name: name.into(),
        ty,
    }
}

/// Columns of every shape of type, the second half of another table if that is asked for.
fn columns(two: bool) -> Vec<ColumnSpec> {
    let text_list = ColumnType::List(Arc::new(ColumnType::Text));
    let udt = ColumnType::Udt(Arc::new(UdtType {
        keyspace: "ks".into(),
        name: "address".into(),
        fields: vec![
            ("zip".into(), ColumnType::Int),
            ("tags".into(), text_list.clone()),
        ],
    }));
    let vector = ColumnType::Vector {
        element: Arc::new(ColumnType::Float),
        dimension: 2,
    };
    let map = ColumnType::Map(Arc::new((
        ColumnType::Uuid,
        ColumnType::Set(Arc::new(ColumnType::BigInt)),
    )));
    let tuple = ColumnType::Tuple([ColumnType::Duration, ColumnType::Inet].into());
    let second = if two { "u" } else { "t" };
    vec![
        column("t", "id", ColumnType::Int),
        column("t", "names", text_list),
        column("t", "home", udt),
        column("t", "at", vector),
        column(second, "more", map),
        column(second, "pair", tuple),
        column(
            second,
            "odd",
            ColumnType::Custom("com.example.Odd(a=>b)".into()),
        ),
    ]
}

fn rows(two: bool) -> RowsBody {
    let columns = columns(two);
    let list = |texts: &[&str]| Value::List(texts.iter().map(|text| Value::from(*text)).collect());
    let home = Value::Udt {
        keyspace: "ks".into(),
        name: "address".into(),
        fields: vec![("zip".into(), Value::Int(1)), ("tags".into(), list(&["x"]))],
    };
    let map = Value::Map(vec![(
        Value::Uuid(Uuid::from_u128(5)),
        Value::Set(vec![Value::BigInt(-1)]),
    )]);
    let first = [
        Value::Int(7),
        list(&["one", "two"]),
        home,
        Value::Vector(vec![Value::Float(1.5), Value::Float(-2.0)]),
        map,
        Value::Tuple(vec![Value::Null, Value::Inet([192, 0, 2, 7].into())]),
        Value::Custom(Bytes::from_static(b"odd")),
    ];
    let mut cells = Vec::new();
    for (value, column) in first.iter().zip(&columns) {
        value
            .encode(&column.ty, &mut cells)
            .expect("samples fit their types");
    }
    // A second row of nulls.
    cells.extend((0..columns.len()).flat_map(|_| (-1_i32).to_be_bytes()));
    RowsBody {
        metadata: ResultMetadata {
            column_count: columns.len(),
            columns: Some(columns.into()),
            paging_state: Some(Bytes::from_static(b"next")),
            more_pages: true,
            new_metadata_id: None,
        },
        row_count: 2,
        cells: cells.into(),
    }
}

fn without_metadata() -> RowsBody {
    RowsBody {
        metadata: ResultMetadata {
            column_count: 2,
            columns: None,
            paging_state: None,
            more_pages: false,
            new_metadata_id: None,
        },
        row_count: 1,
        cells: Bytes::from_static(&[0, 0, 0, 1, 9, 0xff, 0xff, 0xff, 0xff]),
    }
}

fn prepared(bits: u8) -> PreparedBody {
    let features = features(bits);
    let id = features
        .has_metadata_id()
        .then(|| Bytes::from_static(b"metadata id"));
    let bind_columns = columns(false);
    let result = columns(true);
    PreparedBody {
        id: Bytes::from_static(b"0123456789abcdef"),
        result_metadata_id: id,
        bind_columns: bind_columns.into(),
        pk_indexes: vec![0, 3],
        conditional: features.lwt_mark_mask.is_some(),
        result: ResultMetadata {
            column_count: result.len(),
            columns: Some(result.into()),
            ..ResultMetadata::default()
        },
    }
}

fn schema_changes() -> Vec<(String, SchemaChange)> {
    let args = || vec!["int".to_owned(), "list<text>".to_owned()];
    let name = || "thing".to_owned();
    [
        (
            "keyspace",
            SchemaChangeKind::Created,
            SchemaTarget::Keyspace,
        ),
        (
            "table",
            SchemaChangeKind::Updated,
            SchemaTarget::Table { name: name() },
        ),
        (
            "type",
            SchemaChangeKind::Dropped,
            SchemaTarget::Type { name: name() },
        ),
        (
            "function",
            SchemaChangeKind::Created,
            SchemaTarget::Function {
                name: name(),
                args: args(),
            },
        ),
        (
            "aggregate",
            SchemaChangeKind::Updated,
            SchemaTarget::Aggregate {
                name: name(),
                args: args(),
            },
        ),
    ]
    .into_iter()
    .map(|(what, change, target)| {
        let keyspace = "ks".into();
        (
            format!("schema-{what}"),
            SchemaChange {
                change,
                target,
                keyspace,
            },
        )
    })
    .collect()
}

fn events() -> Vec<(String, ServerEvent)> {
    let v4 = SocketAddr::from(([192, 0, 2, 9], 9042));
    let v6 = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 9], 9042));
    let mut events: Vec<(String, ServerEvent)> = vec![
        (
            "event-topology".into(),
            ServerEvent::Topology {
                change: TopologyChange::NewNode,
                address: v4,
            },
        ),
        (
            "event-moved".into(),
            ServerEvent::Topology {
                change: TopologyChange::MovedNode,
                address: v6,
            },
        ),
        (
            "event-status".into(),
            ServerEvent::Status {
                up: true,
                address: v6,
            },
        ),
        (
            "event-status-down".into(),
            ServerEvent::Status {
                up: false,
                address: v4,
            },
        ),
        (
            "event-routes".into(),
            ServerEvent::ClientRoutes {
                connection_ids: vec!["a".into(), "b".into()],
                host_ids: vec![
                    Uuid::from_u128(1).to_string(),
                    Uuid::from_u128(2).to_string(),
                ],
            },
        ),
        (
            "event-unknown".into(),
            ServerEvent::Unknown {
                kind: "PARTITION_CHANGE".into(),
            },
        ),
    ];
    let changes = schema_changes();
    events.extend(
        changes
            .into_iter()
            .map(|(name, change)| (format!("event-{name}"), ServerEvent::Schema(change))),
    );
    events
}
