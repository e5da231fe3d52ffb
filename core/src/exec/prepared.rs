//! Prepared statements: what never changes about them, and the versioned result columns that may.
//!
//! This module leaves out on which nodes a statement is prepared and when it is prepared again.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use bytes::Bytes;

use crate::error::protocol::ProtocolErrorKind;
use crate::error::result::ResultError;
use crate::error::value::BindError;
use crate::exec::ready::{Defaults, Ready};
use crate::exec::statement::{Bound, StatementOptions, option_methods};
use crate::notify::Note;
use crate::routing::{Partitioner, Routing, TableIdx, Token, TokenHasher};
use crate::types::encode::{EncodedValues, RowWriter};
use crate::types::row::ToRow;
use crate::wire::header::ProtocolVersion;
use crate::wire::known::{KnownColumns, PlainRows};
use crate::wire::request::{ParamsRef, RequestRef};
use crate::wire::result::{ColumnSpec, PreparedBody, ResultMetadata};
use crate::wire::supported::ProtocolFeatures;

/// Holds a statement that the servers know, with the default options of its requests.
///
/// A clone shares the preparation and has options of its own.
#[derive(Clone, Debug)]
pub struct PreparedStatement {
    preparation: Arc<Preparation>,
    options: StatementOptions,
    /// What its requests depend on beside its options, where the owner told.
    defaults: Option<Defaults>,
    /// What its requests have in common then.
    ready: Option<Arc<Ready>>,
}

impl PreparedStatement {
    /// Makes a statement of a server's answer to PREPARE.
    ///
    /// `keyspace` is the one the statement was prepared in. The table is looked up in `routing`; a table that is
    /// not known there yet is looked up again by [`table`](Self::table).
    pub fn new<H>(
        text: Arc<str>,
        keyspace: Option<Arc<str>>,
        body: PreparedBody,
        routing: &Routing<H>,
    ) -> Self {
        let table_name = body
            .bind_columns
            .first()
            .or_else(|| body.result.columns.as_ref()?.first());
        let table_name =
            table_name.map(|column| (Arc::clone(&column.keyspace), Arc::clone(&column.table)));
        let table = table_name
            .as_ref()
            .and_then(|(keyspace, table)| routing.table_idx(keyspace, table));
        let partitioner = table
            .and_then(|table| routing.table(table))
            .map(|table| table.partitioner);
        let shape = Arc::new(ResultShape::of_prepared(&body));
        let preparation = Preparation {
            text,
            keyspace,
            id: body.id,
            bind_columns: body.bind_columns,
            pk_indexes: body.pk_indexes.into(),
            conditional: body.conditional,
            table_name,
            table,
            partitioner: partitioner.unwrap_or_default(),
            first_shape: Arc::clone(&shape),
            shape: Arc::new(FixedShape(shape)),
            marks: Arc::default(),
            contradicted: Arc::default(),
        };
        Self {
            preparation: Arc::new(preparation),
            options: StatementOptions::default(),
            defaults: None,
            ready: None,
        }
    }

    /// Puts together what the requests of this statement have in common, with these defaults and its own options, now
    /// and whenever an option is set on it that they share.
    #[must_use]
    pub fn with_defaults(mut self, defaults: Defaults) -> Self {
        self.defaults = Some(defaults);
        self.make_ready()
    }

    /// Returns what its requests have in common; none when they have to be put together one by one.
    #[inline]
    pub fn ready(&self) -> Option<&Ready> {
        let ready = self.ready.as_deref();
        ready.filter(|_| self.preparation.is_as_prepared())
    }

    fn make_ready(mut self) -> Self {
        let ready = |defaults| Ready::new(&self.preparation, &self.options, defaults);
        self.ready = self.defaults.as_ref().and_then(ready).map(Arc::new);
        self
    }

    fn forget_ready(&mut self) {
        self.ready = None;
    }

    /// Keeps the result columns in the owner's cell from now on, so that news from the servers can be kept.
    ///
    /// Without a cell the statement stays correct: a server that knows newer columns sends them with every answer.
    #[must_use]
    pub fn with_shape_cell(
        mut self,
        cell: impl FnOnce(Arc<ResultShape>) -> Arc<dyn ShapeCell>,
    ) -> Self {
        let old = &*self.preparation;
        let shape = cell(old.shape.load());
        self.preparation = Arc::new(Preparation {
            shape,
            ..old.clone()
        });
        self
    }

    /// Returns what never changes about the statement.
    pub const fn preparation(&self) -> &Arc<Preparation> {
        &self.preparation
    }

    /// Returns the id that the servers know the statement by.
    pub fn id(&self) -> &Bytes {
        &self.preparation.id
    }

    /// Returns the CQL text.
    pub fn text(&self) -> &Arc<str> {
        &self.preparation.text
    }

