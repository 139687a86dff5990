//! The older runs of a log, packed into blocks of at most [`BLOCK_BYTES`].
//!
//! Each run is the distance to the one before it and, where it is not 1, its count: two bytes for
//! a single hit that comes within 8 s of the one before. Each block knows its first and last time
//! and how many units lie before it.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use super::Run;

/// Most bytes in a block: small enough to unpack within a microsecond, large enough that the
/// header of a block adds a tenth to its size.
const BLOCK_BYTES: usize = 512;
/// Most bytes of one packed run: two numbers of 64 bits, seven bits a byte.
const RUN_BYTES: usize = 20;
/// Most blocks given back to the allocator by one change.
const FREED_AT_ONCE: usize = 64;

/// Packed runs, oldest first. The default is none.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    /// The first `forgotten` blocks only wait to be freed.
    blocks: VecDeque<Block>,
    forgotten: usize,
    /// Where the units end, on the scale of [`Block::before`].
    end: u64,
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

impl Blocks {
    /// Whether no memory is held, not even that of what is forgotten.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Whether blocks wait to be freed.
    pub fn frees(&self) -> bool {
        self.forgotten > 0
    }

    /// The units of all runs.
    pub fn units(&self) -> u64 {
        self.live().next().map_or(0, |block| self.end.wrapping_sub(block.before))
    }

    /// When the oldest run came.
    pub fn first_ms(&self) -> Option<i64> {
        self.live().next().map(|block| block.first_ms)
    }

    /// Units of the runs at or before `time_ms`.
    pub fn units_until(&self, time_ms: i64) -> u64 {
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
        let oldest = self.live().next()?;
        // The last block with fewer than n units before it.
        let before = |block: &Block| block.before.wrapping_sub(oldest.before);
        let block = self.blocks.get(self.last_live_while(|block| before(block) < n))?;
        let mut units = before(block);
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
    }

    /// Forgets the runs at or before `time_ms`.
    pub fn forget_until(&mut self, time_ms: i64) {
        self.forgotten = self.block_after(time_ms);
        if let Some(block) = self.blocks.get_mut(self.forgotten) {
            block.forget_until(time_ms);
        }
    }

    /// Forgets all runs.
    pub fn forget_all(&mut self) {
        self.forgotten = self.blocks.len();
    }

    /// Takes the newest `units` out; the run that is left of one that was cut, or the newest, comes
    /// out too, to be opened.
    pub fn take_newest(&mut self, units: u64) -> Option<Run> {
        let mut left = units;
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
        if self.blocks.len() == self.forgotten {
            return None;
        }
        let block = self.blocks.pop_back()?;
        self.end = block.before;
        let mut runs = block.unpack();
        let mut newest = None;
        while let Some(run) = runs.pop() {
            if left < run.count {
                newest = Some(Run { count: run.count - left, ..run });
                break;
            }
            left -= run.count;
        }
        runs.into_iter().for_each(|run| self.push(run));
        newest
    }

    /// Moves all runs back by `ms`.
    pub fn move_back(&mut self, ms: i64) {
        for block in &mut self.blocks {
            block.first_ms = block.first_ms.saturating_sub(ms);
            block.last_ms = block.last_ms.saturating_sub(ms);
        }
    }

    /// Whether pushing `kept` and then adding `run` at its place, after what is at or before
    /// `cut_ms` is forgotten, takes more memory.
    pub fn grows_with_insert(
        &self,
        kept: impl Iterator<Item = Run>,
        run: Run,
        cut_ms: i64,
    ) -> bool {
        let place = self.place_of(run.time_ms).max(self.block_after(cut_ms));
        if place + 1 == self.blocks.len() {
            return self.grows_with(kept, RUN_BYTES, cut_ms);
        }
        let has_room = |block: &Block| RUN_BYTES <= block.room() + block.bytes_until(cut_ms);
        !self.blocks.get(place).is_some_and(has_room) || self.grows_with(kept, 0, cut_ms)
    }

    /// Whether pushing these runs and `more` bytes into the last block, after what is at or before
    /// `cut_ms` is forgotten, takes more memory.
    pub fn grows_with(&self, runs: impl Iterator<Item = Run>, more: usize, cut_ms: i64) -> bool {
        // A block that is forgotten whole gives way to a new one.
        let stays = |block: &&Block| block.last_ms > cut_ms;
        let Some(block) = self.newest_block().filter(stays) else { return true };
        let mut last_ms = block.last_ms;
        let mut len = more;
        for run in runs {
            len += packed(run, last_ms).1;
            last_ms = run.time_ms;
        }
        let lacking = len.checked_sub(block.room());
        lacking.is_some_and(|lacking| lacking > block.bytes_until(cut_ms))
    }

