//! The server's API, wrapped so that what is built on it needs no unsafe code: a call's context,
//! its arguments, an open key.
//!
//! Every wrapper relies on the same guarantees of the server, named where they are used: a context
//! and its argument strings live until the command handler returns, an open key until it is
//! closed, and all of it is used by the main thread alone. [`missing_function`] is asked once, at
//! load, so that afterwards each function in [`REQUIRED`] is known to be there.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::slice;

use redis_module::raw;

use crate::error::Error;
use crate::report::Value;

/// Calls a function of the server's API by its name without the prefix.
macro_rules! api {
    ($name:ident($($argument:expr),* $(,)?)) => {
        match raw::$name {
            Some(function) => function($($argument),*),
            None => $crate::module::server::absent(stringify!($name)),
        }
    };
}
pub(super) use api;

/// Ends the call: the boundary turns it into an error. Never reached after a successful load.
#[cold]
pub(super) fn absent(name: &'static str) -> ! {
    std::panic::resume_unwind(Box::new(name))
}

/// Ends the function with the name of the first function of the API that is not there.
macro_rules! first_absent {
    ($($name:ident),* $(,)?) => {
        // SAFETY: the server fills the table of functions in once, before this is called.
        $(if unsafe { raw::$name }.is_none() { return Some(stringify!($name)); })*
    };
}

/// The name of the first function of the API that the module cannot do without and that the
/// server does not have.
pub fn missing_function() -> Option<&'static str> {
    first_absent!(
        RedisModule_Call,
        RedisModule_CallReplyStringPtr,
        RedisModule_CloseKey,
        RedisModule_CreateCommand,
        RedisModule_CreateDataType,
        RedisModule_DefragAlloc,
        RedisModule_DefragCursorGet,
        RedisModule_DefragCursorSet,
        RedisModule_DefragShouldStop,
        RedisModule_DigestAddStringBuffer,
        RedisModule_DigestEndSequence,
        RedisModule_EmitAOF,
        RedisModule_Free,
        RedisModule_FreeCallReply,
        RedisModule_FreeServerInfo,
        RedisModule_GetAbsExpire,
        RedisModule_GetClientId,
        RedisModule_GetCommand,
        RedisModule_GetContextFlags,
        RedisModule_GetServerInfo,
        RedisModule_InfoAddFieldULongLong,
        RedisModule_InfoAddSection,
        RedisModule_IsIOError,
        RedisModule_IsKeysPositionRequest,
        RedisModule_KeyAtPosWithFlags,
        RedisModule_KeyType,
        RedisModule_LoadConfigs,
        RedisModule_LoadStringBuffer,
        RedisModule_LogIOError,
        RedisModule_MallocSize,
        RedisModule_ModuleTypeGetType,
        RedisModule_ModuleTypeGetValue,
        RedisModule_ModuleTypeReplaceValue,
        RedisModule_ModuleTypeSetValue,
        RedisModule_NotifyKeyspaceEvent,
        RedisModule_OpenKey,
        RedisModule_RegisterBoolConfig,
        RedisModule_RegisterInfoFunc,
        RedisModule_RegisterNumericConfig,
        RedisModule_Replicate,
        RedisModule_ReplicateVerbatim,
        RedisModule_ReplyWithArray,
        RedisModule_ReplyWithError,
        RedisModule_ReplyWithLongLong,
        RedisModule_ReplyWithMap,
        RedisModule_ReplyWithNull,
        RedisModule_ReplyWithSimpleString,
        RedisModule_ReplyWithStringBuffer,
        RedisModule_SaveStringBuffer,
        RedisModule_ServerInfoGetFieldUnsigned,
        RedisModule_SetAbsExpire,
        RedisModule_SetCommandInfo,
        RedisModule_SetModuleOptions,
        RedisModule_SignalModifiedKey,
        RedisModule_StringPtrLen,
        RedisModule_SubscribeToServerEvent,
    );
    missing_to_hold()
}

