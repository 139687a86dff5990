//! The table of commands: name, arity, flags, key, ACL categories and documentation of each.
//!
//! A command has its key at position 1, or a number of keys that the word before them tells, or
//! none. A key at position 1 is registered twice over: as the legacy triple (first, last, step) and
//! as a key specification, since clients and servers read one or the other; counted keys have no
//! legacy triple, and the handler tells them instead. What a later server offers is asked for and
//! done without where it is absent.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use redis_module::raw;

use super::all;
use super::command::{self, EFFECT};
use super::server::{self, api};
use super::show;
use crate::algorithm::leaky_bucket::LeakyBucket;
use crate::algorithm::sliding_window::SlidingWindow;
use crate::algorithm::token_bucket::TokenBucket;

type Handler = unsafe extern "C" fn(
    *mut raw::RedisModuleCtx,
    *mut *mut raw::RedisModuleString,
    c_int,
) -> c_int;

struct Entry {
    name: &'static CStr,
    handler: Handler,
    kind: Kind,
    /// Words of a call, its name included; negative: at least so many.
    arity: c_int,
    keys: Keys,
    summary: &'static CStr,
    complexity: &'static CStr,
    arguments: &'static [Argument],
}

/// Where a command has its keys, and what it does with them, `REDISMODULE_CMD_KEY_*`.
enum Keys {
    /// It has none.
    None,
    /// One, at position 1.
    One(u32),
    /// As many as the word at position 1 says, behind it; the handler tells the server, too.
    Counted(u32),
}

/// An argument, as COMMAND DOCS shows it.
#[derive(Clone, Copy)]
struct Argument {
    name: &'static CStr,
    kind: raw::RedisModuleCommandArgType,
    token: Option<&'static CStr>,
    optional: bool,
    /// Whether there may be more than one.
    multiple: bool,
    /// Of which it is made: one of them, or all in order.
    parts: &'static [Argument],
}

/// The first version of the module with a command.
const SINCE: &CStr = c"0.1.0";
const CATEGORY: &str = "ratelimit";

/// What a command does, in the server's words.
struct Kind {
    flags: &'static CStr,
    /// The ACL categories that the server's own commands get by such flags; a module's command is
    /// in none that the module does not name.
    categories: &'static str,
    /// Whether it is in the module's own category too.
    limits: bool,
}

const LOOKS: Kind = Kind { flags: c"readonly fast", categories: "read fast", limits: true };
const TAKES: Kind = Kind { flags: c"write fast", categories: "write fast", limits: true };
/// A cluster finds the slot of a call by its legacy triple or by asking the command, never by its
/// key specification.
const TAKES_FROM_SEVERAL: Kind = Kind { flags: c"write fast getkeys-api", ..TAKES };
/// The flag `internal` exists from Redis 8.0 on only and fails elsewhere.
const FOLLOWS: Kind =
    Kind { flags: c"write fast admin", categories: "write fast admin dangerous", limits: false };
/// As SLOWLOG: for operators, whatever the server is busy with.
const SHOWS: Kind = Kind {
    flags: c"admin allow-loading allow-stale",
    categories: "admin slow dangerous",
    limits: false,
};

const READ: u32 = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
/// What a call that takes does with a key.
pub const UPDATE: u32 =
    raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE;

const KEY: Argument = plain(c"key", kind::KEY);
const CAPACITY: Argument = integer(c"capacity");
const RATE: Argument = plain(c"rate", kind::DOUBLE);
const LIMIT: Argument = integer(c"limit");
const WINDOW: Argument = integer(c"window-ms");
const PER: Argument = value(c"period-ms", c"PER");
const MAXDELAY: Argument = value(c"max-delay-ms", c"MAXDELAY");
const DELAY: Argument = Argument {
    name: c"longest-delay",
    kind: kind::ONEOF,
    token: None,
    optional: true,
    multiple: false,
    parts: &[
        Argument { optional: false, ..MAXDELAY },
        Argument { optional: false, ..value(c"max-wait-ms", c"WAIT") },
    ],
};
const RESOLUTION: Argument = value(c"resolution-ms", c"RESOLUTION");
const COST: Argument = value(c"cost", c"COST");
const RESERVE: Argument = value(c"reserve", c"RESERVE");
const AT: Argument = value(c"unix-time-ms", c"AT");
const PEEK: Argument = switch(c"peek", c"PEEK");
const FORCE: Argument = switch(c"force", c"FORCE");
const SHADOW: Argument = switch(c"shadow", c"SHADOW");
const RESET: Argument = switch(c"reset", c"RESET");
const RULES: Argument = Argument {
    multiple: true,
    ..one_of(
        c"rule",
        &[
            block(
                c"tokenbucket",
                &[word(c"type", c"TOKENBUCKET"), CAPACITY, RATE, PER, COST, RESERVE],
            ),
            block(
                c"leaky",
                &[word(c"type", c"LEAKY"), CAPACITY, RATE, PER, MAXDELAY, COST, RESERVE],
            ),
            block(
                c"sliding",
                &[word(c"type", c"SLIDING"), LIMIT, WINDOW, RESOLUTION, COST, RESERVE],
            ),
        ],
    )
};

