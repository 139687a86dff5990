//! Sequences of calls on one key, and the reply of each.
//!
//! The replies are those of redis-cell 0.2.2, but for its seconds, which it rounds down: where the
//! comment says so its own number is one less. Rates are slow, so the time that passes between two
//! calls changes none of the numbers.

use super::support::{Client, Config, Server};
use super::throttle;

/// A name, and calls in order: words behind the key, and the reply.
type Case = (&'static str, &'static [(&'static str, [i64; 5])]);

const CASES: &[Case] = &[
    ("the example of its README", &[("15 30 60", [0, 16, 15, -1, 2])]),
    (
        "a burst, then a wait",
        // redis-cell: 7199, 10799, then a wait of 3599 and a reset after 10799.
        &[
            ("2 1 3600", [0, 3, 2, -1, 3600]),
            ("2 1 3600", [0, 3, 1, -1, 7200]),
            ("2 1 3600", [0, 3, 0, -1, 10_800]),
            ("2 1 3600", [1, 3, 0, 3600, 10_800]),
            ("2 1 3600", [1, 3, 0, 3600, 10_800]),
        ],
    ),
    (
        "no burst: one at a time",
        // redis-cell: 59.
        &[("0 1 60", [0, 1, 0, -1, 60]), ("0 1 60", [1, 1, 0, 60, 60])],
    ),
    (
        "a quantity",
        &[
            ("99 1 60 50", [0, 100, 50, -1, 3000]),
            ("99 1 60 49", [0, 100, 1, -1, 5940]),
            ("99 1 60 2", [1, 100, 1, 60, 5940]),
            ("99 1 60", [0, 100, 0, -1, 6000]),
        ],
    ),
    (
        "a quantity of 0 looks",
        &[
            ("4 1 60 0", [0, 5, 5, -1, 0]),
            ("4 1 60", [0, 5, 4, -1, 60]),
            ("4 1 60 0", [0, 5, 4, -1, 60]),
            ("4 1 60 4", [0, 5, 0, -1, 300]),
            ("4 1 60 0", [0, 5, 0, -1, 300]),
        ],
    ),
    (
        "a quantity over the limit never passes",
        &[("4 1 60 6", [1, 5, 5, -1, 0]), ("4 1 60 6", [1, 5, 5, -1, 0])],
    ),
    (
        "the same, on a key in use",
        &[("4 1 60", [0, 5, 4, -1, 60]), ("4 1 60 6", [1, 5, 4, -1, 60])],
    ),
    ("the whole at once", &[("4 1 60 5", [0, 5, 0, -1, 300]), ("4 1 60 5", [1, 5, 0, 300, 300])]),
];

/// Whether the reply is the one expected, or what it is up to a second later: retry and reset count
/// down while the test runs.
fn fits(reply: [i64; 5], expected: [i64; 5]) -> bool {
    let counts_down =
        |one: i64, other: i64| one == other || (other > 1 && one == other - 1 && one > 0);
    reply[..3] == expected[..3]
        && counts_down(reply[3], expected[3])
        && counts_down(reply[4], expected[4])
}

fn check(client: &mut Client, command: &str) {
    for (name, calls) in CASES {
        client.ok("DEL k");
        for (words, expected) in *calls {
            let reply = throttle(client, &format!("{command} k {words}"));
            assert!(fits(reply, *expected), "{name}: {words}: {reply:?}, not {expected:?}");
        }
    }
}

#[test]
fn replies_are_those_of_redis_cell() {
    let server = Server::with(&Config::new().module_args("rl.compat-cell yes"));
    for mut client in [server.client(), server.client3()] {
        for command in ["RL.THROTTLE", "CL.THROTTLE", "cl.throttle"] {
            check(&mut client, command);
        }
    }
}
