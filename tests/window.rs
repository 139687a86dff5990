//! What a sliding window does in corners that random histories seldom meet: hits younger than one
//! that is added, the edge of a refund, and what it says of its memory.

use redis_rl::algorithm::hit_log::{HitLog, Run};
use redis_rl::algorithm::sliding_window::{
    Change, Quota, SlidingWindow, State, newest_possible_ms,
};
use redis_rl::algorithm::{Clock, Decision, Limiter, Request, Verdict, Wait};
use redis_rl::limits::MAX_DURATION_MS;

const HOUR_MS: u64 = 3_600_000;
const NOW_MS: u64 = 1_000;
const NOW: Clock = Clock::Server(NOW_MS * 1000);

fn quota(limit: u64) -> Quota {
    Quota { limit, window_ms: HOUR_MS }
}

/// A state with these hits, written at a second after the epoch.
fn state(limit: u64, runs: &[(i64, u64)]) -> State {
    let mut log = HitLog::default();
    runs.iter().for_each(|&(time_ms, count)| log.add(Run { time_ms, count }));
    State { quota: quota(limit), at_us: NOW_MS * 1000, log }
}

fn decide(state: &State, request: &Request, clock: Clock) -> (Decision, Option<Change>) {
    SlidingWindow::decide(&state.quota, Some(state), request, clock).expect("a decision")
}

/// How long after `now_ms` what came at `time_ms` leaves.
fn leaves_us(time_ms: u64, now_ms: u64) -> u64 {
    (time_ms + HOUR_MS - now_ms) * 1000
}

/// Hits of coarse resolutions lie ahead of the clock. One that is added before them is the oldest
/// then, and each of them comes later by its units.
#[test]
fn a_hit_may_be_added_before_younger_ones() {
    let minutes = state(4, &[(60_000, 1), (120_000, 1)]);
    let ask = |cost| Request { cost, ..Request::ONE };
    let (one, _) = decide(&minutes, &ask(1), NOW);
    assert_eq!((one.retry_after, one.remaining), (Wait::Us(0), 1));
    // Of 2 + 2 units two must leave before two more come: those that were just added.
    let (two, _) = decide(&minutes, &ask(2), NOW);
    assert_eq!(two.retry_after, Wait::Us(leaves_us(NOW_MS, NOW_MS)));
    assert_eq!(two.reset_after_us, leaves_us(120_000, NOW_MS));
    // Of 2 + 3 units three must leave before one comes: the two that were just added, and one more.
    let later = state(3, &[(60_000, 1), (90_000, 1), (120_000, 1)]);
    let (over, _) = decide(&later, &Request { force: true, ..ask(2) }, NOW);
    assert_eq!(over.retry_after, Wait::Us(leaves_us(60_000, NOW_MS)));
}

/// The same where the clock was set back, which takes the hits along.
#[test]
fn a_hit_is_added_before_younger_ones_after_a_step_back() {
    let set_back_ms = 500;
    let minutes = state(2, &[(60_000, 1)]);
    let clock = Clock::Server((NOW_MS - set_back_ms) * 1000);
    let (decision, _) = decide(&minutes, &Request::ONE, clock);
    assert_eq!(decision.remaining, 0);
    // The next waits for the one that was added, and not for that of a minute.
    let hour_us = leaves_us(NOW_MS, NOW_MS);
    assert_eq!(decision.retry_after, Wait::Us(hour_us));
    assert_eq!(decision.reset_after_us, leaves_us(60_000, NOW_MS));
    // But it comes after a hit that was made before it, at 600 ms by the clock as it was.
    let one_is_older = state(3, &[(600, 1), (60_000, 1)]);
    let (decision, change) = decide(&one_is_older, &Request::ONE, clock);
    assert_eq!(decision.retry_after, Wait::Us(leaves_us(600, NOW_MS)));
    assert_eq!(decision.reset_after_us, leaves_us(60_000, NOW_MS));
    assert_eq!(change.map(|change| change.move_back_ms), Some(set_back_ms));
}

