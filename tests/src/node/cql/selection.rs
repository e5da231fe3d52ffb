//! The items of a SELECT: their names and types, and what they compute from a row or from all rows.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;
use messina_core::types::column_type::ColumnType;
use messina_core::wire::result::ColumnSpec;

use crate::node::CqlError;
use crate::node::schema::{ColumnKind, Table};
use crate::node::store::{Partition, RowView};
use crate::node::values::{compare, components, entries};

use super::ast::{Expression, Selector, Term};
use super::functions::Function;
use super::lookup::optional;
use super::terms::{Binder, Env, term_type};
use super::types::{CqlType, UserTypes};

/// One item.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Column(usize),
    Writetime(usize),
    Ttl(usize),
    Token,
    Term(Term, ColumnType),
    Call(Function, Vec<(Self, ColumnType)>),
    Field(Box<Self>, usize, usize),
    Element(Box<Self>, Box<Term>, ColumnType, ColumnType),
    Aggregate(Aggregate, Box<Option<Self>>, ColumnType),
}

/// A function of all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Count,
    Min,
    Max,
    Sum,
    Average,
}

/// All items with the columns of the result.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) items: Vec<Item>,
    pub(crate) columns: Arc<[ColumnSpec]>,
    pub(crate) is_aggregate: bool,
}

/// What the items of one row are computed from.
#[derive(Clone, Copy)]
pub(crate) struct RowContext<'a> {
    pub(crate) table: &'a Table,
    pub(crate) partition: &'a Partition,
    pub(crate) token: i64,
    pub(crate) statics: RowView<'a>,
    /// Absent for a partition that has static columns only.
    pub(crate) row: Option<RowView<'a>>,
}

impl<'a> RowContext<'a> {
    /// The value of a column.
    pub(crate) fn value(&self, index: usize) -> Option<&'a Bytes> {
        let column = self.table.columns.get(index)?;
        let keys = self.partition.key.len();
        match column.kind {
            ColumnKind::PartitionKey => self.partition.key.get(index),
            ColumnKind::Clustering(_) => self.row?.clustering().get(index.checked_sub(keys)?),
            ColumnKind::Static => self.statics.value(&column.name),
            ColumnKind::Regular => self.row?.value(&column.name),
        }
    }

    fn cell(&self, index: usize) -> Option<&'a crate::node::store::Cell> {
        let column = self.table.columns.get(index)?;
        match column.kind {
            ColumnKind::Static => self.statics.cell(&column.name),
            ColumnKind::Regular => self.row?.cell(&column.name),
            _ => None,
        }
    }
}

impl Selection {
    pub(crate) fn new(
        table: &Table,
        selectors: Option<&[Selector]>,
        types: &UserTypes,
        binder: &mut Binder<'_>,
    ) -> Result<Self, CqlError> {
        let Some(selectors) = selectors else {
            let columns = table
                .columns
                .iter()
                .map(|column| table.column_spec(column))
                .collect();
            let items = (0..table.columns.len()).map(Item::Column).collect();
            return Ok(Self {
                items,
                columns,
                is_aggregate: false,
            });
        };
        let mut selection = Planner {
            table,
            types,
            binder,
        };
        let (mut items, mut columns) = (Vec::new(), Vec::new());
        for selector in selectors {
            let (item, ty) = selection.item(&selector.expression)?;
            let name = selector
                .alias
                .clone()
                .unwrap_or_else(|| shown(&selector.expression));
            columns.push(table.spec(&name, &ty));
            items.push(item);
        }
        let is_aggregate = items.iter().any(|item| matches!(item, Item::Aggregate(..)));
        Ok(Self {
            items,
            columns: columns.into(),
            is_aggregate,
        })
    }
}

struct Planner<'a, 'b> {
    table: &'a Table,
    types: &'a UserTypes,
    binder: &'a mut Binder<'b>,
}

impl Planner<'_, '_> {
    fn column(&self, name: &str) -> Result<(usize, ColumnType), CqlError> {
        match self.table.column(name) {
            Some((index, column)) => Ok((index, column.ty.clone())),
            None => Err(CqlError::invalid(format!("Unrecognized name {name}"))),
        }
    }

