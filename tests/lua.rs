//! The Lua scripts that `make bench` compares with decide as the module does: so the comparison is
//! of the same work.
//!
//! Random calls in real time, each asked of both in one transaction. Their clocks are some us apart,
//! and the module keeps a hit's time to the ms, so within one ms of the boundary they may differ;
//! then both start anew.

mod support;

use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use support::{Client, Dice, Reply, Server, error_text, ints, list, text};

/// How long calls are made.
const TIME: Duration = Duration::from_secs(4);

/// What was compared.
#[derive(Debug, Default)]
struct Seen {
    allowed: u32,
    denied: u32,
    at_the_boundary: u32,
}

/// A limiter of the module and the script that should be the same.
struct Pair {
    script: &'static str,
    /// The module's call with limit and rate or window, and the script's arguments.
    command: &'static str,
    arguments: &'static str,
    limit: i64,
}

const CAPACITY: i64 = 5;

#[test]
fn the_token_bucket_decides_as_the_module() {
    compare(&Pair {
        script: include_str!("../benches/server/token_bucket.lua"),
        command: "RL.TOKENBUCKET rl 5 400",
        arguments: "5 400 1000",
        limit: CAPACITY,
    });
}

#[test]
fn the_leaky_bucket_decides_as_the_module() {
    compare(&Pair {
        script: include_str!("../benches/server/leaky_bucket.lua"),
        command: "RL.LEAKY rl 5 400",
        arguments: "5 400 1000",
        limit: CAPACITY,
    });
}

#[test]
fn the_sliding_log_decides_as_the_module() {
    compare(&Pair {
        script: include_str!("../benches/server/sliding_log.lua"),
        command: "RL.SLIDING rl 5 20",
        arguments: "5 20",
        limit: CAPACITY,
    });
}

/// A denied token bucket that is not written to stays the same bucket.
#[test]
fn a_script_that_spares_writes_decides_as_the_module() {
    let full = include_str!("../benches/server/token_bucket.lua");
    let script: &'static str = Box::leak(full.replace("ARGV[5]", "'sparing'").into_boxed_str());
    assert_ne!(script, full);
    compare(&Pair {
        script,
        command: "RL.TOKENBUCKET rl 5 400",
        arguments: "5 400 1000",
        limit: CAPACITY,
    });
}

/// Makes random calls for a while; fails where the two differ away from the boundary.
fn compare(pair: &Pair) {
    let server = Server::start();
    let mut client = server.client();
    let hash = text(&client.call(&["SCRIPT", "LOAD", pair.script]));
    let mut dice = Dice::new(3);
    let mut seen = Seen::default();
    let start = Instant::now();
    while start.elapsed() < TIME {
        // Time is what is tested: calls come close together and apart.
        thread::sleep(Duration::from_micros(dice.throw(6000)));
        // One that no bucket holds now and then.
        let cost = dice.pick(&[1, 1, 1, 2, 2, 3, 5, pair.limit + 1]);
        let (module, script, oldest_us) = ask(&mut client, pair, &hash, cost);
        if module.allowed == script[0] {
            match module.allowed {
                1 => seen.allowed += 1,
                _ => seen.denied += 1,
            }
            let remaining_apart = (module.remaining - script[1]).abs();
            assert!(remaining_apart <= 1 || module.allowed == 0, "{module:?} {script:?}");
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
    let Seen { allowed, denied, at_the_boundary } = seen;
    assert!(allowed >= 200 && denied >= 200, "too few to tell: {seen:?}");
    assert!(at_the_boundary * 10 < allowed + denied, "too many are at the boundary: {seen:?}");
}

/// Both answers of one instant, and for a log how long its oldest hit still counts, in us.
fn ask(client: &mut Client, pair: &Pair, hash: &str, cost: i64) -> (Reply, Vec<i64>, i64) {
    let lines = [
        "MULTI".to_owned(),
        format!("{} COST {cost}", pair.command),
        format!("EVALSHA {hash} 1 lua {} {cost}", pair.arguments),
        "EXEC".to_owned(),
    ];
    let calls = lines.map(|line| support::words(&line));
    let answers = client.pipeline(&calls);
    let answers = list(answers.last().expect("an answer to EXEC"));
    for answer in &answers {
        assert_eq!(error_text(answer), None, "{}", pair.command);
    }
    let module = Reply::new(&answers[0]).expect("a limiter's reply");
    let script = ints(&answers[1]).expect("the script answers integers");
    let oldest_us = if script.len() == 2 && module.allowed != script[0] {
        log_age(client, cost)
    } else {
        i64::MAX
    };
    (module, script, oldest_us)
}

/// How long, at most, a hit of the log would have had to leave for a call of `cost` to be allowed:
/// the time that some hit still counted before the present, in us.
fn log_age(client: &mut Client, cost: i64) -> i64 {
    let hits = list(&client.ok("ZRANGE lua 0 -1 WITHSCORES"));
    let scores: Vec<i64> =
        hits.iter().skip(1).step_by(2).map(|score| score_us(score)).collect();
    let needed = usize::try_from(scores.len() as i64 + cost - CAPACITY - 1).unwrap_or(0);
    scores.get(needed).map_or(i64::MAX, |hit_us| hit_us + 20_000 - client.time_us())
}

fn score_us(score: &Value) -> i64 {
    text(score).parse::<f64>().expect("a score") as i64
}
