//! The arguments of the commands, as the contract words them: what is accepted and what it means,
//! and the error that names each wrong one. No bytes whatever panic.

mod model;

#[path = "args/rules.rs"]
mod rules;
#[path = "args/throttle.rs"]
mod throttle;

use proptest::prelude::*;
use redis_rl::algorithm::Request;
use redis_rl::algorithm::bucket::{self, Rate};
use redis_rl::algorithm::sliding_window;
use redis_rl::args::{self, Call};
use redis_rl::error::Error;
use redis_rl::limits;

use crate::model::cases;

type Parsed<Q> = Result<Call<Q>, Error>;

/// A command line after the key, split at blanks; `_` stands for an empty word.
fn words(line: &str) -> Vec<&[u8]> {
    line.split_ascii_whitespace()
        .map(|word| if word == "_" { &b""[..] } else { word.as_bytes() })
        .collect()
}

fn token_bucket(line: &str) -> Parsed<bucket::Quota> {
    args::token_bucket(words(line))
}

fn leaky_bucket(line: &str) -> Parsed<bucket::Quota> {
    args::leaky_bucket(words(line))
}

fn sliding_window(line: &str) -> Parsed<sliding_window::Quota> {
    args::sliding_window(words(line))
}

/// The text of the error that a call must be.
fn refusal<T>(parsed: Result<T, Error>) -> String {
    parsed.err().map_or_else(|| "no error".to_owned(), |error| error.to_string())
}

fn bucket_quota(capacity: u64, mantissa: u64, decimals: u8, period_ms: u64) -> bucket::Quota {
    bucket::Quota { capacity, rate: Rate { mantissa, decimals }, period_ms }
}

#[test]
fn positional_arguments_and_defaults() {
    let call = token_bucket("1000 2.5").expect("a call");
    assert_eq!(call.quota, bucket_quota(1000, 25, 1, 1000));
    assert_eq!((call.request, call.at_ms), (Request::ONE, None));
    let call = leaky_bucket("9007199254740992 1000000000 PER 315360000000").expect("a call");
    assert_eq!(call.quota, bucket_quota(1 << 53, 1_000_000_000, 0, 315_360_000_000));
    assert_eq!((call.request, call.at_ms), (Request::ONE, None));
    let call = sliding_window("7 60000").expect("a call");
    assert_eq!(call.quota, sliding_window::Quota { limit: 7, window_ms: 60_000 });
    assert_eq!((call.request, call.at_ms), (Request::ONE, None));
}

#[test]
fn options_in_any_order_and_case() {
    let expected = Request { cost: 3, reserve: 2, peek: true, shadow: true, ..Request::ONE };
    for line in [
        "10 1 PER 60000 COST 3 RESERVE 2 PEEK SHADOW AT 5",
        "10 1 at 5 shadow peek reserve 2 cost 3 per 60000",
        "10 1 PeeK CoSt 3 aT 5 pEr 60000 sHaDoW rEsErVe 2",
    ] {
        for call in [token_bucket(line), leaky_bucket(line)] {
            let call = call.expect("a call");
            assert_eq!(call.quota, bucket_quota(10, 1, 0, 60_000));
            assert_eq!((call.request, call.at_ms), (expected, Some(5)), "{line}");
        }
    }
    let call = leaky_bucket("10 1 maxdelay 250").expect("a call");
    assert_eq!(call.request, Request { max_delay_ms: Some(250), ..Request::ONE });
    assert!(!call.waits);
    // The longest delay is the same; only the reply is held.
    let waiting = leaky_bucket("10 1 wait 250").expect("a call");
    assert_eq!(waiting, Call { waits: true, ..call });
    let call = sliding_window("10 1000 resolution 100 cost 0").expect("a call");
    assert_eq!(call.request, Request { cost: 0, resolution_ms: 100, ..Request::ONE });
    let call = token_bucket("10 1 COST 50 FORCE").expect("a call");
    assert_eq!(call.request, Request { cost: 50, force: true, ..Request::ONE });
}

