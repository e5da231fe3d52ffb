//! Recorded compressed bodies of version 4.

use messina_core::wire::Compression;
use messina_core::wire::compress::{pack_frame, unpack_body};
use serde_json::Value as Json;

use crate::files::{VectorFile, bytes, none, text};
use crate::frames::{split, to_hex};

#[test]
fn compressed_bodies_are_read_as_recorded() {
    if let Some(file) = VectorFile::open("compression_v4.json") {
        file.run("bodies", none, check);
    }
}

fn check(case: &Json) -> Result<(), String> {
    let compression = named(text(case, "algorithm"));
    let plain = plain_body(case);
    let packed = bytes(case, "encoded_hex");
    let length = u32::try_from(plain.len()).expect("a short body");
    let read = |packed: &[u8], max| compression.decompress(packed, max);
    if read(&packed, length).map_err(|error| error.to_string())? != plain {
        return Err("read as something else".to_owned());
    }
    if let Some(less) = length.checked_sub(1)
        && read(&packed, less).is_ok()
    {
        return Err("the limit is not kept".to_owned());
    }
    let mut ours = Vec::new();
    if !compression.compress(&plain, &mut ours) {
        return Err("the algorithm is not built in".to_owned());
    }
    match read(&ours, length) {
        Ok(read) if read == plain => Ok(()),
        other => Err(format!("{} is read as {other:?}", to_hex(&ours))),
    }
}

/// The body of a case without its compression.
pub(crate) fn plain_body(case: &Json) -> Vec<u8> {
    match case["plain_hex"].as_str() {
        Some(_) => bytes(case, "plain_hex"),
        None => by_rule(text(case, "plain_rule")),
    }
}

fn by_rule(rule: &str) -> Vec<u8> {
    assert_eq!(
        rule,
        "4-byte big-endian length 5000, then that many bytes 0x00"
    );
    let mut plain = 5000_u32.to_be_bytes().to_vec();
    plain.resize(5004, 0);
    plain
}

/// The algorithm of a case.
pub(crate) fn named(name: &str) -> Compression {
    match name {
        "lz4" => Compression::Lz4,
        "snappy" => Compression::Snappy,
        other => panic!("no algorithm {other}"),
    }
}

/// The frame of a case without its compression, which must be as recorded and survive our own compression.
pub(crate) fn plain_frame(case: &Json) -> Result<Vec<u8>, String> {
    let frame = bytes(case, "hex");
    let Some(algorithm) = case["compression"].as_str() else {
        return Ok(frame);
    };
    let compression = named(algorithm);
    let plain = unpack(&frame, compression)?;
    if plain != bytes(case, "uncompressed_hex") {
        return Err(format!("decompressed to {}", to_hex(&plain)));
    }
    let mut ours = Vec::new();
    pack_frame(&plain, compression, &mut ours);
    if unpack(&ours, compression)? != plain {
        return Err(format!("compressed to {}", to_hex(&ours)));
    }
    Ok(plain)
}

fn unpack(frame: &[u8], compression: Compression) -> Result<Vec<u8>, String> {
    const MAX: u32 = 1 << 20;
    let (mut header, body) = split(frame)?;
    let body = unpack_body(&mut header, body, Some(compression), MAX)
        .map_err(|error| error.to_string())?;
    Ok([&header.to_bytes(), &body[..]].concat())
}
