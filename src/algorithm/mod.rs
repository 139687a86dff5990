//! The limiters, one file each: what every one of them is asked and what it answers.
//!
//! Everything here is a pure function of what is handed in. A limiter takes the limit that the
//! call states (its `Quota`), the state of the key, if there is one, the request and the time. It
//! returns a [`Decision`] and, only where something is to be stored, the change. No change means
//! that nothing is written: so a denial is free.
//!
//! Inside, times are µs since the epoch (`_us`) and whole units are `u64`. Waits are rounded up
//! and counts down, never in the caller's favor; [`crate::reply`] alone turns µs into ms.

pub mod bucket;
pub mod hit_log;
pub mod leaky_bucket;
pub mod sliding_window;
pub mod token_bucket;

use crate::error::Error;

/// What a limiter is asked, besides the limit itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Units that the request takes, 0 to [`crate::limits::MAX_UNITS`].
    pub cost: u64,
    /// Units that must stay for others, in the same range.
    pub reserve: u64,
    /// Only look: nothing at all is changed.
    pub peek: bool,
    /// Take the cost even over the limit.
    pub force: bool,
    /// Let the request through even over the limit, without taking its cost.
    pub shadow: bool,
    /// Leaky bucket: the longest delay that the caller accepts, in ms.
    pub max_delay_ms: Option<u64>,
    /// Sliding window: hit times are rounded up to multiples of this, in ms, at least 1.
    pub resolution_ms: u64,
}

impl Request {
    /// A request of one unit with no option.
    pub const ONE: Request = Request {
        cost: 1,
        reserve: 0,
        peek: false,
        force: false,
        shadow: false,
        max_delay_ms: None,
        resolution_ms: 1,
    };

    /// A look at what a request of `cost` units would be answered.
    pub const fn look(cost: u64) -> Request {
        Request { cost, peek: true, ..Request::ONE }
    }

    /// The request whose wait is told: its own, but that of one unit for a request which takes
    /// nothing or is forced. `FORCE` makes no wait shorter.
    const fn asking_to_wait(&self) -> Request {
        let cost = if self.cost == 0 || self.force { 1 } else { self.cost };
        Request { cost, ..*self }
    }

    /// Whether this call may write at all.
    const fn is_real(&self) -> bool {
        !self.peek
    }
}

/// Where the time of a call comes from, which decides what a time before the last write means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The server's clock, in µs. Earlier than the last write: the clock was set back, or a
    /// replica with a slower one took over. The state goes on from the new time.
    Server(u64),
    /// The caller's clock, in µs. Earlier than the last write: taken as that time.
    Caller(u64),
}

/// The time at which a call is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Now {
    /// µs since the epoch, never before the last write as it stands after `set_back_us`.
    us: u64,
    /// How far the server's clock was set back since the last write: the state follows it.
    set_back_us: u64,
}

impl Clock {
    /// The time of a call on a key that was last written at `last_write_us`.
    fn now(self, last_write_us: u64) -> Now {
        match self {
            Clock::Server(us) => Now { us, set_back_us: last_write_us.saturating_sub(us) },
            Clock::Caller(us) => Now { us: us.max(last_write_us), set_back_us: 0 },
        }
    }

    /// The time of a call on a key that was last written at `last_write_us`, in µs.
    pub fn time_after(self, last_write_us: u64) -> u64 {
        self.now(last_write_us).us
    }

    /// The time of a call on a key that holds nothing.
    const fn us(self) -> u64 {
        match self {
            Clock::Server(us) | Clock::Caller(us) => us,
        }
    }
}

/// Whether a request passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes and takes its cost.
    Allowed,
    /// It does not pass and takes nothing.
    Denied,
    /// It is over the limit, passes as a trial run and takes nothing.
    Shadowed,
}

/// How long until a request would pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// After so many µs; 0 is at once.
    Us(u64),
    /// Never: its cost is over the limit.
    Never,
}

/// A limiter's answer, from the state after the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request passes.
    pub verdict: Verdict,
    /// The capacity or limit of this call.
    pub limit: u64,
    /// How many more requests of one unit with the same options would pass now.
    pub remaining: u64,
    /// How long until a request of the same cost and options would pass.
    pub retry_after: Wait,
    /// How long until the key is as if never used, in µs.
    pub reset_after_us: u64,
    /// Leaky bucket: how long this request must be held, in µs, rounded up; 0 if it is denied.
    pub delay_us: u64,
}

impl Decision {
    /// The answer to a request that was held for `waited_us` before it was answered: all waits are
    /// shorter by that.
    pub fn after_waiting(&self, waited_us: u64) -> Decision {
        let retry_after = match self.retry_after {
            Wait::Us(us) => Wait::Us(us.saturating_sub(waited_us)),
            Wait::Never => Wait::Never,
        };
        Decision {
            retry_after,
            reset_after_us: self.reset_after_us.saturating_sub(waited_us),
            delay_us: self.delay_us.saturating_sub(waited_us),
            ..*self
        }
    }
}

/// A limiter, as the code that serves all of them sees it.
pub trait Limiter {
    /// Whether an allowed request may have to be held, so that the reply tells the delay.
    const HOLDS: bool = false;

    /// The limit, as the caller states it.
    type Quota: Copy + PartialEq;
    /// What a key remembers.
    type State: Clone;
    /// What a call that writes does to the state: it is applied here and replicated.
    type Change;

    /// Decides one request. A state past its reset counts as none.
    ///
    /// # Errors
    /// [`Error::TooSlow`] and [`Error::TooManyUnits`], where the state after the call would pass
    /// the bounds of [`crate::limits`].
    fn decide(
        quota: &Self::Quota,
        state: Option<&Self::State>,
        request: &Request,
        clock: Clock,
    ) -> Result<(Decision, Option<Self::Change>), Error>;

    /// Gives back up to `units`; the decision is that of a look at one unit afterwards.
    fn refund(state: &Self::State, units: u64, clock: Clock) -> (Decision, Option<Self::Change>);

    /// The change that leaves `state` as it is: for a key whose time to live alone is mended.
    fn no_change(state: &Self::State) -> Self::Change;

    /// The limit that the key remembers.
    fn quota(state: &Self::State) -> Self::Quota;

    /// Whether `change` makes the state take more memory than it does.
    fn grows(_state: &Self::State, _change: &Self::Change) -> bool {
        false
    }

    /// How many bytes a state has at most after a change that makes it take more memory, where this
    /// has no bound of its own.
    fn bytes_after(_state: &Self::State, _change: &Self::Change) -> u64 {
        0
    }

    /// The state of a key that held nothing, after `change`.
    fn create(change: &Self::Change) -> Self::State;

    /// Brings `state` up to date with `change`.
    fn apply(state: &mut Self::State, change: &Self::Change);
}
