//! `make bench-growth`: how the cost of a call grows with keys, hits, clients, COST, io-threads and
//! nodes.
//!
//! Every table is measured in rounds over all its cells, and every figure is a median.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::cases::Case;
use super::fill::{self, send_all};
use super::load::{self, Shape};
use super::machine;
use super::markdown::{count, figure, maybe, table};
use super::progress::Progress;
use super::stats::{Metric, Sample, median, ratio, typical};
use super::support::cluster::Cluster;
use super::support::{Client, Config, Server};

/// Rounds of every table.
const ROUNDS: usize = 9;
/// Primaries of a cluster.
const PRIMARIES: usize = 3;

/// Measures, prints and writes the page.
pub fn run() {
    machine::warn_if_busy();
    let config = Config::new().client_time().line("databases 64");
    let mut progress = Progress::new();
    let server = Server::with(&config);
    let mut tables = String::new();
    let mut add = |title: &str, text: &str, table: String| {
        let section = format!("\n## {title}\n\n{table}\n{text}\n");
        print!("{section}");
        tables.push_str(&section);
    };
    add("Keys", KEYS_TEXT, keys(&config, &mut progress));
    add("Hits in a window", HITS_TEXT, hits(&server, &mut progress));
    add("Clients", CLIENTS_TEXT, clients(&server, &mut progress));
    add("COST", COST_TEXT, cost(&server, &mut progress));
    add("io-threads", THREADS_TEXT, threads(&config, &server, &mut progress));
    add("Cluster", CLUSTER_TEXT, cluster(&mut progress));
    progress.done();
    let facts = machine::facts(&server);
    let page = format!("{PAGE}{facts}- Command: `make bench-growth`, {ROUNDS} rounds\n{tables}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/benchmarks-growth.md");
    fs::write(&path, page).expect("the page can be written");
}

const PAGE: &str = "# How the cost grows

Written by `make bench-growth`; do not edit it here. Figures are the server's CPU time a call in ns,
and in brackets how many times the first row's that is, medians of the rounds. As in
[benchmarks.md](benchmarks.md), calls are pipelined unless it says otherwise. Compare within a
table, not between pages: they were written at different times, on a machine that is never alone.

";
const KEYS_TEXT: &str = "\
A call looks its key up in the server's table once, as INCR does. What grows is what grows for every
command: tables and values no longer fit the processor's caches, and a key with a time to live is in
two tables (compare SET EX).";
const HITS_TEXT: &str = "\
One key, called by one client, 1,000 calls at once. A call that is allowed adds at the end of the
log and drops what has left the window at its beginning, block by block; a denied one looks for the
hit that has to leave first by the sums of blocks. Neither walks through the hits.";
const CLIENTS_TEXT: &str = "\
Not pipelined. What each client costs is the server's: reading and answering. The more clients are
ready at once, the more calls share one round of its loop.";
const COST_TEXT: &str = "\
A bucket subtracts a number, whatever it is. A window notes how many hits came in one ms, in a
number too, so that a call of many units takes one entry.";
const THREADS_TEXT: &str = "\
io-threads read and write for the clients; commands run one at a time on the main thread as before,
so nothing in the module is touched by them. They wait for each other by spinning, so that CPU time
says nothing here, and where there are fewer cores than threads, as on the machine named above,
everything becomes slower: what matters is whether the bucket keeps up with INCR.";
const CLUSTER_TEXT: &str = "\
Three primaries with a replica each, against one server with a replica. All share the machine's
cores, so the figure is calls for each second of a primary's CPU time, not of the clock. A node
hashes each key to its slot, for INCR as for the others; the module adds nothing to that, and keeps
nothing that is not in a key.";

/// A table of contenders: one row for each label, one column for each contender.
struct Grid {
    labels: Vec<String>,
    /// By row, then by column.
    samples: Vec<Vec<Vec<Sample>>>,
}

