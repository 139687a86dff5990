//! What an answer tells about the next call is true, and looking is free.

use proptest::prelude::*;
use redis_rl::algorithm::{Clock, Request, Verdict};
use redis_rl::limits::{MAX_TIME_US, MAX_UNITS};
use redis_rl::reply;

use crate::model::draw::{Ask, Deed, History, Op, history};
use crate::model::world::{Key, World};
use crate::model::{Subject, cases, whole};

/// A call at the end of a history.
struct Last<S: Subject> {
    key: Key<S>,
    quota: S::Quota,
    request: Request,
    clock: Clock,
}

impl<S: Subject> Last<S> {
    /// The call of `op`. A look sees a key that is up to date with its parameters and its clock:
    /// what it tells of another key is what the real call would tell, not what a later look does.
    fn after(history: &History<S::Quota>, op: &Op) -> Option<Last<S>> {
        let mut world = World::<S>::after(history);
        let quota = history.quota(op);
        let Deed::Call(ask) = op.deed else { return None };
        let request = ask.request::<S>(&quota);
        let clock = world.clock(&quota, op);
        if request.peek {
            world.key.call(&quota, &Request { cost: 0, ..Request::ONE }, clock).ok()?;
        }
        Some(Last { key: world.key, quota, request, clock })
    }

    /// Whether `request` passes after `ms` on the clock of the last call, if that can be said.
    fn passes_after(&self, request: &Request, ms: u64) -> Option<bool> {
        let us = self.key.judged_us(self.clock).checked_add(ms.checked_mul(1000)?)?;
        let clock = match self.clock {
            Clock::Server(_) => Clock::Server(us),
            Clock::Caller(_) => Clock::Caller(us),
        };
        let outcome = self.key.clone().call(&self.quota, request, clock);
        let passes = outcome.is_ok_and(|(decision, _)| decision.verdict == Verdict::Allowed);
        (us <= MAX_TIME_US).then_some(passes)
    }
}

fn retry_is_exact<S: Subject>(history: &History<S::Quota>, op: &Op) -> Result<(), TestCaseError> {
    let Some(mut last) = Last::<S>::after(history, op) else { return Ok(()) };
    let Ok((decision, _)) = last.key.call(&last.quota, &last.request, last.clock) else {
        return Ok(());
    };
    let [_, _, _, retry_ms, reset_ms, _] = reply::elements(&decision);
    // A forced request and one of no cost are told when an unforced unit would pass.
    let told_of_a_unit = last.request.force || last.request.cost == 0;
    let cost = if told_of_a_unit { 1 } else { last.request.cost };
    let same = Request { cost, force: false, ..last.request };
    if decision.verdict != Verdict::Allowed {
        prop_assert!(retry_ms != 0, "a denied reply says 0");
    }
    let Ok(retry_ms) = u64::try_from(retry_ms) else {
        prop_assert_ne!(last.passes_after(&same, reset_ms as u64), Some(true), "never, but passes");
        return Ok(());
    };
    prop_assert_ne!(last.passes_after(&same, retry_ms), Some(false), "denied after the wait");
    if retry_ms > 0 {
        let earlier = last.passes_after(&same, retry_ms - 1);
        prop_assert_ne!(earlier, Some(true), "passes a ms before the wait is over");
    }
    Ok(())
}

fn remaining_is_true<S: Subject>(
    history: &History<S::Quota>,
    op: &Op,
) -> Result<(), TestCaseError> {
    let Some(mut last) = Last::<S>::after(history, op) else { return Ok(()) };
    let Ok((decision, _)) = last.key.call(&last.quota, &last.request, last.clock) else {
        return Ok(());
    };
    let one = Request { cost: 1, peek: false, force: false, ..last.request };
    let mut calls = decision.remaining;
    if calls > 40 {
        // So many calls at once, as far as the last of them.
        let bulk = Request { cost: calls - 1, force: true, ..Request::ONE };
        let bulk = Request { resolution_ms: one.resolution_ms, ..bulk };
        let outcome = last.key.call(&last.quota, &bulk, last.clock);
        prop_assert!(outcome.is_ok(), "{outcome:?}");
        calls = 1;
    }
    for call in 0..calls {
        let outcome = last.key.call(&last.quota, &one, last.clock);
        let passes = outcome.is_ok_and(|(decision, _)| decision.verdict == Verdict::Allowed);
        prop_assert!(passes, "call {call} of {} fails", decision.remaining);
    }
    prop_assert_ne!(last.passes_after(&one, 0), Some(true), "one more than told passes");
    Ok(())
}

