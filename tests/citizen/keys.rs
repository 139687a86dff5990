//! What Redis does with any key works with these.

use redis::Value;

use super::support::{Client, Config, Server, bytes, error_text, text, words};
use super::{LIMITERS, contents, snapshot};

/// States of each limiter: taken from, in debt, given back to.
fn states(client: &mut Client) -> Vec<String> {
    let lines = [
        "RL.TOKENBUCKET t:some 5 0.123456789 PER 3600000 COST 3",
        "RL.TOKENBUCKET t:debt 5 1 PER 3600000 FORCE COST 30",
        "RL.LEAKY l:some 5 0.5 PER 3600000 COST 3",
        "RL.LEAKY l:debt 5 1 PER 3600000 FORCE COST 30",
        "RL.SLIDING s:some 5 3600000 COST 3",
        "RL.SLIDING s:debt 5 3600000 FORCE COST 30",
        "RL.SLIDING s:coarse 500 3600000 RESOLUTION 60000",
    ];
    let keys: Vec<String> = lines
        .iter()
        .map(|line| {
            client.limit(line);
            line.split(' ').nth(1).expect("a key").to_owned()
        })
        .collect();
    for _ in 0..300 {
        client.limit("RL.SLIDING s:many 5000 3600000");
    }
    [keys, vec!["s:many".to_owned()]].concat()
}

fn look(client: &mut Client, key: &str) -> Vec<i64> {
    let line = format!("RL.PEEK {key} AT 1900000000000");
    super::support::ints(&client.ok(&line)).expect("a reply")
}

#[test]
fn a_copy_is_the_same_and_its_own() {
    let server = Server::with(&Config::new().client_time());
    let mut client = server.client();
    for key in states(&mut client) {
        assert_eq!(client.int(&format!("COPY {key} copy")), 1);
        let (original, copy) = (snapshot(&mut client, &key), snapshot(&mut client, "copy"));
        assert_eq!((&copy.dump, copy.expire_ms), (&original.dump, original.expire_ms), "{key}");
        assert_eq!(look(&mut client, "copy"), look(&mut client, &key), "{key}");
        client.ok("RL.REFUND copy 1");
        assert_ne!(snapshot(&mut client, "copy").dump, original.dump, "{key}");
        assert_eq!(snapshot(&mut client, &key).dump, original.dump, "{key} is untouched");
        assert_eq!(client.int(&format!("COPY {key} copy REPLACE")), 1);
        assert_eq!(snapshot(&mut client, "copy").dump, original.dump, "{key}");
        assert_eq!(client.int(&format!("COPY {key} {key} DB 5")), 1);
        client.ok("DEL copy");
    }
    let here = contents(&mut client);
    client.ok("SELECT 5");
    assert_eq!(contents(&mut client), here, "copies in another database");
}

#[test]
fn a_new_name_and_another_database_keep_the_state() {
    let server = Server::start();
    let mut client = server.client();
    for key in states(&mut client) {
        let before = snapshot(&mut client, &key);
        client.ok(&format!("RENAME {key} renamed"));
        let after = snapshot(&mut client, "renamed");
        assert_eq!((&after.dump, after.expire_ms), (&before.dump, before.expire_ms), "{key}");
        assert_eq!(client.int("MOVE renamed 4"), 1);
        assert_eq!(client.int("EXISTS renamed"), 0);
        client.ok("SWAPDB 0 4");
        let moved = snapshot(&mut client, "renamed");
        assert_eq!((&moved.dump, moved.expire_ms), (&before.dump, before.expire_ms), "{key}");
        client.ok("SWAPDB 0 4");
        client.ok("FLUSHALL");
        states(&mut client);
    }
}

