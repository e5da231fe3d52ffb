//! Passwords: who gets in, and what those hear who do not.

use messina_testkit::cassandra::Cassandra;
use messina_tokio::Session;
use messina_tokio::core::error::connect::ConnectPhase;
use messina_tokio::core::error::session::{NodeCause, NodeFailure};

use super::{GUARDED, contact_point, in_full};

#[tokio::test]
async fn the_right_password_lets_a_session_in() {
    let Some(address) = contact_point(&GUARDED) else {
        return;
    };

    let builder = Session::builder()
        .contact_point(&address)
        .local_datacenter("dc1")
        .credentials(Cassandra::USER, Cassandra::PASSWORD);
    let session = builder.build().await.unwrap();

    let result = session
        .execute("SELECT role FROM system_auth.roles", ())
        .await
        .unwrap();
    let roles: Vec<(String,)> = result.rows().unwrap().map(Result::unwrap).collect();
    assert_eq!(roles, [(Cassandra::USER.to_owned(),)]);
}

#[tokio::test]
async fn a_wrong_password_is_an_error_that_names_address_and_phase_and_not_the_password() {
    let Some(address) = contact_point(&GUARDED) else {
        return;
    };

    let refused = Session::builder()
        .contact_point(&address)
        .local_datacenter("dc1")
        .credentials(Cassandra::USER, "a wrong one")
        .build()
        .await;

    let error = refused.expect_err("the password is wrong");
    let [
        NodeFailure {
            cause: NodeCause::Connect(failed),
            ..
        },
    ] = error.failures()
    else {
        panic!("{error:?}")
    };
    assert_eq!(failed.phase, ConnectPhase::Auth);
    assert_eq!(failed.address.to_string(), address);
    let text = in_full(&error);
    assert!(text.contains(&address), "{text}");
    assert!(text.contains("password are incorrect"), "{text}");
    assert!(
        !format!("{text} {error:?}").contains("a wrong one"),
        "{error:?}"
    );
}

#[tokio::test]
async fn without_credentials_the_error_names_the_authenticator_that_asks_for_them() {
    let Some(address) = contact_point(&GUARDED) else {
        return;
    };

    let refused = Session::builder()
        .contact_point(&address)
        .local_datacenter("dc1")
        .build()
        .await;

    let text = in_full(&refused.expect_err("there are no credentials"));
    assert!(text.contains(&address), "{text}");
    assert!(text.contains("PasswordAuthenticator"), "{text}");
}
