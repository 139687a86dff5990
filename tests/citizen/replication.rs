//! Replicas hold what their primary holds: its states, not decisions of their own.

use super::support::{
    Client, Config, Server, error_text, field, text, until, wait_for_replica, words,
};
use super::{LIMITERS, contents, mixed_calls};

/// Waits until the replica has everything, and compares.
fn same_contents(primary: &Server, replica: &Server, what: &str) {
    wait_for_replica(primary, replica);
    let of_replica = contents(&mut replica.client());
    assert_eq!(of_replica, contents(&mut primary.client()), "{what}");
}

/// BR-222 redis/redis#8433, BR-223 redis/redis#7483, BR-224 redis/redis#4370: PEXPIRETIME of every
/// key is the same on primary and replica, after every kind of call that writes; and so is DUMP.
#[test]
fn a_replica_holds_its_primarys_states() {
    let primary = Server::start();
    let early = primary.replica();
    mixed_calls(&mut primary.client(), 41);
    same_contents(&primary, &early, "a replica that saw every call");
    let late = primary.replica();
    same_contents(&primary, &late, "a replica that came later");
    let second = early.replica();
    mixed_calls(&mut primary.client(), 42);
    same_contents(&primary, &early, "more calls");
    same_contents(&primary, &late, "more calls, upon what was there");
    wait_for_replica(&early, &second);
    same_contents(&primary, &second, "a replica of a replica");
    for replica in [&early, &late, &second] {
        let stats = replica.client().info("commandstats");
        for name in ["tokenbucket", "leaky", "sliding", "refund"] {
            assert!(!stats.contains(&format!("cmdstat_rl.{name}")), "{stats}");
        }
        assert!(stats.contains("cmdstat_rl.effect"), "{stats}");
    }
}

/// What came as an effect goes into the replica's own append-only file too.
#[test]
fn a_replica_keeps_what_it_got_over_a_restart() {
    let primary = Server::start();
    let mut replica = primary.replica_with(Config::new().append_only());
    // The file begins anew after the first synchronization.
    replica.wait_for_background_jobs();
    mixed_calls(&mut primary.client(), 43);
    same_contents(&primary, &replica, "before the restart");
    let before = contents(&mut replica.client());
    // On its own, or it would get everything again from its primary.
    replica.client().ok("REPLICAOF NO ONE");
    replica.client().ok("CONFIG REWRITE");
    replica.kill_and_restart();
    assert_eq!(contents(&mut replica.client()), before);
}

/// BR-125 Wei-Shaw/sub2api#2970, BR-254 SGrondin/bottleneck#99, BR-225 redis/redis#4466: three
/// calls inside MULTI, inside EVAL and inside a function: the replica equals the primary.
#[test]
fn transactions_scripts_and_functions_replicate_what_they_did() {
    const FUNCTION: &str = "#!lua name=limits\n\
        redis.register_function('limit', function(keys, args)\n\
        local r\nfor i = 1, 3 do r = redis.call(unpack(args)) end\nreturn r\nend)";
    let primary = Server::start();
    let replica = primary.replica();
    let mut client = primary.client();
    client.call(&["FUNCTION", "LOAD", FUNCTION]);
    for (key, call) in LIMITERS {
        let in_multi = [words("MULTI"), words(call), words(call), words(call), words("EXEC")];
        client.pipeline(&in_multi);
        same_contents(&primary, &replica, &format!("{call} in MULTI"));
        assert_eq!(client.limit(call).allowed, 0, "{call}: two have passed");

        let script = "EVAL for\\si=1,3\\sdo\\sredis.call(unpack(ARGV))\\send 1";
        client.ok(&format!("{script} {key} {call} FORCE"));
        same_contents(&primary, &replica, &format!("{call} in a script"));

        client.ok(&format!("FCALL limit 1 {key} {call} FORCE"));
        same_contents(&primary, &replica, &format!("{call} in a function"));
        // Two have passed before, and six were forced.
        let reset_ms = client.limit(&format!("{call} PEEK")).reset_after_ms;
        let due_ms = if key == "s" { 3_600_000 } else { 8 * 3_600_000 };
        assert!((due_ms - 60_000..=due_ms + 1).contains(&reset_ms), "{call}: {reset_ms}");
    }
}

/// Keys end on replicas when the primary says so, and not before.
#[test]
fn a_key_that_ends_ends_on_the_replica_too() {
    let primary = Server::start();
    let replica = primary.replica();
    let (mut client, mut of_replica) = (primary.client(), replica.client());
    for call in ["RL.TOKENBUCKET t 1 1 PER 50", "RL.LEAKY l 1 1 PER 50", "RL.SLIDING s 1 50"] {
        let key = call.split(' ').nth(1).expect("a key");
        client.limit(call);
        until("the key has ended on both", || {
            // The primary deletes it when it is asked, or by itself.
            client.int(&format!("EXISTS {key}")) == 0 && of_replica.int("DBSIZE") == 0
        });
    }
}

