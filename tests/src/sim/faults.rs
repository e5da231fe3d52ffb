//! What goes wrong in a run: a plan made from the seed, and how each fault is inflicted and taken back.
//! How the network and the nodes behave meanwhile is theirs.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::PoisonError;
use std::time::Duration;

use messina_core::seed::Random;

use super::world::{Due, World};
use crate::node::NodeState;

pub(super) use super::answers::Answers;

/// One fault, or the end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A node stops in good order, and comes back after a while, perhaps changed.
    Stop(usize, Duration, Change),
    /// A node loses its power: its connections are not even closed.
    PowerLoss(usize, Duration, Change),
    Start(usize),
    /// Nothing gets through to a node for a while; nothing is lost.
    Clog(usize, Duration),
    Unclog(usize),
    /// The way to a node takes longer for a while.
    Slow(usize, Duration),
    Fast(usize),
    /// The connections to a node end with a reset; of several, each with an even chance.
    Reset(usize),
    /// The same, but in the middle of what is being sent.
    Cut(usize),
    /// The same, but their bytes vanish from now on and nobody is told.
    Silence(usize),
    /// A node refuses new connections for a while.
    Refuse(usize, Duration),
    Accept(usize),
    /// New connections to a node get no answer for a while.
    Swallow(usize, Duration),
    Hear(usize),
    /// Source ports are rewritten on the way to a node for a while.
    Translate(usize, Duration),
    Plain(usize),
    /// Other programs hold many source ports for a while.
    Busy(Duration),
    Free,
    /// The name of the cluster cannot be resolved for a while.
    NoNames(Duration),
    Names,
    /// A node answers late, not at all or with errors for a while.
    Sick(usize, Duration),
    Well(usize),
    /// A node forgets the statements it has prepared.
    Forget(usize),
    /// A node owns other tokens.
    Move(usize),
    /// A node joins the cluster.
    Join,
    /// A node that joined during the run leaves.
    Leave,
    /// Nodes are said to be up or down although they are not, many times over.
    Rumours,
    /// The schema changes behind the session's back.
    Schema,
    /// The end of all faults.
    Heal,
}

/// What is different about a node when it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    Address,
    Shards(u16),
}

/// What a plan needs to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) nodes: usize,
    pub(super) shards: u16,
    pub(super) chaos: Duration,
}

/// Makes a plan: faults with the time after the start of the chaos.
pub(super) fn plan(random: &mut Random, shape: Shape) -> Vec<(Duration, Fault)> {
    let count = 4 + random.below(24);
    let mut plan: Vec<(Duration, Fault)> = (0..count)
        .map(|_| {
            let at = part(random, shape.chaos);
            (at, draw(random, shape))
        })
        .collect();
    plan.sort_by_key(|(at, _)| *at);
    plan.push((shape.chaos, Fault::Heal));
    plan
}

fn part(random: &mut Random, whole: Duration) -> Duration {
    let micros = u64::try_from(whole.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(random.below(micros))
}

fn draw(random: &mut Random, shape: Shape) -> Fault {
    let node = random.index(shape.nodes);
    let short = Duration::from_millis(50 + random.below(3_000));
    let long = Duration::from_millis(500 + random.below(9_500));
    let change = match random.below(4) {
        0 => Change::Address,
        1 if 0 < shape.shards => Change::Shards(u16::try_from(1 + random.below(5)).unwrap_or(1)),
        _ => Change::Nothing,
    };
    match random.below(24) {
        0..=2 => Fault::Stop(node, long, change),
        3..=4 => Fault::PowerLoss(node, long, change),
        5 => Fault::Clog(node, long),
        6 => Fault::Slow(node, long),
        7 => Fault::Reset(node),
        8 => Fault::Cut(node),
        9 => Fault::Silence(node),
        10 => Fault::Refuse(node, short),
        11 => Fault::Swallow(node, long),
        12 => Fault::Translate(node, long),
        13 => Fault::Busy(long),
        14 => Fault::NoNames(long),
        15..=17 => Fault::Sick(node, long),
        18 => Fault::Forget(node),
        19 => Fault::Move(node),
        20 => Fault::Join,
        21 => Fault::Leave,
        22 => Fault::Rumours,
        _ => Fault::Schema,
    }
}

impl Fault {
    /// The name under which it is counted; none of the ends.
    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Stop(_, _, Change::Nothing) => "fault: stop",
            Self::Stop(_, _, Change::Address) | Self::PowerLoss(_, _, Change::Address) => {
                "fault: another address"
            }
            Self::Stop(_, _, Change::Shards(_)) | Self::PowerLoss(_, _, Change::Shards(_)) => {
                "fault: other shards"
            }
            Self::PowerLoss(_, _, Change::Nothing) => "fault: power loss",
            Self::Clog(..) => "fault: clog",
            Self::Slow(..) => "fault: slow",
            Self::Reset(_) => "fault: reset",
            Self::Cut(_) => "fault: cut",
            Self::Silence(_) => "fault: silence",
            Self::Refuse(..) => "fault: refuse",
            Self::Swallow(..) => "fault: swallow",
            Self::Translate(..) => "fault: translate",
            Self::Busy(_) => "fault: busy ports",
            Self::NoNames(_) => "fault: no names",
            Self::Sick(..) => "fault: sick",
            Self::Forget(_) => "fault: forget",
            Self::Move(_) => "fault: other tokens",
            Self::Join => "fault: join",
            Self::Leave => "fault: leave",
            Self::Rumours => "fault: rumours",
            Self::Schema => "fault: schema",
            _ => return None,
        })
    }
}

