//! COMMAND INFO, DOCS, GETKEYS and LIST.

use std::collections::BTreeMap;

use redis::Value;

use super::support::{Server, bytes, int, list, text};
use super::{COMMANDS, Categories, OPERATORS};

/// A command as it should be described.
struct Described {
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    /// What is done with the key; nothing where there is none.
    key: &'static [&'static str],
    /// The server's own ACL categories.
    categories: &'static [&'static str],
    /// Its arguments, in redis-cli's way of writing.
    syntax: &'static str,
    complexity: &'static str,
    /// Whether it is one of the commands for users.
    limits: bool,
}

const READS: &[&str] = &["RO", "access"];
const WRITES: &[&str] = &["RW", "access", "update"];
/// As SLOWLOG has them.
const OPERATES: &[&str] = &["admin", "loading", "module", "stale"];
const OPERATORS_CATEGORIES: &[&str] = &["@admin", "@dangerous", "@slow"];
const LOG_N: &str = "O(1) for buckets, O(log N) with N hits in a sliding window";

const TABLE: [Described; 11] = [
    Described {
        name: "rl.tokenbucket",
        arity: -4,
        flags: &["fast", "module", "write"],
        key: WRITES,
        categories: &["@fast", "@write"],
        syntax: "key capacity rate [PER period-ms] [COST cost] [PEEK] [FORCE] [RESERVE reserve] \
                 [SHADOW] [AT unix-time-ms]",
        complexity: "O(1)",
        limits: true,
    },
    Described {
        name: "rl.leaky",
        arity: -4,
        flags: &["fast", "module", "write"],
        key: WRITES,
        categories: &["@fast", "@write"],
        syntax: "key capacity rate [PER period-ms] [MAXDELAY max-delay-ms|WAIT max-wait-ms] \
                 [COST cost] [PEEK] [FORCE] [RESERVE reserve] [SHADOW] [AT unix-time-ms]",
        complexity: "O(1)",
        limits: true,
    },
    Described {
        name: "rl.sliding",
        arity: -4,
        flags: &["fast", "module", "write"],
        key: WRITES,
        categories: &["@fast", "@write"],
        syntax: "key limit window-ms [RESOLUTION resolution-ms] [COST cost] [PEEK] [FORCE] \
                 [RESERVE reserve] [SHADOW] [AT unix-time-ms]",
        complexity: "O(1) amortized when allowed, O(log N) with N hits in the window when denied",
        limits: true,
    },
    Described {
        name: "rl.peek",
        arity: -2,
        flags: &["fast", "module", "readonly"],
        key: READS,
        categories: &["@fast", "@read"],
        syntax: "key [COST cost] [AT unix-time-ms]",
        complexity: LOG_N,
        limits: true,
    },
    Described {
        name: "rl.info",
        arity: -2,
        flags: &["fast", "module", "readonly"],
        key: READS,
        categories: &["@fast", "@read"],
        syntax: "key [AT unix-time-ms]",
        complexity: LOG_N,
        limits: true,
    },
    Described {
        name: "rl.refund",
        arity: -3,
        flags: &["fast", "module", "write"],
        key: WRITES,
        categories: &["@fast", "@write"],
        syntax: "key n [AT unix-time-ms]",
        complexity: "O(1) for buckets, O(N) with N hits that are given back in a sliding window",
        limits: true,
    },
    Described {
        name: "rl.stats",
        arity: -1,
        flags: OPERATES,
        key: &[],
        categories: OPERATORS_CATEGORIES,
        syntax: "[RESET]",
        complexity: "O(1)",
        limits: false,
    },
    Described {
        name: "rl.topdenied",
        arity: -1,
        flags: OPERATES,
        key: &[],
        categories: OPERATORS_CATEGORIES,
        syntax: "[COUNT count] [RESET]",
        complexity: "O(N) with N keys listed",
        limits: false,
    },
    Described {
        name: "rl.log",
        arity: -2,
        flags: OPERATES,
        key: &[],
        categories: OPERATORS_CATEGORIES,
        syntax: "GET [n]|LEN|RESET",
        complexity: "O(N) with N denials listed",
        limits: false,
    },
    Described {
        name: "rl.throttle",
        arity: -5,
        flags: &["fast", "module", "write"],
        key: WRITES,
        categories: &["@fast", "@write"],
        syntax: "key max-burst count period-s [quantity]",
        complexity: "O(1)",
        limits: true,
    },
    Described {
        name: "rl.effect",
        arity: 3,
        flags: &["admin", "fast", "module", "write"],
        key: WRITES,
        categories: &["@admin", "@dangerous", "@fast", "@write"],
        syntax: "key payload",
        complexity: "O(1), O(N) for a whole window of N hits",
        limits: false,
    },
];

