//! The books: what the clients were told, against what the cluster holds.

use std::collections::BTreeMap;

use redis::Value;

use super::gate::{Event, Gate, Outcome};
use super::plan::{
    Key, Kind, Plan, TIMED, TIMED_RATE, TIMED_WINDOW_MS, WAITED, WAITED_RATE, first_slot,
};
use super::strikes::Struck;
use super::{FILE_LAG, Figures, owners};
use crate::support::cluster::Cluster;
use crate::support::{Client, ints, words};

/// Units that a ledger begins with, so that nothing is given back to an unused limit.
const FIRST_UNITS: u64 = 1000;

/// What `node` has answered after `from_us` may be forgotten.
pub struct Lapse {
    node: usize,
    from_us: u64,
}

impl Lapse {
    fn covers(&self, event: &Event) -> bool {
        event.node == self.node && event.got_us > self.from_us
    }
}

/// What a strike at `shard` may have made forgotten, by who served the slots before and after.
pub fn lapses(
    struck: &Struck,
    shard: usize,
    before: &[usize],
    after: &[usize],
    gate: &Gate,
) -> Vec<Lapse> {
    let file_lag_us = u64::try_from(FILE_LAG.as_micros()).expect("a short time");
    let lapse = |(at, (&was, is)): (usize, (&usize, &usize))| {
        let confirmed_us = gate.confirmed_us(was);
        let killed_us = struck.primary_killed_us.filter(|_| at == shard);
        let from_us = match killed_us {
            // The replica took over with what it had in memory.
            _ if was != *is && !(at == shard && struck.replica_started) => confirmed_us,
            // It came back from its files, or its replica did.
            Some(killed_us) => confirmed_us.min(killed_us.saturating_sub(file_lag_us)),
            None if was != *is => confirmed_us,
            None => return None,
        };
        Some(Lapse { node: was, from_us })
    };
    before.iter().zip(after).enumerate().filter_map(lapse).collect()
}

/// What the clients know of one key in one round, in units.
#[derive(Default)]
struct Account {
    calls: u64,
    /// Acknowledged, what was given back subtracted.
    net: i64,
    /// Of that: what may be forgotten, taken and given back.
    may_lose: i64,
    may_lose_back: i64,
    /// Not answered: what may have been taken and given back.
    unsure: i64,
    unsure_back: i64,
    denied: u64,
    /// Admissions, by the time of sending and answer, and whether they may be forgotten.
    taken: Vec<(u64, u64, bool)>,
}

impl Account {
    fn enter(&mut self, event: &Event, may_lose: bool) {
        self.calls += 1;
        let (taken, back) = (event.units.max(0), (-event.units).max(0));
        match event.outcome {
            Outcome::Taken => {
                self.net += event.units;
                if may_lose {
                    self.may_lose += taken;
                    self.may_lose_back += back;
                }
                if event.units > 0 {
                    self.taken.push((event.sent_us, event.got_us, may_lose));
                }
            }
            Outcome::Unanswered => {
                self.unsure += taken;
                self.unsure_back += back;
            }
            Outcome::Denied => self.denied += 1,
            Outcome::Refused => {}
        }
    }
}

/// The units that each name counted at the end of the last round.
pub struct Books {
    counted: BTreeMap<String, i64>,
}

/// The units that the names have counted, each at the node that serves it.
fn counted(cluster: &Cluster, key: &Key, clients: &mut [Client]) -> Vec<i64> {
    let owner = owners(cluster)[key.shard];
    let count = |name: &String| match clients[owner].call(&words(&format!("RL.PEEK {name}"))) {
        Value::Nil => 0,
        value => ints(&value).map_or_else(|| panic!("{name}: {value:?}"), |all| all[1] - all[2]),
    };
    key.names().iter().map(count).collect()
}

impl Books {
    /// Books of a new cluster; every ledger has its first units.
    pub fn new(cluster: &Cluster) -> Books {
        let mut counts = BTreeMap::new();
        for key in Plan::new(cluster, 0).keys.iter().filter(|key| key.kind == Kind::Ledger) {
            let line = key.plain_call().replace("COST 1", &format!("COST {FIRST_UNITS}"));
            let owner = cluster.owner(first_slot(key.shard));
            assert_eq!(cluster.node(owner).client().limit(&line).allowed, 1, "{line}");
            counts.insert(key.name.clone(), i64::try_from(FIRST_UNITS).expect("a few"));
        }
        Books { counted: counts }
    }

