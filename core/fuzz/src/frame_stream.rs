//! Owns the targets `frame_stream` and `segmented_stream`: an open connection of either protocol version, and any bytes in any cuts between submissions, abandoned
//! requests, pauses and partial writes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use messina_core::config::session::SessionConfig;
use messina_core::conn::ConnectionPlan;
use messina_core::seed::Seed;
use messina_core::wire::{Compression, ProtocolVersion};

use crate::bench::{Bench, Milestones};
use crate::input::Input;

/// Opens a connection and plays a script: the first byte chooses the limits.
pub fn frame_stream(data: &[u8]) {
    let _ = play_frame_stream(data);
}

/// Does the same and says what happened.
pub fn play_frame_stream(data: &[u8]) -> Milestones {
    play(data, ProtocolVersion::V4)
}

/// Does the same over protocol version 5, where bytes of the script become segments with the right checksums.
pub fn segmented_stream(data: &[u8]) {
    let _ = play_segmented_stream(data);
}

/// Does the same and says what happened.
pub fn play_segmented_stream(data: &[u8]) -> Milestones {
    play(data, ProtocolVersion::V5)
}

fn play(data: &[u8], version: ProtocolVersion) -> Milestones {
    let mut input = Input::new(data);
    let mut plan = plan(settings(input.byte()));
    plan.version = version;
    let mut bench = Bench::new(plan);
    bench.answer_all();
    bench.answer_all();
    bench.drain();
    assert!(bench.is_ready(), "the usual handshake fails");
    bench.play(input)
}

/// Small limits, so that inputs reach them.
pub(crate) fn settings(choice: u8) -> SessionConfig {
    let mut session = SessionConfig::new(&mut Seed::from_u64(u64::from(choice)).random());
    let limits = &mut session.limits;
    limits.frame_bytes_max = FRAME_BYTES_MAX;
    limits.in_flight_max = [32_766, 3, 8, 40][usize::from(choice & 3)];
    limits.waiting_max = [None, None, Some(2), Some(0)][usize::from(choice >> 2 & 3)];
    limits.orphans_max = [1_024, 1][usize::from(choice >> 4 & 1)];
    if choice & 0x80 != 0 {
        session.connection.compression = Some(Compression::Lz4);
    }
    if choice & 0x20 != 0 {
        session.connection.keepalive_interval = None;
    }
    if choice & 0x40 != 0 {
        session.connection.keepalive_interval = Some(Duration::from_millis(20));
        session.connection.keepalive_timeout = Duration::from_millis(20);
    }
    session
}

pub(crate) fn plan(session: SessionConfig) -> ConnectionPlan {
    let address = SocketAddr::from(([192, 0, 2, 1], 9042));
    ConnectionPlan::new(address, Arc::new(session), Seed::from_u64(2))
}

/// Above the largest chunk that is shared between frames, so that frames with memory of their own occur.
const FRAME_BYTES_MAX: u32 = 256 * 1024;
