//! redis-rl: rate limiting inside Redis and Valkey, as native commands.
//!
//! A call is a flow with no way back: argument bytes become a typed call ([`args`]), the call and
//! the state of its key become a decision and, where something changes, the next state
//! ([`algorithm`]); the next state is stored ([`packed`]) and replicated ([`codec`]) as bytes, the
//! decision becomes integers ([`reply`]); [`report`] is for whoever looks at a key. All of that is
//! pure: no clock, key, log or server type, no float, no unsafe code. [`departures`] orders those
//! whose reply is held. [`watch`] counts decisions and remembers denials for operators. Only
//! `module`, behind the feature of that name, knows the server.
//!
//! The contract of the commands is `docs/commands.md`; the reasons for the design are in
//! `docs/DESIGN.md`.

// The core may be asked anything by anybody, and a panic in a module ends the whole server.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::float_arithmetic,
    clippy::as_conversions
)]

pub mod algorithm;
pub mod args;
pub mod codec;
pub mod departures;
pub mod error;
pub mod limits;
pub mod packed;
pub mod reply;
pub mod report;
pub mod watch;

#[cfg(feature = "module")]
mod module;
