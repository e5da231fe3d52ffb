//! Owns the waits for schema agreement: looks at the schema versions of the live hosts until they are equal.
//! Reading what changed is the refreshes' work; a wait ends after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::refresh::{NodesRead, Part};
use super::timers::Timer;
use super::{AgreementOutcome, CommandId, ControlOutput, ControlPlane};
use crate::cluster::fetch::SystemTable;
use crate::error::session::NodeCause;
use crate::routing::HostState;

/// The waits for agreement, and the look at the versions that all of them share.
#[derive(Clone, Debug, Default)]
pub(super) struct Agreement {
    waits: BTreeMap<CommandId, Wait>,
    reading: Option<NodesRead>,
    /// How many looks were begun.
    looks: u64,
    /// How many different versions the last look found, or what went wrong with it.
    last: Last,
}

#[derive(Clone, Debug, Default)]
enum Last {
    #[default]
    Nothing,
    Different(usize),
    Failed(NodeCause),
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    /// For a look that began after this many.
    Versions { after: u64 },
    /// For the changed schema to be read.
    Schema,
}

/// Versions spread within tens of milliseconds on a healthy cluster; asking more often would not end waits sooner.
const INTERVAL: Duration = Duration::from_millis(200);

impl Agreement {
    pub(super) fn reading_mut(&mut self) -> Option<&mut NodesRead> {
        self.reading.as_mut()
    }

    pub(super) fn reading_take_if(
        &mut self,
        complete: impl FnOnce(&mut NodesRead) -> bool,
    ) -> Option<NodesRead> {
        self.reading.take_if(complete)
    }
}

impl<H: Clone> ControlPlane<H> {
    pub(super) fn agreement_wait(&mut self, id: CommandId, deadline: Instant) {
        if deadline <= self.now {
            return self.output(ControlOutput::Agreement {
                id,
                outcome: AgreementOutcome::Unknown { cause: None },
            });
        }
        self.agreement.waits.insert(
            id,
            Wait::Versions {
                after: self.agreement.looks,
            },
        );
        self.timers.set(Timer::AgreementEnd(id), deadline);
        self.agreement_look();
    }

    /// Looks at the versions unless that is under way.
    pub(super) fn agreement_look(&mut self) {
        let wanted = self
            .agreement
            .waits
            .values()
            .any(|wait| matches!(wait, Wait::Versions { .. }));
        if !wanted || self.agreement.reading.is_some() {
            return;
        }
        let Some(link) = self.link().filter(|link| link.synced()) else {
            return self.timers.set(Timer::Agreement, self.after(INTERVAL));
        };
        let peers = link.peers;
        self.timers.cancel(Timer::Agreement);
        self.agreement.looks += 1;
        self.agreement.reading = Some(NodesRead {
            pending: 2,
            ..NodesRead::default()
        });
        self.read(Part::Agreement, SystemTable::Local, None);
        self.read(Part::Agreement, peers, None);
    }

    pub(super) fn agreement_read(&mut self, nodes: &NodesRead) {
        let own = nodes.local.as_ref().and_then(|local| local.schema_version);
        let live = |id: Option<Uuid>| {
            let member = id
                .and_then(|id| self.members.find(id))
                .and_then(|host| self.members.get(host));
            member.is_some_and(|member| member.host.state == HostState::Up)
        };
        // Rows of hosts that are down or half removed keep the version of their last day.
        let peers = nodes
            .peers
            .iter()
            .filter(|peer| peer.client.is_some() && live(peer.host_id));
        let mut versions: BTreeSet<Uuid> = peers.filter_map(|peer| peer.schema_version).collect();
        let Some(own) = own else {
            let what = "schema_version";
            return self.agreement_read_failed(Some(NodeCause::Incomplete {
                table: "system.local",
                what,
            }));
        };
        versions.insert(own);
        if 1 < versions.len() {
            self.agreement.last = Last::Different(versions.len());
            return self.timers.set(Timer::Agreement, self.after(INTERVAL));
        }
        let looks = self.agreement.looks;
        for wait in self.agreement.waits.values_mut() {
            if matches!(wait, Wait::Versions { after } if *after < looks) {
                *wait = Wait::Schema;
            }
        }
        // Requests that follow should be routed by the new schema, so it is not left to the usual delay.
        self.schema_begin();
        self.agreement_schema_read();
        self.agreement_look();
    }

    /// Takes note that a look failed; the next one may succeed.
    pub(super) fn agreement_read_failed(&mut self, cause: Option<NodeCause>) {
        if self.agreement.reading.take().is_some() {
            self.agreement.last = cause.map_or(Last::Nothing, Last::Failed);
            self.timers.set(Timer::Agreement, self.after(INTERVAL));
        }
    }

    /// Ends the waits that only waited for the schema to be read.
    pub(super) fn agreement_schema_read(&mut self) {
        if !self.schema_settled() {
            return;
        }
        let done: Vec<CommandId> = self
            .agreement
            .waits
            .iter()
            .filter(|(_, wait)| matches!(wait, Wait::Schema))
            .map(|(id, _)| *id)
            .collect();
        for id in done {
            self.agreement_done(id, AgreementOutcome::Agreed);
        }
    }

    /// Takes note that the time of a wait is over.
    pub(super) fn agreement_end(&mut self, id: CommandId) {
        let outcome = match (self.agreement.waits.get(&id), &self.agreement.last) {
            (Some(Wait::Schema), _) => AgreementOutcome::Agreed,
            (_, Last::Different(versions)) => AgreementOutcome::Different {
                versions: *versions,
            },
            (_, Last::Failed(cause)) => AgreementOutcome::Unknown {
                cause: Some(cause.clone()),
            },
            (_, Last::Nothing) => AgreementOutcome::Unknown { cause: None },
        };
        self.agreement_done(id, outcome);
    }

    fn agreement_done(&mut self, id: CommandId, outcome: AgreementOutcome) {
        self.timers.cancel(Timer::AgreementEnd(id));
        if self.agreement.waits.remove(&id).is_some() {
            self.outcome(ControlOutput::Agreement { id, outcome });
        }
        if self.agreement.waits.is_empty() {
            self.timers.cancel(Timer::Agreement);
            self.agreement.last = Last::Nothing;
            self.agreement.reading = None;
            self.forget_part(Part::Agreement);
        }
    }

    /// Ends all waits without an answer.
    pub(super) fn agreement_close(&mut self) {
        let all: Vec<CommandId> = self.agreement.waits.keys().copied().collect();
        for id in all {
            self.agreement_done(id, AgreementOutcome::Unknown { cause: None });
        }
    }
}
