//! A request as a driver keeps it until it is answered: statement, values and options, owned.
//! Where it goes and what becomes of it is decided elsewhere.

use std::fmt;
use std::sync::Arc;

use crate::error::value::BindError;
use crate::exec::StatementKind;
use crate::exec::batch::Batch;
use crate::exec::paging::PagingState;
use crate::exec::prepared::{Preparation, PreparedStatement, ResultShape};
use crate::exec::statement::{
    AnyStatement, AsStatement, Bound, RequestSettings, Statement, StatementOptions,
};
use crate::routing::{Routing, TableIdx, Token};
use crate::types::{EncodedValues, RowWriter, ToRow};
use crate::wire::{PreparedBody, ProtocolFeatures, RequestOptionsRef, RequestRef};

/// What is asked.
#[derive(Debug)]
pub(super) enum Question {
    /// A text without values.
    Text(Statement),
    /// A text whose values wait for it to be prepared.
    Typed(Typed),
    Bound(Box<Bound>),
    Batch(Box<Batch>),
    Prepare(Arc<str>),
}

/// A text with values of a type that is forgotten.
pub(super) struct Typed {
    statement: Statement,
    bind: Option<Bind>,
}

type Bind = Box<dyn FnOnce(&PreparedStatement) -> Result<Bound, BindError> + Send>;

impl Question {
    /// Asks a statement with its values.
    pub(super) fn new<V>(
        statement: &(impl AsStatement + ?Sized),
        values: V,
    ) -> Result<Self, BindError>
    where
        V: ToRow + Send + 'static,
    {
        let (text, options) = match statement.as_statement() {
            AnyStatement::Prepared(statement) => {
                return Ok(Self::Bound(Box::new(statement.bind(values)?)));
            }
            AnyStatement::Text { text, options } => (text, options),
        };
        let mut statement = Statement::new(text);
        *statement.options_mut() = options.cloned().unwrap_or_default();
        // Without its columns a text takes no values, which is what an empty list of columns says.
        let nothing = values.to_row(&[], &mut RowWriter::new(&mut EncodedValues::new()));
        Ok(match nothing {
            Ok(()) => Self::Text(statement),
            Err(_) => Self::Typed(Typed {
                statement,
                bind: Some(Box::new(move |prepared| prepared.bind(values))),
            }),
        })
    }

    /// What the execution has to know.
    pub(super) fn kind(&self) -> StatementKind {
        match self {
            Self::Text(_) => StatementKind::Text,
            Self::Typed(typed) => StatementKind::TextWithValues(Arc::clone(typed.statement.text())),
            Self::Bound(bound) => {
                StatementKind::Prepared(Arc::clone(bound.statement().preparation()))
            }
            Self::Batch(batch) => batch.statement_kind(),
            Self::Prepare(_) => StatementKind::Prepare,
        }
    }

    pub(super) fn options(&self) -> Option<&StatementOptions> {
        match self {
            Self::Text(statement) => Some(statement.options()),
            Self::Typed(typed) => Some(typed.statement.options()),
            Self::Bound(bound) => Some(bound.options()),
            Self::Batch(batch) => Some(batch.options()),
            Self::Prepare(_) => None,
        }
    }

    fn options_mut(&mut self) -> Option<&mut StatementOptions> {
        match self {
            Self::Text(statement) => Some(statement.options_mut()),
            Self::Typed(typed) => Some(typed.statement.options_mut()),
            Self::Bound(bound) => Some(bound.options_mut()),
            Self::Batch(batch) => Some(batch.options_mut()),
            Self::Prepare(_) => None,
        }
    }

    /// Asks for another page of the same.
    pub(super) fn turn_to(&mut self, page: Option<&PagingState>) {
        if let Some(options) = self.options_mut() {
            options.paging_state = page.cloned();
        }
    }

    pub(super) fn is_conditional(&self) -> bool {
        match self {
            Self::Bound(bound) => bound.statement().is_conditional(),
            Self::Batch(batch) => batch.is_conditional(),
            Self::Text(_) | Self::Typed(_) | Self::Prepare(_) => false,
        }
    }

    /// Whether it may be asked twice; `settled` is what its options and the profile say.
    pub(super) fn is_idempotent(&self, settled: bool) -> bool {
        match self {
            Self::Batch(batch) => batch.is_idempotent(settled),
            Self::Prepare(_) => true,
            Self::Text(_) | Self::Typed(_) | Self::Bound(_) => settled,
        }
    }

    /// Refuses what must not be sent, or not any more.
    pub(super) fn check(&self) -> Result<(), BindError> {
        match self {
            Self::Bound(bound) => bound.statement().preparation().check_markers(),
            Self::Batch(batch) => batch.check().and_then(|()| batch.check_markers()),
            Self::Text(_) | Self::Typed(_) | Self::Prepare(_) => Ok(()),
        }
    }

    /// Where it belongs.
    pub(super) fn route<H>(&self, routing: &Routing<H>) -> (Option<TableIdx>, Option<Token>) {
        match self {
            Self::Bound(bound) => (bound.statement().table(routing), bound.token()),
            Self::Batch(batch) => batch.route(routing).unzip(),
            Self::Text(_) | Self::Typed(_) | Self::Prepare(_) => (None, None),
        }
    }

    /// Lends the request to `send`, for a connection that has agreed on `features`.
    pub(super) fn lend<T>(
        &self,
        settings: &RequestSettings,
        features: &ProtocolFeatures,
        send: impl FnOnce(RequestRef<'_>, &RequestOptionsRef<'_>) -> T,
    ) -> T {
        let none = StatementOptions::default();
        let options = self.options().unwrap_or(&none);
        let extras = settings.request_options(options);
        let consistency = settings.consistency;
        match self {
            Self::Text(statement) | Self::Typed(Typed { statement, .. }) => {
                let paging = options.paging_state.as_ref();
                send(
                    settings.query(statement.text(), consistency, paging),
                    &extras,
                )
            }
            Self::Bound(bound) => send(bound.request(settings, consistency, features), &extras),
            Self::Batch(batch) => {
                batch.with_request(settings, consistency, |request| send(request, &extras))
            }
            Self::Prepare(text) => send(
                RequestRef::Prepare {
                    text,
                    keyspace: None,
                },
                &RequestOptionsRef::default(),
            ),
        }
    }

    /// What it told the server about its columns.
    pub(super) fn announced(&self) -> Option<(&Preparation, &Arc<ResultShape>)> {
        match self {
            Self::Bound(bound) => Some((&**bound.statement().preparation(), bound.shape())),
            _ => None,
        }
    }

    /// Whether values wait for the text to be prepared.
    pub(super) const fn is_unbound(&self) -> bool {
        matches!(self, Self::Typed(_))
    }

    /// Binds the values that waited for the text to be prepared.
    pub(super) fn bind<H>(
        &mut self,
        body: PreparedBody,
        routing: &Routing<H>,
    ) -> Result<(), BindError> {
        let Self::Typed(Typed { statement, bind }) = self else {
            return Ok(());
        };
        let Some(bind) = bind.take() else {
            return Ok(());
        };
        let text = Arc::clone(statement.text());
        let prepared = PreparedStatement::new(text, None, body, routing);
        let mut bound = bind(&prepared)?;
        *bound.options_mut() = statement.options().clone();
        *self = Self::Bound(Box::new(bound));
        Ok(())
    }
}

impl fmt::Debug for Typed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values are the application's secret.
        out.debug_struct("Typed")
            .field("statement", &self.statement)
            .finish_non_exhaustive()
    }
}
