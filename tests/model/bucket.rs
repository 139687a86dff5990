//! Naive buckets: tokens held or a level of units, as exact fractions.
//!
//! The token bucket keeps the tokens it holds, as the contract words it; the leaky bucket keeps its
//! level. Both speak of `used`, the units that time must bring or drain until the key is as if
//! never used.

use num_rational::BigRational;
use proptest::prelude::*;
use redis_rl::algorithm::bucket::{Quota, Rate, State};
use redis_rl::algorithm::leaky_bucket::LeakyBucket;
use redis_rl::algorithm::token_bucket::TokenBucket;
use redis_rl::algorithm::{Clock, Decision, Request, Verdict, Wait};
use redis_rl::error::Error;

use super::draw::{Scale, magnitude};
use super::{Expected, Model, Subject, ceil_u64, floor_u64, judged, whole};

/// 100 years of 365 days, in µs.
const CENTURY_US: u64 = 100 * 365 * 24 * 3600 * 1_000_000;
/// 2^53.
const MOST_UNITS: u64 = 1 << 53;

/// Units in a µs.
pub fn rate(quota: &Quota) -> BigRational {
    let units = BigRational::new(
        quota.rate.mantissa.into(),
        10_u64.pow(u32::from(quota.rate.decimals)).into(),
    );
    units / whole(quota.period_ms) / whole(1000)
}

/// The code's level as units: it counts 10^decimals for a µs of the period as one unit.
pub fn level(state: &State) -> BigRational {
    let decimals = 10_u128.pow(u32::from(state.quota.rate.decimals));
    let a_unit = decimals * u128::from(state.quota.period_ms) * 1000;
    BigRational::new(state.level.into(), a_unit.into())
}

/// The least of what the rounding at a change of the rate must stay below.
fn rounding(quota: &Quota) -> BigRational {
    rate(quota).max(BigRational::new(1.into(), 1_000_000_000.into()))
}

/// What is kept of a key.
#[derive(Clone, Debug)]
struct Kept {
    quota: Quota,
    /// Tokens held, or the level.
    content: BigRational,
    at_us: u64,
}

/// A bucket that keeps its tokens (`HOLDS_TOKENS`) or its level.
#[derive(Default)]
pub struct Bucket<const HOLDS_TOKENS: bool>(Option<Kept>);

/// The key at the time and with the parameters of a call.
struct Present {
    used: BigRational,
    us: u64,
    outdated: bool,
}

impl<const HOLDS_TOKENS: bool> Bucket<HOLDS_TOKENS> {
    fn used(content: &BigRational, quota: &Quota) -> BigRational {
        if HOLDS_TOKENS { whole(quota.capacity) - content } else { content.clone() }
    }

    fn content(used: &BigRational, quota: &Quota) -> BigRational {
        if HOLDS_TOKENS { whole(quota.capacity) - used } else { used.clone() }
    }

    /// The units used after time has passed, at the rate that was stored.
    fn used_at(kept: &Kept, us: u64) -> BigRational {
        let brought = rate(&kept.quota) * whole(us.saturating_sub(kept.at_us));
        (Self::used(&kept.content, &kept.quota) - brought).max(whole(0))
    }

    /// The units used under other parameters: tokens stay but for those that no longer fit, a
    /// level stays.
    fn adopt(used: &BigRational, old: &Quota, new: &Quota) -> BigRational {
        let content = Self::content(used, old);
        if HOLDS_TOKENS {
            Self::used(&content.min(whole(new.capacity)), new)
        } else {
            Self::used(&content, new)
        }
    }

    fn present(
        &self,
        quota: &Quota,
        clock: Clock,
        carried: Option<Result<State, Error>>,
    ) -> Result<Result<Present, Vec<Error>>, TestCaseError> {
        let Some(kept) = &self.0 else {
            let (us, _) = judged(clock, 0);
            return Ok(Ok(Present { used: whole(0), us, outdated: false }));
        };
        let (us, back_us) = judged(clock, kept.at_us);
        let outdated = kept.quota != *quota || back_us > 0;
        let mut used = Self::used_at(kept, us);
        // From its reset on, a state counts as absent.
        if used == whole(0) || kept.quota == *quota {
            return Ok(Ok(Present { used, us, outdated }));
        }
        used = Self::adopt(&used, &kept.quota, quota);
        let rate_changed = (kept.quota.rate, kept.quota.period_ms) != (quota.rate, quota.period_ms);
        match carried {
            Some(Ok(state)) if rate_changed => {
                let rounded = level(&state) - &used;
                prop_assert!(rounded >= whole(0), "a fraction was rounded in the caller's favor");
                prop_assert!(rounded < rounding(quota), "rounded by {rounded} of a unit");
                used = level(&state);
            }
            Some(Err(_)) => {
                let slack = if rate_changed { rounding(quota) } else { whole(0) };
                let errors = beyond(quota, &(&used + slack));
                prop_assert!(!errors.is_empty(), "an error, though {used} units are in bounds");
                return Ok(Err(errors));
            }
            _ => {}
        }
        let errors = beyond(quota, &used);
        Ok(if errors.is_empty() { Ok(Present { used, us, outdated }) } else { Err(errors) })
    }

