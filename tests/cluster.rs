//! The limiters on a cluster: three primaries and three replicas, started here on the loopback
//! address.
//!
//! - A client that knows the slots finds every limit at once: no redirect after its first look at
//!   the topology, and never CROSSSLOT, since a call has one key.
//! - A primary is killed under load: its replica goes on with the limits, and what is lost is at
//!   most what was in flight.
//! - Slots move under load, by MIGRATE and by the servers' own ways: no unit is lost, none is
//!   counted twice, and every limit keeps its lifetime.

mod support;

#[path = "cluster/failover.rs"]
mod failover;
#[path = "cluster/load.rs"]
mod load;
#[path = "cluster/migration.rs"]
mod migration;
#[path = "cluster/routing.rs"]
mod routing;

use std::time::Duration;

use support::{Client, Server, bytes, until, wait_for_replica};

/// How long a node may be silent where no test wants a failover: longer than any pause of a busy
/// machine.
const PATIENT: Duration = Duration::from_secs(30);

/// A call of each limiter on `key` whose limit is `limit` an hour: as good as nothing comes back
/// while a test runs, so what was taken can be counted.
fn calls(key: &str, limit: u32) -> [String; 3] {
    [
        format!("RL.TOKENBUCKET {key} {limit} 1 PER 3600000"),
        format!("RL.LEAKY {key} {limit} 1 PER 3600000"),
        format!("RL.SLIDING {key} {limit} 3600000"),
    ]
}

/// Value and expiry of a key where it is served.
fn state(client: &mut Client, key: &str) -> (Vec<u8>, i64) {
    (bytes(&client.ok(&format!("DUMP {key}"))), client.int(&format!("PEXPIRETIME {key}")))
}

/// The replica holds what its primary holds, key by key.
fn expect_same(primary: &Server, replica: &Server, keys: &[String]) {
    until("the replica is linked", || {
        replica.client().info("replication").contains("master_link_status:up")
    });
    wait_for_replica(primary, replica);
    let (mut here, mut there) = (primary.client(), replica.client());
    there.ok("READONLY");
    for key in keys {
        assert_eq!(state(&mut there, key), state(&mut here, key), "{key} on the replica");
    }
}

/// The lifetime of each key follows its reset, at the node that serves them: at least that, and at
/// most a second more.
fn expect_lifetimes(owner: &Server, keys: &[String]) {
    let mut client = owner.client();
    for key in keys {
        let before_us = client.time_us();
        let reset_ms = client.limit(&format!("RL.PEEK {key}")).reset_after_ms;
        let expire_us = client.int(&format!("PEXPIRETIME {key}")) * 1000;
        let after_us = client.time_us();
        assert!(expire_us >= before_us + (reset_ms - 1) * 1000, "{key} expires too early");
        assert!(expire_us <= after_us + (reset_ms + 1000) * 1000, "{key} lives on");
    }
}
