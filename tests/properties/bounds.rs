//! No more passes than capacity and rate, or a window, allow; and no less.

use num_rational::BigRational;
use proptest::prelude::*;
use redis_rl::algorithm::leaky_bucket::LeakyBucket;
use redis_rl::algorithm::sliding_window::{self, SlidingWindow};
use redis_rl::algorithm::{Decision, Verdict};
use redis_rl::reply;

use crate::model::draw::{Ask, Deed, History, Op, history};
use crate::model::window::hit_ms;
use crate::model::world::World;
use crate::model::{Subject, cases, whole};

/// A call of a history without refunds: when it was judged, what it asked and was answered.
struct Called {
    us: u64,
    ask: Ask,
    cost: u64,
    decision: Decision,
}

impl Called {
    /// The units it took.
    fn taken(&self) -> u64 {
        let takes = self.decision.verdict == Verdict::Allowed && !self.ask.peek;
        if takes { self.cost } else { 0 }
    }
}

/// Plays the calls of a history, each `as_asked`, and lists those that were no errors.
fn calls<S: Subject>(
    history: &History<S::Quota>,
    as_asked: impl Fn(Ask) -> Ask,
    mut after_each: impl FnMut(&World<S>) -> Result<(), TestCaseError>,
) -> Result<Vec<Called>, TestCaseError> {
    let mut world = World::<S>::new(history.start_us);
    let mut calls = Vec::new();
    for op in &history.ops {
        let op = op.call(&as_asked);
        let Deed::Call(ask) = op.deed else { continue };
        if let Some(Ok((decision, _))) = world.play(history, &op) {
            let cost = ask.cost.of(S::limit(&history.quota(&op)));
            calls.push(Called { us: world.now_us, ask, cost, decision });
        }
        after_each(&world)?;
    }
    Ok(calls)
}

fn unforced(ask: Ask) -> Ask {
    Ask { force: false, ..ask }
}

/// In any interval of `t`, at most capacity + rate x t.
fn no_more_than_capacity_and_rate<S: Subject>(
    history: &History<S::Quota>,
) -> Result<(), TestCaseError> {
    let quota = history.quotas[0];
    let calls = calls::<S>(history, unforced, |_| Ok(()))?;
    for (index, first) in calls.iter().enumerate() {
        let mut passed = whole(0);
        for last in &calls[index..] {
            passed += whole(last.taken());
            let due = whole(S::limit(&quota)) + S::brought(&quota, (last.us - first.us).into());
            prop_assert!(passed <= due, "{passed} from {} to {}, not {due}", first.us, last.us);
        }
    }
    Ok(())
}

/// Without `FORCE` no more than the capacity is ever used, and a call is denied only where its
/// cost and the reserve would not have fitted.
fn denied_only_over_the_limit<S: Subject>(
    history: &History<S::Quota>,
) -> Result<(), TestCaseError> {
    let quota = history.quotas[0];
    let limit = whole(S::limit(&quota));
    let mut used: Vec<BigRational> = Vec::new();
    let no_delay = |ask| Ask { delay: None, ..unforced(ask) };
    let calls = calls::<S>(history, no_delay, |world| {
        let state = world.key.state.as_ref();
        used.push(state.map_or(whole(0), |state| S::used(state, world.now_us)));
        prop_assert!(used[used.len() - 1] <= limit, "more is used than the limit");
        Ok(())
    })?;
    if calls.len() < used.len() {
        // Some were errors: the lists do not match.
        return Ok(());
    }
    for (call, used) in calls.iter().zip(&used) {
        let needs = whole(call.cost) + whole(call.ask.reserve.of(S::limit(&quota)));
        if call.decision.verdict != Verdict::Allowed {
            prop_assert!(used + needs > limit, "denied, though there is room");
        }
    }
    Ok(())
}

/// Requests that wait the delay they are told leave at least (cost of the earlier) / rate apart,
/// less 1 ms, and hold none longer than `MAXDELAY`.
fn delays_keep_the_rate<S: Subject>(history: &History<S::Quota>) -> Result<(), TestCaseError> {
    let pace_us = whole(1) / S::brought(&history.quotas[0], 1);
    let calls = calls::<S>(history, unforced, |_| Ok(()))?;
    let mut earlier: Option<(u64, u64)> = None;
    for call in &calls {
        let delay_ms = reply::elements(&call.decision)[5] as u64;
        if call.decision.verdict != Verdict::Allowed {
            prop_assert_eq!(delay_ms, 0, "a request that does not pass is held");
            continue;
        }
        let leaves_us = call.us + delay_ms * 1000;
        if let Some((left_us, cost)) = earlier {
            let apart = whole(leaves_us) - whole(left_us) + whole(1000);
            prop_assert!(apart >= whole(cost) * &pace_us, "{cost} units are only {apart} us apart");
        }
        if call.taken() > 0 {
            earlier = Some((leaves_us, call.taken()));
        }
    }
    Ok(())
}

/// A hit, as one who watches the calls knows it.
struct Hit {
    made_us: u64,
    recorded_us: u64,
    units: u64,
}

/// For every t at most `limit` units in (t - window, t], by the times at which hits were made and
/// by those recorded; and a denial only where one more would break that.
fn windows_are_exact(history: &History<sliding_window::Quota>) -> Result<(), TestCaseError> {
    let quota = history.quotas[0];
    let window_us = quota.window_ms * 1000;
    let calls = calls::<SlidingWindow>(history, unforced, |_| Ok(()))?;
    let mut hits: Vec<Hit> = Vec::new();
    for call in &calls {
        let counts = |hit: &&Hit| hit.recorded_us + window_us > call.us;
        let units: u64 = hits.iter().filter(counts).map(|hit| hit.units).sum();
        if call.decision.verdict != Verdict::Allowed {
            let needs = call.cost + call.ask.reserve.of(quota.limit);
            prop_assert!(units + needs > quota.limit, "denied, though only {units} units count");
        }
        if call.taken() > 0 {
            let recorded_us = hit_ms(call.us, call.ask.resolution_ms) * 1000;
            hits.push(Hit { made_us: call.us, recorded_us, units: call.cost });
        }
    }
    for last in &hits {
        let within = |from: u64, to: u64| from <= to && to - from < window_us;
        let made = hits.iter().filter(|hit| within(hit.made_us, last.made_us));
        prop_assert!(made.map(|hit| hit.units).sum::<u64>() <= quota.limit);
        let recorded = hits.iter().filter(|hit| within(hit.recorded_us, last.recorded_us));
        prop_assert!(recorded.map(|hit| hit.units).sum::<u64>() <= quota.limit);
    }
    Ok(())
}

crate::for_each!(token_bucket leaky_bucket, {
    proptest! {
        #![proptest_config(cases(250))]

        #[test]
        fn no_interval_passes_more_than_capacity_and_rate(
            history in history::<Limited>(Op::steady(), 40)
        ) {
            no_more_than_capacity_and_rate::<Limited>(&history)?;
        }

        #[test]
        fn only_what_does_not_fit_is_denied(history in history::<Limited>(Op::steady(), 30)) {
            denied_only_over_the_limit::<Limited>(&history)?;
        }
    }
});

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn requests_that_wait_their_delay_keep_the_rate(
        history in history::<LeakyBucket>(Op::steady(), 30)
    ) {
        delays_keep_the_rate::<LeakyBucket>(&history)?;
    }

    #[test]
    fn no_window_holds_more_than_the_limit_and_no_denial_is_in_vain(
        history in history::<SlidingWindow>(Op::steady(), 40)
    ) {
        windows_are_exact(&history)?;
    }
}
