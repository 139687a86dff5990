//! Who may call what: by command, by category, by key.

use std::fs;

use redis::Value;

use super::described::map;
use super::support::{Client, Config, Server, list, text, words};
use super::{COMMANDS, Categories, OPERATORS, limits};

/// A connection of a user with these rules.
fn user(server: &Server, name: &str, rules: &str) -> Client {
    server.client().ok(&format!("ACL SETUSER {name} on >secret {rules}"));
    let mut client = server.client();
    client.ok(&format!("AUTH {name} secret"));
    client
}

/// The user's call is refused for want of a permission.
fn forbidden(client: &mut Client, line: &str) {
    let refused = client.refused(line);
    assert!(refused.starts_with("NOPERM "), "{line}: {refused}");
}

/// A call of each command for users on `key`, which holds a token bucket.
fn calls(key: &str) -> [String; 8] {
    let [bucket, leaky, sliding] = limits(key);
    [
        bucket,
        format!("RL.PEEK {key}"),
        format!("RL.INFO {key}"),
        format!("RL.REFUND {key} 1"),
        leaky.replace(key, &format!("{key}:l")),
        sliding.replace(key, &format!("{key}:s")),
        format!("RL.ALL 2 {key} {key}:s TOKENBUCKET 5 1 PER 3600000 SLIDING 5 3600000"),
        format!("RL.THROTTLE {key} 4 1 3600"),
    ]
}

/// The recipe for an application that only takes from token buckets with its own prefix.
#[test]
fn one_command_on_one_prefix_is_enough() {
    let server = Server::start();
    let mut client = user(&server, "app", "~rl:* +rl.tokenbucket");
    for remaining in [4, 3, 2, 1, 0, 0] {
        assert_eq!(client.limit(&limits("rl:k")[0]).remaining, remaining);
    }
    assert_eq!(client.limit(&format!("{} PEEK", limits("rl:k")[0])).allowed, 0);
    for line in &calls("rl:k")[1..] {
        forbidden(&mut client, line);
    }
    for line in [&limits("other")[0], &limits("r")[0], &limits("xrl:k")[0]] {
        forbidden(&mut client, line);
    }
    let answers = client.run("MULTI");
    assert!(matches!(answers, Value::ServerError(_)), "MULTI was not allowed: {answers:?}");
    for line in ["RL.EFFECT rl:k x", "GET rl:k", "DEL rl:k", "CONFIG SET rl.client-time yes"] {
        forbidden(&mut client, line);
    }
    let mut admin = server.client();
    let reasons: Vec<(String, String)> = list(&admin.ok("ACL LOG 100"))
        .iter()
        .map(|entry| (text(&map(entry)["reason"]), text(&map(entry)["object"])))
        .collect();
    for (reason, object) in [("command", "rl.peek"), ("key", "other"), ("command", "rl.effect")] {
        let found = |logged: &&(String, String)| logged.0 == reason && logged.1 == object;
        assert!(reasons.iter().find(found).is_some(), "no {reason} {object} in {reasons:?}");
    }
}

#[test]
fn keys_may_be_read_and_written_by_pattern() {
    let server = Server::start();
    let mut admin = server.client();
    admin.limit(&limits("k")[0]);
    let rights = [
        // Rules, whether a limiter may be called, whether a key may be looked at.
        ("%R~k*", false, true),
        ("%W~k*", false, false),
        ("%RW~k*", true, true),
        // Both by one pattern, or it does not add up.
        ("%R~k* %W~*", false, true),
        ("~k*", true, true),
        ("~other", false, false),
        ("resetkeys (~k* +rl.peek +rl.info)", false, true),
        ("resetkeys (~k* +@all)", true, true),
    ];
    for (rules, takes, looks) in rights {
        let mut client = user(&server, "app", &format!("reset on >secret {rules} +@all"));
        for line in calls("k") {
            let look = line.starts_with("RL.PEEK") || line.starts_with("RL.INFO");
            if if look { looks } else { takes } {
                client.ok(&line);
            } else {
                forbidden(&mut client, &line);
            }
        }
        admin.ok("DEL k:l k:s");
    }
}

