//! Owns the way out: outputs in order, the published snapshot, readiness, and the end.
//! It decides nothing about the cluster; it shows what the other parts decided.

use std::sync::Arc;

use super::conns::Use;
use super::session::{Round, Stage};
use super::timers::Timer;
use super::{ControlOutput, ControlPlane, Readiness};
use crate::config::session::ReadinessRule;
use crate::conn::CloseReason;
use crate::error::connect::{ConnectCause, ConnectError, ConnectPhase};
use crate::error::session::{NodeCause, NodeFailure, SessionError, SessionErrorKind};
use crate::notify::{ClusterEvent, Note};
use crate::pool::Pool;
use crate::routing::{PoolView, Ring, Routing};

/// Where the session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Starting,
    Ready,
    /// Closed, or never started.
    Over,
}

/// What of the snapshot is to be made again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) hosts: bool,
    pub(super) pools: bool,
    pub(super) ring: bool,
    pub(super) schema: bool,
    pub(super) keyspace: bool,
}

/// An owner that does not take outputs for so long misses events and is told so, instead of filling the memory.
const NEWS_MAX: usize = 1_024;

impl<H: Clone> ControlPlane<H> {
    pub(super) fn output(&mut self, output: ControlOutput<H>) {
        self.outputs.push_back(output);
    }

    pub(super) fn note(&mut self, note: Note) {
        if self.outputs.len() < NEWS_MAX {
            self.output(ControlOutput::Note(note));
        }
    }

    /// Tells the application something once the snapshot shows it.
    pub(super) fn notify(&mut self, event: ClusterEvent) {
        if self.outputs.len() + self.news.len() < NEWS_MAX {
            self.news.push_back(ControlOutput::Notify(event));
        } else {
            self.gap = true;
        }
    }

    /// Ends a command once the snapshot shows what it did.
    pub(super) fn outcome(&mut self, output: ControlOutput<H>) {
        self.news.push_back(output);
    }

    pub(super) fn starting(&self) -> bool {
        self.start == Start::Starting
    }

    /// Starts due attempts, publishes what changed, and sees whether the session is ready.
    pub(super) fn settle(&mut self) {
        if self.start != Start::Over {
            loop {
                self.pools_follow_health();
                self.pools_advance();
                // A host that cannot even be dialled has given its place to another one at once.
                if !self.remotes_changed {
                    break;
                }
            }
            if self.changed.hosts {
                self.leave_unwanted_host();
            }
        }
        self.publish();
        let news = std::mem::take(&mut self.news);
        self.outputs.extend(news);
        self.become_ready();
    }

    fn publish(&mut self) {
        if self.changed == Changed::default() || !self.surveyed {
            return;
        }
        let changed = std::mem::take(&mut self.changed);
        let mut next: Routing<H> = Routing::clone(&self.routing);
        next.generation += 1;
        next.local_datacenter = self.local_datacenter.clone();
        next.local_rack = self.local_rack.clone();
        next.keyspace = self.keyspace.clone();
        if changed.hosts {
            next.hosts = self
                .members
                .slots
                .iter()
                .map(|member| member.host.clone())
                .collect();
        }
        if changed.pools || next.pools.len() != next.hosts.len() {
            let view = |at: usize| {
                self.pools
                    .get(at)
                    .map_or_else(PoolView::default, Pool::view)
            };
            next.pools = (0..next.hosts.len()).map(view).collect();
        }
        if changed.ring {
            let entries = self.members.ring_entries();
            next.ring = Arc::new(Ring::new(entries, &next.hosts, &self.schema.strategies()));
        } else if changed.schema {
            next.ring = Arc::new(
                next.ring
                    .with_strategies(&next.hosts, &self.schema.strategies()),
            );
        }
        if changed.schema {
            next.tables = self.schema.tables();
            next.table_order = self.schema.order();
        }
        self.routing = Arc::new(next);
        self.output(ControlOutput::Publish(Arc::clone(&self.routing)));
    }

    fn become_ready(&mut self) {
        if !self.starting() || !self.schema_reads.attempted {
            return;
        }
        if !self.link().is_some_and(super::session::Link::synced) {
            return;
        }
        let counts = self.pool_counts();
        let (connected, wanted) = (counts.connected, counts.wanted);
        let ready = match self.config.ready {
            ReadinessRule::ControlConnection => true,
            ReadinessRule::OneHost => 0 < connected,
            ReadinessRule::Quorum => wanted / 2 < connected,
            ReadinessRule::AllTried => 0 < connected && counts.tried == wanted,
            ReadinessRule::EveryShard => 0 < connected && counts.settled == wanted,
        };
        if ready {
            self.start = Start::Ready;
            self.timers.cancel(Timer::Readiness);
            self.output(ControlOutput::Ready(Readiness { connected, wanted }));
            self.leave_unwanted_host();
        } else if 0 < wanted && counts.tried == wanted && connected == 0 {
            self.give_up_on_the_keyspace();
        }
    }

    /// Ends a start whose every host refused the keyspace: one that is not there does not come by waiting.
    fn give_up_on_the_keyspace(&mut self) {
        let refused = |failure: &NodeFailure| {
            matches!(
                &failure.cause,
                NodeCause::Connect(ConnectError {
                    phase: ConnectPhase::Keyspace,
                    cause: ConnectCause::Server(_),
                    ..
                })
            )
        };
        let everywhere = self
            .members
            .current()
            .filter_map(|(_, member)| member.host.failure.as_deref())
            .all(refused);
        let Some(name) = self.config.keyspace.clone().filter(|_| everywhere) else {
            return;
        };
        let failures = self.all_failures();
        self.fatal(SessionErrorKind::Keyspace { name }, failures);
    }

    /// Takes note that the session should have been ready by now.
    pub(super) fn readiness_missed(&mut self) {
        if self.starting() {
            let failures = self.all_failures();
            let kind = if self.surveyed {
                SessionErrorKind::NotReady {
                    timeout: self.config.readiness_timeout,
                }
            } else {
                SessionErrorKind::NoContactPoint
            };
            self.fatal(kind, failures);
        }
    }

    /// Ends a session that cannot start.
    pub(super) fn fatal(&mut self, kind: SessionErrorKind, failures: Vec<NodeFailure>) {
        self.shut_down(CloseReason::SessionClosed);
        self.output(ControlOutput::Fatal(SessionError::new(kind, failures)));
    }

    /// Ends everything: no connection is kept, no timer, no wish.
    pub(super) fn shut_down(&mut self, reason: CloseReason) {
        if std::mem::replace(&mut self.start, Start::Over) == Start::Over {
            return;
        }
        self.stage = Stage::Closed;
        self.round = Round::default();
        self.queries.clear();
        self.agreement_close();
        self.keyspace_close();
        self.pools_shut_down();
        let open: Vec<_> = self
            .conns
            .iter()
            .filter(|(_, conn)| conn.usage != Use::Nothing)
            .map(|(key, _)| key)
            .collect();
        for key in open {
            self.disconnect(super::ConnId::of(key), reason);
        }
        self.timers.clear();
    }
}