#[test]
fn command_info_is_true() {
    let server = Server::start();
    let mut client = server.client();
    let knows = Categories::of(server.version());
    for expected in TABLE {
        let name = expected.name;
        let info = list(&list(&client.ok(&format!("COMMAND INFO {name}")))[0]);
        assert_eq!(text(&info[0]), name);
        assert_eq!(int(&info[1]), expected.arity, "{name}");
        assert_eq!(sorted(&info[2]), expected.flags, "{name}");
        // The key, as old clients read it: first, last, step.
        let place = Value::Int(i64::from(!expected.key.is_empty()));
        assert_eq!(info[3..6], [place.clone(), place.clone(), place], "{name}");
        let mut categories = expected.categories.to_vec();
        if expected.limits && knows >= Categories::Added {
            categories.push("@ratelimit");
            categories.sort_unstable();
        }
        if knows == Categories::None {
            categories.clear();
        }
        assert_eq!(sorted(&info[6]), categories, "{name}");
        expect_key_spec(&info[8], &expected);
    }
}

/// The key, as new clients read it: one, at the first place behind the name.
fn expect_key_spec(specs: &Value, expected: &Described) {
    let name = expected.name;
    let specs = list(specs);
    if expected.key.is_empty() {
        return assert_eq!(specs.len(), 0, "{name}");
    }
    assert_eq!(specs.len(), 1, "{name}");
    let spec = map(&specs[0]);
    assert_eq!(sorted(&spec["flags"]), expected.key, "{name}");
    let begins = map(&spec["begin_search"]);
    assert_eq!(text(&begins["type"]), "index", "{name}");
    assert_eq!(map(&begins["spec"])["index"], Value::Int(1), "{name}");
    let finds = map(&spec["find_keys"]);
    assert_eq!(text(&finds["type"]), "range", "{name}");
    let range = map(&finds["spec"]);
    let range = ["lastkey", "keystep", "limit"].map(|field| int(&range[field]));
    assert_eq!(range, [0, 1, 0], "{name}");
}

#[test]
fn command_docs_tell_all_there_is() {
    let server = Server::start();
    let mut client = server.client();
    for expected in TABLE {
        let name = expected.name;
        let docs = map(&client.ok(&format!("COMMAND DOCS {name}")));
        let docs = map(&docs[name]);
        assert!(text(&docs["summary"]).ends_with('.'), "{name}");
        assert_eq!(text(&docs["since"]), "0.1.0", "{name}");
        assert_eq!(text(&docs["group"]), "module", "{name}");
        assert_eq!(text(&docs["module"]), "rl", "{name}");
        assert_eq!(text(&docs["complexity"]), expected.complexity, "{name}");
        let arguments = list(&docs["arguments"]);
        let syntax: Vec<String> = arguments.iter().map(written).collect();
        assert_eq!(syntax.join(" "), expected.syntax, "{name}");
        // The first is the key that the key specification finds.
        let first = map(&arguments[0]);
        let key = first.get("key_spec_index").map(int);
        assert_eq!(key, (!expected.key.is_empty()).then_some(0), "{name}");
        assert_eq!(text(&first["type"]) == "key", key.is_some(), "{name}");
        let least = arguments.iter().filter(|argument| !map(argument).contains_key("flags"));
        let least = i64::try_from(least.count()).expect("a few") + 1;
        assert_eq!(least, expected.arity.abs(), "{name}: arity and arguments agree");
    }
}

/// One argument, as redis-cli writes it.
fn written(argument: &Value) -> String {
    let argument = map(argument);
    let name = text(&argument["name"]);
    let kind = text(&argument["type"]);
    let parts: Vec<String> =
        argument.get("arguments").map(list).unwrap_or_default().iter().map(written).collect();
    let between = match kind.as_str() {
        "oneof" => Some("|"),
        "block" => Some(" "),
        _ => None,
    };
    let expected = match name.as_str() {
        "key" => "key",
        "rate" => "double",
        "payload" => "string",
        "peek" | "force" | "shadow" | "get" | "len" | "reset" => "pure-token",
        _ => "integer",
    };
    assert!(if between.is_some() { parts.len() > 1 } else { kind == expected }, "{name}: {kind}");
    let shown = match argument.get("token").map(text) {
        None if between.is_some() => parts.join(between.unwrap_or_default()),
        Some(token) if kind == "pure-token" => token,
        Some(token) => format!("{token} {name}"),
        None => name,
    };
    match argument.get("flags") {
        Some(flags) => {
            assert_eq!(sorted(flags), ["optional"]);
            format!("[{shown}]")
        }
        None => shown,
    }
}

