//! Which hosts a session prefers, reaches at all, and how their addresses are found.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use super::frames::*;
use super::world::*;
use crate::config::session::{Inference, SessionConfig};
use crate::conn::{CloseReason, Role};
use crate::error::session::{ConfigError, NodeCause, SessionErrorKind};
use crate::notify::{ClusterEvent, Note};
use crate::policy::address::AddressTranslator;
use crate::policy::explain::{LeftOutCause, RoutePlan};
use crate::policy::host_filter::{AllowList, HostFilter};
use crate::policy::load_balancing::{DefaultLoadBalancing, PlanRequest};
use crate::routing::{Host, HostState, Loads};

/// The last parts of the addresses of hosts for which `fits` holds.
fn hosts(world: &World, fits: impl Fn(&Host) -> bool) -> Vec<u8> {
    let fitting = world.routing.hosts.iter().filter(|host| fits(host));
    fitting
        .filter_map(|host| match host.address {
            SocketAddr::V4(four) => Some(four.ip().octets()[3]),
            SocketAddr::V6(_) => None,
        })
        .collect()
}

pub(super) fn up(world: &World) -> Vec<u8> {
    hosts(world, |host| host.state == HostState::Up)
}

/// A world of six nodes: 1 to 3 in `dc1`, 4 to 6 in `dc2`, with racks b, c, a, b, c, a.
fn two_datacenters(change: impl FnOnce(&mut SessionConfig)) -> World {
    let mut settings = config(&["192.0.2.1"]);
    change(&mut settings);
    let mut world = World::new(6, settings);
    for node in &mut world.nodes[3..] {
        node.datacenter = "dc2";
    }
    world.run();
    world
}

fn with_failover(change: impl FnOnce(&mut DefaultLoadBalancing)) -> World {
    let mut policy = DefaultLoadBalancing {
        datacenter_failover: true,
        ..DefaultLoadBalancing::default()
    };
    change(&mut policy);
    two_datacenters(|settings| {
        settings.profile.load_balancing = Arc::new(policy);
    })
}

fn lose_host(world: &mut World, last: u8) {
    world.nodes[usize::from(last) - 1].alive = false;
    let lost: Vec<_> = world
        .open
        .iter()
        .filter(|(_, at, _)| *at == address(last))
        .map(|(conn, _, _)| *conn)
        .collect();
    lost.into_iter().for_each(|conn| world.lose(conn));
    world.run();
}

#[test]
fn a_configured_rack_is_preferred_inside_of_its_datacenter_only() {
    let world = two_datacenters(|settings| settings.local_rack = Some("b".into()));
    assert_eq!(hosts(&world, |host| host.local), [1, 2, 3]);
    assert_eq!(hosts(&world, |host| host.local_rack), [1]);
    assert_eq!(world.routing.local_rack.as_deref(), Some("b"));
}

#[test]
fn no_rack_is_preferred_unless_asked_for() {
    let world = two_datacenters(|_| ());
    assert_eq!(hosts(&world, |host| host.local_rack), [0_u8; 0]);
    assert_eq!(world.routing.local_rack, None);
}

#[test]
fn a_rack_is_taken_from_the_node_that_answers_first() {
    let world = two_datacenters(|settings| {
        settings.inference.rack = true;
        settings.contact_points = vec!["192.0.2.2".parse().expect("a contact point")];
    });
    assert_eq!(world.routing.local_datacenter.as_deref(), Some("dc1"));
    assert_eq!(world.routing.local_rack.as_deref(), Some("c"));
    assert_eq!(hosts(&world, |host| host.local_rack), [2]);
}

#[test]
fn a_control_connection_knows_what_was_inferred_and_only_that() {
    let settled = |change: fn(&mut SessionConfig)| {
        let mut world = two_datacenters(change);
        let (conn, _) = world.control().expect("a control connection");
        world.lose(conn);
        let again = world
            .connects
            .iter()
            .find(|own| own.plan.role == Role::Control);
        let plan = &again.expect("another attempt").plan;
        (plan.datacenter.clone(), plan.rack.clone())
    };
    let inferred = settled(|settings| settings.inference.rack = true);
    assert_eq!(inferred, (Some("dc1".into()), Some("b".into())));
    assert_eq!(settled(|_| ()), (Some("dc1".into()), None));
    let configured = settled(|settings| {
        settings.local_datacenter = Some("dc1".into());
        settings.local_rack = Some("c".into());
    });
    assert_eq!(configured, (None, None));
}

