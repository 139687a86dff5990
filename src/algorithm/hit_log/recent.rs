//! The newest runs of a log: the open one, and up to [`KEPT`] before it, which are kept as bytes.
//!
//! All distances take as many bytes as the largest needs, and so do all counts, so that adding a
//! run writes one word at the end, and the whole is copied as it is.

use super::Run;

/// So many that a window of a dozen hits, the usual limit of a login or of a form, is all here.
pub const KEPT: usize = 15;
/// Most bytes of a run: a distance and a count, 32 bits each.
pub const KEPT_BYTES: usize = 8;
/// The bytes of all kept runs, and behind them as many as one access reads.
pub const RAW: usize = (KEPT + 1) * KEPT_BYTES;

/// The newest runs. The default is none.
#[derive(Clone, Copy, Debug)]
pub struct Recent {
    /// The newest run; a count of 0 says that the log is empty.
    pub open: Run,
    /// The runs before it.
    pub kept: Kept,
}

/// Runs before another, oldest first: each its distance to the one after it, and its count.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// How many.
    pub len: usize,
    /// How many bytes each distance has, 1 to 4.
    pub ahead_bytes: u32,
    /// How many bytes each count has, up to 4; 0 where all are 1.
    pub count_bytes: u32,
    /// The sum of the counts.
    pub units: u64,
    /// The sum of the distances, in ms.
    pub ms: i64,
    /// The distances and counts.
    pub raw: [u8; RAW],
}

impl Default for Recent {
    fn default() -> Recent {
        Recent::of(Run::default())
    }
}

impl Kept {
    /// No runs.
    const NONE: Kept =
        Kept { len: 0, ahead_bytes: 1, count_bytes: 0, units: 0, ms: 0, raw: [0; RAW] };

    /// How many bytes a run has.
    fn step(&self) -> usize {
        usize::try_from(self.ahead_bytes + self.count_bytes).unwrap_or(KEPT_BYTES)
    }

    /// How many bytes all runs have.
    pub fn bytes(&self) -> usize {
        self.len * self.step()
    }

    /// The distance and the count of a run.
    fn get(&self, index: usize) -> (u32, u32) {
        let rest = self.raw.get(index * self.step()..).and_then(|rest| rest.first_chunk());
        let word = rest.map_or(0, |&bytes| u64::from_le_bytes(bytes));
        let part = |word: u64, bytes: u32| u32::try_from(word & !(u64::MAX << (8 * bytes)));
        let ahead_ms = part(word, self.ahead_bytes).unwrap_or(u32::MAX);
        let count = match self.count_bytes {
            0 => 1,
            bytes => part(word >> (8 * self.ahead_bytes), bytes).unwrap_or(u32::MAX),
        };
        (ahead_ms, count)
    }

    fn set(&mut self, index: usize, (ahead_ms, count): (u32, u32)) {
        let ahead_bits = 8 * self.ahead_bytes;
        let at = index * self.step();
        let place = self.raw.get_mut(at..);
        if let Some(place) = place.and_then(|rest| rest.first_chunk_mut()) {
            let word = u64::from(ahead_ms) | (u64::from(count) << ahead_bits);
            *place = word.to_le_bytes();
        }
    }

    /// The distances and counts, oldest first.
    fn each(&self) -> impl DoubleEndedIterator<Item = (u32, u32)> + Clone {
        (0..self.len).map(|index| self.get(index))
    }

    /// Appends a run, if there is room.
    fn push(&mut self, ahead_ms: u32, count: u32) -> bool {
        if self.len >= KEPT {
            return false;
        }
        let ahead_bytes = bytes_of(ahead_ms).max(self.ahead_bytes);
        let count_bytes = if count == 1 { self.count_bytes } else { bytes_of(count) };
        let count_bytes = count_bytes.max(self.count_bytes);
        if (ahead_bytes, count_bytes) != (self.ahead_bytes, self.count_bytes) {
            let narrow = *self;
            (self.ahead_bytes, self.count_bytes) = (ahead_bytes, count_bytes);
            narrow.each().enumerate().for_each(|(index, run)| self.set(index, run));
        }
        self.set(self.len, (ahead_ms, count));
        self.len += 1;
        self.units += u64::from(count);
        self.ms += i64::from(ahead_ms);
        true
    }

