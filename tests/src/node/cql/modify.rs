//! INSERT, UPDATE and DELETE checked against the schema. What they do to the data is in `write`.

use std::sync::Arc;

use messina_core::types::column_type::ColumnType;
use messina_core::wire::result::ColumnSpec;

use crate::node::CqlError;
use crate::node::schema::ddl::not_modifiable;
use crate::node::schema::{Column, ColumnKind, Schema, Table};

use super::ast::{
    Assignment, AssignmentKind, Change, ColumnCondition, Condition, Modify, Part, Place, Term,
};
use super::relations::{Purpose, Restriction, Where, bind_right};
use super::terms::Binder;

/// A modification that was checked against the schema.
#[derive(Clone, Debug)]
pub(crate) struct ModifyPlan {
    pub(crate) table: Arc<Table>,
    pub(crate) clause: Where,
    pub(crate) kind: ModifyKind,
    pub(crate) cells: Vec<CellPlan>,
    pub(crate) condition: PlannedCondition,
    pub(crate) timestamp: Option<Term>,
    pub(crate) ttl: Option<Term>,
    pub(crate) timeout: Option<Term>,
}

/// Which statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModifyKind {
    Insert,
    Update,
    Delete,
}

/// What happens to one column.
#[derive(Clone, Debug)]
pub(crate) struct CellPlan {
    pub(crate) column: usize,
    pub(crate) change: CellChange,
}

/// The ways to change a cell.
#[derive(Clone, Debug)]
pub(crate) enum CellChange {
    Set(Term),
    Add(Term),
    Prepend(Term),
    Subtract(Term),
    SetElement { key: Term, value: Term },
    SetField { at: usize, value: Term },
    Delete,
    DeleteElement(Term),
    DeleteField { at: usize },
}

/// The IF clause.
#[derive(Clone, Debug)]
pub(crate) enum PlannedCondition {
    None,
    NotExists,
    Exists,
    Columns(Vec<PlannedComparison>),
}

/// One comparison of an IF clause.
#[derive(Clone, Debug)]
pub(crate) struct PlannedComparison {
    pub(crate) column: usize,
    pub(crate) part: PlannedPart,
    /// The type of what is compared.
    pub(crate) ty: ColumnType,
    pub(crate) restriction: Restriction,
}

/// Which part of a column is compared.
#[derive(Clone, Debug)]
pub(crate) enum PlannedPart {
    Whole,
    Element(Term, ColumnType),
    Field(usize, usize),
}

impl ModifyPlan {
    pub(crate) fn new(
        modify: &Modify,
        schema: &Schema,
        in_use: Option<&str>,
        binder: &mut Binder<'_>,
    ) -> Result<Self, CqlError> {
        let table = schema.table(&modify.table, in_use)?;
        if schema.keyspace(&table.keyspace)?.is_system {
            return Err(not_modifiable(&table.keyspace));
        }
        binder.enter(table);
        if let Some(timestamp) = &modify.using.timestamp {
            binder.bind(timestamp, "[timestamp]", &ColumnType::BigInt)?;
        }
        if let Some(ttl) = &modify.using.ttl {
            binder.bind(ttl, "[ttl]", &ColumnType::Int)?;
        }
        if let Some(timeout) = &modify.using.timeout {
            binder.bind(timeout, "[timeout]", &ColumnType::Duration)?;
        }
        let mut cells = Vec::new();
        let (clause, kind) = match &modify.change {
            Change::Insert { columns, values } => {
                let clause = insert(table, columns, values, &mut cells, binder)?;
                (clause, ModifyKind::Insert)
            }
            Change::Update(assignments) => {
                for assignment in assignments {
                    cells.push(assign(table, assignment, binder)?);
                }
                let clause = Where::new(table, &modify.relations, Purpose::Modify, binder)?;
                (clause, ModifyKind::Update)
            }
            Change::Delete(places) => {
                for place in places {
                    cells.push(delete(table, place, binder)?);
                }
                let clause = Where::new(table, &modify.relations, Purpose::Modify, binder)?;
                (clause, ModifyKind::Delete)
            }
        };
        let condition = condition(table, &modify.condition, binder)?;
        let plan = Self {
            table: table.clone(),
            clause,
            kind,
            cells,
            condition,
            timestamp: modify.using.timestamp.clone(),
            ttl: modify.using.ttl.clone(),
            timeout: modify.using.timeout.clone(),
        };
        plan.check_clustering()?;
        Ok(plan)
    }