#[test]
fn the_rack_of_a_node_outside_of_the_local_datacenter_is_not_taken() {
    let mut world = two_datacenters(|settings| {
        settings.inference.rack = true;
        settings.local_datacenter = Some("dc2".into());
    });
    // The first survey came from dc1; once the control connection is in dc2 its rack is known.
    assert_eq!(world.routing.local_datacenter.as_deref(), Some("dc2"));
    world.pass(Duration::from_secs(1));
    let (_, at) = world.control().expect("a control connection");
    let expected = world.nodes.iter().find(|node| node.address == at);
    assert_eq!(
        world.routing.local_rack.as_deref(),
        expected
            .filter(|node| node.datacenter == "dc2")
            .map(|node| node.rack)
    );
    assert_ne!(world.routing.local_rack, None);
}

#[test]
fn without_inference_all_datacenters_are_alike() {
    let world = two_datacenters(|settings| settings.inference.datacenter = false);
    assert_eq!(world.routing.local_datacenter, None);
    assert_eq!(up(&world), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_rack_without_a_datacenter_is_refused_before_anything_is_dialled() {
    let nothing = Inference {
        datacenter: false,
        rack: false,
    };
    for (rack, inference) in [
        (Some("a".into()), nothing),
        (
            None,
            Inference {
                rack: true,
                ..nothing
            },
        ),
    ] {
        let settings = SessionConfig {
            local_rack: rack,
            inference,
            ..config(&["192.0.2.1"])
        };
        let world = World::new(1, settings);
        assert!(world.connects.is_empty());
        let error = world.fatal.expect("refused");
        assert!(matches!(
            error.kind(),
            SessionErrorKind::Config(ConfigError::RackWithoutDatacenter)
        ));
    }
}

#[test]
fn a_rack_that_nobody_is_in_is_noted_with_those_there_are() {
    let world = two_datacenters(|settings| settings.local_rack = Some("z".into()));
    assert!(
        world.ready.is_some(),
        "hosts of the datacenter serve all the same"
    );
    let noted = world.notes.iter().find_map(|note| match note {
        Note::LocalRackMissing { name, known } => Some((name.to_string(), known.join(","))),
        _ => None,
    });
    assert_eq!(noted, Some(("z".into(), "a,b,c".into())));
}

#[test]
fn only_permitted_datacenters_get_connections() {
    let mut world = with_failover(|policy| {
        policy.remote_datacenters = Some(["dc3".into()].into());
    });
    assert_eq!(up(&world), [1, 2, 3]);
    world.nodes[5].datacenter = "dc3";
    world.plane.refresh(world.now);
    world.run();
    assert_eq!(up(&world), [1, 2, 3, 6]);
}

#[test]
fn a_limit_of_remote_hosts_holds_while_they_come_and_go() {
    let mut world = with_failover(|policy| policy.remote_hosts_max = NonZeroU16::new(1));
    assert_eq!(up(&world), [1, 2, 3, 4]);
    lose_host(&mut world, 4);
    assert_eq!(up(&world), [1, 2, 3, 5], "the next one takes its place");
    world.nodes[3].alive = true;
    world.pass(Duration::from_secs(120));
    assert_eq!(up(&world), [1, 2, 3, 4], "the first one is back");
    let open = |last| world.data(address(last)).is_some();
    assert!(open(4) && !open(5) && !open(6));
}

/// Knows no way to one host.
#[derive(Debug)]
struct Hides(u8);

impl AddressTranslator for Hides {
    fn translate(&self, host: &Host) -> Option<SocketAddr> {
        Some(host.address).filter(|own| *own != address(self.0))
    }
}

#[test]
fn a_remote_host_that_cannot_even_be_dialled_gives_its_place_to_the_next_one() {
    let world = two_datacenters(|settings| {
        settings.address_translator = Some(Arc::new(Hides(4)));
        settings.profile.load_balancing = Arc::new(DefaultLoadBalancing {
            datacenter_failover: true,
            remote_hosts_max: NonZeroU16::new(1),
            ..DefaultLoadBalancing::default()
        });
    });
    assert_eq!(up(&world), [1, 2, 3, 5]);
}

#[derive(Debug)]
struct Idle;

impl Loads<u32> for Idle {
    fn in_flight(&self, _: &u32) -> u32 {
        0
    }
}

#[test]
fn a_plan_tells_which_hosts_the_session_keeps_no_connection_to_whatever_the_request_prefers() {
    let mut world = with_failover(|policy| policy.remote_hosts_max = NonZeroU16::new(1));
    lose_host(&mut world, 4);
    let request = PlanRequest {
        table: None,
        token: None,
        stable: false,
        seed: 1,
    };
    let unlimited = DefaultLoadBalancing {
        datacenter_failover: true,
        ..DefaultLoadBalancing::default()
    };
    for policy in [DefaultLoadBalancing::default(), unlimited] {
        let plan = RoutePlan::of(&request, None, &policy, &world.routing, &Idle);
        let why = |last| {
            let left_out = plan.left_out.iter();
            let mut of = left_out.filter(|own| own.host.address == address(last));
            of.next().map(|own| own.why.clone())
        };
        assert!(
            matches!(why(4), Some(LeftOutCause::Down(Some(_)))),
            "{plan}"
        );
        assert!(matches!(why(6), Some(LeftOutCause::NotReached)), "{plan}");
    }
    world.nodes[3].alive = true;
    world.pass(Duration::from_secs(120));
    assert_eq!(hosts(&world, |host| !host.wanted), [5, 6]);
}

#[test]
fn an_allow_list_decides_who_is_connected_to_whatever_events_say() {
    let mut world = two_datacenters(|settings| {
        settings.host_filter = Some(Arc::new(
            AllowList::new().ip(address(1).ip()).address(address(3)),
        ));
    });
    assert_eq!(up(&world), [1, 3]);
    assert_eq!(hosts(&world, |host| !host.allowed), [2, 4, 5, 6]);
    world.forget();
    world.event(crate::wire::ServerEvent::Status {
        up: true,
        address: address(2),
    });
    world.pass(Duration::from_secs(60));
    assert_eq!(world.dialled, []);
}

#[derive(Debug)]
pub(super) struct NotRack(pub(super) &'static str);

impl HostFilter for NotRack {
    fn allows(&self, host: &Host) -> bool {
        host.rack.as_deref() != Some(self.0)
    }
}

#[test]
fn a_host_that_is_down_when_it_gets_filtered_has_no_next_try_any_more() {
    let mut world = World::new(
        2,
        SessionConfig {
            host_filter: Some(Arc::new(NotRack("a"))),
            ..config(&["192.0.2.1"])
        },
    );
    world.run();
    lose_host(&mut world, 2);
    world.pass(Duration::from_secs(5));
    let facts = |world: &World| {
        let host = world.routing.host(world.host(2)).expect("a host");
        (host.failure.is_some(), host.next_try.is_some())
    };
    assert_eq!(facts(&world), (true, true));
    world.nodes[1].rack = "a";
    world.plane.refresh(world.now);
    world.run();
    assert_eq!(facts(&world), (false, false));
}

#[test]
fn the_control_connection_leaves_a_filtered_contact_point_once_another_host_works() {
    let world = two_datacenters(|settings| {
        settings.host_filter = Some(Arc::new(NotRack("b")));
    });
    assert!(world.ready.is_some());
    let (_, at) = world.control().expect("a control connection");
    assert!([address(2), address(3)].contains(&at), "{at}");
    assert_eq!(up(&world), [2, 3]);
    assert!(
        world.events.contains(&ClusterEvent::Resynced),
        "nothing is missed"
    );
}

#[test]
fn the_control_connection_stays_at_a_filtered_contact_point_while_no_other_host_works() {
    let mut world = World::new(
        2,
        SessionConfig {
            host_filter: Some(Arc::new(NotRack("b"))),
            ready: crate::config::session::ReadinessRule::ControlConnection,
            ..config(&["192.0.2.1"])
        },
    );
    world.nodes[1].alive = false;
    world.pass(Duration::from_secs(300));
    assert_eq!(world.control().map(|(_, at)| at), Some(address(1)));
    let to_contact_point =
        |(role, at): &&(Role, SocketAddr)| *role == Role::Control && *at == address(1);
    assert_eq!(world.dialled.iter().filter(to_contact_point).count(), 1);
}

#[test]
fn a_host_that_serves_requests_but_no_control_connection_is_not_sought_in_a_loop() {
    let mut world = World::new(
        2,
        SessionConfig {
            host_filter: Some(Arc::new(NotRack("b"))),
            ready: crate::config::session::ReadinessRule::ControlConnection,
            ..config(&["192.0.2.1"])
        },
    );
    let end = world.now + Duration::from_secs(60);
    let mut tried = 0;
    for _ in 0..10_000 {
        if let Some(dialled) = world.connects.pop_front() {
            if dialled.address == address(2) && dialled.plan.role == Role::Control {
                tried += 1;
                let cause = crate::error::connect::ConnectCause::Closed;
                world.refuse(dialled, cause);
            } else {
                world.connect(dialled);
            }
        } else if let Some(submitted) = world.submits.pop_front() {
            world.answer(submitted);
        } else {
            let next = world.plane.poll_timeout().filter(|at| *at <= end);
            match next {
                Some(at) => world.tick(at),
                None => break,
            }
        }
    }
    assert!((1..=8).contains(&tried), "{tried}");
    assert!(world.control().is_some());
}

/// Sends every host of 192.0.2.0 to the same place of 198.51.100.0, another port included, but for those it hides.
#[derive(Debug)]
struct Outside {
    hidden: Option<u8>,
}

fn outside(last: u8) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, last], 9_999))
}

