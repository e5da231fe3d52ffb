//! Values in statements: which types their bind markers have, and which bytes they stand for.

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use messina_core::types::column_type::{ColumnType, UdtType};
use messina_core::wire::result::ColumnSpec;
use uuid::Uuid;

use crate::node::CqlError;
use crate::node::schema::Table;
use crate::node::values::{
    encode_duration, encode_list, encode_map, encode_set, put_cell, put_unsigned_vint, validate,
    varint_from_digits, vector_width,
};

use super::ast::{Literal, RawType, Term};
use super::dates::{parse_date, parse_time, parse_timestamp};
use super::functions::Function;
use super::types::{CqlType, UserTypes};

/// What a bind variable or a term holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Null,
    Unset,
    Value(Bytes),
}

/// What terms are evaluated with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Env<'a> {
    /// One for each bind variable, checked against its type.
    pub(crate) values: &'a [Bound],
    /// Microseconds since 1970.
    pub(crate) now: i64,
    /// Makes `now()` and `uuid()` unique.
    pub(crate) unique: &'a Cell<u64>,
}

/// Learns the types of bind markers while a statement is planned.
#[derive(Debug)]
pub(crate) struct Binder<'a> {
    names: &'a [Option<String>],
    specs: Vec<Option<ColumnSpec>>,
    pub(crate) keyspace: Arc<str>,
    pub(crate) table: Arc<str>,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(names: &'a [Option<String>]) -> Self {
        let (keyspace, table) = (Arc::from(""), Arc::from(""));
        Self {
            names,
            specs: vec![None; names.len()],
            keyspace,
            table,
        }
    }

    /// Markers from here on belong to this table.
    pub(crate) fn enter(&mut self, table: &Table) {
        self.keyspace = table.keyspace.clone();
        self.table = table.name.clone();
    }

    pub(crate) fn finish(self) -> Result<Arc<[ColumnSpec]>, CqlError> {
        self.specs
            .into_iter()
            .map(|spec| {
                spec.ok_or_else(|| CqlError::invalid("Cannot infer the type of a bind marker"))
            })
            .collect()
    }

    /// A term that a receiver of this name and type takes.
    pub(crate) fn bind(
        &mut self,
        term: &Term,
        name: &str,
        ty: &ColumnType,
    ) -> Result<(), CqlError> {
        match term {
            Term::Marker(index) => {
                self.mark(*index, name, ty);
                return Ok(());
            }
            Term::Tuple(items) if items.len() == 1 && !matches!(ty, ColumnType::Tuple(_)) => {
                if let Some(item) = items.first() {
                    return self.bind(item, name, ty);
                }
            }
            _ => {}
        }
        self.bind_parts(term, name, ty)?;
        if !has_marker(term) {
            // A constant that cannot be a value of the type is an error already now.
            let unique = Cell::new(0);
            evaluate(
                term,
                name,
                ty,
                &Env {
                    values: &[],
                    now: 0,
                    unique: &unique,
                },
            )?;
        }
        Ok(())
    }

    fn mark(&mut self, index: usize, name: &str, ty: &ColumnType) {
        let own_name = self.names.get(index).and_then(|name| name.as_deref());
        let spec = ColumnSpec {
            keyspace: self.keyspace.clone(),
            table: self.table.clone(),
            name: own_name.unwrap_or(name).into(),
            ty: ty.clone(),
        };
        if let Some(slot) = self.specs.get_mut(index) {
            slot.get_or_insert(spec);
        }
    }

    fn bind_parts(&mut self, term: &Term, name: &str, ty: &ColumnType) -> Result<(), CqlError> {
        match (term, ty) {
            (Term::List(items), ColumnType::List(element))
            | (Term::List(items), ColumnType::Vector { element, .. })
            | (Term::Set(items), ColumnType::Set(element)) => {
                for item in items {
                    self.bind(item, &format!("value({name})"), element)?;
                }
            }
            (Term::Map(entries), ColumnType::Map(types)) => {
                for (key, value) in entries {
                    self.bind(key, &format!("key({name})"), &types.0)?;
                    self.bind(value, &format!("value({name})"), &types.1)?;
                }
            }
            (Term::Fields(fields), ColumnType::Udt(udt)) => {
                for (field, value) in fields {
                    if let Some((_, ty)) = udt.fields.iter().find(|(known, _)| **known == **field) {
                        self.bind(value, &format!("{name}.{field}"), ty)?;
                    }
                }
            }
            (Term::Tuple(items), ColumnType::Tuple(types)) => {
                for (at, (item, ty)) in items.iter().zip(types.iter()).enumerate() {
                    self.bind(item, &format!("{name}[{at}]"), ty)?;
                }
            }
            (
                Term::Call {
                    name: function,
                    arguments,
                },
                _,
            ) => {
                let found = Function::find(function)?;
                for (at, argument) in arguments.iter().enumerate() {
                    let ty = found.argument_type(at, &term_type(argument, &UserTypes::new()));
                    self.bind(argument, &format!("arg{at}(system.{function})"), &ty)?;
                }
            }
            (Term::Cast(raw, inner), _) => {
                let cast = native_cast(raw)?;
                self.bind(inner, name, &cast)?;
            }
            _ => {}
        }
        Ok(())
    }
}

