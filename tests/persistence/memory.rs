//! MEMORY USAGE tells what a value takes: the module's part is within a tenth of the usable size of
//! the value's own allocations.
//!
//! The truth is `used_memory` over many equal keys. A key whose value is a number costs the server
//! its name, its entry and an object without anything besides; one of the module costs the same,
//! 16 bytes that tie the value to its type, and what the module allocates. So the difference, less
//! these, is the value's own. Likewise MEMORY USAGE: what it tells of the number is the server's
//! part.

use std::thread;
use std::time::Duration;

use super::support::{Client, Config, Product, Server, field, int, until, words};
use super::{grow_window, hit, report, used_memory};

/// Keys of each kind: enough that 16 KiB of the server's own buffers, such as the reader's, which
/// shrinks when it has been too large for 5 s, hardly show. Like the numbers
/// below it is not near a power of two, where the server's tables grow now or a moment later.
const MANY: usize = 6000;
/// Long windows, which show among fewer.
const FEW: usize = 200;
/// Windows that are grown call by call, from 100 hits and from more.
const GROWN: usize = 200;
const GROWN_LONG: usize = 40;

/// What keys of one kind take together, in bytes.
#[derive(Debug)]
struct Total {
    /// Of the server's memory.
    used: i64,
    /// By what MEMORY USAGE tells of each.
    told: i64,
}

/// A name of 21 bytes: together with the server's own bytes for it this fills an allocation, so
/// that a server which tells what it asked for and one that tells what it got agree.
fn name(number: usize) -> String {
    format!("rl:memory:usage:{number:05}")
}

/// A server that holds nothing but what is weighed: it remembers no call, neither slow ones nor how
/// long each took. What it does now and then, as resizing its tables, it does all the time.
fn light_server() -> Server {
    let lines = ["slowlog-log-slower-than -1", "latency-tracking no", "hz 200", "dynamic-hz no"];
    let config = lines.iter().fold(Config::new().client_time(), |config, line| config.line(line));
    Server::with(&config)
}

/// A server and the connection that asks for its memory and nothing else: what the server keeps for
/// this one stays the same.
struct Scales<'a> {
    server: &'a Server,
    reader: Client,
}

impl Scales<'_> {
    /// The server's memory, when it has come to rest and all other connections are gone.
    fn settled(&mut self) -> i64 {
        let (mut last, mut times) = (0, 0);
        until("the memory is at rest", || {
            thread::sleep(Duration::from_millis(15));
            let now = used_memory(&mut self.reader);
            let alone = field(&self.reader.info("clients"), "connected_clients") == Some("1");
            times = if alone && now == last { times + 1 } else { 0 };
            last = now;
            times == 4
        });
        i64::try_from(last).expect("a size")
    }

    /// Makes keys by some calls each and weighs them.
    fn weigh(&mut self, keys: usize, calls: impl Fn(&str) -> Vec<Vec<Vec<u8>>>) -> Total {
        self.server.client().ok("FLUSHALL");
        let before = self.settled();
        let mut client = self.server.client();
        let calls: Vec<_> = (0..keys).flat_map(|number| calls(&name(number))).collect();
        calls.chunks(1000).for_each(|some| drop(client.pipeline(some)));
        drop(client);
        let used = self.settled() - before;
        let ask: Vec<_> =
            (0..keys).map(|number| words(&format!("MEMORY USAGE {}", name(number)))).collect();
        let told = self.server.client().pipeline(&ask);
        Total { used, told: told.iter().map(int).sum() }
    }
}

/// What one of the server's own allocations of 16 bytes takes, and what MEMORY USAGE tells of the
/// server's part in a module's key less than in that of a number.
fn servers_part(server: &Server) -> (i64, i64) {
    let libc = allocator(server) == "libc";
    let version = server.version();
    // These count the object of every value, the others that of their own types.
    let counts_all = match version.product {
        Product::Redis => version.number >= (8, 2, 0),
        Product::Valkey => version.number >= (9, 0, 0),
        Product::Redict => false,
    };
    (if libc { 24 } else { 16 }, if counts_all { 0 } else { 16 })
}