impl AddressTranslator for Outside {
    fn translate(&self, host: &Host) -> Option<SocketAddr> {
        match host.address {
            SocketAddr::V4(four) => Some(four.ip().octets()[3]),
            SocketAddr::V6(_) => None,
        }
        .filter(|last| Some(*last) != self.hidden)
        .map(outside)
    }
}

/// A cluster of three nodes that are reached at their outside addresses only.
fn translated(hidden: Option<u8>) -> World {
    let mut world = World::new(
        3,
        SessionConfig {
            address_translator: Some(Arc::new(Outside { hidden })),
            ..config(&["198.51.100.1:9999"])
        },
    );
    let rows: Vec<Cells> = world.nodes.iter().map(node_row).collect();
    for (node, last) in world.nodes.iter_mut().zip(1..) {
        node.address = outside(last);
    }
    world.local = Some(rows_frame(
        &node_columns("broadcast_address"),
        vec![rows[0].clone()],
    ));
    world.peers = Some(rows_frame(&node_columns("peer"), rows[1..].to_vec()));
    world.run();
    world
}

#[test]
fn every_address_that_is_dialled_went_through_the_translator() {
    let mut world = translated(None);
    assert!(world.ready.is_some());
    assert_eq!(
        hosts(&world, |host| host.address.port() == 9_999),
        [1, 2, 3]
    );
    assert_eq!(up(&world).len(), 3);
    let (conn, _) = world.control().expect("a control connection");
    world.lose(conn);
    for last in 1..=3 {
        let conn = world.data(outside(last)).expect("a connection");
        world.lose(conn);
    }
    world.pass(Duration::from_secs(60));
    let stray = world.dialled.iter().find(|(_, at)| at.port() != 9_999);
    assert_eq!(stray, None);
    assert!(
        world
            .dialled
            .iter()
            .all(|(_, at)| [1, 2, 3].map(outside).contains(at))
    );
    assert!(8 <= world.dialled.len(), "{:?}", world.dialled);
}

