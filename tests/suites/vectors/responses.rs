//! Recorded responses: what we read must be what was meant, and what we write must read back the same.

use std::sync::Arc;

use bytes::Bytes;
use messina_core::types::ColumnType;
use messina_core::wire::compress::unpack_body;
use messina_core::wire::{
    ColumnSpec, Envelope, FailureReason, OperationKind, PreparedBody, ProtocolFeatures, Reader,
    ReplicaFailures, Response, ResponseFrame, ResultBody, ResultMetadata, RowsBody, SchemaChange,
    SchemaChangeKind, SchemaTarget, ServerError, ServerErrorDetail, ServerEvent, Supported,
    TopologyChange, WriteType, server_error::code,
};
use serde_json::Value as Json;

use crate::compression::{named, plain_frame};
use crate::files::{VectorFile, bytes, column_type, hex, none, text};
use crate::frames::{consistency, features, split};

#[test]
fn responses_of_version_4_are_read_as_recorded() {
    if let Some(file) = VectorFile::open("responses_v4.json") {
        file.run("responses", none, check);
        let left_out = file.list("responses_v3").len();
        println!("responses_v4.json responses_v3: {left_out} left out: version 3 is not spoken");
    }
}

#[test]
fn responses_of_version_5_are_read_as_recorded() {
    if let Some(file) = VectorFile::open("responses_v5.json") {
        file.run("responses", none, check);
    }
}

#[test]
fn malformed_responses_are_refused() {
    if let Some(file) = VectorFile::open("responses_v4.json") {
        file.run("malformed", none, check_malformed);
    }
}

/// A broken frame must be refused on its way to the cells; an event of an unknown kind may be told as such.
fn check_malformed(case: &Json) -> Result<(), String> {
    let Ok((mut header, body)) = split(&bytes(case, "hex")) else {
        return Ok(());
    };
    let agreed = case["compression"].as_str().map(named);
    let Ok(body) = unpack_body(&mut header, body, agreed, 1 << 20) else {
        return Ok(());
    };
    let features = ProtocolFeatures::default();
    let Ok(envelope) = (ResponseFrame { header, body }).parse(&features) else {
        return Ok(());
    };
    match envelope.response {
        Response::Event(ServerEvent::Unknown { .. }) => Ok(()),
        Response::Result(ResultBody::Rows(rows)) if rows.check_cells().is_err() => Ok(()),
        other => Err(format!("read as {other:?}")),
    }
}

fn check(case: &Json) -> Result<(), String> {
    let features = features(case);
    let frame = plain_frame(case)?;
    let (header, body) = split(&frame)?;
    let envelope = read(&frame, &features)?;
    if i64::from(header.stream) != case["stream"].as_i64().expect("a stream") {
        return Err(format!("the stream is {}", header.stream));
    }
    if let Some(extra) = case["extra_trailing_hex"].as_str()
        && !body.ends_with(&hex(extra))
    {
        return Err("the trailing bytes are not there".to_owned());
    }
    let mut expected = expected(&case["expected"], &features);
    let mut found = envelope.clone();
    // Maps are sorted in JSON and keep their order on the wire.
    for envelope in [&mut expected, &mut found] {
        envelope.custom_payload.sort();
        if let Response::Supported(supported) = &mut envelope.response {
            supported.options.sort();
        }
    }
    if expected != found {
        return Err(format!("read as {found:?}\n    instead of {expected:?}"));
    }
    check_cells(case, &envelope)?;
    let mut written = Vec::new();
    envelope
        .encode(&mut written, &features, header.stream)
        .map_err(|error| error.to_string())?;
    let again = read(&written, &features)?;
    if again == envelope {
        Ok(())
    } else {
        Err(format!("written and read again as {again:?}"))
    }
}

fn read(frame: &[u8], features: &ProtocolFeatures) -> Result<Envelope, String> {
    let (header, body) = split(frame)?;
    ResponseFrame { header, body }
        .parse(features)
        .map_err(|error| error.to_string())
}

