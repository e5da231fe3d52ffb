//! Prepares a text on the nodes of the cluster. On which, and what their answers mean together, is decided by the core;
//! how a PREPARE travels is `call`'s.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use messina_core::error::request::RequestError;
use messina_core::exec::plan::Aim;
use messina_core::exec::prepared::PreparedStatement;
use messina_core::exec::preparing::{Preparing, PreparingStep, is_to_be_repeated, read_prepared};
use messina_core::exec::ready::Defaults;
use messina_core::exec::targets::Planned;
use messina_core::routing::Routing;
use messina_core::wire::PreparedBody;

use crate::call::{Answer, Call};
use crate::lane::Lane;
use crate::runtime::Runtime;
use crate::session::Shared;
use crate::shape::shape_cell;
use crate::source::PrepareSource;

/// Prepares `text` as the settings say, and remembers the statement.
pub(crate) async fn prepare<R: Runtime>(
    shared: &Shared<R>,
    text: Arc<str>,
) -> Result<PreparedStatement, RequestError> {
    let mut times = 0;
    loop {
        let routing = shared.published.snapshot();
        let outcome = Rounds::new(shared, &text, &routing).run().await;
        times += 1;
        let (keyspace, now) = (routing.keyspace.clone(), shared.published.routing());
        if is_to_be_repeated(keyspace.as_ref(), now.keyspace.as_ref(), times) {
            continue;
        }
        let body = outcome?;
        let statement = PreparedStatement::new(text, keyspace, body, &now);
        let statement = with_defaults(shared, statement.with_shape_cell(shape_cell), &now);
        shared.statements().keep(&statement);
        return Ok(statement);
    }
}

/// Lets a statement put together once what its requests have in common.
fn with_defaults<R: Runtime>(
    shared: &Shared<R>,
    statement: PreparedStatement,
    routing: &Routing<Arc<Lane>>,
) -> PreparedStatement {
    let mut lanes = routing.pools.iter().flat_map(|pool| pool.connections());
    // All connections of a session agree on the same, or nearly so; others are served all the same.
    match lanes.next() {
        Some(lane) => statement.with_defaults(Defaults {
            profile: Arc::clone(&shared.profile),
            features: lane.info().features,
        }),
        None => statement,
    }
}

/// Finds the statement of `text` among those prepared before, or prepares it.
pub(crate) async fn prepare_cached<R: Runtime>(
    shared: &Shared<R>,
    text: Arc<str>,
) -> Result<PreparedStatement, RequestError> {
    match shared.find_statement(&text) {
        Some(statement) => Ok(statement),
        None => prepare(shared, text).await,
    }
}

/// The requests of one statement's preparation.
struct Rounds<'s, R: Runtime> {
    shared: &'s Shared<R>,
    routing: &'s Routing<Arc<Lane>>,
    source: PrepareSource,
    preparing: Preparing,
    calls: Vec<Option<Call<R>>>,
    stragglers: Option<Pin<Box<R::Sleep>>>,
}

impl<'s, R: Runtime> Rounds<'s, R> {
    fn new(shared: &'s Shared<R>, text: &Arc<str>, routing: &'s Routing<Arc<Lane>>) -> Self {
        let (preparing, first) = Preparing::start(shared.config.prepare_on, routing);
        let mut rounds = Self {
            shared,
            routing,
            source: PrepareSource {
                text: Arc::clone(text),
            },
            preparing,
            calls: Vec::new(),
            stragglers: None,
        };
        rounds.follow(first);
        rounds
    }

    async fn run(mut self) -> Result<PreparedBody, RequestError> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<PreparedBody, RequestError>> {
        let mut at = 0;
        while let Some(call) = self.calls.get_mut(at) {
            let answer = call
                .as_mut()
                .map(|call| call.poll(self.shared, &mut self.source, cx, read));
            at += 1;
            let Some(Poll::Ready(outcome)) = answer else {
                continue;
            };
            if let Some(call) = self.calls.get_mut(at - 1) {
                *call = None;
            }
            let step = self.preparing.handle_outcome(outcome, self.routing);
            if let Some(outcome) = self.follow(step) {
                return Poll::Ready(outcome);
            }
        }
        let late = match &mut self.stragglers {
            Some(sleep) => sleep.as_mut().poll(cx).is_ready(),
            None => false,
        };
        if late {
            let step = self.preparing.late();
            return self.follow(step).map_or(Poll::Pending, Poll::Ready);
        }
        Poll::Pending
    }

    fn follow(&mut self, step: PreparingStep) -> Option<Result<PreparedBody, RequestError>> {
        match step {
            PreparingStep::Ask(places) => {
                self.calls
                    .extend(places.into_iter().map(|only| Some(call(only))));
                None
            }
            PreparingStep::WaitFor(limit) => {
                let runtime = &self.shared.runtime;
                self.stragglers
                    .get_or_insert_with(|| Box::pin(runtime.sleep_until(runtime.now() + limit)));
                None
            }
            PreparingStep::Done(outcome) => Some(outcome),
            _ => None,
        }
    }
}

fn call<R: Runtime>(only: Option<Planned>) -> Call<R> {
    Call::new(Aim {
        only,
        ..Aim::default()
    })
}

fn read(_source: &PrepareSource, answer: Answer<'_>) -> Result<PreparedBody, RequestError> {
    read_prepared(answer.frame, answer.features)
}
