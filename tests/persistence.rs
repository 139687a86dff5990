//! Nothing is lost and nothing is counted twice: through kills, restarts, snapshots, rewrites of
//! the append-only file, copies and moves of keys, other servers and files of earlier versions.
//!
//! A payload is a function of the state alone, so the same state has the same DUMP before and
//! after. What the tests of `citizen` show already (that each of these ways keeps a state at all)
//! is not repeated: here it happens under load, with many keys, and to the byte of memory.

mod support;

#[path = "persistence/crash.rs"]
mod crash;
#[path = "persistence/defrag.rs"]
mod defrag;
#[path = "persistence/digest.rs"]
mod digest;
#[path = "persistence/exchange.rs"]
mod exchange;
#[path = "persistence/golden.rs"]
mod golden;
#[path = "persistence/keyspace.rs"]
mod keyspace;
#[path = "persistence/load.rs"]
mod load;
#[path = "persistence/memory.rs"]
mod memory;
#[path = "persistence/restart.rs"]
mod restart;
#[path = "persistence/saving.rs"]
mod saving;

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use support::{Client, Config, Reply, Server, bytes, field, int, list, words};

/// What a database holds: value and expiry of each key.
type Contents = BTreeMap<String, (Vec<u8>, i64)>;

fn contents(client: &mut Client) -> Contents {
    // As the words of a line have it.
    let keys = list(&client.ok("KEYS *"));
    let keys: Vec<String> = keys.iter().map(|key| bytes(key).escape_ascii().to_string()).collect();
    let ask =
        |what: &str| keys.iter().map(|key| words(&format!("{what} {key}"))).collect::<Vec<_>>();
    let dumps = client.pipeline(&ask("DUMP"));
    let expiries = client.pipeline(&ask("PEXPIRETIME"));
    let values = dumps.iter().map(bytes).zip(expiries.iter().map(int));
    keys.iter().cloned().zip(values).collect()
}

/// The append-only file with each write in it before it is answered, with or without a snapshot in
/// front, rewritten when a test says so.
fn append_only(preamble: &str) -> Config {
    Config::new()
        .append_only()
        .line(&format!("aof-use-rdb-preamble {preamble}"))
        .line("auto-aof-rewrite-percentage 0")
}

/// Hits of a window that [`hit`] makes, each 100 ms after the one before, as long as they count.
const HITS_IN_WINDOW: u64 = 36_000;

/// The call that makes hit number `number` of a window which is never full.
fn hit(key: &str, number: u64) -> String {
    let (window_ms, at_ms) = (100 * HITS_IN_WINDOW, 1_700_000_000_000 + 100 * number);
    format!("RL.SLIDING {key} 1000000 {window_ms} AT {at_ms}")
}

/// Makes some hits of a window, on a server that takes the caller's clock.
fn grow_window(client: &mut Client, key: &str, hits: Range<u64>) {
    let calls: Vec<_> = hits.map(|number| words(&hit(key, number))).collect();
    for some in calls.chunks(1000) {
        let allowed = |answer| Reply::new(answer).is_some_and(|reply| reply.allowed == 1);
        assert!(client.pipeline(some).iter().all(allowed), "{key}");
    }
}

/// What the server has allocated, in bytes.
fn used_memory(client: &mut Client) -> u64 {
    let info = client.info("memory");
    field(&info, "used_memory").and_then(|bytes| bytes.parse().ok()).expect("it is told")
}

/// Rewrites the append-only file, and waits until that has succeeded.
fn rewrite(server: &Server) {
    server.wait_for_background_jobs();
    server.client().ok("BGREWRITEAOF");
    server.wait_for_background_jobs();
    let info = server.client().info("persistence");
    assert!(info.contains("aof_last_bgrewrite_status:ok"), "{info}");
}

/// The clock of this machine, which is that of the server, in ms since the epoch.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(since.as_millis()).expect("a clock before the end of time")
}

/// Tells whoever runs the tests what could not be tested, past the capture of their output.
fn report(what: &str) {
    // A test must not fail for a closed terminal.
    let _ = writeln!(std::io::stderr(), "NOT TESTED: {what}");
}
