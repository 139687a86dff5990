//! Payloads of RESTORE whose checksum is right and whose contents are not.

use redis::Value;

use super::mutate::{Mutator, encode};
use super::support::{Client, Config, Dice, Payload, Server, error_text, payload, text};
use super::{SLOW_US, assert_quick_and_small, assert_valid, seed, values};

/// Damaged payloads of each limiter: 102,000 in all.
const DAMAGED: usize = 34_000;
/// As many at a time.
const BATCH: usize = 500;
/// Most memory that may be used meanwhile. A batch of the longest payloads is 5 MB; the server
/// holds it as a query, as arguments and as values.
const MOST_BYTES: u64 = 48 << 20;

fn server() -> Server {
    let config = Config::new().client_time().line("rdbcompression no");
    Server::with(&config.line(&format!("slowlog-log-slower-than {SLOW_US}")))
}

/// Restores payloads at keys of their own; those that were taken.
fn taken(client: &mut Client, payloads: &[Payload]) -> Vec<String> {
    client.ok("FLUSHALL");
    let calls: Vec<_> = payloads
        .iter()
        .enumerate()
        .map(|(number, payload)| {
            let key = format!("k{number}").into_bytes();
            vec![b"RESTORE".to_vec(), key, b"0".to_vec(), payload.write()]
        })
        .collect();
    let mut keys = Vec::new();
    for (number, answer) in client.pipeline(&calls).iter().enumerate() {
        match error_text(answer) {
            None => keys.push(format!("k{number}")),
            Some(error) => assert_eq!(error, "ERR Bad data format", "{:?}", payloads[number]),
        }
    }
    keys
}

/// BR-193 redis/redis#14905: whatever the module's bytes are changed into, RESTORE refuses them or
/// the key holds a state that the module could have written: it dumps to what was restored.
fn damaged_values_are_refused_or_valid(limiter: usize) {
    let server = server();
    let mut client = server.client();
    let values = values(&mut client);
    let bytes = |values: &Vec<Payload>| {
        values.iter().map(|payload| payload.bytes.clone()).collect::<Vec<_>>()
    };
    // Bytes of the other limiters come under this type too, now and then.
    let mut all: Vec<Vec<u8>> = values.iter().flat_map(bytes).collect();
    (0..2).for_each(|_| all.extend(bytes(&values[limiter])));
    let mut mutator = Mutator::new(&all, seed() + u64::try_from(limiter).expect("small"));
    let (mut valid, mut refused) = (0, 0);
    for _ in 0..DAMAGED / BATCH {
        let damaged: Vec<Payload> =
            (0..BATCH).map(|_| values[limiter][0].with_bytes(&mutator.next())).collect();
        let keys = taken(&mut client, &damaged);
        for key in &keys {
            let number: usize = key[1..].parse().expect("a number");
            assert_eq!(client.dump(key), damaged[number].write(), "{key}: not its only form");
        }
        assert_valid(&mut client, &keys);
        valid += keys.len();
        refused += BATCH - keys.len();
    }
    println!("{refused} refused, {valid} valid");
    assert!(valid > DAMAGED / 20 && refused > DAMAGED / 3, "{refused} refused, {valid} valid");
    assert_quick_and_small(&mut client, MOST_BYTES);
}

#[test]
fn damaged_token_buckets_are_refused_or_valid() {
    damaged_values_are_refused_or_valid(0);
}

#[test]
fn damaged_leaky_buckets_are_refused_or_valid() {
    damaged_values_are_refused_or_valid(1);
}

#[test]
fn damaged_windows_are_refused_or_valid() {
    damaged_values_are_refused_or_valid(2);
}

