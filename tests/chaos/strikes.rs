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

/// The servers of one third of the slots, which are struck.
pub struct Target<'a> {
    /// The whole cluster.
    pub cluster: &'a mut Cluster,
    /// Which third of the slots.
    pub shard: usize,
    /// Who serves them before the strike.
    pub primary: usize,
    /// Chooses how long things take.
    pub dice: &'a mut Dice,
    /// Tells the time of the run.
    pub gate: &'a Gate,
    /// What was done so far.
    pub struck: Struck,
}

/// A strike at these servers.
type Strike = fn(&mut Target<'_>);

/// All strikes, by name.
pub const STRIKES: [(&str, Strike); 14] = [
    ("primary killed, replaced", |at| at.primary_replaced()),
    ("primary killed, started at once", |at| at.primary_at_once()),
    ("primary killed while it saves, replaced", |at| at.saving_primary_replaced()),
    ("primary killed while it rewrites its file, started at once", |at| {
        at.rewriting_primary_at_once()
    }),
    ("link to the replica cut, primary killed, replaced", |at| at.cut_off_primary_replaced()),
    ("replica killed", |at| at.replica_killed()),
    ("primary and replica killed", |at| at.both_killed()),
    ("rewrite of the append-only file killed", |at| at.rewrite_killed()),
    ("snapshot killed", |at| at.snapshot_killed()),
    ("snapshot for a replica killed", |at| at.sync_killed()),
    ("clients killed", |at| at.clients_killed()),
    ("primary paused shortly", |at| at.primary_paused()),
    ("primary paused, replaced", |at| at.paused_primary_replaced()),
    ("replica paused", |at| at.replica_paused()),
];

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

impl Target<'_> {
    /// The other server of the same slots.
    fn replica(&self) -> usize {
        (self.primary + 3) % 6
    }

    fn sleep_up_to(&mut self, ms: u64) {
        thread::sleep(Duration::from_millis(self.dice.throw(ms)));
    }

    fn kill_primary(&mut self) {
        self.struck.begins();
        self.struck.primary_killed_us = Some(self.gate.now_us());
        self.cluster.node_mut(self.primary).kill();
        self.struck.killed.push(("primary", 1));
    }

    fn wait_for_takeover(&self) {
        let slot = first_slot(self.shard);
        until("a replica takes over", || {
            self.cluster.owner_seen_by(self.replica(), slot) == self.replica()
        });
    }

    fn primary_replaced(&mut self) {
        self.kill_primary();
        self.wait_for_takeover();
        self.sleep_up_to(500);
        self.cluster.node_mut(self.primary).start_again();
    }

    fn primary_at_once(&mut self) {
        self.kill_primary();
        self.cluster.node_mut(self.primary).start_again();
    }

    fn saving_primary_replaced(&mut self) {
        self.begin(self.primary, Job::Snapshot);
        self.sleep_up_to(300);
        self.primary_replaced();
    }

    fn rewriting_primary_at_once(&mut self) {
        self.begin(self.primary, Job::Rewrite);
        self.sleep_up_to(300);
        self.primary_at_once();
    }

    /// The replica hangs and its link is cut, so that it gets nothing of what is answered until the
    /// primary is killed; it goes on before it is taken for failed itself.
    fn cut_off_primary_replaced(&mut self) {
        self.struck.begins();
        self.cluster.node(self.replica()).pause();
        let cut = self.cluster.node(self.primary).client().int("CLIENT KILL TYPE replica");
        self.struck.killed.push(("link to a replica", u64::try_from(cut).expect("a count")));
        self.sleep_up_to(1000);
        self.kill_primary();
        self.cluster.node(self.replica()).resume();
        self.wait_for_takeover();
        self.cluster.node_mut(self.primary).start_again();
    }

    fn replica_killed(&mut self) {
        self.struck.replica_started = true;
        self.struck.killed.push(("replica", 1));
        self.struck.begins();
        self.cluster.node_mut(self.replica()).kill();
        self.sleep_up_to(2000);
        self.cluster.node_mut(self.replica()).start_again();
    }

    fn both_killed(&mut self) {
        self.struck.replica_started = true;
        self.struck.killed.push(("replica", 1));
        self.struck.begins();
        let replica_first = self.dice.throw(2) == 0;
        if replica_first {
            self.cluster.node_mut(self.replica()).kill();
            self.sleep_up_to(200);
        }
        self.kill_primary();
        self.cluster.node_mut(self.replica()).kill();
        self.cluster.node_mut(self.primary).start_again();
        self.cluster.node_mut(self.replica()).start_again();
    }

    /// How long the process lingers over each key while it is to be hit: it is over too soon
    /// otherwise.
    fn linger(&self, node: usize, us: u32) {
        self.cluster.node(node).client().ok(&format!("CONFIG SET rdb-key-save-delay {us}"));
    }

    /// Begins a job and waits until it is under way.
    fn begin(&self, node: usize, job: Job) {
        self.linger(node, 20_000);
        let mut client = self.cluster.node(node).client();
        until("the job is under way", || {
            // Another job may be in the way; it ends.
            let _ = error_text(&client.run(job.command()));
            client.info("persistence").contains(job.sign())
        });
    }

    /// Kills the process of a job; the server goes on.
    fn kill_job(&mut self, node: usize, job: Job) -> u64 {
        self.begin(node, job);
        self.sleep_up_to(300);
        let mut killed = 0;
        until("the process of the job is found", || {
            killed = self.cluster.node(node).kill_children(job.title());
            killed > 0 || !self.cluster.node(node).client().info("persistence").contains(job.sign())
        });
        self.linger(node, 0);
        u64::try_from(killed).expect("one")
    }

    /// A server whose snapshot failed takes no writes until one succeeds.
    fn save(&self, node: usize) {
        let mut client = self.cluster.node(node).client();
        until("a snapshot succeeds", || {
            let _ = error_text(&client.run("BGSAVE"));
            let info = client.info("persistence");
            info.contains("rdb_last_bgsave_status:ok") && info.contains("rdb_bgsave_in_progress:0")
        });
    }

    fn either(&mut self) -> usize {
        self.dice.pick(&[self.primary, self.primary, self.replica()])
    }

    fn rewrite_killed(&mut self) {
        for _ in 0..3 {
            let node = self.either();
            let killed = self.kill_job(node, Job::Rewrite);
            self.struck.killed.push(("rewrite of a file", killed));
        }
    }

    fn snapshot_killed(&mut self) {
        for _ in 0..2 {
            let node = self.either();
            let killed = self.kill_job(node, Job::Snapshot);
            self.struck.killed.push(("snapshot", killed));
            self.save(node);
        }
    }

    /// The replica comes back and asks for all, and the process that writes it is killed.
    fn sync_killed(&mut self) {
        self.struck.replica_started = true;
        self.struck.killed.push(("replica", 1));
        self.struck.begins();
        self.cluster.node_mut(self.replica()).kill();
        self.linger(self.primary, 20_000);
        self.cluster.node_mut(self.replica()).start_again();
        let mut killed = 0;
        until("a snapshot for the replica is under way", || {
            // Its title tells where the snapshot goes; any will do.
            killed = self.cluster.node(self.primary).kill_children("redis-rdb");
            killed > 0
        });
        self.struck.killed.push(("snapshot for a replica", u64::try_from(killed).expect("one")));
        self.linger(self.primary, 0);
        self.save(self.primary);
    }

    fn clients_killed(&mut self) {
        for _ in 0..8 {
            let node = usize::try_from(self.dice.throw(6)).expect("a node");
            let mut client = self.cluster.node(node).client();
            let killed = client.int("CLIENT KILL TYPE normal SKIPME yes");
            self.struck.killed.push(("client", u64::try_from(killed).expect("a count")));
            self.sleep_up_to(300);
        }
    }

    fn primary_paused(&mut self) {
        for _ in 0..2 {
            self.struck.begins();
            self.cluster.node(self.primary).pause();
            self.sleep_up_to(800);
            self.cluster.node(self.primary).resume();
            self.sleep_up_to(500);
        }
    }

    /// As a network that is divided: the old primary knows nothing of the new one until it goes on,
    /// and answers what had arrived.
    fn paused_primary_replaced(&mut self) {
        self.struck.begins();
        self.cluster.node(self.primary).pause();
        self.wait_for_takeover();
        self.sleep_up_to(1500);
        self.cluster.node(self.primary).resume();
    }

    fn replica_paused(&mut self) {
        self.struck.begins();
        self.cluster.node(self.replica()).pause();
        self.sleep_up_to(3000);
        self.cluster.node(self.replica()).resume();
    }
}
