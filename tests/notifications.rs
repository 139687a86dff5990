//! Keyspace events: what a subscriber hears of the limiters, and what not.
//!
//! With the class `d` there is one event for each call that takes, `rl.allowed`, one for each that
//! is denied, `rl.denied`, and one for each refund that gives something back, `rl.refunded`. There
//! is none for a look, for COST 0, for a 2 of SHADOW, for an error, and none where a state is
//! replayed: on a replica, from a file, from a slot. At its end a key is `expired`, as any key is.

mod support;

use redis::{PushKind, Value};
use support::{Client, Config, Server, bytes, field, list, text, until, wait_for_replica, words};

/// A call of each limiter on a key of its own whose limit is 2 an hour.
const LIMITERS: [(&str, &str); 3] = [
    ("t", "RL.TOKENBUCKET t 2 1 PER 3600000"),
    ("l", "RL.LEAKY l 2 1 PER 3600000"),
    ("s", "RL.SLIDING s 2 3600000"),
];

/// A subscriber to all keyspace events of a server.
struct Listener {
    subscriber: Client,
    caller: Client,
}

/// What is heard when a test has said all it wanted to say.
const MARK: &str = "mark";

impl Listener {
    /// Listens to the events of these classes.
    fn new(server: &Server, classes: &str) -> Listener {
        let mut caller = server.client();
        caller.ok(&format!("CONFIG SET notify-keyspace-events {classes}"));
        let mut subscriber = server.client3();
        subscriber.send(&["PSUBSCRIBE", "__key*__:*", MARK]);
        for _ in 0..2 {
            let answer = subscriber.read();
            assert!(matches!(answer, Value::Push { .. }), "{answer:?}");
        }
        Listener { subscriber, caller }
    }

    /// The events heard so far, as channel and message, in order.
    fn heard(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.caller.ok(&format!("PUBLISH {MARK} x"));
        let mut heard = Vec::new();
        loop {
            let Value::Push { kind: PushKind::PMessage, data } = self.subscriber.read() else {
                panic!("no message");
            };
            let [_, channel, message] = &data[..] else { panic!("{data:?}") };
            if bytes(channel) == MARK.as_bytes() {
                return heard;
            }
            heard.push((bytes(channel), bytes(message)));
        }
    }

    /// The names of the module's events heard so far, each with its key.
    fn events(&mut self) -> Vec<String> {
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let heard = self.heard();
        let events = heard.iter().filter_map(|(channel, key)| {
            let event = shown(channel).strip_prefix("__keyevent@0__:")?.to_owned();
            event.starts_with("rl.").then(|| format!("{event} {}", shown(key)))
        });
        events.collect()
    }

    /// Runs a call and returns what was heard of it: the names of events, all on `key`.
    fn of(&mut self, line: &str, key: &str) -> Vec<String> {
        self.caller.run(line);
        let events = self.events();
        let name = |event: &String| {
            event.strip_suffix(&format!(" {key}")).expect("an event on the key").to_owned()
        };
        events.iter().map(name).collect()
    }
}

/// BR-229 redis/redis#14905: a subscriber sees one documented event for each call that takes, one
/// for each denial, none for looks.
#[test]
fn each_decision_is_heard_once() {
    let server = Server::start();
    let mut listener = Listener::new(&server, "Ed");
    for (key, call) in LIMITERS {
        let other = call.replace(" 2 ", " 3 ");
        let told = [
            // A limit that was never used.
            (format!("RL.PEEK {key}"), ""),
            (format!("RL.REFUND {key} 1"), ""),
            (format!("{call} PEEK"), ""),
            (format!("{call} COST 0"), ""),
            (format!("{call} COST 3"), "rl.denied"),
            (format!("{call} COST 3 SHADOW"), ""),
            // Below it.
            (call.to_owned(), "rl.allowed"),
            (format!("{call} SHADOW"), "rl.allowed"),
            // At it.
            (call.to_owned(), "rl.denied"),
            (format!("{call} RESERVE 1"), "rl.denied"),
            (format!("{call} SHADOW"), ""),
            (format!("{call} PEEK"), ""),
            (format!("{call} COST 0"), ""),
            (format!("RL.PEEK {key} COST 5"), ""),
            (format!("RL.INFO {key}"), ""),
            (format!("{call} FORCE COST 2"), "rl.allowed"),
            // What is written beside the decision makes no difference.
            (format!("{other} COST 0"), ""),
            (call.to_owned(), "rl.denied"),
            (format!("RL.REFUND {key} 1"), "rl.refunded"),
            (format!("RL.REFUND {key} 100"), "rl.refunded"),
            (format!("{call} COST 2"), "rl.allowed"),
            (format!("RL.REFUND {key} 100"), "rl.refunded"),
            // Nothing was left to give back.
            (format!("RL.REFUND {key} 1"), ""),
            // Errors.
            (format!("{call} BANANA"), ""),
            (format!("{call} COST x"), ""),
            (format!("{call} AT 5"), ""),
            (format!("RL.REFUND {key} 0"), ""),
        ];
        for (line, event) in told {
            let expected: &[&str] = if event.is_empty() { &[] } else { &[event] };
            assert_eq!(listener.of(&line, key), expected, "{line}");
        }
        listener.caller.ok(&format!("SET other:{key} x"));
        let wrong = call.replacen(&format!(" {key} "), &format!(" other:{key} "), 1);
        assert_eq!(listener.of(&wrong, key), [""; 0], "{wrong}");
    }
}

