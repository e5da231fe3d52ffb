//! What a request brought back: rows that own their frame, or the word that something was done.
//!
//! This module leaves out how cells become values (`types`) and how further pages are fetched (`exec::paging`).

use std::sync::Arc;

use bytes::{Buf, Bytes};
use uuid::Uuid;

use crate::cluster::AgreementOutcome;
use crate::error::connect::Fate;
use crate::error::request::{Attempt, RequestError};
use crate::error::result::ResultError;
use crate::error::session::SessionError;
use crate::error::value::{DecodeError, TypeError};
use crate::exec::columns::PageColumns;
use crate::exec::paging::PagingState;
use crate::exec::plan::Coordinator;
use crate::exec::prepared::{Preparation, ResultShape};
use crate::types::column_type::ColumnType;
use crate::types::row::{FromRow, Row, RowView, Rows};
use crate::wire::event::SchemaChange;
use crate::wire::response::{Response, ResponseFrame};
use crate::wire::result::{ColumnSpec, ResultBody, ResultMetadata, RowsBody};
use crate::wire::supported::ProtocolFeatures;

/// Holds the answer to a statement; rows are read where they lie in the frame.
///
/// The frame shares its memory with other answers of its connection. A result that is kept for long should be
/// [detached](Self::detach).
#[derive(Clone, Debug)]
pub struct QueryResult {
    body: Answer,
    extras: Option<Box<Extras>>,
    coordinator: Option<Coordinator>,
}

