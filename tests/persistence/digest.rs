//! Equal states have equal digests and equal payloads, whatever led to them.

use super::support::{Client, Config, Server, list, text};
use super::{HITS_IN_WINDOW, append_only, contents, grow_window, hit, rewrite};

/// A server that takes the caller's clock and answers DEBUG.
fn config() -> Config {
    Config::new().client_time().debug()
}

fn digest(client: &mut Client, key: &str) -> String {
    text(&list(&client.ok(&format!("DEBUG DIGEST-VALUE {key}")))[0])
}

/// Runs all lines on one key.
fn run(client: &mut Client, key: &str, lines: &[&str]) {
    lines.iter().for_each(|line| drop(client.ok(&line.replace(" k ", &format!(" {key} ")))));
}

/// Two ways to one state of each limiter, and a third that ends elsewhere.
#[test]
fn the_way_to_a_state_does_not_show() {
    let server = Server::with(&config());
    let mut client = server.client();
    let cases: [[&[&str]; 3]; 3] = [
        [
            &[
                "RL.TOKENBUCKET k 9 1 PER 100000 COST 5 AT 1000000",
                "RL.TOKENBUCKET k 9 1 PER 100000 COST 2 AT 1200000",
            ],
            &[
                "RL.TOKENBUCKET k 7 3 PER 100000 COST 4 AT 1000000",
                "RL.TOKENBUCKET k 9 1 PER 100000 COST 5 AT 1200000",
            ],
            &[
                "RL.TOKENBUCKET k 9 1 PER 100000 COST 5 AT 1200000",
                "RL.TOKENBUCKET k 9 1 PER 100000 COST 2 AT 1200000",
            ],
        ],
        [
            &["RL.LEAKY k 9 1 PER 100000 COST 5 AT 1000000", "RL.REFUND k 3 AT 1100000"],
            &["RL.LEAKY k 9 1 PER 100000 COST 1 AT 1100000"],
            &["RL.LEAKY k 8 1 PER 100000 COST 1 AT 1100000"],
        ],
        [
            &["RL.SLIDING k 9 500000 COST 2 AT 1000000", "RL.SLIDING k 9 500000 COST 3 AT 1500000"],
            &["RL.SLIDING k 9 500000 COST 1 AT 1500000", "RL.SLIDING k 9 500000 COST 2 AT 1500000"],
            &["RL.SLIDING k 9 500000 COST 2 AT 1500000", "RL.SLIDING k 9 500000 COST 2 AT 1500000"],
        ],
    ];
    for ways in cases {
        let keys = ["one", "two", "three"];
        for (key, lines) in keys.iter().zip(ways) {
            run(&mut client, key, lines);
        }
        let [one, two, three] = keys.map(|key| (digest(&mut client, key), client.dump(key)));
        assert_eq!(one, two, "{ways:?}");
        assert!(one.0 != three.0 && one.1 != three.1, "{ways:?}");
        client.ok("FLUSHALL");
    }
}

/// A long window whose first hits have left is the window without them, though its blocks begin
/// elsewhere.
#[test]
fn the_blocks_of_a_window_do_not_show() {
    const HITS: u64 = 2000;
    const LEFT: u64 = 1300;
    let server = Server::with(&config());
    let mut client = server.client();
    grow_window(&mut client, "long", 0..HITS);
    grow_window(&mut client, "short", LEFT..HITS);
    let digests = |client: &mut Client| ["long", "short"].map(|key| digest(client, key));
    let before = digests(&mut client);
    assert_ne!(before[0], before[1]);
    // The last of those that the short one lacks leaves the window as this call is made.
    for key in ["long", "short"] {
        let reply = client.limit(&hit(key, LEFT - 1 + HITS_IN_WINDOW));
        assert_eq!(reply.limit - reply.remaining, 701, "{key}");
    }
    let dumps = ["long", "short"].map(|key| client.dump(key));
    assert_eq!(dumps[0], dumps[1]);
    let after = digests(&mut client);
    assert_eq!(after[0], after[1]);
    assert!(!before.contains(&after[0]));
}

/// The digest of a whole server is that of another with the same states, and of itself after a
/// reload, a rewrite and a kill.
#[test]
fn equal_servers_have_equal_digests() {
    let config = append_only("no").client_time().debug();
    let (mut server, other) = (Server::with(&config), Server::with(&config));
    let whole = |server: &Server| text(&server.client().ok("DEBUG DIGEST"));
    for (server, keys) in [(&server, ["a", "b", "c", "d"]), (&other, ["d", "c", "b", "a"])] {
        let mut client = server.client();
        for key in keys {
            run(
                &mut client,
                key,
                &["RL.TOKENBUCKET k 9 1 PER 100000 COST 5 AT 1000000", "RL.REFUND k 1 AT 1000001"],
            );
            for (key, line) in [
                (format!("l{key}"), "RL.LEAKY k 9 0.3 PER 700000 COST 3 AT 1000000"),
                (format!("s{key}"), "RL.SLIDING k 9 500000 COST 2 AT 1000000"),
            ] {
                run(&mut client, &key, &[line]);
            }
        }
        for key in contents(&mut client).keys() {
            client.ok(&format!("PEXPIREAT {key} 4102444800000"));
        }
    }
    let digest = whole(&server);
    assert_ne!(digest, "0".repeat(40));
    assert_eq!(whole(&other), digest, "another server, in another order");
    for reload in ["DEBUG RELOAD", "DEBUG LOADAOF"] {
        server.client().ok(reload);
        assert_eq!(whole(&server), digest, "{reload}");
    }
    rewrite(&server);
    server.kill_and_restart();
    assert_eq!(whole(&server), digest, "after a rewrite and a kill");
    other.client().ok("RL.REFUND a 1 AT 1000001");
    assert_ne!(whole(&other), digest, "one unit given back");
}
