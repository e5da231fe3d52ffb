//! What a request asks the allocator for, once everything is warm: a session on one thread against a simulated cluster
//! that runs on another, so that only the driver is counted.

use std::future::{Future, poll_fn};
use std::sync::Arc;

use bytes::Bytes;
use messina_engine::Session;
use messina_engine::api::{PreparedStatement, ReadinessRule};
use messina_testkit::SimulatedCluster;
use messina_tokio::Tokio;

use crate::alloc::Usage;
use crate::figure;

/// The cluster that a case runs against.
pub(crate) struct Shape {
    nodes: usize,
    shards: u16,
}

impl Shape {
    pub(crate) fn one_node() -> Self {
        Self {
            nodes: 1,
            shards: 1,
        }
    }

    fn many_shards() -> Self {
        Self {
            nodes: 3,
            shards: 8,
        }
    }

    pub(crate) fn start(&self) -> SimulatedCluster {
        SimulatedCluster::builder()
            .nodes(self.nodes)
            .shards(self.shards)
            .shard_aware_port(true)
            .cql([
                "CREATE KEYSPACE app WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1}",
                "CREATE TABLE app.kv (pk bigint PRIMARY KEY, v text, data blob)",
            ])
            .start()
            .expect("loopback addresses and valid CQL")
    }

    pub(crate) async fn load(&self, text: &str) -> Load {
        let cluster = self.start();
        let session = connect(&cluster).await;
        let statement = session.prepare(text).await.expect("a known table");
        Load {
            _cluster: cluster,
            session,
            statement: Arc::new(statement),
        }
    }
}

pub(crate) async fn connect(cluster: &SimulatedCluster) -> Session<Tokio> {
    Session::<Tokio>::builder()
        .contact_points(cluster.contact_points())
        .local_datacenter("dc1")
        .ready(ReadinessRule::EveryShard)
        .build()
        .await
        .expect("a session with the simulated cluster")
}

/// A session with a statement to execute.
pub(crate) struct Load {
    _cluster: SimulatedCluster,
    pub(crate) session: Session<Tokio>,
    pub(crate) statement: Arc<PreparedStatement>,
}

/// Runs a case in the calling thread, every task of the driver included.
pub(crate) fn on_one_thread<T>(case: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(case)
}

impl Load {
    /// Runs `each` requests in each of 64 tasks.
    async fn insert(&self, each: u32) {
        self.spread(each, |session, statement, key| async move {
            let values = (key, "sixteen letters.", &[0xab_u8; 16][..]);
            session.execute(&*statement, values).await.expect("a write");
        })
        .await;
    }

    async fn select(&self, each: u32) {
        self.spread(each, |session, statement, key| async move {
            let result = session.execute(&*statement, (key,)).await.expect("a read");
            let rows = result.rows::<(i64, &str, &[u8])>().expect("these columns");
            for row in rows {
                row.expect("a row");
            }
        })
        .await;
    }

    /// Runs 64 times `each` requests from the calling task.
    async fn push(&self, each: u32) {
        let mut pipeline = self.session.pipeline(&self.statement).in_flight_max(64);
        let mut completions = Vec::with_capacity(64);
        for key in 0..64 * i64::from(each) {
            let values = (key % 512, "sixteen letters.", &[0xab_u8; 16][..]);
            if pipeline.push(values).is_ok() {
                continue;
            }
            poll_fn(|cx| pipeline.poll_completions(cx, &mut completions)).await;
            for completion in completions.drain(..) {
                completion.result.expect("a write");
            }
            assert!(pipeline.push(values).is_ok(), "there is room again");
        }
        while let Some(completion) = pipeline.completion().await {
            completion.result.expect("a write");
        }
    }

    async fn spread<W>(
        &self,
        each: u32,
        one: impl Fn(Session<Tokio>, Arc<PreparedStatement>, i64) -> W + Copy + Send + 'static,
    ) where
        W: Future<Output = ()> + Send,
    {
        let mut tasks = Vec::with_capacity(64);
        for task in 0..64_i64 {
            let (session, statement) = (self.session.clone(), Arc::clone(&self.statement));
            tasks.push(tokio::spawn(async move {
                for n in 0..i64::from(each) {
                    one(session.clone(), Arc::clone(&statement), task * 1000 + n % 8).await;
                }
            }));
        }
        for task in tasks {
            task.await.expect("no panic");
        }
    }
}

