//! What the contract says of an answer, whoever asked: an error names what is wrong with the call,
//! and numbers agree with each other and with the call.
//!
//! The core's own parser tells what a call asks for; that it is right is the business of other
//! tests.

use std::collections::BTreeMap;

use redis::Value;
use redis_rl::algorithm::Request;
use redis_rl::args::rules::{self, Rule};
use redis_rl::args::{self, Call};
use redis_rl::watch::args as operators;

use super::calls::Words;
use super::support::{Reply, Several, error_text, ints, quoted};

/// Longest time until the reset, in ms.
const CENTURY_MS: i64 = 100 * 365 * 86_400_000;

/// Words of which an error has one at least: the arguments and options by their names, and the
/// contract's own sentences.
const NAMES: [&str; 29] = [
    "capacity",
    "rate must",
    "limit must",
    "window-ms",
    "PER",
    "COST",
    "RESERVE",
    "MAXDELAY",
    "WAIT",
    "RESOLUTION",
    "AT ",
    "ERR n must",
    "COUNT",
    "max-burst",
    "count must",
    "period-s",
    "quantity",
    "numkeys",
    "same key is given twice",
    "each key needs a rule",
    "begins none: expected TOKENBUCKET",
    "wrong number of arguments for '",
    "unknown subcommand '",
    "unknown option '",
    "RESET may be given only once",
    "FORCE",
    "PEEK",
    "SHADOW",
    "rl.effect is internal",
];

/// How often each kind of answer was given.
#[derive(Default)]
pub struct Tally(pub BTreeMap<String, u64>);

impl Tally {
    pub fn count(&mut self, what: &str) {
        *self.0.entry(what.to_owned()).or_default() += 1;
    }

    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }

    pub fn starting_with(&self, what: &str) -> u64 {
        self.0.iter().filter(|(name, _)| name.starts_with(what)).map(|(_, count)| count).sum()
    }
}

/// What a call asks for, as far as its words can be understood.
enum Asked {
    /// One of the limiters, or RL.THROTTLE: its limit, what is asked, whether it holds requests.
    Limit {
        limit: u64,
        request: Request,
        holds: bool,
    },
    Throttle {
        limit: u64,
    },
    All(Vec<(u64, Request, bool)>),
    /// RL.PEEK and RL.REFUND.
    Look,
    /// The rest.
    Other,
}

/// Judges the answer to a call of the module; false for a call that took nothing. `inside` of a
/// script the server adds its words to an error.
pub fn judge(words: &Words, answer: &Value, inside: bool, tally: &mut Tally) -> bool {
    let name = String::from_utf8_lossy(&words[0]).to_lowercase();
    let told = || format!("{} answered {answer:?}", quoted(words));
    tally.count(&format!("call {name}"));
    if let Some(error) = error_text(answer) {
        judge_error(&name, words, &error, inside, tally);
        return false;
    }
    let asked = understand(&name, words).unwrap_or_else(|error| panic!("{}: {error}", told()));
    match asked {
        Asked::Limit { limit, request, holds } => {
            let reply = Reply::new(answer).unwrap_or_else(|| panic!("{}", told()));
            assert_eq!(reply.delay_ms.is_some(), holds, "{}", told());
            judge_reply(&reply, limit, &request, &told);
            tally.count(
                ["denied", "allowed", "shadowed"][usize::try_from(reply.allowed).expect("0 to 2")],
            );
            reply.allowed == 1 && request.cost > 0 && !request.peek
        }
        Asked::Throttle { limit } => {
            let numbers = ints(answer).unwrap_or_else(|| panic!("{}", told()));
            let &[limited, of, remaining, retry_s, reset_s] = numbers.as_slice() else {
                panic!("{}", told());
            };
            assert!(u64::try_from(of) == Ok(limit) && (0..=of).contains(&remaining), "{}", told());
            assert!(retry_s == -1 || (limited == 1 && retry_s > 0), "{}", told());
            assert!([0, 1].contains(&limited) && reset_s >= 0, "{}", told());
            tally.count(["allowed", "denied"][usize::try_from(limited).expect("0 or 1")]);
            false
        }
        Asked::All(rules) => {
            judge_all(answer, &rules, &told, tally);
            false
        }
        Asked::Look => {
            if *answer != Value::Nil {
                let reply = Reply::new(answer).unwrap_or_else(|| panic!("{}", told()));
                assert!(reply.allowed < 2, "{}", told());
                judge_numbers(&reply, &told);
            }
            false
        }
        Asked::Other => false,
    }
}

