//! The last denials, each with what was asked and by whom: a ring of at most so many entries.
//!
//! A full log writes over its oldest entry, in place. Ids count from 0 and go on when the log is
//! emptied, so a reader who remembers the last one knows what is new and how much was lost.

use super::kept_key::KeptKey;

/// A denial, besides its key.
#[derive(Clone, Copy, Debug)]
pub struct Denial {
    /// The server's time, in µs since the epoch, also for a call that brought its own.
    pub time_us: u64,
    /// The name of the command.
    pub command: &'static str,
    /// Whether the limit was only tried, and the request let through.
    pub shadow: bool,
    /// Units that the request would have taken.
    pub cost: i64,
    /// The capacity or limit of the call.
    pub limit: i64,
    /// As in the reply: -1 for never.
    pub retry_after_ms: i64,
    /// The server's id of the client.
    pub client_id: u64,
}

/// A denial in the log.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Counts the denials since start.
    pub id: u64,
    /// The key, as far as it is kept.
    pub key: KeptKey,
    /// What else is known of it.
    pub denial: Denial,
}

/// The log.
#[derive(Debug)]
pub struct DenialLog {
    max_len: usize,
    next_id: u64,
    /// In the order of their ids from `oldest` on, and then from the start on.
    entries: Vec<Entry>,
    oldest: usize,
}

impl DenialLog {
    /// An empty log; `max_len` 0 keeps nothing.
    pub const fn new(max_len: usize) -> DenialLog {
        DenialLog { max_len, next_id: 0, entries: Vec::new(), oldest: 0 }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of memory for the entries.
    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity().saturating_mul(size_of::<Entry>())
    }

    /// Notes a denial of `key`, in place of the oldest one where the log is full.
    pub fn record(&mut self, key: &[u8], denial: &Denial) {
        if self.max_len == 0 {
            return;
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        if self.entries.len() < self.max_len {
            self.make_room();
            self.entries.push(Entry { id, key: KeptKey::new(key), denial: *denial });
        } else if let Some(entry) = self.entries.get_mut(self.oldest) {
            entry.id = id;
            entry.key.set(key);
            entry.denial = *denial;
            let next = self.oldest + 1;
            self.oldest = if next < self.max_len { next } else { 0 };
        }
        debug_assert!(self.entries.len() <= self.max_len, "the log is bounded");
    }

    /// Grows by doubling, but to no more than may be used.
    fn make_room(&mut self) {
        let len = self.entries.len();
        if len == self.entries.capacity() {
            self.entries.reserve_exact(len.max(16).min(self.max_len - len));
        }
    }

    /// The entries, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Entry> {
        let (newer, older) = self.entries.split_at_checked(self.oldest).unwrap_or_default();
        newer.iter().rev().chain(older.iter().rev())
    }

    /// Forgets all entries.
    pub fn reset(&mut self) {
        self.entries.clear();
        self.oldest = 0;
    }

    /// Keeps at most so many entries from now on, the newest of those that are there.
    pub fn resize(&mut self, max_len: usize) {
        if self.oldest <= self.entries.len() {
            self.entries.rotate_left(self.oldest);
        }
        self.oldest = 0;
        self.entries.drain(..self.entries.len().saturating_sub(max_len));
        self.entries.shrink_to(max_len);
        self.max_len = max_len;
    }
}
