//! The native data types, one a limiter: how the server saves, loads, copies, measures and frees
//! a value. How a state lies in it is told in [`super::value`].
//!
//! `free` may run on another thread (UNLINK, FLUSHALL ASYNC), so a state shares nothing. Each
//! callback catches a panic, as the commands do.

use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::mem::ManuallyDrop;
use std::slice;

use redis_module::raw;

use super::command::EFFECT;
use super::server::{self, api, guarded};
use super::value::Stored;
use crate::algorithm::leaky_bucket::LeakyBucket;
use crate::algorithm::sliding_window::SlidingWindow;
use crate::algorithm::token_bucket::TokenBucket;
use crate::codec::{self, VERSION};

/// Registers all types.
///
/// # Errors
/// The line for the log, where the server refuses one.
pub fn register(ctx: *mut raw::RedisModuleCtx) -> Result<(), String> {
    register_one::<TokenBucket>(ctx)?;
    register_one::<LeakyBucket>(ctx)?;
    register_one::<SlidingWindow>(ctx)
}

fn register_one<S: Stored>(ctx: *mut raw::RedisModuleCtx) -> Result<(), String> {
    let mut methods = raw::RedisModuleTypeMethods {
        version: u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION),
        rdb_load: Some(rdb_load::<S>),
        rdb_save: Some(rdb_save::<S>),
        aof_rewrite: Some(aof_rewrite::<S>),
        mem_usage: Some(mem_usage::<S>),
        digest: Some(digest::<S>),
        free: Some(free::<S>),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: Some(free_effort::<S>),
        unlink: None,
        copy: Some(copy::<S>),
        defrag: Some(defrag::<S>),
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: None,
    };
    let data_type = S::data_type();
    // SAFETY: the name is a C string of nine characters, and the server copies the methods, which
    // live as long as the module.
    let handle = unsafe {
        api!(RedisModule_CreateDataType(
            ctx,
            data_type.name().as_ptr(),
            c_int::from(VERSION),
            &raw mut methods,
        ))
    };
    if handle.is_null() {
        return Err(format!("the server refuses the type {}", data_type.name().to_string_lossy()));
    }
    data_type.set_handle(handle);
    Ok(())
}

/// The bytes of a state.
pub fn encode<S: Stored>(state: &S::State) -> Vec<u8> {
    let mut bytes = Vec::new();
    S::encode_state(state, &mut bytes);
    bytes
}

unsafe extern "C" fn rdb_load<S: Stored>(
    io: *mut raw::RedisModuleIO,
    version: c_int,
) -> *mut c_void {
    guarded(server::null(), || {
        if !(1..=c_int::from(VERSION)).contains(&version) {
            // SAFETY: the handle is valid during the callback; the format takes no argument.
            unsafe {
                let text = c"an unknown version of the module rl wrote this value, upgrade it";
                api!(RedisModule_LogIOError(io, c"warning".as_ptr(), text.as_ptr()));
            }
            return server::null();
        }
        let mut len = 0;
        // SAFETY: the buffer is null on an error, else holds `len` bytes until it is freed here.
        let decoded = unsafe {
            let buffer = api!(RedisModule_LoadStringBuffer(io, &raw mut len));
            if buffer.is_null() {
                return server::null();
            }
            let decoded = S::decode_state(slice::from_raw_parts(buffer.cast(), len));
            api!(RedisModule_Free(buffer.cast()));
            decoded
        };
        // A null is the server's sign for a value that is refused.
        decoded.map_or(server::null(), S::new_value)
    })
}

unsafe extern "C" fn rdb_save<S: Stored>(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    guarded((), || {
        // SAFETY: the server hands a value of the type this callback was registered for.
        let bytes = encode::<S>(&*unsafe { S::view(value) });
        // SAFETY: the bytes outlive the call.
        unsafe { api!(RedisModule_SaveStringBuffer(io, bytes.as_ptr().cast(), bytes.len())) };
    });
}

/// Emits the internal command without an expiry: the server itself writes PEXPIREAT behind it.
unsafe extern "C" fn aof_rewrite<S: Stored>(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    guarded((), || {
        let mut bytes = Vec::new();
        codec::encode_expiry(None, &mut bytes);
        // SAFETY: the server hands a value of the type this callback was registered for.
        S::encode_state(&*unsafe { S::view(value) }, &mut bytes);
        // SAFETY: the format "sb" takes a string and a buffer with its length; all outlive the
        // call.
        unsafe {
            api!(RedisModule_EmitAOF(
                io,
                EFFECT.as_ptr(),
                c"sb".as_ptr(),
                key,
                bytes.as_ptr().cast::<c_char>(),
                bytes.len(),
            ));
        }
    });
}

