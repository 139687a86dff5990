//! Hit log: the hits of one window in order of time, as runs of (time, count), in few bytes.
//!
//! The newest run is open: more hits of its millisecond only raise its count. It and those few
//! before it that lie beside it ([`Recent`]) are all of a short log. The runs before them are
//! packed into blocks elsewhere ([`Blocks`]), which a long log touches only now and then: when the
//! runs beside the open one are as many as there is room for, or when its oldest hits leave the
//! window. What most calls ask of the blocks, how many units they hold and how old the oldest is,
//! is noted beside the open run too ([`Outline`]). So:
//!
//! - adding a hit at the end is O(1); adding one before the end (only possible where calls mix
//!   resolutions) unpacks one block, and passes once over the headers of the younger ones;
//! - "how many hits are younger than t" and "when did the n-th oldest hit come" are a binary search
//!   over the blocks and a walk within one;
//! - forgetting a prefix is a binary search; the memory of forgotten blocks is given back a few at
//!   a time, so that a million hits which expire together stall nobody.
//!
//! What a log holds is a function of its runs alone; where they lie never shows outside.

mod blocks;
mod recent;

use std::cmp::Ordering;

pub use blocks::Blocks;
pub use recent::{KEPT, KEPT_BYTES, Kept, RAW, Recent};

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
    /// The runs before those of the outline.
    older: Option<Box<Blocks>>,
    outline: Outline,
}

/// What a log has besides its blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outline {
    /// The newest runs.
    pub recent: Recent,
    /// How many units the blocks hold.
    pub older_units: u64,
    /// When the oldest of them came, in ms since the epoch; void if there are none.
    pub older_first_ms: i64,
    /// Blocks wait to be freed.
    pub frees: bool,
}

impl Outline {
    fn units(&self) -> u64 {
        self.older_units.saturating_add(self.recent.units())
    }

    /// When the oldest hit came; void if there is none.
    fn oldest_ms(&self) -> i64 {
        if self.older_units > 0 { self.older_first_ms } else { self.recent.oldest_ms() }
    }
}

impl HitLog {
    /// The log of an outline and the blocks that belong to it.
    pub fn from_parts(outline: Outline, older: Option<Box<Blocks>>) -> HitLog {
        HitLog { older, outline }
    }

    /// What the log has besides its blocks.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Takes the blocks out, which leaves a log that is only good for its outline.
    pub fn take_blocks(&mut self) -> Option<Box<Blocks>> {
        self.older.take()
    }

    /// Whether the log holds no hit.
    pub fn is_empty(&self) -> bool {
        self.outline.recent.open.count == 0
    }

    /// All units.
    pub fn units(&self) -> u64 {
        self.outline.units()
    }

    /// The time of the newest hit.
    pub fn newest_ms(&self) -> Option<i64> {
        (!self.is_empty()).then_some(self.outline.recent.open.time_ms)
    }

    /// Units of the hits at or before `time_ms`.
    pub fn units_until(&self, time_ms: i64) -> u64 {
        // Most calls ask what has left the window, and mostly nothing has.
        if self.outline.oldest_ms() > time_ms {
            return 0;
        }
        if self.outline.recent.oldest_ms() > time_ms {
            return self.older.as_ref().map_or(0, |older| older.units_until(time_ms));
        }
        let mut after: u64 = 0;
        for run in self.outline.recent.newest_first() {
            if run.time_ms <= time_ms {
                return self.units().saturating_sub(after);
            }
            after = after.saturating_add(run.count);
        }
        0
    }

    /// The time of the `n`-th oldest unit, counted from 1; of the newest if there are fewer.
    pub fn time_of_unit(&self, n: u64) -> Option<i64> {
        if n <= 1 && !self.is_empty() {
            // A denial mostly asks for the oldest.
            return Some(self.outline.oldest_ms());
        }
        if n <= self.outline.older_units {
            return self.older.as_ref().and_then(|older| older.time_of_unit(n));
        }
        let mut before = self.units();
        for run in self.outline.recent.newest_first() {
            before = before.saturating_sub(run.count);
            if n > before {
                return Some(run.time_ms);
            }
        }
        None
    }

    /// Calls `each` with every run, oldest first.
    pub fn for_each_run(&self, mut each: impl FnMut(Run)) {
        if let Some(older) = &self.older {
            older.for_each_run(&mut each);
        }
        let recent = &self.outline.recent;
        recent.before_open().for_each(&mut each);
        if !self.is_empty() {
            each(recent.open);
        }
    }

    /// Adds hits; more at a time that is there already are one run with it.
    pub fn add(&mut self, run: Run) {
        debug_assert!(run.count > 0);
        let open = &mut self.outline.recent.open;
        match run.time_ms.cmp(&open.time_ms) {
            _ if open.count == 0 => *open = run,
            Ordering::Equal => open.count = open.count.saturating_add(run.count),
            Ordering::Greater => self.open_next(run),
            Ordering::Less => {
                self.pack_kept();
                self.with_blocks(|blocks| blocks.insert(run));
            }
        }
        self.free_some();
    }

    /// Opens a run that is younger than all others.
    fn open_next(&mut self, run: Run) {
        if self.outline.recent.open_next(run) {
            return;
        }
        self.pack_kept();
        if !self.outline.recent.open_next(run) {
            let open = std::mem::replace(&mut self.outline.recent.open, run);
            self.with_blocks(|blocks| blocks.push(open));
        }
    }

