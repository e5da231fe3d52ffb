//! The end of a session: nothing is left, nothing hangs, whatever is going on.

use std::net::TcpListener;
use std::time::Duration;

use messina_engine::api::{PageSize, RequestErrorKind, SessionErrorKind};
use messina_engine::runtime::Runtime;
use messina_testkit::node::{Reaction, RequestKind};

use crate::on_each_runtime;
use crate::support::{cluster, eventually, on_tokio, open_connections, poll_once, session, within};

const SHORT: Duration = Duration::from_millis(200);

on_each_runtime! {
    #[test]
    async fn close_leaves_no_connection<R: Runtime>() {
        let cluster = cluster(3);
        let session = session::<R>(&cluster).await;
        session.execute("INSERT INTO app.users (id, name) VALUES (?, ?)", (1, "a")).await.expect("inserted");
        let runtime = R::current().expect("a runtime");
        let cut = within(&runtime, session.close(Duration::from_secs(5))).await.expect("an end of the close");
        assert_eq!(cut, 0, "nothing was in flight");
        eventually("the end of every connection", || open_connections(&cluster, 3) == 0);
        let again = within(&runtime, session.close(SHORT)).await;
        assert_eq!(again, Some(0), "a second close is fine");
    }

    #[test]
    async fn dropping_the_last_session_closes_everything<R: Runtime>() {
        let cluster = cluster(2);
        let session = session::<R>(&cluster).await;
        let other = session.clone();
        drop(session);
        other.execute("INSERT INTO app.users (id, name) VALUES (?, ?)", (1, "a")).await.expect("a clone keeps it open");
        drop(other);
        eventually("the end of every connection", || open_connections(&cluster, 2) == 0);
    }

    #[test]
    async fn a_closed_session_refuses_at_once<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let select = session.prepare("SELECT id FROM app.users").await.expect("prepared");
        let mut pages = session.pages(&select, ());
        let runtime = R::current().expect("a runtime");
        within(&runtime, session.close(SHORT)).await.expect("an end of the close");
        let closed = |kind: &RequestErrorKind| matches!(kind, RequestErrorKind::Closed);
        assert!(closed(session.execute(&select, ()).await.expect_err("closed").kind()));
        assert!(closed(session.prepare("SELECT id FROM app.users").await.expect_err("closed").kind()));
        assert!(closed(pages.next().await.expect_err("closed").kind()));
        let error = within(&runtime, session.use_keyspace("app")).await.expect("an answer").expect_err("closed");
        assert!(matches!(error.kind(), SessionErrorKind::Closed), "{error:?}");
        let error = within(&runtime, session.await_agreement()).await.expect("an answer").expect_err("closed");
        assert!(matches!(error.kind(), SessionErrorKind::Closed), "{error:?}");
    }

    #[test]
    async fn a_request_in_flight_gets_its_answer_or_is_cut_at_the_deadline<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await.expect("prepared");
        cluster.intercept(|request| match request.kind {
            RequestKind::Execute => Reaction::Ignore,
            _ => Reaction::Answer,
        });
        let mut request = session.execute(&insert, (1, "a"));
        assert!(poll_once(&mut request).await.is_pending());
        let runtime = R::current().expect("a runtime");
        let cut = within(&runtime, session.close(SHORT)).await.expect("an end of the close");
        assert_eq!(cut, 1);
        let outcome = within(&runtime, request).await.expect("an end of the request");
        let error = outcome.expect_err("nobody answered");
        assert!(matches!(error.kind(), RequestErrorKind::Connection(_)), "{error:?}");
    }

    #[test]
    async fn close_while_connections_are_being_opened_leaves_none<R: Runtime>() {
        let cluster = cluster(3);
        cluster.intercept(|request| match (request.kind, request.node) {
            (RequestKind::Startup, 1 | 2) => Reaction::Ignore,
            _ => Reaction::Answer,
        });
        let contact = cluster.contact_points().remove(0);
        let session = messina_engine::Session::<R>::builder().contact_point(contact).build().await.expect("a session");
        let runtime = R::current().expect("a runtime");
        within(&runtime, session.close(SHORT)).await.expect("an end of the close");
        eventually("the end of every connection", || open_connections(&cluster, 3) == 0);
    }

    #[test]
    async fn close_twice_at_once_while_nothing_can_be_reached<R: Runtime>() {
        let cluster = cluster(2);
        let session = session::<R>(&cluster).await;
        cluster.stop_node(0);
        cluster.stop_node(1);
        let runtime = R::current().expect("a runtime");
        let other = session.clone();
        let first = within(&runtime, session.close(SHORT)).await;
        let second = within(&runtime, other.close(SHORT)).await;
        assert!(first.is_some() && second.is_some());
    }

    #[test]
    async fn a_failed_start_leaves_no_task_that_dials<R: Runtime>() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = silent.local_addr().expect("an address").to_string();
        let builder = messina_engine::Session::<R>::builder().contact_point(address);
        let builder = builder.config(|config| config.connection.handshake_timeout = SHORT);
        let runtime = R::current().expect("a runtime");
        let outcome = within(&runtime, builder.build()).await.expect("an end of the start");
        outcome.expect_err("nobody answers");
        silent.set_nonblocking(true).expect("a socket option");
        let mut sockets = Vec::new();
        while let Ok((socket, _)) = silent.accept() {
            sockets.push(socket);
        }
        for socket in sockets {
            socket.set_nonblocking(false).expect("a socket option");
            let gone = std::io::copy(&mut &socket, &mut std::io::sink());
            assert!(gone.is_ok(), "the other side has closed: {gone:?}");
        }
    }
}

#[test]
fn a_runtime_that_stops_under_a_session_causes_no_panic_and_no_hang() {
    let cluster = cluster(2);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let session = runtime.block_on(async {
        let session = session::<messina_tokio::Tokio>(&cluster).await;
        for at in 0..5 {
            let insert = "INSERT INTO app.events (day, at, what) VALUES (?, ?, ?)";
            session
                .execute(insert, (1, at, "x"))
                .await
                .expect("inserted");
        }
        session
    });
    let select = messina_tokio::Statement::new("SELECT at FROM app.events WHERE day = 1")
        .page_size(PageSize::new(2));
    let mut pages = session.pages(&select, ());
    assert!(runtime.block_on(pages.next()).expect("a page").is_some());
    drop(runtime);
    on_tokio(async {
        let other = messina_tokio::Tokio::current().expect("a runtime");
        let outcome = within(&other, pages.next()).await.expect("an end");
        assert!(outcome.is_err(), "nobody drives the connections any more");
        drop(pages);
        within(&other, session.close(SHORT)).await;
    });
}
