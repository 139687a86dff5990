//! A server under callgrind, and what the module did meanwhile.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::support::{Client, Config, Server, field, until};

/// The functions of the server's API that take memory.
const ALLOCATING: [&str; 4] = ["RM_Alloc", "RM_Calloc", "RM_Realloc", "RM_Strdup"];

/// What the module did.
pub struct Profile {
    /// Instructions of its own.
    pub instructions: u64,
    /// Calls that take memory.
    pub allocations: u64,
}

/// A server under callgrind.
pub struct Profiler {
    server: Server,
    dir: TempDir,
    process: i64,
}

impl Profiler {
    pub fn start() -> Profiler {
        let dir = TempDir::with_prefix("rl-callgrind-").expect("a temporary directory");
        let out = dir.path().join("profile");
        let command = format!(
            "valgrind --tool=callgrind --instr-atstart=no --dump-line=no \
             --callgrind-out-file={} redis-server",
            out.display()
        );
        let server = Server::with(&Config::new().client_time().server(&command));
        let info = server.client().info("server");
        let process = field(&info, "process_id").expect("it is told");
        let process = process.parse().expect("a number");
        // Calls cost more while the module does not know yet that nobody listens.
        let mut client = server.client();
        until("no effects are made", || client.info("rl_replication").contains("effects_made:0"));
        Profiler { server, dir, process }
    }

    pub fn client(&self) -> Client {
        self.server.client()
    }

    /// Counts while `work` is done.
    pub fn count(&self, work: impl FnOnce()) -> Profile {
        self.control(&["--zero"]);
        self.control(&["--instr=on"]);
        work();
        self.control(&["--instr=off"]);
        let before = self.dumps().len();
        self.control(&["--dump"]);
        let dumps = self.dumps();
        assert!(dumps.len() > before, "callgrind_control --dump wrote a file");
        let newest = dumps.iter().max_by_key(|path| dump_number(path)).expect("a file");
        read(&fs::read_to_string(newest).expect("a profile"))
    }

    fn control(&self, arguments: &[&str]) {
        let process = self.process.to_string();
        let output = Command::new("callgrind_control")
            .args(arguments)
            .arg(&process)
            .output()
            .expect("callgrind_control, of the package valgrind");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn dumps(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.path()).expect("our directory");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

/// `profile.3` is the third.
fn dump_number(path: &Path) -> u64 {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Reads a profile: lines `ob=(id) file` and `fn=(id) name` say whose the costs on the lines below
/// are, a name standing only where its id comes first; `cob=` and `cfn=` name who is called, then
/// `calls=count` and a line with the cost of the called, which is theirs.
fn read(text: &str) -> Profile {
    let (mut objects, mut functions) = (HashMap::new(), HashMap::new());
    let mut profile = Profile { instructions: 0, allocations: 0 };
    let mut ours = false;
    let mut called = String::new();
    let mut cost_of_called = false;
    for line in text.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            ours = name_of(&mut objects, object).contains("libredis_rl");
        } else if let Some(object) = line.strip_prefix("cob=") {
            name_of(&mut objects, object);
        } else if let Some(function) = line.strip_prefix("fn=") {
            name_of(&mut functions, function);
        } else if let Some(function) = line.strip_prefix("cfn=") {
            called = name_of(&mut functions, function);
        } else if let Some(calls) = line.strip_prefix("calls=") {
            let count = calls.split(' ').next().and_then(|count| count.parse::<u64>().ok());
            if ours && ALLOCATING.contains(&called.as_str()) {
                profile.allocations += count.expect("a count");
            }
            cost_of_called = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok());
            if ours && !cost_of_called {
                profile.instructions += cost.expect("a cost");
            }
            cost_of_called = false;
        }
    }
    assert!(profile.instructions > 0, "the module did something");
    profile
}

/// `(id) name`, or `(id)` of a name that was there before.
fn name_of(names: &mut HashMap<String, String>, word: &str) -> String {
    let (id, name) = word.split_once(' ').unwrap_or((word, ""));
    if !name.is_empty() {
        names.insert(id.to_owned(), name.to_owned());
    }
    names.get(id).cloned().unwrap_or_default()
}
