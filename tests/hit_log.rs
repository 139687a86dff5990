//! The hit log is a sorted map of times to counts, in few bytes, and no operation on it is slow.
//!
//! - every operation against a `BTreeMap`, in logs of one run to some thousand;
//! - at most 4 bytes a hit for 70,000 single hits spread over a day, at most 1.2 bytes for some
//!   thousand hits a second, allocator's rounding and headers included;
//! - what a log says of its memory is so (`hit_log/memory.rs`), and runs of any size and number are
//!   what they are once they are packed (`hit_log/runs.rs`);
//! - each operation on a log of a million single hits takes less than 1 ms in a release build (in
//!   a debug build less than a fifth of a walk over all hits).

#[path = "hit_log/memory.rs"]
mod memory;
mod model;
#[path = "hit_log/runs.rs"]
mod packed_runs;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use redis_rl::algorithm::hit_log::{HitLog, Run};
use redis_rl::algorithm::sliding_window::{Quota, SlidingWindow, State};
use redis_rl::algorithm::{Clock, Limiter, Request};

use crate::model::cases;
use crate::model::window::runs;

/// Something done to a log, its times relative to the newest hit.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// Hits so long after the newest.
    Add { after_ms: i64, count: u64 },
    /// Many runs, each so long after the one before.
    AddMany { runs: u16, gap_ms: i64, count: u64 },
    /// Hits so long before the newest.
    AddEarlier { before_ms: i64, count: u64 },
    /// Hits at the time of the run that so many hundredths of all runs are older than.
    AddToRun { hundredth: usize, count: u64 },
    /// Forgets what is at or before the time of such a run, give or take a ms.
    ForgetUntil { hundredth: usize, edge_ms: i64 },
    /// Forgets up to so long before the newest: all if it is negative.
    ForgetBefore { before_ms: i64 },
    /// Takes so many units.
    Take { units: u64 },
    /// Takes so many hundredths of the units.
    TakePart { hundredth: u64 },
    /// Moves back.
    MoveBack { ms: i64 },
    /// Moves what is after the time of such a run, give or take a ms, to that time.
    HoldBack { hundredth: usize, edge_ms: i64 },
}

fn op() -> impl Strategy<Value = Op> {
    let gap_ms = || prop_oneof![3 => 1..=3_i64, 3 => 1..=20_000_i64, 1 => 1..=1_i64 << 40];
    let count = || prop_oneof![4 => Just(1_u64), 2 => 2..=300_u64, 1 => 1..=1_u64 << 36];
    let part = || 0..=100_usize;
    prop_oneof![
        4 => (0..=2_i64, count()).prop_map(|(after_ms, count)| Op::Add { after_ms, count }),
        3 => (gap_ms(), count()).prop_map(|(after_ms, count)| Op::Add { after_ms, count }),
        3 => (1..=900_u16, gap_ms(), prop_oneof![Just(1_u64), 2..=99_u64])
            .prop_map(|(runs, gap_ms, count)| Op::AddMany { runs, gap_ms, count }),
        2 => (gap_ms(), count())
            .prop_map(|(before_ms, count)| Op::AddEarlier { before_ms, count }),
        2 => (part(), count()).prop_map(|(hundredth, count)| Op::AddToRun { hundredth, count }),
        2 => (part(), -1..=1_i64)
            .prop_map(|(hundredth, edge_ms)| Op::ForgetUntil { hundredth, edge_ms }),
        1 => (-1..=5000_i64).prop_map(|before_ms| Op::ForgetBefore { before_ms }),
        2 => count().prop_map(|units| Op::Take { units }),
        1 => (0..=101_u64).prop_map(|hundredth| Op::TakePart { hundredth }),
        2 => gap_ms().prop_map(|ms| Op::MoveBack { ms }),
        1 => (part(), -1..=1_i64)
            .prop_map(|(hundredth, edge_ms)| Op::HoldBack { hundredth, edge_ms }),
    ]
}

/// A log and the map that it must equal.
#[derive(Default)]
struct Twin {
    log: HitLog,
    map: BTreeMap<i64, u64>,
}

impl Twin {
    fn newest_ms(&self) -> i64 {
        self.map.keys().next_back().copied().unwrap_or(1_700_000_000_000)
    }

    fn units(&self) -> u64 {
        self.map.values().sum()
    }

    /// The time of the run that so many hundredths of all are older than.
    fn run_ms(&self, hundredth: usize) -> i64 {
        let index = self.map.len().saturating_sub(1) * hundredth / 100;
        self.map.keys().nth(index).copied().unwrap_or_default()
    }

