//! A key without a server, and the clock that its histories run on.

use redis_rl::algorithm::{Clock, Decision, Request, Wait};
use redis_rl::error::Error;
use redis_rl::limits::MAX_TIME_US;

use super::draw::{Amount, Deed, History, Op, Step};
use super::{Subject, judged};

/// What a key holds, and what is done to it, as a server does it.
pub struct Key<S: Subject> {
    /// The state, once a call has written one.
    pub state: Option<S::State>,
}

impl<S: Subject> Clone for Key<S> {
    fn clone(&self) -> Key<S> {
        Key { state: self.state.clone() }
    }
}

impl<S: Subject> Key<S> {
    /// A call: decided and stored. Tells whether it wrote.
    pub fn call(
        &mut self,
        quota: &S::Quota,
        request: &Request,
        clock: Clock,
    ) -> Result<(Decision, Option<S::Change>), Error> {
        let (decision, change) = S::decide(quota, self.state.as_ref(), request, clock)?;
        self.store(change.as_ref());
        Ok((decision, change))
    }

    /// Units given back, unless the key is absent.
    pub fn refund(&mut self, units: u64, clock: Clock) -> Option<(Decision, Option<S::Change>)> {
        let (decision, change) = S::refund(self.state.as_ref()?, units, clock);
        self.store(change.as_ref());
        Some((decision, change))
    }

    /// Applies a change.
    pub fn store(&mut self, change: Option<&S::Change>) {
        let Some(change) = change else { return };
        match &mut self.state {
            Some(state) => S::apply(state, change),
            None => self.state = Some(S::create(change)),
        }
    }

    /// The instant at which a call is judged.
    pub fn judged_us(&self, clock: Clock) -> u64 {
        judged(clock, self.state.as_ref().map_or(0, S::at_us)).0
    }
}

/// A key and a clock.
pub struct World<S: Subject> {
    /// The key.
    pub key: Key<S>,
    /// The time of the last call.
    pub now_us: u64,
    retry_us: u64,
    reset_us: u64,
}

impl<S: Subject> Clone for World<S> {
    fn clone(&self) -> World<S> {
        World { key: self.key.clone(), ..*self }
    }
}

/// What came of a call.
pub type Outcome<S> =
    Result<(Decision, Option<<S as redis_rl::algorithm::Limiter>::Change>), Error>;

impl<S: Subject> World<S> {
    /// An absent key.
    pub fn new(start_us: u64) -> World<S> {
        World { key: Key { state: None }, now_us: start_us, retry_us: 0, reset_us: 0 }
    }

    /// A key with a past.
    pub fn after(history: &History<S::Quota>) -> World<S> {
        let mut world = World::new(history.start_us);
        for op in &history.ops {
            world.play(history, op);
        }
        world
    }

    /// Moves the clock and tells the time as the call brings it.
    pub fn clock(&mut self, quota: &S::Quota, op: &Op) -> Clock {
        let paces = |parts: u8| (S::pace_us(quota) / 4).saturating_mul(u64::from(parts));
        let now_us = match op.step {
            Step::Stay => self.now_us,
            Step::Us(us) => self.now_us.saturating_add(us),
            Step::Paces(parts) => self.now_us.saturating_add(paces(parts)),
            Step::Retry(edge) => shifted(self.now_us.saturating_add(self.retry_us), edge),
            Step::Reset(edge) => shifted(self.now_us.saturating_add(self.reset_us), edge),
            Step::Back(us) => self.now_us.saturating_sub(us),
            Step::BackPaces(parts) => self.now_us.saturating_sub(paces(parts)),
        };
        let back = matches!(op.step, Step::Back(_) | Step::BackPaces(_));
        let earliest_us = if back { 0 } else { self.now_us };
        self.now_us = now_us.clamp(earliest_us, MAX_TIME_US);
        if op.caller { Clock::Caller(self.now_us) } else { Clock::Server(self.now_us) }
    }

    /// Remembers the waits of an answer, in whole ms as a caller reads them.
    pub fn told(&mut self, decision: &Decision) {
        self.retry_us = match decision.retry_after {
            Wait::Us(us) => us.div_ceil(1000).saturating_mul(1000),
            Wait::Never => 0,
        };
        self.reset_us = decision.reset_after_us.div_ceil(1000).saturating_mul(1000);
    }

    /// Plays one entry; none if it is a refund on an absent key.
    pub fn play(&mut self, history: &History<S::Quota>, op: &Op) -> Option<Outcome<S>> {
        let quota = history.quota(op);
        let clock = self.clock(&quota, op);
        let outcome = match op.deed {
            Deed::Call(ask) => self.key.call(&quota, &ask.request::<S>(&quota), clock),
            Deed::Refund(back) => Ok(self.key.refund(refunded::<S>(&quota, back), clock)?),
        };
        if let Ok((decision, _)) = &outcome {
            self.told(decision);
        }
        Some(outcome)
    }
}

/// The units of a refund: at least 1.
pub fn refunded<S: Subject>(quota: &S::Quota, back: Amount) -> u64 {
    back.of(S::limit(quota)).max(1)
}

fn shifted(us: u64, edge: i64) -> u64 {
    us.saturating_add_signed(edge)
}
