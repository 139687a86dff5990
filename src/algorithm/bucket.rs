//! What token bucket and leaky bucket share: a level that time drains at a constant rate.
//!
//! The level is what a token bucket lacks and what a leaky bucket holds: an absent key is at 0 and
//! no level stays above 0 for longer than 100 years. It is counted in shares, fractions of a unit
//! of such a size that one µs drains a whole number of them: a unit has `period-ms` x 1000 x
//! 10^decimals shares and a µs drains as many as the rate without its point. So nothing is ever
//! rounded by the passing of time, however often a key is asked. The rates of two calls that write
//! the same ratio differently have different shares; converting a level rounds its fraction up
//! once, by less than one share, which is at most what one µs drains.

use std::marker::PhantomData;

use super::{Clock, Decision, Limiter, Request, Verdict, Wait};
use crate::error::Error;
use crate::limits;

/// Units per period, as an exact decimal: `mantissa` / 10^`decimals`, without trailing zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// 1 to [`limits::MAX_MANTISSA`].
    pub mantissa: u64,
    /// 0 to [`limits::MAX_DECIMALS`].
    pub decimals: u8,
}

impl Rate {
    /// What a rate is divided by: 10^`decimals`.
    pub fn scale(&self) -> u64 {
        power_of_ten(self.decimals)
    }
}

/// 10^`decimals`, for 0 to [`limits::MAX_DECIMALS`].
pub const fn power_of_ten(decimals: u8) -> u64 {
    match decimals {
        0 => 1,
        1 => 10,
        2 => 100,
        3 => 1000,
        4 => 10_000,
        5 => 100_000,
        6 => 1_000_000,
        7 => 10_000_000,
        8 => 100_000_000,
        _ => 1_000_000_000,
    }
}

/// The limit, as the caller states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The most units that the bucket holds, 1 to [`limits::MAX_UNITS`].
    pub capacity: u64,
    /// The units that time brings or drains in each period.
    pub rate: Rate,
    /// 1 to [`limits::MAX_DURATION_MS`].
    pub period_ms: u64,
}

/// What a key remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The limit of the last call that wrote.
    pub quota: Quota,
    /// Shares at `at_us`: what a token bucket lacks, what a leaky bucket holds.
    pub level: u128,
    /// When the last call wrote, in µs since the epoch.
    pub at_us: u64,
}

/// What the level of a bucket stands for.
pub trait Content {
    /// Whether what is in the bucket leaves it in turn, so that a request waits for its own.
    const QUEUES: bool;

    /// The whole units of a level, whose fraction stays, after the capacity changed; none if
    /// nothing is left of the level.
    fn resize(units: u128, old_capacity: u64, new_capacity: u64) -> Option<u128>;
}

/// A limiter with a level: see [`super::token_bucket`] and [`super::leaky_bucket`].
pub struct Bucket<C>(PhantomData<C>);

impl<C: Content> Limiter for Bucket<C> {
    const HOLDS: bool = C::QUEUES;

    type Quota = Quota;
    type State = State;
    type Change = State;

    fn decide(
        quota: &Quota,
        state: Option<&State>,
        request: &Request,
        clock: Clock,
    ) -> Result<(Decision, Option<State>), Error> {
        let scale = Scale::of(quota);
        let present = match state {
            None => Present { level: 0, us: clock.us(), outdated: false },
            Some(state) => state.present::<C>(&scale, clock)?,
        };
        let verdict = scale.verdict(present.level, request)?;
        let takes = verdict == Verdict::Allowed && request.is_real() && request.cost > 0;
        let taken = if takes { scale.shares(request.cost) } else { 0 };
        let level = present.level + taken;
        debug_assert!(level <= scale.most);

        let holds = C::QUEUES && verdict == Verdict::Allowed;
        let delay_us = if holds { scale.time_us(present.level) } else { 0 };
        let decision = scale.decision(verdict, level, delay_us, request);
        let writes = takes || (request.is_real() && present.outdated);
        Ok((decision, writes.then_some(State { quota: *quota, level, at_us: present.us })))
    }

