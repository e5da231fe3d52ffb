//! What arrives at the ends of connections: first packets, bytes, ends and resets.
//! What the client's end does with them is the parent's matter.

use std::io;
use std::net::SocketAddr;

use super::{CLIENT, DIAL_AGAIN, LinkId, LinkState, NetEvent, Parcel, Path};
use crate::cluster::{ClusterOutput, ConnectionId};
use crate::node::NodeState;
use crate::sim::trace::hash_of;
use crate::sim::world::{Due, World};

impl World {
    pub(in crate::sim) fn handle_net(&mut self, event: NetEvent) {
        match event {
            NetEvent::Dial(id, tries) => self.arrive(id, tries),
            NetEvent::Dialled(id, result) => {
                if let Some(link) = self.net.links.get_mut(&id) {
                    link.dialled.get_or_insert(result);
                    link.wake();
                }
                self.mark("dialled", id.0, u64::from(result.is_ok()));
                self.bury(id);
            }
            NetEvent::Up(id, parcel) => self.rise(id, parcel),
            NetEvent::Down(id, parcel) => self.fall(id, parcel),
            NetEvent::Reset(id) => self.reset(id),
        }
    }

    /// The first packet of a connection reaches the node, or does not.
    fn arrive(&mut self, id: LinkId, tries: u32) {
        let Some(link) = self.net.links.get(&id) else {
            return;
        };
        let (node, to, kind) = (link.node, link.to, link.kind);
        if !link.held && link.server.is_none() {
            self.net.links.remove(&id);
            return;
        }
        let path = node.and_then(|node| self.net.paths.get(node)).cloned();
        let travel = self.net.travel(node);
        let lost = path.as_ref().map_or(self.net.void_swallows, |path| {
            path.clogged || path.swallowing || path.dark
        });
        if lost {
            let at = self.now + DIAL_AGAIN.saturating_mul(1 << tries.min(6));
            self.counts.add("first packets lost");
            self.plan(at, Due::Net(NetEvent::Dial(id, tries + 1)));
            return;
        }
        let moved = node
            .and_then(|node| self.cluster.address(node))
            .map(|own| own.ip())
            != Some(to.ip());
        let refusing = path.as_ref().is_none_or(|path| path.refusing) || moved;
        let peer = SocketAddr::new(CLIENT, self.seen_port(id, path.as_ref()));
        let accepted = match node {
            Some(node) if !refusing => self.cluster.accept(self.now, node, kind, peer),
            _ => None,
        };
        let at = self.now + travel;
        let result = match accepted {
            Some(server) => {
                self.net.by_server.insert(server, id);
                if let Some(link) = self.net.links.get_mut(&id) {
                    link.server = Some(server);
                    link.served = true;
                }
                Ok(())
            }
            None => {
                self.counts.add("connections refused");
                Err(io::ErrorKind::ConnectionRefused)
            }
        };
        self.plan(at, Due::Net(NetEvent::Dialled(id, result)));
        self.check_open(node);
    }

    fn seen_port(&mut self, id: LinkId, path: Option<&Path>) -> u16 {
        let link = self.net.links.get(&id);
        let (own, asked) = link.map_or((0, false), |link| (link.local_port, link.asked_port));
        if !path.is_some_and(|path| path.translated) {
            return own;
        }
        if asked {
            self.counts.add("source ports translated");
        }
        u16::try_from(1_024 + self.net.random.below(60_000)).unwrap_or(own)
    }

    fn clogged(&self, node: Option<usize>) -> bool {
        node.and_then(|node| self.net.paths.get(node))
            .is_some_and(|path| path.clogged || path.dark)
    }

    /// Something reaches the node.
    fn rise(&mut self, id: LinkId, parcel: Parcel) {
        let Some(node) = self.net.links.get(&id).map(|link| link.node) else {
            return;
        };
        let clogged = self.clogged(node);
        let Some(link) = self.net.links.get_mut(&id) else {
            return;
        };
        match link.state {
            LinkState::Silent => return,
            LinkState::Orphaned if clogged => return,
            LinkState::Orphaned => {
                let up = node.and_then(|node| self.cluster.state(node)) == Some(NodeState::Up);
                if up {
                    self.reset(id);
                }
                return;
            }
            LinkState::Open => {}
        }
        if clogged || !link.up.held.is_empty() {
            link.up.held.push_back(parcel);
            return;
        }
        self.deliver_up(id, parcel);
    }

