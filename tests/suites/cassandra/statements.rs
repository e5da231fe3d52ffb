//! What statements do: paging, batches, time to live, timestamps, big values, and the errors of the server.

use std::collections::BTreeSet;

use messina_tokio::types::Value;
use messina_tokio::{Batch, PageSize, RequestError, Session};

use super::in_each_mode;

#[tokio::test]
async fn ten_thousand_rows_come_page_by_page_each_once() {
    in_each_mode("paging", async |session| {
        session
            .execute(
                "CREATE TABLE t (pk int, ck int, v text, PRIMARY KEY (pk, ck))",
                (),
            )
            .await
            .unwrap();
        let insert = session
            .prepare("INSERT INTO t (pk, ck, v) VALUES (?, ?, ?)")
            .await
            .unwrap();
        for chunk in 0..100 {
            let batch = (0..100).fold(Batch::unlogged(), |batch, row| {
                let ck = chunk * 100 + row;
                batch.add(&insert, (chunk % 7, ck, format!("row {ck}")))
            });
            session.batch(&batch).await.unwrap();
        }

        let select = session.prepare("SELECT ck, v FROM t").await.unwrap();
        let mut pages = session.pages(&select, ());
        let mut seen = BTreeSet::new();
        let mut count = 0;
        while let Some(page) = pages.next().await.unwrap() {
            count += 1;
            for row in page.rows::<(i32, &str)>().unwrap() {
                let (ck, v) = row.unwrap();
                assert_eq!(v, format!("row {ck}"));
                assert!(seen.insert(ck), "row {ck} came twice");
            }
        }

        assert_eq!(seen.len(), 10_000);
        assert!(count >= 2, "10,000 rows came in {count} page");
    })
    .await;
}

#[tokio::test]
async fn a_page_size_and_a_paging_state_continue_where_another_request_ended() {
    in_each_mode("continue_paging", async |session| {
        session
            .execute("CREATE TABLE t (pk int, ck int, PRIMARY KEY (pk, ck))", ())
            .await
            .unwrap();
        let insert = session
            .prepare("INSERT INTO t (pk, ck) VALUES (1, ?)")
            .await
            .unwrap();
        for ck in 0..25 {
            session.execute(&insert, (ck,)).await.unwrap();
        }
        let select = session
            .prepare("SELECT ck FROM t WHERE pk = ?")
            .await
            .unwrap();

        let mut state = None;
        let mut sizes = Vec::new();
        for _ in 0..5 {
            let bound = select
                .bind((1,))
                .unwrap()
                .page_size(PageSize::new(10))
                .paging_state(state);
            let page = session.run(&bound).await.unwrap();
            sizes.push(page.row_count());
            state = page.paging_state().cloned();
            if state.is_none() {
                break;
            }
        }

        assert_eq!(sizes, [10, 10, 5]);
    })
    .await;
}

#[tokio::test]
async fn batches_apply_all_their_statements() {
    in_each_mode("batches", async |session| {
        session
            .execute("CREATE TABLE t (pk int PRIMARY KEY, v int)", ())
            .await
            .unwrap();
        session
            .execute("CREATE TABLE c (pk int PRIMARY KEY, n counter)", ())
            .await
            .unwrap();
        let insert = session
            .prepare("INSERT INTO t (pk, v) VALUES (?, ?)")
            .await
            .unwrap();
        let count = session
            .prepare("UPDATE c SET n = n + ? WHERE pk = ?")
            .await
            .unwrap();

        session
            .batch(&Batch::logged().add(&insert, (1, 10)).add(&insert, (2, 20)))
            .await
            .unwrap();
        session
            .batch(
                &Batch::unlogged()
                    .add(&insert, (3, 30))
                    .add("INSERT INTO t (pk, v) VALUES (4, 40)", ()),
            )
            .await
            .unwrap();
        session
            .batch(
                &Batch::counter()
                    .add(&count, (5_i64, 1))
                    .add(&count, (7_i64, 1)),
            )
            .await
            .unwrap();

        let mut rows: Vec<(i32, i32)> = all(&session, "SELECT pk, v FROM t").await;
        rows.sort_unstable();
        assert_eq!(rows, [(1, 10), (2, 20), (3, 30), (4, 40)]);
        assert_eq!(all::<(i64,)>(&session, "SELECT n FROM c").await, [(12,)]);
    })
    .await;
}

