use std::sync::Arc;

use super::*;
use crate::types::column_type::{ColumnType, TYPE_DEPTH_MAX};
use crate::wire::consistency::Consistency;
use crate::wire::event::SchemaTarget;
use crate::wire::header::ProtocolVersion;
use crate::wire::result::PreparedBody;
use crate::wire::server_error::{OperationKind, ServerErrorDetail, WriteType};

mod errors;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .bytes()
        .map(|c| u8::try_from(char::from(c).to_digit(16).unwrap()).unwrap())
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

fn frame(hex: &str) -> ResponseFrame {
    let bytes = bytes(hex);
    let (head, body) = bytes.split_first_chunk::<9>().unwrap();
    let header = FrameHeader::parse(head).unwrap();
    ResponseFrame {
        header,
        body: Bytes::copy_from_slice(body),
    }
}

/// A version 4 frame whose length is filled in.
fn with_body(opcode: &str, body: &str) -> ResponseFrame {
    frame(&format!("84000001{opcode}{:08x}{body}", body.len() / 2))
}

fn parse(hex: &str) -> Result<Envelope, ProtocolError> {
    frame(hex).parse(&ProtocolFeatures::default())
}

fn response(hex: &str) -> Response {
    parse(hex).unwrap().response
}

fn result(body: &str) -> Result<Response, ProtocolErrorKind> {
    let parsed = with_body("08", body).parse(&ProtocolFeatures::default());
    parsed
        .map(|envelope| envelope.response)
        .map_err(|error| error.kind)
}

fn prepared(body: &str, features: &ProtocolFeatures) -> PreparedBody {
    match with_body("08", body).parse(features).unwrap().response {
        Response::Result(ResultBody::Prepared(prepared)) => prepared,
        other => panic!("not a prepared statement: {other:?}"),
    }
}

fn event(hex: &str) -> Result<ServerEvent, ProtocolErrorKind> {
    match parse(hex).map(|envelope| envelope.response) {
        Ok(Response::Event(event)) => Ok(event),
        Ok(other) => panic!("not an event: {other:?}"),
        Err(error) => Err(error.kind),
    }
}

#[test]
fn a_partition_key_count_beyond_the_body_is_refused() {
    for (count, kind) in [
        ("ffffffff", ProtocolErrorKind::NegativeCount(-1)),
        (
            "7fffffff",
            ProtocolErrorKind::CountTooLarge {
                count: 0x7fff_ffff,
                left: 0,
            },
        ),
    ] {
        assert_eq!(
            result(&format!("000000040002aabb0000000100000000{count}")),
            Err(kind)
        );
    }
}

#[test]
fn a_column_count_beyond_the_body_is_refused() {
    for (count, kind) in [
        ("ffffffff", ProtocolErrorKind::NegativeCount(-1)),
        (
            "7fffffff",
            ProtocolErrorKind::CountTooLarge {
                count: 0x7fff_ffff,
                left: 0,
            },
        ),
        (
            "00000003",
            ProtocolErrorKind::CountTooLarge { count: 3, left: 0 },
        ),
    ] {
        assert_eq!(result(&format!("0000000200000000{count}")), Err(kind));
    }
}

#[test]
fn a_row_count_beyond_the_cells_is_refused() {
    let one_int = "00000002000000010000000100016b00017400016300 09".replace(' ', "");
    for (rows, kind) in [
        ("fffffffb", ProtocolErrorKind::NegativeCount(-5)),
        (
            "00000001",
            ProtocolErrorKind::CountTooLarge { count: 1, left: 0 },
        ),
        (
            "7fffffff",
            ProtocolErrorKind::CountTooLarge {
                count: 0x7fff_ffff,
                left: 0,
            },
        ),
    ] {
        assert_eq!(result(&format!("{one_int}{rows}")), Err(kind));
    }
}

#[test]
fn rows_without_columns_are_bounded_too() {
    assert!(result("00000002000000040000000000010000").is_ok());
    let kind = ProtocolErrorKind::CountTooLarge {
        count: 0x0001_0001,
        left: 0,
    };
    assert_eq!(result("00000002000000040000000000010001"), Err(kind));
}

