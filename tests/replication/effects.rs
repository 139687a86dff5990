//! What is sent: one effect for each call that writes, with its absolute expiry, and never the
//! call itself. Read from the stream as a replica gets it, and from the append-only file.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use redis::{Parser, Value};

use super::support::{Client, Config, Server, bytes, list, pack, until, words};
use super::{FUNCTIONS, LIMITERS, SCRIPT, assert_same};

/// A command, as its words.
pub type Command = Vec<Vec<u8>>;

/// The replication stream of a server, read by somebody who claims to be a replica.
pub struct Stream {
    connection: TcpStream,
    parser: Parser,
    /// Marks that were set so far: each ends a stretch of the stream.
    pub marks: usize,
}

impl Stream {
    /// Asks for everything, skips the data set, and reads on from there.
    pub fn of(server: &Server) -> Stream {
        let mut connection = TcpStream::connect(("127.0.0.1", server.port())).expect("a server");
        connection.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        let mut sync = Vec::new();
        pack(&mut sync, &["SYNC"]);
        std::io::Write::write_all(&mut connection, &sync).expect("the server takes it");
        // Empty lines keep the connection alive until the data set is ready: `$length`, its bytes.
        let mut header = String::new();
        while !header.starts_with('$') || !header.ends_with('\n') {
            let mut byte = [0];
            connection.read_exact(&mut byte).expect("the data set");
            header.push(char::from(byte[0]));
            header = header.trim_start().to_owned();
        }
        let length: u64 = header[1..].trim().parse().expect("the length of the data set");
        let skipped = std::io::copy(&mut (&connection).take(length), &mut std::io::sink());
        assert_eq!(skipped.expect("the data set"), length);
        Stream { connection, parser: Parser::new(), marks: 0 }
    }

    /// The commands since the mark before, up to a new one.
    pub fn commands(&mut self, client: &mut Client) -> Vec<Command> {
        self.marks += 1;
        client.ok(&format!("SET mark {}", self.marks));
        let mut commands = Vec::new();
        loop {
            let command = self.parser.parse_value(&mut self.connection).expect("a command");
            let command: Command = list(&command).iter().map(bytes).collect();
            if is_mark(&command, self.marks) {
                return commands.into_iter().filter(is_no_small_talk).collect();
            }
            commands.push(command);
        }
    }
}

fn is_mark(command: &Command, number: usize) -> bool {
    command.len() == 3 && command[1] == b"mark" && command[2] == number.to_string().as_bytes()
}

/// Not what the server says on its own account.
fn is_no_small_talk(command: &Command) -> bool {
    !["select", "ping"].iter().any(|name| command[0].eq_ignore_ascii_case(name.as_bytes()))
}

/// The names of commands, in lower case.
pub fn names(commands: &[Command]) -> Vec<String> {
    let name = |command: &Command| String::from_utf8_lossy(&command[0]).to_lowercase();
    commands.iter().map(name).collect()
}

/// One effect, alone; three inside one MULTI.
const ALONE: [&str; 1] = ["rl.effect"];
const IN_ONE_MULTI: [&str; 5] = ["multi", "rl.effect", "rl.effect", "rl.effect", "exec"];

/// BR-225 redis/redis#4466: the effects of three calls inside MULTI, inside EVAL and inside a
/// function, with denials, looks and errors between them, and what of them is sent.
fn ways(key: &str, call: &str) -> Vec<(String, Vec<Command>, &'static [&'static str])> {
    let forced = format!("{call} FORCE");
    let mixed = [
        "MULTI",
        &forced,
        &format!("{call} COST 9"),
        &format!("RL.PEEK {key}"),
        &format!("{call} COST x"),
        &forced,
        &format!("RL.REFUND {key} 1"),
        "EXEC",
    ];
    let by_script = |times| format!("EVAL {SCRIPT} 1 {key} {times} {forced}");
    let by_function = |times| format!("FCALL call 1 {key} {times} {forced}");
    let one = |line: &str| vec![words(line)];
    let nested = ["MULTI", &by_script(1), &forced, &by_function(1), "EXEC"];
    vec![
        (format!("{call} alone"), one(&forced), &ALONE),
        (format!("{call} in MULTI"), mixed.map(words).to_vec(), &IN_ONE_MULTI),
        (format!("{call} in EVAL"), one(&by_script(3)), &IN_ONE_MULTI),
        (format!("{call} in FCALL"), one(&by_function(3)), &IN_ONE_MULTI),
        (format!("{call} once in EVAL"), one(&by_script(1)), &ALONE),
        (format!("{call} once in FCALL"), one(&by_function(1)), &ALONE),
        (format!("{call} in both in MULTI"), nested.map(words).to_vec(), &IN_ONE_MULTI),
        (format!("{call} denied in MULTI"), ["MULTI", call, call, "EXEC"].map(words).to_vec(), &[]),
        (format!("{call} denied in EVAL"), one(&format!("EVAL {SCRIPT} 1 {key} 3 {call}")), &[]),
        (format!("{call} denied in FCALL"), one(&format!("FCALL call 1 {key} 3 {call}")), &[]),
    ]
}

