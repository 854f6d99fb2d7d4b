//! `sh`: a shell language, by bashkit, over the files of the sandbox.
//!
//! It is a language and not a process model. One shell is one process of the sandbox and one thread of the host, which runs
//! its pipes, subshells and usual small programs itself; programs that only the fake knows are children. What `&` starts ends
//! before the shell does. All of stdin is read before the shell starts, unless it is a terminal: a script reads nothing from
//! that. A shell that is killed is over for the sandbox at once; its thread is told to stop, and does so at its next command.

mod busy;
mod files;
mod programs;

use crate::{
    program::{Proc, join},
    world::{Kernel, lock},
};
use bashkit::{Bash, ExecOptions, ExecutionLimits, SessionLimits, StreamData};
use busy::Busy;
use bytes::Bytes;
use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Poll, Waker},
    time::Duration,
};

/// What bashkit needs for the depth of calls that its limits allow.
const STACK: usize = 8 << 20;

/// The most bytes that a script itself may have.
const SCRIPT: usize = 16 << 20;

/// A year: ends are the sandbox's own affair.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The program `sh`.
pub(crate) async fn run(p: Proc) -> i32 {
    let call = match Call::of(&p).await {
        Ok(call) => call,
        Err((code, text)) => {
            p.eprint(text).await;
            return code;
        }
    };
    let shared = Arc::new(Shared::default());
    let over = Over(Arc::clone(&shared));
    let (thread, kernel) = (Arc::clone(&shared), Arc::clone(p.kernel()));
    let started = std::thread::Builder::new()
        .name("sandbox-fake-sh".into())
        .stack_size(STACK)
        .spawn(move || thread.end(call.block_on(&kernel, &thread)));
    if let Err(error) = started {
        p.eprint(format!("sh: cannot start: {error}\n")).await;
        return 126;
    }
    poll_fn(|cx| shared.poll(cx.waker())).await.unwrap_or_else(|| {
        drop(over);
        1
    })
}

/// A command line of `sh`.
struct Call {
    proc: Proc,
    script: String,
    name: String,
    args: Vec<String>,
    stdin: Bytes,
}

impl Call {
    async fn of(p: &Proc) -> Result<Self, (i32, String)> {
        let mut argv = p.argv().iter();
        let shell = argv.next().map_or("sh", |name| name).to_string();
        let (mut text, mut options) = (false, String::new());
        let mut rest = argv.as_slice();
        while let [option, more @ ..] = rest {
            let Some(letters) = option.strip_prefix('-').filter(|letters| !letters.is_empty()) else { break };
            if letters == "-" {
                rest = more;
                break;
            }
            for letter in letters.chars() {
                match letter {
                    'c' => text = true,
                    'e' | 'u' | 'x' | 'f' => options.push(letter),
                    // A login or interactive shell is the same here.
                    'l' | 'i' | 's' => {}
                    _ => return Err((2, format!("sh: -{letter}: invalid option\n"))),
                }
            }
            rest = more;
        }
        let (script, name, args) = match (text, rest) {
            (true, [script, name, args @ ..]) => (script.clone(), name.clone(), args),
            (true, [script]) => (script.clone(), shell, &[][..]),
            (true, []) => return Err((2, "sh: -c: option requires an argument\n".into())),
            (false, [file, args @ ..]) => match p.read_file(&join(p.cwd(), file)) {
                Ok(script) => (String::from_utf8_lossy(&script).into_owned(), file.clone(), args),
                Err(error) => return Err((127, format!("sh: {error}\n"))),
            },
            (false, []) => (String::from_utf8_lossy(&p.read_to_end().await).into_owned(), shell, &[][..]),
        };
        let script = if options.is_empty() { script } else { format!("set -{options}\n{script}") };
        let stdin = if p.is_terminal(0) { Bytes::new() } else { p.read_to_end().await };
        Ok(Self { proc: p.clone(), script, name, args: args.to_vec(), stdin })
    }

