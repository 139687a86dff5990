//! RL.TOPDENIED: the keys that are denied most, in memory that has a bound.

use std::collections::BTreeMap;

use super::support::{Client, Dice, Server, field, words};
use super::{LIMITERS, deny, deny_often, top_denied};

/// BR-308 lazureykis/throttlecrab#40: the most denied keys are among those listed, with counts
/// inside the stated error, in bounded memory.
#[test]
fn the_most_denied_keys_are_listed() {
    const SIZE: i64 = 50;
    let server = Server::start();
    let mut client = server.client();
    client.ok(&format!("CONFIG SET rl.topdenied-size {SIZE}"));
    let mut dice = Dice::new(308);
    let mut exact: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
    let mut calls = Vec::new();
    for _ in 0..40_000 {
        // A few keys get most of the denials; the rest is spread over ten thousand.
        let key = match dice.throw(4) {
            0 | 1 => format!("often:{}", dice.throw(5)),
            2 => format!("at-times:{}", dice.throw(30)),
            _ => format!("once:{}", dice.throw(10_000)),
        };
        *exact.entry(key.clone().into_bytes()).or_default() += 1;
        calls.push(words(&format!("RL.TOKENBUCKET {key} 1 1 COST 2")));
    }
    let bytes = |client: &mut Client| {
        let info = client.info("rl_denials");
        field(&info, "rl_topdenied_bytes").expect("told").parse::<i64>().expect("a number")
    };
    client.pipeline(&calls[..1]);
    let memory = bytes(&mut client);
    assert!(memory < 250 * (SIZE + 1), "{memory}");
    calls[1..].chunks(10_000).for_each(|calls| drop(client.pipeline(calls)));
    assert_eq!(bytes(&mut client), memory);

    let denials: i64 = exact.values().sum();
    let listed = top_denied(&mut client, " COUNT 10000");
    assert_eq!(listed.len(), usize::try_from(SIZE).expect("a size"));
    assert!(listed.is_sorted_by(|one, next| one.1 >= next.1), "{listed:?}");
    for (key, count, error) in &listed {
        let exact = exact[key];
        assert!(count - error <= exact && exact <= *count, "{exact}: {count} - {error}");
        assert!(*error <= denials / SIZE, "{error}");
    }
    for (key, count) in exact.iter().filter(|(_, count)| **count > denials / SIZE) {
        assert!(listed.iter().any(|(listed, _, _)| listed == key), "{key:?}: {count}");
    }
    let first: Vec<&[u8]> = listed[..5].iter().map(|(key, _, _)| key.as_slice()).collect();
    assert!(first.iter().all(|key| key.starts_with(b"often:")), "{listed:?}");
}

/// Denials of all limiters count, and nothing but real denials.
#[test]
fn real_denials_count() {
    let server = Server::start();
    let mut client = server.client();
    for (times, (_, call)) in (1..).zip(LIMITERS) {
        for _ in 0..5 {
            client.limit(call);
        }
        (0..times).for_each(|_| assert_eq!(client.limit(call).allowed, 0));
        for options in ["PEEK", "COST 0", "SHADOW", "FORCE", "X"] {
            client.run(&format!("{call} {options}"));
        }
    }
    let expected = [("s", 3), ("l", 2), ("t", 1)].map(|(key, n)| (key.as_bytes().to_vec(), n, 0));
    assert_eq!(top_denied(&mut client, ""), expected);
}

/// BR-196 RedisLabsModules/redismodule-rs#439, BR-297 jaytaph/RateLimitBundle#115: keys of bytes
/// that are no text, and of 64 KiB.
#[test]
fn any_bytes_are_a_key() {
    let server = Server::start();
    let mut clients = [server.client(), server.client3()];
    let mut long = vec![b'x'; 65_536];
    let mut keys = vec![b"".to_vec(), b"a\0b".to_vec(), b"\r\n".to_vec(), (128..=255).collect()];
    keys.push(long.clone());
    *long.last_mut().expect("a byte") = b'y';
    keys.push(long);
    for (times, key) in (1..).zip(&keys) {
        (0..times).for_each(|_| deny(&mut clients[0], key));
    }
    for client in &mut clients {
        let listed = top_denied(client, "");
        assert_eq!(listed.len(), keys.len());
        for (times, key) in (1..).zip(&keys) {
            let (shown, count, error) = &listed[keys.len() - times];
            assert_eq!((usize::try_from(*count).expect("a count"), *error), (times, 0));
            match key.get(..128) {
                Some(start) if key.len() > 128 => {
                    let more = format!("... ({} more bytes)", key.len() - 128);
                    assert_eq!(*shown, [start, more.as_bytes()].concat());
                }
                _ => assert_eq!(shown, key),
            }
        }
    }
}

#[test]
fn count_and_reset() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(top_denied(&mut client, ""), []);
    for key in 0..30 {
        deny_often(&mut client, format!("k{key}").as_bytes(), 100 - key);
    }
    assert_eq!(top_denied(&mut client, "").len(), 10);
    assert_eq!(top_denied(&mut client, " COUNT 3"), top_denied(&mut client, "")[..3]);
    let all = top_denied(&mut client, " COUNT 10000");
    assert_eq!(all.len(), 30);
    assert_eq!(all[0], (b"k0".to_vec(), 100, 0));
    assert_eq!(top_denied(&mut client, " RESET COUNT 30"), all, "nothing is lost between");
    assert_eq!(top_denied(&mut client, ""), []);
    deny(&mut client, b"k5");
    assert_eq!(top_denied(&mut client, ""), [(b"k5".to_vec(), 1, 0)]);
}

/// A smaller size keeps the largest, a greater one all; 0 turns it off.
#[test]
fn the_size_can_change() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("CONFIG SET rl.topdenied-size 20");
    for key in 0..20 {
        deny_often(&mut client, format!("k{key}").as_bytes(), 100 - key);
    }
    let all = top_denied(&mut client, " COUNT 20");
    client.ok("CONFIG SET rl.topdenied-size 5");
    assert_eq!(top_denied(&mut client, " COUNT 20"), all[..5]);
    client.ok("CONFIG SET rl.topdenied-size 1000");
    assert_eq!(top_denied(&mut client, " COUNT 20"), all[..5]);
    // It may have been denied before it was followed: that is its error.
    deny(&mut client, b"k19");
    assert_eq!(top_denied(&mut client, " COUNT 20")[5], (b"k19".to_vec(), 96, 95));
    client.ok("CONFIG SET rl.topdenied-size 0");
    deny(&mut client, b"k19");
    assert_eq!(top_denied(&mut client, " COUNT 20"), []);
    client.ok("CONFIG SET rl.topdenied-size 5");
    assert_eq!(top_denied(&mut client, " COUNT 20"), []);
    deny(&mut client, b"k19");
    assert_eq!(top_denied(&mut client, " COUNT 20"), [(b"k19".to_vec(), 1, 0)]);
}

/// Keys are followed by name: they may be gone, and be of another database.
#[test]
fn a_key_is_its_name() {
    let server = Server::start();
    let mut client = server.client();
    deny(&mut client, b"k");
    client.ok("SELECT 1");
    deny(&mut client, b"k");
    client.ok("FLUSHALL");
    assert_eq!(top_denied(&mut client, ""), [(b"k".to_vec(), 2, 0)]);
}
