//! Watches everything that a refused call must leave alone.

use super::support::{Client, Server, Snapshot, error_text, quoted, text};

/// A server with a replica, so that its replication stream would move, and a client.
pub struct Scene {
    pub server: Server,
    // Held for its life: without it the stream stands still whatever is written.
    _replica: Server,
    pub client: Client,
}

impl Scene {
    /// Starts the servers.
    pub fn start() -> Scene {
        let server = Server::start();
        let replica = server.replica();
        let client = server.client();
        Scene { server, _replica: replica, client }
    }

    /// How things stand with the key `k`.
    pub fn snapshot(&mut self) -> Snapshot {
        Snapshot::of(&mut self.client, "k")
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
