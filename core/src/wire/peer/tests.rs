use std::net::SocketAddr;
use std::sync::Arc;

use super::*;
use crate::error::protocol::{FrameEncodeError, FramePart};
use crate::types::column_type::ColumnType;
use crate::wire::consistency::{Consistency, SerialConsistency};
use crate::wire::event::{SchemaChange, SchemaChangeKind, SchemaTarget, ServerEvent};
use crate::wire::response::{Envelope, Response, ResponseFrame};
use crate::wire::result::{ColumnSpec, PreparedBody, ResultBody, ResultMetadata, RowsBody};
use crate::wire::server_error::{
    FailureReason, ReplicaFailures, ServerError, ServerErrorDetail, WriteType, code,
};
use crate::wire::supported::Supported;

fn v4() -> ProtocolFeatures {
    ProtocolFeatures::default()
}

fn v5() -> ProtocolFeatures {
    ProtocolFeatures {
        version: ProtocolVersion::V5,
        ..v4()
    }
}

fn extended() -> ProtocolFeatures {
    ProtocolFeatures {
        lwt_mark_mask: Some(0x8000_0000),
        rate_limit_error: Some(0xf000),
        metadata_id: true,
        tablets_v2: true,
        ..v4()
    }
}

fn split(frame: &[u8]) -> (FrameHeader, Bytes) {
    let (head, body) = frame.split_first_chunk::<9>().unwrap();
    (
        FrameHeader::parse(head).unwrap(),
        Bytes::copy_from_slice(body),
    )
}

fn through_the_wire(request: &Request, options: &RequestOptions, features: &ProtocolFeatures) {
    let mut frame = Vec::new();
    request
        .with_ref(|request| request.encode(&mut frame, features, 77, &options.as_ref()))
        .unwrap();
    frame.extend_from_slice(b"later fields");
    let length = u32::try_from(frame.len() - 9).unwrap();
    frame[5..9].copy_from_slice(&length.to_be_bytes());
    let (header, body) = split(&frame);
    assert_eq!((header.stream, header.opcode), (77, request.opcode()));
    assert_eq!(
        Request::decode(&header, &body, features),
        Ok((options.clone(), request.clone()))
    );
}

fn back_through_the_wire(envelope: &Envelope, features: &ProtocolFeatures) {
    let mut frame = Vec::new();
    envelope.encode(&mut frame, features, -1).unwrap();
    let (header, body) = split(&frame);
    assert_eq!(header.stream, -1);
    assert_eq!(
        ResponseFrame { header, body }.parse(features).as_ref(),
        Ok(envelope)
    );
}

fn values(names: Option<&[&str]>) -> Values {
    Values {
        count: 3,
        bytes: Bytes::from_static(&[
            0, 0, 0, 1, 7, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
        ]),
        names: names.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
    }
}

fn params() -> Params {
    Params {
        consistency: Consistency::EachQuorum,
        serial_consistency: Some(SerialConsistency::Serial),
        values: values(None),
        skip_metadata: true,
        page_size: Some(100),
        paging_state: Some(Bytes::from_static(b"state")),
        timestamp: Some(-1),
        keyspace: None,
        now_in_seconds: None,
    }
}

