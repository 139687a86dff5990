//! One measurement: redis-benchmark makes calls, the server tells what they cost it.

use std::process::Command;

use super::stats::Sample;
use super::support::{Client, Server, field};

/// How redis-benchmark calls.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Calls that a client sends at once.
    pub pipeline: u64,
    /// Clients.
    pub clients: u64,
    /// Keys, chosen at random.
    pub keys: u64,
    /// Calls in all.
    pub calls: u64,
    /// The database.
    pub db: usize,
}

impl Shape {
    /// Fifty clients that each send 32 calls at once.
    pub const PIPELINED: Shape =
        Shape { pipeline: 32, clients: 50, keys: 10_000, calls: 60_000, db: 0 };
    /// Fifty clients that each wait for every answer.
    pub const SINGLE: Shape =
        Shape { pipeline: 1, clients: 50, keys: 10_000, calls: 15_000, db: 0 };

    /// The arguments of redis-benchmark besides port and command.
    pub fn args(&self) -> Vec<String> {
        let mut args = Vec::new();
        let given = [
            ("-P", self.pipeline),
            ("-c", self.clients),
            ("-n", self.calls),
            ("-r", self.keys),
            ("--dbnum", self.db as u64),
        ];
        for (name, value) in given {
            args.extend([name.to_owned(), value.to_string()]);
        }
        args
    }
}

/// What redis-benchmark printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// Calls a second.
    pub throughput: f64,
    /// Latencies at the client: p50, p95, p99, greatest, in ms.
    pub latency_ms: [f64; 4],
}

/// Calls `words` and measures it.
pub fn measure(server: &Server, words: &[String], shape: &Shape) -> Sample {
    let mut client = server.client();
    client.ok("CONFIG RESETSTAT");
    let before = cpu_us(&mut client);
    let told = benchmark(server.port(), words, shape, &[]);
    let after = cpu_us(&mut client);
    let (calls, usec) = counted(&mut client, &words[0]);
    Sample { cpu_ns: (after - before) * 1000.0 / calls, throughput: told.throughput, usec }
}

/// Runs redis-benchmark against the server on `port`.
pub fn benchmark(port: u16, words: &[String], shape: &Shape, more: &[&str]) -> Told {
    let output = Command::new("redis-benchmark")
        .args(["-p", &port.to_string(), "--csv"])
        .args(shape.args())
        .args(more)
        .args(words)
        .output()
        .expect("redis-benchmark can be started");
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    parse(&printed)
        .unwrap_or_else(|| panic!("redis-benchmark {}: {printed}{errors}", words.join(" ")))
}

/// The last line of redis-benchmark's CSV. The command stands in front, whatever it holds, and
/// seven numbers behind it.
pub fn parse(printed: &str) -> Option<Told> {
    let line = printed.lines().rfind(|line| line.starts_with('"'))?;
    let mut numbers = Vec::new();
    for field in line.rsplitn(8, "\",\"").take(7) {
        numbers.push(field.trim_end_matches('"').parse::<f64>().ok()?);
    }
    let [max, p99, p95, p50, _, _, throughput] = numbers[..] else { return None };
    Some(Told { throughput, latency_ms: [p50, p95, p99, max] })
}

/// CPU time that the server has taken so far, all threads, in us.
pub fn cpu_us(client: &mut Client) -> f64 {
    let info = client.info("cpu");
    let seconds = ["used_cpu_user", "used_cpu_sys"]
        .map(|name| field(&info, name).and_then(|value| value.parse::<f64>().ok()));
    seconds.into_iter().map(|value| value.expect("INFO tells the CPU time")).sum::<f64>() * 1e6
}

/// How often a command was called since the last CONFIG RESETSTAT, and how long it took in us a
/// call. None of the calls may have failed.
pub fn counted(client: &mut Client, command: &str) -> (f64, f64) {
    let info = client.info("commandstats");
    let name = format!("cmdstat_{}", command.to_lowercase());
    let stats = field(&info, &name).unwrap_or_else(|| panic!("{command} was never called"));
    let (calls, usec, failed) = command_stats(stats);
    assert!(failed == 0.0, "{command}: {failed} of {calls} calls were answered with an error");
    (calls, usec)
}

/// Calls, us a call and failed calls in a line of INFO's section `commandstats`.
pub fn command_stats(stats: &str) -> (f64, f64, f64) {
    let value = |name: &str| {
        let of = |pair: &str| pair.strip_prefix(name)?.strip_prefix('=')?.parse::<f64>().ok();
        stats.split(',').find_map(of).unwrap_or(0.0)
    };
    (value("calls"), value("usec_per_call"), value("failed_calls") + value("rejected_calls"))
}
