//! The tables that belong to the server: their shapes, and the rows that a node shows in them. The schema tables are
//! in `system_tables::schema_tables`.

mod rows;
mod schema_tables;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use md5::{Digest, Md5};
use uuid::Uuid;

use super::cql::ast::{Ddl, Statement};
use super::cql::executor::VirtualTables;
use super::cql::parser::parse;
use super::schema::{Keyspace, Schema, Table};
use super::store::TableData;
use super::tracing::Traces;

use rows::{Rows, boolean, inet, int, long, text, text_map, text_set, uuid};

/// What a node knows of itself and the others when it fills its tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemView<'a> {
    pub(crate) cluster_name: &'a str,
    pub(crate) this: &'a NodeFacts,
    pub(crate) peers: &'a [NodeFacts],
    pub(crate) clients: &'a [ClientFacts],
    pub(crate) traces: &'a Traces,
}

/// What the tables say about a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeFacts {
    pub(crate) host_id: Uuid,
    pub(crate) address: IpAddr,
    pub(crate) datacenter: String,
    pub(crate) rack: String,
    pub(crate) tokens: Vec<i64>,
    pub(crate) up: bool,
}

/// What the tables say about a connection.
#[derive(Clone, Debug)]
pub(crate) struct ClientFacts {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) shard: u16,
    pub(crate) stage: &'static str,
    pub(crate) user: String,
    pub(crate) options: Vec<(String, String)>,
}

/// The version of Cassandra that ScyllaDB claims to be compatible with.
const RELEASE_VERSION: &str = "3.0.8";
/// The version of ScyllaDB that is simulated.
const SCYLLA_VERSION: &str = "2026.4.0~dev-0.20260821.f4a4091ca28e";
/// The partitioner of every table.
pub(crate) const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// The CQL version that is spoken.
pub(crate) const CQL_VERSION: &str = "3.3.1";

/// How long a traced request seems to have taken.
const TRACE_MICROS: i32 = 100;
/// What this node knows how to do, of what drivers ask about.
const FEATURES: &str = "CDC,CLIENT_ROUTES,COMPUTED_COLUMNS,CORRECT_COUNTER_ORDER,COUNTERS,DIGEST_FOR_NULL_VALUES,DIGEST_INSENSITIVE_TO_EXPIRY,DIGEST_MULTIPARTITION_READ,GROUP0_SCHEMA_VERSIONING,HINTED_HANDOFF_SEPARATE_CONNECTION,INDEXES,LA_SSTABLE_FORMAT,LARGE_PARTITIONS,LWT,MATERIALIZED_VIEWS,NONFROZEN_UDTS,PER_TABLE_CACHING,PER_TABLE_PARTITIONERS,RANGE_TOMBSTONES,ROLES,ROW_LEVEL_REPAIR,SCHEMA_TABLES_V3,TRUNCATION_TABLE,UUID_SSTABLE_IDENTIFIERS,WRITE_FAILURE_REPLY,XXHASH";

const SYSTEM_TABLES: &str = "
CREATE TABLE system.local (key text PRIMARY KEY, bootstrapped text, broadcast_address inet, cluster_name text,
    cql_version text, data_center text, gossip_generation int, host_id uuid, listen_address inet,
    native_protocol_version text, partitioner text, rack text, release_version text, rpc_address inet,
    schema_version uuid, supported_features text, tokens set<text>, truncated_at map<uuid, blob>);
CREATE TABLE system.peers (peer inet PRIMARY KEY, data_center text, host_id uuid, preferred_ip inet, rack text,
    release_version text, rpc_address inet, schema_version uuid, supported_features text, tokens set<text>);
CREATE TABLE system.versions (key text PRIMARY KEY, build_id text, build_mode text, version text);
CREATE TABLE system.one_row (system$dummy text PRIMARY KEY);
CREATE TABLE system.clients (address inet, port int, client_type text,
    client_options frozen<map<text, text>>, connection_stage text, driver_name text, driver_version text,
    hostname text, protocol_version int, scheduling_group text, shard_id int, ssl_cipher_suite text,
    ssl_enabled boolean, ssl_protocol text, username text, PRIMARY KEY (address, port, client_type));
CREATE TABLE system.client_routes (connection_id text, host_id uuid, address text, alternator_https_port int,
    alternator_port int, port int, tls_port int, PRIMARY KEY (connection_id, host_id));
CREATE TABLE system.cluster_status (peer inet PRIMARY KEY, dc text, draining boolean, excluded boolean, host_id uuid,
    load text, owns float, rack text, status text, tokens int, up boolean);
CREATE TABLE system.scylla_local (key text PRIMARY KEY, value text);
CREATE TABLE system_traces.sessions (session_id uuid PRIMARY KEY, client inet, command text, coordinator inet,
    duration int, parameters map<text, text>, request text, request_size int, response_size int, started_at timestamp,
    username text);
CREATE TABLE system_traces.events (session_id uuid, event_id timeuuid, activity text, scylla_parent_id bigint,
    scylla_span_id bigint, source inet, source_elapsed int, thread text, PRIMARY KEY (session_id, event_id));
";

