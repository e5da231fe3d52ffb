//! The part of an execution that brings a forgotten statement back to a node: once per statement and node, and only
//! where it would be the same statement as before.
//!
//! It leaves out failures of other kinds (`recovery`) and where a statement is prepared first (`preparing`).

use std::sync::Arc;

use bytes::Bytes;

use super::fibre::FibreState;
use super::prepared::Preparation;
use super::{Cluster, Execution, ExecutionOutput, StatementKind};
use crate::error::connect::Fate;
use crate::error::request::{RequestErrorKind, UnpreparedError};
use crate::wire::header::ProtocolVersion;
use crate::wire::response::{Response, ResponseFrame};
use crate::wire::result::ResultBody;

impl<H: Clone> Execution<H> {
    /// Takes the answer to a repeated PREPARE.
    pub(super) fn handle_prepared(
        &mut self,
        at: usize,
        preparation: &Arc<Preparation>,
        frame: &ResponseFrame,
        cluster: Cluster<'_, H>,
    ) {
        let envelope = match frame.parse(&self.features(at, cluster)) {
            Ok(envelope) => envelope,
            Err(error) => {
                return self.fail(
                    at,
                    RequestErrorKind::Protocol(error),
                    Fate::NotSent,
                    cluster,
                );
            }
        };
        let Response::Result(ResultBody::Prepared(body)) = envelope.response else {
            let kind = RequestErrorKind::UnexpectedAnswer {
                opcode: frame.header.opcode,
            };
            return self.fail(at, kind, Fate::NotSent, cluster);
        };
        if body.id != *preparation.id() {
            let (before, after) = (preparation.id().clone(), body.id);
            return self.fail_unprepared(at, UnpreparedError::IdChanged { before, after }, cluster);
        }
        if preparation.learn_prepared(&body).is_err() {
            let id = body.id;
            return self.fail_unprepared(at, UnpreparedError::MarkersChanged { id }, cluster);
        }
        // Counted only now: a PREPARE that never arrived, or was refused, has not made the node know the statement.
        if let Some(fibre) = self.fibre_mut(at) {
            fibre.past().prepared.push(body.id);
        }
        self.send(at);
    }

    /// Prepares a statement again where it was forgotten: once per statement and node.
    pub(super) fn handle_unprepared(&mut self, at: usize, id: Bytes, cluster: Cluster<'_, H>) {
        let Some(preparation) = self.plan.kind.preparation(&id).cloned() else {
            let error = match self.plan.kind {
                StatementKind::TextWithValues(_) => UnpreparedError::Again { id },
                _ => UnpreparedError::Foreign { id },
            };
            return self.fail_unprepared(at, error, cluster);
        };
        // Before protocol version 5 a statement is prepared in the keyspace of its connection.
        let own_keyspace = self.features(at, cluster).version == ProtocolVersion::V5;
        if let Some(error) = keyspaces_differ(&preparation, cluster).filter(|_| !own_keyspace) {
            return self.fail_unprepared(at, error, cluster);
        }
        let Some(fibre) = self.fibre_mut(at) else {
            return;
        };
        let past = fibre.past();
        if past.prepared.contains(&id) {
            return self.fail_unprepared(at, UnpreparedError::Again { id }, cluster);
        }
        past.preparing = Some(Arc::clone(&preparation));
        let keyspace = preparation.keyspace().filter(|_| own_keyspace);
        self.prepare(at, Arc::clone(preparation.text()), keyspace.cloned());
    }

    pub(super) fn prepare(&mut self, at: usize, text: Arc<str>, keyspace: Option<Arc<str>>) {
        let Some(fibre) = self.fibre_mut(at) else {
            return;
        };
        fibre.state = FibreState::Preparing;
        let Some(to) = fibre.target.clone() else {
            return;
        };
        let (attempt, limit) = (fibre.attempt, fibre.limit);
        let deadline = limit.or(self.plan.settings.deadline);
        self.trouble().outputs.push_back(ExecutionOutput::Prepare {
            attempt,
            to,
            text,
            keyspace,
            deadline,
        });
    }

    fn fail_unprepared(&mut self, at: usize, error: UnpreparedError, cluster: Cluster<'_, H>) {
        self.fail_for_good(
            at,
            RequestErrorKind::Unprepared(error),
            Fate::Answered,
            cluster,
        );
    }
}

/// Refuses to prepare a statement in another keyspace than it was prepared in: its unqualified names would mean other
/// tables there.
fn keyspaces_differ<H>(
    preparation: &Preparation,
    cluster: Cluster<'_, H>,
) -> Option<UnpreparedError> {
    let prepared_in = preparation.keyspace()?;
    let in_use = cluster.routing.keyspace.as_ref();
    (in_use != Some(prepared_in)).then(|| UnpreparedError::KeyspacesDiffer {
        prepared_in: Arc::clone(prepared_in),
        in_use: in_use.cloned(),
    })
}
