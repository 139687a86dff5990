//! `make bench-latency`: the slowest single calls on windows of a million hits, and a mixed load
//! next to INCR.
//!
//! How long a call holds the server is told by the server: SLOWLOG with a threshold of 0 notes
//! every call. On a busy machine the server may be interrupted within a call, so its CPU time is
//! read around each call too, from /proc, which leaves out the time that others had the processor.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use redis::Value;

use super::fill::{Fill, now_ms, send_all};
use super::machine;
use super::markdown::{count, figure, table};
use super::progress::Progress;
use super::support::{Client, Config, Dice, Server, error_text, field, int, list, text};

/// Hits of a long window.
const HITS: u64 = 1_000_000;
/// Calls of an operation that can be repeated, and trials of one that ends the window.
const CALLS: u64 = 10_000;
const TRIALS: u64 = 9;
/// A window that is as long as its hits, a ms apart.
const WINDOW_MS: u64 = HITS;
/// What no call may take.
const BOUND_US: u64 = 1000;
/// The mixed load.
const CLIENTS: u64 = 4;
const MIXED: Duration = Duration::from_secs(15);

/// Latencies of one operation.
struct Timed {
    what: String,
    /// Within the server, in us.
    server: Histogram<u64>,
    /// CPU time of the server's main thread, reading and answering included, in ns.
    cpu: Histogram<u64>,
    /// At the client, in ns.
    client: Histogram<u64>,
}

impl Timed {
    fn new(what: &str) -> Timed {
        let histogram = || Histogram::new(3).expect("three digits are possible");
        Timed { what: what.to_owned(), server: histogram(), cpu: histogram(), client: histogram() }
    }
}

/// Measures, prints and writes the page.
pub fn run() {
    machine::warn_if_busy();
    let config = Config::new().client_time().line("slowlog-max-len 20000");
    let server = Server::with(&config);
    let mut progress = Progress::new();
    let long = long_windows(&server, &mut progress);
    progress.tell("mixed load");
    let mixed = mixed(&server);
    progress.done();
    let tables = format!(
        "## Single calls on a window of {} hits\n\n{}\n{}\n\n## Mixed load\n\n{}",
        count(HITS as f64),
        long_table(&long),
        verdict(&long),
        mixed
    );
    print!("{tables}");
    let page =
        format!("{PAGE}{}- Command: `make bench-latency`\n\n{tables}", machine::facts(&server));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/benchmarks-latency.md");
    fs::write(&path, page).expect("the page can be written");
}

const PAGE: &str = "# Latency

Written by `make bench-latency`; do not edit it here.

The server's own figures are the time that a call holds it, from SLOWLOG (first table, every call)
and INFO `latencystats` (second table); the client's are from sending to the answer. If something
else takes the processor within a call, that counts as the call's; *CPU* is the processor time of
the server's main thread around the call, with reading and answering, where it does not count.

";

/// Every operation on a window of a million single hits.
fn long_windows(server: &Server, progress: &mut Progress) -> Vec<Timed> {
    let mut client = server.client();
    progress.tell("filling a window");
    let start_ms = now_ms(&mut client) - HITS;
    let hits = (0..HITS).map(|hit| call(&format!("{} AT {}", sliding("w", HITS), start_ms + hit)));
    send_all(&mut client, hits);
    let end_ms = start_ms + HITS;
    progress.tell("calls on it");
    let mut timed = repeated(&mut client, end_ms);
    progress.tell("calls that end it");
    timed.extend(ending(&mut client, end_ms));
    timed
}

fn sliding(key: &str, limit: u64) -> String {
    format!("RL.SLIDING {key} {limit} {WINDOW_MS}")
}