    /// Returns the keyspace that the statement was prepared in.
    pub fn keyspace(&self) -> Option<&Arc<str>> {
        self.preparation.keyspace.as_ref()
    }

    /// Describes the bind markers, in their order.
    pub fn bind_columns(&self) -> &Arc<[ColumnSpec]> {
        &self.preparation.bind_columns
    }

    /// Lists the bind markers that make up the partition key, in key order; empty when it is not fully bound.
    pub fn pk_indexes(&self) -> &[u16] {
        &self.preparation.pk_indexes
    }

    /// Says whether the server marked the statement as a conditional one.
    pub fn is_conditional(&self) -> bool {
        self.preparation.is_conditional()
    }

    /// Returns the result columns as last heard of; none when the server did not tell any.
    pub fn columns(&self) -> Option<Arc<[ColumnSpec]>> {
        self.shape().columns.clone()
    }

    /// Returns the current pair of result columns and their id.
    pub fn shape(&self) -> Arc<ResultShape> {
        self.preparation.shape.load()
    }

    /// Returns the index of the statement's table.
    ///
    /// A plain read where the table was known at the time of preparing, else a search by name.
    #[inline]
    pub fn table<H>(&self, routing: &Routing<H>) -> Option<TableIdx> {
        self.preparation.table(routing)
    }

    /// Encodes values and computes their token.
    ///
    /// # Errors
    /// The values do not fit the bind markers, or these have changed meanwhile.
    pub fn bind(&self, values: impl ToRow) -> Result<Bound, BindError> {
        let mut encoded = EncodedValues::new();
        let token = self.encode(&values, &mut encoded)?;
        Ok(Bound::new(
            self.clone(),
            encoded,
            self.shape(),
            token,
            self.options.clone(),
        ))
    }

    /// Encodes values into a buffer of the caller's and returns their token: no allocation beyond the buffer's.
    ///
    /// # Errors
    /// The values do not fit the bind markers, these have changed meanwhile, or the partition key lacks a value.
    pub fn encode(
        &self,
        values: &impl ToRow,
        out: &mut EncodedValues,
    ) -> Result<Option<Token>, BindError> {
        out.clear();
        self.preparation.encode(values, out)
    }

    /// Makes the EXECUTE of this statement for a connection that has agreed on `features`.
    ///
    /// `shape` is the pair that the answer will be decoded with.
    #[inline]
    pub fn execute<'a>(
        &'a self,
        shape: &'a ResultShape,
        params: ParamsRef<'a>,
        features: &ProtocolFeatures,
    ) -> RequestRef<'a> {
        self.preparation.execute(shape, params, features)
    }
}

option_methods!(PreparedStatement);

/// Holds what never changes about a prepared statement, the cell of what does, and the mark of its end.
#[derive(Clone, Debug)]
pub struct Preparation {
    text: Arc<str>,
    keyspace: Option<Arc<str>>,
    id: Bytes,
    bind_columns: Arc<[ColumnSpec]>,
    pk_indexes: Box<[u16]>,
    conditional: bool,
    table_name: Option<(Arc<str>, Arc<str>)>,
    table: Option<TableIdx>,
    partitioner: Partitioner,
    shape: Arc<dyn ShapeCell>,
    /// The first content of the cell.
    first_shape: Arc<ResultShape>,
    /// What has become of the statement since: marks that are set once and never taken back.
    marks: Arc<AtomicU8>,
    /// Whether an answer contradicted itself about the columns since the last good news of them.
    contradicted: Arc<AtomicBool>,
}

/// A server was seen to read the markers as other types.
const OUTDATED: u8 = 1;
/// The cell holds another pair than the first.
const RENEWED: u8 = 2;

impl Preparation {
    /// Returns the id that the servers know the statement by.
    pub const fn id(&self) -> &Bytes {
        &self.id
    }

    /// Returns the CQL text.
    pub const fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Returns the keyspace that the statement was prepared in.
    pub const fn keyspace(&self) -> Option<&Arc<str>> {
        self.keyspace.as_ref()
    }

    /// Says whether the server marked the statement as a conditional one.
    pub const fn is_conditional(&self) -> bool {
        self.conditional
    }

    /// Returns the index of the statement's table; see [`PreparedStatement::table`].
    #[inline]
    pub fn table<H>(&self, routing: &Routing<H>) -> Option<TableIdx> {
        self.table.or_else(|| {
            let (keyspace, table) = self.table_name.as_ref()?;
            routing.table_idx(keyspace, table)
        })
    }

    /// Describes the bind markers, in their order.
    pub(super) fn bind_columns(&self) -> &[ColumnSpec] {
        &self.bind_columns
    }

    /// Returns the pair that the statement had when it was prepared.
    #[inline]
    pub const fn first_shape(&self) -> &Arc<ResultShape> {
        &self.first_shape
    }

