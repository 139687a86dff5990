//! What one decision costs, for each limiter, allowed and denied, without a server.
//!
//! `decide` is all that a call computes besides reading its arguments; `codec` is what an allowed
//! call sends to replicas, and what a snapshot holds. The window is measured with logs of 10, 1,000
//! and 1,000,000 hits.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use redis_rl::algorithm::bucket::{Quota, Rate};
use redis_rl::algorithm::hit_log::Run;
use redis_rl::algorithm::leaky_bucket::LeakyBucket;
use redis_rl::algorithm::sliding_window::{self, SlidingWindow};
use redis_rl::algorithm::token_bucket::TokenBucket;
use redis_rl::algorithm::{Clock, Limiter, Request};
use redis_rl::codec::{Buffer, Wire};

const NOW_US: u64 = 1_700_000_000_000_000;

/// 50 units, 10 a second.
const QUOTA: Quota =
    Quota { capacity: 50, rate: Rate { mantissa: 10, decimals: 0 }, period_ms: 1000 };

fn buckets(c: &mut Criterion) {
    bucket::<TokenBucket>(c, "token bucket");
    bucket::<LeakyBucket>(c, "leaky bucket");
}

fn bucket<L>(c: &mut Criterion, name: &str)
where
    L: Limiter<Quota = Quota>,
{
    let fill = |units| {
        let request = Request { cost: units, ..Request::ONE };
        let (_, change) = L::decide(&QUOTA, None, &request, Clock::Server(NOW_US)).unwrap();
        L::create(&change.unwrap())
    };
    for (case, units) in [("allowed", 10), ("denied", 50)] {
        let state = fill(units);
        c.bench_function(&format!("{name}, {case}"), |b| {
            b.iter(|| {
                let clock = Clock::Server(black_box(NOW_US + 1234));
                L::decide(black_box(&QUOTA), Some(&state), &Request::ONE, clock)
            });
        });
    }
}

/// A window that holds `hits` single hits, 5 ms apart, the newest at `NOW_US`.
fn window(hits: i64) -> sliding_window::State {
    let quota = sliding_window::Quota { limit: hits.unsigned_abs(), window_ms: 86_400_000 };
    let change = sliding_window::Change {
        quota,
        at_us: NOW_US,
        move_back_ms: 0,
        forget_until_ms: None,
        take_newest: 0,
        add: None,
    };
    let mut state = SlidingWindow::create(&change);
    let newest_ms = i64::try_from(NOW_US / 1000).unwrap();
    for hit in 0..hits {
        state.log.add(Run { time_ms: newest_ms - (hits - 1 - hit) * 5, count: 1 });
    }
    state
}

fn windows(c: &mut Criterion) {
    for hits in [10, 1000, 1_000_000] {
        let mut state = window(hits);
        let full = state.quota;
        c.bench_function(&format!("sliding window, {hits} hits, denied"), |b| {
            let clock = Clock::Server(NOW_US + 1234);
            b.iter(|| SlidingWindow::decide(black_box(&full), Some(&state), &Request::ONE, clock));
        });
        // Time goes on by 5 ms a call, so that one hit leaves for each that comes.
        let quota = sliding_window::Quota {
            limit: full.limit + 1,
            window_ms: full.limit.saturating_mul(5),
        };
        let mut now_us = NOW_US;
        c.bench_function(&format!("sliding window, {hits} hits, allowed and written"), |b| {
            b.iter(|| {
                now_us += 5000;
                let clock = Clock::Server(now_us);
                let decided = SlidingWindow::decide(&quota, Some(&state), &Request::ONE, clock);
                let (decision, change) = decided.unwrap();
                SlidingWindow::apply(&mut state, &change.unwrap());
                decision
            });
        });
    }
}

fn codec(c: &mut Criterion) {
    let (_, change) =
        TokenBucket::decide(&QUOTA, None, &Request::ONE, Clock::Server(NOW_US)).unwrap();
    let change = change.unwrap();
    c.bench_function("encode a bucket", |b| {
        b.iter(|| {
            let mut buffer = Buffer::new();
            TokenBucket::encode_change(black_box(&change), &mut buffer);
            buffer
        });
    });
    let mut bytes = Vec::new();
    TokenBucket::encode_state(&change, &mut bytes);
    c.bench_function("decode a bucket", |b| {
        b.iter(|| TokenBucket::decode_state(black_box(&bytes)));
    });
    let state = window(1000);
    c.bench_function("encode a window of 1000 hits", |b| {
        b.iter(|| {
            let mut bytes = Vec::new();
            SlidingWindow::encode_state(black_box(&state), &mut bytes);
            bytes
        });
    });
    let mut bytes = Vec::new();
    SlidingWindow::encode_state(&state, &mut bytes);
    c.bench_function("decode a window of 1000 hits", |b| {
        b.iter(|| SlidingWindow::decode_state(black_box(&bytes)));
    });
}

criterion_group!(benches, buckets, windows, codec);
criterion_main!(benches);
