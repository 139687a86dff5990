//! What servers, clients and operators are told about the commands, and that it is true.
//!
//! - COMMAND tells arity, flags, keys, categories and documentation, from which redis-cli makes its
//!   hints and its help.
//! - Access is by command, category and key.
//! - SLOWLOG, LATENCY, INFO and CLIENT LIST name the command that was called.
//! - Nothing needs scripts, and a key may be any bytes.

mod support;

#[path = "introspection/access.rs"]
mod access;
#[path = "introspection/any_bytes.rs"]
mod any_bytes;
#[path = "introspection/cli.rs"]
mod cli;
#[path = "introspection/described.rs"]
mod described;
#[path = "introspection/measured.rs"]
mod measured;
#[path = "introspection/no_scripts.rs"]
mod no_scripts;
#[path = "introspection/several.rs"]
mod several;

use support::{Product, Version};

/// The commands for users.
const COMMANDS: [&str; 8] = [
    "rl.all",
    "rl.info",
    "rl.leaky",
    "rl.peek",
    "rl.refund",
    "rl.sliding",
    "rl.throttle",
    "rl.tokenbucket",
];

/// The commands for operators.
const OPERATORS: [&str; 3] = ["rl.log", "rl.stats", "rl.topdenied"];

/// A call of each limiter on `key` whose limit is 5 an hour.
fn limits(key: &str) -> [String; 3] {
    [
        format!("RL.TOKENBUCKET {key} 5 1 PER 3600000"),
        format!("RL.LEAKY {key} 5 1 PER 3600000"),
        format!("RL.SLIDING {key} 5 3600000"),
    ]
}

/// What a server does with the ACL categories of a module's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Categories {
    /// Nothing: its commands are in none.
    None,
    /// They can be put into the server's own.
    Own,
    /// The module adds @ratelimit; ACL CAT lists no module's command, though
    /// (redis/redis#13489, valkey-io/valkey#1140).
    Added,
    /// The module adds @ratelimit, and ACL CAT lists what is in it.
    Listed,
}

impl Categories {
    fn of(version: Version) -> Categories {
        match version.product {
            Product::Redis if version.number < (7, 2, 0) => Categories::None,
            Product::Redis if version.number < (7, 4, 0) => Categories::Own,
            Product::Redis if version.number < (8, 0, 0) => Categories::Added,
            Product::Redict => Categories::Added,
            Product::Redis | Product::Valkey => Categories::Listed,
        }
    }
}
