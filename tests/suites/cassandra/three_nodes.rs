//! Three real nodes in two racks that are killed and restarted while requests of every kind run.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use messina_testkit::cassandra::Cassandra;
use messina_tokio::{
    Consistency, Fate, PreparedStatement, RequestError, RequestErrorKind, Session,
};
use tokio::task::{JoinHandle, block_in_place};

use super::available;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_killed_and_restarted_under_load_and_nothing_acknowledged_is_lost() {
    // A loaded machine is no node that is down: the time-outs of the servers are not what is tested.
    let started = Cassandra::builder()
        .nodes(3)
        .racks(2)
        .setting("write_request_timeout", "20s")
        .setting("read_request_timeout", "20s")
        .start();
    if available(started.as_ref()).is_none() {
        return;
    }
    let mut cassandra = started.unwrap();
    let load = Load::start(&cassandra).await;
    load.until_whole().await;

    // The node of the contact point and of the control connection, as in a crash.
    block_in_place(|| cassandra.kill_node(0)).unwrap();
    load.goes_on().await;
    block_in_place(|| cassandra.start_node(0)).unwrap();
    load.until_whole().await;

    for node in 0..3 {
        block_in_place(|| cassandra.stop_node(node)).unwrap();
        load.goes_on().await;
        block_in_place(|| cassandra.start_node(node)).unwrap();
        load.until_whole().await;
    }
    load.finish().await;
}

/// What runs while nodes come and go, and what was told of it.
struct Load {
    session: Session,
    addresses: Vec<SocketAddr>,
    everywhere: PreparedStatement,
    told: Arc<Told>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Told {
    stop: AtomicBool,
    /// Rows 1 to this one are written for sure.
    written: AtomicI64,
    read: AtomicI64,
    /// What was told of each list that got one element.
    appended: Mutex<BTreeMap<i64, Append>>,
    acknowledged: AtomicI64,
}

/// What is known of one append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Append {
    Done,
    Maybe,
    NotDone,
}

impl Told {
    fn runs(&self) -> bool {
        !self.stop.load(Ordering::Acquire)
    }
}

impl Load {
    async fn start(cassandra: &Cassandra) -> Self {
        let addresses = cassandra.addresses();
        // The others are told to nobody: the session finds them in the tables of the first.
        let builder = Session::builder().contact_point(addresses[0].to_string());
        let session = builder.local_datacenter("dc1").build().await.unwrap();
        for text in [
            "CREATE KEYSPACE three WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}",
            "CREATE TABLE three.t (k bigint PRIMARY KEY, v text)",
            "CREATE TABLE three.l (k bigint PRIMARY KEY, v list<int>)",
        ] {
            session.execute(text, ()).await.unwrap();
        }
        let insert = prepare(&session, "INSERT INTO three.t (k, v) VALUES (?, ?)").await;
        let select = prepare(&session, "SELECT v FROM three.t WHERE k = ?").await;
        let append = prepare(&session, "UPDATE three.l SET v = v + [1] WHERE k = ?").await;
        let told = Arc::new(Told::default());
        let (insert, select) = (insert.idempotent(true), select.idempotent(true));
        let tasks = vec![
            tokio::spawn(write(session.clone(), insert.clone(), Arc::clone(&told))),
            tokio::spawn(read(session.clone(), select, Arc::clone(&told))),
            tokio::spawn(append_once(session.clone(), append, Arc::clone(&told))),
        ];
        let everywhere = insert.consistency(Consistency::All);
        Self {
            session,
            addresses,
            everywhere,
            told,
            tasks,
        }
    }

    /// Waits until each of the loads has got some way further.
    async fn goes_on(&self) {
        let told = &self.told;
        let loads = [&told.written, &told.read, &told.acknowledged];
        let before = loads.map(|load| load.load(Ordering::Acquire));
        eventually("every load goes on", async || {
            let now = loads.map(|load| load.load(Ordering::Acquire));
            now.iter()
                .zip(before)
                .all(|(now, before)| before + 100 <= *now)
        })
        .await;
    }

    /// Waits until every node coordinates requests of this session and reaches all replicas.
    async fn until_whole(&self) {
        for address in &self.addresses {
            eventually("every node is used and sees the others", async || {
                let key = -i64::from(address.port());
                match self.session.execute(&self.everywhere, (key, "all")).await {
                    Ok(result) => result.coordinator().expect("an answer").address == *address,
                    Err(_) => false,
                }
            })
            .await;
        }
    }

