//! Connections for requests: when they are opened again, and how many at a time.

use std::sync::Arc;
use std::time::Duration;

use super::frames::*;
use super::world::*;
use crate::config::session::SessionConfig;
use crate::conn::{CloseReason, Role};
use crate::error::connect::ConnectCause;
use crate::error::session::NodeCause;
use crate::notify::ClusterEvent;
use crate::policy::host_filter::HostFilter;
use crate::policy::reconnect::ReconnectPolicy;
use crate::routing::{Host, HostState};
use crate::wire::{Request, ServerError, ServerErrorDetail, ServerEvent, TopologyChange};

fn dials(world: &World, last: u8) -> usize {
    world
        .dialled
        .iter()
        .filter(|(role, at)| *role == Role::Data && *at == address(last))
        .count()
}

fn down(world: &mut World, last: u8) {
    world.nodes[usize::from(last) - 1].alive = false;
    let conn = world.data(address(last)).expect("a connection");
    world.lose(conn);
}

#[test]
fn a_lost_host_is_down_at_once_and_up_once_it_answers() {
    let mut world = World::started(2);
    down(&mut world, 2);
    world.run();
    let host = world.host(2);
    let shown = world.routing.host(host).expect("a host");
    assert_eq!(shown.state, HostState::Down);
    assert!(matches!(
        &shown.failure.as_ref().expect("a reason").cause,
        NodeCause::Connection(_)
    ));
    assert!(world.routing.pool(host).is_some_and(|pool| pool.is_empty()));
    world.nodes[1].alive = true;
    world.pass(Duration::from_secs(60));
    let shown = world.routing.host(host).expect("a host");
    assert_eq!(shown.state, HostState::Up);
    assert!(shown.failure.is_none());
    let states: Vec<_> = world
        .events
        .iter()
        .filter(|event| {
            matches!(
                event,
                ClusterEvent::HostUp { .. } | ClusterEvent::HostDown { .. }
            )
        })
        .collect();
    assert_eq!(states.len(), 2, "{states:?}");
}

#[test]
fn attempts_grow_apart_up_to_the_cap() {
    let mut world = World::started(2);
    down(&mut world, 2);
    let mut at = Vec::new();
    let start = world.now;
    while at.len() < 10 {
        world.run();
        at.push(world.now - start);
        let next = world.plane.poll_timeout().expect("another attempt");
        world.tick(next);
        assert_eq!(world.connects.len(), 1);
    }
    let gaps: Vec<u128> = at
        .windows(2)
        .map(|pair| (pair[1].saturating_sub(pair[0])).as_millis())
        .collect();
    assert!((1_000..=1_150).contains(&gaps[0]), "{gaps:?}");
    assert!((1_700..=2_300).contains(&gaps[1]), "{gaps:?}");
    assert!((3_400..=4_600).contains(&gaps[2]), "{gaps:?}");
    assert!(
        gaps[7..].iter().all(|gap| (51_000..=60_000).contains(gap)),
        "{gaps:?}"
    );
}

#[test]
fn a_connection_that_lasted_is_replaced_at_once() {
    let mut world = World::started(2);
    world.pass(Duration::from_secs(11));
    let conn = world.data(address(2)).expect("a connection");
    world.lose(conn);
    assert_eq!(dials(&world, 2), 1);
    world.run();
    assert_eq!(
        world.routing.host(world.host(2)).map(|host| host.state),
        Some(HostState::Up)
    );
}

#[test]
fn a_connection_that_ends_again_and_again_is_not_opened_in_a_loop() {
    let mut world = World::started(1);
    let end = world.now + Duration::from_secs(60);
    let mut attempts = 0;
    while world.now < end {
        world.run();
        if let Some(conn) = world.data(address(1)) {
            attempts += 1;
            world.lose(conn);
        }
        let next = world.plane.poll_timeout().expect("another attempt");
        world.tick(next);
    }
    assert!((4..=8).contains(&attempts), "{attempts}");
}

#[test]
fn a_host_that_never_answers_is_given_up_and_tried_again() {
    let mut world = World::new(2, config(&["192.0.2.1"]));
    let dialled = world.connects.pop_front().expect("an attempt");
    world.accept(dialled);
    while let Some(submitted) = world.submits.pop_front() {
        world.answer(submitted);
    }
    let silent = world
        .connects
        .iter()
        .position(|dialled| dialled.address == address(2))
        .expect("an attempt");
    let silent = world.connects.remove(silent).expect("found");
    world.run();
    world.connects.push_back(silent);
    world.tick(world.now + Duration::from_secs(10));
    assert_eq!(
        world.disconnected.last().map(|(_, reason)| *reason),
        Some(CloseReason::TimedOut)
    );
    world.pass(Duration::from_secs(2));
    assert_eq!(
        world.routing.host(world.host(2)).map(|host| host.state),
        Some(HostState::Up)
    );
}

