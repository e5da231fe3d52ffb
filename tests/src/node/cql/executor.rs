//! Plans statements against the schema and carries them out on the data.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use messina_core::types::column_type::ColumnType;
use messina_core::wire::result::ColumnSpec;
use uuid::Uuid;

use crate::node::CqlError;
use crate::node::schema::ddl::{DatacenterRacks, not_modifiable};
use crate::node::schema::{Schema, SchemaEffect, Table};
use crate::node::store::TableData;
use crate::node::values::{normalised, validate};

use super::ast::{Batch, Ddl, Describe, Parsed, Statement, Term};
use super::describe;
use super::modify::{ModifyPlan, applied_columns};
use super::relations::Restriction;
use super::select::{PageRequest, SelectPlan};
use super::terms::{Binder, Bound, Env};
use super::write::{Timing, Write, applied_rows, batch_columns, next_timestamp};

/// Schema and data of the whole cluster.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) schema: Schema,
    data: BTreeMap<Uuid, TableData>,
    last_timestamp: Cell<i64>,
    unique: Cell<u64>,
}

/// Tables that are made up when they are read.
pub(crate) trait VirtualTables {
    /// The rows of a table as they are now.
    fn read(&self, schema: &Schema, table: &Table) -> TableData;
}

/// A statement that was checked against the schema, with what PREPARE tells about it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) kind: PlanKind,
    pub(crate) bind: Arc<[ColumnSpec]>,
    pub(crate) pk_indexes: Vec<u16>,
    /// The columns of the result, if it has rows.
    pub(crate) result: Option<Arc<[ColumnSpec]>>,
    /// A single modification with a condition.
    pub(crate) conditional: bool,
    /// The tables it depends on.
    pub(crate) tables: Vec<Arc<Table>>,
}

/// The kinds of planned statements.
#[derive(Clone, Debug)]
pub(crate) enum PlanKind {
    Select(Box<SelectPlan>),
    Modify(Box<ModifyPlan>),
    Batch(Vec<ModifyPlan>, super::ast::Using),
    Use(String),
    Ddl(Box<Ddl>),
    Truncate(Arc<Table>, Option<Term>),
    Describe(Describe, Option<String>),
}

/// What a statement gave.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Void,
    Rows(RowSet),
    SetKeyspace(String),
    Schema(SchemaEffect),
}

/// Rows with their columns.
#[derive(Clone, Debug)]
pub(crate) struct RowSet {
    pub(crate) columns: Arc<[ColumnSpec]>,
    pub(crate) row_count: usize,
    /// All cells with their lengths.
    pub(crate) cells: Vec<u8>,
    /// There when more rows follow.
    pub(crate) paging_state: Option<Bytes>,
}

impl RowSet {
    pub(crate) fn new(columns: Arc<[ColumnSpec]>) -> Self {
        Self {
            columns,
            row_count: 0,
            cells: Vec::new(),
            paging_state: None,
        }
    }
}

/// What a request says besides its statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunOptions {
    pub(crate) page: PageRequest,
    /// The client's timestamp.
    pub(crate) timestamp: Option<i64>,
    /// Microseconds since 1970.
    pub(crate) now: i64,
    pub(crate) in_use: Option<String>,
}

/// Where a statement runs.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// Needed for tables that are made up.
    pub(crate) system: Option<&'a dyn VirtualTables>,
    pub(crate) datacenters: &'a [DatacenterRacks],
    pub(crate) cluster_name: &'a str,
}

