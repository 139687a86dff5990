//! What a call costs in instructions, and that the module's own code allocates nothing for a key
//! that exists: counted by callgrind, where a clock would tell of the machine's mood.
//!
//! Only the instructions of the module itself count, not those of the functions of the server that
//! it calls, so the figures depend on the compiler alone. They are recorded here, and a call that
//! needs a tenth more or less than its figure fails: what got better is to be recorded too.
//!
//! Needs valgrind, and is run by `make instructions`.

mod support;

#[path = "instructions/profile.rs"]
mod profile;

use profile::Profiler;
use support::{Client, words};

/// Calls that are counted, of each kind, and calls before them.
const CALLS: u64 = 2000;
const BEFORE: u64 = 25_000;

/// A kind of call: what it is, the call, and its instructions. `{}` stands for the time in ms.
struct Kind {
    name: &'static str,
    call: &'static str,
    instructions: u64,
}

/// The first call of each makes the key; those that are counted find it. Denials fill it first.
const KINDS: [Kind; 8] = [
    Kind {
        name: "token bucket, allowed",
        call: "RL.TOKENBUCKET a 1000000 10 PER 3600000",
        instructions: 1760,
    },
    Kind {
        name: "token bucket, denied",
        call: "RL.TOKENBUCKET b 1 10 PER 360000000",
        instructions: 1750,
    },
    Kind {
        name: "leaky bucket, allowed",
        call: "RL.LEAKY c 1000000 10 PER 3600000",
        instructions: 1750,
    },
    Kind {
        name: "leaky bucket, denied",
        call: "RL.LEAKY d 1 10 PER 360000000",
        instructions: 1715,
    },
    Kind { name: "sliding window, denied", call: "RL.SLIDING e 1 360000000", instructions: 1705 },
    Kind { name: "peek", call: "RL.PEEK a", instructions: 840 },
    Kind { name: "throttle, allowed", call: "RL.THROTTLE f 1000000 10 36000", instructions: 1485 },
    Kind {
        name: "window of 20,000 hits, one comes and one leaves",
        call: "RL.SLIDING g 1000000 20000 AT {}",
        instructions: 3320,
    },
];

/// The time of the first call.
const START_MS: u64 = 1_700_000_000_000;

/// Makes calls one ms apart by their own clock.
fn repeat(client: &mut Client, call: &str, from: u64, times: u64) {
    let line = |number: u64| call.replace("{}", &(START_MS + number).to_string());
    let calls: Vec<_> = (from..from + times).map(|number| words(&line(number))).collect();
    for some in calls.chunks(1000) {
        client.pipeline(some);
    }
}

#[test]
fn calls_cost_what_is_recorded_and_allocate_nothing() {
    let profiler = Profiler::start();
    let mut client = profiler.client();
    let mut wrong = Vec::new();
    for Kind { name, call, instructions } in KINDS {
        // The log of denials has filled its places afterwards, and the window is full.
        repeat(&mut client, call, 0, BEFORE);
        let profile = profiler.count(|| repeat(&mut client, call, BEFORE, CALLS));
        let counted = profile.instructions / CALLS;
        println!("{name}: {counted} instructions a call, {} allocations", profile.allocations);
        if counted.abs_diff(instructions) * 10 > instructions {
            wrong.push(format!("{name}: {counted} instructions a call, {instructions} recorded"));
        }
        // A window takes a block of 512 bytes now and then, and gives one back.
        let allowance = if name.starts_with("window") { CALLS / 200 } else { 0 };
        if profile.allocations > allowance {
            wrong.push(format!("{name}: {} allocations in {CALLS} calls", profile.allocations));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A call that makes a key allocates, which shows that allocations are counted.
#[test]
fn a_new_key_allocates() {
    let profiler = Profiler::start();
    let mut client = profiler.client();
    let profile = profiler.count(|| {
        let calls: Vec<_> =
            (0..100).map(|key| words(&format!("RL.TOKENBUCKET new:{key} 10 1"))).collect();
        client.pipeline(&calls);
    });
    assert_eq!(profile.allocations, 100, "one for each value");
}