/// From the reset that is told, in ms, no answer shows whether the key is still there; a ms before
/// it the key is still in use.
fn a_key_may_vanish_at_its_reset<S: Subject>(
    history: &History<S::Quota>,
    later: &[Op],
) -> Result<(), TestCaseError> {
    let mut kept = World::<S>::after(history);
    let Some(state) = kept.key.state.clone() else { return Ok(()) };
    let clock = Clock::Caller(kept.now_us);
    let (decision, _) = S::decide(&S::quota(&state), Some(&state), &Request::look(0), clock)
        .map_err(|error| TestCaseError::fail(format!("a look at what is kept: {error}")))?;
    let [_, _, _, _, reset_ms, _] = reply::elements(&decision);
    let reset_us = kept.key.judged_us(clock) + reset_ms as u64 * 1000;
    prop_assert_eq!(S::used(&state, reset_us), whole(0), "still in use at the reset");
    if reset_ms > 0 {
        prop_assert!(S::used(&state, reset_us - 1000) > whole(0), "unused before the reset");
    }

    kept.now_us = reset_us.min(MAX_TIME_US);
    let mut dropped = kept.clone();
    dropped.key.state = None;
    if reset_us <= MAX_TIME_US {
        for op in later {
            let op = op.call(|ask| ask);
            let answer = |outcome: Option<Result<_, _>>| outcome.map(|o| o.map(|(d, _)| d));
            let left = answer(kept.play(history, &op));
            prop_assert_eq!(left, answer(dropped.play(history, &op)));
        }
    }
    Ok(())
}

/// Looks, calls that are denied and calls of no cost change nothing, however many there are.
fn polls_cost_nothing<S: Subject>(
    history: &History<S::Quota>,
    polls: &[(u8, bool, Ask)],
) -> Result<(), TestCaseError> {
    let mut quiet = World::<S>::new(history.start_us);
    let mut polled = quiet.clone();
    for op in &history.ops {
        let before_us = quiet.now_us;
        let left = quiet.play(history, op);
        for &(part, caller, ask) in polls {
            let us = before_us + (quiet.now_us - before_us) / 8 * u64::from(part);
            poll(&mut polled.key, &history.quota(op), ask, us, caller)?;
        }
        prop_assert_eq!(left, polled.play(history, op));
        prop_assert_eq!(&quiet.key.state, &polled.key.state);
    }
    Ok(())
}

/// One call that takes nothing, between `Server` times that do not go back.
fn poll<S: Subject>(
    key: &mut Key<S>,
    quota: &S::Quota,
    ask: Ask,
    us: u64,
    caller: bool,
) -> Result<(), TestCaseError> {
    let clock = if caller { Clock::Caller(us) } else { Clock::Server(us) };
    let request = Request { force: false, ..ask.request::<S>(quota) };
    let tried = key.clone().call(quota, &request, clock);
    let passes = tried.is_ok_and(|(decision, _)| decision.verdict == Verdict::Allowed);
    let request = Request { peek: passes || request.peek, ..request };
    if let Ok((_, change)) = key.call(quota, &request, clock) {
        prop_assert_eq!(change, None, "{:?} writes", request);
    }
    let never = Request { cost: S::limit(quota), reserve: 1, ..request };
    for request in [never, Request { cost: 0, peek: false, ..request }] {
        if let Ok((_, change)) = key.call(quota, &request, clock) {
            prop_assert_eq!(change, None, "{:?} writes", request);
        }
    }
    Ok(())
}

