//! Files with right checksums and wrong contents: an append-only file, whose commands are refused
//! one by one as Redis refuses any that fails, and a snapshot, with which no server starts.

use std::fs;
use std::path::{Path, PathBuf};

use redis::{Parser, Value};

use super::mutate::Mutator;
use super::support::{Client, Config, Payload, Server, bytes, field, list, pack, payload, words};
use super::{SLOW_US, STATES, assert_quick_and_small, assert_valid, call_of, seed, values};

/// Keys with damaged effects, for each key of [`STATES`].
const DAMAGED: usize = 600;
/// Most memory that may be used while they are loaded.
const MOST_BYTES: u64 = 64 << 20;

fn config() -> Config {
    Config::new()
        .append_only()
        .line("aof-use-rdb-preamble no")
        .line("rdbcompression no")
        .line(&format!("slowlog-log-slower-than {SLOW_US}"))
        .client_time()
}

/// The part of an append-only file that grows.
fn growing_file(dir: &Path) -> PathBuf {
    dir.join("appendonlydir/appendonly.aof.1.incr.aof")
}

/// What the module writes for calls of every kind: for each key the payloads of its effects.
fn effects() -> Vec<Vec<Vec<u8>>> {
    let server = Server::with(&config());
    let mut client = server.client();
    let calls: Vec<&str> = STATES.into_iter().flatten().copied().collect();
    for (number, call) in calls.iter().enumerate() {
        let key = format!("k{number}");
        client.ok(&call.replace(" k ", &format!(" {key} ")));
        // Then back, in debt, and with another clock: each is an effect of its own.
        let again = call_of(&client.ok(&format!("RL.INFO {key}")), &key);
        client.run(&format!("RL.REFUND {key} 2 AT 0"));
        client.run(&format!("{again} FORCE COST 2 AT 0"));
        client.run(&format!("{again} COST 0"));
    }
    let content = fs::read(growing_file(server.dir())).expect("the append-only file");
    let (mut rest, mut parser) = (&content[..], Parser::new());
    let mut effects = vec![Vec::new(); calls.len()];
    while let Ok(command @ Value::Array(_)) = parser.parse_value(&mut rest) {
        let words: Vec<Vec<u8>> = list(&command).iter().map(bytes).collect();
        if words[0].eq_ignore_ascii_case(b"rl.effect") {
            let number = String::from_utf8_lossy(&words[1][1..]).parse::<usize>();
            effects[number.expect("a key's number")].push(words[2].clone());
        }
    }
    assert!(effects.iter().all(|of_key| !of_key.is_empty()));
    effects
}

/// A server that starts with an append-only file of these commands.
fn start_with(commands: &[Vec<Vec<u8>>]) -> Server {
    try_start_with(commands).unwrap_or_else(|said| panic!("it does not start: {said}"))
}

/// A server that starts with such a file, or what it said instead.
fn try_start_with(commands: &[Vec<Vec<u8>>]) -> Result<Server, String> {
    let mut server = Server::with(&config());
    server.kill();
    let mut packed = Vec::new();
    commands.iter().for_each(|words| pack(&mut packed, words));
    fs::write(growing_file(server.dir()), packed).expect("a file");
    server.try_start_again().map(|()| server)
}

/// Commands whose errors the server has counted while it loaded.
fn refused_while_loading(client: &mut Client) -> usize {
    let info = client.info("stats");
    let refused = field(&info, "unexpected_error_replies").expect("it is told");
    refused.parse().expect("a number")
}

fn effect(key: &str, payload: &[u8]) -> Vec<Vec<u8>> {
    [b"rl.effect", key.as_bytes(), payload].map(<[u8]>::to_vec).to_vec()
}

/// BR-193 redis/redis#14905: the internal command is a way in too. A payload that is none is an
/// error, which Redis counts, logs and goes on after, as with any command of the file; the key is
/// as it was. A payload that is one leaves a state that can be written, read and called.
#[test]
fn damaged_effects_are_refused_or_valid() {
    let effects = effects();
    let all: Vec<Vec<u8>> = effects.iter().flatten().cloned().collect();
    let mut mutator = Mutator::new(&all, seed());
    let (mut commands, mut keys, mut damaged) = (Vec::new(), Vec::new(), 0);
    for (number, of_key) in effects.iter().enumerate() {
        for copy in 0..DAMAGED {
            let key = format!("k{number}:{copy}");
            // At a key that holds nothing, or a state somewhere in its life; once or twice.
            commands.extend(of_key.iter().take(copy % 4).map(|payload| effect(&key, payload)));
            commands.extend((0..=copy % 2).map(|_| effect(&key, &mutator.next())));
            damaged += 1 + copy % 2;
            // The expiries may be of any time.
            commands.push(words(&format!("PERSIST {key}")));
            keys.push(key);
        }
    }
    let server = start_with(&commands);
    let mut client = server.client();
    let refused = refused_while_loading(&mut client);
    println!("{refused} of {damaged} refused");
    assert!(refused > damaged / 3 && refused + 500 < damaged, "{refused} of {damaged}");
    assert!(server.log().contains("payload must be a state written by this module"));
    let there: Vec<_> = keys.iter().map(|key| words(&format!("EXISTS {key}"))).collect();
    let there = client.pipeline(&there).into_iter().map(|there| there == Value::Int(1));
    let keys: Vec<String> =
        keys.into_iter().zip(there).filter_map(|(key, there)| there.then_some(key)).collect();
    keys.chunks(500).for_each(|some| assert_valid(&mut client, some));
    assert_quick_and_small(&mut client, MOST_BYTES);
}

