//! Carries out modifications: conditions first, then the cells, rows and ranges they change.

use std::cell::Cell as StdCell;
use std::sync::Arc;

use bytes::Bytes;
use messina_core::types::column_type::ColumnType;
use messina_core::wire::result::ColumnSpec;

use crate::node::CqlError;
use crate::node::schema::{ColumnKind, Table};
use crate::node::store::{Cell, Expiry, Life, Partition, PartitionPlace, RowRange, TableData};
use crate::node::values::{components, entries, items, normalised, put_cell};

use super::ast::Operator;
use super::combine::{CellWrite, cell_write, combine, is_hollow};
use super::executor::RowSet;
use super::lookup::{ClusteringKey, Lookup, holds, optional, right_values};
use super::modify::{
    ModifyKind, ModifyPlan, PlannedComparison, PlannedCondition, PlannedPart, applied_columns,
};
use super::selection::RowContext;
use super::terms::Env;

/// A modification with its values, ready to be applied.
#[derive(Clone, Debug)]
pub(crate) struct Write<'a> {
    plan: &'a ModifyPlan,
    pub(crate) partitions: Vec<(PartitionPlace, Vec<Bytes>)>,
    target: Target,
    cells: Vec<(usize, CellWrite)>,
    life: Life,
}

/// What of a partition is written.
#[derive(Clone, Debug)]
enum Target {
    Statics,
    Rows(Vec<ClusteringKey>),
    Ranges(Vec<RowRange>),
    Partition,
}

/// When and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// The timestamp of writes that name none.
    pub(crate) timestamp: i64,
    /// Where counters take theirs from, whatever the statement says.
    pub(crate) server_timestamp: i64,
}

/// The longest TTL, which is the server's limit of twenty years.
const TTL_MAX: i32 = 630_720_000;

impl<'a> Write<'a> {
    pub(crate) fn new(
        plan: &'a ModifyPlan,
        timing: Timing,
        env: &Env<'_>,
    ) -> Result<Self, CqlError> {
        let lookup = Lookup::new(&plan.clause, env)?;
        let mut timestamp = match &plan.timestamp {
            Some(term) => match optional(term, "[timestamp]", &ColumnType::BigInt, env)? {
                Some(bytes) => bytes
                    .first_chunk::<8>()
                    .map_or(0, |bytes| i64::from_be_bytes(*bytes)),
                None => timing.timestamp,
            },
            None => timing.timestamp,
        };
        if timestamp == i64::MIN {
            return Err(CqlError::invalid(
                "Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807]",
            ));
        }
        if plan.table.is_counter() {
            timestamp = timing.server_timestamp;
        }
        let life = Life {
            timestamp,
            expiry: expiry(plan, env)?,
        };
        let mut cells = Vec::new();
        for cell in &plan.cells {
            if let Some(write) = cell_write(&plan.table, cell.column, &cell.change, env)? {
                cells.push((cell.column, write));
            }
        }
        let partitions = lookup.partitions.clone().unwrap_or_default();
        let target = target(plan, lookup);
        Ok(Self {
            plan,
            partitions,
            target,
            cells,
            life,
        })
    }

    /// Whether the condition holds now, and the row that the result shows of it.
    pub(crate) fn check(
        &self,
        data: Option<&TableData>,
        shown: &[usize],
        env: &Env<'_>,
    ) -> Result<(bool, Vec<Option<Bytes>>), CqlError> {
        let [(place, key)] = self.partitions.as_slice() else {
            return Err(CqlError::invalid(
                "IN on the partition key is not supported with conditional updates",
            ));
        };
        let blank = Partition::new(key.clone());
        let partition = data
            .and_then(|data| data.partitions.get(place))
            .unwrap_or(&blank);
        let row = match &self.target {
            Target::Rows(keys) => match keys.as_slice() {
                [(row, _)] => partition.find(row, env.now),
                _ => {
                    return Err(CqlError::invalid(
                        "IN on the clustering key columns is not supported with conditional updates",
                    ));
                }
            },
            _ => None,
        };
        let table = &*self.plan.table;
        let statics = partition.statics_view(env.now);
        let context = RowContext {
            table,
            partition,
            token: place.token,
            statics,
            row,
        };
        let exists = match self.target {
            Target::Statics => statics.exists(),
            _ => row.is_some(),
        };
        let holds = match &self.plan.condition {
            PlannedCondition::None => true,
            PlannedCondition::NotExists => !exists,
            PlannedCondition::Exists => exists,
            PlannedCondition::Columns(columns) => {
                let mut all = true;
                for column in columns {
                    all &= compare_column(table, column, &context, env)?;
                }
                all
            }
        };
        let values = shown.iter().map(|index| {
            let kind = table.columns.get(*index).map(|column| column.kind);
            let key = kind.is_some_and(ColumnKind::is_key);
            if key && !exists {
                None
            } else {
                context.value(*index).cloned()
            }
        });
        Ok((holds, values.collect()))
    }

