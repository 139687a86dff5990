//! Values go from any supported server to any other, and a value of a later version of the module
//! is refused with an error.

use std::path::Path;
use std::process::Command;

use redis::Value;

use super::support::{Client, Config, Payload, Server, error_text, payload, text};
use super::{grow_window, report};

/// The instant of the calls, and the one at which their states are looked at.
const CALLED_MS: u64 = 1_700_000_000_000;
const LOOKED_MS: u64 = 1_700_000_600_000;

/// The states that go around: keys, with the calls that make them.
const STATES: [(&str, &str); 7] = [
    ("t:some", "RL.TOKENBUCKET t:some 5 0.123456789 PER 3600000 COST 3"),
    ("t:debt", "RL.TOKENBUCKET t:debt 9007199254740992 1000000000 PER 1 COST 9007199254740992"),
    ("t:slow", "RL.TOKENBUCKET t:slow 10 1 PER 315360000000 COST 9"),
    ("l:some", "RL.LEAKY l:some 5 0.5 PER 3600000 COST 3"),
    ("l:debt", "RL.LEAKY l:debt 5 1 PER 3600000 FORCE COST 30"),
    ("s:some", "RL.SLIDING s:some 5 3600000 COST 3"),
    ("s:debt", "RL.SLIDING s:debt 5 3600000 RESOLUTION 60000 FORCE COST 4503599627370496"),
];

/// The servers of the matrix that are here, by name and start command.
fn servers() -> Vec<(String, String)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/matrix/servers.sh");
    let ask = |words: &[&str]| {
        let output = Command::new(&script).args(words).output().expect("the script runs");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("a text").trim().to_owned()
    };
    let names = ask(&["list"]);
    let mut servers = Vec::new();
    for name in names.lines() {
        let command = ask(&["command", name]);
        let words: Vec<&str> = command.split_whitespace().collect();
        let Some((program, words)) = words.split_first() else { continue };
        let version = Command::new(program).args(words).arg("--version").output();
        if version.is_ok_and(|output| output.status.success()) {
            servers.push((name.to_owned(), command));
        } else {
            report(&format!("DUMP and RESTORE with {name}: it was not fetched"));
        }
    }
    servers
}

/// Makes all states on a server; their names.
fn make_states(client: &mut Client) -> Vec<&'static str> {
    let mut keys = Vec::new();
    for (key, call) in STATES {
        assert_eq!(client.limit(&format!("{call} AT {CALLED_MS}")).allowed, 1, "{call}");
        keys.push(key);
    }
    grow_window(client, "s:long", 0..3000);
    keys.push("s:long");
    keys
}

/// What is known of a state from outside.
fn answers(client: &mut Client, key: &str) -> [Value; 2] {
    ["RL.PEEK", "RL.INFO"].map(|look| client.ok(&format!("{look} {key} AT {LOOKED_MS}")))
}

/// A server, and what it holds: name, dump and answers of each key.
struct Source {
    name: String,
    client: Client,
    states: Vec<(&'static str, Vec<u8>, [Value; 2])>,
    // Last, since it ends with this.
    _server: Server,
}

fn source(name: String, config: &Config) -> Source {
    let server = Server::with(config);
    let mut client = server.client();
    let keys = make_states(&mut client);
    let states =
        keys.into_iter().map(|key| (key, client.dump(key), answers(&mut client, key))).collect();
    Source { name, client, states, _server: server }
}

/// BR-235 netbox-community/netbox-docker#1304: what one server dumps every other restores, and
/// answers alike. A server refuses a file format that is newer than its own, or another product's,
/// whatever is in it; the value itself is taken under the server's own format.
#[test]
fn every_server_restores_what_another_has_dumped() {
    let config = Config::new().client_time();
    let mut sources = vec![source("the server under test".to_owned(), &config)];
    for (name, command) in servers() {
        sources.push(source(name, &config.clone().server(&command)));
    }
    let (mut direct, mut stamped) = (0, 0);
    for from in 0..sources.len() {
        for to in 0..sources.len() {
            let states = sources[from].states.clone();
            let way = format!("from {} to {}", sources[from].name, sources[to].name);
            let own = payload::format(&sources[to].states[0].1);
            for (key, dump, expected) in states {
                let client = &mut sources[to].client;
                if restore(client, &dump, own, &format!("{key} {way}")) {
                    direct += 1;
                } else {
                    stamped += 1;
                }
                assert_eq!(answers(client, "restored"), expected, "{key} {way}");
                // Packed by the same rules, the value is the same to the byte.
                client.ok(&format!("COPY {key} copy REPLACE"));
                assert_eq!(client.dump("restored"), client.dump("copy"), "{key} {way}");
            }
        }
    }
    println!("{direct} restored as they were, {stamped} under another file format");
    assert!(direct >= sources.len() * (STATES.len() + 1), "at least each server takes its own");
}

/// Restores a dump; false if the server takes its format only as its own.
fn restore(client: &mut Client, dump: &[u8], own: [u8; 2], what: &str) -> bool {
    let mut restore = |dump: &[u8]| {
        error_text(&client.call(&[b"RESTORE".as_slice(), b"restored", b"0", dump, b"REPLACE"]))
    };
    let Some(refusal) = restore(dump) else { return true };
    assert!(refusal.contains("DUMP payload version or checksum are wrong"), "{what}: {refusal}");
    let [format, own_format] = [payload::format(dump), own].map(u16::from_le_bytes);
    // Valkey counts from 80 on, and takes what is below and later than its own for another's.
    let foreign = own_format >= 80 && (12..80).contains(&format);
    assert!(format > own_format || foreign, "{what}: {refusal}");
    assert_eq!(restore(&payload::stamp(payload::body(dump), own)), None, "{what}");
    false
}

/// BR-235 netbox-community/netbox-docker#1304: a payload of an unknown encoding version, be it that
/// of the type or that of the module's bytes, is an error; the server lives, the key is unchanged.
#[test]
fn an_unknown_encoding_version_is_an_error() {
    let server = Server::with(&Config::new().client_time().line("rdbcompression no"));
    let mut client = server.client();
    for key in make_states(&mut client) {
        let dump = client.dump(key);
        let known = Payload::read(&dump);
        assert_eq!((known.encoding(), known.bytes[0]), (1, 1), "{key}: the version of today");
        assert_eq!(known.write(), dump, "{key}");
        // There was no version 0.
        let of_type = [0, 2, 3, 1023].map(|version| known.clone().with_encoding(version));
        let of_bytes = [0, 2, 3, 255]
            .map(|version| known.with_bytes(&[&[version], &known.bytes[1..]].concat()));
        for unknown in [of_type, of_bytes].concat() {
            let args = [b"RESTORE".as_slice(), key.as_bytes(), b"0", &unknown.write(), b"REPLACE"];
            let refusal = error_text(&client.call(&args)).unwrap_or_else(|| {
                panic!("{key}: taken: version {} {}", unknown.encoding(), unknown.bytes[0])
            });
            assert!(refusal.starts_with("ERR "), "{refusal}");
            assert_eq!(client.dump(key), dump, "{key}");
        }
    }
    let hint = "an unknown version of the module rl wrote this value, upgrade it";
    assert!(server.log().contains(hint), "the log says what to do");
    assert_eq!(text(&client.ok("PING")), "PONG");
}