#[test]
fn what_a_client_says_is_what_a_peer_hears() {
    let payload = vec![
        ("a".to_owned(), Some(Bytes::from_static(b"b"))),
        ("n".to_owned(), None),
    ];
    let options = RequestOptions {
        tracing: true,
        custom_payload: Some(payload),
    };
    let none = RequestOptions::default();
    for features in [v4(), v5(), extended()] {
        let known = features
            .has_metadata_id()
            .then(|| Bytes::from_static(b"known"));
        let execute = Request::Execute {
            id: Bytes::from_static(b"id"),
            result_metadata_id: known,
            tablet_block: if features.tablets_v2 { 0xa5 } else { 0 },
            params: params(),
        };
        let named = Params {
            values: values(Some(&["x", "y", "z"])),
            ..Params::default()
        };
        let statements = vec![
            BatchStatement {
                statement: StatementSource::Text("t".into()),
                values: values(None),
            },
            BatchStatement {
                statement: StatementSource::Prepared(Bytes::from_static(b"id")),
                values: Values::default(),
            },
        ];
        let batch = Batch {
            statements,
            timestamp: Some(5),
            ..Batch::default()
        };
        through_the_wire(&execute, &options, &features);
        through_the_wire(
            &Request::Query {
                text: "q".into(),
                params: named,
            },
            &options,
            &features,
        );
        through_the_wire(&Request::Batch(batch), &options, &features);
        through_the_wire(&Request::Options, &none, &features);
        through_the_wire(
            &Request::Startup(vec![("K".into(), "v".into())]),
            &none,
            &features,
        );
        through_the_wire(
            &Request::Register(EventKind::ALL.to_vec()),
            &none,
            &features,
        );
        through_the_wire(&Request::AuthResponse(None), &none, &features);
        through_the_wire(
            &Request::Prepare {
                text: "p".into(),
                keyspace: None,
            },
            &none,
            &features,
        );
    }
    let keyspace = Some("ks".to_owned());
    through_the_wire(
        &Request::Prepare {
            text: "p".into(),
            keyspace: keyspace.clone(),
        },
        &none,
        &v5(),
    );
    let params = Params {
        keyspace,
        now_in_seconds: Some(-5),
        ..params()
    };
    through_the_wire(
        &Request::Query {
            text: "q".into(),
            params,
        },
        &none,
        &v5(),
    );
}

#[test]
fn a_peer_refuses_requests_that_make_no_sense() {
    let refused = |opcode: u8, body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        let mut frame = vec![4, 0, 0, 1, opcode];
        frame.extend_from_slice(&length);
        frame.extend_from_slice(body);
        let (header, body) = split(&frame);
        Request::decode(&header, &body, &v4()).unwrap_err().kind
    };
    let query = |flags: u8| [0, 0, 0, 0, 0, 1, flags];
    assert_eq!(
        refused(7, &query(0x80)),
        ProtocolErrorKind::QueryFlags(0x80)
    );
    assert_eq!(
        refused(7, &[0, 0, 0, 0, 0, 11, 0]),
        ProtocolErrorKind::UnknownConsistency(11)
    );
    assert_eq!(
        refused(7, &[0, 0, 0, 0, 0, 1, 0x10, 0, 1]),
        ProtocolErrorKind::UnknownConsistency(1),
        "a level that is not serial"
    );
    assert_eq!(
        refused(7, &[0, 0, 0, 0, 0, 1, 1, 0, 1, 0xff, 0xff, 0xff, 0xfd]),
        ProtocolErrorKind::ValueLength(-3)
    );
    assert_eq!(
        refused(13, &[3, 0, 0, 0, 1, 0]),
        ProtocolErrorKind::UnknownBatchKind(3)
    );
    assert_eq!(
        refused(13, &[0, 0, 1, 2, 0, 0, 0, 0, 0, 1, 0]),
        ProtocolErrorKind::UnknownStatementKind(2)
    );
    assert_eq!(
        refused(13, &[0, 0, 0, 0, 1, 0x40]),
        ProtocolErrorKind::QueryFlags(0x40)
    );
    assert_eq!(
        refused(11, &[0, 1, 0, 1, b'x']),
        ProtocolErrorKind::UnknownEvent
    );
    assert_eq!(
        refused(1, &[0xff, 0xff, 0, 0]),
        ProtocolErrorKind::CountTooLarge {
            count: 65_535,
            left: 2
        }
    );
}

fn column(name: &str, table: &str, ty: ColumnType) -> ColumnSpec {
    ColumnSpec {
        keyspace: "ks".into(),
        table: table.into(),
        name: name.into(),
        ty,
    }
}

fn every_type() -> Vec<ColumnType> {
    let mut types = [
        "AsciiType",
        "BooleanType",
        "ByteType",
        "BytesType",
        "CounterColumnType",
        "DecimalType",
        "DoubleType",
        "DurationType",
        "FloatType",
        "InetAddressType",
        "Int32Type",
        "IntegerType",
        "LongType",
        "ShortType",
        "SimpleDateType",
        "TimeType",
        "TimestampType",
        "TimeUUIDType",
        "UTF8Type",
        "UUIDType",
        "ListType(Int32Type)",
        "SetType(UTF8Type)",
        "MapType(Int32Type,TupleType(UTF8Type,UUIDType))",
        "UserType(ks,61,62:Int32Type,63:VectorType(FloatType,3))",
        "com.example.Odd(x)",
    ]
    .map(|class| crate::types::custom_type::parse_class_name(class).unwrap())
    .to_vec();
    types.push(ColumnType::Vector {
        element: Arc::new(ColumnType::Text),
        dimension: 7,
    });
    types
}

