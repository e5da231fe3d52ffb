//! What can happen to requests: late answers, lost nodes, forgotten statements, second thoughts, the end of the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use messina_core::driver::DriverOutput;
use messina_core::error::connect::Fate;
use messina_core::error::request::RequestErrorKind;
use messina_core::exec::statement::Statement;
use messina_core::notify::{ClusterEvent, Note};
use messina_core::policy::speculative::SpeculativePolicy;
use messina_core::routing::HostState;
use messina_testkit::node::{Reaction, RequestKind};

use super::world::World;

const INSERT: &str = "INSERT INTO ks.t (k, v) VALUES (?, ?)";

#[test]
fn a_node_that_dies_is_left_out_and_taken_back_when_it_returns() {
    let mut world = World::with_table(3, 2);
    let insert = world.prepare(INSERT).idempotent(true);
    world.cluster.stop_node(1);
    world.settle();
    for key in 0..30 {
        let request = world.driver.execute(world.now, &insert, (key, "x"));
        world.good(request);
    }
    let down = world.cluster.host_id(1).unwrap();
    let state = |world: &World| {
        let status = world.driver.status();
        let host = status.iter().find(|host| host.host.id == down);
        host.map(|host| (host.host.state, host.connections.len()))
    };
    assert_eq!(state(&world), Some((HostState::Down, 0)));
    world.cluster.start_node(1);
    world.pass(Duration::from_secs(30));
    assert_eq!(state(&world), Some((HostState::Up, 2)));
    let told = |wanted: fn(&ClusterEvent) -> bool| {
        world
            .outputs
            .iter()
            .any(|output| matches!(output, DriverOutput::Notify(event) if wanted(event)))
    };
    assert!(told(|event| matches!(event, ClusterEvent::HostDown { .. })));
    assert!(told(|event| matches!(event, ClusterEvent::HostUp { .. })));
    assert!(0 < world.driver.metrics().connections_lost);
}

#[test]
fn the_control_connection_moves_when_its_node_dies() {
    let mut world = World::ready(3, 1);
    world.cluster.stop_node(0);
    world.pass(Duration::from_secs(5));
    world.outputs.clear();
    // Only somebody who listens hears of it.
    world.cluster.add_node("dc1", "rack1");
    world.pass(Duration::from_secs(5));
    assert_eq!(world.driver.status().len(), 4);
}

#[test]
fn a_request_under_way_on_a_node_that_dies_is_repeated_only_if_it_may_be() {
    for idempotent in [true, false] {
        let mut world = World::with_table(3, 1);
        let insert = world.prepare(INSERT).idempotent(idempotent);
        let first = Arc::new(AtomicU32::new(0));
        world.intercept(move |seen| match seen.kind {
            RequestKind::Execute if first.fetch_add(1, Ordering::SeqCst) == 0 => {
                Reaction::Disconnect
            }
            _ => Reaction::Answer,
        });
        let request = world.driver.execute(world.now, &insert, (1, "x"));
        let result = world.result(request).unwrap();
        if idempotent {
            let result = result.unwrap();
            assert_eq!(result.attempts().len(), 1);
            assert_eq!(world.driver.metrics().retries, 1);
        } else {
            let error = result.unwrap_err();
            assert!(matches!(error.kind(), RequestErrorKind::Connection(_)));
            assert_eq!(error.fate(), Fate::MaybeApplied);
        }
    }
}

#[test]
fn a_node_that_forgot_a_statement_learns_it_again_unseen() {
    let mut world = World::with_table(3, 2);
    let insert = world.prepare(INSERT);
    for node in 0..3 {
        world.cluster.forget_prepared_statements(node);
    }
    for key in 0..30 {
        let request = world.driver.execute(world.now, &insert, (key, "x"));
        world.good(request);
    }
    let unprepared: u64 = (0..3)
        .map(|node| world.cluster.statistics(node).unwrap().unprepared)
        .sum();
    assert_eq!(unprepared, 3, "once a node");
}

