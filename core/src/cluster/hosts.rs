//! Owns what follows from a complete read of the members: hosts, the local datacenter, the ring, the pools.
//! When members are read is the refreshes' business.

use std::net::SocketAddr;
use std::sync::Arc;

use super::ControlPlane;
use super::refresh::{NodesRead, Part, SKIPPED_NOTES_MAX};
use super::session::Link;
use super::timers::Timer;
use super::topology::{Changes, Member, Survey};
use crate::config::session::ReadinessRule;
use crate::conn::Address;
use crate::error::session::{ConfigError, NodeCause, SessionErrorKind};
use crate::notify::{ClusterEvent, Note};
use crate::policy::load_balancing::as_default;
use crate::routing::{HostIdx, Partitioner};

impl<H: Clone> ControlPlane<H> {
    pub(super) fn topology_read(&mut self, nodes: NodesRead) {
        let name = nodes
            .local
            .as_ref()
            .and_then(|local| local.cluster_name.clone());
        if let Some(cause) = self.other_cluster(name.as_ref()) {
            return self.link_unusable(cause);
        }
        let Some(link) = self.link() else { return };
        let told = link.info.host_id;
        let connected = match &link.info.address {
            Address::Tcp(address) => *address,
            Address::Unix(_) => link.candidate.address,
        };
        let members = &self.members;
        let current = |id| {
            members
                .find(id)
                .and_then(|idx| members.get(idx))
                .map(|member| member.host.address)
        };
        match Survey::new(nodes.local, nodes.peers, connected, told, current) {
            Ok(survey) => {
                self.cluster_name = name.or_else(|| self.cluster_name.take());
                self.topology_apply(survey, connected);
            }
            Err(cause) => self.read_failed(Part::Topology, cause),
        }
    }

    /// Says why a node cannot be one of ours: it belongs to another cluster than those that answered before.
    fn other_cluster(&mut self, name: Option<&Arc<str>>) -> Option<NodeCause> {
        let (name, expected) = (name?.clone(), self.cluster_name.clone()?);
        if name == expected {
            return None;
        }
        if let Some(link) = self.link() {
            let address = link.info.address.clone();
            self.note(Note::OtherCluster {
                address,
                name: Arc::clone(&name),
                expected: Arc::clone(&expected),
            });
        }
        Some(NodeCause::OtherCluster { name, expected })
    }

    fn topology_apply(&mut self, survey: Survey, connected: SocketAddr) {
        let table = "system.peers";
        for why in survey.skipped.iter().take(SKIPPED_NOTES_MAX) {
            self.note(Note::RowSkipped { table, why });
        }
        let local = survey.found.first().map(|found| found.id);
        let class = survey.partitioner.as_deref();
        let partitioner = class.map_or(Partitioner::Murmur3, Partitioner::from_class_name);
        if std::mem::replace(&mut self.partitioner, partitioner) != partitioner {
            self.schema_dirty_all();
        }
        let changes = self.members.apply(survey);
        let host = local.and_then(|id| self.members.find(id));
        let first = self.local_datacenter_known(host);
        self.local_rack_known(host, first);
        if first {
            self.remote_datacenters_looked_for();
        }
        let synced = self.link().is_some_and(Link::synced);
        self.remember_reached(host, connected);
        if let Some(link) = self.link_mut() {
            link.host = host;
            link.failures = 0;
        }
        if !synced {
            self.link_synced();
        }
        self.hosts_follow(&changes, first);
        if let Some(host) = host.filter(|_| !synced) {
            // Where the control connection got through, others may as well.
            self.hint_up(host);
        }
        if first
            && self.starting()
            && !(self.local_datacenter_exists() && self.some_host_is_wanted())
        {
            return;
        }
        if self.topology.dirty {
            // What came while the tables were read may be missing from them.
            self.timers.set_earlier(Timer::Topology, self.now);
        }
        self.finish_gap();
    }

    /// Keeps the address that led to a host which names another one, as behind a NAT.
    fn remember_reached(&mut self, host: Option<HostIdx>, connected: SocketAddr) {
        let by_contact_point = self
            .link()
            .is_some_and(|link| link.candidate.host.is_none());
        if !by_contact_point || self.config.address_translator.is_some() {
            return;
        }
        if let Some(member) = host.and_then(|host| self.members.get_mut(host))
            && member.host.address != connected
        {
            member.reached = Some(connected);
        }
    }

    /// Chooses the local datacenter once; says whether the members were read for the first time.
    fn local_datacenter_known(&mut self, host: Option<HostIdx>) -> bool {
        if std::mem::replace(&mut self.surveyed, true) {
            return false;
        }
        if self.local_datacenter.is_none() && self.config.inference.datacenter {
            let member = host.and_then(|host| self.members.get(host));
            self.local_datacenter = member.and_then(|member| member.host.datacenter.clone());
        }
        true
    }

