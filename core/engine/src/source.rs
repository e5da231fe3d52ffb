//! What a request is made of on the caller's side: a statement of some kind, its values, and what it announced.
//! Where the request goes and what becomes of it is decided elsewhere.

use std::sync::Arc;

use messina_core::config::profile::ExecutionProfile;
use messina_core::error::value::BindError;
use messina_core::exec::StatementKind;
use messina_core::exec::batch::Batch;
use messina_core::exec::paging::PagingState;
use messina_core::exec::prepared::{Preparation, PreparedStatement, ResultShape};
use messina_core::exec::ready::Ready;
use messina_core::exec::statement::{
    AnyStatement, AsStatement, Bound, RequestSettings, Statement, StatementOptions,
};
use messina_core::routing::{Routing, TableIdx, Token};
use messina_core::types::{EncodedValues, RowWriter, ToRow};
use messina_core::wire::{
    ParamsRef, PreparedBody, ProtocolFeatures, RequestOptionsRef, RequestRef, ValuesRef,
};

use crate::lane::Lane;

/// A request as its caller holds it.
pub(crate) trait Source {
    /// What the execution has to know.
    fn kind(&self) -> StatementKind;

    /// Whether the request is sent as it is, without a PREPARE ahead of it.
    fn is_plain(&self) -> bool {
        true
    }

    /// The options of the request.
    fn options(&self) -> Option<&StatementOptions>;

    /// What the request has in common with others of its statement, in a session with this profile; none where it has
    /// to be put together.
    #[inline]
    fn ready(&self, _profile: &Arc<ExecutionProfile>) -> Option<(&Ready, &Preparation)> {
        None
    }

    /// Encodes the values of such a request into an empty buffer.
    #[inline]
    fn encode_row(
        &self,
        _preparation: &Preparation,
        _out: &mut EncodedValues,
    ) -> Result<Option<Token>, BindError> {
        Ok(None)
    }

    /// Whether the statement is a conditional one.
    fn is_conditional(&self) -> bool {
        false
    }

    /// Whether the request may be sent twice, when its options do not say.
    fn is_idempotent(&self, default: bool) -> bool {
        default
    }

    /// Lends the request to `send`, for a connection that has agreed on `features`.
    fn lend<T>(
        &self,
        settings: &RequestSettings,
        values: ValuesRef<'_>,
        features: &ProtocolFeatures,
        send: impl FnOnce(RequestRef<'_>, &RequestOptionsRef<'_>) -> T,
    ) -> T;

    /// Encodes the values, into `scratch` where they are not encoded yet, and finds where they belong.
    fn encode<'a>(
        &'a self,
        _routing: &Routing<Arc<Lane>>,
        _scratch: &'a mut EncodedValues,
    ) -> Result<Encoded<'a>, BindError> {
        Ok(Encoded::default())
    }

    /// What the request told the server about its columns.
    fn announced(&self) -> Option<(&Preparation, &Arc<ResultShape>)> {
        None
    }

    /// Binds the values of a text, once the text is prepared.
    fn bind(
        &mut self,
        _body: PreparedBody,
        _routing: &Routing<Arc<Lane>>,
    ) -> Result<(), BindError> {
        Ok(())
    }
}

/// The encoded values of a request, and where they belong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Encoded<'a> {
    pub(crate) values: ValuesRef<'a>,
    pub(crate) table: Option<TableIdx>,
    pub(crate) token: Option<Token>,
}

impl<'a> Encoded<'a> {
    /// Takes values that were bound before, unless the statement's markers mean something else by now.
    pub(crate) fn of(bound: &'a Bound, routing: &Routing<Arc<Lane>>) -> Result<Self, BindError> {
        bound.statement().preparation().check_markers()?;
        let (table, token) = (bound.statement().table(routing), bound.token());
        Ok(Self {
            values: bound.values().values(),
            table,
            token,
        })
    }
}

/// A statement with its values, as `execute` takes it. The values are encoded when they are sent.
pub(crate) enum StatementSource<'a, V> {
    Prepared {
        statement: &'a PreparedStatement,
        /// The current pair, where it is not the first one any more or may not be.
        shape: Option<Arc<ResultShape>>,
        row: V,
    },
    Text {
        text: &'a str,
        options: Option<&'a StatementOptions>,
    },
    /// A text with values, which wait for the text to be prepared.
    Typed {
        text: &'a str,
        options: Option<&'a StatementOptions>,
        row: V,
        bound: Option<Box<Bound>>,
    },
}

impl<'a, V: ToRow> StatementSource<'a, V> {
    #[inline]
    pub(crate) fn new(statement: &'a (impl AsStatement + ?Sized), row: V) -> Self {
        match statement.as_statement() {
            AnyStatement::Prepared(statement) => Self::Prepared {
                statement,
                shape: current_shape(statement),
                row,
            },
            AnyStatement::Text { text, options } => {
                let nothing = row.to_row(&[], &mut RowWriter::new(&mut EncodedValues::new()));
                match nothing {
                    Ok(()) => Self::Text { text, options },
                    Err(_) => Self::Typed {
                        text,
                        options,
                        row,
                        bound: None,
                    },
                }
            }
        }
    }
}

