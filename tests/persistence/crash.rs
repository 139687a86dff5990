//! A server that is killed in the middle of everything, and what its files still know.

use std::thread;
use std::time::Duration;

use super::load::Load;
use super::support::{Client, Reply, Server, until};
use super::{append_only, contents, now_ms, rewrite};

/// Keys of each limiter that are called, and clients that call them.
const KEYS: usize = 8;
const CLIENTS: usize = 4;
const KILLS: u64 = 6;
/// Units that are taken before each kill.
const UNITS: u64 = 600;

/// Every acknowledged admission is counted after a kill, and none twice: what a key holds is what
/// was acknowledged, and at most what was under way besides. Every other kill comes while the
/// append-only file is rewritten.
fn nothing_is_lost_or_doubled(preamble: &str) {
    let mut server = Server::with(&append_only(preamble));
    let load = Load::new(server.port(), KEYS);
    let mut under_way = 0;
    for kill in 0..KILLS {
        under_way += load.run(CLIENTS, kill, || {
            load.wait_for(UNITS);
            if kill % 2 == 1 {
                server.client().ok("BGREWRITEAOF");
            }
            server.kill();
        });
        server.start_again();
        load.settle(&mut server.client());
    }
    assert!(under_way > 0, "nobody called when it was killed");
    // The same states from the effects of the calls as from a rewritten file.
    let replayed = contents(&mut server.client());
    assert_eq!(replayed.len(), 3 * KEYS);
    rewrite(&server);
    assert_eq!(contents(&mut server.client()), replayed, "after the rewrite");
    server.kill_and_restart();
    assert_eq!(contents(&mut server.client()), replayed, "after a start from it");
    load.settle(&mut server.client());
}

#[test]
fn nothing_is_lost_or_doubled_with_preamble() {
    nothing_is_lost_or_doubled("yes");
}

#[test]
fn nothing_is_lost_or_doubled_without_preamble() {
    nothing_is_lost_or_doubled("no");
}

/// A moment, as the ms before and after it that were read from the clock.
type Moment = (i64, i64);

fn timed<T>(call: impl FnOnce() -> T) -> (Moment, T) {
    let before = now_ms();
    let value = call();
    ((before, now_ms()), value)
}

/// The least and the greatest time from one moment to another, in ms.
fn between(from: Moment, to: Moment) -> (i64, i64) {
    // The clock is read in whole ms.
    ((to.0 - from.1 - 1).max(0), to.1 - from.0 + 1)
}

/// While the server is down buckets fill or drain and hits leave their windows, as if it ran.
fn time_goes_on(end: impl FnOnce(&mut Server), preamble: &str) {
    let mut server = Server::with(&append_only(preamble).line("save 3600 1"));
    let mut client = server.client();
    // 50 units a second, a thousand away at first.
    let (tokens, _) = timed(|| client.limit("RL.TOKENBUCKET t 1000 50 COST 1000"));
    let (queue, _) = timed(|| client.limit("RL.LEAKY l 1000 50 COST 1000"));
    // Hits leave after a second, in two parts.
    let (first, _) = timed(|| client.limit("RL.SLIDING s 100 1000 COST 60"));
    until("600 ms have passed", || now_ms() > first.1 + 600);
    let (second, _) = timed(|| client.limit("RL.SLIDING s 100 1000 COST 40"));
    end(&mut server);
    until("the first part has left", || now_ms() > first.1 + 1010);
    server.start_again();

    let mut client = server.client();
    // All of the window may have passed, where the machine is slow.
    let (now, left) = timed(|| Reply::new(&client.run("RL.PEEK s")).map_or(100, |r| r.remaining));
    let (least, most) = between(second, now);
    assert!(left == 60 && least <= 1001 || left == 100 && most >= 1000, "{left}");
    for (taken, key) in [(tokens, "t"), (queue, "l")] {
        let (now, reply) = timed(|| client.limit(&format!("RL.PEEK {key}")));
        let (least, most) = between(taken, now);
        assert!(least >= 1000, "it was down for that long");
        let bounds = least / 20..=most / 20;
        assert!(bounds.contains(&reply.remaining), "{key}: {bounds:?}: {reply:?}");
    }
    // And it is over when it would have been: nobody is locked out for longer.
    until("the other part has left", || now_ms() > second.1 + 1001);
    assert_eq!(client.limit("RL.SLIDING s 100 1000 COST 100").allowed, 1);
}

#[test]
fn time_goes_on_while_a_killed_server_is_down() {
    time_goes_on(Server::kill, "yes");
    time_goes_on(Server::kill, "no");
}

#[test]
fn time_goes_on_while_a_stopped_server_is_down() {
    time_goes_on(Server::stop, "yes");
}

/// What a bucket is answered at its full reset depends on no restart: the reset is an instant.
#[test]
fn the_reset_is_the_same_instant_before_and_after() {
    for preamble in ["yes", "no"] {
        let mut server = Server::with(&append_only(preamble));
        let mut client = server.client();
        let calls =
            ["RL.TOKENBUCKET t 9 0.7 COST 8", "RL.LEAKY l 9 0.7 COST 8", "RL.SLIDING s 9 9000"];
        let resets = |client: &mut Client, calls: [&str; 3]| {
            calls.map(|call| {
                let (moment, reply) = timed(|| client.limit(call));
                (moment.0 + reply.reset_after_ms - 1, moment.1 + reply.reset_after_ms + 1)
            })
        };
        let before = resets(&mut client, calls);
        server.kill();
        thread::sleep(Duration::from_millis(100));
        server.start_again();
        let after = resets(&mut server.client(), ["RL.PEEK t", "RL.PEEK l", "RL.PEEK s"]);
        for (before, after) in before.iter().zip(after) {
            assert!(before.0 <= after.1 && after.0 <= before.1, "{before:?} and {after:?}");
        }
    }
}
