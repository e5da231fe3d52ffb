//! WHERE clauses with their values: which partitions and ranges of rows to read, and what to filter them by.

use std::collections::BTreeSet;

use bytes::Bytes;
use messina_core::routing::token::{Partitioner, TokenHasher};
use messina_core::types::column_type::ColumnType;

use crate::node::CqlError;
use crate::node::schema::{ColumnKind, Table};
use crate::node::store::{PartitionPlace, RowRange, successor};
use crate::node::values::{compare, components, entries, items, put_clustering};

use super::ast::{Direction, Operator, RelationValue};
use super::relations::{Filter, Restriction, TokenValue, Where};
use super::terms::{Bound, Env, evaluate, evaluate_some};

/// Where to look.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// The partitions in token order; `None` is all of them.
    pub(crate) partitions: Option<Vec<(PartitionPlace, Vec<Bytes>)>>,
    /// Tokens from the first to the second, both included.
    pub(crate) tokens: (i64, i64),
    /// The rows of each partition, in order.
    pub(crate) rows: Vec<RowRange>,
    /// The clustering keys, when every column of it is given.
    pub(crate) keys: Option<Vec<ClusteringKey>>,
    pub(crate) predicates: Vec<Predicate>,
    /// Whether clustering columns are restricted, which hides partitions without rows.
    pub(crate) restricts_rows: bool,
}

/// A clustering key: in its ordered form and by columns.
pub(crate) type ClusteringKey = (Vec<u8>, Vec<Bytes>);

/// Something that is true or false of a row.
#[derive(Clone, Debug)]
pub(crate) enum Predicate {
    Column {
        index: usize,
        operator: Operator,
        values: Vec<Bytes>,
    },
    Element {
        index: usize,
        key: Bytes,
        operator: Operator,
        values: Vec<Bytes>,
    },
    /// Each value is one tuple.
    Tuple {
        indexes: Vec<usize>,
        operator: Operator,
        values: Vec<Vec<Bytes>>,
    },
}

/// The bound on the combinations that IN may make, as the server has it.
const COMBINATIONS_MAX: usize = 100;

impl Lookup {
    pub(crate) fn new(clause: &Where, env: &Env<'_>) -> Result<Self, CqlError> {
        let mut lookup = Self {
            partitions: None,
            tokens: (i64::MIN, i64::MAX),
            rows: Vec::new(),
            keys: None,
            predicates: Vec::new(),
            restricts_rows: false,
        };
        lookup.find_partitions(clause, env)?;
        for (operator, value) in &clause.tokens {
            lookup.narrow(*operator, token_value(clause, value, env)?)?;
        }
        lookup.find_rows(clause, env)?;
        for filter in &clause.filters {
            lookup
                .predicates
                .push(predicate(&clause.table, filter, env)?);
        }
        Ok(lookup)
    }

    fn find_partitions(&mut self, clause: &Where, env: &Env<'_>) -> Result<(), CqlError> {
        let columns: Vec<_> = clause.table.partition_key().collect();
        let whole = clause.has_whole_partition_key();
        let mut keys: Vec<Vec<Bytes>> = vec![Vec::new()];
        for (at, (column, restriction)) in columns.iter().zip(&clause.partition).enumerate() {
            let Some(restriction) = restriction else {
                continue;
            };
            let values = right_values(restriction, &column.name, &column.ty, env)?;
            if whole {
                keys = product(&keys, &values)?;
            } else {
                let operator = restriction.operator;
                self.predicates.push(Predicate::Column {
                    index: at,
                    operator,
                    values,
                });
            }
        }
        if !whole {
            return Ok(());
        }
        let mut places = BTreeSet::new();
        for key in keys {
            places.insert((place_of(&key)?, key));
        }
        self.partitions = Some(places.into_iter().collect());
        Ok(())
    }

    fn narrow(&mut self, operator: Operator, token: i64) -> Result<(), CqlError> {
        let (low, high) = &mut self.tokens;
        // Beyond the last token there is nothing; an empty range says so.
        let nothing = (i64::MAX, i64::MIN);
        match operator {
            Operator::Equal => (*low, *high) = ((*low).max(token), (*high).min(token)),
            Operator::Greater => match token.checked_add(1) {
                Some(next) => *low = (*low).max(next),
                None => self.tokens = nothing,
            },
            Operator::GreaterOrEqual => *low = (*low).max(token),
            // The smallest number stands for the end of the ring, too.
            Operator::Less | Operator::LessOrEqual if token == i64::MIN => {}
            Operator::Less => *high = (*high).min(token.saturating_sub(1)),
            Operator::LessOrEqual => *high = (*high).min(token),
            _ => {
                return Err(CqlError::invalid(
                    "this operator cannot be used with the token() function",
                ));
            }
        }
        Ok(())
    }

