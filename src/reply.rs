//! A decision as the integers of a reply: the only place that rounds µs to ms and puts the
//! elements in order.

use crate::algorithm::{Decision, Verdict, Wait};

/// Most elements of a reply.
pub const MAX_LEN: usize = 6;

/// The elements: allowed, limit, remaining, retry-after-ms, reset-after-ms, delay-ms. The last one
/// is for the leaky bucket only.
pub fn elements(decision: &Decision) -> [i64; MAX_LEN] {
    let allowed = match decision.verdict {
        Verdict::Denied => 0,
        Verdict::Allowed => 1,
        Verdict::Shadowed => 2,
    };
    let retry_after_ms = match decision.retry_after {
        Wait::Us(us) => ms(us),
        Wait::Never => -1,
    };
    [
        allowed,
        integer(decision.limit),
        integer(decision.remaining),
        retry_after_ms,
        ms(decision.reset_after_us),
        ms(decision.delay_us),
    ]
}

/// Waits are rounded up, so that waiting as long as told is enough.
fn ms(us: u64) -> i64 {
    integer(us.div_ceil(1000))
}

fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
