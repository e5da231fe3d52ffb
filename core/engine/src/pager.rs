//! Paged reads: `Pages` hands out one page after the other, `RowStream` the rows of all of them.
//! Which page comes next is the core's `Paging`; each page is a request of its own.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use messina_core::error::request::{RequestError, RequestErrorKind};
use messina_core::error::result::ResultError;
use messina_core::error::value::BindError;
use messina_core::exec::StatementKind;
use messina_core::exec::paging::{Paging, PagingState};
use messina_core::exec::plan::Aim;
use messina_core::exec::prepared::{Preparation, PreparedStatement, ResultShape};
use messina_core::exec::result::Page;
use messina_core::exec::statement::{
    AnyStatement, AsStatement, Bound, RequestSettings, Statement, StatementOptions,
};
use messina_core::routing::Routing;
use messina_core::types::{EncodedValues, FromRow, RowWriter, ToRow};
use messina_core::wire::{
    PreparedBody, ProtocolFeatures, RequestOptionsRef, RequestRef, ValuesRef,
};

use crate::call::Call;
use crate::execute::read;
use crate::lane::Lane;
use crate::runtime::Runtime;
use crate::session::Shared;
use crate::source::{BoundSource, Encoded, Source, TextSource};

/// The pages of one read, fetched one by one.
///
/// A page that could not be fetched can be asked for again: the next call of [`next`](Self::next) does so.
pub struct Pages<'s, R: Runtime> {
    shared: &'s Shared<R>,
    what: What<'s>,
    paging: Paging,
    call: Option<Call<R>>,
    prefetch: bool,
    /// What became of the page that was asked for ahead of its time, if it came before anybody wanted it.
    ahead: Option<Result<Page, RequestError>>,
}

/// Binds the values that a text came with.
type Bind<'s> = Box<dyn FnOnce(&PreparedStatement) -> Result<Bound, BindError> + Send + 's>;

enum What<'s> {
    Bound(Box<Bound>),
    Text(Box<Statement>),
    /// A text with values; it is prepared with the first page.
    Typed(Box<TypedText<'s>>),
    Failed(Option<RequestError>),
}

impl<'s, R: Runtime> Pages<'s, R> {
    pub(crate) fn new<V>(
        shared: &'s Shared<R>,
        statement: &(impl AsStatement + ?Sized),
        row: V,
    ) -> Self
    where
        V: ToRow + Send + 's,
    {
        let what = match statement.as_statement() {
            AnyStatement::Prepared(statement) => match statement.bind(row) {
                Ok(bound) => What::Bound(Box::new(bound)),
                Err(error) => What::Failed(Some(RequestError::from(error))),
            },
            AnyStatement::Text { text, options } => {
                let options = options.cloned().unwrap_or_default();
                match row.to_row(&[], &mut RowWriter::new(&mut EncodedValues::new())) {
                    Ok(()) => {
                        let mut statement = Statement::new(text);
                        *statement.options_mut() = options;
                        What::Text(Box::new(statement))
                    }
                    Err(_) => What::Typed(Box::new(TypedText {
                        text: text.into(),
                        options,
                        bind: Some(Box::new(move |prepared| prepared.bind(row))),
                        bound: None,
                    })),
                }
            }
        };
        Self::of(shared, what)
    }

    pub(crate) fn bound(shared: &'s Shared<R>, bound: Bound) -> Self {
        Self::of(shared, What::Bound(Box::new(bound)))
    }

    fn of(shared: &'s Shared<R>, what: What<'s>) -> Self {
        let resume = match &what {
            What::Bound(bound) => bound.options().paging_state.clone(),
            What::Text(statement) => statement.options().paging_state.clone(),
            What::Typed(typed) => typed.options.paging_state.clone(),
            What::Failed(_) => None,
        };
        Self {
            shared,
            what,
            paging: Paging::resume(resume),
            call: None,
            prefetch: false,
            ahead: None,
        }
    }

    /// Asks for one page ahead while the one before it is being read. Off by default, because a reader that stops early
    /// has then asked for a page in vain.
    ///
    /// The limit on the time of that page runs from then on.
    #[must_use]
    pub fn prefetch(mut self, prefetch: bool) -> Self {
        self.prefetch = prefetch;
        self
    }

    /// Fetches the next page; none behind the last one.
    ///
    /// A page may be empty although others follow: only the server knows where the end is.
    ///
    /// # Errors
    /// The request for this page failed. The same page is next again.
    pub async fn next(&mut self) -> Result<Option<Page>, RequestError> {
        poll_fn(|cx| self.poll_page(cx)).await
    }