/// Compares every cell of rows with what was recorded.
fn check_cells(case: &Json, envelope: &Envelope) -> Result<(), String> {
    let Response::Result(ResultBody::Rows(rows)) = &envelope.response else {
        return Ok(());
    };
    rows.check_cells().map_err(|error| error.to_string())?;
    let recorded = case["expected"]["body"]["cells_hex"]
        .as_array()
        .expect("cells");
    if recorded.len() != rows.row_count {
        return Err(format!(
            "{} rows instead of {}",
            rows.row_count,
            recorded.len()
        ));
    }
    let mut cells = Reader::new(&rows.cells);
    for row in recorded {
        let row = row.as_array().expect("a row");
        if row.len() != rows.metadata.column_count {
            return Err(format!(
                "{} columns instead of {}",
                rows.metadata.column_count,
                row.len()
            ));
        }
        for cell in row {
            let expected = cell.as_str().map(hex);
            let found = cells.bytes().map_err(|error| error.to_string())?;
            if found != expected.as_deref() {
                return Err(format!("a cell is {found:?} instead of {expected:?}"));
            }
        }
    }
    let trailing = case["extra_trailing_hex"]
        .as_str()
        .map_or(0, |digits| digits.len() / 2);
    if cells.remaining() == trailing {
        Ok(())
    } else {
        Err(format!(
            "{} bytes are left behind the cells",
            cells.remaining()
        ))
    }
}

fn expected(json: &Json, features: &ProtocolFeatures) -> Envelope {
    let body = &json["body"];
    let payload = json["custom_payload"].as_object();
    Envelope {
        tracing_id: json["tracing_id"]
            .as_str()
            .map(|id| id.parse().expect("a uuid")),
        warnings: strings(&json["warnings"]),
        custom_payload: payload
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.as_str().map(|digits| hex(digits).into())))
            .collect(),
        response: match text(body, "kind") {
            "ERROR" => Response::Error(server_error(body, features)),
            "READY" => Response::Ready,
            "AUTHENTICATE" => Response::Authenticate(text(body, "authenticator").to_owned()),
            "SUPPORTED" => Response::Supported(supported(body)),
            "RESULT" => Response::Result(result(body, features)),
            "EVENT" => Response::Event(event(body)),
            "AUTH_CHALLENGE" => Response::AuthChallenge(token(body)),
            "AUTH_SUCCESS" => Response::AuthSuccess(token(body)),
            other => panic!("no kind of response {other}"),
        },
    }
}

fn token(body: &Json) -> Option<Bytes> {
    body["token_hex"].as_str().map(|digits| hex(digits).into())
}

fn strings(json: &Json) -> Vec<String> {
    let all = json.as_array().into_iter().flatten();
    all.map(|one| one.as_str().expect("text").to_owned())
        .collect()
}

fn supported(body: &Json) -> Supported {
    let options = body["options"].as_object().expect("options");
    Supported {
        options: options
            .iter()
            .map(|(key, values)| (key.clone(), strings(values)))
            .collect(),
    }
}

fn server_error(body: &Json, features: &ProtocolFeatures) -> ServerError {
    let code = int(body, "code");
    let detail = if features.rate_limit_error == Some(code) {
        ServerErrorDetail::RateLimit {
            operation: match text(body, "op_type") {
                "read" => OperationKind::Read,
                "write" => OperationKind::Write,
                other => panic!("no operation {other}"),
            },
            rejected_by_coordinator: int(body, "rejected_by_coordinator") != 0,
        }
    } else {
        error_detail(body, code)
    };
    ServerError {
        code,
        message: text(body, "message").to_owned(),
        detail,
    }
}

