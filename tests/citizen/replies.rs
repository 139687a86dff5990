//! The shape of replies, and what the server tells about the commands.

use redis::Value;

use super::LIMITERS;
use super::support::{Config, Server, ints, list, text};

/// BR-285 brandur/redis-cell#60: with RESP3 the reply has the same elements and types as with
/// RESP2, for allowed, denied, never, and looks.
#[test]
fn replies_have_one_shape_in_both_protocols() {
    let server = Server::with(&Config::new().client_time());
    let (mut two, mut three) = (server.client(), server.client3());
    for (key, call) in LIMITERS {
        let length = if key == "l" { 6 } else { 5 };
        let options = ["", " COST 2", " COST 3", " PEEK", " COST 0", " SHADOW COST 2", " FORCE"];
        let mut lines: Vec<String> = options.iter().map(|o| format!("{call}{o}")).collect();
        lines.push(format!("RL.PEEK {key}"));
        lines.push(format!("RL.REFUND {key} 1"));
        let mut answers = Vec::new();
        for client in [&mut two, &mut three] {
            client.ok("FLUSHALL");
            let at = "AT 1700000000000";
            answers
                .push(lines.iter().map(|l| client.run(&format!("{l} {at}"))).collect::<Vec<_>>());
        }
        assert_eq!(answers[0], answers[1], "{call}: the same in RESP2 and RESP3");
        for (line, answer) in lines.iter().zip(&answers[0]) {
            let elements = ints(answer).unwrap_or_else(|| panic!("{line}: {answer:?}"));
            assert_eq!(elements.len(), length, "{line}");
        }
    }
    for line in ["RL.PEEK absent", "RL.INFO absent", "RL.REFUND absent 1"] {
        assert_eq!(two.run(line), Value::Nil, "{line}");
        assert_eq!(three.run(line), Value::Nil, "{line}");
    }
}

/// BR-306 envoyproxy/ratelimit#453: RL.INFO shows the parameters and the level that the next
/// decision uses: a map in RESP3, the same as a flat array in RESP2.
#[test]
fn info_shows_what_decides() {
    let server = Server::with(&Config::new().client_time());
    let (mut two, mut three) = (server.client(), server.client3());
    let at = "AT 1700000000000";
    let bucket = |kind, rate, level, reset| {
        let (capacity, period, last) = (int(10), int(60_000), int(1_700_000_000_000));
        let names = ["type", "capacity", "rate", "period-ms", "level", "reset-after-ms"];
        let values = [string(kind), capacity, string(rate), period, int(level), int(reset)];
        let mut map: Vec<_> = names.map(string).into_iter().zip(values).collect();
        map.push((string("last-used-ms"), last));
        map
    };
    let window = [
        ("type", string("sliding")),
        ("limit", int(10)),
        ("window-ms", int(60_000)),
        ("level", int(4)),
        ("reset-after-ms", int(60_000)),
        ("last-used-ms", int(1_700_000_000_000)),
    ];
    let expected = [
        ("RL.TOKENBUCKET t 10 2.50 PER 60000 COST 4", bucket("tokenbucket", "2.5", 6, 96_000)),
        ("RL.LEAKY l 10 2.50 PER 60000 COST 4", bucket("leaky", "2.5", 4, 96_000)),
        ("RL.SLIDING s 10 60000 COST 4", window.map(|(n, v)| (string(n), v)).to_vec()),
    ];
    for (line, map) in expected {
        let key = line.split(' ').nth(1).expect("a key");
        two.limit(&format!("{line} {at}"));
        let flat = map.iter().flat_map(|(name, value)| [name.clone(), value.clone()]).collect();
        assert_eq!(two.run(&format!("RL.INFO {key} {at}")), Value::Array(flat), "{line}");
        assert_eq!(three.run(&format!("RL.INFO {key} {at}")), Value::Map(map), "{line}");
    }
    // In debt a token bucket holds less than nothing.
    two.limit(&format!("RL.TOKENBUCKET t 10 2.5 PER 60000 FORCE COST 9 {at}"));
    let info = list(&two.ok(&format!("RL.INFO t {at}")));
    assert_eq!(info[9], int(-3));
}

fn int(number: i64) -> Value {
    Value::Int(number)
}

