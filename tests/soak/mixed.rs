//! The mixed load: every command, in every way that a client can make it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use redis::Value;

use super::told::Told;
use crate::support::{Client, Dice, Server, bytes, error_text, list, words};

/// Names that several clients use, so that they meet, also with other limiters on one key.
const SHARED: u64 = 300;
/// Between two calls of a client at most, in us.
const THINK_US: u64 = 2500;

/// Errors that the load asks for.
const EXPECTED: [&str; 10] = [
    "WRONGTYPE",
    "ERR capacity must be",
    "ERR limit must be",
    "ERR rate must be",
    "ERR unknown option",
    "ERR COST must be",
    "ERR AT is",
    "ERR no such key",
    "ERR syntax error",
    "BUSYKEY",
];

struct Mixed<'a> {
    server: &'a Server,
    client: Client,
    dice: Dice,
    seed: u64,
    made: u64,
    told: Told,
    latency_us: Histogram<u64>,
}

/// Makes calls until the load ends; what it was told, and how long the answers took in us.
pub fn run(server: &Server, seed: u64, stop: &AtomicBool) -> (Told, Histogram<u64>) {
    let mut mixed = Mixed {
        server,
        client: server.client(),
        dice: Dice::new(seed),
        seed,
        made: 0,
        told: Told::default(),
        latency_us: Histogram::new(3).expect("a histogram"),
    };
    while !stop.load(Ordering::Relaxed) {
        mixed.step();
        thread::sleep(Duration::from_micros(mixed.dice.throw(THINK_US)));
    }
    (mixed.told, mixed.latency_us)
}

