//! Who may do what on a replica, and who may send effects: primaries and append-only files alone.

use redis::Value;

use super::paused::Paused;
use super::support::{Client, Config, Server, error_text, field, list, until, wait_for_replica};
use super::{FUNCTIONS, LIMITERS, SCRIPT, assert_equal, assert_same, contents};

const REFUSED: &str =
    "ERR rl.effect is internal: only a primary and the append-only file may send it";

/// A token bucket as an effect carries it, without an expiry and with one: valid but for who sends
/// it.
const PAYLOADS: [&str; 2] =
    ["\\x00\\x01T\\x05\\x01\\x00\\x01\\x01\\x01", "\\xff\\x7f\\x01T\\x05\\x01\\x00\\x01\\x01\\x01"];

/// Sends `line` as a client in every way, alone and in MULTI: by itself, from a script and from
/// the functions, which the server must have; and what each is answered.
fn every_way(client: &mut Client, line: &str, scripts: &[&str]) -> Vec<(String, Value)> {
    let key = line.split(' ').nth(1).expect("a key");
    let by_script = scripts.iter().map(|script| format!("{script} 1 {key} 1 {line}"));
    let lines: Vec<String> = [line.to_owned()].into_iter().chain(by_script).collect();
    let mut answers: Vec<(String, Value)> =
        lines.iter().map(|line| (line.clone(), client.run(line))).collect();
    for line in lines {
        client.ok("MULTI");
        let queued = client.run(&line);
        // Where it is refused at once, EXEC only says that it was.
        let answer = match client.run("EXEC") {
            Value::Array(answers) => answers.into_iter().next().expect("an answer"),
            _ => queued,
        };
        answers.push((format!("{line} in MULTI"), answer));
    }
    answers
}

/// Scripts and functions that may write.
fn writers() -> [String; 2] {
    [format!("EVAL {SCRIPT}"), "FCALL call".to_owned()]
}

/// Scripts and functions that may not.
fn lookers() -> [String; 4] {
    let [eval, eval_ro] = ["EVAL", "EVAL_RO"].map(|eval| format!("{eval} {SCRIPT}"));
    [eval, eval_ro, "FCALL look".to_owned(), "FCALL_RO look".to_owned()]
}

/// Every way to send `line`, from what may write.
fn written(client: &mut Client, line: &str) -> Vec<(String, Value)> {
    every_way(client, line, &writers().each_ref().map(String::as_str))
}

/// Effects of this client are refused, however they are sent, and change nothing.
fn assert_refused(client: &mut Client, who: &str) {
    for payload in PAYLOADS.iter().chain(&["x"]) {
        for (way, answer) in written(client, &format!("RL.EFFECT forged {payload}")) {
            let error = error_text(&answer);
            let error = error.unwrap_or_else(|| panic!("{who}, {way}: {answer:?}"));
            // Scripts add where they were.
            assert!(error.starts_with(REFUSED), "{who}, {way}: {error}");
        }
    }
    assert_eq!(client.int("EXISTS forged"), 0, "{who}");
}

/// Effects are refused from every client but a primary: also from one that may use DEBUG, also on a
/// replica that may be written, and also where the key holds a state already.
#[test]
fn effects_are_refused_from_clients_of_every_kind() {
    let config = Config::new().debug();
    let primary = Server::with(&config);
    let replica = primary.replica_with(config.clone().line("replica-read-only no"));
    let append_only = Server::with(&config.append_only());
    for (server, what) in [
        (&primary, "on a primary"),
        (&replica, "on a replica that may be written"),
        (&append_only, "with an append-only file"),
    ] {
        server.client().call(&["FUNCTION", "LOAD", "REPLACE", FUNCTIONS]);
        server.client().ok("DEBUG SET-ACTIVE-EXPIRE 1");
        assert_refused(&mut server.client(), what);
        assert_refused(&mut server.client3(), what);
        let mut admin = server.client();
        admin.ok("ACL SETUSER all on nopass ~* &* +@all");
        admin.ok("AUTH all any");
        assert_refused(&mut admin, what);
    }
    for (key, call) in LIMITERS {
        let mut client = primary.client();
        client.limit(call);
        let before = contents(&mut client);
        let refused = client.refused(&format!("RL.EFFECT {key} {}", PAYLOADS[0]));
        assert_eq!(refused, REFUSED);
        assert_eq!(contents(&mut client), before, "{call}");
    }
    // What a primary sends is followed on the same replica all the while.
    assert_same(&primary, &replica, "a replica that may be written");
}

/// Keys that a replica loads slowly, until it is told not to: time to ask something meanwhile.
const SLOW_KEYS: usize = 300;
const SLOW: &str = "key-load-delay 20000";

