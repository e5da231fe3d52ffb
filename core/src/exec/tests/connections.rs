//! The choice of a connection inside a node.

use std::cell::RefCell;
use std::num::NonZeroU16;

use crate::conn::CloseReason;
use crate::error::connect::{AttemptErrorKind, ConnectionError, Fate};
use crate::exec::fixtures::*;
use crate::exec::targets::Planned;
use crate::exec::{Cluster, Connections};
use crate::routing::{HostIdx, Loads, PoolView, Routing, Shard, Sharder};
use crate::wire::supported::ProtocolFeatures;

/// Connections with as many requests in flight as they have entries here; ten fill one.
#[derive(Debug, Default)]
struct Busy {
    in_flight: Vec<u32>,
    missed: RefCell<Vec<Shard>>,
}

impl Loads<u32> for Busy {
    fn in_flight(&self, handle: &u32) -> u32 {
        let at = usize::try_from(*handle).expect("small");
        self.in_flight.get(at).copied().unwrap_or(0)
    }

    fn is_full(&self, handle: &u32) -> bool {
        10 <= self.in_flight(handle)
    }

    fn missed(&self, _: HostIdx, shard: Shard) {
        self.missed.borrow_mut().push(shard);
    }
}

impl Connections<u32> for Busy {
    fn features(&self, _: &u32) -> ProtocolFeatures {
        ProtocolFeatures::default()
    }
}

/// One host of four shards with these connections.
fn host(connections: &[(u16, u32)]) -> Routing<u32> {
    let sharder = Sharder {
        shards: NonZeroU16::new(4).expect("not zero"),
        ignore_msb: 12,
    };
    let connections = connections
        .iter()
        .map(|(shard, handle)| (Some(Shard(*shard)), *handle));
    let mut routing = routing(1, &[]);
    routing.pools = [PoolView::new(Some(sharder), connections.collect())].into();
    routing
}

/// The connections that a hundred requests choose, each once.
fn chosen(routing: &Routing<u32>, shard: Option<u16>, busy: &Busy) -> Vec<u32> {
    let planned = Planned {
        host: HostIdx(0),
        shard: shard.map(Shard),
    };
    let cluster = Cluster {
        routing,
        connections: busy,
    };
    let seeds = (1..=100_u64).map(|turn| turn.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut chosen: Vec<u32> = seeds
        .filter_map(|seed| cluster.connect(planned, seed))
        .map(|target| target.handle)
        .collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

fn busy(in_flight: &[u32]) -> Busy {
    Busy {
        in_flight: in_flight.to_vec(),
        ..Busy::default()
    }
}

#[test]
fn a_request_goes_to_the_connection_of_its_shard_however_busy_it_is() {
    let routing = host(&[(0, 0), (1, 1), (2, 2), (3, 3)]);
    assert_eq!(chosen(&routing, Some(2), &busy(&[0, 0, 9, 0])), [2]);
}

#[test]
fn a_request_for_a_shard_without_a_connection_uses_any_other_and_that_is_told() {
    let routing = host(&[(0, 0), (1, 1), (3, 3)]);
    let none_busy = Busy::default();
    assert_eq!(chosen(&routing, Some(2), &none_busy), [0, 1, 3]);
    assert_eq!(none_busy.missed.borrow().len(), 100);
    assert!(none_busy.missed.borrow().iter().all(|own| *own == Shard(2)));
}

#[test]
fn a_request_without_a_shard_uses_any_connection_and_misses_nothing() {
    let routing = host(&[(0, 0), (1, 1), (2, 2), (3, 3)]);
    let none_busy = Busy::default();
    assert_eq!(chosen(&routing, None, &none_busy), [0, 1, 2, 3]);
    assert!(none_busy.missed.borrow().is_empty());
}

#[test]
fn a_shard_that_the_node_does_not_have_is_served_by_any_connection() {
    let routing = host(&[(0, 7)]);
    for shard in [4, 5_000, u16::MAX] {
        assert_eq!(chosen(&routing, Some(shard), &Busy::default()), [7]);
    }
    let mut unsharded = host(&[]);
    unsharded.pools = [PoolView::new(None, vec![(None, 5)])].into();
    assert_eq!(chosen(&unsharded, Some(5_000), &Busy::default()), [5]);
    assert!(chosen(&host(&[]), Some(1), &Busy::default()).is_empty());
}

#[test]
fn of_several_connections_to_a_shard_the_busiest_is_never_chosen() {
    let routing = host(&[(1, 0), (1, 1), (1, 2), (2, 3)]);
    assert_eq!(chosen(&routing, Some(1), &busy(&[9, 1, 1, 0])), [1, 2]);
    let two = host(&[(1, 0), (1, 1)]);
    assert_eq!(chosen(&two, Some(1), &busy(&[3, 2])), [1]);
}

#[test]
fn nobody_waits_for_a_full_connection_while_another_one_of_the_node_has_room() {
    let routing = host(&[(0, 0), (1, 1), (2, 2), (3, 3)]);
    assert_eq!(chosen(&routing, Some(2), &busy(&[10, 4, 10, 9])), [1]);
    assert_eq!(
        chosen(&routing, Some(2), &busy(&[10, 11, 12, 10])),
        [2],
        "where all are full the shard's own is as good as any"
    );
}

#[test]
fn a_request_that_met_a_connection_on_its_way_out_stays_at_its_node_once() {
    for reason in [
        ConnectionError::Closed(CloseReason::Aged),
        ConnectionError::Closed(CloseReason::Idle),
        ConnectionError::Closed(CloseReason::Resharded),
        ConnectionError::Orphans { count: 2_000 },
    ] {
        let mut drive = Drive::new(Setup {
            idempotent: false,
            ..Setup::default()
        });
        assert_eq!(sent_to(&drive.start()), 0);
        let closed = || AttemptErrorKind::Connection(reason.clone());
        assert_eq!(sent_to(&drive.lose(closed(), Fate::NotSent)), 0);
        assert_eq!(sent_to(&drive.lose(closed(), Fate::NotSent)), 1);
        done(drive.answer(void()));
    }
}
