//! A thousand clients wait: they leave in order, at the rate, and cost nothing meanwhile.

use std::thread;
use std::time::{Duration, Instant};

use super::support::{Client, Server, field, list, pack, text, until, words};
use super::{blocked, number};

const CLIENTS: i64 = 1000;
/// Clients that leave in a second.
const RATE: i64 = 500;
/// How long the first has to wait: time enough to connect all, and to watch them wait.
const FIRST_US: i64 = 9_000_000;
/// The server waits by another clock than it tells, and the two are compared so exactly.
const TREMOR_US: i64 = 200;

#[test]
fn a_thousand_clients_leave_in_order_at_the_rate_and_cost_nothing_meanwhile() {
    raise_limit_of_open_files();
    let server = Server::start();
    let mut watch = server.client();
    let units = FIRST_US / 1_000_000 * RATE;
    let plug = format!("RL.LEAKY q 1000000 {RATE} COST {units}");
    let sent = ["MULTI", "TIME", &plug, "TIME", "EXEC"].map(words);
    let answers = list(&watch.pipeline(&sent)[4]);
    let (earliest_us, latest_us) = (time_us(&answers[0]), time_us(&answers[2]));
    assert_eq!(number(&answers[1], 0), 1);

    let start = Instant::now();
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|nth| {
            let client = waiting(&server, nth);
            until("the client waits", || blocked(&mut watch) == u64::try_from(nth + 1).unwrap());
            client
        })
        .collect();
    let connected = start.elapsed();
    let share = cpu_share(&mut watch, earliest_us + FIRST_US - 500_000);

    for client in &mut clients {
        let reply = client.read();
        assert_eq!((number(&reply, 0), number(&reply, 5)), (1, 0));
        client.read();
    }
    let left: Vec<(i64, i64)> =
        list(&watch.ok("LRANGE left 0 -1")).iter().map(|entry| departure(&text(entry))).collect();
    let order: Vec<i64> = left.iter().map(|&(nth, _)| nth).collect();
    assert_eq!(order, (0..CLIENTS).collect::<Vec<_>>(), "they leave in the order of their coming");
    let due_us = |nth: i64| FIRST_US + nth * 1_000_000 / RATE;
    for &(nth, us) in &left {
        let early_us = earliest_us + due_us(nth) - us;
        assert!(early_us <= TREMOR_US, "{nth}: {early_us} us too early");
    }
    let mut late_us: Vec<i64> =
        left.iter().map(|&(nth, us)| us - latest_us - due_us(nth)).collect();
    late_us.sort_unstable();
    let at = |percent: usize| late_us[(late_us.len() - 1) * percent / 100];
    let told = format!(
        "{connected:?} to connect; CPU {share:.4}; late by us: {} {} {} {}",
        at(50),
        at(90),
        at(99),
        at(100)
    );
    println!("{told}");
    // Others may take the processor from the server, so only what half of them see is judged.
    assert!(at(50) < 5000, "{told}");
    assert!(share < 0.05, "{told}");
}

/// A client that waits, and then notes when it has left.
fn waiting(server: &Server, nth: i64) -> Client {
    let script = "local t = redis.call('TIME') \
                  redis.call('RPUSH', 'left', ARGV[1] .. ' ' .. t[1] .. ' ' .. t[2])";
    let mut client = server.client();
    let mut packed = Vec::new();
    pack(&mut packed, &words(&format!("RL.LEAKY q 1000000 {RATE} WAIT 60000")));
    pack(&mut packed, &["EVAL", script, "0", &nth.to_string()]);
    client.send_bytes(&packed).expect("the server takes what is sent");
    client
}

/// The share of a processor that the server takes until `until_us` of its clock.
fn cpu_share(watch: &mut Client, until_us: i64) -> f64 {
    let (start, before) = (Instant::now(), cpu_seconds(watch));
    let left_us = u64::try_from(until_us - watch.time_us()).unwrap_or(0);
    thread::sleep(Duration::from_micros(left_us));
    let share = (cpu_seconds(watch) - before) / start.elapsed().as_secs_f64();
    assert!(left_us > 1_000_000, "the machine is too slow: {left_us} us to watch");
    share
}

/// What the server has taken of the processor.
fn cpu_seconds(client: &mut Client) -> f64 {
    let info = client.info("cpu");
    let of = |name| field(&info, name).and_then(|n| n.parse::<f64>().ok()).expect("a number");
    of("used_cpu_sys") + of("used_cpu_user")
}

/// What a client noted: which it is, and when it left.
fn departure(entry: &str) -> (i64, i64) {
    let parts: Vec<i64> = entry.split(' ').map(|part| part.parse().expect("a number")).collect();
    (parts[0], parts[1] * 1_000_000 + parts[2])
}

fn time_us(answer: &redis::Value) -> i64 {
    let parts: Vec<i64> =
        list(answer).iter().map(|part| text(part).parse().expect("a number")).collect();
    parts[0] * 1_000_000 + parts[1]
}

/// Some systems let a process open no more than 1024 files, unless it asks.
fn raise_limit_of_open_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is ours, and the calls only read or write it.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_max.min(8192).max(limit.rlim_cur);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
}
