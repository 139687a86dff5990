//! Clients that leave before their time: unblocked, killed, gone, paused, refused, shut down.

use std::thread;
use std::time::{Duration, Instant};

use super::support::{Client, Config, Reply, Server, error_text, int, text, words};
use super::{HOUR_MS, Held, IN_AN_HOUR, blocked, is_blocked, level, until};

/// CLIENT UNBLOCK: the reply at once, with the delay that is left and all waits less the time
/// waited.
#[test]
fn client_unblock_answers_with_what_is_left() {
    let server = Server::start();
    let mut watch = server.client();
    for client in [server.client(), server.client3()] {
        watch.ok("DEL q");
        let start_us = watch.time_us();
        watch.limit("RL.LEAKY q 2 1 PER 3600000");
        let mut held = Held::of(&server, client, "RL.LEAKY q 2 1 PER 3600000 WAIT 3600000");
        thread::sleep(Duration::from_millis(50));
        assert_eq!(watch.int(&format!("CLIENT UNBLOCK {} TIMEOUT", held.id)), 1);
        let reply = held.reply();
        let passed_ms = (watch.time_us() - start_us) / 1000 + 1;
        assert_eq!((reply.allowed, reply.limit, reply.remaining), (1, 2, 0), "{reply:?}");
        let left = HOUR_MS - passed_ms..=HOUR_MS - 50;
        let delay_ms = reply.delay_ms.expect("a delay");
        assert!(left.contains(&delay_ms), "{reply:?} after {passed_ms} ms");
        assert!(left.contains(&reply.retry_after_ms), "{reply:?} after {passed_ms} ms");
        let reset_ms = reply.reset_after_ms - HOUR_MS;
        assert!(left.contains(&reset_ms), "{reply:?} after {passed_ms} ms");
        // It goes on as before, and its unit stays taken.
        assert_eq!((level(&mut held.client), blocked(&mut watch)), (2, 0));
    }
}

/// The default of CLIENT UNBLOCK is TIMEOUT; ERROR answers the server's own error.
#[test]
fn client_unblock_error_answers_the_servers_error() {
    let server = Server::start();
    let mut watch = server.client();
    watch.limit(IN_AN_HOUR);
    let mut held = Held::by(&server, IN_AN_HOUR);
    assert_eq!(watch.int(&format!("CLIENT UNBLOCK {} ERROR", held.id)), 1);
    let error = error_text(&held.client.read());
    assert_eq!(error.as_deref(), Some("UNBLOCKED client unblocked via CLIENT UNBLOCK"));
    assert_eq!((level(&mut held.client), blocked(&mut watch)), (2, 0));
    let mut held = Held::by(&server, IN_AN_HOUR);
    assert_eq!(watch.int(&format!("CLIENT UNBLOCK {}", held.id)), 1);
    assert_eq!(held.reply().allowed, 1);
    // Nobody is left to unblock.
    assert_eq!(watch.int(&format!("CLIENT UNBLOCK {}", held.id)), 0);
}

/// CLIENT UNBLOCK in the very turn of the event loop in which its client is due: one reply, and no
/// other. Redis 7.0 and 7.2 lose it where a module unblocks clients before the commands of a turn
/// have run.
#[test]
fn client_unblock_at_the_moment_of_leaving() {
    let server = Server::with(&Config::new().debug());
    let (mut busy, mut unblocker, mut watch) = (server.client(), server.client(), server.client());
    for reason in ["TIMEOUT", "ERROR"] {
        watch.ok("DEL q");
        watch.limit("RL.LEAKY q 5 1 PER 300");
        let mut held = Held::by(&server, "RL.LEAKY q 5 1 PER 300 WAIT 300");
        let start = Instant::now();
        busy.send(&words("DEBUG SLEEP 0.6"));
        // While the server sleeps the client becomes due, and then the question comes.
        thread::sleep(Duration::from_millis(450).saturating_sub(start.elapsed()));
        unblocker.send(&words(&format!("CLIENT UNBLOCK {} {reason}", held.id)));
        busy.read();
        let unblocked = int(&unblocker.read());
        held.client.send(&["ECHO", "next"]);
        let first = held.client.read();
        match Reply::new(&first) {
            Some(reply) => assert_eq!((reply.allowed, reply.delay_ms), (1, Some(0)), "{reason}"),
            None => assert_eq!((reason, unblocked), ("ERROR", 1), "{first:?}"),
        }
        assert_eq!(text(&held.client.read()), "next", "{reason}");
        assert_eq!(blocked(&mut watch), 0);
    }
}

