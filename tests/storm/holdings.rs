//! What a server holds, key by key, to be compared with what another one or the same holds later.

use std::collections::BTreeMap;

use redis::Value;

use super::calls::{TAME, Words, key};
use super::support::{Client, bytes, error_text, int, list, quoted, text, words};

/// Databases that are used.
pub const DATABASES: [u8; 2] = [0, 1];

/// Database and name of each key: its serialized value and when it expires.
pub type Holdings = BTreeMap<(u8, Vec<u8>), (Vec<u8>, i64)>;

/// Asks for all keys of all databases.
pub fn holdings(client: &mut Client) -> Holdings {
    let mut found = Holdings::new();
    for database in DATABASES {
        client.ok(&format!("SELECT {database}"));
        for key in keys(client) {
            let ask = |name: &[u8]| vec![name.to_vec(), key.clone()];
            let answers = client.pipeline(&[ask(b"DUMP"), ask(b"PEXPIRETIME")]);
            if answers[0] != Value::Nil {
                found.insert((database, key), (bytes(&answers[0]), int(&answers[1])));
            }
        }
    }
    client.ok("SELECT 0");
    found
}

fn keys(client: &mut Client) -> Vec<Vec<u8>> {
    list(&client.ok("KEYS *")).iter().map(bytes).collect()
}

/// The keys of the module that have no time to live, in the database that the client is in.
fn without_ttl(client: &mut Client) -> Vec<(Vec<u8>, String)> {
    let mut found = Vec::new();
    for key in keys(client) {
        let ask = |name: &[u8]| vec![name.to_vec(), key.clone()];
        let answers = client.pipeline(&[ask(b"TYPE"), ask(b"PTTL")]);
        let kind = text(&answers[0]);
        if kind.starts_with("rl-") && answers[1] == Value::Int(-1) {
            found.push((key, kind));
        }
    }
    found
}

/// No key of the module lacks a time to live, but those from which a user took it and which no call
/// has touched since; a call that only looks whether it might pass puts that right.
pub fn expect_ttls(client: &mut Client) {
    for database in DATABASES {
        client.ok(&format!("SELECT {database}"));
        let tame: Vec<_> = (0..TAME).map(key).collect();
        let calls: Vec<Words> = without_ttl(client)
            .into_iter()
            .map(|(key, kind)| {
                assert!(!tame.contains(&key), "{} has no time to live", key.escape_ascii());
                let call = match kind.as_str() {
                    "rl-tokenb" => "RL.TOKENBUCKET k 9007199254740992 1000000 COST 0",
                    "rl-leakyb" => "RL.LEAKY k 9007199254740992 1000000 COST 0",
                    _ => "RL.SLIDING k 9007199254740992 315360000000 COST 0",
                };
                let mut call = words(call);
                call[1] = key;
                call
            })
            .collect();
        let mut refused = Vec::new();
        for (call, answer) in calls.iter().zip(client.pipeline(&calls)) {
            // A level that was left at a fast rate may be more than 100 years at this one.
            match error_text(&answer) {
                Some(error) => {
                    assert!(error.contains("at most 100 years"), "{}: {error}", quoted(call));
                    refused.push(call[1].clone());
                }
                None => assert!(matches!(answer, Value::Array(_)), "{}: {answer:?}", quoted(call)),
            }
        }
        let mut left = without_ttl(client);
        left.retain(|(key, _)| !refused.contains(key));
        assert!(left.is_empty(), "no time to live: {left:?}");
    }
    client.ok("SELECT 0");
}

/// Everything that lasts beyond `until_ms` is the same; what does not may have expired.
pub fn expect_same(here: &Holdings, there: &Holdings, until_ms: i64, what: &str) {
    let lasts = |expires_ms: i64| expires_ms == -1 || expires_ms > until_ms;
    let told = |(database, key): &(u8, Vec<u8>)| {
        format!("{what}: {} of database {database}", key.escape_ascii())
    };
    for (key, held) in here.iter().filter(|(_, held)| lasts(held.1)) {
        assert_eq!(there.get(key), Some(held), "{}", told(key));
    }
    for (key, _) in there.iter().filter(|(_, held)| lasts(held.1)) {
        assert!(here.contains_key(key), "{}", told(key));
    }
}
