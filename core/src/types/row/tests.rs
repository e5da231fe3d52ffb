use std::collections::HashMap;

use super::*;
use crate::types::column_type::ColumnType;
use crate::types::encode::EncodedValues;
use crate::types::value::Value;

fn columns<const N: usize>(columns: [(&str, ColumnType); N]) -> [ColumnSpec; N] {
    columns.map(|(name, ty)| ColumnSpec {
        keyspace: "ks".into(),
        table: "t".into(),
        name: name.into(),
        ty,
    })
}

/// The cells of a page, one after another; `None` is null.
fn page(cells: &[Option<&[u8]>]) -> Bytes {
    let mut bytes = Vec::new();
    for cell in cells {
        let length = cell.map_or(-1, |cell| i32::try_from(cell.len()).unwrap());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(cell.unwrap_or_default());
    }
    bytes.into()
}

const ONE: Option<&[u8]> = Some(&[0, 0, 0, 1]);
const TWO: Option<&[u8]> = Some(&[0, 0, 0, 2]);

#[test]
fn rows_are_read_as_tuples_that_borrow_from_the_page() {
    let columns = columns([("id", ColumnType::Int), ("name", ColumnType::Text)]);
    let cells = page(&[ONE, Some(b"ada"), TWO, None]);
    let rows = Rows::<(i32, Option<&str>)>::new(&columns, 2, &cells).unwrap();
    let rows: Vec<_> = rows.map(Result::unwrap).collect();
    assert_eq!(rows, [(1, Some("ada")), (2, None)]);
    assert_eq!(rows[0].1.unwrap().as_ptr(), cells[12..].as_ptr());
}

#[test]
fn a_row_that_does_not_decode_leaves_the_rows_behind_it_readable() {
    let columns = columns([
        ("id", ColumnType::Int),
        ("name", ColumnType::Text),
        ("n", ColumnType::Int),
    ]);
    let cells = page(&[
        Some(&[1]),
        Some(b"a"),
        ONE,
        TWO,
        Some(b"b"),
        TWO,
        TWO,
        Some(&[0xff]),
        ONE,
        ONE,
        None,
        None,
    ]);
    let rows = Rows::<(i32, Option<&str>, Option<i32>)>::new(&columns, 4, &cells).unwrap();
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[0].as_ref().unwrap_err().column(), Some("id"));
    assert_eq!(rows[1].as_ref().unwrap(), &(2, Some("b"), Some(2)));
    assert_eq!(rows[2].as_ref().unwrap_err().column(), Some("name"));
    assert_eq!(rows[3].as_ref().unwrap(), &(1, None, None));
}

#[test]
fn a_page_that_is_cut_short_ends_with_one_error() {
    let columns = columns([("id", ColumnType::Int), ("name", ColumnType::Text)]);
    let cells = page(&[ONE, Some(b"a"), TWO, Some(b"bcd")]);
    for len in 13..cells.len() {
        let cut = cells.slice(..len);
        let whole: Vec<_> = Rows::<(i32, &str)>::new(&columns, 1000, &cut)
            .unwrap()
            .collect();
        assert_eq!(whole.len(), 2, "cut at {len}");
        assert!(whole[0].is_ok());
        let error = whole[1].as_ref().unwrap_err();
        assert!(
            matches!(error.kind(), DecodeErrorKind::Malformed(_)),
            "{error}"
        );
        // Rows whose cells nobody reads are walked with the same care.
        assert_eq!(Rows::<()>::new(&columns, 1000, &cut).unwrap().count(), 2);
    }
}

#[test]
fn rows_without_columns_are_counted() {
    assert_eq!(Rows::<()>::new(&[], 3, &Bytes::new()).unwrap().count(), 3);
    assert_eq!(
        Rows::<Vec<Value>>::new(&[], 2, &Bytes::new())
            .unwrap()
            .count(),
        2
    );
}

#[test]
fn columns_are_compared_before_the_first_row() {
    let columns = columns([("id", ColumnType::Int), ("name", ColumnType::Text)]);
    let cells = Bytes::new();
    let error = Rows::<(i32,)>::new(&columns, 0, &cells).unwrap_err();
    assert_eq!(
        error.to_string(),
        "(i32,) has 1 columns where the statement has 2"
    );
    let error = Rows::<(i32, i32)>::new(&columns, 0, &cells).unwrap_err();
    assert_eq!(
        error.to_string(),
        "column \"name\": i32 does not fit the CQL type text"
    );
    assert!(Rows::<Vec<Value>>::new(&columns, 0, &cells).is_ok());
    assert!(Rows::<Vec<i32>>::new(&columns, 0, &cells).is_err());
}

