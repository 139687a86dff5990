//! Keys that are deleted while they are used.

use std::thread;
use std::time::{Duration, Instant};

use super::support::{Dice, Reply, Server, error_text, text};

/// BR-199 apache/apisix#1901, BR-255 SGrondin/bottleneck#112: DEL, UNLINK and FLUSHALL ASYNC race
/// with calls of all limiters; no error but those of the contract.
#[test]
fn keys_may_be_deleted_under_their_users() {
    const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
    let server = Server::start();
    let end = Instant::now() + Duration::from_secs(2);
    thread::scope(|scope| {
        for seed in 0..4 {
            let mut client = server.client();
            scope.spawn(move || {
                let mut dice = Dice::new(seed);
                while Instant::now() < end {
                    // Few keys, so that limiters meet each other's states too.
                    let key = format!("k{}", dice.throw(4));
                    let line = dice.short_call(&key);
                    let answer = client.run(&line);
                    match error_text(&answer) {
                        Some(error) => assert_eq!(error, WRONG_TYPE, "{line}"),
                        None => assert!(
                            answer == redis::Value::Nil || Reply::new(&answer).is_some(),
                            "{line}: {answer:?}"
                        ),
                    }
                }
            });
        }
        // A window of many hits, which another thread of the server frees.
        let mut client = server.client();
        scope.spawn(move || {
            while Instant::now() < end {
                let reply = client.limit("RL.SLIDING large 100000 600000");
                assert_eq!(reply.allowed, 1, "{reply:?}");
            }
        });
        let mut client = server.client();
        let mut dice = Dice::new(99);
        while Instant::now() < end {
            let key = dice.pick(&["k0", "k1", "k2", "k3", "large"]);
            let line = match dice.throw(10) {
                0 => "FLUSHALL ASYNC".to_owned(),
                1..6 => format!("UNLINK {key}"),
                _ => format!("DEL {key}"),
            };
            client.ok(&line);
            thread::sleep(Duration::from_micros(dice.throw(3000)));
        }
    });
    assert_eq!(text(&server.client().ok("PING")), "PONG");
}
