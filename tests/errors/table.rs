//! The bad calls and the text that each gets.
//!
//! A line's words are split at blanks; `\e` is an empty word, `\s` a blank, see
//! [`super::support::words`].

use super::several;
use super::support::{quoted, words};

/// The words of a call.
pub type Words = Vec<Vec<u8>>;

/// A call and its error.
pub struct Case {
    pub call: Words,
    pub error: String,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", quoted(&self.call), self.error)
    }
}

/// How Redis's own text for too few words begins.
pub const ARITY: &str = "ERR wrong number of arguments for '";
pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

const CAPACITY: &str = "ERR capacity must be an integer from 1 to 9007199254740992";
const LIMIT: &str = "ERR limit must be an integer from 1 to 9007199254740992";
const RATE: &str = "ERR rate must be a decimal from 0.000000001 to 1000000000 with at most 9 \
                    digits after the point";
const WINDOW: &str = "ERR window-ms must be an integer from 1 to 315360000000";
const PER: &str = "ERR PER must be an integer from 1 to 315360000000";
const COST: &str = "ERR COST must be an integer from 0 to 9007199254740992";
const RESERVE: &str = "ERR RESERVE must be an integer from 0 to 9007199254740992";
const MAXDELAY: &str = "ERR MAXDELAY must be an integer from 0 to 315360000000";
const WAIT: &str = "ERR WAIT must be an integer from 0 to 315360000000";
const RESOLUTION: &str = "ERR RESOLUTION must be an integer from 1 to 315360000000";
const AT: &str = "ERR AT must be an integer from 0 to 9007199254740992";
const REFUND: &str = "ERR n must be an integer from 1 to 9007199254740992";
const COUNT: &str = "ERR COUNT must be an integer from 1 to 10000";
const LOG_N: &str = "ERR n must be an integer from 1 to 100000";
const CLIENT_TIME: &str = "ERR AT is refused unless the configuration rl.client-time is yes";
const FORCE: &str = "ERR FORCE excludes PEEK, RESERVE, SHADOW, MAXDELAY and WAIT";
const WAIT_EXCLUDES: &str = "ERR WAIT excludes PEEK, SHADOW, AT, MAXDELAY and FORCE";
const TOO_SLOW: &str =
    "ERR capacity and COST against rate must leave the key at most 100 years from its reset";
const TOO_MANY: &str = "ERR COST must leave at most 9007199254740992 units recorded in the key";

/// Each command with the options that it names when it is given another.
const OPTIONS: [(&str, &str); 8] = [
    ("RL.TOKENBUCKET k 5 1", "PER, COST, PEEK, FORCE, RESERVE, SHADOW, AT"),
    ("RL.LEAKY k 5 1", "PER, MAXDELAY, WAIT, COST, PEEK, FORCE, RESERVE, SHADOW, AT"),
    ("RL.SLIDING k 5 1000", "RESOLUTION, COST, PEEK, FORCE, RESERVE, SHADOW, AT"),
    ("RL.PEEK k", "COST, AT"),
    ("RL.REFUND k 1", "AT"),
    ("RL.INFO k", "AT"),
    ("RL.STATS", "RESET"),
    ("RL.TOPDENIED", "COUNT, RESET"),
];

/// A call of each command that is answered with numbers where `k` holds its limiter's state. They
/// leave a state that lasts longer than the tests.
pub const VALID_CALLS: [&str; 8] = [
    "RL.TOKENBUCKET k 5 1 PER 3600000",
    "RL.LEAKY k 5 1 PER 3600000",
    "RL.SLIDING k 5 3600000",
    "RL.PEEK k",
    "RL.REFUND k 1",
    "RL.INFO k",
    "RL.ALL 1 k TOKENBUCKET 5 1 PER 3600000",
    "RL.THROTTLE k 4 1 3600",
];

