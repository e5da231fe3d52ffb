use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::policy::explain::{Place, RoutePlan};
use crate::routing::{Partitioner, PlacementIdx, PoolView, Ring, Sharder, Strategy, TableRouting};

mod explained;

/// Handles are host numbers; each has the load at that place.
struct Fixed(Vec<u32>);

impl Loads<usize> for Fixed {
    fn in_flight(&self, handle: &usize) -> u32 {
        self.0.get(*handle).copied().unwrap_or(0)
    }
}

/// Seven hosts A to G in two datacenters, `eu` being local.
const FIXTURE: [(&str, &str, &[i64]); 7] = [
    ("eu", "r1", &[50, 250, 400]),
    ("eu", "r1", &[100, 600, 900]),
    ("eu", "r1", &[300, 650, 700]),
    ("us", "r1", &[350, 550]),
    ("us", "r1", &[150, 750]),
    ("us", "r2", &[200, 450]),
    ("eu", "r2", &[500, 800]),
];
const A: u16 = 0;
const B: u16 = 1;
const C: u16 = 2;
const D: u16 = 3;
const E: u16 = 4;
const F: u16 = 5;
const G: u16 = 6;

fn routing(strategy: Strategy) -> Routing<usize> {
    let host = |(at, (datacenter, rack, _)): (usize, &(&str, &str, &[i64]))| {
        let mut host = Host::new(
            Uuid::from_u128(at as u128 + 1),
            SocketAddr::from(([192, 0, 2, 1], 9042)),
        );
        host.datacenter = Some(Arc::from(*datacenter));
        host.rack = Some(Arc::from(*rack));
        host.local = *datacenter == "eu";
        host.state = HostState::Up;
        host
    };
    let hosts: Vec<Host> = FIXTURE.iter().enumerate().map(host).collect();
    let tokens = |(at, (_, _, tokens)): (u16, &(&str, &str, &'static [i64]))| {
        tokens.iter().map(move |token| (Token(*token), HostIdx(at)))
    };
    let entries = (0..).zip(&FIXTURE).flat_map(tokens).collect();
    let sharder = Sharder {
        shards: NonZeroU16::new(4).expect("not zero"),
        ignore_msb: 0,
    };
    let pool = |at: usize| PoolView::new(Some(sharder), vec![(Some(Shard(2)), at)]);
    let table = TableRouting {
        keyspace: "ks".into(),
        name: "t".into(),
        partitioner: Partitioner::Murmur3,
        placement: Some(PlacementIdx(0)),
    };
    Routing {
        ring: Arc::new(Ring::new(entries, &hosts, &[strategy])),
        pools: (0..hosts.len()).map(pool).collect(),
        hosts: hosts.into(),
        tables: Arc::new([table]),
        table_order: Arc::new([TableIdx(0)]),
        local_datacenter: Some("eu".into()),
        local_rack: None,
        keyspace: None,
        generation: 1,
    }
}

fn network(eu: u32, us: u32) -> Strategy {
    Strategy::NetworkTopology {
        factors: vec![("eu".into(), eu), ("us".into(), us)],
    }
}

fn request(seed: u64) -> PlanRequest {
    PlanRequest {
        table: Some(TableIdx(0)),
        token: Some(Token(160)),
        stable: false,
        seed,
    }
}

fn plan(
    policy: &DefaultLoadBalancing,
    request: &PlanRequest,
    routing: &Routing<usize>,
) -> Vec<u16> {
    let loads = Fixed(Vec::new());
    let view = RoutingView::new(routing, &loads);
    let mut targets = Targets::new();
    targets.extend_first(policy.first(request, &view));
    policy.rest(request, &view, &mut targets);
    targets.iter().map(|target| target.host.0).collect()
}

impl Targets {
    fn extend_first(&mut self, first: Option<Planned>) {
        first.into_iter().for_each(|target| self.push(target));
    }
}

/// Builds many plans and checks that each is a row of groups whose members may come in any order.
fn assert_groups(policy: &DefaultLoadBalancing, routing: &Routing<usize>, groups: &[&[u16]]) {
    for seed in 0..50 {
        let plan = plan(policy, &request(seed), routing);
        let mut rest = &plan[..];
        for group in groups {
            let (part, tail) = rest.split_at(group.len().min(rest.len()));
            let part: BTreeSet<_> = part.iter().collect();
            assert_eq!(part, group.iter().collect(), "seed {seed}: {plan:?}");
            rest = tail;
        }
        assert!(rest.is_empty(), "seed {seed}: {plan:?}");
    }
}

fn failover() -> DefaultLoadBalancing {
    DefaultLoadBalancing {
        datacenter_failover: true,
        ..DefaultLoadBalancing::default()
    }
}

#[test]
fn with_failover_replicas_of_both_sides_come_before_other_hosts() {
    assert_groups(
        &failover(),
        &routing(network(3, 3)),
        &[&[A, C, G], &[F, D, E], &[B]],
    );
    assert_groups(
        &failover(),
        &routing(network(2, 2)),
        &[&[A, G], &[F, D], &[C, B], &[E]],
    );
}

#[test]
fn a_simple_strategy_is_split_into_local_and_remote_replicas() {
    assert_groups(
        &failover(),
        &routing(Strategy::Simple { factor: 2 }),
        &[&[A], &[F], &[C, G, B], &[D, E]],
    );
}

#[test]
fn without_failover_no_other_datacenter_is_tried() {
    assert_groups(
        &DefaultLoadBalancing::default(),
        &routing(network(3, 3)),
        &[&[A, C, G], &[B]],
    );
}

#[test]
fn a_local_datacenter_that_does_not_exist_gives_an_empty_plan() {
    let mut routing = routing(network(3, 3));
    routing.hosts = routing
        .hosts
        .iter()
        .cloned()
        .map(|host| Host {
            local: false,
            ..host
        })
        .collect();
    assert!(plan(&DefaultLoadBalancing::default(), &request(1), &routing).is_empty());
    assert_eq!(plan(&failover(), &request(1), &routing).len(), 7);
}

#[test]
fn a_stable_request_tries_replicas_in_the_order_of_the_ring() {
    let routing = routing(network(3, 3));
    for seed in 0..10 {
        let request = PlanRequest {
            stable: true,
            ..request(seed)
        };
        assert_eq!(
            plan(&DefaultLoadBalancing::default(), &request, &routing)[..3],
            [A, C, G]
        );
    }
}

#[test]
fn with_the_first_replica_gone_every_stable_request_leads_to_the_next_one() {
    let whole = routing(network(3, 3));
    let plan_of = |routing: &Routing<usize>, seed| {
        let request = PlanRequest {
            stable: true,
            ..request(seed)
        };
        plan(&DefaultLoadBalancing::default(), &request, routing)
    };
    let first = plan_of(&whole, 0)[0];
    for change in [
        (|host: &mut Host| host.state = HostState::Removed) as fn(&mut Host),
        |host| host.allowed = false,
    ] {
        let mut without = whole.clone();
        let mut hosts = without.hosts.to_vec();
        change(&mut hosts[usize::from(first)]);
        without.hosts = hosts.into();
        for seed in 0..100 {
            assert_eq!(
                plan_of(&without, seed)[..2],
                plan_of(&whole, 0)[1..3],
                "{seed}"
            );
        }
    }
}

#[test]
fn every_replica_leads_some_plans() {
    let routing = routing(network(3, 3));
    let leaders: BTreeSet<_> = (0..50)
        .map(|seed| plan(&failover(), &request(seed), &routing)[0])
        .collect();
    assert_eq!(leaders, [A, C, G].into());
}

#[test]
fn two_equal_replicas_share_the_requests() {
    let routing = routing(network(2, 0));
    let first = (0..1_000)
        .filter(|seed| plan(&failover(), &request(*seed), &routing)[0] == A)
        .count();
    assert!((400..600).contains(&first), "{first} of 1000");
}

#[test]
fn of_two_replicas_the_less_busy_one_leads() {
    let routing = routing(network(2, 0));
    let loads = Fixed(vec![9, 0, 0, 0, 0, 0, 8]);
    let view = RoutingView::new(&routing, &loads);
    for seed in 0..50 {
        let first = DefaultLoadBalancing::default()
            .first(&request(seed), &view)
            .expect("hosts are up");
        assert_eq!(first.host, HostIdx(G));
    }
}

#[test]
fn a_replica_that_is_down_or_filtered_or_removed_does_not_appear() {
    for change in [
        |host: &mut Host| host.state = HostState::Down,
        |host: &mut Host| host.state = HostState::Removed,
        |host: &mut Host| host.state = HostState::Unknown,
        |host: &mut Host| host.allowed = false,
    ] {
        let mut routing = routing(network(3, 3));
        let mut hosts: Vec<Host> = routing.hosts.to_vec();
        change(&mut hosts[usize::from(A)]);
        routing.hosts = hosts.into();
        assert_groups(&DefaultLoadBalancing::default(), &routing, &[&[C, G], &[B]]);
    }
}

#[test]
fn a_request_without_a_token_spreads_over_the_local_hosts() {
    let routing = routing(network(3, 3));
    let mut leaders = BTreeSet::new();
    for seed in 0..100 {
        let plan = plan(
            &DefaultLoadBalancing::default(),
            &PlanRequest {
                token: None,
                ..request(seed)
            },
            &routing,
        );
        assert_eq!(
            plan.iter().copied().collect::<BTreeSet<_>>(),
            [A, B, C, G].into()
        );
        leaders.insert(plan[0]);
    }
    assert_eq!(leaders.len(), 4);
}

#[test]
fn a_target_names_the_shard_that_owns_the_token() {
    let routing = routing(network(3, 3));
    let loads = Fixed(Vec::new());
    let view = RoutingView::new(&routing, &loads);
    let policy = DefaultLoadBalancing::default();
    // Without ignored bits a token just above zero lies in the third of four arcs.
    assert_eq!(
        policy
            .first(&request(1), &view)
            .and_then(|target| target.shard),
        Some(Shard(2))
    );
    let without = PlanRequest {
        token: None,
        ..request(1)
    };
    assert_eq!(
        policy
            .first(&without, &view)
            .and_then(|target| target.shard),
        None
    );
}

#[test]
fn the_same_seed_gives_the_same_plan() {
    let routing = routing(network(3, 3));
    for seed in 0..20 {
        assert_eq!(
            plan(&failover(), &request(seed), &routing),
            plan(&failover(), &request(seed), &routing)
        );
    }
}

#[test]
fn without_a_preferred_datacenter_all_replicas_are_equal() {
    let mut routing = routing(network(2, 2));
    let anywhere = |host| Host {
        local: true,
        ..host
    };
    routing.hosts = routing.hosts.iter().cloned().map(anywhere).collect();
    assert_groups(
        &DefaultLoadBalancing::default(),
        &routing,
        &[&[A, D, F, G], &[B, C, E]],
    );
}

/// The routing with rack `r1` of `eu` preferred.
fn in_rack_r1(strategy: Strategy) -> Routing<usize> {
    let mut routing = routing(strategy);
    let near = |host: &Host| Host {
        local_rack: host.local && host.rack.as_deref() == Some("r1"),
        ..host.clone()
    };
    routing.hosts = routing.hosts.iter().map(near).collect();
    routing.local_rack = Some("r1".into());
    routing
}

#[test]
fn the_local_rack_comes_before_the_rest_of_its_datacenter() {
    assert_groups(
        &failover(),
        &in_rack_r1(network(3, 3)),
        &[&[A, C], &[G], &[F, D, E], &[B]],
    );
    assert_groups(
        &DefaultLoadBalancing::default(),
        &in_rack_r1(network(1, 0)),
        &[&[A], &[B, C], &[G]],
    );
}

#[test]
fn a_busy_local_rack_still_comes_before_an_idle_one() {
    let routing = in_rack_r1(network(3, 0));
    let loads = Fixed(vec![9, 0, 8, 0, 0, 0, 0]);
    let view = RoutingView::new(&routing, &loads);
    for seed in 0..50 {
        let first = DefaultLoadBalancing::default().first(&request(seed), &view);
        assert_eq!(first.map(|target| target.host), Some(HostIdx(C)));
    }
}

#[test]
fn stable_requests_of_every_rack_go_to_the_same_replica() {
    let near = |rack: &str| {
        let mut routing = routing(network(3, 0));
        let near = |host: &Host| Host {
            local_rack: host.local && host.rack.as_deref() == Some(rack),
            ..host.clone()
        };
        routing.hosts = routing.hosts.iter().map(near).collect();
        routing
    };
    for rack in ["r1", "r2", "elsewhere"] {
        for seed in 0..10 {
            let request = PlanRequest {
                stable: true,
                ..request(seed)
            };
            let plan = plan(&DefaultLoadBalancing::default(), &request, &near(rack));
            assert_eq!(plan, [A, C, G, B], "{rack}");
        }
    }
}

#[test]
fn stable_requests_leave_the_local_replicas_in_ring_order_before_remote_ones() {
    let mut routing = routing(network(2, 2));
    let mut hosts = routing.hosts.to_vec();
    hosts[usize::from(A)].state = HostState::Down;
    routing.hosts = hosts.into();
    for seed in 0..10 {
        let request = PlanRequest {
            stable: true,
            ..request(seed)
        };
        assert_eq!(plan(&failover(), &request, &routing)[..3], [G, F, D]);
    }
}

#[test]
fn only_permitted_datacenters_are_tried_after_the_local_one() {
    let mut routing = routing(network(3, 3));
    let moved = |(at, host): (u16, &Host)| match at {
        F => Host {
            datacenter: Some("ap".into()),
            ..host.clone()
        },
        _ => host.clone(),
    };
    routing.hosts = (0..).zip(routing.hosts.iter()).map(moved).collect();
    let policy = DefaultLoadBalancing {
        remote_datacenters: Some(["us".into()].into()),
        ..failover()
    };
    assert_groups(&policy, &routing, &[&[A, C, G], &[D, E], &[B]]);
    let host = |at: u16| &routing.hosts[usize::from(at)];
    assert!(policy.reaches(host(D)) && policy.reaches(host(A)) && !policy.reaches(host(F)));
    assert!(!DefaultLoadBalancing::default().reaches(host(D)));
}

#[test]
fn no_more_hosts_of_a_remote_datacenter_are_tried_than_allowed() {
    let policy = DefaultLoadBalancing {
        remote_hosts_max: NonZeroU16::new(1),
        ..failover()
    };
    let mut routing = routing(network(2, 0));
    let without_token = |seed| PlanRequest {
        token: None,
        ..request(seed)
    };
    for seed in 0..20 {
        let plan = plan(&policy, &without_token(seed), &routing);
        assert_eq!((plan.len(), plan.last()), (5, Some(&D)), "{plan:?}");
    }
    let mut hosts = routing.hosts.to_vec();
    hosts[usize::from(D)].state = HostState::Down;
    routing.hosts = hosts.into();
    for seed in 0..20 {
        assert_eq!(
            plan(&policy, &without_token(seed), &routing).last(),
            Some(&E)
        );
    }
}

#[test]
fn with_every_local_host_down_a_permitted_remote_one_leads() {
    let mut routing = routing(network(3, 3));
    let gone = |host: &Host| Host {
        state: if host.local {
            HostState::Down
        } else {
            HostState::Up
        },
        ..host.clone()
    };
    routing.hosts = routing.hosts.iter().map(gone).collect();
    assert!(plan(&DefaultLoadBalancing::default(), &request(1), &routing).is_empty());
    let leaders: BTreeSet<_> = (0..50)
        .map(|seed| plan(&failover(), &request(seed), &routing)[0])
        .collect();
    assert_eq!(leaders, [D, E, F].into());
}

#[test]
fn a_token_of_an_unknown_table_gives_any_local_host() {
    let routing = routing(network(1, 1));
    let request = |seed| PlanRequest {
        table: None,
        ..request(seed)
    };
    let leaders: BTreeSet<_> = (0..100)
        .map(|seed| plan(&DefaultLoadBalancing::default(), &request(seed), &routing)[0])
        .collect();
    assert_eq!(leaders, [A, B, C, G].into());
}

#[test]
fn without_token_awareness_replicas_are_hosts_like_others() {
    let policy = DefaultLoadBalancing {
        token_aware: false,
        ..DefaultLoadBalancing::default()
    };
    assert_groups(&policy, &routing(network(1, 0)), &[&[A, B, C, G]]);
}

#[test]
fn requests_without_a_token_are_spread_evenly() {
    let routing = routing(network(1, 1));
    let mut counts = [0; 7];
    for seed in 0..4_000 {
        let request = PlanRequest {
            token: None,
            ..request(seed)
        };
        let plan = plan(&DefaultLoadBalancing::default(), &request, &routing);
        counts[usize::from(plan[0])] += 1;
    }
    for (at, count) in counts.into_iter().enumerate() {
        let is_local = !matches!(u16::try_from(at), Ok(D | E | F));
        assert_eq!(is_local, (850..1_150).contains(&count), "{counts:?}");
    }
}