/// What a call's words ask for, or the error that is due.
fn understand(name: &str, words: &Words) -> Result<Asked, String> {
    let after = |first: usize| words.iter().skip(first).map(Vec::as_slice);
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let bucket = |call: Call<redis_rl::algorithm::bucket::Quota>, holds| Asked::Limit {
        limit: call.quota.capacity,
        request: call.request,
        holds,
    };
    match name {
        "rl.tokenbucket" => {
            args::token_bucket(after(2)).map(|call| bucket(call, false)).map_err(|e| text(&e))
        }
        "rl.leaky" => {
            args::leaky_bucket(after(2)).map(|call| bucket(call, true)).map_err(|e| text(&e))
        }
        "rl.sliding" => args::sliding_window(after(2))
            .map(|call| Asked::Limit {
                limit: call.quota.limit,
                request: call.request,
                holds: false,
            })
            .map_err(|e| text(&e)),
        "rl.throttle" | "cl.throttle" => {
            let name = if name == "rl.throttle" { "rl.throttle" } else { "cl.throttle" };
            args::throttle(name, after(2))
                .map(|call| Asked::Throttle { limit: call.quota.capacity })
                .map_err(|e| text(&e))
        }
        "rl.all" => understand_all(words),
        "rl.peek" => args::peek(after(2)).map(|_| Asked::Look).map_err(|e| text(&e)),
        "rl.refund" => args::refund(after(2)).map(|_| Asked::Look).map_err(|e| text(&e)),
        "rl.info" => args::info(after(2)).map(|_| Asked::Other).map_err(|e| text(&e)),
        "rl.stats" => operators::stats(after(1)).map(|_| Asked::Other).map_err(|e| text(&e)),
        "rl.topdenied" => {
            operators::top_denied(after(1)).map(|_| Asked::Other).map_err(|e| text(&e))
        }
        "rl.log" => operators::log(after(1)).map(|_| Asked::Other).map_err(|e| text(&e)),
        _ => Err("ERR rl.effect is internal: only a primary and the append-only file may send it"
            .to_owned()),
    }
}

fn understand_all(words: &Words) -> Result<Asked, String> {
    let number = words.get(1).map(Vec::as_slice);
    let keys = rules::numkeys(number, words.len().saturating_sub(2)).map_err(|e| e.to_string())?;
    let parsed = rules::rules(keys, words.iter().skip(2 + keys).map(Vec::as_slice));
    let parsed = parsed.map_err(|e| e.to_string())?;
    let mut names: Vec<&Vec<u8>> = words.iter().skip(2).take(keys).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() < keys {
        return Err(redis_rl::error::Error::SameKey.to_string());
    }
    let rule = |rule: &Rule| match rule {
        Rule::TokenBucket(call) => (call.quota.capacity, call.request, false),
        Rule::LeakyBucket(call) => (call.quota.capacity, call.request, true),
        Rule::SlidingWindow(call) => (call.quota.limit, call.request, false),
    };
    Ok(Asked::All(parsed.rules.iter().map(rule).collect()))
}

/// An error is the one that the words deserve, or one that the key, the state or the configuration
/// may give to any call.
fn judge_error(name: &str, words: &Words, error: &str, inside: bool, tally: &mut Tally) {
    let told = || format!("{}: {error:?}", quoted(words));
    assert!(!error.contains("internal error"), "{}", told());
    assert!(!error.contains(['\r', '\n']), "{}", told());
    let arity = [
        format!("ERR wrong number of arguments for '{name}' command"),
        // Between the two words stands the server's name.
        "ERR Wrong number of args calling ".to_owned(),
    ];
    let kind = if arity.iter().any(|text| error.starts_with(text)) {
        assert!(!has_enough(name, words.len()), "{}", told());
        "arity"
    } else if error.starts_with("OOM ") {
        "OOM"
    } else {
        let state = ["WRONGTYPE Operation against a key holding the wrong kind of value"];
        let of_state = state.iter().any(|text| error.starts_with(text));
        let bounds = [
            "AT is refused unless",
            "at most 100 years",
            "9007199254740992 units",
            "the configuration rl.sliding-max-bytes",
        ];
        let of_bound = bounds.iter().any(|text| error.contains(text));
        match understand(name, words) {
            Err(due) => {
                let same = if inside { error.starts_with(&due) } else { error == due };
                assert!(same, "{}, due was {due:?}", told());
                assert!(NAMES.iter().any(|name| error.contains(name)), "{}", told());
                "of an argument"
            }
            Ok(_) if of_state => "WRONGTYPE",
            Ok(_) if of_bound => "of a bound or AT",
            Ok(_) => panic!("{}", told()),
        }
    };
    tally.count(&format!("error {kind}"));
}

