//! After a crash each call is there whole, once, or not at all: never on one key without the other.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};

use redis::Value;

use super::support::{Client, Config, Server, beside, bytes, int, list, text, until, words};

/// As good as nothing comes back while a test runs, so units can be counted.
const ALL: &str = "RL.ALL 3 t l s TOKENBUCKET 100000 1 PER 3600000 \
                   LEAKY 100000 1 PER 3600000 SLIDING 100000 3600000";
const KILLS: i64 = 5;
/// Calls that a round waits for before the server is killed.
const CALLS: i64 = 60;
const CLIENTS: usize = 3;

/// Units that each of the three keys holds.
fn units(client: &mut Client) -> [i64; 3] {
    ["t", "l", "s"].map(|key| match client.run(&format!("RL.PEEK {key}")) {
        Value::Nil => 0,
        reply => 100_000 - int(&list(&reply)[2]),
    })
}

/// BR-238 and BR-254 over a crash: with every write in the file before it is answered, a call that
/// was acknowledged counts once on each key, and one under way on all of them or on none.
#[test]
fn a_kill_under_load_leaves_no_key_behind_another() {
    let mut server = Server::with(&Config::new().append_only());
    let (mut counted, mut in_flight) = (0, 0);
    for round in 1..=KILLS {
        let acknowledged = AtomicI64::new(0);
        // The server dies with the thread that started it, so it is killed from here.
        let load = (0..CLIENTS).map(|_| {
            let (mut client, acknowledged) = (server.client(), &acknowledged);
            move |_: &std::sync::atomic::AtomicBool| {
                let call = words(ALL);
                while let Ok(answer) = client.try_call(&call) {
                    assert_eq!(int(&list(&answer)[0]), 1);
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        let load: Vec<_> = load.collect();
        beside(load, || {
            until("calls were answered", || acknowledged.load(Ordering::SeqCst) >= CALLS);
            server.kill();
        });
        server.start_again();
        let [t, l, s] = units(&mut server.client());
        assert_eq!((t, l), (s, s), "round {round}: one key without another");
        counted += acknowledged.load(Ordering::SeqCst);
        in_flight += i64::try_from(CLIENTS).expect("a few");
        assert!((counted..=counted + in_flight).contains(&t), "{t} units, {counted} answered");
        // Loaded twice, counted once.
        server.kill_and_restart();
        assert_eq!(units(&mut server.client()), [t, l, s], "round {round}");
        (counted, in_flight) = (t, 0);
    }
}

/// The part of the append-only file that grows.
fn growing_file(server: &Server) -> PathBuf {
    let files = fs::read_dir(server.dir().join("appendonlydir")).expect("the append-only files");
    let paths = files.map(|file| file.expect("a file").path());
    let newest = paths.filter(|path| path.to_string_lossy().ends_with(".incr.aof")).max();
    newest.expect("one that grows")
}

/// A file that ends in the middle of a call, as a power cut leaves it: that call is not there, on
/// any key, and the one before it is, on all.
#[test]
fn a_file_cut_anywhere_holds_whole_calls() {
    let mut server = Server::with(&Config::new().append_only().line("aof-use-rdb-preamble no"));
    let mut client = server.client();
    assert_eq!(client.all(ALL).allowed, 1);
    let path = growing_file(&server);
    let one = fs::read(&path).expect("the file").len();
    let before: Vec<Vec<u8>> =
        ["t", "l", "s"].map(|key| bytes(&client.ok(&format!("DUMP {key}")))).to_vec();
    assert_eq!(client.all(ALL).allowed, 1);
    server.kill();
    let two = fs::read(&path).expect("the file");
    assert!(two.len() > one, "the second call is in the file");
    let unit = String::from_utf8_lossy(&two[one..]).to_lowercase();
    assert_eq!(unit.matches("multi").count(), 1, "{unit}");
    assert_eq!(unit.matches("rl.effect").count(), 3, "{unit}");
    let length = two.len() - one;
    for eighth in 0..=8 {
        let cut = one + (length - 1) * eighth / 8;
        fs::write(&path, &two[..cut]).expect("a file");
        server.start_again();
        let mut client = server.client();
        assert_eq!(units(&mut client), [1, 1, 1], "cut at {cut} of {one} to {}", two.len());
        for (key, dump) in ["t", "l", "s"].iter().zip(&before) {
            assert_eq!(&client.dump(key), dump, "{key}, cut at {cut}");
        }
        server.kill();
    }
    fs::write(&path, &two).expect("a file");
    server.start_again();
    assert_eq!(units(&mut server.client()), [2, 2, 2], "the whole file");
    assert_eq!(text(&server.client().ok("PING")), "PONG");
}
