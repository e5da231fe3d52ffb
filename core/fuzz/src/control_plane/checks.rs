//! Owns the checks of what a control plane puts out, and of how it ends.

use messina_core::cluster::{AgreementOutcome, ConnId, ControlOutput};
use messina_core::error::connect::ConnectCause;
use messina_core::error::session::SessionErrorKind;
use messina_core::notify::{ClusterEvent, Note};
use messina_core::routing::{HostState, Routing, TableIdx, Token};

use super::{Bench, CONTROL_MAX, Conn, OPENING_MAX, OUTPUTS_MAX, Query};
use crate::bench::Milestones;

impl Bench {
    /// Takes all outputs and checks them.
    pub(super) fn drain(&mut self) {
        let mut count = 0;
        while let Some(output) = self.plane.poll_output() {
            count += 1;
            assert!(count <= OUTPUTS_MAX, "outputs without an end");
            self.take(output);
        }
        let opening = self
            .conns
            .values()
            .filter(|conn| !conn.open && !conn.leaving)
            .count();
        assert!(
            opening <= OPENING_MAX + CONTROL_MAX,
            "{opening} attempts at a time"
        );
    }

    fn take(&mut self, output: ControlOutput<u32>) {
        self.seen.extend(milestone(&output));
        match output {
            ControlOutput::Resolve { id, .. } => {
                assert!(!self.over, "a name is asked for after the end");
                self.resolving.push(id);
            }
            ControlOutput::Connect { conn, spec, plan } => {
                assert!(!self.over, "a connection is opened after the end");
                assert_eq!(spec.address, plan.address);
                assert!(self.used.insert(conn), "{conn:?} is used twice");
                let address = spec.address;
                self.conns.insert(
                    conn,
                    Conn {
                        address,
                        open: false,
                        leaving: false,
                    },
                );
            }
            ControlOutput::Disconnect { conn, .. } => {
                let conn = self
                    .conns
                    .get_mut(&conn)
                    .expect("only what is there can be ended");
                assert!(!std::mem::replace(&mut conn.leaving, true), "ended twice");
            }
            ControlOutput::Submit {
                conn,
                query,
                request,
                deadline,
            } => {
                let target = self.conns.get(&conn);
                let fits = target.is_some_and(|target| target.open && !target.leaving);
                assert!(
                    fits && !self.over,
                    "a request for a connection that cannot take it"
                );
                self.queries.push(Query {
                    conn,
                    query,
                    request,
                    deadline,
                });
            }
            ControlOutput::Publish(routing) => check_routing(&routing),
            ControlOutput::Ready(readiness) => {
                assert!(
                    !self.fatal && !std::mem::replace(&mut self.ready, true),
                    "ready twice"
                );
                assert!(readiness.connected <= readiness.wanted);
            }
            ControlOutput::Fatal(error) => {
                assert!(!self.ready, "fatal after ready: {error}");
                assert!(!std::mem::replace(&mut self.fatal, true), "fatal twice");
                self.over = true;
            }
            ControlOutput::Agreement { id, .. } | ControlOutput::KeyspaceUsed { id, .. } => {
                assert!(self.commands.remove(&id.0), "a second outcome of {id:?}");
            }
            ControlOutput::Note(note) => drop(format!("{note:?}")),
            _ => (),
        }
    }

    pub(super) fn end(mut self) -> Milestones {
        self.over = true;
        self.plane.close(self.now);
        self.plane.close(self.now);
        self.drain();
        assert!(
            self.commands.is_empty(),
            "commands without an outcome: {:?}",
            self.commands
        );
        assert!(
            self.conns.values().all(|conn| conn.leaving),
            "a connection is left alone"
        );
        assert_eq!(self.plane.poll_timeout(), None);
        let left: Vec<(ConnId, bool)> = self
            .conns
            .iter()
            .map(|(id, conn)| (*id, conn.open))
            .collect();
        for (id, open) in left {
            assert!(!self.plane.is_closed());
            if open {
                self.closed(id, true);
            } else {
                self.failed(id, ConnectCause::Closed);
            }
            self.drain();
        }
        assert!(
            self.plane.is_closed(),
            "everything was reported and it is not closed"
        );
        self.seen
    }
}

fn milestone(output: &ControlOutput<u32>) -> Option<&'static str> {
    Some(match output {
        ControlOutput::Ready(_) => "ready",
        ControlOutput::Fatal(error) => match error.kind() {
            SessionErrorKind::NoContactPoint => "fatal: no contact point",
            SessionErrorKind::NotReady { .. } => "fatal: not ready",
            _ => "fatal",
        },
        ControlOutput::Agreement { outcome, .. } => match outcome {
            AgreementOutcome::Agreed => "agreed",
            AgreementOutcome::Different { .. } => "not agreed",
            _ => "agreement unknown",
        },
        ControlOutput::KeyspaceUsed { result: Ok(()), .. } => "keyspace entered",
        ControlOutput::KeyspaceUsed { .. } => "keyspace not entered",
        ControlOutput::Notify(event) => match event {
            ClusterEvent::HostAdded { .. } => "host added",
            ClusterEvent::HostRemoved { .. } => "host removed",
            ClusterEvent::HostUp { .. } => "host up",
            ClusterEvent::HostDown { .. } => "host down",
            ClusterEvent::Resynced => "resynced",
            _ => "schema changed",
        },
        ControlOutput::Note(note) => match note {
            Note::RowSkipped { .. } => "row skipped",
            Note::ReadFailed { .. } => "read failed",
            Note::NoControlConnection { .. } => "no control connection",
            Note::NameUnresolved { .. } => "name unresolved",
            _ => return None,
        },
        ControlOutput::Publish(routing) if !routing.tables.is_empty() => "tables published",
        _ => return None,
    })
}

fn check_routing(routing: &Routing<u32>) {
    assert_eq!(routing.hosts.len(), routing.pools.len());
    for (at, table) in routing.tables.iter().enumerate() {
        let idx = TableIdx(u32::try_from(at).expect("few tables"));
        assert_eq!(
            routing.table_idx(&table.keyspace, &table.name),
            Some(idx),
            "a table is not found by its name"
        );
        for token in [i64::MIN, -1, 0, i64::MAX] {
            for host in routing.replicas(idx, Token(token)) {
                assert!(host.at() < routing.hosts.len(), "a replica that is no host");
                let _ = routing.shard_of(*host, Token(token));
            }
        }
    }
    for (at, host) in routing.hosts.iter().enumerate() {
        let found = routing.host_by_id(host.id).map(|idx| idx.at());
        let expected = (host.state != HostState::Removed).then_some(at);
        assert_eq!(found, expected, "a host is not found by its id");
    }
}
