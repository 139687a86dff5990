//! Argument bytes to typed calls.
//!
//! Integers are ASCII digits and nothing else; a decimal is digits and optionally a point with 1
//! to 9 digits behind it. No sign, blank, exponent or name of a number is accepted. Options come
//! after the positional arguments, in any order and case, each at most once. Every value is
//! checked against [`crate::limits`] here, so what comes out can be computed with.
//!
//! `words` are always those that follow the key. They are read one after the other, so that the
//! server's own arguments are parsed where they lie.

pub mod rules;

use crate::algorithm::bucket::{self, Rate};
use crate::algorithm::{Request, sliding_window};
use crate::error::{Error, Shown};
use crate::limits;

/// A call of a limiter, as far as its arguments tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<Q> {
    /// The limit that the call states.
    pub quota: Q,
    /// What is asked.
    pub request: Request,
    /// The caller's own time, in ms since the epoch.
    pub at_ms: Option<u64>,
    /// The reply is to come when the request may go; the longest delay is that of the request.
    pub waits: bool,
}

/// `capacity rate [PER ms] [option ...]`, as `RL.TOKENBUCKET` takes them.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn token_bucket<'a>(
    words: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Call<bucket::Quota>, Error> {
    bucket(words.into_iter(), &TOKEN_BUCKET)
}

/// `capacity rate [PER ms] [MAXDELAY ms | WAIT ms] [option ...]`, as `RL.LEAKY` takes them.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn leaky_bucket<'a>(
    words: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Call<bucket::Quota>, Error> {
    bucket(words.into_iter(), &LEAKY_BUCKET)
}

/// `limit window-ms [RESOLUTION ms] [option ...]`, as `RL.SLIDING` takes them.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn sliding_window<'a>(
    words: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Call<sliding_window::Quota>, Error> {
    let mut words = words.into_iter();
    let quota = window_limit(&mut words)?;
    let options = Options::parse(words, &SLIDING_WINDOW)?;
    Ok(options.call(quota))
}

/// `[COST n] [AT ms]`, as `RL.PEEK` takes them.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn peek<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Result<Call<()>, Error> {
    let options = Options::parse(words.into_iter(), &PEEK)?;
    let request = Request::look(options.request.cost);
    Ok(Call { request, ..options.call(()) })
}

/// `[AT ms]`, as `RL.INFO` takes it: the caller's time in ms.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn info<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Result<Option<u64>, Error> {
    Ok(Options::parse(words.into_iter(), &TIME)?.at_ms)
}

/// `n [AT ms]`, as `RL.REFUND` takes them: the units, and the caller's time in ms.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn refund<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> Result<(u64, Option<u64>), Error> {
    let mut words = words.into_iter();
    let back = units(words.next(), limits::MIN_UNITS, Error::Refund)?;
    Ok((back, Options::parse(words, &TIME)?.at_ms))
}

/// `max-burst count period-s [quantity]`, as `RL.THROTTLE` takes them: a token bucket of one more
/// than `max-burst`. `command` is the name under which it is called.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn throttle<'a>(
    command: &'static str,
    words: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Call<bucket::Quota>, Error> {
    let mut words = words.into_iter();
    let max_burst = integer(words.next(), 0, limits::MAX_UNITS - 1, Error::MaxBurst)?;
    let count = integer(words.next(), 1, limits::MAX_RATE, Error::ThrottleCount)?;
    let period_s = integer(words.next(), 1, limits::MAX_DURATION_MS / 1000, Error::ThrottlePeriod)?;
    let cost = match words.next() {
        Some(quantity) => units(Some(quantity), 0, Error::Quantity)?,
        None => 1,
    };
    if words.next().is_some() {
        return Err(Error::Arity(command));
    }
    let rate = Rate { mantissa: count, decimals: 0 };
    let quota = bucket::Quota { capacity: max_burst + 1, rate, period_ms: period_s * 1000 };
    let request = Request { cost, ..Request::ONE };
    Ok(Call { quota, request, at_ms: None, waits: false })
}

fn bucket<'a>(
    mut words: impl Iterator<Item = &'a [u8]>,
    accepts: &Accepts,
) -> Result<Call<bucket::Quota>, Error> {
    let limit = bucket_limit(&mut words)?;
    Ok(bucket_call(limit, &Options::parse(words, accepts)?))
}

/// `capacity rate`, which every bucket begins with.
fn bucket_limit<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Result<(u64, Rate), Error> {
    let capacity = units(words.next(), limits::MIN_UNITS, Error::Capacity)?;
    let rate = words.next().and_then(rate).ok_or(Error::Rate)?;
    Ok((capacity, rate))
}

