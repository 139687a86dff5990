//! What strikes the cluster. Each strike comes back when nothing is broken on purpose any more:
//! killed servers run again, paused ones go on.

use std::thread;
use std::time::{Duration, Instant};

use super::gate::Gate;
use super::plan::first_slot;
use crate::support::cluster::Cluster;
use crate::support::{Dice, error_text, until};

/// What a strike has done, as far as the books need it.
#[derive(Default)]
pub struct Struck {
    /// When the primary was killed, in us since the start.
    pub primary_killed_us: Option<u64>,
    /// Whether the replica was started again, so that it has what its files had.
    pub replica_started: bool,
    /// Processes and connections that were killed, by kind.
    pub killed: Vec<(&'static str, u64)>,
    /// When the first server was killed or paused.
    pub since: Option<Instant>,
}

impl Struck {
    fn begins(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }
}

/// A strike at the servers of one third of the slots, whose primary is given.
type Strike = fn(&mut Cluster, usize, usize, &mut Dice, &Gate, &mut Struck);

/// All strikes, by name.
pub const STRIKES: [(&str, Strike); 14] = [
    ("primary killed, replaced", primary_replaced),
    ("primary killed, started at once", primary_at_once),
    ("primary killed while it saves, replaced", saving_primary_replaced),
    ("primary killed while it rewrites its file, started at once", rewriting_primary_at_once),
    ("link to the replica cut, primary killed, replaced", cut_off_primary_replaced),
    ("replica killed", replica_killed),
    ("primary and replica killed", both_killed),
    ("rewrite of the append-only file killed", rewrite_killed),
    ("snapshot killed", snapshot_killed),
    ("snapshot for a replica killed", sync_killed),
    ("clients killed", clients_killed),
    ("primary paused shortly", primary_paused),
    ("primary paused, replaced", paused_primary_replaced),
    ("replica paused", replica_paused),
];

/// The other server of the same slots.
fn partner(node: usize) -> usize {
    (node + 3) % 6
}

fn sleep_up_to(dice: &mut Dice, ms: u64) {
    thread::sleep(Duration::from_millis(dice.throw(ms)));
}

fn kill_primary(cluster: &mut Cluster, primary: usize, gate: &Gate, struck: &mut Struck) {
    struck.begins();
    struck.primary_killed_us = Some(gate.now_us());
    cluster.node_mut(primary).kill();
    struck.killed.push(("primary", 1));
}

fn wait_for_takeover(cluster: &Cluster, shard: usize, primary: usize) {
    let slot = first_slot(shard);
    until("a replica takes over", || {
        cluster.owner_seen_by(partner(primary), slot) == partner(primary)
    });
}

fn primary_replaced(
    cluster: &mut Cluster,
    shard: usize,
    primary: usize,
    dice: &mut Dice,
    gate: &Gate,
    struck: &mut Struck,
) {
    kill_primary(cluster, primary, gate, struck);
    wait_for_takeover(cluster, shard, primary);
    sleep_up_to(dice, 500);
    cluster.node_mut(primary).start_again();
}

fn primary_at_once(
    cluster: &mut Cluster,
    _: usize,
    primary: usize,
    _: &mut Dice,
    gate: &Gate,
    struck: &mut Struck,
) {
    kill_primary(cluster, primary, gate, struck);
    cluster.node_mut(primary).start_again();
}

fn saving_primary_replaced(
    cluster: &mut Cluster,
    shard: usize,
    primary: usize,
    dice: &mut Dice,
    gate: &Gate,
    struck: &mut Struck,
) {
    begin(cluster, primary, Job::Snapshot);
    sleep_up_to(dice, 300);
    primary_replaced(cluster, shard, primary, dice, gate, struck);
}

fn rewriting_primary_at_once(
    cluster: &mut Cluster,
    shard: usize,
    primary: usize,
    dice: &mut Dice,
    gate: &Gate,
    struck: &mut Struck,
) {
    begin(cluster, primary, Job::Rewrite);
    sleep_up_to(dice, 300);
    primary_at_once(cluster, shard, primary, dice, gate, struck);
}

/// The replica hangs and its link is cut, so that it gets nothing of what is answered until the
/// primary is killed; it goes on before it is taken for failed itself.
fn cut_off_primary_replaced(
    cluster: &mut Cluster,
    shard: usize,
    primary: usize,
    dice: &mut Dice,
    gate: &Gate,
    struck: &mut Struck,
) {
    struck.begins();
    cluster.node(partner(primary)).pause();
    let cut = cluster.node(primary).client().int("CLIENT KILL TYPE replica");
    struck.killed.push(("link to a replica", u64::try_from(cut).expect("a count")));
    sleep_up_to(dice, 1000);
    kill_primary(cluster, primary, gate, struck);
    cluster.node(partner(primary)).resume();
    wait_for_takeover(cluster, shard, primary);
    cluster.node_mut(primary).start_again();
}

fn replica_killed(
    cluster: &mut Cluster,
    _: usize,
    primary: usize,
    dice: &mut Dice,
    _: &Gate,
    struck: &mut Struck,
) {
    struck.replica_started = true;
    struck.killed.push(("replica", 1));
    struck.begins();
    cluster.node_mut(partner(primary)).kill();
    sleep_up_to(dice, 2000);
    cluster.node_mut(partner(primary)).start_again();
}

fn both_killed(
    cluster: &mut Cluster,
    _: usize,
    primary: usize,
    dice: &mut Dice,
    gate: &Gate,
    struck: &mut Struck,
) {
    struck.replica_started = true;
    struck.killed.push(("replica", 1));
    struck.begins();
    let replica_first = dice.throw(2) == 0;
    if replica_first {
        cluster.node_mut(partner(primary)).kill();
        sleep_up_to(dice, 200);
    }
    kill_primary(cluster, primary, gate, struck);
    cluster.node_mut(partner(primary)).kill();
    cluster.node_mut(primary).start_again();
    cluster.node_mut(partner(primary)).start_again();
}

/// What a server does in a process of its own.
#[derive(Clone, Copy)]
enum Job {
    Snapshot,
    Rewrite,
}

impl Job {
    fn command(self) -> &'static str {
        match self {
            Job::Snapshot => "BGSAVE",
            Job::Rewrite => "BGREWRITEAOF",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Job::Snapshot => "redis-rdb-bgsave",
            Job::Rewrite => "redis-aof-rewrite",
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Job::Snapshot => "rdb_bgsave_in_progress:1",
            Job::Rewrite => "aof_rewrite_in_progress:1",
        }
    }
}

