//! The clock is set back while keys rest: the first real call on each lets it go on from the new
//! time, whatever call it is, and no look does.

use super::moving::{Clock, HOUR_US};
use super::support::{Client, Reply, Server, Snapshot};
use super::{Timed, assert_same};

/// Command and limit of each limiter: 2 units, which are back, or gone, after 120 s.
const LIMITERS: [(&str, &str); 3] = [
    ("RL.TOKENBUCKET", "2 1 PER 60000"),
    ("RL.LEAKY", "2 1 PER 60000"),
    ("RL.SLIDING", "2 120000"),
];
/// Time until a drained key is as new, in ms.
const FULL_MS: i64 = 120_000;

/// The first real call after the clock was set back, and what it does.
struct First {
    name: &'static str,
    /// The call, from the limiter's own.
    line: fn(&str) -> String,
    allowed: i64,
    /// By how many ms the call itself moves the reset of a bucket.
    adds_ms: i64,
}

const FIRSTS: [First; 6] = [
    First { name: "denied", line: str::to_owned, allowed: 0, adds_ms: 0 },
    First { name: "nothing", line: |call| format!("{call} COST 0"), allowed: 1, adds_ms: 0 },
    First { name: "shadow", line: |call| format!("{call} SHADOW"), allowed: 2, adds_ms: 0 },
    First { name: "reserve", line: |call| format!("{call} RESERVE 1"), allowed: 0, adds_ms: 0 },
    First { name: "forced", line: |call| format!("{call} FORCE"), allowed: 1, adds_ms: 60_000 },
    First { name: "refund", line: refund, allowed: 1, adds_ms: -60_000 },
];

fn refund(call: &str) -> String {
    format!("RL.REFUND {} 1", key(call))
}

fn key(call: &str) -> &str {
    call.split(' ').nth(1).expect("a key")
}

/// Every limiter's call on a key of its own for each first call.
fn calls() -> Vec<(&'static First, String)> {
    let on_own_key = |first: &'static First, (command, limit): (&str, &str)| {
        (first, format!("{command} {}:{command} {limit}", first.name))
    };
    FIRSTS.iter().flat_map(|first| LIMITERS.map(|of| on_own_key(first, of))).collect()
}

#[test]
fn keys_go_on_from_the_new_time() {
    let clock = Clock::ahead(0);
    let server = Server::with(&clock.config());
    let replica = server.replica_with(clock.config());
    let mut client = server.client();
    for (_, call) in calls() {
        assert_eq!(client.limit(&format!("{call} COST 2")).remaining, 0, "{call}");
    }
    clock.step(-HOUR_US, &server);
    for (first, call) in calls() {
        looks_change_nothing(&mut client, &call);
        goes_on(&mut client, first, &call);
    }
    assert_same(&server, &replica);
}

/// Looks answer from the new time, and leave the key as it was.
fn looks_change_nothing(client: &mut Client, call: &str) {
    let key = key(call);
    let before = Snapshot::of(client, key);
    for look in [format!("{call} PEEK"), format!("RL.PEEK {key}"), format!("RL.PEEK {key} COST 2")]
    {
        let reply = client.limit(&look);
        assert_eq!((reply.allowed, reply.remaining), (0, 0), "{look}: {reply:?}");
        assert!((1..=FULL_MS + 2).contains(&reply.retry_after_ms), "{look}: {reply:?}");
        assert_reset(call, 0, &reply);
    }
    client.ok(&format!("RL.INFO {key}"));
    assert_eq!(Snapshot::of(client, key), before, "{call}: a look");
}

/// The reset that a key drained before the step must have: not a ms is granted for the lost time.
/// A sliding hit lies on a whole ms and moves by whole ms, the call comes at any µs.
fn assert_reset(call: &str, adds_ms: i64, reply: &Reply) {
    let due_ms = match call.starts_with("RL.SLIDING") {
        true => FULL_MS..=FULL_MS + 2,
        false => FULL_MS + adds_ms..=FULL_MS + adds_ms,
    };
    assert!(due_ms.contains(&reply.reset_after_ms), "{call}: {reply:?}");
}

/// The first real call writes once and lets the key live by the new time; the next denial is free.
fn goes_on(client: &mut Client, first: &First, call: &str) {
    let (line, key) = ((first.line)(call), key(call));
    let before = Snapshot::of(client, key);
    let timed = Timed::call(client, &line);
    let after = Snapshot::of(client, key);
    assert_eq!(timed.reply.allowed, first.allowed, "{line}: {:?}", timed.reply);
    assert_reset(call, first.adds_ms, &timed.reply);
    assert_eq!(after.changes, before.changes + 1, "{line}");
    assert!(after.offset > before.offset, "{line}");
    assert_ne!(after.dump, before.dump, "{line}");
    timed.lives_by_its_reset(&line);

    let denied = format!("{call} COST 2");
    for _ in 0..3 {
        assert_eq!(client.limit(&denied).allowed, 0, "{denied}");
        assert_eq!(Snapshot::of(client, key), after, "{denied}: once is enough");
    }
}