impl Mixed<'_> {
    /// A name: mostly a new one.
    fn key(&mut self) -> String {
        if self.dice.throw(10) < 3 {
            return format!("shared:{}", self.dice.throw(SHARED));
        }
        self.made += 1;
        let long = if self.dice.throw(500) == 0 { "x".repeat(5000) } else { String::new() };
        format!("new:{}:{}{long}", self.seed, self.made)
    }

    fn step(&mut self) {
        match self.dice.throw(100) {
            0..50 => {
                let line = self.call();
                self.ask(&line);
            }
            50..60 => self.together(),
            60..68 => {
                let line = format!("RL.THROTTLE {} 5 100 1", self.key());
                self.ask(&line);
            }
            68..73 => self.script(),
            73..78 => self.transaction(),
            78..82 => self.pipeline(),
            82..88 => self.look(),
            88..91 => self.mistake(),
            91..94 => self.copy(),
            94..95 => {
                let key = format!("shared:{}", self.dice.throw(SHARED));
                self.other(&format!("SET {key} x PX 300"));
            }
            95..97 => {
                let key = self.key();
                (0..3).for_each(|_| self.ask(&format!("RL.LEAKY {key} 5 200 WAIT 100")));
            }
            97..98 => drop(self.other("WAIT 1 50")),
            _ => self.vanish(),
        }
    }

    /// A call that lets its key expire soon. RL.REFUND is as good as any.
    fn call(&mut self) -> String {
        let key = self.key();
        self.dice.short_call(&key)
    }

    /// Makes a call and notes its answer.
    fn ask(&mut self, line: &str) {
        let start = Instant::now();
        let value = self.client.run(line);
        let us = u64::try_from(start.elapsed().as_micros()).expect("a short time");
        self.latency_us.record(us).expect("within bounds");
        self.note(line, &value);
    }

    fn note(&mut self, line: &str, value: &Value) {
        if let Some(error) = self.told.note(line, value) {
            let expected = EXPECTED.iter().any(|known| error.starts_with(known));
            assert!(expected, "{line}: {error}");
        }
    }

    /// A command of the server's own.
    fn other(&mut self, line: &str) -> Value {
        let value = self.client.run(line);
        if let Some(error) = error_text(&value) {
            assert!(EXPECTED.iter().any(|known| error.starts_with(known)), "{line}: {error}");
        }
        value
    }

    fn together(&mut self) {
        let keys = [self.key(), self.key(), self.key()];
        let (one, two, three) = (&keys[0], &keys[1], &keys[2]);
        if one == two || two == three || one == three {
            return;
        }
        let limit = self.dice.throw(5) + 1;
        let line = format!(
            "RL.ALL 3 {one} {two} {three} TOKENBUCKET {limit} 100 SLIDING {limit} 150 LEAKY 9 200"
        );
        self.ask(&line);
    }

    /// The call within a script that returns its answer, an error included.
    fn script(&mut self) {
        let line = self.call();
        let mut call = words("EVAL return\\sredis.pcall(unpack(ARGV)) 0");
        call.extend(words(&line));
        let value = self.client.call(&call);
        self.note(&line, &value);
    }

    fn transaction(&mut self) {
        let lines: Vec<String> = (0..3).map(|_| self.call()).collect();
        let mut calls = vec![words("MULTI")];
        calls.extend(lines.iter().map(|line| words(line)));
        calls.push(words("EXEC"));
        let answers = self.client.pipeline(&calls);
        for (line, value) in lines.iter().zip(list(&answers[4])) {
            self.note(line, &value);
        }
    }

    fn pipeline(&mut self) {
        let lines: Vec<String> = (0..20).map(|_| self.call()).collect();
        let calls: Vec<_> = lines.iter().map(|line| words(line)).collect();
        for (line, value) in lines.iter().zip(self.client.pipeline(&calls)) {
            self.note(line, &value);
        }
    }

    fn look(&mut self) {
        let key = format!("shared:{}", self.dice.throw(SHARED));
        let line = match self.dice.throw(8) {
            0 => format!("RL.INFO {key}"),
            1 => format!("RL.PEEK {key} COST 2"),
            2 => "RL.LOG GET 20".to_owned(),
            3 => "RL.LOG LEN".to_owned(),
            4 => "RL.TOPDENIED COUNT 20".to_owned(),
            5 => "RL.STATS".to_owned(),
            6 => format!("MEMORY USAGE {key}"),
            _ => "INFO everything".to_owned(),
        };
        self.other(&line);
    }

    fn mistake(&mut self) {
        let key = self.key();
        let line = match self.dice.throw(6) {
            0 => format!("RL.TOKENBUCKET {key} 0 1"),
            1 => format!("RL.SLIDING {key} x 100"),
            2 => format!("RL.LEAKY {key} 5 1e3"),
            3 => format!("RL.TOKENBUCKET {key} 5 100 BURST 3"),
            4 => format!("RL.LEAKY {key} 5 100 COST -1"),
            _ => format!("RL.SLIDING {key} 99999999999999999999 100"),
        };
        self.ask(&line);
    }

    /// Values that come and go by the server's own commands.
    fn copy(&mut self) {
        let line = self.call();
        self.ask(&line);
        let key = line.split(' ').nth(1).expect("a key").to_owned();
        let other = format!("{key}:copy");
        match self.dice.throw(4) {
            0 => drop(self.other(&format!("RENAME {key} {other}"))),
            1 => drop(self.other(&format!("COPY {key} {other} REPLACE"))),
            2 => drop(self.other(&format!("UNLINK {key}"))),
            _ => {
                let dump = self.other(&format!("DUMP {key}"));
                if let Value::BulkString(_) = dump {
                    let mut call = words(&format!("RESTORE {other} 300"));
                    call.extend([bytes(&dump), b"REPLACE".to_vec()]);
                    assert_eq!(error_text(&self.client.call(&call)), None, "{line}");
                }
            }
        }
    }

    /// Leaves in the middle of a call, and comes back as another client.
    fn vanish(&mut self) {
        let other = self.server.client();
        let other = if self.dice.throw(2) == 0 { other.resp3() } else { other };
        let mut gone = std::mem::replace(&mut self.client, other);
        let line = format!("RL.SLIDING {} 5 200", self.key());
        self.told.unread(&line);
        // Only a part of it, or a wait that has just begun.
        gone.send(&words(&line));
        gone.cut();
    }
}
