//! Words as a client may send them, to every parser: what is accepted is in its range, and every
//! refusal is one line of printable ASCII.
//!
//! The words are the input, cut at each 0xff; the first byte chooses the parser.

#![no_main]

use std::fmt::Display;

use libfuzzer_sys::fuzz_target;
use redis_rl::algorithm::bucket::Quota;
use redis_rl::algorithm::{Request, sliding_window};
use redis_rl::args::rules::{Rule, numkeys, rules};
use redis_rl::args::{self, Call};
use redis_rl::limits;
use redis_rl::watch::args as operators;

fuzz_target!(|data: &[u8]| {
    let Some((parser, text)) = data.split_first() else { return };
    let words = || text.split(|&byte| byte == 0xff);
    match parser % 10 {
        0 => check(args::token_bucket(words()), bucket),
        1 => check(args::leaky_bucket(words()), bucket),
        2 => check(args::sliding_window(words()), window),
        3 => check(args::throttle("rl.throttle", words()), bucket),
        4 => check(args::peek(words()), |call| request(&call.request)),
        5 => check(args::refund(words()), |(back, _)| units(back, 1)),
        6 => check(args::info(words()), |_| ()),
        7 => check(operators::top_denied(words()), |_| ()),
        8 => check(operators::log(words()), |_| ()),
        _ => several(text),
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
            for rule in rules.rules {
                match rule {
                    Rule::TokenBucket(call) | Rule::LeakyBucket(call) => bucket(call),
                    Rule::SlidingWindow(call) => window(call),
                }
            }
        });
    });
}

fn bucket(call: Call<Quota>) {
    units(call.quota.capacity, 1);
    assert!(call.quota.rate.decimals <= limits::MAX_DECIMALS);
    assert!((1..=limits::MAX_MANTISSA).contains(&call.quota.rate.mantissa));
    duration(call.quota.period_ms);
    request(&call.request);
}

fn window(call: Call<sliding_window::Quota>) {
    units(call.quota.limit, 1);
    duration(call.quota.window_ms);
    request(&call.request);
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

fn duration(ms: u64) {
    assert!((limits::MIN_DURATION_MS..=limits::MAX_DURATION_MS).contains(&ms));
}
