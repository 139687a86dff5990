//! The keys of a round, and the calls that are made on them.

use crate::support::Dice;
use crate::support::cluster::Cluster;

/// Slots of each primary, as the cluster hands them out.
const SHARE: u16 = 5462;
/// More than any key takes in an hour.
const PLENTY: u64 = 500_000;
/// The limit of the keys that are used up in a round.
pub const TIGHT: u64 = 300;
/// The timed limits: capacity or limit, units a second or the window in ms.
pub const TIMED: u64 = 20;
pub const TIMED_RATE: u64 = 60;
pub const TIMED_WINDOW_MS: u64 = 400;
/// The leaky bucket whose callers wait: capacity, and units a second.
pub const WAITED: u64 = 6;
pub const WAITED_RATE: u64 = 20;

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Lives through all rounds and never denies: every unit that is taken is counted.
    Ledger,
    /// Three keys of one hash tag, taken together.
    Together,
    /// New in each round, and used up.
    Tight,
    /// Refills all the time.
    Timed,
    /// A queue whose callers wait.
    Waited,
    /// Comes and goes.
    Passing,
}

/// One key, or the three of one hash tag.
#[derive(Clone, Debug)]
pub struct Key {
    /// The name, or the tag in braces.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// Token bucket, leaky bucket or sliding window: 0, 1, 2.
    pub limiter: usize,
    /// The primary that had its slot at the start.
    pub shard: usize,
}

/// The keys of a round.
pub struct Plan {
    /// All of them; events name a key by its index.
    pub keys: Vec<Key>,
}

/// A call to make.
pub struct Shot {
    /// The key, an index into the plan.
    pub key: usize,
    /// The units that it takes if it is allowed; less than 0 for what is given back.
    pub units: i64,
    /// The words of the call.
    pub line: String,
}

/// The first slot of each third.
pub fn first_slot(shard: usize) -> u16 {
    SHARE * u16::try_from(shard).expect("three shards")
}

fn named(cluster: &Cluster, prefix: &str, kind: Kind, count: usize) -> Vec<Key> {
    let of_shard = |shard: usize| {
        let first = first_slot(shard);
        let names = cluster.keys_in(&(first..=(first + (SHARE - 1)).min(16_383)), prefix, count);
        let key = move |(name, limiter): (String, usize)| {
            let name = if kind == Kind::Together { format!("{{{name}}}") } else { name };
            Key { name, kind, limiter: limiter % 3, shard }
        };
        names.into_iter().zip(0..).map(key)
    };
    (0..3).flat_map(of_shard).collect()
}

impl Plan {
    /// The keys of a round: the same as in the last, but for those that it uses up.
    pub fn new(cluster: &Cluster, round: u64) -> Plan {
        let mut keys = named(cluster, "ledger", Kind::Ledger, 6);
        keys.extend(named(cluster, "together", Kind::Together, 2));
        keys.extend(named(cluster, "timed", Kind::Timed, 3));
        keys.extend(named(cluster, "waited", Kind::Waited, 1));
        keys.extend(named(cluster, &format!("tight:{round}"), Kind::Tight, 3));
        keys.extend(named(cluster, "passing", Kind::Passing, 60));
        Plan { keys }
    }

    /// A call for a client: one that may wait, or one that is answered at once.
    pub fn shot(&self, dice: &mut Dice, waits: bool) -> Shot {
        let kind = match dice.throw(100) {
            _ if waits => Kind::Waited,
            0..40 => Kind::Ledger,
            40..55 => Kind::Together,
            55..75 => Kind::Tight,
            75..90 => Kind::Timed,
            _ => Kind::Passing,
        };
        let of_kind = || self.keys.iter().enumerate().filter(|(_, key)| key.kind == kind);
        let sides = u64::try_from(of_kind().count()).expect("a few keys");
        let chosen = usize::try_from(dice.throw(sides)).expect("an index");
        let (index, key) = of_kind().nth(chosen).expect("one of them");
        let (line, units) = key.call(dice);
        Shot { key: index, units, line }
    }
}

/// A call of each limiter with a limit that nothing comes back from.
fn slow(name: &str, limit: u64) -> [String; 3] {
    [
        format!("RL.TOKENBUCKET {name} {limit} 1 PER 6000000"),
        format!("RL.LEAKY {name} {limit} 1 PER 6000000"),
        format!("RL.SLIDING {name} {limit} 36000000"),
    ]
}

impl Key {
    /// The limit that its calls name.
    pub fn limit(&self) -> u64 {
        match self.kind {
            Kind::Ledger | Kind::Together => PLENTY,
            Kind::Tight => TIGHT,
            Kind::Timed | Kind::Passing => TIMED,
            Kind::Waited => WAITED,
        }
    }

    /// The names of what it stands for.
    pub fn names(&self) -> Vec<String> {
        match self.kind {
            Kind::Together => ["t", "l", "s"].map(|end| format!("{}:{end}", self.name)).to_vec(),
            _ => vec![self.name.clone()],
        }
    }

    /// A call of cost 1 on a ledger.
    pub fn plain_call(&self) -> String {
        format!("{} COST 1", slow(&self.name, PLENTY)[self.limiter])
    }

    fn call(&self, dice: &mut Dice) -> (String, i64) {
        let Key { name, limiter, .. } = self;
        match self.kind {
            Kind::Ledger => self.ledger_call(dice),
            Kind::Tight => (slow(name, TIGHT)[*limiter].clone(), 1),
            Kind::Together => {
                let names = self.names().join(" ");
                let rules = format!(
                    "TOKENBUCKET {PLENTY} 1 PER 6000000 LEAKY {PLENTY} 1 PER 6000000 \
                     SLIDING {PLENTY} 36000000"
                );
                (format!("RL.ALL 3 {names} {rules}"), 1)
            }
            Kind::Timed => {
                let lines = [
                    format!("RL.TOKENBUCKET {name} {TIMED} {TIMED_RATE}"),
                    format!("RL.LEAKY {name} {TIMED} {TIMED_RATE}"),
                    format!("RL.SLIDING {name} {TIMED} {TIMED_WINDOW_MS}"),
                ];
                (lines[*limiter].clone(), 1)
            }
            Kind::Waited => (format!("RL.LEAKY {name} {WAITED} {WAITED_RATE} WAIT 1000"), 1),
            Kind::Passing => loop {
                // Without parameters there is no limit to count by.
                let line = dice.short_call(name);
                let same = ["RL.TOKENBUCKET", "RL.LEAKY", "RL.SLIDING"][*limiter];
                if line.starts_with(same) || line.starts_with("RL.REFUND") {
                    return (line, 0);
                }
            },
        }
    }

    /// Units that are given back are far fewer than those that are taken, so that they never meet
    /// an unused limit.
    fn ledger_call(&self, dice: &mut Dice) -> (String, i64) {
        let line = &slow(&self.name, PLENTY)[self.limiter];
        match dice.throw(12) {
            0 => (format!("RL.REFUND {} 1", self.name), -1),
            1 => (format!("{line} PEEK"), 0),
            2 => (format!("{line} FORCE COST 2"), 2),
            3 => (format!("{line} COST 3"), 3),
            _ => (line.clone(), 1),
        }
    }
}
