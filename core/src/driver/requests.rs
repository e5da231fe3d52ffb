//! The requests of an application: begun, answered, given up. What follows a change of schema or keyspace before the
//! answer is given out, and which page comes next. How an exchange finds its answer is in `calls`.

use std::sync::Arc;
use std::time::Instant;

use uuid::Uuid;

use super::calls::{Answered, CallId};
use super::prepare::PrepareTask;
use super::question::Question;
use super::tracing::TraceTask;
use super::{Driver, DriverOutput, Pages, RequestId};
use crate::cluster::AgreementOutcome;
use crate::error::request::RequestError;
use crate::error::session::SessionError;
use crate::exec::paging::Paging;
use crate::exec::plan::Aim;
use crate::exec::result::{FollowUp, QueryResult};
use crate::time::later;

/// What an answer to the application waits for.
#[derive(Debug)]
pub(super) enum Pending {
    Exchange {
        call: CallId,
        unpaged: bool,
    },
    Page {
        call: CallId,
        paging: Box<Paging>,
    },
    Preparing(Box<PrepareTask>),
    Tracing(Box<TraceTask>),
    /// The schema or the keyspace has changed: the cluster follows before the answer is given out.
    Settling(Box<QueryResult>),
    Keyspace,
    Agreement,
}

impl Driver {
    /// Names a request and begins it.
    pub(super) fn request(
        &mut self,
        now: Instant,
        begin: impl FnOnce(&mut Self, RequestId),
    ) -> RequestId {
        self.last_request += 1;
        let request = RequestId(self.last_request);
        self.turn(now, |driver| begin(driver, request));
        request
    }