    /// Changes the data.
    pub(crate) fn apply(&self, data: &mut TableData, env: &Env<'_>) -> Result<(), CqlError> {
        for (place, key) in &self.partitions {
            let partition = data.partition(place.clone(), key);
            self.apply_to(partition, env)?;
        }
        Ok(())
    }

    fn apply_to(&self, partition: &mut Partition, env: &Env<'_>) -> Result<(), CqlError> {
        self.write_cells(partition, None, env)?;
        match &self.target {
            Target::Statics => {}
            Target::Partition => partition.delete(self.life.timestamp),
            Target::Ranges(ranges) => {
                for range in ranges {
                    partition.delete_range(range.clone(), self.life.timestamp);
                }
            }
            Target::Rows(keys) => {
                for (place, key) in keys {
                    if self.plan.kind == ModifyKind::Delete && self.plan.cells.is_empty() {
                        partition
                            .row(place.clone(), key)
                            .delete(self.life.timestamp);
                        continue;
                    }
                    self.write_cells(partition, Some((place, key)), env)?;
                    if self.plan.kind == ModifyKind::Insert {
                        partition.row(place.clone(), key).mark(self.life);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the cells of one row, or the static ones.
    fn write_cells(
        &self,
        partition: &mut Partition,
        row: Option<(&Vec<u8>, &Vec<Bytes>)>,
        env: &Env<'_>,
    ) -> Result<(), CqlError> {
        for (index, write) in &self.cells {
            let Some(column) = self.plan.table.columns.get(*index) else {
                continue;
            };
            if (column.kind == ColumnKind::Static) != row.is_none() {
                continue;
            }
            let old = match row {
                None => partition.statics_view(env.now).value(&column.name).cloned(),
                Some((place, _)) => partition
                    .rows
                    .get(place)
                    .and_then(|row| partition.view(place, row, env.now).value(&column.name))
                    .cloned(),
            };
            let value = combine(&column.ty, old.as_ref(), write)?;
            let value = value
                .map(|value| normalised(&column.ty, value))
                .filter(|value| !(column.cql_type.is_multi_cell() && is_hollow(&column.ty, value)));
            // A tombstone does not end.
            let life = if value.is_some() {
                self.life
            } else {
                Life::forever(self.life.timestamp)
            };
            let cell = Cell { value, life };
            let row = match row {
                None => &mut partition.statics,
                Some((place, key)) => partition.row(place.clone(), key),
            };
            match write {
                CellWrite::Put(_) => row.write(&column.name, cell),
                _ => row.rewrite(&column.name, cell),
            }
        }
        Ok(())
    }
}

fn target(plan: &ModifyPlan, lookup: Lookup) -> Target {
    if plan.is_static_only() {
        return Target::Statics;
    }
    let whole_delete = plan.kind == ModifyKind::Delete && plan.cells.is_empty();
    let has_clustering = !plan.clause.clustering.is_empty();
    if whole_delete && (!lookup.restricts_rows || !has_clustering) && !plan.is_conditional() {
        return Target::Partition;
    }
    match lookup.keys {
        Some(keys) => Target::Rows(keys),
        None => Target::Ranges(lookup.rows),
    }
}

fn expiry(plan: &ModifyPlan, env: &Env<'_>) -> Result<Option<Expiry>, CqlError> {
    let default = plan.table.options.default_time_to_live;
    let ttl = match &plan.ttl {
        Some(term) => match optional(term, "[ttl]", &ColumnType::Int, env)? {
            Some(bytes) => bytes
                .first_chunk::<4>()
                .map_or(0, |bytes| i32::from_be_bytes(*bytes)),
            None => default,
        },
        None => default,
    };
    if ttl < 0 {
        return Err(CqlError::invalid(format!(
            "A TTL must be greater or equal to 0, but was {ttl}"
        )));
    }
    if TTL_MAX < ttl {
        return Err(CqlError::invalid(format!(
            "ttl is too large. requested ({ttl}) maximum ({TTL_MAX})"
        )));
    }
    let at = env.now.saturating_add(i64::from(ttl) * 1_000_000);
    Ok((0 < ttl).then_some(Expiry { at, ttl }))
}

fn compare_column(
    table: &Table,
    comparison: &PlannedComparison,
    context: &RowContext<'_>,
    env: &Env<'_>,
) -> Result<bool, CqlError> {
    let Some(column) = table.columns.get(comparison.column) else {
        return Ok(false);
    };
    let whole = context.value(comparison.column);
    let value: Option<&[u8]> = match &comparison.part {
        PlannedPart::Whole => whole.map(|bytes| &**bytes),
        PlannedPart::Field(at, count) => whole
            .and_then(|bytes| components(bytes, *count).ok())
            .and_then(|parts| parts.get(*at).copied().flatten()),
        PlannedPart::Element(key, key_type) => {
            let key = optional(key, &column.name, key_type, env)?;
            whole
                .zip(key)
                .and_then(|(bytes, key)| element_of(&column.ty, bytes, &key))
        }
    };
    let restriction = &comparison.restriction;
    if let super::ast::RelationValue::One(term) = &restriction.value
        && restriction.operator != Operator::In
    {
        // Only conditions may compare with null.
        if optional(term, &column.name, &comparison.ty, env)?.is_none() {
            return Ok(match restriction.operator {
                Operator::Equal => value.is_none(),
                Operator::NotEqual | Operator::IsNotNull => value.is_some(),
                _ => {
                    return Err(CqlError::invalid(format!(
                        "Invalid comparison with null for operator on {}",
                        column.name
                    )));
                }
            });
        }
    }
    let right = right_values(restriction, &column.name, &comparison.ty, env)?;
    if value.is_none() && restriction.operator == Operator::NotEqual {
        return Ok(true);
    }
    Ok(holds(restriction.operator, &comparison.ty, value, &right))
}

fn element_of<'a>(ty: &ColumnType, bytes: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    match ty {
        ColumnType::Map(_) => entries(bytes)
            .ok()?
            .into_iter()
            .find(|(found, _)| *found == key)
            .map(|(_, value)| value),
        _ => {
            let index = usize::try_from(i32::from_be_bytes(*key.first_chunk::<4>()?)).ok()?;
            items(bytes).ok()?.get(index).copied()
        }
    }
}

/// The result of conditional statements: one row for each.
pub(crate) fn applied_rows(
    columns: Arc<[ColumnSpec]>,
    applied: bool,
    rows: &[Vec<Option<Bytes>>],
) -> RowSet {
    let mut out = RowSet::new(columns);
    for row in rows {
        put_cell(Some(&[u8::from(applied)]), &mut out.cells);
        for value in row {
            put_cell(value.as_deref(), &mut out.cells);
        }
        out.row_count += 1;
    }
    out
}

/// Makes timestamps that never repeat.
pub(crate) fn next_timestamp(last: &StdCell<i64>, now: i64) -> i64 {
    let next = last.get().saturating_add(1).max(now);
    last.set(next);
    next
}

/// The columns that the result of a conditional batch shows.
pub(crate) fn batch_columns<'a>(
    table: &Table,
    plans: impl Iterator<Item = &'a ModifyPlan>,
) -> (Vec<usize>, Arc<[ColumnSpec]>) {
    let keys = table
        .columns
        .iter()
        .filter(|column| column.kind.is_key())
        .count();
    let mut indexes: Vec<usize> = (0..keys).collect();
    for plan in plans {
        indexes.extend(plan.condition_columns());
    }
    indexes.sort_unstable();
    indexes.dedup();
    let columns = applied_columns(table, &indexes);
    (indexes, columns)
}
