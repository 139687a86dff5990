//! Files of each encoding version of the past load for ever, and answer what they must.
//!
//! The files are in `tests/golden`, one folder a version; `generate.sh` there has made them, once,
//! from `calls.txt`. `answers.txt` is worked out by hand.

use std::fs;
use std::path::{Path, PathBuf};

use redis::Value;

use super::support::{Client, Config, Payload, Server, text, words};
use super::{contents, rewrite};

/// The encoding version that this module writes.
const TODAY: u64 = 1;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The lines of a file there that are no comments.
fn lines(name: &str) -> Vec<String> {
    let text = fs::read_to_string(golden().join(name)).expect("a file of the golden ones");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// The words of a line as redis-cli has them, which has escapes only within quotes.
fn quoted_words(line: &str) -> Vec<Vec<u8>> {
    words(&line.replace('"', ""))
}

/// Starts a server on a copy of golden files: `copy` puts them into its directory.
fn server_on(config: &Config, copy: impl FnOnce(&Path)) -> Server {
    let mut server = Server::with(&config.clone().client_time().line("rdbcompression no"));
    server.kill();
    copy(server.dir());
    server.start_again();
    server
}

fn server_on_snapshot(version: &Path) -> Server {
    server_on(&Config::new(), |dir| {
        fs::copy(version.join("dump.rdb"), dir.join("dump.rdb")).expect("a copy");
    })
}

fn server_on_append_only_file(version: &Path, form: &str) -> Server {
    let config = Config::new().append_only().line("auto-aof-rewrite-percentage 0");
    server_on(&config, |dir| {
        let target = dir.join("appendonlydir");
        fs::remove_dir_all(&target).expect("the server's own files can go");
        fs::create_dir(&target).expect("a directory");
        for file in fs::read_dir(version.join(form)).expect("the golden files") {
            let file = file.expect("a file");
            fs::copy(file.path(), target.join(file.file_name())).expect("a copy");
        }
    })
}

/// An answer as words: a map and an array by their elements in turn.
fn flat(answer: &Value) -> String {
    match answer {
        Value::Nil => "null".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Array(items) => items.iter().map(flat).collect::<Vec<_>>().join(" "),
        other => text(other),
    }
}

/// Asks for every answer; those that are wrong.
fn wrong_answers(client: &mut Client) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in lines("answers.txt") {
        let (call, expected) = line.split_once(" => ").expect("a call and its answer");
        let answer = flat(&client.call(&quoted_words(call)));
        if answer != expected {
            wrong.push(format!("{line}, not {answer}"));
        }
    }
    client.ok("SELECT 0");
    wrong
}

/// The folders of all versions, oldest first.
fn versions() -> Vec<PathBuf> {
    (1..=TODAY).map(|version| golden().join(format!("version-{version}"))).collect()
}

#[test]
fn files_of_every_version_load_and_answer() {
    for version in versions() {
        let mut contents_of = Vec::new();
        for form in ["snapshot", "preamble", "plain"] {
            let what = format!("{}, {form}", version.display());
            let mut server = if form == "snapshot" {
                server_on_snapshot(&version)
            } else {
                server_on_append_only_file(&version, form)
            };
            let mut client = server.client();
            assert_eq!(wrong_answers(&mut client), Vec::<String>::new(), "{what}");
            let mut loaded = contents(&mut client);
            // And once more through today's own files.
            if form == "snapshot" {
                client.ok("SAVE");
            } else {
                rewrite(&server);
            }
            server.kill_and_restart();
            let mut client = server.client();
            assert_eq!(wrong_answers(&mut client), Vec::<String>::new(), "{what}, again");
            assert_eq!(contents(&mut client), loaded, "{what}, again");
            // These are of the time when the file was made, which each has its own of.
            loaded.retain(|key, _| !key.ends_with(":moved"));
            contents_of.push(loaded);
        }
        assert_eq!(contents_of[0], contents_of[1], "{}", version.display());
        assert_eq!(contents_of[0], contents_of[2], "{}", version.display());
    }
}

/// The calls behind the files.
fn calls() -> Vec<Vec<Vec<u8>>> {
    let mut calls = Vec::new();
    for line in lines("calls.txt").into_iter().filter(|line| line != "rewrite") {
        let parts: Vec<&str> = line.split(' ').collect();
        let ["each", number, step, call @ .., start] = parts.as_slice() else {
            calls.push(quoted_words(&line));
            continue;
        };
        let [number, step, start] = [number, step, start].map(|word| word.parse::<u64>());
        let (step, start) = (step.expect("a number"), start.expect("a number"));
        for index in 0..number.expect("a number") {
            calls.push(quoted_words(&format!("{} {}", call.join(" "), start + index * step)));
        }
    }
    calls
}

/// What the same calls leave today is what the file of today's version holds: bytes that have
/// changed need a version of their own.
#[test]
fn the_encoding_of_today_is_that_of_its_file() {
    let server = Server::with(&Config::new().client_time().line("rdbcompression no"));
    let mut client = server.client();
    client.pipeline(&calls());
    client.ok("SELECT 0");
    let mut today = contents(&mut client);
    let golden = server_on_snapshot(&versions()[versions().len() - 1]);
    let mut kept = contents(&mut golden.client());
    for contents in [&mut today, &mut kept] {
        contents.retain(|key, _| !key.ends_with(":moved"));
    }
    assert!(today.len() > 15, "{:?}", today.keys());
    assert_eq!(today, kept);
    for (key, (dump, _)) in today {
        assert_eq!(Payload::read(&dump).encoding(), TODAY, "{key}");
    }
}