    pub(crate) fn is_conditional(&self) -> bool {
        !matches!(self.condition, PlannedCondition::None)
    }

    /// Whether only static columns are touched, so that no row is meant.
    pub(crate) fn is_static_only(&self) -> bool {
        let no_rows = self.clause.clustering.iter().all(Vec::is_empty);
        let statics = self
            .cells
            .iter()
            .all(|cell| self.kind_of(cell.column) == ColumnKind::Static);
        no_rows && statics && !self.cells.is_empty() && !self.clause.clustering.is_empty()
    }

    fn kind_of(&self, column: usize) -> ColumnKind {
        self.table
            .columns
            .get(column)
            .map_or(ColumnKind::Regular, |column| column.kind)
    }

    fn check_clustering(&self) -> Result<(), CqlError> {
        let whole_delete = self.kind == ModifyKind::Delete && self.cells.is_empty();
        let conditions_static = match &self.condition {
            PlannedCondition::Columns(columns) => columns
                .iter()
                .all(|column| self.kind_of(column.column) == ColumnKind::Static),
            _ => true,
        };
        if self.is_static_only() && conditions_static {
            return Ok(());
        }
        if whole_delete && !self.is_conditional() {
            return Ok(());
        }
        let missing = self
            .table
            .clustering_key()
            .zip(&self.clause.clustering)
            .find(|(_, restrictions)| {
                use super::ast::Operator;
                !restrictions
                    .iter()
                    .any(|r| matches!(r.operator, Operator::Equal | Operator::In))
            });
        match missing {
            Some((column, _)) => Err(CqlError::invalid(format!(
                "Missing mandatory PRIMARY KEY part {}",
                column.name
            ))),
            None => Ok(()),
        }
    }

    /// The columns after `[applied]` in the result of a conditional statement.
    pub(crate) fn condition_columns(&self) -> Vec<usize> {
        match &self.condition {
            PlannedCondition::None => Vec::new(),
            PlannedCondition::NotExists | PlannedCondition::Exists => {
                (0..self.table.columns.len()).collect()
            }
            PlannedCondition::Columns(columns) => {
                let mut indexes: Vec<usize> = columns.iter().map(|column| column.column).collect();
                indexes.sort_unstable();
                indexes.dedup();
                indexes
            }
        }
    }
}

/// The columns of a conditional statement's result.
pub(crate) fn applied_columns(table: &Table, indexes: &[usize]) -> Arc<[ColumnSpec]> {
    let applied = table.spec("[applied]", &ColumnType::Boolean);
    let columns = indexes.iter().filter_map(|index| table.columns.get(*index));
    std::iter::once(applied)
        .chain(columns.map(|column| table.column_spec(column)))
        .collect()
}

fn target<'a>(table: &'a Table, name: &str) -> Result<(usize, &'a Column), CqlError> {
    table
        .column(name)
        .ok_or_else(|| CqlError::invalid(format!("Unknown identifier {name}")))
}

fn insert(
    table: &Arc<Table>,
    columns: &[String],
    values: &[Term],
    cells: &mut Vec<CellPlan>,
    binder: &mut Binder<'_>,
) -> Result<Where, CqlError> {
    if table.is_counter() {
        return Err(CqlError::invalid(
            "INSERT statement are not allowed on counter tables, use UPDATE instead",
        ));
    }
    let mut clause = Where::everything(table);
    for (at, (name, value)) in columns.iter().zip(values).enumerate() {
        if columns.iter().take(at).any(|earlier| earlier == name) {
            return Err(CqlError::invalid("The column names contains duplicates"));
        }
        let (index, column) = target(table, name)?;
        if column.kind.is_key() {
            clause.add_equal(name, value, binder)?;
            continue;
        }
        binder.bind(value, name, &column.ty)?;
        cells.push(CellPlan {
            column: index,
            change: CellChange::Set(value.clone()),
        });
    }
    if let Some((column, _)) = table
        .partition_key()
        .zip(&clause.partition)
        .find(|(_, r)| r.is_none())
    {
        return Err(CqlError::invalid(format!(
            "Missing mandatory PRIMARY KEY part {}",
            column.name
        )));
    }
    Ok(clause)
}

