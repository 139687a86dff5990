//! What operators are shown of a running server: RL.STATS and the sections of INFO, RL.TOPDENIED,
//! RL.LOG, their configuration, and what redis_exporter and Grafana make of it.

mod support;

#[path = "observability/counters.rs"]
mod counters;
#[path = "observability/dashboard.rs"]
mod dashboard;
#[path = "observability/denial_log.rs"]
mod denial_log;
#[path = "observability/options.rs"]
mod options;
#[path = "observability/top_denied.rs"]
mod top_denied;

use std::collections::BTreeMap;

use redis::Value;
use support::{Client, bytes, int, list, text};

/// A call of each limiter on a key of its own whose limit is 5 an hour: its command, the call.
const LIMITERS: [(&str, &str); 3] = [
    ("rl.tokenbucket", "RL.TOKENBUCKET t 5 1 PER 3600000"),
    ("rl.leaky", "RL.LEAKY l 5 1 PER 3600000"),
    ("rl.sliding", "RL.SLIDING s 5 3600000"),
];

/// A call that is denied on any key whose limiter is a token bucket, or which is absent.
fn deny(client: &mut Client, key: &[u8]) {
    let call: [&[u8]; 6] = [b"RL.TOKENBUCKET", key, b"1", b"1", b"COST", b"2"];
    assert_eq!(int(&list(&client.call(&call))[0]), 0);
}

/// Many denials of one key, sent at once.
fn deny_often(client: &mut Client, key: &[u8], times: usize) {
    let call: Vec<Vec<u8>> =
        [&b"RL.TOKENBUCKET"[..], key, b"1", b"1", b"COST", b"2"].map(<[u8]>::to_vec).to_vec();
    let mut left = times;
    while left > 0 {
        let now = left.min(10_000);
        let answers = client.pipeline(&vec![call.clone(); now]);
        assert!(answers.iter().all(|answer| int(&list(answer)[0]) == 0));
        left -= now;
    }
}

/// RL.STATS, by command and counter.
fn stats(client: &mut Client) -> BTreeMap<String, BTreeMap<String, i64>> {
    counters(&client.ok("RL.STATS"))
}

fn counters(stats: &Value) -> BTreeMap<String, BTreeMap<String, i64>> {
    pairs(stats)
        .into_iter()
        .map(|(command, counters)| {
            let counters = pairs(&counters).into_iter();
            (command, counters.map(|(name, count)| (name, int(&count))).collect())
        })
        .collect()
}

/// A map's pairs, in RESP2 or RESP3.
fn pairs(map: &Value) -> Vec<(String, Value)> {
    match map {
        Value::Map(pairs) => {
            pairs.iter().map(|(name, value)| (text(name), value.clone())).collect()
        }
        flat => list(flat).chunks(2).map(|pair| (text(&pair[0]), pair[1].clone())).collect(),
    }
}

/// The counters that are not zero, as `command counter=value`.
fn raised(client: &mut Client) -> Vec<String> {
    let stats = stats(client);
    let counters = stats.iter().flat_map(|(command, counters)| {
        let nonzero = counters.iter().filter(|(_, count)| **count != 0);
        nonzero.map(move |(name, count)| format!("{command} {name}={count}"))
    });
    counters.collect()
}

/// RL.TOPDENIED's keys, counts and errors.
fn top_denied(client: &mut Client, arguments: &str) -> Vec<(Vec<u8>, i64, i64)> {
    let line = format!("RL.TOPDENIED{arguments}");
    list(&client.ok(&line))
        .iter()
        .map(|entry| match &list(entry)[..] {
            [key, count, error] => (bytes(key), int(count), int(error)),
            other => panic!("{other:?}"),
        })
        .collect()
}

/// An entry of RL.LOG.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    id: i64,
    time_us: i64,
    command: String,
    key: Vec<u8>,
    cost: i64,
    limit: i64,
    retry_after_ms: i64,
    client_id: i64,
}

fn log(client: &mut Client, arguments: &str) -> Vec<Entry> {
    let line = format!("RL.LOG GET{arguments}");
    list(&client.ok(&line))
        .iter()
        .map(|entry| match &list(entry)[..] {
            [id, time_us, command, key, cost, limit, retry_after_ms, client_id] => Entry {
                id: int(id),
                time_us: int(time_us),
                command: text(command),
                key: bytes(key),
                cost: int(cost),
                limit: int(limit),
                retry_after_ms: int(retry_after_ms),
                client_id: int(client_id),
            },
            other => panic!("{other:?}"),
        })
        .collect()
}
