//! Priorities without a queue: some callers leave the last units to the others.

use proptest::prelude::*;
use redis_rl::algorithm::{Request, Verdict};

use crate::model::draw::{Deed, History, Op, history};
use crate::model::world::{Key, World};
use crate::model::{Subject, cases, whole};

/// Callers with RESERVE n never take the last n, and a caller without it may take all there is.
fn reserves_are_left<S: Subject>(
    history: &History<S::Quota>,
    reserve: u64,
) -> Result<(), TestCaseError> {
    let mut world = World::<S>::new(history.start_us);
    let quota = history.quotas[0];
    let limit = S::limit(&quota);
    let reserve = reserve.clamp(1, limit);
    for op in &history.ops {
        let clock = world.clock(&quota, op);
        let Deed::Call(ask) = op.call(|ask| ask.plain()).deed else { continue };
        // Callers of both kinds, as the history has callers with a clock and without one.
        let low = op.caller;
        let kept = if low { reserve } else { 0 };
        let request = Request { reserve: kept, ..ask.request::<S>(&quota) };
        let before = world.key.clone();
        let Ok((decision, _)) = world.key.call(&quota, &request, clock) else { continue };
        world.told(&decision);
        let probe = |key: &Key<S>, cost| {
            let outcome = key.clone().call(&quota, &Request { cost, ..Request::ONE }, clock);
            outcome.map(|(decision, _)| decision.verdict == Verdict::Allowed)
        };
        if low && request.cost > 0 && decision.verdict == Verdict::Allowed {
            prop_assert_ne!(probe(&world.key, reserve), Ok(false), "the last units were taken");
        }
        if !low {
            // Allowed exactly if what is there is enough, whoever took the rest.
            let us = before.judged_us(clock);
            let used = before.state.as_ref().map_or(whole(0), |state| S::used(state, us));
            let fits = used + whole(request.cost) <= whole(limit);
            let expected = fits || request.cost == 0;
            prop_assert_eq!(decision.verdict == Verdict::Allowed, expected);
            if (1..=limit).contains(&decision.remaining) {
                prop_assert_ne!(probe(&world.key, decision.remaining), Ok(false));
            }
        }
    }
    Ok(())
}

crate::for_each!(token_bucket leaky_bucket sliding_window, {
    proptest! {
        #![proptest_config(cases(250))]

        #[test]
        fn a_reserve_is_left_by_those_who_name_it_alone(
            history in history::<Limited>(Op::onward(), 30), reserve in 1..=30_u64
        ) {
            let ops = history.ops.iter().map(|op| Op { quota: 0, ..*op }).collect();
            reserves_are_left::<Limited>(&History { ops, ..history }, reserve)?;
        }
    }
});