fn call(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Operations that leave the window about as it is. The last hit is at `end_ms` - 1, so that at
/// that time it is full.
fn repeated(client: &mut Client, end_ms: u64) -> Vec<Timed> {
    let last_ms = end_ms - 1;
    let full = sliding("w", HITS);
    let wide = sliding("c", 2 * HITS);
    let mut timed = vec![
        watch(client, "INCR, for comparison", CALLS, |_| "INCR n".to_owned()),
        watch(client, "denied", CALLS, |_| format!("{full} AT {last_ms}")),
        watch(client, "option PEEK", CALLS, |_| format!("{full} PEEK AT {last_ms}")),
        watch(client, "RL.PEEK", CALLS, |_| format!("RL.PEEK w AT {last_ms}")),
        watch(client, "RL.INFO", CALLS, |_| format!("RL.INFO w AT {last_ms}")),
    ];
    let copy = |client: &mut Client| client.ok("COPY w c REPLACE");
    copy(client);
    let same = |_| format!("{wide} AT {last_ms}");
    timed.push(watch(client, "allowed, none leaves", CALLS, same));
    copy(client);
    let each = |number| format!("{wide} AT {}", end_ms + number);
    timed.push(watch(client, "allowed, one leaves for it", CALLS, each));
    copy(client);
    let thousand = |number| format!("{wide} AT {}", end_ms + number * 1000);
    timed.push(watch(client, "allowed, 1,000 leave before it", 900, thousand));
    copy(client);
    let refund = |_| format!("RL.REFUND c 1000 AT {last_ms}");
    timed.push(watch(client, "RL.REFUND of 1,000 hits", 900, refund));
    timed
}

/// Operations after which the million hits are gone: each trial has a copy of its own.
fn ending(client: &mut Client, end_ms: u64) -> Vec<Timed> {
    let far_ms = end_ms + 2 * WINDOW_MS;
    let all = sliding("c", HITS);
    let half = WINDOW_MS / 2;
    let last_ms = end_ms - 1;
    let operations = [
        ("allowed, all expired at once", format!("{all} AT {far_ms}")),
        ("denied, all expired at once", format!("{all} COST {} AT {far_ms}", HITS + 1)),
        ("the window is halved", format!("RL.SLIDING c {HITS} {half} AT {last_ms}")),
        ("RL.REFUND of all hits", format!("RL.REFUND c {HITS} AT {last_ms}")),
        ("DEL", "DEL c".to_owned()),
        ("UNLINK", "UNLINK c".to_owned()),
        ("SET over it", "SET c 1".to_owned()),
    ];
    let mut timed = Vec::new();
    for (what, line) in operations {
        let mut all = Timed::new(what);
        for _ in 0..TRIALS {
            client.ok("COPY w c REPLACE");
            let one = watch(client, what, 1, |_| line.clone());
            all.server.add(one.server).expect("histograms of one kind");
            all.cpu.add(one.cpu).expect("histograms of one kind");
            all.client.add(one.client).expect("histograms of one kind");
        }
        timed.push(all);
    }
    timed
}

/// Makes calls one by one; the server notes how long each held it.
fn watch(client: &mut Client, what: &str, calls: u64, line: impl Fn(u64) -> String) -> Timed {
    let mut timed = Timed::new(what);
    let calls: Vec<_> = (0..calls).map(|number| call(&line(number))).collect();
    client.ok("CONFIG SET slowlog-log-slower-than 0");
    client.ok("SLOWLOG RESET");
    let info = client.info("server");
    let pid = field(&info, "process_id").expect("INFO tells the process");
    let schedstat = Path::new("/proc").join(pid).join("schedstat");
    for call in &calls {
        let cpu_ns = on_cpu_ns(&schedstat);
        let start = Instant::now();
        let answer = client.call(call);
        record(&mut timed.client, start.elapsed().as_nanos());
        record(&mut timed.cpu, (on_cpu_ns(&schedstat) - cpu_ns).into());
        assert_eq!(error_text(&answer), None, "{what}");
    }
    client.ok("CONFIG SET slowlog-log-slower-than -1");
    for entry in list(&client.ok("SLOWLOG GET -1")) {
        let entry = list(&entry);
        let name = list(&entry[3]).first().map(text).unwrap_or_default();
        if name.as_bytes() == calls[0][0] {
            timed.server.record(int(&entry[2]).unsigned_abs()).expect("it grows as needed");
        }
    }
    assert_eq!(timed.server.len(), calls.len() as u64, "{what}: SLOWLOG has every call");
    timed
}

/// How long the main thread of a process has had a processor, in ns.
fn on_cpu_ns(schedstat: &Path) -> u64 {
    let text = fs::read_to_string(schedstat).expect("the system keeps account of processes");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

fn record(histogram: &mut Histogram<u64>, value: u128) {
    let value = u64::try_from(value).expect("less than centuries");
    histogram.record(value).expect("it grows as needed");
}

fn long_table(timed: &[Timed]) -> String {
    let row = |timed: &Timed| {
        let server = |quantile| timed.server.value_at_quantile(quantile).to_string();
        let over = timed.server.len() - timed.server.count_between(0, BOUND_US);
        vec![
            timed.what.clone(),
            count(timed.server.len() as f64),
            server(0.5),
            server(0.99),
            server(0.999),
            timed.server.max().to_string(),
            over.to_string(),
            figure(timed.cpu.max() as f64 / 1000.0),
            figure(timed.client.value_at_quantile(0.999) as f64 / 1000.0),
        ]
    };
    let rows: Vec<Vec<String>> = timed.iter().map(row).collect();
    let heads = [
        "in us",
        "calls",
        "p50",
        "p99",
        "p99.9",
        "greatest",
        "over 1 ms",
        "greatest CPU",
        "p99.9 at the client",
    ];
    table(&heads, &rows)
}

/// Whether a call took longer than any may, by the processor's time: the first row is INCR's.
fn verdict(timed: &[Timed]) -> String {
    let slowest = timed.iter().skip(1).max_by_key(|timed| timed.cpu.max()).expect("many rows");
    let us = slowest.cpu.max() as f64 / 1000.0;
    let met = if us <= BOUND_US as f64 { "met" } else { "not met" };
    format!(
        "Target: no call of the module takes more than {BOUND_US} us of the processor. It is \
         {met}: the greatest, *{}*, took {}.",
        slowest.what,
        figure(us)
    )
}

/// What the clients of the mixed load call, each as often as the others, and the command by which
/// the server tells of it.
const MIX: [(&str, &str); 8] = [
    ("INCR", "INCR n:{key}"),
    ("RL.TOKENBUCKET, allowed", "RL.TOKENBUCKET t:{key} 1000000 1000"),
    ("RL.TOKENBUCKET, denied", "RL.TOKENBUCKET full 1 1 PER 315360000000"),
    ("RL.LEAKY, allowed", "RL.LEAKY l:{key} 1000000 1000"),
    ("RL.SLIDING, allowed", "RL.SLIDING s:{key} 1000000 60000"),
    ("RL.SLIDING, 1,000,000 hits, allowed", "RL.SLIDING long 9007199254740992 864000000"),
    ("RL.SLIDING, 1,000,000 hits, denied", "RL.SLIDING big 1000000 864000000"),
    ("RL.PEEK, 1,000,000 hits", "RL.PEEK big"),
];

/// All kinds of calls at once from a few clients: percentiles of each kind.
fn mixed(server: &Server) -> String {
    let mut client = server.client();
    client.ok("FLUSHALL SYNC");
    Fill::Window(HITS).run(&mut client, "big", 1);
    client.ok("COPY big long");
    client.ok("CONFIG RESETSTAT");
    let one_client = |number: u64| {
        let mut client = server.client();
        let mut dice = Dice::new(number + 1);
        let mut timed = MIX.map(|(what, _)| Timed::new(what));
        let end = Instant::now() + MIXED;
        while Instant::now() < end {
            let kind = usize::try_from(dice.throw(MIX.len() as u64)).expect("an index");
            let key = dice.throw(10_000).to_string();
            let words = call(&MIX[kind].1.replace("{key}", &key));
            let start = Instant::now();
            let answer = client.call(&words);
            record(&mut timed[kind].client, start.elapsed().as_nanos());
            assert!(matches!(answer, Value::Int(_) | Value::Array(_)), "{answer:?}");
        }
        timed
    };
    let mut all = MIX.map(|(what, _)| Timed::new(what));
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || one_client(number))).collect();
        for thread in threads {
            let timed = thread.join().expect("every call is answered");
            for (all, one) in all.iter_mut().zip(timed) {
                all.client.add(one.client).expect("histograms of one kind");
            }
        }
    });
    mixed_tables(&all, &client.info("latencystats"))
}