/// Says what a session has to follow that one of its requests has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowUp<'a> {
    /// The schema: all nodes are to agree on it, and [`with_agreement`](QueryResult::with_agreement) tells how that
    /// ended.
    Schema(&'a SchemaChange),
    /// The keyspace of one connection: all others are to enter it, and [`with_keyspace`](QueryResult::with_keyspace)
    /// tells whether they did.
    Keyspace(&'a str),
}

/// One page of a read: a result like any other.
pub type Page = QueryResult;

impl QueryResult {
    /// Reads an answer; the one place where the columns of a page are read.
    ///
    /// `announced` is what the request told the server about its columns: the pair that rows without columns are
    /// read with, and the statement that learns of newer ones.
    ///
    /// # Errors
    /// The answer is no result, or breaks the protocol.
    #[inline]
    pub fn parse(
        frame: &ResponseFrame,
        features: &ProtocolFeatures,
        announced: Option<(&Preparation, &Arc<ResultShape>)>,
        coordinator: Option<Coordinator>,
    ) -> Result<Self, ResultError> {
        // The answer to most writes: nothing around it, nothing in it.
        if frame.is_bare_void() {
            return Ok(Self::void(coordinator));
        }
        Self::parse_whole(frame, features, announced, coordinator)
    }

    /// Reads an answer that is nothing but rows of the columns that were announced, by comparing bytes.
    ///
    /// # Errors
    /// It is anything else, and comes back to be [parsed](Self::parse).
    #[inline]
    pub fn read_plain(
        frame: ResponseFrame,
        shape: &ResultShape,
        coordinator: Option<Coordinator>,
    ) -> Result<Self, ResponseFrame> {
        let is_bare = frame.is_bare_result();
        match shape.plain_rows(&frame.body).filter(|_| is_bare) {
            Some((columns, rows)) => {
                let mut cells = frame.body;
                cells.advance(rows.cells_at);
                Ok(Self {
                    body: Answer::Rows(RowsPage {
                        columns: Arc::clone(columns),
                        row_count: rows.row_count,
                        cells,
                        paging_state: None,
                        more_pages: false,
                    }),
                    extras: None,
                    coordinator,
                })
            }
            None => Err(frame),
        }
    }

    /// Makes the answer that says that something was done, and nothing else.
    #[inline]
    pub const fn void(coordinator: Option<Coordinator>) -> Self {
        Self {
            body: Answer::Void,
            extras: None,
            coordinator,
        }
    }

    fn parse_whole(
        frame: &ResponseFrame,
        features: &ProtocolFeatures,
        announced: Option<(&Preparation, &Arc<ResultShape>)>,
        coordinator: Option<Coordinator>,
    ) -> Result<Self, ResultError> {
        let known = announced.and_then(|(_, shape)| shape.columns());
        let envelope = frame
            .parse_known(features, known)
            .map_err(ResultError::Protocol)?;
        let Response::Result(body) = envelope.response else {
            return Err(ResultError::NotAResult);
        };
        let body = match body {
            ResultBody::Void => Answer::Void,
            ResultBody::Rows(rows) => Answer::Rows(RowsPage::new(rows, announced)?),
            ResultBody::SetKeyspace(keyspace) => Answer::SetKeyspace(keyspace.into()),
            ResultBody::SchemaChange(change) => Answer::SchemaChange(Box::new(change)),
            _ => return Err(ResultError::NotAResult),
        };
        let plain = envelope.warnings.is_empty()
            && envelope.custom_payload.is_empty()
            && envelope.tracing_id.is_none();
        let extras = (!plain).then(|| {
            Box::new(Extras {
                warnings: envelope.warnings,
                custom_payload: envelope.custom_payload,
                tracing_id: envelope.tracing_id,
                ..Extras::default()
            })
        });
        Ok(Self {
            body,
            extras,
            coordinator,
        })
    }

    /// Adds the attempts that failed before this answer came.
    #[must_use]
    pub fn with_attempts(mut self, attempts: &[Attempt]) -> Self {
        if !attempts.is_empty() {
            self.extras.get_or_insert_default().attempts = attempts.to_vec();
        }
        self
    }

    /// Adds how the wait for schema agreement ended.
    #[must_use]
    pub fn with_agreement(mut self, outcome: AgreementOutcome) -> Self {
        self.extras.get_or_insert_default().agreement = Some(outcome);
        self
    }

    /// Adds that a copy of the request brought this answer.
    #[must_use]
    pub fn with_copy(mut self) -> Self {
        self.extras.get_or_insert_default().won_by_copy = true;
        self
    }

    /// Goes over the rows as values of type `T`, which is compared with the columns once.
    ///
    /// # Errors
    /// The statement returns no rows, or `T` does not fit its columns.
    pub fn rows<'p, T: FromRow<'p>>(&'p self) -> Result<Rows<'p, T>, ResultError> {
        let page = self.page().ok_or(ResultError::NotRows)?;
        Rows::new(&page.columns, page.row_count, &page.cells).map_err(ResultError::Type)
    }

    /// Goes over the rows with columns looked up by name or place at run time.
    ///
    /// # Errors
    /// The statement returns no rows.
    pub fn dynamic_rows(&self) -> Result<Rows<'_, Row<'_>>, ResultError> {
        self.rows()
    }

    /// Reads the only row.
    ///
    /// # Errors
    /// There is no row, there are several, there are further pages, or the row does not fit `T`.
    pub fn one<'p, T: FromRow<'p>>(&'p self) -> Result<T, ResultError> {
        self.maybe_one()?.ok_or(ResultError::NoRow)
    }

    /// Reads the only row, if there is one.
    ///
    /// # Errors
    /// There are several rows or further pages, or the row does not fit `T`.
    pub fn maybe_one<'p, T: FromRow<'p>>(&'p self) -> Result<Option<T>, ResultError> {
        let first = self.first()?;
        let rows = self.row_count();
        if 1 < rows {
            return Err(ResultError::ManyRows { rows });
        }
        // An empty page in between says nothing about the rows behind it.
        if self.has_more_pages() {
            return Err(ResultError::MorePages);
        }
        Ok(first)
    }

    /// Reads the first row of this page, if there is one.
    ///
    /// # Errors
    /// The statement returns no rows, or the row does not fit `T`.
    pub fn first<'p, T: FromRow<'p>>(&'p self) -> Result<Option<T>, ResultError> {
        self.rows::<T>()?
            .next()
            .transpose()
            .map_err(ResultError::Decode)
    }

    /// Says whether a conditional statement was applied.
    ///
    /// # Errors
    /// The result has no boolean column `[applied]` in front, or no row: the statement was not a conditional one.
    /// A conditional batch has a row for each of its statements, all saying the same.
    pub fn applied(&self) -> Result<bool, ResultError> {
        let page = self.page().ok_or(ResultError::NotConditional)?;
        let is_mark =
            |column: &&ColumnSpec| &*column.name == "[applied]" && column.ty == ColumnType::Boolean;
        if page.columns.first().filter(is_mark).is_none() {
            return Err(ResultError::NotConditional);
        }
        let row: Option<Row<'_>> = self.first()?;
        row.ok_or(ResultError::NotConditional)?
            .read_at(0)
            .map_err(ResultError::Decode)
    }

    /// Reads the row that a conditional statement found, behind the mark that says whether it was applied.
    ///
    /// None where there was no row, or where the server tells none: ScyllaDB sends the columns with either outcome,
    /// Cassandra only when the statement was not applied. Of a conditional batch this is the row of its first
    /// statement.
    ///
    /// # Errors
    /// The statement was not a conditional one, or `T` does not fit the columns behind the mark.
    pub fn previous<'p, T: FromRow<'p>>(&'p self) -> Result<Option<T>, ResultError> {
        self.applied()?;
        if self.columns().len() == 1 {
            return Ok(None);
        }
        let row: Option<BehindMark<T>> = self.first()?;
        Ok(row.and_then(|row| row.0))
    }

    /// Splits the page into its columns, to read all values of one column after another.
    ///
    /// # Errors
    /// The statement returns no rows, or the page is cut short.
    pub fn by_column(&self) -> Result<PageColumns<'_>, ResultError> {
        let page = self.page().ok_or(ResultError::NotRows)?;
        PageColumns::new(&page.columns, page.row_count, &page.cells).map_err(ResultError::Decode)
    }

    /// Says whether the answer is rows, be they none.
    pub const fn is_rows(&self) -> bool {
        matches!(self.body, Answer::Rows(_))
    }

    /// Returns the number of rows of this page; zero for an answer without rows.
    pub fn row_count(&self) -> usize {
        self.page().map_or(0, |page| page.row_count)
    }

    /// Describes the columns; empty for an answer without rows.
    pub fn columns(&self) -> &[ColumnSpec] {
        self.page().map_or(&[], |page| &page.columns)
    }

    /// Says whether the server has further pages.
    pub fn has_more_pages(&self) -> bool {
        self.page().is_some_and(|page| page.more_pages)
    }

    /// Returns where the next page starts.
    pub fn paging_state(&self) -> Option<&PagingState> {
        self.page()?.paging_state.as_ref()
    }

    /// Checks that this is all there is, for callers that do not read further pages.
    ///
    /// # Errors
    /// The server has further pages.
    pub fn expect_last_page(&self) -> Result<(), ResultError> {
        if self.has_more_pages() {
            Err(ResultError::MorePages)
        } else {
            Ok(())
        }
    }

    /// Returns the server's warnings.
    pub fn warnings(&self) -> &[String] {
        self.extras.as_ref().map_or(&[], |extras| &extras.warnings)
    }

    /// Returns what the server's extensions added to the answer.
    pub fn custom_payload(&self) -> &[(String, Option<Bytes>)] {
        self.extras
            .as_ref()
            .map_or(&[], |extras| &extras.custom_payload)
    }

    /// Returns the id of the trace that the server recorded.
    pub fn tracing_id(&self) -> Option<Uuid> {
        self.extras.as_ref()?.tracing_id
    }

    /// Returns the keyspace that the connection changed to, for an answer to USE.
    pub fn set_keyspace(&self) -> Option<&str> {
        match &self.body {
            Answer::SetKeyspace(keyspace) => Some(keyspace),
            _ => None,
        }
    }

    /// Returns what changed in the schema, for an answer to a statement that defines something.
    pub fn schema_change(&self) -> Option<&SchemaChange> {
        match &self.body {
            Answer::SchemaChange(change) => Some(change),
            _ => None,
        }
    }

    /// Says what the whole session has to follow before this answer is given out, if anything.
    #[inline]
    pub fn follow_up(&self) -> Option<FollowUp<'_>> {
        match &self.body {
            Answer::Void | Answer::Rows(_) => None,
            Answer::SetKeyspace(keyspace) => Some(FollowUp::Keyspace(keyspace)),
            Answer::SchemaChange(change) => Some(FollowUp::Schema(change)),
        }
    }

    /// Adds how the session's other connections entered the keyspace of this answer.
    ///
    /// # Errors
    /// Not all of them did.
    pub fn with_keyspace(self, entered: Result<(), SessionError>) -> Result<Self, RequestError> {
        entered.map(|()| self).map_err(RequestError::keyspace)
    }

    /// Returns the node that answered.
    pub const fn coordinator(&self) -> Option<&Coordinator> {
        self.coordinator.as_ref()
    }

    /// Lists the attempts that failed before this answer came.
    pub fn attempts(&self) -> &[Attempt] {
        self.extras.as_ref().map_or(&[], |extras| &extras.attempts)
    }

    /// Says how the wait for schema agreement ended that followed a statement which defines something; none where
    /// nobody waited.
    pub fn schema_agreement(&self) -> Option<&AgreementOutcome> {
        self.extras.as_ref()?.agreement.as_ref()
    }

    /// Says whether the answer came from a copy that overtook the request itself.
    pub fn won_by_copy(&self) -> bool {
        self.extras
            .as_ref()
            .is_some_and(|extras| extras.won_by_copy)
    }

    /// Says whether an earlier attempt of this request may have been applied as well.
    pub fn maybe_applied_twice(&self) -> bool {
        self.attempts()
            .iter()
            .any(|attempt| attempt.fate == Fate::MaybeApplied)
    }

    /// Copies the result out of the memory it shares with other answers, so that keeping it keeps nothing else.
    #[must_use]
    pub fn detach(mut self) -> Self {
        if let Answer::Rows(page) = &mut self.body {
            page.cells = Bytes::copy_from_slice(&page.cells);
            page.paging_state = page.paging_state.take().map(|state| state.detach());
        }
        if let Some(extras) = &mut self.extras {
            for (_, value) in &mut extras.custom_payload {
                *value = value.take().map(|value| Bytes::copy_from_slice(&value));
            }
        }
        self
    }

    const fn page(&self) -> Option<&RowsPage> {
        match &self.body {
            Answer::Rows(page) => Some(page),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
enum Answer {
    Void,
    Rows(RowsPage),
    SetKeyspace(Box<str>),
    SchemaChange(Box<SchemaChange>),
}

/// Holds the rows of one page with the columns to read them by.
#[derive(Clone, Debug)]
struct RowsPage {
    columns: Arc<[ColumnSpec]>,
    row_count: usize,
    cells: Bytes,
    paging_state: Option<PagingState>,
    more_pages: bool,
}

impl RowsPage {
    fn new(
        rows: RowsBody,
        announced: Option<(&Preparation, &Arc<ResultShape>)>,
    ) -> Result<Self, ResultError> {
        let RowsBody {
            metadata,
            row_count,
            cells,
        } = rows;
        if let Some((statement, seen)) = announced {
            statement.learn_rows(seen, &metadata);
        }
        let columns = columns_of(&metadata, announced.map(|(_, shape)| shape))?;
        let paging_state = metadata.paging_state.map(PagingState::from_bytes);
        Ok(Self {
            columns,
            row_count,
            cells,
            paging_state,
            more_pages: metadata.more_pages,
        })
    }
}

/// Chooses the columns to read rows by: those of the answer, else those its request announced.
///
/// The statement's current columns are no choice, because another answer may have replaced them meanwhile.
fn columns_of(
    metadata: &ResultMetadata,
    announced: Option<&Arc<ResultShape>>,
) -> Result<Arc<[ColumnSpec]>, ResultError> {
    let cells = metadata.column_count;
    let columns = match (
        &metadata.columns,
        announced.and_then(|shape| shape.columns()),
    ) {
        (Some(own), _) => own,
        (None, Some(announced)) => announced,
        (None, None) => return Err(ResultError::NoColumns),
    };
    if columns.len() != cells {
        return Err(ResultError::ColumnCount {
            columns: columns.len(),
            cells,
        });
    }
    Ok(Arc::clone(columns))
}

/// Holds what few answers have.
#[derive(Clone, Debug, Default)]
struct Extras {
    warnings: Vec<String>,
    custom_payload: Vec<(String, Option<Bytes>)>,
    attempts: Vec<Attempt>,
    tracing_id: Option<Uuid>,
    agreement: Option<AgreementOutcome>,
    won_by_copy: bool,
}

/// Reads a row behind the mark of a conditional statement; none where all its cells are null.
struct BehindMark<T>(Option<T>);

impl<'r, T: FromRow<'r>> FromRow<'r> for BehindMark<T> {
    type Plan = T::Plan;

    fn plan(columns: &[ColumnSpec]) -> Result<T::Plan, TypeError> {
        T::plan(columns.get(1..).unwrap_or_default())
    }

    fn from_row(plan: &T::Plan, row: &mut RowView<'r>) -> Result<Self, DecodeError> {
        if let Some(mark) = row.next_cell() {
            mark?;
        }
        let mut cells = row.clone();
        while let Some(cell) = cells.next_cell() {
            if cell?.1.is_some() {
                return T::from_row(plan, row).map(|row| Self(Some(row)));
            }
        }
        *row = cells;
        Ok(Self(None))
    }
}

#[cfg(test)]
mod tests;
