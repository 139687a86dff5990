//! Calls that go on while the cluster changes, and the books of what they took.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};

use redis::cluster::{ClusterClient, ClusterConnection};
use redis::{RedisError, Value};

use super::calls;
use super::support::{Dice, Reply, ints, until};

/// Clients at once, each with one call under way: so many calls are in flight at most.
pub const CLIENTS: u64 = 4;

/// More than any test takes.
const LIMIT: u32 = 500_000;

/// What the clients know of one key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Calls that were answered as allowed.
    pub taken: u64,
    /// Calls whose answer never came: each may have been applied.
    pub unsure: u64,
}

/// The books of all keys, and the errors that were answered, by their code.
#[derive(Default)]
pub struct Books {
    /// By key.
    pub tallies: BTreeMap<String, Tally>,
    /// How often each error was answered.
    pub errors: BTreeMap<String, u64>,
}

/// The call that is made on the key at `index`: the three limiters in turn.
fn call(keys: &[String], index: usize) -> String {
    calls(&keys[index], LIMIT)[index % 3].clone()
}

/// Calls limits on `keys` from several clients while `work` runs. It is given a counter of the
/// calls that were answered, so that it can wait until the load is on.
pub fn under_load<T>(
    router: &ClusterClient,
    keys: &[String],
    work: impl FnOnce(&AtomicU64) -> T,
) -> (T, Books) {
    let (answered, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..CLIENTS).map(|seed| spawn(scope, seed, router, keys, &answered, &stop)).collect();
        // Also where the work fails: a scope waits for its threads.
        let done = StopOnDrop(&stop);
        let result = work(&answered);
        drop(done);
        let mut books = Books::default();
        for worker in workers {
            let part = worker.join().expect("a client that does not panic");
            for (key, tally) in part.tallies {
                let sum = books.tallies.entry(key).or_default();
                sum.taken += tally.taken;
                sum.unsure += tally.unsure;
            }
            for (code, count) in part.errors {
                *books.errors.entry(code).or_default() += count;
            }
        }
        (result, books)
    })
}

/// Waits until so many more calls have been answered.
pub fn wait_for_calls(answered: &AtomicU64, more: u64) {
    let goal = answered.load(Ordering::Relaxed) + more;
    until("the load goes on", || answered.load(Ordering::Relaxed) >= goal);
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    seed: u64,
    router: &'scope ClusterClient,
    keys: &'scope [String],
    answered: &'scope AtomicU64,
    stop: &'scope AtomicBool,
) -> ScopedJoinHandle<'scope, Books> {
    scope.spawn(move || {
        let mut dice = Dice::new(seed + 1);
        let mut books = Books::default();
        let mut connection = None;
        while !stop.load(Ordering::Relaxed) {
            // While the cluster is down nobody gets a connection.
            let Some(routed) = connection.as_mut() else {
                connection = router.get_connection().ok();
                continue;
            };
            let sides = u64::try_from(keys.len()).expect("a few keys");
            let index = usize::try_from(dice.throw(sides)).expect("an index");
            match ask(routed, &call(keys, index)) {
                Ok(reply) => {
                    assert_eq!(reply.allowed, 1, "{}: {reply:?}", keys[index]);
                    books.tallies.entry(keys[index].clone()).or_default().taken += 1;
                    answered.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    books.note(&keys[index], &error);
                    connection = None;
                }
            }
        }
        books
    })
}

impl Books {
    fn note(&mut self, key: &str, error: &RedisError) {
        if let Some(code) = error.code() {
            *self.errors.entry(code.to_owned()).or_default() += 1;
        } else if error.is_io_error() && !error.is_connection_refusal() {
            self.tallies.entry(key.to_owned()).or_default().unsure += 1;
        }
    }
}

/// Makes a limiter's call by the routing of the client library.
pub fn ask(routed: &mut ClusterConnection, line: &str) -> Result<Reply, RedisError> {
    let value = run(routed, line)?;
    Ok(Reply::new(&value).unwrap_or_else(|| panic!("{line}: {value:?} is no limiter's reply")))
}

/// Makes any call by the routing of the client library.
pub fn run(routed: &mut ClusterConnection, line: &str) -> Result<Value, RedisError> {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().expect("a name"));
    command.arg(words.collect::<Vec<_>>()).query(routed)
}

/// The units that a key remembers as taken.
pub fn counted(routed: &mut ClusterConnection, key: &str) -> u64 {
    match run(routed, &format!("RL.PEEK {key}")) {
        Ok(value) => {
            let reply = ints(&value).map_or(0, |elements| elements[1] - elements[2]);
            u64::try_from(reply).expect("not more than the limit remains")
        }
        Err(error) => panic!("RL.PEEK {key}: {error}"),
    }
}

/// Every unit that was acknowledged is counted, none twice.
pub fn expect_all_counted(routed: &mut ClusterConnection, books: &Books) {
    for (key, tally) in &books.tallies {
        assert_eq!(tally.unsure, 0, "{key}: no connection was lost");
        assert_eq!(counted(routed, key), tally.taken, "{key}");
    }
}
