//! QUERY, PREPARE, EXECUTE and BATCH.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use messina_core::wire::read::{Reader, WireValue};
use messina_core::wire::request::{Batch, BatchKind, Params, StatementSource, Values};
use messina_core::wire::response::Response;
use messina_core::wire::result::{PreparedBody, ResultBody, ResultMetadata, RowsBody};

use crate::cluster::{Cluster, ConnectionId};
use crate::node::CqlError;
use crate::node::cql::executor::{
    Outcome, Plan, PlanKind, RowSet, RunOptions, Surroundings, check_values, plan,
};
use crate::node::cql::parser::parse;
use crate::node::cql::select::PageRequest;
use crate::node::cql::terms::Bound;
use crate::node::events::Announcement;
use crate::node::prepared::Prepared;
use crate::node::protocol::malformed;
use crate::node::schema::SchemaEffect;

/// A prepared or planned statement with its values.
struct Bounded {
    prepared: Option<Arc<Prepared>>,
    plan: Option<Plan>,
    values: Vec<Bound>,
}

impl Bounded {
    fn plan(&self) -> Option<&Plan> {
        self.plan
            .as_ref()
            .or_else(|| self.prepared.as_ref().map(|prepared| &prepared.plan))
    }
}
impl Cluster {
    pub(super) fn query(
        &mut self,
        now: Instant,
        id: ConnectionId,
        text: &str,
        params: &Params,
    ) -> Result<Response, CqlError> {
        let in_use = self.keyspace_in_use(id);
        let plan = plan(&parse(text)?, &self.database.schema, in_use.as_deref())?;
        let values = bound_values(&plan, &params.values)?;
        let outcome = self.run(now, id, &plan, &values, params)?;
        self.result(id, outcome, params.skip_metadata, None)
    }

    pub(super) fn prepare(&mut self, id: ConnectionId, text: &str) -> Result<Response, CqlError> {
        let in_use = self.keyspace_in_use(id);
        let Some(connection) = self.connections.get(&id) else {
            return Err(CqlError::new(CqlError::SERVER, "the connection is gone"));
        };
        let features = connection.features;
        let Some(node) = self.nodes.get_mut(connection.node) else {
            return Err(CqlError::new(CqlError::SERVER, "the node is gone"));
        };
        let prepared = node
            .prepared
            .prepare(text, in_use.as_deref(), &self.database.schema)?;
        let plan = &prepared.plan;
        let result = match &plan.result {
            Some(columns) => ResultMetadata {
                column_count: columns.len(),
                columns: Some(columns.clone()),
                ..ResultMetadata::default()
            },
            None => ResultMetadata::default(),
        };
        Ok(Response::Result(ResultBody::Prepared(PreparedBody {
            id: prepared.id.clone(),
            result_metadata_id: features.metadata_id.then(|| prepared.metadata_id.clone()),
            bind_columns: plan.bind.clone(),
            pk_indexes: plan.pk_indexes.clone(),
            conditional: plan.conditional && features.lwt_mark_mask.is_some(),
            result,
        })))
    }

    fn find_prepared(
        &self,
        id: ConnectionId,
        statement: &Bytes,
    ) -> Result<Arc<Prepared>, CqlError> {
        let node = self
            .connections
            .get(&id)
            .and_then(|connection| self.nodes.get(connection.node));
        match node {
            Some(node) => node.prepared.find(statement),
            None => Err(CqlError::unprepared(statement.clone())),
        }
    }

    pub(super) fn execute_prepared(
        &mut self,
        now: Instant,
        id: ConnectionId,
        statement: &Bytes,
        known_metadata: Option<&[u8]>,
        params: &Params,
    ) -> Result<Response, CqlError> {
        let prepared = self.find_prepared(id, statement)?;
        let values = bound_values(&prepared.plan, &params.values)?;
        let outcome = self.run(now, id, &prepared.plan, &values, params)?;
        // Ids of another length are cut or padded before they are compared.
        let changed = known_metadata.filter(|known| {
            let mut padded = [0; 16];
            for (to, from) in padded.iter_mut().zip(known.iter()) {
                *to = *from;
            }
            padded[..] != prepared.metadata_id[..]
        });
        let new_id = changed.map(|_| prepared.metadata_id.clone());
        self.result(id, outcome, params.skip_metadata, new_id)
    }

