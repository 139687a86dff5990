//! The bad calls of RL.ALL and RL.THROTTLE: an error of a rule says which one it belongs to.

const NUMKEYS: &str = "ERR numkeys must be an integer from 1 to 1000";
const FEW_KEYS: &str = "ERR numkeys is greater than the number of keys";
const SAME_KEY: &str = "ERR the same key is given twice, each rule needs a key of its own";
const CLIENT_TIME: &str = "ERR AT is refused unless the configuration rl.client-time is yes";
const MAX_BURST: &str = "ERR max-burst must be an integer from 0 to 9007199254740991";
const COUNT: &str = "ERR count must be an integer from 1 to 1000000000";
pub const PERIOD: &str = "ERR period-s must be an integer from 1 to 315360000";
const QUANTITY: &str = "ERR quantity must be an integer from 0 to 9007199254740992";
const TOO_SLOW: &str =
    "ERR capacity and COST against rate must leave the key at most 100 years from its reset";
const TOO_SLOW_RULE: &str = "ERR rule 0: capacity and COST against rate must leave the key at most \
                             100 years from its reset";

/// An argument: the call around it, its error, and the values just outside of its range.
pub const INTEGERS: &[(&str, &str, &[&str])] = &[
    ("RL.ALL {} k SLIDING 5 1000", NUMKEYS, &["0", "1001"]),
    (
        "RL.ALL 1 k TOKENBUCKET {} 1",
        "ERR rule 0: capacity must be an integer from 1 to 9007199254740992",
        &["0", "9007199254740993"],
    ),
    (
        "RL.ALL 2 j k LEAKY 5 1 SLIDING 5 {}",
        "ERR rule 1: window-ms must be an integer from 1 to 315360000000",
        &["0", "315360000001"],
    ),
    (
        "RL.ALL 2 k j SLIDING 5 1000 COST {} SLIDING 5 1000",
        "ERR rule 0: COST must be an integer from 0 to 9007199254740992",
        &["9007199254740993"],
    ),
    (
        "RL.ALL 1 k LEAKY 5 1 PEEK AT {}",
        "ERR rule 0: AT must be an integer from 0 to 9007199254740992",
        &["9007199254740993"],
    ),
    ("RL.THROTTLE k {} 1 60", MAX_BURST, &["9007199254740992"]),
    ("RL.THROTTLE k 5 {} 60", COUNT, &["0", "1000000001"]),
    ("RL.THROTTLE k 5 1 {}", PERIOD, &["0", "315360001"]),
    ("RL.THROTTLE k 5 1 60 {}", QUANTITY, &["9007199254740993"]),
];

/// Calls with a text of their own.
pub const SINGLE: &[(&str, &str)] = &[
    ("RL.ALL 5 k SLIDING 5 1000", FEW_KEYS),
    ("RL.ALL 1000 k SLIDING 5 1000", FEW_KEYS),
    (
        "RL.ALL 4 k SLIDING 5 1000",
        "ERR rule 0: each key needs a rule: TOKENBUCKET, LEAKY or SLIDING with its arguments",
    ),
    (
        "RL.ALL 2 j k SLIDING 5 1000",
        "ERR rule 1: each key needs a rule: TOKENBUCKET, LEAKY or SLIDING with its arguments",
    ),
    (
        "RL.ALL 1 j k SLIDING 5 1000",
        "ERR rule 0: 'k' is no option of the rule before and begins none: expected TOKENBUCKET, \
         LEAKY or SLIDING",
    ),
    (
        "RL.ALL 2 j k SLIDING 5 1000 PEEK SLIDING 5 1000",
        "ERR rule 1: 'PEEK' is no option of the rule before and begins none: expected \
         TOKENBUCKET, LEAKY or SLIDING",
    ),
    (
        "RL.ALL 1 k \\r\\n+OK\\r\\n 5 1000",
        "ERR rule 0: '??+OK??' is no option of the rule before and begins none: expected \
         TOKENBUCKET, LEAKY or SLIDING",
    ),
    (
        "RL.ALL 1 k TOKENBUCKET 5 1 FORCE",
        "ERR rule 0: unknown option 'FORCE', expected one of PER, COST, RESERVE, PEEK, SHADOW, AT",
    ),
    (
        "RL.ALL 1 k LEAKY 5 1 RESOLUTION 5",
        "ERR rule 0: unknown option 'RESOLUTION', expected one of PER, MAXDELAY, COST, RESERVE, \
         PEEK, SHADOW, AT",
    ),
    (
        "RL.ALL 1 k SLIDING 5 1000 SLIDING 5 1000",
        "ERR rule 0: unknown option 'SLIDING', expected one of RESOLUTION, COST, RESERVE, PEEK, \
         SHADOW, AT",
    ),
    ("RL.ALL 2 j k LEAKY 5 1 LEAKY 5 1 COST", "ERR rule 1: COST needs a value after it"),
    ("RL.ALL 1 k SLIDING 5 1000 COST 1 COST 1", "ERR rule 0: COST may be given only once"),
    ("RL.ALL 1 k SLIDING 5 1000 PEEK PEEK", "ERR rule 0: PEEK may be given only once"),
    ("RL.ALL 2 k k SLIDING 5 1000 SLIDING 5 1000", SAME_KEY),
    ("RL.ALL 3 k j k SLIDING 5 1000 SLIDING 5 1000 TOKENBUCKET 5 1 PEEK", SAME_KEY),
    ("RL.ALL 1 k SLIDING 5 1000 AT 1700000000000", CLIENT_TIME),
    ("RL.ALL 2 k j SLIDING 5 1000 LEAKY 5 1 PEEK AT 0", CLIENT_TIME),
    ("RL.ALL 1 k TOKENBUCKET 5 0.000000001 COST 4", TOO_SLOW_RULE),
    ("RL.ALL 1 k TOKENBUCKET 5 0.000000001 COST 4 PEEK", TOO_SLOW_RULE),
    ("RL.THROTTLE k 20 1 315360000 11", TOO_SLOW),
    ("RL.THROTTLE k 5 0.5 60", COUNT),
    ("RL.THROTTLE k 5 1 60 PEEK", QUANTITY),
];
