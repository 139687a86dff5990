//! Calls of every kind, mixed at random: what the tests let happen on a primary.

use std::collections::BTreeMap;

use redis::Value;

use super::support::{Client, Dice, Reply, error_text, until, words};

/// Keys of each limiter that live for hours; as many more that live for an instant.
const KEYS: u64 = 12;
/// Calls that are sent at once.
const AT_ONCE: usize = 100;

/// A source of calls, and what they were answered so far.
pub struct Mix {
    dice: Dice,
    answers: BTreeMap<&'static str, usize>,
}

impl Mix {
    /// The same seed gives the same calls.
    pub fn new(seed: u64) -> Mix {
        Mix { dice: Dice::new(seed), answers: BTreeMap::new() }
    }

    /// Makes so many calls.
    pub fn run(&mut self, client: &mut Client, calls: usize) {
        for start in (0..calls).step_by(AT_ONCE) {
            let lines: Vec<String> =
                (start..calls.min(start + AT_ONCE)).map(|_| self.line()).collect();
            let sent: Vec<_> = lines.iter().map(|line| words(line)).collect();
            for (line, answer) in lines.iter().zip(client.pipeline(&sent)) {
                *self.answers.entry(kind(line, &answer)).or_default() += 1;
            }
        }
    }

    /// The calls were of every kind: a twentieth of them at least.
    pub fn assert_mixed(&self) {
        let calls: usize = self.answers.values().sum();
        let often = ["allowed", "denied", "forced", "let through", "refunded", "refused", "look"];
        for kind in often {
            let times = self.answers.get(kind).copied().unwrap_or_default();
            assert!(times * 25 >= calls, "{kind}: {:?} of {calls}", self.answers);
        }
    }

    /// Lets every lasting key live for an hour at least, and waits until the others are gone: what
    /// is left can be compared.
    pub fn settle(&mut self, client: &mut Client) {
        for number in 0..KEYS {
            client.limit(&format!("RL.TOKENBUCKET t{number} 5 1 PER 3600000 FORCE"));
            client.limit(&format!("RL.LEAKY l{number} 5 1 PER 3600000 FORCE"));
            client.limit(&format!("RL.SLIDING s{number} 5 3600000 FORCE"));
        }
        let short: Vec<String> = (0..KEYS).map(|number| format!("x{number}")).collect();
        let exists = format!("EXISTS {}", short.join(" "));
        until("the keys that live for an instant are gone", || client.int(&exists) == 0);
    }

    fn line(&mut self) -> String {
        let number = self.dice.throw(KEYS);
        let key = format!("{}{number}", self.dice.pick(&["t", "l", "s"]));
        match self.dice.throw(20) {
            0..=11 => self.limiter(number),
            12 | 13 => format!("RL.REFUND {key} {}", self.dice.throw(9) + 1),
            14 => format!("{} {key}", self.dice.pick(&["RL.PEEK", "RL.INFO"])),
            15 | 16 => self.refused(number),
            // What users do to any key: the next real call sets the expiry right.
            17 => self.dice.pick(&["PERSIST K", "PEXPIRE K 99999999", "DEL K"]).replace('K', &key),
            _ => self.dice.short_call(&format!("x{number}")),
        }
    }

    /// A limiter's call on a key that lives for hours.
    fn limiter(&mut self, number: u64) -> String {
        let dice = &mut self.dice;
        let limit = dice.pick(&[5, 5, 5, 5, 5, 3, 9]);
        let hours_ms = dice.pick(&[1, 1, 1, 1, 2]) * 3_600_000;
        let rate = dice.pick(&["1", "1", "1", "0.5", "2.25"]);
        let cost = dice.throw(4);
        let more =
            dice.pick(&["", "", "", "", " FORCE", " SHADOW", " SHADOW", " PEEK", " RESERVE 2"]);
        let free = if more == " FORCE" { "" } else { " MAXDELAY 9000000" };
        let delay = dice.pick(&["", "", free]);
        let coarse = dice.pick(&["", "", " RESOLUTION 1000", " RESOLUTION 600000"]);
        match dice.throw(3) {
            0 => {
                format!("RL.TOKENBUCKET t{number} {limit} {rate} PER {hours_ms} COST {cost}{more}")
            }
            1 => {
                format!("RL.LEAKY l{number} {limit} {rate} PER {hours_ms} COST {cost}{more}{delay}")
            }
            _ => format!("RL.SLIDING s{number} {limit} {hours_ms}{coarse} COST {cost}{more}"),
        }
    }

    /// A call that is an error, for each reason there is. Where it is one because of what the key
    /// holds, it creates none.
    fn refused(&mut self, number: u64) -> String {
        let lines = [
            "RL.TOKENBUCKET tN 0 1",
            "RL.TOKENBUCKET tN 5 1 COST -1",
            "RL.TOKENBUCKET lN 5 1 COST 0",
            "RL.TOKENBUCKET tN 9007199254740992 0.000000001 FORCE COST 9007199254740992",
            "RL.LEAKY lN 5 x",
            "RL.LEAKY sN 5 1 COST 0",
            "RL.LEAKY lN 5 1 PEEK FORCE",
            "RL.SLIDING sN 5 0",
            "RL.SLIDING tN 5 1000 COST 0",
            "RL.SLIDING sN 5 3600000 FORCE COST 9007199254740992",
            "RL.REFUND tN 0",
            "RL.PEEK sN COST x",
        ];
        self.dice.pick(&lines).replace('N', &number.to_string())
    }
}

/// What became of a call.
fn kind(line: &str, answer: &Value) -> &'static str {
    if error_text(answer).is_some() {
        return "refused";
    }
    if ["RL.PEEK", "RL.INFO"].iter().any(|look| line.starts_with(look)) || line.contains("PEEK") {
        return "look";
    }
    let Some(reply) = Reply::new(answer) else { return "other" };
    match reply.allowed {
        _ if line.starts_with("RL.REFUND") => "refunded",
        1 if line.contains("FORCE") => "forced",
        0 => "denied",
        1 => "allowed",
        _ => "let through",
    }
}