    fn item(&mut self, expression: &Expression) -> Result<(Item, ColumnType), CqlError> {
        match expression {
            Expression::Column(name) => {
                let (index, ty) = self.column(name)?;
                Ok((Item::Column(index), ty))
            }
            Expression::CountAll => {
                let item = Item::Aggregate(Aggregate::Count, Box::new(None), ColumnType::BigInt);
                Ok((item, ColumnType::BigInt))
            }
            Expression::Writetime(name) => {
                let (index, _) = self.value_column(name, "writeTime")?;
                Ok((Item::Writetime(index), ColumnType::BigInt))
            }
            Expression::Ttl(name) => {
                let (index, _) = self.value_column(name, "ttl")?;
                Ok((Item::Ttl(index), ColumnType::Int))
            }
            Expression::Call { name, arguments } => self.call(name, arguments),
            Expression::Field(inner, field) => {
                let (inner, ty) = self.item(inner)?;
                let ColumnType::Udt(udt) = &ty else {
                    return Err(CqlError::invalid(format!(
                        "Invalid field selection: {field} of a value of type {ty}"
                    )));
                };
                let found = udt.fields.iter().position(|(known, _)| **known == **field);
                let Some((at, (_, field_type))) =
                    found.and_then(|at| Some((at, udt.fields.get(at)?)))
                else {
                    return Err(CqlError::invalid(format!(
                        "{} of type {ty} has no field {field}",
                        udt.name
                    )));
                };
                let item = Item::Field(Box::new(inner), at, udt.fields.len());
                Ok((item, field_type.clone()))
            }
            Expression::Element(inner, key) => {
                let (inner, ty) = self.item(inner)?;
                let (key_type, value_type) = match &ty {
                    ColumnType::Map(types) => (types.0.clone(), types.1.clone()),
                    ColumnType::Set(element) => ((**element).clone(), (**element).clone()),
                    ColumnType::List(element) => (ColumnType::Int, (**element).clone()),
                    _ => {
                        return Err(CqlError::invalid(format!(
                            "Invalid element selection: {ty} is not a collection"
                        )));
                    }
                };
                self.binder.bind(key, "key", &key_type)?;
                Ok((
                    Item::Element(Box::new(inner), key.clone(), ty, key_type),
                    value_type,
                ))
            }
            Expression::Cast(..) => Err(CqlError::invalid("CAST is not simulated")),
            Expression::Term(term) => {
                let ty = term_type(term, self.types)
                    .ok_or_else(|| CqlError::invalid("Cannot infer type for term in selection clause (try using a cast to force a type)"))?;
                if let Term::Cast(raw, _) = term {
                    // The cast must be to a type that exists here.
                    CqlType::from_raw(raw, &self.table.keyspace, self.types)?;
                }
                self.binder.bind(term, "term", &ty)?;
                Ok((Item::Term(term.clone(), ty.clone()), ty))
            }
        }
    }

    fn value_column(&self, name: &str, function: &str) -> Result<(usize, ColumnType), CqlError> {
        let (index, ty) = self.column(name)?;
        let key = self
            .table
            .columns
            .get(index)
            .is_some_and(|column| column.kind.is_key());
        if key {
            return Err(CqlError::invalid(format!(
                "Cannot use selection function {function} on PRIMARY KEY part {name}"
            )));
        }
        Ok((index, ty))
    }

    fn call(
        &mut self,
        name: &str,
        arguments: &[Expression],
    ) -> Result<(Item, ColumnType), CqlError> {
        if name == "token" {
            let keys = self.table.partition_key().map(|column| &*column.name);
            let named = arguments.iter().map(|argument| match argument {
                Expression::Column(name) => name.as_str(),
                _ => "",
            });
            if !keys.eq(named) {
                return Err(CqlError::invalid(
                    "the token() function must get the partition key's columns in order",
                ));
            }
            return Ok((Item::Token, ColumnType::BigInt));
        }
        if let Some(aggregate) = Aggregate::find(name) {
            let [argument] = arguments else {
                return Err(CqlError::invalid(format!(
                    "Invalid number of arguments in call to function {name}"
                )));
            };
            let (item, ty) = self.item(argument)?;
            let result = if aggregate == Aggregate::Count {
                ColumnType::BigInt
            } else {
                ty.clone()
            };
            if matches!(aggregate, Aggregate::Sum | Aggregate::Average) && !is_summable(&ty) {
                return Err(CqlError::invalid(format!(
                    "Invalid call to function {name}, none of its type signatures match"
                )));
            }
            return Ok((Item::Aggregate(aggregate, Box::new(Some(item)), ty), result));
        }
        let function = Function::find(name)?;
        let mut items = Vec::new();
        for (at, argument) in arguments.iter().enumerate() {
            if let Expression::Term(term) = argument {
                let ty = function.argument_type(at, &term_type(term, self.types));
                self.binder
                    .bind(term, &format!("arg{at}(system.{name})"), &ty)?;
                items.push((Item::Term(term.clone(), ty.clone()), ty));
            } else {
                items.push(self.item(argument)?);
            }
        }
        let ty = function.return_type();
        Ok((Item::Call(function, items), ty))
    }
}