#[tokio::test]
async fn a_conditional_write_tells_whether_it_was_applied() {
    in_each_mode("conditional", async |session| {
        session
            .execute("CREATE TABLE t (pk int PRIMARY KEY, v int)", ())
            .await
            .unwrap();
        let insert = session
            .prepare("INSERT INTO t (pk, v) VALUES (?, ?) IF NOT EXISTS")
            .await
            .unwrap();

        let first = session.execute(&insert, (1, 10)).await.unwrap();
        let second = session.execute(&insert, (1, 20)).await.unwrap();

        assert!(first.applied().unwrap());
        assert!(!second.applied().unwrap());
        assert_eq!(all::<(i32,)>(&session, "SELECT v FROM t").await, [(10,)]);
    })
    .await;
}

#[tokio::test]
async fn time_to_live_and_timestamps_reach_the_server() {
    in_each_mode("times", async |session| {
        session
            .execute("CREATE TABLE t (pk int PRIMARY KEY, v int)", ())
            .await
            .unwrap();
        let insert = session
            .prepare("INSERT INTO t (pk, v) VALUES (?, ?) USING TTL ?")
            .await
            .unwrap();

        let newer = insert.bind((1, 10, 3600)).unwrap().timestamp(2_000_000);
        session.run(&newer).await.unwrap();
        let older = insert.bind((1, 99, 3600)).unwrap().timestamp(1_000_000);
        session.run(&older).await.unwrap();

        let rows: Vec<(i32, i64, i32)> =
            all(&session, "SELECT v, writetime(v), ttl(v) FROM t").await;
        let [(v, written, left)] = rows[..] else {
            panic!("{rows:?}")
        };
        assert_eq!((v, written), (10, 2_000_000), "the older write won");
        assert!((1..=3600).contains(&left), "{left} s left");
    })
    .await;
}

