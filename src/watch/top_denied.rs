//! The keys that are denied most, in memory of a fixed size: the space-saving sketch of Metwally,
//! Agrawal and El Abbadi (Efficient Computation of Frequent and Top-k Elements in Data Streams,
//! 2005).
//!
//! It follows at most `size` keys. A key that is not followed takes the place of the one that was
//! denied least, and goes on from that one's count: so each count is one that the key cannot have
//! passed, and its error is how much of it may belong to others.
//!
//! - count - error <= denials of the key <= count, for every key that is followed, also when the
//!   size changes;
//! - a key that is not followed was denied at most [`TopDenied::floor`] times;
//! - after N denials and at one size, the floor is at most N / size: whatever was denied more
//!   often than that is followed.
//!
//! A denial costs O(log size) steps and allocates nothing once the sketch has its memory, which it
//! takes at the first denial. Keys are found by a 64-bit hash with a seed that nobody is told,
//! their length and the [`KeptKey::MAX`] bytes that are kept of them: a key that is kept whole is
//! never taken for another, and keys chosen to have one hash would make a denial cost at most
//! `size` steps. The hash is fast rather than cryptographic, since every denial takes one.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;

use super::kept_key::KeptKey;

/// No place: behind the end of every list.
const NOWHERE: usize = usize::MAX;

/// The sketch.
#[derive(Debug)]
pub struct TopDenied<H = RandomState> {
    size: usize,
    /// The most denials that a key which is not followed can have had.
    floor: u64,
    /// All denials since the sketch was empty.
    denials: u64,
    hasher: H,
    /// The keys, each in one place as long as it is followed.
    followed: Vec<Followed>,
    /// Their counts, the greatest first.
    ranking: Vec<Rank>,
    /// Where the list of the keys with these low bits of the hash begins: a power of two of them.
    lists: Vec<usize>,
}

#[derive(Debug)]
struct Followed {
    key: KeptKey,
    hash: u64,
    error: u64,
    /// Its place in the ranking.
    rank: usize,
    /// The next key in its list.
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Rank {
    count: u64,
    /// Which of the followed keys it is.
    place: usize,
}

/// A key and how often it was denied.
#[derive(Clone, Copy, Debug)]
pub struct Denied<'a> {
    /// The key.
    pub key: &'a KeptKey,
    /// At most so often.
    pub count: u64,
    /// At least so often less.
    pub error: u64,
}

impl TopDenied {
    /// An empty sketch with a seed of its own; `size` 0 follows nothing.
    pub fn new(size: usize) -> TopDenied {
        TopDenied::with_hasher(size, RandomState::default())
    }
}

impl<H: BuildHasher> TopDenied<H> {
    /// An empty sketch that finds keys by this hash.
    pub const fn with_hasher(size: usize, hasher: H) -> TopDenied<H> {
        TopDenied {
            size,
            floor: 0,
            denials: 0,
            hasher,
            followed: Vec::new(),
            ranking: Vec::new(),
            lists: Vec::new(),
        }
    }

    /// How many keys are followed.
    pub fn len(&self) -> usize {
        self.ranking.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.ranking.is_empty()
    }

    /// All denials since the sketch was empty.
    pub fn denials(&self) -> u64 {
        self.denials
    }

    /// The most denials that a key which is not followed can have had.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Bytes of memory, whatever the keys are.
    pub fn heap_bytes(&self) -> usize {
        let followed = self.followed.capacity().saturating_mul(size_of::<Followed>());
        let ranking = self.ranking.capacity().saturating_mul(size_of::<Rank>());
        let lists = self.lists.capacity().saturating_mul(size_of::<usize>());
        followed.saturating_add(ranking).saturating_add(lists)
    }

    /// Counts a denial of `key`.
    pub fn record(&mut self, key: &[u8]) {
        if self.size == 0 {
            return;
        }
        if self.lists.is_empty() {
            self.allocate();
        }
        self.denials = self.denials.saturating_add(1);
        let hash = self.hash(key);
        let place = match self.find(hash, key) {
            Some(place) => place,
            None if self.followed.len() < self.size => self.follow(hash, key),
            None => self.follow_instead(hash, key),
        };
        self.raise(place);
    }

