//! The bytes of states and changes are canonical, and decoding trusts nothing.
//!
//! - states are equal exactly if their bytes are, whatever led to them: other orders of the same
//!   hits, a reload in between, changes that were applied as a replica applies them;
//! - whatever decodes encodes to the same bytes again, and can be lived with: no call panics on it;
//! - everything that a history writes decodes again.

mod model;

use proptest::prelude::*;
use redis_rl::algorithm::hit_log::{HitLog, Run};
use redis_rl::algorithm::leaky_bucket::LeakyBucket;
use redis_rl::algorithm::sliding_window::{Change, Quota, SlidingWindow, State};
use redis_rl::algorithm::token_bucket::TokenBucket;
use redis_rl::algorithm::{Clock, Request};
use redis_rl::codec::{self, Buffer, VERSION, Wire};
use redis_rl::error::Error;
use redis_rl::limits;

use crate::model::draw::{History, Op, history, magnitude};
use crate::model::world::{Key, World};
use crate::model::{Subject, cases};

fn state_bytes<L: Wire>(state: &L::State) -> Vec<u8> {
    let mut bytes = Vec::new();
    L::encode_state(state, &mut bytes);
    bytes
}

fn change_bytes<L: Wire>(change: &L::Change) -> Vec<u8> {
    let mut bytes = Vec::new();
    L::encode_change(change, &mut bytes);
    bytes
}

fn fail(what: &str, error: Error) -> TestCaseError {
    TestCaseError::fail(format!("{what}: {error}"))
}

/// One key, copied as servers copy it.
struct Copies<S: Subject> {
    /// Gets the changes alone.
    replica: Key<S>,
    /// Is written to a file and read again before each change.
    reloaded: Key<S>,
}

impl<S: Subject + Wire> Copies<S> {
    fn store(&mut self, change: &S::Change) -> Result<(), TestCaseError> {
        let bytes = change_bytes::<S>(change);
        let mut buffer = Buffer::new();
        S::encode_change(change, &mut buffer);
        prop_assert_eq!(buffer.bytes(), &bytes[..]);
        let received = S::decode_change(&bytes).map_err(|e| fail("a change", e))?;
        prop_assert_eq!(&received, change);
        if let Some(state) = &self.replica.state {
            prop_assert!(S::fits(state, &received), "a change does not fit its own state");
        }
        self.replica.store(Some(&received));
        if let Some(state) = &mut self.reloaded.state {
            let bytes = state_bytes::<S>(state);
            *state = S::decode_state(&bytes).map_err(|e| fail("a state", e))?;
        }
        self.reloaded.store(Some(change));
        Ok(())
    }

    fn check(&self, state: &S::State) -> Result<(), TestCaseError> {
        let bytes = state_bytes::<S>(state);
        let decoded = S::decode_state(&bytes).map_err(|e| fail("a state", e))?;
        prop_assert_eq!(&decoded, state);
        prop_assert_eq!(state_bytes::<S>(&decoded), &bytes[..]);
        for key in [&self.replica, &self.reloaded] {
            let copy = key.state.as_ref().ok_or_else(|| TestCaseError::fail("no copy"))?;
            prop_assert_eq!(state_bytes::<S>(copy), &bytes[..]);
        }
        let mut same = state.clone();
        S::apply(&mut same, &S::no_change(state));
        prop_assert_eq!(state_bytes::<S>(&same), bytes);
        Ok(())
    }
}

/// Plays a history on a primary, and each change on its copies.
fn copies_stay_equal<S: Subject + Wire>(history: &History<S::Quota>) -> Result<(), TestCaseError> {
    let mut world = World::<S>::new(history.start_us);
    let mut copies =
        Copies { replica: Key::<S> { state: None }, reloaded: Key::<S> { state: None } };
    for op in &history.ops {
        if let Some(Ok((_, Some(change)))) = world.play(history, op) {
            copies.store(&change)?;
        }
        if let Some(state) = &world.key.state {
            copies.check(state)?;
        }
    }
    Ok(())
}

