//! Changes of the session's keyspace.

use std::sync::Arc;
use std::time::Duration;

use super::frames::*;
use super::shards::full;
use super::world::*;
use crate::cluster::CommandId;
use crate::config::session::SessionConfig;
use crate::conn::Role;
use crate::error::connect::{ConnectCause, ConnectError, ConnectPhase};
use crate::error::session::{ConfigError, SessionErrorKind};
use crate::wire::{ResponseFrame, ServerError, ServerErrorDetail};

fn change(world: &mut World, id: u64, name: &str) {
    let deadline = world.now + Duration::from_secs(5);
    world
        .plane
        .use_keyspace(world.now, CommandId(id), Arc::from(name), deadline);
    world.drain();
}

fn results(world: &World) -> Vec<(u64, bool)> {
    world
        .keyspaces_used
        .iter()
        .map(|(id, result)| (id.0, result.is_ok()))
        .collect()
}

#[test]
fn every_data_connection_enters_the_keyspace_and_later_ones_with_their_handshake() {
    let mut world = World::started(3);
    change(&mut world, 1, "MyKs");
    assert_eq!(world.submits.len(), 3);
    assert!(
        world
            .submits
            .iter()
            .all(|submitted| submitted.text() == "USE \"MyKs\"")
    );
    while let Some(submitted) = world.submits.pop_front() {
        assert!(results(&world).is_empty(), "some are not in it yet");
        world.answer(submitted);
    }
    assert_eq!(results(&world), [(1, true)]);
    let conn = world.data(address(2)).expect("a connection");
    world.lose(conn);
    world.tick(world.now + Duration::from_secs(2));
    assert_eq!(world.connects[0].plan.keyspace.as_deref(), Some("MyKs"));
}

#[test]
fn a_connection_that_was_opening_during_the_change_is_not_used_in_the_old_keyspace() {
    let mut world = World::new(
        2,
        SessionConfig {
            keyspace: Some("old".into()),
            ..config(&["192.0.2.1"])
        },
    );
    world.run();
    let conn = world.data(address(2)).expect("a connection");
    world.lose(conn);
    world.tick(world.now + Duration::from_secs(2));
    let dialled = world.connects.pop_front().expect("an attempt");
    assert_eq!(dialled.plan.keyspace.as_deref(), Some("old"));
    change(&mut world, 1, "new");
    world.run();
    world.accept(dialled);
    assert!(
        world
            .routing
            .pool(world.host(2))
            .is_some_and(|pool| pool.is_empty())
    );
    assert_eq!(world.submits[0].text(), "USE \"new\"");
    world.run();
    assert!(
        world
            .routing
            .pool(world.host(2))
            .is_some_and(|pool| !pool.is_empty())
    );
}

#[test]
fn a_keyspace_that_nobody_knows_is_an_error_and_everything_stays() {
    let mut world = World::new(
        2,
        SessionConfig {
            keyspace: Some("old".into()),
            ..config(&["192.0.2.1"])
        },
    );
    world.run();
    world.forget();
    change(&mut world, 1, "gone");
    for submitted in std::mem::take(&mut world.submits) {
        world.reply_with(
            submitted,
            Ok(error_frame(0x2200, "Keyspace 'gone' does not exist")),
        );
    }
    assert_eq!(results(&world), [(1, false)]);
    let error = world.keyspaces_used[0].1.as_ref().expect_err("refused");
    assert!(matches!(error.kind(), SessionErrorKind::Keyspace { name } if &**name == "gone"));
    let words = error.to_string();
    assert!(
        words.contains("entering the keyspace failed: Keyspace 'gone' does not exist"),
        "{words}"
    );
    assert_eq!(error.failures().len(), 2, "one of each node: {words}");
    assert!(world.disconnected.is_empty());
    let conn = world.data(address(1)).expect("a connection");
    world.lose(conn);
    world.tick(world.now + Duration::from_secs(2));
    assert_eq!(world.connects[0].plan.keyspace.as_deref(), Some("old"));
}

#[test]
fn the_connections_of_a_node_that_refuse_alike_are_one_failure() {
    let mut world = full(1, |_| ());
    change(&mut world, 1, "gone");
    assert_eq!(world.submits.len(), 4);
    for submitted in std::mem::take(&mut world.submits) {
        world.reply_with(submitted, Ok(error_frame(0x2200, "no such keyspace")));
    }
    let error = world.keyspaces_used[0].1.as_ref().expect_err("refused");
    assert_eq!(error.failures().len(), 1, "{error}");
}

