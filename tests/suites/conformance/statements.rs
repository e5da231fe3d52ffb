//! Statements: where they are prepared, what is remembered of them, and what their results tell.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use messina_engine::api::policy::speculative::SpeculativePolicy;
use messina_engine::api::{
    AgreementOutcome, Batch, Fate, PrepareOn, ReadinessRule, RequestErrorKind, Row, Statement,
    UnpreparedError, UsingTimeout,
};
use messina_engine::core::config::profile::ExecutionProfile;
use messina_engine::core::wire::ServerErrorDetail;
use messina_testkit::SimulatedCluster;
use messina_testkit::node::{CqlError, Reaction, RequestKind};

use crate::on_each_runtime;
use crate::support::{builder, cluster, session};

const INSERT: &str = "INSERT INTO app.users (id, name) VALUES (?, ?)";

/// Counts the PREPARE requests that each node got.
fn prepares(cluster: &SimulatedCluster, nodes: usize) -> Vec<u64> {
    (0..nodes)
        .map(|node| cluster.statistics(node).prepares)
        .collect()
}

/// Refuses PREPARE on these nodes, so many times in all; returns how often each node was asked.
fn refuse_to_prepare(
    cluster: &SimulatedCluster,
    nodes: &'static [usize],
    times: u64,
) -> Arc<Mutex<Vec<u64>>> {
    let asked = Arc::new(Mutex::new(vec![0; 3]));
    let (count, mut left) = (Arc::clone(&asked), times);
    cluster.intercept(move |request| {
        if request.kind != RequestKind::Prepare || !nodes.contains(&request.node) {
            return Reaction::Answer;
        }
        count.lock().expect("one interceptor")[request.node] += 1;
        if left == 0 {
            return Reaction::Answer;
        }
        left -= 1;
        let message = format!("node {} is not itself", request.node);
        Reaction::Refuse(CqlError::new(0, message))
    });
    asked
}

