//! One exchange with the cluster from the first byte to the answer: carries what executions and connections say to each
//! other. Where a request goes and what follows a failure is the execution's decision.

use std::sync::Arc;
use std::time::Instant;

use super::question::Question;
use super::table::View;
use super::{Closing, Driver, Due, RequestId};
use crate::cluster::{ConnId, QueryId};
use crate::conn::{StreamKey, Ticket};
use crate::error::connect::{AttemptError, AttemptErrorKind, ConnectionError, Fate};
use crate::error::request::{Attempt, RequestError, RequestErrorKind};
use crate::exec::plan::{Aim, profile_of, settle};
use crate::exec::preparing::read_prepared;
use crate::exec::result::QueryResult;
use crate::exec::statement::RequestSettings;
use crate::exec::{AttemptId, Coordinator, Execution, ExecutionOutput, ExecutionPlan};
use crate::routing::{Routing, Shard};
use crate::wire::{
    PreparedBody, ProtocolFeatures, Request, RequestOptionsRef, RequestRef, ResponseFrame,
};

/// Names an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallId(u64);

/// One exchange with the cluster, over several attempts if need be.
#[derive(Debug)]
pub(super) struct Call {
    owner: RequestId,
    question: Question,
    execution: Execution<ConnId>,
    flights: Vec<(AttemptId, Ticket)>,
    /// Whose reply was taken last.
    served: Served,
    armed: Option<Instant>,
}

/// What there is to know of the connection that served a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Served {
    features: ProtocolFeatures,
    shard: Option<Shard>,
}

/// A request on a connection.
#[derive(Debug)]
pub(super) struct Flight {
    conn: ConnId,
    stream: StreamKey,
    sender: Sender,
}

/// Who sent a request.
#[derive(Clone, Copy, Debug)]
enum Sender {
    Plane(QueryId),
    Call {
        call: CallId,
        attempt: AttemptId,
        /// Whether it is a PREPARE that goes ahead of the request itself.
        preparing: bool,
    },
}

pub(super) type Reply = Result<ResponseFrame, AttemptError>;

impl Driver {
    /// Refuses what must not be sent, or not any more.
    pub(super) fn admit(&self, question: &Question) -> Result<(), RequestError> {
        if self.is_closing() {
            return Err(RequestError::new(RequestErrorKind::Closed));
        }
        question.check().map_err(RequestError::from)
    }

    /// Says whether requests are refused.
    pub(super) fn is_closing(&self) -> bool {
        self.closing != Closing::NotAsked
    }

    /// Begins an exchange; its outcome comes later, never from within.
    pub(super) fn call(&mut self, owner: RequestId, question: Question, aim: Aim) -> CallId {
        let now = self.now;
        let options = question.options();
        let profile = profile_of(options, &self.profile);
        let clock = self.clock.unix_micros(now);
        let (timestamps, mut stamp) = (&mut self.timestamps, None);
        let settings = settle(
            options,
            profile,
            now,
            aim.unpaged,
            |settled| question.is_idempotent(settled),
            || *stamp.insert(timestamps.next(clock)),
        );
        let drifts = stamp.and_then(|stamp| self.drift.note(stamp, clock));
        let seed = self.next_seed();
        self.metrics.requests += 1;
        let aim = aim.within(options);
        let mut plan = ExecutionPlan::new(question.kind(), Arc::clone(profile), settings, seed);
        (plan.table, plan.token) = question.route(self.plane.routing());
        plan.conditional = question.is_conditional();
        (plan.only, plan.prefer) = (aim.only, aim.prefer);
        let call = CallId(self.metrics.requests);
        let own = Call {
            owner,
            question,
            execution: Execution::new(plan),
            flights: Vec::new(),
            served: Served::default(),
            armed: None,
        };
        self.calls.insert(call, own);
        if let Some(note) = drifts {
            self.note(note);
        }
        self.execution(call, |execution, routing, view| {
            execution.start(now, routing, view);
        });
        self.stirred.push_back(call);
        call
    }

