//! Every error that a client can get from the module, one text each.
//!
//! A text is one line that names the argument and the values it takes. A call that is answered
//! with an error has changed nothing.

use std::fmt;

/// What was wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// `capacity` is no integer in its range.
    Capacity,
    /// `rate` is no decimal in its range.
    Rate,
    /// `limit` is no integer in its range.
    Limit,
    /// `window-ms` is no integer in its range.
    Window,
    /// The value of `PER` is no integer in its range.
    Period,
    /// The value of `COST` is no integer in its range.
    Cost,
    /// The value of `RESERVE` is no integer in its range.
    Reserve,
    /// The value of `MAXDELAY` is no integer in its range.
    MaxDelay,
    /// The value of `WAIT` is no integer in its range.
    Wait,
    /// The value of `RESOLUTION` is no integer in its range.
    Resolution,
    /// The value of `AT` is no integer in its range.
    At,
    /// `n`, the units to give back, is no integer in its range.
    Refund,
    /// The value of `COUNT` is no integer in its range.
    Count,
    /// `n`, the entries of the log to show, is no integer in its range.
    LogCount,
    /// `max-burst` is no integer in its range.
    MaxBurst,
    /// `count` of `RL.THROTTLE` is no integer in its range.
    ThrottleCount,
    /// `period-s` is no integer in its range.
    ThrottlePeriod,
    /// `quantity` is no integer in its range.
    Quantity,
    /// `numkeys` is no integer in its range.
    NumKeys,
    /// Fewer words than `numkeys` says follow it.
    TooFewKeys,
    /// The same key is named twice.
    SameKey,
    /// A key has no rule.
    NoRule,
    /// A word where a rule begins that names none.
    UnknownRule(Shown),
    /// The named command was given too few or too many words.
    Arity(&'static str),
    /// A word that is none of the subcommands of `RL.LOG`.
    Subcommand(Shown),
    /// A word that is none of the command's options.
    UnknownOption {
        /// The word, as far as it can be shown.
        word: Shown,
        /// The options that the command takes.
        options: &'static str,
    },
    /// The named option is the last word, and its value is missing.
    NoValue(&'static str),
    /// The named option was given a second time.
    Twice(&'static str),
    /// `FORCE` with an option that it excludes.
    ForceExcludes,
    /// `WAIT` with an option that it excludes.
    WaitExcludes,
    /// `AT`, while the configuration does not let callers bring their own clock.
    ClientTime,
    /// The call would leave the key more than 100 years from its reset.
    TooSlow,
    /// The call would record more than 2^53 units.
    TooManyUnits,
    /// The hits of the window would take more than so many bytes, which the configuration sets.
    TooManyBytes(u64),
    /// The key holds something else than the command's own state.
    WrongType,
    /// The server is at its limit of memory, and the call would take more.
    OutOfMemory,
    /// The payload of the internal command is no state that this module writes.
    Payload,
    /// The internal command, from somebody who is neither the primary nor the append-only file.
    Internal,
    /// A bug in the module, caught before it could end the server.
    Bug,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Error::Capacity => "ERR capacity must be an integer from 1 to 9007199254740992",
            Error::Rate => {
                "ERR rate must be a decimal from 0.000000001 to 1000000000 with at most 9 digits \
                 after the point"
            }
            Error::Limit => "ERR limit must be an integer from 1 to 9007199254740992",
            Error::Window => "ERR window-ms must be an integer from 1 to 315360000000",
            Error::Period => "ERR PER must be an integer from 1 to 315360000000",
            Error::Cost => "ERR COST must be an integer from 0 to 9007199254740992",
            Error::Reserve => "ERR RESERVE must be an integer from 0 to 9007199254740992",
            Error::MaxDelay => "ERR MAXDELAY must be an integer from 0 to 315360000000",
            Error::Wait => "ERR WAIT must be an integer from 0 to 315360000000",
            Error::Resolution => "ERR RESOLUTION must be an integer from 1 to 315360000000",
            Error::At => "ERR AT must be an integer from 0 to 9007199254740992",
            Error::Refund => "ERR n must be an integer from 1 to 9007199254740992",
            Error::Count => "ERR COUNT must be an integer from 1 to 10000",
            Error::LogCount => "ERR n must be an integer from 1 to 100000",
            Error::MaxBurst => "ERR max-burst must be an integer from 0 to 9007199254740991",
            Error::ThrottleCount => "ERR count must be an integer from 1 to 1000000000",
            Error::ThrottlePeriod => "ERR period-s must be an integer from 1 to 315360000",
            Error::Quantity => "ERR quantity must be an integer from 0 to 9007199254740992",
            Error::NumKeys => "ERR numkeys must be an integer from 1 to 1000",
            Error::TooFewKeys => "ERR numkeys is greater than the number of keys",
            Error::SameKey => "ERR the same key is given twice, each rule needs a key of its own",
            Error::NoRule => {
                "ERR each key needs a rule: TOKENBUCKET, LEAKY or SLIDING with its arguments"
            }
            Error::UnknownRule(_)
            | Error::Arity(_)
            | Error::Subcommand(_)
            | Error::UnknownOption { .. }
            | Error::NoValue(_)
            | Error::Twice(_)
            | Error::TooManyBytes(_) => return self.fmt_with_words(f),
            Error::ForceExcludes => "ERR FORCE excludes PEEK, RESERVE, SHADOW, MAXDELAY and WAIT",
            Error::WaitExcludes => "ERR WAIT excludes PEEK, SHADOW, AT, MAXDELAY and FORCE",
            Error::ClientTime => "ERR AT is refused unless the configuration rl.client-time is yes",
            Error::TooSlow => {
                "ERR capacity and COST against rate must leave the key at most 100 years from its \
                 reset"
            }
            Error::TooManyUnits => {
                "ERR COST must leave at most 9007199254740992 units recorded in the key"
            }
            Error::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Error::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            Error::Payload => "ERR payload must be a state written by this module",
            Error::Internal => {
                "ERR rl.effect is internal: only a primary and the append-only file may send it"
            }
            Error::Bug => "ERR internal error in the module rl, please report it",
        };
        f.write_str(text)
    }
}