    /// Chooses the local rack once, if it is to be taken from the cluster, and tells of a configured one that is empty.
    fn local_rack_known(&mut self, host: Option<HostIdx>, first: bool) {
        let datacenter = self.local_datacenter.clone();
        let place = |member: &Member| {
            let host = &member.host;
            (host.datacenter == datacenter).then(|| host.rack.clone())?
        };
        match &self.local_rack {
            None if self.config.inference.rack => {
                // A rack is a rack of its datacenter: that of a node elsewhere says nothing.
                self.local_rack = host.and_then(|host| place(self.members.get(host)?));
            }
            Some(name) if first => {
                let mut known: Vec<Arc<str>> = self
                    .members
                    .current()
                    .filter_map(|(_, member)| place(member))
                    .collect();
                known.sort();
                known.dedup();
                if !known.is_empty() && !known.contains(name) {
                    let name = Arc::clone(name);
                    self.note(Note::LocalRackMissing { name, known });
                }
            }
            _ => (),
        }
    }

    /// Checks that somebody may be connected to; otherwise the start would wait for nothing.
    fn some_host_is_wanted(&mut self) -> bool {
        let all = self.members.current();
        let (mut hosts, mut filtered) = (0, 0);
        for (idx, member) in all {
            if self.wants(idx) || self.config.ready == ReadinessRule::ControlConnection {
                return true;
            }
            hosts += 1;
            filtered += usize::from(!member.host.allowed);
        }
        let error = ConfigError::NoHostAllowed { hosts, filtered };
        self.fatal(SessionErrorKind::Config(error), Vec::new());
        false
    }

    /// The names of the datacenters that members are in.
    fn datacenters(&self) -> Vec<Arc<str>> {
        let members = self.members.current();
        let mut known: Vec<Arc<str>> = members
            .filter_map(|(_, member)| member.host.datacenter.clone())
            .collect();
        known.sort();
        known.dedup();
        known
    }

    /// Tells of datacenters that are named for failover and do not exist.
    fn remote_datacenters_looked_for(&mut self) {
        let policy = Arc::clone(&self.policy);
        let Some(policy) = as_default(&*policy) else {
            return;
        };
        let known = self.datacenters();
        let named = policy.remote_datacenters.iter().flatten();
        for name in named.filter(|name| policy.datacenter_failover && !known.contains(name)) {
            let (name, known) = (Arc::clone(name), known.clone());
            self.note(Note::RemoteDatacenterMissing { name, known });
        }
    }

    /// Checks that somebody is in the configured datacenter; otherwise no request could ever be sent.
    fn local_datacenter_exists(&mut self) -> bool {
        let Some(name) = self.config.local_datacenter.clone() else {
            return true;
        };
        let known = self.datacenters();
        if known.contains(&name) {
            return true;
        }
        if self.policy.reaches_remote_datacenters() {
            self.note(Note::LocalDatacenterMissing { name, known });
            return true;
        }
        self.fatal(
            SessionErrorKind::Config(ConfigError::LocalDatacenter { name, known }),
            Vec::new(),
        );
        false
    }

    /// Brings everything that depends on the members in line with them.
    fn hosts_follow(&mut self, changes: &Changes, first: bool) {
        if 0 < changes.refused {
            self.note(Note::HostsRefused {
                count: changes.refused,
            });
        }
        let mut seen_anew = first || !changes.is_empty();
        for member in &mut self.members.slots {
            let host = &mut member.host;
            let before = (host.local, host.local_rack, host.allowed);
            host.local = match &self.local_datacenter {
                Some(name) => host.datacenter.as_ref() == Some(name),
                None => true,
            };
            host.local_rack =
                host.local && self.local_rack.is_some() && host.rack == self.local_rack;
            host.allowed = self
                .config
                .host_filter
                .as_ref()
                .is_none_or(|filter| filter.allows(host));
            seen_anew |= before != (host.local, host.local_rack, host.allowed);
        }
        // A read that finds everything as it was is no news for anybody who routes.
        self.changed.hosts |= seen_anew;
        self.changed.pools |= !changes.is_empty();
        self.changed.ring |= changes.ring || first;
        for idx in &changes.moved {
            self.pool_moved(*idx);
        }
        self.pools_follow_members();
        if first {
            return;
        }
        let name = |idx: &HostIdx| {
            let host = &self.members.get(*idx)?.host;
            Some((host.id, host.address))
        };
        let removed: Vec<_> = changes.removed.iter().filter_map(name).collect();
        let added: Vec<_> = changes.added.iter().filter_map(name).collect();
        for (host_id, address) in removed {
            self.notify(ClusterEvent::HostRemoved { host_id, address });
        }
        for (host_id, address) in added {
            self.notify(ClusterEvent::HostAdded { host_id, address });
        }
    }
}
