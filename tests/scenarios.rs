//! Runs every scenario of `tests/scenarios/*.json` on a real server, as the README there says.
//!
//! Each scenario gets an empty database and one MULTI/EXEC, in which the server's time stands
//! still. A call that the server refuses to queue would abort the transaction, so it goes out alone
//! before. Nothing is skipped: the scenarios that wait for a command which does not exist yet are
//! listed in [`WAITING`], and the list is compared with what the server knows.

mod support;

#[path = "scenarios/check.rs"]
mod check;
#[path = "scenarios/runner.rs"]
mod runner;

use std::collections::BTreeSet;

use runner::{Runner, Scenario, all_scenarios};
use serde_json::{Value as Json, json};

/// How many scenarios there are: one that gets lost is noticed.
const COUNT: usize = 237;

const NO_ALL: &str = "RL.ALL does not exist yet";
const NO_THROTTLE: &str = "RL.THROTTLE does not exist yet";

/// Scenarios with steps that wait for a command, and what they wait for.
const WAITING: &[(&str, &str)] = &[
    ("BR-076b", NO_THROTTLE),
    ("BR-077b", NO_THROTTLE),
    ("BR-218", NO_ALL),
    ("BR-237", NO_ALL),
    ("BR-238", NO_ALL),
    ("BR-239", NO_ALL),
    ("BR-240", NO_ALL),
    ("BR-241", NO_ALL),
    ("BR-242", NO_ALL),
    ("BR-264", NO_ALL),
    ("BR-283b", NO_THROTTLE),
];

#[test]
fn every_scenario_gets_its_answers() {
    let scenarios = all_scenarios();
    assert_eq!(scenarios.len(), COUNT, "scenarios in all");
    let mut runner = Runner::start();
    let waiting: BTreeSet<&str> = WAITING.iter().map(|&(id, _)| id).collect();
    let mut failures = Vec::new();
    for scenario in &scenarios {
        // A scenario of which one step waits still shows what its other steps show.
        let scenario = if waiting.contains(scenario.id.as_str()) {
            match runner.without_unknown_commands(scenario) {
                Some(rest) => rest,
                None => continue,
            }
        } else {
            scenario.clone()
        };
        failures.extend(runner.run(&scenario).err());
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn exactly_the_listed_scenarios_wait() {
    let mut runner = Runner::start();
    let unknown: BTreeSet<(String, String)> = all_scenarios()
        .iter()
        .flat_map(|scenario| {
            let commands = runner.unknown_commands(scenario);
            commands.into_iter().map(|command| (scenario.id.clone(), command))
        })
        .collect();
    let listed: BTreeSet<(String, String)> = WAITING
        .iter()
        .map(|&(id, reason)| {
            let command = reason.split(' ').next().unwrap_or_default();
            (id.to_owned(), command.to_owned())
        })
        .collect();
    assert_eq!(unknown, listed, "scenarios whose commands the server does not know, and WAITING");
}

/// Turns an expectation into a wrong one.
type Bend = fn(&Json) -> Json;

/// Each way to state an answer is seen to fail: a runner that compares nothing would pass all.
#[test]
fn a_bent_expectation_fails() {
    let scenarios = all_scenarios();
    let mut runner = Runner::start();
    let bends: [(&str, Bend); 13] = [
        ("allowed", |_| json!(2)),
        ("limit", |_| json!(4_000_001)),
        ("remaining", |_| json!([4_000_001, 4_000_002])),
        ("retry_after_ms", |_| json!(4_000_001)),
        ("reset_after_ms", |_| json!(4_000_001)),
        ("delay_ms", |_| json!([4_000_001, 4_000_002])),
        ("reply", |_| json!("bent")),
        ("int", |_| json!([-9, -8])),
        ("error", |_| json!("BENT")),
        ("sequence", |was| json!(was.as_str().unwrap_or_default().replace('D', "A"))),
        ("remaining_sequence", bend_last),
        ("retry_sequence", bend_last),
        ("count_allowed", |_| json!([4_000_001, 4_000_002])),
    ];
    for (name, bend) in bends {
        let (scenario, step) = first_with(&scenarios, name);
        assert_eq!(runner.run(&scenario), Ok(()), "{name}: the scenario as it is");
        let mut bent = scenario.clone();
        bend_step(&mut bent.steps[step], name, bend);
        let message = runner.run(&bent).expect_err(&format!("{name} is compared"));
        assert!(message.contains(&scenario.id), "{message} names the scenario");
    }
}

fn bend_last(was: &Json) -> Json {
    let mut numbers = was.as_array().cloned().unwrap_or_default();
    numbers.pop();
    numbers.push(json!(4_000_001));
    Json::Array(numbers)
}

fn bend_step(step: &mut Json, name: &str, bend: Bend) {
    for path in [format!("/{name}"), format!("/expect/{name}")] {
        if let Some(place) = step.pointer_mut(&path) {
            *place = bend(place);
        }
    }
}

/// The first scenario that waits for nothing and has a step which expects `name`, and that step.
fn first_with(scenarios: &[Scenario], name: &str) -> (Scenario, usize) {
    let found = scenarios.iter().find_map(|scenario| {
        let waits = WAITING.iter().any(|&(id, _)| id == scenario.id);
        let bendable = |step: &Json| {
            let denies = step.get("sequence").is_some_and(|s| s.to_string().contains('D'));
            let has =
                step.get(name).is_some() || step.pointer(&format!("/expect/{name}")).is_some();
            has && (name != "sequence" || denies)
        };
        let step = scenario.steps.iter().position(bendable)?;
        (!waits).then(|| (scenario.clone(), step))
    });
    found.unwrap_or_else(|| panic!("no scenario expects {name}"))
}
