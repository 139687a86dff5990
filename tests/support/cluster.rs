//! A cluster on the loopback address: three primaries, each with a third of the slots, and three
//! replicas. Every node takes a free port of its own, and its bus the port 10,000 above, which is
//! the server's default.
//!
//! What the nodes think of each other reaches all of them by gossip, so every step waits until
//! they agree.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::time::Duration;

use redis::cluster::{ClusterClient, ClusterConnection};

use super::{Client, Config, Server, bytes, field, list, text, until, wait_for_replica};

/// Primaries, and as many replicas.
const PRIMARIES: usize = 3;
/// Slots of every cluster.
const SLOTS: u16 = 16_384;

/// Six servers that are one cluster; they die with this value.
pub struct Cluster {
    nodes: Vec<Server>,
}

/// What one node says of a node, itself or another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its name in the cluster.
    pub id: String,
    /// The port for clients.
    pub port: u16,
    /// Its role and how it is, for example `master` or `slave`, `fail`.
    pub flags: Vec<String>,
    /// The name of its primary, if it is a replica.
    pub primary: Option<String>,
    /// The slots that it serves.
    pub slots: Vec<RangeInclusive<u16>>,
}

impl Cluster {
    /// A cluster whose nodes have `config` and take a silent node for failed after
    /// `node_timeout`.
    pub fn start(config: &Config, node_timeout: Duration) -> Cluster {
        let config = config
            .clone()
            .line("cluster-enabled yes")
            .line("cluster-allow-replica-migration no")
            .line(&format!("cluster-node-timeout {}", node_timeout.as_millis()));
        let nodes: Vec<Server> = (0..2 * PRIMARIES).map(|_| Server::with(&config)).collect();
        let cluster = Cluster { nodes };
        cluster.meet();
        cluster.hand_out_slots();
        cluster.appoint_replicas();
        cluster
    }

