//! The binding to the server: what it loads, registers and calls.
//!
//! [`command`] is the pipeline of a call and [`all`] that of several limits at once, [`keyspace`]
//! the keys, [`data_type`] the callbacks of the values and [`value`] how they lie in memory,
//! [`config`] the options, [`registry`] the table of commands, [`clock`] the time, [`memory`] its
//! limit, [`listeners`] who gets effects, [`waiting`] the replies that are held. [`watch`] sees
//! what is decided, and [`show`] tells it to operators. [`server`] wraps the server's API. Nothing
//! outside this folder knows a server.

mod all;
mod clock;
mod command;
mod config;
mod data_type;
mod keyspace;
mod listeners;
mod memory;
mod registry;
mod server;
mod show;
mod value;
mod waiting;
mod watch;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redis_module::alloc::RedisAlloc;
use redis_module::raw;

/// The server's allocator: what the module holds is part of `used_memory`.
#[global_allocator]
static ALLOCATOR: RedisAlloc = RedisAlloc;

/// Version of the module as MODULE LIST shows it: 10000 x major + 100 x minor + patch.
const VERSION: c_int = 100;

/// Called by the server when it loads the module.
///
/// # Safety
/// For the server alone: `ctx` is a valid context and `argv` holds `argc` strings.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the first call of a module, with a name that is a C string. Before it there is no
    // allocator, so nothing above may allocate.
    let status = unsafe { raw::Export_RedisModule_Init(ctx, c"rl".as_ptr(), VERSION, API_VERSION) };
    if status != OK {
        return ERR;
    }
    let loaded = catch_unwind(AssertUnwindSafe(|| load(ctx, argv, argc)));
    match loaded.unwrap_or_else(|_| Err("a bug: loading panicked".to_owned())) {
        Ok(()) => OK,
        Err(text) => {
            server::warn(ctx, &format!("the module rl refuses to load: {text}"));
            ERR
        }
    }
}

const OK: c_int = 0;
const ERR: c_int = 1;
const API_VERSION: c_int = 1;

/// Valkey 9 refuses to move slots while a loaded module lacks this option. Unknown to other
/// servers, and so to the API's header.
const VALKEY_HANDLE_ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;

fn load(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> Result<(), String> {
    if let Some(name) = server::missing_function() {
        return Err(format!("the server lacks {name}, Redis 7.0 or later is needed"));
    }
    // I/O errors are checked where values are loaded. A replica may serve its old data while it
    // loads the new. The signal that a key was modified is sent only where one was.
    let mut options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED;
    let valkey = server::valkey_major(ctx);
    if let Some(major) = valkey {
        options |= VALKEY_HANDLE_ATOMIC_SLOT_MIGRATION;
        command::set_valkey_version(major);
    }
    server::set_options(ctx, options);
    listeners::follow(ctx, valkey);
    data_type::register(ctx)?;
    let category = registry::register(ctx)?;
    show::register(ctx)?;
    config::register(ctx, &server::arguments(argv, argc))?;
    if config::compat_cell() {
        registry::register_compatible(ctx, category);
    }
    Ok(())
}
