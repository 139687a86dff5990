//! Calls with the server's time around each, and judges of what they were answered.
//!
//! A call goes out as `TIME` and a script that counts the call, makes it and asks the time again.
//! So the order of all calls is known, and for each of them two instants of the server's own clock
//! that enclose the one at which it was decided. The judges allow what some instant between the two
//! allows and nothing else: they are exact, and deaf to how busy the machine is.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;

use super::support::{Client, DEADLINE, Server, error_text, int, list, text, words};

const SCRIPT: &str = "local n = redis.call('INCR', KEYS[1])\n\
                      local r = redis.call(unpack(ARGV))\n\
                      local t = redis.call('TIME')\n\
                      return {n, r[1], r[3], r[4], t[1], t[2]}";

/// One call as it was answered.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Its place in the order of all calls.
    pub order: i64,
    /// The server's clock before it was decided, in µs.
    pub before_us: i64,
    /// The server's clock after it was decided, in µs.
    pub after_us: i64,
    pub allowed: bool,
    pub remaining: i64,
    pub retry_after_ms: i64,
}

/// A client whose calls are timed.
pub struct TimedClient {
    client: Client,
    script: Vec<u8>,
}

impl TimedClient {
    /// A new connection.
    pub fn new(server: &Server) -> TimedClient {
        let mut client = server.client();
        let script = text(&client.call(&["SCRIPT", "LOAD", SCRIPT])).into_bytes();
        TimedClient { client, script }
    }

    /// Makes the call `times` times at once. Its second word is the key.
    pub fn call(&mut self, line: &str, times: usize) -> Vec<Event> {
        let call = words(line);
        let counter = [b"calls:", call[1].as_slice()].concat();
        let mut timed = vec![b"EVALSHA".to_vec(), self.script.clone(), b"2".to_vec(), counter];
        timed.push(call[1].clone());
        timed.extend(call);
        let both = [vec![b"TIME".to_vec()], timed];
        let sent: Vec<Vec<Vec<u8>>> = both.iter().cycle().take(2 * times).cloned().collect();
        let answers = self.client.pipeline(&sent);
        answers.chunks(2).map(|pair| Event::new(line, &pair[0], &pair[1])).collect()
    }
}

impl Event {
    fn new(line: &str, before: &Value, answer: &Value) -> Event {
        assert_eq!(error_text(answer), None, "{line}");
        let parts = list(answer);
        Event {
            order: int(&parts[0]),
            before_us: time_us(&list(before)),
            after_us: time_us(&parts[4..]),
            allowed: int(&parts[1]) == 1,
            remaining: int(&parts[2]),
            retry_after_ms: int(&parts[3]),
        }
    }
}

fn time_us(parts: &[Value]) -> i64 {
    let number = |part: &Value| text(part).parse::<i64>().expect("TIME answers numbers");
    number(&parts[0]) * 1_000_000 + number(&parts[1])
}

/// Clients that make the same call again and again.
pub struct Load<'a> {
    pub server: &'a Server,
    pub line: &'a str,
    pub clients: usize,
    /// Calls that each of them sends at once.
    pub batch: usize,
    /// How long each rests between two batches.
    pub pause: Duration,
    pub lasting: Duration,
}

impl Load<'_> {
    /// Goes on until `enough` was tested: a busy machine needs longer for the same load.
    pub fn run_until(&self, enough: impl Fn(&[Event]) -> bool) -> Vec<Event> {
        let start = Instant::now();
        let mut events = self.run();
        while !enough(&events) {
            assert!(start.elapsed() < DEADLINE, "{} calls were not enough", events.len());
            events.extend(self.run());
        }
        events
    }

    /// All calls, in their order.
    pub fn run(&self) -> Vec<Event> {
        in_order(thread::scope(|scope| {
            let clients: Vec<_> =
                (0..self.clients).map(|_| scope.spawn(|| self.one_client())).collect();
            clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
        }))
    }

    fn one_client(&self) -> Vec<Event> {
        let mut client = TimedClient::new(self.server);
        let mut events = Vec::new();
        let start = Instant::now();
        while start.elapsed() < self.lasting {
            events.extend(client.call(self.line, self.batch));
            if !self.pause.is_zero() {
                thread::sleep(self.pause);
            }
        }
        events
    }
}

