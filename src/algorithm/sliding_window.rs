//! Sliding window: at most `limit` units in any `window`, exactly.
//!
//! A hit made at t counts in [t, t + window). Its time is kept in whole ms, rounded up to a
//! multiple of the call's resolution, so that a hit may count for up to one resolution longer and
//! never shorter. A request of cost c is allowed if and only if the units that count now and c are
//! at most `limit`. A denial writes nothing: it finds what has left the window, and the hit whose
//! leaving makes room, in the log as it stands ([`HitLog`]).
//!
//! A write is a [`Change`], not a new state: it is small however long the log is, and it carries
//! the cut of what had left, so that a primary and its replicas hold the same hits.

use super::hit_log::{HitLog, Run};
use super::{Clock, Decision, Limiter, Request, Verdict, Wait};
use crate::error::Error;
use crate::limits;

/// The limiter of `RL.SLIDING`.
pub enum SlidingWindow {}

/// The limit, as the caller states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The most units in a window, 1 to [`limits::MAX_UNITS`].
    pub limit: u64,
    /// 1 to [`limits::MAX_DURATION_MS`].
    pub window_ms: u64,
}

/// What a key remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The limit of the last call that wrote.
    pub quota: Quota,
    /// When the last call wrote, in µs since the epoch. The newest hit may lie after it.
    pub at_us: u64,
    /// The hits that counted at `at_us`.
    pub log: HitLog,
}

/// What a call that writes does to a state, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The limit from now on.
    pub quota: Quota,
    /// The time of this write, in µs since the epoch.
    pub at_us: u64,
    /// All hits move back by so many ms, since the clock was set back.
    pub move_back_ms: u64,
    /// Hits at or before this time, in ms, are forgotten.
    pub forget_until_ms: Option<i64>,
    /// So many of the newest units are taken out.
    pub take_newest: u64,
    /// Hits that are added.
    pub add: Option<Run>,
}

/// The hits of a key as they stand at the time of a call: the log with its oldest `left` units
/// gone, and of the rest the oldest `units`.
struct Present<'a> {
    log: Option<&'a HitLog>,
    left: u64,
    units: u64,
    /// The time of the call, in µs since the epoch.
    us: u64,
    /// Ms that all hits move back.
    move_back_ms: i64,
    /// Hits at or before this time have left, after they have moved back; none of a new key.
    cut_ms: Option<i64>,
    /// The key holds a state that even a denial brings up to date.
    outdated: bool,
}

impl Limiter for SlidingWindow {
    type Quota = Quota;
    type State = State;
    type Change = Change;

    fn decide(
        quota: &Quota,
        state: Option<&State>,
        request: &Request,
        clock: Clock,
    ) -> Result<(Decision, Option<Change>), Error> {
        let present = Present::new(quota, state, clock);
        let verdict = present.verdict(quota, request)?;
        let takes = verdict == Verdict::Allowed && request.is_real() && request.cost > 0;
        let time_ms = hit_time_ms(present.us, request.resolution_ms);
        let add = takes.then_some(Run { time_ms, count: request.cost });

        let decision = present.decision(quota, verdict, add, request);
        let writes = takes || (request.is_real() && present.outdated);
        Ok((decision, writes.then(|| Change { add, ..present.change(quota) })))
    }

    fn refund(state: &State, units: u64, clock: Clock) -> (Decision, Option<Change>) {
        let mut present = Present::new(&state.quota, Some(state), clock);
        let back = units.min(present.units);
        // The newest go: those that stay are the oldest of the hits that count.
        present.units -= back;
        let look = Request::look(1);
        let passes = present.units < state.quota.limit;
        let verdict = if passes { Verdict::Allowed } else { Verdict::Denied };
        let decision = present.decision(&state.quota, verdict, None, &look);
        let writes = back > 0 || present.outdated;
        let change = Change { take_newest: back, ..present.change(&state.quota) };
        (decision, writes.then_some(change))
    }

    fn no_change(state: &State) -> Change {
        Change {
            quota: state.quota,
            at_us: state.at_us,
            move_back_ms: 0,
            forget_until_ms: None,
            take_newest: 0,
            add: None,
        }
    }

    fn quota(state: &State) -> Quota {
        state.quota
    }

    fn grows(state: &State, change: &Change) -> bool {
        change.add.is_some_and(|run| state.log.grows_with(run, change.cut_ms()))
    }

    fn bytes_after(state: &State, change: &Change) -> u64 {
        change.add.map_or(0, |run| state.log.bytes_with(run, change.cut_ms()))
    }

    fn create(change: &Change) -> State {
        let mut state = State { quota: change.quota, at_us: change.at_us, log: HitLog::default() };
        Self::apply(&mut state, change);
        state
    }

    fn apply(state: &mut State, change: &Change) {
        state.quota = change.quota;
        state.at_us = change.at_us;
        state.log.move_back(i64::try_from(change.move_back_ms).unwrap_or(i64::MAX));
        if let Some(time_ms) = change.forget_until_ms {
            state.log.forget_until(time_ms);
        }
        state.log.hold_back(newest_possible_ms(change.at_us));
        state.log.take_newest(change.take_newest);
        if let Some(run) = change.add {
            state.log.add(run);
        }
    }
}

impl Change {
    /// What is forgotten before a hit is added, in the times of the log as it is.
    fn cut_ms(&self) -> Option<i64> {
        // After a step back of the clock the cut is in other times; little leaves then.
        self.forget_until_ms.filter(|_| self.move_back_ms == 0)
    }
}

