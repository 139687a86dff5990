//! Runs of any size and number are what they are once they are packed.

use redis_rl::algorithm::hit_log::{HitLog, Run};

use super::model::window::runs;
use super::{Twin, random};

/// Counts and distances with each number of bits, the least and the greatest.
#[test]
fn runs_of_each_size_come_out_as_they_went_in() {
    let of_bits = |bits: u32| [1_u64 << bits, (1 << bits) | ((1 << bits) - 1)];
    for number in (0..64).flat_map(of_bits) {
        let count = number >> 1;
        let distance_ms = i64::try_from(number >> 2).unwrap_or_default();
        let mut log = HitLog::default();
        let mut expected = Vec::new();
        let mut time_ms = i64::MIN / 4;
        for run in 0..60 {
            let count = if run % 7 == 3 { count.max(1) } else { 1 };
            // Far apart only once, or the times would not fit.
            time_ms += if run == 20 { distance_ms.max(1) } else { 1 };
            log.add(Run { time_ms, count });
            expected.push((time_ms, count));
            assert_eq!(runs(&log), expected);
        }
        // Those beside the open run too are packed, once one comes before them.
        log.add(Run { time_ms: i64::MIN / 4, count: 1 });
        expected.insert(0, (i64::MIN / 4, 1));
        assert_eq!(runs(&log), expected);
    }
}

/// Each number of units is taken from a log of some blocks, so each end of a block is met.
#[test]
fn any_number_of_units_is_taken() {
    let mut twin = Twin::default();
    for second in 1..=1000 {
        twin.add(second * 1000, if second % 3 == 0 { 2 } else { 1 });
    }
    for units in 0..=twin.units() + 1 {
        let mut taken = Twin { log: twin.log.clone(), map: twin.map.clone() };
        taken.take_newest(units);
        taken.check().unwrap_or_else(|error| panic!("{units} units: {error}"));
        taken.add(2_000_000, 1);
        taken.check().unwrap_or_else(|error| panic!("{units} units, and one: {error}"));
    }
}

/// Likewise each number of runs is forgotten.
#[test]
fn any_number_of_runs_is_forgotten() {
    let mut twin = Twin::default();
    for second in 1..=1000 {
        twin.add(second * 1000, if second % 3 == 0 { 2 } else { 1 });
    }
    for second in 0..=1001 {
        for ms in [second * 1000 - 1, second * 1000] {
            let mut cut = Twin { log: twin.log.clone(), map: twin.map.clone() };
            cut.forget_until(ms);
            cut.check().unwrap_or_else(|error| panic!("until {ms}: {error}"));
        }
    }
}

/// Hits that come in no order, each before, after or among others.
#[test]
fn runs_are_added_in_any_order() {
    for most in [1, 300] {
        let mut next = random(most);
        let mut twin = Twin::default();
        for added in 0..4000 {
            twin.add(next(1 << 20) as i64 - (1 << 19), 1 + next(most));
            if added % 20 == 0 {
                twin.check().unwrap_or_else(|error| panic!("{added} added: {error}"));
            }
        }
    }
}
