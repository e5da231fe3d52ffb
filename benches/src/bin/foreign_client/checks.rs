//! The checks in the order of their running: later ones use what earlier ones made.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::metadata::{CollectionType, ColumnKind, ColumnType, NativeType};
use scylla::errors::{DbError, ExecutionError, OperationType, RequestAttemptError};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::response::query_result::QueryRowsResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::Statement;
use scylla::statement::batch::{Batch, BatchType};
use scylla::value::{
    Counter, CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue,
    CqlVarint, Row,
};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{Outcome, PATIENCE, PAUSE, World, Writes, same, wait_until};

pub(super) async fn every_node_is_a_host_that_is_up(world: &World) -> Outcome {
    let all_up = || {
        let state = world.session.get_cluster_state();
        let nodes = state.get_nodes_info();
        nodes.len() == world.arguments.nodes && nodes.iter().all(|node| node.is_connected())
    };
    wait_until(all_up, "every node is connected").await?;
    let state = world.session.get_cluster_state();
    let ids: BTreeSet<Uuid> = state.get_nodes_info().iter().map(|n| n.host_id).collect();
    same("host ids", ids.len(), world.arguments.nodes)
}

pub(super) async fn every_node_has_a_connection_for_each_shard(world: &World) -> Outcome {
    let state = world.session.get_cluster_state();
    for node in state.get_nodes_info() {
        let sharder = node.sharder().ok_or("the client does not see shards")?;
        same("shards", sharder.nr_shards.get(), world.arguments.shards)?;
        let end = Instant::now() + PATIENCE;
        loop {
            let (shards, chosen) = shards_of_connections(world, node.host_id).await?;
            let all = shards.len() == usize::from(world.arguments.shards);
            // The first connection to a node comes over the port where the node chooses.
            if all && usize::from(world.arguments.shards) <= chosen + 1 {
                break;
            }
            if end < Instant::now() {
                return Err(
                    format!("connections on {shards:?}, {chosen} over the second port").into(),
                );
            }
            sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// The shards on which a node has a connection of this client, and on how many of them the source port says the same.
async fn shards_of_connections(
    world: &World,
    host_id: Uuid,
) -> Result<(BTreeSet<i32>, usize), Box<dyn Error + Send + Sync>> {
    let mut statement =
        Statement::new("SELECT address, port, shard_id, driver_name FROM system.clients");
    let node = NodeIdentifier::HostId(host_id);
    statement.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(node, None)));
    let result = world.session.query_unpaged(statement, ()).await?;
    let result = result.into_rows_result()?;
    let (mut shards, mut chosen) = (BTreeSet::new(), BTreeSet::new());
    for row in result.rows::<(IpAddr, i32, i32, Option<&str>)>()? {
        let (_, port, shard, name) = row?;
        if name != Some("ScyllaDB Rust Driver") {
            continue;
        }
        shards.insert(shard);
        if port % i32::from(world.arguments.shards) == shard {
            chosen.insert(shard);
        }
    }
    Ok((shards, chosen.len()))
}

pub(super) async fn a_keyspace_and_tables_are_made_and_read_back(world: &World) -> Outcome {
    let (keyspace, dc) = (&world.keyspace, &world.arguments.dc);
    let factor = world.arguments.nodes.min(3);
    world
        .run(&format!(
            "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy', '{dc}': {factor}}}"
        ))
        .await?;
    world.session.use_keyspace(keyspace, false).await?;
    for text in [
        "CREATE TYPE address (street text, zip int)",
        "CREATE TABLE kv (pk bigint PRIMARY KEY, v text, data blob)",
        "CREATE TABLE wide (pk int, ck int, v text, s text static, PRIMARY KEY (pk, ck)) WITH CLUSTERING ORDER BY (ck DESC)",
        "CREATE TABLE counts (pk int PRIMARY KEY, n counter)",
        "CREATE TABLE limited (pk int PRIMARY KEY, v int) WITH per_partition_rate_limit = {'max_writes_per_second': 1}",
        "CREATE TABLE everything (pk int PRIMARY KEY, a ascii, b bigint, c blob, d boolean, e decimal, f double,
            g float, h inet, i smallint, j text, k time, l timestamp, m timeuuid, n tinyint, o uuid, p varint, q date,
            r duration, s list<int>, t set<text>, u map<text, bigint>, v tuple<int, text>, w frozen<address>,
            x list<frozen<list<int>>>)",
    ] {
        world.run(text).await?;
    }
    world.session.refresh_metadata().await?;
    let state = world.session.get_cluster_state();
    let found = state.get_keyspace(keyspace).ok_or("no keyspace")?;
    let tables: BTreeSet<&str> = found.tables.keys().map(String::as_str).collect();
    let expected = BTreeSet::from(["counts", "everything", "kv", "limited", "wide"]);
    same("tables", tables, expected)?;
    let wide = found.tables.get("wide").ok_or("no table")?;
    same("partition key", &wide.partition_key[..], &["pk".to_owned()])?;
    same(
        "clustering key",
        &wide.clustering_key[..],
        &["ck".to_owned()],
    )?;
    let is_static = wide
        .columns
        .get("s")
        .is_some_and(|s| s.kind == ColumnKind::Static);
    same("a static column", is_static, true)?;
    let address = found.user_defined_types.get("address").ok_or("no type")?;
    let fields: Vec<&str> = address
        .field_types
        .iter()
        .map(|(name, _)| &**name)
        .collect();
    same("fields", fields, vec!["street", "zip"])?;
    let everything = found.tables.get("everything").ok_or("no table")?;
    same("columns", everything.columns.len(), 25)?;
    let list = |frozen, element| ColumnType::Collection {
        frozen,
        typ: CollectionType::List(Box::new(element)),
    };
    let lists = list(false, list(true, ColumnType::Native(NativeType::Int)));
    same(
        "a list of lists",
        everything.columns.get("x").map(|x| &x.typ),
        Some(&lists),
    )
}