/// Both channels tell the same: of the event, and of the key, whatever its bytes, in its database.
#[test]
fn both_channels_name_the_key_and_the_database() {
    let server = Server::start();
    let mut listener = Listener::new(&server, "KEd");
    let key: Vec<u8> = (0..=255).collect();
    listener.caller.ok("SELECT 3");
    for (name, rest) in [
        ("RL.TOKENBUCKET", &["2", "1"][..]),
        ("RL.LEAKY", &["2", "1"]),
        ("RL.SLIDING", &["2", "1000"]),
    ] {
        let mut call: Vec<&[u8]> = vec![name.as_bytes(), &key];
        call.extend(rest.iter().map(|word| word.as_bytes()));
        listener.caller.call(&call);
        let by_key = ([b"__keyspace@3__:", &key[..]].concat(), b"rl.allowed".to_vec());
        let by_event = (b"__keyevent@3__:rl.allowed".to_vec(), key.clone());
        assert_eq!(listener.heard(), [by_key, by_event], "{name}");
        listener.caller.call(&[&b"DEL"[..], &key]);
    }
}

/// The events are of the class `d`, which is part of `A`, and of no other.
#[test]
fn the_class_is_that_of_modules() {
    let server = Server::start();
    for (classes, heard) in [("Ed", true), ("EA", true), ("Eg$lshztxe", false), ("\\e", false)] {
        let mut listener = Listener::new(&server, classes);
        listener.caller.ok("DEL k");
        listener.caller.limit("RL.TOKENBUCKET k 2 1");
        let expected: &[&str] = if heard { &["rl.allowed k"] } else { &[] };
        assert_eq!(listener.events(), expected, "{classes}");
    }
}

/// Inside of transactions and scripts each call is heard for itself.
#[test]
fn transactions_and_scripts_are_heard_call_by_call() {
    let server = Server::start();
    let mut listener = Listener::new(&server, "Ed");
    for (key, call) in LIMITERS {
        let each = ["rl.allowed", "rl.allowed", "rl.denied"].map(|event| format!("{event} {key}"));
        listener.caller.pipeline(&["MULTI", call, call, call, "EXEC"].map(words));
        assert_eq!(listener.events(), each, "{call} in MULTI");
        listener.caller.ok(&format!("DEL {key}"));
        let script = "for i = 1, 3 do redis.call(unpack(ARGV)) end";
        let eval = ["EVAL", script, "1", key].into_iter().chain(call.split(' '));
        listener.caller.call(&eval.collect::<Vec<_>>());
        assert_eq!(listener.events(), each, "{call} in a script");
    }
}

