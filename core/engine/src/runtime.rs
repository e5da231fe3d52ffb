//! The `Runtime` trait: everything the engine asks of an executor and its clock.
//! No policy lives behind it: no retry, no time-out, no fallback.

use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Instant;

use futures_io::{AsyncRead, AsyncWrite};
use messina_core::conn::ConnectSpec;
use messina_core::seed::Seed;

/// Spawns tasks, opens sockets, resolves names and tells the time for the engine.
///
/// No method has a default body, so that an implementation (a simulation above all) cannot forget one.
pub trait Runtime: Clone + Send + Sync + 'static {
    /// The byte stream of an open connection.
    ///
    /// A write is expected to accept several slices at once (`poll_write_vectored`).
    /// A read that follows a short read should wait for readiness instead of asking the system again.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// A timer that can be armed again.
    type Sleep: Future<Output = ()> + Send + 'static;

    /// Starts a task that nobody joins.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// Makes a timer that completes at `at`, or at once when that has passed.
    fn sleep_until(&self, at: Instant) -> Self::Sleep;

    /// Arms a timer again, without allocating a new one; a completed timer may be armed again too.
    fn reset(sleep: Pin<&mut Self::Sleep>, at: Instant);

    /// Makes one attempt to open a connection.
    ///
    /// There is no time-out here: the engine drops the future when its deadline passes.
    fn connect(&self, spec: ConnectSpec) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Resolves a host name without blocking the executor.
    fn resolve(
        &self,
        host: String,
        port: u16,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;

    /// Finds the runtime of the calling task; an error, never a panic, when there is none.
    fn current() -> io::Result<Self>;

    /// Says whether everything a session needs is there, before it starts; an error, never a panic, when it is not.
    fn check(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the monotonic time.
    fn now(&self) -> Instant;

    /// Returns the microseconds since the Unix epoch, for client-side timestamps.
    fn unix_micros(&self) -> i64;

    /// Returns a fresh seed for all randomness of one session.
    fn entropy(&self) -> Seed;
}

/// Makes a seed from the randomness that the standard library draws from the operating system for its hash maps.
///
/// Good for spreading load and for unique ids; not meant for secrets.
pub fn os_seed() -> Seed {
    let mut bytes = [0; 32];
    for chunk in bytes.chunks_mut(8) {
        let hasher = RandomState::new().build_hasher();
        chunk.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    Seed(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_seeds_differ() {
        assert_ne!(os_seed().0, os_seed().0);
    }
}
