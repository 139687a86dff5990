//! Slots that move to another primary while their limits are called.
//!
//! Old servers move key by key, with MIGRATE; Valkey 9 and Redis 8.4 also move whole slots at
//! once, with a snapshot and the stream of changes behind it, which carries the module's effects.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Instant;

use redis::Value;

use super::load::{CLIENTS, counted, expect_all_counted, run, under_load, wait_for_calls};
use super::support::cluster::{Cluster, keys_in_slot};
use super::support::{
    Client, Config, Product, Server, Version, bytes, field, list, text, until, words,
};
use super::{PATIENT, calls, expect_lifetimes, expect_same, state};

/// The slots that move, of the first primary's.
const MOVING: RangeInclusive<u16> = 1000..=1039;
/// The node that they leave, and the one that they come to.
const FROM: usize = 0;
const TO: usize = 1;

/// BR-266 stefanprodan/AspNetCoreRateLimit#289: the state and its lifetime survive the migration
/// of a slot, here key by key: MIGRATE sends the time that is left, so what it takes itself is
/// added to a lifetime and never taken off.
#[test]
fn slots_move_key_by_key_under_load() {
    let cluster = Cluster::start(&Config::new(), PATIENT);
    let scene = Scene::new(&cluster);
    let start = Instant::now();
    scene.moves_under_load(&cluster, || move_by_migrate(&cluster));
    let took_ms = i64::try_from(start.elapsed().as_millis()).expect("a short time") + 1;
    scene.expect_idle_states(&cluster, 0..=took_ms);
}

/// RL.ALL in a slot that moves key by key takes from all its keys where all are, and from none
/// where they are in two places: the server answers TRYAGAIN until the rest has moved.
#[test]
fn several_limits_wait_for_all_of_their_keys() {
    let cluster = Cluster::start(&Config::new(), PATIENT);
    let slot = *MOVING.start();
    let tag = &cluster.keys_in(&(slot..=slot), "tag", 1)[0];
    let [first, second] = ["first", "second"].map(|name| format!("{{{tag}}}:{name}"));
    let call = format!("RL.ALL 2 {first} {second} SLIDING 9 3600000 TOKENBUCKET 9 1 PER 3600000");
    let (mut from, mut to) = (cluster.node(FROM).client(), cluster.node(TO).client());
    let port = cluster.node(TO).port();
    let expect_taken = |client: &mut Client, remaining: [i64; 2]| {
        let answer = client.all(&call);
        assert_eq!((answer.allowed, answer.over), (1, -1));
        assert_eq!([0, 1].map(|rule: usize| answer.rules[rule].remaining), remaining);
    };
    expect_taken(&mut from, [8, 8]);

    let (from_id, to_id) = (cluster.id(FROM), cluster.id(TO));
    to.ok(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}"));
    from.ok(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}"));
    expect_taken(&mut from, [7, 7]);

    migrate(&mut from, cluster.node(TO), &[first.clone().into_bytes()]);
    for client in [&mut from, &mut to] {
        client.ok("ASKING");
        let refused = client.refused(&call);
        assert!(refused.starts_with("TRYAGAIN "), "{refused}");
    }
    to.ok("ASKING");
    assert_eq!(to.limit(&format!("RL.PEEK {first}")).remaining, 7, "nothing was taken");
    assert_eq!(from.limit(&format!("RL.PEEK {second}")).remaining, 7, "nothing was taken");

    migrate(&mut from, cluster.node(TO), &[second.into_bytes()]);
    assert_eq!(from.refused(&call), format!("ASK {slot} 127.0.0.1:{port}"));
    to.ok("ASKING");
    expect_taken(&mut to, [6, 6]);

    for client in [&mut to, &mut from] {
        client.ok(&format!("CLUSTER SETSLOT {slot} NODE {to_id}"));
    }
    expect_taken(&mut to, [5, 5]);
    assert_eq!(from.refused(&call), format!("MOVED {slot} 127.0.0.1:{port}"));
}

