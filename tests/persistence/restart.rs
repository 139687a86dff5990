//! What a limit answers after a restart: to new parameters, to old connections, after its time is
//! over, and that the save points count what takes.

use std::thread;
use std::time::{Duration, Instant};

use super::support::{Client, Config, DEADLINE, Reply, Server, error_text, field, until, words};
use super::{Contents, append_only, contents, now_ms, rewrite};

/// A server that writes its files, and the end and new start that they outlive.
type Form = (Config, fn(&mut Server));

fn forms() -> [Form; 3] {
    [
        (Config::new().line("save 3600 1"), Server::restart),
        (append_only("yes"), Server::kill_and_restart),
        (append_only("no"), Server::kill_and_restart),
    ]
}

/// BR-172 thingsboard/tbmq#355: a call with new parameters after a restart is judged by these, and
/// until then a look answers by those from before.
#[test]
fn new_parameters_after_a_restart_are_judged_by_these() {
    // A call, what it leaves; the call with other parameters, what that leaves.
    let cases = [
        ("RL.TOKENBUCKET k 10 1 PER 3600000 COST 4", 6, "RL.TOKENBUCKET k 5 2 PER 3600000", 4),
        ("RL.TOKENBUCKET k 10 1 PER 3600000 COST 4", 6, "RL.TOKENBUCKET k 50 2 PER 3600000", 5),
        ("RL.LEAKY k 10 1 PER 3600000 COST 4", 6, "RL.LEAKY k 5 2 PER 3600000", 0),
        ("RL.LEAKY k 10 1 PER 3600000 COST 4", 6, "RL.LEAKY k 50 2 PER 3600000", 45),
        ("RL.SLIDING k 10 3600000 COST 4", 6, "RL.SLIDING k 5 7200000", 0),
        ("RL.SLIDING k 10 3600000 COST 4", 6, "RL.SLIDING k 50 7200000", 45),
    ];
    for (config, restart) in forms() {
        let mut server = Server::with(&config);
        for (before, left, after, left_then) in cases {
            let mut client = server.client();
            client.ok("FLUSHALL");
            assert_eq!(client.limit(before).remaining, left, "{before}");
            let value = client.dump("k");
            restart(&mut server);
            let mut client = server.client();
            assert_eq!(client.dump("k"), value, "{before}");
            let look = client.limit("RL.PEEK k");
            assert_eq!((look.limit, look.remaining), (10, left), "{before}: remembered");
            let reply = client.limit(after);
            assert_eq!((reply.allowed, reply.remaining), (1, left_then), "{after}");
            let look = client.limit("RL.PEEK k");
            assert_eq!((look.limit, look.remaining), (reply.limit, left_then), "{after}");
        }
    }
}

/// BR-243 express-rate-limit/rate-limit-redis#71, BR-244 express-rate-limit/rate-limit-redis#144,
/// BR-246 rwz/redis-gcra#5, BR-247 long2ice/fastapi-limiter#32, BR-248 SGrondin/bottleneck#118,
/// BR-249 bosima/FireflySoft.RateLimit#7, BR-250 QuantumNous/new-api#6412: a client that was
/// connected before a restart calls as before, with the limiter's command as the first that the
/// server hears from it, and is answered: there is no script to load again.
#[test]
fn a_client_from_before_a_restart_has_nothing_to_reload() {
    let calls = ["RL.TOKENBUCKET t 5 1 PER 3600000", "RL.LEAKY l 5 1 PER 3600000"];
    let calls = [calls[0], calls[1], "RL.SLIDING s 5 3600000"];
    for (config, restart) in forms() {
        let mut server = Server::with(&config);
        let mut clients = calls.map(|call| {
            let mut client = server.client();
            assert_eq!(client.limit(call).remaining, 4, "{call}");
            client
        });
        restart(&mut server);
        for (client, call) in clients.iter_mut().zip(calls) {
            // A connection ends with its server: a client library makes a new one and calls again.
            assert!(client.try_call(&words(call)).is_err(), "{call}");
            *client = server.client();
            assert_eq!(client.limit(call).remaining, 3, "{call}");
        }
        // Nor is there one that somebody else could remove from a server that runs.
        server.client().ok("SCRIPT FLUSH");
        server.client().ok("FUNCTION FLUSH");
        for (client, call) in clients.iter_mut().zip(calls) {
            assert_eq!(client.limit(call).remaining, 2, "{call}");
        }
    }
}

/// Whoever calls while the server still loads gets Redis's own error, the internal command among
/// what is refused, and after that the answer that the load has led to.
#[test]
fn a_call_while_the_server_loads_waits_for_the_load() {
    // Events are looked at after each KiB of a snapshot that is loaded, each key taking 1 ms.
    let slow = append_only("yes")
        .debug()
        .line("key-load-delay 1000")
        .line("loading-process-events-interval-bytes 1024");
    let mut server = Server::with(&slow);
    let calls: Vec<_> =
        (0..400).map(|key| words(&format!("RL.LEAKY l{key} 9 1 PER 3600000"))).collect();
    let mut client = server.client();
    client.pipeline(&calls);
    rewrite(&server);
    let before = contents(&mut client);
    server.kill();
    let port = server.port();
    let caller = thread::spawn(move || refusals_while_loading(port));
    server.start_again();
    let refusals = caller.join().expect("the caller");
    assert!(refusals > 0, "nobody saw it load");
    let mut client = server.client();
    assert_eq!(client.limit("RL.PEEK l399").remaining, 7, "the first call that was answered");
    client.ok("RL.REFUND l399 1");
    let after = contents(&mut client);
    let others = |mut all: Contents| {
        all.remove("l399");
        all
    };
    assert_eq!(others(after), others(before));
}