/// A call with a bad argument of the same command as `valid`.
pub fn bad_for(valid: &str) -> (&'static str, &'static str) {
    match valid.split(' ').next() {
        Some("RL.TOKENBUCKET") => ("RL.TOKENBUCKET k 0 1", CAPACITY),
        Some("RL.LEAKY") => ("RL.LEAKY k 5 1 AT 1700000000000", CLIENT_TIME),
        Some("RL.SLIDING") => ("RL.SLIDING k 5 x", WINDOW),
        Some("RL.PEEK") => ("RL.PEEK k COST x", COST),
        Some("RL.INFO") => ("RL.INFO k AT 5", CLIENT_TIME),
        Some("RL.ALL") => ("RL.ALL 1 k TOKENBUCKET 5 1 AT 5", CLIENT_TIME),
        Some("RL.THROTTLE") => ("RL.THROTTLE k 4 1 x", several::PERIOD),
        _ => ("RL.REFUND k 0", REFUND),
    }
}

/// The call that creates a state for the command of `call` to find.
pub fn valid_call_of(call: &Words) -> &'static str {
    match call[0].as_slice() {
        b"RL.LEAKY" => VALID_CALLS[1],
        b"RL.SLIDING" => VALID_CALLS[2],
        _ => VALID_CALLS[0],
    }
}

/// Keys that no limiter may touch, and their types.
pub const OTHER_TYPES: &[(&str, &str)] = &[
    ("SET k 5", "string"),
    ("SET k not\\sa\\snumber\\xff", "string"),
    ("RPUSH k a b", "list"),
    ("HSET k a b", "hash"),
    ("SADD k a b", "set"),
    ("ZADD k 1 a", "zset"),
    ("XADD k * a b", "stream"),
];

/// Words that are no integer in any range.
const NO_INTEGER: &[&str] = &[
    "\\e",
    "\\s",
    "\\s5",
    "5\\s",
    "5\\n",
    "\\r\\n",
    "\\r\\n+OK\\r\\n",
    "5\\0",
    "\\05",
    "\\xff",
    "5\\xff",
    "\\xef\\xbc\\x95",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "0x10",
    "1e3",
    "1E3",
    "+5",
    "-5",
    "-0",
    "5.0",
    "5.",
    "1,000",
    "1_000",
    "five",
    "18446744073709551616",
    "18446744073709551621",
    "99999999999999999999999999",
    "340282366920938463463374607431768211461",
];

/// Words that are no rate.
const NO_RATE: &[&str] = &[
    "\\e",
    "\\s",
    "\\s1",
    "1\\s",
    "1.5\\s",
    "1.5\\n",
    "1\\0",
    "\\xff",
    "nan",
    "inf",
    "-inf",
    "infinity",
    "0x1",
    "1e3",
    "1e-3",
    "1e400",
    "+1",
    "-1",
    "-0.5",
    "1,5",
    "1.2.3",
    "1..5",
    ".",
    ".5",
    "5.",
    "1_000",
    "1.+5",
    "1.-5",
    "1/2",
    "0",
    "0.0",
    "0.000000000",
    "0.0000000001",
    "0.1234567891",
    "1.0000000000",
    "1000000000.000000001",
    "1000000000.1",
    "1000000001",
    "18446744073709551616",
    "340282366920938463463374607431768211457",
];

