//! A decision as the integers of a reply: the only place that rounds µs to ms and puts the
//! elements in order.

use crate::algorithm::{Decision, Limiter, Verdict, Wait};

/// Elements of every reply; a limiter that holds requests has one more, the delay.
const COMMON: usize = 5;

/// A reply: allowed, limit, remaining, retry-after-ms, reset-after-ms and, if the limiter holds
/// requests, delay-ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    elements: [i64; COMMON + 1],
    holds: bool,
}

impl Reply {
    /// The reply of the limiter `L`.
    pub fn of<L: Limiter>(decision: &Decision) -> Reply {
        Reply { elements: elements(decision), holds: L::HOLDS }
    }

    /// The elements, in order.
    pub fn as_slice(&self) -> &[i64] {
        let len = if self.holds { COMMON + 1 } else { COMMON };
        self.elements.get(..len).unwrap_or_default()
    }
}

/// All elements, in order, the delay too.
pub fn elements(decision: &Decision) -> [i64; COMMON + 1] {
    let allowed = match decision.verdict {
        Verdict::Denied => 0,
        Verdict::Allowed => 1,
        Verdict::Shadowed => 2,
    };
    [
        allowed,
        integer(decision.limit),
        integer(decision.remaining),
        retry_after_ms(decision),
        ms(decision.reset_after_us),
        ms(decision.delay_us),
    ]
}

/// How long until the same request would pass; -1 for never.
pub fn retry_after_ms(decision: &Decision) -> i64 {
    match decision.retry_after {
        Wait::Us(us) => ms(us),
        Wait::Never => -1,
    }
}

/// As `RL.THROTTLE` answers: limited, limit, remaining, seconds until the same request would pass
/// (-1 if it passes or never will), seconds until the key is as if never used.
pub fn throttle(decision: &Decision) -> [i64; COMMON] {
    let limited = decision.verdict == Verdict::Denied;
    let retry_after_s = match decision.retry_after {
        Wait::Us(us) if limited => s(us),
        _ => -1,
    };
    [
        i64::from(limited),
        integer(decision.limit),
        integer(decision.remaining),
        retry_after_s,
        s(decision.reset_after_us),
    ]
}

/// The longest of the waits until the same requests would pass, in ms; -1 if one never would.
pub fn longest<'a>(decisions: impl IntoIterator<Item = &'a Decision>) -> i64 {
    let mut waits_ms = decisions.into_iter().map(retry_after_ms);
    let longest = waits_ms.try_fold(
        0,
        |longest, wait_ms| {
            if wait_ms < 0 { None } else { Some(wait_ms.max(longest)) }
        },
    );
    longest.unwrap_or(-1)
}

fn s(us: u64) -> i64 {
    integer(us.div_ceil(1_000_000))
}

/// Waits are rounded up, so that waiting as long as told is enough.
fn ms(us: u64) -> i64 {
    integer(us.div_ceil(1000))
}

/// As the protocol writes integers; none that the module tells is too large.
pub(crate) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