    /// Compares what the clients know of a round with what the cluster holds after it.
    pub fn settle(
        &mut self,
        cluster: &Cluster,
        plan: &Plan,
        events: &[Event],
        lapses: &[Lapse],
        gate_errors: &BTreeMap<String, u64>,
        figures: &mut Figures,
    ) -> String {
        let mut accounts: Vec<Account> = plan.keys.iter().map(|_| Account::default()).collect();
        for event in events {
            let may_lose = lapses.iter().any(|lapse| lapse.covers(event));
            accounts[event.key].enter(event, may_lose);
            figures.add(&format!("calls: {:?}", event.outcome).to_lowercase(), 1);
        }
        gate_errors.iter().for_each(|(code, n)| figures.add(&format!("error: {code}"), *n));
        let mut clients: Vec<Client> = cluster.nodes().iter().map(|node| node.client()).collect();
        let (mut lost, mut may_lose, mut double) = (0, 0, 0);
        for (key, account) in plan.keys.iter().zip(&accounts) {
            match key.kind {
                Kind::Ledger | Kind::Together | Kind::Tight => {
                    let counts = counted(cluster, key, &mut clients);
                    lost += self.expect_counted(key, account, &counts);
                    may_lose += account.may_lose;
                }
                Kind::Timed | Kind::Waited => double += expect_in_time(key, account),
                Kind::Passing => {}
            }
            if key.kind == Kind::Tight {
                double += expect_limit(key, account);
            }
        }
        let units = accounts.iter().map(|account| account.taken.len()).sum::<usize>();
        let number = |number: i64| u64::try_from(number).expect("not below 0");
        figures.add("calls", u64::try_from(events.len()).expect("a count"));
        figures.add("admissions acknowledged", u64::try_from(units).expect("a count"));
        figures.add("units lost", number(lost));
        figures.add("units that might have been lost", number(may_lose));
        figures.add("units double", number(double));
        format!("{} calls, {lost} lost of {may_lose} that may be, {double} double", events.len())
    }

    /// Nothing is counted twice, and nothing lost but what may be; the units that are.
    fn expect_counted(&mut self, key: &Key, account: &Account, counts: &[i64]) -> i64 {
        let Account { net, may_lose, may_lose_back, unsure, unsure_back, .. } = account;
        let name = &key.name;
        let counted = counts[0];
        assert!(counts.iter().all(|count| *count == counted), "{name}: one call, {counts:?}");
        let before = self.counted.insert(name.clone(), counted).unwrap_or(0);
        let told = format!(
            "{name}: {before} before, {net} acknowledged ({may_lose} may be lost), {unsure} \
             unanswered, {counted} counted"
        );
        assert!(counted <= before + net + unsure + may_lose_back, "too many: {told}");
        assert!(counted >= before + net - may_lose - unsure_back, "too few: {told}");
        (before + net - unsure_back - counted).max(0)
    }
}

/// A limit that is used up: admitted is the limit and what was forgotten, and a denial tells that
/// it may be reached. Returns what was admitted beyond the limit.
fn expect_limit(key: &Key, account: &Account) -> i64 {
    let limit = i64::try_from(key.limit()).expect("a small limit");
    let Account { net, may_lose, unsure, denied, .. } = account;
    let told = format!(
        "{}: {net} of {limit} acknowledged ({may_lose} may be lost), {unsure} unanswered, \
         {denied} denied",
        key.name
    );
    assert!(net - may_lose <= limit, "too many: {told}");
    assert!(*denied == 0 || net + unsure >= limit, "denied too early: {told}");
    (net - limit).max(0)
}

/// In every interval between two calls no more is admitted than the contract has for it. Returns
/// by how much what was forgotten is more than that.
fn expect_in_time(key: &Key, account: &Account) -> i64 {
    let most = |within_us: u64| -> u64 {
        match (key.kind, key.limiter) {
            (Kind::Waited, _) => WAITED + WAITED_RATE * within_us / 1_000_000,
            // Every window that has begun gives the whole limit.
            (_, 2) => TIMED * (within_us / (TIMED_WINDOW_MS * 1000) + 1),
            _ => TIMED + TIMED_RATE * within_us / 1_000_000,
        }
    };
    let over = |taken: &[(u64, u64)]| -> u64 {
        let mut by_answer = taken.to_vec();
        by_answer.sort_unstable_by_key(|call| call.1);
        let over_from = |&(from_us, _): &(u64, u64)| {
            let inside = by_answer.iter().filter(|(sent_us, _)| *sent_us >= from_us);
            let over = |((_, got_us), count): (&(u64, u64), u64)| {
                // The clocks of client and server may run apart by a little.
                count.saturating_sub(most(got_us - from_us + 1000))
            };
            inside.zip(1..).map(over).max().unwrap_or(0)
        };
        taken.iter().map(over_from).max().unwrap_or(0)
    };
    let all: Vec<(u64, u64)> = account.taken.iter().map(|call| (call.0, call.1)).collect();
    let kept = account.taken.iter().filter(|call| !call.2).map(|call| (call.0, call.1));
    let beyond = over(&kept.collect::<Vec<_>>());
    assert_eq!(beyond, 0, "{}: so many beyond the contract", key.name);
    i64::try_from(over(&all)).expect("a few")
}
