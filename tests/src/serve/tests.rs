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

#[test]
fn the_statements_of_the_builder_are_run_in_their_order_before_anybody_can_connect() {
    let keyspace =
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    let table = "CREATE TABLE k.t (id int PRIMARY KEY)";
    let builder = SimulatedCluster::builder().cql([keyspace]).cql([table]);
    let cluster = builder.clone().start().unwrap();
    assert_eq!(
        cluster.execute(table).unwrap_err().code,
        CqlError::ALREADY_EXISTS
    );
    let error = builder.cql([String::from(table)]).start().unwrap_err();
    let StartError::Cql { cql, source } = &error else {
        panic!("{error:?}")
    };
    assert_eq!((&**cql, source.code), (table, CqlError::ALREADY_EXISTS));
    assert!(error.to_string().contains("k.t"), "{error}");
}

/// The header of a proxy that speaks for a client with this port.
fn proxy_header(port: u16) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c".to_vec();
    header.extend([192, 0, 2, 9, 127, 0, 0, 1]);
    header.extend(port.to_be_bytes());
    header.extend([0, 0]);
    header
}

/// The value of a key in the answer to OPTIONS.
fn supported(stream: &mut TcpStream, key: &str) -> String {
    stream.write_all(&OPTIONS).unwrap();
    let mut header = [0; 9];
    stream.read_exact(&mut header).unwrap();
    let mut body = vec![0; usize::from(header[7]) << 8 | usize::from(header[8])];
    stream.read_exact(&mut body).unwrap();
    // Key, a list of one, the value: each text has two bytes of length before it.
    let key = [
        &u16::try_from(key.len()).unwrap().to_be_bytes(),
        key.as_bytes(),
        &[0, 1],
    ]
    .concat();
    let at = body.windows(key.len()).position(|w| w == key).unwrap() + key.len();
    let len = usize::from(body[at + 1]);
    String::from_utf8(body[at + 2..at + 2 + len].to_vec()).unwrap()
}

#[test]
fn behind_a_proxy_the_port_that_it_tells_chooses_the_shard() {
    let cluster = SimulatedCluster::builder()
        .nodes(2)
        .shards(5)
        .shard_aware_port(true)
        .proxied_ports(true)
        .start()
        .unwrap();
    let ip = cluster.address(1).ip();
    let ports = [cluster.proxied_port(), cluster.proxied_shard_aware_port()].map(Option::unwrap);
    for (client, shard) in [(40_003, "3"), (40_001, "1")] {
        let mut stream = TcpStream::connect((ip, ports[1])).unwrap();
        // The header comes in two pieces, the second one with a request behind it.
        let header = proxy_header(client);
        stream.write_all(&header[..5]).unwrap();
        stream.write_all(&header[5..]).unwrap();
        assert_eq!(supported(&mut stream, "SCYLLA_SHARD"), shard);
    }
    // Where the node chooses, it fills its shards one after the other.
    let mut streams = Vec::new();
    for shard in ["0", "1"] {
        let mut stream = TcpStream::connect((ip, ports[0])).unwrap();
        stream
            .write_all(&[proxy_header(40_004), OPTIONS.to_vec()].concat())
            .unwrap();
        let mut header = [0; 9];
        stream.read_exact(&mut header).unwrap();
        let mut body = vec![0; usize::from(header[7]) << 8 | usize::from(header[8])];
        stream.read_exact(&mut body).unwrap();
        assert_eq!(supported(&mut stream, "SCYLLA_SHARD"), shard);
        streams.push(stream);
    }
    // Whoever begins otherwise is let go without a word.
    let mut stream = TcpStream::connect((ip, ports[0])).unwrap();
    stream.write_all(&OPTIONS).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
    assert_eq!(
        cluster.statistics(1).open,
        2,
        "only those that were introduced count"
    );
}
