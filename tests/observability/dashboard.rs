//! What redis_exporter and Grafana make of it: the script and the dashboard of `examples/`.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value as Json;

use super::support::{Client, Server, list, text, until};
use super::{LIMITERS, deny, pairs, stats};

/// The keys that the scene denies: one that is text, and one that must be shown otherwise.
const KEYS: [(&[u8], &str); 2] = [(b"user:42", "user:42"), (b"a\\b\"\n\xff", r#"a\\b"\x0a\xff"#)];

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

/// A server on which all there is to see has happened.
fn scene() -> Server {
    let server = Server::start();
    let mut client = server.client();
    for (_, call) in LIMITERS {
        for options in ["", " COST 9", " COST 9 SHADOW", " FORCE", " X"] {
            client.run(&format!("{call}{options}"));
        }
    }
    client.ok("RL.REFUND t 1");
    for (key, _) in KEYS {
        deny(&mut client, key);
    }
    server
}

/// What the script returns, called as the exporter calls it: pairs of strings.
fn collected(client: &mut Client) -> BTreeMap<String, String> {
    let script = fs::read_to_string(example("redis_exporter.lua")).expect("the script");
    let answer = list(&client.call(&["EVAL", &script, "0", "0"]));
    assert!(answer.len() >= 2 && answer.len().is_multiple_of(2), "{answer:?}");
    let pairs: Vec<_> = answer.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect();
    let len = pairs.len();
    let collected: BTreeMap<_, _> = pairs.into_iter().collect();
    assert_eq!(collected.len(), len, "each name once");
    collected
}

#[test]
fn the_script_collects_all_numbers_and_keys() {
    let server = scene();
    let mut client = server.client();
    let collected = collected(&mut client);
    for (command, counters) in stats(&mut client) {
        for (name, count) in counters {
            let name = format!("{}_{name}", command.replace('.', "_")).replace('-', "_");
            assert_eq!(collected[&name], count.to_string(), "{name}");
        }
    }
    for (_, shown) in KEYS {
        assert_eq!(collected[&format!("rl_topdenied:{shown}")], "1");
    }
    for (name, value) in &collected {
        assert!(value.parse::<u64>().is_ok(), "{name}: {value}");
        assert!(name.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{name}");
    }
}

/// Long keys that look alike are one series, and many keys are no more than the script says.
#[test]
fn the_script_lists_each_name_once() {
    let server = Server::start();
    let mut client = server.client();
    for last in [b'x', b'y', b'z'] {
        deny(&mut client, &[&[b'k'; 300][..], &[last]].concat());
    }
    (0..100).for_each(|key| deny(&mut client, format!("k{key}").as_bytes()));
    let names = collected(&mut client);
    let names = names.keys().filter(|name| name.starts_with("rl_topdenied:"));
    assert!((1..=20).contains(&names.count()));
}

/// A user who may not see keys still gets the numbers.
#[test]
fn the_script_does_without_the_right_to_see_keys() {
    let server = scene();
    server.client().ok("ACL SETUSER exporter on nopass +eval +info");
    let mut client = server.client();
    client.ok("AUTH exporter x");
    let collected = collected(&mut client);
    assert_eq!(collected["rl_tokenbucket_forced"], "1");
    assert!(!collected.keys().any(|name| name.starts_with("rl_topdenied:")), "{collected:?}");
}

fn dashboard() -> Json {
    let text = fs::read_to_string(example("grafana_dashboard.json")).expect("the dashboard");
    serde_json::from_str(&text).expect("JSON")
}

/// The panels' queries.
fn queries(dashboard: &Json) -> Vec<String> {
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("targets"));
    targets.map(|target| target["expr"].as_str().expect("a query").to_owned()).collect()
}

/// The names that a query asks for: what stands behind `key=` or `key=~`.
fn names_of(query: &str) -> Vec<&str> {
    let quoted = |rest: &'static str| query.split(rest).skip(1);
    let behind = quoted("key=\"").chain(quoted("key=~\""));
    behind.filter_map(|rest| rest.split('"').next()).collect()
}

/// Whether a name matches, for as much of regular expressions as the dashboard uses.
fn matches(pattern: &str, name: &str) -> bool {
    if let Some((start, rest)) = pattern.split_once(".*") {
        return name.starts_with(start) && rest.is_empty();
    }
    if let Some((start, end)) = pattern.split_once("[a-z]+") {
        let ends = end.trim_start_matches("_(").trim_end_matches(')').split('|');
        let command = |end: &str| name.strip_prefix(start)?.strip_suffix(end)?.strip_suffix('_');
        return ends.map(|end| end.trim_start_matches('_')).any(|end| {
            command(end).is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()))
        });
    }
    pattern == name
}

