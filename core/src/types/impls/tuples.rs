//! Rust tuples as CQL tuples.

use crate::error::value::{DecodeError, EncodeError, PathStep, TypeError, TypeErrorKind};
use crate::types::column_type::ColumnType;
use crate::types::decode::{Cell, FromValue, Parts, not_null};
use crate::types::encode::{ToValue, ValueWriter};

/// Finds the components of a tuple type that has as many as the Rust tuple.
fn components<T, const N: usize>(ty: &ColumnType) -> Result<&[ColumnType; N], TypeError> {
    let ColumnType::Tuple(components) = ty else {
        return Err(TypeError::mismatch::<T>(ty));
    };
    match <&[ColumnType; N]>::try_from(&**components) {
        Ok(components) => Ok(components),
        Err(_) => {
            let kind = TypeErrorKind::Count {
                what: "components",
                expected: N,
                actual: components.len(),
            };
            Err(TypeError::new::<T>(Some(ty), kind))
        }
    }
}

#[cold]
fn in_component<T>(error: TypeError, ty: &ColumnType, index: usize) -> TypeError {
    error.in_part::<T>(ty, format!("component {index}"))
}

macro_rules! tuple {
    ($count:literal: $($name:ident $component:ident $index:tt),+) => {
        impl<'r, $($name: FromValue<'r>),+> FromValue<'r> for ($($name,)+) {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                let [$($component),+] = components::<Self, $count>(ty)?;
                $($name::check($component).map_err(|error| in_component::<Self>(error, ty, $index))?;)+
                Ok(())
            }

            fn from_value(ty: &'r ColumnType, cell: Option<Cell<'r>>) -> Result<Self, DecodeError> {
                let [$($component),+] = components::<Self, $count>(ty)?;
                let mut parts = Parts::new(not_null::<Self>(ty, cell)?);
                let read = ($(
                    $name::from_value($component, parts.next_part()?)
                        .map_err(|error| error.at(PathStep::Element($index)))?,
                )+);
                parts.finish()?;
                Ok(read)
            }
        }

        impl<$($name: ToValue),+> ToValue for ($($name,)+) {
            fn check(ty: &ColumnType) -> Result<(), TypeError> {
                let [$($component),+] = components::<Self, $count>(ty)?;
                $($name::check($component).map_err(|error| in_component::<Self>(error, ty, $index))?;)+
                Ok(())
            }

            fn to_value(&self, ty: &ColumnType, out: ValueWriter<'_>) -> Result<(), EncodeError> {
                let [$($component),+] = components::<Self, $count>(ty)?;
                out.content(|content| {
                    $(content.write($component, &self.$index)?;)+
                    Ok(())
                })
            }
        }
    };
}

tuple!(1: A a 0);
tuple!(2: A a 0, B b 1);
tuple!(3: A a 0, B b 1, C c 2);
tuple!(4: A a 0, B b 1, C c 2, D d 3);
tuple!(5: A a 0, B b 1, C c 2, D d 3, E e 4);
tuple!(6: A a 0, B b 1, C c 2, D d 3, E e 4, F f 5);
tuple!(7: A a 0, B b 1, C c 2, D d 3, E e 4, F f 5, G g 6);
tuple!(8: A a 0, B b 1, C c 2, D d 3, E e 4, F f 5, G g 6, H h 7);
tuple!(9: A a 0, B b 1, C c 2, D d 3, E e 4, F f 5, G g 6, H h 7, I i 8);
tuple!(10: A a 0, B b 1, C c 2, D d 3, E e 4, F f 5, G g 6, H h 7, I i 8, J j 9);
tuple!(11: A a 0, B b 1, C c 2, D d 3, E e 4, F f 5, G g 6, H h 7, I i 8, J j 9, K k 10);
tuple!(12: A a 0, B b 1, C c 2, D d 3, E e 4, F f 5, G g 6, H h 7, I i 8, J j 9, K k 10, L l 11);
tuple!(13: A a 0, B b 1, C c 2, D d 3, E e 4, F f 5, G g 6, H h 7, I i 8, J j 9, K k 10, L l 11, M m 12);
tuple!(14: A a 0, B b 1, C c 2, D d 3, E e 4, F f 5, G g 6, H h 7, I i 8, J j 9, K k 10, L l 11, M m 12, N n 13);
tuple!(15: A a 0, B b 1, C c 2, D d 3, E e 4, F f 5, G g 6, H h 7, I i 8, J j 9, K k 10, L l 11, M m 12, N n 13, O o 14);
tuple!(16: A a 0, B b 1, C c 2, D d 3, E e 4, F f 5, G g 6, H h 7, I i 8, J j 9, K k 10, L l 11, M m 12, N n 13, O o 14, P p 15);