fn bucket_call((capacity, rate): (u64, Rate), options: &Options) -> Call<bucket::Quota> {
    options.call(bucket::Quota { capacity, rate, period_ms: options.period_ms })
}

/// `limit window-ms`, which every sliding window begins with.
fn window_limit<'a>(
    words: &mut impl Iterator<Item = &'a [u8]>,
) -> Result<sliding_window::Quota, Error> {
    let limit = units(words.next(), limits::MIN_UNITS, Error::Limit)?;
    let window_ms = duration_ms(words.next(), limits::MIN_DURATION_MS, Error::Window)?;
    Ok(sliding_window::Quota { limit, window_ms })
}

/// Which options a command takes, by their names, for the search and for the message.
struct Accepts {
    names: &'static [Name],
    listed: &'static str,
}

impl Accepts {
    fn find(&self, word: &[u8]) -> Option<Name> {
        let named = |name: &&Name| word.eq_ignore_ascii_case(name.text().as_bytes());
        self.names.iter().find(named).copied()
    }
}

const TOKEN_BUCKET: Accepts = Accepts {
    names: &[Name::Per, Name::Cost, Name::Peek, Name::Force, Name::Reserve, Name::Shadow, Name::At],
    listed: "PER, COST, PEEK, FORCE, RESERVE, SHADOW, AT",
};
const LEAKY_BUCKET: Accepts = Accepts {
    names: &[
        Name::Per,
        Name::MaxDelay,
        Name::Wait,
        Name::Cost,
        Name::Peek,
        Name::Force,
        Name::Reserve,
        Name::Shadow,
        Name::At,
    ],
    listed: "PER, MAXDELAY, WAIT, COST, PEEK, FORCE, RESERVE, SHADOW, AT",
};
const SLIDING_WINDOW: Accepts = Accepts {
    names: &[
        Name::Resolution,
        Name::Cost,
        Name::Peek,
        Name::Force,
        Name::Reserve,
        Name::Shadow,
        Name::At,
    ],
    listed: "RESOLUTION, COST, PEEK, FORCE, RESERVE, SHADOW, AT",
};
const PEEK: Accepts = Accepts { names: &[Name::Cost, Name::At], listed: "COST, AT" };
const TIME: Accepts = Accepts { names: &[Name::At], listed: "AT" };

#[derive(Clone, Copy)]
enum Name {
    Per,
    MaxDelay,
    Wait,
    Resolution,
    Cost,
    Peek,
    Force,
    Reserve,
    Shadow,
    At,
}

impl Name {
    /// Its place in a set of options.
    const fn bit(self) -> u32 {
        match self {
            Name::Per => 1,
            Name::MaxDelay => 1 << 1,
            Name::Resolution => 1 << 2,
            Name::Cost => 1 << 3,
            Name::Peek => 1 << 4,
            Name::Force => 1 << 5,
            Name::Reserve => 1 << 6,
            Name::Shadow => 1 << 7,
            Name::At => 1 << 8,
            Name::Wait => 1 << 9,
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Name::Per => "PER",
            Name::MaxDelay => "MAXDELAY",
            Name::Wait => "WAIT",
            Name::Resolution => "RESOLUTION",
            Name::Cost => "COST",
            Name::Peek => "PEEK",
            Name::Force => "FORCE",
            Name::Reserve => "RESERVE",
            Name::Shadow => "SHADOW",
            Name::At => "AT",
        }
    }
}

/// The options of a call.
struct Options {
    /// What is asked, with the defaults of the options that were not given.
    request: Request,
    period_ms: u64,
    at_ms: Option<u64>,
    /// The options that were given, [`Name::bit`] of each.
    given: u32,
}

impl Options {
    /// None given.
    const DEFAULT: Options =
        Options { request: Request::ONE, period_ms: 1000, at_ms: None, given: 0 };

