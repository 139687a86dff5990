//! RL.STATS and INFO: which call raises which counter, and that both tell the same.

use redis::Value;

use super::support::{Client, Config, Server, field, wait_for_replica, words};
use super::{LIMITERS, counters, pairs, raised, stats};

/// The commands of the module that users call.
const COMMANDS: [&str; 11] = [
    "rl.tokenbucket",
    "rl.leaky",
    "rl.sliding",
    "rl.all",
    "rl.throttle",
    "rl.refund",
    "rl.peek",
    "rl.info",
    "rl.stats",
    "rl.topdenied",
    "rl.log",
];
const COUNTERS: [&str; 6] = ["allowed", "denied", "shadow-denied", "forced", "refunded", "errors"];

/// BR-304 ZhuoZhuoCrayon/throttled-py#37, BR-305 stacklok/toolhive#4553: a hundred allowed and
/// fifty denied calls raise exactly these two counters by exactly that.
#[test]
fn allowed_and_denied_calls_are_counted_exactly() {
    let server = Server::start();
    let mut client = server.client();
    for (call, command) in [
        ("RL.TOKENBUCKET t 100 1 PER 3600000", "rl.tokenbucket"),
        ("RL.LEAKY l 100 1 PER 3600000", "rl.leaky"),
        ("RL.SLIDING s 100 3600000", "rl.sliding"),
    ] {
        client.ok("RL.STATS RESET");
        for _ in 0..120 {
            client.limit(call);
        }
        // One in a transaction, and some in a script.
        client.pipeline(&["MULTI", call, "EXEC"].map(words));
        let script = "EVAL for\\si=1,29\\sdo\\sredis.call(unpack(ARGV))\\send 1 x";
        client.ok(&format!("{script} {call}"));
        let expected = [format!("{command} allowed=100"), format!("{command} denied=50")];
        assert_eq!(raised(&mut client), expected);
    }
}

/// Each kind of call, and the one counter that it raises.
#[test]
fn each_call_raises_its_counter() {
    let server = Server::start();
    let mut client = server.client();
    for (command, call) in LIMITERS {
        let mut expect = |line: &str, expected: &[&str]| {
            client.ok("RL.STATS RESET");
            client.run(line);
            let expected: Vec<String> =
                expected.iter().map(|counter| format!("{command} {counter}=1")).collect();
            assert_eq!(raised(&mut client), expected, "{line}");
        };
        expect(call, &["allowed"]);
        expect(&format!("{call} SHADOW"), &["allowed"]);
        expect(&format!("{call} COST 9"), &["denied"]);
        expect(&format!("{call} COST 9 SHADOW"), &["shadow-denied"]);
        expect(&format!("{call} RESERVE 4"), &["denied"]);
        expect(&format!("{call} FORCE"), &["forced"]);
        expect(&format!("{call} COST 9 FORCE"), &["forced"]);
        for nothing in ["PEEK", "COST 9 PEEK", "COST 0", "COST 0 FORCE", "SHADOW PEEK"] {
            expect(&format!("{call} {nothing}"), &[]);
        }
        expect(&format!("{call} COST x"), &["errors"]);
        expect(&call.replace(" 5 ", " 0 "), &["errors"]);
        // Redis refuses these itself.
        expect(call.split(' ').next().expect("a name"), &[]);
    }
    let key = "t";
    for (line, expected) in [
        (format!("RL.REFUND {key} 1"), vec!["rl.refund refunded=1"]),
        (format!("RL.REFUND {key} 9007199254740992"), vec!["rl.refund refunded=1"]),
        // It is full: nothing is given back.
        (format!("RL.REFUND {key} 1"), vec![]),
        ("RL.REFUND absent 1".to_owned(), vec![]),
        ("RL.REFUND t 0".to_owned(), vec!["rl.refund errors=1"]),
        (format!("RL.PEEK {key}"), vec![]),
        ("RL.PEEK t COST x".to_owned(), vec!["rl.peek errors=1"]),
        (format!("RL.INFO {key}"), vec![]),
        ("RL.INFO t X".to_owned(), vec!["rl.info errors=1"]),
        ("RL.STATS X".to_owned(), vec!["rl.stats errors=1"]),
        ("RL.TOPDENIED X".to_owned(), vec!["rl.topdenied errors=1"]),
        ("RL.LOG X".to_owned(), vec!["rl.log errors=1"]),
        ("RL.TOKENBUCKET s 5 1".to_owned(), vec!["rl.tokenbucket errors=1"]),
        ("RL.EFFECT t x".to_owned(), vec![]),
    ] {
        client.ok("RL.STATS RESET");
        client.run(&line);
        assert_eq!(raised(&mut client), expected, "{line}");
    }
}

/// A call that the server has no memory for has decided nothing.
#[test]
fn a_call_without_memory_is_an_error() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("CONFIG SET maxmemory 1");
    let refused = client.refused(LIMITERS[0].1);
    assert!(refused.starts_with("OOM "), "{refused}");
    assert_eq!(raised(&mut client), ["rl.tokenbucket errors=1"]);
}

