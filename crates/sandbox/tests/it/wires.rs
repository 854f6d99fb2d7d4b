//! What adapters with less than a full wire rely on.

use crate::common::{
    any, ms,
    scripted::{Script, Step, error, hook, script, script_of},
    spec,
};
use sandbox::{Backend, Capability, Client, Command, ErrorKind, Facts, Fate, Result, SandboxId, Spec, Status};
use sandbox_core::{
    Attempt, Cause, Ended, Event, Exec, Finished, Instance, Made, NoControl, OUTSIDE_TRAILS, Once, Stdin, once,
};
use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Instant,
};

#[tokio::test]
async fn what_never_ran_costs_nothing_and_what_may_run_costs_the_sandbox() {
    let next = script(vec![Step::Say(Event::NotStarted(error(ErrorKind::ProgramNotFound)))]);
    let (client, log) = Script { next, ..script_of() }.without_kill().client();
    let sandbox = client.create(spec()).await.unwrap();
    for _ in 0..2 {
        assert_eq!(sandbox.run(any()).await.unwrap_err().kind(), ErrorKind::ProgramNotFound);
    }
    assert_eq!(log.count("destroy"), 0);
    for (kind, costs) in [(ErrorKind::ConnectionLost, 1), (ErrorKind::StartFailed, 0)] {
        let at_spawn = hook(move |_: Exec| async move { Err(error(kind)) });
        let (client, log) = Script { spawn: at_spawn, ..script_of() }.without_kill().client();
        let sandbox = client.create(spec()).await.unwrap();
        assert_eq!(sandbox.run(any()).await.unwrap_err().kind(), kind);
        assert_eq!((log.count("destroy"), sandbox.start(any()).await.is_err()), (costs, true));
        let (client, log) = Script { next: script(vec![Step::Fail(kind)]), ..script_of() }.without_kill().client();
        let sandbox = client.create(spec()).await.unwrap();
        assert_eq!(sandbox.run(any()).await.unwrap_err().kind(), kind);
        assert_eq!(log.count("destroy"), costs);
    }
}

/// One call per command, all of it at once.
struct Wire(Arc<AtomicUsize>);
struct Calls;

impl Backend for Wire {
    type Instance = Calls;

    fn info(&self) -> Facts {
        use Capability::*;
        Facts::new("wire").native([Run, Deny, StdinWhole, Deadline])
    }

    async fn create(&self, _: &Spec, attempt: &Attempt) -> Result<Made<Calls>> {
        Ok(Made::new(attempt.claim(SandboxId::new("w")), Calls))
    }

    async fn destroy(&self, _: &SandboxId) -> Result<()> {
        self.0.fetch_add(1, SeqCst);
        Ok(())
    }
}

impl Instance for Calls {
    type Control = NoControl;
    type Events = Once;

    async fn spawn(&self, exec: &Exec) -> Result<(NoControl, Once)> {
        let exec = exec.clone();
        Ok(once(async move {
            match exec.argv[0].as_str() {
                "cat" => {
                    let Stdin::Whole(all) = exec.stdin else { return Err(error(ErrorKind::InvalidArgument)) };
                    Ok(Finished::new(Ended::program(Status::Code(0)), all, "err"))
                }
                "long" => {
                    tokio::time::sleep(exec.timeout).await;
                    Ok(Finished::new(Ended::new(Status::Signal(9), Cause::Deadline), "", ""))
                }
                "none" => Err(error(ErrorKind::ProgramNotFound)),
                _ => pending().await,
            }
        }))
    }
}

#[tokio::test]
async fn a_wire_with_one_call_per_command() {
    let destroyed = Arc::new(AtomicUsize::new(0));
    let client = Client::new(Wire(Arc::clone(&destroyed))).unwrap();
    let sandbox = client.create(spec()).await.unwrap();
    let output = sandbox.run(Command::new("cat").input("in")).await.unwrap();
    assert_eq!((&*output.stdout.bytes(), &*output.stderr.bytes()), (&b"in"[..], &b"err"[..]));
    assert_eq!(sandbox.start(Command::new("cat").pipe()).await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(sandbox.run(Command::new("none")).await.unwrap_err().kind(), ErrorKind::ProgramNotFound);
    // The deadline inside is heard first, and spares the sandbox.
    let error = sandbox.run(Command::new("long").timeout(ms(200))).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.fate(), destroyed.load(SeqCst)),
        (ErrorKind::ExecutionTimeout, Some(Fate::Dead), 0)
    );
    let begun = Instant::now();
    let error = sandbox.run(Command::new("hang").timeout(ms(100))).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.fate(), destroyed.load(SeqCst)),
        (ErrorKind::ExecutionTimeout, Some(Fate::Dead), 1)
    );
    assert!(begun.elapsed() > OUTSIDE_TRAILS);
}
