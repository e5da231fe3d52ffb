//! Waits for schema agreement.

use std::time::Duration;

use uuid::Uuid;

use super::frames::*;
use super::world::*;
use crate::cluster::{AgreementOutcome, CommandId};
use crate::config::session::SessionConfig;
use crate::wire::{SchemaChange, SchemaChangeKind, SchemaTarget};

const WAIT: CommandId = CommandId(7);

fn wait(world: &mut World, limit: Duration) {
    world
        .plane
        .await_agreement(world.now, WAIT, None, world.now + limit);
    world.drain();
}

fn outcome(world: &World) -> Option<&AgreementOutcome> {
    assert!(world.agreements.len() <= 1);
    world.agreements.first().map(|(id, outcome)| {
        assert_eq!(*id, WAIT);
        outcome
    })
}

#[test]
fn equal_versions_end_the_wait_after_the_schema_was_read() {
    let mut world = World::started(3);
    world.tables.push(("ks", "new"));
    let target = SchemaTarget::Table { name: "new".into() };
    let change = SchemaChange {
        change: SchemaChangeKind::Created,
        target,
        keyspace: "ks".into(),
    };
    world.plane.schema_changed(world.now, &change);
    wait(&mut world, Duration::from_secs(10));
    while outcome(&world).is_none() {
        let submitted = world.submits.pop_front().expect("something is asked");
        world.answer(submitted);
    }
    assert!(matches!(outcome(&world), Some(AgreementOutcome::Agreed)));
    assert!(world.routing.table_idx("ks", "new").is_some());
    assert_eq!(
        world
            .asked
            .iter()
            .filter(|text| text.contains("system_schema.tables"))
            .count(),
        1
    );
}

#[test]
fn a_node_that_has_not_heard_of_the_change_yet_does_not_speak_for_the_others() {
    let mut world = World::started(3);
    // The second node has made a change that the first, with the control connection, knows nothing of so far.
    let before = |last: u8| node_row(&node(last));
    world.peers = Some(rows_frame(
        &node_columns("peer"),
        vec![before(2), before(3)],
    ));
    world.nodes[1].schema_version = 2;
    wait(&mut world, Duration::from_secs(10));
    world.pass(Duration::from_secs(1));
    assert!(outcome(&world).is_none(), "{:?}", outcome(&world));
    world.peers = None;
    for node in &mut world.nodes {
        node.schema_version = 2;
    }
    world.pass(Duration::from_millis(250));
    assert!(matches!(outcome(&world), Some(AgreementOutcome::Agreed)));
}

#[test]
fn the_node_that_made_the_change_has_to_be_among_those_that_answer() {
    let mut world = World::started(3);
    let second = Uuid::from_u128(2);
    world.plane.await_agreement(
        world.now,
        WAIT,
        Some(second),
        world.now + Duration::from_secs(10),
    );
    world.drain();
    let conn = world.data(address(2)).expect("a connection");
    for submitted in std::mem::take(&mut world.submits) {
        if submitted.conn == conn {
            world.reply_with(submitted, Ok(error_frame(0x1001, "busy")));
        } else {
            world.answer(submitted);
        }
    }
    assert!(outcome(&world).is_none(), "{:?}", outcome(&world));
    world.pass(Duration::from_millis(250));
    assert!(matches!(outcome(&world), Some(AgreementOutcome::Agreed)));
}

#[test]
fn a_failed_look_is_repeated_until_versions_agree() {
    let mut world = World::started(2);
    world.nodes[1].schema_version = 2;
    wait(&mut world, Duration::from_secs(10));
    for submitted in std::mem::take(&mut world.submits) {
        world.reply_with(submitted, Ok(error_frame(0, "not now")));
    }
    assert!(outcome(&world).is_none());
    world.pass(Duration::from_millis(250));
    assert!(outcome(&world).is_none(), "two versions are no agreement");
    world.nodes[1].schema_version = 1;
    world.pass(Duration::from_millis(250));
    assert!(matches!(outcome(&world), Some(AgreementOutcome::Agreed)));
}

#[test]
fn the_deadline_ends_a_wait_for_versions_that_stay_different() {
    let mut world = World::started(3);
    world.nodes[2].schema_version = 2;
    wait(&mut world, Duration::from_secs(1));
    world.pass(Duration::from_millis(999));
    assert!(outcome(&world).is_none());
    world.pass(Duration::from_millis(1));
    assert!(matches!(
        outcome(&world),
        Some(AgreementOutcome::Different { versions: 2 })
    ));
    assert_eq!(world.plane.poll_timeout(), None, "nobody looks any more");
}