on_each_runtime! {
    #[test]
    async fn a_statement_is_prepared_once_on_every_node<R: Runtime>() {
        let cluster = cluster(3);
        let session = session::<R>(&cluster).await;
        session.prepare(INSERT).await.expect("prepared");
        assert_eq!(prepares(&cluster, 3), [1, 1, 1]);
    }

    #[test]
    async fn a_statement_for_one_node_is_learned_by_the_others_when_they_need_it<R: Runtime>() {
        let cluster = cluster(3);
        let session = builder::<R>(&cluster)
            .ready(ReadinessRule::EveryShard)
            .prepare_on(PrepareOn::OneNode)
            .build()
            .await
            .expect("a session");
        let insert = session.prepare(INSERT).await.expect("prepared");
        assert_eq!(prepares(&cluster, 3).iter().sum::<u64>(), 1);
        for id in 0..60 {
            session.execute(&insert, (id, "x")).await.expect("inserted wherever it belongs");
        }
        assert_eq!(prepares(&cluster, 3), [1, 1, 1]);
    }

    #[test]
    async fn two_nodes_that_cannot_prepare_do_not_spoil_it_and_learn_later<R: Runtime>() {
        let cluster = cluster(3);
        let session = session::<R>(&cluster).await;
        refuse_to_prepare(&cluster, &[0, 2], u64::MAX);
        let insert = session.prepare(INSERT).await.expect("one node is enough");
        cluster.stop_intercepting();
        for id in 0..60 {
            let result = session.execute(&insert, (id, "x")).await.expect("inserted");
            assert!(result.attempts().is_empty(), "what a node learns late is no failed attempt");
        }
        let unprepared: u64 = (0..3).map(|node| cluster.statistics(node).unprepared).sum();
        assert_eq!(unprepared, 2);
    }

    #[test]
    async fn when_every_node_refuses_each_shard_is_asked_before_the_first_error_is_told<R: Runtime>() {
        let cluster = cluster(2);
        let session = session::<R>(&cluster).await;
        let asked = refuse_to_prepare(&cluster, &[0, 1], u64::MAX);
        let error = session.prepare(INSERT).await.expect_err("nobody can");
        assert_eq!(error.server_error().map(|error| error.code), Some(0), "{error:?}");
        // Once each node, then each of its two shards.
        assert_eq!(asked.lock().expect("one interceptor")[..2], [3, 3]);
        refuse_to_prepare(&cluster, &[0, 1], 2);
        session.prepare(INSERT).await.expect("the second round makes good for one bad shard");
    }

    #[test]
    async fn a_text_is_prepared_once_and_remembered_for_its_keyspace<R: Runtime>() {
        let cluster = cluster(1);
        cluster.execute("CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").expect("valid CQL");
        cluster.execute("CREATE TABLE other.users (id int PRIMARY KEY, name text)").expect("valid CQL");
        let session = builder::<R>(&cluster).keyspace("app").statements_cached(2).build().await.expect("a session");
        let text = "INSERT INTO users (id, name) VALUES (?, ?)";
        let first = session.prepare_cached(text).await.expect("prepared");
        session.prepare_cached(text).await.expect("remembered");
        assert_eq!(prepares(&cluster, 1), [1]);
        session.use_keyspace("other").await.expect("entered");
        let second = session.prepare_cached(text).await.expect("prepared anew");
        assert_ne!(first.id(), second.id(), "it is another table");
        session.execute(&second, (1, "x")).await.expect("inserted");
        assert_eq!(session.execute_unpaged("SELECT id FROM other.users", ()).await.expect("selected").row_count(), 1);
        // A third and a fourth text leave no room for the first; whoever holds it can still use it.
        session.prepare_cached("SELECT id FROM app.users").await.expect("prepared");
        session.prepare_cached("SELECT name FROM app.users").await.expect("prepared");
        let before = prepares(&cluster, 1);
        session.prepare_cached(text).await.expect("prepared again");
        assert_eq!(prepares(&cluster, 1)[0], before[0] + 1);
        session.execute(&second, (2, "y")).await.expect("what was handed out stays good");
    }

    #[test]
    async fn a_forgotten_statement_of_another_keyspace_is_refused_and_not_prepared<R: Runtime>() {
        let cluster = cluster(1);
        cluster.execute("CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}").expect("valid CQL");
        cluster.execute("CREATE TABLE other.users (id int PRIMARY KEY, name text)").expect("valid CQL");
        let session = builder::<R>(&cluster).keyspace("app").build().await.expect("a session");
        let insert = session.prepare("INSERT INTO users (id, name) VALUES (?, ?)").await.expect("prepared");
        session.use_keyspace("other").await.expect("entered");
        cluster.forget_prepared_statements(0);
        let before = prepares(&cluster, 1);
        let error = session.execute(&insert, (1, "x")).await.expect_err("it would go to another table");
        assert!(
            matches!(error.kind(), RequestErrorKind::Unprepared(UnpreparedError::KeyspacesDiffer { .. })),
            "{error:?}"
        );
        assert_eq!(prepares(&cluster, 1), before, "nothing is prepared");
        session.use_keyspace("app").await.expect("entered");
        session.execute(&insert, (1, "x")).await.expect("in its own keyspace it is brought back");
    }

    #[test]
    async fn a_text_with_values_in_a_batch_is_prepared_before_the_batch_is_sent<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare(INSERT).await.expect("prepared");
        let batch = Batch::logged()
            .add("INSERT INTO app.users (id, name) VALUES (1, 'a')", ())
            .add(&insert, (2, "b"))
            .add_text("INSERT INTO app.users (id, name) VALUES (?, 'c')", (3,));
        session.batch(&batch).await.expect("applied");
        session.batch(&batch).await.expect("applied again");
        assert_eq!((prepares(&cluster, 1), cluster.statistics(0).batches), (vec![2], 2));
        assert_eq!(session.execute_unpaged("SELECT id FROM app.users", ()).await.expect("selected").row_count(), 3);
        let wrong = Batch::logged().add_text(INSERT, ("x", "y"));
        let error = session.batch(&wrong).await.expect_err("a text is no int");
        assert!(matches!(error.kind(), RequestErrorKind::Bind(_)), "{error:?}");
        assert_eq!((error.fate(), cluster.statistics(0).batches), (Fate::NotSent, 2));
    }

    #[test]
    async fn a_conditional_statement_tells_the_row_it_found<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?) IF NOT EXISTS").await.expect("prepared");
        let update = session.prepare("UPDATE app.users SET name = ? WHERE id = ? IF name = ?").await.expect("prepared");
        assert!(insert.is_conditional() && update.is_conditional(), "the server marks them");
        let first = session.execute(&insert, (1, "ada")).await.expect("answered");
        assert!(first.applied().expect("a mark"));
        assert_eq!(first.previous::<(i32, String)>().expect("no row"), None);
        let again = session.execute(&insert, (1, "bob")).await.expect("answered");
        assert!(!again.applied().expect("a mark"));
        assert_eq!(again.previous().expect("a row"), Some((1, String::from("ada"))));
        let refused = session.execute(&update, ("eve", 1, "bob")).await.expect("answered");
        assert_eq!(refused.previous().expect("a row"), Some((String::from("ada"),)));
        let applied = session.execute(&update, ("eve", 1, "ada")).await.expect("answered");
        assert!(applied.applied().expect("a mark"));
        for (applied, refused) in [(first, again), (applied, refused)] {
            assert_eq!(applied.columns(), refused.columns(), "the columns are the same either way");
            assert!(1 < applied.columns().len(), "the mark and what is compared");
        }
    }

    #[test]
    async fn a_conditional_batch_answers_for_each_of_its_statements<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.events (day, at, what) VALUES (?, ?, ?) IF NOT EXISTS").await.expect("prepared");
        let batch = (1..=3).fold(Batch::unlogged(), |batch, at| batch.add(&insert, (1, at, "x")));
        assert!(batch.is_conditional());
        let result = session.batch(&batch).await.expect("answered");
        assert!(result.applied().expect("a mark"));
        assert_eq!(result.row_count(), 3);
    }

    #[test]
    async fn a_trace_is_read_with_its_events<R: Runtime>() {
        let cluster = cluster(2);
        let session = session::<R>(&cluster).await;
        let traced = Statement::new("SELECT id FROM app.users").tracing(true);
        let result = session.execute(&traced, ()).await.expect("selected");
        let id = result.tracing_id().expect("the trace that was asked for");
        let trace = session.trace(id).await.expect("a trace");
        assert_eq!(trace.id, id);
        assert!(!trace.events.is_empty(), "{trace:?}");
        assert_eq!(trace.coordinator, Some(result.coordinator().expect("a node").address.ip()));
        let untraced = session.execute("SELECT id FROM app.users", ()).await.expect("selected");
        assert_eq!(untraced.tracing_id(), None);
    }

    #[test]
    async fn a_schema_change_tells_whether_the_nodes_agreed<R: Runtime>() {
        let cluster = cluster(2);
        let session = session::<R>(&cluster).await;
        let result = session.execute("CREATE TABLE app.fresh (id int PRIMARY KEY)", ()).await.expect("created");
        assert!(matches!(result.schema_agreement(), Some(AgreementOutcome::Agreed)), "{result:?}");
        let plain = session.execute("SELECT id FROM app.fresh", ()).await.expect("selected");
        assert!(plain.schema_agreement().is_none());
        let hasty = builder::<R>(&cluster).agreement_timeout(Duration::ZERO).build().await.expect("a session");
        let result = hasty.execute("CREATE TABLE app.fresher (id int PRIMARY KEY)", ()).await.expect("created");
        assert!(
            matches!(result.schema_agreement(), Some(AgreementOutcome::Unknown { .. } | AgreementOutcome::Different { .. })),
            "{result:?}"
        );
    }

    #[test]
    async fn a_copy_overtakes_a_silent_node_and_that_is_told<R: Runtime>() {
        let cluster = cluster(3);
        let profile = ExecutionProfile {
            speculative: SpeculativePolicy::Constant { delay: Duration::from_millis(20), copies_max: 1 },
            ..ExecutionProfile::default()
        };
        let session = builder::<R>(&cluster).profile(profile).ready(ReadinessRule::EveryShard).build().await.expect("a session");
        let insert = session.prepare(INSERT).await.expect("prepared").idempotent(true);
        let silent = Arc::new(Mutex::new(None));
        let first = Arc::clone(&silent);
        cluster.intercept(move |request| {
            let mut first = first.lock().expect("one interceptor");
            match request.kind {
                RequestKind::Execute if *first.get_or_insert(request.node) == request.node => Reaction::Ignore,
                _ => Reaction::Answer,
            }
        });
        let result = session.execute(&insert, (1, "x")).await.expect("answered by the copy");
        assert!(result.won_by_copy());
        let silent = silent.lock().expect("one interceptor").expect("asked first");
        assert_ne!(result.coordinator().expect("a node").host_id, cluster.host_id(silent));
        cluster.stop_intercepting();
        let plain = session.execute(&insert.clone().idempotent(false), (2, "y")).await.expect("answered");
        assert!(!plain.won_by_copy());
    }

    #[test]
    async fn a_rate_limit_is_a_typed_error_after_one_attempt<R: Runtime>() {
        let cluster = cluster(1);
        cluster
            .execute("CREATE TABLE app.calm (id int PRIMARY KEY) WITH per_partition_rate_limit = {'max_writes_per_second': 1}")
            .expect("valid CQL");
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.calm (id) VALUES (?)").await.expect("prepared").idempotent(true);
        let mut refused = None;
        for _ in 0..50 {
            refused = session.execute(&insert, (1,)).await.err();
            if refused.is_some() {
                break;
            }
        }
        let error = refused.expect("too many writes for one partition");
        let detail = &error.server_error().expect("the server's error").detail;
        assert!(matches!(detail, ServerErrorDetail::RateLimit { .. }), "{error:?}");
        assert_eq!(error.attempts().len(), 1);
        session.execute(&insert, (2,)).await.expect("the node stays in use");
    }

    #[test]
    async fn the_limit_a_statement_sets_for_the_server_is_understood<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let limit = UsingTimeout::new(Duration::from_secs(5));
        for text in [
            format!("INSERT INTO app.users (id, name) VALUES (1, 'a') {limit}"),
            format!("UPDATE app.users {limit} SET name = 'b' WHERE id = 1"),
            format!("SELECT name FROM app.users WHERE id = 1 {limit}"),
            format!("DELETE FROM app.users {limit} WHERE id = 1"),
            format!("INSERT INTO app.users (id, name) VALUES (1, 'a') USING TTL 60 {}", limit.and()),
        ] {
            session.execute(&text, ()).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
        }
    }

    #[test]
    async fn a_client_that_did_not_prepare_again_hears_of_new_columns_with_the_rows<R: Runtime>() {
        let cluster = cluster(1);
        let (one, two) = (session::<R>(&cluster).await, session::<R>(&cluster).await);
        one.execute(INSERT, (1, "ada")).await.expect("inserted");
        let text = "SELECT * FROM app.users";
        let select = two.prepare(text).await.expect("prepared");
        two.execute(&select, ()).await.expect("selected");
        one.execute("ALTER TABLE app.users ADD age int", ()).await.expect("altered");
        let anew = one.prepare(text).await.expect("prepared anew");
        one.execute(&anew, ()).await.expect("selected");
        let before = cluster.statistics(0).unprepared;
        for _ in 0..3 {
            let result = two.execute(&select, ()).await.expect("selected");
            let row: Row<'_> = result.one().expect("one row");
            assert_eq!(row.read::<Option<i32>>("age").expect("the new column"), None);
            assert_eq!(row.read::<&str>("name").expect("a text"), "ada");
        }
        assert_eq!(cluster.statistics(0).unprepared, before, "the node knew the statement all the time");
    }

    #[test]
    async fn the_answer_to_a_text_teaches_no_statement<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let text = "SELECT * FROM app.users WHERE id = ?";
        let select = session.prepare(text).await.expect("prepared");
        let pair = || {
            let shape = select.shape();
            (shape.columns().map(|own| own.len()), shape.metadata_id().map(|id| id.to_vec()))
        };
        let before = pair();
        assert!(before.0 == Some(2) && before.1.is_some(), "{before:?}");
        session.execute("ALTER TABLE app.users ADD age int", ()).await.expect("altered");
        for _ in 0..2 {
            let result = session.execute(text, (1,)).await.expect("selected");
            assert_eq!(result.columns().len(), 3);
            let result = session.execute("SELECT * FROM app.users WHERE id = 1", ()).await.expect("selected");
            assert_eq!(result.columns().len(), 3);
        }
        assert_eq!(pair(), before);
        session.execute(&select, (1,)).await.expect("selected");
        let after = pair();
        assert!(after.0 == Some(3) && after.1 != before.1, "its own answer does teach it: {after:?}");
    }

    #[test]
    async fn no_row_is_read_by_the_columns_of_another_version_of_its_table<R: Runtime>() {
        let cluster = cluster(2);
        let session = session::<R>(&cluster).await;
        session.execute("CREATE TABLE app.shifting (id int PRIMARY KEY, v int)", ()).await.expect("created");
        session.execute("INSERT INTO app.shifting (id, v) VALUES (1, 7)", ()).await.expect("inserted");
        let select = session.prepare("SELECT * FROM app.shifting").await.expect("prepared");
        for version in 0..8 {
            // Every column holds its own number, so that a shifted cell would show.
            let name = format!("c{version}");
            cluster.execute(&format!("ALTER TABLE app.shifting ADD {name} int")).expect("valid CQL");
            cluster.execute(&format!("UPDATE app.shifting SET {name} = {version} WHERE id = 1")).expect("valid CQL");
            for _ in 0..4 {
                let result = session.execute(&select, ()).await.expect("selected");
                let row: Row<'_> = result.one().expect("one row");
                assert_eq!(row.read::<i32>("v").expect("an int"), 7);
                for column in 0..=version {
                    let value = row.read::<i32>(&format!("c{column}"));
                    assert_eq!(value.expect("the new column is there at once"), column);
                }
            }
        }
    }
}
