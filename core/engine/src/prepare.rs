//! Prepares a text on the nodes of the cluster, all at once.
//! What one node answers is checked here against the others; how a PREPARE travels is `call`'s.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use messina_core::error::request::{RequestError, RequestErrorKind, UnpreparedError};
use messina_core::exec::prepared::PreparedStatement;
use messina_core::exec::targets::Planned;
use messina_core::routing::{HostIdx, Routing, Shard};
use messina_core::wire::{PreparedBody, Response, ResultBody};

use crate::call::{Aim, Answer, Call};
use crate::lane::Lane;
use crate::runtime::Runtime;
use crate::session::Shared;
use crate::shape::shape_cell;
use crate::source::PrepareSource;

/// How long the other nodes may take once one has answered well: long enough for healthy ones, and a slow one only
/// learns the statement later.
const STRAGGLERS: Duration = Duration::from_millis(500);

/// Prepares `text` on every node, and succeeds when one of them does.
pub(crate) async fn prepare<R: Runtime>(
    shared: &Shared<R>,
    text: Arc<str>,
) -> Result<PreparedStatement, RequestError> {
    let routing = shared.published.snapshot();
    let body = match round(shared, &text, nodes(&routing)).await {
        Ok(body) => body,
        Err(error) => {
            // A node may have one bad shard; every other one is asked before the first error is reported.
            let shards = shards(&routing);
            if shards.is_empty() {
                return Err(error);
            }
            round(shared, &text, shards).await.map_err(|_| error)?
        }
    };
    let routing = shared.published.routing();
    let keyspace = shared.keyspace();
    Ok(PreparedStatement::new(text, keyspace, body, &routing).with_shape_cell(shape_cell))
}

/// Asks every place at once; the first good answer counts, and all good answers must have the same id.
async fn round<R: Runtime>(
    shared: &Shared<R>,
    text: &Arc<str>,
    places: Vec<Planned>,
) -> Result<PreparedBody, RequestError> {
    let mut source = PrepareSource {
        text: Arc::clone(text),
    };
    // Without a connected node one call is made all the same, for the error it gives.
    let aims = if places.is_empty() {
        vec![None]
    } else {
        places.into_iter().map(Some).collect()
    };
    let call = |only| {
        Some(Call::new(Aim {
            only,
            ..Aim::default()
        }))
    };
    let mut calls: Vec<Option<Call<R>>> = aims.into_iter().map(call).collect();
    let mut found: Option<PreparedBody> = None;
    let mut first_error = None;
    let mut stragglers = None;
    poll_fn(|cx| {
        for call in &mut calls {
            let Some(Poll::Ready(answer)) = call
                .as_mut()
                .map(|call| call.poll(shared, &mut source, cx, read))
            else {
                continue;
            };
            *call = None;
            match (answer, &found) {
                (Ok(body), None) => found = Some(body),
                (Ok(body), Some(other)) if body.id != other.id => {
                    return Poll::Ready(Err(disagreement(&other.id, &body.id)));
                }
                (Ok(_), Some(_)) => (),
                (Err(error), _) => first_error = first_error.take().or(Some(error)),
            }
        }
        if calls.iter().all(Option::is_none) {
            let nothing = || RequestError::new(RequestErrorKind::NoTarget);
            return Poll::Ready(
                found
                    .take()
                    .ok_or_else(|| first_error.take().unwrap_or_else(nothing)),
            );
        }
        if found.is_none() {
            return Poll::Pending;
        }
        let sleep = stragglers.get_or_insert_with(|| {
            Box::pin(
                shared
                    .runtime
                    .sleep_until(shared.runtime.now() + STRAGGLERS),
            )
        });
        match (sleep.as_mut().poll(cx), found.take()) {
            (Poll::Ready(()), Some(body)) => Poll::Ready(Ok(body)),
            (_, body) => {
                found = body;
                Poll::Pending
            }
        }
    })
    .await
}

fn read(_source: &PrepareSource, answer: Answer<'_>) -> Result<PreparedBody, RequestError> {
    let envelope = answer.frame.parse(answer.features);
    let envelope =
        envelope.map_err(|error| RequestError::new(RequestErrorKind::Protocol(error)))?;
    match envelope.response {
        Response::Result(ResultBody::Prepared(body)) => Ok(body),
        _ => {
            let opcode = answer.frame.header.opcode;
            Err(RequestError::new(RequestErrorKind::UnexpectedAnswer {
                opcode,
            }))
        }
    }
}

fn disagreement(one: &Bytes, other: &Bytes) -> RequestError {
    let error = UnpreparedError::IdChanged {
        before: one.clone(),
        after: other.clone(),
    };
    RequestError::new(RequestErrorKind::Unprepared(error))
}

/// Every node with an open connection.
fn nodes(routing: &Routing<Arc<Lane>>) -> Vec<Planned> {
    connected(routing)
        .map(|(host, _)| Planned { host, shard: None })
        .collect()
}

/// Every shard with an open connection, of nodes that have several.
fn shards(routing: &Routing<Arc<Lane>>) -> Vec<Planned> {
    let shards = |(host, count): (HostIdx, u16)| {
        (0..count).map(move |shard| Planned {
            host,
            shard: Some(Shard(shard)),
        })
    };
    let open = |planned: &Planned| {
        let pool = routing.pool(planned.host);
        pool.zip(planned.shard)
            .is_some_and(|(pool, shard)| !pool.on_shard(shard).is_empty())
    };
    connected(routing)
        .filter(|(_, count)| 1 < *count)
        .flat_map(shards)
        .filter(open)
        .collect()
}

fn connected(routing: &Routing<Arc<Lane>>) -> impl Iterator<Item = (HostIdx, u16)> {
    let hosts = routing.hosts.iter().zip(routing.pools.iter()).enumerate();
    hosts
        .filter(|(_, (host, pool))| host.usable() && !pool.is_empty())
        .filter_map(|(at, (_, pool))| {
            let shards = pool.sharder().map_or(0, |sharder| sharder.shards.get());
            Some((HostIdx(u16::try_from(at).ok()?), shards))
        })
}