#[inline]
fn current_shape(statement: &PreparedStatement) -> Option<Arc<ResultShape>> {
    let is_first = statement.preparation().is_as_prepared();
    (!is_first).then(|| statement.shape())
}

impl<V: ToRow> Source for StatementSource<'_, V> {
    #[inline]
    fn ready(&self, profile: &Arc<ExecutionProfile>) -> Option<(&Ready, &Preparation)> {
        match self {
            Self::Prepared {
                statement,
                shape: None,
                ..
            } => {
                let ready = statement.ready().filter(|ready| ready.suits(profile))?;
                Some((ready, statement.preparation()))
            }
            _ => None,
        }
    }

    #[inline]
    fn encode_row(
        &self,
        preparation: &Preparation,
        out: &mut EncodedValues,
    ) -> Result<Option<Token>, BindError> {
        match self {
            Self::Prepared { row, .. } => preparation.encode(row, out),
            Self::Text { .. } | Self::Typed { .. } => Ok(None),
        }
    }

    fn kind(&self) -> StatementKind {
        match self {
            Self::Prepared { statement, .. } => {
                StatementKind::Prepared(Arc::clone(statement.preparation()))
            }
            Self::Text { .. } => StatementKind::Text,
            Self::Typed { text, .. } => StatementKind::TextWithValues((*text).into()),
        }
    }

    #[inline]
    fn is_plain(&self) -> bool {
        !matches!(self, Self::Typed { .. })
    }

    #[inline]
    fn options(&self) -> Option<&StatementOptions> {
        match self {
            Self::Prepared { statement, .. } => Some(statement.options()),
            Self::Text { options, .. } | Self::Typed { options, .. } => *options,
        }
    }

    #[inline]
    fn is_conditional(&self) -> bool {
        matches!(self, Self::Prepared { statement, .. } if statement.is_conditional())
    }

    #[inline]
    fn lend<T>(
        &self,
        settings: &RequestSettings,
        values: ValuesRef<'_>,
        features: &ProtocolFeatures,
        send: impl FnOnce(RequestRef<'_>, &RequestOptionsRef<'_>) -> T,
    ) -> T {
        let params = |options| params(settings, values, options, None);
        match self {
            Self::Prepared {
                statement, shape, ..
            } => {
                let options = Some(statement.options());
                let preparation = statement.preparation();
                send(
                    preparation.execute(
                        shape.as_ref().unwrap_or_else(|| preparation.first_shape()),
                        params(options),
                        features,
                    ),
                    &extras(settings, options),
                )
            }
            Self::Typed {
                options,
                bound: Some(bound),
                ..
            } => {
                let preparation = bound.statement().preparation();
                let request = preparation.execute(bound.shape(), params(*options), features);
                send(request, &extras(settings, *options))
            }
            Self::Text { text, options } | Self::Typed { text, options, .. } => send(
                RequestRef::Query {
                    text,
                    params: params(*options),
                },
                &extras(settings, *options),
            ),
        }
    }

    #[inline]
    fn encode<'a>(
        &'a self,
        routing: &Routing<Arc<Lane>>,
        scratch: &'a mut EncodedValues,
    ) -> Result<Encoded<'a>, BindError> {
        match self {
            Self::Prepared { statement, row, .. } => {
                let preparation = statement.preparation();
                let token = preparation.encode(row, scratch)?;
                let table = preparation.table(routing);
                Ok(Encoded {
                    values: scratch.values(),
                    table,
                    token,
                })
            }
            Self::Typed {
                bound: Some(bound), ..
            } => Encoded::of(bound, routing),
            Self::Text { .. } | Self::Typed { .. } => Ok(Encoded::default()),
        }
    }

    #[inline]
    fn announced(&self) -> Option<(&Preparation, &Arc<ResultShape>)> {
        match self {
            Self::Prepared {
                statement, shape, ..
            } => {
                let preparation = statement.preparation();
                let shape = shape.as_ref().unwrap_or_else(|| preparation.first_shape());
                Some((preparation, shape))
            }
            Self::Typed { bound, .. } => bound
                .as_ref()
                .map(|bound| (&**bound.statement().preparation(), bound.shape())),
            Self::Text { .. } => None,
        }
    }

    fn bind(&mut self, body: PreparedBody, routing: &Routing<Arc<Lane>>) -> Result<(), BindError> {
        if let Self::Typed {
            text, row, bound, ..
        } = self
        {
            let prepared = PreparedStatement::new((*text).into(), None, body, routing);
            *bound = Some(Box::new(prepared.bind(&*row)?));
        }
        Ok(())
    }
}

/// A bound statement, at one of its pages.
pub(crate) struct BoundSource<'a> {
    pub(crate) bound: &'a Bound,
    pub(crate) paging_state: Option<&'a PagingState>,
}

