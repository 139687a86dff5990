//! States and changes to versioned bytes, and back.
//!
//! The bytes of a state are what RDB files, DUMP and the append-only file hold; those of a change
//! are what replicas get. They are canonical: a function of the limit, the time of the last write
//! and the level or hits, whatever happened before. Decoding trusts nothing: what it returns could
//! have been written by this module, and anything else is [`Error::Payload`].
//!
//! Layout, in bytes: version (1), kind, then numbers of seven bits a byte, the low ones first.
//!
//! | kind | numbers |
//! |---|---|
//! | `T` token bucket, `L` leaky bucket | capacity, mantissa and decimals of the rate, period in ms, time of the last write in µs, level in shares |
//! | `S` sliding window | limit, window in ms, time of the last write in µs, runs |
//! | `s` change of a sliding window | limit, window in ms, time of the write in µs, ms moved back, ms from the cut to the write (0: no cut), newest units taken, units added, ms from the write to the hit if any |
//!
//! A run is (distance to the one before) x 2 + (whether the count is more than 1), and the count if
//! it is; the distance of the first is that to the beginning of the window.

use crate::algorithm::Limiter;
use crate::algorithm::bucket::{self, Bucket, Content, Rate};
use crate::algorithm::hit_log::{HitLog, Run};
use crate::algorithm::leaky_bucket::Held;
use crate::algorithm::sliding_window::{
    Change, Quota, SlidingWindow, State, ms, newest_possible_ms,
};
use crate::algorithm::token_bucket::Missing;
use crate::error::Error;
use crate::limits;

/// The version that is written. Every version up to it can be read.
pub const VERSION: u8 = 1;

/// A limiter whose states and changes have bytes.
pub trait Wire: Limiter {
    /// The kind that marks a state.
    const STATE: u8;
    /// The kind that marks a change.
    const CHANGE: u8;

    /// Appends the bytes of `state` to `out`.
    fn encode_state(state: &Self::State, out: &mut impl Sink);

    /// Appends the bytes of `change` to `out`: at most [`Buffer::SIZE`].
    fn encode_change(change: &Self::Change, out: &mut impl Sink);

    /// Reads a state.
    ///
    /// # Errors
    /// [`Error::Payload`] for anything but what [`Wire::encode_state`] writes.
    fn decode_state(bytes: &[u8]) -> Result<Self::State, Error>;

    /// Reads a change.
    ///
    /// # Errors
    /// [`Error::Payload`] for anything but what [`Wire::encode_change`] writes.
    fn decode_change(bytes: &[u8]) -> Result<Self::Change, Error>;

    /// Whether `change` leaves of `state` what [`Wire::decode_state`] takes: always, where it was
    /// made for this state.
    fn fits(_state: &Self::State, _change: &Self::Change) -> bool {
        true
    }
}

/// What a bucket's level stands for, in its bytes.
pub trait Kind {
    /// The letter of the kind.
    const KIND: u8;
}

impl Kind for Missing {
    const KIND: u8 = b'T';
}

impl Kind for Held {
    const KIND: u8 = b'L';
}

/// A bucket's change is its next state.
impl<C: Content + Kind> Wire for Bucket<C> {
    const STATE: u8 = C::KIND;
    const CHANGE: u8 = C::KIND;

    fn encode_state(state: &bucket::State, out: &mut impl Sink) {
        let quota = &state.quota;
        let mut out = Writer::new(out, C::KIND);
        out.number(quota.capacity);
        out.number(quota.rate.mantissa);
        out.number(quota.rate.decimals);
        out.number(quota.period_ms);
        out.number(state.at_us);
        out.number(state.level);
    }

    fn encode_change(change: &bucket::State, out: &mut impl Sink) {
        Self::encode_state(change, out);
    }

