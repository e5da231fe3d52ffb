//! A client that stands on the core's `Driver`: one task that owns it with all its sockets, as a program's own loop does.
//! It decides nothing; it exists so that the second owner of the machines goes through the same chaos as the engine.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_io::{AsyncRead, AsyncWrite};
use messina_core::cluster::{ConnId, ResolveId};
use messina_core::config::session::SessionConfig;
use messina_core::driver::{Driver, DriverOutput, Pages, RequestId};
use messina_core::error::request::{RequestError, RequestErrorKind};
use messina_core::error::session::SessionError;
use messina_core::exec::batch::Batch;
use messina_core::exec::prepared::PreparedStatement;
use messina_core::exec::result::QueryResult;
use messina_core::exec::statement::{Bound, Statement};
use messina_core::notify::Note;
use messina_engine::Runtime;

use super::client::{Client, Picture};
use super::runtime::{SimRuntime, SimSleep, SimStream};
use super::setup::Setup;
use super::work::lock;

type Opening = Pin<Box<dyn Future<Output = io::Result<SimStream>> + Send>>;
type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// A handle of the task; the session ends with the last one.
#[derive(Clone)]
pub(super) struct DriverClient {
    handle: Arc<Handle>,
}

struct Handle {
    hub: Arc<Hub>,
    runtime: SimRuntime,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = lock(&self.hub.0);
        state.dropped = true;
        state.wake();
    }
}

struct Hub(Mutex<State>);

/// What the handles and the task share.
struct State {
    driver: Driver,
    task: Option<Waker>,
    /// The requests that wait, with what answers them.
    asked: BTreeMap<RequestId, Asked>,
    notes: Vec<Note>,
    ready: Option<Result<(), SessionError>>,
    closed: Option<usize>,
    /// Whoever waits for the start or the end.
    waiting: Vec<Waker>,
    dropped: bool,
    broken: Vec<String>,
}

#[derive(Default)]
struct Asked {
    answer: Option<DriverOutput>,
    waker: Option<Waker>,
}

impl State {
    fn wake(&mut self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }

