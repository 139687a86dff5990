//! `RL.ALL`: several limits at once, on a key each. All of them allow and all take, or none takes.
//!
//! Each is decided and written like that of a command of its own. All are decided before any is
//! written, and what is written is one transaction for replicas and the append-only file.

use std::ffi::c_int;

use redis_module::raw;

use super::clock::Time;
use super::command::notify;
use super::keyspace::Slot;
use super::registry::UPDATE;
use super::server::{Call, KeyName, handle};
use super::value::Stored;
use super::watch;
use crate::algorithm::leaky_bucket::LeakyBucket;
use crate::algorithm::sliding_window::SlidingWindow;
use crate::algorithm::token_bucket::TokenBucket;
use crate::algorithm::{Clock, Decision, Request, Verdict};
use crate::args::{
    self,
    rules::{self, RuleError},
};
use crate::error::Error;
use crate::reply::{self, Reply};

/// Words before the first key: the command and numkeys.
const BEFORE_KEYS: usize = 2;

/// `RL.ALL`.
pub unsafe extern "C" fn all(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    handle(ctx, argv, argc, |call| {
        if call.asks_for_keys() {
            tell_keys(call);
            return Ok(());
        }
        watch::counting_errors(&watch::ALL, run)(call)
    })
}

/// Tells the server where the keys are. A cluster asks the command for them: it reads no key
/// specification to find the slot of a call.
fn tell_keys(call: &Call<'_>) {
    if let Ok(keys) = numkeys(call) {
        call.tell_keys(BEFORE_KEYS..BEFORE_KEYS + keys, UPDATE);
    }
}

fn numkeys(call: &Call<'_>) -> Result<usize, Error> {
    rules::numkeys(call.argument(1), call.len().saturating_sub(BEFORE_KEYS))
}

fn run(call: &Call<'_>) -> Result<(), RuleError> {
    let keys = numkeys(call)?;
    let asked = rules::rules(keys, call.words_from(BEFORE_KEYS + keys))?;
    let names: Vec<_> = call.key_names(BEFORE_KEYS).take(keys).collect();
    all_differ(&names)?;
    let time = Time::read(asked.at_ms)?;

    let mut open = decide(call, &names, &asked.rules, time.clock)?;
    let over = open.iter().position(|rule| rule.decision().verdict != Verdict::Allowed);
    if over.is_some() {
        for (index, rule) in open.iter_mut().enumerate() {
            rule.stand_back(time.clock).map_err(RuleError::of(index))?;
        }
    }
    // Memory for all, before the first is written.
    for (index, rule) in open.iter().enumerate() {
        rule.ask_for_memory(call).map_err(RuleError::of(index))?;
    }
    let written: Result<Vec<_>, _> = open.into_iter().map(|rule| rule.write(call, &time)).collect();
    let written = written?;
    tell(call, &written, over, &time)?;
    answer(call, &written, over);
    Ok(())
}

/// # Errors
/// [`Error::SameKey`], where two keys are the same.
fn all_differ(names: &[KeyName<'_>]) -> Result<(), Error> {
    let mut sorted: Vec<_> = names.iter().map(|name| name.bytes()).collect();
    sorted.sort_unstable();
    let twice = sorted.windows(2).any(|pair| pair.first() == pair.last());
    if twice { Err(Error::SameKey) } else { Ok(()) }
}

/// Opens all keys and decides all rules.
fn decide<'a>(
    call: &Call<'a>,
    names: &[KeyName<'a>],
    asked: &[rules::Rule],
    clock: Clock,
) -> Result<Vec<Box<dyn Open<'a> + 'a>>, RuleError> {
    let decide_one = |(index, (&name, rule)): (usize, (&KeyName<'a>, &rules::Rule))| {
        let decided = match rule {
            rules::Rule::TokenBucket(asked) => open::<TokenBucket>(call, name, asked, clock),
            rules::Rule::LeakyBucket(asked) => open::<LeakyBucket>(call, name, asked, clock),
            rules::Rule::SlidingWindow(asked) => open::<SlidingWindow>(call, name, asked, clock),
        };
        decided.map_err(RuleError::of(index))
    };
    names.iter().zip(asked).enumerate().map(decide_one).collect()
}

fn open<'a, S: Stored>(
    call: &Call<'a>,
    name: KeyName<'a>,
    asked: &args::Call<S::Quota>,
    clock: Clock,
) -> Result<Box<dyn Open<'a> + 'a>, Error> {
    let &args::Call { quota, request, .. } = asked;
    let slot = Slot::<S>::open(call, name)?;
    let (decision, change) = slot.decide(&quota, &request, clock)?;
    Ok(Box::new(Rule { slot, quota, request, decision, change }))
}

/// A limit on an open key, with what was decided and is still to be written.
struct Rule<'a, S: Stored> {
    slot: Slot<'a, S>,
    quota: S::Quota,
    request: Request,
    decision: Decision,
    change: Option<S::Change>,
}

