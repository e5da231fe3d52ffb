//! Owns the target `handshake`: a connection of any role, with or without a login, and whatever a peer says to it.

use std::sync::Arc;

use messina_core::conn::Role;
use messina_core::policy::auth::PlainCredentials;
use messina_core::wire::{EventKind, ProtocolVersion};

use crate::bench::{Bench, Milestones};
use crate::frame_stream::{plan, settings};
use crate::input::Input;

/// Plays a script from the first byte on: the first byte of the input chooses limits, the second what is wanted.
pub fn handshake(data: &[u8]) {
    let _ = play_handshake(data);
}

/// Does the same and says what happened.
pub fn play_handshake(data: &[u8]) -> Milestones {
    let mut input = Input::new(data);
    let mut session = settings(input.byte());
    let choice = input.byte();
    let has = |bit: u8| choice & bit != 0;
    if has(1) {
        session.credentials = Some(Arc::new(PlainCredentials::new("user", "secret")));
    }
    if has(2) {
        session.authenticators_allowed = Some(vec!["com.example.Authenticator".into()]);
    }
    if has(4) {
        session.keyspace = Some("ks".into());
    }
    let mut plan = plan(session);
    if has(8) {
        plan.role = Role::Control;
        plan.events = EventKind::ALL.to_vec();
    }
    if has(16) {
        plan.version = ProtocolVersion::V5;
    }
    Bench::new(plan).play(input)
}
