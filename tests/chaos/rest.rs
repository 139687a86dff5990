//! What every node must hold while nobody calls.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;

use super::{CRASHES, owners};
use crate::support::cluster::Cluster;
use crate::support::{Client, DEADLINE, bytes, int, ints, list, wait_for_replica};

/// Keys that are asked for at once.
const CHUNK: usize = 100;

/// Value and expiry of each key.
type Content = BTreeMap<Vec<u8>, (Vec<u8>, i64)>;

fn command(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

fn content(client: &mut Client) -> Content {
    let keys: Vec<Vec<u8>> = list(&client.ok("KEYS *")).iter().map(bytes).collect();
    let mut content = Content::new();
    for chunk in keys.chunks(CHUNK) {
        let calls: Vec<_> = chunk
            .iter()
            .flat_map(|key| [command(&[b"DUMP", key]), command(&[b"PEXPIRETIME", key])])
            .collect();
        let answers = client.pipeline(&calls);
        for (key, answer) in chunk.iter().zip(answers.chunks(2)) {
            // A key that is over between the two is over.
            if let (Value::BulkString(dump), expire_ms @ 0..) = (&answer[0], int(&answer[1])) {
                content.insert(key.clone(), (dump.clone(), expire_ms));
            }
            assert_ne!(int(&answer[1]), -1, "{} has no expiry", key.escape_ascii());
        }
    }
    content
}

/// Each replica holds what its primary holds, and each key of a primary lives as it should.
pub fn expect_equal(cluster: &Cluster) {
    for owner in owners(cluster) {
        let replica = cluster.node((owner + 3) % 6);
        wait_for_replica(cluster.node(owner), replica);
        let (mut here, mut there) = (cluster.node(owner).client(), replica.client());
        there.ok("READONLY");
        let start = Instant::now();
        // Keys end meanwhile, at one node a moment before the other.
        while let Some(key) = difference(&content(&mut here), &content(&mut there)) {
            let key = key.escape_ascii();
            assert!(start.elapsed() < DEADLINE, "{key} is another on the replica of {owner}");
            thread::sleep(Duration::from_millis(20));
        }
        expect_lifetimes(&mut here);
    }
}

fn difference(here: &Content, there: &Content) -> Option<Vec<u8>> {
    let mut keys = here.keys().chain(there.keys());
    keys.find(|&key| here.get(key) != there.get(key)).cloned()
}

/// The lifetime of each key is the time to its reset, and at most a second more.
fn expect_lifetimes(client: &mut Client) {
    let keys: Vec<Vec<u8>> = list(&client.ok("KEYS *")).iter().map(bytes).collect();
    for chunk in keys.chunks(CHUNK) {
        let calls: Vec<_> = chunk
            .iter()
            .flat_map(|key| [command(&[b"RL.PEEK", key]), command(&[b"PEXPIRETIME", key])])
            .collect();
        let before_ms = client.time_us() / 1000;
        let answers = client.pipeline(&calls);
        let after_ms = client.time_us() / 1000 + 1;
        for (key, answer) in chunk.iter().zip(answers.chunks(2)) {
            let (Some(elements), expire_ms @ 0..) = (ints(&answer[0]), int(&answer[1])) else {
                continue;
            };
            let lives = before_ms + elements[4] - 1..=after_ms + elements[4] + 1000;
            let key = key.escape_ascii();
            assert!(lives.contains(&expire_ms), "{key} lives until {expire_ms}, not {lives:?}");
        }
    }
}

/// No server has said that it crashed or could not read its files.
pub fn expect_no_crash(cluster: &Cluster) {
    for node in cluster.nodes() {
        let log = node.log();
        let found = log.lines().find(|line| CRASHES.iter().any(|sign| line.contains(sign)));
        assert_eq!(found, None, "the log of the server on port {}", node.port());
    }
}