fn allocator(server: &Server) -> String {
    let info = server.client().info("memory");
    field(&info, "mem_allocator").expect("it is told").to_owned()
}

/// Compares what is told of a module's keys with what they take, both without the server's part.
fn compare(server: &Server, what: &str, keys: usize, plain: &Total, module: &Total) {
    let keys = i64::try_from(keys).expect("a number");
    let (tie, uncounted) = servers_part(server);
    let own = module.used - plain.used - keys * tie;
    let told = module.told + keys * uncounted - plain.told;
    println!("{what}: takes {} bytes, {} are told", own / keys, told / keys);
    assert!(
        (told - own).abs() * 10 <= own,
        "{what}: takes {own}, told {told}: {plain:?} {module:?}"
    );
}

/// Buckets of ordinary and of long numbers; windows of one hit, of some and of many.
#[test]
fn memory_usage_tells_what_a_value_takes() {
    let server = light_server();
    let mut client = server.client();
    client.limit("RL.TOKENBUCKET token 2 1 PER 3600000");
    client.limit("RL.LEAKY leaky 2 1 PER 3600000 COST 500 FORCE");
    client.limit("RL.TOKENBUCKET wide 9007199254740992 0.123456789 PER 3600000 COST 8");
    grow_window(&mut client, "one", 0..1);
    grow_window(&mut client, "some", 0..40);
    grow_window(&mut client, "many", 0..3000);
    let kinds = ["token", "leaky", "wide", "one", "some", "many"];
    let payloads = kinds.map(|key| (key, if key == "many" { FEW } else { MANY }, client.dump(key)));
    drop(client);

    let number = |key: &str| vec![words(&format!("SET {key} 123456"))];
    // Without a time to live: see `expiring_module_keys_are_misread`.
    let restore = |key: &str, payload: &Vec<u8>| {
        vec![vec![b"RESTORE".to_vec(), key.into(), b"0".to_vec(), payload.clone()]]
    };
    let mut scales = Scales { server: &server, reader: server.client() };
    // The first time grows what the server keeps for the next.
    scales.weigh(MANY, number);
    scales.weigh(MANY, |key| restore(key, &payloads[0].2));
    let plain = [MANY, FEW].map(|keys| scales.weigh(keys, number));
    for (what, keys, payload) in payloads {
        let module = scales.weigh(keys, |key| restore(key, &payload));
        compare(&server, what, keys, &plain[usize::from(keys == FEW)], &module);
    }
}

/// A window that calls have grown, and whose first half has left, tells what it takes too.
#[test]
fn memory_usage_follows_a_window_that_moves() {
    let server = light_server();
    if expiring_module_keys_are_misread(&server) {
        report(
            "MEMORY USAGE of windows as they grow: this server misreads module keys that expire",
        );
        return;
    }
    let number = |key: &str| vec![words(&format!("SET {key} 123456 PX 3600000"))];
    let grow = |key: &str, hits| {
        let short = |number| hit(key, number).replace(" 3600000 ", " 100000 ");
        (0..hits).map(|number| words(&short(number))).collect()
    };
    let mut scales = Scales { server: &server, reader: server.client() };
    scales.weigh(GROWN, |key| grow(key, 1));
    let plain = [GROWN, GROWN_LONG].map(|keys| scales.weigh(keys, number));
    for (hits, keys) in [(100, GROWN), (1000, GROWN_LONG), (1500, GROWN_LONG)] {
        let module = scales.weigh(keys, |key| grow(key, hits));
        let plain = &plain[usize::from(keys == GROWN_LONG)];
        compare(&server, &format!("{hits} hits, 1,000 in a window"), keys, plain, &module);
    }
}

/// Redis from 8.2 on asks the allocator for the size of an object that begins 8 bytes into its
/// allocation, where the value is a module's and the key expires. jemalloc answers that, libc reads
/// what lies before as a size: MEMORY USAGE tells nonsense or ends the server, for Redis' own
/// vector sets too.
fn expiring_module_keys_are_misread(server: &Server) -> bool {
    let version = server.version();
    version.product == Product::Redis && version.number >= (8, 2, 0) && allocator(server) == "libc"
}
