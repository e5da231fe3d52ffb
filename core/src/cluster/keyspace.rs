//! Owns changes of the session's keyspace: every connection enters it, one change after the other.
//! Connections that are opened later enter it in their handshake.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::conns::{Phase, Purpose, Use};
use super::timers::Timer;
use super::{CommandId, ConnId, ControlOutput, ControlPlane};
use crate::config::session::check_keyspace;
use crate::conn::CloseReason;
use crate::error::connect::{AttemptError, AttemptErrorKind, ConnectionError};
use crate::error::session::{
    KeyspaceCause, NodeCause, NodeFailure, SessionError, SessionErrorKind,
};
use crate::pool::Pool;
use crate::routing::HostIdx;
use crate::wire::{Params, Request, Response, ResponseFrame, ResultBody};

/// Changes of the keyspace, the one under way first.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyspaceChanges {
    current: Option<Change>,
    next: VecDeque<(CommandId, Arc<str>, Instant)>,
}

#[derive(Clone, Debug)]
struct Change {
    id: CommandId,
    keyspace: Arc<str>,
    /// What to go back to when nobody can enter the new one.
    before: Option<Arc<str>>,
    waiting: BTreeSet<ConnId>,
    entered: usize,
    refused: Vec<(ConnId, NodeCause)>,
    failures: Vec<NodeFailure>,
}

impl Change {
    /// Keeps one failure of each node: its connections fail alike, and a refusal tells more than a loss.
    fn failed(&mut self, failure: NodeFailure) {
        let known = self
            .failures
            .iter_mut()
            .find(|known| known.node == failure.node);
        match known {
            Some(known) if is_refusal(&failure) => *known = failure,
            Some(_) => (),
            None => self.failures.push(failure),
        }
    }
}

/// Says whether a node said no; one that was lost or fell silent enters the keyspace when it is back.
fn is_refusal(failure: &NodeFailure) -> bool {
    match &failure.cause {
        NodeCause::Keyspace(cause) => !matches!(cause, KeyspaceCause::Timeout),
        _ => false,
    }
}

/// A node's answer to `USE`.
enum Answer {
    Entered,
    Refused(NodeCause),
    Lost(NodeCause),
}

fn refused(cause: KeyspaceCause) -> Answer {
    Answer::Refused(NodeCause::Keyspace(cause))
}

impl<H: Clone> ControlPlane<H> {
    pub(super) fn keyspace_change(&mut self, id: CommandId, keyspace: Arc<str>, deadline: Instant) {
        if let Err(error) = check_keyspace(&keyspace) {
            return self.output(ControlOutput::KeyspaceUsed {
                id,
                result: Err(error.into()),
            });
        }
        self.timers.set(Timer::KeyspaceEnd(id), deadline);
        self.keyspaces.next.push_back((id, keyspace, deadline));
        self.keyspace_advance();
    }

    fn keyspace_advance(&mut self) {
        while self.keyspaces.current.is_none() {
            let Some((id, keyspace, _)) = self.keyspaces.next.pop_front() else {
                return;
            };
            let before = self.keyspace.replace(Arc::clone(&keyspace));
            self.changed.keyspace = true;
            let waiting = self.open_data();
            self.keyspaces.current = Some(Change {
                id,
                keyspace,
                before,
                waiting: waiting.iter().copied().collect(),
                entered: 0,
                refused: Vec::new(),
                failures: Vec::new(),
            });
            waiting
                .into_iter()
                .for_each(|conn| self.enter_keyspace(conn, Some(id)));
            self.keyspace_finish();
        }
    }

    fn open_data(&self) -> Vec<ConnId> {
        self.pools.iter().flat_map(Pool::serving).collect()
    }

    /// Says whether a connection is in the session's keyspace.
    pub(super) fn entered(&self, conn: ConnId) -> bool {
        self.conns
            .get(conn.key())
            .is_some_and(|conn| conn.keyspace == self.keyspace)
    }

