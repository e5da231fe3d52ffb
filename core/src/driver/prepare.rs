//! Requests to prepare a statement: one exchange with each place that `Preparing` names.

use std::sync::Arc;
use std::time::Instant;

use super::calls::CallId;
use super::question::Question;
use super::requests::Pending;
use super::{Driver, DriverOutput, Due, RequestId};
use crate::error::request::{RequestError, RequestErrorKind};
use crate::exec::batch::Batch;
use crate::exec::plan::Aim;
use crate::exec::prepared::PreparedStatement;
use crate::exec::preparing::{Preparing, PreparingStep, is_to_be_repeated};
use crate::wire::PreparedBody;

/// A statement that is being prepared.
#[derive(Debug)]
pub(super) struct PrepareTask {
    text: Arc<str>,
    /// Is the keyspace that its unqualified names belong to.
    keyspace: Option<Arc<str>>,
    preparing: Preparing,
    /// Counts how often the text was prepared, this time included.
    times: u8,
    calls: Vec<CallId>,
    armed: Option<Instant>,
    /// Is the batch that the statement belongs to, where it is not prepared for its own sake.
    batch: Option<Box<Batch>>,
}

impl Driver {
    /// Prepares a text, or finds it among those prepared before.
    pub(super) fn prepare_begin(&mut self, request: RequestId, text: Arc<str>, cached: bool) {
        let found = if cached { self.find(&text) } else { None };
        let result = match (self.admit(&Question::Prepare(Arc::clone(&text))), found) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(statement)) => Ok(statement),
            (Ok(()), None) => return self.prepare_from(request, text, None, 1),
        };
        self.output(DriverOutput::Prepared { request, result });
    }

    /// Executes a batch, after preparing the texts with values in it.
    pub(super) fn batch_begin(&mut self, request: RequestId, mut batch: Box<Batch>) {
        let mut ready = batch.check().map_err(RequestError::from);
        while ready.is_ok() {
            let next = batch.texts_to_prepare().next().cloned();
            let Some(text) = next else { break };
            match self.find(&text) {
                Some(statement) => {
                    ready = batch.bind_text(&statement).map_err(RequestError::from);
                }
                None if self.is_closing() => break,
                None => return self.prepare_from(request, text, Some(batch), 1),
            }
        }
        let question = ready.map(|()| Question::Batch(batch));
        self.exchange(request, question, Aim::default());
    }

    fn find(&mut self, text: &Arc<str>) -> Option<PreparedStatement> {
        let keyspace = self.plane.routing().keyspace.as_ref();
        self.statements.find(keyspace, text)
    }

    fn prepare_from(
        &mut self,
        request: RequestId,
        text: Arc<str>,
        batch: Option<Box<Batch>>,
        times: u8,
    ) {
        let routing = self.plane.routing();
        let (preparing, step) = Preparing::start(self.config.prepare_on, routing);
        let task = PrepareTask {
            text,
            keyspace: routing.keyspace.clone(),
            preparing,
            times,
            calls: Vec::new(),
            armed: None,
            batch,
        };
        self.prepare_step(request, Box::new(task), step);
    }

    fn prepare_done(
        &mut self,
        request: RequestId,
        mut task: PrepareTask,
        outcome: Result<PreparedBody, RequestError>,
    ) {
        let (text, keyspace) = (Arc::clone(&task.text), task.keyspace.take());
        let (batch, times) = (task.batch.take(), task.times);
        self.prepare_end(request, task);
        let routing = self.plane.routing();
        let outcome = match is_to_be_repeated(keyspace.as_ref(), routing.keyspace.as_ref(), times) {
            true if self.is_closing() => Err(RequestError::new(RequestErrorKind::Closed)),
            true => return self.prepare_from(request, text, batch, times.saturating_add(1)),
            false => outcome,
        };
        let result = outcome.map(|body| PreparedStatement::new(text, keyspace, body, routing));
        if let Ok(statement) = &result {
            self.statements.keep(statement);
        }
        let Some(mut batch) = batch else {
            return self.output(DriverOutput::Prepared { request, result });
        };
        let bound = result.and_then(|statement| Ok(batch.bind_text(&statement)?));
        match bound {
            Ok(()) => self.batch_begin(request, batch),
            Err(error) => self.answer(request, Err(error)),
        }
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
            PreparingStep::Done(outcome) => return self.prepare_done(request, *task, outcome),
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
