//! Random choices that a failing test can repeat: the seed is all there is to them.

/// How many keys of each limiter [`Dice::long_call`] uses.
pub const KEYS_OF_EACH: u64 = 8;

/// A small generator (xorshift64*); good enough to mix calls, for nothing else.
pub struct Dice(u64);

impl Dice {
    /// The same seed throws the same numbers.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number from 0 to `sides` - 1.
    pub fn throw(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    /// One of the choices.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let sides = u64::try_from(choices.len()).expect("a short list");
        choices[usize::try_from(self.throw(sides)).expect("an index")]
    }

    /// A limiter's call on `key` that lets it expire soon, with options now and then.
    pub fn short_call(&mut self, key: &str) -> String {
        let limit = self.throw(20) + 1;
        let option = self.pick(&["", "", "", " COST 0", " COST 2", " PEEK", " FORCE", " SHADOW"]);
        match self.throw(5) {
            0 => format!("RL.TOKENBUCKET {key} {limit} {}{option}", self.throw(900) + 100),
            1 => format!("RL.LEAKY {key} {limit} {}{option}", self.throw(900) + 100),
            2 => format!("RL.SLIDING {key} {limit} {}{option}", self.throw(200) + 1),
            3 => format!("RL.PEEK {key}"),
            _ => format!("RL.REFUND {key} {}", self.throw(3) + 1),
        }
    }

    /// A call on one of a few keys of each limiter, which live for hours: allowed, denied, forced,
    /// refunded, a look, or with parameters of its own.
    pub fn long_call(&mut self) -> String {
        let number = self.throw(KEYS_OF_EACH);
        let limit = self.pick(&[5, 5, 5, 5, 3, 8]);
        let cost = self.throw(4);
        let option = self.pick(&["", "", "", " FORCE", " PEEK", " SHADOW", " RESERVE 2"]);
        let hours = self.pick(&[1, 1, 1, 2]) * 3_600_000;
        match self.throw(8) {
            0 | 1 => format!("RL.TOKENBUCKET t{number} {limit} 1 PER {hours} COST {cost}{option}"),
            2 | 3 => format!("RL.LEAKY l{number} {limit} 1 PER {hours} COST {cost}{option}"),
            4 | 5 => format!("RL.SLIDING s{number} {limit} {hours} COST {cost}{option}"),
            6 => format!("RL.PEEK {}{number} COST {cost}", self.pick(&["t", "l", "s"])),
            _ => format!("RL.REFUND {}{number} {}", self.pick(&["t", "l", "s"]), cost + 1),
        }
    }
}
