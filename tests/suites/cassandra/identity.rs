//! What operators of a real cluster see of a session.

use std::collections::HashMap;

use messina_tokio::Session;

use super::{OPEN, contact_point};

#[tokio::test]
async fn operators_find_every_connection_of_a_session_by_its_id_and_its_configuration_once() {
    let Some(address) = contact_point(&OPEN) else {
        return;
    };
    let session = Session::builder()
        .contact_point(&address)
        .application("shop", "7.1")
        .build()
        .await
        .expect("the node is up");
    let id = session.id().to_string();
    let result = session
        .execute(
            "SELECT driver_name, driver_version, client_options FROM system_views.clients",
            (),
        )
        .await
        .unwrap();
    let mut own = 0;
    let mut documents = Vec::new();
    for row in result
        .rows::<(
            Option<String>,
            Option<String>,
            Option<HashMap<String, String>>,
        )>()
        .unwrap()
    {
        let (name, version, options) = row.unwrap();
        let options = options.unwrap_or_default();
        if options.get("SESSION_ID") != Some(&id) {
            continue;
        }
        own += 1;
        assert_eq!(
            name.as_deref(),
            options.get("DRIVER_NAME").map(String::as_str)
        );
        assert_eq!(
            version.as_deref(),
            options.get("DRIVER_VERSION").map(String::as_str)
        );
        assert!(
            name.is_some_and(|name| name.contains("Messina")),
            "{options:?}"
        );
        assert_eq!(options["APPLICATION_NAME"], "shop");
        assert_eq!(options["APPLICATION_VERSION"], "7.1");
        documents.extend(options.get("DRIVER_CONFIG").cloned());
    }
    assert!(1 < own, "{own} connections show the id");
    assert_eq!(
        documents,
        [session.driver_config().expect("a document").to_string()]
    );
}