pub(super) async fn every_type_survives_a_prepared_round_trip(world: &World) -> Outcome {
    let names: Vec<String> = ('a'..='x').map(String::from).collect();
    let names = names.join(", ");
    let markers = ", ?".repeat(24);
    let insert = format!("INSERT INTO everything (pk, {names}) VALUES (?{markers})");
    let insert = world.session.prepare(insert).await?;
    let select = format!("SELECT {names} FROM everything WHERE pk = ?");
    let select = world.session.prepare(select).await?;
    let values = one_of_each_type(&world.keyspace)?;
    for (key, cells) in [(1, values), (2, vec![None; 24])] {
        let mut row = vec![Some(CqlValue::Int(key))];
        row.extend(cells.clone());
        world.session.execute_unpaged(&insert, row).await?;
        let result = world.session.execute_unpaged(&select, (key,)).await?;
        let read: Row = result.into_rows_result()?.single_row()?;
        for (at, (wrote, read)) in cells.iter().zip(&read.columns).enumerate() {
            same(&format!("column {at} of row {key}"), read, wrote)?;
        }
        same("columns", read.columns.len(), cells.len())?;
    }
    Ok(())
}

/// What goes into the columns `a` to `x`. Sets and maps stand in the order of the server.
fn one_of_each_type(keyspace: &str) -> Result<Vec<Option<CqlValue>>, Box<dyn Error + Send + Sync>> {
    let int = |n| CqlValue::Int(n);
    let text = |text: &str| CqlValue::Text(text.to_owned());
    let time_uuid: CqlTimeuuid = "50554d6e-29bb-11e5-b345-feff819cdc9f".parse()?;
    let mut huge = vec![0xf0];
    huge.extend([0; 12]);
    let decimal = CqlDecimal::from_signed_be_bytes_and_exponent(vec![0xed, 0x29, 0xbc], 4);
    let duration = CqlDuration {
        months: 14,
        days: 3,
        nanoseconds: 5_000_000_001,
    };
    let address = CqlValue::UserDefinedType {
        keyspace: keyspace.to_owned(),
        name: "address".to_owned(),
        fields: vec![
            ("street".to_owned(), Some(text("Main St"))),
            ("zip".to_owned(), Some(int(12345))),
        ],
    };
    let values = [
        CqlValue::Ascii("ascii".to_owned()),
        CqlValue::BigInt(i64::MIN),
        CqlValue::Blob(b"\x00\xff".repeat(40)),
        CqlValue::Boolean(true),
        CqlValue::Decimal(decimal),
        CqlValue::Double(1.5e300),
        CqlValue::Float(0.25),
        CqlValue::Inet("2001:db8::1".parse()?),
        CqlValue::SmallInt(i16::MIN),
        text("téxt \u{1f980}"),
        CqlValue::Time(CqlTime(86_399_999_999_999)),
        CqlValue::Timestamp(CqlTimestamp(-1001)),
        CqlValue::Timeuuid(time_uuid),
        CqlValue::TinyInt(i8::MIN),
        CqlValue::Uuid(Uuid::new_v4()),
        CqlValue::Varint(CqlVarint::from_signed_bytes_be(huge)),
        CqlValue::Date(CqlDate((1 << 31) - 1)),
        CqlValue::Duration(duration),
        CqlValue::List(vec![int(3), int(1), int(2)]),
        CqlValue::Set(vec![text("a"), text("b")]),
        CqlValue::Map(vec![
            (text("x"), CqlValue::BigInt(1)),
            (text("y"), CqlValue::BigInt(-1)),
        ]),
        CqlValue::Tuple(vec![Some(int(7)), None]),
        address,
        CqlValue::List(vec![
            CqlValue::List(vec![int(1)]),
            CqlValue::List(vec![int(2), int(3)]),
        ]),
    ];
    Ok(values.into_iter().map(Some).collect())
}

