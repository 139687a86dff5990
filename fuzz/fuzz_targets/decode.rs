//! Decoding trusts nothing: whatever bytes come, no decoder panics, and what it takes is what the
//! encoder writes of it, byte for byte. It can be decided upon, given back to and changed, and what
//! that leaves can be written and read again, and packed into a key's memory and unpacked.
//!
//! The input is tried whole as a state and as a change, and in parts, the length of each in front, as
//! a state and the changes that are made to it one after the other.

#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use redis_rl::algorithm::hit_log::HitLog;
use redis_rl::algorithm::leaky_bucket::LeakyBucket;
use redis_rl::algorithm::sliding_window::{self, SlidingWindow};
use redis_rl::algorithm::token_bucket::TokenBucket;
use redis_rl::algorithm::{Clock, Request, bucket};
use redis_rl::codec::{self, Buffer, Wire};
use redis_rl::report::Report;
use redis_rl::{limits, packed};

fuzz_target!(|data: &[u8]| {
    expiry(data);
    bytes_of::<TokenBucket>(data);
    bytes_of::<LeakyBucket>(data);
    bytes_of::<SlidingWindow>(data);
});

/// The expiry in front of a payload of the internal command.
fn expiry(data: &[u8]) {
    if let Ok((expire_ms, rest)) = codec::decode_expiry(data) {
        let mut bytes = Vec::new();
        codec::encode_expiry(expire_ms, &mut bytes);
        bytes.extend(rest);
        assert_eq!(bytes, data);
    }
}

fn bytes_of<L: Packs>(data: &[u8])
where
    L::State: PartialEq + Debug,
{
    if let Ok(state) = L::decode_state(data) {
        assert_eq!(encoded::<L>(&state), data);
        L::packs(&state);
        calls::<L>(&state);
    }
    if let Ok(change) = L::decode_change(data) {
        assert_eq!(encoded_change::<L>(&change), data);
        readable::<L>(&L::create(&change));
    }
    sequence::<L>(data);
}

/// A state, or none yet, and changes as a replica gets them: those that do not fit are refused and
/// the state is as before.
fn sequence<L: Packs>(data: &[u8])
where
    L::State: PartialEq + Debug,
{
    let Some((first, mut rest)) = part(data) else { return };
    let mut state = L::decode_state(first).ok();
    while let Some((bytes, after)) = part(rest) {
        rest = after;
        let Ok((_, bytes)) = codec::decode_expiry(bytes) else { continue };
        let Ok(change) = L::decode_change(bytes) else { continue };
        match &mut state {
            Some(state) if L::fits(state, &change) => L::apply(state, &change),
            Some(_) => continue,
            None => state = Some(L::create(&change)),
        }
        state.iter().for_each(readable::<L>);
    }
}

/// A part of the input and what follows it; its length is in front.
fn part(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = data.split_first()?;
    rest.split_at_checked(usize::from(len))
}

/// What is packed into a key's memory is unpacked as it was.
trait Packs: Wire + Report {
    fn packs(state: &Self::State);
}

/// In the room that it needs, and in more.
fn bucket_packs(state: &bucket::State) {
    assert_eq!(packed::bucket::pack(state, false).unpack(), *state);
    assert_eq!(packed::bucket::pack(state, true).unpack(), *state);
}

impl Packs for TokenBucket {
    fn packs(state: &bucket::State) {
        bucket_packs(state);
    }
}

impl Packs for LeakyBucket {
    fn packs(state: &bucket::State) {
        bucket_packs(state);
    }
}

impl Packs for SlidingWindow {
    fn packs(state: &sliding_window::State) {
        let sliding_window::State { quota, at_us, mut log } = state.clone();
        let older = log.take_blocks();
        // Any number is packed as an address is.
        let address = older.as_ref().map(|_| u64::MAX / 3);
        for room in [0, packed::window::MOST] {
            let packed = packed::window::pack(&quota, at_us, log.outline(), address, room);
            assert!(packed.bytes().len() <= packed.room() && packed.room() >= room);
            assert!(packed.room() <= packed::window::MOST);
            let mut bytes = packed.bytes().to_vec();
            bytes.resize(packed.room(), 0xff);
            let read = packed::window::unpack(&bytes);
            assert_eq!((read.quota, read.at_us, read.address), (quota, at_us, address));
            let log = HitLog::from_parts(read.outline, older.clone());
            assert_eq!(log, state.log);
            assert_eq!((log.units(), log.newest_ms()), (state.log.units(), state.log.newest_ms()));
        }
    }
}

/// Calls of every kind on a state: long after it, at its own time, and with a clock set back.
fn calls<L: Packs>(state: &L::State)
where
    L::State: PartialEq + Debug,
{
    let quota = L::quota(state);
    let now_us = 1_700_000_000_000_123;
    let clocks = [
        Clock::Server(limits::MAX_TIME_US),
        Clock::Server(now_us),
        Clock::Caller(0),
        Clock::Server(0),
    ];
    for clock in clocks {
        let _ = L::report(state, clock);
        let requests = [
            Request::look(1),
            Request::ONE,
            Request { cost: 0, ..Request::ONE },
            Request { cost: limits::MAX_UNITS, reserve: 1, ..Request::ONE },
            Request { force: true, cost: 3, resolution_ms: 60_000, ..Request::ONE },
            Request { max_delay_ms: Some(1000), shadow: true, ..Request::ONE },
        ];
        for request in requests {
            // An error is an answer too: where a bound of the contract stands in the way.
            if let Ok((_, Some(change))) = L::decide(&quota, Some(state), &request, clock) {
                changed::<L>(state, &change);
            }
        }
        for units in [1, limits::MAX_UNITS] {
            if let (_, Some(change)) = L::refund(state, units, clock) {
                changed::<L>(state, &change);
            }
        }
    }
    changed::<L>(state, &L::no_change(state));
}

/// A change that the module itself makes: it fits, it is the same after its bytes, and it leaves a
/// state that can be read.
fn changed<L: Packs>(state: &L::State, change: &L::Change)
where
    L::State: PartialEq + Debug,
{
    assert!(L::fits(state, change));
    let bytes = encoded_change::<L>(change);
    assert!(bytes.len() <= Buffer::SIZE);
    let sent = L::decode_change(&bytes).expect("what was written can be read");
    let (mut here, mut there) = (state.clone(), state.clone());
    L::apply(&mut here, change);
    L::apply(&mut there, &sent);
    assert_eq!(here, there);
    readable::<L>(&here);
}

/// What is written of a state is read as the same.
fn readable<L: Packs>(state: &L::State)
where
    L::State: PartialEq + Debug,
{
    let bytes = encoded::<L>(state);
    let read = L::decode_state(&bytes).expect("what was written can be read");
    assert_eq!(&read, state);
    assert_eq!(encoded::<L>(&read), bytes);
    L::packs(state);
}

fn encoded<L: Wire>(state: &L::State) -> Vec<u8> {
    let mut bytes = Vec::new();
    L::encode_state(state, &mut bytes);
    bytes
}

fn encoded_change<L: Wire>(change: &L::Change) -> Vec<u8> {
    let mut bytes = Vec::new();
    L::encode_change(change, &mut bytes);
    bytes
}
