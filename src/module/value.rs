//! How a state lies behind the pointer that the server keeps for a key.
//!
//! A window is a boxed state, changed in place. A bucket is packed into one small allocation
//! ([`crate::packed`]): it is unpacked for a call, and packed again by one that writes. All memory
//! comes from the server's allocator.

use std::ffi::{CStr, c_void};
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use crate::algorithm::Limiter;
use crate::algorithm::bucket::{self, Bucket, Content};
use crate::algorithm::leaky_bucket::Held;
use crate::algorithm::sliding_window::{self, SlidingWindow};
use crate::algorithm::token_bucket::Missing;
use crate::codec::{Kind, Wire};
use crate::packed::{self, LARGE, Packed, SMALL};
use crate::report::{Report, Shown};

/// A type of the server: its name, and its handle from load on.
pub struct DataType {
    name: &'static CStr,
    handle: AtomicPtr<raw::RedisModuleType>,
}

impl DataType {
    const fn new(name: &'static CStr) -> DataType {
        DataType { name, handle: AtomicPtr::new(ptr::null_mut()) }
    }

    /// What TYPE answers: exactly nine characters.
    pub fn name(&self) -> &'static CStr {
        self.name
    }

    /// The server's handle of the type.
    pub fn handle(&self) -> *mut raw::RedisModuleType {
        self.handle.load(Ordering::Relaxed)
    }

    /// Notes the server's handle of the type.
    pub fn set_handle(&self, handle: *mut raw::RedisModuleType) {
        self.handle.store(handle, Ordering::Relaxed);
    }
}

/// A limiter whose state is a value of the server.
///
/// # Safety of its functions
/// A `value` is one that [`Stored::new_value`] of the same limiter made and that is not freed; a
/// view is the only use of its value while it lives.
pub trait Stored: Wire + Report + 'static {
    /// A state as a call works on it.
    type View<'a>: Deref<Target = Self::State>;

    /// The type of its values.
    fn data_type() -> &'static DataType;

    /// A state as a value, which the server owns until it calls `free`.
    fn new_value(state: Self::State) -> *mut c_void;

    /// The state of a value.
    ///
    /// # Safety
    /// See [`Stored`].
    unsafe fn view<'a>(value: *mut c_void) -> Self::View<'a>;

    /// Applies a change to a value. Where the value has no room for the state, it stays as it is,
    /// and a new one is returned that takes its place.
    ///
    /// # Safety
    /// See [`Stored`]; the view is that of the value.
    unsafe fn change(
        value: *mut c_void,
        view: Self::View<'_>,
        change: &Self::Change,
    ) -> Option<*mut c_void>;

    /// Puts another state in place of that of a value, or returns a new value as `change` does.
    ///
    /// # Safety
    /// See [`Stored`]; the view is that of the value.
    unsafe fn replace(
        value: *mut c_void,
        view: Self::View<'_>,
        state: Self::State,
    ) -> Option<*mut c_void>;

    /// Frees a value.
    ///
    /// # Safety
    /// See [`Stored`]; the value is not used afterwards.
    unsafe fn free(value: *mut c_void);

    /// Bytes on the heap besides the value itself; `usable` tells what an allocation takes.
    fn heap_bytes(_state: &Self::State, _usable: impl Fn(*const u8) -> usize) -> usize {
        0
    }

    /// Hands the allocation at `index`, besides the value itself, to `mover`; false if there is
    /// none.
    fn relocate(
        _view: &mut Self::View<'_>,
        _index: usize,
        _mover: impl FnOnce(Vec<u8>) -> Vec<u8>,
    ) -> bool {
        false
    }

    /// How many allocations freeing the state gives back.
    fn free_effort(_state: &Self::State) -> usize {
        1
    }
}

/// What a bucket's level stands for, as a type of the server.
pub trait Typed {
    /// The type of its values.
    fn data_type() -> &'static DataType;
}

impl Typed for Missing {
    fn data_type() -> &'static DataType {
        static TYPE: DataType = DataType::new(c"rl-tokenb");
        &TYPE
    }
}

impl Typed for Held {
    fn data_type() -> &'static DataType {
        static TYPE: DataType = DataType::new(c"rl-leakyb");
        &TYPE
    }
}

/// A bucket's state, unpacked.
pub struct Unpacked(bucket::State);

impl Deref for Unpacked {
    type Target = bucket::State;

