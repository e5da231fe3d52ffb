//! How large the values are that every request moves.

use messina_core::conn::Connection;
use messina_core::error::connect::AttemptError;
use messina_core::wire::ResponseFrame;
use messina_engine::Session;
use messina_engine::api::{QueryResult, RequestError};
use messina_tokio::Tokio;

use crate::figure;
use crate::requests::{Shape, on_one_thread};

#[test]
fn the_future_of_a_request_takes_at_most_a_kilobyte() {
    on_one_thread(async {
        let load = Shape::one_node()
            .load("INSERT INTO app.kv (pk, v, data) VALUES (?, ?, ?)")
            .await;
        let values = (1_i64, "sixteen letters.", &[0xab_u8; 16][..]);
        let size = size_of_val(&load.session.execute(&*load.statement, values));
        figure("bytes of a request's future", size);
        assert!(size <= 1024, "{size} bytes");
    });
}

#[test]
fn an_error_of_a_request_is_one_pointer() {
    assert_eq!(size_of::<RequestError>(), size_of::<usize>());
    assert_eq!(size_of::<Result<(), RequestError>>(), size_of::<usize>());
}

#[test]
fn what_is_moved_with_an_answer_is_small() {
    assert!(size_of::<ResponseFrame>() <= 64);
    let error = size_of::<AttemptError>();
    assert!(error <= 40, "{error} bytes");
    let result = size_of::<QueryResult>();
    assert!(result <= 256, "{result} bytes");
}

#[test]
fn a_session_and_a_connection_take_little_in_place() {
    assert_eq!(size_of::<Session<Tokio>>(), size_of::<usize>());
    let connection = size_of::<Connection>();
    assert!(connection <= 1024, "{connection} bytes");
}
