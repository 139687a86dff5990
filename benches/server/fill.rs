//! What keys hold before they are measured.

use super::cases::RANDOM;
use super::support::{Client, error_text, field, pack, text};

/// How the keys of a contender get their state.
#[derive(Clone, Debug)]
pub enum Fill {
    /// There is nothing to fill.
    Nothing,
    /// By this call, once for every key.
    Call(Vec<String>),
    /// A window of so many hits, a ms apart, by RL.SLIDING.
    Window(u64),
    /// The same for the script `sliding_log.lua`.
    SortedSet(u64),
}

/// The window of the filled ones, ten days: no hit leaves while it is measured.
pub const WINDOW_MS: u64 = 864_000_000;
/// Bytes that are sent at once.
const BATCH: usize = 1 << 16;
/// What a sorted set gets at once.
const MEMBERS: u64 = 10_000;
/// Adds members as `sliding_log.lua` does, a ms apart.
const ADD: &str = "for hit = 1, tonumber(ARGV[2]) do
  local stamp = string.format('%.0f', ARGV[1] + hit * 1000)
  redis.call('ZADD', KEYS[1], stamp, stamp .. '-' .. hit)
end
redis.call('PEXPIRE', KEYS[1], 864000000)";

impl Fill {
    /// Fills the `keys` keys that `name` stands for, in the client's database.
    pub fn run(&self, client: &mut Client, name: &str, keys: u64) {
        match self {
            Fill::Nothing => {}
            Fill::Call(call) => send_all(client, (0..keys).map(|key| numbered(call, key))),
            Fill::Window(hits) => {
                let start_ms = now_ms(client) - hits;
                let names = (0..keys).map(|key| numbered(&[name.to_owned()], key).remove(0));
                let calls = names.flat_map(|name| {
                    (0..*hits).map(move |hit| window_hit(&name, *hits, start_ms + hit))
                });
                send_all(client, calls);
            }
            Fill::SortedSet(hits) => {
                let start_us = (now_ms(client) - hits) * 1000;
                for key in 0..keys {
                    let name = numbered(&[name.to_owned()], key).remove(0);
                    sorted_set(client, &name, *hits, start_us);
                }
            }
        }
    }
}

/// The call that puts one hit at a time of its own into a window of `limit` hits.
pub fn window_hit(name: &[u8], limit: u64, at_ms: u64) -> Vec<Vec<u8>> {
    let numbers = [limit, WINDOW_MS].map(|number| number.to_string().into_bytes());
    let [limit, window] = numbers;
    let at = at_ms.to_string().into_bytes();
    vec![b"RL.SLIDING".to_vec(), name.to_vec(), limit, window, b"AT".to_vec(), at]
}

/// The words with the key's number put in, as redis-benchmark writes it.
fn numbered(words: &[String], key: u64) -> Vec<Vec<u8>> {
    let number = format!("{key:012}");
    words.iter().map(|word| word.replace(RANDOM, &number).into_bytes()).collect()
}

/// Makes all calls and reads no answers, which would take most of the time; none may fail.
pub fn send_all(client: &mut Client, calls: impl Iterator<Item = Vec<Vec<u8>>>) {
    let before = error_replies(client);
    client.send(&["CLIENT", "REPLY", "OFF"]);
    let mut packed = Vec::new();
    for call in calls {
        pack(&mut packed, &call);
        if packed.len() > BATCH {
            client.send_bytes(&packed).expect("the server takes what is sent");
            packed.clear();
        }
    }
    client.send_bytes(&packed).expect("the server takes what is sent");
    client.ok("CLIENT REPLY ON");
    assert_eq!(error_replies(client), before, "filling keys");
}

/// How many errors the server has answered.
fn error_replies(client: &mut Client) -> u64 {
    let info = client.info("stats");
    let count = field(&info, "total_error_replies").and_then(|count| count.parse().ok());
    count.expect("INFO tells the errors")
}

fn sorted_set(client: &mut Client, name: &[u8], hits: u64, start_us: u64) {
    let mut added = 0;
    while added < hits {
        let members = (hits - added).min(MEMBERS);
        let start = (start_us + added * 1000).to_string();
        let members_word = members.to_string();
        let call: [&[u8]; 6] =
            [b"EVAL", ADD.as_bytes(), b"1", name, start.as_bytes(), members_word.as_bytes()];
        assert_eq!(error_text(&client.call(&call)), None, "filling a sorted set");
        added += members;
    }
}

/// The server's clock in ms.
pub fn now_ms(client: &mut Client) -> u64 {
    u64::try_from(client.time_us() / 1000).expect("a clock after 1970")
}

/// Hands a script to the server and returns its name there.
///
/// # Errors
/// What the server says of a script that it cannot read.
pub fn load_script(client: &mut Client, script: &str) -> Result<String, String> {
    let answer = client.call(&["SCRIPT", "LOAD", script]);
    error_text(&answer).map_or_else(|| Ok(text(&answer)), Err)
}
