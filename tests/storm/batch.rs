//! What one connection sends at once: calls as they are, in transactions, scripts and functions,
//! and between them what users do to keys and operators to servers.

use redis::Value;

use super::calls::{Caller, KEYS, TAME, Words, key};
use super::judge::{Tally, judge};
use super::support::{bytes, error_text, int, list, payload, quoted, words};

/// The script, and the function of the library, through which calls go.
const SCRIPTS: [&[u8]; 2] =
    [b"return redis.call(unpack(ARGV))", b"return redis.pcall(unpack(ARGV))"];
pub const LIBRARY: &[u8] =
    b"#!lua name=storm\nredis.register_function('storm', function(keys, args) \
      return redis.call(unpack(args)) end)";

/// How an answer is to be judged.
pub enum Due {
    /// As that of a call of the module.
    Call(Words),
    /// The same from a script.
    Script(Words),
    /// It is a serialized value, if any.
    Dump,
    /// Any answer will do, for the server's own commands.
    Any,
    /// The command is queued, to be judged in EXEC's answer.
    Queued(Box<Due>),
    /// The queued commands' answers. Not all were queued, where it was spoiled.
    Exec,
    /// The time to live of the key of the call before.
    Ttl,
}

/// Commands to be sent at once.
pub type Batch = Vec<(Words, Due)>;

/// Serialized values that were seen, to be restored.
const DUMPS: usize = 64;

/// Makes batches and judges their answers.
pub struct Storm {
    pub caller: Caller,
    pub tally: Tally,
    dumps: Vec<Vec<u8>>,
    /// Whether users ask for MEMORY USAGE.
    measures: bool,
}

impl Storm {
    pub fn new(seed: u64, measures: bool) -> Storm {
        Storm { caller: Caller::new(seed), tally: Tally::default(), dumps: Vec::new(), measures }
    }

    /// What one connection sends, and how many calls of the module are in it.
    pub fn batch(&mut self) -> Batch {
        let mut batch = Batch::new();
        for _ in 0..=self.caller.dice.throw(30) {
            match self.caller.dice.throw(40) {
                0..=23 => {
                    let call = self.caller.call(true);
                    batch.push((call.clone(), Due::Call(call)));
                }
                24..=27 => self.script(&mut batch),
                28..=30 => self.transaction(&mut batch),
                31..=33 => self.timed(&mut batch),
                34 => self.restore(&mut batch),
                35..=38 => self.user(&mut batch),
                _ => self.operator(&mut batch),
            }
        }
        batch
    }

    /// A call from a script or a function.
    fn script(&mut self, batch: &mut Batch) {
        let call = self.caller.call(false);
        let mut sent = match self.caller.dice.throw(3) {
            0 => words("FCALL storm 0"),
            number => {
                let script = SCRIPTS[usize::try_from(number - 1).expect("an index")];
                vec![b"EVAL".to_vec(), script.to_vec(), b"0".to_vec()]
            }
        };
        sent.extend(call.iter().cloned());
        batch.push((sent, Due::Script(call)));
    }

    /// Some calls in a transaction, which is given up, broken or carried out.
    fn transaction(&mut self, batch: &mut Batch) {
        if self.caller.once_in(4) {
            batch.push((vec![b"WATCH".to_vec(), self.any_key()], Due::Any));
        }
        batch.push((words("MULTI"), Due::Any));
        for _ in 0..self.caller.dice.throw(5) {
            let call = self.caller.call(false);
            batch.push((call.clone(), Due::Queued(Box::new(Due::Call(call)))));
        }
        match self.caller.dice.throw(8) {
            0 => {
                // What was queued is forgotten.
                batch.push((words("DISCARD"), Due::Any));
                let kept = batch.iter().rposition(|(sent, _)| sent[0] == b"MULTI");
                batch[kept.expect("MULTI") + 1..].iter_mut().for_each(|(_, due)| *due = Due::Any);
            }
            1 => {
                batch.push((words("NOSUCHCOMMAND"), Due::Queued(Box::new(Due::Any))));
                batch.push((words("EXEC"), Due::Exec));
            }
            _ => batch.push((words("EXEC"), Due::Exec)),
        }
    }

    /// A call and the time to live that it leaves, at one instant.
    fn timed(&mut self, batch: &mut Batch) {
        let call = self.caller.call(false);
        let Some(key) = call.get(1).cloned() else { return };
        batch.push((words("MULTI"), Due::Any));
        batch.push((call.clone(), Due::Queued(Box::new(Due::Call(call)))));
        batch.push((vec![b"PTTL".to_vec(), key], Due::Queued(Box::new(Due::Ttl))));
        batch.push((words("EXEC"), Due::Exec));
    }