/// A rule of any limiter.
trait Open<'a> {
    fn decision(&self) -> &Decision;

    /// Takes nothing after all, since another rule denies: the answer becomes that of a look, and
    /// the change that of a call that takes nothing.
    fn stand_back(&mut self, clock: Clock) -> Result<(), Error>;

    fn ask_for_memory(&self, call: &Call<'_>) -> Result<(), Error>;

    fn write(self: Box<Self>, call: &Call<'_>, time: &Time) -> Result<Written<'a>, Error>;
}

/// A rule that has been written, as far as it is to be told.
struct Written<'a> {
    name: KeyName<'a>,
    request: Request,
    decision: Decision,
    reply: Reply,
}

impl<'a, S: Stored> Open<'a> for Rule<'a, S> {
    fn decision(&self) -> &Decision {
        &self.decision
    }

    fn stand_back(&mut self, clock: Clock) -> Result<(), Error> {
        if self.decision.verdict == Verdict::Allowed {
            let decide = |request| self.slot.decide(&self.quota, &request, clock);
            let (decision, _) = decide(Request { peek: true, ..self.request })?;
            let (_, change) = decide(Request { cost: 0, ..self.request })?;
            (self.decision, self.change) = (decision, change);
        }
        Ok(())
    }

    fn ask_for_memory(&self, call: &Call<'_>) -> Result<(), Error> {
        self.change.as_ref().map_or(Ok(()), |change| self.slot.ask_for_memory(call, change))
    }

    fn write(self: Box<Self>, call: &Call<'_>, time: &Time) -> Result<Written<'a>, Error> {
        let Rule { slot, request, decision, change, .. } = *self;
        let name = slot.name();
        if let Some(change) = change {
            slot.write(call, &change, time.expire_ms(decision.reset_after_us))?;
        }
        Ok(Written { name, request, decision, reply: Reply::of::<S>(&decision) })
    }
}

/// Tells who wants to know: of each key that takes, or of the first rule that denies alone. The
/// call counts once, as what that rule or the first one that takes says.
fn tell(
    call: &Call<'_>,
    written: &[Written<'_>],
    over: Option<usize>,
    time: &Time,
) -> Result<(), Error> {
    let told = match over {
        Some(over) => written.get(over).ok_or(Error::Bug)?,
        None => {
            written.iter().for_each(|rule| {
                notify(call, rule.name, &rule.request, &rule.decision);
            });
            let takes = |rule: &&Written<'_>| rule.request.cost > 0;
            written.iter().find(takes).or(written.first()).ok_or(Error::Bug)?
        }
    };
    watch::decided(call, &watch::ALL, told.name, &told.request, &told.decision, time);
    if over.is_some() {
        notify(call, told.name, &told.request, &told.decision);
    }
    Ok(())
}

/// Allowed, the first rule that does not allow or -1, the longest wait, and the reply of each rule.
fn answer(call: &Call<'_>, written: &[Written<'_>], over: Option<usize>) {
    let allowed = over.and_then(|over| written.get(over)).or(written.first());
    let allowed = allowed.and_then(|rule| rule.reply.as_slice().first().copied());
    let over = over.and_then(|over| i64::try_from(over).ok());
    call.begin_array(3 + written.len());
    call.reply_integer(allowed.unwrap_or_default());
    call.reply_integer(over.unwrap_or(-1));
    call.reply_integer(reply::longest(written.iter().map(|rule| &rule.decision)));
    for rule in written {
        call.reply_integers(rule.reply.as_slice());
    }
}
