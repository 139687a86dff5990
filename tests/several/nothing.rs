//! What leaves every key as it is: a denial, a look, an error, a want of memory.

use redis::Value;

use super::support::{Client, Server, Snapshot, error_text, int, list, words};

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Keys of the tests, one for each limiter and one that is absent.
const KEYS: [&str; 4] = ["t", "l", "s", "new"];
/// A rule for each of them, of 2 an hour; the last comes first.
const ALL: &str = "RL.ALL 4 new t l s SLIDING 2 3600000 TOKENBUCKET 2 1 PER 3600000 \
                   LEAKY 2 1 PER 3600000 SLIDING 2 3600000";

/// A server with a replica, so that its stream would move, and keys that hold one unit each.
struct Scene {
    server: Server,
    // Held for its life.
    _replica: Server,
    client: Client,
}

impl Scene {
    fn start() -> Scene {
        let server = Server::start();
        let replica = server.replica();
        let client = server.client();
        let mut scene = Scene { server, _replica: replica, client };
        scene.refresh();
        scene
    }

    /// One unit in each key but the last.
    fn refresh(&mut self) {
        self.client.ok("FLUSHALL");
        let three = "RL.ALL 3 t l s TOKENBUCKET 2 1 PER 3600000 LEAKY 2 1 PER 3600000 \
                     SLIDING 2 3600000";
        assert_eq!(self.client.all(three).allowed, 1);
    }

    fn snapshots(&mut self) -> Vec<Snapshot> {
        KEYS.iter().map(|key| Snapshot::of(&mut self.client, key)).collect()
    }

    /// Makes a call that must change nothing, and returns its answer.
    fn unchanged_by(&mut self, line: &str) -> Value {
        let before = self.snapshots();
        let answer = self.client.run(line);
        assert_eq!(self.snapshots(), before, "{line}: {answer:?}");
        answer
    }
}

fn verdict(answer: &Value) -> (i64, i64) {
    let items = list(answer);
    (int(&items[0]), int(&items[1]))
}

/// Whichever rule denies, the others take nothing, those before it and those behind.
#[test]
fn a_denial_takes_nothing_from_any_key() {
    let mut scene = Scene::start();
    let rules = ["SLIDING 2 3600000", "TOKENBUCKET 2 1 PER 3600000", "LEAKY 2 1 PER 3600000"];
    for denies in 0..4_usize {
        let rule = |place: usize| {
            let cost = if place == denies { " COST 3" } else { "" };
            format!("{}{cost}", rules[place % 3])
        };
        let all: Vec<String> = (0..4).map(rule).collect();
        let call = format!("RL.ALL 4 new t l s {}", all.join(" "));
        let over = i64::try_from(denies).expect("a few");
        for (options, allowed) in [("", 0), (" PEEK", 0), (" SHADOW", 2), (" SHADOW PEEK", 2)] {
            let answer = scene.unchanged_by(&format!("{call}{options}"));
            assert_eq!(verdict(&answer), (allowed, over), "{call}{options}");
        }
    }
    assert_eq!(scene.client.int("EXISTS new"), 0);
    assert_eq!(scene.client.all(ALL).allowed, 1, "there was still room in each");
}

/// PEEK and costs of 0 write nothing, also where all would allow.
#[test]
fn a_look_writes_nothing() {
    let mut scene = Scene::start();
    for options in [" PEEK", " PEEK SHADOW"] {
        assert_eq!(verdict(&scene.unchanged_by(&format!("{ALL}{options}"))), (1, -1));
    }
    let free = ALL.replace("3600000", "3600000 COST 0");
    assert_eq!(verdict(&scene.unchanged_by(&free)), (1, -1));
    // Not even other parameters, which a real call would have adopted.
    let other = ALL.replace(" 2 ", " 3 ");
    assert_eq!(verdict(&scene.unchanged_by(&format!("{other} PEEK"))), (1, -1));
}

