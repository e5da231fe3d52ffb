//! SELECT: planning, reading rows in order, and cutting them into pages.

use std::ops::Bound;

use bytes::Bytes;
use messina_core::types::column_type::ColumnType;

use crate::node::CqlError;
use crate::node::schema::{ColumnKind, Schema, Table};
use crate::node::store::{Partition, PartitionPlace, Row, RowRange, TableData};
use crate::node::values::put_cell;

use super::ast::{Direction, Operator, Select, TableName, Term};
use super::executor::RowSet;
use super::lookup::{Lookup, optional};
use super::paging::{PageState, Position};
use super::relations::{Purpose, Where};
use super::selection::{Accumulator, RowContext, Selection};
use super::sorting::Unsorted;
use super::terms::{Binder, Env};

/// A SELECT that was checked against the schema.
#[derive(Clone, Debug)]
pub(crate) struct SelectPlan {
    pub(crate) clause: Where,
    pub(crate) selection: Selection,
    reversed: bool,
    /// How many clustering columns ORDER BY reaches over.
    ordered: usize,
    distinct: bool,
    limit: Option<Term>,
    per_partition_limit: Option<Term>,
    pub(crate) timeout: Option<Term>,
}

/// How much is wanted, and from where on.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageRequest {
    /// `None` is everything.
    pub(crate) rows: Option<usize>,
    pub(crate) state: Option<Bytes>,
}

/// A page is cut when its rows have this many bytes.
const PAGE_BYTES: usize = 1024 * 1024;
/// A read without pages fails when its rows have more bytes, as the server has it by default.
const UNPAGED_BYTES_MAX: usize = 100 * 1024 * 1024;

impl SelectPlan {
    pub(crate) fn new(
        select: &Select,
        schema: &Schema,
        in_use: Option<&str>,
        binder: &mut Binder<'_>,
    ) -> Result<Self, CqlError> {
        let one_row = TableName {
            keyspace: Some("system".into()),
            name: "one_row".into(),
        };
        let table = schema.table(select.table.as_ref().unwrap_or(&one_row), in_use)?;
        binder.enter(table);
        let types = &schema.keyspace(&table.keyspace)?.types;
        let selection = Selection::new(table, select.selectors.as_deref(), types, binder)?;
        let purpose = Purpose::Select {
            allow_filtering: select.allow_filtering,
        };
        let clause = Where::new(table, &select.relations, purpose, binder)?;
        if let Some(limit) = &select.per_partition_limit {
            binder.bind(limit, "[per_partition_limit]", &ColumnType::Int)?;
        }
        if let Some(limit) = &select.limit {
            binder.bind(limit, "[limit]", &ColumnType::Int)?;
        }
        if let Some(timeout) = &select.timeout {
            binder.bind(timeout, "[timeout]", &ColumnType::Duration)?;
        }
        if select.distinct {
            check_distinct(table, select)?;
        }
        let (reversed, ordered) = order(&clause, &select.order_by)?;
        Ok(Self {
            clause,
            selection,
            reversed,
            ordered,
            distinct: select.distinct,
            limit: select.limit.clone(),
            per_partition_limit: select.per_partition_limit.clone(),
            timeout: select.timeout.clone(),
        })
    }