/// BR-226 envoyproxy/ratelimit#1191: on a read-only replica calls that take answer READONLY and
/// change nothing; looks answer.
#[test]
fn a_replica_looks_and_does_not_take() {
    let primary = Server::start();
    let replica = primary.replica();
    let (mut client, mut of_replica) = (primary.client(), replica.client());
    for (key, call) in LIMITERS {
        client.limit(call);
        wait_for_replica(&primary, &replica);
        let before = contents(&mut of_replica);
        for line in [call.to_owned(), format!("{call} PEEK"), format!("RL.REFUND {key} 1")] {
            let refused = of_replica.refused(&line);
            assert!(refused.starts_with("READONLY "), "{line}: {refused}");
        }
        let (here, there) =
            (client.limit(&format!("RL.PEEK {key}")), of_replica.limit(&format!("RL.PEEK {key}")));
        assert_eq!((there.allowed, there.limit, there.remaining), (1, 2, 1), "{call}");
        assert!((here.reset_after_ms - there.reset_after_ms).abs() < 10_000, "{call}");
        of_replica.ok(&format!("RL.INFO {key}"));
        assert_eq!(contents(&mut of_replica), before);
    }
}

/// BR-228 vutran1710/PyrateLimiter#182: the first call after a failover works, with nothing to
/// load, and goes on where the old primary was.
#[test]
fn a_promoted_replica_goes_on() {
    let mut primary = Server::start();
    let replica = primary.replica();
    for (_, call) in LIMITERS {
        primary.client().limit(call);
    }
    wait_for_replica(&primary, &replica);
    primary.kill();
    let mut client = replica.client();
    client.ok("REPLICAOF NO ONE");
    for (_, call) in LIMITERS {
        let reply = client.limit(call);
        assert_eq!((reply.allowed, reply.remaining), (1, 0), "{call}: the second of two");
        assert_eq!(client.limit(call).allowed, 0, "{call}: the third of two");
    }
}

#[test]
fn effects_are_refused_from_clients() {
    const REFUSED: &str =
        "ERR rl.effect is internal: only a primary and the append-only file may send it";
    let primary = Server::with(&Config::new().debug());
    let replica = primary.replica();
    for server in [&primary, &replica] {
        let mut client = server.client();
        // Garbage, and what a primary would send: no expiry, then a bucket.
        let payload = "\\x00\\x01T\\x05\\x01\\x00\\x01\\x01\\x01";
        for line in ["RL.EFFECT k x".to_owned(), format!("RL.EFFECT k {payload}")] {
            let refused = client.refused(&line);
            let expected = [REFUSED, "READONLY You can't write against a read only replica."];
            assert!(expected.contains(&refused.as_str()), "{line}: {refused}");
        }
        assert_eq!(client.int("EXISTS k"), 0);
    }
    let mut client = primary.client();
    refused_inside(&mut client, REFUSED);
    // DEBUG, scripts and a full user change nothing about that.
    client.ok("SET k x");
    assert_eq!(client.refused("RL.EFFECT k x"), REFUSED);
    assert_eq!(text(&client.ok("GET k")), "x");
    let flags = format!("{:?}", client.ok("COMMAND INFO rl.effect"));
    assert!(flags.contains("admin"), "{flags}");
}

fn refused_inside(client: &mut Client, refused: &str) {
    let answers = client.pipeline(&[words("MULTI"), words("RL.EFFECT k x"), words("EXEC")]);
    let results = super::list(answers.last().expect("an answer to EXEC"));
    assert_eq!(error_text(&results[0]).as_deref(), Some(refused));
    let in_script = client.run("EVAL return\\sredis.pcall('RL.EFFECT',KEYS[1],'x') 1 k");
    assert_eq!(error_text(&in_script).as_deref(), Some(refused));
    assert_eq!(client.int("EXISTS k"), 0);
}

/// Several databases: an effect goes to the one that its call was in.
#[test]
fn effects_go_to_their_own_database() {
    let primary = Server::start();
    let replica = primary.replica();
    for database in [0, 3] {
        let mut client = primary.client();
        client.ok(&format!("SELECT {database}"));
        for (_, call) in LIMITERS {
            client.limit(&format!("{call} COST {}", 1 + database % 2));
        }
    }
    wait_for_replica(&primary, &replica);
    for database in [0, 3] {
        let (mut here, mut there) = (primary.client(), replica.client());
        here.ok(&format!("SELECT {database}"));
        there.ok(&format!("SELECT {database}"));
        assert_eq!(contents(&mut there), contents(&mut here), "database {database}");
    }
    let info = replica.client().info("keyspace");
    assert!(field(&info, "db3").is_some_and(|line| line.contains("keys=3")), "{info}");
}
