//! The server's clock is set while clients wait: they wait by elapsed time.

use std::time::{Duration, Instant};

use super::moving::{Clock, HOUR_US};
use super::support::{Server, until};
use super::{Held, blocked};

/// How long the clients of these tests are held, less what passes until they are.
const HELD: Duration = Duration::from_millis(1500);
const CALL: &str = "RL.LEAKY q 5 1 PER 1500 WAIT 3000";

/// Set forward: nobody leaves before the time has passed.
#[test]
fn a_clock_set_forward_frees_nobody() {
    stepped(HOUR_US);
}

/// Set back: nobody is held until the old time comes again.
#[test]
fn a_clock_set_back_holds_nobody() {
    stepped(-HOUR_US);
}

/// Both while they wait, the second when the server has lived by the first for a while.
#[test]
fn a_clock_set_twice() {
    let clock = Clock::ahead(0);
    let server = Server::with(&clock.config());
    let mut held = hold(&server);
    clock.step(-HOUR_US, &server);
    clock.step(2 * HOUR_US, &server);
    held.leaves_in_time();
}

fn stepped(by_us: i64) {
    let clock = Clock::ahead(0);
    let server = Server::with(&clock.config());
    let mut watch = server.client();
    let mut held = hold(&server);
    clock.step(by_us, &server);
    held.leaves_in_time();
    // And who comes now is held by the new time, for as long as it says.
    watch.ok("DEL q");
    let mut held = hold(&server);
    held.leaves_in_time();
    until("nobody is blocked", || blocked(&mut watch) == 0);
}

struct Leaving {
    held: Held,
    not_before: Instant,
}

/// A client that is held for [`HELD`], from before the call in front of it on.
fn hold(server: &Server) -> Leaving {
    let not_before = Instant::now() + HELD;
    server.client().limit("RL.LEAKY q 5 1 PER 1500");
    Leaving { held: Held::by(server, CALL), not_before }
}

impl Leaving {
    fn leaves_in_time(&mut self) {
        let reply = self.held.reply();
        let now = Instant::now();
        assert!(now >= self.not_before, "{:?} too early", self.not_before - now);
        // An hour would be late, and a busy machine is not as slow as this.
        let late = now - self.not_before;
        assert!(late < Duration::from_secs(20), "{late:?} late");
        // Whatever the clock did, the numbers count what has passed.
        assert_eq!((reply.allowed, reply.delay_ms, reply.retry_after_ms), (1, Some(0), 0));
        assert!((0..=1500).contains(&reply.reset_after_ms), "{reply:?}");
    }
}