/// The calls of several clients in the order in which the server made them. None was decided before
/// the one ahead of it was over.
pub fn in_order(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by_key(|event| event.order);
    let mut over_us = 0;
    for event in &mut events {
        event.before_us = event.before_us.max(over_us);
        over_us = event.after_us;
    }
    events
}

/// How many calls passed.
pub fn passed(events: &[Event]) -> usize {
    events.iter().filter(|event| event.allowed).count()
}

/// µs from the first call to the last.
pub fn elapsed_us(events: &[Event]) -> f64 {
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return 0.0 };
    us(last.after_us - first.before_us)
}

/// How often in a row a denial came at least a window after the one before: each time a whole
/// window's limit had passed.
pub fn full_windows(events: &[Event], window_ms: i64) -> usize {
    let mut full = 0;
    let mut next_us = i64::MIN;
    for event in events.iter().filter(|event| !event.allowed) {
        if event.before_us >= next_us {
            full += 1;
            // A hit may count for a ms more than its window.
            next_us = event.after_us + window_ms * 1000 + 1000;
        }
    }
    full
}

/// How long a bucket had all its tokens and nobody asked, in µs: what time brought then is lost.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Certainly so long.
    pub least_us: f64,
    /// Not longer than this.
    pub most_us: f64,
}

impl Idle {
    /// How many calls at least and at most pass in `elapsed_us`, by what is lost.
    pub fn due(self, elapsed_us: f64, capacity: f64, per_second: f64) -> RangeInclusive<f64> {
        let brought = |idle_us: f64| per_second * (elapsed_us - idle_us).max(0.0) / 1_000_000.0;
        brought(self.most_us) - 1.0..=brought(self.least_us) + capacity
    }
}

/// Judges the calls of cost 1 on a token bucket, or on a leaky bucket as a meter, from its first
/// call on.
///
/// A bucket that lacks tokens is full again at a certain time T, whatever happened before: a call
/// at t passes if T is at most t + (capacity - 1) tokens' time, and moves T to max(T, t) + one
/// token's.
pub fn judge_bucket(events: &[Event], capacity: f64, per_second: f64) -> Idle {
    /// Rounding of the numbers here, in µs.
    const BLUR_US: f64 = 0.5;
    let token_us = 1_000_000.0 / per_second;
    let room_us = (capacity - 1.0) * token_us;
    let start_us = events.first().map_or(0, |event| event.before_us);
    // T is between these two, in µs since the start.
    let (mut earliest, mut latest) = (0.0_f64, 0.0_f64);
    let mut idle = Idle { least_us: 0.0, most_us: 0.0 };
    for event in events {
        let (before, after) = (us(event.before_us - start_us), us(event.after_us - start_us));
        if event.allowed {
            assert!(earliest - after <= room_us + BLUR_US, "passed too early: {event:?}");
            latest = latest.min(after + room_us + BLUR_US);
            idle.least_us += (before - latest).max(0.0);
            idle.most_us += (after - earliest).max(0.0);
            earliest = earliest.max(before) + token_us;
            latest = latest.max(after) + token_us;
        } else {
            assert!(latest - before > room_us - BLUR_US, "denied without need: {event:?}");
            earliest = earliest.max(before + room_us - BLUR_US);
        }
        assert!(earliest <= latest + 2.0 * BLUR_US, "no history explains {event:?}");
    }
    idle
}