impl Error {
    /// The text of those that repeat words of the call or numbers of the configuration.
    fn fmt_with_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::UnknownRule(word) => write!(
                f,
                "ERR '{word}' is no option of the rule before and begins none: expected \
                 TOKENBUCKET, LEAKY or SLIDING"
            ),
            Error::Arity(command) => {
                write!(f, "ERR wrong number of arguments for '{command}' command")
            }
            Error::Subcommand(word) => {
                write!(f, "ERR unknown subcommand '{word}', expected GET, LEN or RESET")
            }
            Error::UnknownOption { word, options } => {
                write!(f, "ERR unknown option '{word}', expected one of {options}")
            }
            Error::NoValue(option) => write!(f, "ERR {option} needs a value after it"),
            Error::Twice(option) => write!(f, "ERR {option} may be given only once"),
            Error::TooManyBytes(max) => write!(
                f,
                "ERR window-ms and RESOLUTION must leave the hits of the key within {max} bytes, \
                 the configuration rl.sliding-max-bytes"
            ),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// The beginning of an argument, for a message: at most [`Shown::MAX`] bytes, and a `?` for each
/// byte that is no printable ASCII, so that no input can break or forge a line of the protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    bytes: [u8; Shown::MAX],
    len: usize,
}

impl Shown {
    /// Most bytes of an argument that a message repeats.
    pub const MAX: usize = 32;

    /// Takes the beginning of `argument`.
    pub fn new(argument: &[u8]) -> Shown {
        let mut bytes = [b'?'; Shown::MAX];
        for (shown, &byte) in bytes.iter_mut().zip(argument) {
            if byte.is_ascii_graphic() || byte == b' ' {
                *shown = byte;
            }
        }
        Shown { bytes, len: argument.len().min(Shown::MAX) }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.bytes.get(..self.len).unwrap_or_default();
        shown.iter().try_for_each(|&byte| fmt::Write::write_char(f, char::from(byte)))
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
