//! Whatever comes in from outside is refused with an error or is a state that the module could have
//! written: payloads of RESTORE, of a snapshot, and of the internal command in an append-only file.
//!
//! Never a crash, never memory beyond the size of what came in, never a call that does not end.
//! The damage is thrown by dice; `RL_GARBAGE_SEED` repeats a run, which prints its seed.

mod support;

#[path = "garbage/files.rs"]
mod files;
#[path = "garbage/mutate.rs"]
mod mutate;
#[path = "garbage/restore.rs"]
mod restore;

use redis::Value;

use support::{Client, Payload, error_text, field, int, ints, payload, words};

/// How long the slowest command may take: far longer than any should, far shorter than one that
/// does not end. In µs.
const SLOW_US: u32 = 1_000_000;

/// The seed of this run.
fn seed() -> u64 {
    let seed = std::env::var("RL_GARBAGE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(20_261_130);
    println!("RL_GARBAGE_SEED={seed}");
    seed
}

/// Calls that leave states of all kinds, in the order of the three limiters.
const STATES: [&[&str]; 3] = [
    &[
        "RL.TOKENBUCKET k 10 0.5 PER 1000 COST 4 AT 1700000000000",
        "RL.TOKENBUCKET k 10 1 PER 60000 FORCE COST 300 AT 1700000000000",
        "RL.TOKENBUCKET k 9007199254740992 1000000000 PER 1 COST 9007199254740992 AT 0",
        "RL.TOKENBUCKET k 10 0.000000001 PER 3153 COST 1 AT 9007199254740992",
        "RL.TOKENBUCKET k 5 0.123456789 PER 3600000 COST 5 AT 1790000000000",
        "RL.TOKENBUCKET k 1 1 PER 315360000000 AT 1700000000000",
    ],
    &[
        "RL.LEAKY k 10 2 PER 1000 COST 6 AT 1700000000000",
        "RL.LEAKY k 10 1 PER 60000 FORCE COST 300 AT 1700000000000",
        "RL.LEAKY k 9007199254740992 1000000000 PER 1 COST 9007199254740992 AT 0",
        "RL.LEAKY k 10 0.000000001 PER 3153 COST 1 AT 9007199254740992",
        "RL.LEAKY k 100 0.123456789 PER 3600000 COST 7",
    ],
    &[
        "RL.SLIDING k 5 60000 COST 3 AT 1700000000000",
        "RL.SLIDING k 5 60000 AT 1790000000000",
        "RL.SLIDING k 1000 3600000 RESOLUTION 60000 COST 500 AT 1700000000001",
        "RL.SLIDING k 9007199254740992 315360000000 COST 9007199254740992 AT 0",
        "RL.SLIDING k 5 1 RESOLUTION 315360000000 AT 9007199254740992",
    ],
];

/// Values of each limiter as the module writes them, by what dumps of real states hold.
fn values(client: &mut Client) -> [Vec<Payload>; 3] {
    let mut dumped = STATES.map(|calls| {
        calls
            .iter()
            .map(|call| {
                assert_eq!(client.limit(call).allowed, 1, "{call}");
                let payload = Payload::read(&client.dump("k"));
                client.ok("DEL k");
                payload
            })
            .collect::<Vec<_>>()
    });
    for hits in [3_u64, 40, 400, 3000] {
        let hit = |number| {
            let (cost, at_ms) =
                (number % 3 + 1, 1_700_000_000_000 + number * number % 7 + number * 9);
            words(&format!("RL.SLIDING k 100000 3600000 COST {cost} AT {at_ms}"))
        };
        client.pipeline(&(0..hits).map(hit).collect::<Vec<_>>());
        dumped[2].push(Payload::read(&client.dump("k")));
        client.ok("DEL k");
    }
    dumped
}

/// What a state is, by RL.INFO, and the call on `key` that has its parameters.
fn call_of(info: &Value, key: &str) -> String {
    let Value::Array(fields) = info else { panic!("{info:?} is no map") };
    let fields: Vec<String> = fields
        .iter()
        .map(|field| match field {
            Value::Int(number) => number.to_string(),
            other => support::text(other),
        })
        .collect();
    let words: Vec<&str> = fields.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["type", "tokenbucket", _, capacity, _, rate, _, period, ..] => {
            format!("RL.TOKENBUCKET {key} {capacity} {rate} PER {period}")
        }
        ["type", "leaky", _, capacity, _, rate, _, period, ..] => {
            format!("RL.LEAKY {key} {capacity} {rate} PER {period}")
        }
        ["type", "sliding", _, limit, _, window, ..] => {
            format!("RL.SLIDING {key} {limit} {window}")
        }
        other => panic!("{other:?} is no limiter's"),
    }
}

