//! Owns the reads over the control connection: when the members and the schema are read, page by page, and what
//! happens to a reply that cannot be used. The last good picture stays until a better one is complete.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::conns::Purpose;
use super::fetch::{BadReply, NodeRow, SchemaRows, SystemTable, for_each_row, page_request};
use super::schema::Scope;
use super::session::{READ_FAILURES_MAX, Stage};
use super::timers::Timer;
use super::{ConnId, ControlPlane};
use crate::error::connect::{AttemptError, AttemptErrorKind};
use crate::error::session::NodeCause;
use crate::notify::{ClusterEvent, Note};
use crate::wire::{Response, ResponseFrame, ResultBody, RowsBody, ServerError, ServerErrorDetail};

/// What a read is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Topology,
    Schema,
    Agreement,
}

/// One read of one table, as far as it is.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) part: Part,
    pub(super) table: SystemTable,
    pub(super) keyspace: Option<Arc<str>>,
    /// Whether it tells the server how long it may work.
    bounded: bool,
    pages: u32,
}

/// When and what of the members is read.
#[derive(Clone, Debug, Default)]
pub(super) struct TopologyRefresh {
    pub(super) dirty: bool,
    reading: Option<NodesRead>,
}

/// The rows of one look at the nodes, complete when none is pending.
#[derive(Clone, Debug, Default)]
pub(super) struct NodesRead {
    pub(super) pending: usize,
    pub(super) local: Option<NodeRow>,
    pub(super) peers: Vec<NodeRow>,
}

/// When and what of the schema is read.
#[derive(Clone, Debug, Default)]
pub(super) struct SchemaRefresh {
    dirty: Scope,
    reading: Option<SchemaRead>,
    /// Whether a first read ended, well or not.
    pub(super) attempted: bool,
    failures: u32,
}

#[derive(Clone, Debug)]
struct SchemaRead {
    scope: Scope,
    pending: usize,
    rows: SchemaRows,
    skipped: Vec<&'static str>,
}

/// A server that always has one more page would keep us reading for ever.
const PAGES_MAX: u32 = 10_000;
/// The members of the largest clusters are far fewer.
const PEERS_MAX: usize = 65_536;
/// While the picture of the members is known to be wrong, hosts cannot be reached.
const DOUBT_DELAY_MAX: Duration = Duration::from_secs(1);
/// A table full of damaged rows is worth a few lines, not one for each row.
pub(super) const SKIPPED_NOTES_MAX: usize = 16;

impl<H: Clone> ControlPlane<H> {
    /// Wants the members read again after `delay`, or sooner if that was planned.
    pub(super) fn topology_dirty(&mut self, delay: Duration) {
        self.topology.dirty = true;
        if self.link().is_some() {
            self.timers.set_earlier(Timer::Topology, self.after(delay));
        }
    }

    /// Wants the members read again because of what the session found out itself, whatever news are left alone.
    pub(super) fn topology_doubted(&mut self) {
        let delay_max = self.config.refresh.topology_delay_max.min(DOUBT_DELAY_MAX);
        let delay = self.random_part(delay_max);
        self.topology_dirty(delay);
    }

    pub(super) fn topology_begin(&mut self) {
        if self.topology.reading.is_some() || !self.topology.dirty {
            return;
        }
        let Some(link) = self.link() else { return };
        let peers = link.peers;
        self.timers.cancel(Timer::Topology);
        self.topology = TopologyRefresh {
            dirty: false,
            reading: Some(NodesRead {
                pending: 2,
                ..NodesRead::default()
            }),
        };
        self.read(Part::Topology, SystemTable::Local, None);
        self.read(Part::Topology, peers, None);
    }

    pub(super) fn schema_dirty_all(&mut self) {
        self.schema_dirty(&Scope::All, Duration::ZERO);
    }

    pub(super) fn schema_dirty(&mut self, scope: &Scope, delay: Duration) {
        self.schema_reads.dirty.merge(scope.clone());
        if self.link().is_some() {
            self.timers.set_earlier(Timer::Schema, self.after(delay));
        }
    }