    /// A value that is serialized, or one that was, as it was or damaged.
    fn restore(&mut self, batch: &mut Batch) {
        let number = self.caller.number_of_key();
        if self.dumps.is_empty() || self.caller.once_in(2) {
            batch.push((vec![b"DUMP".to_vec(), key(number)], Due::Dump));
            return;
        }
        let index = self.caller.below(self.dumps.len());
        let dump = self.dumps[index].clone();
        let value = if self.caller.once_in(4) { dump } else { self.damaged(&dump) };
        let ttl_ms = if number < TAME { 1 + self.caller.dice.throw(100_000) } else { 0 };
        let ttl = ttl_ms.to_string().into_bytes();
        let sent = vec![b"RESTORE".to_vec(), key(number), ttl, value, b"REPLACE".to_vec()];
        batch.push((sent, Due::Any));
    }

    /// Damages what the module wrote, mostly under a checksum that is right.
    fn damaged(&mut self, dump: &[u8]) -> Vec<u8> {
        // In front stand the server's own type of value and the module's name.
        const FRONT: usize = 10;
        let mut body = payload::body(dump).to_vec();
        for _ in 0..=self.caller.dice.throw(3) {
            let at = FRONT + self.caller.below(body.len().saturating_sub(FRONT));
            let byte = self.caller.bytes(1);
            match self.caller.dice.throw(4) {
                0 => body.truncate(at),
                1 => body.iter_mut().skip(at).take(1).for_each(|old| *old ^= 1),
                2 => body.iter_mut().skip(at).zip(byte).for_each(|(old, new)| *old = new),
                _ => body.splice(at.min(body.len())..at.min(body.len()), byte).for_each(drop),
            }
        }
        let mut damaged = payload::stamp(&body, payload::format(dump));
        if self.caller.once_in(8) {
            let at = self.caller.below(damaged.len());
            damaged[at] ^= 0x10;
        }
        damaged
    }

    fn any_key(&mut self) -> Vec<u8> {
        key(self.caller.number_of_key())
    }

    /// What users do to keys with the server's own commands. Only keys from [`TAME`] on may lose
    /// their time to live.
    fn user(&mut self, batch: &mut Batch) {
        let (one, other) = (self.caller.number_of_key(), self.caller.number_of_key());
        let (one, other) = (one.min(other), one.max(other));
        let wild = TAME + self.caller.dice.throw(KEYS - TAME);
        let from_to = |name: &[u8]| vec![name.to_vec(), key(one), key(other)];
        let ms =
            self.caller.dice.pick(&[-1, 0, 1, 50, 100_000, 1_i64 << 50]).to_string().into_bytes();
        let sent = match self.caller.dice.throw(14) {
            0 => vec![b"DEL".to_vec(), key(one)],
            1 => vec![b"UNLINK".to_vec(), key(one), key(other)],
            2 => from_to(b"RENAME"),
            3 => from_to(b"RENAMENX"),
            4 => [from_to(b"COPY"), words("REPLACE")].concat(),
            5 => [from_to(b"COPY"), words("DB 1 REPLACE")].concat(),
            6 => vec![b"PERSIST".to_vec(), key(wild)],
            7 => vec![b"PEXPIRE".to_vec(), key(one), ms],
            8 => vec![b"PEXPIREAT".to_vec(), key(one), b"4000000000000".to_vec()],
            9 => vec![b"SET".to_vec(), key(one), b"text".to_vec(), b"PX".to_vec(), b"500".to_vec()],
            10 => vec![b"TYPE".to_vec(), key(one)],
            11 => vec![b"MOVE".to_vec(), key(one.min(TAME - 1)), b"1".to_vec()],
            12 => vec![b"APPEND".to_vec(), key(one), b"x".to_vec()],
            _ if self.measures => [words("MEMORY USAGE"), vec![key(one)]].concat(),
            _ => vec![b"OBJECT".to_vec(), b"ENCODING".to_vec(), key(one)],
        };
        batch.push((sent, Due::Any));
    }