/// Checks a statement against the schema.
pub(crate) fn plan(
    parsed: &Parsed,
    schema: &Schema,
    in_use: Option<&str>,
) -> Result<Plan, CqlError> {
    let mut binder = Binder::new(&parsed.markers);
    let (mut pk_indexes, mut result, mut conditional) = (Vec::new(), None, false);
    let mut tables = Vec::new();
    let kind = match &parsed.statement {
        Statement::Select(select) => {
            let plan = SelectPlan::new(select, schema, in_use, &mut binder)?;
            pk_indexes = key_markers(plan.clause.partition.iter());
            result = Some(plan.selection.columns.clone());
            tables.push(plan.clause.table.clone());
            PlanKind::Select(Box::new(plan))
        }
        Statement::Modify(modify) => {
            let plan = ModifyPlan::new(modify, schema, in_use, &mut binder)?;
            pk_indexes = key_markers(plan.clause.partition.iter());
            conditional = plan.is_conditional();
            result = conditional.then(|| applied_columns(&plan.table, &plan.condition_columns()));
            tables.push(plan.table.clone());
            PlanKind::Modify(Box::new(plan))
        }
        Statement::Batch(batch) => {
            let plans = plan_batch(batch, schema, in_use, &mut binder)?;
            tables.extend(plans.iter().map(|plan| plan.table.clone()));
            if let [first, rest @ ..] = plans.as_slice() {
                if rest.iter().all(|plan| plan.table.id == first.table.id) {
                    // Where several markers bind the key, the last statement counts.
                    pk_indexes = plans
                        .iter()
                        .rev()
                        .map(|plan| key_markers(plan.clause.partition.iter()))
                        .find(|found| !found.is_empty())
                        .unwrap_or_default();
                }
                if plans.iter().any(ModifyPlan::is_conditional) {
                    result = Some(batch_columns(&first.table, plans.iter()).1);
                }
            }
            PlanKind::Batch(plans, batch.using.clone())
        }
        Statement::Use(keyspace) => PlanKind::Use(keyspace.clone()),
        Statement::Ddl(ddl) => PlanKind::Ddl(Box::new(ddl.clone())),
        Statement::Truncate(table, timeout) => {
            let table = schema.table(table, in_use)?;
            binder.enter(table);
            if let Some(timeout) = timeout {
                binder.bind(timeout, "[timeout]", &ColumnType::Duration)?;
            }
            if schema.keyspace(&table.keyspace)?.is_system {
                return Err(not_modifiable(&table.keyspace));
            }
            PlanKind::Truncate(table.clone(), timeout.clone())
        }
        Statement::Describe(what) => {
            result = Some(describe::columns(what));
            PlanKind::Describe(what.clone(), in_use.map(str::to_owned))
        }
    };
    Ok(Plan {
        kind,
        bind: binder.finish()?,
        pk_indexes,
        result,
        conditional,
        tables,
    })
}

fn plan_batch(
    batch: &Batch,
    schema: &Schema,
    in_use: Option<&str>,
    binder: &mut Binder<'_>,
) -> Result<Vec<ModifyPlan>, CqlError> {
    if let Some(timestamp) = &batch.using.timestamp {
        binder.bind(timestamp, "[timestamp]", &ColumnType::BigInt)?;
    }
    if let Some(timeout) = &batch.using.timeout {
        binder.bind(timeout, "[timeout]", &ColumnType::Duration)?;
    }
    let plans = batch
        .statements
        .iter()
        .map(|modify| ModifyPlan::new(modify, schema, in_use, binder));
    plans.collect()
}

/// The markers that bind the partition key, if markers bind all of it.
fn key_markers<'a>(partition: impl Iterator<Item = &'a Option<Restriction>>) -> Vec<u16> {
    use super::ast::{Operator, RelationValue};
    let markers = partition.map(|restriction| match restriction {
        Some(Restriction {
            operator: Operator::Equal,
            value: RelationValue::One(Term::Marker(index)),
        }) => u16::try_from(*index).ok(),
        _ => None,
    });
    markers.collect::<Option<Vec<u16>>>().unwrap_or_default()
}

/// Checks the values of bind variables against their types.
pub(crate) fn check_values(
    bind: &[ColumnSpec],
    values: Vec<Bound>,
) -> Result<Vec<Bound>, CqlError> {
    if bind.len() != values.len() {
        return Err(CqlError::invalid(format!(
            "Invalid amount of bind variables: expected {} received {}",
            bind.len(),
            values.len()
        )));
    }
    let checked = bind.iter().zip(values).map(|(spec, value)| {
        let Bound::Value(bytes) = value else {
            return Ok(value);
        };
        validate(&spec.ty, &bytes).map_err(|why| {
            CqlError::invalid(format!(
                "Exception while binding column {}: marshaling error: {why}",
                spec.name
            ))
        })?;
        Ok(Bound::Value(normalised(&spec.ty, bytes)))
    });
    checked.collect()
}

