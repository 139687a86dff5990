//! The words of RL.THROTTLE, which are those of redis-cell: integers in order, nothing else.

use redis_rl::algorithm::Request;
use redis_rl::args::{self, Call};
use redis_rl::error::Error;

use super::{NO_INTEGERS, bucket_quota, words};

#[test]
fn a_burst_is_one_less_than_the_capacity() {
    for (line, capacity, rate, period_ms, cost) in [
        ("15 30 60", 16, 30, 60_000, 1),
        ("15 30 60 1", 16, 30, 60_000, 1),
        ("0 1 1 5", 1, 1, 1000, 5),
        ("15 30 60 0", 16, 30, 60_000, 0),
        (
            "9007199254740991 1000000000 315360000 9007199254740992",
            1 << 53,
            1_000_000_000,
            315_360_000_000,
            1 << 53,
        ),
    ] {
        let quota = bucket_quota(capacity, rate, 0, period_ms);
        let request = Request { cost, ..Request::ONE };
        assert_eq!(
            args::throttle("rl.throttle", words(line)),
            Ok(Call { quota, request, at_ms: None, waits: false }),
            "{line}"
        );
    }
}

#[test]
fn integers_are_digits_in_their_range() {
    for (line, error, outside) in [
        ("? 30 60", Error::MaxBurst, &["9007199254740992"][..]),
        ("15 ? 60", Error::ThrottleCount, &["0", "1000000001"]),
        ("15 30 ?", Error::ThrottlePeriod, &["0", "315360001"]),
        ("15 30 60 ?", Error::Quantity, &[]),
    ] {
        let with = |value: &[u8]| {
            let words = words(line);
            args::throttle(
                "rl.throttle",
                words.into_iter().map(|word| if word == b"?" { value } else { word }),
            )
        };
        let bad = NO_INTEGERS.into_iter().chain(outside.iter().map(|word| word.as_bytes()));
        for value in bad {
            let shown = String::from_utf8_lossy(value);
            assert_eq!(with(value), Err(error), "{line} with {shown}");
        }
    }
}

#[test]
fn words_are_neither_missing_nor_too_many() {
    assert_eq!(args::throttle("rl.throttle", words("")), Err(Error::MaxBurst));
    assert_eq!(args::throttle("rl.throttle", words("15")), Err(Error::ThrottleCount));
    assert_eq!(args::throttle("rl.throttle", words("15 30")), Err(Error::ThrottlePeriod));
    let arity = Err(Error::Arity("rl.throttle"));
    assert_eq!(args::throttle("rl.throttle", words("15 30 60 1 1")), arity);
    let compatible = args::throttle("cl.throttle", words("15 30 60 1 1"));
    assert_eq!(compatible, Err(Error::Arity("cl.throttle")));
    // It has no options.
    assert_eq!(args::throttle("rl.throttle", words("15 30 60 PEEK")), Err(Error::Quantity));
    assert_eq!(args::throttle("rl.throttle", words("15 30 60 1 PEEK")), arity);
}
