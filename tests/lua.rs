//! The Lua scripts that `make bench` compares with decide as the module does: so the comparison is
//! of the same work.
//!
//! Random calls in real time, each asked of both in one transaction. Their clocks are some us
//! apart, and the module keeps a hit's time to the ms, so within one ms of the boundary they may
//! differ; then both start anew.

mod support;

use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use support::{Client, DEADLINE, Dice, Reply, Server, error_text, ints, list, text};

/// Answers of each kind that have to be compared.
const ENOUGH: u32 = 300;

/// What was compared.
#[derive(Debug, Default)]
struct Seen {
    allowed: u32,
    denied: u32,
    at_the_boundary: u32,
    interrupted: u32,
}

/// A limiter of the module and the script that should be the same.
struct Pair<'a> {
    script: &'a str,
    /// The module's call with limit and rate or window, and the script's arguments.
    command: &'a str,
    arguments: &'a str,
}

/// The capacity or limit of all pairs, and the window in us.
const LIMIT: i64 = 5;
const WINDOW_US: i64 = 20_000;

#[test]
fn the_token_bucket_decides_as_the_module() {
    compare(&Pair {
        script: include_str!("../benches/server/token_bucket.lua"),
        command: "RL.TOKENBUCKET rl 5 400",
        arguments: "5 400 1000",
    });
}

#[test]
fn the_leaky_bucket_decides_as_the_module() {
    compare(&Pair {
        script: include_str!("../benches/server/leaky_bucket.lua"),
        command: "RL.LEAKY rl 5 400",
        arguments: "5 400 1000",
    });
}

#[test]
fn the_sliding_log_decides_as_the_module() {
    compare(&Pair {
        script: include_str!("../benches/server/sliding_log.lua"),
        command: "RL.SLIDING rl 5 20",
        arguments: "5 20",
    });
}

/// A denied token bucket that is not written to stays the same bucket.
#[test]
fn a_script_that_spares_writes_decides_as_the_module() {
    let full = include_str!("../benches/server/token_bucket.lua");
    let script = full.replace("ARGV[5]", "'sparing'");
    assert_ne!(script, full);
    compare(&Pair { script: &script, command: "RL.TOKENBUCKET rl 5 400", arguments: "5 400 1000" });
}

/// Makes random calls for a while; fails where the two differ away from the boundary.
fn compare(pair: &Pair) {
    let server = Server::start();
    let mut client = server.client();
    let hash = text(&client.call(&["SCRIPT", "LOAD", pair.script]));
    let mut dice = Dice::new(3);
    let mut seen = Seen::default();
    let start = Instant::now();
    while seen.allowed < ENOUGH || seen.denied < ENOUGH {
        assert!(start.elapsed() < DEADLINE, "too few to tell: {seen:?}");
        // Time is what is tested: calls come close together and apart.
        thread::sleep(Duration::from_micros(dice.throw(6000)));
        // One that no bucket holds now and then.
        let cost = dice.pick(&[1, 1, 1, 2, 2, 3, 5, LIMIT + 1]);
        let Both { module, script, apart_us, oldest_us } = ask(&mut client, pair, &hash, cost);
        if apart_us > 1000 {
            seen.interrupted += 1;
            client.ok("DEL rl lua");
            continue;
        }
        if module.allowed == script[0] {
            match module.allowed {
                1 => seen.allowed += 1,
                _ => seen.denied += 1,
            }
            // Several hits may leave a window in the same ms.
            let is_log = script.len() == 2;
            let apart = (module.remaining - script[1]).abs();
            assert!(is_log || apart <= 1, "COST {cost}: {module:?}, the script: {script:?}");
            continue;
        }
        let at_the_boundary = match module.allowed {
            0 => (0..=1).contains(&module.retry_after_ms),
            _ => script.get(2).is_some_and(|&retry_ms| retry_ms <= 1) || oldest_us <= 1000,
        };
        assert!(at_the_boundary, "COST {cost}: {module:?}, the script: {script:?} {oldest_us}");
        seen.at_the_boundary += 1;
        client.ok("DEL rl lua");
    }
    let Seen { allowed, denied, at_the_boundary, interrupted } = seen;
    println!("{}: {seen:?}", pair.command);
    let left_out = at_the_boundary + interrupted;
    assert!(left_out * 10 < allowed + denied, "too many are left out: {seen:?}");
}

/// Both answers to a call.
struct Both {
    module: Reply,
    script: Vec<i64>,
    /// The time from before the first to after the second: longer than some us where the server was
    /// interrupted.
    apart_us: i64,
    /// For a log, how long the hit still counted that was in the way.
    oldest_us: i64,
}

/// Asks both at one instant.
fn ask(client: &mut Client, pair: &Pair, hash: &str, cost: i64) -> Both {
    let lines = [
        "MULTI".to_owned(),
        "TIME".to_owned(),
        format!("{} COST {cost}", pair.command),
        format!("EVALSHA {hash} 1 lua {} {cost}", pair.arguments),
        "TIME".to_owned(),
        "EXEC".to_owned(),
    ];
    let calls = lines.map(|line| support::words(&line));
    let answers = client.pipeline(&calls);
    let answers = list(answers.last().expect("an answer to EXEC"));
    for answer in &answers {
        assert_eq!(error_text(answer), None, "{}", pair.command);
    }
    let time_us = |answer: &Value| {
        let parts = list(answer);
        let parts: Vec<i64> =
            parts.iter().map(|part| text(part).parse().expect("a number")).collect();
        parts[0] * 1_000_000 + parts[1]
    };
    let module = Reply::new(&answers[1]).expect("a limiter's reply");
    let script = ints(&answers[2]).expect("the script answers integers");
    let apart_us = time_us(&answers[3]) - time_us(&answers[0]);
    let is_log = script.len() == 2;
    let differ = is_log && module.allowed != script[0];
    let oldest_us = if differ { log_age(client, cost) } else { i64::MAX };
    Both { module, script, apart_us, oldest_us }
}

/// How long, at most, a hit of the log would have had to leave for a call of `cost` to be allowed:
/// the time that some hit still counted before the present, in us.
fn log_age(client: &mut Client, cost: i64) -> i64 {
    let hits = list(&client.ok("ZRANGE lua 0 -1 WITHSCORES"));
    let scores: Vec<i64> = hits.iter().skip(1).step_by(2).map(score_us).collect();
    let needed = usize::try_from(scores.len() as i64 + cost - LIMIT - 1).unwrap_or(0);
    scores.get(needed).map_or(i64::MAX, |hit_us| hit_us + WINDOW_US - client.time_us())
}

fn score_us(score: &Value) -> i64 {
    text(score).parse::<f64>().expect("a score") as i64
}