impl State {
    /// The units that count at the time of a call.
    pub fn units_at(&self, clock: Clock) -> u64 {
        Present::new(&self.quota, Some(self), clock).units
    }
}

impl<'a> Present<'a> {
    fn new(quota: &Quota, state: Option<&'a State>, clock: Clock) -> Present<'a> {
        let Some(state) = state else {
            let us = clock.us();
            let (log, cut_ms) = (None, None);
            return Present {
                log,
                left: 0,
                units: 0,
                us,
                move_back_ms: 0,
                cut_ms,
                outdated: false,
            };
        };
        let now = clock.now(state.at_us);
        // What has left the old window stays forgotten, also under a longer one.
        let window_ms = quota.window_ms.min(state.quota.window_ms);
        let cut_ms = ms(now.us / 1000) - ms(window_ms);
        // Less than 1 ms of a step back is lost: the hits count that much longer.
        let move_back_ms = ms(now.set_back_us / 1000);
        let left = state.log.units_until(cut_ms + move_back_ms);
        Present {
            log: Some(&state.log),
            left,
            units: state.log.units() - left,
            us: now.us,
            move_back_ms,
            cut_ms: Some(cut_ms),
            outdated: state.quota != *quota || now.set_back_us > 0,
        }
    }

    fn verdict(&self, quota: &Quota, request: &Request) -> Result<Verdict, Error> {
        if request.cost == 0 {
            return Ok(Verdict::Allowed);
        }
        if request.force {
            let fits = self.units.saturating_add(request.cost) <= limits::MAX_UNITS;
            return if fits { Ok(Verdict::Allowed) } else { Err(Error::TooManyUnits) };
        }
        Ok(match quota.room(request) {
            Some(room) if self.units <= room => Verdict::Allowed,
            _ if request.shadow => Verdict::Shadowed,
            _ => Verdict::Denied,
        })
    }

    fn decision(
        &self,
        quota: &Quota,
        verdict: Verdict,
        add: Option<Run>,
        of: &Request,
    ) -> Decision {
        let units = self.units + add.map_or(0, |run| run.count);
        let retry_after = match quota.room(&of.asking_to_wait()) {
            None => Wait::Never,
            Some(room) if units <= room => Wait::Us(0),
            Some(room) => Wait::Us(self.leaves_in_us(quota, self.time_of_unit(units - room, add))),
        };
        let newest = if units > 0 { self.time_of_unit(units, add) } else { i64::MIN };
        Decision {
            verdict,
            limit: quota.limit,
            remaining: quota.limit.saturating_sub(of.reserve).saturating_sub(units),
            retry_after,
            reset_after_us: self.leaves_in_us(quota, newest),
            delay_us: 0,
        }
    }

    /// What a write at this time does besides adding and taking hits.
    fn change(&self, quota: &Quota) -> Change {
        Change {
            quota: *quota,
            at_us: self.us,
            move_back_ms: u64::try_from(self.move_back_ms).unwrap_or_default(),
            forget_until_ms: self.cut_ms,
            take_newest: 0,
            add: None,
        }
    }

    /// The time of the `n`-th oldest unit that counts, with `add` among them.
    fn time_of_unit(&self, n: u64, add: Option<Run>) -> i64 {
        let Some(add) = add else { return self.time_of_logged(n) };
        // Only a coarser resolution before this call makes hits younger than the one added.
        let older = if self.units == 0 || self.time_of_logged(self.units) <= add.time_ms {
            self.units
        } else {
            let until = |log: &HitLog| log.units_until(add.time_ms + self.move_back_ms);
            self.log.map_or(0, until).saturating_sub(self.left)
        };
        if n <= older {
            self.time_of_logged(n)
        } else if n <= older + add.count {
            add.time_ms
        } else {
            self.time_of_logged(n - add.count)
        }
    }

    fn time_of_logged(&self, n: u64) -> i64 {
        let time_ms = self.log.and_then(|log| log.time_of_unit(self.left + n));
        time_ms.unwrap_or(i64::MIN).saturating_sub(self.move_back_ms)
    }

    /// How long a hit at `time_ms` still counts, in µs; 0 for one that does not.
    fn leaves_in_us(&self, quota: &Quota, time_ms: i64) -> u64 {
        let leaves_ms = time_ms.saturating_add(ms(quota.window_ms));
        let left_ms = leaves_ms.saturating_sub(ms(self.us / 1000));
        u64::try_from(left_ms).map_or(0, |left_ms| (left_ms * 1000).saturating_sub(self.us % 1000))
    }
}

impl Quota {
    /// Most units before `request` at which it is allowed; none if its cost is over the limit.
    fn room(&self, request: &Request) -> Option<u64> {
        self.limit.checked_sub(request.reserve)?.checked_sub(request.cost)
    }
}

/// The time that no hit of a state lies after: the last write, rounded up by the coarsest
/// resolution, and as much again for clocks that were set back, since each step back leaves the
/// hits up to 1 ms further ahead.
pub fn newest_possible_ms(at_us: u64) -> i64 {
    ms(at_us / 1000) + ms(2 * limits::MAX_DURATION_MS)
}

/// The time of a hit made at `us`: rounded up to ms, and to a multiple of the resolution.
fn hit_time_ms(us: u64, resolution_ms: u64) -> i64 {
    ms(us.div_ceil(1000).div_ceil(resolution_ms) * resolution_ms)
}

/// Signed ms; all times and windows are far below 2^62.
pub(crate) fn ms(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
