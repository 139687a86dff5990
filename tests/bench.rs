//! What the server benchmarks compute: medians, what redis-benchmark and the server print, tables.

// The benchmarks use more of these files than is tested here.
#![allow(dead_code)]

#[path = "../benches/server/cases.rs"]
mod cases;
#[path = "../benches/server/chart.rs"]
mod chart;
#[path = "../benches/server/fill.rs"]
mod fill;
#[path = "../benches/server/load.rs"]
mod load;
#[path = "../benches/server/markdown.rs"]
mod markdown;
#[path = "../benches/server/memory.rs"]
mod memory;
#[path = "../benches/server/stats.rs"]
mod stats;
mod support;

use load::{Shape, Told};
use stats::{Metric, Sample};
use support::Server;

fn sample(cpu_ns: f64) -> Sample {
    Sample { cpu_ns, throughput: 1e9 / cpu_ns, usec: cpu_ns / 1000.0 }
}

#[test]
fn a_median_is_the_middle_one() {
    assert_eq!(stats::median([]), None);
    assert_eq!(stats::median([3.0]), Some(3.0));
    assert_eq!(stats::median([9.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(stats::median([4.0, 100.0, 1.0, 2.0]), Some(3.0));
}

/// A machine that is slow for a round slows both, so only the ratio within the round counts.
#[test]
fn a_ratio_is_taken_within_its_round() {
    let of = [200.0, 2000.0, 410.0].map(sample);
    let over = [100.0, 1000.0, 200.0].map(sample);
    assert_eq!(stats::ratio(&of, &over, Metric::Cpu), Some(2.0));
    assert_eq!(stats::ratio(&of, &over, Metric::Throughput), Some(0.5));
    assert_eq!(stats::typical(&of, Metric::Cpu), Some(410.0));
    assert_eq!(stats::ratio(&[], &[], Metric::Cpu), None);
}

#[test]
fn the_csv_is_read_whatever_the_command_holds() {
    let head = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"";
    let numbers = "\"200400.00\",\"0.357\",\"0.112\",\"0.343\",\"0.679\",\"0.959\",\"1.023\"";
    let told = Told { throughput: 200_400.0, latency_ms: [0.343, 0.679, 0.959, 1.023] };
    for command in ["PING", "EVALSHA 1 a\",\"b", "SET a,b \"c"] {
        let printed = format!("{head}\n\"{command}\",{numbers}\n");
        assert_eq!(load::parse(&printed), Some(told), "{printed}");
    }
    assert_eq!(load::parse(head), None);
    assert_eq!(load::parse("Could not connect"), None);
}

#[test]
fn failed_calls_are_noticed() {
    let stats = "calls=20,usec=50,usec_per_call=2.50,rejected_calls=1,failed_calls=3";
    assert_eq!(load::command_stats(stats), (20.0, 2.5, 4.0));
}

#[test]
fn memory_is_read_by_its_names() {
    let printed = "Redis 7.0.15, jemalloc-5.3.0, 1000 keys\ntoken bucket, bytes a key      177.0\n";
    assert_eq!(memory::parse(printed), [("token bucket, bytes a key".to_owned(), 177.0)]);
}

#[test]
fn tables_line_up() {
    let rows = [["INCR", "614"], ["Lua", "8,442"]].map(|row| row.map(str::to_owned).to_vec());
    let expected = "\
        | of   |    ns |\n\
        | ---- | ----: |\n\
        | INCR |   614 |\n\
        | Lua  | 8,442 |\n";
    assert_eq!(markdown::table(&["of", "ns"], &rows), expected);
}

#[test]
fn numbers_are_no_more_exact_than_they_are() {
    let shown = [0.956, 13.84, 99.96, 614.3, 1_234_567.0].map(markdown::figure);
    assert_eq!(shown, ["0.96", "13.8", "100.0", "614", "1,234,567"]);
    assert_eq!(markdown::maybe(None), "-");
}

#[test]
fn only_what_is_between_the_marks_is_replaced() {
    let page = "before\n<a>\nold\n<b>\nafter\n";
    let written = markdown::replaced(page, "<a>", "<b>", "new\n").expect("both marks are there");
    assert_eq!(written, "before\n<a>\nnew\n<b>\nafter\n");
    assert_eq!(markdown::replaced(&written, "<a>", "<b>", "new\n"), Some(written.clone()));
    assert_eq!(markdown::replaced("no marks", "<a>", "<b>", "new"), None);
}

#[test]
fn a_chart_has_a_bar_and_a_number_for_each() {
    let bar = |name, value, ours| chart::Bar { name, value, ours };
    let svg = chart::bars("ns", &[bar("INCR", 600.0, false), bar("RL", 1200.0, true)]);
    for text in ["<svg", "INCR", "600", "RL", "1,200", "</svg>"] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    // The paper and two bars.
    assert_eq!(svg.matches("<rect").count(), 3, "{svg}");
}

#[test]
fn a_script_of_ones_own_is_called_as_it_asks() {
    let case = cases::own("my.lua", "abc", 2, "10 {now} {now_ms}", 1_700_000_000_123);
    let expected = "EVALSHA abc 2 own1:__rand_int__ own2:__rand_int__ 10 1700000000 1700000000123";
    assert_eq!(case.words.join(" "), expected);
    let first = "EVALSHA abc 2 own1:000000000000 own2:000000000000 10 1700000000 1700000000123";
    assert_eq!(case.first_call().join(" "), first);
}

/// The whole of a measurement: keys are filled, called and counted, and the database is empty
/// afterwards.
#[test]
fn a_script_of_ones_own_is_measured() {
    let server = Server::start();
    let mut client = server.client();
    let script = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    let hash = fill::load_script(&mut client, script).expect("a script");
    let case = cases::own("my.lua", &hash, 1, "7", 0);
    case.prepare(&mut client, 2);
    assert_eq!(client.int("DBSIZE"), 10_000);
    let shape = Shape { calls: 5000, ..Shape::PIPELINED };
    let sample = case.measure(&server, shape, 2);
    assert!(sample.cpu_ns > 0.0 && sample.throughput > 0.0 && sample.usec > 0.0, "{sample:?}");
    assert_eq!(client.int("DBSIZE"), 0);
}

/// Calls that fail are no measurement.
#[test]
#[should_panic(expected = "filling keys")]
fn a_script_that_fails_is_not_measured() {
    let server = Server::start();
    let script = "return redis.call('NONE')";
    let hash = fill::load_script(&mut server.client(), script).expect("a script");
    cases::own("my.lua", &hash, 1, "", 0).prepare(&mut server.client(), 2);
}
