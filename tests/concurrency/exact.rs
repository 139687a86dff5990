//! Many clients on one key: the limit is the limit, to the unit. The rates are so slow that nothing
//! comes back while a test runs.

use std::env;
use std::process::Command;
use std::sync::Barrier;
use std::thread;

use super::support::{Client, Config, Reply, Server, int, words};

/// A call of each limiter with a limit that time does not touch for an hour.
fn slow_calls(key: &str, limit: usize) -> [String; 3] {
    [
        format!("RL.TOKENBUCKET {key}:t {limit} 1 PER 36000000"),
        format!("RL.LEAKY {key}:l {limit} 1 PER 36000000"),
        format!("RL.SLIDING {key}:s {limit} 3600000"),
    ]
}

/// Clients that start together and each make `calls` calls; the replies of all of them.
fn together(server: &Server, clients: usize, calls: usize, line: &str) -> Vec<Reply> {
    let barrier = Barrier::new(clients);
    thread::scope(|scope| {
        let one = || {
            let mut client = server.client();
            barrier.wait();
            (0..calls).map(|_| client.limit(line)).collect::<Vec<_>>()
        };
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(one)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    })
}

fn allowed(replies: &[Reply]) -> usize {
    replies.iter().filter(|reply| reply.allowed == 1).count()
}

#[test]
fn sixty_four_clients_get_exactly_the_limit() {
    let server = Server::start();
    for line in slow_calls("k", 1000) {
        let replies = together(&server, 64, 40, &line);
        assert_eq!(replies.len(), 2560);
        assert_eq!(allowed(&replies), 1000, "{line}");
        assert!(replies.iter().all(|reply| reply.limit == 1000 && reply.remaining >= 0));
    }
}

/// BR-112 alisaifee/limits#266, BR-157 Kong/kong#11846: twenty clients on one window of 2,000: the
/// remaining values of their allowed replies are 1,999 to 0, each once.
#[test]
fn every_remaining_value_is_told_once() {
    let server = Server::start();
    for line in slow_calls("k", 2000) {
        let replies = together(&server, 20, 120, &line);
        let told = replies.iter().filter(|reply| reply.allowed == 1);
        let mut remaining: Vec<i64> = told.map(|reply| reply.remaining).collect();
        remaining.sort_unstable();
        assert_eq!(remaining, (0..2000).collect::<Vec<i64>>(), "{line}");
    }
}

/// BR-149 kkoomen/nestjs-throttler-storage-redis#1064, BR-150 nestjs/throttler#1303, BR-154
/// BerriAI/litellm#4125, BR-159 envoyproxy/ratelimit#1215, BR-160 valkey-io/valkey-go#176: hundreds
/// to thousands of calls at once from many connections pass exactly as often as the limit says.
#[test]
fn calls_that_are_all_under_way_at_once_pass_as_often_as_the_limit_says() {
    let server = Server::start();
    for (clients, limit) in [(300, 5), (300, 777), (300, 1199)] {
        let mut connections: Vec<Client> = (0..clients).map(|_| server.client()).collect();
        for line in slow_calls(&format!("k{limit}"), limit) {
            let call = words(&line);
            for _ in 0..4 {
                connections.iter_mut().for_each(|client| client.send(&call));
            }
            let mut replies = Vec::new();
            for client in &mut connections {
                for _ in 0..4 {
                    replies.push(Reply::new(&client.read()).expect("a reply"));
                }
            }
            assert_eq!(replies.len(), 1200);
            assert_eq!(allowed(&replies), limit, "{line}");
        }
    }
}

/// Names the server to a process that this test starts, and so makes it a worker.
const WORKER_PORT: &str = "RL_TEST_WORKER_PORT";
/// Calls that each process makes on each key.
const WORKER_CALLS: usize = 300;

