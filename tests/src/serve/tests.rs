//! The served cluster on real loopback sockets.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

/// OPTIONS in version 4.
const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];

fn opcode_of_answer(stream: &mut TcpStream) -> u8 {
    stream.write_all(&OPTIONS).unwrap();
    let mut header = [0; 9];
    stream.read_exact(&mut header).unwrap();
    let len = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
    let mut body = vec![0; usize::try_from(len).unwrap()];
    stream.read_exact(&mut body).unwrap();
    header[4]
}

#[test]
fn every_node_answers_on_its_own_address_and_the_same_port() {
    let cluster = SimulatedCluster::builder()
        .nodes(3)
        .shards(2)
        .start()
        .unwrap();
    let points = cluster.contact_points();
    assert_eq!(points.len(), 3);
    assert_eq!(points[2], format!("127.0.0.3:{}", cluster.port()));
    for point in points {
        let mut stream = TcpStream::connect(point).unwrap();
        assert_eq!(opcode_of_answer(&mut stream), 6);
    }
    assert_ne!(cluster.host_id(0), cluster.host_id(1));
}

#[test]
fn a_stopped_node_refuses_connections_and_a_started_one_takes_them() {
    let cluster = SimulatedCluster::builder().nodes(2).start().unwrap();
    let mut open = TcpStream::connect(cluster.address(1)).unwrap();
    assert_eq!(opcode_of_answer(&mut open), 6);
    cluster.stop_node(1);
    assert_eq!(
        open.read(&mut [0; 1]).unwrap_or(0),
        0,
        "the connection ended"
    );
    assert!(TcpStream::connect(cluster.address(1)).is_err());
    cluster.start_node(1);
    let mut again = TcpStream::connect(cluster.address(1)).unwrap();
    assert_eq!(opcode_of_answer(&mut again), 6);
    assert_eq!(cluster.statistics(1).accepted, 2);
}

#[test]
fn a_new_node_listens_and_a_dropped_cluster_does_not() {
    let cluster = SimulatedCluster::builder()
        .shard_aware_port(true)
        .start()
        .unwrap();
    let node = cluster.add_node("dc2", "rack1").unwrap();
    assert_eq!(node, 1);
    let address = cluster.address(node);
    assert!(TcpStream::connect(address).is_ok());
    drop(cluster);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn impossible_clusters_are_refused() {
    let none = SimulatedCluster::builder().nodes(0).start();
    assert!(matches!(none, Err(StartError::Config(_))));
    let first = SimulatedCluster::builder().start().unwrap();
    let taken = SimulatedCluster::builder().port(first.port()).start();
    assert!(matches!(taken, Err(StartError::Listen { .. })));
}

#[test]
fn cql_can_be_run_without_a_connection() {
    let cluster = SimulatedCluster::builder().start().unwrap();
    let keyspace =
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    cluster.execute(keyspace).unwrap();
    assert_eq!(
        cluster.execute(keyspace).unwrap_err().code,
        CqlError::ALREADY_EXISTS
    );
}