/// The schema of a cluster that nobody has used yet.
pub(crate) fn fresh_schema() -> Schema {
    let mut schema = Schema::new();
    let replication = |class: &str, factor: Option<&str>| {
        let class = format!("org.apache.cassandra.locator.{class}");
        let mut replication = vec![("class".to_owned(), class)];
        replication.extend(factor.map(|n| ("replication_factor".to_owned(), n.to_owned())));
        replication
    };
    for (name, class, factor) in [
        ("system", "LocalStrategy", None),
        ("system_schema", "LocalStrategy", None),
        ("system_traces", "SimpleStrategy", Some("2")),
    ] {
        let keyspace = Keyspace {
            name: name.into(),
            replication: replication(class, factor),
            durable_writes: true,
            tables: std::collections::BTreeMap::new(),
            types: std::collections::BTreeMap::new(),
            is_system: true,
        };
        schema.keyspaces.insert(name.to_owned(), keyspace);
    }
    let statements = SYSTEM_TABLES
        .split(';')
        .chain(schema_tables::TABLES.split(';'));
    for statement in statements
        .map(str::trim)
        .filter(|statement| !statement.is_empty())
    {
        add_table(&mut schema, statement);
    }
    schema
}

/// Adds a table of the server. The texts are ours, and a test parses all of them.
fn add_table(schema: &mut Schema, statement: &str) {
    let Ok(parsed) = parse(statement) else { return };
    let Statement::Ddl(Ddl::CreateTable(create)) = parsed.statement else {
        return;
    };
    let Some(keyspace) = create
        .table
        .keyspace
        .as_ref()
        .and_then(|name| schema.keyspaces.get_mut(name))
    else {
        return;
    };
    let id = built_in_id(&keyspace.name, &create.table.name);
    if let Ok(mut table) = keyspace.new_table(&create, id) {
        table.is_virtual = true;
        keyspace
            .tables
            .insert(create.table.name.clone(), Arc::new(table));
    }
}

/// The id of a table that every cluster has: a hash of its names.
fn built_in_id(keyspace: &str, table: &str) -> Uuid {
    let mut hash = Md5::new();
    hash.update(keyspace.as_bytes());
    hash.update(table.as_bytes());
    let mut bytes: [u8; 16] = hash.finalize().into();
    bytes[6] = (bytes[6] & 0x0f) | 0x30;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Uuid::from_bytes(bytes)
}

impl VirtualTables for SystemView<'_> {
    fn read(&self, schema: &Schema, table: &Table) -> TableData {
        let mut rows = Rows::new(table);
        match (&*table.keyspace, &*table.name) {
            ("system", "local") => self.local(schema, &mut rows),
            ("system", "peers") => self.peers(schema, &mut rows),
            ("system", "versions") => rows.add(&[
                ("key", text("local")),
                ("build_mode", text("release")),
                ("version", text(SCYLLA_VERSION)),
            ]),
            ("system", "one_row") => rows.add(&[("system$dummy", text("dummy"))]),
            ("system", "clients") => self.clients(&mut rows),
            ("system", "cluster_status") => self.cluster_status(&mut rows),
            ("system_traces", "sessions") => self.trace_sessions(&mut rows),
            ("system_traces", "events") => self.trace_events(&mut rows),
            ("system_schema", _) => schema_tables::fill(schema, table, &mut rows),
            _ => {}
        }
        rows.finish()
    }
}