#[test]
fn cells_that_are_cut_are_found_by_walking_them() {
    let rows = "0000000200000004000000020000000100000001610000000961";
    let Ok(Response::Result(ResultBody::Rows(rows))) = result(rows) else {
        panic!("rows without columns are fine as long as nobody looks at the cells")
    };
    let kind = ProtocolErrorKind::Truncated { needed: 9, left: 1 };
    assert_eq!(rows.check_cells().unwrap_err().kind, kind);
}

#[test]
fn cells_are_a_window_into_the_frame() {
    let frame = with_body("08", "000000020000000400000001000000010000000161");
    let Response::Result(ResultBody::Rows(rows)) =
        frame.parse(&ProtocolFeatures::default()).unwrap().response
    else {
        panic!("not rows")
    };
    assert_eq!((rows.row_count, rows.metadata.column_count), (1, 1));
    assert_eq!(rows.cells.as_ptr(), frame.body[16..].as_ptr());
    assert_eq!(rows.check_cells(), Ok(()));
}

#[test]
fn the_mark_of_left_out_columns_comes_before_that_of_a_global_table() {
    let Ok(Response::Result(ResultBody::Rows(rows))) =
        result("00000002000000070000000300000002abcd00000000")
    else {
        panic!("not rows")
    };
    assert_eq!(rows.metadata.columns, None);
    assert_eq!(rows.metadata.column_count, 3);
    assert!(rows.metadata.more_pages);
    assert_eq!(
        rows.metadata.paging_state.as_deref(),
        Some(&[0xab, 0xcd][..])
    );
}

#[test]
fn columns_of_one_table_share_its_name() {
    let global = "0000000200000001000000020001610001620001630009000164000d00000000";
    let single = "000000020000000000000002000161000162000163000900016100016200 0164000d00000000";
    for body in [global, &single.replace(' ', "")] {
        let Ok(Response::Result(ResultBody::Rows(rows))) = result(body) else {
            panic!("not rows: {body}")
        };
        let columns = rows.metadata.columns.unwrap();
        assert_eq!(
            (&*columns[1].keyspace, &*columns[1].table, &*columns[1].name),
            ("a", "b", "d")
        );
        assert_eq!(
            (&columns[0].ty, &columns[1].ty),
            (&ColumnType::Int, &ColumnType::Text)
        );
        assert!(Arc::ptr_eq(&columns[0].table, &columns[1].table));
    }
}

#[test]
fn a_conditional_statement_is_known_only_by_the_agreed_mark() {
    let body = "000000040001aa8000000000000000000000000000000400000000";
    let plain = ProtocolFeatures::default();
    let marked = ProtocolFeatures {
        lwt_mark_mask: Some(0x8000_0000),
        ..plain
    };
    assert!(!prepared(body, &plain).conditional);
    assert!(prepared(body, &marked).conditional);
    let wide = ProtocolFeatures {
        lwt_mark_mask: Some(0xc000_0000),
        ..plain
    };
    assert!(
        !prepared(body, &wide).conditional,
        "all bits of the mask must be set"
    );
}

#[test]
fn key_indexes_without_a_bind_marker_are_refused() {
    let body = "000000040001aa000000000000000000000001000000000004";
    let kind = ProtocolErrorKind::CountTooLarge { count: 0, left: 0 };
    assert_eq!(result(body), Err(kind));
}

#[test]
fn deep_types_end_before_the_stack_does() {
    let nested = |depth: usize| {
        let types = "0020".repeat(depth) + "0009";
        format!(
            "000000020000000100000001{}{types}00000000",
            "00016b000174000163"
        )
    };
    assert!(result(&nested(TYPE_DEPTH_MAX - 1)).is_ok());
    assert_eq!(
        result(&nested(TYPE_DEPTH_MAX)),
        Err(ProtocolErrorKind::TypeTooDeep)
    );
    assert_eq!(
        result(&nested(100_000)),
        Err(ProtocolErrorKind::TypeTooDeep)
    );
}

