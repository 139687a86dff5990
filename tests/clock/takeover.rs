//! A replica on a machine with another clock takes over.

use super::load::{LIMITS, Load, MS, Span, Step, nobody_locked_out, nothing_minted};
use super::moving::{Clock, MINUTE_US};
use super::support::{Server, until, wait_for_replica};
use super::{Timed, assert_same};

/// To the limits it is as if the clock were set back by ten minutes.
#[test]
fn a_replica_ten_minutes_behind_takes_over() {
    takes_over(-10 * MINUTE_US);
}

/// To the limits it is as if the clock were set forward by ten minutes.
#[test]
fn a_replica_ten_minutes_ahead_takes_over() {
    takes_over(10 * MINUTE_US);
}

fn takes_over(ahead_us: i64) {
    let (clock, other_clock) = (Clock::ahead(0), Clock::ahead(ahead_us));
    let mut primary = Server::with(&clock.config());
    let replica = primary.replica_with(other_clock.config());
    let second = replica.replica_with(other_clock.config());
    clock.wait_to_govern(&primary);
    other_clock.wait_to_govern(&replica);
    let clients = || [primary.client(), primary.client3(), primary.client()];
    let before = Load::run(clients(), MS, Load::goes_on);
    let lasting = LIMITS.map(|limit| lasting(limit.call));
    for line in &lasting {
        primary.client().limit(line);
    }
    wait_for_replica(&primary, &replica);

    let (at, ()) = Span::around(|| {
        primary.kill();
        replica.client().ok("REPLICAOF NO ONE");
    });
    let steps = [Step { at, forward: ahead_us > 0 }];
    let clients = [replica.client(), replica.client3(), replica.client()];
    let after = Load::run(clients, MS, Load::goes_on);
    for (limit, (mut calls, more)) in LIMITS.into_iter().zip(before.into_iter().zip(after)) {
        calls.extend(more);
        nothing_minted(limit, &calls, &steps);
        nobody_locked_out(limit, &calls, &steps, MS);
        let line = format!("{} FORCE", limit.call);
        Timed::call(&mut replica.client(), &line).lives_by_its_reset(&line);
    }

    // Keys that were left alone over the takeover.
    for line in &lasting {
        let first = Timed::call(&mut replica.client(), line);
        first.lives_by_its_reset(line);
        // A quarter of the hour is over by the clock that is ahead, nothing by the one behind.
        assert_eq!(first.reply.allowed, i64::from(ahead_us > 0), "{line}");
    }
    let mut client = replica.client();
    until("the saturated keys are over", || client.int("EXISTS t l s") == 0);
    assert_same(&replica, &second);
}

/// The limit of `call` on another key, of one unit that is back after ten minutes.
fn lasting(call: &str) -> String {
    let key = call.split(' ').nth(1).expect("a key");
    let lasting = match key {
        "s" => "RL.SLIDING s:lasting 1 590000",
        "l" => "RL.LEAKY l:lasting 1 1 PER 590000",
        _ => "RL.TOKENBUCKET t:lasting 1 1 PER 590000",
    };
    lasting.to_owned()
}
