//! The bounds of what a key may hold, number by number: what random histories seldom meet.

use redis_rl::algorithm::bucket::{Quota, Rate, State};
use redis_rl::algorithm::leaky_bucket::LeakyBucket;
use redis_rl::algorithm::token_bucket::TokenBucket;
use redis_rl::algorithm::{Clock, Limiter, Request};
use redis_rl::error::Error;
use redis_rl::limits::MAX_UNITS;

/// 3,000,000 units a second: in 100 years 9,460,800,000,000,000, which is more than 2^53.
const FAST: Quota =
    Quota { capacity: MAX_UNITS, rate: Rate { mantissa: 3_000_000, decimals: 0 }, period_ms: 1000 };
const IN_A_CENTURY: u64 = 9_460_800_000_000_000;

fn forced<L: Limiter<Quota = Quota, State = State, Change = State>>(
    state: Option<&State>,
    cost: u64,
) -> Result<Option<State>, Error> {
    let request = Request { cost, force: true, ..Request::ONE };
    L::decide(&FAST, state, &request, Clock::Server(0)).map(|(_, change)| change)
}

/// Of the two bounds of a debt the one is named that is passed: 2^53 units on the way to 100 years,
/// 100 years beyond them.
fn the_bound_that_is_passed_is_named<L: Limiter<Quota = Quota, State = State, Change = State>>() {
    let full = forced::<L>(None, MAX_UNITS).expect("2^53 units").expect("it writes");
    assert_eq!(forced::<L>(Some(&full), 1), Err(Error::TooManyUnits));
    assert_eq!(forced::<L>(Some(&full), IN_A_CENTURY - MAX_UNITS), Err(Error::TooManyUnits));
    assert_eq!(forced::<L>(Some(&full), IN_A_CENTURY - MAX_UNITS + 1), Err(Error::TooSlow));
}

#[test]
fn a_debt_ends_at_its_bounds() {
    the_bound_that_is_passed_is_named::<TokenBucket>();
    the_bound_that_is_passed_is_named::<LeakyBucket>();
}

#[test]
fn a_level_is_within_the_same_bounds() {
    let a_unit = 1_000_000;
    let most = u128::from(MAX_UNITS) * a_unit;
    assert_eq!(FAST.check_level(most), Ok(()));
    assert_eq!(FAST.check_level(most + 1), Err(Error::TooManyUnits));
    let century = u128::from(IN_A_CENTURY) * a_unit;
    assert_eq!(FAST.check_level(century), Err(Error::TooManyUnits));
    assert_eq!(FAST.check_level(century + 1), Err(Error::TooSlow));
}

#[test]
fn a_bucket_takes_no_more_memory_than_it_has() {
    let state = State { quota: FAST, level: 0, at_us: 0 };
    let change = State { level: u128::MAX, ..state };
    assert!(!TokenBucket::grows(&state, &change));
    assert_eq!(TokenBucket::bytes_after(&state, &change), 0, "it has no bound of its own");
}
