//! What the clients were told, command by command, to be compared with RL.STATS.

use std::collections::BTreeMap;

use redis::Value;

use crate::support::{Client, error_text, field};

/// Outcomes by command and counter, as INFO names them: `tokenbucket_allowed`.
#[derive(Clone, Default)]
pub struct Told {
    /// How often.
    counts: BTreeMap<String, u64>,
    /// Calls whose answer nobody read, by command: each may have raised one counter.
    unread: BTreeMap<String, u64>,
    /// All calls of the module.
    pub calls: u64,
}

/// The commands whose decisions are compared.
pub const COMMANDS: [&str; 5] = ["tokenbucket", "leaky", "sliding", "all", "throttle"];

fn command(line: &str) -> String {
    let name = line.split(' ').next().unwrap_or_default().to_lowercase();
    name.strip_prefix("rl.").unwrap_or(&name).to_owned()
}

/// Whether a call asks for something, and so raises a counter of decisions.
fn asks(line: &str) -> bool {
    !line.contains(" PEEK") && !line.contains(" COST 0")
}

impl Told {
    /// Notes an answer; the texts of errors are returned.
    pub fn note(&mut self, line: &str, value: &Value) -> Option<String> {
        self.calls += 1;
        let name = command(line);
        if let Some(error) = error_text(value) {
            self.raise(&name, "errors");
            return Some(error);
        }
        let first = match value {
            Value::Array(items) => items.first(),
            _ => None,
        };
        let Some(Value::Int(first)) = first else { return None };
        if !COMMANDS.contains(&name.as_str()) || !asks(line) {
            return None;
        }
        let counter = match (name.as_str(), first) {
            _ if line.contains(" FORCE") => "forced",
            ("throttle", 0) | ("tokenbucket" | "leaky" | "sliding" | "all", 1) => "allowed",
            (_, 2) => "shadow_denied",
            _ => "denied",
        };
        self.raise(&name, counter);
        None
    }

    fn raise(&mut self, name: &str, counter: &str) {
        *self.counts.entry(format!("{name}_{counter}")).or_default() += 1;
    }

    /// Notes a call whose answer nobody will read.
    pub fn unread(&mut self, line: &str) {
        *self.unread.entry(command(line)).or_default() += 1;
    }

    /// Adds what another client was told.
    pub fn add(&mut self, other: &Told) {
        for (name, count) in &other.counts {
            *self.counts.entry(name.clone()).or_default() += count;
        }
        for (name, count) in &other.unread {
            *self.unread.entry(name.clone()).or_default() += count;
        }
        self.calls += other.calls;
    }

    /// The server has counted the same.
    pub fn expect_counted(&self, client: &mut Client) {
        let info = client.info("rl");
        let count = |name: &str| -> u64 {
            let text = field(&info, &format!("rl_{name}")).expect("INFO has it");
            text.parse().expect("a count")
        };
        for name in COMMANDS {
            for counter in ["allowed", "denied", "shadow_denied", "forced", "errors"] {
                let name_of = format!("{name}_{counter}");
                let told = self.counts.get(&name_of).copied().unwrap_or_default();
                let unread = self.unread.get(name).copied().unwrap_or_default();
                let counted = count(&name_of);
                println!("{name_of}: {counted}");
                assert!(
                    (told..=told + unread).contains(&counted),
                    "{name_of}: {counted} counted, {told} told, {unread} unread"
                );
            }
        }
    }
}
