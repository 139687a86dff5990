//! What a server answered, taken apart.

use std::fmt;

use redis::Value;

/// A limiter's answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// 1 allowed, 0 denied, 2 let through by SHADOW.
    pub allowed: i64,
    /// The capacity or limit of the call.
    pub limit: i64,
    /// How many more calls of cost 1 pass.
    pub remaining: i64,
    /// ms until the same call is allowed, -1 for never.
    pub retry_after_ms: i64,
    /// ms until the key is as if never used.
    pub reset_after_ms: i64,
    /// Leaky bucket only: ms to hold the request.
    pub delay_ms: Option<i64>,
}

impl Reply {
    /// The answer's elements; none for anything but an array of five or six integers.
    pub fn new(value: &Value) -> Option<Reply> {
        let numbers = ints(value)?;
        let (&[allowed, limit, remaining, retry_after_ms, reset_after_ms], rest) =
            numbers.split_first_chunk()?;
        if rest.len() > 1 {
            return None;
        }
        let delay_ms = rest.first().copied();
        Some(Reply { allowed, limit, remaining, retry_after_ms, reset_after_ms, delay_ms })
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reply { allowed, limit, remaining, retry_after_ms, reset_after_ms, delay_ms } = self;
        write!(f, "[{allowed} limit {limit} remaining {remaining} ")?;
        write!(f, "retry {retry_after_ms} reset {reset_after_ms}")?;
        if let Some(delay_ms) = delay_ms {
            write!(f, " delay {delay_ms}")?;
        }
        f.write_str("]")
    }
}

/// The answer of RL.ALL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Several {
    /// 1 allowed and taken by all, 0 denied, 2 let through by SHADOW.
    pub allowed: i64,
    /// The first rule that does not allow, -1 if all do.
    pub over: i64,
    /// The longest wait of all rules in ms, -1 if one of them is never.
    pub retry_after_ms: i64,
    /// The answer of each rule.
    pub rules: Vec<Reply>,
}

impl Several {
    /// The answer's elements; none for anything but three integers and the answers of rules.
    pub fn new(value: &Value) -> Option<Several> {
        let Value::Array(items) = value else { return None };
        let [Value::Int(allowed), Value::Int(over), Value::Int(retry_after_ms), rules @ ..] =
            &items[..]
        else {
            return None;
        };
        let (allowed, over, retry_after_ms) = (*allowed, *over, *retry_after_ms);
        let rules = rules.iter().map(Reply::new).collect::<Option<Vec<_>>>()?;
        Some(Several { allowed, over, retry_after_ms, rules })
    }
}

/// The whole line of an error, or none if the value is none.
pub fn error_text(value: &Value) -> Option<String> {
    match value {
        Value::ServerError(error) => Some(match error.details() {
            Some(details) => format!("{} {details}", error.code()),
            None => error.code().to_owned(),
        }),
        _ => None,
    }
}

/// The integers of an array; none for anything else.
pub fn ints(value: &Value) -> Option<Vec<i64>> {
    let Value::Array(items) = value else { return None };
    items
        .iter()
        .map(|item| if let Value::Int(number) = item { Some(*number) } else { None })
        .collect()
}

/// An integer.
pub fn int(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        _ => panic!("{value:?} is no integer"),
    }
}

/// An array's items.
pub fn list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) | Value::Set(items) => items.clone(),
        _ => panic!("{value:?} is no array"),
    }
}

/// A string's bytes.
pub fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::BulkString(bytes) => bytes.clone(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone().into_bytes(),
        Value::Okay => b"OK".to_vec(),
        _ => panic!("{value:?} is no string"),
    }
}

/// A string's text.
pub fn text(value: &Value) -> String {
    String::from_utf8(bytes(value)).expect("a text")
}

/// The value of `name` in the text of INFO, up to the end of its line.
pub fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}