#[test]
fn a_change_that_no_open_connection_can_try_says_what_keeps_the_nodes_away() {
    let mut world = World::started(1);
    let conn = world.data(address(1)).expect("a connection");
    world.lose(conn);
    change(&mut world, 1, "new");
    assert_eq!(results(&world), [(1, false)]);
    let error = world.keyspaces_used[0].1.as_ref().expect_err("nobody");
    assert_eq!(error.failures().len(), 1, "{error}");
    assert!(error.to_string().contains("connection"), "{error}");
}

#[test]
fn nodes_that_do_not_answer_the_change_in_time_are_named() {
    let mut world = World::started(1);
    change(&mut world, 1, "new");
    world.submits.clear();
    world.tick(world.now + Duration::from_secs(60));
    assert_eq!(results(&world), [(1, false)]);
    let error = world.keyspaces_used[0].1.as_ref().expect_err("silence");
    assert!(
        error
            .to_string()
            .contains("entering the keyspace failed: no answer in time"),
        "{error}"
    );
}

#[test]
fn a_connection_that_refuses_while_others_enter_is_closed() {
    let mut world = World::started(2);
    change(&mut world, 1, "new");
    let refused = world.submits.pop_front().expect("a request");
    let conn = refused.conn;
    world.reply_with(refused, Ok(error_frame(0x2200, "not here yet")));
    world.run();
    assert_eq!(results(&world), [(1, false)]);
    assert_eq!(
        world
            .disconnected
            .iter()
            .map(|(conn, _)| *conn)
            .collect::<Vec<_>>(),
        [conn]
    );
}

#[test]
fn whichever_node_refuses_the_change_it_is_told_and_the_others_stay_in_it() {
    for refuses in 0..3 {
        let mut world = World::started(3);
        change(&mut world, 1, "new");
        assert_eq!(world.submits.len(), 3);
        let conn = world.submits[refuses].conn;
        for (at, submitted) in std::mem::take(&mut world.submits).into_iter().enumerate() {
            let reply = match at == refuses {
                true => error_frame(0x2200, "not here yet"),
                false => world.reply(&submitted),
            };
            world.reply_with(submitted, Ok(reply));
        }
        let error = world.keyspaces_used[0].1.as_ref().expect_err("one refused");
        assert!(
            matches!(error.kind(), SessionErrorKind::KeyspaceInPart { name } if &**name == "new")
        );
        assert_eq!(error.failures().len(), 1, "{error}");
        assert!(error.to_string().contains("not here yet"), "{error}");
        assert!(
            world.open.iter().all(|(own, _, _)| *own != conn),
            "it is closed"
        );
        world.pass(Duration::from_secs(5));
        assert!(
            world.routing.pools.iter().all(|pool| !pool.is_empty()),
            "and replaced"
        );
    }
}

/// Answers what one node was asked, each time with the next of the replies; what is left over stays open.
fn answer_for(world: &mut World, last: u8, replies: impl IntoIterator<Item = ResponseFrame>) {
    for reply in replies {
        let conns: Vec<_> = world
            .open
            .iter()
            .filter(|(_, at, _)| *at == address(last))
            .map(|(conn, _, _)| *conn)
            .collect();
        let at = world
            .submits
            .iter()
            .position(|own| conns.contains(&own.conn))
            .expect("a request");
        let submitted = world.submits.remove(at).expect("found");
        world.reply_with(submitted, Ok(reply));
    }
}

#[test]
fn a_node_that_refused_on_one_connection_is_told_although_another_one_fell_silent() {
    let mut world = full(2, |_| ());
    change(&mut world, 1, "new");
    answer_for(&mut world, 1, [error_frame(0x2200, "not here yet")]);
    answer_for(&mut world, 2, vec![set_keyspace("new"); 4]);
    assert!(results(&world).is_empty(), "three are silent");
    world.tick(world.now + Duration::from_secs(5));
    let error = world.keyspaces_used[0].1.as_ref().expect_err("one refused");
    assert_eq!(error.failures().len(), 1, "{error}");
    assert!(error.to_string().contains("not here yet"), "{error}");
}

#[test]
fn a_host_that_did_not_enter_the_keyspace_says_what_kept_it() {
    let last_error = |world: &World| {
        let host = world.routing.host(world.host(1)).expect("a host");
        let failure = host.failure.as_ref().expect("it is down");
        failure.cause.to_string()
    };
    let mut world = World::started(2);
    change(&mut world, 1, "new");
    answer_for(&mut world, 1, [error_frame(0x2200, "not here yet")]);
    answer_for(&mut world, 2, [set_keyspace("new")]);
    assert_eq!(
        last_error(&world),
        "entering the keyspace failed: not here yet"
    );
    let mut world = World::started(2);
    change(&mut world, 1, "new");
    answer_for(&mut world, 2, [set_keyspace("new")]);
    world.tick(world.now + Duration::from_secs(5));
    assert_eq!(
        last_error(&world),
        "entering the keyspace failed: no answer in time"
    );
}

