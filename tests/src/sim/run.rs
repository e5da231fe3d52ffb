//! One run: builds the world of a seed, lets the session work through the chaos and checks the quiet after it.
//! What is drawn from the seed is in `setup` and `faults`; what must hold, in `checks`, `oracle` and `work`.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use messina_core::config::pool::PoolSize;
use messina_core::config::session::ReadinessRule;
use messina_core::seed::{Random, Seed};
use messina_engine::{Runtime, Session};

use super::answers::interceptor;
use super::client::{Client, name_of};
use super::driver::DriverClient;
use super::executor::Turn;
use super::faults;
use super::oracle::Oracle;
use super::runtime::SimRuntime;
use super::setup::{CLUSTER_NAME, Setup};
use super::trace::Counts;
use super::work::{Common, PAGED_ROWS, Statements, Worker, lock};
use super::world::{Due, Name, Shared, World};

/// How a run is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunOptions {
    /// Whether anything goes wrong at all. Default: yes.
    pub faults: bool,
    /// Who sends the requests. Default: the engine's session.
    pub client: ClientKind,
    /// Whether each step is written to the standard error output. Default: no.
    pub spoken: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            faults: true,
            client: ClientKind::Session,
            spoken: false,
        }
    }
}

/// Who sends the requests of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientKind {
    /// The engine's session, with its tasks.
    Session,
    /// The core's driver, with a loop around it.
    Driver,
}

/// What came of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The seed that decided everything.
    pub seed: u64,
    /// The hash over everything that happened.
    pub hash: u64,
    /// How often each kind of event occurred.
    pub counts: Counts,
    /// The rules that were broken; none in a good run.
    pub violations: Vec<String>,
    /// The virtual time that passed.
    pub time: Duration,
    /// How often a task was polled.
    pub polls: u64,
    steps: Vec<u64>,
}

impl Report {
    /// Says where two runs of the same seed first differ, if they do.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self.hash == other.hash && self.counts == other.counts {
            return None;
        }
        let at = self
            .steps
            .iter()
            .zip(&other.steps)
            .position(|(one, other)| one != other);
        let at = at.unwrap_or_else(|| self.steps.len().min(other.steps.len()));
        Some(format!(
            "two runs of the same seed differ from step {at} on"
        ))
    }
}

/// A run that needs more is caught in a loop.
const POLLS_MAX: u64 = 3_000_000;
/// How long the picture of the cluster may take to be right once all faults are over: detection of the last silent
/// connection, one round of attempts after the longest pause, and the reads that follow.
const QUIET_MAX: Duration = Duration::from_secs(45);
/// How often notes are taken, so that none is lost.
const LISTENING: Duration = Duration::from_millis(500);
/// How long a session with a healthy cluster may take from ready to complete.
const START_MAX: Duration = Duration::from_secs(3);
/// After how long a sick node answers at the latest, and something for the way.
const LATEST_ANSWER: Duration = Duration::from_secs(5);
/// How long closing may take, and how long the network needs to forget.
const CLOSING: Duration = Duration::from_secs(2);

/// Runs one seed.
#[must_use]
pub fn run(seed: u64, options: RunOptions) -> Report {
    let root = Seed::from_u64(seed);
    let setup = Setup::draw(&mut root.derive(100).random(), options.faults);
    let mut world = World::new(root.derive(200), setup.cluster.clone(), options.spoken);
    furnish(&mut world, &setup);
    let shared = Shared::new(world);
    let runtime = SimRuntime {
        shared: Arc::clone(&shared),
    };
    let done = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&done);
    let random = root.derive(300).random();
    shared.executor.spawn(async move {
        match options.client {
            ClientKind::Session => {
                scenario::<Session<SimRuntime>>(runtime, setup, options, random).await;
            }
            ClientKind::Driver => scenario::<DriverClient>(runtime, setup, options, random).await,
        }
        end.store(true, Ordering::SeqCst);
    });
    let polls = turn_until(&shared, &done);
    shared.executor.clear();
    let mut world = shared.world();
    let answers = lock(&world.answers).counts.clone();
    world.counts.merge(&answers);
    let nodes = 0..world.cluster.node_count();
    let again: u64 = nodes
        .filter_map(|node| world.cluster.statistics(node))
        .map(|statistics| statistics.unprepared)
        .sum();
    world.counts.add_many("statements prepared again", again);
    let trace = std::mem::replace(&mut world.trace, super::trace::Trace::new(false));
    Report {
        seed,
        hash: trace.hash(),
        counts: world.counts.clone(),
        violations: world.violations.clone(),
        time: world.elapsed(),
        polls,
        steps: trace.kept(),
    }
}