    pub(super) fn schema_begin(&mut self) {
        if self.schema_reads.reading.is_some() || self.schema_reads.dirty.is_nothing() {
            return;
        }
        let Some(link) = self.link() else { return };
        // What only ScyllaDB has is not asked of others: they would count and log a failed request.
        let tables: &[SystemTable] = if link.scylla {
            &SCHEMA_TABLES
        } else {
            &SCHEMA_TABLES[..3]
        };
        let scope = std::mem::take(&mut self.schema_reads.dirty);
        let keyspaces: Vec<Option<Arc<str>>> = match &scope {
            Scope::Nothing => return,
            Scope::All => vec![None],
            Scope::Keyspaces(names) => names.iter().map(|name| Some(Arc::from(&**name))).collect(),
        };
        self.timers.cancel(Timer::Schema);
        self.schema_reads.reading = Some(SchemaRead {
            scope,
            pending: tables.len() * keyspaces.len(),
            rows: SchemaRows::default(),
            skipped: Vec::new(),
        });
        for keyspace in keyspaces {
            for table in tables {
                self.read(Part::Schema, *table, keyspace.clone());
            }
        }
    }

    /// Whether what is known to have changed in the schema was read.
    pub(super) fn schema_settled(&self) -> bool {
        self.schema_reads.dirty.is_nothing() && self.schema_reads.reading.is_none()
    }

    /// Forgets all reads under way; what they were for stays to be done.
    pub(super) fn forget_reads(&mut self) {
        self.queries
            .retain(|_, pending| !matches!(pending.purpose, Purpose::Read(_)));
        self.timers.cancel(Timer::Topology);
        self.timers.cancel(Timer::Schema);
        self.topology = TopologyRefresh {
            dirty: true,
            reading: None,
        };
        self.schema_reads.dirty = Scope::All;
        self.schema_reads.reading = None;
        self.agreement_read_failed(None);
    }

    pub(super) fn read(&mut self, part: Part, table: SystemTable, keyspace: Option<Arc<str>>) {
        self.read_page(
            Read {
                part,
                table,
                keyspace,
                bounded: false,
                pages: 0,
            },
            None,
        );
    }

    fn read_page(&mut self, mut read: Read, paging_state: Option<Bytes>) {
        let Some(link) = self.link() else { return };
        let conn = link.conn;
        let (text, bounded, deadline) = self.bounded_select(read.table, read.keyspace.as_deref());
        read.bounded = bounded;
        let request = page_request(text, paging_state);
        self.submit(conn, Purpose::Read(read), request, deadline);
    }

    /// Makes the text of a read, with whether it tells the server how long it may work, and when we give it up.
    pub(super) fn bounded_select(
        &self,
        table: SystemTable,
        keyspace: Option<&str>,
    ) -> (String, bool, Option<Instant>) {
        let server_timeout = self.link().is_some_and(|link| link.server_timeout);
        // A limit that is for ever is none, and no server could read its number.
        let timeout = self.config.metadata_timeout;
        let timeout = timeout.filter(|timeout| *timeout != Duration::MAX);
        let text = table.select(keyspace, timeout.filter(|_| server_timeout));
        let deadline = timeout.and_then(|timeout| self.now.checked_add(timeout));
        (text, server_timeout && timeout.is_some(), deadline)
    }