#[test]
fn looks_and_refunds() {
    let look = |line| args::peek(words(line)).map(|call| (call.request, call.at_ms));
    let of = |cost| Request { cost, peek: true, ..Request::ONE };
    assert_eq!(look(""), Ok((of(1), None)));
    assert_eq!(look("cost 0 AT 0"), Ok((of(0), Some(0))));
    assert_eq!(look("AT 9007199254740992"), Ok((of(1), Some(1 << 53))));
    assert_eq!(look("COST 1 COST 1"), Err(Error::Twice("COST")));
    assert!(refusal(look("FORCE")).starts_with("ERR unknown option 'FORCE'"));

    let info = |line| args::info(words(line));
    assert_eq!(info(""), Ok(None));
    assert_eq!(info("at 7"), Ok(Some(7)));
    assert_eq!(info("AT"), Err(Error::NoValue("AT")));
    assert!(refusal(info("COST 1")).starts_with("ERR unknown option 'COST'"));

    let refund = |line| args::refund(words(line));
    assert_eq!(refund("1"), Ok((1, None)));
    assert_eq!(refund("9007199254740992 at 7"), Ok((1 << 53, Some(7))));
    for line in ["", "0", "-1", "1.0", "9007199254740993"] {
        assert_eq!(refund(line), Err(Error::Refund), "{line}");
    }
    assert_eq!(refund("1 AT"), Err(Error::NoValue("AT")));
}

/// Every integer with its place in a line, its range and the beginning of its error.
const INTEGERS: [(Command, &str, u64, u64, &str); 16] = [
    (Command::TokenBucket, "? 1", 1, limits::MAX_UNITS, "ERR capacity must"),
    (Command::LeakyBucket, "? 1", 1, limits::MAX_UNITS, "ERR capacity must"),
    (Command::SlidingWindow, "? 1", 1, limits::MAX_UNITS, "ERR limit must"),
    (Command::SlidingWindow, "1 ?", 1, limits::MAX_DURATION_MS, "ERR window-ms must"),
    (Command::TokenBucket, "1 1 PER ?", 1, limits::MAX_DURATION_MS, "ERR PER must"),
    (Command::LeakyBucket, "1 1 PER ?", 1, limits::MAX_DURATION_MS, "ERR PER must"),
    (Command::LeakyBucket, "1 1 MAXDELAY ?", 0, limits::MAX_DURATION_MS, "ERR MAXDELAY must"),
    (Command::LeakyBucket, "1 1 WAIT ?", 0, limits::MAX_DURATION_MS, "ERR WAIT must"),
    (Command::SlidingWindow, "1 1 RESOLUTION ?", 1, limits::MAX_DURATION_MS, "ERR RESOLUTION must"),
    (Command::TokenBucket, "1 1 COST ?", 0, limits::MAX_UNITS, "ERR COST must"),
    (Command::SlidingWindow, "1 1 COST ?", 0, limits::MAX_UNITS, "ERR COST must"),
    (Command::LeakyBucket, "1 1 RESERVE ?", 0, limits::MAX_UNITS, "ERR RESERVE must"),
    (Command::SlidingWindow, "1 1 RESERVE ?", 0, limits::MAX_UNITS, "ERR RESERVE must"),
    (Command::TokenBucket, "1 1 AT ?", 0, limits::MAX_TIME_MS, "ERR AT must"),
    (Command::LeakyBucket, "1 1 AT ?", 0, limits::MAX_TIME_MS, "ERR AT must"),
    (Command::SlidingWindow, "1 1 AT ?", 0, limits::MAX_TIME_MS, "ERR AT must"),
];

#[derive(Clone, Copy, Debug)]
enum Command {
    TokenBucket,
    LeakyBucket,
    SlidingWindow,
}

impl Command {
    const ALL: [Command; 3] = [Command::TokenBucket, Command::LeakyBucket, Command::SlidingWindow];

    /// The error of a line, if it is one.
    fn error(self, words: &[&[u8]]) -> Option<Error> {
        match self {
            Command::TokenBucket => args::token_bucket(words.iter().copied()).err(),
            Command::LeakyBucket => args::leaky_bucket(words.iter().copied()).err(),
            Command::SlidingWindow => args::sliding_window(words.iter().copied()).err(),
        }
    }