fn native_cast(raw: &RawType) -> Result<ColumnType, CqlError> {
    Ok(CqlType::from_raw(raw, "", &UserTypes::new())?.on_wire(&Arc::from(""), &UserTypes::new()))
}

/// The type that a term has by itself, if it has one.
pub(crate) fn term_type(term: &Term, types: &UserTypes) -> Option<ColumnType> {
    match term {
        Term::Cast(raw, _) => {
            let ty = CqlType::from_raw(raw, "", types).ok()?;
            Some(ty.on_wire(&Arc::from(""), types))
        }
        Term::Call { name, .. } => Function::find(name)
            .ok()
            .map(|function| function.return_type()),
        Term::Literal(Literal::Text(_)) => Some(ColumnType::Text),
        Term::Literal(Literal::Boolean(_)) => Some(ColumnType::Boolean),
        Term::Literal(Literal::Uuid(_)) => Some(ColumnType::Uuid),
        Term::Literal(Literal::Blob(_)) => Some(ColumnType::Blob),
        Term::Literal(Literal::Duration { .. }) => Some(ColumnType::Duration),
        _ => None,
    }
}

fn has_marker(term: &Term) -> bool {
    match term {
        Term::Marker(_) => true,
        Term::Literal(_) => false,
        Term::List(items) | Term::Set(items) | Term::Tuple(items) => items.iter().any(has_marker),
        Term::Map(entries) => entries
            .iter()
            .any(|(key, value)| has_marker(key) || has_marker(value)),
        Term::Fields(fields) => fields.iter().any(|(_, value)| has_marker(value)),
        Term::Call { arguments, .. } => arguments.iter().any(has_marker),
        Term::Cast(_, inner) => has_marker(inner),
    }
}

/// The bytes that a term stands for in a receiver of this name and type.
pub(crate) fn evaluate(
    term: &Term,
    name: &str,
    ty: &ColumnType,
    env: &Env<'_>,
) -> Result<Bound, CqlError> {
    let value = match term {
        Term::Marker(index) => return Ok(env.values.get(*index).cloned().unwrap_or(Bound::Null)),
        Term::Literal(Literal::Null) => return Ok(Bound::Null),
        Term::Literal(literal) => literal_bytes(literal, ty)
            .ok_or_else(|| unfit(literal, name, ty))?
            .into(),
        Term::Call {
            name: function,
            arguments,
        } => {
            return call(function, arguments, name, ty, env);
        }
        Term::Cast(raw, inner) => return evaluate(inner, name, &native_cast(raw)?, env),
        Term::Tuple(items) if !matches!(ty, ColumnType::Tuple(_)) => match items.as_slice() {
            [item] => return evaluate(item, name, ty, env),
            _ => return Err(unfit_shape("tuple", name, ty)),
        },
        _ => collection(term, name, ty, env)?,
    };
    validate(ty, &value).map_err(|why| {
        CqlError::invalid(format!(
            "Exception while binding column {name}: marshaling error: {why}"
        ))
    })?;
    Ok(Bound::Value(value))
}

/// Like [`evaluate`], for places where a value must be.
pub(crate) fn evaluate_some(
    term: &Term,
    name: &str,
    ty: &ColumnType,
    env: &Env<'_>,
) -> Result<Bytes, CqlError> {
    match evaluate(term, name, ty, env)? {
        Bound::Value(bytes) => Ok(bytes),
        Bound::Null => Err(CqlError::invalid(format!(
            "Invalid null value in condition for column {name}"
        ))),
        Bound::Unset => Err(CqlError::invalid(format!(
            "Invalid unset value for column {name}"
        ))),
    }
}

