//! Whether anybody gets the effects of calls: a replica, its backlog or the append-only file.
//!
//! Where nobody does, which is so on a server without replicas and append-only file, the change is
//! only counted, for `rdb_changes_since_last_save`: making the effect and handing it to the server,
//! which then drops it, is a sixth of a call.
//!
//! Nobody is believed only where that is certain. Whoever begins to listen begins with a snapshot
//! that a child of the server writes, and the server tells of the child's birth before it runs
//! another command: what was written before is in the snapshot, what comes after is sent. The other
//! ways in which it may begin, a promoted replica and loaded data, are told as well. So each of
//! these events asks the server anew, as do now and then its idle rounds. On servers that stream
//! the keys of a slot to another node, which says nothing of that, effects are always made.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use redis_module::raw;

use super::server::{self, guarded};

static NOBODY: AtomicBool = AtomicBool::new(false);

/// Rounds of the server's timer, of which there are `hz` a second.
static ROUNDS: AtomicU32 = AtomicU32::new(0);
/// After so many of them the server is asked again.
const ROUNDS_APART: u32 = 8;

/// Whether it is certain that nobody gets an effect of the present call.
pub fn nobody() -> bool {
    NOBODY.load(Ordering::Relaxed)
}

/// Listens to the server's events, on a server that tells of everybody who begins to listen;
/// `valkey` is the major version of a Valkey server.
pub fn follow(ctx: *mut raw::RedisModuleCtx, valkey: Option<u32>) {
    if !server::tells_of_listeners(valkey) {
        return;
    }
    let events = [
        raw::REDISMODULE_EVENT_FORK_CHILD,
        raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
        raw::REDISMODULE_EVENT_REPLICA_CHANGE,
        raw::REDISMODULE_EVENT_LOADING,
        raw::REDISMODULE_EVENT_CONFIG,
    ];
    let all = events.into_iter().all(|event| server::subscribe(ctx, event, on_event));
    // Until the first round of the timer somebody may listen.
    if all {
        server::subscribe(ctx, raw::REDISMODULE_EVENT_CRON_LOOP, on_round);
    }
}

unsafe extern "C" fn on_event(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _sub_event: u64,
    _data: *mut std::ffi::c_void,
) {
    // An event may come before the first round, when nobody is believed yet.
    if nobody() {
        ask(ctx);
    }
}

unsafe extern "C" fn on_round(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _sub_event: u64,
    _data: *mut std::ffi::c_void,
) {
    let rounds = ROUNDS.load(Ordering::Relaxed).wrapping_add(1);
    ROUNDS.store(rounds, Ordering::Relaxed);
    if rounds.is_multiple_of(ROUNDS_APART) {
        ask(ctx);
    }
}

fn ask(ctx: *mut raw::RedisModuleCtx) {
    // Nothing may unwind into the server; in doubt somebody listens.
    let nobody = guarded(false, || server::has_no_listener(ctx));
    NOBODY.store(nobody, Ordering::Relaxed);
}
