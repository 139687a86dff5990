//! Estimates that are settled, as docs/GUIDE.md has it: for costs that are known when the work is
//! done.

use proptest::prelude::*;
use redis_rl::algorithm::{Clock, Request, Verdict};

use crate::model::draw::{Deed, History, Op, history};
use crate::model::world::{Key, World};
use crate::model::{Subject, cases, whole};

/// A request whose cost is known only when it is done: what was taken for it, what it came to, and
/// how many entries later that is known.
#[derive(Clone, Copy, Debug)]
struct Estimated {
    actual: u64,
    later: usize,
}

fn estimated() -> impl Strategy<Value = Estimated> + Clone {
    let actual = prop_oneof![4 => 0..=20_u64, 1 => 0..=1000_u64];
    (actual, 0..=4_usize).prop_map(|(actual, later)| Estimated { actual, later })
}

/// Reserve an estimate, settle what it came to: RL.REFUND of what was too much, FORCE for what was
/// too little. Whenever a request is let in, all that was used and is still reserved, itself
/// included, is at most what one full bucket and the time since the start have brought; so neither
/// refunds nor the clock mint, alone or together, and a debt is paid before anything passes.
fn settled_costs_stay_within_the_limit<S: Subject>(
    history: &History<S::Quota>,
    estimates: &[Estimated],
) -> Result<(), TestCaseError> {
    let mut world = World::<S>::new(history.start_us);
    let mut open: Vec<(usize, u64, u64)> = Vec::new();
    let mut spent = whole(0);
    let quota = history.quotas[0];
    let limit = S::limit(&quota);
    for (index, (op, estimate)) in history.ops.iter().zip(estimates.iter().cycle()).enumerate() {
        let clock = world.clock(&quota, op);
        for &(_, reserved, actual) in open.iter().filter(|&&(due, ..)| due <= index) {
            settle(&mut world.key, &quota, reserved, actual, clock)?;
            spent += whole(actual) - whole(reserved);
        }
        open.retain(|&(due, ..)| due > index);
        let Deed::Call(ask) = op.call(|ask| ask.plain()).deed else { continue };
        let request = ask.request::<S>(&quota);
        let Ok((decision, _)) = world.key.call(&quota, &request, clock) else { continue };
        world.told(&decision);
        if decision.verdict == Verdict::Allowed {
            spent += whole(request.cost);
            let since_us = u128::from(world.now_us - history.start_us);
            let most = whole(limit) + S::brought(&quota, since_us);
            prop_assert!(request.cost == 0 || spent <= most, "{spent} spent, {most} brought");
            open.push((index + 1 + estimate.later, request.cost, estimate.actual));
        }
    }
    Ok(())
}

/// Gives back or takes the difference, and sees that no more than that has changed.
fn settle<S: Subject>(
    key: &mut Key<S>,
    quota: &S::Quota,
    reserved: u64,
    actual: u64,
    clock: Clock,
) -> Result<(), TestCaseError> {
    let us = key.judged_us(clock);
    let used = |key: &Key<S>| key.state.as_ref().map_or(whole(0), |state| S::used(state, us));
    let before = used(key);
    if actual < reserved {
        key.refund(reserved - actual, clock);
        let after = used(key);
        let due = (before.clone() - whole(reserved - actual)).max(whole(0));
        prop_assert_eq!(after, if before > whole(0) { due } else { whole(0) });
    } else if actual > reserved {
        let forced = Request { cost: actual - reserved, force: true, ..Request::ONE };
        // Where the bound of 100 years forbids the debt there is none.
        if let Ok((decision, _)) = key.call(quota, &forced, clock) {
            prop_assert_eq!(used(key), before + whole(forced.cost));
            let in_debt = used(key) > whole(S::limit(quota));
            prop_assert!(!in_debt || decision.remaining == 0, "in debt, and something remains");
        } else {
            return Err(TestCaseError::reject("a debt for more than 100 years"));
        }
    }
    Ok(())
}

crate::for_each!(token_bucket leaky_bucket, {
    proptest! {
        #![proptest_config(cases(250))]

        #[test]
        fn estimates_that_are_settled_stay_within_the_limit(
            history in history::<Limited>(Op::steady(), 30),
            estimates in prop::collection::vec(estimated(), 1..30)
        ) {
            settled_costs_stay_within_the_limit::<Limited>(&history, &estimates)?;
        }
    }
});
