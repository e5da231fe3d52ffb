//! Recorded segments of version 5.

use bytes::Bytes;
use messina_core::wire::FrameHeader;
use messina_core::wire::segment::{EnvelopeJoiner, SegmentCodec, SegmentHeader, crc24, crc32};
use serde_json::Value as Json;

use crate::compression::named;
use crate::files::{VectorFile, bytes, hex, none, text};
use crate::frames::to_hex;

#[test]
fn checksums_are_as_recorded() {
    let Some(file) = VectorFile::open("segments_v5.json") else {
        return;
    };
    file.run("crc24", none, |case| {
        let [c0, c1, c2, _] = crc24(&bytes(case, "header_hex")).to_le_bytes();
        same(&[c0, c1, c2], &bytes(case, "crc24_wire_hex"))
    });
    file.run("crc32", none, |case| {
        let crc = crc32(&bytes(case, "payload_hex")).to_le_bytes();
        same(&crc, &bytes(case, "crc32_wire_hex"))
    });
}

#[test]
fn segments_are_written_and_read_as_recorded() {
    let Some(file) = VectorFile::open("segments_v5.json") else {
        return;
    };
    file.run("segments", none, |case| check(case, &[payload(case)]));
    file.run("multi_envelope", none, |case| {
        let envelopes = case["envelopes_hex"].as_array().expect("envelopes").iter();
        let envelopes: Vec<_> = envelopes
            .map(|envelope| hex(envelope.as_str().expect("hex")))
            .collect();
        check(case, &envelopes)
    });
}

#[test]
fn corrupt_segments_are_refused() {
    let Some(file) = VectorFile::open("segments_v5.json") else {
        return;
    };
    file.run("corrupt", none, |case| {
        match unseal(&codec(case), &bytes(case, "wire_hex")) {
            Err(_) => Ok(()),
            Ok(found) => Err(format!("read as {found:?}")),
        }
    });
}

fn check(case: &Json, envelopes: &[Vec<u8>]) -> Result<(), String> {
    let mut codec = codec(case);
    let plain = envelopes.concat();
    let mut ours = Vec::new();
    codec.seal(&plain, &mut ours);
    let (found, headers) = unseal(&codec, &ours)?;
    if found != envelopes {
        return Err(format!("what we write is read as {found:?}"));
    }
    if let Some(recorded) = case["wire_hex"].as_str() {
        let (found, headers) = unseal(&codec, &hex(recorded))?;
        if found != envelopes {
            return Err(format!("read as {found:?}"));
        }
        check_segments(case, &codec, &headers, &hex(recorded))?;
    }
    if text(case, "compression") == "none" {
        check_segments(case, &codec, &headers, &ours)?;
        if let Some(recorded) = case["wire_hex"].as_str() {
            same(&ours, &hex(recorded))?;
        }
    }
    Ok(())
}

/// Compares each segment with what was recorded about it; the trailers stand for the payloads.
fn check_segments(
    case: &Json,
    codec: &SegmentCodec,
    headers: &[SegmentHeader],
    wire: &[u8],
) -> Result<(), String> {
    let recorded = case["segments"].as_array().expect("segments");
    if recorded.len() != headers.len() {
        return Err(format!("{} segments", headers.len()));
    }
    let mut offset = 0;
    for (recorded, header) in recorded.iter().zip(headers) {
        let end = offset + codec.segment_len(header);
        let field = |name: &str| recorded[name].as_u64().expect("a number");
        let plain_len = if text(case, "compression") == "none" {
            0
        } else {
            field("uncompressed_len")
        };
        let same_header = u64::from(header.payload_len) == field("wire_payload_len")
            && u64::from(header.plain_len) == plain_len
            && recorded["self_contained"] == header.self_contained
            && u64::try_from(offset) == Ok(field("offset"));
        if !same_header {
            return Err(format!("{header:?} at {offset}"));
        }
        same(
            &wire[offset..offset + codec.header_len()],
            &bytes(recorded, "header_hex"),
        )?;
        same(&wire[end - 4..end], &bytes(recorded, "crc32_trailer_hex"))?;
        offset = end;
    }
    Ok(())
}

fn codec(case: &Json) -> SegmentCodec {
    let compression = match text(case, "compression") {
        "none" => None,
        name => Some(named(name)),
    };
    SegmentCodec::new(compression).expect("an algorithm of version 5")
}

/// The envelope of a case.
fn payload(case: &Json) -> Vec<u8> {
    if case["payload_hex"].is_string() {
        return bytes(case, "payload_hex");
    }
    let length = usize::try_from(case["payload_len"].as_u64().expect("a length")).expect("short");
    let mut payload = bytes(case, "payload_header_hex");
    let byte = |i: usize| match text(case, "body_rule") {
        "every body byte = 0x41" => 0x41,
        "byte i of the body = (i*i) mod 7" => (i * i % 7).to_be_bytes()[7],
        other => panic!("no rule {other}"),
    };
    payload.extend((0..length - FrameHeader::LEN).map(byte));
    payload
}

type Unsealed = (Vec<Vec<u8>>, Vec<SegmentHeader>);

fn unseal(codec: &SegmentCodec, wire: &[u8]) -> Result<Unsealed, String> {
    const BODY_MAX: u32 = 1 << 20;
    let mut joiner = EnvelopeJoiner::new();
    let mut rest = Bytes::copy_from_slice(wire);
    let (mut found, mut headers) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let header = codec
            .read_header(&rest)
            .map_err(|error| error.to_string())?;
        let header = header.ok_or("the header is cut")?;
        let len = codec.segment_len(&header).min(rest.len());
        let payload = codec
            .open(&header, &rest.split_to(len))
            .map_err(|error| error.to_string())?;
        joiner
            .join(payload, header.self_contained, BODY_MAX, |raw, body| {
                let header = FrameHeader::try_from(raw).expect("a known header");
                found.push([&header.to_bytes(), &body[..]].concat());
            })
            .map_err(|error| error.to_string())?;
        headers.push(header);
    }
    Ok((found, headers))
}

fn same(ours: &[u8], recorded: &[u8]) -> Result<(), String> {
    if ours == recorded {
        Ok(())
    } else {
        Err(format!("{} instead of {}", to_hex(ours), to_hex(recorded)))
    }
}
