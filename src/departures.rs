//! Requests that are held until their time has come: who goes next, and when.
//!
//! Times are µs of a clock that nobody sets, see [`Offset`]. Whoever is due earlier goes first, and
//! those who are due at the same time go in the order in which they came. Adding and taking out are
//! O(log N) with N who wait; what is empty holds no memory.

use std::collections::BTreeMap;

/// Those who wait, each by a key that tells it from the others.
#[derive(Debug)]
pub struct Departures<K, T> {
    queue: BTreeMap<Place, (K, T)>,
    places: BTreeMap<K, Place>,
    arrivals: u64,
}

/// A place in the queue: when it is due, and how many came before it.
type Place = (u64, u64);

impl<K: Ord + Copy, T> Departures<K, T> {
    /// Nobody.
    pub const fn new() -> Departures<K, T> {
        Departures { queue: BTreeMap::new(), places: BTreeMap::new(), arrivals: 0 }
    }

    /// Lets `key`, which does not wait yet, wait until `due_us`.
    pub fn add(&mut self, key: K, due_us: u64, waiter: T) {
        debug_assert!(!self.places.contains_key(&key));
        let place = (due_us, self.arrivals);
        self.arrivals = self.arrivals.wrapping_add(1);
        self.queue.insert(place, (key, waiter));
        self.places.insert(key, place);
    }

    /// Takes out whoever leaves before the time has come; none if `key` does not wait.
    pub fn take(&mut self, key: K) -> Option<T> {
        let place = self.places.remove(&key)?;
        self.queue.remove(&place).map(|(_, waiter)| waiter)
    }

    /// Takes out whoever goes next, if it is due at `now_us`.
    pub fn pop_due(&mut self, now_us: u64) -> Option<(K, T)> {
        let next = self.queue.first_entry()?;
        if next.key().0 > now_us {
            return None;
        }
        let (key, waiter) = next.remove();
        self.places.remove(&key);
        Some((key, waiter))
    }

    /// When the next is due.
    pub fn next_us(&self) -> Option<u64> {
        self.queue.first_key_value().map(|(&(due_us, _), _)| due_us)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl<K: Ord + Copy, T> Default for Departures<K, T> {
    fn default() -> Departures<K, T> {
        Departures::new()
    }
}

/// How far a clock that nobody sets is ahead of the server's, in µs.
///
/// Delays are decided by the server's clock, and must be waited for by the other. To measure the
/// distance takes two readings, so it trembles by the time between them; the times of requests that
/// leave a few µs apart must not. So the distance once measured is kept until it is off by more
/// than [`Offset::TREMOR_US`]: then the server's clock was set.
#[derive(Debug, Default)]
pub struct Offset(Option<i128>);

impl Offset {
    /// The distance may be measured wrong by so much.
    pub const TREMOR_US: u64 = 100;

    /// Not measured yet.
    pub const fn new() -> Offset {
        Offset(None)
    }

    /// The time of the steady clock at `server_us` of the server's, where both were read at one
    /// instant, at or after it, as `read_server_us` and `read_steady_us`.
    pub fn steady_us(&mut self, server_us: u64, read_server_us: u64, read_steady_us: u64) -> u64 {
        let measured = i128::from(read_steady_us) - i128::from(read_server_us);
        let offset = match self.0 {
            Some(kept) if kept.abs_diff(measured) <= u128::from(Self::TREMOR_US) => kept,
            _ => measured,
        };
        self.0 = Some(offset);
        // A clock that was set between the call and the reading says nothing of the time between.
        let earliest_us = read_steady_us.saturating_sub(Self::MOST_AGE_US);
        let latest_us = read_steady_us.saturating_add(Self::TREMOR_US);
        u64::try_from(i128::from(server_us) + offset)
            .ok()
            .filter(|steady_us| (earliest_us..=latest_us).contains(steady_us))
            .unwrap_or(read_steady_us)
    }

    /// A call that takes longer than this until it is held is held as from then.
    const MOST_AGE_US: u64 = 1_000_000;
}
