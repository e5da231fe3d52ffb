//! Owns the steps from an open socket to a usable connection.
//! Leaves out bytes and timers: it is asked what to say, and told what was answered.

use std::sync::Arc;
use std::time::Instant;

use crate::conn::HANDSHAKE_STREAM;
use crate::conn::plan::{ConnectionInfo, ConnectionPlan, Role};
use crate::error::connect::{ConnectCause, ConnectPhase};
use crate::error::protocol::{ProtocolError, ProtocolErrorKind};
use crate::notify::Note;
use crate::report::startup::{StartupOptions, bare_startup_options, startup_options};
use crate::time::later;
use crate::wire::{
    Compression, Envelope, EventKind, ParamsRef, ProtocolFeatures, ProtocolVersion, RequestRef,
    Response, ResponseFrame, ResultBody, ServerError, ServerErrorDetail, Sharding, Supported,
};

/// Goes through the steps of one connection.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) step: Step,
    /// Is when the whole of it must be over.
    pub(crate) deadline: Instant,
    supported: Supported,
    features: ProtocolFeatures,
    events: Vec<EventKind>,
    pub(crate) notes: Vec<Note>,
    /// Is what the server was just told about the configuration.
    pub(crate) reported: Option<Arc<str>>,
    /// Is set once a server was told no more than it needs.
    is_bare: bool,
}

/// Names the request whose answer is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    #[cfg_attr(
        not(feature = "rustls-023"),
        expect(dead_code, reason = "not built in")
    )]
    Tls,
    Options,
    Startup,
    Auth,
    Register,
    Keyspace,
}

/// Is what to say next.
#[derive(Debug)]
pub(crate) enum Say {
    Startup(Vec<(String, String)>),
    AuthResponse(Vec<u8>),
    Register(Vec<EventKind>),
    /// Is a statement.
    Query(String),
    /// Is nothing: the connection is usable.
    Ready(ConnectionInfo),
}

impl Handshake {
    pub(crate) fn new(now: Instant, plan: &ConnectionPlan) -> Self {
        let events = match plan.role {
            Role::Control => plan.events.clone(),
            Role::Data => Vec::new(),
        };
        let features = ProtocolFeatures {
            version: plan.version,
            ..ProtocolFeatures::default()
        };
        Self {
            step: Step::Options,
            deadline: later(now, plan.session.connection.handshake_timeout),
            supported: Supported::default(),
            features,
            events,
            notes: Vec::new(),
            reported: None,
            is_bare: false,
        }
    }

    /// Returns the features in force: none before they were agreed on.
    pub(crate) fn features(&self) -> &ProtocolFeatures {
        &self.features
    }

    pub(crate) fn phase(&self) -> ConnectPhase {
        match self.step {
            Step::Tls => ConnectPhase::Tls,
            Step::Options => ConnectPhase::Options,
            Step::Startup => ConnectPhase::Startup,
            Step::Auth => ConnectPhase::Auth,
            Step::Register => ConnectPhase::Register,
            Step::Keyspace => ConnectPhase::Keyspace,
        }
    }

    /// Takes the answer to the current step and says what comes next.
    pub(crate) fn answer(
        &mut self,
        plan: &ConnectionPlan,
        frame: &ResponseFrame,
    ) -> Result<Say, ConnectCause> {
        let Envelope {
            warnings, response, ..
        } = frame
            .parse(&self.features)
            .map_err(ConnectCause::Protocol)?;
        for text in warnings.into_iter().take(WARNINGS_MAX) {
            self.notes.push(Note::ServerWarning {
                address: plan.address.clone(),
                text,
            });
        }
        match (self.step, response) {
            (Step::Register, Response::Error(error)) if self.can_do_without(&error, plan) => {
                self.after_login(plan)
            }
            (Step::Startup, Response::Error(error)) if self.may_tell_less(frame, &error) => {
                self.is_bare = true;
                self.notes.push(Note::StartupShortened {
                    address: plan.address.clone(),
                    answer: error.message,
                });
                let startup = bare_startup_options(&self.supported, &self.features);
                Ok(self.say_startup(startup))
            }
            (step, Response::Error(error)) => Err(refusal(step, plan.version, error)),
            (Step::Options, Response::Supported(supported)) => Ok(self.start_up(plan, supported)),
            (Step::Startup, Response::Ready) => {
                if plan.session.credentials.is_some() {
                    self.notes.push(Note::LoginNotAsked {
                        address: plan.address.clone(),
                    });
                }
                self.after_login(plan)
            }
            (Step::Startup, Response::Authenticate(authenticator)) => {
                self.log_in(plan, authenticator)
            }
            (Step::Auth, Response::AuthSuccess(_)) => self.after_login(plan),
            (Step::Auth, Response::AuthChallenge(_)) => Err(ConnectCause::UnexpectedChallenge),
            (Step::Register, Response::Ready) => self.after_register(plan),
            (Step::Keyspace, Response::Result(ResultBody::SetKeyspace(_))) => Ok(self.ready(plan)),
            _ => Err(ConnectCause::Protocol(unexpected(frame))),
        }
    }

    fn start_up(&mut self, plan: &ConnectionPlan, supported: Supported) -> Say {
        self.features = agree(plan.version, &supported);
        self.features.compression = self.compression(plan, &supported);
        let startup = startup_options(plan, &supported, &self.features);
        if supported.sharding() == Sharding::Unreadable {
            let address = plan.address.clone();
            self.notes.push(Note::ShardsUnreadable { address });
        }
        self.supported = supported;
        self.step = Step::Startup;
        self.say_startup(startup)
    }

