//! Calls of the module's commands, most of them right, the rest wrong in one place: a number out of
//! its range or none at all, an option that is unknown, given twice or without its value, words
//! missing or too many, keys of any bytes and of the wrong type.

use super::support::Dice;

/// One command, word by word.
pub type Words = Vec<Vec<u8>>;

/// Keys that are used, in each database. Those below [`TAME`] are never left without a time to
/// live by a user of the storm.
pub const KEYS: u64 = 96;
/// See [`KEYS`].
pub const TAME: u64 = 64;

/// The commands, the frequent ones more than once.
const COMMANDS: [&str; 33] = [
    "RL.TOKENBUCKET",
    "RL.TOKENBUCKET",
    "RL.TOKENBUCKET",
    "RL.TOKENBUCKET",
    "RL.TOKENBUCKET",
    "RL.LEAKY",
    "RL.LEAKY",
    "RL.LEAKY",
    "RL.LEAKY",
    "RL.LEAKY",
    "RL.SLIDING",
    "RL.SLIDING",
    "RL.SLIDING",
    "RL.SLIDING",
    "RL.SLIDING",
    "RL.SLIDING",
    "RL.ALL",
    "RL.ALL",
    "RL.ALL",
    "RL.THROTTLE",
    "RL.THROTTLE",
    "CL.THROTTLE",
    "RL.PEEK",
    "RL.PEEK",
    "RL.INFO",
    "RL.INFO",
    "RL.REFUND",
    "RL.REFUND",
    "RL.REFUND",
    "RL.STATS",
    "RL.TOPDENIED",
    "RL.LOG",
    "rl.effect",
];

/// Words that are no number of any argument.
const NO_NUMBERS: [&[u8]; 24] = [
    b"",
    b"-1",
    b"+1",
    b" 1",
    b"1 ",
    b"1e3",
    b"0x10",
    b"nan",
    b"inf",
    b"-0",
    b"1.5",
    b".5",
    b"5.",
    b"0.0",
    b"0.0000000001",
    b"1000000000.1",
    b"9007199254740993",
    b"9223372036854775808",
    b"18446744073709551616",
    b"-9223372036854775808",
    b"340282366920938463463374607431768211456",
    b"\xff\x00\r\n",
    b"\xd9\xa1",
    b"one",
];

/// Numbers at the ends of the ranges of some argument.
const ENDS: [&[u8]; 10] = [
    b"0",
    b"1",
    b"2",
    b"007",
    b"9007199254740992",
    b"9007199254740991",
    b"315360000000",
    b"315360000001",
    b"1000000000",
    b"0.000000001",
];

/// The options of the limiters; `true` for those with a value.
const OPTIONS: [(&str, bool); 12] = [
    ("COST", true),
    ("COST", true),
    ("PEEK", false),
    ("FORCE", false),
    ("RESERVE", true),
    ("SHADOW", false),
    ("AT", true),
    ("AT", true),
    ("PER", true),
    ("MAXDELAY", true),
    ("WAIT", true),
    ("RESOLUTION", true),
];

/// Throws calls.
pub struct Caller {
    pub dice: Dice,
    /// The time that calls bring, in ms: it goes on, and back now and then.
    now_ms: u64,
}

impl Caller {
    pub fn new(seed: u64) -> Caller {
        Caller { dice: Dice::new(seed), now_ms: 1_700_000_000_000 }
    }

