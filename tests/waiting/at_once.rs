//! Calls with `WAIT` that are answered at once.

use super::support::{Config, Reply, Server, c_library, list, words};
use super::{HOUR_MS, blocked, level};

/// A longer delay is denied, takes nothing, and is told what MAXDELAY would be told.
#[test]
fn too_long_a_delay_is_denied() {
    let server = Server::start();
    let mut client = server.client();
    client.limit("RL.LEAKY q 5 1 PER 3600000");
    let (dump, offset) = (client.dump("q"), super::support::offset(&mut client));
    let reply = client.limit("RL.LEAKY q 5 1 PER 3600000 WAIT 600000");
    assert_eq!((reply.allowed, reply.remaining, reply.delay_ms), (0, 0, Some(0)));
    assert!((2_999_000..=3_000_000).contains(&reply.retry_after_ms), "{reply:?}");
    assert_eq!((client.dump("q"), super::support::offset(&mut client)), (dump, offset));
    // Both at one instant.
    let sent = ["MULTI", "RL.LEAKY q 5 1 PER 3600000 MAXDELAY 600000"];
    let sent = [sent[0], sent[1], "RL.LEAKY q 5 1 PER 3600000 WAIT 600000", "EXEC"].map(words);
    let answers = client.pipeline(&sent);
    let [other, waits] = &list(&answers[3])[..] else { panic!("{answers:?}") };
    let (other, waits) = (Reply::new(other).expect("a reply"), Reply::new(waits).expect("a reply"));
    assert!((0..=1).contains(&(other.retry_after_ms - waits.retry_after_ms)), "{other:?}");
    assert_eq!((other.allowed, other.remaining), (waits.allowed, waits.remaining));
}

/// The same call, after the time that it was told, is accepted and held for as long as it accepts.
#[test]
fn the_retry_time_is_when_the_delay_is_accepted() {
    let server = Server::start();
    let mut client = server.client();
    client.limit("RL.LEAKY q 5 1 PER 400");
    let denied = client.limit("RL.LEAKY q 5 1 PER 400 WAIT 300");
    if denied.allowed == 0 {
        assert!((1..=100).contains(&denied.retry_after_ms), "{denied:?}");
        let until_us = client.time_us() + denied.retry_after_ms * 1000;
        super::until("the retry time is over", || client.time_us() >= until_us);
        let reply = client.limit("RL.LEAKY q 5 1 PER 400 WAIT 300");
        assert_eq!((reply.allowed, reply.delay_ms), (1, Some(0)), "{reply:?}");
    }
}

/// WAIT 0 takes what may go at once, and nothing else.
#[test]
fn wait_0_never_waits() {
    let server = Server::start();
    let mut client = server.client();
    let call = "RL.LEAKY q 5 1 PER 3600000 WAIT 0";
    assert_eq!(client.limit(call).allowed, 1);
    let reply = client.limit(call);
    assert_eq!((reply.allowed, reply.delay_ms, level(&mut client)), (0, Some(0), 1));
}

/// COST 0 is never denied: where it would be held for longer than it accepts, it is told so.
#[test]
fn cost_0_is_told_too_long_a_delay() {
    let server = Server::start();
    let mut client = server.client();
    client.limit("RL.LEAKY q 5 1 PER 3600000");
    let reply = client.limit("RL.LEAKY q 5 1 PER 3600000 COST 0 WAIT 1000");
    assert_eq!((reply.allowed, reply.remaining), (1, 0));
    assert!(reply.delay_ms.is_some_and(|ms| ms > HOUR_MS - 60_000), "{reply:?}");
}

/// In transactions, scripts and functions the delay is told at once, and the unit is taken.
#[test]
fn where_no_client_may_block() {
    let server = Server::start();
    for mut client in [server.client(), server.client3()] {
        client.ok("DEL q");
        let call = "RL.LEAKY q 9 1 PER 3600000 WAIT 360000000";
        client.limit(call);
        let answers = client.pipeline(&["MULTI", call, "EXEC"].map(words));
        let in_transaction = list(&answers[2])[0].clone();
        let script = "EVAL return\\sredis.call(unpack(ARGV)) 1 q";
        let in_script = client.run(&format!("{script} {call}"));
        let library = "#!lua\\sname=held\\nredis.register_function('held',function(k,a)\\sreturn\\s\
                       redis.call(unpack(a))\\send)";
        client.ok(&format!("FUNCTION LOAD REPLACE {library}"));
        let in_function = client.run(&format!("FCALL held 1 q {call}"));
        for (nth, answer) in [in_transaction, in_script, in_function].iter().enumerate() {
            let reply = Reply::new(answer).unwrap_or_else(|| panic!("{nth}: {answer:?}"));
            let ahead = i64::try_from(nth).expect("a small number") + 1;
            let delay_ms = reply.delay_ms.expect("a delay");
            let around = ahead * HOUR_MS - 60_000..=ahead * HOUR_MS;
            assert!(reply.allowed == 1 && around.contains(&delay_ms), "{nth}: {reply:?}");
        }
        assert_eq!((level(&mut client), blocked(&mut client)), (4, 0));
    }
}

/// What another module calls is answered at once too.
#[test]
fn modules_that_call_may_not_block() {
    let caller = c_library("tests/waiting/caller.c");
    let server = Server::with(&Config::new().line(&format!("loadmodule {}", caller.display())));
    let mut client = server.client();
    for ahead in 0..3 {
        let reply = client.limit("caller.call RL.LEAKY q 9 1 PER 3600000 WAIT 360000000");
        let around = ahead * HOUR_MS - 60_000..=ahead * HOUR_MS;
        assert!(reply.delay_ms.is_some_and(|ms| around.contains(&ms)), "{reply:?}");
    }
    assert_eq!((level(&mut client), blocked(&mut client)), (3, 0));
}