    /// The answer from what is used before and after the call.
    fn decision(
        quota: &Quota,
        verdict: Verdict,
        before: &BigRational,
        after: &BigRational,
        request: &Request,
    ) -> Decision {
        let waits = !HOLDS_TOKENS && verdict == Verdict::Allowed;
        Decision {
            verdict,
            limit: quota.capacity,
            remaining: remaining(quota, after, request),
            retry_after: retry_after(quota, after, request),
            reset_after_us: ceil_u64(&(after / rate(quota))),
            delay_us: if waits { ceil_u64(&(before / rate(quota))) } else { 0 },
        }
    }
}

/// The errors of a state in which so many units are used.
fn beyond(quota: &Quota, used: &BigRational) -> Vec<Error> {
    let mut errors = Vec::new();
    if used / rate(quota) > whole(CENTURY_US) {
        errors.push(Error::TooSlow);
    }
    if *used > whole(MOST_UNITS) {
        errors.push(Error::TooManyUnits);
    }
    errors
}

/// The most that may be used before an unforced request of `cost` units passes: room for its cost
/// and the reserve, and no delay longer than accepted. Negative where nothing is little enough.
fn threshold(quota: &Quota, request: &Request, cost: u64) -> BigRational {
    let room = whole(quota.capacity) - whole(request.reserve) - whole(cost);
    match request.max_delay_ms {
        Some(ms) if room >= whole(0) => room.min(rate(quota) * whole(ms) * whole(1000)),
        _ => room,
    }
}

fn remaining(quota: &Quota, used: &BigRational, request: &Request) -> u64 {
    let room = whole(quota.capacity) - whole(request.reserve) - used;
    let bound = (rate(quota) * whole(CENTURY_US)).min(whole(MOST_UNITS)) - used;
    let mut most = room.min(bound).floor();
    if let Some(ms) = request.max_delay_ms {
        // The first call needs no more than its own delay, each further one that of a unit more.
        let longest = rate(quota) * whole(ms) * whole(1000);
        most = most.min((longest - used + whole(1)).floor());
    }
    floor_u64(&most.max(whole(0)))
}

fn retry_after(quota: &Quota, used: &BigRational, request: &Request) -> Wait {
    let cost = if request.force || request.cost == 0 { 1 } else { request.cost };
    let bound = (rate(quota) * whole(CENTURY_US)).min(whole(MOST_UNITS)) - whole(cost);
    let threshold = threshold(quota, request, cost).min(bound);
    if threshold < whole(0) {
        return Wait::Never;
    }
    Wait::Us(ceil_u64(&((used - threshold).max(whole(0)) / rate(quota))))
}

fn verdict(quota: &Quota, used: &BigRational, request: &Request) -> Result<Verdict, Vec<Error>> {
    if request.cost == 0 {
        return Ok(Verdict::Allowed);
    }
    let checked = |units: &BigRational, verdict| {
        let errors = beyond(quota, units);
        if errors.is_empty() { Ok(verdict) } else { Err(errors) }
    };
    let threshold = threshold(quota, request, request.cost);
    if request.force || *used <= threshold {
        return checked(&(used + whole(request.cost)), Verdict::Allowed);
    }
    let denied = if request.shadow { Verdict::Shadowed } else { Verdict::Denied };
    // A cost under the limit that is an error in every state is one in this state too.
    if threshold >= whole(0) { checked(&whole(request.cost), denied) } else { Ok(denied) }
}

impl<S, const HOLDS_TOKENS: bool> Model<S> for Bucket<HOLDS_TOKENS>
where
    S: Subject<Quota = Quota, State = State>,
{
    fn call(
        &mut self,
        quota: &Quota,
        request: &Request,
        clock: Clock,
        carried: Option<Result<State, Error>>,
    ) -> Result<Expected, TestCaseError> {
        let present = match self.present(quota, clock, carried)? {
            Ok(present) => present,
            Err(errors) => return Ok(Expected { answer: Err(errors), writes: false }),
        };
        let verdict = match verdict(quota, &present.used, request) {
            Ok(verdict) => verdict,
            Err(errors) => return Ok(Expected { answer: Err(errors), writes: false }),
        };
        let takes = verdict == Verdict::Allowed && !request.peek;
        let taken = if takes { request.cost } else { 0 };
        let used = &present.used + whole(taken);
        let decision = Self::decision(quota, verdict, &present.used, &used, request);
        let writes = taken > 0 || (present.outdated && !request.peek);
        if writes {
            let content = Self::content(&used, quota);
            self.0 = Some(Kept { quota: *quota, content, at_us: present.us });
        }
        Ok(Expected { answer: Ok(decision), writes })
    }

    fn refund(&mut self, units: u64, clock: Clock) -> Expected {
        let Some(kept) = self.0.clone() else { unreachable!("a refund needs a key") };
        let (us, back_us) = judged(clock, kept.at_us);
        let before = Self::used_at(&kept, us);
        let used = (&before - whole(units)).max(whole(0));
        let look = Request::look(1);
        // The reply is that of a look afterwards; where that would be an error, it says no.
        let verdict = verdict(&kept.quota, &used, &look).unwrap_or(Verdict::Denied);
        let decision = Self::decision(&kept.quota, verdict, &used, &used, &look);
        let writes = used < before || back_us > 0;
        if writes {
            let content = Self::content(&used, &kept.quota);
            self.0 = Some(Kept { quota: kept.quota, content, at_us: us });
        }
        Expected { answer: Ok(decision), writes }
    }

    fn check(&self, state: Option<&State>) -> Result<(), TestCaseError> {
        let Some(state) = state else {
            prop_assert!(self.0.is_none(), "a key is missing");
            return Ok(());
        };
        let Some(kept) = &self.0 else { return Err(TestCaseError::fail("a key too many")) };
        prop_assert_eq!(state.quota, kept.quota);
        prop_assert_eq!(state.at_us, kept.at_us);
        prop_assert_eq!(level(state), Self::used(&kept.content, &kept.quota));
        Ok(())
    }
}

