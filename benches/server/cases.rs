//! The contenders: what is called, on which keys, and what the keys hold before.
//!
//! Allowed calls start from keys that are filled anew for every measurement, so that they are
//! allowed to the end. Denied calls find keys that are full for hours and leave them so.

use redis::Value;

use super::fill::{Fill, WINDOW_MS, load_script};
use super::load::{self, Shape};
use super::stats::Sample;
use super::support::{Client, Server, error_text, ints};

/// What redis-benchmark replaces by the number of a key.
pub const RANDOM: &str = "__rand_int__";
/// Keys of an ordinary contender.
const KEYS: u64 = 10_000;
/// Calls of one measurement, of a native command and of one that is several times slower.
const CALLS: u64 = Shape::PIPELINED.calls;
pub const SLOW_CALLS: u64 = 24_000;
const MANY_KEYS: u64 = 1_000_000;

/// One contender.
#[derive(Clone, Debug)]
pub struct Case {
    /// By which tables and targets know it.
    pub name: String,
    /// The call.
    pub words: Vec<String>,
    /// What its keys hold.
    pub fill: Fill,
    /// Whether one filling lasts for all rounds.
    pub lasting: bool,
    /// How many keys.
    pub keys: u64,
    /// Calls of a pipelined measurement.
    pub calls: u64,
    /// The first number of the answer, to be sure that it was what the name says.
    pub answers: Option<i64>,
    /// Whether it is part of `make bench-quick`.
    pub quick: bool,
    /// Whether it is measured without pipelining too.
    pub single: bool,
}

impl Case {
    /// A contender whose keys are filled by the call itself before each measurement.
    pub fn new(name: &str, call: &str) -> Case {
        let words: Vec<String> = call.split_whitespace().map(str::to_owned).collect();
        Case {
            name: name.to_owned(),
            fill: if words.len() > 1 { Fill::Call(words.clone()) } else { Fill::Nothing },
            words,
            lasting: false,
            keys: if call.contains(RANDOM) { KEYS } else { 1 },
            calls: CALLS,
            answers: None,
            quick: false,
            single: false,
        }
    }

    fn allowed(self) -> Case {
        Case { answers: Some(1), ..self }
    }

    fn denied(self, fill: Fill) -> Case {
        Case { answers: Some(0), fill, lasting: true, ..self }
    }

    /// Denied since the same call.
    fn denied_as_filled(self) -> Case {
        let fill = self.fill.clone();
        self.denied(fill)
    }

    /// Allowed, and full after more rounds than there may be.
    fn growing(self, fill: Fill) -> Case {
        Case { fill, lasting: true, ..self.allowed() }
    }

    fn many(self) -> Case {
        Case { keys: MANY_KEYS, lasting: true, ..self }
    }

    fn slow(self) -> Case {
        Case { calls: SLOW_CALLS, ..self }
    }

    fn quick(self) -> Case {
        Case { quick: true, ..self }
    }

    fn single(self) -> Case {
        Case { single: true, ..self }
    }

    /// Whether it works on one key only.
    pub fn shape(&self, shape: Shape, db: usize) -> Shape {
        Shape { keys: self.keys, db, ..shape }
    }

    /// Fills its keys, after whatever the database held.
    pub fn prepare(&self, client: &mut Client, db: usize) {
        client.ok(&format!("SELECT {db}"));
        client.ok("FLUSHDB SYNC");
        let name = self.key_word();
        self.fill.run(client, &name, self.keys);
    }

    /// One measurement. The database is left empty where the filling does not last, so that keys
    /// which expire disturb nobody.
    pub fn measure(&self, server: &Server, shape: Shape, db: usize) -> Sample {
        let mut client = server.client();
        if self.lasting {
            client.ok(&format!("SELECT {db}"));
            self.warm(server, db);
        } else {
            self.prepare(&mut client, db);
        }
        let sample = load::measure(server, &self.words, &self.shape(shape, db));
        self.check(&mut client);
        if !self.lasting {
            client.ok("FLUSHDB SYNC");
        }
        sample
    }

    /// Calls most of its keys once. They were last touched in the round before, while others have
    /// just been filled: without this their calls alone would wait for main memory.
    fn warm(&self, server: &Server, db: usize) {
        if self.keys == KEYS {
            let shape = Shape { calls: 3 * KEYS, db, ..Shape::PIPELINED };
            load::benchmark(server.port(), &self.words, &shape, &[]);
        }
    }