fn value_target<'a>(table: &'a Table, name: &str) -> Result<(usize, &'a Column), CqlError> {
    let (index, column) = target(table, name)?;
    if column.kind.is_key() {
        return Err(CqlError::invalid(format!(
            "PRIMARY KEY part {name} found in SET part"
        )));
    }
    Ok((index, column))
}

fn assign(
    table: &Table,
    assignment: &Assignment,
    binder: &mut Binder<'_>,
) -> Result<CellPlan, CqlError> {
    let Assignment { place, kind, value } = assignment;
    let (column, found) = value_target(table, &place.column)?;
    let (name, ty) = (&*found.name, &found.ty);
    let counter = *ty == ColumnType::Counter;
    let change = match (&place.part, kind) {
        (Part::Whole, AssignmentKind::Set) if counter => {
            return Err(CqlError::invalid(format!(
                "Cannot set the value of counter column {name} (counters can only be incremented/decremented, not set)"
            )));
        }
        (Part::Whole, AssignmentKind::Set) => {
            binder.bind(value, name, ty)?;
            CellChange::Set(value.clone())
        }
        (Part::Whole, _) if !counter && !found.cql_type.is_multi_cell() => {
            return Err(CqlError::invalid(format!(
                "Invalid operation ({name} = {name} + …) for non counter column {name}"
            )));
        }
        (Part::Whole, AssignmentKind::Add) => {
            binder.bind(value, name, ty)?;
            CellChange::Add(value.clone())
        }
        (Part::Whole, AssignmentKind::Prepend) => {
            binder.bind(value, name, ty)?;
            if matches!(ty, ColumnType::List(_)) {
                CellChange::Prepend(value.clone())
            } else {
                CellChange::Add(value.clone())
            }
        }
        (Part::Whole, AssignmentKind::Subtract) => {
            let ty = match ty {
                ColumnType::Map(types) => ColumnType::Set(Arc::new(types.0.clone())),
                ty => ty.clone(),
            };
            binder.bind(value, name, &ty)?;
            CellChange::Subtract(value.clone())
        }
        (Part::Element(key), AssignmentKind::Set) => {
            let (key_type, value_type, key_name) = element_types(found)?;
            binder.bind(key, &key_name, &key_type)?;
            binder.bind(value, &format!("value({name})"), &value_type)?;
            CellChange::SetElement {
                key: key.clone(),
                value: value.clone(),
            }
        }
        (Part::Field(field), AssignmentKind::Set) => {
            let (at, field_type) = field_of(found, field)?;
            binder.bind(value, &format!("{name}.{field}"), &field_type)?;
            CellChange::SetField {
                at,
                value: value.clone(),
            }
        }
        _ => return Err(CqlError::invalid(format!("Invalid operation on {name}"))),
    };
    Ok(CellPlan { column, change })
}

fn element_types(column: &Column) -> Result<(ColumnType, ColumnType, String), CqlError> {
    let name = &column.name;
    match &column.ty {
        _ if !column.cql_type.is_multi_cell() => Err(CqlError::invalid(format!(
            "Invalid operation on frozen or simple column {name}"
        ))),
        ColumnType::Map(types) => Ok((types.0.clone(), types.1.clone(), format!("key({name})"))),
        ColumnType::List(element) => {
            Ok((ColumnType::Int, (**element).clone(), format!("idx({name})")))
        }
        ColumnType::Set(element) => Ok((
            (**element).clone(),
            (**element).clone(),
            format!("value({name})"),
        )),
        _ => Err(CqlError::invalid(format!(
            "Invalid operation on {name}: it has no elements"
        ))),
    }
}