    fn add(&mut self, time_ms: i64, count: u64) {
        self.log.add(Run { time_ms, count });
        *self.map.entry(time_ms).or_default() += count;
    }

    fn forget_until(&mut self, time_ms: i64) {
        self.log.forget_until(time_ms);
        self.map.retain(|&run_ms, _| run_ms > time_ms);
    }

    fn hold_back(&mut self, newest_ms: i64) {
        self.log.hold_back(newest_ms);
        let held: u64 = self.map.split_off(&(newest_ms + 1)).values().sum();
        if held > 0 {
            *self.map.entry(newest_ms).or_default() += held;
        }
    }

    fn take_newest(&mut self, units: u64) {
        self.log.take_newest(units);
        let mut left = units;
        while let Some(mut newest) = self.map.last_entry().filter(|_| left > 0) {
            let taken = left.min(*newest.get());
            left -= taken;
            *newest.get_mut() -= taken;
            if *newest.get() == 0 {
                newest.remove();
            }
        }
    }

    /// Takes the log apart and puts it together, as the server's value does for each call.
    fn rebuild(&mut self) {
        let outline = *self.log.outline();
        self.log = HitLog::from_parts(outline, self.log.take_blocks());
    }

    fn play(&mut self, op: Op) {
        self.rebuild();
        let newest_ms = self.newest_ms();
        match op {
            Op::Add { after_ms, count } => self.add(newest_ms + after_ms, count),
            Op::AddMany { runs, gap_ms, count } => {
                for run in 1..=i64::from(runs) {
                    self.add(newest_ms + run * gap_ms, count);
                }
            }
            Op::AddEarlier { before_ms, count } => self.add(newest_ms - before_ms, count),
            Op::AddToRun { hundredth, count } => self.add(self.run_ms(hundredth), count),
            Op::ForgetUntil { hundredth, edge_ms } => {
                self.forget_until(self.run_ms(hundredth) + edge_ms);
            }
            Op::ForgetBefore { before_ms } => self.forget_until(newest_ms - before_ms),
            Op::Take { units } => self.take_newest(units),
            Op::TakePart { hundredth } => self.take_newest(self.units() / 100 * hundredth),
            Op::HoldBack { hundredth, edge_ms } => self.hold_back(self.run_ms(hundredth) + edge_ms),
            Op::MoveBack { ms } => {
                self.log.move_back(ms);
                let moved = std::mem::take(&mut self.map);
                self.map = moved.into_iter().map(|(run_ms, count)| (run_ms - ms, count)).collect();
            }
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let expected: Vec<(i64, u64)> = self.map.iter().map(|(&ms, &count)| (ms, count)).collect();
        prop_assert_eq!(runs(&self.log), expected);
        prop_assert_eq!(self.log.is_empty(), self.map.is_empty());
        prop_assert_eq!(self.log.units(), self.units());
        prop_assert_eq!(self.log.newest_ms(), self.map.keys().next_back().copied());
        for hundredth in [0, 1, 13, 50, 87, 99, 100] {
            let time_ms = self.run_ms(hundredth);
            for time_ms in [time_ms - 1, time_ms, time_ms + 1] {
                let until: u64 = self.map.range(..=time_ms).map(|(_, count)| count).sum();
                prop_assert_eq!(self.log.units_until(time_ms), until, "until {}", time_ms);
            }
            // The first and the last unit of a run, and the one after it.
            let until: u64 = self.map.range(..=time_ms).map(|(_, count)| count).sum();
            let before: u64 = self.map.range(..time_ms).map(|(_, count)| count).sum();
            for unit in [before + 1, until, until + 1] {
                prop_assert_eq!(self.log.time_of_unit(unit), self.time_of_unit(unit), "{}", unit);
            }
        }
        Ok(())
    }

    /// The time of the `unit`-th oldest unit; of the newest if there are fewer.
    fn time_of_unit(&self, unit: u64) -> Option<i64> {
        let mut units = 0;
        let found = self.map.iter().find(|&(_, &count)| {
            units += count;
            units >= unit
        });
        found.or(self.map.last_key_value()).map(|(&time_ms, _)| time_ms)
    }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn a_log_equals_a_sorted_map(ops in prop::collection::vec(op(), 1..40)) {
        let mut twin = Twin::default();
        for (index, &op) in ops.iter().enumerate() {
            twin.play(op);
            let checked = twin.check();
            checked.map_err(|e| TestCaseError::fail(format!("entry {index}, {op:?}: {e}")))?;
        }
    }
}

/// A reproducible row of numbers below `bound`: a linear congruence, its high bits.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |bound| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    }
}