pub(super) async fn a_partition_is_read_in_pages_in_clustering_order(world: &World) -> Outcome {
    let insert = world
        .session
        .prepare("INSERT INTO wide (pk, ck, v) VALUES (1, ?, ?)")
        .await?;
    let insert = Arc::new(insert);
    let mut writes = Writes::new();
    for ck in 0..1000 {
        let (session, insert) = (world.session.clone(), insert.clone());
        let write = async move {
            session
                .execute_unpaged(&insert, (ck, format!("v{ck}")))
                .await
        };
        writes.start(50, write).await?;
    }
    writes.finish().await?;
    let statement = Statement::new("SELECT ck FROM wide WHERE pk = 1").with_page_size(77);
    let found = pages(world, statement).await?;
    same("pages", found.len(), 13)?;
    let rows: Vec<i32> = found.concat();
    same("rows", rows, (0..1000).rev().collect())?;
    let few = "SELECT ck FROM wide WHERE pk = 1 AND ck >= 10 AND ck < 20 ORDER BY ck ASC LIMIT 5";
    same(
        "a range",
        ints(&world.rows(few).await?)?,
        vec![10, 11, 12, 13, 14],
    )?;
    let several = "SELECT ck FROM wide WHERE pk = 1 AND ck IN (3, 1, 2000)";
    same("several", ints(&world.rows(several).await?)?, vec![3, 1])
}

/// All pages of a statement that gives one column of integers.
async fn pages(
    world: &World,
    statement: Statement,
) -> Result<Vec<Vec<i32>>, Box<dyn Error + Send + Sync>> {
    let (mut found, mut state) = (Vec::new(), PagingState::start());
    loop {
        let page = world
            .session
            .query_single_page(statement.clone(), (), state);
        let (page, next) = page.await?;
        found.push(ints(&page.into_rows_result()?)?);
        state = match next {
            PagingStateResponse::HasMorePages { state } => state,
            PagingStateResponse::NoMorePages => return Ok(found),
        };
    }
}

fn ints(result: &QueryRowsResult) -> Result<Vec<i32>, Box<dyn Error + Send + Sync>> {
    let mut found = Vec::new();
    for row in result.rows::<(i32,)>()? {
        found.push(row?.0);
    }
    Ok(found)
}

pub(super) async fn two_thousand_concurrent_writes_are_all_found_by_a_paged_scan(
    world: &World,
) -> Outcome {
    let insert = world
        .session
        .prepare("INSERT INTO kv (pk, v, data) VALUES (?, ?, ?)")
        .await?;
    let insert = Arc::new(insert);
    let mut writes = Writes::new();
    for key in 0..2000_i64 {
        let (session, insert) = (world.session.clone(), insert.clone());
        let write = async move {
            let data = vec![b'x'; usize::try_from(key % 50).unwrap_or(0)];
            let values = (key, format!("row {key}"), data);
            session.execute_unpaged(&insert, values).await
        };
        writes.start(2000, write).await?;
    }
    writes.finish().await?;
    let statement = Statement::new("SELECT pk FROM kv").with_page_size(300);
    let (mut keys, mut state) = (Vec::new(), PagingState::start());
    loop {
        let page = world
            .session
            .query_single_page(statement.clone(), (), state);
        let (page, next) = page.await?;
        for row in page.into_rows_result()?.rows::<(i64,)>()? {
            keys.push(row?.0);
        }
        state = match next {
            PagingStateResponse::HasMorePages { state } => state,
            PagingStateResponse::NoMorePages => break,
        };
    }
    keys.sort_unstable();
    same("keys", keys, (0..2000).collect())?;
    same(
        "the count",
        world.count("SELECT COUNT(*) FROM kv").await?,
        2000,
    )
}

