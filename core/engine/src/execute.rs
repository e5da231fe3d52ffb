//! The futures of `execute`, `run` and `batch`: one request, and what has to follow it before the caller goes on.
//! How the request finds its answer is `call`'s.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use messina_core::cluster::AgreementOutcome;
use messina_core::error::request::{RequestError, RequestErrorKind};
use messina_core::error::session::SessionError;
use messina_core::exec::result::QueryResult;
use messina_core::exec::statement::Bound;
use messina_core::types::ToRow;

use crate::call::{Aim, Answer, Call};
use crate::promise::Outcome;
use crate::runtime::Runtime;
use crate::session::Shared;
use crate::source::{BatchSource, BoundSource, Source, StatementSource};

/// Runs one request and reads its answer.
struct Exchange<'s, R: Runtime> {
    shared: &'s Shared<R>,
    state: State<R>,
    aim: Aim,
}

enum State<R: Runtime> {
    New,
    Calling(Call<R>),
    /// The schema or the keyspace has changed: the cluster follows before the caller goes on.
    Settling(Box<Settling>),
    Over,
}

struct Settling {
    result: QueryResult,
    wait: Wait,
}

enum Wait {
    Agreement(Outcome<AgreementOutcome>),
    Keyspace(Outcome<Result<(), SessionError>>),
}

impl<R: Runtime> Exchange<'_, R> {
    fn poll(
        &mut self,
        source: &mut impl Source,
        cx: &mut Context<'_>,
    ) -> Poll<Result<QueryResult, RequestError>> {
        loop {
            match &mut self.state {
                State::New => {
                    if self.shared.published.is_closing() {
                        self.state = State::Over;
                        return Poll::Ready(Err(RequestError::new(RequestErrorKind::Closed)));
                    }
                    self.state = State::Calling(Call::new(self.shared, source, self.aim));
                }
                State::Calling(call) => {
                    let answer = ready!(call.poll(self.shared, source, cx));
                    let result = answer
                        .and_then(|answer| read(source, &answer))
                        .map(|result| call.finish(result));
                    self.state = State::Over;
                    match result {
                        Ok(result) if needs_settling(&result) => self.settle(result),
                        Ok(result) if self.aim.unpaged => {
                            return Poll::Ready(
                                result
                                    .expect_last_page()
                                    .map(|()| result)
                                    .map_err(RequestError::from),
                            );
                        }
                        other => return Poll::Ready(other),
                    }
                }
                State::Settling(settling) => {
                    match &mut settling.wait {
                        Wait::Agreement(outcome) => drop(ready!(Pin::new(outcome).poll(cx))),
                        Wait::Keyspace(outcome) => drop(ready!(Pin::new(outcome).poll(cx))),
                    }
                    if let State::Settling(settling) =
                        std::mem::replace(&mut self.state, State::Over)
                    {
                        return Poll::Ready(Ok(settling.result));
                    }
                }
                State::Over => {
                    return Poll::Ready(Err(RequestError::new(RequestErrorKind::Internal(
                        "a request polled again",
                    ))));
                }
            }
        }
    }

    /// Lets the cluster follow a change that this request has made.
    fn settle(&mut self, result: QueryResult) {
        let wait = match (result.schema_change(), result.set_keyspace()) {
            (Some(change), _) => Wait::Agreement(self.shared.follow_schema(change)),
            (None, keyspace) => {
                Wait::Keyspace(self.shared.follow_keyspace(keyspace.unwrap_or_default()))
            }
        };
        self.state = State::Settling(Box::new(Settling { result, wait }));
    }
}

fn needs_settling(result: &QueryResult) -> bool {
    result.schema_change().is_some() || result.set_keyspace().is_some()
}

/// Reads the answer to a statement.
pub(crate) fn read(source: &impl Source, answer: &Answer) -> Result<QueryResult, RequestError> {
    QueryResult::parse(
        &answer.frame,
        &answer.features,
        source.announced(),
        answer.coordinator,
    )
    .map_err(RequestError::from)
}

/// A request of `execute`; nothing is sent before the first poll, and dropping it gives the request up.
#[must_use = "nothing is sent before the first poll"]
pub struct Execute<'s, R: Runtime, V> {
    exchange: Exchange<'s, R>,
    source: Result<StatementSource<'s, V>, RequestErrorKind>,
}

impl<'s, R: Runtime, V: ToRow> Execute<'s, R, V> {
    pub(crate) fn new(
        shared: &'s Shared<R>,
        source: Result<StatementSource<'s, V>, RequestErrorKind>,
        unpaged: bool,
    ) -> Self {
        let aim = Aim {
            unpaged,
            ..Aim::default()
        };
        Self {
            exchange: Exchange {
                shared,
                state: State::New,
                aim,
            },
            source,
        }
    }
}

// Nothing in it is pinned in place.
impl<R: Runtime, V> Unpin for Execute<'_, R, V> {}

impl<R: Runtime, V: ToRow> Future for Execute<'_, R, V> {
    type Output = Result<QueryResult, RequestError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        match &mut this.source {
            Ok(source) => this.exchange.poll(source, cx),
            Err(kind) => {
                let kind =
                    std::mem::replace(kind, RequestErrorKind::Internal("a request polled again"));
                Poll::Ready(Err(RequestError::new(kind)))
            }
        }
    }
}

impl<R: Runtime, V> fmt::Debug for Execute<'_, R, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execute").finish_non_exhaustive()
    }
}

/// Runs a bound statement.
pub(crate) async fn run<R: Runtime>(
    shared: &Shared<R>,
    bound: &Bound,
) -> Result<QueryResult, RequestError> {
    let mut source = BoundSource {
        bound,
        paging_state: None,
    };
    let mut exchange = Exchange {
        shared,
        state: State::New,
        aim: Aim::default(),
    };
    std::future::poll_fn(|cx| exchange.poll(&mut source, cx)).await
}

/// Runs a batch.
pub(crate) async fn batch<R: Runtime>(
    shared: &Shared<R>,
    mut source: BatchSource,
) -> Result<QueryResult, RequestError> {
    source.0.check().map_err(RequestError::from)?;
    let mut exchange = Exchange {
        shared,
        state: State::New,
        aim: Aim::default(),
    };
    std::future::poll_fn(|cx| exchange.poll(&mut source, cx)).await
}