    fn wake_waiting(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    /// Hands an answer to whom it belongs; each request has one.
    fn answer(&mut self, request: RequestId, answer: DriverOutput) {
        match self.asked.get_mut(&request) {
            Some(asked) if asked.answer.is_none() => {
                asked.answer = Some(answer);
                if let Some(waker) = asked.waker.take() {
                    waker.wake();
                }
            }
            Some(_) => self.broken.push("a request was answered twice".to_owned()),
            None => self
                .broken
                .push("a request was answered that nobody waits for".to_owned()),
        }
    }
}

impl DriverClient {
    /// Starts a driver and waits until it is ready.
    async fn connect(runtime: &SimRuntime, config: SessionConfig) -> Result<Self, SessionError> {
        let seed = runtime.entropy();
        let driver = Driver::new(runtime.now(), runtime.unix_micros(), config, seed);
        let hub = Arc::new(Hub(Mutex::new(State {
            driver,
            task: None,
            asked: BTreeMap::new(),
            notes: Vec::new(),
            ready: None,
            closed: None,
            waiting: Vec::new(),
            dropped: false,
            broken: Vec::new(),
        })));
        let task = DriverTask {
            hub: Arc::clone(&hub),
            runtime: runtime.clone(),
            opening: Vec::new(),
            resolving: Vec::new(),
            sockets: BTreeMap::new(),
            sleep: Box::pin(runtime.sleep_until(runtime.now())),
            closing: false,
        };
        runtime.spawn(task);
        let client = Self {
            handle: Arc::new(Handle {
                hub,
                runtime: runtime.clone(),
            }),
        };
        poll_fn(|cx| {
            let mut state = client.state();
            match &state.ready {
                Some(ready) => Poll::Ready(ready.clone()),
                None => {
                    state.waiting.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await?;
        Ok(client)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.handle.hub.0)
    }

    fn begin_to_close(&self, deadline: Duration) {
        let now = self.handle.runtime.now();
        let mut state = self.state();
        state.driver.close(now, now + deadline);
        state.wake();
    }

    /// Makes a request and waits for its answer.
    fn ask(
        &self,
        ask: impl FnOnce(&mut Driver, Instant) -> RequestId,
    ) -> impl Future<Output = DriverOutput> + Send {
        let now = self.handle.runtime.now();
        let mut state = self.state();
        let request = ask(&mut state.driver, now);
        state.asked.insert(request, Asked::default());
        state.wake();
        drop(state);
        Question {
            handle: Arc::clone(&self.handle),
            request,
        }
    }
}

/// A request that waits for its answer; dropping it gives the request up.
struct Question {
    handle: Arc<Handle>,
    request: RequestId,
}

impl Future for Question {
    type Output = DriverOutput;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<DriverOutput> {
        let mut state = lock(&self.handle.hub.0);
        let asked = state.asked.entry(self.request).or_default();
        match asked.answer.take() {
            Some(answer) => {
                state.asked.remove(&self.request);
                Poll::Ready(answer)
            }
            None => {
                asked.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let now = self.handle.runtime.now();
        let mut state = lock(&self.handle.hub.0);
        if let Some(asked) = state.asked.remove(&self.request)
            && asked.answer.is_none()
        {
            state.driver.abandon(now, self.request);
            state.wake();
        }
    }
}

/// The loop around the driver.
struct DriverTask {
    hub: Arc<Hub>,
    runtime: SimRuntime,
    opening: Vec<(ConnId, Opening)>,
    resolving: Vec<(ResolveId, Resolving)>,
    sockets: BTreeMap<ConnId, Socket>,
    sleep: Pin<Box<SimSleep>>,
    closing: bool,
}

struct Socket {
    stream: SimStream,
    /// Whether there is something to write.
    full: bool,
    /// Whether nothing more is to be read.
    ended: bool,
}

/// How long requests may take when the last handle is dropped.
const PARTING: Duration = Duration::from_secs(1);
/// How many slices one write gathers.
const SLICES_MAX: usize = 8;

impl DriverTask {
    /// Takes in what happened and does what follows; whether there may be more.
    fn round(&mut self, state: &mut State, cx: &mut Context<'_>) -> bool {
        let now = self.runtime.now();
        if state.driver.poll_timeout().is_some_and(|at| at <= now) {
            state.driver.handle_timeout(now);
        }
        if state.dropped && !std::mem::replace(&mut self.closing, true) {
            state.driver.close(now, now + PARTING);
        }
        let mut some = self.perform(state);
        some |= self.finish_resolving(state, now, cx);
        some |= self.finish_opening(state, now, cx);
        let names: Vec<ConnId> = self.sockets.keys().copied().collect();
        for conn in names {
            some |= self.write(state, now, conn, cx);
            some |= self.read(state, now, conn, cx);
        }
        some
    }

    fn perform(&mut self, state: &mut State) -> bool {
        let mut some = false;
        while let Some(output) = state.driver.poll_output() {
            some = true;
            if let Some(request) = output.request() {
                state.answer(request, output);
                continue;
            }
            match output {
                DriverOutput::Resolve { id, host, port } => {
                    let runtime = self.runtime.clone();
                    let resolve = async move { runtime.resolve((*host).to_owned(), port).await };
                    self.resolving.push((id, Box::pin(resolve)));
                }
                DriverOutput::Connect { conn, spec } => {
                    let runtime = self.runtime.clone();
                    let connect = async move { runtime.connect(spec).await };
                    self.opening.push((conn, Box::pin(connect)));
                }
                DriverOutput::Transmit { conn } => {
                    if let Some(socket) = self.sockets.get_mut(&conn) {
                        socket.full = true;
                    }
                }
                DriverOutput::Disconnect { conn, .. } => {
                    self.sockets.remove(&conn);
                    self.opening.retain(|(own, _)| *own != conn);
                }
                DriverOutput::Ready(_) => {
                    state.ready.get_or_insert(Ok(()));
                    state.wake_waiting();
                }
                DriverOutput::Failed(error) => {
                    state.ready.get_or_insert(Err(error));
                    state.wake_waiting();
                }
                DriverOutput::Note(note) => state.notes.push(note),
                DriverOutput::Closed { cut } => {
                    state.closed = Some(cut);
                    state.wake_waiting();
                }
                _ => {}
            }
        }
        some
    }

    fn finish_resolving(&mut self, state: &mut State, now: Instant, cx: &mut Context<'_>) -> bool {
        let before = self.resolving.len();
        self.resolving
            .retain_mut(|(id, resolving)| match resolving.as_mut().poll(cx) {
                Poll::Ready(found) => {
                    let found = found.map_err(Into::into);
                    state.driver.handle_resolved(now, *id, found);
                    false
                }
                Poll::Pending => true,
            });
        self.resolving.len() < before
    }

    fn finish_opening(&mut self, state: &mut State, now: Instant, cx: &mut Context<'_>) -> bool {
        let (before, sockets) = (self.opening.len(), &mut self.sockets);
        self.opening
            .retain_mut(|(conn, opening)| match opening.as_mut().poll(cx) {
                Poll::Ready(Ok(stream)) => {
                    let socket = Socket {
                        stream,
                        full: false,
                        ended: false,
                    };
                    sockets.insert(*conn, socket);
                    state.driver.handle_connected(now, *conn);
                    false
                }
                Poll::Ready(Err(error)) => {
                    state.driver.handle_connect_failed(now, *conn, error);
                    false
                }
                Poll::Pending => true,
            });
        self.opening.len() < before
    }

    fn write(
        &mut self,
        state: &mut State,
        now: Instant,
        conn: ConnId,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(socket) = self.sockets.get_mut(&conn) else {
            return false;
        };
        let mut some = false;
        while socket.full {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = state.driver.poll_transmit(conn, &mut slices);
            let slices = slices.get(..count).unwrap_or(&[]);
            if slices.is_empty() {
                socket.full = false;
                break;
            }
            match Pin::new(&mut socket.stream).poll_write_vectored(cx, slices) {
                Poll::Ready(Ok(len)) => state.driver.handle_transmitted(now, conn, len),
                Poll::Ready(Err(error)) => {
                    socket.full = false;
                    state.driver.handle_write_error(now, conn, error);
                }
                Poll::Pending => break,
            }
            some = true;
        }
        some
    }

    fn read(
        &mut self,
        state: &mut State,
        now: Instant,
        conn: ConnId,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(socket) = self.sockets.get_mut(&conn).filter(|socket| !socket.ended) else {
            return false;
        };
        let buffer = state.driver.recv_buffer(conn);
        if buffer.is_empty() {
            return false;
        }
        match Pin::new(&mut socket.stream).poll_read(cx, buffer) {
            Poll::Ready(Ok(0)) => {
                socket.ended = true;
                state.driver.handle_eof(now, conn);
            }
            Poll::Ready(Ok(len)) => state.driver.handle_received(now, conn, len),
            Poll::Ready(Err(error)) => {
                socket.ended = true;
                state.driver.handle_io_error(now, conn, error);
            }
            Poll::Pending => return false,
        }
        true
    }
}

impl Future for DriverTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let hub = Arc::clone(&this.hub);
        let mut state = lock(&hub.0);
        state.task = Some(cx.waker().clone());
        while this.round(&mut state, cx) {}
        let broken = std::mem::take(&mut state.broken);
        let (over, next) = (state.closed.is_some(), state.driver.poll_timeout());
        drop(state);
        for what in broken {
            this.runtime.with(|world| world.violate(what));
        }
        if over {
            return Poll::Ready(());
        }
        if let Some(next) = next {
            SimRuntime::reset(this.sleep.as_mut(), next);
            if this.sleep.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }
}

fn stray() -> RequestError {
    RequestError::new(RequestErrorKind::Internal(
        "the answer to another kind of request",
    ))
}

fn result_of(output: DriverOutput) -> Result<QueryResult, RequestError> {
    match output {
        DriverOutput::Answer { result, .. } => result,
        _ => Err(stray()),
    }
}

impl Client for DriverClient {
    fn start(
        runtime: &SimRuntime,
        setup: &Setup,
    ) -> impl Future<Output = Result<Self, SessionError>> + Send {
        let mut config = setup.session.clone();
        config.profile = setup.profile.clone();
        config.agreement_timeout = setup.agreement;
        Self::connect(runtime, config)
    }

    async fn prepare(&self, text: &str) -> Result<PreparedStatement, RequestError> {
        match self.ask(|driver, now| driver.prepare(now, text)).await {
            DriverOutput::Prepared { result, .. } => result,
            _ => Err(stray()),
        }
    }

    async fn run(&self, bound: &Bound) -> Result<QueryResult, RequestError> {
        result_of(self.ask(|driver, now| driver.run(now, bound.clone())).await)
    }

    async fn text(&self, statement: &Statement) -> Result<QueryResult, RequestError> {
        result_of(
            self.ask(|driver, now| driver.execute(now, statement, ()))
                .await,
        )
    }

    async fn text_with(
        &self,
        statement: &Statement,
        key: i32,
        value: &str,
    ) -> Result<QueryResult, RequestError> {
        let values = (key, value.to_owned());
        let request = self.ask(|driver, now| driver.execute(now, statement, values));
        result_of(request.await)
    }

    async fn batch(&self, batch: &Batch) -> Result<QueryResult, RequestError> {
        result_of(
            self.ask(|driver, now| driver.batch(now, batch.clone()))
                .await,
        )
    }

    async fn pages(&self, bound: Bound, again: usize) -> Result<Vec<(i32, String)>, RequestError> {
        let mut pages = Box::new(Pages::of(bound));
        let (mut rows, mut failures) = (Vec::new(), 0);
        loop {
            let asked = self.ask(|driver, now| driver.next_page(now, pages));
            let DriverOutput::Page {
                pages: back,
                result,
                ..
            } = asked.await
            else {
                return Err(stray());
            };
            pages = back;
            match result {
                Ok(Some(page)) => super::client::collect_rows(&page, &mut rows)?,
                Ok(None) => return Ok(rows),
                Err(error) if failures == again => return Err(error),
                Err(_) => failures += 1,
            }
        }
    }

    fn picture(&self) -> Picture {
        Picture::of(self.state().driver.routing())
    }

    fn notes(&self) -> Vec<Note> {
        std::mem::take(&mut self.state().notes)
    }

    async fn close(&self, deadline: Duration) -> usize {
        self.begin_to_close(deadline);
        poll_fn(|cx| {
            let mut state = self.state();
            match state.closed {
                Some(cut) => Poll::Ready(cut),
                None => {
                    state.waiting.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