impl Plan {
    /// Whether it reads a table that is made up when it is read.
    pub(crate) fn reads_virtual_table(&self) -> bool {
        self.tables.iter().any(|table| table.is_virtual)
    }
}

impl Database {
    pub(crate) fn new(schema: Schema) -> Self {
        Self {
            schema,
            data: BTreeMap::new(),
            last_timestamp: Cell::new(0),
            unique: Cell::new(0),
        }
    }

    /// Carries out a planned statement with checked values.
    pub(crate) fn run(
        &mut self,
        plan: &Plan,
        values: &[Bound],
        options: &RunOptions,
        around: Surroundings<'_>,
    ) -> Result<Outcome, CqlError> {
        match &plan.kind {
            PlanKind::Select(select) => self.select(select, values, options, around),
            PlanKind::Modify(modify) => {
                let result = plan.result.clone();
                self.modify(std::slice::from_ref(&**modify), values, options, result)
            }
            PlanKind::Batch(plans, using) => {
                let options = self.batch_options(using, values, options)?;
                self.modify(plans, values, &options, plan.result.clone())
            }
            PlanKind::Use(keyspace) => {
                if !self.schema.keyspaces.contains_key(keyspace) {
                    return Err(CqlError::invalid(format!(
                        "Keyspace '{keyspace}' does not exist"
                    )));
                }
                Ok(Outcome::SetKeyspace(keyspace.clone()))
            }
            PlanKind::Ddl(ddl) => {
                let effect =
                    self.schema
                        .apply(ddl, options.in_use.as_deref(), around.datacenters)?;
                for table in &effect.dropped_tables {
                    self.data.remove(table);
                }
                for (table, columns) in &effect.dropped_columns {
                    if let Some(data) = self.data.get_mut(table) {
                        columns.iter().for_each(|column| data.drop_column(column));
                    }
                }
                Ok(Outcome::Schema(effect))
            }
            PlanKind::Truncate(table, _) => {
                self.data.remove(&table.id);
                Ok(Outcome::Void)
            }
            PlanKind::Describe(what, in_use) => {
                let rows =
                    describe::run(what, in_use.as_deref(), &self.schema, around.cluster_name)?;
                Ok(Outcome::Rows(rows))
            }
        }
    }

    fn batch_options(
        &self,
        using: &super::ast::Using,
        values: &[Bound],
        options: &RunOptions,
    ) -> Result<RunOptions, CqlError> {
        let mut options = options.clone();
        if let Some(term) = &using.timestamp {
            let env = Env {
                values,
                now: options.now,
                unique: &self.unique,
            };
            let bytes = super::lookup::optional(term, "[timestamp]", &ColumnType::BigInt, &env)?;
            let timestamp =
                bytes.and_then(|b| b.first_chunk::<8>().map(|b| i64::from_be_bytes(*b)));
            options.timestamp = timestamp.or(options.timestamp);
        }
        Ok(options)
    }

    fn select(
        &self,
        select: &SelectPlan,
        values: &[Bound],
        options: &RunOptions,
        around: Surroundings<'_>,
    ) -> Result<Outcome, CqlError> {
        let env = Env {
            values,
            now: options.now,
            unique: &self.unique,
        };
        let table = &select.clause.table;
        let made_up;
        let data = if table.is_virtual {
            made_up = around.system.map(|system| system.read(&self.schema, table));
            made_up.as_ref()
        } else {
            self.data.get(&table.id)
        };
        select.run(data, &options.page, &env).map(Outcome::Rows)
    }

    fn modify(
        &mut self,
        plans: &[ModifyPlan],
        values: &[Bound],
        options: &RunOptions,
        result: Option<Arc<[ColumnSpec]>>,
    ) -> Result<Outcome, CqlError> {
        let many: Vec<(&ModifyPlan, &[Bound])> = plans.iter().map(|plan| (plan, values)).collect();
        self.modify_all(&many, options, result)
    }

