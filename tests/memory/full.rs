//! A server that does not evict, at its limit.

use redis::Value;

use super::support::{
    Client, Config, Product, Server, Snapshot, bytes, error_text, int, ints, list, text, until,
    wait_for_replica, words,
};
use super::{LIMITERS, OOM, fill, number, on, relieve};

/// BR-295 asuc-octo/berkeleytime#1135: at maxmemory without eviction existing limits are enforced
/// and looks answer.
#[test]
fn existing_limits_are_enforced() {
    let server = Server::start();
    let replica = server.replica();
    let mut client = server.client();
    for (key, call) in LIMITERS {
        use_and_refund(&mut client, key, call);
        fill(&mut client);
        assert_eq!(client.refused("SET other x"), OOM, "the server is full");
        for remaining in [2, 1, 0] {
            let reply = client.limit(call);
            assert_eq!((reply.allowed, reply.remaining), (1, remaining), "{call}");
        }
        assert_eq!(client.limit(call).allowed, 0, "{call}");
        assert_eq!(client.limit(&format!("{call} SHADOW")).allowed, 2, "{call}");
        assert_eq!(client.limit(&format!("{call} COST 0")).allowed, 1, "{call}");
        assert_eq!(client.limit(&format!("{call} PEEK")).allowed, 0, "{call}");
        assert_eq!(client.limit(&format!("RL.PEEK {key}")).remaining, 0, "{call}");
        assert_ne!(client.ok(&format!("RL.INFO {key}")), Value::Nil, "{call}");
        assert_eq!(client.limit(&format!("RL.REFUND {key} 2")).remaining, 2, "{call}");
        assert_eq!(client.limit(&format!("{call} FORCE COST 9")).remaining, 0, "{call}");
        // Other parameters are adopted, and a lost lifetime is given back.
        let other = call.replace(" 5 ", " 6 ");
        assert_eq!(client.limit(&other).limit, 6, "{call}");
        assert_eq!(client.limit(&format!("RL.PEEK {key}")).limit, 6, "{call}");
        client.ok(&format!("PERSIST {key}"));
        client.limit(&other);
        assert!(client.int(&format!("PTTL {key}")) > 0, "{call}");
        relieve(&mut client);
    }
    wait_for_replica(&server, &replica);
    for (key, _) in LIMITERS {
        let state =
            |client: &mut Client| (client.dump(key), client.int(&format!("PEXPIRETIME {key}")));
        assert_eq!(state(&mut replica.client()), state(&mut client), "{key} on the replica");
    }
}

/// Takes all, at instants of their own, and gives three of five back: a window then has the memory
/// for three more.
fn use_and_refund(client: &mut Client, key: &str, call: &str) {
    for remaining in [4, 3, 2, 1, 0] {
        let start_us = client.time_us();
        until("a millisecond has passed", || client.time_us() > start_us + 1000);
        assert_eq!(client.limit(call).remaining, remaining, "{call}");
    }
    assert_eq!(client.limit(&format!("RL.REFUND {key} 3")).remaining, 3, "{call}");
}

/// A window that was in use goes on: what its hits took is used again when they have left.
#[test]
fn a_window_in_steady_use_is_enforced() {
    let server = Server::with(&Config::new().client_time());
    let mut client = server.client();
    for gap_ms in [1, 150, 250, 700] {
        let allowed = 1000 / gap_ms;
        let hit = |number: i64| {
            let at = 1_700_000_000_000 + number * gap_ms;
            format!("RL.SLIDING s:{gap_ms} {} 1000 AT {at}", allowed.min(5))
        };
        (0..2 * allowed + 5).for_each(|number| drop(client.ok(&hit(number))));
        fill(&mut client);
        let passed = (2 * allowed + 5..5 * allowed + 100)
            .map(|number| client.limit(&hit(number)).allowed)
            .sum::<i64>();
        assert!(passed >= 5, "{passed} passed, one every {gap_ms} ms");
        relieve(&mut client);
    }
}

