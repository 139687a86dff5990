//! RL.LOG: the last denials.

use super::support::{Config, Server, int, list, wait_for_replica};
use super::{Entry, LIMITERS, deny, deny_often, log};

#[test]
fn a_denial_is_told_with_all_there_is() {
    let server = Server::start();
    let (mut client, mut admin) = (server.client(), server.client3());
    assert_eq!(log(&mut admin, ""), []);
    let id = client.int("CLIENT ID");
    for (number, (command, call)) in (0..).zip(LIMITERS) {
        client.limit(call);
        let before_us = admin.time_us();
        let denied = client.limit(&format!("{call} COST 5"));
        let after_us = admin.time_us();
        assert_eq!(denied.allowed, 0);
        let newest = log(&mut admin, " 1").remove(0);
        assert!(before_us - 1000 <= newest.time_us && newest.time_us <= after_us, "{newest:?}");
        let expected = Entry {
            id: number,
            time_us: newest.time_us,
            command: command.to_owned(),
            key: command.as_bytes()[3..4].to_vec(),
            cost: 5,
            limit: 5,
            retry_after_ms: denied.retry_after_ms,
            client_id: id,
        };
        assert!(expected.retry_after_ms > 0);
        assert_eq!(newest, expected);
    }
    // Over the limit for ever.
    deny(&mut client, b"never");
    let newest = log(&mut admin, " 1").remove(0);
    assert_eq!((newest.retry_after_ms, newest.cost, newest.limit), (-1, 2, 1));
    assert_eq!(admin.int("RL.LOG LEN"), 4);
}

/// A limit on trial shows whom it would have denied, and says that it was a trial.
#[test]
fn a_trial_is_told_apart() {
    let server = Server::start();
    let mut client = server.client();
    for (command, call) in LIMITERS {
        assert_eq!(client.limit(&format!("{call} COST 6 SHADOW")).allowed, 2);
        let newest = log(&mut client, " 1").remove(0);
        assert_eq!(newest.command, format!("{command} SHADOW"));
        assert_eq!((newest.cost, newest.retry_after_ms), (6, -1));
    }
}

/// A call with several rules is one decision: that of the first rule which denies.
#[test]
fn several_rules_are_one_decision() {
    let server = Server::start();
    let mut client = server.client();
    let rules = "SLIDING 9 3600000 TOKENBUCKET 2 1 PER 3600000 COST 2 SLIDING 1 3600000";
    let call = format!("RL.ALL 3 a b c {rules}");
    for options in ["", "", " SHADOW", " PEEK"] {
        client.ok(&format!("{call}{options}"));
    }
    client.refused(&call.replace(" a b ", " a a "));
    let expected = ["allowed=1", "denied=1", "errors=1", "shadow-denied=1"];
    assert_eq!(super::raised(&mut client), expected.map(|counter| format!("rl.all {counter}")));
    assert_eq!(super::top_denied(&mut client, ""), [(b"b".to_vec(), 1, 0)]);
    let told: Vec<_> = log(&mut client, "")
        .into_iter()
        .map(|entry| (entry.command, entry.key, entry.cost, entry.limit))
        .collect();
    let expected = ["rl.all SHADOW", "rl.all"].map(|name| (name.to_owned(), b"b".to_vec(), 2, 2));
    assert_eq!(told, expected);
}

/// The call of redis-cell is counted and told under its own name.
#[test]
fn throttle_is_told_under_its_name() {
    let server = Server::start();
    let mut client = server.client();
    for _ in 0..3 {
        client.ok("RL.THROTTLE k 0 1 3600");
    }
    client.ok("RL.THROTTLE k 0 1 3600 0");
    assert_eq!(super::raised(&mut client), ["rl.throttle allowed=1", "rl.throttle denied=2"]);
    assert_eq!(super::top_denied(&mut client, ""), [(b"k".to_vec(), 2, 0)]);
    let newest = log(&mut client, "").remove(0);
    assert_eq!((newest.command.as_str(), newest.cost, newest.limit), ("rl.throttle", 1, 1));
}

#[test]
fn nothing_but_denials_is_told() {
    let server = Server::start();
    let mut client = server.client();
    for (_, call) in LIMITERS {
        for options in ["", " COST 9 PEEK", " COST 0", " COST 9 FORCE", " X", " SHADOW PEEK"] {
            client.run(&format!("{call}{options}"));
        }
    }
    client.ok("RL.PEEK t COST 9");
    assert_eq!(log(&mut client, ""), []);
}

/// A caller's own clock does not change when a denial happened.
#[test]
fn the_time_is_the_servers() {
    let server = Server::with(&Config::new().client_time());
    let mut client = server.client();
    let before_us = client.time_us();
    client.limit("RL.TOKENBUCKET k 1 1 COST 2 AT 5");
    assert!(log(&mut client, "")[0].time_us >= before_us - 1000);
}

/// In a script, the client is the server's own for scripts, which no connection has.
#[test]
fn a_script_has_a_client_of_its_own() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("EVAL return\\sredis.call('RL.SLIDING',KEYS[1],1,1000,'COST',2) 1 k");
    let newest = log(&mut client, "").remove(0);
    assert_eq!(newest.key, b"k");
    assert_ne!(newest.client_id, client.int("CLIENT ID"));
    let listed = client.ok(&format!("CLIENT LIST ID {}", newest.client_id));
    assert_eq!(super::bytes(&listed), b"", "no connection has this id");
}

