//! The network between the client and the nodes: connections with latency, cuts, resets, silence and backlogs.
//! What is done to it and when is the matter of `faults`; what the bytes mean is nobody's here.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use messina_core::conn::{Address, ConnectSpec};
use messina_core::seed::Random;

use super::trace::hash_of;
use super::world::{Due, World};
use crate::cluster::ConnectionId;
use crate::node::{NodeState, PortKind};

/// The name of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkId(pub(super) u64);

/// All connections and the ways to the nodes.
pub(super) struct Net {
    pub(super) random: Random,
    pub(super) links: BTreeMap<LinkId, Link>,
    pub(super) paths: Vec<Path>,
    /// How many of a hundred source ports are taken by others.
    pub(super) busy_percent: u64,
    /// The same when nothing is wrong.
    pub(super) busy_for_good: u64,
    /// Whether addresses that no node has swallow packets instead of refusing them.
    pub(super) void_swallows: bool,
    by_server: BTreeMap<ConnectionId, LinkId>,
    next: u64,
    ephemeral: u16,
}

/// The way to one node.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// The shortest time one way.
    pub(super) latency: Duration,
    /// What comes on top at most.
    pub(super) jitter: Duration,
    /// Nothing gets through for now, and nothing is lost.
    pub(super) clogged: bool,
    /// New connections are refused although the node runs.
    pub(super) refusing: bool,
    /// New connections get no answer.
    pub(super) swallowing: bool,
    /// Source ports are rewritten on the way.
    pub(super) translated: bool,
    /// The same from the start to the end of the run.
    pub(super) translated_for_good: bool,
    /// The node lost its power: it does not even refuse.
    pub(super) dark: bool,
}

/// One connection.
pub(super) struct Link {
    pub(super) node: Option<usize>,
    pub(super) state: LinkState,
    kind: PortKind,
    to: SocketAddr,
    local_port: u16,
    asked_port: bool,
    up: Pipe,
    down: Pipe,
    server: Option<ConnectionId>,
    /// Whether the node still has its end.
    served: bool,
    /// Whether the client still has its end.
    pub(super) held: bool,
    dialled: Option<Result<(), io::ErrorKind>>,
    dialling: Option<Waker>,
    inbox: BytesMut,
    ended: bool,
    error: Option<io::ErrorKind>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// What becomes of the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    /// They arrive.
    Open,
    /// They vanish, and neither end is told.
    Silent,
    /// The node is gone without a word and will not know the connection when it is back.
    Orphaned,
}

/// One direction of a connection.
struct Pipe {
    /// When the last bytes that were sent arrive; later ones arrive later.
    last: Instant,
    /// What waits for the way to be free again.
    held: VecDeque<Parcel>,
    in_flight: usize,
}

/// Something on its way.
#[derive(Clone, Debug)]
pub(super) enum Parcel {
    Bytes(Bytes),
    End,
}

/// Something that arrives.
#[derive(Debug)]
pub(super) enum NetEvent {
    Dial(LinkId, u32),
    Dialled(LinkId, Result<(), io::ErrorKind>),
    Up(LinkId, Parcel),
    Down(LinkId, Parcel),
    Reset(LinkId),
}

/// How many bytes may be on their way to a node on one connection.
const WINDOW: usize = 16 * 1024;
/// After how long a lost first packet is sent again.
const DIAL_AGAIN: Duration = Duration::from_secs(1);
/// Ports that the system gives to connections that ask for none.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=49_151;
/// Whom the nodes see.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

impl Net {
    pub(super) fn new(random: Random, _now: Instant, nodes: usize) -> Self {
        let mut net = Self {
            random,
            links: BTreeMap::new(),
            paths: Vec::new(),
            busy_percent: 0,
            busy_for_good: 0,
            void_swallows: false,
            by_server: BTreeMap::new(),
            next: 0,
            ephemeral: *EPHEMERAL.start(),
        };
        for _ in 0..nodes {
            net.add_path();
        }
        net
    }

    pub(super) fn add_path(&mut self) {
        let latency = Duration::from_micros(100 + self.random.below(3_000));
        let jitter = Duration::from_micros(self.random.below(2_000));
        self.paths.push(Path {
            latency,
            jitter,
            clogged: false,
            refusing: false,
            swallowing: false,
            translated: false,
            translated_for_good: false,
            dark: false,
        });
    }

    /// How long something takes to or from a node.
    fn travel(&mut self, node: Option<usize>) -> Duration {
        let path = node.and_then(|node| self.paths.get(node));
        let (latency, jitter) = path.map_or((Duration::from_millis(1), Duration::ZERO), |path| {
            (path.latency, path.jitter)
        });
        let jitter = u64::try_from(jitter.as_nanos()).unwrap_or(u64::MAX);
        latency + Duration::from_nanos(self.random.below(jitter + 1))
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.random.below(chances) == 0
    }