/// BR-266, by the server's own way to move a slot whole: state and absolute expiry are the same to
/// the bit. The node that takes the slots writes them to its append-only file, too.
#[test]
fn slots_move_whole_under_load() {
    let version = Server::start().version();
    let Some(atomic) = Atomic::of(version) else {
        return expect_no_atomic_way(version);
    };
    let config = atomic.config().line("appendonly yes");
    let mut cluster = Cluster::start(&config, PATIENT);
    let scene = Scene::new(&cluster);
    let keys = add_ballast(&cluster);
    let events = Events::of(cluster.node(TO));
    scene.moves_under_load(&cluster, || atomic.move_slots(&cluster));
    scene.expect_idle_states(&cluster, 0..=0);
    // The busy keys come on top, as far as they had not been called before.
    let arrived = keys_moving(&cluster, TO);
    assert!((keys..=keys + 30).contains(&arrived), "{keys} keys moved, {arrived} arrived");
    expect_effects_in_the_stream(&cluster, atomic, keys);
    events.expect_calls_only(cluster.node(TO));

    let mut client = cluster.node(TO).client();
    let all: Vec<String> = scene.idle.keys().chain(&scene.busy).cloned().collect();
    let before: Vec<_> = all.iter().map(|key| state(&mut client, key)).collect();
    cluster.node_mut(TO).kill_and_restart();
    cluster.wait_until_agreed();
    let mut client = cluster.node(TO).client();
    let after: Vec<_> = all.iter().map(|key| state(&mut client, key)).collect();
    assert_eq!(after, before, "from the append-only file");
}

/// So many keys in the moving slots that their snapshot takes a while, in which calls go on; how
/// many keys the slots hold now.
fn add_ballast(cluster: &Cluster) -> i64 {
    let mut client = cluster.node(FROM).client();
    for tag in cluster.keys_in(&MOVING, "ballast", 20) {
        let calls: Vec<_> =
            (0..1000).map(|n| words(&calls(&format!("{{{tag}}}:{n}"), 9)[n % 3])).collect();
        client.pipeline(&calls);
    }
    keys_moving(cluster, FROM)
}

/// The keys that a node holds in the slots that move.
fn keys_moving(cluster: &Cluster, node: usize) -> i64 {
    let mut client = cluster.node(node).client();
    MOVING.map(|slot| client.int(&format!("CLUSTER COUNTKEYSINSLOT {slot}"))).sum()
}

/// Calls that were made behind the snapshot came as effects; Valkey sends the snapshot so as well.
fn expect_effects_in_the_stream(cluster: &Cluster, atomic: Atomic, keys: i64) {
    let stats = cluster.node(TO).client().info("commandstats");
    let effects = field(&stats, "cmdstat_rl.effect").and_then(calls_of);
    let snapshot = if matches!(atomic, Atomic::Valkey) { keys } else { 0 };
    println!("{keys} keys came with {effects:?} effects");
    assert!(effects > Some(snapshot), "{effects:?} effects, {snapshot} of the snapshot: {stats}");
}

/// The module's keyspace events on a node.
struct Events {
    subscriber: Client,
}

impl Events {
    fn of(server: &Server) -> Events {
        server.client().ok("CONFIG SET notify-keyspace-events Ed");
        let mut subscriber = server.client();
        subscriber.send(&["PSUBSCRIBE", "__keyevent@0__:rl.*", "mark"]);
        (0..2).for_each(|_| drop(subscriber.read()));
        Events { subscriber }
    }

    /// Each call that the node answered was heard once, and nothing that moved in.
    fn expect_calls_only(mut self, server: &Server) {
        let mut client = server.client();
        let stats = client.info("commandstats");
        let calls = ["tokenbucket", "leaky", "sliding"].map(|name| {
            let stats = field(&stats, &format!("cmdstat_rl.{name}")).unwrap_or("calls=0,");
            calls_of(stats).expect("a count")
        });
        client.ok("PUBLISH mark x");
        let heard = std::iter::from_fn(|| {
            let message = list(&self.subscriber.read());
            let (channel, key) = (text(&message[2]), text(&message[3]));
            (channel != "mark").then_some((channel, key))
        });
        let heard: Vec<(String, String)> = heard.collect();
        assert!(heard.iter().all(|(channel, _)| channel.ends_with(":rl.allowed")));
        assert_eq!(i64::try_from(heard.len()), Ok(calls.iter().sum()), "{calls:?} calls");
    }
}