    /// The error of a line in which `value` stands at the place of the `?`.
    fn error_with(self, line: &str, value: &[u8]) -> Option<String> {
        let mut words = words(line);
        for word in &mut words {
            if *word == b"?" {
                *word = value;
            }
        }
        self.error(&words).map(|error| error.to_string())
    }
}

/// What is no integer, whatever its range.
const NO_INTEGERS: [&[u8]; 30] = [
    b"",
    b" ",
    b" 1",
    b"1 ",
    b"1\n",
    b"\t1",
    b"1\0",
    b"+1",
    b"-1",
    b"-0",
    b"1.0",
    b"1.",
    b".1",
    b"1e3",
    b"1E3",
    b"0x10",
    b"0b1",
    b"nan",
    b"inf",
    b"Infinity",
    b"1_000",
    b"1,000",
    b"one",
    b"\xff",
    b"\xd9\xa1",
    b"9007199254740993",
    b"18446744073709551616",
    b"18446744073709551617",
    b"340282366920938463463374607431768211457",
    b"99999999999999999999999999999999999999999999999",
];

#[test]
fn integers_are_digits_in_their_range() {
    for (command, line, min, max, text) in INTEGERS {
        let error = |value: &[u8]| command.error_with(line, value);
        let refused = |value: &[u8]| {
            let shown = String::from_utf8_lossy(value).into_owned();
            let text_of = error(value).unwrap_or_else(|| "no error".to_owned());
            assert!(text_of.starts_with(text), "{line} with {shown}: {text_of}");
            let range = format!("from {min} to {max}");
            assert!(text_of.ends_with(&range), "{text_of} names another range than {range}");
        };
        NO_INTEGERS.into_iter().for_each(refused);
        refused((max + 1).to_string().as_bytes());
        if min > 0 {
            refused(b"0");
            refused(b"000");
        }
        for good in [min, min + 1, max - 1, max] {
            assert_eq!(error(good.to_string().as_bytes()), None, "{line} with {good}");
        }
        assert_eq!(error(b"0000000000000000000000000000000001"), None, "{line}: zeros in front");
    }
}

#[test]
fn rates_are_decimals_in_their_range() {
    let rate = |word: &str| token_bucket(&format!("1 {word}")).map(|call| call.quota.rate);
    for (word, mantissa, decimals) in [
        ("10", 10, 0),
        ("0.1", 1, 1),
        ("2.5", 25, 1),
        ("1.0", 1, 0),
        ("100", 100, 0),
        ("1.500", 15, 1),
        ("007.070", 707, 2),
        ("0.000000001", 1, 9),
        ("0.123456789", 123_456_789, 9),
        ("999999999.999999999", 999_999_999_999_999_999, 9),
        ("1000000000", 1_000_000_000, 0),
        ("1000000000.000000000", 1_000_000_000, 0),
    ] {
        assert_eq!(rate(word), Ok(Rate { mantissa, decimals }), "{word}");
    }
    for word in [
        "_",
        "0",
        "0.0",
        "0.000000000",
        "0.0000000001",
        "0.0000000000",
        "1.0000000000",
        "1000000001",
        "1000000000.000000001",
        "1000000000.1",
        "10000000000",
        "18446744073709551617",
        ".5",
        "5.",
        ".",
        "..",
        "1.2.3",
        "1..2",
        "+1",
        "-1",
        "-0.5",
        "1e3",
        "1e-3",
        "0x1",
        "nan",
        "inf",
        "infinity",
        "1,5",
        "1.+5",
        "1.-5",
        "1. 5",
        "1.5e1",
        "1.0x",
        "x1.0",
        "1.5\u{660}",
        "\u{663}.5",
    ] {
        assert_eq!(rate(word), Err(Error::Rate), "{word}");
    }
    let text = refusal(rate("x"));
    assert!(
        text.starts_with("ERR rate must be a decimal from 0.000000001 to 1000000000"),
        "{text}"
    );
}

