//! What a user reads, without a server: decisions as the integers of each kind of reply, keys as
//! `RL.INFO` reports them, and arguments as errors repeat them. Tables, number by number.

use redis_rl::algorithm::bucket::{self, Rate};
use redis_rl::algorithm::hit_log::{HitLog, Run};
use redis_rl::algorithm::leaky_bucket::LeakyBucket;
use redis_rl::algorithm::sliding_window::{self, SlidingWindow};
use redis_rl::algorithm::token_bucket::TokenBucket;
use redis_rl::algorithm::{Clock, Decision, Verdict, Wait};
use redis_rl::error::{Error, Shown};
use redis_rl::reply::{self, Reply};
use redis_rl::report::{Report, Value};

/// 3 of 7 units remain.
const ALLOWED: Decision = Decision {
    verdict: Verdict::Allowed,
    limit: 7,
    remaining: 3,
    retry_after: Wait::Us(0),
    reset_after_us: 2_000_001,
    delay_us: 1_999_000,
};

fn denied(retry_after: Wait) -> Decision {
    Decision { verdict: Verdict::Denied, retry_after, delay_us: 0, ..ALLOWED }
}

#[test]
fn waits_in_ms_are_rounded_up_and_never_is_minus_one() {
    assert_eq!(reply::elements(&ALLOWED), [1, 7, 3, 0, 2001, 1999]);
    assert_eq!(reply::elements(&denied(Wait::Us(1))), [0, 7, 3, 1, 2001, 0]);
    assert_eq!(reply::elements(&denied(Wait::Us(5000))), [0, 7, 3, 5, 2001, 0]);
    assert_eq!(reply::elements(&denied(Wait::Never)), [0, 7, 3, -1, 2001, 0]);
    let shadowed = Decision { verdict: Verdict::Shadowed, ..denied(Wait::Us(1001)) };
    assert_eq!(reply::elements(&shadowed), [2, 7, 3, 2, 2001, 0]);
}

#[test]
fn only_what_holds_requests_tells_a_delay() {
    let (tokens, hits) = (Reply::of::<TokenBucket>(&ALLOWED), Reply::of::<SlidingWindow>(&ALLOWED));
    assert_eq!(tokens.as_slice(), [1, 7, 3, 0, 2001]);
    assert_eq!(hits.as_slice(), [1, 7, 3, 0, 2001]);
    assert_eq!(Reply::of::<LeakyBucket>(&ALLOWED).as_slice(), [1, 7, 3, 0, 2001, 1999]);
}

#[test]
fn a_throttle_answers_in_seconds_rounded_up() {
    // Allowed, though the next would have to wait: redis-cell says -1.
    let waiting = Decision { retry_after: Wait::Us(7), ..ALLOWED };
    for allowed in [ALLOWED, waiting] {
        assert_eq!(reply::throttle(&allowed), [0, 7, 3, -1, 3]);
    }
    assert_eq!(reply::throttle(&denied(Wait::Us(1))), [1, 7, 3, 1, 3]);
    assert_eq!(reply::throttle(&denied(Wait::Us(60_000_000))), [1, 7, 3, 60, 3]);
    assert_eq!(reply::throttle(&denied(Wait::Us(60_000_001))), [1, 7, 3, 61, 3]);
    assert_eq!(reply::throttle(&denied(Wait::Never)), [1, 7, 3, -1, 3]);
}

#[test]
fn of_several_waits_the_longest_is_told_and_never_beats_all() {
    let (short, long) = (denied(Wait::Us(10_001)), denied(Wait::Us(20_000)));
    let never = denied(Wait::Never);
    assert_eq!(reply::longest([]), 0);
    assert_eq!(reply::longest([&ALLOWED]), 0);
    assert_eq!(reply::longest([&ALLOWED, &short]), 11);
    assert_eq!(reply::longest([&long, &short, &ALLOWED]), 20);
    assert_eq!(reply::longest([&long, &never, &short]), -1);
}

#[test]
fn after_a_wait_all_waits_are_shorter_by_it() {
    let left = Decision { retry_after: Wait::Us(500), ..ALLOWED }.after_waiting(2000);
    assert_eq!(left.retry_after, Wait::Us(0));
    assert_eq!((left.reset_after_us, left.delay_us), (1_998_001, 1_997_000));
    assert_eq!((left.verdict, left.limit, left.remaining), (Verdict::Allowed, 7, 3));
    assert_eq!(denied(Wait::Us(2001)).after_waiting(2000).retry_after, Wait::Us(1));
    assert_eq!(denied(Wait::Never).after_waiting(2000).retry_after, Wait::Never);
}

