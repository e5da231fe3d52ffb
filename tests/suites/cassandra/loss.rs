//! A real cluster that loses a node and gets it back.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use messina_testkit::cassandra::Cassandra;
use messina_tokio::{RequestError, Session, Statement};

use super::available;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_without_a_lost_node_and_uses_it_again_when_it_is_back() {
    let started = Cassandra::builder().nodes(2).racks(2).start();
    if available(started.as_ref()).is_none() {
        return;
    }
    let mut cassandra = started.unwrap();
    let addresses = cassandra.addresses();
    // The second node is told to nobody: the session finds it in the tables of the first.
    let builder = Session::builder().contact_point(addresses[0].to_string());
    let session = builder.local_datacenter("dc1").build().await.unwrap();

    for address in &addresses {
        assert!(
            answers(&session, *address).await.unwrap(),
            "{address} is not used"
        );
    }
    // The node of the contact point and of the control connection.
    cassandra.kill_node(0).unwrap();
    for _ in 0..100 {
        assert_eq!(coordinator(&session).await.unwrap(), addresses[1]);
    }
    cassandra.start_node(0).unwrap();
    assert!(
        answers(&session, addresses[0]).await.unwrap(),
        "the node is back and not used"
    );
}

/// Whether a node answers some request of the session, within a minute.
async fn answers(session: &Session, address: SocketAddr) -> Result<bool, RequestError> {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if coordinator(session).await? == address {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Which node answers the next request.
async fn coordinator(session: &Session) -> Result<SocketAddr, RequestError> {
    let statement = Statement::new("SELECT key FROM system.local").idempotent(true);
    let result = session.execute(&statement, ()).await?;
    Ok(result.coordinator().expect("somebody answered").address)
}