    /// The connections to a node whose client still holds them.
    pub(super) fn held_links(&self, node: usize) -> Vec<LinkId> {
        let links = self.links.iter();
        links
            .filter(|(_, link)| link.node == Some(node) && link.held)
            .map(|(id, _)| *id)
            .collect()
    }

    /// How many connections the client is opening, and how many it has open.
    pub(super) fn held_by_stage(&self, node: Option<usize>) -> (usize, usize) {
        let held = || {
            let links = self.links.values();
            links.filter(move |link| link.held && (node.is_none() || link.node == node))
        };
        let opening = held().filter(|link| link.dialled.is_none()).count();
        (opening, held().count() - opening)
    }

    /// How many connections to a node are open that chose no source port.
    pub(super) fn unchosen(&self, node: usize) -> usize {
        let links = self.links.values();
        links
            .filter(|link| link.node == Some(node) && link.held && !link.asked_port)
            .count()
    }

    fn free_port(&mut self) -> u16 {
        loop {
            let port = self.ephemeral;
            self.ephemeral = match EPHEMERAL.end().checked_sub(port) {
                Some(0) | None => *EPHEMERAL.start(),
                Some(_) => port + 1,
            };
            if !self.links.values().any(|link| link.local_port == port) {
                return port;
            }
        }
    }

    fn is_busy(&self, port: u16, to: SocketAddr) -> bool {
        let foreign = hash_of(&port.to_be_bytes()) % 100 < self.busy_percent;
        let own = self.links.values();
        foreign
            || own
                .filter(|link| link.held)
                .any(|link| link.local_port == port && link.to == to)
    }
}

impl Pipe {
    fn new(now: Instant) -> Self {
        Self {
            last: now,
            held: VecDeque::new(),
            in_flight: 0,
        }
    }

    /// When something arrives that is sent now and takes this long.
    fn arrival(&mut self, at: Instant) -> Instant {
        self.last = at.max(self.last);
        self.last
    }
}

