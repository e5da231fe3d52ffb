//! What the server tells beside rows: other columns from page to page, the row that a condition met, traces, warnings.

use messina_tokio::types::Value;
use messina_tokio::{Batch, Page, PageSize, Session};

use super::in_each_mode;

#[tokio::test]
async fn pages_follow_a_table_that_gains_loses_and_regains_a_column_between_them() {
    in_each_mode("alter_paging", async |session| {
        run(
            &session,
            "CREATE TABLE t (pk int, ck int, a text, PRIMARY KEY (pk, ck))",
        )
        .await;
        let insert = session
            .prepare("INSERT INTO t (pk, ck, a) VALUES (1, ?, 'old')")
            .await
            .unwrap();
        for ck in 0..40 {
            session.execute(&insert, (ck,)).await.unwrap();
        }
        let select = session.prepare("SELECT * FROM t").await.unwrap();
        let bound = select.bind(()).unwrap().page_size(PageSize::new(10));
        let mut pages = session.pages_of(bound);
        let old = Value::Text("old".into());

        let first = pages.next().await.unwrap().expect("forty rows");
        assert_eq!(columns(&first), ["pk int", "ck int", "a text"]);
        for (ck, row) in (0..).zip(first.rows::<(i32, i32, Value)>().unwrap()) {
            assert_eq!(row.unwrap(), (1, ck, old.clone()));
        }

        run(&session, "ALTER TABLE t ADD b int").await;
        let second = pages.next().await.unwrap().expect("thirty more");
        assert_eq!(columns(&second), ["pk int", "ck int", "a text", "b int"]);
        for (ck, row) in (10..).zip(second.rows::<(i32, i32, Value, Value)>().unwrap()) {
            assert_eq!(row.unwrap(), (1, ck, old.clone(), Value::Null));
        }

        run(&session, "ALTER TABLE t DROP a").await;
        let third = pages.next().await.unwrap().expect("twenty more");
        assert_eq!(columns(&third), ["pk int", "ck int", "b int"]);
        for (ck, row) in (20..).zip(third.rows::<(i32, i32, Value)>().unwrap()) {
            assert_eq!(row.unwrap(), (1, ck, Value::Null));
        }

        run(&session, "ALTER TABLE t ADD a blob").await;
        run(&session, "UPDATE t SET a = 0x07 WHERE pk = 1 AND ck = 35").await;
        let fourth = pages.next().await.unwrap().expect("ten more");
        assert_eq!(columns(&fourth), ["pk int", "ck int", "a blob", "b int"]);
        for (ck, row) in (30..).zip(fourth.rows::<(i32, i32, Value, Value)>().unwrap()) {
            let a = match ck {
                35 => Value::Blob(vec![7].into()),
                _ => Value::Null,
            };
            assert_eq!(row.unwrap(), (1, ck, a, Value::Null));
        }

        let counts = [&first, &second, &third, &fourth].map(|page| page.row_count());
        assert_eq!(counts, [10; 4]);
        // The server may find the end only when it looks beyond it.
        while let Some(rest) = pages.next().await.unwrap() {
            assert_eq!(rest.row_count(), 0);
        }
    })
    .await;
}

#[tokio::test]
async fn a_condition_that_does_not_hold_shows_the_row_it_met() {
    in_each_mode("met", async |session| {
        run(&session, "CREATE TABLE t (pk int PRIMARY KEY, v int)").await;
        let insert = session
            .prepare("INSERT INTO t (pk, v) VALUES (?, ?) IF NOT EXISTS")
            .await
            .unwrap();
        let update = session
            .prepare("UPDATE t SET v = ? WHERE pk = ? IF v = ?")
            .await
            .unwrap();

        let new = session.execute(&insert, (1, 10)).await.unwrap();
        let taken = session.execute(&insert, (1, 20)).await.unwrap();
        let missed = session.execute(&update, (30, 1, 99)).await.unwrap();
        let hit = session.execute(&update, (30, 1, 10)).await.unwrap();
        let absent = session
            .execute("DELETE FROM t WHERE pk = 2 IF EXISTS", ())
            .await
            .unwrap();

        let applied = [&new, &taken, &missed, &hit, &absent].map(|it| it.applied().unwrap());
        assert_eq!(applied, [true, false, false, true, false]);
        assert_eq!(new.previous::<(i32, i32)>().unwrap(), None);
        assert_eq!(taken.previous::<(i32, i32)>().unwrap(), Some((1, 10)));
        assert_eq!(missed.previous::<(i32,)>().unwrap(), Some((10,)));
        assert_eq!(hit.previous::<(i32,)>().unwrap(), None);
        assert_eq!(absent.previous::<(i32,)>().unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn the_trace_of_a_request_tells_what_it_was_and_its_steps_in_order() {
    in_each_mode("steps", async |session| {
        run(&session, "CREATE TABLE t (pk int PRIMARY KEY, v int)").await;
        let insert = session
            .prepare("INSERT INTO t (pk, v) VALUES (?, ?)")
            .await
            .unwrap();
        let bound = insert.bind((1, 10)).unwrap().tracing(true);
        let traced = session.run(&bound).await.unwrap();
        let id = traced.tracing_id().expect("it was asked for");
        let coordinator = traced.coordinator().expect("somebody answered").address;

        let mut trace = session.trace(id).await;
        // A busy machine may take longer to write a trace than one call waits for it.
        for _ in 0..10 {
            if trace.is_err() {
                trace = session.trace(id).await;
            }
        }
        let trace = trace.unwrap();

        assert_eq!(trace.id, id);
        assert_eq!(trace.coordinator, Some(coordinator.ip()));
        assert_eq!(trace.command.as_deref(), Some("QUERY"));
        assert!(!trace.duration.is_zero());
        assert!(!trace.events.is_empty(), "{trace:?}");
        let elapsed: Vec<_> = trace.events.iter().map(|it| it.source_elapsed).collect();
        assert!(elapsed.is_sorted(), "{trace:?}");
    })
    .await;
}

#[tokio::test]
async fn reads_that_cost_the_server_much_come_with_its_warnings() {
    in_each_mode("costly", async |session| {
        run(
            &session,
            "CREATE TABLE t (pk int, ck int, PRIMARY KEY (pk, ck))",
        )
        .await;
        let delete = session
            .prepare("DELETE FROM t WHERE pk = 1 AND ck = ?")
            .await
            .unwrap();
        // One more than the number that the server bears in silence.
        let deletes = (0..1001).fold(Batch::unlogged(), |batch, ck| batch.add(&delete, (ck,)));
        session.batch(&deletes).await.unwrap();

        let quiet = warnings(&session, "SELECT * FROM t WHERE pk = 2").await;
        let dead = warnings(&session, "SELECT * FROM t WHERE pk = 1").await;
        let whole = warnings(&session, "SELECT count(*) FROM t").await;

        assert_eq!(quiet, [""; 0]);
        assert!(dead.iter().any(|it| it.contains("tombstone")), "{dead:?}");
        assert!(
            whole.iter().any(|it| it.contains("without partition key")),
            "{whole:?}"
        );
    })
    .await;
}

async fn run(session: &Session, text: &str) {
    session.execute(text, ()).await.expect(text);
}

async fn warnings(session: &Session, text: &str) -> Vec<String> {
    let result = session.execute(text, ()).await.expect(text);
    result.warnings().to_vec()
}

/// The columns of a page, each with its type.
fn columns(page: &Page) -> Vec<String> {
    page.columns()
        .iter()
        .map(|column| format!("{} {}", column.name, column.ty))
        .collect()
}