/// BR-295: a call that needs a new key gets the OOM error and leaves nothing half-written, and all
/// works again when there is memory.
#[test]
fn a_new_limit_is_refused_and_leaves_nothing() {
    let server = Server::start();
    let _replica = server.replica();
    let mut client = server.client();
    for (key, call) in LIMITERS {
        fill(&mut client);
        let before = Snapshot::of(&mut client, key);
        for options in ["", " COST 5", " FORCE", " FORCE COST 50", " SHADOW", " RESERVE 1"] {
            assert_eq!(client.refused(&format!("{call}{options}")), OOM, "{call}{options}");
        }
        assert_eq!(client.int(&format!("EXISTS {key}")), 0, "{call}");
        // What writes nothing needs nothing.
        assert_eq!(client.limit(&format!("{call} PEEK")).remaining, 5, "{call}");
        assert_eq!(client.limit(&format!("{call} COST 0")).remaining, 5, "{call}");
        let never = client.limit(&format!("{call} COST 6"));
        assert_eq!((never.allowed, never.retry_after_ms), (0, -1), "{call}");
        for absent in ["RL.PEEK", "RL.INFO", "RL.REFUND"] {
            let units = if absent == "RL.REFUND" { " 1" } else { "" };
            assert_eq!(client.run(&format!("{absent} {key}{units}")), Value::Nil, "{call}");
        }
        // What is wrong with the call is told first.
        assert!(client.refused(&format!("{call} COST x")).starts_with("ERR COST "), "{call}");
        assert_eq!(Snapshot::of(&mut client, key), before, "{call}");
        relieve(&mut client);
        let first = client.limit(call);
        assert_eq!((first.allowed, first.remaining), (1, 4), "{call}: nothing was taken before");
    }
}

/// A window keeps its hits in blocks: as long as the newest has room, hits are recorded; one that
/// needs a new block is refused, and everything stays as it was until there is memory again.
#[test]
fn a_window_that_needs_a_new_block_is_refused() {
    let server = Server::with(&Config::new().client_time());
    let mut client = server.client();
    let start_ms: i64 = 1_700_000_000_000;
    let hit = |number: i64| {
        // Intervals that need more than the least bytes each.
        format!("RL.SLIDING s 100000 315360000000 AT {}", start_ms + number * 100_003)
    };
    // Some hits, so that there is a first block with a little room.
    let (some, most) = (20, 2000);
    (0..some).for_each(|number| drop(client.ok(&hit(number))));
    fill(&mut client);
    let recorded = (some..most).find(|&number| {
        let answer = client.run(&hit(number));
        match error_text(&answer) {
            None => assert_eq!(ints(&answer).expect("a reply")[0], 1, "hit {number}"),
            Some(error) => assert_eq!(error, OOM, "hit {number}"),
        }
        error_text(&answer).is_some()
    });
    let recorded = recorded.expect("a block that is full at last");
    assert!(recorded > some, "none of the room in the block was used");
    let before = Snapshot::of(&mut client, "s");
    for number in recorded..recorded + 20 {
        assert_eq!(client.refused(&hit(number)), OOM);
    }
    // A hit of the same instant as the last needs no entry of its own.
    assert_eq!(Snapshot::of(&mut client, "s"), before);
    assert_eq!(client.limit("RL.PEEK s").remaining, 100_000 - recorded);
    assert_eq!(client.limit(&hit(recorded - 1)).remaining, 100_000 - recorded - 1);
    assert_eq!(client.limit("RL.REFUND s 1").remaining, 100_000 - recorded);
    relieve(&mut client);
    for number in recorded..most {
        assert_eq!(client.limit(&hit(number)).remaining, 99_999 - number, "hit {number}");
    }
}

/// In a transaction each call is judged for itself; here in one that was begun before the server
/// was full.
#[test]
fn a_transaction_gets_the_error_where_it_belongs() {
    let server = Server::start();
    let (mut client, mut other) = (server.client(), server.client());
    for (key, call) in LIMITERS {
        use_and_refund(&mut client, key, call);
        let calls = ["MULTI", &format!("{call} COST 0"), &on(call, "new"), call];
        client.pipeline(&calls.map(words));
        client.ok(&format!("RL.PEEK {key}"));
        fill(&mut other);
        let answers = list(&client.ok("EXEC"));
        assert_eq!(ints(&answers[0]).expect("a reply")[..3], [1, 5, 3], "{call}");
        assert_eq!(error_text(&answers[1]).as_deref(), Some(OOM), "{call}");
        assert_eq!(ints(&answers[2]).expect("a reply")[..3], [1, 5, 2], "{call}");
        assert!(ints(&answers[3]).is_some(), "{call}: {answers:?}");
        assert_eq!(client.int("EXISTS new"), 0, "{call}");
        one_that_begins_now(&mut client, call);
        relieve(&mut other);
    }
}

/// Some servers take nothing into a transaction while they are full, the others judge the call.
fn one_that_begins_now(client: &mut Client, call: &str) {
    client.ok("MULTI");
    let queued = client.run(call);
    let answer = client.run("EXEC");
    match error_text(&queued) {
        Some(error) => {
            assert_eq!(error, OOM, "{call}");
            assert!(error_text(&answer).is_some_and(|error| error.starts_with("EXECABORT ")));
        }
        None => assert_eq!(ints(&list(&answer)[0]).expect("a reply")[..3], [1, 5, 1], "{call}"),
    }
}