#[test]
fn dump_and_restore_keep_the_state() {
    let server = Server::with(&Config::new().client_time());
    let other = Server::with(&Config::new().client_time());
    let (mut client, mut there) = (server.client(), other.client());
    for key in states(&mut client) {
        let before = snapshot(&mut client, &key);
        let payload = before.dump.clone().expect("a value");
        let expire = before.expire_ms.to_string();
        for restored in [&mut client, &mut there] {
            let args: [&[u8]; 5] =
                [b"RESTORE", b"restored", expire.as_bytes(), &payload, b"ABSTTL"];
            assert_eq!(text(&restored.call(&args)), "OK", "{key}");
            let after = snapshot(restored, "restored");
            assert_eq!((&after.dump, after.expire_ms), (&before.dump, before.expire_ms), "{key}");
        }
        assert_eq!(look(&mut there, "restored"), look(&mut client, &key), "{key}");
        client.ok("DEL restored");
        there.ok("DEL restored");
    }
}

/// The server's own version and checksum at the end of a DUMP.
const FOOTER: usize = 10;

/// Where the module's own bytes lie in a DUMP: behind the type's name and version, a mark and the
/// length, and in front of another mark and the server's own version and checksum.
fn own_bytes(dump: &[u8]) -> std::ops::Range<usize> {
    let short = dump[11] < 64;
    (if short { 12 } else { 13 })..dump.len() - FOOTER - 1
}

/// BR-193 redis/redis#14905: RESTORE with a damaged payload is refused, or it holds a state that
/// the module could have written; the server lives and the key is unchanged. The server's own
/// checksum is turned off, so that the damage reaches the module.
#[test]
fn damaged_payloads_do_no_harm() {
    // Compressed, the same bytes have many forms.
    let config = Config::new().client_time().debug().line("rdbcompression no");
    let server = Server::with(&config);
    let mut client = server.client();
    let keys = states(&mut client);
    client.ok("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1");
    let (mut refused, mut taken) = (0, 0);
    for key in keys {
        let before = snapshot(&mut client, &key);
        let payload = before.dump.clone().expect("a value");
        let bits = 8 * (payload.len() - FOOTER);
        for bit in 0..bits {
            let mut damaged = payload.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let own = own_bytes(&payload).contains(&(bit / 8));
            if is_taken(&mut client, &damaged, own) {
                taken += 1;
            } else {
                refused += 1;
            }
        }
        for length in 0..payload.len() - FOOTER {
            assert!(
                !is_taken(&mut client, &payload[..length], true),
                "{key}: {length} bytes of it"
            );
        }
        let args: [&[u8]; 4] = [b"RESTORE", key.as_bytes(), b"0", b"x"];
        assert!(error_text(&client.call(&args)).is_some());
        let after = snapshot(&mut client, &key);
        assert_eq!((after.dump, after.expire_ms), (before.dump, before.expire_ms), "{key}");
    }
    assert!(refused > 1000 && taken > 10, "{refused} refused, {taken} taken");
}

/// Restores a damaged payload. If that works the key answers; and if the damage is in the module's
/// `own` bytes it gives back what was restored: a state has one form only.
fn is_taken(client: &mut Client, damaged: &[u8], own: bool) -> bool {
    let args: [&[u8]; 4] = [b"RESTORE", b"damaged", b"0", damaged];
    if let Some(error) = error_text(&client.call(&args)) {
        assert!(error.starts_with("ERR "), "{error}");
        assert_eq!(client.int("EXISTS damaged"), 0);
        return false;
    }
    if own {
        let dump = client.dump("damaged");
        let body = |dump: &[u8]| dump[own_bytes(dump)].escape_ascii().to_string();
        assert_eq!(body(&dump), body(damaged));
    }
    for line in ["RL.PEEK damaged", "RL.REFUND damaged 1"] {
        let answer = client.run(line);
        assert!(matches!(answer, Value::Array(_) | Value::ServerError(_)), "{answer:?}");
    }
    client.ok("DEL damaged");
    true
}

#[test]
fn deleting_in_the_background_frees_a_key() {
    let server = Server::start();
    let mut client = server.client();
    for key in states(&mut client) {
        assert_eq!(client.int(&format!("UNLINK {key}")), 1);
        assert_eq!(client.int(&format!("EXISTS {key}")), 0);
    }
    states(&mut client);
    client.ok("FLUSHALL ASYNC");
    assert_eq!(client.int("DBSIZE"), 0);
    for (_, call) in LIMITERS {
        let reply = client.limit(call);
        assert_eq!((reply.allowed, reply.remaining), (1, 1), "{call}");
    }
}