fn error_detail(body: &Json, code: i32) -> ServerErrorDetail {
    let level = || consistency(text(body, "consistency"));
    let received = || int(body, "received");
    let block_for = || int(body, "required");
    let write_type = || WriteType::from_name(text(body, "write_type"));
    let owned = |field: &str| text(body, field).to_owned();
    match code {
        code::SERVER_ERROR => ServerErrorDetail::ServerError,
        code::PROTOCOL_ERROR => ServerErrorDetail::ProtocolError,
        code::AUTHENTICATION_FAILED => ServerErrorDetail::AuthenticationFailed,
        code::UNAVAILABLE => ServerErrorDetail::Unavailable {
            consistency: level(),
            required: block_for(),
            alive: int(body, "alive"),
        },
        code::OVERLOADED => ServerErrorDetail::Overloaded,
        code::IS_BOOTSTRAPPING => ServerErrorDetail::IsBootstrapping,
        code::TRUNCATE_ERROR => ServerErrorDetail::TruncateError,
        code::WRITE_TIMEOUT => ServerErrorDetail::WriteTimeout {
            consistency: level(),
            received: received(),
            block_for: block_for(),
            write_type: write_type(),
            contentions: body["contentions"]
                .as_u64()
                .map(|n| u16::try_from(n).expect("short")),
        },
        code::READ_TIMEOUT => ServerErrorDetail::ReadTimeout {
            consistency: level(),
            received: received(),
            block_for: block_for(),
            data_present: int(body, "data_present") != 0,
        },
        code::READ_FAILURE => ServerErrorDetail::ReadFailure {
            consistency: level(),
            received: received(),
            block_for: block_for(),
            failures: failures(body),
            data_present: int(body, "data_present") != 0,
        },
        code::WRITE_FAILURE => ServerErrorDetail::WriteFailure {
            consistency: level(),
            received: received(),
            block_for: block_for(),
            failures: failures(body),
            write_type: write_type(),
        },
        code::FUNCTION_FAILURE => ServerErrorDetail::FunctionFailure {
            keyspace: owned("keyspace"),
            function: owned("function"),
            arg_types: strings(&body["arg_types"]),
        },
        code::CDC_WRITE_FAILURE => ServerErrorDetail::CdcWriteFailure,
        code::CAS_WRITE_UNKNOWN => ServerErrorDetail::CasWriteUnknown {
            consistency: level(),
            received: received(),
            block_for: block_for(),
        },
        code::SYNTAX_ERROR => ServerErrorDetail::SyntaxError,
        code::UNAUTHORIZED => ServerErrorDetail::Unauthorized,
        code::INVALID => ServerErrorDetail::Invalid,
        code::CONFIG_ERROR => ServerErrorDetail::ConfigError,
        code::ALREADY_EXISTS => ServerErrorDetail::AlreadyExists {
            keyspace: owned("keyspace"),
            table: owned("table"),
        },
        code::UNPREPARED => ServerErrorDetail::Unprepared {
            id: bytes(body, "statement_id").into(),
        },
        _ => ServerErrorDetail::Unknown,
    }
}

fn failures(body: &Json) -> ReplicaFailures {
    let Some(reasons) = body["reason_map"].as_array() else {
        return ReplicaFailures {
            count: int(body, "num_failures"),
            reasons: Vec::new(),
        };
    };
    let reasons = reasons.iter().map(|pair| {
        let address = pair[0]
            .as_str()
            .expect("an address")
            .parse()
            .expect("an address");
        let reason = u16::try_from(pair[1].as_u64().expect("a number")).expect("a short");
        (address, FailureReason(reason))
    });
    let reasons: Vec<_> = reasons.collect();
    ReplicaFailures {
        count: i32::try_from(reasons.len()).expect("few"),
        reasons,
    }
}

fn event(body: &Json) -> ServerEvent {
    let address = || {
        let ip = text(body, "address").parse().expect("an address");
        let port = u16::try_from(int(body, "port")).expect("a port");
        std::net::SocketAddr::new(ip, port)
    };
    match text(body, "event") {
        "TOPOLOGY_CHANGE" => ServerEvent::Topology {
            change: match text(body, "change") {
                "NEW_NODE" => TopologyChange::NewNode,
                "REMOVED_NODE" => TopologyChange::RemovedNode,
                "MOVED_NODE" => TopologyChange::MovedNode,
                other => panic!("no change {other}"),
            },
            address: address(),
        },
        "STATUS_CHANGE" => ServerEvent::Status {
            up: text(body, "change") == "UP",
            address: address(),
        },
        "SCHEMA_CHANGE" => ServerEvent::Schema(schema_change(body)),
        "CLIENT_ROUTES_CHANGE" => ServerEvent::ClientRoutes {
            connection_ids: strings(&body["connection_ids"]),
            host_ids: strings(&body["host_ids"]),
        },
        other => panic!("no event {other}"),
    }
}