    fn decode_state(bytes: &[u8]) -> Result<bucket::State, Error> {
        let mut bytes = Reader::new(bytes, C::KIND)?;
        let capacity = bytes.within(limits::MIN_UNITS, limits::MAX_UNITS)?;
        let mantissa = bytes.within(1, limits::MAX_MANTISSA)?;
        let decimals = bytes.within(0, u64::from(limits::MAX_DECIMALS))?;
        let decimals = u8::try_from(decimals).map_err(|_| Error::Payload)?;
        let rate = Rate { mantissa, decimals };
        let period_ms = bytes.within(limits::MIN_DURATION_MS, limits::MAX_DURATION_MS)?;
        let quota = bucket::Quota { capacity, rate, period_ms };
        let at_us = bytes.within(0, limits::MAX_TIME_US)?;
        let level = bytes.number()?;
        bytes.end()?;
        let largest = limits::MAX_RATE * rate.scale();
        let padded = decimals > 0 && mantissa.is_multiple_of(10);
        if mantissa > largest || padded || quota.check_level(level).is_err() {
            return Err(Error::Payload);
        }
        Ok(bucket::State { quota, level, at_us })
    }

    fn decode_change(bytes: &[u8]) -> Result<bucket::State, Error> {
        Self::decode_state(bytes)
    }
}

impl Wire for SlidingWindow {
    const STATE: u8 = b'S';
    const CHANGE: u8 = b's';

    fn encode_state(state: &State, out: &mut impl Sink) {
        let mut out = Writer::new(out, Self::STATE);
        out.window(&state.quota, state.at_us);
        let mut last_ms = oldest_possible_ms(&state.quota, state.at_us);
        state.log.for_each_run(|run| {
            let distance = u64::try_from(run.time_ms.saturating_sub(last_ms)).unwrap_or_default();
            last_ms = run.time_ms;
            out.number((distance << 1) | u64::from(run.count > 1));
            if run.count > 1 {
                out.number(run.count);
            }
        });
    }

    fn encode_change(change: &Change, out: &mut impl Sink) {
        let at_ms = ms(change.at_us / 1000);
        let since = |time_ms: i64| u64::try_from(at_ms.saturating_sub(time_ms)).unwrap_or_default();
        let until = |time_ms: i64| u64::try_from(time_ms.saturating_sub(at_ms)).unwrap_or_default();
        let mut out = Writer::new(out, Self::CHANGE);
        out.window(&change.quota, change.at_us);
        out.number(change.move_back_ms);
        out.number(change.forget_until_ms.map_or(0, since));
        out.number(change.take_newest);
        out.number(change.add.map_or(0, |run| run.count));
        if let Some(run) = change.add {
            out.number(until(run.time_ms));
        }
    }

    fn decode_state(bytes: &[u8]) -> Result<State, Error> {
        let mut bytes = Reader::new(bytes, Self::STATE)?;
        let (quota, at_us) = bytes.window()?;
        let mut log = HitLog::default();
        let mut time_ms = oldest_possible_ms(&quota, at_us);
        let newest_ms = newest_possible_ms(at_us);
        let mut units: u64 = 0;
        while !bytes.is_empty() {
            let word: u64 = bytes.within(0, u64::MAX)?;
            let count = if word & 1 == 1 { bytes.within(2, limits::MAX_UNITS)? } else { 1 };
            let distance = i64::try_from(word >> 1).map_err(|_| Error::Payload)?;
            time_ms = time_ms.saturating_add(distance);
            units = units.saturating_add(count);
            if distance == 0 || time_ms > newest_ms || units > limits::MAX_UNITS {
                return Err(Error::Payload);
            }
            log.add(Run { time_ms, count });
        }
        Ok(State { quota, at_us, log })
    }

