//! Clients that call without a pause, and an account of what each key must hold.
//!
//! A unit whose admission was acknowledged must be counted; one that was sent and not answered may
//! be; no other can be. So each key has a least and a greatest number of units, and with all
//! answers in both are the same. Limits last for an hour and more, so that no unit leaves while a
//! test runs. Clients speak RESP2 and RESP3 in turn.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Client, DEADLINE, Dice, Reply, words};

/// Units that the limits of most keys admit: more than any test takes.
const WIDE: u64 = 1_000_000;
/// Units that the limits of one key in [`NARROW_EVERY`] admit: they are soon denied.
const NARROW: u64 = 5;
const NARROW_EVERY: usize = 4;
/// A unit drains in so many ms: a drained wide bucket has just less than 100 years to its reset.
const PERIOD_MS: u64 = 3_000_000;

/// A key and what is known of it.
struct Account {
    name: String,
    call: String,
    /// Units that were asked for and not denied.
    sent: AtomicU64,
    /// Units whose admission was acknowledged.
    admitted: AtomicU64,
    /// Units that were asked to be given back.
    refunds_sent: AtomicU64,
    /// Units whose return was acknowledged.
    refunded: AtomicU64,
}

impl Account {
    /// The call on key number `number` of the limiter with this letter.
    fn new(letter: char, number: usize) -> Account {
        let name = format!("{letter}{number}");
        let limit = if number.is_multiple_of(NARROW_EVERY) { NARROW } else { WIDE };
        let call = match letter {
            't' => format!("RL.TOKENBUCKET {name} {limit} 1 PER {PERIOD_MS}"),
            'l' => format!("RL.LEAKY {name} {limit} 1 PER {PERIOD_MS}"),
            _ => format!("RL.SLIDING {name} {limit} 3600000"),
        };
        let [sent, admitted, refunds_sent, refunded] = [const { AtomicU64::new(0) }; 4];
        Account { name, call, sent, admitted, refunds_sent, refunded }
    }

    fn known(&self) -> Known {
        Known {
            sent: self.sent.load(Ordering::SeqCst),
            admitted: self.admitted.load(Ordering::SeqCst),
            refunds_sent: self.refunds_sent.load(Ordering::SeqCst),
            refunded: self.refunded.load(Ordering::SeqCst),
        }
    }
}

/// What is known of a key at one moment: the numbers of its account.
#[derive(Clone, Copy)]
pub struct Known {
    sent: u64,
    admitted: u64,
    refunds_sent: u64,
    refunded: u64,
}

/// Accounts of some keys of each limiter on the server at a port.
pub struct Load {
    port: u16,
    accounts: Vec<Account>,
    stop: AtomicBool,
}