    /// Begins a request that is answered by one exchange.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        question: Result<Question, RequestError>,
        aim: Aim,
    ) -> RequestId {
        self.request(now, |driver, request| {
            driver.exchange(request, question, aim);
        })
    }

    pub(super) fn exchange(
        &mut self,
        request: RequestId,
        question: Result<Question, RequestError>,
        aim: Aim,
    ) {
        let admitted = question.and_then(|question| {
            self.admit(&question)?;
            Ok(question)
        });
        match admitted {
            Ok(question) => {
                let call = self.call(request, question, aim);
                let unpaged = aim.unpaged;
                self.requests
                    .insert(request, Pending::Exchange { call, unpaged });
            }
            Err(error) => self.answer(request, Err(error)),
        }
    }

    pub(super) fn page_begin(&mut self, request: RequestId, pages: Pages) {
        let Pages {
            mut question,
            paging,
        } = pages;
        let Some(next) = paging.next() else {
            return self.turn_page(request, question, paging, Ok(None));
        };
        if let Err(error) = self.admit(&question) {
            return self.turn_page(request, question, paging, Err(error));
        }
        question.turn_to(next.state);
        let aim = Aim {
            prefer: next.prefer,
            ..Aim::default()
        };
        let paging = Box::new(paging);
        let call = self.call(request, question, aim);
        self.requests
            .insert(request, Pending::Page { call, paging });
    }

    pub(super) fn keyspace_begin(&mut self, request: RequestId, keyspace: Arc<str>) {
        self.requests.insert(request, Pending::Keyspace);
        self.enter_keyspace(request, keyspace);
    }

    pub(super) fn agreement_begin(&mut self, request: RequestId) {
        self.requests.insert(request, Pending::Agreement);
        self.agree(request, None);
    }

    /// Takes what came of an exchange.
    pub(super) fn answered(&mut self, request: RequestId, answered: Answered) {
        match self.requests.remove(&request) {
            Some(Pending::Exchange { unpaged, .. }) => match self.read(&answered) {
                Ok(result) => self.settle(request, result, unpaged),
                Err(error) => self.answer(request, Err(error)),
            },
            Some(Pending::Page { mut paging, .. }) => {
                let result = self.read(&answered).and_then(|page| {
                    paging.handle_page(&page)?;
                    Ok(Some(page))
                });
                if result.is_err() {
                    paging.handle_failure();
                }
                self.turn_page(request, answered.into_question(), *paging, result);
            }
            Some(Pending::Preparing(task)) => {
                let outcome = answered.read_prepared();
                self.prepare_answered(request, task, answered.id(), outcome);
            }
            Some(Pending::Tracing(task)) => self.trace_answered(request, task, &answered),
            Some(other) => {
                self.requests.insert(request, other);
            }
            None => (),
        }
    }

    /// Lets the cluster follow a change that the request has made, before it is answered.
    fn settle(&mut self, request: RequestId, result: QueryResult, unpaged: bool) {
        match result.follow_up() {
            Some(FollowUp::Schema(change)) => {
                let coordinator = result.coordinator().map(|own| own.host_id);
                self.plane.schema_changed(self.now, change);
                self.agree(request, coordinator);
            }
            Some(FollowUp::Keyspace(keyspace)) => self.enter_keyspace(request, keyspace.into()),
            None => {
                let whole = if unpaged {
                    result.expect_last_page()
                } else {
                    Ok(())
                };
                let answer = whole.map(|()| result).map_err(RequestError::from);
                return self.answer(request, answer);
            }
        }
        let pending = Pending::Settling(Box::new(result));
        self.requests.insert(request, pending);
    }

    fn agree(&mut self, request: RequestId, coordinator: Option<Uuid>) {
        let deadline = later(self.now, self.config.agreement_timeout);
        self.plane
            .await_agreement(self.now, request.command(), coordinator, deadline);
    }

    fn enter_keyspace(&mut self, request: RequestId, keyspace: Arc<str>) {
        let deadline = later(self.now, self.config.connection.handshake_timeout);
        self.plane
            .use_keyspace(self.now, request.command(), keyspace, deadline);
    }

    pub(super) fn agreed(&mut self, request: RequestId, outcome: AgreementOutcome) {
        match self.requests.remove(&request) {
            Some(Pending::Settling(result)) => {
                self.answer(request, Ok(result.with_agreement(outcome)));
            }
            Some(_) => self.output(DriverOutput::Agreement { request, outcome }),
            None => (),
        }
    }

    pub(super) fn keyspace_used(&mut self, request: RequestId, result: Result<(), SessionError>) {
        match self.requests.remove(&request) {
            Some(Pending::Settling(own)) => self.answer(request, own.with_keyspace(result)),
            Some(_) => self.output(DriverOutput::KeyspaceUsed { request, result }),
            None => (),
        }
    }

    pub(super) fn give_up(&mut self, request: RequestId) {
        match self.requests.remove(&request) {
            Some(Pending::Exchange { call, .. } | Pending::Page { call, .. }) => {
                self.drop_call(call);
            }
            Some(Pending::Preparing(task)) => self.prepare_end(request, *task),
            Some(Pending::Tracing(task)) => self.trace_end(request, *task),
            Some(Pending::Settling(_) | Pending::Keyspace | Pending::Agreement) => (),
            // Nothing waits for it any more: its answer may be among the outputs, but only then.
            None => self
                .outputs
                .retain(|output| output.request() != Some(request)),
        }
    }

    /// Counts the requests that the end of the session would cut off.
    pub(super) fn under_way(&self) -> usize {
        let waits = |pending: &&Pending| {
            matches!(
                pending,
                Pending::Exchange { .. }
                    | Pending::Page { .. }
                    | Pending::Preparing(_)
                    | Pending::Tracing(_)
            )
        };
        self.requests.values().filter(waits).count()
    }

    pub(super) fn answer(&mut self, request: RequestId, result: Result<QueryResult, RequestError>) {
        self.output(DriverOutput::Answer { request, result });
    }

    fn turn_page(
        &mut self,
        request: RequestId,
        question: Question,
        paging: Paging,
        result: Result<Option<QueryResult>, RequestError>,
    ) {
        let pages = Box::new(Pages { question, paging });
        self.output(DriverOutput::Page {
            request,
            pages,
            result,
        });
    }
}