/// A bucket of 10 with 2.5 units a second, of which 3.5 units are gone at 8 s.
fn bucket_state() -> bucket::State {
    let rate = Rate { mantissa: 25, decimals: 1 };
    let quota = bucket::Quota { capacity: 10, rate, period_ms: 1000 };
    bucket::State { quota, level: 35_000_000, at_us: 8_000_999 }
}

/// What a report says, as one line.
fn line<L: Report>(state: &L::State, clock: Clock) -> String {
    let fields = L::report(state, clock);
    let shown = fields.iter().map(|(name, value)| match value {
        Value::Text(text) => format!("{name} '{text}'"),
        Value::Integer(number) => format!("{name} {number}"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[test]
fn a_bucket_is_reported_as_it_was_typed_and_where_it_stands() {
    let at_once = Clock::Server(8_000_999);
    let limit = "capacity 10, rate '2.5', period-ms 1000";
    assert_eq!(
        line::<TokenBucket>(&bucket_state(), at_once),
        format!("type 'tokenbucket', {limit}, level 6, reset-after-ms 1400, last-used-ms 8000")
    );
    assert_eq!(
        line::<LeakyBucket>(&bucket_state(), at_once),
        format!("type 'leaky', {limit}, level 4, reset-after-ms 1400, last-used-ms 8000")
    );
    // A second later time has brought 2.5 units; before the last write it brings none.
    let later = line::<LeakyBucket>(&bucket_state(), Clock::Server(9_000_999));
    assert_eq!(
        later,
        format!("type 'leaky', {limit}, level 1, reset-after-ms 400, last-used-ms 8000")
    );
    let earlier = line::<TokenBucket>(&bucket_state(), Clock::Caller(1));
    assert_eq!(earlier, line::<TokenBucket>(&bucket_state(), at_once));
    // In debt.
    let debt = bucket::State { level: 10 * bucket_state().level, ..bucket_state() };
    assert!(line::<TokenBucket>(&debt, at_once).contains("level -25, reset-after-ms 14000,"));
}

#[test]
fn a_window_is_reported_with_the_units_that_count() {
    let mut log = HitLog::default();
    log.add(Run { time_ms: 5000, count: 2 });
    log.add(Run { time_ms: 6000, count: 3 });
    let quota = sliding_window::Quota { limit: 9, window_ms: 2000 };
    let state = sliding_window::State { quota, at_us: 6_000_000, log };
    assert_eq!(
        line::<SlidingWindow>(&state, Clock::Server(6_500_000)),
        "type 'sliding', limit 9, window-ms 2000, level 5, reset-after-ms 1500, last-used-ms 6000"
    );
    let later = line::<SlidingWindow>(&state, Clock::Server(7_000_000));
    assert!(later.contains("level 3, reset-after-ms 1000,"), "{later}");
}

#[test]
fn a_rate_is_shown_as_a_decimal() {
    let shown = |mantissa, decimals| Rate { mantissa, decimals }.to_string();
    assert_eq!(shown(10, 0), "10");
    assert_eq!(shown(25, 1), "2.5");
    assert_eq!(shown(1005, 3), "1.005");
    assert_eq!(shown(1, 9), "0.000000001");
}

#[test]
fn an_error_repeats_what_can_be_shown_of_an_argument() {
    assert_eq!(Error::NoValue("PER").to_string(), "ERR PER needs a value after it");
    let options = "COST, PEEK";
    let text = |word: &[u8]| Error::UnknownOption { word: Shown::new(word), options }.to_string();
    assert_eq!(text(b"a b"), "ERR unknown option 'a b', expected one of COST, PEEK");
    assert_eq!(text(b"\r\n\xffx"), "ERR unknown option '???x', expected one of COST, PEEK");
    let long = [b'a'; Shown::MAX + 1];
    let shown = "a".repeat(Shown::MAX);
    assert_eq!(text(&long), format!("ERR unknown option '{shown}', expected one of COST, PEEK"));
    assert_eq!(format!("{:?}", Shown::new(b"x\n")), "\"x?\"");
}
