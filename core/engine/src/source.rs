//! What a request is made of on the caller's side: a statement of some kind, its values, and what it announced.
//! Where the request goes and what becomes of it is decided elsewhere.

use std::sync::Arc;

use messina_core::error::request::RequestErrorKind;
use messina_core::error::value::BindError;
use messina_core::exec::StatementKind;
use messina_core::exec::batch::Batch;
use messina_core::exec::paging::PagingState;
use messina_core::exec::prepared::{Preparation, PreparedStatement, ResultShape};
use messina_core::exec::statement::{
    AnyStatement, AsStatement, Bound, RequestSettings, Statement, StatementOptions,
};
use messina_core::routing::{Routing, TableIdx, Token};
use messina_core::types::{EncodedValues, RowWriter, ToRow};
use messina_core::wire::{Consistency, PreparedBody, ValuesRef};

use crate::lane::Lane;
use crate::outgoing::{Outgoing, With};

/// A request as its caller holds it.
pub(crate) trait Source {
    /// What the execution has to know.
    fn kind(&self) -> StatementKind;

    /// The options of the request.
    fn options(&self) -> Option<&StatementOptions>;

    /// Where the request belongs.
    fn route(&self, _routing: &Routing<Arc<Lane>>) -> (Option<TableIdx>, Option<Token>) {
        (None, None)
    }

    /// Whether the statement is a conditional one.
    fn is_conditional(&self) -> bool {
        false
    }

    /// Whether the request may be sent twice, when its options do not say.
    fn is_idempotent(&self, default: bool) -> bool {
        default
    }

    /// Makes what is sent, without the values.
    fn outgoing(&self, settings: &RequestSettings, consistency: Consistency) -> Outgoing;

    /// The encoded values.
    fn values(&self) -> ValuesRef<'_> {
        ValuesRef::default()
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

/// A statement with its values, as `execute` takes it.
pub(crate) enum StatementSource<'a, V> {
    Prepared {
        statement: &'a PreparedStatement,
        shape: Arc<ResultShape>,
        values: EncodedValues,
        token: Option<Token>,
    },
    Text {
        text: Arc<str>,
        options: Option<&'a StatementOptions>,
    },
    /// A text with values, which wait for the text to be prepared.
    Typed {
        text: Arc<str>,
        options: Option<&'a StatementOptions>,
        row: V,
        bound: Option<Box<Bound>>,
    },
}

impl<'a, V: ToRow> StatementSource<'a, V> {
    /// Encodes the values; those of a text that has some are encoded when it is prepared.
    pub(crate) fn new(
        statement: &'a (impl AsStatement + ?Sized),
        row: V,
    ) -> Result<Self, RequestErrorKind> {
        match statement.as_statement() {
            AnyStatement::Prepared(statement) => {
                let mut values = EncodedValues::new();
                let token = statement
                    .encode(&row, &mut values)
                    .map_err(RequestErrorKind::Bind)?;
                Ok(Self::Prepared {
                    statement,
                    shape: statement.shape(),
                    values,
                    token,
                })
            }
            AnyStatement::Text { text, options } => {
                let text = text.into();
                let nothing = row.to_row(&[], &mut RowWriter::new(&mut EncodedValues::new()));
                Ok(match nothing {
                    Ok(()) => Self::Text { text, options },
                    Err(_) => Self::Typed {
                        text,
                        options,
                        row,
                        bound: None,
                    },
                })
            }
            _ => Err(RequestErrorKind::Internal("a statement of an unknown kind")),
        }
    }
}