/// How long the process lingers over each key while it is to be hit: it is over too soon otherwise.
fn linger(cluster: &Cluster, node: usize, us: u32) {
    cluster.node(node).client().ok(&format!("CONFIG SET rdb-key-save-delay {us}"));
}

/// Begins a job and waits until it is under way.
fn begin(cluster: &Cluster, node: usize, job: Job) {
    linger(cluster, node, 20_000);
    let mut client = cluster.node(node).client();
    until("the job is under way", || {
        // Another job may be in the way; it ends.
        let _ = error_text(&client.run(job.command()));
        client.info("persistence").contains(job.sign())
    });
}

/// Kills the process of a job; the server goes on.
fn kill_job(cluster: &Cluster, node: usize, job: Job, dice: &mut Dice) -> u64 {
    begin(cluster, node, job);
    sleep_up_to(dice, 300);
    let mut killed = 0;
    until("the process of the job is found", || {
        killed = cluster.node(node).kill_children(job.title());
        killed > 0 || !cluster.node(node).client().info("persistence").contains(job.sign())
    });
    linger(cluster, node, 0);
    u64::try_from(killed).expect("one")
}

/// A server whose snapshot failed takes no writes until one succeeds.
fn save(cluster: &Cluster, node: usize) {
    let mut client = cluster.node(node).client();
    until("a snapshot succeeds", || {
        let _ = error_text(&client.run("BGSAVE"));
        let info = client.info("persistence");
        info.contains("rdb_last_bgsave_status:ok") && info.contains("rdb_bgsave_in_progress:0")
    });
}

