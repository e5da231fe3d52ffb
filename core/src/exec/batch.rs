//! Batches: several statements that travel and are applied as one.
//!
//! This module leaves out how a batch is sent and repeated (`Execution`).

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::error::value::{BindError, EncodeError};
use crate::exec::plan::StatementKind;
use crate::exec::prepared::{Preparation, PreparedStatement};
use crate::exec::statement::{
    AnyStatement, AsStatement, Bound, RequestSettings, StatementOptions, nothing_ready,
    option_methods,
};
use crate::routing::{Routing, TableIdx, Token};
use crate::types::encode::{EncodedValues, RowWriter};
use crate::types::row::ToRow;
use crate::wire::consistency::Consistency;
use crate::wire::request::{
    BatchKind, BatchRef, BatchStatementRef, LargeValue, RequestRef, StatementRef, ValuesRef,
};

/// Collects statements with their values, and the options of the request that carries them.
///
/// The values of all statements lie in one buffer. [`add`](Self::add) keeps the first error for the moment the
/// batch is sent, so that calls can be chained; [`push`](Self::push) reports it at once.
#[derive(Clone, Debug)]
pub struct Batch {
    kind: BatchKind,
    children: Vec<Child>,
    values: Values,
    error: Option<BindError>,
    /// The idempotence of the children that say something about it.
    idempotent: ChildrenIdempotent,
    options: StatementOptions,
}

impl Batch {
    /// Starts a batch that is applied as a whole or not at all, in the end.
    pub fn logged() -> Self {
        Self::new(BatchKind::Logged)
    }

    /// Starts a batch without a log: cheaper, and atomic only within one partition.
    pub fn unlogged() -> Self {
        Self::new(BatchKind::Unlogged)
    }

    /// Starts a batch of counter updates.
    pub fn counter() -> Self {
        Self::new(BatchKind::Counter)
    }

    /// Starts a batch of a kind.
    pub fn new(kind: BatchKind) -> Self {
        Self {
            kind,
            children: Vec::new(),
            values: Values::default(),
            error: None,
            idempotent: ChildrenIdempotent::default(),
            options: StatementOptions::default(),
        }
    }

    /// Adds a statement with its values; an error is reported when the batch is sent.
    #[must_use]
    pub fn add(mut self, statement: impl AsStatement, values: impl ToRow) -> Self {
        if self.error.is_none() {
            self.error = self.push(statement, values).err();
        }
        self
    }

    /// Adds a text with its values, which wait for the session to prepare the text when it sends the batch; an error
    /// is reported then.
    #[must_use]
    pub fn add_text<V>(mut self, text: impl Into<Arc<str>>, values: V) -> Self
    where
        V: ToRow + Send + Sync + 'static,
    {
        if self.error.is_none() {
            self.error = self.push_text(text, values).err();
        }
        self
    }

    /// Adds a statement once for each of these rows of values.
    ///
    /// # Errors
    /// As [`push`](Self::push), of the first row that does not fit; the rows before it were added.
    pub fn extend<V: ToRow>(
        &mut self,
        statement: impl AsStatement,
        rows: impl IntoIterator<Item = V>,
    ) -> Result<(), BindError> {
        rows.into_iter()
            .try_for_each(|values| self.push(&statement, values))
    }

    /// Adds a bound statement; of its options only the idempotence counts, as the request is the batch's.
    ///
    /// # Errors
    /// The batch is full.
    pub fn push_bound(&mut self, bound: &Bound) -> Result<(), BindError> {
        self.check_room()?;
        let statement = ChildStatement::Prepared(Arc::clone(bound.statement().preparation()));
        let idempotent = bound.options().idempotent;
        self.put(statement, bound.token(), idempotent, bound.values());
        Ok(())
    }

    /// Adds a text with its values, which wait for the session to prepare the text when it sends the batch.
    ///
    /// For texts that are sent once; everything else is better prepared by the application.
    ///
    /// # Errors
    /// The batch is full.
    pub fn push_text<V>(&mut self, text: impl Into<Arc<str>>, values: V) -> Result<(), BindError>
    where
        V: ToRow + Send + Sync + 'static,
    {
        self.check_room()?;
        let unbound = UnboundText {
            text: text.into(),
            values,
        };
        let statement = ChildStatement::Unbound(Arc::new(unbound));
        self.put(statement, None, None, &EncodedValues::new());
        Ok(())
    }

    /// Lists the texts that have to be prepared before the batch can be sent, in their order, repetitions included.
    pub fn texts_to_prepare(&self) -> impl Iterator<Item = &Arc<str>> {
        self.children
            .iter()
            .filter_map(|child| match &child.statement {
                ChildStatement::Unbound(unbound) => Some(unbound.text()),
                ChildStatement::Text(_) | ChildStatement::Prepared(_) => None,
            })
    }

