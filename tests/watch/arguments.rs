//! The words behind RL.STATS, RL.TOPDENIED and RL.LOG.

use redis_rl::error::Error;
use redis_rl::watch::args::{self, Log, TopDenied};

/// A line's words, and what they are taken for.
fn taken<'a, T>(
    parse: impl Fn(std::vec::IntoIter<&'a [u8]>) -> Result<T, Error>,
    line: &'a str,
) -> Result<T, String> {
    let words: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
    parse(words.into_iter()).map_err(|error| error.to_string())
}

const COUNT: &str = "ERR COUNT must be an integer from 1 to 10000";
const N: &str = "ERR n must be an integer from 1 to 100000";
const ARITY: &str = "ERR wrong number of arguments for 'rl.log' command";

#[test]
fn stats_takes_reset() {
    assert_eq!(taken(args::stats, ""), Ok(false));
    assert_eq!(taken(args::stats, "ReSeT"), Ok(true));
    let twice = Err("ERR RESET may be given only once".to_owned());
    assert_eq!(taken(args::stats, "RESET RESET"), twice);
    let unknown = Err("ERR unknown option 'NOW', expected one of RESET".to_owned());
    assert_eq!(taken(args::stats, "NOW"), unknown);
    assert_eq!(taken(args::stats, "RESET NOW"), unknown);
}

#[test]
fn topdenied_takes_count_and_reset() {
    for (line, count, reset) in [
        ("", 10, false),
        ("count 1", 1, false),
        ("COUNT 10000", 10_000, false),
        ("reset", 10, true),
        ("RESET COUNT 5", 5, true),
        ("COUNT 5 RESET", 5, true),
    ] {
        assert_eq!(taken(args::top_denied, line), Ok(TopDenied { count, reset }), "{line}");
    }
    for (line, error) in [
        ("COUNT", "ERR COUNT needs a value after it"),
        ("COUNT 0", COUNT),
        ("COUNT 10001", COUNT),
        ("COUNT -1", COUNT),
        ("COUNT RESET", COUNT),
        ("COUNT 5 COUNT 5", "ERR COUNT may be given only once"),
        ("RESET RESET", "ERR RESET may be given only once"),
        ("5", "ERR unknown option '5', expected one of COUNT, RESET"),
    ] {
        assert_eq!(taken(args::top_denied, line), Err(error.to_owned()), "{line}");
    }
}

#[test]
fn log_takes_one_of_three() {
    for (line, call) in [
        ("GET", Log::Get(10)),
        ("get 1", Log::Get(1)),
        ("GET 100000", Log::Get(100_000)),
        ("Len", Log::Len),
        ("reset", Log::Reset),
    ] {
        assert_eq!(taken(args::log, line), Ok(call), "{line}");
    }
    for (line, error) in [
        ("", ARITY),
        ("GET 1 2", ARITY),
        ("LEN 1", ARITY),
        ("RESET 1", ARITY),
        ("GET 0", N),
        ("GET 100001", N),
        ("GET -1", N),
        ("GET x", N),
        ("HELP", "ERR unknown subcommand 'HELP', expected GET, LEN or RESET"),
        ("X 1", "ERR unknown subcommand 'X', expected GET, LEN or RESET"),
    ] {
        assert_eq!(taken(args::log, line), Err(error.to_owned()), "{line}");
    }
}