    fn refund(state: &State, units: u64, clock: Clock) -> (Decision, Option<State>) {
        let scale = Scale::of(&state.quota);
        let now = clock.now(state.at_us);
        let before = state.level_at(now.us);
        let level = before.saturating_sub(scale.shares(units));
        let look = Request::look(1);
        let passes = scale.retry_after(level, &look) == Wait::Us(0);
        let verdict = if passes { Verdict::Allowed } else { Verdict::Denied };
        let delay_us = if C::QUEUES && passes { scale.time_us(level) } else { 0 };
        let decision = scale.decision(verdict, level, delay_us, &look);
        let writes = level < before || now.set_back_us > 0;
        (decision, writes.then_some(State { quota: state.quota, level, at_us: now.us }))
    }

    fn no_change(state: &State) -> State {
        *state
    }

    fn quota(state: &State) -> Quota {
        state.quota
    }

    fn create(change: &State) -> State {
        *change
    }

    fn apply(state: &mut State, change: &State) {
        *state = *change;
    }
}

/// A key's level brought up to the time and the quota of the call.
#[derive(Clone, Copy)]
struct Present {
    level: u128,
    us: u64,
    /// The key holds a state that even a denial brings up to date.
    outdated: bool,
}

impl State {
    /// The level at `us`; the time before the last write drains nothing.
    pub fn level_at(&self, us: u64) -> u128 {
        let drained =
            u128::from(us.saturating_sub(self.at_us)) * u128::from(self.quota.shares_a_us());
        self.level.saturating_sub(drained)
    }

    fn present<C: Content>(&self, scale: &Scale<'_>, clock: Clock) -> Result<Present, Error> {
        let now = clock.now(self.at_us);
        let changed = self.quota != *scale.quota;
        let mut level = self.level_at(now.us);
        // A state past its reset is no state: a larger capacity starts full, not at the old one.
        if changed && level > 0 {
            level = scale.carry_over::<C>(level, &self.quota)?;
        }
        Ok(Present { level, us: now.us, outdated: changed || now.set_back_us > 0 })
    }
}

impl Quota {
    /// Shares in one unit: below 2^80, which [`limits`] proves.
    fn shares_a_unit(&self) -> u128 {
        let ms = u128::from(self.period_ms) * u128::from(self.rate.scale());
        ms * 1000
    }

    /// Shares that one µs drains.
    fn shares_a_us(&self) -> u64 {
        self.rate.mantissa
    }

    /// Whether time has room for the level, and the key for its units.
    ///
    /// # Errors
    /// [`Error::TooSlow`] and [`Error::TooManyUnits`].
    pub fn check_level(&self, level: u128) -> Result<(), Error> {
        Scale::of(self).check_level(level)
    }

    /// Units that `level` occupies, a started one counted whole.
    pub fn units(&self, level: u128) -> u64 {
        Scale::of(self).units(level)
    }
}

/// A quota in shares: what the steps of a call need of it, worked out once.
struct Scale<'a> {
    quota: &'a Quota,
    /// Shares in one unit.
    a_unit: u128,
    /// The highest level that a call may leave: 100 years to the reset, and 2^53 units.
    most: u128,
}

