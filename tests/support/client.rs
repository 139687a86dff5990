//! One connection to a server.
//!
//! Commands go out as RESP arrays of any bytes, and answers come back as [`Value`]s exactly as the
//! server sent them: an error is a [`Value::ServerError`], also inside of EXEC's array. A client
//! can send without reading, read without sending, and vanish at any point.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use redis::{Parser, Value};

use super::memcheck::MEMCHECK;
use super::{Reply, Several, bytes, error_text, text};

/// Longest time that an answer may take before the test fails instead of hanging.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(if MEMCHECK { 600 } else { 60 });

/// One connection.
pub struct Client {
    stream: TcpStream,
    parser: Parser,
}

impl Client {
    /// Connects to a server on the loopback address and speaks RESP2.
    pub fn connect(port: u16) -> io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Client { stream, parser: Parser::new() })
    }

    /// Gives up on an answer after `longest`.
    pub fn patience(self, longest: Duration) -> io::Result<Client> {
        self.stream.set_read_timeout(Some(longest))?;
        Ok(self)
    }

    /// Sends one command and returns its answer, an error included.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Value {
        self.send(args);
        self.read()
    }

    /// [`Client::call`] with the words of `line`, see [`words`].
    pub fn run(&mut self, line: &str) -> Value {
        self.call(&words(line))
    }

    /// Runs a command that must succeed.
    pub fn ok(&mut self, line: &str) -> Value {
        let value = self.run(line);
        if let Some(error) = error_text(&value) {
            panic!("{line}: {error}");
        }
        value
    }

    /// Runs a limiter's call that must be answered with numbers.
    pub fn limit(&mut self, line: &str) -> Reply {
        let value = self.run(line);
        Reply::new(&value).unwrap_or_else(|| panic!("{line}: {value:?} is no limiter's reply"))
    }

    /// Runs RL.ALL, which must be answered with the answers of its rules.
    pub fn all(&mut self, line: &str) -> Several {
        let value = self.run(line);
        Several::new(&value).unwrap_or_else(|| panic!("{line}: {value:?} is no reply of RL.ALL"))
    }

    /// Runs a command that must be refused and returns the error's whole text.
    pub fn refused(&mut self, line: &str) -> String {
        let value = self.run(line);
        error_text(&value).unwrap_or_else(|| panic!("{line}: {value:?} is no error"))
    }

    /// What MEMORY USAGE tells of a key, asked while the key has no time to live: Redis from 8.2 on
    /// with the C library's allocator reads beyond one that has, and may crash.
    pub fn memory_usage(&mut self, key: &str) -> i64 {
        let expire_ms = self.int(&format!("PEXPIRETIME {key}"));
        self.int(&format!("PERSIST {key}"));
        let bytes = self.int(&format!("MEMORY USAGE {key} SAMPLES 0"));
        self.int(&format!("PEXPIREAT {key} {expire_ms}"));
        bytes
    }

    /// Runs a command that answers with a number.
    pub fn int(&mut self, line: &str) -> i64 {
        let value = self.run(line);
        match value {
            Value::Int(number) => number,
            _ => panic!("{line}: {value:?} is no integer"),
        }
    }

    /// Sends all commands at once and then reads all answers.
    pub fn pipeline(&mut self, calls: &[Vec<Vec<u8>>]) -> Vec<Value> {
        let mut packed = Vec::new();
        calls.iter().for_each(|args| pack(&mut packed, args));
        self.send_bytes(&packed).expect("the server takes what is sent");
        calls.iter().map(|_| self.read()).collect()
    }

    /// Sends one command and leaves its answer unread.
    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        let mut packed = Vec::new();
        pack(&mut packed, args);
        self.send_bytes(&packed).expect("the server takes what is sent");
    }

    /// Sends raw bytes, for example a part of a command.
    pub fn send_bytes(&mut self, packed: &[u8]) -> io::Result<()> {
        self.stream.write_all(packed)
    }

    /// Reads one answer; the test fails if none comes.
    pub fn read(&mut self) -> Value {
        self.try_read().expect("the server answers")
    }

    /// Reads one answer, or the reason why none comes.
    pub fn try_read(&mut self) -> redis::RedisResult<Value> {
        self.parser.parse_value(&mut self.stream)
    }

    /// Sends one command to a server that may vanish.
    pub fn try_call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> redis::RedisResult<Value> {
        let mut packed = Vec::new();
        pack(&mut packed, args);
        self.send_bytes(&packed)?;
        self.try_read()
    }

    /// Speaks RESP3 from now on.
    pub fn resp3(mut self) -> Client {
        let hello = self.run("HELLO 3");
        assert_eq!(error_text(&hello), None, "HELLO 3");
        self
    }

    /// Closes the connection at once, whatever is still under way.
    pub fn cut(self) {
        // It may be closed already, which is as good.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// INFO's whole text of one section, or of all with `everything`.
    pub fn info(&mut self, section: &str) -> String {
        text(&self.ok(&format!("INFO {section}")))
    }

    /// The serialized value of `key`, empty if there is no such key.
    pub fn dump(&mut self, key: &str) -> Vec<u8> {
        match self.run(&format!("DUMP {key}")) {
            Value::Nil => Vec::new(),
            value => bytes(&value),
        }
    }

    /// The server's clock in µs.
    pub fn time_us(&mut self) -> i64 {
        let parts: Vec<i64> = super::list(&self.ok("TIME"))
            .iter()
            .map(|part| text(part).parse().expect("TIME answers numbers"))
            .collect();
        parts[0] * 1_000_000 + parts[1]
    }
}

/// Appends one command in the server's protocol.
pub fn pack<A: AsRef<[u8]>>(packed: &mut Vec<u8>, args: &[A]) {
    packed.extend(format!("*{}\r\n", args.len()).bytes());
    for arg in args {
        let arg = arg.as_ref();
        packed.extend(format!("${}\r\n", arg.len()).bytes());
        packed.extend(arg);
        packed.extend(b"\r\n");
    }
}

/// The words of a line, split at single blanks, with `\s` for a blank, `\e` for nothing (an empty
/// word), `\n`, `\r`, `\0`, `\\` and `\xHH` for any byte.
pub fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(unescape).collect()
}

fn unescape(word: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match rest.next() {
            Some(b's') => out.push(b' '),
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b'0') => out.push(0),
            Some(b'\\') => out.push(b'\\'),
            Some(b'e') => {}
            Some(b'x') => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = String::from_utf8(digits).expect("hexadecimal digits");
                out.push(u8::from_str_radix(&digits, 16).expect("hexadecimal digits"));
            }
            other => panic!("{word}: no escape {other:?}"),
        }
    }
    out
}

/// `args` as a line that a message can show, cut where it gets long.
pub fn quoted(args: &[Vec<u8>]) -> String {
    let shown: Vec<String> = args
        .iter()
        .take(40)
        .map(|arg| arg.iter().take(60).copied().collect::<Vec<u8>>())
        .map(|arg| arg.escape_ascii().to_string())
        .collect();
    shown.join(" ")
}
