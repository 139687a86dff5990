//! Three hot limits, saturated all the time, whose admissions are known exactly.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::told::Told;
use crate::support::{Dice, Server};

/// Two clients for each of the three keys.
pub const CLIENTS: usize = 6;
/// The buckets: large enough that no pause of the machine fills them.
const CAPACITY: u64 = 300;
const RATE: u64 = 60;
/// The window.
const LIMIT: u64 = 60;
const WINDOW_MS: u64 = 1000;

/// What one client saw of its key.
#[derive(Clone, Debug)]
pub struct Passed {
    limiter: usize,
    /// By the server's clock: before and behind the first call, before and behind the last.
    first_us: [i64; 2],
    last_us: [i64; 2],
    allowed: u64,
}

fn call(limiter: usize, seed: u64) -> String {
    match limiter {
        0 => format!("RL.TOKENBUCKET hot:{seed}:t {CAPACITY} {RATE}"),
        1 => format!("RL.LEAKY hot:{seed}:l {CAPACITY} {RATE}"),
        _ => format!("RL.SLIDING hot:{seed}:s {LIMIT} {WINDOW_MS}"),
    }
}

/// Asks for one unit after the other until the load ends.
pub fn run(server: &Server, number: usize, seed: u64, stop: &AtomicBool) -> (Passed, Told) {
    let limiter = number % 3;
    let line = call(limiter, seed);
    let (mut client, mut told) = (server.client(), Told::default());
    let mut dice = Dice::new(seed * 1000 + u64::try_from(number).expect("a small number"));
    let mut allowed = 0;
    let mut ask = |client: &mut crate::support::Client| {
        let value = client.run(&line);
        assert_eq!(told.note(&line, &value), None, "{line}");
        let reply = crate::support::Reply::new(&value).expect("a limiter's answer");
        allowed += u64::try_from(reply.allowed).expect("0 or 1");
    };
    let mut at = [client.time_us(); 2];
    ask(&mut client);
    at[1] = client.time_us();
    let first_us = at;
    while !stop.load(Ordering::Relaxed) {
        ask(&mut client);
        thread::sleep(Duration::from_micros(dice.throw(3000)));
    }
    at[0] = client.time_us();
    ask(&mut client);
    at[1] = client.time_us();
    (Passed { limiter, first_us, last_us: at, allowed }, told)
}

/// What the contract has for a key over the time in which it was asked: at least and at most.
fn contract(passed: &[Passed], limiter: usize) -> (u64, u64) {
    let of_key = || passed.iter().filter(move |passed| passed.limiter == limiter);
    let span = |first: fn(&Passed) -> i64, last: fn(&Passed) -> i64| -> u64 {
        let first = of_key().map(first).min().expect("a client");
        let last = of_key().map(last).max().expect("a client");
        u64::try_from(last - first).expect("time goes on")
    };
    let contract = |us: u64| match limiter {
        2 => LIMIT * (us / (WINDOW_MS * 1000) + 1),
        _ => CAPACITY + RATE * us / 1_000_000,
    };
    let longest_us = span(|passed| passed.first_us[0], |passed| passed.last_us[1]);
    let shortest_us = span(|passed| passed.first_us[1], |passed| passed.last_us[0]);
    (contract(shortest_us), contract(longest_us))
}

fn allowed(passed: &[Passed], limiter: usize) -> u64 {
    let of_key = passed.iter().filter(|passed| passed.limiter == limiter);
    of_key.map(|passed| passed.allowed).sum()
}

/// No key has admitted more than the contract has for the time.
pub fn expect_at_most(passed: &[Passed]) {
    for limiter in 0..3 {
        let (allowed, (least, most)) = (allowed(passed, limiter), contract(passed, limiter));
        println!("hot limiter {limiter}: {allowed} admitted, contract {least} to {most}");
        assert!(allowed <= most, "{allowed} admitted of {most}");
    }
}

/// Each key has admitted what the contract has for the time, where it was never left alone for so
/// long that a bucket was unused again.
pub fn expect_exact(passed: &[Passed]) {
    expect_at_most(passed);
    for limiter in 0..3 {
        let (allowed, (least, _)) = (allowed(passed, limiter), contract(passed, limiter));
        // A hit of a window is followed by the next when somebody asks, a moment after it has left.
        let least = if limiter == 2 { least * 8 / 10 } else { least - 2 };
        assert!(
            allowed >= least,
            "only {allowed} admitted of {least}, or a machine that stands still"
        );
    }
}