#[test]
fn the_reply_has_every_command_and_counter() {
    let server = Server::start();
    let (mut two, mut three) = (server.client(), server.client3());
    use_all(&mut two);
    let flat = two.ok("RL.STATS");
    let commands: Vec<String> = pairs(&flat).into_iter().map(|(name, _)| name).collect();
    assert_eq!(commands, COMMANDS);
    for (command, counters) in pairs(&flat) {
        let names: Vec<String> = pairs(&counters).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, COUNTERS, "{command}");
    }
    let map = three.ok("RL.STATS");
    let Value::Map(inner) = &map else { panic!("{map:?} is no map") };
    assert!(inner.iter().all(|(_, counters)| matches!(counters, Value::Map(_))), "{map:?}");
    assert_eq!(counters(&map), counters(&flat));
}

/// Each counter of some command is raised.
fn use_all(client: &mut Client) {
    for (_, call) in LIMITERS {
        for options in ["", " COST 9", " COST 9 SHADOW", " FORCE", " X"] {
            client.run(&format!("{call}{options}"));
        }
    }
    client.ok("RL.REFUND t 1");
}

#[test]
fn reset_answers_and_begins_anew() {
    let server = Server::start();
    let mut client = server.client();
    use_all(&mut client);
    let before = stats(&mut client);
    assert_eq!(counters(&client.ok("RL.STATS reset")), before, "nothing is lost between");
    assert_eq!(raised(&mut client), [""; 0]);
    client.ok(LIMITERS[0].1);
    client.refused("RL.STATS RESET RESET");
    assert!(raised(&mut client).contains(&"rl.stats errors=1".to_owned()));
    client.ok("RL.STATS RESET");
    // The server's own reset is about what the server counts.
    client.run(LIMITERS[2].1);
    client.ok("CONFIG RESETSTAT");
    assert_eq!(raised(&mut client).len(), 1);
}

/// INFO has the same numbers, under names that do not change.
#[test]
fn info_tells_the_same() {
    let server = Server::start();
    let mut client = server.client();
    use_all(&mut client);
    let stats = stats(&mut client);
    for section in ["rl", "rl_stats", "everything", "modules"] {
        let info = client.info(section);
        assert!(info.contains("# rl_stats\r\n"), "{section}:\n{info}");
        for command in COMMANDS {
            for counter in COUNTERS {
                let name = format!("{}_{counter}", command.replace('.', "_")).replace('-', "_");
                let told = field(&info, &name).unwrap_or_else(|| panic!("{section}: no {name}"));
                assert_eq!(told, stats[command][counter].to_string(), "{section}: {name}");
            }
        }
    }
    assert!(!client.info("rl_denials").contains("rl_stats"));
    assert!(!client.info("server").contains("# rl_"));
    // Numbers only, and each name once.
    let info = client.info("rl");
    let fields: Vec<&str> = info.lines().filter(|line| line.contains(':')).collect();
    let mut names: Vec<&str> = fields.iter().filter_map(|line| line.split(':').next()).collect();
    assert!(fields.iter().all(|line| line.split(':').nth(1).is_some_and(is_number)), "{info}");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), fields.len());
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[test]
fn info_tells_how_much_is_remembered() {
    let server = Server::start();
    let mut client = server.client();
    let told = |client: &mut Client| {
        let info = client.info("rl_denials");
        ["topdenied_keys", "topdenied_denials", "topdenied_floor", "log_len"].map(|name| {
            field(&info, &format!("rl_{name}")).expect(name).parse::<u64>().expect("a number")
        })
    };
    let bytes = |client: &mut Client| {
        let info = client.info("rl_denials");
        ["rl_topdenied_bytes", "rl_log_bytes"]
            .map(|name| field(&info, name).expect(name).parse::<u64>().expect("a number"))
    };
    assert_eq!(told(&mut client), [0; 4]);
    assert_eq!(bytes(&mut client), [0; 2], "nothing is taken before the first denial");
    client.ok("CONFIG SET rl.topdenied-size 2");
    for key in ["a", "a", "b", "c", "d"] {
        super::deny(&mut client, key.as_bytes());
    }
    assert_eq!(told(&mut client), [2, 5, 2, 5]);
    assert!(bytes(&mut client).iter().all(|&bytes| bytes > 0));
    client.ok("CONFIG SET rl.topdenied-size 0");
    client.ok("CONFIG SET rl.log-max-len 0");
    assert_eq!(told(&mut client), [0; 4]);
    assert_eq!(bytes(&mut client), [0; 2]);
}

/// What a replica follows and a file replays was decided and counted elsewhere.
#[test]
fn effects_count_nothing() {
    let mut server = Server::with(&Config::new().append_only());
    let replica = server.replica();
    let mut client = server.client();
    for (_, call) in LIMITERS {
        for _ in 0..7 {
            client.limit(call);
        }
    }
    client.ok("RL.REFUND t 1");
    wait_for_replica(&server, &replica);
    let quiet = |client: &mut Client| {
        assert_eq!(raised(client), [""; 0]);
        assert_eq!(client.int("RL.LOG LEN"), 0);
        assert_eq!(super::top_denied(client, ""), []);
    };
    quiet(&mut replica.client());
    server.kill_and_restart();
    assert_eq!(server.client().int("DBSIZE"), 3);
    quiet(&mut server.client());
}

/// A replica can be asked; it counts what it refuses itself.
#[test]
fn a_replica_answers_for_itself() {
    let server = Server::start();
    let replica = server.replica();
    let mut client = replica.client();
    client.refused(LIMITERS[0].1);
    client.refused("RL.PEEK t COST x");
    assert_eq!(raised(&mut client), ["rl.peek errors=1"]);
    client.ok("RL.STATS RESET");
    client.ok("RL.LOG RESET");
    client.ok("RL.TOPDENIED RESET");
}