    /// The call on its first key.
    pub fn first_call(&self) -> Vec<String> {
        let number = format!("{:012}", 0);
        self.words.iter().map(|word| word.replace(RANDOM, &number)).collect()
    }

    /// The call is still answered as the name says.
    fn check(&self, client: &mut Client) {
        let answer = client.call(&self.first_call());
        assert_eq!(error_text(&answer), None, "{}", self.name);
        if let Some(expected) = self.answers {
            let first = ints(&answer).and_then(|numbers| numbers.first().copied());
            assert_eq!(first, Some(expected), "{}: {answer:?}", self.name);
        }
    }

    /// The word that names the key: a script's stands behind its hash and the number of keys.
    fn key_word(&self) -> String {
        let index = if self.words[0] == "EVALSHA" { 3 } else { 1 };
        self.words.get(index).cloned().unwrap_or_default()
    }
}

/// A user's own script, called by its hash on so many keys with `args`, in which `{now}` and
/// `{now_ms}` stand for the time.
pub fn own(name: &str, hash: &str, keys: usize, args: &str, now_ms: i64) -> Case {
    let names: Vec<String> = (1..=keys).map(|key| format!("own{key}:{RANDOM}")).collect();
    let args = args
        .replace("{now_ms}", &now_ms.to_string())
        .replace("{now}", &(now_ms / 1000).to_string());
    let case = Case::new(name, &format!("EVALSHA {hash} {keys} {} {args}", names.join(" ")));
    case.slow().quick().single()
}

/// What else is there to compare with.
pub struct Others {
    /// Whether redis-cell is loaded.
    pub cell: bool,
    /// Another script.
    pub script: Option<Case>,
}

/// All contenders on `server`, in the order of the tables.
pub fn all(server: &Server, others: Others) -> Vec<Case> {
    let mut client = server.client();
    let mut cases = floors();
    cases.extend(buckets("RL.TOKENBUCKET"));
    cases.extend(buckets("RL.LEAKY"));
    cases.extend(windows());
    cases.extend(scripts(&mut client));
    if others.cell {
        cases.extend(throttle("redis-cell", "CL.THROTTLE"));
    }
    if is_command(&mut client, "GCRA") {
        cases.extend(throttle("GCRA", "GCRA"));
    }
    if is_command(&mut client, "INCREX") {
        cases.extend(increx());
    }
    cases.extend(others.script);
    cases
}

/// The server's own commands, and the least that a module's costs.
fn floors() -> Vec<Case> {
    vec![
        Case::new("PING", "PING").single(),
        Case::new("INCR", "INCR incr:__rand_int__").quick().single(),
        Case::new("INCR, 1,000,000 keys", "INCR incr:__rand_int__").many(),
        Case::new("SET EX", "SET set:__rand_int__ 1 EX 100").single(),
        floor("open and reply", BUCKET, indebted("RL.TOKENBUCKET")).quick().single(),
        floor("open and reply, a counter", "incr:__rand_int__", made_by("INCR incr:__rand_int__")),
    ]
}

/// The floor, by such words, on keys that are there.
fn floor(name: &str, words: &str, fill: Fill) -> Case {
    Case { fill, lasting: true, ..Case::new(name, &format!("BENCH.FLOOR {words}")) }
}

fn made_by(call: &str) -> Fill {
    Fill::Call(call.split_whitespace().map(str::to_owned).collect())
}

/// The key and the limit of a bucket that calls are allowed by, and denied where it is in debt.
const BUCKET: &str = "b:__rand_int__ 1000 10";

/// Buckets of that limit which deny for more than a day.
fn indebted(command: &str) -> Fill {
    made_by(&format!("{command} {BUCKET} COST 1000000 FORCE"))
}

fn buckets(command: &str) -> Vec<Case> {
    let case = |what: &str, call: &str| {
        Case::new(&format!("{command}, {what}"), &format!("{command} {call}"))
    };
    vec![
        case("allowed", BUCKET).allowed().quick().single(),
        case("denied", BUCKET).denied(indebted(command)).quick().single(),
        case("one hot key, allowed", "hot 1000000000 1000000").allowed(),
        case("1,000,000 keys, allowed", "b:__rand_int__ 1000000 1 PER 86400000").allowed().many(),
    ]
}

