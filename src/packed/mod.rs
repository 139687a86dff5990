//! States as they lie in memory: a header that tells how long each number is, and the numbers, low
//! bytes first. Servers hold millions of them.
//!
//! Reading and writing go through a buffer on the stack that is longer than any state, so that
//! every access has a fixed size and none needs a loop.
//!
//! This is no format for files: what leaves the process is [`crate::codec`]'s.

pub mod bucket;
pub mod window;

/// The longest number but a bucket's level.
const WORD: usize = 8;
/// The longest level of a bucket.
const DOUBLE: usize = 16;

/// Bytes, and where the next number is. There is room for one access behind the last number.
struct Buffer<const N: usize>([u8; N], usize);

impl<const N: usize> Buffer<N> {
    /// An empty one, whose numbers begin at `start`.
    fn new(start: usize) -> Buffer<N> {
        Buffer([0; N], start)
    }

    /// One with these bytes, whose numbers begin at `start`.
    fn holding<const M: usize>(packed: &[u8; M], start: usize) -> Buffer<N> {
        let mut bytes = [0; N];
        if let Some(place) = bytes.first_chunk_mut() {
            *place = *packed;
        }
        Buffer(bytes, start)
    }

    /// One with as many of these bytes as there is room for.
    fn of(packed: &[u8], start: usize) -> Buffer<N> {
        let mut bytes = [0; N];
        let len = packed.len().min(N);
        if let (Some(place), Some(packed)) = (bytes.get_mut(..len), packed.get(..len)) {
            place.copy_from_slice(packed);
        }
        Buffer(bytes, start)
    }

    /// Bytes up to the end of the last number.
    fn len(&self) -> usize {
        self.1
    }

    /// The first bytes, which are there.
    fn first<const M: usize>(&self) -> [u8; M] {
        self.0.first_chunk().copied().unwrap_or([0; M])
    }

    /// Puts the first `len` bytes of `header` before all numbers.
    fn put_header(&mut self, header: &[u8], len: usize) {
        for (byte, part) in self.0.iter_mut().zip(header).take(len) {
            *byte = *part;
        }
    }

    /// Appends a number; its length less one, in three bits.
    fn put(&mut self, value: u64) -> u32 {
        let bits = u64::BITS - value.leading_zeros();
        let len = bits.div_ceil(8).max(1);
        self.put_bytes(value, len);
        len - 1
    }

    /// Appends a number of up to `len` bytes, at most 8.
    fn put_bytes(&mut self, value: u64, len: u32) {
        if let Some(place) = self.0.get_mut(self.1..).and_then(|rest| rest.first_chunk_mut()) {
            *place = value.to_le_bytes();
        }
        self.skip(len);
    }

    /// Appends a level; its length, in four bits.
    fn put_level(&mut self, value: u128) -> u32 {
        if let Some(place) = self.0.get_mut(self.1..).and_then(|rest| rest.first_chunk_mut()) {
            *place = value.to_le_bytes();
        }
        let len = (u128::BITS - value.leading_zeros()).div_ceil(8);
        debug_assert!(len < 16);
        self.skip(len);
        len
    }

    /// Reads a number, whose length less one is in the lowest three bits of `header`.
    fn get(&mut self, header: u32) -> u64 {
        self.get_bytes((header & 7) + 1)
    }

    /// Reads a number of 1 to 8 bytes.
    fn get_bytes(&mut self, len: u32) -> u64 {
        let rest = self.0.get(self.1..).and_then(|rest| rest.first_chunk::<WORD>());
        let value = rest.map_or(0, |&bytes| u64::from_le_bytes(bytes));
        self.skip(len);
        value & (u64::MAX >> (u64::BITS - 8 * len))
    }

    /// Reads a level, whose length is in the lowest four bits of `header`.
    fn get_level(&mut self, header: u32) -> u128 {
        let len = header & 15;
        let rest = self.0.get(self.1..).and_then(|rest| rest.first_chunk::<DOUBLE>());
        let value = rest.map_or(0, |&bytes| u128::from_le_bytes(bytes));
        self.skip(len);
        value & !(u128::MAX << (8 * len))
    }

    /// Appends the first `len` bytes of an array. There is room for all of it.
    fn put_array<const M: usize>(&mut self, array: &[u8; M], len: usize) {
        if let Some(place) = self.0.get_mut(self.1..).and_then(|rest| rest.first_chunk_mut()) {
            *place = *array;
        }
        self.1 += len;
    }

    /// Reads an array, which may be longer than what was put there.
    fn array<const M: usize>(&self) -> [u8; M] {
        let rest = self.0.get(self.1..).and_then(|rest| rest.first_chunk());
        rest.copied().unwrap_or([0; M])
    }

    fn skip(&mut self, len: u32) {
        self.1 += usize::try_from(len).unwrap_or_default();
    }
}