/// An argument: the call around it, its error, and the values just outside of its range.
const INTEGERS: &[(&str, &str, &[&str])] = &[
    ("RL.TOKENBUCKET k {} 1", CAPACITY, &["0", "00", "9007199254740993"]),
    ("RL.LEAKY k {} 1", CAPACITY, &["0", "9007199254740993"]),
    ("RL.SLIDING k {} 1000", LIMIT, &["0", "9007199254740993"]),
    ("RL.SLIDING k 5 {}", WINDOW, &["0", "315360000001"]),
    ("RL.TOKENBUCKET k 5 1 PER {}", PER, &["0", "315360000001"]),
    ("RL.LEAKY k 5 1 PER {}", PER, &["0", "315360000001"]),
    ("RL.LEAKY k 5 1 MAXDELAY {}", MAXDELAY, &["315360000001"]),
    ("RL.LEAKY k 5 1 WAIT {}", WAIT, &["315360000001"]),
    ("RL.SLIDING k 5 1000 RESOLUTION {}", RESOLUTION, &["0", "315360000001"]),
    ("RL.TOKENBUCKET k 5 1 COST {}", COST, &["9007199254740993"]),
    ("RL.LEAKY k 5 1 COST {}", COST, &["9007199254740993"]),
    ("RL.SLIDING k 5 1000 COST {}", COST, &["9007199254740993"]),
    ("RL.PEEK k COST {}", COST, &["9007199254740993"]),
    ("RL.TOKENBUCKET k 5 1 RESERVE {}", RESERVE, &["9007199254740993"]),
    ("RL.LEAKY k 5 1 RESERVE {}", RESERVE, &["9007199254740993"]),
    ("RL.SLIDING k 5 1000 RESERVE {}", RESERVE, &["9007199254740993"]),
    ("RL.TOKENBUCKET k 5 1 AT {}", AT, &["9007199254740993"]),
    ("RL.PEEK k AT {}", AT, &["9007199254740993"]),
    ("RL.REFUND k {}", REFUND, &["0", "9007199254740993"]),
    ("RL.REFUND k 1 AT {}", AT, &["9007199254740993"]),
    ("RL.INFO k AT {}", AT, &["9007199254740993"]),
    ("RL.TOPDENIED COUNT {}", COUNT, &["0", "10001"]),
    ("RL.LOG GET {}", LOG_N, &["0", "100001"]),
];

