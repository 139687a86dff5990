//! What operators are shown, without a server: the sketch of the most denied keys against an exact
//! map, the log of denials against a list, what counts as what, and the arguments of the commands.

#[path = "watch/arguments.rs"]
mod arguments;
#[path = "watch/counts.rs"]
mod counts;
#[path = "watch/log.rs"]
mod log;
#[path = "watch/sketch.rs"]
mod sketch;
