//! Keyspaces: with names that need quotes, with names that are not there, at the start of a session and later.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use messina_tokio::{RequestError, Session, SessionErrorKind};

use super::{OPEN, contact_point, in_full, open_session};

#[tokio::test]
async fn a_keyspace_in_upper_case_is_used_from_the_start_and_later_as_it_is_written() {
    let Some(session) = open_session("upper_case").await else {
        return;
    };
    session.execute("CREATE KEYSPACE \"MyKs\" WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1}", ()).await.unwrap();
    session
        .execute("CREATE TABLE \"MyKs\".t (pk int PRIMARY KEY)", ())
        .await
        .unwrap();
    let address = contact_point(&OPEN).unwrap();

    let builder = Session::builder()
        .contact_point(&address)
        .local_datacenter("dc1")
        .keyspace("MyKs");
    let from_the_start = builder.build().await.unwrap();
    session.use_keyspace("MyKs").await.unwrap();

    from_the_start
        .execute("INSERT INTO t (pk) VALUES (7)", ())
        .await
        .unwrap();
    let result = session.execute("SELECT pk FROM t", ()).await.unwrap();
    assert_eq!(result.one::<(i32,)>().unwrap(), (7,));
}

#[tokio::test]
async fn a_session_with_a_missing_keyspace_fails_with_its_name_and_leaves_no_connection() {
    let Some(session) = open_session("missing_keyspace").await else {
        return;
    };
    let address = contact_point(&OPEN).unwrap();

    let builder = Session::builder()
        .contact_point(&address)
        .local_datacenter("dc1");
    let refused = builder
        .keyspace("not_here")
        .application("refused", "1")
        .build()
        .await;

    let error = refused.expect_err("there is no such keyspace");
    assert!(in_full(&error).contains("not_here"), "{error:?}");
    let until = Instant::now() + Duration::from_secs(20);
    while 0 < connections_of(&session, "refused").await.unwrap() {
        assert!(
            Instant::now() < until,
            "the failed session still has connections"
        );
    }
}

#[tokio::test]
async fn changing_to_a_missing_keyspace_fails_with_its_name_and_the_session_keeps_its_own() {
    let Some(session) = open_session("stays").await else {
        return;
    };
    session
        .execute("CREATE TABLE t (pk int PRIMARY KEY)", ())
        .await
        .unwrap();

    for name in ["not_here", "Ab\"c", "x; DROP TABLE t"] {
        let error = session
            .use_keyspace(name)
            .await
            .expect_err("there is no such keyspace");

        assert!(
            matches!(
                error.kind(),
                SessionErrorKind::Keyspace { .. } | SessionErrorKind::Config(_)
            ),
            "{error:?}"
        );
        assert!(
            in_full(&error).contains(&format!("{name:?}")) || in_full(&error).contains(name),
            "{error}"
        );
    }
    session.execute("SELECT pk FROM t", ()).await.unwrap();
}

/// How many connections a node has from sessions of an application.
async fn connections_of(session: &Session, application: &str) -> Result<usize, RequestError> {
    let result = session
        .execute("SELECT client_options FROM system_views.clients", ())
        .await?;
    let options = result
        .rows::<(BTreeMap<&str, &str>,)>()?
        .map(Result::unwrap);
    Ok(options
        .filter(|(options,)| options.get("APPLICATION_NAME") == Some(&application))
        .count())
}
