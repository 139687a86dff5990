//! A primary that changes its role while clients wait.

use super::support::{Server, error_text, field, until, wait_for_replica};
use super::{Held, IN_AN_HOUR, blocked, level};

const CHANGED: &str = "UNBLOCKED force unblock from blocking operation, instance state changed \
                       (master -> replica?)";

/// The server tells those who wait its own error when it becomes a replica.
#[test]
fn a_demotion_ends_all_waits() {
    let (server, other) = (Server::start(), Server::start());
    let mut watch = server.client();
    watch.limit(IN_AN_HOUR);
    let mut held: Vec<Held> = (0..5).map(|_| Held::by(&server, IN_AN_HOUR)).collect();
    watch.ok(&format!("REPLICAOF 127.0.0.1 {}", other.port()));
    for waiter in &mut held {
        assert_eq!(error_text(&waiter.client.read()).as_deref(), Some(CHANGED));
        assert!(waiter.client.try_read().is_err(), "the server closes the connection");
    }
    wait_for_replica(&other, &server);
    watch.ok("REPLICAOF NO ONE");
    assert_eq!(blocked(&mut watch), 0);
    // It can hold again.
    watch.limit(IN_AN_HOUR);
    let held = Held::by(&server, IN_AN_HOUR);
    assert_eq!(watch.int(&format!("CLIENT UNBLOCK {}", held.id)), 1);
}

/// A planned failover: those who wait are told the error, and their places are spent on the new
/// primary.
#[test]
fn a_failover_ends_all_waits_and_keeps_their_places() {
    let server = Server::start();
    let replica = server.replica();
    let mut watch = server.client();
    watch.limit(IN_AN_HOUR);
    let mut held: Vec<Held> = (0..5).map(|_| Held::by(&server, IN_AN_HOUR)).collect();
    wait_for_replica(&server, &replica);
    watch.ok("FAILOVER");
    for waiter in &mut held {
        assert_eq!(error_text(&waiter.client.read()).as_deref(), Some(CHANGED));
    }
    let mut promoted = replica.client();
    until("the replica is the primary", || {
        field(&promoted.info("replication"), "role") == Some("master")
    });
    assert_eq!(level(&mut promoted), 6);
    let held = Held::by(&replica, IN_AN_HOUR);
    assert_eq!((level(&mut promoted), blocked(&mut promoted)), (7, 1));
    drop(held);
}

/// A primary that is killed: its replica takes over with all places spent.
#[test]
fn a_replica_takes_over_with_all_places_spent() {
    let mut server = Server::start();
    let replica = server.replica();
    server.client().limit(IN_AN_HOUR);
    let mut held: Vec<Held> = (0..5).map(|_| Held::by(&server, IN_AN_HOUR)).collect();
    wait_for_replica(&server, &replica);
    server.kill();
    for waiter in &mut held {
        assert!(waiter.client.try_read().is_err(), "the connection is closed");
    }
    replica.client().ok("REPLICAOF NO ONE");
    assert_eq!(level(&mut replica.client()), 6);
}

/// A replica that may be written to holds its clients as any server does.
#[test]
fn a_replica_that_takes_writes_holds_too() {
    let server = Server::start();
    let replica = server.replica_with(super::support::Config::new().line("replica-read-only no"));
    let mut client = replica.client();
    let start_us = client.time_us();
    client.limit("RL.LEAKY q 5 1 PER 100");
    assert_eq!(client.limit("RL.LEAKY q 5 1 PER 100 WAIT 10000").delay_ms, Some(0));
    assert!(client.time_us() - start_us >= 100_000);
}