    fn find_rows(&mut self, clause: &Where, env: &Env<'_>) -> Result<(), CqlError> {
        let table = &clause.table;
        let mut prefixes: Vec<ClusteringKey> = vec![(Vec::new(), Vec::new())];
        let mut complete = true;
        let first = table.partition_key_len();
        for (at, (column, restrictions)) in
            table.clustering_key().zip(&clause.clustering).enumerate()
        {
            let ColumnKind::Clustering(direction) = column.kind else {
                continue;
            };
            self.restricts_rows |= !restrictions.is_empty();
            let point = restrictions
                .iter()
                .find(|r| matches!(r.operator, Operator::Equal | Operator::In));
            if let (true, Some(point)) = (complete, point) {
                let mut values = right_values(point, &column.name, &column.ty, env)?;
                values.sort_by(|a, b| compare(&column.ty, Some(a), Some(b)));
                values.dedup();
                prefixes = extend(&prefixes, &values, &column.ty, direction)?;
                continue;
            }
            if complete {
                complete = false;
                let mut ranges = Vec::new();
                let bounds = bounds_of(restrictions, &column.name, &column.ty, env)?;
                for (prefix, _) in &prefixes {
                    ranges.push(range_of(prefix, &bounds, &column.ty, direction));
                }
                self.rows = ranges;
                continue;
            }
            for restriction in restrictions {
                let values = right_values(restriction, &column.name, &column.ty, env)?;
                let operator = restriction.operator;
                self.predicates.push(Predicate::Column {
                    index: first + at,
                    operator,
                    values,
                });
            }
        }
        if complete {
            self.rows = prefixes
                .iter()
                .map(|(place, _)| RowRange::of_prefix(place))
                .collect();
            self.keys = Some(prefixes);
        }
        self.rows.sort_by(|a, b| a.start.cmp(&b.start));
        Ok(())
    }
}

/// All ways to add one of the values to one of the keys.
fn product(keys: &[Vec<Bytes>], values: &[Bytes]) -> Result<Vec<Vec<Bytes>>, CqlError> {
    check_combinations("partition", keys.len(), values.len())?;
    let mut longer = Vec::new();
    for key in keys {
        for value in values {
            let mut key = key.clone();
            key.push(value.clone());
            longer.push(key);
        }
    }
    Ok(longer)
}

fn check_combinations(what: &str, a: usize, b: usize) -> Result<(), CqlError> {
    let size = a.saturating_mul(b);
    if size <= COMBINATIONS_MAX {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "{what} key cartesian product size {size} is greater than maximum {COMBINATIONS_MAX}"
    )))
}

fn extend(
    prefixes: &[ClusteringKey],
    values: &[Bytes],
    ty: &ColumnType,
    direction: Direction,
) -> Result<Vec<ClusteringKey>, CqlError> {
    check_combinations("clustering", prefixes.len(), values.len())?;
    let mut longer = Vec::new();
    for (place, key) in prefixes {
        for value in values {
            let (mut place, mut key) = (place.clone(), key.clone());
            put_clustering(ty, value, direction, &mut place);
            key.push(value.clone());
            longer.push((place, key));
        }
    }
    Ok(longer)
}

fn bounds_of(
    restrictions: &[Restriction],
    name: &str,
    ty: &ColumnType,
    env: &Env<'_>,
) -> Result<Vec<(Operator, Bytes)>, CqlError> {
    let mut bounds = Vec::new();
    for restriction in restrictions {
        for value in right_values(restriction, name, ty, env)? {
            bounds.push((restriction.operator, value));
        }
    }
    Ok(bounds)
}

fn range_of(
    prefix: &[u8],
    bounds: &[(Operator, Bytes)],
    ty: &ColumnType,
    direction: Direction,
) -> RowRange {
    let mut range = RowRange::of_prefix(prefix);
    for (operator, value) in bounds {
        let mut place = prefix.to_vec();
        put_clustering(ty, value, direction, &mut place);
        // In descending order what is less comes after.
        let from = match (operator, direction) {
            (Operator::Greater, Direction::Ascending) | (Operator::Less, Direction::Descending) => {
                successor(&place)
            }
            (Operator::GreaterOrEqual, Direction::Ascending)
            | (Operator::LessOrEqual, Direction::Descending) => Some(place),
            (Operator::Less, Direction::Ascending) | (Operator::Greater, Direction::Descending) => {
                range.end = earlier(range.end, place);
                continue;
            }
            _ => {
                if let Some(end) = successor(&place) {
                    range.end = earlier(range.end, end);
                }
                continue;
            }
        };
        if let Some(from) = from {
            range.start = range.start.max(from);
        }
    }
    range
}