/// The same of the functions that hold replies.
fn missing_to_hold() -> Option<&'static str> {
    first_absent!(
        RedisModule_BlockClient,
        RedisModule_CreateTimer,
        RedisModule_EventLoopAdd,
        RedisModule_GetBlockedClientHandle,
        RedisModule_GetBlockedClientPrivateData,
        RedisModule_GetDetachedThreadSafeContext,
        RedisModule_SetDisconnectCallback,
        RedisModule_UnblockClient,
    );
    None
}

/// Writes a line to the server's log, as a warning.
pub fn warn(ctx: *mut raw::RedisModuleCtx, text: &str) {
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: both format and text are C strings that outlive the call; "%s" takes one string.
    unsafe {
        if let Some(log) = raw::RedisModule_Log {
            log(ctx, c"warning".as_ptr(), c"%s".as_ptr(), text.as_ptr());
        }
    }
}

/// What the server answers when it is asked.
pub enum Answer {
    /// Yes.
    Yes,
    /// No.
    No,
    /// This server cannot be asked.
    Unknown,
}

/// Sets the module's options, `REDISMODULE_OPTION_*`.
pub fn set_options(ctx: *mut raw::RedisModuleCtx, options: u32) {
    // SAFETY: the context is that of OnLoad.
    unsafe {
        api!(RedisModule_SetModuleOptions(ctx, c_int::try_from(options).unwrap_or_default()))
    };
}

/// The arguments of loadmodule.
pub fn arguments<'a>(argv: *mut *mut raw::RedisModuleString, argc: c_int) -> Vec<&'a [u8]> {
    let argc = usize::try_from(argc).unwrap_or_default();
    if argv.is_null() || argc == 0 {
        return Vec::new();
    }
    // SAFETY: the server hands `argc` valid strings to OnLoad, which live until it returns.
    let argv = unsafe { slice::from_raw_parts(argv.cast::<NonNull<_>>(), argc) };
    argv.iter().map(|&string| bytes(string)).collect()
}

/// The bytes of one of the server's strings.
fn bytes<'a>(string: NonNull<raw::RedisModuleString>) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: arguments are valid and unchanged until the handler returns, `len` receives the
    // number of bytes behind the pointer, and the pointer is never null.
    unsafe {
        let bytes = api!(RedisModule_StringPtrLen(string.as_ptr(), &raw mut len));
        slice::from_raw_parts(bytes.cast(), len)
    }
}

/// The name of a key: an argument of the call.
#[derive(Clone, Copy)]
pub struct KeyName<'a> {
    string: NonNull<raw::RedisModuleString>,
    call: PhantomData<&'a ()>,
}

impl<'a> KeyName<'a> {
    /// Its bytes.
    pub fn bytes(self) -> &'a [u8] {
        bytes(self.string)
    }

    fn as_ptr(self) -> *mut raw::RedisModuleString {
        self.string.as_ptr()
    }
}

/// One call of a command.
pub struct Call<'a> {
    ctx: *mut raw::RedisModuleCtx,
    argv: &'a [NonNull<raw::RedisModuleString>],
}

/// Runs a command handler's body: an error becomes the reply, and so does a panic, which would
/// otherwise end the server.
pub fn handle<E: fmt::Display>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    body: impl FnOnce(&Call<'_>) -> Result<(), E>,
) -> c_int {
    let argc = usize::try_from(argc).unwrap_or_default();
    // SAFETY: the server hands `argc` valid strings to a handler, which live until it returns; a
    // pointer that is never null has the layout of NonNull.
    let argv = unsafe { slice::from_raw_parts(argv.cast::<NonNull<_>>(), argc) };
    let call = Call { ctx, argv };
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&call)));
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(error)) => call.reply_error(&error),
        Err(_) => {
            warn(ctx, "bug in the module rl: a command panicked, please report it");
            call.reply_error(&Error::Bug);
        }
    }
    0
}

/// Runs a callback's body; a panic leaves `otherwise`.
pub fn guarded<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