fn string(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

/// In scripts a reply is a table of numbers, and null is false.
#[test]
fn scripts_get_numbers() {
    let server = Server::start();
    let mut client = server.client();
    for (key, call) in LIMITERS {
        let script = "local r = redis.call(unpack(ARGV)) return {#r, type(r[1]), r[1], r[2]}";
        let mut eval = vec!["EVAL", script, "1", key];
        eval.extend(call.split(' '));
        let length = if key == "l" { 6 } else { 5 };
        let answer = list(&client.call(&eval));
        assert_eq!(answer[0], Value::Int(length), "{call}");
        assert_eq!(text(&answer[1]), "number");
        assert_eq!(answer[2..], [Value::Int(1), Value::Int(2)], "{call}");
    }
    let absent = "return redis.call('RL.PEEK', KEYS[1]) == false";
    assert_eq!(client.call(&["EVAL", absent, "1", "absent"]), Value::Int(1));
}

/// Arity, flags, the key and its ACL categories, as COMMAND tells them.
#[test]
fn commands_are_described() {
    let server = Server::start();
    let mut client = server.client();
    let table = [
        ("rl.tokenbucket", -4, "write"),
        ("rl.leaky", -4, "write"),
        ("rl.sliding", -4, "write"),
        ("rl.refund", -3, "write"),
        ("rl.peek", -2, "readonly"),
        ("rl.info", -2, "readonly"),
    ];
    for (name, arity, kind) in table {
        let info = list(&list(&client.ok(&format!("COMMAND INFO {name}")))[0]);
        assert_eq!(text(&info[0]), name);
        assert_eq!(info[1], Value::Int(arity), "{name}");
        let mut flags: Vec<String> = list(&info[2]).iter().map(text).collect();
        flags.retain(|flag| flag != "module");
        flags.sort();
        let mut expected = vec!["fast", kind];
        expected.sort_unstable();
        assert_eq!(flags, expected, "{name}");
        assert_eq!(info[3..6], [Value::Int(1), Value::Int(1), Value::Int(1)], "{name}");
        let docs = list(&client.ok(&format!("COMMAND DOCS {name}")));
        let docs: Vec<String> = list(&docs[1]).iter().step_by(2).map(text).collect();
        for field in ["summary", "since", "complexity", "arguments"] {
            assert!(docs.iter().any(|name| name == field), "{name} has no {field}");
        }
    }
}

/// A user who may call the limiters on some keys can do that, and nothing else.
#[test]
fn access_is_by_key_and_command() {
    let server = Server::start();
    let mut admin = server.client();
    admin.ok("ACL SETUSER limited on >secret ~own:* +rl.tokenbucket +rl.peek");
    let mut client = server.client();
    client.ok("AUTH limited secret");
    assert_eq!(client.limit("RL.TOKENBUCKET own:k 5 1").allowed, 1);
    assert_eq!(client.limit("RL.PEEK own:k").limit, 5);
    for line in ["RL.TOKENBUCKET other 5 1", "RL.PEEK other", "RL.LEAKY own:k 5 1"] {
        let refused = client.refused(line);
        assert!(refused.starts_with("NOPERM "), "{line}: {refused}");
    }
    // A key that may only be read can be looked at.
    admin.ok("ACL SETUSER reader on >secret %R~* +rl.tokenbucket +rl.peek +rl.refund");
    let mut client = server.client();
    client.ok("AUTH reader secret");
    assert_eq!(client.limit("RL.PEEK own:k").limit, 5);
    for line in ["RL.TOKENBUCKET own:k 5 1", "RL.REFUND own:k 1"] {
        let refused = client.refused(line);
        assert!(refused.starts_with("NOPERM "), "{line}: {refused}");
    }
}

#[test]
fn the_key_of_a_call_is_known() {
    let server = Server::start();
    let mut client = server.client();
    for line in
        LIMITERS.map(|(_, call)| call).iter().chain(&["RL.PEEK k", "RL.INFO k", "RL.REFUND k 1"])
    {
        let key = line.split(' ').nth(1).expect("a key");
        let keys = list(&client.ok(&format!("COMMAND GETKEYS {line}")));
        assert_eq!(keys.iter().map(text).collect::<Vec<_>>(), [key], "{line}");
    }
}
