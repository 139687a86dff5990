//! Ten callers who want more than is theirs: they come when the reply said, or a µs or a ms off, at
//! random rates besides, on one key together or each on its own, give units back, and the server's
//! clock is set back under them. What passes stays within the contract, in every interval.

use redis_rl::algorithm::bucket;
use redis_rl::algorithm::leaky_bucket::LeakyBucket;
use redis_rl::algorithm::sliding_window::{self, SlidingWindow};
use redis_rl::algorithm::token_bucket::TokenBucket;
use redis_rl::algorithm::{Clock, Decision, Request, Verdict};
use redis_rl::reply;

use super::ledger::{Buckets, Ledger, Windows};
use super::{START_US, rate};
use crate::LENGTH;
use crate::model::dice::Dice;
use crate::model::world::Key;
use crate::model::{Subject, whole};

const ADVERSARIES: usize = 10;

/// Off the instant that a reply told, in µs.
const EDGES: [i64; 8] = [-1000, -1001, -999, -1, 0, 1, 999, 1000];

/// What the adversaries may do, besides calling.
#[derive(Clone, Copy, Debug)]
enum Arms {
    /// Nothing.
    Calls,
    /// Give back what they took, and more.
    Refunds,
    /// See the server's clock set back.
    ClockSetBack,
    /// Both.
    All,
}

impl Arms {
    const EACH: [Arms; 4] = [Arms::Calls, Arms::Refunds, Arms::ClockSetBack, Arms::All];

    fn refunds(self) -> bool {
        matches!(self, Arms::Refunds | Arms::All)
    }

    fn set_back(self) -> bool {
        matches!(self, Arms::ClockSetBack | Arms::All)
    }
}

/// A key, and what its watcher knows.
struct Watched<S: Subject, L> {
    key: Key<S>,
    ledger: L,
    /// Time forward, by the server's clock as the calls on this key saw it.
    forward_us: u64,
    seen_us: u64,
}

impl<S: Subject, L: Ledger<S>> Watched<S, L> {
    fn new(quota: S::Quota) -> Watched<S, L> {
        Watched {
            key: Key { state: None },
            ledger: L::new(quota),
            forward_us: 0,
            seen_us: START_US,
        }
    }

    /// A clock that was set back brings nothing; from there on its time counts again.
    fn see(&mut self, now_us: u64) {
        self.forward_us += now_us.saturating_sub(self.seen_us);
        self.seen_us = now_us;
    }

    fn call(&mut self, quota: &S::Quota, ask: &Request, now_us: u64) -> Result<Decision, String> {
        self.see(now_us);
        let outcome = self.key.call(quota, ask, Clock::Server(now_us));
        let (decision, _) = outcome.map_err(|error| error.to_string())?;
        if decision.verdict == Verdict::Allowed && !ask.peek && ask.cost > 0 {
            self.ledger.passes(self.forward_us, ask.cost)?;
        }
        Ok(decision)
    }

    /// The answer to a refund; none on an absent key.
    fn refund(&mut self, units: u64, now_us: u64) -> Result<Option<Decision>, String> {
        self.see(now_us);
        let Some(before) = self.key.state.clone() else { return Ok(None) };
        let refunded = self.key.refund(units, Clock::Server(now_us));
        let (Some((decision, _)), Some(after)) = (refunded, &self.key.state) else {
            return Err("a refund drops the key".to_owned());
        };
        // Up to a ms of a step back is lost to a window's hits: they count as before the step.
        let used_before = S::used(&before, now_us.max(S::at_us(&before)));
        let back = used_before - S::used(after, now_us.max(S::at_us(after)));
        if back > whole(units) {
            return Err(format!("{back} units are given back instead of {units}"));
        }
        self.ledger.given_back(self.forward_us, &back.max(whole(0)));
        Ok(Some(decision))
    }
}

/// All callers of one limit, and the clocks.
struct Game<S: Subject, L> {
    quota: S::Quota,
    resolution_ms: u64,
    arms: Arms,
    keys: Vec<Watched<S, L>>,
    dice: Dice,
    /// When each of them calls next, in true time.
    next_us: [u64; ADVERSARIES],
    /// How far the server's clock is behind true time.
    behind_us: u64,
    /// Units that each took last.
    took: [u64; ADVERSARIES],
}

impl<S: Subject, L: Ledger<S>> Game<S, L> {
    fn new(quota: S::Quota, resolution_ms: u64, keys: usize, arms: Arms, seed: u64) -> Game<S, L> {
        Game {
            quota,
            resolution_ms,
            arms,
            keys: (0..keys).map(|_| Watched::new(quota)).collect(),
            dice: Dice::new(seed),
            next_us: [START_US; ADVERSARIES],
            behind_us: 0,
            took: [0; ADVERSARIES],
        }
    }

    /// A request: one unit or a few, now and then the whole limit, or an option.
    fn request(&mut self) -> Request {
        let limit = S::limit(&self.quota);
        let cost = match self.dice.throw(12) {
            0 => limit,
            1 => 0,
            2..=4 => self.dice.throw(limit.min(1 << 30)) + 1,
            _ => 1 + self.dice.throw(2.min(limit)),
        };
        let option = self.dice.throw(24);
        Request {
            cost,
            reserve: if option == 0 { self.dice.throw(limit.min(1 << 30)) } else { 0 },
            peek: option == 1,
            shadow: option == 2,
            resolution_ms: self.resolution_ms,
            ..Request::ONE
        }
    }