impl<'a> Call<'a> {
    /// The server's context of the call.
    pub fn context(&self) -> *mut raw::RedisModuleCtx {
        self.ctx
    }

    /// Whether the server only asks where the keys of the call are: then nothing may be answered.
    pub fn asks_for_keys(&self) -> bool {
        // SAFETY: the context is that of the handler that runs.
        unsafe { api!(RedisModule_IsKeysPositionRequest(self.ctx)) != 0 }
    }

    /// Tells the server, which asks for it, that the arguments in `places` are keys of these flags.
    pub fn tell_keys(&self, places: Range<usize>, flags: u32) {
        let flags = c_int::try_from(flags).unwrap_or_default();
        for place in places {
            let place = c_int::try_from(place).unwrap_or_default();
            // SAFETY: the context is that of the handler that runs.
            unsafe { api!(RedisModule_KeyAtPosWithFlags(self.ctx, place, flags)) }
        }
    }

    /// The argument that names the key.
    ///
    /// # Errors
    /// [`Error::Bug`] without one, which the arity of the commands rules out.
    pub fn key_name(&self) -> Result<KeyName<'a>, Error> {
        self.key_names(1).next().ok_or(Error::Bug)
    }

    /// The arguments from `index` on, as names of keys.
    pub fn key_names(&self, index: usize) -> impl Iterator<Item = KeyName<'a>> + use<'a> {
        let strings = self.argv.get(index..).unwrap_or_default();
        strings.iter().map(|&string| KeyName { string, call: PhantomData })
    }

    /// The bytes of the argument at `index`; the command's name is at 0.
    pub fn argument(&self, index: usize) -> Option<&'a [u8]> {
        self.argv.get(index).map(|&string| bytes(string))
    }

    /// How many arguments there are, the command's name included.
    pub fn len(&self) -> usize {
        self.argv.len()
    }

    /// The words after the key of a command with one.
    pub fn words(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.words_from(2)
    }

    /// The arguments from `index` on.
    pub fn words_from(&self, index: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.argv.get(index..).unwrap_or_default().iter().map(|&string| bytes(string))
    }

    /// The flags of the context, `REDISMODULE_CTX_FLAGS_*`.
    pub fn flags(&self) -> u32 {
        // SAFETY: the context is valid during the call.
        let flags = unsafe { api!(RedisModule_GetContextFlags(self.ctx)) };
        u32::try_from(flags).unwrap_or_default()
    }

    /// Whether the server would let a command that may need memory write this key now: SET, asked
    /// without being run.
    pub fn would_set(&self, key: KeyName<'_>) -> Answer {
        // SAFETY: the function takes nothing that the server keeps. It came with the flag for a
        // dry run (D), in Redis 7.2.
        let Some(_) = (unsafe { raw::RedisModule_CachedMicroseconds }) else {
            return Answer::Unknown;
        };
        // SAFETY: the format takes a string and a C string; the reply is null where nothing
        // stands in the way, else an error, and is freed here.
        unsafe {
            let format = c"EMDsc".as_ptr();
            let empty = c"".as_ptr();
            let reply =
                api!(RedisModule_Call(self.ctx, c"SET".as_ptr(), format, key.as_ptr(), empty));
            if reply.is_null() {
                return Answer::Yes;
            }
            let mut len = 0;
            let text = api!(RedisModule_CallReplyStringPtr(reply, &raw mut len));
            let refused = !text.is_null()
                && slice::from_raw_parts(text.cast::<u8>(), len).starts_with(b"OOM");
            api!(RedisModule_FreeCallReply(reply));
            if refused { Answer::No } else { Answer::Yes }
        }
    }

    /// Replies with an array of integers.
    pub fn reply_integers(&self, values: &[i64]) {
        // SAFETY: the context is valid during the call; the array is filled with as many elements
        // as it announces.
        unsafe {
            api!(RedisModule_ReplyWithArray(self.ctx, values.len().try_into().unwrap_or_default()));
            for &value in values {
                api!(RedisModule_ReplyWithLongLong(self.ctx, value));
            }
        }
    }

    /// Replies with a map: a flat array where the client speaks RESP2.
    pub fn reply_map(&self, fields: &[(&str, Value)]) {
        // SAFETY: the context is valid during the call; the map is filled with as many pairs as it
        // announces, and the server copies the texts.
        unsafe {
            api!(RedisModule_ReplyWithMap(self.ctx, fields.len().try_into().unwrap_or_default()));
            for (name, value) in fields {
                self.reply_text(name);
                match value {
                    Value::Text(text) => self.reply_text(text),
                    &Value::Integer(value) => {
                        api!(RedisModule_ReplyWithLongLong(self.ctx, value));
                    }
                }
            }
        }
    }

    fn reply_text(&self, text: &str) {
        // SAFETY: the context is valid during the call; the server copies the text.
        unsafe {
            api!(RedisModule_ReplyWithStringBuffer(self.ctx, text.as_ptr().cast(), text.len()));
        }
    }

    /// The server's id of the client; within a script that of the server's own client for scripts.
    pub fn client_id(&self) -> u64 {
        // SAFETY: the context is valid during the call.
        unsafe { api!(RedisModule_GetClientId(self.ctx)) }
    }

    /// Announces an array of so many elements, which follow.
    pub fn begin_array(&self, len: usize) {
        // SAFETY: the context is valid during the call.
        unsafe { api!(RedisModule_ReplyWithArray(self.ctx, len.try_into().unwrap_or_default())) };
    }

    /// Announces a map of so many pairs, which follow: a flat array where the client speaks RESP2.
    pub fn begin_map(&self, len: usize) {
        // SAFETY: the context is valid during the call.
        unsafe { api!(RedisModule_ReplyWithMap(self.ctx, len.try_into().unwrap_or_default())) };
    }

    /// Replies with an integer.
    pub fn reply_integer(&self, value: i64) {
        // SAFETY: the context is valid during the call.
        unsafe { api!(RedisModule_ReplyWithLongLong(self.ctx, value)) };
    }

    /// Replies with a string of any bytes.
    pub fn reply_bytes(&self, bytes: &[u8]) {
        // SAFETY: the context is valid during the call; the server copies the bytes.
        unsafe {
            api!(RedisModule_ReplyWithStringBuffer(self.ctx, bytes.as_ptr().cast(), bytes.len()));
        }
    }

    /// Replies with null.
    pub fn reply_null(&self) {
        // SAFETY: the context is valid during the call.
        unsafe { api!(RedisModule_ReplyWithNull(self.ctx)) };
    }

    /// Replies with the status `OK`.
    pub fn reply_ok(&self) {
        // SAFETY: the context is valid during the call, the text is a C string.
        unsafe { api!(RedisModule_ReplyWithSimpleString(self.ctx, c"OK".as_ptr())) };
    }

    fn reply_error(&self, error: &impl fmt::Display) {
        let text = CString::new(error.to_string()).unwrap_or_default();
        // SAFETY: the context is valid during the call; the server copies the text.
        unsafe {
            if let Some(reply) = raw::RedisModule_ReplyWithError {
                reply(self.ctx, text.as_ptr());
            }
        }
    }

    /// Sends the effect of this call to the replicas and the append-only file, in place of the
    /// call: `rl.effect key payload`.
    pub fn replicate_effect(&self, key: KeyName<'_>, payload: &[u8]) {
        // SAFETY: the format "sb" takes a string and a buffer with its length; all outlive the
        // call.
        unsafe {
            api!(RedisModule_Replicate(
                self.ctx,
                super::command::EFFECT.as_ptr(),
                c"sb".as_ptr(),
                key.as_ptr(),
                payload.as_ptr().cast::<c_char>(),
                payload.len(),
            ));
        }
    }

    /// Counts the call as a change where nobody gets its effect: the server counts what it is given
    /// to send on, and drops this at once.
    pub fn count_change(&self) {
        self.replicate_verbatim();
    }

    /// Sends this call, as it came, on to the append-only file and to replicas of this replica.
    pub fn replicate_verbatim(&self) {
        // SAFETY: the context is valid during the call.
        unsafe { api!(RedisModule_ReplicateVerbatim(self.ctx)) };
    }

    /// Tells WATCH and client-side caches that the key has changed.
    pub fn signal_modified(&self, key: KeyName<'_>) {
        // SAFETY: context and key name are valid during the call.
        unsafe { api!(RedisModule_SignalModifiedKey(self.ctx, key.as_ptr())) };
    }

    /// Publishes a keyspace event of the class of modules, if anybody has asked for these.
    pub fn notify(&self, key: KeyName<'_>, event: &CStr) {
        // SAFETY: context and key name are valid during the call, the event is a C string.
        unsafe {
            api!(RedisModule_NotifyKeyspaceEvent(
                self.ctx,
                raw::REDISMODULE_NOTIFY_MODULE,
                event.as_ptr(),
                key.as_ptr(),
            ));
        }
    }

    /// Opens a key of this call: to look, or to look and write.
    pub fn open_key(&self, name: KeyName<'a>, write: bool) -> Key<'a> {
        let mode = raw::REDISMODULE_READ | if write { raw::REDISMODULE_WRITE } else { 0 };
        let mode = c_int::try_from(mode).unwrap_or_default();
        // SAFETY: context and key name are valid during the call.
        let key = unsafe { api!(RedisModule_OpenKey(self.ctx, name.as_ptr(), mode)) };
        // A key that is opened to read and absent is null, which all functions used here take.
        Key { key: key.cast(), name }
    }
}

