//! What redis-rl wants to reach, as ratios within a run.

use super::compare::{Measured, Section};
use super::markdown::{figure, maybe};
use super::stats::{Metric, ratio};

/// Where a ratio should lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At most so much.
    AtMost(f64),
    /// At least so much.
    AtLeast(f64),
}

impl Bound {
    /// Whether a figure lies there.
    pub fn is_met(self, measured: f64) -> bool {
        match self {
            Bound::AtMost(most) => measured <= most,
            Bound::AtLeast(least) => measured >= least,
        }
    }

    /// In a table.
    pub fn shown(self) -> String {
        match self {
            Bound::AtMost(most) => format!("at most {most}"),
            Bound::AtLeast(least) => format!("at least {least}"),
        }
    }
}

/// A contender in relation to another.
struct Target {
    section: Section,
    metric: Metric,
    of: String,
    over: String,
    bound: Bound,
}

/// The heads of [`rows`].
pub const HEADS: [&str; 5] = ["", "measured", "target", "met", "by CPU"];

/// A row for every target.
pub fn rows(measured: &[Measured]) -> Vec<Vec<String>> {
    let mut targets = Vec::new();
    buckets(&mut targets);
    windows(&mut targets);
    unpipelined(&mut targets);
    durable(&mut targets);
    targets.iter().filter_map(|target| target.row(measured)).collect()
}

/// A row of any figure with a bound.
pub fn row(what: &str, measured: Option<f64>, bound: Bound, by_cpu: &str) -> Vec<String> {
    let met = match measured.map(|measured| bound.is_met(measured)) {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not compared",
    };
    vec![what.to_owned(), maybe(measured), bound.shown(), met.to_owned(), by_cpu.to_owned()]
}

/// Rows of what a key and a hit take.
pub fn memory(bytes: &[(String, f64)]) -> Vec<Vec<String>> {
    const MOST: [(&str, f64); 5] = [
        ("token bucket, bytes a key", 180.0),
        ("leaky bucket, bytes a key", 180.0),
        ("bucket with the longest numbers, bytes a key", 200.0),
        ("sliding window, 70,000 hits in a day, bytes a hit", 4.0),
        ("sliding window, 5,000 hits a second, bytes a hit", 1.2),
    ];
    let of = |name: &str| bytes.iter().find(|(known, _)| known == name).map(|(_, bytes)| *bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    MOST.iter().map(|&(name, most)| row(name, of(name), Bound::AtMost(most), "")).collect()
}

impl Target {
    /// None where the whole section was not measured, or the command itself was not.
    fn row(&self, measured: &[Measured]) -> Option<Vec<String>> {
        let section = measured.iter().find(|measured| measured.section == self.section)?;
        section.samples(&self.of)?;
        let value = |metric| {
            let (of, over) = (section.samples(&self.of)?, section.samples(&self.over)?);
            ratio(of, over, metric)
        };
        let (unit, by_cpu) = match self.metric {
            Metric::Throughput => {
                let cpu = value(Metric::Cpu).map_or("-".to_owned(), |cpu| figure(1.0 / cpu));
                ("calls a second", cpu)
            }
            Metric::Cpu => ("CPU a call", String::new()),
            Metric::Usec => ("us a call", String::new()),
        };
        let place = self.section.shown();
        let what = format!("{} : {}, {unit}{place}", self.of, self.over);
        Some(row(&what, value(self.metric), self.bound, &by_cpu))
    }
}

fn buckets(targets: &mut Vec<Target>) {
    for command in ["RL.TOKENBUCKET", "RL.LEAKY"] {
        let mut add = |metric, traffic: &str, over: &str, bound| {
            let of = format!("{command}, {traffic}");
            let section = Section::Pipelined;
            targets.push(Target { section, metric, of, over: over.to_owned(), bound });
        };
        add(Metric::Cpu, "allowed", "open and reply", Bound::AtMost(1.8));
        add(Metric::Cpu, "denied", "open and reply", Bound::AtMost(1.4));
        add(Metric::Cpu, "allowed", "INCR", Bound::AtMost(2.0));
        add(Metric::Cpu, "denied", "INCR", Bound::AtMost(2.0));
        add(Metric::Cpu, "denied", &format!("{command}, allowed"), Bound::AtMost(1.0));
        for traffic in ["allowed", "denied"] {
            let lua = format!("Lua token bucket, {traffic}");
            add(Metric::Throughput, traffic, &lua, Bound::AtLeast(6.0));
            let cell = format!("redis-cell, {traffic}");
            add(Metric::Throughput, traffic, &cell, Bound::AtLeast(2.0));
        }
    }
}

fn windows(targets: &mut Vec<Target>) {
    for what in [
        "limit 100, allowed",
        "limit 100, denied",
        "limit 1,000,000, allowed",
        "one key of 300,000 hits, allowed",
        "one key of 1,000,000 hits, denied",
    ] {
        targets.push(Target {
            section: Section::Pipelined,
            metric: Metric::Throughput,
            of: format!("RL.SLIDING, {what}"),
            over: format!("Lua log, {what}"),
            bound: Bound::AtLeast(8.0),
        });
    }
    targets.push(Target {
        section: Section::Pipelined,
        metric: Metric::Cpu,
        of: "RL.SLIDING, limit 100, denied".to_owned(),
        over: "RL.SLIDING, limit 100, allowed".to_owned(),
        bound: Bound::AtMost(1.0),
    });
}

fn unpipelined(targets: &mut Vec<Target>) {
    for command in ["RL.TOKENBUCKET", "RL.LEAKY", "RL.SLIDING, limit 100"] {
        for traffic in ["allowed", "denied"] {
            targets.push(Target {
                section: Section::Single,
                metric: Metric::Throughput,
                of: format!("{command}, {traffic}"),
                over: "INCR".to_owned(),
                bound: Bound::AtLeast(0.95),
            });
        }
    }
}

fn durable(targets: &mut Vec<Target>) {
    for traffic in ["allowed", "denied"] {
        targets.push(Target {
            section: Section::Durable,
            metric: Metric::Throughput,
            of: format!("RL.TOKENBUCKET, {traffic}"),
            over: format!("Lua token bucket, {traffic}"),
            bound: Bound::AtLeast(4.0),
        });
    }
}