/// Calls until an answer is a limiter's, which takes one unit; how often the server was loading.
fn refusals_while_loading(port: u16) -> usize {
    let start = Instant::now();
    let mut refusals = 0;
    while start.elapsed() < DEADLINE {
        thread::sleep(Duration::from_millis(1));
        let Ok(mut client) = Client::connect(port) else { continue };
        let calls = ["RL.EFFECT l399 x", "RL.LEAKY l399 9 1 PER 3600000"];
        for call in calls {
            let Ok(answer) = client.try_call(&words(call)) else { break };
            match error_text(&answer) {
                Some(text) if text.starts_with("LOADING ") => refusals += 1,
                Some(text) => assert!(call.starts_with("RL.EFFECT"), "{call}: {text}"),
                None => {
                    assert!(Reply::new(&answer).is_some_and(|reply| reply.allowed == 1), "{call}");
                    return refusals;
                }
            }
        }
    }
    panic!("no answer");
}

/// BR-230 brandur/redis-cell#52: the save points count what takes, and nothing else: denials never
/// make the server save, admissions do, and after a kill the state is there.
#[test]
fn admissions_alone_reach_a_save_point() {
    let mut server = Server::with(&Config::new().line("save 1 6"));
    let mut client = server.client();
    let calls = ["RL.TOKENBUCKET t 2 1 PER 3600000", "RL.LEAKY l 2 1 PER 3600000"];
    let calls = [calls[0], calls[1], "RL.SLIDING s 2 3600000"];
    let changes = |client: &mut Client| -> i64 {
        let info = client.info("persistence");
        let changes = field(&info, "rdb_changes_since_last_save").expect("it is told");
        changes.parse().expect("a number")
    };
    for (number, call) in (1..).zip(calls) {
        client.limit(&format!("{call} COST 2"));
        assert_eq!(changes(&mut client), number, "{call}");
    }
    let denials: Vec<_> = (0..999).map(|number| words(calls[number % 3])).collect();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1500) {
        for answer in client.pipeline(&denials) {
            assert_eq!(Reply::new(&answer).map(|reply| reply.allowed), Some(0));
        }
        for look in
            ["RL.PEEK t", "RL.INFO l", "RL.SLIDING s 2 3600000 COST 0", "RL.LEAKY l 9 9 PEEK"]
        {
            client.ok(look);
        }
    }
    assert_eq!(changes(&mut client), 3, "after denials and looks");
    assert!(!server.dir().join("dump.rdb").exists(), "a save point was reached by denials");
    for (number, call) in (4..).zip(calls) {
        client.limit(&format!("{call} FORCE"));
        // The last of them may be saved at once.
        assert!([number, 0].contains(&changes(&mut client)), "{call}");
    }
    until("the save point is reached", || changes(&mut client) == 0);
    server.wait_for_background_jobs();
    let before = contents(&mut client);
    server.kill_and_restart();
    assert_eq!(contents(&mut server.client()), before);
    assert_eq!(before.len(), 3);
}

/// BR-236 redis/redis#4950: a state that is over is as new, also where no expiry has removed it: it
/// was dumped while drained and comes back, without a time to live, when it would be full again.
#[test]
fn a_state_that_comes_back_after_its_time_is_as_new() {
    let server = Server::start();
    let mut client = server.client();
    let calls = ["RL.TOKENBUCKET k 2 1 PER 100", "RL.LEAKY k 2 1 PER 100", "RL.SLIDING k 2 200"];
    for call in calls {
        let full = client.limit(&format!("{call} COST 2"));
        assert_eq!((full.allowed, full.remaining), (1, 0), "{call}");
        let payload = client.dump("k");
        let over_ms = now_ms() + full.reset_after_ms;
        until("its time is over", || now_ms() > over_ms);
        client.call(&[b"RESTORE".as_slice(), b"k", b"0", &payload, b"REPLACE"]);
        assert_eq!(client.int("PTTL k"), -1, "{call}");
        let look = client.limit("RL.PEEK k");
        assert_eq!((look.allowed, look.remaining, look.reset_after_ms), (1, 2, 0), "{call}");
        let reply = client.limit(call);
        assert_eq!((reply.allowed, reply.remaining, reply.retry_after_ms), (1, 1, 0), "{call}");
        // And lives as long as a new one.
        let left_ms = client.int("PTTL k");
        assert!((reply.reset_after_ms - 50..=reply.reset_after_ms + 1000).contains(&left_ms));
        client.ok("DEL k");
    }
}
