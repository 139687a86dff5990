//! What RL.ALL sends: the effects of its keys as one unit, and nothing of the call itself.

use super::effects::{Command, Stream, expiry, in_file, lower, names};
use super::support::{Config, Server, wait_for_replica, words};
use super::{assert_same, contents};

const ALL: &str = "RL.ALL 3 t l s TOKENBUCKET 2 1 PER 3600000 LEAKY 2 1 PER 3600000 \
                   SLIDING 2 3600000";
const UNIT: [&str; 5] = ["multi", "rl.effect", "rl.effect", "rl.effect", "exec"];

/// Calls on fresh keys, and the names of what is sent of the last of them.
fn ways() -> Vec<(&'static str, Vec<String>, Vec<&'static str>)> {
    let line = |line: &str| vec![line.to_owned()];
    let all_but_one = ALL.replace("LEAKY 2 1", "LEAKY 2 1 COST 0");
    let one = all_but_one.replace("TOKENBUCKET 2 1", "TOKENBUCKET 2 1 COST 0");
    let script = "return\\sredis.call(unpack(ARGV))";
    let twice: Vec<&str> = UNIT[..4].iter().chain(&UNIT[1..]).copied().collect();
    let two_of = |words: &[&'static str]| words.to_vec();
    vec![
        ("alone", line(ALL), UNIT.to_vec()),
        ("two keys", line(&all_but_one), two_of(&["multi", "rl.effect", "rl.effect", "exec"])),
        ("one key", line(&one), vec!["rl.effect"]),
        ("a look", line(&format!("{ALL} PEEK")), vec![]),
        ("denied", line(&format!("{ALL} COST 3")), vec![]),
        ("let through", line(&format!("{ALL} COST 3 SHADOW")), vec![]),
        ("an error", line(&format!("{ALL} COST x")), vec![]),
        ("in a script", line(&format!("EVAL {script} 3 t l s {ALL}")), UNIT.to_vec()),
        ("in MULTI", ["MULTI", ALL, ALL, ALL, "EXEC"].map(str::to_owned).to_vec(), twice),
    ]
}

/// BR-238 and BR-225 for several keys: replica and append-only file get the effects of a call
/// inside of one MULTI, in the order of its keys, each with its absolute expiry.
#[test]
fn the_effects_of_a_call_are_one_unit() {
    let primary = Server::with(&Config::new().append_only());
    let replica = primary.replica_with(Config::new().append_only());
    replica.wait_for_background_jobs();
    let mut stream = Stream::of(&primary);
    for mut client in [primary.client(), primary.client3()] {
        for (way, calls, sent) in ways() {
            client.ok("DEL t l s");
            stream.commands(&mut client);
            client.pipeline(&calls.iter().map(|line| words(line)).collect::<Vec<_>>());
            let expires: Vec<i64> =
                ["t", "l", "s"].map(|key| client.int(&format!("PEXPIRETIME {key}"))).to_vec();
            let commands = stream.commands(&mut client);
            assert_eq!(names(&commands), sent, "{way}: the stream");
            expect_effects(&commands, &expires, way);
            for server in [&primary, &replica] {
                let in_file = in_file(server, stream.marks);
                assert_eq!(lower(&in_file), lower(&commands), "{way}: the file");
            }
        }
    }
    primary.client().all(ALL);
    assert_same(&primary, &replica, "after calls of all ways");
}

/// Each effect has a key of the call and the expiry that this key has; the last of a key counts.
fn expect_effects(commands: &[Command], expires: &[i64], way: &str) {
    for (key, expire_ms) in ["t", "l", "s"].iter().zip(expires) {
        let of_key = |command: &&Command| command.len() == 3 && command[1] == key.as_bytes();
        if let Some(last) = commands.iter().rfind(of_key) {
            assert_eq!(expiry(&last[2]), *expire_ms, "{way}: {key}");
        }
    }
    let effects = commands.iter().filter(|command| command[0] == b"rl.effect");
    let keys: Vec<&[u8]> = effects.take(3).map(|command| command[1].as_slice()).collect();
    let in_order: Vec<&[u8]> =
        [&b"t"[..], b"l", b"s"].into_iter().filter(|key| keys.contains(key)).collect();
    assert_eq!(keys, in_order, "{way}");
}

/// A denied call that adopts parameters sends those keys and no others.
#[test]
fn a_denial_sends_only_what_it_adopts() {
    let primary = Server::start();
    let replica = primary.replica();
    let mut client = primary.client();
    let mut stream = Stream::of(&primary);
    client.all(ALL);
    stream.commands(&mut client);
    let adopts = "RL.ALL 3 t l s TOKENBUCKET 3 1 PER 3600000 LEAKY 2 1 PER 3600000 \
                  SLIDING 3 3600000 COST 9";
    assert_eq!(client.all(adopts).allowed, 0);
    let commands = stream.commands(&mut client);
    assert_eq!(names(&commands), ["multi", "rl.effect", "rl.effect", "exec"]);
    assert_eq!((&commands[1][1], &commands[2][1]), (&b"t".to_vec(), &b"s".to_vec()));
    client.all(adopts);
    assert_eq!(stream.commands(&mut client), [] as [Command; 0], "nothing is new any more");
    assert_same(&primary, &replica, "after denials");
}

/// A replica that is asked between two calls sees each of them on all keys or on none: it applies a
/// unit at once, however it is asked meanwhile.
#[test]
fn a_replica_never_shows_half_a_call() {
    let primary = Server::start();
    let replica = primary.replica();
    let call = "RL.ALL 2 a b SLIDING 100000 3600000 SLIDING 100000 3600000";
    let (mut client, mut reader) = (primary.client(), replica.client());
    let calls = vec![words(call); 100];
    for _ in 0..20 {
        client.pipeline(&calls);
        // One command, so that both keys are read at one instant.
        let looks = "return\\s{redis.call('RL.PEEK','a'),redis.call('RL.PEEK','b')}";
        let answer = reader.ok(&format!("EVAL_RO {looks} 2 a b"));
        let both = super::support::list(&answer);
        let remaining = |value: &redis::Value| super::support::ints(value).map(|ints| ints[2]);
        assert_eq!(remaining(&both[0]), remaining(&both[1]), "half a call on the replica");
    }
    wait_for_replica(&primary, &replica);
    let held = contents(&mut reader);
    assert_eq!(held.len(), 2);
    assert_same(&primary, &replica, "after all calls");
}