    /// Carries out modifications as one; each has its own values.
    pub(crate) fn modify_all(
        &mut self,
        plans: &[(&ModifyPlan, &[Bound])],
        options: &RunOptions,
        result: Option<Arc<[ColumnSpec]>>,
    ) -> Result<Outcome, CqlError> {
        let server_timestamp = next_timestamp(&self.last_timestamp, options.now);
        let timestamp = options.timestamp.unwrap_or(server_timestamp);
        let timing = Timing {
            timestamp,
            server_timestamp,
        };
        let mut writes = Vec::new();
        for (plan, values) in plans {
            let env = Env {
                values,
                now: options.now,
                unique: &self.unique,
            };
            writes.push((Write::new(plan, timing, &env)?, *values));
        }
        if let Some(columns) = result {
            return self.modify_if(plans, &writes, options, columns);
        }
        for ((write, values), (plan, _)) in writes.iter().zip(plans) {
            let env = Env {
                values,
                now: options.now,
                unique: &self.unique,
            };
            write.apply(self.data.entry(plan.table.id).or_default(), &env)?;
        }
        Ok(Outcome::Void)
    }

    fn modify_if(
        &mut self,
        plans: &[(&ModifyPlan, &[Bound])],
        writes: &[(Write<'_>, &[Bound])],
        options: &RunOptions,
        columns: Arc<[ColumnSpec]>,
    ) -> Result<Outcome, CqlError> {
        let [(first, _), ..] = plans else {
            return Ok(Outcome::Void);
        };
        if plans
            .iter()
            .any(|(plan, _)| plan.table.id != first.table.id)
        {
            return Err(CqlError::invalid(
                "BATCH with conditions cannot span multiple tables",
            ));
        }
        let [(first_write, _), ..] = writes else {
            return Ok(Outcome::Void);
        };
        if writes
            .iter()
            .any(|(write, _)| write.partitions != first_write.partitions)
        {
            return Err(CqlError::invalid(
                "BATCH with conditions cannot span multiple partitions",
            ));
        }
        // The first column of the result is `[applied]`, the others are the table's.
        let shown = columns
            .iter()
            .skip(1)
            .filter_map(|spec| first.table.column(&spec.name));
        let shown: Vec<usize> = shown.map(|(index, _)| index).collect();
        let data = self.data.get(&first.table.id);
        let (mut applied, mut rows) = (true, Vec::new());
        for (write, values) in writes {
            let env = Env {
                values,
                now: options.now,
                unique: &self.unique,
            };
            let (holds, row) = write.check(data, &shown, &env)?;
            applied &= holds;
            rows.push(row);
        }
        if applied {
            let data = self.data.entry(first.table.id).or_default();
            for (write, values) in writes {
                let env = Env {
                    values,
                    now: options.now,
                    unique: &self.unique,
                };
                write.apply(data, &env)?;
            }
        }
        Ok(Outcome::Rows(applied_rows(columns, applied, &rows)))
    }

    /// Carries out the statements of a BATCH.
    pub(crate) fn modify_batch(
        &mut self,
        plans: &[(&ModifyPlan, &[Bound])],
        options: &RunOptions,
    ) -> Result<Outcome, CqlError> {
        let conditional = plans.iter().any(|(plan, _)| plan.is_conditional());
        let result = match plans.first() {
            Some((first, _)) if conditional => {
                Some(batch_columns(&first.table, plans.iter().map(|(plan, _)| *plan)).1)
            }
            _ => None,
        };
        self.modify_all(plans, options, result)
    }

    /// What terms are evaluated with.
    pub(super) fn env<'a>(&'a self, values: &'a [Bound], now: i64) -> Env<'a> {
        Env {
            values,
            now,
            unique: &self.unique,
        }
    }

    /// A time-based UUID that nothing else has.
    pub(crate) fn time_uuid(&self, now: i64) -> Uuid {
        super::functions::time_uuid(&Env {
            values: &[],
            now,
            unique: &self.unique,
        })
    }

    /// A number that nothing else has.
    pub(crate) fn next_unique(&self) -> u64 {
        let unique = self.unique.get();
        self.unique.set(unique.wrapping_add(1));
        unique
    }
}
