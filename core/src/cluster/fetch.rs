//! Owns the reads of the system tables: their texts, and how their rows become plain facts.
//! What the facts mean for topology and schema is decided elsewhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::error::protocol::ProtocolError;
use crate::routing::{Strategy, Token};
use crate::types::column_type::ColumnType;
use crate::wire::{ColumnSpec, Consistency, Params, Reader, Request, RowsBody};

/// A system table that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SystemTable {
    Local,
    /// Of `local` only the version of the schema.
    LocalVersion,
    /// Cassandra 4 and later: addresses with ports.
    PeersV2,
    Peers,
    Keyspaces,
    Tables,
    Views,
    /// ScyllaDB: what Cassandra has no column for.
    ScyllaTables,
}

impl SystemTable {
    /// The tables that the members come from; the second one depends on the server.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Local | Self::LocalVersion => "system.local",
            Self::PeersV2 => "system.peers_v2",
            Self::Peers => "system.peers",
            Self::Keyspaces => "system_schema.keyspaces",
            Self::Tables => "system_schema.tables",
            Self::Views => "system_schema.views",
            Self::ScyllaTables => "system_schema.scylla_tables",
        }
    }

    const fn columns(self) -> &'static str {
        match self {
            // Servers differ in the columns they have, and naming one that is missing is an error.
            Self::Local | Self::PeersV2 | Self::Peers => "*",
            Self::LocalVersion => "key, schema_version",
            Self::Keyspaces => "keyspace_name, replication",
            Self::Tables => "keyspace_name, table_name",
            Self::Views => "keyspace_name, view_name",
            Self::ScyllaTables => "keyspace_name, table_name, partitioner",
        }
    }

    /// The columns without which a reply is of no use.
    const fn required(self) -> &'static [&'static str] {
        match self {
            Self::Local | Self::LocalVersion => &["key"],
            Self::PeersV2 | Self::Peers => &["peer", "host_id"],
            Self::Keyspaces => &["keyspace_name", "replication"],
            Self::Tables => &["keyspace_name", "table_name"],
            Self::Views => &["keyspace_name", "view_name"],
            Self::ScyllaTables => &["keyspace_name", "table_name", "partitioner"],
        }
    }

    /// Whether a server without this table is as good as one where it is empty.
    pub(super) const fn optional(self) -> bool {
        matches!(self, Self::Views | Self::ScyllaTables)
    }

    /// The text of the read, of one keyspace only where one is given.
    pub(super) fn select(self, keyspace: Option<&str>, server_timeout: Option<Duration>) -> String {
        let mut text = format!("SELECT {} FROM {}", self.columns(), self.name());
        if matches!(self, Self::Local | Self::LocalVersion) {
            text.push_str(" WHERE key='local'");
        }
        if let Some(keyspace) = keyspace {
            text.push_str(" WHERE keyspace_name='");
            text.push_str(&keyspace.replace('\'', "''"));
            text.push('\'');
        }
        if let Some(timeout) = server_timeout {
            // A time-out of zero would make the server fail at once.
            text.push_str(&format!(" USING TIMEOUT {}ms", timeout.as_millis().max(1)));
        }
        text
    }
}

/// Makes the request for one page of a read.
pub(super) fn page_request(text: String, paging_state: Option<bytes::Bytes>) -> Request {
    let params = Params {
        // The tables of a node are its own; no other replica has them.
        consistency: Consistency::One,
        page_size: Some(PAGE_SIZE),
        paging_state,
        ..Params::default()
    };
    Request::Query { text, params }
}

/// Rows of a few hundred bytes make pages that are small for both sides.
const PAGE_SIZE: i32 = 5_000;

/// Why a reply cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadReply {
    Protocol(ProtocolError),
    MissingColumn(&'static str),
}

/// Hands each row of a page to `each`.
pub(super) fn for_each_row(
    table: SystemTable,
    body: &RowsBody,
    mut each: impl FnMut(&Row<'_>),
) -> Result<(), BadReply> {
    let columns = body.metadata.columns.as_deref().unwrap_or(&[]);
    for name in table.required() {
        if !columns.iter().any(|column| &*column.name == *name) {
            return Err(BadReply::MissingColumn(name));
        }
    }
    let mut reader = Reader::of_bytes(&body.cells);
    let mut row = Row {
        columns,
        cells: Vec::with_capacity(columns.len()),
    };
    for _ in 0..body.row_count {
        row.cells.clear();
        for _ in columns {
            row.cells.push(reader.bytes().map_err(BadReply::Protocol)?);
        }
        each(&row);
    }
    Ok(())
}

/// One row of a system table; a cell of another type than expected reads as null.
pub(super) struct Row<'a> {
    columns: &'a [ColumnSpec],
    cells: Vec<Option<&'a [u8]>>,
}

