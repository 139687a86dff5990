//! `make bench`: every contender, round after round, and the pages that tell of it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use redis::Value;

use super::cases::{self, Case, Others};
use super::chart::{self, Bar};
use super::fill::load_script;
use super::load::Shape;
use super::markdown::{count, figure, maybe, replaced, table};
use super::progress::Progress;
use super::stats::{Metric, Sample, ratio, typical};
use super::support::{Config, Server, error_text};
use super::{Compare, machine, memory, modules, targets};

/// The databases of a server: every contender has its own, so that its table of keys is its own.
const DATABASES: usize = 64;
/// Rounds: many short ones, so that what is compared is measured close together.
const ROUNDS: usize = 21;
const QUICK_ROUNDS: usize = 5;
/// Where README shows the headline.
const BEGIN: &str = "<!-- figures of `make bench`, written by it -->";
const END: &str = "<!-- end of the figures -->";

/// How a server and its clients are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// 32 calls at once.
    Pipelined,
    /// One call at once.
    Single,
    /// 32 calls at once, with an append-only file and a replica.
    Durable,
}

impl Section {
    /// Behind a figure.
    pub fn shown(self) -> &'static str {
        match self {
            Section::Pipelined => "",
            Section::Single => ", not pipelined",
            Section::Durable => ", append-only file and replica",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Section::Pipelined => "Pipelined",
            Section::Single => "Not pipelined",
            Section::Durable => "Pipelined, with an append-only file (everysec) and a replica",
        }
    }

    fn has(self, case: &Case) -> bool {
        let durable = ["INCR", "RL.TOKENBUCKET, ", "Lua token bucket, "];
        let plain = ["INCR", "allowed", "denied"];
        match self {
            Section::Pipelined => true,
            Section::Single => case.single,
            Section::Durable => durable.iter().any(|name| {
                let rest = case.name.strip_prefix(name);
                rest.is_some_and(|rest| rest.is_empty() || plain.contains(&rest))
            }),
        }
    }
}

/// All rounds of a section.
pub struct Measured {
    /// Which.
    pub section: Section,
    cases: Vec<(Case, Vec<Sample>)>,
}

impl Measured {
    /// The rounds of one contender; none if it was not there.
    pub fn samples(&self, name: &str) -> Option<&[Sample]> {
        let found = self.cases.iter().find(|(case, _)| case.name == name);
        found.map(|(_, samples)| samples.as_slice())
    }
}

/// The whole comparison; a failure, where the user's own script cannot be compared.
pub fn run(options: &Compare) -> ExitCode {
    let script = read_script(&options.lua);
    machine::warn_if_busy();
    let cell = modules::cell();
    if cell.is_none() {
        eprintln!("redis-cell cannot be had here: it is not compared");
    }
    let config = config(cell.as_ref());
    let server = Server::with(&config);
    let own = match script.map(|script| own_script(&server, &script, options)) {
        Some(Err(error)) => {
            eprintln!("It cannot be compared: {error}\n{HOW_TO_CALL}");
            return ExitCode::FAILURE;
        }
        own => own.and_then(Result::ok),
    };
    let short = options.quick || own.is_some();
    let others = Others { cell: cell.is_some(), script: own };
    let mut cases = cases::all(&server, others);
    if short {
        cases.retain(|case| case.quick);
    }
    let rounds = options.rounds.map_or(if short { QUICK_ROUNDS } else { ROUNDS }, usize::from);
    let mut progress = Progress::new();
    let mut measured = vec![section(&server, Section::Pipelined, &cases, rounds, &mut progress)];
    measured.push(section(&server, Section::Single, &cases, rounds, &mut progress));
    let mut bytes = Vec::new();
    if !short {
        measured.push(durable(&config, &cases, rounds, &mut progress));
        progress.tell("memory");
        bytes = memory::measure();
    }
    progress.done();
    let report = Report { measured, bytes, rounds, cell: cell.is_some() };
    print!("{}", report.tables());
    if short {
        print!("{}", report.beside(&options.lua));
    } else {
        report.write(&server);
    }
    ExitCode::SUCCESS
}

/// What is mostly missing where a script answers an error.
const HOW_TO_CALL: &str = "Does it need other keys or arguments? LUA_KEYS=2 LUA_ARGS='100 {now}' \
                           gives it two keys, 100, and the time in s";

fn config(cell: Option<&PathBuf>) -> Config {
    let config = Config::new()
        .client_time()
        .line(&format!("databases {DATABASES}"))
        .line(&format!("loadmodule \"{}\"", modules::floor().display()));
    match cell {
        Some(cell) => config.line(&format!("loadmodule \"{}\"", cell.display())),
        None => config,
    }
}

