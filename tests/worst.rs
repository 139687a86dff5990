//! The worst that a client can send by design, and what it costs at most: memory and time are
//! bounded, and a call that passes a bound gets an error. docs/OPERATIONS.md tells the bounds.
//!
//! Figures are printed: `cargo test --test worst -- --nocapture`.

mod support;

use redis::Value;
use support::{Client, Config, Server, error_text, field, list, text, until, words};

const START_MS: i64 = 1_700_000_000_000;
/// Calls in one pipeline.
const AT_ONCE: usize = 1000;
/// No call by itself takes as long, in µs. The machine may stand still in the middle of some, one
/// in so many; what is slow by itself is slow in many more, as a block is made of some hundred.
const SLOW_US: u64 = 5000;
const STANDSTILLS: usize = 5000;
/// Rounds, of which the fastest counts.
const ROUNDS: usize = 5;

fn server() -> Server {
    let config = Config::new().client_time();
    let config = config.line(&format!("slowlog-log-slower-than {SLOW_US}"));
    Server::with(&config.line("slowlog-max-len 1000"))
}

fn used(client: &mut Client) -> i64 {
    let info = client.info("memory");
    field(&info, "used_memory").and_then(|used| used.parse().ok()).expect("INFO tells it")
}

/// Makes calls in pipelines until all are made or one gets an error, which is returned with how
/// many were answered before.
fn call_all(client: &mut Client, calls: impl Iterator<Item = String>) -> (usize, Option<String>) {
    let mut calls = calls.peekable();
    let mut answered = 0;
    while calls.peek().is_some() {
        let some: Vec<_> = calls.by_ref().take(AT_ONCE).map(|call| words(&call)).collect();
        for answer in client.pipeline(&some) {
            if let Some(error) = error_text(&answer) {
                return (answered, Some(error));
            }
            answered += 1;
        }
    }
    (answered, None)
}

/// Looks through the slow log after so many calls.
fn assert_none_is_slow(client: &mut Client, calls: usize) {
    let slow = list(&client.ok("SLOWLOG GET 1000"));
    let ours = slow.iter().filter(|entry| {
        let call = list(&list(entry)[3]);
        text(&call[0]).to_ascii_lowercase().starts_with("rl.")
    });
    let count = ours.count();
    assert!(count <= calls / STANDSTILLS, "{count} of {calls} calls took more than {SLOW_US} us");
}

/// What a call takes in the server, in µs, in the fastest of some rounds.
fn least_us(client: &mut Client, call: &[&[u8]]) -> u64 {
    let name = format!("cmdstat_{}", String::from_utf8_lossy(call[0]).to_ascii_lowercase());
    let round = |_| {
        client.ok("CONFIG RESETSTAT");
        client.call(call);
        let stats = client.info("commandstats");
        let stats = field(&stats, &name).expect("the server counts").to_owned();
        let us = stats.split(',').find_map(|stat| stat.strip_prefix("usec="));
        us.and_then(|us| us.parse().ok()).expect("a number")
    };
    (0..ROUNDS).map(round).min().expect("a round")
}

/// The limit that never denies, in the longest window and the finest steps: each hit is an entry
/// of its own, until the key holds as much as it may.
#[test]
fn the_greatest_limit_in_the_finest_steps() {
    const MAX: i64 = 1_000_000;
    let server = server();
    let mut client = server.client();
    client.ok(&format!("CONFIG SET rl.sliding-max-bytes {MAX}"));
    let hit = |number: i64| {
        let at_ms = START_MS + number * 100;
        format!("RL.SLIDING s 9007199254740992 315360000000 RESOLUTION 1 AT {at_ms}")
    };
    let (hits, error) = call_all(&mut client, (0..10_000_000).map(hit));
    let error = error.expect("a hit that passes the bound");
    assert!(error.contains("rl.sliding-max-bytes") && error.contains("RESOLUTION"), "{error}");
    let bytes = client.memory_usage("s");
    println!("limit 2^53, RESOLUTION 1: {hits} hits in {bytes} bytes, at most {MAX}");
    assert!(bytes <= MAX + 500 && hits > 300_000, "{hits} hits in {bytes} bytes");
    // And all leave at once.
    let later = START_MS + 315_360_000_000 * 2;
    let first = client.limit(&format!("RL.SLIDING s 9007199254740992 315360000000 AT {later}"));
    assert_eq!(first.remaining, 9_007_199_254_740_991);
    assert_none_is_slow(&mut client, hits);
}

/// A million calls a second on one window: hits of one millisecond share an entry, so what the key
/// takes depends on the time, not on the calls.
#[test]
fn a_million_hits_a_second_on_one_key() {
    let server = server();
    let mut client = server.client();
    let hits = (0..200_000)
        .map(|hit| format!("RL.SLIDING s 9007199254740992 60000 AT {}", START_MS + hit / 200));
    assert_eq!(call_all(&mut client, hits), (200_000, None));
    let bytes = client.memory_usage("s");
    println!("200 hits in each of 1,000 ms: {bytes} bytes");
    assert!(bytes <= 4 * 1000 + 1000, "{bytes} bytes");
    assert_none_is_slow(&mut client, 200_000);
}