impl<'a> Row<'a> {
    fn cell(&self, name: &str, fits: impl FnOnce(&ColumnType) -> bool) -> Option<&'a [u8]> {
        let at = self
            .columns
            .iter()
            .position(|column| &*column.name == name)?;
        if fits(&self.columns.get(at)?.ty) {
            *self.cells.get(at)?
        } else {
            None
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.cell(name, is_text)?).ok()
    }

    pub(super) fn uuid(&self, name: &str) -> Option<Uuid> {
        let uuid = |ty: &ColumnType| matches!(ty, ColumnType::Uuid | ColumnType::Timeuuid);
        Uuid::from_slice(self.cell(name, uuid)?).ok()
    }

    pub(super) fn ip(&self, name: &str) -> Option<IpAddr> {
        let cell = self.cell(name, |ty| matches!(ty, ColumnType::Inet))?;
        if let Ok(four) = <[u8; 4]>::try_from(cell) {
            return Some(IpAddr::V4(Ipv4Addr::from(four)));
        }
        <[u8; 16]>::try_from(cell)
            .ok()
            .map(|sixteen| IpAddr::V6(Ipv6Addr::from(sixteen)))
    }

    /// Reads a port; numbers that are none read as null.
    pub(super) fn port(&self, name: &str) -> Option<u16> {
        let cell = self.cell(name, |ty| matches!(ty, ColumnType::Int))?;
        let number = i32::from_be_bytes(cell.try_into().ok()?);
        u16::try_from(number).ok().filter(|port| *port != 0)
    }

    /// Reads a set or list of texts.
    pub(super) fn texts(&self, name: &str) -> Option<Vec<&'a str>> {
        let texts = |ty: &ColumnType| match ty {
            ColumnType::Set(element) | ColumnType::List(element) => is_text(element),
            _ => false,
        };
        let mut reader = Reader::new(self.cell(name, texts)?);
        let count = reader.int_count(4).ok()?;
        (0..count).map(|_| text_of(&mut reader)).collect()
    }

    /// Reads a map of texts.
    pub(super) fn text_map(&self, name: &str) -> Option<Vec<(&'a str, &'a str)>> {
        let texts = |ty: &ColumnType| match ty {
            ColumnType::Map(types) => is_text(&types.0) && is_text(&types.1),
            _ => false,
        };
        let mut reader = Reader::new(self.cell(name, texts)?);
        let count = reader.int_count(8).ok()?;
        (0..count)
            .map(|_| Some((text_of(&mut reader)?, text_of(&mut reader)?)))
            .collect()
    }
}

fn is_text(ty: &ColumnType) -> bool {
    matches!(ty, ColumnType::Ascii | ColumnType::Text)
}

fn text_of<'a>(reader: &mut Reader<'a>) -> Option<&'a str> {
    std::str::from_utf8(reader.bytes().ok()??).ok()
}

/// What a row of `local` or of a peers table says of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeRow {
    pub(super) host_id: Option<Uuid>,
    /// The address between nodes, which events name.
    pub(super) broadcast: Option<IpAddr>,
    /// The address for clients.
    pub(super) client: Option<IpAddr>,
    pub(super) port: Option<u16>,
    pub(super) datacenter: Option<Arc<str>>,
    pub(super) rack: Option<Arc<str>>,
    pub(super) release_version: Option<Arc<str>>,
    pub(super) schema_version: Option<Uuid>,
    pub(super) tokens: Tokens,
    /// The class of the cluster's partitioner; only `local` has it.
    pub(super) partitioner: Option<Arc<str>>,
    /// The name of the cluster; only `local` has it.
    pub(super) cluster_name: Option<Arc<str>>,
}

/// What a row says of the tokens of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Tokens {
    /// The node has none.
    #[default]
    None,
    Some(Arc<[Token]>),
    /// Not numbers of 64 bits: of another partitioner, or damaged.
    Unreadable,
    TooMany,
}

impl NodeRow {
    pub(super) fn read(table: SystemTable, row: &Row<'_>) -> Self {
        let (broadcast, client, port) = match table {
            SystemTable::Local => ("broadcast_address", "rpc_address", "rpc_port"),
            SystemTable::PeersV2 => ("peer", "native_address", "native_port"),
            _ => ("peer", "rpc_address", "rpc_port"),
        };
        let shared = |name| row.text(name).map(Arc::from);
        Self {
            host_id: row.uuid("host_id").filter(|id| !id.is_nil()),
            broadcast: row.ip(broadcast),
            client: row.ip(client),
            port: row.port(port),
            datacenter: shared("data_center"),
            rack: shared("rack"),
            release_version: shared("release_version"),
            schema_version: row.uuid("schema_version"),
            tokens: Tokens::read(row),
            partitioner: shared("partitioner"),
            cluster_name: shared("cluster_name"),
        }
    }
}

impl Tokens {
    fn read(row: &Row<'_>) -> Self {
        let Some(texts) = row.texts("tokens") else {
            return Self::None;
        };
        if TOKENS_MAX < texts.len() {
            return Self::TooMany;
        }
        if texts.is_empty() {
            return Self::None;
        }
        let tokens: Result<Arc<[Token]>, _> =
            texts.iter().map(|text| text.parse().map(Token)).collect();
        tokens.map_or(Self::Unreadable, Self::Some)
    }
}