unsafe extern "C" fn digest<S: Stored>(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    guarded((), || {
        // SAFETY: the server hands a value of the type this callback was registered for.
        let bytes = encode::<S>(&*unsafe { S::view(value) });
        // SAFETY: the bytes outlive the call.
        unsafe {
            api!(RedisModule_DigestAddStringBuffer(digest, bytes.as_ptr().cast(), bytes.len()));
            api!(RedisModule_DigestEndSequence(digest));
        }
    });
}

unsafe extern "C" fn mem_usage<S: Stored>(value: *const c_void) -> usize {
    guarded(0, || {
        // SAFETY: every pointer asked about came from the server's allocator and is in use.
        let usable =
            |start: *const c_void| unsafe { api!(RedisModule_MallocSize(start.cast_mut())) };
        // SAFETY: the server hands a value of the type this callback was registered for.
        let view = unsafe { S::view(value.cast_mut()) };
        usable(value) + S::heap_bytes(&view, |start| usable(start.cast()))
    })
}

unsafe extern "C" fn free_effort<S: Stored>(
    _key: *mut raw::RedisModuleString,
    value: *const c_void,
) -> usize {
    // SAFETY: the server hands a value of the type this callback was registered for.
    guarded(1, || S::free_effort(&*unsafe { S::view(value.cast_mut()) }))
}

unsafe extern "C" fn free<S: Stored>(value: *mut c_void) {
    // SAFETY: the server gives up a value of the type this callback was registered for, once.
    guarded((), || unsafe { S::free(value) });
}

unsafe extern "C" fn copy<S: Stored>(
    _from: *mut raw::RedisModuleString,
    _to: *mut raw::RedisModuleString,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: the server hands a value of the type this callback was registered for.
    guarded(server::null(), || S::new_value(unsafe { S::view(value.cast_mut()) }.clone()))
}

/// Lets the server move the value's memory to where it leaves no gaps. A long log is moved in
/// several calls: the cursor, which the server keeps, is the next block.
unsafe extern "C" fn defrag<S: Stored>(
    ctx: *mut raw::RedisModuleDefragCtx,
    _key: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guarded(0, || {
        let mut cursor: c_ulong = 0;
        // SAFETY: the context is valid during the callback. `value` points at the key's value of
        // the type this callback was registered for, and nobody else uses it meanwhile.
        let mut view = unsafe {
            api!(RedisModule_DefragCursorGet(ctx, &raw mut cursor));
            let moved = api!(RedisModule_DefragAlloc(ctx, *value));
            if !moved.is_null() {
                *value = moved;
            }
            S::view(*value)
        };
        let mut index = usize::try_from(cursor).unwrap_or_default();
        while S::relocate(&mut view, index, |bytes| relocate(ctx, bytes)) {
            index += 1;
            // SAFETY: the context is valid during the callback.
            unsafe {
                if api!(RedisModule_DefragShouldStop(ctx)) != 0 {
                    let next = c_ulong::try_from(index).unwrap_or_default();
                    // Without a cursor the server wants it done at once.
                    if api!(RedisModule_DefragCursorSet(ctx, next)) == 0 {
                        return 1;
                    }
                }
            }
        }
        0
    })
}

/// The same bytes, where the server wants them.
fn relocate(ctx: *mut raw::RedisModuleDefragCtx, bytes: Vec<u8>) -> Vec<u8> {
    let mut bytes = ManuallyDrop::new(bytes);
    if bytes.capacity() == 0 {
        return Vec::new();
    }
    // SAFETY: the buffer of a Vec comes from the server's allocator, whole. Where the server moves
    // it, it has copied all of it and freed the old one.
    unsafe {
        let moved = api!(RedisModule_DefragAlloc(ctx, bytes.as_mut_ptr().cast()));
        let start = if moved.is_null() { bytes.as_mut_ptr() } else { moved.cast() };
        Vec::from_raw_parts(start, bytes.len(), bytes.capacity())
    }
}
