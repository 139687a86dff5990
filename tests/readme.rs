//! The documentation is true: what its pages print is what a server answers.
//!
//! Each page gets a fresh server. The commands in its `console` blocks go out once, in order, and
//! each answer is compared with the lines printed below its command. `$ redis-cli ...` prints as
//! redis-cli does on a terminal, and behind `| xargs` in one line; `> ...` prints a reply of
//! integers in one line, arrays of integers within it in brackets, and everything else as redis-cli
//! does.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use redis::Value;
use redis_rl::args::rules::RuleError;
use redis_rl::error::{Error, Shown};
use support::{Client, Server, error_text, list, text};

const README: &str = "README.md";
const REFERENCE: &str = "docs/commands.md";
const GUIDE: &str = "docs/GUIDE.md";
const MIGRATING: &str = "docs/MIGRATING.md";

/// One command of a page and the answer printed below it.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    line: usize,
    words: Vec<String>,
    form: Form,
    printed: String,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As redis-cli does on a terminal.
    Terminal,
    /// The numbers of the reply in one line.
    Line,
    /// The numbers in one line if there are only numbers, else as on a terminal.
    Page,
}

#[test]
fn the_readme_prints_what_a_server_answers() {
    check(README, 11);
}

#[test]
fn the_reference_prints_what_a_server_answers() {
    check(REFERENCE, 50);
}

#[test]
fn the_guide_prints_what_a_server_answers() {
    check(GUIDE, 20);
}

#[test]
fn the_page_for_who_comes_from_elsewhere_prints_what_a_server_answers() {
    check(MIGRATING, 12);
}

/// What an operator runs before the module goes deletes every limit, whatever its name, and nothing
/// else.
#[test]
fn the_way_back_deletes_all_limits() {
    let page = page("docs/OPERATIONS.md");
    let part = page.split("\n## ").find(|part| part.starts_with("Upgrade and downgrade"));
    let script = part.expect("the part").split("```sh\n").nth(1).expect("a block of shell");
    let script = script.split("```").next().expect("its end");
    let server = Server::start();
    let here = format!("redis-cli -p {} ", server.port());
    let mut client = server.client();
    for number in 0..3000 {
        client.ok(&format!("RL.TOKENBUCKET t:{number} 5 1 PER 3600000"));
    }
    client.call(&[b"RL.LEAKY".as_slice(), b"with a blank\n\xff", b"5", b"0.001"]);
    client.ok("RL.SLIDING s 5 3600000");
    client.ok("SET text 1");
    let run = Command::new("sh").args(["-ec", &script.replace("redis-cli ", &here)]).output();
    let run = run.expect("a shell");
    let printed = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(printed.split_whitespace().collect::<Vec<_>>(), ["3000", "1", "1"], "{run:?}");
    assert_eq!(list(&client.ok("KEYS *")).iter().map(text).collect::<Vec<_>>(), ["text"]);
}

#[test]
fn the_reference_has_every_command_option_and_error() {
    let reference = page(REFERENCE);
    let server = Server::start();
    let mut client = server.client();
    let commands = list(&client.run("COMMAND LIST FILTERBY MODULE rl"));
    assert!(commands.len() >= 7, "{commands:?}");
    for command in commands.iter().map(text).filter(|command| command != "rl.effect") {
        let heading = format!("## {}\n", command.to_uppercase());
        assert!(reference.contains(&heading), "{REFERENCE} describes {command}");
    }
    let options = list(&client.run("CONFIG GET rl.*"));
    assert!(!options.is_empty());
    for option in options.iter().step_by(2).map(text) {
        for name in [README, REFERENCE] {
            let row = format!("| `{option}` |");
            assert!(page(name).contains(&row), "{name} has a row for {option}");
        }
    }
    for error in ERRORS {
        assert!(reference.contains(&format!("| `{error}` |")), "{REFERENCE} has a row for {error}");
    }
}

/// Every error, with the words that the reference takes for an example.
const ERRORS: &[Error] = &[
    Error::Capacity,
    Error::Rate,
    Error::Limit,
    Error::Window,
    Error::Period,
    Error::Cost,
    Error::Reserve,
    Error::MaxDelay,
    Error::Wait,
    Error::Resolution,
    Error::At,
    Error::Refund,
    Error::Count,
    Error::LogCount,
    Error::Arity("rl.log"),
    Error::MaxBurst,
    Error::ThrottleCount,
    Error::ThrottlePeriod,
    Error::Quantity,
    Error::Arity("rl.throttle"),
    Error::NumKeys,
    Error::TooFewKeys,
    Error::SameKey,
    Error::NoValue("COST"),
    Error::Twice("COST"),
    Error::ForceExcludes,
    Error::WaitExcludes,
    Error::ClientTime,
    Error::TooSlow,
    Error::TooManyUnits,
    Error::WrongType,
    Error::OutOfMemory,
    Error::Payload,
    Error::Internal,
    Error::Bug,
];

