//! Changes of single cells: their values, and what the old value and the change make together.

use std::sync::Arc;

use bytes::Bytes;
use messina_core::types::column_type::ColumnType;

use crate::node::CqlError;
use crate::node::schema::Table;
use crate::node::values::{
    components, encode_list, encode_map, encode_set, entries, items, put_cell,
};

use super::ast::Term;
use super::lookup::optional;
use super::modify::CellChange;
use super::terms::{Bound, Env, evaluate};

/// A change of one cell with its values.
#[derive(Clone, Debug)]
pub(super) enum CellWrite {
    Put(Option<Bytes>),
    Add(Bytes),
    Prepend(Bytes),
    Subtract(Bytes),
    PutElement { key: Bytes, value: Option<Bytes> },
    PutField { at: usize, value: Option<Bytes> },
}

/// The values of one change; `None` when it is not set and so nothing happens.
pub(super) fn cell_write(
    table: &Table,
    index: usize,
    change: &CellChange,
    env: &Env<'_>,
) -> Result<Option<CellWrite>, CqlError> {
    let Some(column) = table.columns.get(index) else {
        return Ok(None);
    };
    let (name, ty) = (&*column.name, &column.ty);
    let operand = |term, ty: &ColumnType| optional(term, name, ty, env);
    Ok(match change {
        CellChange::Set(term) => match evaluate(term, name, ty, env)? {
            Bound::Unset => None,
            Bound::Null => Some(CellWrite::Put(None)),
            Bound::Value(bytes) => Some(CellWrite::Put(Some(bytes))),
        },
        CellChange::Add(term) => operand(term, ty)?.map(CellWrite::Add),
        CellChange::Prepend(term) => operand(term, ty)?.map(CellWrite::Prepend),
        CellChange::Subtract(term) => {
            let ty = match ty {
                ColumnType::Map(types) => ColumnType::Set(Arc::new(types.0.clone())),
                ty => ty.clone(),
            };
            operand(term, &ty)?.map(CellWrite::Subtract)
        }
        CellChange::SetElement { key, value } => return put_element(name, ty, key, value, env),
        CellChange::SetField { at, value } => {
            let ColumnType::Udt(udt) = ty else {
                return Ok(None);
            };
            let Some((_, field)) = udt.fields.get(*at) else {
                return Ok(None);
            };
            match evaluate(value, name, field, env)? {
                Bound::Unset => None,
                Bound::Null => Some(CellWrite::PutField {
                    at: *at,
                    value: None,
                }),
                Bound::Value(value) => Some(CellWrite::PutField {
                    at: *at,
                    value: Some(value),
                }),
            }
        }
        CellChange::Delete => Some(CellWrite::Put(None)),
        CellChange::DeleteElement(key) => {
            let key_type = match ty {
                ColumnType::Map(types) => types.0.clone(),
                ColumnType::Set(element) => (**element).clone(),
                _ => ColumnType::Int,
            };
            operand(key, &key_type)?.map(|key| CellWrite::PutElement { key, value: None })
        }
        CellChange::DeleteField { at } => Some(CellWrite::PutField {
            at: *at,
            value: None,
        }),
    })
}

/// One element that is set, by its key or index.
fn put_element(
    name: &str,
    ty: &ColumnType,
    key: &Term,
    value: &Term,
    env: &Env<'_>,
) -> Result<Option<CellWrite>, CqlError> {
    let (key_type, value_type) = match ty {
        ColumnType::Map(types) => (types.0.clone(), types.1.clone()),
        ColumnType::List(element) => (ColumnType::Int, (**element).clone()),
        _ => return Ok(None),
    };
    let Some(key) = optional(key, name, &key_type, env)? else {
        return Err(CqlError::invalid(format!(
            "Invalid null value for an element of {name}"
        )));
    };
    Ok(match evaluate(value, name, &value_type, env)? {
        Bound::Unset => None,
        Bound::Null => Some(CellWrite::PutElement { key, value: None }),
        Bound::Value(value) => Some(CellWrite::PutElement {
            key,
            value: Some(value),
        }),
    })
}

/// Whether a collection or user type that can be written in parts holds nothing, which is null.
pub(super) fn is_hollow(ty: &ColumnType, value: &[u8]) -> bool {
    match ty {
        ColumnType::List(_) | ColumnType::Set(_) => {
            items(value).is_ok_and(|items| items.is_empty())
        }
        ColumnType::Map(_) => entries(value).is_ok_and(|entries| entries.is_empty()),
        ColumnType::Udt(udt) => {
            components(value, udt.fields.len()).is_ok_and(|parts| parts.iter().all(Option::is_none))
        }
        _ => false,
    }
}

