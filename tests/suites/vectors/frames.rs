//! Recorded requests: what we encode must be the recorded bytes, and what a peer decodes must be the request.

use bytes::Bytes;
use messina_core::wire::{
    Batch, BatchKind, BatchStatement, Consistency, EventKind, FrameHeader, Params,
    ProtocolFeatures, ProtocolVersion, Request, RequestOptions, SerialConsistency, StatementSource,
    Supported, Values,
};
use serde_json::Value as Json;

use crate::compression::plain_frame;
use crate::files::{VectorFile, bytes, hex, none, text};

#[test]
fn requests_of_version_4_are_written_and_read_as_recorded() {
    if let Some(file) = VectorFile::open("frames_v4.json") {
        file.run("requests", none, check);
        let left_out = file.list("requests_v3").len();
        println!("frames_v4.json requests_v3: {left_out} left out: version 3 is not spoken");
    }
}

#[test]
fn requests_of_version_5_are_written_and_read_as_recorded() {
    if let Some(file) = VectorFile::open("frames_v5.json") {
        file.run("requests", none, check);
    }
}

fn check(case: &Json) -> Result<(), String> {
    let features = features(case);
    let (options, request) = (request_options(case), request(case, &features));
    let recorded = recorded(case)?;
    let (header, body) = split(&recorded)?;
    let stream = i16::try_from(case["stream"].as_i64().expect("a stream")).expect("a stream");
    if header.stream != stream || header.version != features.version.byte() {
        return Err(format!("the header is {header:?}"));
    }
    let decoded = Request::decode(&header, &body, &features).map_err(|error| error.to_string())?;
    if decoded != (options.clone(), request.clone()) {
        return Err(format!("read as {decoded:?}\n    instead of {request:?}"));
    }
    let mut written = Vec::new();
    request
        .with_ref(|request| request.encode(&mut written, &features, stream, &options.as_ref()))
        .map_err(|error| error.to_string())?;
    if written == recorded {
        return Ok(());
    }
    // A count of no values and no count at all mean the same; we write the shorter one.
    if case["request"]["values"]
        .as_array()
        .is_some_and(Vec::is_empty)
    {
        let (header, body) = split(&written)?;
        let again = Request::decode(&header, &body, &features);
        if again.as_ref() == Ok(&decoded) && written.len() + 2 == recorded.len() {
            return Ok(());
        }
    }
    Err(format!("written as {}", to_hex(&written)))
}

/// The recorded frame, not compressed, and without what we never do: ask for unfinished versions.
fn recorded(case: &Json) -> Result<Vec<u8>, String> {
    let mut frame = plain_frame(case)?;
    if case["use_beta"] == true {
        let flags = frame.get_mut(1).ok_or("no header")?;
        if *flags & 0x10 == 0 {
            return Err("the flag of unfinished versions is not set".to_owned());
        }
        *flags &= !0x10;
    }
    Ok(frame)
}

/// Splits a frame into its header and its body.
pub(crate) fn split(frame: &[u8]) -> Result<(FrameHeader, Bytes), String> {
    let (head, body) = frame.split_first_chunk::<9>().ok_or("the header is cut")?;
    let header = FrameHeader::parse(head).map_err(|error| error.to_string())?;
    Ok((header, Bytes::copy_from_slice(body)))
}

