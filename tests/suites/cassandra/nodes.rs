//! The starter itself: nodes stop, start again, and end with their owner. Speaks raw frames, no driver.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use messina_testkit::cassandra::Cassandra;

use super::available;

#[test]
fn a_stopped_node_takes_no_clients_and_takes_them_again_on_its_data_after_a_start() {
    let started = Cassandra::builder().start();
    if available(started.as_ref()).is_none() {
        return;
    }
    let mut cassandra = started.unwrap();
    let address = cassandra.contact_points().swap_remove(0);
    let id = host_id(&cassandra);

    cassandra.stop_node(0).unwrap();
    let stopped = options(&address).is_some();
    cassandra.start_node(0).unwrap();
    let again = options(&address);

    assert!(!stopped, "a stopped node answered");
    assert_eq!(again, Some(SUPPORTED));
    assert_eq!(host_id(&cassandra), id, "the node came back as another one");
    assert!(cassandra.start_node(1).is_err(), "there is no second node");
}

#[test]
fn no_node_outlives_a_program_that_was_killed() {
    if available(Cassandra::unavailable().as_ref().map_or(Ok(()), Err)).is_none() {
        return;
    }
    let mut program = Command::new(env!("CARGO_BIN_EXE_real-cassandra"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(program.stdout.take().unwrap())
        .read_line(&mut address)
        .unwrap();
    let address = address.trim();
    let before = options(address);

    program.kill().unwrap();
    program.wait().unwrap();

    assert_eq!(before, Some(SUPPORTED));
    let until = Instant::now() + Duration::from_secs(20);
    while options(address).is_some() {
        assert!(Instant::now() < until, "the node still answers");
    }
}

/// The line in which a node's log tells its host id for the first time.
fn host_id(cassandra: &Cassandra) -> Vec<String> {
    let log = std::fs::read_to_string(cassandra.folder().join("node1.log")).unwrap();
    log.lines()
        .filter(|line| line.contains("No host ID found, created"))
        .map(str::to_owned)
        .collect()
}

/// Asks with an OPTIONS frame and gives the opcode of the answer, or `None` when nobody answers.
fn options(address: &str) -> Option<u8> {
    let mut socket = TcpStream::connect(address).ok()?;
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .ok()?;
    socket.write_all(&[4, 0, 0, 1, 5, 0, 0, 0, 0]).ok()?;
    let mut header = [0; 9];
    socket.read_exact(&mut header).ok()?;
    Some(header[4])
}

/// The opcode of the answer to OPTIONS.
const SUPPORTED: u8 = 6;
