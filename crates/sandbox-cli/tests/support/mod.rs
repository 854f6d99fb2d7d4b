//! Runs the built binary, from outside, and never for ever.

#![allow(dead_code, reason = "each test binary uses a part")]

#[cfg(unix)]
pub(crate) mod engine;

use serde_json::Value;
use std::{
    ffi::OsStr,
    io::{Read, Write as _},
    process::{Child, Command, ExitStatus, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Longer than anything here takes, on a slow machine too.
pub(crate) const LONG: Duration = Duration::from_secs(90);

/// The command, with nothing of our environment that it looks at, and no input.
pub(crate) fn sandbox<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandbox"));
    command.env_remove("SANDBOX_BACKEND").env_remove("NO_COLOR").args(arguments).stdin(Stdio::null());
    command
}

/// What it did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) took: Duration,
}

impl Done {
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The documents on stdout; each line is one.
    pub(crate) fn documents(&self) -> Vec<Value> {
        let lines = self.out();
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}\n{self:?}")))
            .collect()
    }

    /// The last document.
    pub(crate) fn end(&self) -> Value {
        let last = self.documents().pop().unwrap_or_else(|| panic!("no document: {self:?}"));
        assert_eq!(last["event"], "end", "{self:?}");
        assert_eq!(last["exit"].as_i64(), self.code.map(i64::from), "{self:?}");
        last
    }
}

/// Runs it to its end.
pub(crate) fn run(command: &mut Command) -> Done {
    Running::start(command).finish()
}

/// Runs it to its end with all of this input.
pub(crate) fn run_with(command: &mut Command, input: impl Into<Vec<u8>>) -> Done {
    let mut running = Running::start(command.stdin(Stdio::piped()));
    let (mut stdin, input) = (running.child.stdin.take().unwrap(), input.into());
    // It may end without having read it all.
    let writer = std::thread::spawn(move || _ = stdin.write_all(&input));
    let done = running.finish();
    writer.join().unwrap();
    done
}

/// A command that runs. It is killed if it is dropped before it was finished.
pub(crate) struct Running {
    pub(crate) child: Child,
    begun: Instant,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    /// Starts it, and reads both of its streams.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut running = Self::unread(command);
        let stdout = running.child.stdout.take().unwrap();
        running.stdout = Some(reader(stdout));
        running
    }

    /// Starts it, and leaves its stdout to the caller.
    pub(crate) fn unread(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = Some(reader(child.stderr.take().unwrap()));
        Self { child, begun: Instant::now(), stdout: None, stderr }
    }

    /// Sends a signal to the command alone.
    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end, and fails if there is none.
    pub(crate) fn finish(mut self) -> Done {
        let status = self.wait();
        let read = |reader: Option<JoinHandle<Vec<u8>>>| reader.map(|r| r.join().unwrap()).unwrap_or_default();
        let (stdout, stderr) = (read(self.stdout.take()), read(self.stderr.take()));
        Done { code: status.code(), stdout, stderr, took: self.begun.elapsed() }
    }

    fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < LONG, "it has not ended within {LONG:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            _ = self.child.kill();
            _ = self.child.wait();
        }
    }
}

fn reader(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    })
}

/// Waits until something is so, and fails if it never is.
pub(crate) fn until(what: &str, limit: Duration, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
