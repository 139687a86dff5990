//! A hundred thousand waits, however they end, leave nothing behind.

use super::support::{Client, Server, field, pack, text, until, words};
use super::{blocked, number};

/// Clients that wait at the same time.
const CLIENTS: usize = 100;
/// Waits that end by themselves, in each of which a client waits for about a ms.
const SERVED: usize = 80_000;
/// Waits that end in each of the other ways.
const ENDED: usize = 5_000;
/// What may come and go in a server of itself: two bytes a wait.
const TREMOR: i64 = 200_000;

#[test]
fn a_hundred_thousand_waits_leave_nothing_behind() {
    let server = Server::start();
    let mut watch = server.client();
    // Whatever is made once is made.
    all_ways(&server, CLIENTS * 10, CLIENTS * 2);
    let before = resting_memory(&mut watch, i64::MAX);
    all_ways(&server, SERVED, ENDED);
    let after = resting_memory(&mut watch, before + TREMOR);
    println!("{before} {after}");
    assert_eq!(blocked(&mut watch), 0);
}

/// The memory of a server at rest, when it is at most `most`: it gives back what blocked clients
/// took little by little.
fn resting_memory(watch: &mut Client, most: i64) -> i64 {
    until("nobody is blocked", || blocked(watch) == 0);
    let (mut last, mut same) = (0_i64, 0);
    until("the memory has come to rest, as before", || {
        let info = watch.info("memory");
        let used: i64 = field(&info, "used_memory").and_then(|n| n.parse().ok()).expect("a number");
        same = if (used - last).abs() < 2000 { same + 1 } else { 0 };
        last = used;
        same >= 30 && used <= most
    });
    last
}

fn all_ways(server: &Server, served: usize, ended: usize) {
    let mut watch = server.client();
    watch.ok("FLUSHALL");
    serve(server, served);
    for end in ["TIMEOUT", "ERROR", "KILL", "CUT"] {
        for _ in 0..ended / CLIENTS {
            end_all(server, &mut watch, end);
        }
    }
    watch.ok("FLUSHALL");
}

/// Clients that send one call after the other, each on a queue of its own.
fn serve(server: &Server, waits: usize) {
    let each = waits / CLIENTS;
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
    for (nth, client) in clients.iter_mut().enumerate() {
        let mut packed = Vec::new();
        for _ in 0..each {
            pack(&mut packed, &words(&format!("RL.LEAKY q{nth} 5 1000 WAIT 60000")));
        }
        client.send_bytes(&packed).expect("the server takes what is sent");
    }
    for client in &mut clients {
        for _ in 0..each {
            assert_eq!(number(&client.read(), 0), 1);
        }
    }
}

/// Clients that wait for hours, and are not let.
fn end_all(server: &Server, watch: &mut Client, end: &str) {
    watch.run("RL.LEAKY q 1000000 1 PER 60000");
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|_| {
            let mut client = server.client();
            client.send(&words("RL.LEAKY q 1000000 1 PER 60000 WAIT 315360000000"));
            client
        })
        .collect();
    until("all wait", || blocked(watch) == CLIENTS as u64);
    if end == "CUT" {
        clients.into_iter().for_each(Client::cut);
    } else {
        let shown = text(&watch.ok("CLIENT LIST"));
        // Those of an earlier round may not be gone yet; the letter is among the flags.
        let blocked = |line: &&str| {
            line.split(' ')
                .any(|word| word.strip_prefix("flags=").is_some_and(|flags| flags.contains('b')))
        };
        let waiting = shown.lines().filter(blocked);
        let ids = waiting.filter_map(|line| line.strip_prefix("id=")?.split(' ').next());
        let lines = ids.map(|id| match end {
            "KILL" => format!("CLIENT KILL ID {id}"),
            _ => format!("CLIENT UNBLOCK {id} {end}"),
        });
        let lines: Vec<_> = lines.map(|line| words(&line)).collect();
        assert_eq!(lines.len(), CLIENTS);
        watch.pipeline(&lines);
    }
    until("nobody waits", || blocked(watch) == 0);
    watch.ok("DEL q");
}
