//! Whole histories of a key, each limiter with all its options, parameters that change and a clock
//! that goes both ways: every answer and every state is that of the naive model of the tests.
//!
//! The input is the randomness by which a history is drawn, so that what the fuzzer changes in it
//! changes the history a little.

#![no_main]

use libfuzzer_sys::fuzz_target;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use redis_rl::algorithm::leaky_bucket::LeakyBucket;
use redis_rl::algorithm::sliding_window::SlidingWindow;
use redis_rl::algorithm::token_bucket::TokenBucket;

#[path = "../../tests/model/mod.rs"]
mod model;

use model::Subject;
use model::agree::agrees;
use model::draw::{Op, history};

/// Calls in a history, at most.
const LENGTH: usize = 24;

fuzz_target!(|data: &[u8]| {
    let Some((limiter, random)) = data.split_first() else { return };
    match limiter % 3 {
        0 => play::<TokenBucket>(random),
        1 => play::<LeakyBucket>(random),
        _ => play::<SlidingWindow>(random),
    }
});

fn play<S: Subject>(random: &[u8]) {
    let random = TestRng::from_seed(RngAlgorithm::PassThrough, random);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    // There may be too little randomness for a whole history.
    let Ok(drawn) = history::<S>(Op::any(), LENGTH).new_tree(&mut runner) else { return };
    if let Err(error) = agrees::<S>(&drawn.current()) {
        panic!("{error}");
    }
}
