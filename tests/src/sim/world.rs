//! The world of one run: virtual time, what is due when, the network and the cluster behind one lock.
//! Tasks live in `executor`; what the network does with bytes is in `net`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use messina_core::seed::{Random, Seed};

use super::checks::Bounds;
use super::executor::Executor;
use super::faults::{Answers, Fault};
use super::net::{Net, NetEvent};
use super::trace::{Counts, Trace};
use crate::cluster::Cluster;

/// Everything that tasks share.
pub(super) struct Shared {
    world: Mutex<World>,
    pub(super) executor: Executor,
}

impl Shared {
    pub(super) fn new(world: World) -> Arc<Self> {
        let executor = Executor::new(world.seed.derive(1).random());
        Arc::new(Self {
            world: Mutex::new(world),
            executor,
        })
    }

    /// Locks the world. No user code runs and no task is dropped while it is locked.
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something that becomes due.
#[derive(Debug)]
pub(super) enum Due {
    Sleep(u64),
    Net(NetEvent),
    Fault(Fault),
    /// A look at how many connections open, to a node if it is known.
    Look(Option<usize>),
}

/// A timer of a task.
struct SleepState {
    at: Instant,
    key: Option<(Instant, u64)>,
    waker: Option<Waker>,
}

/// The state of the simulated world.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) start: Instant,
    pub(super) seed: Seed,
    pub(super) random: Random,
    pub(super) cluster: Cluster,
    pub(super) net: Net,
    pub(super) answers: Arc<Mutex<Answers>>,
    pub(super) names: BTreeMap<String, Name>,
    pub(super) trace: Trace,
    pub(super) counts: Counts,
    pub(super) violations: Vec<String>,
    pub(super) bounds: Bounds,
    /// Whether clients know the cluster by a name, which leads to wherever the nodes are.
    pub(super) known_by_name: bool,
    agenda: BTreeMap<(Instant, u64), Due>,
    sequence: u64,
    sleeps: BTreeMap<u64, SleepState>,
    entropy: Random,
}

/// What a host name leads to.
#[derive(Clone, Debug, Default)]
pub(super) struct Name {
    /// The nodes whose current addresses it stands for.
    pub(super) nodes: Vec<usize>,
    /// Whether the name cannot be resolved at the moment.
    pub(super) broken: bool,
}

/// The time of day at which all runs begin.
const BEGIN_MICROS: i64 = 1_700_000_000_000_000;
/// More violations than this say nothing new.
const VIOLATIONS_MAX: usize = 20;

impl World {
    pub(super) fn new(seed: Seed, config: crate::ClusterConfig, spoken: bool) -> Self {
        let now = Instant::now();
        let cluster = Cluster::new(now, BEGIN_MICROS, config);
        let nodes = cluster.node_count();
        Self {
            now,
            start: now,
            random: seed.derive(2).random(),
            net: Net::new(seed.derive(3).random(), now, nodes),
            answers: Arc::new(Mutex::new(Answers::new(seed.derive(4).random()))),
            entropy: seed.derive(5).random(),
            seed,
            cluster,
            names: BTreeMap::new(),
            trace: Trace::new(spoken),
            counts: Counts::default(),
            violations: Vec::new(),
            bounds: Bounds::default(),
            known_by_name: false,
            agenda: BTreeMap::new(),
            sequence: 0,
            sleeps: BTreeMap::new(),
        }
    }

    /// The virtual time that has passed.
    pub(super) fn elapsed(&self) -> Duration {
        self.now.saturating_duration_since(self.start)
    }

    pub(super) fn unix_micros(&self) -> i64 {
        BEGIN_MICROS.saturating_add(i64::try_from(self.elapsed().as_micros()).unwrap_or(i64::MAX))
    }

    pub(super) fn entropy(&mut self) -> Seed {
        self.entropy.seed()
    }

    pub(super) fn mark(&mut self, what: &str, one: u64, other: u64) {
        let at = self.elapsed();
        self.trace.add(at, what, one, other);
    }