/// Keys of one hit each, as many as a client likes: each takes little, and they end by themselves.
#[test]
fn keys_without_end() {
    const KEYS: i64 = 100_000;
    let server = Server::start();
    let mut client = server.client();
    for call in ["RL.TOKENBUCKET {} 1000000 0.001 PER 86400000", "RL.SLIDING {} 1000000 86400000"] {
        client.ok("FLUSHALL");
        let before = used(&mut client);
        let calls = (0..KEYS).map(|key| call.replace("{}", &format!("rl:user:{key:012}")));
        assert_eq!(call_all(&mut client, calls), (100_000, None));
        let bytes = (used(&mut client) - before) / KEYS;
        println!("{call}: {bytes} bytes a key");
        assert!(bytes <= 200, "{bytes} bytes a key");
        let info = client.info("keyspace");
        assert!(info.contains(&format!("keys={KEYS},expires={KEYS}")), "{info}");
    }
}

/// Names of ten megabytes: a call costs what the server's own commands cost with them, which read
/// the name several times, and what is kept of a name beside its key is little.
#[test]
fn names_of_ten_megabytes() {
    let server = Server::start();
    let mut client = server.client();
    let name = vec![b'n'; 10_000_000];
    let before = used(&mut client);
    client.call(&[b"RL.TOKENBUCKET", name.as_slice(), b"1", b"1", b"PER", b"3600000"]);
    let expire_us = least_us(&mut client, &[b"PEXPIRE", &name, b"3600000"]);
    let calls = [
        ("denied", "RL.TOKENBUCKET {} 1 1 PER 3600000"),
        ("forced", "RL.TOKENBUCKET {} 1 1 PER 3600000 FORCE"),
        ("looked at", "RL.PEEK {}"),
        ("told", "RL.INFO {}"),
        ("given back", "RL.REFUND {} 1"),
        ("with rules", "RL.ALL 1 {} TOKENBUCKET 1 1 PER 3600000"),
    ];
    for (what, call) in calls {
        let words = call.split(' ').map(|word| if word == "{}" { &name } else { word.as_bytes() });
        let call: Vec<&[u8]> = words.collect();
        assert_eq!(error_text(&client.call(&call)), None, "{what}");
        let us = least_us(&mut client, &call);
        println!("a name of 10 MB, {what}: {us} us, PEXPIRE {expire_us} us");
        assert!(us < 12 * expire_us + 1000, "{what}: {us} us, PEXPIRE {expire_us} us");
    }
    let wrong = client.call(&[b"RL.SLIDING", name.as_slice(), b"1", b"1000"]);
    assert!(error_text(&wrong).expect("an error").starts_with("WRONGTYPE"));
    assert_eq!(client.call(&[b"DEL", name.as_slice()]), Value::Int(1));
    // The log and the sketch of the most denied keep its beginning.
    for shown in ["RL.LOG GET 10", "RL.TOPDENIED"] {
        let answer = format!("{:?}", client.ok(shown));
        assert!(answer.len() < 10_000, "{shown}: {} bytes", answer.len());
    }
    drop(client);
    let mut client = server.client();
    until("the name is given back", || used(&mut client) - before < 1_000_000);
}

/// Ten megabytes where a number or an option is expected are refused without much reading.
#[test]
fn words_of_ten_megabytes() {
    let server = Server::start();
    let mut client = server.client();
    for byte in [b'0', b'1', b'.'] {
        let long = vec![byte; 10_000_000];
        let calls: [&[&[u8]]; 4] = [
            &[b"RL.TOKENBUCKET", b"k", &long, b"1"],
            &[b"RL.TOKENBUCKET", b"k", b"1", &long],
            &[b"RL.SLIDING", b"k", b"1", b"1000", b"COST", &long],
            &[b"RL.SLIDING", b"k", b"1", b"1000", &long, b"1"],
        ];
        for call in calls {
            let error = error_text(&client.call(call)).expect("an error");
            assert!(error.starts_with("ERR ") && error.len() < 300, "{} bytes", error.len());
            let us = least_us(&mut client, call);
            assert!(us < SLOW_US, "{us} us");
        }
    }
    assert_eq!(client.int("DBSIZE"), 0);
}

/// The longest answers that the module gives.
#[test]
fn the_longest_answers() {
    let server = server();
    let mut client = server.client();
    client.ok("CONFIG SET rl.log-max-len 100000");
    client.ok("CONFIG SET rl.topdenied-size 10000");
    let denied = (0..100_000).map(|key| format!("RL.TOKENBUCKET k{} 1 1 COST 2", key % 20_000));
    assert_eq!(call_all(&mut client, denied), (100_000, None));
    let before = used(&mut client);
    let answers: [(&[&[u8]], usize); 2] = [
        (&[b"RL.LOG", b"GET", b"100000"], 100_000),
        (&[b"RL.TOPDENIED", b"COUNT", b"10000"], 10_000),
    ];
    for (call, len) in answers {
        assert_eq!(list(&client.call(call)).len(), len);
        let us = least_us(&mut client, call);
        println!("{len} entries of {}: {us} us", String::from_utf8_lossy(call[0]));
        assert!(us < 500_000, "{us} us");
    }
    println!("{before} bytes used with the longest log and sketch");
    assert!(before < 60_000_000, "{before} bytes");
}