impl World {
    /// Lets a fault happen, or end.
    pub(super) fn inflict(&mut self, fault: Fault) {
        let at = self.elapsed();
        self.trace.say(at, &format!("{fault:?}"));
        let happened = match fault {
            Fault::Stop(node, time, change) => self.stop(node, time, change, false),
            Fault::PowerLoss(node, time, change) => self.stop(node, time, change, true),
            Fault::Start(node) => self.start(node),
            Fault::Reset(node) => self.each_link(node, Self::reset),
            Fault::Cut(node) => self.each_link(node, Self::cut),
            Fault::Silence(node) => self.each_link(node, Self::silence),
            Fault::Busy(time) => {
                self.net.busy_percent = 20 + self.random.below(75);
                self.later(time, Fault::Free);
                true
            }
            Fault::Free => {
                self.net.busy_percent = self.net.busy_for_good;
                true
            }
            Fault::NoNames(time) => {
                self.names.values_mut().for_each(|name| name.broken = true);
                self.later(time, Fault::Names);
                true
            }
            Fault::Names => {
                self.names.values_mut().for_each(|name| name.broken = false);
                true
            }
            Fault::Sick(node, time) => {
                self.answers(|answers| answers.fall_ill(node));
                self.later(time, Fault::Well(node));
                true
            }
            Fault::Well(node) => {
                self.answers(|answers| answers.recover(node));
                true
            }
            Fault::Forget(node) => {
                let some = 0 < self.cluster.prepared_count(node);
                self.cluster.forget_prepared_statements(node);
                some
            }
            Fault::Move(node) => self.move_tokens(node),
            Fault::Join => self.join(),
            Fault::Leave => self.leave(),
            Fault::Rumours => self.rumours(),
            Fault::Schema => self.change_schema(),
            Fault::Heal => {
                self.heal();
                true
            }
            _ => self.change_path(fault),
        };
        self.drain_cluster();
        if happened && let Some(name) = fault.name() {
            self.counts.add(name);
        }
    }