    fn parse<'a>(
        mut words: impl Iterator<Item = &'a [u8]>,
        accepts: &Accepts,
    ) -> Result<Options, Error> {
        let mut options = Options::DEFAULT;
        while let Some(word) = words.next() {
            let Some(name) = accepts.find(word) else {
                let word = Shown::new(word);
                return Err(Error::UnknownOption { word, options: accepts.listed });
            };
            options.set(name, &mut words)?;
        }
        const EXCLUDE: u32 = Name::Force.bit() | Name::Wait.bit();
        if options.given & EXCLUDE != 0 {
            options.check_exclusions()?;
        }
        Ok(options)
    }

    fn check_exclusions(&self) -> Result<(), Error> {
        const BY_BOTH: u32 = Name::Peek.bit() | Name::Shadow.bit() | Name::MaxDelay.bit();
        const BY_FORCE: u32 = BY_BOTH | Name::Reserve.bit() | Name::Wait.bit();
        const BY_WAIT: u32 = BY_BOTH | Name::At.bit();
        if self.request.force && self.given & BY_FORCE != 0 {
            return Err(Error::ForceExcludes);
        }
        if self.waits() && self.given & BY_WAIT != 0 {
            return Err(Error::WaitExcludes);
        }
        Ok(())
    }

    const fn waits(&self) -> bool {
        self.given & Name::Wait.bit() != 0
    }

    /// The call with these options on a limit.
    const fn call<Q: Copy>(&self, quota: Q) -> Call<Q> {
        Call { quota, request: self.request, at_ms: self.at_ms, waits: self.waits() }
    }

    fn set<'a>(
        &mut self,
        name: Name,
        words: &mut impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), Error> {
        let request = &mut self.request;
        let mut value = || words.next().ok_or(Error::NoValue(name.text())).map(Some);
        match name {
            Name::Peek => request.peek = true,
            Name::Force => request.force = true,
            Name::Shadow => request.shadow = true,
            Name::Per => {
                self.period_ms = duration_ms(value()?, limits::MIN_DURATION_MS, Error::Period)?;
            }
            Name::MaxDelay => {
                request.max_delay_ms = Some(duration_ms(value()?, 0, Error::MaxDelay)?);
            }
            Name::Wait => request.max_delay_ms = Some(duration_ms(value()?, 0, Error::Wait)?),
            Name::Resolution => {
                let min = limits::MIN_DURATION_MS;
                request.resolution_ms = duration_ms(value()?, min, Error::Resolution)?;
            }
            Name::Cost => request.cost = units(value()?, 0, Error::Cost)?,
            Name::Reserve => request.reserve = units(value()?, 0, Error::Reserve)?,
            Name::At => self.at_ms = Some(integer(value()?, 0, limits::MAX_TIME_MS, Error::At)?),
        }
        let before = self.given;
        self.given |= name.bit();
        if self.given == before { Err(Error::Twice(name.text())) } else { Ok(()) }
    }
}

fn units(word: Option<&[u8]>, min: u64, error: Error) -> Result<u64, Error> {
    integer(word, min, limits::MAX_UNITS, error)
}

fn duration_ms(word: Option<&[u8]>, min: u64, error: Error) -> Result<u64, Error> {
    integer(word, min, limits::MAX_DURATION_MS, error)
}

pub(crate) fn integer(word: Option<&[u8]>, min: u64, max: u64, error: Error) -> Result<u64, Error> {
    let value = word.and_then(digits).ok_or(error)?;
    if (min..=max).contains(&value) { Ok(value) } else { Err(error) }
}

/// Most bytes of a number. The longest in any range has 20; a word of megabytes, which a client may
/// send too, is not read.
const MAX_NUMBER: usize = 64;

/// A number of digits alone; one too large for any argument stays too large.
fn digits(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > MAX_NUMBER {
        return None;
    }
    word.iter().try_fold(0_u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        let longer = value.saturating_mul(10).saturating_add(u64::from(digit));
        (digit <= 9).then_some(longer)
    })
}

/// A rate in its range, with the zeros at its end cut off.
fn rate(word: &[u8]) -> Option<Rate> {
    if word.len() > MAX_NUMBER {
        return None;
    }
    let Some(point) = word.iter().position(|&byte| byte == b'.') else {
        let whole = digits(word)?;
        let in_range = (1..=limits::MAX_RATE).contains(&whole);
        return in_range.then_some(Rate { mantissa: whole, decimals: 0 });
    };
    let (whole, fraction) = (digits(word.get(..point)?)?, word.get(point + 1..)?);
    if !(1..=usize::from(limits::MAX_DECIMALS)).contains(&fraction.len()) {
        return None;
    }
    let zeros = fraction.iter().rev().take_while(|&&byte| byte == b'0').count();
    let fraction = fraction.get(..fraction.len().saturating_sub(zeros)).unwrap_or_default();
    let decimals = u8::try_from(fraction.len()).ok()?;
    let part = if fraction.is_empty() { 0 } else { digits(fraction)? };
    if whole > limits::MAX_RATE || (whole == limits::MAX_RATE && part > 0) {
        return None;
    }
    let mantissa = whole * bucket::power_of_ten(decimals) + part;
    (mantissa > 0).then_some(Rate { mantissa, decimals })
}
