use super::*;
use crate::wire::header::{Direction, Flags, FrameHeader, Opcode};
use crate::wire::response::{Response, ResponseFrame};
use crate::wire::result::ResultBody;
use crate::wire::supported::ProtocolFeatures;

fn column(table: &str, name: &str, ty: ColumnType) -> ColumnSpec {
    ColumnSpec {
        keyspace: "ks".into(),
        table: table.into(),
        name: name.into(),
        ty,
    }
}

fn columns() -> Vec<ColumnSpec> {
    let list = ColumnType::List(Arc::new(ColumnType::Text));
    let map = ColumnType::Map(Arc::new((ColumnType::Int, ColumnType::Uuid)));
    vec![
        column("t", "a", ColumnType::BigInt),
        column("t", "b", list),
        column("t", "c", map),
    ]
}

/// Two rows of three empty cells, with these flags and between them and the rows what is given.
fn body(flags: u32, between: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&KIND_ROWS.to_be_bytes());
    body.extend_from_slice(&flags.to_be_bytes());
    body.extend_from_slice(&3_u32.to_be_bytes());
    body.extend_from_slice(between);
    body.extend_from_slice(&2_u32.to_be_bytes());
    body.extend_from_slice(&[0; 6 * 4]);
    body
}

fn known() -> KnownColumns {
    KnownColumns::new(&columns()).expect("plain columns of one table")
}

#[test]
fn known_rows_are_found_where_the_whole_reading_finds_them() {
    let known = known();
    for body in [body(GLOBAL_TABLE, &known.encoded), body(NO_METADATA, &[])] {
        let found = known.rows(&body.clone().into()).expect("plain rows");
        let header = FrameHeader {
            direction: Direction::Response,
            version: 4,
            flags: Flags::empty(),
            stream: 1,
            opcode: Opcode::Result,
            length: u32::try_from(body.len()).expect("short"),
        };
        let frame = ResponseFrame {
            header,
            body: body.clone().into(),
        };
        let envelope = frame.parse(&ProtocolFeatures::default()).expect("whole");
        let Response::Result(ResultBody::Rows(rows)) = envelope.response else {
            panic!("rows");
        };
        assert_eq!(found.row_count, rows.row_count);
        assert_eq!(&body[found.cells_at..], &rows.cells[..]);
        if let Some(read) = rows.metadata.columns {
            assert_eq!(*read, *columns());
        }
    }
}

#[test]
fn rows_of_other_columns_are_not_taken_for_known_ones() {
    let known = known();
    let whole = body(GLOBAL_TABLE, &known.encoded);
    for at in 0..HEAD + known.encoded.len() {
        let mut other = whole.clone();
        other[at] ^= 0x10;
        assert_eq!(known.rows(&other.into()), None, "byte {at}");
    }
}

#[test]
fn rows_with_a_further_page_or_newer_columns_are_read_from_the_start() {
    let known = known();
    for more in [0x02, 0x08] {
        let body = body(GLOBAL_TABLE | more, &known.encoded);
        assert_eq!(known.rows(&body.into()), None, "flag {more}");
    }
}

#[test]
fn more_rows_than_can_be_there_are_not_believed() {
    let known = known();
    let mut body = body(GLOBAL_TABLE, &known.encoded);
    let at = HEAD + known.encoded.len();
    for count in [3_u32, 0x7fff_ffff, 0xffff_ffff] {
        body[at..at + 4].copy_from_slice(&count.to_be_bytes());
        assert_eq!(known.rows(&body.clone().into()), None, "{count} rows");
    }
    body.truncate(at + 3);
    assert_eq!(known.rows(&body.into()), None, "no count of rows");
}

#[test]
fn columns_of_two_tables_or_of_types_of_ones_own_are_not_known_by_their_bytes() {
    let two = [
        column("t", "a", ColumnType::Int),
        column("u", "b", ColumnType::Int),
    ];
    assert!(KnownColumns::new(&two).is_none());
    let own = [column("t", "a", ColumnType::Custom("x.Y".into()))];
    assert!(KnownColumns::new(&own).is_none());
    assert!(KnownColumns::new(&[]).is_none());
}
