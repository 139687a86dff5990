//! Replies that are held: when they come and what they say.

use super::support::{Client, Config, Reply, Server, int, list, text, wait_for_replica, words};
use super::{HOUR_MS, Held, IN_AN_HOUR, blocked, level};

/// An instant of the server's clock in µs, from an answer to TIME.
fn time_us(answer: &redis::Value) -> i64 {
    let parts: Vec<i64> =
        list(answer).iter().map(|part| text(part).parse().expect("a number")).collect();
    parts[0] * 1_000_000 + parts[1]
}

/// Sends a call and, right behind it, questions for the state and the time: the reply, the state
/// after it and the instant when it was there.
fn and_then(client: &mut Client, limit: &str, options: &str) -> (Reply, Reply, i64) {
    let (line, look) =
        (format!("RL.LEAKY q {limit} {options}"), format!("RL.LEAKY q {limit} PEEK"));
    let sent = [&line, "MULTI", &look, "TIME", "EXEC"].map(words);
    let answers = client.pipeline(&sent);
    let reply = Reply::new(&answers[0]).unwrap_or_else(|| panic!("{line}: {:?}", answers[0]));
    let after = list(&answers[4]);
    (reply, Reply::new(&after[0]).expect("the state"), time_us(&after[1]))
}

/// Three requests at once leave a constant time apart, each told what a call at that moment is
/// told, and none early.
#[test]
fn the_reply_comes_when_the_request_may_go() {
    const APART_MS: i64 = 150;
    let server = Server::start();
    for mut client in [server.client(), server.client3()] {
        client.ok("DEL q");
        let limit = format!("5 1 PER {APART_MS}");
        let start_us = client.time_us();
        for nth in 0..3 {
            let (reply, after, us) = and_then(&mut client, &limit, "WAIT 10000");
            let waited_ms = (us - start_us) / 1000;
            assert!(us - start_us >= nth * APART_MS * 1000, "{nth}: after {waited_ms} ms");
            let Reply { allowed, limit, delay_ms, .. } = reply;
            assert_eq!((allowed, limit, delay_ms), (1, 5, Some(0)), "{nth}");
            // Its own unit is in the bucket, unless the machine was slow. All waits count from the
            // reply, so a look right after it is told no more, and less only by the time between.
            assert!((0..=APART_MS).contains(&reply.reset_after_ms), "{nth}: {reply:?}");
            assert!(reply.reset_after_ms >= after.reset_after_ms, "{nth}: {reply:?} {after:?}");
            assert!(reply.reset_after_ms >= (nth + 1) * APART_MS - waited_ms - 1, "{reply:?}");
            assert_eq!(reply.retry_after_ms, 0, "{nth}");
        }
        assert_eq!(blocked(&mut client), 0);
    }
}

/// The retry time counts from the reply too: what it was at the decision, less the time waited.
#[test]
fn retry_counts_from_the_reply() {
    let server = Server::start();
    let mut client = server.client();
    client.limit("RL.LEAKY q 2 1 PER 400");
    let before_us = client.time_us();
    let (reply, _, us) = and_then(&mut client, "2 1 PER 400", "WAIT 10000");
    // The bucket was full at the call, for 400 ms less what had drained, and that was waited for.
    let late_ms = (us - before_us) / 1000 - 400;
    assert_eq!((reply.allowed, reply.remaining, reply.retry_after_ms), (1, 0, 0), "{late_ms}");

    // A cost of two never fits behind one of two before its reply, and is told how long after.
    client.ok("DEL q");
    client.limit("RL.LEAKY q 3 1 PER 400");
    let (reply, after, us) = and_then(&mut client, "3 1 PER 400", "COST 2 WAIT 10000");
    let retry = client.limit("RL.LEAKY q 3 1 PER 400 COST 2 PEEK");
    assert_eq!((reply.allowed, reply.remaining), (1, 0));
    assert!((1..=400).contains(&reply.retry_after_ms), "{reply:?} at {us}");
    assert!(reply.retry_after_ms >= retry.retry_after_ms, "{reply:?} {retry:?}");
    assert_eq!(reply.retry_after_ms + 400, reply.reset_after_ms, "{reply:?} {after:?}");
}

/// What follows a held call of the same client is answered after it, in order.
#[test]
fn what_follows_is_answered_afterwards() {
    let server = Server::start();
    for mut client in [server.client(), server.client3()] {
        client.ok("DEL q");
        let call = "RL.LEAKY q 5 1 PER 60 WAIT 10000";
        let sent = [call, "ECHO a", call, "ECHO b", "MULTI", call, "ECHO c", "EXEC"].map(words);
        let answers = client.pipeline(&sent);
        for held in [0, 2] {
            let reply = Reply::new(&answers[held]).expect("a reply");
            assert_eq!((reply.allowed, reply.delay_ms), (1, Some(0)));
        }
        assert_eq!((text(&answers[1]), text(&answers[3])), ("a".to_owned(), "b".to_owned()));
        // In a transaction nobody waits.
        let inside = list(&answers[7]);
        let delay_ms = Reply::new(&inside[0]).expect("a reply").delay_ms;
        assert!(delay_ms.is_some_and(|ms| (1..=60).contains(&ms)), "{delay_ms:?}");
        assert_eq!(text(&inside[1]), "c");
    }
}

