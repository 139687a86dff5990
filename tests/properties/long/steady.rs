//! Callers who keep a pace: at 95 % of the rate nothing is denied, at 200 % what passes is what is
//! due, to the unit.

use std::collections::VecDeque;

use num_rational::BigRational;
use redis_rl::algorithm::bucket;
use redis_rl::algorithm::leaky_bucket::LeakyBucket;
use redis_rl::algorithm::sliding_window::{self, SlidingWindow};
use redis_rl::algorithm::token_bucket::TokenBucket;
use redis_rl::algorithm::{Clock, Decision, Request, Verdict};

use super::{START_US, rate};
use crate::LENGTH;
use crate::model::window::hit_ms;
use crate::model::world::Key;
use crate::model::{Subject, whole};

/// A limit, and the cost of each call.
type Paced<Q> = (Q, u64);

/// Rates from one unit an hour to 10^9 a second, most of them of calls a few times a second.
const BUCKETS: [Paced<bucket::Quota>; 12] = [
    (rate(1, 10, 0, 1000), 1),
    (rate(10, 25, 1, 1000), 1),
    (rate(3, 1, 1, 1000), 1),
    (rate(7, 333_333_333, 8, 1000), 1),
    (rate(2, 123_456_789, 9, 77), 1),
    (rate(100, 5, 0, 900_000), 3),
    (rate(20, 7, 0, 3_600_000), 2),
    (rate(100, 1_000_003, 6, 7), 50),
    (rate(5000, 99_999, 0, 60_000), 137),
    (rate(60, 999_999_999, 9, 1000), 7),
    (rate(2_000_000_000, 1_000_000_000, 0, 1000), 123_456_789),
    (rate(1 << 53, 1_000_000_000, 0, 1), 700_000_000_001),
];

/// A window and its resolution in ms.
const WINDOWS: [(Paced<sliding_window::Quota>, u64); 9] = [
    ((window(1, 1000), 1), 1),
    ((window(20, 60_000), 1), 1),
    ((window(7, 10_000), 3), 1),
    ((window(100, 10_000), 1), 1),
    ((window(333, 77_777), 2), 10),
    ((window(10_000, 3_600_000), 1), 1000),
    ((window(1 << 53, 60_000), (1 << 53) / 50), 1),
    ((window(5, 86_400_000), 1), 1),
    ((window(13, 1237), 1), 17),
];

const fn window(limit: u64, window_ms: u64) -> sliding_window::Quota {
    sliding_window::Quota { limit, window_ms }
}

/// A caller on a key of its own: every call costs the same and comes when it is due.
struct Caller<S: Subject> {
    key: Key<S>,
    quota: S::Quota,
    request: Request,
}

impl<S: Subject> Caller<S> {
    fn new(quota: S::Quota, request: Request) -> Caller<S> {
        Caller { key: Key { state: None }, quota, request }
    }

    fn call(&mut self, after_us: u64) -> Decision {
        let clock = Clock::Server(START_US + after_us);
        let outcome = self.key.call(&self.quota, &self.request, clock);
        outcome.expect("a limit within bounds").0
    }

    fn passes(&mut self, after_us: u64) -> bool {
        self.call(after_us).verdict == Verdict::Allowed
    }
}

/// The times of calls that come `apart_us` apart, rounded up to the µs, for as long as [`LENGTH`]
/// says, and a few in any case. As (numerator, denominator), since most rates have no end.
fn times((numerator, denominator): (u128, u128)) -> impl Iterator<Item = u64> {
    let until_us = LENGTH.minutes * 60_000_000;
    let at = move |call: u64| {
        let us = (u128::from(call) * numerator).div_ceil(denominator);
        u64::try_from(us).expect("a day of virtual time")
    };
    (0_u64..)
        .map(move |call| (call, at(call)))
        .take_while(move |&(call, us)| call < 20 || us < until_us)
        .map(|(_, us)| us)
}