/// Turns tasks and time around each other until the scenario is over or a rule is broken.
fn turn_until(shared: &Arc<Shared>, done: &AtomicBool) -> u64 {
    let mut polls = 0;
    while !done.load(Ordering::SeqCst) {
        let mut world = shared.world();
        world.fire();
        if !world.violations.is_empty() {
            break;
        }
        drop(world);
        match shared.executor.turn() {
            Turn::Idle => {
                let mut world = shared.world();
                if world.skip().is_none() {
                    world.violate("nothing will ever happen again".to_owned());
                }
            }
            Turn::Polled(task) => {
                polls += 1;
                let mut world = shared.world();
                world.mark("poll", task, 0);
                let took = 1 + world.random.below(3);
                world.pass(Duration::from_micros(took));
                if polls == POLLS_MAX {
                    world.violate("the tasks do not come to rest".to_owned());
                }
            }
            Turn::Ended(task) => shared.world().mark("ended", task, 0),
            Turn::Panicked(task, words) => {
                shared
                    .world()
                    .violate(format!("task {task} panicked: {words}"));
            }
        }
    }
    polls
}

/// Puts into the world what is there before the session.
fn furnish(world: &mut World, setup: &Setup) {
    world.bounds = setup.bounds;
    world.known_by_name = setup.known_by_name;
    world.net.void_swallows = setup.void_swallows;
    for path in &mut world.net.paths {
        path.translated = setup.translated;
        path.translated_for_good = setup.translated;
    }
    world
        .counts
        .add_many("founders", u64::try_from(setup.shape.nodes).unwrap_or(0));
    let nodes = (0..setup.shape.nodes).collect();
    let name = Name {
        nodes,
        broken: false,
    };
    world.names.insert(CLUSTER_NAME.to_owned(), name);
    let mut answers = lock(&world.answers);
    answers.shuffled = setup.shuffled;
    answers.orphans = (
        // Orphans count from the age of one second on, and the driver needs a moment to notice.
        setup.profile.request_timeout.unwrap_or_default() + Duration::from_millis(1_500),
        usize::from(setup.session.limits.orphans_effective()),
    );
    drop(answers);
    world.net.busy_percent = setup.busy_percent;
    world.net.busy_for_good = setup.busy_percent;
    let answers = interceptor(Arc::clone(&world.answers));
    world.cluster.intercept(Some(answers));
    let factor = setup.replication;
    let mut texts = vec![
        format!(
            "CREATE KEYSPACE sim WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc1': {factor}}}"
        ),
        "CREATE TABLE sim.registers (k int PRIMARY KEY, v text)".to_owned(),
        "CREATE TABLE sim.marks (k int PRIMARY KEY, v text)".to_owned(),
        "CREATE TABLE sim.locks (k int PRIMARY KEY, v text)".to_owned(),
        "CREATE TABLE sim.tallies (k int PRIMARY KEY, n counter)".to_owned(),
        "CREATE TABLE sim.pages (p int, c int, v text, PRIMARY KEY (p, c))".to_owned(),
    ];
    for at in 0..PAGED_ROWS {
        texts.push(format!(
            "INSERT INTO sim.pages (p, c, v) VALUES (1, {at}, 'row {at}')"
        ));
    }
    for text in texts {
        if let Err(error) = world.cluster.execute(world.now, &text) {
            world.violate(format!("the run cannot begin: {text}: {error}"));
        }
    }
    world.drain_cluster();
}

