//! RL.ALL where a call may come from: transactions, scripts, functions, RESP3, users with few
//! rights, and a replica, which refuses it.

use redis::Value;

use super::support::{Server, Several, error_text, list, text, words};

const ALL: &str = "RL.ALL 2 {u}:a {u}:b TOKENBUCKET 2 1 PER 3600000 SLIDING 2 3600000";

fn several(value: &Value) -> Several {
    Several::new(value).unwrap_or_else(|| panic!("{value:?} is no reply of RL.ALL"))
}

/// The verdicts of two calls that pass and a third that does not, however they are made.
fn expect_two_of_three(server: &Server, how: &str, answers: &[Value]) {
    let answers: Vec<Several> = answers.iter().map(several).collect();
    let verdicts: Vec<_> = answers.iter().map(|answer| (answer.allowed, answer.over)).collect();
    assert_eq!(verdicts, [(1, -1), (1, -1), (0, 0)], "{how}");
    let remaining: Vec<i64> = answers[1].rules.iter().map(|rule| rule.remaining).collect();
    assert_eq!(remaining, [0, 0], "{how}");
    server.client().ok("FLUSHALL");
}

#[test]
fn it_works_in_transactions_scripts_and_functions() {
    let server = Server::start();
    for mut client in [server.client(), server.client3()] {
        let alone: Vec<Value> = (0..3).map(|_| client.ok(ALL)).collect();
        expect_two_of_three(&server, "alone", &alone);
        let answers = client.pipeline(&["MULTI", ALL, ALL, ALL, "EXEC"].map(words));
        expect_two_of_three(&server, "in MULTI", &list(&answers[4]));

        let script = "local r = {} for i = 1, 3 do r[i] = redis.call(unpack(ARGV)) end return r";
        let call = |begin: &[&str]| {
            let keys = ["2", "{u}:a", "{u}:b"];
            let words = begin.iter().copied().chain(keys).chain(ALL.split(' '));
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        let answer = client.call(&call(&["EVAL", script]));
        expect_two_of_three(&server, "in a script", &list(&answer));
        let library = format!(
            "#!lua name=all\nredis.register_function('all', function(keys, ARGV) {script} end)"
        );
        assert_eq!(error_text(&client.call(&["FUNCTION", "LOAD", "REPLACE", &library])), None);
        let answer = client.call(&call(&["FCALL", "all"]));
        expect_two_of_three(&server, "in a function", &list(&answer));
    }
}

/// An error inside of a transaction or a script is that of the call alone, and changes nothing.
#[test]
fn errors_are_the_same_inside() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("SET {u}:b x");
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    let answers = client.pipeline(&["MULTI", ALL, "PING", "EXEC"].map(words));
    let answers = list(&answers[3]);
    assert_eq!(error_text(&answers[0]).as_deref(), Some(wrong));
    assert_eq!(text(&answers[1]), "PONG");
    let eval = ["EVAL", "return redis.pcall(unpack(ARGV))", "2", "{u}:a", "{u}:b"];
    let eval: Vec<&str> = eval.into_iter().chain(ALL.split(' ')).collect();
    assert_eq!(error_text(&client.call(&eval)).as_deref(), Some(wrong));
    assert_eq!(client.int("EXISTS {u}:a"), 0);
}

/// It may write, so a replica refuses it even as a look, and a script that only reads may not.
#[test]
fn a_replica_refuses_it() {
    let server = Server::start();
    let replica = server.replica();
    let mut client = replica.client();
    for line in [ALL.to_owned(), format!("{ALL} PEEK")] {
        let refused = client.refused(&line);
        assert!(refused.starts_with("READONLY "), "{line}: {refused}");
    }
    let mut client = server.client();
    let eval = ["EVAL_RO", "return redis.call(unpack(ARGV))", "2", "{u}:a", "{u}:b"];
    let eval: Vec<&str> = eval.into_iter().chain(ALL.split(' ')).collect();
    let refused = error_text(&client.call(&eval)).expect("an error");
    assert!(refused.contains("Write commands are not allowed"), "{refused}");
}

/// A user needs the command and all of the keys.
#[test]
fn a_user_needs_every_key() {
    let server = Server::start();
    let mut admin = server.client();
    let three = "RL.ALL 3 rl:a rl:b other:c SLIDING 9 1000 SLIDING 9 1000 SLIDING 9 1000";
    let two = "RL.ALL 2 rl:a rl:b SLIDING 9 1000 SLIDING 9 1000";
    for (rules, passes_two, passes_three) in [
        ("~rl:* +rl.all", true, false),
        ("~rl:* ~other:* +rl.all", true, true),
        ("~* +rl.all", true, true),
        ("~rl:a +rl.all", false, false),
        ("~rl:b ~other:* +rl.all", false, false),
        ("%R~* ~rl:* +rl.all", true, false),
        ("%W~* %R~rl:* +rl.all", false, false),
        ("~* +@all -rl.all", false, false),
        ("~* +rl.sliding", false, false),
    ] {
        admin.ok(&format!("ACL SETUSER app reset on >secret {rules}"));
        let mut client = server.client();
        client.ok("AUTH app secret");
        for (call, passes) in [(two, passes_two), (three, passes_three)] {
            if passes {
                assert_eq!(client.all(call).allowed, 1, "{rules}: {call}");
            } else {
                let refused = client.refused(call);
                assert!(refused.starts_with("NOPERM "), "{rules}: {refused}");
            }
        }
        admin.ok("FLUSHALL");
    }
    let dry = text(&admin.ok(&format!("ACL DRYRUN app {two}")));
    assert!(dry.contains("no permissions"), "{dry}");

    // However the number of keys is written, none of them stays unseen.
    admin.ok("ACL SETUSER app reset on >secret ~rl:* +rl.all");
    let mut client = server.client();
    client.ok("AUTH app secret");
    for count in ["02", "002", "01", "+2", "2.0", "0x2"] {
        let call = format!("RL.ALL {count} other:a rl:b SLIDING 9 1000 SLIDING 9 1000");
        let refused = client.refused(&call);
        assert!(refused.starts_with("NOPERM ") || refused.contains("numkeys"), "{refused}");
        assert_eq!(admin.int("DBSIZE"), 0, "{call}");
    }
}
