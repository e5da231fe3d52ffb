//! What connections cost while nobody uses them: memory, and how often they wake the process.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use messina_core::conn::{Connection, ConnectionOutput, ConnectionPlan, Role};
use messina_core::wire::{Response, Supported};
use messina_testkit::SimulatedCluster;
use messina_testkit::peer::{Reply, ScriptedPeer};

use crate::alloc::Usage;
use crate::figure;
use crate::plane::{Answers, World};
use crate::requests::{connect, on_one_thread};

/// What a session with so many shards keeps on the heap, and how many connections it has.
fn kept_with(shards: u16) -> (u64, usize) {
    let cluster = SimulatedCluster::builder()
        .nodes(1)
        .shards(shards)
        .shard_aware_port(true)
        .start()
        .expect("loopback addresses");
    on_one_thread(async {
        let before = Usage::now();
        let session = connect(&cluster).await;
        // Whatever the last tasks of the start still have to do.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let kept = (Usage::now() - before).kept();
        (kept, session.metrics().connections)
    })
}

#[test]
fn an_idle_connection_holds_at_most_six_kilobytes() {
    let (few, less) = kept_with(8);
    let (many, more) = kept_with(136);
    assert_eq!((less, more), (8, 136));
    let each = (many - few) / 128;
    figure("bytes an idle connection", each);
    assert!(each <= 6 * 1024, "{each} bytes");
}

#[test]
fn a_thousand_idle_connections_wake_the_process_a_few_times_a_second() {
    let world = World::new(Answers::new(1_000, 1), 0);
    let plans = world.plans.iter().filter(|plan| plan.role == Role::Data);
    let mut crowd = Crowd::new(world.now, plans.cloned());
    assert_eq!(crowd.members.len(), 1_000);
    crowd.pass(Duration::from_secs(120));
    let (wakes, questions) = (crowd.wakes, crowd.questions);
    crowd.pass(Duration::from_secs(60));
    let (wakes, questions) = (crowd.wakes - wakes, crowd.questions - questions);
    // Each still asks every half a minute, and is answered.
    assert!(
        (1_800..=2_000).contains(&questions),
        "{questions} questions"
    );
    figure("wake-ups in a minute, 1,000 connections", wakes);
    assert!(wakes <= 10 * 60, "{wakes} wake-ups in a minute");
    assert!(crowd.members.iter().all(|member| member.conn.is_open()));
}

/// Connections that were opened one after the other, a timer for each as its task would arm it, and peers that answer a
/// millisecond later. Whatever happens at the same instant is one wake-up.
struct Crowd {
    now: Instant,
    members: Vec<Member>,
    wakes: u64,
    questions: u64,
}

struct Member {
    conn: Connection,
    peer: ScriptedPeer,
    armed: Option<Instant>,
    answered_at: Option<Instant>,
}

impl Crowd {
    fn new(start: Instant, plans: impl Iterator<Item = ConnectionPlan>) -> Self {
        let mut crowd = Self {
            now: start,
            members: Vec::new(),
            wakes: 0,
            questions: 0,
        };
        for plan in plans {
            crowd.now += Duration::from_micros(17_321);
            let supported = Response::Supported(Supported::default());
            let mut member = Member {
                conn: Connection::new(crowd.now, plan),
                peer: ScriptedPeer::new()
                    .handshake()
                    .otherwise(Reply::Answer(supported)),
                armed: None,
                answered_at: None,
            };
            while member.write(crowd.now) {
                member.read(crowd.now);
            }
            assert!(member.conn.is_open());
            member.arm();
            crowd.members.push(member);
        }
        crowd
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let due = |member: &Member| {
                let times = [member.armed, member.answered_at];
                times.into_iter().flatten().min()
            };
            let Some(next) = self.members.iter().filter_map(due).min() else {
                return;
            };
            if end < next {
                self.now = end;
                return;
            }
            self.now = next;
            self.wakes += 1;
            for member in &mut self.members {
                self.questions += u64::from(member.turn(next));
            }
        }
    }
}

impl Member {
    /// Does what is due; says whether it asked something.
    fn turn(&mut self, now: Instant) -> bool {
        if self.answered_at.is_some_and(|at| at <= now) {
            self.answered_at = None;
            self.read(now);
        }
        if self.armed.is_some_and(|at| at <= now) {
            self.armed = None;
            self.conn.handle_timeout(now);
        }
        let asked = self.write(now);
        if asked {
            self.answered_at = Some(now + Duration::from_millis(1));
        }
        self.arm();
        asked
    }

    fn arm(&mut self) {
        let at = self.conn.poll_timeout();
        if self
            .armed
            .is_none_or(|armed| at.is_some_and(|at| at < armed))
        {
            self.armed = at;
        }
    }

    fn write(&mut self, now: Instant) -> bool {
        let mut slices = [IoSlice::new(&[]); 4];
        let count = self.conn.poll_transmit(&mut slices);
        let bytes: Vec<u8> = slices[..count]
            .iter()
            .flat_map(|slice| slice.to_vec())
            .collect();
        self.conn.handle_transmitted(now, bytes.len());
        self.peer.receive(&bytes);
        !bytes.is_empty()
    }

    fn read(&mut self, now: Instant) {
        let bytes = self.peer.take();
        let window = self.conn.recv_buffer();
        window[..bytes.len()].copy_from_slice(&bytes);
        self.conn.handle_received(now, bytes.len());
        while let Some(output) = self.conn.poll_output() {
            assert!(matches!(output, ConnectionOutput::Ready(_)), "{output:?}");
        }
    }
}
