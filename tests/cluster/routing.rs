//! Which node a call goes to.

use redis::Value;

use super::PATIENT;
use super::calls;
use super::load::{ask, run};
use super::support::cluster::Cluster;
use super::support::{Client, Config, Several, error_text, int, list, text, words};

/// BR-258 spring-cloud/spring-cloud-gateway#248, BR-259 apache/shenyu#2808, BR-260
/// swoft-cloud/swoft#1049, BR-261 zotero/dataserver#63, BR-263 SGrondin/bottleneck#180: on a
/// cluster of three every limiter call on any key works, with MOVED only for a slot that lives
/// elsewhere and never CROSSSLOT.
#[test]
fn every_call_goes_where_its_key_is() {
    let cluster = Cluster::start(&Config::new(), PATIENT);
    every_key_works_without_a_redirect(&cluster);
    keys_of_one_tag_are_together(&cluster);
    // From here on calls go astray on purpose.
    a_call_that_goes_astray_is_sent_on(&cluster);
    the_key_is_found_in_the_words(&cluster);
    one_call_takes_from_keys_of_one_tag(&cluster);
    keys_of_several_slots_are_refused(&cluster);
}

/// The client asks for the topology once. After that no node has to send it elsewhere.
fn every_key_works_without_a_redirect(cluster: &Cluster) {
    let mut routed = cluster.routed();
    let mut keys: Vec<String> = (0..300).map(|number| format!("user:{number}")).collect();
    keys.extend(["{user:42}:search", "a{b}c", "{}", "{}x", "x{", "}{", "ключ"].map(str::to_owned));
    for key in &keys {
        for (kind, call) in calls("", 3).iter().enumerate() {
            let (name, rest) = call.split_once("  ").expect("a call");
            let key = format!("{key}:{kind}");
            let call = format!("{name} {key} {rest}");
            for (allowed, remaining) in [(1, 2), (1, 1), (1, 0), (0, 0)] {
                let reply = ask(&mut routed, &call).expect("an answer");
                assert_eq!((reply.allowed, reply.remaining), (allowed, remaining), "{call}");
            }
            let peeked = ask(&mut routed, &format!("RL.PEEK {key}")).expect("an answer");
            assert_eq!((peeked.allowed, peeked.limit), (0, 3), "{call}");
            let refunded = ask(&mut routed, &format!("RL.REFUND {key} 1")).expect("an answer");
            assert_eq!(refunded.remaining, 1, "{call}");
            let info = run(&mut routed, &format!("RL.INFO {key}")).expect("an answer");
            assert_ne!(info, Value::Nil, "{call}");
        }
    }
    expect_no_error(cluster);
    let took_part = |index: usize| {
        let stats = cluster.node(index).client().info("commandstats");
        stats.contains("cmdstat_rl.tokenbucket")
    };
    for index in 0..3 {
        assert!(took_part(index) && !took_part(index + 3), "primaries alone serve, {index}");
    }
}

/// Several limits of one user, tied by a hash tag, work in one transaction and in one script.
fn keys_of_one_tag_are_together(cluster: &Cluster) {
    let slot = cluster.slot("{user:7}:second");
    assert_eq!(cluster.slot("{user:7}:hour"), slot);
    assert_eq!(cluster.slot("user:7"), slot);
    let mut client = cluster.node(cluster.owner(slot)).client();
    let second = "RL.TOKENBUCKET {user:7}:second 10 10";
    let hour = "RL.SLIDING {user:7}:hour 1000 3600000";
    let sent = ["MULTI", second, hour, "EXEC"].map(words);
    let both = list(client.pipeline(&sent).last().expect("an answer to EXEC"));
    assert_eq!(both.iter().map(|reply| int(&list(reply)[0])).collect::<Vec<_>>(), [1, 1]);
    let script = "local a = redis.call('RL.TOKENBUCKET', KEYS[1], 10, 10) \
                  local b = redis.call('RL.SLIDING', KEYS[2], 1000, 3600000) \
                  return {a[1], b[1], b[3]}";
    let eval = ["EVAL", script, "2", "{user:7}:second", "{user:7}:hour"];
    assert_eq!(list(&client.call(&eval)), [Value::Int(1), Value::Int(1), Value::Int(998)]);
    expect_no_error(cluster);
}

/// RL.ALL takes from all keys of a user in one call, where they are. This client library takes the
/// first word, which is the number of keys, for the key of a command that it does not know, so it
/// is sent on where it went astray.
fn one_call_takes_from_keys_of_one_tag(cluster: &Cluster) {
    let mut routed = cluster.routed();
    for user in 0..100 {
        let (second, hour) = (format!("{{all:{user}}}:second"), format!("{{all:{user}}}:hour"));
        let rules = "TOKENBUCKET 2 1 PER 3600000 SLIDING 9 3600000";
        for (allowed, over, remaining) in [(1, -1, 8), (1, -1, 7), (0, 0, 7)] {
            let call = format!("RL.ALL 2 {second} {hour} {rules}");
            let answer = run(&mut routed, &call).expect("an answer");
            let answer = Several::new(&answer).expect("a reply of RL.ALL");
            assert_eq!((answer.allowed, answer.over), (allowed, over), "{call}");
            assert_eq!(answer.rules[1].remaining, remaining, "{call}");
            // The keys are where every other call finds them.
            let peeked = ask(&mut routed, &format!("RL.PEEK {hour}")).expect("an answer");
            assert_eq!(peeked.remaining, remaining, "{call}");
        }
    }
    let stats = |index: usize| cluster.node(index).client().info("commandstats");
    for index in 0..3 {
        assert!(stats(index).contains("cmdstat_rl.all"), "primaries share the calls, {index}");
    }
    let codes: Vec<String> = cluster.errors().into_keys().collect();
    assert_eq!(codes, ["MOVED"], "CROSSSLOT among the errors, or worse");
}

