//! Argument bytes to typed calls.
//!
//! Integers are ASCII digits and nothing else; a decimal is digits and optionally a point with 1
//! to 9 digits behind it. No sign, blank, exponent or name of a number is accepted. Options come
//! after the positional arguments, in any order and case, each at most once. Every value is
//! checked against [`crate::limits`] here, so what comes out can be computed with.
//!
//! `args` is always what follows the key. Whoever calls may cut it after [`ENOUGH`] words: no
//! valid call is longer, so a word of those is wrong or given twice.

use crate::algorithm::bucket::{self, Rate};
use crate::algorithm::{Request, sliding_window};
use crate::error::{Error, Shown};
use crate::limits;

/// More words after the key than any valid call has.
pub const ENOUGH: usize = 32;

/// A call of a limiter, as far as its arguments tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<Q> {
    /// The limit that the call states.
    pub quota: Q,
    /// What is asked.
    pub request: Request,
    /// The caller's own time, in ms since the epoch.
    pub at_ms: Option<u64>,
}

/// `capacity rate [PER ms] [option ...]`, as `RL.TOKENBUCKET` takes them.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn token_bucket(args: &[&[u8]]) -> Result<Call<bucket::Quota>, Error> {
    bucket(args, &TOKEN_BUCKET)
}

/// `capacity rate [PER ms] [MAXDELAY ms] [option ...]`, as `RL.LEAKY` takes them.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn leaky_bucket(args: &[&[u8]]) -> Result<Call<bucket::Quota>, Error> {
    bucket(args, &LEAKY_BUCKET)
}

/// `limit window-ms [RESOLUTION ms] [option ...]`, as `RL.SLIDING` takes them.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn sliding_window(args: &[&[u8]]) -> Result<Call<sliding_window::Quota>, Error> {
    let mut words = args.iter().copied();
    let limit = units(words.next(), limits::MIN_UNITS, Error::Limit)?;
    let window_ms = duration_ms(words.next(), limits::MIN_DURATION_MS, Error::Window)?;
    let options = Options::parse(words, &SLIDING_WINDOW)?;
    let quota = sliding_window::Quota { limit, window_ms };
    Ok(Call { quota, request: options.request()?, at_ms: options.at_ms })
}

/// `[COST n] [AT ms]`, as `RL.PEEK` takes them.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn peek(args: &[&[u8]]) -> Result<Call<()>, Error> {
    let options = Options::parse(args.iter().copied(), &PEEK)?;
    Ok(Call { quota: (), request: Request::look(options.cost.unwrap_or(1)), at_ms: options.at_ms })
}

/// `[AT ms]`, as `RL.INFO` takes it: the caller's time in ms.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn info(args: &[&[u8]]) -> Result<Option<u64>, Error> {
    Ok(Options::parse(args.iter().copied(), &TIME)?.at_ms)
}

/// `n [AT ms]`, as `RL.REFUND` takes them: the units, and the caller's time in ms.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn refund(args: &[&[u8]]) -> Result<(u64, Option<u64>), Error> {
    let mut words = args.iter().copied();
    let back = units(words.next(), limits::MIN_UNITS, Error::Refund)?;
    Ok((back, Options::parse(words, &TIME)?.at_ms))
}

fn bucket(args: &[&[u8]], accepts: &Accepts) -> Result<Call<bucket::Quota>, Error> {
    let mut words = args.iter().copied();
    let capacity = units(words.next(), limits::MIN_UNITS, Error::Capacity)?;
    let rate = words.next().and_then(rate).ok_or(Error::Rate)?;
    let options = Options::parse(words, accepts)?;
    let period_ms = options.period_ms.unwrap_or(1000);
    let quota = bucket::Quota { capacity, rate, period_ms };
    Ok(Call { quota, request: options.request()?, at_ms: options.at_ms })
}

/// Which options a command takes, by their names, for the search and for the message.
struct Accepts {
    names: &'static [Name],
    listed: &'static str,
}

const TOKEN_BUCKET: Accepts = Accepts {
    names: &[Name::Per, Name::Cost, Name::Peek, Name::Force, Name::Reserve, Name::Shadow, Name::At],
    listed: "PER, COST, PEEK, FORCE, RESERVE, SHADOW, AT",
};
const LEAKY_BUCKET: Accepts = Accepts {
    names: &[
        Name::Per,
        Name::MaxDelay,
        Name::Cost,
        Name::Peek,
        Name::Force,
        Name::Reserve,
        Name::Shadow,
        Name::At,
    ],
    listed: "PER, MAXDELAY, COST, PEEK, FORCE, RESERVE, SHADOW, AT",
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
    Resolution,
    Cost,
    Peek,
    Force,
    Reserve,
    Shadow,
    At,
}

