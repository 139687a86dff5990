//! What one who watches a key knows of it, without the limiter's state: what passed and what was
//! given back, and by that whether more passed than the contract allows.

use std::collections::VecDeque;

use num_rational::BigRational;
use redis_rl::algorithm::bucket;
use redis_rl::algorithm::sliding_window;

use crate::model::{Subject, ceil_u64, whole};

/// The watcher of a key with one limit. Times are µs of a clock that only goes forward.
pub trait Ledger<S: Subject> {
    /// Nothing has passed yet.
    fn new(quota: S::Quota) -> Self;

    /// `units` pass: an error where that is more than the contract allows.
    fn passes(&mut self, us: u64, units: u64) -> Result<(), String>;

    /// So much of what was taken is given back.
    fn given_back(&mut self, us: u64, units: &BigRational);

    /// Whether, at some time, one more unit would have been too many.
    fn was_full(&self) -> bool;
}

/// At most capacity + rate x t, less what was given back, in any interval of `t`.
///
/// Counted in shares, of which a µs brings a whole number. With S the shares that have passed, no
/// interval from i to j has too many if S(j) - brought(j) is at most the capacity over the least
/// S(i - 1) - brought(i) before. So each call needs a look at one number.
pub struct Buckets {
    a_unit: i128,
    a_us: i128,
    capacity: i128,
    passed: i128,
    least: i128,
    most_over_least: i128,
}

impl Buckets {
    fn brought(&self, us: u64) -> i128 {
        i128::from(us) * self.a_us
    }

    /// An interval may begin here.
    fn begin(&mut self, us: u64) {
        self.least = self.least.min(self.passed - self.brought(us));
    }
}

impl<S: Subject<Quota = bucket::Quota>> Ledger<S> for Buckets {
    fn new(quota: bucket::Quota) -> Buckets {
        let scale = 10_i128.pow(u32::from(quota.rate.decimals));
        let a_unit = scale * i128::from(quota.period_ms) * 1000;
        Buckets {
            a_unit,
            a_us: i128::from(quota.rate.mantissa),
            capacity: i128::from(quota.capacity) * a_unit,
            passed: 0,
            least: i128::MAX,
            most_over_least: 0,
        }
    }

    fn passes(&mut self, us: u64, units: u64) -> Result<(), String> {
        self.begin(us);
        self.passed += i128::from(units) * self.a_unit;
        let over_least = self.passed - self.brought(us) - self.least;
        self.most_over_least = self.most_over_least.max(over_least);
        let over = over_least - self.capacity;
        if over > 0 { Err(format!("{over} of {} shares too much", self.a_unit)) } else { Ok(()) }
    }

    fn given_back(&mut self, us: u64, units: &BigRational) {
        self.begin(us);
        let shares = units * whole(self.a_unit);
        assert!(shares.is_integer(), "a part of a share is given back");
        self.passed -= i128::try_from(shares.to_integer()).expect("below a capacity");
    }

    fn was_full(&self) -> bool {
        self.most_over_least > self.capacity - self.a_unit
    }
}

/// At most `limit` units in any window, however it lies: it has most where it ends with a hit.
pub struct Windows {
    quota: sliding_window::Quota,
    hits: VecDeque<(u64, u64)>,
    units: u64,
    most: u64,
}

impl<S: Subject<Quota = sliding_window::Quota>> Ledger<S> for Windows {
    fn new(quota: sliding_window::Quota) -> Windows {
        Windows { quota, hits: VecDeque::new(), units: 0, most: 0 }
    }

    fn passes(&mut self, us: u64, units: u64) -> Result<(), String> {
        while let Some(&(hit_us, gone)) = self.hits.front() {
            if us - hit_us < self.quota.window_ms * 1000 {
                break;
            }
            self.units -= gone;
            self.hits.pop_front();
        }
        self.hits.push_back((us, units));
        self.units += units;
        self.most = self.most.max(self.units);
        if self.units > self.quota.limit {
            return Err(format!("{} units in a window", self.units));
        }
        Ok(())
    }

    /// The newest hits are those that are taken out.
    fn given_back(&mut self, _us: u64, units: &BigRational) {
        let mut left = ceil_u64(units);
        while left > 0 {
            let Some((_, newest)) = self.hits.back_mut() else { return };
            let taken = left.min(*newest);
            *newest -= taken;
            self.units -= taken;
            left -= taken;
            if *newest == 0 {
                self.hits.pop_back();
            }
        }
    }

    fn was_full(&self) -> bool {
        self.most == self.quota.limit
    }
}