/// A denied call adopts what is new in each rule, as single calls do, and no more.
#[test]
fn a_denial_adopts_changed_parameters_of_every_rule() {
    let mut scene = Scene::start();
    let call = "RL.ALL 3 t l s TOKENBUCKET 3 1 PER 7200000 LEAKY 5 1 PER 7200000 \
                SLIDING 1 3600000 COST 2";
    assert_eq!(scene.client.all(call).allowed, 0);
    let mut info = |key: &str| {
        let fields = list(&scene.client.ok(&format!("RL.INFO {key}")));
        fields[1..].iter().skip(2).step_by(2).take(3).cloned().collect::<Vec<_>>()
    };
    let text = |text: &str| Value::BulkString(text.into());
    assert_eq!(info("t"), [Value::Int(3), text("1"), Value::Int(7_200_000)]);
    assert_eq!(info("l"), [Value::Int(5), text("1"), Value::Int(7_200_000)]);
    assert_eq!(info("s")[..2], [Value::Int(1), Value::Int(3_600_000)]);
    let level = |client: &mut Client, key: &str| client.limit(&format!("RL.PEEK {key}")).remaining;
    let levels = ["t", "l", "s"].map(|key| level(&mut scene.client, key));
    assert_eq!(levels, [1, 4, 0], "nothing was taken");
    // Again, with nothing new: it is free.
    assert_eq!(verdict(&scene.unchanged_by(call)), (0, 2));
}

/// A wrong type is found before anything is written, wherever it is.
#[test]
fn a_wrong_type_changes_no_other_key() {
    let mut scene = Scene::start();
    for place in 0..4 {
        scene.refresh();
        let key = ["new", "t", "l", "s"][place];
        for other in ["SET", "RPUSH", "RL.LEAKY", "RL.SLIDING"] {
            scene.client.ok(&format!("DEL {key}"));
            let words = match other {
                "SET" | "RPUSH" => "x",
                "RL.LEAKY" => "9 1 PER 3600000",
                _ => "9 3600000",
            };
            // The limiter of the key itself is none that is wrong.
            if (other, key) == ("RL.LEAKY", "l") || (other == "RL.SLIDING" && place % 3 == 0) {
                continue;
            }
            scene.client.ok(&format!("{other} {key} {words}"));
            for options in ["", " PEEK", " SHADOW"] {
                let answer = scene.unchanged_by(&format!("{ALL}{options}"));
                assert_eq!(error_text(&answer).as_deref(), Some(WRONG_TYPE), "{other} {key}");
            }
        }
    }
}

/// A rule that cannot be kept for its bound of 100 years is an error of the whole call.
#[test]
fn an_error_of_one_rule_changes_no_other_key() {
    let mut scene = Scene::start();
    let too_slow = "ERR rule 1: capacity and COST against rate must leave the key at most 100 \
                    years from its reset";
    for (call, error) in [
        ("RL.ALL 2 t new TOKENBUCKET 2 1 PER 3600000 LEAKY 9 0.000000001 COST 4", too_slow),
        ("RL.ALL 2 t l TOKENBUCKET 2 1 PER 3600000 LEAKY 9 0.000000001 COST 4", too_slow),
        (
            "RL.ALL 2 t t SLIDING 2 1 SLIDING 2 1",
            "ERR the same key is given twice, each rule needs a key of its own",
        ),
        (
            "RL.ALL 2 t s TOKENBUCKET 2 1 PER 3600000 SLIDING 2 3600000 AT 5",
            "ERR AT is refused unless the configuration rl.client-time is yes",
        ),
        (
            "RL.ALL 2 t s TOKENBUCKET 2 1 PER 3600000 SLIDING 2 3600000 COST x",
            "ERR rule 1: COST must be an integer from 0 to 9007199254740992",
        ),
    ] {
        assert_eq!(error_text(&scene.unchanged_by(call)).as_deref(), Some(error), "{call}");
    }
}

