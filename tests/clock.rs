//! The server's own clock is set back and forward, under load and while keys rest, and a replica
//! takes over whose clock differs: no error, nothing minted, nobody locked out.
//!
//! BR-117 sourcegraph/sourcegraph-public-snapshot#56826, BR-126 redis/redis#15116. The servers here
//! live by a clock that the test moves while they run (`clock/moving.rs`); what they let pass is
//! judged by a clock that nobody moves (`clock/load.rs`). Nothing has to be installed for it but
//! the C compiler that Rust links with.
//!
//! Hits of a sliding window are kept to the ms and move by whole ms, so each step back may let them
//! count for less than a ms longer. Nothing else is lost by a step.

mod support;

#[path = "clock/at_rest.rs"]
mod at_rest;
#[path = "clock/load.rs"]
mod load;
#[path = "clock/moving.rs"]
mod moving;
#[path = "clock/takeover.rs"]
mod takeover;
#[path = "clock/under_load.rs"]
mod under_load;

use redis::Value;

use support::{Client, Reply, Server, int, list, text, wait_for_replica, words};

/// An answer, the expiry that the call left, and two instants of the server's clock around it.
struct Timed {
    before_us: i64,
    reply: Reply,
    expire_ms: i64,
    after_us: i64,
}

impl Timed {
    /// Makes a call and asks for the expiry of its key at the same instant.
    fn call(client: &mut Client, line: &str) -> Timed {
        let key = line.split(' ').nth(1).expect("a key");
        let sent = ["MULTI", "TIME", line, &format!("PEXPIRETIME {key}"), "TIME", "EXEC"];
        let answers = client.pipeline(&sent.map(words));
        let answers = list(answers.last().expect("an answer to EXEC"));
        let time_us = |answer: &Value| {
            let parts: Vec<i64> =
                list(answer).iter().map(|part| text(part).parse().expect("a number")).collect();
            parts[0] * 1_000_000 + parts[1]
        };
        Timed {
            before_us: time_us(&answers[0]),
            reply: Reply::new(&answers[1])
                .unwrap_or_else(|| panic!("{line}: {:?} is no limiter's reply", answers[1])),
            expire_ms: int(&answers[2]),
            after_us: time_us(&answers[3]),
        }
    }

    /// The key lives until its reset and at most a second longer, by the clock as it goes now.
    fn lives_by_its_reset(&self, line: &str) {
        let Timed { before_us, reply, expire_ms, after_us } = self;
        let reset_ms = reply.reset_after_ms;
        assert!(expire_ms * 1000 >= before_us + (reset_ms - 1) * 1000, "{line}: ends too early");
        let latest_us = after_us + (reset_ms + 1000) * 1000;
        assert!(expire_ms * 1000 <= latest_us, "{line}: {reply:?} lives on");
    }
}

/// Value and expiry of every key.
fn contents(client: &mut Client) -> Vec<(String, Value, Value)> {
    let mut keys: Vec<String> = list(&client.ok("KEYS *")).iter().map(text).collect();
    keys.sort();
    keys.into_iter()
        .map(|key| {
            let dump = client.ok(&format!("DUMP {key}"));
            let expire_ms = client.ok(&format!("PEXPIRETIME {key}"));
            (key, dump, expire_ms)
        })
        .collect()
}

/// Waits until the replica has everything, and compares.
fn assert_same(primary: &Server, replica: &Server) {
    wait_for_replica(primary, replica);
    let (here, there) = (contents(&mut primary.client()), contents(&mut replica.client()));
    assert!(!here.is_empty(), "nothing to compare");
    assert_eq!(there, here, "the replica holds what its primary holds");
}