/// Keys of two slots are CROSSSLOT at any node, even where one node serves both.
fn keys_of_several_slots_are_refused(cluster: &Cluster) {
    let owner = cluster.owner(0);
    let keys = cluster.keys_in(&(0..=200), "far", 2);
    assert_ne!(cluster.slot(&keys[0]), cluster.slot(&keys[1]));
    let rules = "SLIDING 9 1000 SLIDING 9 1000";
    let call = format!("RL.ALL 2 {} {} {rules}", keys[0], keys[1]);
    let same_call = format!("RL.ALL 2 {{s}}a {{s}}b {rules}");
    let (slot, home) = (cluster.slot("s"), cluster.owner(cluster.slot("s")));
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.node(home).port());
    for index in 0..6 {
        let mut client = cluster.node(index).client();
        let refused = client.refused(&call);
        assert!(refused.starts_with("CROSSSLOT "), "{call} at node {index}: {refused}");
        if index != home {
            assert_eq!(client.refused(&same_call), moved, "{same_call} at node {index}");
        }
    }
    let mut client = cluster.node(owner).client();
    assert_eq!(client.int(&format!("EXISTS {}", keys[0])), 0);
    assert_eq!(cluster.node(home).client().all(&same_call).allowed, 1);
    // In a transaction and in a script, too.
    let mut client = cluster.node(home).client();
    let queued = client.pipeline(&["MULTI", &call, "EXEC"].map(words));
    let refused = error_text(&queued[1]).expect("an error");
    assert!(refused.starts_with("CROSSSLOT ") || refused.starts_with("MOVED "), "{refused}");
    let script = "return redis.call(unpack(ARGV))";
    let eval = ["EVAL", script, "2", "{s}a", "{s}b"].into_iter().chain(same_call.split(' '));
    let answer = client.call(&eval.collect::<Vec<_>>());
    assert_eq!(Several::new(&answer).expect("a reply of RL.ALL").allowed, 1);
}

fn expect_no_error(cluster: &Cluster) {
    assert_eq!(cluster.errors().into_iter().collect::<Vec<_>>(), [], "MOVED or CROSSSLOT");
    assert_eq!(cluster.failed_calls(), [], "calls that failed");
}

/// A node that does not serve a slot says who does, whatever the call; a replica answers looks
/// where the client asks for that.
fn a_call_that_goes_astray_is_sent_on(cluster: &Cluster) {
    let slot = cluster.slot("astray");
    let owner = cluster.owner(slot);
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.node(owner).port());
    let limits = calls("astray", 3);
    let looks = ["RL.PEEK astray", "RL.INFO astray"];
    let others = ["RL.REFUND astray 1", "RL.EFFECT astray x"];
    for index in (0..6).filter(|&index| index != owner) {
        let mut client = cluster.node(index).client();
        for line in limits.iter().map(String::as_str).chain(looks).chain(others) {
            assert_eq!(client.refused(line), moved, "{line} at node {index}");
        }
    }
    let mut client = cluster.node(owner).client();
    client.limit(&limits[0]);
    let replica = cluster.node(cluster.replicas_of(owner)[0]);
    super::wait_for_replica(cluster.node(owner), replica);
    let mut reader = replica.client();
    reader.ok("READONLY");
    let peeked = reader.limit("RL.PEEK astray");
    assert_eq!((peeked.limit, peeked.remaining), (3, 2));
    assert_ne!(reader.ok("RL.INFO astray"), Value::Nil);
    for line in [limits[0].clone(), "RL.REFUND astray 1".to_owned()] {
        assert_eq!(reader.refused(&line), moved, "{line}: what takes goes to the primary");
    }
    let codes: Vec<String> = cluster.errors().into_keys().collect();
    assert_eq!(codes, ["MOVED"], "CROSSSLOT among the errors, or worse");
}

/// The node is asked, as a client library may, for the keys of a call.
fn the_key_is_found_in_the_words(cluster: &Cluster) {
    let mut client = cluster.node(0).client();
    let others = ["RL.PEEK {k}a", "RL.INFO {k}a", "RL.REFUND {k}a 1", "RL.EFFECT {k}a payload"];
    for line in calls("{k}a", 3).iter().map(String::as_str).chain(others) {
        let keys = list(&client.ok(&format!("COMMAND GETKEYS {line}")));
        assert_eq!(keys.iter().map(text).collect::<Vec<_>>(), ["{k}a"], "{line}");
        expect_flags(&mut client, line);
    }
}

/// COMMAND GETKEYSANDFLAGS tells also what is done with the key.
fn expect_flags(client: &mut Client, line: &str) {
    let keys = list(&client.ok(&format!("COMMAND GETKEYSANDFLAGS {line}")));
    let [key] = &keys[..] else { panic!("{line}: {keys:?}") };
    let [name, flags] = &list(key)[..] else { panic!("{line}: {key:?}") };
    assert_eq!(text(name), "{k}a", "{line}");
    let flags: Vec<String> = list(flags).iter().map(text).collect();
    let looks = line.starts_with("RL.PEEK") || line.starts_with("RL.INFO");
    let expected: &[&str] = if looks { &["RO", "access"] } else { &["RW", "access", "update"] };
    assert_eq!(flags, expected, "{line}");
}
