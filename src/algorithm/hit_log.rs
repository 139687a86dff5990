//! Hit log: the hits of one window in order of time, as runs of (time, count), in few bytes.
//!
//! The newest run is open: more hits of its millisecond only raise its count. It and a few before
//! it lie in the log itself (`Recent`), so that a short log is one piece of memory and a long one
//! is touched at its end only now and then. Older runs are packed into blocks of at most
//! `BLOCK_BYTES`, each run as the distance to the one before it and, where it is not 1, its count:
//! two bytes for a single hit that comes within 8 s of the one before. Each block knows its first
//! and last time and how many units lie before it. So:
//!
//! - adding a hit at the end is O(1); adding one before the end (only possible where calls mix
//!   resolutions) unpacks one block, and passes once over the headers of the younger ones;
//! - "how many hits are younger than t" and "when did the n-th oldest hit come" are a binary search
//!   over the blocks and a walk within one;
//! - forgetting a prefix is a binary search; the memory of forgotten blocks is given back a few at
//!   a time (`FREED_AT_ONCE`), so that a million hits which expire together stall nobody.
//!
//! What a log holds is a function of its runs alone; block borders never show outside.

use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Most bytes in a block: small enough to unpack within a microsecond, large enough that the
/// header of a block adds a tenth to its size.
const BLOCK_BYTES: usize = 512;
/// Most bytes of one packed run: two numbers of 64 bits, seven bits a byte.
const RUN_BYTES: usize = 20;
/// Most blocks given back to the allocator by one change.
const FREED_AT_ONCE: usize = 64;

/// Hits of one millisecond (or of one multiple of the resolution).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// When, in ms since the epoch; before it only after the server's clock was set back.
    pub time_ms: i64,
    /// How many units, at least 1.
    pub count: u64,
}

/// The hits of one key. The default is an empty log.
#[derive(Clone, Debug, Default)]
pub struct HitLog {
    /// Packed runs, oldest first. The first `forgotten` blocks only wait to be freed.
    blocks: VecDeque<Block>,
    forgotten: usize,
    /// Where the units in blocks end, on the scale of [`Block::before`].
    end: u64,
    recent: Recent,
}

/// The newest runs: the open one, and up to [`KEPT`] before it.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    /// The newest run; a count of 0 says that the log is empty.
    open: Run,
    /// The runs before it, oldest first.
    kept: [Kept; KEPT],
    /// How many these are.
    len: usize,
}

/// So many that a state of a window fills an allocation of 128 bytes.
const KEPT: usize = 4;

/// A run by its distance to the one after it, where that and its count have 32 bits.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    ahead_ms: u32,
    count: u32,
}

impl Recent {
    /// The runs, newest first; none of an empty log.
    fn newest_first(&self) -> impl Iterator<Item = Run> {
        let mut time_ms = self.open.time_ms;
        let kept = self.kept.iter().take(self.len).rev().map(move |kept| {
            time_ms = time_ms.saturating_sub(i64::from(kept.ahead_ms));
            Run { time_ms, count: u64::from(kept.count) }
        });
        (self.open.count > 0).then_some(self.open).into_iter().chain(kept)
    }

    /// The runs before the open one, oldest first.
    fn before_open(&self) -> impl Iterator<Item = Run> {
        let kept = self.kept.iter().take(self.len);
        let back_ms: i64 = kept.clone().map(|kept| i64::from(kept.ahead_ms)).sum();
        let mut next_ms = self.open.time_ms.saturating_sub(back_ms);
        kept.map(move |kept| {
            let time_ms = next_ms;
            next_ms = next_ms.saturating_add(i64::from(kept.ahead_ms));
            Run { time_ms, count: u64::from(kept.count) }
        })
    }

    fn units(&self) -> u64 {
        let kept: u64 = self.kept.iter().take(self.len).map(|kept| u64::from(kept.count)).sum();
        self.open.count.saturating_add(kept)
    }

