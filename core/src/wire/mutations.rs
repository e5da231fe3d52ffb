//! Broken frames by the thousand through every decoder: none may panic, and what is read must write back.

use bytes::Bytes;

use crate::types::custom_type::{class_name, parse_class_name};
use crate::wire::event::ServerEvent;
use crate::wire::header::{FrameHeader, ProtocolVersion};
use crate::wire::read::Reader;
use crate::wire::request::Request;
use crate::wire::response::{Response, ResponseFrame};
use crate::wire::supported::ProtocolFeatures;

/// Frames of every kind, to be broken. The lengths of the bodies are filled in.
const FRAMES: &[(u8, u8, &str)] = &[
    (
        0x00,
        0x0e,
        "000102030405060708090a0b0c0d0e0f000100027731000100016b0000000101000022000003626164",
    ),
    (0x00, 0, "00001100000178000600000001000000020003434153000a"),
    (
        0x00,
        0,
        "0000130000017800060000000100000002000000010400010203000101",
    ),
    (
        0x00,
        0,
        "000014000001780002 6b730001660002 0003696e740004626c6f62",
    ),
    (
        0x00,
        0,
        "000015000001780006000000010000000200000001000653494d504c45",
    ),
    (0x00, 0, "0000250000017800041122334 4"),
    (0x03, 0, "0003616263"),
    (
        0x06,
        0,
        "0002000b434f4d5052455353494f4e000200036c7a340006736e61707079000c5343594c4c415f5348415244000100013 3",
    ),
    (0x08, 0, "00000001"),
    (
        0x08,
        0,
        "0000000200000003000000020000000278790001610001620001630009000164003000016b000175000200017800090001790022000d0000000100000004000000010000000000",
    ),
    (
        0x08,
        0,
        "0000000200000000000000010001610001620001630000002e6f72672e6170616368652e63617373616e6472612e64622e6d61727368616c2e5573657254797065286b2c36312900000000",
    ),
    (
        0x08,
        0,
        "00000002000000080000000100046d6574610001610001620001630009 00000000",
    ),
    (
        0x08,
        0,
        "0000000400020102000000010000000100000001000000016b00017400016100210009000d000000040000 0000",
    ),
    (
        0x08,
        0,
        "00000005000743524541544544000846554e4354494f4e00026b730001660001 0003696e74",
    ),
    (
        0x0c,
        0,
        "000f544f504f4c4f47595f4348414e474500084e45575f4e4f444504c000020100002352",
    ),
    (
        0x0c,
        0,
        "0014434c49454e545f524f555445535f4348414e4745000c5550444154455f4e4f4445530001000163000100016 8",
    ),
    (0x0e, 0, "00000003010203"),
    (0x10, 0, "ffffffff"),
    (0x01, 0, "0001000b43514c5f56455253494f4e0005332e302e30"),
    (
        0x0b,
        0,
        "0002000f544f504f4c4f47595f4348414e4745000d534348454d415f4348414e4745",
    ),
    (0x0f, 0, "0000000400610062"),
    (
        0x07,
        0x06,
        "000100016b00000001010000000878787878787878780001 7f00020001610000000107000162fffffffe000013880000000101000800000000000000 05",
    ),
    (0x09, 0, "0000000178"),
    (0x0a, 0, "00020102000600 02 0000000107ffffffff"),
    (
        0x0a,
        0,
        "000201020000000625000200000001 07ffffffff0000138800000000000000075a",
    ),
    (
        0x0d,
        0,
        "0000020000000001780001000000010701000201020000000630 00090000000000000005",
    ),
];

/// Class names, to be broken.
const CLASSES: &[&str] = &[
    "org.apache.cassandra.db.marshal.MapType(UTF8Type,FrozenType(ListType(Int32Type)))",
    "UserType(ks,61646472,3132:Int32Type,d0b7:SetType(UTF8Type))",
    "TupleType(VectorType(FloatType , 3),com.example.Odd(a=>b,(c)))",
];

/// How often each frame is broken: enough to hit every field several times.
const ROUNDS: usize = 400;

/// A small generator; the seed is fixed, so a failure repeats.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % n.max(1)
    }

    fn breaks(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            let end = (at + 4).min(bytes.len());
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => bytes[at..end].fill(0xff),
                2 => bytes[at..end].fill(0x7f),
                3 => bytes.insert(at, 0),
                4 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                _ if !bytes.is_empty() => drop(bytes.remove(at)),
                _ => {}
            }
        }
    }
}

fn body(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter(|c| *c != ' ')
        .map(|c| u8::try_from(c.to_digit(16).unwrap()).unwrap())
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect()
}

fn layouts() -> [ProtocolFeatures; 3] {
    let plain = ProtocolFeatures::default();
    [
        plain,
        ProtocolFeatures {
            version: ProtocolVersion::V5,
            metadata_id: true,
            ..plain
        },
        ProtocolFeatures {
            lwt_mark_mask: Some(0x8000_0000),
            rate_limit_error: Some(0x2200),
            metadata_id: true,
            tablets_v2: true,
            ..plain
        },
    ]
}

