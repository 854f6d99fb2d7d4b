//! What a shell can run beside its own small programs.

use super::busy::Busy;
use crate::program::{Fork, Proc};
use bashkit::{Builtin, BuiltinContext, ExecResult, async_trait};
use bytes::Bytes;
use std::time::Duration;

/// Programs of the fake that replace those of the shell, because they need processes, users, or the virtual clock.
pub(super) const OURS: &[&str] = &["id", "whoami", "ps"];

/// Sleeps by the virtual clock.
pub(super) struct Sleep(Proc, Busy);

impl Sleep {
    pub(super) fn new(p: &Proc, busy: &Busy) -> Self {
        Self(p.clone(), busy.clone())
    }
}

#[async_trait]
impl Builtin for Sleep {
    async fn execute(&self, ctx: BuiltinContext<'_>) -> bashkit::Result<ExecResult> {
        let times: Option<Vec<Duration>> = ctx.args.iter().map(|arg| crate::program::seconds(arg)).collect();
        match times.filter(|times| !times.is_empty()) {
            Some(times) => {
                let all = times.into_iter().fold(Duration::ZERO, Duration::saturating_add);
                self.1.wait(self.0.sleep(all)).await;
                Ok(ExecResult::ok(""))
            }
            None => Ok(ExecResult::err("sleep: invalid time interval\n", 1)),
        }
    }
}

/// A program of the fake, as a child of the shell.
pub(super) struct Other {
    proc: Proc,
    busy: Busy,
    /// `None` is the interpreter of the files that stand for programs: it gets the program's name, the file, the arguments.
    name: Option<String>,
}

impl Other {
    pub(super) fn named(p: &Proc, busy: &Busy, name: &str) -> Self {
        Self { proc: p.clone(), busy: busy.clone(), name: Some(name.to_string()) }
    }

    pub(super) fn interpreter(p: &Proc, busy: &Busy) -> Self {
        Self { proc: p.clone(), busy: busy.clone(), name: None }
    }
}

#[async_trait]
impl Builtin for Other {
    async fn execute(&self, ctx: BuiltinContext<'_>) -> bashkit::Result<ExecResult> {
        let args = if self.name.is_some() { ctx.args } else { ctx.args.get(1..).unwrap_or_default() };
        let argv: Vec<String> = self.name.iter().chain(args).cloned().collect();
        let name = argv.first().cloned().unwrap_or_default();
        let env = ctx.env.iter().map(|(name, value)| (name.clone(), value.clone()));
        let input = ctx.stdin.map_or_else(Bytes::new, |stdin| Bytes::copy_from_slice(stdin.as_bytes()));
        let cwd = ctx.cwd.to_string_lossy().into_owned();
        let fork = Fork::program(argv).env(env).cwd(cwd).input(input).piped().piped_error();
        let child = match self.proc.start(fork) {
            Ok(child) => child,
            Err(error) => {
                let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
                return Ok(ExecResult::err(format!("{name}: {error}\n"), code));
            }
        };
        let ended = async {
            let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
            let mut open = (true, true);
            while open != (false, false) {
                tokio::select! {
                    piece = child.read(), if open.0 => {
                        open.0 = !piece.is_empty();
                        stdout.extend_from_slice(&piece);
                    }
                    piece = child.read_error(), if open.1 => {
                        open.1 = !piece.is_empty();
                        stderr.extend_from_slice(&piece);
                    }
                }
            }
            let mut result = ExecResult::ok_bytes(stdout);
            result.stderr = stderr.into();
            result.exit_code = child.wait().await.as_code();
            result
        };
        Ok(self.busy.wait(ended).await)
    }
}
