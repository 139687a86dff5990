//! The state of a sliding window as it lies in memory: 32 bytes for a window of an ordinary limit
//! and up to five hits, more where there are more, at most [`MOST`]. Blocks of older hits lie
//! elsewhere; their address is one of the numbers.
//!
//! Six bytes tell the room of the value and how long each number is. The numbers follow: the
//! address of the blocks, if there are any; limit, window in ms, time of the last write in µs,
//! units of the newest run, and how long before that write it came, in ms; units in blocks, and
//! how long before the newest run the oldest of them came; the runs before the newest, as they are
//! ([`Kept`]), after the sums of their units and distances.

use super::{Buffer, WORD};
use crate::algorithm::hit_log::{KEPT, KEPT_BYTES, Kept, Outline, RAW, Recent, Run};
use crate::algorithm::sliding_window::{Quota, ms};

/// The room of a value is a multiple of this, as an allocation is.
const STEP: usize = 16;
/// Least room of a value: two steps.
const LEAST: usize = 2 * STEP;
/// Most room of a value.
pub const MOST: usize = 13 * STEP;

/// Bytes that tell the lengths.
const HEADER: usize = 6;
/// All numbers but the runs before the newest.
const NUMBERS: usize = 10 * WORD;
/// Longer than any state by one access.
const BUFFER: usize = HEADER + NUMBERS + RAW;

// The longest state.
const _: () = assert!(HEADER + NUMBERS + KEPT * KEPT_BYTES <= MOST);
const _: () = assert!(KEPT < 16);

/// Where the address of the blocks is, in a value that has some.
pub const ADDRESS: usize = HEADER;
/// Its length.
pub const ADDRESS_BYTES: usize = WORD;

/// What a value holds besides the blocks.
#[derive(Clone, Debug)]
pub struct Unpacked {
    /// The limit.
    pub quota: Quota,
    /// The time of the last write, in µs since the epoch.
    pub at_us: u64,
    /// The hits, but those in blocks.
    pub outline: Outline,
    /// The address of the blocks, if there are any.
    pub address: Option<u64>,
}

/// Bytes of a value.
pub struct Packed {
    buffer: Buffer<BUFFER>,
    room: usize,
}

impl Packed {
    /// How many bytes the value has.
    pub fn room(&self) -> usize {
        self.room
    }

    /// The bytes that tell something: those behind them, up to the room, are void.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.0.get(..self.buffer.len()).unwrap_or_default()
    }
}

/// The room of a value by its first byte, in bytes.
pub fn room(first: u8) -> usize {
    usize::from(first & 15) * STEP
}

/// Whether a value with this header has an address.
pub fn has_address(header: [u8; HEADER_READ]) -> bool {
    header.last().is_some_and(|last| last & 1 == 1)
}

/// So many bytes tell whether a value has an address.
pub const HEADER_READ: usize = 4;

/// Packs a state into a value of at least `room` bytes; `address` is that of its blocks, if it has
/// any.
pub fn pack(
    quota: &Quota,
    at_us: u64,
    outline: &Outline,
    address: Option<u64>,
    room: usize,
) -> Packed {
    let mut buffer = Buffer::new(HEADER);
    let recent = &outline.recent;
    let mut header = u64::from(address.is_some()) << 24 | u64::from(outline.frees) << 25;
    if let Some(address) = address {
        buffer.put_bytes(address, u64::BITS / 8);
    }
    header |= u64::from(buffer.put(quota.limit)) << 4;
    header |= u64::from(buffer.put(quota.window_ms)) << 7;
    header |= u64::from(buffer.put(at_us)) << 10;
    header |= u64::from(buffer.put(recent.open.count)) << 13;
    if recent.open.count > 0 {
        let lag_ms = written_ms(at_us).wrapping_sub(recent.open.time_ms);
        header |= u64::from(buffer.put_level(zigzag(lag_ms).into())) << 16;
    }
    if address.is_some() {
        let first_ms = recent.open.time_ms.wrapping_sub(outline.older_first_ms);
        header |= u64::from(buffer.put(outline.older_units)) << 26;
        header |= u64::from(buffer.put(first_ms.cast_unsigned())) << 29;
    }
    let kept = &recent.kept;
    if kept.len > 0 {
        header |= u64::try_from(kept.len).unwrap_or_default() << 20;
        header |= u64::from(kept.ahead_bytes) << 32 | u64::from(kept.count_bytes) << 35;
        header |= u64::from(buffer.put(kept.units)) << 38;
        header |= u64::from(buffer.put(kept.ms.cast_unsigned())) << 41;
        buffer.put_array(&kept.raw, kept.bytes());
    }
    let room = buffer.len().next_multiple_of(STEP).max(room).max(LEAST);
    debug_assert!(room <= MOST);
    header |= u64::try_from(room / STEP).unwrap_or_default();
    buffer.put_header(&header.to_le_bytes(), HEADER);
    Packed { buffer, room }
}

