//! The workload: writers and readers of unique values, in all the ways that requests can be made.
//! What may come out is the oracle's to say.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use messina_core::config::profile::PageSize;
use messina_core::error::connect::Fate;
use messina_core::error::request::{RequestError, RequestErrorKind};
use messina_core::exec::batch::Batch;
use messina_core::exec::prepared::PreparedStatement;
use messina_core::exec::result::QueryResult;
use messina_core::exec::statement::Statement;
use messina_core::seed::Random;
use messina_engine::Runtime;

use super::client::Client;
use super::oracle::{Oracle, Told, value_of};
use super::runtime::SimRuntime;

/// The rows that paged reads must give.
pub(super) const PAGED_ROWS: i32 = 23;
/// What a request may take beyond its deadline: the granularity of timers and the turns until an answer is taken.
const SLACK: Duration = Duration::from_millis(20);
/// How many rows the writers fight for.
const LOCKS: u64 = 6;

/// What all workers share.
pub(super) struct Common<C> {
    pub(super) runtime: SimRuntime,
    pub(super) client: C,
    pub(super) oracle: Mutex<Oracle>,
    pub(super) stop: AtomicBool,
    pub(super) statements: Statements,
    /// The deadline of each request.
    pub(super) timeout: Duration,
    pub(super) agreement: Duration,
    /// Whether requests fail only while something is broken.
    pub(super) healthy: AtomicBool,
    /// What comes before the names of tables in texts: nothing where the session has a keyspace.
    pub(super) prefix: &'static str,
    /// Whether the user limits how many requests wait, so that a burst is refused even in good health.
    pub(super) refuses: bool,
}

/// What is prepared before anything goes wrong.
#[derive(Clone, Debug)]
pub(super) struct Statements {
    write: PreparedStatement,
    read: PreparedStatement,
    mark: PreparedStatement,
    tally: PreparedStatement,
    lock: PreparedStatement,
    page: PreparedStatement,
}

impl Statements {
    pub(super) async fn prepare<C: Client>(client: &C) -> Result<Self, RequestError> {
        let write = "INSERT INTO sim.registers (k, v) VALUES (?, ?)";
        let mark = "INSERT INTO sim.marks (k, v) VALUES (?, ?)";
        let lock = "INSERT INTO sim.locks (k, v) VALUES (?, ?) IF NOT EXISTS";
        Ok(Self {
            write: client.prepare(write).await?.idempotent(true),
            read: client
                .prepare("SELECT k, v FROM sim.registers WHERE k = ?")
                .await?
                .idempotent(true),
            mark: client.prepare(mark).await?,
            tally: client
                .prepare("UPDATE sim.tallies SET n = n + 1 WHERE k = ?")
                .await?,
            lock: client.prepare(lock).await?,
            page: client
                .prepare("SELECT c, v FROM sim.pages WHERE p = ?")
                .await?
                .idempotent(true),
        })
    }
}

/// One worker, with its own rows and its own randomness.
pub(super) struct Worker<C> {
    common: Arc<Common<C>>,
    random: Random,
    own: Vec<i32>,
}

impl<C: Client> Worker<C> {
    pub(super) fn new(common: Arc<Common<C>>, random: Random) -> Self {
        let own = (0..2).map(|_| lock(&common.oracle).fresh_key()).collect();
        Self {
            common,
            random,
            own,
        }
    }

    /// Works until told to stop.
    pub(super) async fn run(mut self, pause_ms: u64) {
        while !self.common.stop.load(Ordering::SeqCst) {
            let pause = Duration::from_micros(self.random.below(pause_ms * 2_000));
            self.common.runtime.sleep(pause).await;
            let which = self.random.below(32);
            self.work(which).await;
        }
    }

    /// Makes each kind of request once.
    pub(super) async fn run_each(mut self) {
        for which in 0..32 {
            self.work(which).await;
        }
    }

    async fn work(&mut self, which: u64) {
        match which {
            0..=5 => self.write_register().await,
            6..=11 => self.read_register().await,
            12..=14 => self.mark(which).await,
            15..=18 => self.tally(which.is_multiple_of(2)).await,
            19..=20 => self.batch().await,
            21..=22 => self.fight().await,
            23..=24 => self.read_pages().await,
            25..=26 => self.prepare_and_run().await,
            27..=29 => self.burst().await,
            30 => self.define().await,
            _ => self.read_as_text().await,
        }
    }

