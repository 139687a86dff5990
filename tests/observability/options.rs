//! `rl.topdenied-size`, `rl.log-max-len` and `rl.sliding-max-bytes`: by CONFIG, in redis.conf and
//! as arguments of loadmodule; what is refused.

use std::fs;

use super::support::{Client, Config, Server, list, text};
use super::{deny, log, top_denied};

/// An option, its default and its greatest value.
const OPTIONS: [(&str, &str, &str); 3] = [
    ("rl.topdenied-size", "256", "10000"),
    ("rl.log-max-len", "128", "100000"),
    ("rl.sliding-max-bytes", "67108864", "1099511627776"),
];

fn value(client: &mut Client, option: &str) -> String {
    text(&list(&client.ok(&format!("CONFIG GET {option}")))[1])
}

#[test]
fn both_ends_of_the_range_are_accepted() {
    let server = Server::start();
    let mut client = server.client();
    for (option, default, max) in OPTIONS {
        assert_eq!(value(&mut client, option), default);
        for good in ["0", "1", max] {
            client.ok(&format!("CONFIG SET {option} {good}"));
            assert_eq!(value(&mut client, option), good);
        }
        let above = max.parse::<u64>().expect("a number") + 1;
        for bad in [&*above.to_string(), "-1", "x", "1.5", "yes", "\\e", "99999999999999999999"] {
            let refused = client.refused(&format!("CONFIG SET {option} {bad}"));
            assert!(refused.starts_with("ERR ") && refused.contains(option), "{refused}");
            assert_eq!(value(&mut client, option), max);
        }
    }
    // At these sizes too.
    deny(&mut client, b"k");
    assert_eq!((top_denied(&mut client, "").len(), log(&mut client, "").len()), (1, 1));
}

/// How many keys and denials are kept, of five.
fn kept(server: &Server) -> (usize, usize) {
    let mut client = server.client();
    (0..5).for_each(|key| deny(&mut client, format!("k{key}").as_bytes()));
    (top_denied(&mut client, " COUNT 10000").len(), log(&mut client, " 100").len())
}

#[test]
fn the_options_come_from_the_file_or_from_loadmodule() {
    let line = Config::new().line("rl.topdenied-size 3").line("rl.log-max-len 2");
    let args = "rl.topdenied-size 1 rl.log-max-len 4";
    assert_eq!(kept(&Server::start()), (5, 5));
    assert_eq!(kept(&Server::with(&line)), (3, 2));
    assert_eq!(kept(&Server::with(&Config::new().module_args(args))), (1, 4));
    let shouted = args.to_uppercase();
    assert_eq!(kept(&Server::with(&Config::new().module_args(&shouted))), (1, 4));
    // A line in the file beats the argument.
    assert_eq!(kept(&Server::with(&line.module_args(args))), (3, 2));
    let off = Config::new().module_args("rl.log-max-len 0 rl.client-time yes rl.topdenied-size 0");
    let server = Server::with(&off);
    assert_eq!(kept(&server), (0, 0));
    assert_eq!(value(&mut server.client(), "rl.client-time"), "yes");
}

#[test]
fn config_rewrite_keeps_the_options() {
    for config in [Config::new(), Config::new().module_args("rl.topdenied-size 7")] {
        for (option, default, max) in OPTIONS {
            for set in ["0", "7", default, max] {
                let mut server = Server::with(&config);
                let mut client = server.client();
                client.ok(&format!("CONFIG SET {option} {set}"));
                client.ok("CONFIG REWRITE");
                server.restart();
                let file = fs::read_to_string(server.config_file()).expect("the file");
                assert_eq!(value(&mut server.client(), option), set, "{file}");
            }
        }
    }
}

#[test]
fn a_wrong_argument_refuses_to_load() {
    for (args, told) in [
        ("rl.topdenied-size 10001", "must be an integer from 0 to 10000, not '10001'"),
        ("rl.topdenied-size -1", "must be an integer from 0 to 10000, not '-1'"),
        ("rl.topdenied-size yes", "not 'yes'"),
        ("rl.topdenied-size", "needs a value: an integer from 0 to 10000"),
        ("rl.log-max-len 100001", "must be an integer from 0 to 100000, not '100001'"),
        ("rl.log-max-len 5 rl.log-max-len 5", "rl.log-max-len is given twice"),
        ("rl.log-max-length 5", "rl.log-max-len (an integer from 0 to 100000)"),
    ] {
        let log = match Server::try_with(&Config::new().module_args(args)) {
            Ok(_) => panic!("it loads with {args}"),
            Err(log) => log,
        };
        let telling: Vec<&str> = log.lines().filter(|line| line.contains(told)).collect();
        assert_eq!(telling.len(), 1, "one line tells {told}:\n{log}");
        assert!(telling[0].contains("the module rl refuses to load"), "{}", telling[0]);
    }
    for line in ["rl.topdenied-size 10001", "rl.log-max-len x"] {
        let config = Config::new().line(line);
        assert!(Server::try_with(&config).is_err(), "it loads with {line}");
    }
}
