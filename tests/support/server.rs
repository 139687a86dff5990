//! A running server, in a directory of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use tempfile::TempDir;

use super::launch::{self, Config};
use super::memcheck::{MEMCHECK, empty, note_if_empty};
use super::{Client, DEADLINE, Version, list, text, until};

/// Starts that may fail because somebody took the port first.
const PORT_TRIES: usize = 10;
/// Lines of the server's log that a failing test prints.
const LOG_TAIL: usize = 60;

/// A server with the module, which dies with this value. Its files outlive a stop and a kill.
pub struct Server {
    command: Vec<String>,
    dir: TempDir,
    child: Option<Child>,
    port: u16,
}

impl Server {
    /// A server as it comes.
    pub fn start() -> Server {
        Server::with(&Config::new())
    }

    /// A server with a configuration of its own.
    pub fn with(config: &Config) -> Server {
        match Server::try_with(config) {
            Ok(server) => server,
            Err(log) => panic!("the server did not start; it said:\n{log}"),
        }
    }

    /// A server, or what it printed before it gave up.
    pub fn try_with(config: &Config) -> Result<Server, String> {
        let dir = TempDir::with_prefix("rl-").expect("a temporary directory");
        fs::write(dir.path().join("server.conf"), config.text(dir.path())).expect("a file");
        let command = launch::server_command(config);
        let mut server = Server { command, dir, child: None, port: launch::free_port() };
        for _ in 0..PORT_TRIES {
            match server.launch() {
                Ok(()) => return Ok(server),
                Err(log) if log.contains("Address already in use") => {
                    server.port = launch::free_port();
                }
                Err(log) => return Err(log),
            }
        }
        panic!("every port that was free a moment before was taken");
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory that holds its files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.dir().join("server.conf")
    }

    /// All that it has printed since its first start.
    pub fn log(&self) -> String {
        read_log(self.dir())
    }

    /// A new connection, RESP2.
    pub fn client(&self) -> Client {
        Client::connect(self.port).expect("the server accepts a connection")
    }

    /// A new connection, RESP3.
    pub fn client3(&self) -> Client {
        self.client().resp3()
    }

    /// Which server it is.
    pub fn version(&self) -> Version {
        Version::from_info(&self.client().info("server"))
    }

    /// Stops it as an operator does, and waits until it has gone. It saves where `save` lines say.
    pub fn stop(&mut self) {
        let mut client = self.client();
        if MEMCHECK {
            let child = self.child.as_ref().expect("a server that runs");
            note_if_empty(&mut client, child.id());
        }
        // A successful SHUTDOWN has no answer: the connection ends.
        if let Ok(answer) = client.try_call(&["SHUTDOWN"]) {
            panic!("SHUTDOWN: {answer:?}");
        }
        let child = self.child.as_mut().expect("a server that runs");
        let status = wait_for_exit(child).expect("the server ends after SHUTDOWN");
        self.child = None;
        assert!(status.success(), "the server ended with {status}\n{}", tail(&self.log()));
    }