#[test]
fn a_host_that_the_translator_knows_no_way_to_is_down_and_says_so() {
    let mut world = translated(Some(3));
    world.pass(Duration::from_secs(10));
    assert_eq!(up(&world).len(), 2);
    let host = world.routing.host(world.host(3)).expect("a host");
    assert_eq!(host.state, HostState::Down);
    let failure = host.failure.as_deref().expect("a reason");
    assert!(
        matches!(failure.cause, NodeCause::Untranslated),
        "{failure}"
    );
    assert!(
        world
            .dialled
            .iter()
            .all(|(_, at)| *at != outside(3) && at.port() == 9_999)
    );
}

#[test]
fn a_contact_point_of_another_cluster_never_replaces_the_hosts_that_are_known() {
    let mut world = World::new(3, config(&["192.0.2.1", "192.0.2.3"]));
    // The third node is a cluster of its own, which knows nobody else.
    world.nodes[2].member = false;
    world.nodes[2].cluster = "theirs";
    world.nodes[2].alive = false;
    world.run();
    assert_eq!(up(&world), [1, 2]);
    world.nodes[2].alive = true;
    for last in [1, 2] {
        lose_host(&mut world, last);
    }
    world.pass(Duration::from_secs(60));
    assert!(world.dialled.contains(&(Role::Control, address(3))));
    assert_eq!(
        hosts(&world, |host| host.state != HostState::Removed),
        [1, 2]
    );
    assert!(world.notes.iter().any(|note| matches!(
        note,
        Note::OtherCluster { name, expected, .. } if (&**name, &**expected) == ("theirs", "ours")
    )));
    assert!(world.notes.iter().any(|note| matches!(
        note,
        Note::NoControlConnection { failures, .. }
            if failures.iter().any(|failure| matches!(failure.cause, NodeCause::OtherCluster { .. }))
    )));
    for node in &mut world.nodes {
        node.alive = true;
    }
    world.pass(Duration::from_secs(120));
    assert_eq!(up(&world), [1, 2]);
    assert_ne!(world.control().map(|(_, at)| at), Some(address(3)));
}

