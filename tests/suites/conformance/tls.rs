//! Encrypted sessions: let in, kept out, and told why.

use messina_engine::api::{Compression, NodeCause};
use messina_engine::tls::{self, TlsErrorKind, TlsPlanBuilder};
use messina_testkit::SimulatedCluster;
use messina_testkit::certificates::{Authority, Identity};
use messina_testkit::serve::Tls;

use crate::on_each_runtime;
use crate::support::{Harness, builder, within};

on_each_runtime! {
    #[test]
    async fn an_encrypted_cluster_is_used_like_any_other<R: Runtime>() {
        let cluster = encrypted(Tls::Server);
        let plan = trusting(&cluster).build().expect("a plan");
        let session = builder::<R>(&cluster).tls(plan).build().await.expect("let in");
        let long = "x".repeat(3_000_000);
        session.execute("CREATE KEYSPACE app WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1}", ()).await.expect("created");
        session.execute("CREATE TABLE app.texts (id int PRIMARY KEY, v text)", ()).await.expect("created");
        let insert = session.prepare("INSERT INTO app.texts (id, v) VALUES (?, ?)").await.expect("prepared");
        session.execute(&insert, (1, &long[..])).await.expect("inserted");
        let row = session.execute("SELECT v FROM app.texts WHERE id = 1", ()).await.expect("selected");
        assert_eq!(row.one::<(String,)>().expect("a row"), (long,));
        assert_eq!(session.cluster().hosts.len(), 2);
    }

    #[test]
    async fn a_cluster_that_asks_for_certificates_lets_in_who_has_one<R: Runtime>() {
        let cluster = encrypted(Tls::Mutual);
        let client = cluster.authority().expect("it is encrypted").issue(&["client"]);
        let plan = showing(trusting(&cluster), &client).build().expect("a plan");
        let session = builder::<R>(&cluster).tls(plan).build().await.expect("let in");
        session.execute("SELECT key FROM system.local", ()).await.expect("selected");
    }

    #[test]
    async fn a_client_without_a_certificate_is_told_that_it_needs_one<R: Runtime>() {
        let cluster = encrypted(Tls::Mutual);
        let stranger = Authority::new().issue(&["client"]);
        for plan in [trusting(&cluster), showing(trusting(&cluster), &stranger)] {
            let kind = refusal::<R>(&cluster, plan).await;
            assert_eq!(kind, Some(TlsErrorKind::ClientCertificateRefused));
        }
    }

    #[test]
    async fn a_certificate_that_nobody_vouches_for_is_named_in_the_error<R: Runtime>() {
        let cluster = encrypted(Tls::Server);
        let plan = tls::plan().roots_pem(Authority::new().pem().as_bytes());
        assert_eq!(refusal::<R>(&cluster, plan).await, Some(TlsErrorKind::UnknownIssuer));
        let plan = trusting(&cluster).server_name("other.example");
        assert_eq!(refusal::<R>(&cluster, plan).await, Some(TlsErrorKind::WrongName));
    }

    #[test]
    async fn a_client_that_encrypts_and_a_server_that_does_not_find_out_at_once<R: Runtime>() {
        let plain = SimulatedCluster::builder().start().expect("loopback addresses");
        let plan = tls::plan().roots_pem(Authority::new().pem().as_bytes());
        assert_eq!(refusal::<R>(&plain, plan).await, Some(TlsErrorKind::NotTls));

        let cluster = encrypted(Tls::Server);
        let session = builder::<R>(&cluster).build();
        let outcome = within(&R::current().expect("a runtime"), session).await.expect("in time");
        let error = outcome.expect_err("the server wants encryption").to_string();
        assert!(error.contains("tls"), "{error}");
    }

    #[test]
    async fn what_is_compressed_is_encrypted_as_well<R: Runtime>() {
        let cluster = encrypted(Tls::Server);
        let plan = trusting(&cluster).build().expect("a plan");
        for compression in [Compression::Lz4, Compression::Snappy] {
            let session = builder::<R>(&cluster).tls(plan.clone()).compression(compression).build();
            let session = session.await.expect("let in");
            let long = "x".repeat(300_000);
            session.execute("CREATE KEYSPACE IF NOT EXISTS app WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1}", ()).await.expect("created");
            session.execute("CREATE TABLE IF NOT EXISTS app.texts (id int PRIMARY KEY, v text)", ()).await.expect("created");
            session.execute("INSERT INTO app.texts (id, v) VALUES (?, ?)", (1, &long[..])).await.expect("inserted");
            let row = session.execute("SELECT v FROM app.texts WHERE id = 1", ()).await.expect("selected");
            assert_eq!(row.one::<(String,)>().expect("a row"), (long,));
        }
    }
}

fn encrypted(tls: Tls) -> SimulatedCluster {
    SimulatedCluster::builder()
        .nodes(2)
        .shards(2)
        .shard_aware_port(true)
        .tls(tls)
        .start()
        .expect("loopback addresses")
}

/// A plan that trusts the cluster's authority.
fn trusting(cluster: &SimulatedCluster) -> TlsPlanBuilder {
    let authority = cluster.authority().expect("it is encrypted");
    tls::plan().roots_pem(authority.pem().as_bytes())
}

fn showing(plan: TlsPlanBuilder, client: &Identity) -> TlsPlanBuilder {
    plan.client_certificate_pem(client.chain_pem().as_bytes(), client.key_pem().as_bytes())
}

/// Why TLS keeps a session from starting.
async fn refusal<R: Harness>(
    cluster: &SimulatedCluster,
    plan: TlsPlanBuilder,
) -> Option<TlsErrorKind> {
    use messina_engine::core::error::connect::ConnectCause;
    let plan = plan.build().expect("a plan");
    let session = builder::<R>(cluster).tls(plan).build();
    let outcome = within(&R::current().expect("a runtime"), session).await;
    let error = outcome.expect("in time").expect_err("not let in");
    let mut kinds = error.failures().iter().map(|failure| match &failure.cause {
        NodeCause::Connect(error) => match &error.cause {
            ConnectCause::Tls(error) => Some(error.kind()),
            _ => None,
        },
        _ => None,
    });
    kinds.next_back().flatten()
}