/// An open key, closed when dropped.
pub struct Key<'a> {
    key: *mut raw::RedisModuleKey,
    name: KeyName<'a>,
}

/// What an open key holds.
pub enum Content {
    /// Nothing.
    Empty,
    /// A value of a module, of this type.
    Module(*mut raw::RedisModuleType),
    /// A value of the server's own types.
    Other,
}

impl<'a> Key<'a> {
    /// Its name.
    pub fn name(&self) -> KeyName<'a> {
        self.name
    }

    /// What the key holds.
    pub fn content(&self) -> Content {
        // SAFETY: the key is open; both functions take null for an absent key.
        unsafe {
            let data_type = api!(RedisModule_ModuleTypeGetType(self.key));
            if !data_type.is_null() {
                return Content::Module(data_type);
            }
            let kind = api!(RedisModule_KeyType(self.key));
            match isize::try_from(kind).unwrap_or_default() {
                raw::REDISMODULE_KEYTYPE_EMPTY => Content::Empty,
                _ => Content::Other,
            }
        }
    }

    /// The value, which is the module's own pointer.
    pub fn value(&self) -> *mut c_void {
        // SAFETY: the key is open and holds a module's value.
        unsafe { api!(RedisModule_ModuleTypeGetValue(self.key)) }
    }

    /// Stores a value in an empty key that is open to write; the server frees it with the type.
    pub fn set_value(&self, data_type: *mut raw::RedisModuleType, value: *mut c_void) -> bool {
        // SAFETY: the key is open to write, the type was registered, the value is of that type.
        unsafe { api!(RedisModule_ModuleTypeSetValue(self.key, data_type, value)) == 0 }
    }

    /// Puts a value in place of one of the same type, in a key that is open to write, and returns
    /// the old one, which the server has given up.
    pub fn replace_value(
        &self,
        data_type: *mut raw::RedisModuleType,
        value: *mut c_void,
    ) -> Option<*mut c_void> {
        let mut old = ptr::null_mut();
        // SAFETY: the key is open to write and holds a value of the type.
        let status = unsafe {
            api!(RedisModule_ModuleTypeReplaceValue(self.key, data_type, value, &raw mut old))
        };
        (status == 0).then_some(old)
    }

    /// When the key expires, in ms since the epoch.
    pub fn expire_ms(&self) -> Option<i64> {
        // SAFETY: the key is open.
        let expire_ms = unsafe { api!(RedisModule_GetAbsExpire(self.key)) };
        (expire_ms != i64::from(raw::REDISMODULE_NO_EXPIRE)).then_some(expire_ms)
    }

    /// Lets the key expire at `expire_ms`, in ms since the epoch.
    pub fn set_expire_ms(&self, expire_ms: i64) {
        // SAFETY: the key is open to write and holds a value.
        unsafe { api!(RedisModule_SetAbsExpire(self.key, expire_ms.max(0))) };
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        if !self.key.is_null() {
            // SAFETY: the key is open and not used afterwards.
            unsafe {
                if let Some(close) = raw::RedisModule_CloseKey {
                    close(self.key);
                }
            }
        }
    }
}

