//! Starting a session: where nobody is, where nobody answers, with wrong settings, without a runtime.

use std::future::Future;
use std::net::TcpListener;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use messina_engine::api::SessionErrorKind;
use messina_engine::runtime::Runtime;
use messina_testkit::SimulatedCluster;

use crate::on_each_runtime;
use crate::support::{builder, cluster, connect_to, eventually, open_connections, session, within};

const SHORT: Duration = Duration::from_millis(300);

on_each_runtime! {
    #[test]
    async fn a_host_name_that_does_not_exist_is_an_error<R: Runtime>() {
        let error = connect_to::<R>("no-such-host.invalid:9042", |builder| builder).await;
        assert!(!error.failures().is_empty(), "{error:?}");
        assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
    }

    #[test]
    async fn a_refused_connection_is_an_error<R: Runtime>() {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port();
        let error = connect_to::<R>(&format!("127.0.0.1:{port}"), |builder| builder).await;
        assert!(!error.failures().is_empty(), "{error:?}");
    }

    #[test]
    async fn a_peer_that_never_says_anything_is_given_up<R: Runtime>() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = silent.local_addr().expect("an address").to_string();
        let error = connect_to::<R>(&address, |builder| {
            builder.config(|config| config.connection.handshake_timeout = SHORT)
        })
        .await;
        assert!(!error.failures().is_empty(), "{error:?}");
    }

    #[test]
    async fn one_good_contact_point_among_bad_ones_is_enough<R: Runtime>() {
        let cluster = cluster(1);
        let good = cluster.contact_points().remove(0);
        let session = messina_engine::Session::<R>::builder()
            .contact_points(["no-such-host.invalid", "127.0.0.1:1", &good])
            .build()
            .await
            .expect("the good one is found");
        assert_eq!(session.cluster().hosts.len(), 1);
    }

    #[test]
    async fn settings_are_checked_before_anything_is_dialled<R: Runtime>() {
        let nowhere = messina_engine::Session::<R>::builder().build().await.expect_err("no contact point");
        assert!(matches!(nowhere.kind(), SessionErrorKind::Config(_)), "{nowhere:?}");
        let wrong = messina_engine::Session::<R>::builder().contact_point("host:port").build().await;
        let wrong = wrong.expect_err("no port number");
        assert!(matches!(wrong.kind(), SessionErrorKind::Config(_)), "{wrong:?}");
    }

    #[test]
    async fn a_login_is_asked_for_and_checked<R: Runtime>() {
        let cluster = SimulatedCluster::builder().nodes(1).credentials("ada", "secret").start().expect("loopback addresses");
        let good = builder::<R>(&cluster).credentials("ada", "secret").build().await;
        good.expect("the right password");
        let bad = builder::<R>(&cluster).credentials("ada", "wrong").build().await;
        let bad = bad.expect_err("the wrong password").to_string();
        assert!(!bad.contains("wrong"), "a message never shows the password: {bad}");
    }

    #[test]
    async fn a_start_that_is_given_up_leaves_nothing_behind<R: Runtime>() {
        let cluster = cluster(2);
        let runtime = R::current().expect("a runtime");
        {
            let mut start = pin!(builder::<R>(&cluster).build());
            let first = std::future::poll_fn(|cx| Poll::Ready(start.as_mut().poll(cx).is_pending())).await;
            assert!(first, "a start takes more than one poll");
        }
        // A start that does finish shows that the one given up is not in its way.
        let session = session::<R>(&cluster).await;
        within(&runtime, session.close(SHORT)).await.expect("an end of the close");
        eventually("the end of every connection", || open_connections(&cluster, 2) == 0);
    }
}

#[test]
fn outside_of_a_tokio_runtime_there_is_an_error_and_no_panic() {
    assert!(messina_tokio::Tokio::current().is_err());
    let mut start = pin!(
        messina_tokio::Session::builder()
            .contact_point("127.0.0.1")
            .build()
    );
    let Poll::Ready(Err(error)) = start.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    else {
        panic!("a session cannot start without a runtime");
    };
    assert!(
        matches!(error.kind(), SessionErrorKind::Runtime(_)),
        "{error:?}"
    );
    assert!(error.to_string().contains("reactor"), "{error}");
}

#[test]
fn a_tokio_runtime_without_a_driver_is_an_error_that_names_it() {
    let mut without_time = tokio::runtime::Builder::new_current_thread();
    without_time.enable_io();
    let mut without_io = tokio::runtime::Builder::new_current_thread();
    without_io.enable_time();
    for (mut runtime, driver) in [(without_time, "time driver"), (without_io, "IO driver")] {
        let runtime = runtime.build().expect("a runtime");
        let start = messina_tokio::Session::builder()
            .contact_point("127.0.0.1")
            .build();
        let error = runtime.block_on(start).expect_err("a driver is missing");
        assert!(
            matches!(error.kind(), SessionErrorKind::Runtime(_)),
            "{error:?}"
        );
        let words = error.to_string();
        assert!(
            words.contains(driver) && words.contains("enable_all"),
            "{words}"
        );
    }
}

#[test]
fn three_runtimes_live_in_one_process() {
    let cluster = cluster(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            crate::support::on_tokio(async {
                drop(session::<messina_tokio::Tokio>(&cluster).await)
            })
        });
        scope.spawn(|| {
            smol::block_on(async { drop(session::<messina_smol::Smol>(&cluster).await) })
        });
        scope.spawn(|| {
            async_std::task::block_on(async {
                drop(session::<messina_async_std::AsyncStd>(&cluster).await)
            })
        });
    });
}
