//! The least and the greatest value of every argument, and the proof that nothing overflows.
//!
//! Parsing enforces these ranges and decoding checks them again, so the algorithms may rely on
//! them. Whoever widens a range must see the assertions at the end of this file hold.

/// Least capacity of a bucket and least limit of a window: zero would admit nobody.
pub const MIN_UNITS: u64 = 1;
/// Greatest capacity, limit, cost, reserve or refund, and most units that a key may record: 2^53,
/// the last whole number that every client library, JavaScript's included, reads exactly.
pub const MAX_UNITS: u64 = 1 << 53;

/// Greatest rate, in units per period. The least is one in the last decimal: 0.000000001.
pub const MAX_RATE: u64 = 1_000_000_000;
/// Most digits of a rate after the point.
pub const MAX_DECIMALS: u8 = 9;
/// Greatest mantissa of a rate: [`MAX_RATE`] with all its decimals.
pub const MAX_MANTISSA: u64 = 1_000_000_000_000_000_000;

/// Least period, window and resolution, in ms.
pub const MIN_DURATION_MS: u64 = 1;
/// Greatest period, window, resolution and delay, in ms: 10 years of 365 days.
pub const MAX_DURATION_MS: u64 = 10 * 365 * 24 * 60 * 60 * 1000;

/// Greatest instant that a caller may name, in ms since the epoch.
pub const MAX_TIME_MS: u64 = 1 << 53;
/// [`MAX_TIME_MS`] in µs: the greatest time of a last write.
pub const MAX_TIME_US: u64 = MAX_TIME_MS * 1000;

/// Most keys that the sketch of the most denied keys may follow: about 2 MB.
pub const MAX_TOPDENIED_SIZE: u64 = 10_000;
/// Most entries that the log of denials may keep: about 20 MB.
pub const MAX_LOG_LEN: u64 = 100_000;

/// Greatest bound of the bytes that the hits of one window may take: 1 TiB.
pub const MAX_SLIDING_BYTES: u64 = 1 << 40;

/// Most keys, and so rules, of one call: more would hold up the server for longer than a ms.
pub const MAX_RULES: u64 = 1000;

/// Longest time that a call may leave until its key is as if never used, in µs: 100 years of 365
/// days.
pub const MAX_RESET_US: u64 = 100 * 365 * 24 * 60 * 60 * 1_000_000;

/// Most shares that a unit is divided into: the longest period in µs, times the shares that
/// [`MAX_DECIMALS`] digits after the point need.
const MAX_SHARES_A_UNIT: u128 = 315_360_000_000_000_000_000_000;
const MANTISSA: u128 = 1_000_000_000_000_000_000;
const TIME_US: u128 = 9_007_199_254_740_992_000;
const RESET_US: u128 = 3_153_600_000_000_000;

// The constants above, written out where a cast would be needed, are the ones enforced.
const _: () = assert!(MAX_DURATION_MS == 315_360_000_000);
const _: () = assert!(MAX_MANTISSA == MAX_RATE * 10_u64.pow(9));
const _: () = assert!(MAX_TIME_US == 9_007_199_254_740_992_000);
const _: () = assert!(MAX_SLIDING_BYTES == 1_099_511_627_776);
const _: () = assert!(MAX_RESET_US == 3_153_600_000_000_000);
// The time that any key has been left alone, at the highest rate, in shares.
const _: () = assert!(TIME_US.checked_mul(MANTISSA).is_some());
// A level within its bound of 100 years, and one more cost within that bound.
const _: () = assert!(RESET_US * MANTISSA < u128::MAX / 4);
// One step of the long division in `bucket::Quota::carry_over`: a remainder below a unit's shares
// times 2^40, plus a fraction below a unit's shares times 40 bits.
const _: () = assert!(MAX_SHARES_A_UNIT < 1 << 80);
const _: () = assert!((MAX_SHARES_A_UNIT << 40) < u128::MAX / 4);
// The last write, the longest reset after it and the longest wait together, in µs.
const _: () = assert!(MAX_TIME_US < u64::MAX - 2 * MAX_RESET_US);
// A hit's time, at most two of the coarsest resolution ahead, and the end of its window, in ms.
const _: () = assert!(MAX_TIME_MS + 3 * MAX_DURATION_MS < 1 << 62);
// Such a hit leaves its window long before the bound of 100 years.
const _: () = assert!(3 * MAX_DURATION_MS * 1000 < MAX_RESET_US);