#[test]
fn a_dry_run_tells_the_same() {
    let server = Server::start();
    let mut admin = server.client();
    admin.ok("ACL SETUSER app on nopass ~rl:* +rl.tokenbucket");
    assert_eq!(text(&admin.ok("ACL DRYRUN app RL.TOKENBUCKET rl:k 5 1")), "OK");
    for line in ["RL.TOKENBUCKET other 5 1", "RL.LEAKY rl:k 5 1", "RL.EFFECT rl:k x"] {
        let answer = text(&admin.ok(&format!("ACL DRYRUN app {line}")));
        assert!(answer.contains("no permissions"), "{line}: {answer}");
    }
    assert_eq!(admin.int("EXISTS rl:k"), 0, "nothing was called");
}

/// The category @ratelimit holds the commands for users, all of them, and not the internal one.
#[test]
fn the_category_holds_the_limiters() {
    let server = Server::start();
    let mut admin = server.client();
    let knows = Categories::of(server.version());
    let all: Vec<String> = list(&admin.ok("ACL CAT")).iter().map(text).collect();
    let added = knows >= Categories::Added;
    assert_eq!(all.iter().any(|name| name == "ratelimit"), added, "{all:?}");
    if !added {
        let refused = admin.refused("ACL SETUSER app +@ratelimit");
        assert!(refused.contains("Unknown command or category"), "{refused}");
        return;
    }
    let listed = |admin: &mut Client, line: &str| {
        let mut names: Vec<String> = list(&admin.ok(line)).iter().map(text).collect();
        names.sort();
        names
    };
    let expected: &[&str] = if knows == Categories::Listed { &COMMANDS } else { &[] };
    assert_eq!(listed(&mut admin, "ACL CAT ratelimit"), expected);
    assert_eq!(listed(&mut admin, "COMMAND LIST FILTERBY ACLCAT ratelimit"), COMMANDS);
    let mut client = user(&server, "app", "~* +@ratelimit");
    for line in calls("k") {
        client.ok(&line);
    }
    forbidden(&mut client, "RL.EFFECT k x");
    forbidden(&mut client, "GET k");
    let mut client = user(&server, "other", "~* +@all -@ratelimit");
    for line in calls("k") {
        forbidden(&mut client, &line);
    }
    client.ok("GET absent");
}

/// Where a module may say so, the commands are in the server's own categories too.
#[test]
fn the_servers_categories_hold_them_too() {
    let server = Server::start();
    let known = Categories::of(server.version()) > Categories::None;
    let mut admin = server.client();
    admin.limit(&limits("k")[0]);
    for (rules, takes, looks) in [("+@read", false, true), ("+@write", true, false)] {
        let mut client = user(&server, "app", &format!("reset on >secret ~* {rules}"));
        for line in calls("k") {
            let look = line.starts_with("RL.PEEK") || line.starts_with("RL.INFO");
            if known && if look { looks } else { takes } {
                client.ok(&line);
            } else {
                forbidden(&mut client, &line);
            }
        }
    }
}

/// The internal command is for nobody: where categories work, who lacks @admin or @dangerous has no
/// permission, and who has all of them is refused by the command itself.
#[test]
fn the_internal_command_is_dangerous() {
    const REFUSED: &str =
        "ERR rl.effect is internal: only a primary and the append-only file may send it";
    let server = Server::start();
    let known = Categories::of(server.version()) > Categories::None;
    for rules in ["~* +@all -@dangerous", "~* +@all -@admin", "~* +@write"] {
        let mut client = user(&server, "app", &format!("reset on >secret {rules}"));
        let refused = client.refused("RL.EFFECT k x");
        let named = rules.contains("+@all");
        if known && named || !named && !known {
            assert!(refused.starts_with("NOPERM "), "{rules}: {refused}");
        } else {
            assert_eq!(refused, REFUSED, "{rules}");
        }
    }
    let mut client = user(&server, "app", "reset on >secret ~* +@all -rl.effect");
    forbidden(&mut client, "RL.EFFECT k x");
    let mut client = user(&server, "app", "reset on >secret ~* +@all");
    assert_eq!(client.refused("RL.EFFECT k x"), REFUSED);
}

