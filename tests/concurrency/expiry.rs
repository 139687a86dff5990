//! No key without an expiry, whatever clients do, and no key that stays or goes at the wrong time.

use std::thread;
use std::time::{Duration, Instant};

use super::support::{Client, Dice, Server, field, int, ints, list, pack, text, until, words};
use super::timed::us;

/// A call of each limiter whose key is as if never used after about `ms`.
fn short_calls(ms: u64) -> [String; 3] {
    [
        format!("RL.TOKENBUCKET t 1 1 PER {ms}"),
        format!("RL.LEAKY l 1 1 PER {ms}"),
        format!("RL.SLIDING s 1 {ms}"),
    ]
}

/// Keys and keys with an expiry, as INFO counts them.
fn keys_and_expiries(client: &mut Client) -> (u64, u64) {
    let info = client.info("keyspace");
    let Some(line) = field(&info, "db0") else { return (0, 0) };
    let number = |name: &str| {
        let part = line.split(',').find_map(|part| part.strip_prefix(name));
        part.and_then(|number| number.parse().ok()).expect("INFO counts keys")
    };
    (number("keys="), number("expires="))
}

/// BR-002 alisaifee/limits#15, BR-026 linagora/cozy-stack#2250: while clients are cut off at random
/// points of their calls on ten thousand random keys, INFO never counts more keys than expiries.
#[test]
fn clients_that_are_cut_off_leave_no_key_without_expiry() {
    let server = Server::start();
    let end = Instant::now() + Duration::from_secs(2);
    thread::scope(|scope| {
        for seed in 0..6 {
            let server = &server;
            scope.spawn(move || {
                let mut dice = Dice::new(seed);
                while Instant::now() < end {
                    send_a_part(&mut dice, server);
                }
            });
        }
        let mut client = server.client();
        let mut most = 0;
        while Instant::now() < end {
            let (keys, expiries) = keys_and_expiries(&mut client);
            assert_eq!(keys, expiries);
            most = most.max(keys);
        }
        assert!(most > 0, "no key was there: nothing was tested");
    });
}

/// Sends some calls, the last of them in part, and vanishes.
fn send_a_part(dice: &mut Dice, server: &Server) {
    let mut packed = Vec::new();
    for _ in 0..20 {
        let key = format!("k{}", dice.throw(10_000));
        pack(&mut packed, &words(&dice.short_call(&key)));
    }
    let length = u64::try_from(packed.len()).expect("a short text");
    packed.truncate(usize::try_from(dice.throw(length)).expect("a length"));
    let mut client = server.client();
    // The server may close first, having read a broken call.
    let _ = client.send_bytes(&packed);
    client.cut();
}

/// BR-003 long2ice/fastapi-limiter#6, BR-028 jacob-pro/actix-extensible-rate-limit#5: a client
/// killed right after it has sent its call leaves either no key or a key with a lifetime inside the
/// window.
#[test]
fn a_client_killed_after_its_call_leaves_a_key_that_ends() {
    let server = Server::start();
    for number in 0..300 {
        for line in short_calls(60_000) {
            let mut client = server.client();
            let mut call = words(&line);
            call[1].extend(number.to_string().bytes());
            client.send(&call);
            client.cut();
        }
    }
    let mut client = server.client();
    until("the dead clients are gone", || client.info("clients").contains("connected_clients:1\r"));
    let keys = list(&client.ok("KEYS *"));
    for key in &keys {
        let ttl_ms = int(&client.call(&[b"PTTL".as_slice(), text(key).as_bytes()]));
        assert!((1..=61_000).contains(&ttl_ms), "{key:?} lives for {ttl_ms} ms");
    }
    assert!(!keys.is_empty(), "no call arrived: nothing was tested");
}

/// BR-004 ulule/limiter#22, BR-031 ysocorp/koa2-ratelimit#39: eight clients on a window of 50 ms;
/// no sample of PTTL is ever -1.
#[test]
fn a_short_window_under_load_never_lacks_its_expiry() {
    let server = Server::start();
    let end = Instant::now() + Duration::from_secs(2);
    let lines = short_calls(50);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = server.client();
                while Instant::now() < end {
                    for line in &lines {
                        client.limit(line);
                    }
                }
            });
        }
        let mut client = server.client();
        let mut seen = 0;
        while Instant::now() < end {
            for key in ["t", "l", "s"] {
                let ttl_ms = client.int(&format!("PTTL {key}"));
                assert_ne!(ttl_ms, -1, "{key}");
                seen += i32::from(ttl_ms >= 0);
            }
        }
        assert!(seen > 0, "the keys were there in no sample: nothing was tested");
    });
}

