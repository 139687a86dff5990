//! BR-196 RedisLabsModules/redismodule-rs#439, BR-297 jaytaph/RateLimitBundle#115: keys of bytes
//! that are no text, and of 64 KiB, work in every command.

use redis::Value;

use super::support::{
    Client, Config, Dice, Reply, Server, bytes, error_text, int, list, wait_for_replica,
};

/// Keys that no code should take for text, for options, or for the end of something.
fn keys() -> Vec<Vec<u8>> {
    let mut dice = Dice::new(196);
    let mut long: Vec<u8> =
        (0..65_536).map(|_| u8::try_from(dice.throw(256)).expect("a byte")).collect();
    let mut keys = vec![
        b"".to_vec(),
        b"\0".to_vec(),
        b"\r\n".to_vec(),
        b"$5\r\nPEEK\r\n".to_vec(),
        b"PEEK".to_vec(),
        b"a\0b".to_vec(),
        b"a\0c".to_vec(),
        vec![0xff, 0xfe],
        vec![0xc3, 0x28],
        (0..=255).collect(),
        long.clone(),
    ];
    // The same but for the last byte.
    *long.last_mut().expect("a byte") ^= 1;
    keys.push(long);
    keys
}

/// A call of each limiter: its name, and the words behind the key.
const LIMITERS: [(&str, &[&str]); 3] = [
    ("RL.TOKENBUCKET", &["3", "1", "PER", "3600000"]),
    ("RL.LEAKY", &["3", "1", "PER", "3600000"]),
    ("RL.SLIDING", &["3", "3600000"]),
];

fn call(client: &mut Client, name: &str, key: &[u8], rest: &[&str]) -> Value {
    let mut words: Vec<&[u8]> = vec![name.as_bytes(), key];
    words.extend(rest.iter().map(|word| word.as_bytes()));
    let answer = client.call(&words);
    assert_eq!(error_text(&answer), None, "{name} {}", shown(key));
    answer
}

fn shown(key: &[u8]) -> String {
    let start = key[..key.len().min(20)].escape_ascii();
    format!("\"{start}\" of {} bytes", key.len())
}

#[test]
fn any_bytes_are_a_key_in_every_command() {
    let mut server = Server::with(&Config::new().append_only().line("aof-use-rdb-preamble no"));
    let replica = server.replica();
    let mut client = server.client();
    for (name, rest) in LIMITERS {
        client.ok("FLUSHALL");
        for key in &keys() {
            use_key(&mut client, name, key, rest);
        }
        wait_for_replica(&server, &replica);
        let before = states(&mut client);
        assert_eq!(before.len(), keys().len(), "{name}: each is a key of its own");
        assert_eq!(states(&mut replica.client()), before, "{name} on the replica");
        // From the effects of the calls, and from those of a rewrite.
        server.kill_and_restart();
        assert_eq!(states(&mut server.client()), before, "{name} from the file");
        server.client().ok("BGREWRITEAOF");
        server.wait_for_background_jobs();
        server.kill_and_restart();
        assert_eq!(states(&mut server.client()), before, "{name} from the file, rewritten");
        wait_for_replica(&server, &replica);
        client = server.client();
    }
}

/// Every command on one key, as on any other.
fn use_key(client: &mut Client, name: &str, key: &[u8], rest: &[&str]) {
    let reply = |client: &mut Client, name: &str, rest: &[&str]| {
        Reply::new(&call(client, name, key, rest)).expect("a reply")
    };
    assert_eq!(call(client, "RL.PEEK", key, &[]), Value::Nil, "{name} {}", shown(key));
    assert_eq!(call(client, "RL.INFO", key, &[]), Value::Nil, "{name} {}", shown(key));
    assert_eq!(call(client, "RL.REFUND", key, &["1"]), Value::Nil, "{name} {}", shown(key));
    for remaining in [2, 1, 0, 0] {
        assert_eq!(reply(client, name, rest).remaining, remaining, "{name} {}", shown(key));
    }
    assert_eq!(reply(client, "RL.PEEK", &[]).remaining, 0, "{name} {}", shown(key));
    assert_ne!(call(client, "RL.INFO", key, &[]), Value::Nil, "{name} {}", shown(key));
    assert_eq!(reply(client, "RL.REFUND", &["1"]).remaining, 1, "{name} {}", shown(key));
}

/// All keys, with value and expiry.
fn states(client: &mut Client) -> Vec<(Vec<u8>, Vec<u8>, i64)> {
    let mut keys: Vec<Vec<u8>> = list(&client.ok("KEYS *")).iter().map(bytes).collect();
    keys.sort();
    keys.into_iter()
        .map(|key| {
            let dump = bytes(&client.call(&[&b"DUMP"[..], &key]));
            let expire_ms = int(&client.call(&[&b"PEXPIRETIME"[..], &key]));
            (key, dump, expire_ms)
        })
        .collect()
}

/// A key that holds something else is refused and stays, whatever its bytes.
#[test]
fn any_bytes_may_hold_something_else() {
    let server = Server::start();
    let mut client = server.client();
    for key in &keys() {
        client.call(&[&b"SET"[..], key, b"value"]);
        for (name, rest) in LIMITERS.into_iter().chain([("RL.PEEK", &[][..]), ("RL.INFO", &[])]) {
            let mut words: Vec<&[u8]> = vec![name.as_bytes(), key];
            words.extend(rest.iter().map(|word| word.as_bytes()));
            let refused = error_text(&client.call(&words)).expect("an error");
            assert!(refused.starts_with("WRONGTYPE "), "{name} {}: {refused}", shown(key));
        }
        assert_eq!(bytes(&client.call(&[&b"GET"[..], key])), b"value", "{}", shown(key));
    }
}