/// What both sides of a case agreed on.
pub(crate) fn features(case: &Json) -> ProtocolFeatures {
    let version = match case["version"].as_u64() {
        Some(5) => ProtocolVersion::V5,
        _ => ProtocolVersion::V4,
    };
    let mut supported = Supported::default();
    if let Some(features) = case["features"].as_object() {
        for (key, values) in features {
            let values = values.as_array().expect("values").iter();
            let values = values.map(|value| value.as_str().expect("a value").to_owned());
            supported.options.push((key.clone(), values.collect()));
        }
    }
    supported.offered().accept(version)
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn consistency(name: &str) -> Consistency {
    let mut all = Consistency::ALL.into_iter();
    all.find(|level| level.name() == name)
        .unwrap_or_else(|| panic!("no level {name}"))
}

fn request_options(case: &Json) -> RequestOptions {
    let payload = case["custom_payload"].as_object().map(|payload| {
        let value = |value: &Json| value.as_str().map(|digits| Bytes::from(hex(digits)));
        payload
            .iter()
            .map(|(key, data)| (key.clone(), value(data)))
            .collect()
    });
    RequestOptions {
        tracing: case["tracing"] == true,
        custom_payload: payload,
    }
}

fn request(case: &Json, features: &ProtocolFeatures) -> Request {
    let json = &case["request"];
    match text(case, "opcode") {
        "OPTIONS" => Request::Options,
        "STARTUP" => {
            let options = json["options"].as_object().expect("options");
            let mut options: Vec<(String, String)> = options
                .iter()
                .map(|(key, value)| (key.clone(), value.as_str().expect("text").to_owned()))
                .collect();
            // JSON objects have no order: take that of the recorded bytes.
            let recorded = text(case, "hex");
            options.sort_by_key(|(key, _)| {
                let entry = format!("{:04x}{}", key.len(), to_hex(key.as_bytes()));
                recorded.find(&entry).expect("the key was recorded")
            });
            Request::Startup(options)
        }
        "AUTH_RESPONSE" => {
            let token = json["token_hex"].as_str().map(hex);
            if let Some(login) = json["sasl_plain"].as_object() {
                let plain = format!(
                    "\0{}\0{}",
                    login["user"].as_str().expect("a user"),
                    login["password"].as_str().expect("a password")
                );
                assert_eq!(token.as_deref(), Some(plain.as_bytes()));
            }
            Request::AuthResponse(token.map(Bytes::from))
        }
        "REGISTER" => {
            let events = json["events"].as_array().expect("events").iter();
            let kind = |name: &Json| EventKind::from_name(name.as_str().expect("a name"));
            Request::Register(
                events
                    .map(|name| kind(name).expect("a known event"))
                    .collect(),
            )
        }
        "PREPARE" => Request::Prepare {
            text: text(json, "query").to_owned(),
            keyspace: owned(json, "keyspace"),
        },
        "QUERY" => Request::Query {
            text: text(json, "query").to_owned(),
            params: params(json),
        },
        "EXECUTE" => Request::Execute {
            id: bytes(json, "id").into(),
            result_metadata_id: features
                .has_metadata_id()
                .then(|| bytes(json, "result_metadata_id").into()),
            tablet_block: json["tablet_version_block"]
                .as_u64()
                .map_or(0, |block| u8::try_from(block).expect("a byte")),
            params: params(json),
        },
        "BATCH" => Request::Batch(batch(json)),
        other => panic!("no opcode {other}"),
    }
}

fn params(json: &Json) -> Params {
    Params {
        consistency: consistency(text(json, "consistency")),
        serial_consistency: serial_consistency(json),
        values: values(json),
        skip_metadata: json["skip_metadata"] == true,
        page_size: int(json, "page_size"),
        paging_state: json["paging_state"]
            .as_str()
            .map(|state| Bytes::from(hex(state))),
        timestamp: timestamp(json),
        keyspace: owned(json, "keyspace"),
        now_in_seconds: int(json, "now_in_seconds"),
    }
}

fn batch(json: &Json) -> Batch {
    let statement = |one: &Json| BatchStatement {
        statement: match one["query"].as_str() {
            Some(text) => StatementSource::Text(text.to_owned()),
            None => StatementSource::Prepared(bytes(one, "id").into()),
        },
        values: values(one),
    };
    Batch {
        kind: match text(json, "type") {
            "LOGGED" => BatchKind::Logged,
            "UNLOGGED" => BatchKind::Unlogged,
            "COUNTER" => BatchKind::Counter,
            other => panic!("no kind of batch {other}"),
        },
        statements: json["queries"]
            .as_array()
            .expect("queries")
            .iter()
            .map(statement)
            .collect(),
        consistency: consistency(text(json, "consistency")),
        serial_consistency: serial_consistency(json),
        timestamp: timestamp(json),
        keyspace: owned(json, "keyspace"),
        now_in_seconds: int(json, "now_in_seconds"),
    }
}

fn values(json: &Json) -> Values {
    let Some(all) = json["values"].as_array() else {
        return Values::default();
    };
    let mut encoded = Vec::new();
    for value in all {
        if value["unset"] == true {
            encoded.extend_from_slice(&(-2_i32).to_be_bytes());
        } else if value.is_null() {
            encoded.extend_from_slice(&(-1_i32).to_be_bytes());
        } else {
            let bytes = bytes(value, "hex");
            let length = u32::try_from(bytes.len()).expect("a short value");
            encoded.extend_from_slice(&length.to_be_bytes());
            encoded.extend_from_slice(&bytes);
        }
    }
    let names = json["value_names"].as_array().map(|names| {
        names
            .iter()
            .map(|name| name.as_str().expect("a name").to_owned())
            .collect()
    });
    let count = u16::try_from(all.len()).expect("few values");
    Values {
        count,
        bytes: encoded.into(),
        names,
    }
}

fn serial_consistency(json: &Json) -> Option<SerialConsistency> {
    let name = json["serial_consistency"].as_str()?;
    SerialConsistency::from_code(consistency(name).code())
}

fn timestamp(json: &Json) -> Option<i64> {
    json["timestamp"]
        .as_str()
        .map(|timestamp| timestamp.parse().expect("a number"))
}

fn int(json: &Json, field: &str) -> Option<i32> {
    json[field]
        .as_i64()
        .map(|number| i32::try_from(number).expect("an int"))
}

fn owned(json: &Json, field: &str) -> Option<String> {
    json[field].as_str().map(str::to_owned)
}