impl Link {
    fn wake(&mut self) {
        for waker in [&mut self.dialling, &mut self.reader, &mut self.writer] {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }

    fn fail(&mut self, kind: io::ErrorKind) {
        match self.dialled {
            None => self.dialled = Some(Err(kind)),
            Some(_) => self.error = self.error.or(Some(kind)),
        }
        self.wake();
    }
}

impl World {
    /// Starts to open a connection.
    pub(super) fn dial(&mut self, spec: &ConnectSpec) -> io::Result<LinkId> {
        let Address::Tcp(to) = spec.address else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        if let Some(port) = spec.source_port
            && self.net.is_busy(port, to)
        {
            self.counts.add("source ports busy");
            self.mark("busy", u64::from(port), 0);
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let local_port = match spec.source_port {
            Some(port) => port,
            None => self.net.free_port(),
        };
        let id = LinkId(self.net.next);
        self.net.next += 1;
        let node = self.node_at(to);
        let kind = match self.cluster.port(PortKind::ShardAware) {
            Some(port) if port == to.port() => PortKind::ShardAware,
            _ => PortKind::Normal,
        };
        let link = Link {
            node,
            state: LinkState::Open,
            kind,
            to,
            local_port,
            asked_port: spec.source_port.is_some(),
            up: Pipe::new(self.now),
            down: Pipe::new(self.now),
            server: None,
            served: false,
            held: true,
            dialled: None,
            dialling: None,
            inbox: BytesMut::new(),
            ended: false,
            error: None,
            reader: None,
            writer: None,
        };
        self.net.links.insert(id, link);
        self.counts.add("connections dialled");
        self.mark("dial", id.0, hash_of(to.to_string().as_bytes()));
        // Not at once: whoever gives up an attempt for another one lets go of it a moment later.
        let look = self.now + Duration::from_millis(1);
        self.plan(look, Due::Look(node));
        let at = self.now + self.net.travel(node);
        self.plan(at, Due::Net(NetEvent::Dial(id, 0)));
        Ok(id)
    }

    fn node_at(&self, to: SocketAddr) -> Option<usize> {
        let ports = [
            self.cluster.port(PortKind::Normal),
            self.cluster.port(PortKind::ShardAware),
        ];
        (0..self.cluster.node_count())
            .filter(|_| ports.contains(&Some(to.port())))
            .find(|node| {
                self.cluster.state(*node) != Some(NodeState::Removed)
                    && self.cluster.address(*node).map(|own| own.ip()) == Some(to.ip())
            })
    }

    pub(super) fn poll_dialled(&mut self, id: LinkId, waker: &Waker) -> Poll<io::Result<()>> {
        let Some(link) = self.net.links.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        match link.dialled {
            Some(result) => Poll::Ready(result.map_err(io::Error::from)),
            None => {
                link.dialling = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    pub(super) fn poll_read(
        &mut self,
        id: LinkId,
        waker: &Waker,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let short = self.net.one_in(8);
        let cut = self.net.random.next_u64();
        let Some(link) = self.net.links.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if !link.inbox.is_empty() {
            let mut len = buf.len().min(link.inbox.len());
            if short && 1 < len {
                len = 1 + usize::try_from(cut % 1_000_000).unwrap_or(0) % len;
            }
            let (taken, _) = buf.split_at_mut(len);
            link.inbox.copy_to_slice(taken);
            return Poll::Ready(Ok(len));
        }
        if let Some(kind) = link.error {
            return Poll::Ready(Err(kind.into()));
        }
        if link.ended {
            return Poll::Ready(Ok(0));
        }
        link.reader = Some(waker.clone());
        Poll::Pending
    }

    pub(super) fn poll_write(
        &mut self,
        id: LinkId,
        waker: &Waker,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let short = self.net.one_in(8);
        let cut = self.net.random.next_u64();
        let node = self.net.links.get(&id).and_then(|link| link.node);
        let travel = self.net.travel(node);
        let Some(link) = self.net.links.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if let Some(kind) = link.error {
            return Poll::Ready(Err(kind.into()));
        }
        let room = WINDOW.saturating_sub(link.up.in_flight);
        if room == 0 && !buf.is_empty() {
            link.writer = Some(waker.clone());
            self.counts.add("writes that had to wait");
            return Poll::Pending;
        }
        let mut len = buf.len().min(room);
        if short && 1 < len {
            len = 1 + usize::try_from(cut % 1_000_000).unwrap_or(0) % len;
        }
        let (taken, _) = buf.split_at(len);
        link.up.in_flight += len;
        let at = link.up.arrival(self.now + travel);
        let parcel = Parcel::Bytes(Bytes::copy_from_slice(taken));
        self.mark("write", id.0, hash_of(taken));
        self.plan(at, Due::Net(NetEvent::Up(id, parcel)));
        Poll::Ready(Ok(len))
    }

    /// The client lets go of its end.
    pub(super) fn hang_up(&mut self, id: LinkId) {
        let Some(link) = self.net.links.get_mut(&id) else {
            return;
        };
        if !std::mem::replace(&mut link.held, false) {
            return;
        }
        let (node, state) = (link.node, link.state);
        self.mark("hang up", id.0, 0);
        match state {
            LinkState::Open => {
                let travel = self.net.travel(node);
                if let Some(link) = self.net.links.get_mut(&id) {
                    let at = link.up.arrival(self.now + travel);
                    self.plan(at, Due::Net(NetEvent::Up(id, Parcel::End)));
                }
            }
            // The node finds out by itself, which is nobody's concern here.
            LinkState::Silent | LinkState::Orphaned => self.release(id),
        }
        self.bury(id);
    }

    /// Forgets a connection that neither end holds.
    fn bury(&mut self, id: LinkId) {
        let done = self
            .net
            .links
            .get(&id)
            .is_some_and(|link| !link.held && !link.served && link.dialled.is_some());
        if done {
            self.net.links.remove(&id);
        }
    }

    /// The node's end is gone.
    fn release(&mut self, id: LinkId) {
        let Some(link) = self.net.links.get_mut(&id) else {
            return;
        };
        link.served = false;
        link.dialled.get_or_insert(Err(io::ErrorKind::TimedOut));
        if let Some(server) = link.server.take() {
            self.net.by_server.remove(&server);
            self.cluster.handle_closed(server);
        }
    }

    /// Ends a connection at both ends at once.
    pub(super) fn reset(&mut self, id: LinkId) {
        self.release(id);
        if let Some(link) = self.net.links.get_mut(&id) {
            link.fail(io::ErrorKind::ConnectionReset);
        }
        self.bury(id);
    }

    /// Lets the node's end hang up while bytes are on their way, of which the later ones are lost.
    pub(super) fn cut(&mut self, id: LinkId) {
        self.release(id);
        let at = self.now;
        self.plan(at, Due::Net(NetEvent::Down(id, Parcel::End)));
    }

    /// From now on the bytes of a connection vanish.
    pub(super) fn silence(&mut self, id: LinkId) {
        if let Some(link) = self.net.links.get_mut(&id) {
            link.state = LinkState::Silent;
        }
    }

    /// The node of a connection lost its power.
    pub(super) fn orphan(&mut self, id: LinkId) {
        if let Some(link) = self.net.links.get_mut(&id) {
            link.state = LinkState::Orphaned;
        }
        self.release(id);
        self.bury(id);
    }
}

mod delivery;