/// The name that an item has without an alias.
fn shown(expression: &Expression) -> String {
    match expression {
        Expression::Column(name) => name.clone(),
        Expression::CountAll => "count".to_owned(),
        Expression::Writetime(name) => format!("writetime({name})"),
        Expression::Ttl(name) => format!("ttl({name})"),
        Expression::Call { name, arguments } => {
            let arguments: Vec<String> = arguments.iter().map(shown).collect();
            format!("system.{name}({})", arguments.join(", "))
        }
        Expression::Field(inner, field) => format!("{}.{field}", shown(inner)),
        Expression::Element(inner, _) => format!("{}[]", shown(inner)),
        Expression::Cast(inner, _) => shown(inner),
        Expression::Term(_) => "term".to_owned(),
    }
}

impl Aggregate {
    fn find(name: &str) -> Option<Self> {
        Some(match name {
            "count" => Self::Count,
            "min" => Self::Min,
            "max" => Self::Max,
            "sum" => Self::Sum,
            "avg" => Self::Average,
            _ => return None,
        })
    }
}

fn is_summable(ty: &ColumnType) -> bool {
    matches!(
        ty,
        ColumnType::TinyInt
            | ColumnType::SmallInt
            | ColumnType::Int
            | ColumnType::BigInt
            | ColumnType::Counter
            | ColumnType::Float
            | ColumnType::Double
    )
}

impl Item {
    /// What the item is for one row.
    pub(crate) fn compute(
        &self,
        row: &RowContext<'_>,
        env: &Env<'_>,
    ) -> Result<Option<Bytes>, CqlError> {
        Ok(match self {
            Self::Column(index) => row.value(*index).cloned(),
            Self::Writetime(index) => row
                .cell(*index)
                .map(|cell| Bytes::copy_from_slice(&cell.life.timestamp.to_be_bytes())),
            Self::Ttl(index) => row
                .cell(*index)
                .and_then(|cell| cell.life.expiry)
                .map(|expiry| {
                    let left = (expiry.at - env.now).div_euclid(1_000_000);
                    let left = i32::try_from(left).unwrap_or(expiry.ttl);
                    Bytes::copy_from_slice(&left.to_be_bytes())
                }),
            Self::Token => Some(Bytes::copy_from_slice(&row.token.to_be_bytes())),
            Self::Term(term, ty) => optional(term, "term", ty, env)?,
            Self::Call(function, arguments) => {
                let mut values = Vec::new();
                for (argument, ty) in arguments {
                    values.push((ty.clone(), argument.compute(row, env)?));
                }
                function.call(&values, env)?
            }
            Self::Field(inner, at, count) => {
                let Some(value) = inner.compute(row, env)? else {
                    return Ok(None);
                };
                let parts = components(&value, *count).map_err(CqlError::invalid)?;
                parts
                    .get(*at)
                    .copied()
                    .flatten()
                    .map(|part| value.slice_ref(part))
            }
            Self::Element(inner, key, ty, key_type) => {
                let Some(value) = inner.compute(row, env)? else {
                    return Ok(None);
                };
                let Some(key) = optional(key, "key", key_type, env)? else {
                    return Ok(None);
                };
                element(&value, &key, ty)
            }
            Self::Aggregate(_, argument, _) => match &**argument {
                Some(item) => item.compute(row, env)?,
                // `count(*)` counts every row, so its argument is never null.
                None => Some(Bytes::new()),
            },
        })
    }
}

