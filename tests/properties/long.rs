//! The promises, kept for long: virtual time alone passes, no clock is waited for.
//!
//! - `steady`: at 95 % of the rate nothing is denied, at 200 % as much passes as is due;
//! - `adversaries`: ten callers who time their calls on the edges get no more than the contract.
//!
//! Random choices come from seeds, which failures name. The crate that has this module says in
//! `LENGTH` how long it is to run.

pub mod adversaries;
pub mod ledger;
pub mod steady;

use redis_rl::algorithm::bucket::{self, Rate};

/// How long the properties run.
pub struct Length {
    /// Virtual time of steady callers.
    pub minutes: u64,
    /// Calls of the adversaries, on each limit.
    pub calls: u64,
    /// Games of the adversaries, on each limit.
    pub seeds: u64,
}

/// Where virtual time begins, within a ms.
pub const START_US: u64 = 1_700_000_000_000_123;

/// The limit `capacity`, `mantissa` / 10^`decimals`, `period_ms`.
pub const fn rate(capacity: u64, mantissa: u64, decimals: u8, period_ms: u64) -> bucket::Quota {
    bucket::Quota { capacity, rate: Rate { mantissa, decimals }, period_ms }
}
