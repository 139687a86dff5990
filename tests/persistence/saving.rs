//! Snapshots and rewrites while clients call, with many keys.

use std::fs;

use super::load::Load;
use super::support::{Client, Config, Server, field, list, text, until};
use super::{append_only, contents, rewrite};

const CLIENTS: usize = 4;

/// Waits until `field` of INFO's section `persistence` says `value`.
fn wait_until(client: &mut Client, name: &str, value: &str) {
    until(&format!("{name} is {value}"), || {
        field(&client.info("persistence"), name) == Some(value)
    });
}

/// BR-197 danitseitlin/redis-interval-sets#20: SAVE, BGSAVE and BGREWRITEAOF with ten thousand keys
/// of each limiter succeed while clients call on all of them, and every unit is there after a kill.
#[test]
fn ten_thousand_keys_of_each_limiter_are_saved_under_load() {
    for preamble in ["yes", "no"] {
        let mut server = Server::with(&append_only(preamble));
        let load = Load::new(server.port(), 10_000);
        load.touch_all(&mut server.client());
        let vanished = load.run(CLIENTS, 7, || {
            let mut client = server.client();
            assert_eq!(text(&client.ok("SAVE")), "OK");
            client.ok("BGSAVE");
            load.wait_for(100);
            server.wait_for_background_jobs();
            rewrite(&server);
            load.wait_for(100);
            let info = client.info("persistence");
            for status in ["rdb_last_bgsave_status:ok", "aof_last_bgrewrite_status:ok"] {
                assert!(info.contains(status), "{status}: {info}");
            }
        });
        assert_eq!(vanished, 0, "clients that were cut off");
        server.kill_and_restart();
        let mut client = server.client();
        assert_eq!(client.int("DBSIZE"), 30_000);
        load.settle(&mut client);
    }
}

/// A snapshot that is taken under load holds what the keys held at one moment while it was asked
/// for: all that was admitted before is in it, and nothing that was sent after.
#[test]
fn a_snapshot_under_load_is_one_moment() {
    for save in ["SAVE", "BGSAVE"] {
        let mut server = Server::with(&Config::new());
        let load = Load::new(server.port(), 8);
        let (mut from, mut to) = (Vec::new(), Vec::new());
        load.run(CLIENTS, 8, || {
            load.wait_for(500);
            from = load.known();
            let mut client = server.client();
            client.ok(save);
            to = load.known();
            load.wait_for(500);
            wait_until(&mut client, "rdb_bgsave_in_progress", "0");
            wait_until(&mut client, "rdb_last_bgsave_status", "ok");
        });
        server.kill_and_restart();
        load.check(&load.held(&mut server.client()), &from, &to);
    }
}

/// Two rewrites of the same states are the same states, with the calls between them counted, and
/// the file that a rewrite of the effects has made is read like one that begins with a snapshot.
#[test]
fn rewrites_under_load_follow_one_another() {
    for preamble in ["yes", "no"] {
        let mut server = Server::with(&append_only(preamble));
        let load = Load::new(server.port(), 50);
        load.touch_all(&mut server.client());
        for seed in 0..3 {
            load.run(CLIENTS, 20 + seed, || {
                load.wait_for(300);
                rewrite(&server);
                load.wait_for(300);
            });
        }
        let before = contents(&mut server.client());
        server.kill_and_restart();
        assert_eq!(contents(&mut server.client()), before, "preamble {preamble}");
        load.settle(&mut server.client());
    }
}

/// BR-232 RediSearch/RediSearch#10817, BR-233 redis/redis#4952, BR-234 redis/redis#7350: files hold
/// the keys of the module and nothing else of it. Where no key is left, a server without the
/// module reads them.
#[test]
fn files_without_limits_need_no_module() {
    for config in [Config::new().line("save 3600 1"), append_only("yes"), append_only("no")] {
        let mut server = Server::with(&config);
        let mut client = server.client();
        for call in ["RL.TOKENBUCKET t 5 1", "RL.LEAKY l 5 1", "RL.SLIDING s 5 1000"] {
            client.limit(call);
        }
        client.ok("FLUSHALL");
        client.ok("SET other value");
        if text(&list(&client.ok("CONFIG GET appendonly"))[1]) == "yes" {
            rewrite(&server);
        }
        server.stop();
        let lines = fs::read_to_string(server.config_file()).expect("a configuration");
        let without = lines.lines().filter(|line| !line.starts_with("loadmodule"));
        let without: String = without.flat_map(|line| [line, "\n"]).collect();
        assert!(without.len() < lines.len());
        fs::write(server.config_file(), without).expect("a file");
        server.start_again();
        let mut client = server.client();
        assert_eq!(text(&client.ok("GET other")), "value");
        assert!(client.refused("RL.PEEK t").starts_with("ERR unknown command"));
    }
}
