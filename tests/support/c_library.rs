//! Libraries in C that are loaded into servers, compiled by the compiler that Rust links with.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `source`, a path in the project, to a shared library.
pub fn c_library(source: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let name = source.file_stem().expect("a file").to_string_lossy();
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lib{name}.so"));
    let own = built.with_extension(std::process::id().to_string());
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let output = Command::new(&compiler)
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
        .args([&own, &source])
        .output();
    let output = output.unwrap_or_else(|error| {
        panic!("no C compiler {compiler} ({error}): install one, the package gcc on Debian")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} does not compile {name}.c:\n{said}");
    // Another run may do the same at this moment: both move a whole file into place.
    fs::rename(&own, &built).expect("a file can be renamed");
    built
}