    /// Sends a connection into the session's keyspace; one that is in another keyspace cannot go back to none.
    pub(super) fn enter_keyspace(&mut self, conn: ConnId, command: Option<CommandId>) {
        let Some(keyspace) = self.keyspace.clone() else {
            let reason = ConnectionError::Closed(CloseReason::Surplus);
            return self.drop_data(conn, NodeCause::Connection(reason));
        };
        // The name was checked: it has no character that would end the quotes.
        let request = Request::Query {
            text: format!("USE \"{keyspace}\""),
            params: Params::default(),
        };
        let deadline = self
            .config
            .metadata_timeout
            .and_then(|timeout| self.now.checked_add(timeout));
        self.submit(
            conn,
            Purpose::Keyspace { keyspace, command },
            request,
            deadline,
        );
    }

    pub(super) fn keyspace_reply(
        &mut self,
        conn: ConnId,
        keyspace: &Arc<str>,
        command: Option<CommandId>,
        reply: Result<ResponseFrame, AttemptError>,
    ) {
        let Some(record) = self.conns.get_mut(conn.key()) else {
            return;
        };
        let host = record.usage.host();
        let Phase::Open { info } = &record.phase else {
            // It was told to leave in the meantime.
            if let Some(id) = command {
                let gone = ConnectionError::Closed(CloseReason::Surplus);
                self.keyspace_lost(id, host, conn, NodeCause::Connection(gone));
            }
            return;
        };
        let answer = match reply {
            Ok(frame) => match frame
                .parse(&info.features)
                .map(|envelope| envelope.response)
            {
                Ok(Response::Result(ResultBody::SetKeyspace(name))) if *name == **keyspace => {
                    Answer::Entered
                }
                Ok(Response::Error(error)) => refused(KeyspaceCause::Server(error.into())),
                Ok(_) => refused(KeyspaceCause::OtherAnswer),
                Err(error) => refused(KeyspaceCause::Protocol(error)),
            },
            Err(AttemptError {
                kind: AttemptErrorKind::Connection(error),
                ..
            }) => Answer::Lost(NodeCause::Connection(error)),
            Err(_) => refused(KeyspaceCause::Timeout),
        };
        if matches!(answer, Answer::Entered) {
            record.keyspace = Some(Arc::clone(keyspace));
        }
        match (command, host) {
            (Some(id), _) => self.keyspace_answer(id, host, conn, answer),
            (None, Some(host)) => self.keyspace_entered(host, conn, answer),
            (None, None) => (),
        }
    }

    /// Takes note that a connection ended before it answered.
    pub(super) fn keyspace_lost(
        &mut self,
        id: CommandId,
        host: Option<HostIdx>,
        conn: ConnId,
        cause: NodeCause,
    ) {
        self.keyspace_answer(id, host, conn, Answer::Lost(cause));
    }

    /// Goes on with a connection that had to change the keyspace before its first request.
    fn keyspace_entered(&mut self, host: HostIdx, conn: ConnId, answer: Answer) {
        match answer {
            Answer::Entered if !self.entered(conn) => self.enter_keyspace(conn, None),
            Answer::Entered => self.pool_entered(host, conn),
            Answer::Refused(cause) | Answer::Lost(cause) => {
                self.disconnect(conn, CloseReason::Surplus);
                self.pool_lost(host, conn, cause);
            }
        }
    }

    fn keyspace_answer(
        &mut self,
        id: CommandId,
        host: Option<HostIdx>,
        conn: ConnId,
        answer: Answer,
    ) {
        let failure = match (&answer, host) {
            (Answer::Refused(cause) | Answer::Lost(cause), Some(host)) => {
                Some(self.failure(host, cause.clone(), None))
            }
            _ => None,
        };
        let Some(change) = self
            .keyspaces
            .current
            .as_mut()
            .filter(|change| change.id == id)
        else {
            return;
        };
        if !change.waiting.remove(&conn) {
            return;
        }
        match answer {
            Answer::Entered => change.entered += 1,
            Answer::Refused(cause) => change.refused.push((conn, cause)),
            Answer::Lost(_) => (),
        }
        if let Some(failure) = failure {
            change.failed(failure);
        }
        self.keyspace_finish();
        self.keyspace_advance();
    }