/// Servers are set up with 16 or 256 tokens; more than this is no ring but an attempt to exhaust us.
const TOKENS_MAX: usize = 8_192;

/// What the rows of the schema tables say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SchemaRows {
    pub(super) keyspaces: Vec<(Arc<str>, Strategy)>,
    /// Tables and views, by keyspace and name.
    pub(super) tables: Vec<(Arc<str>, Arc<str>)>,
    /// Tables with a partitioner of their own: keyspace, name, class.
    pub(super) partitioners: Vec<(Arc<str>, Arc<str>, Arc<str>)>,
}

impl SchemaRows {
    /// Adds a row; says what is wrong with one that cannot be used.
    pub(super) fn add(&mut self, table: SystemTable, row: &Row<'_>) -> Result<(), &'static str> {
        if SCHEMA_ROWS_MAX <= self.keyspaces.len() + self.tables.len() + self.partitioners.len() {
            return Err("there are too many rows");
        }
        let keyspace: Arc<str> = row
            .text("keyspace_name")
            .ok_or("the name of the keyspace is missing")?
            .into();
        if table == SystemTable::Keyspaces {
            let options = row.text_map("replication").unwrap_or_default();
            self.keyspaces
                .push((keyspace, Strategy::from_options(options)));
            return Ok(());
        }
        let column = if table == SystemTable::Views {
            "view_name"
        } else {
            "table_name"
        };
        let name: Arc<str> = row
            .text(column)
            .ok_or("the name of the table is missing")?
            .into();
        if table == SystemTable::ScyllaTables {
            if let Some(class) = row.text("partitioner") {
                self.partitioners.push((keyspace, name, class.into()));
            }
            return Ok(());
        }
        self.tables.push((keyspace, name));
        Ok(())
    }
}

/// Far beyond any schema a cluster can carry.
const SCHEMA_ROWS_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_one_keyspace_cannot_be_escaped_from() {
        let text = SystemTable::Tables.select(Some("a' OR 'b"), None);
        assert!(text.ends_with("WHERE keyspace_name='a'' OR ''b'"), "{text}");
    }

    #[test]
    fn the_server_side_timeout_comes_last_and_is_never_zero() {
        let text = SystemTable::Local.select(None, Some(Duration::from_secs(2)));
        assert_eq!(
            text,
            "SELECT * FROM system.local WHERE key='local' USING TIMEOUT 2000ms"
        );
        let text = SystemTable::Peers.select(None, Some(Duration::from_micros(1)));
        assert_eq!(text, "SELECT * FROM system.peers USING TIMEOUT 1ms");
    }

    fn row<'a>(columns: &'a [ColumnSpec], cells: &[Option<&'a [u8]>]) -> Row<'a> {
        Row {
            columns,
            cells: cells.to_vec(),
        }
    }

    fn column(name: &str, ty: ColumnType) -> ColumnSpec {
        ColumnSpec {
            keyspace: "system".into(),
            table: "t".into(),
            name: name.into(),
            ty,
        }
    }

    #[test]
    fn cells_of_a_wrong_type_or_length_read_as_null() {
        let texts = ColumnType::Set(Arc::new(ColumnType::Text));
        let columns = [
            column("a", ColumnType::Int),
            column("b", ColumnType::Uuid),
            column("c", ColumnType::Inet),
            column("d", texts),
            column("e", ColumnType::Text),
        ];
        let garbage: &[u8] = &[0xff, 0xfe, 0xfd, 0xfc, 0xfb];
        let row = row(&columns, &[Some(garbage); 5]);
        assert_eq!(row.port("a"), None);
        assert_eq!(row.uuid("b"), None);
        assert_eq!(row.ip("c"), None);
        assert_eq!(row.texts("d"), None);
        assert_eq!(row.text("e"), None);
        assert_eq!(row.text("a"), None);
        assert_eq!(row.text("missing"), None);
    }

    #[test]
    fn a_set_of_tokens_is_read_or_called_unreadable() {
        let columns = [column(
            "tokens",
            ColumnType::Set(Arc::new(ColumnType::Text)),
        )];
        let set = |texts: &[&str]| {
            let mut cell = u32::try_from(texts.len())
                .expect("few")
                .to_be_bytes()
                .to_vec();
            for text in texts {
                cell.extend(u32::try_from(text.len()).expect("short").to_be_bytes());
                cell.extend(text.as_bytes());
            }
            cell
        };
        let read = |cell: &[u8]| Tokens::read(&row(&columns, &[Some(cell)]));
        assert_eq!(
            read(&set(&["-5", "7"])),
            Tokens::Some([Token(-5), Token(7)].into())
        );
        assert_eq!(read(&set(&["7", "abc"])), Tokens::Unreadable);
        assert_eq!(read(&set(&[])), Tokens::None);
        assert_eq!(read(&set(&["1"; TOKENS_MAX + 1])), Tokens::TooMany);
        assert_eq!(Tokens::read(&row(&columns, &[None])), Tokens::None);
    }
}
