//! Which decision counts as what.

use redis_rl::algorithm::{Request, Verdict};
use redis_rl::watch::counters::{Counters, Outcome};

#[test]
fn each_real_decision_is_one_of_four() {
    let real = Request::ONE;
    let force = Request { force: true, ..real };
    let shadow = Request { shadow: true, ..real };
    let table = [
        (real, Verdict::Allowed, Outcome::Allowed),
        (real, Verdict::Denied, Outcome::Denied),
        (force, Verdict::Allowed, Outcome::Forced),
        (shadow, Verdict::Allowed, Outcome::Allowed),
        (shadow, Verdict::Shadowed, Outcome::ShadowDenied),
    ];
    for (request, verdict, outcome) in table {
        assert_eq!(Outcome::of(&request, verdict), Some(outcome), "{request:?}");
        for nothing in [Request { peek: true, ..request }, Request { cost: 0, ..request }] {
            assert_eq!(Outcome::of(&nothing, verdict), None, "{nothing:?}");
        }
    }
}

#[test]
fn each_counter_counts_its_own() {
    let counters = Counters::new("rl.x");
    let raise: [fn(&Counters); 6] = [
        |counters| counters.count(Outcome::Allowed),
        |counters| counters.count(Outcome::Denied),
        |counters| counters.count(Outcome::ShadowDenied),
        |counters| counters.count(Outcome::Forced),
        |counters| counters.refunded.increment(),
        |counters| counters.errors.increment(),
    ];
    for (times, raise) in (1..).zip(raise) {
        (0..times).for_each(|_| raise(&counters));
    }
    let expected = [
        ("allowed", 1),
        ("denied", 2),
        ("shadow-denied", 3),
        ("forced", 4),
        ("refunded", 5),
        ("errors", 6),
    ];
    assert_eq!(counters.read(), expected);
    counters.reset();
    assert_eq!(counters.read(), expected.map(|(name, _)| (name, 0)));
}