fn call(
    function: &str,
    arguments: &[Term],
    name: &str,
    ty: &ColumnType,
    env: &Env<'_>,
) -> Result<Bound, CqlError> {
    let found = Function::find(function)?;
    let result_type = found.return_type();
    let fits = result_type == *ty
        || matches!((&result_type, ty), (ColumnType::Timeuuid, ColumnType::Uuid))
        || matches!(
            (&result_type, ty),
            (ColumnType::BigInt, ColumnType::Timestamp)
        );
    if !fits {
        return Err(CqlError::invalid(format!(
            "Type error: cannot assign result of function system.{function} (type {result_type}) to {name} (type {ty})"
        )));
    }
    let mut values = Vec::new();
    for (at, argument) in arguments.iter().enumerate() {
        let ty = found.argument_type(at, &term_type(argument, &UserTypes::new()));
        let value = match evaluate(argument, name, &ty, env)? {
            Bound::Value(bytes) => Some(bytes),
            Bound::Null | Bound::Unset => None,
        };
        values.push((ty, value));
    }
    Ok(found.call(&values, env)?.map_or(Bound::Null, Bound::Value))
}

fn unfit(literal: &Literal, name: &str, ty: &ColumnType) -> CqlError {
    let (kind, text) = match literal {
        Literal::Null => ("NULL", "null".to_owned()),
        Literal::Integer(text) => ("INTEGER", text.clone()),
        Literal::Float(text) => ("FLOAT", text.clone()),
        Literal::Text(text) => ("STRING", text.clone()),
        Literal::Boolean(value) => ("BOOLEAN", value.to_string()),
        Literal::Uuid(uuid) => ("UUID", uuid.to_string()),
        Literal::Blob(_) => ("HEX", "0x".to_owned()),
        Literal::Duration { .. } => ("DURATION", "duration".to_owned()),
    };
    CqlError::invalid(format!(
        "Invalid {kind} constant ({text}) for \"{name}\" of type {ty}"
    ))
}

fn unfit_shape(shape: &str, name: &str, ty: &ColumnType) -> CqlError {
    CqlError::invalid(format!("Invalid {shape} literal for {name} of type {ty}"))
}

fn collection(term: &Term, name: &str, ty: &ColumnType, env: &Env<'_>) -> Result<Bytes, CqlError> {
    let inner = |item: &Term, ty: &ColumnType| match evaluate(item, name, ty, env)? {
        Bound::Value(bytes) => Ok(bytes),
        Bound::Null => Err(CqlError::invalid(
            "null is not supported inside collections",
        )),
        Bound::Unset => Err(CqlError::invalid(
            "unset value is not supported inside collections",
        )),
    };
    match (term, ty) {
        (Term::List(items), ColumnType::List(element)) => {
            let items = items.iter().map(|item| inner(item, element));
            Ok(encode_list(&items.collect::<Result<Vec<_>, _>>()?))
        }
        (Term::List(items), ColumnType::Vector { element, dimension }) => {
            if u32::try_from(items.len()) != Ok(*dimension) {
                return Err(CqlError::invalid(format!(
                    "Invalid vector literal for {name}: expected {dimension} elements, got {}",
                    items.len()
                )));
            }
            let mut out = Vec::new();
            for item in items {
                let item = inner(item, element)?;
                if vector_width(element).is_none() {
                    put_unsigned_vint(u64::try_from(item.len()).unwrap_or(u64::MAX), &mut out);
                }
                out.extend_from_slice(&item);
            }
            Ok(out.into())
        }
        (Term::Set(items), ColumnType::Set(element)) => {
            let items = items.iter().map(|item| inner(item, element));
            Ok(encode_set(element, items.collect::<Result<Vec<_>, _>>()?))
        }
        (Term::Set(items), ColumnType::Map(_)) if items.is_empty() => Ok(encode_list::<&[u8]>(&[])),
        (Term::Map(entries), ColumnType::Map(types)) => {
            let entries = entries
                .iter()
                .map(|(key, value)| Ok((inner(key, &types.0)?, inner(value, &types.1)?)));
            Ok(encode_map(
                &types.0,
                entries.collect::<Result<Vec<_>, CqlError>>()?,
            ))
        }
        (Term::Tuple(items), ColumnType::Tuple(types)) if items.len() <= types.len() => {
            let mut out = Vec::new();
            for (item, ty) in items.iter().zip(types.iter()) {
                put_component(evaluate(item, name, ty, env)?, &mut out);
            }
            Ok(out.into())
        }
        (Term::Fields(fields), ColumnType::Udt(udt)) => udt_value(fields, udt, name, env),
        (Term::Set(items), ColumnType::Udt(udt)) if items.is_empty() => {
            udt_value(&[], udt, name, env)
        }
        (Term::List(_), _) => Err(unfit_shape("list", name, ty)),
        (Term::Set(_), _) => Err(unfit_shape("set", name, ty)),
        (Term::Map(_), _) => Err(unfit_shape("map", name, ty)),
        (Term::Fields(_), _) => Err(unfit_shape("user type", name, ty)),
        _ => Err(unfit_shape("tuple", name, ty)),
    }
}

