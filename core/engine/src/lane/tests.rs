use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Wake;

use bytes::Bytes;
use messina_core::conn::Address;
use messina_core::wire::{
    CHAIN_MIN, FrameHeader, FrameSink, RequestOptionsRef, RequestRef, ResponseFrame,
};

use super::*;
use messina_core::seed::Seed;

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Comes back to the lane when it is woken and when it is dropped, as a waker does that owns a task with a request.
struct ComesBack {
    lane: Arc<Lane>,
    own: Mutex<Option<Ticket>>,
}

impl ComesBack {
    fn call(&self) {
        let own = self.own.lock().expect("no panic so far").take();
        if let Some(ticket) = own {
            self.lane.abandon(ticket);
        }
        assert!(self.lane.in_flight() < 10);
    }
}

impl Wake for ComesBack {
    fn wake(self: Arc<Self>) {
        self.call();
    }
}

impl Drop for ComesBack {
    fn drop(&mut self) {
        self.call();
    }
}

fn lane(max: u32) -> Arc<Lane> {
    let address: SocketAddr = ([127, 0, 0, 1], 9042).into();
    let info = ConnectionInfo {
        address: Address::from(address),
        features: ProtocolFeatures::default(),
        shard: None,
        host_id: None,
    };
    Arc::new(Lane::new(info, max, max))
}

/// Writes a frame of a query with this text.
fn query(
    text: &str,
) -> impl FnOnce(&mut Arena, &ProtocolFeatures) -> Result<Opcode, FrameEncodeError> {
    let text = text.to_owned();
    move |arena, features| {
        let request = RequestRef::Prepare {
            text: &text,
            keyspace: None,
        };
        request.encode(arena, features, 0, &RequestOptionsRef::default())?;
        Ok(request.opcode())
    }
}

fn submit(lane: &Lane, text: &str, waker: &Waker) -> Ticket {
    lane.submit(None, waker, query(text))
        .expect("room in the lane")
}

fn take(lane: &Lane) -> Intake {
    let mut intake = Intake::default();
    lane.take(&mut intake, &mut Some(Waker::noop().clone()));
    intake
}

fn reply(n: u8) -> Reply {
    let header = FrameHeader {
        direction: messina_core::wire::Direction::Response,
        version: 4,
        flags: messina_core::wire::Flags::empty(),
        stream: 1,
        opcode: Opcode::Result,
        length: 1,
    };
    let body = Bytes::copy_from_slice(&[n]);
    Reply::Frame(ResponseFrame { header, body })
}

fn deliver(lane: &Lane, replies: Vec<(Ticket, Reply)>) {
    let mut replies = replies.into_iter();
    lane.deliver(|| replies.next(), &mut Vec::new());
}

fn body(poll: Poll<Reply>) -> Option<u8> {
    match poll {
        Poll::Ready(Reply::Frame(frame)) => frame.body.first().copied(),
        _ => None,
    }
}

#[test]
fn a_reply_goes_to_the_request_it_belongs_to() {
    let lane = lane(10);
    let (one, other) = (Arc::new(Count::default()), Arc::new(Count::default()));
    let first = submit(&lane, "a", &Waker::from(Arc::clone(&one)));
    let second = submit(&lane, "b", &Waker::from(Arc::clone(&other)));
    let intake = take(&lane);
    assert_eq!(intake.inbox.len(), 2);
    let frames: Vec<usize> = intake
        .inbox
        .iter()
        .map(|submission| match intake.arena.request(submission.frame) {
            RequestRef::Encoded(encoded) => encoded.frame.len(),
            _ => 0,
        })
        .collect();
    assert_eq!(
        frames,
        [FrameHeader::LEN + 5; 2],
        "each frame lies where its submission says"
    );
    deliver(&lane, vec![(second, reply(2))]);
    assert_eq!((one.get(), other.get(), lane.in_flight()), (0, 1, 1));
    deliver(&lane, vec![(first, reply(1))]);
    let waker = Waker::from(one);
    let cx = Context::from_waker(&waker);
    assert_eq!(body(lane.poll_reply(first, &cx)), Some(1));
    assert_eq!(body(lane.poll_reply(second, &cx)), Some(2));
    assert_eq!(lane.in_flight(), 0);
}