    /// Hands an input to an execution, together with the picture of the moment.
    fn execution(
        &mut self,
        call: CallId,
        input: impl FnOnce(&mut Execution<ConnId>, &Routing<ConnId>, &View<'_>),
    ) {
        let mut view = View::new(&self.table, &self.config.limits);
        if let Some(call) = self.calls.get_mut(&call) {
            view.served = call.served.features;
            input(&mut call.execution, self.plane.routing(), &view);
        }
        for (host, shard) in view.missed.into_inner() {
            self.plane.handle_demand(self.now, host, shard);
        }
    }

    /// Acts on the deadline of an execution, which is not armed any more.
    pub(super) fn call_due(&mut self, call: CallId) {
        let now = self.now;
        if let Some(call) = self.calls.get_mut(&call) {
            call.armed = None;
        }
        self.execution(call, |execution, routing, view| {
            execution.handle_timeout(now, routing, view);
        });
        self.stirred.push_back(call);
    }

    /// Does what an execution asks for.
    pub(super) fn advance(&mut self, id: CallId) {
        while let Some(call) = self.calls.get_mut(&id) {
            match call.execution.poll_output() {
                Some(ExecutionOutput::Send {
                    attempt,
                    to,
                    params,
                }) => {
                    let mut settings = call.execution.plan().settings;
                    settings.consistency = params.consistency;
                    self.send(id, attempt, to.handle, &settings, params.deadline);
                }
                Some(ExecutionOutput::Prepare {
                    attempt,
                    to,
                    text,
                    keyspace,
                    deadline,
                }) => {
                    let request = RequestRef::Prepare {
                        text: &text,
                        keyspace: keyspace.as_deref(),
                    };
                    let sender = Sender::Call {
                        call: id,
                        attempt,
                        preparing: true,
                    };
                    let options = RequestOptionsRef::default();
                    let sent = self.submit(to.handle, sender, request, &options, deadline);
                    self.sent(id, attempt, sent);
                }
                Some(ExecutionOutput::Abandon { attempt }) => self.abandon_attempt(id, attempt),
                Some(ExecutionOutput::Done(result)) => return self.done(id, result),
                None => {
                    let at = call.execution.poll_timeout();
                    return self.agenda.set(Due::Call(id), &mut call.armed, at);
                }
            }
        }
    }

    fn send(
        &mut self,
        id: CallId,
        attempt: AttemptId,
        conn: ConnId,
        settings: &RequestSettings,
        deadline: Option<Instant>,
    ) {
        // The question is taken out for a moment, because sending it needs the rest of the driver.
        let Some(call) = self.calls.remove(&id) else {
            return;
        };
        let features = self.served(conn).features;
        let checked = call.question.check();
        let sender = Sender::Call {
            call: id,
            attempt,
            preparing: false,
        };
        let sent = checked.map(|()| {
            call.question.lend(settings, &features, |request, options| {
                self.submit(conn, sender, request, options, deadline)
            })
        });
        self.calls.insert(id, call);
        match sent {
            Ok(sent) => self.sent(id, attempt, sent),
            Err(error) => self.done(id, Err(error.into())),
        }
    }

    /// Keeps an attempt that a connection has taken, or reports that it has not.
    fn sent(&mut self, id: CallId, attempt: AttemptId, sent: Result<Ticket, AttemptError>) {
        let now = self.now;
        match sent {
            Ok(ticket) => {
                if let Some(call) = self.calls.get_mut(&id) {
                    call.flights.push((attempt, ticket));
                }
            }
            Err(error) => self.execution(id, |execution, routing, view| {
                execution.handle_reply(now, attempt, Err(error), routing, view);
            }),
        }
    }

    /// Hands a request to a connection.
    fn submit(
        &mut self,
        conn: ConnId,
        sender: Sender,
        request: RequestRef<'_>,
        options: &RequestOptionsRef<'_>,
        deadline: Option<Instant>,
    ) -> Result<Ticket, AttemptError> {
        let refused = |kind| AttemptError::new(kind, Fate::NotSent);
        let full = self.config.limits.requests_effective();
        let Some(live) = self.table.live_mut(conn) else {
            return Err(refused(AttemptErrorKind::Connection(ConnectionError::Eof)));
        };
        if full <= live.in_flight() {
            return Err(refused(AttemptErrorKind::Overloaded));
        }
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        let submitted = live.submit(self.now, ticket, request, options, deadline);
        self.wake(conn);
        let stream = submitted.map_err(AttemptError::from)?;
        let flight = Flight {
            conn,
            stream,
            sender,
        };
        self.flights.insert(ticket, flight);
        Ok(ticket)
    }

    /// Sends a request of the control plane's own.
    pub(super) fn submit_query(
        &mut self,
        conn: ConnId,
        query: QueryId,
        request: &Request,
        deadline: Option<Instant>,
    ) {
        let options = RequestOptionsRef::default();
        let sent = request.with_ref(|request| {
            self.submit(conn, Sender::Plane(query), request, &options, deadline)
        });
        if let Err(error) = sent {
            self.plane.handle_reply(self.now, conn, query, Err(error));
        }
    }

    /// Takes the reply to a request on a connection.
    ///
    /// Those of the control plane's own come before whatever else the connection says. The others wait until the plane
    /// knows it all, so that a retry goes by the picture after the loss of a connection.
    pub(super) fn replied(&mut self, ticket: Ticket, reply: Reply) {
        let Some(flight) = self.flights.get(&ticket) else {
            return;
        };
        match flight.sender {
            Sender::Plane(query) => {
                let conn = flight.conn;
                self.flights.remove(&ticket);
                self.plane.handle_reply(self.now, conn, query, reply);
            }
            Sender::Call { .. } => {
                let served = self.served(flight.conn);
                self.replies.push_back((ticket, served, reply));
            }
        }
    }

    /// Hands the reply to an attempt to its execution.
    pub(super) fn take_reply(&mut self, ticket: Ticket, served: Served, reply: Reply) {
        // A request that was given up meanwhile has no flight any more.
        let Some(Flight {
            sender:
                Sender::Call {
                    call: id,
                    attempt,
                    preparing,
                },
            ..
        }) = self.flights.remove(&ticket)
        else {
            return;
        };
        let now = self.now;
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        call.flights.retain(|(_, own)| *own != ticket);
        call.served = served;
        // An answer that is no PREPARED is left to the execution.
        if let (true, Ok(frame)) = (preparing && call.question.is_unbound(), &reply)
            && let Ok(body) = read_prepared(frame, &call.served.features)
            && let Err(error) = call.question.bind(body, self.plane.routing())
        {
            return self.done(id, Err(error.into()));
        }
        self.execution(id, |execution, routing, view| {
            execution.handle_reply(now, attempt, reply, routing, view);
        });
        self.advance(id);
    }

    fn abandon_attempt(&mut self, id: CallId, attempt: AttemptId) {
        let Some(call) = self.calls.get_mut(&id) else {
            return;
        };
        let (gone, left) = std::mem::take(&mut call.flights)
            .into_iter()
            .partition(|(own, _)| *own == attempt);
        call.flights = left;
        let gone: Vec<(AttemptId, Ticket)> = gone;
        gone.into_iter()
            .for_each(|(_, ticket)| self.drop_flight(ticket));
    }

    fn drop_flight(&mut self, ticket: Ticket) {
        let now = self.now;
        let Some(flight) = self.flights.remove(&ticket) else {
            return;
        };
        if let Some(live) = self.table.live_mut(flight.conn) {
            live.abandon(now, flight.stream);
            self.wake(flight.conn);
        }
    }

    /// Gives an exchange up; nobody waits for it.
    pub(super) fn drop_call(&mut self, id: CallId) -> Option<Call> {
        let mut call = self.calls.remove(&id)?;
        self.agenda.set(Due::Call(id), &mut call.armed, None);
        std::mem::take(&mut call.flights)
            .into_iter()
            .for_each(|(_, ticket)| self.drop_flight(ticket));
        Some(call)
    }

    fn done(&mut self, id: CallId, result: Result<ResponseFrame, RequestError>) {
        let Some(call) = self.drop_call(id) else {
            return;
        };
        self.metrics.retries += u64::from(call.execution.retries());
        self.metrics.requests_failed += u64::from(result.is_err());
        let place = call.execution.coordinator();
        let coordinator = place
            .and_then(|place| Coordinator::of(place, self.plane.routing()))
            .map(|own| own.served_on(call.served.shard));
        let answered = Answered {
            id,
            result: result
                .map_err(|error| error.with_absent_nodes(|| self.plane.routing().failures())),
            coordinator,
            won_by_copy: call.execution.won_by_copy(),
            features: call.served.features,
            attempts: call.execution.attempts().to_vec(),
            question: call.question,
        };
        self.answered(call.owner, answered);
    }

    /// Reads the answer to a statement.
    pub(super) fn read(&mut self, answered: &Answered) -> Result<QueryResult, RequestError> {
        let frame = answered.result.as_ref().map_err(Clone::clone)?;
        let announced = answered.question.announced();
        match QueryResult::parse(frame, &answered.features, announced, answered.coordinator) {
            Ok(result) => {
                let result = result.with_attempts(&answered.attempts);
                Ok(match answered.won_by_copy {
                    true => result.with_copy(),
                    false => result,
                })
            }
            Err(error) => {
                let note = announced.and_then(|(own, _)| own.learn_unreadable(&error));
                if let Some(note) = note {
                    self.note(note);
                }
                Err(error.into())
            }
        }
    }

    /// Ends every exchange that waits for its next attempt when no connection is left.
    pub(super) fn cut_off(&mut self) {
        while let Some((id, call)) = self.calls.first_key_value() {
            let attempts = call.execution.attempts().to_vec();
            let error = RequestError::after(RequestErrorKind::Closed, attempts);
            self.done(*id, Err(error));
        }
        self.cut_off_traces();
    }

    fn served(&self, conn: ConnId) -> Served {
        let info = self.table.get(conn).and_then(|entry| entry.live()?.info());
        info.map_or_else(Served::default, |info| Served {
            features: info.features,
            shard: info.shard.as_ref().map(|shard| shard.shard),
        })
    }
}

/// What came of an exchange, still unread.
#[derive(Debug)]
pub(super) struct Answered {
    id: CallId,
    result: Result<ResponseFrame, RequestError>,
    features: ProtocolFeatures,
    coordinator: Option<Coordinator>,
    won_by_copy: bool,
    /// What failed before the answer came.
    attempts: Vec<Attempt>,
    question: Question,
}

impl Answered {
    pub(super) const fn id(&self) -> CallId {
        self.id
    }

    pub(super) fn into_question(self) -> Question {
        self.question
    }

    /// Reads the answer to a PREPARE.
    pub(super) fn read_prepared(&self) -> Result<PreparedBody, RequestError> {
        let frame = self.result.as_ref().map_err(Clone::clone)?;
        read_prepared(frame, &self.features)
    }
}
