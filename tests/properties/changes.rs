//! Clocks that are set back, new parameters and refunds mint nothing, and lock nobody out.

use num_rational::BigRational;
use proptest::prelude::*;
use redis_rl::algorithm::sliding_window::{Quota, SlidingWindow};
use redis_rl::algorithm::{Clock, Verdict, Wait};

use crate::model::draw::{Amount, Ask, Deed, History, Op, Step, history};
use crate::model::window::runs;
use crate::model::world::{Key, World, refunded};
use crate::model::{Subject, cases, ceil_u64, whole};

/// Whose clock times all calls of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    /// The server's: what it was set back is lost, and what follows counts again.
    ByServer,
    /// The callers': what is earlier than before is taken as the latest time.
    ByCallers,
}

/// What passed, on a clock that counts only the time that brings something.
#[derive(Clone, Copy, Debug)]
struct Passed {
    forward_us: u128,
    units: u64,
}

/// Plays a history of plain calls and refunds, and hands on what passes and what is given back.
fn passing<S: Subject>(
    history: &History<S::Quota>,
    timed: Timed,
    mut each: impl FnMut(Passed, BigRational) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut world = World::<S>::new(history.start_us);
    // The time until which `forward_us` counts; before the first write a caller's may be any.
    let (mut forward_us, mut counted_us) = (0_u128, 0);
    for op in &history.ops {
        let before = world.key.clone();
        let outcome = world.play(history, op);
        let on_us = u128::from(world.now_us.saturating_sub(counted_us));
        let judged_us = match timed {
            Timed::ByServer => world.now_us,
            Timed::ByCallers => world.now_us.max(counted_us),
        };
        let limit = S::limit(&history.quota(op));
        let (units, back) = match (op.deed, outcome) {
            (Deed::Call(ask), Some(Ok((decision, _)))) if decision.verdict == Verdict::Allowed => {
                (ask.cost.of(limit), whole(0))
            }
            (Deed::Refund(amount), Some(Ok(_))) => {
                let units = refunded::<S>(&history.quota(op), amount);
                (0, given_back::<S>(&before, &world.key, judged_us, units)?)
            }
            _ => (0, whole(0)),
        };
        let wrote = units > 0 || back > whole(0);
        if wrote {
            each(Passed { forward_us: forward_us + on_us, units }, back)?;
        }
        // A caller's time counts from the last write; one that wrote nothing may be passed again.
        if wrote || timed == Timed::ByServer {
            (forward_us, counted_us) = (forward_us + on_us, judged_us);
        }
    }
    Ok(())
}

/// The same with plain calls, all by one clock; refunds become calls too, unless they may stay.
fn only<Q: Copy>(history: &History<Q>, timed: Timed, refunds: bool) -> History<Q> {
    let caller = timed == Timed::ByCallers;
    let plain = |op: &Op| match op.deed {
        Deed::Refund(_) if refunds => Op { caller, ..*op },
        _ => Op { caller, ..op.call(Ask::plain) },
    };
    let ops = history.ops.iter().map(plain).collect();
    History { quotas: history.quotas.clone(), start_us: history.start_us, ops }
}

/// What a refund of `units` changed: no more than that, and never beyond what is as if never used.
fn given_back<S: Subject>(
    before: &Key<S>,
    after: &Key<S>,
    us: u64,
    units: u64,
) -> Result<BigRational, TestCaseError> {
    let (Some(old), Some(new)) = (&before.state, &after.state) else {
        return Err(TestCaseError::fail("a refund creates or drops a key"));
    };
    // A clock that was set back brings nothing.
    let used_before = S::used(old, us.max(S::at_us(old)));
    let used_after = S::used(new, us);
    let due = (&used_before - whole(units)).max(whole(0));
    prop_assert_eq!(&used_after, &due, "{} units given back to {}", units, used_before);
    Ok(used_before - used_after)
}

/// Buckets: in any stretch at most capacity + rate x (time forward) + what was given back.
fn nothing_is_minted<S: Subject>(
    history: &History<S::Quota>,
    timed: Timed,
    refunds: bool,
) -> Result<(), TestCaseError> {
    let history = &only(history, timed, refunds);
    let quota = history.quotas[0];
    let mut all: Vec<(Passed, BigRational)> = Vec::new();
    passing::<S>(history, timed, |passed, back| {
        all.push((passed, back));
        Ok(())
    })?;
    for (index, (first, _)) in all.iter().enumerate() {
        let mut net = whole(0);
        for (last, back) in &all[index..] {
            net += whole(last.units) - back;
            let brought = S::brought(&quota, last.forward_us - first.forward_us);
            // A refund before the stretch may be spent in it, but no more than the capacity.
            prop_assert!(net <= whole(S::limit(&quota)) + brought, "{net} units pass in a stretch");
        }
    }
    Ok(())
}