    /// Reads one page.
    pub(crate) fn run(
        &self,
        data: Option<&TableData>,
        page: &PageRequest,
        env: &Env<'_>,
    ) -> Result<RowSet, CqlError> {
        let table = &self.clause.table;
        let limit = limit_value(self.limit.as_ref(), "LIMIT", env)?;
        let per_partition = limit_value(
            self.per_partition_limit.as_ref(),
            "PER PARTITION LIMIT",
            env,
        )?;
        let state = page
            .state
            .as_ref()
            .map(|bytes| PageState::decode(bytes, table.id))
            .transpose()?;
        let lookup = Lookup::new(&self.clause, env)?;
        let sorts = self.sorts(&lookup, page)?;
        let single = lookup.keys.is_some()
            && lookup
                .partitions
                .as_ref()
                .is_some_and(|partitions| partitions.len() == 1)
            && lookup.rows.len() == 1;
        let aggregate = self.selection.is_aggregate;
        let mut reader = Reader {
            plan: self,
            lookup: &lookup,
            env,
            page_rows: page.rows.filter(|_| !single && !aggregate),
            is_unpaged: page.rows.is_none(),
            left: state.as_ref().map_or(limit, |state| state.left),
            per_partition,
            position: None,
            more: false,
            unsorted: sorts.then(Unsorted::default),
            out: RowSet::new(self.selection.columns.clone()),
            accumulators: self.selection.items.iter().map(Accumulator::new).collect(),
        };
        if aggregate || sorts {
            // LIMIT is about the rows of the result: the one of an aggregate, or the first ones in the asked order.
            reader.left = u64::MAX;
        }
        reader.read(data, state.as_ref().map(|state| &state.position))?;
        if let Some(unsorted) = reader.unsorted.take() {
            unsorted.finish(table, self.ordered, self.reversed, limit, &mut reader.out);
        }
        Ok(reader.finish(table))
    }

    /// Whether rows of several partitions are to be put into one order.
    fn sorts(&self, lookup: &Lookup, page: &PageRequest) -> Result<bool, CqlError> {
        let many = lookup
            .partitions
            .as_ref()
            .is_some_and(|partitions| 1 < partitions.len());
        let sorts = 0 < self.ordered && many && !self.selection.is_aggregate;
        if sorts && page.rows.is_some() {
            return Err(CqlError::invalid(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either remove the ORDER BY or the IN and sort client side, or disable paging for this query",
            ));
        }
        Ok(sorts)
    }
}

fn limit_value(term: Option<&Term>, what: &str, env: &Env<'_>) -> Result<u64, CqlError> {
    let Some(term) = term else {
        return Ok(u64::MAX);
    };
    let Some(bytes) = optional(term, what, &ColumnType::Int, env)? else {
        return Ok(u64::MAX);
    };
    let value = bytes
        .first_chunk::<4>()
        .map_or(0, |bytes| i32::from_be_bytes(*bytes));
    match u64::try_from(value) {
        Ok(value) if 0 < value => Ok(value),
        _ => Err(CqlError::invalid(format!(
            "{what} must be strictly positive"
        ))),
    }
}

fn check_distinct(table: &Table, select: &Select) -> Result<(), CqlError> {
    use super::ast::Expression;
    let fine = select.selectors.as_ref().is_some_and(|selectors| {
        selectors.iter().all(|selector| match &selector.expression {
            Expression::Column(name) => table.column(name).is_some_and(|(_, column)| {
                matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Static)
            }),
            _ => false,
        })
    });
    if fine {
        return Ok(());
    }
    Err(CqlError::invalid(
        "SELECT DISTINCT queries must only request partition key columns and/or static columns",
    ))
}

/// Whether rows are read backwards, and how many clustering columns decide on their order.
fn order(clause: &Where, order_by: &[(String, Direction)]) -> Result<(bool, usize), CqlError> {
    if order_by.is_empty() {
        return Ok((false, 0));
    }
    if !clause.has_whole_partition_key() {
        return Err(CqlError::invalid(
            "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
        ));
    }
    let (mut reversed, mut reached) = (None, 0);
    // Columns that are fixed by `=` may be left out of ORDER BY.
    let mut columns = clause.table.clustering_key().zip(&clause.clustering);
    for (name, wanted) in order_by {
        let found = loop {
            let Some((column, restrictions)) = columns.next() else {
                break None;
            };
            reached += 1;
            if *column.name == **name {
                break Some(column);
            }
            if !restrictions.iter().any(|r| r.operator == Operator::Equal) {
                break None;
            }
        };
        let Some(column) = found else {
            return Err(CqlError::invalid(format!(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY in their order, got {name}"
            )));
        };
        let backwards = column.kind != ColumnKind::Clustering(*wanted);
        if reversed.is_some_and(|reversed| reversed != backwards) {
            return Err(CqlError::invalid("Unsupported order by relation"));
        }
        reversed = Some(backwards);
    }
    Ok((reversed.unwrap_or(false), reached))
}

