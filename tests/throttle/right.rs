//! Where redis-cell is wrong, and what is right.

use std::time::Duration;

use super::support::{Client, Config, Server, error_text, list, text, wait_for_replica, words};
use super::throttle;

/// It rounds seconds down, so a caller who waits as told is denied again; some are told 0.
#[test]
fn seconds_are_rounded_up() {
    let server = Server::start();
    let mut client = server.client();
    for (words, retry_s) in [("0 10 7", 1), ("0 2 5", 3), ("0 1000 1", 1), ("0 1 1", 1)] {
        client.ok("DEL k");
        assert_eq!(throttle(&mut client, &format!("RL.THROTTLE k {words}"))[..4], [0, 1, 0, -1]);
        // A unit comes back within a second at the fastest: then the call passes.
        let reply = throttle(&mut client, &format!("RL.THROTTLE k {words}"));
        if reply[0] == 1 {
            assert!((1..=retry_s).contains(&reply[3]), "{words}: {reply:?}");
            assert_eq!(reply[3], reply[4], "{words}");
        }
    }
}

/// Who waits as long as told passes. By the server's clock, to the ms: the wait is asked for again
/// with the token bucket's own command.
#[test]
fn a_wait_as_told_is_enough() {
    let server = Server::start();
    let mut client = server.client();
    let line = "RL.THROTTLE k 0 1 1";
    throttle(&mut client, line);
    let reply = throttle(&mut client, line);
    assert_eq!(reply[..2], [1, 1]);
    let exact_ms = client.limit("RL.TOKENBUCKET k 1 1 PEEK").retry_after_ms;
    assert!(exact_ms <= reply[3] * 1000, "{reply:?}, but {exact_ms} ms");
    std::thread::sleep(Duration::from_secs(reply[3].try_into().expect("a wait")));
    assert_eq!(throttle(&mut client, line)[0], 0, "denied after the wait that was told");
}

/// redis-cell has an error that says nothing for a key of another type, ends the server on a very
/// large period, and takes numbers that are no limit, such as a count of 0.
#[test]
fn no_call_ends_the_server() {
    let mut server = Server::with(&Config::new().module_args("rl.compat-cell yes"));
    let mut client = server.client();
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    for create in ["SET k x", "SET k 5", "RPUSH k a", "RL.LEAKY k 5 1", "RL.SLIDING k 5 1000"] {
        client.ok("DEL k");
        client.ok(create);
        let before = client.dump("k");
        for command in ["RL.THROTTLE", "CL.THROTTLE"] {
            assert_eq!(client.refused(&format!("{command} k 15 30 60")), wrong, "{create}");
        }
        assert_eq!(client.dump("k"), before, "{create}");
    }
    client.ok("DEL k");
    for (words, argument) in [
        ("-1 1 1", "max-burst"),
        ("9223372036854775807 30 60", "max-burst"),
        ("x 30 60", "max-burst"),
        ("15 0 60", "count"),
        ("15 -1 60", "count"),
        ("15 1000000001 1", "count"),
        ("15 30 0", "period-s"),
        ("15 30 9223372036854775807", "period-s"),
        ("15 30 60 -1", "quantity"),
        ("15 30 60 9223372036854775808", "quantity"),
    ] {
        for command in ["RL.THROTTLE", "CL.THROTTLE"] {
            let refused = client.refused(&format!("{command} k {words}"));
            let expected = format!("ERR {argument} must be an integer from ");
            assert!(refused.starts_with(&expected), "{words}: {refused}");
        }
    }
    // Too many words: each under its own name.
    for name in ["rl.throttle", "cl.throttle"] {
        let refused = client.refused(&format!("{name} k 15 30 60 1 1"));
        assert_eq!(refused, format!("ERR wrong number of arguments for '{name}' command"));
    }
    assert_eq!(client.int("EXISTS k"), 0);
    assert!(server.is_running());
}