    pub(super) fn batch(
        &mut self,
        now: Instant,
        id: ConnectionId,
        batch: &Batch,
    ) -> Result<Response, CqlError> {
        let in_use = self.keyspace_in_use(id);
        let mut statements = Vec::new();
        for statement in &batch.statements {
            let (prepared, planned) = match &statement.statement {
                StatementSource::Text(text) => {
                    let planned = plan(&parse(text)?, &self.database.schema, in_use.as_deref())?;
                    (None, Some(planned))
                }
                StatementSource::Prepared(statement) => {
                    (Some(self.find_prepared(id, statement)?), None)
                }
            };
            let mut bounded = Bounded {
                prepared,
                plan: planned,
                values: Vec::new(),
            };
            let Some(plan) = bounded.plan() else { continue };
            let given = usize::from(statement.values.count);
            if plan.bind.len() != given {
                return Err(CqlError::invalid(format!(
                    "There were {} markers(?) in CQL but {given} bound variables",
                    plan.bind.len()
                )));
            }
            bounded.values = bound_values(plan, &statement.values)?;
            statements.push(bounded);
        }
        let outcome = self.run_batch(now, id, batch, &statements)?;
        self.result(id, outcome, false, None)
    }

    fn run_batch(
        &mut self,
        now: Instant,
        id: ConnectionId,
        batch: &Batch,
        statements: &[Bounded],
    ) -> Result<Outcome, CqlError> {
        let mut plans = Vec::new();
        for statement in statements {
            let Some(PlanKind::Modify(modify)) = statement.plan().map(|plan| &plan.kind) else {
                return Err(CqlError::invalid(
                    "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.",
                ));
            };
            let counter = modify.table.is_counter();
            if counter && batch.kind == BatchKind::Logged {
                return Err(CqlError::invalid(
                    "Cannot include a counter statement in a logged batch",
                ));
            }
            if !counter && batch.kind == BatchKind::Counter {
                return Err(CqlError::invalid(
                    "Cannot include non-counter statement in a counter batch",
                ));
            }
            plans.push((&**modify, statement.values.as_slice()));
        }
        let options = RunOptions {
            timestamp: batch.timestamp,
            now: self.unix_micros(now),
            ..RunOptions::default()
        };
        let children: Vec<_> = statements
            .iter()
            .filter_map(|statement| Some((statement.plan()?, statement.values.as_slice())))
            .collect();
        self.check_limits(id, &children, batch.consistency, options.now)?;
        self.database.modify_batch(&plans, &options)
    }

    fn run(
        &mut self,
        now: Instant,
        id: ConnectionId,
        plan: &Plan,
        values: &[Bound],
        params: &Params,
    ) -> Result<Outcome, CqlError> {
        if params.timestamp == Some(i64::MIN) {
            return Err(CqlError::protocol(
                "Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807] (got -9223372036854775808)",
            ));
        }
        let options = RunOptions {
            page: PageRequest {
                rows: params
                    .page_size
                    .and_then(|size| usize::try_from(size).ok())
                    .filter(|size| 0 < *size),
                state: params.paging_state.clone(),
            },
            timestamp: params.timestamp,
            now: self.unix_micros(now),
            in_use: self.keyspace_in_use(id),
        };
        self.check_limits(id, &[(plan, values)], params.consistency, options.now)?;
        let node = self
            .connections
            .get(&id)
            .map_or(0, |connection| connection.node);
        self.run_on(node, plan, values, &options)
    }

    fn run_on(
        &mut self,
        node: usize,
        plan: &Plan,
        values: &[Bound],
        options: &RunOptions,
    ) -> Result<Outcome, CqlError> {
        let facts = plan.reads_virtual_table().then(|| self.facts(node));
        let cluster_name = self.config.cluster_name.clone();
        let view = facts
            .as_ref()
            .and_then(|facts| facts.view(&cluster_name, &self.traces));
        let datacenters = match &plan.kind {
            PlanKind::Ddl(_) => self.datacenter_racks(),
            _ => Vec::new(),
        };
        let around = Surroundings {
            system: view.as_ref().map(|view| view as _),
            datacenters: &datacenters,
            cluster_name: &cluster_name,
        };
        self.database.run(plan, values, options, around)
    }

