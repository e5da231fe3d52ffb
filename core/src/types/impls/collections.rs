//! Lists, sets, maps and vectors.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use crate::error::value::{DecodeError, DecodeErrorKind, EncodeError, TypeError, TypeErrorKind};
use crate::types::column_type::ColumnType;
use crate::types::decode::{Cell, Entries, FromValue, Items};
use crate::types::encode::{ToValue, ValueWriter};
use crate::types::value::check_dimension;

#[cold]
fn in_part<C: ?Sized>(error: TypeError, ty: &ColumnType, part: &str) -> TypeError {
    error.in_part::<C>(ty, part)
}

impl<'r, T: FromValue<'r>> FromValue<'r> for Vec<T> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        match ty {
            ColumnType::List(element)
            | ColumnType::Set(element)
            | ColumnType::Vector { element, .. } => {
                T::check(element).map_err(|error| in_part::<Self>(error, ty, "element"))
            }
            _ => Err(TypeError::mismatch::<Self>(ty)),
        }
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        let items = Items::<T>::from_value(ty, cell)?;
        let mut all = Self::with_capacity(items.size_hint().0);
        for item in items {
            all.push(item?);
        }
        Ok(all)
    }
}

impl<'r, T: FromValue<'r>, const N: usize> FromValue<'r> for [T; N] {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        check_array::<Self>(ty, N, |element| T::check(element))
    }

    fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
        let all = Vec::<T>::from_value(ty, cell)?;
        let actual = all.len();
        Self::try_from(all).map_err(|_| {
            DecodeError::of::<Self>(
                ty,
                DecodeErrorKind::Size {
                    expected: N,
                    actual,
                },
            )
        })
    }
}

/// Checks a vector type against an array of `len` elements.
fn check_array<C>(
    ty: &ColumnType,
    len: usize,
    check: impl FnOnce(&ColumnType) -> Result<(), TypeError>,
) -> Result<(), TypeError> {
    let ColumnType::Vector { element, dimension } = ty else {
        return Err(TypeError::mismatch::<C>(ty));
    };
    let actual = usize::try_from(*dimension).unwrap_or(usize::MAX);
    if actual != len {
        let kind = TypeErrorKind::Count {
            what: "elements",
            expected: len,
            actual,
        };
        return Err(TypeError::new::<C>(Some(ty), kind));
    }
    check(element).map_err(|error| in_part::<C>(error, ty, "element"))
}

fn check_slice<C: ?Sized, T: ToValue>(ty: &ColumnType) -> Result<(), TypeError> {
    match ty {
        ColumnType::List(element)
        | ColumnType::Set(element)
        | ColumnType::Vector { element, .. } => {
            T::check(element).map_err(|error| in_part::<C>(error, ty, "element"))
        }
        _ => Err(TypeError::mismatch::<C>(ty)),
    }
}

fn write_slice<C: ?Sized, T: ToValue>(
    values: &[T],
    ty: &ColumnType,
    out: ValueWriter<'_>,
) -> Result<(), EncodeError> {
    check_slice::<C, T>(ty)?;
    match ty {
        ColumnType::Vector { element, dimension } => {
            check_dimension::<C>(ty, *dimension, values.len())?;
            out.content(|content| {
                values
                    .iter()
                    .try_for_each(|value| content.write_element(element, value))
            })
        }
        ColumnType::List(element) | ColumnType::Set(element) => out.content(|content| {
            content.count(values.len())?;
            values
                .iter()
                .try_for_each(|value| content.write(element, value))
        }),
        _ => Err(TypeError::mismatch::<C>(ty).into()),
    }
}

impl<T: ToValue> ToValue for [T] {
    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        write_slice::<Self, T>(self, ty, out)
    }
}

impl<T: ToValue> ToValue for &[T] {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        check_slice::<Self, T>(ty)
    }

    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        write_slice::<Self, T>(self, ty, out)
    }
}