/// Calls with a text of their own.
const SINGLE: &[(&str, &str)] = &[
    ("RL.TOKENBUCKET k 5 1 PER", "ERR PER needs a value after it"),
    ("RL.TOKENBUCKET k 5 1 COST", "ERR COST needs a value after it"),
    ("RL.TOKENBUCKET k 5 1 peek reserve", "ERR RESERVE needs a value after it"),
    ("RL.LEAKY k 5 1 MAXDELAY", "ERR MAXDELAY needs a value after it"),
    ("RL.LEAKY k 5 1 WAIT", "ERR WAIT needs a value after it"),
    ("RL.SLIDING k 5 1000 RESOLUTION", "ERR RESOLUTION needs a value after it"),
    ("RL.SLIDING k 5 1000 COST 1 AT", "ERR AT needs a value after it"),
    ("RL.PEEK k COST", "ERR COST needs a value after it"),
    ("RL.PEEK k at", "ERR AT needs a value after it"),
    ("RL.REFUND k 1 AT", "ERR AT needs a value after it"),
    ("RL.INFO k AT", "ERR AT needs a value after it"),
    ("RL.TOKENBUCKET k 5 1 PER 1000 PER 1000", "ERR PER may be given only once"),
    ("RL.TOKENBUCKET k 5 1 COST 1 cost 2", "ERR COST may be given only once"),
    ("RL.TOKENBUCKET k 5 1 PEEK COST 1 Peek", "ERR PEEK may be given only once"),
    ("RL.TOKENBUCKET k 5 1 FORCE FORCE", "ERR FORCE may be given only once"),
    ("RL.LEAKY k 5 1 SHADOW SHADOW", "ERR SHADOW may be given only once"),
    ("RL.LEAKY k 5 1 MAXDELAY 1 MAXDELAY 1", "ERR MAXDELAY may be given only once"),
    ("RL.LEAKY k 5 1 WAIT 1 wait 1", "ERR WAIT may be given only once"),
    ("RL.SLIDING k 5 1000 RESERVE 1 RESERVE 1", "ERR RESERVE may be given only once"),
    ("RL.SLIDING k 5 1000 RESOLUTION 1 RESOLUTION 1", "ERR RESOLUTION may be given only once"),
    ("RL.SLIDING k 5 1000 AT 1 AT 1", "ERR AT may be given only once"),
    ("RL.PEEK k COST 1 COST 1", "ERR COST may be given only once"),
    ("RL.REFUND k 1 AT 1 AT 1", "ERR AT may be given only once"),
    ("RL.INFO k AT 1 AT 1", "ERR AT may be given only once"),
    ("RL.TOPDENIED COUNT", "ERR COUNT needs a value after it"),
    ("RL.STATS RESET reset", "ERR RESET may be given only once"),
    ("RL.TOPDENIED RESET COUNT 1 RESET", "ERR RESET may be given only once"),
    ("RL.TOPDENIED COUNT 1 COUNT 1", "ERR COUNT may be given only once"),
    ("RL.LOG HELP", "ERR unknown subcommand 'HELP', expected GET, LEN or RESET"),
    ("RL.LOG \\r\\n 1", "ERR unknown subcommand '??', expected GET, LEN or RESET"),
    ("RL.TOKENBUCKET k 5 1 FORCE PEEK", FORCE),
    ("RL.TOKENBUCKET k 5 1 PEEK FORCE", FORCE),
    ("RL.TOKENBUCKET k 5 1 FORCE RESERVE 0", FORCE),
    ("RL.TOKENBUCKET k 5 1 SHADOW COST 2 FORCE", FORCE),
    ("RL.LEAKY k 5 1 FORCE MAXDELAY 100", FORCE),
    ("RL.LEAKY k 5 1 MAXDELAY 0 FORCE", FORCE),
    ("RL.LEAKY k 5 1 FORCE SHADOW", FORCE),
    ("RL.LEAKY k 5 1 WAIT 0 FORCE", FORCE),
    ("RL.LEAKY k 5 1 FORCE WAIT 100", FORCE),
    ("RL.LEAKY k 5 1 WAIT 100 PEEK", WAIT_EXCLUDES),
    ("RL.LEAKY k 5 1 SHADOW WAIT 100", WAIT_EXCLUDES),
    ("RL.LEAKY k 5 1 WAIT 100 AT 0", WAIT_EXCLUDES),
    ("RL.LEAKY k 5 1 WAIT 100 MAXDELAY 100", WAIT_EXCLUDES),
    ("RL.LEAKY k 5 1 MAXDELAY 100 WAIT 0", WAIT_EXCLUDES),
    ("RL.SLIDING k 5 1000 FORCE PEEK", FORCE),
    ("RL.SLIDING k 5 1000 RESERVE 1 FORCE", FORCE),
    ("RL.SLIDING k 5 1000 shadow force", FORCE),
    ("RL.TOKENBUCKET k 5 1 AT 1700000000000", CLIENT_TIME),
    ("RL.TOKENBUCKET k 5 1 PEEK AT 0", CLIENT_TIME),
    ("RL.LEAKY k 5 1 at 1700000000000 COST 0", CLIENT_TIME),
    ("RL.SLIDING k 5 1000 AT 9007199254740992", CLIENT_TIME),
    ("RL.PEEK k AT 1700000000000", CLIENT_TIME),
    ("RL.REFUND k 1 AT 1700000000000", CLIENT_TIME),
    ("RL.INFO k AT 1700000000000", CLIENT_TIME),
    // Four units at a billionth a second take 126 years.
    ("RL.TOKENBUCKET k 5 0.000000001 COST 4", TOO_SLOW),
    ("RL.TOKENBUCKET k 5 0.000000001 COST 4 PEEK", TOO_SLOW),
    ("RL.TOKENBUCKET k 1 0.000000001 COST 4 FORCE", TOO_SLOW),
    ("RL.TOKENBUCKET k 20 1 PER 315360000000 COST 11", TOO_SLOW),
    ("RL.TOKENBUCKET k 9007199254740992 1 COST 9007199254740992", TOO_SLOW),
    ("RL.LEAKY k 5 0.000000001 COST 4", TOO_SLOW),
    ("RL.LEAKY k 5 0.000000001 COST 4 SHADOW", TOO_SLOW),
    ("RL.LEAKY k 1 1 PER 315360000000 FORCE COST 11", TOO_SLOW),
    ("RL.LEAKY k 9007199254740992 0.5 COST 9007199254740992", TOO_SLOW),
];

