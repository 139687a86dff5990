//! `rl.client-time`, by CONFIG, in redis.conf and as an argument of loadmodule; and what refuses to
//! load.

use std::fs;

use super::LIMITERS;
use super::support::{Client, Config, Server, list, text};

const REFUSED: &str = "ERR AT is refused unless the configuration rl.client-time is yes";

fn client_time(client: &mut Client) -> String {
    let pair = list(&client.ok("CONFIG GET rl.client-time"));
    assert_eq!(text(&pair[0]), "rl.client-time");
    text(&pair[1])
}

/// The option's value, and that it does what it says.
fn expect_client_time(server: &Server, value: &str) {
    let mut client = server.client();
    assert_eq!(client_time(&mut client), value);
    for (key, call) in LIMITERS {
        let lines = [format!("{call} AT 1700000000000"), format!("RL.PEEK {key} AT 1700000000000")];
        for line in lines {
            if value == "yes" {
                client.ok(&line);
            } else {
                assert_eq!(client.refused(&line), REFUSED, "{line}");
            }
        }
    }
    client.ok("FLUSHALL");
}

#[test]
fn a_callers_clock_is_refused_until_it_is_allowed() {
    let server = Server::start();
    expect_client_time(&server, "no");
    let mut client = server.client();
    for (word, value) in [("yes", "yes"), ("no", "no"), ("YES", "yes")] {
        client.ok(&format!("CONFIG SET rl.client-time {word}"));
        expect_client_time(&server, value);
    }
    for bad in ["maybe", "1", "\\e", "true"] {
        let refused = client.refused(&format!("CONFIG SET rl.client-time {bad}"));
        assert!(refused.starts_with("ERR ") && refused.contains("rl.client-time"), "{refused}");
        expect_client_time(&server, "yes");
    }
}

#[test]
fn the_option_comes_from_the_file_or_from_loadmodule() {
    let line = |value: &str| Config::new().line(&format!("rl.client-time {value}"));
    expect_client_time(&Server::with(&line("yes")), "yes");
    expect_client_time(&Server::with(&line("no")), "no");
    expect_client_time(&Server::with(&Config::new().module_args("rl.client-time yes")), "yes");
    expect_client_time(&Server::with(&Config::new().module_args("rl.client-time no")), "no");
    // A line in the file beats the argument.
    expect_client_time(&Server::with(&line("no").module_args("rl.client-time yes")), "no");
    expect_client_time(&Server::with(&line("yes").module_args("rl.client-time no")), "yes");
}

#[test]
fn config_rewrite_keeps_the_option() {
    let starts = [
        Config::new(),
        Config::new().module_args("rl.client-time yes"),
        Config::new().module_args("rl.client-time no"),
        Config::new().line("rl.client-time yes"),
        Config::new().line("rl.client-time no").module_args("rl.client-time yes"),
    ];
    for config in starts {
        for value in ["yes", "no"] {
            let mut server = Server::with(&config);
            let mut client = server.client();
            client.ok(&format!("CONFIG SET rl.client-time {value}"));
            client.ok("CONFIG REWRITE");
            server.restart();
            let file = fs::read_to_string(server.config_file()).expect("the file");
            let shown = format!("set to {value}, started with\n{file}");
            assert_eq!(client_time(&mut server.client()), value, "{shown}");
            let lines = file.lines().filter(|line| line.starts_with("rl.client-time ")).count();
            assert!(lines <= 1, "{shown}");
            expect_client_time(&server, value);
        }
        // Nothing was set: nothing changes.
        let mut server = Server::with(&config);
        let before = client_time(&mut server.client());
        server.client().ok("CONFIG REWRITE");
        server.restart();
        expect_client_time(&server, &before);
    }
}

/// A server that is started with `config` gives up, with one line of the module that names `word`.
fn refuses_to_load(config: &Config, word: &str) {
    let log = match Server::try_with(config) {
        Ok(_) => panic!("it loads with {word}"),
        Err(log) => log,
    };
    let naming: Vec<&str> =
        log.lines().filter(|line| line.contains(word) && line.contains("rl")).collect();
    assert_eq!(naming.len(), 1, "one line names {word}:\n{log}");
    assert!(naming[0].contains("refuses to load"), "{}", naming[0]);
    assert!(log.contains("it ended with exit status: 1"), "{log}");
}

#[test]
fn a_wrong_argument_refuses_to_load() {
    for (args, word) in [
        ("banana yes", "banana"),
        ("rl.banana yes", "rl.banana"),
        ("client-time yes", "client-time"),
        ("rl.client-time maybe", "maybe"),
        ("rl.client-time 1", "'1'"),
        ("rl.client-time", "rl.client-time"),
        ("rl.client-time yes banana", "banana"),
        ("rl.client-time yes rl.client-time no", "rl.client-time"),
        ("rl.client-time yes yes", "'yes'"),
        ("\"\" yes", "''"),
    ] {
        refuses_to_load(&Config::new().module_args(args), word);
    }
}

#[test]
fn a_wrong_line_in_the_file_refuses_to_load() {
    // The server itself tells of an unknown name, in its own words.
    for (line, told) in [("rl.client-time maybe", "rl.client-time"), ("rl.banana yes", "aborting")]
    {
        let log = match Server::try_with(&Config::new().line(line)) {
            Ok(_) => panic!("it loads with {line}"),
            Err(log) => log,
        };
        assert!(log.contains(told), "{log}");
        assert!(log.contains("it ended with exit status: 1"), "{log}");
    }
}

/// The keys could not be kept without it.
#[test]
fn the_module_stays_loaded() {
    let server = Server::with(&Config::new().line("enable-module-command yes"));
    let mut client = server.client();
    client.ok("RL.TOKENBUCKET k 5 1 PER 3600000");
    let refused = client.refused("MODULE UNLOAD rl");
    assert!(refused.contains("data types"), "{refused}");
    assert_eq!(client.limit("RL.TOKENBUCKET k 5 1 PER 3600000").remaining, 3);
    let modules = format!("{:?}", client.ok("MODULE LIST"));
    assert!(modules.contains("'rl'") || modules.contains("\"rl\""), "{modules}");
}
