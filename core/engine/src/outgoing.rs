//! A request on its way from a caller to the task that encodes it: the statement by handle, the values in the arena.
//! Decides nothing; the frame depends on what the connection negotiated, so it is made by the task.

use std::sync::Arc;

use bytes::Bytes;
use messina_core::exec::batch::Batch;
use messina_core::exec::paging::PagingState;
use messina_core::exec::prepared::{Preparation, ResultShape};
use messina_core::exec::statement::RequestSettings;
use messina_core::wire::{ProtocolFeatures, Request, RequestOptionsRef, RequestRef, ValuesRef};

use crate::lane::ValuesAt;

/// Named bytes for the server's extensions.
pub(crate) type Payload = Arc<[(String, Option<Bytes>)]>;

/// One request, without its values.
#[derive(Clone, Debug)]
pub(crate) enum Outgoing {
    /// A prepared statement.
    Execute {
        preparation: Arc<Preparation>,
        shape: Arc<ResultShape>,
        with: With,
    },
    /// A text without values.
    Query { text: Arc<str>, with: With },
    /// Several statements, with their values.
    Batch { batch: Arc<Batch>, with: With },
    /// A PREPARE.
    Prepare {
        text: Arc<str>,
        keyspace: Option<Arc<str>>,
    },
    /// Any other request, as the control plane makes them.
    Owned(Box<Request>),
}

/// What goes along with a statement.
#[derive(Clone, Debug)]
pub(crate) struct With {
    /// The settings of this attempt, its consistency included.
    pub(crate) settings: RequestSettings,
    /// What few requests have.
    pub(crate) rare: Option<Box<Rare>>,
}

/// What few requests have.
#[derive(Clone, Debug)]
pub(crate) struct Rare {
    pub(crate) paging_state: Option<PagingState>,
    pub(crate) payload: Option<Payload>,
}

impl Outgoing {
    /// Lends the request to `submit`, with its values in place.
    pub(crate) fn lend<T>(
        &self,
        arena: &[u8],
        values: &ValuesAt,
        features: &ProtocolFeatures,
        submit: impl FnOnce(RequestRef<'_>, &RequestOptionsRef<'_>) -> T,
    ) -> T {
        match self {
            Self::Execute {
                preparation,
                shape,
                with,
            } => {
                let (settings, values) = (&with.settings, values_ref(arena, values));
                let params = settings.params(settings.consistency, values, with.paging_state());
                submit(
                    preparation.execute(shape, params, features),
                    &with.options(),
                )
            }
            Self::Query { text, with } => {
                let settings = &with.settings;
                let request = settings.query(text, settings.consistency, with.paging_state());
                submit(request, &with.options())
            }
            Self::Batch { batch, with } => {
                let settings = &with.settings;
                batch.with_request(settings, settings.consistency, |request| {
                    submit(request, &with.options())
                })
            }
            Self::Prepare { text, keyspace } => {
                let request = RequestRef::Prepare {
                    text,
                    keyspace: keyspace.as_deref(),
                };
                submit(request, &RequestOptionsRef::default())
            }
            Self::Owned(request) => {
                request.with_ref(|request| submit(request, &RequestOptionsRef::default()))
            }
        }
    }
}

impl With {
    fn paging_state(&self) -> Option<&PagingState> {
        self.rare.as_ref()?.paging_state.as_ref()
    }

    fn options(&self) -> RequestOptionsRef<'_> {
        let payload = self.rare.as_ref().and_then(|rare| rare.payload.as_deref());
        RequestOptionsRef {
            tracing: self.settings.tracing,
            custom_payload: payload,
        }
    }
}

fn values_ref<'a>(arena: &'a [u8], at: &'a ValuesAt) -> ValuesRef<'a> {
    ValuesRef {
        count: at.count,
        bytes: arena.get(at.start..at.end).unwrap_or(&[]),
        large: at.large.as_ref().map_or(&[], |large| large),
        names: None,
    }
}