/// Calls that make a state, a bad call on it, and its error.
pub const OVER_A_KEPT_STATE: &[(&[&str], &str, &str)] = &[
    (&["RL.TOKENBUCKET k 100 1 COST 50"], "RL.TOKENBUCKET k 100 0.000000001", TOO_SLOW),
    (&["RL.LEAKY k 100 1 COST 50"], "RL.LEAKY k 100 0.000000001", TOO_SLOW),
    (&["RL.TOKENBUCKET k 100 1 COST 50"], "RL.TOKENBUCKET k 100 1 PER 315360000000", TOO_SLOW),
    (&["RL.LEAKY k 100 1 COST 50"], "RL.LEAKY k 100 1 PER 315360000000", TOO_SLOW),
    // A larger bucket lacks all that was added.
    (&["RL.TOKENBUCKET k 5 1 COST 5"], "RL.TOKENBUCKET k 9007199254740992 1", TOO_SLOW),
    (
        &["RL.TOKENBUCKET k 5 0.000000001 COST 3"],
        "RL.TOKENBUCKET k 5 0.000000001 FORCE COST 1",
        TOO_SLOW,
    ),
    (&["RL.LEAKY k 5 0.000000001 COST 3"], "RL.LEAKY k 5 0.000000001 FORCE", TOO_SLOW),
    (
        &["RL.TOKENBUCKET k 5 1000000000 FORCE COST 9007199254740992"],
        "RL.TOKENBUCKET k 5 1000000000 FORCE COST 9007199254740992",
        TOO_MANY,
    ),
    (
        &["RL.LEAKY k 5 1000000000 FORCE COST 9007199254740992"],
        "RL.LEAKY k 5 1000000000 FORCE COST 9007199254740992",
        TOO_MANY,
    ),
    (
        &["RL.SLIDING k 5 3600000 FORCE COST 9007199254740992"],
        "RL.SLIDING k 5 3600000 FORCE",
        TOO_MANY,
    ),
    (
        &["RL.SLIDING k 5 3600000", "RL.SLIDING k 5 3600000 FORCE COST 9007199254740991"],
        "RL.SLIDING k 5 3600000 FORCE COST 9007199254740992",
        TOO_MANY,
    ),
];

