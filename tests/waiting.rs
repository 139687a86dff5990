//! `WAIT` on a real server: the reply to RL.LEAKY comes when the request may go.
//!
//! What depends on time is judged by clocks that are read around each call, so that a busy machine
//! makes replies later and no test wrong: nobody leaves early, everybody leaves in order.

mod support;

#[path = "waiting/at_once.rs"]
mod at_once;
#[path = "waiting/ends.rs"]
mod ends;
#[path = "waiting/held.rs"]
mod held;
#[path = "waiting/leaks.rs"]
mod leaks;
#[path = "clock/moving.rs"]
#[allow(dead_code)]
mod moving;
#[path = "waiting/paced.rs"]
mod paced;
#[path = "waiting/roles.rs"]
mod roles;
#[path = "waiting/steps.rs"]
mod steps;

use redis::Value;
use support::{Client, Reply, Server, field, int, text, until};

/// A call on the queue `q` that leaves in an hour or later, once something is in front of it.
const IN_AN_HOUR: &str = "RL.LEAKY q 1000 1 PER 3600000 WAIT 315360000000";
const HOUR_MS: i64 = 3_600_000;

/// A client whose call was sent and whose reply is held.
struct Held {
    client: Client,
    id: i64,
}

impl Held {
    /// Sends the call of a new client, which must be held.
    fn by(server: &Server, line: &str) -> Held {
        Held::of(server, server.client(), line)
    }

    fn of(server: &Server, mut client: Client, line: &str) -> Held {
        let id = client.int("CLIENT ID");
        client.send(&support::words(line));
        let mut watch = server.client();
        until("the client is blocked", || is_blocked(&mut watch, id));
        Held { client, id }
    }

    /// The reply, when it comes.
    fn reply(&mut self) -> Reply {
        let value = self.client.read();
        Reply::new(&value).unwrap_or_else(|| panic!("{value:?} is no limiter's reply"))
    }
}

/// Whether a client is blocked, as CLIENT LIST shows it.
fn is_blocked(watch: &mut Client, id: i64) -> bool {
    let shown = text(&watch.ok(&format!("CLIENT LIST ID {id}")));
    let flags = shown.split(' ').find_map(|part| part.strip_prefix("flags="));
    flags.is_some_and(|flags| flags.contains('b'))
}

/// How many clients are blocked.
fn blocked(client: &mut Client) -> u64 {
    let info = client.info("clients");
    field(&info, "blocked_clients").and_then(|n| n.parse().ok()).expect("INFO tells it")
}

/// How many units the queue `q` holds.
fn level(client: &mut Client) -> i64 {
    let reply = client.limit("RL.PEEK q");
    reply.limit - reply.remaining
}

/// An array of an answer that is one, with the integer at `index`.
fn number(value: &Value, index: usize) -> i64 {
    int(&support::list(value)[index])
}
