//! What Redis does to keys of any type, through the append-only file and down to the memory.

use super::support::{Client, Config, Server, field, text, until, words};
use super::{Contents, append_only, contents, grow_window, rewrite, used_memory};

/// Databases that the tests here use.
const DATABASES: [u32; 3] = [0, 1, 2];
/// Hits of a window that fill more than the 64 blocks from which on a value is freed in the
/// background.
const MANY_HITS: u64 = 20_000;
/// Copies of such a window that are freed.
const COPIES: u64 = 20;

/// States of each limiter in the current database: taken from, in debt, and a long window.
fn fill(client: &mut Client) {
    for call in [
        "RL.TOKENBUCKET t:some 5 0.123456789 PER 3600000 COST 3",
        "RL.TOKENBUCKET t:debt 5 1 PER 3600000 FORCE COST 30",
        "RL.LEAKY l:some 5 0.5 PER 3600000 COST 3",
        "RL.LEAKY l:debt 5 1 PER 3600000 FORCE COST 30",
        "RL.SLIDING s:some 5 3600000 COST 3",
        "RL.SLIDING s:debt 5 3600000 FORCE COST 30",
    ] {
        client.limit(call);
    }
    grow_window(client, "s:long", 0..3000);
}

/// What all databases hold.
fn all(client: &mut Client) -> Vec<Contents> {
    let all = DATABASES.map(|number| {
        client.ok(&format!("SELECT {number}"));
        contents(client)
    });
    client.ok("SELECT 0");
    all.to_vec()
}

/// Each command that copies, moves, renames, replaces or removes keys, done to every kind of state.
fn rearrange(client: &mut Client) {
    let keys = ["t:some", "t:debt", "l:some", "l:debt", "s:some", "s:debt", "s:long"];
    for (key, other) in keys.iter().zip(keys.iter().cycle().skip(1)) {
        for line in [
            format!("COPY {key} {key}:copy"),
            format!("COPY {key} {key}:copy DB 1"),
            format!("COPY {other} {key}:copy REPLACE"),
            format!("RENAME {key}:copy {key}:renamed"),
            format!("COPY {key} {key}:moved"),
            format!("MOVE {key}:moved 2"),
            format!("COPY {key} {key}:gone"),
            format!("UNLINK {key}:gone"),
            format!("COPY {other} {key}:over"),
            format!("COPY {key} {key}:onto"),
            format!("RENAME {key}:onto {key}:over"),
            format!("COPY {key} {key}:lasting"),
            format!("PERSIST {key}:lasting"),
        ] {
            client.ok(&line);
        }
        let payload = client.dump(key);
        let name = format!("{key}:restored");
        let args: [&[u8]; 6] =
            [b"RESTORE", name.as_bytes(), b"4102444800000", &payload, b"ABSTTL", b"REPLACE"];
        assert_eq!(text(&client.call(&args)), "OK", "{key}");
    }
    client.ok("SWAPDB 1 2");
    client.ok("SELECT 2");
    client.ok("RL.REFUND t:some:copy 1");
    client.ok("SELECT 0");
}

/// COPY, RENAME, MOVE, SWAPDB, RESTORE, UNLINK and PERSIST come back from the append-only file,
/// and so does what calls have made of the keys since.
#[test]
fn what_is_done_to_keys_comes_back() {
    for (preamble, rewritten) in [("yes", false), ("yes", true), ("no", true)] {
        let mut server = Server::with(&append_only(preamble).client_time());
        let mut client = server.client();
        fill(&mut client);
        rearrange(&mut client);
        if rewritten {
            rewrite(&server);
        }
        for line in [
            "RL.LEAKY l:some:lasting 5 1 PER 3600000",
            "RL.REFUND s:long:lasting 5 AT 1700000300000",
        ] {
            client.limit(line);
        }
        let before = all(&mut client);
        assert_eq!(before.each_len(), [35, 7, 7], "keys");
        server.kill_and_restart();
        assert_eq!(all(&mut server.client()), before, "{preamble}, rewritten {rewritten}");
    }
}