    /// Ends the current change when nobody is waited for any more.
    fn keyspace_finish(&mut self) {
        let Some(change) = self
            .keyspaces
            .current
            .take_if(|change| change.waiting.is_empty())
        else {
            return;
        };
        self.timers.cancel(Timer::KeyspaceEnd(change.id));
        let id = change.id;
        if 0 < change.entered {
            // A pool must not have connections in different keyspaces.
            change
                .refused
                .into_iter()
                .for_each(|(conn, cause)| self.drop_data(conn, cause));
            let failures: Vec<_> = change.failures.into_iter().filter(is_refusal).collect();
            let result = match failures.is_empty() {
                true => Ok(()),
                false => {
                    let name = change.keyspace;
                    let kind = SessionErrorKind::KeyspaceInPart { name };
                    Err(SessionError::new(kind, failures))
                }
            };
            return self.outcome(ControlOutput::KeyspaceUsed { id, result });
        }
        self.keyspace = change.before;
        self.changed.keyspace = true;
        for conn in self.open_data() {
            if !self.entered(conn) {
                self.enter_keyspace(conn, None);
            }
        }
        let kind = SessionErrorKind::Keyspace {
            name: change.keyspace,
        };
        // Where no connection was open to try it, what keeps the nodes away is the reason.
        let failures = match change.failures {
            failures if failures.is_empty() => self.all_failures(),
            failures => failures,
        };
        let result = Err(SessionError::new(kind, failures));
        self.outcome(ControlOutput::KeyspaceUsed { id, result });
    }

    /// Closes a connection that is not in the keyspace of the others.
    fn drop_data(&mut self, conn: ConnId, cause: NodeCause) {
        let Some(record) = self.conns.get(conn.key()) else {
            return;
        };
        let (&Use::Pool(host), Phase::Open { .. }) = (&record.usage, &record.phase) else {
            return;
        };
        self.disconnect(conn, CloseReason::Surplus);
        self.pool_lost(host, conn, cause);
    }

    /// Takes note that the time of a change is over: connections that did not answer are closed.
    pub(super) fn keyspace_end(&mut self, id: CommandId) {
        if let Some(at) = self
            .keyspaces
            .next
            .iter()
            .position(|(own, _, _)| *own == id)
        {
            if let Some((id, name, _)) = self.keyspaces.next.remove(at) {
                let error = SessionError::new(SessionErrorKind::Keyspace { name }, Vec::new());
                self.output(ControlOutput::KeyspaceUsed {
                    id,
                    result: Err(error),
                });
            }
            return;
        }
        let Some(change) = self
            .keyspaces
            .current
            .as_mut()
            .filter(|change| change.id == id)
        else {
            return;
        };
        let late = std::mem::take(&mut change.waiting);
        let silent = late
            .iter()
            .filter_map(|conn| self.conns.get(conn.key())?.usage.host())
            .map(|host| self.failure(host, NodeCause::Keyspace(KeyspaceCause::Timeout), None))
            .collect::<Vec<_>>();
        if let Some(change) = &mut self.keyspaces.current {
            silent
                .into_iter()
                .for_each(|failure| change.failed(failure));
        }
        for conn in late {
            self.queries.retain(|_, pending| pending.conn != conn);
            self.drop_data(conn, NodeCause::Keyspace(KeyspaceCause::Timeout));
        }
        self.keyspace_finish();
        self.keyspace_advance();
    }

    /// Ends all changes without success.
    pub(super) fn keyspace_close(&mut self) {
        let current = self.keyspaces.current.take().map(|change| change.id);
        let next = std::mem::take(&mut self.keyspaces.next);
        for id in current
            .into_iter()
            .chain(next.into_iter().map(|(id, _, _)| id))
        {
            let error = SessionError::new(SessionErrorKind::Closed, Vec::new());
            self.output(ControlOutput::KeyspaceUsed {
                id,
                result: Err(error),
            });
        }
    }
}
