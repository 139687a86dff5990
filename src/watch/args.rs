//! Argument bytes to typed calls of `RL.STATS`, `RL.TOPDENIED` and `RL.LOG`, by the rules of
//! [`crate::args`].
//!
//! `words` is always what follows the command's name.

use crate::args::integer;
use crate::error::{Error, Shown};
use crate::limits::{MAX_LOG_LEN, MAX_TOPDENIED_SIZE};

/// How many keys or denials are shown where the call does not say it.
pub const DEFAULT_COUNT: usize = 10;

/// A call of `RL.TOPDENIED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopDenied {
    /// Most keys to show.
    pub count: usize,
    /// Whether to forget all keys afterwards.
    pub reset: bool,
}

/// A call of `RL.LOG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Show at most so many denials.
    Get(usize),
    /// Tell how many there are.
    Len,
    /// Forget all.
    Reset,
}

/// `[RESET]`, as `RL.STATS` takes it: whether to begin anew afterwards.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn stats<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<bool, Error> {
    let mut reset = false;
    for word in words {
        if !word.eq_ignore_ascii_case(b"RESET") {
            return Err(Error::UnknownOption { word: Shown::new(word), options: "RESET" });
        }
        once(&mut reset, "RESET")?;
    }
    Ok(reset)
}

/// `[COUNT n] [RESET]`, as `RL.TOPDENIED` takes them.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn top_denied<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Result<TopDenied, Error> {
    let mut call = TopDenied { count: DEFAULT_COUNT, reset: false };
    let mut counted = false;
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"RESET") {
            once(&mut call.reset, "RESET")?;
        } else if word.eq_ignore_ascii_case(b"COUNT") {
            let n = words.next().ok_or(Error::NoValue("COUNT"))?;
            call.count = count(n, MAX_TOPDENIED_SIZE, Error::Count)?;
            once(&mut counted, "COUNT")?;
        } else {
            let word = Shown::new(word);
            return Err(Error::UnknownOption { word, options: "COUNT, RESET" });
        }
    }
    Ok(call)
}

/// `GET [n] | LEN | RESET`, as `RL.LOG` takes them.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn log<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Result<Log, Error> {
    const ARITY: Error = Error::Arity("rl.log");
    let word = words.next().ok_or(ARITY)?;
    let n = words.next();
    let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
    let call = match n {
        None if is(b"GET") => Log::Get(DEFAULT_COUNT),
        Some(_) if is(b"GET") && words.next().is_some() => return Err(ARITY),
        Some(n) if is(b"GET") => Log::Get(count(n, MAX_LOG_LEN, Error::LogCount)?),
        None if is(b"LEN") => Log::Len,
        None if is(b"RESET") => Log::Reset,
        Some(_) if is(b"LEN") || is(b"RESET") => return Err(ARITY),
        _ => return Err(Error::Subcommand(Shown::new(word))),
    };
    Ok(call)
}

fn count(word: &[u8], max: u64, error: Error) -> Result<usize, Error> {
    usize::try_from(integer(Some(word), 1, max, error)?).map_err(|_| error)
}

/// Notes that a word was given.
fn once(given: &mut bool, name: &'static str) -> Result<(), Error> {
    if std::mem::replace(given, true) { Err(Error::Twice(name)) } else { Ok(()) }
}
