//! A server under mixed load for half an hour: nothing grows, nothing stays, nothing drifts.
//!
//! One server with a replica, an append-only file, snapshots and its file rewritten now and then.
//! Clients make every command of the module on keys that are new all the time and live for less
//! than two seconds, plainly, in transactions, scripts and pipelines, with errors among them;
//! others saturate three hot limits; the configuration changes. Memory is compared after the same
//! load has gone on for [`WARM_UP`] and at the end, each time when all keys have ended, all clients
//! left, and what is remembered of denials was forgotten:
//!
//! - no sample of either server, taken all the time, has a key without expiry;
//! - `used_memory` of both returns to what it was, within [`GROWTH`] bytes, though millions of keys
//!   have come and gone: a leak of one byte a key would show;
//! - the resident memory in the second half is at most that in the first and [`RESIDENT_PERCENT`]
//!   of it; what clients had to be sent is gone, and nobody is blocked;
//! - the memory of denials is within its bounds at every sample, and none when it is reset;
//! - `RL.STATS` has counted exactly what the clients were told, command by command;
//! - the hot buckets have admitted capacity + rate x time, two units more or less, and the hot
//!   window at most its limit in each window and nearly all of it;
//! - no call of the module took the server longer than [`SLOWEST`], 99 of 100 calls of each command
//!   that takes at most [`USUAL`], and each client gets all its answers.
//!
//! Run by `make soak`, for `SOAK_SECONDS`.

mod support;

#[path = "soak/hot.rs"]
mod hot;
#[path = "soak/memory.rs"]
mod memory;
#[path = "soak/mixed.rs"]
mod mixed;
#[path = "soak/reports.rs"]
mod reports;
#[path = "soak/told.rs"]
mod told;

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use hot::Passed;
use support::{Config, Dice, Server, error_text, field};
use told::Told;

/// The load before memory is first looked at: tables, buffers and scripts have their sizes then.
const WARM_UP: Duration = Duration::from_secs(30);
/// What `used_memory` may be more by at the end, in bytes: the server's own tables of statistics,
/// errors and clients.
const GROWTH: i64 = 64 * 1024;
/// What the resident memory may grow by, in hundredths, besides 2 MB of the allocator's.
const RESIDENT_PERCENT: i64 = 5;
/// The longest that a call of the module may hold the server, on a machine that others use too.
const SLOWEST: Duration = Duration::from_millis(100);
/// How long 99 of 100 calls that take hold the server at most. Of others too few are made to tell
/// them from the machine's pauses.
const USUAL: Duration = Duration::from_millis(1);
/// Clients of the mixed load.
const MIXED: u64 = 6;

/// What all clients of a load saw.
struct Seen {
    told: Told,
    passed: Vec<Passed>,
    latency_us: Histogram<u64>,
    resident: Vec<i64>,
    samples: u64,
}

/// The load, for so long, on a server and its replica.
fn load(server: &Server, replica: &Server, seed: u64, length: Duration) -> Seen {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = &stop;
        let mixed: Vec<_> = (0..MIXED)
            .map(|number| scope.spawn(move || mixed::run(server, seed * 100 + number, stop)))
            .collect();
        let hot: Vec<_> = (0..hot::CLIENTS)
            .map(|number| scope.spawn(move || hot::run(server, number, seed, stop)))
            .collect();
        scope.spawn(move || change_configuration(server, seed, stop));
        let sampler = scope.spawn(move || memory::sample(server, replica, stop));
        let start = Instant::now();
        // A client that fails ends the load at once.
        let failed = || mixed.iter().any(|client| client.is_finished()) || sampler.is_finished();
        while start.elapsed() < length && !failed() {
            thread::sleep(Duration::from_millis(100));
        }
        stop.store(true, Ordering::Relaxed);
        let (resident, samples) = sampler.join().expect("samples");
        let latency_us = Histogram::new(3).expect("a histogram");
        let mut seen =
            Seen { told: Told::default(), passed: vec![], latency_us, resident, samples };
        for client in mixed {
            let (told, latency_us) = client.join().expect("a client");
            seen.told.add(&told);
            seen.latency_us.add(latency_us).expect("the same bounds");
        }
        for client in hot {
            let (passed, told) = client.join().expect("a client");
            seen.told.add(&told);
            seen.passed.push(passed);
        }
        seen
    })
}

