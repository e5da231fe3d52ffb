//! What a server sees of a session: one id on every connection, and the configuration on the control connection.

use std::collections::{BTreeMap, BTreeSet};

use crate::on_each_runtime;
use crate::support::{builder, cluster, eventually};

/// Reads what the nodes list of their clients, by session.
fn told(cluster: &messina_testkit::SimulatedCluster) -> Vec<BTreeMap<String, String>> {
    let clients = cluster.clients().into_iter();
    clients
        .filter(|client| !client.options.is_empty())
        .map(|client| client.options.into_iter().collect())
        .collect()
}

on_each_runtime! {
    #[test]
    async fn the_list_of_clients_shows_one_id_everywhere_and_the_document_once<R: Runtime>() {
        let cluster = cluster(2);
        let session = builder::<R>(&cluster)
            .application("shop", "7.1")
            .client_id("till-3")
            .ready(messina_engine::api::ReadinessRule::EveryShard)
            .build()
            .await
            .expect("a session");
        let id = session.id().to_string();
        let check = || {
            let told = told(&cluster);
            let documents: Vec<&String> =
                told.iter().filter_map(|options| options.get("DRIVER_CONFIG")).collect();
            let ids: BTreeSet<&String> = told.iter().map(|options| &options["SESSION_ID"]).collect();
            // Four shards and the control connection.
            told.len() == 5
                && ids.into_iter().eq([&id])
                && documents.len() == 1
                && session.driver_config().as_deref() == Some(documents[0].as_str())
                && told.iter().all(|options| {
                    options["APPLICATION_NAME"] == "shop"
                        && options["APPLICATION_VERSION"] == "7.1"
                        && options["CLIENT_ID"] == "till-3"
                })
        };
        eventually("one document and one id", check);
        let first = session.driver_config().expect("a document");
        assert!(first.contains(r#""local-dc":"dc1""#), "{first}");
        cluster.drop_connections(0);
        cluster.drop_connections(1);
        eventually("the same after every connection was made anew", check);
    }

    #[test]
    async fn a_session_that_shows_nothing_of_its_configuration_still_tells_its_id<R: Runtime>() {
        let cluster = cluster(1);
        let session = builder::<R>(&cluster)
            .driver_config_reporting(false)
            .build()
            .await
            .expect("a session");
        assert_eq!(session.driver_config(), None);
        let told = told(&cluster);
        assert!(!told.is_empty());
        for options in told {
            assert_eq!(options["SESSION_ID"], session.id().to_string());
            assert_eq!(options.get("DRIVER_CONFIG"), None);
        }
    }
}