/// Equal states have equal digests, others do not.
#[test]
fn the_digest_is_that_of_the_state() {
    let server = Server::with(&Config::new().client_time().debug());
    let mut client = server.client();
    let digest = |client: &mut Client, key: &str| {
        let digests = super::list(&client.ok(&format!("DEBUG DIGEST-VALUE {key}")));
        text(&digests[0])
    };
    let keys = states(&mut client);
    for key in &keys {
        client.ok(&format!("COPY {key} copy"));
        let original = digest(&mut client, key);
        assert_ne!(original, "0".repeat(40), "{key}");
        assert_eq!(digest(&mut client, "copy"), original, "{key}");
        client.ok("RL.REFUND copy 1");
        assert_ne!(digest(&mut client, "copy"), original, "{key}");
        client.ok("DEL copy");
    }
    // By another way to the same state: at the same instants, in two halves.
    for at in ["1700000000000", "1700000000001"] {
        client.ok(&format!("RL.SLIDING one 50 60000 COST 2 AT {at}"));
        client.ok(&format!("RL.SLIDING two 50 60000 COST 1 AT {at}"));
        client.ok(&format!("RL.SLIDING two 50 60000 COST 1 AT {at}"));
    }
    assert_eq!(digest(&mut client, "one"), digest(&mut client, "two"));
    assert_eq!(client.dump("one"), client.dump("two"));
    let before = text(&client.ok("DEBUG DIGEST"));
    client.ok("DEBUG RELOAD");
    assert_eq!(text(&client.ok("DEBUG DIGEST")), before, "of all keys, after a reload");
}

#[test]
fn memory_usage_counts_what_a_key_holds() {
    let server = Server::start();
    let mut client = server.client();
    // Without a TTL: Redis 8 on libc's malloc measures a module's key that has one at a wrong
    // address, and may crash by that.
    let usage = |client: &mut Client, key: &str| {
        client.ok(&format!("PERSIST {key}"));
        client.int(&format!("MEMORY USAGE {key}"))
    };
    for (key, call) in LIMITERS {
        client.limit(call);
        let bytes = usage(&mut client, key);
        // Some servers count the value alone, and a packed bucket is small.
        assert!((1..400).contains(&bytes), "{call}: {bytes} bytes");
        if key != "s" {
            assert!(bytes < 150, "{call}: {bytes} bytes");
        }
        // A denial and a look cost nothing.
        (0..100).for_each(|_| drop(client.run(call)));
        assert!(usage(&mut client, key) <= bytes + 64, "{call}");
    }
    let hit = words("RL.SLIDING many 100000 3600000 RESOLUTION 1");
    let hits: Vec<_> = (0..500).map(|_| hit.clone()).collect();
    (0..20).for_each(|_| drop(client.pipeline(&hits)));
    let bytes = usage(&mut client, "many");
    assert!(bytes < 200_000, "10,000 hits in {bytes} bytes");
}

/// Three types of their own, which nothing else can touch.
#[test]
fn the_types_are_the_modules_own() {
    let server = Server::start();
    let mut client = server.client();
    let mut names = Vec::new();
    for (key, call) in LIMITERS {
        client.limit(call);
        names.push(text(&client.ok(&format!("TYPE {key}"))));
        let before = snapshot(&mut client, key);
        for line in ["GET", "INCR", "LPOP", "HGETALL", "SMEMBERS", "STRLEN", "XLEN"] {
            let refused = client.refused(&format!("{line} {key}"));
            assert!(refused.starts_with("WRONGTYPE "), "{line}: {refused}");
        }
        assert_eq!(snapshot(&mut client, key), before, "{call}");
        client.ok(&format!("OBJECT ENCODING {key}"));
        client.ok(&format!("OBJECT FREQ {key}x"));
        assert_eq!(bytes(&client.ok(&format!("DUMP {key}"))), before.dump.expect("a value"));
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(!names.iter().any(|name| name == "string"), "{names:?}");
}