    /// Takes the reply to a read.
    pub(super) fn read_reply(
        &mut self,
        conn: ConnId,
        read: Read,
        reply: Result<ResponseFrame, AttemptError>,
    ) {
        let Some(link) = self.link().filter(|link| link.conn == conn) else {
            return;
        };
        let (features, address) = (link.info.features, link.info.address.clone());
        let table = read.table.name();
        let frame = match reply {
            Ok(frame) => frame,
            Err(error) => {
                let cause = match error.kind {
                    AttemptErrorKind::Connection(error) => NodeCause::Connection(error),
                    _ => NodeCause::Timeout { table },
                };
                return self.read_failed(read.part, cause);
            }
        };
        let envelope = match frame.parse(&features) {
            Ok(envelope) => envelope,
            Err(error) => return self.read_failed(read.part, NodeCause::Protocol { table, error }),
        };
        for text in envelope.warnings.into_iter().take(SKIPPED_NOTES_MAX) {
            self.note(Note::ServerWarning {
                address: address.clone(),
                text,
            });
        }
        match envelope.response {
            Response::Result(ResultBody::Rows(body)) => self.read_rows(read, body),
            Response::Error(error) => self.read_refused(read, error),
            _ => self.read_failed(
                read.part,
                NodeCause::Incomplete {
                    table,
                    what: "rows",
                },
            ),
        }
    }

    fn read_refused(&mut self, read: Read, error: ServerError) {
        let part = read.part;
        match error.detail {
            ServerErrorDetail::Invalid if read.table == SystemTable::PeersV2 => {
                if let Some(link) = self.link_mut() {
                    link.peers = SystemTable::Peers;
                }
                self.read(part, SystemTable::Peers, None);
            }
            ServerErrorDetail::Invalid | ServerErrorDetail::Unauthorized
                if read.table.optional() =>
            {
                self.read_complete(part);
            }
            ServerErrorDetail::SyntaxError if read.bounded => {
                // The server does not know the clause that bounds its own work; our deadline bounds the wait.
                if let Some(link) = self.link_mut() {
                    link.server_timeout = false;
                }
                self.read(part, read.table, read.keyspace);
            }
            _ => {
                let table = read.table.name();
                self.read_failed(
                    part,
                    NodeCause::Server {
                        table,
                        error: error.into(),
                    },
                );
            }
        }
    }

    fn read_rows(&mut self, mut read: Read, mut body: RowsBody) {
        let table = read.table.name();
        if let Err(bad) = self.take_rows(&read, &body) {
            let cause = match bad {
                BadReply::Protocol(error) => NodeCause::Protocol { table, error },
                BadReply::MissingColumn(what) => NodeCause::Incomplete { table, what },
            };
            return self.read_failed(read.part, cause);
        }
        match body
            .metadata
            .paging_state
            .take()
            .filter(|_| body.metadata.more_pages)
        {
            None => self.read_complete(read.part),
            Some(_) if PAGES_MAX <= read.pages => {
                self.read_failed(
                    read.part,
                    NodeCause::Incomplete {
                        table,
                        what: "last page",
                    },
                );
            }
            Some(state) => {
                read.pages += 1;
                self.read_page(read, Some(state));
            }
        }
    }

    fn take_rows(&mut self, read: &Read, body: &RowsBody) -> Result<(), BadReply> {
        let nodes = match read.part {
            Part::Topology => self.topology.reading.as_mut(),
            Part::Agreement => self.agreement.reading_mut(),
            Part::Schema => {
                let Some(reading) = &mut self.schema_reads.reading else {
                    return Ok(());
                };
                return for_each_row(read.table, body, |row| {
                    if let Err(why) = reading.rows.add(read.table, row) {
                        reading.skipped.push(why);
                    }
                });
            }
        };
        let Some(nodes) = nodes else { return Ok(()) };
        for_each_row(read.table, body, |row| {
            let node = NodeRow::read(read.table, row);
            if read.table == SystemTable::Local {
                nodes.local.get_or_insert(node);
            } else if nodes.peers.len() < PEERS_MAX {
                nodes.peers.push(node);
            }
        })
    }

    /// Takes note that one table of a read is complete.
    fn read_complete(&mut self, part: Part) {
        let take = |pending: &mut usize| {
            *pending = pending.saturating_sub(1);
            *pending == 0
        };
        match part {
            Part::Topology => {
                if let Some(nodes) = self
                    .topology
                    .reading
                    .take_if(|nodes| take(&mut nodes.pending))
                {
                    self.topology_read(nodes);
                }
            }
            Part::Schema => {
                if let Some(read) = self
                    .schema_reads
                    .reading
                    .take_if(|read| take(&mut read.pending))
                {
                    self.schema_read(read);
                }
            }
            Part::Agreement => {
                if let Some(nodes) = self
                    .agreement
                    .reading_take_if(|nodes| take(&mut nodes.pending))
                {
                    self.agreement_read(&nodes);
                }
            }
        }
    }

