//! A client that keeps a limit saturated, and what its calls prove.
//!
//! Each call is enclosed by two instants of a clock that nobody sets, and so is each step of the
//! server's clock. The judges below allow what some instants between these allow and nothing else:
//! they are deaf to how busy the machine is.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::support::{Client, beside, until};

/// A limit that is full again `FULL` after it was drained: 8 units, and 20 a second or 8 in any
/// 400 ms.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The key, the second word of the call.
    pub key: &'static str,
    /// A call of one unit.
    pub call: &'static str,
}

/// One of each limiter.
pub const LIMITS: [Limit; 3] = [
    Limit { key: "t", call: "RL.TOKENBUCKET t 8 20" },
    Limit { key: "l", call: "RL.LEAKY l 8 20" },
    Limit { key: "s", call: "RL.SLIDING s 8 400" },
];

/// Units of each limit.
const UNITS: u128 = 8;
/// Time to full of a bucket, length of a window.
pub const FULL: Duration = Duration::from_millis(400);
/// Times are told in whole ms, rounded up, and a hit counts until its ms is over; a step moves hits
/// by whole ms, so each step back may let them count for a ms more.
pub const MS: Duration = Duration::from_millis(1);

/// Something that happened at some instant between two.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub from: Instant,
    pub to: Instant,
}

impl Span {
    /// What `happens`, and the instants around it.
    pub fn around<T>(happens: impl FnOnce() -> T) -> (Span, T) {
        let from = Instant::now();
        let value = happens();
        (Span { from, to: Instant::now() }, value)
    }

    fn overlaps(&self, other: &Span) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// A call and whether it passed.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub at: Span,
    pub allowed: bool,
}

/// A step of the server's clock, or a takeover by a server with another clock.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub at: Span,
    /// To a later time, so that what the server's clock says has passed has passed.
    pub forward: bool,
}

/// The load on all limits, as those see it who wait for it to go on.
#[derive(Default)]
pub struct Load {
    passed: [AtomicUsize; LIMITS.len()],
    denied: [AtomicUsize; LIMITS.len()],
}

impl Load {
    /// Saturates all limits through `clients` while `happens` does; the calls on each.
    pub fn run(
        clients: [Client; LIMITS.len()],
        late: Duration,
        happens: impl FnOnce(&Load),
    ) -> [Vec<Call>; LIMITS.len()] {
        let load = &Load::default();
        let tasks = clients.into_iter().enumerate().map(|(index, client)| {
            move |over: &AtomicBool| load.saturate(client, index, late, over)
        });
        let calls = beside(tasks, || happens(load));
        calls.try_into().expect("as many threads as limits")
    }

    /// Waits until every limit, from now on, has let some calls pass and denied some.
    pub fn goes_on(&self) {
        let now = |counts: &[AtomicUsize]| -> Vec<usize> {
            counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
        };
        let (passed, denied) = (now(&self.passed), now(&self.denied));
        until("every limit has let some calls pass and denied some", || {
            let more = |counts, before: &[usize]| {
                now(counts).iter().zip(before).all(|(now, before)| now - before >= 12)
            };
            more(&self.passed, &passed) && more(&self.denied, &denied)
        });
    }

    /// Calls a limit until all is over. No call is an error, and none tells to wait for longer
    /// than the limit takes to be as new, or `late` more.
    fn saturate(
        &self,
        mut client: Client,
        index: usize,
        late: Duration,
        over: &AtomicBool,
    ) -> Vec<Call> {
        let Limit { call, .. } = LIMITS[index];
        let longest_ms = i64::try_from((FULL + MS + late).as_millis()).expect("a short time");
        let mut calls = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let (at, reply) = Span::around(|| client.limit(call));
            assert!([0, 1].contains(&reply.allowed), "{call}: {reply:?}");
            let allowed = reply.allowed == 1;
            let retry_ms = i64::from(!allowed)..=longest_ms;
            assert!(retry_ms.contains(&reply.retry_after_ms), "{call}: {reply:?}");
            assert!((1..=longest_ms).contains(&reply.reset_after_ms), "{call}: {reply:?}");
            let counts = if allowed { &self.passed } else { &self.denied };
            counts[index].fetch_add(1, Ordering::Relaxed);
            calls.push(Call { at, allowed });
            // The pace of the load: far above every limit, and not all that the machine can do.
            thread::sleep(Duration::from_micros(500));
        }
        calls
    }
}

/// Nothing is minted: in no interval of real time did more pass than the limit grants in it, where
/// each step forward may have brought the limit up to full.
pub fn nothing_minted(limit: Limit, calls: &[Call], steps: &[Step]) {
    let passed: Vec<Span> = calls.iter().filter(|call| call.allowed).map(|call| call.at).collect();
    for (first, begin) in passed.iter().enumerate() {
        for (count, end) in (1..).zip(&passed[first..]) {
            let span = Span { from: begin.from, to: end.to };
            let refills =
                steps.iter().filter(|step| step.forward && step.at.overlaps(&span)).count() as u128;
            let time = span.to - span.from + MS;
            let flowed = UNITS * time.as_micros() / FULL.as_micros();
            let granted = match limit.key {
                "s" if time < FULL => UNITS * (1 + refills),
                "s" => continue,
                _ => UNITS * (1 + refills) + flowed,
            };
            assert!(count <= granted, "{}: {count} of {granted} in {time:?}", limit.call);
        }
    }
}

/// Nobody is locked out: no call is denied that came a time-to-full, or a window, and `late` after
/// the last one that passed and the first one after the last step.
pub fn nobody_locked_out(limit: Limit, calls: &[Call], steps: &[Step], late: Duration) {
    let mut open_from = calls.first().expect("some calls").at.to;
    let mut adopted = 0;
    for call in calls {
        if steps.iter().any(|step| step.at.overlaps(&call.at)) {
            continue;
        }
        let before = steps.iter().filter(|step| step.at.to < call.at.from).count();
        if call.allowed || before > adopted {
            adopted = before;
            open_from = call.at.to;
            continue;
        }
        let waited = call.at.from.saturating_duration_since(open_from);
        assert!(waited <= FULL + MS + late, "{}: denied after {waited:?}", limit.call);
    }
}
