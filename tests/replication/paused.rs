//! A server that stands still for a while.

use super::support::Server;
use super::{field, info_number};

/// A server's process, stopped until this value goes: it answers nobody and reads nothing, while
/// the system goes on taking what is sent to it.
pub struct Paused {
    process: libc::pid_t,
}

impl Paused {
    /// Stops the server.
    pub fn new(server: &Server) -> Paused {
        let process = info_number(&mut server.client(), "server", "process_id");
        let process = libc::pid_t::try_from(process).expect("a process");
        let paused = Paused { process };
        paused.signal(libc::SIGSTOP);
        paused
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: sends a signal to a process that this test started, and touches no memory.
        let status = unsafe { libc::kill(self.process, signal) };
        assert_eq!(status, 0, "the server can be sent a signal");
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.signal(libc::SIGCONT);
    }
}

/// How many bytes of the stream the replicas of a server have not acknowledged.
pub fn lag(primary: &Server) -> i64 {
    let info = primary.client().info("replication");
    let number = |text: &str| text.parse::<i64>().expect("an offset");
    let sent = number(field(&info, "master_repl_offset").expect("an offset"));
    let replica = field(&info, "slave0").expect("a replica");
    let known = replica.split(',').find_map(|part| part.strip_prefix("offset="));
    sent - number(known.expect("what the replica has acknowledged"))
}
