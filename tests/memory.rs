//! The limiters where the server has no memory left.
//!
//! - A server that does not evict: keys that exist stay enforced, what needs a new key or a longer
//!   log gets the error that SET would get, nothing is left half-written, and all works again when
//!   there is memory.
//! - A server that evicts: no call is answered with an error, a limit that is evicted behaves as
//!   new, and each that survives is whole.
//! - A window takes no more than `rl.sliding-max-bytes`.
//! - A server that has memory: what keys took is free again when they have ended.

mod support;

#[path = "memory/ended.rs"]
mod ended;
#[path = "memory/evicting.rs"]
mod evicting;
#[path = "memory/full.rs"]
mod full;
#[path = "memory/longest.rs"]
mod longest;

use support::{Client, field};

/// What every server answers to a command that may need memory where there is none.
const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// A call of each limiter on a key of its own whose limit is 5 an hour.
const LIMITERS: [(&str, &str); 3] = [
    ("t", "RL.TOKENBUCKET t 5 1 PER 3600000"),
    ("l", "RL.LEAKY l 5 1 PER 3600000"),
    ("s", "RL.SLIDING s 5 3600000"),
];

/// From now on the server uses more than it may.
fn fill(client: &mut Client) {
    client.ok("CONFIG SET maxmemory 1");
}

/// From now on there is memory without a limit.
fn relieve(client: &mut Client) {
    client.ok("CONFIG SET maxmemory 0");
}

/// The call on another key.
fn on(call: &str, key: &str) -> String {
    let mut words: Vec<&str> = call.split(' ').collect();
    words[1] = key;
    words.join(" ")
}

/// A number that INFO tells.
fn number(client: &mut Client, section: &str, name: &str) -> i64 {
    let info = client.info(section);
    field(&info, name).and_then(|number| number.parse().ok()).expect("INFO tells it")
}
