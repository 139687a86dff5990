//! Whether the server has memory for a new key or a longer log.
//!
//! The commands carry no flag `denyoom`, which would refuse them whole: keys that exist stay
//! enforced. What needs memory asks here and gets the error that a `denyoom` command would get,
//! and not while the server merely evicts.

use redis_module::raw;

use super::server::{Answer, Call, KeyName};
use crate::error::Error;

/// Asks for memory, to write `key`.
///
/// # Errors
/// [`Error::OutOfMemory`], where a `denyoom` command would be refused.
pub fn ask(call: &Call<'_>, key: KeyName<'_>) -> Result<(), Error> {
    // The flag is set whenever a limit is reached, also while keys are evicted to stay below it.
    let flags = call.flags();
    if flags & raw::REDISMODULE_CTX_FLAGS_OOM == 0 {
        return Ok(());
    }
    let refused = match call.would_set(key) {
        Answer::Yes => false,
        Answer::No => true,
        // Before Redis 7.2 nobody can be asked: what cannot evict is out of memory.
        Answer::Unknown => flags & raw::REDISMODULE_CTX_FLAGS_EVICT == 0,
    };
    if refused { Err(Error::OutOfMemory) } else { Ok(()) }
}
