//! A replica takes over: planned or not, and while very many keys end.

use std::sync::atomic::{AtomicBool, Ordering};

use super::support::{Client, Config, Reply, Server, beside, error_text, field, int, until};
use super::{assert_same, info_number};

/// A call of each limiter on a key of its own whose limit no test reaches, and where nothing comes
/// back while it runs.
const LARGE: [(&str, &str); 3] = [
    ("t", "RL.TOKENBUCKET t 1000000 1 PER 600000"),
    ("l", "RL.LEAKY l 1000000 1 PER 600000"),
    ("s", "RL.SLIDING s 1000000 600000"),
];

/// What a server counts on a key of `LARGE`.
fn counted(client: &mut Client, key: &str) -> i64 {
    1_000_000 - client.limit(&format!("RL.PEEK {key}")).remaining
}

/// BR-228 vutran1710/PyrateLimiter#182: after the primary was killed under load, the first call on
/// the replica, of a connection that was there before, works with nothing to load. What the replica
/// had acknowledged is counted, and nothing that was not asked.
#[test]
fn a_replica_takes_over_from_a_primary_that_was_killed() {
    let mut primary = Server::start();
    let replica = primary.replica();
    let mut connections = LARGE.map(|_| replica.client());
    let calling: Vec<(Client, &str)> =
        LARGE.iter().map(|(_, call)| (primary.client(), *call)).collect();
    let tasks = calling
        .into_iter()
        .map(|(client, call)| move |over: &AtomicBool| call_until_killed(client, call, over));
    let counts = beside(tasks, || {
        let mut watch = replica.client();
        until("the replica has seen some calls", || {
            LARGE.iter().all(|(key, _)| seen(&mut watch, key).is_some_and(|n| n > 50))
        });
        primary.kill();
    });
    connections[0].ok("REPLICAOF NO ONE");
    for ((key, call), (client, (sent, sure))) in
        LARGE.iter().zip(connections.iter_mut().zip(counts))
    {
        let reply = client.limit(call);
        assert_eq!(reply.allowed, 1, "{call}");
        let taken = 1_000_000 - reply.remaining - 1;
        assert!((sure..=sent).contains(&taken), "{call}: {taken} of {sure} to {sent}");
        assert_eq!(counted(client, key), taken + 1, "{call}");
    }
}

/// How many units a replica sees as taken, if it knows the key.
fn seen(client: &mut Client, key: &str) -> Option<i64> {
    Reply::new(&client.run(&format!("RL.PEEK {key}"))).map(|reply| 1_000_000 - reply.remaining)
}

/// Calls until the server is gone, each time waiting for the replica: how many calls were sent, and
/// how many the replica has acknowledged.
fn call_until_killed(mut client: Client, call: &str, over: &AtomicBool) -> (i64, i64) {
    let words = super::words(call);
    let (mut sent, mut sure) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        sent += 1;
        let Ok(answer) = client.try_call(&words) else { return (sent, sure) };
        assert_eq!(Reply::new(&answer).expect("a reply").allowed, 1, "{call}");
        match client.try_call(&["WAIT", "1", "10000"]) {
            Ok(replicas) if int(&replicas) == 1 => sure = sent,
            Ok(replicas) => panic!("{replicas:?} replicas"),
            Err(_) => break,
        }
    }
    (sent, sure)
}

/// A planned failover under load loses nothing and counts nothing twice.
#[test]
fn a_planned_failover_counts_every_call_once() {
    let primary = Server::start();
    let replica = primary.replica();
    let tasks = LARGE.iter().map(|(_, call)| {
        let clients = [primary.client3(), replica.client()];
        move |over: &AtomicBool| call_wherever(clients, call, over)
    });
    let taken = beside(tasks, || {
        let mut watch = primary.client();
        let mut calls_go_on = |least| {
            until("calls go on", || {
                LARGE.iter().all(|(key, _)| seen(&mut watch, key).is_some_and(|n| n > least))
            });
        };
        // There and back again.
        calls_go_on(50);
        fail_over(&primary, &replica, "");
        calls_go_on(100);
        fail_over(&replica, &primary, "");
        calls_go_on(150);
    });
    assert_same(&primary, &replica, "after two failovers");
    for ((key, call), taken) in LARGE.iter().zip(taken) {
        assert_eq!(counted(&mut primary.client(), key), taken, "{call}");
    }
}

