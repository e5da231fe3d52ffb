//! The futures of `execute`, `run` and `batch`: one request, and what has to follow it before the caller goes on.
//! How the request finds its answer is `call`'s.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use messina_core::cluster::AgreementOutcome;
use messina_core::conn::Reply;
use messina_core::error::request::{RequestError, RequestErrorKind};
use messina_core::error::result::ResultError;
use messina_core::error::session::SessionError;
use messina_core::exec::Coordinator;
use messina_core::exec::batch::Batch;
use messina_core::exec::plan::Aim;
use messina_core::exec::result::{FollowUp, QueryResult};
use messina_core::exec::statement::{Bound, Choice};
use messina_core::types::ToRow;

use crate::call::{Answer, Call};
use crate::lane::Lane;
use crate::prepare::prepare_cached;
use crate::promise::Outcome;
use crate::runtime::Runtime;
use crate::session::Shared;
use crate::source::{BatchSource, BoundSource, Source, StatementSource};

/// Runs one request and reads its answer.
pub(crate) struct Exchange<'s, R: Runtime> {
    shared: &'s Shared<R>,
    call: Call<R>,
    /// Set when the schema or the keyspace has changed: the cluster follows before the caller goes on.
    settling: Option<Box<Settling>>,
    unpaged: bool,
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
    pub(crate) fn new(shared: &'s Shared<R>, unpaged: bool) -> Self {
        let aim = Aim {
            unpaged,
            ..Aim::default()
        };
        Self {
            shared,
            call: Call::new(aim),
            settling: None,
            unpaged,
        }
    }

    #[inline]
    pub(crate) fn poll(
        &mut self,
        source: &mut impl Source,
        cx: &mut Context<'_>,
    ) -> Poll<Result<QueryResult, RequestError>> {
        if let Some(straight) = self.call.straight() {
            let mut reply = None;
            let lane = ready!(straight.poll_into(cx, &mut reply));
            return match reply {
                None => Poll::Ready(Ok(QueryResult::void(lane.coordinator().copied()))),
                Some(reply) => self.answered(source, cx, (lane, reply)),
            };
        }
        if !self.call.is_started() {
            match self.call.start(self.shared, source, cx) {
                Ok(true) => return Poll::Pending,
                Ok(false) => (),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.poll_long(source, cx)
    }

    /// Reads a reply that is more than a word.
    #[inline(never)]
    fn answered(
        &mut self,
        source: &mut impl Source,
        cx: &mut Context<'_>,
        (lane, reply): (Arc<Lane>, Reply),
    ) -> Poll<Result<QueryResult, RequestError>> {
        let reply = match (reply, source.announced()) {
            (Reply::Frame(frame), Some((_, shape))) => {
                match QueryResult::read_plain(frame, shape, lane.coordinator().copied()) {
                    Ok(rows) => {
                        self.call.end_straight();
                        return Poll::Ready(Ok(rows));
                    }
                    Err(frame) => Reply::Frame(frame),
                }
            }
            (reply, _) => reply,
        };
        let reply = (lane, reply);
        let shared = self.shared;
        let read = |source: &_, answer: Answer<'_>| read(shared, source, answer);
        let result = ready!(self.call.answered(shared, source, cx, reply, read));
        self.finish(result, cx)
    }

    /// Drives a request that did not go straight, or does not any more.
    #[cold]
    fn poll_long(
        &mut self,
        source: &mut impl Source,
        cx: &mut Context<'_>,
    ) -> Poll<Result<QueryResult, RequestError>> {
        if self.settling.is_some() {
            return self.poll_settling(cx);
        }
        let shared = self.shared;
        let read = |source: &_, answer: Answer<'_>| read(shared, source, answer);
        let result = ready!(self.call.wind(shared, source, cx, read));
        self.finish(result, cx)
    }

    /// Does what has to follow a result.
    #[inline]
    fn finish(
        &mut self,
        result: Result<QueryResult, RequestError>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<QueryResult, RequestError>> {
        let result = result?;
        if let Some(follow_up) = result.follow_up() {
            let wait = self.follow(follow_up, result.coordinator());
            return self.settle(result, wait, cx);
        }
        if self.unpaged {
            result.expect_last_page()?;
        }
        Poll::Ready(Ok(result))
    }

    /// Lets the cluster follow a change that this request has made.
    #[cold]
    fn follow(&self, follow_up: FollowUp<'_>, coordinator: Option<&Coordinator>) -> Wait {
        match follow_up {
            FollowUp::Schema(change) => {
                Wait::Agreement(self.shared.follow_schema(change, coordinator))
            }
            FollowUp::Keyspace(keyspace) => Wait::Keyspace(self.shared.follow_keyspace(keyspace)),
        }
    }

    #[cold]
    fn settle(
        &mut self,
        result: QueryResult,
        wait: Wait,
        cx: &mut Context<'_>,
    ) -> Poll<Result<QueryResult, RequestError>> {
        self.settling = Some(Box::new(Settling {
            result: Some(result),
            wait,
        }));
        self.poll_settling(cx)
    }

    #[cold]
    fn poll_settling(&mut self, cx: &mut Context<'_>) -> Poll<Result<QueryResult, RequestError>> {
        let Some(settling) = &mut self.settling else {
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
                let outcome = ready!(Pin::new(outcome).poll(cx));
                if let (Some(outcome), Some(result)) = (outcome, settling.result.take()) {
                    settling.result = Some(result.with_keyspace(outcome)?);
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
    poll_fn(|cx| exchange.poll(&mut source, cx)).await
}

/// Runs a batch, after preparing the texts with values in it.
pub(crate) async fn batch<R: Runtime>(
    shared: &Shared<R>,
    batch: &Batch,
) -> Result<QueryResult, RequestError> {
    batch.check()?;
    let mut batch = batch.clone();
    bind_texts(shared, &mut batch).await?;
    let mut source = BatchSource(Arc::new(batch));
    let mut exchange = Exchange::new(shared, false);
    poll_fn(|cx| exchange.poll(&mut source, cx)).await
}

/// Prepares and binds the texts with values in a batch; what is left of its limit is its limit from then on.
async fn bind_texts<R: Runtime>(shared: &Shared<R>, batch: &mut Batch) -> Result<(), RequestError> {
    if batch.texts_to_prepare().next().is_none() {
        return Ok(());
    }
    let options = batch.options();
    let profile = options.profile.as_ref().unwrap_or(&shared.profile);
    let limit = options.timeout.or(profile.request_timeout);
    let deadline = limit.and_then(|limit| shared.runtime.now().checked_add(limit));
    loop {
        let Some(text) = batch.texts_to_prepare().next().cloned() else {
            break;
        };
        let prepared = before(shared, deadline, prepare_cached(shared, text)).await?;
        batch.bind_text(&prepared)?;
    }
    if let Some(deadline) = deadline {
        let left = deadline.saturating_duration_since(shared.runtime.now());
        batch.options_mut().timeout = Choice::Set(left);
    }
    Ok(())
}

/// Waits for a part of a request, but not beyond the request's deadline.
async fn before<R: Runtime, T>(
    shared: &Shared<R>,
    deadline: Option<Instant>,
    part: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    let mut part = pin!(part);
    let mut sleep = pin!(deadline.map(|deadline| shared.runtime.sleep_until(deadline)));
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = part.as_mut().poll(cx) {
            return Poll::Ready(outcome);
        }
        match sleep.as_mut().as_pin_mut() {
            Some(sleep) => sleep
                .poll(cx)
                .map(|()| Err(RequestError::new(RequestErrorKind::Expired))),
            None => Poll::Pending,
        }
    })
    .await
}
