//! A key as it is remembered: its beginning and its length.
//!
//! A key may be 512 MB long. At most [`KeptKey::MAX`] bytes of it are kept, as many as the server's
//! own log of slow calls keeps of an argument, so that what remembers keys has a fixed size.

/// The beginning of a key, in room that is used again for the next one.
#[derive(Clone, Debug)]
pub struct KeptKey {
    /// Bytes behind those of the key are left from keys before it.
    bytes: [u8; KeptKey::MAX],
    /// Bytes of the whole key.
    len: usize,
}

impl KeptKey {
    /// Most bytes of a key that are kept.
    pub const MAX: usize = 128;

    /// Keeps a key.
    pub fn new(key: &[u8]) -> KeptKey {
        let mut kept = KeptKey { bytes: [0; KeptKey::MAX], len: 0 };
        kept.set(key);
        kept
    }

    /// Keeps another key instead.
    pub fn set(&mut self, key: &[u8]) {
        self.len = key.len();
        let beginning = beginning(key);
        if let Some(room) = self.bytes.get_mut(..beginning.len()) {
            room.copy_from_slice(beginning);
        }
    }

    /// Whether length and beginning are those of `key`: for a key that is kept whole, whether it
    /// is this one.
    pub fn may_be(&self, key: &[u8]) -> bool {
        self.len == key.len() && self.kept() == beginning(key)
    }

    /// The bytes that are kept.
    pub fn kept(&self) -> &[u8] {
        beginning(self.bytes.get(..self.len).unwrap_or(&self.bytes))
    }

    /// How many bytes of the key are not kept.
    pub fn missing(&self) -> usize {
        self.len.saturating_sub(KeptKey::MAX)
    }

    /// The key as a user is shown it: what is kept, and behind that how much is missing.
    pub fn shown(&self) -> Vec<u8> {
        let mut shown = self.kept().to_vec();
        if self.missing() > 0 {
            shown.extend_from_slice(format!("... ({} more bytes)", self.missing()).as_bytes());
        }
        shown
    }
}

fn beginning(key: &[u8]) -> &[u8] {
    key.get(..KeptKey::MAX).unwrap_or(key)
}