    /// Says whether nothing has changed since the statement was prepared.
    #[inline]
    pub fn is_as_prepared(&self) -> bool {
        self.marks.load(Ordering::Relaxed) == 0
    }

    /// Encodes values into a buffer that is empty; see [`PreparedStatement::encode`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn encode(
        &self,
        values: &impl ToRow,
        out: &mut EncodedValues,
    ) -> Result<Option<Token>, BindError> {
        self.check_markers()?;
        values.to_row(&self.bind_columns, &mut RowWriter::new(out))?;
        self.token(out)
    }

    fn renew(&self, seen: &Arc<ResultShape>, news: ResultShape) {
        self.marks.fetch_or(RENEWED, Ordering::Relaxed);
        self.shape.replace(seen, Arc::new(news));
    }

    /// Makes the EXECUTE; see [`PreparedStatement::execute`].
    #[inline]
    pub fn execute<'a>(
        &'a self,
        shape: &'a ResultShape,
        mut params: ParamsRef<'a>,
        features: &ProtocolFeatures,
    ) -> RequestRef<'a> {
        let announced = shape.announce(features);
        params.skip_metadata = announced.skip_metadata;
        RequestRef::Execute {
            id: &self.id,
            result_metadata_id: announced.id,
            tablet_block: 0,
            params,
        }
    }

    /// Refuses a statement that a server was seen to read differently.
    ///
    /// A table that was dropped and made again leaves the statement's id as it was, so the server itself would take
    /// the old values for new ones.
    ///
    /// # Errors
    /// The markers have changed.
    #[inline]
    pub fn check_markers(&self) -> Result<(), BindError> {
        if self.marks.load(Ordering::Relaxed) & OUTDATED != 0 {
            return Err(BindError::Outdated);
        }
        Ok(())
    }

    /// Takes note of what a server answered to another PREPARE of this text.
    ///
    /// # Errors
    /// Values that were encoded for this statement would be read as something else: it is of no use any more.
    pub fn learn_prepared(&self, body: &PreparedBody) -> Result<(), BindError> {
        let same_count = self.bind_columns.len() == body.bind_columns.len();
        let mut pairs = self.bind_columns.iter().zip(body.bind_columns.iter());
        if !same_count || !pairs.all(|(old, new)| new.ty.reads_values_of(&old.ty)) {
            self.marks.fetch_or(OUTDATED, Ordering::Relaxed);
            return Err(BindError::Outdated);
        }
        let seen = self.shape.load();
        if let Some(news) = seen.after_prepare(body) {
            self.renew(&seen, news);
        }
        Ok(())
    }

    /// Takes note of newer columns in an answer to a request that announced `seen`.
    ///
    /// News that is older than what the statement has learned meanwhile is dropped.
    pub fn learn_rows(&self, seen: &Arc<ResultShape>, metadata: &ResultMetadata) {
        if let Some(news) = ResultShape::of_changed_rows(metadata) {
            self.contradicted.store(false, Ordering::Relaxed);
            self.renew(seen, news);
        }
    }

    /// Takes note of an answer that cannot be read; says what is worth telling an operator.
    ///
    /// A server that announces new columns and does not send them spoils each request until it sends some, so that is
    /// told once.
    pub fn learn_unreadable(&self, error: &ResultError) -> Option<Note> {
        let ResultError::Protocol(cause) = error else {
            return None;
        };
        let news = matches!(cause.kind, ProtocolErrorKind::MetadataFlags(_))
            && !self.contradicted.swap(true, Ordering::Relaxed);
        news.then(|| Note::ColumnsContradicted {
            text: Arc::clone(&self.text),
        })
    }

    /// Hashes the partition key where its values lie.
    #[inline(always)] // On the path of every request.
    fn token(&self, values: &EncodedValues) -> Result<Option<Token>, BindError> {
        // The usual key is the first marker alone.
        if let [0] = *self.pk_indexes
            && let Some(value) = values.first()
        {
            return Ok(self.partitioner.token(value));
        }
        self.token_of_parts(values)
    }

    #[inline(never)]
    fn token_of_parts(&self, values: &EncodedValues) -> Result<Option<Token>, BindError> {
        if self.pk_indexes.is_empty() {
            return Ok(None);
        }
        let mut hasher = TokenHasher::new(self.partitioner, self.pk_indexes.len());
        for &index in &self.pk_indexes {
            let Some(value) = values.value_at(usize::from(index)) else {
                return Err(BindError::KeyMissing {
                    column: self.column_name(index),
                });
            };
            if let Err(error) = hasher.part(value) {
                return Err(BindError::KeyTooLong {
                    column: self.column_name(index),
                    len: error.len,
                });
            }
        }
        Ok(hasher.finish())
    }

    fn column_name(&self, index: u16) -> Box<str> {
        self.bind_columns
            .get(usize::from(index))
            .map_or("?", |column| &*column.name)
            .into()
    }
}

