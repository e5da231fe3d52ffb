//! Owns what servers answer to the reads of the system tables: a small cluster, and everything that can be wrong
//! with its rows.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use messina_core::types::{ColumnSpec, ColumnType, Value};
use messina_core::wire::{
    Envelope, FrameHeader, Request, Response, ResultBody, ResultMetadata, RowsBody,
};
use uuid::Uuid;

use crate::input::{Input, features};

/// The body of a RESULT that answers a request. Zeros in the input stand for a healthy cluster.
pub(super) fn answer(request: &Request, input: &mut Input<'_>) -> Vec<u8> {
    let text = match request {
        Request::Query { text, .. } => text.as_str(),
        _ => "",
    };
    let result = if let Some(keyspace) = text.strip_prefix("USE \"") {
        ResultBody::SetKeyspace(keyspace.trim_end_matches('"').to_owned())
    } else if text.contains(" FROM ") {
        ResultBody::Rows(rows(text, input))
    } else {
        ResultBody::Void
    };
    let mut bytes = Vec::new();
    Envelope::from(Response::Result(result))
        .encode(&mut bytes, &features(0), 1)
        .expect("rows can be written");
    bytes.drain(..FrameHeader::LEN);
    bytes
}

pub(super) fn address(node: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, node.wrapping_add(1)], 9042))
}

pub(super) fn node_at(address: SocketAddr) -> u8 {
    match address.ip() {
        IpAddr::V4(ip) => ip.octets()[3].wrapping_sub(1),
        IpAddr::V6(_) => 0,
    }
}

pub(super) fn host_id(node: u8) -> Uuid {
    Uuid::from_u128(0x4000_8000_0000_0000_0000 + u128::from(node))
}