/// A value of a user type; fields that are not named are null.
fn udt_value(
    fields: &[(String, Term)],
    udt: &UdtType,
    name: &str,
    env: &Env<'_>,
) -> Result<Bytes, CqlError> {
    let is_known = |field: &str| udt.fields.iter().any(|(known, _)| **known == *field);
    if let Some((field, _)) = fields.iter().find(|(field, _)| !is_known(field)) {
        return Err(CqlError::invalid(format!(
            "Unknown field '{field}' in value of user defined type {}",
            udt.name
        )));
    }
    let mut out = Vec::new();
    for (known, ty) in &udt.fields {
        let value = match fields.iter().find(|(field, _)| **field == **known) {
            Some((_, term)) => evaluate(term, name, ty, env)?,
            None => Bound::Null,
        };
        put_component(value, &mut out);
    }
    Ok(out.into())
}

fn put_component(value: Bound, out: &mut Vec<u8>) {
    match value {
        Bound::Value(bytes) => put_cell(Some(&bytes), out),
        Bound::Null | Bound::Unset => put_cell(None, out),
    }
}

/// The bytes of a constant, if it can be a value of the type.
fn literal_bytes(literal: &Literal, ty: &ColumnType) -> Option<Vec<u8>> {
    Some(match (ty, literal) {
        (ColumnType::TinyInt, Literal::Integer(n)) => n.parse::<i8>().ok()?.to_be_bytes().to_vec(),
        (ColumnType::SmallInt, Literal::Integer(n)) => {
            n.parse::<i16>().ok()?.to_be_bytes().to_vec()
        }
        (ColumnType::Int, Literal::Integer(n)) => n.parse::<i32>().ok()?.to_be_bytes().to_vec(),
        (ColumnType::BigInt | ColumnType::Counter | ColumnType::Timestamp, Literal::Integer(n)) => {
            n.parse::<i64>().ok()?.to_be_bytes().to_vec()
        }
        (ColumnType::Date, Literal::Integer(n)) => n.parse::<u32>().ok()?.to_be_bytes().to_vec(),
        (ColumnType::Time, Literal::Integer(n)) => n.parse::<i64>().ok()?.to_be_bytes().to_vec(),
        (ColumnType::Varint, Literal::Integer(n)) => varint_from_digits(n)?,
        (ColumnType::Decimal, Literal::Integer(n) | Literal::Float(n)) => decimal_bytes(n)?,
        (ColumnType::Float, Literal::Integer(n) | Literal::Float(n)) => {
            n.parse::<f32>().ok()?.to_be_bytes().to_vec()
        }
        (ColumnType::Double, Literal::Integer(n) | Literal::Float(n)) => {
            n.parse::<f64>().ok()?.to_be_bytes().to_vec()
        }
        (ColumnType::Boolean, Literal::Boolean(value)) => vec![u8::from(*value)],
        (ColumnType::Text | ColumnType::Ascii, Literal::Text(text)) => text.as_bytes().to_vec(),
        (ColumnType::Blob | ColumnType::Custom(_), Literal::Blob(bytes)) => bytes.clone(),
        (ColumnType::Uuid | ColumnType::Timeuuid, Literal::Uuid(uuid)) => uuid.as_bytes().to_vec(),
        (ColumnType::Uuid | ColumnType::Timeuuid, Literal::Text(text)) => {
            Uuid::try_parse(text).ok()?.as_bytes().to_vec()
        }
        (ColumnType::Inet, Literal::Text(text)) => match text.parse::<IpAddr>().ok()? {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        },
        (ColumnType::Timestamp, Literal::Text(text)) => {
            parse_timestamp(text)?.to_be_bytes().to_vec()
        }
        (ColumnType::Date, Literal::Text(text)) => u32::try_from(parse_date(text)? + (1 << 31))
            .ok()?
            .to_be_bytes()
            .to_vec(),
        (ColumnType::Time, Literal::Text(text)) => parse_time(text)?.to_be_bytes().to_vec(),
        (
            ColumnType::Duration,
            Literal::Duration {
                months,
                days,
                nanoseconds,
            },
        ) => encode_duration(*months, *days, *nanoseconds),
        _ => return None,
    })
}