impl Scale<'_> {
    fn of(quota: &Quota) -> Scale<'_> {
        let mut scale = Scale { quota, a_unit: quota.shares_a_unit(), most: 0 };
        scale.most = scale.slowest().min(scale.shares(limits::MAX_UNITS));
        scale
    }

    /// The level that takes 100 years to drain.
    fn slowest(&self) -> u128 {
        u128::from(self.quota.shares_a_us()) * u128::from(limits::MAX_RESET_US)
    }

    fn check_level(&self, level: u128) -> Result<(), Error> {
        if level <= self.most {
            return Ok(());
        }
        Err(if level > self.slowest() { Error::TooSlow } else { Error::TooManyUnits })
    }

    /// Shares in `units`, or more than any level may be.
    fn shares(&self, units: u64) -> u128 {
        match u64::try_from(self.a_unit) {
            Ok(a_unit) => u128::from(a_unit) * u128::from(units),
            Err(_) => self.a_unit.saturating_mul(u128::from(units)),
        }
    }

    /// Units that `level` occupies, a started one counted whole.
    fn units(&self, level: u128) -> u64 {
        saturate(div_ceil(level, self.a_unit))
    }

    /// The least whole number of µs that drains `shares`.
    fn time_us(&self, shares: u128) -> u64 {
        saturate(div_ceil(shares, u128::from(self.quota.shares_a_us())))
    }

    /// `level` of the quota `old` under this one, its fraction of a unit rounded up. The bounds
    /// are those of the level that is left under the new capacity.
    fn carry_over<C: Content>(&self, level: u128, old: &Quota) -> Result<u128, Error> {
        let (from, to) = (old.shares_a_unit(), self.a_unit);
        let Some(units) = C::resize(level / from, old.capacity, self.quota.capacity) else {
            return Ok(0);
        };
        let fraction = mul_div_ceil(level % from, to, from);
        let level = units.checked_mul(to).and_then(|shares| shares.checked_add(fraction));
        let level = level.ok_or(Error::TooSlow)?;
        self.check_level(level)?;
        Ok(level)
    }

    /// The highest level at which `request` is allowed; none if its cost is over the limit.
    fn threshold(&self, request: &Request) -> Option<u128> {
        let room = self.quota.capacity.checked_sub(request.reserve)?.checked_sub(request.cost)?;
        Some(self.shares(room).min(self.longest_delay(request)))
    }

    /// The highest level that the caller is willing to wait for.
    fn longest_delay(&self, request: &Request) -> u128 {
        let shares = |ms| u128::from(ms) * 1000 * u128::from(self.quota.shares_a_us());
        request.max_delay_ms.map_or(u128::MAX, shares)
    }

    fn verdict(&self, level: u128, request: &Request) -> Result<Verdict, Error> {
        if request.cost == 0 {
            return Ok(Verdict::Allowed);
        }
        if !request.force {
            let denied = if request.shadow { Verdict::Shadowed } else { Verdict::Denied };
            let Some(threshold) = self.threshold(request) else { return Ok(denied) };
            if level > threshold {
                // What no state could ever take is an error, not a denial to wait for.
                self.check_level(self.shares(request.cost))?;
                return Ok(denied);
            }
        }
        self.check_level(level.saturating_add(self.shares(request.cost)))?;
        Ok(Verdict::Allowed)
    }

    /// The answer to a request that leaves `level`.
    fn decision(&self, verdict: Verdict, level: u128, delay_us: u64, of: &Request) -> Decision {
        Decision {
            verdict,
            limit: self.quota.capacity,
            remaining: self.remaining(level, of),
            retry_after: self.retry_after(level, &of.asking_to_wait()),
            reset_after_us: self.time_us(level),
            delay_us,
        }
    }

    fn remaining(&self, level: u128, request: &Request) -> u64 {
        let capacity = self.quota.capacity;
        let mut remaining =
            capacity.saturating_sub(request.reserve).saturating_sub(self.units(level));
        if remaining > 0 && self.shares(capacity) > self.most {
            let bound = self.most.saturating_sub(level) / self.a_unit;
            remaining = remaining.min(saturate(bound));
        }
        if remaining > 0 && request.max_delay_ms.is_some() {
            let short = self.longest_delay(request).checked_sub(level);
            let bound = short.map_or(0, |shares| shares / self.a_unit + 1);
            remaining = remaining.min(saturate(bound));
        }
        remaining
    }

    fn retry_after(&self, level: u128, request: &Request) -> Wait {
        let bound = self.most.checked_sub(self.shares(request.cost));
        match (self.threshold(request), bound) {
            (Some(threshold), Some(bound)) => {
                Wait::Us(self.time_us(level.saturating_sub(threshold.min(bound))))
            }
            _ => Wait::Never,
        }
    }
}

/// `a` / `b`, rounded up: without the machine's division of 128 bits wherever 64 do.
fn div_ceil(a: u128, b: u128) -> u128 {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(0), _) => 0,
        (Ok(a), Ok(b)) => u128::from(a.div_ceil(b)),
        _ => a.div_ceil(b),
    }
}

/// `a` x `b` / `c`, rounded up, for `a` < `c` and all below 2^80: a long division in two steps,
/// since the product may need 160 bits.
fn mul_div_ceil(a: u128, b: u128, c: u128) -> u128 {
    const STEP: u32 = 40;
    debug_assert!(a < c);
    debug_assert!(b < 1 << (2 * STEP));
    debug_assert!(c < 1 << (2 * STEP));
    let high = a * (b >> STEP);
    let low = ((high % c) << STEP) + a * (b & ((1 << STEP) - 1));
    ((high / c) << STEP) + low.div_ceil(c)
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