#[test]
fn a_look_that_is_never_answered_does_not_outlive_the_deadline() {
    let mut world = World::started(2);
    wait(&mut world, Duration::from_millis(500));
    world.tick(world.now + Duration::from_millis(500));
    assert!(matches!(
        outcome(&world),
        Some(AgreementOutcome::Unknown { cause: None })
    ));
}

#[test]
fn without_a_metadata_timeout_the_deadline_still_holds() {
    let mut world = World::new(
        2,
        SessionConfig {
            metadata_timeout: None,
            ..config(&["192.0.2.1"])
        },
    );
    world.run();
    wait(&mut world, Duration::from_secs(1));
    assert!(
        world
            .submits
            .iter()
            .all(|submitted| submitted.deadline.is_none())
    );
    world.tick(world.now + Duration::from_secs(1));
    assert!(outcome(&world).is_some());
}

#[test]
fn rows_of_hosts_that_are_down_or_incomplete_do_not_count() {
    let mut world = World::started(4);
    world.nodes[3].alive = false;
    let conn = world.data(address(4)).expect("a connection");
    world.lose(conn);
    let row = |last: u8, version: Option<u128>| {
        let mut row = node_row(&node(last));
        row[7] = version.and_then(uuid_cell);
        row
    };
    let mut nameless = row(8, Some(9));
    nameless[3] = None;
    let mut nowhere = row(9, Some(9));
    nowhere[2] = None;
    let rows = vec![
        row(2, Some(1)),
        row(3, None),
        row(4, Some(9)),
        nameless,
        nowhere,
    ];
    world.peers = Some(rows_frame(&node_columns("peer"), rows));
    wait(&mut world, Duration::from_secs(1));
    world.pass(Duration::from_millis(10));
    assert!(matches!(outcome(&world), Some(AgreementOutcome::Agreed)));
}

#[test]
fn a_host_that_goes_down_during_the_wait_is_left_out() {
    let mut world = World::started(3);
    world.nodes[2].schema_version = 2;
    wait(&mut world, Duration::from_secs(10));
    world.pass(Duration::from_secs(1));
    assert!(outcome(&world).is_none());
    world.nodes[2].alive = false;
    let conn = world.data(address(3)).expect("a connection");
    world.lose(conn);
    world.pass(Duration::from_millis(250));
    assert!(matches!(outcome(&world), Some(AgreementOutcome::Agreed)));
}

#[test]
fn a_lost_control_connection_does_not_end_the_wait() {
    let mut world = World::started(3);
    wait(&mut world, Duration::from_secs(10));
    let (control, _) = world.control().expect("a control connection");
    world.lose(control);
    world.pass(Duration::from_secs(1));
    assert!(matches!(outcome(&world), Some(AgreementOutcome::Agreed)));
}

#[test]
fn a_look_that_began_before_the_wait_does_not_count() {
    let mut world = World::started(2);
    world.plane.await_agreement(
        world.now,
        CommandId(1),
        None,
        world.now + Duration::from_secs(10),
    );
    world.drain();
    let early: Vec<_> = std::mem::take(&mut world.submits).into_iter().collect();
    world.plane.await_agreement(
        world.now,
        CommandId(2),
        None,
        world.now + Duration::from_secs(10),
    );
    for submitted in early {
        world.answer(submitted);
    }
    let done: Vec<_> = world.agreements.iter().map(|(id, _)| id.0).collect();
    assert_eq!(done, [1]);
    world.run();
    let done: Vec<_> = world.agreements.iter().map(|(id, _)| id.0).collect();
    assert_eq!(done, [1, 2]);
}

#[test]
fn a_wait_without_time_and_one_after_the_end_are_answered_at_once() {
    let nothing_seen = |world: &World| {
        assert!(matches!(
            outcome(world),
            Some(AgreementOutcome::Unknown { cause: None })
        ));
        assert!(world.submits.is_empty(), "{:?}", world.submits);
    };
    let mut world = World::started(1);
    wait(&mut world, Duration::ZERO);
    nothing_seen(&world);
    // Nor is anything asked later on its behalf.
    world.pass(Duration::from_secs(1));
    assert!(world.asked.is_empty(), "{:?}", world.asked);
    world.agreements.clear();
    world.plane.close(world.now);
    wait(&mut world, Duration::from_secs(1));
    nothing_seen(&world);
}