/// BR-155 BerriAI/litellm#40291, BR-156 Kong/kong#11859: four processes that share a key pass the
/// limit once, not four times, and each call counts once.
#[test]
fn four_processes_share_one_limit() {
    if let Ok(port) = env::var(WORKER_PORT) {
        return worker(Client::connect(port.parse().expect("a port")).expect("a connection"));
    }
    let server = Server::start();
    let mut workers: Vec<_> = (0..4)
        .map(|_| {
            Command::new(env::current_exe().expect("this test"))
                .args(["--exact", "exact::four_processes_share_one_limit"])
                .env(WORKER_PORT, server.port().to_string())
                .stdout(std::process::Stdio::null())
                .spawn()
                .expect("a process")
        })
        .collect();
    for worker in &mut workers {
        assert!(worker.wait().expect("a process that ends").success());
    }
    let mut client = server.client();
    for line in slow_calls("tight", 500) {
        let key = line.split(' ').nth(1).expect("a key");
        assert_eq!(counted(&mut client, &format!("passed:{key}")), 500, "{line}");
        assert_eq!(client.limit(&format!("{line} PEEK")).remaining, 0, "{line}");
    }
    for line in slow_calls("wide", 5000) {
        let key = line.split(' ').nth(1).expect("a key");
        assert_eq!(counted(&mut client, &format!("passed:{key}")), 1200, "{line}");
        assert_eq!(client.limit(&format!("{line} PEEK")).remaining, 3800, "{line}");
    }
}

/// What one of the processes does: it tells its count through the server.
fn worker(mut client: Client) {
    for line in slow_calls("tight", 500).into_iter().chain(slow_calls("wide", 5000)) {
        let key = line.split(' ').nth(1).expect("a key");
        let passed = (0..WORKER_CALLS).filter(|_| client.limit(&line).allowed == 1).count();
        client.ok(&format!("INCRBY passed:{key} {passed}"));
    }
}

fn counted(client: &mut Client, key: &str) -> i64 {
    int(&client.run(&format!("INCRBY {key} 0")))
}

/// BR-158 animir/node-rate-limiter-flexible#150: two connections race for the last unit, ten
/// thousand times over; each time exactly one wins.
#[test]
fn two_clients_never_both_get_the_last_unit() {
    const RACES: usize = 10_000;
    let server = Server::start();
    let start = Barrier::new(2);
    let line = |race: usize| match race % 3 {
        0 => format!("RL.TOKENBUCKET k{race} 1 1 PER 36000000"),
        1 => format!("RL.LEAKY k{race} 1 1 PER 36000000"),
        _ => format!("RL.SLIDING k{race} 1 3600000"),
    };
    let one = || {
        let mut client = server.client();
        // In groups, so that the two do not drift apart: a race needs both at the start.
        (0..RACES)
            .map(|race| {
                if race % 10 == 0 {
                    start.wait();
                }
                client.limit(&line(race)).allowed
            })
            .collect::<Vec<i64>>()
    };
    let (first, second) = thread::scope(|scope| {
        let other = scope.spawn(one);
        (one(), other.join().expect("a client"))
    });
    for (race, (first, second)) in first.iter().zip(&second).enumerate() {
        assert_eq!(first + second, 1, "{}", line(race));
    }
}

/// BR-116 spring-cloud/spring-cloud-gateway#2412, BR-119 openlinker-project/openlinker#2019, BR-120
/// redis/docs#3788: ten clients whose own clocks are seconds apart pass no more than capacity +
/// rate x time, since only the server's clock counts.
#[test]
fn the_clients_clocks_count_for_nothing() {
    let server = Server::with(&Config::new());
    let mut watch = server.client();
    let first_us = watch.time_us();
    let replies: Vec<Reply> = thread::scope(|scope| {
        let clients: Vec<_> = (0..10)
            .map(|number: i64| {
                let mut client = server.client();
                // One clock is 20 s behind, the last 25 s ahead.
                let apart_ms = (number - 4) * 5000;
                scope.spawn(move || {
                    let mut replies = Vec::new();
                    for _ in 0..200 {
                        let own_ms = client.time_us() / 1000 + apart_ms;
                        let refused = client.refused(&format!("RL.TOKENBUCKET k 20 5 AT {own_ms}"));
                        assert!(refused.starts_with("ERR AT is refused"), "{refused}");
                        replies.push(client.limit("RL.TOKENBUCKET k 20 5"));
                    }
                    replies
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    let elapsed_us = watch.time_us() - first_us;
    let most = 20 + 5 * elapsed_us / 1_000_000;
    let passed = i64::try_from(allowed(&replies)).expect("a count");
    assert!((20..=most).contains(&passed), "{passed} passed in {elapsed_us} us");
}