fn mixed_tables(all: &[Timed], info: &str) -> String {
    let micros = |nanos: u64| figure(nanos as f64 / 1000.0);
    let row = |timed: &Timed| {
        let client = |quantile| micros(timed.client.value_at_quantile(quantile));
        vec![
            timed.what.clone(),
            count(timed.client.len() as f64),
            client(0.5),
            client(0.99),
            client(0.999),
            micros(timed.client.max()),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let at_client =
        table(&["at the client, in us", "calls", "p50", "p99", "p99.9", "greatest"], &rows);
    let mut rows = Vec::new();
    for command in ["incr", "rl.tokenbucket", "rl.leaky", "rl.sliding", "rl.peek"] {
        let told = field(info, &format!("latency_percentiles_usec_{command}")).unwrap_or_default();
        let values = told.split(',').map(|pair| pair.split('=').nth(1).unwrap_or("-").to_owned());
        rows.push([command.to_uppercase()].into_iter().chain(values).collect::<Vec<_>>());
    }
    let heads = ["in the server, in us", "p50", "p99", "p99.9"];
    rows.iter_mut().for_each(|row| row.resize(heads.len(), "-".to_owned()));
    format!(
        "{CLIENTS} clients for {} seconds, every kind of call as often as the others.\n\n\
         {at_client}\n{}",
        MIXED.as_secs(),
        table(&heads, &rows)
    )
}