    /// What operators do to a server, the rarer the more it does.
    fn operator(&mut self, batch: &mut Batch) {
        let often = [
            "CONFIG SET rl.topdenied-size 0",
            "CONFIG SET rl.topdenied-size 7",
            "CONFIG SET rl.topdenied-size 10000",
            "CONFIG SET rl.topdenied-size 10001",
            "CONFIG SET rl.log-max-len 0",
            "CONFIG SET rl.log-max-len 3",
            "CONFIG SET rl.log-max-len 100000",
            "CONFIG SET rl.log-max-len -1",
            "CONFIG SET rl.log-max-len many",
            "CONFIG SET rl.sliding-max-bytes 0",
            "CONFIG SET rl.sliding-max-bytes 300",
            "CONFIG SET rl.sliding-max-bytes 1099511627777",
            "CONFIG SET rl.client-time no",
            "CONFIG SET rl.client-time maybe",
            "CONFIG SET rl.compat-cell no",
            "CONFIG SET maxmemory 1",
            "CONFIG GET rl.*",
            "COMMAND DOCS rl.all",
            "COMMAND GETKEYS RL.ALL 2 a b SLIDING 1 1 SLIDING 1 1",
            "CONFIG SET notify-keyspace-events KEA",
            "INFO everything",
        ];
        let rarely = ["SWAPDB 0 1", "BGSAVE", "BGREWRITEAOF", "CONFIG REWRITE"];
        let line = match self.caller.dice.throw(400) {
            0 => "FLUSHDB",
            1..=5 => self.caller.dice.pick(&rarely),
            _ => self.caller.dice.pick(&often),
        };
        batch.push((words(line), Due::Any));
        // Some calls find no memory.
        for _ in 0..self.caller.dice.throw(4) {
            let call = self.caller.call(true);
            batch.push((call.clone(), Due::Call(call)));
        }
        batch.push((words("CONFIG SET maxmemory 0"), Due::Any));
        // Most of the time callers bring their clock.
        if !self.caller.once_in(4) {
            batch.push((words("CONFIG SET rl.client-time yes"), Due::Any));
        }
    }

    /// Judges the answers to a batch.
    pub fn judge(&mut self, batch: Batch, answers: &[Value]) {
        let mut queued = Vec::new();
        let mut spoiled = false;
        for ((sent, due), answer) in batch.into_iter().zip(answers) {
            match due {
                Due::Queued(due) if error_text(answer).is_some() => {
                    spoiled = true;
                    self.refused_to_queue(&sent, &due, answer);
                }
                Due::Queued(due) => queued.push(*due),
                Due::Exec if spoiled => {
                    let error = error_text(answer).unwrap_or_default();
                    assert!(error.starts_with("EXECABORT"), "{answer:?}");
                }
                // A watched key was written.
                Due::Exec if *answer == Value::Nil => {}
                Due::Exec => self.judge_transaction(&queued, answer),
                due => {
                    self.judge_one(&due, answer, &sent);
                }
            }
            if sent[0] == b"EXEC" || sent[0] == b"DISCARD" {
                queued.clear();
                spoiled = false;
            }
        }
    }

    /// What cannot be queued has the wrong number of words, or there is no memory.
    fn refused_to_queue(&mut self, sent: &Words, due: &Due, answer: &Value) {
        let error = error_text(answer).expect("an error");
        if matches!(due, Due::Call(_)) && !error.starts_with("OOM") {
            let due = "ERR wrong number of arguments for '";
            assert!(error.starts_with(due), "{}: {error}", quoted(sent));
            self.tally.count("error arity");
        }
    }

    fn judge_transaction(&mut self, queued: &[Due], answer: &Value) {
        let answers = list(answer);
        assert_eq!(answers.len(), queued.len(), "{answer:?}");
        let mut took = false;
        for (nth, (due, answer)) in queued.iter().zip(&answers).enumerate() {
            let Due::Ttl = due else {
                took = self.judge_one(due, answer, &Vec::new());
                continue;
            };
            let before = &answers[nth - 1];
            if took {
                // Elements of every limiter's reply; the clock of some servers goes on meanwhile.
                let (reset_ms, ttl_ms) = (int(&list(before)[4]), int(answer));
                let range = reset_ms - 1000..=reset_ms + 1000;
                assert!(range.contains(&ttl_ms), "{before:?}, but lives for {ttl_ms} ms");
                self.tally.count("times to live checked");
            }
        }
    }

    /// Whether the answer is that of a call that has taken.
    fn judge_one(&mut self, due: &Due, answer: &Value, sent: &Words) -> bool {
        match due {
            Due::Call(call) => return judge(call, answer, false, &mut self.tally),
            Due::Script(call) => return judge(call, answer, true, &mut self.tally),
            Due::Dump if *answer != Value::Nil => {
                let dump = bytes(answer);
                // Only values of modules, in the format that tells where each part ends.
                if dump.first() == Some(&7) {
                    if self.dumps.len() == DUMPS {
                        let place = self.caller.below(DUMPS);
                        self.dumps.swap_remove(place);
                    }
                    self.dumps.push(dump);
                }
            }
            _ => {
                let error = error_text(answer).unwrap_or_default();
                assert!(!error.contains("internal error in the module"), "{}", quoted(sent));
                if sent.first().is_some_and(|name| name == b"RESTORE") {
                    let refused = if error.is_empty() { "taken" } else { "refused" };
                    self.tally.count(&format!("RESTORE {refused}"));
                }
            }
        }
        false
    }
}
