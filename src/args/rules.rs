//! The words of `RL.ALL`: one rule for each key, in order, and then what holds for all of them.
//!
//! A rule is the name of a limiter, its limit and its own options, as the limiter's command takes
//! them. It ends where a word is none of its options. PEEK, SHADOW and AT belong to the whole call
//! and come behind the last rule, among whose options they may stand.

use std::fmt;
use std::iter::Peekable;

use super::{Accepts, Call, Name, Options, bucket_call, bucket_limit, integer, window_limit};
use crate::algorithm::{Request, bucket, sliding_window};
use crate::error::{Error, Shown};
use crate::limits;

/// A limit of `RL.ALL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `TOKENBUCKET capacity rate [PER ms]`
    TokenBucket(Call<bucket::Quota>),
    /// `LEAKY capacity rate [PER ms] [MAXDELAY ms]`
    LeakyBucket(Call<bucket::Quota>),
    /// `SLIDING limit window-ms [RESOLUTION ms]`
    SlidingWindow(Call<sliding_window::Quota>),
}

/// What follows the keys of `RL.ALL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// One for each key.
    pub rules: Vec<Rule>,
    /// The caller's own time, in ms since the epoch.
    pub at_ms: Option<u64>,
}

/// What was wrong with a call, and with which of its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The rule, counted from 0 as in the reply; none where the fault is not in one.
    pub rule: Option<usize>,
    /// The fault.
    pub error: Error,
}

impl From<Error> for RuleError {
    fn from(error: Error) -> RuleError {
        RuleError { rule: None, error }
    }
}

impl RuleError {
    /// Says of an error which rule it belongs to.
    pub fn of(rule: usize) -> impl Fn(Error) -> RuleError {
        move |error| RuleError { rule: Some(rule), error }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.error.to_string();
        // WRONGTYPE and OOM are the server's own texts.
        match (self.rule, text.strip_prefix("ERR ")) {
            (Some(rule), Some(fault)) => write!(f, "ERR rule {rule}: {fault}"),
            _ => f.write_str(&text),
        }
    }
}

/// `numkeys`, without zeros in front: the server reads the same word to find the keys, and takes
/// none with zeros for a number.
///
/// # Errors
/// [`Error::NumKeys`] out of its range, [`Error::TooFewKeys`] where fewer than so many words
/// follow.
pub fn numkeys(word: Option<&[u8]>, words_after: usize) -> Result<usize, Error> {
    if word.is_some_and(|word| word.starts_with(b"0")) {
        return Err(Error::NumKeys);
    }
    let keys = integer(word, 1, limits::MAX_RULES, Error::NumKeys)?;
    let keys = usize::try_from(keys).map_err(|_| Error::NumKeys)?;
    if keys > words_after { Err(Error::TooFewKeys) } else { Ok(keys) }
}

/// The rules of `keys` keys, and the options of the whole call.
///
/// # Errors
/// One for the first argument that is wrong.
pub fn rules<'a>(
    keys: usize,
    words: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Rules, RuleError> {
    let mut words = words.into_iter().peekable();
    let mut rules = Vec::with_capacity(keys);
    let mut whole = Options::DEFAULT;
    for index in 0..keys {
        let last = index + 1 == keys;
        let (rule, options) = rule(&mut words, last).map_err(RuleError::of(index))?;
        rules.push(rule);
        whole = options;
    }
    for rule in &mut rules {
        let request = rule.request_mut();
        (request.peek, request.shadow) = (whole.request.peek, whole.request.shadow);
    }
    Ok(Rules { rules, at_ms: whole.at_ms })
}

impl Rule {
    fn request_mut(&mut self) -> &mut Request {
        match self {
            Rule::TokenBucket(call) | Rule::LeakyBucket(call) => &mut call.request,
            Rule::SlidingWindow(call) => &mut call.request,
        }
    }
}

fn rule<'a>(
    words: &mut Peekable<impl Iterator<Item = &'a [u8]>>,
    last: bool,
) -> Result<(Rule, Options), Error> {
    let word = words.next().ok_or(Error::NoRule)?;
    let named = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    if named("TOKENBUCKET") {
        let limit = bucket_limit(words)?;
        let options = options(words, &TOKEN_BUCKET, last)?;
        Ok((Rule::TokenBucket(bucket_call(limit, &options)), options))
    } else if named("LEAKY") {
        let limit = bucket_limit(words)?;
        let options = options(words, &LEAKY_BUCKET, last)?;
        Ok((Rule::LeakyBucket(bucket_call(limit, &options)), options))
    } else if named("SLIDING") {
        let quota = window_limit(words)?;
        let options = options(words, &SLIDING_WINDOW, last)?;
        Ok((Rule::SlidingWindow(options.call(quota)), options))
    } else {
        Err(Error::UnknownRule(Shown::new(word)))
    }
}

/// The options of a rule, and behind the last one those of the whole call.
fn options<'a>(
    words: &mut Peekable<impl Iterator<Item = &'a [u8]>>,
    accepts: &Accepts,
    last: bool,
) -> Result<Options, Error> {
    let mut options = Options::DEFAULT;
    while let Some(&word) = words.peek() {
        let whole = || if last { WHOLE_CALL.find(word) } else { None };
        let Some(name) = accepts.find(word).or_else(whole) else { break };
        words.next();
        options.set(name, words)?;
    }
    match words.peek() {
        Some(word) if last => {
            Err(Error::UnknownOption { word: Shown::new(word), options: accepts.listed })
        }
        _ => Ok(options),
    }
}

const TOKEN_BUCKET: Accepts = Accepts {
    names: &[Name::Per, Name::Cost, Name::Reserve],
    listed: "PER, COST, RESERVE, PEEK, SHADOW, AT",
};
const LEAKY_BUCKET: Accepts = Accepts {
    names: &[Name::Per, Name::MaxDelay, Name::Cost, Name::Reserve],
    listed: "PER, MAXDELAY, COST, RESERVE, PEEK, SHADOW, AT",
};
const SLIDING_WINDOW: Accepts = Accepts {
    names: &[Name::Resolution, Name::Cost, Name::Reserve],
    listed: "RESOLUTION, COST, RESERVE, PEEK, SHADOW, AT",
};
const WHOLE_CALL: Accepts = Accepts { names: &[Name::Peek, Name::Shadow, Name::At], listed: "" };
