//! Owns the seed corpus: samples of every target, and scripts for the machines that reach every kind of step.

use super::{Sample, requests, responses, values};

/// The seeds of a target.
pub fn corpus(target: &str) -> Vec<Sample> {
    match target {
        "response_body" => of_layouts(responses()),
        "response_roundtrip" => of_layouts(responses()).into_iter().step_by(3).collect(),
        "request_roundtrip" => of_layouts(requests()),
        "value_decode" => values(),
        "custom_type" => types(),
        "compression" => blocks(),
        "segment_stream" => segments(),
        "row_plan" => rows(),
        "frame_stream" => scripts(FRAME_STREAM),
        "segmented_stream" => scripts(SEGMENTED_STREAM),
        "handshake" => scripts(HANDSHAKE),
        "control_plane" => scripts(CONTROL_PLANE),
        _ => Vec::new(),
    }
}

/// Leaves out what two layouts have in common.
fn of_layouts(samples: Vec<Sample>) -> Vec<Sample> {
    let mut kept: Vec<Sample> = Vec::new();
    for sample in samples {
        let message = |sample: &Sample| sample.bytes.get(2..).map(<[u8]>::to_vec);
        if kept.iter().all(|other| message(other) != message(&sample)) {
            kept.push(sample);
        }
    }
    kept
}

fn sample(name: impl Into<String>, bytes: Vec<u8>) -> Sample {
    Sample {
        name: name.into(),
        bytes,
    }
}

fn types() -> Vec<Sample> {
    let classes = [
        (
            "map",
            "org.apache.cassandra.db.marshal.MapType(UTF8Type,FrozenType(ListType(Int32Type)))",
        ),
        (
            "user",
            "UserType(ks,61646472,3132:Int32Type,d0b7:SetType(UTF8Type))",
        ),
        (
            "tuple",
            "TupleType(VectorType(FloatType , 3),com.example.Odd(a=>b,(c)),ReversedType(DateType))",
        ),
        (
            "named-like-a-wrapper",
            "TupleType(Int32Type,com.example.MyTupleType)",
        ),
        (
            "deep",
            &format!("{}Int32Type{}", "ListType(".repeat(150), ")".repeat(150)),
        ),
    ];
    let mut samples: Vec<Sample> = classes
        .iter()
        .map(|(name, class)| sample(format!("class-{name}"), [&[0], class.as_bytes()].concat()))
        .collect();
    let mut deep = vec![1];
    deep.extend([0, 0x20].repeat(190));
    deep.extend([0, 9]);
    samples.push(sample("option-deep", deep));
    let map = [1, 0, 0x21, 0, 13, 0, 0x22, 0, 9];
    samples.push(sample("option-map", map.to_vec()));
    let user = [
        1, 0, 0x30, 0, 1, b'k', 0, 1, b'u', 0, 2, 0, 1, b'a', 0, 9, 0, 1, b'b', 0, 0x31, 0, 2, 0,
        1, 0, 2,
    ];
    samples.push(sample("option-user", user.to_vec()));
    samples.push(sample(
        "option-class",
        [&[1, 0, 0, 0, 9], b"Int32Type".as_slice()].concat(),
    ));
    samples
}

fn blocks() -> Vec<Sample> {
    let plain =
        b"a body that repeats itself, a body that repeats itself, a body that repeats itself";
    let mut samples = Vec::new();
    for (choice, name, algorithm) in [
        (0, "lz4", messina_core::wire::Compression::Lz4),
        (1, "snappy", messina_core::wire::Compression::Snappy),
    ] {
        let mut block = vec![choice];
        algorithm.compress(plain, &mut block);
        samples.push(sample(format!("{name}-block"), block));
        samples.push(sample(
            format!("{name}-plain"),
            [&[choice | 2, 3], plain.as_slice()].concat(),
        ));
    }
    samples
}

