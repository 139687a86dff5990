//! What takes nothing writes nothing, and what takes writes once.

use redis::Value;

use super::support::{Client, Config, Server, error_text, field, int, list, text};
use super::{LIMITERS, snapshot};

/// A server whose replication stream moves when something is written: a replica listens.
fn server_with_replica() -> (Server, Server) {
    let server = Server::start();
    let replica = server.replica();
    (server, replica)
}

/// Calls on the drained limit of `call` that take nothing, each for its own reason.
fn free_calls(key: &str, call: &str) -> Vec<String> {
    let mut calls: Vec<String> = ["", " COST 2", " COST 3", " PEEK", " COST 0", " SHADOW"]
        .iter()
        .chain(&[" RESERVE 1", " RESERVE 2 SHADOW COST 2", " COST 0 PEEK", " SHADOW PEEK"])
        .map(|options| format!("{call}{options}"))
        .collect();
    if call.starts_with("RL.LEAKY") {
        calls.push(format!("{call} MAXDELAY 0"));
    }
    if call.starts_with("RL.SLIDING") {
        calls.push(format!("{call} RESOLUTION 1000"));
    }
    calls.extend([format!("RL.PEEK {key}"), format!("RL.PEEK {key} COST 0")]);
    // A look with other parameters than the stored ones.
    calls.push(call.replace(" 2 ", " 1 ") + " PEEK");
    calls
}

#[test]
fn what_takes_nothing_changes_nothing() {
    let (server, _replica) = server_with_replica();
    let mut client = server.client();
    for (key, call) in LIMITERS {
        assert_eq!(client.limit(&format!("{call} COST 2")).remaining, 0);
        let before = snapshot(&mut client, key);
        for free in free_calls(key, call) {
            for _ in 0..20 {
                let reply = client.limit(&free);
                assert!(reply.allowed != 1 || free.contains("COST 0"), "{free}: {reply:?}");
            }
            assert_eq!(snapshot(&mut client, key), before, "{free}");
        }
        client.ok(&format!("RL.INFO {key}"));
        assert_eq!(snapshot(&mut client, key), before, "RL.INFO {key}");
    }
}

#[test]
fn what_takes_nothing_creates_no_key() {
    let (server, _replica) = server_with_replica();
    let mut client = server.client();
    for (key, call) in LIMITERS {
        let before = snapshot(&mut client, key);
        let free = ["COST 0", "COST 3", "PEEK", "COST 3 SHADOW", "RESERVE 2", "COST 0 SHADOW"];
        for options in free {
            client.limit(&format!("{call} {options}"));
            assert_eq!(snapshot(&mut client, key), before, "{call} {options}");
        }
        for absent in ["RL.PEEK", "RL.INFO", "RL.REFUND"] {
            let units = if absent == "RL.REFUND" { " 1" } else { "" };
            let absent = format!("{absent} {key}{units}");
            assert_eq!(client.run(&absent), Value::Nil, "{absent}");
            assert_eq!(snapshot(&mut client, key), before, "{absent}");
        }
    }
}

#[test]
fn what_takes_nothing_writes_no_byte_to_the_append_only_file() {
    let server = Server::with(&Config::new().append_only());
    let mut client = server.client();
    let size = |client: &mut Client| -> u64 {
        let info = client.info("persistence");
        field(&info, "aof_current_size").and_then(|size| size.parse().ok()).expect("a size")
    };
    for (key, call) in LIMITERS {
        client.limit(&format!("{call} COST 2"));
        let before = size(&mut client);
        for free in free_calls(key, call) {
            client.limit(&free);
            assert_eq!(size(&mut client), before, "{free}");
        }
        client.limit(&format!("{call} FORCE"));
        assert!(size(&mut client) > before, "{call} FORCE");
    }
}