/// Values of each kind by their numbers: those at the end of every range, which are valid, and
/// those just beyond, which no call could have left.
#[test]
fn impossible_values_are_refused() {
    const UNITS: u128 = 1 << 53;
    const DURATION: u128 = 315_360_000_000;
    const TIME: u128 = UNITS * 1000;
    const CENTURY_US: u128 = 3_153_600_000_000_000;
    // Capacity, mantissa and decimals of the rate, period, time, level in shares.
    let buckets: [(&[u128], bool); 20] = [
        (&[1, 1, 0, 1, 0, 0], true),
        (&[0, 1, 0, 1, 0, 0], false),
        (&[UNITS, 1_000_000_000, 0, DURATION, TIME, 0], true),
        (&[UNITS + 1, 1, 0, 1, 0, 0], false),
        (&[1, 0, 0, 1, 0, 0], false),
        (&[1, 1_000_000_001, 0, 1, 0, 0], false),
        (&[1, 999_999_999_999_999_999, 9, 1, 0, 0], true),
        (&[1, 1_000_000_000_000_000_001, 9, 1, 0, 0], false),
        (&[1, 10, 1, 1, 0, 0], false),
        (&[1, 11, 1, 1, 0, 0], true),
        (&[1, 1, 10, 1, 0, 0], false),
        (&[1, 1, 0, 0, 0, 0], false),
        (&[1, 1, 0, DURATION + 1, 0, 0], false),
        (&[1, 1, 0, 1, TIME + 1, 0], false),
        // 100 years to the reset, and 2^53 units of 1000 shares each.
        (&[1, 1, 0, DURATION, 0, CENTURY_US], true),
        (&[1, 1, 0, DURATION, 0, CENTURY_US + 1], false),
        (&[1, 1_000_000_000, 0, 1, 0, UNITS * 1000], true),
        (&[1, 1_000_000_000, 0, 1, 0, UNITS * 1000 + 1], false),
        (&[1, 1, 0, 1, 0], false),
        (&[1, 1, 0, 1, 0, 0, 0], false),
    ];
    // Limit, window, time, and for each run twice its distance, and a count where that is odd.
    let windows: [(&[u128], bool); 18] = [
        (&[1, 1, 0], true),
        (&[0, 1, 0], false),
        (&[UNITS, DURATION, TIME], true),
        (&[UNITS + 1, 1, 0], false),
        (&[1, 0, 0], false),
        (&[1, DURATION + 1, 0], false),
        (&[1, 1, TIME + 1], false),
        (&[1, 1], false),
        (&[1, 1, 0, 2], true),
        (&[1, 1, 0, 0], false),
        (&[1, 1, 0, 3, 2], true),
        (&[1, 1, 0, 3, 1], false),
        (&[1, 1, 0, 3], false),
        (&[1, 1, 0, 3, UNITS], true),
        (&[1, 1, 0, 3, UNITS + 1], false),
        (&[1, 1, 0, 3, UNITS, 2], false),
        // As long after the last write as a hit may come to lie: two resolutions.
        (&[1, 1, 0, 4 * DURATION + 2], true),
        (&[1, 1, 0, 4 * DURATION + 4], false),
    ];
    let server = server();
    let mut client = server.client();
    let values = values(&mut client);
    for (limiter, cases) in [(0, &buckets[..]), (1, &buckets[..]), (2, &windows[..])] {
        let own = &values[limiter][0];
        for (numbers, valid) in cases {
            let mut bytes = own.bytes[..2].to_vec();
            bytes.extend(numbers.iter().copied().flat_map(encode));
            let taken = taken(&mut client, &[own.with_bytes(&bytes)]);
            assert_eq!(!taken.is_empty(), *valid, "limiter {limiter}: {numbers:?}");
            assert_valid(&mut client, &taken);
        }
    }
}

/// The server's own frame around the bytes may be damaged too: a part of another kind, a length
/// that is not there, a type that nobody has. That is an error of reading, which the module hands
/// on.
#[test]
fn damaged_frames_are_refused_or_valid() {
    let server = server();
    let mut client = server.client();
    let mut dice = Dice::new(seed());
    for own in values(&mut client).into_iter().flatten() {
        let (body, format) = (own.body(), own.format);
        let frame: Vec<usize> =
            (1..14).chain([body.len() - 1]).filter(|at| *at < body.len()).collect();
        for _ in 0..100 {
            let mut damaged = body.clone();
            let at = dice.pick(&frame);
            match dice.throw(3) {
                0 => damaged[at] ^= 1 << dice.throw(8),
                1 => damaged[at] = u8::try_from(dice.throw(256)).expect("a byte"),
                _ => damaged.truncate(at),
            }
            let dump = payload::stamp(&damaged, format);
            let answer = client.call(&[b"RESTORE".as_slice(), b"k", b"0", &dump, b"REPLACE"]);
            if let Some(error) = error_text(&answer) {
                assert!(error.starts_with("ERR Bad data format"), "{error}");
            } else {
                assert_valid(&mut client, &["k".to_owned()]);
            }
            client.ok("FLUSHALL");
        }
    }
    assert_eq!(text(&client.ok("PING")), "PONG");
    assert_eq!(client.int("SLOWLOG LEN"), 0);
}

/// A long window is read once and takes memory for what it holds; a count of units that it names
/// takes none.
#[test]
fn a_short_payload_takes_little_memory() {
    let server = server();
    let mut client = server.client();
    let window = values(&mut client)[2][0].clone();
    let usage = |client: &mut Client, bytes: &[u8]| {
        let dump = window.with_bytes(bytes).write();
        let answer = client.call(&[b"RESTORE".as_slice(), b"k", b"0", &dump, b"REPLACE"]);
        assert_eq!(answer, Value::Okay, "{}", bytes.escape_ascii());
        super::int(&client.ok("MEMORY USAGE k"))
    };
    // 2^53 units in one entry, and as many entries as a payload of a MiB holds.
    let header = &[1, b'S', 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10][..];
    let window_ms = [0x80, 0xf0, 0xae, 0xe7, 0x96, 0x09];
    let most = [header, &window_ms, &[0], &[3], &header[2..]].concat();
    let dense = [header, &window_ms, &[0], &vec![2; 1 << 20]].concat();
    let (of_one, of_many) = (usage(&mut client, &most), usage(&mut client, &dense));
    assert!(of_one < 300, "{of_one} bytes");
    assert!(of_many < 3 << 20, "{of_many} bytes");
    assert_quick_and_small(&mut client, MOST_BYTES);
}
