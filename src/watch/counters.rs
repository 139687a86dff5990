//! Counters of one command, since start or since they were reset.
//!
//! Each call that is answered with a decision and would take units counts as exactly one of
//! allowed, forced, denied and shadow-denied, so the four add up to the calls that asked for
//! something. A look (`PEEK`, `RL.PEEK`) and `COST 0` ask for nothing and count as nothing. A
//! refund counts where it gave something back, and a call that is answered with an error as one.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::algorithm::{Request, Verdict};

/// A number that only one thread changes; any may read it.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    /// One more.
    pub fn increment(&self) {
        // Not one atomic step, which would cost more: nobody else writes.
        self.0.store(self.get().wrapping_add(1), Ordering::Relaxed);
    }

    /// How many there were.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// What a decision counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request passed and took its cost.
    Allowed,
    /// It took its cost because of `FORCE`, whether or not it would have passed.
    Forced,
    /// It was denied.
    Denied,
    /// It was over the limit, but only tried it.
    ShadowDenied,
}

impl Outcome {
    /// What the decision on a request counts as; none where the request asked for nothing.
    pub fn of(request: &Request, verdict: Verdict) -> Option<Outcome> {
        if request.peek || request.cost == 0 {
            return None;
        }
        Some(match verdict {
            Verdict::Allowed if request.force => Outcome::Forced,
            Verdict::Allowed => Outcome::Allowed,
            Verdict::Denied => Outcome::Denied,
            Verdict::Shadowed => Outcome::ShadowDenied,
        })
    }
}

/// The counters of one command.
#[derive(Debug)]
pub struct Counters {
    /// The command's name.
    pub command: &'static str,
    allowed: Counter,
    denied: Counter,
    shadow_denied: Counter,
    forced: Counter,
    /// Refunds that gave something back.
    pub refunded: Counter,
    /// Calls that were answered with an error.
    pub errors: Counter,
}

/// How many counters a command has.
pub const COUNTERS: usize = 6;

impl Counters {
    /// All zero.
    pub const fn new(command: &'static str) -> Counters {
        Counters {
            command,
            allowed: Counter::new(),
            denied: Counter::new(),
            shadow_denied: Counter::new(),
            forced: Counter::new(),
            refunded: Counter::new(),
            errors: Counter::new(),
        }
    }

    /// Counts a decision.
    pub fn count(&self, outcome: Outcome) {
        match outcome {
            Outcome::Allowed => self.allowed.increment(),
            Outcome::Forced => self.forced.increment(),
            Outcome::Denied => self.denied.increment(),
            Outcome::ShadowDenied => self.shadow_denied.increment(),
        }
    }

    /// The counters with their names, in the order in which they are shown.
    pub fn read(&self) -> [(&'static str, u64); COUNTERS] {
        self.named().map(|(name, counter)| (name, counter.get()))
    }

    /// Begins anew.
    pub fn reset(&self) {
        self.named().iter().for_each(|(_, counter)| counter.reset());
    }

    fn named(&self) -> [(&'static str, &Counter); COUNTERS] {
        [
            ("allowed", &self.allowed),
            ("denied", &self.denied),
            ("shadow-denied", &self.shadow_denied),
            ("forced", &self.forced),
            ("refunded", &self.refunded),
            ("errors", &self.errors),
        ]
    }
}