    /// Reports a broken rule.
    pub(super) fn violate(&mut self, what: String) {
        let at = self.elapsed();
        self.trace.say(at, &what);
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations
                .push(format!("{what} (at {:.3} s)", at.as_secs_f64()));
        }
    }

    /// Puts something on the agenda.
    pub(super) fn plan(&mut self, at: Instant, due: Due) -> (Instant, u64) {
        self.sequence += 1;
        let key = (at.max(self.now), self.sequence);
        self.agenda.insert(key, due);
        key
    }

    /// Lets a little time pass while tasks run.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Moves to the next moment at which something is due; nothing when nothing ever will be.
    pub(super) fn skip(&mut self) -> Option<()> {
        let next = [
            self.agenda.first_key_value().map(|(key, _)| key.0),
            self.cluster.poll_timeout(),
        ];
        let next = next.into_iter().flatten().min()?;
        self.now = self.now.max(next);
        Some(())
    }

    /// Does everything that is due now.
    pub(super) fn fire(&mut self) {
        self.look_at_answers();
        if self.cluster.poll_timeout().is_some_and(|at| at <= self.now) {
            self.cluster.handle_timeout(self.now);
            self.drain_cluster();
        }
        while let Some(entry) = self.agenda.first_entry() {
            if self.now < entry.key().0 {
                break;
            }
            match entry.remove() {
                Due::Sleep(id) => self.ring(id),
                Due::Net(event) => self.handle_net(event),
                Due::Fault(fault) => self.inflict(fault),
                Due::Look(node) => self.check_opening(node),
            }
        }
    }

    fn ring(&mut self, id: u64) {
        self.mark("ring", id, 0);
        if let Some(sleep) = self.sleeps.get_mut(&id) {
            sleep.key = None;
            if let Some(waker) = sleep.waker.take() {
                waker.wake();
            }
        }
    }

    pub(super) fn new_sleep(&mut self, at: Instant) -> u64 {
        self.sequence += 1;
        let id = self.sequence;
        self.sleeps.insert(
            id,
            SleepState {
                at,
                key: None,
                waker: None,
            },
        );
        id
    }

    pub(super) fn poll_sleep(&mut self, id: u64, waker: &Waker) -> bool {
        let Some(sleep) = self.sleeps.get_mut(&id) else {
            return true;
        };
        let key = sleep.key.take();
        if sleep.at <= self.now {
            sleep.waker = None;
            if let Some(key) = key {
                self.agenda.remove(&key);
            }
            return true;
        }
        sleep.waker = Some(waker.clone());
        let at = sleep.at;
        let key = key.unwrap_or_else(|| self.plan(at, Due::Sleep(id)));
        if let Some(sleep) = self.sleeps.get_mut(&id) {
            sleep.key = Some(key);
        }
        false
    }

    pub(super) fn reset_sleep(&mut self, id: u64, at: Instant) {
        let Some(sleep) = self.sleeps.get_mut(&id) else {
            return;
        };
        sleep.at = at;
        let (key, armed) = (sleep.key.take(), sleep.waker.is_some());
        if let Some(key) = key {
            self.agenda.remove(&key);
        }
        if armed {
            let key = self.plan(at, Due::Sleep(id));
            if let Some(sleep) = self.sleeps.get_mut(&id) {
                sleep.key = Some(key);
            }
        }
    }

    pub(super) fn end_sleep(&mut self, id: u64) {
        let key = self.sleeps.remove(&id).and_then(|sleep| sleep.key);
        if let Some(key) = key {
            self.agenda.remove(&key);
        }
    }

    /// Forgets the faults that are still planned.
    pub(super) fn drop_later_faults(&mut self) {
        self.agenda.retain(|_, due| !matches!(due, Due::Fault(_)));
    }

    /// How many timers tasks hold.
    pub(super) fn sleeps_held(&self) -> usize {
        self.sleeps.len()
    }
}