/// Calls at the ends of the ranges, on an absent key.
pub const ACCEPTED: &[&str] = &[
    "RL.TOKENBUCKET k 1 1",
    "RL.TOKENBUCKET k 9007199254740992 1000000000",
    "RL.TOKENBUCKET k 9007199254740992 1000000000 COST 9007199254740992",
    "RL.TOKENBUCKET k 9007199254740992 0.000000001",
    "RL.TOKENBUCKET k 1 0.000000001",
    "RL.TOKENBUCKET k 3 0.000000001 COST 3",
    "RL.TOKENBUCKET k 5 1000000000.000000000",
    "RL.TOKENBUCKET k 5 999999999.999999999",
    "RL.TOKENBUCKET k 05 01.50",
    "RL.TOKENBUCKET k 5 1 PER 1",
    "RL.TOKENBUCKET k 10 1 PER 315360000000 COST 10",
    "RL.TOKENBUCKET k 5 1 COST 0",
    "RL.TOKENBUCKET k 5 1 COST 9007199254740992",
    "RL.TOKENBUCKET k 5 1 RESERVE 0",
    "RL.TOKENBUCKET k 5 1 RESERVE 9007199254740992",
    "RL.TOKENBUCKET k 5 1 AT 0",
    "RL.TOKENBUCKET k 5 1 AT 9007199254740992",
    "rl.tokenbucket k 5 1 per 1000 cost 1 peek reserve 1 shadow at 1700000000000",
    "RL.TOKENBUCKET k 5 1 AT 1700000000000 SHADOW RESERVE 1 PEEK COST 1 PER 1000",
    "RL.LEAKY k 9007199254740992 1000000000 COST 9007199254740992",
    "RL.LEAKY k 1 0.000000001",
    "RL.LEAKY k 5 1 MAXDELAY 0",
    "RL.LEAKY k 5 1 MAXDELAY 315360000000",
    "RL.LEAKY k 5 1 WAIT 0",
    "RL.LEAKY k 5 1 WAIT 315360000000 PER 1 COST 1 RESERVE 1",
    "RL.LEAKY k 5 1 MAXDELAY 1 PER 1 COST 1 PEEK RESERVE 1 SHADOW AT 0",
    "RL.SLIDING k 1 1",
    "RL.SLIDING k 9007199254740992 315360000000 COST 9007199254740992",
    "RL.SLIDING k 5 1000 RESOLUTION 1",
    "RL.SLIDING k 5 315360000000 RESOLUTION 315360000000",
    "RL.SLIDING k 5 1000 FORCE COST 9007199254740992",
    "RL.SLIDING k 5 1000 RESOLUTION 1 COST 0 SHADOW RESERVE 0 AT 9007199254740992",
    "RL.PEEK k COST 0",
    "RL.PEEK k AT 9007199254740992 COST 9007199254740992",
    "RL.REFUND k 1",
    "RL.REFUND k 9007199254740992 AT 0",
    "RL.INFO k",
    "RL.INFO k AT 9007199254740992",
    "RL.STATS",
    "rl.stats reset",
    "RL.TOPDENIED COUNT 1 RESET",
    "RL.TOPDENIED reset count 10000",
    "RL.LOG GET",
    "RL.LOG GET 1",
    "rl.log get 100000",
    "RL.ALL 1 k TOKENBUCKET 9007199254740992 0.000000001 PER 1",
    "RL.ALL 1 k LEAKY 1 1 MAXDELAY 315360000000 COST 0 AT 9007199254740992",
    "rl.all 2 k j sliding 9007199254740992 315360000000 cost 9007199254740992 leaky 5 1 peek",
    "RL.ALL 2 k j SLIDING 5 1000 RESERVE 0 SLIDING 5 1000 SHADOW AT 0 RESOLUTION 315360000000",
    "RL.THROTTLE k 0 1 1",
    "RL.THROTTLE k 9007199254740991 1000000000 315360000 0",
    "RL.THROTTLE k 9007199254740991 1000000000 1 9007199254740992",
    "RL.THROTTLE k 4 1 1 9007199254740992",
];

/// All bad calls that fit on a line. None depends on what the key holds.
pub fn all() -> Vec<Case> {
    let mut cases = too_few_words();
    for (call, error, outside) in INTEGERS.iter().chain(several::INTEGERS) {
        let bad = NO_INTEGER.iter().chain(*outside);
        cases.extend(bad.map(|word| case(&call.replace("{}", word), error)));
    }
    for call in ["RL.TOKENBUCKET k 6 {}", "RL.LEAKY k 6 {} COST 2"] {
        cases.extend(NO_RATE.iter().map(|word| case(&call.replace("{}", word), RATE)));
    }
    let single = SINGLE.iter().chain(several::SINGLE);
    cases.extend(single.map(|(line, error)| case(line, error)));
    cases.extend(unknown_options());
    cases
}

fn case(line: &str, error: &str) -> Case {
    Case { call: words(line), error: error.to_owned() }
}

fn too_few_words() -> Vec<Case> {
    let lines = [
        "RL.TOKENBUCKET",
        "RL.TOKENBUCKET k",
        "RL.TOKENBUCKET k 5",
        "RL.LEAKY",
        "RL.LEAKY k",
        "RL.LEAKY k 5",
        "RL.SLIDING",
        "RL.SLIDING k",
        "RL.SLIDING k 5",
        "RL.PEEK",
        "RL.REFUND",
        "RL.REFUND k",
        "RL.INFO",
        "RL.LOG",
        "RL.ALL",
        "RL.ALL 1 k SLIDING 5",
        "RL.THROTTLE",
        "RL.THROTTLE k 4 1",
    ];
    let text = |line: &str| {
        let name = line.split(' ').next().unwrap_or_default().to_lowercase();
        format!("{ARITY}{name}' command")
    };
    lines.iter().map(|line| case(line, &text(line))).collect()
}

