//! Under which names the server counts, times and logs what the module does.

use redis::Value;

use super::described::map;
use super::limits;
use super::support::{Client, Server, field, int, list, text};

/// Three calls of each command, one of them an error.
fn calls() -> [(&'static str, String, String); 8] {
    let [bucket, _, _] = limits("t");
    let [_, leaky, _] = limits("l");
    let [_, _, sliding] = limits("s");
    let bad = |call: &str| format!("{call} BANANA");
    [
        ("rl.tokenbucket", bucket.clone(), bad(&bucket)),
        ("rl.leaky", leaky.clone(), bad(&leaky)),
        ("rl.sliding", sliding.clone(), bad(&sliding)),
        ("rl.peek", "RL.PEEK t".to_owned(), bad("RL.PEEK t")),
        ("rl.info", "RL.INFO t".to_owned(), bad("RL.INFO t")),
        ("rl.refund", "RL.REFUND t 1".to_owned(), bad("RL.REFUND t 1")),
        ("rl.all", "RL.ALL 1 t TOKENBUCKET 5 1".to_owned(), bad("RL.ALL 1 t TOKENBUCKET 5 1")),
        ("rl.throttle", "RL.THROTTLE t 4 1 1".to_owned(), bad("RL.THROTTLE t 4 1 1")),
    ]
}

#[test]
fn commandstats_and_latency_count_by_command() {
    let server = Server::start();
    let mut client = server.client();
    for (name, good, bad) in calls() {
        client.ok(&good);
        client.ok(&good.to_lowercase());
        client.refused(&bad);
        client.refused(name);
        let info = client.info("commandstats");
        let stats = field(&info, &format!("cmdstat_{name}")).expect("it is counted").to_owned();
        for part in ["calls=3,", ",rejected_calls=1,", ",failed_calls=1"] {
            assert!(format!(",{stats}").contains(part), "{name}: {stats}");
        }
        let info = client.info("latencystats");
        assert!(field(&info, &format!("latency_percentiles_usec_{name}")).is_some(), "{name}");
        let histogram = map(&client.ok(&format!("LATENCY HISTOGRAM {name}")));
        assert_eq!(int(&map(&histogram[name])["calls"]), 3, "{name}");
    }
    let errors = client.info("errorstats");
    assert_eq!(field(&errors, "errorstat_ERR"), Some("count=16"), "two for each command");
}

/// The slow log holds the call as the client sent it.
#[test]
fn the_slow_log_shows_the_call() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("CONFIG SET slowlog-log-slower-than 0");
    for (_, good, bad) in calls() {
        for line in [&good, &good.to_lowercase(), &bad] {
            client.run(line);
            let entry = list(&list(&client.ok("SLOWLOG GET 1"))[0]);
            let words: Vec<String> = list(&entry[3]).iter().map(text).collect();
            assert_eq!(words.join(" "), *line);
        }
    }
}

#[test]
fn a_client_is_listed_with_its_last_command() {
    let server = Server::start();
    let (mut client, mut admin) = (server.client(), server.client());
    let id = client.int("CLIENT ID");
    for (name, good, _) in calls() {
        client.ok(&good);
        let listed = text(&admin.ok(&format!("CLIENT LIST ID {id}")));
        assert!(listed.contains(&format!(" cmd={name} ")), "{listed}");
    }
}

#[test]
fn a_replica_counts_effects() {
    let primary = Server::start();
    let replica = primary.replica();
    let mut client = primary.client();
    limits("k").iter().for_each(|call| drop(client.run(call)));
    limits("t").iter().take(1).for_each(|call| drop(client.ok(call)));
    super::support::wait_for_replica(&primary, &replica);
    let info = replica.client().info("commandstats");
    let stats = field(&info, "cmdstat_rl.effect").expect("it is counted");
    // The other two found a key of another type.
    assert!(stats.starts_with("calls=2,") && stats.contains("failed_calls=0"), "{stats}");
}

#[test]
fn the_module_is_listed_with_its_version() {
    let server = Server::start();
    let mut client = server.client();
    let modules: Vec<_> = list(&client.ok("MODULE LIST")).iter().map(map).collect();
    let ours = modules.iter().find(|module| text(&module["name"]) == "rl").expect("it is loaded");
    let version = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse::<i64>());
    let version = version.map(|part| part.expect("a number")).collect::<Vec<_>>();
    let [major, minor, patch] = version[..] else { panic!("{version:?}") };
    assert_eq!(ours["ver"], Value::Int(10_000 * major + 100 * minor + patch));
    let info = client.info("modules");
    let line = info.lines().find(|line| line.starts_with("module:name=rl,"));
    let line = line.expect("INFO modules lists it");
    for option in ["handle-io-errors", "handle-repl-async-load", "no-implicit-signal-modified"] {
        assert!(line.contains(option), "{line}");
    }
    expect_no_warning(&mut client, &server);
}

/// Loading leaves one line in the log, and it is no complaint.
fn expect_no_warning(client: &mut Client, server: &Server) {
    client.ok("PING");
    let log = server.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("'rl'")).collect();
    assert!(lines.iter().any(|line| line.contains("loaded from")), "{lines:?}");
    assert!(!log.contains("ratelimit"), "{log}");
}
