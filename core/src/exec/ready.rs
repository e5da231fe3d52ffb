//! What every EXECUTE of a statement has in common, put together once: the settled options, the first choice of a node,
//! and the bytes around the values.
//!
//! This module leaves out the values, and everything that differs from one request to the next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Cluster;
use super::straight::goes_straight;
use crate::config::profile::ExecutionProfile;
use crate::exec::prepared::Preparation;
use crate::exec::statement::StatementOptions;
use crate::exec::targets::Target;
use crate::exec::{Connections, Planned};
use crate::policy::load_balancing::{DefaultLoadBalancing, PlanRequest, RoutingView, as_default};
use crate::routing::Routing;
use crate::types::encode::EncodedValues;
use crate::wire::FrameHeader;
use crate::wire::header::ProtocolVersion;
use crate::wire::request::{RequestOptionsRef, ValuesRef};
use crate::wire::supported::ProtocolFeatures;

/// Holds what does not change from one plain EXECUTE of a statement to the next.
///
/// A request is plain when it goes to the first node that the policy names, with nothing but its values to tell it from
/// others. It costs its owner a copy of these bytes, the values and a timestamp.
#[derive(Debug)]
pub struct Ready {
    /// Is the profile of the session.
    default: Arc<ExecutionProfile>,
    profile: Arc<ExecutionProfile>,
    /// Is the policy of the profile, if that is the default one: asked without a detour.
    balancing: Option<DefaultLoadBalancing>,
    timeout: Option<Duration>,
    stable: bool,
    /// Is whether each request has a timestamp of its own.
    stamped: bool,
    layout: ExecuteLayout,
    head: [u8; HEAD],
    head_len: usize,
    tail: [u8; TAIL],
    tail_len: usize,
    timestamp_at: usize,
}

/// Holds what the requests of a statement depend on beside its own options.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Is the profile of the session.
    pub profile: Arc<ExecutionProfile>,
    /// Is what most connections of the session have agreed on.
    pub features: ProtocolFeatures,
}

/// Is what the layout of an EXECUTE depends on, in one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecuteLayout(u8);

impl ExecuteLayout {
    /// Returns that of connections that have agreed on `features`.
    pub fn of(features: &ProtocolFeatures) -> Self {
        let version = match features.version {
            ProtocolVersion::V4 => 0,
            ProtocolVersion::V5 => 1,
        };
        let metadata_id = 2 * u8::from(features.has_metadata_id());
        Self(version | metadata_id | (4 * u8::from(features.tablets_v2)))
    }
}

/// Header, two ids of 16 bytes, consistency, flags and count of values; a statement that needs more is not plain.
const HEAD: usize = 64;
/// Page size, serial consistency, timestamp and tablet block.
const TAIL: usize = 16;
/// Values longer than this go the long way, which checks the length of the whole.
const VALUES_MAX: usize = 1 << 20;
/// Is the place of the body's length in a header.
const LENGTH_AT: usize = 5;

