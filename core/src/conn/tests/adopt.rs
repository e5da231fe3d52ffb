//! Many requests taken over in one piece: each is what it would have been on its own.

use super::*;
use crate::conn::AdoptedFrame;

/// Encodes a query for each ticket, one behind the other.
fn batch(
    tickets: impl IntoIterator<Item = u64>,
    change: impl Fn(&mut AdoptedFrame),
) -> (Vec<u8>, Vec<AdoptedFrame>) {
    let (mut bytes, mut requests) = (Vec::new(), Vec::new());
    for ticket in tickets {
        let text = format!("SELECT {ticket}");
        let request = RequestRef::Query {
            text: &text,
            params: ParamsRef::default(),
        };
        let start = bytes.len();
        request
            .encode(
                &mut bytes,
                &ProtocolFeatures::default(),
                0,
                &RequestOptionsRef::default(),
            )
            .unwrap();
        let mut adopted = AdoptedFrame {
            ticket: Ticket(ticket),
            opcode: request.opcode(),
            start,
            end: bytes.len(),
            deadline: None,
            withdrawn: false,
        };
        change(&mut adopted);
        requests.push(adopted);
    }
    (bytes, requests)
}

impl Bench {
    fn adopt(
        &mut self,
        (mut bytes, requests): (Vec<u8>, Vec<AdoptedFrame>),
    ) -> Option<Vec<Ticket>> {
        let mut taken = Vec::new();
        let before = bytes.clone();
        let done = self.conn.submit_encoded(
            self.now,
            &mut bytes,
            requests.iter().copied(),
            |ticket, _| taken.push(ticket),
        );
        if done {
            assert!(bytes.is_empty());
        } else {
            assert_eq!((bytes, taken.len()), (before, 0), "all or none");
        }
        done.then_some(taken)
    }
}

fn texts(seen: &[Seen]) -> Vec<(i16, String)> {
    let text = |seen: &Seen| String::from_utf8_lossy(&seen.body[4..]).replace('\0', "");
    seen.iter()
        .map(|seen| (seen.stream, text(seen).chars().take(9).collect()))
        .collect()
}

#[test]
fn frames_that_were_taken_over_are_sent_and_answered_like_others() {
    let mut bench = Bench::open(|_| ());
    let taken = bench
        .adopt(batch(1..=3, |_| ()))
        .expect("an idle connection");
    assert_eq!(taken, [1, 2, 3].map(Ticket));
    let seen = bench.requests();
    let expected = [(1, "SELECT 1"), (2, "SELECT 2"), (3, "SELECT 3")];
    for (seen, (stream, text)) in texts(&seen).iter().zip(expected) {
        assert_eq!((seen.0, seen.1.starts_with(text)), (stream, true));
    }
    assert_eq!((seen.len(), bench.conn.in_flight()), (3, 3));
    bench.peer(&void(2));
    bench.peer(&result(3, 9));
    bench.peer(&void(1));
    assert_eq!(
        bench.told(),
        [
            "2 answered Result [0, 0, 0, 1]",
            "3 answered Result [0, 0, 0, 2, 9, 0, 0, 0]",
            "1 answered Result [0, 0, 0, 1]",
        ]
    );
}

#[test]
fn withdrawn_and_expired_frames_are_not_sent() {
    let mut bench = Bench::open(|_| ());
    let now = bench.now;
    for (first, last) in [(1, 5), (11, 15)] {
        let frames = batch(first..=last, |frame| match frame.ticket.0 % 10 {
            1 | 4 => frame.withdrawn = true,
            2 => frame.deadline = Some(now),
            _ => (),
        });
        assert!(bench.adopt(frames).is_some());
        let seen = texts(&bench.requests());
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert_eq!(bench.told().len(), 1, "only the expired one is told of");
    }
    assert_eq!(bench.conn.in_flight(), 4);
}

#[test]
fn a_deadline_of_a_frame_that_was_taken_over_is_kept() {
    let mut bench = Bench::open(|_| ());
    let at = bench.now + ms(100);
    bench
        .adopt(batch(1..=1, |frame| frame.deadline = Some(at)))
        .expect("an idle connection");
    bench.written();
    bench.pass(ms(99));
    assert!(bench.told().is_empty());
    bench.pass(ms(2));
    assert_eq!(bench.told().len(), 1);
}

#[test]
fn nothing_is_taken_over_where_frames_need_more_than_an_id() {
    let few = |session: &mut SessionConfig| {
        session.limits.in_flight_max = 2;
        session.limits.orphans_max = 1;
    };
    assert!(Bench::open(few).adopt(batch(1..=3, |_| ())).is_none());
    assert!(Bench::open(few).adopt(batch(1..=2, |_| ())).is_some());

    let mut busy = Bench::open(|_| ());
    busy.submit(9);
    assert!(
        busy.adopt(batch(1..=1, |_| ())).is_none(),
        "9 was not written"
    );
    busy.written();
    assert!(busy.adopt(batch(1..=1, |_| ())).is_some());

    let mut closed = Bench::open(|_| ());
    let now = closed.now;
    closed.conn.close(now, CloseReason::Idle);
    assert!(closed.adopt(batch(1..=1, |_| ())).is_none());
}

#[test]
fn a_frame_given_up_before_it_was_written_is_taken_out_again() {
    let mut bench = Bench::open(|_| ());
    let (mut bytes, requests) = batch(1..=3, |_| ());
    let mut keys = Vec::new();
    let taken = bench
        .conn
        .submit_encoded(bench.now, &mut bytes, requests.into_iter(), |_, key| {
            keys.push(key);
        });
    assert!(taken);
    bench.conn.abandon(bench.now, keys[1]);
    let seen = texts(&bench.requests());
    let kept: Vec<i16> = seen.iter().map(|(stream, _)| *stream).collect();
    assert_eq!(kept, [1, 3]);
}

#[test]
fn replies_keep_their_order_in_every_form_they_are_taken_in() {
    let mut bench = Bench::open(|_| ());
    bench.submit_all(1..=6);
    bench.written();
    for answer in [
        void(1),
        void(2),
        result(3, 1),
        void(4),
        result(5, 1),
        void(6),
    ] {
        bench.peer(&answer);
    }
    let mut order = Vec::new();
    assert_eq!(bench.conn.poll_done(1, |ticket| order.push(ticket.0)), 1);
    assert_eq!(bench.conn.poll_done(9, |ticket| order.push(ticket.0)), 1);
    assert_eq!(bench.conn.poll_done(9, |_| ()), 0, "3 is next");
    while let Some((ticket, _)) = bench.conn.poll_reply() {
        order.push(ticket.0);
    }
    assert_eq!(order, [1, 2, 3, 4, 5, 6]);
    assert!(bench.outputs().is_empty());
}

#[test]
fn no_reply_follows_when_a_request_that_is_done_is_given_up() {
    let mut bench = Bench::open(|_| ());
    let keys: Vec<StreamKey> = (1..=3).map(|ticket| bench.submit(ticket)).collect();
    bench.written();
    (1..=3).for_each(|stream| bench.peer(&void(stream)));
    assert_eq!(bench.conn.poll_done(1, |_| ()), 1);
    bench.conn.abandon(bench.now, keys[1]);
    assert_eq!(bench.told(), ["3 answered Result [0, 0, 0, 1]"]);
}