/// A burst that changes grants nothing: redis-cell grants the difference each time it is raised.
/// And what remains is never more than the limit.
#[test]
fn a_larger_burst_grants_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for (burst, quantity) in [(15, 1), (3, 0), (0, 0), (99, 0), (7, 5), (2, 0), (500, 1), (1, 0)] {
        let line = format!("RL.THROTTLE k {burst} 1 3600 {quantity}");
        let [_, limit, remaining, ..] = throttle(&mut client, &line);
        assert_eq!(limit, burst + 1, "{line}");
        assert!((0..=limit).contains(&remaining), "{line}: {remaining}");
    }
    assert_eq!(throttle(&mut client, "RL.THROTTLE j 15 1 3600 10")[..3], [0, 16, 6]);
    assert_eq!(throttle(&mut client, "RL.THROTTLE j 99 1 3600 0")[..3], [0, 100, 6]);
    assert_eq!(throttle(&mut client, "RL.THROTTLE j 3 1 3600 0")[..3], [0, 4, 4]);
}

fn state(client: &mut Client) -> (Vec<u8>, i64) {
    (client.dump("k"), client.int("PEXPIRETIME k"))
}

/// redis-cell writes nothing to the append-only file and sends nothing to replicas, so a restart
/// forgets; its call, if it were sent, would count anew. A replay here restores what was decided,
/// once, however late, and a replica has it too.
#[test]
fn a_replay_counts_once() {
    let mut server = Server::with(&Config::new().append_only());
    let replica = server.replica();
    let mut client = server.client();
    for _ in 0..5 {
        assert_eq!(throttle(&mut client, "RL.THROTTLE k 9 1 3600")[0], 0);
    }
    let before = state(&mut client);
    wait_for_replica(&server, &replica);
    assert_eq!(state(&mut replica.client()), before, "on the replica");
    for _ in 0..2 {
        server.kill_and_restart();
        let mut client = server.client();
        assert_eq!(state(&mut client), before, "from the file");
        assert_eq!(throttle(&mut client, "RL.THROTTLE k 9 1 3600 0")[..3], [0, 10, 5]);
    }
    let mut client = server.client();
    // A denied call and a look write nothing.
    for line in ["RL.THROTTLE k 9 1 3600 9", "RL.THROTTLE k 9 1 3600 11"] {
        assert_eq!(throttle(&mut client, line)[0], 1);
    }
    assert_eq!(state(&mut client), before, "denied");
    let refused = replica.client().refused("RL.THROTTLE k 9 1 3600");
    assert!(refused.starts_with("READONLY "), "{refused}");
}

/// It is a token bucket: the key's type, RL.PEEK, RL.INFO and RL.REFUND are those of one.
#[test]
fn its_key_is_a_token_bucket() {
    let server = Server::start();
    let mut client = server.client();
    throttle(&mut client, "RL.THROTTLE k 9 2 3600 4");
    assert_eq!(text(&client.ok("TYPE k")), "rl-tokenb");
    let peeked = client.limit("RL.PEEK k");
    assert_eq!((peeked.limit, peeked.remaining), (10, 6));
    assert_eq!(client.limit("RL.REFUND k 1").remaining, 7);
    let info = list(&client.ok("RL.INFO k"));
    assert_eq!((text(&info[1]), text(&info[5])), ("tokenbucket".to_owned(), "2".to_owned()));
    let reply = client.limit("RL.TOKENBUCKET k 10 2 PER 3600000");
    assert_eq!((reply.allowed, reply.remaining), (1, 6), "one limit under both names");
}

#[test]
fn it_works_in_transactions_and_scripts() {
    let server = Server::start();
    let mut client = server.client();
    let line = "RL.THROTTLE k 1 1 3600";
    let answers = client.pipeline(&["MULTI", line, line, line, "EXEC"].map(words));
    let limited: Vec<_> = list(&answers[4]).iter().map(|reply| list(reply)[0].clone()).collect();
    assert_eq!(limited, [0, 0, 1].map(redis::Value::Int));
    let eval = ["EVAL", "return redis.call(unpack(ARGV))[4]", "1", "k"];
    let eval: Vec<&str> = eval.into_iter().chain(line.split(' ')).collect();
    assert_eq!(client.call(&eval), redis::Value::Int(3600));
    client.ok("CONFIG SET maxmemory 1");
    let new = words("RL.THROTTLE new 1 1 3600");
    let refused = error_text(&client.call(&new)).expect("an error");
    assert!(refused.starts_with("OOM "), "{refused}");
    assert_eq!(throttle(&mut client, line)[0], 1, "one that exists is enforced");
}