fn earlier(end: Option<Vec<u8>>, other: Vec<u8>) -> Option<Vec<u8>> {
    Some(match end {
        Some(end) => end.min(other),
        None => other,
    })
}

/// Where a partition with this key stands.
pub(crate) fn place_of(key: &[Bytes]) -> Result<PartitionPlace, CqlError> {
    let mut hasher = TokenHasher::new(Partitioner::Murmur3, key.len());
    let mut hashed = Vec::new();
    for part in key {
        let too_long = || {
            CqlError::invalid(format!(
                "Key length of {} is longer than maximum of 65535",
                part.len()
            ))
        };
        let len = u16::try_from(part.len()).map_err(|_| too_long())?;
        hasher.part(part).map_err(|_| too_long())?;
        if key.len() == 1 {
            if part.is_empty() {
                return Err(CqlError::invalid("Key may not be empty"));
            }
            hashed.extend_from_slice(part);
        } else {
            hashed.extend_from_slice(&len.to_be_bytes());
            hashed.extend_from_slice(part);
            hashed.push(0);
        }
    }
    let token = hasher.finish().map_or(0, |token| token.0);
    Ok(PartitionPlace { token, key: hashed })
}

fn token_value(clause: &Where, value: &TokenValue, env: &Env<'_>) -> Result<i64, CqlError> {
    match value {
        TokenValue::Term(term) => {
            let bytes = evaluate_some(term, "partition key token", &ColumnType::BigInt, env)?;
            Ok(bytes
                .first_chunk::<8>()
                .map_or(0, |bytes| i64::from_be_bytes(*bytes)))
        }
        TokenValue::OfKey(terms) => {
            let mut key = Vec::new();
            for (term, column) in terms.iter().zip(clause.table.partition_key()) {
                key.push(evaluate_some(term, &column.name, &column.ty, env)?);
            }
            Ok(place_of(&key)?.token)
        }
    }
}

/// The values on the right side of a restriction.
pub(crate) fn right_values(
    restriction: &Restriction,
    name: &str,
    ty: &ColumnType,
    env: &Env<'_>,
) -> Result<Vec<Bytes>, CqlError> {
    match (&restriction.value, restriction.operator) {
        (RelationValue::Many(terms), _) => terms
            .iter()
            .map(|term| evaluate_some(term, name, ty, env))
            .collect(),
        (RelationValue::One(term), Operator::In) => {
            let list = ColumnType::List(ty.clone().into());
            let bytes = evaluate_some(term, &format!("IN({name})"), &list, env)?;
            let items = items(&bytes).map_err(CqlError::invalid)?;
            Ok(items
                .into_iter()
                .map(|item| bytes.slice_ref(item))
                .collect())
        }
        (RelationValue::One(_), Operator::IsNotNull) => Ok(Vec::new()),
        (RelationValue::One(term), _) => Ok(vec![evaluate_some(term, name, ty, env)?]),
    }
}

fn predicate(table: &Table, filter: &Filter, env: &Env<'_>) -> Result<Predicate, CqlError> {
    let column = |index: usize| {
        table
            .columns
            .get(index)
            .ok_or_else(|| CqlError::invalid("no such column"))
    };
    match filter {
        Filter::Column { index, restriction } => {
            let column = column(*index)?;
            let ty = match (&column.ty, restriction.operator) {
                (ColumnType::List(element) | ColumnType::Set(element), Operator::Contains) => {
                    &**element
                }
                (ColumnType::Map(types), Operator::Contains) => &types.1,
                (ColumnType::Map(types), Operator::ContainsKey) => &types.0,
                (ty, _) => ty,
            };
            let values = right_values(restriction, &column.name, ty, env)?;
            Ok(Predicate::Column {
                index: *index,
                operator: restriction.operator,
                values,
            })
        }
        Filter::Element {
            index,
            key,
            restriction,
        } => {
            let column = column(*index)?;
            let ColumnType::Map(types) = &column.ty else {
                return Err(CqlError::invalid("not a map"));
            };
            let key = evaluate_some(key, &column.name, &types.0, env)?;
            let values = right_values(restriction, &column.name, &types.1, env)?;
            Ok(Predicate::Element {
                index: *index,
                key,
                operator: restriction.operator,
                values,
            })
        }
        Filter::Tuple {
            indexes,
            restriction,
        } => {
            let types = indexes
                .iter()
                .map(|index| column(*index).map(|column| column.ty.clone()));
            let types = types.collect::<Result<Vec<_>, _>>()?;
            let count = types.len();
            let tuple = ColumnType::Tuple(types.into());
            let tuples = right_values(restriction, "tuple", &tuple, env)?;
            let values = tuples.iter().map(|value| tuple_parts(value, count));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            Ok(Predicate::Tuple {
                indexes: indexes.clone(),
                operator: restriction.operator,
                values,
            })
        }
    }
}

