//! `WAIT`: clients whose reply is held until their request may go.
//!
//! The decision is made, stored, replicated, counted and published at the call; only the reply is
//! held. One timer of the operating system, which counts elapsed time and not the time of day, is
//! set to the instant at which the next client is due, so that nothing is done while all wait.
//!
//! A blocked client is the server's until its handle is given back, exactly once, by
//! `RedisModule_UnblockClient`: when it is due, and also after a timeout, an error or the end of
//! its connection, or the handle leaks. So a handle is in [`Waiting::queue`] as long as it is to
//! be given back, and whoever takes it out of there gives it back.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis_module::raw;

use super::clock::system_us;
use super::server::{self, Call, api, handle};
use crate::algorithm::leaky_bucket::LeakyBucket;
use crate::algorithm::{Decision, Request, Verdict};
use crate::departures::{Departures, Offset};
use crate::error::Error;
use crate::reply::Reply;

/// Where the server lets no client block: in transactions and scripts, for other modules, and for
/// what a primary or the append-only file says.
const NO_BLOCKING: u32 = raw::REDISMODULE_CTX_FLAGS_MULTI
    | raw::REDISMODULE_CTX_FLAGS_LUA
    | raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING
    | raw::REDISMODULE_CTX_FLAGS_REPLICATED
    | raw::REDISMODULE_CTX_FLAGS_LOADING;

/// How long the end of an event loop's turn may be away before the timer is asked again.
const TURN_US: u64 = 10_000;

/// All who wait, and the timer that wakes them. Only the server's main thread is ever here, so
/// nobody waits for the lock.
struct Waiting {
    queue: Departures<Handle, Waiter>,
    offset: Offset,
    alarm: Option<Alarm>,
    /// The log has been told that there is no timer.
    warned: bool,
    /// The timer has fired, and those who are due go at the end of the event loop's turn.
    leaving: bool,
}

static WAITING: Mutex<Waiting> = Mutex::new(Waiting {
    queue: Departures::new(),
    offset: Offset::new(),
    alarm: None,
    warned: false,
    leaving: false,
});

fn waiting() -> MutexGuard<'static, Waiting> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The server's handle of a blocked client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Handle(NonNull<raw::RedisModuleBlockedClient>);

// SAFETY: the handle is a name that is compared, and is handed to the server by its main thread
// alone, which runs all commands and callbacks.
unsafe impl Send for Handle {}

impl Handle {
    /// Gives the handle back, and the client its reply where it still waits for one. The server
    /// calls back later, from its event loop.
    fn unblock(self, due: Option<Box<Waiter>>) {
        let due = due.map_or(ptr::null_mut(), Box::into_raw);
        // SAFETY: the handle was taken out of the queue, so it is given back for the first time.
        // The server hands `due` to `free`, whether or not the client is still there.
        unsafe { api!(RedisModule_UnblockClient(self.0.as_ptr(), due.cast())) };
    }
}

/// What a held client will be told.
struct Waiter {
    decision: Decision,
    /// When the decision was made, by the clock of [`steady_us`].
    since_us: u64,
}

impl Waiter {
    /// Replies with the numbers of the decision, from which the time waited is gone. The delay is
    /// what is left of it: nothing, for whoever is due.
    fn reply(&self, call: &Call<'_>) {
        let waited_us = steady_us().saturating_sub(self.since_us);
        let decision = self.decision.after_waiting(waited_us);
        call.reply_integers(Reply::of::<LeakyBucket>(&decision).as_slice());
    }
}

/// Holds the reply to a call with `WAIT`, if its request is to be held and its client may block;
/// false where the reply is to be given at once.
// Out of the way of all calls without WAIT.
#[cold]
#[inline(never)]
pub fn hold(call: &Call<'_>, request: &Request, decision: &Decision, server_us: u64) -> bool {
    // Only COST 0 is ever allowed with a longer delay than it accepts.
    let accepts_us = request.max_delay_ms.unwrap_or_default().saturating_mul(1000);
    let is_held = decision.verdict == Verdict::Allowed
        && (1..=accepts_us).contains(&decision.delay_us)
        && call.flags() & NO_BLOCKING == 0;
    if !is_held || !has_alarm(call) {
        return false;
    }
    let Some(handle) = block(call) else { return false };
    let mut waiting = waiting();
    let (read_wall_us, read_steady_us) = both_clocks_us();
    let since_us = waiting.offset.steady_us(server_us, read_wall_us, read_steady_us);
    let due_us = since_us.saturating_add(decision.delay_us);
    waiting.queue.add(handle, due_us, Waiter { decision: *decision, since_us });
    if waiting.queue.next_us() == Some(due_us) {
        waiting.set_alarm();
    }
    true
}

