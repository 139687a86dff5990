//! Whoever begins to listen, a replica or the append-only file, gets every effect from then on,
//! also where the module has made none before because nobody listened.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use super::mix::Mix;
use super::support::{Client, Config, Product, Server, beside, field, until};
use super::{LIMITERS, assert_equal, assert_same, contents, info_number};

/// Whether the server tells the module of everybody who begins to listen.
fn tells_of_listeners(server: &Server) -> bool {
    let version = server.version();
    match version.product {
        Product::Redis => version.number < (8, 4, 0),
        Product::Valkey => version.number < (9, 0, 0),
        Product::Redict => true,
    }
}

fn makes_effects(client: &mut Client) -> bool {
    info_number(client, "rl_replication", "rl_effects_made") == 1
}

/// Waits until the module makes no effects, where it ever stops that.
fn wait_for_silence(server: &Server) {
    let mut client = server.client();
    if tells_of_listeners(server) {
        until("the module makes no effects", || !makes_effects(&mut client));
    } else {
        assert!(makes_effects(&mut client));
    }
}

/// Calls of every kind on `server` while `body` runs, and then what makes keys comparable.
fn under_load(server: &Server, seed: u64, body: impl FnOnce()) {
    let calls = |over: &AtomicBool| {
        let (mut mix, mut client) = (Mix::new(seed), server.client());
        while !over.load(Ordering::Relaxed) {
            mix.run(&mut client, 100);
        }
        mix.settle(&mut client);
    };
    beside([calls], body);
}

/// No question was asked of the replica: it got effects and nothing else.
fn assert_got_effects_only(replica: &Server) {
    let info = replica.client().info("commandstats");
    for command in ["tokenbucket", "leaky", "sliding", "refund", "all"] {
        assert_eq!(field(&info, &format!("cmdstat_rl.{command}")), None, "{info}");
    }
    assert!(field(&info, "cmdstat_rl.effect").is_some(), "{info}");
}

#[test]
fn a_replica_that_comes_under_load_gets_everything() {
    let version = Server::start().version();
    let mut ways = vec![
        (81, "repl-diskless-sync no"),
        (82, "repl-diskless-sync yes"),
        (83, "repl-diskless-sync-delay 1"),
    ];
    // The snapshot by one connection, what follows by another.
    match version.product {
        Product::Redis if version.number >= (8, 0, 0) => ways.push((84, "repl-rdb-channel yes")),
        Product::Valkey => ways.push((84, "dual-channel-replication-enabled yes")),
        _ => {}
    }
    for (seed, way) in ways {
        let primary = Server::with(&Config::new().line(way));
        under_load(&primary, seed, || wait_for_silence(&primary));
        let mut replica = None;
        under_load(&primary, seed + 10, || {
            let follow = format!("replicaof 127.0.0.1 {}", primary.port());
            let config = Config::new().line(way).line(&follow);
            let started = replica.insert(Server::with(&config));
            let mut client = started.client();
            until("the replica is linked", || {
                field(&client.info("replication"), "master_link_status") == Some("up")
            });
        });
        let replica = replica.expect("it was started");
        assert!(makes_effects(&mut primary.client()));
        assert_same(&primary, &replica, way);
        assert_got_effects_only(&replica);
    }
}

/// The file that is begun under load holds every change that follows, as an effect.
#[test]
fn an_append_only_file_that_is_begun_under_load_gets_everything() {
    let mut server = Server::with(&Config::new().line("appendfsync always"));
    under_load(&server, 85, || wait_for_silence(&server));
    under_load(&server, 86, || {
        let mut client = server.client();
        client.ok("CONFIG SET appendonly yes");
        client.ok("CONFIG REWRITE");
        server.wait_for_background_jobs();
        let calls = info_number(&mut client, "rl_stats", "rl_tokenbucket_allowed");
        until("calls have gone on", || {
            info_number(&mut client, "rl_stats", "rl_tokenbucket_allowed") > calls + 100
        });
    });
    assert!(makes_effects(&mut server.client()));
    let before = contents(&mut server.client());
    server.kill_and_restart();
    assert_equal(&before, &contents(&mut server.client()), "after a kill");
    assert!(makes_effects(&mut server.client()), "from the start on");
    let folder = fs::read_dir(server.dir().join("appendonlydir")).expect("its folder");
    for file in folder {
        let bytes = fs::read(file.expect("an entry").path()).expect("a file");
        let asks = b"RL.TOKENBUCKET";
        assert!(!bytes.windows(asks.len()).any(|part| part == asks), "a question in the file");
    }
}

/// What nobody gets is counted all the same, so that `save` lines work; denials are not.
#[test]
fn changes_count_where_nobody_listens() {
    let server = Server::start();
    wait_for_silence(&server);
    let mut client = server.client();
    let changes =
        |client: &mut Client| info_number(client, "persistence", "rdb_changes_since_last_save");
    for (_, call) in LIMITERS {
        for expected in [1, 1, 0] {
            let before = changes(&mut client);
            client.limit(call);
            assert_eq!(changes(&mut client) - before, expected, "{call}");
        }
    }
    let before = changes(&mut client);
    client.ok("RL.ALL 2 a b TOKENBUCKET 5 1 PER 3600000 SLIDING 5 3600000");
    assert_eq!(changes(&mut client) - before, 2, "one for each key");
}

/// A replica that is promoted has heard of everything, and its own replica hears on.
#[test]
fn a_promoted_replica_makes_effects() {
    let primary = Server::start();
    let replica = primary.replica();
    let mut client = replica.client();
    client.ok("REPLICAOF NO ONE");
    assert!(makes_effects(&mut client), "its backlog listens");
    let second = replica.replica();
    under_load(&replica, 87, || {
        until("effects arrive", || {
            let info = second.client().info("commandstats");
            field(&info, "cmdstat_rl.effect").is_some()
        });
    });
    assert_same(&replica, &second, "promoted");
    assert_got_effects_only(&second);
}
