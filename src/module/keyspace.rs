//! The keys of the limiters: opened and checked, written with their expiry, and the effect sent to
//! replicas and the append-only file.
//!
//! A write is always this sequence: change the value in place (or create it), set the absolute
//! expiry, replicate the result, tell WATCH. A call that writes nothing does none of it. Whoever
//! writes has asked for memory before, where it is needed.

use std::ffi::c_void;

use super::config;
use super::listeners;
use super::memory;
use super::server::{Call, Content, Key, KeyName};
use super::value::Stored;
use crate::algorithm::leaky_bucket::LeakyBucket;
use crate::algorithm::sliding_window::SlidingWindow;
use crate::algorithm::token_bucket::TokenBucket;
use crate::algorithm::{Clock, Decision, Request};
use crate::codec::{self, Buffer};
use crate::error::Error;

/// A key of one limiter, open.
pub struct Slot<'a, S: Stored> {
    key: Key<'a>,
    state: Option<S::View<'a>>,
}

impl<'a, S: Stored> Slot<'a, S> {
    /// Opens a key of the call to write.
    ///
    /// # Errors
    /// [`Error::WrongType`], where it holds anything but a state of this limiter.
    pub fn open(call: &Call<'a>, name: KeyName<'a>) -> Result<Slot<'a, S>, Error> {
        Self::of(call.open_key(name, true))
    }

    /// Takes the state of an open key.
    ///
    /// # Errors
    /// [`Error::WrongType`], where it holds anything but a state of this limiter.
    pub fn of(key: Key<'a>) -> Result<Slot<'a, S>, Error> {
        let state = match key.content() {
            Content::Empty => None,
            Content::Module(data_type) if data_type == S::data_type().handle() => {
                // SAFETY: a value of this type is one of S. It stays where it is while the key is
                // open, and this slot, which owns the key, is the only one to use it.
                Some(unsafe { S::view(key.value()) })
            }
            _ => return Err(Error::WrongType),
        };
        Ok(Slot { key, state })
    }

    /// The state that the key holds.
    pub fn state(&self) -> Option<&S::State> {
        self.state.as_deref()
    }

    /// The name of the key.
    pub fn name(&self) -> KeyName<'a> {
        self.key.name()
    }

    /// Decides a request: the answer, and what is to be written.
    ///
    /// # Errors
    /// Those of [`decide`](crate::algorithm::Limiter::decide).
    pub fn decide(
        &self,
        quota: &S::Quota,
        request: &Request,
        clock: Clock,
    ) -> Result<(Decision, Option<S::Change>), Error> {
        let (decision, change) = S::decide(quota, self.state(), request, clock)?;
        let change = if request.peek { change } else { self.change_or_mend(change) };
        Ok((decision, change))
    }

    /// Asks for memory, where a change takes any that the key does not have yet.
    ///
    /// # Errors
    /// [`Error::TooManyBytes`], where the key may not have more, and [`Error::OutOfMemory`], where
    /// the server has none.
    pub fn ask_for_memory(&self, call: &Call<'_>, change: &S::Change) -> Result<(), Error> {
        if let Some(state) = self.state() {
            if !S::grows(state, change) {
                return Ok(());
            }
            let max = config::sliding_max_bytes();
            if max > 0 && S::bytes_after(state, change) > max {
                return Err(Error::TooManyBytes(max));
            }
        }
        memory::ask(call, self.name())
    }

    /// The change that a call makes: its own, or none but an expiry for a key that has lost it.
    pub fn change_or_mend(&self, change: Option<S::Change>) -> Option<S::Change> {
        match &self.state {
            Some(state) if change.is_none() && self.key.expire_ms().is_none() => {
                Some(S::no_change(state))
            }
            _ => change,
        }
    }

    /// Writes a change, with the expiry of the state that it leaves, and sends it on.
    ///
    /// # Errors
    /// [`Error::Bug`], where the server does not take what it always takes.
    pub fn write(
        mut self,
        call: &Call<'_>,
        change: &S::Change,
        expire_ms: i64,
    ) -> Result<(), Error> {
        self.apply(change)?;
        self.key.set_expire_ms(expire_ms);
        if listeners::nobody() {
            call.count_change();
        } else {
            let mut payload = Buffer::new();
            codec::encode_expiry(Some(expire_ms), &mut payload);
            S::encode_change(change, &mut payload);
            call.replicate_effect(self.name(), payload.bytes());
        }
        call.signal_modified(self.name());
        Ok(())
    }

    /// Writes what a primary or the append-only file says, as it says it.
    ///
    /// # Errors
    /// [`Error::Payload`] for a change that was not made for the state of the key.
    pub fn follow(mut self, effect: Effect<S>, expire_ms: Option<i64>) -> Result<(), Error> {
        match effect {
            // What it leaves could be written to a file and not be read again.
            Effect::Change(change) if !self.state().is_none_or(|state| S::fits(state, &change)) => {
                return Err(Error::Payload);
            }
            Effect::Change(change) => self.apply(&change)?,
            Effect::State(state) => self.replace(state)?,
        }
        if let Some(expire_ms) = expire_ms {
            self.key.set_expire_ms(expire_ms);
        }
        Ok(())
    }

    fn apply(&mut self, change: &S::Change) -> Result<(), Error> {
        let Some(view) = &mut self.state else { return self.create(S::create(change)) };
        // SAFETY: the view is that of the key's value, which nobody else uses while it is open.
        let moved = unsafe { S::change(self.key.value(), view, change) };
        self.state = None;
        self.take_place(moved)
    }

    fn replace(&mut self, state: S::State) -> Result<(), Error> {
        let Some(view) = &mut self.state else { return self.create(state) };
        // SAFETY: the view is that of the key's value, which nobody else uses while it is open.
        let moved = unsafe { S::replace(self.key.value(), view, state) };
        self.state = None;
        self.take_place(moved)
    }

    /// Puts a new value in place of the old one, if there is one; the time to live stays.
    fn take_place(&self, moved: Option<*mut c_void>) -> Result<(), Error> {
        let Some(value) = moved else { return Ok(()) };
        let old = self.key.replace_value(S::data_type().handle(), value).ok_or(Error::Bug)?;
        // SAFETY: the server has given the old value up, which is one of S.
        unsafe { S::free(old) };
        Ok(())
    }

    fn create(&self, state: S::State) -> Result<(), Error> {
        let stored = self.key.set_value(S::data_type().handle(), S::new_value(state));
        if stored { Ok(()) } else { Err(Error::Bug) }
    }
}