/// The same key twice, among many others and of any bytes, is refused.
#[test]
fn the_same_key_twice_is_refused() {
    let mut scene = Scene::start();
    for twice in [&b""[..], b"\0", b"a\0b", b"\xff\xfe"] {
        let keys: [&[u8]; 4] = [b"x", twice, b"y", twice];
        let mut call: Vec<&[u8]> = vec![b"RL.ALL", b"4"];
        call.extend(keys);
        let rules = b"SLIDING 2 1000 ".repeat(4);
        call.extend(rules.split(|&byte| byte == b' ').filter(|word| !word.is_empty()));
        let before = scene.snapshots();
        let answer = error_text(&scene.client.call(&call));
        assert!(answer.is_some_and(|text| text.starts_with("ERR the same key")), "{twice:?}");
        assert_eq!(scene.snapshots(), before);
        // Almost the same is another key.
        call[5] = b"z";
        assert_eq!(int(&list(&scene.client.call(&call))[0]), 1);
        scene.client.call(&[&b"DEL"[..], b"x", twice, b"y", b"z"]);
    }
}

/// Without memory for a new key the whole call is refused; keys that exist stay enforced.
#[test]
fn without_memory_for_one_key_nothing_is_taken_from_any() {
    let mut scene = Scene::start();
    scene.client.ok("CONFIG SET maxmemory 1");
    for order in ["RL.ALL 2 t new", "RL.ALL 2 new t"] {
        let rules = "TOKENBUCKET 2 1 PER 3600000 TOKENBUCKET 2 1 PER 3600000";
        for options in ["", " SHADOW"] {
            let answer = scene.unchanged_by(&format!("{order} {rules}{options}"));
            assert_eq!(error_text(&answer).as_deref(), Some(OOM), "{order}");
        }
        // What writes nothing needs no memory: a look, a denial.
        for (options, allowed) in [(" PEEK", 1), (" COST 3", 0), (" COST 3 SHADOW", 2)] {
            let answer = scene.unchanged_by(&format!("{order} {rules}{options}"));
            assert_eq!(verdict(&answer).0, allowed, "{order}{options}");
        }
    }
    let existing = "RL.ALL 2 t l TOKENBUCKET 2 1 PER 3600000 LEAKY 2 1 PER 3600000";
    assert_eq!(scene.client.all(existing).allowed, 1, "they exist");
    let answer = scene.unchanged_by(existing);
    assert_eq!(verdict(&answer), (0, 0), "and stay enforced");
    scene.client.ok("CONFIG SET maxmemory 0");
    assert_eq!(scene.server.client().int("EXISTS new"), 0);
}

/// Runs a transaction of a client that watches `key` while another one makes a call.
fn keeps_watch(scene: &mut Scene, key: &str, line: &str) -> bool {
    let mut watcher = scene.server.client();
    watcher.ok(&format!("WATCH {key}"));
    scene.client.ok(line);
    let answers = watcher.pipeline(&["MULTI", "PING", "EXEC"].map(words));
    answers[2] != Value::Nil
}

/// WATCH is broken for a key that was written, and for no other.
#[test]
fn only_what_changed_breaks_watch() {
    let mut scene = Scene::start();
    let denied = ALL.replace("LEAKY 2 1 PER 3600000", "LEAKY 2 1 PER 3600000 COST 3");
    for key in KEYS {
        for line in [denied.as_str(), &format!("{denied} SHADOW"), &format!("{ALL} PEEK")] {
            assert!(keeps_watch(&mut scene, key, line), "{key}: {line}");
        }
    }
    // A denial that changes the parameters of one key.
    let adopts = denied.replace("TOKENBUCKET 2", "TOKENBUCKET 3");
    for key in KEYS {
        scene.refresh();
        assert_eq!(keeps_watch(&mut scene, key, &adopts), key != "t", "{key}");
    }
    let without_s = "RL.ALL 3 new t l SLIDING 2 3600000 TOKENBUCKET 2 1 PER 3600000 \
                     LEAKY 2 1 PER 3600000";
    for key in KEYS {
        scene.refresh();
        assert_eq!(keeps_watch(&mut scene, key, without_s), key == "s", "{key}");
    }
}