    /// Whether something happens that happens once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.dice.throw(times) == 0
    }

    /// A call of one of the module's commands. Where `blocks`, it holds its client for a few ms at
    /// most.
    pub fn call(&mut self, blocks: bool) -> Words {
        let name = self.dice.pick(&COMMANDS);
        let mut words = vec![self.cased(name)];
        match name {
            "RL.TOKENBUCKET" | "RL.LEAKY" | "RL.SLIDING" => self.limiter(name, blocks, &mut words),
            "RL.ALL" => self.all(&mut words),
            "RL.THROTTLE" | "CL.THROTTLE" => self.throttle(&mut words),
            "RL.STATS" => self.some(&["RESET"], 20, &mut words),
            "RL.TOPDENIED" => self.top_denied(&mut words),
            "RL.LOG" => self.log(&mut words),
            "rl.effect" => {
                words.push(key(self.number_of_key()));
                words.push(self.bytes(40));
            }
            _ => self.on_a_key(name, &mut words),
        }
        self.spoil(&mut words);
        words
    }

    /// Now and then a word is missing, there are too many, or one is anything.
    fn spoil(&mut self, words: &mut Words) {
        if self.once_in(60) {
            let least = 1;
            let left = least + self.below(words.len() - least + 1);
            words.truncate(left);
        }
        if self.once_in(80) {
            words.push(self.bytes(8));
        }
        if self.once_in(80) && words.len() > 1 {
            let at = 1 + self.below(words.len() - 1);
            words[at] = self.bytes(8);
        }
    }

    fn limiter(&mut self, name: &str, blocks: bool, words: &mut Words) {
        let kind = match name {
            "RL.TOKENBUCKET" => 0,
            "RL.LEAKY" => 1,
            _ => 2,
        };
        words.push(self.key_of_kind(kind));
        self.limit(kind, words);
        for _ in 0..self.dice.pick(&[0, 0, 0, 0, 1, 1, 1, 2, 2, 3]) {
            let (option, valued) = self.dice.pick(&OPTIONS);
            self.option(option, valued, blocks, words);
        }
    }

    /// Capacity and rate, or limit and window.
    fn limit(&mut self, kind: u64, words: &mut Words) {
        let capacity = self.dice.pick(&[1, 2, 3, 5, 10, 10, 100, 1_000_000]);
        words.push(self.number(capacity));
        if kind == 2 {
            let window_ms = self.dice.pick(&[1, 20, 1000, 60_000, 3_600_000, 86_400_000]);
            words.push(self.number(window_ms));
        } else {
            let rates: [&[u8]; 7] =
                [b"1", b"10", b"0.1", b"2.5", b"0.001", b"1000", b"0.000000001"];
            let rate = self.dice.pick(&rates);
            words.push(if self.once_in(25) { self.strange() } else { rate.to_vec() });
        }
    }

    fn option(&mut self, option: &str, valued: bool, blocks: bool, words: &mut Words) {
        words.push(if self.once_in(40) { self.bytes(10) } else { self.cased(option) });
        if !valued || self.once_in(40) {
            return;
        }
        let value = match option {
            "COST" | "RESERVE" => self.dice.pick(&[0, 1, 1, 2, 3, 5, 11]),
            "AT" => return words.push(self.at()),
            // Whoever is in no transaction and no script waits indeed.
            "WAIT" if blocks => self.dice.pick(&[0, 1, 2, 3]),
            "WAIT" | "MAXDELAY" => self.dice.pick(&[0, 1, 1000, 60_000, 315_360_000_000]),
            "RESOLUTION" => self.dice.pick(&[1, 7, 1000, 60_000]),
            _ => self.dice.pick(&[1, 1000, 60_000, 3_600_000, 86_400_000]),
        };
        if option == "WAIT" && blocks {
            words.push(value.to_string().into_bytes());
        } else {
            words.push(self.number(value));
        }
    }

    fn all(&mut self, words: &mut Words) {
        let count = self.dice.pick(&[1, 2, 2, 3, 3, 4, 6]);
        let said = if self.once_in(40) { self.dice.throw(2 * count + 1) } else { count };
        words.push(self.number(said));
        let kinds: Vec<u64> = (0..count).map(|_| self.dice.throw(3)).collect();
        for kind in &kinds {
            words.push(self.key_of_kind(*kind));
        }
        for kind in kinds {
            let names = ["TOKENBUCKET", "LEAKY", "SLIDING"];
            words.push(self.cased(names[usize::try_from(kind).expect("one of three")]));
            self.limit(kind, words);
            if self.once_in(3) {
                let option = self.dice.pick(&["COST", "RESERVE", "PER", "MAXDELAY", "RESOLUTION"]);
                let other = match (option, kind) {
                    ("PER" | "MAXDELAY", 2) | ("MAXDELAY" | "RESOLUTION", 0) => "COST",
                    ("RESOLUTION", 1) => "PER",
                    _ => option,
                };
                self.option(other, true, false, words);
            }
        }
        for (option, valued) in [("PEEK", false), ("SHADOW", false), ("AT", true)] {
            if self.once_in(6) {
                self.option(option, valued, false, words);
            }
        }
    }

    fn throttle(&mut self, words: &mut Words) {
        words.push(self.key_of_kind(0));
        for choices in [[0, 3, 10, 100], [1, 10, 30, 1000], [1, 60, 3600, 86_400]] {
            let value = self.dice.pick(&choices);
            words.push(self.number(value));
        }
        if self.once_in(3) {
            let value = self.dice.pick(&[0, 1, 2, 12]);
            words.push(self.number(value));
        }
    }

    /// RL.PEEK, RL.INFO and RL.REFUND.
    fn on_a_key(&mut self, name: &str, words: &mut Words) {
        words.push(key(self.number_of_key()));
        if name == "RL.REFUND" {
            let back = self.dice.pick(&[1, 1, 2, 5, 1_000_000]);
            words.push(self.number(back));
        }
        if name == "RL.PEEK" && self.once_in(3) {
            self.option("COST", true, false, words);
        }
        if self.once_in(4) {
            self.option("AT", true, false, words);
        }
    }

    fn top_denied(&mut self, words: &mut Words) {
        if self.once_in(2) {
            self.option("COUNT", true, false, words);
        }
        self.some(&["RESET"], 20, words);
    }

    fn log(&mut self, words: &mut Words) {
        match self.dice.throw(20) {
            0 => words.push(self.cased("RESET")),
            1..=5 => words.push(self.cased("LEN")),
            6 => words.push(self.bytes(6)),
            _ => {
                words.push(self.cased("GET"));
                if self.once_in(2) {
                    words.push(self.number(5));
                }
            }
        }
    }

    fn some(&mut self, options: &[&str], times: u64, words: &mut Words) {
        if self.once_in(times) {
            let option = self.dice.pick(options);
            words.push(self.cased(option));
        }
    }

    /// `value`, or now and then a word that is out of some range, or no number at all.
    fn number(&mut self, value: u64) -> Vec<u8> {
        if self.once_in(25) { self.strange() } else { value.to_string().into_bytes() }
    }

    fn strange(&mut self) -> Vec<u8> {
        match self.dice.throw(5) {
            0 | 1 => self.dice.pick(&NO_NUMBERS).to_vec(),
            2 | 3 => self.dice.pick(&ENDS).to_vec(),
            _ => vec![b'9'; 1 + self.below(400)],
        }
    }

    fn at(&mut self) -> Vec<u8> {
        let step = self.dice.pick(&[0, 0, 1, 100, 1000, 60_000]);
        self.now_ms += step;
        let back = self.dice.pick(&[0, 0, 0, 0, 1, 1000, 86_400_000, 1_700_000_000_000]);
        let now_ms = self.now_ms.saturating_sub(back);
        self.number(now_ms)
    }

    /// A name in any case.
    fn cased(&mut self, name: &str) -> Vec<u8> {
        if self.once_in(2) { name.as_bytes().to_vec() } else { name.to_lowercase().into_bytes() }
    }

    /// Any bytes, at most so many.
    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        let len = self.below(most + 1);
        (0..len).map(|_| u8::try_from(self.dice.throw(256)).expect("a byte")).collect()
    }

    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).expect("a length");
        usize::try_from(self.dice.throw(bound)).expect("below a length")
    }

    pub fn number_of_key(&mut self) -> u64 {
        self.dice.throw(KEYS)
    }

    /// A key that holds a state of this limiter, most often.
    fn key_of_kind(&mut self, kind: u64) -> Vec<u8> {
        let number = self.number_of_key();
        if self.once_in(20) { key(number) } else { key(number - number % 3 + kind) }
    }
}

/// The name of a key: short ones, an empty one, long ones and ones of any bytes.
pub fn key(number: u64) -> Vec<u8> {
    let plain = format!("k{number}").into_bytes();
    match number % 16 {
        0 if number == 0 => Vec::new(),
        1 => [b"\0\xff\r\n$5{", plain.as_slice(), b"}\xc3\x28"].concat(),
        2 => [vec![b'x'; 3000], plain].concat(),
        3 => [plain.as_slice(), "schlüssel \u{1f511}".as_bytes()].concat(),
        _ => plain,
    }
}
