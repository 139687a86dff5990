//! What a log says of its memory, against the blocks that it has.
//!
//! - whether a hit takes more memory: exactly, at the end; before it, never less than it does, and
//!   not where the block has room for any run;
//! - how much it has then at most, which `rl.sliding-max-bytes` bounds;
//! - each block can be moved, once, and none has more memory than a full one needs;
//! - what is forgotten is given back, a bounded part by each call, to the last byte.

use std::cell::RefCell;

use proptest::prelude::*;
use redis_rl::algorithm::hit_log::{Blocks, HitLog, Run};

use super::model::cases;
use super::model::window::runs;
use super::{Twin, op, random, usable};

/// Most bytes in a block, and of one packed run, and what the header of a block may have.
const BLOCK_BYTES: usize = 512;
const RUN_BYTES: usize = 20;
const HEADER_BYTES: usize = 64;
/// Most blocks given back by one call.
const FREED_AT_ONCE: usize = 64;

/// A block as the allocator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    at: *const u8,
    len: usize,
    capacity: usize,
}

/// The blocks, those that wait to be freed too.
fn pieces(log: &HitLog) -> Vec<Piece> {
    let pieces = RefCell::new(Vec::new());
    log.heap_bytes(|bytes| {
        let piece = Piece { at: bytes.as_ptr(), len: bytes.len(), capacity: bytes.capacity() };
        pieces.borrow_mut().push(piece);
        0
    });
    pieces.into_inner()
}

/// Bytes on the heap, to the byte.
fn heap(log: &HitLog) -> usize {
    log.heap_bytes(Vec::capacity)
}

/// Single hits a second apart, from second 1 on.
fn seconds(hits: i64) -> HitLog {
    let mut log = HitLog::default();
    (1..=hits).for_each(|second| log.add(Run { time_ms: second * 1000, count: 1 }));
    log
}

/// Such a log, as long as it takes to have so many blocks: each has 256 runs, the last but a few.
fn of_blocks(blocks: usize) -> HitLog {
    let mut log = HitLog::default();
    let mut second = 0;
    while pieces(&log).len() < blocks {
        second += 1;
        assert!(second < 256 * blocks as i64 + 20, "{} blocks", pieces(&log).len());
        log.add(Run { time_ms: second * 1000, count: 1 });
    }
    log
}

/// Adds a hit, after what is at or before `cut_ms` is forgotten, and compares what the log said
/// before with what came. `most` is the largest bound it gave so far.
///
/// False if it said without need that the hit takes memory. (Where a cut block becomes no longer,
/// as the distance of its first run goes, a need is taken for none: few draws come to that.)
fn add_as_told(log: &mut HitLog, run: Run, cut_ms: Option<i64>, most: &mut u64) -> bool {
    let none = log.is_empty();
    let at_end = log.newest_ms().is_none_or(|newest_ms| newest_ms <= run.time_ms);
    let (grows, bound) = (log.grows_with(run, cut_ms), log.bytes_with(run, cut_ms));
    let before = heap(log);
    cut_ms.into_iter().for_each(|cut_ms| log.forget_until(cut_ms));
    let (cut, old) = (heap(log), pieces(log));
    // More than one hit at a time of their own: their block becomes longer.
    let longer = run.count > 1 && log.units_until(run.time_ms) == log.units_until(run.time_ms - 1);
    let waits = log.outline().frees;
    log.add(run);
    let (after, new) = (heap(log), pieces(log));
    let what = format!("{run:?} after {cut_ms:?}: {before}, {cut}, {after} bytes");
    assert!(cut <= before && (grows || after <= cut), "{what}");
    // What waits is freed by the way.
    if at_end && !waits {
        assert_eq!(grows, after > cut, "{what}");
    }
    if grows {
        *most = bound.max(*most);
    }
    assert!(after as u64 <= *most, "{what}, more than {most}");
    // A hit before the end may take two: one for itself, and one for the newest, which are packed.
    let widest = (old.len() + if at_end { 1 } else { 2 }) * (BLOCK_BYTES + 2 * HEADER_BYTES);
    assert!(none || bound <= widest as u64, "{what}, at most {bound} with more than {}", old.len());
    assert!(new.iter().all(|piece| piece.capacity <= BLOCK_BYTES), "{what}: {new:?}");
    !(grows && after <= cut && longer && !waits) || is_nearly_full(&old, &new)
}

