//! `rl.sliding-max-bytes`: the hits of one window take no more than that.

use redis::Value;

use super::support::{Client, Config, Server, Snapshot, error_text, ints, wait_for_replica};

const START_MS: i64 = 1_700_000_000_000;

/// A hit so many seconds after the start, in a window of ten years.
fn hit(second: i64) -> String {
    format!("RL.SLIDING s 1000000 315360000000 AT {}", START_MS + second * 1000)
}

/// Makes hits until one is refused, and returns its number.
fn until_refused(client: &mut Client, error: &str) -> i64 {
    for second in 0..1_000_000 {
        let answer = client.run(&hit(second));
        match error_text(&answer) {
            None => assert_eq!(ints(&answer).expect("a reply")[0], 1),
            Some(text) => {
                assert_eq!(text, error);
                return second;
            }
        }
    }
    panic!("no hit was refused");
}

fn text(max: i64) -> String {
    format!(
        "ERR window-ms and RESOLUTION must leave the hits of the key within {max} bytes, the \
         configuration rl.sliding-max-bytes"
    )
}

#[test]
fn a_window_takes_no_more_bytes_than_it_may() {
    let server = Server::with(&Config::new().client_time());
    let mut client = server.client();
    let mut before = 0;
    for max in [1, 5000, 20_000, 200_000] {
        client.ok(&format!("CONFIG SET rl.sliding-max-bytes {max}"));
        client.ok("DEL s");
        let refused = until_refused(&mut client, &text(max));
        // The newest sixteen hits have their place elsewhere, of at most 208 bytes.
        assert!(refused >= 16.max(max / 4) && refused > before, "{max} bytes: {refused} hits");
        assert!(client.memory_usage("s") <= max + 500, "{max} bytes: {}", client.memory_usage("s"));
        before = refused;
    }
}

#[test]
fn a_call_that_is_refused_changes_nothing_and_all_others_go_on() {
    let server = Server::with(&Config::new().client_time().line("rl.sliding-max-bytes 5000"));
    let mut client = server.client();
    let refused = until_refused(&mut client, &text(5000));
    let before = Snapshot::of(&mut client, "s");
    for options in ["", " COST 5", " FORCE", " RESOLUTION 1000"] {
        let call = format!("{}{options}", hit(refused));
        assert_eq!(client.refused(&call), text(5000), "{call}");
    }
    let at_ms = START_MS + refused * 1000;
    let all = format!(
        "RL.ALL 2 s t SLIDING 1000000 315360000000 TOKENBUCKET 5 1 PER 315360000000 AT {at_ms}"
    );
    assert_eq!(client.refused(&all), format!("ERR rule 0: {}", &text(5000)[4..]));
    assert_eq!(client.limit("RL.PEEK s").remaining, 1_000_000 - refused);
    for denied in [" COST 1000001", " COST 1000000"] {
        assert_eq!(client.limit(&format!("{}{denied}", hit(refused))).allowed, 0);
    }
    assert_eq!(client.limit(&format!("{} PEEK", hit(refused))).allowed, 1);
    assert_eq!(Snapshot::of(&mut client, "s"), before);
    assert_eq!(client.run("EXISTS t"), Value::Int(0));

    // One more of the last instant needs no memory, and what is given back makes room.
    let newest = client.limit(&hit(refused - 1));
    assert_eq!((newest.allowed, newest.remaining), (1, 1_000_000 - refused - 1));
    assert_eq!(client.limit("RL.REFUND s 500").allowed, 1);
    assert_eq!(client.limit(&hit(refused)).allowed, 1);

    // So does a raised bound, and none.
    for max in [100_000, 0] {
        client.ok(&format!("CONFIG SET rl.sliding-max-bytes {max}"));
        (0..2000).for_each(|more| assert_eq!(client.limit(&hit(refused + more)).allowed, 1));
    }
}

/// Hits that have left the window do not count against the bound, although they are only freed by
/// the next call that passes.
#[test]
fn what_has_left_the_window_makes_room() {
    let server = Server::with(&Config::new().client_time().line("rl.sliding-max-bytes 3000"));
    let mut client = server.client();
    // Ten years by the server's clock, two hours by the callers'.
    let hit = |second: i64| {
        format!("RL.SLIDING s 1000000 7200000 AT {}", START_MS + 315_360_000_000 + second * 1000)
    };
    let refused = (0..100_000).find(|&second| error_text(&client.run(&hit(second))).is_some());
    let refused = refused.expect("a hit that is refused");
    assert!(refused < 7200, "{refused} hits");
    assert_eq!(client.refused(&hit(7199)), text(3000));
    for second in 7200 + refused / 2..7200 + refused {
        assert_eq!(client.limit(&hit(second)).allowed, 1, "{second}");
    }
}

/// A replica and the append-only file hold what the primary holds, whatever their own bound.
#[test]
fn followers_are_not_bound() {
    let config = Config::new().client_time().append_only();
    let mut server = Server::with(&config.line("rl.sliding-max-bytes 30000"));
    let replica = server.replica_with(Config::new().line("rl.sliding-max-bytes 1"));
    let mut client = server.client();
    let refused = until_refused(&mut client, &text(30_000));
    wait_for_replica(&server, &replica);
    let before = client.dump("s");
    assert_eq!(replica.client().dump("s"), before);
    client.ok("CONFIG SET rl.sliding-max-bytes 1");
    client.ok("CONFIG REWRITE");
    server.restart();
    let mut client = server.client();
    assert_eq!(client.dump("s"), before);
    assert_eq!(client.refused(&hit(refused)), text(1));
}