/// The script that the user wants to see; none if there is no name.
fn read_script(path: &str) -> Option<String> {
    if path.is_empty() {
        return None;
    }
    match fs::read_to_string(path) {
        Ok(script) => Some(script),
        Err(error) => {
            eprintln!("The script {path}: {error}");
            std::process::exit(1);
        }
    }
}

/// The same as a contender.
///
/// # Errors
/// What the script answers instead.
fn own_script(server: &Server, script: &str, options: &Compare) -> Result<Case, String> {
    let mut client = server.client();
    let hash = load_script(&mut client, script)?;
    let now_ms = client.time_us() / 1000;
    let case = cases::own(&options.lua, &hash, options.lua_keys, &options.lua_args, now_ms);
    let answer = client.call(&case.first_call());
    eprintln!("{} answers {}", options.lua, shown(&answer));
    error_text(&answer).map_or(Ok(case), Err)
}

/// An answer in a line.
fn shown(answer: &Value) -> String {
    match answer {
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(" "),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => error_text(other).unwrap_or_else(|| format!("{other:?}")),
    }
}

/// Measures the contenders of a section in so many rounds, every other one backwards.
fn section(
    server: &Server,
    section: Section,
    cases: &[Case],
    rounds: usize,
    progress: &mut Progress,
) -> Measured {
    let title = section.title();
    let mut cases: Vec<(Case, Vec<Sample>)> =
        cases.iter().filter(|case| section.has(case)).map(|case| (case.clone(), vec![])).collect();
    assert!(cases.len() <= DATABASES, "every contender has a database");
    for (db, (case, _)) in cases.iter().enumerate().filter(|(_, (case, _))| case.lasting) {
        progress.tell(&format!("{title}: filling for {}", case.name));
        case.prepare(&mut server.client(), db);
    }
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..cases.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let (case, samples) = &mut cases[index];
            progress.tell(&format!("{title}: round {} of {rounds}, {}", round + 1, case.name));
            let shape = match section {
                Section::Single => Shape::SINGLE,
                _ => Shape { calls: case.calls, ..Shape::PIPELINED },
            };
            samples.push(case.measure(server, shape, index));
        }
    }
    server.client().ok("FLUSHALL SYNC");
    Measured { section, cases }
}

/// The same with everything on disk and at a replica.
fn durable(config: &Config, cases: &[Case], rounds: usize, progress: &mut Progress) -> Measured {
    let config = config.clone().line("appendonly yes").line("appendfsync everysec");
    let primary = Server::with(&config);
    let _replica = primary.replica_with(Config::new().line(&format!("databases {DATABASES}")));
    // The scripts are known by their hashes: this server has to have them too.
    let others = Others { cell: false, script: None };
    cases::all(&primary, others);
    section(&primary, Section::Durable, cases, rounds, progress)
}

/// All that was measured.
struct Report {
    measured: Vec<Measured>,
    bytes: Vec<(String, f64)>,
    rounds: usize,
    cell: bool,
}

impl Report {
    /// Targets and figures.
    fn tables(&self) -> String {
        let mut text = String::from("\n## Targets\n\n");
        text.push_str(&self.targets());
        for measured in &self.measured {
            text.push_str(&format!("\n## {}\n\n", measured.section.title()));
            text.push_str(&figures(measured));
        }
        text
    }

    fn targets(&self) -> String {
        let mut rows = targets::rows(&self.measured);
        rows.extend(targets::memory(&self.bytes));
        table(&targets::HEADS, &rows)
    }

    /// How many times as much a user's script costs as each limiter.
    fn beside(&self, script: &str) -> String {
        let mut rows = Vec::new();
        for measured in &self.measured {
            let Some(own) = measured.samples(script) else { continue };
            for (case, samples) in &measured.cases {
                if !case.name.starts_with("RL.") {
                    continue;
                }
                let times = |of, over, metric| maybe(ratio(of, over, metric));
                rows.push(vec![
                    format!("{}{}", case.name, measured.section.shown()),
                    times(own, samples, Metric::Cpu),
                    times(samples, own, Metric::Throughput),
                ]);
            }
        }
        if rows.is_empty() {
            return String::new();
        }
        let heads = ["", "times less CPU a call", "times as many calls a second"];
        format!("\n## In place of {script}\n\n{}", table(&heads, &rows))
    }

    fn pipelined(&self) -> &Measured {
        &self.measured[0]
    }

    /// Writes the pages and the chart; of another server than the installed one only a page of its
    /// own.
    fn write(&self, server: &Server) {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        if env::var_os("RL_SERVER").is_some() {
            let product = machine::product(&server.client().info("server"));
            let name = product.to_lowercase().replace(' ', "-");
            write(&docs.join(format!("benchmarks-{name}.md")), &self.page(server, ""));
            return;
        }
        let chart = "\n![Server CPU time a call](benchmarks.svg)\n";
        write(&docs.join("benchmarks.md"), &self.page(server, chart));
        write(&docs.join("benchmarks.svg"), &self.chart());
        let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        let page = fs::read_to_string(&readme).expect("README.md can be read");
        match replaced(&page, BEGIN, END, &self.headline()) {
            Some(page) => write(&readme, &page),
            None => eprintln!("README.md has no place for the figures"),
        }
    }

