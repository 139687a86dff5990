//! The words of RL.ALL: how many keys, a rule for each, and what holds for the whole call.

use proptest::prelude::*;
use redis_rl::algorithm::{Request, sliding_window};
use redis_rl::args::{
    self, Call,
    rules::{self, Rule, RuleError, Rules},
};
use redis_rl::error::Error;

use super::model::cases;
use super::{bucket_quota, word, words};

/// The words behind so many keys.
fn parsed(keys: usize, line: &str) -> Result<Rules, RuleError> {
    rules::rules(keys, words(line))
}

/// The text of the error that a call must be.
fn refused(keys: usize, line: &str) -> String {
    parsed(keys, line).expect_err(line).to_string()
}

#[test]
fn the_number_of_keys_is_in_its_range() {
    let numkeys = |word: &str, words_after| rules::numkeys(Some(word.as_bytes()), words_after);
    assert_eq!(numkeys("1", 1), Ok(1));
    assert_eq!(numkeys("1000", 1000), Ok(1000));
    // The server takes none of these for a number, and would look for the keys elsewhere.
    for padded in ["01", "02", "002", "0002"] {
        assert_eq!(numkeys(padded, 5), Err(Error::NumKeys), "{padded}");
    }
    for bad in ["0", "1001", "-1", "+1", "", " 1", "1.0", "x", "18446744073709551617"] {
        assert_eq!(numkeys(bad, 5000), Err(Error::NumKeys), "{bad}");
    }
    assert_eq!(rules::numkeys(None, 0), Err(Error::NumKeys));
    assert_eq!(numkeys("3", 2), Err(Error::TooFewKeys));
    assert_eq!(numkeys("1000", 999), Err(Error::TooFewKeys));
}

#[test]
fn each_rule_is_read_as_by_the_command_of_its_limiter() {
    let line = "tokenbucket 5 2.5 RESERVE 2 COST 3 PER 60000 \
                Leaky 7 1 MAXDELAY 250 \
                SLIDING 9 1000 COST 0 resolution 10";
    let Rules { rules, at_ms } = parsed(3, line).expect("three rules");
    let request = Request { cost: 3, reserve: 2, ..Request::ONE };
    let bucket = Call { quota: bucket_quota(5, 25, 1, 60_000), request, at_ms: None, waits: false };
    let request = Request { max_delay_ms: Some(250), ..Request::ONE };
    let leaky = Call { quota: bucket_quota(7, 1, 0, 1000), request, at_ms: None, waits: false };
    let quota = sliding_window::Quota { limit: 9, window_ms: 1000 };
    let request = Request { cost: 0, resolution_ms: 10, ..Request::ONE };
    let sliding = Call { quota, request, at_ms: None, waits: false };
    let expected =
        [Rule::TokenBucket(bucket), Rule::LeakyBucket(leaky), Rule::SlidingWindow(sliding)];
    assert_eq!((rules.as_slice(), at_ms), (&expected[..], None));
}

/// What is asked by a rule, whichever limiter it is of.
fn request(rule: &Rule) -> Request {
    match rule {
        Rule::TokenBucket(call) | Rule::LeakyBucket(call) => call.request,
        Rule::SlidingWindow(call) => call.request,
    }
}

/// PEEK, SHADOW and AT count for all rules and stand behind the last one or among its options.
#[test]
fn options_of_the_whole_call_stand_behind_the_last_rule() {
    for last in [
        "SLIDING 9 1000 COST 2 RESOLUTION 10 PEEK SHADOW AT 5",
        "SLIDING 9 1000 at 5 peek COST 2 shadow RESOLUTION 10",
        "SLIDING 9 1000 SHADOW COST 2 AT 5 RESOLUTION 10 PEEK",
    ] {
        let Rules { rules, at_ms } = parsed(2, &format!("LEAKY 5 1 COST 3 {last}")).expect(last);
        assert_eq!(at_ms, Some(5), "{last}");
        let asked: Vec<_> = rules.iter().map(request).collect();
        let both = Request { peek: true, shadow: true, ..Request::ONE };
        let of_last = Request { cost: 2, resolution_ms: 10, ..both };
        assert_eq!(asked, [Request { cost: 3, ..both }, of_last], "{last}");
    }
    let Rules { rules, .. } = parsed(2, "LEAKY 5 1 LEAKY 5 1 PEEK").expect("two rules");
    assert!(rules.iter().all(|rule| request(rule) == Request { peek: true, ..Request::ONE }));
}

