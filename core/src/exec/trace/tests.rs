//! Traces that are ready at once, late, or never.

use std::sync::Arc;

use super::*;
use crate::exec::fixtures::*;
use crate::wire::response::ResponseFrame;
use crate::wire::supported::ProtocolFeatures;

const TEXT_ID: u16 = TEXT;
const INET: u16 = 0x0010;
const TIMESTAMP: u16 = 0x000b;

fn read(frame: &ResponseFrame) -> QueryResult {
    QueryResult::parse(frame, &ProtocolFeatures::default(), None, None).expect("our own frame")
}

/// A row of the sessions; without a duration the trace is still being written.
fn session(duration: Option<i32>) -> QueryResult {
    let body = Body::default()
        .int(2)
        .int(1)
        .int(7)
        .string("ks")
        .string("t");
    let columns = [
        ("client", INET),
        ("command", TEXT_ID),
        ("coordinator", INET),
        ("duration", INT),
    ];
    let body = columns
        .iter()
        .fold(body, |body, (name, ty)| body.string(name).short(*ty));
    let body = body
        .string("parameters")
        .short(0x0021)
        .short(TEXT_ID)
        .short(TEXT_ID);
    let body = body.string("request").short(TEXT_ID);
    let body = body.string("started_at").short(TIMESTAMP).int(1);
    let body = body
        .bytes(&[127, 0, 0, 1])
        .bytes(b"QUERY")
        .bytes(&[127, 0, 0, 2]);
    let body = match duration {
        Some(micros) => body.bytes(&micros.to_be_bytes()),
        None => body.int(-1),
    };
    let parameters = b"\0\0\0\x01\0\0\0\x05query\0\0\0\x01x";
    let body = body.bytes(parameters).bytes(b"Execute CQL3 query");
    read(&body.bytes(&1_000_i64.to_be_bytes()).result())
}

fn events() -> QueryResult {
    let columns = [
        ("activity", TEXT_ID),
        ("source", INET),
        ("source_elapsed", INT),
        ("thread", TEXT_ID),
    ];
    let body = Body::default()
        .int(2)
        .int(1)
        .int(4)
        .columns(&columns)
        .int(2);
    let body = body
        .bytes(b"Parsing")
        .bytes(&[127, 0, 0, 2])
        .bytes(&3_i32.to_be_bytes())
        .bytes(b"shard 0");
    read(
        &body
            .bytes(b"Done")
            .bytes(&[127, 0, 0, 2])
            .bytes(&9_i32.to_be_bytes())
            .int(-1)
            .result(),
    )
}

#[track_caller]
fn asked(step: TraceStep) -> Arc<str> {
    let TraceStep::Ask(statement) = step else {
        panic!("a statement is expected, not {step:?}")
    };
    // Traces are few and read again until they are there: any node will do, and any number of times.
    let options = statement.options();
    assert_eq!(options.consistency, Some(Consistency::One));
    assert_eq!((options.idempotent, options.tracing), (Some(true), false));
    Arc::clone(statement.text())
}

#[test]
fn a_trace_that_is_still_written_is_asked_for_again_after_growing_pauses() {
    let (id, mut now) = (Uuid::from_u128(7), virtual_start());
    let mut reading = TraceReading::new(now, id, Duration::from_secs(2));
    assert!(
        asked(reading.ask()).ends_with(&format!("system_traces.sessions WHERE session_id = {id}"))
    );
    let mut pauses = Vec::new();
    for _ in 0..2 {
        let TraceStep::Pause(until) = reading.handle_result(now, &session(None)) else {
            panic!("it is not ready")
        };
        pauses.push(until.duration_since(now).as_millis());
        now = until;
    }
    assert_eq!(pauses, [3, 6]);
    let text = asked(reading.handle_result(now, &session(Some(1_500))));
    assert!(text.contains("system_traces.events"), "{text}");
    let TraceStep::Done(Ok(trace)) = reading.handle_result(now, &events()) else {
        panic!("it is ready")
    };
    assert_eq!(
        (trace.id, trace.duration),
        (id, Duration::from_micros(1_500))
    );
    assert_eq!(trace.parameters, [("query".into(), "x".into())]);
    assert_eq!(trace.request.as_deref(), Some("Execute CQL3 query"));
    let steps: Vec<&str> = trace.events.iter().map(|event| &*event.activity).collect();
    assert_eq!(steps, ["Parsing", "Done"]);
    assert_eq!(
        trace.events[1].source_elapsed,
        Some(Duration::from_micros(9))
    );
    assert_eq!(trace.events[1].thread, None);
}

#[test]
fn a_trace_that_never_is_ready_ends_at_the_limit() {
    let start = virtual_start();
    let mut reading = TraceReading::new(start, Uuid::nil(), Duration::from_millis(20));
    let mut now = start;
    let error = loop {
        match reading.handle_result(now, &session(None)) {
            TraceStep::Pause(until) => now = until,
            TraceStep::Done(Err(error)) => break error,
            other => panic!("{other:?}"),
        }
    };
    assert!(
        matches!(error, ResultError::TraceNotReady { .. }),
        "{error:?}"
    );
    assert_eq!(now.duration_since(start), Duration::from_millis(20));
}

#[test]
fn an_answer_that_is_no_trace_is_an_error() {
    let mut reading = TraceReading::new(virtual_start(), Uuid::nil(), Duration::from_secs(1));
    let step = reading.handle_result(virtual_start(), &read(&rows(&["a"], &[&[1]], None)));
    assert!(
        matches!(step, TraceStep::Done(Err(ResultError::Decode(_)))),
        "{step:?}"
    );
}
