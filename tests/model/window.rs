//! A naive sliding window: a plain list of hits, asked one by one.

use std::collections::BTreeMap;

use num_rational::BigRational;
use proptest::prelude::*;
use redis_rl::algorithm::hit_log::HitLog;
use redis_rl::algorithm::sliding_window::{Quota, SlidingWindow, State};
use redis_rl::algorithm::{Clock, Decision, Request, Verdict, Wait};
use redis_rl::error::Error;

use super::draw::{Scale, magnitude};
use super::{Expected, Model, Subject, judged, whole};

/// 2^53.
const MOST_UNITS: u64 = 1 << 53;

/// Units and their time, in ms.
#[derive(Clone, Copy, Debug)]
struct Hit {
    time_ms: i128,
    units: u64,
}

impl Hit {
    /// How much longer the hit counts at `us`, in µs; none for one that has left.
    fn leaves_in_us(&self, window_ms: u64, us: u64) -> Option<u64> {
        let leaves_us = (self.time_ms + i128::from(window_ms)) * 1000;
        u64::try_from(leaves_us - i128::from(us)).ok().filter(|&left_us| left_us > 0)
    }
}

/// What is kept of a key.
#[derive(Clone, Debug)]
struct Kept {
    quota: Quota,
    at_us: u64,
    hits: Vec<Hit>,
}

/// A list of hits.
#[derive(Default)]
pub struct Window(Option<Kept>);

/// The key at the time and with the parameters of a call.
struct Present {
    hits: Vec<Hit>,
    us: u64,
    outdated: bool,
}

impl Window {
    fn present(&self, quota: &Quota, clock: Clock) -> Present {
        let Some(kept) = &self.0 else {
            let (us, _) = judged(clock, 0);
            return Present { hits: Vec::new(), us, outdated: false };
        };
        let (us, back_us) = judged(clock, kept.at_us);
        let mut hits = kept.hits.clone();
        for hit in &mut hits {
            // Back by the same amount, and up to the ms again.
            hit.time_ms -= i128::from(back_us / 1000);
        }
        hits.retain(|hit| hit.leaves_in_us(kept.quota.window_ms, us).is_some());
        hits.retain(|hit| hit.leaves_in_us(quota.window_ms, us).is_some());
        Present { hits, us, outdated: kept.quota != *quota || back_us > 0 }
    }
}

fn units(hits: &[Hit]) -> u64 {
    hits.iter().map(|hit| hit.units).sum()
}

/// The most units at which an unforced request of `cost` passes.
fn room(quota: &Quota, request: &Request, cost: u64) -> Option<u64> {
    quota.limit.checked_sub(request.reserve)?.checked_sub(cost)
}

fn verdict(quota: &Quota, hits: &[Hit], request: &Request) -> Result<Verdict, Vec<Error>> {
    if request.cost == 0 {
        return Ok(Verdict::Allowed);
    }
    if request.force {
        let fits = units(hits) + request.cost <= MOST_UNITS;
        return if fits { Ok(Verdict::Allowed) } else { Err(vec![Error::TooManyUnits]) };
    }
    let denied = if request.shadow { Verdict::Shadowed } else { Verdict::Denied };
    let passes = room(quota, request, request.cost).is_some_and(|room| units(hits) <= room);
    Ok(if passes { Verdict::Allowed } else { denied })
}

/// The answer from the hits that are there after the call.
fn decision(quota: &Quota, verdict: Verdict, hits: &[Hit], us: u64, request: &Request) -> Decision {
    let mut waits: Vec<(u64, u64)> = hits
        .iter()
        .map(|hit| (hit.leaves_in_us(quota.window_ms, us).unwrap_or(0), hit.units))
        .collect();
    waits.sort_unstable();
    let cost = if request.force || request.cost == 0 { 1 } else { request.cost };
    let retry_after = match room(quota, request, cost) {
        None => Wait::Never,
        Some(room) => {
            let mut left = units(hits);
            let mut wait_us = 0;
            for &(leaves_in_us, units) in &waits {
                if left <= room {
                    break;
                }
                left -= units;
                wait_us = leaves_in_us;
            }
            Wait::Us(wait_us)
        }
    };
    Decision {
        verdict,
        limit: quota.limit,
        remaining: quota.limit.saturating_sub(request.reserve).saturating_sub(units(hits)),
        retry_after,
        reset_after_us: waits.last().map_or(0, |&(leaves_in_us, _)| leaves_in_us),
        delay_us: 0,
    }
}

/// The time of a hit made at `us`: rounded up to a multiple of the resolution.
pub fn hit_ms(us: u64, resolution_ms: u64) -> u64 {
    let resolution_us = resolution_ms * 1000;
    us.div_ceil(resolution_us) * resolution_ms
}