/// FLUSHALL ASYNC and FLUSHDB ASYNC come back as nothing, and what was called after is there.
#[test]
fn a_flush_comes_back() {
    let mut server = Server::with(&append_only("no").client_time());
    let mut client = server.client();
    for (flush, left) in [("FLUSHALL ASYNC", [1, 0, 0]), ("FLUSHDB ASYNC", [1, 7, 0])] {
        fill(&mut client);
        client.ok("SELECT 1");
        fill(&mut client);
        client.ok("SELECT 0");
        client.ok(flush);
        client.limit("RL.TOKENBUCKET after 5 1 PER 3600000");
        let before = all(&mut client);
        assert_eq!(before.each_len(), left, "{flush}");
        server.kill_and_restart();
        client = server.client();
        assert_eq!(all(&mut client), before, "{flush}");
    }
}

trait EachLen {
    fn each_len(&self) -> Vec<usize>;
}

impl EachLen for Vec<Contents> {
    fn each_len(&self) -> Vec<usize> {
        self.iter().map(Contents::len).collect()
    }
}

fn lazily_freed(client: &mut Client) -> u64 {
    let info = client.info("memory");
    field(&info, "lazyfreed_objects").and_then(|number| number.parse().ok()).expect("it is told")
}

/// UNLINK, FLUSHALL ASYNC and a write over a key leave long windows to the background, where all of
/// their memory is given back while clients call.
#[test]
fn long_windows_are_freed_in_the_background() {
    let server = Server::with(&Config::new().client_time().line("lazyfree-lazy-server-del yes"));
    let mut client = server.client();
    grow_window(&mut client, "long", 0..MANY_HITS);
    let payload = client.dump("long");
    client.ok("DEL long");
    // The server's own buffers grow once.
    free_in_the_background(&mut client, &payload);
    let before = used_memory(&mut client);
    let held = free_in_the_background(&mut client, &payload);
    assert!(held > COPIES * MANY_HITS, "{held} bytes");
    until("the memory is back", || used_memory(&mut client) < before + held / COPIES);
}

/// Fills a server with copies of a window and frees all of them; how much memory they took.
fn free_in_the_background(client: &mut Client, payload: &[u8]) -> u64 {
    let before = used_memory(client);
    for number in 0..COPIES {
        let key = format!("k{number}");
        client.call(&[b"RESTORE".as_slice(), key.as_bytes(), b"0", payload]);
    }
    let held = used_memory(client) - before;
    let others: Vec<_> =
        (0..COPIES).map(|key| words(&format!("RL.LEAKY other{key} 9 9"))).collect();
    for (lines, freed) in [
        ((0..10).map(|number| format!("UNLINK k{number}")).collect(), 10),
        (vec!["RENAME k10 k11".to_owned(), "COPY k12 k13 REPLACE".to_owned()], 2),
        (vec!["FLUSHALL ASYNC".to_owned()], COPIES - 11),
    ] {
        let start = lazily_freed(client);
        lines.iter().for_each(|line: &String| drop(client.ok(line)));
        client.pipeline(&others);
        until("all is freed", || lazily_freed(client) >= start + freed);
    }
    client.ok("FLUSHALL");
    held
}

/// Copies, restored payloads and renames over keys keep no memory of what was there before.
#[test]
fn no_command_keeps_the_memory_of_old_values() {
    let server = Server::with(&Config::new().client_time());
    let mut client = server.client();
    grow_window(&mut client, "long", 0..MANY_HITS);
    client.ok("PERSIST long");
    let payload = client.dump("long");
    let round = |client: &mut Client| {
        client.ok("COPY long copy REPLACE");
        client.ok("RENAME copy other");
        client.call(&[b"RESTORE".as_slice(), b"long", b"0", &payload, b"REPLACE"]);
        client.ok("RL.REFUND long 10000 AT 1700002000000");
        client.ok("COPY long third");
        client.ok("DEL third");
    };
    round(&mut client);
    let before = used_memory(&mut client);
    (0..50).for_each(|_| round(&mut client));
    until("nothing is kept", || used_memory(&mut client) < before + MANY_HITS);
}