/// An answer that a valid state may give: numbers in their ranges, or the error where a bound of
/// 100 years or of 2^53 units stands in the way.
fn assert_sane(answer: &Value, what: &str) {
    if let Some(error) = error_text(answer) {
        let bound = error.contains("100 years") || error.contains("9007199254740992");
        assert!(error.starts_with("ERR ") && bound, "{what}: {error}");
        return;
    }
    let numbers = ints(answer).unwrap_or_else(|| panic!("{what}: {answer:?}"));
    let (&[allowed, limit, remaining, retry, reset], delay) =
        numbers.split_first_chunk().unwrap_or_else(|| panic!("{what}: {numbers:?}"));
    assert!([0, 1].contains(&allowed), "{what}: {numbers:?}");
    assert!((1..=1 << 53).contains(&limit), "{what}: {numbers:?}");
    assert!((0..=limit).contains(&remaining), "{what}: {numbers:?}");
    let century_ms = 100 * 365 * 24 * 3_600_000;
    assert!((-1..=century_ms).contains(&retry), "{what}: {numbers:?}");
    assert!((0..=century_ms).contains(&reset), "{what}: {numbers:?}");
    assert!(delay.iter().all(|delay| (0..=century_ms).contains(delay)), "{what}: {numbers:?}");
}

/// Each of these keys holds a state: it answers, it can be called and given back to, and what is
/// dumped of it can be restored, before and after.
fn assert_valid(client: &mut Client, keys: &[String]) {
    let ask = |client: &mut Client, line: &dyn Fn(&String) -> String| {
        client.pipeline(&keys.iter().map(|key| words(&line(key))).collect::<Vec<_>>())
    };
    restores(client, keys);
    let infos = ask(client, &|key| format!("RL.INFO {key}"));
    for look in ["RL.PEEK {}", "RL.PEEK {} COST 3 AT 0", "RL.PEEK {} AT 9007199254740992"] {
        let answers = ask(client, &|key| look.replace("{}", key));
        keys.iter()
            .zip(&answers)
            .for_each(|(key, answer)| assert_sane(answer, &format!("{look} {key}")));
    }
    for options in ["", " COST 2 AT 1700000000000", " FORCE COST 5", " COST 0"] {
        let call = |key: &String| {
            let index = keys.iter().position(|other| other == key).expect("one of them");
            call_of(&infos[index], key) + options
        };
        let answers = ask(client, &call);
        keys.iter().zip(&answers).for_each(|(key, answer)| assert_sane(answer, &call(key)));
    }
    let answers = ask(client, &|key| format!("RL.REFUND {key} 1"));
    for answer in answers.iter().filter(|answer| **answer != Value::Nil) {
        assert_sane(answer, "RL.REFUND");
    }
    restores(client, keys);
}

/// What is dumped of each key, if it is still there, can be restored, and is the same then.
fn restores(client: &mut Client, keys: &[String]) {
    let dump = |prefix| {
        let line = move |key| words(&format!("DUMP {prefix}{key}"));
        keys.iter().map(line).collect::<Vec<_>>()
    };
    let dumps = client.pipeline(&dump(""));
    let restore = |(key, dumped): (&String, &Value)| {
        let key = format!("again:{key}");
        // An absent key is none afterwards either.
        let Value::BulkString(bytes) = dumped else { return words(&format!("DEL {key}")) };
        [b"RESTORE", key.as_bytes(), b"0", bytes, b"REPLACE"].map(<[u8]>::to_vec).to_vec()
    };
    let answers = client.pipeline(&keys.iter().zip(&dumps).map(restore).collect::<Vec<_>>());
    for ((key, answer), dumped) in keys.iter().zip(&answers).zip(&dumps) {
        assert_eq!(error_text(answer), None, "{key}: {dumped:?}");
    }
    assert_eq!(client.pipeline(&dump("again:")), dumps);
}

/// No command took longer than [`SLOW_US`], and no more memory was ever used than `most` bytes. A
/// machine may stand still in the middle of a call or two; what is slow by itself is slow in many
/// of thousands.
fn assert_quick_and_small(client: &mut Client, most: u64) {
    assert!(client.int("SLOWLOG LEN") <= 2, "{:?}", client.run("SLOWLOG GET"));
    let info = client.info("memory");
    let peak: u64 =
        field(&info, "used_memory_peak").and_then(|peak| peak.parse().ok()).expect("it is told");
    assert!(peak < most, "{peak} bytes");
}

#[test]
fn the_checksum_is_the_servers() {
    // The example that Redis' own source gives.
    assert_eq!(payload::crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
}
