//! Reads traces: the requests and pauses that the core's `TraceReading` asks for.

use messina_core::error::request::RequestError;
use messina_core::exec::trace::{TRACE_TIMEOUT, Trace, TraceReading, TraceStep};
use uuid::Uuid;

use crate::runtime::Runtime;
use crate::session::Session;

/// Reads one trace.
pub(crate) async fn read<R: Runtime>(
    session: &Session<R>,
    id: Uuid,
) -> Result<Trace, RequestError> {
    let runtime = &session.shared().runtime;
    let mut reading = TraceReading::new(runtime.now(), id, TRACE_TIMEOUT);
    let mut step = reading.ask();
    loop {
        step = match step {
            TraceStep::Ask(statement) => {
                let result = session.execute_unpaged(&*statement, ()).await?;
                reading.handle_result(runtime.now(), &result)
            }
            TraceStep::Pause(until) => {
                runtime.sleep_until(until).await;
                reading.ask()
            }
            TraceStep::Done(outcome) => return outcome.map_err(RequestError::unreadable),
            _ => return Err(RequestError::new(UNKNOWN_STEP)),
        };
    }
}

const UNKNOWN_STEP: messina_core::error::request::RequestErrorKind =
    messina_core::error::request::RequestErrorKind::Internal("an unknown step of a trace");