fn field_of(column: &Column, field: &str) -> Result<(usize, ColumnType), CqlError> {
    let ColumnType::Udt(udt) = &column.ty else {
        return Err(CqlError::invalid(format!(
            "Invalid operation on {}: it has no fields",
            column.name
        )));
    };
    if !column.cql_type.is_multi_cell() {
        return Err(CqlError::invalid(format!(
            "Invalid operation on frozen column {}",
            column.name
        )));
    }
    let found = udt
        .fields
        .iter()
        .enumerate()
        .find(|(_, (name, _))| **name == *field);
    found.map(|(at, (_, ty))| (at, ty.clone())).ok_or_else(|| {
        CqlError::invalid(format!(
            "UDT column {} does not have a field named {field}",
            column.name
        ))
    })
}

fn delete(table: &Table, place: &Place, binder: &mut Binder<'_>) -> Result<CellPlan, CqlError> {
    let (column, found) = target(table, &place.column)?;
    if found.kind.is_key() {
        return Err(CqlError::invalid(format!(
            "Invalid identifier {} for deletion (should not be a PRIMARY KEY part)",
            found.name
        )));
    }
    let change = match &place.part {
        Part::Whole => CellChange::Delete,
        Part::Element(key) => {
            let (key_type, _, key_name) = element_types(found)?;
            binder.bind(key, &key_name, &key_type)?;
            CellChange::DeleteElement(key.clone())
        }
        Part::Field(field) => CellChange::DeleteField {
            at: field_of(found, field)?.0,
        },
    };
    Ok(CellPlan { column, change })
}

fn condition(
    table: &Table,
    condition: &Condition,
    binder: &mut Binder<'_>,
) -> Result<PlannedCondition, CqlError> {
    let columns = match condition {
        Condition::None => return Ok(PlannedCondition::None),
        _ if table.is_counter() => {
            return Err(CqlError::invalid(
                "Conditional updates are not supported on counter tables",
            ));
        }
        Condition::NotExists => return Ok(PlannedCondition::NotExists),
        Condition::Exists => return Ok(PlannedCondition::Exists),
        Condition::Columns(columns) => columns,
    };
    let columns = columns
        .iter()
        .map(|column| comparison(table, column, binder));
    Ok(PlannedCondition::Columns(
        columns.collect::<Result<_, _>>()?,
    ))
}

fn comparison(
    table: &Table,
    condition: &ColumnCondition,
    binder: &mut Binder<'_>,
) -> Result<PlannedComparison, CqlError> {
    let (column, found) = target(table, &condition.place.column)?;
    if found.kind.is_key() {
        return Err(CqlError::invalid(format!(
            "PRIMARY KEY column '{}' cannot have IF conditions",
            found.name
        )));
    }
    let restriction = Restriction {
        operator: condition.operator,
        value: condition.value.clone(),
    };
    let (part, name, ty) = match &condition.place.part {
        Part::Whole => (PlannedPart::Whole, found.name.to_string(), found.ty.clone()),
        Part::Element(key) => {
            let (key_type, value_type) = match &found.ty {
                ColumnType::Map(types) => (types.0.clone(), types.1.clone()),
                ColumnType::List(element) => (ColumnType::Int, (**element).clone()),
                _ => {
                    return Err(CqlError::invalid(format!(
                        "Invalid element access on column {}",
                        found.name
                    )));
                }
            };
            binder.bind(key, &format!("key({})", found.name), &key_type)?;
            (
                PlannedPart::Element(key.clone(), key_type),
                format!("value({})", found.name),
                value_type,
            )
        }
        Part::Field(field) => {
            let ColumnType::Udt(udt) = &found.ty else {
                return Err(CqlError::invalid(format!(
                    "Invalid field access on column {}",
                    found.name
                )));
            };
            let at = udt.fields.iter().position(|(name, _)| **name == **field);
            let Some((at, (_, ty))) = at.and_then(|at| Some((at, udt.fields.get(at)?))) else {
                return Err(CqlError::invalid(format!("Unknown field {field}")));
            };
            (
                PlannedPart::Field(at, udt.fields.len()),
                format!("{}.{field}", found.name),
                ty.clone(),
            )
        }
    };
    bind_right(&restriction, &name, &ty, binder)?;
    Ok(PlannedComparison {
        column,
        part,
        ty,
        restriction,
    })
}