#[test]
fn a_request_without_an_answer_ends_at_its_deadline() {
    let mut world = World::with_table(3, 1);
    world.intercept(|seen| match seen.kind {
        RequestKind::Query if seen.text.is_some_and(|text| text.contains("ks.t")) => {
            Reaction::Ignore
        }
        _ => Reaction::Answer,
    });
    let statement = Statement::new("SELECT k FROM ks.t").timeout(Duration::from_millis(700));
    let request = world.driver.execute(world.now, &statement, ());
    world.pass(Duration::from_millis(699));
    assert!(world.result(request).is_none());
    world.pass(Duration::from_millis(3));
    let error = world.result(request).unwrap().unwrap_err();
    assert!(
        matches!(error.kind(), RequestErrorKind::Expired),
        "{error:?}"
    );
    assert_eq!(error.fate(), Fate::MaybeApplied);
    assert_eq!(world.driver.metrics().requests_failed, 1);
}

#[test]
fn a_slow_node_is_overtaken_by_a_copy_of_the_request() {
    let mut world = World::with_table(3, 1);
    let first = Arc::new(AtomicU32::new(0));
    world.intercept(move |seen| match seen.kind {
        RequestKind::Execute if first.fetch_add(1, Ordering::SeqCst) == 0 => {
            Reaction::Delay(Duration::from_secs(5))
        }
        _ => Reaction::Answer,
    });
    let mut profile = world.driver.config().profile.clone();
    profile.speculative = SpeculativePolicy::Constant {
        delay: Duration::from_millis(50),
        copies_max: 1,
    };
    let select = world
        .prepare("SELECT v FROM ks.t WHERE k = ?")
        .idempotent(true)
        .profile(Arc::new(profile));
    let request = world.driver.execute(world.now, &select, (1,));
    world.pass(Duration::from_millis(49));
    assert!(world.result(request).is_none());
    world.pass(Duration::from_millis(2));
    world.good(request);
    // The late answer finds nobody, and harms nobody.
    world.pass(Duration::from_secs(6));
    assert!(world.answers_to(request).is_empty());
}

#[test]
fn what_was_abandoned_is_never_answered() {
    let mut world = World::with_table(3, 2);
    let insert = world.prepare(INSERT);
    // Before it was sent, with the answer on its way, and with the answer ready to be taken.
    let unsent = world.driver.execute(world.now, &insert, (1, "x"));
    world.driver.abandon(world.now, unsent);
    world.settle();
    let asked: u64 = (0..3)
        .map(|node| world.cluster.statistics(node).unwrap().executions)
        .sum();
    assert_eq!(asked, 0, "what nobody waits for is not sent");

    world.intercept(|_| Reaction::Delay(Duration::from_millis(100)));
    let sent = world.driver.execute(world.now, &insert, (2, "x"));
    let paged = world.driver.prepare(world.now, "SELECT k FROM ks.t");
    world.settle();
    world.driver.abandon(world.now, sent);
    world.driver.abandon(world.now, paged);
    world.pass(Duration::from_secs(1));

    world.cluster.intercept(None);
    let refused = world.driver.execute(world.now, &insert, ("no number", "x"));
    world.driver.abandon(world.now, refused);
    for request in [unsent, sent, paged, refused] {
        assert!(world.answers_to(request).is_empty());
    }
    assert_eq!(world.driver.metrics().in_flight, 0);
}

#[test]
fn a_statement_is_prepared_though_one_node_never_answers() {
    let mut world = World::with_table(3, 2);
    world.intercept(|seen| match seen.kind {
        RequestKind::Prepare if seen.node == 2 => Reaction::Ignore,
        _ => Reaction::Answer,
    });
    let request = world.driver.prepare(world.now, INSERT);
    world.settle();
    assert!(
        world.prepared(request).is_none(),
        "the others are waited for a while"
    );
    world.pass(Duration::from_secs(1));
    world.prepared(request).unwrap().unwrap();
}