#[test]
fn an_up_event_ends_the_wait_but_not_more_than_once_a_second() {
    let mut world = World::started(2);
    down(&mut world, 2);
    world.pass(Duration::from_secs(20));
    world.forget();
    for _ in 0..100 {
        world.event(ServerEvent::Status {
            up: true,
            address: address(2),
        });
        world.run();
    }
    assert_eq!(dials(&world, 2), 1);
    world.tick(world.now + Duration::from_secs(1));
    world.run();
    world.nodes[1].alive = true;
    world.event(ServerEvent::Status {
        up: true,
        address: address(2),
    });
    world.run();
    assert_eq!(
        world.routing.host(world.host(2)).map(|host| host.state),
        Some(HostState::Up)
    );
}

#[test]
fn repeated_up_events_for_a_connected_host_change_nothing() {
    let mut world = World::started(2);
    let published = world.published;
    for _ in 0..10 {
        world.event(ServerEvent::Status {
            up: true,
            address: address(2),
        });
        world.run();
    }
    assert!(world.dialled.is_empty() && world.disconnected.is_empty());
    assert_eq!(world.published, published);
}

#[test]
fn a_down_event_asks_the_connection_for_a_sign_of_life_instead_of_closing_it() {
    let mut world = World::started(2);
    let conn = world.data(address(2)).expect("a connection");
    for _ in 0..10 {
        world.event(ServerEvent::Status {
            up: false,
            address: address(2),
        });
    }
    assert_eq!(world.submits.len(), 1, "one probe is enough");
    let probe = world.submits.pop_front().expect("a probe");
    assert_eq!((probe.conn, &probe.request), (conn, &Request::Options));
    world.reply_with(probe, Ok(error_frame(0, "even an error is a sign of life")));
    assert!(world.disconnected.is_empty());
    world.event(ServerEvent::Status {
        up: false,
        address: address(2),
    });
    let probe = world.submits.pop_front().expect("a second probe");
    world.reply_with(probe, Err(expired()));
    assert_eq!(world.disconnected, [(conn, CloseReason::TimedOut)]);
    assert_eq!(
        world.routing.host(world.host(2)).map(|host| host.state),
        Some(HostState::Down)
    );
}

#[test]
fn a_refused_login_is_repeated_slowly() {
    let mut world = World::started(2);
    let conn = world.data(address(2)).expect("a connection");
    world.lose(conn);
    world.tick(world.now + Duration::from_secs(2));
    let dialled = world.connects.pop_front().expect("an attempt");
    let detail = ServerErrorDetail::AuthenticationFailed;
    let refused = ServerError {
        code: 0x0100,
        message: "no".into(),
        detail,
    };
    world.refuse(dialled, ConnectCause::Server(refused.into()));
    let next = world.plane.poll_timeout().expect("another attempt");
    assert!(Duration::from_secs(50) < next - world.now);
    let failure = world
        .routing
        .host(world.host(2))
        .and_then(|host| host.failure.clone())
        .expect("a reason");
    assert!(matches!(&failure.cause, NodeCause::Connect(_)));
}

#[test]
fn no_more_connections_are_opened_at_a_time_than_configured() {
    let mut settings = config(&["192.0.2.1"]);
    settings.pool.opening_max = 3;
    let mut world = World::new(10, settings);
    let dialled = world.connects.pop_front().expect("an attempt");
    world.accept(dialled);
    while let Some(submitted) = world.submits.pop_front() {
        world.answer(submitted);
    }
    let mut opened = 0;
    while let Some(dialled) = world.connects.pop_front() {
        assert!(world.connects.len() < 3);
        opened += 1;
        // A failed attempt makes room like one that succeeded.
        if opened % 2 == 0 {
            world.refuse(dialled, ConnectCause::Closed);
        } else {
            world.accept(dialled);
        }
    }
    assert_eq!(opened, 10);
    world.pass(Duration::from_secs(60));
    assert!(world.routing.pools.iter().all(|pool| !pool.is_empty()));
}

