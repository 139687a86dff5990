//! RL.ALL and single calls on twins: keys that hold the same limits and get the same requests.
//!
//! On one set of keys RL.ALL is asked, on the other one a PEEK for each rule. If all of them pass,
//! RL.ALL must have taken and answered what single calls then do; if not, what a single call does
//! for a rule that denies, and for one that would allow what its PEEK said and what a call of COST
//! 0 writes. After each step both sets hold the same.

use std::time::Instant;

use redis::Value;

use super::support::{Client, Config, Dice, Reply, Server, Several, until};

const STEPS: usize = 500;
const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
/// Three keys of each limiter.
const KEYS: u64 = 9;

/// A rule: its key without the name of the set, the command's name, and its words.
struct Rule {
    key: String,
    limiter: &'static str,
    words: String,
}

impl Rule {
    /// A rule on the key with this number, with parameters that change now and then.
    fn throw(dice: &mut Dice, number: u64) -> Rule {
        let limit = dice.pick(&[5, 5, 5, 5, 3, 8]);
        let period_ms = dice.pick(&[1, 1, 1, 2]) * HOUR_MS;
        let cost = dice.pick(&["", "", "", " COST 2", " COST 3", " COST 0", " COST 9"]);
        let reserve = dice.pick(&["", "", "", " RESERVE 2"]);
        let (limiter, words) = match number % 3 {
            0 => ("TOKENBUCKET", format!("{limit} 1 PER {period_ms}")),
            1 => {
                let delay = dice.pick(&["", "", " MAXDELAY 3600000"]);
                ("LEAKY", format!("{limit} 1 PER {period_ms}{delay}"))
            }
            _ => {
                let resolution = dice.pick(&["", "", " RESOLUTION 60000"]);
                ("SLIDING", format!("{limit} {period_ms}{resolution}"))
            }
        };
        Rule { key: format!("k{number}"), limiter, words: format!("{words}{cost}{reserve}") }
    }

    /// The single call of this rule on its key of set `b`.
    fn single(&self, options: &str) -> String {
        format!("RL.{} b:{} {}{options}", self.limiter, self.key, self.words)
    }
}

/// A request to both sets.
struct Step {
    rules: Vec<Rule>,
    peek: bool,
    shadow: bool,
    at_ms: u64,
}

impl Step {
    fn throw(dice: &mut Dice, at_ms: u64) -> Step {
        let mut numbers: Vec<u64> = (0..KEYS).collect();
        let count = 1 + dice.throw(4);
        let rules = (0..count).map(|_| {
            let left = u64::try_from(numbers.len()).expect("a few");
            let place = usize::try_from(dice.throw(left)).expect("a place");
            numbers.swap_remove(place)
        });
        let numbers: Vec<u64> = rules.collect();
        let rules = numbers.into_iter().map(|number| Rule::throw(dice, number)).collect();
        Step { rules, peek: dice.throw(6) == 0, shadow: dice.throw(6) == 0, at_ms }
    }

    /// The options of the whole call.
    fn whole(&self) -> String {
        let peek = if self.peek { " PEEK" } else { "" };
        let shadow = if self.shadow { " SHADOW" } else { "" };
        format!("{peek}{shadow} AT {}", self.at_ms)
    }

    /// The call of RL.ALL on set `a`.
    fn all(&self) -> String {
        let keys: Vec<String> = self.rules.iter().map(|rule| format!("a:{}", rule.key)).collect();
        let rules: Vec<String> =
            self.rules.iter().map(|rule| format!("{} {}", rule.limiter, rule.words)).collect();
        let (count, keys, rules) = (keys.len(), keys.join(" "), rules.join(" "));
        format!("RL.ALL {count} {keys} {rules}{}", self.whole())
    }

    /// What RL.ALL must answer, by single calls on set `b`, which then hold what set `a` must.
    fn single_calls(&self, client: &mut Client) -> Several {
        let (shadow, at) = (if self.shadow { " SHADOW" } else { "" }, format!("AT {}", self.at_ms));
        let mut ask = |rule: &Rule, options: &str| {
            client.limit(&rule.single(&format!("{shadow}{options} {at}")))
        };
        let looks: Vec<Reply> = self.rules.iter().map(|rule| ask(rule, " PEEK")).collect();
        let over = looks.iter().position(|look| look.allowed != 1);
        let mut answer = |(rule, look): (&Rule, &Reply)| match look.allowed {
            _ if self.peek => *look,
            1 if over.is_some() => {
                // It adopts what is new, and takes nothing.
                let nothing = rule.words.split(" COST ").next().expect("words");
                let nothing = format!("{nothing} COST 0");
                ask(&Rule { key: rule.key.clone(), limiter: rule.limiter, words: nothing }, "");
                *look
            }
            _ => ask(rule, ""),
        };
        let rules: Vec<Reply> = self.rules.iter().zip(&looks).map(&mut answer).collect();
        let waits = rules.iter().map(|rule| rule.retry_after_ms);
        let retry_after_ms =
            if waits.clone().any(|wait| wait == -1) { -1 } else { waits.max().expect("a rule") };
        let allowed = over.map_or(1, |over| looks[over].allowed);
        let over = over.map_or(-1, |over| i64::try_from(over).expect("a few"));
        Several { allowed, over, retry_after_ms, rules }
    }
}

