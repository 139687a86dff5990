//! The module alone sets how long a key lives: from its reset to a second after it.

use redis::Value;

use super::support::{
    Client, Config, Dice, Reply, Server, int, list, text, wait_for_replica, words,
};
use super::{LIMITERS, snapshot};

/// After every call that writes: time-until-reset <= PTTL <= time-until-reset + 1000.
#[test]
fn every_write_sets_the_expiry_by_the_reset() {
    let server = Server::start();
    let mut client = server.client();
    let mut dice = Dice::new(5);
    let (mut writes, mut keys) = (0, 0);
    for _ in 0..600 {
        let line = if dice.throw(2) == 0 {
            dice.long_call()
        } else {
            let key = dice.pick(&["a", "b", "c", "d", "e"]);
            dice.short_call(key)
        };
        let key = line.split(' ').nth(1).expect("a key");
        let before = snapshot(&mut client, key);
        let Some(lived) = call_and_expiry(&mut client, &line, key) else { continue };
        let after = snapshot(&mut client, key);
        if after.changes > before.changes {
            writes += 1;
            keys += i32::from(before.dump.is_none());
            lived.check(&line);
        }
    }
    assert!(writes > 100 && keys > 20, "only {writes} writes, {keys} new keys");
}

/// A reply, the expiry that the call left, and two instants of the server's clock around them.
struct Lived {
    before_us: i64,
    reply: Reply,
    expire_ms: i64,
    after_us: i64,
}

impl Lived {
    fn check(&self, line: &str) {
        let Lived { before_us, reply, expire_ms, after_us } = self;
        assert!(*expire_ms > 0, "{line}: no expiry");
        // The reply's reset is rounded up to the ms.
        let (least_us, most_us) = ((reply.reset_after_ms - 1) * 1000, reply.reset_after_ms * 1000);
        assert!(expire_ms * 1000 >= before_us + least_us, "{line}: {reply:?} expires too early");
        assert!(expire_ms * 1000 <= after_us + most_us + 1_000_000, "{line}: {reply:?} lives on");
    }
}

/// Makes the call and asks for the expiry at the same instant; none if the call gave no reply, or
/// if the state was over at that very instant.
fn call_and_expiry(client: &mut Client, line: &str, key: &str) -> Option<Lived> {
    let sent = ["MULTI", "TIME", line, &format!("PEXPIRETIME {key}"), "TIME", "EXEC"].map(words);
    let answers = list(client.pipeline(&sent).last().expect("an answer to EXEC"));
    let time_us = |answer: &Value| {
        let parts: Vec<i64> =
            list(answer).iter().map(|part| text(part).parse().expect("a number")).collect();
        parts[0] * 1_000_000 + parts[1]
    };
    let reply = Reply::new(&answers[1])?;
    let (before_us, after_us) = (time_us(&answers[0]), time_us(&answers[3]));
    let expire_ms = int(&answers[2]);
    (expire_ms != -2).then_some(Lived { before_us, reply, expire_ms, after_us })
}

#[test]
fn a_real_call_gives_back_a_lost_expiry_and_a_look_does_not() {
    let server = Server::start();
    let replica = server.replica();
    let (mut client, mut of_replica) = (server.client(), replica.client());
    for (key, call) in LIMITERS {
        let drained = client.limit(&format!("{call} COST 2"));
        let mending = ["", " COST 0", " COST 3", " SHADOW", " FORCE"];
        for options in mending {
            assert_eq!(client.int(&format!("PERSIST {key}")), 1);
            let before = snapshot(&mut client, key);
            for look in [format!("{call} PEEK"), format!("RL.PEEK {key}")] {
                client.limit(&look);
                assert_eq!(snapshot(&mut client, key), before, "{look}");
            }
            let line = format!("{call}{options}");
            let lived = call_and_expiry(&mut client, &line, key).expect("a reply");
            lived.check(&line);
            let after = snapshot(&mut client, key);
            assert_eq!(after.changes, before.changes + 1, "{line}");
            if options != " FORCE" {
                assert_eq!(after.dump, before.dump, "{line}: only the expiry is mended");
                assert_eq!(lived.reply.limit, drained.limit);
            }
            // Once is enough.
            client.limit(call);
            assert_eq!(snapshot(&mut client, key), after, "{line}");
            wait_for_replica(&server, &replica);
            let expire_ms = of_replica.int(&format!("PEXPIRETIME {key}"));
            assert_eq!(expire_ms, after.expire_ms, "{line}: on the replica");
        }
    }
}

#[test]
fn a_refund_mends_a_lost_expiry_too() {
    let server = Server::start();
    let mut client = server.client();
    for (key, call) in LIMITERS {
        client.limit(&format!("{call} COST 2"));
        client.ok(&format!("PERSIST {key}"));
        let line = format!("RL.REFUND {key} 1");
        call_and_expiry(&mut client, &line, key).expect("a reply").check(&line);
        // To full, empty or no hits: the key is left for a second at most.
        let line = format!("RL.REFUND {key} 5");
        if let Some(lived) = call_and_expiry(&mut client, &line, key) {
            assert_eq!(lived.reply.reset_after_ms, 0, "{line}");
            assert!(lived.expire_ms * 1000 <= lived.after_us + 1_000_000, "{line}");
        }
    }
}

/// A slower rate lengthens a key's life at once, also by a denial; what the user set is kept by
/// denials with the same parameters and mended by the next write.
#[test]
fn a_users_expiry_lasts_until_the_next_write() {
    let server = Server::start();
    let mut client = server.client();
    for (key, call) in LIMITERS {
        client.limit(&format!("{call} COST 2"));
        client.ok(&format!("PEXPIRE {key} 20000000"));
        let users = snapshot(&mut client, key);
        assert_eq!(client.limit(call).allowed, 0);
        assert_eq!(snapshot(&mut client, key), users);
        let slower = call.replace("3600000", "7200000");
        for line in [slower, format!("{call} FORCE")] {
            client.ok(&format!("PEXPIRE {key} 20000000"));
            call_and_expiry(&mut client, &line, key).expect("a reply").check(&line);
        }
    }
}

/// With a caller's clock far from the server's, keys still live by the server's.
#[test]
fn a_callers_clock_does_not_move_the_expiry() {
    let server = Server::with(&Config::new().client_time());
    let mut client = server.client();
    for (key, call) in LIMITERS {
        for at in ["0", "1700000000000", "9007199254740992"] {
            client.ok("FLUSHALL");
            for options in ["", " COST 1", " FORCE"] {
                let line = format!("{call}{options} AT {at}");
                call_and_expiry(&mut client, &line, key).expect("a reply").check(&line);
            }
        }
    }
}
