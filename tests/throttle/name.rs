//! When CL.THROTTLE is there: where `rl.compat-cell yes` was said before the module was loaded, and
//! no other module has the name.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use redis::Value;
use tempfile::TempDir;

use super::support::{Client, Config, Server, list, text};
use super::throttle;

const LINE: &str = "CL.THROTTLE user123 15 30 60 1";

fn setting(client: &mut Client) -> Vec<String> {
    list(&client.ok("CONFIG GET rl.compat-cell")).iter().map(text).collect()
}

fn is_there(client: &mut Client) -> bool {
    let listed = !list(&client.ok("COMMAND LIST FILTERBY PATTERN cl.throttle")).is_empty();
    let answers = matches!(client.run(LINE), Value::Array(_));
    assert_eq!(listed, answers, "it is listed where it answers");
    answers
}

#[test]
fn without_the_configuration_it_is_not_there() {
    for config in [
        Config::new(),
        Config::new().module_args("rl.compat-cell no"),
        Config::new().line("rl.compat-cell no"),
        // A line in the file beats the argument.
        Config::new().module_args("rl.compat-cell yes").line("rl.compat-cell no"),
    ] {
        let server = Server::with(&config);
        let mut client = server.client();
        assert!(!is_there(&mut client));
        assert_eq!(setting(&mut client), ["rl.compat-cell", "no"]);
        let refused = client.refused(LINE);
        assert!(refused.starts_with("ERR unknown command"), "{refused}");
        assert_eq!(throttle(&mut client, "RL.THROTTLE k 15 30 60")[..3], [0, 16, 15]);
    }
}

#[test]
fn it_is_switched_on_when_the_module_is_loaded_and_never_later() {
    for config in [
        Config::new().module_args("rl.compat-cell yes"),
        Config::new().module_args("RL.Compat-Cell YES"),
        Config::new().line("rl.compat-cell yes"),
        Config::new().module_args("rl.compat-cell no").line("rl.compat-cell yes"),
    ] {
        let server = Server::with(&config);
        let mut client = server.client();
        assert!(is_there(&mut client));
        assert_eq!(setting(&mut client), ["rl.compat-cell", "yes"]);
        for value in ["no", "yes"] {
            let refused = client.refused(&format!("CONFIG SET rl.compat-cell {value}"));
            assert!(refused.contains("immutable"), "{refused}");
        }
        assert!(is_there(&mut client));
        assert!(!server.log().contains("CL.THROTTLE"), "a warning without cause");
    }
    let server = Server::start();
    let refused = server.client().refused("CONFIG SET rl.compat-cell yes");
    assert!(refused.contains("immutable"), "{refused}");
}

#[test]
fn another_word_than_yes_or_no_refuses_to_load() {
    for config in [
        Config::new().module_args("rl.compat-cell maybe"),
        Config::new().module_args("rl.compat-cell"),
        Config::new().module_args("rl.compat-cell yes rl.compat-cell yes"),
    ] {
        let log = Server::try_with(&config).err().expect("it does not start");
        let refused = log.lines().filter(|line| line.contains("the module rl refuses to load"));
        assert_eq!(refused.count(), 1, "{log}");
    }
}

/// CONFIG REWRITE keeps what a line of the file says, and the server starts again with it.
#[test]
fn it_survives_a_rewrite_of_the_configuration() {
    let mut server = Server::with(&Config::new().line("rl.compat-cell yes"));
    server.client().ok("CONFIG REWRITE");
    server.restart();
    assert!(is_there(&mut server.client()));
}

/// It is described, and permitted, as RL.THROTTLE is, under its own name.
#[test]
fn it_is_described_as_its_twin() {
    let server = Server::with(&Config::new().module_args("rl.compat-cell yes"));
    let mut client = server.client();
    let mut info = |name: &str| list(&list(&client.ok(&format!("COMMAND INFO {name}")))[0]);
    let (ours, theirs) = (info("rl.throttle"), info("cl.throttle"));
    assert_eq!(text(&theirs[0]), "cl.throttle");
    assert_eq!(ours[1..], theirs[1..]);
    let keys = client.ok("COMMAND GETKEYS CL.THROTTLE user123 15 30 60");
    assert_eq!(list(&keys).iter().map(text).collect::<Vec<_>>(), ["user123"]);
    client.ok("ACL SETUSER app on >secret ~user* +cl.throttle");
    let mut app = server.client();
    app.ok("AUTH app secret");
    assert_eq!(throttle(&mut app, LINE)[..3], [0, 16, 15]);
    assert!(app.refused("CL.THROTTLE other 15 30 60").starts_with("NOPERM "));
    assert!(app.refused("RL.THROTTLE user123 15 30 60").starts_with("NOPERM "));
}

