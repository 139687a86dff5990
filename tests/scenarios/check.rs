//! Compares the answers of one step with what the step expects.

use redis::Value;
use serde_json::Value as Json;

use super::support::{bytes, error_text, ints};

/// How much lower than stated a number may be.
#[derive(Clone, Copy)]
pub struct Slack {
    /// For PTTL, which falls inside of a transaction on Redis 7.0.
    pub pttl_ms: i64,
}

/// The elements of a limiter's reply, by the names that a scenario gives them.
const ELEMENTS: [&str; 6] =
    ["allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms"];

/// Checks all answers of a step; an error says which one is wrong and how.
pub fn step(step: &Json, answers: &[Value], slack: Slack) -> Result<(), String> {
    let call: Vec<&str> =
        step["call"].as_array().expect("a call").iter().filter_map(Json::as_str).collect();
    let slack_ms = if call[0] == "PTTL" { slack.pttl_ms } else { 0 };
    let mut checked = false;
    if let Some(expected) = step.get("expect") {
        for (repetition, answer) in answers.iter().enumerate() {
            one(expected, answer, slack_ms)
                .map_err(|wrong| format!("repetition {repetition}: {wrong}, got {answer:?}"))?;
        }
        checked = true;
    }
    for answer in answers {
        length(call[0], answer)?;
    }
    if let Some(expected) = step.get("sequence") {
        let expected = expected.as_str().expect("a string of A and D");
        let got: String = answers.iter().map(letter).collect();
        same("sequence", &expected, &got.as_str())?;
        checked = true;
    }
    for (name, element) in [("remaining_sequence", 2), ("retry_sequence", 3)] {
        if let Some(expected) = step.get(name) {
            let expected: Vec<i64> = numbers(expected);
            let got: Vec<i64> = answers.iter().map(|answer| nth(answer, element)).collect();
            same(name, &expected, &got)?;
            checked = true;
        }
    }
    if let Some(expected) = step.get("count_allowed") {
        let got = answers.iter().filter(|answer| nth(answer, 0) == 1).count();
        within("count_allowed", expected, i64::try_from(got).expect("a count"), 0)?;
        checked = true;
    }
    if checked { Ok(()) } else { Err("the step expects nothing".to_owned()) }
}

/// One answer against `expect`.
fn one(expected: &Json, answer: &Value, slack_ms: i64) -> Result<(), String> {
    let fields = expected.as_object().expect("expect holds fields");
    if fields.is_empty() {
        return Err("expect is empty".to_owned());
    }
    for (name, expected) in fields {
        match name.as_str() {
            "error" => error(expected.as_str().expect("a prefix"), answer)?,
            "reply" if !equal(expected, answer) => {
                return Err(format!("reply {expected} expected"));
            }
            "reply" => {}
            "int" => match answer {
                Value::Int(number) => within("int", expected, *number, slack_ms)?,
                _ => return Err(format!("an integer {expected} expected")),
            },
            name => {
                let element = ELEMENTS.iter().position(|element| *element == name);
                let element = element.unwrap_or_else(|| panic!("what is {name}?"));
                let got = elements(answer).and_then(|elements| elements.get(element).copied());
                let got = got.ok_or_else(|| format!("{name} {expected} expected"))?;
                within(name, expected, got, 0)?;
            }
        }
    }
    Ok(())
}

fn error(prefix: &str, answer: &Value) -> Result<(), String> {
    match error_text(answer) {
        Some(text) if text.starts_with(prefix) => Ok(()),
        _ => Err(format!("an error that begins with {prefix:?} expected")),
    }
}

/// A number, or `[low, high]`, both included.
fn within(name: &str, expected: &Json, got: i64, slack_ms: i64) -> Result<(), String> {
    let (low, high) = match (expected.as_i64(), numbers_or_none(expected).as_deref()) {
        (Some(number), _) => (number, number),
        (None, Some(&[low, high])) => (low, high),
        _ => panic!("{name}: what is {expected}?"),
    };
    if (low - slack_ms..=high).contains(&got) {
        Ok(())
    } else {
        Err(format!("{name} {expected} expected, not {got}"))
    }
}

fn same<T: PartialEq + std::fmt::Debug>(name: &str, expected: &T, got: &T) -> Result<(), String> {
    if expected == got {
        Ok(())
    } else {
        Err(format!("{name}\n    expected {expected:?}\n    got      {got:?}"))
    }
}

/// Whether an answer is exactly what a scenario writes down. A set of strings counts as an array.
fn equal(expected: &Json, answer: &Value) -> bool {
    match (expected, answer) {
        (Json::Null, Value::Nil) => true,
        (Json::Number(number), Value::Int(got)) => number.as_i64() == Some(*got),
        (Json::String(text), Value::BulkString(_) | Value::SimpleString(_) | Value::Okay) => {
            text.as_bytes() == bytes(answer)
        }
        (Json::Array(expected), Value::Array(got)) => {
            expected.len() == got.len() && expected.iter().zip(got).all(|(e, g)| equal(e, g))
        }
        _ => false,
    }
}

/// A limiter's reply has five elements, that of the leaky bucket six, all of them integers,
/// whatever the answer.
fn length(command: &str, answer: &Value) -> Result<(), String> {
    let length = match command {
        "RL.TOKENBUCKET" | "RL.SLIDING" => 5,
        "RL.LEAKY" => 6,
        _ => return Ok(()),
    };
    match (answer, ints(answer)) {
        (Value::ServerError(_), _) => Ok(()),
        (_, Some(elements)) if elements.len() == length => Ok(()),
        _ => Err(format!("{length} integers expected, got {answer:?}")),
    }
}

/// The integers at the front of an array: RL.ALL's reply has the replies of its rules behind them.
fn elements(answer: &Value) -> Option<Vec<i64>> {
    let Value::Array(items) = answer else { return None };
    let front = items.iter().map_while(|item| match item {
        Value::Int(number) => Some(*number),
        _ => None,
    });
    Some(front.collect())
}

/// `i64::MIN`, which no reply holds, where there is no such element.
fn nth(answer: &Value, element: usize) -> i64 {
    elements(answer).and_then(|all| all.get(element).copied()).unwrap_or(i64::MIN)
}

fn letter(answer: &Value) -> char {
    match nth(answer, 0) {
        1 => 'A',
        0 => 'D',
        _ => '?',
    }
}

fn numbers(list: &Json) -> Vec<i64> {
    numbers_or_none(list).unwrap_or_else(|| panic!("{list} is no list of numbers"))
}

fn numbers_or_none(list: &Json) -> Option<Vec<i64>> {
    list.as_array()?.iter().map(Json::as_i64).collect()
}
