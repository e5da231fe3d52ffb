//! What a session tells of its cluster, which nodes it prefers, and how it ends while requests are under way.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use messina_engine::Session;
use messina_engine::api::policy::explain::Place;
use messina_engine::api::policy::host_filter::AllowList;
use messina_engine::api::policy::load_balancing::{
    ClusterView, DefaultLoadBalancing, LoadBalancingPolicy, PlanRequest, Planned, Targets,
};
use messina_engine::api::policy::retry::{Failure, RetryDecision, RetryPolicy};
use messina_engine::api::{
    ClusterEvent, Consistency, Events, ExecutionProfile, HostIdx, HostState, ReadinessRule,
    RequestErrorKind, Statement, policy::auth::Credentials, policy::auth::PlainCredentials,
};
use messina_engine::runtime::Runtime;
use messina_testkit::SimulatedCluster;
use messina_testkit::node::{Reaction, RequestKind};

use crate::on_each_runtime;
use crate::support::{
    builder, cluster, cluster_with, eventually, let_others_run, on_tokio, open_connections,
    poll_once, session, until, within,
};

/// Repeats everything on the same node after a pause.
#[derive(Debug)]
struct Later(Duration);

impl RetryPolicy for Later {
    fn decide(&self, _: &Failure<'_>) -> RetryDecision {
        RetryDecision::SameAfter(self.0)
    }
}

/// Two nodes in `dc1` and three in `dc2`.
fn two_datacenters() -> SimulatedCluster {
    SimulatedCluster::builder()
        .nodes(2)
        .another_datacenter("dc2", 3)
        .cql([
            "CREATE KEYSPACE app WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 2, 'dc2': 2}",
            "CREATE TABLE app.users (id int PRIMARY KEY, name text)",
        ])
        .start()
        .expect("loopback addresses and valid CQL")
}

fn connected<R: Runtime>(session: &Session<R>) -> BTreeSet<SocketAddr> {
    let status = session.cluster().status();
    status
        .iter()
        .filter(|own| !own.connections.is_empty())
        .map(|own| own.host.address)
        .collect()
}

fn addresses(cluster: &SimulatedCluster, nodes: &[usize]) -> BTreeSet<SocketAddr> {
    nodes.iter().map(|node| cluster.address(*node)).collect()
}

/// Waits for an event.
async fn wait_for<R: Runtime>(events: &mut Events, fits: impl Fn(&ClusterEvent) -> bool) {
    let runtime = R::current().expect("a runtime");
    let wait = async {
        while let Some(event) = events.next().await {
            if fits(&event) {
                return;
            }
        }
        panic!("the events ended");
    };
    within(&runtime, wait).await.expect("the event comes");
}