    /// Ends the loads, and compares what they were told with what is there.
    async fn finish(self) {
        self.told.stop.store(true, Ordering::Release);
        for task in self.tasks {
            task.await.expect("the load met nothing unexpected");
        }
        let told = &self.told;
        let written = told.written.load(Ordering::Acquire);
        let everything = prepare(&self.session, "SELECT k, v FROM three.t").await;
        let mut pages = self
            .session
            .pages(&everything.consistency(Consistency::All), ());
        let mut missing: BTreeSet<i64> = (1..=written).collect();
        while let Some(page) = pages.next().await.unwrap() {
            for row in page.rows::<(i64, &str)>().unwrap() {
                let (key, value) = row.unwrap();
                if missing.remove(&key) {
                    assert_eq!(value, format!("row {key}"));
                }
            }
        }
        assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
        let lists = lists(&self.session).await;
        let appended = told.appended.lock().unwrap();
        for (key, told) in appended.iter() {
            let expected: &[usize] = match told {
                Append::Done => &[1],
                Append::Maybe => &[0, 1],
                Append::NotDone => &[0],
            };
            let found = lists.get(key).copied().unwrap_or_default();
            assert!(
                expected.contains(&found),
                "list {key}: told {told:?}, appended {found} times"
            );
        }
        let failed = appended.values().filter(|told| **told != Append::Done);
        println!(
            "{written} rows, {} reads, {} appends, {} of them failed",
            told.read.load(Ordering::Acquire),
            appended.len(),
            failed.count()
        );
    }
}

/// How many elements each list has.
async fn lists(session: &Session) -> BTreeMap<i64, usize> {
    let everything = prepare(session, "SELECT k, v FROM three.l").await;
    let mut pages = session.pages(&everything.consistency(Consistency::All), ());
    let mut lists = BTreeMap::new();
    while let Some(page) = pages.next().await.unwrap() {
        for row in page.rows::<(i64, Vec<i32>)>().unwrap() {
            let (key, elements) = row.unwrap();
            lists.insert(key, elements.len());
        }
    }
    lists
}

async fn prepare(session: &Session, text: &str) -> PreparedStatement {
    session.prepare(text).await.unwrap()
}

/// Writes one row after the other; each may be sent again, so each has to succeed.
async fn write(session: Session, insert: PreparedStatement, told: Arc<Told>) {
    let mut key = 0;
    while told.runs() {
        key += 1;
        session
            .execute(&insert, (key, format!("row {key}")))
            .await
            .unwrap_or_else(|error| panic!("row {key}: {error:?}"));
        told.written.store(key, Ordering::Release);
    }
}

/// Reads rows that were acknowledged; each has to be there.
async fn read(session: Session, select: PreparedStatement, told: Arc<Told>) {
    let mut step = 0;
    while told.runs() {
        let written = told.written.load(Ordering::Acquire);
        if written == 0 {
            tokio::task::yield_now().await;
            continue;
        }
        step += 1;
        // Every row in turn, half of the time the newest.
        let key = if step % 2 == 0 {
            written
        } else {
            step % written + 1
        };
        let result = session
            .execute(&select, (key,))
            .await
            .unwrap_or_else(|error| panic!("reading row {key}: {error:?}"));
        let (value,) = result
            .one::<(String,)>()
            .unwrap_or_else(|error| panic!("row {key} is lost: {error}"));
        assert_eq!(value, format!("row {key}"));
        told.read.fetch_add(1, Ordering::AcqRel);
    }
}

/// Appends to one list after the other. Sent twice an append would be there twice, so it may fail, and then it says whether
/// it can be there.
async fn append_once(session: Session, append: PreparedStatement, told: Arc<Told>) {
    let mut key = 0;
    while told.runs() {
        key += 1;
        let outcome = match session.execute(&append, (key,)).await {
            Ok(_) => Append::Done,
            Err(error) if can_be_done(&error) => Append::Maybe,
            Err(_) => Append::NotDone,
        };
        told.appended.lock().unwrap().insert(key, outcome);
        let done = i64::from(outcome == Append::Done);
        told.acknowledged.fetch_add(done, Ordering::AcqRel);
    }
}

/// Whether a failed request can have had an effect, by what the error says.
fn can_be_done(error: &RequestError) -> bool {
    match (error.fate(), error.kind()) {
        (Fate::NotSent, _) => false,
        (Fate::MaybeApplied, _) => true,
        // A server that answers with a time-out or a failure of writing does not know; with another error it did nothing.
        (Fate::Answered, RequestErrorKind::Server(server)) => {
            assert!(
                matches!(server.code, 0x1000 | 0x1001 | 0x1100 | 0x1500 | 0x0000),
                "{error:?}"
            );
            matches!(server.code, 0x1100 | 0x1500 | 0x0000)
        }
        _ => panic!("no error that a lost node explains: {error:?}"),
    }
}

async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !condition().await {
        assert!(Instant::now() < until, "{what}: not within two minutes");
        // The loads go on meanwhile: this only asks again a little later.
        tokio::task::yield_now().await;
    }
}