const THROTTLE: Entry = Entry {
    name: c"rl.throttle",
    handler: command::throttle,
    kind: TAKES,
    arity: -5,
    keys: Keys::One(UPDATE),
    summary: c"Takes tokens from a bucket, with the arguments and the reply of CL.THROTTLE.",
    complexity: c"O(1)",
    arguments: &[
        KEY,
        integer(c"max-burst"),
        integer(c"count"),
        integer(c"period-s"),
        Argument { optional: true, ..integer(c"quantity") },
    ],
};

/// The command of redis-cell, for clients that know no other.
static COMPATIBLE: Entry =
    Entry { name: c"cl.throttle", handler: command::throttle_compatible, ..THROTTLE };

static COMMANDS: [Entry; 12] = [
    Entry {
        name: c"rl.tokenbucket",
        handler: command::limit::<TokenBucket>,
        kind: TAKES,
        arity: -4,
        keys: Keys::One(UPDATE),
        summary: c"Takes tokens from a bucket that time refills at a constant rate.",
        complexity: c"O(1)",
        arguments: &[KEY, CAPACITY, RATE, PER, COST, PEEK, FORCE, RESERVE, SHADOW, AT],
    },
    Entry {
        name: c"rl.leaky",
        handler: command::limit::<LeakyBucket>,
        kind: TAKES,
        arity: -4,
        keys: Keys::One(UPDATE),
        summary: c"Adds to a bucket that drains at a constant rate, and tells how long to wait.",
        complexity: c"O(1)",
        arguments: &[KEY, CAPACITY, RATE, PER, DELAY, COST, PEEK, FORCE, RESERVE, SHADOW, AT],
    },
    Entry {
        name: c"rl.sliding",
        handler: command::limit::<SlidingWindow>,
        kind: TAKES,
        arity: -4,
        keys: Keys::One(UPDATE),
        summary: c"Counts hits in a sliding window, exactly.",
        complexity: c"O(1) amortized when allowed, O(log N) with N hits in the window when denied",
        arguments: &[KEY, LIMIT, WINDOW, RESOLUTION, COST, PEEK, FORCE, RESERVE, SHADOW, AT],
    },
    Entry {
        name: c"rl.all",
        handler: all::all,
        kind: TAKES_FROM_SEVERAL,
        arity: -6,
        keys: Keys::Counted(UPDATE),
        summary: c"Takes from several limits at once, or from none of them.",
        complexity: c"O(N) with N keys, each as the command of its limiter",
        arguments: &[
            integer(c"numkeys"),
            Argument { multiple: true, ..KEY },
            RULES,
            PEEK,
            SHADOW,
            AT,
        ],
    },
    THROTTLE,
    Entry {
        name: c"rl.peek",
        handler: command::peek,
        kind: LOOKS,
        arity: -2,
        keys: Keys::One(READ),
        summary: c"Answers what a call with the remembered parameters would get.",
        complexity: c"O(1) for buckets, O(log N) with N hits in a sliding window",
        arguments: &[KEY, COST, AT],
    },
    Entry {
        name: c"rl.info",
        handler: command::info,
        kind: LOOKS,
        arity: -2,
        keys: Keys::One(READ),
        summary: c"Tells the parameters that a key remembers and where it stands.",
        complexity: c"O(1) for buckets, O(log N) with N hits in a sliding window",
        arguments: &[KEY, AT],
    },
    Entry {
        name: c"rl.refund",
        handler: command::refund,
        kind: TAKES,
        arity: -3,
        keys: Keys::One(UPDATE),
        summary: c"Gives units back.",
        complexity: c"O(1) for buckets, O(N) with N hits that are given back in a sliding window",
        arguments: &[KEY, integer(c"n"), AT],
    },
    Entry {
        name: c"rl.stats",
        handler: show::stats,
        kind: SHOWS,
        arity: -1,
        keys: Keys::None,
        summary: c"Counts the decisions of each command since start, and its errors.",
        complexity: c"O(1)",
        arguments: &[RESET],
    },
    Entry {
        name: c"rl.topdenied",
        handler: show::top_denied,
        kind: SHOWS,
        arity: -1,
        keys: Keys::None,
        summary: c"Lists the keys that were denied most.",
        complexity: c"O(N) with N keys listed",
        arguments: &[value(c"count", c"COUNT"), RESET],
    },
    Entry {
        name: c"rl.log",
        handler: show::log,
        kind: SHOWS,
        arity: -2,
        keys: Keys::None,
        summary: c"Lists, counts or forgets the last denials.",
        complexity: c"O(N) with N denials listed",
        arguments: &[one_of(
            c"operation",
            &[
                block(
                    c"get",
                    &[word(c"get", c"GET"), Argument { optional: true, ..integer(c"n") }],
                ),
                word(c"len", c"LEN"),
                word(c"reset", c"RESET"),
            ],
        )],
    },
    Entry {
        name: EFFECT,
        handler: command::effect,
        kind: FOLLOWS,
        arity: 3,
        keys: Keys::One(UPDATE),
        summary: c"Internal: carries a change to replicas and through the append-only file.",
        complexity: c"O(1), O(N) for a whole window of N hits",
        arguments: &[KEY, plain(c"payload", kind::STRING)],
    },
];

