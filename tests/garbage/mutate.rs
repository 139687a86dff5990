//! Damaged payloads: bytes that the module wrote, changed in ways that a decoder can trip over.
//!
//! The bytes are a version, a kind and numbers of seven bits a byte. So besides flipped bits and
//! missing ends there are numbers at and beyond their bounds, numbers in a longer form than needed,
//! numbers that never end, and the beginning of one value with the end of another.

use crate::support::Dice;

/// Numbers around which something changes: bounds of units, times and durations, of words and of
/// what fits into them, and those beyond everything.
const EDGES: [u128; 20] = [
    0,
    1,
    2,
    9,
    10,
    (1 << 32) - 1,
    (1 << 53) - 1,
    1 << 53,
    (1 << 53) + 1,
    315_360_000_000,
    315_360_000_001,
    1_000_000_000_000_000_000,
    1_000_000_000_000_000_001,
    (1 << 53) * 1000,
    (1 << 53) * 1000 + 1,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
    1 << 64,
    u128::MAX,
];

/// Bytes that mean something in a number.
const BYTES: [u8; 7] = [0, 1, 0x7f, 0x80, 0x81, 0xfe, 0xff];

/// The most bytes that one change adds: no value gets much longer than those it was made of.
const ADDED: u64 = 64;

/// Damages values, which are payloads as the module wrote them.
pub struct Mutator<'a> {
    values: &'a [Vec<u8>],
    dice: Dice,
}

impl<'a> Mutator<'a> {
    /// The same seed damages the same values in the same way.
    pub fn new(values: &'a [Vec<u8>], seed: u64) -> Mutator<'a> {
        Mutator { values, dice: Dice::new(seed) }
    }

    /// One of the values, changed once or a few times.
    pub fn next(&mut self) -> Vec<u8> {
        let mut bytes = self.value().clone();
        for _ in 0..=self.dice.pick(&[0, 0, 0, 1, 2]) {
            self.change(&mut bytes);
        }
        bytes
    }

    fn value(&mut self) -> &'a Vec<u8> {
        let index = self.below(self.values.len());
        &self.values[index]
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).expect("a length");
        usize::try_from(self.dice.throw(bound)).expect("below a length")
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.dice.throw(256)).expect("a byte")
    }

    /// A range of `bytes`, which may be empty.
    fn range(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let start = self.below(bytes.len() + 1);
        let most = usize::try_from(self.dice.throw(ADDED)).expect("a small number");
        start..(start + most).min(bytes.len())
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        match self.dice.throw(14) {
            0 | 1 => self.flip_a_bit(bytes),
            2 => {
                let (at, byte) = (self.below(bytes.len()), self.byte());
                bytes.iter_mut().skip(at).take(1).for_each(|place| *place = byte);
            }
            3 => {
                let (at, byte) = (self.below(bytes.len()), self.dice.pick(&BYTES));
                bytes.iter_mut().skip(at).take(1).for_each(|place| *place = byte);
            }
            4 => bytes.truncate(self.below(bytes.len() + 1)),
            5 => {
                let range = self.range(bytes);
                bytes.drain(range);
            }
            6 => {
                let (at, random) = (self.below(bytes.len() + 1), self.random());
                bytes.splice(at..at, random);
            }
            7 => {
                let range = self.range(bytes);
                let (at, again) = (self.below(bytes.len() + 1), bytes[range].to_vec());
                bytes.splice(at..at, again);
            }
            8..=10 => self.replace_a_number(bytes),
            11 => self.cross(bytes),
            12 => self.append_numbers(bytes),
            _ => {
                // Only version and kind stay.
                bytes.truncate(2);
                bytes.extend(self.random());
            }
        }
    }

    fn flip_a_bit(&mut self, bytes: &mut [u8]) {
        let (at, bit) = (self.below(bytes.len()), self.below(8));
        bytes.iter_mut().skip(at).take(1).for_each(|place| *place ^= 1 << bit);
    }

    fn random(&mut self) -> Vec<u8> {
        (0..self.dice.throw(ADDED)).map(|_| self.byte()).collect()
    }

    /// A number at an edge or anywhere, in its own form, in a longer one, or without an end.
    fn number(&mut self) -> Vec<u8> {
        let edge = self.dice.pick(&EDGES);
        let near = u128::from(self.dice.throw(1 << 20));
        let value = match self.dice.throw(4) {
            0 => near,
            1 => edge.wrapping_sub(near),
            _ => edge,
        };
        let mut number = encode(value);
        match self.dice.throw(12) {
            0 => {
                // The same with zeros that carry no bit.
                let last = number.len() - 1;
                number[last] |= 0x80;
                number.extend([0x80, 0]);
            }
            1 => number = vec![0xff; self.below(40)],
            _ => {}
        }
        number
    }

    fn replace_a_number(&mut self, bytes: &mut Vec<u8>) {
        // The numbers begin behind version and kind; in a long value the first few tell most.
        let wanted = self.dice.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 50]);
        let mut start = 2;
        for _ in 0..wanted {
            start += length(bytes.get(start..).unwrap_or_default());
        }
        if start < bytes.len() {
            let end = start + length(&bytes[start..]);
            let number = self.number();
            bytes.splice(start..end, number);
        }
    }

    fn append_numbers(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.dice.throw(6) {
            let number = self.number();
            bytes.extend(number);
        }
    }

    /// The beginning of this value and the end of another.
    fn cross(&mut self, bytes: &mut Vec<u8>) {
        let other = self.value();
        let from = self.below(other.len());
        bytes.truncate(self.below(bytes.len() + 1));
        bytes.extend(&other[from..]);
    }
}

/// A number as the module writes it.
pub fn encode(mut value: u128) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(value & 0x7f).expect("seven bits");
        value >>= 7;
        bytes.push(if value > 0 { low | 0x80 } else { low });
        if value == 0 {
            return bytes;
        }
    }
}

/// How many bytes the number at the beginning takes.
fn length(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte < 0x80).map_or(bytes.len(), |last| last + 1)
}