#[test]
fn a_node_that_is_lost_during_the_change_is_no_error() {
    for lost in 0..3 {
        let mut world = World::started(3);
        change(&mut world, 1, "new");
        let conn = world.submits[lost].conn;
        world.lose(conn);
        while let Some(at) = world
            .submits
            .iter()
            .position(|own| own.text().starts_with("USE"))
        {
            let submitted = world.submits.remove(at).expect("found");
            world.answer(submitted);
        }
        assert_eq!(results(&world), [(1, true)]);
    }
}

#[test]
fn an_answer_that_names_another_keyspace_is_no_success() {
    let mut world = World::started(1);
    change(&mut world, 1, "new");
    let submitted = world.submits.pop_front().expect("a request");
    world.reply_with(submitted, Ok(set_keyspace("other")));
    assert_eq!(results(&world), [(1, false)]);
}

#[test]
fn a_lost_connection_does_not_hold_up_the_change() {
    let mut world = World::started(2);
    change(&mut world, 1, "new");
    let conn = world.data(address(2)).expect("a connection");
    world.lose(conn);
    world.run();
    assert_eq!(results(&world), [(1, true)]);
}

#[test]
fn changes_are_carried_out_one_after_the_other_and_the_last_one_stays() {
    let mut world = World::started(2);
    change(&mut world, 1, "first");
    change(&mut world, 2, "second");
    assert_eq!(world.submits.len(), 2, "the second waits");
    world.run();
    assert_eq!(results(&world), [(1, true), (2, true)]);
    assert_eq!(world.asked[..2], ["USE \"first\"", "USE \"first\""]);
    assert_eq!(world.asked[2..], ["USE \"second\"", "USE \"second\""]);
    let conn = world.data(address(2)).expect("a connection");
    world.lose(conn);
    world.tick(world.now + Duration::from_secs(2));
    assert_eq!(world.connects[0].plan.keyspace.as_deref(), Some("second"));
}

#[test]
fn a_connection_that_never_answers_is_closed_at_the_deadline() {
    let mut world = World::started(2);
    change(&mut world, 1, "new");
    let silent = world.submits.pop_front().expect("a request");
    world.run();
    assert!(results(&world).is_empty());
    world.tick(world.now + Duration::from_secs(5));
    assert_eq!(results(&world), [(1, true)]);
    assert_eq!(
        world
            .disconnected
            .iter()
            .map(|(conn, _)| *conn)
            .collect::<Vec<_>>(),
        [silent.conn]
    );
}

#[test]
fn a_name_that_could_end_the_quotes_is_never_sent() {
    let mut world = World::started(1);
    change(&mut world, 1, "a\"; DROP");
    assert!(world.submits.is_empty());
    let error = world.keyspaces_used[0].1.as_ref().expect_err("refused");
    assert!(matches!(
        error.kind(),
        SessionErrorKind::Config(ConfigError::Keyspace { .. })
    ));
}

#[test]
fn closing_ends_changes_that_wait() {
    let mut world = World::started(1);
    change(&mut world, 1, "a");
    change(&mut world, 2, "b");
    world.plane.close(world.now);
    world.drain();
    assert_eq!(results(&world), [(1, false), (2, false)]);
    change(&mut world, 3, "c");
    assert_eq!(results(&world), [(1, false), (2, false), (3, false)]);
}

#[test]
fn a_keyspace_that_every_host_refuses_ends_the_start_at_once_and_is_named() {
    let config = SessionConfig {
        keyspace: Some("gone".into()),
        ..config(&["192.0.2.1"])
    };
    let mut world = World::new(2, config);
    let mut refusals = 0;
    while world.fatal.is_none() {
        let Some(dialled) = world.connects.pop_front() else {
            let submitted = world.submits.pop_front().expect("something to answer");
            world.answer(submitted);
            continue;
        };
        if dialled.plan.role == Role::Control {
            world.accept(dialled);
            continue;
        }
        refusals += 1;
        let refused = ServerError {
            code: 0x2200,
            message: "Keyspace 'gone' does not exist".to_string(),
            detail: ServerErrorDetail::Invalid,
        };
        let error = ConnectError {
            address: dialled.address.into(),
            phase: ConnectPhase::Keyspace,
            cause: ConnectCause::Server(refused.into()),
        };
        world
            .plane
            .handle_connect_failed(world.now, dialled.conn, error);
        world.drain();
    }
    assert_eq!(refusals, 2, "each host is asked once");
    let error = world.fatal.expect("nobody has the keyspace");
    assert!(
        matches!(error.kind(), SessionErrorKind::Keyspace { name } if &**name == "gone"),
        "{error}"
    );
    assert_eq!(error.failures().len(), 2);
}