/// While a replica loads a data set, effects are refused too: by the server where it serves nobody,
/// and by the module where the old data set is served meanwhile.
#[test]
fn effects_are_refused_while_a_replica_loads() {
    for (load, flag) in [("swapdb", "async_loading:1"), ("disabled", "loading:1")] {
        let plain = Config::new().line("repl-backlog-size 16384").line("rdbcompression no");
        let primary = Server::with(&plain);
        let replica = primary.replica_with(
            plain
                .debug()
                .line("replica-read-only no")
                .line(&format!("repl-diskless-load {load}"))
                .line(SLOW)
                .line("loading-process-events-interval-bytes 1024"),
        );
        primary.client().call(&["FUNCTION", "LOAD", FUNCTIONS]);
        for (_, call) in LIMITERS {
            primary.client().limit(call);
        }
        wait_for_replica(&primary, &replica);
        let mut client = replica.client();
        let old = contents(&mut client);
        fall_behind(&primary, &replica);
        until("the replica loads", || client.info("persistence").contains(flag));
        if load == "swapdb" {
            assert_refused(&mut client, "while the old data set is served");
            assert_looks_answer(&mut client);
            assert_equal(&old, &contents(&mut client), "the old data set is served");
            let info = client.info("persistence");
            assert!(info.contains(flag), "it was loaded before all was asked: {info}");
        } else {
            let refused = client.refused(&format!("RL.EFFECT forged {}", PAYLOADS[0]));
            assert!(refused.starts_with("LOADING "), "{refused}");
        }
        client.ok("CONFIG SET key-load-delay 0");
        assert_same(&primary, &replica, load);
        assert_eq!(client.int("EXISTS forged"), 0, "{load}");
    }
}

/// Lets the replica miss so much that it needs the whole data set, which is slow to load.
fn fall_behind(primary: &Server, replica: &Server) {
    let mut client = primary.client();
    let paused = Paused::new(replica);
    client.ok("CLIENT KILL TYPE replica");
    for number in 0..SLOW_KEYS {
        client.ok(&format!("SET filler:{number} {}", "x".repeat(2000)));
    }
    drop(paused);
}

fn assert_looks_answer(client: &mut Client) {
    for (key, call) in LIMITERS {
        for line in [format!("RL.PEEK {key}"), format!("EVAL {SCRIPT} 1 {key} 1 RL.PEEK {key}")] {
            let reply = client.limit(&line);
            assert_eq!((reply.allowed, reply.limit, reply.remaining), (1, 2, 1), "{call}: {line}");
        }
        client.ok(&format!("RL.INFO {key}"));
    }
}

/// BR-226 envoyproxy/ratelimit#1191: on a read-only replica calls that take answer READONLY and
/// change nothing, in whatever way they are made; RL.PEEK and RL.INFO answer.
#[test]
fn a_read_only_replica_looks_and_does_not_take() {
    let primary = Server::start();
    let replica = primary.replica();
    primary.client().call(&["FUNCTION", "LOAD", FUNCTIONS]);
    for (_, call) in LIMITERS {
        primary.client().limit(call);
    }
    wait_for_replica(&primary, &replica);
    let before = contents(&mut primary.client());
    for mut client in [replica.client(), replica.client3()] {
        for (key, call) in LIMITERS {
            let options = ["", " COST 0", " PEEK", " FORCE", " SHADOW"];
            let lines = options.map(|option| format!("{call}{option}"));
            for line in lines.iter().chain(&[format!("RL.REFUND {key} 1")]) {
                for (way, answer) in written(&mut client, line) {
                    let error = error_text(&answer);
                    let error = error.unwrap_or_else(|| panic!("{way}: {answer:?}"));
                    assert!(error.contains("READONLY"), "{way}: {error}");
                }
            }
        }
        assert_looks_answer(&mut client);
        for (key, _) in LIMITERS {
            for line in [format!("RL.PEEK {key}"), format!("RL.INFO {key}")] {
                let lookers = lookers();
                let lookers = lookers.each_ref().map(String::as_str);
                for (way, answer) in every_way(&mut client, &line, &lookers) {
                    assert!(!list_or_map(&answer).is_empty(), "{way}: {answer:?}");
                }
            }
        }
        assert_eq!(contents(&mut client), before);
    }
    let info = replica.client().info("replication");
    assert_eq!(field(&info, "slave_read_only"), Some("1"), "{info}");
}

fn list_or_map(answer: &Value) -> Vec<Value> {
    match answer {
        Value::Map(pairs) => pairs.iter().map(|(name, _)| name.clone()).collect(),
        answer => list(answer),
    }
}