struct Reader<'a> {
    plan: &'a SelectPlan,
    lookup: &'a Lookup,
    env: &'a Env<'a>,
    page_rows: Option<usize>,
    /// Whether the client takes everything at once.
    is_unpaged: bool,
    /// Rows that LIMIT still allows.
    left: u64,
    per_partition: u64,
    /// The last row that is in the page.
    position: Option<Position>,
    more: bool,
    /// There when ORDER BY goes over several partitions.
    unsorted: Option<Unsorted>,
    out: RowSet,
    accumulators: Vec<Accumulator>,
}

/// Whether to go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Next,
    NextPartition,
    Stop,
}

impl Reader<'_> {
    fn read(&mut self, data: Option<&TableData>, from: Option<&Position>) -> Result<(), CqlError> {
        let Some(data) = data else { return Ok(()) };
        if let Some(places) = &self.lookup.partitions {
            for (place, _) in places {
                let Some(partition) = data.partitions.get(place) else {
                    continue;
                };
                if self.partition(place, partition, from)? == Step::Stop {
                    return Ok(());
                }
            }
            return Ok(());
        }
        let (low, high) = self.lookup.tokens;
        let start = match from {
            Some(position) => position.place.clone(),
            None => PartitionPlace {
                token: low,
                key: Vec::new(),
            },
        };
        for (place, partition) in data.partitions.range(start..) {
            if high < place.token {
                break;
            }
            if place.token < low {
                continue;
            }
            if self.partition(place, partition, from)? == Step::Stop {
                break;
            }
        }
        Ok(())
    }

    fn partition(
        &mut self,
        place: &PartitionPlace,
        partition: &Partition,
        from: Option<&Position>,
    ) -> Result<Step, CqlError> {
        let (low, high) = self.lookup.tokens;
        if place.token < low || high < place.token {
            return Ok(Step::Next);
        }
        let from = match from {
            Some(from) if place < &from.place => return Ok(Step::Next),
            Some(from) => Some(from).filter(|from| *place == from.place),
            None => None,
        };
        if from.is_some_and(|from| self.plan.distinct || from.row.is_none()) {
            // This partition gave all it has.
            return Ok(Step::Next);
        }
        let mut taken = from.map_or(0, |from| from.taken);
        let after = from.and_then(|from| from.row.as_deref());
        let mut any = after.is_some();
        let context = RowContext {
            table: &self.plan.clause.table,
            partition,
            token: place.token,
            statics: partition.statics_view(self.env.now),
            row: None,
        };
        let (lookup, reversed) = (self.lookup, self.plan.reversed);
        let count = lookup.rows.len();
        let order = (0..count).map(|at| if reversed { count - 1 - at } else { at });
        for range in order.filter_map(|at| lookup.rows.get(at)) {
            for (key, row) in rows_between(partition, range, after, reversed) {
                let view = partition.view(key, row, self.env.now);
                if !view.exists() {
                    continue;
                }
                any = true;
                let context = RowContext {
                    row: Some(view),
                    ..context
                };
                match self.row(&context, place, Some(key), &mut taken)? {
                    Step::Next => {}
                    Step::NextPartition => return Ok(Step::Next),
                    Step::Stop => return Ok(Step::Stop),
                }
            }
        }
        if any || self.lookup.restricts_rows || !context.statics.exists() {
            return Ok(Step::Next);
        }
        match self.row(&context, place, None, &mut taken)? {
            Step::NextPartition => Ok(Step::Next),
            step => Ok(step),
        }
    }

    fn row(
        &mut self,
        context: &RowContext<'_>,
        place: &PartitionPlace,
        key: Option<&Vec<u8>>,
        taken: &mut u64,
    ) -> Result<Step, CqlError> {
        let table = &self.plan.clause.table;
        let cell = |index: usize| context.value(index);
        if !self
            .lookup
            .predicates
            .iter()
            .all(|predicate| predicate.holds(table, &cell))
        {
            return Ok(Step::Next);
        }
        if self.per_partition <= *taken {
            return Ok(Step::NextPartition);
        }
        if self.left == 0 {
            return Ok(Step::Stop);
        }
        let full = self
            .page_rows
            .is_some_and(|rows| rows <= self.out.row_count)
            || (self.page_rows.is_some() && PAGE_BYTES <= self.out.cells.len());
        if full {
            self.more = true;
            return Ok(Step::Stop);
        }
        self.left -= 1;
        *taken += 1;
        self.emit(context)?;
        self.position = Some(Position {
            place: place.clone(),
            row: key.cloned(),
            taken: *taken,
        });
        Ok(if self.plan.distinct {
            Step::NextPartition
        } else {
            Step::Next
        })
    }

    fn emit(&mut self, context: &RowContext<'_>) -> Result<(), CqlError> {
        let items = &self.plan.selection.items;
        if self.plan.selection.is_aggregate {
            for (item, accumulator) in items.iter().zip(&mut self.accumulators) {
                accumulator.add(item.compute(context, self.env)?);
            }
            return Ok(());
        }
        let mut cells = match &self.unsorted {
            Some(_) => Vec::new(),
            None => std::mem::take(&mut self.out.cells),
        };
        for item in items {
            put_cell(item.compute(context, self.env)?.as_deref(), &mut cells);
        }
        let size = cells.len();
        match &mut self.unsorted {
            Some(unsorted) => {
                let clustering = context.row.map_or(&[][..], |row| row.clustering());
                unsorted.push(clustering, cells);
            }
            None => {
                self.out.cells = cells;
                self.out.row_count += 1;
            }
        }
        if self.is_unpaged && UNPAGED_BYTES_MAX < size {
            return Err(CqlError::new(
                CqlError::SERVER,
                format!(
                    "Memory usage of unpaged query exceeds hard limit of {UNPAGED_BYTES_MAX} (configured via max_memory_for_unlimited_query_hard_limit)"
                ),
            ));
        }
        Ok(())
    }

    fn finish(mut self, table: &Table) -> RowSet {
        if self.plan.selection.is_aggregate {
            for accumulator in self.accumulators {
                put_cell(accumulator.finish().as_deref(), &mut self.out.cells);
            }
            self.out.row_count = 1;
            return self.out;
        }
        if let (true, Some(position)) = (self.more, self.position) {
            let state = PageState {
                position,
                left: self.left,
            };
            self.out.paging_state = Some(state.encode(table.id));
        }
        self.out
    }
}

/// The rows of a range in the asked order, from behind the one that was the last of a page.
fn rows_between<'a>(
    partition: &'a Partition,
    range: &RowRange,
    after: Option<&[u8]>,
    reversed: bool,
) -> Box<dyn Iterator<Item = (&'a Vec<u8>, &'a Row)> + 'a> {
    let mut start = Bound::Included(range.start.as_slice());
    let mut end = range.end.as_deref();
    match after {
        Some(after) if reversed => end = Some(end.map_or(after, |end| end.min(after))),
        Some(after) if range.start.as_slice() <= after => start = Bound::Excluded(after),
        _ => {}
    }
    let (Bound::Included(first) | Bound::Excluded(first)) = start else {
        return Box::new(std::iter::empty());
    };
    if end.is_some_and(|end| end <= first) {
        return Box::new(std::iter::empty());
    }
    let rows = partition
        .rows
        .range::<[u8], _>((start, end.map_or(Bound::Unbounded, Bound::Excluded)));
    if reversed {
        Box::new(rows.rev())
    } else {
        Box::new(rows)
    }
}
