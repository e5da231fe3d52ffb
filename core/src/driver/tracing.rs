//! Requests to read a trace: the statements and pauses that `TraceReading` asks for.

use std::time::Instant;

use uuid::Uuid;

use super::calls::{Answered, CallId};
use super::question::Question;
use super::requests::Pending;
use super::{Driver, DriverOutput, Due, RequestId};
use crate::error::request::{RequestError, RequestErrorKind};
use crate::exec::plan::Aim;
use crate::exec::trace::{TRACE_TIMEOUT, Trace, TraceReading, TraceStep};

/// A trace that is being read.
#[derive(Debug)]
pub(super) struct TraceTask {
    reading: TraceReading,
    pub(super) call: Option<CallId>,
    armed: Option<Instant>,
}

impl Driver {
    pub(super) fn trace_begin(&mut self, request: RequestId, id: Uuid) {
        let reading = TraceReading::new(self.now, id, TRACE_TIMEOUT);
        let step = reading.ask();
        let task = TraceTask {
            reading,
            call: None,
            armed: None,
        };
        self.trace_step(request, Box::new(task), step);
    }

    pub(super) fn trace_answered(
        &mut self,
        request: RequestId,
        mut task: Box<TraceTask>,
        answered: &Answered,
    ) {
        task.call = None;
        match self.read(answered) {
            Ok(result) => {
                let step = task.reading.handle_result(self.now, &result);
                self.trace_step(request, task, step);
            }
            Err(error) => self.traced(request, Err(error)),
        }
    }

    /// Asks again after a pause.
    pub(super) fn trace_due(&mut self, request: RequestId) {
        match self.requests.remove(&request) {
            Some(Pending::Tracing(mut task)) => {
                task.armed = None;
                let step = task.reading.ask();
                self.trace_step(request, task, step);
            }
            Some(other) => {
                self.requests.insert(request, other);
            }
            None => (),
        }
    }

    fn trace_step(&mut self, request: RequestId, mut task: Box<TraceTask>, step: TraceStep) {
        match step {
            TraceStep::Ask(statement) => {
                let question = Question::Text(*statement);
                if let Err(error) = self.admit(&question) {
                    return self.traced(request, Err(error));
                }
                let aim = Aim {
                    unpaged: true,
                    ..Aim::default()
                };
                task.call = Some(self.call(request, question, aim));
            }
            TraceStep::Pause(until) => {
                self.agenda
                    .set(Due::Trace(request), &mut task.armed, Some(until));
            }
            TraceStep::Done(outcome) => {
                return self.traced(request, outcome.map_err(RequestError::unreadable));
            }
        }
        self.requests.insert(request, Pending::Tracing(task));
    }

    /// Gives up what is still under way.
    pub(super) fn trace_end(&mut self, request: RequestId, mut task: TraceTask) {
        self.agenda.set(Due::Trace(request), &mut task.armed, None);
        task.call.and_then(|call| self.drop_call(call));
    }

    /// Ends every trace that is between two questions when no connection is left.
    pub(super) fn cut_off_traces(&mut self) {
        let tracing = |(request, pending): (&RequestId, &Pending)| match pending {
            Pending::Tracing(_) => Some(*request),
            _ => None,
        };
        let left: Vec<RequestId> = self.requests.iter().filter_map(tracing).collect();
        left.into_iter().for_each(|request| self.trace_cut(request));
    }

    fn trace_cut(&mut self, request: RequestId) {
        if let Some(Pending::Tracing(task)) = self.requests.remove(&request) {
            self.trace_end(request, *task);
            let error = RequestError::new(RequestErrorKind::Closed);
            self.traced(request, Err(error));
        }
    }

    fn traced(&mut self, request: RequestId, result: Result<Trace, RequestError>) {
        let result = result.map(Box::new);
        self.output(DriverOutput::Traced { request, result });
    }
}
