//! The commands: one pipeline for all limiters. Parse, load, decide, store, reply.
//!
//! Argument errors come before anything else; then the key is opened once, the pure core decides,
//! and only a decision that changes something writes.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

use super::clock::Time;
use super::keyspace::{self, Effect, Slot, Visit};
use super::server::{Call, KeyName, handle};
use super::value::Stored;
use super::{waiting, watch};
use crate::algorithm::leaky_bucket::LeakyBucket;
use crate::algorithm::sliding_window::SlidingWindow;
use crate::algorithm::token_bucket::TokenBucket;
use crate::algorithm::{Decision, Request, Verdict};
use crate::args;
use crate::codec;
use crate::error::Error;
use crate::reply::{self, Reply};
use crate::watch::counters::Counters;

/// The internal command, which carries effects to replicas and through the append-only file.
pub const EFFECT: &CStr = c"rl.effect";

const ALLOWED: &CStr = c"rl.allowed";
const DENIED: &CStr = c"rl.denied";
const REFUNDED: &CStr = c"rl.refunded";

/// A limiter with a command of its own.
pub trait Command: Stored {
    /// Reads the words after the key.
    fn parse<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<args::Call<Self::Quota>, Error>;

    /// The counters of its command.
    fn counters() -> &'static Counters;
}

impl Command for TokenBucket {
    fn parse<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<args::Call<Self::Quota>, Error> {
        args::token_bucket(words)
    }

    fn counters() -> &'static Counters {
        &watch::TOKEN_BUCKET
    }
}

impl Command for LeakyBucket {
    fn parse<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<args::Call<Self::Quota>, Error> {
        args::leaky_bucket(words)
    }

    fn counters() -> &'static Counters {
        &watch::LEAKY
    }
}

impl Command for SlidingWindow {
    fn parse<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<args::Call<Self::Quota>, Error> {
        args::sliding_window(words)
    }

    fn counters() -> &'static Counters {
        &watch::SLIDING
    }
}

/// `RL.TOKENBUCKET`, `RL.LEAKY` and `RL.SLIDING`.
pub unsafe extern "C" fn limit<S: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    watch::handle(ctx, argv, argc, S::counters(), |call| {
        let asked = S::parse(call.words())?;
        let time = Time::read(asked.at_ms)?;
        let decision = take::<S>(call, S::counters(), &asked, &time)?;
        if !(asked.waits && waiting::hold(call, &asked.request, &decision, time.server_us())) {
            call.reply_integers(Reply::of::<S>(&decision).as_slice());
        }
        Ok(())
    })
}

/// `RL.THROTTLE`: a token bucket for users of redis-cell.
pub unsafe extern "C" fn throttle(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    watch::handle(ctx, argv, argc, &watch::THROTTLE, |call| throttle_as("rl.throttle", call))
}

/// `CL.THROTTLE`: the same under the name of redis-cell.
pub unsafe extern "C" fn throttle_compatible(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    watch::handle(ctx, argv, argc, &watch::THROTTLE, |call| throttle_as("cl.throttle", call))
}

fn throttle_as(command: &'static str, call: &Call<'_>) -> Result<(), Error> {
    let asked = args::throttle(command, call.words())?;
    let time = Time::read(None)?;
    let decision = take::<TokenBucket>(call, &watch::THROTTLE, &asked, &time)?;
    call.reply_integers(&reply::throttle(&decision));
    Ok(())
}

/// Decides one limit on the call's key, writes what changes and tells who wants to know.
fn take<S: Stored>(
    call: &Call<'_>,
    counters: &'static Counters,
    asked: &args::Call<S::Quota>,
    time: &Time,
) -> Result<Decision, Error> {
    let name = call.key_name()?;
    let slot = Slot::<S>::open(call, name)?;
    let (decision, change) = slot.decide(&asked.quota, &asked.request, time.clock)?;
    if let Some(change) = change {
        slot.ask_for_memory(call, &change)?;
        slot.write(call, &change, time.expire_ms(decision.reset_after_us))?;
    }
    watch::decided(call, counters, name, &asked.request, &decision, time);
    notify(call, name, &asked.request, &decision);
    Ok(decision)
}

/// Tells subscribers of a decision: one event for what takes or is denied, none for a look.
pub fn notify(call: &Call<'_>, name: KeyName<'_>, request: &Request, decision: &Decision) {
    let event = match decision.verdict {
        _ if request.peek || request.cost == 0 => return,
        Verdict::Allowed => ALLOWED,
        Verdict::Denied => DENIED,
        Verdict::Shadowed => return,
    };
    call.notify(name, event);
}

/// `RL.PEEK`: what a call with the remembered parameters would be answered.
pub unsafe extern "C" fn peek(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    watch::handle(ctx, argv, argc, &watch::PEEK, |call| {
        let asked = args::peek(call.words())?;
        let time = Time::read(asked.at_ms)?;
        if !keyspace::visit(call, false, Peek { call, request: asked.request, time })? {
            call.reply_null();
        }
        Ok(())
    })
}

struct Peek<'a> {
    call: &'a Call<'a>,
    request: Request,
    time: Time,
}