/// In scripts and functions too: those that exist are enforced, new ones are refused with the
/// error that SET gets in a script.
#[test]
fn a_script_gets_the_error_where_it_belongs() {
    const FUNCTION: &str = "#!lua name=limits\n\
        redis.register_function{function_name='limit', flags={'allow-oom'},\n\
        callback=function(keys, args) return redis.call(unpack(args)) end}";
    let server = Server::start();
    let mut client = server.client();
    client.call(&["FUNCTION", "LOAD", FUNCTION]);
    let script = "return redis.call(unpack(ARGV))";
    for (key, call) in LIMITERS {
        use_and_refund(&mut client, key, call);
        fill(&mut client);
        for (how, name) in [(&["EVAL", script][..], "a script"), (&["FCALL", "limit"], "FCALL")] {
            let mut run = |key: &str, line: &str| {
                let head = how.iter().copied().chain(["1", key]);
                client.call(&head.chain(line.split(' ')).collect::<Vec<_>>())
            };
            let known = run(key, call);
            assert_eq!(ints(&known).expect("a reply")[0], 1, "{call} in {name}");
            let new = error_text(&run("new", &on(call, "new"))).expect("an error");
            assert!(new.starts_with("OOM "), "{call} in {name}: {new}");
        }
        assert_eq!(client.int("EXISTS new"), 0, "{call}");
        let set = ["1", "new", "SET", "new", "x"];
        let refused = error_text(&client.call(&[&["EVAL", script][..], &set].concat()));
        assert!(refused.expect("an error").starts_with("OOM "), "the script may not SET either");
        // Here the function's flag lets SET go on; a module cannot know of it, and refuses.
        assert_eq!(text(&client.call(&[&["FCALL", "limit"][..], &set].concat())), "OK");
        client.ok("DEL new");
        relieve(&mut client);
    }
}

/// A replica holds what its primary holds, whatever its own limit: an effect is never refused for
/// memory. Nor is it where a file is loaded.
#[test]
fn effects_need_no_permission() {
    let primary = Server::start();
    for ignores in ["yes", "no"] {
        let config = Config::new()
            .append_only()
            .line("maxmemory 1")
            .line(&format!("replica-ignore-maxmemory {ignores}"));
        let mut replica = primary.replica_with(config);
        let mut client = primary.client();
        for (key, call) in LIMITERS {
            for number in 0..50 {
                client.limit(&on(call, &format!("{key}:{ignores}:{number}")));
            }
            // Hits at many instants, so that the window needs blocks.
            for _ in 0..100 {
                client.limit("RL.SLIDING many 1000000 3600000");
            }
        }
        wait_for_replica(&primary, &replica);
        expect_same(&mut client, &mut replica.client());
        let failed = replica.client().info("commandstats");
        assert!(failed.contains("cmdstat_rl.effect"), "{failed}");
        assert!(!failed.contains("failed_calls=1"), "{failed}");
        // From its own file, as a server of its own.
        replica.client().ok("REPLICAOF NO ONE");
        replica.client().ok("CONFIG REWRITE");
        // The file begins anew after a full synchronization, in the background.
        replica.wait_for_background_jobs();
        replica.kill_and_restart();
        assert_eq!(number(&mut replica.client(), "memory", "maxmemory"), 1);
        expect_same(&mut client, &mut replica.client());
        assert_eq!(replica.client().refused("RL.TOKENBUCKET other 5 1"), OOM);
    }
}

fn expect_same(here: &mut Client, there: &mut Client) {
    let keys = list(&here.ok("KEYS *"));
    assert_eq!(there.int("DBSIZE"), int(&here.ok("DBSIZE")));
    for key in keys.iter().map(text) {
        let state = |client: &mut Client| {
            (bytes(&client.ok(&format!("DUMP {key}"))), client.int(&format!("PEXPIRETIME {key}")))
        };
        assert_eq!(state(there), state(here), "{key}");
    }
}

/// A policy that evicts is no help where nothing can be evicted.
#[test]
fn what_cannot_be_evicted_is_full_too() {
    let server = Server::with(&Config::new().line("maxmemory-policy volatile-ttl"));
    let mut client = server.client();
    client.call(&["SET", "for ever", &"x".repeat(1000)]);
    for (_, call) in LIMITERS {
        fill(&mut client);
        let answer = client.run(call);
        let version = server.version();
        // Redis 7.0 cannot be asked whether it could evict.
        if version.product == Product::Redis && version.number < (7, 2, 0) {
            assert_eq!(ints(&answer).expect("a reply")[0], 1, "{call}");
        } else {
            assert_eq!(error_text(&answer).as_deref(), Some(OOM), "{call}");
        }
        relieve(&mut client);
    }
}
