//! Everything by which a client can see that something was written.

use redis::Value;

use super::{Client, bytes, field, int, text};

/// What a key holds, and how many writes there were.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The serialized value.
    pub dump: Option<Vec<u8>>,
    /// When the key expires, in ms since the epoch; -1 never, -2 no key.
    pub expire_ms: i64,
    /// Keys in the database.
    pub keys: i64,
    /// How far the replication stream has come. It moves only where a replica listens.
    pub offset: i64,
    /// Changes that count for the save points.
    pub changes: i64,
}

impl Snapshot {
    /// How things stand, asked by `client` at one instant.
    pub fn of(client: &mut Client, key: &str) -> Snapshot {
        let calls: [&[&str]; 5] = [
            &["DUMP", key],
            &["PEXPIRETIME", key],
            &["DBSIZE"],
            &["INFO", "replication"],
            &["INFO", "persistence"],
        ];
        let calls =
            calls.map(|call| call.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        let answers = client.pipeline(&calls);
        let [dump, expire_ms, keys, replication, persistence] = &answers[..] else {
            panic!("five answers: {answers:?}");
        };
        let number = |info: &Value, name| {
            let info = text(info);
            field(&info, name).and_then(|number| number.parse().ok()).expect("INFO tells it")
        };
        Snapshot {
            dump: if *dump == Value::Nil { None } else { Some(bytes(dump)) },
            expire_ms: int(expire_ms),
            keys: int(keys),
            offset: number(replication, "master_repl_offset"),
            changes: number(persistence, "rdb_changes_since_last_save"),
        }
    }
}