#[test]
fn a_row_without_a_type_is_read_by_name_and_place() {
    let columns = columns([("id", ColumnType::Int), ("name", ColumnType::Text)]);
    let cells = page(&[ONE, Some(b"ada")]);
    let row = Rows::<Row<'_>>::new(&columns, 1, &cells)
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(row.read::<&str>("name").unwrap(), "ada");
    assert_eq!(row.read_at::<i32>(0).unwrap(), 1);
    assert!(row.has("id") && !row.has("x"));
    assert_eq!(row.read::<i32>("name").unwrap_err().column(), Some("name"));
    assert!(matches!(
        row.read::<i32>("x").unwrap_err().kind(),
        DecodeErrorKind::NoColumn
    ));
    assert!(matches!(
        row.read_at::<i32>(2).unwrap_err().kind(),
        DecodeErrorKind::NoColumn
    ));
}

#[cfg(feature = "derive")]
mod derived {
    use std::borrow::Cow;
    use std::fmt::Debug;
    use std::sync::Arc;

    use super::*;
    use crate::types::{DecodeError, FromValue, ToValue, TypeErrorKind, UdtType};
    // The macros come with the traits of the same names.
    use crate::{FromRow, ToRow};

    #[derive(Debug, PartialEq, FromRow)]
    struct User<'a> {
        id: i32,
        name: &'a str,
    }

    #[test]
    fn a_struct_is_read_by_name_in_any_order_and_beside_other_columns() {
        let cells = page(&[ONE, Some(b"ada")]);
        let straight = columns([("id", ColumnType::Int), ("name", ColumnType::Text)]);
        let expected = User { id: 1, name: "ada" };
        assert_eq!(
            Rows::<User<'_>>::new(&straight, 1, &cells)
                .unwrap()
                .next()
                .unwrap()
                .unwrap(),
            expected
        );
        let more = columns([
            ("x", ColumnType::Int),
            ("name", ColumnType::Text),
            ("id", ColumnType::Int),
            ("y", ColumnType::Int),
        ]);
        let cells = page(&[None, Some(b"ada"), ONE, TWO, ONE, Some(b"bob"), TWO, None]);
        let rows: Vec<_> = Rows::<User<'_>>::new(&more, 2, &cells)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rows, [expected, User { id: 2, name: "bob" }]);
        let behind = columns([
            ("id", ColumnType::Int),
            ("name", ColumnType::Text),
            ("x", ColumnType::Int),
        ]);
        let cells = page(&[ONE, Some(b"a"), None, TWO, Some(b"b"), None]);
        assert_eq!(
            Rows::<User<'_>>::new(&behind, 2, &cells)
                .unwrap()
                .filter_map(Result::ok)
                .count(),
            2
        );
    }

    #[test]
    fn a_struct_says_which_column_is_missing_or_doubled() {
        let cells = Bytes::new();
        let missing = columns([("id", ColumnType::Int)]);
        let error = Rows::<User<'_>>::new(&missing, 0, &cells).unwrap_err();
        assert!(
            matches!(error.kind(), TypeErrorKind::Missing { name } if &**name == "name"),
            "{error}"
        );
        let doubled = columns([
            ("id", ColumnType::Int),
            ("name", ColumnType::Text),
            ("id", ColumnType::Int),
        ]);
        let error = Rows::<User<'_>>::new(&doubled, 0, &cells).unwrap_err();
        assert!(
            matches!(error.kind(), TypeErrorKind::Duplicate { name } if &**name == "id"),
            "{error}"
        );
        let wrong = columns([("id", ColumnType::BigInt), ("name", ColumnType::Text)]);
        assert_eq!(
            Rows::<User<'_>>::new(&wrong, 0, &cells)
                .unwrap_err()
                .column(),
            Some("id")
        );
    }

    #[derive(Debug, PartialEq, FromRow, ToRow)]
    struct Everything<'a, 'b, T, const N: usize>
    where
        T: Debug,
    {
        #[cql(rename = "ID")]
        id: T,
        r#type: Cow<'a, str>,
        blob: Option<&'b [u8]>,
        vector: [f32; N],
        #[cql(skip)]
        local: Vec<T>,
        #[cql(default)]
        count: i32,
    }

    #[test]
    fn lifetimes_generics_and_attributes_work_together() {
        let specs = columns([
            ("type", ColumnType::Text),
            ("ID", ColumnType::Int),
            (
                "vector",
                ColumnType::Vector {
                    element: Arc::new(ColumnType::Float),
                    dimension: 1,
                },
            ),
            ("blob", ColumnType::Blob),
        ]);
        let cells = page(&[Some(b"t"), ONE, Some(&1.5_f32.to_be_bytes()), None]);
        let mut rows = Rows::<Everything<'_, '_, i32, 1>>::new(&specs, 1, &cells).unwrap();
        let row = rows.next().unwrap().unwrap();
        let expected = Everything {
            id: 1,
            r#type: "t".into(),
            blob: None,
            vector: [1.5],
            local: Vec::new(),
            count: 0,
        };
        assert_eq!(row, expected);
        assert!(matches!(row.r#type, Cow::Borrowed(_)));
        // It needs a marker for each field, so one more than there were columns.
        let mut values = EncodedValues::new();
        let error = row
            .to_row(&specs, &mut RowWriter::new(&mut values))
            .unwrap_err();
        assert!(
            matches!(error.kind(), EncodeErrorKind::NameUnknown { name } if &**name == "count"),
            "{error}"
        );
        let [kind, id, vector, blob] = specs.clone();
        let [count, again] = columns([("count", ColumnType::Int), ("count", ColumnType::Int)]);
        values.clear();
        row.to_row(
            &[kind, id, vector, blob, count, again],
            &mut RowWriter::new(&mut values),
        )
        .unwrap();
        let zero: &[u8] = &[0; 4];
        let written = page(&[
            Some(b"t"),
            ONE,
            Some(&1.5_f32.to_be_bytes()),
            None,
            Some(zero),
            Some(zero),
        ]);
        assert_eq!(values.values().bytes, written);
    }

    #[derive(Debug, Default, PartialEq, FromRow)]
    struct Defaults {
        #[cql(default)]
        a: i32,
        #[cql(default)]
        b: String,
    }

    #[test]
    fn a_default_stands_for_a_null_and_for_a_missing_column() {
        let specs = columns([("a", ColumnType::Int), ("b", ColumnType::Text)]);
        let cells = page(&[None, Some(b"x")]);
        let row = Rows::<Defaults>::new(&specs, 1, &cells)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(
            row,
            Defaults {
                a: 0,
                b: "x".to_owned()
            }
        );
        let cells = page(&[None]);
        let row = Rows::<Defaults>::new(&specs[1..], 1, &cells)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(row, Defaults::default());
        let row = Rows::<Defaults>::new(&[], 1, &Bytes::new())
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(row, Defaults::default());
    }

    #[derive(Debug, PartialEq, FromRow, ToRow)]
    #[cql(order, crate = "messina_core")]
    struct InOrder {
        a: i32,
        b: i32,
    }

    #[derive(Debug, PartialEq, FromRow, ToRow)]
    #[cql(crate = ::messina_core)]
    struct Tuple(i32, i32);

    #[test]
    fn fields_in_order_take_columns_of_any_names() {
        let specs = columns([("max(x)", ColumnType::Int), ("min(x)", ColumnType::Int)]);
        let cells = page(&[ONE, TWO]);
        let named = Rows::<InOrder>::new(&specs, 1, &cells)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(named, InOrder { a: 1, b: 2 });
        let tuple = Rows::<Tuple>::new(&specs, 1, &cells)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(tuple, Tuple(1, 2));
        assert!(Rows::<InOrder>::new(&specs[..1], 0, &cells).is_err());
        let mut values = EncodedValues::new();
        named
            .to_row(&specs, &mut RowWriter::new(&mut values))
            .unwrap();
        tuple
            .to_row(&specs, &mut RowWriter::new(&mut values))
            .unwrap();
        assert_eq!(values.values().bytes, [&cells[..], &cells[..]].concat());
        assert!(
            named
                .to_row(&specs[..1], &mut RowWriter::new(&mut values))
                .is_err()
        );
    }

    #[derive(Debug, PartialEq, FromValue, ToValue)]
    struct Address<'a> {
        street: &'a str,
        zip: Option<i32>,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromValue, ToValue)]
    struct UserId(i64);

    fn address_type(fields: &[(&str, ColumnType)]) -> ColumnType {
        let fields = fields
            .iter()
            .map(|(name, ty)| (Arc::from(*name), ty.clone()))
            .collect();
        ColumnType::Udt(Arc::new(UdtType {
            keyspace: "ks".into(),
            name: "address".into(),
            fields,
        }))
    }

    fn read<'r, T: FromValue<'r>>(ty: &'r ColumnType, bytes: &'r [u8]) -> Result<T, DecodeError> {
        T::check(ty)?;
        T::from_value(ty, Some(Cell::of_slice(bytes)))
    }

    fn written(value: &impl ToValue, ty: &ColumnType) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::new();
        crate::types::encode_value(value, ty, &mut out).map(|()| out.split_off(4))
    }

    #[test]
    fn a_struct_is_a_user_type_by_the_names_of_its_fields() {
        let ty = address_type(&[
            ("zip", ColumnType::Int),
            ("country", ColumnType::Text),
            ("street", ColumnType::Text),
        ]);
        let bytes = page(&[ONE, Some(b"NL"), Some(b"Elm")]);
        let address: Address<'_> = read(&ty, &bytes).unwrap();
        assert_eq!(
            address,
            Address {
                street: "Elm",
                zip: Some(1)
            }
        );
        assert_eq!(
            written(&address, &ty).unwrap(),
            page(&[ONE, None, Some(b"Elm")])
        );
        // A value older than its type has no street, which a `&str` cannot say.
        let error = read::<Address<'_>>(&ty, &page(&[ONE])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "field \"street\": the value is null (&str, CQL type text)"
        );
        let narrow = address_type(&[("zip", ColumnType::Int)]);
        assert!(matches!(
            <Address<'_> as FromValue>::check(&narrow)
                .unwrap_err()
                .kind(),
            TypeErrorKind::Missing { .. }
        ));
        assert!(matches!(
            written(&address, &narrow).unwrap_err().kind(),
            EncodeErrorKind::Type(_)
        ));
        assert!(<Address<'_> as ToValue>::check(&ColumnType::Int).is_err());
        let surplus = page(&[ONE, None, Some(b"Elm"), ONE]);
        assert!(read::<Address<'_>>(&ty, &surplus).is_err());
    }

    #[test]
    fn a_struct_around_one_value_is_that_value() {
        let bytes = 7_i64.to_be_bytes();
        assert_eq!(
            read::<UserId>(&ColumnType::BigInt, &bytes).unwrap(),
            UserId(7)
        );
        assert_eq!(written(&UserId(7), &ColumnType::BigInt).unwrap(), bytes);
        assert!(<UserId as FromValue>::check(&ColumnType::Int).is_err());
        let map = ColumnType::Map(Arc::new((ColumnType::BigInt, ColumnType::Text)));
        assert!(<HashMap<UserId, String> as FromValue>::check(&map).is_ok());
    }

    #[derive(Debug, PartialEq, FromValue, ToValue)]
    #[cql(order)]
    struct Point<T> {
        x: T,
        #[cql(skip)]
        label: String,
        y: T,
    }

    #[test]
    fn a_user_type_in_order_takes_fields_of_any_names() {
        let ty = address_type(&[("a", ColumnType::Int), ("b", ColumnType::Int)]);
        let bytes = page(&[ONE, TWO]);
        let point = Point {
            x: 1,
            label: String::new(),
            y: 2,
        };
        assert_eq!(read::<Point<i32>>(&ty, &bytes).unwrap(), point);
        assert_eq!(written(&point, &ty).unwrap(), bytes);
        let wide = address_type(&[
            ("a", ColumnType::Int),
            ("b", ColumnType::Int),
            ("c", ColumnType::Int),
        ]);
        assert!(<Point<i32> as FromValue>::check(&wide).is_err());
        assert!(written(&point, &wide).is_err());
        assert!(<Point<i64> as FromValue>::check(&ty).is_err());
    }
}