/// What an operator changes, saves and resets, all the time.
fn change_configuration(server: &Server, seed: u64, stop: &AtomicBool) {
    let mut dice = Dice::new(seed);
    let mut client = server.client();
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(dice.throw(1000)));
        let line = match dice.throw(8) {
            0 => format!("CONFIG SET rl.topdenied-size {}", dice.pick(&[0, 10, 256, 1000])),
            1 => format!("CONFIG SET rl.log-max-len {}", dice.pick(&[0, 10, 128, 1000])),
            2 => format!("CONFIG SET rl.client-time {}", dice.pick(&["yes", "no"])),
            3 => "RL.LOG RESET".to_owned(),
            4 => "RL.TOPDENIED RESET".to_owned(),
            5 => "BGSAVE".to_owned(),
            6 => "BGREWRITEAOF".to_owned(),
            _ => "CLIENT KILL TYPE replica".to_owned(),
        };
        // One save waits for another, and there may be no replica to cut off.
        let error = error_text(&client.run(&line));
        let expected = line.starts_with("BG");
        assert!(error.is_none() || expected, "{line}: {error:?}");
    }
}

#[test]
fn nothing_grows_stays_or_drifts() {
    let number = |name: &str| -> Option<u64> {
        let value = env::var(name).ok().filter(|value| !value.is_empty())?;
        Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
    };
    let seconds = number("SOAK_SECONDS").unwrap_or(1800);
    let seed = number("SEED").unwrap_or(1);
    println!("SOAK_SECONDS={seconds} SEED={seed}");
    let config = Config::new()
        .line("appendonly yes")
        .line("appendfsync everysec")
        .line("save 30 1000")
        .line("activedefrag no")
        .line("repl-backlog-size 1mb")
        .line("slowlog-log-slower-than 5000")
        .line("slowlog-max-len 1000");
    let server = Server::with(&config);
    let replica = server.replica_with(config);
    println!("{:?}", server.version());
    let first = load(&server, &replica, seed + 1, WARM_UP);
    let before = memory::at_rest(&server, &replica);
    println!("after {WARM_UP:?} of it: {before:?}");
    let mut seen = load(&server, &replica, seed, Duration::from_secs(seconds));
    let after = memory::at_rest(&server, &replica);
    println!("at the end: {after:?}");
    memory::expect_no_growth(&before, &after, &seen.resident, seen.samples);
    hot::expect_exact(&seen.passed);
    seen.told.add(&first.told);
    seen.told.expect_counted(&mut server.client());
    expect_quick(&server, &seen.latency_us);
    for log in [server.log(), replica.log()] {
        assert!(!log.contains("BUG REPORT") && !log.contains("panicked"), "{log}");
    }
    assert!(seen.told.calls > seconds * 200, "hardly any load: {} calls", seen.told.calls);
    println!("{} calls, {} samples of keys and expiries", seen.told.calls, seen.samples);
}

/// What the calls took the server and the clients.
fn expect_quick(server: &Server, latency_us: &Histogram<u64>) {
    let at = |quantile: f64| Duration::from_micros(latency_us.value_at_quantile(quantile));
    let worst = Duration::from_micros(latency_us.max());
    println!(
        "at a client: median {:?}, p99 {:?}, p99.9 {:?}, worst {worst:?}",
        at(0.5),
        at(0.99),
        at(0.999)
    );
    let mut client = server.client();
    for line in client.info("latencystats").lines().filter(|line| line.contains("rl.")) {
        println!("{line}");
        let p99 = line.split(',').find_map(|part| part.strip_prefix("p99="));
        let us: f64 = p99.and_then(|us| us.parse().ok()).expect("a time");
        let takes = told::COMMANDS.iter().any(|name| line.contains(&format!("rl.{name}:")));
        assert!(!takes || Duration::from_secs_f64(us / 1e6) <= USUAL, "{line}");
    }
    let slow = memory::slow_calls(&mut client);
    println!("slow calls: {slow:?}");
    let slowest = slow.iter().map(|call| call.0).max().unwrap_or_default();
    assert!(slowest <= SLOWEST, "a call held the server for {slowest:?}");
    assert!(field(&client.info("stats"), "evicted_keys") == Some("0"));
}