type Cell = (&'static str, ColumnType, Value);

fn rows(text: &str, input: &mut Input<'_>) -> RowsBody {
    let wrong = input.byte();
    let from = |table: &str| {
        text.contains(&format!("FROM {table} ")) || text.ends_with(&format!("FROM {table}"))
    };
    let rows: Vec<Vec<Cell>> = if from("system.local") {
        vec![local(input)]
    } else if from("system.peers") || from("system.peers_v2") {
        let v2 = from("system.peers_v2");
        let count = 2 + input.byte() % 5;
        (1..count).map(|node| peer(node, v2, input)).collect()
    } else if from("system_schema.keyspaces") {
        let count = 2 + input.byte() % 4;
        (0..count).map(|at| keyspace(at, input)).collect()
    } else {
        let count = 2 + input.byte() % 6;
        let column = if text.contains("view_name") {
            "view_name"
        } else {
            "table_name"
        };
        (0..count)
            .map(|at| table(at, column, text.contains("partitioner"), input))
            .collect()
    };
    body(rows, wrong)
}

fn body(rows: Vec<Vec<Cell>>, wrong: u8) -> RowsBody {
    let mut columns: Vec<ColumnSpec> = rows
        .first()
        .map(|row| row.iter().map(|(name, ty, _)| column(name, ty)).collect())
        .unwrap_or_default();
    let mut cells = Vec::new();
    for row in &rows {
        for (_, ty, value) in row {
            value
                .encode(ty, &mut cells)
                .expect("values fit their types");
        }
    }
    match wrong {
        // A column goes by another name, or says another type than it has.
        1..=8 => {
            let at = usize::from(wrong) % columns.len().max(1);
            if let Some(column) = columns.get_mut(at) {
                column.name = "other".into();
            }
        }
        9..=16 => {
            let at = usize::from(wrong) % columns.len().max(1);
            if let Some(column) = columns.get_mut(at) {
                column.ty = ColumnType::BigInt;
            }
        }
        17..=20 => cells.truncate(cells.len() / 2),
        _ => (),
    }
    RowsBody {
        metadata: ResultMetadata {
            column_count: columns.len(),
            columns: (wrong != 21).then(|| columns.into()),
            paging_state: (wrong == 22).then(|| Bytes::from_static(b"more")),
            more_pages: wrong == 22 || wrong == 23,
            new_metadata_id: None,
        },
        row_count: rows.len(),
        cells: cells.into(),
    }
}

fn column(name: &str, ty: &ColumnType) -> ColumnSpec {
    ColumnSpec {
        keyspace: "system".into(),
        table: "t".into(),
        name: name.into(),
        ty: ty.clone(),
    }
}

fn texts() -> ColumnType {
    ColumnType::Set(Arc::new(ColumnType::Text))
}

/// What both tables of nodes say of one.
fn node(node: u8, input: &mut Input<'_>) -> Vec<Cell> {
    let choice = input.byte();
    let id = match choice & 0x0f {
        1 => Value::Null,
        2 => Value::Uuid(Uuid::nil()),
        3 => Value::Uuid(host_id(1)),
        _ => Value::Uuid(host_id(node)),
    };
    let datacenter = match choice >> 4 {
        1 => Value::Null,
        2 | 3 => Value::from("dc1"),
        _ => Value::from("dc0"),
    };
    let choice = input.byte();
    let schema_version = Value::Uuid(Uuid::from_u128(1 + u128::from(choice >> 7)));
    let rack = if choice & 0x0f == 1 {
        Value::Null
    } else {
        Value::from(["r0", "r1"][usize::from(node & 1)])
    };
    let cluster = match choice & 0x0f {
        2 => Value::from("theirs"),
        3 => Value::Null,
        _ => Value::from("ours"),
    };
    vec![
        ("host_id", ColumnType::Uuid, id),
        ("data_center", ColumnType::Text, datacenter),
        ("rack", ColumnType::Text, rack),
        ("cluster_name", ColumnType::Text, cluster),
        ("release_version", ColumnType::Text, Value::from("5.0.0")),
        ("schema_version", ColumnType::Uuid, schema_version),
        ("tokens", texts(), tokens(node, choice >> 4 & 7)),
    ]
}

fn tokens(node: u8, choice: u8) -> Value {
    let start = i64::from(node) * 1_000;
    let spread = |count: i64| {
        (0..count)
            .map(|at| Value::from((start + at * 0x0123_4567_89ab).to_string()))
            .collect()
    };
    Value::Set(match choice {
        1 => return Value::Null,
        2 => vec![Value::from("no number")],
        3 => vec![
            Value::from(i64::MIN.to_string()),
            Value::from(i64::MAX.to_string()),
        ],
        4 => vec![Value::from("5"); 3],
        5 => spread(300),
        6 => vec![Value::from("")],
        _ => spread(4),
    })
}

fn local(input: &mut Input<'_>) -> Vec<Cell> {
    let mut cells = node(0, input);
    let choice = input.byte();
    let client = match choice & 7 {
        1 => Value::Null,
        2 => Value::Inet([0, 0, 0, 0].into()),
        _ => Value::Inet(address(0).ip()),
    };
    let class = match choice >> 4 {
        1 => Value::Null,
        2 => Value::from("org.apache.cassandra.dht.RandomPartitioner"),
        _ => Value::from("org.apache.cassandra.dht.Murmur3Partitioner"),
    };
    cells.extend([
        ("key", ColumnType::Text, Value::from("local")),
        (
            "broadcast_address",
            ColumnType::Inet,
            Value::Inet(address(0).ip()),
        ),
        ("rpc_address", ColumnType::Inet, client),
        ("partitioner", ColumnType::Text, class),
    ]);
    cells
}

fn peer(at: u8, v2: bool, input: &mut Input<'_>) -> Vec<Cell> {
    let mut cells = node(at, input);
    let choice = input.byte();
    let client = match choice & 7 {
        1 => Value::Null,
        2 => Value::Inet([0, 0, 0, 0].into()),
        3 => Value::Inet(address(7).ip()),
        4 => Value::Empty,
        _ => Value::Inet(address(at).ip()),
    };
    cells.push(("peer", ColumnType::Inet, Value::Inet(address(at).ip())));
    if v2 {
        let port = if choice & 0x10 == 0 {
            Value::Int(9042)
        } else {
            Value::Int(-1)
        };
        cells.push(("native_address", ColumnType::Inet, client));
        cells.push(("native_port", ColumnType::Int, port));
    } else {
        cells.push(("rpc_address", ColumnType::Inet, client));
    }
    cells
}

fn keyspace(at: u8, input: &mut Input<'_>) -> Vec<Cell> {
    let options: &[(&str, &str)] = match input.byte() % 8 {
        0 => &[
            ("class", "NetworkTopologyStrategy"),
            ("dc0", "2"),
            ("dc1", "1"),
        ],
        1 => &[
            ("class", "org.apache.cassandra.locator.SimpleStrategy"),
            ("replication_factor", "3"),
        ],
        2 => &[
            ("class", "SimpleStrategy"),
            ("replication_factor", "4294967295"),
        ],
        3 => &[
            ("class", "NetworkTopologyStrategy"),
            ("dc0", "-1"),
            ("dc1", "99999999999"),
        ],
        4 => &[("class", "EverywhereStrategy")],
        5 => &[("class", "LocalStrategy")],
        6 => &[],
        _ => &[("class", "com.example.Odd"), ("dc0", "1/2")],
    };
    let map = ColumnType::Map(Arc::new((ColumnType::Text, ColumnType::Text)));
    let entries = options
        .iter()
        .map(|(key, value)| (Value::from(*key), Value::from(*value)))
        .collect();
    vec![
        (
            "keyspace_name",
            ColumnType::Text,
            Value::from(format!("ks{at}")),
        ),
        ("replication", map, Value::Map(entries)),
    ]
}

fn table(at: u8, column: &'static str, partitioner: bool, input: &mut Input<'_>) -> Vec<Cell> {
    let choice = input.byte();
    let name = if choice & 0x0f == 1 {
        Value::Null
    } else {
        Value::from(format!("t{at}"))
    };
    let mut cells = vec![
        (
            "keyspace_name",
            ColumnType::Text,
            Value::from(format!("ks{}", at & 1)),
        ),
        (column, ColumnType::Text, name),
    ];
    if partitioner {
        let class = if choice & 0x10 == 0 {
            Value::Null
        } else {
            Value::from("com.scylladb.dht.CDCPartitioner")
        };
        cells.push(("partitioner", ColumnType::Text, class));
    }
    cells
}
