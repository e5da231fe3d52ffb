//! Owns the sample requests.

use bytes::Bytes;
use messina_core::wire::{
    Batch, BatchKind, BatchStatement, Consistency, EventKind, Params, Request, RequestOptions,
    SerialConsistency, StatementSource, Values,
};

use super::Sample;
use crate::input::{EXTENDED, V5, features};

/// Valid requests of every kind, in the layouts where they differ: inputs of `request_roundtrip`.
pub fn requests() -> Vec<Sample> {
    let mut samples = Vec::new();
    for (layout, bits) in [("v4", 0), ("v4x", EXTENDED), ("v5", V5)] {
        for (name, options, request) in all(bits) {
            let mut bytes = vec![bits];
            request
                .with_ref(|request| {
                    request.encode(&mut bytes, &features(bits), 1, &options.as_ref())
                })
                .expect("samples can be written");
            samples.push(Sample {
                name: format!("{layout}-{name}"),
                bytes,
            });
        }
    }
    samples
}

fn all(bits: u8) -> Vec<(&'static str, RequestOptions, Request)> {
    let none = RequestOptions::default;
    let traced = RequestOptions {
        tracing: true,
        custom_payload: Some(vec![
            ("key".into(), Some(Bytes::from_static(b"v"))),
            ("no".into(), None),
        ]),
    };
    let startup = [("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "Messina")];
    let startup = startup.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let text = || "SELECT a FROM ks.t WHERE k = ?".to_owned();
    vec![
        ("options", none(), Request::Options),
        ("startup", none(), Request::Startup(startup.into())),
        (
            "auth-response",
            none(),
            Request::AuthResponse(Some(Bytes::from_static(b"\0user\0secret"))),
        ),
        (
            "register",
            none(),
            Request::Register(EventKind::ALL.to_vec()),
        ),
        (
            "query",
            none(),
            Request::Query {
                text: text(),
                params: Params::default(),
            },
        ),
        (
            "query-named",
            traced.clone(),
            Request::Query {
                text: text(),
                params: named(bits),
            },
        ),
        (
            "prepare",
            none(),
            Request::Prepare {
                text: text(),
                keyspace: v5(bits, "ks"),
            },
        ),
        (
            "execute",
            none(),
            Request::Execute {
                id: Bytes::from_static(b"0123456789abcdef"),
                result_metadata_id: features(bits)
                    .has_metadata_id()
                    .then(|| Bytes::from_static(b"metadata")),
                tablet_block: if bits & EXTENDED == 0 { 0 } else { 7 },
                params: full(bits),
            },
        ),
        ("batch-of-texts", none(), Request::Batch(batch(bits, false))),
        ("batch", traced, Request::Batch(batch(bits, true))),
    ]
}

fn v5(bits: u8, text: &str) -> Option<String> {
    (bits & V5 != 0).then(|| text.to_owned())
}

fn values() -> Values {
    Values {
        count: 3,
        bytes: Bytes::from_static(&[
            0, 0, 0, 2, 1, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
        ]),
        names: None,
    }
}

fn full(bits: u8) -> Params {
    Params {
        consistency: Consistency::Quorum,
        serial_consistency: Some(SerialConsistency::Serial),
        values: values(),
        skip_metadata: true,
        page_size: Some(5_000),
        paging_state: Some(Bytes::from_static(b"state")),
        timestamp: Some(1_700_000_000_000_000),
        keyspace: v5(bits, "ks"),
        now_in_seconds: (bits & V5 != 0).then_some(9),
    }
}

fn named(bits: u8) -> Params {
    let mut params = full(bits);
    params.values.names = Some(vec!["a".into(), "b".into(), "c".into()]);
    params
}

fn batch(bits: u8, prepared: bool) -> Batch {
    let text = BatchStatement {
        statement: StatementSource::Text("INSERT".into()),
        values: Values::default(),
    };
    let second = BatchStatement {
        statement: if prepared {
            StatementSource::Prepared(Bytes::from_static(b"0123456789abcdef"))
        } else {
            StatementSource::Text("DELETE".into())
        },
        values: values(),
    };
    Batch {
        kind: BatchKind::Unlogged,
        statements: vec![text, second],
        consistency: Consistency::One,
        serial_consistency: Some(SerialConsistency::LocalSerial),
        timestamp: Some(-1),
        keyspace: v5(bits, "ks"),
        now_in_seconds: None,
    }
}