fn either(primary: usize, dice: &mut Dice) -> usize {
    dice.pick(&[primary, primary, partner(primary)])
}

fn rewrite_killed(
    cluster: &mut Cluster,
    _: usize,
    primary: usize,
    dice: &mut Dice,
    _: &Gate,
    struck: &mut Struck,
) {
    for _ in 0..3 {
        let node = either(primary, dice);
        struck.killed.push(("rewrite of a file", kill_job(cluster, node, Job::Rewrite, dice)));
    }
}

fn snapshot_killed(
    cluster: &mut Cluster,
    _: usize,
    primary: usize,
    dice: &mut Dice,
    _: &Gate,
    struck: &mut Struck,
) {
    for _ in 0..2 {
        let node = either(primary, dice);
        struck.killed.push(("snapshot", kill_job(cluster, node, Job::Snapshot, dice)));
        save(cluster, node);
    }
}

/// The replica comes back and asks for all, and the process that writes it is killed.
fn sync_killed(
    cluster: &mut Cluster,
    _: usize,
    primary: usize,
    _: &mut Dice,
    _: &Gate,
    struck: &mut Struck,
) {
    struck.replica_started = true;
    struck.killed.push(("replica", 1));
    struck.begins();
    cluster.node_mut(partner(primary)).kill();
    linger(cluster, primary, 20_000);
    cluster.node_mut(partner(primary)).start_again();
    let mut killed = 0;
    until("a snapshot for the replica is under way", || {
        // Its title tells where the snapshot goes; any will do.
        killed = cluster.node(primary).kill_children("redis-rdb");
        killed > 0
    });
    struck.killed.push(("snapshot for a replica", u64::try_from(killed).expect("one")));
    linger(cluster, primary, 0);
    save(cluster, primary);
}

fn clients_killed(
    cluster: &mut Cluster,
    _: usize,
    _: usize,
    dice: &mut Dice,
    _: &Gate,
    struck: &mut Struck,
) {
    for _ in 0..8 {
        let node = usize::try_from(dice.throw(6)).expect("a node");
        let mut client = cluster.node(node).client();
        let killed = client.int("CLIENT KILL TYPE normal SKIPME yes");
        struck.killed.push(("client", u64::try_from(killed).expect("a count")));
        sleep_up_to(dice, 300);
    }
}

fn primary_paused(
    cluster: &mut Cluster,
    _: usize,
    primary: usize,
    dice: &mut Dice,
    _: &Gate,
    struck: &mut Struck,
) {
    for _ in 0..2 {
        struck.begins();
        cluster.node(primary).pause();
        sleep_up_to(dice, 800);
        cluster.node(primary).resume();
        sleep_up_to(dice, 500);
    }
}

/// As a network that is divided: the old primary knows nothing of the new one until it goes on, and
/// answers what had arrived.
fn paused_primary_replaced(
    cluster: &mut Cluster,
    shard: usize,
    primary: usize,
    dice: &mut Dice,
    _: &Gate,
    struck: &mut Struck,
) {
    struck.begins();
    cluster.node(primary).pause();
    wait_for_takeover(cluster, shard, primary);
    sleep_up_to(dice, 1500);
    cluster.node(primary).resume();
}

fn replica_paused(
    cluster: &mut Cluster,
    _: usize,
    primary: usize,
    dice: &mut Dice,
    _: &Gate,
    struck: &mut Struck,
) {
    struck.begins();
    cluster.node(partner(primary)).pause();
    sleep_up_to(dice, 3000);
    cluster.node(partner(primary)).resume();
}
