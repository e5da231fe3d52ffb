//! Requests: prepared and not, paged, batched, given up, too late, over lost connections.

use std::task::Poll;
use std::time::Duration;

use messina_engine::api::{Batch, Fate, PageSize, RequestErrorKind, Statement};
use messina_testkit::node::{Reaction, RequestKind};

use crate::on_each_runtime;
use crate::support::{builder, cluster, poll_once, session, within};

on_each_runtime! {
    #[test]
    async fn what_is_inserted_is_selected<R: Runtime>() {
        let cluster = cluster(3);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await.expect("prepared");
        for id in 0..20 {
            session.execute(&insert, (id, format!("user {id}"))).await.expect("inserted");
        }
        let select = session.prepare("SELECT name FROM app.users WHERE id = ?").await.expect("prepared");
        for id in 0..20 {
            let result = session.execute(&select, (id,)).await.expect("selected");
            assert_eq!(result.one::<(&str,)>().expect("a row").0, format!("user {id}"));
            assert!(result.coordinator().is_some(), "the node that answered is known");
        }
        let nobody = session.execute(&select, (99,)).await.expect("selected");
        assert_eq!(nobody.maybe_one::<(&str,)>().expect("no row"), None);
    }

    #[test]
    async fn pages_follow_each_other_to_the_end<R: Runtime>() {
        let cluster = cluster(2);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.events (day, at, what) VALUES (?, ?, ?)").await.expect("prepared");
        for at in 0..25 {
            session.execute(&insert, (1, at, "x")).await.expect("inserted");
        }
        let select = session.prepare("SELECT at FROM app.events WHERE day = ?").await.expect("prepared");
        let select = select.page_size(PageSize::new(10));
        let mut pages = session.pages(&select, (1,));
        let (mut sizes, mut seen) = (Vec::new(), Vec::new());
        while let Some(page) = pages.next().await.expect("a page") {
            sizes.push(page.row_count());
            seen.extend(page.rows::<(i32,)>().expect("rows").map(|row| row.expect("a row").0));
        }
        assert_eq!(seen, (0..25).collect::<Vec<_>>());
        assert!(sizes.iter().all(|size| *size <= 10), "{sizes:?}");
        let mut rows = session.stream::<(i32,), _, _>(&select, (1,));
        let mut streamed = Vec::new();
        while let Some(row) = rows.next().await {
            streamed.push(row.expect("a row").0);
        }
        assert_eq!(streamed, seen);
    }

    #[test]
    async fn an_unpaged_read_brings_all_rows_at_once<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        for at in 0..3 {
            session.execute("INSERT INTO app.events (day, at, what) VALUES (?, ?, ?)", (1, at, "x")).await.expect("inserted");
        }
        let select = Statement::new("SELECT at FROM app.events WHERE day = 1").page_size(PageSize::new(2));
        let first = session.execute(&select, ()).await.expect("the first page");
        assert!(first.has_more_pages());
        let whole = session.execute_unpaged(&select, ()).await.expect("all rows");
        assert_eq!(whole.row_count(), 3);
    }

    #[test]
    async fn a_text_with_values_is_prepared_where_it_is_executed<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let before = cluster.statistics(0).prepares;
        session.execute("INSERT INTO app.users (id, name) VALUES (?, ?)", (7, "ada")).await.expect("inserted");
        assert_eq!(cluster.statistics(0).prepares, before + 1);
        let mut pages = session.pages("SELECT name FROM app.users WHERE id = ?", (7,));
        let page = pages.next().await.expect("a page").expect("one page");
        assert_eq!(page.one::<(String,)>().expect("a row").0, "ada");
        assert!(pages.next().await.expect("the end").is_none());
    }

    #[test]
    async fn values_that_do_not_fit_are_refused_before_anything_is_sent<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await.expect("prepared");
        let before = cluster.statistics(0).executions;
        let error = session.execute(&insert, ("seven", "ada")).await.expect_err("a text is no int");
        assert!(matches!(error.kind(), RequestErrorKind::Bind(_)), "{error:?}");
        assert_eq!(error.fate(), Fate::NotSent);
        assert_eq!(cluster.statistics(0).executions, before);
    }

    #[test]
    async fn a_batch_is_applied_as_one<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await.expect("prepared");
        let batch = Batch::unlogged().add(&insert, (1, "a")).add(&insert, (2, "b"));
        session.batch(&batch).await.expect("applied");
        let all = session.execute("SELECT id FROM app.users", ()).await.expect("selected");
        assert_eq!(all.row_count(), 2);
        let wrong = Batch::unlogged().add(&insert, ("x", "a"));
        let error = session.batch(&wrong).await.expect_err("a text is no int");
        assert!(matches!(error.kind(), RequestErrorKind::Bind(_)), "{error:?}");
    }

    #[test]
    async fn a_bound_statement_runs_as_often_as_wanted<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await.expect("prepared");
        let bound = insert.bind((5, "eve")).expect("values that fit").idempotent(true);
        session.run(&bound).await.expect("inserted");
        session.run(&bound).await.expect("inserted again");
        let select = session.prepare("SELECT name FROM app.users WHERE id = ?").await.expect("prepared");
        let mut pages = session.pages_of(select.bind((5,)).expect("values that fit"));
        assert_eq!(pages.next().await.expect("a page").expect("one page").row_count(), 1);
    }

    #[test]
    async fn a_forgotten_statement_is_prepared_again_unseen<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await.expect("prepared");
        cluster.forget_prepared_statements(0);
        let result = session.execute(&insert, (1, "a")).await.expect("inserted");
        assert!(result.attempts().is_empty(), "the detour is no failed attempt");
        assert_eq!(cluster.statistics(0).unprepared, 1);
    }

    #[test]
    async fn the_servers_error_reaches_the_caller<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let error = session.execute("SELECT nothing FROM app.users", ()).await.expect_err("no such column");
        assert_eq!(error.server_error().map(|error| error.code), Some(0x2200), "{error:?}");
        assert_eq!(error.fate(), Fate::Answered);
        let error = session.prepare("SELECT nothing FROM app.users").await.expect_err("no such column");
        assert_eq!(error.server_error().map(|error| error.code), Some(0x2200), "{error:?}");
    }

    #[test]
    async fn a_dropped_future_gives_its_request_up<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await.expect("prepared");
        cluster.intercept(|request| match request.kind {
            RequestKind::Execute => Reaction::Ignore,
            _ => Reaction::Answer,
        });
        let before = session.metrics().in_flight;
        let mut request = session.execute(&insert, (1, "a"));
        assert!(poll_once(&mut request).await.is_pending());
        assert_eq!(session.metrics().in_flight, before + 1);
        drop(request);
        assert_eq!(session.metrics().in_flight, before);
        cluster.stop_intercepting();
        for id in 2..40 {
            session.execute(&insert, (id, "b")).await.expect("the connection goes on");
        }
    }

    #[test]
    async fn an_unanswered_request_ends_at_its_deadline<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await.expect("prepared");
        cluster.intercept(|request| match request.kind {
            RequestKind::Execute => Reaction::Ignore,
            _ => Reaction::Answer,
        });
        let hasty = insert.clone().timeout(Duration::from_millis(50));
        let runtime = R::current().expect("a runtime");
        let outcome = within(&runtime, session.execute(&hasty, (1, "a"))).await;
        let error = outcome.expect("an end at the deadline").expect_err("nobody answers");
        assert!(matches!(error.kind(), RequestErrorKind::Expired), "{error:?}");
        assert_eq!(error.fate(), Fate::MaybeApplied);
        assert_eq!(session.metrics().in_flight, 0);
    }

    #[test]
    async fn a_lost_connection_is_an_error_unless_the_request_may_be_sent_twice<R: Runtime>() {
        let cluster = cluster(3);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await.expect("prepared");
        let lose_one = || {
            let mut lost = false;
            cluster.intercept(move |request| match request.kind {
                RequestKind::Execute if !std::mem::replace(&mut lost, true) => Reaction::Disconnect,
                _ => Reaction::Answer,
            });
        };
        lose_one();
        let error = session.execute(&insert, (1, "a")).await.expect_err("the connection is lost");
        assert!(matches!(error.kind(), RequestErrorKind::Connection(_)), "{error:?}");
        assert_eq!(error.fate(), Fate::MaybeApplied);
        lose_one();
        let twice = insert.clone().idempotent(true);
        let result = session.execute(&twice, (2, "b")).await.expect("sent to another node");
        // The node that lost its connection before may be met once more on its way out: nothing is sent to it then.
        let sent = result.attempts().iter().filter(|attempt| attempt.fate != Fate::NotSent).count();
        assert_eq!(sent, 1, "{:?}", result.attempts());
    }

    #[test]
    async fn a_table_made_again_with_other_types_is_never_written_with_old_values<R: Runtime>() {
        let cluster = cluster(3);
        let session = session::<R>(&cluster).await;
        session.execute("CREATE TABLE app.again (id int PRIMARY KEY, v int)", ()).await.expect("created");
        let insert = session.prepare("INSERT INTO app.again (id, v) VALUES (?, ?)").await.expect("prepared");
        let bound = insert.bind((1, 0x4142_4344)).expect("the values fit");
        let batch = Batch::unlogged().add(&insert, (1, 0x4142_4344));
        session.execute("DROP TABLE app.again", ()).await.expect("dropped");
        session.execute("CREATE TABLE app.again (id int PRIMARY KEY, v text)", ()).await.expect("created");
        let error = session.execute(&insert, (1, 0x4142_4344)).await.expect_err("v is text now");
        assert!(matches!(error.kind(), RequestErrorKind::Unprepared(_)), "{error:?}");
        for _ in 0..6 {
            let errors = [
                session.execute(&insert, (1, 0x4142_4344)).await.expect_err("the statement is of no use"),
                session.run(&bound).await.expect_err("the bound values are of no use"),
                session.batch(&batch).await.expect_err("the batch is of no use"),
            ];
            for error in errors {
                assert!(matches!(error.kind(), RequestErrorKind::Bind(_)), "{error:?}");
                assert_eq!(error.fate(), Fate::NotSent);
            }
        }
        let rows = session.execute_unpaged("SELECT v FROM app.again", ()).await.expect("selected").row_count();
        assert_eq!(rows, 0, "nothing was written");
        let anew = session.prepare("INSERT INTO app.again (id, v) VALUES (?, ?)").await.expect("prepared anew");
        session.execute(&anew, (1, "text")).await.expect("inserted");
    }

    #[test]
    async fn a_text_is_read_on_with_old_values_only_while_its_markers_mean_the_same<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let create = "CREATE TABLE app.again (id int, ck int, v int, PRIMARY KEY (id, ck))";
        session.execute(create, ()).await.expect("created");
        for ck in 0..3 {
            session.execute("INSERT INTO app.again (id, ck, v) VALUES (?, ?, 7)", (1, ck)).await.expect("inserted");
        }
        let select = Statement::new("SELECT ck FROM app.again WHERE id = ? AND v = ? ALLOW FILTERING")
            .page_size(PageSize::new(1));
        let mut pages = session.pages(&select, (1, 7));
        pages.next().await.expect("the first page").expect("a page");
        session.execute("DROP TABLE app.again", ()).await.expect("dropped");
        session.execute(&create.replace("v int", "v text"), ()).await.expect("created");
        let error = pages.next().await.expect_err("v is text now");
        assert!(matches!(error.kind(), RequestErrorKind::Unprepared(_)), "{error:?}");
        let error = pages.next().await.expect_err("the bound values are of no use");
        assert!(matches!(error.kind(), RequestErrorKind::Bind(_)), "{error:?}");
    }

    #[test]
    async fn the_limit_of_a_batch_counts_while_its_texts_are_prepared<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        cluster.intercept(|request| match request.kind {
            RequestKind::Prepare => Reaction::Ignore,
            _ => Reaction::Answer,
        });
        let batch = Batch::unlogged()
            .add_text("INSERT INTO app.users (id, name) VALUES (?, ?)", (1, "a"))
            .timeout(Duration::from_millis(50));
        let error = within(&R::current().expect("a runtime"), session.batch(&batch))
            .await
            .expect("not the limit of any other request")
            .expect_err("nobody prepares the text");
        assert!(matches!(error.kind(), RequestErrorKind::Expired), "{error:?}");
        assert_eq!(error.fate(), Fate::NotSent);
    }

    #[test]
    async fn many_tasks_share_a_session<R: Runtime>() {
        let cluster = cluster(2);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await.expect("prepared");
        let mut requests: Vec<_> = (0..300).map(|id| session.execute(&insert, (id, "x"))).collect();
        let runtime = R::current().expect("a runtime");
        let all = std::future::poll_fn(|cx| {
            requests.retain_mut(|request| match Future::poll(std::pin::Pin::new(request), cx) {
                Poll::Ready(result) => { result.expect("inserted"); false }
                Poll::Pending => true,
            });
            if requests.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        });
        within(&runtime, all).await.expect("all are answered");
        let count = session.execute_unpaged("SELECT id FROM app.users", ()).await.expect("selected").row_count();
        assert_eq!(count, 300);
    }

    #[test]
    async fn a_schema_change_is_followed_before_the_caller_goes_on<R: Runtime>() {
        let cluster = cluster(2);
        let session = session::<R>(&cluster).await;
        session.execute("CREATE TABLE app.fresh (id int PRIMARY KEY, v text)", ()).await.expect("created");
        assert!(session.cluster().table_idx("app", "fresh").is_some(), "the new table is known to routing");
        session.execute("INSERT INTO app.fresh (id, v) VALUES (?, ?)", (1, "v")).await.expect("inserted");
    }

    #[test]
    async fn a_keyspace_is_entered_on_every_connection<R: Runtime>() {
        let cluster = cluster(2);
        let session = session::<R>(&cluster).await;
        session.use_keyspace("app").await.expect("entered");
        for id in 0..20 {
            session.execute("INSERT INTO users (id, name) VALUES (?, ?)", (id, "x")).await.expect("an unqualified name");
        }
        let error = session.use_keyspace("no such").await.expect_err("no keyspace has such a name");
        assert!(error.to_string().contains("settings"), "{error}");
        let other = builder::<R>(&cluster).keyspace("app").build().await.expect("a session");
        let all = other.execute_unpaged("SELECT id FROM users", ()).await.expect("an unqualified name");
        assert_eq!(all.row_count(), 20);
    }
}

/// The promise of the documentation: a request's future is small and can move between threads.
#[test]
fn a_request_is_a_small_future_that_can_be_sent() {
    fn check<F: Send>(future: &F) -> usize {
        size_of_val(future)
    }
    crate::support::on_tokio(async {
        let cluster = cluster(1);
        let session = session::<messina_tokio::Tokio>(&cluster).await;
        let insert = session
            .prepare("INSERT INTO app.users (id, name) VALUES (?, ?)")
            .await
            .expect("prepared");
        let size = check(&session.execute(&insert, (1, "a")));
        assert!(size <= 1024, "{size} bytes");
    });
}
