//! What an operator can see of the decisions: how many there were of each kind, which keys are
//! denied most, and the last denials.
//!
//! Everything here is data without a server: counters that any number of decisions only add to, a
//! sketch and a log of fixed size. A denial costs O(log n) steps in them and, once they are full,
//! no allocation; a call that passes costs one addition.

pub mod args;
pub mod counters;
pub mod denial_log;
pub mod kept_key;
pub mod top_denied;
