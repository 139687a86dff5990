//! Watches everything that a refused call must leave alone.

use redis::Value;

use super::support::{Client, Server, bytes, error_text, field, int, quoted, text};

/// A server with a replica, so that its replication stream would move, and a client.
pub struct Scene {
    pub server: Server,
    // Held for its life: without it the stream stands still whatever is written.
    _replica: Server,
    pub client: Client,
}

/// What a client can see of the key `k` and of writes in general.
#[derive(Debug, PartialEq)]
pub struct Snapshot {
    dump: Option<Vec<u8>>,
    expire_ms: i64,
    keys: i64,
    offset: String,
    changes: String,
}

impl Scene {
    /// Starts the servers.
    pub fn start() -> Scene {
        let server = Server::start();
        let replica = server.replica();
        let client = server.client();
        Scene { server, _replica: replica, client }
    }

    /// How things stand.
    pub fn snapshot(&mut self) -> Snapshot {
        let lines = ["DUMP k", "PEXPIRETIME k", "DBSIZE", "INFO replication", "INFO persistence"];
        let answers = self.client.pipeline(&lines.map(super::words));
        let [dump, expire_ms, keys, replication, persistence] = &answers[..] else {
            panic!("five answers: {answers:?}");
        };
        let (replication, persistence) = (text(replication), text(persistence));
        let named = |info: &str, name| field(info, name).expect("INFO tells it").to_owned();
        Snapshot {
            dump: if *dump == Value::Nil { None } else { Some(bytes(dump)) },
            expire_ms: int(expire_ms),
            keys: int(keys),
            offset: named(&replication, "master_repl_offset"),
            changes: named(&persistence, "rdb_changes_since_last_save"),
        }
    }

    /// Makes a call that must be answered with `error`, in one line, and must change nothing.
    pub fn expect_error(&mut self, call: &[Vec<u8>], error: &str) {
        let shown = quoted(call);
        let before = self.snapshot();
        let answer = self.client.call(call);
        let got = error_text(&answer).unwrap_or_else(|| panic!("{shown}: {answer:?} is no error"));
        assert_eq!(got, error, "{shown}");
        let printable = got.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        assert!(printable, "{shown}: {got:?} is more than a line of text");
        assert_eq!(self.snapshot(), before, "{shown}");
        assert_eq!(text(&self.client.ok("PING")), "PONG", "{shown}");
    }
}