#[test]
fn a_request_given_up_before_it_was_taken_is_never_sent() {
    let lane = lane(10);
    let ticket = submit(&lane, "a", Waker::noop());
    submit(&lane, "b", Waker::noop());
    lane.abandon(ticket);
    let intake = take(&lane);
    let withdrawn: Vec<bool> = intake
        .inbox
        .iter()
        .map(|submission| submission.withdrawn)
        .collect();
    assert_eq!(withdrawn, [true, false]);
    assert!(
        intake.abandoned.is_empty(),
        "there is no stream to make an orphan of"
    );
    assert_eq!(lane.in_flight(), 1);
}

#[test]
fn a_request_given_up_after_it_was_taken_makes_its_stream_an_orphan() {
    let lane = lane(10);
    let ticket = submit(&lane, "a", Waker::noop());
    take(&lane);
    lane.abandon(ticket);
    assert_eq!(take(&lane).abandoned, [ticket]);
    assert_eq!(lane.in_flight(), 0);
    // The reply that comes all the same finds nobody, not even the next request in the same slot.
    let next = submit(&lane, "b", Waker::noop());
    deliver(&lane, vec![(ticket, reply(1))]);
    assert!(
        lane.poll_reply(next, &Context::from_waker(Waker::noop()))
            .is_pending()
    );
}

#[test]
fn a_request_given_up_after_its_reply_came_leaves_a_free_slot() {
    let lane = lane(1);
    let ticket = submit(&lane, "a", Waker::noop());
    take(&lane);
    deliver(&lane, vec![(ticket, reply(1))]);
    lane.abandon(ticket);
    assert!(
        take(&lane).abandoned.is_empty(),
        "its stream is free already"
    );
    submit(&lane, "b", Waker::noop());
}

#[test]
fn a_full_lane_refuses_and_has_room_again() {
    let lane = lane(2);
    let first = submit(&lane, "a", Waker::noop());
    submit(&lane, "b", Waker::noop());
    let refused = lane.submit(None, Waker::noop(), query("c"));
    assert!(matches!(refused, Err(Refused::Full)));
    lane.abandon(first);
    submit(&lane, "c", Waker::noop());
}

#[test]
fn a_request_that_cannot_be_written_leaves_nothing_behind() {
    let lane = lane(2);
    let broken = lane.submit(None, Waker::noop(), |arena, _| {
        arena.put(b"half a frame");
        arena.chain(&Bytes::from(vec![0; CHAIN_MIN]));
        Err(FrameEncodeError::NotAFrame)
    });
    assert!(matches!(
        broken,
        Err(Refused::Encode(FrameEncodeError::NotAFrame))
    ));
    let intake = take(&lane);
    assert!(intake.inbox.is_empty() && intake.arena.is_empty());
    assert_eq!(lane.in_flight(), 0);
}

#[test]
fn a_large_payload_is_handed_over_and_not_copied() {
    let lane = lane(2);
    let payload = Bytes::from(vec![7; CHAIN_MIN]);
    submit(&lane, "a", Waker::noop());
    let chained = payload.clone();
    let ticket = lane.submit(None, Waker::noop(), move |arena, _| {
        arena.put(&[0; 20]);
        arena.chain(&chained);
        Ok(Opcode::Execute)
    });
    ticket.expect("room in the lane");
    let intake = take(&lane);
    let frame = intake.inbox.last().expect("two submissions").frame;
    let RequestRef::Encoded(encoded) = intake.arena.request(frame) else {
        panic!("a frame");
    };
    assert_eq!((encoded.frame.len(), encoded.large.len()), (20, 1));
    assert_eq!(
        encoded.large[0].at, 20,
        "the place counts from the frame's own start"
    );
    assert_eq!(encoded.large[0].bytes.as_ptr(), payload.as_ptr());
}

