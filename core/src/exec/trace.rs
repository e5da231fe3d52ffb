//! Traces: what a server recorded about one request that asked for it, and how it is read.
//!
//! A server writes a trace down after it has answered, so the reader asks until the trace is complete. A plain value
//! like `Execution`: its owner sends the statements as requests of their own, which are not traced.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::error::result::ResultError;
use crate::error::value::DecodeError;
use crate::exec::result::QueryResult;
use crate::exec::statement::Statement;
use crate::types::row::Row;
use crate::types::value::Timestamp;
use crate::wire::consistency::Consistency;

/// What a server recorded about a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trace {
    /// The id of the trace, as the traced answer told it.
    pub id: Uuid,
    /// What was asked for, as the server calls it.
    pub request: Option<String>,
    /// The kind of the request.
    pub command: Option<String>,
    /// The node that served the request.
    pub coordinator: Option<IpAddr>,
    /// Where the request came from.
    pub client: Option<IpAddr>,
    /// When the request arrived, by the server's clock.
    pub started_at: Option<Timestamp>,
    /// How long the server worked on it.
    pub duration: Duration,
    /// Details of the request by name, as the server tells them.
    pub parameters: Vec<(String, String)>,
    /// What happened, in order.
    pub events: Vec<TraceEvent>,
}

/// One step of a traced request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TraceEvent {
    /// What was done.
    pub activity: String,
    /// The node that did it.
    pub source: Option<IpAddr>,
    /// How long that node had worked on the request by then.
    pub source_elapsed: Option<Duration>,
    /// The thread or shard that did it.
    pub thread: Option<String>,
}

/// How long a trace may take to be complete: servers write it within moments, unless they are overloaded.
pub const TRACE_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads one trace.
#[derive(Debug)]
pub struct TraceReading {
    id: Uuid,
    until: Instant,
    pause: Duration,
    trace: Option<Trace>,
}

/// Says what the owner of a [`TraceReading`] has to do next.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceStep {
    /// Runs this statement, unpaged and without values, and reports the result.
    Ask(Box<Statement>),
    /// Waits until then, and asks again with [`TraceReading::ask`].
    Pause(Instant),
    /// Ends.
    Done(Result<Trace, ResultError>),
}

impl TraceReading {
    /// Plans to read a trace, for at most as long as `limit`.
    pub fn new(now: Instant, id: Uuid, limit: Duration) -> Self {
        Self {
            id,
            until: now.checked_add(limit).unwrap_or(now),
            pause: FIRST_PAUSE,
            trace: None,
        }
    }

    /// Returns the statement to run next.
    pub fn ask(&self) -> TraceStep {
        let id = self.id;
        let text = match self.trace {
            None => format!(
                "SELECT client, command, coordinator, duration, parameters, request, started_at \
                 FROM system_traces.sessions WHERE session_id = {id}"
            ),
            Some(_) => format!(
                "SELECT activity, source, source_elapsed, thread FROM system_traces.events WHERE session_id = {id}"
            ),
        };
        let statement = Statement::new(text)
            .consistency(Consistency::One)
            .idempotent(true);
        TraceStep::Ask(Box::new(statement))
    }

    /// Takes the result of the statement that was asked for.
    pub fn handle_result(&mut self, now: Instant, result: &QueryResult) -> TraceStep {
        let step = match self.trace.take() {
            None => self.handle_session(now, result),
            Some(trace) => handle_events(trace, result).map(|trace| TraceStep::Done(Ok(trace))),
        };
        step.unwrap_or_else(|error| TraceStep::Done(Err(error)))
    }

    /// A trace without a duration or a beginning is still being written.
    fn handle_session(
        &mut self,
        now: Instant,
        result: &QueryResult,
    ) -> Result<TraceStep, ResultError> {
        let trace = match result.first::<Row<'_>>()? {
            Some(row) => session_of(self.id, &row).map_err(ResultError::Decode)?,
            None => None,
        };
        if trace.is_some() {
            self.trace = trace;
            return Ok(self.ask());
        }
        if self.until <= now {
            return Err(ResultError::TraceNotReady { id: self.id });
        }
        let wake = now.checked_add(self.pause).unwrap_or(self.until);
        self.pause = self.pause.saturating_mul(2);
        Ok(TraceStep::Pause(wake.min(self.until)))
    }
}

fn session_of(id: Uuid, row: &Row<'_>) -> Result<Option<Trace>, DecodeError> {
    let duration: Option<i32> = row.read("duration")?;
    let started_at: Option<Timestamp> = row.read("started_at")?;
    let (Some(duration), Some(_)) = (duration, started_at) else {
        return Ok(None);
    };
    let parameters: Option<Vec<(String, String)>> = pairs(row, "parameters")?;
    Ok(Some(Trace {
        id,
        request: row.read("request")?,
        command: row.read("command")?,
        coordinator: row.read("coordinator")?,
        client: row.read("client")?,
        started_at,
        duration: micros(duration),
        parameters: parameters.unwrap_or_default(),
        events: Vec::new(),
    }))
}

fn pairs(row: &Row<'_>, name: &str) -> Result<Option<Vec<(String, String)>>, DecodeError> {
    let map: Option<std::collections::BTreeMap<String, String>> = row.read(name)?;
    Ok(map.map(|map| map.into_iter().collect()))
}

fn handle_events(mut trace: Trace, result: &QueryResult) -> Result<Trace, ResultError> {
    for row in result.dynamic_rows()? {
        let row = row.map_err(ResultError::Decode)?;
        let event = event_of(&row).map_err(ResultError::Decode)?;
        trace.events.push(event);
    }
    Ok(trace)
}

fn event_of(row: &Row<'_>) -> Result<TraceEvent, DecodeError> {
    let activity: Option<String> = row.read("activity")?;
    let elapsed: Option<i32> = row.read("source_elapsed")?;
    Ok(TraceEvent {
        activity: activity.unwrap_or_default(),
        source: row.read("source")?,
        source_elapsed: elapsed.map(micros),
        thread: row.read("thread")?,
    })
}

/// Servers count microseconds in an `int`; a negative one means nothing.
fn micros(count: i32) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or(0))
}

/// The first pause of a trace that is not ready; each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(3);

#[cfg(test)]
mod tests;
