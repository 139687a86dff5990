//! The bytes a key and a hit, measured by `benches/memory.sh`.

use std::env;
use std::path::Path;
use std::process::Command;

/// What the script prints: names and bytes. It measures the installed server, so that there is
/// nothing where another one is under test.
pub fn measure() -> Vec<(String, f64)> {
    if env::var_os("RL_SERVER").is_some() {
        return Vec::new();
    }
    let module = env::var("RL_MODULE").unwrap_or("target/release/libredis_rl.so".to_owned());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(root.join("benches/memory.sh"))
        .arg(module)
        .current_dir(root)
        .output()
        .expect("memory.sh can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// The lines that end with a number.
pub fn parse(printed: &str) -> Vec<(String, f64)> {
    let row = |line: &str| {
        let (name, bytes) = line.trim_end().rsplit_once(' ')?;
        Some((name.trim_end().to_owned(), bytes.parse().ok()?))
    };
    printed.lines().filter_map(row).collect()
}