    /// Forgets the reads of one part that are under way.
    pub(super) fn forget_part(&mut self, part: Part) {
        self.queries.retain(
            |_, pending| !matches!(&pending.purpose, Purpose::Read(read) if read.part == part),
        );
    }

    /// Gives up a read; the picture stays as it was and the read is tried again.
    pub(super) fn read_failed(&mut self, part: Part, cause: NodeCause) {
        self.forget_part(part);
        if part == Part::Agreement {
            return self.agreement_read_failed(Some(cause));
        }
        let counts = part == Part::Topology || matches!(cause, NodeCause::Timeout { .. });
        let Some(link) = self.link_mut() else { return };
        // A server that refuses to show its schema does so on every node; moving on would not help.
        link.failures = link.failures.saturating_add(u32::from(counts));
        let useless = READ_FAILURES_MAX <= link.failures;
        let (address, synced, mut failures) =
            (link.info.address.clone(), link.synced(), link.failures);
        if part == Part::Schema {
            self.schema_reads.failures = self.schema_reads.failures.saturating_add(1);
            failures = self.schema_reads.failures;
        }
        let random = self.draw();
        let retry_in = self
            .config
            .reconnect
            .delay(failures.saturating_sub(1), random);
        self.note(Note::ReadFailed {
            address,
            cause: cause.clone(),
            retry_in,
        });
        if part == Part::Topology {
            self.topology = TopologyRefresh {
                dirty: true,
                reading: None,
            };
            if !synced {
                // Whoever cannot say who the members are is no better than a host that cannot be reached.
                return self.link_unusable(cause);
            }
            self.timers.set(Timer::Topology, self.after(retry_in));
        } else {
            if let Some(read) = self.schema_reads.reading.take() {
                self.schema_reads.dirty.merge(read.scope);
            }
            self.schema_reads.attempted = true;
            self.timers.set(Timer::Schema, self.after(retry_in));
        }
        if useless && synced {
            self.link_unusable(cause);
        }
    }

    fn schema_read(&mut self, read: SchemaRead) {
        for why in read.skipped.iter().take(SKIPPED_NOTES_MAX) {
            self.note(Note::RowSkipped {
                table: "system_schema",
                why,
            });
        }
        self.schema.apply(&read.scope, read.rows, self.partitioner);
        self.schema_reads.attempted = true;
        self.schema_reads.failures = 0;
        if let Some(link) = self.link_mut() {
            link.failures = 0;
        }
        // A read that finds everything as it was is no news for anybody who routes.
        self.changed.schema |= !self.schema.is_shown_by(&self.routing);
        if !self.schema_reads.dirty.is_nothing() {
            self.timers.set_earlier(Timer::Schema, self.now);
        }
        self.finish_gap();
        self.agreement_schema_read();
    }

    /// Tells the application that nothing is missing any more after events may have been lost.
    pub(super) fn finish_gap(&mut self) {
        let settled =
            self.schema_settled() && !self.topology.dirty && self.topology.reading.is_none();
        if self.gap && settled && matches!(self.stage, Stage::Connected(_)) {
            self.gap = false;
            self.notify(ClusterEvent::Resynced);
        }
    }

    /// A random part of a delay, so that the sessions of a cluster do not ask in step.
    pub(super) fn random_part(&mut self, max: Duration) -> Duration {
        let nanos = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.random.below(nanos.saturating_add(1)))
    }
}

/// The tables of the schema; the last one exists on ScyllaDB only.
const SCHEMA_TABLES: [SystemTable; 4] = [
    SystemTable::Keyspaces,
    SystemTable::Tables,
    SystemTable::Views,
    SystemTable::ScyllaTables,
];