/// What an allocator with classes of 16 bytes gives for a block.
fn usable(bytes: &Vec<u8>) -> usize {
    bytes.capacity().next_multiple_of(16)
}

#[test]
fn hits_spread_over_a_day_take_at_most_four_bytes_each() {
    for seed in 0..5 {
        let mut next = random(seed);
        let day_ms = 24 * 3600 * 1000;
        let mut times: Vec<i64> = (0..70_000).map(|_| next(day_ms) as i64).collect();
        times.sort_unstable();
        let mut log = HitLog::default();
        times.iter().for_each(|&time_ms| log.add(Run { time_ms, count: 1 }));
        assert_eq!(log.units(), 70_000);
        let bytes = log.heap_bytes(usable);
        assert!(bytes <= 4 * 70_000, "{bytes} bytes for 70,000 hits");
    }
}

#[test]
fn thousands_of_hits_a_second_take_little_more_than_a_byte_each() {
    for a_second in [3_000, 5_000, 8_000] {
        let mut next = random(a_second);
        let mut log = HitLog::default();
        let mut times: Vec<i64> = (0..a_second * 60).map(|_| next(60_000) as i64).collect();
        times.sort_unstable();
        times.iter().for_each(|&time_ms| log.add(Run { time_ms, count: 1 }));
        let bytes = log.heap_bytes(usable) as u64;
        assert!(bytes * 10 <= 12 * a_second * 60, "{bytes} bytes at {a_second} a second");
    }
}

#[test]
fn the_memory_of_forgotten_hits_comes_back() {
    let mut log = HitLog::default();
    let mut next = random(1);
    let mut time_ms = 0;
    // A window of 100,000 hits that moves on for ten times as long.
    for hit in 0..1_000_000 {
        time_ms += 1 + next(2000) as i64;
        log.add(Run { time_ms, count: 1 });
        if hit > 100_000 {
            log.forget_until(time_ms - 100_000_000);
        }
    }
    let bytes = log.heap_bytes(usable);
    assert!(log.units() < 110_000);
    assert!(bytes <= 4 * 110_000, "{bytes} bytes for {} hits", log.units());
}

const MILLION: u64 = 1_000_000;

/// A million single hits, a few ms apart.
fn million() -> HitLog {
    let mut log = HitLog::default();
    let mut next = random(3);
    let mut time_ms = 0;
    for _ in 0..MILLION {
        time_ms += 1 + next(9) as i64;
        log.add(Run { time_ms, count: 1 });
    }
    log
}

/// The shortest of some repetitions, so that what else the machine does is not counted.
fn fastest<T>(mut prepare: impl FnMut() -> T, mut run: impl FnMut(&mut T)) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..7 {
        let mut value = prepare();
        let start = Instant::now();
        run(black_box(&mut value));
        shortest = shortest.min(start.elapsed());
    }
    shortest
}

/// The longest that an operation on `log`, of a million hits, may take.
fn longest(log: &HitLog) -> Duration {
    if !cfg!(debug_assertions) {
        return Duration::from_millis(1);
    }
    let walk = |log: &mut &HitLog| log.for_each_run(|run| _ = black_box(run));
    fastest(|| log, walk) / 5
}

fn assert_fast(what: &str, taken: Duration, longest: Duration) {
    assert!(taken < longest, "{what} takes {taken:?}, more than {longest:?}");
}