/// Limits of one scale: a first one, and others that share much with it.
pub fn quotas() -> BoxedStrategy<Vec<Quota>> {
    let others = (0..4_u8, 0..4_u8);
    let quotas = Scale::any().prop_flat_map(move |scale| {
        (quota(scale), quota(scale), others.clone()).prop_map(|(first, other, (second, third))| {
            vec![first, kin(&first, &other, second), kin(&first, &other, third)]
        })
    });
    quotas.boxed()
}

fn quota(scale: Scale) -> BoxedStrategy<Quota> {
    let parts = match scale {
        Scale::Small => (1..=6_u64, 1..=30_u64, 0..=1_u8, 1..=5_u64).boxed(),
        Scale::Usual => (
            1..=10_000_u64,
            prop_oneof![Just(1_u64), Just(7), 1..=100_000_u64],
            0..=4_u8,
            prop_oneof![Just(1000_u64), Just(60_000), Just(900_000), Just(3_600_000)],
        )
            .boxed(),
        Scale::Wild => (
            magnitude(1, MOST_UNITS),
            magnitude(1, 1_000_000_000_000_000_000),
            0..=9_u8,
            magnitude(1, 315_360_000_000),
        )
            .boxed(),
    };
    let built = |(capacity, mantissa, decimals, period_ms)| Quota {
        capacity,
        rate: decimal(mantissa, decimals),
        period_ms,
    };
    parts.prop_map(built).boxed()
}

/// A rate as the parser returns it: at most the greatest, and no zeros at the end.
fn decimal(mantissa: u64, decimals: u8) -> Rate {
    let largest = 1_000_000_000 * 10_u64.pow(u32::from(decimals));
    let mut rate = Rate { mantissa: mantissa.min(largest), decimals };
    while rate.decimals > 0 && rate.mantissa.is_multiple_of(10) {
        rate.mantissa /= 10;
        rate.decimals -= 1;
    }
    rate
}

/// `first` with some of its parameters from `other`.
fn kin(first: &Quota, other: &Quota, which: u8) -> Quota {
    match which {
        0 => Quota { capacity: other.capacity, ..*first },
        1 => Quota { capacity: first.capacity, ..*other },
        // Another way to write the same ratio, as far as the ranges allow.
        2 if first.period_ms <= 100_000_000_000 && first.rate.mantissa <= 300_000_000 => {
            let rate = decimal(first.rate.mantissa * 3, first.rate.decimals);
            Quota { rate, period_ms: first.period_ms * 3, ..*first }
        }
        _ => *other,
    }
}

fn pace_us(quota: &Quota) -> u64 {
    ceil_u64(&(whole(1) / rate(quota)))
}

fn full_us(quota: &Quota) -> BigRational {
    whole(quota.capacity) / rate(quota)
}

fn used(state: &State, us: u64) -> BigRational {
    let drained = rate(&state.quota) * whole(us.saturating_sub(state.at_us));
    (level(state) - drained).max(whole(0))
}

macro_rules! subject {
    ($limiter:ty, $holds_tokens:literal) => {
        impl Subject for $limiter {
            type Model = Bucket<$holds_tokens>;
            const DELAYS: bool = !$holds_tokens;
            const ROUNDS: bool = false;

            fn quotas() -> BoxedStrategy<Vec<Quota>> {
                quotas()
            }

            fn limit(quota: &Quota) -> u64 {
                quota.capacity
            }

            fn with_limit(quota: &Quota, capacity: u64) -> Quota {
                Quota { capacity, ..*quota }
            }

            fn pace_us(quota: &Quota) -> u64 {
                pace_us(quota)
            }

            fn full_us(quota: &Quota) -> BigRational {
                full_us(quota)
            }

            fn brought(quota: &Quota, us: u128) -> BigRational {
                rate(quota) * whole(us)
            }

            fn at_us(state: &State) -> u64 {
                state.at_us
            }

            fn used(state: &State, us: u64) -> BigRational {
                used(state, us)
            }
        }
    };
}

subject!(TokenBucket, true);
subject!(LeakyBucket, false);
