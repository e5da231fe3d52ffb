//! Where a statement is prepared first, and what its nodes' answers mean together.
//!
//! A plain value like `Execution`: its owner sends one PREPARE to each place it names, as a request of its own for that
//! place, and reports each outcome. It leaves out how these travel, and statements that a node forgets later
//! (`unprepared`).

use std::sync::Arc;
use std::time::Duration;

use crate::error::request::{RequestError, RequestErrorKind, UnpreparedError};
use crate::exec::targets::Planned;
use crate::routing::{HostIdx, Routing, Shard};
use crate::wire::header::Opcode;
use crate::wire::response::{Response, ResponseFrame};
use crate::wire::result::{PreparedBody, ResultBody};
use crate::wire::supported::ProtocolFeatures;

/// Says on which nodes a statement is prepared before it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PrepareOn {
    /// On every connected node at once, so that hardly any request meets a node that does not know the statement.
    #[default]
    EveryNode,
    /// On one node, chosen like that of any request; the others learn the statement when it is first needed there.
    ///
    /// For large clusters and for programs that prepare many statements which they seldom execute.
    OneNode,
}

/// Prepares one statement on the nodes of a cluster: on all at once, then on every shard of all if none succeeded.
#[derive(Debug)]
pub struct Preparing {
    stage: Stage,
    waiting: usize,
    found: Option<PreparedBody>,
    first_error: Option<RequestError>,
}

/// Says what the owner has to do next.
#[derive(Debug)]
#[non_exhaustive]
pub enum PreparingStep {
    /// Sends a PREPARE to each of these places; none is a place of the load-balancing policy's choice.
    Ask(Vec<Option<Planned>>),
    /// Waits for answers that are still to come.
    Wait,
    /// Waits for answers that are still to come, but not longer than this from the first success on.
    WaitFor(Duration),
    /// Ends; answers that are still to come do not matter any more.
    Done(Result<PreparedBody, RequestError>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Nodes(PrepareOn),
    Shards,
}

impl Preparing {
    /// Starts with the first round.
    pub fn start<H>(on: PrepareOn, routing: &Routing<H>) -> (Self, PreparingStep) {
        let places: Vec<Option<Planned>> = match on {
            PrepareOn::EveryNode => nodes(routing).map(Some).collect(),
            PrepareOn::OneNode => Vec::new(),
        };
        let mut preparing = Self {
            stage: Stage::Nodes(on),
            waiting: 0,
            found: None,
            first_error: None,
        };
        // Without a connected node one request is made all the same, for the error it gives.
        let places = if places.is_empty() {
            vec![None]
        } else {
            places
        };
        let step = preparing.ask(places);
        (preparing, step)
    }

    /// Takes the outcome of one PREPARE.
    pub fn handle_outcome<H>(
        &mut self,
        outcome: Result<PreparedBody, RequestError>,
        routing: &Routing<H>,
    ) -> PreparingStep {
        self.waiting = self.waiting.saturating_sub(1);
        match (outcome, &self.found) {
            (Ok(body), None) => self.found = Some(body),
            (Ok(body), Some(other)) if body.id != other.id => {
                return PreparingStep::Done(Err(disagreement(other, body)));
            }
            (Ok(_), Some(_)) => (),
            // The first error of all is the one worth reporting.
            (Err(error), _) => self.first_error = self.first_error.take().or(Some(error)),
        }
        match (self.waiting, &self.found) {
            (0, Some(_)) => self.late(),
            (0, None) => self.next_round(routing),
            (_, Some(_)) => PreparingStep::WaitFor(STRAGGLERS),
            (_, None) => PreparingStep::Wait,
        }
    }

    /// Ends with what was found, because the time for the other nodes is over.
    pub fn late(&mut self) -> PreparingStep {
        let nothing = || RequestError::new(RequestErrorKind::NoTarget);
        let outcome = match self.found.take() {
            Some(body) => Ok(body),
            None => Err(self.first_error.take().unwrap_or_else(nothing)),
        };
        PreparingStep::Done(outcome)
    }

    /// A node may have one bad shard: every other one is asked before the first error is reported.
    fn next_round<H>(&mut self, routing: &Routing<H>) -> PreparingStep {
        let places: Vec<Option<Planned>> = match self.stage {
            Stage::Nodes(_) => shards(routing).map(Some).collect(),
            Stage::Shards => Vec::new(),
        };
        if places.is_empty() {
            return self.late();
        }
        self.stage = Stage::Shards;
        self.ask(places)
    }

    fn ask(&mut self, places: Vec<Option<Planned>>) -> PreparingStep {
        self.waiting = places.len();
        PreparingStep::Ask(places)
    }
}

/// How often a text is prepared at most because the keyspace changed meanwhile: a session that changes it all the time
/// is told what the last time brought.
pub const TIMES_MAX: u8 = 3;

/// Says whether a text is to be prepared anew, which was prepared so many times: nodes that are asked before and after
/// a change of the session's keyspace have understood different statements.
#[must_use]
pub fn is_to_be_repeated(
    keyspace_before: Option<&Arc<str>>,
    keyspace_now: Option<&Arc<str>>,
    times: u8,
) -> bool {
    keyspace_before != keyspace_now && times < TIMES_MAX
}

/// Reads the answer to a PREPARE.
///
/// An answer that is no result is refused by its opcode, unread.
///
/// # Errors
/// It is another answer, or breaks the protocol.
pub fn read_prepared(
    frame: &ResponseFrame,
    features: &ProtocolFeatures,
) -> Result<PreparedBody, RequestError> {
    let opcode = frame.header.opcode;
    if opcode == Opcode::Result {
        let protocol = |error| RequestError::new(RequestErrorKind::Protocol(error));
        let envelope = frame.parse(features).map_err(protocol)?;
        if let Response::Result(ResultBody::Prepared(body)) = envelope.response {
            return Ok(body);
        }
    }
    let kind = RequestErrorKind::UnexpectedAnswer { opcode };
    Err(RequestError::new(kind))
}

fn disagreement(one: &PreparedBody, other: PreparedBody) -> RequestError {
    let error = UnpreparedError::NodesDisagree {
        one: one.id.clone(),
        other: other.id,
    };
    RequestError::new(RequestErrorKind::Unprepared(error))
}

/// Every node with an open connection.
fn nodes<H>(routing: &Routing<H>) -> impl Iterator<Item = Planned> {
    connected(routing).map(|(host, _)| Planned { host, shard: None })
}

/// Every shard with an open connection, of nodes that have several.
fn shards<H>(routing: &Routing<H>) -> impl Iterator<Item = Planned> {
    connected(routing)
        .filter(|(_, count)| 1 < *count)
        .flat_map(|(host, count)| {
            (0..count).map(move |shard| Planned {
                host,
                shard: Some(Shard(shard)),
            })
        })
        .filter(|planned| {
            let pool = routing.pool(planned.host);
            pool.zip(planned.shard)
                .is_some_and(|(pool, shard)| !pool.on_shard(shard).is_empty())
        })
}

fn connected<H>(routing: &Routing<H>) -> impl Iterator<Item = (HostIdx, u16)> {
    let hosts = routing.hosts.iter().zip(routing.pools.iter()).enumerate();
    hosts
        .filter(|(_, (host, pool))| host.usable() && !pool.is_empty())
        .filter_map(|(at, (_, pool))| {
            let shards = pool.sharder().map_or(0, |sharder| sharder.shards.get());
            Some((HostIdx(u16::try_from(at).ok()?), shards))
        })
}

/// How long the other nodes may take once one has answered well: long enough for healthy ones, and a slow one only
/// learns the statement later.
const STRAGGLERS: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