    /// Returns where the next page starts, to go on from there at another time.
    pub fn state(&self) -> Option<&PagingState> {
        self.paging.state()
    }

    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Page>, RequestError>> {
        if !self.paging.more() {
            return Poll::Ready(Ok(None));
        }
        let page = match self.ahead.take() {
            Some(page) => page,
            None => ready!(self.poll_fetch(cx)),
        };
        let page = page.and_then(|page| match self.paging.handle_page(&page) {
            Ok(()) => Ok(page),
            Err(error) => Err(RequestError::from(error)),
        });
        if page.is_err() {
            self.paging.handle_failure();
        } else if self.prefetch
            && self.paging.more()
            && let Poll::Ready(next) = self.poll_fetch(cx)
        {
            self.ahead = Some(next);
        }
        Poll::Ready(page.map(Some))
    }

    /// Fetches the page that is next.
    fn poll_fetch(&mut self, cx: &mut Context<'_>) -> Poll<Result<Page, RequestError>> {
        let Some(next) = self.paging.next() else {
            let kind = RequestErrorKind::Internal("a page behind the last one is fetched");
            return Poll::Ready(Err(RequestError::new(kind)));
        };
        let aim = Aim {
            prefer: next.prefer,
            ..Aim::default()
        };
        let (shared, call) = (self.shared, &mut self.call);
        let page = match &mut self.what {
            What::Bound(bound) => poll_call(
                shared,
                call,
                BoundSource {
                    bound,
                    paging_state: next.state,
                },
                aim,
                cx,
            ),
            What::Text(statement) => poll_call(
                shared,
                call,
                TextSource {
                    statement,
                    paging_state: next.state,
                },
                aim,
                cx,
            ),
            What::Typed(typed) => {
                let paging_state = next.state;
                poll_call(
                    shared,
                    call,
                    TypedSource {
                        typed,
                        paging_state,
                    },
                    aim,
                    cx,
                )
            }
            What::Failed(error) => {
                let again = || {
                    RequestError::new(RequestErrorKind::Internal(
                        "a read that failed was polled again",
                    ))
                };
                return Poll::Ready(Err(error.take().unwrap_or_else(again)));
            }
        };
        if page.is_ready() {
            self.call = None;
        }
        page
    }
}

impl<R: Runtime> Unpin for Pages<'_, R> {}

/// The pages as a stream. An error is an item in the place of its page, which is next again.
impl<R: Runtime> Stream for Pages<'_, R> {
    type Item = Result<Page, RequestError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_page(cx).map(Result::transpose)
    }
}

impl<R: Runtime> fmt::Debug for Pages<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages")
            .field("paging", &self.paging)
            .finish_non_exhaustive()
    }
}

/// Fetches one page.
fn poll_call<R: Runtime>(
    shared: &Shared<R>,
    call: &mut Option<Call<R>>,
    mut source: impl Source,
    aim: Aim,
    cx: &mut Context<'_>,
) -> Poll<Result<Page, RequestError>> {
    let call = call.get_or_insert_with(|| Call::new(aim));
    call.poll(shared, &mut source, cx, |source, answer| {
        read(shared, source, answer)
    })
}

/// A text with values of a type that is forgotten, so that the pages have no type parameter for it.
struct TypedText<'s> {
    text: Arc<str>,
    options: StatementOptions,
    bind: Option<Bind<'s>>,
    bound: Option<Bound>,
}

struct TypedSource<'a, 's> {
    typed: &'a mut TypedText<'s>,
    paging_state: Option<&'a PagingState>,
}

impl TypedSource<'_, '_> {
    fn bound(&self) -> Option<BoundSource<'_>> {
        let bound = self.typed.bound.as_ref()?;
        Some(BoundSource {
            bound,
            paging_state: self.paging_state,
        })
    }
}

impl Source for TypedSource<'_, '_> {
    fn kind(&self) -> StatementKind {
        match self.bound() {
            Some(bound) => bound.kind(),
            None => StatementKind::TextWithValues(Arc::clone(&self.typed.text)),
        }
    }

    fn options(&self) -> Option<&StatementOptions> {
        Some(&self.typed.options)
    }

    fn is_conditional(&self) -> bool {
        self.bound().is_some_and(|bound| bound.is_conditional())
    }

    fn is_plain(&self) -> bool {
        self.typed.bound.is_some()
    }