impl<V: ToRow> Source for StatementSource<'_, V> {
    fn kind(&self) -> StatementKind {
        match self {
            Self::Prepared { statement, .. } => {
                StatementKind::Prepared(Arc::clone(statement.preparation()))
            }
            Self::Text { .. } => StatementKind::Text,
            Self::Typed { text, .. } => StatementKind::TextWithValues(Arc::clone(text)),
        }
    }

    fn options(&self) -> Option<&StatementOptions> {
        match self {
            Self::Prepared { statement, .. } => Some(statement.options()),
            Self::Text { options, .. } | Self::Typed { options, .. } => *options,
        }
    }

    fn route(&self, routing: &Routing<Arc<Lane>>) -> (Option<TableIdx>, Option<Token>) {
        match self {
            Self::Prepared {
                statement, token, ..
            } => (statement.table(routing), *token),
            Self::Text { .. } | Self::Typed { .. } => (None, None),
        }
    }

    fn is_conditional(&self) -> bool {
        matches!(self, Self::Prepared { statement, .. } if statement.is_conditional())
    }

    fn outgoing(&self, settings: &RequestSettings, consistency: Consistency) -> Outgoing {
        match self {
            Self::Prepared {
                statement, shape, ..
            } => {
                let with = with(settings, consistency, Some(statement.options()), None);
                Outgoing::Execute {
                    preparation: Arc::clone(statement.preparation()),
                    shape: Arc::clone(shape),
                    with,
                }
            }
            Self::Typed {
                options,
                bound: Some(bound),
                ..
            } => {
                let with = with(settings, consistency, *options, None);
                execute(bound, with)
            }
            Self::Text { text, options } | Self::Typed { text, options, .. } => {
                let with = with(settings, consistency, *options, None);
                Outgoing::Query {
                    text: Arc::clone(text),
                    with,
                }
            }
        }
    }

    fn values(&self) -> ValuesRef<'_> {
        match self {
            Self::Prepared { values, .. } => values.values(),
            Self::Typed {
                bound: Some(bound), ..
            } => bound.values().values(),
            Self::Text { .. } | Self::Typed { .. } => ValuesRef::default(),
        }
    }

    fn announced(&self) -> Option<(&Preparation, &Arc<ResultShape>)> {
        match self {
            Self::Prepared {
                statement, shape, ..
            } => Some((statement.preparation(), shape)),
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
            let prepared = PreparedStatement::new(Arc::clone(text), None, body, routing);
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

    fn route(&self, routing: &Routing<Arc<Lane>>) -> (Option<TableIdx>, Option<Token>) {
        (self.bound.statement().table(routing), self.bound.token())
    }

    fn is_conditional(&self) -> bool {
        self.bound.statement().is_conditional()
    }

    fn outgoing(&self, settings: &RequestSettings, consistency: Consistency) -> Outgoing {
        execute(
            self.bound,
            with(
                settings,
                consistency,
                Some(self.bound.options()),
                self.paging_state,
            ),
        )
    }

    fn values(&self) -> ValuesRef<'_> {
        self.bound.values().values()
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

    fn outgoing(&self, settings: &RequestSettings, consistency: Consistency) -> Outgoing {
        let with = with(
            settings,
            consistency,
            Some(self.statement.options()),
            self.paging_state,
        );
        Outgoing::Query {
            text: Arc::clone(self.statement.text()),
            with,
        }
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

    fn route(&self, routing: &Routing<Arc<Lane>>) -> (Option<TableIdx>, Option<Token>) {
        self.0
            .route(routing)
            .map_or((None, None), |(table, token)| (Some(table), Some(token)))
    }

    fn is_conditional(&self) -> bool {
        self.0.is_conditional()
    }

    fn is_idempotent(&self, default: bool) -> bool {
        self.0.is_idempotent(default)
    }

    fn outgoing(&self, settings: &RequestSettings, consistency: Consistency) -> Outgoing {
        let with = with(settings, consistency, Some(self.0.options()), None);
        Outgoing::Batch {
            batch: Arc::clone(&self.0),
            with,
        }
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

    fn outgoing(&self, _settings: &RequestSettings, _consistency: Consistency) -> Outgoing {
        Outgoing::Prepare {
            text: Arc::clone(&self.text),
            keyspace: None,
        }
    }
}

fn execute(bound: &Bound, with: With) -> Outgoing {
    Outgoing::Execute {
        preparation: Arc::clone(bound.statement().preparation()),
        shape: Arc::clone(bound.shape()),
        with,
    }
}

fn with(
    settings: &RequestSettings,
    consistency: Consistency,
    options: Option<&StatementOptions>,
    paging_state: Option<&PagingState>,
) -> With {
    let own = options.and_then(|options| options.paging_state.as_ref());
    With {
        settings: *settings,
        consistency,
        paging_state: paging_state.or(own).cloned(),
        payload: options.and_then(|options| options.custom_payload.clone()),
    }
}