    fn deref(&self) -> &bucket::State {
        &self.0
    }
}

impl<C: Content + Kind + Shown + Typed + 'static> Stored for Bucket<C> {
    type View<'a> = Unpacked;

    fn data_type() -> &'static DataType {
        C::data_type()
    }

    fn new_value(state: bucket::State) -> *mut c_void {
        match packed::pack(&state, false) {
            Packed::Small(bytes) => Box::into_raw(Box::new(bytes)).cast(),
            Packed::Large(bytes) => Box::into_raw(Box::new(bytes)).cast(),
        }
    }

    unsafe fn view<'a>(value: *mut c_void) -> Self::View<'a> {
        // SAFETY: a value has at least SMALL bytes, and LARGE where it is marked so.
        let packed = unsafe {
            if is_large(value) {
                Packed::Large(*value.cast::<[u8; LARGE]>())
            } else {
                Packed::Small(*value.cast::<[u8; SMALL]>())
            }
        };
        Unpacked(packed.unpack())
    }

    unsafe fn change(
        value: *mut c_void,
        view: Unpacked,
        change: &bucket::State,
    ) -> Option<*mut c_void> {
        // SAFETY: as the caller's. A bucket's change is its next state.
        unsafe { Self::replace(value, view, *change) }
    }

    unsafe fn replace(
        value: *mut c_void,
        _view: Unpacked,
        state: bucket::State,
    ) -> Option<*mut c_void> {
        // SAFETY: a value has at least SMALL bytes, and LARGE where it is marked so; what is
        // packed for a large one is large.
        unsafe {
            let large = is_large(value);
            match packed::pack(&state, large) {
                Packed::Small(bytes) => *value.cast() = bytes,
                Packed::Large(bytes) if large => *value.cast() = bytes,
                Packed::Large(bytes) => return Some(Box::into_raw(Box::new(bytes)).cast()),
            }
        }
        None
    }

    unsafe fn free(value: *mut c_void) {
        // SAFETY: a value was boxed as an array of LARGE bytes where it is marked so, else of
        // SMALL.
        unsafe {
            if is_large(value) {
                drop(Box::from_raw(value.cast::<[u8; LARGE]>()));
            } else {
                drop(Box::from_raw(value.cast::<[u8; SMALL]>()));
            }
        }
    }
}

/// Whether a bucket's value is marked as a large one.
///
/// # Safety
/// `value` is that of a bucket.
unsafe fn is_large(value: *const c_void) -> bool {
    // SAFETY: a value has at least SMALL bytes, whatever its size.
    packed::is_large(unsafe { &*value.cast::<[u8; SMALL]>() })
}

impl Stored for SlidingWindow {
    type View<'a> = &'a mut sliding_window::State;

    fn data_type() -> &'static DataType {
        static TYPE: DataType = DataType::new(c"rl-slidew");
        &TYPE
    }

    fn new_value(state: sliding_window::State) -> *mut c_void {
        Box::into_raw(Box::new(state)).cast()
    }

    unsafe fn view<'a>(value: *mut c_void) -> Self::View<'a> {
        // SAFETY: a value is a boxed state, and the view is its only use while it lives.
        unsafe { &mut *value.cast::<sliding_window::State>() }
    }

    unsafe fn change(
        _value: *mut c_void,
        view: Self::View<'_>,
        change: &sliding_window::Change,
    ) -> Option<*mut c_void> {
        Self::apply(view, change);
        None
    }

    unsafe fn replace(
        _value: *mut c_void,
        view: Self::View<'_>,
        state: sliding_window::State,
    ) -> Option<*mut c_void> {
        *view = state;
        None
    }

    unsafe fn free(value: *mut c_void) {
        // SAFETY: a value is a boxed state.
        drop(unsafe { Box::from_raw(value.cast::<sliding_window::State>()) });
    }

    fn heap_bytes(state: &Self::State, usable: impl Fn(*const u8) -> usize) -> usize {
        state.log.heap_bytes(|bytes| usable(bytes.as_ptr()))
    }

    fn relocate(
        view: &mut Self::View<'_>,
        index: usize,
        mover: impl FnOnce(Vec<u8>) -> Vec<u8>,
    ) -> bool {
        view.log.relocate(index, mover)
    }

    fn free_effort(state: &Self::State) -> usize {
        state.log.allocations()
    }
}
