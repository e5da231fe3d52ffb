//! A control plane with a pretended cluster of plain rows, and no sockets: whoever is dialled answers at once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use messina_core::cluster::{ControlOutput, ControlPlane};
use messina_core::config::connection::ConnectionConfig;
use messina_core::config::session::SessionConfig;
use messina_core::conn::{Address, ConnectionInfo, ConnectionPlan};
use messina_core::routing::{Routing, Shard};
use messina_core::seed::Seed;
use messina_core::types::column_type::ColumnType;
use messina_core::uuid::Uuid;
use messina_core::wire::{
    ColumnSpec, Envelope, FrameHeader, ProtocolFeatures, ProtocolVersion, Request, Response,
    ResponseFrame, ResultBody, ResultMetadata, RowsBody, ShardInfo,
};

/// A control plane whose cluster has so many hosts, with so many tokens each, all in one datacenter of three racks.
pub(crate) struct World {
    pub(crate) plane: ControlPlane<u32>,
    pub(crate) now: Instant,
    answers: Answers,
    /// How many shards each host has; none without.
    shards: Option<NonZeroU16>,
    /// How many connections each address has had, which choose shards by turns.
    landed: BTreeMap<Address, u16>,
    handles: u32,
    pub(crate) published: u32,
    /// How the connections were to be opened.
    pub(crate) plans: Vec<ConnectionPlan>,
}

/// The answers of the cluster by table, made once, so that reading them again costs nothing but the reading.
pub(crate) struct Answers {
    local: ResponseFrame,
    peers: ResponseFrame,
    keyspaces: ResponseFrame,
    tables: ResponseFrame,
    nothing: ResponseFrame,
}

impl Answers {
    pub(crate) fn new(hosts: u16, tokens: u16) -> Self {
        let rows = |nodes: Range<u16>| {
            nodes
                .map(|node| node_row(node, hosts, tokens))
                .collect::<Vec<_>>()
        };
        Self {
            local: frame(&node_columns(), &rows(0..1)),
            peers: frame(&node_columns(), &rows(1..hosts)),
            keyspaces: frame(
                &[
                    ("keyspace_name", TEXT),
                    ("replication", ColumnType::Map((TEXT, TEXT).into())),
                ],
                &[vec![text("bench"), replication()]],
            ),
            tables: frame(
                &[("keyspace_name", TEXT), ("table_name", TEXT)],
                &[vec![text("bench"), text("kv")]],
            ),
            nothing: frame(
                &["keyspace_name", "table_name", "view_name", "partitioner"]
                    .map(|name| (name, TEXT)),
                &[],
            ),
        }
    }
}

impl World {
    pub(crate) fn new(answers: Answers, shards: u16) -> Self {
        let config = SessionConfig {
            contact_points: vec!["127.0.0.1:9042".parse().expect("a contact point")],
            local_datacenter: Some("dc1".into()),
            connection: ConnectionConfig {
                version: Some(ProtocolVersion::V4),
                ..ConnectionConfig::default()
            },
            ..SessionConfig::default()
        };
        let now = Instant::now();
        let mut world = Self {
            plane: ControlPlane::new(now, Arc::new(config), Seed::from_u64(1)),
            now,
            answers,
            shards: NonZeroU16::new(shards),
            landed: BTreeMap::new(),
            handles: 0,
            published: 0,
            plans: Vec::new(),
        };
        world.settle();
        world
    }

    pub(crate) fn routing(&self) -> &Arc<Routing<u32>> {
        self.plane.routing()
    }

    /// Reads the members and the schema again.
    pub(crate) fn refresh(&mut self) {
        self.plane.refresh(self.now);
        self.settle();
    }

    /// Answers and lets time pass until the plane has nothing more to ask.
    fn settle(&mut self) {
        for _ in 0..20 {
            self.answer_all();
            self.now += Duration::from_secs(1);
            self.plane.handle_timeout(self.now);
        }
        self.answer_all();
    }

    fn answer_all(&mut self) {
        while let Some(output) = self.plane.poll_output() {
            match output {
                ControlOutput::Connect { conn, spec, plan } => {
                    self.handles += 1;
                    self.plans.push(*plan);
                    let info = ConnectionInfo {
                        shard: self.land(&spec.address),
                        address: spec.address,
                        features: ProtocolFeatures::default(),
                        host_id: None,
                    };
                    self.plane
                        .handle_connected(self.now, conn, info, self.handles);
                }
                ControlOutput::Submit {
                    conn,
                    query,
                    request,
                    ..
                } => {
                    let reply = self.answer(&request);
                    self.plane.handle_reply(self.now, conn, query, Ok(reply));
                }
                ControlOutput::Resolve { id, port, .. } => {
                    let found = Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]);
                    self.plane.handle_resolved(self.now, id, found);
                }
                ControlOutput::Publish(_) => self.published += 1,
                ControlOutput::Fatal(error) => panic!("{error}"),
                _ => (),
            }
        }
    }

    /// Gives the connections of a host its shards by turns.
    fn land(&mut self, address: &Address) -> Option<ShardInfo> {
        let shards = self.shards?;
        let turn = self.landed.entry(address.clone()).or_default();
        let shard = Shard(*turn % shards);
        *turn += 1;
        Some(ShardInfo {
            shard,
            shards,
            ignore_msb: 12,
            port: None,
            tls_port: None,
        })
    }

    fn answer(&self, request: &Request) -> ResponseFrame {
        let Request::Query { text, .. } = request else {
            panic!("{request:?}");
        };
        let table = text
            .split(" FROM ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        match table {
            Some("system.local") => self.answers.local.clone(),
            Some("system.peers" | "system.peers_v2") => self.answers.peers.clone(),
            Some("system_schema.keyspaces") => self.answers.keyspaces.clone(),
            Some("system_schema.tables") => self.answers.tables.clone(),
            _ => self.answers.nothing.clone(),
        }
    }
}

