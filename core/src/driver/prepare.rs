//! Requests to prepare a statement: one exchange with each place that `Preparing` names.

use std::sync::Arc;
use std::time::Instant;

use super::calls::{Aim, CallId};
use super::question::Question;
use super::requests::Pending;
use super::{Driver, DriverOutput, Due, RequestId};
use crate::error::request::RequestError;
use crate::exec::prepared::PreparedStatement;
use crate::exec::preparing::{PrepareOn, Preparing, PreparingStep};
use crate::wire::PreparedBody;

/// A statement that is being prepared.
#[derive(Debug)]
pub(super) struct PrepareTask {
    text: Arc<str>,
    /// Is the keyspace that its unqualified names belong to.
    keyspace: Option<Arc<str>>,
    preparing: Preparing,
    calls: Vec<CallId>,
    armed: Option<Instant>,
}

impl Driver {
    pub(super) fn prepare_begin(&mut self, request: RequestId, text: Arc<str>) {
        if let Err(error) = self.admit(&Question::Prepare(Arc::clone(&text))) {
            let result = Err(error);
            return self.output(DriverOutput::Prepared { request, result });
        }
        let routing = self.plane.routing();
        let (preparing, step) = Preparing::start(PrepareOn::EveryNode, routing);
        let task = PrepareTask {
            text,
            keyspace: self.plane.keyspace().cloned(),
            preparing,
            calls: Vec::new(),
            armed: None,
        };
        self.prepare_step(request, Box::new(task), step);
    }

    pub(super) fn prepare_answered(
        &mut self,
        request: RequestId,
        mut task: Box<PrepareTask>,
        call: CallId,
        outcome: Result<PreparedBody, RequestError>,
    ) {
        task.calls.retain(|own| *own != call);
        let routing = self.plane.routing();
        let step = task.preparing.handle_outcome(outcome, routing);
        self.prepare_step(request, task, step);
    }

    /// Ends the wait for nodes that are late.
    pub(super) fn stragglers_due(&mut self, request: RequestId) {
        match self.requests.remove(&request) {
            Some(Pending::Preparing(mut task)) => {
                task.armed = None;
                let step = task.preparing.late();
                self.prepare_step(request, task, step);
            }
            Some(other) => {
                self.requests.insert(request, other);
            }
            None => (),
        }
    }

    fn prepare_step(
        &mut self,
        request: RequestId,
        mut task: Box<PrepareTask>,
        step: PreparingStep,
    ) {
        match step {
            PreparingStep::Ask(places) => {
                for only in places {
                    let question = Question::Prepare(Arc::clone(&task.text));
                    let aim = Aim {
                        only,
                        ..Aim::default()
                    };
                    task.calls.push(self.call(request, question, aim));
                }
            }
            PreparingStep::Wait => (),
            PreparingStep::WaitFor(pause) => {
                let at = task.armed.or_else(|| self.now.checked_add(pause));
                self.agenda
                    .set(Due::Stragglers(request), &mut task.armed, at);
            }
            PreparingStep::Done(outcome) => {
                let (text, keyspace) = (Arc::clone(&task.text), task.keyspace.clone());
                self.prepare_end(request, *task);
                let routing = self.plane.routing();
                let result =
                    outcome.map(|body| PreparedStatement::new(text, keyspace, body, routing));
                return self.output(DriverOutput::Prepared { request, result });
            }
        }
        self.requests.insert(request, Pending::Preparing(task));
    }

    /// Gives up what is still under way.
    pub(super) fn prepare_end(&mut self, request: RequestId, mut task: PrepareTask) {
        self.agenda
            .set(Due::Stragglers(request), &mut task.armed, None);
        for call in task.calls {
            self.drop_call(call);
        }
    }
}