const BUCKET: &str = "PER, COST, RESERVE, PEEK, SHADOW, AT";
const LEAKY: &str = "PER, MAXDELAY, COST, RESERVE, PEEK, SHADOW, AT";
const SLIDING: &str = "RESOLUTION, COST, RESERVE, PEEK, SHADOW, AT";

/// An error names its rule and is else that of the limiter's own command.
#[test]
fn errors_name_their_rule() {
    let good = "TOKENBUCKET 5 1 SLIDING 9 1000 ";
    for (rule, error) in [
        ("", Error::NoRule),
        ("TOKENBUCKET", Error::Capacity),
        ("TOKENBUCKET 0 1", Error::Capacity),
        ("TOKENBUCKET 5", Error::Rate),
        ("LEAKY 5 1e3", Error::Rate),
        ("LEAKY", Error::Capacity),
        ("SLIDING x 1000", Error::Limit),
        ("SLIDING 5 0", Error::Window),
        ("SLIDING 5", Error::Window),
        ("TOKENBUCKET 5 1 PER 0", Error::Period),
        ("LEAKY 5 1 MAXDELAY x", Error::MaxDelay),
        ("SLIDING 5 1000 RESOLUTION 0", Error::Resolution),
        ("SLIDING 5 1000 COST -1", Error::Cost),
        ("LEAKY 5 1 RESERVE x", Error::Reserve),
        ("TOKENBUCKET 5 1 AT x", Error::At),
        ("TOKENBUCKET 5 1 COST", Error::NoValue("COST")),
        ("LEAKY 5 1 RESERVE 1 MAXDELAY", Error::NoValue("MAXDELAY")),
        ("SLIDING 5 1000 PEEK AT", Error::NoValue("AT")),
        ("TOKENBUCKET 5 1 PER 5 per 5", Error::Twice("PER")),
        ("LEAKY 5 1 PEEK COST 1 peek", Error::Twice("PEEK")),
        ("SLIDING 5 1000 SHADOW SHADOW", Error::Twice("SHADOW")),
        ("SLIDING 5 1000 AT 1 AT 1", Error::Twice("AT")),
    ] {
        let fault = parsed(3, &format!("{good}{rule}")).expect_err(rule);
        assert_eq!(fault, RuleError { rule: Some(2), error }, "{rule}");
        let text = error.to_string();
        let fault_text = text.strip_prefix("ERR ").expect("a text that begins so");
        assert_eq!(fault.to_string(), format!("ERR rule 2: {fault_text}"));
    }
}

/// Behind a rule comes the next one, and behind the last one no word that it does not take.
#[test]
fn words_between_and_behind_rules_are_refused() {
    for (rule, word, options) in [
        ("TOKENBUCKET 5 1", "MAXDELAY", BUCKET),
        ("TOKENBUCKET 5 1 PEEK", "RESOLUTION", BUCKET),
        ("LEAKY 5 1 COST 2", "FORCE", LEAKY),
        ("LEAKY 5 1 AT 5", "RESOLUTION", LEAKY),
        ("SLIDING 5 1000", "PER", SLIDING),
        // One rule more than there are keys.
        ("SLIDING 5 1000", "TOKENBUCKET", SLIDING),
        ("TOKENBUCKET 5 1 COST 2", "SLIDING", BUCKET),
    ] {
        let line = format!("LEAKY 1 1 {rule} {word} 5 1");
        let expected = format!("ERR rule 1: unknown option '{word}', expected one of {options}");
        assert_eq!(refused(2, &line), expected, "{line}");
    }
    // PEEK, SHADOW and AT of a rule that is not the last, an option of another limiter, FORCE.
    let no_rule = "is no option of the rule before and begins none: expected TOKENBUCKET, LEAKY or \
                   SLIDING";
    for word in ["PEEK", "SHADOW", "AT", "MAXDELAY", "FORCE", "5", "token", "RL.SLIDING", "_"] {
        let line = format!("TOKENBUCKET 5 1 {word} SLIDING 5 1000");
        let shown = if word == "_" { "" } else { word };
        assert_eq!(refused(2, &line), format!("ERR rule 1: '{shown}' {no_rule}"));
    }
    assert_eq!(refused(1, "BANANA 5 1"), format!("ERR rule 0: 'BANANA' {no_rule}"));
    // A number of keys that is too small takes a key for a rule, and one too large a rule for one.
    assert_eq!(refused(1, "key TOKENBUCKET 5 1"), format!("ERR rule 0: 'key' {no_rule}"));
    assert_eq!(refused(2, "5 1"), format!("ERR rule 0: '5' {no_rule}"));
}

