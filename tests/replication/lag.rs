//! Replicas that hear of a call long after it was made.

use super::mix::Mix;
use super::paused::{Paused, lag};
use super::support::{Client, Config, Dice, Server, int, offset, until, wait_for_replica, words};
use super::{FUNCTIONS, LIMITERS, SCRIPT, assert_same, contents, info_number};

/// BR-222 redis/redis#8433, BR-223 redis/redis#7483, BR-224 redis/redis#4370: PEXPIRETIME of every
/// key is the same on primary and replica, whatever the lag, after every kind of call that writes;
/// and so is its value. 10,000 calls, and a replica of the replica.
#[test]
fn a_replica_that_lags_comes_to_the_same_states() {
    let primary = Server::start();
    let replica = primary.replica_with(Config::new().debug());
    let second = replica.replica();
    let mut mix = Mix::new(51);
    let mut client = primary.client();

    let paused = Paused::new(&replica);
    mix.run(&mut client, 4000);
    assert!(lag(&primary) > 10_000, "the replica has heard of the calls");
    drop(paused);
    mix.run(&mut client, 500);
    mix.settle(&mut client);
    assert_same(&primary, &replica, "a replica that stood still");

    let mut sleeper = replica.client();
    sleeper.send(&["DEBUG", "SLEEP", "0.5"]);
    mix.run(&mut primary.client3(), 3000);
    sleeper.read();
    mix.settle(&mut client);
    assert_same(&primary, &replica, "a replica that slept");

    let paused = Paused::new(&second);
    mix.run(&mut client, 2500);
    drop(paused);
    mix.settle(&mut client);
    mix.assert_mixed();
    assert_same(&primary, &replica, "a replica that was there");
    wait_for_replica(&replica, &second);
    assert_same(&primary, &second, "a replica of the replica that stood still");
}

/// An effect whose expiry has passed when it comes does not end the key: only the primary does
/// that, and what it did meanwhile counts.
#[test]
fn an_effect_that_comes_after_its_expiry_deletes_nothing() {
    let primary = Server::with(&Config::new().debug());
    let replica = primary.replica();
    let (mut client, mut of_replica) = (primary.client(), replica.client());
    // The primary lets no key end before the replica has looked.
    client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
    let calls = ["RL.TOKENBUCKET t 9 5 COST 2", "RL.LEAKY l 9 5 COST 2", "RL.SLIDING s 9 400"];
    let paused = Paused::new(&replica);
    let latest_ms = calls_and_latest_expiry(&mut client, &calls);
    until("the expiries have passed", || client.time_us() / 1000 > latest_ms);
    drop(paused);
    let sent = offset(&mut client);
    until("the replica has all effects", || offset(&mut of_replica) == sent);

    assert_eq!(client.int("DBSIZE"), 3, "on the primary");
    assert_eq!(of_replica.int("DBSIZE"), 3, "on the replica");
    assert_eq!(of_replica.int("EXISTS t l s"), 0, "they are over for readers");
    assert_eq!(of_replica.int("DBSIZE"), 3, "reading ends no key either");
    client.ok("DEBUG SET-ACTIVE-EXPIRE 1");
    until("all have ended on both", || client.int("DBSIZE") == 0 && of_replica.int("DBSIZE") == 0);
}

/// A change that comes after the expiry of the state that it was made on builds upon that state.
#[test]
fn a_change_builds_upon_a_state_that_seems_over() {
    let primary = Server::with(&Config::new().debug());
    let replica = primary.replica();
    let mut client = primary.client();
    client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
    let calls =
        ["RL.TOKENBUCKET t 50 20 COST 20", "RL.LEAKY l 50 20 COST 20", "RL.SLIDING s 50 1000"];
    let paused = Paused::new(&replica);
    let latest_ms = calls_and_latest_expiry(&mut client, &calls);
    // With these parameters the keys live long enough to be compared.
    let lasting = ["RL.TOKENBUCKET t 50 1 PER 900000", "RL.LEAKY l 50 1 PER 900000"];
    let lasting = lasting.iter().chain(&["RL.SLIDING s 50 900000"]);
    let sent: Vec<_> = lasting.map(|call| words(call)).collect();
    client.pipeline(&[sent.clone(), sent].concat());
    assert_eq!(info_number(&mut client, "stats", "expired_keys"), 0, "the calls came too late");
    until("the first expiries have passed", || client.time_us() / 1000 > latest_ms);
    drop(paused);
    assert_same(&primary, &replica, "changes upon states that seem over");
    assert_eq!(contents(&mut client).len(), 3);
}

