//! A scripted peer: expect this request, answer that. Sans-IO; for conversations whose every byte a test decides.
//! What a whole node would answer is the business of [`node`](crate::node).

use std::collections::VecDeque;
use std::fmt;

use bytes::{Bytes, BytesMut};
use messina_core::error::protocol::ProtocolError;
use messina_core::wire::{
    Envelope, FrameHeader, ProtocolFeatures, Request, RequestOptions, Response, ServerError,
    ServerErrorDetail, ServerEvent, Supported,
};

/// Plays the server's side of one connection from a script.
///
/// ```
/// use messina_core::wire::{Request, Response, ResultBody};
/// use messina_testkit::peer::{Reply, ScriptedPeer};
///
/// let peer = ScriptedPeer::new()
///     .handshake()
///     .expect("a query", |request| matches!(request, Request::Query { .. }))
///     .reply(Reply::Answer(Response::Result(ResultBody::Void)));
/// # drop(peer);
/// ```
pub struct ScriptedPeer {
    features: ProtocolFeatures,
    inbox: BytesMut,
    outbox: Vec<u8>,
    script: VecDeque<Line>,
    otherwise: Option<Reply>,
    seen: Vec<Seen>,
    complaint: Option<ScriptError>,
    closed: bool,
}

/// Is one request as the peer read it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The stream it came on.
    pub stream: i16,
    /// What came with it.
    pub options: RequestOptions,
    /// The request.
    pub request: Request,
}

/// Is what the peer does about a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reply {
    /// Answers it.
    Answer(Response),
    /// Answers it with everything an answer can carry.
    Envelope(Envelope),
    /// Sends these bytes, whatever they are; bytes 2 and 3 of them become the stream id.
    Bytes(Vec<u8>),
    /// Never answers it by itself; see [`ScriptedPeer::answer`].
    Silence,
    /// Closes the connection.
    Close,
}

/// Says where a conversation left the script.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// A request came that the script does not expect here.
    #[error("expected {expected}, got {got:?}")]
    Unexpected {
        /// What was expected.
        expected: &'static str,
        /// What came.
        got: Box<Request>,
    },
    /// The script was not played to its end.
    #[error("still waiting for {expected}")]
    Unfinished {
        /// What was expected next.
        expected: &'static str,
    },
    /// What came is no request.
    #[error("the client does not keep to the protocol")]
    Protocol(#[source] ProtocolError),
}

struct Line {
    what: &'static str,
    matches: Box<dyn Fn(&Request) -> bool + Send>,
    reply: Reply,
}

impl ScriptedPeer {
    /// Starts with an empty script.
    #[must_use]
    pub fn new() -> Self {
        Self {
            features: ProtocolFeatures::default(),
            inbox: BytesMut::new(),
            outbox: Vec::new(),
            script: VecDeque::new(),
            otherwise: None,
            seen: Vec::new(),
            complaint: None,
            closed: false,
        }
    }

    /// Reads and writes layouts as agreed with the client; nothing is agreed on at first.
    #[must_use]
    pub fn features(mut self, features: ProtocolFeatures) -> Self {
        self.features = features;
        self
    }

    /// Expects OPTIONS and STARTUP, offers nothing and asks for no login.
    #[must_use]
    pub fn handshake(self) -> Self {
        self.offering(&[])
    }

    /// Expects OPTIONS and STARTUP, offers these keys and asks for no login.
    #[must_use]
    pub fn offering(self, options: &[(&str, &str)]) -> Self {
        let options = options
            .iter()
            .map(|(key, value)| ((*key).to_owned(), vec![(*value).to_owned()]))
            .collect();
        self.expect("OPTIONS", |request| matches!(request, Request::Options))
            .reply(Reply::Answer(Response::Supported(Supported { options })))
            .expect("STARTUP", |request| matches!(request, Request::Startup(_)))
            .reply(Reply::Answer(Response::Ready))
    }

    /// Adds a request to the script; [`reply`](Self::reply) says what happens then, nothing by default.
    #[must_use]
    pub fn expect(
        mut self,
        what: &'static str,
        matches: impl Fn(&Request) -> bool + Send + 'static,
    ) -> Self {
        self.script.push_back(Line {
            what,
            matches: Box::new(matches),
            reply: Reply::Silence,
        });
        self
    }

    /// Says what the request that was added last gets.
    #[must_use]
    pub fn reply(mut self, reply: Reply) -> Self {
        if let Some(line) = self.script.back_mut() {
            line.reply = reply;
        }
        self
    }

