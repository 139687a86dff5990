//! The clients: each has one call under way, finds the node that serves a key as cluster clients
//! do, and notes how every call ended.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use redis::{RedisError, Value};

use super::PATIENCE;
use super::gate::{Event, Gate, Outcome};
use super::plan::{Key, Kind, Plan, Shot};
use crate::support::{Client, Dice, error_text, field, ints, pack, words};

/// Clients at once.
pub const WORKERS: usize = 14;
/// Those among them that make calls which wait.
const WAITING: usize = 3;
/// Every second client gives up after so long, as clients do; the others would show a server that
/// does not answer at all.
const IMPATIENT: Duration = Duration::from_secs(1);
/// Between two calls of a client at most, in us: six servers share the machine with them.
const THINK_US: u64 = 1500;

/// What a client may be answered while the cluster changes.
const EXPECTED: [&str; 6] =
    ["MOVED", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "UNBLOCKED"];

struct Worker<'a> {
    gate: &'a Gate,
    ports: &'a [u16],
    dice: Dice,
    patient: bool,
    waits: bool,
    connections: [Option<Client>; 6],
    /// The node that serves each third of the slots, as far as this client knows.
    route: [usize; 3],
    events: Vec<Event>,
}

/// Makes calls while the gate is open, until the test ends.
pub fn run(gate: &Gate, ports: &[u16], seed: u64, number: usize) {
    let mut worker = Worker {
        gate,
        ports,
        dice: Dice::new(seed * 100 + u64::try_from(number).expect("a small number")),
        patient: number.is_multiple_of(2),
        waits: number < WAITING,
        connections: Default::default(),
        route: [0, 1, 2],
        events: Vec::new(),
    };
    let mut round = 0;
    while let Some((next, plan)) = gate.rest(round, &mut worker.events) {
        round = next;
        while !gate.is_closed() {
            worker.step(&plan);
        }
    }
}