mod kind {
    use redis_module::raw::{self, RedisModuleCommandArgType as Kind};

    pub const STRING: Kind = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING;
    pub const INTEGER: Kind = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER;
    pub const DOUBLE: Kind = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_DOUBLE;
    pub const KEY: Kind = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY;
    pub const TOKEN: Kind = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN;
    pub const ONEOF: Kind = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF;
    pub const BLOCK: Kind = raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK;
}

const fn plain(name: &'static CStr, kind: raw::RedisModuleCommandArgType) -> Argument {
    Argument { name, kind, token: None, optional: false, multiple: false, parts: &[] }
}

const fn integer(name: &'static CStr) -> Argument {
    plain(name, kind::INTEGER)
}

/// An option with a value.
const fn value(name: &'static CStr, token: &'static CStr) -> Argument {
    Argument { token: Some(token), optional: true, ..integer(name) }
}

/// An option without a value.
const fn switch(name: &'static CStr, token: &'static CStr) -> Argument {
    Argument { optional: true, ..word(name, token) }
}

/// A word that stands for itself.
const fn word(name: &'static CStr, token: &'static CStr) -> Argument {
    Argument { token: Some(token), ..plain(name, kind::TOKEN) }
}

/// Several arguments in order.
const fn block(name: &'static CStr, parts: &'static [Argument]) -> Argument {
    Argument { parts, ..plain(name, kind::BLOCK) }
}

/// One of several arguments.
const fn one_of(name: &'static CStr, parts: &'static [Argument]) -> Argument {
    Argument { parts, ..plain(name, kind::ONEOF) }
}

/// Registers all commands.
///
/// # Errors
/// The line for the log, where the server refuses one.
pub fn register(ctx: *mut raw::RedisModuleCtx) -> Result<Category, String> {
    let category = Category(add_category(ctx));
    COMMANDS.iter().try_for_each(|entry| register_one(ctx, entry, category))?;
    Ok(category)
}

/// Registers CL.THROTTLE too, as far as no other module has.
pub fn register_compatible(ctx: *mut raw::RedisModuleCtx, category: Category) {
    if let Err(text) = register_one(ctx, &COMPATIBLE, category) {
        server::warn(ctx, &format!("CL.THROTTLE is not there: {text}"));
    }
}

/// Whether the module's ACL category is there.
#[derive(Clone, Copy)]
pub struct Category(bool);

fn register_one(
    ctx: *mut raw::RedisModuleCtx,
    entry: &Entry,
    category: Category,
) -> Result<(), String> {
    let name = entry.name.to_string_lossy();
    let key = c_int::from(matches!(entry.keys, Keys::One(_)));
    // SAFETY: name and flags are C strings, and the handler lives as long as the module.
    let command = unsafe {
        let status = api!(RedisModule_CreateCommand(
            ctx,
            entry.name.as_ptr(),
            Some(entry.handler),
            entry.kind.flags.as_ptr(),
            key,
            key,
            key,
        ));
        if status != 0 {
            return Err(format!("the server refuses the command {name}"));
        }
        api!(RedisModule_GetCommand(ctx, entry.name.as_ptr()))
    };
    if command.is_null() || !describe(command, entry) {
        return Err(format!("the server refuses the description of the command {name}"));
    }
    categorize(ctx, command, entry, category.0 && entry.kind.limits);
    Ok(())
}