/// Reads the bytes of a value.
pub fn unpack(bytes: &[u8]) -> Unpacked {
    let mut buffer = Buffer::<BUFFER>::of(bytes, HEADER);
    let header = u64::from_le_bytes(buffer.first());
    let bits = |from: u32| u32::try_from((header >> from) & 15).unwrap_or_default();
    let has_address = header >> 24 & 1 == 1;
    let address = has_address.then(|| buffer.get_bytes(u64::BITS / 8));
    let limit = buffer.get(bits(4));
    let window_ms = buffer.get(bits(7));
    let at_us = buffer.get(bits(10));
    let count = buffer.get(bits(13));
    let mut open = Run::default();
    if count > 0 {
        let lag_ms = unzigzag(u64::try_from(buffer.get_level(bits(16))).unwrap_or_default());
        open = Run { time_ms: written_ms(at_us).wrapping_sub(lag_ms), count };
    }
    let mut outline = Outline { recent: Recent::of(open), ..Outline::default() };
    outline.frees = header >> 25 & 1 == 1;
    if has_address {
        outline.older_units = buffer.get(bits(26));
        let first_ms = buffer.get(bits(29)).cast_signed();
        outline.older_first_ms = open.time_ms.wrapping_sub(first_ms);
    }
    let len = usize::try_from(bits(20)).unwrap_or_default();
    if len > 0 {
        let (ahead_bytes, count_bytes) = (bits(32) & 7, bits(35) & 7);
        let (units, ms) = (buffer.get(bits(38)), buffer.get(bits(41)).cast_signed());
        let raw = buffer.array();
        outline.recent.kept = Kept { len, ahead_bytes, count_bytes, units, ms, raw };
    }
    Unpacked { quota: Quota { limit, window_ms }, at_us, outline, address }
}

/// A hit of the last write mostly has this time.
fn written_ms(at_us: u64) -> i64 {
    ms(at_us.div_ceil(1000))
}

