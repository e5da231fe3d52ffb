//! Reading in order, by ranges and in pages.

use messina_core::wire::request::ParamsRef;
use messina_core::wire::result::{ResultBody, RowsBody};

use super::start_with;
use crate::node::CqlError;
use crate::node::testing::{Link, World, decode};

/// One page, with the state for the next one.
fn page(
    world: &mut World,
    link: &mut Link,
    text: &str,
    size: i32,
    state: Option<&[u8]>,
) -> RowsBody {
    let params = ParamsRef {
        page_size: Some(size),
        paging_state: state,
        ..ParamsRef::default()
    };
    match world.query_with(link, text, params) {
        Ok(ResultBody::Rows(body)) => body,
        other => panic!("{text}: {other:?}"),
    }
}

/// The sizes of all pages and the first columns of all rows.
fn pages(
    world: &mut World,
    link: &mut Link,
    text: &str,
    size: i32,
) -> (Vec<usize>, Vec<(i32, i32)>) {
    let (mut sizes, mut rows, mut state) = (Vec::new(), Vec::new(), None);
    loop {
        let body = page(world, link, text, size, state.as_deref());
        sizes.push(body.row_count);
        rows.extend(decode::<(i32, i32)>(&body));
        assert_eq!(
            body.metadata.more_pages,
            body.metadata.paging_state.is_some()
        );
        state = body.metadata.paging_state;
        if state.is_none() {
            return (sizes, rows);
        }
    }
}

#[test]
fn rows_come_in_clustering_order_and_ranges_select_from_them() {
    let (mut world, mut link) = start_with(
        "CREATE TABLE t (a int, b int, c int, v int, PRIMARY KEY (a, b, c)) WITH CLUSTERING ORDER BY (b DESC, c ASC)",
    );
    for b in 0..3 {
        for c in [2, 0, 1] {
            world.run(
                &mut link,
                &format!("INSERT INTO t (a, b, c, v) VALUES (1, {b}, {c}, 7)"),
            );
        }
    }
    let mut get = |clause: &str| -> Vec<(i32, i32)> {
        world.rows(
            &mut link,
            &format!("SELECT b, c FROM t WHERE a = 1 {clause}"),
        )
    };
    let all = [
        (2, 0),
        (2, 1),
        (2, 2),
        (1, 0),
        (1, 1),
        (1, 2),
        (0, 0),
        (0, 1),
        (0, 2),
    ];
    assert_eq!(get(""), all);
    assert_eq!(
        get("ORDER BY b ASC"),
        all.iter().rev().copied().collect::<Vec<_>>()
    );
    assert_eq!(get("AND b > 1"), all[..3]);
    assert_eq!(get("AND b >= 1 AND b < 2"), all[3..6]);
    assert_eq!(get("AND b <= 0"), all[6..]);
    assert_eq!(get("AND b = 1 AND c > 0"), all[4..6]);
    assert_eq!(get("AND b IN (0, 2) AND c = 1"), [(2, 1), (0, 1)]);
    assert_eq!(get("AND b = 1 AND c IN (2, 0)"), [(1, 0), (1, 2)]);
    assert_eq!(get("AND (b, c) = (1, 1)"), [(1, 1)]);
    assert_eq!(get("AND (b, c) > (1, 1)"), [(2, 0), (2, 1), (2, 2), (1, 2)]);
    assert_eq!(get("AND (b, c) IN ((0, 0), (2, 2))"), [(2, 2), (0, 0)]);
    assert_eq!(get("LIMIT 2"), all[..2]);
    assert_eq!(get("AND b > 5"), []);
}

#[test]
fn queries_that_would_filter_must_say_so() {
    let (mut world, mut link) = start_with(
        "CREATE TABLE t (a int, p int, b int, c int, v int, PRIMARY KEY ((a, p), b, c))",
    );
    world.run(
        &mut link,
        "INSERT INTO t (a, p, b, c, v) VALUES (1, 1, 1, 1, 5)",
    );
    for clause in [
        "v = 5",
        "a = 1",
        "b = 1",
        "a = 1 AND p = 1 AND c = 1",
        "a = 1 AND p = 1 AND v = 5",
    ] {
        let text = format!("SELECT v FROM t WHERE {clause}");
        let (code, message) = world.refusal(&mut link, &text);
        assert_eq!(code, CqlError::INVALID, "{clause}");
        assert!(message.ends_with("use ALLOW FILTERING"), "{message}");
        let rows: Vec<(i32,)> = world.rows(&mut link, &format!("{text} ALLOW FILTERING"));
        assert_eq!(rows, [(5,)], "{clause}");
    }
    world.run(&mut link, "CREATE INDEX ON t (v)");
    let rows: Vec<(i32,)> = world.rows(&mut link, "SELECT v FROM t WHERE v = 5");
    assert_eq!(rows, [(5,)]);
}

