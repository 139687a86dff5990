//! RL.ALL, whose keys are counted: what COMMAND and redis-cli tell about it.

use std::process::Command;

use redis::Value;

use super::Categories;
use super::cli::plain;
use super::described::{map, sorted};
use super::support::{Server, bytes, int, list, text};

/// Its arguments as COMMAND DOCS has them: what may be left out in brackets, what may come again
/// with dots behind it.
const SYNTAX: &str = "numkeys key ... \
    <TOKENBUCKET capacity rate [PER period-ms] [COST cost] [RESERVE reserve]|\
    LEAKY capacity rate [PER period-ms] [MAXDELAY max-delay-ms] [COST cost] [RESERVE reserve]|\
    SLIDING limit window-ms [RESOLUTION resolution-ms] [COST cost] [RESERVE reserve]> ... \
    [PEEK] [SHADOW] [AT unix-time-ms]";

#[test]
fn command_info_tells_where_the_keys_are() {
    let server = Server::start();
    let mut client = server.client();
    let info = list(&list(&client.ok("COMMAND INFO rl.all"))[0]);
    assert_eq!((text(&info[0]), int(&info[1])), ("rl.all".to_owned(), -6));
    // Old clients read this, and ask the server for the keys of each call.
    assert_eq!(sorted(&info[2]), ["fast", "module", "movablekeys", "write"]);
    assert_eq!(info[3..6], [Value::Int(0), Value::Int(0), Value::Int(0)]);
    let categories: &[&str] = match Categories::of(server.version()) {
        Categories::None => &[],
        Categories::Own => &["@fast", "@write"],
        Categories::Added | Categories::Listed => &["@fast", "@ratelimit", "@write"],
    };
    assert_eq!(sorted(&info[6]), categories);
    // New ones read this: the word at 1 says how many keys follow it.
    let [spec] = &list(&info[8])[..] else { panic!("not one key specification") };
    let spec = map(spec);
    assert_eq!(sorted(&spec["flags"]), ["RW", "access", "update"]);
    let begins = map(&spec["begin_search"]);
    assert_eq!((text(&begins["type"]), int(&map(&begins["spec"])["index"])), ("index".into(), 1));
    let finds = map(&spec["find_keys"]);
    assert_eq!(text(&finds["type"]), "keynum");
    let counted = map(&finds["spec"]);
    let counted = ["keynumidx", "firstkey", "keystep"].map(|field| int(&counted[field]));
    assert_eq!(counted, [0, 1, 1]);
}

#[test]
fn command_docs_show_the_rules() {
    let server = Server::start();
    let docs = map(&server.client().ok("COMMAND DOCS rl.all"));
    let docs = map(&docs["rl.all"]);
    assert_eq!(text(&docs["summary"]), "Takes from several limits at once, or from none of them.");
    assert_eq!((text(&docs["since"]), text(&docs["module"])), ("0.1.0".into(), "rl".into()));
    assert_eq!(text(&docs["complexity"]), "O(N) with N keys, each as the command of its limiter");
    let arguments = list(&docs["arguments"]);
    let written: Vec<String> = arguments.iter().map(written).collect();
    assert_eq!(written.join(" "), SYNTAX);
    let key = map(&arguments[1]);
    assert_eq!((text(&key["type"]), int(&key["key_spec_index"])), ("key".into(), 0));
}

/// One argument, and those of which it is made.
fn written(argument: &Value) -> String {
    let argument = map(argument);
    let (name, kind) = (text(&argument["name"]), text(&argument["type"]));
    let parts = || list(&argument["arguments"]).iter().map(written).collect::<Vec<_>>();
    let token = argument.get("token").map(text);
    let shown = match (kind.as_str(), token) {
        ("oneof", None) => format!("<{}>", parts().join("|")),
        ("block", None) => parts().join(" "),
        ("pure-token", Some(token)) => token,
        (_, Some(token)) => format!("{token} {name}"),
        (_, None) => name,
    };
    let flags = argument.get("flags").map(sorted).unwrap_or_default();
    match flags.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => shown,
        ["optional"] => format!("[{shown}]"),
        ["multiple"] => format!("{shown} ..."),
        _ => panic!("{shown}: {flags:?}"),
    }
}

#[test]
fn the_server_finds_all_keys_in_the_words() {
    let server = Server::start();
    let mut client = server.client();
    let key: Vec<u8> = (0..=255).collect();
    let rules = "SLIDING 3 1000 LEAKY 5 1 COST 2 TOKENBUCKET 5 1 PEEK AT 5";
    let words: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
    for keys in [&[&key[..]][..], &[b"a", &key], &[b"2", b"", b"SLIDING"]] {
        let count = keys.len().to_string();
        for ask in ["GETKEYS", "GETKEYSANDFLAGS"] {
            let mut call: Vec<&[u8]> = vec![b"COMMAND", ask.as_bytes(), b"RL.ALL"];
            call.push(count.as_bytes());
            call.extend(keys);
            call.extend(&words);
            let found = list(&client.call(&call));
            let name = |found: &Value| match found {
                Value::Array(pair) => {
                    assert_eq!(sorted(&pair[1]), ["RW", "access", "update"]);
                    bytes(&pair[0])
                }
                name => bytes(name),
            };
            assert_eq!(found.iter().map(name).collect::<Vec<_>>(), keys, "{ask} {count}");
        }
    }
    // A number of keys that cannot be is an error for the server, too.
    for count in ["0", "-1", "x", "9", "1001"] {
        let refused = client.refused(&format!("COMMAND GETKEYS RL.ALL {count} a SLIDING 3 1000"));
        assert!(refused.starts_with("ERR "), "{count}: {refused}");
    }
}

#[test]
fn help_explains_it() {
    let server = Server::start();
    let port = server.port().to_string();
    let help = Command::new("redis-cli").args(["-p", &port, "help", "RL.ALL"]).output();
    let help = help.expect("redis-cli, of the same package as redis-server").stdout;
    let help = plain(&help);
    for told in [
        "numkeys key [key ...]",
        "TOKENBUCKET capacity rate [PER period-ms] [COST cost] [RESERVE reserve]",
        "[PEEK] [SHADOW] [AT unix-time-ms]",
        "summary: Takes from several limits at once, or from none of them.",
    ] {
        assert!(help.contains(told), "no {told} in:\n{help}");
    }
}