fn element(value: &Bytes, key: &Bytes, ty: &ColumnType) -> Option<Bytes> {
    match ty {
        ColumnType::Map(_) => {
            let entries = entries(value).ok()?;
            entries
                .into_iter()
                .find(|(k, _)| *k == &**key)
                .map(|(_, found)| value.slice_ref(found))
        }
        ColumnType::List(_) => {
            let index = usize::try_from(i32::from_be_bytes(*key.first_chunk::<4>()?)).ok()?;
            let items = crate::node::values::items(value).ok()?;
            items.get(index).map(|item| value.slice_ref(item))
        }
        _ => {
            let items = crate::node::values::items(value).ok()?;
            items
                .into_iter()
                .find(|item| *item == &**key)
                .map(|item| value.slice_ref(item))
        }
    }
}

/// Collects the values of one item over all rows.
#[derive(Clone, Debug)]
pub(crate) struct Accumulator {
    aggregate: Option<Aggregate>,
    ty: ColumnType,
    count: i64,
    chosen: Option<Bytes>,
    whole: i128,
    float: f64,
}

impl Accumulator {
    pub(crate) fn new(item: &Item) -> Self {
        let (aggregate, ty) = match item {
            Item::Aggregate(aggregate, _, ty) => (Some(*aggregate), ty.clone()),
            _ => (None, ColumnType::Blob),
        };
        Self {
            aggregate,
            ty,
            count: 0,
            chosen: None,
            whole: 0,
            float: 0.0,
        }
    }

    pub(crate) fn add(&mut self, value: Option<Bytes>) {
        let Some(value) = value else { return };
        self.count += 1;
        match self.aggregate {
            // An item that is no aggregate shows its first row.
            None => {
                self.chosen.get_or_insert(value);
            }
            Some(Aggregate::Count) => {}
            Some(Aggregate::Min | Aggregate::Max) => {
                let wanted = if self.aggregate == Some(Aggregate::Min) {
                    Ordering::Less
                } else {
                    Ordering::Greater
                };
                let better = self
                    .chosen
                    .as_ref()
                    .is_none_or(|old| compare(&self.ty, Some(&value), Some(old)) == wanted);
                if better {
                    self.chosen = Some(value);
                }
            }
            Some(Aggregate::Sum | Aggregate::Average) => match value.len() {
                4 if self.ty == ColumnType::Float => {
                    self.float += value
                        .first_chunk::<4>()
                        .map_or(0.0, |b| f64::from(f32::from_be_bytes(*b)));
                }
                8 if self.ty == ColumnType::Double => {
                    self.float += value
                        .first_chunk::<8>()
                        .map_or(0.0, |b| f64::from_be_bytes(*b));
                }
                _ => self.whole += signed(&value),
            },
        }
    }

    pub(crate) fn finish(self) -> Option<Bytes> {
        let averages = self.aggregate == Some(Aggregate::Average);
        match self.aggregate {
            Some(Aggregate::Count) => Some(Bytes::copy_from_slice(&self.count.to_be_bytes())),
            Some(Aggregate::Sum | Aggregate::Average) => {
                let divisor = if averages && 0 < self.count {
                    self.count
                } else {
                    1
                };
                let whole = self.whole / i128::from(divisor);
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "an average of floats is a float"
                )]
                let float = self.float / divisor as f64;
                Some(number_bytes(&self.ty, whole, float))
            }
            _ => self.chosen,
        }
    }
}

fn signed(bytes: &[u8]) -> i128 {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let start = if negative { -1 } else { 0 };
    bytes
        .iter()
        .take(8)
        .fold(start, |value: i128, byte| (value << 8) | i128::from(*byte))
}

/// Sums wrap around in the width of their type, as the server's do.
fn number_bytes(ty: &ColumnType, whole: i128, float: f64) -> Bytes {
    let bytes = whole.to_be_bytes();
    let tail = |width: usize| Bytes::copy_from_slice(bytes.get(16 - width..).unwrap_or(&[]));
    match ty {
        ColumnType::TinyInt => tail(1),
        ColumnType::SmallInt => tail(2),
        ColumnType::Int => tail(4),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a sum of floats is a float"
        )]
        ColumnType::Float => Bytes::copy_from_slice(&(float as f32).to_be_bytes()),
        ColumnType::Double => Bytes::copy_from_slice(&float.to_be_bytes()),
        _ => tail(8),
    }
}
