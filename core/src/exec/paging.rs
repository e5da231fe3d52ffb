//! Paged reads: which page comes next, and where a reader can go on after a failure.
//!
//! This module leaves out how a page is fetched: each page is a request of its own, with its own plan, its own
//! deadline and its own retries.

use bytes::Bytes;

use crate::error::result::ResultError;
use crate::exec::result::QueryResult;
use crate::exec::targets::Planned;

/// Walks the pages of one read.
///
/// Ask [`next`](Self::next) what to fetch, then report [`handle_page`](Self::handle_page) or
/// [`handle_failure`](Self::handle_failure). Only the server's word ends the walk, never a row count: pages may be
/// short or empty. After a failure the same page is next again.
#[derive(Clone, Debug, Default)]
pub struct Paging {
    state: Option<PagingState>,
    phase: PagingPhase,
    prefer: Option<Planned>,
}

impl Paging {
    /// Starts at the first page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts where an earlier read left off.
    pub fn resume(state: Option<PagingState>) -> Self {
        Self {
            state: state.filter(|state| !state.as_bytes().is_empty()),
            ..Self::default()
        }
    }

    /// Returns what to fetch next; none behind the last page.
    pub fn next(&self) -> Option<NextPage<'_>> {
        match self.phase {
            PagingPhase::Ended => None,
            PagingPhase::First | PagingPhase::Later => Some(NextPage {
                state: self.state.as_ref(),
                prefer: self.prefer,
            }),
        }
    }

    /// Takes a page that was fetched; answers other than rows are an empty first page and the end.
    ///
    /// # Errors
    /// A page after the first is no rows, or says that there are more without saying where. The walk stays where
    /// it was.
    pub fn handle_page(&mut self, page: &QueryResult) -> Result<(), ResultError> {
        if self.phase == PagingPhase::Later && !page.is_rows() {
            return Err(ResultError::PageNotRows);
        }
        if page.has_more_pages() {
            let state = page
                .paging_state()
                .cloned()
                .ok_or(ResultError::NoPagingState)?;
            self.state = Some(state);
            self.phase = PagingPhase::Later;
        } else {
            self.state = None;
            self.phase = PagingPhase::Ended;
        }
        self.prefer = page.coordinator().map(|coordinator| coordinator.place);
        Ok(())
    }

    /// Takes note that the page could not be fetched: it is still next, and no node is preferred for it.
    pub fn handle_failure(&mut self) {
        self.prefer = None;
    }

    /// Ends the walk before the last page.
    pub fn stop(&mut self) {
        self.phase = PagingPhase::Ended;
    }

    /// Says whether there is another page, as the server told with the last one.
    pub fn more(&self) -> bool {
        self.phase != PagingPhase::Ended
    }

    /// Returns where the next page starts, to go on from there at another time; none at the start and at the end.
    pub const fn state(&self) -> Option<&PagingState> {
        self.state.as_ref()
    }
}

/// Says what to fetch next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextPage<'a> {
    /// Where the page starts; none for the first one.
    pub state: Option<&'a PagingState>,
    /// Which place to try first: the coordinator of the page before.
    pub prefer: Option<Planned>,
}

/// Marks a place in a paged read; opaque, and good for the same statement with the same values on any node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PagingState(Bytes);

impl PagingState {
    /// Takes a state that was stored outside of the driver.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// Returns the state to store it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Copies the state out of the page it came with, so that keeping it does not keep the page.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PagingPhase {
    #[default]
    First,
    Later,
    Ended,
}

#[cfg(test)]
mod tests;