    fn answers(&self, change: impl FnOnce(&mut Answers)) {
        change(&mut self.answers.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn later(&mut self, time: Duration, fault: Fault) {
        let at = self.now + time;
        self.plan(at, Due::Fault(fault));
    }

    fn each_link(&mut self, node: usize, act: fn(&mut Self, super::net::LinkId)) -> bool {
        let links = self.net.held_links(node);
        let all = self.random.below(2) == 0;
        let mut some = false;
        for link in links {
            if all || self.random.below(2) == 0 {
                act(self, link);
                some = true;
            }
        }
        some
    }

    /// Changes the way to a node.
    fn change_path(&mut self, fault: Fault) -> bool {
        let (Fault::Clog(node, _)
        | Fault::Unclog(node)
        | Fault::Slow(node, _)
        | Fault::Fast(node)
        | Fault::Refuse(node, _)
        | Fault::Accept(node)
        | Fault::Swallow(node, _)
        | Fault::Hear(node)
        | Fault::Translate(node, _)
        | Fault::Plain(node)) = fault
        else {
            return false;
        };
        let Some(path) = self.net.paths.get_mut(node) else {
            return false;
        };
        let end = match fault {
            Fault::Clog(_, time) => {
                path.clogged = true;
                Some((time, Fault::Unclog(node)))
            }
            Fault::Slow(_, time) => {
                path.jitter += Duration::from_millis(200);
                Some((time, Fault::Fast(node)))
            }
            Fault::Fast(_) => {
                path.jitter = path.jitter.saturating_sub(Duration::from_millis(200));
                None
            }
            Fault::Refuse(_, time) => {
                path.refusing = true;
                Some((time, Fault::Accept(node)))
            }
            Fault::Accept(_) => {
                path.refusing = false;
                None
            }
            Fault::Swallow(_, time) => {
                path.swallowing = true;
                Some((time, Fault::Hear(node)))
            }
            Fault::Hear(_) => {
                path.swallowing = false;
                None
            }
            Fault::Translate(_, time) => {
                path.translated = true;
                Some((time, Fault::Plain(node)))
            }
            Fault::Plain(_) => {
                path.translated = false;
                None
            }
            _ => {
                path.clogged = false;
                None
            }
        };
        if fault == Fault::Unclog(node) {
            self.release_held(node);
        }
        if let Some((time, end)) = end {
            self.later(time, end);
        }
        true
    }

    fn stop(&mut self, node: usize, time: Duration, change: Change, dark: bool) -> bool {
        if self.cluster.state(node) != Some(NodeState::Up) {
            return false;
        }
        if dark {
            for link in self.net.held_links(node) {
                self.orphan(link);
            }
            if let Some(path) = self.net.paths.get_mut(node) {
                path.dark = true;
            }
        }
        self.cluster.stop_node(node);
        self.drain_cluster();
        match change {
            Change::Nothing => {}
            // Whoever knows the cluster by addresses alone needs one that stays.
            Change::Address if node == 0 && !self.known_by_name => {}
            Change::Address => {
                let ip = self.fresh_ip();
                self.cluster.set_address(node, ip);
            }
            Change::Shards(shards) => self.cluster.set_shards(node, shards),
        }
        self.later(time, Fault::Start(node));
        true
    }

    fn fresh_ip(&mut self) -> IpAddr {
        let count = self.counts.of("addresses given") + 1;
        self.counts.add("addresses given");
        let low = u8::try_from(count % 250).unwrap_or(0) + 1;
        let high = u8::try_from(count / 250).unwrap_or(0);
        IpAddr::V4(Ipv4Addr::new(127, 1, high, low))
    }

    fn start(&mut self, node: usize) -> bool {
        if let Some(path) = self.net.paths.get_mut(node) {
            path.dark = false;
        }
        self.cluster.start_node(node);
        true
    }

    fn move_tokens(&mut self, node: usize) -> bool {
        if self.cluster.state(node) == Some(NodeState::Removed) {
            return false;
        }
        let count = 1 + self.random.index(8);
        let tokens = (0..count)
            .map(|_| self.random.next_u64().cast_signed().max(i64::MIN + 1))
            .collect();
        self.cluster.set_tokens(node, tokens);
        // A node says nothing about itself: whoever listens to this one has to lose it to notice.
        for link in self.net.held_links(node) {
            self.reset(link);
        }
        true
    }

    fn join(&mut self) -> bool {
        if JOINED_MAX <= self.counts.of("fault: join") {
            return false;
        }
        self.cluster.add_node("dc1", "rack1");
        self.net.add_path();
        true
    }

    fn leave(&mut self) -> bool {
        let founders = usize::try_from(self.counts.of("founders")).unwrap_or(0);
        let joined = (founders..self.cluster.node_count())
            .find(|node| self.cluster.state(*node) != Some(NodeState::Removed));
        let Some(node) = joined else { return false };
        self.cluster.remove_node(node);
        true
    }

    fn rumours(&mut self) -> bool {
        for _ in 0..20 {
            let node = self.random.index(self.cluster.node_count());
            let up = self.random.below(2) == 0;
            self.cluster.announce_status(node, up);
        }
        true
    }

    fn change_schema(&mut self) -> bool {
        let number = self.counts.of("fault: schema");
        let text = format!("CREATE TABLE sim.extra{number} (k int PRIMARY KEY, v text)");
        self.cluster.execute(self.now, &text).is_ok()
    }

    /// Ends every fault.
    fn heal(&mut self) {
        self.net.busy_percent = self.net.busy_for_good;
        self.names.values_mut().for_each(|name| name.broken = false);
        for node in 0..self.cluster.node_count() {
            self.answers(|answers| answers.recover(node));
            if let Some(path) = self.net.paths.get_mut(node) {
                let (latency, jitter) = (path.latency, path.jitter);
                *path = super::net::Path {
                    latency,
                    jitter: jitter.min(Duration::from_millis(2)),
                    clogged: false,
                    refusing: false,
                    swallowing: false,
                    translated: path.translated && path.translated_for_good,
                    translated_for_good: path.translated_for_good,
                    dark: false,
                };
            }
            if self.cluster.state(node) == Some(NodeState::Down) {
                self.cluster.start_node(node);
            }
            self.release_held(node);
        }
        self.drop_later_faults();
    }
}

/// More nodes do not join in one run.
const JOINED_MAX: u64 = 3;
