//! Many requests of one statement from one task.

use std::collections::BTreeSet;
use std::task::{Context, Waker};

use messina_engine::api::{Fate, Full, RequestErrorKind};
use messina_testkit::node::{CqlError, Reaction, RequestKind};

use crate::on_each_runtime;
use crate::support::{cluster, session, within};

const INSERT: &str = "INSERT INTO app.users (id, name) VALUES (?, ?)";

on_each_runtime! {
    #[test]
    async fn every_row_that_is_pushed_is_written_and_told_once<R: Runtime>() {
        let cluster = cluster(3);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare(INSERT).await.expect("prepared");
        // What a node forgets in between is brought back as for any other request.
        cluster.forget_prepared_statements(1);
        let mut pipeline = session.pipeline(&insert).in_flight_max(64);
        let (mut pushed, mut told) = (BTreeSet::new(), BTreeSet::new());
        let work = async {
            for id in 0..2_000 {
                let mut values = (id, "x");
                loop {
                    match pipeline.push(values) {
                        Ok(ticket) => {
                            assert!(pushed.insert(ticket));
                            break;
                        }
                        Err(Full(back)) => {
                            values = back;
                            assert_eq!(pipeline.in_flight(), 64);
                            let completion = pipeline.completion().await.expect("requests are out");
                            completion.result.expect("inserted");
                            assert!(told.insert(completion.ticket));
                        }
                    }
                }
            }
            let mut rest = Vec::new();
            while std::future::poll_fn(|cx| pipeline.poll_completions(cx, &mut rest)).await != 0 {
                for completion in rest.drain(..) {
                    completion.result.expect("inserted");
                    assert!(told.insert(completion.ticket));
                }
            }
        };
        within(&R::current().expect("a runtime"), work).await.expect("an end");
        assert_eq!(pushed, told);
        assert_eq!(pipeline.in_flight(), 0);
        let rows = session.execute_unpaged("SELECT id FROM app.users", ()).await.expect("selected");
        assert_eq!(rows.row_count(), 2_000);
    }

    #[test]
    async fn values_that_do_not_fit_are_an_outcome_like_any_other<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare(INSERT).await.expect("prepared");
        let mut pipeline = session.pipeline(&insert);
        let before = cluster.statistics(0).executions;
        let ticket = pipeline.push(("no int", "x")).expect("room");
        let completion = pipeline.completion().await.expect("one is out");
        assert_eq!(completion.ticket, ticket);
        let error = completion.result.expect_err("a text is no int");
        assert!(matches!(error.kind(), RequestErrorKind::Bind(_)), "{error:?}");
        assert_eq!((error.fate(), cluster.statistics(0).executions), (Fate::NotSent, before));
        assert!(pipeline.completion().await.is_none());
    }

    #[test]
    async fn a_pipeline_retries_as_every_request_does<R: Runtime>() {
        let cluster = cluster(3);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare(INSERT).await.expect("prepared");
        let busy = || {
            cluster.intercept(|request| match (request.kind, request.node) {
                (RequestKind::Execute, 0) => Reaction::Refuse(CqlError::new(0x1001, "overloaded")),
                _ => Reaction::Answer,
            });
        };
        busy();
        let twice = insert.clone().idempotent(true);
        let mut pipeline = session.pipeline(&twice);
        for id in 0..300 {
            pipeline.push((id, "x")).expect("room");
        }
        let mut moved = 0;
        while let Some(completion) = pipeline.completion().await {
            let result = completion.result.expect("another node took it");
            moved += result.attempts().len();
        }
        assert!(0 < moved, "the first node refuses what belongs to it");
        let mut pipeline = session.pipeline(&insert);
        for id in 0..300 {
            pipeline.push((id, "x")).expect("room");
        }
        let mut refused = 0;
        while let Some(completion) = pipeline.completion().await {
            refused += usize::from(completion.result.is_err());
        }
        assert_eq!(refused, moved, "what is not idempotent is not sent again");
    }

    #[test]
    async fn a_dropped_pipeline_gives_its_requests_up<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        let insert = session.prepare(INSERT).await.expect("prepared");
        cluster.intercept(|request| match request.kind {
            RequestKind::Execute => Reaction::Ignore,
            _ => Reaction::Answer,
        });
        let mut pipeline = session.pipeline(&insert);
        for id in 0..20 {
            pipeline.push((id, "x")).expect("room");
        }
        assert_eq!(session.metrics().in_flight, 20, "pushing sends");
        let idle = Context::from_waker(Waker::noop());
        assert!(pipeline.poll_completion(&idle).is_pending());
        drop(pipeline);
        assert_eq!(session.metrics().in_flight, 0);
    }
}