async fn scenario<C: Client>(
    runtime: SimRuntime,
    setup: Setup,
    options: RunOptions,
    mut random: Random,
) {
    let faults = match options.faults {
        true => faults::plan(&mut random, setup.shape),
        false => Vec::new(),
    };
    let end = runtime.now() + setup.shape.chaos;
    if setup.early_faults {
        begin_chaos(&runtime, &faults);
    }
    let Some(session) = connect::<C>(&runtime, &setup).await else {
        return;
    };
    if !setup.early_faults {
        settle(&runtime, &session, &setup, START_MAX).await;
        if setup.chooses_shards() {
            runtime.with(World::check_source_ports);
        }
    }
    let Some(statements) = prepare(&runtime, &session, &setup).await else {
        return;
    };
    let end = match setup.early_faults {
        true => end,
        false => {
            begin_chaos(&runtime, &faults);
            runtime.now() + setup.shape.chaos
        }
    };
    let common = Arc::new(Common {
        runtime: runtime.clone(),
        client: session,
        oracle: Mutex::new(Oracle::default()),
        stop: AtomicBool::new(false),
        statements,
        timeout: setup.profile.request_timeout.unwrap_or_default(),
        agreement: setup.agreement,
        healthy: AtomicBool::new(!options.faults),
        prefix: match setup.session.keyspace {
            Some(_) => "",
            None => "sim.",
        },
        refuses: setup.session.limits.waiting_max.is_some(),
    });
    work_until(&common, &setup, &mut random, end).await;
    quiet(&common, &setup, &mut random).await;
    finish(common, &setup).await;
}

fn begin_chaos(runtime: &SimRuntime, faults: &[(Duration, faults::Fault)]) {
    runtime.with(|world| {
        for (after, fault) in faults {
            let at = world.now + *after;
            world.plan(at, Due::Fault(*fault));
        }
    });
}

/// Opens the session; with faults from the start it may take several tries.
async fn connect<C: Client>(runtime: &SimRuntime, setup: &Setup) -> Option<C> {
    let limit = setup.session.readiness_timeout + Duration::from_millis(50);
    for _ in 0..20 {
        let began = runtime.now();
        let session = C::start(runtime, setup).await;
        let took = runtime.now().saturating_duration_since(began);
        if limit < took {
            runtime.with(|world| world.violate(format!("the start took {took:?} of {limit:?}")));
        }
        match session {
            Ok(session) => return Some(session),
            Err(error) if !setup.early_faults => {
                runtime.with(|world| world.violate(format!("no session: {error:?}")));
                return None;
            }
            Err(_) => {
                runtime.with(|world| world.counts.add("starts that failed"));
                runtime.sleep(Duration::from_millis(500)).await;
            }
        }
    }
    runtime.with(|world| world.violate("no session after twenty tries".to_owned()));
    None
}

/// Prepares what the workers need. A session that is ready with nothing but its control connection may take a moment.
async fn prepare<C: Client>(runtime: &SimRuntime, client: &C, setup: &Setup) -> Option<Statements> {
    let patient = setup.early_faults || setup.session.ready == ReadinessRule::ControlConnection;
    for _ in 0..200 {
        match Statements::prepare(client).await {
            Ok(statements) => return Some(statements),
            Err(error) if !patient => {
                runtime.with(|world| world.violate(format!("nothing can be prepared: {error:?}")));
                return None;
            }
            Err(_) => runtime.sleep(Duration::from_millis(200)).await,
        }
    }
    runtime.with(|world| world.violate("nothing can be prepared".to_owned()));
    None
}

/// Runs the workers until `end`, and waits for their last requests.
async fn work_until<C: Client>(
    common: &Arc<Common<C>>,
    setup: &Setup,
    random: &mut Random,
    end: std::time::Instant,
) {
    let runtime = &common.runtime;
    let left = Arc::new(AtomicUsize::new(0));
    for _ in 0..setup.workers {
        let worker = Worker::new(Arc::clone(common), random.seed().random());
        spawn_counted(runtime, &left, worker.run(setup.pause_ms));
    }
    while runtime.now() < end {
        let pause = end.saturating_duration_since(runtime.now());
        runtime.sleep(pause.min(LISTENING)).await;
        take_notes(common);
    }
    common.stop.store(true, Ordering::SeqCst);
    wait_for(runtime, &left, "a worker").await;
}