/// BR-021 lob/hapi-rate-limiter#20: under random keys, commands and parameters no sample finds a
/// key without expiry.
#[test]
fn random_calls_leave_no_key_without_expiry() {
    // Atomic: between two commands the key that was found could go.
    const SAMPLE: &str = "EVAL local\\sk=redis.call('RANDOMKEY')\\sreturn\\sk\\sand\\s\
                          redis.call('PTTL',k)\\sor\\s-2 0";
    let server = Server::start();
    let end = Instant::now() + Duration::from_secs(3);
    thread::scope(|scope| {
        for seed in 100..104 {
            let mut client = server.client();
            scope.spawn(move || {
                let mut dice = Dice::new(seed);
                while Instant::now() < end {
                    let key = format!("k{}", dice.throw(500));
                    client.run(&dice.short_call(&key));
                }
            });
        }
        let mut client = server.client();
        let mut seen = 0;
        while Instant::now() < end {
            let ttl_ms = client.int(SAMPLE);
            assert_ne!(ttl_ms, -1);
            seen += i32::from(ttl_ms >= 0);
        }
        assert!(seen > 0, "keys were there in no sample: nothing was tested");
    });
    let (keys, expiries) = keys_and_expiries(&mut server.client());
    assert_eq!(keys, expiries);
}

/// BR-006 sidekiq/sidekiq#3323, BR-007 throttled/throttled#26, BR-011 redisson/redisson#3756,
/// BR-029 SGrondin/bottleneck#66: in real time a key is gone at the latest a second after its
/// reset, and the first call after that is answered like a first call, with a new expiry.
#[test]
fn a_key_goes_within_a_second_of_its_reset() {
    let server = Server::start();
    thread::scope(|scope| {
        for line in short_calls(400) {
            let client = server.client();
            scope.spawn(move || goes_in_time(client, &line));
        }
    });
}

fn goes_in_time(mut client: Client, line: &str) {
    let key = line.split(' ').nth(1).expect("a key");
    let ask = |client: &mut Client| {
        let before_us = client.time_us();
        let there = client.int(&format!("EXISTS {key}")) == 1;
        (before_us, there, client.time_us())
    };
    for _ in 0..2 {
        let called_us = client.time_us();
        let first = client.limit(line);
        let answered_us = client.time_us();
        assert_eq!((first.allowed, first.remaining), (1, 0), "{line}");
        assert!((400..=401).contains(&first.reset_after_ms), "{line}: {first:?}");
        let ttl_ms = client.int(&format!("PTTL {key}"));
        // Less than nothing where the key has gone already, on a machine that stood still.
        assert!(ttl_ms <= 1401 && ttl_ms != -1, "{line}: lives for {ttl_ms} ms");
        loop {
            let (before_us, there, after_us) = ask(&mut client);
            // Not before an absent key would answer the same.
            assert!(there || after_us >= called_us + 400_000, "{line}: gone too early");
            if !there {
                break;
            }
            let latest_us = answered_us + 1_401_000 + 1000;
            assert!(before_us <= latest_us, "{line}: there for too long");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// BR-013 redisson/redisson#4301: PEXPIRE by a user is kept by denials and looks, in real time too.
#[test]
fn an_expiry_set_by_a_user_is_kept_by_denials_and_looks() {
    let server = Server::start();
    thread::scope(|scope| {
        for line in short_calls(60_000) {
            let client = server.client();
            scope.spawn(move || keeps_the_users_expiry(client, &line));
        }
    });
}

fn keeps_the_users_expiry(mut client: Client, line: &str) {
    let key = line.split(' ').nth(1).expect("a key");
    for ms in [600_000, 500] {
        client.ok(&format!("DEL {key}"));
        assert_eq!(client.limit(line).allowed, 1);
        client.ok(&format!("PEXPIRE {key} {ms}"));
        let expires_ms = client.int(&format!("PEXPIRETIME {key}"));
        let start_us = client.time_us();
        while us(client.time_us() - start_us) < 300_000.0 {
            // All of it at one instant, or the key could go between two of them.
            let looks = [
                "MULTI".to_owned(),
                line.to_owned(),
                format!("{line} PEEK"),
                format!("{line} COST 0"),
                format!("RL.PEEK {key}"),
                format!("PEXPIRETIME {key}"),
                "EXEC".to_owned(),
            ];
            let answers = client.pipeline(&looks.map(|look| words(&look)));
            let answers = list(answers.last().expect("an answer to EXEC"));
            let denied = answers[..2].iter().all(|answer| ints(answer).expect("a reply")[0] == 0);
            let now = answers[4].clone();
            // On a machine that stands still for so long the shorter expiry may have passed.
            if client.time_us() / 1000 < expires_ms {
                assert!(denied, "{line}");
                assert_eq!(int(&now), expires_ms, "{line}");
            }
        }
        if ms == 500 {
            until("the key is gone when the user said", || {
                client.int(&format!("EXISTS {key}")) == 0
            });
            assert!(client.time_us() / 1000 >= expires_ms, "{line}: gone too early");
        }
    }
}
