//! Token bucket: holds at most `capacity` tokens and gains `rate` of them in each period, evenly.
//!
//! A request is allowed if and only if the bucket holds its whole cost, which it then takes. So in
//! any `t` µs at most `capacity` + `t` x `rate` / period tokens are granted. An absent key is a
//! full bucket. What is kept is the tokens that are missing, since they, unlike the tokens held,
//! are 0 at the reset whatever the capacity.
//!
//! Source: RFC 2697, section 3, with one bucket: `capacity` is its CBS, the rate its CIR.

use super::bucket::{Bucket, Content};

/// The limiter of `RL.TOKENBUCKET`.
pub type TokenBucket = Bucket<Missing>;

/// The level is the tokens that the bucket lacks.
pub enum Missing {}

impl Content for Missing {
    const QUEUES: bool = false;

    /// The tokens held stay: a larger bucket lacks all that was added, a smaller one only loses
    /// what no longer fits.
    fn resize(missing: u128, old_capacity: u64, new_capacity: u64) -> Option<u128> {
        (missing + u128::from(new_capacity)).checked_sub(u128::from(old_capacity))
    }
}
