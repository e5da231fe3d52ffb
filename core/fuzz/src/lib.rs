//! Owns the fuzz entry points of `messina-core`: plain functions of bytes that panic when an invariant breaks.
//! Leaves out where bytes come from: libFuzzer (feature `libfuzzer`), or the seeded mutations of the replay suite.
//!
//! Each target reads its input from the front: a byte or two that choose features and settings, then what a peer
//! would send, or a script of inputs to a machine. An input that is too short reads as zeros, so that every input is
//! valid.
#![forbid(unsafe_code)]

mod bench;
mod compression;
mod control_plane;
mod custom_type;
mod frame_stream;
mod handshake;
mod input;
mod kinds;
mod request_roundtrip;
mod response_body;
mod response_roundtrip;
mod row_plan;
pub mod samples;
mod segment_stream;
pub mod types;
mod value_decode;

pub use bench::Milestones;
pub use compression::compression;
pub use control_plane::{control_plane, play_control_plane};
pub use custom_type::custom_type;
pub use frame_stream::{frame_stream, play_frame_stream, play_segmented_stream, segmented_stream};
pub use handshake::{handshake, play_handshake};
pub use input::{Input, features};
pub use kinds::{Kind, REQUEST_KINDS, RESPONSE_KINDS};
pub use request_roundtrip::{read_request, request_roundtrip};
pub use response_body::{read_response, response_body};
pub use response_roundtrip::response_roundtrip;
pub use row_plan::row_plan;
pub use segment_stream::segment_stream;
pub use value_decode::{read_value, value_decode};

/// A fuzz entry point.
pub type Target = fn(&[u8]);

/// All targets by name; each has a wrapper in `fuzz_targets` and a folder in `corpus`.
pub const TARGETS: &[(&str, Target)] = &[
    ("compression", compression),
    ("control_plane", control_plane),
    ("custom_type", custom_type),
    ("frame_stream", frame_stream),
    ("handshake", handshake),
    ("request_roundtrip", request_roundtrip),
    ("response_body", response_body),
    ("response_roundtrip", response_roundtrip),
    ("row_plan", row_plan),
    ("segment_stream", segment_stream),
    ("segmented_stream", segmented_stream),
    ("value_decode", value_decode),
];
