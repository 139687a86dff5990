//! The most rules of a call, the fewest, and words without end.

use super::support::{Client, Server, field, int, list};

/// Most rules of a call.
const MOST: usize = 1000;

/// The words of a call on so many keys, one rule each.
fn call(count: usize, rule: &str, end: &str) -> Vec<String> {
    let mut words = vec!["RL.ALL".to_owned(), count.to_string()];
    words.extend((0..count).map(|number| format!("k{number}")));
    words.extend((0..count).flat_map(|_| rule.split(' ').map(str::to_owned)));
    words.extend(end.split_whitespace().map(str::to_owned));
    words
}

fn refusal(client: &mut Client, words: &[String]) -> String {
    super::support::error_text(&client.call(words)).expect("an error")
}

#[test]
fn a_thousand_rules_are_one_call() {
    let server = Server::start();
    let mut client = server.client();
    for rule in ["TOKENBUCKET 2 1 PER 3600000", "LEAKY 2 1 PER 3600000", "SLIDING 2 3600000"] {
        client.ok("FLUSHALL");
        for allowed in [1, 1, 0, 0] {
            let answer = list(&client.call(&call(MOST, rule, "")));
            assert_eq!(answer.len(), 3 + MOST, "{rule}");
            assert_eq!(int(&answer[0]), allowed, "{rule}");
            assert_eq!(client.int("DBSIZE"), 1000);
        }
        // The last of them alone denies: nothing is taken from the others.
        client.ok("FLUSHALL");
        let answer = list(&client.call(&call(MOST, rule, "COST 3")));
        assert_eq!([int(&answer[0]), int(&answer[1]), int(&answer[2])], [0, 999, -1], "{rule}");
        assert_eq!(client.int("DBSIZE"), 0, "{rule}");
    }
}

#[test]
fn one_rule_more_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    let numkeys = "ERR numkeys must be an integer from 1 to 1000";
    assert_eq!(refusal(&mut client, &call(MOST + 1, "SLIDING 2 1000", "")), numkeys);
    for bad in ["0", "-1", "9999999999", "18446744073709551617", "", "x", "1.0"] {
        let mut words = call(3, "SLIDING 2 1000", "");
        bad.clone_into(&mut words[1]);
        assert_eq!(refusal(&mut client, &words), numkeys, "{bad}");
    }
    // More keys are announced than words follow.
    for announced in ["13", "1000"] {
        let mut words = call(3, "SLIDING 2 1000", "");
        announced.clone_into(&mut words[1]);
        let few = "ERR numkeys is greater than the number of keys";
        assert_eq!(refusal(&mut client, &words), few, "{announced}");
    }
    // All words are keys.
    let mut words = call(3, "SLIDING 2 1000", "");
    "12".clone_into(&mut words[1]);
    assert!(refusal(&mut client, &words).starts_with("ERR rule 0: each key needs a rule"));
    // One rule is missing, one is too many.
    let mut words = call(MOST, "SLIDING 2 1000", "");
    words.truncate(words.len() - 3);
    assert!(refusal(&mut client, &words).starts_with("ERR rule 999: each key needs a rule"));
    let words = call(MOST, "SLIDING 2 1000", "SLIDING 2 1000");
    assert!(refusal(&mut client, &words).starts_with("ERR rule 999: unknown option 'SLIDING'"));
    assert_eq!(client.int("DBSIZE"), 0);
}

#[test]
fn words_without_end_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    let peeks = "PEEK ".repeat(100_000);
    let refused = refusal(&mut client, &call(2, "SLIDING 2 1000", &peeks));
    assert_eq!(refused, "ERR rule 1: PEEK may be given only once");
    let refused = refusal(&mut client, &call(2, "SLIDING 2 1000", &"x ".repeat(100_000)));
    assert!(refused.starts_with("ERR rule 1: unknown option 'x'"), "{refused}");
    let mut words = call(2, "SLIDING 2 1000", "");
    words[1] = "1".repeat(1 << 20);
    assert!(refusal(&mut client, &words).starts_with("ERR numkeys must be"));
    words[1] = "2".to_owned();
    words[4] = "y".repeat(1 << 20);
    let refused = refusal(&mut client, &words);
    let shown = "y".repeat(32);
    assert!(refused.starts_with(&format!("ERR rule 0: '{shown}' is no option")), "{refused}");
    assert_eq!(client.int("DBSIZE"), 0);
}

/// Rounds, of which the fastest counts: the machine may be busy with other things.
const ROUNDS: usize = 10;
/// Longest time that a call of a thousand rules may hold up the server: on an idle machine it takes
/// well below a ms or two, and a debug build of anything quadratic would take far more than this.
const MOST_US: f64 = 20_000.0;

#[test]
fn a_thousand_rules_hold_up_the_server_for_a_moment() {
    let server = Server::start();
    let mut client = server.client();
    for (what, end) in [("taken", ""), ("denied", "COST 3000000"), ("looked at", "PEEK")] {
        let words = call(MOST, "TOKENBUCKET 1000000 1 PER 3600000", end);
        client.call(&words);
        let mut least = f64::MAX;
        for _ in 0..ROUNDS {
            client.ok("CONFIG RESETSTAT");
            client.call(&words);
            let stats = client.info("commandstats");
            let stats = field(&stats, "cmdstat_rl.all").expect("the server counts").to_owned();
            let us = stats.split(',').find_map(|stat| stat.strip_prefix("usec_per_call="));
            least = least.min(us.and_then(|us| us.parse().ok()).expect("a number"));
        }
        println!("{least} us for a thousand rules, {what}");
        assert!(least < MOST_US, "{least} us for a thousand rules, {what}");
    }
}