fn segments() -> Vec<Sample> {
    let envelopes = [
        0, 5, 0, b'h', b'e', b'l', b'l', b'o', 0, 0, 0, 0, 3, 7, 1, 2, 3,
    ];
    let mut samples = Vec::new();
    for compressed in 0..2 {
        for (mode, name) in [(1_u8, "sealed"), (2, "flipped"), (3, "cut")] {
            let front = [mode << 1 | compressed, 0, 9, 4];
            let front = if mode == 1 { &front[..1] } else { &front[..] };
            let name = format!("{name}-{compressed}");
            samples.push(sample(name, [front, &envelopes].concat()));
        }
        let codec = (compressed == 1).then_some(messina_core::wire::Compression::Lz4);
        if let Some(mut codec) = messina_core::wire::segment::SegmentCodec::new(codec) {
            let mut raw = vec![compressed];
            codec.seal(
                &[0x84, 0, 0, 1, 8, 0, 0, 0, 4, 0, 0, 0, 1].repeat(5),
                &mut raw,
            );
            samples.push(sample(format!("raw-{compressed}"), raw));
        }
    }
    // One envelope above the largest segment.
    let mut large = vec![3, 0x3f, 0xff, 11];
    large.extend(
        (0..0x3fff_u32).map(|at| at.to_be_bytes()[2] ^ at.to_be_bytes()[3].wrapping_mul(31)),
    );
    samples.push(sample("large", large));
    samples
}

/// One row for each of the types that the target reads rows into.
fn rows() -> Vec<Sample> {
    let int = [0, 0, 0, 4, 0, 0, 0, 7];
    let text = [0, 0, 0, 2, b'o', b'k'];
    let null = [0xff; 4];
    let address = [[0, 0, 0, 14].as_slice(), &int, &text].concat();
    let list = [[0, 0, 0, 22, 0, 0, 0, 1].as_slice(), &address].concat();
    vec![
        sample(
            "by-name",
            [
                &[3, 0, 8, 1, 11, 2, 20, 24, 2, 8, 11, 2][..],
                &int,
                &text,
                &list,
                &null,
                &null,
                &null,
            ]
            .concat(),
        ),
        sample(
            "in-order",
            [&[2, 0, 8, 1, 24, 2, 8, 11, 1][..], &int, &address].concat(),
        ),
        sample(
            "int-and-text",
            [&[2, 0, 8, 1, 11, 2][..], &int, &text, &int, &null].concat(),
        ),
        sample(
            "list-of-ints",
            [&[1, 0, 20, 8, 1, 0, 0, 0, 12, 0, 0, 0, 1][..], &int].concat(),
        ),
        sample("tuple", [&[1, 0, 23, 2, 8, 11, 1][..], &address].concat()),
        sample(
            "empty-int",
            [&[2, 0, 8, 1, 6, 1, 0, 0, 0, 0][..], &null].concat(),
        ),
        sample("no-columns", vec![0, 200]),
    ]
}

fn scripts(scripts: &[(&str, &[u8])]) -> Vec<Sample> {
    scripts
        .iter()
        .map(|(name, bytes)| sample(*name, bytes.to_vec()))
        .collect()
}