/// The keys of both sets hold the same, and expire at the same time but for what passed between
/// their calls.
fn expect_twins(client: &mut Client, slack_ms: i64, what: &str) {
    for number in 0..KEYS {
        let (one, other) = (format!("a:k{number}"), format!("b:k{number}"));
        let mut expire_ms = |key: &str| client.int(&format!("PEXPIRETIME {key}"));
        let (expires, twin_expires) = (expire_ms(&one), expire_ms(&other));
        let (dump, twin) = (client.dump(&one), client.dump(&other));
        if dump.is_empty() || twin.is_empty() {
            // Absent, or as if never used and about to expire.
            until(&format!("{one} and {other} are gone: {what}"), || {
                client.int(&format!("EXISTS {one} {other}")) == 0
            });
            continue;
        }
        assert_eq!(dump, twin, "{what}: {one} and {other}");
        let apart_ms = (expires - twin_expires).abs();
        assert!(apart_ms <= slack_ms, "{what}: {one} and {other} expire {apart_ms} ms apart");
    }
}

/// How often each thing must have happened for the comparison to mean something.
#[derive(Debug, Default)]
struct Seen {
    taken: usize,
    denied: usize,
    denied_later: usize,
    shadowed: usize,
    never: usize,
}

impl Seen {
    fn note(&mut self, answer: &Several, step: &Step) {
        self.taken += usize::from(answer.allowed == 1 && !step.peek && answer.rules.len() > 1);
        self.denied += usize::from(answer.allowed == 0 && !step.peek);
        self.denied_later += usize::from(answer.allowed == 0 && answer.over > 0);
        self.shadowed += usize::from(answer.allowed == 2);
        self.never += usize::from(answer.retry_after_ms == -1);
    }

    fn expect_enough(&self) {
        let Seen { taken, denied, denied_later, shadowed, never } = *self;
        let least = [taken, denied, denied_later, shadowed, never].into_iter().min();
        assert!(least >= Some(15), "{self:?}");
    }
}

#[test]
fn rl_all_decides_answers_and_writes_what_single_calls_do() {
    let server = Server::with(&Config::new().client_time());
    let mut client = server.client();
    for seed in 1..=3 {
        let mut dice = Dice::new(seed);
        let (mut now_ms, mut slack_ms, mut seen) = (1_700_000_000_000, 2, Seen::default());
        client.ok("FLUSHALL");
        for number in 0..STEPS {
            // Never back: one set may have lost a key that was as if never used, and with it the
            // time of its last write, a moment before the other.
            now_ms += dice.pick(&[0, 0, 1, 5, 20, 60, 150]) * MINUTE_MS;
            let step = Step::throw(&mut dice, now_ms);
            let what = format!("seed {seed}, step {number}: {}", step.all());
            let start = Instant::now();
            let answer = client.all(&step.all());
            let expected = step.single_calls(&mut client);
            assert_eq!(answer, expected, "{what}");
            seen.note(&answer, &step);
            if dice.throw(12) == 0 {
                // Debt, which a later call finds.
                let rule = &step.rules[0];
                let words: Vec<&str> = rule.words.split(' ').take(2).collect();
                let per = if rule.limiter == "SLIDING" { "" } else { " PER 3600000" };
                for set in ["a", "b"] {
                    let (key, words) = (&rule.key, words.join(" "));
                    let at = format!("FORCE AT {now_ms}");
                    client.limit(&format!("RL.{} {set}:{key} {words}{per} {at}", rule.limiter));
                }
            }
            let elapsed_ms = i64::try_from(start.elapsed().as_millis()).expect("a short while");
            slack_ms = slack_ms.max(elapsed_ms + 2);
            expect_twins(&mut client, slack_ms, &what);
        }
        seen.expect_enough();
    }
}

/// One rule alone is the single call, wrapped.
#[test]
fn one_rule_is_a_single_call() {
    let server = Server::with(&Config::new().client_time());
    let mut client = server.client();
    for (limiter, words) in
        [("TOKENBUCKET", "2 1 PER 3600000"), ("LEAKY", "2 1 PER 3600000"), ("SLIDING", "2 3600000")]
    {
        client.ok("FLUSHALL");
        for (allowed, at_ms) in [(1, 0), (1, 60_000), (0, 120_000), (1, 9_000_000)] {
            let all = client.all(&format!("RL.ALL 1 a {limiter} {words} AT {at_ms}"));
            let single = client.limit(&format!("RL.{limiter} b {words} AT {at_ms}"));
            let over = if allowed == 1 { -1 } else { 0 };
            assert_eq!(all.rules, [single]);
            assert_eq!((all.allowed, all.over), (allowed, over), "{limiter} at {at_ms}");
            assert_eq!(all.retry_after_ms, single.retry_after_ms);
            assert_eq!(client.dump("a"), client.dump("b"));
        }
        // And RL.PEEK and RL.REFUND do not care how it came about.
        assert_eq!(client.ok("RL.PEEK a AT 9000000"), client.ok("RL.PEEK b AT 9000000"));
        assert_ne!(client.ok("RL.REFUND a 1 AT 9000000"), Value::Nil);
    }
}