    /// Gives every request behind the end of the script the same reply; without, one there is an error.
    #[must_use]
    pub fn otherwise(mut self, reply: Reply) -> Self {
        self.otherwise = Some(reply);
        self
    }

    /// Takes bytes of the client, in any pieces, and plays on.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.inbox.extend_from_slice(bytes);
        while let Some((header, body)) = self.next_frame() {
            match Request::decode(&header, &body, &self.features) {
                Ok((options, request)) => {
                    self.play(header.stream, &request);
                    self.seen.push(Seen {
                        stream: header.stream,
                        options,
                        request,
                    });
                }
                Err(error) => self.complain(ScriptError::Protocol(error)),
            }
        }
    }

    /// Answers a request that got [`Reply::Silence`], or one that was never asked.
    pub fn answer(&mut self, stream: i16, response: Response) {
        self.send(stream, &plain(response));
    }

    /// Sends an event.
    pub fn event(&mut self, event: ServerEvent) {
        self.send(-1, &plain(Response::Event(event)));
    }

    /// Takes the bytes for the client.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.outbox)
    }

    /// Tells whether the script closed the connection.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Lists the requests that came, in order.
    #[must_use]
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// Checks that the conversation went by the script, to its end.
    ///
    /// # Errors
    /// Something else came, or something did not come.
    pub fn finish(&self) -> Result<(), ScriptError> {
        match (&self.complaint, self.script.front()) {
            (Some(complaint), _) => Err(complaint.clone()),
            (None, Some(line)) => Err(ScriptError::Unfinished {
                expected: line.what,
            }),
            (None, None) => Ok(()),
        }
    }

    fn next_frame(&mut self) -> Option<(FrameHeader, Bytes)> {
        if self.complaint.is_some() {
            return None;
        }
        let header = match FrameHeader::parse(self.inbox.first_chunk()?) {
            Ok(header) => header,
            Err(error) => {
                self.complain(ScriptError::Protocol(error));
                return None;
            }
        };
        let len = usize::try_from(header.length).ok()?;
        if self.inbox.len() - FrameHeader::LEN < len {
            return None;
        }
        let mut frame = self.inbox.split_to(FrameHeader::LEN + len).freeze();
        Some((header, frame.split_off(FrameHeader::LEN)))
    }

    fn play(&mut self, stream: i16, request: &Request) {
        let reply = match self.script.pop_front() {
            Some(line) if (line.matches)(request) => line.reply,
            Some(line) => {
                let expected = line.what;
                return self.complain(ScriptError::Unexpected {
                    expected,
                    got: Box::new(request.clone()),
                });
            }
            None => match &self.otherwise {
                Some(reply) => reply.clone(),
                None => {
                    let got = Box::new(request.clone());
                    return self.complain(ScriptError::Unexpected {
                        expected: "nothing more",
                        got,
                    });
                }
            },
        };
        match reply {
            Reply::Answer(response) => self.send(stream, &plain(response)),
            Reply::Envelope(envelope) => self.send(stream, &envelope),
            Reply::Bytes(mut bytes) => {
                if let Some(place) = bytes.get_mut(2..4) {
                    place.copy_from_slice(&stream.to_be_bytes());
                }
                self.outbox.extend(bytes);
            }
            Reply::Silence => (),
            Reply::Close => self.closed = true,
        }
    }

    fn send(&mut self, stream: i16, envelope: &Envelope) {
        envelope
            .encode(&mut self.outbox, &self.features, stream)
            .expect("the answers of a script fit their frames");
    }

    fn complain(&mut self, complaint: ScriptError) {
        self.complaint.get_or_insert(complaint);
    }
}

impl Default for ScriptedPeer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ScriptedPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.script.iter().map(|line| line.what).collect();
        f.debug_struct("ScriptedPeer")
            .field("script", &lines)
            .field("seen", &self.seen)
            .field("complaint", &self.complaint)
            .finish_non_exhaustive()
    }
}

/// Makes an answer that carries nothing but its message.
#[must_use]
pub fn plain(response: Response) -> Envelope {
    Envelope {
        tracing_id: None,
        warnings: Vec::new(),
        custom_payload: Vec::new(),
        response,
    }
}

/// Makes an error answer of a kind that has no further fields.
#[must_use]
pub fn refusal(code: i32, message: &str, detail: ServerErrorDetail) -> Response {
    Response::Error(ServerError {
        code,
        message: message.into(),
        detail,
    })
}