/// Sliding window: at most the limit in any window of time forward, less what was given back.
fn nothing_is_minted_in_a_window(
    history: &History<Quota>,
    timed: Timed,
    refunds: bool,
) -> Result<(), TestCaseError> {
    let history = &only(history, timed, refunds);
    let quota = history.quotas[0];
    let window_us = u128::from(SlidingWindow::pace_us(&quota));
    let mut hits: Vec<Passed> = Vec::new();
    passing::<SlidingWindow>(history, timed, |passed, back| {
        let mut back = ceil_u64(&back);
        while let Some(newest) = hits.last_mut().filter(|_| back > 0) {
            let taken = newest.units.min(back);
            newest.units -= taken;
            back -= taken;
            if newest.units == 0 {
                hits.pop();
            }
        }
        hits.push(passed);
        let within = |hit: &&Passed| passed.forward_us - hit.forward_us < window_us;
        let units: u64 = hits.iter().filter(within).map(|hit| hit.units).sum();
        prop_assert!(units <= SlidingWindow::limit(&quota), "{units} units pass in a window");
        Ok(())
    })
}

/// After the server's clock was set back by however much, a request that fits the limit passes
/// after at most the time that an unused limit takes to be used and back; hits are kept to the ms,
/// which each set-back may cost.
fn nobody_is_locked_out<S: Subject>(
    history: &History<S::Quota>,
    back: Step,
) -> Result<(), TestCaseError> {
    let history = only(history, Timed::ByServer, false);
    let quota = history.quotas[0];
    let mut world = World::<S>::after(&history);
    let full = Ask { cost: Amount::Eighths(8), ..Ask::ONE };
    let op = Op { quota: 0, step: back, caller: false, deed: Deed::Call(full) };
    let Some(Ok((decision, _))) = world.play(&history, &op) else { return Ok(()) };

    let set_backs = history.ops.iter().filter(|op| is_back(op.step)).count() as u64 + 2;
    let slack_us = if S::ROUNDS { set_backs * 1000 } else { 1 };
    let longest_us = ceil_u64(&S::full_us(&quota)) + slack_us;
    let Wait::Us(wait_us) = decision.retry_after else {
        return Err(TestCaseError::fail("never"));
    };
    prop_assert!(wait_us <= longest_us, "locked out for {wait_us} us");
    prop_assert!(decision.reset_after_us <= longest_us, "a reset of {}", decision.reset_after_us);
    let clock = Clock::Server(world.now_us + wait_us);
    let outcome = world.key.call(&quota, &full.request::<S>(&quota), clock);
    let passes = outcome.is_ok_and(|(decision, _)| decision.verdict == Verdict::Allowed);
    prop_assert!(passes, "denied after the wait");
    Ok(())
}

fn is_back(step: Step) -> bool {
    matches!(step, Step::Back(_) | Step::BackPaces(_))
}

/// Under changing parameters a bucket passes, since it was last as if never used, at most what it
/// could hold and what each rate brought while it was the one in force. New capacity brings no
/// tokens, so for a token bucket what it could hold is the capacity at the beginning; a level has
/// the room of the capacity that the call brings.
fn changes_grant_nothing_twice<S: Subject>(
    history: &History<S::Quota>,
) -> Result<(), TestCaseError> {
    let mut world = World::<S>::new(history.start_us);
    let (mut held, mut brought, mut passed) = (whole(0), whole(0), whole(0));
    let mut judged_us = history.start_us;
    for op in &history.ops {
        let op = op.call(Ask::plain);
        let quota = history.quota(&op);
        let before = world.key.state.clone();
        let outcome = world.play(history, &op);
        let elapsed_us = world.now_us - judged_us;
        judged_us = world.now_us;
        match &before {
            Some(state) if S::used(state, judged_us) > whole(0) => {
                brought += S::brought(&S::quota(state), elapsed_us.into());
            }
            _ => (held, brought, passed) = (whole(S::limit(&quota)), whole(0), whole(0)),
        }
        let Some(Ok((decision, _))) = outcome else { continue };
        let Deed::Call(ask) = op.deed else { continue };
        let units = ask.cost.of(S::limit(&quota));
        if decision.verdict == Verdict::Allowed && units > 0 {
            passed += whole(units);
            let room = if S::DELAYS { whole(S::limit(&quota)) } else { held.clone() };
            prop_assert!(passed <= room + &brought, "{passed} units pass");
        }
    }
    Ok(())
}

