//! How a state lies behind the pointer that the server keeps for a key.
//!
//! It is packed into one small allocation ([`crate::packed`]), unpacked for a call, and packed
//! again by one that writes. The older hits of a long window lie in blocks besides, which the
//! value owns and which are changed in place. All memory comes from the server's allocator.

use std::ffi::{CStr, c_void};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use crate::algorithm::Limiter;
use crate::algorithm::bucket::{self, Bucket, Content};
use crate::algorithm::hit_log::{Blocks, HitLog};
use crate::algorithm::leaky_bucket::Held;
use crate::algorithm::sliding_window::{self, SlidingWindow};
use crate::algorithm::token_bucket::Missing;
use crate::codec::{Kind, Wire};
use crate::packed;
use crate::packed::bucket::{LARGE, Packed, SMALL};
use crate::packed::window::Unpacked;
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

    /// Applies a change to a value. Where the value has no room for the state, a new one is
    /// returned that takes its place.
    ///
    /// # Safety
    /// See [`Stored`]; the view is that of the value, and is not used afterwards.
    unsafe fn change(
        value: *mut c_void,
        view: &mut Self::View<'_>,
        change: &Self::Change,
    ) -> Option<*mut c_void>;

    /// Puts another state in place of that of a value, or returns a new value as `change` does.
    ///
    /// # Safety
    /// See [`Stored`]; the view is that of the value, and is not used afterwards.
    unsafe fn replace(
        value: *mut c_void,
        view: &mut Self::View<'_>,
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
pub struct Level(bucket::State);

impl Deref for Level {
    type Target = bucket::State;

    fn deref(&self) -> &bucket::State {
        &self.0
    }
}

impl<C: Content + Kind + Shown + Typed + 'static> Stored for Bucket<C> {
    type View<'a> = Level;

    fn data_type() -> &'static DataType {
        C::data_type()
    }

    fn new_value(state: bucket::State) -> *mut c_void {
        match packed::bucket::pack(&state, false) {
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
        Level(packed.unpack())
    }

    unsafe fn change(
        value: *mut c_void,
        view: &mut Level,
        change: &bucket::State,
    ) -> Option<*mut c_void> {
        // SAFETY: as the caller's. A bucket's change is its next state.
        unsafe { Self::replace(value, view, *change) }
    }

    unsafe fn replace(
        value: *mut c_void,
        _view: &mut Level,
        state: bucket::State,
    ) -> Option<*mut c_void> {
        // SAFETY: a value has at least SMALL bytes, and LARGE where it is marked so; what is
        // packed for a large one is large.
        unsafe {
            let large = is_large(value);
            match packed::bucket::pack(&state, large) {
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
    packed::bucket::is_large(unsafe { &*value.cast::<[u8; SMALL]>() })
}

/// A window's state, unpacked. Its blocks are those of the value.
pub struct Window(ManuallyDrop<sliding_window::State>);

impl Deref for Window {
    type Target = sliding_window::State;

    fn deref(&self) -> &sliding_window::State {
        &self.0
    }
}

impl Stored for SlidingWindow {
    type View<'a> = Window;

    fn data_type() -> &'static DataType {
        static TYPE: DataType = DataType::new(c"rl-slidew");
        &TYPE
    }

    fn new_value(mut state: sliding_window::State) -> *mut c_void {
        new_window(&pack_window(&mut state, 0))
    }

    unsafe fn view<'a>(value: *mut c_void) -> Self::View<'a> {
        // SAFETY: a value has as many bytes as its first one tells.
        let read =
            packed::window::unpack(unsafe { slice::from_raw_parts(value.cast(), room(value)) });
        let Unpacked { quota, at_us, mut outline, address } = read;
        let older = address.map(|address| usize::try_from(address).unwrap_or_default());
        let older = older.map_or(ptr::null_mut(), ptr::with_exposed_provenance_mut::<Blocks>);
        // SAFETY: the address is null, or was exposed by the box that the value owns. As long as
        // the view is neither dropped nor written, that box is its owner still.
        let older = (!older.is_null()).then(|| unsafe { Box::from_raw(older) });
        if older.is_none() {
            outline.older_units = 0;
        }
        let log = HitLog::from_parts(outline, older);
        Window(ManuallyDrop::new(sliding_window::State { quota, at_us, log }))
    }

    unsafe fn change(
        value: *mut c_void,
        view: &mut Window,
        change: &sliding_window::Change,
    ) -> Option<*mut c_void> {
        // SAFETY: as the caller's.
        unsafe {
            disown_blocks(value);
            Self::apply(&mut view.0, change);
            put_back(value, &mut view.0)
        }
    }

    unsafe fn replace(
        value: *mut c_void,
        view: &mut Window,
        mut state: sliding_window::State,
    ) -> Option<*mut c_void> {
        // SAFETY: as the caller's. The view, which is not used afterwards, owns the blocks alone.
        unsafe {
            disown_blocks(value);
            ManuallyDrop::drop(&mut view.0);
            put_back(value, &mut state)
        }
    }

    unsafe fn free(value: *mut c_void) {
        // SAFETY: as the caller's; a value was boxed as an array of as many bytes as its first one
        // tells.
        unsafe {
            ManuallyDrop::drop(&mut Self::view(value).0);
            let bytes = ptr::slice_from_raw_parts_mut(value.cast::<u8>(), room(value));
            drop(Box::from_raw(bytes));
        }
    }

    fn heap_bytes(state: &Self::State, usable: impl Fn(*const u8) -> usize) -> usize {
        state.log.heap_bytes(|bytes| usable(bytes.as_ptr()))
    }

    fn relocate(view: &mut Window, index: usize, mover: impl FnOnce(Vec<u8>) -> Vec<u8>) -> bool {
        // What changes lies in the blocks, not in the value.
        view.0.log.relocate(index, mover)
    }

    fn free_effort(state: &Self::State) -> usize {
        state.log.allocations()
    }
}

/// A window's state as bytes of at least `room`, which own its blocks from now on.
fn pack_window(state: &mut sliding_window::State, room: usize) -> packed::window::Packed {
    let address = state.log.take_blocks().map(|older| Box::into_raw(older).expose_provenance());
    let address = address.map(|address| u64::try_from(address).unwrap_or_default());
    packed::window::pack(&state.quota, state.at_us, state.log.outline(), address, room)
}

/// A value of these bytes.
fn new_window(packed: &packed::window::Packed) -> *mut c_void {
    let mut bytes = vec![0; packed.room()].into_boxed_slice();
    for (place, &byte) in bytes.iter_mut().zip(packed.bytes()) {
        *place = byte;
    }
    Box::into_raw(bytes).cast()
}

/// How many bytes a window's value has.
///
/// # Safety
/// `value` is that of a window.
unsafe fn room(value: *const c_void) -> usize {
    // SAFETY: a value has at least one byte.
    packed::window::room(unsafe { *value.cast::<u8>() })
}

/// Lets a window's value own no blocks any more, since its view does: should a change fail midway,
/// it has none rather than some that are freed.
///
/// # Safety
/// `value` is that of a window.
unsafe fn disown_blocks(value: *mut c_void) {
    // SAFETY: a value has more bytes than its header, and those of the address where the header
    // says so.
    unsafe {
        if packed::window::has_address(*value.cast()) {
            let address = value.cast::<u8>().add(packed::window::ADDRESS);
            address.write_bytes(0, packed::window::ADDRESS_BYTES);
        }
    }
}

/// Puts a state into a window's value; where it has no room, into a new one that takes its place.
///
/// # Safety
/// `value` is that of a window, and owns no blocks.
unsafe fn put_back(value: *mut c_void, state: &mut sliding_window::State) -> Option<*mut c_void> {
    // SAFETY: as the caller's.
    let room = unsafe { room(value) };
    let packed = pack_window(state, room);
    if packed.room() > room {
        return Some(new_window(&packed));
    }
    let bytes = packed.bytes();
    // SAFETY: the value has `room` bytes, and the bytes are no more than that.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), bytes.len()) };
    None
}