impl SystemView<'_> {
    fn local(&self, schema: &Schema, rows: &mut Rows<'_>) {
        let this = self.this;
        rows.add(&[
            ("key", text("local")),
            ("bootstrapped", text("COMPLETED")),
            ("broadcast_address", inet(this.address)),
            ("cluster_name", text(self.cluster_name)),
            ("cql_version", text(CQL_VERSION)),
            ("data_center", text(&this.datacenter)),
            ("gossip_generation", int(1)),
            ("host_id", uuid(this.host_id)),
            ("listen_address", inet(this.address)),
            ("native_protocol_version", text("4")),
            ("partitioner", text(PARTITIONER)),
            ("rack", text(&this.rack)),
            ("release_version", text(RELEASE_VERSION)),
            ("rpc_address", inet(this.address)),
            ("schema_version", uuid(schema.version)),
            ("supported_features", text(FEATURES)),
            ("tokens", tokens(this)),
        ]);
    }

    fn peers(&self, schema: &Schema, rows: &mut Rows<'_>) {
        for peer in self.peers {
            rows.add(&[
                ("peer", inet(peer.address)),
                ("data_center", text(&peer.datacenter)),
                ("host_id", uuid(peer.host_id)),
                ("rack", text(&peer.rack)),
                ("release_version", text(RELEASE_VERSION)),
                ("rpc_address", inet(peer.address)),
                ("schema_version", uuid(schema.version)),
                ("supported_features", text(FEATURES)),
                ("tokens", tokens(peer)),
            ]);
        }
    }

    fn clients(&self, rows: &mut Rows<'_>) {
        for client in self.clients {
            let option = |key: &str| {
                client
                    .options
                    .iter()
                    .find(|(name, _)| name == key)
                    .and_then(|(_, value)| text(value))
            };
            rows.add(&[
                ("address", inet(client.address)),
                ("port", int(i32::from(client.port))),
                ("client_type", text("cql")),
                ("client_options", text_map(&client.options)),
                ("connection_stage", text(client.stage)),
                ("driver_name", option("DRIVER_NAME")),
                ("driver_version", option("DRIVER_VERSION")),
                ("protocol_version", int(4)),
                ("scheduling_group", text("sl:default")),
                ("shard_id", int(i32::from(client.shard))),
                ("ssl_enabled", boolean(false)),
                ("username", text(&client.user)),
            ]);
        }
    }

    fn trace_sessions(&self, rows: &mut Rows<'_>) {
        for trace in self.traces.iter() {
            rows.add(&[
                ("session_id", uuid(trace.id)),
                ("client", inet(trace.client)),
                ("command", text("QUERY")),
                ("coordinator", inet(trace.coordinator)),
                ("duration", int(TRACE_MICROS)),
                ("parameters", text_map(&[])),
                ("request", text(trace.request)),
                ("started_at", long(trace.started_at.div_euclid(1000))),
                ("username", text(&trace.user)),
            ]);
        }
    }

    fn trace_events(&self, rows: &mut Rows<'_>) {
        for trace in self.traces.iter() {
            rows.add(&[
                ("session_id", uuid(trace.id)),
                ("event_id", uuid(trace.event_id)),
                ("activity", text("Done processing - preparing a result")),
                ("scylla_parent_id", long(0)),
                ("scylla_span_id", long(1)),
                ("source", inet(trace.coordinator)),
                ("source_elapsed", int(TRACE_MICROS)),
                ("thread", text(&format!("shard {}", trace.shard))),
            ]);
        }
    }

    fn cluster_status(&self, rows: &mut Rows<'_>) {
        for node in self.peers.iter().chain(std::iter::once(self.this)) {
            rows.add(&[
                ("peer", inet(node.address)),
                ("dc", text(&node.datacenter)),
                ("draining", boolean(false)),
                ("excluded", boolean(false)),
                ("host_id", uuid(node.host_id)),
                ("rack", text(&node.rack)),
                ("status", text("NORMAL")),
                (
                    "tokens",
                    int(i32::try_from(node.tokens.len()).unwrap_or(i32::MAX)),
                ),
                ("up", boolean(node.up)),
            ]);
        }
    }
}

fn tokens(node: &NodeFacts) -> Option<Bytes> {
    let tokens: Vec<String> = node.tokens.iter().map(i64::to_string).collect();
    text_set(&tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_the_server_is_in_the_schema_under_its_well_known_id() {
        let schema = fresh_schema();
        for (keyspace, table, id) in [
            ("system", "local", "7ad54392-bcdd-35a6-8417-4e047860b377"),
            ("system", "peers", "37f71aca-7dc2-383b-a706-72528af04d4f"),
            ("system", "clients", "ca0f635d-8630-3609-8d93-a1fc06f2a5e5"),
            (
                "system",
                "client_routes",
                "387c67d8-f449-3e36-a59c-a61e4e2df25e",
            ),
            ("system", "versions", "8b5611ad-b90c-3883-855a-bcc6ddc54f33"),
            (
                "system_schema",
                "keyspaces",
                "abac5682-dea6-31c5-b535-b3d6cffd0fb6",
            ),
            (
                "system_schema",
                "scylla_keyspaces",
                "fa0ea2bd-608f-3e74-9b1e-b84b46b33adf",
            ),
            (
                "system_schema",
                "tables",
                "afddfb9d-bc1e-3068-8056-eed6c302ba09",
            ),
            (
                "system_schema",
                "scylla_tables",
                "5d912ff1-f759-3665-b2c8-8042ab5103dd",
            ),
            (
                "system_schema",
                "columns",
                "24101c25-a2ae-3af7-87c1-b40ee1aca33f",
            ),
            (
                "system_schema",
                "types",
                "5a8b1ca8-6602-3f77-a045-9273d308917a",
            ),
            (
                "system_schema",
                "views",
                "9786ac1c-dd58-3201-a7cd-ad556410c985",
            ),
            (
                "system_schema",
                "indexes",
                "0feb57ac-311f-382f-ba6d-9024d305702f",
            ),
            (
                "system_schema",
                "functions",
                "96489b79-80be-3e14-a701-66a0b9159450",
            ),
            (
                "system_schema",
                "aggregates",
                "924c5587-2e3a-345b-b10c-12f37c1ba895",
            ),
        ] {
            let found = schema.keyspaces[keyspace]
                .tables
                .get(table)
                .map(|table| table.id);
            assert_eq!(found, Some(id.parse().unwrap()), "{keyspace}.{table}");
        }
        let statements = SYSTEM_TABLES.matches("CREATE TABLE").count()
            + schema_tables::TABLES.matches("CREATE TABLE").count();
        let tables: usize = schema
            .keyspaces
            .values()
            .map(|keyspace| keyspace.tables.len())
            .sum();
        assert_eq!(tables, statements);
    }
}
