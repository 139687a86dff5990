//! The limiters as citizens of the server: what writes and what does not, how long keys live, and
//! that files, replicas, scripts, copies and the configuration keep what they are given.
//!
//! A payload is a function of the state alone, so two servers hold the same state exactly if DUMP
//! and PEXPIRETIME answer the same on both: that is how the tests here compare.

mod support;

#[path = "citizen/configuration.rs"]
mod configuration;
#[path = "citizen/files.rs"]
mod files;
#[path = "citizen/free.rs"]
mod free;
#[path = "citizen/keys.rs"]
mod keys;
#[path = "citizen/lifetime.rs"]
mod lifetime;
#[path = "citizen/replication.rs"]
mod replication;
#[path = "citizen/replies.rs"]
mod replies;

use std::collections::BTreeMap;

use support::{Client, Dice, KEYS_OF_EACH, Snapshot, bytes, list, text};

/// A call of each limiter on a key of its own whose limit is 2 for an hour.
const LIMITERS: [(&str, &str); 3] = [
    ("t", "RL.TOKENBUCKET t 2 1 PER 3600000"),
    ("l", "RL.LEAKY l 2 1 PER 3600000"),
    ("s", "RL.SLIDING s 2 3600000"),
];

/// What a database holds: value and expiry of each key.
type Contents = BTreeMap<String, (Vec<u8>, i64)>;

fn contents(client: &mut Client) -> Contents {
    let keys = list(&client.ok("KEYS *"));
    keys.iter()
        .map(|key| {
            let key = text(key);
            let dump = bytes(&client.ok(&format!("DUMP {key}")));
            let expire_ms = client.int(&format!("PEXPIRETIME {key}"));
            (key, (dump, expire_ms))
        })
        .collect()
}

/// Some hundred calls of every kind, the same for the same seed up to the clock.
fn mixed_calls(client: &mut Client, seed: u64) {
    let mut dice = Dice::new(seed);
    for _ in 0..400 {
        client.ok(&dice.long_call());
    }
    // What was given back whole ends within a second: not while a test compares.
    for number in 0..KEYS_OF_EACH {
        client.limit(&format!("RL.TOKENBUCKET t{number} 5 1 PER 3600000 FORCE"));
        client.limit(&format!("RL.LEAKY l{number} 5 1 PER 3600000 FORCE"));
        client.limit(&format!("RL.SLIDING s{number} 5 3600000 FORCE"));
    }
}

fn snapshot(client: &mut Client, key: &str) -> Snapshot {
    Snapshot::of(client, key)
}