    /// The keys that are followed, those denied most first.
    pub fn ranked(&self) -> impl Iterator<Item = Denied<'_>> {
        self.ranking.iter().filter_map(|rank| {
            let Followed { key, error, .. } = self.followed.get(rank.place)?;
            Some(Denied { key, count: rank.count, error: *error })
        })
    }

    /// Forgets all keys.
    pub fn reset(&mut self) {
        self.followed.clear();
        self.ranking.clear();
        self.lists.fill(NOWHERE);
        self.floor = 0;
        self.denials = 0;
    }

    /// Follows at most so many keys from now on, those denied most of the ones that are followed.
    /// Size 0 forgets all.
    pub fn resize(&mut self, size: usize) {
        if let Some(first_out) = self.ranking.get(size) {
            self.floor = self.floor.max(first_out.count);
        }
        self.ranking.truncate(size);
        let ranking = std::mem::take(&mut self.ranking);
        let mut followed: Vec<_> =
            std::mem::take(&mut self.followed).into_iter().map(Some).collect();
        self.lists = Vec::new();
        self.size = size;
        if ranking.is_empty() {
            return self.reset();
        }
        self.allocate();
        for Rank { count, place } in ranking {
            if let Some(followed) = followed.get_mut(place).and_then(Option::take) {
                self.enter(followed, count);
            }
        }
    }

    fn allocate(&mut self) {
        self.followed.reserve_exact(self.size);
        self.ranking.reserve_exact(self.size);
        self.lists = vec![NOWHERE; self.size.saturating_mul(2).next_power_of_two()];
    }

    fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.finish()
    }

    /// Where the list of a hash begins.
    fn list(&mut self, hash: u64) -> Option<&mut usize> {
        let mask = u64::try_from(self.lists.len()).unwrap_or_default().wrapping_sub(1);
        self.lists.get_mut(usize::try_from(hash & mask).unwrap_or_default())
    }

    fn find(&mut self, hash: u64, key: &[u8]) -> Option<usize> {
        let mut place = *self.list(hash)?;
        // The list ends nowhere.
        while let Some(followed) = self.followed.get(place) {
            if followed.hash == hash && followed.key.may_be(key) {
                return Some(place);
            }
            place = followed.next;
        }
        None
    }

    /// Follows one more key, as if it had been denied as often as it can have been before.
    fn follow(&mut self, hash: u64, key: &[u8]) -> usize {
        let error = self.floor;
        let key = KeptKey::new(key);
        self.enter(Followed { key, hash, error, rank: NOWHERE, next: NOWHERE }, error)
    }

    /// Adds a key behind all others in the ranking.
    fn enter(&mut self, mut followed: Followed, count: u64) -> usize {
        let place = self.followed.len();
        debug_assert!(place < self.size, "the sketch is bounded");
        debug_assert!(self.ranking.last().is_none_or(|last| last.count >= count), "in order");
        followed.rank = self.ranking.len();
        let hash = followed.hash;
        if let Some(head) = self.list(hash) {
            followed.next = std::mem::replace(head, place);
        }
        self.followed.push(followed);
        self.ranking.push(Rank { count, place });
        place
    }

    /// Follows a key in place of the one that was denied least.
    fn follow_instead(&mut self, hash: u64, key: &[u8]) -> usize {
        let Some(&Rank { count, place }) = self.ranking.last() else { return NOWHERE };
        self.floor = count;
        self.unlink(place);
        let next = self.list(hash).map_or(NOWHERE, |head| std::mem::replace(head, place));
        if let Some(followed) = self.followed.get_mut(place) {
            followed.key.set(key);
            followed.hash = hash;
            followed.error = count;
            followed.next = next;
        }
        place
    }

    /// Takes a key out of its list.
    fn unlink(&mut self, place: usize) {
        let Some(&Followed { hash, next, .. }) = self.followed.get(place) else { return };
        let Some(head) = self.list(hash) else { return };
        let mut before = *head;
        if before == place {
            *head = next;
            return;
        }
        while let Some(followed) = self.followed.get_mut(before) {
            if followed.next == place {
                followed.next = next;
                return;
            }
            before = followed.next;
        }
    }

    /// Counts one more for a key: it goes before all others of its old count.
    fn raise(&mut self, place: usize) {
        let Some(&Followed { rank, .. }) = self.followed.get(place) else { return };
        let Some(&Rank { count, .. }) = self.ranking.get(rank) else { return };
        let above = self.ranking.get(..rank).unwrap_or_default();
        let first = above.partition_point(|other| other.count > count);
        if let Some(other) = self.ranking.get(first).copied() {
            self.put(rank, other);
        }
        self.put(first, Rank { count: count.saturating_add(1), place });
    }

    fn put(&mut self, rank: usize, ranked: Rank) {
        if let Some(slot) = self.ranking.get_mut(rank) {
            *slot = ranked;
        }
        if let Some(followed) = self.followed.get_mut(ranked.place) {
            followed.rank = rank;
        }
    }
}