#[test]
fn options_only_once_with_values_and_of_the_command() {
    for command in Command::ALL {
        let error = |line: &str| command.error(&words(line));
        for option in ["COST", "RESERVE", "AT"] {
            assert_eq!(error(&format!("1 1 {option}")), Some(Error::NoValue(option)));
            let twice = format!("1 1 {option} 1 {} 1", option.to_lowercase());
            assert_eq!(error(&twice), Some(Error::Twice(option)));
        }
        for option in ["PEEK", "SHADOW", "FORCE"] {
            assert_eq!(error(&format!("1 1 {option} {option}")), Some(Error::Twice(option)));
        }
        for word in ["COSTS", "COS", "_", "1", "PEEK=1", "-1", "LIMIT"] {
            let text = error(&format!("1 1 {word}")).map(|error| error.to_string());
            let text = text.unwrap_or_else(|| "no error".to_owned());
            assert!(text.starts_with("ERR unknown option"), "{command:?} {word}: {text}");
            assert!(text.contains("COST, PEEK, FORCE, RESERVE, SHADOW, AT"), "{text}");
        }
    }
    for (command, option) in [
        (Command::TokenBucket, "MAXDELAY"),
        (Command::TokenBucket, "WAIT"),
        (Command::TokenBucket, "RESOLUTION"),
        (Command::LeakyBucket, "RESOLUTION"),
        (Command::SlidingWindow, "PER"),
        (Command::SlidingWindow, "MAXDELAY"),
        (Command::SlidingWindow, "WAIT"),
    ] {
        let error = command.error(&words(&format!("1 1 {option} 1")));
        assert!(matches!(error, Some(Error::UnknownOption { .. })), "{command:?} {option}");
    }
}

#[test]
fn force_excludes_what_asks_instead_of_takes() {
    for command in Command::ALL {
        for option in ["PEEK", "SHADOW", "RESERVE 0", "RESERVE 1"] {
            for line in [format!("1 1 FORCE {option}"), format!("1 1 {option} FORCE")] {
                assert_eq!(command.error(&words(&line)), Some(Error::ForceExcludes), "{line}");
            }
        }
        assert_eq!(command.error(&words("1 1 FORCE COST 0 AT 1")), None);
        assert_eq!(command.error(&words("1 1 PEEK SHADOW RESERVE 1")), None);
    }
    for line in ["1 1 MAXDELAY 0 FORCE", "1 1 WAIT 0 FORCE", "1 1 FORCE PEEK WAIT 1 AT 1"] {
        let error = Command::LeakyBucket.error(&words(line));
        assert_eq!(error, Some(Error::ForceExcludes), "{line}");
    }
}

#[test]
fn wait_excludes_what_cannot_be_waited_for() {
    for option in ["PEEK", "SHADOW", "AT 0", "AT 1", "MAXDELAY 0", "MAXDELAY 1"] {
        for line in [format!("1 1 WAIT 1 {option}"), format!("1 1 {option} WAIT 0")] {
            let error = Command::LeakyBucket.error(&words(&line));
            assert_eq!(error, Some(Error::WaitExcludes), "{line}");
        }
    }
    let error = Command::LeakyBucket.error(&words("1 1 WAIT 1 COST 0 RESERVE 1 PER 5"));
    assert_eq!(error, None);
}

/// The first wrong argument is named, and a missing one as if it were wrong.
#[test]
fn missing_arguments_are_named() {
    for command in Command::ALL {
        assert!(command.error(&[]).is_some());
        assert!(command.error(&words("1")).is_some());
    }
    assert_eq!(token_bucket("1").err(), Some(Error::Rate));
    assert_eq!(leaky_bucket("x y COST").err(), Some(Error::Capacity));
    assert_eq!(sliding_window("5").err(), Some(Error::Window));
}