pub(super) async fn batches_apply_as_a_whole(world: &World) -> Outcome {
    let insert = world
        .session
        .prepare("INSERT INTO kv (pk, v) VALUES (?, ?)")
        .await?;
    let mut batch = Batch::new(BatchType::Logged);
    batch.append_statement(insert);
    batch.append_statement("INSERT INTO kv (pk, v) VALUES (10002, 'b')");
    world.session.batch(&batch, ((10001_i64, "a"), ())).await?;
    let found = world.rows("SELECT v FROM kv WHERE pk = 10001").await?;
    same("the first", found.single_row::<(&str,)>()?.0, "a")?;
    let found = world.rows("SELECT v FROM kv WHERE pk = 10002").await?;
    same("the second", found.single_row::<(&str,)>()?.0, "b")?;
    let add = world
        .session
        .prepare("UPDATE counts SET n = n + ? WHERE pk = ?")
        .await?;
    let mut counters = Batch::new(BatchType::Counter);
    counters.append_statement(add.clone());
    counters.append_statement(add);
    let values = ((Counter(5), 1), (Counter(-2), 1));
    world.session.batch(&counters, values).await?;
    let found = world.rows("SELECT n FROM counts WHERE pk = 1").await?;
    same(
        "the counter",
        found.single_row::<(Counter,)>()?.0,
        Counter(3),
    )
}

pub(super) async fn conditional_statements_tell_whether_they_were_applied(
    world: &World,
) -> Outcome {
    let first = "INSERT INTO kv (pk, v) VALUES (20000, 'first') IF NOT EXISTS";
    same("the first", applied(&world.rows(first).await?)?.0, true)?;
    let second = "INSERT INTO kv (pk, v) VALUES (20000, 'second') IF NOT EXISTS";
    let (was_applied, there) = applied(&world.rows(second).await?)?;
    same("the second", was_applied, false)?;
    let text = |text: &str| Some(CqlValue::Text(text.to_owned()));
    same("what was there", there.get("v"), Some(&text("first")))?;
    let update = world
        .session
        .prepare("UPDATE kv SET v = ? WHERE pk = ? IF v = ?")
        .await?;
    same(
        "the mark of a conditional statement",
        update.is_confirmed_lwt(),
        true,
    )?;
    for (old, expected) in [("wrong", false), ("first", true)] {
        let values = ("third", 20000_i64, old);
        let result = world.session.execute_unpaged(&update, values).await?;
        same(old, applied(&result.into_rows_result()?)?.0, expected)?;
    }
    let found = world.rows("SELECT v FROM kv WHERE pk = 20000").await?;
    same("the value", found.single_row::<(&str,)>()?.0, "third")
}

type Columns = BTreeMap<String, Option<CqlValue>>;

/// Whether a conditional statement was applied, and the columns of its row by name.
fn applied(result: &QueryRowsResult) -> Result<(bool, Columns), Box<dyn Error + Send + Sync>> {
    let names = result
        .column_specs()
        .iter()
        .map(|spec| spec.name().to_owned());
    let row: Row = result.single_row()?;
    let columns: BTreeMap<_, _> = names.zip(row.columns).collect();
    match columns.get("[applied]") {
        Some(Some(CqlValue::Boolean(applied))) => Ok((*applied, columns)),
        other => Err(format!("[applied] is {other:?}").into()),
    }
}

pub(super) async fn timestamps_and_time_to_live_are_kept(world: &World) -> Outcome {
    for text in [
        "INSERT INTO kv (pk, v) VALUES (30000, 'new') USING TIMESTAMP 2000 AND TTL 3600",
        "INSERT INTO kv (pk, v) VALUES (30000, 'old') USING TIMESTAMP 1000",
    ] {
        world.run(text).await?;
    }
    let text = "SELECT v, WRITETIME(v), TTL(v) FROM kv WHERE pk = 30000";
    let found = world.rows(text).await?;
    let (v, written_at, left) = found.single_row::<(&str, i64, i32)>()?;
    same("value and time", (v, written_at), ("new", 2000))?;
    same("what is left", 3500 < left && left <= 3600, true)
}

pub(super) async fn a_prepared_select_of_all_columns_follows_an_alter(world: &World) -> Outcome {
    let mut select = world
        .session
        .prepare("SELECT * FROM kv WHERE pk = ?")
        .await?;
    select.set_use_cached_result_metadata(true);
    let mut names = Vec::new();
    for change in [
        None,
        Some("ALTER TABLE kv ADD extra int"),
        Some("UPDATE kv SET extra = 7 WHERE pk = 1"),
    ] {
        if let Some(text) = change {
            world.run(text).await?;
        }
        let result = world.session.execute_unpaged(&select, (1_i64,)).await?;
        let result = result.into_rows_result()?;
        names = result
            .column_specs()
            .iter()
            .map(|spec| spec.name().to_owned())
            .collect();
        if change.is_none() {
            same(
                "columns before",
                &names[..],
                &["pk", "data", "v"].map(str::to_owned),
            )?;
        } else {
            let row: Row = result.single_row()?;
            same(
                "the last column",
                row.columns.get(3),
                Some(&Some(CqlValue::Text("row 1".to_owned()))),
            )?;
        }
    }
    same(
        "columns after",
        &names[..],
        &["pk", "data", "extra", "v"].map(str::to_owned),
    )
}