impl<T: ToValue> ToValue for Vec<T> {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        check_slice::<Self, T>(ty)
    }

    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        write_slice::<Self, T>(self, ty, out)
    }
}

impl<T: ToValue, const N: usize> ToValue for [T; N] {
    fn check(ty: &ColumnType) -> Result<(), TypeError> {
        match ty {
            ColumnType::Vector { .. } => check_array::<Self>(ty, N, |element| T::check(element)),
            _ => check_slice::<Self, T>(ty),
        }
    }

    fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
        write_slice::<Self, T>(self, ty, out)
    }
}

fn check_set<C>(
    ty: &ColumnType,
    check: impl FnOnce(&ColumnType) -> Result<(), TypeError>,
) -> Result<&ColumnType, TypeError> {
    let ColumnType::Set(element) = ty else {
        return Err(TypeError::mismatch::<C>(ty));
    };
    check(element).map_err(|error| in_part::<C>(error, ty, "element"))?;
    Ok(element)
}

fn check_map<C>(
    ty: &ColumnType,
    check_key: impl FnOnce(&ColumnType) -> Result<(), TypeError>,
    check_value: impl FnOnce(&ColumnType) -> Result<(), TypeError>,
) -> Result<&(ColumnType, ColumnType), TypeError> {
    let ColumnType::Map(types) = ty else {
        return Err(TypeError::mismatch::<C>(ty));
    };
    check_key(&types.0).map_err(|error| in_part::<C>(error, ty, "key"))?;
    check_value(&types.1).map_err(|error| in_part::<C>(error, ty, "value"))?;
    Ok(types)
}

macro_rules! set_and_map {
    ($set:ident, $map:ident, $($bound:ident)+, $($hasher:ident: $($hasher_bound:ident)+)?) => {
        impl<'r, T: FromValue<'r> $(+ $bound)+ $(, $hasher: $($hasher_bound +)+)?> FromValue<'r>
            for $set<T $(, $hasher)?>
        {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                check_set::<Self>(ty, |element| T::check(element)).map(|_| ())
            }

            fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
                Items::<T>::from_value(ty, cell)?.collect()
            }
        }

        impl<T: ToValue $(, $hasher: $($hasher_bound +)+)?> ToValue for $set<T $(, $hasher)?> {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                check_set::<Self>(ty, |element| T::check(element)).map(|_| ())
            }

            /// Writes in the order of the Rust collection: servers sort for themselves.
            fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
                let element = check_set::<Self>(ty, |element| T::check(element))?;
                out.content(|content| {
                    content.count(self.len())?;
                    self.iter().try_for_each(|value| content.write(element, value))
                })
            }
        }

        impl<'r, K: FromValue<'r> $(+ $bound)+, V: FromValue<'r> $(, $hasher: $($hasher_bound +)+)?> FromValue<'r>
            for $map<K, V $(, $hasher)?>
        {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                check_map::<Self>(ty, |key| K::check(key), |value| V::check(value)).map(|_| ())
            }

            fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
                Entries::<K, V>::from_value(ty, cell)?.collect()
            }
        }

        impl<K: ToValue, V: ToValue $(, $hasher: $($hasher_bound +)+)?> ToValue for $map<K, V $(, $hasher)?> {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                check_map::<Self>(ty, |key| K::check(key), |value| V::check(value)).map(|_| ())
            }

            /// Writes in the order of the Rust collection: servers sort for themselves.
            fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
                let types = check_map::<Self>(ty, |key| K::check(key), |value| V::check(value))?;
                out.content(|content| {
                    content.count(self.len())?;
                    self.iter().try_for_each(|(key, value)| {
                        content.write(&types.0, key)?;
                        content.write(&types.1, value)
                    })
                })
            }
        }
    };
}

set_and_map!(BTreeSet, BTreeMap, Ord,);
set_and_map!(HashSet, HashMap, Eq Hash, S: BuildHasher Default);