/// Whether a block that became longer, or the last, might not have held the longest run before;
/// what is forgotten in it may have made it shorter by the distance of its first run.
fn is_nearly_full(old: &[Piece], new: &[Piece]) -> bool {
    let full = |piece: &Piece| piece.capacity - piece.len < RUN_BYTES + RUN_BYTES / 2;
    old.iter().zip(new).any(|(old, new)| old.len != new.len && full(new))
        || new.last().is_some_and(full)
}

/// Hits of all kinds one after the other, on a window that grows and shrinks.
#[test]
fn a_log_says_what_memory_a_hit_takes() {
    for seed in 0..200 {
        let mut next = random(seed);
        let mut log = HitLog::default();
        let mut most = 0;
        for _ in 0..600 {
            let newest_ms = log.newest_ms().unwrap_or(1_000_000_000);
            let gap_ms = match next(60) {
                0 => 1 << 33,
                1..20 => next(20_000) as i64,
                _ => next(4) as i64,
            };
            let time_ms = match next(8) {
                0 => newest_ms - gap_ms,
                1 => log.time_of_unit(next(log.units() + 1)).unwrap_or(newest_ms) + 1,
                _ => newest_ms + gap_ms,
            };
            let count = if next(3) == 0 { 1 + next(300) } else { 1 };
            let cut_ms = (next(8) == 0).then(|| {
                let part = if next(seed + 2) == 0 { 1 } else { 20 };
                let oldest = log.time_of_unit(1 + next(log.units() / part + 1));
                oldest.unwrap_or(newest_ms) - next(2) as i64
            });
            let run = Run { time_ms, count };
            let needs = add_as_told(&mut log, run, cut_ms, &mut most);
            assert!(needs, "{run:?} after {cut_ms:?}, draws of {seed}");
        }
    }
}

proptest! {
    #![proptest_config(cases(100))]

    /// The same after operations of all kinds, and of a copy, which has no room to spare.
    #[test]
    fn a_log_grows_only_where_it_says_so(
        ops in prop::collection::vec(op(), 1..12),
        hits in prop::collection::vec(
            (-2_i64 << 40..=2_i64 << 40, 0..=40_i64, 1..=300_u64, 0..=100_usize), 40),
        copied in any::<bool>(),
    ) {
        let mut twin = Twin::default();
        ops.into_iter().for_each(|op| twin.play(op));
        if copied {
            twin.log = twin.log.clone();
        }
        let mut most = u64::MAX;
        for (gap_ms, shift, count, hundredth) in hits {
            let run = Run { time_ms: twin.newest_ms() + (gap_ms >> shift), count };
            let cut_ms = (hundredth > 50).then(|| twin.run_ms(hundredth - 51));
            add_as_told(&mut twin.log, run, cut_ms, &mut most);
            cut_ms.into_iter().for_each(|cut_ms| twin.map.retain(|&run_ms, _| run_ms > cut_ms));
            *twin.map.entry(run.time_ms).or_default() += run.count;
        }
        twin.check()?;
    }
}

/// The headers are a table with room for as many blocks as the next power of two.
#[test]
fn the_bytes_of_a_log_are_its_blocks_and_their_headers() {
    let none = seconds(16);
    assert_eq!((heap(&none), none.allocations()), (0, 1));
    let mut header = None;
    for blocks in 1..=40_usize {
        let log = of_blocks(blocks);
        let headers = log.heap_bytes(|_| 0) - size_of::<Blocks>();
        let header = *header.get_or_insert(headers);
        assert!((1..=HEADER_BYTES).contains(&header), "{header} bytes");
        assert_eq!(headers, blocks.next_power_of_two() * header, "{blocks} blocks");
        assert_eq!(log.heap_bytes(|_| 1000) - log.heap_bytes(|_| 0), blocks * 1000);
        assert_eq!(log.allocations(), 1 + 2 + blocks);
    }
}