#[test]
fn the_end_tells_what_was_sent_from_what_was_not() {
    let lane = lane(10);
    let sent = submit(&lane, "a", Waker::noop());
    take(&lane);
    let unsent = submit(&lane, "b", Waker::noop());
    lane.fail(&ConnectionError::Eof);
    let cx = Context::from_waker(Waker::noop());
    let fate = |ticket| match lane.poll_reply(ticket, &cx) {
        Poll::Ready(Reply::Failed(error)) => Some(error.fate),
        _ => None,
    };
    assert_eq!(fate(sent), Some(Fate::MaybeApplied));
    assert_eq!(fate(unsent), Some(Fate::NotSent));
    let late = lane.submit(None, Waker::noop(), query("c"));
    assert!(matches!(late, Err(Refused::Closed(ConnectionError::Eof))));
    assert_eq!(lane.in_flight(), 0);
}

#[test]
fn a_caller_that_moves_to_another_task_is_woken_there() {
    let lane = lane(10);
    let (old, new) = (Arc::new(Count::default()), Arc::new(Count::default()));
    let ticket = submit(&lane, "a", &Waker::from(Arc::clone(&old)));
    let waker = Waker::from(Arc::clone(&new));
    assert!(
        lane.poll_reply(ticket, &Context::from_waker(&waker))
            .is_pending()
    );
    deliver(&lane, vec![(ticket, reply(1))]);
    assert_eq!((old.get(), new.get()), (0, 1));
}

#[test]
fn a_waker_that_comes_back_to_the_lane_does_no_harm() {
    let lane = lane(10);
    let comes_back = |own| {
        let own = Mutex::new(own);
        Waker::from(Arc::new(ComesBack {
            lane: Arc::clone(&lane),
            own,
        }))
    };
    let other = submit(&lane, "other", Waker::noop());
    // Dropped with the request that is given up.
    let given_up = submit(&lane, "a", &comes_back(Some(other)));
    lane.abandon(given_up);
    // Dropped when the caller moves to another task.
    let moved = submit(&lane, "b", &comes_back(None));
    assert!(
        lane.poll_reply(moved, &Context::from_waker(Waker::noop()))
            .is_pending()
    );
    // Woken with a reply, and at the end.
    let answered = submit(&lane, "c", &comes_back(None));
    take(&lane);
    deliver(&lane, vec![(answered, reply(1))]);
    submit(&lane, "d", &comes_back(None));
    lane.fail(&ConnectionError::Eof);
    // Refused, with the waker cloned beforehand.
    let refused = lane.submit(None, &comes_back(None), query("e"));
    assert!(refused.is_err());
    assert_eq!(lane.in_flight(), 0);
}

#[test]
fn any_mix_of_steps_keeps_count_of_what_is_in_flight() {
    let mut random = Seed::from_u64(7).random();
    let lane = lane(50);
    let (mut waiting, mut answered): (Vec<Ticket>, Vec<Ticket>) = (Vec::new(), Vec::new());
    let cx = Context::from_waker(Waker::noop());
    for step in 0..20_000_u32 {
        match random.below(5) {
            0 | 1 => match lane.submit(None, Waker::noop(), query("x")) {
                Ok(ticket) => waiting.push(ticket),
                Err(refused) => {
                    assert!(matches!(refused, Refused::Full));
                    assert_eq!(waiting.len(), 50);
                }
            },
            2 if !waiting.is_empty() => {
                let ticket = waiting.swap_remove(random.index(waiting.len()));
                lane.abandon(ticket);
            }
            3 if !waiting.is_empty() => {
                take(&lane);
                let ticket = waiting.swap_remove(random.index(waiting.len()));
                deliver(&lane, vec![(ticket, reply(1))]);
                answered.push(ticket);
            }
            _ => {
                if let Some(ticket) = answered.pop() {
                    assert_eq!(body(lane.poll_reply(ticket, &cx)), Some(1), "step {step}");
                }
            }
        }
        assert_eq!(
            usize::try_from(lane.in_flight()),
            Ok(waiting.len()),
            "step {step}"
        );
    }
}
