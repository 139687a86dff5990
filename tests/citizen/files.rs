//! States outlive the server: in snapshots and in the append-only file, of either format.

use std::fs;
use std::path::{Path, PathBuf};

use redis::{Parser, Value};

use super::support::{Client, Config, Reply, Server, bytes, list, text, until, words};
use super::{Contents, LIMITERS, contents, mixed_calls};

/// The state of the limits that a restart must not change, beyond bytes: what each is answered.
fn answers(client: &mut Client, keys: &Contents) -> Vec<Option<Reply>> {
    // At an instant of its own, so that the time in between does not show.
    let asked = keys.keys().map(|key| format!("RL.PEEK {key} AT 1900000000000"));
    asked.map(|line| Reply::new(&client.run(&line))).collect()
}

/// Fills a server, ends it in some way, and compares what is there afterwards.
fn survives(config: &Config, seed: u64, end: impl FnOnce(&mut Server)) {
    let mut server = Server::with(&config.clone().client_time());
    mixed_calls(&mut server.client(), seed);
    let before = contents(&mut server.client());
    let answered = answers(&mut server.client(), &before);
    assert!(answered.iter().all(Option::is_some));
    end(&mut server);
    let mut client = server.client();
    assert_eq!(contents(&mut client), before);
    assert_eq!(answers(&mut client, &before), answered);
    // It goes on: the limits still count.
    mixed_calls(&mut client, seed + 1);
}

#[test]
fn a_snapshot_keeps_every_state() {
    survives(&Config::new(), 11, |server| {
        server.client().ok("SAVE");
        server.kill_and_restart();
    });
    survives(&Config::new(), 12, |server| {
        server.client().ok("BGSAVE");
        server.wait_for_background_jobs();
        server.kill_and_restart();
    });
    survives(&Config::new().line("save 3600 1"), 13, Server::restart);
}

#[test]
fn a_reload_keeps_every_state() {
    survives(&Config::new().debug(), 14, |server| {
        server.client().ok("DEBUG RELOAD");
    });
    let config = Config::new().debug().append_only();
    survives(&config, 15, |server| {
        server.client().ok("DEBUG LOADAOF");
    });
}

/// BR-232 RediSearch/RediSearch#10817, BR-233 redis/redis#4952, BR-234 redis/redis#7350: with and
/// without a rewrite of the append-only file, with and without the RDB preamble, after a stop and
/// after a kill, everything is as before.
#[test]
fn the_append_only_file_keeps_every_state() {
    for preamble in ["yes", "no"] {
        let config = Config::new().append_only().line(&format!("aof-use-rdb-preamble {preamble}"));
        survives(&config, 21, Server::restart);
        survives(&config, 22, Server::kill_and_restart);
        survives(&config, 23, |server| {
            rewrite(server);
            server.restart();
        });
        survives(&config, 24, |server| {
            rewrite(server);
            server.kill_and_restart();
        });
    }
}

/// Calls after a rewrite build upon it.
#[test]
fn the_append_only_file_goes_on_after_a_rewrite() {
    for preamble in ["yes", "no"] {
        let config = Config::new().append_only().line(&format!("aof-use-rdb-preamble {preamble}"));
        let mut server = Server::with(&config);
        mixed_calls(&mut server.client(), 31);
        rewrite(&mut server);
        mixed_calls(&mut server.client(), 32);
        let before = contents(&mut server.client());
        server.kill_and_restart();
        assert_eq!(contents(&mut server.client()), before, "preamble {preamble}");
    }
}

fn rewrite(server: &mut Server) {
    server.client().ok("BGREWRITEAOF");
    server.wait_for_background_jobs();
    let info = server.client().info("persistence");
    assert!(info.contains("aof_last_bgrewrite_status:ok"), "{info}");
}

/// BR-236 redis/redis#4950: a drained limit that is saved, and loaded after it would be full again,
/// is as new.
#[test]
fn a_limit_that_is_over_when_it_is_loaded_is_as_new() {
    let calls = ["RL.TOKENBUCKET t 2 1 PER 100", "RL.LEAKY l 2 1 PER 100", "RL.SLIDING s 2 200"];
    for config in [Config::new().line("save 3600 1"), Config::new().append_only()] {
        let mut server = Server::with(&config);
        let mut client = server.client();
        let mut latest_ms = 0;
        for call in calls {
            client.limit(&format!("{call} COST 2"));
            let key = call.split(' ').nth(1).expect("a key");
            latest_ms = latest_ms.max(client.int(&format!("PEXPIRETIME {key}")));
        }
        server.stop();
        until("all of them are over", || now_ms() > latest_ms);
        server.start_again();
        let mut client = server.client();
        for call in calls {
            let reply = client.limit(call);
            assert_eq!((reply.allowed, reply.remaining), (1, 1), "{call}");
        }
    }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.expect("a clock after 1970").as_millis()).expect("a clock")
}

