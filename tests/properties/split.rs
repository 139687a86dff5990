//! One limit split over several keys: it is never exceeded, and docs/GUIDE.md tells what it costs.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use redis_rl::algorithm::bucket::{Quota, Rate};
use redis_rl::algorithm::token_bucket::TokenBucket;
use redis_rl::algorithm::{Clock, Request, Verdict};

use crate::model::cases;
use crate::model::world::Key;

/// What several keys with a share each let pass, one key with the whole would have let pass.
fn a_split_limit_is_never_exceeded(
    shares: u64,
    share: Quota,
    calls: &[(u64, u64, u64)],
) -> Result<(), TestCaseError> {
    let rate = Rate { mantissa: share.rate.mantissa * shares, ..share.rate };
    let whole_quota = Quota { capacity: share.capacity * shares, rate, ..share };
    let count = usize::try_from(shares).expect("a few");
    let mut keys: Vec<Key<TokenBucket>> = (0..count).map(|_| Key { state: None }).collect();
    let mut judge = Key::<TokenBucket> { state: None };
    let mut now_us = 1_700_000_000_000_000;
    for &(step_us, key, cost) in calls {
        now_us += step_us;
        let clock = Clock::Server(now_us);
        let key = &mut keys[usize::try_from(key % shares).expect("an index")];
        let request = Request { cost, ..Request::ONE };
        let (decision, _) = key.call(&share, &request, clock).expect("small numbers");
        if decision.verdict == Verdict::Allowed {
            let (judged, _) = judge.call(&whole_quota, &request, clock).expect("small numbers");
            prop_assert_eq!(judged.verdict, Verdict::Allowed, "one limit would have denied this");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn shares_let_no_more_pass_than_the_whole(
        shares in 1..=8_u64,
        (capacity, rate) in (1..=20_u64, 1..=50_u64),
        calls in prop::collection::vec((0..=300_000_u64, any::<u64>(), 0..=3_u64), 1..120)
    ) {
        let rate = Rate { mantissa: rate, decimals: 0 };
        let share = Quota { capacity, rate, period_ms: 1000 };
        a_split_limit_is_never_exceeded(shares, share, &calls)?;
    }
}

/// Where a call goes whose share is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Denied {
    /// It is denied.
    AtOnce,
    /// It tries one other key, and is then denied.
    AfterOneMore,
}

/// The part of calls, in thousandths, that is denied where calls come at random times, `load`
/// percent of the rate, each to a random one of so many keys that share 100 a second and a burst of
/// 100.
fn denied_in_1000(shares: u64, load: u64, denied: Denied) -> u64 {
    const WHOLE: u64 = 100;
    const CALLS: u64 = 200_000;
    // A rate may have decimals, a capacity may not.
    let rate = Rate { mantissa: WHOLE * 1000 / shares, decimals: 3 };
    let share = Quota { capacity: WHOLE / shares, rate, period_ms: 1000 };
    let count = usize::try_from(shares).expect("a few");
    let mut keys: Vec<Key<TokenBucket>> = (0..count).map(|_| Key { state: None }).collect();
    let mut seed = 42_u64;
    let mut throw = |sides: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % sides
    };
    let (mut now_us, mut refused) = (1_700_000_000_000_000, 0);
    for _ in 0..CALLS {
        // Gaps that are as often short as long, with the mean that the load asks for.
        now_us += throw(2 * 1_000_000 * 100 / (WHOLE * load));
        let first = throw(shares);
        let mut tried = vec![first];
        if denied == Denied::AfterOneMore && shares > 1 {
            tried.push((first + 1 + throw(shares - 1)) % shares);
        }
        let passes = tried.iter().any(|&key| {
            let key = &mut keys[usize::try_from(key).expect("an index")];
            let clock = Clock::Server(now_us);
            let (decision, _) = key.call(&share, &Request::ONE, clock).expect("small numbers");
            decision.verdict == Verdict::Allowed
        });
        refused += u64::from(!passes);
    }
    (refused * 1000).div_ceil(CALLS)
}

/// The table of docs/GUIDE.md: what a split limit costs in accuracy. It never lets more pass, so it
/// can only deny what one limit would have let pass, and this is how often.
#[test]
fn the_guide_tells_what_a_split_limit_costs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/GUIDE.md");
    let guide = fs::read_to_string(path).expect("the guide");
    let percent = |in_1000: u64| format!("{}.{} %", in_1000 / 10, in_1000 % 10);
    let row = |shares| {
        let at_once = |load| percent(denied_in_1000(shares, load, Denied::AtOnce));
        let one_more = |load| percent(denied_in_1000(shares, load, Denied::AfterOneMore));
        let (half, most, over) = (at_once(50), at_once(90), at_once(200));
        format!("| {shares} | {} | {half} | {most} | {} | {over} |", 100 / shares, one_more(90))
    };
    let rows: Vec<String> = [1, 4, 10, 20].map(row).to_vec();
    let missing: Vec<&String> = rows.iter().filter(|row| !guide.contains(*row)).collect();
    assert!(missing.is_empty(), "docs/GUIDE.md lacks rows of {rows:#?}");
}
