//! Owns the conversations that are cut: what the peer says in them, and when requests are submitted.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use messina_core::config::session::SessionConfig;
use messina_core::conn::{ConnectionPlan, Role};
use messina_core::policy::auth::PlainCredentials;
use messina_core::seed::Seed;
use messina_core::wire::segment::SegmentCodec;
use messina_core::wire::server_error::code;
use messina_core::wire::{
    Compression, Consistency, Envelope, EventKind, ProtocolFeatures, ProtocolVersion, Response,
    ResultBody, ResultMetadata, RowsBody, SchemaChange, SchemaChangeKind, SchemaTarget,
    ServerError, ServerErrorDetail, ServerEvent, Supported, TopologyChange,
};
use uuid::Uuid;

use super::{Conversation, Turn};

pub(super) fn plan(change: impl FnOnce(&mut SessionConfig)) -> ConnectionPlan {
    let mut session = SessionConfig::new(&mut Seed::from_u64(1).random());
    change(&mut session);
    let address = SocketAddr::from(([192, 0, 2, 1], 9042));
    ConnectionPlan::new(address, Arc::new(session), Seed::from_u64(2))
}

pub(super) fn say(stream: i16, envelope: impl Into<Envelope>) -> Vec<u8> {
    say_in(ProtocolVersion::V4, stream, envelope)
}

fn say_in(version: ProtocolVersion, stream: i16, envelope: impl Into<Envelope>) -> Vec<u8> {
    let features = ProtocolFeatures {
        version,
        ..ProtocolFeatures::default()
    };
    let mut bytes = Vec::new();
    envelope
        .into()
        .encode(&mut bytes, &features, stream)
        .expect("it can be said");
    bytes
}

fn supported() -> Response {
    let options = [
        ("CQL_VERSION", "3.3.1"),
        ("SCYLLA_SHARD", "1"),
        ("SCYLLA_NR_SHARDS", "4"),
        ("SCYLLA_SHARDING_ALGORITHM", "biased-token-round-robin"),
        ("SCYLLA_SHARDING_IGNORE_MSB", "12"),
        ("SCYLLA_USE_METADATA_ID", ""),
    ];
    Response::Supported(Supported {
        options: options
            .map(|(key, value)| (key.to_owned(), vec![value.to_owned()]))
            .into(),
    })
}

pub(super) fn error(code: i32, detail: ServerErrorDetail) -> Response {
    let message = "this cannot be done".into();
    Response::Error(ServerError {
        code,
        message,
        detail,
    })
}

fn authenticate() -> Response {
    Response::Authenticate("org.apache.cassandra.auth.PasswordAuthenticator".into())
}

pub(super) fn rows(len: usize) -> Response {
    let cell: Vec<u8> = (0..len)
        .map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1])
        .collect();
    let mut cells = u32::try_from(len)
        .expect("it is short")
        .to_be_bytes()
        .to_vec();
    cells.extend(cell);
    Response::Result(ResultBody::Rows(RowsBody {
        metadata: ResultMetadata {
            column_count: 1,
            ..ResultMetadata::default()
        },
        row_count: 1,
        cells: cells.into(),
    }))
}

fn events() -> Vec<u8> {
    let address = SocketAddr::from(([192, 0, 2, 2], 9042));
    let change = TopologyChange::NewNode;
    let schema = SchemaChange {
        change: SchemaChangeKind::Updated,
        target: SchemaTarget::Table { name: "t".into() },
        keyspace: "ks".into(),
    };
    let mut bytes = Vec::new();
    for event in [
        ServerEvent::Topology { change, address },
        ServerEvent::Status { up: false, address },
        ServerEvent::Schema(schema),
        ServerEvent::Unknown {
            kind: "PARTITION_CHANGE".into(),
        },
    ] {
        bytes.extend(say(-1, Response::Event(event)));
    }
    // One that cannot be read: its text is longer than its body.
    bytes.extend([0x84, 0, 0xff, 0xff, 0x0c, 0, 0, 0, 3, 0, 9, b'X']);
    bytes
}

/// A control connection with a login, events before and behind its opening, and an event in the middle of answers.
pub(super) fn control_connection() -> Conversation {
    let mut plan = plan(|session| {
        session.credentials = Some(Arc::new(PlainCredentials::new("user", "secret")));
    });
    plan.role = Role::Control;
    plan.events = vec![
        EventKind::TopologyChange,
        EventKind::StatusChange,
        EventKind::SchemaChange,
    ];
    let before_ready = [events(), say(1, Response::Ready)].concat();
    let answers = [say(2, rows(40)), events(), say(1, rows(3))].concat();
    Conversation {
        plan,
        turns: vec![
            Turn::Peer(say(1, supported())),
            Turn::Peer(say(1, authenticate())),
            Turn::Peer(say(
                1,
                Response::AuthSuccess(Some(Bytes::from_static(b"welcome"))),
            )),
            Turn::Peer(before_ready),
            Turn::Submit(2),
            Turn::Peer(answers),
        ],
    }
}

