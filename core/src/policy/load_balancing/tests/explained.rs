//! What an explained plan tells of the choices of the default policy.

use super::*;

#[test]
fn an_explained_plan_tells_targets_in_order_and_why_others_are_left_out() {
    let mut routing = in_rack_r1(network(2, 1));
    let mut hosts = routing.hosts.to_vec();
    hosts[usize::from(B)].state = HostState::Down;
    hosts[usize::from(C)].allowed = false;
    hosts[usize::from(E)].state = HostState::Unknown;
    hosts[usize::from(E)].wanted = false;
    routing.hosts = hosts.into();
    let loads = Fixed(vec![3, 0, 0, 0, 0, 0, 7]);
    let local = DefaultLoadBalancing::default();
    let explain = |policy: &DefaultLoadBalancing, stable| {
        let request = PlanRequest {
            stable,
            ..request(1)
        };
        RoutePlan::of(&request, None, policy, &routing, &loads)
    };
    let plan = explain(&local, false);
    let told: Vec<_> = plan
        .targets
        .iter()
        .map(|target| (target.host.replica, target.place, target.in_flight))
        .collect();
    assert_eq!(
        told,
        [
            (Some(1), Place::LocalRack, Some(3)),
            (Some(2), Place::LocalDatacenter, Some(7))
        ]
    );
    assert_eq!(plan.token, Some(Token(160)));
    assert!(plan.targets.iter().all(|target| target.shard_connected));
    let why: Vec<_> = plan
        .left_out
        .iter()
        .map(|own| own.why.to_string())
        .collect();
    assert_eq!(
        why,
        [
            "down",
            "the host filter does not allow it",
            "the policy does not choose it for this request",
            "the policy does not go there",
            "the policy does not choose it for this request"
        ]
    );
    let text = plan.to_string();
    assert!(text.starts_with("token 160 of ks.t, default policy\n  1. 192.0.2.1:9042 (eu, r1), replica 2, local rack, shard 2, 3 in flight"), "{text}");
    assert!(
        explain(&local, true)
            .to_string()
            .contains("replicas in a fixed order")
    );
    assert_eq!(explain(&failover(), false).targets.len(), 4);
}

#[test]
fn an_explained_plan_is_the_one_that_a_request_of_the_same_seed_follows() {
    let routing = routing(network(3, 3));
    let loads = Fixed(Vec::new());
    for seed in 0..50 {
        let explained = RoutePlan::of(&request(seed), None, &failover(), &routing, &loads);
        let ids: Vec<_> = explained
            .targets
            .iter()
            .map(|target| target.host.id)
            .collect();
        let followed: Vec<_> = plan(&failover(), &request(seed), &routing)
            .into_iter()
            .map(|at| Uuid::from_u128(u128::from(at) + 1))
            .collect();
        assert_eq!(ids, followed);
    }
}

#[test]
fn a_request_that_names_its_target_is_explained_with_that_one_alone() {
    let routing = routing(network(3, 3));
    let only = Planned {
        host: HostIdx(C),
        shard: Some(Shard(1)),
    };
    let loads = Fixed(Vec::new());
    let plan = RoutePlan::of(&request(1), Some(only), &failover(), &routing, &loads);
    assert_eq!((plan.policy, plan.targets.len()), (None, 1));
    assert_eq!(
        (plan.targets[0].shard, plan.targets[0].shard_connected),
        (Some(Shard(1)), false)
    );
}