    /// How many blocks end after `time_ms`.
    pub fn blocks_after(&self, time_ms: i64) -> usize {
        self.blocks.len() - self.block_after(time_ms)
    }

    /// Bytes that so many blocks take at most.
    pub fn bytes_of(blocks: usize) -> u64 {
        // A deque may have room for twice as many as there are.
        u64::try_from(blocks * (BLOCK_BYTES + 2 * size_of::<Block>())).unwrap_or(u64::MAX)
    }

    /// Hands the memory of block `index` to `mover`, which may return the same bytes at another
    /// place. False if there is no such block.
    pub fn relocate(&mut self, index: usize, mover: impl FnOnce(Vec<u8>) -> Vec<u8>) -> bool {
        let Some(block) = self.blocks.get_mut(index) else { return false };
        block.bytes = mover(std::mem::take(&mut block.bytes));
        true
    }

    /// Bytes on the heap, these here included, where `usable` says what the allocation of a block's
    /// bytes really takes.
    pub fn heap_bytes(&self, usable: impl Fn(&Vec<u8>) -> usize) -> usize {
        let headers = size_of::<Blocks>() + self.blocks.capacity() * size_of::<Block>();
        headers + self.blocks.iter().map(|block| usable(&block.bytes)).sum::<usize>()
    }

    /// How many allocations freeing gives back.
    pub fn allocations(&self) -> usize {
        self.blocks.len() + 2
    }

    fn live(&self) -> impl Iterator<Item = &Block> {
        self.blocks.range(self.forgotten.min(self.blocks.len())..)
    }

    fn newest_block(&self) -> Option<&Block> {
        if self.blocks.len() > self.forgotten { self.blocks.back() } else { None }
    }

    /// Index of the first live block that ends after `time_ms`, or how many blocks there are.
    fn block_after(&self, time_ms: i64) -> usize {
        self.live_while(|block| block.last_ms <= time_ms)
    }

    /// Index of the live block that begins at or before `time_ms`, else of the oldest; of none if
    /// there is none.
    fn place_of(&self, time_ms: i64) -> usize {
        self.last_live_while(|block| block.first_ms <= time_ms)
    }

    /// Index of the first live block for which `holds` is false, or how many blocks there are.
    /// `holds` is true up to some live block and false from there on.
    fn live_while(&self, holds: impl Fn(&Block) -> bool) -> usize {
        let (mut low, mut high) = (self.forgotten, self.blocks.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.blocks.get(middle).is_some_and(&holds) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Index of the last live block for which `holds` is true, else of the oldest.
    fn last_live_while(&self, holds: impl Fn(&Block) -> bool) -> usize {
        self.live_while(holds).saturating_sub(1).max(self.forgotten)
    }

    /// Appends a run that is younger than all others.
    pub fn push(&mut self, run: Run) {
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

    /// Adds a run at its place.
    pub fn insert(&mut self, run: Run) {
        let place = self.place_of(run.time_ms);
        let Some(block) = self.blocks.get_mut(place) else { return self.push(run) };
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

    /// Gives back some of the memory of what is forgotten.
    pub fn free_some(&mut self) {
        let now = self.forgotten.min(FREED_AT_ONCE);
        self.blocks.drain(..now);
        self.forgotten -= now;
        // A window that was long once does not keep its memory for ever.
        if self.blocks.len() < self.blocks.capacity() / 4 {
            self.blocks.shrink_to(self.blocks.len() * 2);
        }
    }
}

impl Block {
    /// A block without runs, which only stands until it gets some.
    fn empty(before: u64) -> Block {
        Block { first_ms: 0, last_ms: 0, before, start: 0, bytes: vec![] }
    }

    /// Puts `runs` in place of the block's own, and returns how many bytes they take, which may be
    /// more than a block should have. No more memory is kept than that or a full block needs.
    fn repack(&mut self, runs: &[Run]) -> usize {
        let first_ms = runs.first().map_or(0, |run| run.time_ms);
        (self.first_ms, self.last_ms, self.start) = (first_ms, first_ms, 0);
        self.bytes.clear();
        for &run in runs {
            let (packed, len) = packed(run, self.last_ms);
            self.bytes.extend_from_slice(packed.get(..len).unwrap_or_default());
            self.last_ms = run.time_ms;
        }
        self.bytes.shrink_to(BLOCK_BYTES);
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
        // A vector that was full, as that of a copy is, has twice the room now.
        self.bytes.shrink_to(BLOCK_BYTES);
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
        if byte < 0x80 || shift >= u64::BITS {
            break;
        }
    }
    value
}