/// BR-225 redis/redis#4466: the append-only file holds one effect a call that writes, inside one
/// MULTI where the calls were inside one, and never the question.
#[test]
fn the_append_only_file_holds_one_effect_a_write() {
    let server = Server::with(&Config::new().append_only());
    let mut client = server.client();
    for (key, call) in LIMITERS {
        let start = commands(server.dir()).len();
        client.limit(call);
        client.limit(&format!("{call} PEEK"));
        client.limit(&format!("{call} COST 9"));
        assert_eq!(names(server.dir(), start), ["rl.effect"], "{call}");

        let start = commands(server.dir()).len();
        let calls = [words("MULTI"), words(&format!("{call} FORCE"))];
        let refund = words(&format!("RL.REFUND {key} 1"));
        client.pipeline(&[&calls[..], &[calls[1].clone(), refund, words("EXEC")]].concat());
        let one_multi = ["multi", "rl.effect", "rl.effect", "rl.effect", "exec"];
        assert_eq!(names(server.dir(), start), one_multi, "{call} in MULTI");

        let start = commands(server.dir()).len();
        let script = format!("EVAL for\\si=1,3\\sdo\\sredis.call(unpack(ARGV))\\send 1 {key}");
        client.ok(&format!("{script} {call} FORCE"));
        assert_eq!(names(server.dir(), start), one_multi, "{call} in a script");

        // A transaction that only looks and is denied leaves nothing at all.
        let start = commands(server.dir()).len();
        client.pipeline(&[words("MULTI"), words(call), words(call), words("EXEC")]);
        assert!(names(server.dir(), start).is_empty(), "{call}");
    }
}

/// The names of the commands behind the first `start` in the append-only file, in lower case.
fn names(dir: &Path, start: usize) -> Vec<String> {
    let commands = commands(dir);
    let name = |command: &Vec<Vec<u8>>| String::from_utf8_lossy(&command[0]).to_lowercase();
    commands[start..].iter().map(name).filter(|name| name != "select").collect()
}

/// All commands in the newest append-only file.
fn commands(dir: &Path) -> Vec<Vec<Vec<u8>>> {
    let content = fs::read(newest_append_only_file(dir)).expect("the append-only file");
    let mut rest = &content[..];
    let mut parser = Parser::new();
    let mut commands = Vec::new();
    while let Ok(command @ Value::Array(_)) = parser.parse_value(&mut rest) {
        commands.push(list(&command).iter().map(bytes).collect());
    }
    commands
}

fn newest_append_only_file(dir: &Path) -> PathBuf {
    let files = fs::read_dir(dir.join("appendonlydir")).expect("the append-only files");
    let paths = files.map(|file| file.expect("a file").path());
    let grows = |path: &PathBuf| path.to_string_lossy().ends_with(".incr.aof");
    paths.filter(grows).max().expect("one that grows")
}

/// BR-197 danitseitlin/redis-interval-sets#20: SAVE, BGSAVE and BGREWRITEAOF with ten thousand keys
/// of each limiter succeed.
#[test]
fn thirty_thousand_keys_are_saved() {
    let mut server = Server::with(&Config::new().append_only());
    let mut client = server.client();
    let calls: Vec<_> = (0..10_000)
        .flat_map(|number| {
            [
                words(&format!("RL.TOKENBUCKET t{number} 5 1 PER 3600000")),
                words(&format!("RL.LEAKY l{number} 5 1 PER 3600000")),
                words(&format!("RL.SLIDING s{number} 5 3600000")),
            ]
        })
        .collect();
    calls.chunks(1000).for_each(|some| drop(client.pipeline(some)));
    assert_eq!(client.int("DBSIZE"), 30_000);
    assert_eq!(text(&client.ok("SAVE")), "OK");
    client.ok("BGSAVE");
    server.wait_for_background_jobs();
    rewrite(&mut server);
    server.kill_and_restart();
    assert_eq!(server.client().int("DBSIZE"), 30_000);
}