/// Counts what the client noted.
fn take_notes<C: Client>(common: &Common<C>) {
    let notes = common.client.notes();
    common.runtime.with(|world| {
        for note in &notes {
            world.counts.add(name_of(note));
        }
    });
}

fn spawn_counted(
    runtime: &SimRuntime,
    left: &Arc<AtomicUsize>,
    task: impl Future<Output = ()> + Send + 'static,
) {
    left.fetch_add(1, Ordering::SeqCst);
    let left = Arc::clone(left);
    runtime.spawn(async move {
        task.await;
        left.fetch_sub(1, Ordering::SeqCst);
    });
}

/// Waits until spawned tasks have ended.
async fn wait_for(runtime: &SimRuntime, left: &AtomicUsize, what: &str) {
    // Each of their requests has its own bound; this one is only for what has none.
    for _ in 0..10_000 {
        if left.load(Ordering::SeqCst) == 0 {
            return;
        }
        runtime.sleep(Duration::from_millis(20)).await;
    }
    runtime.with(|world| world.violate(format!("{what} does not come to an end")));
}

/// Checks that everything works again once nothing is broken any more.
async fn quiet<C: Client>(common: &Arc<Common<C>>, setup: &Setup, random: &mut Random) {
    let runtime = &common.runtime;
    // What fell silent during the chaos is noticed by the keepalive, and the latest answers of sick nodes are over.
    let connection = &setup.session.connection;
    let unnoticed =
        connection.keepalive_interval.unwrap_or_default() + connection.keepalive_timeout;
    runtime.sleep(unnoticed + LATEST_ANSWER).await;
    if !settle(runtime, &common.client, setup, QUIET_MAX).await {
        return;
    }
    common.healthy.store(true, Ordering::SeqCst);
    let left = Arc::new(AtomicUsize::new(0));
    for _ in 0..2 {
        let worker = Worker::new(Arc::clone(common), random.seed().random());
        spawn_counted(runtime, &left, worker.run_each());
    }
    wait_for(runtime, &left, "a worker after the chaos").await;
    take_notes(common);
    runtime.with(|world| {
        let stored = world.stored();
        for what in lock(&common.oracle).check_stored(&stored) {
            world.violate(what);
        }
    });
}

/// Waits until the client's picture of the cluster is right, which must not take longer than `limit`.
async fn settle<C: Client>(
    runtime: &SimRuntime,
    client: &C,
    setup: &Setup,
    limit: Duration,
) -> bool {
    let pool = &setup.session.pool;
    let sharded = pool.shard_awareness;
    let every_shard = sharded && matches!(pool.size, PoolSize::PerShard(_));
    let until = runtime.now() + limit;
    loop {
        let picture = client.picture();
        let missing = runtime.with(|world| world.missing(&picture, sharded, every_shard));
        let Some(what) = missing else { return true };
        if until <= runtime.now() {
            runtime.with(|world| {
                world.violate(format!("after {limit:?} without faults, {what}"));
            });
            return false;
        }
        runtime.sleep(Duration::from_millis(20)).await;
    }
}

/// Ends the session and checks that nothing is left of it.
async fn finish<C: Client>(common: Arc<Common<C>>, setup: &Setup) {
    let runtime = common.runtime.clone();
    let sleeps = 1;
    if setup.dropped {
        runtime.with(|world| world.counts.add("sessions dropped"));
        drop(common);
    } else {
        runtime.with(|world| world.counts.add("sessions closed"));
        let began = runtime.now();
        let cut = common.client.close(Duration::from_secs(1)).await;
        let took = runtime.now().saturating_duration_since(began);
        if 0 < cut || CLOSING < took {
            runtime.with(|world| {
                world.violate(format!("closing cut {cut} requests and took {took:?}"));
            });
        }
        drop(common);
    }
    runtime.sleep(CLOSING).await;
    let tasks = runtime.shared.executor.len();
    runtime.with(|world| world.check_nothing_left(tasks, sleeps));
}