/// Holds one version of a statement's result columns: the columns and the id the server gave them, always as one.
#[derive(Clone, Debug, Default)]
pub struct ResultShape {
    columns: Option<Arc<[ColumnSpec]>>,
    metadata_id: Option<Bytes>,
    /// The columns as servers write them, where they can be known by that.
    known: Option<KnownColumns>,
}

impl ResultShape {
    /// Makes a pair; a list without columns counts as none, because rows cannot be decoded with it.
    pub fn new(columns: Option<Arc<[ColumnSpec]>>, metadata_id: Option<Bytes>) -> Self {
        let columns = columns.filter(|columns| !columns.is_empty());
        Self {
            known: columns.as_deref().and_then(KnownColumns::new),
            columns,
            metadata_id,
        }
    }

    /// Recognises the body of a RESULT that is nothing but rows of these columns.
    #[inline]
    pub(crate) fn plain_rows(&self, body: &Bytes) -> Option<(&Arc<[ColumnSpec]>, PlainRows)> {
        let rows = self.known.as_ref()?.rows(body)?;
        Some((self.columns.as_ref()?, rows))
    }

    /// Takes the pair from an answer to PREPARE.
    pub fn of_prepared(body: &PreparedBody) -> Self {
        Self::new(body.result.columns.clone(), body.result_metadata_id.clone())
    }

    /// Takes the pair from rows that announce a change; none where they announce nothing or bring no columns.
    fn of_changed_rows(metadata: &ResultMetadata) -> Option<Self> {
        let id = metadata.new_metadata_id.clone()?;
        let columns = metadata
            .columns
            .clone()
            .filter(|columns| !columns.is_empty())?;
        Some(Self::new(Some(columns), Some(id)))
    }

    /// Decides what another PREPARE changes; none when the pair stays.
    ///
    /// An id never stays beside columns it did not come with. A server that names no columns keeps those already
    /// learned, unless they could not be told apart from newer ones.
    fn after_prepare(&self, body: &PreparedBody) -> Option<Self> {
        let news = Self::of_prepared(body);
        let same = news.columns == self.columns && news.metadata_id == self.metadata_id;
        let keep = same
            || match (&news.columns, &news.metadata_id) {
                (Some(_), _) => false,
                (None, Some(_)) => self.columns.is_some(),
                (None, None) => self.columns.is_some() && self.metadata_id.is_some(),
            };
        (!keep).then_some(news)
    }

    /// Returns the columns, at least one of them.
    pub const fn columns(&self) -> Option<&Arc<[ColumnSpec]>> {
        self.columns.as_ref()
    }

    /// Returns the id of the columns.
    pub const fn metadata_id(&self) -> Option<&Bytes> {
        self.metadata_id.as_ref()
    }

    /// Says what an EXECUTE tells a server about this pair.
    ///
    /// Columns are only skipped where the server would notice that they changed: with the extension of protocol 4
    /// that adds metadata ids, and with both columns and their id at hand. An id without columns is not told, so
    /// that the server sends them.
    #[inline]
    pub fn announce(&self, features: &ProtocolFeatures) -> Announcement<'_> {
        let id = match &self.columns {
            Some(_) if features.has_metadata_id() => self.metadata_id.as_deref(),
            _ => None,
        };
        Announcement {
            id,
            skip_metadata: id.is_some() && features.version == ProtocolVersion::V4,
        }
    }
}

/// Says what an EXECUTE tells a server about the columns the client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement<'a> {
    /// The id; none is written as an empty one where the layout has room for it.
    pub id: Option<&'a [u8]>,
    /// Whether the answer may come without columns.
    pub skip_metadata: bool,
}

/// Holds the current [`ResultShape`] of a statement where several tasks can read and replace it.
///
/// The core takes no lock, so the owner brings the cell. [`replace`](Self::replace) only acts while the cell still
/// holds what the caller has seen: late news must not overwrite newer news.
pub trait ShapeCell: Debug + Send + Sync {
    /// Returns the current pair.
    fn load(&self) -> Arc<ResultShape>;

    /// Puts a new pair in place of `seen`, if that is still the current one.
    fn replace(&self, seen: &Arc<ResultShape>, new: Arc<ResultShape>);
}

/// The cell of an owner that does not replace pairs.
#[derive(Debug)]
struct FixedShape(Arc<ResultShape>);

impl ShapeCell for FixedShape {
    fn load(&self) -> Arc<ResultShape> {
        Arc::clone(&self.0)
    }

    fn replace(&self, _seen: &Arc<ResultShape>, _new: Arc<ResultShape>) {}
}

#[cfg(test)]
mod keys;
#[cfg(test)]
mod races;
#[cfg(test)]
mod tests;