/// Under changing limits and windows a hit counts for at least the shortest window of the calls
/// since it was made.
fn new_windows_keep_what_counts(history: &History<Quota>) -> Result<(), TestCaseError> {
    let mut world = World::<SlidingWindow>::new(history.start_us);
    let mut calls: Vec<(u64, u64, u64)> = Vec::new();
    for op in &history.ops {
        let op = op.call(Ask::plain);
        let quota = history.quota(&op);
        let Some(Ok((decision, _))) = world.play(history, &op) else { continue };
        let Deed::Call(ask) = op.deed else { continue };
        let passes = decision.verdict == Verdict::Allowed;
        let units = if passes { ask.cost.of(SlidingWindow::limit(&quota)) } else { 0 };
        calls.push((world.now_us, SlidingWindow::pace_us(&quota), units));
        let mut shortest_us = u64::MAX;
        let mut counting = 0;
        for &(us, window_us, units) in calls.iter().rev() {
            shortest_us = shortest_us.min(window_us);
            if world.now_us - us < shortest_us {
                counting += units;
            }
        }
        let limit = SlidingWindow::limit(&quota);
        prop_assert!(!passes || units == 0 || counting <= limit, "{counting} units in a window");
    }
    Ok(())
}

/// A refund takes the newest hits: those that stay are the oldest that count, as they were but for
/// the newest of them, of which a part may be gone.
fn refunds_take_the_newest(history: &History<Quota>, units: u64) -> Result<(), TestCaseError> {
    let mut world = World::<SlidingWindow>::after(history);
    let Some(before) = world.key.state.clone() else { return Ok(()) };
    let us = before.at_us.max(world.now_us);
    let _ = world.key.refund(units, Clock::Server(us));
    let kept = world.key.state.map(|after| runs(&after.log)).unwrap_or_default();
    let gone_ms = i128::from(us / 1000) - i128::from(before.quota.window_ms);
    let counted = runs(&before.log).into_iter().filter(|&(ms, _)| i128::from(ms) > gone_ms);
    let counting = kept.iter().skip_while(|&&(ms, _)| i128::from(ms) <= gone_ms);
    let pairs: Vec<_> = counted.zip(counting).collect();
    for (index, ((old_ms, old_count), (ms, count))) in pairs.iter().enumerate() {
        prop_assert_eq!(old_ms, ms);
        let newest = index + 1 == pairs.len();
        prop_assert!(count == old_count || (newest && count < old_count), "{count} units left");
    }
    Ok(())
}

crate::for_each!(token_bucket leaky_bucket, {
    proptest! {
        #![proptest_config(cases(250))]

        #[test]
        fn a_clock_set_back_mints_nothing(history in history::<Limited>(Op::unsteady(), 30)) {
            nothing_is_minted::<Limited>(&history, Timed::ByServer, false)?;
        }

        #[test]
        fn an_earlier_at_mints_nothing(history in history::<Limited>(Op::unsteady(), 30)) {
            nothing_is_minted::<Limited>(&history, Timed::ByCallers, false)?;
        }

        #[test]
        fn refunds_and_clocks_together_mint_nothing(
            history in history::<Limited>(Op::unsteady(), 30)
        ) {
            nothing_is_minted::<Limited>(&history, Timed::ByServer, true)?;
            nothing_is_minted::<Limited>(&history, Timed::ByCallers, true)?;
        }

        #[test]
        fn new_parameters_grant_nothing_twice(history in history::<Limited>(Op::onward(), 30)) {
            changes_grant_nothing_twice::<Limited>(&history)?;
        }
    }
});

proptest! {
    #![proptest_config(cases(250))]

    #[test]
    fn a_clock_set_back_mints_nothing_in_a_window(
        history in history::<SlidingWindow>(Op::unsteady(), 30)
    ) {
        nothing_is_minted_in_a_window(&history, Timed::ByServer, false)?;
    }

    #[test]
    fn an_earlier_at_mints_nothing_in_a_window(
        history in history::<SlidingWindow>(Op::unsteady(), 30)
    ) {
        nothing_is_minted_in_a_window(&history, Timed::ByCallers, false)?;
    }

    #[test]
    fn refunds_and_clocks_together_mint_nothing_in_a_window(
        history in history::<SlidingWindow>(Op::unsteady(), 30)
    ) {
        nothing_is_minted_in_a_window(&history, Timed::ByServer, true)?;
        nothing_is_minted_in_a_window(&history, Timed::ByCallers, true)?;
    }

    #[test]
    fn new_windows_forget_nothing_early(history in history::<SlidingWindow>(Op::onward(), 30)) {
        new_windows_keep_what_counts(&history)?;
    }

    #[test]
    fn refunds_leave_the_oldest_hits(
        history in history::<SlidingWindow>(Op::any(), 20), units in 1..=20_u64
    ) {
        refunds_take_the_newest(&history, units)?;
    }
}

mod lock_out {
    use super::*;

    crate::for_each!(token_bucket leaky_bucket sliding_window, {
        proptest! {
            #![proptest_config(cases(250))]

            #[test]
            fn a_clock_set_back_locks_nobody_out(
                history in history::<Limited>(Op::unsteady(), 20), back in Step::any()
            ) {
                nobody_is_locked_out::<Limited>(&history, back)?;
            }
        }
    });
}
