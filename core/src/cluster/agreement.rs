//! Owns the waits for schema agreement: looks at the schema versions of the live hosts until they are equal.
//! A look asks every host that has a connection for its own version, and the host of the control connection for those
//! of all others: what a node tells of others may be older than their answers.
//! Reading what changed is the refreshes' work; a wait ends after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::conns::{Phase, Purpose};
use super::fetch::{SystemTable, for_each_row, page_request};
use super::refresh::{NodesRead, Part};
use super::timers::Timer;
use super::{AgreementOutcome, CommandId, ConnId, ControlOutput, ControlPlane};
use crate::error::connect::AttemptError;
use crate::error::session::NodeCause;
use crate::routing::{HostIdx, HostState};
use crate::wire::{Response, ResponseFrame, ResultBody};

/// The waits for agreement, and the look at the versions that all of them share.
#[derive(Clone, Debug, Default)]
pub(super) struct Agreement {
    waits: BTreeMap<CommandId, Wait>,
    reading: Option<NodesRead>,
    /// What the host of the control connection told in this look, once it is complete.
    told: Option<BTreeSet<Uuid>>,
    /// The hosts that were asked for themselves in this look and did not answer yet.
    asked: BTreeSet<HostIdx>,
    /// What those that did have answered.
    answered: BTreeMap<HostIdx, Uuid>,
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
    /// For a look that began after this many, with an answer of this host where one is named.
    Versions {
        after: u64,
        coordinator: Option<Uuid>,
    },
    /// For the changed schema to be read.
    Schema,
}

/// Versions spread within tens of milliseconds on a healthy cluster; asking more often would not end waits sooner.
const INTERVAL: Duration = Duration::from_millis(200);

impl Agreement {
    fn is_looking(&self) -> bool {
        self.reading.is_some() || self.told.is_some()
    }

    /// Gives the look under way up; says whether there was one.
    fn stop_looking(&mut self) -> bool {
        let was_looking = self.is_looking();
        (self.reading, self.told) = (None, None);
        self.asked.clear();
        was_looking
    }

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
    pub(super) fn agreement_wait(
        &mut self,
        id: CommandId,
        coordinator: Option<Uuid>,
        deadline: Instant,
    ) {
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
                coordinator,
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
        if !wanted || self.agreement.is_looking() {
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
        self.ask_for_versions();
    }

    /// Asks every host that has a connection for requests for its own version.
    fn ask_for_versions(&mut self) {
        let connected: Vec<_> = self
            .pools
            .iter()
            .zip(0..)
            .filter_map(|(pool, at)| Some((HostIdx(at), pool.serving().next()?)))
            .collect();
        self.agreement.answered.clear();
        self.agreement.asked = connected.iter().map(|(host, _)| *host).collect();
        let look = self.agreement.looks;
        for (host, conn) in connected {
            let (text, _, deadline) = self.bounded_select(SystemTable::LocalVersion, None);
            let request = page_request(text, None);
            self.submit(conn, Purpose::Version { host, look }, request, deadline);
        }
    }

    /// Reads the version out of a host's answer; one that makes no sense is none.
    pub(super) fn version_in(
        &self,
        conn: ConnId,
        reply: Result<ResponseFrame, AttemptError>,
    ) -> Option<Uuid> {
        let Phase::Open { info } = &self.conns.get(conn.key())?.phase else {
            return None;
        };
        let response = reply.ok()?.parse(&info.features).ok()?.response;
        let Response::Result(ResultBody::Rows(body)) = response else {
            return None;
        };
        let mut version = None;
        let table = SystemTable::LocalVersion;
        for_each_row(table, &body, |row| version = row.uuid("schema_version")).ok()?;
        version
    }

    /// Takes a host's own version; none where it did not tell.
    pub(super) fn agreement_version(&mut self, host: HostIdx, look: u64, version: Option<Uuid>) {
        if look != self.agreement.looks || !self.agreement.asked.remove(&host) {
            return;
        }
        if let Some(version) = version {
            self.agreement.answered.insert(host, version);
        }
        self.agreement_judge();
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
        self.agreement.told = Some(versions);
        self.agreement_judge();
    }

    /// Compares the versions once everybody has answered.
    fn agreement_judge(&mut self) {
        if !self.agreement.asked.is_empty() {
            return;
        }
        let Some(mut versions) = self.agreement.told.take() else {
            return;
        };
        versions.extend(self.agreement.answered.values());
        if 1 < versions.len() {
            self.agreement.last = Last::Different(versions.len());
            return self.timers.set(Timer::Agreement, self.after(INTERVAL));
        }
        let link = self.link().and_then(|link| link.host);
        let answered = self.agreement.answered.keys().copied().chain(link);
        let answered: BTreeSet<Uuid> = answered
            .filter_map(|host| Some(self.members.get(host)?.host.id))
            .collect();
        let looks = self.agreement.looks;
        let mut missing = false;
        for wait in self.agreement.waits.values_mut() {
            match wait {
                Wait::Versions { after, coordinator } if *after < looks => {
                    if coordinator.is_none_or(|id| answered.contains(&id)) {
                        *wait = Wait::Schema;
                    } else {
                        missing = true;
                    }
                }
                _ => (),
            }
        }
        if missing {
            self.agreement.last = Last::Nothing;
            self.timers.set(Timer::Agreement, self.after(INTERVAL));
        }
        // Requests that follow should be routed by the new schema, so it is not left to the usual delay.
        self.schema_begin();
        self.agreement_schema_read();
        if !missing {
            self.agreement_look();
        }
    }

    /// Takes note that a look failed; the next one may succeed.
    pub(super) fn agreement_read_failed(&mut self, cause: Option<NodeCause>) {
        if self.agreement.stop_looking() {
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
            self.agreement.stop_looking();
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