    fn say_startup(&mut self, startup: StartupOptions) -> Say {
        self.notes.extend(startup.notes);
        self.reported = startup.driver_config;
        Say::Startup(startup.options)
    }

    /// Says whether a server may have stumbled over an option that it does not need.
    ///
    /// An error that is no answer to the message is followed by the end of the connection.
    fn may_tell_less(&self, frame: &ResponseFrame, error: &ServerError) -> bool {
        let is_answer = frame.header.stream == HANDSHAKE_STREAM;
        let is_about_message = matches!(
            error.detail,
            ServerErrorDetail::ProtocolError | ServerErrorDetail::Invalid
        );
        is_answer && is_about_message && !self.is_bare && !is_refused_version(Step::Startup, error)
    }

    /// Returns the compression that is wanted, if the server and the version have it.
    fn compression(&mut self, plan: &ConnectionPlan, supported: &Supported) -> Option<Compression> {
        let compression = plan.session.connection.compression?;
        let offered = supported.offered();
        let usable = match compression {
            Compression::Lz4 => offered.lz4,
            Compression::Snappy => offered.snappy && plan.version == ProtocolVersion::V4,
        };
        if usable && compression.is_built_in() {
            return Some(compression);
        }
        self.notes.push(Note::CompressionNotOffered {
            address: plan.address.clone(),
            compression,
        });
        None
    }

    fn log_in(
        &mut self,
        plan: &ConnectionPlan,
        authenticator: String,
    ) -> Result<Say, ConnectCause> {
        self.step = Step::Auth;
        if let Some(allowed) = &plan.session.authenticators_allowed
            && !allowed.contains(&authenticator)
        {
            return Err(ConnectCause::AuthenticatorRefused { authenticator });
        }
        let Some(credentials) = &plan.session.credentials else {
            return Err(ConnectCause::NoCredentials { authenticator });
        };
        let login = credentials
            .login(&plan.address, &authenticator)
            .map_err(|error| ConnectCause::Login(Arc::new(error)))?;
        Ok(Say::AuthResponse(login.plain_token()))
    }

    fn after_login(&mut self, plan: &ConnectionPlan) -> Result<Say, ConnectCause> {
        if self.events.is_empty() {
            return self.after_register(plan);
        }
        self.step = Step::Register;
        Ok(Say::Register(self.events.clone()))
    }

    fn after_register(&mut self, plan: &ConnectionPlan) -> Result<Say, ConnectCause> {
        match &plan.keyspace {
            Some(keyspace) => {
                self.step = Step::Keyspace;
                Ok(Say::Query(format!(
                    "USE \"{}\"",
                    keyspace.replace('"', "\"\"")
                )))
            }
            None => Ok(self.ready(plan)),
        }
    }

    fn ready(&mut self, plan: &ConnectionPlan) -> Say {
        Say::Ready(ConnectionInfo {
            address: plan.address.clone(),
            features: self.features,
            shard: self.supported.shard_info(),
            host_id: self.supported.host_id(),
        })
    }

    /// Gives up events that an older server does not know, rather than the connection.
    fn can_do_without(&mut self, error: &ServerError, plan: &ConnectionPlan) -> bool {
        let before = self.events.len();
        if error.detail == ServerErrorDetail::ProtocolError {
            self.events
                .retain(|kind| *kind != EventKind::ClientRoutesChange);
        }
        let dropped = self.events.len() < before;
        if dropped {
            let kind = EventKind::ClientRoutesChange;
            self.notes.push(Note::EventNotOffered {
                address: plan.address.clone(),
                kind,
            });
        }
        dropped
    }
}

impl Say {
    /// Passes what to say as a request; a usable connection has nothing to say.
    pub(crate) fn with_request<R>(&self, send: impl FnOnce(RequestRef<'_>) -> R) -> Option<R> {
        Some(match self {
            Self::Startup(options) => send(RequestRef::Startup(options)),
            Self::AuthResponse(token) => send(RequestRef::AuthResponse(Some(token))),
            Self::Register(events) => send(RequestRef::Register(events)),
            Self::Query(text) => send(RequestRef::Query {
                text,
                params: ParamsRef::default(),
            }),
            Self::Ready(_) => return None,
        })
    }
}

/// Chooses what to use of what a server offers.
///
/// Routing hints for tablets are left alone as long as nothing reads them: each would cost bytes in answers.
fn agree(version: ProtocolVersion, supported: &Supported) -> ProtocolFeatures {
    ProtocolFeatures {
        tablets_v1: false,
        tablets_v2: false,
        ..supported.offered().accept(version)
    }
}

/// Tells a refused version from other errors by the words that all servers use.
fn refusal(step: Step, version: ProtocolVersion, error: ServerError) -> ConnectCause {
    if is_refused_version(step, &error) {
        return ConnectCause::Version {
            server: version.byte().saturating_sub(1),
        };
    }
    ConnectCause::Server(Arc::new(error))
}

fn is_refused_version(step: Step, error: &ServerError) -> bool {
    let text = error.message.to_ascii_lowercase();
    let is_version =
        text.contains("unsupported protocol version") || text.contains("use_beta flag is unset");
    matches!(step, Step::Options | Step::Startup) && is_version
}

fn unexpected(frame: &ResponseFrame) -> ProtocolError {
    ProtocolError::new(ProtocolErrorKind::UnexpectedAnswer, OPCODE_AT)
        .in_frame(frame.header.opcode.byte())
}

/// Is the place of the opcode in a header.
pub(crate) const OPCODE_AT: usize = 4;

/// Is how many warnings of one answer are passed on: more of them say nothing more, and a few bytes can be thousands.
const WARNINGS_MAX: usize = 16;