/// Bytes that decode encode to themselves; a state that decodes can be called in every way.
fn bytes_are_refused_or_kept<S: Subject + Wire>(
    bytes: &[u8],
    history: &History<S::Quota>,
) -> Result<bool, TestCaseError> {
    if let Ok(change) = S::decode_change(bytes) {
        prop_assert_eq!(change_bytes::<S>(&change), bytes);
        // Nobody but a primary sends a change; it must not end the server all the same.
        let mut key = Key::<S> { state: None };
        key.store(Some(&change));
        key.store(Some(&change));
    }
    let Ok(state) = S::decode_state(bytes) else { return Ok(false) };
    prop_assert_eq!(state_bytes::<S>(&state), bytes);
    let mut world = World::<S>::new(S::at_us(&state));
    let mut quotas = history.quotas.clone();
    quotas.insert(0, S::quota(&state));
    let history = History { quotas, ..history.clone() };
    world.key.state = Some(state);
    for op in &history.ops {
        let _ = world.play(&history, op);
        let state = world.key.state.as_ref().map(state_bytes::<S>).unwrap_or_default();
        let again = S::decode_state(&state).map_err(|e| fail("a state that was called", e))?;
        prop_assert_eq!(state_bytes::<S>(&again), state);
    }
    Ok(true)
}

/// A change that fits a state for which it was not made leaves one that can be written and read.
fn fitting_changes_leave_a_state<S: Subject + Wire>(
    history: &History<S::Quota>,
    bytes: &[u8],
) -> Result<(), TestCaseError> {
    let world = World::<S>::after(history);
    let (Some(mut state), Ok(change)) = (world.key.state, S::decode_change(bytes)) else {
        return Ok(());
    };
    if !S::fits(&state, &change) {
        return Ok(());
    }
    S::apply(&mut state, &change);
    let bytes = state_bytes::<S>(&state);
    let read = S::decode_state(&bytes).map_err(|error| fail("a state that was changed", error))?;
    prop_assert_eq!(read, state);
    Ok(())
}

/// Damage to bytes.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip { place: usize, bits: u8 },
    Insert { place: usize, byte: u8 },
    Remove { place: usize },
    Cut { place: usize },
    Repeat { place: usize, len: usize },
}

impl Damage {
    fn any() -> impl Strategy<Value = Damage> {
        let place = || any::<usize>();
        prop_oneof![
            3 => (place(), 1..=255_u8).prop_map(|(place, bits)| Damage::Flip { place, bits }),
            1 => (place(), any::<u8>()).prop_map(|(place, byte)| Damage::Insert { place, byte }),
            1 => place().prop_map(|place| Damage::Remove { place }),
            1 => place().prop_map(|place| Damage::Cut { place }),
            1 => (place(), 1..=12_usize).prop_map(|(place, len)| Damage::Repeat { place, len }),
        ]
    }

    fn to(self, bytes: &mut Vec<u8>) {
        let within = |place: usize| place % bytes.len().max(1);
        match self {
            _ if bytes.is_empty() => {}
            Damage::Flip { place, bits } => {
                let place = within(place);
                bytes[place] ^= bits;
            }
            Damage::Insert { place, byte } => bytes.insert(within(place), byte),
            Damage::Remove { place } => drop(bytes.remove(within(place))),
            Damage::Cut { place } => bytes.truncate(within(place)),
            Damage::Repeat { place, len } => {
                let place = within(place);
                let part: Vec<u8> = bytes[place..].iter().copied().take(len).collect();
                bytes.splice(place..place, part);
            }
        }
    }
}