impl Source for BoundSource<'_> {
    fn kind(&self) -> StatementKind {
        StatementKind::Prepared(Arc::clone(self.bound.statement().preparation()))
    }

    fn options(&self) -> Option<&StatementOptions> {
        Some(self.bound.options())
    }

    fn is_conditional(&self) -> bool {
        self.bound.statement().is_conditional()
    }

    fn lend<T>(
        &self,
        settings: &RequestSettings,
        values: ValuesRef<'_>,
        features: &ProtocolFeatures,
        send: impl FnOnce(RequestRef<'_>, &RequestOptionsRef<'_>) -> T,
    ) -> T {
        let options = Some(self.bound.options());
        let preparation = self.bound.statement().preparation();
        let params = params(settings, values, options, self.paging_state);
        send(
            preparation.execute(self.bound.shape(), params, features),
            &extras(settings, options),
        )
    }

    fn encode<'a>(
        &'a self,
        routing: &Routing<Arc<Lane>>,
        _scratch: &'a mut EncodedValues,
    ) -> Result<Encoded<'a>, BindError> {
        Encoded::of(self.bound, routing)
    }

    fn announced(&self) -> Option<(&Preparation, &Arc<ResultShape>)> {
        Some((self.bound.statement().preparation(), self.bound.shape()))
    }
}

/// A text without values, at one of its pages.
pub(crate) struct TextSource<'a> {
    pub(crate) statement: &'a Statement,
    pub(crate) paging_state: Option<&'a PagingState>,
}

impl Source for TextSource<'_> {
    fn kind(&self) -> StatementKind {
        StatementKind::Text
    }

    fn options(&self) -> Option<&StatementOptions> {
        Some(self.statement.options())
    }

    fn lend<T>(
        &self,
        settings: &RequestSettings,
        values: ValuesRef<'_>,
        _features: &ProtocolFeatures,
        send: impl FnOnce(RequestRef<'_>, &RequestOptionsRef<'_>) -> T,
    ) -> T {
        let options = Some(self.statement.options());
        let params = params(settings, values, options, self.paging_state);
        send(
            RequestRef::Query {
                text: self.statement.text(),
                params,
            },
            &extras(settings, options),
        )
    }
}

/// A batch.
pub(crate) struct BatchSource(pub(crate) Arc<Batch>);

impl Source for BatchSource {
    fn kind(&self) -> StatementKind {
        self.0.statement_kind()
    }

    fn options(&self) -> Option<&StatementOptions> {
        Some(self.0.options())
    }

    fn is_conditional(&self) -> bool {
        self.0.is_conditional()
    }

    fn is_idempotent(&self, default: bool) -> bool {
        self.0.is_idempotent(default)
    }

    fn lend<T>(
        &self,
        settings: &RequestSettings,
        _values: ValuesRef<'_>,
        _features: &ProtocolFeatures,
        send: impl FnOnce(RequestRef<'_>, &RequestOptionsRef<'_>) -> T,
    ) -> T {
        let options = extras(settings, Some(self.0.options()));
        self.0
            .with_request(settings, settings.consistency, |request| {
                send(request, &options)
            })
    }

    fn encode<'a>(
        &'a self,
        routing: &Routing<Arc<Lane>>,
        _scratch: &'a mut EncodedValues,
    ) -> Result<Encoded<'a>, BindError> {
        self.0.check_markers()?;
        // The values travel with the batch.
        let (table, token) = self.0.route(routing).unzip();
        Ok(Encoded {
            table,
            token,
            ..Encoded::default()
        })
    }
}

/// A text to prepare.
pub(crate) struct PrepareSource {
    pub(crate) text: Arc<str>,
}

impl Source for PrepareSource {
    fn kind(&self) -> StatementKind {
        StatementKind::Prepare
    }

    fn options(&self) -> Option<&StatementOptions> {
        None
    }

    fn is_idempotent(&self, _default: bool) -> bool {
        true
    }

    fn lend<T>(
        &self,
        _settings: &RequestSettings,
        _values: ValuesRef<'_>,
        _features: &ProtocolFeatures,
        send: impl FnOnce(RequestRef<'_>, &RequestOptionsRef<'_>) -> T,
    ) -> T {
        let request = RequestRef::Prepare {
            text: &self.text,
            keyspace: None,
        };
        send(request, &RequestOptionsRef::default())
    }
}

/// Makes the parameters of a QUERY or an EXECUTE.
#[inline]
fn params<'a>(
    settings: &RequestSettings,
    values: ValuesRef<'a>,
    options: Option<&'a StatementOptions>,
    paging_state: Option<&'a PagingState>,
) -> ParamsRef<'a> {
    let own = options.and_then(|options| options.paging_state.as_ref());
    settings.params(settings.consistency, values, paging_state.or(own))
}

/// Makes what goes along with a request, whatever it is.
#[inline]
fn extras<'a>(
    settings: &RequestSettings,
    options: Option<&'a StatementOptions>,
) -> RequestOptionsRef<'a> {
    let payload = options.and_then(|options| options.custom_payload.as_deref());
    RequestOptionsRef {
        tracing: settings.tracing,
        custom_payload: payload,
    }
}
