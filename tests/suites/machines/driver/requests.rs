//! A cluster in good health: connecting, each kind of request, what there is to know, and the end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use messina_core::cluster::AgreementOutcome;
use messina_core::config::profile::PageSize;
use messina_core::config::session::ReadinessRule;
use messina_core::driver::{DriverOutput, Pages, RequestId};
use messina_core::error::request::RequestErrorKind;
use messina_core::error::result::ResultError;
use messina_core::error::session::{ConfigError, SessionErrorKind};
use messina_core::exec::batch::Batch;
use messina_core::exec::statement::Statement;
use messina_core::notify::ClusterEvent;
use messina_core::policy::retry::DowngradingRetry;
use messina_core::routing::HostState;
use messina_core::uuid::Uuid;
use messina_core::wire::{Consistency, ServerError, ServerErrorDetail};
use messina_testkit::node::{CqlError, Reaction, RequestKind};

use super::world::{EPOCH_MICROS, World};

#[test]
fn a_driver_finds_every_node_and_every_shard_by_itself() {
    let world = World::ready(3, 4);
    assert_eq!(world.lookups, 1);
    assert!(world.driver.is_shard_aware());
    let status = world.driver.status();
    assert_eq!(status.len(), 3);
    for host in &status {
        assert_eq!(host.host.state, HostState::Up);
        assert_eq!(host.shards_connected, 4);
    }
    let metrics = world.driver.metrics();
    // One connection for each shard, and the control connection.
    assert_eq!((metrics.connections, metrics.hosts_connected), (12, 3));
    assert_eq!(metrics.connections_opened, 13);
    assert_eq!(world.open_links(), 13);
}

#[test]
fn a_text_is_answered_whatever_pieces_its_bytes_come_in() {
    for piece in [1, 7, usize::MAX] {
        let mut world = World::ready(1, 2);
        world.piece = piece;
        let result = world.text("SELECT cluster_name FROM system.local");
        let (name,) = result.one::<(String,)>().unwrap();
        assert_eq!(name, "simulated");
        assert!(result.coordinator().is_some());
    }
}

#[test]
fn a_prepared_statement_goes_to_the_shard_of_its_key() {
    let mut world = World::with_table(3, 4);
    let insert = world.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)");
    for node in 0..3 {
        assert_eq!(world.cluster.prepared_count(node), 1, "on every node");
    }
    for key in 0..50 {
        let bound = insert.bind((key, "x")).unwrap();
        let plan = world.driver.plan(&bound);
        let request = world.driver.run(world.now, bound);
        let result = world.good(request);
        let coordinator = result.coordinator().unwrap();
        let first = plan.targets.first().unwrap();
        assert_eq!(coordinator.host_id, first.host.id);
        assert_eq!(coordinator.shard, first.shard);
    }
    let select = world.prepare("SELECT v FROM ks.t WHERE k = ?");
    let request = world.driver.execute(world.now, &select, (7,));
    assert_eq!(world.good(request).one::<(String,)>().unwrap().0, "x");
    assert_eq!(world.driver.metrics().requests_failed, 0);
}

#[test]
fn a_text_with_values_is_prepared_on_the_connection_that_executes_it() {
    let mut world = World::with_table(2, 2);
    let text = "INSERT INTO ks.t (k, v) VALUES (?, ?)";
    let request = world.driver.execute(world.now, text, (1, "one"));
    world.good(request);
    let prepared: usize = (0..2).map(|node| world.cluster.prepared_count(node)).sum();
    assert_eq!(prepared, 1);
    let request = world.driver.execute(world.now, text, ("no number", "one"));
    let error = world.result(request).unwrap().unwrap_err();
    assert!(
        matches!(error.kind(), RequestErrorKind::Bind(_)),
        "{error:?}"
    );
}

#[test]
fn values_that_do_not_fit_are_an_answer_like_any_other() {
    let mut world = World::with_table(1, 1);
    let insert = world.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)");
    let request = world.driver.execute(world.now, &insert, ("no number", 2));
    let error = world.result(request).unwrap().unwrap_err();
    assert!(
        matches!(error.kind(), RequestErrorKind::Bind(_)),
        "{error:?}"
    );
}

