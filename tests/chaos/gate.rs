//! Where the clients rest between two rounds, and what they hand in there.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::plan::Plan;
use super::worker::WORKERS;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered, and took or gave back.
    Taken,
    /// It was answered with a denial.
    Denied,
    /// No answer came, or one that leaves open whether it has taken.
    Unanswered,
    /// It was refused with an error, and took nothing.
    Refused,
}

/// What a client knows of one call.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The key, an index into the plan.
    pub key: usize,
    /// The units that it takes if it takes.
    pub units: i64,
    /// The node that was asked.
    pub node: usize,
    /// When it was sent, in us since the start.
    pub sent_us: u64,
    /// When its answer had come.
    pub got_us: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// What all threads share.
pub struct Gate {
    start: Instant,
    state: Mutex<State>,
    changed: Condvar,
    closed: AtomicBool,
    /// By node: all that it had answered up to then, in us since the start, is at its replica.
    confirmed_us: [AtomicU64; 6],
}

#[derive(Default)]
struct State {
    plan: Option<Arc<Plan>>,
    /// Counts the rounds.
    round: u64,
    resting: usize,
    ended: bool,
    events: Vec<Event>,
    faults: Vec<String>,
    errors: std::collections::BTreeMap<String, u64>,
}

/// Ends the clients, also where the test fails: a scope waits for its threads.
pub struct EndOnDrop<'a>(&'a Gate);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.closed.store(true, Ordering::SeqCst);
        self.0.changed.notify_all();
    }
}

impl Gate {
    /// A gate that is closed.
    pub fn new(start: Instant) -> Gate {
        Gate {
            start,
            state: Mutex::default(),
            changed: Condvar::new(),
            closed: AtomicBool::new(true),
            confirmed_us: Default::default(),
        }
    }

    /// Ends all threads when it goes.
    pub fn end_on_drop(&self) -> EndOnDrop<'_> {
        EndOnDrop(self)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that failed while it held the lock has left nothing half-done.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// us since the start.
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).expect("a short time")
    }

    /// Lets the clients call what the plan has.
    pub fn open(&self, plan: &Arc<Plan>) {
        let mut state = self.lock();
        state.plan = Some(Arc::clone(plan));
        state.round += 1;
        state.resting = 0;
        self.closed.store(false, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Waits until every client has come to rest, and returns what they have seen. No client may be
    /// stuck: they come within `longest`.
    pub fn close(&self, longest: Duration) -> Vec<Event> {
        self.closed.store(true, Ordering::SeqCst);
        let end = Instant::now() + longest;
        let mut state = self.lock();
        while state.resting < WORKERS {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "only {} of {WORKERS} clients came to rest", state.resting);
            state =
                self.changed.wait_timeout(state, left).map_or_else(|e| e.into_inner().0, |w| w.0);
        }
        std::mem::take(&mut state.events)
    }

    /// Whether the clients are to rest, or to end.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Hands in what a client has seen and waits for the round behind `round`; none at the end.
    pub fn rest(&self, round: u64, events: &mut Vec<Event>) -> Option<(u64, Arc<Plan>)> {
        let mut state = self.lock();
        state.events.append(events);
        if round > 0 {
            state.resting += 1;
            self.changed.notify_all();
        }
        while !state.ended && state.round <= round {
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        let plan = state.plan.clone().filter(|_| !state.ended)?;
        Some((state.round, plan))
    }

    /// Whether the test is over.
    pub fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Something that must not happen.
    pub fn fault(&self, text: String) {
        self.lock().faults.push(text);
    }

    /// All that must not happen and did.
    pub fn faults(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().faults)
    }

    /// An error that a client was answered, by its code.
    pub fn error(&self, code: &str) {
        *self.lock().errors.entry(code.to_owned()).or_default() += 1;
    }

    /// The errors since the last time that this was asked.
    pub fn errors(&self) -> std::collections::BTreeMap<String, u64> {
        std::mem::take(&mut self.lock().errors)
    }

    /// All that `node` had answered before `us` is at its replica.
    pub fn confirm(&self, node: usize, us: u64) {
        self.confirmed_us[node].fetch_max(us, Ordering::SeqCst);
    }

    /// Until when what `node` has answered is known to be at its replica.
    pub fn confirmed_us(&self, node: usize) -> u64 {
        self.confirmed_us[node].load(Ordering::SeqCst)
    }
}
