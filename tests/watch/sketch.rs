//! The promises of the sketch, on made-up denials, with the real hash and with one that collides.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use proptest::prelude::*;
use redis_rl::watch::kept_key::KeptKey;
use redis_rl::watch::top_denied::TopDenied;

/// A hash of two bits: every list holds keys of one hash, and most keys share one.
#[derive(Clone, Default)]
struct TwoBits(u64);

impl Hasher for TwoBits {
    fn finish(&self) -> u64 {
        self.0 % 4
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 += bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    }
}

impl BuildHasher for TwoBits {
    type Hasher = TwoBits;

    fn build_hasher(&self) -> TwoBits {
        TwoBits(0)
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Deny(u16),
    Resize(usize),
    Reset,
}

fn denials() -> impl Strategy<Value = Step> {
    // Few keys often and many keys seldom, as on a real server.
    prop_oneof![(0..5_u16), (0..40_u16), (0..1000_u16)].prop_map(Step::Deny)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        100 => denials(),
        2 => (0..30_usize).prop_map(Step::Resize),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 0..600)
}

/// A sketch beside what it should know.
struct Compared<H> {
    sketch: TopDenied<H>,
    exact: BTreeMap<Vec<u8>, u64>,
    size: usize,
}

impl<H: BuildHasher> Compared<H> {
    fn new(size: usize, hasher: H) -> Compared<H> {
        let sketch = TopDenied::with_hasher(size, hasher);
        Compared { sketch, exact: BTreeMap::new(), size }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Deny(number) => {
                let key = number.to_string().into_bytes();
                self.sketch.record(&key);
                if self.size > 0 {
                    *self.exact.entry(key).or_default() += 1;
                }
            }
            Step::Resize(size) => {
                let before = self.shown();
                self.sketch.resize(size);
                assert_eq!(self.shown(), before[..before.len().min(size)], "the largest stay");
                self.size = size;
                if size == 0 {
                    self.exact.clear();
                }
            }
            Step::Reset => {
                self.sketch.reset();
                assert_eq!(self.sketch.floor(), 0, "nothing is known of any key");
                self.exact.clear();
            }
        }
        self.check();
    }

    fn shown(&self) -> Vec<(Vec<u8>, u64, u64)> {
        let shown = self.sketch.ranked().map(|denied| {
            assert_eq!(denied.key.missing(), 0);
            (denied.key.kept().to_vec(), denied.count, denied.error)
        });
        shown.collect()
    }

    /// What holds at any time.
    fn check(&self) {
        let shown = self.shown();
        assert!(shown.len() <= self.size);
        assert_eq!(shown.len(), self.sketch.len());
        assert_eq!(self.sketch.denials(), self.exact.values().sum::<u64>());
        assert!(shown.is_sorted_by(|one, next| one.1 >= next.1), "{shown:?}");
        let followed: BTreeMap<_, _> =
            shown.iter().map(|(key, count, error)| (key, (count, error))).collect();
        assert_eq!(followed.len(), shown.len(), "each key once");
        for (key, &(count, error)) in &followed {
            let exact = self.exact.get(*key).copied().unwrap_or(0);
            assert!(count - error <= exact && exact <= *count, "{exact}: {count} - {error}");
        }
        for (key, &exact) in &self.exact {
            assert!(followed.contains_key(key) || exact <= self.sketch.floor(), "{exact}");
        }
    }

    /// What holds as long as the size is the same.
    fn check_one_size(&self) {
        let size = u64::try_from(self.size).expect("a size");
        let denials = self.sketch.denials();
        assert!(self.sketch.floor() * size <= denials);
        let shown = self.shown();
        assert_eq!(shown.iter().map(|denied| denied.1).sum::<u64>(), denials, "shared out");
        for (key, exact) in &self.exact {
            let often = exact * size > denials;
            assert!(!often || shown.iter().any(|denied| denied.0 == *key), "{exact} missing");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn counts_are_true_within_their_error(size in 0..30_usize, steps in steps()) {
        let mut real = Compared::new(size, RandomState::new());
        let mut colliding = Compared::new(size, TwoBits(0));
        for step in steps {
            real.take(step);
            colliding.take(step);
        }
    }

    #[test]
    fn what_is_denied_often_is_followed(
        size in 1..30_usize,
        steps in prop::collection::vec(denials(), 0..600),
    ) {
        let mut real = Compared::new(size, RandomState::new());
        let mut colliding = Compared::new(size, TwoBits(0));
        for step in steps {
            real.take(step);
            real.check_one_size();
            colliding.take(step);
            colliding.check_one_size();
        }
    }

    /// Whatever the bytes, what is kept tells two keys of at most 128 bytes apart.
    #[test]
    fn short_keys_are_kept_whole(
        one in prop::collection::vec(any::<u8>(), 0..=128),
        other in prop::collection::vec(any::<u8>(), 0..=200),
    ) {
        let kept = KeptKey::new(&one);
        assert!(kept.may_be(&one));
        assert_eq!(kept.may_be(&other), one == other);
        assert_eq!(kept.shown(), one);
        // Nothing is left of a longer key before it.
        let mut again = KeptKey::new(&other);
        again.set(&one);
        assert_eq!(again.shown(), one);
    }
}

#[test]
fn a_long_key_is_shown_by_its_beginning() {
    let key: Vec<u8> = (0..=255).collect();
    let shown = KeptKey::new(&key).shown();
    assert_eq!(shown[..128], key[..128]);
    assert_eq!(shown[128..], *b"... (128 more bytes)");
    assert_eq!(KeptKey::new(&key[..129]).shown()[128..], *b"... (1 more bytes)");
}

/// A hash that differs in its high bits alone: all keys are in one list.
#[derive(Clone, Default)]
struct HighBits(RandomState);

struct Shifted<H>(H);

impl<H: Hasher> Hasher for Shifted<H> {
    fn finish(&self) -> u64 {
        self.0.finish() << 32
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }
}

impl BuildHasher for HighBits {
    type Hasher = Shifted<<RandomState as BuildHasher>::Hasher>;

    fn build_hasher(&self) -> Self::Hasher {
        Shifted(self.0.build_hasher())
    }
}

/// Of the long keys no more is kept than that they look alike: their hash and length tell them
/// apart.
#[test]
fn long_keys_that_begin_alike_are_not_merged() {
    let mut sketch = TopDenied::with_hasher(10, HighBits::default());
    let one = vec![b'x'; 65_536];
    let mut other = one.clone();
    *other.last_mut().expect("a byte") = b'y';
    let longer = vec![b'x'; 65_537];
    for key in [&one, &one, &one, &other, &longer, &longer] {
        sketch.record(key);
    }
    let counts: Vec<u64> = sketch.ranked().map(|denied| denied.count).collect();
    assert_eq!(counts, [3, 2, 1]);
    // Even where the hash is the same.
    assert!(KeptKey::new(&one).may_be(&other));
    assert!(!KeptKey::new(&one).may_be(&longer));
}

/// Nobody who does not know the seed can choose keys that fall into one list.
#[test]
fn each_sketch_has_a_seed_of_its_own() {
    let hash = |state: foldhash::quality::RandomState| state.hash_one(b"key");
    assert_ne!(hash(Default::default()), hash(Default::default()));
}

#[test]
fn memory_is_bounded_whatever_the_keys_are() {
    for size in [1, 10, 256, 10_000] {
        let mut sketch = TopDenied::new(size);
        assert_eq!(sketch.heap_bytes(), 0, "nothing is taken before the first denial");
        assert!(sketch.is_empty());
        sketch.record(b"first");
        assert!(!sketch.is_empty());
        let at_first = sketch.heap_bytes();
        let bytes = 180 * size..=250 * size + 250;
        assert!(bytes.contains(&at_first), "{at_first} bytes for {size} keys");
        for number in 0..3 * size {
            sketch.record(&vec![b'k'; number % 300]);
            sketch.record(number.to_string().as_bytes());
        }
        assert_eq!(sketch.heap_bytes(), at_first);
        assert_eq!(sketch.len(), size);
        sketch.resize(size / 2);
        assert!(sketch.heap_bytes() <= 250 * (size / 2) + 250);
    }
}
