//! The log of denials: what it keeps, in which order, under which ids.

use proptest::prelude::*;
use redis_rl::watch::denial_log::{Denial, DenialLog};

fn denial(number: u64) -> Denial {
    let signed = i64::try_from(number).expect("small");
    Denial {
        time_us: number + 1,
        command: if number.is_multiple_of(2) { "even" } else { "odd" },
        shadow: number.is_multiple_of(3),
        cost: signed + 2,
        limit: signed + 3,
        retry_after_ms: signed - 1,
        client_id: number + 4,
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Deny(u8),
    Resize(usize),
    Reset,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => any::<u8>().prop_map(Step::Deny),
        1 => (0..40_usize).prop_map(Step::Resize),
        1 => Just(Step::Reset),
    ]
}

/// The entries are those of a list that is cut at its old end.
#[derive(Default)]
struct Model {
    entries: Vec<(u64, Vec<u8>)>,
    next_id: u64,
    max_len: usize,
}

impl Model {
    fn take(&mut self, log: &mut DenialLog, step: Step) {
        match step {
            Step::Deny(len) => {
                let key = vec![b'k'; usize::from(len)];
                log.record(&key, &denial(self.next_id));
                if self.max_len > 0 {
                    self.entries.push((self.next_id, key));
                    self.next_id += 1;
                }
            }
            Step::Resize(max_len) => {
                log.resize(max_len);
                self.max_len = max_len;
            }
            Step::Reset => {
                log.reset();
                self.entries.clear();
            }
        }
        self.entries.drain(..self.entries.len().saturating_sub(self.max_len));
        self.check(log);
    }

    fn check(&self, log: &DenialLog) {
        assert_eq!(log.len(), self.entries.len());
        assert_eq!(log.is_empty(), self.entries.is_empty());
        let mut newest_first = log.newest_first();
        for (id, key) in self.entries.iter().rev() {
            let entry = newest_first.next().expect("an entry");
            let (seen, expected) = (&entry.denial, denial(*id));
            assert_eq!(entry.id, *id);
            assert_eq!(seen.time_us, expected.time_us);
            assert_eq!((seen.command, seen.shadow), (expected.command, expected.shadow));
            assert!(entry.key.may_be(key));
            assert_eq!((seen.cost, seen.limit), (expected.cost, expected.limit));
            assert_eq!(seen.retry_after_ms, expected.retry_after_ms);
            assert_eq!(seen.client_id, expected.client_id);
        }
        assert!(newest_first.next().is_none());
    }
}

proptest! {
    #[test]
    fn the_newest_are_kept(max_len in 0..40_usize, steps in prop::collection::vec(step(), 0..300)) {
        let mut log = DenialLog::new(max_len);
        let mut model = Model { max_len, ..Model::default() };
        for step in steps {
            model.take(&mut log, step);
        }
    }
}

#[test]
fn memory_is_bounded_whatever_the_keys_are() {
    for max_len in [1, 128, 100_000] {
        let mut log = DenialLog::new(max_len);
        assert_eq!(log.heap_bytes(), 0, "nothing is taken before the first denial");
        for number in 0..u64::try_from(max_len).expect("small") {
            log.record(&[b'k'; 200], &denial(number));
        }
        let full = log.heap_bytes();
        let bytes_each = 180..=220;
        assert!(bytes_each.contains(&(full / max_len)), "{full} bytes for {max_len} entries");
        for number in 0..1000 {
            log.record(&[b'k'; 1000], &denial(number));
        }
        assert_eq!(log.heap_bytes(), full);
        log.resize(0);
        assert_eq!(log.heap_bytes(), 0);
    }
}
