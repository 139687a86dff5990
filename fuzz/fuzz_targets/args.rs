//! Words as a client may send them, to every parser: what is accepted is in its range, and every
//! refusal is one line of printable ASCII.
//!
//! The words are the input, cut at each 0xff; the first byte chooses the parser. fuzz/args.dict has
//! the words that mean something.

#![no_main]

use std::fmt::Display;

use libfuzzer_sys::fuzz_target;
use redis_rl::algorithm::bucket::Quota;
use redis_rl::algorithm::{Request, sliding_window};
use redis_rl::args::rules::{Rule, numkeys, rules};
use redis_rl::args::{self, Call};
use redis_rl::limits;
use redis_rl::watch::args::{self as operators, Log};

fuzz_target!(|data: &[u8]| {
    let Some((parser, text)) = data.split_first() else { return };
    let words = || text.split(|&byte| byte == 0xff);
    match parser % 12 {
        0 => check(args::token_bucket(words()), bucket),
        1 => check(args::leaky_bucket(words()), bucket),
        2 => check(args::sliding_window(words()), window),
        3 => check(args::throttle("rl.throttle", words()), bucket),
        4 => check(args::peek(words()), |call| {
            request(&call.request);
            time(call.at_ms);
        }),
        5 => check(args::refund(words()), |(back, at_ms)| {
            units(back, 1);
            time(at_ms);
        }),
        6 => check(args::info(words()), time),
        7 => check(operators::top_denied(words()), |call| {
            assert!(limits::MAX_TOPDENIED_SIZE >= size(call.count));
        }),
        8 => check(operators::log(words()), |call| {
            assert!(!matches!(call, Log::Get(count) if size(count) > limits::MAX_LOG_LEN));
        }),
        9 => several(text),
        10 => check(operators::stats(words()), |_| ()),
        _ => check(args::throttle("cl.throttle", words()), bucket),
    }
});

fn check<T, E: Display>(parsed: Result<T, E>, accepted: impl FnOnce(T)) {
    match parsed {
        Ok(call) => accepted(call),
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("ERR "), "{line:?}");
            assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line:?}");
            assert!(line.len() < 300, "{line:?}");
        }
    }
}

/// As many rules as the number in front says.
fn several(text: &[u8]) {
    let mut words = text.split(|&byte| byte == 0xff);
    check(numkeys(words.next(), 1000), |keys| {
        check(rules(keys, words), |rules| {
            assert_eq!(rules.rules.len(), keys);
            time(rules.at_ms);
            for rule in rules.rules {
                let (request, waits) = match rule {
                    Rule::TokenBucket(call) | Rule::LeakyBucket(call) => {
                        bucket(call);
                        (call.request, call.waits)
                    }
                    Rule::SlidingWindow(call) => {
                        window(call);
                        (call.request, call.waits)
                    }
                };
                assert!(!request.force && !waits);
            }
        });
    });
}

fn bucket(call: Call<Quota>) {
    units(call.quota.capacity, 1);
    assert!(call.quota.rate.decimals <= limits::MAX_DECIMALS);
    assert!((1..=limits::MAX_MANTISSA).contains(&call.quota.rate.mantissa));
    duration(call.quota.period_ms);
    asked(&call);
}

fn window(call: Call<sliding_window::Quota>) {
    units(call.quota.limit, 1);
    duration(call.quota.window_ms);
    asked(&call);
}

/// What the options of any limiter say.
fn asked<Q>(call: &Call<Q>) {
    request(&call.request);
    time(call.at_ms);
    if call.waits {
        let Request { max_delay_ms, peek, shadow, force, .. } = call.request;
        assert!(max_delay_ms.is_some() && !peek && !shadow && !force && call.at_ms.is_none());
    }
}

fn request(request: &Request) {
    units(request.cost, 0);
    units(request.reserve, 0);
    duration(request.resolution_ms);
    assert!(request.max_delay_ms.is_none_or(|delay_ms| delay_ms <= limits::MAX_DURATION_MS));
    let bound = request.peek || request.shadow || request.reserve > 0;
    assert!(!request.force || !bound && request.max_delay_ms.is_none());
}

fn units(units: u64, least: u64) {
    assert!((least..=limits::MAX_UNITS).contains(&units));
}

fn time(at_ms: Option<u64>) {
    assert!(at_ms.is_none_or(|at_ms| at_ms <= limits::MAX_TIME_MS));
}

fn size(count: usize) -> u64 {
    assert!(count >= 1);
    u64::try_from(count).expect("a size")
}

fn duration(ms: u64) {
    assert!((limits::MIN_DURATION_MS..=limits::MAX_DURATION_MS).contains(&ms));
}
