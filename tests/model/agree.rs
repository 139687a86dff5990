//! Plays a history on the code and on the naive model.

use proptest::prelude::*;
use redis_rl::algorithm::Request;

use super::draw::{Deed, History, Op};
use super::world::{World, refunded};
use super::{Model, Subject};

/// Plays a history on the code and on the model, and compares after each entry.
pub fn agrees<S: Subject>(history: &History<S::Quota>) -> Result<(), TestCaseError> {
    let mut world = World::<S>::new(history.start_us);
    let mut model = S::Model::default();
    for (index, op) in history.ops.iter().enumerate() {
        step(&mut world, &mut model, history, op)
            .map_err(|error| TestCaseError::fail(format!("entry {index}, {op:?}: {error}")))?;
    }
    Ok(())
}

fn step<S: Subject>(
    world: &mut World<S>,
    model: &mut S::Model,
    history: &History<S::Quota>,
    op: &Op,
) -> Result<(), TestCaseError> {
    let quota = history.quota(op);
    let clock = world.clock(&quota, op);
    let (got, expected) = match op.deed {
        Deed::Call(ask) => {
            let request = ask.request::<S>(&quota);
            // What the key holds once the code has adopted the call's parameters.
            let nothing = Request { cost: 0, ..Request::ONE };
            let mut adopted = world.key.clone();
            let carried = world
                .key
                .state
                .is_some()
                .then(|| adopted.call(&quota, &nothing, clock).map(|_| adopted.state.clone()));
            let carried = carried.map(|adopted| adopted.map(|state| state.expect("a key")));
            let expected = model.call(&quota, &request, clock, carried)?;
            (world.key.call(&quota, &request, clock), expected)
        }
        Deed::Refund(back) => {
            let units = refunded::<S>(&quota, back);
            let Some(got) = world.key.refund(units, clock) else { return Ok(()) };
            (Ok(got), model.refund(units, clock))
        }
    };
    match (got, expected.answer) {
        (Ok((decision, change)), Ok(due)) => {
            prop_assert_eq!(decision, due);
            prop_assert_eq!(change.is_some(), expected.writes, "whether the call writes");
            world.told(&decision);
        }
        (Err(error), Err(due)) => {
            prop_assert!(due.contains(&error), "{error:?} instead of one of {due:?}");
        }
        (got, due) => prop_assert!(false, "{got:?} instead of {due:?}"),
    }
    model.check(world.key.state.as_ref())
}
