//! A real server for the tests: what every test that talks to one starts from.
//!
//! - [`Server`] runs a server with the module in a directory and on a port of its own, stops it,
//!   starts it again on the same files, and gives it replicas.
//! - [`Client`] is one connection, RESP2 or RESP3: it answers with the server's own values, errors
//!   among them, and can be cut off in the middle of a call.
//! - [`Reply`] is a limiter's answer by the names of its elements.
//! - [`until`] waits for a condition and gives up loudly; nothing here waits a fixed time.
//!
//! Two environment variables choose what is tested: `RL_MODULE`, the module's file (default
//! `target/release/libredis_rl.so`), and `RL_SERVER`, the command that starts a server, split at
//! blanks (default `redis-server`). No port and no path is fixed, so tests run side by side.

// Each test file compiles this module for itself and uses its own part of it.
#![allow(dead_code, unused_imports)]

mod beside;
mod c_library;
mod client;
pub mod cluster;
mod dice;
mod launch;
mod memcheck;
pub mod payload;
mod replica;
mod reply;
mod server;
mod snapshot;
mod version;
mod wait;

pub use beside::beside;
pub use c_library::c_library;
pub use client::{Client, pack, quoted, words};
pub use dice::{Dice, KEYS_OF_EACH};
pub use launch::Config;
pub use payload::Payload;
pub use replica::{offset, wait_for_replica};
pub use reply::{Reply, Several, bytes, error_text, field, int, ints, list, text};
pub use server::Server;
pub use snapshot::Snapshot;
pub use version::{Product, Version};
pub use wait::{DEADLINE, until};
