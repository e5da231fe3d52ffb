//! What drivers ask a server about itself: SUPPORTED, the members of the cluster, the keyspace and its tables. Everything
//! that is not asked by the drivers in this bench is empty.

use std::sync::Arc;

use bytes::Bytes;
use messina_core::types::column_type::ColumnType;
use messina_core::wire::{
    ColumnSpec, PreparedBody, Response, ResultBody, ResultMetadata, RowsBody, ServerError,
    ServerErrorDetail, Supported,
};

use super::World;

pub(crate) fn cell(out: &mut Vec<u8>, value: &[u8]) {
    out.extend((value.len() as i32).to_be_bytes());
    out.extend(value);
}

pub(crate) fn long_string(body: &[u8]) -> String {
    let len = u32::from_be_bytes([body[0], body[1], body[2], body[3]]) as usize;
    String::from_utf8_lossy(&body[4..4 + len]).into_owned()
}

pub(crate) fn supported(world: &World, shard: u16) -> Response {
    let (shard, shards) = (shard.to_string(), world.shards.to_string());
    let port = world.shard_port.to_string();
    let mut options = vec![("CQL_VERSION", "3.4.5"), ("COMPRESSION", "")];
    if 0 < world.shards {
        options.extend([
            ("SCYLLA_SHARD", shard.as_str()),
            ("SCYLLA_NR_SHARDS", &shards),
            ("SCYLLA_SHARD_AWARE_PORT", &port),
            ("SCYLLA_SHARDING_ALGORITHM", "biased-token-round-robin"),
            ("SCYLLA_SHARDING_IGNORE_MSB", "12"),
            ("SCYLLA_PARTITIONER", PARTITIONER),
        ]);
    }
    let option = |(name, value): (&str, &str)| {
        let values = (!value.is_empty()).then(|| value.to_owned());
        (name.to_owned(), values.into_iter().collect())
    };
    Response::Supported(Supported {
        options: options.into_iter().map(option).collect(),
    })
}

/// Answers the PREPARE of a read of a system table: no markers, and the columns that the read gives.
pub(crate) fn statement(world: &World, node: u16, text: &str) -> Response {
    match rows(world, node, text) {
        Response::Result(_) => {
            let mut id = text.as_bytes().to_vec();
            id.truncate(16);
            id.resize(16, b' ');
            prepared(id.into(), Arc::default(), None)
        }
        refusal => refusal,
    }
}

/// Makes the answer to a PREPARE; the id of the columns is that of the statement. The first marker is the key.
pub(crate) fn prepared(
    id: Bytes,
    markers: Arc<[ColumnSpec]>,
    result: Option<Arc<[ColumnSpec]>>,
) -> Response {
    Response::Result(ResultBody::Prepared(PreparedBody {
        result_metadata_id: Some(id.clone()),
        id,
        pk_indexes: Vec::from_iter((!markers.is_empty()).then_some(0)),
        bind_columns: markers,
        conditional: false,
        result: metadata(result),
    }))
}

/// Makes the answer to a read of so many rows.
pub(crate) fn rows_of(columns: Arc<[ColumnSpec]>, row_count: usize, cells: Vec<u8>) -> Response {
    Response::Result(ResultBody::Rows(RowsBody {
        metadata: metadata(Some(columns)),
        row_count,
        cells: cells.into(),
    }))
}

fn metadata(columns: Option<Arc<[ColumnSpec]>>) -> ResultMetadata {
    ResultMetadata {
        column_count: columns.as_ref().map_or(0, |columns| columns.len()),
        columns,
        ..ResultMetadata::default()
    }
}

pub(crate) fn column(keyspace: &str, table: &str, name: &str, ty: ColumnType) -> ColumnSpec {
    ColumnSpec {
        keyspace: keyspace.into(),
        table: table.into(),
        name: name.into(),
        ty,
    }
}