/// Numbers as the codec writes them: seven bits a byte, the low ones first.
fn numbers(kind: u8, numbers: &[u128]) -> Vec<u8> {
    let mut bytes = vec![VERSION, kind];
    for &number in numbers {
        let mut rest = number;
        while rest > 0x7f {
            bytes.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    bytes
}

/// Well-formed bytes with numbers of any size, most of them in their ranges.
fn forged() -> impl Strategy<Value = Vec<u8>> {
    let fields = (
        magnitude(0, limits::MAX_UNITS + 1),
        magnitude(0, limits::MAX_MANTISSA + 1),
        prop_oneof![4 => magnitude(0, 10), 1 => magnitude(0, limits::MAX_TIME_US)],
        magnitude(0, limits::MAX_DURATION_MS + 1),
        magnitude(0, limits::MAX_TIME_US + 1),
        (any::<u128>(), 0..=127_u32).prop_map(|(value, bits)| value >> bits),
    );
    let bucket = (prop_oneof![Just(b'T'), Just(b'L')], fields).prop_map(
        |(kind, (capacity, mantissa, decimals, period_ms, at_us, level))| {
            let fields = [capacity, mantissa, decimals, period_ms, at_us].map(u128::from);
            numbers(kind, &[&fields[..], &[level]].concat())
        },
    );
    let window = (
        magnitude(1, limits::MAX_UNITS + 1),
        magnitude(1, limits::MAX_DURATION_MS + 1),
        magnitude(0, limits::MAX_TIME_US + 1),
    );
    let tail = prop::collection::vec(magnitude(0, u64::MAX), 0..12);
    let kind = prop_oneof![2 => Just(b'S'), 1 => Just(b's')];
    let window = (kind, window, tail).prop_map(|(kind, (limit, window_ms, at_us), tail)| {
        let fields = [&[limit, window_ms, at_us], &tail[..]].concat();
        numbers(kind, &fields.into_iter().map(u128::from).collect::<Vec<u128>>())
    });
    prop_oneof![bucket, window]
}

/// All kinds read the same bytes; each refuses them or keeps them.
fn all_refuse_or_keep(
    bytes: &[u8],
    buckets: &History<redis_rl::algorithm::bucket::Quota>,
    windows: &History<Quota>,
) -> Result<(), TestCaseError> {
    let kinds = [
        bytes_are_refused_or_kept::<TokenBucket>(bytes, buckets)?,
        bytes_are_refused_or_kept::<LeakyBucket>(bytes, buckets)?,
        bytes_are_refused_or_kept::<SlidingWindow>(bytes, windows)?,
    ];
    prop_assert!(kinds.iter().filter(|&&kept| kept).count() <= 1, "two kinds keep the same bytes");
    Ok(())
}

/// Plays a history and damages the bytes of its state.
fn damage<S: Subject + Wire>(
    history: &History<S::Quota>,
    damages: &[Damage],
) -> Result<(), TestCaseError> {
    let world = World::<S>::after(history);
    let Some(state) = &world.key.state else { return Ok(()) };
    let mut bytes = state_bytes::<S>(state);
    for &damage in damages {
        damage.to(&mut bytes);
        bytes_are_refused_or_kept::<S>(&bytes, history)?;
    }
    let mut bytes = change_bytes::<S>(&S::no_change(state));
    for &damage in damages {
        damage.to(&mut bytes);
        bytes_are_refused_or_kept::<S>(&bytes, history)?;
    }
    Ok(())
}

/// A window with these hits, by a way that `detour` chooses.
fn by_detour(hits: &[(i64, u64)], order: &[usize], detour: u8) -> State {
    let mut log = HitLog::default();
    let moved_ms = i64::from(detour % 3) * 1_234_567;
    // Older hits that were forgotten, and newer ones that were taken back.
    if detour & 4 > 0 {
        (1..=700).for_each(|back| log.add(Run { time_ms: BEGIN_MS - 1 - back, count: 3 }));
    }
    log.move_back(moved_ms);
    log.forget_until(BEGIN_MS - 1);
    for &index in order {
        let (time_ms, count) = hits[index];
        if detour & 8 > 0 && count > 1 {
            log.add(Run { time_ms, count: count - 1 });
            log.add(Run { time_ms, count: 1 });
        } else {
            log.add(Run { time_ms, count });
        }
    }
    if detour & 16 > 0 {
        (0..600).for_each(|more| log.add(Run { time_ms: END_MS + more * 9, count: 1 }));
        log.take_newest(600);
    }
    State { quota: Quota { limit: 5, window_ms: 86_400_000 }, at_us: END_MS as u64 * 1000, log }
}

const BEGIN_MS: i64 = 1_700_000_000_000;
const END_MS: i64 = BEGIN_MS + 80_000_000;

/// Hits in order of time, no two in the same ms.
fn hits() -> impl Strategy<Value = Vec<(i64, u64)>> {
    let gap_ms = prop_oneof![3 => 1..=50_i64, 1 => 1..=20_000_i64];
    let count = prop_oneof![3 => Just(1_u64), 1 => 2..=400_u64];
    prop::collection::vec((gap_ms, count), 0..900).prop_map(|gaps| {
        let mut time_ms = BEGIN_MS;
        let mut hit = |(gap_ms, count)| {
            time_ms += gap_ms;
            (time_ms, count)
        };
        gaps.into_iter().map(&mut hit).collect()
    })
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn token_buckets_stay_equal_on_all_copies(history in history::<TokenBucket>(Op::any(), 24)) {
        copies_stay_equal::<TokenBucket>(&history)?;
    }

    #[test]
    fn leaky_buckets_stay_equal_on_all_copies(history in history::<LeakyBucket>(Op::any(), 24)) {
        copies_stay_equal::<LeakyBucket>(&history)?;
    }

    #[test]
    fn sliding_windows_stay_equal_on_all_copies(
        history in history::<SlidingWindow>(Op::any(), 24)
    ) {
        copies_stay_equal::<SlidingWindow>(&history)?;
    }

    #[test]
    fn the_same_hits_have_the_same_bytes(
        (hits, order) in hits().prop_flat_map(|hits| {
            let order: Vec<usize> = (0..hits.len()).collect();
            (Just(hits), Just(order).prop_shuffle())
        }),
        detour in 0..32_u8,
        odd in any::<prop::sample::Index>()
    ) {
        let straight: Vec<usize> = (0..hits.len()).collect();
        let plain = by_detour(&hits, &straight, 0);
        let bytes = state_bytes::<SlidingWindow>(&plain);
        for other in [by_detour(&hits, &order, detour), by_detour(&hits, &straight, detour)] {
            prop_assert_eq!(&other, &plain);
            prop_assert_eq!(&state_bytes::<SlidingWindow>(&other), &bytes);
        }
        if !hits.is_empty() {
            let mut others = hits.clone();
            others[odd.index(hits.len())].1 += 1;
            let other = by_detour(&others, &straight, detour);
            prop_assert_ne!(&other, &plain);
            prop_assert_ne!(state_bytes::<SlidingWindow>(&other), bytes);
        }
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn random_bytes_are_refused_or_kept(
        mut bytes in prop::collection::vec(any::<u8>(), 0..60),
        kind in prop::sample::select(b"TLSs".to_vec()),
        framed in prop::bool::weighted(0.9),
        buckets in history::<TokenBucket>(Op::any(), 4),
        windows in history::<SlidingWindow>(Op::any(), 4)
    ) {
        if framed {
            bytes.splice(0..0, [VERSION, kind]);
        }
        all_refuse_or_keep(&bytes, &buckets, &windows)?;
    }

    #[test]
    fn forged_numbers_are_refused_or_kept(
        bytes in forged(),
        buckets in history::<TokenBucket>(Op::any(), 6),
        windows in history::<SlidingWindow>(Op::any(), 6)
    ) {
        all_refuse_or_keep(&bytes, &buckets, &windows)?;
    }
}

proptest! {
    #![proptest_config(cases(500))]

    /// A primary's change may meet another state: that of a key which was set otherwise meanwhile.
    #[test]
    fn changes_that_fit_leave_a_state(
        history in history::<SlidingWindow>(Op::any(), 12),
        other in history::<SlidingWindow>(Op::any(), 12),
        forged in forged()
    ) {
        fitting_changes_leave_a_state::<SlidingWindow>(&history, &forged)?;
        let mut world = World::<SlidingWindow>::new(other.start_us);
        for op in &other.ops {
            if let Some(Ok((_, Some(change)))) = world.play(&other, op) {
                let bytes = change_bytes::<SlidingWindow>(&change);
                fitting_changes_leave_a_state::<SlidingWindow>(&history, &bytes)?;
            }
        }
    }

    /// The expiry before a payload comes back, and leaves the payload as it is.
    #[test]
    fn an_expiry_is_read_as_it_was_written(
        expire_ms in prop::option::of(magnitude(0, limits::MAX_TIME_MS)),
        payload in prop::collection::vec(any::<u8>(), 0..20)
    ) {
        let expire_ms = expire_ms.map(|expire_ms| expire_ms as i64);
        let mut bytes = Vec::new();
        codec::encode_expiry(expire_ms, &mut bytes);
        bytes.extend(&payload);
        prop_assert_eq!(codec::decode_expiry(&bytes), Ok((expire_ms, &payload[..])));
        if let Ok((expire_ms, rest)) = codec::decode_expiry(&payload) {
            let mut again = Vec::new();
            codec::encode_expiry(expire_ms, &mut again);
            prop_assert_eq!([&again[..], rest].concat(), payload);
        }
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn damaged_buckets_are_refused_or_kept(
        history in history::<LeakyBucket>(Op::any(), 8),
        damages in prop::collection::vec(Damage::any(), 1..8)
    ) {
        damage::<LeakyBucket>(&history, &damages)?;
    }

    #[test]
    fn damaged_windows_are_refused_or_kept(
        history in history::<SlidingWindow>(Op::any(), 16),
        damages in prop::collection::vec(Damage::any(), 1..8)
    ) {
        damage::<SlidingWindow>(&history, &damages)?;
    }
}

/// The bytes of a state are pinned: what an older version wrote must always load.
#[test]
fn version_one_reads_as_it_always_did() {
    let bucket = numbers(b'T', &[1000, 25, 1, 900_000, 1_700_000_000_000_000, 123_456_789]);
    let state = TokenBucket::decode_state(&bucket).expect("a token bucket");
    assert_eq!((state.quota.capacity, state.quota.period_ms), (1000, 900_000));
    assert_eq!((state.quota.rate.mantissa, state.quota.rate.decimals), (25, 1));
    assert_eq!((state.at_us, state.level), (1_700_000_000_000_000, 123_456_789));
    assert_eq!(&bucket[..4], &[1, b'T', 0xe8, 0x07]);

    // A hit 1 ms after the beginning of the window, and 3 hits 2 ms later.
    let window = numbers(b'S', &[10, 60_000, 1_700_000_000_000_000, 2, 5, 3]);
    let state = SlidingWindow::decode_state(&window).expect("a window");
    let begin_ms = 1_700_000_000_000 - 60_000;
    assert_eq!(model::window::runs(&state.log), [(begin_ms + 1, 1), (begin_ms + 3, 3)]);
    assert_eq!(state.quota, Quota { limit: 10, window_ms: 60_000 });

    let change = numbers(b's', &[10, 60_000, 1_700_000_000_000_500, 7, 60_000, 2, 3, 1]);
    let add = Some(Run { time_ms: 1_700_000_000_001, count: 3 });
    let forget_until_ms = Some(1_700_000_000_000 - 60_000);
    assert_eq!(
        SlidingWindow::decode_change(&change),
        Ok(Change {
            quota: Quota { limit: 10, window_ms: 60_000 },
            at_us: 1_700_000_000_000_500,
            move_back_ms: 7,
            forget_until_ms,
            take_newest: 2,
            add,
        })
    );
}

#[test]
fn other_versions_and_kinds_are_refused() {
    let good = numbers(b'L', &[1000, 25, 1, 900_000, 5, 7]);
    assert!(LeakyBucket::decode_state(&good).is_ok());
    assert_eq!(TokenBucket::decode_state(&good), Err(Error::Payload));
    assert_eq!(SlidingWindow::decode_state(&good), Err(Error::Payload));
    for version in [0, VERSION + 1, 255] {
        let other = [&[version], &good[1..]].concat();
        assert_eq!(LeakyBucket::decode_state(&other), Err(Error::Payload));
    }
    for len in 0..good.len() {
        assert_eq!(LeakyBucket::decode_state(&good[..len]), Err(Error::Payload), "{len} bytes");
    }
    assert_eq!(LeakyBucket::decode_state(&[&good[..], &[0]].concat()), Err(Error::Payload));
}

#[test]
fn impossible_values_are_refused() {
    let buckets: [&[u128]; 9] = [
        &[0, 1, 0, 1000, 5, 0],
        &[(1 << 53) + 1, 1, 0, 1000, 5, 0],
        &[1, 0, 0, 1000, 5, 0],
        &[1, 1_000_000_001, 0, 1000, 5, 0],
        &[1, 10, 1, 1000, 5, 0],
        &[1, 1, 10, 1000, 5, 0],
        &[1, 1, 0, 315_360_000_001, 5, 0],
        &[1, 1, 0, 1000, ((1 << 53) * 1000) + 1, 0],
        // One share more than 100 years at this rate.
        &[1, 1, 0, 1000, 5, 3_153_600_000_000_001],
    ];
    for numbers_of in buckets {
        let bytes = numbers(b'T', numbers_of);
        assert_eq!(TokenBucket::decode_state(&bytes), Err(Error::Payload), "{numbers_of:?}");
    }
    let windows: [&[u128]; 7] = [
        &[0, 1000, 5],
        &[1, 0, 5],
        &[1, 1000, ((1 << 53) * 1000) + 1],
        // A hit that has left its window.
        &[1, 1000, 5_000_000, 0],
        // A count that says 1 in the long form, and one that is too large.
        &[1, 1000, 5_000_000, 3, 1],
        &[1, 1000, 5_000_000, 3, 1 << 53, 2],
        // A hit after all that a resolution could round up to.
        &[1, 1000, 5_000_000, 2 * (2 * 315_360_000_000 + 1001)],
    ];
    for numbers_of in windows {
        let bytes = numbers(b'S', numbers_of);
        assert_eq!(SlidingWindow::decode_state(&bytes), Err(Error::Payload), "{numbers_of:?}");
    }
}

/// A number has one form only: no zeros at its end, and no bits that fall off.
#[test]
fn numbers_in_another_form_are_refused() {
    let plain = numbers(b'L', &[1000, 25, 1, 900_000, 5, 7]);
    let (last, front) = plain.split_last().expect("bytes");
    assert_eq!(*last, 7);
    let padded: [&[u8]; 2] = [&[0x87, 0], &[0x87, 0x80, 0]];
    let lost: [&[u8]; 2] =
        [&[&[0x87][..], &[0x80; 17], &[4]].concat(), &[&[0x87][..], &[0x80; 18], &[1]].concat()];
    for level in padded.into_iter().chain(lost) {
        let bytes = [front, level].concat();
        assert_eq!(LeakyBucket::decode_state(&bytes), Err(Error::Payload), "{level:x?}");
    }
}

/// The coarsest resolution and a clock that is set back by less than a ms leave a hit more than
/// ten years ahead; what is written must still be read.
#[test]
fn a_hit_far_ahead_is_read_again() {
    let coarsest_ms = limits::MAX_DURATION_MS;
    let quota = Quota { limit: 3, window_ms: coarsest_ms };
    let request = Request { resolution_ms: coarsest_ms, ..Request::ONE };
    let mut key = Key::<SlidingWindow> { state: None };
    let mut us = 5 * coarsest_ms * 1000 + 500;
    let _ = key.call(&quota, &request, Clock::Server(us));
    for _ in 0..3 {
        us -= 999;
        let _ = key.call(&quota, &Request { cost: 0, ..request }, Clock::Server(us));
        let state = key.state.as_ref().expect("a state");
        let read = SlidingWindow::decode_state(&state_bytes::<SlidingWindow>(state));
        assert_eq!(read.as_ref(), Ok(state));
    }
}

/// The greatest of everything fits the buffer that calls write to.
#[test]
fn the_longest_change_fits_the_buffer() {
    let bucket = numbers(b'T', &[1 << 53, 10_u128.pow(18), 9, 315_360_000_000, 1 << 62, u128::MAX]);
    assert!(bucket.len() + 10 <= Buffer::SIZE);
    let run = Run { time_ms: 1 << 54, count: limits::MAX_UNITS };
    let change = Change {
        quota: Quota { limit: limits::MAX_UNITS, window_ms: limits::MAX_DURATION_MS },
        at_us: limits::MAX_TIME_US,
        move_back_ms: limits::MAX_TIME_MS,
        forget_until_ms: Some(-(1 << 54)),
        take_newest: limits::MAX_UNITS,
        add: Some(run),
    };
    let (mut buffer, mut expected) = (Buffer::new(), Vec::new());
    codec::encode_expiry(Some(1 << 54), &mut expected);
    codec::encode_expiry(Some(1 << 54), &mut buffer);
    SlidingWindow::encode_change(&change, &mut buffer);
    expected.extend(change_bytes::<SlidingWindow>(&change));
    assert_eq!(buffer.bytes(), expected);
}