/// A refund that leaves a window full leaves it denying.
#[test]
fn a_refund_down_to_the_limit_makes_no_room() {
    let over = state(2, &[(900, 1), (950, 1), (1_000, 1)]);
    for (units, verdict, remaining) in [(1, Verdict::Denied, 0), (2, Verdict::Allowed, 1)] {
        let (decision, change) = SlidingWindow::refund(&over, units, NOW);
        assert_eq!((decision.verdict, decision.remaining), (verdict, remaining), "{units} back");
        assert_eq!(change.map(|change| change.take_newest), Some(units));
    }
}

#[test]
fn the_level_is_what_counts_at_the_time() {
    let hits = state(9, &[(100, 2), (200, 3)]);
    let level_at = |ms: u64| hits.units_at(Clock::Caller(ms * 1000));
    assert_eq!(level_at(NOW_MS), 5);
    assert_eq!(level_at(HOUR_MS + 99), 5);
    assert_eq!(level_at(HOUR_MS + 100), 3);
    assert_eq!(level_at(HOUR_MS + 200), 0);
}

/// Two of the longest durations: a resolution, and as much for steps of the clock.
#[test]
fn hits_lie_ahead_of_the_last_write_within_bounds() {
    let at_us = 5_000_999;
    let longest_ms = i64::try_from(MAX_DURATION_MS).expect("a duration");
    assert_eq!(newest_possible_ms(at_us), 5_000 + 2 * longest_ms);
}

/// Many hits far apart, which fill blocks.
fn long(hits: i64) -> State {
    let runs: Vec<(i64, u64)> = (0..hits).map(|hit| (hit * 1_000_000, 1_000)).collect();
    state(1 << 40, &runs)
}

fn heap_bytes(state: &State) -> usize {
    state.log.heap_bytes(Vec::capacity)
}

/// A call is asked for memory where its change takes a block more, and only there: what it forgets
/// gives way to what it adds.
#[test]
fn memory_is_asked_for_where_a_change_takes_more() {
    let mut grown = 0;
    let mut state = long(40);
    for hit in 40..400 {
        let add = Some(Run { time_ms: hit * 1_000_000, count: 1_000 });
        let change = Change { add, ..SlidingWindow::no_change(&state) };
        let before = heap_bytes(&state);
        let grows = SlidingWindow::grows(&state, &change);
        let most = SlidingWindow::bytes_after(&state, &change);
        SlidingWindow::apply(&mut state, &change);
        assert!(grows || heap_bytes(&state) <= before, "hit {hit}");
        assert!(u64::try_from(heap_bytes(&state)).expect("bytes") <= most, "hit {hit}");
        grown += u32::from(grows);
    }
    assert!((1..40).contains(&grown), "{grown} of 360 hits");
}

#[test]
fn what_is_forgotten_gives_way() {
    // So many hits that one more takes a block.
    let (state, add) = (40..400)
        .map(|hits| (long(hits), Run { time_ms: hits * 1_000_000, count: 1_000 }))
        .find(|(state, run)| {
            let change = Change { add: Some(*run), ..SlidingWindow::no_change(state) };
            SlidingWindow::grows(state, &change)
        })
        .expect("a block is full at some time");
    let newest_ms = state.log.newest_ms().expect("hits");
    let change = |forget_until_ms, move_back_ms| Change {
        forget_until_ms,
        move_back_ms,
        add: Some(add),
        ..SlidingWindow::no_change(&state)
    };
    let all_gone = change(Some(newest_ms), 0);
    assert!(!SlidingWindow::grows(&state, &all_gone));
    // After a step back the hits have other times than the cut: nothing gives way.
    assert!(SlidingWindow::grows(&state, &change(Some(newest_ms), 1)));
    let [none, some] = [change(None, 0), all_gone].map(|change| {
        let bytes = SlidingWindow::bytes_after(&state, &change);
        usize::try_from(bytes).expect("bytes")
    });
    assert!(heap_bytes(&state) <= none && some < none, "{some} and {none} bytes");
}
