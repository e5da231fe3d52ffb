//! The control task: drives the `ControlPlane` and performs what it asks for.
//! Decides nothing about the cluster; requests of the application never pass through it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use messina_core::cluster::{
    AgreementOutcome, CommandId, ConnId, ControlOutput, ControlPlane, QueryId, ResolveId,
};
use messina_core::conn::{CloseReason, ConnectSpec, ConnectionPlan, Role, Ticket};
use messina_core::error::connect::{AttemptError, AttemptErrorKind, Fate};
use messina_core::error::io::IoError;
use messina_core::error::session::{SessionError, SessionErrorKind};
use messina_core::wire::{Request, RequestOptionsRef, ResponseFrame};

use crate::conn_task::{self, Settings};
use crate::lane::{Lane, Refused};
use crate::mailbox::{Input, Link, Mailbox};
use crate::metrics::Counters;
use crate::notes::Notes;
use crate::promise::Promise;
use crate::published::{Phase, Published};
use crate::runtime::Runtime;

/// How many rounds one poll makes before other tasks get their chance.
const ROUNDS_MAX: usize = 16;

/// The task that owns the control plane.
pub(crate) struct ControlTask<R: Runtime> {
    runtime: R,
    plane: ControlPlane<Arc<Lane>>,
    mailbox: Arc<Mailbox>,
    published: Arc<Published>,
    notes: Arc<Notes>,
    counters: Arc<Counters>,
    settings: Settings,
    /// The connections whose end the plane has not heard of yet.
    entries: Vec<Entry>,
    queries: Vec<PendingQuery>,
    commands: Vec<(CommandId, Command)>,
    commands_given: u64,
    inputs: VecDeque<Input>,
    sleep: Pin<Box<R::Sleep>>,
    armed: Option<Instant>,
    closing: Closing,
}

/// How far the end of the session is.
#[derive(Clone, Copy, Debug)]
enum Closing {
    NotAsked,
    /// Requests under way have until then.
    Draining {
        until: Instant,
    },
    /// Connections are being closed.
    Closed,
}

struct Entry {
    conn: ConnId,
    role: Role,
    link: Arc<Link>,
    lane: Option<Arc<Lane>>,
    /// Set when the plane wants the connection to end before it is known to be open.
    disconnect: Option<CloseReason>,
}

/// A command whose outcome somebody waits for.
enum Command {
    Agreement(Promise<AgreementOutcome>),
    Keyspace(Promise<Result<(), SessionError>>),
}

struct PendingQuery {
    conn: ConnId,
    query: QueryId,
    lane: Arc<Lane>,
    ticket: Ticket,
}

// Nothing in it is pinned in place.
impl<R: Runtime> Unpin for ControlTask<R> {}

impl<R: Runtime> ControlTask<R> {
    /// Makes the task; nothing happens before its first poll.
    pub(crate) fn new(
        runtime: R,
        plane: ControlPlane<Arc<Lane>>,
        mailbox: Arc<Mailbox>,
        published: Arc<Published>,
        notes: Arc<Notes>,
        counters: Arc<Counters>,
        settings: Settings,
    ) -> Self {
        let sleep = Box::pin(runtime.sleep_until(runtime.now()));
        Self {
            runtime,
            plane,
            mailbox,
            published,
            notes,
            counters,
            settings,
            entries: Vec::new(),
            queries: Vec::new(),
            commands: Vec::new(),
            commands_given: 0,
            inputs: VecDeque::new(),
            sleep,
            armed: None,
            closing: Closing::NotAsked,
        }
    }

    /// Takes in what happened and performs what follows; returns whether there may be more.
    fn round(&mut self, cx: &mut Context<'_>) -> bool {
        let now = self.runtime.now();
        if self.armed.is_some_and(|at| at <= now) {
            self.armed = None;
            self.plane.handle_timeout(now);
        }
        let mut inputs = std::mem::take(&mut self.inputs);
        let some = self.mailbox.poll_take(&mut inputs, cx).is_ready();
        for input in inputs.drain(..) {
            self.handle(now, input);
        }
        self.inputs = inputs;
        let answered = self.poll_queries(now, cx);
        let performed = self.perform(now, cx);
        let closed = self.drain(now, cx);
        some || answered || performed || closed
    }

    fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Resolved(id, result) => {
                self.plane
                    .handle_resolved(now, id, result.map_err(IoError::from));
            }
            Input::Connected(conn, lane) => {
                self.counters.connections_opened.add(1);
                if let Some(entry) = self.entry(conn) {
                    entry.lane = Some(Arc::clone(&lane));
                    if let Some(reason) = entry.disconnect.take() {
                        lane.close(reason);
                    }
                }
                self.plane
                    .handle_connected(now, conn, lane.info().clone(), lane);
            }
            Input::ConnectFailed(conn, error) => {
                self.counters.connect_failures.add(1);
                self.forget(conn);
                self.plane.handle_connect_failed(now, conn, error);
            }
            Input::Events(conn) => {
                let events = self
                    .entry(conn)
                    .map(|entry| entry.link.take_events())
                    .unwrap_or_default();
                for event in events {
                    self.counters.server_events.add(1);
                    self.plane.handle_event(now, conn, event);
                }
            }
            Input::Closed(conn, error) => {
                // What the connection still had to say comes before its end.
                self.handle(now, Input::Events(conn));
                self.collect_queries(now, conn);
                self.forget(conn);
                self.plane.handle_closed(now, conn, error);
            }
            Input::Reported(document) => self.published.report(document),
            Input::Draining(conn, error) => self.plane.handle_draining(now, conn, error),
            Input::Demands(demands) => {
                for (host, shard) in demands {
                    self.plane.handle_demand(now, host, shard);
                }
            }
            Input::Refresh => self.plane.refresh(now),
            Input::AwaitAgreement {
                change,
                coordinator,
                deadline,
                promise,
            } => {
                if let Some(change) = change {
                    self.plane.schema_changed(now, &change);
                }
                let id = self.command(Command::Agreement(promise));
                self.plane.await_agreement(now, id, coordinator, deadline);
            }
            Input::UseKeyspace {
                keyspace,
                deadline,
                promise,
            } => {
                let id = self.command(Command::Keyspace(promise));
                self.plane.use_keyspace(now, id, keyspace, deadline);
            }
            Input::Close { until } => {
                self.closing = match self.closing {
                    Closing::NotAsked => Closing::Draining { until },
                    Closing::Draining { until: own } => Closing::Draining {
                        until: own.min(until),
                    },
                    Closing::Closed => Closing::Closed,
                };
            }
        }
    }

    /// Closes the connections once no request is under way or the time has passed; returns whether it did.
    fn drain(&mut self, now: Instant, cx: &Context<'_>) -> bool {
        let Closing::Draining { until } = self.closing else {
            return false;
        };
        let data = self.entries.iter().filter(|own| own.role == Role::Data);
        let lanes = || data.clone().filter_map(|own| own.lane.as_ref());
        let detours = self.counters.poll_no_detour(cx);
        let busy = lanes().any(|lane| lane.poll_idle(cx).is_pending()) || detours.is_pending();
        if busy && now < until {
            return false;
        }
        // A request between two attempts is on no connection.
        let waiting = lanes().map(|lane| usize::try_from(lane.in_flight()).unwrap_or(usize::MAX));
        let cut = waiting.sum::<usize>().max(self.counters.detours());
        self.published.cut_off(cut);
        self.closing = Closing::Closed;
        self.plane.close(now);
        true
    }

    fn entry(&mut self, conn: ConnId) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.conn == conn)
    }

    fn forget(&mut self, conn: ConnId) {
        self.entries.retain(|entry| entry.conn != conn);
    }

    /// Reports the answers that have arrived.
    fn poll_queries(&mut self, now: Instant, cx: &Context<'_>) -> bool {
        let mut answered = false;
        let mut at = 0;
        while let Some(pending) = self.queries.get(at) {
            match pending.lane.poll_reply(pending.ticket, cx) {
                Poll::Ready(reply) => {
                    let pending = self.queries.swap_remove(at);
                    let reply = reply.into_frame(pending.lane.info().features.version);
                    self.plane
                        .handle_reply(now, pending.conn, pending.query, reply);
                    answered = true;
                }
                Poll::Pending => at += 1,
            }
        }
        answered
    }

    /// Reports the answers of a connection that has ended: its lane has one for every query.
    fn collect_queries(&mut self, now: Instant, conn: ConnId) {
        let idle = Context::from_waker(std::task::Waker::noop());
        let (ended, others) = std::mem::take(&mut self.queries)
            .into_iter()
            .partition(|query| query.conn == conn);
        let others: Vec<PendingQuery> = others;
        let ended: Vec<PendingQuery> = ended;
        self.queries = others;
        for pending in ended {
            if let Poll::Ready(reply) = pending.lane.poll_reply(pending.ticket, &idle) {
                let reply = reply.into_frame(pending.lane.info().features.version);
                self.plane
                    .handle_reply(now, pending.conn, pending.query, reply);
            }
        }
    }

    fn perform(&mut self, now: Instant, cx: &Context<'_>) -> bool {
        let mut some = false;
        while let Some(output) = self.plane.poll_output() {
            some = true;
            match output {
                ControlOutput::Resolve { id, host, port } => self.resolve(id, &host, port),
                ControlOutput::Connect { conn, spec, plan } => self.connect(conn, spec, plan),
                ControlOutput::Disconnect { conn, reason } => self.disconnect(conn, reason),
                ControlOutput::Drain { conn, reason } => {
                    if let Some(lane) = self.entry(conn).and_then(|entry| entry.lane.as_ref()) {
                        lane.drain(reason);
                    }
                }
                ControlOutput::Submit {
                    conn,
                    query,
                    request,
                    deadline,
                } => {
                    self.submit(now, cx, conn, query, request, deadline);
                }
                ControlOutput::Publish(routing) => self.published.publish(routing),
                ControlOutput::Ready(_) => self.published.enter(Phase::Ready),
                ControlOutput::Agreement { id, outcome } => {
                    if let Some(Command::Agreement(promise)) = self.take_command(id) {
                        promise.keep(outcome);
                    }
                }
                ControlOutput::KeyspaceUsed { id, result } => {
                    if let Some(Command::Keyspace(promise)) = self.take_command(id) {
                        promise.keep(result);
                    }
                }
                ControlOutput::Note(note) => self.notes.push(note),
                ControlOutput::Notify(event) => self.notes.notify(event),
                ControlOutput::Fatal(error) => self.published.enter(Phase::Failed(error)),
                _ => (),
            }
        }
        some
    }

    fn command(&mut self, command: Command) -> CommandId {
        self.commands_given += 1;
        let id = CommandId(self.commands_given);
        self.commands.push((id, command));
        id
    }

    fn take_command(&mut self, id: CommandId) -> Option<Command> {
        let at = self.commands.iter().position(|(own, _)| *own == id)?;
        Some(self.commands.swap_remove(at).1)
    }

    fn resolve(&self, id: ResolveId, host: &str, port: u16) {
        let runtime = self.runtime.clone();
        let mailbox = Arc::clone(&self.mailbox);
        let host = host.to_owned();
        self.runtime.spawn(async move {
            let result = runtime.resolve(host, port).await;
            mailbox.push(Input::Resolved(id, result));
        });
    }

    fn connect(&mut self, conn: ConnId, spec: ConnectSpec, plan: Box<ConnectionPlan>) {
        let link = Arc::new(Link::new(conn, Arc::clone(&self.mailbox)));
        self.entries.push(Entry {
            conn,
            role: plan.role,
            link: Arc::clone(&link),
            lane: None,
            disconnect: None,
        });
        let notes = Arc::clone(&self.notes);
        self.runtime.spawn(conn_task::run(
            self.runtime.clone(),
            link,
            notes,
            spec,
            plan,
            self.settings,
        ));
    }

    fn disconnect(&mut self, conn: ConnId, reason: CloseReason) {
        let Some(entry) = self.entry(conn) else {
            return;
        };
        match &entry.lane {
            Some(lane) => lane.close(reason),
            None => {
                entry.disconnect = Some(reason);
                entry.link.disconnect(reason);
            }
        }
    }

    fn submit(
        &mut self,
        now: Instant,
        cx: &Context<'_>,
        conn: ConnId,
        query: QueryId,
        request: Request,
        deadline: Option<Instant>,
    ) {
        let lane = self.entry(conn).and_then(|entry| entry.lane.clone());
        let refused = match lane {
            None => AttemptErrorKind::Overloaded,
            Some(lane) => {
                let submitted = lane.submit(deadline, cx.waker(), |arena, features| {
                    let options = RequestOptionsRef::default();
                    request
                        .with_ref(|request| request.encode(arena, features, 0, &options))
                        .map(|()| request.opcode())
                });
                match submitted {
                    Ok(ticket) => {
                        return self.queries.push(PendingQuery {
                            conn,
                            query,
                            lane,
                            ticket,
                        });
                    }
                    Err(Refused::Closed(error)) => AttemptErrorKind::Connection(error),
                    Err(Refused::Full) => AttemptErrorKind::Overloaded,
                    Err(Refused::Encode(error)) => AttemptErrorKind::Encode(error),
                }
            }
        };
        let reply: Result<ResponseFrame, AttemptError> = Err(AttemptError {
            kind: refused,
            fate: Fate::NotSent,
        });
        self.plane.handle_reply(now, conn, query, reply);
    }

    fn arm(&mut self, cx: &mut Context<'_>) {
        let own = match self.closing {
            Closing::Draining { until } => Some(until),
            Closing::NotAsked | Closing::Closed => None,
        };
        let Some(at) = self.plane.poll_timeout().into_iter().chain(own).min() else {
            return;
        };
        if self.armed.is_some_and(|armed| armed <= at) {
            return;
        }
        R::reset(self.sleep.as_mut(), at);
        self.armed = Some(at);
        if self.sleep.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}

impl<R: Runtime> Future for ControlTask<R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let mut rounds = 0;
        while this.round(cx) {
            rounds += 1;
            if rounds == ROUNDS_MAX {
                cx.waker().wake_by_ref();
                break;
            }
        }
        if matches!(this.closing, Closing::Closed)
            && this.plane.is_closed()
            && this.entries.is_empty()
        {
            return Poll::Ready(());
        }
        this.arm(cx);
        Poll::Pending
    }
}

impl<R: Runtime> Drop for ControlTask<R> {
    fn drop(&mut self) {
        self.mailbox.close();
        self.notes.end();
        self.published.enter(Phase::Failed(SessionError::new(
            SessionErrorKind::Closed,
            Vec::new(),
        )));
        self.published.enter(Phase::Ended);
    }
}
