//! A second server that follows the first.

use super::launch::Config;
use super::{Client, Server, field, until};

impl Server {
    /// A replica of this server that has received everything.
    pub fn replica(&self) -> Server {
        self.replica_with(Config::new())
    }

    /// A replica with a configuration of its own.
    pub fn replica_with(&self, config: Config) -> Server {
        let config = config.line(&format!("replicaof 127.0.0.1 {}", self.port()));
        let replica = Server::with(&config);
        wait_for_replica(self, &replica);
        replica
    }
}

/// Waits until `replica` is linked to `primary` and has received all that was written so far.
pub fn wait_for_replica(primary: &Server, replica: &Server) {
    let (mut of_primary, mut of_replica) = (primary.client(), replica.client());
    until("the replica is linked and has caught up", || {
        let info = of_replica.info("replication");
        let linked = field(&info, "master_link_status") == Some("up");
        let online = of_primary.info("replication").contains("state=online");
        linked && online && offset(&mut of_replica) == offset(&mut of_primary)
    });
}

/// How far the replication stream of a server, primary or replica, has come.
pub fn offset(client: &mut Client) -> i64 {
    let info = client.info("replication");
    let found = ["slave_repl_offset", "replica_repl_offset", "master_repl_offset"]
        .iter()
        .find_map(|name| field(&info, name));
    found.and_then(|offset| offset.parse().ok()).expect("INFO tells the replication offset")
}
