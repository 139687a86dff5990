//! A storm of calls on a live server: random and almost right ones of all commands, plain, in
//! transactions, scripts and functions, on several connections at once, while users rename, copy,
//! restore and persist keys, operators reload, save and flush, clients that wait are let go or cut
//! off, and a replica follows.
//!
//! Every answer is judged by the contract. At the end the server is alive and has not complained,
//! no key of the module lacks a time to live, the replica and the append-only file hold what the
//! server holds, and its memory is as before.
//!
//! `RL_STORM_CALLS` says how many calls of the module there are (30,000), `RL_STORM_SEED` repeats a
//! run, as far as the order in which a server reads its clients allows it; `make fuzz-server` runs
//! a million.

mod support;

#[path = "storm/batch.rs"]
mod batch;
#[path = "storm/calls.rs"]
mod calls;
#[path = "storm/holdings.rs"]
mod holdings;
#[path = "storm/judge.rs"]
mod judge;
#[path = "storm/waiters.rs"]
mod waiters;

use std::time::Instant;

use batch::{Batch, LIBRARY, Storm};
use holdings::{expect_same, expect_ttls, holdings};
use support::{
    Client, Config, Product, Server, Version, field, pack, quoted, until, wait_for_replica,
};
use waiters::Waiters;

/// Connections that send at the same time.
const CLIENTS: usize = 4;
/// Keys that live for less are not compared: they may expire in between.
const LASTING_MS: i64 = 600_000;
/// What may stay in use of the server's memory, in bytes.
const TREMOR: i64 = 1_500_000;
/// Lines of the log that tell of a fault.
const FAULTS: [&str; 7] = [
    "panicked",
    "bug in the module",
    "BUG REPORT",
    "ASSERTION",
    "internal error",
    "crashed by",
    // A replica that does not take what its primary says.
    "sending an error to its master",
];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

fn config() -> Config {
    Config::new()
        .debug()
        .module_args("rl.client-time yes rl.compat-cell yes")
        .line("appendonly yes")
        .line("appendfsync no")
        .line("repl-backlog-size 1mb")
        .line("rdbcompression no")
        .line("sanitize-dump-payload yes")
}

/// The servers, and the connections of one storm.
struct Scene {
    server: Server,
    replica: Server,
    watch: Client,
    clients: Vec<Client>,
    waiters: Waiters,
    storm: Storm,
}

#[test]
fn a_storm_of_calls_breaks_nothing() {
    let (calls, seed) = (number("RL_STORM_CALLS", 30_000), number("RL_STORM_SEED", 20_261_130));
    println!("RL_STORM_CALLS={calls} RL_STORM_SEED={seed}");
    let start = Instant::now();
    let server = Server::with(&config());
    let replica = server.replica_with(config());
    let mut watch = server.client();
    watch.call(&[b"FUNCTION", b"LOAD".as_slice(), LIBRARY]);
    let clients = (0..CLIENTS).map(|nth| connect(&server, nth)).collect();
    let (storm, waiters) = (Storm::new(seed, !misreads_memory(&mut watch)), Waiters::new());
    let mut scene = Scene { server, replica, watch, clients, waiters, storm };
    // What is made once is made in the first fifth.
    scene.blow(calls / 5);
    scene.calm_down();
    let before = scene.memory_at_rest(i64::MAX);
    scene.blow(calls);
    scene.calm_down();
    scene.expect_same_elsewhere();
    let after = scene.memory_at_rest(before + TREMOR);
    scene.expect_health();
    println!("memory in use: {before} before, {after} after; {:?}", start.elapsed());
    scene.print_tally(calls);
}

/// Whether MEMORY USAGE of a module's key that expires ends the server, for Redis' own vector sets
/// as well: Redis from 8.2 on takes what lies before such a key for its size, where it uses libc's
/// malloc.
fn misreads_memory(client: &mut Client) -> bool {
    let version = Version::from_info(&client.info("server"));
    let of_libc = client.info("memory").contains("mem_allocator:libc");
    version.product == Product::Redis && version.number >= (8, 2, 0) && of_libc
}

/// A connection: every other speaks RESP3, and one is in another database.
fn connect(server: &Server, nth: usize) -> Client {
    let mut client = if nth.is_multiple_of(2) { server.client() } else { server.client3() };
    if nth == 1 {
        client.ok("SELECT 1");
    }
    client
}

impl Scene {
    /// Goes on until so many calls of the module were judged.
    fn blow(&mut self, calls: u64) {
        let step = calls / 10 + 1;
        let mut checked = 0;
        while self.judged() < calls {
            self.round();
            for _ in 0..self.storm.caller.dice.throw(2) {
                let Storm { caller, tally, .. } = &mut self.storm;
                self.waiters.step(&self.server, &mut self.watch, caller, tally);
            }
            if self.storm.caller.once_in(50) {
                self.lose_a_client();
            }
            if self.judged() / step > checked {
                checked = self.judged() / step;
                self.watch.ok("CONFIG SET maxmemory 0");
                expect_ttls(&mut self.watch);
                if checked.is_multiple_of(4) {
                    self.reload();
                }
            }
        }
    }

    fn judged(&self) -> u64 {
        self.storm.tally.starting_with("call ")
    }

    /// All connections send at once, and then all answers are judged.
    fn round(&mut self) {
        let mut sent = Vec::new();
        for client in &mut self.clients {
            let batch = self.storm.batch();
            let mut packed = Vec::new();
            batch.iter().for_each(|(words, _)| pack(&mut packed, words));
            client.send_bytes(&packed).expect("the server takes what is sent");
            sent.push(batch);
        }
        for (client, batch) in self.clients.iter_mut().zip(sent) {
            let answers = read(client, &batch);
            self.storm.judge(batch, &answers);
        }
    }