impl Grid {
    /// Measures all cells in rounds. Cells whose filling lasts are filled first.
    fn measure(
        server: &Server,
        rows: &[(String, Vec<Case>, Shape)],
        progress: &mut Progress,
    ) -> Grid {
        let columns = rows[0].1.len();
        for (row, (label, cases, _)) in rows.iter().enumerate() {
            for (column, case) in cases.iter().enumerate().filter(|(_, case)| case.lasting) {
                progress.tell(&format!("{label}: filling for {}", case.name));
                case.prepare(&mut server.client(), row * columns + column);
            }
        }
        let mut samples = vec![vec![Vec::new(); columns]; rows.len()];
        for round in 0..ROUNDS {
            for (row, (label, cases, shape)) in rows.iter().enumerate() {
                for (column, case) in cases.iter().enumerate() {
                    let name = &case.name;
                    progress.tell(&format!("{label}, {name}: round {} of {ROUNDS}", round + 1));
                    let sample = case.measure(server, *shape, row * columns + column);
                    samples[row][column].push(sample);
                }
            }
        }
        Grid { labels: rows.iter().map(|(label, ..)| label.clone()).collect(), samples }
    }

    /// CPU time, and in brackets in relation to the first row.
    fn cpu(&self, row: usize, column: usize) -> String {
        let samples = &self.samples[row][column];
        let ns = typical(samples, Metric::Cpu);
        let times = ratio(samples, &self.samples[0][column], Metric::Cpu);
        format!("{} ({})", ns.map_or("-".to_owned(), count), maybe(times))
    }

    fn table(&self, heads: &[&str]) -> String {
        let row = |(row, label): (usize, &String)| {
            let cells = (0..self.samples[row].len()).map(|column| self.cpu(row, column));
            [label.clone()].into_iter().chain(cells).collect()
        };
        let rows: Vec<Vec<String>> = self.labels.iter().enumerate().map(row).collect();
        table(heads, &rows)
    }
}

/// From a thousand keys to five million, on a server of its own: to end it is faster than to delete
/// so many keys.
fn keys(config: &Config, progress: &mut Progress) -> String {
    let server = Server::with(config);
    let row = |keys: u64| {
        let lasting = |case: Case| Case { keys, lasting: true, ..case };
        let bucket = "RL.TOKENBUCKET b:__rand_int__ 1000000 1 PER 86400000";
        let cases = vec![
            lasting(Case::new("INCR", "INCR n:__rand_int__")),
            lasting(Case::new("SET EX", "SET s:__rand_int__ 1 EX 86400")),
            lasting(Case::new("TOKENBUCKET", bucket)),
        ];
        (format!("{} keys", count(keys as f64)), cases, Shape::PIPELINED)
    };
    let rows: Vec<_> = [1000, 10_000, 100_000, 1_000_000, 5_000_000].map(row).to_vec();
    let grid = Grid::measure(&server, &rows, progress);
    grid.table(&["", "INCR", "SET EX", "RL.TOKENBUCKET, allowed"])
}

/// From ten hits to a million.
fn hits(server: &Server, progress: &mut Progress) -> String {
    const SIZES: [u64; 6] = [10, 100, 1000, 10_000, 100_000, 1_000_000];
    const CALLS: u64 = 50_000;
    let mut client = server.client();
    let start_ms = fill::now_ms(&mut client) - 10_000_000;
    for size in SIZES {
        progress.tell(&format!("filling windows of {size} hits"));
        let full =
            (0..size).map(|hit| at(&format!("full:{size} {size} 864000000"), start_ms + hit));
        send_all(&mut client, full);
        let moving =
            (0..size).map(|hit| at(&format!("move:{size} {} {size}", 2 * size), start_ms + hit));
        send_all(&mut client, moving);
    }
    let mut costs = vec![vec![Vec::new(); SIZES.len()]; 3];
    for round in 0..ROUNDS as u64 {
        progress.tell(&format!("hits: round {} of {ROUNDS}", round + 1));
        for (index, size) in SIZES.into_iter().enumerate() {
            let next_ms = start_ms + size + round * CALLS;
            let full_ms = start_ms + size - 1;
            let incr = (0..CALLS).map(|_| line("INCR n"));
            costs[0][index].push(own(&mut client, incr, CALLS));
            let denied = (0..CALLS).map(|_| at(&format!("full:{size} {size} 864000000"), full_ms));
            costs[1][index].push(own(&mut client, denied, CALLS));
            let moving = format!("move:{size} {} {size}", 2 * size);
            let allowed = (0..CALLS).map(|call| at(&moving, next_ms + call));
            costs[2][index].push(own(&mut client, allowed, CALLS));
        }
    }
    client.ok("FLUSHALL SYNC");
    let cell = |costs: &[Vec<f64>], index: usize| {
        let times = median(costs[index].iter().zip(&costs[0]).map(|(this, first)| this / first));
        format!("{} ({})", maybe(median(costs[index].clone())), maybe(times))
    };
    let row = |(index, size): (usize, u64)| {
        let label = format!("{} hits", count(size as f64));
        [label].into_iter().chain(costs.iter().map(|costs| cell(costs, index))).collect()
    };
    let rows: Vec<Vec<String>> = SIZES.into_iter().enumerate().map(row).collect();
    table(&["", "INCR", "RL.SLIDING, denied", "RL.SLIDING, allowed, one hit leaves"], &rows)
}