/// What a request costs: a long run minus a short one, so that what a run costs once is in neither.
async fn per_request<W: Future<Output = ()>>(run: impl Fn(u32) -> W) -> f64 {
    run(40).await;
    let before = Usage::now();
    run(5).await;
    let short = Usage::now() - before;
    let before = Usage::now();
    run(45).await;
    let long = Usage::now() - before;
    long.calls.saturating_sub(short.calls) as f64 / f64::from(64 * 40)
}

#[test]
fn a_warm_insert_allocates_almost_never() {
    on_one_thread(async {
        let load = Shape::one_node()
            .load("INSERT INTO app.kv (pk, v, data) VALUES (?, ?, ?)")
            .await;
        let cost = per_request(|each| load.insert(each)).await;
        figure("allocations an insert", cost);
        assert!(cost <= 0.1, "{cost} allocations");
    });
}

#[test]
fn a_warm_select_of_one_row_allocates_almost_never() {
    on_one_thread(async {
        let load = Shape::one_node()
            .load("INSERT INTO app.kv (pk, v, data) VALUES (?, ?, ?)")
            .await;
        load.insert(8).await;
        let text = "SELECT pk, v, data FROM app.kv WHERE pk = ?";
        let select = Load {
            statement: Arc::new(load.session.prepare(text).await.expect("a known table")),
            ..load
        };
        let cost = per_request(|each| select.select(each)).await;
        figure("allocations a select", cost);
        assert!(cost <= 0.1, "{cost} allocations");
    });
}

#[test]
fn a_warm_insert_of_a_pipeline_allocates_almost_never() {
    on_one_thread(async {
        let load = Shape::one_node()
            .load("INSERT INTO app.kv (pk, v, data) VALUES (?, ?, ?)")
            .await;
        let cost = per_request(|each| load.push(each)).await;
        figure("allocations an insert of a pipeline", cost);
        assert!(cost <= 0.1, "{cost} allocations");
    });
}

#[test]
fn shards_cost_no_allocations() {
    on_one_thread(async {
        let load = Shape::many_shards()
            .load("INSERT INTO app.kv (pk, v, data) VALUES (?, ?, ?)")
            .await;
        let cost = per_request(|each| load.insert(each)).await;
        figure("allocations an insert over 3 x 8 shards", cost);
        assert!(cost <= 0.1, "{cost} allocations");
    });
}

#[test]
fn a_megabyte_is_read_again_and_again_into_the_same_memory() {
    on_one_thread(async {
        let load = Shape::one_node()
            .load("INSERT INTO app.kv (pk, v, data) VALUES (?, ?, ?)")
            .await;
        let blob = Bytes::from(vec![7; 1 << 20]);
        let values = (1_i64, "", blob);
        let (session, statement) = (&load.session, &*load.statement);
        session.execute(statement, values).await.expect("a write");
        let select = session.prepare("SELECT data FROM app.kv WHERE pk = ?");
        let select = select.await.expect("a known table");
        let read = async || {
            let result = session.execute(&select, (1_i64,)).await.expect("a read");
            let (data,) = result.one::<(&[u8],)>().expect("a row");
            assert_eq!(data.len(), 1 << 20);
        };
        read().await;
        read().await;
        let before = Usage::now();
        for _ in 0..10 {
            read().await;
        }
        let each = (Usage::now() - before).bytes / 10;
        figure("bytes allocated a read of 1 MiB", each);
        assert!(each <= 64 * 1024, "{each} bytes");
    });
}

#[test]
fn a_megabyte_that_is_handed_over_is_sent_without_memory_of_its_own() {
    on_one_thread(async {
        let load = Shape::one_node()
            .load("INSERT INTO app.kv (pk, v, data) VALUES (?, ?, ?)")
            .await;
        let blob = Bytes::from(vec![7; 1 << 20]);
        let write = async || {
            let values = (1_i64, "", blob.clone());
            let (session, statement) = (&load.session, &*load.statement);
            session.execute(statement, values).await.expect("a write");
        };
        write().await;
        write().await;
        let before = Usage::now();
        for _ in 0..10 {
            write().await;
        }
        let each = (Usage::now() - before).bytes / 10;
        figure("bytes allocated a write of 1 MiB", each);
        assert!(each <= 4 * 1024, "{each} bytes");
    });
}