    /// Binds the values that wait for the text of this statement.
    ///
    /// # Errors
    /// Some of the values do not fit the statement; the batch stays as it was.
    pub fn bind_text(&mut self, prepared: &PreparedStatement) -> Result<(), BindError> {
        let before = self.values.end();
        let mut encoded = EncodedValues::new();
        let mut bound = Vec::new();
        for child in &mut self.children {
            let ChildStatement::Unbound(unbound) = &child.statement else {
                continue;
            };
            if unbound.text() != prepared.text() {
                continue;
            }
            match unbound.encode(prepared, &mut encoded) {
                Ok(token) => bound.push((child, token, self.values.append(&encoded))),
                Err(error) => {
                    self.values.truncate(before);
                    return Err(error);
                }
            }
        }
        for (child, token, values) in bound {
            child.statement = ChildStatement::Prepared(Arc::clone(prepared.preparation()));
            child.token = token;
            child.values = values;
        }
        Ok(())
    }

    /// Adds a statement with its values.
    ///
    /// # Errors
    /// The values do not fit the statement, a text has values ([`push_text`](Self::push_text) takes such), or the batch
    /// is full. The batch stays as it was.
    pub fn push(
        &mut self,
        statement: impl AsStatement,
        values: impl ToRow,
    ) -> Result<(), BindError> {
        self.check_room()?;
        let mut encoded = EncodedValues::new();
        let (statement, token, idempotent) = match statement.as_statement() {
            AnyStatement::Prepared(prepared) => {
                let token = prepared.encode(&values, &mut encoded)?;
                (
                    ChildStatement::Prepared(Arc::clone(prepared.preparation())),
                    token,
                    prepared.options().idempotent,
                )
            }
            AnyStatement::Text { text, options } => {
                // Without its columns a text takes no values, which is what an empty list of columns says.
                values.to_row(&[], &mut RowWriter::new(&mut encoded))?;
                (
                    ChildStatement::Text(text.into()),
                    None,
                    options.and_then(|options| options.idempotent),
                )
            }
        };
        self.put(statement, token, idempotent, &encoded);
        Ok(())
    }

    /// Reports the first error of [`add`](Self::add).
    ///
    /// # Errors
    /// A statement could not be added.
    pub fn check(&self) -> Result<(), BindError> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Returns how many statements there are.
    pub fn len(&self) -> usize {
        self.children.len()
    }

    /// Says whether there is no statement.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Says whether one of the statements is marked as a conditional one.
    pub fn is_conditional(&self) -> bool {
        self.preparations()
            .any(|preparation| preparation.is_conditional())
    }

    /// Refuses a batch with a statement that a server was seen to read differently, or with values that still wait
    /// for their text to be prepared.
    ///
    /// # Errors
    /// The markers of a statement have changed since its values were encoded, or it has not been prepared.
    pub fn check_markers(&self) -> Result<(), BindError> {
        if self.texts_to_prepare().next().is_some() {
            return Err(BindError::NotPrepared);
        }
        self.preparations()
            .try_for_each(|preparation| preparation.check_markers())
    }

    /// Says whether the batch may be sent twice: as it was told, else when all its statements may.
    ///
    /// `default` is what holds for a statement that does not say. A batch of counters never is unless it says so.
    pub fn is_idempotent(&self, default: bool) -> bool {
        let of_children =
            self.kind != BatchKind::Counter && self.idempotent.all(default) && !self.is_empty();
        self.options.idempotent.unwrap_or(of_children)
    }

    /// Returns where the batch is routed: table and token of the first statement that has both.
    pub fn route<H>(&self, routing: &Routing<H>) -> Option<(TableIdx, Token)> {
        self.children
            .iter()
            .find_map(|child| match &child.statement {
                ChildStatement::Prepared(prepared) => {
                    Some((prepared.table(routing)?, child.token?))
                }
                ChildStatement::Text(_) | ChildStatement::Unbound(_) => None,
            })
    }

    /// Returns what an execution has to know of the batch.
    pub fn statement_kind(&self) -> StatementKind {
        StatementKind::Batch(self.preparations().cloned().collect())
    }