/// Clients that are killed or close their connection.
#[test]
fn clients_may_go_away() {
    let server = Server::start();
    let mut watch = server.client();
    watch.limit(IN_AN_HOUR);
    let mut killed = Held::by(&server, IN_AN_HOUR);
    let gone = Held::by(&server, IN_AN_HOUR);
    let stays = Held::by(&server, IN_AN_HOUR);
    assert_eq!(blocked(&mut watch), 3);
    assert_eq!(watch.int(&format!("CLIENT KILL ID {}", killed.id)), 1);
    assert!(killed.client.try_read().is_err(), "the connection is closed");
    gone.client.cut();
    until("one is left", || blocked(&mut watch) == 1);
    assert!(is_blocked(&mut watch, stays.id));
    assert_eq!(level(&mut watch), 4);
}

/// Clients go away at the moment when they are due, many at once: the server goes on.
#[test]
fn clients_go_away_while_they_are_due() {
    let server = Server::start();
    let mut watch = server.client();
    for _ in 0..20 {
        watch.limit("RL.LEAKY q 100000 1 PER 30");
        let clients: Vec<Client> = (0..20)
            .map(|_| {
                let mut client = server.client();
                client.send(&words("RL.LEAKY q 100000 1000 WAIT 60000"));
                client
            })
            .collect();
        let odd = clients.into_iter().enumerate();
        odd.filter(|(nth, _)| nth % 2 == 1).for_each(|(_, client)| client.cut());
    }
    until("nobody is blocked", || blocked(&mut watch) == 0);
    assert_eq!(watch.limit("RL.LEAKY q 100000 1000").allowed, 1);
}

/// CLIENT PAUSE holds commands and not replies: who waits leaves in time, and a call that comes
/// meanwhile is decided when the pause is over.
#[test]
fn client_pause_holds_calls_and_not_replies() {
    let server = Server::start();
    let (mut watch, mut late) = (server.client(), server.client());
    watch.limit("RL.LEAKY q 5 1 PER 200");
    let mut held = Held::by(&server, "RL.LEAKY q 5 1 PER 200 WAIT 10000");
    watch.ok("CLIENT PAUSE 60000 WRITE");
    late.send(&words("RL.LEAKY other 5 1 WAIT 1000"));
    assert_eq!(held.reply().delay_ms, Some(0));
    // A look passes, and shows that the call was not carried out.
    assert_eq!(watch.run("RL.PEEK other"), redis::Value::Nil);
    watch.ok("CLIENT UNPAUSE");
    assert_eq!(Reply::new(&late.read()).expect("a reply").allowed, 1);
}

/// Those who wait are clients as others are: at `maxclients` nobody else comes in, until they have
/// left.
#[test]
fn who_waits_counts_as_a_client() {
    let server = Server::with(&Config::new().line("maxclients 12"));
    let mut watch = server.client();
    watch.limit("RL.LEAKY q 100 1 PER 3600000");
    let mut held = Vec::new();
    let refused = loop {
        let mut client = server.client();
        let line = IN_AN_HOUR;
        match client.try_call(&["CLIENT", "ID"]) {
            Ok(redis::Value::Int(_)) => held.push(Held::of_known(client, &mut watch, line)),
            other => break other,
        }
        assert!(held.len() <= 12, "there is no limit");
    };
    if let Ok(answer) = refused {
        let error = error_text(&answer).unwrap_or_else(|| panic!("{answer:?}"));
        assert!(error.contains("max number of clients reached"), "{error}");
    }
    for waiter in &mut held {
        watch.ok(&format!("CLIENT UNBLOCK {}", waiter.id));
        assert_eq!(waiter.reply().allowed, 1);
    }
    drop(held);
    until("there is room again", || {
        server.client().try_call(&["PING"]).is_ok_and(|answer| error_text(&answer).is_none())
    });
}

impl Held {
    /// Sends the call of a client that is connected, watched by another.
    fn of_known(mut client: Client, watch: &mut Client, line: &str) -> Held {
        let id = client.int("CLIENT ID");
        client.send(&words(line));
        until("the client is blocked", || is_blocked(watch, id));
        Held { client, id }
    }
}

/// SHUTDOWN while many wait: the server ends as it should, and their places are spent afterwards.
#[test]
fn shutdown_ends_all_waits() {
    let mut server = Server::with(&Config::new().append_only());
    server.client().limit(IN_AN_HOUR);
    let mut held: Vec<Held> = (0..50).map(|_| Held::by(&server, IN_AN_HOUR)).collect();
    server.stop();
    for waiter in &mut held {
        assert!(waiter.client.try_read().is_err(), "the connection is closed");
    }
    let log = server.log();
    for word in ["crash", "panicked", "ASSERTION", "bug in"] {
        assert!(!log.contains(word), "{log}");
    }
    server.start_again();
    assert_eq!((level(&mut server.client()), blocked(&mut server.client())), (51, 0));
}
