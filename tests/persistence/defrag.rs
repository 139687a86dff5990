//! Active defragmentation moves the memory of values while clients call, and nothing changes.
//!
//! Only some builds of the servers can: of the matrix Redis 7.2.4, 7.4.1 and 8.2.3. The others
//! refuse `activedefrag yes`, and the test says so in the output of the run.

use std::collections::BTreeMap;
use std::time::Instant;

use super::support::{
    Client, Config, DEADLINE, Dice, Server, error_text, field, text, until, words,
};
use super::{contents, grow_window, report, used_memory};

/// Buckets of each limiter before most are deleted: many pages of their allocations.
const BUCKETS: u64 = 20_000;
/// Windows before most are deleted, and the hits of each, in two blocks.
const WINDOWS: u64 = 12_000;
const HITS: u64 = 300;
/// Windows with many blocks, before most are deleted, and their hits.
const LONG: u64 = 120;
const LONG_HITS: u64 = 12_000;
/// Sizes of the allocations that hold a bucket, a window, and the block of a window. A bucket with
/// long numbers has 48 bytes, which the allocators of Redis 7.2.4 and 7.4.1 never want to move.
const SIZES: [u64; 3] = [32, 64, 512];
/// So many of each have moved when the test is content: more than the server's own work with
/// allocations of these sizes explains.
const MOVED: u64 = 150;

/// Why the server cannot, where its build does not let it.
fn refusal(client: &mut Client) -> Option<String> {
    let refusal = error_text(&client.run("CONFIG SET activedefrag yes"));
    if refusal.is_none() {
        client.ok("CONFIG SET activedefrag no");
    }
    refusal
}

/// Turns it on and makes it eager.
fn defragment(client: &mut Client) {
    for line in [
        "CONFIG SET active-defrag-ignore-bytes 1",
        "CONFIG SET active-defrag-threshold-lower 1",
        "CONFIG SET active-defrag-cycle-min 40",
        "CONFIG SET active-defrag-cycle-max 80",
        "CONFIG SET activedefrag yes",
    ] {
        client.ok(line);
    }
}

/// Fills the memory, and leaves it full of gaps: of one stretch of keys half are deleted, of the
/// next nearly all.
fn fill_with_gaps(client: &mut Client) {
    let windows = [HITS, LONG_HITS].map(|hits| {
        grow_window(client, "window", 0..hits);
        let payload = client.dump("window");
        client.ok("DEL window");
        payload
    });
    let restore = |key: String, payload: &Vec<u8>| {
        vec![b"RESTORE".to_vec(), key.into_bytes(), b"0".to_vec(), payload.clone()]
    };
    let mut calls = Vec::new();
    for number in 0..BUCKETS {
        calls.push(words(&format!("RL.TOKENBUCKET t{number} 5 1 PER 3600000")));
        let long_numbers = "9007199254740992 0.123456789 PER 3600000 COST 8";
        calls.push(words(&format!("RL.LEAKY l{number} {long_numbers}")));
    }
    calls.extend((0..WINDOWS).map(|number| restore(format!("s{number}"), &windows[0])));
    calls.extend((0..LONG).map(|number| restore(format!("long{number}"), &windows[1])));
    calls.chunks(500).for_each(|some| drop(client.pipeline(some)));
    let mut dice = Dice::new(3);
    let mut gaps = Vec::new();
    for (prefix, keys, stretch) in
        [("t", BUCKETS, 4096), ("l", BUCKETS, 4096), ("s", WINDOWS, 1024), ("long", LONG, 16)]
    {
        for number in 0..keys {
            let kept_of_100 = if (number / stretch).is_multiple_of(2) { 50 } else { 5 };
            if dice.throw(100) >= kept_of_100 {
                gaps.push(words(&format!("DEL {prefix}{number}")));
            }
        }
    }
    gaps.chunks(500).for_each(|some| drop(client.pipeline(some)));
}