#[test]
fn a_statement_that_no_node_takes_is_refused_with_the_words_of_the_server() {
    let mut world = World::with_table(2, 2);
    let request = world
        .driver
        .prepare(world.now, "SELECT nothing FROM nowhere.at_all");
    let error = world.prepared(request).unwrap().unwrap_err();
    assert!(
        matches!(error.kind(), RequestErrorKind::Server(_)),
        "{error:?}"
    );
}

#[test]
fn closing_waits_for_what_is_under_way_and_refuses_what_comes_late() {
    let mut world = World::with_table(3, 2);
    world.intercept(|_| Reaction::Delay(Duration::from_millis(300)));
    let request = world
        .driver
        .execute(world.now, "INSERT INTO ks.t (k, v) VALUES (1, 'x')", ());
    world.settle();
    world
        .driver
        .close(world.now, world.now + Duration::from_secs(2));
    let late = world.driver.execute(world.now, "SELECT k FROM ks.t", ());
    let error = world.result(late).unwrap().unwrap_err();
    assert!(matches!(error.kind(), RequestErrorKind::Closed));
    assert!(!world.driver.is_closed());
    world.pass(Duration::from_millis(301));
    world.good(request);
    assert!(world.driver.is_closed());
    let last = world.outputs.last();
    assert!(
        matches!(last, Some(DriverOutput::Closed { cut: 0 })),
        "{last:?}"
    );
    assert_eq!((world.open_links(), world.driver.poll_timeout()), (0, None));
}

#[test]
fn closing_cuts_off_what_takes_longer_than_it_was_given() {
    let mut world = World::with_table(3, 2);
    world.intercept(|_| Reaction::Ignore);
    let request = world
        .driver
        .execute(world.now, "INSERT INTO ks.t (k, v) VALUES (1, 'x')", ());
    let agreement = world.driver.await_agreement(world.now);
    world.settle();
    world
        .driver
        .close(world.now, world.now + Duration::from_secs(2));
    world.pass(Duration::from_millis(1_999));
    assert!(world.result(request).is_none());
    world.pass(Duration::from_millis(2));
    let error = world.result(request).unwrap().unwrap_err();
    assert_eq!(error.fate(), Fate::MaybeApplied);
    assert_eq!(
        world.answers_to(agreement).len(),
        1,
        "nobody waits for ever"
    );
    let last = world.outputs.last();
    assert!(
        matches!(last, Some(DriverOutput::Closed { cut: 1 })),
        "{last:?}"
    );
    assert_eq!((world.open_links(), world.driver.poll_timeout()), (0, None));
}

#[test]
fn an_attempt_to_connect_that_gets_no_answer_is_given_up() {
    let mut world = World::new(1, 1, |_| ());
    world.pass(Duration::from_secs(1));
    world.cluster.stop_node(0);
    world.settle();
    world.cluster.start_node(0);
    world.dark = true;
    world.outputs.clear();
    world.pass(Duration::from_secs(20));
    let failures = world.driver.metrics().connect_failures;
    assert!(0 < failures);
    let told = world.outputs.iter().any(|output| {
        matches!(
            output,
            DriverOutput::Note(Note::ConnectFailed(_) | Note::HostUnreachable(_))
        )
    });
    assert!(told, "{:?}", world.outputs);
    world.dark = false;
    world.pass(Duration::from_secs(60));
    assert_eq!(world.driver.metrics().hosts_connected, 1);
}

#[test]
fn the_same_seed_and_the_same_inputs_give_the_same_outputs() {
    let story = || {
        let mut world = World::with_table(3, 2);
        let insert = world.prepare(INSERT).idempotent(true);
        let mut told = Vec::new();
        for key in 0..20 {
            if key == 7 {
                world.cluster.stop_node(2);
            }
            let request = world.driver.execute(world.now, &insert, (key, "x"));
            let result = world.good(request);
            let coordinator = result.coordinator().unwrap();
            told.push((coordinator.host_id, coordinator.shard));
        }
        world.pass(Duration::from_secs(10));
        (told, world.driver.metrics(), world.outputs.len())
    };
    assert_eq!(story(), story());
}
