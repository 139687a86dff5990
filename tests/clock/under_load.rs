//! The clock is set while clients call.

use super::load::{LIMITS, Load, MS, Span, Step, nobody_locked_out, nothing_minted};
use super::moving::{Clock, HOUR_US};
use super::support::{Client, Dice, KEYS_OF_EACH, Server, error_text, until};
use super::{Timed, assert_same};

/// Back by so many random steps in quick succession.
const JITTER: usize = 60;

/// A clock that is corrected once, and never comes to where it was.
#[test]
fn the_clock_is_set_back_an_hour() {
    judge(&[-HOUR_US]);
}

/// The keys of the past hour are over, and what is left of the limits is not more than they hold.
#[test]
fn the_clock_is_set_forward_an_hour() {
    judge(&[HOUR_US]);
}

/// A wrong clock is put right: what was written in the future is no hindrance afterwards.
#[test]
fn the_clock_is_set_forward_and_back_again() {
    judge(&[HOUR_US, -HOUR_US, -HOUR_US, HOUR_US]);
}

/// A clock that is set back more often than a window ends.
#[test]
fn the_clock_is_set_back_again_and_again() {
    let mut dice = Dice::new(7);
    let steps: Vec<i64> =
        (0..JITTER).map(|_| -i64::try_from(dice.throw(30_000)).expect("a small number")).collect();
    judge_steps(JITTER, &mut |clock, server, load| {
        load.goes_on();
        let steps = steps.iter().map(|&by_us| step(clock, server, by_us)).collect();
        load.goes_on();
        steps
    });
}

/// Steps the clock of a server whose limits are saturated, and judges.
fn judge(by_us: &[i64]) {
    judge_steps(by_us.len(), &mut |clock, server, load| {
        let steps = by_us.iter().map(|&by_us| {
            load.goes_on();
            step(clock, server, by_us)
        });
        let steps = steps.collect();
        load.goes_on();
        steps
    });
}

fn step(clock: &Clock, server: &Server, by_us: i64) -> Step {
    let (at, ()) = Span::around(|| clock.step(by_us, server));
    Step { at, forward: by_us > 0 }
}

fn judge_steps(steps: usize, happens: &mut dyn FnMut(&Clock, &Server, &Load) -> Vec<Step>) {
    let late = MS * u32::try_from(steps).expect("few steps");
    let clock = Clock::ahead(0);
    let server = Server::with(&clock.config());
    // On the same machine, so by the same clock.
    let replica = server.replica_with(clock.config());
    mixed_calls(&mut server.client(), 1);
    let mut steps = Vec::new();
    let clients = [server.client(), server.client3(), server.client()];
    let calls = Load::run(clients, late, |load| steps = happens(&clock, &server, load));
    for (limit, calls) in LIMITS.into_iter().zip(&calls) {
        nothing_minted(limit, calls, &steps);
        nobody_locked_out(limit, calls, &steps, late);
        let line = format!("{} FORCE", limit.call);
        Timed::call(&mut server.client(), &line).lives_by_its_reset(&line);
    }
    // On keys that were written before the steps.
    mixed_calls(&mut server.client(), 2);
    let mut client = server.client();
    until("the saturated keys are over", || client.int("EXISTS t l s") == 0);
    assert_same(&server, &replica);
}

/// Some calls of every kind on keys that live for hours: none is answered with an error.
fn mixed_calls(client: &mut Client, seed: u64) {
    let mut dice = Dice::new(seed);
    let mixed = (0..300).map(|_| dice.long_call()).collect::<Vec<_>>();
    // What was given back whole would end while it is compared.
    let lasting = (0..KEYS_OF_EACH).flat_map(|number| {
        [
            format!("RL.TOKENBUCKET t{number} 5 1 PER 3600000 FORCE"),
            format!("RL.LEAKY l{number} 5 1 PER 3600000 FORCE"),
            format!("RL.SLIDING s{number} 5 3600000 FORCE"),
        ]
    });
    for line in mixed.into_iter().chain(lasting) {
        let answer = client.run(&line);
        assert_eq!(error_text(&answer), None, "{line}");
    }
}
