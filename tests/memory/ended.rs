//! Keys that have ended leave no memory behind, and who used a key does not count.

use std::thread;
use std::time::{Duration, Instant};

use super::number;
use super::support::{Client, Server, until, words};

/// BR-008 rack/rack-attack#211, BR-009 dryruby/rack-throttle#34, BR-020 bucket4j/bucket4j#305,
/// BR-032 sidekiq/sidekiq#3577: a hundred thousand keys with one call each: ten seconds after their
/// reset DBSIZE is 0 and the memory is back where it was, within 5 %.
#[test]
fn a_hundred_thousand_keys_leave_nothing() {
    let server = Server::start();
    let used = |client: &mut Client| number(client, "memory", "used_memory");
    // Buffers and statistics of the connection have their sizes afterwards.
    make(&server, "before", 1000);
    let mut client = server.client();
    until("the first keys have ended", || client.int("DBSIZE") == 0);
    let before = used(&mut client);
    make(&server, "then", 100_000);
    let start = Instant::now();
    assert!(used(&mut client) > 2 * before, "keys take memory");
    let deadline = Duration::from_secs(10) + RESET;
    until("all keys have ended and the memory is back", || {
        assert!(start.elapsed() < deadline, "{} of {before} bytes", used(&mut client));
        client.int("DBSIZE") == 0 && (used(&mut client) - before) * 20 <= before
    });
}

/// When the keys are as never used.
const RESET: Duration = Duration::from_secs(2);

/// One call on each of so many keys, of the three limiters in turn.
fn make(server: &Server, prefix: &str, count: usize) {
    let mut client = server.client();
    let ms = RESET.as_millis();
    let line = |number: usize| match number % 3 {
        0 => format!("RL.TOKENBUCKET {prefix}:{number} 5 1 PER {ms}"),
        1 => format!("RL.LEAKY {prefix}:{number} 5 1 PER {ms}"),
        _ => format!("RL.SLIDING {prefix}:{number} 5 {ms}"),
    };
    let calls: Vec<_> = (0..count).map(|number| words(&line(number))).collect();
    for some in calls.chunks(1000) {
        client.pipeline(some);
    }
}

/// BR-129 SGrondin/bottleneck#115: MEMORY USAGE of a key does not depend on how many clients used
/// it.
#[test]
fn many_clients_take_no_more_than_one() {
    let server = Server::start();
    for (key, call) in super::LIMITERS {
        let call = call.replace(" 5 ", " 500 ");
        let mut one = server.client();
        let of_one = super::on(&call, &format!("{key}1"));
        let of_many = super::on(&call, &format!("{key}2"));
        for _ in 0..100 {
            // A hit of a window is one entry a millisecond.
            let start = Instant::now();
            one.limit(&of_one);
            server.client().limit(&of_many);
            thread::sleep(Duration::from_micros(1500).saturating_sub(start.elapsed()));
        }
        let mut used = |number: i32| one.memory_usage(&format!("{key}{number}"));
        let (of_one, of_many) = (used(1), used(2));
        // The times of the hits of a window differ, and so may a few of the bytes that hold them.
        let differ = (of_one - of_many).abs();
        assert!(differ <= if key == "s" { 64 } else { 0 }, "{call}: {of_one}, {of_many}");
    }
}
