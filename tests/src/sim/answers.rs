//! What nodes do wrong with single requests while they are sick: late, lost, refused, done and yet denied.
//! When they are is decided by `faults`; a healthy node only answers out of order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use messina_core::seed::Random;
use messina_core::wire::consistency::Consistency;
use messina_core::wire::server_error::{ServerError, ServerErrorDetail, WriteType};

use super::trace::Counts;
use crate::cluster::ConnectionId;
use crate::node::{Interceptor, Reaction, RequestKind, SeenRequest};

/// Decides about each request, from its own randomness.
#[derive(Debug)]
pub(super) struct Answers {
    random: Random,
    /// How many requests of a hundred go wrong, by node.
    sick: BTreeMap<usize, u64>,
    /// Whether healthy nodes answer out of order.
    pub(super) shuffled: bool,
    pub(super) counts: Counts,
    pub(super) now: Option<Instant>,
    /// The rules that were seen to be broken.
    pub(super) broken: Vec<String>,
    /// When a request that nobody answers is given up by its caller, and how many of those a connection may carry.
    pub(super) orphans: (Duration, usize),
    /// When the requests came that nobody answers, by connection.
    lost: BTreeMap<ConnectionId, Vec<Instant>>,
}

impl Answers {
    pub(super) fn new(random: Random) -> Self {
        Self {
            random,
            sick: BTreeMap::new(),
            shuffled: false,
            counts: Counts::default(),
            now: None,
            broken: Vec::new(),
            orphans: (Duration::MAX, usize::MAX),
            lost: BTreeMap::new(),
        }
    }

    pub(super) fn fall_ill(&mut self, node: usize) {
        let percent = 5 + self.random.below(60);
        self.sick.insert(node, percent);
    }

    pub(super) fn recover(&mut self, node: usize) {
        self.sick.remove(&node);
    }

    fn react(&mut self, request: &SeenRequest<'_>) -> Reaction {
        let data = request.text.is_some_and(is_of_workload);
        if data {
            self.check_orphans(request.connection);
        }
        let percent = self.sick.get(&request.node).copied().unwrap_or(0);
        // The driver's own reads and handshakes go wrong too, but not so often that nothing else happens.
        let percent = if data { percent } else { percent / 2 };
        if self.random.below(100) < percent {
            let reaction = self.go_wrong(request, data);
            self.counts.add(name_of(&reaction));
            let unanswered = matches!(reaction, Reaction::Ignore | Reaction::Forget);
            if data && unanswered && request.kind != RequestKind::Prepare {
                let lost = self.lost.entry(request.connection).or_default();
                lost.extend(self.now);
            }
            return reaction;
        }
        if self.shuffled && data && self.random.below(3) == 0 {
            self.counts.add("answers out of order");
            return Reaction::Delay(Duration::from_micros(self.random.below(30_000)));
        }
        Reaction::Answer
    }

    /// Nobody should use a connection any more on which too many requests were given up.
    fn check_orphans(&mut self, connection: ConnectionId) {
        let (patience, most) = self.orphans;
        let (Some(now), Some(lost)) = (self.now, self.lost.get(&connection)) else {
            return;
        };
        let given_up = lost
            .iter()
            .filter(|at| patience <= now.saturating_duration_since(**at))
            .count();
        if most < given_up {
            self.broken.push(format!(
                "a connection with {given_up} requests that were given up is still used"
            ));
        }
    }

    fn go_wrong(&mut self, request: &SeenRequest<'_>, data: bool) -> Reaction {
        let late = Duration::from_millis(1 + self.random.below(4_000));
        let writes = request.text.is_some_and(|text| !text.starts_with("SELECT"))
            && request.kind != RequestKind::Prepare;
        match self.random.below(8) {
            0 | 1 => Reaction::Delay(late),
            2 if data => Reaction::Forget,
            2 | 3 => Reaction::Ignore,
            4 => Reaction::Disconnect,
            5 if data && writes => {
                let error = self.error_after_the_fact();
                Reaction::Deny(error)
            }
            _ => Reaction::Fail(self.error_before(writes)),
        }
    }

    /// An error that says that nothing was done, or that nothing is to be done twice.
    fn error_before(&mut self, writes: bool) -> ServerError {
        let unavailable = ServerErrorDetail::Unavailable {
            consistency: Consistency::Quorum,
            required: 2,
            alive: 1,
        };
        let read_timeout = ServerErrorDetail::ReadTimeout {
            consistency: Consistency::Quorum,
            received: 2,
            block_for: 2,
            data_present: false,
        };
        match self.random.below(5) {
            0 => error(0x1001, ServerErrorDetail::Overloaded),
            1 => error(0x1002, ServerErrorDetail::IsBootstrapping),
            2 => error(0x1000, unavailable),
            3 if !writes => error(0x1200, read_timeout),
            _ => error(0x0000, ServerErrorDetail::ServerError),
        }
    }

    /// An error of a coordinator that does not know that its request was carried out.
    fn error_after_the_fact(&mut self) -> ServerError {
        let write_timeout = ServerErrorDetail::WriteTimeout {
            consistency: Consistency::Quorum,
            received: 1,
            block_for: 2,
            write_type: WriteType::from_name("SIMPLE"),
            contentions: None,
        };
        match self.random.below(3) {
            0 => error(0x1100, write_timeout),
            1 => error(0x1001, ServerErrorDetail::Overloaded),
            _ => error(0x0000, ServerErrorDetail::ServerError),
        }
    }
}

/// Whether a statement is the workload's: the driver's own reads know none of its tables.
fn is_of_workload(text: &str) -> bool {
    ["registers", "marks", "tallies", "locks", "pages"]
        .iter()
        .any(|table| text.contains(table))
}

fn name_of(reaction: &Reaction) -> &'static str {
    match reaction {
        Reaction::Delay(_) => "answers late",
        Reaction::Forget => "done and not answered",
        Reaction::Ignore => "not done and not answered",
        Reaction::Disconnect => "answered by hanging up",
        Reaction::Deny(_) => "done and denied",
        _ => "refused",
    }
}

fn error(code: i32, detail: ServerErrorDetail) -> ServerError {
    ServerError {
        code,
        message: "simulated".to_owned(),
        detail,
    }
}

/// The function that the cluster asks.
pub(super) fn interceptor(answers: Arc<Mutex<Answers>>) -> Interceptor {
    Interceptor::new(move |request| {
        answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .react(request)
    })
}