impl Name {
    const fn text(self) -> &'static str {
        match self {
            Name::Per => "PER",
            Name::MaxDelay => "MAXDELAY",
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

/// The options of a call as they were given.
#[derive(Default)]
struct Options {
    period_ms: Option<u64>,
    max_delay_ms: Option<u64>,
    resolution_ms: Option<u64>,
    cost: Option<u64>,
    reserve: Option<u64>,
    at_ms: Option<u64>,
    peek: Option<()>,
    force: Option<()>,
    shadow: Option<()>,
}

impl Options {
    fn parse<'a>(
        mut words: impl Iterator<Item = &'a [u8]>,
        accepts: &Accepts,
    ) -> Result<Options, Error> {
        let mut options = Options::default();
        while let Some(word) = words.next() {
            let named = |name: &&Name| word.eq_ignore_ascii_case(name.text().as_bytes());
            let Some(&name) = accepts.names.iter().find(named) else {
                let word = Shown::new(word);
                return Err(Error::UnknownOption { word, options: accepts.listed });
            };
            options.set(name, &mut words)?;
        }
        Ok(options)
    }

    fn set<'a>(
        &mut self,
        name: Name,
        words: &mut impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), Error> {
        let mut value = || words.next().ok_or(Error::NoValue(name.text())).map(Some);
        let twice = match name {
            Name::Peek => self.peek.replace(()).is_some(),
            Name::Force => self.force.replace(()).is_some(),
            Name::Shadow => self.shadow.replace(()).is_some(),
            Name::Per => {
                let period_ms = duration_ms(value()?, limits::MIN_DURATION_MS, Error::Period)?;
                self.period_ms.replace(period_ms).is_some()
            }
            Name::MaxDelay => {
                let delay_ms = duration_ms(value()?, 0, Error::MaxDelay)?;
                self.max_delay_ms.replace(delay_ms).is_some()
            }
            Name::Resolution => {
                let ms = duration_ms(value()?, limits::MIN_DURATION_MS, Error::Resolution)?;
                self.resolution_ms.replace(ms).is_some()
            }
            Name::Cost => self.cost.replace(units(value()?, 0, Error::Cost)?).is_some(),
            Name::Reserve => self.reserve.replace(units(value()?, 0, Error::Reserve)?).is_some(),
            Name::At => {
                let at_ms = integer(value()?, 0, limits::MAX_TIME_MS, Error::At)?;
                self.at_ms.replace(at_ms).is_some()
            }
        };
        if twice { Err(Error::Twice(name.text())) } else { Ok(()) }
    }

    fn request(&self) -> Result<Request, Error> {
        let excluded = self.peek.or(self.shadow).is_some()
            || self.reserve.is_some()
            || self.max_delay_ms.is_some();
        if self.force.is_some() && excluded {
            return Err(Error::ForceExcludes);
        }
        Ok(Request {
            cost: self.cost.unwrap_or(1),
            reserve: self.reserve.unwrap_or(0),
            peek: self.peek.is_some(),
            force: self.force.is_some(),
            shadow: self.shadow.is_some(),
            max_delay_ms: self.max_delay_ms,
            resolution_ms: self.resolution_ms.unwrap_or(1),
        })
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

/// A number of digits alone; one too large for any argument stays too large.
fn digits(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |value, &byte| {
        let digit = char::from(byte).to_digit(10)?;
        Some(value.saturating_mul(10).saturating_add(u64::from(digit)))
    })
}

/// A rate in its range, with the zeros at its end cut off.
fn rate(word: &[u8]) -> Option<Rate> {
    let mut parts = word.splitn(2, |&byte| byte == b'.');
    let whole = digits(parts.next()?)?;
    let fraction = match parts.next() {
        None => &[],
        Some(fraction) if (1..=usize::from(limits::MAX_DECIMALS)).contains(&fraction.len()) => {
            fraction
        }
        Some(_) => return None,
    };
    let zeros = fraction.iter().rev().take_while(|&&byte| byte == b'0').count();
    let fraction = fraction.get(..fraction.len().saturating_sub(zeros)).unwrap_or_default();
    let decimals = u8::try_from(fraction.len()).ok()?;
    let part = if fraction.is_empty() { 0 } else { digits(fraction)? };
    if whole > limits::MAX_RATE || (whole == limits::MAX_RATE && part > 0) {
        return None;
    }
    let mantissa = whole * 10_u64.pow(u32::from(decimals)) + part;
    (mantissa > 0).then_some(Rate { mantissa, decimals })
}
