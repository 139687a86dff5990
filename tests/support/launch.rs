//! How a server is started: its files, its command line, its port.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use std::net::TcpListener;

use super::memcheck::MEMCHECK;

/// What a server's configuration file holds besides the harness's own lines.
#[derive(Clone, Default)]
pub struct Config {
    lines: Vec<String>,
    module_args: String,
    server: Option<String>,
}

impl Config {
    /// Nothing besides.
    pub fn new() -> Config {
        Config::default()
    }

    /// Adds a line to the configuration file, behind those of the harness.
    pub fn line(mut self, line: &str) -> Config {
        self.lines.push(line.to_owned());
        self
    }

    /// Hands `args` to the module when it is loaded.
    pub fn module_args(mut self, args: &str) -> Config {
        args.clone_into(&mut self.module_args);
        self
    }

    /// Starts another server than the one under test: `command` as `RL_SERVER` has it.
    pub fn server(mut self, command: &str) -> Config {
        self.server = Some(command.to_owned());
        self
    }

    /// Callers may bring their own clock.
    pub fn client_time(self) -> Config {
        self.module_args("rl.client-time yes")
    }

    /// The command DEBUG answers.
    pub fn debug(self) -> Config {
        self.line("enable-debug-command yes")
    }

    /// Every write is in the append-only file before it is answered.
    pub fn append_only(self) -> Config {
        self.line("appendonly yes").line("appendfsync always")
    }

    /// The text of the configuration file. No snapshot is taken and nothing is sent to a replica
    /// that a test did not ask for.
    pub(super) fn text(&self, dir: &Path) -> String {
        let mut text = format!(
            "bind 127.0.0.1\nsave \"\"\nrepl-diskless-sync yes\nrepl-diskless-sync-delay 0\n\
             repl-ping-replica-period 3600\ndir \"{}\"\nloadmodule \"{}\" {}\n",
            dir.display(),
            module().display(),
            self.module_args
        );
        if MEMCHECK {
            // It ends without waiting for a replica that may be gone.
            text.push_str("shutdown-timeout 0\n");
        }
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

/// The module under test, as a whole path: the server runs in another directory.
pub(super) fn module() -> PathBuf {
    let path = env::var_os("RL_MODULE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/release/libredis_rl.so"),
        PathBuf::from,
    );
    fs::canonicalize(&path).unwrap_or_else(|error| {
        panic!(
            "the module {} cannot be found ({error}): run `make build` first, or name it in the \
             environment variable RL_MODULE",
            path.display()
        )
    })
}

/// The words of the command that starts a server with `config`.
pub(super) fn server_command(config: &Config) -> Vec<String> {
    let under_test = || env::var("RL_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
    let command = config.server.clone().unwrap_or_else(under_test);
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    assert!(!words.is_empty(), "RL_SERVER names no command");
    words
}

/// The file that a server in `dir` prints to, through all its starts.
pub(super) fn log_path(dir: &Path) -> PathBuf {
    dir.join("server.log")
}

/// Starts a server by `words` on `port` with the configuration file in `dir`, printing to its log.
///
/// The server ends with the thread that started it, so that a test which is killed leaves none
/// behind: a [`super::Server`] must not outlive the thread that made it.
pub(super) fn spawn(words: &[String], dir: &Path, port: u16) -> Child {
    let log = open_log(dir);
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .arg(dir.join("server.conf"))
        .args(["--port", &port.to_string()])
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("the log can be opened twice"))
        .stderr(log);
    // SAFETY: the closure runs between fork and exec and makes one system call, which is allowed
    // there; it touches no memory of this process.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    command.spawn().unwrap_or_else(|error| panic!("cannot start {}: {error}", words.join(" ")))
}

fn open_log(dir: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(log_path(dir)).expect("the log can be opened")
}

/// A port that is free now. Ports below the ephemeral range, so that no outgoing connection takes
/// them; somebody else still may, so whoever binds one must be ready to ask again.
pub(super) fn free_port() -> u16 {
    const FIRST: u16 = 11_000;
    const COUNT: u16 = 11_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = start_of_search();
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (start + step) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// Where this process begins to look: elsewhere than others that run at the same time.
fn start_of_search() -> u16 {
    use std::sync::OnceLock;
    static START: OnceLock<u16> = OnceLock::new();
    *START.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.subsec_nanos());
        u16::try_from((now / 1000 + std::process::id() * 97) % 10_000).unwrap_or(0)
    })
}