/// The options that the documentation names are those that the parser takes: each alone passes.
#[test]
fn every_documented_option_is_taken() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("CONFIG SET rl.client-time yes");
    let starts = [
        ("rl.tokenbucket", "t 5 1"),
        ("rl.leaky", "l 5 1"),
        ("rl.sliding", "s 5 60000"),
        ("rl.peek", "t"),
        ("rl.info", "t"),
        ("rl.refund", "t 1"),
        ("rl.stats", ""),
        ("rl.topdenied", ""),
    ];
    for (name, start) in starts {
        let call = format!("{name} {start}").trim_end().to_owned();
        client.ok(&call);
        let docs = map(&client.ok(&format!("COMMAND DOCS {name}")));
        let parts = |argument: &Value| match map(argument).get("arguments") {
            Some(parts) => list(parts),
            None => vec![argument.clone()],
        };
        for argument in list(&map(&docs[name])["arguments"]).iter().flat_map(parts) {
            let argument = map(&argument);
            let Some(token) = argument.get("token").map(text) else { continue };
            let value = if text(&argument["type"]) == "pure-token" { "" } else { " 1" };
            client.ok(&format!("{call} {token}{value}"));
        }
    }
}

/// BR-196 RedisLabsModules/redismodule-rs#439 and every cluster client: the key of a call, found
/// by the server in its words, whatever the bytes.
#[test]
fn the_key_is_found_in_the_words() {
    let server = Server::start();
    let mut client = server.client();
    let key: Vec<u8> = (0..=255).collect();
    let rests = [
        ("rl.tokenbucket", "5 1 PER 1000 COST 2 FORCE"),
        ("rl.leaky", "5 1 MAXDELAY 5"),
        ("rl.sliding", "5 1000 RESOLUTION 10 PEEK"),
        ("rl.peek", "COST 3"),
        ("rl.info", "AT 5"),
        ("rl.refund", "3"),
        ("rl.throttle", "4 1 3600"),
        ("rl.effect", "payload"),
    ];
    for (name, rest) in rests {
        let mut call: Vec<&[u8]> = vec![b"COMMAND", b"GETKEYS", name.as_bytes(), &key];
        call.extend(rest.split(' ').map(str::as_bytes));
        let keys = list(&client.call(&call));
        assert_eq!(
            keys.iter().map(bytes).collect::<Vec<_>>(),
            std::slice::from_ref(&key),
            "{name}"
        );
        call[1] = b"GETKEYSANDFLAGS";
        let [found] = &list(&client.call(&call))[..] else { panic!("{name}: not one key") };
        let [found, flags] = &list(found)[..] else { panic!("{name}: no flags") };
        assert_eq!(bytes(found), key, "{name}");
        let described = TABLE.iter().find(|described| described.name == name);
        assert_eq!(sorted(flags), described.expect("in the table").key, "{name}");
    }
}

/// The module has these commands and no other, each described.
#[test]
fn the_module_has_these_commands() {
    let server = Server::start();
    let mut client = server.client();
    let mut expected = [&COMMANDS[..], &OPERATORS].concat();
    expected.push("rl.effect");
    expected.sort_unstable();
    let mut described: Vec<&str> = TABLE.iter().map(|described| described.name).collect();
    // See several.rs.
    described.push("rl.all");
    described.sort_unstable();
    assert_eq!(described, expected);
    assert_eq!(sorted(&client.ok("COMMAND LIST FILTERBY MODULE rl")), expected);
    assert_eq!(sorted(&client.ok("COMMAND LIST FILTERBY PATTERN rl.*")), expected);
}

/// Words, sorted.
pub fn sorted(words: &Value) -> Vec<String> {
    let mut words: Vec<String> = list(words).iter().map(text).collect();
    words.sort();
    words
}

/// A map, as RESP2 writes one.
pub fn map(flat: &Value) -> BTreeMap<String, Value> {
    list(flat).chunks(2).map(|pair| (text(&pair[0]), pair[1].clone())).collect()
}

#[test]
fn clients_of_resp3_are_told_the_same() {
    let server = Server::start();
    let (mut two, mut three) = (server.client(), server.client3());
    for Described { name, .. } in TABLE {
        let flat = map(&two.ok(&format!("COMMAND DOCS {name}")));
        let Value::Map(pairs) = three.ok(&format!("COMMAND DOCS {name}")) else {
            panic!("{name}: no map")
        };
        let (found, Value::Map(docs)) = &pairs[0] else { panic!("{name}: {pairs:?}") };
        assert_eq!(text(found), name);
        let flat = map(&flat[name]);
        assert_eq!(docs.len(), flat.len(), "{name}");
        for (field, value) in docs {
            if text(field) != "arguments" {
                assert_eq!(value, &flat[&text(field)], "{name}");
            }
        }
    }
}