/// Runs of a byte each fill their blocks to the last, and one that follows another has all its
/// memory at once; the first of a log grows as it needs.
#[test]
fn blocks_in_a_row_are_full() {
    let mut log = HitLog::default();
    (0..9800).for_each(|time_ms| log.add(Run { time_ms, count: 1 }));
    let row = pieces(&log);
    assert_eq!(row.len(), 9800_usize.div_ceil(BLOCK_BYTES));
    for piece in &row[..row.len() - 1] {
        assert_eq!((piece.len, piece.capacity), (BLOCK_BYTES, BLOCK_BYTES));
    }
    assert_eq!(row.last().map(|piece| piece.capacity), Some(BLOCK_BYTES));
    assert!(pieces(&seconds(20))[0].capacity < 64);
}

/// Hits before all others fill a block to the last byte; the next splits it in halves.
#[test]
fn a_full_block_is_split_in_halves() {
    let mut log = HitLog::default();
    let runs = BLOCK_BYTES as i64 + 1;
    let sizes = |log: &HitLog| pieces(log).iter().map(|piece| piece.len).collect::<Vec<_>>();
    (0..runs).rev().for_each(|time_ms| log.add(Run { time_ms, count: 1 }));
    // The newest is not in a block.
    assert_eq!(sizes(&log), [BLOCK_BYTES]);
    log.add(Run { time_ms: -1, count: 1 });
    assert_eq!(sizes(&log), [BLOCK_BYTES / 2, BLOCK_BYTES / 2 + 1]);
}

/// In steady use a block takes what was forgotten as room again, but moves nothing before it is
/// full.
#[test]
fn a_block_is_full_before_its_runs_are_moved() {
    let mut longest = 0;
    for window_ms in 90..110 {
        let mut log = HitLog::default();
        let mut lengths = Vec::new();
        for time_ms in 0..1500 {
            log.add(Run { time_ms, count: 1 });
            log.forget_until(time_ms - window_ms);
            lengths.extend(pieces(&log).first().map(|piece| piece.len));
        }
        let [piece] = pieces(&log)[..] else { panic!("one block: {:?}", pieces(&log)) };
        assert_eq!(piece.capacity, 128);
        let moved = lengths.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!((5..100).contains(&moved), "moved {moved} times");
        longest = lengths.into_iter().fold(longest, usize::max);
    }
    assert_eq!(longest, 128);
}

#[test]
fn each_block_is_moved_once() {
    let mut log = seconds(3000);
    let (all, old) = (runs(&log), pieces(&log));
    assert!(old.len() > 5);
    let (mut seen, mut left) = (Vec::new(), Vec::new());
    for index in 0..=old.len() {
        let found = log.relocate(index, |bytes| {
            let (at, len, capacity) = (bytes.as_ptr(), bytes.len(), bytes.capacity());
            seen.push(Piece { at, len, capacity });
            let mut moved = Vec::with_capacity(capacity);
            moved.extend_from_slice(&bytes);
            // It stays, or its place might be taken again.
            left.push(bytes);
            moved
        });
        assert_eq!(found, index < old.len());
    }
    assert_eq!(seen, old);
    assert_eq!(runs(&log), all);
    assert!(pieces(&log).iter().zip(&old).all(|(new, old)| new.at != old.at));
    // A log that has no blocks has none to move.
    assert!(!seconds(10).relocate(0, |_| unreachable!("no block")));
}

