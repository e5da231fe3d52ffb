//! What drivers ask a server about itself: SUPPORTED, the members of the cluster, the keyspace and its tables. Everything
//! that is not asked by the drivers in this bench is empty.

use super::World;

pub(crate) fn int(value: i32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

pub(crate) fn short(value: u16) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    out.extend(short(text.len() as u16));
    out.extend(text.as_bytes());
}

pub(crate) fn cell(out: &mut Vec<u8>, value: &[u8]) {
    out.extend(int(value.len() as i32));
    out.extend(value);
}

pub(crate) fn long_string(body: &[u8]) -> String {
    let len = u32::from_be_bytes([body[0], body[1], body[2], body[3]]) as usize;
    String::from_utf8_lossy(&body[4..4 + len]).into_owned()
}

pub(crate) fn supported(world: &World, shard: u16) -> Vec<u8> {
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
    let mut out = short(options.len() as u16);
    for (name, value) in options {
        string(&mut out, name);
        out.extend(short(u16::from(!value.is_empty())));
        if !value.is_empty() {
            string(&mut out, value);
        }
    }
    out
}

/// Answers the PREPARE of a read of a system table: no markers, and the columns that the read gives.
pub(crate) fn statement(
    world: &World,
    node: u16,
    text: &str,
    has_metadata_id: bool,
) -> (u8, Vec<u8>) {
    let (opcode, answer) = rows(world, node, text);
    if opcode != 8 {
        return (opcode, answer);
    }
    let mut id = text.as_bytes().to_vec();
    id.truncate(16);
    id.resize(16, b' ');
    let mut out = int(4);
    let ids = if has_metadata_id { 2 } else { 1 };
    for _ in 0..ids {
        out.extend(short(16));
        out.extend(&id);
    }
    out.extend([int(4), int(0), int(0), int(4), int(0)].concat());
    (8, out)
}

/// Answers a read of a system table.
pub(crate) fn rows(world: &World, node: u16, text: &str) -> (u8, Vec<u8>) {
    let lower = text.to_lowercase();
    let Some((list, rest)) = lower
        .strip_prefix("select")
        .and_then(|list| list.split_once(" from "))
    else {
        return (8, int(1));
    };
    let table = rest.split_whitespace().next().unwrap_or_default();
    let subjects: Vec<u16> = match table {
        "system.local" => vec![node],
        "system.peers" => (0..world.nodes).filter(|other| *other != node).collect(),
        "system_schema.keyspaces" | "system_schema.tables" => vec![node],
        "system.peers_v2" | "system.client_routes" => return (0, unconfigured(table)),
        _ => Vec::new(),
    };
    let names: Vec<&str> = match list.trim() {
        "*" => KNOWN.to_vec(),
        list => list.split(',').map(str::trim).collect(),
    };
    let mut out = int(2);
    out.extend(int(1));
    out.extend(int(names.len() as i32));
    string(&mut out, "system");
    string(&mut out, "any");
    for name in &names {
        string(&mut out, name);
        out.extend(kind(name));
    }
    let tables: &[&str] = match table {
        "system_schema.tables" => &["kv", "wide", "blobs"],
        _ => &[""],
    };
    out.extend(int((subjects.len() * tables.len()) as i32));
    for subject in subjects {
        for table in tables {
            for name in &names {
                match value(world, subject, table, name) {
                    Some(value) => cell(&mut out, &value),
                    None => out.extend(int(-1)),
                }
            }
        }
    }
    (8, out)
}

fn unconfigured(table: &str) -> Vec<u8> {
    let mut out = int(0x2200);
    string(&mut out, &format!("unconfigured table {table}"));
    out
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

/// The type of a column, as metadata tells it.
fn kind(name: &str) -> Vec<u8> {
    let shorts: &[u16] = match name {
        "host_id" | "schema_version" => &[12],
        "peer" | "rpc_address" | "broadcast_address" | "listen_address" => &[16],
        "native_port" | "rpc_port" | "position" | "initial_tablets" => &[9],
        "durable_writes" => &[4],
        "replication" => &[0x21, 13, 13],
        "tokens" => &[0x22, 13],
        "field_names" | "field_types" | "argument_names" | "argument_types" => &[0x20, 13],
        _ => &[13],
    };
    shorts.iter().flat_map(|part| part.to_be_bytes()).collect()
}

fn value(world: &World, node: u16, table: &str, name: &str) -> Option<Vec<u8>> {
    let text = |text: &str| Some(text.as_bytes().to_vec());
    match name {
        "host_id" => Some([&[0x41; 14][..], &node.to_be_bytes()].concat()),
        "schema_version" => Some(vec![0x41; 16]),
        "peer" | "rpc_address" | "broadcast_address" | "listen_address" => {
            Some(world.address(node).octets().to_vec())
        }
        "native_port" | "rpc_port" => Some(int(i32::from(world.port))),
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
            let mut map = int(2);
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
    let mut set = int(i32::from(world.tokens));
    for turn in 0..each {
        let index = turn * nodes + u64::from(node);
        let token = i64::MIN.wrapping_add_unsigned(index * step + step / 2);
        cell(&mut set, token.to_string().as_bytes());
    }
    set
}