    /// Packs all runs before the open one.
    fn pack_kept(&mut self) {
        let recent = self.outline.recent;
        self.outline.recent = Recent::of(recent.open);
        self.with_blocks(|blocks| recent.before_open().for_each(|run| blocks.push(run)));
    }

    /// Forgets the hits at or before `time_ms`.
    pub fn forget_until(&mut self, time_ms: i64) {
        if self.outline.oldest_ms() > time_ms {
            return self.free_some();
        }
        let all = self.outline.recent.open.time_ms <= time_ms;
        if all {
            self.outline.recent = Recent::default();
        }
        let recent_too = all || self.outline.recent.forget_until(time_ms);
        if self.older.is_some() {
            self.with_blocks(|blocks| {
                if recent_too { blocks.forget_all() } else { blocks.forget_until(time_ms) }
            });
        }
        self.free_some();
    }

    /// Takes the newest `units` out; all of them if there are fewer.
    pub fn take_newest(&mut self, units: u64) {
        let mut left = units;
        while !self.is_empty() {
            let open = &mut self.outline.recent.open;
            if left < open.count {
                open.count -= left;
                return;
            }
            left -= self.outline.recent.pop().count;
        }
        if self.older.is_some() {
            let newest = self.with_blocks(|blocks| blocks.take_newest(left));
            self.outline.recent.open = newest.unwrap_or_default();
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
        let open = &mut self.outline.recent.open;
        open.time_ms = open.time_ms.saturating_sub(ms);
        if self.older.is_some() {
            self.with_blocks(|blocks| blocks.move_back(ms));
        }
    }

    /// Moves hits after `newest_ms` to that time.
    pub fn hold_back(&mut self, newest_ms: i64) {
        if self.is_empty() || self.outline.recent.open.time_ms <= newest_ms {
            return;
        }
        let count = self.units().saturating_sub(self.units_until(newest_ms));
        self.take_newest(count);
        self.add(Run { time_ms: newest_ms, count });
    }

    /// Whether adding `run`, after the hits at or before `cut_ms` are forgotten, takes memory for
    /// one more block or a longer one.
    pub fn grows_with(&self, run: Run, cut_ms: Option<i64>) -> bool {
        let cut_ms = cut_ms.unwrap_or(i64::MIN);
        let open = self.outline.recent.open;
        if open.count == 0 || open.time_ms <= cut_ms {
            return false;
        }
        let at_end = match run.time_ms.cmp(&open.time_ms) {
            Ordering::Equal => return false,
            order => order.is_gt(),
        };
        if at_end && self.outline.recent.has_room_for(run) {
            return false;
        }
        let mut recent = self.outline.recent;
        let cut = recent.forget_until(cut_ms);
        if at_end && recent.open_next(run) {
            return false;
        }
        // What is forgotten whole gives way to a new block.
        let Some(older) = self.older.as_ref().filter(|_| !cut) else { return true };
        let kept = recent.before_open();
        if !at_end {
            older.grows_with_insert(kept, run, cut_ms)
        } else if recent.fits(run).is_none() {
            older.grows_with(kept.chain([open]), 0, cut_ms)
        } else {
            older.grows_with(kept, 0, cut_ms)
        }
    }

    /// Bytes that the blocks take at most once `run` is added, after the hits at or before `cut_ms`
    /// are forgotten, where [`grows_with`](Self::grows_with) says that this takes memory. A log
    /// that was longer may take more, but no more than was told then.
    pub fn bytes_with(&self, run: Run, cut_ms: Option<i64>) -> u64 {
        let cut_ms = cut_ms.unwrap_or(i64::MIN);
        let blocks = self.older.as_ref().map_or(0, |older| older.blocks_after(cut_ms));
        // Before one is put into its place, which may be a full block, the newest are packed.
        let more = if run.time_ms < self.outline.recent.open.time_ms { 2 } else { 1 };
        Blocks::bytes_of(blocks + more)
    }

    /// Hands the memory of block `index` to `mover`, which may return the same bytes at another
    /// place: for a server that defragments its memory. False if there is no such block.
    pub fn relocate(&mut self, index: usize, mover: impl FnOnce(Vec<u8>) -> Vec<u8>) -> bool {
        self.older.as_mut().is_some_and(|older| older.relocate(index, mover))
    }

    /// Bytes on the heap, where `usable` says what the allocation of a block's bytes really takes.
    pub fn heap_bytes(&self, usable: impl Fn(&Vec<u8>) -> usize) -> usize {
        self.older.as_ref().map_or(0, |older| older.heap_bytes(usable))
    }

    /// How many allocations freeing the log gives back.
    pub fn allocations(&self) -> usize {
        1 + self.older.as_ref().map_or(0, |older| older.allocations())
    }

    /// Changes the blocks, makes them where there are none, and notes what is in them afterwards.
    fn with_blocks<T>(&mut self, change: impl FnOnce(&mut Blocks) -> T) -> T {
        let older = self.older.get_or_insert_default();
        let result = change(older);
        self.outline.older_units = older.units();
        self.outline.older_first_ms = older.first_ms().unwrap_or_default();
        self.outline.frees = older.frees() || older.is_empty();
        result
    }

    fn free_some(&mut self) {
        if self.outline.frees {
            self.with_blocks(Blocks::free_some);
            if self.older.as_ref().is_some_and(|older| older.is_empty()) {
                self.older = None;
                self.outline.frees = false;
            }
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