    /// Every node is told of every other: gossip alone would take its time.
    fn meet(&self) {
        // Without epochs of their own they would have to settle who has which.
        for (index, node) in self.nodes.iter().enumerate() {
            node.client().ok(&format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1));
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let mut client = node.client();
            for other in &self.nodes[index + 1..] {
                client.ok(&format!("CLUSTER MEET 127.0.0.1 {}", other.port()));
            }
        }
        until("all nodes know each other", || {
            self.nodes.iter().all(|node| {
                let seen = seen_by(&mut node.client());
                seen.len() == self.nodes.len()
                    && !seen.iter().any(|other| other.has_flag("handshake"))
            })
        });
    }

    fn hand_out_slots(&self) {
        let share = usize::from(SLOTS).div_ceil(PRIMARIES);
        let slots: Vec<usize> = (0..usize::from(SLOTS)).collect();
        for (node, slots) in self.nodes.iter().zip(slots.chunks(share)) {
            let (first, last) = (slots[0], slots[slots.len() - 1]);
            node.client().ok(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
        }
    }

    fn appoint_replicas(&self) {
        for index in 0..PRIMARIES {
            let id = self.id(index);
            self.nodes[PRIMARIES + index].client().ok(&format!("CLUSTER REPLICATE {id}"));
        }
        self.wait_until_agreed();
        // Where nodes are impatient, a replica may have taken over already.
        for (index, node) in self.nodes.iter().enumerate() {
            for replica in self.replicas_of(index) {
                wait_for_replica(node, &self.nodes[replica]);
            }
        }
    }

    /// Waits until all nodes that run see the same whole cluster: who serves what, who follows
    /// whom.
    pub fn wait_until_agreed(&self) {
        until("all nodes agree on the cluster", || {
            let views: Vec<Option<Vec<Seen>>> =
                self.running().map(|index| settled_view(&mut self.nodes[index].client())).collect();
            views[0].is_some()
                && views.iter().all(|view| view == &views[0])
                && self.running().all(|index| can_start_again(&self.nodes[index]))
        });
    }

    /// The nodes whose process runs.
    fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|&index| self.nodes[index].was_started())
    }

    /// The node at `index`: the primaries of the start come first, their replicas in the same
    /// order behind them.
    pub fn node(&self, index: usize) -> &Server {
        &self.nodes[index]
    }

    /// The node at `index`, to stop and start it.
    pub fn node_mut(&mut self, index: usize) -> &mut Server {
        &mut self.nodes[index]
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The name of a node in the cluster.
    pub fn id(&self, index: usize) -> String {
        text(&self.nodes[index].client().ok("CLUSTER MYID"))
    }

    /// The node that serves `slot`, as the first node that runs sees it.
    pub fn owner(&self, slot: u16) -> usize {
        self.owner_seen_by(self.running().next().expect("a node that runs"), slot)
    }

    /// The node that serves `slot`, as the node at `asked` sees it.
    pub fn owner_seen_by(&self, asked: usize, slot: u16) -> usize {
        let seen = seen_by(&mut self.nodes[asked].client());
        let serves = |node: &&Seen| node.slots.iter().any(|range| range.contains(&slot));
        self.index_of(seen.iter().find(serves).expect("every slot is served").port)
    }

    /// The nodes that follow the node at `index` and are not taken for failed.
    pub fn replicas_of(&self, index: usize) -> Vec<usize> {
        let seen = seen_by(&mut self.nodes[index].client());
        let id = self.id(index);
        let follows = |node: &&Seen| node.primary.as_ref() == Some(&id) && !node.has_flag("fail");
        seen.iter().filter(follows).map(|node| self.index_of(node.port)).collect()
    }

    fn index_of(&self, port: u16) -> usize {
        self.nodes.iter().position(|node| node.port() == port).expect("a node of ours")
    }

    /// The slot of a key.
    pub fn slot(&self, key: &str) -> u16 {
        let slot = self.nodes[0].client().int(&format!("CLUSTER KEYSLOT {key}"));
        u16::try_from(slot).expect("a slot")
    }

    /// `count` names that begin with `prefix` and whose slots `wanted` holds.
    pub fn keys_in(&self, wanted: &RangeInclusive<u16>, prefix: &str, count: usize) -> Vec<String> {
        let mut client = self.nodes[0].client();
        let mut found = Vec::new();
        for batch in 0.. {
            let names: Vec<String> =
                (0..1000).map(|number| format!("{prefix}:{}", batch * 1000 + number)).collect();
            let asked: Vec<Vec<Vec<u8>>> = names
                .iter()
                .map(|name| ["CLUSTER", "KEYSLOT", name].map(|word| word.into()).to_vec())
                .collect();
            let slots = client.pipeline(&asked);
            let inside =
                |slot| u16::try_from(super::int(slot)).is_ok_and(|slot| wanted.contains(&slot));
            let names = names.into_iter().zip(&slots).filter(|(_, slot)| inside(slot));
            found.extend(names.map(|(name, _)| name));
            if found.len() >= count {
                break;
            }
        }
        found.truncate(count);
        found
    }

    /// A client that knows where each slot is served.
    pub fn routed(&self) -> ClusterConnection {
        self.router(16).get_connection().expect("the cluster accepts connections")
    }

    /// What makes such clients, also on other threads. It tries a call again, where another node
    /// serves it or a node is gone, up to `retries` times.
    pub fn router(&self, retries: u32) -> ClusterClient {
        let addresses = self.running().map(|index| {
            let port = self.nodes[index].port();
            format!("redis://127.0.0.1:{port}/")
        });
        ClusterClient::builder(addresses)
            .retries(retries)
            .min_retry_wait(5)
            .max_retry_wait(100)
            .response_timeout(Duration::from_secs(10))
            .build()
            .expect("addresses of nodes")
    }

    /// How many errors of each kind all running nodes have answered since their start; the
    /// general ERR is not among them, see [`Cluster::failed_calls`].
    pub fn errors(&self) -> BTreeMap<String, u64> {
        let mut errors = BTreeMap::new();
        for (name, count) in self.stats("errorstats", "errorstat_") {
            let count = count.strip_prefix("count=").expect("a count");
            *errors.entry(name).or_insert(0) += count.parse::<u64>().expect("a count");
        }
        // The client library introduces itself, which Redis 7.0 does not understand.
        errors.remove("ERR");
        errors
    }

    /// The module's commands that gave an error on a running node, whoever sent them; calls that
    /// belong to another node do not count.
    pub fn failed_calls(&self) -> Vec<(String, String)> {
        let stats = self.stats("commandstats", "cmdstat_rl.");
        stats.into_iter().filter(|(_, stats)| !stats.contains("failed_calls=0")).collect()
    }

    /// What follows `prefix` in a section of INFO of all nodes that run: names and values.
    fn stats(&self, section: &str, prefix: &str) -> Vec<(String, String)> {
        let infos = self.running().map(|index| self.nodes[index].client().info(section));
        let pair = |line: &str| {
            let (name, value) = line.strip_prefix(prefix)?.split_once(':')?;
            Some((name.to_owned(), value.to_owned()))
        };
        infos.flat_map(|info| info.lines().filter_map(pair).collect::<Vec<_>>()).collect()
    }
}