#[test]
fn a_batch_is_applied_as_one_and_is_stamped_with_the_time_of_day() {
    let mut world = World::with_table(3, 2);
    let insert = world.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)");
    let batch = Batch::logged()
        .add(&insert, (1, "a"))
        .add("INSERT INTO ks.t (k, v) VALUES (2, 'b')", ());
    world.pass(Duration::from_secs(5));
    let request = world.driver.batch(world.now, batch);
    world.good(request);
    let rows = world.text("SELECT k, writetime(v) FROM ks.t");
    let rows: Vec<(i32, i64)> = rows.rows().unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 2);
    for (_, stamp) in rows {
        let age = stamp - EPOCH_MICROS;
        assert!((5_000_000..60_000_000).contains(&age), "{age} µs");
    }
}

#[test]
fn texts_with_values_in_a_batch_are_prepared_once_and_remembered() {
    let mut world = World::with_table(2, 2);
    let text = "INSERT INTO ks.t (k, v) VALUES (?, ?)";
    for round in 0..2 {
        let batch = Batch::unlogged()
            .add_text(text, (round, "a"))
            .add_text(text, (round + 10, "b"));
        let request = world.driver.batch(world.now, batch);
        world.good(request);
    }
    assert_eq!(world.text("SELECT k FROM ks.t").row_count(), 4);
    let request = world.driver.prepare_cached(world.now, text);
    world.prepared(request).unwrap().unwrap();
    for node in 0..2 {
        assert_eq!(world.cluster.statistics(node).unwrap().prepares, 1);
    }
    let bad = Batch::unlogged().add_text(text, ("no number", "a"));
    let request = world.driver.batch(world.now, bad);
    let error = world.result(request).unwrap().unwrap_err();
    assert!(
        matches!(error.kind(), RequestErrorKind::Bind(_)),
        "{error:?}"
    );
}

#[test]
fn writes_follow_a_clock_that_was_set_and_never_go_back() {
    let mut world = World::with_table(1, 1);
    let stamp = |world: &mut World| {
        world.text("INSERT INTO ks.t (k, v) VALUES (1, 'x')");
        let result = world.text("SELECT writetime(v) FROM ks.t WHERE k = 1");
        result.one::<(i64,)>().unwrap().0
    };
    let day = 86_400_000_000;
    world
        .driver
        .handle_wall_clock(world.now, EPOCH_MICROS + day);
    let first = stamp(&mut world);
    assert_eq!(first, EPOCH_MICROS + day);
    world.driver.handle_wall_clock(world.now, EPOCH_MICROS);
    assert_eq!(stamp(&mut world), first + 2, "the read in between took one");
}

#[test]
fn pages_follow_each_other_on_one_node_until_the_last() {
    let mut world = World::with_table(3, 2);
    let insert = world.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)");
    for key in 0..23 {
        let request = world.driver.execute(world.now, &insert, (key, "x"));
        world.good(request);
    }
    let select = Statement::new("SELECT k FROM ks.t").page_size(PageSize::new(5));
    let mut pages = Box::new(Pages::new(&select, ()).unwrap());
    let (mut keys, mut nodes) = (Vec::new(), Vec::new());
    while pages.more() {
        assert!(nodes.len() < 23, "pages without end");
        let (next, page) = world.page(pages);
        pages = next;
        let page = page.unwrap().unwrap();
        keys.extend(page.rows::<(i32,)>().unwrap().map(|row| row.unwrap().0));
        nodes.push(page.coordinator().unwrap().host_id);
    }
    keys.sort_unstable();
    assert_eq!(keys, (0..23).collect::<Vec<_>>());
    assert!(4 < nodes.len());
    assert!(nodes.iter().all(|node| *node == nodes[0]), "{nodes:?}");
    let (_, end) = world.page(pages);
    assert!(end.unwrap().is_none(), "there is nothing behind the last");
}

/// A world with so many rows, and a read of them with five to a page.
fn five_to_a_page(rows: i32) -> (World, Statement) {
    let mut world = World::with_table(1, 1);
    for key in 0..rows {
        world.text(&format!("INSERT INTO ks.t (k, v) VALUES ({key}, 'x')"));
    }
    let select = Statement::new("SELECT k FROM ks.t").page_size(PageSize::new(5));
    (world, select)
}

