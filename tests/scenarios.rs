//! Runs every scenario of `tests/scenarios/*.json` on a real server, as the README there says.
//!
//! Each scenario gets an empty database and one MULTI/EXEC, in which the server's time stands
//! still. A call that the server refuses to queue would abort the transaction, so it goes out alone
//! before. Nothing is skipped.

mod support;

#[path = "scenarios/check.rs"]
mod check;
#[path = "scenarios/runner.rs"]
mod runner;

use runner::{Runner, Scenario, all_scenarios};
use serde_json::{Value as Json, json};

/// How many scenarios there are: one that gets lost is noticed.
const COUNT: usize = 237;

#[test]
fn every_scenario_gets_its_answers() {
    let scenarios = all_scenarios();
    assert_eq!(scenarios.len(), COUNT, "scenarios in all");
    let mut runner = Runner::start();
    let failures: Vec<_> =
        scenarios.iter().filter_map(|scenario| runner.run(scenario).err()).collect();
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
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

/// The first scenario that has a step which expects `name`, and that step.
fn first_with(scenarios: &[Scenario], name: &str) -> (Scenario, usize) {
    let found = scenarios.iter().find_map(|scenario| {
        let bendable = |step: &Json| {
            let denies = step.get("sequence").is_some_and(|s| s.to_string().contains('D'));
            let has =
                step.get(name).is_some() || step.pointer(&format!("/expect/{name}")).is_some();
            has && (name != "sequence" || denies)
        };
        let step = scenario.steps.iter().position(bendable)?;
        Some((scenario.clone(), step))
    });
    found.unwrap_or_else(|| panic!("no scenario expects {name}"))
}
