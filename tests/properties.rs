//! What the contract promises of the three limiters, as properties of random histories.
//!
//! - `agreement`: every answer, write and state is that of a naive model;
//! - `promises`: what is told about the next call is true, and looking is free;
//! - `bounds`: no more passes than capacity and rate, or a window, allow, and no less;
//! - `changes`: clocks that are set back, new parameters and refunds mint nothing;
//! - `settle`, `reserve`, `split`: what docs/GUIDE.md builds of them, estimates that are settled,
//!   callers who leave a reserve, and one limit over several keys;
//! - `long`: callers who keep a pace or aim at the edges, here for a short while: see
//!   `tests/properties_long.rs`.
//!
//! `PROPTEST_CASES` sets the number of cases; a failure is kept beside its file as `.regressions`.

mod model;

mod properties {
    mod agreement;
    mod bounds;
    mod changes;
    pub mod long;
    mod promises;
    mod reserve;
    mod settle;
    mod split;
}

/// How long the long properties run here.
const LENGTH: properties::long::Length =
    properties::long::Length { minutes: 3, calls: 6000, seeds: 1 };

/// The same tests for each of the limiters named, which they call `Limited`.
#[macro_export]
macro_rules! for_each {
    ($($name:ident)+, $tests:tt) => { $( $crate::for_each!(@ $name $tests); )+ };
    (@ token_bucket $tests:tt) => { $crate::for_each!(@ token_bucket TokenBucket $tests); };
    (@ leaky_bucket $tests:tt) => { $crate::for_each!(@ leaky_bucket LeakyBucket $tests); };
    (@ sliding_window $tests:tt) => { $crate::for_each!(@ sliding_window SlidingWindow $tests); };
    (@ $name:ident $limiter:ident { $($tests:tt)+ }) => {
        mod $name {
            use super::*;
            type Limited = redis_rl::algorithm::$name::$limiter;
            $($tests)+
        }
    };
}
