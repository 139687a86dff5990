//! RL.ALL on a real server: several limits in one call, all of them or none.
//!
//! - `twins`: it decides, answers and writes what single calls on the same limits would;
//! - `nothing`: a denial, a look, an error and a want of memory leave every key as it is;
//! - `inside`: transactions, scripts and functions, both protocols, replicas, users;
//! - `many`: the most rules, the fewest and the longest calls;
//! - `crash`: a crash keeps each call whole.
//!
//! What is sent to replicas is in `tests/replication/several.rs`, clusters in `tests/cluster/`,
//! events in `tests/notifications.rs`, errors in `tests/errors.rs`.

mod support;

#[path = "several/crash.rs"]
mod crash;
#[path = "several/inside.rs"]
mod inside;
#[path = "several/many.rs"]
mod many;
#[path = "several/nothing.rs"]
mod nothing;
#[path = "several/twins.rs"]
mod twins;
