//! What goes on, told on standard error: a line that is overwritten on a terminal, else a line now
//! and then.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often a log is told of the progress.
const PAUSE: Duration = Duration::from_secs(10);

/// Tells how far a run has come.
pub struct Progress {
    start: Instant,
    told: Option<Instant>,
}

impl Progress {
    /// Starts the clock.
    pub fn new() -> Progress {
        Progress { start: Instant::now(), told: None }
    }

    /// Tells what is done now.
    pub fn tell(&mut self, what: &str) {
        let line = format!("[{:4} s] {what}", self.start.elapsed().as_secs());
        let mut stderr = std::io::stderr();
        // A closed standard error is no reason to stop.
        if stderr.is_terminal() {
            let _ = write!(stderr, "\r\x1b[K{line}");
        } else if self.told.is_none_or(|told| told.elapsed() >= PAUSE) {
            let _ = writeln!(stderr, "{line}");
            self.told = Some(Instant::now());
        }
        let _ = stderr.flush();
    }

    /// Ends the line that is overwritten.
    pub fn done(&mut self) {
        self.told = None;
        self.tell("done");
        if std::io::stderr().is_terminal() {
            eprintln!();
        }
    }
}
