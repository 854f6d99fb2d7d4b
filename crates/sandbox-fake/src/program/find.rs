//! How a command line finds its program.

use super::Program;
use crate::{
    fs::{Fs, FsError, What, Who},
    image::program_of,
    world::{Kernel, lock},
};
use sandbox_core::{Error, ErrorKind};
use std::sync::{Arc, Mutex};

/// The most bytes that a command line and its environment may have.
const LONGEST: usize = 2 << 20;

pub(crate) struct Found {
    pub(crate) program: Program,
    pub(crate) argv: Arc<[String]>,
}

/// Finds the program of a command line as a kernel and `execvp` do.
pub(crate) fn find(
    kernel: &Kernel,
    files: &Mutex<Fs>,
    argv: Arc<[String]>,
    path: Option<&str>,
    cwd: &str,
    who: Who,
) -> Result<Found, Error> {
    let length: usize = argv.iter().map(|arg| arg.len() + 1).sum();
    if length > LONGEST {
        let text = format!("the command line has {length} bytes, and {LONGEST} are the most");
        return Err(Error::new(ErrorKind::ArgumentTooLarge, text).with_hint("pass the data through stdin or a file"));
    }
    let name = argv.first().map_or("", |name| name);
    let mut denied = None;
    let direct = name.contains('/');
    let path = if direct { "" } else { path.unwrap_or("/usr/local/bin:/usr/bin:/bin") };
    // Nothing is called nothing.
    let candidates = path.split(':').take_while(|_| !name.is_empty()).map(|directory| match direct {
        true => join(cwd, name),
        false => format!("{}/{name}", join(cwd, directory).trim_end_matches('/')),
    });
    for candidate in candidates {
        let content = lock(files).executable(&candidate, who);
        match content {
            Ok(content) => match program_of(&content) {
                Some(program) => match lock(&kernel.catalogue).program(&program) {
                    Some(program) => return Ok(Found { program, argv }),
                    None => return Err(not_started(name, "there is no such program in this fake")),
                },
                None => {
                    let head = content.range(0, Some(256)).whole();
                    return interpreted(kernel, &head, &candidate, &argv)
                        .ok_or_else(|| not_started(name, "not a program that can be run here"));
                }
            },
            Err(FsError { what: What::NotFound | What::NotADirectory, .. }) => {}
            Err(error) => denied = Some(error),
        }
    }
    Err(match denied {
        Some(error) => not_started(name, error.what.words()),
        None => not_found(name),
    })
}

/// A path, from a directory on.
pub(crate) fn join(cwd: &str, path: &str) -> String {
    if path.starts_with('/') { path.to_string() } else { format!("{}/{path}", cwd.trim_end_matches('/')) }
}

/// A script that names its interpreter.
fn interpreted(kernel: &Kernel, head: &[u8], path: &str, argv: &[String]) -> Option<Found> {
    let line = std::str::from_utf8(head.split(|byte| *byte == b'\n').next()?).ok()?;
    let mut words = line.strip_prefix("#!")?.split_whitespace();
    let interpreter = words.next()?;
    let program = lock(&kernel.catalogue).program(interpreter.strip_prefix("/bin/")?)?;
    let words = [interpreter].into_iter().chain(words).chain([path]).map(str::to_string);
    Some(Found { program, argv: words.chain(argv.iter().skip(1).cloned()).collect() })
}

fn not_found(name: &str) -> Error {
    let error = Error::new(ErrorKind::ProgramNotFound, format!("no program `{name}` in the sandbox"));
    if cfg!(not(feature = "shell")) && matches!(name, "sh" | "/bin/sh" | "bash" | "/bin/bash") {
        error.with_hint("enable the feature `shell` of crate `sandbox-fake`, or run a program without a shell")
    } else {
        error.with_hint("add the program with `Fake::program`, or look at PATH")
    }
}

fn not_started(name: &str, why: &str) -> Error {
    Error::new(ErrorKind::StartFailed, format!("`{name}`: {why}")).applied(false)
}
