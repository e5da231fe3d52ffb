//! What reaches the control task: one queue of inputs, and a cell per connection for server events.
//! The queue holds at most a few inputs per connection, look-up and command, so it needs no bound of its own.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use messina_core::cluster::{AgreementOutcome, ConnId, ResolveId};
use messina_core::conn::CloseReason;
use messina_core::error::connect::{ConnectError, ConnectionError};
use messina_core::error::session::SessionError;
use messina_core::routing::{HostIdx, Shard};
use messina_core::wire::{SchemaChange, ServerEvent};
use uuid::Uuid;

use crate::lane::Lane;
use crate::promise::Promise;

/// How many server events of one connection wait for the control task before that connection stops reading.
const EVENTS_MAX: usize = 64;

/// Something that happened outside of the control task.
#[derive(Debug)]
pub(crate) enum Input {
    Resolved(ResolveId, io::Result<Vec<SocketAddr>>),
    Connected(ConnId, Arc<Lane>),
    ConnectFailed(ConnId, ConnectError),
    /// The event cell of this connection is not empty.
    Events(ConnId),
    /// The connection takes no more requests and will end by itself.
    Draining(ConnId, ConnectionError),
    Closed(ConnId, ConnectionError),
    /// A control connection has sent this document about the configuration.
    Reported(Arc<str>),
    /// Requests wanted shards that have no connection.
    Demands(Vec<(HostIdx, Shard)>),
    /// Read the cluster's tables again.
    Refresh,
    /// Wait until all nodes have the same schema; a request of ours may have changed it.
    AwaitAgreement {
        change: Option<SchemaChange>,
        /// The host that made the change.
        coordinator: Option<Uuid>,
        deadline: Instant,
        promise: Promise<AgreementOutcome>,
    },
    /// Enter a keyspace on every connection.
    UseKeyspace {
        keyspace: Arc<str>,
        deadline: Instant,
        promise: Promise<Result<(), SessionError>>,
    },
    /// The last session handle is gone, or `close` was called: requests in flight have until then.
    Close {
        until: Instant,
    },
}

/// The queue of the control task.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    /// Whether anybody cares which shards requests miss.
    on_demand: bool,
    state: Mutex<MailState>,
}

#[derive(Debug, Default)]
struct MailState {
    inputs: VecDeque<Input>,
    /// Shards that requests missed, each once; what finds no room here is missed again.
    demands: Vec<(HostIdx, Shard)>,
    task: Option<Waker>,
    /// Set when the control task has ended: nobody reads any more.
    closed: bool,
}

/// How many missed shards wait for the control task.
const DEMANDS_MAX: usize = 64;

impl Mailbox {
    /// Makes the queue of a session, which opens connections on demand or not.
    pub(crate) fn new(on_demand: bool) -> Self {
        Self {
            on_demand,
            state: Mutex::default(),
        }
    }

    /// Takes note that a request wanted a shard that has no connection.
    pub(crate) fn missed(&self, host: HostIdx, shard: Shard) {
        if !self.on_demand {
            return;
        }
        let mut state = lock(&self.state);
        let known = state.closed || state.demands.contains(&(host, shard));
        if known || DEMANDS_MAX <= state.demands.len() {
            return;
        }
        state.demands.push((host, shard));
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Adds an input and wakes the control task.
    pub(crate) fn push(&self, input: Input) {
        let mut state = lock(&self.state);
        let late = if state.closed {
            Some(input)
        } else {
            state.inputs.push_back(input);
            None
        };
        let task = state.task.take();
        drop(state);
        drop(late);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Takes all inputs, or leaves the waker of the control task behind.
    pub(crate) fn poll_take(&self, into: &mut VecDeque<Input>, cx: &Context<'_>) -> Poll<()> {
        let mut waker = Some(cx.waker().clone());
        let mut state = lock(&self.state);
        mem::swap(&mut state.inputs, into);
        if !state.demands.is_empty() {
            into.push_back(Input::Demands(mem::take(&mut state.demands)));
        }
        mem::swap(&mut state.task, &mut waker);
        drop(state);
        drop(waker);
        if into.is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }

    /// Refuses everything from now on.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let inputs = mem::take(&mut state.inputs);
        let task = state.task.take();
        drop(state);
        drop((inputs, task));
    }
}

/// Joins the control task and the task of one connection.
#[derive(Debug)]
pub(crate) struct Link {
    conn: ConnId,
    mailbox: Arc<Mailbox>,
    state: Mutex<LinkState>,
}

#[derive(Debug, Default)]
struct LinkState {
    events: Vec<ServerEvent>,
    disconnect: Option<CloseReason>,
    task: Option<Waker>,
}

impl Link {
    /// Makes the link of a connection that is about to be opened.
    pub(crate) fn new(conn: ConnId, mailbox: Arc<Mailbox>) -> Self {
        Self {
            conn,
            mailbox,
            state: Mutex::default(),
        }
    }

    /// Asks the connection to end before it has a lane.
    pub(crate) fn disconnect(&self, reason: CloseReason) {
        let mut state = lock(&self.state);
        state.disconnect.get_or_insert(reason);
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Takes the wish to end the connection, or leaves the waker of its task behind.
    pub(crate) fn poll_disconnect(&self, cx: &Context<'_>) -> Poll<CloseReason> {
        let mut waker = Some(cx.waker().clone());
        let mut state = lock(&self.state);
        let reason = state.disconnect.take();
        mem::swap(&mut state.task, &mut waker);
        drop(state);
        drop(waker);
        reason.map_or(Poll::Pending, Poll::Ready)
    }

    /// Hands a server event to the control task.
    pub(crate) fn event(&self, event: ServerEvent) {
        let mut state = lock(&self.state);
        let first = state.events.is_empty();
        state.events.push(event);
        drop(state);
        if first {
            self.mailbox.push(Input::Events(self.conn));
        }
    }

    /// Waits until the control task has room for events again.
    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        if lock(&self.state).events.len() < EVENTS_MAX {
            return Poll::Ready(());
        }
        let mut waker = Some(cx.waker().clone());
        let mut state = lock(&self.state);
        let full = EVENTS_MAX <= state.events.len();
        if full {
            mem::swap(&mut state.task, &mut waker);
        }
        drop(state);
        drop(waker);
        if full { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Takes the events that wait, for the control task.
    pub(crate) fn take_events(&self) -> Vec<ServerEvent> {
        let mut state = lock(&self.state);
        let events = mem::take(&mut state.events);
        let task = if EVENTS_MAX <= events.len() {
            state.task.take()
        } else {
            None
        };
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
        events
    }

    pub(crate) fn connected(&self, lane: Arc<Lane>) {
        self.mailbox.push(Input::Connected(self.conn, lane));
    }

    /// Passes on what the server was told about the configuration.
    pub(crate) fn reported(&self, document: Arc<str>) {
        self.mailbox.push(Input::Reported(document));
    }

    pub(crate) fn connect_failed(&self, error: ConnectError) {
        self.mailbox.push(Input::ConnectFailed(self.conn, error));
    }

    pub(crate) fn draining(&self, error: ConnectionError) {
        self.mailbox.push(Input::Draining(self.conn, error));
    }

    pub(crate) fn closed(&self, error: ConnectionError) {
        self.mailbox.push(Input::Closed(self.conn, error));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