    /// Runs it on this thread, which nobody joins.
    fn block_on(self, kernel: &Arc<Kernel>, shared: &Arc<Shared>) -> i32 {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else { return 126 };
        let busy = Busy::new(kernel);
        runtime.block_on(async {
            let room = self.proc.room();
            let mut shell = pin!(self.exec(shared, &busy));
            // What it does beside its waits is computing too.
            poll_fn(|cx| {
                if kernel.holds(room, cx.waker()) {
                    return Poll::Pending;
                }
                let computing = kernel.compute();
                let polled = shell.as_mut().poll(cx);
                drop(computing);
                polled
            })
            .await
        })
    }

    async fn exec(self, shared: &Arc<Shared>, busy: &Busy) -> i32 {
        let p = self.proc;
        let mut bash = bash(&p, busy);
        shared.stop_with(bash.cancellation_token());
        let options = ExecOptions::new().arg0(self.name).positional(self.args);
        let options =
            if self.stdin.is_empty() { options } else { options.stdin(StreamData::from(self.stdin.to_vec())) };
        let (out, error) = ((p.clone(), busy.clone()), (p.clone(), busy.clone()));
        let ended = bash
            .execute(&self.script)
            .options(options)
            .stdout_fn(move |bytes| {
                let (p, busy) = out.clone();
                async move { Ok(busy.wait(p.write(bytes)).await?) }
            })
            .stderr_fn(move |bytes| {
                let (p, busy) = error.clone();
                async move { Ok(busy.wait(p.write_error(bytes)).await?) }
            })
            .await;
        match ended {
            Ok(result) => result.exit_code,
            Err(bashkit::Error::Cancelled) => 137,
            Err(error) => {
                p.eprint(format!("sh: {error}\n")).await;
                if matches!(error, bashkit::Error::Parse { .. }) { 2 } else { 1 }
            }
        }
    }
}

fn bash(p: &Proc, busy: &Busy) -> Bash {
    let limits = ExecutionLimits::cli()
        .max_work_units(u64::MAX)
        .max_aggregate_input_bytes(u64::MAX)
        .max_live_intermediate_bytes(1 << 30)
        .max_stdout_bytes(usize::MAX)
        .max_stderr_bytes(usize::MAX)
        .max_input_bytes(SCRIPT)
        .max_word_split_fields(10_000_000)
        .max_word_split_bytes(1 << 30)
        .timeout(NEVER);
    let files = Arc::new(files::Files::new(p));
    let mut builder = Bash::builder()
        .fs(files)
        .cwd(p.cwd())
        .limits(limits)
        .session_limits(SessionLimits::unlimited())
        .username(p.user().0)
        .hostname("fake")
        // Our files are all there is.
        .rootfs(false)
        .fixed_epoch(p.kernel().seconds())
        .builtin(crate::image::INTERPRETER, Box::new(programs::Other::interpreter(p, busy)))
        .builtin("sleep", Box::new(programs::Sleep::new(p, busy)));
    let own = lock(&p.kernel().catalogue).own_programs();
    for name in programs::OURS.iter().map(|name| name.to_string()).chain(own) {
        let program = programs::Other::named(p, busy, &name);
        builder = builder.builtin(name, Box::new(program));
    }
    for (name, value) in p.vars() {
        builder = builder.env(name, value);
    }
    builder.build()
}

/// What thread and process have in common.
#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    code: Option<i32>,
    waker: Option<Waker>,
    stop: Option<Arc<AtomicBool>>,
    stopped: bool,
}

impl Shared {
    fn end(&self, code: i32) {
        let waker = {
            let mut state = lock(&self.0);
            state.code = Some(code);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Option<i32>> {
        let mut state = lock(&self.0);
        match state.code {
            Some(code) => Poll::Ready(Some(code)),
            None => {
                state.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// Takes what makes the shell stop.
    fn stop_with(&self, stop: Arc<AtomicBool>) {
        let mut state = lock(&self.0);
        stop.store(state.stopped, SeqCst);
        state.stop = Some(stop);
    }
}

/// Tells the thread to stop when the process ends.
struct Over(Arc<Shared>);

impl Drop for Over {
    fn drop(&mut self) {
        let mut state = lock(&self.0.0);
        state.stopped = true;
        if let Some(stop) = &state.stop {
            stop.store(true, SeqCst);
        }
    }
}