impl Seen {
    /// Whether the node is marked so.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }
}

/// How a node sees the cluster, itself included: the lines of CLUSTER NODES.
pub fn seen_by(client: &mut Client) -> Vec<Seen> {
    text(&client.ok("CLUSTER NODES")).lines().map(seen).collect()
}

fn seen(line: &str) -> Seen {
    let words: Vec<&str> = line.split(' ').collect();
    let port = words[1].split(['@', ',']).next().and_then(|address| address.rsplit(':').next());
    let range = |word: &&str| -> RangeInclusive<u16> {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        first.parse().expect("a slot")..=last.parse().expect("a slot")
    };
    Seen {
        id: words[0].to_owned(),
        port: port.and_then(|port| port.parse().ok()).expect("a port"),
        flags: words[2].split(',').map(str::to_owned).collect(),
        primary: (words[3] != "-").then(|| words[3].to_owned()),
        // A slot that is on its way is told in brackets.
        slots: words[8..].iter().filter(|word| !word.starts_with('[')).map(range).collect(),
    }
}

/// Whether the node's file names the same shard for each replica as for its primary. Redis 7.2 does
/// not start with a file that was written before the news had come, and calls it corrupted.
fn can_start_again(node: &Server) -> bool {
    let file = fs::read_to_string(node.dir().join("nodes.conf")).unwrap_or_default();
    let lines: Vec<Vec<&str>> = file.lines().map(|line| line.split(' ').collect()).collect();
    let shard = |line: &Vec<&str>| line[1].split_once("shard-id=").map(|(_, id)| id.to_owned());
    let shards: BTreeMap<&str, _> = lines
        .iter()
        .filter(|line| line.len() > 3 && line[0] != "vars")
        .map(|line| (line[0], (line[3], shard(line))))
        .collect();
    shards.values().all(|(primary, shard)| shards.get(primary).is_none_or(|of| of.1 == *shard))
}

/// Who serves which slots and who follows whom, by name; none while anything is unsettled.
fn settled_view(client: &mut Client) -> Option<Vec<Seen>> {
    let info = text(&client.ok("CLUSTER INFO"));
    let seen = seen_by(client).into_iter().filter(|node| !node.has_flag("fail"));
    let mut seen: Vec<Seen> = seen.collect();
    let settled = field(&info, "cluster_state") == Some("ok")
        && field(&info, "cluster_slots_ok") == Some("16384")
        && !seen.iter().any(|node| node.has_flag("fail?") || node.has_flag("handshake"))
        && seen.iter().all(|node| node.primary.is_some() || !node.slots.is_empty());
    // Every node marks itself, for one thing.
    seen.iter_mut().for_each(|node| node.flags.clear());
    seen.sort_by(|one, other| one.id.cmp(&other.id));
    settled.then_some(seen)
}

/// Keys that a node holds in `slot`, at most so many.
pub fn keys_in_slot(client: &mut Client, slot: u16, most: usize) -> Vec<Vec<u8>> {
    list(&client.ok(&format!("CLUSTER GETKEYSINSLOT {slot} {most}"))).iter().map(bytes).collect()
}