#[test]
fn the_dashboard_shows_what_is_collected() {
    let server = scene();
    let collected = collected(&mut server.client());
    let queries = queries(&dashboard());
    assert!(queries.len() >= 8, "{queries:?}");
    for query in &queries {
        let metrics = query.matches("redis_script_values{").count();
        let names = names_of(query);
        assert!(metrics > 0 && names.len() == metrics, "{query}");
        for pattern in names {
            let found = |(name, value): (&String, &String)| matches(pattern, name) && value != "0";
            assert!(collected.iter().any(found), "{query}: nothing is called {pattern}");
        }
    }
    // And the other way round: each counter is on some panel.
    let patterns: Vec<&str> = queries.iter().flat_map(|query| names_of(query)).collect();
    for (name, _) in
        pairs(&server.client().ok("RL.STATS")).iter().flat_map(|(_, counters)| pairs(counters))
    {
        let name = format!("rl_tokenbucket_{}", name.replace('-', "_"));
        assert!(patterns.iter().any(|pattern| matches(pattern, &name)), "no panel for {name}");
    }
}

#[test]
fn patterns_match_what_they_should() {
    for (pattern, name, expected) in [
        ("rl_[a-z]+_denied", "rl_leaky_denied", true),
        ("rl_[a-z]+_denied", "rl_leaky_shadow_denied", false),
        ("rl_[a-z]+_(allowed|shadow_denied)", "rl_leaky_shadow_denied", true),
        ("rl_[a-z]+_(allowed|shadow_denied)", "rl_leaky_denied", false),
        ("rl_topdenied:.*", "rl_topdenied:k", true),
        ("rl_topdenied:.*", "rl_topdenied_bytes", false),
        ("rl_log_bytes", "rl_log_bytes", true),
    ] {
        assert_eq!(matches(pattern, name), expected, "{pattern}: {name}");
    }
}

/// An exporter that ends with the test.
struct Exporter {
    child: Child,
    port: u16,
}

impl Exporter {
    /// redis_exporter, under the name that Debian or its authors give it, or that of RL_EXPORTER.
    fn start(server: &Server) -> Exporter {
        let names = env::var("RL_EXPORTER").ok();
        let names = names.iter().map(String::as_str);
        let names = names.chain(["prometheus-redis-exporter", "redis_exporter"]);
        let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr());
        let port = port.expect("a free port").port();
        for name in names {
            let started = Command::new(name)
                .arg(format!("-redis.addr=redis://127.0.0.1:{}", server.port()))
                .arg(format!("-web.listen-address=127.0.0.1:{port}"))
                .arg(format!("-script={}", example("redis_exporter.lua").display()))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            if let Ok(child) = started {
                return Exporter { child, port };
            }
        }
        panic!("no redis_exporter: `make test` installs it, or name one in RL_EXPORTER");
    }

    /// The page that Prometheus reads; none while the exporter starts.
    fn metrics(&self) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
        let mut page = String::new();
        stream.read_to_string(&mut page).ok()?;
        Some(page)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // Nothing more can be done where these fail: it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_exporter_shows_what_the_script_collects() {
    let server = scene();
    let exporter = Exporter::start(&server);
    let mut page = String::new();
    until("the exporter answers", || {
        page = exporter.metrics().unwrap_or_default();
        page.contains("redis_up 1")
    });
    for (name, value) in &collected(&mut server.client()) {
        // As the format of Prometheus writes a label's value; later versions of the exporter add
        // a label for the script's file.
        let label = name.replace('\\', "\\\\").replace('"', "\\\"");
        let start = format!("redis_script_values{{key=\"{label}\"");
        let line = page.lines().find(|line| {
            line.starts_with(&start) || {
                line.starts_with("redis_script_values{")
                    && line.contains(&format!("key=\"{label}\""))
            }
        });
        let line = line.unwrap_or_else(|| panic!("no {start} in:\n{page}"));
        // What it asks for itself is counted by no counter of the module.
        assert!(line.ends_with(&format!(" {value}")), "{line}: {value}");
    }
}