/// A client that wants no replies is held as well, and goes on when it may.
#[test]
fn clients_without_replies_are_held_too() {
    let server = Server::start();
    let (mut client, mut watch) = (server.client(), server.client());
    let start_us = watch.time_us();
    client.limit("RL.LEAKY q 5 1 PER 200");
    let call = "RL.LEAKY q 5 1 PER 200 WAIT 10000";
    for line in ["CLIENT REPLY OFF", call, "SET done 1", "CLIENT REPLY ON"] {
        client.send(&words(line));
    }
    assert_eq!(text(&client.read()), "OK", "the answer to the last");
    assert!(watch.time_us() - start_us >= 200_000);
    assert_eq!(text(&watch.ok("GET done")), "1");

    // One reply that is skipped.
    for line in ["CLIENT REPLY SKIP", call, "ECHO x"] {
        client.send(&words(line));
    }
    assert_eq!(text(&client.read()), "x");
}

/// COST 0 waits behind all that is there, and takes nothing.
#[test]
fn cost_0_waits_until_all_before_it_has_gone() {
    let server = Server::start();
    let mut client = server.client();
    let start_us = client.time_us();
    client.limit("RL.LEAKY q 5 1 PER 200");
    let (reply, after, us) = and_then(&mut client, "5 1 PER 200", "COST 0 WAIT 10000");
    assert!(us - start_us >= 200_000);
    assert_eq!((reply.allowed, reply.remaining, reply.delay_ms), (1, 4, Some(0)));
    assert_eq!((reply.reset_after_ms, after.remaining), (0, 5));
}

/// State, replication, event and counter happen at the call and not when the reply comes; a client
/// that goes away keeps its place spent.
#[test]
fn the_call_is_carried_out_at_once() {
    let server = Server::with(&Config::new().append_only());
    let replica = server.replica();
    let mut watch = server.client();
    watch.ok("CONFIG SET notify-keyspace-events Ed");
    let mut subscriber = server.client();
    assert_eq!(super::number(&subscriber.ok("PSUBSCRIBE *:rl.*"), 2), 1);
    watch.limit(IN_AN_HOUR);
    let Held { client, .. } = Held::by(&server, IN_AN_HOUR);
    assert_eq!(level(&mut watch), 2);
    for _ in 0..2 {
        let heard = list(&subscriber.read());
        assert_eq!(text(&heard[2]), "__keyevent@0__:rl.allowed");
    }
    assert_eq!(allowed(&mut watch), 2);
    wait_for_replica(&server, &replica);
    assert_eq!(level(&mut replica.client()), 2);
    assert_eq!(watch.dump("q"), replica.client().dump("q"));
    assert_eq!(blocked(&mut watch), 1);

    let before = (watch.dump("q"), super::support::offset(&mut watch));
    client.cut();
    super::until("nobody is blocked", || blocked(&mut watch) == 0);
    assert_eq!((watch.dump("q"), super::support::offset(&mut watch)), before);
    assert_eq!((level(&mut watch), allowed(&mut watch)), (2, 2));
}

/// Waiting is no work: it is neither in the slow log nor in the time that calls have taken.
#[test]
fn waiting_is_not_running() {
    let server = Server::with(&Config::new().line("slowlog-log-slower-than 300000"));
    let mut client = server.client();
    client.limit("RL.LEAKY q 5 1 PER 600");
    and_then(&mut client, "5 1 PER 600", "WAIT 10000");
    assert_eq!(client.int("SLOWLOG LEN"), 0);
    let info = client.info("commandstats");
    let of_leaky = super::field(&info, "cmdstat_rl.leaky").expect("it was called");
    let number = |name| {
        let found = of_leaky.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|number| number.parse::<u64>().ok()).expect("a number")
    };
    assert_eq!(number("calls"), 3, "{of_leaky}");
    assert!(number("usec") < 300_000, "{of_leaky}");
}

/// What RL.STATS counts as allowed calls of RL.LEAKY.
fn allowed(client: &mut Client) -> i64 {
    let stats = list(&client.ok("RL.STATS"));
    let of_leaky = stats.chunks(2).find(|pair| text(&pair[0]) == "rl.leaky").expect("a command");
    let counters = list(&of_leaky[1]);
    int(&counters.chunks(2).find(|pair| text(&pair[0]) == "allowed").expect("a counter")[1])
}

/// The next in the queue is held for longer by all who wait before it.
#[test]
fn those_who_wait_are_in_front_of_those_who_come() {
    let server = Server::start();
    let mut watch = server.client();
    watch.limit(IN_AN_HOUR);
    let held: Vec<Held> = (0..5).map(|_| Held::by(&server, IN_AN_HOUR)).collect();
    let reply = watch.limit("RL.LEAKY q 1000 1 PER 3600000 PEEK");
    let delay_ms = reply.delay_ms.expect("a delay");
    assert!((5 * HOUR_MS..=6 * HOUR_MS).contains(&delay_ms), "{reply:?}");
    assert_eq!(blocked(&mut watch), held.len() as u64);
}