#[test]
fn every_page_starts_at_the_consistency_of_the_statement() {
    let (mut world, select) = five_to_a_page(15);
    let mut profile = world.driver.config().profile.clone();
    profile.retry = Arc::new(DowngradingRetry);
    let select = select
        .consistency(Consistency::All)
        .profile(Arc::new(profile));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    world.intercept(move |request| {
        if !request.text.is_some_and(|text| text.contains("FROM ks.t")) {
            return Reaction::Answer;
        }
        let mut asked = seen.lock().unwrap();
        asked.extend(request.consistency);
        match asked.len() {
            // Of all replicas that the second page asks for, one is alive.
            2 => Reaction::Fail(ServerError {
                code: 0x1000,
                message: "too few".to_owned(),
                detail: ServerErrorDetail::Unavailable {
                    consistency: Consistency::All,
                    required: 3,
                    alive: 1,
                },
            }),
            _ => Reaction::Answer,
        }
    });
    let mut pages = Box::new(Pages::new(&select, ()).unwrap());
    for _ in 0..3 {
        let (next, page) = world.page(pages);
        pages = next;
        assert_eq!(page.unwrap().unwrap().row_count(), 5);
    }
    let (all, one) = (Consistency::All, Consistency::One);
    assert_eq!(*asked.lock().unwrap(), [all, all, one, all]);
}

#[test]
fn each_page_has_the_whole_limit_on_time_for_itself() {
    let (mut world, select) = five_to_a_page(15);
    let select = select.timeout(Duration::from_millis(900));
    // Three pages take longer together than one may.
    for (delay, in_time) in [(899, 3), (901, 0)] {
        world.intercept(move |request| match request.text {
            Some(text) if text.contains("FROM ks.t") => {
                Reaction::Delay(Duration::from_millis(delay))
            }
            _ => Reaction::Answer,
        });
        let mut pages = Box::new(Pages::new(&select, ()).unwrap());
        let mut read = 0;
        for _ in 0..3 {
            let request = world.driver.next_page(world.now, pages);
            world.pass(Duration::from_secs(1));
            let answer = world.answers_to(request).pop();
            let Some(DriverOutput::Page {
                pages: next,
                result,
                ..
            }) = answer
            else {
                panic!("{answer:?}")
            };
            pages = next;
            match result {
                Ok(page) => read += page.map_or(0, |page| page.row_count()) / 5,
                Err(error) => assert!(
                    matches!(error.kind(), RequestErrorKind::Expired),
                    "{error:?}"
                ),
            }
        }
        assert_eq!(read, in_time, "late by {delay} ms");
    }
}

#[test]
fn a_text_with_values_is_read_page_by_page_and_prepared_once() {
    let mut world = World::with_table(1, 1);
    for key in 0..4 {
        world.text(&format!("INSERT INTO ks.t (k, v) VALUES ({key}, 'x')"));
    }
    let text = "SELECT k FROM ks.t WHERE k IN ?";
    let select = Statement::new(text).page_size(PageSize::new(3));
    let mut pages = Box::new(Pages::new(&select, (vec![0, 1, 2, 3],)).unwrap());
    let mut count = 0;
    while pages.more() {
        let (next, page) = world.page(pages);
        pages = next;
        count += page.unwrap().unwrap().row_count();
        assert!(count <= 4, "pages without end");
    }
    assert_eq!(count, 4);
    assert_eq!(world.cluster.statistics(0).unwrap().prepares, 1);
}

#[test]
fn an_answer_that_should_have_been_whole_and_is_cut_is_an_error() {
    let mut world = World::with_table(1, 1);
    for key in 0..4 {
        world.text(&format!("INSERT INTO ks.t (k, v) VALUES ({key}, 'x')"));
    }
    let request = world
        .driver
        .execute_unpaged(world.now, "SELECT k FROM ks.t", ());
    assert_eq!(world.good(request).row_count(), 4);
    let cut = Statement::new("SELECT k FROM ks.t").page_size(PageSize::new(2));
    let request = world.driver.execute(world.now, &cut, ());
    let page = world.good(request);
    assert!(page.has_more_pages());
    assert!(matches!(
        page.expect_last_page(),
        Err(ResultError::MorePages)
    ));
}