#[test]
fn the_reference_shows_an_unknown_option() {
    let options = "PER, COST, PEEK, FORCE, RESERVE, SHADOW, AT";
    let error = Error::UnknownOption { word: Shown::new(b"BURST"), options };
    for name in [README, REFERENCE] {
        assert!(page(name).contains(&error.to_string()), "{name}: {error}");
    }
    let error = Error::Subcommand(Shown::new(b"HELP"));
    assert!(page(REFERENCE).contains(&error.to_string()), "{REFERENCE}: {error}");
}

/// An error of a rule, with its place in front.
#[test]
fn the_reference_shows_the_errors_of_rules() {
    let unknown = Error::UnknownRule(Shown::new(b"FORCE"));
    for error in [Error::NoRule, unknown] {
        let text = RuleError::of(1)(error).to_string();
        assert!(page(REFERENCE).contains(&format!("| `{text}` |")), "{REFERENCE}: {text}");
    }
}

#[test]
fn examples_are_found_and_a_wrong_one_is_noticed() {
    let page = "text\n```console\n$ redis-cli A \"b c\" | xargs\n1 2\n> B\n1) x\n2) y\n```\n> C\n";
    let example = |line, words: &[&str], form, printed: &str| Example {
        line,
        words: words.iter().map(|&word| word.to_owned()).collect(),
        form,
        printed: printed.to_owned(),
    };
    let expected = [
        example(3, &["A", "b c"], Form::Line, "1 2"),
        example(5, &["B"], Form::Page, "1) x\n2) y"),
    ];
    assert_eq!(examples(page), expected);

    let server = Server::start();
    let bent = "```console\n$ redis-cli RL.TOKENBUCKET k 50 10 | xargs\n1 50 49 0 101\n```\n";
    let wrong = differences(&examples(bent), &mut server.client());
    assert_eq!(wrong.len(), 1, "{wrong:?}");
}

/// Runs the examples of a page, at least so many, on a server of its own.
fn check(name: &str, at_least: usize) {
    let examples = examples(&page(name));
    assert!(examples.len() >= at_least, "{name} has {} examples", examples.len());
    let server = Server::start();
    let wrong = differences(&examples, &mut server.client());
    assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
}

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn examples(page: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut inside = false;
    for (line, shown) in (1..).zip(page.lines()) {
        if shown.starts_with("```") {
            inside = shown == "```console";
        } else if let Some((words, form)) = command(shown).filter(|_| inside) {
            found.push(Example { line, words, form, printed: String::new() });
        } else if inside {
            let last = found.last_mut().unwrap_or_else(|| panic!("line {line}: no command yet"));
            if !last.printed.is_empty() {
                last.printed.push('\n');
            }
            last.printed.push_str(shown);
        }
    }
    found
}

/// The command that a line shows, and how its answer is printed.
fn command(line: &str) -> Option<(Vec<String>, Form)> {
    if let Some(command) = line.strip_prefix("> ") {
        return Some((words(command), Form::Page));
    }
    let command = line.strip_prefix("$ redis-cli ")?;
    Some(match command.strip_suffix(" | xargs") {
        Some(command) => (words(command), Form::Line),
        None => (words(command), Form::Terminal),
    })
}

/// Words between blanks, or between double quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('"').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

fn differences(examples: &[Example], client: &mut Client) -> Vec<String> {
    let mut wrong = Vec::new();
    for Example { line, words, form, printed } in examples {
        let answered = shown(&client.call(words), *form);
        if answered != *printed {
            let command = words.join(" ");
            wrong.push(format!("line {line}: {command}\nprinted:\n{printed}\ngot:\n{answered}"));
        }
    }
    wrong
}

fn shown(value: &Value, form: Form) -> String {
    let in_brackets = form == Form::Page;
    let Value::Array(items) = value else { return terminal(value) };
    match in_one_line(items, in_brackets) {
        Some(line) if form != Form::Terminal => line,
        _ => terminal(value),
    }
}

/// Integers, and arrays of them, in one line; none for anything else.
fn in_one_line(items: &[Value], in_brackets: bool) -> Option<String> {
    let shown = items.iter().map(|item| match item {
        Value::Int(number) => Some(number.to_string()),
        Value::Array(items) if in_brackets => Some(format!("[{}]", in_one_line(items, true)?)),
        Value::Array(items) => in_one_line(items, false),
        _ => None,
    });
    Some(shown.collect::<Option<Vec<_>>>()?.join(" "))
}

/// A value as redis-cli prints it on a terminal.
fn terminal(value: &Value) -> String {
    match value {
        Value::Nil => "(nil)".to_owned(),
        Value::Int(number) => format!("(integer) {number}"),
        Value::BulkString(_) => format!("\"{}\"", text(value)),
        Value::ServerError(_) => format!("(error) {}", error_text(value).unwrap_or_default()),
        Value::Array(items) => {
            let width = items.len().to_string().len();
            let behind = format!("\n{}", " ".repeat(width + 2));
            let item = |(n, item)| format!("{n:width$}) {}", terminal(item).replace('\n', &behind));
            (1..).zip(items).map(item).collect::<Vec<_>>().join("\n")
        }
        _ => text(value),
    }
}