    /// The open run as one before `next`, if it can be kept.
    fn keep(&self, next: Run) -> Option<Kept> {
        let ahead_ms = next.time_ms.checked_sub(self.open.time_ms)?;
        let (ahead_ms, count) = (ahead_ms.try_into().ok()?, self.open.count.try_into().ok()?);
        Some(Kept { ahead_ms, count })
    }

    /// Opens `next`, which is younger, and keeps the run that was open, if there is room.
    fn open_next(&mut self, next: Run) -> bool {
        let (Some(kept), Some(place)) = (self.keep(next), self.kept.get_mut(self.len)) else {
            return false;
        };
        *place = kept;
        self.len += 1;
        self.open = next;
        true
    }

    /// Takes the open run out; the one before it is open then, or none.
    fn pop(&mut self) -> Run {
        let popped = self.open;
        let before = self.newest_first().nth(1);
        self.open = before.unwrap_or_default();
        self.len = self.len.saturating_sub(1);
        popped
    }

    /// Forgets the runs at or before `time_ms`, and tells whether these were any but the open one.
    fn forget_until(&mut self, time_ms: i64) -> bool {
        let old = self.before_open().take_while(|run| run.time_ms <= time_ms).count();
        self.kept.copy_within(old..self.len, 0);
        self.len -= old;
        old > 0
    }
}

/// Runs of a stretch of time, at least one.
#[derive(Clone, Debug)]
struct Block {
    first_ms: i64,
    last_ms: i64,
    /// Units before this block since the log began, wrapping: only differences count.
    before: u64,
    /// Where the first run that still counts begins in `bytes`; its distance is void, its time is
    /// `first_ms`.
    start: usize,
    bytes: Vec<u8>,
}

impl HitLog {
    /// Whether the log holds no hit.
    pub fn is_empty(&self) -> bool {
        self.recent.open.count == 0
    }

    /// All units.
    pub fn units(&self) -> u64 {
        self.packed_units().saturating_add(self.recent.units())
    }

    /// The units in blocks.
    fn packed_units(&self) -> u64 {
        self.live().next().map_or(0, |block| self.end.wrapping_sub(block.before))
    }

    /// The time of the newest hit.
    pub fn newest_ms(&self) -> Option<i64> {
        (!self.is_empty()).then_some(self.recent.open.time_ms)
    }

    /// Units of the hits at or before `time_ms`.
    pub fn units_until(&self, time_ms: i64) -> u64 {
        let mut after: u64 = 0;
        for run in self.recent.newest_first() {
            if run.time_ms <= time_ms {
                return self.units().saturating_sub(after);
            }
            after = after.saturating_add(run.count);
        }
        let Some(oldest) = self.live().next() else { return 0 };
        let Some(block) = self.blocks.get(self.block_after(time_ms)) else {
            return self.end.wrapping_sub(oldest.before);
        };
        let mut units = block.before.wrapping_sub(oldest.before);
        if block.first_ms > time_ms {
            return units;
        }
        block.runs(|run, _| {
            if run.time_ms > time_ms {
                return ControlFlow::Break(());
            }
            units = units.saturating_add(run.count);
            ControlFlow::Continue(())
        });
        units
    }