    fn lend<T>(
        &self,
        settings: &RequestSettings,
        values: ValuesRef<'_>,
        features: &ProtocolFeatures,
        send: impl FnOnce(RequestRef<'_>, &RequestOptionsRef<'_>) -> T,
    ) -> T {
        match self.bound() {
            Some(bound) => bound.lend(settings, values, features, send),
            // The text is prepared first, which the execution sees to.
            None => {
                let request = RequestRef::Prepare {
                    text: &self.typed.text,
                    keyspace: None,
                };
                send(request, &RequestOptionsRef::default())
            }
        }
    }

    fn encode<'a>(
        &'a self,
        routing: &Routing<Arc<Lane>>,
        _scratch: &'a mut EncodedValues,
    ) -> Result<Encoded<'a>, BindError> {
        match &self.typed.bound {
            Some(bound) => Encoded::of(bound, routing),
            None => Ok(Encoded::default()),
        }
    }

    fn announced(&self) -> Option<(&Preparation, &Arc<ResultShape>)> {
        self.typed
            .bound
            .as_ref()
            .map(|bound| (&**bound.statement().preparation(), bound.shape()))
    }

    fn bind(&mut self, body: PreparedBody, routing: &Routing<Arc<Lane>>) -> Result<(), BindError> {
        let Some(bind) = self.typed.bind.take() else {
            return Ok(());
        };
        let prepared = PreparedStatement::new(Arc::clone(&self.typed.text), None, body, routing);
        let mut bound = bind(&prepared)?;
        *bound.options_mut() = self.typed.options.clone();
        self.typed.bound = Some(bound);
        Ok(())
    }
}

/// The rows of a read as owned values, over all pages.
///
/// It decodes one page at a time. After an error it has ended.
pub struct RowStream<'s, R: Runtime, T> {
    pages: Option<Pages<'s, R>>,
    rows: VecDeque<T>,
    /// What ends the stream once the rows before it are taken.
    failed: Option<RequestError>,
}

impl<'s, R: Runtime, T> RowStream<'s, R, T>
where
    T: for<'r> FromRow<'r>,
{
    pub(crate) fn new(pages: Pages<'s, R>) -> Self {
        Self {
            pages: Some(pages),
            rows: VecDeque::new(),
            failed: None,
        }
    }

    /// Asks for one page ahead while the one before it is being read; see [`Pages::prefetch`].
    #[must_use]
    pub fn prefetch(mut self, prefetch: bool) -> Self {
        self.pages = self.pages.map(|pages| pages.prefetch(prefetch));
        self
    }

    /// Returns where the next page starts, to go on from there at another time: rows that were decoded and not taken
    /// yet lie before it.
    pub fn state(&self) -> Option<&PagingState> {
        self.pages.as_ref()?.state()
    }

    /// Returns the next row; none behind the last one.
    ///
    /// # Errors
    /// A page could not be fetched or a row not be read; nothing follows.
    pub async fn next(&mut self) -> Option<Result<T, RequestError>> {
        poll_fn(|cx| self.poll_row(cx)).await
    }

    fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, RequestError>>> {
        loop {
            if let Some(row) = self.rows.pop_front() {
                return Poll::Ready(Some(Ok(row)));
            }
            if let Some(error) = self.failed.take() {
                self.pages = None;
                return Poll::Ready(Some(Err(error)));
            }
            let Some(pages) = &mut self.pages else {
                return Poll::Ready(None);
            };
            match ready!(pages.poll_page(cx)) {
                Ok(Some(page)) => {
                    self.failed = decode(&page, &mut self.rows).err().map(RequestError::from)
                }
                Ok(None) => self.pages = None,
                Err(error) => self.failed = Some(error),
            }
        }
    }
}

fn decode<T>(page: &Page, rows: &mut VecDeque<T>) -> Result<(), ResultError>
where
    T: for<'r> FromRow<'r>,
{
    if !page.is_rows() {
        return Ok(());
    }
    for row in page.rows::<T>()? {
        rows.push_back(row.map_err(ResultError::Decode)?);
    }
    Ok(())
}

// Nothing in it is pinned in place.
impl<R: Runtime, T> Unpin for RowStream<'_, R, T> {}

impl<R: Runtime, T> Stream for RowStream<'_, R, T>
where
    T: for<'r> FromRow<'r>,
{
    type Item = Result<T, RequestError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_row(cx)
    }
}

impl<R: Runtime, T> fmt::Debug for RowStream<'_, R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowStream")
            .field("decoded", &self.rows.len())
            .finish_non_exhaustive()
    }
}