/// Limits; then steps of the bench: 0 bytes, 6 answer well, 8 answer with, 9 answer compressed, 10 answer all, 11 event, 13 submit,
/// 16 submit many, 17 abandon, 19 pause, 23 write, 27 probe, 28 lazy, 31 disturb.
const FRAME_STREAM: &[(&str, &[u8])] = &[
    (
        "answers",
        &[0, 13, 0, 13, 5, 13, 2, 25, 6, 0, 0, 6, 1, 0, 6, 0, 7],
    ),
    (
        "full",
        &[1, 16, 40, 5, 5, 0x25, 0x15, 5, 10, 10, 19, 3, 10, 19, 5],
    ),
    (
        "orphans",
        &[
            0x12, 13, 0x25, 13, 0x25, 13, 5, 25, 19, 4, 17, 0, 19, 5, 19, 4, 10,
        ],
    ),
    (
        "partial-writes",
        &[
            2, 13, 4, 13, 4, 23, 200, 17, 0, 17, 2, 23, 255, 31, 2, 10, 19, 6,
        ],
    ),
    ("silence", &[0x40, 13, 5, 25, 19, 3, 19, 3, 19, 4]),
    ("probe", &[0, 27, 25, 6, 0, 0, 27, 19, 6, 19, 6]),
    (
        "raw-frame",
        &[
            0, 13, 5, 25, 0, 13, 0x84, 0, 0, 1, 8, 0, 0, 0, 4, 0, 0, 0, 1,
        ],
    ),
    (
        "large-length",
        &[
            0, 13, 5, 25, 0, 9, 0x84, 0, 0, 1, 8, 0, 3, 0xff, 0xff, 4, 1, 0, 31, 0,
        ],
    ),
    (
        "event",
        &[
            0, 11, 3, 0, 1, b'X', 12, 1, 9, 0x84, 0, 0xff, 0xff, 12, 0, 0, 0, 0,
        ],
    ),
    (
        "drain",
        &[0, 13, 5, 13, 5, 25, 31, 4, 13, 5, 6, 0, 0, 6, 0, 0],
    ),
    (
        "lazy",
        &[3, 28, 16, 60, 5, 5, 5, 5, 10, 17, 0, 17, 1, 29, 10, 28],
    ),
    (
        "error-of-the-connection",
        &[
            0, 13, 5, 25, 0, 17, 0x84, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 10, 0, 2, b'n', b'o',
        ],
    ),
    (
        "compressed",
        &[
            0x80, 13, 4, 13, 5, 13, 5, 25, 9, 0, 4, 3, b'a', b'b', b'c', 9, 0, 1, 6, 0, 0, 0, 4,
            0x40, 1, 6, 0, 0,
        ],
    ),
    ("bomb", &[0x80, 13, 5, 25, 9, 0, 0xfe, 255]),
];

/// The same over segments: 0 self-contained, 3 a piece of a frame, 4 bytes as they are, 5 a long self-contained one.
const SEGMENTED_STREAM: &[(&str, &[u8])] = &[
    (
        "answers",
        &[0, 13, 0, 13, 5, 13, 2, 25, 6, 0, 0, 6, 1, 0, 6, 0, 7],
    ),
    (
        "compressed",
        &[0x80, 13, 4, 13, 5, 25, 6, 0, 0, 27, 25, 10, 19, 6],
    ),
    (
        "two-frames",
        &[
            0, 13, 5, 13, 5, 25, 0, 26, 0x85, 0, 0, 1, 8, 0, 0, 0, 4, 0, 0, 0, 1, 0x85, 0, 0, 2, 8,
            0, 0, 0, 4, 0, 0, 0, 1,
        ],
    ),
    (
        "pieces",
        &[
            0, 13, 5, 25, 3, 7, 0x85, 0, 0, 1, 8, 0, 0, 3, 6, 0, 4, 0, 0, 0, 1,
        ],
    ),
    (
        "piece-then-whole",
        &[
            0, 13, 5, 25, 3, 7, 0x85, 0, 0, 1, 8, 0, 0, 0, 9, 0x85, 0, 0, 2, 8, 0, 0, 0, 0,
        ],
    ),
    (
        "half-a-frame",
        &[0, 13, 5, 25, 0, 10, 0x85, 0, 0, 1, 8, 0, 0, 0, 4, 0],
    ),
    (
        "bare",
        &[0, 13, 5, 25, 4, 0, 9, 0x85, 0, 0, 1, 8, 0, 0, 0, 0],
    ),
    ("empty", &[0, 13, 5, 25, 0, 0, 3, 0, 6, 0, 0]),
    (
        "partial-writes",
        &[
            0x82, 13, 4, 13, 4, 23, 200, 17, 0, 17, 2, 23, 255, 31, 2, 10, 19, 6,
        ],
    ),
    (
        "event",
        &[
            0, 11, 3, 0, 1, b'X', 12, 1, 9, 0x85, 0, 0xff, 0xff, 12, 0, 0, 0, 0,
        ],
    ),
];