/// BR-230 brandur/redis-cell#52: one allowed call counts as a change for the save points; a denied
/// one does not.
#[test]
fn each_call_that_writes_is_one_change() {
    let (server, _replica) = server_with_replica();
    let mut client = server.client();
    for (key, call) in LIMITERS {
        // Parameters that differ from the stored ones are adopted by a denial too.
        let adopting = call.replace(" 2 ", " 1 ");
        let writes = [
            call.to_owned(),
            format!("{call} COST 1"),
            format!("{call} FORCE COST 3"),
            format!("RL.REFUND {key} 1"),
            adopting.clone(),
            format!("{call} COST 0"),
            format!("RL.REFUND {key} 100"),
        ];
        for write in writes {
            let before = snapshot(&mut client, key);
            client.limit(&write);
            let after = snapshot(&mut client, key);
            assert_eq!(after.changes, before.changes + 1, "{write}");
            assert!(after.offset > before.offset, "{write}");
            assert_ne!(after.dump, before.dump, "{write}");
        }
        // Now that they are the stored ones, nothing is left to adopt.
        client.limit(&format!("{call} FORCE COST 3"));
        let before = snapshot(&mut client, key);
        client.limit(call);
        assert_eq!(snapshot(&mut client, key), before, "{call}");
    }
}

/// Runs `call` between WATCH and EXEC, by the same client and by another; whether EXEC went
/// through.
fn transaction_survives(server: &Server, key: &str, call: &str) -> bool {
    let results = [true, false].map(|by_itself| {
        let (mut client, mut other) = (server.client(), server.client());
        client.ok(&format!("WATCH {key}"));
        let caller = if by_itself { &mut client } else { &mut other };
        assert_eq!(error_text(&caller.run(call)), None, "{call}");
        client.ok("MULTI");
        client.ok("PING");
        client.ok("EXEC") != Value::Nil
    });
    assert_eq!(results[0], results[1], "{call}: the client itself and another");
    results[0]
}

#[test]
fn only_what_writes_breaks_a_watch() {
    let server = Server::start();
    let mut client = server.client();
    for (key, call) in LIMITERS {
        assert!(transaction_survives(&server, key, &format!("{call} PEEK")), "a look, no key");
        assert!(!transaction_survives(&server, key, &format!("{call} FORCE COST 2")), "{call}");
        for free in free_calls(key, call) {
            assert!(transaction_survives(&server, key, &free), "{free}");
        }
        for write in [format!("{call} FORCE"), format!("RL.REFUND {key} 1")] {
            client.limit(&format!("{call} FORCE COST 2"));
            assert!(!transaction_survives(&server, key, &write), "{write}");
        }
    }
}

#[test]
fn only_what_writes_invalidates_a_clients_cache() {
    let server = Server::start();
    let mut writer = server.client();
    for (key, call) in LIMITERS {
        writer.limit(&format!("{call} COST 2"));
        let mut cache = server.client3();
        cache.ok("CLIENT TRACKING ON");
        cache.ok(&format!("RL.PEEK {key}"));
        for free in free_calls(key, call) {
            writer.limit(&free);
        }
        // An invalidation would come before the answer.
        assert_eq!(text(&cache.ok("PING")), "PONG", "{call}");
        writer.limit(&format!("{call} FORCE"));
        let Value::Push { kind: redis::PushKind::Invalidate, data } = cache.read() else {
            panic!("{call}: no invalidation");
        };
        assert_eq!(text(&list(&data[0])[0]), key);
    }
}

#[test]
fn a_denial_after_a_look_at_the_keyspace_is_free_too() {
    // A look by EXISTS or TYPE must not make the next denial write.
    let (server, _replica) = server_with_replica();
    let mut client = server.client();
    for (key, call) in LIMITERS {
        client.limit(&format!("{call} COST 2"));
        let before = snapshot(&mut client, key);
        for look in ["EXISTS", "TYPE", "PTTL", "OBJECT ENCODING", "OBJECT IDLETIME", "TOUCH"] {
            client.ok(&format!("{look} {key}"));
            assert_eq!(client.limit(call).allowed, 0);
        }
        assert_eq!(snapshot(&mut client, key), before);
        assert_eq!(int(&client.ok(&format!("EXISTS {key}"))), 1);
    }
}