impl Visit for Peek<'_> {
    fn visit<S: Stored>(self, slot: Slot<'_, S>) -> Result<(), Error> {
        let state = slot.state().ok_or(Error::Bug)?;
        let quota = S::quota(state);
        let (decision, _) = S::decide(&quota, Some(state), &self.request, self.time.clock)?;
        self.call.reply_integers(Reply::of::<S>(&decision).as_slice());
        Ok(())
    }
}

/// `RL.INFO`: what the key remembers, and where it stands.
pub unsafe extern "C" fn info(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    watch::handle(ctx, argv, argc, &watch::INFO, |call| {
        let time = Time::read(args::info(call.words())?)?;
        if !keyspace::visit(call, false, Info { call, time })? {
            call.reply_null();
        }
        Ok(())
    })
}

struct Info<'a> {
    call: &'a Call<'a>,
    time: Time,
}

impl Visit for Info<'_> {
    fn visit<S: Stored>(self, slot: Slot<'_, S>) -> Result<(), Error> {
        let state = slot.state().ok_or(Error::Bug)?;
        self.call.reply_map(&S::report(state, self.time.clock));
        Ok(())
    }
}

/// `RL.REFUND`: gives units back.
pub unsafe extern "C" fn refund(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    watch::handle(ctx, argv, argc, &watch::REFUND, |call| {
        let (units, at_ms) = args::refund(call.words())?;
        let time = Time::read(at_ms)?;
        if !keyspace::visit(call, true, Refund { call, units, time })? {
            call.reply_null();
        }
        Ok(())
    })
}

struct Refund<'a> {
    call: &'a Call<'a>,
    units: u64,
    time: Time,
}

impl Visit for Refund<'_> {
    fn visit<S: Stored>(self, slot: Slot<'_, S>) -> Result<(), Error> {
        let state = slot.state().ok_or(Error::Bug)?;
        // Nothing is given back to a key that is as if never used, though its clock may be mended.
        let look = Request::look(0);
        let (before, _) = S::decide(&S::quota(state), Some(state), &look, self.time.clock)?;
        let gives_back = before.reset_after_us > 0;
        let name = slot.name();
        let (decision, change) = S::refund(state, self.units, self.time.clock);
        if let Some(change) = slot.change_or_mend(change) {
            slot.write(self.call, &change, self.time.expire_ms(decision.reset_after_us))?;
        }
        if gives_back {
            watch::REFUND.refunded.increment();
            self.call.notify(name, REFUNDED);
        }
        self.call.reply_integers(Reply::of::<S>(&decision).as_slice());
        Ok(())
    }
}

/// `rl.effect key payload`: what a primary or the append-only file says of a key.
///
/// It asks no clock, checks no memory and deletes nothing, so that a replica holds what its
/// primary holds.
pub unsafe extern "C" fn effect(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    handle(ctx, argv, argc, |call| {
        if !may_send_effects(call.flags()) {
            return Err(Error::Internal);
        }
        let payload = call.argument(2).ok_or(Error::Payload)?;
        let (expire_ms, payload) = codec::decode_expiry(payload)?;
        let followed = follow::<TokenBucket>(call, payload, expire_ms)?
            || follow::<LeakyBucket>(call, payload, expire_ms)?
            || follow::<SlidingWindow>(call, payload, expire_ms)?;
        if !followed {
            return Err(Error::Payload);
        }
        call.replicate_verbatim();
        call.signal_modified(call.key_name()?);
        call.reply_ok();
        Ok(())
    })
}

/// Follows the effect, if it is one of this limiter.
fn follow<S: Stored>(
    call: &Call<'_>,
    payload: &[u8],
    expire_ms: Option<i64>,
) -> Result<bool, Error> {
    let Some(effect) = Effect::<S>::decode(payload) else { return Ok(false) };
    Slot::open(call, call.key_name()?)?.follow(effect?, expire_ms)?;
    Ok(true)
}

/// Whether the flag [`VALKEY_SLOT_IMPORT`] means what its name says: on Valkey 9 and later.
static SLOT_IMPORT_KNOWN: AtomicBool = AtomicBool::new(false);

/// The flag of a client that carries a slot from another node, on Valkey 9 and later. On Redis the
/// same bit says that DEBUG is enabled, and must never admit anybody.
const VALKEY_SLOT_IMPORT: u32 = 1 << 25;

/// Notes the version of a Valkey server.
pub fn set_valkey_version(major: u32) {
    SLOT_IMPORT_KNOWN.store(major >= 9, Ordering::Relaxed);
}

/// A primary's stream, an append-only file that is loaded, or a slot that moves in. A replica that
/// loads its primary's data beside the old serves clients meanwhile: these are refused, whichever
/// of the flags for loading a server sets for them.
fn may_send_effects(flags: u32) -> bool {
    let set = |flag: u32| flags & flag != 0;
    set(raw::REDISMODULE_CTX_FLAGS_REPLICATED)
        || (set(raw::REDISMODULE_CTX_FLAGS_LOADING)
            && !set(raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING))
        || (SLOT_IMPORT_KNOWN.load(Ordering::Relaxed) && set(VALKEY_SLOT_IMPORT))
}