impl Ready {
    /// Puts together what can be; none when the statement's requests are not plain.
    pub(super) fn new(
        preparation: &Preparation,
        options: &StatementOptions,
        defaults: &Defaults,
    ) -> Option<Self> {
        let profile = options.profile.as_ref().unwrap_or(&defaults.profile);
        let is_plain = options.target.is_none()
            && options.paging_state.is_none()
            && options.custom_payload.is_none();
        if !is_plain || !goes_straight(profile) {
            return None;
        }
        let settings = options.settle_timeless(profile);
        let stamped = settings.timestamp.is_none() && profile.client_timestamps;
        let timestamp = settings.timestamp.or_else(|| stamped.then_some(0));
        let values = ValuesRef {
            count: u16::try_from(preparation.bind_columns().len()).ok()?,
            ..ValuesRef::default()
        };
        let mut params = settings.params(settings.consistency, values, None);
        params.timestamp = timestamp;
        let features = &defaults.features;
        let request = preparation.execute(preparation.first_shape(), params, features);
        let extras = RequestOptionsRef {
            tracing: settings.tracing,
            custom_payload: None,
        };
        let mut frame = Vec::new();
        request.encode(&mut frame, features, 0, &extras).ok()?;
        let before = 4 * usize::from(settings.page_size.is_some())
            + 2 * usize::from(settings.serial_consistency.is_some());
        let tail_len =
            before + 8 * usize::from(timestamp.is_some()) + usize::from(features.tablets_v2);
        let (head, tail) = frame.split_at_checked(frame.len().checked_sub(tail_len)?)?;
        Some(Self {
            balancing: as_default(&*profile.load_balancing).cloned(),
            timeout: options.timeout.or(profile.request_timeout),
            stable: PlanRequest::is_stable(preparation.is_conditional(), settings.consistency),
            stamped,
            layout: ExecuteLayout::of(features),
            head: padded(head)?,
            head_len: head.len(),
            tail: padded(tail)?,
            tail_len,
            timestamp_at: before,
            profile: Arc::clone(profile),
            default: Arc::clone(&defaults.profile),
        })
    }

    /// Says whether a session with this profile may use it.
    #[inline]
    pub fn suits(&self, profile: &Arc<ExecutionProfile>) -> bool {
        Arc::ptr_eq(&self.default, profile)
    }

    /// Says whether replicas keep the order of the ring.
    #[inline]
    pub const fn is_stable(&self) -> bool {
        self.stable
    }

    /// Says whether each request has a timestamp of its own.
    #[inline]
    pub const fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// Returns when a request that starts now has failed.
    #[inline]
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        now.checked_add(self.timeout?)
    }

    /// Chooses where a request goes, as [`first_target`](super::straight::first_target) does.
    #[inline(always)] // On the path of every request.
    pub fn first_target<H: Clone>(
        &self,
        request: &PlanRequest,
        routing: &Routing<H>,
        connections: &dyn Connections<H>,
    ) -> Option<Target<H>> {
        let view = RoutingView::new(routing, connections);
        let planned: Planned = match &self.balancing {
            Some(own) => own.first_of(request, &view),
            None => self.profile.load_balancing.first(request, &view),
        }?;
        let cluster = Cluster {
            routing,
            connections,
        };
        cluster.connect(planned, request.seed)
    }

    /// Says whether [`write`](Self::write) can write these values for a connection of this layout.
    #[inline]
    pub fn fits(&self, layout: ExecuteLayout, values: &EncodedValues) -> bool {
        self.layout == layout && values.is_one_block() && values.block().len() <= VALUES_MAX
    }

    /// Appends the frame with these values, byte for byte what the general way would write. The stream id is left open.
    ///
    /// `timestamp` counts where [`is_stamped`](Self::is_stamped) says so.
    #[inline(always)] // On the path of every request.
    pub fn write(&self, out: &mut Vec<u8>, values: &[u8], timestamp: i64) {
        let start = out.len();
        let body = self.head_len - FrameHeader::LEN + values.len() + self.tail_len;
        out.reserve(HEAD + values.len() + TAIL);
        // Whole arrays cost a few stores; what is too much is cut off again.
        out.extend_from_slice(&self.head);
        out.truncate(start + self.head_len);
        let place = out.get_mut(start + LENGTH_AT..).unwrap_or_default();
        if let (Some(place), Ok(body)) = (place.first_chunk_mut(), u32::try_from(body)) {
            *place = body.to_be_bytes();
        }
        out.extend_from_slice(values);
        let mut tail = self.tail;
        if self.stamped
            && let Some(place) = tail.get_mut(self.timestamp_at..)
            && let Some(place) = place.first_chunk_mut()
        {
            *place = timestamp.to_be_bytes();
        }
        let end = out.len() + self.tail_len;
        out.extend_from_slice(&tail);
        out.truncate(end);
    }
}

fn padded<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let mut padded = [0; N];
    padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(padded)
}

#[cfg(test)]
mod tests;