/// RL.ALL is heard once for each key that takes, in the order of its keys, or once for the first
/// one that denies.
#[test]
fn several_limits_are_heard_key_by_key() {
    let server = Server::start();
    let mut listener = Listener::new(&server, "Ed");
    let rules = "TOKENBUCKET 2 1 PER 3600000 LEAKY 2 1 PER 3600000 SLIDING 2 3600000";
    let all = format!("RL.ALL 3 t l s {rules}");
    let last = |cost: u32| format!("{all} COST {cost}");
    let leaky = |cost| all.replace("LEAKY 2 1", &format!("LEAKY 2 1 COST {cost}"));
    let told: [(String, &[&str]); 12] = [
        (format!("{all} PEEK"), &[]),
        (all.replace("3600000", "3600000 COST 0"), &[]),
        (last(3), &["rl.denied s"]),
        (leaky(3), &["rl.denied l"]),
        (format!("{} COST 3", leaky(3)), &["rl.denied l"]),
        (format!("{} SHADOW", last(3)), &[]),
        (format!("{} PEEK", last(3)), &[]),
        (all.clone(), &["rl.allowed t", "rl.allowed l", "rl.allowed s"]),
        (leaky(0), &["rl.allowed t", "rl.allowed s"]),
        // What changes beside a denial is not heard.
        ("RL.ALL 2 l t LEAKY 3 1 TOKENBUCKET 3 1 COST 4".to_owned(), &["rl.denied t"]),
        (format!("{all} COST x"), &[]),
        ("RL.ALL 2 l t LEAKY 3 1 LEAKY 3 1".to_owned(), &[]),
    ];
    for (line, events) in told {
        listener.caller.run(&line);
        assert_eq!(listener.events(), events, "{line}");
    }
    listener.caller.ok("FLUSHALL");
    listener.caller.pipeline(&["MULTI", &all, "EXEC"].map(words));
    let each = ["rl.allowed t", "rl.allowed l", "rl.allowed s"];
    assert_eq!(listener.events(), each, "in MULTI");
}

/// RL.THROTTLE is heard as a token bucket is.
#[test]
fn a_throttled_call_is_heard_once() {
    let server = Server::start();
    let mut listener = Listener::new(&server, "Ed");
    for (line, event) in [
        ("RL.THROTTLE k 0 1 3600 0", ""),
        ("RL.THROTTLE k 0 1 3600", "rl.allowed"),
        ("RL.THROTTLE k 0 1 3600", "rl.denied"),
        ("RL.THROTTLE k 0 1 3600 2", "rl.denied"),
        ("RL.THROTTLE k 0 1 3600 0", ""),
        ("RL.THROTTLE k 0 1 x", ""),
    ] {
        let expected: &[&str] = if event.is_empty() { &[] } else { &[event] };
        assert_eq!(listener.of(line, "k"), expected, "{line}");
    }
}

/// Where a state is replayed nothing is heard: on a replica, which has listeners of its own, and
/// from files.
#[test]
fn a_replay_is_silent() {
    let server = Server::with(&Config::new().debug().append_only());
    let replica = server.replica();
    let mut listener = Listener::new(&server, "KEA");
    let mut of_replica = Listener::new(&replica, "KEA");
    for (key, call) in LIMITERS {
        (0..3).for_each(|_| drop(listener.caller.ok(call)));
        listener.caller.ok(&format!("RL.REFUND {key} 1"));
    }
    assert_eq!(listener.events().len(), 12);
    wait_for_replica(&server, &replica);
    assert_eq!(of_replica.events(), [""; 0], "on the replica");
    assert_eq!(of_replica.caller.int("DBSIZE"), 3);
    // Looks are answered there, and not heard either.
    of_replica.caller.ok("RL.PEEK t");
    of_replica.caller.refused(LIMITERS[0].1);
    assert_eq!(of_replica.events(), [""; 0], "on the replica");
    for reload in ["DEBUG RELOAD", "DEBUG LOADAOF", "BGREWRITEAOF"] {
        listener.caller.ok(reload);
        server.wait_for_background_jobs();
        assert_eq!(listener.caller.int("DBSIZE"), 3, "{reload}");
        assert_eq!(listener.events(), [""; 0], "{reload}");
    }
    listener.caller.ok("DEBUG LOADAOF");
    assert_eq!(listener.events(), [""; 0], "from the rewritten file");
    // A whole synchronization.
    of_replica.caller.ok("REPLICAOF NO ONE");
    of_replica.caller.ok("FLUSHALL");
    of_replica.caller.ok(&format!("REPLICAOF 127.0.0.1 {}", server.port()));
    wait_for_replica(&server, &replica);
    assert_eq!(of_replica.caller.int("DBSIZE"), 3);
    assert_eq!(of_replica.events(), [""; 0], "a full synchronization");
}