    fn page(&self, server: &Server, chart: &str) -> String {
        format!(
            "{}\n## Where and with what\n\n{}- Command: `make bench`, {} rounds\n\
             - Pipelined: `redis-benchmark {} COMMAND`, for scripts and windows with `-n {}`\n\
             - Not pipelined: `redis-benchmark {} COMMAND`\n{}{chart}{}",
            include_str!("page.md"),
            machine::facts(server),
            self.rounds,
            Shape::PIPELINED.args().join(" "),
            cases::SLOW_CALLS,
            Shape::SINGLE.args().join(" "),
            if self.cell { "- redis-cell 0.2.2\n" } else { "- redis-cell: not compared\n" },
            self.tables()
        )
    }

    /// What README shows.
    fn headline(&self) -> String {
        let rows: Vec<Vec<String>> = HEADLINE
            .iter()
            .filter_map(|&(of, over)| {
                let mut row = vec![of.to_owned()];
                let samples = self.pipelined().samples(of)?;
                row.push(typical(samples, Metric::Cpu).map_or("-".to_owned(), count));
                row.push(self.times("INCR", of, Metric::Cpu));
                row.push(over.map_or("-".to_owned(), |over| self.faster(of, over)));
                Some(row)
            })
            .collect();
        let heads = ["pipelined calls", "server CPU, ns a call", "INCR = 1", "calls a second"];
        format!("{}{CHART}", table(&heads, &rows))
    }

    fn times(&self, over: &str, of: &str, metric: Metric) -> String {
        let pipelined = self.pipelined();
        let both = pipelined.samples(of).zip(pipelined.samples(over));
        maybe(both.and_then(|(of, over)| ratio(of, over, metric)))
    }

    fn faster(&self, of: &str, over: &str) -> String {
        let times = self.times(over, of, Metric::Throughput);
        let name = over.rsplit_once(", ").map_or(over, |(name, _)| name);
        format!("{times} times {name}")
    }

    fn chart(&self) -> String {
        let bars: Vec<Bar> = BARS
            .iter()
            .filter_map(|&name| {
                let value = typical(self.pipelined().samples(name)?, Metric::Cpu)?;
                Some(Bar { name, value, ours: name.starts_with("RL.") })
            })
            .collect();
        chart::bars("Server CPU time a call, in ns: shorter is better", &bars)
    }
}

/// The chart in README.
const CHART: &str = "\n![Server CPU time a call](docs/benchmarks.svg)\n";

/// Rows of README: a contender, and what it is compared with.
const HEADLINE: [(&str, Option<&str>); 7] = [
    ("INCR", None),
    ("RL.TOKENBUCKET, allowed", Some("Lua token bucket, allowed")),
    ("RL.TOKENBUCKET, denied", Some("Lua token bucket, denied")),
    ("RL.LEAKY, allowed", Some("Lua leaky bucket, allowed")),
    ("RL.SLIDING, limit 100, allowed", Some("Lua log, limit 100, allowed")),
    ("RL.SLIDING, limit 100, denied", Some("Lua log, limit 100, denied")),
    ("redis-cell, allowed", None),
];

/// Bars of the chart.
const BARS: [&str; 15] = [
    "PING",
    "INCR",
    "SET EX",
    "RL.TOKENBUCKET, denied",
    "RL.TOKENBUCKET, allowed",
    "RL.LEAKY, denied",
    "RL.LEAKY, allowed",
    "RL.SLIDING, limit 100, denied",
    "RL.SLIDING, limit 100, allowed",
    "GCRA, allowed",
    "INCREX, allowed",
    "redis-cell, allowed",
    "Lua token bucket, allowed",
    "Lua leaky bucket, allowed",
    "Lua log, limit 100, allowed",
];

/// Every contender's figures, medians of the rounds.
fn figures(measured: &Measured) -> String {
    let incr = measured.samples("INCR");
    let row = |(case, samples): &(Case, Vec<Sample>)| {
        let shown = |metric| typical(samples, metric).map_or("-".to_owned(), figure);
        let times = incr.and_then(|incr| ratio(samples, incr, Metric::Cpu));
        vec![
            case.name.clone(),
            shown(Metric::Cpu),
            maybe(times),
            shown(Metric::Throughput),
            shown(Metric::Usec),
        ]
    };
    let rows: Vec<Vec<String>> = measured.cases.iter().map(row).collect();
    let heads = ["", "CPU, ns a call", "INCR = 1", "calls a second", "us in the command"];
    table(&heads, &rows)
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let shown = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(path);
    eprintln!("wrote {}", shown.display());
}
