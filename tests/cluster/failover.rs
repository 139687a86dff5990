//! A primary dies under load, and its replica takes its slots.

use std::time::Duration;

use super::load::{self, Books, CLIENTS, ask, counted, under_load, wait_for_calls};
use super::support::cluster::Cluster;
use super::support::{Config, until};
use super::{calls, expect_lifetimes, expect_same};

/// Short, so that the failover comes soon; not so short that a pause of a busy machine does it.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// What a client may be answered while the cluster changes: somebody else serves the slot, or
/// nobody yet.
const EXPECTED_ERRORS: [&str; 2] = ["MOVED", "CLUSTERDOWN"];

/// After the failover the limits continue. Lost are at most the units in flight: the old primary
/// sends its replies and its stream in the same turn, so each client can have been told of one
/// call more than the replica was.
#[test]
fn limits_go_on_after_a_failover() {
    let mut cluster = Cluster::start(&Config::new(), NODE_TIMEOUT);
    let slot = 100;
    let dying = cluster.owner(slot);
    let mut keys = cluster.keys_in(&(0..=5000), "dying", 12);
    keys.extend(cluster.keys_in(&(6000..=16_383), "other", 12));
    let half_used = cluster.keys_in(&(0..=5000), "half", 3);
    use_up_to(&cluster, &half_used, 60);
    let heirs = cluster.replicas_of(dying);
    super::wait_for_replica(cluster.node(dying), cluster.node(heirs[0]));

    // Without tries of its own a client tells of every call that went wrong.
    let router = cluster.router(0);
    let ((), books) = under_load(&router, &keys, |answered| {
        wait_for_calls(answered, 500);
        cluster.node_mut(dying).kill();
        until("a replica takes over", || cluster.owner(slot) != dying);
        cluster.wait_until_agreed();
        wait_for_calls(answered, 500);
    });

    let heir = cluster.owner(slot);
    assert!(heirs.contains(&heir), "{heir} of {heirs:?} took over");
    expect_little_lost(&cluster, &books);
    // What the replica was told before, nobody has touched since.
    expect_lifetimes(cluster.node(heir), &half_used);
    use_up_to(&cluster, &half_used, 40);
    expect_used_up(&cluster, &half_used);

    // The old primary comes back as a replica, and takes over what it missed.
    cluster.node_mut(dying).start_again();
    cluster.wait_until_agreed();
    let moved: Vec<String> =
        keys.iter().filter(|key| cluster.slot(key) <= 5000).chain(&half_used).cloned().collect();
    expect_same(cluster.node(heir), cluster.node(dying), &moved);
}

/// Each client has at most one call in flight: so much may be missing, and so much may have been
/// applied without an answer.
fn expect_little_lost(cluster: &Cluster, books: &Books) {
    let mut routed = cluster.routed();
    let (mut taken, mut unsure, mut lost) = (0, 0, 0);
    for (key, tally) in &books.tallies {
        let counted = counted(&mut routed, key);
        taken += tally.taken;
        unsure += tally.unsure;
        lost += tally.taken.saturating_sub(counted);
        assert!(counted <= tally.taken + tally.unsure, "{key}: {counted}, {tally:?}");
        if !key.starts_with("dying") {
            assert!(counted >= tally.taken, "{key}: {counted}, {tally:?}, on a primary that lives");
        }
    }
    let errors = &books.errors;
    println!("{taken} taken, {lost} lost, {unsure} unsure, errors {errors:?}");
    assert!(lost <= CLIENTS, "{lost} of {taken} lost");
    assert!(taken >= 1000 && unsure >= 1, "{taken} taken, {unsure} unsure: nobody noticed");
    for code in errors.keys() {
        assert!(EXPECTED_ERRORS.contains(&code.as_str()), "{errors:?}");
    }
}

/// Takes so many units from a limit of 100 an hour; each must pass.
fn use_up_to(cluster: &Cluster, keys: &[String], units: u32) {
    let mut routed = cluster.routed();
    for (key, kind) in keys.iter().zip(0..) {
        for _ in 0..units {
            let reply = ask(&mut routed, &calls(key, 100)[kind]).expect("an answer");
            assert_eq!(reply.allowed, 1, "{key}: {reply:?}");
        }
    }
}

fn expect_used_up(cluster: &Cluster, keys: &[String]) {
    let mut routed = cluster.routed();
    for (key, kind) in keys.iter().zip(0..) {
        let reply = ask(&mut routed, &calls(key, 100)[kind]).expect("an answer");
        assert_eq!((reply.allowed, reply.remaining), (0, 0), "{key}: {reply:?}");
        assert_eq!(load::counted(&mut routed, key), 100, "{key}");
    }
}