fn tuple_parts(value: &Bytes, count: usize) -> Result<Vec<Bytes>, CqlError> {
    let parts = components(value, count).map_err(CqlError::invalid)?;
    let null = || CqlError::invalid("Invalid null value in a multi-column relation");
    parts
        .into_iter()
        .map(|part| part.map(|part| value.slice_ref(part)).ok_or_else(null))
        .collect()
}

impl Predicate {
    /// Whether it is true of a row, whose columns are looked up by index.
    pub(crate) fn holds<'a>(
        &self,
        table: &Table,
        cell: &dyn Fn(usize) -> Option<&'a Bytes>,
    ) -> bool {
        let ty = |index: usize| table.columns.get(index).map(|column| &column.ty);
        match self {
            Self::Column {
                index,
                operator,
                values,
            } => {
                let Some(ty) = ty(*index) else { return false };
                let value = cell(*index).map(|bytes| &**bytes);
                holds(*operator, ty, value, values)
            }
            Self::Element {
                index,
                key,
                operator,
                values,
            } => {
                let Some(ColumnType::Map(types)) = ty(*index) else {
                    return false;
                };
                let Some(map) = cell(*index) else {
                    return false;
                };
                let entries = entries(map).unwrap_or_default();
                let value = entries
                    .iter()
                    .find(|(k, _)| *k == &**key)
                    .map(|(_, value)| *value);
                holds(*operator, &types.1, value, values)
            }
            Self::Tuple {
                indexes,
                operator,
                values,
            } => values.iter().any(|tuple| {
                let order = indexes
                    .iter()
                    .zip(tuple)
                    .map(|(index, part)| {
                        let value = cell(*index).map(|bytes| &**bytes);
                        ty(*index).map_or(std::cmp::Ordering::Less, |ty| {
                            compare(ty, value, Some(part))
                        })
                    })
                    .find(|order| order.is_ne())
                    .unwrap_or(std::cmp::Ordering::Equal);
                let operator = if *operator == Operator::In {
                    Operator::Equal
                } else {
                    *operator
                };
                order_holds(operator, order)
            }),
        }
    }
}

/// Whether a value, which may be null, stands in this relation to the right side.
pub(crate) fn holds(
    operator: Operator,
    ty: &ColumnType,
    value: Option<&[u8]>,
    right: &[Bytes],
) -> bool {
    let Some(value) = value else { return false };
    match operator {
        Operator::IsNotNull => true,
        Operator::In => right
            .iter()
            .any(|item| compare(ty, Some(value), Some(item)).is_eq()),
        Operator::Contains => {
            let members: Vec<&[u8]> = match ty {
                ColumnType::Map(_) => entries(value)
                    .unwrap_or_default()
                    .into_iter()
                    .map(|(_, value)| value)
                    .collect(),
                _ => items(value).unwrap_or_default(),
            };
            right.iter().all(|item| members.contains(&&**item))
        }
        Operator::ContainsKey => {
            let entries = entries(value).unwrap_or_default();
            right
                .iter()
                .all(|item| entries.iter().any(|(key, _)| *key == &**item))
        }
        _ => right
            .iter()
            .all(|item| order_holds(operator, compare(ty, Some(value), Some(item)))),
    }
}

fn order_holds(operator: Operator, order: std::cmp::Ordering) -> bool {
    match operator {
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
        _ => false,
    }
}

/// The value of a term where null and unset mean that there is none.
pub(crate) fn optional(
    term: &super::ast::Term,
    name: &str,
    ty: &ColumnType,
    env: &Env<'_>,
) -> Result<Option<Bytes>, CqlError> {
    match evaluate(term, name, ty, env)? {
        Bound::Value(bytes) => Ok(Some(bytes)),
        Bound::Null | Bound::Unset => Ok(None),
    }
}