    fn decode_change(bytes: &[u8]) -> Result<Change, Error> {
        let mut bytes = Reader::new(bytes, Self::CHANGE)?;
        let (quota, at_us) = bytes.window()?;
        let at_ms = ms(at_us / 1000);
        let move_back_ms = bytes.within(0, limits::MAX_TIME_MS)?;
        let cut = bytes.within(0, limits::MAX_DURATION_MS)?;
        let take_newest = bytes.within(0, limits::MAX_UNITS)?;
        let count = bytes.within(0, limits::MAX_UNITS)?;
        let mut add = None;
        if count > 0 {
            let time_ms = at_ms + ms(bytes.within(0, limits::MAX_DURATION_MS)?);
            add = Some(Run { time_ms, count });
        }
        bytes.end()?;
        let forget_until_ms = (cut > 0).then(|| at_ms - ms(cut));
        Ok(Change { quota, at_us, move_back_ms, forget_until_ms, take_newest, add })
    }

    fn fits(state: &State, change: &Change) -> bool {
        // In the times of the log, which are those before it is moved back.
        let before = |time_ms: i64| time_ms.saturating_add(ms(change.move_back_ms));
        let units_until = |time_ms| state.log.units_until(before(time_ms));
        let forgotten = change.forget_until_ms.map_or(0, units_until);
        let kept = state.log.units().saturating_sub(forgotten);
        let too_old = units_until(oldest_possible_ms(&change.quota, change.at_us));
        let added = change.add.map_or(0, |run| run.count);
        let units = kept.saturating_sub(change.take_newest).saturating_add(added);
        units <= limits::MAX_UNITS && (kept == 0 || too_old <= forgotten)
    }
}

/// The time that no hit of a state lies at or before: those have left the window.
fn oldest_possible_ms(quota: &Quota, at_us: u64) -> i64 {
    ms(at_us / 1000) - ms(quota.window_ms)
}

/// Begins the payload of the internal command, which a state or a change follows, with the absolute
/// expiry of the key in ms since the epoch. It is part of the payload since the server makes a
/// string of every argument, for each call that writes.
pub fn encode_expiry(expire_ms: Option<i64>, out: &mut impl Sink) {
    let expire_ms = expire_ms.and_then(|expire_ms| u64::try_from(expire_ms).ok());
    // One more than the expiry, so that 0 says that there is none.
    Writer { out }.number(expire_ms.map_or(0, |expire_ms| expire_ms.saturating_add(1)));
}

/// The expiry at the beginning of the payload of the internal command, and what follows it.
///
/// # Errors
/// [`Error::Payload`] for a time that no key of this module expires at.
pub fn decode_expiry(payload: &[u8]) -> Result<(Option<i64>, &[u8]), Error> {
    let mut reader = Reader { bytes: payload };
    let number = reader.within(0, limits::MAX_TIME_MS + limits::MAX_RESET_US)?;
    let expire_ms = number.checked_sub(1).and_then(|expire_ms| i64::try_from(expire_ms).ok());
    Ok((expire_ms, reader.bytes))
}

/// Room for the bytes of a bucket or of a change, so that a call needs no heap.
pub struct Buffer {
    bytes: [u8; Buffer::SIZE],
    len: usize,
}

impl Buffer {
    /// Bytes that it holds: an expiry, two for version and kind, and at most ten for each of eight
    /// numbers, or for five and a level of 128 bits; and what the copy of the last takes besides.
    pub const SIZE: usize = 112;

    /// An empty one.
    pub const fn new() -> Buffer {
        Buffer { bytes: [0; Buffer::SIZE], len: 0 }
    }

    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer::new()
    }
}

/// What bytes are appended to.
pub trait Sink {
    /// Appends the first `len` of `bytes`.
    fn put(&mut self, bytes: &[u8; CHUNK], len: usize);
}

/// The most bytes that are appended at once. All of them are copied, whatever the length, since one
/// access of a fixed size is cheaper than a loop.
pub const CHUNK: usize = 8;

impl Sink for Buffer {
    fn put(&mut self, bytes: &[u8; CHUNK], len: usize) {
        let place = self.bytes.get_mut(self.len..).and_then(|rest| rest.first_chunk_mut());
        debug_assert!(place.is_some());
        if let Some(place) = place {
            *place = *bytes;
            self.len += len;
        }
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8; CHUNK], len: usize) {
        self.extend_from_slice(bytes.get(..len).unwrap_or_default());
    }
}