    /// Kills it at once, as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("the server that was started can be killed");
            child.wait().expect("the server that was started can be waited for");
        }
    }

    /// Starts it again on the same files and the same port.
    pub fn start_again(&mut self) {
        if let Err(log) = self.try_start_again() {
            panic!("the server did not start again; it said:\n{log}");
        }
    }

    /// [`Server::start_again`], or what it printed before it gave up.
    pub fn try_start_again(&mut self) -> Result<(), String> {
        assert!(self.child.is_none(), "it still runs");
        for _ in 0..PORT_TRIES {
            match self.launch() {
                Err(log) if log.contains("Address already in use") => {}
                outcome => return outcome,
            }
        }
        panic!("port {} was taken between two starts", self.port);
    }

    /// [`Server::stop`] and [`Server::start_again`].
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// [`Server::kill`] and [`Server::start_again`].
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// The process that was started.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a server that was started").id()
    }

    /// Stops the process where it stands, as a machine that hangs: its connections stay open, and
    /// nothing is answered until [`Server::resume`].
    pub fn pause(&self) {
        send_signal(self.pid(), libc::SIGSTOP);
    }

    /// Lets a process that [`Server::pause`] has stopped go on.
    pub fn resume(&self) {
        send_signal(self.pid(), libc::SIGCONT);
    }

    /// Kills the processes at once that this server has forked and whose title holds `title`; how
    /// many there were.
    pub fn kill_children(&self, title: &str) -> usize {
        let children: Vec<u32> = children(self.pid(), title);
        children.iter().for_each(|&child| send_signal(child, libc::SIGKILL));
        children.len()
    }

    /// Whether the process that was started is still there.
    pub fn is_running(&mut self) -> bool {
        let child = self.child.as_mut().expect("a server that was started");
        child.try_wait().expect("the server can be asked").is_none()
    }

    /// Whether it was started and neither stopped nor killed since.
    pub fn was_started(&self) -> bool {
        self.child.is_some()
    }

    /// Waits until no save and no rewrite of the append-only file is under way.
    pub fn wait_for_background_jobs(&self) {
        let mut client = self.client();
        until("background jobs are done", || {
            let info = client.info("persistence");
            ["rdb_bgsave_in_progress:0", "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"]
                .iter()
                .all(|done| info.contains(done))
        });
    }

    /// One start: it is up when it answers PING and the directory that it works in is ours.
    fn launch(&mut self) -> Result<(), String> {
        let before = self.log().len();
        let mut child = launch::spawn(&self.command, self.dir(), self.port);
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("the server can be asked") {
                let log = self.log().split_off(before);
                return Err(format!("{log}\n(it ended with {status})"));
            }
            if self.is_ours() {
                self.child = Some(child);
                return Ok(());
            }
            if start.elapsed() > DEADLINE {
                // It has ended by itself where this fails.
                let _ = child.kill();
                let _ = child.wait();
                panic!("the server was not up in time; it said:\n{}", tail(&self.log()));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether the server on the port has loaded its data and is the one just started: somebody
    /// else's may have taken the port.
    fn is_ours(&self) -> bool {
        let Ok(mut client) = Client::connect(self.port) else { return false };
        match client.try_call(&["PING"]) {
            Ok(Value::SimpleString(pong)) if pong == "PONG" => {}
            _ => return false,
        }
        match client.try_call(&["CONFIG", "GET", "dir"]) {
            Ok(answer @ Value::Array(_)) => {
                let dir = list(&answer).get(1).map(text);
                let ours = fs::canonicalize(self.dir()).expect("our directory is there");
                dir.is_some_and(|dir| fs::canonicalize(dir).is_ok_and(|dir| dir == ours))
            }
            _ => false,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- the log of the server on port {} ---", self.port);
            eprintln!("{}", tail(&self.log()));
        }
        if let Some(child) = &mut self.child {
            if MEMCHECK && !thread::panicking() {
                end_in_order(child, Client::connect(self.port).ok());
            }
            // Nothing more can be done where these fail: the server has ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Sends a signal; a process that has ended by itself needs none.
fn send_signal(pid: u32, signal: i32) {
    let pid = i32::try_from(pid).expect("the number of a process");
    assert!(pid > 1, "a process of ours");
    // SAFETY: the call touches no memory of this process, and `pid` names one process.
    unsafe { libc::kill(pid, signal) };
}

/// The processes that `parent` has forked and whose title holds `title`.
fn children(parent: u32, title: &str) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").expect("processes can be listed").filter_map(|entry| {
        entry.expect("an entry can be read").file_name().to_str()?.parse::<u32>().ok()
    });
    let is_child = |pid: &u32| {
        // It may end at any moment, and then it is no child.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let titled = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // The name of the program stands in parentheses and may hold any character.
        let of = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        of == Some(&parent.to_string()) && String::from_utf8_lossy(&titled).contains(title)
    };
    numbers.filter(is_child).collect()
}

/// Empties a server, asks it to end, and waits until it has.
fn end_in_order(child: &mut Child, client: Option<Client>) {
    if let Some(mut client) = client {
        empty(&mut client);
        note_if_empty(&mut client, child.id());
    }
    send_signal(child.id(), libc::SIGTERM);
    wait_for_exit(child);
}

fn wait_for_exit(child: &mut Child) -> Option<ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        if let Some(status) = child.try_wait().expect("the server can be asked") {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(2));
    }
    None
}

fn read_log(dir: &Path) -> String {
    let log = fs::read(launch::log_path(dir)).unwrap_or_default();
    String::from_utf8_lossy(&log).into_owned()
}

/// The last lines of a log, or those around the place where the server says that it has crashed.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.len().saturating_sub(LOG_TAIL);
    let crash = lines.iter().position(|line| line.contains("BUG REPORT START"));
    let first = crash.map_or(last, |crash| crash.saturating_sub(LOG_TAIL / 4));
    lines[first..].iter().take(LOG_TAIL).copied().collect::<Vec<_>>().join("\n")
}