/// Replicas and files know nothing of the name: they get effects.
#[test]
fn what_it_wrote_is_read_without_it() {
    let mut server = Server::with(&Config::new().append_only().module_args("rl.compat-cell yes"));
    let replica = server.replica();
    throttle(&mut server.client(), "CL.THROTTLE user123 15 1 3600");
    super::support::wait_for_replica(&server, &replica);
    assert_eq!(replica.client().limit("RL.PEEK user123").limit, 16);
    server.stop();
    let file = server.config_file();
    let config = std::fs::read_to_string(&file).expect("the configuration");
    std::fs::write(&file, config.replace("rl.compat-cell yes", "")).expect("a file");
    server.start_again();
    assert!(!is_there(&mut server.client()));
    assert_eq!(server.client().limit("RL.PEEK user123").limit, 16);
}

/// The library of a client calls it by this name, sends all numbers as text, and takes the reply
/// apart by position, the first of them as a truth value.
#[test]
fn a_client_library_finds_what_it_expects() {
    let server = Server::with(&Config::new().module_args("rl.compat-cell yes"));
    let url = format!("redis://127.0.0.1:{}/", server.port());
    let client = redis::Client::open(url).expect("an address");
    let mut connection = client.get_connection().expect("a connection");
    let mut call = || {
        let mut command = redis::cmd("CL.THROTTLE");
        command.arg("user123").arg(1).arg(30).arg(3600_u64).arg(1);
        let reply: (bool, u64, u64, i64, u64) = command.query(&mut connection).expect("a reply");
        reply
    };
    assert_eq!(call(), (false, 2, 1, -1, 120));
    assert_eq!(call(), (false, 2, 0, -1, 240));
    let (limited, limit, remaining, retry_s, reset_s) = call();
    assert_eq!((limited, limit, remaining), (true, 2, 0));
    assert!((119..=120).contains(&retry_s) && (239..=240).contains(&reset_s));
}

/// Where another module has the name, redis-cell itself for one, that one keeps it: the module
/// loads, with a single line in the log, and RL.THROTTLE works.
#[test]
fn a_taken_name_is_one_warning() {
    let dir = TempDir::with_prefix("rl-taken-").expect("a temporary directory");
    let other = compiled(dir.path());
    // The other module has to be loaded first: a line before the harness's own.
    let first = format!("loadmodule {}", other.display());
    for (argument, warnings) in [("rl.compat-cell yes", 1), ("rl.compat-cell no", 0), ("", 0)] {
        let mut server = Server::with(&Config::new());
        server.stop();
        let file = server.config_file();
        let config = std::fs::read_to_string(&file).expect("the configuration");
        let ours = config.lines().find(|line| line.starts_with("loadmodule")).expect("our line");
        let config = config.replace(ours, &format!("{first}\n{ours} {argument}"));
        std::fs::write(&file, config).expect("a file");
        let before = server.log().len();
        server.start_again();
        let mut client = server.client();
        assert_eq!(client.run(LINE), Value::Int(42), "it is the other module's");
        assert_eq!(throttle(&mut client, "RL.THROTTLE k 15 30 60")[..3], [0, 16, 15]);
        let log = server.log().split_off(before);
        let told = log.lines().filter(|line| line.contains("CL.THROTTLE")).count();
        assert_eq!(told, warnings, "{argument}:\n{log}");
        let ours = log.lines().filter(|line| line.contains("<rl>"));
        assert_eq!(ours.count(), warnings, "{argument}:\n{log}");
    }
}

/// The module that takes the name.
fn compiled(dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/throttle/taken.c");
    let built = dir.join("taken.so");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let output = Command::new(&compiler)
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
        .args([&built, &source])
        .output();
    let output = output.unwrap_or_else(|error| {
        panic!("no C compiler {compiler} ({error}): install one, the package gcc on Debian")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} does not compile taken.c:\n{said}");
    built
}
