//! A wall clock that a test moves under a running server.
//!
//! The servers that are given it read the system's clock moved by an amount that the test sets at
//! any time; see `set_clock.c`, which is loaded into them. Several servers may share one, as on
//! one machine, or have one each.

use std::env;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use super::support::{Config, Server, c_library, until};

/// µs in an hour.
pub const HOUR_US: i64 = 3_600_000_000;
/// µs in a minute.
pub const MINUTE_US: i64 = 60_000_000;

/// A clock of a machine.
pub struct Clock {
    dir: TempDir,
    moved_us: &'static AtomicI64,
}

impl Clock {
    /// A clock that goes `moved_us` ahead of the system's; behind it, if negative.
    pub fn ahead(moved_us: i64) -> Clock {
        let dir = TempDir::with_prefix("rl-clock-").expect("a temporary directory");
        let path = dir.path().join("moved");
        fs::write(&path, moved_us.to_ne_bytes()).expect("a file");
        Clock { moved_us: map(&path), dir }
    }

    /// Sets the clock forward, or back, by so many µs, and waits until a server lives by that: some
    /// look at it only once a ms.
    pub fn step(&self, by_us: i64, server: &Server) {
        self.moved_us.fetch_add(by_us, Ordering::SeqCst);
        self.wait_to_govern(server);
    }

    /// Waits until it is the clock by which a server lives, to the ms.
    pub fn wait_to_govern(&self, server: &Server) {
        let mut client = server.client();
        until("the server lives by the clock that it was given", || {
            let moved_us = self.moved_us.load(Ordering::SeqCst);
            let before_us = system_us();
            let time_us = client.time_us() - moved_us;
            (before_us - 1000..=system_us() + 1000).contains(&time_us)
        });
    }

    /// A server's configuration that lets it live by this clock.
    pub fn config(&self) -> Config {
        let server = env::var("RL_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let (library, moved) = (library().display(), self.dir.path().join("moved"));
        let moved = moved.display();
        Config::new()
            .server(&format!("env LD_PRELOAD={library} RL_CLOCK_MOVED_US={moved} {server}"))
    }
}

/// The system's clock in µs, which nothing here moves.
fn system_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    i64::try_from(now.as_micros()).expect("a time before 10000")
}

/// The number in the file, shared with the servers that map it too.
fn map(path: &Path) -> &'static AtomicI64 {
    let file = File::options().read(true).write(true).open(path).expect("the file just written");
    // SAFETY: a new shared mapping of a file of eight bytes, aligned to a page and never unmapped:
    // it stays valid although the file is removed. All who map it use it atomically.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = file.as_raw_fd();
        let page = libc::mmap(ptr::null_mut(), 8, protection, libc::MAP_SHARED, fd, 0);
        assert_ne!(page, libc::MAP_FAILED, "the file can be mapped");
        &*page.cast::<AtomicI64>()
    }
}

/// The library that moves a server's clock, compiled once a run.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| c_library("tests/clock/set_clock.c"))
}
