//! What machines allocate once they are warm, counted per thread.

#![allow(unsafe_code)] // A counting allocator cannot be written without.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::io::IoSlice;
use std::time::Duration;

use bytes::Bytes;
use messina_core::conn::{ConnectionOutput, ConnectionPlan, Ticket};
use messina_core::wire::segment::SegmentCodec;
use messina_core::wire::{
    Consistency, ParamsRef, ProtocolFeatures, ProtocolVersion, RequestOptionsRef, RequestRef,
    ValuesRef,
};
use messina_testkit::peer::ScriptedPeer;

use crate::connection::{Cable, STEPS_MAX, plan};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count_one() {
    // During the end of a thread there is nothing to count any more.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_one();
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_one();
        unsafe { System.realloc(place, layout, size) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    work();
    COUNT.with(Cell::get) - before
}

/// A warm connection that is asked and answered in batches.
struct Loop {
    cable: Cable,
    answers: Vec<u8>,
    batch: u64,
}

impl Loop {
    fn new(batch: u64, body: &[u8]) -> Self {
        let mut cable = Cable::new(plan(|_| ()), ScriptedPeer::new().handshake());
        cable.settle();
        assert!(cable.conn.is_open());
        let mut answers = Vec::new();
        for stream in 1..=i16::try_from(batch).unwrap() {
            answers.extend([0x84, 0]);
            answers.extend(stream.to_be_bytes());
            answers.push(0x08);
            answers.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
            answers.extend(body);
        }
        Self {
            cable,
            answers,
            batch,
        }
    }

    /// The same with a connection of protocol version 5, all answers of a batch in one segment.
    fn in_segments(batch: u64, body: &[u8]) -> Self {
        let version = ProtocolVersion::V5;
        let features = ProtocolFeatures {
            version,
            ..ProtocolFeatures::default()
        };
        let peer = ScriptedPeer::new().features(features).handshake();
        let plan = ConnectionPlan {
            version,
            ..plan(|_| ())
        };
        let mut cable = Cable::new(plan, peer);
        cable.settle();
        assert!(cable.conn.is_open());
        let plain = Self::new(batch, body).answers;
        let mut frames = plain.clone();
        let len = plain.len() / usize::try_from(batch).unwrap();
        frames.iter_mut().step_by(len).for_each(|byte| *byte = 0x85);
        let mut answers = Vec::new();
        let mut codec = SegmentCodec::new(None).unwrap();
        codec.seal(&frames, &mut answers);
        Self {
            cable,
            answers,
            batch,
        }
    }

    /// Does one batch; the replies are dropped, as a caller does that is done with them.
    fn turn(&mut self) {
        let Cable { conn, now, .. } = &mut self.cable;
        *now += Duration::from_micros(700);
        for ticket in 0..self.batch {
            let values = ValuesRef {
                count: 1,
                bytes: &[0, 0, 0, 4, 1, 2, 3, 4],
                ..ValuesRef::default()
            };
            let params = ParamsRef {
                consistency: Consistency::LocalQuorum,
                values,
                ..ParamsRef::default()
            };
            let request = RequestRef::Execute {
                id: &[7; 16],
                result_metadata_id: None,
                tablet_block: 0,
                params,
            };
            let deadline = Some(*now + Duration::from_secs(30));
            conn.submit(
                *now,
                Ticket(ticket),
                request,
                &RequestOptionsRef::default(),
                deadline,
            )
            .expect("an open connection takes requests");
        }
        for writes in 0.. {
            assert!(writes < STEPS_MAX, "the connection writes without end");
            let mut slices = [IoSlice::new(&[]); 4];
            let count = conn.poll_transmit(&mut slices);
            if count == 0 {
                break;
            }
            let len = slices[..count].iter().map(|slice| slice.len()).sum();
            conn.handle_transmitted(*now, len);
        }
        let mut rest = &self.answers[..];
        while !rest.is_empty() {
            let window = conn.recv_buffer();
            let len = window.len().min(rest.len());
            assert!(
                0 < len,
                "the connection reads no more: {:?}",
                conn.poll_output()
            );
            window[..len].copy_from_slice(&rest[..len]);
            conn.handle_received(*now, len);
            rest = &rest[len..];
        }
        let mut replies = 0;
        while let Some(output) = conn.poll_output() {
            let ConnectionOutput::Reply {
                reply: Ok(frame), ..
            } = output
            else {
                panic!("{output:?}")
            };
            black_box::<Bytes>(frame.body);
            replies += 1;
        }
        assert_eq!(replies, self.batch);
        black_box(conn.poll_timeout());
    }

    fn steady(&mut self, turns: u32) -> u64 {
        (0..500).for_each(|_| self.turn());
        allocations(|| (0..turns).for_each(|_| self.turn()))
    }
}

#[test]
fn a_warm_connection_writes_without_allocating() {
    assert_eq!(Loop::new(64, &[0, 0, 0, 1]).steady(2_000), 0);
    assert_eq!(Loop::new(1, &[0, 0, 0, 1]).steady(2_000), 0);
}

#[test]
fn a_warm_connection_reads_small_answers_without_allocating() {
    assert_eq!(Loop::new(64, &[2; 100]).steady(2_000), 0);
    assert_eq!(Loop::new(1, &[2; 100]).steady(2_000), 0);
    assert_eq!(Loop::new(8, &[2; 9_000]).steady(500), 0);
}

#[test]
fn a_warm_connection_of_version_5_writes_and_reads_without_allocating() {
    assert_eq!(Loop::in_segments(64, &[0, 0, 0, 1]).steady(2_000), 0);
    assert_eq!(Loop::in_segments(64, &[2; 100]).steady(2_000), 0);
    assert_eq!(Loop::in_segments(1, &[2; 100]).steady(2_000), 0);
}

#[test]
fn a_warm_connection_reads_large_answers_into_the_same_memory() {
    // The handle that makes a body of the chunk is the one allocation of such an answer.
    let turns = 100;
    assert!(Loop::new(1, &[2; 1_000_000]).steady(turns) <= 2 * u64::from(turns));
}

#[test]
fn an_idle_connection_holds_little_memory() {
    let size = size_of::<messina_core::conn::Connection>();
    assert!(size <= 1_024, "{size} bytes in place");
}