#[test]
fn pages_have_the_asked_size_and_the_last_one_says_so_exactly() {
    let (mut world, mut link) = start_with("CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))");
    for b in 0..10 {
        world.run(&mut link, &format!("INSERT INTO t (a, b) VALUES (1, {b})"));
    }
    let expected: Vec<(i32, i32)> = (0..10).map(|b| (1, b)).collect();
    for (size, sizes) in [
        (3, vec![3, 3, 3, 1]),
        (5, vec![5, 5]),
        (10, vec![10]),
        (11, vec![10]),
        (0, vec![10]),
        (-1, vec![10]),
    ] {
        let found = pages(&mut world, &mut link, "SELECT * FROM t WHERE a = 1", size);
        assert_eq!(found, (sizes, expected.clone()), "size {size}");
    }
    let backwards = pages(
        &mut world,
        &mut link,
        "SELECT * FROM t WHERE a = 1 ORDER BY b DESC",
        4,
    );
    assert_eq!(backwards.0, [4, 4, 2]);
    assert!(backwards.1.iter().rev().eq(&expected));
    let limited = pages(
        &mut world,
        &mut link,
        "SELECT * FROM t WHERE a = 1 LIMIT 4",
        3,
    );
    assert_eq!(limited, (vec![3, 1], expected[..4].to_vec()));
    let limited = pages(
        &mut world,
        &mut link,
        "SELECT * FROM t WHERE a = 1 LIMIT 6",
        3,
    );
    assert_eq!(limited.0, [3, 3]);
}

#[test]
fn full_scans_page_through_partitions_in_token_order() {
    let (mut world, mut link) = start_with("CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))");
    for a in 0..20 {
        for b in 0..3 {
            world.run(
                &mut link,
                &format!("INSERT INTO t (a, b) VALUES ({a}, {b})"),
            );
        }
    }
    let tokens: Vec<(i64,)> = world.rows(&mut link, "SELECT token(a) FROM t");
    assert!(tokens.is_sorted() && tokens.len() == 60);
    let (sizes, rows) = pages(&mut world, &mut link, "SELECT * FROM t", 7);
    assert_eq!(sizes.iter().sum::<usize>(), 60);
    assert_eq!(sizes.len(), 9);
    let whole = pages(&mut world, &mut link, "SELECT * FROM t", 100).1;
    assert_eq!(rows, whole);
    let per_partition = pages(
        &mut world,
        &mut link,
        "SELECT * FROM t PER PARTITION LIMIT 2",
        3,
    )
    .1;
    assert_eq!(per_partition.len(), 40);
    let many = pages(
        &mut world,
        &mut link,
        "SELECT * FROM t WHERE a IN (3, 1, 2)",
        4,
    );
    assert_eq!(many.0, [4, 4, 1]);
    // The tokens split the ring.
    let middle = tokens[30].0;
    let count = |world: &mut World, link: &mut Link, clause: &str| -> i64 {
        world.rows::<(i64,)>(link, &format!("SELECT count(*) FROM t WHERE {clause}"))[0].0
    };
    let below = count(&mut world, &mut link, &format!("token(a) <= {middle}"));
    let above = count(&mut world, &mut link, &format!("token(a) > {middle}"));
    assert_eq!(below + above, 60);
    assert_eq!(count(&mut world, &mut link, "token(a) = token(5)"), 3);
    let first: Vec<(i64,)> = world.rows(&mut link, "SELECT token(a) FROM t WHERE a = 0 LIMIT 1");
    assert_eq!(first, [(-3_485_513_579_396_041_028,)]);
}

#[test]
fn distinct_partitions_are_paged_without_repeating_any() {
    let (mut world, mut link) =
        start_with("CREATE TABLE t (a int, b int, s int STATIC, PRIMARY KEY (a, b))");
    for a in 0..7 {
        for b in 0..3 {
            world.run(
                &mut link,
                &format!("INSERT INTO t (a, b, s) VALUES ({a}, {b}, 0)"),
            );
        }
    }
    world.run(&mut link, "INSERT INTO t (a, s) VALUES (7, 0)");
    let (sizes, mut rows) = pages(&mut world, &mut link, "SELECT DISTINCT a, s FROM t", 3);
    rows.sort_unstable();
    let expected: Vec<(i32, i32)> = (0..8).map(|a| (a, 0)).collect();
    assert_eq!((sizes, rows), (vec![3, 3, 2], expected));
}

#[test]
fn a_page_is_cut_at_one_mebibyte() {
    let (mut world, mut link) =
        start_with("CREATE TABLE t (a int, b int, v text, PRIMARY KEY (a, b))");
    let big = "x".repeat(300 * 1024);
    for b in 0..8 {
        world.run(
            &mut link,
            &format!("INSERT INTO t (a, b, v) VALUES (1, {b}, '{big}')"),
        );
    }
    let first = page(&mut world, &mut link, "SELECT * FROM t", 100, None);
    assert_eq!(first.row_count, 4);
    assert!(first.metadata.more_pages);
    let rest = page(
        &mut world,
        &mut link,
        "SELECT * FROM t",
        100,
        first.metadata.paging_state.as_deref(),
    );
    assert_eq!((rest.row_count, rest.metadata.more_pages), (4, false));
    let unpaged = page(&mut world, &mut link, "SELECT * FROM t", 0, None);
    assert_eq!(unpaged.row_count, 8);
}