fn windows() -> Vec<Case> {
    let case = |what: &str, call: &str| {
        let name = format!("RL.SLIDING, {what}");
        Case { calls: SLOW_CALLS, ..Case::new(&name, &format!("RL.SLIDING {call}")) }
    };
    let full = |hits: u64| format!("full {hits} {WINDOW_MS}");
    let filling = Fill::Window(300_000);
    vec![
        case("limit 100, allowed", "s:__rand_int__ 100 60000").allowed().quick().single(),
        case("limit 100, denied", &format!("s:__rand_int__ 100 {WINDOW_MS}"))
            .denied(Fill::Window(100))
            .quick()
            .single(),
        case("limit 1,000,000, allowed", "s:__rand_int__ 1000000 60000").allowed(),
        case("one key of 300,000 hits, allowed", &full(1_000_000)).growing(filling),
        case("one key of 1,000,000 hits, denied", &full(1_000_000)).denied(Fill::Window(1_000_000)),
        case("1,000,000 keys, allowed", "s:__rand_int__ 1000000 86400000").allowed().many(),
    ]
}

/// The scripts that redis-rl brings for comparison.
fn scripts(client: &mut Client) -> Vec<Case> {
    let mut load = |script| load_script(client, script).expect("the server reads our scripts");
    let token = load(include_str!("token_bucket.lua"));
    let leaky = load(include_str!("leaky_bucket.lua"));
    let log = load(include_str!("sliding_log.lua"));
    let case = |what: &str, script: &str, call: &str| {
        Case::new(&format!("Lua {what}"), &format!("EVALSHA {script} 1 {call}")).slow()
    };
    let full = "b:__rand_int__ 10 1 86400000 1";
    let emptied = |script: &str, more: &str| {
        made_by(&format!("EVALSHA {script} 1 b:__rand_int__ 10 1 86400000 10 {more}"))
    };
    vec![
        case("token bucket, allowed", &token, "b:__rand_int__ 1000 10 1000 1")
            .allowed()
            .quick()
            .single(),
        case("token bucket, denied", &token, full).denied(emptied(&token, "")).quick().single(),
        case("token bucket, denied, not written", &token, &format!("{full} sparing"))
            .denied(emptied(&token, "")),
        case("token bucket, one hot key, allowed", &token, "hot 1000000000 1000000 1000 1")
            .allowed(),
        case(
            "token bucket, 1,000,000 keys, allowed",
            &token,
            "b:__rand_int__ 1000000 1 86400000 1",
        )
        .allowed()
        .many(),
        case("leaky bucket, allowed", &leaky, "b:__rand_int__ 1000 10 1000 1").allowed(),
        case("leaky bucket, denied", &leaky, full).denied(emptied(&leaky, "")),
        case("log, limit 100, allowed", &log, "s:__rand_int__ 100 60000 1")
            .allowed()
            .quick()
            .single(),
        case("log, limit 100, denied", &log, &format!("s:__rand_int__ 100 {WINDOW_MS} 1"))
            .denied(Fill::SortedSet(100))
            .quick(),
        case("log, limit 1,000,000, allowed", &log, "s:__rand_int__ 1000000 60000 1").allowed(),
        case("log, one key of 300,000 hits, allowed", &log, &log_call())
            .growing(Fill::SortedSet(300_000)),
        case("log, one key of 1,000,000 hits, denied", &log, &log_call())
            .denied(Fill::SortedSet(1_000_000)),
    ]
}

fn log_call() -> String {
    format!("full 1000000 {WINDOW_MS} 1")
}

/// A limiter with the arguments of redis-cell, whose answer begins with 1 where it denies.
fn throttle(name: &str, command: &str) -> Vec<Case> {
    let case = |what: &str, call: &str| {
        Case::new(&format!("{name}, {what}"), &format!("{command} {call}")).quick().single()
    };
    let allowed = case("allowed", "c:__rand_int__ 999 10 1");
    let denied = case("denied", "c:__rand_int__ 0 1 86400");
    vec![
        Case { answers: Some(0), ..allowed },
        Case { answers: Some(1), ..denied.denied_as_filled() },
    ]
}

/// The server's counter with a bound, a fixed window.
fn increx() -> Vec<Case> {
    let denied = Case::new("INCREX, denied", "INCREX i:__rand_int__ UBOUND 1 EX 86400 ENX");
    vec![
        Case::new("INCREX, allowed", "INCREX i:__rand_int__ UBOUND 1000000 EX 60 ENX")
            .quick()
            .single(),
        Case { lasting: true, ..denied }.quick().single(),
    ]
}

/// Whether the server has a command.
fn is_command(client: &mut Client, name: &str) -> bool {
    match client.ok(&format!("COMMAND INFO {name}")) {
        Value::Array(found) => found.first().is_some_and(|found| *found != Value::Nil),
        _ => false,
    }
}
