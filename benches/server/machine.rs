//! Where and with what the figures were made.

use std::fs;
use std::process::Command;

use super::support::{Server, field};

/// One line a fact, as a list of a page.
pub fn facts(server: &Server) -> String {
    let mut client = server.client();
    let info = client.info("server");
    let allocator = client.info("memory");
    let allocator = field(&allocator, "mem_allocator").unwrap_or("unknown").to_owned();
    let facts = [
        ("Date", told_by("date", &["-u", "+%F"])),
        ("Machine", machine()),
        ("System", told_by("uname", &["-srm"])),
        ("Server", format!("{}, {allocator}", product(&info))),
        ("Client", told_by("redis-benchmark", &["--version"])),
        ("Load average at the end, the benchmark's own included", load_average().to_string()),
        ("Compiler", told_by("rustc", &["--version"])),
        ("Commit", told_by("git", &["describe", "--always", "--dirty", "--exclude=*"])),
    ];
    facts.iter().map(|(name, fact)| format!("- {name}: {fact}\n")).collect()
}

/// How many programs wanted a processor in the last minute, on average.
fn load_average() -> f64 {
    let loads = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    loads.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// Tells that the figures will be worth less than they could be.
pub fn warn_if_busy() {
    let load = load_average();
    if load > 1.0 {
        eprintln!(
            "This machine is busy (load average {load}): ratios are measured within a round,"
        );
        eprintln!("but whoever shares the caches slows some contenders more than others.");
    }
}

/// Product and version.
pub fn product(info: &str) -> String {
    for (product, name) in
        [("Valkey", "valkey_version"), ("Redict", "redict_version"), ("Redis", "redis_version")]
    {
        if let Some(version) = field(info, name) {
            return format!("{product} {version}");
        }
    }
    "unknown".to_owned()
}

/// Processor, cores and memory.
fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, model)| model);
    let cores = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = field(&meminfo, "MemTotal")
        .and_then(|total| total.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let gib = kib.map_or("unknown".to_owned(), |kib| (kib / 1024 / 1024).to_string());
    format!("{model}, {cores} cores, {gib} GiB")
}

/// The first line that a program prints.
fn told_by(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let printed = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    printed.ok().and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_default()
}