    /// Runs a statement that came over no connection.
    pub(crate) fn execute_as_administrator(
        &mut self,
        now: Instant,
        cql: &str,
    ) -> Result<(), CqlError> {
        if let Outcome::Schema(effect) = self.outcome_for_administrator(now, cql)? {
            self.after_schema_change(effect);
            self.announce_pending();
        }
        Ok(())
    }

    pub(crate) fn outcome_for_administrator(
        &mut self,
        now: Instant,
        cql: &str,
    ) -> Result<Outcome, CqlError> {
        let plan = plan(&parse(cql)?, &self.database.schema, None)?;
        let values = check_values(&plan.bind, Vec::new())?;
        let options = RunOptions {
            now: self.unix_micros(now),
            ..RunOptions::default()
        };
        self.run_on(0, &plan, &values, &options)
    }

    fn keyspace_in_use(&self, id: ConnectionId) -> Option<String> {
        self.connections
            .get(&id)
            .and_then(|connection| connection.keyspace.clone())
    }

    fn result(
        &mut self,
        id: ConnectionId,
        outcome: Outcome,
        skip_metadata: bool,
        new_metadata_id: Option<Bytes>,
    ) -> Result<Response, CqlError> {
        Ok(Response::Result(match outcome {
            Outcome::Void => ResultBody::Void,
            Outcome::Rows(rows) => {
                ResultBody::Rows(rows_body(rows, skip_metadata, new_metadata_id))
            }
            Outcome::SetKeyspace(keyspace) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.keyspace = Some(keyspace.clone());
                }
                ResultBody::SetKeyspace(keyspace)
            }
            Outcome::Schema(effect) => {
                let result = effect.result.clone();
                self.after_schema_change(effect);
                result.map_or(ResultBody::Void, ResultBody::SchemaChange)
            }
        }))
    }

    fn after_schema_change(&mut self, effect: SchemaEffect) {
        for (keyspace, table) in &effect.stale {
            for node in &mut self.nodes {
                node.prepared.forget(keyspace, table.as_deref());
            }
        }
        self.pending
            .extend(effect.events.into_iter().map(Announcement::Schema));
    }

    pub(super) fn announce_pending(&mut self) {
        for announcement in std::mem::take(&mut self.pending) {
            self.announce(&announcement);
        }
    }
}

fn rows_body(rows: RowSet, skip_metadata: bool, new_metadata_id: Option<Bytes>) -> RowsBody {
    let skip = skip_metadata && new_metadata_id.is_none();
    RowsBody {
        metadata: ResultMetadata {
            column_count: rows.columns.len(),
            columns: (!skip).then_some(rows.columns),
            more_pages: rows.paging_state.is_some(),
            paging_state: rows.paging_state,
            new_metadata_id,
        },
        row_count: rows.row_count,
        cells: rows.cells.into(),
    }
}

/// The values of a request in the order of the markers.
fn bound_values(plan: &Plan, values: &Values) -> Result<Vec<Bound>, CqlError> {
    let mut reader = Reader::of_bytes(&values.bytes);
    let mut given = Vec::new();
    for _ in 0..values.count {
        let value = reader
            .value()
            .map_err(|error| malformed(&error, values.bytes.len()))?;
        given.push(match value {
            WireValue::Null => Bound::Null,
            WireValue::Unset => Bound::Unset,
            WireValue::Bytes(bytes) => Bound::Value(values.bytes.slice_ref(bytes)),
        });
    }
    let Some(names) = &values.names else {
        return check_values(&plan.bind, given);
    };
    if given.len() != plan.bind.len() {
        return check_values(&plan.bind, given);
    }
    let by_name = plan.bind.iter().map(|spec| {
        let at = names.iter().position(|name| **name == *spec.name);
        at.and_then(|at| given.get(at).cloned()).ok_or_else(|| {
            CqlError::invalid(format!(
                "Missing value for bind marker with name: {}",
                spec.name
            ))
        })
    });
    let by_name = by_name.collect::<Result<Vec<_>, _>>()?;
    check_values(&plan.bind, by_name)
}