/// Bits that [`spread`] takes.
const SPREAD_BITS: u32 = 56;
/// The bit of each byte that says that another one follows.
const MORE: u64 = 0x8080_8080_8080_8080;

/// Eight times seven bits to the low ends of eight bytes, all at once: halves move apart by four
/// bits, quarters by two, eighths by one.
fn spread(bits: u64) -> u64 {
    debug_assert!(bits >> SPREAD_BITS == 0);
    let halves = ((bits & 0x00ff_ffff_f000_0000) << 4) | (bits & 0x0fff_ffff);
    let quarters = ((halves & 0x0fff_c000_0fff_c000) << 2) | (halves & 0x3fff_0000_3fff);
    ((quarters & 0x3f80_3f80_3f80_3f80) << 1) | (quarters & 0x007f_007f_007f_007f)
}

struct Writer<'a, W> {
    out: &'a mut W,
}

impl<'a, W: Sink> Writer<'a, W> {
    fn new(out: &'a mut W, kind: u8) -> Writer<'a, W> {
        out.put(&[VERSION, kind, 0, 0, 0, 0, 0, 0], 2);
        Writer { out }
    }

    fn number(&mut self, value: impl Into<u128>) {
        let mut rest: u128 = value.into();
        // Almost every number has at most 56 bits; longer ones lose as many until they do.
        while rest >> SPREAD_BITS > 0 {
            let low = u64::try_from(rest & ((1 << SPREAD_BITS) - 1)).unwrap_or_default();
            self.out.put(&(spread(low) | MORE).to_le_bytes(), CHUNK);
            rest >>= SPREAD_BITS;
        }
        let rest = u64::try_from(rest).unwrap_or_default();
        let len = (u64::BITS - rest.leading_zeros()).div_ceil(7).max(1);
        let more = MORE & ((1 << (8 * (len - 1))) - 1);
        self.out.put(&(spread(rest) | more).to_le_bytes(), usize::try_from(len).unwrap_or(CHUNK));
    }

    fn window(&mut self, quota: &Quota, at_us: u64) {
        self.number(quota.limit);
        self.number(quota.window_ms);
        self.number(at_us);
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], kind: u8) -> Result<Reader<'a>, Error> {
        match bytes {
            [VERSION, found, bytes @ ..] if *found == kind => Ok(Reader { bytes }),
            _ => Err(Error::Payload),
        }
    }

    /// A number in its only form: no bits lost, no zeros at its end.
    fn number(&mut self) -> Result<u128, Error> {
        let mut value: u128 = 0;
        let mut shift = 0;
        loop {
            let (&byte, rest) = self.bytes.split_first().ok_or(Error::Payload)?;
            self.bytes = rest;
            let bits = u128::from(byte & 0x7f);
            let placed = bits << shift;
            if placed >> shift != bits || (byte == 0 && shift > 0) {
                return Err(Error::Payload);
            }
            value |= placed;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
            if shift >= u128::BITS {
                return Err(Error::Payload);
            }
        }
    }

    fn within(&mut self, min: u64, max: u64) -> Result<u64, Error> {
        let value = u64::try_from(self.number()?).map_err(|_| Error::Payload)?;
        if (min..=max).contains(&value) { Ok(value) } else { Err(Error::Payload) }
    }

    fn window(&mut self) -> Result<(Quota, u64), Error> {
        let limit = self.within(limits::MIN_UNITS, limits::MAX_UNITS)?;
        let window_ms = self.within(limits::MIN_DURATION_MS, limits::MAX_DURATION_MS)?;
        let at_us = self.within(0, limits::MAX_TIME_US)?;
        Ok((Quota { limit, window_ms }, at_us))
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn end(&self) -> Result<(), Error> {
        if self.is_empty() { Ok(()) } else { Err(Error::Payload) }
    }
}