/// What the internal command carries.
pub enum Effect<S: Stored> {
    /// A whole state.
    State(S::State),
    /// What a call did to the state.
    Change(S::Change),
}

impl<S: Stored> Effect<S> {
    /// Reads what follows the expiry in the internal command, if it is of this limiter.
    pub fn decode(payload: &[u8]) -> Option<Result<Effect<S>, Error>> {
        match payload.get(1) {
            Some(&kind) if kind == S::STATE => Some(S::decode_state(payload).map(Effect::State)),
            Some(&kind) if kind == S::CHANGE => Some(S::decode_change(payload).map(Effect::Change)),
            _ => None,
        }
    }
}

/// What to do with a key whatever limiter it belongs to.
pub trait Visit {
    /// Is called with the open key of the limiter whose state it holds.
    fn visit<S: Stored>(self, slot: Slot<'_, S>) -> Result<(), Error>;
}

/// Opens the key of the call, to look or to write, and hands it to `visit`; false if it is absent.
///
/// # Errors
/// [`Error::WrongType`], where the key holds anything but a state of a limiter.
pub fn visit(call: &Call<'_>, write: bool, visit: impl Visit) -> Result<bool, Error> {
    let key = call.open_key(call.key_name()?, write);
    let Content::Module(found) = key.content() else {
        return match key.content() {
            Content::Empty => Ok(false),
            _ => Err(Error::WrongType),
        };
    };
    if found == TokenBucket::data_type().handle() {
        visit.visit(Slot::<TokenBucket>::of(key)?)?;
    } else if found == LeakyBucket::data_type().handle() {
        visit.visit(Slot::<LeakyBucket>::of(key)?)?;
    } else if found == SlidingWindow::data_type().handle() {
        visit.visit(Slot::<SlidingWindow>::of(key)?)?;
    } else {
        return Err(Error::WrongType);
    }
    Ok(true)
}
