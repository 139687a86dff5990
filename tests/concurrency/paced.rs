//! Load in real time: what passes is what time brings, in every interval.

use std::thread;
use std::time::Duration;

use super::support::{Reply, Server};
use super::timed::{
    Event, Load, TimedClient, elapsed_us, full_windows, in_order, judge_bucket, judge_window,
    passed, us,
};

/// BR-043 rack/rack-attack#85: one client at a thousand calls a second on one a second: of each
/// limiter three pass in no less than 2 s, and nothing was denied without need.
#[test]
fn one_a_second_stays_one_a_second() {
    let server = Server::start();
    thread::scope(|scope| {
        for line in ["RL.SLIDING s 1 1000", "RL.TOKENBUCKET t 1 1", "RL.LEAKY l 1 1"] {
            let server = &server;
            scope.spawn(move || {
                let (clients, batch) = (1, 1);
                let pause = Duration::from_millis(1);
                let lasting = Duration::from_millis(700);
                let load = Load { server, line, clients, batch, pause, lasting };
                let events = load.run_until(|events| passed(events) >= 3);
                let times: Vec<&Event> = events.iter().filter(|event| event.allowed).collect();
                assert!(times[2].after_us - times[0].before_us >= 2_000_000, "{line}");
                if line.starts_with("RL.SLIDING") {
                    judge_window(&events, 1, 1000);
                } else {
                    judge_bucket(&events, 1.0, 1.0);
                }
            });
        }
    });
}

/// BR-055 express-rate-limit/rate-limit-redis#209: a thousand a second under five thousand calls a
/// second: in each second a thousand pass, and in all a thousand more or less than that.
#[test]
fn a_window_under_five_times_its_load_passes_its_limit() {
    let server = Server::start();
    let line = "RL.SLIDING k 1000 1000";
    let (clients, batch) = (4, 25);
    let (pause, lasting) = (Duration::from_millis(20), Duration::from_millis(2700));
    let load = Load { server: &server, line, clients, batch, pause, lasting };
    let events = load.run_until(|events| full_windows(events, 1000) >= 2);
    judge_window(&events, 1000, 1000);
    passes_its_limit(&events, 1000, 1000);
}

/// As many pass as fit into the windows that were begun, and all of those that were full.
fn passes_its_limit(events: &[Event], limit: usize, window_ms: i64) {
    let windows = (elapsed_us(events) / us(window_ms * 1000)).ceil();
    let most = us(i64::try_from(limit).expect("a limit")) * windows;
    let (passed, full) = (passed(events), full_windows(events, window_ms));
    assert!(us(i64::try_from(passed).expect("a count")) <= most, "{passed} in {windows} windows");
    assert!(passed >= limit * full, "{passed} in {full} full windows");
}

/// BR-062 peterkhayes/rolling-rate-limiter#15: forty workers that sleep exactly the time they are
/// told share ten a window; each window admits ten and no worker starves.
#[test]
fn workers_that_sleep_as_told_share_a_window() {
    const WORKERS: usize = 40;
    const JOBS: usize = 3;
    let server = Server::start();
    let line = "RL.SLIDING k 10 250";
    let one = || {
        let mut client = TimedClient::new(&server);
        let mut events: Vec<Event> = Vec::new();
        while passed(&events) < JOBS {
            let event = client.call(line, 1)[0];
            events.push(event);
            if !event.allowed {
                let told = u64::try_from(event.retry_after_ms).expect("a wait");
                assert!((1..=251).contains(&told), "told to wait for {told} ms");
                thread::sleep(Duration::from_millis(told));
            }
        }
        events
    };
    let events = in_order(thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(one)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    }));
    // Every worker did all of its jobs, and whenever one was told to wait the window was full.
    assert_eq!(passed(&events), WORKERS * JOBS);
    judge_window(&events, 10, 250);
    // Twelve windows full of jobs fill eleven windows' time at least.
    assert!(elapsed_us(&events) >= 11.0 * 250_000.0);
}

/// BR-106 Kit/excess_flow#1, BR-113 redis-developer/redis-ratelimiting-js#2: clients on several
/// hosts together never pass more than the limit of one window. A connection is all that the server
/// sees of a host.
#[test]
fn many_clients_never_pass_more_than_one_window() {
    let server = Server::start();
    let line = "RL.SLIDING k 100 400";
    let (clients, batch) = (12, 5);
    let (pause, lasting) = (Duration::ZERO, Duration::from_millis(1500));
    let load = Load { server: &server, line, clients, batch, pause, lasting };
    let events = load.run_until(|events| full_windows(events, 400) >= 2);
    judge_window(&events, 100, 400);
    passes_its_limit(&events, 100, 400);
}

/// BR-128 redisson/redisson#5687: thirty-two clients saturating 150 a second get 150 in every
/// second after the first, one more or less.
#[test]
fn a_saturated_bucket_gives_its_rate_in_every_second() {
    let server = Server::start();
    let line = "RL.TOKENBUCKET k 600 150";
    let (clients, batch) = (32, 2);
    let (pause, lasting) = (Duration::from_millis(3), Duration::from_millis(2500));
    let load = Load { server: &server, line, clients, batch, pause, lasting };
    let events = load.run_until(|events| !saturated_seconds(events).is_empty());
    judge_bucket(&events, 600.0, 150.0);
    for (second_us, given) in saturated_seconds(&events) {
        let brought = second_us * 150.0 / 1_000_000.0;
        assert!((given - brought).abs() <= 1.1, "{given} in {second_us} us");
    }
}