/// Between calls of `cost` at so many percent of a bucket's rate, in µs.
fn bucket_pace(quota: &bucket::Quota, cost: u64, percent: u64) -> (u128, u128) {
    let scale = 10_u128.pow(u32::from(quota.rate.decimals));
    let unit_us = u128::from(quota.period_ms) * 1000 * scale;
    (unit_us * u128::from(cost) * 100, u128::from(quota.rate.mantissa) * u128::from(percent))
}

/// Between calls at so many percent of what fits into a window, in µs.
fn window_pace(quota: &sliding_window::Quota, cost: u64, percent: u64) -> (u128, u128) {
    let window_us = u128::from(quota.window_ms) * 1000;
    (window_us * 100, u128::from(quota.limit / cost) * u128::from(percent))
}

/// A bucket that begins as if never used.
fn all_pass_at_95_percent<S: Subject<Quota = bucket::Quota>>() {
    for (quota, cost) in BUCKETS {
        let mut caller = Caller::<S>::new(quota, Request { cost, ..Request::ONE });
        for us in times(bucket_pace(&quota, cost, 95)) {
            let decision = caller.call(us);
            assert_eq!(decision.verdict, Verdict::Allowed, "{quota:?}, COST {cost}: after {us} us");
            assert_eq!(decision.delay_us, 0, "{quota:?}, COST {cost}: held after {us} us");
        }
    }
}

/// A bucket that is used up at the start: every call finds its cost just come, to the share, so
/// that any rounding against the caller would add up and deny one.
fn all_pass_at_the_rate_itself<S: Subject<Quota = bucket::Quota>>() {
    for (quota, cost) in BUCKETS {
        let mut caller = Caller::<S>::new(quota, Request { cost: quota.capacity, ..Request::ONE });
        assert!(caller.passes(0), "{quota:?}: not all at once");
        caller.request.cost = cost;
        for us in times(bucket_pace(&quota, cost, 100)).skip(1) {
            assert!(caller.passes(us), "{quota:?}, COST {cost}: denied after {us} us");
        }
    }
}

/// What is due to a caller who asks more often than the rate: less than one call's cost over what
/// passed, at every instant, and never less than that. `room` units pass at once.
fn as_much_passes_as_is_due<S: Subject<Quota = bucket::Quota>>(
    quota: bucket::Quota,
    request: Request,
    room: &BigRational,
) {
    let cost = request.cost;
    let mut caller = Caller::<S>::new(quota, request);
    let (mut passed, mut denied) = (0_u128, 0_u64);
    for (call, us) in times(bucket_pace(&quota, cost, 200)).enumerate() {
        let passes = caller.passes(us);
        passed += if passes { u128::from(cost) } else { 0 };
        denied += u64::from(!passes);
        // Fractions are slow; what is wrong once stays so.
        let looks_closely = call < 1000 || call % 97 == 0;
        if denied > 0 && looks_closely {
            let left = room + S::brought(&quota, us.into()) - whole(passed);
            let told = format!("{quota:?}, COST {cost}: after {us} us {passed} units passed");
            assert!(left >= whole(0), "{told}, more than is due by {}", -left);
            assert!(left < whole(cost), "{told}, less than is due by {left}");
        }
    }
    assert!(denied > 0 || LENGTH.minutes < 60 * 24, "{quota:?}: nothing was denied");
}

fn as_much_passes_as_all_buckets_owe<S: Subject<Quota = bucket::Quota>>() {
    for (quota, cost) in BUCKETS {
        let request = Request { cost, ..Request::ONE };
        as_much_passes_as_is_due::<S>(quota, request, &whole(quota.capacity));
    }
}

#[test]
fn a_token_bucket_denies_nothing_at_95_percent() {
    all_pass_at_95_percent::<TokenBucket>();
}

#[test]
fn a_leaky_bucket_denies_and_holds_nothing_at_95_percent() {
    all_pass_at_95_percent::<LeakyBucket>();
}

