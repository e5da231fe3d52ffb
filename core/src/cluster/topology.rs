//! Owns the members of the cluster: how rows of the system tables become hosts with stable indexes.
//! Connections to them belong to the pools.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use uuid::Uuid;

use super::fetch::{NodeRow, Tokens};
use crate::error::session::NodeCause;
use crate::routing::{Host, HostIdx, HostState, Partitioner, Token};

/// One slot of the session's host table.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) host: Host,
    /// The address between nodes, which events name.
    pub(super) broadcast: Option<IpAddr>,
    /// An address that has led to this host although the host names another one, for instance through a NAT.
    pub(super) reached: Option<SocketAddr>,
    pub(super) tokens: Arc<[Token]>,
}

/// A node as the system tables of one moment show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) id: Uuid,
    pub(super) address: SocketAddr,
    pub(super) broadcast: Option<IpAddr>,
    pub(super) datacenter: Option<Arc<str>>,
    pub(super) rack: Option<Arc<str>>,
    pub(super) release_version: Option<Arc<str>>,
    pub(super) tokens: Arc<[Token]>,
}

/// What one complete read of the members brought.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    /// The nodes, the one that was asked first.
    pub(super) found: Vec<Found>,
    /// Ids of rows that cannot be used; hosts with these ids keep what was known of them.
    pub(super) damaged: Vec<Uuid>,
    /// What is wrong with rows that were skipped.
    pub(super) skipped: Vec<&'static str>,
    /// The class of the cluster's partitioner.
    pub(super) partitioner: Option<Arc<str>>,
    /// Whether its tokens are those we order and compute.
    ordered: bool,
}

impl Survey {
    /// Judges the rows that the node at `connected` gave.
    ///
    /// `told` is the node's id as the handshake told it; `current` gives the address of a host that is known already.
    pub(super) fn new(
        local: Option<NodeRow>,
        peers: Vec<NodeRow>,
        connected: SocketAddr,
        told: Option<Uuid>,
        current: impl Fn(Uuid) -> Option<SocketAddr>,
    ) -> Result<Self, NodeCause> {
        let missing = |what| NodeCause::Incomplete {
            table: "system.local",
            what,
        };
        let local = local.ok_or_else(|| missing("row"))?;
        let id = local.host_id.or(told).ok_or_else(|| missing("host_id"))?;
        let class = local.partitioner.as_deref();
        let ordered =
            class.is_none_or(|class| Partitioner::from_class_name(class) == Partitioner::Murmur3);
        let mut survey = Self {
            partitioner: local.partitioner.clone(),
            ordered,
            ..Self::default()
        };
        let candidates = [local.client, local.broadcast];
        let ip = candidates
            .into_iter()
            .flatten()
            .find(|ip| !ip.is_unspecified())
            .unwrap_or_else(|| connected.ip());
        let address = SocketAddr::new(ip, local.port.unwrap_or_else(|| connected.port()));
        let node = survey.node(id, address, local);
        survey.found.push(node);
        survey.add_peers(id, peers, connected.port(), current);
        Ok(survey)
    }

    fn add_peers(
        &mut self,
        local: Uuid,
        peers: Vec<NodeRow>,
        port: u16,
        current: impl Fn(Uuid) -> Option<SocketAddr>,
    ) {
        let mut chosen: BTreeMap<Uuid, (SocketAddr, NodeRow)> = BTreeMap::new();
        for peer in peers {
            let (id, address) = match usable(&peer, port, self.ordered) {
                // A node that lists itself among its peers is no second node.
                Ok((id, _)) if id == local => continue,
                Ok(usable) => usable,
                Err(why) => {
                    self.skipped.push(why);
                    self.damaged.extend(peer.host_id);
                    continue;
                }
            };
            let Some((other, _)) = chosen.get(&id) else {
                chosen.insert(id, (address, peer));
                continue;
            };
            self.skipped.push("another row has the same host_id");
            // Whatever the order of the rows, the known address stays, and without one the lowest is taken.
            let known = current(id);
            let better = known == Some(address) || (known != Some(*other) && address < *other);
            if better {
                chosen.insert(id, (address, peer));
            }
        }
        for (id, (address, peer)) in chosen {
            let node = self.node(id, address, peer);
            self.found.push(node);
        }
    }

    fn node(&mut self, id: Uuid, address: SocketAddr, row: NodeRow) -> Found {
        let tokens = match row.tokens {
            _ if !self.ordered => Arc::new([]),
            Tokens::Some(tokens) => tokens,
            Tokens::None | Tokens::Unreadable => Arc::new([]),
            Tokens::TooMany => {
                self.skipped
                    .push("there are too many tokens; the node is used without any");
                Arc::new([])
            }
        };
        Found {
            id,
            address,
            broadcast: row.broadcast,
            datacenter: row.datacenter,
            rack: row.rack,
            release_version: row.release_version,
            tokens,
        }
    }
}