/// A connection into a keyspace, with warnings on the way, then answers out of order, errors and things around them.
pub(super) fn data_connection() -> Conversation {
    let warned = |response| Envelope {
        tracing_id: None,
        warnings: vec!["this server is old".into(), "und müde".into()],
        custom_payload: Vec::new(),
        response,
    };
    let around = Envelope {
        tracing_id: Some(Uuid::from_u128(9)),
        custom_payload: vec![("k".into(), None)],
        ..warned(rows(5))
    };
    let unavailable = ServerErrorDetail::Unavailable {
        consistency: Consistency::Quorum,
        required: 2,
        alive: 1,
    };
    let unprepared = ServerErrorDetail::Unprepared {
        id: Bytes::from_static(b"0123456789abcdef"),
    };
    let answers = [
        say(3, around),
        say(1, Response::Result(ResultBody::Void)),
        say(5, error(code::UNAVAILABLE, unavailable)),
        say(2, error(code::UNPREPARED, unprepared)),
        say(4, rows(0)),
        say(6, rows(1_500)),
    ];
    Conversation {
        plan: plan(|session| session.keyspace = Some("ks".into())),
        turns: vec![
            Turn::Peer(say(1, warned(supported()))),
            Turn::Peer(say(1, Response::Ready)),
            Turn::Peer(say(
                1,
                Response::Result(ResultBody::SetKeyspace("ks".into())),
            )),
            Turn::Submit(7),
            Turn::Peer(answers.concat()),
        ],
    }
}

/// A connection that is open for these answers, each to one request.
pub(super) fn answered(answers: &[Vec<u8>]) -> Conversation {
    Conversation {
        plan: plan(|_| ()),
        turns: vec![
            Turn::Peer(say(1, supported())),
            Turn::Peer(say(1, Response::Ready)),
            Turn::Submit(u64::try_from(answers.len()).expect("a few")),
            Turn::Peer(answers.concat()),
        ],
    }
}

/// A connection of version 5 with a login: after the answer to STARTUP everything is in segments, a large answer in
/// several of them.
pub(super) fn in_segments(compression: Option<Compression>, large: usize) -> Conversation {
    let mut plan = plan(|session| {
        session.credentials = Some(Arc::new(PlainCredentials::new("user", "secret")));
        session.connection.compression = compression;
    });
    plan.version = ProtocolVersion::V5;
    let say = |stream, response: Response| say_in(ProtocolVersion::V5, stream, response);
    let mut codec = SegmentCodec::new(compression).expect("this build has the algorithm");
    let mut seal = |frames: &[Vec<u8>]| {
        let mut sealed = Vec::new();
        codec.seal(&frames.concat(), &mut sealed);
        sealed
    };
    let offer = Response::Supported(Supported {
        options: vec![("COMPRESSION".into(), vec!["lz4".into()])],
    });
    let address = SocketAddr::from(([192, 0, 2, 2], 9042));
    let event = Response::Event(ServerEvent::Status { up: true, address });
    let unavailable = ServerErrorDetail::Unavailable {
        consistency: Consistency::Quorum,
        required: 2,
        alive: 1,
    };
    let together = [
        say(2, rows(40)),
        say(-1, event),
        say(1, Response::Result(ResultBody::Void)),
    ];
    let apart = [
        seal(&together),
        seal(&[say(3, rows(large))]),
        seal(&[say(4, error(code::UNAVAILABLE, unavailable))]),
    ];
    Conversation {
        plan,
        turns: vec![
            Turn::Peer(say(1, offer)),
            Turn::Peer(say(1, authenticate())),
            Turn::Peer(seal(&[say(1, Response::AuthSuccess(None))])),
            Turn::Submit(5),
            Turn::Peer(apart.concat()),
        ],
    }
}

pub(super) fn refused(last: Response) -> Conversation {
    Conversation {
        plan: plan(|session| {
            session.credentials = Some(Arc::new(PlainCredentials::new("user", "wrong")));
        }),
        turns: vec![
            Turn::Peer(say(1, supported())),
            Turn::Peer(say(1, authenticate())),
            Turn::Peer(say(1, last)),
        ],
    }
}
