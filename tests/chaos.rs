//! A cluster under load while its processes are killed, again and again: nobody gets more than the
//! limit and what asynchronous replication is known to forget.
//!
//! Three primaries and three replicas, with append-only files and snapshots. Clients call all
//! limiters, some of them through `RL.ALL`, give back, wait, vanish in the middle of a call, and
//! ask for `WAIT`. The test goes in rounds: the load begins, something strikes (see
//! `chaos/strikes.rs`), the cluster recovers, the load rests, and the books of the clients are
//! compared with what every node holds.
//!
//! **What may be forgotten** is computed before it is looked for. A primary that is replaced may
//! forget what it has answered since the last write that a client saw confirmed by `WAIT 1`: all
//! before it is at the replica, since the stream keeps its order. A primary that comes back from
//! its own files may forget what it has answered in the [`FILE_LAG`] before it was killed. Nothing
//! else may: so no round without either may lose one unit. In every round, for every key:
//!
//! - units counted <= before + acknowledged + unanswered: nothing is counted twice;
//! - units counted >= before + acknowledged - may be forgotten: nothing else is lost;
//! - admitted, without what may be forgotten <= capacity + rate x time, or the limit of a window,
//!   in every interval between two calls;
//! - a denial only where the limit may be reached;
//! - the keys of one `RL.ALL` have counted the same.
//!
//! At all times, on every node, as many keys as expiries. At rest each replica holds what its
//! primary holds, byte for byte and expiry for expiry, and each key lives until its reset and at
//! most a second more. No client waits longer than [`PATIENCE`], no server crashes by itself, and
//! the cluster recovers each time.
//!
//! Run by `make chaos`, for `CHAOS_SECONDS`. `SEED` chooses what strikes when; how calls and
//! strikes interleave is up to the machine.

mod support;

#[path = "chaos/books.rs"]
mod books;
#[path = "chaos/gate.rs"]
mod gate;
#[path = "chaos/plan.rs"]
mod plan;
#[path = "chaos/rest.rs"]
mod rest;
#[path = "chaos/strikes.rs"]
mod strikes;
#[path = "chaos/worker.rs"]
mod worker;

use std::collections::BTreeMap;
use std::env;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use books::Books;
use gate::Gate;
use plan::Plan;
use strikes::{STRIKES, Struck, Target};
use support::cluster::Cluster;
use support::{Config, Dice, field, text, until};

/// How long a node may be silent before the others replace it.
const NODE_TIMEOUT: Duration = Duration::from_millis(1500);
/// The longest that a server with `appendfsync everysec` holds back what it has answered from its
/// file: two seconds while the disk is slow, and the turn in which it notices.
const FILE_LAG: Duration = Duration::from_secs(3);
/// The longest that any answer may take: a paused server answers when it goes on, and the pauses
/// are shorter.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the load goes on before a strike and after the recovery.
const CALM: Duration = Duration::from_millis(700);
/// Words that no server's log may hold: it has crashed, or could not read what it had written.
const CRASHES: [&str; 8] = [
    "BUG REPORT",
    "crashed by signal",
    "panicked",
    "ASSERTION",
    "Guru Meditation",
    "Bad file format",
    "Internal error in RDB",
    "Unrecoverable error",
];

/// What happened in all rounds.
#[derive(Default)]
pub struct Figures {
    counts: BTreeMap<String, u64>,
    worst_recovery: Duration,
}

impl Figures {
    /// Counts something.
    pub fn add(&mut self, what: &str, count: u64) {
        *self.counts.entry(what.to_owned()).or_default() += count;
    }

    fn print(&self) {
        for (what, count) in &self.counts {
            println!("{what}: {count}");
        }
        println!("longest from the first kill or pause until whole: {:.1?}", self.worst_recovery);
    }
}

