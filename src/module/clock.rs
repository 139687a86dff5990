//! The time of a call, read once.

use redis_module::raw;

use super::config;
use crate::algorithm::Clock;
use crate::error::Error;

/// The time by which a call is judged, and the server's, by which its key expires.
#[derive(Clone, Copy)]
pub struct Time {
    /// The clock of the call: the server's, or the caller's own.
    pub clock: Clock,
    server_us: u64,
}

impl Time {
    /// The time of a call that may bring its own.
    ///
    /// # Errors
    /// [`Error::ClientTime`], where the configuration does not let callers bring their own.
    pub fn read(at_ms: Option<u64>) -> Result<Time, Error> {
        let server_us = server_us();
        let clock = match at_ms {
            None => Clock::Server(server_us),
            Some(at_ms) if config::client_time() => Clock::Caller(at_ms * 1000),
            Some(_) => return Err(Error::ClientTime),
        };
        Ok(Time { clock, server_us })
    }

    /// The server's time, in µs since the epoch.
    pub const fn server_us(&self) -> u64 {
        self.server_us
    }

    /// When a key expires that is as if never used after so many µs: in ms since the epoch of the
    /// server's clock, rounded up, since it may vanish only when it changes no answer.
    pub fn expire_ms(&self, reset_after_us: u64) -> i64 {
        let expire_ms = self.server_us.saturating_add(reset_after_us).div_ceil(1000);
        i64::try_from(expire_ms).unwrap_or(i64::MAX)
    }
}

/// The server's clock in µs: from Redis 7.2 on its cached time, which expires keys too and stands
/// still within a transaction or script; before, the system's.
fn server_us() -> u64 {
    // SAFETY: the pointer is written at load alone, before any command; the function behind it
    // takes nothing and only reads the server's time.
    let cached_us = unsafe { raw::RedisModule_CachedMicroseconds.map(|cached_us| cached_us()) };
    if let Some(cached_us) = cached_us {
        return u64::try_from(cached_us).unwrap_or_default();
    }
    system_us(libc::CLOCK_REALTIME)
}

/// A clock of the system, in µs. The standard library's way takes more instructions, in every call.
pub fn system_us(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clocks that are asked for are always there, and the time is written to memory
    // that is ours.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000) + u64::try_from(now.tv_nsec / 1000).unwrap_or_default()
}