#[test]
fn an_unknown_type_is_refused_and_an_unknown_class_is_not() {
    let column = |ty: &str| format!("00000002000000010000000100016b000174000163{ty}00000000");
    assert_eq!(
        result(&column("0099")),
        Err(ProtocolErrorKind::UnknownType(0x99))
    );
    let Ok(Response::Result(ResultBody::Rows(rows))) = result(&column("000000034f6464")) else {
        panic!("not rows")
    };
    assert_eq!(
        rows.metadata.columns.unwrap()[0].ty,
        ColumnType::Custom("Odd".into())
    );
}

#[test]
fn events_from_the_future_are_told_by_their_kind_and_nothing_else() {
    let unknown = |kind: &str| {
        Ok(ServerEvent::Unknown {
            kind: kind.to_owned(),
        })
    };
    assert_eq!(
        event("8400ffff0c000000150010504152544954494f4e5f4348414e4745000158"),
        unknown("PARTITION_CHANGE")
    );
    assert_eq!(
        event(
            "8400ffff0c0000002a000d534348454d415f4348414e474500075550444154454400075452494747455200036b733100027431"
        ),
        unknown("SCHEMA_CHANGE")
    );
    assert_eq!(
        event(
            "8400ffff0c00000022000d5354415455535f4348414e474500085349444557415953040102030400000001"
        ),
        unknown("STATUS_CHANGE")
    );
}

#[test]
fn an_event_with_an_impossible_port_is_refused() {
    assert_eq!(
        event("8400ffff0c0000001c000d5354415455535f4348414e47450002555004c000020100012342"),
        Err(ProtocolErrorKind::PortRange(74_562))
    );
}

#[test]
fn both_lists_of_a_routes_event_are_read() {
    let hex = "8400ffff0c000000820014434c49454e545f524f555445535f4348414e4745000c5550444154455f4e4f444553000200056369642d6100056369642d620002002431313131313131312d313131312d313131312d313131312d313131313131313131313131002432323232323232322d323232322d323232322d323232322d323232323232323232323232";
    let Ok(ServerEvent::ClientRoutes {
        connection_ids,
        host_ids,
    }) = event(hex)
    else {
        panic!("not routes")
    };
    assert_eq!(connection_ids, ["cid-a", "cid-b"]);
    assert_eq!(host_ids[1], "22222222-2222-2222-2222-222222222222");
}

#[test]
fn tracing_id_warnings_and_payload_may_precede_any_message() {
    let around = "000102030405060708090a0b0c0d0e0f000100027731000100016b0000000101";
    let messages = [
        ("00", "000022000003626164"),
        ("08", "00000001"),
        ("08", "000000020000000400000000 00000000"),
        ("08", "000000030002 6b73"),
        (
            "08",
            "000000040001aa00000000000000000000 00000000000400000000",
        ),
        (
            "08",
            "0000000500074352454154454400084b4559535041434500026b73",
        ),
        (
            "0c",
            "000d5354415455535f4348414e47450002555004c00002010000000 1",
        ),
    ];
    for (opcode, message) in messages {
        let body = format!("{around}{message}").replace(' ', "");
        let hex = format!("840e0001{opcode}{:08x}{body}", body.len() / 2);
        let envelope = parse(&hex).unwrap();
        assert_eq!(
            envelope.tracing_id.unwrap().to_string(),
            "00010203-0405-0607-0809-0a0b0c0d0e0f"
        );
        assert_eq!(envelope.warnings, ["w1"]);
        assert_eq!(
            envelope.custom_payload,
            [("k".to_owned(), Some(Bytes::from_static(&[1])))]
        );
        let bare = with_body(opcode, &message.replace(' ', ""));
        let bare = bare.parse(&ProtocolFeatures::default()).unwrap();
        assert_eq!(envelope.response, bare.response);
    }
}

#[test]
fn of_two_statements_only_the_marked_one_is_conditional() {
    let marked = ProtocolFeatures {
        lwt_mark_mask: Some(0x8000_0000),
        ..ProtocolFeatures::default()
    };
    let global = |flags: &str| {
        format!("000000040001aa{flags}00000001000000000001610001620001630009000000040000_0000")
            .replace('_', "")
    };
    assert!(prepared(&global("80000001"), &marked).conditional);
    assert!(!prepared(&global("00000001"), &marked).conditional);
    assert!(!prepared(&global("80000001"), &ProtocolFeatures::default()).conditional);
}

