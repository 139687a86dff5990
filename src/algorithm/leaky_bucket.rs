//! Leaky bucket: takes at most `capacity` units and drains `rate` of them in each period, evenly.
//!
//! A request is allowed if and only if its whole cost still fits, which it then adds: as a meter.
//! As a queue, an allowed request leaves when all that was in front of it has drained: its delay is
//! the level before it / rate. So two requests that wait their delays leave at least (cost of the
//! earlier) / rate apart, however they arrive, while the rate stays and nothing is forced or given
//! back. An absent key is an empty bucket; a new capacity leaves the level alone.
//!
//! Source: ITU-T I.371, annex A, the leaky bucket as a meter; the delay is that of Turner's queue.

use super::bucket::{Bucket, Content};

/// The limiter of `RL.LEAKY`.
pub type LeakyBucket = Bucket<Held>;

/// The level is the units that have not drained yet.
pub enum Held {}

impl Content for Held {
    const QUEUES: bool = true;

    /// What was poured in stays, whatever the capacity.
    fn resize(units: u128, _old_capacity: u64, _new_capacity: u64) -> Option<u128> {
        Some(units)
    }
}
