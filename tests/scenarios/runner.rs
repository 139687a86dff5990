//! Sends a scenario's calls to a server and hands the answers to [`super::check`].

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use redis::Value;
use serde_json::Value as Json;

use super::check::{self, Slack};
use super::support::{Client, Server, error_text};

/// The instant that a scenario calls 0, in ms since the epoch.
const START_MS: i64 = 1_700_000_000_000;

/// What a step may say; anything else would go unchecked.
const STEP_FIELDS: &[&str] = &[
    "at",
    "call",
    "times",
    "every",
    "expect",
    "sequence",
    "remaining_sequence",
    "retry_sequence",
    "count_allowed",
];

/// One reported trouble.
#[derive(Clone)]
pub struct Scenario {
    pub id: String,
    pub about: String,
    pub steps: Vec<Json>,
}

/// All scenarios, in the order of their files.
pub fn all_scenarios() -> Vec<Scenario> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> = fs::read_dir(&dir)
        .expect("the scenarios' directory")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    files.sort();
    files.iter().flat_map(|path| scenarios_of(path)).collect()
}

fn scenarios_of(path: &Path) -> Vec<Scenario> {
    let text = fs::read_to_string(path).expect("a text");
    let list: Vec<Json> =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let string = |scenario: &Json, name: &str| {
        scenario[name].as_str().unwrap_or_else(|| panic!("{name} of {scenario}")).to_owned()
    };
    list.iter()
        .map(|scenario| Scenario {
            id: string(scenario, "id"),
            about: string(scenario, "about"),
            steps: scenario["steps"].as_array().cloned().expect("steps"),
        })
        .collect()
}

/// One call of a step.
struct Call {
    step: usize,
    args: Vec<Vec<u8>>,
}

/// One server for any number of scenarios, one after the other.
pub struct Runner {
    // Held for its life: the client talks to it.
    _server: Server,
    client: Client,
    freezes_pttl: bool,
}

impl Runner {
    /// Starts a server.
    pub fn start() -> Runner {
        let server = Server::start();
        let client = server.client();
        let freezes_pttl = server.version().freezes_pttl();
        Runner { _server: server, client, freezes_pttl }
    }

    /// Runs one scenario; an error says which step got what.
    pub fn run(&mut self, scenario: &Scenario) -> Result<(), String> {
        let calls = calls_of(scenario);
        // Calls that cannot be queued show when they are; then the transaction has done nothing.
        let mut alone: BTreeSet<usize> = BTreeSet::new();
        loop {
            self.client.ok("FLUSHALL");
            self.client.ok("CONFIG SET rl.client-time yes");
            let mut answers: Vec<Option<Value>> = vec![None; calls.len()];
            for &call in &alone {
                answers[call] = Some(self.client.call(&calls[call].args));
            }
            let queued: Vec<usize> =
                (0..calls.len()).filter(|call| !alone.contains(call)).collect();
            let start = Instant::now();
            match self.transaction(&calls, &queued) {
                Ok(results) => {
                    let slack = Slack::of(start.elapsed(), self.freezes_pttl);
                    for (&call, result) in queued.iter().zip(results) {
                        answers[call] = Some(result);
                    }
                    return compare(scenario, &calls, &answers, slack);
                }
                Err(refused) => alone.extend(refused),
            }
        }
    }

    /// The answers of EXEC, or which calls were refused when they were queued.
    fn transaction(&mut self, calls: &[Call], queued: &[usize]) -> Result<Vec<Value>, Vec<usize>> {
        let mut sent = vec![vec![b"MULTI".to_vec()]];
        sent.extend(queued.iter().map(|&call| calls[call].args.clone()));
        sent.push(vec![b"EXEC".to_vec()]);
        let mut answers = self.client.pipeline(&sent);
        let results = answers.pop().expect("an answer to EXEC");
        let refused: Vec<usize> = queued
            .iter()
            .zip(&answers[1..])
            .filter(|(_, answer)| error_text(answer).is_some())
            .map(|(&call, _)| call)
            .collect();
        match results {
            Value::Array(results) if refused.is_empty() => Ok(results),
            _ if !refused.is_empty() => Err(refused),
            other => panic!("EXEC: {other:?}"),
        }
    }
}

/// Every single call, with its time behind it.
fn calls_of(scenario: &Scenario) -> Vec<Call> {
    let mut calls = Vec::new();
    for (index, step) in scenario.steps.iter().enumerate() {
        let fields = step.as_object().expect("a step").keys();
        for field in fields {
            assert!(STEP_FIELDS.contains(&field.as_str()), "{}: what is {field}?", scenario.id);
        }
        let words = step["call"].as_array().expect("a call").iter();
        let words: Vec<Vec<u8>> =
            words.map(|word| word.as_str().expect("a word").as_bytes().to_vec()).collect();
        let every = step["every"].as_i64().unwrap_or(0);
        for repetition in 0..step["times"].as_i64().unwrap_or(1) {
            let mut args = words.clone();
            if let Some(at) = step.get("at") {
                let at = START_MS + at.as_i64().expect("a time") + every * repetition;
                args.extend([b"AT".to_vec(), at.to_string().into_bytes()]);
            }
            calls.push(Call { step: index, args });
        }
    }
    calls
}

fn compare(
    scenario: &Scenario,
    calls: &[Call],
    answers: &[Option<Value>],
    slack: Slack,
) -> Result<(), String> {
    for (index, step) in scenario.steps.iter().enumerate() {
        let got: Vec<Value> = calls
            .iter()
            .zip(answers)
            .filter(|(call, _)| call.step == index)
            .map(|(_, answer)| answer.clone().expect("every call is answered"))
            .collect();
        check::step(step, &got, slack).map_err(|wrong| {
            let Scenario { id, about, .. } = scenario;
            format!("{id} ({about})\n  step {index}: {}\n  {wrong}", step["call"])
        })?;
    }
    Ok(())
}

impl Slack {
    /// What a transaction that took so long allows.
    fn of(took: Duration, freezes_pttl: bool) -> Slack {
        let ms = i64::try_from(took.as_millis()).expect("a short time") + 1;
        Slack { pttl_ms: if freezes_pttl { 0 } else { ms } }
    }
}
