//! A server that evicts keys to stay below its limit.

use std::collections::HashMap;
use std::time::Instant;

use redis::Value;

use super::number;
use super::support::{Client, Config, Dice, Reply, Server, error_text, int, words};

/// Keys that are called; more than the memory holds.
const KEYS: u64 = 12_000;
/// Calls that are made, some of them on keys that were evicted meanwhile.
const CALLS: usize = 30_000;
/// Bytes for the keys: a fraction of what all would take.
const ROOM: i64 = 1_000_000;

/// BR-023 Effect-TS/effect-smol#2352: under maxmemory with random eviction nothing but the OOM
/// error is answered, and each key that survives is whole; under the other policies too. Keys with
/// a lifetime can always be evicted, so not even that error is answered.
///
/// BR-292 getsentry/sentry#122038: under volatile-lru an evicted limit behaves as new, without an
/// error, and `evicted_keys` tells how many there were.
#[test]
fn under_volatile_ttl_only_keys_vanish() {
    only_keys_vanish("volatile-ttl");
}

#[test]
fn under_volatile_lru_only_keys_vanish() {
    only_keys_vanish("volatile-lru");
}

#[test]
fn under_allkeys_lru_only_keys_vanish() {
    only_keys_vanish("allkeys-lru");
}

#[test]
fn under_allkeys_random_only_keys_vanish() {
    only_keys_vanish("allkeys-random");
}

fn only_keys_vanish(policy: &str) {
    let server = Server::with(&Config::new().line(&format!("maxmemory-policy {policy}")));
    let mut client = server.client();
    let used = number(&mut client, "memory", "used_memory");
    client.ok(&format!("CONFIG SET maxmemory {}", used + ROOM));
    let mut told = HashMap::new();
    let mut dice = Dice::new(23);
    for _ in 0..CALLS / 500 {
        let calls: Vec<(u64, String)> = (0..500).map(|_| call(&mut dice)).collect();
        let sent: Vec<_> = calls.iter().map(|(_, line)| words(line)).collect();
        let answers = client.pipeline(&sent);
        for ((key, line), answer) in calls.into_iter().zip(&answers) {
            note(&mut told, key, &line, answer);
        }
    }
    // Nothing more is evicted while the keys are looked at.
    client.ok("CONFIG SET maxmemory 0");
    let evicted = number(&mut client, "stats", "evicted_keys");
    let left = client.int("DBSIZE");
    assert!(evicted > 1000 && left > 500, "{policy}: {evicted} evicted, {left} left");
    let (whole, gone) = look_at_all(&mut client, &told);
    assert_eq!(i64::try_from(whole).expect("a count"), left, "{policy}");
    assert!(gone > 500, "{policy}: {gone} limits of which a reply had told are gone");
    println!("{policy}: {evicted} evicted, {whole} whole, {gone} as new");
}

/// A call on one of the keys; which limiter a key has is a matter of its number. A debt now and
/// then, and windows with some more hits.
fn call(dice: &mut Dice) -> (u64, String) {
    let key = dice.throw(KEYS);
    let option = dice.pick(&["", "", "", " COST 2", " COST 9 FORCE", " COST 30", " PEEK"]);
    (key, format!("{}{option}", limit(key)))
}

fn limit(key: u64) -> String {
    // Different lifetimes, for the policy that goes by them.
    let ms = 3_600_000 + key * 1000;
    match key % 3 {
        0 => format!("RL.TOKENBUCKET t:{key} 20 1 PER {ms}"),
        1 => format!("RL.LEAKY l:{key} 20 1 PER {ms}"),
        _ => format!("RL.SLIDING s:{key} 20 {ms}"),
    }
}

/// Every answer is a limiter's, for this limit. Remembers what remained after the key's last call
/// that took something.
fn note(told: &mut HashMap<u64, i64>, key: u64, line: &str, answer: &Value) {
    assert_eq!(error_text(answer), None, "{line}");
    let reply = Reply::new(answer).unwrap_or_else(|| panic!("{line}: {answer:?}"));
    assert_eq!(reply.limit, 20, "{line}: {reply:?}");
    assert!((0..=20).contains(&reply.remaining), "{line}: {reply:?}");
    if line.ends_with("PEEK") || reply.allowed == 0 {
        // It may tell that the key was evicted.
        told.entry(key).and_modify(|remaining| *remaining = reply.remaining);
    } else {
        told.insert(key, reply.remaining);
    }
}

/// Each key that is there is whole: it holds what the last reply said, and its lifetime is that of
/// its reset. Each that is not there behaves as new. How many of either.
fn look_at_all(client: &mut Client, told: &HashMap<u64, i64>) -> (usize, usize) {
    let (mut whole, mut gone) = (0, 0);
    for (&key, &remaining) in told {
        let call = limit(key);
        let name = call.split(' ').nth(1).expect("a key");
        let sent = ["MULTI", &format!("RL.PEEK {name}"), &format!("PTTL {name}"), "EXEC"];
        let start = Instant::now();
        let Some(Value::Array(answers)) = client.pipeline(&sent.map(words)).pop() else {
            panic!("{name}: no answer to EXEC");
        };
        let pttl = int(&answers[1]);
        if let Some(peeked) = Reply::new(&answers[0]) {
            assert_eq!(peeked.remaining, remaining, "{name}");
            let reset_ms = peeked.reset_after_ms;
            // Before Redis 7.2 time goes on between the two.
            let apart_ms = i64::try_from(start.elapsed().as_millis()).expect("a few") + 1;
            assert!(
                pttl >= reset_ms - apart_ms && pttl <= reset_ms + 1001,
                "{name}: {peeked:?} {pttl}"
            );
            whole += 1;
        } else {
            assert_eq!((&answers[0], pttl), (&Value::Nil, -2), "{name}");
            let reply = client.limit(&call);
            assert_eq!((reply.allowed, reply.remaining), (1, 19), "{name} as new");
            gone += 1;
        }
    }
    (whole, gone)
}