/// Answers a read of a system table.
pub(crate) fn rows(world: &World, node: u16, text: &str) -> Response {
    let lower = text.to_lowercase();
    let Some((list, rest)) = lower
        .strip_prefix("select")
        .and_then(|list| list.split_once(" from "))
    else {
        return Response::Result(ResultBody::Void);
    };
    let table = rest.split_whitespace().next().unwrap_or_default();
    let subjects: Vec<u16> = match table {
        "system.local" => vec![node],
        "system.peers" => (0..world.nodes).filter(|other| *other != node).collect(),
        "system_schema.keyspaces" | "system_schema.tables" => vec![node],
        "system.peers_v2" | "system.client_routes" => return unconfigured(table),
        _ => Vec::new(),
    };
    let names: Vec<&str> = match list.trim() {
        "*" => KNOWN.to_vec(),
        list => list.split(',').map(str::trim).collect(),
    };
    let columns = names
        .iter()
        .map(|name| column("system", "any", name, kind(name)));
    let tables: &[&str] = match table {
        "system_schema.tables" => &["kv", "wide", "blobs"],
        _ => &[""],
    };
    let mut cells = Vec::new();
    let row_count = subjects.len() * tables.len();
    for subject in subjects {
        for table in tables {
            for name in &names {
                match value(world, subject, table, name) {
                    Some(value) => cell(&mut cells, &value),
                    None => cells.extend((-1_i32).to_be_bytes()),
                }
            }
        }
    }
    rows_of(columns.collect(), row_count, cells)
}

fn unconfigured(table: &str) -> Response {
    Response::Error(ServerError {
        code: 0x2200,
        message: format!("unconfigured table {table}"),
        detail: ServerErrorDetail::Invalid,
    })
}

const KNOWN: [&str; 15] = [
    "peer",
    "key",
    "bootstrapped",
    "broadcast_address",
    "cluster_name",
    "cql_version",
    "data_center",
    "host_id",
    "listen_address",
    "partitioner",
    "rack",
    "release_version",
    "rpc_address",
    "schema_version",
    "tokens",
];

const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// The type of a column.
fn kind(name: &str) -> ColumnType {
    let text = ColumnType::Text;
    match name {
        "host_id" | "schema_version" => ColumnType::Uuid,
        "peer" | "rpc_address" | "broadcast_address" | "listen_address" => ColumnType::Inet,
        "native_port" | "rpc_port" | "position" | "initial_tablets" => ColumnType::Int,
        "durable_writes" => ColumnType::Boolean,
        "replication" => ColumnType::Map(Arc::new((text.clone(), text))),
        "tokens" => ColumnType::Set(text.into()),
        "field_names" | "field_types" | "argument_names" | "argument_types" => {
            ColumnType::List(text.into())
        }
        _ => text,
    }
}

fn value(world: &World, node: u16, table: &str, name: &str) -> Option<Vec<u8>> {
    let text = |text: &str| Some(text.as_bytes().to_vec());
    match name {
        "host_id" => Some([&[0x41; 14][..], &node.to_be_bytes()].concat()),
        "schema_version" => Some(vec![0x41; 16]),
        "peer" | "rpc_address" | "broadcast_address" | "listen_address" => {
            Some(world.address(node).octets().to_vec())
        }
        "native_port" | "rpc_port" => Some(i32::from(world.port).to_be_bytes().to_vec()),
        "data_center" => text("dc1"),
        "rack" => text("r1"),
        "partitioner" => text(PARTITIONER),
        "release_version" => text("3.0.8"),
        "cluster_name" => text("free"),
        "key" => text("local"),
        "keyspace_name" => text("bench"),
        "table_name" => text(table),
        "durable_writes" => Some(vec![1]),
        "replication" => {
            let mut map = 2_i32.to_be_bytes().to_vec();
            for part in [
                "class",
                "org.apache.cassandra.locator.NetworkTopologyStrategy",
                "dc1",
                "3",
            ] {
                cell(&mut map, part.as_bytes());
            }
            Some(map)
        }
        "tokens" => Some(tokens(world, node)),
        _ => None,
    }
}

/// The tokens of a node: they lie evenly, and the nodes take turns.
fn tokens(world: &World, node: u16) -> Vec<u8> {
    let (nodes, each) = (u64::from(world.nodes), u64::from(world.tokens));
    let step = u64::MAX / (nodes * each);
    let mut set = i32::from(world.tokens).to_be_bytes().to_vec();
    for turn in 0..each {
        let index = turn * nodes + u64::from(node);
        let token = i64::MIN.wrapping_add_unsigned(index * step + step / 2);
        cell(&mut set, token.to_string().as_bytes());
    }
    set
}
