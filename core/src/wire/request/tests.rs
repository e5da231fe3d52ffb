use super::*;
use crate::error::protocol::{FrameEncodeError, FramePart};
use crate::wire::header::{Flags, FrameHeader, ProtocolVersion};
use crate::wire::supported::ProtocolFeatures;
use crate::wire::write::FrameSink;

const V4: ProtocolFeatures = ProtocolFeatures {
    version: ProtocolVersion::V4,
    lwt_mark_mask: None,
    rate_limit_error: None,
    metadata_id: false,
    tablets_v1: false,
    tablets_v2: false,
    compression: None,
};

fn encode_with(
    request: RequestRef<'_>,
    features: &ProtocolFeatures,
    options: &RequestOptionsRef<'_>,
) -> Result<Vec<u8>, FrameEncodeError> {
    let mut out = Vec::new();
    request.encode(&mut out, features, 1, options)?;
    let body = request.body_len(features, options).unwrap();
    assert_eq!(
        out.len(),
        FrameHeader::LEN + body,
        "the length that was announced"
    );
    Ok(out)
}

fn encode(request: RequestRef<'_>) -> Vec<u8> {
    encode_with(request, &V4, &RequestOptionsRef::default()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn execute<'a>(id: &'a [u8], params: ParamsRef<'a>) -> RequestRef<'a> {
    RequestRef::Execute {
        id,
        result_metadata_id: None,
        tablet_block: 0x5a,
        params,
    }
}

/// A sink that keeps what is chained apart and counts reservations.
#[derive(Default)]
struct Chains {
    bytes: Vec<u8>,
    chained: usize,
    reserved: Vec<usize>,
}

impl FrameSink for Chains {
    fn reserve(&mut self, n: usize) {
        self.reserved.push(n);
    }
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
    fn chain(&mut self, bytes: &Bytes) {
        self.chained += 1;
        self.bytes.extend_from_slice(bytes);
    }
}

#[test]
fn a_login_token_has_a_four_byte_length() {
    let token = b"\0cassandra\0cassandra";
    assert_eq!(
        hex(&encode(RequestRef::AuthResponse(Some(token)))),
        "040000010f00000018000000140063617373616e6472610063617373616e647261"
    );
    assert_eq!(
        hex(&encode(RequestRef::AuthResponse(None))),
        "040000010f00000004ffffffff"
    );
}

#[test]
fn the_parameters_of_an_execute_stand_in_the_order_of_the_protocol() {
    let params = ParamsRef {
        consistency: Consistency::LocalQuorum,
        serial_consistency: Some(SerialConsistency::LocalSerial),
        values: ValuesRef {
            count: 2,
            bytes: &[0, 0, 0, 1, 7, 0xff, 0xff, 0xff, 0xff],
            ..Default::default()
        },
        skip_metadata: true,
        page_size: Some(5000),
        paging_state: Some(&[0xaa]),
        timestamp: Some(1),
        ..Default::default()
    };
    assert_eq!(
        hex(&encode(execute(&[1, 2], params))),
        concat!(
            "040000010a0000002b",
            "00020102",
            "00063f",
            "00020000000107ffffffff",
            "00001388",
            "00000001aa",
            "0009",
            "0000000000000001",
        )
        .replace("0000002b", &format!("{:08x}", 4 + 3 + 11 + 4 + 5 + 2 + 8))
    );
}

#[test]
fn version_5_has_wide_flags_and_its_own_fields() {
    let v5 = ProtocolFeatures {
        version: ProtocolVersion::V5,
        metadata_id: true,
        ..V4
    };
    let params = ParamsRef {
        consistency: Consistency::One,
        keyspace: Some("ks"),
        now_in_seconds: Some(-1),
        ..Default::default()
    };
    let out = encode_with(execute(&[9], params), &v5, &RequestOptionsRef::default()).unwrap();
    assert_eq!(
        hex(&out[9..]),
        "00010900000001000001800002".to_owned() + "6b73" + "ffffffff"
    );
}

#[test]
fn extensions_add_the_metadata_id_and_the_tablet_byte() {
    let features = ProtocolFeatures {
        metadata_id: true,
        tablets_v2: true,
        ..V4
    };
    let out = encode_with(
        execute(&[9], ParamsRef::default()),
        &features,
        &RequestOptionsRef::default(),
    )
    .unwrap();
    assert_eq!(
        hex(&out[9..]),
        "000109".to_owned() + "0000" + "000600" + "5a"
    );
}

#[test]
fn version_4_refuses_what_only_version_5_can_say() {
    let none = RequestOptionsRef::default();
    let keyspace = ParamsRef {
        keyspace: Some("ks"),
        ..Default::default()
    };
    assert_eq!(
        encode_with(execute(&[], keyspace), &V4, &none),
        Err(FrameEncodeError::NeedsV5(FramePart::Keyspace))
    );
    let now = ParamsRef {
        now_in_seconds: Some(1),
        ..Default::default()
    };
    assert_eq!(
        encode_with(
            RequestRef::Query {
                text: "",
                params: now
            },
            &V4,
            &none
        ),
        Err(FrameEncodeError::NeedsV5(FramePart::NowInSeconds))
    );
    assert_eq!(
        encode_with(
            RequestRef::Prepare {
                text: "",
                keyspace: Some("ks")
            },
            &V4,
            &none
        ),
        Err(FrameEncodeError::NeedsV5(FramePart::Keyspace))
    );
}

#[test]
fn a_page_size_that_is_not_positive_is_not_sent() {
    for page_size in [Some(0), Some(-1), None] {
        let params = ParamsRef {
            page_size,
            ..Default::default()
        };
        assert_eq!(hex(&encode(execute(&[], params))[9..]), "0000000600");
    }
}

#[test]
fn a_request_that_does_not_fit_leaves_nothing_in_the_output() {
    let mut out = b"before".to_vec();
    let id = vec![0; 65_536];
    let error = execute(&id, ParamsRef::default())
        .encode(&mut out, &V4, 1, &RequestOptionsRef::default())
        .unwrap_err();
    assert_eq!(
        error,
        FrameEncodeError::TooLong {
            part: FramePart::StatementId,
            len: 65_536,
            max: 65_535
        }
    );
    assert_eq!(out, b"before");
    RequestRef::Options
        .encode(&mut out, &V4, 2, &RequestOptionsRef::default())
        .unwrap();
    assert_eq!(&out[6..], &[4, 0, 0, 2, 5, 0, 0, 0, 0]);
}

#[test]
fn large_values_are_chained_where_they_belong() {
    let large = [
        LargeValue {
            at: 4,
            bytes: Bytes::from_static(b"abc"),
        },
        LargeValue {
            at: 13,
            bytes: Bytes::from_static(b"de"),
        },
    ];
    let values = ValuesRef {
        count: 3,
        bytes: &[0, 0, 0, 3, 0, 0, 0, 1, 7, 0, 0, 0, 2],
        large: &large,
        names: None,
    };
    let request = execute(
        &[9],
        ParamsRef {
            values,
            ..Default::default()
        },
    );
    let mut out = Chains::default();
    request
        .encode(&mut out, &V4, 1, &RequestOptionsRef::default())
        .unwrap();
    assert_eq!(
        hex(&out.bytes[12..]),
        "000601".to_owned() + "0003" + "00000003616263" + "0000000107" + "000000026465"
    );
    assert_eq!(out.chained, 2);
    // What lies elsewhere needs no room.
    let elsewhere: usize = large.iter().map(|large| large.bytes.len()).sum();
    assert_eq!(out.reserved, [out.bytes.len() - elsewhere]);
}

#[test]
fn large_values_out_of_place_are_refused() {
    for places in [[5, 4], [0, 14]] {
        let large = places.map(|at| LargeValue {
            at,
            bytes: Bytes::new(),
        });
        let values = ValuesRef {
            count: 1,
            bytes: &[0; 13],
            large: &large,
            names: None,
        };
        let request = execute(
            &[],
            ParamsRef {
                values,
                ..Default::default()
            },
        );
        let result = request.body_len(&V4, &RequestOptionsRef::default());
        assert_eq!(result, Err(FrameEncodeError::LargeValuePlace));
    }
}

#[test]
fn names_stand_in_front_of_their_values_even_of_large_ones() {
    let large = [LargeValue {
        at: 4,
        bytes: Bytes::from_static(b"abc"),
    }];
    let values = ValuesRef {
        count: 3,
        bytes: &[0, 0, 0, 3, 0, 0, 0, 1, 7, 0xff, 0xff, 0xff, 0xfe],
        large: &large,
        names: Some(&["a", "b", "c"]),
    };
    let params = ParamsRef {
        values,
        ..Default::default()
    };
    let out = encode(RequestRef::Query { text: "", params });
    assert_eq!(
        hex(&out[13..]),
        "000641".to_owned()
            + "0003"
            + "00016100000003616263"
            + "0001620000000107"
            + "000163fffffffe"
    );
}

#[test]
fn names_that_do_not_match_the_values_are_refused() {
    let three: &[&str] = &["a", "b", "c"];
    let cases: [(u16, &[u8], &[&str]); 4] = [
        (2, &[0, 0, 0, 0, 0, 0, 0, 0], three),
        (3, &[0, 0, 0, 0, 0, 0, 0, 0], three),
        (1, &[0, 0, 0, 0, 0], &["a"]),
        (1, &[0, 0, 0, 9, 0], &["a"]),
    ];
    for (count, bytes, names) in cases {
        let values = ValuesRef {
            count,
            bytes,
            large: &[],
            names: Some(names),
        };
        let params = ParamsRef {
            values,
            ..Default::default()
        };
        let result =
            RequestRef::Query { text: "", params }.body_len(&V4, &RequestOptionsRef::default());
        assert_eq!(
            result,
            Err(FrameEncodeError::NamesMismatch),
            "{count} {bytes:?}"
        );
    }
}

#[test]
fn tracing_and_payload_go_only_with_statements() {
    let payload = [
        ("k".to_owned(), Some(Bytes::from_static(&[1]))),
        ("n".to_owned(), None),
    ];
    let options = RequestOptionsRef {
        tracing: true,
        custom_payload: Some(&payload),
    };
    let out = encode_with(
        RequestRef::Prepare {
            text: "x",
            keyspace: None,
        },
        &V4,
        &options,
    )
    .unwrap();
    assert_eq!(
        Flags::from_bits(out[1]),
        Flags::TRACING.union(Flags::CUSTOM_PAYLOAD)
    );
    assert_eq!(
        hex(&out[9..]),
        "0002".to_owned() + "00016b0000000101" + "00016effffffff" + "0000000178"
    );
    let out = encode_with(RequestRef::Options, &V4, &options).unwrap();
    assert_eq!(hex(&out), "040000010500000000");
}

#[test]
fn a_batch_counts_up_to_what_its_field_can_say() {
    let statement = BatchStatementRef {
        statement: StatementRef::Prepared(&[7]),
        values: ValuesRef::default(),
    };
    let batch = |statements| {
        RequestRef::Batch(BatchRef {
            kind: BatchKind::Unlogged,
            statements,
            consistency: Consistency::One,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
        })
    };
    let many = vec![statement; 65_536];
    for count in [0, 40_000, 65_535] {
        let out = encode(batch(&many[..count]));
        assert_eq!(usize::from(out[10]) << 8 | usize::from(out[11]), count);
    }
    assert_eq!(
        encode_with(batch(&many), &V4, &RequestOptionsRef::default()),
        Err(FrameEncodeError::TooLong {
            part: FramePart::Statements,
            len: 65_536,
            max: 65_535
        })
    );
    let named = [BatchStatementRef {
        values: ValuesRef {
            names: Some(&[]),
            ..Default::default()
        },
        ..statement
    }];
    assert_eq!(
        encode_with(batch(&named), &V4, &RequestOptionsRef::default()),
        Err(FrameEncodeError::NamesMismatch)
    );
}

#[test]
fn the_owned_form_says_the_same_as_the_borrowed_one() {
    let bytes = Bytes::from_static(&[0, 0, 0, 1, 7]);
    let values = Values {
        count: 1,
        bytes,
        names: None,
    };
    let batch = Request::Batch(Batch {
        kind: BatchKind::Counter,
        statements: vec![
            BatchStatement {
                statement: StatementSource::Text("x".into()),
                values: values.clone(),
            },
            BatchStatement {
                statement: StatementSource::Prepared(Bytes::from_static(&[5])),
                values,
            },
        ],
        timestamp: Some(2),
        ..Default::default()
    });
    assert_eq!(
        hex(&batch.with_ref(encode)[9..]),
        concat!(
            "02",
            "0002",
            "000000000178",
            "00010000000107",
            "01000105",
            "00010000000107",
            "0006",
            "20",
            "0000000000000002"
        )
    );
}

#[test]
fn the_short_way_writes_an_execute_like_the_long_one() {
    let values = [0, 0, 0, 2, 7, 8, 0xff, 0xff, 0xff, 0xff];
    let some = ValuesRef {
        count: 2,
        bytes: &values,
        ..ValuesRef::default()
    };
    let mut compared = 0;
    for mask in 0..128_u32 {
        let on = |bit: u32| mask & (1 << bit) != 0;
        let features = ProtocolFeatures {
            metadata_id: on(0),
            tablets_v2: on(1),
            version: if on(6) {
                ProtocolVersion::V5
            } else {
                ProtocolVersion::V4
            },
            ..ProtocolFeatures::default()
        };
        let params = ParamsRef {
            consistency: Consistency::LocalQuorum,
            serial_consistency: on(2).then_some(SerialConsistency::LocalSerial),
            values: if on(3) { some } else { ValuesRef::default() },
            skip_metadata: on(0),
            page_size: on(4).then_some(5000),
            timestamp: on(5).then_some(1_700_000_000_000_000),
            ..ParamsRef::default()
        };
        for id in [&[1; 16][..], &[2; 7], &[]] {
            let request = RequestRef::Execute {
                id,
                result_metadata_id: on(4).then_some(&[9; 16]),
                tablet_block: 3,
                params,
            };
            let options = RequestOptionsRef {
                tracing: on(5),
                custom_payload: None,
            };
            let (mut short, mut long) = (Vec::new(), Vec::new());
            assert!(execute::put_plain(
                &mut short, &request, &features, 77, &options
            ));
            request
                .encode_any(&mut long, &features, 77, &options)
                .expect("a request that fits");
            assert_eq!(short, long, "{request:?}");
            compared += 1;
        }
    }
    assert_eq!(compared, 384);
}

#[test]
fn a_frame_encoded_before_gets_its_stream_id_and_its_payloads() {
    let payload = Bytes::from(vec![5; 3000]);
    let large = [LargeValue {
        at: 4,
        bytes: payload.clone(),
    }];
    let values = ValuesRef {
        count: 1,
        bytes: &[0, 0, 0x0b, 0xb8],
        large: &large,
        names: None,
    };
    let request = RequestRef::Execute {
        id: &[1; 16],
        result_metadata_id: None,
        tablet_block: 0,
        params: ParamsRef {
            values,
            ..ParamsRef::default()
        },
    };
    let (features, options) = (ProtocolFeatures::default(), RequestOptionsRef::default());
    let mut direct = Vec::new();
    request
        .encode(&mut direct, &features, 300, &options)
        .expect("a request that fits");
    let at = direct
        .windows(payload.len())
        .position(|bytes| bytes == payload)
        .expect("the payload");
    let mut before = Vec::new();
    request
        .encode(&mut before, &features, 0, &options)
        .expect("a request that fits");
    before.drain(at..at + payload.len());
    let encoded = RequestRef::Encoded(EncodedRef {
        opcode: Opcode::Execute,
        frame: &before,
        large: &[LargeValue { at, bytes: payload }],
    });
    let mut again = Vec::new();
    encoded
        .encode(&mut again, &features, 300, &options)
        .expect("a frame");
    assert_eq!(again, direct);
    assert_eq!(
        encoded.body_len(&features, &options),
        Ok(direct.len() - FrameHeader::LEN)
    );
    let headless = RequestRef::Encoded(EncodedRef {
        opcode: Opcode::Execute,
        frame: &[4, 0],
        large: &[],
    });
    assert_eq!(
        headless.encode(&mut again, &features, 1, &options),
        Err(FrameEncodeError::NotAFrame)
    );
}
