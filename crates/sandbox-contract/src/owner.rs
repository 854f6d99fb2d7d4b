//! An owner that can be killed: the test program itself, started once more.

use crate::{
    Labels,
    ctx::{Ctx, World},
    settings::Settings,
    subject::Make,
};
use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    process::{Child, Command, ExitCode, Stdio},
    sync::{
        OnceLock,
        mpsc::{Receiver, TryRecvError, channel},
    },
    thread,
    time::Duration,
};

/// Says in a child what it is: the labels of its sandbox, as JSON.
const VARIABLE: &str = "SANDBOX_CONTRACT_OWNER";

/// How long the child's sandbox lives, in seconds.
const LIFETIME: &str = "SANDBOX_CONTRACT_OWNER_LIFETIME";

/// That this program is a contract suite, so that started once more it is one again.
static HARNESS: OnceLock<()> = OnceLock::new();

pub(crate) fn this_is_a_harness() {
    _ = HARNESS.set(());
}

/// A process that has made a sandbox and holds it.
pub(crate) struct Owner {
    child: Child,
    said: Receiver<Result<String, String>>,
}

/// Starts one; `None` where this program cannot be one.
pub(crate) fn start(labels: &Labels, lifetime: Option<Duration>) -> io::Result<Option<Owner>> {
    if HARNESS.get().is_none() {
        return Ok(None);
    }
    let mut command = Command::new(env::current_exe()?);
    if let Some(lifetime) = lifetime {
        command.env(LIFETIME, lifetime.as_secs().to_string());
    }
    let mut child = command
        .env(VARIABLE, serde_json::to_string(labels)?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (tell, said) = channel();
    if let Some(out) = child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let answer = match line.split_once(' ') {
                    Some(("made", id)) => Ok(id.to_string()),
                    _ => Err(line),
                };
                if tell.send(answer).is_err() {
                    return;
                }
            }
        });
    }
    Ok(Some(Owner { child, said }))
}

impl Owner {
    /// The id of its sandbox.
    pub(crate) async fn made(&mut self) -> Result<String, String> {
        loop {
            match self.said.try_recv() {
                Ok(said) => return said,
                Err(TryRecvError::Disconnected) => return Err("the owner ended without a word".into()),
                Err(TryRecvError::Empty) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// SIGKILL, on systems that have it.
    pub(crate) fn kill(&mut self) {
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a child does in place of the suite; `None` where this is no child.
pub(crate) fn run(make: &Make, settings: &Settings) -> Option<ExitCode> {
    let labels: Labels = serde_json::from_str(&env::var(VARIABLE).ok()?).ok()?;
    let say = |text: String| {
        let mut out = io::stdout();
        _ = writeln!(out, "{text}");
        _ = out.flush();
    };
    let work = || -> Result<(), String> {
        let words = |stop| format!("failed {stop:?}");
        let subject = make().map_err(|error| format!("failed {error}"))?;
        let cx = Ctx::new(Make::clone(make), subject, labels, settings.clone()).map_err(words)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        runtime.block_on(async {
            let world: &World = &cx;
            let lifetime = env::var(LIFETIME).ok().and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
            let spec = match lifetime {
                Some(lifetime) => world.spec().lifetime(lifetime),
                None => world.spec(),
            };
            let sandbox = world.sandbox_of(spec).await.map_err(words)?;
            say(format!("made {}", sandbox.id()));
            // Killed long before; else it ends by itself.
            tokio::time::sleep(Duration::from_secs(180)).await;
            Ok(())
        })
    };
    match work() {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(why) => {
            say(why);
            Some(ExitCode::FAILURE)
        }
    }
}