#[test]
fn the_whole_session_enters_a_keyspace_by_request_or_by_statement() {
    let mut world = World::with_table(3, 2);
    let request = world.driver.use_keyspace(world.now, "ks");
    let answers = world.answers_to(request);
    assert!(
        matches!(
            &answers[..],
            [DriverOutput::KeyspaceUsed { result: Ok(()), .. }]
        ),
        "{answers:?}"
    );
    for key in 0..12 {
        world.text(&format!("INSERT INTO t (k, v) VALUES ({key}, 'x')"));
    }
    let prepared = world.prepare("SELECT v FROM t WHERE k = ?");
    assert_eq!(prepared.keyspace().map(|name| &**name), Some("ks"));
    world.administer(
        "CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    world.administer("CREATE TABLE other.u (k int PRIMARY KEY)");
    let result = world.text("USE other");
    assert_eq!(result.set_keyspace(), Some("other"));
    for key in 0..12 {
        world.text(&format!("INSERT INTO u (k) VALUES ({key})"));
    }
    let request = world.driver.use_keyspace(world.now, "nowhere");
    let answers = world.answers_to(request);
    let [
        DriverOutput::KeyspaceUsed {
            result: Err(error), ..
        },
    ] = &answers[..]
    else {
        panic!("{answers:?}");
    };
    assert!(matches!(error.kind(), SessionErrorKind::Keyspace { .. }));
    world.text("SELECT k FROM u");
}

#[test]
fn a_statement_that_enters_a_keyspace_tells_which_nodes_did_not_follow() {
    let mut world = World::with_table(3, 2);
    let mut entered = false;
    world.intercept(move |request| {
        let is_entering = request.text.is_some_and(|text| text.starts_with("USE"));
        // The statement itself is the first one.
        if !is_entering || !std::mem::replace(&mut entered, true) || request.node == 0 {
            return Reaction::Answer;
        }
        Reaction::Refuse(CqlError::invalid("not here yet"))
    });
    let request = world.driver.execute(world.now, "USE ks", ());
    let error = world.result(request).unwrap().unwrap_err();
    let RequestErrorKind::Keyspace(own) = error.kind() else {
        panic!("{error:?}")
    };
    assert!(
        matches!(own.kind(), SessionErrorKind::KeyspaceInPart { .. }),
        "{own:?}"
    );
    assert!(own.to_string().contains("not here yet"), "{own}");
}

#[test]
fn a_statement_whose_keyspace_changes_while_it_is_prepared_is_prepared_anew() {
    let (mut world, preparing) = preparing_while_the_keyspace_changes();
    world.pass(Duration::from_secs(2));
    let statement = world.prepared(preparing).unwrap().unwrap();
    assert_eq!(statement.keyspace().map(|name| &**name), Some("other"));
    let insert = world.driver.execute(world.now, &statement, (1, 2));
    world.pass(Duration::from_secs(2));
    world.good(insert);
}

#[test]
fn a_statement_that_would_be_prepared_anew_is_refused_once_the_session_is_closing() {
    let (mut world, preparing) = preparing_while_the_keyspace_changes();
    world
        .driver
        .close(world.now, world.now + Duration::from_secs(1));
    world.pass(Duration::from_secs(2));
    let error = world.prepared(preparing).unwrap().unwrap_err();
    assert!(
        matches!(error.kind(), RequestErrorKind::Closed),
        "{error:?}"
    );
}

/// A text that one node answers late, after the session has entered another keyspace.
fn preparing_while_the_keyspace_changes() -> (World, RequestId) {
    let mut world = World::with_table(3, 2);
    world.administer(
        "CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    world.administer("CREATE TABLE other.t (k int PRIMARY KEY, v int)");
    let request = world.driver.use_keyspace(world.now, "ks");
    world.answers_to(request);
    world.intercept(|seen| match seen.kind {
        RequestKind::Prepare if seen.node == 2 => Reaction::Delay(Duration::from_millis(100)),
        _ => Reaction::Answer,
    });
    let preparing = world
        .driver
        .prepare(world.now, "INSERT INTO t (k, v) VALUES (?, ?)");
    world.settle();
    let entering = world.driver.use_keyspace(world.now, "other");
    assert_eq!(world.answers_to(entering).len(), 1);
    (world, preparing)
}

#[test]
fn a_change_of_the_schema_is_answered_when_all_nodes_agree() {
    let mut world = World::with_table(3, 2);
    let request = world
        .driver
        .execute(world.now, "CREATE TABLE ks.fresh (k int PRIMARY KEY)", ());
    world.pass(Duration::from_secs(5));
    let result = world.good(request);
    assert!(result.schema_change().is_some());
    let agreed = result.schema_agreement();
    assert!(
        matches!(agreed, Some(AgreementOutcome::Agreed)),
        "{agreed:?}"
    );
    let routing = world.driver.routing();
    assert!(
        routing.table_idx("ks", "fresh").is_some(),
        "requests that follow can be routed by it"
    );
    let request = world.driver.await_agreement(world.now);
    world.pass(Duration::from_secs(5));
    let answers = world.answers_to(request);
    assert!(
        matches!(
            &answers[..],
            [DriverOutput::Agreement {
                outcome: AgreementOutcome::Agreed,
                ..
            }]
        ),
        "{answers:?}"
    );
}

#[test]
fn a_trace_is_read_once_it_is_complete() {
    let mut world = World::with_table(1, 1);
    let statement = Statement::new("SELECT k FROM ks.t").tracing(true);
    let request = world.driver.execute(world.now, &statement, ());
    let id = world.good(request).tracing_id().expect("it was traced");
    let request = world.driver.trace(world.now, id);
    world.pass(Duration::from_secs(3));
    let answers = world.answers_to(request);
    let [
        DriverOutput::Traced {
            result: Ok(trace), ..
        },
    ] = &answers[..]
    else {
        panic!("{answers:?}");
    };
    assert_eq!(trace.id, id);
    assert!(!trace.events.is_empty());

    // One that nobody wrote is asked for until the time is over, or the session.
    let request = world.driver.trace(world.now, Uuid::from_u128(1));
    world.pass(Duration::from_secs(3));
    let answers = world.answers_to(request);
    assert!(
        matches!(&answers[..], [DriverOutput::Traced { result: Err(_), .. }]),
        "{answers:?}"
    );
    let request = world.driver.trace(world.now, Uuid::from_u128(1));
    world.settle();
    world.driver.close(world.now, world.now);
    assert_eq!(world.answers_to(request).len(), 1);
    assert!(world.driver.is_closed());
}

#[test]
fn a_refresh_finds_a_node_that_nobody_announced() {
    let mut world = World::ready(2, 1);
    world.cluster.add_node("dc1", "rack1");
    world.driver.refresh(world.now);
    world.pass(Duration::from_secs(5));
    assert_eq!(world.driver.status().len(), 3);
    let added = world
        .outputs
        .iter()
        .any(|output| matches!(output, DriverOutput::Notify(ClusterEvent::HostAdded { .. })));
    assert!(added, "{:?}", world.outputs);
}

#[test]
fn a_request_before_the_cluster_was_found_has_nowhere_to_go() {
    let mut world = World::new(1, 1, |_| ());
    world.cluster.stop_node(0);
    let mut world = {
        world.settle();
        world
    };
    world.pass(Duration::from_secs(1));
    let request = world.driver.execute(world.now, "SELECT k FROM ks.t", ());
    let error = world.result(request).unwrap().unwrap_err();
    assert!(
        matches!(error.kind(), RequestErrorKind::NoTarget),
        "{error:?}"
    );
}

#[test]
fn a_session_that_cannot_start_says_why_and_leaves_nothing_behind() {
    let mut world = World::new(1, 1, |config| {
        config.readiness_timeout = Duration::from_secs(10);
        config.ready = ReadinessRule::OneHost;
        config.contact_points = vec!["127.0.0.9:9042".parse().unwrap()];
    });
    world.pass(Duration::from_secs(11));
    let ends: Vec<_> = world
        .outputs
        .iter()
        .filter(|output| {
            matches!(
                output,
                DriverOutput::Failed(_) | DriverOutput::Closed { .. }
            )
        })
        .collect();
    let [DriverOutput::Failed(error), DriverOutput::Closed { cut: 0 }] = &ends[..] else {
        panic!("{ends:?}");
    };
    assert!(
        matches!(error.kind(), SessionErrorKind::NoContactPoint),
        "{error:?}"
    );
    assert_eq!(world.driver.poll_timeout(), None);
}

#[test]
fn settings_that_make_no_sense_are_refused_before_anything_is_dialled() {
    let mut world = World::new(1, 1, |config| config.contact_points.clear());
    world.settle();
    let failed = world.outputs.iter().any(|output| match output {
        DriverOutput::Failed(error) => matches!(
            error.kind(),
            SessionErrorKind::Config(ConfigError::NoContactPoint)
        ),
        _ => false,
    });
    assert!(failed, "{:?}", world.outputs);
    assert_eq!((world.lookups, world.open_links()), (0, 0));
}

#[test]
fn a_session_has_an_id_of_its_own_unless_it_was_given_one() {
    let own = World::new(1, 1, |_| ()).driver.id();
    assert!(!own.is_nil());
    let given = Uuid::from_u128(7);
    let world = World::new(1, 1, |config| config.session_id = given);
    assert_eq!(world.driver.id(), given);
    assert_eq!(world.driver.config().session_id, given);
}