    /// The time of the `n`-th oldest unit, counted from 1; of the newest if there are fewer.
    pub fn time_of_unit(&self, n: u64) -> Option<i64> {
        let mut before = self.units();
        for run in self.recent.newest_first() {
            before = before.saturating_sub(run.count);
            if n > before {
                return Some(run.time_ms);
            }
        }
        let oldest = self.live().next()?;
        // The last block with fewer than n units before it.
        let live = self.blocks.len() - self.forgotten;
        let index = partition_point(live, |index| {
            let block = self.blocks.get(self.forgotten + index);
            block.is_some_and(|block| block.before.wrapping_sub(oldest.before) < n)
        });
        let block = self.blocks.get((self.forgotten + index).saturating_sub(1))?;
        let mut units = block.before.wrapping_sub(oldest.before);
        if n <= units + 1 {
            // A denial asks for the oldest hit: the header knows it.
            return Some(block.first_ms);
        }
        let mut found = block.last_ms;
        block.runs(|run, _| {
            units = units.saturating_add(run.count);
            if units >= n {
                found = run.time_ms;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        Some(found)
    }

    /// Calls `each` with every run, oldest first.
    pub fn for_each_run(&self, mut each: impl FnMut(Run)) {
        for block in self.live() {
            block.runs(|run, _| {
                each(run);
                ControlFlow::Continue(())
            });
        }
        self.recent.before_open().for_each(&mut each);
        if !self.is_empty() {
            each(self.recent.open);
        }
    }

    /// Adds hits; more at a time that is there already are one run with it.
    pub fn add(&mut self, run: Run) {
        debug_assert!(run.count > 0);
        let open = &mut self.recent.open;
        if open.count == 0 {
            *open = run;
        } else if run.time_ms == open.time_ms {
            open.count = open.count.saturating_add(run.count);
        } else if run.time_ms > open.time_ms {
            self.open_next(run);
        } else {
            self.pack_kept();
            self.insert(run);
        }
        self.free_some();
    }

    /// Opens a run that is younger than all others.
    fn open_next(&mut self, run: Run) {
        if self.recent.open_next(run) {
            return;
        }
        self.pack_kept();
        if !self.recent.open_next(run) {
            let open = std::mem::replace(&mut self.recent.open, run);
            self.pack(open);
        }
    }

    /// Packs all runs before the open one.
    fn pack_kept(&mut self) {
        let recent = self.recent;
        self.recent.len = 0;
        recent.before_open().for_each(|run| self.pack(run));
    }

    /// Forgets the hits at or before `time_ms`.
    pub fn forget_until(&mut self, time_ms: i64) {
        let all = self.recent.open.time_ms <= time_ms;
        if all {
            self.recent = Recent::default();
        }
        if all || self.recent.forget_until(time_ms) {
            self.forgotten = self.blocks.len();
        } else {
            self.forgotten = self.block_after(time_ms);
            if let Some(block) = self.blocks.get_mut(self.forgotten) {
                block.forget_until(time_ms);
            }
        }
        self.free_some();
    }

    /// Takes the newest `units` out; all of them if there are fewer.
    pub fn take_newest(&mut self, units: u64) {
        let mut left = units;
        while !self.is_empty() {
            let open = &mut self.recent.open;
            if left < open.count {
                open.count -= left;
                return;
            }
            left -= self.recent.pop().count;
        }
        // Whole blocks go without being unpacked.
        while let Some(block) = self.newest_block() {
            let held = self.end.wrapping_sub(block.before);
            if left < held {
                break;
            }
            left -= held;
            self.end = block.before;
            self.blocks.pop_back();
        }
        if self.blocks.len() > self.forgotten
            && let Some(block) = self.blocks.pop_back()
        {
            self.end = block.before;
            let mut runs = block.unpack();
            while let Some(run) = runs.pop() {
                if left < run.count {
                    self.recent.open = Run { count: run.count - left, ..run };
                    break;
                }
                left -= run.count;
            }
            runs.into_iter().for_each(|run| self.pack(run));
        }
        self.free_some();
    }

    /// Moves all hits back by `ms`, since the clock that timed them was set back.
    pub fn move_back(&mut self, ms: i64) {
        debug_assert!(ms >= 0);
        // Almost always: the blocks are many.
        if ms == 0 {
            return;
        }
        self.recent.open.time_ms = self.recent.open.time_ms.saturating_sub(ms);
        for block in &mut self.blocks {
            block.first_ms = block.first_ms.saturating_sub(ms);
            block.last_ms = block.last_ms.saturating_sub(ms);
        }
    }

    /// Moves hits after `newest_ms` to that time.
    pub fn hold_back(&mut self, newest_ms: i64) {
        if self.is_empty() || self.recent.open.time_ms <= newest_ms {
            return;
        }
        let count = self.units().saturating_sub(self.units_until(newest_ms));
        self.take_newest(count);
        self.add(Run { time_ms: newest_ms, count });
    }

    /// Whether adding `run`, after the hits at or before `cut_ms` are forgotten, takes more memory.
    pub fn grows_with(&self, run: Run, cut_ms: Option<i64>) -> bool {
        let cut_ms = cut_ms.unwrap_or(i64::MIN);
        let mut recent = self.recent;
        let open = recent.open;
        if open.count == 0 || open.time_ms <= cut_ms || open.time_ms == run.time_ms {
            return false;
        }
        let cut = recent.forget_until(cut_ms);
        let at_end = run.time_ms > open.time_ms;
        if at_end && recent.open_next(run) {
            return false;
        }
        let mut packed = recent.before_open();
        if at_end && recent.keep(run).is_none() {
            return self.grows_with_packed(packed.chain([open]), 0, cut_ms, cut);
        }
        if at_end {
            return self.grows_with_packed(packed, 0, cut_ms, cut);
        }
        // One before the open run is put into its place, whatever that takes.
        if cut {
            return true;
        }
        let place = self.place_of(run.time_ms);
        let last = self.blocks.len().wrapping_sub(1);
        if place == last || packed.next().is_some_and(|oldest| oldest.time_ms <= run.time_ms) {
            return self.grows_with_packed(recent.before_open(), RUN_BYTES, cut_ms, false);
        }
        let has_room = |block: &Block| RUN_BYTES <= block.room() + block.bytes_until(cut_ms);
        let live = self.blocks.get(place).filter(|_| place >= self.forgotten);
        !live.is_some_and(has_room)
            || (recent.len > 0 && self.grows_with_packed(recent.before_open(), 0, cut_ms, false))
    }

    /// Whether packing these runs and `more` bytes into the last block, after what is at or before
    /// `cut_ms` is forgotten, takes more memory; `cut` says that all blocks are forgotten.
    fn grows_with_packed(
        &self,
        runs: impl Iterator<Item = Run>,
        more: usize,
        cut_ms: i64,
        cut: bool,
    ) -> bool {
        // A block that is forgotten whole gives way to a new one.
        let stays = |block: &&Block| !cut && block.last_ms > cut_ms;
        let Some(block) = self.newest_block().filter(stays) else { return true };
        let mut last_ms = block.last_ms;
        let mut len = more;
        for run in runs {
            len += packed(run, last_ms).1;
            last_ms = run.time_ms;
        }
        len > block.room() && len > block.room() + block.bytes_until(cut_ms)
    }

    /// Hands the memory of block `index` to `mover`, which may return the same bytes at another
    /// place: for a server that defragments its memory. False if there is no such block.
    pub fn relocate(&mut self, index: usize, mover: impl FnOnce(Vec<u8>) -> Vec<u8>) -> bool {
        let Some(block) = self.blocks.get_mut(index) else { return false };
        block.bytes = mover(std::mem::take(&mut block.bytes));
        true
    }

    /// Bytes on the heap, where `usable` says what the allocation of a block's bytes really takes.
    pub fn heap_bytes(&self, usable: impl Fn(&Vec<u8>) -> usize) -> usize {
        let headers = self.blocks.capacity() * size_of::<Block>();
        headers + self.blocks.iter().map(|block| usable(&block.bytes)).sum::<usize>()
    }

    /// How many allocations freeing the log gives back.
    pub fn allocations(&self) -> usize {
        self.blocks.len() + 1
    }

    fn live(&self) -> impl Iterator<Item = &Block> {
        self.blocks.range(self.forgotten.min(self.blocks.len())..)
    }

    fn newest_block(&self) -> Option<&Block> {
        if self.blocks.len() > self.forgotten { self.blocks.back() } else { None }
    }

    /// Index of the first live block that ends after `time_ms`, or how many blocks there are.
    fn block_after(&self, time_ms: i64) -> usize {
        let live = self.blocks.len() - self.forgotten;
        let index = partition_point(live, |index| {
            let block = self.blocks.get(self.forgotten + index);
            block.is_some_and(|block| block.last_ms <= time_ms)
        });
        self.forgotten + index
    }

    /// Appends a run that is younger than all packed ones.
    fn pack(&mut self, run: Run) {
        let before = self.end;
        self.end = self.end.wrapping_add(run.count);
        if self.blocks.len() > self.forgotten
            && let Some(block) = self.blocks.back_mut()
            && block.push(run)
        {
            return;
        }
        self.reserve();
        let mut block = Block::empty(before);
        if self.blocks.len() > self.forgotten {
            // One that follows a full one will be full too: it need not grow step by step.
            block.bytes.reserve_exact(BLOCK_BYTES);
        }
        block.repack(&[run]);
        self.blocks.push_back(block);
    }

    /// Index of the live block that begins at or before `time_ms`, else of the oldest; of none if
    /// there is none.
    fn place_of(&self, time_ms: i64) -> usize {
        let live = self.blocks.len() - self.forgotten;
        let index = partition_point(live, |index| {
            let block = self.blocks.get(self.forgotten + index);
            block.is_some_and(|block| block.first_ms <= time_ms)
        });
        self.forgotten + index.saturating_sub(1)
    }

    /// Adds a run that is older than the open one, before which there is none but in blocks.
    fn insert(&mut self, run: Run) {
        let place = self.place_of(run.time_ms);
        let Some(block) = self.blocks.get_mut(place) else { return self.pack(run) };
        let mut runs = block.unpack();
        match runs.binary_search_by_key(&run.time_ms, |run| run.time_ms) {
            Ok(same) => {
                if let Some(same) = runs.get_mut(same) {
                    same.count = same.count.saturating_add(run.count);
                }
            }
            Err(index) => runs.insert(index, run),
        }
        // One that is full becomes two that are half full: so blocks stay well filled, wherever
        // and in whatever order runs are added.
        let mut next = place + 1;
        if block.repack(&runs) > BLOCK_BYTES {
            let half = runs.split_off(runs.len() / 2);
            block.repack(&runs);
            let before = block.before.wrapping_add(block.units());
            let mut second = Block::empty(before);
            second.repack(&half);
            self.reserve();
            self.blocks.insert(next, second);
            next += 1;
        }
        for block in self.blocks.iter_mut().skip(next) {
            block.before = block.before.wrapping_add(run.count);
        }
        self.end = self.end.wrapping_add(run.count);
    }

    /// Makes room for one more block.
    fn reserve(&mut self) {
        // A deque begins with room for four; most logs need a block or two.
        if self.blocks.len() == self.blocks.capacity() {
            self.blocks.reserve_exact(self.blocks.len().max(1));
        }
    }

    fn free_some(&mut self) {
        let now = self.forgotten.min(FREED_AT_ONCE);
        self.blocks.drain(..now);
        self.forgotten -= now;
        // A window that was long once does not keep its memory for ever.
        if self.blocks.len() < self.blocks.capacity() / 4 {
            self.blocks.shrink_to(self.blocks.len() * 2);
        }
    }
}

impl PartialEq for HitLog {
    fn eq(&self, other: &HitLog) -> bool {
        let runs = |log: &HitLog| {
            let mut runs = Vec::new();
            log.for_each_run(|run| runs.push(run));
            runs
        };
        runs(self) == runs(other)
    }
}

impl Eq for HitLog {}

impl Block {
    /// A block without runs, which only stands until it gets some.
    fn empty(before: u64) -> Block {
        Block { first_ms: 0, last_ms: 0, before, start: 0, bytes: vec![] }
    }

    /// Puts `runs` in place of the block's own, and returns how many bytes they take, which may be
    /// more than a block should have.
    fn repack(&mut self, runs: &[Run]) -> usize {
        let first_ms = runs.first().map_or(0, |run| run.time_ms);
        (self.first_ms, self.last_ms, self.start) = (first_ms, first_ms, 0);
        self.bytes.clear();
        for &run in runs {
            let (packed, len) = packed(run, self.last_ms);
            self.bytes.extend_from_slice(packed.get(..len).unwrap_or_default());
            self.last_ms = run.time_ms;
        }
        self.bytes.len()
    }

    /// Appends a run that is not older than the last; false if it does not fit.
    fn push(&mut self, run: Run) -> bool {
        let (packed, len) = packed(run, self.last_ms);
        if self.bytes.len() + len > self.bytes.capacity().min(BLOCK_BYTES) {
            // What is forgotten makes room first: a window in steady use needs no more memory.
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        if self.bytes.len() + len > BLOCK_BYTES {
            return false;
        }
        self.bytes.extend_from_slice(packed.get(..len).unwrap_or_default());
        self.last_ms = run.time_ms;
        true
    }

    /// How many bytes more it holds as it is, with those that are forgotten.
    fn room(&self) -> usize {
        let live = self.bytes.len() - self.start;
        self.bytes.capacity().min(BLOCK_BYTES).saturating_sub(live)
    }

    /// How many bytes the runs at or before `time_ms` take.
    fn bytes_until(&self, time_ms: i64) -> usize {
        let mut end = self.bytes.len();
        self.runs(|run, start| {
            if run.time_ms > time_ms {
                end = start;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        end - self.start
    }

    /// Calls `each` with every run and where it begins, until told to stop.
    fn runs(&self, mut each: impl FnMut(Run, usize) -> ControlFlow<()>) {
        let mut at = self.start;
        let mut time_ms = self.first_ms;
        while at < self.bytes.len() {
            let start = at;
            let word = get(&self.bytes, &mut at);
            if start != self.start {
                time_ms = time_ms.saturating_add(i64::try_from(word >> 1).unwrap_or(i64::MAX));
            }
            let count = if word & 1 == 1 { get(&self.bytes, &mut at) } else { 1 };
            if each(Run { time_ms, count }, start).is_break() {
                return;
            }
        }
    }

    fn unpack(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        self.runs(|run, _| {
            runs.push(run);
            ControlFlow::Continue(())
        });
        runs
    }

    fn units(&self) -> u64 {
        let mut units: u64 = 0;
        self.runs(|run, _| {
            units = units.saturating_add(run.count);
            ControlFlow::Continue(())
        });
        units
    }

    /// Forgets the runs at or before `time_ms`, which are not all.
    fn forget_until(&mut self, time_ms: i64) {
        debug_assert!(time_ms < self.last_ms);
        if self.first_ms > time_ms {
            return;
        }
        let mut forgotten: u64 = 0;
        let mut first = (self.last_ms, self.start);
        self.runs(|run, start| {
            if run.time_ms > time_ms {
                first = (run.time_ms, start);
                return ControlFlow::Break(());
            }
            forgotten = forgotten.wrapping_add(run.count);
            ControlFlow::Continue(())
        });
        (self.first_ms, self.start) = first;
        self.before = self.before.wrapping_add(forgotten);
    }
}

/// A run as bytes behind one at `last_ms`, and how many they are.
fn packed(run: Run, last_ms: i64) -> ([u8; RUN_BYTES], usize) {
    let mut packed = [0; RUN_BYTES];
    let distance = u64::try_from(run.time_ms - last_ms).unwrap_or_default();
    let mut len = 0;
    // One bit says whether a count follows, so that a single hit is the distance alone.
    put(&mut packed, &mut len, (distance << 1) | u64::from(run.count > 1));
    if run.count > 1 {
        put(&mut packed, &mut len, run.count);
    }
    (packed, len)
}

/// Appends `value` to `bytes` from `len` on, seven bits a byte, the low ones first.
fn put(bytes: &mut [u8], len: &mut usize, value: u64) {
    let mut rest = value;
    while let Some(byte) = bytes.get_mut(*len) {
        let low = u8::try_from(rest & 0x7f).unwrap_or_default();
        rest >>= 7;
        *byte = if rest > 0 { low | 0x80 } else { low };
        *len += 1;
        if rest == 0 {
            return;
        }
    }
}

/// Reads what [`put`] wrote at `at`, and moves `at` behind it.
fn get(bytes: &[u8], at: &mut usize) -> u64 {
    let mut value = 0;
    let mut shift = 0;
    while let Some(&byte) = bytes.get(*at) {
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 || shift > 63 {
            break;
        }
    }
    value
}

/// The least index below `len` for which `before` is false, or `len`; `before` is true up to
/// some index and false from there on.
fn partition_point(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