#[derive(Debug)]
struct OnlyRack(&'static str);

impl HostFilter for OnlyRack {
    fn allows(&self, host: &Host) -> bool {
        host.rack.as_deref() == Some(self.0)
    }
}

#[test]
fn a_filtered_host_is_a_member_without_a_connection_until_its_facts_change() {
    let mut world = World::new(
        3,
        SessionConfig {
            host_filter: Some(Arc::new(OnlyRack("b"))),
            ..config(&["192.0.2.1"])
        },
    );
    world.run();
    assert!(world.ready.is_some());
    assert_eq!(
        dials(&world, 1) + dials(&world, 2) + dials(&world, 3),
        dials(&world, 1)
    );
    assert!(world.routing.ring.owners().contains(&world.host(2)));
    world.forget();
    world.nodes[1].rack = "b";
    world.nodes[0].rack = "c";
    world.plane.refresh(world.now);
    world.run();
    assert_eq!(
        world.dialled,
        [(Role::Data, address(2)), (Role::Control, address(2))],
        "the control connection follows"
    );
    assert!(
        world
            .routing
            .pool(world.host(1))
            .is_some_and(|pool| pool.is_empty())
    );
    world.forget();
    world.nodes[0].rack = "b";
    world.plane.refresh(world.now);
    world.run();
    assert_eq!(
        world.dialled,
        [(Role::Data, address(1))],
        "it is allowed again"
    );
}

#[test]
fn another_datacenter_gets_no_connection_of_any_kind() {
    let mut world = World::new(2, config(&["192.0.2.1"]));
    world.nodes[1].datacenter = "dc2";
    world.run();
    world.event(ServerEvent::Status {
        up: true,
        address: address(2),
    });
    world.event(ServerEvent::Topology {
        change: TopologyChange::NewNode,
        address: address(2),
    });
    world.nodes[0].alive = false;
    for (conn, _, _) in world.open.clone() {
        world.lose(conn);
    }
    world.pass(Duration::from_secs(60));
    assert!(world.dialled.iter().all(|(_, at)| *at == address(1)));
}

#[test]
fn the_control_connection_avoids_filtered_hosts_once_hosts_are_known() {
    let filter = Some(Arc::new(OnlyRack("b")) as Arc<dyn HostFilter>);
    let mut world = World::new(
        3,
        SessionConfig {
            host_filter: filter,
            ..config(&["192.0.2.1"])
        },
    );
    world.run();
    world.nodes[0].alive = false;
    world.forget();
    for (conn, _, _) in world.open.clone() {
        world.lose(conn);
    }
    world.pass(Duration::from_secs(30));
    assert!(
        world.dialled.iter().all(|(_, at)| *at == address(1)),
        "{:?}",
        world.dialled
    );
}

#[test]
fn a_constant_delay_is_kept() {
    let reconnect = ReconnectPolicy::Constant {
        delay: Duration::from_secs(3),
    };
    let mut world = World::new(
        2,
        SessionConfig {
            reconnect,
            ..config(&["192.0.2.1"])
        },
    );
    world.run();
    down(&mut world, 2);
    for _ in 0..5 {
        let next = world.plane.poll_timeout().expect("another attempt");
        assert_eq!(next - world.now, Duration::from_secs(3));
        world.tick(next);
        world.run();
    }
}

#[test]
fn after_a_success_that_lasted_the_delays_start_anew() {
    let mut world = World::started(2);
    down(&mut world, 2);
    world.pass(Duration::from_secs(300));
    world.nodes[1].alive = true;
    world.pass(Duration::from_secs(120));
    let conn = world.data(address(2)).expect("a connection");
    world.nodes[1].alive = false;
    world.lose(conn);
    world.run();
    let next = world.plane.poll_timeout().expect("another attempt");
    let delay = next - world.now;
    assert!((1_000..=1_150).contains(&delay.as_millis()), "{delay:?}");
}

#[test]
fn an_attempt_for_a_node_that_left_is_closed_and_nothing_else_happens() {
    let mut world = World::started(2);
    let conn = world.data(address(2)).expect("a connection");
    world.lose(conn);
    world.tick(world.now + Duration::from_secs(2));
    let attempt = world.connects.pop_front().expect("an attempt");
    let pending = attempt.conn;
    world.nodes[1].member = false;
    world.plane.refresh(world.now);
    world.run();
    assert_eq!(world.disconnected, [(pending, CloseReason::HostRemoved)]);
    let published = world.published;
    world.accept(attempt);
    assert!(world.submits.is_empty());
    assert_eq!(world.published, published);
}