/// Small numbers for small ones of either sign.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::hit_log::HitLog;
    use crate::limits;

    /// Numbers of every length.
    fn number() -> impl Strategy<Value = u64> {
        (0..64_u32, any::<u64>()).prop_map(|(shift, top)| top >> shift)
    }

    fn runs(outline: &Outline) -> Vec<Run> {
        outline.recent.newest_first().collect()
    }

    fn small() -> impl Strategy<Value = u32> {
        (0..32_u32, any::<u32>()).prop_map(|(shift, top)| top >> shift)
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            (limit, window_ms, at_us) in (number(), number(), 0..=limits::MAX_TIME_US),
            address in prop::option::of(any::<u64>()),
            (older_units, first_ms, frees) in (number(), number(), any::<bool>()),
            (lag_ms, count) in (number(), number()),
            kept in prop::collection::vec((small(), small()), 0..=KEPT),
            steps in 0..=13_usize,
        ) {
            let mut recent = Recent::default();
            for (ahead_ms, count) in kept {
                let time_ms = recent.open.time_ms + i64::from(ahead_ms);
                recent.open_next(Run { time_ms, count: u64::from(count.max(1)) });
            }
            let time_ms = written_ms(at_us).wrapping_sub(lag_ms.cast_signed());
            recent.open = Run { time_ms, count: count.max(1) };
            if recent.kept.len == 0 && count == 0 {
                recent = Recent::default();
            }
            let mut outline = Outline { recent, frees, ..Outline::default() };
            if address.is_some() {
                outline.older_units = older_units;
                outline.older_first_ms = recent.open.time_ms.wrapping_sub(first_ms.cast_signed());
            }
            let state = Unpacked { quota: Quota { limit, window_ms }, at_us, outline, address };
            let packed = pack(&state.quota, at_us, &outline, address, steps * STEP);
            prop_assert!(packed.room() >= packed.bytes().len().max(steps * STEP).max(LEAST));
            prop_assert!(packed.room() <= MOST && packed.room().is_multiple_of(STEP));
            let first = packed.bytes().first().copied().unwrap_or_default();
            prop_assert_eq!(room(first), packed.room());
            let header = packed.bytes().first_chunk().copied().unwrap_or_default();
            prop_assert_eq!(has_address(header), address.is_some());

            let mut bytes = packed.bytes().to_vec();
            // What is behind is void.
            bytes.resize(packed.room(), 0xa5);
            let read = unpack(&bytes);
            prop_assert_eq!((read.quota, read.at_us), (state.quota, at_us));
            prop_assert_eq!(read.address, address);
            prop_assert_eq!(runs(&read.outline), runs(&outline));
            prop_assert_eq!(read.outline.recent.units(), outline.recent.units());
            prop_assert_eq!(read.outline.recent.oldest_ms(), outline.recent.oldest_ms());
            prop_assert_eq!(read.outline.older_units, outline.older_units);
            prop_assert_eq!(read.outline.older_first_ms, outline.older_first_ms);
            prop_assert_eq!(read.outline.frees, frees);
        }
    }

    const NOW_US: u64 = 1_800_000_000_000_000;

    fn packed(outline: &Outline, address: Option<u64>) -> (Packed, Unpacked) {
        let quota = Quota { limit: 100, window_ms: 60_000 };
        let packed = pack(&quota, NOW_US, outline, address, 0);
        let mut bytes = packed.bytes().to_vec();
        bytes.resize(packed.room(), 0xa5);
        let read = unpack(&bytes);
        assert_eq!((read.quota, read.at_us, read.address), (quota, NOW_US, address));
        (packed, read)
    }

    fn one(time_ms: i64) -> Outline {
        Outline { recent: Recent::of(Run { time_ms, count: 1 }), ..Outline::default() }
    }

    /// Of a limit of one byte, a window of two and a time of seven.
    #[test]
    fn what_is_not_there_takes_no_byte() {
        let numbers = HEADER + 1 + 2 + 7 + 1;
        assert_eq!(packed(&Outline::default(), None).0.bytes().len(), numbers);
        assert_eq!(packed(&one(written_ms(NOW_US)), None).0.bytes().len(), numbers);
    }

    /// A log whose hits have all left, and whose blocks wait to be freed.
    #[test]
    fn an_empty_log_may_have_blocks() {
        let (_, read) = packed(&Outline { frees: true, ..Outline::default() }, Some(0x7f00_0010));
        assert_eq!(read.outline.recent.open, Run::default());
        assert_eq!((read.outline.older_units, read.outline.older_first_ms), (0, 0));
        assert!(read.outline.frees);
    }

    /// A coarse resolution puts a hit ahead of its write.
    #[test]
    fn the_newest_hit_may_come_after_the_write() {
        for ahead_ms in [1, 63, 64, 60_000, 315_360_000_000] {
            let outline = one(written_ms(NOW_US) + ahead_ms);
            assert_eq!(packed(&outline, None).1.outline.recent.open, outline.recent.open);
        }
    }

    #[test]
    fn the_smallest_state_has_two_steps() {
        let quota = Quota { limit: 1, window_ms: 1 };
        let packed = pack(&quota, 0, &Outline::default(), None, 0);
        assert!(packed.bytes().len() <= STEP);
        assert_eq!(packed.room(), 32);
        assert_eq!(packed.bytes().first().copied().map(room), Some(32));
    }

    /// The room of a window that takes so many hits, evenly spread.
    fn room_of(limit: u64, window_ms: u64, hits: u32) -> usize {
        let mut log = HitLog::default();
        for hit in (0..hits).rev() {
            let gap_ms = window_ms / u64::from(hits);
            log.add(Run { time_ms: ms(NOW_US / 1000 - u64::from(hit) * gap_ms), count: 1 });
        }
        assert!(log.take_blocks().is_none(), "{hits} hits");
        pack(&Quota { limit, window_ms }, NOW_US, log.outline(), None, 0).room()
    }

    #[test]
    fn short_windows_are_small() {
        assert_eq!(room_of(100, 60_000, 1), 32);
        assert_eq!(room_of(1_000_000, 86_400_000, 1), 32);
        assert_eq!(room_of(5, 60_000, 5), 32);
        assert_eq!(room_of(10, 60_000, 10), 48);
        assert_eq!(room_of(16, 3_600_000, 16), 80);
    }
}