/// A look says what the real call would be told, and writes nothing even where a denied call
/// would: under other parameters and after the clock was set back.
fn a_look_tells_what_the_call_would_be_told<S: Subject>(
    history: &History<S::Quota>,
    op: &Op,
) -> Result<(), TestCaseError> {
    let mut world = World::<S>::after(history);
    let quota = history.quota(op);
    let Deed::Call(ask) = op.call(|ask| Ask { force: false, peek: false, ..ask }).deed else {
        return Ok(());
    };
    let request = ask.request::<S>(&quota);
    let clock = world.clock(&quota, op);
    let look = world.key.clone().call(&quota, &Request { peek: true, ..request }, clock);
    let real = world.key.call(&quota, &request, clock);
    match (look, real) {
        (Ok((look, change)), Ok((real, _))) => {
            prop_assert_eq!(change, None, "a look writes");
            prop_assert_eq!((look.verdict, look.delay_us), (real.verdict, real.delay_us));
            if look.verdict == Verdict::Allowed {
                let retry_ms = reply::elements(&look)[3];
                let unit_follows = request.cost > 0 || look.remaining > 0;
                prop_assert!(retry_ms == 0 || !unit_follows, "allowed, but retry {retry_ms}");
            } else {
                prop_assert_eq!(look, real);
            }
        }
        (look, real) => prop_assert_eq!(look.map(|(d, _)| d), real.map(|(d, _)| d)),
    }
    Ok(())
}

/// What a request of the greatest cost is told on an absent key: it waits for nothing.
fn over_the_limit_is_never<S: Subject>(quota: &S::Quota) -> Result<(), TestCaseError> {
    let Some(cost) = S::limit(quota).checked_add(1).filter(|&cost| cost <= MAX_UNITS) else {
        return Ok(());
    };
    let over = Request { cost, ..Request::ONE };
    let (decision, change) = S::decide(quota, None, &over, Clock::Server(0))
        .map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(change, None);
    prop_assert_eq!(reply::elements(&decision)[0], 0);
    prop_assert_eq!(reply::elements(&decision)[3], -1);
    prop_assert_eq!(reply::elements(&decision)[4], 0);
    Ok(())
}

crate::for_each!(token_bucket leaky_bucket sliding_window, {
    proptest! {
        #![proptest_config(cases(250))]

        #[test]
        fn retry_is_exact_to_the_ms(
            history in history::<Limited>(Op::any(), 14), op in Op::any()
        ) {
            retry_is_exact::<Limited>(&history, &op)?;
        }

        #[test]
        fn remaining_calls_pass_and_no_more(
            history in history::<Limited>(Op::any(), 14), op in Op::any()
        ) {
            remaining_is_true::<Limited>(&history, &op)?;
        }

        #[test]
        fn a_key_dropped_at_its_reset_is_not_missed(
            history in history::<Limited>(Op::any(), 10),
            later in prop::collection::vec(Op::onward(), 1..10)
        ) {
            a_key_may_vanish_at_its_reset::<Limited>(&history, &later)?;
        }

        #[test]
        fn polls_do_not_starve_the_refill_and_write_nothing(
            history in history::<Limited>(Op::steady(), 14),
            polls in prop::collection::vec((0..=8_u8, any::<bool>(), Ask::any()), 1..6)
        ) {
            polls_cost_nothing::<Limited>(&history, &polls)?;
        }

        #[test]
        fn a_look_is_free_and_tells_the_truth(
            history in history::<Limited>(Op::any(), 14), op in Op::any()
        ) {
            a_look_tells_what_the_call_would_be_told::<Limited>(&history, &op)?;
        }

        #[test]
        fn a_cost_over_the_limit_is_told_never(
            quotas in <Limited as Subject>::quotas()
        ) {
            over_the_limit_is_never::<Limited>(&quotas[0])?;
        }
    }
});
