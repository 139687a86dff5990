//! BR-253 mokies/ratelimitj#11: everything works for a user without EVAL, SCRIPT and FUNCTION, and
//! with these commands renamed away.

use redis::Value;

use super::limits;
use super::support::{Client, Config, Server, int, list, text, wait_for_replica, words};

const SCRIPTING: [&str; 8] =
    ["EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "SCRIPT", "FUNCTION", "FCALL", "FCALL_RO"];

#[test]
fn nothing_needs_scripts_where_they_are_renamed_away() {
    let config = SCRIPTING
        .iter()
        .fold(Config::new(), |config, name| config.line(&format!("rename-command {name} \"\"")));
    let mut server = Server::with(&config.clone().append_only().line("aof-use-rdb-preamble no"));
    let replica = server.replica_with(config);
    let mut client = server.client();
    for name in SCRIPTING {
        let refused = client.refused(&format!("{name} x 0"));
        assert!(refused.starts_with("ERR unknown command"), "{refused}");
    }
    every_command_works(&mut client);
    wait_for_replica(&server, &replica);
    let before = contents(&mut client);
    assert_eq!(contents(&mut replica.client()), before, "on the replica");
    client.ok("BGREWRITEAOF");
    server.wait_for_background_jobs();
    server.kill_and_restart();
    assert_eq!(contents(&mut server.client()), before, "from the append-only file");
}

#[test]
fn nothing_needs_the_permission_to_run_scripts() {
    let server = Server::start();
    let mut admin = server.client();
    admin.ok("ACL SETUSER app on >secret ~* +@all -@scripting -@admin -@dangerous");
    let mut client = server.client();
    client.ok("AUTH app secret");
    let forbidden = ["EVAL x 0", "EVALSHA x 0", "EVAL_RO x 0", "EVALSHA_RO x 0", "FCALL x 0"];
    for line in forbidden.iter().chain(&["FCALL_RO x 0", "SCRIPT FLUSH", "FUNCTION LIST"]) {
        let refused = client.refused(line);
        assert!(refused.starts_with("NOPERM "), "{line}: {refused}");
    }
    every_command_works(&mut client);
}

/// Each command, allowed and denied and looked at, and in a transaction.
fn every_command_works(client: &mut Client) {
    for (key, kind) in [("t", 0), ("l", 1), ("s", 2)] {
        let call = &limits(key)[kind];
        let passed: i64 = (0..8).map(|_| client.limit(call).allowed).sum();
        assert_eq!(passed, 5, "{call}");
        for (options, allowed) in [("PEEK", 0), ("COST 0", 1), ("FORCE", 1), ("SHADOW", 2)] {
            assert_eq!(client.limit(&format!("{call} {options}")).allowed, allowed, "{options}");
        }
        assert_eq!(client.limit(&format!("RL.REFUND {key} 2")).remaining, 1, "{call}");
        assert_eq!(client.limit(&format!("RL.PEEK {key}")).remaining, 1, "{call}");
        assert_ne!(client.ok(&format!("RL.INFO {key}")), Value::Nil, "{call}");
        let answers = client.pipeline(&["MULTI", call, call, "EXEC"].map(words));
        let answers = list(answers.last().expect("an answer to EXEC"));
        let allowed: Vec<i64> = answers.iter().map(|answer| int(&list(answer)[0])).collect();
        assert_eq!(allowed, [1, 0], "{call}");
    }
}

fn contents(client: &mut Client) -> Vec<(String, Vec<u8>, i64)> {
    let mut keys: Vec<String> = list(&client.ok("KEYS *")).iter().map(text).collect();
    keys.sort();
    keys.into_iter()
        .map(|key| {
            let dump = client.dump(&key);
            let expire_ms = client.int(&format!("PEXPIRETIME {key}"));
            (key, dump, expire_ms)
        })
        .collect()
}