/// Judges the calls of cost 1 on a sliding window from its first call on.
///
/// A hit counts from its time, rounded up to a ms, for the window's length. What each reply says
/// remains is judged too.
pub fn judge_window(events: &[Event], limit: usize, window_ms: i64) {
    let window_us = window_ms * 1000;
    // Hits that certainly count, and hits that may, oldest first: when they have left.
    let (mut certain, mut possible) = (VecDeque::new(), VecDeque::new());
    for event in events {
        while certain.front().is_some_and(|&left_us| left_us <= event.after_us) {
            certain.pop_front();
        }
        while possible.front().is_some_and(|&left_us| left_us <= event.before_us) {
            possible.pop_front();
        }
        if event.allowed {
            assert!(certain.len() < limit, "{} hits count: {event:?}", certain.len());
            certain.push_back(event.before_us + window_us);
            possible.push_back(event.after_us + 1000 + window_us);
        } else {
            assert!(possible.len() >= limit, "only {} count: {event:?}", possible.len());
        }
        let remaining = usize::try_from(event.remaining).expect("never less than nothing");
        let free = limit.saturating_sub(possible.len())..=limit - certain.len();
        assert!(free.contains(&remaining), "{free:?} remain: {event:?}");
    }
}

/// µs as a number to reckon with; exact below 2^53, 285 years.
pub fn us(value: i64) -> f64 {
    value as f64
}

#[cfg(test)]
mod judges {
    use super::{Event, full_windows, judge_bucket, judge_window};

    fn event(at_us: i64, allowed: bool, remaining: i64) -> Event {
        let (order, before_us, after_us) = (at_us, at_us, at_us + 10);
        Event { order, before_us, after_us, allowed, remaining, retry_after_ms: 0 }
    }

    #[test]
    fn buckets_that_are_right() {
        let events = [
            event(0, true, 1),
            event(5, true, 0),
            event(30, false, 0),
            event(99_000, false, 0),
            event(100_002, true, 0),
            event(100_050, false, 0),
        ];
        assert!(judge_bucket(&events, 2.0, 10.0).most_us < 100.0);
    }

    #[test]
    #[should_panic(expected = "passed too early")]
    fn a_bucket_that_passes_one_too_many() {
        let events = [event(0, true, 1), event(50, true, 0), event(99_900, true, 0)];
        judge_bucket(&events, 2.0, 10.0);
    }

    #[test]
    #[should_panic(expected = "denied without need")]
    fn a_bucket_that_denies_one_too_many() {
        let events = [event(0, true, 1), event(50, true, 0), event(100_100, false, 0)];
        judge_bucket(&events, 2.0, 10.0);
    }

    #[test]
    fn the_idle_time_of_a_bucket() {
        let idle = judge_bucket(&[event(0, true, 0), event(400_000, true, 0)], 1.0, 10.0);
        assert!((299_900.0..300_000.0).contains(&idle.least_us), "{idle:?}");
        assert!((300_000.0..300_100.0).contains(&idle.most_us), "{idle:?}");
        assert!(idle.due(400_010.0, 1.0, 10.0).contains(&2.0));
        assert!(!idle.due(400_010.0, 1.0, 10.0).contains(&4.0));
    }

    #[test]
    fn windows_that_were_full() {
        let events = [0, 50_000, 101_100, 150_000, 203_000].map(|at| event(at, false, 0));
        assert_eq!(full_windows(&events, 100), 3);
    }

    #[test]
    fn windows_that_are_right() {
        let events = [
            event(0, true, 1),
            event(10, true, 0),
            event(500, false, 0),
            event(99_000, false, 0),
            event(101_100, true, 1),
        ];
        judge_window(&events, 2, 100);
    }

    #[test]
    #[should_panic(expected = "2 hits count")]
    fn a_window_that_passes_one_too_many() {
        let events = [event(0, true, 1), event(10, true, 0), event(99_900, true, 0)];
        judge_window(&events, 2, 100);
    }

    #[test]
    #[should_panic(expected = "only 1 count")]
    fn a_window_that_denies_one_too_many() {
        let events = [event(0, true, 1), event(60_000, true, 0), event(101_100, false, 0)];
        judge_window(&events, 2, 100);
    }

    #[test]
    #[should_panic(expected = "remain")]
    fn a_window_that_tells_what_is_not_left() {
        judge_window(&[event(0, true, 2)], 2, 100);
    }
}