/// How many calls a line of INFO commandstats tells of.
fn calls_of(stats: &str) -> Option<i64> {
    stats.strip_prefix("calls=")?.split(',').next()?.parse().ok()
}

/// Keys of the moving slots: some that are called meanwhile and some that are left alone.
struct Scene {
    busy: Vec<String>,
    idle: BTreeMap<String, (Vec<u8>, i64)>,
}

impl Scene {
    fn new(cluster: &Cluster) -> Scene {
        assert_eq!(cluster.owner(*MOVING.start()), FROM);
        let busy = cluster.keys_in(&MOVING, "busy", 30);
        let mut routed = cluster.routed();
        let mut client = cluster.node(FROM).client();
        let idle = cluster.keys_in(&MOVING, "idle", 30);
        for (key, number) in idle.iter().zip(1..) {
            let call = &calls(key, 1000)[number % 3];
            // Logs of many hits among them, as they have more than one block.
            for _ in 0..(number * 20) {
                run(&mut routed, call).expect("an answer");
            }
            run(&mut routed, &format!("{call} COST {number} FORCE")).expect("an answer");
        }
        let idle = idle.into_iter().map(|key| (key.clone(), state(&mut client, &key))).collect();
        Scene { busy, idle }
    }

    /// Moves the slots while other clients call the busy keys, then looks whether all was kept.
    fn moves_under_load(&self, cluster: &Cluster, moving: impl FnOnce()) {
        let elsewhere = cluster.keys_in(&(6000..=16_383), "elsewhere", 6);
        let keys = [self.busy.clone(), elsewhere].concat();
        let ((), books) = under_load(&cluster.router(16), &keys, |answered| {
            wait_for_calls(answered, 300);
            moving();
            cluster.wait_until_agreed();
            wait_for_calls(answered, 300);
        });
        for slot in MOVING {
            assert_eq!(cluster.owner(slot), TO, "slot {slot}");
        }
        assert!(books.errors.is_empty(), "{:?} in spite of tries", books.errors);
        let taken: u64 = books.tallies.values().map(|tally| tally.taken).sum();
        println!("{taken} calls of {CLIENTS} clients, {:?}", cluster.errors());
        expect_all_counted(&mut cluster.routed(), &books);
        expect_lifetimes(cluster.node(TO), &self.busy);
        self.expect_no_trouble(cluster);
        let all: Vec<String> = self.idle.keys().chain(&self.busy).cloned().collect();
        for replica in cluster.replicas_of(TO) {
            expect_same(cluster.node(TO), cluster.node(replica), &all);
        }
    }

    /// Nothing but redirects was answered to anybody, and no server had to say anything.
    fn expect_no_trouble(&self, cluster: &Cluster) {
        for code in cluster.errors().into_keys() {
            assert!(["MOVED", "ASK", "TRYAGAIN"].contains(&code.as_str()), "{code} was answered");
        }
        assert_eq!(cluster.failed_calls(), [], "calls and effects that failed");
        for node in cluster.nodes() {
            let log = node.log();
            assert!(!log.contains("bug in the module rl"), "{log}");
            assert!(!log.contains("internal"), "{log}");
        }
    }

    /// What nobody touched has the same value, and lives longer by no more than `longer_ms`.
    fn expect_idle_states(&self, cluster: &Cluster, longer_ms: RangeInclusive<i64>) {
        let mut client = cluster.node(TO).client();
        for (key, (dump, expire_ms)) in &self.idle {
            let (new_dump, new_expire_ms) = state(&mut client, key);
            assert_eq!(&new_dump, dump, "{key}");
            let longer = new_expire_ms - expire_ms;
            assert!(longer_ms.contains(&longer), "{key} lives {longer} ms longer");
        }
        let mut routed = cluster.routed();
        let counted: u64 = self.idle.keys().map(|key| counted(&mut routed, key)).sum();
        assert!(counted > 1000, "{counted} units remembered");
    }
}

