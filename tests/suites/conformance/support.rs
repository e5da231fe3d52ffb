//! What the cases share: clusters, sessions, bounded waiting.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use messina_engine::api::{ReadinessRule, SessionError};
use messina_engine::runtime::Runtime;
use messina_engine::{Session, SessionBuilder};
use messina_testkit::SimulatedCluster;

/// No case waits longer than this for anything; only a failing one waits at all.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

/// A runtime as the cases use it.
pub(crate) trait Harness: Runtime {}

impl<R: Runtime> Harness for R {}

/// Runs a case on tokio with two stealing workers, the harder of its two schedulers.
pub(crate) fn on_tokio(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(case);
}

pub(crate) fn cluster(nodes: usize) -> SimulatedCluster {
    cluster_with(nodes, &[])
}

/// The same, with what these statements make.
pub(crate) fn cluster_with(nodes: usize, more: &[&str]) -> SimulatedCluster {
    SimulatedCluster::builder()
        .nodes(nodes)
        .shards(2)
        .cql([
            "CREATE KEYSPACE app WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1}",
            "CREATE TABLE app.users (id int PRIMARY KEY, name text)",
            "CREATE TABLE app.events (day int, at int, what text, PRIMARY KEY (day, at))",
        ])
        .cql(more.iter().copied())
        .start()
        .expect("loopback addresses and valid CQL")
}

pub(crate) fn builder<R: Runtime>(cluster: &SimulatedCluster) -> SessionBuilder<R> {
    Session::<R>::builder()
        .contact_points(cluster.contact_points())
        .local_datacenter("dc1")
}

pub(crate) async fn session<R: Runtime>(cluster: &SimulatedCluster) -> Session<R> {
    // Cases count on every node; a session is ready with one of them by default.
    builder(cluster)
        .ready(ReadinessRule::EveryShard)
        .build()
        .await
        .expect("a session with the simulated cluster")
}

/// Tries to connect where nobody is; the attempt must end by itself.
pub(crate) async fn connect_to<R: Runtime>(
    address: &str,
    change: impl FnOnce(SessionBuilder<R>) -> SessionBuilder<R>,
) -> SessionError {
    let builder = Session::<R>::builder().contact_point(address);
    let outcome = within(&R::current().expect("a runtime"), change(builder).build()).await;
    outcome
        .expect("an attempt bounded by its own limits")
        .expect_err("nobody is there")
}

/// Waits for a future, but not for ever.
pub(crate) async fn within<R: Runtime, F: Future>(runtime: &R, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut sleep = pin!(runtime.sleep_until(runtime.now() + BOUND));
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => sleep.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// Waits until something has come about that nothing announces, but not for ever.
pub(crate) async fn until<R: Runtime, T>(
    runtime: &R,
    what: &str,
    mut found: impl FnMut() -> Option<T>,
) -> T {
    let wait = async {
        loop {
            if let Some(found) = found() {
                return found;
            }
            let_others_run().await;
        }
    };
    let found = within(runtime, wait).await;
    found.unwrap_or_else(|| panic!("{what} did not come about"))
}

/// Gives way to the other tasks once.
pub(crate) async fn let_others_run() {
    let mut given_way = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut given_way, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls a future once.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx))).await
}

/// Waits until something outside of the runtime has come about.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + BOUND;
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come about");
        std::thread::yield_now();
    }
}

/// Counts the connections that the nodes still have open.
pub(crate) fn open_connections(cluster: &SimulatedCluster, nodes: usize) -> u64 {
    (0..nodes).map(|node| cluster.statistics(node).open).sum()
}
