//! What is loaded beside the module to be compared with it: the floor, and redis-cell.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The redis-cell that the crate registry has.
const CELL: &str = "redis-cell = \"=0.2.2\"";

/// The folder of everything that is built.
fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target")
}

/// Builds `floor.c`, the least that a limiter's call can cost.
pub fn floor() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/server/floor.c");
    let module = target().join("bench-floor.so");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler)
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"])
        .args([&module, &source])
        .status();
    assert!(status.is_ok_and(|status| status.success()), "{compiler} did not build floor.c");
    module
}

/// Builds redis-cell, once; none where it cannot be had.
pub fn cell() -> Option<PathBuf> {
    let dir = target().join("redis-cell");
    let module = dir.join("target/release/libredis_cell.so");
    if module.exists() {
        return Some(module);
    }
    let manifest = format!(
        "[package]\nname = \"cell\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
         [dependencies]\n{CELL}\n\n[workspace]\n"
    );
    fs::create_dir_all(dir.join("src")).ok()?;
    fs::write(dir.join("Cargo.toml"), manifest).ok()?;
    fs::write(dir.join("src/lib.rs"), "").ok()?;
    // It links Rust's own library dynamically; rpath lets the server find that.
    let status = Command::new("cargo")
        .args(["build", "--release", "--quiet", "--target-dir"])
        .arg(dir.join("target"))
        .env("RUSTFLAGS", "-C rpath --cap-lints allow")
        .current_dir(&dir)
        .status()
        .ok()?;
    (status.success() && module.exists()).then_some(module)
}
