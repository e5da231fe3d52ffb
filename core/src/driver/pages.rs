//! A paged read as the owner of a driver holds it between two pages.
//! Which page comes next is `Paging`'s to say; each page is a request of its own.

use super::question::Question;
use crate::error::value::BindError;
use crate::exec::paging::{Paging, PagingState};
use crate::exec::statement::{AsStatement, Bound};
use crate::types::ToRow;

/// The pages of one read, fetched one by one with [`Driver::next_page`](super::Driver::next_page).
///
/// The driver takes it for the time of a request and gives it back with the page. After a failure the same page is next
/// again.
#[derive(Debug)]
pub struct Pages {
    pub(super) question: Question,
    pub(super) paging: Paging,
}

impl Pages {
    /// Plans to read the result of a statement page by page.
    ///
    /// A text with values is prepared with the first page.
    ///
    /// # Errors
    /// The values do not fit the prepared statement.
    pub fn new<V>(statement: &(impl AsStatement + ?Sized), values: V) -> Result<Self, BindError>
    where
        V: ToRow + Send + 'static,
    {
        Question::new(statement, values).map(Self::of_question)
    }

    /// Plans to read the result of a bound statement page by page.
    pub fn of(bound: Bound) -> Self {
        Self::of_question(Question::Bound(Box::new(bound)))
    }

    fn of_question(question: Question) -> Self {
        let resume = question
            .options()
            .and_then(|options| options.paging_state.clone());
        Self {
            question,
            paging: Paging::resume(resume),
        }
    }

    /// Says whether there is another page, as the server told with the last one.
    pub fn more(&self) -> bool {
        self.paging.more()
    }

    /// Returns where the next page starts, to go on from there at another time.
    pub const fn state(&self) -> Option<&PagingState> {
        self.paging.state()
    }
}