    /// A connection ends, by either side, with answers that nobody reads.
    fn lose_a_client(&mut self) {
        let nth = self.storm.caller.below(CLIENTS);
        let id = self.clients[nth].int("CLIENT ID");
        let mut packed = Vec::new();
        self.storm.batch().iter().for_each(|(words, _)| pack(&mut packed, words));
        packed.truncate(self.storm.caller.below(packed.len()));
        self.clients[nth].send_bytes(&packed).expect("the server takes what is sent");
        let lost = std::mem::replace(&mut self.clients[nth], connect(&self.server, nth));
        if self.storm.caller.once_in(2) {
            self.watch.run(&format!("CLIENT KILL ID {id}"));
        } else {
            lost.cut();
        }
        self.storm.tally.count("connections lost");
    }

    /// Nobody calls or waits, and nothing is under way.
    fn calm_down(&mut self) {
        std::mem::replace(&mut self.waiters, Waiters::new()).end();
        self.clients.clear();
        let watch = &mut self.watch;
        until("nobody is left", || {
            let info = watch.info("clients");
            field(&info, "blocked_clients") == Some("0")
                && field(&info, "connected_clients").is_some_and(|clients| clients == "1")
        });
        for line in ["CONFIG SET maxmemory 0", "CONFIG SET rl.client-time yes"] {
            watch.ok(line);
        }
        expect_ttls(watch);
        self.server.wait_for_background_jobs();
        wait_for_replica(&self.server, &self.replica);
        self.clients = (0..CLIENTS).map(|nth| connect(&self.server, nth)).collect();
    }

    /// The replica holds what the server holds, and so does its append-only file.
    fn expect_same_elsewhere(&mut self) {
        let here = holdings(&mut self.watch);
        assert!(here.len() > 20, "only {} keys", here.len());
        let until_ms = self.watch.time_us() / 1000 + LASTING_MS;
        expect_same(&here, &holdings(&mut self.replica.client()), until_ms, "the replica");
        self.watch.ok("DEBUG LOADAOF");
        expect_same(&here, &holdings(&mut self.watch), until_ms, "the append-only file");
        println!("{} keys are the same on the replica and in the append-only file", here.len());
    }

    /// Saves and loads all there is. What had expired is gone afterwards, of which the server tells
    /// neither its replica nor its file: both begin anew.
    fn reload(&mut self) {
        self.server.wait_for_background_jobs();
        for line in ["DEBUG RELOAD", "BGREWRITEAOF", "DEBUG CHANGE-REPL-ID"] {
            self.watch.ok(line);
        }
        self.server.wait_for_background_jobs();
        self.watch.ok("CLIENT KILL TYPE replica");
        wait_for_replica(&self.server, &self.replica);
        self.storm.tally.count("reloaded");
    }

    /// The memory of a server that holds nothing.
    fn memory_at_rest(&mut self, most: i64) -> i64 {
        self.clients.clear();
        let watch = &mut self.watch;
        for line in ["FLUSHALL", "RL.LOG RESET", "RL.TOPDENIED RESET", "CONFIG RESETSTAT"] {
            watch.ok(line);
        }
        for line in ["CONFIG SET rl.log-max-len 0", "CONFIG SET rl.topdenied-size 0"] {
            watch.ok(line);
        }
        let (mut last, mut same) = (0_i64, 0);
        until("the memory has come to rest, as before", || {
            let info = watch.info("memory");
            let used = field(&info, "used_memory").and_then(|used| used.parse().ok());
            let used: i64 = used.expect("it is told");
            same = if (used - last).abs() < 4000 { same + 1 } else { 0 };
            last = used;
            same >= 30 && used <= most
        });
        self.clients = (0..CLIENTS).map(|nth| connect(&self.server, nth)).collect();
        last
    }

    /// Both servers run and have not told of a fault.
    fn expect_health(&mut self) {
        for server in [&mut self.server, &mut self.replica] {
            assert!(server.is_running());
            let log = server.log();
            let faults: Vec<_> = log
                .lines()
                .filter(|line| FAULTS.iter().any(|fault| line.contains(fault)))
                .collect();
            assert!(faults.is_empty(), "{faults:#?}");
        }
        self.server.stop();
    }

    /// How often everything happened, which must be often for the storm to mean something.
    fn print_tally(&self, calls: u64) {
        let tally = &self.storm.tally;
        tally.0.iter().for_each(|(what, count)| println!("{count:>9} {what}"));
        for what in [
            "allowed",
            "denied",
            "shadowed",
            "RL.ALL over",
            "RL.ALL allowed",
            "error WRONGTYPE",
            "error of an argument",
            "error arity",
            "error of a bound or AT",
            "RESTORE taken",
            "RESTORE refused",
            "times to live checked",
            "waits ended",
        ] {
            assert!(tally.of(what) > calls / 2000, "{what}: {}", tally.of(what));
        }
    }
}

/// The answers to a batch.
fn read(client: &mut Client, batch: &Batch) -> Vec<redis::Value> {
    let mut answers = Vec::new();
    for (words, _) in batch {
        match client.try_read() {
            Ok(answer) => answers.push(answer),
            Err(error) => panic!("no answer to {}: {error}", quoted(words)),
        }
    }
    answers
}
