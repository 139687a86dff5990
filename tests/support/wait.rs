//! Waiting for a condition, with a deadline instead of a guess.

use std::thread;
use std::time::{Duration, Instant};

use super::memcheck::MEMCHECK;

/// How long a test waits for what should happen at once: long enough for a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(if MEMCHECK { 600 } else { 30 });

/// Asks until `condition` holds; past [`DEADLINE`] the test fails and names `what` it waited for.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "waited in vain until {what}");
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