#[test]
fn no_operation_on_a_million_hits_is_slow() {
    let log = million();
    let longest = longest(&log);
    let newest_ms = log.newest_ms().unwrap_or_default();
    let on_log = |what: &str, mut run: Box<dyn FnMut(&mut HitLog)>| {
        assert_fast(what, fastest(|| log.clone(), |log| run(log)), longest);
    };
    on_log("forgetting all", Box::new(move |log| log.forget_until(newest_ms)));
    on_log("forgetting half", Box::new(move |log| log.forget_until(newest_ms / 2)));
    on_log("forgetting one", Box::new(|log| log.forget_until(10)));
    on_log("adding", Box::new(move |log| log.add(Run { time_ms: newest_ms + 1, count: 1 })));
    for part in [1, 4, 8] {
        let time_ms = newest_ms / 9 * part;
        let add = move |log: &mut HitLog| log.add(Run { time_ms, count: 1 });
        on_log("adding before the end", Box::new(add));
        let until = move |log: &mut HitLog| _ = black_box(log.units_until(time_ms));
        on_log("counting", Box::new(until));
        let nth = MILLION / 9 * part as u64;
        let time_of = move |log: &mut HitLog| _ = black_box(log.time_of_unit(nth));
        on_log("finding a unit", Box::new(time_of));
    }
    on_log("taking one", Box::new(|log| log.take_newest(1)));
    on_log("taking half", Box::new(|log| log.take_newest(MILLION / 2)));
    on_log("taking all", Box::new(|log| log.take_newest(MILLION)));
    on_log("moving back", Box::new(|log| log.move_back(1000)));
    on_log("summing up", Box::new(|log| _ = black_box(log.units())));
}

#[test]
fn the_calls_after_a_million_were_forgotten_are_fast_too() {
    let mut log = million();
    let longest = longest(&log);
    let newest_ms = log.newest_ms().unwrap_or_default();
    log.forget_until(newest_ms);
    // The memory is given back by the calls that follow, a little by each.
    for time_ms in newest_ms + 1..=newest_ms + 100 {
        let add = fastest(|| log.clone(), |log| log.add(Run { time_ms, count: 1 }));
        assert_fast("adding after a million were forgotten", add, longest);
        log.add(Run { time_ms, count: 1 });
    }
    assert!(log.allocations() < 10, "{} allocations for 100 hits", log.allocations());
    let bytes = log.heap_bytes(usable);
    assert!(bytes < 2000, "{bytes} bytes for 100 hits");
}

#[test]
fn no_call_on_a_million_hits_is_slow() {
    let log = million();
    let longest = longest(&log);
    let newest_ms = log.newest_ms().unwrap_or_default();
    let quota = Quota { limit: MILLION, window_ms: newest_ms as u64 + 10 };
    let state = State { quota, at_us: newest_ms as u64 * 1000, log };
    let full_us = state.at_us;
    let empty_us = full_us + quota.window_ms * 1000;
    let calls = [
        ("a denial", full_us, Request::ONE),
        ("a look", full_us + 1_000_000, Request::look(5)),
        ("a call that takes", full_us + quota.window_ms * 500, Request::ONE),
        ("a call that forgets all", empty_us, Request::ONE),
        ("a late hit", full_us, Request { resolution_ms: 60_000, force: true, ..Request::ONE }),
    ];
    for (what, us, request) in calls {
        let taken = fastest(
            || state.clone(),
            |state| {
                let decided =
                    SlidingWindow::decide(&quota, Some(state), &request, Clock::Server(us));
                if let Ok((_, Some(change))) = decided {
                    SlidingWindow::apply(state, &change);
                }
            },
        );
        assert_fast(what, taken, longest);
    }
    let refund = |state: &mut State| {
        if let (_, Some(change)) = SlidingWindow::refund(state, MILLION, Clock::Server(full_us)) {
            SlidingWindow::apply(state, &change);
        }
    };
    assert_fast("a refund of all", fastest(|| state.clone(), refund), longest);
}

/// Each hit older than all before it, as callers make them who lower their resolution call by call.
#[test]
fn hits_added_from_the_newest_on_fill_their_blocks() {
    const HITS: i64 = 20_000;
    let mut log = HitLog::default();
    for hit in 0..HITS {
        log.add(Run { time_ms: HITS - hit, count: 1 });
    }
    assert_eq!(log.units(), HITS.unsigned_abs());
    assert_eq!(log.time_of_unit(1), Some(1));
    let bytes = log.heap_bytes(usable);
    assert!(bytes <= 4 * 20_000, "{bytes} bytes for {HITS} hits");
    assert!(
        (20_000 / 512..=20_000 / 100).contains(&log.allocations()),
        "{} blocks",
        log.allocations()
    );
}

/// However often and however far the clock is set back, times stay what they are.
#[test]
fn steps_back_do_not_add_up() {
    const FAR_MS: i64 = 1 << 53;
    let mut log = HitLog::default();
    for _ in 0..2000 {
        log.add(Run { time_ms: FAR_MS, count: 1 });
        log.move_back(FAR_MS);
        assert_eq!(log.newest_ms(), Some(0));
        assert_eq!(log.units_until(-1), 0);
        log.forget_until(0);
        assert!(log.is_empty());
    }
}