/// Words that are an option of no command or of another one, and how the error shows them: at most
/// 32 bytes, and a `?` for each that is not printable.
fn unknown_options() -> Vec<Case> {
    let strangers = [
        ("BURST", "BURST"),
        ("\\e", ""),
        ("2000", "2000"),
        ("PEEK\\s", "PEEK "),
        ("\\sPEEK", " PEEK"),
        ("PEEK\\0", "PEEK?"),
        ("\\r\\n+OK\\r\\n", "??+OK??"),
        ("\\xff\\xfe", "??"),
        ("%s%n{}", "%s%n{}"),
        ("0123456789012345678901234567890123456789", "01234567890123456789012345678901"),
    ];
    let mut cases = Vec::new();
    for (call, options) in OPTIONS {
        for (word, shown) in strangers {
            let error = format!("ERR unknown option '{shown}', expected one of {options}");
            cases.push(case(&format!("{call} {word}"), &error));
        }
        let known: Vec<&str> = options.split(", ").collect();
        for word in ["PER", "MAXDELAY", "RESOLUTION", "COST", "RESERVE", "FORCE", "SHADOW", "PEEK"]
        {
            if !known.contains(&word) {
                let error = format!("ERR unknown option '{word}', expected one of {options}");
                cases.push(case(&format!("{call} {word} 1"), &error));
            }
        }
    }
    cases
}

/// Calls of a thousand words or a megabyte.
pub fn long_ones() -> Vec<Case> {
    let repeated = |call: &str, option: &str, error: &str| {
        let mut all = words(call);
        let option = words(option);
        (0..1000).for_each(|_| all.extend(option.clone()));
        Case { call: all, error: error.to_owned() }
    };
    let mut cases = vec![
        repeated("RL.TOKENBUCKET k 5 1", "PEEK", "ERR PEEK may be given only once"),
        repeated("RL.LEAKY k 5 1", "COST 1", "ERR COST may be given only once"),
        repeated("RL.SLIDING k 5 1000", "SHADOW", "ERR SHADOW may be given only once"),
        repeated("RL.PEEK k", "COST 0", "ERR COST may be given only once"),
        repeated("RL.REFUND k 1", "AT 1", "ERR AT may be given only once"),
        repeated("RL.STATS", "RESET", "ERR RESET may be given only once"),
        repeated("RL.TOPDENIED", "COUNT 1", "ERR COUNT may be given only once"),
    ];
    for (call, options) in OPTIONS {
        let error = format!("ERR unknown option 'x', expected one of {options}");
        cases.push(repeated(call, "x", &error));
        let shown = "x".repeat(32);
        let mut huge = words(call);
        huge.push(vec![b'x'; 1 << 20]);
        let error = format!("ERR unknown option '{shown}', expected one of {options}");
        cases.push(Case { call: huge, error });
    }
    for (call, error, _) in INTEGERS.iter().chain(several::INTEGERS) {
        let place = words(call).iter().position(|word| word == b"{}").expect("a place");
        let mut huge = words(call);
        huge[place] = vec![b'9'; 1 << 20];
        cases.push(Case { call: huge, error: (*error).to_owned() });
    }
    let digits = vec![b'1'; 1 << 20];
    let decimals = [b"0.".to_vec(), digits.clone()].concat();
    for rate in [digits, decimals] {
        let call = vec![b"RL.TOKENBUCKET".to_vec(), b"k".to_vec(), b"5".to_vec(), rate];
        cases.push(Case { call, error: RATE.to_owned() });
    }
    cases
}
