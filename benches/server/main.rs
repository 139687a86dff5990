//! The server benchmarks: what the module's commands cost on a real server, beside the server's own
//! commands, Lua scripts and other limiters.
//!
//! Run by `make bench`, `bench-quick`, `bench-latency` and `bench-growth`; without a subcommand (as
//! `cargo bench` calls every bench program) it only says so.
//!
//! The machine is shared and noisy, so nothing is compared across time: every round measures all
//! contenders one after the other, a ratio is taken within its round, and the median of the rounds
//! is what counts. The cost of a call is the server's own CPU time, told by INFO, over the calls:
//! it does not depend on how fast the client is.

#[path = "../../tests/support/mod.rs"]
mod support;

mod cases;
mod chart;
mod compare;
mod fill;
mod growth;
mod latency;
mod load;
mod machine;
mod markdown;
mod memory;
mod modules;
mod progress;
mod stats;
mod targets;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// What the program can do.
#[derive(Parser)]
#[command(about = "Benchmarks of redis-rl on a real server")]
struct Cli {
    #[command(subcommand)]
    task: Option<Task>,
    /// Given by `cargo bench`.
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Task {
    /// Compares the commands with the server's own, with Lua and with other limiters.
    Compare(Compare),
    /// The slowest calls on long windows, and percentiles of a mixed load.
    Latency,
    /// How the cost grows with keys, hits, clients, COST, io-threads and nodes.
    Growth,
    /// What `cargo bench -- WORD` hands to every bench program.
    #[command(external_subcommand)]
    Filter(Vec<String>),
}

/// Options of the comparison.
#[derive(Args)]
struct Compare {
    /// The headline only, in under a minute; prints and writes no file.
    #[arg(long)]
    quick: bool,
    /// Rounds, at most 25; more are steadier.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=25))]
    rounds: Option<u8>,
    /// Your own Lua script, to be compared too; prints and writes no file.
    #[arg(long, default_value = "", hide_default_value = true)]
    lua: String,
    /// How many keys your script takes.
    #[arg(long, default_value_t = 1)]
    lua_keys: usize,
    /// What your script takes behind its keys; {now} and {now_ms} stand for the time.
    #[arg(long, default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    lua_args: String,
}

fn main() -> ExitCode {
    match Cli::parse().task {
        Some(Task::Compare(options)) => return compare::run(&options),
        Some(Task::Latency) => latency::run(),
        Some(Task::Growth) => growth::run(),
        Some(Task::Filter(words)) => println!("{}: {ELSEWHERE}", words.join(" ")),
        None => println!("{ELSEWHERE}"),
    }
    ExitCode::SUCCESS
}

/// What the program says where it has nothing to do.
const ELSEWHERE: &str = "the server benchmarks run by `make bench`, see `make help`";