fn block(call: &Call<'_>) -> Option<Handle> {
    // SAFETY: the context is that of a command whose client may block, and the callbacks live as
    // long as the module. Without a timeout in ms, which would follow the time of day, the callback
    // for it is called by CLIENT UNBLOCK alone.
    unsafe {
        let blocked = api!(RedisModule_BlockClient(
            call.context(),
            Some(on_due),
            Some(on_timeout),
            Some(free),
            0,
        ));
        let handle = Handle(NonNull::new(blocked)?);
        api!(RedisModule_SetDisconnectCallback(blocked, Some(on_disconnect)));
        Some(handle)
    }
}

/// The client is due: its reply.
unsafe extern "C" fn on_due(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    handle(ctx, argv, argc, |call| -> Result<(), Error> {
        // SAFETY: the context is that of a reply callback. The pointer is the one that was handed
        // over when the client was unblocked, which `free` takes back only after this.
        let waiter =
            unsafe { api!(RedisModule_GetBlockedClientPrivateData(ctx)).cast::<Waiter>().as_ref() };
        waiter.ok_or(Error::Bug)?.reply(call);
        Ok(())
    })
}

/// CLIENT UNBLOCK: the reply before the client is due.
unsafe extern "C" fn on_timeout(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    handle(ctx, argv, argc, |call| -> Result<(), Error> {
        // SAFETY: the context is that of a timeout callback.
        let blocked = unsafe { api!(RedisModule_GetBlockedClientHandle(ctx)) };
        leave(blocked).ok_or(Error::Bug)?.reply(call);
        Ok(())
    })
}

/// The client is gone, or was told an error by the server.
unsafe extern "C" fn on_disconnect(
    _ctx: *mut raw::RedisModuleCtx,
    blocked: *mut raw::RedisModuleBlockedClient,
) {
    guard("the end of a connection", || {
        // Whoever was due at this moment is out of the queue, and given back, already.
        leave(blocked);
    });
}

/// Lets a client leave before it is due, and gives its handle back.
fn leave(blocked: *mut raw::RedisModuleBlockedClient) -> Option<Waiter> {
    let handle = Handle(NonNull::new(blocked)?);
    let waiter = waiting().queue.take(handle)?;
    handle.unblock(None);
    Some(waiter)
}

/// Frees what the handle of a blocked client was given back with.
unsafe extern "C" fn free(_ctx: *mut raw::RedisModuleCtx, due: *mut c_void) {
    guard("freeing a blocked client", || {
        if !due.is_null() {
            // SAFETY: the pointer is that of `unblock`, and the server hands it over once.
            drop(unsafe { Box::from_raw(due.cast::<Waiter>()) });
        }
    });
}

/// The timer has fired.
///
/// Those who are due do not leave here but at the end of this turn of the event loop. Between the
/// return of their handles and their replies no command may run: a CLIENT UNBLOCK that hit a client
/// there would leave it without a reply on Redis 7.0, and end the server on 7.2.
unsafe extern "C" fn on_alarm(fd: c_int, _data: *mut c_void, _mask: c_int) {
    let mut firings = 0_u64;
    // Whatever happens below, the event loop must not find the timer as it is and turn on the spot.
    // SAFETY: the descriptor is the timer's, which is open for ever and never makes a reader wait,
    // and the number of its firings fits where it is written.
    unsafe { libc::read(fd, (&raw mut firings).cast(), size_of::<u64>()) };
    guard("the timer", || {
        let late = {
            let mut waiting = waiting();
            let Some(alarm) = &waiting.alarm else { return };
            let again = alarm.set(steady_us().saturating_add(TURN_US));
            debug_assert!(again.is_ok());
            let context = alarm.context;
            let late = mem::replace(&mut waiting.leaving, true);
            if !late {
                // SAFETY: the context is detached from clients and lives for ever. A timer of 0 ms
                // is called after the commands of this turn.
                unsafe {
                    api!(RedisModule_CreateTimer(context, 0, Some(on_turn), ptr::null_mut()))
                };
            }
            late
        };
        // The server's timers follow the time of day, which may have been set back: then the call
        // at the end of the turn comes much later, and finds nothing to do.
        if late {
            let_go();
        }
    });
}

