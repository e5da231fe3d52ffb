//! Encrypted connections to a real server: where it offers them, wants them, or wants certificates of clients too.

use messina_testkit::cassandra::{Cassandra, ClientEncryption};
use messina_testkit::certificates::Authority;
use messina_tokio::tls::{self, TlsErrorKind, TlsPlan, TlsPlanBuilder};
use messina_tokio::{NodeCause, Session, SessionError};

use super::available;
use super::modes::Mode;

/// A node of this test's own, or `None` when the test has to be skipped.
fn node(encryption: ClientEncryption) -> Option<Cassandra> {
    let started = Cassandra::builder().encryption(encryption).start();
    available(started.as_ref())
        .is_some()
        .then(|| started.expect("it started"))
}

fn trusting(cassandra: &Cassandra) -> TlsPlanBuilder {
    let authority = cassandra.authority().expect("it is encrypted");
    tls::plan().roots_pem(authority.pem().as_bytes())
}

async fn session(
    cassandra: &Cassandra,
    mode: Mode,
    tls: Option<TlsPlan>,
) -> Result<Session, SessionError> {
    let builder = mode
        .choose(Session::builder())
        .application("encryption", "1");
    let builder = builder.contact_points(cassandra.contact_points());
    match tls {
        Some(plan) => builder.tls(plan).build().await,
        None => builder.build().await,
    }
}

/// Writes and reads a little and a lot.
async fn try_out(session: &Session) {
    let statements = [
        "CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1}",
        "CREATE TABLE IF NOT EXISTS ks.t (id int PRIMARY KEY, v text)",
    ];
    for statement in statements {
        session
            .execute(statement, ())
            .await
            .expect("it can be created");
    }
    let insert = session
        .prepare("INSERT INTO ks.t (id, v) VALUES (?, ?)")
        .await
        .unwrap();
    for len in [10, 20_000, 2_000_000] {
        let text = "x".repeat(len);
        session
            .execute(&insert, (1, &text[..]))
            .await
            .expect("inserted");
        let row = session
            .execute("SELECT v FROM ks.t WHERE id = 1", ())
            .await
            .expect("selected");
        assert!(
            row.one::<(String,)>().expect("a row").0 == text,
            "{len} bytes"
        );
    }
}

/// Why TLS kept a session from starting, with the whole error in words.
fn refusal(outcome: Result<Session, SessionError>) -> (Option<TlsErrorKind>, String) {
    use messina_tokio::core::error::connect::ConnectCause;
    let error = outcome.map(drop).expect_err("not let in");
    let mut kinds = error.failures().iter().map(|failure| match &failure.cause {
        NodeCause::Connect(error) => match &error.cause {
            ConnectCause::Tls(error) => Some(error.kind()),
            _ => None,
        },
        _ => None,
    });
    (kinds.next_back().flatten(), error.to_string())
}

#[tokio::test]
async fn where_encryption_is_offered_both_kinds_of_clients_get_in() {
    let Some(cassandra) = node(ClientEncryption::Optional) else {
        return;
    };
    let plan = trusting(&cassandra).build().unwrap();
    for mode in [
        Mode::Version5,
        Mode::Version4,
        Mode::Version4Lz4,
        Mode::Version5Lz4,
    ] {
        println!("in mode {mode:?}");
        let encrypted = session(&cassandra, mode, Some(plan.clone()))
            .await
            .expect("let in");
        try_out(&encrypted).await;
        mode.check(&encrypted, "encryption", true).await;
        encrypted.close(std::time::Duration::from_secs(5)).await;
    }
    let plain = session(&cassandra, Mode::Version5, None)
        .await
        .expect("let in");
    try_out(&plain).await;
}

#[tokio::test]
async fn where_encryption_is_wanted_only_those_who_encrypt_get_in() {
    let Some(cassandra) = node(ClientEncryption::Required) else {
        return;
    };
    let plan = trusting(&cassandra).build().unwrap();
    let encrypted = session(&cassandra, Mode::Version5, Some(plan))
        .await
        .expect("let in");
    try_out(&encrypted).await;

    let (_, words) = refusal(session(&cassandra, Mode::Version5, None).await);
    assert!(
        words.contains("asking for the supported options failed"),
        "{words}"
    );

    let stranger = tls::plan().roots_pem(Authority::new().pem().as_bytes());
    let outcome = session(&cassandra, Mode::Version5, Some(stranger.build().unwrap())).await;
    let (kind, words) = refusal(outcome);
    assert_eq!(kind, Some(TlsErrorKind::UnknownIssuer), "{words}");

    let other = trusting(&cassandra)
        .server_name("other.example")
        .build()
        .unwrap();
    let (kind, words) = refusal(session(&cassandra, Mode::Version5, Some(other)).await);
    assert_eq!(kind, Some(TlsErrorKind::WrongName), "{words}");
}

#[tokio::test]
async fn where_certificates_of_clients_are_wanted_only_those_who_have_one_get_in() {
    let Some(cassandra) = node(ClientEncryption::Mutual) else {
        return;
    };
    let authority = cassandra.authority().expect("it is encrypted");
    let client = authority.issue(&["client"]);
    let (chain, key) = (client.chain_pem().as_bytes(), client.key_pem().as_bytes());
    let plan = trusting(&cassandra).client_certificate_pem(chain, key);
    let known = session(&cassandra, Mode::Version5, Some(plan.build().unwrap())).await;
    try_out(&known.expect("let in")).await;

    let plan = trusting(&cassandra).build().unwrap();
    let (kind, words) = refusal(session(&cassandra, Mode::Version5, Some(plan)).await);
    assert!(words.contains("cannot connect"), "{words}");
    assert_eq!(
        kind,
        Some(TlsErrorKind::ClientCertificateRefused),
        "{words}"
    );
}