/// How many allocations of each size there have been, by the allocator's own table.
fn allocations(client: &mut Client) -> BTreeMap<u64, u64> {
    let stats = text(&client.ok("MEMORY MALLOC-STATS"));
    let mut lines = stats.lines().skip_while(|line| !line.starts_with("bins:"));
    let header: Vec<&str> = lines.next().expect("a table").split_whitespace().skip(1).collect();
    let column = |name: &str| header.iter().position(|&found| found == name).expect("a column");
    let (size, count) = (column("size"), column("nmalloc"));
    let rows = lines.take_while(|line| !line.starts_with("large:"));
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.split_whitespace().collect();
        Some((cells.get(size)?.parse().ok()?, cells.get(count)?.parse().ok()?))
    })
    .collect()
}

fn stat(client: &mut Client, name: &str) -> u64 {
    let info = client.info("stats");
    field(&info, name).and_then(|number| number.parse().ok()).expect("it is told")
}

/// Waits until allocations of each size have moved, and calls on a few keys meanwhile; how often it
/// called each.
fn wait_until_moved(client: &mut Client) -> i64 {
    let (before, start) = (allocations(client), Instant::now());
    for calls in 1.. {
        for call in
            ["RL.TOKENBUCKET live:t 1000000 1 PER 3000000", "RL.SLIDING live:s 9999999 3600000"]
        {
            assert_eq!(client.limit(call).allowed, 1);
        }
        let now = allocations(client);
        let moved = SIZES.map(|size| (size, now[&size] - before[&size]));
        if moved.iter().all(|&(_, moved)| moved > MOVED) {
            return calls;
        }
        assert!(start.elapsed() < DEADLINE, "sizes and how many of each have moved: {moved:?}");
    }
    unreachable!("it returns or fails")
}

/// So many parts of a value are looked at in one go; what has more waits for its turn.
fn values_move(parts_at_once: u32) {
    let config = Config::new().client_time().debug();
    let server =
        Server::with(&config.line(&format!("active-defrag-max-scan-fields {parts_at_once}")));
    let mut client = server.client();
    if let Some(refusal) = refusal(&mut client) {
        assert!(refusal.contains("Active defragmentation cannot be enabled"), "{refusal}");
        report(&format!("active defragmentation, {:?} refuses it: {refusal}", server.version()));
        return;
    }
    let before = used_memory(&mut client);
    fill_with_gaps(&mut client);
    let held = contents(&mut client);
    let digest = text(&client.ok("DEBUG DIGEST"));
    // From here on it stays on: Redis 7.2 can crash where it is turned off while a value waits.
    defragment(&mut client);
    let calls = wait_until_moved(&mut client);
    assert!(stat(&mut client, "active_defrag_hits") > 3 * MOVED);
    for key in ["live:t", "live:s"] {
        let reply = client.limit(&format!("RL.PEEK {key}"));
        assert_eq!(reply.limit - reply.remaining, calls, "{key}");
        client.ok(&format!("DEL {key}"));
    }
    assert_eq!(text(&client.ok("DEBUG DIGEST")), digest);
    assert_eq!(contents(&mut client), held);
    every_value_is_usable(&mut client);
    client.ok("FLUSHALL");
    until("the memory is back", || used_memory(&mut client) < before + 512 * 1024);
}

#[test]
fn values_move_as_a_whole_and_nothing_changes() {
    values_move(1000);
}

#[test]
fn values_move_part_by_part_and_nothing_changes() {
    values_move(10);
}

/// Every value can be changed and freed: nothing points to where it was.
fn every_value_is_usable(client: &mut Client) {
    let keys: Vec<String> = contents(client).into_keys().collect();
    let refunds: Vec<_> =
        keys.iter().map(|key| words(&format!("RL.REFUND {key} 1 AT 1700001200000"))).collect();
    for answer in client.pipeline(&refunds) {
        assert_eq!(error_text(&answer), None);
    }
    let copies: Vec<_> =
        keys.iter().map(|key| words(&format!("COPY {key} {key} DB 1 REPLACE"))).collect();
    client.pipeline(&copies);
    let deletions: Vec<_> = keys.iter().map(|key| words(&format!("DEL {key}"))).collect();
    client.pipeline(&deletions);
}
