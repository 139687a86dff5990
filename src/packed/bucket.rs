//! The state of a bucket as it lies in memory: [`SMALL`] bytes for ordinary limits, [`LARGE`] for
//! any, instead of the 64 that its fields take as they are. Servers hold millions of them.
//!
//! Three bytes tell how long each number is, the numbers follow, low bytes first: capacity,
//! mantissa of the rate, period in ms, time of the last write in µs, level in shares.

use super::{Buffer, DOUBLE, WORD};
use crate::algorithm::bucket::{Quota, Rate, State};
use crate::limits;

/// Bytes of a state with an ordinary limit: capacity up to 10^6, a rate with up to three decimals,
/// a period up to a day.
pub const SMALL: usize = 32;
/// Bytes of a state with any limit.
pub const LARGE: usize = 48;

/// Bytes that tell the lengths.
const HEADER: usize = 3;
/// Longer than any state by one access.
const BUFFER: usize = HEADER + 4 * WORD + DOUBLE + 13;

// The longest state: each number at the end of its range.
const _: () = assert!(limits::MAX_UNITS < 1 << 56);
const _: () = assert!(limits::MAX_MANTISSA < 1 << 60);
const _: () = assert!(limits::MAX_DURATION_MS < 1 << 40);
const _: () = assert!(limits::MAX_TIME_US < 1 << 63);
// A level is at most the mantissa times the longest reset: 14 bytes.
const _: () = assert!(limits::MAX_RESET_US < 1 << 52);
const _: () = assert!(HEADER + 7 + 8 + 5 + 8 + 14 <= LARGE);

/// A state, packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    /// One that fits into [`SMALL`] bytes.
    Small([u8; SMALL]),
    /// One that does not, or did not when its value was made.
    Large([u8; LARGE]),
}

/// Set in the last byte of the header of a large one.
const LARGE_MARK: u32 = 1 << 20;

/// Whether the bytes, of which at least the header is there, are those of a large one.
pub fn is_large(bytes: &[u8]) -> bool {
    bytes.get(HEADER - 1).is_some_and(|&last| u32::from(last) & (LARGE_MARK >> 16) != 0)
}

/// Packs `state`; large also if it would fit into fewer bytes, where `large` says that its value
/// has the room anyway.
pub fn pack(state: &State, large: bool) -> Packed {
    let mut buffer = Buffer::<BUFFER>::new(HEADER);
    let Quota { capacity, rate, period_ms } = state.quota;
    let mut header = u32::from(rate.decimals) << 16;
    header |= buffer.put(capacity);
    header |= buffer.put(rate.mantissa) << 3;
    header |= buffer.put(period_ms) << 6;
    header |= buffer.put(state.at_us) << 9;
    header |= buffer.put_level(state.level) << 12;
    let large = large || buffer.len() > SMALL;
    debug_assert!(buffer.len() <= LARGE);
    if large {
        header |= LARGE_MARK;
    }
    buffer.put_header(&header.to_le_bytes(), HEADER);
    if large { Packed::Large(buffer.first()) } else { Packed::Small(buffer.first()) }
}

impl Packed {
    /// The state.
    pub fn unpack(&self) -> State {
        let mut buffer = match self {
            Packed::Small(packed) => Buffer::<BUFFER>::holding(packed, HEADER),
            Packed::Large(packed) => Buffer::<BUFFER>::holding(packed, HEADER),
        };
        let header = u32::from_le_bytes(buffer.first()) & 0xff_ffff;
        let decimals = u8::try_from((header >> 16) & 0xf).unwrap_or_default();
        let capacity = buffer.get(header);
        let mantissa = buffer.get(header >> 3);
        let period_ms = buffer.get(header >> 6);
        let at_us = buffer.get(header >> 9);
        let level = buffer.get_level(header >> 12);
        let quota = Quota { capacity, rate: Rate { mantissa, decimals }, period_ms };
        State { quota, level, at_us }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn state(numbers: (u64, u64, u8, u64, u64, u128)) -> State {
        let (capacity, mantissa, decimals, period_ms, at_us, level) = numbers;
        let quota = Quota { capacity, rate: Rate { mantissa, decimals }, period_ms };
        State { quota, level, at_us }
    }

    /// Numbers of every length, the ends of the ranges among them.
    fn below(max: u64) -> impl Strategy<Value = u64> {
        prop_oneof![Just(max), (0..64_u32, 1..=max).prop_map(|(shift, top)| (top >> shift).max(1))]
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            capacity in below(limits::MAX_UNITS),
            mantissa in below(limits::MAX_MANTISSA),
            decimals in 0..=limits::MAX_DECIMALS,
            period_ms in below(limits::MAX_DURATION_MS),
            at_us in below(limits::MAX_TIME_US),
            time in below(limits::MAX_RESET_US),
            large in any::<bool>(),
        ) {
            let level = u128::from(mantissa) * u128::from(time);
            let state = state((capacity, mantissa, decimals, period_ms, at_us, level));
            let packed = pack(&state, large);
            prop_assert_eq!(packed.unpack(), state);
            let marked = match &packed {
                Packed::Small(bytes) => is_large(bytes),
                Packed::Large(bytes) => is_large(bytes),
            };
            prop_assert_eq!(marked, matches!(packed, Packed::Large(_)));
        }
    }

    #[test]
    fn ordinary_limits_are_small() {
        let day_ms = 86_400_000;
        let now_us = 1_800_000_000_000_000;
        // A million units, all missing, at a rate with three decimals a day.
        for (mantissa, decimals) in [(999_999_999, 3), (1, 0), (10, 0), (1, 3)] {
            let level = 1_000_000 * u128::from(day_ms) * 1000 * 10_u128.pow(decimals.into());
            let full = state((1_000_000, mantissa, decimals, day_ms, now_us, level));
            assert!(matches!(pack(&full, false), Packed::Small(_)), "{full:?}");
        }
    }
}
