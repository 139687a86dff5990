//! The configuration: one table of what can be set, for CONFIG, redis.conf and loadmodule alike.
//!
//! loadmodule arguments are pairs `rl.NAME value`. They become the defaults of the registered
//! options, so a line in redis.conf beats them and CONFIG REWRITE writes what differs from them.
//! Any other word or value refuses to load, with one line in the log.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering};

use redis_module::raw;

use super::server::api;
use super::watch;
use crate::args::integer;
use crate::error::Error;
use crate::limits::{MAX_LOG_LEN, MAX_SLIDING_BYTES, MAX_TOPDENIED_SIZE};

/// Something that can be set.
struct Setting {
    /// Its name behind the module's, `rl.`.
    name: &'static CStr,
    kind: Kind,
    default: i64,
    value: AtomicI64,
}

/// What a value may be.
enum Kind {
    /// Yes, 1, or no, 0.
    Switch,
    /// A switch that is set when the module is loaded, and never again.
    SwitchAtLoad,
    /// From 0 to a greatest number; whoever asks to be told is.
    Number { max: u64, apply: Option<fn(usize)> },
}

impl Setting {
    const fn new(name: &'static CStr, kind: Kind, default: i64) -> Setting {
        Setting { name, kind, default, value: AtomicI64::new(default) }
    }

    fn set(&self, value: i64) {
        self.value.store(value, Ordering::Relaxed);
        if let Kind::Number { apply: Some(apply), .. } = self.kind {
            apply(usize::try_from(value).unwrap_or_default());
        }
    }

    fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }

    /// The value that a word of loadmodule stands for.
    fn parse(&self, word: &[u8]) -> Option<i64> {
        match self.kind {
            Kind::Switch | Kind::SwitchAtLoad => match word.to_ascii_lowercase().as_slice() {
                b"yes" => Some(1),
                b"no" => Some(0),
                _ => None,
            },
            Kind::Number { max, .. } => {
                let number = integer(Some(word), 0, max, Error::Bug).ok()?;
                i64::try_from(number).ok()
            }
        }
    }

    /// What a value may be, in words.
    fn values(&self) -> String {
        match self.kind {
            Kind::Switch | Kind::SwitchAtLoad => "yes or no".to_owned(),
            Kind::Number { max, .. } => format!("an integer from 0 to {max}"),
        }
    }

    /// Its whole name.
    fn full_name(&self) -> String {
        format!("rl.{}", self.name.to_string_lossy())
    }
}

static CLIENT_TIME: Setting = Setting::new(c"client-time", Kind::Switch, 0);
static COMPAT_CELL: Setting = Setting::new(c"compat-cell", Kind::SwitchAtLoad, 0);
static TOPDENIED_SIZE: Setting = Setting::new(
    c"topdenied-size",
    Kind::Number { max: MAX_TOPDENIED_SIZE, apply: Some(watch::set_topdenied_size) },
    256,
);
static LOG_MAX_LEN: Setting = Setting::new(
    c"log-max-len",
    Kind::Number { max: MAX_LOG_LEN, apply: Some(watch::set_log_max_len) },
    128,
);
static SLIDING_MAX_BYTES: Setting = Setting::new(
    c"sliding-max-bytes",
    Kind::Number { max: MAX_SLIDING_BYTES, apply: None },
    64 << 20,
);

static SETTINGS: [&Setting; 5] =
    [&CLIENT_TIME, &COMPAT_CELL, &TOPDENIED_SIZE, &LOG_MAX_LEN, &SLIDING_MAX_BYTES];

/// `rl.client-time`: whether callers may bring their own clock with AT.
pub fn client_time() -> bool {
    CLIENT_TIME.get() != 0
}

/// `rl.compat-cell`: whether CL.THROTTLE is there too.
pub fn compat_cell() -> bool {
    COMPAT_CELL.get() != 0
}

/// `rl.sliding-max-bytes`: how many bytes the hits of one window may take; 0 for any.
pub fn sliding_max_bytes() -> u64 {
    u64::try_from(SLIDING_MAX_BYTES.get()).unwrap_or_default()
}