/// The commands that show other users' keys are for operators, as SLOWLOG is: not for who may use
/// all limiters, nor for who lacks @admin or @dangerous.
#[test]
fn operators_commands_are_dangerous() {
    const CALLS: [&str; 4] = ["RL.LOG GET", "RL.LOG RESET", "RL.STATS RESET", "RL.TOPDENIED"];
    let server = Server::start();
    let knows = Categories::of(server.version());
    let mut refused = vec!["~* +@read +@write".to_owned()];
    if knows >= Categories::Added {
        refused.push("~* +@ratelimit".to_owned());
    }
    if knows > Categories::None {
        refused.extend(["~* +@all -@admin".to_owned(), "~* +@all -@dangerous".to_owned()]);
    }
    let named =
        OPERATORS.iter().fold("~* +@all".to_owned(), |rules, name| format!("{rules} -{name}"));
    refused.push(named);
    for rules in refused {
        let mut client = user(&server, "app", &format!("reset on >secret {rules}"));
        for line in CALLS {
            forbidden(&mut client, line);
        }
    }
    // They have no key, so no pattern stands in the way.
    let rules = OPERATORS
        .iter()
        .fold("reset on >secret".to_owned(), |rules, name| format!("{rules} +{name}"));
    let mut client = user(&server, "app", &rules);
    for line in CALLS {
        client.ok(line);
    }
    // One of several, as for the server's own commands.
    let mut client = user(&server, "app", "reset on >secret +rl.log|len");
    client.ok("RL.LOG LEN");
    forbidden(&mut client, "RL.LOG GET");
}

/// Rules that name the module's commands and category are there from the server's start, from its
/// configuration and from a file of users.
#[test]
fn users_of_the_configuration_have_their_rights() {
    let server = Server::start();
    let known = Categories::of(server.version()) >= Categories::Added;
    let category = if known { "+@ratelimit" } else { "+rl.tokenbucket" };
    drop(server);
    let users = [
        "user one on >secret ~rl:* +rl.tokenbucket".to_owned(),
        format!("user two on >secret ~rl:* {category}"),
        "user default on nopass ~* &* +@all".to_owned(),
    ];
    let in_config = users.iter().fold(Config::new(), |config, line| config.line(line));
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("users.acl");
    fs::write(&file, users.join("\n") + "\n").expect("a file");
    let in_file = Config::new().line(&format!("aclfile \"{}\"", file.display()));
    for config in [in_config, in_file] {
        let server = Server::with(&config);
        for name in ["one", "two"] {
            let mut client = server.client();
            client.ok(&format!("AUTH {name} secret"));
            assert_eq!(client.limit(&limits("rl:k")[0]).limit, 5, "{name}");
            forbidden(&mut client, &limits("other")[0]);
            forbidden(&mut client, "RL.EFFECT rl:k x");
            forbidden(&mut client, "GET rl:k");
        }
    }
}

/// Permissions are asked for inside of a transaction, too.
#[test]
fn a_transaction_is_no_way_around() {
    let server = Server::start();
    let mut client = user(&server, "app", "~rl:* +rl.tokenbucket +multi +exec");
    let sent = ["MULTI", &limits("rl:k")[0], &limits("other")[0], "EXEC"].map(words);
    let answers = client.pipeline(&sent);
    for (answer, code) in [(&answers[2], "NOPERM"), (&answers[3], "EXECABORT")] {
        let Value::ServerError(error) = answer else { panic!("{answer:?}") };
        assert_eq!(error.code(), code);
    }
    assert_eq!(server.client().int("DBSIZE"), 0);
}
