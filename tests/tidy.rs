//! The habits of this project that a reader would otherwise have to check.
//!
//! - functions of at most 70 lines and lines of at most 100 columns;
//! - `unsafe` only in `src/module`, each block and impl under a comment that says why it is sound;
//! - nothing left undone, no test switched off;
//! - no path of somebody's own machine;
//! - a test or an answer for each report.

use std::fs;
use std::path::{Path, PathBuf};

/// Longest function, from the line of its name to its closing brace.
const LINES: usize = 70;
/// Longest line, in characters.
const COLUMNS: usize = 100;

/// A file of the project: its path from the root, and its text.
struct File {
    path: String,
    text: String,
}

/// All files, but what is built and what git keeps.
fn files() -> Vec<File> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(&root, &root, &mut files);
    assert!(files.iter().any(|file| file.path == "tests/tidy.rs"), "the project was not found");
    files
}

fn collect(root: &Path, directory: &Path, files: &mut Vec<File>) {
    let entries = fs::read_dir(directory).expect("a directory can be read");
    for path in entries.map(|entry| entry.expect("an entry can be read").path()) {
        if path.is_symlink() || path.ends_with(".git") || path.ends_with("target") {
            continue;
        }
        let from_root = path.strip_prefix(root).expect("below the root");
        let from_root = from_root.to_string_lossy().into_owned();
        if path.is_dir() {
            collect(root, &path, files);
        } else if let Ok(bytes) = fs::read(&path) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            files.push(File { path: from_root, text });
        }
    }
}

/// The Rust files below the directories that are written by hand.
fn sources() -> impl Iterator<Item = File> {
    let by_hand = |file: &File| {
        let directories = ["src/", "tests/", "benches/"];
        file.path.ends_with(".rs") && directories.iter().any(|dir| file.path.starts_with(dir))
    };
    files().into_iter().filter(by_hand)
}

/// Fails with all findings, one a line.
fn assert_none(what: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{what}:\n{}", findings.join("\n"));
}

/// A line without its comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether a line of code begins a function.
fn begins_function(line: &str) -> bool {
    let mut words = code(line).split_whitespace().skip_while(|word| {
        let modifiers = ["pub", "const", "async", "unsafe", "extern", "\"C\""];
        modifiers.contains(word) || word.starts_with("pub(")
    });
    words.next() == Some("fn")
}

/// The line that ends the function which begins at `start`: formatted code closes it where it
/// began. None for one without a body.
fn end_of_function(lines: &[&str], start: usize) -> Option<usize> {
    let begins_at = indent(lines[start]);
    for (index, line) in lines.iter().enumerate().skip(start) {
        if indent(line) != begins_at || line.trim().is_empty() {
            continue;
        }
        let ends = line.trim_end();
        if ends.ends_with(';') {
            return None;
        }
        if ends.ends_with('}') {
            return Some(index);
        }
    }
    None
}

#[test]
fn functions_fit_a_screen() {
    let mut findings = Vec::new();
    let mut functions = 0;
    for File { path, text } in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (start, line) in lines.iter().enumerate().filter(|(_, line)| begins_function(line)) {
            let Some(end) = end_of_function(&lines, start) else { continue };
            functions += 1;
            let len = end - start + 1;
            if len > LINES {
                findings.push(format!("{path}:{}: {len} lines: {}", start + 1, line.trim()));
            }
        }
    }
    assert!(functions > 100, "only {functions} functions were found");
    assert_none(&format!("functions of more than {LINES} lines"), &findings);
}

#[test]
fn lines_fit_a_screen() {
    let mut findings = Vec::new();
    for File { path, text } in sources() {
        for (index, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            // A table of a comment cannot be wrapped.
            let table = line.trim_start().starts_with("//! |");
            if columns > COLUMNS && !table {
                findings.push(format!("{path}:{}: {columns} columns", index + 1));
            }
        }
    }
    assert_none(&format!("lines of more than {COLUMNS} columns"), &findings);
}

/// Whether a word stands in a line of code, outside of comments.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_name = |byte: char| byte.is_alphanumeric() || byte == '_';
    code(line).split(|byte| !part_of_name(byte)).any(|found| found == word)
}

/// Whether the statement at `index` stands under a comment that says why it is sound.
fn is_justified(lines: &[&str], index: usize) -> bool {
    let above = lines[..index].iter().rev().map(|line| line.trim());
    let mut in_comment = false;
    for line in above {
        if line.starts_with("//") {
            in_comment = true;
            if line.starts_with("// SAFETY:") {
                return true;
            }
        } else if in_comment || line.is_empty() || line.ends_with([';', '{', '}']) {
            return false;
        }
    }
    false
}

#[test]
fn unsafe_is_where_the_server_is_and_says_why() {
    let mut findings = Vec::new();
    for File { path, text } in sources().filter(|file| file.path.starts_with("src/")) {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| has_word(line, "unsafe")) {
            let at = format!("{path}:{}: {}", index + 1, line.trim());
            if !path.starts_with("src/module/") {
                findings.push(format!("{at}: only src/module knows the server"));
            }
            // A function hands the duty to its caller; a type of one only names it.
            let opens = code(line).contains("unsafe {") || code(line).contains("unsafe impl");
            if opens && !is_justified(&lines, index) {
                findings.push(format!("{at}: no SAFETY comment"));
            }
        }
    }
    assert_none("unsafe code", &findings);
}

#[test]
fn nothing_is_left_undone() {
    // Put together here, so that this file does not find itself.
    let words = [("todo", "!("), ("unimplemented", "!("), ("dbg", "!("), ("#[", "ignore")];
    let mut findings = Vec::new();
    for File { path, text } in sources() {
        for (index, line) in text.lines().enumerate() {
            for (head, tail) in words {
                if line.contains(&format!("{head}{tail}")) {
                    findings.push(format!("{path}:{}: {}", index + 1, line.trim()));
                }
            }
        }
    }
    assert_none("left-overs", &findings);
}

#[test]
fn no_path_of_one_machine_is_mentioned() {
    // Put together here, so that this file does not find itself.
    let paths = [("../", "shared"), ("/", "work/")];
    let mut findings = Vec::new();
    for File { path, text } in files() {
        for (index, line) in text.lines().enumerate() {
            for (head, tail) in paths {
                if line.contains(&format!("{head}{tail}")) {
                    findings.push(format!("{path}:{}: {head}{tail}", index + 1));
                }
            }
        }
    }
    assert_none("paths outside of the project", &findings);
}

/// Each report that is no vector is named where it is tested or answered.
#[test]
fn every_report_is_tested_or_answered() {
    let list = "tests/scenarios/not-vectors.md";
    let files = files();
    let is_list = |file: &&File| file.path == list;
    let text = &files.iter().find(is_list).expect("the list of reports").text;
    let words = text.split(|c: char| c.is_whitespace() || ",:".contains(c));
    let reports: Vec<&str> = words.filter(|word| word.starts_with("BR-")).collect();
    assert!(reports.len() > 100, "only {} reports were found", reports.len());
    let places: Vec<&File> = files
        .iter()
        .filter(|file| file.path != list)
        .filter(|file| ["tests/", "docs/"].iter().any(|dir| file.path.starts_with(dir)))
        .collect();
    let answered = |report: &&str| places.iter().any(|file| file.text.contains(*report));
    let open: Vec<String> =
        reports.into_iter().filter(|report| !answered(report)).map(str::to_owned).collect();
    assert_none("reports without a test or an answer", &open);
}
