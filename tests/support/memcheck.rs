//! Servers under valgrind's memcheck, see `tests/memcheck/run.sh`: they are slow, and end in order,
//! for only then is it told what leaked.
//!
//! What a server holds when it ends is no leak, but looks like one: the address of a window's older
//! hits is packed, and memcheck finds none that is not aligned. So a server is emptied before it
//! ends, and leaks are looked for where that went well. A file named by the process tells it.

use std::env;
use std::fs;
use std::path::Path;

use super::client::Client;

/// Whether they are, by the environment variable RL_MEMCHECK when the tests are compiled.
pub const MEMCHECK: bool = option_env!("RL_MEMCHECK").is_some();

/// Deletes all keys, on a replica too.
pub fn empty(client: &mut Client) {
    let lines = ["REPLICAOF NO ONE", "CONFIG SET replica-read-only no", "FLUSHALL SYNC"];
    for line in lines {
        // A server that refuses is not told to be empty.
        let words: Vec<&str> = line.split(' ').collect();
        let _ = client.try_call(&words);
    }
}

/// Notes that a server which is about to end is empty, if it is.
pub fn note_if_empty(client: &mut Client, process: u32) {
    let Some(reports) = env::var_os("RL_MEMCHECK_REPORTS") else { return };
    let Ok(answer) = client.try_call(&["INFO", "keyspace"]) else { return };
    let told = format!("{answer:?}");
    if told.contains("# Keyspace") && !told.contains("keys=") {
        let note = Path::new(&reports).join(format!("{process}.empty"));
        fs::write(note, "").expect("the folder of the reports");
    }
}
