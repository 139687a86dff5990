//! What RL.INFO tells of a key: its limit as it was typed, and where it stands.

use std::fmt;

use crate::algorithm::bucket::{self, Bucket, Content, Rate};
use crate::algorithm::leaky_bucket::Held;
use crate::algorithm::sliding_window::{self, SlidingWindow};
use crate::algorithm::token_bucket::Missing;
use crate::algorithm::{Clock, Limiter, Request};
use crate::reply;

/// A field of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A word, or a decimal as it was typed.
    Text(String),
    /// A whole number.
    Integer(i64),
}

/// A limiter whose states can be told to a user.
pub trait Report: Limiter {
    /// The fields in order: type, the parameters, level, reset-after-ms, last-used-ms.
    fn report(state: &Self::State, clock: Clock) -> Vec<(&'static str, Value)>;
}

/// How a kind of bucket shows itself.
pub trait Shown {
    /// The name of the type.
    const TYPE: &'static str;

    /// The level that a user sees, from the started units of the level that is kept.
    fn level(capacity: i64, units: i64) -> i64;
}

impl Shown for Missing {
    const TYPE: &'static str = "tokenbucket";

    /// The tokens held, rounded down; negative in debt.
    fn level(capacity: i64, units: i64) -> i64 {
        capacity - units
    }
}

impl Shown for Held {
    const TYPE: &'static str = "leaky";

    /// The units in the bucket, rounded up.
    fn level(_capacity: i64, units: i64) -> i64 {
        units
    }
}

impl<C: Content + Shown> Report for Bucket<C> {
    fn report(state: &bucket::State, clock: Clock) -> Vec<(&'static str, Value)> {
        let quota = &state.quota;
        let units = quota.units(state.level_at(clock.time_after(state.at_us)));
        vec![
            ("type", Value::Text(C::TYPE.to_owned())),
            ("capacity", integer(quota.capacity)),
            ("rate", Value::Text(quota.rate.to_string())),
            ("period-ms", integer(quota.period_ms)),
            (
                "level",
                Value::Integer(C::level(reply::integer(quota.capacity), reply::integer(units))),
            ),
            reset_after::<Self>(state, clock),
            ("last-used-ms", integer(state.at_us / 1000)),
        ]
    }
}

impl Report for SlidingWindow {
    fn report(state: &sliding_window::State, clock: Clock) -> Vec<(&'static str, Value)> {
        vec![
            ("type", Value::Text("sliding".to_owned())),
            ("limit", integer(state.quota.limit)),
            ("window-ms", integer(state.quota.window_ms)),
            ("level", integer(state.units_at(clock))),
            reset_after::<Self>(state, clock),
            ("last-used-ms", integer(state.at_us / 1000)),
        ]
    }
}

fn reset_after<L: Limiter>(state: &L::State, clock: Clock) -> (&'static str, Value) {
    // A look that takes nothing passes whatever the state.
    let decided = L::decide(&L::quota(state), Some(state), &Request::look(0), clock);
    let reset_after_us = decided.map_or(0, |(decision, _)| decision.reset_after_us);
    ("reset-after-ms", integer(reset_after_us.div_ceil(1000)))
}

fn integer(value: u64) -> Value {
    Value::Integer(reply::integer(value))
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = self.scale();
        let (whole, part) = (self.mantissa / scale, self.mantissa % scale);
        if self.decimals == 0 {
            return write!(f, "{whole}");
        }
        write!(f, "{whole}.{part:0width$}", width = usize::from(self.decimals))
    }
}