/// The new value of a cell.
pub(super) fn combine(
    ty: &ColumnType,
    old: Option<&Bytes>,
    write: &CellWrite,
) -> Result<Option<Bytes>, CqlError> {
    let old_bytes: &[u8] = old.map_or(&[], |old| old);
    match (write, ty) {
        (CellWrite::Put(value), _) => Ok(value.clone()),
        (CellWrite::Add(delta) | CellWrite::Subtract(delta), ColumnType::Counter) => {
            let number = |bytes: &[u8]| {
                bytes
                    .first_chunk::<8>()
                    .map_or(0, |bytes| i64::from_be_bytes(*bytes))
            };
            let (old, delta) = (number(old_bytes), number(delta));
            let new = match write {
                CellWrite::Add(_) => old.wrapping_add(delta),
                _ => old.wrapping_sub(delta),
            };
            Ok(Some(Bytes::copy_from_slice(&new.to_be_bytes())))
        }
        (CellWrite::PutField { at, value }, ColumnType::Udt(udt)) => {
            let mut parts = components(old_bytes, udt.fields.len()).map_err(CqlError::invalid)?;
            if let Some(part) = parts.get_mut(*at) {
                *part = value.as_deref();
            }
            let mut out = Vec::new();
            for part in parts {
                put_cell(part, &mut out);
            }
            Ok(Some(out.into()))
        }
        (_, ColumnType::Map(types)) => combine_map(&types.0, old_bytes, write).map(Some),
        (_, ColumnType::Set(element)) => {
            let mut members = items(old_bytes).map_err(CqlError::invalid)?;
            match write {
                CellWrite::Subtract(gone) => {
                    let gone = items(gone).map_err(CqlError::invalid)?;
                    members.retain(|member| !gone.contains(member));
                }
                CellWrite::Add(more) | CellWrite::Prepend(more) => {
                    members.extend(items(more).map_err(CqlError::invalid)?);
                }
                CellWrite::PutElement { key, .. } => members.retain(|member| *member != &**key),
                _ => {}
            }
            Ok(Some(encode_set(element, members)))
        }
        (_, ColumnType::List(_)) => combine_list(old_bytes, write).map(Some),
        _ => Err(CqlError::invalid(format!(
            "Invalid operation on a column of type {ty}"
        ))),
    }
}

fn combine_map(key_type: &ColumnType, old: &[u8], write: &CellWrite) -> Result<Bytes, CqlError> {
    let mut found = entries(old).map_err(CqlError::invalid)?;
    match write {
        CellWrite::Subtract(gone) => {
            let gone = items(gone).map_err(CqlError::invalid)?;
            found.retain(|(key, _)| !gone.contains(key));
        }
        CellWrite::Add(more) | CellWrite::Prepend(more) => {
            found.extend(entries(more).map_err(CqlError::invalid)?);
        }
        CellWrite::PutElement { key, value } => {
            found.retain(|(old, _)| *old != &**key);
            if let Some(value) = value {
                found.push((&**key, &**value));
            }
        }
        _ => {}
    }
    Ok(encode_map(key_type, found))
}

fn combine_list(old: &[u8], write: &CellWrite) -> Result<Bytes, CqlError> {
    let mut found = items(old).map_err(CqlError::invalid)?;
    match write {
        CellWrite::Subtract(gone) => {
            let gone = items(gone).map_err(CqlError::invalid)?;
            found.retain(|item| !gone.contains(item));
        }
        CellWrite::Add(more) => found.extend(items(more).map_err(CqlError::invalid)?),
        CellWrite::Prepend(more) => {
            let mut longer = items(more).map_err(CqlError::invalid)?;
            longer.extend(found);
            found = longer;
        }
        CellWrite::PutElement { key, value } => {
            if old.is_empty() {
                return Err(CqlError::invalid(
                    "Attempted to set an element on a list which is null",
                ));
            }
            let index = key
                .first_chunk::<4>()
                .map_or(-1, |bytes| i32::from_be_bytes(*bytes));
            let len = found.len();
            let at = usize::try_from(index)
                .ok()
                .filter(|at| *at < len)
                .ok_or_else(|| {
                    CqlError::invalid(format!(
                        "List index {index} out of bound, list has size {len}"
                    ))
                })?;
            match (value, found.get_mut(at)) {
                (Some(value), Some(item)) => *item = value,
                _ => {
                    found.remove(at);
                }
            }
        }
        _ => {}
    }
    Ok(encode_list(&found))
}