    /// When to come again: on an edge of what was told, or whenever.
    fn wait_us(&mut self, decision: &Decision) -> u64 {
        let [_, _, _, retry_ms, reset_ms, _] = reply::elements(decision);
        let pace_us = S::pace_us(&self.quota).max(1);
        let edge_us = self.dice.pick(&EDGES);
        let on_the_edge = |ms: i64| u64::try_from(ms * 1000 + edge_us).unwrap_or_default();
        // Nobody sleeps long for a whole limit while others take it unit by unit.
        let is_near = u64::try_from(retry_ms).is_ok_and(|ms| ms / 16 <= pace_us / 1000);
        match self.dice.throw(8) {
            0..=4 if is_near => on_the_edge(retry_ms),
            5 => on_the_edge(reset_ms),
            6 => self.dice.throw(pace_us.saturating_mul(2).min(1 << 32)),
            _ => self.dice.throw(pace_us / 8 + 2),
        }
    }

    /// One adversary's turn: whoever is due.
    fn turn(&mut self) -> Result<(), String> {
        let due = self.next_us.iter().enumerate().min_by_key(|&(_, &us)| us);
        let (who, &true_us) = due.expect("ten adversaries");
        if self.arms.set_back() && self.dice.throw(300) == 0 {
            let pace_us = S::pace_us(&self.quota).min(1 << 40);
            let most_us = self.dice.pick(&[1, 1000, 2500, pace_us, 3 * pace_us]);
            self.behind_us += self.dice.throw(most_us.min(1 << 32)) + 1;
        }
        let now_us = true_us - self.behind_us.min(START_US / 2);
        let key = who % self.keys.len();
        let told = if self.arms.refunds() && self.dice.throw(16) == 0 {
            let units = (self.took[who] + self.dice.throw(2)).max(1);
            self.keys[key].refund(units, now_us)?
        } else {
            let request = self.request();
            let decision = self.keys[key].call(&self.quota, &request, now_us)?;
            if decision.verdict == Verdict::Allowed {
                self.took[who] = request.cost;
            }
            Some(decision)
        };
        let wait_us = told.map_or(1, |decision| self.wait_us(&decision));
        self.next_us[who] = true_us + wait_us;
        Ok(())
    }
}

/// All games on one limit: together and apart, with all that adversaries may do.
fn nobody_gets_more<S: Subject, L: Ledger<S>>(quota: S::Quota, resolution_ms: u64) {
    let mut full = 0;
    for seed in 0..LENGTH.seeds {
        for keys in [1, ADVERSARIES] {
            for arms in Arms::EACH {
                let told = format!("{quota:?}, {keys} keys, {arms:?}, seed {seed}");
                let mut game = Game::<S, L>::new(quota, resolution_ms, keys, arms, seed);
                for call in 0..LENGTH.calls / (LENGTH.seeds * 8) {
                    game.turn().unwrap_or_else(|error| panic!("{told}, call {call}: {error}"));
                }
                full += game.keys.iter().filter(|key| key.ledger.was_full()).count();
            }
        }
    }
    assert!(full > 0, "{quota:?}: no adversary came near the limit");
}

const BUCKETS: [bucket::Quota; 6] = [
    rate(1, 10, 0, 1000),
    rate(5, 7, 0, 1000),
    rate(10, 333_333_333, 8, 1000),
    rate(3, 123_456_789, 9, 77),
    rate(1000, 5, 0, 900_000),
    rate(100, 1_000_000, 0, 1000),
];

/// Windows and their resolution in ms.
const WINDOWS: [(sliding_window::Quota, u64); 6] = [
    (sliding_window::Quota { limit: 1, window_ms: 1 }, 1),
    (sliding_window::Quota { limit: 1, window_ms: 1000 }, 1),
    (sliding_window::Quota { limit: 7, window_ms: 10_000 }, 1),
    (sliding_window::Quota { limit: 100, window_ms: 777 }, 1),
    (sliding_window::Quota { limit: 50, window_ms: 60_000 }, 250),
    (sliding_window::Quota { limit: 1000, window_ms: 3_600_000 }, 1),
];

#[test]
fn a_token_bucket_gives_adversaries_no_more_than_capacity_and_rate() {
    BUCKETS.into_iter().for_each(|quota| nobody_gets_more::<TokenBucket, Buckets>(quota, 1));
}

#[test]
fn a_leaky_bucket_gives_adversaries_no_more_than_capacity_and_rate() {
    BUCKETS.into_iter().for_each(|quota| nobody_gets_more::<LeakyBucket, Buckets>(quota, 1));
}

#[test]
fn no_window_gives_adversaries_more_than_its_limit() {
    for (quota, resolution_ms) in WINDOWS {
        nobody_gets_more::<SlidingWindow, Windows>(quota, resolution_ms);
    }
}
