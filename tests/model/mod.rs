//! What the tests of the core share: limiters without a server, and what they must answer.
//!
//! - [`bucket`] and [`window`]: naive models of the limiters, written from the contract in
//!   `docs/commands.md`, with exact fractions and plain lists, and no thought of speed;
//! - [`draw`]: random limits, requests and steps of the clock, from the smallest, where much
//!   collides, to the bounds of every argument;
//! - [`world`]: a key and a clock that random histories play on;
//! - [`agree`]: a history played on both, and compared entry by entry;
//! - [`dice`]: random choices that a seed repeats, where there are too many to shrink.

// Each test binary uses the part it needs.
#![allow(dead_code)]

pub mod agree;
pub mod bucket;
#[path = "../support/dice.rs"]
pub mod dice;
pub mod draw;
pub mod window;
pub mod world;

use std::fmt::Debug;

use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::strategy::BoxedStrategy;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError};
use redis_rl::algorithm::{Clock, Decision, Limiter, Request};
use redis_rl::error::Error;

/// The settings of a property: so many cases, or as many as `PROPTEST_CASES` asks for.
pub fn cases(count: u32) -> Config {
    let persistence = FileFailurePersistence::WithSource("regressions");
    let config = Config { failure_persistence: Some(Box::new(persistence)), ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        return config;
    }
    Config { cases: count, ..config }
}

/// A limiter as the properties see it.
pub trait Subject:
    Limiter<
        Quota: Debug + 'static,
        State: Clone + Debug + PartialEq,
        Change: Clone + Debug + PartialEq,
    > + Sized
    + 'static
{
    /// Its naive model.
    type Model: Model<Self>;
    /// Whether requests may say `MAXDELAY`.
    const DELAYS: bool;
    /// Whether requests may say `RESOLUTION`.
    const ROUNDS: bool;

    /// One limit, and up to two others that a later call may bring.
    fn quotas() -> BoxedStrategy<Vec<Self::Quota>>;

    /// Capacity or limit.
    fn limit(quota: &Self::Quota) -> u64;

    /// The same quota with another capacity or limit.
    fn with_limit(quota: &Self::Quota, limit: u64) -> Self::Quota;

    /// A stretch of time in which something happens: that of one unit, or the window.
    fn pace_us(quota: &Self::Quota) -> u64;

    /// The longest time until the limit is as if never used, without any debt.
    fn full_us(quota: &Self::Quota) -> BigRational;

    /// The units that time brings in `us`.
    fn brought(quota: &Self::Quota, us: u128) -> BigRational;

    /// The time of the last write.
    fn at_us(state: &Self::State) -> u64;

    /// The units that the state holds against the caller at `us`, not before the last write.
    fn used(state: &Self::State, us: u64) -> BigRational;
}

/// What the contract says about a call.
#[derive(Debug)]
pub struct Expected {
    /// The numbers of the reply, or the errors of which one is due.
    pub answer: Result<Decision, Vec<Error>>,
    /// Whether the call writes.
    pub writes: bool,
}

/// A key as the contract describes it. `carried` is the state that the code has after it adopted
/// the quota, for the one rounding that the contract leaves open: the model checks its bound and
/// goes on from it.
pub trait Model<S: Subject>: Default {
    /// A call of the limiter.
    fn call(
        &mut self,
        quota: &S::Quota,
        request: &Request,
        clock: Clock,
        carried: Option<Result<S::State, Error>>,
    ) -> Result<Expected, TestCaseError>;

    /// `RL.REFUND` on a key that is there.
    fn refund(&mut self, units: u64, clock: Clock) -> Expected;

    /// Whether the key holds what the contract says.
    fn check(&self, state: Option<&S::State>) -> Result<(), TestCaseError>;
}

/// The instant at which a call on a key last written at `at_us` is judged, and how far the
/// server's clock was set back before it.
pub fn judged(clock: Clock, at_us: u64) -> (u64, u64) {
    match clock {
        Clock::Server(us) if us < at_us => (us, at_us - us),
        Clock::Caller(us) if us < at_us => (at_us, 0),
        Clock::Server(us) | Clock::Caller(us) => (us, 0),
    }
}

/// A whole number as a fraction.
pub fn whole(value: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(value.into())
}

/// A count, which rounds down; at most what the type holds.
pub fn floor_u64(value: &BigRational) -> u64 {
    u64::try_from(value.floor().to_integer()).unwrap_or(u64::MAX)
}

/// A wait, which rounds up; at most what the type holds.
pub fn ceil_u64(value: &BigRational) -> u64 {
    u64::try_from(value.ceil().to_integer()).unwrap_or(u64::MAX)
}
