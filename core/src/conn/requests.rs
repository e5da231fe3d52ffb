//! Owns the life of requests on a connection: sent or in line, answered, expired, abandoned, lost.
//! Leaves out frames and phases.

use std::time::Instant;

use crate::conn::frames::stray;
use crate::conn::layers::Layers;
use crate::conn::line::{Found, Line, Waiting};
use crate::conn::output::{ConnectionOutput, Done, Queued, StreamKey, SubmitError, Ticket};
use crate::conn::phase::OPCODE_AT;
use crate::conn::send::LooseFrame;
use crate::conn::streams::{Answered, Freed, InFlight, is_answered_by_result};
use crate::conn::{Connection, Draining, Phase};
use crate::error::connect::{AttemptError, AttemptErrorKind, ConnectionError, Fate};
use crate::error::protocol::{ProtocolError, ProtocolErrorKind};
use crate::notify::Note;
use crate::wire::{FrameHeader, Opcode, RequestOptionsRef, RequestRef, ResponseFrame};

impl Connection {
    pub(super) fn send_request(
        &mut self,
        now: Instant,
        ticket: Ticket,
        request: RequestRef<'_>,
        options: &RequestOptionsRef<'_>,
        deadline: Option<Instant>,
    ) -> Result<StreamKey, SubmitError> {
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Ok(self.put_over(ticket));
        }
        if 0 < self.line.len() {
            return self.stand_in_line(ticket, request, options, deadline);
        }
        let Some(stream) = self.streams.next_free() else {
            return self.stand_in_line(ticket, request, options, deadline);
        };
        let start = self.send.end();
        if let Err(error) = request.encode(&mut self.send, &self.features, stream, options) {
            self.send.truncate(start);
            return Err(SubmitError::Encode(error));
        }
        if let Some(packer) = &mut self.packer {
            packer.pack(&mut self.send, start);
        }
        let sent = InFlight {
            ticket,
            opcode: request.opcode(),
            start,
            end: self.send.end(),
            line: None,
        };
        let Some(key) = self.streams.occupy(sent) else {
            self.send.truncate(start);
            return Err(SubmitError::Overloaded);
        };
        if let Some(deadline) = deadline {
            self.set_deadline(key.index, deadline);
        }
        Ok(key)
    }

    fn stand_in_line(
        &mut self,
        ticket: Ticket,
        request: RequestRef<'_>,
        options: &RequestOptionsRef<'_>,
        deadline: Option<Instant>,
    ) -> Result<StreamKey, SubmitError> {
        if self
            .plan
            .session
            .limits
            .waiting_max
            .is_some_and(|max| max <= self.line.len())
        {
            return Err(SubmitError::Overloaded);
        }
        let mut frame = LooseFrame::default();
        request
            .encode(&mut frame, &self.features, 0, options)
            .map_err(SubmitError::Encode)?;
        let waiting = Waiting {
            ticket,
            opcode: request.opcode(),
            frame,
            deadline,
        };
        let key = self.line.push(waiting).ok_or(SubmitError::Overloaded)?;
        if let Some(deadline) = deadline {
            self.set_deadline(self.line_deadline(key), deadline);
        }
        Ok(key)
    }

    /// Sends requests from the line while ids are free.
    #[inline]
    pub(super) fn settle(&mut self) {
        if 0 < self.line.len() && matches!(self.phase, Phase::Open) {
            self.call_from_line();
        }
        if let Phase::Draining(Draining { why, .. }) = &self.phase
            && self.in_flight() == 0
        {
            let why = why.clone();
            self.fail(why);
        }
    }

    fn call_from_line(&mut self) {
        while 0 < self.line.len()
            && let Some(stream) = self.streams.next_free()
            && let Some((first, mut waiting)) = self.line.pop()
        {
            let start = self.send.end();
            waiting.frame.address_to(stream);
            self.send.append(waiting.frame);
            if let Some(packer) = &mut self.packer {
                packer.pack(&mut self.send, start);
            }
            let Waiting {
                ticket,
                opcode,
                deadline,
                ..
            } = waiting;
            let sent = InFlight {
                ticket,
                opcode,
                start,
                end: self.send.end(),
                line: Some(first),
            };
            let Some(key) = self.streams.occupy(sent) else {
                return;
            };
            self.line.sent(first, key);
            if let Some(deadline) = deadline {
                self.deadlines.clear(self.line_deadline(first));
                self.set_deadline(key.index, deadline);
            }
        }
    }

    pub(super) fn handle_answer(&mut self, frame: ResponseFrame) -> Result<(), ProtocolError> {
        let FrameHeader { stream, opcode, .. } = frame.header;
        let Some(asked) = self.streams.request_on(stream) else {
            return Err(stray(&frame));
        };
        if !answers(asked, opcode) {
            let error = ProtocolError::new(ProtocolErrorKind::UnexpectedAnswer, OPCODE_AT);
            return Err(error.in_frame(opcode.byte()));
        }
        match self.streams.free_stream(stream) {
            Some(Answered::Request(freed)) => self.put_answer(freed, frame),
            Some(Answered::Orphan(Freed { line, .. })) => self.forget_line(line),
            None => return Err(stray(&frame)),
        }
        Ok(())
    }

    #[inline(always)] // The path of the answers to most writes.
    pub(super) fn put_void(&mut self, freed: Freed, stream: i16) {
        let Freed { ticket, key, line } = freed;
        self.deadlines.clear(key.index);
        self.forget_line(line);
        let key = line.unwrap_or(key);
        let done = Done {
            ticket,
            key,
            stream,
        };
        // What was put out before is given out before.
        if self.outputs.is_empty() {
            self.done.push(done);
        } else {
            self.outputs.push_back(Queued::Void(done));
        }
    }

    #[inline(always)] // Two callers, one of them the path of nearly all answers.
    pub(super) fn put_answer(&mut self, freed: Freed, frame: ResponseFrame) {
        let Freed { ticket, key, line } = freed;
        self.deadlines.clear(key.index);
        self.forget_line(line);
        let key = line.unwrap_or(key);
        self.outputs
            .push_back(Queued::Answered { ticket, key, frame });
    }

    /// Ends a request whose deadline passed.
    pub(super) fn expire(&mut self, now: Instant, deadline_key: u32) {
        if let Some(place) = deadline_key.checked_sub(self.line_deadlines()) {
            if let Some(first) = self.line.key_at(place)
                && let Found::Waiting(waiting) = self.line.take(first)
            {
                self.put_failed(waiting.ticket, first, expired(Fate::NotSent));
            }
            return;
        }
        let Some(key) = self.streams.key_at(deadline_key) else {
            return;
        };
        let Some(sent) = self.streams.find(key).copied() else {
            return;
        };
        let fate = self.let_go(now, key, &sent);
        self.put_failed(sent.ticket, sent.line.unwrap_or(key), expired(fate));
    }

    /// Ends a request that nobody waits for.
    pub(super) fn give_up(&mut self, now: Instant, key: StreamKey) {
        let on_wire = if Line::is_key(key) {
            match self.line.take(key) {
                Found::Waiting(_) => {
                    self.deadlines.clear(self.line_deadline(key));
                    return;
                }
                Found::Sent(stream) => stream,
                Found::Gone => key,
            }
        } else {
            key
        };
        match self.streams.find(on_wire).copied() {
            Some(sent) => {
                self.deadlines.clear(on_wire.index);
                self.let_go(now, on_wire, &sent);
            }
            // It is over. Its reply may still be here, and must not come out any more.
            None => {
                self.outputs.retain(|queued| !queued.is_reply_to(key));
                self.done.drain(..self.done_given);
                self.done_given = 0;
                self.done.retain(|done| done.key != key);
            }
        }
    }

    /// Withdraws a request that was not sent; keeps the id of one that was.
    fn let_go(&mut self, now: Instant, key: StreamKey, sent: &InFlight) -> Fate {
        if self.send.is_unsent(sent.start) {
            self.send.withdraw(sent.start, sent.end);
            self.streams.free(key);
            self.forget_line(sent.line);
            return Fate::NotSent;
        }
        self.streams.orphan(now, key);
        self.look_again();
        Fate::MaybeApplied
    }

    #[inline(always)] // On the path of every request.
    pub(super) fn set_deadline(&mut self, key: u32, at: Instant) {
        self.deadlines.set(key, at);
        if self.due_at.is_none_or(|due| at < due) {
            self.due_at = Some(at);
        }
    }

    #[inline]
    fn forget_line(&mut self, line: Option<StreamKey>) {
        if let Some(first) = line {
            self.line.forget(first);
        }
    }

    /// Replaces a connection with too many requests that were never answered.
    pub(super) fn count_orphans(&mut self, now: Instant) {
        let old = self.streams.old_orphans(now);
        let max = u32::from(self.plan.session.limits.orphans_effective());
        if max <= old && matches!(self.phase, Phase::Open) {
            self.begin_drain(
                ConnectionError::Orphans {
                    count: self.streams.orphans(),
                },
                None,
            );
        }
    }

    /// Tells when the number of orphans must be looked at again.
    pub(super) fn next_orphan_check(&self) -> Option<Instant> {
        let max = u32::from(self.plan.session.limits.orphans_effective());
        if self.streams.orphans() < max {
            None
        } else {
            self.streams.next_aging()
        }
    }

    pub(super) fn begin_drain(&mut self, why: ConnectionError, deaf_until: Option<Instant>) {
        self.fail_line(&why);
        let address = self.plan.address.clone();
        self.put(ConnectionOutput::Note(Note::Draining {
            address,
            error: why.clone(),
        }));
        self.put(ConnectionOutput::Draining(why.clone()));
        self.phase = Phase::Draining(Draining { why, deaf_until });
        self.look_again();
        self.settle();
    }

    /// Drops what was not sent whole; its requests fail.
    pub(super) fn stop_sending(&mut self, why: &ConnectionError) {
        let unsent: Vec<(StreamKey, InFlight)> = self
            .streams
            .iter_waiting()
            .filter(|(_, sent)| !self.is_written(sent.end))
            .map(|(key, sent)| (key, *sent))
            .collect();
        for (key, sent) in unsent {
            let fate = self.fate(&sent);
            self.streams.free(key);
            self.deadlines.clear(key.index);
            self.forget_line(sent.line);
            self.put_failed(
                sent.ticket,
                sent.line.unwrap_or(key),
                Self::failed(why, fate),
            );
        }
        self.send.clear();
        if let Some(layers) = &mut self.layers {
            layers.silence();
        }
        self.keepalive.stop();
    }

    /// Tells whether all of a frame that ends here was written.
    fn is_written(&self, end: u64) -> bool {
        let layers = self.layers.as_ref();
        self.send.is_sent(end) && layers.is_none_or(|layers| layers.outbox.is_written(end))
    }

    /// Fails everything that waits.
    pub(super) fn fail_all(&mut self, why: &ConnectionError) {
        let lost: Vec<(StreamKey, InFlight)> = self.streams.drain_waiting().collect();
        for (key, sent) in lost {
            let fate = self.fate(&sent);
            self.put_failed(
                sent.ticket,
                sent.line.unwrap_or(key),
                Self::failed(why, fate),
            );
        }
        self.fail_line(why);
    }

    fn fail_line(&mut self, why: &ConnectionError) {
        for (key, waiting) in self.line.drain() {
            self.deadlines.clear(self.line_deadline(key));
            self.put_failed(waiting.ticket, key, Self::failed(why, Fate::NotSent));
        }
    }

    /// Returns the first key that deadlines of requests in line have; those of stream ids are below it.
    fn line_deadlines(&self) -> u32 {
        u32::from(self.plan.session.limits.in_flight_effective())
    }

    fn line_deadline(&self, first: StreamKey) -> u32 {
        self.line_deadlines().saturating_add(Line::place_of(first))
    }

    fn fate(&self, sent: &InFlight) -> Fate {
        // What was wrapped and not written had no effect either, as long as it is not written any more.
        let is_untouched = |layers: &Layers| layers.outbox.is_untouched(sent.start);
        if self.send.is_unsent(sent.start) || self.layers.as_deref().is_some_and(is_untouched) {
            Fate::NotSent
        } else {
            Fate::MaybeApplied
        }
    }

    fn put_failed(&mut self, ticket: Ticket, key: StreamKey, error: AttemptError) {
        self.outputs
            .push_back(Queued::Failed { ticket, key, error });
    }
}

/// Tells whether a message can answer a request.
fn answers(asked: Opcode, answer: Opcode) -> bool {
    match (asked, answer) {
        (_, Opcode::Error) => true,
        (asked, Opcode::Result) => is_answered_by_result(asked),
        (Opcode::Options, Opcode::Supported) => true,
        (Opcode::Startup, Opcode::Ready | Opcode::Authenticate) => true,
        (Opcode::Register, Opcode::Ready) => true,
        (Opcode::AuthResponse, Opcode::AuthChallenge | Opcode::AuthSuccess) => true,
        _ => false,
    }
}

fn expired(fate: Fate) -> AttemptError {
    AttemptError::new(AttemptErrorKind::Expired, fate)
}