/// Whether so many words are enough, and not too many, for the server.
fn has_enough(name: &str, words: usize) -> bool {
    match name {
        "rl.tokenbucket" | "rl.leaky" | "rl.sliding" => words >= 4,
        "rl.throttle" | "cl.throttle" => (5..=6).contains(&words),
        "rl.all" => words >= 6,
        "rl.peek" | "rl.info" => words >= 2,
        "rl.refund" => words >= 3,
        "rl.effect" => words == 3,
        "rl.log" => words == 2,
        _ => true,
    }
}

/// Ranges that hold of every reply.
fn judge_numbers(reply: &Reply, told: &impl Fn() -> String) {
    let Reply { allowed, limit, remaining, retry_after_ms, reset_after_ms, delay_ms } = *reply;
    assert!((0..=2).contains(&allowed), "{}", told());
    assert!((1..=1 << 53).contains(&limit), "{}", told());
    assert!((0..=limit).contains(&remaining), "{}", told());
    assert!((-1..=CENTURY_MS).contains(&retry_after_ms), "{}", told());
    assert!((0..=CENTURY_MS).contains(&reset_after_ms), "{}", told());
    // At its reset every limit allows what it ever allows.
    assert!(retry_after_ms <= reset_after_ms, "{}", told());
    assert!(delay_ms.is_none_or(|delay_ms| (0..=reset_after_ms).contains(&delay_ms)), "{}", told());
    assert!(allowed == 1 || delay_ms.is_none_or(|delay_ms| delay_ms == 0), "{}", told());
    // A denied reply never says 0.
    assert!(allowed != 0 || retry_after_ms != 0, "{}", told());
}

/// What a reply says of what was asked.
fn judge_reply(reply: &Reply, limit: u64, request: &Request, told: &impl Fn() -> String) {
    judge_numbers(reply, told);
    let Request { cost, reserve, peek, force, shadow, max_delay_ms, .. } = *request;
    assert_eq!(u64::try_from(reply.limit), Ok(limit), "{}", told());
    let verdicts: &[i64] = match (force || cost == 0, shadow) {
        (true, _) => &[1],
        (false, true) => &[1, 2],
        (false, false) => &[0, 1],
    };
    assert!(verdicts.contains(&reply.allowed), "{}", told());
    // What the retry time is of: a cost of 0 and a forced call ask for one unit. Never, also where
    // the bound of 100 years comes before the limit.
    let wanted = if force || cost == 0 { 1 } else { cost };
    assert!(reply.retry_after_ms == -1 || wanted + reserve <= limit, "{}", told());
    let room = u64::try_from(reply.remaining).expect("not negative");
    assert!(room + reserve <= limit || room == 0, "{}", told());
    if wanted <= 1 {
        assert!(room == 0 || reply.retry_after_ms == 0, "{}", told());
    }
    if reply.allowed == 1 && cost > 0 {
        if peek {
            assert_eq!(reply.retry_after_ms, 0, "{}", told());
        } else {
            assert!(reply.reset_after_ms > 0 || max_delay_ms.is_some(), "{}", told());
        }
        let most = max_delay_ms.map_or(i64::MAX, |ms| i64::try_from(ms).expect("in range"));
        assert!(reply.delay_ms.is_none_or(|delay_ms| delay_ms <= most), "{}", told());
    }
}

fn judge_all(
    answer: &Value,
    rules: &[(u64, Request, bool)],
    told: &impl Fn() -> String,
    tally: &mut Tally,
) {
    let all = Several::new(answer).unwrap_or_else(|| panic!("{}", told()));
    assert_eq!(all.rules.len(), rules.len(), "{}", told());
    let over = all.rules.iter().position(|reply| reply.allowed != 1);
    assert_eq!(over.map_or(Ok(-1), i64::try_from), Ok(all.over), "{}", told());
    assert_eq!(all.allowed, over.map_or(1, |over| all.rules[over].allowed), "{}", told());
    let waits = all.rules.iter().map(|reply| reply.retry_after_ms);
    let longest = if waits.clone().any(|wait| wait == -1) { Some(-1) } else { waits.max() };
    assert_eq!(Some(all.retry_after_ms), longest, "{}", told());
    for (reply, (limit, request, holds)) in all.rules.iter().zip(rules) {
        assert_eq!(reply.delay_ms.is_some(), *holds, "{}", told());
        // Where another rule denies, one that would allow answers as a look does.
        let request = Request { peek: request.peek || over.is_some(), ..*request };
        judge_reply(reply, *limit, &request, told);
    }
    tally.count(if over.is_some() { "RL.ALL over" } else { "RL.ALL allowed" });
}
