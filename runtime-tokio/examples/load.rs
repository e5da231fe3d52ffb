//! Loads a million rows from one task through a pipeline, and says how fast it was.
//!
//!     cargo run --release -p messina-tokio --example load            # a million rows
//!     cargo run --release -p messina-tokio --example load 50000      # as many as said
//!
//! Without further ado it runs against a simulated cluster inside of this process. With `MESSINA_CONTACT_POINTS` set,
//! to `host:port` or several of them with commas in between, it runs against a real one and removes what it made.

use std::error::Error;
use std::time::Instant;

use messina_testkit::SimulatedCluster;
use messina_tokio::{Full, RequestError, Session};

const ROWS: i32 = 1_000_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let rows = match std::env::args().nth(1) {
        Some(rows) => rows.parse()?,
        None => ROWS,
    };
    let (contact_points, _simulated) = contact_points()?;
    let session = Session::builder()
        .contact_points(&contact_points)
        .build()
        .await?;
    let keyspace = format!("load_{}", session.id().simple());
    let keyspace = &keyspace[..32];
    let datacenter = session.cluster().local_datacenter.clone();
    let datacenter = datacenter.ok_or("the cluster has no datacenter")?;
    let replication = format!("{{'class': 'NetworkTopologyStrategy', '{datacenter}': 1}}");
    let create = format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}");
    session.execute(&create, ()).await?;
    let create = format!("CREATE TABLE {keyspace}.readings (id int PRIMARY KEY, celsius double)");
    session.execute(&create, ()).await?;

    let began = Instant::now();
    load(&session, keyspace, rows).await?;
    let took = began.elapsed();
    println!(
        "{rows} rows in {took:.1?}, {:.0} a second",
        f64::from(rows) / took.as_secs_f64()
    );

    session
        .execute(&format!("DROP KEYSPACE {keyspace}"), ())
        .await?;
    Ok(())
}

/// Writes the rows; the order in which they arrive does not matter to them.
async fn load(session: &Session, keyspace: &str, rows: i32) -> Result<(), RequestError> {
    let insert = format!("INSERT INTO {keyspace}.readings (id, celsius) VALUES (?, ?)");
    // The same row twice is the same row, so what may or may not have arrived is sent again.
    let insert = session.prepare(insert).await?.idempotent(true);
    let mut pipeline = session.pipeline(&insert);
    for id in 0..rows {
        let mut values = (id, f64::from(id % 400) / 10.0);
        while let Err(Full(back)) = pipeline.push(values) {
            values = back;
            if let Some(completion) = pipeline.completion().await {
                completion.result?;
            }
        }
    }
    while let Some(completion) = pipeline.completion().await {
        completion.result?;
    }
    Ok(())
}

/// Finds the cluster to talk to: a real one if it is named, else a simulated one that lives as long as its value.
fn contact_points() -> Result<(Vec<String>, Option<SimulatedCluster>), Box<dyn Error>> {
    match std::env::var("MESSINA_CONTACT_POINTS") {
        Ok(named) => Ok((named.split(',').map(str::to_owned).collect(), None)),
        Err(_) => {
            let cluster = SimulatedCluster::builder().nodes(3).shards(2).start()?;
            Ok((cluster.contact_points(), Some(cluster)))
        }
    }
}
