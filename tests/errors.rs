//! Every error of the contract, word for word, and what it leaves behind: nothing.
//!
//! After each bad call the key, the database, the replication stream and the count of changes are
//! what they were, on an absent key and on one that holds a state, and the server answers PING. The
//! calls stand in `errors/table.rs`, several hundred of them.

mod support;

#[path = "errors/several.rs"]
mod several;
#[path = "errors/table.rs"]
mod table;
#[path = "errors/witness.rs"]
mod witness;

use redis::Value;
use support::{Client, error_text, int, list, quoted, text, words};
use table::{Case, Words};
use witness::Scene;

/// The least number of calls in the table: fewer would mean that some were lost.
const LEAST_CASES: usize = 900;

#[test]
fn a_bad_call_on_an_absent_key_creates_nothing() {
    let mut scene = Scene::start();
    let cases = table::all();
    assert!(cases.len() >= LEAST_CASES, "{} cases", cases.len());
    for case in &cases {
        scene.expect_error(&case.call, &case.error);
    }
    assert_eq!(scene.client.int("DBSIZE"), 0);
}

#[test]
fn a_bad_call_on_a_key_changes_nothing() {
    let mut scene = Scene::start();
    for case in &table::all() {
        scene.client.ok("DEL k");
        scene.client.ok(table::valid_call_of(&case.call));
        scene.expect_error(&case.call, &case.error);
    }
}

/// Errors that depend on what the key holds already.
#[test]
fn the_bounds_of_time_and_units_hold_over_a_kept_state() {
    let mut scene = Scene::start();
    for (before, line, error) in table::OVER_A_KEPT_STATE {
        scene.client.ok("DEL k");
        for line in *before {
            assert_eq!(scene.client.limit(line).allowed, 1, "{line}");
        }
        scene.expect_error(&words(line), error);
        // A look and a call that takes nothing are judged alike.
        let free: &[&str] = if line.contains("FORCE") { &[] } else { &[" PEEK", " COST 0"] };
        for option in free {
            scene.expect_error(&words(&format!("{line}{option}")), error);
        }
    }
}

#[test]
fn a_key_of_another_type_is_refused_and_stays() {
    let mut scene = Scene::start();
    for (create, kind) in table::OTHER_TYPES {
        scene.client.ok("DEL k");
        scene.client.ok(create);
        for valid in table::VALID_CALLS {
            scene.expect_error(&words(valid), table::WRONG_TYPE);
            // What is wrong with the arguments is told first.
            let (bad, error) = table::bad_for(valid);
            scene.expect_error(&words(bad), error);
        }
        assert_eq!(text(&scene.client.ok("TYPE k")), *kind);
    }
}

#[test]
fn the_state_of_another_limiter_is_of_another_type() {
    let mut scene = Scene::start();
    let limiters = &table::VALID_CALLS[..3];
    for create in limiters {
        scene.client.ok("DEL k");
        assert_eq!(scene.client.limit(create).allowed, 1);
        for other in limiters.iter().filter(|other| *other != create) {
            scene.expect_error(&words(other), table::WRONG_TYPE);
            scene.expect_error(&words(&format!("{other} PEEK")), table::WRONG_TYPE);
            scene.expect_error(&words(&format!("{other} FORCE")), table::WRONG_TYPE);
        }
    }
}

/// A thousand words and a megabyte are refused like any others, at once.
#[test]
fn long_calls_are_refused() {
    let mut scene = Scene::start();
    for create in [false, true] {
        for Case { call, error } in table::long_ones() {
            scene.client.ok("DEL k");
            if create {
                scene.client.ok(table::valid_call_of(&call));
            }
            scene.expect_error(&call, &error);
        }
    }
}

#[test]
fn errors_are_the_same_in_resp3() {
    let mut scene = Scene::start();
    scene.client = scene.server.client3();
    for case in sample() {
        scene.expect_error(&case.call, &case.error);
    }
}

#[test]
fn errors_are_the_same_inside_multi() {
    let mut scene = Scene::start();
    scene.client.ok("RL.TOKENBUCKET other 5 1 PER 3600000");
    for case in sample() {
        let before = scene.snapshot();
        let answer = in_multi(&mut scene.client, &case.call);
        // The server itself refuses to queue a call with too few words, and aborts.
        if case.error.starts_with(table::ARITY) {
            let aborted = "EXECABORT Transaction discarded because of previous errors.";
            assert_eq!(error_text(&answer).as_deref(), Some(aborted), "{case:?}");
        } else {
            assert_eq!(error_text(&list(&answer)[0]), Some(case.error.clone()), "{case:?}");
            assert_eq!(list(&answer)[1], Value::SimpleString("PONG".to_owned()));
        }
        assert_eq!(scene.snapshot(), before, "{case:?}");
    }
}

fn in_multi(client: &mut Client, call: &Words) -> Value {
    let ping = vec![b"PING".to_vec()];
    let calls = [vec![b"MULTI".to_vec()], call.clone(), ping, vec![b"EXEC".to_vec()]];
    client.pipeline(&calls).pop().expect("an answer to EXEC")
}

#[test]
fn errors_are_the_same_inside_scripts() {
    let mut scene = Scene::start();
    for case in sample().filter(|case| !case.error.starts_with(table::ARITY)) {
        let mut eval = words("EVAL return\\sredis.pcall(unpack(ARGV)) 1 k");
        eval.extend(case.call.clone());
        scene.expect_error(&eval, &case.error);
    }
    // Redis tells a script about too few words in its own way.
    let eval = "EVAL return\\sredis.pcall('RL.SLIDING',KEYS[1],'5') 1 k";
    let refused = scene.client.refused(eval);
    assert!(refused.starts_with("ERR Wrong number of args calling"), "{refused}");
}

/// The ends of each range are inside: an error is no way to make a range smaller.
#[test]
fn both_ends_of_each_range_are_accepted() {
    let server = support::Server::with(&support::Config::new().client_time());
    let mut client = server.client();
    for line in table::ACCEPTED {
        let answer = client.run(line);
        assert_eq!(error_text(&answer), None, "{line}");
        assert!(matches!(answer, Value::Array(_) | Value::Nil), "{line}: {answer:?}");
        client.ok("DEL k");
    }
    // Zeros in front change nothing, up to the longest word that is read as a number.
    let zeros = |number: usize| [vec![b'0'; number], b"5".to_vec()].concat();
    let answer = client.call(&[&b"RL.TOKENBUCKET"[..], b"k", &zeros(63), b"1"]);
    assert_eq!(int(&list(&answer)[1]), 5);
    for number in [64, 1 << 20] {
        let answer = client.call(&[&b"RL.TOKENBUCKET"[..], b"k", &zeros(number), b"1"]);
        assert!(error_text(&answer).expect("an error").starts_with("ERR capacity must be"));
    }
}

/// Some cases of each command and kind.
fn sample() -> impl Iterator<Item = Case> {
    table::all().into_iter().step_by(5)
}

#[test]
fn a_case_shows_its_words() {
    let case = Case { call: words("RL.PEEK k \\xff\\r\\n \\e x"), error: "ERR".to_owned() };
    assert_eq!(case.call[2..], [b"\xff\r\n".to_vec(), Vec::new(), b"x".to_vec()]);
    assert_eq!(quoted(&case.call), "RL.PEEK k \\xff\\r\\n  x");
}