const TEXT: ColumnType = ColumnType::Text;
const UUID: ColumnType = ColumnType::Uuid;
const INET: ColumnType = ColumnType::Inet;

type Column = (&'static str, ColumnType);

/// The columns of both tables of nodes: each finds its own names among them.
fn node_columns() -> [Column; 14] {
    [
        ("key", TEXT),
        ("peer", INET),
        ("broadcast_address", INET),
        ("rpc_address", INET),
        ("native_address", INET),
        ("native_port", ColumnType::Int),
        ("host_id", UUID),
        ("data_center", TEXT),
        ("rack", TEXT),
        ("tokens", ColumnType::Set(TEXT.into())),
        ("schema_version", UUID),
        ("release_version", TEXT),
        ("partitioner", TEXT),
        ("cluster_name", TEXT),
    ]
}

fn node_row(node: u16, hosts: u16, tokens: u16) -> Vec<Vec<u8>> {
    let [high, low] = (node / 250).to_be_bytes();
    let address = vec![127, high, low, u8::try_from(node % 250).expect("small") + 1];
    let id = Uuid::from_u128(u128::from(node) + 1).as_bytes().to_vec();
    vec![
        text("local"),
        address.clone(),
        address.clone(),
        address.clone(),
        address,
        9042_i32.to_be_bytes().to_vec(),
        id,
        text("dc1"),
        text(["r1", "r2", "r3"][usize::from(node % 3)]),
        token_set(node, hosts, tokens),
        vec![0x41; 16],
        text("5.0.6"),
        text("org.apache.cassandra.dht.Murmur3Partitioner"),
        text("pretended"),
    ]
}

/// The tokens lie evenly, and which node owns one looks random, as in a cluster with vnodes.
fn token_set(node: u16, hosts: u16, tokens: u16) -> Vec<u8> {
    let (hosts, each) = (u64::from(hosts), u64::from(tokens));
    let step = u64::MAX / (hosts * each);
    let mut set = i32::from(tokens).to_be_bytes().to_vec();
    let mut stride = 1;
    for turn in 0..each {
        // The stride has no factor in common with a thousand: every place of a turn has one owner, and with each turn
        // the neighbours change.
        let place = (u64::from(node) * stride + 7 * turn) % hosts;
        stride += if stride % 5 == 3 { 4 } else { 2 };
        let token = i64::MIN.wrapping_add_unsigned((turn * hosts + place) * step);
        bytes(&mut set, token.to_string().as_bytes());
    }
    set
}

fn replication() -> Vec<u8> {
    let mut map = 2_i32.to_be_bytes().to_vec();
    for part in [
        "class",
        "org.apache.cassandra.locator.NetworkTopologyStrategy",
        "dc1",
        "3",
    ] {
        bytes(&mut map, part.as_bytes());
    }
    map
}

fn text(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn bytes(out: &mut Vec<u8>, value: &[u8]) {
    out.extend(i32::try_from(value.len()).expect("short").to_be_bytes());
    out.extend(value);
}

fn frame(columns: &[Column], rows: &[Vec<Vec<u8>>]) -> ResponseFrame {
    let column = |(name, ty): &Column| ColumnSpec {
        keyspace: "system".into(),
        table: "any".into(),
        name: (*name).into(),
        ty: ty.clone(),
    };
    let metadata = ResultMetadata {
        column_count: columns.len(),
        columns: Some(columns.iter().map(column).collect()),
        ..ResultMetadata::default()
    };
    let mut cells = Vec::new();
    for cell in rows.iter().flatten() {
        bytes(&mut cells, cell);
    }
    let rows = RowsBody {
        metadata,
        row_count: rows.len(),
        cells: cells.into(),
    };
    let mut whole = Vec::new();
    Envelope::from(Response::Result(ResultBody::Rows(rows)))
        .encode(&mut whole, &ProtocolFeatures::default(), 1)
        .expect("few short parts");
    let (head, body) = whole.split_first_chunk().expect("a header");
    ResponseFrame {
        header: FrameHeader::parse(head).expect("our own header"),
        body: Bytes::copy_from_slice(body),
    }
}
