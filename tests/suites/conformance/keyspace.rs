//! The keyspace of a session while connections come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use messina_engine::api::{ReadinessRule, RequestErrorKind, SessionErrorKind};
use messina_testkit::SimulatedCluster;
use messina_testkit::node::{CqlError, Reaction, RequestKind};

use crate::on_each_runtime;
use crate::support::{builder, let_others_run, until, within};

/// Two keyspaces with a table of the same name, whose rows tell which keyspace they are in.
fn two_keyspaces() -> SimulatedCluster {
    let options = "{'class': 'NetworkTopologyStrategy', 'dc1': 2}";
    let keyspace = |name: &str| {
        [
            format!("CREATE KEYSPACE {name} WITH replication = {options}"),
            format!("CREATE TABLE {name}.t (id int PRIMARY KEY, own text)"),
            format!("INSERT INTO {name}.t (id, own) VALUES (1, '{name}')"),
        ]
    };
    SimulatedCluster::builder()
        .nodes(2)
        .shards(2)
        .cql(["old", "new"].into_iter().flat_map(keyspace))
        .start()
        .expect("loopback addresses and valid CQL")
}

on_each_runtime! {
    #[test]
    async fn a_connection_that_opens_while_the_keyspace_changes_serves_in_the_new_one<R: Runtime>() {
        for held in [RequestKind::Options, RequestKind::Startup, RequestKind::Query] {
            let cluster = two_keyspaces();
            let session = builder::<R>(&cluster)
                .keyspace("old")
                .ready(ReadinessRule::EveryShard)
                .build()
                .await
                .expect("a session");
            let whole = session.metrics().connections;
            let opened = session.metrics().connections_opened;
            let caught = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&caught);
            cluster.intercept(move |request| {
                let is_entering = request.text.is_some_and(|text| text.starts_with("USE"));
                let is_held = request.kind == held && (is_entering || held != RequestKind::Query);
                if request.node != 1 || !is_held {
                    return Reaction::Answer;
                }
                seen.store(true, Ordering::SeqCst);
                Reaction::Delay(Duration::from_millis(100))
            });
            cluster.drop_connections(1);
            let runtime = R::current().expect("a runtime");
            until(&runtime, "an attempt that is held", || caught.load(Ordering::SeqCst).then_some(())).await;
            session.use_keyspace("new").await.expect("the other node enters it");
            let filled = async {
                loop {
                    for _ in 0..8 {
                        let select = messina_engine::api::Statement::new("SELECT own FROM t WHERE id = 1").idempotent(true);
                        let result = session.execute(&select, ()).await.expect("read");
                        assert_eq!(result.one::<(String,)>().expect("a row").0, "new", "{held:?}");
                    }
                    let now = session.metrics();
                    if now.connections == whole && opened + 2 <= now.connections_opened {
                        return;
                    }
                    let_others_run().await;
                }
            };
            within(&runtime, filled).await.expect("every connection is back");
        }
    }

    #[test]
    async fn a_statement_that_enters_a_keyspace_tells_which_nodes_did_not_follow<R: Runtime>() {
        let cluster = two_keyspaces();
        let session = builder::<R>(&cluster).ready(ReadinessRule::EveryShard).build().await.expect("a session");
        let mut entered = false;
        cluster.intercept(move |request| {
            let is_entering = request.text.is_some_and(|text| text.starts_with("USE"));
            // The statement itself is the first one.
            if !is_entering || !std::mem::replace(&mut entered, true) || request.node == 0 {
                return Reaction::Answer;
            }
            Reaction::Refuse(CqlError::invalid("not here yet"))
        });
        let error = session.execute("USE new", ()).await.expect_err("one node refuses");
        let RequestErrorKind::Keyspace(own) = error.kind() else {
            panic!("{error:?}")
        };
        assert!(matches!(own.kind(), SessionErrorKind::KeyspaceInPart { .. }), "{own:?}");
        assert_eq!(own.failures().len(), 1, "{own}");
        assert!(own.to_string().contains("not here yet"), "{own}");
        cluster.stop_intercepting();
        session.execute("USE new", ()).await.expect("all follow now");
    }
}