#[tokio::test]
async fn writes_of_one_session_get_growing_timestamps() {
    in_each_mode("growing_timestamps", async |session| {
        session
            .execute("CREATE TABLE t (pk int PRIMARY KEY, v int)", ())
            .await
            .unwrap();
        let insert = session
            .prepare("INSERT INTO t (pk, v) VALUES (?, 0)")
            .await
            .unwrap();

        for pk in 0..20 {
            session.execute(&insert, (pk,)).await.unwrap();
        }

        let mut rows: Vec<(i32, i64)> = all(&session, "SELECT pk, writetime(v) FROM t").await;
        rows.sort_unstable();
        assert_eq!(rows.len(), 20);
        assert!(
            rows.is_sorted_by(|earlier, later| earlier.1 < later.1),
            "{rows:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_value_of_eight_mebibytes_goes_and_comes() {
    in_each_mode("big", async |session| {
        session
            .execute("CREATE TABLE t (pk int PRIMARY KEY, v blob)", ())
            .await
            .unwrap();
        let insert = session
            .prepare("INSERT INTO t (pk, v) VALUES (?, ?)")
            .await
            .unwrap();
        let select = session
            .prepare("SELECT v FROM t WHERE pk = ?")
            .await
            .unwrap();
        let value: Vec<u8> = (0..8 * 1024 * 1024_u32)
            .map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0])
            .collect();

        session
            .execute(&insert, (1, value.as_slice()))
            .await
            .unwrap();
        let result = session.execute(&select, (1,)).await.unwrap();

        let (read,): (&[u8],) = result.one().unwrap();
        assert!(read == value, "the value came back changed");
    })
    .await;
}

#[tokio::test]
async fn a_syntax_error_is_the_servers_answer_with_its_code_and_the_session_goes_on() {
    in_each_mode("syntax", async |session| {
        let error = session
            .execute("SELEKT 1", ())
            .await
            .expect_err("this is no CQL");
        let prepared = session.prepare("SELEKT 2").await.expect_err("nor this");

        assert_eq!(server_code(&error), Some(0x2000), "{error:?}");
        assert_eq!(server_code(&prepared), Some(0x2000), "{prepared:?}");
        assert!(!error.is_retryable());
        assert_eq!(
            all::<(String,)>(&session, "SELECT key FROM system.local").await,
            [("local".to_owned(),)]
        );
    })
    .await;
}

#[tokio::test]
async fn a_missing_table_is_named_in_the_error() {
    in_each_mode("missing", async |session| {
        let error = session
            .execute("SELECT * FROM nowhere", ())
            .await
            .expect_err("there is no such table");

        assert_eq!(server_code(&error), Some(0x2200), "{error:?}");
        assert!(
            error.server_error().unwrap().message.contains("nowhere"),
            "{error:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_statement_that_the_server_forgot_is_prepared_again_unseen() {
    in_each_mode("forgotten", async |session| {
        let create = "CREATE TABLE t (pk int PRIMARY KEY, v int)";
        session.execute(create, ()).await.unwrap();
        let insert = session
            .prepare("INSERT INTO t (pk, v) VALUES (?, ?)")
            .await
            .unwrap();
        session.execute(&insert, (1, 10)).await.unwrap();

        // With its table the server drops every statement that was prepared for it.
        session.execute("DROP TABLE t", ()).await.unwrap();
        session.execute(create, ()).await.unwrap();
        session.execute(&insert, (2, 20)).await.unwrap();

        assert_eq!(
            all::<(i32, i32)>(&session, "SELECT pk, v FROM t").await,
            [(2, 20)]
        );
    })
    .await;
}

#[tokio::test]
async fn a_column_added_later_shows_up_in_a_statement_prepared_before() {
    in_each_mode("altered", async |session| {
        session
            .execute("CREATE TABLE t (pk int PRIMARY KEY, v int)", ())
            .await
            .unwrap();
        let select = session.prepare("SELECT * FROM t").await.unwrap();
        session
            .execute("INSERT INTO t (pk, v) VALUES (1, 10)", ())
            .await
            .unwrap();
        session.execute(&select, ()).await.unwrap();

        session
            .execute("ALTER TABLE t ADD a text", ())
            .await
            .unwrap();
        session
            .execute("UPDATE t SET a = 'new' WHERE pk = 1", ())
            .await
            .unwrap();
        let result = session.execute(&select, ()).await.unwrap();

        let names: Vec<&str> = result
            .columns()
            .iter()
            .map(|column| &*column.name)
            .collect();
        let (_, second, third): (i32, Value, Value) = result.one().unwrap();
        assert_eq!(names, ["pk", "a", "v"]);
        assert_eq!((second, third), (Value::Text("new".into()), Value::Int(10)));
    })
    .await;
}

#[tokio::test]
async fn a_traced_request_tells_its_tracing_id_and_a_warning_of_the_server_arrives() {
    in_each_mode("traced", async |session| {
        session
            .execute("CREATE TABLE t (pk int PRIMARY KEY, v text)", ())
            .await
            .unwrap();
        let insert = session
            .prepare("INSERT INTO t (pk, v) VALUES (?, ?)")
            .await
            .unwrap();
        let long = "x".repeat(3000);
        let batch = Batch::unlogged()
            .add(&insert, (1, long.as_str()))
            .add(&insert, (2, long.as_str()));

        let traced = session
            .run(&insert.bind((3, "y")).unwrap().tracing(true))
            .await
            .unwrap();
        let warned = session.batch(&batch).await.unwrap();

        assert!(traced.tracing_id().is_some());
        assert!(warned.tracing_id().is_none());
        assert!(
            warned
                .warnings()
                .iter()
                .any(|warning| warning.contains("Batch")),
            "{:?}",
            warned.warnings()
        );
    })
    .await;
}

/// All rows of a statement's first page.
async fn all<T>(session: &Session, text: &str) -> Vec<T>
where
    T: for<'r> messina_tokio::FromRow<'r>,
{
    let result = session.execute(text, ()).await.unwrap();
    result.rows::<T>().unwrap().map(Result::unwrap).collect()
}

fn server_code(error: &RequestError) -> Option<i32> {
    error.server_error().map(|error| error.code)
}
