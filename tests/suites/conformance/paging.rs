//! Paged reads: sizes, limits on time, pages ahead of their time, places to resume at, and pages by column.

use std::time::Duration;

use messina_engine::api::{PageSize, RequestErrorKind};
use messina_engine::{Runtime, Session};
use messina_testkit::SimulatedCluster;
use messina_testkit::node::{CqlError, Reaction, RequestKind};

use smol::stream::Stream;

use crate::on_each_runtime;
use crate::support::{cluster, eventually, session};

const SELECT: &str = "SELECT at FROM app.events WHERE day = ?";

/// Fills one day with this many rows.
async fn fill<R: Runtime>(session: &Session<R>, rows: i32) {
    let insert = "INSERT INTO app.events (day, at, what) VALUES (?, ?, ?)";
    let insert = session.prepare(insert).await.expect("prepared");
    for at in 0..rows {
        session
            .execute(&insert, (1, at, "x"))
            .await
            .expect("inserted");
    }
}

fn executions(cluster: &SimulatedCluster) -> u64 {
    cluster.statistics(0).executions
}

on_each_runtime! {
    #[test]
    async fn without_a_page_size_all_rows_come_at_once<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        fill(&session, 25).await;
        let select = session.prepare(SELECT).await.expect("prepared").page_size(None);
        let mut pages = session.pages(&select, (1,));
        let page = pages.next().await.expect("a page").expect("the only page");
        assert_eq!(page.row_count(), 25);
        assert!(pages.next().await.expect("the end").is_none());
    }

    #[test]
    async fn each_page_has_the_whole_limit_on_time_for_itself<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        fill(&session, 25).await;
        let select = session.prepare(SELECT).await.expect("prepared").page_size(PageSize::new(1));
        // Only a machine that stands still for twenty times as long as a page takes would spoil it.
        let (late, limit) = (Duration::from_millis(100), Duration::from_millis(2_100));
        let select = select.timeout(limit);
        cluster.intercept(move |request| match request.kind {
            RequestKind::Execute => Reaction::Delay(late),
            _ => Reaction::Answer,
        });
        let mut rows = session.stream::<(i32,), _, _>(&select, (1,));
        let mut count = 0;
        while let Some(row) = rows.next().await {
            row.expect("all pages take longer together than one may");
            count += 1;
        }
        assert_eq!(count, 25);
        assert!(limit < late * count);
    }

    #[test]
    async fn a_page_is_asked_for_ahead_of_its_time_only_if_wanted<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        fill(&session, 25).await;
        let select = session.prepare(SELECT).await.expect("prepared").page_size(PageSize::new(10));
        let before = executions(&cluster);
        let mut pages = session.pages(&select, (1,)).prefetch(true);
        let mut seen = Vec::new();
        let first = pages.next().await.expect("a page").expect("the first of three");
        // Nothing but the request itself moves the second page, and it is sent without anybody waiting.
        eventually("the second page", || executions(&cluster) == before + 2);
        seen.push(first.row_count());
        while let Some(page) = pages.next().await.expect("a page") {
            seen.push(page.row_count());
        }
        assert_eq!((seen, executions(&cluster)), (vec![10, 10, 5], before + 3));

        let mut pages = session.pages(&select, (1,));
        pages.next().await.expect("a page").expect("the first of three");
        session.execute("SELECT at FROM app.events WHERE day = 2", ()).await.expect("a round trip");
        assert_eq!(executions(&cluster), before + 4, "nobody asked for the second page");
        let mut rows = session.stream::<(i32,), _, _>(&select, (1,)).prefetch(true);
        let mut all = Vec::new();
        while let Some(row) = rows.next().await {
            all.push(row.expect("a row").0);
        }
        assert_eq!(all, (0..25).collect::<Vec<_>>());
    }

    #[test]
    async fn a_page_that_failed_is_next_again_and_its_place_can_be_stored<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        fill(&session, 25).await;
        let select = session.prepare(SELECT).await.expect("prepared").page_size(PageSize::new(10));
        for prefetch in [false, true] {
            let mut pages = session.pages(&select, (1,)).prefetch(prefetch);
            let mut seen = Vec::new();
            let mut sent = 0;
            cluster.intercept(move |request| {
                sent += u32::from(request.kind == RequestKind::Execute);
                match (request.kind, sent) {
                    (RequestKind::Execute, 3) => Reaction::Refuse(CqlError::new(0x1001, "overloaded")),
                    _ => Reaction::Answer,
                }
            });
            let error = loop {
                match pages.next().await {
                    Ok(page) => seen.push(page.expect("not the end").row_count()),
                    Err(error) => break error,
                }
            };
            assert_eq!(seen, [10, 10], "what came before the error was delivered");
            assert!(matches!(error.kind(), RequestErrorKind::Server(_)), "{error:?}");
            let place = pages.state().expect("the place of the third page").clone();
            let rest = pages.next().await.expect("asked again").expect("the third page");
            assert_eq!(rest.row_count(), 5);
            let resumed = select.clone().paging_state(place);
            let result = session.execute(&resumed, (1,)).await.expect("resumed");
            assert_eq!(result.row_count(), 5);
            assert!(!result.has_more_pages());
        }
    }

    #[test]
    async fn the_next_page_is_asked_of_the_node_that_gave_the_last_one<R: Runtime>() {
        let cluster = cluster(3);
        let session = session::<R>(&cluster).await;
        fill(&session, 40).await;
        let text = "SELECT at FROM app.events";
        let select = session.prepare(text).await.expect("prepared").page_size(PageSize::new(4));
        let mut pages = session.pages(&select, ());
        let mut nodes = Vec::new();
        while let Some(page) = pages.next().await.expect("a page") {
            nodes.push(page.coordinator().expect("a node").host_id);
        }
        assert!(10 <= nodes.len());
        nodes.dedup();
        assert_eq!(nodes.len(), 1, "a read without a key could go anywhere and stays");
    }

    #[test]
    async fn pages_are_a_stream_and_can_be_read_by_column<R: Runtime>() {
        let cluster = cluster(1);
        let session = session::<R>(&cluster).await;
        fill(&session, 25).await;
        let select = "SELECT at, what FROM app.events WHERE day = ?";
        let select = session.prepare(select).await.expect("prepared").page_size(PageSize::new(10));
        let mut pages = session.pages(&select, (1,));
        let (mut at, mut what) = (Vec::new(), 0);
        while let Some(page) = std::future::poll_fn(|cx| std::pin::Pin::new(&mut pages).poll_next(cx)).await {
            let page = page.expect("a page");
            let columns = page.by_column().expect("rows");
            at.extend(columns.named::<i32>("at").expect("ints").map(|value| value.expect("an int")));
            what += columns.at::<&str>(1).expect("texts").filter(|value| matches!(value, Ok("x"))).count();
        }
        assert_eq!((at, what), ((0..25).collect::<Vec<_>>(), 25));
    }
}