impl Model<SlidingWindow> for Window {
    fn call(
        &mut self,
        quota: &Quota,
        request: &Request,
        clock: Clock,
        _carried: Option<Result<State, Error>>,
    ) -> Result<Expected, TestCaseError> {
        let Present { mut hits, us, outdated } = self.present(quota, clock);
        let verdict = match verdict(quota, &hits, request) {
            Ok(verdict) => verdict,
            Err(errors) => return Ok(Expected { answer: Err(errors), writes: false }),
        };
        let takes = verdict == Verdict::Allowed && !request.peek && request.cost > 0;
        if takes {
            let time_ms = i128::from(hit_ms(us, request.resolution_ms));
            hits.push(Hit { time_ms, units: request.cost });
        }
        let decision = decision(quota, verdict, &hits, us, request);
        let writes = takes || (outdated && !request.peek);
        if writes {
            self.0 = Some(Kept { quota: *quota, at_us: us, hits });
        }
        Ok(Expected { answer: Ok(decision), writes })
    }

    fn refund(&mut self, count: u64, clock: Clock) -> Expected {
        let Some(kept) = self.0.clone() else { unreachable!("a refund needs a key") };
        let Present { mut hits, us, outdated } = self.present(&kept.quota, clock);
        hits.sort_by_key(|hit| hit.time_ms);
        let mut back = count;
        while let Some(newest) = hits.last_mut().filter(|_| back > 0) {
            let taken = newest.units.min(back);
            newest.units -= taken;
            back -= taken;
            if newest.units == 0 {
                hits.pop();
            }
        }
        let look = Request::look(1);
        let verdict = verdict(&kept.quota, &hits, &look).unwrap_or(Verdict::Denied);
        let decision = decision(&kept.quota, verdict, &hits, us, &look);
        let writes = back < count || outdated;
        if writes {
            self.0 = Some(Kept { quota: kept.quota, at_us: us, hits });
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
        let mut hits: BTreeMap<i64, u64> = BTreeMap::new();
        for hit in &kept.hits {
            *hits.entry(hit.time_ms as i64).or_default() += hit.units;
        }
        let hits: Vec<(i64, u64)> = hits.into_iter().collect();
        prop_assert_eq!(runs(&state.log), hits);
        Ok(())
    }
}

/// The runs of a log as (time in ms, count).
pub fn runs(log: &HitLog) -> Vec<(i64, u64)> {
    let mut runs = Vec::new();
    log.for_each_run(|run| runs.push((run.time_ms, run.count)));
    runs
}

fn quota(scale: Scale) -> BoxedStrategy<Quota> {
    let parts = match scale {
        Scale::Small => (1..=8_u64, 1..=20_u64).boxed(),
        Scale::Usual => {
            let windows = prop_oneof![Just(1000_u64), Just(60_000), Just(86_400_000)];
            (1..=1000_u64, windows).boxed()
        }
        Scale::Wild => (magnitude(1, MOST_UNITS), magnitude(1, 315_360_000_000)).boxed(),
    };
    parts.prop_map(|(limit, window_ms)| Quota { limit, window_ms }).boxed()
}

impl Subject for SlidingWindow {
    type Model = Window;
    const DELAYS: bool = false;
    const ROUNDS: bool = true;

    fn quotas() -> BoxedStrategy<Vec<Quota>> {
        let quotas = Scale::any().prop_flat_map(|scale| {
            (quota(scale), quota(scale)).prop_map(|(first, other)| {
                vec![first, Quota { limit: other.limit, ..first }, other]
            })
        });
        quotas.boxed()
    }

    fn limit(quota: &Quota) -> u64 {
        quota.limit
    }

    fn with_limit(quota: &Quota, limit: u64) -> Quota {
        Quota { limit, ..*quota }
    }

    fn pace_us(quota: &Quota) -> u64 {
        quota.window_ms * 1000
    }

    fn full_us(quota: &Quota) -> BigRational {
        whole(quota.window_ms * 1000)
    }

    fn brought(_quota: &Quota, _us: u128) -> BigRational {
        whole(0)
    }

    fn at_us(state: &State) -> u64 {
        state.at_us
    }

    fn used(state: &State, us: u64) -> BigRational {
        let counts = |&(time_ms, units): &(i64, u64)| {
            let hit = Hit { time_ms: time_ms.into(), units };
            hit.leaves_in_us(state.quota.window_ms, us).is_some()
        };
        whole(runs(&state.log).into_iter().filter(counts).map(|(_, units)| units).sum::<u64>())
    }
}