#[test]
fn a_read_without_pages_is_whole_up_to_a_hard_limit() {
    let (mut world, mut link) = start_with("CREATE TABLE t (a int PRIMARY KEY, v text)");
    let big = "x".repeat(35 * 1024 * 1024);
    for a in 0..2 {
        let text = format!("INSERT INTO t (a, v) VALUES ({a}, '{big}')");
        world.run(&mut link, &text);
    }
    let rows = |body: ResultBody| match body {
        ResultBody::Rows(body) => (body.row_count, body.metadata.more_pages),
        other => panic!("{other:?}"),
    };
    // Seventy times what a page may have.
    let found = world.query(&mut link, "SELECT v FROM t").unwrap();
    assert_eq!(rows(found), (2, false));
    let (code, text) = world.refusal(&mut link, "SELECT v, v AS w FROM t");
    assert_eq!(code, CqlError::SERVER);
    assert!(text.contains("exceeds hard limit of 104857600"), "{text}");
    let paged = page(&mut world, &mut link, "SELECT v, v AS w FROM t", 9, None);
    assert_eq!((paged.row_count, paged.metadata.more_pages), (1, true));
}

#[test]
fn order_by_over_several_partitions_puts_all_their_rows_into_one_order() {
    let (mut world, mut link) = start_with(
        "CREATE TABLE t (a int, b int, c int, PRIMARY KEY (a, b, c)) WITH CLUSTERING ORDER BY (b DESC, c ASC)",
    );
    for a in 1..4 {
        for b in 0..4 {
            let text = format!("INSERT INTO t (a, b, c) VALUES ({a}, {}, {b})", b * 10 + a);
            world.run(&mut link, &text);
        }
    }
    let mut get = |clause: &str| -> Vec<i32> {
        let text = format!("SELECT b FROM t WHERE a IN (3, 1, 2) {clause}");
        let rows: Vec<(i32,)> = world.rows(&mut link, &text);
        rows.into_iter().map(|(b,)| b).collect()
    };
    let ascending: Vec<i32> = (0..4)
        .flat_map(|b| (1..4).map(move |a| b * 10 + a))
        .collect();
    let descending: Vec<i32> = ascending.iter().rev().copied().collect();
    assert_eq!(get("ORDER BY b ASC"), ascending);
    assert_eq!(get("ORDER BY b DESC"), descending);
    assert_eq!(get("ORDER BY b ASC, c DESC LIMIT 5"), ascending[..5]);
    assert_eq!(get("AND b < 20 ORDER BY b DESC LIMIT 2"), descending[6..8]);
    assert_eq!(
        get("ORDER BY b ASC PER PARTITION LIMIT 1 LIMIT 2"),
        ascending[..2]
    );
    // Without ORDER BY, each partition keeps its rows together.
    assert_ne!(get(""), descending);
    let params = ParamsRef {
        page_size: Some(100),
        ..ParamsRef::default()
    };
    let text = "SELECT b FROM t WHERE a IN (1, 2) ORDER BY b ASC";
    let error = world.query_with(&mut link, text, params).unwrap_err();
    assert!(
        error
            .message
            .starts_with("Cannot page queries with both ORDER BY and a IN")
    );
    let text = "SELECT b FROM t WHERE a IN (1) ORDER BY b ASC";
    assert!(world.query_with(&mut link, text, params).is_ok());
}

#[test]
fn a_damaged_paging_state_is_refused() {
    let (mut world, mut link) = start_with("CREATE TABLE t (a int PRIMARY KEY)");
    for state in [&b""[..], b"nonsense"] {
        let params = ParamsRef {
            page_size: Some(1),
            paging_state: Some(state),
            ..ParamsRef::default()
        };
        let error = world
            .query_with(&mut link, "SELECT * FROM t", params)
            .unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (10, "Invalid value for the paging state")
        );
    }
}

#[test]
fn aggregates_see_all_rows_and_are_never_paged() {
    let (mut world, mut link) =
        start_with("CREATE TABLE t (a int, b int, v int, PRIMARY KEY (a, b))");
    for b in 0..10 {
        world.run(
            &mut link,
            &format!("INSERT INTO t (a, b, v) VALUES (1, {b}, {})", b * b),
        );
    }
    let body = page(
        &mut world,
        &mut link,
        "SELECT count(*), count(v), min(v), max(v), sum(v), avg(b) FROM t",
        3,
        None,
    );
    assert_eq!(
        decode::<(i64, i64, i32, i32, i32, i32)>(&body),
        [(10, 10, 0, 81, 285, 4)]
    );
    assert!(!body.metadata.more_pages);
    let columns = body.metadata.columns.unwrap();
    assert_eq!(&*columns[0].name, "count");
    assert_eq!(&*columns[2].name, "system.min(v)");
}
