//! Links that break, data sets that are sent whole, chains, and a replica that goes on alone.

use super::mix::Mix;
use super::paused::Paused;
use super::support::{Client, Config, Server, field, until, wait_for_replica};
use super::{LIMITERS, assert_equal, assert_same, contents, info_number};

/// The smallest backlog that a server keeps.
const SMALL_BACKLOG: &str = "repl-backlog-size 16384";

/// How often replicas were given the whole data set, and how often only what they had missed.
fn syncs(primary: &Server) -> (i64, i64) {
    let mut client = primary.client();
    let mut number = |name| info_number(&mut client, "stats", name);
    (number("sync_full"), number("sync_partial_ok"))
}

/// Times that each link is cut.
const CUTS: i64 = 4;

/// Lets `cutter` cut its link of one kind while calls go on, again and again; `upper` is the upper
/// end of that link.
fn cut(mix: &mut Mix, client: &mut Client, cutter: &Server, kind: &str, upper: &Server) {
    for _ in 0..CUTS {
        let before = syncs(upper);
        mix.run(client, 100);
        let kill = format!("CLIENT KILL TYPE {kind}");
        until("a link is there, and cut", || cutter.client().int(&kill) == 1);
        mix.run(client, 100);
        until("the replica is back", || syncs(upper) != before);
    }
}

#[test]
fn a_link_that_is_cut_is_taken_up_where_it_was() {
    let primary = Server::start();
    let replica = primary.replica();
    let second = replica.replica();
    let mut mix = Mix::new(61);
    let mut client = primary.client();
    let before = [&primary, &replica].map(syncs);
    cut(&mut mix, &mut client, &primary, "replica", &primary);
    cut(&mut mix, &mut client, &replica, "master", &primary);
    cut(&mut mix, &mut client, &replica, "replica", &replica);
    cut(&mut mix, &mut client, &second, "master", &replica);
    mix.settle(&mut client);
    assert_same(&primary, &replica, "after cuts");
    wait_for_replica(&replica, &second);
    assert_same(&primary, &second, "after cuts further down");
    let expected = before.map(|(full, partial)| (full, partial + 2 * CUTS));
    assert_eq!([&primary, &replica].map(syncs), expected, "only what was missed was sent");
}

/// How a data set gets to a replica: what the primary and the replica are told of it.
const WAYS: [(&str, &str, &str); 3] = [
    ("by file", "repl-diskless-sync no", "repl-diskless-load disabled"),
    ("by socket", "repl-diskless-sync yes", "repl-diskless-load disabled"),
    ("by socket, loaded beside the old", "repl-diskless-sync yes", "repl-diskless-load swapdb"),
];

/// Whole data sets, to replicas that hold older states of the same keys.
#[test]
fn a_data_set_is_sent_whole() {
    for (way, of_primary, of_replica) in WAYS {
        let primary = Server::with(&Config::new().line(of_primary).line(SMALL_BACKLOG));
        let replica = primary.replica_with(Config::new().line(of_replica));
        let mut mix = Mix::new(62);
        let mut client = primary.client();
        mix.run(&mut client, 500);
        wait_for_replica(&primary, &replica);
        let (full, _) = syncs(&primary);

        let paused = Paused::new(&replica);
        client.ok("CLIENT KILL TYPE replica");
        mix.run(&mut client, 500);
        // More than the backlog holds.
        for _ in 0..20 {
            client.ok(&format!("SET filler {}", "x".repeat(20_000)));
        }
        client.ok("DEL filler");
        drop(paused);
        // While the data set is on its way, calls go on.
        mix.run(&mut client, 500);
        mix.settle(&mut client);
        assert_same(&primary, &replica, way);
        assert_eq!(syncs(&primary).0, full + 1, "{way}: whole data sets");
        // And after it.
        mix.run(&mut client, 500);
        mix.settle(&mut client);
        assert_same(&primary, &replica, &format!("{way}, and on"));
    }
}

/// REPLICAOF NO ONE: the replica goes on where it is, its own replica follows it, and states that
/// it has made since are dropped when it is made a replica again.
#[test]
fn a_replica_goes_on_alone_and_comes_back() {
    let primary = Server::start();
    let replica = primary.replica();
    let second = replica.replica();
    let mut mix = Mix::new(63);
    mix.run(&mut primary.client(), 500);
    mix.settle(&mut primary.client());
    for (_, call) in LIMITERS {
        primary.client().limit(call);
    }
    wait_for_replica(&primary, &replica);
    wait_for_replica(&replica, &second);
    let before = contents(&mut primary.client());

    let mut alone = replica.client();
    alone.ok("REPLICAOF NO ONE");
    assert_equal(&contents(&mut alone), &before, "nothing changes by that");
    for (_, call) in LIMITERS {
        assert_eq!(alone.limit(call).remaining, 0, "{call}: the second of two");
        assert_eq!(alone.limit(call).allowed, 0, "{call}: the third of two");
    }
    Mix::new(64).run(&mut alone, 500);
    Mix::new(65).run(&mut primary.client(), 500);
    mix.settle(&mut alone);
    assert_same(&replica, &second, "the replica of the one that goes on alone");
    assert_ne!(contents(&mut alone), contents(&mut primary.client()));

    alone.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    mix.settle(&mut primary.client());
    assert_same(&primary, &replica, "a replica that has come back");
    wait_for_replica(&replica, &second);
    assert_same(&primary, &second, "and its own");
}

/// The replica's own append-only file brings it back to where it was, without its primary.
#[test]
fn a_replica_starts_again_from_its_own_file() {
    for preamble in ["yes", "no"] {
        let mut primary = Server::start();
        let preamble = format!("aof-use-rdb-preamble {preamble}");
        let mut replica = primary.replica_with(Config::new().append_only().line(&preamble));
        let mut mix = Mix::new(66);
        mix.run(&mut primary.client(), 500);
        replica.wait_for_background_jobs();
        replica.client().ok("BGREWRITEAOF");
        mix.run(&mut primary.client(), 500);
        replica.wait_for_background_jobs();
        mix.run(&mut primary.client(), 500);
        mix.settle(&mut primary.client());
        assert_same(&primary, &replica, "before");
        let before = contents(&mut replica.client());
        primary.kill();
        replica.kill_and_restart();
        let mut client = replica.client();
        let info = client.info("replication");
        assert_eq!(field(&info, "master_link_status"), Some("down"), "{info}");
        assert_equal(&contents(&mut client), &before, &preamble);
        client.ok("REPLICAOF NO ONE");
        assert_equal(&contents(&mut client), &before, &preamble);
        for (_, call) in LIMITERS {
            assert_eq!(client.limit(call).allowed, 1, "{call}");
        }
    }
}