/// Hits leave a window alike on both, and are given back alike: after several windows full, what is
/// left is the same.
#[test]
fn hits_leave_a_window_alike_on_both() {
    const WINDOW_US: i64 = 150_000;
    let primary = Server::start();
    let replica = primary.replica();
    let mut client = primary.client();
    let mut dice = Dice::new(71);
    let end_us = client.time_us() + 4 * WINDOW_US;
    let mut taken = 0;
    while client.time_us() < end_us {
        let cost = dice.pick(&[1, 1, 1, 3, 40]);
        let option = dice.pick(&["", "", " RESOLUTION 20", " FORCE"]);
        taken += cost * client.limit(&format!("RL.SLIDING s 100 150 COST {cost}{option}")).allowed;
        if dice.throw(10) == 0 {
            client.ok("RL.REFUND s 2");
        }
    }
    // From here on nothing leaves, so that it can be compared.
    client.limit("RL.SLIDING s 100 3600000 FORCE");
    let left = 1_000_000 - client.limit("RL.SLIDING s 1000000 3600000 PEEK").remaining;
    assert!(left < taken, "all of {taken} units are left");
    assert_same(&primary, &replica, "after many windows");
}

/// Makes the calls at once; when the last of their keys expires.
fn calls_and_latest_expiry(client: &mut Client, calls: &[&str]) -> i64 {
    let key = |call: &str| call.split(' ').nth(1).expect("a key").to_owned();
    let sent =
        calls.iter().flat_map(|call| [(*call).to_owned(), format!("PEXPIRETIME {}", key(call))]);
    let answers = client.pipeline(&sent.map(|line| words(&line)).collect::<Vec<_>>());
    let expiries = answers.chunks(2).map(|pair| int(&pair[1]));
    expiries.inspect(|&ms| assert!(ms > 0, "{answers:?}")).max().expect("some calls")
}

/// Thousands of calls that take nothing, looks and errors move the stream by nothing, also in
/// transactions, scripts and functions.
#[test]
fn what_takes_nothing_sends_nothing() {
    let primary = Server::start();
    let replica = primary.replica();
    for (client, round) in [(primary.client(), "RESP2"), (primary.client3(), "RESP3")] {
        silent(client, round);
    }
    assert_same(&primary, &replica, "after all that was silent");
}

fn silent(mut client: Client, round: &str) {
    client.call(&["FUNCTION", "LOAD", "REPLACE", FUNCTIONS]);
    for (key, call) in LIMITERS {
        client.ok(&format!("DEL {key}"));
        client.limit(&format!("{call} COST 2"));
        let mut lines = vec![call.to_owned(), format!("RL.PEEK {key}"), format!("RL.INFO {key}")];
        let options = ["PEEK", "COST 0", "COST 9", "SHADOW", "SHADOW COST 9", "RESERVE 1"];
        lines.extend(options.map(|option| format!("{call} {option}")));
        let errors =
            ["COST x", "PEEK FORCE", "COST 1 COST 1", "AT 1", "FORCE COST 9007199254740992"];
        lines.extend(errors.map(|option| format!("{call} {option}")));
        lines.push(format!("RL.REFUND {key} 0"));
        let mut sent: Vec<_> = lines.iter().map(|line| words(line)).collect();
        sent.insert(0, words("MULTI"));
        sent.push(words("EXEC"));
        sent.push(words(&format!("EVAL {SCRIPT} 1 {key} 50 {call}")));
        sent.push(words(&format!("FCALL call 1 {key} 50 {call} COST 0")));
        sent.extend(lines.iter().map(|line| words(line)));
        let before = offset(&mut client);
        for _ in 0..20 {
            client.pipeline(&sent);
        }
        assert_eq!(offset(&mut client), before, "{round}, {call}");
        client.limit(&format!("{call} FORCE"));
        assert!(offset(&mut client) > before, "{round}, {call}: what takes is sent");
    }
}