/// Words of a call, most of them good.
fn word() -> impl Strategy<Value = Vec<u8>> {
    let known = [
        "PER",
        "MAXDELAY",
        "WAIT",
        "RESOLUTION",
        "COST",
        "peek",
        "FORCE",
        "Reserve",
        "SHADOW",
        "at",
        "0",
        "1",
        "5",
        "10",
        "2.5",
        "0.000000001",
        "1000000000",
        "9007199254740992",
        "9007199254740993",
        "315360000000",
        "315360000001",
        "-1",
        "",
        "nan",
        "1e9",
    ];
    prop_oneof![
        8 => prop::sample::select(known.map(|word| word.as_bytes().to_vec()).to_vec()),
        1 => "[0-9]{0,25}(\\.[0-9]{0,12})?".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #![proptest_config(cases(3000))]

    /// Whatever is accepted is within the ranges, and every refusal is one printable line.
    #[test]
    fn random_words_are_parsed_or_refused(words in prop::collection::vec(word(), 0..12)) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let each = || words.iter().copied();
        for parsed in [args::token_bucket(each()), args::leaky_bucket(each())] {
            match parsed {
                Ok(call) => within_ranges(&call)?,
                Err(error) => one_line(&error)?,
            }
        }
        match args::sliding_window(words.iter().copied()) {
            Ok(call) => {
                prop_assert!((1..=limits::MAX_UNITS).contains(&call.quota.limit));
                prop_assert!((1..=limits::MAX_DURATION_MS).contains(&call.quota.window_ms));
                request_within_ranges(&call.request)?;
            }
            Err(error) => one_line(&error)?,
        }
        if let Err(error) = args::peek(words.iter().copied()) {
            one_line(&error)?;
        }
        match args::refund(words.iter().copied()) {
            Ok((back, _)) => prop_assert!((1..=limits::MAX_UNITS).contains(&back)),
            Err(error) => one_line(&error)?,
        }
    }

    /// An integer is accepted exactly if it is digits and in its range.
    #[test]
    fn integers_mean_their_digits(word in "[0-9]{1,22}|[0-9+. -]{0,6}") {
        let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let value = word.parse::<u128>().ok().filter(|value| {
            digits && (1..=u128::from(limits::MAX_UNITS)).contains(value)
        });
        let parsed = args::sliding_window([word.as_bytes(), b"1"]);
        prop_assert_eq!(parsed.ok().map(|call| u128::from(call.quota.limit)), value);
    }

    /// A rate means its decimal, without the zeros at its end.
    #[test]
    fn rates_mean_their_decimals(whole in 0..=1_000_000_000_u64, part in "[0-9]{1,9}") {
        let rate = args::token_bucket([&b"1"[..], format!("{whole}.{part}").as_bytes()]);
        let scaled: u64 = format!("{whole}{part:0<9}").parse().unwrap_or(u64::MAX);
        if scaled == 0 || scaled > limits::MAX_MANTISSA {
            prop_assert_eq!(rate, Err(Error::Rate));
            return Ok(());
        }
        let call = rate.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let Rate { mantissa, decimals } = call.quota.rate;
        prop_assert_eq!(mantissa * 10_u64.pow(9 - u32::from(decimals)), scaled);
        prop_assert!(decimals == 0 || mantissa % 10 > 0);
    }
}

fn within_ranges(call: &Call<bucket::Quota>) -> Result<(), TestCaseError> {
    let quota = &call.quota;
    prop_assert!((1..=limits::MAX_UNITS).contains(&quota.capacity));
    prop_assert!((1..=limits::MAX_DURATION_MS).contains(&quota.period_ms));
    let scale = 10_u64.pow(u32::from(quota.rate.decimals));
    prop_assert!((1..=limits::MAX_RATE * scale).contains(&quota.rate.mantissa));
    prop_assert!(call.at_ms.is_none_or(|at_ms| at_ms <= limits::MAX_TIME_MS));
    let excluded = call.request.peek || call.request.shadow || call.at_ms.is_some();
    prop_assert!(!call.waits || call.request.max_delay_ms.is_some() && !excluded);
    request_within_ranges(&call.request)
}

fn request_within_ranges(request: &Request) -> Result<(), TestCaseError> {
    prop_assert!(request.cost <= limits::MAX_UNITS && request.reserve <= limits::MAX_UNITS);
    prop_assert!(request.max_delay_ms.is_none_or(|ms| ms <= limits::MAX_DURATION_MS));
    prop_assert!((1..=limits::MAX_DURATION_MS).contains(&request.resolution_ms));
    let asks = request.peek || request.shadow || request.reserve > 0;
    prop_assert!(!request.force || !(asks || request.max_delay_ms.is_some()));
    Ok(())
}

fn one_line(error: &Error) -> Result<(), TestCaseError> {
    let text = error.to_string();
    prop_assert!(text.starts_with("ERR "), "{text}");
    prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{text:?}");
    prop_assert!(text.len() < 200, "{text}");
    Ok(())
}