#[test]
fn what_a_peer_says_is_what_a_client_hears() {
    let columns: Arc<[ColumnSpec]> = every_type()
        .into_iter()
        .enumerate()
        .map(|(i, ty)| column(&format!("c{i}"), "t", ty))
        .collect();
    let mixed: Arc<[ColumnSpec]> = [
        column("a", "t", ColumnType::Int),
        column("b", "u", ColumnType::Text),
    ]
    .into();
    let bare = |response| Envelope::from(response);
    let rows = |metadata: ResultMetadata, row_count: usize, cells: &'static [u8]| {
        let cells = Bytes::from_static(cells);
        bare(Response::Result(ResultBody::Rows(RowsBody {
            metadata,
            row_count,
            cells,
        })))
    };
    let described = |columns: &Arc<[ColumnSpec]>| ResultMetadata {
        column_count: columns.len(),
        columns: Some(Arc::clone(columns)),
        ..ResultMetadata::default()
    };
    let left_out = ResultMetadata {
        column_count: 1,
        more_pages: true,
        paging_state: Some(Bytes::from_static(b"next")),
        ..ResultMetadata::default()
    };
    let prepared = PreparedBody {
        id: Bytes::from_static(b"id"),
        result_metadata_id: None,
        bind_columns: Arc::clone(&mixed),
        pk_indexes: vec![1, 0, 1],
        conditional: false,
        result: described(&columns),
    };
    for features in [v4(), v5(), extended()] {
        back_through_the_wire(&rows(described(&columns), 0, &[]), &features);
        back_through_the_wire(
            &rows(described(&mixed), 1, &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
            &features,
        );
        back_through_the_wire(&rows(left_out.clone(), 1, &[0, 0, 0, 0]), &features);
        let result_metadata_id = features.has_metadata_id().then(|| Bytes::from_static(b"m"));
        let conditional = features.lwt_mark_mask.is_some();
        let prepared = PreparedBody {
            result_metadata_id,
            conditional,
            ..prepared.clone()
        };
        back_through_the_wire(
            &bare(Response::Result(ResultBody::Prepared(prepared))),
            &features,
        );
        for response in [
            Response::Ready,
            Response::Authenticate("class".into()),
            Response::Supported(Supported {
                options: vec![("K".into(), vec!["a".into(), "b".into()])],
            }),
            Response::Result(ResultBody::Void),
            Response::Result(ResultBody::SetKeyspace("ks".into())),
            Response::AuthChallenge(Some(Bytes::from_static(b"more"))),
            Response::AuthSuccess(None),
        ] {
            back_through_the_wire(&bare(response), &features);
        }
    }
    let changed = ResultMetadata {
        new_metadata_id: Some(Bytes::from_static(b"n")),
        ..described(&mixed)
    };
    back_through_the_wire(&rows(changed, 0, &[]), &extended());
}

