//! Whole histories of a key, each limiter with all its options, parameters that change and a clock
//! that goes both ways: every answer and every state is that of the naive model of the tests. A
//! second key that is told the changes alone, as bytes, holds the same at every step, and so does
//! one that is read back from the bytes of the state.
//!
//! The first byte of the input chooses the limiter, the next eight its limits, and each of the
//! others is a small choice in the history, so that what the fuzzer changes in the input changes
//! the history a little.

#![no_main]

use libfuzzer_sys::fuzz_target;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use redis_rl::algorithm::leaky_bucket::LeakyBucket;
use redis_rl::algorithm::sliding_window::SlidingWindow;
use redis_rl::algorithm::token_bucket::TokenBucket;
use redis_rl::codec::Wire;

#[path = "../../tests/model/mod.rs"]
mod model;

use model::Subject;
use model::agree::agrees;
use model::draw::{Amount, Ask, Deed, History, MOST_MS, MOST_UNITS, Op, Step};
use model::world::World;

/// Calls in a history, at most.
const LENGTH: usize = 24;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    match choices.byte() % 3 {
        0 => play::<TokenBucket>(choices),
        1 => play::<LeakyBucket>(choices),
        _ => play::<SlidingWindow>(choices),
    }
});

fn play<S: Subject + Wire>(mut choices: Choices<'_>) {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&choices.word().to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let Ok(quotas) = S::quotas().new_tree(&mut runner) else { return };
    let history = choices.history(quotas.current());
    if let Err(error) = agrees::<S>(&history) {
        panic!("{error}");
    }
    follow::<S>(&history);
}

/// Plays a history once more, with a replica of the key.
fn follow<S: Subject + Wire>(history: &History<S::Quota>) {
    let mut world = World::<S>::new(history.start_us);
    let mut replica: Option<S::State> = None;
    for op in &history.ops {
        let before = world.key.state.clone();
        let Some(Ok((_, Some(change)))) = world.play(history, op) else {
            assert_eq!(world.key.state, before, "{op:?} writes nothing");
            continue;
        };
        let mut bytes = Vec::new();
        S::encode_change(&change, &mut bytes);
        let sent = S::decode_change(&bytes).expect("what was written can be read");
        match &mut replica {
            Some(state) => {
                assert!(S::fits(state, &sent), "{op:?}");
                S::apply(state, &sent);
            }
            None => replica = Some(S::create(&sent)),
        }
        assert_eq!(replica, world.key.state, "{op:?}");
        let state = world.key.state.as_ref().expect("a call that writes leaves a state");
        let mut bytes = Vec::new();
        S::encode_state(state, &mut bytes);
        assert_eq!(&S::decode_state(&bytes).expect("what was written can be read"), state);
    }
}

/// The input as choices, 0 where it has ended.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let (byte, rest) = self.0.split_first().map_or((0, self.0), |(&byte, rest)| (byte, rest));
        self.0 = rest;
        byte
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes([(); 8].map(|()| self.byte()))
    }

    /// Fewer than `bound`.
    fn below(&mut self, bound: u8) -> u64 {
        u64::from(self.byte() % bound)
    }

    /// One of 1 to 8.
    fn part(&mut self) -> u8 {
        1 + self.byte() % 8
    }

    /// A number of any magnitude, and often one at the edge of the range.
    fn magnitude(&mut self, min: u64, max: u64) -> u64 {
        match self.byte() {
            shift @ 0..=127 => (self.word() >> (shift % 64)).clamp(min, max),
            128..=191 => (min + self.below(4)).min(max),
            _ => max.saturating_sub(self.below(4)).max(min),
        }
    }

    fn history<Q>(&mut self, quotas: Vec<Q>) -> History<Q> {
        let start_us = match self.byte() % 4 {
            0 => self.magnitude(0, 5000),
            1 => (1 << 53) * 1000 - self.magnitude(0, 5_000_000),
            _ => 1_700_000_000_000_000 + self.magnitude(0, 5_000_000),
        };
        let mut ops = Vec::new();
        while !self.0.is_empty() && ops.len() < LENGTH {
            ops.push(self.op());
        }
        History { quotas, start_us, ops }
    }

    fn op(&mut self) -> Op {
        let flags = self.byte();
        let quota = usize::from(if flags & 7 == 0 { 1 + (flags >> 7) } else { 0 });
        let deed =
            if flags & 0x38 == 0 { Deed::Refund(self.amount()) } else { Deed::Call(self.ask()) };
        Op { quota, step: self.step(), caller: flags & 0x40 > 0, deed }
    }

    fn ask(&mut self) -> Ask {
        let flags = self.byte();
        let cost = if flags & 3 == 0 { self.amount() } else { Amount::Exact(1) };
        let reserve = if flags & 0xc == 0 { self.amount() } else { Amount::Exact(0) };
        let options = if flags & 0x30 == 0 { self.byte() } else { 0 };
        let delay = (options & 8 > 0).then(|| self.byte() % 9);
        let resolution_ms = if options & 16 > 0 { self.magnitude(1, MOST_MS) } else { 1 };
        let (peek, force, shadow) = (options & 1 > 0, options & 2 > 0, options & 4 > 0);
        Ask { cost, reserve, peek, force, shadow, delay, resolution_ms }
    }

    fn amount(&mut self) -> Amount {
        match self.byte() % 4 {
            0 => Amount::Exact(self.below(5)),
            1 => Amount::Eighths(self.part()),
            2 => Amount::Over(1 + self.below(3)),
            _ => Amount::Exact(self.magnitude(0, MOST_UNITS)),
        }
    }

    fn step(&mut self) -> Step {
        let edge = |byte: u8| [0, -1, 1, -1000, 1000][usize::from(byte % 5)];
        match self.byte() % 12 {
            0..=3 => Step::Stay,
            4 => Step::Us(self.magnitude(1, 3000)),
            5 | 6 => Step::Paces(self.part()),
            7 => Step::Retry(edge(self.byte())),
            8 => Step::Reset(edge(self.byte())),
            9 => Step::Us(self.magnitude(0, 1 << 60)),
            10 => Step::Back(self.magnitude(0, 1 << 60)),
            _ => Step::BackPaces(self.part()),
        }
    }
}