/// BR-196 RedisLabsModules/redismodule-rs#439, BR-297 jaytaph/RateLimitBundle#115: keys of bytes
/// that are no text, and of 64 KiB.
#[test]
fn any_bytes_are_a_key() {
    let server = Server::start();
    let mut client = server.client();
    // Each entry's room is used by long and short keys in turn.
    client.ok("CONFIG SET rl.log-max-len 1");
    let long = vec![0xff; 65_536];
    let shown_long = [&[0xff; 128][..], b"... (65408 more bytes)"].concat();
    for key in [&b""[..], b"a\0b", b"\r\n", &long[..128], b"x"] {
        deny(&mut client, key);
        assert_eq!(log(&mut client, "")[0].key, key);
        deny(&mut client, &long);
        assert_eq!(log(&mut client, "")[0].key, shown_long);
    }
    assert_eq!(client.int("RL.LOG LEN"), 1);
}

/// Newest first, ten if not said otherwise; ids go on whatever is forgotten.
#[test]
fn the_newest_are_kept_under_their_ids() {
    let server = Server::start();
    let mut client = server.client();
    deny_often(&mut client, b"k", 300);
    let ids = |client: &mut super::support::Client, arguments: &str| {
        log(client, arguments).iter().map(|entry| entry.id).collect::<Vec<_>>()
    };
    let down = |newest: i64, len: i64| (0..len).map(|back| newest - back).collect::<Vec<_>>();
    assert_eq!(client.int("RL.LOG LEN"), 128);
    assert_eq!(ids(&mut client, ""), down(299, 10));
    assert_eq!(ids(&mut client, " 3"), down(299, 3));
    assert_eq!(ids(&mut client, " 100000"), down(299, 128));
    client.ok("CONFIG SET rl.log-max-len 5");
    assert_eq!(ids(&mut client, ""), down(299, 5));
    client.ok("CONFIG SET rl.log-max-len 20");
    deny_often(&mut client, b"k", 3);
    assert_eq!(ids(&mut client, ""), down(302, 8));
    assert_eq!(super::text(&client.ok("RL.LOG reset")), "OK");
    assert_eq!(client.int("RL.LOG LEN"), 0);
    deny(&mut client, b"k");
    assert_eq!(ids(&mut client, ""), [303]);
    client.ok("CONFIG SET rl.log-max-len 0");
    deny(&mut client, b"k");
    assert_eq!(ids(&mut client, ""), [0; 0]);
    client.ok("CONFIG SET rl.log-max-len 10");
    deny(&mut client, b"k");
    assert_eq!(ids(&mut client, ""), [304], "what is not kept has no id");
}

/// BR-309 Flowfin/jellyfin-plugin-sso#195: a million denials write not one line to the server's
/// log.
#[test]
fn a_million_denials_are_no_line_of_the_servers_log() {
    let server = Server::start();
    let mut client = server.client();
    deny(&mut client, b"k");
    let before = server.log();
    deny_often(&mut client, b"k", 1_000_000);
    assert_eq!(server.log(), before);
    assert_eq!(super::top_denied(&mut client, ""), [(b"k".to_vec(), 1_000_001, 0)]);
}

/// What is remembered is about this server alone: it is neither replicated nor kept.
#[test]
fn a_denial_stays_free() {
    let mut server = Server::with(&Config::new().append_only());
    let replica = server.replica();
    let mut client = server.client();
    client.limit(LIMITERS[0].1);
    wait_for_replica(&server, &replica);
    let offset = super::support::offset(&mut client);
    deny_often(&mut client, b"absent", 100);
    for line in ["RL.STATS RESET", "RL.TOPDENIED RESET", "RL.LOG GET", "RL.LOG RESET"] {
        client.ok(line);
    }
    assert_eq!(super::support::offset(&mut client), offset);
    server.restart();
    assert_eq!(server.client().int("RL.LOG LEN"), 0);
}

/// All three answer inside of a transaction and a script.
#[test]
fn transactions_and_scripts_may_ask() {
    let server = Server::start();
    let mut client = server.client();
    deny(&mut client, b"k");
    let lines = ["RL.STATS", "RL.TOPDENIED", "RL.LOG GET", "RL.LOG LEN"];
    let alone: Vec<_> = lines.iter().map(|line| client.ok(line)).collect();
    let calls: Vec<&str> = [&["MULTI"][..], &lines, &["EXEC"]].concat();
    let calls: Vec<_> = calls.iter().map(|line| super::support::words(line)).collect();
    let together = client.pipeline(&calls).pop().expect("an answer to EXEC");
    assert_eq!(list(&together), alone);
    for (line, alone) in lines.iter().zip(alone) {
        let script = format!("EVAL return\\sredis.call(unpack(ARGV)) 0 {line}");
        assert_eq!(client.ok(&script), alone, "{line}");
    }
    assert_eq!(int(&client.ok("EVAL return\\sredis.call('RL.LOG','LEN') 0")), 1);
}