    /// Lends the request to `send`.
    pub fn with_request<R>(
        &self,
        settings: &RequestSettings,
        consistency: Consistency,
        send: impl FnOnce(RequestRef<'_>) -> R,
    ) -> R {
        let statements: Vec<BatchStatementRef<'_>> = self
            .children
            .iter()
            .map(|child| self.child_ref(child))
            .collect();
        send(RequestRef::Batch(BatchRef {
            kind: self.kind,
            statements: &statements,
            consistency,
            serial_consistency: settings.serial_consistency,
            timestamp: settings.timestamp,
            keyspace: None,
            now_in_seconds: None,
        }))
    }

    fn check_room(&self) -> Result<(), BindError> {
        if STATEMENTS_MAX <= self.children.len() {
            let error = EncodeError::too_long(
                "the list of statements",
                self.children.len() + 1,
                STATEMENTS_MAX,
            );
            return Err(error.into());
        }
        Ok(())
    }

    fn put(
        &mut self,
        statement: ChildStatement,
        token: Option<Token>,
        idempotent: Option<bool>,
        encoded: &EncodedValues,
    ) {
        self.idempotent.add(idempotent);
        self.children.push(Child {
            statement,
            token,
            values: self.values.append(encoded),
        });
    }

    fn child_ref<'a>(&'a self, child: &'a Child) -> BatchStatementRef<'a> {
        let statement = match &child.statement {
            ChildStatement::Text(text) => StatementRef::Text(text),
            // Refused by `check_markers` before it comes to this.
            ChildStatement::Unbound(unbound) => StatementRef::Text(unbound.text()),
            ChildStatement::Prepared(prepared) => StatementRef::Prepared(prepared.id()),
        };
        BatchStatementRef {
            statement,
            values: self.values.get(&child.values),
        }
    }

    fn preparations(&self) -> impl Iterator<Item = &Arc<Preparation>> {
        self.children
            .iter()
            .filter_map(|child| match &child.statement {
                ChildStatement::Prepared(prepared) => Some(prepared),
                ChildStatement::Text(_) | ChildStatement::Unbound(_) => None,
            })
    }
}

option_methods!(Batch);
nothing_ready!(Batch);

#[derive(Clone, Debug)]
struct Child {
    statement: ChildStatement,
    token: Option<Token>,
    values: Placed,
}

/// The values of all children, one behind the other.
#[derive(Clone, Debug, Default)]
struct Values {
    bytes: Vec<u8>,
    large: Vec<LargeValue>,
}

/// Says where the values of one child lie.
#[derive(Clone, Debug)]
struct Placed {
    count: u16,
    bytes: Range<usize>,
    large: Range<usize>,
}

impl Values {
    fn end(&self) -> (usize, usize) {
        (self.bytes.len(), self.large.len())
    }

    fn append(&mut self, encoded: &EncodedValues) -> Placed {
        let values = encoded.values();
        let (start, large_start) = self.end();
        self.bytes.extend_from_slice(values.bytes);
        self.large.extend_from_slice(values.large);
        let (end, large_end) = self.end();
        Placed {
            count: values.count,
            bytes: start..end,
            large: large_start..large_end,
        }
    }

    fn truncate(&mut self, (end, large_end): (usize, usize)) {
        self.bytes.truncate(end);
        self.large.truncate(large_end);
    }

    fn get(&self, placed: &Placed) -> ValuesRef<'_> {
        ValuesRef {
            count: placed.count,
            bytes: self.bytes.get(placed.bytes.clone()).unwrap_or_default(),
            large: self.large.get(placed.large.clone()).unwrap_or_default(),
            names: None,
        }
    }
}

#[derive(Clone, Debug)]
enum ChildStatement {
    Text(Box<str>),
    Prepared(Arc<Preparation>),
    /// A text whose values wait for it to be prepared.
    Unbound(Arc<dyn Unbound>),
}

/// A text with values of a type that is forgotten, so that a batch has no type parameters.
trait Unbound: Send + Sync {
    fn text(&self) -> &Arc<str>;

    fn encode(
        &self,
        prepared: &PreparedStatement,
        out: &mut EncodedValues,
    ) -> Result<Option<Token>, BindError>;
}

impl fmt::Debug for dyn Unbound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values are the application's secrets.
        fmt::Debug::fmt(self.text(), out)
    }
}

struct UnboundText<V> {
    text: Arc<str>,
    values: V,
}

impl<V: ToRow + Send + Sync> Unbound for UnboundText<V> {
    fn text(&self) -> &Arc<str> {
        &self.text
    }

    fn encode(
        &self,
        prepared: &PreparedStatement,
        out: &mut EncodedValues,
    ) -> Result<Option<Token>, BindError> {
        prepared.encode(&self.values, out)
    }
}

/// Counts what the children say about being sent twice.
#[derive(Clone, Copy, Debug, Default)]
struct ChildrenIdempotent {
    no: usize,
    silent: usize,
}

impl ChildrenIdempotent {
    const fn add(&mut self, says: Option<bool>) {
        match says {
            Some(true) => (),
            Some(false) => self.no += 1,
            None => self.silent += 1,
        }
    }

    const fn all(self, default: bool) -> bool {
        self.no == 0 && (default || self.silent == 0)
    }
}

/// How many statements a batch can have: its count is a 16-bit number.
const STATEMENTS_MAX: usize = 65_535;

#[cfg(test)]
mod tests;
