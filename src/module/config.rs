//! The configuration: one table of what can be set, for CONFIG, redis.conf and loadmodule alike.
//!
//! loadmodule arguments are pairs `rl.NAME value`. They become the defaults of the registered
//! options, so a line in redis.conf beats them and CONFIG REWRITE writes what differs from them.
//! Any other word or value refuses to load, with one line in the log.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

use super::server::api;

/// An option that is yes or no.
struct Switch {
    /// Its name behind the module's, `rl.`.
    name: &'static CStr,
    default: bool,
    value: AtomicBool,
}

static CLIENT_TIME: Switch =
    Switch { name: c"client-time", default: false, value: AtomicBool::new(false) };

static SWITCHES: [&Switch; 1] = [&CLIENT_TIME];

/// `rl.client-time`: whether callers may bring their own clock with AT.
pub fn client_time() -> bool {
    CLIENT_TIME.value.load(Ordering::Relaxed)
}

/// Registers all options, with loadmodule's arguments as their defaults, and applies redis.conf.
///
/// # Errors
/// The line for the log, where an argument or a value is wrong or the server refuses an option.
pub fn register(ctx: *mut raw::RedisModuleCtx, arguments: &[&[u8]]) -> Result<(), String> {
    let given = parse(arguments)?;
    for (switch, given) in SWITCHES.iter().zip(given) {
        let default = given.unwrap_or(switch.default);
        switch.value.store(default, Ordering::Relaxed);
        // SAFETY: the name is a C string, the callbacks live as long as the module, and the
        // private data is the static option that they take it for.
        let status = unsafe {
            api!(RedisModule_RegisterBoolConfig(
                ctx,
                switch.name.as_ptr(),
                c_int::from(default),
                raw::REDISMODULE_CONFIG_DEFAULT,
                Some(get),
                Some(set),
                None,
                ptr::from_ref::<Switch>(switch).cast_mut().cast(),
            ))
        };
        if status != 0 {
            return Err(format!(
                "the server refuses the option rl.{}",
                switch.name.to_string_lossy()
            ));
        }
    }
    // SAFETY: called once, in OnLoad, after all options are registered.
    if unsafe { api!(RedisModule_LoadConfigs(ctx)) } != 0 {
        return Err("a value of an option rl.* in the server's configuration is wrong".to_owned());
    }
    Ok(())
}

/// What the arguments say of each option.
fn parse(arguments: &[&[u8]]) -> Result<[Option<bool>; SWITCHES.len()], String> {
    let names = || {
        let name = |switch: &&Switch| format!("rl.{} yes|no", switch.name.to_string_lossy());
        SWITCHES.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let mut given = [None; SWITCHES.len()];
    for pair in arguments.chunks(2) {
        let word = pair.first().copied().unwrap_or_default();
        let shown = String::from_utf8_lossy(word);
        let named = |switch: &&Switch| {
            let name = [b"rl.", switch.name.to_bytes()].concat();
            word.eq_ignore_ascii_case(&name)
        };
        let place = SWITCHES.iter().position(named);
        let Some(slot) = place.and_then(|place| given.get_mut(place)) else {
            return Err(format!("unknown loadmodule argument '{shown}', expected {}", names()));
        };
        let value = match pair.get(1) {
            Some(value) if value.eq_ignore_ascii_case(b"yes") => true,
            Some(value) if value.eq_ignore_ascii_case(b"no") => false,
            Some(value) => {
                let value = String::from_utf8_lossy(value);
                return Err(format!(
                    "loadmodule argument {shown} must be yes or no, not '{value}'"
                ));
            }
            None => return Err(format!("loadmodule argument {shown} needs a value: yes or no")),
        };
        if slot.replace(value).is_some() {
            return Err(format!("loadmodule argument {shown} is given twice"));
        }
    }
    Ok(given)
}

unsafe extern "C" fn get(_name: *const c_char, option: *mut c_void) -> c_int {
    // SAFETY: the private data of the option is the static `Switch` it was registered with.
    let switch = unsafe { &*option.cast::<Switch>() };
    c_int::from(switch.value.load(Ordering::Relaxed))
}

unsafe extern "C" fn set(
    _name: *const c_char,
    value: c_int,
    option: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the private data of the option is the static `Switch` it was registered with.
    let switch = unsafe { &*option.cast::<Switch>() };
    switch.value.store(value != 0, Ordering::Relaxed);
    0
}