#[test]
fn a_used_up_bucket_denies_nothing_at_its_rate() {
    all_pass_at_the_rate_itself::<TokenBucket>();
    all_pass_at_the_rate_itself::<LeakyBucket>();
}

#[test]
fn a_token_bucket_passes_what_is_due_at_200_percent() {
    as_much_passes_as_all_buckets_owe::<TokenBucket>();
}

#[test]
fn a_leaky_bucket_passes_what_is_due_at_200_percent() {
    as_much_passes_as_all_buckets_owe::<LeakyBucket>();
}

/// With `MAXDELAY` half the time that the bucket takes to drain: room is what drains in that time,
/// and one call.
#[test]
fn a_short_delay_passes_what_is_due_at_200_percent() {
    for (quota, cost) in BUCKETS.into_iter().filter(|(quota, cost)| quota.capacity / cost > 2) {
        let drains_ms = LeakyBucket::full_us(&quota) / whole(2000);
        let max_delay_ms = u64::try_from(drains_ms.floor().to_integer()).expect("within 100 years");
        let held = LeakyBucket::brought(&quota, u128::from(max_delay_ms) * 1000);
        let room = held.min(whole(quota.capacity - cost)) + whole(cost);
        let request = Request { cost, max_delay_ms: Some(max_delay_ms), ..Request::ONE };
        as_much_passes_as_is_due::<LeakyBucket>(quota, request, &room);
    }
}

#[test]
fn a_window_denies_nothing_at_95_percent() {
    for ((quota, cost), resolution_ms) in WINDOWS {
        let request = Request { cost, resolution_ms, ..Request::ONE };
        let mut caller = Caller::<SlidingWindow>::new(quota, request);
        for us in times(window_pace(&quota, cost, 95)) {
            assert!(caller.passes(us), "{quota:?}, COST {cost}: denied after {us} us");
        }
    }
}

/// At twice the rate all hits fall into the first half of each window: exactly what a list of hits
/// lets through, and, where calls come on whole ms, exactly the limit a window.
#[test]
fn a_window_passes_what_is_due_at_200_percent() {
    for ((quota, cost), resolution_ms) in WINDOWS {
        let request = Request { cost, resolution_ms, ..Request::ONE };
        let mut caller = Caller::<SlidingWindow>::new(quota, request);
        let mut hits: VecDeque<u64> = VecDeque::new();
        let fit = usize::try_from(quota.limit / cost).expect("a short list");
        for us in times(window_pace(&quota, cost, 200)) {
            let now_us = START_US + us;
            while hits.front().is_some_and(|&hit| hit + quota.window_ms * 1000 <= now_us) {
                hits.pop_front();
            }
            let due = hits.len() < fit;
            if due {
                hits.push_back(hit_ms(now_us, resolution_ms) * 1000);
            }
            assert_eq!(caller.passes(us), due, "{quota:?}, COST {cost}: after {us} us");
        }
    }
}

/// The same in numbers, where a whole number of ms lies between calls: of each two windows' worth
/// of calls that a window sees, the first half passes.
#[test]
fn a_window_passes_its_limit_a_window() {
    for (limit, window_ms, cost) in [(1, 1000, 1), (10, 1000, 1), (50, 60_000, 1), (300, 1200, 3)] {
        let quota = window(limit, window_ms);
        let mut caller = Caller::<SlidingWindow>::new(quota, Request { cost, ..Request::ONE });
        let fit = limit / cost;
        let (mut calls, mut passed) = (0, 0);
        for us in times(window_pace(&quota, cost, 200)) {
            // From a whole ms on.
            passed += u64::from(caller.passes(us + 1000 - START_US % 1000));
            calls += 1;
            let due = calls / (2 * fit) * fit + (calls % (2 * fit)).min(fit);
            assert_eq!(passed, due, "{quota:?}, COST {cost}: of {calls} calls");
        }
    }
}