/// BR-225 redis/redis#4466, BR-125 Wei-Shaw/sub2api#2970, BR-254 SGrondin/bottleneck#99: however a
/// call is made, the stream and the append-only file of the primary, and that of its replica, hold
/// one effect of it, inside one MULTI where it was inside one; and all hold the same state.
#[test]
fn each_call_that_writes_is_sent_once() {
    let primary = Server::with(&Config::new().append_only());
    let replica = primary.replica_with(Config::new().append_only());
    // The file is begun anew after the replica has loaded its primary's data.
    replica.wait_for_background_jobs();
    let mut stream = Stream::of(&primary);
    for mut client in [primary.client(), primary.client3()] {
        client.call(&["FUNCTION", "LOAD", "REPLACE", FUNCTIONS]);
        for (key, call) in LIMITERS {
            client.ok(&format!("DEL {key}"));
            stream.commands(&mut client);
            for (way, calls, sent) in ways(key, call) {
                client.pipeline(&calls);
                let expire_ms = client.int(&format!("PEXPIRETIME {key}"));
                let commands = stream.commands(&mut client);
                assert_eq!(names(&commands), sent, "{way}: the stream");
                if let Some(last) = commands.iter().rfind(|command| command[0] == b"rl.effect") {
                    assert_eq!((last.len(), &last[1]), (3, &words(key)[0]), "{way}");
                    assert_eq!(expiry(&last[2]), expire_ms, "{way}: absolute");
                }
                for server in [&primary, &replica] {
                    let in_file = in_file(server, stream.marks);
                    assert_eq!(lower(&in_file), lower(&commands), "{way}: the file");
                }
            }
        }
    }
    assert_same(&primary, &replica, "after calls of all ways");
}

/// The expiry in the payload of an effect: its first number, less one.
pub fn expiry(payload: &[u8]) -> i64 {
    let ends = payload.iter().position(|&byte| byte < 0x80).expect("a number");
    payload[..=ends].iter().rev().fold(0, |value, byte| value << 7 | i64::from(byte & 0x7f)) - 1
}

/// Commands with their names in lower case.
pub fn lower(commands: &[Command]) -> Vec<Command> {
    let mut commands = commands.to_vec();
    commands.iter_mut().for_each(|command| command[0].make_ascii_lowercase());
    commands
}

/// The commands in the append-only file before the mark with this number, once it is there.
pub fn in_file(server: &Server, number: usize) -> Vec<Command> {
    let mut commands = Vec::new();
    until("the append-only file holds what was sent", || {
        commands = all_in_file(server);
        commands.iter().any(|command| is_mark(command, number))
    });
    let place = |number| commands.iter().position(|command| is_mark(command, number));
    let (from, to) = (place(number - 1).expect("the mark before"), place(number).expect("a mark"));
    commands[from + 1..to].iter().filter(|command| is_no_small_talk(command)).cloned().collect()
}

fn all_in_file(server: &Server) -> Vec<Command> {
    let content = append_only_file(server.dir());
    let mut parser = Parser::new();
    let mut rest = &content[..];
    let mut commands: Vec<Command> = Vec::new();
    while let Ok(command @ Value::Array(_)) = parser.parse_value(&mut rest) {
        commands.push(list(&command).iter().map(bytes).collect());
    }
    commands
}

fn append_only_file(dir: &Path) -> Vec<u8> {
    let files = fs::read_dir(dir.join("appendonlydir")).expect("the append-only files");
    let paths = files.map(|file| file.expect("a file").path());
    let newest = paths.filter(|path| path.to_string_lossy().ends_with(".incr.aof")).max();
    fs::read(newest.expect("one that grows")).expect("the append-only file")
}