/// Stretches of a second or more between two denials, in µs, and what passed in each. At a denial
/// less than one token is left, so between two of them passes what that time brought, if it is too
/// short to fill the bucket.
fn saturated_seconds(events: &[Event]) -> Vec<(f64, f64)> {
    /// The bucket takes 4 s to fill.
    const TOO_LONG_US: f64 = 3_900_000.0;
    // Where a reading of the clock was held up, it is not known when the call was decided.
    let held_up = |event: &Event| event.after_us - event.before_us > 500;
    let denied = |event: &Event| !event.allowed && !held_up(event);
    let mut seconds = Vec::new();
    let mut begin: Option<usize> = None;
    for (place, event) in events.iter().enumerate().filter(|(_, event)| denied(event)) {
        let first = *begin.get_or_insert(place);
        let between_us = us(event.before_us - events[first].before_us);
        if between_us < 1_000_000.0 {
            continue;
        }
        if between_us < TOO_LONG_US {
            let given = us(i64::try_from(passed(&events[first..place])).expect("a count"));
            seconds.push((between_us, given));
        }
        begin = Some(place);
    }
    seconds
}

/// BR-130 brandur/redis-cell#11, BR-142 throttled/throttled#27: ten clients offering more than
/// 8,000 a second to a bucket of two, and more than 5,000 to a bucket of one: no error, no key
/// without expiry, and what passes is within 2 % of the rate.
#[test]
fn a_small_bucket_under_great_load_gives_its_rate() {
    let server = Server::start();
    for (line, capacity, rate) in
        [("RL.TOKENBUCKET two 2 200", 2.0, 200.0), ("RL.LEAKY one 1 100", 1.0, 100.0)]
    {
        let (clients, batch) = (10, 8);
        let (pause, lasting) = (Duration::ZERO, Duration::from_millis(1500));
        let events = Load { server: &server, line, clients, batch, pause, lasting }.run();
        let due = judge_bucket(&events, capacity, rate).due(elapsed_us(&events), capacity, rate);
        let passed = us(i64::try_from(passed(&events)).expect("a count"));
        let (least, most) = (due.start() * 0.98, due.end() * 1.02);
        assert!((least..=most).contains(&passed), "{passed} passed, {due:?} were due");
        let key = line.split(' ').nth(1).expect("a key");
        assert_ne!(server.client().int(&format!("PTTL {key}")), -1);
    }
}

/// BR-151 apache/apisix#12592: thirty-two clients on a leaky bucket of ten a second: 30 or 31 pass
/// in 3 s.
#[test]
fn a_leaky_bucket_of_one_leaks_at_its_rate() {
    let server = Server::start();
    let line = "RL.LEAKY k 1 10";
    let (clients, batch) = (32, 1);
    let (pause, lasting) = (Duration::from_millis(3), Duration::from_secs(3));
    let events = Load { server: &server, line, clients, batch, pause, lasting }.run();
    let due = judge_bucket(&events, 1.0, 10.0).due(elapsed_us(&events), 1.0, 10.0);
    let passed = us(i64::try_from(passed(&events)).expect("a count"));
    assert!(due.contains(&passed), "{passed} passed, {due:?} were due");
}

/// BR-152 apache/apisix#3988, BR-153 apache/apisix#5588: traffic well below the limit, from many
/// clients, sees not one denial, also where keys come and go.
#[test]
fn traffic_below_the_limit_sees_no_denial() {
    // The keys of the first three are as if never used again between two calls of a client.
    const LINES: [&str; 6] = [
        "RL.TOKENBUCKET t 100 10000",
        "RL.LEAKY l 100 10000",
        "RL.SLIDING s 100 10",
        "RL.TOKENBUCKET slow:t 2000 2000",
        "RL.LEAKY slow:l 2000 2000",
        "RL.SLIDING slow:s 2000 1000",
    ];
    let server = Server::start();
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..60 {
                    for line in LINES {
                        let reply: Reply = client.limit(line);
                        assert_eq!(reply.allowed, 1, "{line}: {reply:?}");
                    }
                    thread::sleep(Duration::from_millis(30));
                }
            });
        }
    });
}

/// BR-109 redisson/redisson#3639, BR-110 cds-snc/notification-api#2921: after a rest, overload in
/// real time; a moving count of what passed never exceeds the limit in any window.
#[test]
fn a_rest_saves_nothing_for_later() {
    let server = Server::start();
    let line = "RL.SLIDING k 50 300";
    let load = |lasting: u64| Load {
        server: &server,
        line,
        clients: 6,
        batch: 4,
        pause: Duration::from_millis(1),
        lasting: Duration::from_millis(lasting),
    };
    let mut events = load(200).run();
    // The rest: longer than the window.
    thread::sleep(Duration::from_millis(700));
    events.extend(load(2000).run_until(|events| full_windows(events, 300) >= 2));
    judge_window(&events, 50, 300);
    let all_passed: Vec<i64> =
        events.iter().filter(|event| event.allowed).map(|event| event.before_us).collect();
    // The moving count, as it was reported: 51 calls that passed take longer than the window, less
    // what the clock may have been read too late.
    let blur_us = events.iter().map(|event| event.after_us - event.before_us).max().unwrap_or(0);
    for some in all_passed.windows(51) {
        assert!(some[50] - some[0] >= 300_000 - blur_us, "51 passed within a window");
    }
}