    async fn write_register(&mut self) {
        let Some(key) = self.random.choose(&self.own).copied() else {
            return;
        };
        let number = self.oracle().begin_register(key);
        let statement = self.common.statements.write.clone();
        let told = match statement.bind((key, value_of(key, number))) {
            Ok(bound) => {
                let client = self.common.client.clone();
                self.told("write", client.run(&bound)).await
            }
            Err(_) => Told::Unknown,
        };
        self.oracle().end_register(key, number, told);
    }

    async fn read_register(&mut self) {
        let keys = self.oracle().register_keys();
        let key = self.random.choose(&keys).copied().unwrap_or(0);
        let done = self.oracle().done(key);
        let Ok(bound) = self.common.statements.read.bind((key,)) else {
            return;
        };
        let client = self.common.client.clone();
        let answer = self.ask("read", client.run(&bound)).await;
        self.check_read(key, done, answer);
    }

    async fn read_as_text(&mut self) {
        let keys = self.oracle().register_keys();
        let key = self.random.choose(&keys).copied().unwrap_or(0);
        let done = self.oracle().done(key);
        let text = format!(
            "SELECT k, v FROM {}registers WHERE k = {key}",
            self.common.prefix
        );
        let statement = Statement::new(text).idempotent(true);
        let client = self.common.client.clone();
        let answer = self.ask("read as text", client.text(&statement)).await;
        self.check_read(key, done, answer);
    }

    fn check_read(&self, key: i32, done: u64, answer: Option<Result<QueryResult, RequestError>>) {
        let Some(Ok(result)) = answer else { return };
        let row = match result.maybe_one::<(i32, String)>() {
            Ok(row) => row,
            Err(error) => return self.violate(format!("a read of row {key} gave: {error}")),
        };
        let row = row.as_ref().map(|(key, value)| (*key, value.as_str()));
        let checked = self.oracle().check_register(key, done, row);
        if let Err(what) = checked {
            self.violate(what);
        }
    }

    /// Writes a row once: prepared, as text, or as text with values.
    async fn mark(&mut self, which: u64) {
        let key = self.oracle().begin_mark();
        let (value, prefix) = (value_of(key, 1), self.common.prefix);
        let client = self.common.client.clone();
        let told = match which {
            12 => match self.common.statements.mark.bind((key, value.as_str())) {
                Ok(bound) => self.told("mark", client.run(&bound)).await,
                Err(_) => Told::Unknown,
            },
            13 => {
                let text = format!("INSERT INTO {prefix}marks (k, v) VALUES ({key}, '{value}')");
                let statement = Statement::new(text).idempotent(true);
                self.told("mark as text", client.text(&statement)).await
            }
            _ => {
                let statement =
                    Statement::new(format!("INSERT INTO {prefix}marks (k, v) VALUES (?, ?)"));
                let request = client.text_with(&statement, key, &value);
                self.told("mark as text with values", request).await
            }
        };
        self.oracle().end_mark(key, told);
    }

    /// Adds to a counter, which must not happen twice.
    async fn tally(&mut self, prepared: bool) {
        let key = self.oracle().begin_tally();
        let client = self.common.client.clone();
        let told = match (prepared, self.common.statements.tally.bind((key,))) {
            (true, Ok(bound)) => self.told("tally", client.run(&bound)).await,
            _ => {
                let text = format!(
                    "UPDATE {}tallies SET n = n + 1 WHERE k = {key}",
                    self.common.prefix
                );
                let statement = Statement::new(text);
                self.told("tally as text", client.text(&statement)).await
            }
        };
        self.oracle().end_tally(key, told);
    }

    async fn batch(&mut self) {
        let keys: Vec<i32> = (0..3).map(|_| self.oracle().begin_mark()).collect();
        let mut batch = match self.random.below(2) {
            0 => Batch::logged(),
            _ => Batch::unlogged(),
        };
        for key in &keys {
            batch = batch.add(&self.common.statements.mark, (*key, value_of(*key, 1)));
        }
        if self.random.below(2) == 0 {
            batch = batch.idempotent(true);
        }
        let client = self.common.client.clone();
        let told = self.told("batch", client.batch(&batch)).await;
        for key in keys {
            self.oracle().end_mark(key, told);
        }
    }