/// What is refused leaves the key as it was: nothing, or the state of the effects before and after.
#[test]
fn a_refused_effect_changes_nothing() {
    let garbage: [&[u8]; 7] =
        [b"", b"\0", &[0xff; 100], b"\x01\x01T", b"\0\x02T\x05", b"text", b"\0\x01Z\x01"];
    let effects = effects();
    let mut commands = Vec::new();
    for (number, of_key) in effects.iter().enumerate() {
        let (plain, among) = (format!("plain{number}"), format!("among{number}"));
        for payload in of_key {
            commands.push(effect(&plain, payload));
            commands.extend(garbage.iter().map(|garbage| effect(&among, garbage)));
            commands.push(effect(&among, payload));
        }
        commands.extend(garbage.iter().map(|garbage| effect(&among, garbage)));
        commands.extend(garbage.iter().map(|garbage| effect(&format!("none{number}"), garbage)));
        commands.extend([&plain, &among].map(|key| words(&format!("PERSIST {key}"))));
    }
    let all = commands.len();
    let good = effects.iter().map(|of_key| 2 * of_key.len() + 2).sum::<usize>();
    let server = start_with(&commands);
    let mut client = server.client();
    assert_eq!(refused_while_loading(&mut client), all - good);
    for number in 0..effects.len() {
        let plain = client.dump(&format!("plain{number}"));
        assert!(!plain.is_empty(), "{number}");
        assert_eq!(client.dump(&format!("among{number}")), plain, "{number}");
        assert_eq!(client.int(&format!("EXISTS none{number}")), 0);
    }
}

/// Commands that the module never writes, some with too few words or too many. Redis does not count
/// the words of a command in the file; Valkey 9 does, and does not start.
#[test]
fn commands_with_any_words_do_no_harm() {
    let calls = ["EFFECT", "TOKENBUCKET", "LEAKY", "SLIDING", "PEEK", "INFO", "REFUND"];
    let many = " x".repeat(40);
    let mut started = 0;
    for arguments in ["", " k", " k x", " k 1 x", " k 1 1 x", &many] {
        for call in calls {
            let start_with = |between: &str| {
                try_start_with(&[
                    words("RL.TOKENBUCKET before 5 1 PER 3600000"),
                    words(between),
                    words("RL.TOKENBUCKET after 5 1 PER 3600000"),
                ])
            };
            match start_with(&format!("RL.{call}{arguments}")) {
                Ok(server) => {
                    let mut client = server.client();
                    for key in ["before", "after"] {
                        assert_eq!(client.limit(&format!("RL.PEEK {key}")).remaining, 4, "{call}");
                    }
                    assert_eq!(client.int("DBSIZE"), 2, "{call}{arguments}");
                    started += 1;
                }
                Err(said) => assert!(said.contains("wrong number of arguments"), "{said}"),
            }
        }
    }
    assert!(started >= 3 * calls.len(), "{started} starts");
}

/// A snapshot with one key, with right checksums.
fn snapshot(magic: &[u8], value: &Payload) -> Vec<u8> {
    let body = value.body();
    let (kind, body) = body.split_first().expect("a value");
    let mut file = [magic, &[0xfe, 0, *kind, 1, b'k'], body, &[0xff]].concat();
    file.extend(payload::crc64(&file).to_le_bytes());
    file
}

/// A server that finds a damaged value in its snapshot ends with a line that says so, as it does
/// for its own types: it must not go on without some of its limits. Nor does it crash.
#[test]
fn a_damaged_snapshot_ends_the_start_with_a_reason() {
    let mut server = Server::with(&Config::new().client_time().line("rdbcompression no"));
    let mut client = server.client();
    let values = values(&mut client);
    client.ok("SAVE");
    let file = server.dir().join("dump.rdb");
    let magic = fs::read(&file).expect("a snapshot")[..9].to_vec();
    for own in values {
        let value = &own[0];
        fs::write(&file, snapshot(&magic, value)).expect("a file");
        server.kill_and_restart();
        let restored = Payload::read(&server.client().dump("k"));
        assert_eq!(restored.bytes, value.bytes, "undamaged");
        server.kill();
        let len = value.bytes.len();
        for damaged in [
            value.with_bytes(b""),
            value.with_bytes(&value.bytes[..len - 1]),
            value.with_bytes(&[&value.bytes[..2], &[0xff; 30]].concat()),
            value.clone().with_encoding(2),
        ] {
            fs::write(&file, snapshot(&magic, &damaged)).expect("a file");
            let said = server.try_start_again().expect_err("it must not start");
            let reason = said.lines().find(|line| line.contains("Internal error in RDB reading"));
            assert!(reason.is_some_and(|line| line.contains("'rl'")), "{said}");
            // By itself, whatever the status: the server runs its checker of snapshots last.
            assert!(said.contains("exit status") && !said.contains("BUG REPORT"), "{said}");
        }
        fs::write(&file, snapshot(&magic, value)).expect("a file");
        server.start_again();
    }
}
