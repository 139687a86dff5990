//! Clients whose reply is held, and whose wait ends in every way: by itself, by CLIENT UNBLOCK, by
//! CLIENT KILL, by a closed connection.

use redis::Value;

use super::calls::Caller;
use super::judge::Tally;
use super::support::{Client, Reply, Server, error_text, int, words};

/// Clients that wait at the same time, at most.
const MOST: usize = 24;

/// Those who wait, each with its id.
pub struct Waiters(Vec<(Client, i64)>);

impl Waiters {
    pub fn new() -> Waiters {
        Waiters(Vec::new())
    }

    /// One more waits, or one that waits is let go.
    pub fn step(
        &mut self,
        server: &Server,
        watch: &mut Client,
        caller: &mut Caller,
        tally: &mut Tally,
    ) {
        if self.0.len() < MOST && (self.0.is_empty() || !caller.once_in(3)) {
            let mut client = server.client();
            let id = client.int("CLIENT ID");
            let queue = caller.dice.throw(3);
            let limit = caller.dice.pick(&["1000 1 PER 3600000", "50 1000", "1000 1 PER 20"]);
            client.send(&words(&format!("RL.LEAKY queue:{queue} {limit} WAIT 315360000000")));
            self.0.push((client, id));
            return;
        }
        let (mut client, id) = self.0.swap_remove(caller.below(self.0.len()));
        match caller.dice.throw(5) {
            0 => client.cut(),
            1 => {
                // Its connection ends while it has sent more, of which half a command.
                let more = client.send_bytes(b"*1\r\n$4\r\nPING\r\n*4\r\n$8\r\nRL.LE");
                drop(more);
                client.cut();
            }
            2 => {
                watch.run(&format!("CLIENT KILL ID {id}"));
            }
            3 => {
                if int(&watch.ok(&format!("CLIENT UNBLOCK {id} ERROR"))) == 1 {
                    let error = error_text(&client.read()).unwrap_or_default();
                    assert!(error.starts_with("UNBLOCKED"), "{error:?}");
                    tally.count("unblocked with an error");
                }
            }
            _ => {
                if int(&watch.ok(&format!("CLIENT UNBLOCK {id}"))) == 1 {
                    tally.count("unblocked");
                }
                // It waited a ms at most, if at all, or was let go.
                judge_held(&mut client, watch, id);
            }
        }
        tally.count("waits ended");
    }

    /// Nobody waits any more.
    pub fn end(self) {
        self.0.into_iter().for_each(|(client, _)| client.cut());
    }
}

/// The reply to a client that is not to be held for long: perhaps its call has not arrived when it
/// was to be let go the first time.
fn judge_held(client: &mut Client, watch: &mut Client, id: i64) {
    watch.run(&format!("CLIENT UNBLOCK {id}"));
    client.send(&words("PING"));
    let answer = client.read();
    let reply = Reply::new(&answer);
    match (&answer, reply) {
        (_, Some(reply)) => {
            let delay_ms = reply.delay_ms.expect("a leaky bucket");
            assert!(delay_ms <= reply.reset_after_ms && delay_ms >= 0, "{reply:?}");
        }
        (Value::ServerError(_), None) => {
            let error = error_text(&answer).expect("an error");
            assert!(error.starts_with("WRONGTYPE") || error.starts_with("OOM"), "{error}");
        }
        _ => panic!("{answer:?}"),
    }
}