/// Says who and where the node of a peers row is, or what is wrong with the row.
fn usable(row: &NodeRow, port: u16, ordered: bool) -> Result<(Uuid, SocketAddr), &'static str> {
    let id = row.host_id.ok_or("host_id is missing")?;
    let client = row.client.ok_or("the address for clients is missing")?;
    let ip = if client.is_unspecified() {
        // The node listens everywhere; the address other nodes use leads to it too.
        row.broadcast
            .filter(|ip| !ip.is_unspecified())
            .ok_or("the address for clients is a wildcard")?
    } else {
        client
    };
    if row.datacenter.is_none() {
        return Err("data_center is missing");
    }
    if row.rack.is_none() {
        return Err("rack is missing");
    }
    if ordered && row.tokens == Tokens::Unreadable {
        return Err("tokens are not numbers");
    }
    Ok((id, SocketAddr::new(ip, row.port.unwrap_or(port))))
}

/// The session's host table.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    pub(super) slots: Vec<Member>,
    by_id: BTreeMap<Uuid, HostIdx>,
}

/// What a survey changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) added: Vec<HostIdx>,
    pub(super) removed: Vec<HostIdx>,
    /// Hosts with another address, datacenter or rack.
    pub(super) changed: Vec<HostIdx>,
    /// Hosts with another address.
    pub(super) moved: Vec<HostIdx>,
    /// Whether the ring has to be built again.
    pub(super) ring: bool,
    /// Nodes that found no slot any more.
    pub(super) refused: usize,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Members {
    pub(super) fn get(&self, host: HostIdx) -> Option<&Member> {
        self.slots.get(host.at())
    }

    pub(super) fn get_mut(&mut self, host: HostIdx) -> Option<&mut Member> {
        self.slots.get_mut(host.at())
    }

    /// The slot of a host, whether it is a member now or was one.
    pub(super) fn find(&self, id: Uuid) -> Option<HostIdx> {
        self.by_id.get(&id).copied()
    }

    /// The current members.
    pub(super) fn current(&self) -> impl Iterator<Item = (HostIdx, &Member)> {
        let all = HostIdx::all().zip(&self.slots);
        all.filter(|(_, member)| member.host.state != HostState::Removed)
    }

    /// The current members with this address between nodes, or failing that for clients.
    pub(super) fn at_address(&self, ip: IpAddr) -> Option<HostIdx> {
        let by = |fits: &dyn Fn(&Member) -> bool| {
            self.current()
                .find(|(_, member)| fits(member))
                .map(|(idx, _)| idx)
        };
        by(&|member| member.broadcast == Some(ip))
            .or_else(|| by(&|member| member.host.address.ip() == ip))
    }

    /// Takes over a complete survey: whoever is neither found nor damaged has left.
    pub(super) fn apply(&mut self, survey: Survey) -> Changes {
        let mut changes = Changes::default();
        let mut seen = vec![false; self.slots.len()];
        for id in &survey.damaged {
            if let Some(idx) = self.find(*id)
                && let Some(seen) = seen.get_mut(idx.at())
            {
                *seen = true;
            }
        }
        for found in survey.found {
            match self.find(found.id) {
                Some(idx) => {
                    if let Some(seen) = seen.get_mut(idx.at()) {
                        *seen = true;
                    }
                    self.update(idx, found, &mut changes);
                }
                None => self.add(found, &mut changes),
            }
        }
        for ((idx, member), seen) in HostIdx::all().zip(&mut self.slots).zip(seen) {
            if seen || member.host.state == HostState::Removed {
                continue;
            }
            member.host.state = HostState::Removed;
            changes.ring |= !member.tokens.is_empty();
            member.tokens = Arc::new([]);
            member.reached = None;
            changes.removed.push(idx);
        }
        changes
    }

    fn add(&mut self, found: Found, changes: &mut Changes) {
        let Ok(idx) = u16::try_from(self.slots.len()).map(HostIdx) else {
            changes.refused += 1;
            return;
        };
        let mut host = Host::new(found.id, found.address);
        host.datacenter = found.datacenter;
        host.rack = found.rack;
        host.release_version = found.release_version;
        changes.ring |= !found.tokens.is_empty();
        changes.added.push(idx);
        self.by_id.insert(found.id, idx);
        self.slots.push(Member {
            host,
            broadcast: found.broadcast,
            reached: None,
            tokens: found.tokens,
        });
    }

    fn update(&mut self, idx: HostIdx, found: Found, changes: &mut Changes) {
        let Some(member) = self.slots.get_mut(idx.at()) else {
            return;
        };
        let host = &mut member.host;
        let place = host.datacenter != found.datacenter || host.rack != found.rack;
        let moved = host.address != found.address;
        if host.state == HostState::Removed {
            host.state = HostState::Unknown;
            changes.added.push(idx);
        } else if moved {
            changes.moved.push(idx);
        }
        if place || moved || host.release_version != found.release_version {
            changes.changed.push(idx);
        }
        changes.ring |= place || member.tokens != found.tokens;
        if moved {
            member.reached = None;
        }
        host.address = found.address;
        host.datacenter = found.datacenter;
        host.rack = found.rack;
        host.release_version = found.release_version;
        member.broadcast = found.broadcast;
        member.tokens = found.tokens;
    }

    /// All tokens of the current members.
    pub(super) fn ring_entries(&self) -> Vec<(Token, HostIdx)> {
        let tokens = |(idx, member): (HostIdx, &'_ Member)| {
            let tokens = Arc::clone(&member.tokens);
            (0..tokens.len()).filter_map(move |at| Some((*tokens.get(at)?, idx)))
        };
        self.current().flat_map(tokens).collect()
    }
}
