//! Which protocol version is asked for, and what names go along with an address.
#![cfg(feature = "v5")]

use super::world::{World, address, config};
use crate::config::connection::ConnectionConfig;
use crate::config::session::SessionConfig;
use crate::conn::Role;
use crate::error::connect::ConnectCause;
use crate::wire::ProtocolVersion::{V4, V5};

/// Refuses the next attempt as a server does that speaks this version.
fn refuse(world: &mut World, server: u8) {
    let dialled = world.connects.pop_front().expect("an attempt");
    world.refuse(dialled, ConnectCause::Version { server });
}

#[test]
fn the_newest_version_is_tried_first_and_used_by_all_connections() {
    let mut world = World::new(2, config(&["192.0.2.1"]));
    let mut versions = Vec::new();
    while let Some(dialled) = world.connects.pop_front() {
        versions.push(dialled.plan.version);
        world.accept(dialled);
        while let Some(submitted) = world.submits.pop_front() {
            world.answer(submitted);
        }
    }
    assert_eq!(versions, [V5, V5, V5]);
}

#[test]
fn a_refused_version_is_lowered_once_and_for_all_connections() {
    let mut world = World::new(2, config(&["192.0.2.1"]));
    refuse(&mut world, 4);
    assert_eq!(world.connects[0].address, address(1), "the same node again");
    let mut versions = Vec::new();
    while let Some(dialled) = world.connects.pop_front() {
        versions.push(dialled.plan.version);
        world.accept(dialled);
        while let Some(submitted) = world.submits.pop_front() {
            world.answer(submitted);
        }
    }
    assert_eq!(versions, [V4, V4, V4]);
    assert!(world.ready.is_some() && world.notes.is_empty());
}

#[test]
fn attempts_that_are_refused_side_by_side_are_all_repeated() {
    let mut world = World::new(3, config(&["192.0.2.1"]));
    let dialled = world.connects.pop_front().expect("a control connection");
    world.accept(dialled);
    while let Some(submitted) = world.submits.pop_front() {
        world.answer(submitted);
    }
    let opening = world.connects.len();
    assert!(1 < opening, "pools open side by side");
    for _ in 0..opening {
        refuse(&mut world, 4);
    }
    assert!(
        world
            .connects
            .iter()
            .all(|dialled| dialled.plan.version == V4)
    );
    world.run();
    assert_eq!(world.ready.map(|ready| ready.connected), Some(1));
    assert!((1..=3).all(|last| world.data(address(last)).is_some()));
}

#[test]
fn a_version_that_was_set_is_kept() {
    for version in [V4, V5] {
        let connection = ConnectionConfig {
            version: Some(version),
            ..ConnectionConfig::default()
        };
        let mut world = World::new(
            1,
            SessionConfig {
                connection,
                ..config(&["192.0.2.1"])
            },
        );
        assert_eq!(world.connects[0].plan.version, version);
        refuse(&mut world, version.byte() - 1);
        assert!(world.connects.is_empty());
        let error = world.fatal.expect("nobody is left");
        assert!(error.to_string().contains("protocol version"), "{error}");
    }
}

#[test]
fn a_name_goes_along_with_the_addresses_it_led_to() {
    let mut world = World::new(2, config(&["db.example"]));
    let (id, _) = world.resolves.pop_front().expect("a name to resolve");
    world
        .plane
        .handle_resolved(world.now, id, Ok(vec![address(1)]));
    world.drain();
    let mut names = Vec::new();
    while let Some(dialled) = world.connects.pop_front() {
        let name = dialled.plan.host_name.clone();
        names.push((dialled.plan.role, dialled.address, name));
        world.accept(dialled);
        while let Some(submitted) = world.submits.pop_front() {
            world.answer(submitted);
        }
    }
    names.sort_by_key(|(role, address, _)| (*role == Role::Data, *address));
    let name = Some("db.example".into());
    assert_eq!(
        names,
        [
            (Role::Control, address(1), name.clone()),
            (Role::Data, address(1), name),
            (Role::Data, address(2), None),
        ]
    );
}