/// Limits and wishes; then the same steps.
const HANDSHAKE: &[(&str, &[u8])] = &[
    ("plain", &[0, 0, 6, 0, 0, 6, 0, 0, 13, 5, 10]),
    (
        "everything",
        &[
            0, 15, 6, 0, 0x0e, 0, 0, 1, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0, 11, 0,
            12, 0, 6, 0, 1, 6, 0, 0, 6, 0, 0, 6, 0, 0,
        ],
    ),
    (
        "segments",
        &[0, 28, 6, 0, 0, 6, 0, 0, 6, 0, 0, 6, 0, 0, 13, 5, 10],
    ),
    ("challenge", &[0, 1, 6, 0, 0, 6, 0, 1, 6, 0, 0xe0]),
    ("no-login", &[0, 0, 6, 0, 0, 6, 0, 1]),
    ("fewer-events", &[0, 8, 6, 0, 0, 6, 0, 0, 6, 0, 3, 6, 0, 0]),
    ("silence", &[0, 4, 6, 0, 0, 19, 5, 19, 5]),
    (
        "another-version",
        &[0, 0, 0, 9, 0x83, 0, 0, 1, 0, 0, 0, 0, 0],
    ),
    ("not-a-server", &[0, 0, 0, 4, b'H', b'T', b'T', b'P']),
    (
        "odd-values",
        &[
            0, 8, 6, 0, 5, 3, 0xff, 2, b'-', b'1', 4, 0xff, 1, b'0', 9, 0xff, 1, b'=', 10, 0xff, 0,
            5, 0, 6, 0, 0,
        ],
    ),
];

/// Settings; then steps: 0 resolve, 1 connect, 5 refuse, 7 lose, 8 rows, 13 bytes, 14 error, 17 event, 19 pause,
/// 22 refresh, 23 schema change, 24 agreement, 25 keyspace, 26 close, 29 do well.
const CONTROL_PLANE: &[(&str, &[u8])] = &[
    (
        "healthy",
        &[
            0, 0, 29, 29, 29, 29, 19, 4, 29, 24, 6, 29, 29, 25, 6, 0, 29, 29,
        ],
    ),
    ("names", &[2, 0, 0, 9, 29, 29, 29, 7, 0, 0, 29, 29, 29, 29]),
    (
        "readers-fail",
        &[
            0, 0, 29, 14, 0, 0, 14, 0, 2, 14, 0, 4, 14, 0, 6, 19, 4, 29, 29, 29,
        ],
    ),
    (
        "odd-rows",
        &[
            0, 1, 29, 8, 0, 0, 0, 0, 2, 0, 8, 0, 0, 4, 3, 0, 1, 0x10, 0, 2, 0x02, 0x20, 3, 0, 8, 0,
            21, 8, 0, 22, 29, 29, 29,
        ],
    ),
    (
        "events",
        &[
            0, 0, 29, 29, 29, 17, 1, 3, 0, 31, 17, 2, 5, 0, 31, 17, 3, 0, 0, 31, 17, 1, 6, 9, 0,
            31, 19, 4, 29, 29, 29,
        ],
    ),
    (
        "lost",
        &[
            0, 3, 29, 29, 29, 7, 0, 0, 7, 0, 1, 7, 0, 0, 5, 0, 7, 5, 0, 7, 19, 6, 29, 29, 29, 29,
        ],
    ),
    (
        "keyspaces",
        &[
            4, 0, 29, 29, 29, 25, 6, 1, 25, 5, 0, 25, 0, 3, 14, 0, 0, 14, 0, 0, 29, 29, 19, 6, 29,
        ],
    ),
    ("nowhere", &[0x18, 0, 29, 29, 29, 29]),
    ("versions", &[0, 0, 5, 0, 1, 5, 0, 2, 19, 7, 29, 29]),
    (
        "mutated-body",
        &[
            0, 0, 1, 0, 0, 8, 0, 0, 0, 0, 0, 2, 0, 9, 0x7f, 0, 40, 0xff, 13, 0, 8, 0, 0, 0, 2, 0,
            0, 0, 4, 29, 29, 29,
        ],
    ),
];