/// Gives the server arity, key and documentation of a command, which it copies.
fn describe(command: *mut raw::RedisModuleCommand, entry: &Entry) -> bool {
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    // SAFETY: an all-zero entry is the mark of the end of the list, as the API defines it.
    let end = unsafe { std::mem::zeroed() };
    let mut keys = match entry.keys {
        Keys::None => vec![end],
        Keys::One(flags) => vec![one_key(flags), end],
        Keys::Counted(flags) => vec![counted_keys(flags), end],
    };
    let mut lists = Vec::new();
    let args = list(entry.arguments, &mut lists);
    let info = raw::RedisModuleCommandInfo {
        version: &raw const version,
        summary: entry.summary.as_ptr(),
        complexity: entry.complexity.as_ptr(),
        since: SINCE.as_ptr(),
        history: ptr::null_mut(),
        tips: ptr::null(),
        arity: entry.arity,
        key_specs: keys.as_mut_ptr(),
        args,
    };
    // SAFETY: all that the description points to outlives the call, which copies it.
    unsafe { api!(RedisModule_SetCommandInfo(command, &raw const info)) == 0 }
}

/// The key at position 1.
fn one_key(flags: u32) -> raw::RedisModuleCommandKeySpec {
    raw::RedisModuleCommandKeySpec {
        notes: ptr::null(),
        flags: u64::from(flags),
        begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX,
        bs: raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
            index: raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_1 { pos: 1 },
        },
        find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE,
        fk: raw::RedisModuleCommandKeySpec__bindgen_ty_2 {
            range: raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 {
                lastkey: 0,
                keystep: 1,
                limit: 0,
            },
        },
    }
}

/// As many keys as the word at position 1 says, behind it.
fn counted_keys(flags: u32) -> raw::RedisModuleCommandKeySpec {
    raw::RedisModuleCommandKeySpec {
        find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM,
        fk: raw::RedisModuleCommandKeySpec__bindgen_ty_2 {
            keynum: raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_2 {
                keynumidx: 0,
                firstkey: 1,
                keystep: 1,
            },
        },
        ..one_key(flags)
    }
}

type Arguments = Vec<raw::RedisModuleCommandArg>;

/// The arguments as the API takes them, in memory that lives as long as `lists`.
fn list(arguments: &[Argument], lists: &mut Vec<Arguments>) -> *mut raw::RedisModuleCommandArg {
    if arguments.is_empty() {
        return ptr::null_mut();
    }
    let mut list: Arguments =
        arguments.iter().map(|part| argument(part, list(part.parts, lists))).collect();
    // SAFETY: an all-zero entry is the mark of the end of the list, as the API defines it.
    list.push(unsafe { std::mem::zeroed() });
    let start = list.as_mut_ptr();
    lists.push(list);
    start
}

fn argument(
    argument: &Argument,
    parts: *mut raw::RedisModuleCommandArg,
) -> raw::RedisModuleCommandArg {
    let mut flags = raw::REDISMODULE_CMD_ARG_NONE;
    if argument.optional {
        flags |= raw::REDISMODULE_CMD_ARG_OPTIONAL;
    }
    if argument.multiple {
        flags |= raw::REDISMODULE_CMD_ARG_MULTIPLE;
    }
    raw::RedisModuleCommandArg {
        name: argument.name.as_ptr(),
        type_: argument.kind,
        key_spec_index: if argument.kind == kind::KEY { 0 } else { -1 },
        token: argument.token.map_or(ptr::null::<c_char>(), CStr::as_ptr),
        summary: ptr::null(),
        since: ptr::null(),
        flags: c_int::try_from(flags).unwrap_or_default(),
        deprecated_since: ptr::null(),
        subargs: parts,
        display_text: ptr::null(),
    }
}

/// Adds the ACL category @ratelimit, on servers that let a module add one.
fn add_category(ctx: *mut raw::RedisModuleCtx) -> bool {
    let name = CString::new(CATEGORY).unwrap_or_default();
    // SAFETY: the name is a C string, which is copied; called in OnLoad, as the API demands.
    let added = unsafe { raw::RedisModule_AddACLCategory.map(|add| add(ctx, name.as_ptr())) };
    if added.is_some_and(|status| status != 0) {
        server::warn(ctx, "the ACL category @ratelimit cannot be added, the module goes without");
    }
    added == Some(0)
}

/// Puts a command into its ACL categories, on servers that let a module do that: Redis 7.2 and
/// later.
fn categorize(
    ctx: *mut raw::RedisModuleCtx,
    command: *mut raw::RedisModuleCommand,
    entry: &Entry,
    own: bool,
) {
    let own = if own { format!(" {CATEGORY}") } else { String::new() };
    let categories = format!("{}{own}", entry.kind.categories);
    let listed = CString::new(categories.as_str()).unwrap_or_default();
    // SAFETY: the command was just created and lives as long as the module; the list is a C string,
    // which the server only reads; called in OnLoad, as the API demands.
    let status = unsafe {
        raw::RedisModule_SetCommandACLCategories.map(|set| set(command, listed.as_ptr()))
    };
    if status.is_some_and(|status| status != 0) {
        let name = entry.name.to_string_lossy();
        server::warn(ctx, &format!("{name} cannot be put into the ACL categories {categories}"));
    }
}