/// Ends the clients, whatever happens to the test that they run beside.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Load {
    /// Keys that hold nothing yet: `keys` of each limiter.
    pub fn new(port: u16, keys: usize) -> Load {
        let numbers = (0..keys).flat_map(|number| ['t', 'l', 's'].map(|letter| (letter, number)));
        let accounts = numbers.map(|(letter, number)| Account::new(letter, number)).collect();
        Load { port, accounts, stop: AtomicBool::new(false) }
    }

    /// Takes one unit of every key.
    pub fn touch_all(&self, client: &mut Client) {
        for some in self.accounts.chunks(1000) {
            let calls: Vec<_> = some.iter().map(|account| words(&account.call)).collect();
            for (account, answer) in some.iter().zip(client.pipeline(&calls)) {
                let reply = Reply::new(&answer).expect("a limiter's reply");
                assert_eq!(reply.allowed, 1, "{}: {reply:?}", account.call);
                account.sent.fetch_add(1, Ordering::SeqCst);
                account.admitted.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// Units whose admission was acknowledged so far, on all keys.
    pub fn admitted(&self) -> u64 {
        self.accounts.iter().map(|account| account.admitted.load(Ordering::SeqCst)).sum()
    }

    /// What is known of each key at this moment.
    pub fn known(&self) -> Vec<Known> {
        self.accounts.iter().map(Account::known).collect()
    }

    /// Runs `body` while so many clients call. Returns how many of them lost their connection.
    pub fn run(&self, clients: usize, seed: u64, body: impl FnOnce()) -> usize {
        self.stop.store(false, Ordering::SeqCst);
        thread::scope(|scope| {
            let clients: Vec<_> = (0_u64..)
                .take(clients)
                .map(|number| {
                    scope.spawn(move || {
                        let client = Client::connect(self.port).expect("a connection");
                        let client = if number.is_multiple_of(2) { client } else { client.resp3() };
                        self.call_on(client, Dice::new(seed * 100 + number))
                    })
                })
                .collect();
            {
                let _stop = Stop(&self.stop);
                body();
            }
            let joined = clients.into_iter().map(|client| client.join().expect("a client"));
            joined.filter(|connected| !connected).count()
        })
    }

    /// Waits while clients call, until they have taken `units` more.
    pub fn wait_for(&self, units: u64) {
        let (goal, start) = (self.admitted() + units, Instant::now());
        while self.admitted() < goal {
            assert!(start.elapsed() < DEADLINE, "the clients do not get on");
            thread::sleep(Duration::from_micros(500));
        }
    }

    /// One client, until it is told to stop; false if the server vanished before.
    fn call_on(&self, mut client: Client, mut dice: Dice) -> bool {
        // Only what this client has taken is given back by it, so each refund is whole.
        let mut own = vec![0; self.accounts.len()];
        while !self.stop.load(Ordering::SeqCst) {
            let keys = u64::try_from(own.len()).expect("a number of keys");
            let index = usize::try_from(dice.throw(keys)).expect("an index");
            let (account, units) = (&self.accounts[index], dice.throw(3) + 1);
            let answered = if own[index] >= 2 * units && dice.throw(4) == 0 {
                own[index] -= units;
                refund(&mut client, account, units)
            } else {
                take(&mut client, account, units).inspect(|taken| own[index] += taken)
            };
            if answered.is_none() {
                return false;
            }
        }
        true
    }

    /// The units that each key holds, by what RL.PEEK answers.
    pub fn held(&self, client: &mut Client) -> Vec<u64> {
        let look = |account: &Account| words(&format!("RL.PEEK {}", account.name));
        let mut held = Vec::new();
        for some in self.accounts.chunks(1000) {
            let calls: Vec<_> = some.iter().map(look).collect();
            held.extend(client.pipeline(&calls).iter().map(|answer| {
                let units = Reply::new(answer).map_or(0, |reply| reply.limit - reply.remaining);
                u64::try_from(units).expect("at most the limit remains")
            }));
        }
        held
    }

    /// Every acknowledged admission is counted, and nothing that was not asked for. What the keys
    /// hold is what they start from if clients call again.
    pub fn settle(&self, client: &mut Client) {
        let held = self.held(client);
        let known = self.known();
        self.check(&held, &known, &known);
        for (account, held) in self.accounts.iter().zip(held) {
            account.admitted.store(held, Ordering::SeqCst);
            account.sent.store(held, Ordering::SeqCst);
            account.refunds_sent.store(0, Ordering::SeqCst);
            account.refunded.store(0, Ordering::SeqCst);
        }
    }

    /// The units in each key were counted at some moment between `from` and `to`.
    pub fn check(&self, held: &[u64], from: &[Known], to: &[Known]) {
        assert_eq!(held.len(), self.accounts.len());
        for (index, account) in self.accounts.iter().enumerate() {
            let (from, to, held) = (from[index], to[index], held[index]);
            // Counted were, by then, at least what was admitted before and not given back after,
            // and at most what was sent before its end and not given back at its beginning.
            let least = from.admitted.saturating_sub(to.refunds_sent);
            let most = to.sent - from.refunded;
            assert!((least..=most).contains(&held), "{}: {least}..={most}: {held}", account.name);
        }
    }
}

/// Takes units; how many the server admitted, none if it vanished.
fn take(client: &mut Client, account: &Account, units: u64) -> Option<u64> {
    account.sent.fetch_add(units, Ordering::SeqCst);
    let answer = client.try_call(&words(&format!("{} COST {units}", account.call))).ok()?;
    let reply = Reply::new(&answer).unwrap_or_else(|| panic!("{}: {answer:?}", account.call));
    if reply.allowed == 1 {
        account.admitted.fetch_add(units, Ordering::SeqCst);
        Some(units)
    } else {
        account.sent.fetch_sub(units, Ordering::SeqCst);
        Some(0)
    }
}

/// Gives units back; none if the server vanished.
fn refund(client: &mut Client, account: &Account, units: u64) -> Option<u64> {
    account.refunds_sent.fetch_add(units, Ordering::SeqCst);
    let answer = client.try_call(&words(&format!("RL.REFUND {} {units}", account.name))).ok()?;
    assert!(Reply::new(&answer).is_some(), "{}: {answer:?}", account.name);
    account.refunded.fetch_add(units, Ordering::SeqCst);
    Some(0)
}
