//! What the server's operator can see of the decisions: the counters of each command, the sketch
//! of the most denied keys and the log of denials. The handlers report to it from here; [`show`]
//! tells it.
//!
//! It holds what this process decided: effects that a replica or the append-only file replays, and
//! what a restart forgot, count nothing. Only the main thread runs commands, so nobody waits for
//! the lock.
//!
//! [`show`]: super::show

use std::ffi::c_int;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis_module::raw;

use super::clock::Time;
use super::server::{self, Call, KeyName};
use crate::algorithm::{Decision, Request};
use crate::error::Error;
use crate::reply;
use crate::watch::counters::{Counters, Outcome};
use crate::watch::denial_log::{Denial, DenialLog};
use crate::watch::top_denied::TopDenied;

pub static TOKEN_BUCKET: Counters = Counters::new("rl.tokenbucket");
pub static LEAKY: Counters = Counters::new("rl.leaky");
pub static SLIDING: Counters = Counters::new("rl.sliding");
pub static ALL: Counters = Counters::new("rl.all");
pub static THROTTLE: Counters = Counters::new("rl.throttle");
pub static REFUND: Counters = Counters::new("rl.refund");
pub static PEEK: Counters = Counters::new("rl.peek");
pub static INFO: Counters = Counters::new("rl.info");
pub static STATS: Counters = Counters::new("rl.stats");
pub static TOPDENIED: Counters = Counters::new("rl.topdenied");
pub static LOG: Counters = Counters::new("rl.log");

/// The counters of all commands for users, in the order in which they are shown.
pub static COMMANDS: [&Counters; 11] = [
    &TOKEN_BUCKET,
    &LEAKY,
    &SLIDING,
    &ALL,
    &THROTTLE,
    &REFUND,
    &PEEK,
    &INFO,
    &STATS,
    &TOPDENIED,
    &LOG,
];

/// What is remembered of denials.
pub struct Denials {
    /// The keys denied most.
    pub top: TopDenied,
    /// The last denials.
    pub log: DenialLog,
}

static DENIALS: Mutex<Option<Denials>> = Mutex::new(None);

/// Does something with what is remembered of denials.
pub fn denials<T>(use_it: impl FnOnce(&mut Denials) -> T) -> T {
    with(DENIALS.lock().unwrap_or_else(PoisonError::into_inner), use_it)
}

/// [`denials`], unless somebody uses it already: for a report of a crash, which may have happened
/// right there.
pub fn denials_if_free<T>(use_it: impl FnOnce(&mut Denials) -> T) -> Option<T> {
    Some(with(DENIALS.try_lock().ok()?, use_it))
}

fn with<T>(
    mut denials: MutexGuard<'_, Option<Denials>>,
    use_it: impl FnOnce(&mut Denials) -> T,
) -> T {
    // Nothing is remembered until the configuration says how much.
    use_it(
        denials.get_or_insert_with(|| Denials { top: TopDenied::new(0), log: DenialLog::new(0) }),
    )
}

/// `rl.topdenied-size`: how many keys are followed.
pub fn set_topdenied_size(size: usize) {
    denials(|denials| denials.top.resize(size));
}

/// `rl.log-max-len`: how many denials are kept.
pub fn set_log_max_len(len: usize) {
    denials(|denials| denials.log.resize(len));
}

/// Notes the decision of a call that was carried out; the key is the one that is told to operators.
pub fn decided(
    call: &Call<'_>,
    counters: &'static Counters,
    name: KeyName<'_>,
    request: &Request,
    decision: &Decision,
    time: &Time,
) {
    let Some(outcome) = Outcome::of(request, decision.verdict) else { return };
    counters.count(outcome);
    if matches!(outcome, Outcome::Denied | Outcome::ShadowDenied) {
        let shadow = outcome == Outcome::ShadowDenied;
        let denial = Denial {
            time_us: time.server_us(),
            command: counters.command,
            shadow,
            cost: reply::integer(request.cost),
            limit: reply::integer(decision.limit),
            retry_after_ms: reply::retry_after_ms(decision),
            client_id: call.client_id(),
        };
        remember(name.bytes(), &denial);
    }
}

/// Remembers a denial. A request that was let through as a trial is in the log, and its key is not
/// among the denied ones.
#[inline(never)]
fn remember(key: &[u8], denial: &Denial) {
    denials(|denials| {
        if !denial.shadow {
            denials.top.record(key);
        }
        denials.log.record(key, denial);
    });
}

/// [`server::handle`] for a command whose errors are counted.
///
/// [`server::handle`]: super::server::handle
pub fn handle(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    counters: &'static Counters,
    body: impl FnOnce(&Call<'_>) -> Result<(), Error>,
) -> c_int {
    server::handle(ctx, argv, argc, counting_errors(counters, body))
}

/// A handler's body whose errors are counted, those of a bug too.
pub fn counting_errors<E>(
    counters: &'static Counters,
    body: impl FnOnce(&Call<'_>) -> Result<(), E>,
) -> impl FnOnce(&Call<'_>) -> Result<(), E> {
    move |call| {
        let unfinished = Unfinished(counters);
        body(call)?;
        mem::forget(unfinished);
        Ok(())
    }
}

/// A call under way. It counts as an error unless it is forgotten.
struct Unfinished(&'static Counters);

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.errors.increment();
    }
}
