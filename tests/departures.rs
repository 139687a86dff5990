//! The queue of those who wait, against a sorted list, and the clock they wait by.

use proptest::prelude::*;
use redis_rl::departures::{Departures, Offset};

/// What may happen to a queue.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// One more who waits so many µs from now on.
    Add(u64),
    /// One of those who wait leaves, if it still does.
    Take(u64),
    /// So many µs pass, and all leave who are due.
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..20_u64).prop_map(Step::Add),
        (0..100_u64).prop_map(Step::Take),
        (0..10_u64).prop_map(Step::Pass),
    ]
}

proptest! {
    /// Whoever is due earlier leaves first, those due together in the order of their coming, and
    /// nobody early or twice.
    #[test]
    fn all_leave_in_order(steps in prop::collection::vec(step(), 0..200)) {
        let mut queue = Departures::new();
        let mut model: Vec<(u64, u64)> = Vec::new();
        let (mut now_us, mut next_key) = (0, 0);
        for step in steps {
            match step {
                Step::Add(wait_us) => {
                    queue.add(next_key, now_us + wait_us, next_key * 2);
                    model.push((now_us + wait_us, next_key));
                    // A stable sort: who came later stays behind those who are due with it.
                    model.sort_by_key(|&(due_us, _)| due_us);
                    next_key += 1;
                }
                Step::Take(key) => {
                    let place = model.iter().position(|&(_, waits)| waits == key);
                    let taken = place.map(|place| model.remove(place).1 * 2);
                    prop_assert_eq!(queue.take(key), taken);
                }
                Step::Pass(us) => {
                    now_us += us;
                    while model.first().is_some_and(|&(due_us, _)| due_us <= now_us) {
                        let (_, key) = model.remove(0);
                        prop_assert_eq!(queue.pop_due(now_us), Some((key, key * 2)));
                    }
                    prop_assert_eq!(queue.pop_due(now_us), None);
                }
            }
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(queue.is_empty(), model.is_empty());
            prop_assert_eq!(queue.next_us(), model.first().map(|&(due_us, _)| due_us));
        }
    }

    /// Two readings of two clocks tremble, and the order of requests that are 1 µs apart does not.
    #[test]
    fn the_order_of_requests_does_not_tremble(
        gaps in prop::collection::vec((1..50_u64, 0..=Offset::TREMOR_US, 0..500_u64), 1..100),
    ) {
        let mut offset = Offset::new();
        let mut server_us = 5_000_000;
        let mut last_us = 0;
        for (gap_us, tremor_us, age_us) in gaps {
            server_us += gap_us;
            let read_us = server_us + age_us;
            let steady_us = offset.steady_us(server_us, read_us, read_us + 7_000_000 + tremor_us);
            prop_assert!(steady_us > last_us, "{steady_us} {last_us}");
            let right_us = server_us + 7_000_000;
            prop_assert!((right_us..=right_us + Offset::TREMOR_US).contains(&steady_us));
            last_us = steady_us;
        }
    }
}

/// A server's clock that was set, between two calls or between a call and the reading, changes
/// nothing of the clock by which all wait.
#[test]
fn a_clock_that_is_set_moves_nobody() {
    const HOUR_US: u64 = 3_600_000_000;
    let mut offset = Offset::new();
    assert_eq!(offset.steady_us(2 * HOUR_US, 2 * HOUR_US + 5, 1_000_005), 1_000_000);
    // Set back, and forward, before the call.
    assert_eq!(offset.steady_us(HOUR_US, HOUR_US, 2_000_000), 2_000_000);
    assert_eq!(offset.steady_us(9 * HOUR_US, 9 * HOUR_US + 1, 3_000_001), 3_000_000);
    // Set back, and forward, between the call and the reading: held from the reading on.
    assert_eq!(offset.steady_us(9 * HOUR_US, 8 * HOUR_US, 4_000_000), 4_000_000);
    assert_eq!(offset.steady_us(8 * HOUR_US, 9 * HOUR_US, 5_000_000), 5_000_000);
    // A machine that was started with its clock at 0.
    let mut offset = Offset::new();
    assert_eq!(offset.steady_us(0, 3, 10), 7);
    assert_eq!(offset.steady_us(HOUR_US, HOUR_US, 11), 11);
    assert_eq!(offset.steady_us(0, HOUR_US, 12), 12);
}