/// A window that was long once forgets block by block: the table of its headers shrinks now and
/// then, and at last all is given back.
#[test]
fn headers_are_given_back_as_a_log_shrinks() {
    let mut log = of_blocks(64);
    let header = (log.heap_bytes(|_| 0) - size_of::<Blocks>()) / 64;
    let mut shrunk = Vec::new();
    for second in 0..=256 * 64 {
        log.forget_until(second * 1000);
        let left = pieces(&log).len();
        let room = log.heap_bytes(|_| 0).saturating_sub(size_of::<Blocks>()) / header;
        if shrunk.last().is_none_or(|&(_, last)| last != room) {
            shrunk.push((left, room));
        }
    }
    assert_eq!(shrunk, [(64, 64), (15, 30), (6, 12), (2, 4), (0, 0)]);
    assert_eq!((heap(&log), log.allocations()), (0, 1));
}

/// Blocks that wait are given back 64 by each call that adds or forgets, and then none has any to
/// look for.
#[test]
fn what_is_forgotten_is_freed_bit_by_bit() {
    let calls: [fn(&mut HitLog); 3] = [
        |log| log.add(Run { time_ms: i64::MAX - 1, count: 1 }),
        |log| log.forget_until(i64::MIN),
        |log| log.forget_until(1_000_000),
    ];
    let full = of_blocks(200);
    assert!(!full.outline().frees);
    for (number, call) in calls.into_iter().enumerate() {
        // Of the one all is forgotten, of the other all but some newest blocks.
        for stay in [0, 3] {
            let mut log = full.clone();
            log.forget_until(if stay == 0 { i64::MAX - 2 } else { 256_000 * (200 - stay) });
            let mut waiting = 200 - stay as usize;
            while waiting > 0 {
                waiting = waiting.saturating_sub(FREED_AT_ONCE);
                assert_eq!(pieces(&log).len(), waiting + stay as usize, "call {number}");
                assert_eq!(log.outline().frees, waiting > 0, "call {number}: {waiting} wait");
                call(&mut log);
            }
            let held = if stay == 0 { 1 } else { 1 + 2 + stay as usize };
            assert_eq!(log.allocations(), held, "call {number}, {stay} blocks stay");
            assert!(stay > 0 || heap(&log) == 0, "call {number}: {} bytes", heap(&log));
        }
    }
}

/// New hits go behind what waits to be freed, not into it, and are taken from there.
#[test]
fn a_log_begins_anew_while_old_blocks_wait() {
    let mut log = of_blocks(400);
    log.forget_until(i64::MAX - 1000);
    let mut most = u64::MAX;
    // So far apart that each lies in a block, but for the newest.
    for hit in 1..=4 {
        let mut some = log.clone();
        (1..hit).for_each(|hit| some.add(Run { time_ms: hit << 40, count: 2 }));
        let run = Run { time_ms: hit << 40, count: 2 };
        add_as_told(&mut some, run, None, &mut most);
        let all: Vec<(i64, u64)> = (1..=hit).map(|hit| (hit << 40, 2)).collect();
        assert_eq!(runs(&some), all);
        assert_eq!(some.time_of_unit(hit as u64), Some(((hit + 1) / 2) << 40));
        assert!(some.outline().frees);
        for units in 0..=2 * hit as u64 + 1 {
            let mut taken = some.clone();
            taken.take_newest(units);
            assert_eq!(taken.units(), (2 * hit as u64).saturating_sub(units));
            taken.add(Run { time_ms: hit << 40, count: 1 });
            assert_eq!(taken.units(), (2 * hit as u64).saturating_sub(units) + 1);
        }
    }
    // What is packed takes a new block, whatever room the last of the old has.
    log.add(Run { time_ms: 0, count: 1 });
    assert!(log.grows_with(Run { time_ms: 1 << 40, count: 1 }, None));
    (1..99).for_each(|time_ms| log.add(Run { time_ms, count: 1 }));
    assert_eq!((log.units(), log.outline().frees), (99, false));
    assert!(log.heap_bytes(usable) < 1000);
}