#[test]
fn a_body_of_another_length_than_its_header_says_is_refused() {
    let kind = ProtocolErrorKind::BodyLength { header: 4, body: 2 };
    assert_eq!(parse("8400000108000000040000").unwrap_err().kind, kind);
}

#[test]
fn a_body_that_is_still_compressed_is_refused() {
    let error = parse("84010001080000000400000001").unwrap_err();
    assert_eq!(error.kind, ProtocolErrorKind::CompressionNotAgreed);
    assert_eq!(error.opcode, Some(8));
}

#[test]
fn a_schema_change_names_what_changed() {
    let Ok(Response::Result(ResultBody::SchemaChange(change))) =
        result("0000000500074352454154454400055441424c4500016b000174")
    else {
        panic!("not a schema change")
    };
    assert_eq!(change.target, SchemaTarget::Table { name: "t".into() });
    let unknown = result("00000005000743524541544544000647414c41585900026b73");
    assert_eq!(unknown, Err(ProtocolErrorKind::UnknownSchemaTarget));
}

#[test]
fn a_response_frame_is_cheap_to_move() {
    assert!(size_of::<ResponseFrame>() <= 64);
}

/// A RESULT of kind ROWS without rows, with these columns of type int, all of one table or each with its own.
fn rows_with_columns(names: &[&str], global: bool) -> ResponseFrame {
    fn string(out: &mut Vec<u8>, text: &str) {
        out.extend(
            u16::try_from(text.len())
                .expect("a short text")
                .to_be_bytes(),
        );
        out.extend(text.as_bytes());
    }
    let count = i32::try_from(names.len()).expect("few columns");
    let mut body = Vec::new();
    for int in [2, i32::from(global), count] {
        body.extend(int.to_be_bytes());
    }
    let table = |body: &mut Vec<u8>| ["ks", "t"].into_iter().for_each(|name| string(body, name));
    if global {
        table(&mut body);
    }
    for name in names {
        if !global {
            table(&mut body);
        }
        string(&mut body, name);
        body.extend(9_u16.to_be_bytes());
    }
    body.extend(0_i32.to_be_bytes());
    let header = FrameHeader {
        direction: Direction::Response,
        version: 4,
        flags: Flags::empty(),
        stream: 1,
        opcode: Opcode::Result,
        length: u32::try_from(body.len()).expect("a short body"),
    };
    ResponseFrame {
        header,
        body: body.into(),
    }
}

fn columns_of(frame: &ResponseFrame, known: Option<&Arc<[ColumnSpec]>>) -> Arc<[ColumnSpec]> {
    let envelope = frame
        .parse_known(&ProtocolFeatures::default(), known)
        .expect("a well-formed body");
    match envelope.response {
        Response::Result(ResultBody::Rows(rows)) => rows.metadata.columns.expect("columns"),
        other => panic!("no rows: {other:?}"),
    }
}

#[test]
fn columns_that_are_known_are_shared_and_others_are_read() {
    for global in [true, false] {
        let frame = rows_with_columns(&["a", "b"], global);
        let known = columns_of(&frame, None);
        assert_eq!(known.len(), 2);
        assert!(Arc::ptr_eq(&columns_of(&frame, Some(&known)), &known));
        for names in [&["a", "c"][..], &["a"], &["a", "b", "c"]] {
            let other = rows_with_columns(names, global);
            let read = columns_of(&other, Some(&known));
            assert_eq!(read, columns_of(&other, None));
            assert!(!Arc::ptr_eq(&read, &known));
        }
        let cut = ResponseFrame {
            body: frame.body.slice(..frame.body.len() - 7),
            ..frame
        };
        assert_eq!(
            cut.parse_known(&ProtocolFeatures::default(), Some(&known)),
            cut.parse(&ProtocolFeatures::default())
        );
    }
}