fn line(words: &str) -> Vec<Vec<u8>> {
    words.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn at(words: &str, at_ms: u64) -> Vec<Vec<u8>> {
    line(&format!("RL.SLIDING {words} AT {at_ms}"))
}

/// The server's CPU time for calls from this client, in ns a call.
fn own(client: &mut Client, calls: impl Iterator<Item = Vec<Vec<u8>>>, count: u64) -> f64 {
    let before = load::cpu_us(client);
    let mut calls = calls.peekable();
    while calls.peek().is_some() {
        let batch: Vec<_> = calls.by_ref().take(1000).collect();
        client.pipeline(&batch);
    }
    (load::cpu_us(client) - before) * 1000.0 / count as f64
}

/// INCR and a bucket, unpipelined or not, for a table of pairs.
fn pair() -> Vec<Case> {
    vec![
        Case::new("INCR", "INCR n:__rand_int__"),
        Case::new("TOKENBUCKET", "RL.TOKENBUCKET b:__rand_int__ 1000 10"),
    ]
}

/// From one client to a thousand.
fn clients(server: &Server, progress: &mut Progress) -> String {
    let row = |clients: u64| {
        let label = format!("{} clients", count(clients as f64));
        (label, pair(), Shape { clients, ..Shape::SINGLE })
    };
    let rows: Vec<_> = [1, 10, 50, 200, 1000].map(row).to_vec();
    let grid = Grid::measure(server, &rows, progress);
    let row = |(row, label): (usize, &String)| {
        let [incr, bucket] = &grid.samples[row][..] else { panic!("two columns") };
        vec![
            label.clone(),
            grid.cpu(row, 0),
            grid.cpu(row, 1),
            maybe(ratio(bucket, incr, Metric::Cpu)),
            maybe(ratio(bucket, incr, Metric::Throughput)),
        ]
    };
    let rows: Vec<Vec<String>> = grid.labels.iter().enumerate().map(row).collect();
    table(&["", "INCR", "RL.TOKENBUCKET, allowed", "CPU : INCR", "calls a second : INCR"], &rows)
}

/// From one unit to a million.
fn cost(server: &Server, progress: &mut Progress) -> String {
    let row = |units: u64| {
        let case = |call: &str| Case::new(call, &format!("{call} COST {units}"));
        let bucket = "b:__rand_int__ 9007199254740992 1000000000";
        let cases = vec![
            case(&format!("RL.TOKENBUCKET {bucket}")),
            case(&format!("RL.LEAKY {bucket}")),
            case("RL.SLIDING w:__rand_int__ 9007199254740992 60000"),
        ];
        (format!("COST {}", count(units as f64)), cases, Shape::PIPELINED)
    };
    let rows: Vec<_> = [1, 100, 10_000, 1_000_000].map(row).to_vec();
    let grid = Grid::measure(server, &rows, progress);
    grid.table(&["", "RL.TOKENBUCKET", "RL.LEAKY", "RL.SLIDING"])
}

/// One thread against four.
fn threads(config: &Config, server: &Server, progress: &mut Progress) -> String {
    let threaded = Server::with(&config.clone().line("io-threads 4"));
    let kinds = [("pipelined", Shape::PIPELINED), ("not pipelined", Shape::SINGLE)];
    let servers = [("io-threads 1", server), ("io-threads 4", &threaded)];
    let mut samples = vec![[Vec::new(), Vec::new()]; 4];
    for round in 0..ROUNDS {
        progress.tell(&format!("io-threads: round {} of {ROUNDS}", round + 1));
        for (kind, (_, shape)) in kinds.iter().enumerate() {
            for (index, (_, server)) in servers.iter().enumerate() {
                for (column, case) in pair().iter().enumerate() {
                    let sample = case.measure(server, *shape, 0);
                    samples[kind * 2 + index][column].push(sample);
                }
            }
        }
    }
    let labels = kinds
        .iter()
        .flat_map(|(kind, _)| servers.iter().map(move |(name, _)| format!("{kind}, {name}")));
    let row = |(label, [incr, bucket]): (String, &[Vec<Sample>; 2])| {
        let shown = |samples: &[Sample], metric| maybe(typical(samples, metric));
        vec![
            label,
            shown(incr, Metric::Throughput),
            shown(bucket, Metric::Throughput),
            maybe(ratio(bucket, incr, Metric::Throughput)),
        ]
    };
    let rows: Vec<Vec<String>> = labels.zip(&samples).map(row).collect();
    table(&["calls a second", "INCR", "RL.TOKENBUCKET, allowed", "bucket : INCR"], &rows)
}

/// What the nodes of a cluster are called with.
const ROUTED: [(&str, &str); 4] = [
    ("INCR", "INCR n:{tag}:__rand_int__"),
    ("RL.TOKENBUCKET", "RL.TOKENBUCKET t:{tag}:__rand_int__ 1000000 1 PER 86400000"),
    ("RL.LEAKY", "RL.LEAKY l:{tag}:__rand_int__ 1000000 1 PER 86400000"),
    ("RL.SLIDING", "RL.SLIDING s:{tag}:__rand_int__ 1000000 86400000"),
];

/// One server with a replica against the primaries of a cluster.
fn cluster(progress: &mut Progress) -> String {
    progress.tell("starting a cluster");
    let config = Config::new();
    let single = Server::with(&config);
    let _replica = single.replica();
    let cluster = Cluster::start(&config, Duration::from_secs(15));
    let nodes: Vec<&Server> = (0..PRIMARIES).map(|index| cluster.node(index)).collect();
    let mut per_second = vec![[Vec::new(), Vec::new()]; ROUTED.len()];
    // One round more, which makes the keys.
    for round in 0..=ROUNDS {
        progress.tell(&format!("cluster: round {round} of {ROUNDS}"));
        for (index, (_, call)) in ROUTED.iter().enumerate() {
            let words: Vec<String> = call.split(' ').map(str::to_owned).collect();
            let alone = calls_per_cpu_second(&[&single], &words, &[]);
            let routed = calls_per_cpu_second(&nodes, &words, &["--cluster"]);
            if round > 0 {
                per_second[index][0].push(alone);
                per_second[index][1].push(routed);
            }
        }
    }
    let row = |((name, _), [alone, routed]): (&(&str, &str), &[Vec<f64>; 2])| {
        let share = median(alone.iter().zip(routed).map(|(alone, routed)| routed / alone));
        let middle = |values: &[f64]| maybe(median(values.iter().copied()));
        vec![
            (*name).to_owned(),
            middle(alone),
            middle(routed),
            share.map_or("-".to_owned(), figure),
        ]
    };
    let rows: Vec<Vec<String>> = ROUTED.iter().zip(&per_second).map(row).collect();
    table(&["calls a CPU second", "one server", "a node of three", "node : server"], &rows)
}

/// What the servers got done in a second of their CPU time, on average.
fn calls_per_cpu_second(servers: &[&Server], words: &[String], more: &[&str]) -> f64 {
    // As many clients and calls for each server.
    let share = servers.len() as u64;
    let shape = Shape { clients: 50 * share, calls: 100_000 * share, ..Shape::PIPELINED };
    let mut clients: Vec<Client> = servers.iter().map(|server| server.client()).collect();
    clients.iter_mut().for_each(|client| drop(client.ok("CONFIG RESETSTAT")));
    let cpu = |clients: &mut [Client]| clients.iter_mut().map(load::cpu_us).sum::<f64>();
    let before = cpu(&mut clients);
    load::benchmark(servers[0].port(), words, &shape, more);
    let after = cpu(&mut clients);
    let calls: f64 = clients.iter_mut().map(|client| load::counted(client, &words[0]).0).sum();
    calls / (after - before) * 1e6
}