    /// Tries to be the first to write a row.
    async fn fight(&mut self) {
        let key = -1 - i32::try_from(self.random.below(LOCKS)).unwrap_or(0);
        let asker = self.oracle().ask_lock(key);
        let Ok(bound) = self
            .common
            .statements
            .lock
            .bind((key, value_of(key, asker)))
        else {
            return;
        };
        let client = self.common.client.clone();
        let Some(Ok(result)) = self.ask("conditional write", client.run(&bound)).await else {
            return;
        };
        match result.applied() {
            Ok(true) => {
                let owned = self.oracle().own_lock(key, asker);
                if let Err(what) = owned {
                    self.violate(what);
                }
            }
            Ok(false) => {}
            Err(error) => self.violate(format!("a conditional write gave: {error}")),
        }
    }

    async fn read_pages(&mut self) {
        let size = 1 + i32::try_from(self.random.below(9)).unwrap_or(0);
        let Ok(bound) = self.common.statements.page.bind((1,)) else {
            return;
        };
        let bound = bound.page_size(PageSize::new(size));
        let client = self.common.client.clone();
        let pages = u32::try_from(PAGED_ROWS / size + 3).unwrap_or(u32::MAX);
        let request = client.pages(bound, 3);
        let Some(answer) = self.ask_within("pages", pages + 3, request).await else {
            return;
        };
        let Ok(rows) = answer else { return };
        let wanted = (0..PAGED_ROWS).map(|at| (at, format!("row {at}")));
        if !rows.iter().cloned().eq(wanted) {
            let keys: Vec<i32> = rows.iter().map(|(key, _)| *key).collect();
            self.violate(format!("pages of {size} rows gave the rows {keys:?}"));
        }
    }

    /// Prepares a text that nobody has prepared, and runs it.
    async fn prepare_and_run(&mut self) {
        let keys = self.oracle().register_keys();
        let key = self.random.choose(&keys).copied().unwrap_or(0);
        let limit = 1 + self.random.below(40);
        let text = format!(
            "SELECT k, v FROM {}registers WHERE k = ? LIMIT {limit}",
            self.common.prefix
        );
        let client = self.common.client.clone();
        let request = client.prepare(&text);
        let Some(Ok(prepared)) = self.ask_within("prepare", 2, request).await else {
            return;
        };
        let done = self.oracle().done(key);
        let Ok(bound) = prepared.idempotent(true).bind((key,)) else {
            return;
        };
        let answer = self.ask("read just prepared", client.run(&bound)).await;
        self.check_read(key, done, answer);
    }

    /// Many reads at once, so that answers cross.
    async fn burst(&mut self) {
        let keys = self.oracle().register_keys();
        let count = 4 + self.random.index(40);
        let mut reads = Vec::new();
        for _ in 0..count {
            let key = self.random.choose(&keys).copied().unwrap_or(0);
            let done = self.oracle().done(key);
            let Ok(bound) = self.common.statements.read.bind((key,)) else {
                return;
            };
            let client = self.common.client.clone();
            let read = async move { (key, done, client.run(&bound).await) };
            reads.push(Some(Box::pin(read)));
        }
        let mut answers = Vec::new();
        let all = poll_fn(|cx| {
            for slot in &mut reads {
                if let Some(read) = slot
                    && let Poll::Ready(answer) = read.as_mut().poll(cx)
                {
                    answers.push(answer);
                    *slot = None;
                }
            }
            match reads.iter().all(Option::is_none) {
                true => Poll::Ready(Ok(())),
                false => Poll::Pending,
            }
        });
        self.ask("burst", all).await;
        for (key, done, answer) in answers {
            if let Err(error) = &answer {
                self.check_error("read of a burst", error);
            }
            self.check_read(key, done, Some(answer));
        }
    }

    /// Changes the schema.
    async fn define(&mut self) {
        let number = self.oracle().fresh_key();
        let text = format!("CREATE TABLE IF NOT EXISTS sim.own{number} (k int PRIMARY KEY)");
        let statement = Statement::new(text);
        let client = self.common.client.clone();
        let turns = u32::try_from(
            self.common
                .agreement
                .as_millis()
                .div_ceil(self.common.timeout.as_millis().max(1)),
        )
        .unwrap_or(u32::MAX);
        self.ask_within("definition", 1 + turns, client.text(&statement))
            .await;
    }