/// Scale and unscaled number of `12.5e-3`.
fn decimal_bytes(text: &str) -> Option<Vec<u8>> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    let mut out = scale.to_be_bytes().to_vec();
    out.extend(varint_from_digits(&format!("{whole}{fraction}"))?);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(literal: Literal, ty: &ColumnType) -> Option<Bound> {
        let unique = Cell::new(0);
        let env = Env {
            values: &[],
            now: 0,
            unique: &unique,
        };
        evaluate(&Term::Literal(literal), "v", ty, &env).ok()
    }

    fn bytes(of: &[u8]) -> Option<Bound> {
        Some(Bound::Value(Bytes::copy_from_slice(of)))
    }

    #[test]
    fn constants_become_the_bytes_of_the_receiving_type() {
        let number = |text: &str| Literal::Integer(text.into());
        let text = |text: &str| Literal::Text(text.into());
        assert_eq!(value(number("-1"), &ColumnType::TinyInt), bytes(&[0xff]));
        assert_eq!(value(number("300"), &ColumnType::TinyInt), None);
        assert_eq!(
            value(number("2147483648"), &ColumnType::Date),
            bytes(&[0x80, 0, 0, 0])
        );
        assert_eq!(
            value(text("1970-01-01"), &ColumnType::Date),
            bytes(&[0x80, 0, 0, 0])
        );
        let decimal = value(Literal::Float("-1e-20".into()), &ColumnType::Decimal);
        assert_eq!(decimal, bytes(&[0, 0, 0, 20, 0xff]));
        let decimal = value(Literal::Float("1.50".into()), &ColumnType::Decimal);
        assert_eq!(decimal, bytes(&[0, 0, 0, 2, 0, 150]));
        assert_eq!(
            value(text("127.0.0.1"), &ColumnType::Inet),
            bytes(&[127, 0, 0, 1])
        );
        assert_eq!(value(text("x"), &ColumnType::Int), None);
        assert_eq!(value(Literal::Null, &ColumnType::Int), Some(Bound::Null));
        let nan = value(Literal::Float("nan".into()), &ColumnType::Double);
        assert!(matches!(nan, Some(Bound::Value(_))));
    }

    #[test]
    fn the_wrong_kind_of_constant_is_named_in_the_error() {
        let unique = Cell::new(0);
        let env = Env {
            values: &[],
            now: 0,
            unique: &unique,
        };
        let term = Term::Literal(Literal::Text("x".into()));
        let error = evaluate(&term, "v", &ColumnType::Int, &env).unwrap_err();
        assert_eq!(
            error.message,
            "Invalid STRING constant (x) for \"v\" of type int"
        );
    }

    #[test]
    fn markers_inside_of_collections_get_the_type_of_the_element() {
        let names = [None, None];
        let mut binder = Binder::new(&names);
        let map = ColumnType::Map(Arc::new((ColumnType::Text, ColumnType::Int)));
        binder
            .bind(
                &Term::Map(vec![(Term::Marker(0), Term::Marker(1))]),
                "m",
                &map,
            )
            .unwrap();
        let specs = binder.finish().unwrap();
        assert_eq!(
            (&*specs[0].name, &specs[0].ty),
            ("key(m)", &ColumnType::Text)
        );
        assert_eq!(
            (&*specs[1].name, &specs[1].ty),
            ("value(m)", &ColumnType::Int)
        );
    }
}