/// Whether the server tells of everybody who begins to get effects: not those that stream the keys
/// of a slot to another node, Valkey from 9.0 and Redis from 8.4 on. `valkey` is [`valkey_major`].
pub fn tells_of_listeners(valkey: Option<u32>) -> bool {
    if let Some(major) = valkey {
        return (7..=8).contains(&major);
    }
    // SAFETY: the function takes nothing and only tells the version, a byte for each part.
    let version = unsafe { raw::RedisModule_GetServerVersion.map(|version| version()) };
    version.is_some_and(|version| version < 0x08_04_00)
}

/// Whether the server has neither replica nor backlog nor append-only file.
pub fn has_no_listener(ctx: *mut raw::RedisModuleCtx) -> bool {
    // SAFETY: the context is that of an event; the data is freed after its last use.
    unsafe {
        let flags = u32::try_from(api!(RedisModule_GetContextFlags(ctx))).unwrap_or(u32::MAX);
        let data = api!(RedisModule_GetServerInfo(ctx, c"replication".as_ptr()));
        let is_zero = |field: &CStr| {
            let mut error = 0;
            let value =
                api!(RedisModule_ServerInfoGetFieldUnsigned(data, field.as_ptr(), &raw mut error));
            error == 0 && value == 0
        };
        let alone = is_zero(c"connected_slaves") && is_zero(c"repl_backlog_active");
        api!(RedisModule_FreeServerInfo(ctx, data));
        alone && flags & raw::REDISMODULE_CTX_FLAGS_AOF == 0
    }
}