#[test]
fn a_datacenter_that_loses_its_last_host_leaves_the_session_as_it_was() {
    let mut world = two_datacenters(|settings| settings.local_datacenter = Some("dc1".into()));
    for node in &mut world.nodes {
        node.datacenter = "dc2";
    }
    world.plane.refresh(world.now);
    world.run();
    assert_eq!(up(&world), [0_u8; 0], "no host is local any more");
    assert!(world.fatal.is_none());
    assert!(
        world
            .disconnected
            .iter()
            .any(|(_, reason)| *reason == CloseReason::HostRemoved)
    );
    for node in &mut world.nodes[..3] {
        node.datacenter = "dc1";
    }
    world.plane.refresh(world.now);
    world.pass(Duration::from_secs(60));
    assert_eq!(up(&world), [1, 2, 3]);
}

#[test]
fn a_start_that_may_connect_to_nobody_ends_at_once_and_says_why() {
    let mut world = World::new(
        3,
        SessionConfig {
            host_filter: Some(Arc::new(AllowList::new().ip(address(3).ip()))),
            ..config(&["192.0.2.1"])
        },
    );
    // The only host that is allowed is not in the datacenter that counts as local.
    world.nodes[2].datacenter = "dc2";
    let begun = world.now;
    world.run();
    assert_eq!(world.now, begun, "nothing is waited for");
    let error = world.fatal.expect("no request could ever be sent");
    let (hosts, filtered) = (3, 2);
    assert!(matches!(
        error.kind(),
        SessionErrorKind::Config(error) if *error == ConfigError::NoHostAllowed { hosts, filtered }
    ));
}

#[test]
fn a_datacenter_for_failover_that_nobody_is_in_is_noted_with_those_there_are() {
    let noted = |name: &str| {
        let world = with_failover(|policy| policy.remote_datacenters = Some([name.into()].into()));
        assert!(world.ready.is_some());
        world.notes.iter().find_map(|note| match note {
            Note::RemoteDatacenterMissing { .. } => Some(note.to_string()),
            _ => None,
        })
    };
    let words = noted("dc3").expect("a note");
    assert_eq!(
        words,
        r#"no host is in datacenter "dc3"; there are "dc1", "dc2""#
    );
    assert_eq!(noted("dc2"), None);
}