fn schema_change(body: &Json) -> SchemaChange {
    let name = || text(body, "name").to_owned();
    let args = || strings(&body["arg_types"]);
    SchemaChange {
        change: match text(body, "change") {
            "CREATED" => SchemaChangeKind::Created,
            "UPDATED" => SchemaChangeKind::Updated,
            "DROPPED" => SchemaChangeKind::Dropped,
            other => panic!("no change {other}"),
        },
        target: match text(body, "target") {
            "KEYSPACE" => SchemaTarget::Keyspace,
            "TABLE" => SchemaTarget::Table { name: name() },
            "TYPE" => SchemaTarget::Type { name: name() },
            "FUNCTION" => SchemaTarget::Function {
                name: name(),
                args: args(),
            },
            "AGGREGATE" => SchemaTarget::Aggregate {
                name: name(),
                args: args(),
            },
            other => panic!("no target {other}"),
        },
        keyspace: text(body, "keyspace").to_owned(),
    }
}

fn result(body: &Json, features: &ProtocolFeatures) -> ResultBody {
    match text(body, "result") {
        "Void" => ResultBody::Void,
        "Set_keyspace" => ResultBody::SetKeyspace(text(body, "keyspace").to_owned()),
        "Schema_change" => ResultBody::SchemaChange(schema_change(body)),
        "Prepared" => ResultBody::Prepared(prepared(body, features)),
        "Rows" => {
            let rows = body["cells_hex"].as_array().expect("rows");
            ResultBody::Rows(RowsBody {
                metadata: metadata(body),
                row_count: rows.len(),
                cells: cells(rows),
            })
        }
        other => panic!("no result {other}"),
    }
}

fn cells(rows: &[Json]) -> Bytes {
    let mut out = Vec::new();
    for cell in rows.iter().flat_map(|row| row.as_array().expect("a row")) {
        match cell.as_str().map(hex) {
            Some(cell) => {
                out.extend_from_slice(&u32::try_from(cell.len()).expect("short").to_be_bytes());
                out.extend_from_slice(&cell);
            }
            None => out.extend_from_slice(&[0xff; 4]),
        }
    }
    out.into()
}

fn metadata(body: &Json) -> ResultMetadata {
    let paging_state = body["paging_state"]
        .as_str()
        .map(|state| Bytes::from(hex(state)));
    let columns = (body["no_metadata"] != true).then(|| columns(&body["columns"]));
    let count = || usize::try_from(int(body, "columns_count")).expect("a count");
    ResultMetadata {
        column_count: columns.as_ref().map_or_else(count, |columns| columns.len()),
        columns,
        more_pages: paging_state.is_some(),
        paging_state,
        new_metadata_id: body["new_metadata_id"].as_str().map(|id| hex(id).into()),
    }
}

fn prepared(body: &Json, features: &ProtocolFeatures) -> PreparedBody {
    let indexes = body["pk_indexes"].as_array().expect("indexes").iter();
    PreparedBody {
        id: bytes(body, "id").into(),
        result_metadata_id: body["result_metadata_id"].as_str().map(|id| hex(id).into()),
        bind_columns: columns(&body["bind_columns"]),
        pk_indexes: indexes
            .map(|index| u16::try_from(index.as_u64().expect("an index")).expect("an index"))
            .collect(),
        conditional: features.lwt_mark_mask.is_some() && body["lwt"] == true,
        result: metadata(&body["result_metadata"]),
    }
}

fn columns(json: &Json) -> Arc<[ColumnSpec]> {
    let columns = json.as_array().expect("columns").iter();
    let ty = |column: &Json| -> ColumnType { column_type(&column["type"]) };
    columns
        .map(|column| ColumnSpec {
            keyspace: text(column, "keyspace").into(),
            table: text(column, "table").into(),
            name: text(column, "name").into(),
            ty: ty(column),
        })
        .collect()
}

fn int(json: &Json, field: &str) -> i32 {
    let number = json[field]
        .as_i64()
        .unwrap_or_else(|| panic!("{field} is no number in {json}"));
    i32::try_from(number).expect("an int")
}
