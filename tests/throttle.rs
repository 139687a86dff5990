//! RL.THROTTLE, and CL.THROTTLE where the configuration says so: redis-cell's call on a token
//! bucket, for clients that know no other.
//!
//! - `table`: the replies, those of redis-cell where it is right;
//! - `right`: where it is wrong;
//! - `name`: when CL.THROTTLE is there, and what happens where the name is taken.

mod support;

#[path = "throttle/name.rs"]
mod name;
#[path = "throttle/right.rs"]
mod right;
#[path = "throttle/table.rs"]
mod table;

use support::{Client, ints};

/// The five numbers of a reply: limited, limit, remaining, retry after and reset after in seconds.
fn throttle(client: &mut Client, line: &str) -> [i64; 5] {
    let value = client.run(line);
    let numbers = ints(&value).unwrap_or_else(|| panic!("{line}: {value:?} are no numbers"));
    numbers.try_into().unwrap_or_else(|numbers| panic!("{line}: {numbers:?} are not five"))
}