on_each_runtime! {
    #[test]
    async fn a_session_tells_hosts_connections_failures_and_the_next_try<R: Runtime>() {
        let cluster = cluster(2);
        let session = session::<R>(&cluster).await;
        assert!(session.is_shard_aware());
        let complete = |own: &messina_engine::api::ShardAwareStats| (own.shards, own.connected) == (2, 2);
        assert!(session.shard_aware_stats().iter().all(complete));
        let status = session.cluster().status();
        assert!(status.iter().all(|own| own.host.state == HostState::Up && own.connections.len() == 2));
        let mut events = session.events();
        let gone = cluster.host_id(1);
        cluster.stop_node(1);
        wait_for::<R>(&mut events, |event| matches!(event, ClusterEvent::HostDown { host_id, .. } if *host_id == gone)).await;
        // The loss is told first, and the failed attempt that follows brings the time of the next one.
        let runtime = R::current().expect("a runtime");
        let own = || {
            let status = session.cluster().status();
            status.into_iter().find(|own| own.host.id == gone).expect("it is still a member")
        };
        let failed = until(&runtime, "a failed attempt", || Some(own()).filter(|own| own.next_try().is_some())).await;
        assert!(failed.last_error().is_some() && failed.connections.is_empty());
        let in_time = failed.next_try().is_some_and(|at| at < runtime.now() + Duration::from_secs(5));
        assert!(in_time, "the first pauses are short");
        let text = failed.to_string();
        assert!(text.contains("down, 0 connections") && text.contains("last failure"), "{text}");
        assert!(session.cluster().to_string().lines().count() == 2);
        cluster.start_node(1);
        let own = until(&runtime, "a new connection", || Some(own()).filter(|own| own.host.state == HostState::Up)).await;
        assert!(own.next_try().is_none() && own.last_error().is_none() && !own.connections.is_empty());
    }

    #[test]
    async fn a_session_counts_what_happened_to_connections_and_requests<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let before = session.metrics();
        assert_eq!((before.connections, before.hosts_connected), (2, 1));
        assert!(3 <= before.connections_opened, "the control connection counts");
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await.expect("prepared");
        session.execute(&insert, (1, "a")).await.expect("inserted");
        session.execute("SELECT nonsense FROM app.users", ()).await.expect_err("no such column");
        cluster.forget_prepared_statements(0);
        session.execute(&insert, (2, "b")).await.expect("prepared again");
        let after = session.metrics();
        assert_eq!(after.requests_failed, before.requests_failed + 1);
        assert!(before.requests + 3 <= after.requests);
        let mut events = session.events();
        cluster.stop_node(0);
        wait_for::<R>(&mut events, |event| matches!(event, ClusterEvent::HostDown { .. })).await;
        let runtime = R::current().expect("a runtime");
        let counted = || {
            let now = session.metrics();
            let all = 0 < now.connect_failures && 0 < now.connections_lost && now.connections == 0;
            all.then_some(now)
        };
        let lost = until(&runtime, "the count of both", counted).await;
        assert_eq!(lost.hosts_connected, 0);
        assert!(after.snapshots < lost.snapshots && after.notes < lost.notes);
        assert!(session.notes().iter().all(|note| !note.to_string().is_empty()));
    }

    #[test]
    async fn a_plan_names_the_node_that_then_serves_the_request<R: Runtime>() {
        let cluster = cluster(3);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await.expect("prepared");
        for id in 0..20 {
            let bound = insert.bind((id, "a")).expect("bound");
            let plan = session.plan(&bound);
            assert_eq!(plan.token, bound.token());
            assert_eq!(plan.table, Some(("app".into(), "users".into())));
            assert_eq!(plan.targets.len(), 3);
            assert_eq!(plan.targets[0].host.replica, Some(0), "{plan}");
            assert_eq!(plan.targets[0].place, Place::LocalDatacenter);
            assert!(plan.targets[0].shard_connected && plan.left_out.is_empty(), "{plan}");
            let result = session.run(&bound).await.expect("inserted");
            let coordinator = result.coordinator().expect("known");
            assert_eq!(coordinator.host_id, plan.targets[0].host.id, "{plan}");
            assert_eq!(coordinator.shard, plan.targets[0].shard, "{plan}");
        }
    }

    #[test]
    async fn a_plan_tells_why_nodes_are_left_out<R: Runtime>() {
        let cluster = two_datacenters();
        let allowed = cluster.address(0);
        let session = builder::<R>(&cluster)
            .host_filter(AllowList::new().address(allowed).address(cluster.address(2)))
            .build()
            .await
            .expect("a session");
        let select = session.prepare("SELECT name FROM app.users WHERE id = ?").await.expect("prepared");
        let plan = session.plan(&select.bind((7,)).expect("bound"));
        let targets: Vec<_> = plan.targets.iter().map(|own| own.host.address).collect();
        assert_eq!(targets, [allowed]);
        assert_eq!(plan.left_out.len(), 4);
        let text = plan.to_string();
        assert!(text.contains("the host filter does not allow it"), "{text}");
        assert!(text.contains("the policy does not go there"), "{text}");
    }

    #[test]
    async fn the_profile_given_to_the_builder_decides_which_datacenters_are_connected<R: Runtime>() {
        let cluster = two_datacenters();
        let ready = |session: messina_engine::SessionBuilder<R>| session.ready(ReadinessRule::AllTried);
        let session = ready(builder::<R>(&cluster)).build().await.expect("a session");
        assert_eq!(connected(&session), addresses(&cluster, &[0, 1]));
        let mut policy = DefaultLoadBalancing::default();
        policy.datacenter_failover = true;
        policy.remote_hosts_max = NonZeroU16::new(1);
        let profile = ExecutionProfile { load_balancing: Arc::new(policy), ..ExecutionProfile::default() };
        let session = ready(builder::<R>(&cluster)).profile(profile).build().await.expect("a session");
        let hosts = connected(&session);
        assert_eq!((hosts.len(), hosts.is_superset(&addresses(&cluster, &[0, 1]))), (3, true));
        let mut policy = DefaultLoadBalancing::default();
        policy.datacenter_failover = true;
        let session = ready(builder::<R>(&cluster)).load_balancing(policy).build().await.expect("a session");
        assert_eq!(connected(&session), addresses(&cluster, &[0, 1, 2, 3, 4]));
    }

    #[test]
    async fn with_its_datacenter_gone_a_session_goes_to_another_only_if_permitted<R: Runtime>() {
        let cluster = two_datacenters();
        let strict = builder::<R>(&cluster).build().await.expect("a session");
        let mut policy = DefaultLoadBalancing::default();
        policy.datacenter_failover = true;
        let lenient = builder::<R>(&cluster)
            .load_balancing(policy)
            .ready(ReadinessRule::AllTried)
            .build()
            .await
            .expect("a session");
        let mut events = (strict.events(), lenient.events());
        let down = |event: &ClusterEvent| matches!(event, ClusterEvent::HostDown { .. });
        for node in [0, 1] {
            cluster.stop_node(node);
        }
        for _ in 0..2 {
            wait_for::<R>(&mut events.1, down).await;
        }
        wait_for::<R>(&mut events.0, down).await;
        let select = Statement::new("SELECT name FROM app.users").idempotent(true);
        lenient.execute(&select, ()).await.expect("another datacenter serves");
        let runtime = R::current().expect("a runtime");
        let local = addresses(&cluster, &[0, 1]);
        let left_alone = async {
            loop {
                match strict.execute("SELECT name FROM app.users", ()).await {
                    Err(error) if matches!(error.kind(), RequestErrorKind::NoTarget) => return error,
                    // Until the loss of the last connection is known, a request may still be sent there.
                    Err(_) => let_others_run().await,
                    Ok(result) => assert!(local.contains(&result.coordinator().expect("known").address)),
                }
            }
        };
        let error = within(&runtime, left_alone).await.expect("nobody may serve it");
        let told = error.absent_nodes().len();
        assert!((1..=2).contains(&told), "those of the local datacenter that are down: {error}");
        assert!(error.to_string().contains(&error.absent_nodes()[0].to_string()), "{error}");
    }

    #[test]
    async fn conditional_statements_and_serial_reads_of_one_key_go_to_one_replica<R: Runtime>() {
        let cluster = cluster_with(3, &[
            "CREATE KEYSPACE thrice WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3}",
            "CREATE TABLE thrice.users (id int PRIMARY KEY, name text)",
        ]);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare("INSERT INTO thrice.users (id, name) VALUES (?, ?) IF NOT EXISTS").await.expect("prepared");
        let select = session.prepare("SELECT name FROM thrice.users WHERE id = ?").await.expect("prepared");
        let serial = select.clone().consistency(Consistency::LocalSerial);
        for id in 0..5 {
            let plan = session.plan(&insert.bind((id, "a")).expect("bound"));
            let read = session.plan(&serial.bind((id,)).expect("bound"));
            for plan in [&plan, &read] {
                let order: Vec<_> = plan.targets.iter().map(|own| own.host.replica).collect();
                assert_eq!((plan.stable, order), (true, vec![Some(0), Some(1), Some(2)]), "{plan}");
            }
            let replica = plan.targets[0].host.id;
            let mut spread = BTreeSet::new();
            for _ in 0..40 {
                let result = session.execute(&insert, (id, "a")).await.expect("answered");
                assert_eq!(result.coordinator().expect("known").host_id, replica);
                let result = session.execute(&serial, (id,)).await.expect("answered");
                assert_eq!(result.coordinator().expect("known").host_id, replica);
                let result = session.execute(&select, (id,)).await.expect("answered");
                spread.insert(result.coordinator().expect("known").host_id);
            }
            assert_eq!(spread.len(), 3, "an ordinary read goes to any replica");
        }
    }

    #[test]
    async fn a_keyspace_that_cannot_be_entered_leaves_the_session_where_it_was<R: Runtime>() {
        let cluster = cluster(2);
        let session = builder::<R>(&cluster).keyspace("app").ready(ReadinessRule::EveryShard).build().await.expect("a session");
        let error = session.use_keyspace("nowhere").await.expect_err("there is none");
        assert!(error.to_string().contains("nowhere"), "{error}");
        let select = session.prepare("SELECT name FROM users WHERE id = ?").await.expect("prepared");
        assert_eq!(select.keyspace().map(|name| &**name), Some("app"));
        session.execute(&select, (1,)).await.expect("still there");
    }

    #[test]
    async fn requests_follow_a_policy_of_the_applications_own<R: Runtime>() {
        /// Names the host with the greatest identity, and no other.
        #[derive(Debug)]
        struct Greatest;
        impl LoadBalancingPolicy for Greatest {
            fn first(&self, _: &PlanRequest, cluster: &dyn ClusterView) -> Option<Planned> {
                let hosts = (0..).map(HostIdx).zip(cluster.hosts());
                let (host, _) = hosts.filter(|(_, host)| host.usable()).max_by_key(|(_, host)| host.id)?;
                Some(Planned { host, shard: None })
            }
            fn rest(&self, _: &PlanRequest, _: &dyn ClusterView, _: &mut Targets) {}
        }
        let cluster = cluster(3);
        let greatest = (0..3).map(|node| cluster.host_id(node)).max().expect("nodes");
        let session = builder::<R>(&cluster)
            .load_balancing(Greatest)
            .ready(ReadinessRule::EveryShard)
            .build()
            .await
            .expect("a session");
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await.expect("prepared");
        for id in 0..10 {
            let bound = insert.bind((id, "a")).expect("bound");
            let result = session.run(&bound).await.expect("inserted");
            assert_eq!(result.coordinator().expect("known").host_id, greatest);
            let plan = session.plan(&bound);
            assert_eq!((plan.targets.len(), plan.targets[0].host.id), (1, greatest));
            assert_eq!((plan.policy.as_deref(), plan.left_out.len()), (Some("Greatest"), 2));
        }
    }

    #[test]
    async fn a_request_between_two_attempts_is_waited_for_at_the_end<R: Runtime>() {
        let cluster = cluster(1);
        let session = builder::<R>(&cluster).build().await.expect("a session");
        let insert = session.prepare("INSERT INTO app.users (id, name) VALUES (?, ?)").await.expect("prepared");
        let retry = Arc::new(Later(Duration::from_millis(50)));
        let profile = ExecutionProfile { retry, ..ExecutionProfile::default() };
        let insert = insert.profile(profile.into()).idempotent(true);
        let mut refused = false;
        cluster.intercept(move |request| match request.kind {
            RequestKind::Execute if !std::mem::replace(&mut refused, true) => Reaction::Disconnect,
            _ => Reaction::Answer,
        });
        let mut request = session.execute(&insert, (1, "a"));
        assert!(poll_once(&mut request).await.is_pending());
        let runtime = R::current().expect("a runtime");
        until(&runtime, "the count of the loss", || (0 < session.metrics().connections_lost).then_some(())).await;
        // The loss reaches the request, which pauses now.
        assert!(poll_once(&mut request).await.is_pending());
        let mut close = std::pin::pin!(session.close(Duration::from_secs(10)));
        let mut outcome = None;
        let both = std::future::poll_fn(|cx| {
            if outcome.is_none()
                && let std::task::Poll::Ready(own) = std::pin::Pin::new(&mut request).poll(cx)
            {
                outcome = Some(own);
            }
            close.as_mut().poll(cx)
        });
        let cut = within(&runtime, both).await.expect("an end of the close");
        assert_eq!(cut, 0, "the request came to its end");
        outcome.expect("it has ended before").expect("the second attempt succeeded");
    }

    #[test]
    async fn a_close_with_a_shorter_deadline_overtakes_the_one_before<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        cluster.intercept(|request| match request.kind {
            RequestKind::Query => Reaction::Ignore,
            _ => Reaction::Answer,
        });
        let mut request = session.execute("SELECT id FROM app.users", ());
        assert!(poll_once(&mut request).await.is_pending());
        let runtime = R::current().expect("a runtime");
        let mut slow = Box::pin(session.close(Duration::from_secs(3600)));
        assert!(poll_once(&mut slow).await.is_pending());
        let quick = within(&runtime, session.close(Duration::from_millis(50))).await;
        assert_eq!(quick, Some(1));
        assert_eq!(within(&runtime, slow).await, Some(1), "both tell of the same end");
        within(&runtime, request).await.expect("an end").expect_err("it was cut off");
    }

    #[test]
    async fn nothing_keeps_a_session_alive_that_was_closed_or_dropped<R: Runtime>() {
        let cluster = cluster(1);
        let credentials: Arc<dyn Credentials> = Arc::new(PlainCredentials::new("user", "password"));
        let mut kept = Vec::new();
        for round in 0..20 {
            let session = builder::<R>(&cluster).credentials_from(Arc::clone(&credentials)).build().await.expect("a session");
            let select = session.prepare("SELECT id FROM app.users WHERE id = ?").await.expect("prepared");
            let bound = select.bind((1,)).expect("bound");
            let result = session.run(&bound).await.expect("read");
            kept.push((session.cluster(), session.events(), session.metrics(), select, bound, result));
            if round % 2 == 0 {
                session.close(Duration::from_secs(5)).await;
            }
        }
        let runtime = R::current().expect("a runtime");
        // The settings of a session hold the credentials: as long as anything of it lives, so do they.
        until(&runtime, "the end of every session", || (Arc::strong_count(&credentials) == 1).then_some(())).await;
        eventually("the end of every connection", || open_connections(&cluster, 1) == 0);
        assert_eq!(kept.len(), 20);
    }
}

#[test]
fn a_closed_session_leaves_no_task_behind() {
    let cluster = cluster(3);
    on_tokio(async {
        let alive = || {
            tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks()
        };
        let before = alive();
        let session = session::<messina_tokio::Tokio>(&cluster).await;
        assert!(
            before + 8 <= alive(),
            "one for each connection, and one for the cluster"
        );
        session.close(Duration::from_secs(5)).await;
        let runtime = messina_tokio::Tokio::current().expect("a runtime");
        until(&runtime, "the end of every task", || {
            (alive() <= before).then_some(())
        })
        .await;
    });
}
