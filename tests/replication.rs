//! Replicas hold what their primary holds, however late they hear of it, and one that takes over
//! goes on where the primary was.
//!
//! A payload is a function of the state alone, so two servers hold the same states exactly if DUMP
//! and PEXPIRETIME answer the same on both for every key: that is how the tests here compare. The
//! basics are in `tests/citizen/replication.rs`, servers whose clocks differ in `tests/clock.rs`.
//!
//! Every report of the group "Replication and failover" in `tests/scenarios/not-vectors.md` has a
//! test, here or in `tests/clock.rs`, that names it.

mod support;

#[path = "replication/effects.rs"]
mod effects;
#[path = "replication/failover.rs"]
mod failover;
#[path = "replication/internal.rs"]
mod internal;
#[path = "replication/lag.rs"]
mod lag;
#[path = "replication/listeners.rs"]
mod listeners;
#[path = "replication/mix.rs"]
mod mix;
#[path = "replication/paused.rs"]
mod paused;
#[path = "replication/resync.rs"]
mod resync;
#[path = "replication/several.rs"]
mod several;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use support::{Client, Server, bytes, field, int, list, text, wait_for_replica, words};

/// A call of each limiter on a key of its own whose limit is 2 for an hour.
const LIMITERS: [(&str, &str); 3] = [
    ("t", "RL.TOKENBUCKET t 2 1 PER 3600000"),
    ("l", "RL.LEAKY l 2 1 PER 3600000"),
    ("s", "RL.SLIDING s 2 3600000"),
];

/// A function, `call`, that makes the call in its arguments as often as the first of them says, and
/// the same, `look`, for what only looks.
const FUNCTIONS: &str = "#!lua name=calls\n\
    local function call(keys, args)\n\
    local times = table.remove(args, 1)\nlocal answer\n\
    for i = 1, times do answer = redis.call(unpack(args)) end\nreturn answer\nend\n\
    redis.register_function('call', call)\n\
    redis.register_function{function_name='look', callback=call, flags={'no-writes'}}";

/// The same as a script, in the words of a line.
const SCRIPT: &str = "local\\stimes=table.remove(ARGV,1)\\slocal\\sanswer\\s\
    for\\si=1,times\\sdo\\sanswer=redis.call(unpack(ARGV))\\send\\sreturn\\sanswer";

/// What a database holds: value and expiry of each key.
type Contents = BTreeMap<String, (Vec<u8>, i64)>;

fn contents(client: &mut Client) -> Contents {
    let keys: Vec<String> = list(&client.ok("KEYS *")).iter().map(text).collect();
    let asked = keys.iter().flat_map(|key| [format!("DUMP {key}"), format!("PEXPIRETIME {key}")]);
    let answers = client.pipeline(&asked.map(|line| words(&line)).collect::<Vec<_>>());
    let pairs = answers.chunks(2).map(|pair| (bytes(&pair[0]), int(&pair[1])));
    keys.into_iter().zip(pairs).collect()
}

/// Waits until the replica has everything, and compares.
fn assert_same(primary: &Server, replica: &Server, what: &str) {
    wait_for_replica(primary, replica);
    let (here, there) = (contents(&mut primary.client()), contents(&mut replica.client()));
    assert!(!here.is_empty(), "{what}: nothing to compare");
    assert_equal(&here, &there, what);
}

/// Compares what two servers hold, and shows only what differs.
fn assert_equal(here: &Contents, there: &Contents, what: &str) {
    let keys: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    for key in keys {
        assert_eq!(there.get(key), here.get(key), "{what}: the key {key}");
    }
}

/// A number that INFO tells.
fn info_number(client: &mut Client, section: &str, name: &str) -> i64 {
    let info = client.info(section);
    let number = field(&info, name).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("INFO {section} tells no {name}: {info}"))
}

/// The group is covered: each of its reports is named in the documentation of a test.
#[test]
fn every_report_of_the_group_has_a_test() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let read = |path: &str| fs::read_to_string(tests.join(path)).expect(path);
    let list = read("scenarios/not-vectors.md");
    let group = list.split("\n## ").find(|part| part.starts_with("Replication and failover"));
    let named: Vec<&str> = group
        .expect("the group")
        .split(|c: char| c.is_whitespace() || ",:".contains(c))
        .filter(|word| word.starts_with("BR-"))
        .collect();
    assert_eq!(named.len(), 11, "reports in the group");
    let files = ["effects", "failover", "internal", "lag", "resync"];
    let files = files.map(|name| format!("replication/{name}.rs"));
    let docs: Vec<String> = files
        .iter()
        .map(String::as_str)
        .chain(["clock.rs"])
        .flat_map(|path| read(path).lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.starts_with("//"))
        .collect();
    for report in named {
        assert!(docs.iter().any(|line| line.contains(report)), "{report} has no test");
    }
}