pub(super) async fn errors_arrive_with_their_types(world: &World) -> Outcome {
    let keyspace = &world.keyspace;
    for (text, expected) in [
        ("SELEC nothing".to_owned(), DbError::SyntaxError),
        ("SELECT * FROM no_such_table".to_owned(), DbError::Invalid),
        ("SELECT no_such_column FROM kv".to_owned(), DbError::Invalid),
        (
            "SELECT v FROM kv WHERE pk = 1 USING TIMEOUT 1ns".to_owned(),
            DbError::Invalid,
        ),
        ("DROP TABLE system.local".to_owned(), DbError::Unauthorized),
        (
            "CREATE TABLE kv (pk int PRIMARY KEY)".to_owned(),
            DbError::AlreadyExists {
                keyspace: keyspace.clone(),
                table: "kv".to_owned(),
            },
        ),
        (
            format!(
                "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
            ),
            DbError::AlreadyExists {
                keyspace: keyspace.clone(),
                table: String::new(),
            },
        ),
    ] {
        let result = world.session.query_unpaged(text.as_str(), ()).await;
        same(
            &text,
            result.err().as_ref().and_then(database_error),
            Some(&expected),
        )?;
    }
    Ok(())
}

fn database_error(error: &ExecutionError) -> Option<&DbError> {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => Some(error),
        _ => None,
    }
}

pub(super) async fn a_partition_that_is_written_too_often_is_refused_by_name(
    world: &World,
) -> Outcome {
    // Far more writes than seconds can pass.
    for count in 0..1000 {
        let text = format!("INSERT INTO limited (pk, v) VALUES (1, {count})");
        let Err(error) = world.session.query_unpaged(text, ()).await else {
            continue;
        };
        return match database_error(&error) {
            Some(DbError::RateLimitReached { op_type, .. }) => {
                same("the operation", op_type, &OperationType::Write)
            }
            _ => Err(error.into()),
        };
    }
    Err("no write was refused".into())
}

pub(super) async fn a_traced_request_is_found_by_its_id(world: &World) -> Outcome {
    let mut statement = Statement::new("SELECT v FROM kv WHERE pk = 1");
    statement.set_tracing(true);
    let result = world.session.query_unpaged(statement, ()).await?;
    let id = result.tracing_id().ok_or("no id")?;
    let trace = world.session.get_tracing_info(&id).await?;
    same("the command", trace.command.as_deref(), Some("QUERY"))?;
    same("events", trace.events.is_empty(), false)
}

pub(super) async fn a_second_session_notices_a_schema_change(world: &World) -> Outcome {
    // This client acts on schema events when it refreshes.
    let other = SessionBuilder::new()
        .known_nodes(&world.arguments.contact_points)
        .cluster_metadata_refresh_interval(Duration::from_millis(200))
        .build()
        .await?;
    let noticed = || {
        let state = other.get_cluster_state();
        let keyspace = state.get_keyspace(&world.keyspace);
        keyspace.is_some_and(|keyspace| keyspace.tables.contains_key("noticed"))
    };
    world
        .run("CREATE TABLE noticed (pk int PRIMARY KEY)")
        .await?;
    wait_until(noticed, "the table in the other session").await?;
    world.run("DROP TABLE noticed").await?;
    wait_until(|| !noticed(), "its end in the other session").await
}

pub(super) async fn a_truncated_table_is_empty_and_a_dropped_keyspace_is_gone(
    world: &World,
) -> Outcome {
    world.run("TRUNCATE kv").await?;
    same(
        "the count",
        world.count("SELECT COUNT(*) FROM kv").await?,
        0,
    )?;
    world
        .run(&format!("DROP KEYSPACE {}", world.keyspace))
        .await?;
    world.session.refresh_metadata().await?;
    let state = world.session.get_cluster_state();
    let keyspaces: HashMap<&str, _> = state.keyspaces_iter().collect();
    same(
        "the keyspace",
        keyspaces.contains_key(world.keyspace.as_str()),
        false,
    )
}