fn number_from(name: &str) -> Option<u64> {
    let value = env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// Both kinds of append-only file are written, and snapshots all the time.
fn cluster() -> Cluster {
    let config = Config::new()
        .line("appendonly yes")
        .line("appendfsync everysec")
        .line("auto-aof-rewrite-min-size 256kb")
        .line("save 5 100")
        .line("cluster-require-full-coverage no")
        // A replica whose snapshot was killed ends by itself otherwise, at the next write.
        .line("replica-ignore-disk-write-errors yes");
    let cluster = Cluster::start(&config, NODE_TIMEOUT);
    for index in [1, 4] {
        cluster.node(index).client().ok("CONFIG SET aof-use-rdb-preamble no");
    }
    cluster
}

#[test]
fn limits_hold_while_processes_are_killed() {
    let seconds = number_from("CHAOS_SECONDS").unwrap_or(600);
    assert!(seconds <= 3600, "CHAOS_SECONDS is at most 3600: no unit may come back meanwhile");
    let seed = number_from("SEED").unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs())
    });
    println!("SEED={seed} CHAOS_SECONDS={seconds}");
    let mut cluster = cluster();
    println!("{:?}", cluster.node(0).version());
    let gate = Gate::new(Instant::now());
    let ports: Vec<u16> = cluster.nodes().iter().map(|node| node.port()).collect();
    let mut figures = Figures::default();
    thread::scope(|scope| {
        let _end = gate.end_on_drop();
        for number in 0..worker::WORKERS {
            let (gate, ports) = (&gate, &ports);
            scope.spawn(move || worker::run(gate, ports, seed, number));
        }
        scope.spawn(|| worker::inspect(&gate, &ports, seed));
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut dice = Dice::new(seed);
        let mut books = Books::new(&cluster);
        let mut round = 0;
        // Each kind of strike comes as often as the others, in an order of chance.
        let mut left: Vec<usize> = Vec::new();
        while Instant::now() < end {
            if left.is_empty() {
                left = (0..STRIKES.len()).collect();
            }
            let sides = u64::try_from(left.len()).expect("a few strikes");
            let chosen = left.remove(usize::try_from(dice.throw(sides)).expect("an index"));
            round += 1;
            play(round, chosen, &mut cluster, &gate, &mut books, &mut dice, &mut figures);
        }
        figures.add("rounds", round);
    });
    figures.print();
    rest::expect_no_crash(&cluster);
    assert!(figures.counts["calls"] > seconds * 100, "hardly any load");
}

/// One round: load, a strike, the recovery, and the books.
fn play(
    round: u64,
    chosen: usize,
    cluster: &mut Cluster,
    gate: &Gate,
    books: &mut Books,
    dice: &mut Dice,
    figures: &mut Figures,
) {
    let plan = Arc::new(Plan::new(cluster, round));
    let owners = owners(cluster);
    gate.open(&plan);
    thread::sleep(CALM);
    let shard = usize::try_from(dice.throw(3)).expect("a shard");
    let (name, strike) = STRIKES[chosen];
    let primary = owners[shard];
    let mut target = Target { cluster, shard, primary, dice, gate, struck: Struck::default() };
    strike(&mut target);
    let struck = target.struck;
    figures.add(&format!("strike: {name}"), 1);
    struck.killed.iter().for_each(|(what, count)| figures.add(&format!("killed: {what}"), *count));
    recover(cluster);
    let recovery = struck.since.map_or(Duration::ZERO, |since| since.elapsed());
    figures.worst_recovery = figures.worst_recovery.max(recovery);
    thread::sleep(CALM);
    let events = gate.close(PATIENCE * 2);
    let faults = gate.faults();
    assert!(faults.is_empty(), "round {round}, {name}: {}", faults.join("\n"));
    // A slow machine may have seen more than one recovery.
    recover(cluster);
    rest::expect_equal(cluster);
    rest::expect_no_crash(cluster);
    let lapses = books::lapses(&struck, shard, &owners, &self::owners(cluster), gate);
    let moved = owners.iter().zip(self::owners(cluster)).filter(|(was, is)| *was != is).count();
    figures.add("failovers", u64::try_from(moved).expect("at most three"));
    let summary = books.settle(cluster, &plan, &events, &lapses, &gate.errors(), figures);
    let whole = struck
        .since
        .map_or("whole all the time".to_owned(), |_| format!("whole after {recovery:.1?}"));
    println!("round {round}: {name} at shard {shard}, {whole}, {summary}");
}

/// Who serves each third of the slots.
fn owners(cluster: &Cluster) -> Vec<usize> {
    (0..3).map(|shard| cluster.owner(plan::first_slot(shard))).collect()
}

/// Waits until the cluster is whole: all nodes agree, and each replica follows its primary.
fn recover(cluster: &Cluster) {
    cluster.wait_until_agreed();
    for owner in owners(cluster) {
        let replica = (owner + 3) % 6;
        until("the replica is linked again", || {
            let info = cluster.node(replica).client().info("replication");
            let of_owner = cluster.node(owner).client().info("replication");
            field(&info, "master_link_status") == Some("up") && of_owner.contains("state=online")
        });
    }
    let whole = text(&cluster.node(0).client().ok("CLUSTER INFO"));
    assert_eq!(field(&whole, "cluster_state"), Some("ok"));
}