/// A handler of an event of the server.
pub type OnEvent =
    unsafe extern "C" fn(*mut raw::RedisModuleCtx, raw::RedisModuleEvent, u64, *mut c_void);

/// Lets `handler` be called at each event, `REDISMODULE_EVENT_*`; false if the server knows none.
pub fn subscribe(ctx: *mut raw::RedisModuleCtx, event: u64, handler: OnEvent) -> bool {
    let event = raw::RedisModuleEvent { id: event, dataver: 1 };
    // SAFETY: the context is that of OnLoad, the handler lives as long as the module.
    unsafe { api!(RedisModule_SubscribeToServerEvent(ctx, event, Some(handler))) == 0 }
}

/// The major version of a Valkey server, 0 if it is none that can be read; none of any other.
pub fn valkey_major(ctx: *mut raw::RedisModuleCtx) -> Option<u32> {
    // SAFETY: the context is that of OnLoad; the data is freed after the last use of what it
    // holds, and a field is null or a C string.
    unsafe {
        let data = (raw::RedisModule_GetServerInfo?)(ctx, c"server".as_ptr());
        let field = (raw::RedisModule_ServerInfoGetFieldC?)(data, c"valkey_version".as_ptr());
        let major = (!field.is_null()).then(|| {
            let version = CStr::from_ptr(field).to_string_lossy();
            let major = version.split('.').next().and_then(|major| major.parse().ok());
            major.unwrap_or_default()
        });
        (raw::RedisModule_FreeServerInfo?)(ctx, data);
        major
    }
}

/// A null pointer, for callbacks that have nothing to return.
pub const fn null() -> *mut c_void {
    ptr::null_mut()
}
