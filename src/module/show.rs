//! `RL.STATS`, `RL.TOPDENIED` and `RL.LOG`, and the module's sections of INFO: what [`watch`] has
//! seen, for operators.
//!
//! INFO has numbers only. Names of keys are shown by the commands alone, which carry the flag
//! `admin`.

use std::ffi::{CString, c_int};

use redis_module::raw;

use super::listeners;
use super::server::{Call, api, guarded};
use super::watch::{self, COMMANDS, Denials};
use crate::reply;
use crate::watch::args::{self, Log};
use crate::watch::counters::Counters;
use crate::watch::denial_log::Entry;

/// `RL.STATS [RESET]`: the counters of each command.
pub unsafe extern "C" fn stats(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    watch::handle(ctx, argv, argc, &watch::STATS, |call| {
        let reset = args::stats(call.words_from(1))?;
        call.begin_map(COMMANDS.len());
        for counters in COMMANDS {
            call.reply_bytes(counters.command.as_bytes());
            let values = counters.read();
            call.begin_map(values.len());
            for (name, value) in values {
                call.reply_bytes(name.as_bytes());
                call.reply_integer(reply::integer(value));
            }
        }
        if reset {
            COMMANDS.iter().for_each(|counters| counters.reset());
        }
        Ok(())
    })
}

/// `RL.TOPDENIED [COUNT n] [RESET]`: the keys denied most.
pub unsafe extern "C" fn top_denied(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    watch::handle(ctx, argv, argc, &watch::TOPDENIED, |call| {
        let asked = args::top_denied(call.words_from(1))?;
        watch::denials(|Denials { top, .. }| {
            call.begin_array(top.len().min(asked.count));
            for denied in top.ranked().take(asked.count) {
                call.begin_array(3);
                call.reply_bytes(&denied.key.shown());
                call.reply_integer(reply::integer(denied.count));
                call.reply_integer(reply::integer(denied.error));
            }
            if asked.reset {
                top.reset();
            }
        });
        Ok(())
    })
}

/// `RL.LOG GET [n] | LEN | RESET`: the last denials.
pub unsafe extern "C" fn log(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    watch::handle(ctx, argv, argc, &watch::LOG, |call| {
        let asked = args::log(call.words_from(1))?;
        watch::denials(|Denials { log, .. }| match asked {
            Log::Get(count) => {
                call.begin_array(log.len().min(count));
                log.newest_first().take(count).for_each(|entry| reply_entry(call, entry));
            }
            Log::Len => call.reply_integer(integer(log.len())),
            Log::Reset => {
                log.reset();
                call.reply_ok();
            }
        });
        Ok(())
    })
}

/// A denial: id, time, command, key, cost, limit, retry-after-ms, client id.
fn reply_entry(call: &Call<'_>, entry: &Entry) {
    let denial = &entry.denial;
    call.begin_array(8);
    call.reply_integer(reply::integer(entry.id));
    call.reply_integer(reply::integer(denial.time_us));
    if denial.shadow {
        call.reply_bytes(format!("{} SHADOW", denial.command).as_bytes());
    } else {
        call.reply_bytes(denial.command.as_bytes());
    }
    call.reply_bytes(&entry.key.shown());
    call.reply_integer(denial.cost);
    call.reply_integer(denial.limit);
    call.reply_integer(denial.retry_after_ms);
    call.reply_integer(reply::integer(denial.client_id));
}

/// Registers the module's sections of INFO.
///
/// # Errors
/// The line for the log, where the server refuses.
pub fn register(ctx: *mut raw::RedisModuleCtx) -> Result<(), String> {
    // SAFETY: called in OnLoad, the callback lives as long as the module.
    let status = unsafe { api!(RedisModule_RegisterInfoFunc(ctx, Some(info))) };
    if status == 0 { Ok(()) } else { Err("the server refuses the sections of INFO".to_owned()) }
}

unsafe extern "C" fn info(ctx: *mut raw::RedisModuleInfoCtx, _crash_report: c_int) {
    // Nothing may unwind into the server, and a section that is cut short is no harm.
    guarded((), || {
        if section(ctx, "stats") {
            COMMANDS.iter().for_each(|counters| fields_of(ctx, counters));
        }
        if section(ctx, "replication") {
            field(ctx, "effects_made", u64::from(!listeners::nobody()));
        }
        if section(ctx, "denials") {
            watch::denials_if_free(|Denials { top, log }| {
                field(ctx, "topdenied_keys", count(top.len()));
                field(ctx, "topdenied_denials", top.denials());
                field(ctx, "topdenied_floor", top.floor());
                field(ctx, "topdenied_bytes", count(top.heap_bytes()));
                field(ctx, "log_len", count(log.len()));
                field(ctx, "log_bytes", count(log.heap_bytes()));
            });
        }
    });
}

/// The counters of one command: `rl_tokenbucket_allowed` and so on.
fn fields_of(ctx: *mut raw::RedisModuleInfoCtx, counters: &Counters) {
    // The server puts the module's name in front.
    let command = counters.command.strip_prefix("rl.").unwrap_or(counters.command);
    for (name, value) in counters.read() {
        field(ctx, &format!("{command}_{}", name.replace('-', "_")), value);
    }
}

/// Begins a section, `rl_` and its name; false where it was not asked for.
fn section(ctx: *mut raw::RedisModuleInfoCtx, name: &str) -> bool {
    let name = CString::new(name).unwrap_or_default();
    // SAFETY: the context is that of the callback; the server copies the name.
    unsafe { api!(RedisModule_InfoAddSection(ctx, name.as_ptr())) == 0 }
}

fn field(ctx: *mut raw::RedisModuleInfoCtx, name: &str, value: u64) {
    let name = CString::new(name).unwrap_or_default();
    // SAFETY: the context is that of the callback, in a section; the server copies the name.
    unsafe { api!(RedisModule_InfoAddFieldULongLong(ctx, name.as_ptr(), value)) };
}

fn integer(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