/// The way of redis-cli's reshard: slot by slot, key by key.
fn move_by_migrate(cluster: &Cluster) {
    let (from_id, to_id) = (cluster.id(FROM), cluster.id(TO));
    let (mut from, mut to) = (cluster.node(FROM).client(), cluster.node(TO).client());
    for slot in MOVING {
        to.ok(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}"));
        from.ok(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}"));
        loop {
            let keys = keys_in_slot(&mut from, slot, 3);
            if keys.is_empty() {
                break;
            }
            migrate(&mut from, cluster.node(TO), &keys);
        }
        // The new owner first: otherwise nobody would serve the slot for a while.
        for client in [&mut to, &mut from] {
            client.ok(&format!("CLUSTER SETSLOT {slot} NODE {to_id}"));
        }
    }
}

fn migrate(from: &mut Client, to: &Server, keys: &[Vec<u8>]) {
    let port = to.port().to_string();
    let words = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
    let mut call: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    call.extend_from_slice(keys);
    assert_eq!(text(&from.call(&call)), "OK", "MIGRATE of {keys:?}");
}

/// A server's way to move whole slots.
#[derive(Clone, Copy)]
enum Atomic {
    /// The node that has them sends them: Valkey from 9 on.
    Valkey,
    /// The node that wants them takes them: Redis from 8.4 on.
    Redis,
}

impl Atomic {
    fn of(version: Version) -> Option<Atomic> {
        match version.product {
            Product::Valkey if version.number >= (9, 0, 0) => Some(Atomic::Valkey),
            Product::Redis if version.number >= (8, 4, 0) => Some(Atomic::Redis),
            _ => None,
        }
    }

    /// Nodes of Valkey push slots with the rights of the user that they log in with at each other:
    /// these are all that it needs.
    fn config(self) -> Config {
        match self {
            Atomic::Valkey => Config::new()
                .line("user default on nopass ~* &* +@all")
                .line(
                    "user nodes on >secret ~* -@all +ping +psync +sync +replconf +select \
                     +pexpireat +del +unlink +cluster|syncslots +rl.effect",
                )
                .line("primaryuser nodes")
                .line("primaryauth secret"),
            Atomic::Redis => Config::new(),
        }
    }

    fn move_slots(self, cluster: &Cluster) {
        let (first, last) = (MOVING.start(), MOVING.end());
        let to_id = cluster.id(TO);
        let (node, start, ask) = match self {
            Atomic::Valkey => (
                FROM,
                format!("CLUSTER MIGRATESLOTS SLOTSRANGE {first} {last} NODE {to_id}"),
                "CLUSTER GETSLOTMIGRATIONS",
            ),
            Atomic::Redis => (
                TO,
                format!("CLUSTER MIGRATION IMPORT {first} {last}"),
                "CLUSTER MIGRATION STATUS ALL",
            ),
        };
        let mut client = cluster.node(node).client();
        client.ok(&start);
        until("the slots have moved", || {
            let job = &list(&client.ok(ask))[0];
            let state = pairs(job).remove("state").expect("a state");
            assert!(!["failed", "cancelled", "canceled"].contains(&state.as_str()), "{job:?}");
            ["success", "completed"].contains(&state.as_str())
        });
    }
}

/// The texts in a flat list of names and values.
fn pairs(flat: &Value) -> BTreeMap<String, String> {
    let shown = |value: &Value| match value {
        Value::BulkString(_) | Value::SimpleString(_) => {
            String::from_utf8_lossy(&bytes(value)).into_owned()
        }
        other => format!("{other:?}"),
    };
    list(flat).chunks(2).map(|pair| (shown(&pair[0]), shown(&pair[1]))).collect()
}

/// Other servers know no such way, and say so.
fn expect_no_atomic_way(version: Version) {
    let server = Server::with(&Config::new().line("cluster-enabled yes"));
    let mut client = server.client();
    for line in ["CLUSTER MIGRATESLOTS SLOTSRANGE 1 2 NODE x", "CLUSTER MIGRATION IMPORT 1 2"] {
        let refused = client.refused(line).to_lowercase();
        assert!(refused.contains("unknown subcommand"), "{version:?}: {line}: {refused}");
    }
}