#[test]
fn errors_keep_their_facts() {
    let failures = |features: &ProtocolFeatures| match features.version {
        ProtocolVersion::V4 => ReplicaFailures {
            count: 2,
            reasons: vec![],
        },
        ProtocolVersion::V5 => ReplicaFailures {
            count: 2,
            reasons: vec![
                ([192, 0, 2, 1].into(), FailureReason(1)),
                ([0; 16].into(), FailureReason(999)),
            ],
        },
    };
    let consistency = Consistency::LocalSerial;
    let (received, block_for) = (1, 2);
    for features in [v4(), v5(), extended()] {
        let failures = failures(&features);
        let contentions = (features.version == ProtocolVersion::V5).then_some(3);
        let mut errors = vec![
            (
                code::UNAVAILABLE,
                ServerErrorDetail::Unavailable {
                    consistency,
                    required: 3,
                    alive: 1,
                },
            ),
            (
                code::WRITE_TIMEOUT,
                ServerErrorDetail::WriteTimeout {
                    consistency,
                    received,
                    block_for,
                    write_type: WriteType::Cas,
                    contentions,
                },
            ),
            (
                code::WRITE_TIMEOUT,
                ServerErrorDetail::WriteTimeout {
                    consistency,
                    received,
                    block_for,
                    write_type: WriteType::Other("NEW".into()),
                    contentions: None,
                },
            ),
            (
                code::READ_TIMEOUT,
                ServerErrorDetail::ReadTimeout {
                    consistency,
                    received,
                    block_for,
                    data_present: true,
                },
            ),
            (
                code::READ_FAILURE,
                ServerErrorDetail::ReadFailure {
                    consistency,
                    received,
                    block_for,
                    failures: failures.clone(),
                    data_present: false,
                },
            ),
            (
                code::WRITE_FAILURE,
                ServerErrorDetail::WriteFailure {
                    consistency,
                    received,
                    block_for,
                    failures,
                    write_type: WriteType::BatchLog,
                },
            ),
            (
                code::CAS_WRITE_UNKNOWN,
                ServerErrorDetail::CasWriteUnknown {
                    consistency,
                    received,
                    block_for,
                },
            ),
            (
                code::FUNCTION_FAILURE,
                ServerErrorDetail::FunctionFailure {
                    keyspace: "ks".into(),
                    function: "f".into(),
                    arg_types: vec!["int".into()],
                },
            ),
            (
                code::ALREADY_EXISTS,
                ServerErrorDetail::AlreadyExists {
                    keyspace: "ks".into(),
                    table: String::new(),
                },
            ),
            (
                code::UNPREPARED,
                ServerErrorDetail::Unprepared {
                    id: Bytes::from_static(b"id"),
                },
            ),
            (code::INVALID, ServerErrorDetail::Invalid),
            (code::CDC_WRITE_FAILURE, ServerErrorDetail::CdcWriteFailure),
            (0x7777, ServerErrorDetail::Unknown),
        ];
        if let Some(code) = features.rate_limit_error {
            let operation = crate::wire::server_error::OperationKind::Write;
            errors.push((
                code,
                ServerErrorDetail::RateLimit {
                    operation,
                    rejected_by_coordinator: true,
                },
            ));
        }
        for (code, detail) in errors {
            let error = ServerError {
                code,
                message: "no".into(),
                detail,
            };
            back_through_the_wire(&Envelope::from(Response::Error(error)), &features);
        }
    }
}

#[test]
fn events_keep_their_facts() {
    let address: SocketAddr = "[2001:db8::1]:19042".parse().unwrap();
    let schema = |target| {
        let change = SchemaChangeKind::Updated;
        ServerEvent::Schema(SchemaChange {
            change,
            target,
            keyspace: "ks".into(),
        })
    };
    let name = String::from("f");
    let args = vec![String::from("int")];
    for event in [
        ServerEvent::Topology {
            change: crate::wire::event::TopologyChange::MovedNode,
            address,
        },
        ServerEvent::Status { up: false, address },
        schema(SchemaTarget::Keyspace),
        schema(SchemaTarget::Table { name: name.clone() }),
        schema(SchemaTarget::Type { name: name.clone() }),
        schema(SchemaTarget::Function {
            name: name.clone(),
            args: args.clone(),
        }),
        schema(SchemaTarget::Aggregate { name, args }),
        ServerEvent::ClientRoutes {
            connection_ids: vec!["c".into()],
            host_ids: vec![],
        },
        ServerEvent::Unknown {
            kind: "FUTURE".into(),
        },
    ] {
        back_through_the_wire(&Envelope::from(Response::Event(event)), &v4());
    }
}

#[test]
fn everything_around_a_message_survives() {
    let envelope = Envelope {
        tracing_id: Some(uuid::Uuid::from_u128(7)),
        warnings: vec!["first".into(), "second".into()],
        custom_payload: vec![
            ("k".into(), Some(Bytes::from_static(b"v"))),
            ("n".into(), None),
        ],
        response: Response::Result(ResultBody::Void),
    };
    back_through_the_wire(&envelope, &v4());
}

#[test]
fn a_response_that_does_not_fit_leaves_nothing_in_the_output() {
    let mut out = b"before".to_vec();
    let long = Envelope::from(Response::Authenticate("x".repeat(65_536)));
    assert_eq!(
        long.encode(&mut out, &v4(), 0),
        Err(FrameEncodeError::TooLong {
            part: FramePart::Text,
            len: 65_536,
            max: 65_535
        })
    );
    assert_eq!(out, b"before");
}
