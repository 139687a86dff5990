//! How a bucket's state lies in memory, without a server: small for as long as it fits.

use redis_rl::algorithm::bucket::{Quota, Rate, State};
use redis_rl::packed::bucket::{LARGE, Packed, SMALL, is_large, pack};

/// Three bytes of lengths, and numbers of 7, 7, 5 and 7 bytes and of as many as the level takes.
fn state(level: u128) -> State {
    let rate = Rate { mantissa: (1 << 56) - 1, decimals: 9 };
    let quota = Quota { capacity: 1 << 53, rate, period_ms: (1 << 38) - 1 };
    State { quota, level, at_us: (1 << 56) - 1 }
}

#[test]
fn a_state_is_small_to_the_last_byte() {
    let fits = state((1 << 24) - 1);
    let Packed::Small(bytes) = pack(&fits, false) else { panic!("{SMALL} bytes are enough") };
    assert!(!is_large(&bytes));
    assert_eq!(pack(&fits, false).unpack(), fits);

    let one_more = state(1 << 24);
    let Packed::Large(bytes) = pack(&one_more, false) else { panic!("a byte is missing") };
    assert!(is_large(&bytes));
    assert_eq!(pack(&one_more, false).unpack(), one_more);
}

#[test]
fn a_small_state_stays_large_where_there_is_room() {
    let small = state(0);
    let Packed::Large(bytes) = pack(&small, true) else { panic!("made small again") };
    assert!(is_large(&bytes));
    assert_eq!(bytes.len(), LARGE);
    assert_eq!(pack(&small, true).unpack(), small);
}