    /// Takes the oldest `number` out.
    fn shift(&mut self, number: usize) {
        if number >= self.len {
            *self = Kept::NONE;
            return;
        }
        for index in 0..number {
            let (ahead_ms, count) = self.get(index);
            self.units -= u64::from(count);
            self.ms -= i64::from(ahead_ms);
        }
        let left = number * self.step()..self.bytes();
        self.raw.copy_within(left, 0);
        self.len -= number;
    }

    /// Takes the newest out.
    fn pop(&mut self) {
        let newest = self.each().next_back();
        if let Some((ahead_ms, count)) = newest {
            self.len -= 1;
            self.units -= u64::from(count);
            self.ms -= i64::from(ahead_ms);
        }
    }
}

impl Recent {
    /// The open run alone.
    pub const fn of(open: Run) -> Recent {
        Recent { open, kept: Kept::NONE }
    }

    /// The runs, newest first; none of an empty log.
    pub fn newest_first(&self) -> impl Iterator<Item = Run> {
        let mut time_ms = self.open.time_ms;
        let kept = self.kept.each().rev().map(move |(ahead_ms, count)| {
            time_ms = time_ms.saturating_sub(i64::from(ahead_ms));
            Run { time_ms, count: u64::from(count) }
        });
        (self.open.count > 0).then_some(self.open).into_iter().chain(kept)
    }

    /// The runs before the open one, oldest first.
    pub fn before_open(&self) -> impl Iterator<Item = Run> + Clone {
        let mut next_ms = self.oldest_ms();
        self.kept.each().map(move |(ahead_ms, count)| {
            let time_ms = next_ms;
            next_ms = next_ms.saturating_add(i64::from(ahead_ms));
            Run { time_ms, count: u64::from(count) }
        })
    }

    /// When the oldest run came; void if there is none.
    pub fn oldest_ms(&self) -> i64 {
        self.open.time_ms.saturating_sub(self.kept.ms)
    }

    /// The units of all runs.
    pub fn units(&self) -> u64 {
        self.open.count.saturating_add(self.kept.units)
    }

    /// Whether the open run can be kept as one before `next`, by its distance and count.
    pub fn fits(&self, next: Run) -> Option<(u32, u32)> {
        let ahead_ms = next.time_ms.checked_sub(self.open.time_ms)?;
        Some((ahead_ms.try_into().ok()?, self.open.count.try_into().ok()?))
    }

    /// Whether `next`, which is younger, can be opened and the open run be kept.
    pub fn has_room_for(&self, next: Run) -> bool {
        self.kept.len < KEPT && self.fits(next).is_some()
    }

    /// Opens `next`, which is younger, and keeps the run that was open, if there is room.
    pub fn open_next(&mut self, next: Run) -> bool {
        let fits = self.fits(next);
        let opened = fits.is_some_and(|(ahead_ms, count)| self.kept.push(ahead_ms, count));
        if opened {
            self.open = next;
        }
        opened
    }

    /// Takes the open run out; the one before it is open then, or none.
    pub fn pop(&mut self) -> Run {
        let popped = self.open;
        let before = self.newest_first().nth(1);
        self.open = before.unwrap_or_default();
        self.kept.pop();
        popped
    }

    /// Forgets the runs at or before `time_ms`, which is before the open one, and tells whether
    /// there were any.
    pub fn forget_until(&mut self, time_ms: i64) -> bool {
        debug_assert!(time_ms < self.open.time_ms);
        if self.oldest_ms() > time_ms {
            return false;
        }
        let old = self.before_open().take_while(|run| run.time_ms <= time_ms).count();
        self.kept.shift(old);
        true
    }
}

/// How many bytes a number has, none for 0.
fn bytes_of(value: u32) -> u32 {
    (u32::BITS - value.leading_zeros()).div_ceil(8)
}