    fn deliver_up(&mut self, id: LinkId, parcel: Parcel) {
        let Some(link) = self.net.links.get_mut(&id) else {
            return;
        };
        let server = link.server;
        match parcel {
            Parcel::Bytes(bytes) => {
                link.up.in_flight = link.up.in_flight.saturating_sub(bytes.len());
                if let Some(writer) = link.writer.take() {
                    writer.wake();
                }
                match server {
                    Some(server) => {
                        self.mark("arrived", id.0, hash_of(&bytes));
                        self.cluster.handle_received(self.now, server, &bytes);
                        self.drain_cluster();
                    }
                    None if link.dialled == Some(Ok(())) => {
                        // Nobody is there any more to take them, which the client hears after what was said before.
                        self.post_reset(id);
                    }
                    None => {}
                }
            }
            Parcel::End => {
                if let Some(server) = server {
                    self.cluster.handle_eof(self.now, server);
                    self.drain_cluster();
                }
                self.release(id);
                self.bury(id);
            }
        }
    }

    /// Something reaches the client.
    fn fall(&mut self, id: LinkId, parcel: Parcel) {
        let Some(node) = self.net.links.get(&id).map(|link| link.node) else {
            return;
        };
        let clogged = self.clogged(node);
        let Some(link) = self.net.links.get_mut(&id) else {
            return;
        };
        if link.state != LinkState::Open {
            return;
        }
        if clogged || !link.down.held.is_empty() {
            link.down.held.push_back(parcel);
            return;
        }
        self.deliver_down(id, parcel);
    }

    fn deliver_down(&mut self, id: LinkId, parcel: Parcel) {
        let Some(link) = self.net.links.get_mut(&id) else {
            return;
        };
        if !link.ended && link.error.is_none() {
            match parcel {
                Parcel::Bytes(bytes) => link.inbox.extend_from_slice(&bytes),
                Parcel::End => link.ended = true,
            }
            if let Some(reader) = link.reader.take() {
                reader.wake();
            }
        }
        self.bury(id);
    }

    /// Lets through what waited for the way to a node to be free.
    pub(in crate::sim) fn release_held(&mut self, node: usize) {
        let links = self.net.links.iter();
        let waiting: Vec<LinkId> = links
            .filter(|(_, link)| link.node == Some(node))
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            while let Some(parcel) = self
                .net
                .links
                .get_mut(&id)
                .and_then(|link| link.up.held.pop_front())
            {
                self.deliver_up(id, parcel);
            }
            while let Some(parcel) = self
                .net
                .links
                .get_mut(&id)
                .and_then(|link| link.down.held.pop_front())
            {
                self.deliver_down(id, parcel);
            }
        }
    }

    /// Does what the cluster asks for.
    pub(in crate::sim) fn drain_cluster(&mut self) {
        while let Some(output) = self.cluster.poll_output() {
            match output {
                ClusterOutput::Transmit(server) => self.send_down(server),
                ClusterOutput::Close(server) => {
                    self.send_down(server);
                    let Some(id) = self.net.by_server.get(&server).copied() else {
                        self.cluster.handle_closed(server);
                        continue;
                    };
                    self.post_down(id, Parcel::End);
                    self.release(id);
                    self.bury(id);
                }
                ClusterOutput::Listen(_) | ClusterOutput::Unlisten(_) => {}
            }
        }
    }

    /// Sends what a node has to say, in pieces.
    fn send_down(&mut self, server: ConnectionId) {
        let bytes = self.cluster.poll_transmit(server);
        let id = self.net.by_server.get(&server).copied();
        let (Some(mut bytes), Some(id)) = (bytes, id) else {
            return;
        };
        self.mark("answer", id.0, hash_of(&bytes));
        while 1 < bytes.len() && self.net.one_in(4) {
            let len = 1 + self.net.random.index(bytes.len() - 1);
            self.post_down(id, Parcel::Bytes(bytes.split_to(len)));
        }
        self.post_down(id, Parcel::Bytes(bytes));
    }

    fn post_reset(&mut self, id: LinkId) {
        let node = self.net.links.get(&id).and_then(|link| link.node);
        let travel = self.net.travel(node);
        if let Some(link) = self.net.links.get_mut(&id) {
            let at = link.down.arrival(self.now + travel);
            self.plan(at, Due::Net(NetEvent::Reset(id)));
        }
    }

    fn post_down(&mut self, id: LinkId, parcel: Parcel) {
        let node = self.net.links.get(&id).and_then(|link| link.node);
        let travel = self.net.travel(node);
        if let Some(link) = self.net.links.get_mut(&id) {
            let at = link.down.arrival(self.now + travel);
            self.plan(at, Due::Net(NetEvent::Down(id, parcel)));
        }
    }
}