/// The server's own texts stay as they are, since clients know them by their first word.
#[test]
fn other_errors_keep_their_words() {
    for error in [Error::WrongType, Error::OutOfMemory] {
        assert_eq!(RuleError::of(3)(error).to_string(), error.to_string());
    }
    for error in [Error::NumKeys, Error::TooFewKeys, Error::SameKey, Error::ClientTime] {
        assert_eq!(RuleError::from(error).to_string(), error.to_string());
    }
}

/// The words of a rule and its options, alone.
fn rule() -> impl Strategy<Value = (&'static str, Vec<Vec<u8>>)> {
    (
        prop::sample::select(vec!["TOKENBUCKET", "LEAKY", "SLIDING"]),
        prop::collection::vec(word(), 0..8),
    )
}

proptest! {
    #![proptest_config(cases(3000))]

    /// One rule alone is what the limiter's command makes of the same words, FORCE and WAIT aside.
    #[test]
    fn a_single_rule_is_the_single_call((name, words) in rule()) {
        let each = || words.iter().map(Vec::as_slice);
        let all = rules::rules(1, [name.as_bytes()].into_iter().chain(each()));
        let single = match name {
            "TOKENBUCKET" => args::token_bucket(each()).map(Rule::TokenBucket),
            "LEAKY" => args::leaky_bucket(each()).map(Rule::LeakyBucket),
            _ => args::sliding_window(each()).map(Rule::SlidingWindow),
        };
        match (all, single) {
            (Ok(all), Ok(single)) => {
                let at_ms = match single {
                    Rule::TokenBucket(call) | Rule::LeakyBucket(call) => call.at_ms,
                    Rule::SlidingWindow(call) => call.at_ms,
                };
                prop_assert_eq!((all.rules.as_slice(), all.at_ms), (&[single][..], at_ms));
            }
            (Err(fault), single) => {
                prop_assert_eq!(fault.rule, Some(0));
                // These two belong to single calls.
                let other = |word: &Vec<u8>| {
                    word.eq_ignore_ascii_case(b"FORCE") || word.eq_ignore_ascii_case(b"WAIT")
                };
                let single_only = words.iter().any(other);
                match (fault.error, single) {
                    (Error::UnknownOption { .. }, Err(Error::UnknownOption { .. })) => {}
                    _ if single_only => {}
                    (error, single) => prop_assert_eq!(Err(error), single),
                }
            }
            (Ok(_), Err(error)) => prop_assert!(false, "{error} is not noticed"),
        }
    }

    /// Whatever the words, there are as many rules as keys or one printable line.
    #[test]
    fn random_rules_are_parsed_or_refused(
        parts in prop::collection::vec(rule(), 0..5), keys in 1..6_usize
    ) {
        let words = parts.iter().flat_map(|(name, words)| {
            [name.as_bytes()].into_iter().chain(words.iter().map(Vec::as_slice))
        });
        match rules::rules(keys, words) {
            Ok(parsed) => prop_assert_eq!(parsed.rules.len(), keys),
            Err(fault) => {
                prop_assert!(fault.rule.is_some_and(|rule| rule < keys), "{fault:?}");
                let text = fault.to_string();
                prop_assert!(text.starts_with("ERR rule "), "{text}");
                prop_assert!(text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text:?}");
            }
        }
    }
}