    /// Runs a write and says what is known of it.
    async fn told<T>(
        &mut self,
        what: &'static str,
        request: impl Future<Output = Result<T, RequestError>>,
    ) -> Told {
        match self.ask(what, request).await {
            Some(Ok(_)) => Told::Done,
            Some(Err(error)) if error.fate() == Fate::NotSent => Told::NotSent,
            _ => Told::Unknown,
        }
    }

    async fn ask<T>(
        &mut self,
        what: &'static str,
        request: impl Future<Output = Result<T, RequestError>>,
    ) -> Option<Result<T, RequestError>> {
        self.ask_within(what, 1, request).await
    }

    /// Runs a request that has so many deadlines; none when it was given up on purpose.
    async fn ask_within<T>(
        &mut self,
        what: &'static str,
        deadlines: u32,
        request: impl Future<Output = Result<T, RequestError>>,
    ) -> Option<Result<T, RequestError>> {
        let runtime = self.common.runtime.clone();
        let began = runtime.now();
        let healthy = self.common.healthy.load(Ordering::SeqCst);
        let limit = self.common.timeout * deadlines + SLACK * deadlines;
        let gives_up = !healthy && self.random.below(20) == 0;
        let patience = match gives_up {
            true => Duration::from_micros(self.random.below(40_000)),
            // Far beyond the limit: a request that hangs is found here, a late one below.
            false => limit * 2,
        };
        runtime.with(|world| world.counts.add("requests"));
        let answer = self.race(request, patience).await;
        let took = runtime.now().saturating_duration_since(began);
        match &answer {
            None if gives_up => runtime.with(|world| world.counts.add("requests given up")),
            None => self.violate(format!("a request ({what}) has no outcome after {took:?}")),
            Some(_) if limit < took => {
                self.violate(format!("a request ({what}) took {took:?} of {limit:?}"));
            }
            Some(Ok(_)) => runtime.with(|world| world.counts.add("requests answered")),
            Some(Err(error)) => {
                self.check_error(what, error);
                let refused = matches!(error.kind(), RequestErrorKind::Overloaded);
                if healthy && !(refused && self.common.refuses) {
                    self.violate(format!(
                        "a request ({what}) failed in good health: {error:?}"
                    ));
                }
            }
        }
        runtime.with(|world| world.mark(what, took.as_micros().try_into().unwrap_or(0), 0));
        answer
    }

    async fn race<T>(&self, request: impl Future<Output = T>, patience: Duration) -> Option<T> {
        let mut request = pin!(request);
        let runtime = &self.common.runtime;
        let mut sleep = pin!(runtime.sleep_until(runtime.now() + patience));
        poll_fn(|cx| match request.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => sleep.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    /// Counts an error, and reports one that no fault explains.
    fn check_error(&self, what: &str, error: &RequestError) {
        let name = match error.fate() {
            Fate::NotSent => "failed: not sent",
            Fate::MaybeApplied => "failed: maybe applied",
            Fate::Answered => "failed: answered",
        };
        self.common.runtime.with(|world| world.counts.add(name));
        let attempts = u64::try_from(error.attempts().len()).unwrap_or(0);
        let retries = attempts.saturating_sub(1);
        self.common
            .runtime
            .with(|world| world.counts.add_many("retries of failed requests", retries));
        match error.kind() {
            // Errors of nodes that are well, such as an unknown table or keyspace, are never expected.
            RequestErrorKind::Server(error) if is_of_the_sick(error.code) => {}
            RequestErrorKind::Expired
            | RequestErrorKind::Connection(_)
            | RequestErrorKind::Overloaded
            | RequestErrorKind::NoConnection
            | RequestErrorKind::NoTarget
            | RequestErrorKind::Unprepared(_) => {}
            kind => self.violate(format!("a request ({what}) failed with {kind:?}")),
        }
    }

    fn violate(&self, what: String) {
        self.common.runtime.with(|world| world.violate(what));
    }

    fn oracle(&self) -> MutexGuard<'_, Oracle> {
        lock(&self.common.oracle)
    }
}

/// Whether an error is one of nodes that are not well, or too few.
fn is_of_the_sick(code: i32) -> bool {
    code == 0 || (0x1000..0x2000).contains(&code)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
