//! Connects, creates a table, writes, reads, pages, and says what it did and which node answered.
//!
//! Without further ado it runs against a simulated cluster inside of this process. With `MESSINA_CONTACT_POINTS` set,
//! to `host:port` or several of them with commas in between, it runs against a real one and removes what it made.

use std::error::Error;

use messina_testkit::SimulatedCluster;
use messina_tokio::{FromRow, PageSize, Session};

#[derive(FromRow)]
struct Reading<'r> {
    hour: i32,
    celsius: f64,
    remark: Option<&'r str>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (contact_points, simulated) = contact_points()?;
    let session = Session::builder()
        .contact_points(&contact_points)
        .build()
        .await?;
    println!(
        "session {} is connected to {} hosts",
        session.id(),
        session.metrics().hosts_connected
    );

    let keyspace = format!("quickstart_{}", session.id().simple());
    let keyspace = &keyspace[..32];
    let datacenter = session
        .cluster()
        .local_datacenter
        .clone()
        .ok_or("the cluster has no datacenter")?;
    let replication = format!("{{'class': 'NetworkTopologyStrategy', '{datacenter}': 1}}");
    session
        .execute(
            &format!("CREATE KEYSPACE {keyspace} WITH replication = {replication}"),
            (),
        )
        .await?;
    let columns =
        "station text, hour int, celsius double, remark text, PRIMARY KEY (station, hour)";
    session
        .execute(&format!("CREATE TABLE {keyspace}.readings ({columns})"), ())
        .await?;
    println!("created table {keyspace}.readings");

    let insert = format!(
        "INSERT INTO {keyspace}.readings (station, hour, celsius, remark) VALUES (?, ?, ?, ?)"
    );
    let insert = session.prepare(insert).await?;
    for hour in 0..24 {
        let remark = (hour == 12).then_some("noon");
        session
            .execute(
                &insert,
                ("north", hour, 11.5 + f64::from(hour) / 4.0, remark),
            )
            .await?;
    }
    println!("inserted 24 rows");

    let select = format!("SELECT hour, celsius, remark FROM {keyspace}.readings WHERE station = ?");
    let select = session.prepare(select).await?.page_size(PageSize::new(10));
    let mut pages = session.pages(&select, ("north",));
    while let Some(page) = pages.next().await? {
        let node = page.coordinator().ok_or("somebody has answered")?;
        println!(
            "{} rows from node {} at {}",
            page.row_count(),
            node.host_id,
            node.address
        );
        for reading in page.rows::<Reading<'_>>()? {
            let Reading {
                hour,
                celsius,
                remark,
            } = reading?;
            println!(
                "  {hour:02}:00 {celsius:5.2} °C {}",
                remark.unwrap_or_default()
            );
        }
    }

    session
        .execute(&format!("DROP KEYSPACE {keyspace}"), ())
        .await?;
    let cut = session.close(std::time::Duration::from_secs(5)).await;
    println!("dropped the keyspace and closed the session, {cut} requests cut off");
    drop(simulated);
    Ok(())
}

/// Names the cluster to connect to; starts a simulated one unless the environment names another.
fn contact_points() -> Result<(Vec<String>, Option<SimulatedCluster>), Box<dyn Error>> {
    if let Ok(given) = std::env::var("MESSINA_CONTACT_POINTS") {
        return Ok((
            given
                .split(',')
                .map(|point| point.trim().to_owned())
                .collect(),
            None,
        ));
    }
    let cluster = SimulatedCluster::builder().nodes(3).shards(2).start()?;
    Ok((cluster.contact_points(), Some(cluster)))
}
