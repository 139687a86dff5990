//! What both servers hold: at rest, and all the time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{GROWTH, RESIDENT_PERCENT};
use crate::support::{
    Client, Dice, Server, error_text, field, int, list, text, until, wait_for_replica,
};

/// Between two looks at the resident memory.
const PERIOD: Duration = Duration::from_secs(5);
/// How long the memory of a server at rest is looked at.
const SETTLING: Duration = Duration::from_secs(8);
/// The most that is remembered of denials, in bytes: a thousand places in both, and the names of
/// the keys.
const MOST_OF_DENIALS: i64 = 2 * 1000 * 400;

/// A server at rest: named numbers of INFO.
pub type AtRest = BTreeMap<String, i64>;

fn number(info: &str, name: &str) -> i64 {
    field(info, name).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{name}"))
}

/// Memory of both when all keys have ended and all clients left.
pub fn at_rest(server: &Server, replica: &Server) -> AtRest {
    let mut client = server.client();
    for line in [
        // Off and on again: nothing that was remembered has a place any more.
        "CONFIG SET rl.topdenied-size 0",
        "CONFIG SET rl.topdenied-size 256",
        "CONFIG SET rl.log-max-len 0",
        "CONFIG SET rl.log-max-len 128",
        "MEMORY PURGE",
    ] {
        // MEMORY PURGE is there only with jemalloc.
        let _ = error_text(&client.run(line));
    }
    until("all keys have ended", || client.int("DBSIZE") == 0);
    drop(client);
    until("the replica is linked", || {
        replica.client().info("replication").contains("master_link_status:up")
    });
    wait_for_replica(server, replica);
    server.wait_for_background_jobs();
    replica.wait_for_background_jobs();
    let mut rest = AtRest::new();
    for (name, server) in [("primary", server), ("replica", replica)] {
        let mut client = server.client();
        assert_eq!(client.int("DBSIZE"), 0, "keys of the {name}");
        let clients = text(&client.ok("CLIENT LIST TYPE normal"));
        let unsent = clients.split(' ').filter_map(|word| word.strip_prefix("omem="));
        let unsent = unsent.map(|bytes| bytes.parse::<i64>().expect("a size")).sum();
        rest.insert(format!("{name} bytes to send"), unsent);
        // Every command that this test uses at rest has been used before: the server keeps how long
        // each took.
        let used = settled(&mut client);
        let info = text(&client.ok("INFO everything"));
        rest.insert(format!("{name} used_memory"), used);
        for wanted in ["blocked_clients", "clients_in_timeout_table", "rl_topdenied_keys"] {
            rest.insert(format!("{name} {wanted}"), number(&info, wanted));
        }
        for wanted in ["rl_log_len", "rl_log_bytes", "rl_topdenied_bytes", "used_memory_rss"] {
            rest.insert(format!("{name} {wanted}"), number(&info, wanted));
        }
    }
    rest
}

/// The least memory that is seen for a while, without what the server keeps of its own clients and
/// its stream: tables shrink, and buffers come and go.
fn settled(client: &mut Client) -> i64 {
    let used = |client: &mut Client| {
        let info = client.info("memory");
        let besides = [
            "mem_replication_backlog",
            "mem_clients_normal",
            "mem_clients_slaves",
            "mem_aof_buffer",
        ];
        let besides: i64 = besides.iter().map(|name| number(&info, name)).sum();
        number(&info, "used_memory") - besides
    };
    let start = Instant::now();
    let mut least = used(client);
    while start.elapsed() < SETTLING {
        thread::sleep(Duration::from_millis(100));
        least = least.min(used(client));
    }
    least
}

/// Looks at both servers until the load ends: the resident memory of the first, and how often keys
/// and expiries were counted.
pub fn sample(server: &Server, replica: &Server, stop: &AtomicBool) -> (Vec<i64>, u64) {
    let mut clients = [server.client(), replica.client()];
    let (mut resident, mut samples, mut last) = (Vec::new(), 0, Instant::now());
    let mut dice = Dice::new(1);
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(dice.throw(40)));
        for (name, client) in ["primary", "replica"].iter().zip(&mut clients) {
            let info = client.info("keyspace");
            let Some(line) = field(&info, "db0") else { continue };
            let number = |name: &str| line.split(',').find_map(|part| part.strip_prefix(name));
            assert_eq!(number("keys="), number("expires="), "{line} on the {name}");
            samples += 1;
        }
        if last.elapsed() > PERIOD {
            last = Instant::now();
            let memory = clients[0].info("memory");
            resident.push(number(&memory, "used_memory_rss"));
            if resident.len() % 60 == 0 {
                let used = number(&memory, "used_memory");
                println!("{samples} samples; used {used}, resident {:?}", resident.last());
            }
            let info = clients[0].info("rl");
            let denials = number(&info, "rl_topdenied_bytes") + number(&info, "rl_log_bytes");
            assert!(denials <= MOST_OF_DENIALS, "{denials} bytes for denials");
        }
    }
    (resident, samples)
}

/// Both servers hold what they held.
pub fn expect_no_growth(before: &AtRest, after: &AtRest, resident: &[i64], samples: u64) {
    assert!(samples > 0, "nothing was looked at");
    for (name, now) in after {
        let was = before[name];
        if name.ends_with("used_memory") {
            println!("{name}: {was} before, {now} after: {} more", now - was);
            assert!(now - was <= GROWTH, "{name} has grown from {was} to {now}");
        } else if !name.ends_with("rss") {
            assert_eq!(*now, 0, "{name}");
        }
    }
    let (first, second) = resident.split_at(resident.len() / 2);
    let most = |half: &[i64]| half.iter().copied().max().unwrap_or_default();
    let (first, second) = (most(first), most(second));
    println!("resident: at most {first} in the first half, {second} in the second");
    let bound = first + first * RESIDENT_PERCENT / 100 + 2 * 1024 * 1024;
    assert!(second <= bound, "resident memory has grown from {first} to {second}");
}

/// Calls of the module that SLOWLOG has: how long they took, and which.
pub fn slow_calls(client: &mut Client) -> Vec<(Duration, String)> {
    let entries = list(&client.ok("SLOWLOG GET -1"));
    let call = |entry: &redis::Value| {
        let parts = list(entry);
        let words: Vec<String> = list(&parts[3]).iter().map(text).collect();
        let us = u64::try_from(int(&parts[2])).expect("a time");
        (Duration::from_micros(us), words.join(" ").chars().take(80).collect::<String>())
    };
    entries.iter().map(call).filter(|(_, call)| call.to_uppercase().starts_with("RL.")).collect()
}
