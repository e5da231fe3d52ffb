//! The futures of `execute`, `run` and `batch`: one request, and what has to follow it before the caller goes on.
//! How the request finds its answer is `call`'s.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use messina_core::cluster::AgreementOutcome;
use messina_core::error::request::{RequestError, RequestErrorKind};
use messina_core::error::result::ResultError;
use messina_core::error::session::SessionError;
use messina_core::exec::batch::Batch;
use messina_core::exec::result::QueryResult;
use messina_core::exec::statement::Bound;
use messina_core::types::ToRow;

use crate::call::{Aim, Answer, Call};
use crate::prepare::prepare_cached;
use crate::promise::Outcome;
use crate::runtime::Runtime;
use crate::session::Shared;
use crate::source::{BatchSource, BoundSource, Source, StatementSource};

/// Runs one request and reads its answer.
struct Exchange<'s, R: Runtime> {
    shared: &'s Shared<R>,
    state: State<R>,
    unpaged: bool,
}

enum State<R: Runtime> {
    Calling(Call<R>),
    /// The schema or the keyspace has changed: the cluster follows before the caller goes on.
    Settling(Box<Settling>),
}

struct Settling {
    result: Option<QueryResult>,
    wait: Wait,
}

enum Wait {
    Agreement(Outcome<AgreementOutcome>),
    Keyspace(Outcome<Result<(), SessionError>>),
}

impl<'s, R: Runtime> Exchange<'s, R> {
    #[inline]
    fn new(shared: &'s Shared<R>, unpaged: bool) -> Self {
        let aim = Aim {
            unpaged,
            ..Aim::default()
        };
        Self {
            shared,
            state: State::Calling(Call::new(aim)),
            unpaged,
        }
    }

    #[inline]
    fn poll(
        &mut self,
        source: &mut impl Source,
        cx: &mut Context<'_>,
    ) -> Poll<Result<QueryResult, RequestError>> {
        let State::Calling(call) = &mut self.state else {
            return self.poll_settling(cx);
        };
        let shared = self.shared;
        let read = |source: &_, answer: Answer<'_>| read(shared, source, answer);
        match ready!(call.poll(shared, source, cx, read)) {
            Ok(result) if needs_settling(&result) => {
                self.settle(result);
                self.poll_settling(cx)
            }
            Ok(result) if self.unpaged => Poll::Ready(
                result
                    .expect_last_page()
                    .map(|()| result)
                    .map_err(RequestError::from),
            ),
            other => Poll::Ready(other),
        }
    }

    /// Lets the cluster follow a change that this request has made.
    #[cold]
    fn settle(&mut self, result: QueryResult) {
        let wait = match (result.schema_change(), result.set_keyspace()) {
            (Some(change), _) => Wait::Agreement(self.shared.follow_schema(change)),
            (None, keyspace) => {
                Wait::Keyspace(self.shared.follow_keyspace(keyspace.unwrap_or_default()))
            }
        };
        self.state = State::Settling(Box::new(Settling {
            result: Some(result),
            wait,
        }));
    }

    #[cold]
    fn poll_settling(&mut self, cx: &mut Context<'_>) -> Poll<Result<QueryResult, RequestError>> {
        let State::Settling(settling) = &mut self.state else {
            return Poll::Pending;
        };
        match &mut settling.wait {
            Wait::Agreement(outcome) => {
                let outcome = ready!(Pin::new(outcome).poll(cx));
                if let (Some(outcome), Some(result)) = (outcome, settling.result.take()) {
                    settling.result = Some(result.with_agreement(outcome));
                }
            }
            Wait::Keyspace(outcome) => {
                if let Some(Err(error)) = ready!(Pin::new(outcome).poll(cx)) {
                    settling.result = None;
                    return Poll::Ready(Err(RequestError::keyspace(error)));
                }
            }
        }
        let late = || {
            RequestError::new(RequestErrorKind::Internal(
                "a request is polled after its end",
            ))
        };
        Poll::Ready(settling.result.take().ok_or_else(late))
    }
}

fn needs_settling(result: &QueryResult) -> bool {
    result.schema_change().is_some() || result.set_keyspace().is_some()
}

/// Reads the answer to a statement.
#[inline(always)]
pub(crate) fn read<R: Runtime, S: Source>(
    shared: &Shared<R>,
    source: &S,
    answer: Answer<'_>,
) -> Result<QueryResult, RequestError> {
    let Answer {
        frame,
        features,
        coordinator,
        attempts,
        won_by_copy,
    } = answer;
    match QueryResult::parse(frame, features, source.announced(), coordinator) {
        Ok(result) if attempts.is_empty() && !won_by_copy => Ok(result),
        Ok(result) if won_by_copy => Ok(result.with_attempts(attempts).with_copy()),
        Ok(result) => Ok(result.with_attempts(attempts)),
        Err(error) => Err(unreadable(shared, source, error)),
    }
}

/// Tells operators of an answer that cannot be read, where that is worth telling.
#[cold]
fn unreadable<R: Runtime>(
    shared: &Shared<R>,
    source: &impl Source,
    error: ResultError,
) -> RequestError {
    let statement = source.announced().map(|(statement, _)| statement);
    if let Some(note) = statement.and_then(|statement| statement.learn_unreadable(&error)) {
        shared.notes.push(note);
    }
    error.into()
}

/// A request of `execute`; nothing is sent before the first poll, and dropping it gives the request up.
#[must_use = "nothing is sent before the first poll"]
pub struct Execute<'s, R: Runtime, V> {
    exchange: Exchange<'s, R>,
    source: StatementSource<'s, V>,
}

impl<'s, R: Runtime, V: ToRow> Execute<'s, R, V> {
    #[inline]
    pub(crate) fn new(
        shared: &'s Shared<R>,
        source: StatementSource<'s, V>,
        unpaged: bool,
    ) -> Self {
        Self {
            exchange: Exchange::new(shared, unpaged),
            source,
        }
    }
}

// Nothing in it is pinned in place.
impl<R: Runtime, V> Unpin for Execute<'_, R, V> {}

impl<R: Runtime, V: ToRow> Future for Execute<'_, R, V> {
    type Output = Result<QueryResult, RequestError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.exchange.poll(&mut this.source, cx)
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
    let mut exchange = Exchange::new(shared, false);
    std::future::poll_fn(|cx| exchange.poll(&mut source, cx)).await
}

/// Runs a batch, after preparing the texts with values in it.
pub(crate) async fn batch<R: Runtime>(
    shared: &Shared<R>,
    batch: &Batch,
) -> Result<QueryResult, RequestError> {
    batch.check()?;
    let mut batch = batch.clone();
    loop {
        let Some(text) = batch.texts_to_prepare().next().cloned() else {
            break;
        };
        let prepared = prepare_cached(shared, text).await?;
        batch.bind_text(&prepared)?;
    }
    let mut source = BatchSource(Arc::new(batch));
    let mut exchange = Exchange::new(shared, false);
    std::future::poll_fn(|cx| exchange.poll(&mut source, cx)).await
}