/// Registers all options, with loadmodule's arguments as their defaults, and applies redis.conf.
///
/// # Errors
/// The line for the log, where an argument or a value is wrong or the server refuses an option.
pub fn register(ctx: *mut raw::RedisModuleCtx, arguments: &[&[u8]]) -> Result<(), String> {
    let given = parse(arguments)?;
    for (setting, given) in SETTINGS.iter().zip(given) {
        let default = given.unwrap_or(setting.default);
        setting.set(default);
        if !register_one(ctx, setting, default) {
            return Err(format!("the server refuses the option {}", setting.full_name()));
        }
    }
    // SAFETY: called once, in OnLoad, after all options are registered.
    if unsafe { api!(RedisModule_LoadConfigs(ctx)) } != 0 {
        return Err("a value of an option rl.* in the server's configuration is wrong".to_owned());
    }
    Ok(())
}

fn register_one(
    ctx: *mut raw::RedisModuleCtx,
    setting: &'static Setting,
    default: c_longlong,
) -> bool {
    let flags = match setting.kind {
        Kind::SwitchAtLoad => raw::REDISMODULE_CONFIG_IMMUTABLE,
        _ => raw::REDISMODULE_CONFIG_DEFAULT,
    };
    let data = ptr::from_ref(setting).cast_mut().cast();
    // SAFETY: the name is a C string, the callbacks live as long as the module, and the private
    // data is the static setting that they take it for.
    let status = unsafe {
        match setting.kind {
            Kind::Switch | Kind::SwitchAtLoad => api!(RedisModule_RegisterBoolConfig(
                ctx,
                setting.name.as_ptr(),
                c_int::from(default != 0),
                flags,
                Some(get_switch),
                Some(set_switch),
                None,
                data,
            )),
            Kind::Number { max, .. } => api!(RedisModule_RegisterNumericConfig(
                ctx,
                setting.name.as_ptr(),
                default,
                raw::REDISMODULE_CONFIG_DEFAULT,
                0,
                c_longlong::try_from(max).unwrap_or_default(),
                Some(get_number),
                Some(set_number),
                None,
                data,
            )),
        }
    };
    status == 0
}

/// What the arguments say of each option.
fn parse(arguments: &[&[u8]]) -> Result<[Option<i64>; SETTINGS.len()], String> {
    let mut given = [None; SETTINGS.len()];
    for pair in arguments.chunks(2) {
        let word = pair.first().copied().unwrap_or_default();
        let shown = String::from_utf8_lossy(word);
        let named = |setting: &&Setting| word.eq_ignore_ascii_case(setting.full_name().as_bytes());
        let found = SETTINGS.iter().zip(&mut given).find(|(setting, _)| named(setting));
        let Some((setting, slot)) = found else {
            return Err(format!("unknown loadmodule argument '{shown}', expected {}", known()));
        };
        let values = setting.values();
        let Some(&word) = pair.get(1) else {
            return Err(format!("loadmodule argument {shown} needs a value: {values}"));
        };
        let Some(value) = setting.parse(word) else {
            let word = String::from_utf8_lossy(word);
            return Err(format!("loadmodule argument {shown} must be {values}, not '{word}'"));
        };
        if slot.replace(value).is_some() {
            return Err(format!("loadmodule argument {shown} is given twice"));
        }
    }
    Ok(given)
}

/// All options, for a message.
fn known() -> String {
    SETTINGS.map(|setting| format!("{} ({})", setting.full_name(), setting.values())).join(", ")
}

/// The setting behind the private data of an option.
///
/// # Safety
/// `data` is what the option was registered with.
unsafe fn setting(data: *mut c_void) -> &'static Setting {
    // SAFETY: an option is registered with a static setting.
    unsafe { &*data.cast::<Setting>() }
}

unsafe extern "C" fn get_switch(_name: *const c_char, data: *mut c_void) -> c_int {
    // SAFETY: the server hands over what the option was registered with.
    c_int::from(unsafe { setting(data) }.get() != 0)
}

unsafe extern "C" fn set_switch(
    _name: *const c_char,
    value: c_int,
    data: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: as above.
    unsafe { setting(data) }.set(i64::from(value != 0));
    0
}

unsafe extern "C" fn get_number(_name: *const c_char, data: *mut c_void) -> c_longlong {
    // SAFETY: as above.
    unsafe { setting(data) }.get()
}

unsafe extern "C" fn set_number(
    _name: *const c_char,
    value: c_longlong,
    data: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: as above.
    unsafe { setting(data) }.set(value);
    0
}
