//! Connections to each shard of a node, on real sockets.

use messina_engine::Session;
use messina_engine::api::ReadinessRule;
use messina_engine::runtime::Runtime;
use messina_testkit::SimulatedCluster;

use crate::on_each_runtime;

fn sharded(shard_aware_port: bool) -> SimulatedCluster {
    SimulatedCluster::builder()
        .nodes(2)
        .shards(5)
        .shard_aware_port(shard_aware_port)
        .cql([
            "CREATE KEYSPACE app WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1}",
            "CREATE TABLE app.users (id int PRIMARY KEY, name text)",
        ])
        .start()
        .expect("loopback addresses and valid CQL")
}

async fn complete<R: Runtime>(cluster: &SimulatedCluster) -> Session<R> {
    let session = Session::<R>::builder()
        .contact_points(cluster.contact_points())
        .ready(ReadinessRule::EveryShard)
        .build()
        .await
        .expect("a session with the simulated cluster");
    let stats = session.cluster().shard_aware_stats();
    assert_eq!(stats.len(), 2);
    assert!(
        stats
            .iter()
            .all(|own| (own.shards, own.connected) == (5, 5)),
        "{stats:?}"
    );
    session
}

on_each_runtime! {
    #[test]
    async fn every_shard_is_reached_through_the_shard_aware_port<R: Runtime>() {
        let cluster = sharded(true);
        complete::<R>(&cluster).await;
    }

    #[test]
    async fn every_shard_is_reached_through_the_regular_port<R: Runtime>() {
        let cluster = sharded(false);
        complete::<R>(&cluster).await;
    }

    #[test]
    async fn a_request_is_served_by_the_shard_that_owns_its_key<R: Runtime>() {
        let cluster = sharded(true);
        let session = complete::<R>(&cluster).await;
        let select = session.prepare("SELECT name FROM app.users WHERE id = ?").await.expect("prepared");
        let mut shards = std::collections::BTreeSet::new();
        for id in 0..50_i32 {
            let result = session.execute(&select, (id,)).await.expect("selected");
            let coordinator = result.coordinator().expect("the node that answered is known");
            let bound = select.bind((id,)).expect("bound");
            let token = bound.token().expect("the key is bound");
            let owner = session.cluster().shard_of(coordinator.place.host, token);
            assert_eq!(coordinator.shard, owner);
            shards.extend(owner.map(|shard| shard.0));
        }
        assert_eq!(shards.len(), 5, "each shard owns some");
    }
}