impl Worker<'_> {
    fn step(&mut self, plan: &Arc<Plan>) {
        let shot = plan.shot(&mut self.dice, self.waits);
        let key = &plan.keys[shot.key];
        let node = self.route[key.shard];
        if self.connections[node].is_none() {
            let patience = if self.patient { PATIENCE } else { IMPATIENT };
            let opened = Client::connect(self.ports[node]);
            self.connections[node] = opened.and_then(|client| client.patience(patience)).ok();
        }
        let Some(client) = self.connections[node].take() else {
            // Nobody is there: its replica may have taken over.
            self.route[key.shard] = (node + 3) % 6;
            thread::sleep(Duration::from_millis(2));
            return;
        };
        if self.dice.throw(400) == 0 {
            self.vanish(client, node, &shot);
        } else {
            self.ask(client, node, key, &shot);
        }
        thread::sleep(Duration::from_micros(self.dice.throw(THINK_US)));
    }

    /// Sends a call, or a part of it, and is gone.
    fn vanish(&mut self, mut client: Client, node: usize, shot: &Shot) {
        let sent_us = self.gate.now_us();
        let mut packed = Vec::new();
        pack(&mut packed, &words(&shot.line));
        if self.dice.throw(2) == 0 {
            packed.truncate(packed.len() / 2);
        }
        // Either way the call may have been applied.
        let _ = client.send_bytes(&packed);
        client.cut();
        self.note(shot, node, sent_us, Outcome::Unanswered);
    }

    fn ask(&mut self, mut client: Client, node: usize, key: &Key, shot: &Shot) {
        let sent_us = self.gate.now_us();
        let outcome = match client.try_call(&words(&shot.line)) {
            Ok(value) => {
                let outcome = self.answered(key, shot, &value);
                if outcome == Outcome::Taken && shot.units != 0 && self.dice.throw(25) == 0 {
                    self.confirm(&mut client, node, sent_us);
                }
                self.connections[node] = Some(client);
                outcome
            }
            Err(error) => {
                self.lost(&error, shot);
                self.route[key.shard] = (node + 3) % 6;
                Outcome::Unanswered
            }
        };
        self.note(shot, node, sent_us, outcome);
    }

    fn note(&mut self, shot: &Shot, node: usize, sent_us: u64, outcome: Outcome) {
        let got_us = self.gate.now_us();
        let Shot { key, units, .. } = *shot;
        self.events.push(Event { key, units, node, sent_us, got_us, outcome });
    }

    /// No answer came. That may be, but not after long patience: somebody is stuck.
    fn lost(&self, error: &RedisError, shot: &Shot) {
        if error.is_timeout() && self.patient {
            self.gate.fault(format!("{}: no answer within {PATIENCE:?}", shot.line));
        }
    }

    fn answered(&mut self, key: &Key, shot: &Shot, value: &Value) -> Outcome {
        if let Some(error) = error_text(value) {
            return self.refused(key, shot, &error);
        }
        let allowed = match value {
            Value::Array(items) => items.first().and_then(|first| match first {
                Value::Int(allowed) => Some(*allowed),
                _ => None,
            }),
            // Nothing was there to give back.
            Value::Nil if key.kind == Kind::Passing => return Outcome::Taken,
            _ => None,
        };
        let well_formed = key.kind == Kind::Together || ints(value).is_some();
        match allowed {
            // A reply to RL.REFUND says what the next call would be answered.
            Some(_) if shot.units < 0 => Outcome::Taken,
            Some(1) if well_formed => Outcome::Taken,
            Some(0) if well_formed && !matches!(key.kind, Kind::Ledger | Kind::Together) => {
                Outcome::Denied
            }
            Some(2) if key.kind == Kind::Passing => Outcome::Denied,
            _ => {
                self.gate.fault(format!("{}: {value:?}", shot.line));
                Outcome::Unanswered
            }
        }
    }

    fn refused(&mut self, key: &Key, shot: &Shot, error: &str) -> Outcome {
        let code = error.split(' ').next().unwrap_or_default();
        self.gate.error(code);
        if !EXPECTED.contains(&code) {
            self.gate.fault(format!("{}: {error}", shot.line));
        }
        if code == "MOVED" {
            let port = error.rsplit(':').next().and_then(|port| port.parse().ok());
            let node = self.ports.iter().position(|known| Some(*known) == port);
            self.route[key.shard] = node.expect("a node of ours");
        } else {
            thread::sleep(Duration::from_millis(2));
        }
        // Who was waiting has its place in the queue.
        if code == "UNBLOCKED" { Outcome::Unanswered } else { Outcome::Refused }
    }

    /// Asks whether the replica has the write that was sent at `sent_us`: then it has all that this
    /// node answered to anybody before.
    fn confirm(&mut self, client: &mut Client, node: usize, sent_us: u64) {
        match client.try_call(&["WAIT", "1", "200"]) {
            Ok(Value::Int(replicas)) if replicas >= 1 => self.gate.confirm(node, sent_us),
            Err(error) if error.is_timeout() && self.patient => {
                self.gate.fault(format!("WAIT 1 200: no answer within {PATIENCE:?}"));
            }
            // The replica is away, or the connection: the next call will tell.
            _ => {}
        }
    }
}

/// Looks at the nodes in turn, all the time: as many keys as expiries.
pub fn inspect(gate: &Gate, ports: &[u16], seed: u64) {
    let mut dice = Dice::new(seed);
    while !gate.has_ended() {
        thread::sleep(Duration::from_millis(3));
        let port = dice.pick(ports);
        let Ok(mut client) = Client::connect(port).and_then(|client| client.patience(PATIENCE))
        else {
            continue;
        };
        // Of a server that is killed meanwhile nothing is known.
        let Ok(Value::BulkString(info)) = client.try_call(&["INFO"]) else { continue };
        let info = String::from_utf8_lossy(&info).into_owned();
        // A file that is being loaded gives a key its expiry by a command of its own.
        let loading = field(&info, "loading") != Some("0");
        let Some(line) = field(&info, "db0").filter(|_| !loading) else { continue };
        let number = |name: &str| line.split(',').find_map(|part| part.strip_prefix(name));
        if number("keys=") != number("expires=") {
            gate.fault(format!("a key without expiry on port {port}: {line}"));
        }
    }
}