/// Runs a frame through the decoder of its side; what can be read must survive being written.
fn decode(opcode: u8, flags: u8, body: &[u8], features: &ProtocolFeatures) -> bool {
    let from_server = matches!(
        opcode,
        0x00 | 0x02 | 0x03 | 0x06 | 0x08 | 0x0c | 0x0e | 0x10
    );
    let version = features.version.byte() | if from_server { 0x80 } else { 0 };
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let header = [
        version, flags, 0, 1, opcode, length[0], length[1], length[2], length[3],
    ];
    let header = FrameHeader::parse(&header).unwrap();
    let body = Bytes::copy_from_slice(body);
    let mut again = Vec::new();
    if from_server {
        let frame = ResponseFrame { header, body };
        let Ok(envelope) = frame.parse(features) else {
            return false;
        };
        if matches!(
            envelope.response,
            Response::Event(ServerEvent::Unknown { .. })
        ) {
            return true; // only its kind is kept
        }
        envelope.encode(&mut again, features, 1).unwrap();
        let (head, body) = again.split_first_chunk::<9>().unwrap();
        let header = FrameHeader::parse(head).unwrap();
        let frame = ResponseFrame {
            header,
            body: Bytes::copy_from_slice(body),
        };
        let read = frame.parse(features).unwrap();
        assert_eq!(
            (&read.response, &read.warnings),
            (&envelope.response, &envelope.warnings)
        );
    } else {
        let Ok((options, request)) = Request::decode(&header, &body, features) else {
            return false;
        };
        request
            .with_ref(|request| request.encode(&mut again, features, 1, &options.as_ref()))
            .unwrap();
        let (head, body) = again.split_first_chunk::<9>().unwrap();
        let header = FrameHeader::parse(head).unwrap();
        let body = Bytes::copy_from_slice(body);
        let (_, read) = Request::decode(&header, &body, features).unwrap();
        assert_eq!(read.opcode(), request.opcode());
    }
    true
}

#[test]
fn every_sample_is_read_by_some_layout() {
    for (opcode, flags, hex) in FRAMES {
        let body = body(hex);
        let read = layouts()
            .iter()
            .any(|features| decode(*opcode, *flags, &body, features));
        assert!(read, "0x{opcode:02x} {hex}");
    }
}

#[test]
fn broken_frames_do_not_panic_and_what_is_read_writes_back() {
    let mut dice = Dice(0x6d65_7373_696e_6121);
    let mut read = 0;
    let mut refused = 0;
    for (opcode, flags, hex) in FRAMES {
        for _ in 0..ROUNDS {
            let mut body = body(hex);
            dice.breaks(&mut body);
            for features in &layouts() {
                if decode(*opcode, *flags, &body, features) {
                    read += 1
                } else {
                    refused += 1
                }
            }
        }
    }
    assert!(
        1000 < read && 1000 < refused,
        "{read} read, {refused} refused"
    );
}

#[test]
fn frames_that_end_early_are_refused_or_still_whole() {
    for (opcode, flags, hex) in FRAMES {
        let body = body(hex);
        for end in 0..body.len() {
            for features in &layouts() {
                decode(*opcode, *flags, &body[..end], features);
            }
        }
    }
}

#[test]
fn broken_class_names_do_not_panic_and_what_is_read_writes_back() {
    let mut dice = Dice(0x6d65_7373_696e_6122);
    let mut read = 0;
    for class in CLASSES {
        assert!(parse_class_name(class).is_ok(), "{class}");
        for _ in 0..ROUNDS * 5 {
            let mut bytes = class.as_bytes().to_vec();
            dice.breaks(&mut bytes);
            let name = String::from_utf8_lossy(&bytes);
            if let Ok(ty) = parse_class_name(&name) {
                read += 1;
                assert_eq!(
                    parse_class_name(&class_name(&ty)).as_ref(),
                    Ok(&ty),
                    "{name}"
                );
            }
        }
    }
    assert!(100 < read, "{read} read");
}

#[test]
fn noise_does_not_panic_in_any_reading_of_the_cursor() {
    let mut dice = Dice(0x6d65_7373_696e_6123);
    for _ in 0..ROUNDS * 5 {
        let noise: Vec<u8> = (0..dice.below(40))
            .map(|_| u8::try_from(dice.below(256)).unwrap())
            .collect();
        let r = || Reader::new(&noise);
        let _ = (
            r().string(),
            r().long_string(),
            r().string_list(),
            r().string_map(),
        );
        let _ = (
            r().string_multimap(),
            r().bytes_map(),
            r().bytes(),
            r().short_bytes(),
        );
        let _ = (
            r().value(),
            r().uuid(),
            r().inet(),
            r().consistency(),
            r().unsigned_vint(),
        );
        let _ = (
            r().vint(),
            r().int_count(0),
            r().int_count(4),
            r().short_count(2),
        );
    }
}
