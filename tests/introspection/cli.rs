//! redis-cli's help and hints, which come from COMMAND DOCS.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use super::support::{Server, until};

/// What the terminal shows of a limiter's arguments.
const SYNTAX: &str = "key capacity rate [PER period-ms] [COST cost] [PEEK] [FORCE] \
                      [RESERVE reserve] [SHADOW] [AT unix-time-ms]";

#[test]
fn help_explains_a_command() {
    let server = Server::start();
    let port = server.port().to_string();
    for name in ["RL.TOKENBUCKET", "rl.tokenbucket"] {
        let help = Command::new("redis-cli")
            .args(["-p", &port, "help", name])
            .output()
            .expect("redis-cli, of the same package as redis-server");
        let help = plain(&help.stdout);
        for told in [
            SYNTAX,
            "summary: Takes tokens from a bucket that time refills at a constant rate.",
            "since: 0.1.0",
            "group: module",
        ] {
            assert!(help.contains(told), "no {told} in:\n{help}");
        }
    }
}

/// On a terminal redis-cli shows what may follow what is typed.
#[test]
fn hints_follow_what_is_typed() {
    let server = Server::start();
    let cli = format!("stty cols 200; exec redis-cli -p {}", server.port());
    let terminal = Command::new("script")
        .args(["-qec", &cli, "/dev/null"])
        .env("TERM", "xterm")
        .env("REDISCLI_HISTFILE", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script, which gives a program a terminal");
    let mut terminal = KilledOnDrop(terminal);
    let shown = Arc::new(Mutex::new(Vec::new()));
    let mut output = terminal.0.stdout.take().expect("a pipe");
    let copy = Arc::clone(&shown);
    let reader = thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = output.read(&mut buffer) {
            copy.lock().expect("no panic").extend_from_slice(&buffer[..len]);
        }
    });
    let mut keyboard = terminal.0.stdin.take().expect("a pipe");
    let mut type_and_see = |typed: &str, hint: &str| {
        keyboard.write_all(typed.as_bytes()).expect("the terminal takes it");
        until(hint, || plain(&shown.lock().expect("no panic")).contains(hint));
    };
    // What is typed before the prompt is lost.
    type_and_see("", &format!(":{}> ", server.port()));
    type_and_see("RL.TOKENBUCKET ", &format!("RL.TOKENBUCKET {SYNTAX}"));
    type_and_see("k 5 1 ", "RL.TOKENBUCKET k 5 1 [PER period-ms] [COST cost]");
    type_and_see("\r", "(integer) 5");
    // Rules come again, so their hint ends with dots.
    type_and_see(
        "RL.ALL ",
        "RL.ALL numkeys key [key ...] TOKENBUCKET capacity rate [PER period-ms]",
    );
    drop(terminal);
    reader.join().expect("no panic");
}

/// A program that ends with the test; redis-cli ends with its terminal.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // Nothing more can be done where these fail: it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The text without the sequences that color it and move the cursor.
pub fn plain(shown: &[u8]) -> String {
    let shown = String::from_utf8_lossy(shown);
    let mut parts = shown.split('\x1b');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // A sequence ends with its first letter.
        let end = part.find(|letter: char| letter.is_ascii_alphabetic()).map_or(0, |end| end + 1);
        text.push_str(&part[end..]);
    }
    text
}