/// The end of the event loop's turn in which the timer fired.
unsafe extern "C" fn on_turn(_ctx: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    guard("leaving", let_go);
}

/// Lets all go who are due, in their order, and sets the timer for the next.
fn let_go() {
    waiting().leaving = false;
    let now_us = steady_us();
    loop {
        let due = waiting().queue.pop_due(now_us);
        let Some((handle, waiter)) = due else { break };
        handle.unblock(Some(Box::new(waiter)));
    }
    waiting().set_alarm();
}

/// The timer that wakes the server, and what it needs then.
struct Alarm {
    timer: OwnedFd,
    context: *mut raw::RedisModuleCtx,
}

// SAFETY: the context is used by the server's main thread alone.
unsafe impl Send for Alarm {}

/// Whether there is a timer; the first who waits makes it, and it stays. Without one nobody can
/// wait: the log tells why, once.
fn has_alarm(call: &Call<'_>) -> bool {
    let mut waiting = waiting();
    if waiting.alarm.is_none() {
        match Alarm::new(call) {
            Ok(alarm) => waiting.alarm = Some(alarm),
            Err(error) if !waiting.warned => {
                waiting.warned = true;
                let text = format!("WAIT answers at once, there is no timer: {error}");
                server::warn(call.context(), &text);
            }
            Err(_) => {}
        }
    }
    waiting.alarm.is_some()
}

impl Waiting {
    /// Sets the timer to the next who is due.
    fn set_alarm(&mut self) {
        let (Some(alarm), Some(next_us)) = (&self.alarm, self.queue.next_us()) else { return };
        // While some are leaving it is set already, and will be again when they have left.
        if !self.leaving {
            let set = alarm.set(next_us);
            debug_assert!(set.is_ok());
        }
    }
}

impl Alarm {
    fn new(call: &Call<'_>) -> io::Result<Alarm> {
        // SAFETY: the call takes two numbers; what it returns is checked.
        let fd = unsafe {
            libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and is owned by nobody else.
        let timer = unsafe { OwnedFd::from_raw_fd(fd) };
        let readable = c_int::try_from(raw::REDISMODULE_EVENTLOOP_READABLE).unwrap_or_default();
        // SAFETY: the descriptor is open for as long as the module is loaded, which is for ever,
        // and the callback lives as long. The context is that of a command.
        let context = unsafe {
            let status = api!(RedisModule_EventLoopAdd(
                timer.as_raw_fd(),
                readable,
                Some(on_alarm),
                ptr::null_mut(),
            ));
            if status != 0 {
                return Err(io::Error::last_os_error());
            }
            api!(RedisModule_GetDetachedThreadSafeContext(call.context()))
        };
        Ok(Alarm { timer, context })
    }

    /// Lets the timer fire at `at_us`, once, instead of whenever it was set to; a firing that was
    /// not noticed yet is forgotten.
    fn set(&self, at_us: u64) -> io::Result<()> {
        let seconds = i64::try_from(at_us / 1_000_000).unwrap_or(i64::MAX);
        let nanoseconds = i64::try_from(at_us % 1_000_000 * 1000).unwrap_or_default();
        // All zero would turn it off.
        let at = libc::timespec { tv_sec: seconds, tv_nsec: nanoseconds.max(1) };
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = libc::itimerspec { it_interval: never, it_value: at };
        let absolute = libc::TFD_TIMER_ABSTIME;
        // SAFETY: the descriptor is open, the time outlives the call, and nothing is written back.
        let status = unsafe {
            libc::timerfd_settime(
                self.timer.as_raw_fd(),
                absolute,
                &raw const spec,
                ptr::null_mut(),
            )
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// The clock by which the timer goes, in µs: nobody sets it.
fn steady_us() -> u64 {
    system_us(libc::CLOCK_MONOTONIC)
}

/// The time of day and that of [`steady_us`], read at one instant: again where the machine did
/// something else in between.
fn both_clocks_us() -> (u64, u64) {
    const TRIES: usize = 4;
    let mut read = (0, 0);
    for _ in 0..TRIES {
        let before_us = steady_us();
        read = (system_us(libc::CLOCK_REALTIME), steady_us());
        if read.1.saturating_sub(before_us) <= Offset::TREMOR_US / 2 {
            break;
        }
    }
    read
}

/// Runs a callback that cannot reply: a panic, which would end the server, becomes a line in its
/// log.
fn guard(what: &str, body: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(body)).is_err() {
        let text = format!("bug in the module rl: {what} panicked, please report it");
        server::warn(ptr::null_mut(), &text);
    }
}