/// Calls whichever of the two servers takes writes, until all is over: how often it was allowed.
fn call_wherever(clients: [Client; 2], call: &str, over: &AtomicBool) -> i64 {
    let mut clients = clients;
    let (mut current, mut taken) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        let answer = clients[current].run(call);
        match (Reply::new(&answer), error_text(&answer)) {
            (Some(reply), _) => taken += reply.allowed,
            (_, Some(error)) if error.starts_with("READONLY ") => current = 1 - current,
            _ => panic!("{call}: {answer:?}"),
        }
    }
    taken
}

/// Hands over once, and waits until it is done. What is written goes on all the while.
fn fail_over(from: &Server, to: &Server, options: &str) {
    let (mut old, mut new) = (from.client(), to.client());
    old.ok(&format!("FAILOVER TO 127.0.0.1 {}{options}", to.port()));
    until("the failover is over", || {
        let info = old.info("replication");
        field(&info, "master_failover_state") == Some("no-failover")
    });
    let (now, then) = (new.info("replication"), old.info("replication"));
    assert!(now.contains("role:master") && then.contains("role:slave"), "{}", from.log());
    until("the old primary follows the new one", || {
        field(&old.info("replication"), "master_link_status") == Some("up")
    });
}

/// Keys that end while the failover is under way, and the scripts that make them.
const ENDING: usize = 200_000;
const SCRIPTS: usize = 20;

/// BR-227 redis/redis#4027: a failover while very many limiter keys end succeeds the first time.
#[test]
fn a_failover_while_keys_end_succeeds_the_first_time() {
    let primary = Server::with(&Config::new());
    let replica = primary.replica();
    let mut client = primary.client();
    let each = ENDING / SCRIPTS;
    for part in 0..SCRIPTS {
        // Each key ends at a time of its own within two seconds.
        let script = format!(
            "local from, each = {}, {each}\n\
             for i = from, from + each - 1 do\n\
             local ms = 100 + (i * 7919) % 2000\n\
             if i % 3 == 0 then redis.call('RL.TOKENBUCKET', 'k' .. i, 1, 1, 'PER', ms)\n\
             elseif i % 3 == 1 then redis.call('RL.LEAKY', 'k' .. i, 1, 1, 'PER', ms)\n\
             else redis.call('RL.SLIDING', 'k' .. i, 1, ms) end\n\
             end return 1",
            part * each
        );
        assert_eq!(int(&client.call(&["EVAL", &script, "0"])), 1);
    }
    let before = info_number(&mut client, "stats", "expired_keys");
    until("keys end", || info_number(&mut client, "stats", "expired_keys") > before);
    let left = client.int("DBSIZE");
    assert!(left > 1000, "only {left} keys are left to end");
    let looker = primary.client();
    let look = |over: &AtomicBool| look_until(looker, over);
    beside([look], || fail_over(&primary, &replica, " TIMEOUT 20000"));
    let mut new = replica.client();
    assert_eq!(new.limit("RL.TOKENBUCKET k0 1 1 PER 3600000").limit, 1);
    until("all other keys end on both", || new.int("DBSIZE") == 1 && client.int("DBSIZE") == 1);
    assert_same(&replica, &primary, "what is left");
}

/// Looks at keys that end, which must not hold up the failover.
fn look_until(mut client: Client, over: &AtomicBool) {
    for number in (0..ENDING).cycle().step_by(31) {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let answer = client.run(&format!("RL.PEEK k{number}"));
        assert_eq!(error_text(&answer), None, "RL.PEEK k{number}");
    }
}
