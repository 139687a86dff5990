//! Many clients at once, and clients that misbehave, on a real server in real time.
//!
//! Every report of the group "Concurrency and soak" in `tests/scenarios/not-vectors.md` has a test
//! here that names it, in seconds instead of minutes or hours. What depends on time is judged by
//! the server's clock, read around each call (see `concurrency/timed.rs`), so that a busy machine
//! changes how much is tested and never what is right.

mod support;

#[path = "concurrency/exact.rs"]
mod exact;
#[path = "concurrency/expiry.rs"]
mod expiry;
#[path = "concurrency/paced.rs"]
mod paced;
#[path = "concurrency/races.rs"]
mod races;
#[path = "concurrency/timed.rs"]
mod timed;

use std::fs;
use std::path::Path;

/// The group is covered: each of its reports is named in the doc comment of a test.
#[test]
fn every_report_of_the_group_has_a_test() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let list = fs::read_to_string(tests.join("scenarios/not-vectors.md")).expect("the list");
    let group = list.split("\n## ").find(|part| part.starts_with("Concurrency and soak"));
    let named: Vec<&str> = group
        .expect("the group")
        .split(|c: char| c.is_whitespace() || ",:".contains(c))
        .filter(|word| word.starts_with("BR-"))
        .collect();
    assert_eq!(named.len(), 40, "reports in the group");
    let files = ["exact", "expiry", "paced", "races"];
    let docs: Vec<String> = files
        .iter()
        .map(|name| fs::read_to_string(tests.join(format!("concurrency/{name}.rs"))).expect(name))
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.starts_with("///"))
        .collect();
    for report in named {
        assert!(docs.iter().any(|line| line.contains(report)), "{report} has no test");
    }
}