/// At its end a key is `expired`, once, and nothing of the module's is heard.
#[test]
fn a_key_that_ends_is_expired() {
    let server = Server::start();
    let mut listener = Listener::new(&server, "EA");
    for call in ["RL.TOKENBUCKET t 1 1 PER 50", "RL.LEAKY l 1 1 PER 50", "RL.SLIDING s 1 50"] {
        listener.caller.limit(call);
        let mut heard = Vec::new();
        let key = call.split(' ').nth(1).expect("a key");
        // The server deletes it when it looks at it, or by itself.
        until("the key is gone", || listener.caller.int(&format!("EXISTS {key}")) == 0);
        heard.extend(listener.heard());
        let named = |event: &str| {
            let channel = format!("__keyevent@0__:{event}").into_bytes();
            heard.iter().filter(|heard| **heard == (channel.clone(), key.into())).count()
        };
        assert_eq!((named("rl.allowed"), named("expired")), (1, 1), "{call}: {heard:?}");
        let modules = heard.iter().filter(|(channel, _)| channel.windows(4).any(|w| w == b":rl."));
        assert_eq!(modules.count(), 1, "{call}: {heard:?}");
    }
}

/// What is refused for want of memory is no decision.
#[test]
fn an_error_for_want_of_memory_is_silent() {
    let server = Server::start();
    let mut listener = Listener::new(&server, "Ed");
    listener.caller.ok("CONFIG SET maxmemory 1");
    for (key, call) in LIMITERS {
        assert!(listener.caller.refused(call).starts_with("OOM "), "{call}");
        assert_eq!(listener.of(call, key), [""; 0], "{call}");
        // A denial needs no memory, and is one.
        assert_eq!(listener.of(&format!("{call} COST 3"), key), ["rl.denied"], "{call}");
    }
}

/// Rounds of calls with events on and off, one after the other.
const ROUNDS: usize = 15;
/// Calls in a round: few, so that some rounds are not interrupted.
const CALLS: usize = 1000;

/// Switched off, events cost nothing that could be measured: the server itself looks at one flag
/// and does no more, where it makes messages of an event that is on and heard. The time per call is
/// the server's own count, the least of several rounds.
#[test]
fn events_that_are_off_cost_nothing() {
    let server = Server::start();
    let (mut client, mut subscriber) = (server.client(), server.client());
    subscriber.ok("SUBSCRIBE __keyevent@0__:rl.denied");
    let call = words("RL.TOKENBUCKET k 1 1 PER 3600000");
    client.pipeline(std::slice::from_ref(&call));
    let calls = vec![call; CALLS];
    let mut least = [f64::MAX; 2];
    for _ in 0..ROUNDS {
        for (classes, least) in ["\\e", "Ed"].iter().zip(&mut least) {
            client.ok(&format!("CONFIG SET notify-keyspace-events {classes}"));
            client.ok("CONFIG RESETSTAT");
            client.pipeline(&calls);
            *least = least.min(us_per_call(&mut client));
            let heard = if *classes == "Ed" { CALLS } else { 0 };
            (0..heard).for_each(|_| drop(subscriber.read()));
        }
    }
    // Nothing was left to hear.
    assert_eq!(text(&list(&subscriber.ok("PING"))[0]), "pong");
    let [off, on] = least;
    println!("{off} us a denial with events off, {on} us with events on");
    assert!(off < on, "{off} us a call with events off, {on} us with events on");
}

fn us_per_call(client: &mut Client) -> f64 {
    let stats = client.info("commandstats");
    let stats = field(&stats, "cmdstat_rl.tokenbucket").expect("the server counts");
    let per_call = stats.split(',').find_map(|stat| stat.strip_prefix("usec_per_call="));
    per_call.and_then(|us| us.parse().ok()).expect("a number")
}

/// The subscriber is one of RESP3; one of RESP2 hears the same.
#[test]
fn subscribers_of_resp2_hear_the_same() {
    let server = Server::start();
    let mut caller = server.client();
    caller.ok("CONFIG SET notify-keyspace-events Kd");
    let mut subscriber = server.client();
    subscriber.ok("SUBSCRIBE __keyspace@0__:k");
    caller.ok("RL.SLIDING k 1 60000");
    caller.ok("RL.SLIDING k 1 60000");
    for event in ["rl.allowed", "rl.denied"] {
        let message: Vec<String> = list(&subscriber.read()).iter().map(text).collect();
        assert_eq!(message, ["message", "__keyspace@0__:k", event]);
    }
}
