//! Environment, user and directory: of the sandbox, of the call, of a view.

use crate::common::{
    Host, any, open_spec,
    scripted::{Script, code, hook, script, script_of},
    spec,
};
use sandbox::{Capability, Command, Overrides, Sandbox};
use sandbox_core::Exec;
use std::sync::{Arc, Mutex};

async fn seen_by_the_adapter(run: impl AsyncFnOnce(Sandbox)) -> Vec<Exec> {
    let seen: Arc<Mutex<Vec<Exec>>> = Arc::default();
    let execs = Arc::clone(&seen);
    let spawn = hook(move |exec: Exec| {
        execs.lock().unwrap().push(exec);
        async { Ok(()) }
    });
    let script = Script { spawn, next: script(vec![code(0)]), ..script_of() }.having([Capability::User]);
    let (client, _log) = script.client();
    run(client.create(spec().cwd("/work").env("A", "sandbox").user("base")).await.unwrap()).await;
    seen.lock().unwrap().clone()
}

#[tokio::test]
async fn variables_of_a_view_win_over_the_calls_and_those_over_the_sandboxs() {
    let host = Host::new();
    let sandbox =
        host.client.create(open_spec().env("A", "sandbox").env("B", "sandbox").env("C", "sandbox")).await.unwrap();
    let outer = sandbox.with(Overrides::new().env("C", "outer").env("D", "outer"));
    let inner = outer.with(Overrides::new().env("D", "inner"));
    let print = || Command::shell("echo $A $B $C $D").env("B", "call").env("C", "call").env("D", "call");
    for (view, printed) in [
        (&sandbox, "sandbox call call call\n"),
        (&outer, "sandbox call outer outer\n"),
        (&inner, "sandbox call outer inner\n"),
    ] {
        assert_eq!(view.run(print()).await.unwrap().stdout.text(), printed);
    }
    let twice = Command::shell("echo $A").env("A", "first").env("A", "last");
    assert_eq!(sandbox.run(twice).await.unwrap().stdout.text(), "last\n");
}

#[tokio::test]
async fn adapters_get_one_value_of_each_variable_and_not_the_sandboxs_own() {
    let execs = seen_by_the_adapter(async |sandbox| {
        let view = sandbox.with(Overrides::new().env("X", "view"));
        assert!(view.run(any().env("X", "call").env("Y", "call")).await.unwrap().success());
    });
    let env = execs.await.remove(0).env;
    assert_eq!(env, [("X".into(), "view".into()), ("Y".into(), "call".into())]);
}

#[tokio::test]
async fn users() {
    let execs = seen_by_the_adapter(async |sandbox| {
        let outer = sandbox.with(Overrides::new().user("outer"));
        let inner = outer.with(Overrides::new().user("inner"));
        for (view, command) in [
            (&sandbox, any()),
            (&sandbox, any().user("call")),
            (&outer, any().user("call")),
            (&inner, any()),
            (&outer.with(Overrides::new().cwd("x")), any()),
        ] {
            assert!(view.run(command).await.unwrap().success());
        }
    });
    let users: Vec<_> = execs.await.into_iter().map(|exec| exec.user).collect();
    assert_eq!(users, [None, Some("call".into()), Some("outer".into()), Some("inner".into()), Some("outer".into())]);
}

#[tokio::test]
async fn directories_are_resolved_against_the_sandboxs_own() {
    let execs = seen_by_the_adapter(async |sandbox| {
        let view = sandbox.with(Overrides::new().cwd("view"));
        for (view, command) in [
            (&sandbox, any()),
            (&sandbox, any().cwd("call")),
            (&sandbox, any().cwd("/abs//./x/")),
            (&view, any()),
            (&view, any().cwd("call")),
            (&view, any().cwd("/abs")),
            (&view.with(Overrides::new().cwd("/other")), any().cwd("call")),
        ] {
            assert!(view.run(command).await.unwrap().success());
        }
    });
    let dirs: Vec<_> = execs.await.into_iter().map(|exec| exec.cwd.unwrap_or_default()).collect();
    assert_eq!(dirs, ["", "/work/call", "/abs/x", "/work/view", "/work/view/call", "/abs", "/other/call"]);
}

#[tokio::test]
async fn views_share_the_sandbox_and_do_not_leak_into_each_other() {
    let host = Host::new();
    let sandbox = host.sandbox().await;
    assert!(sandbox.run(Command::new("mkdir").args(["a", "b"])).await.unwrap().success());
    let runs = (0..20).map(|n| {
        let dir = if n % 2 == 0 { "a" } else { "b" };
        let view = sandbox.with(Overrides::new().env("N", n.to_string()).cwd(dir));
        async move { (n, dir, view.run(Command::shell("echo $N ${PWD##*/}")).await.unwrap().stdout.text().into_owned()) }
    });
    for run in runs.map(crate::common::spawn).collect::<Vec<_>>() {
        let (n, dir, printed) = run.await.unwrap();
        assert_eq!(printed, format!("{n} {dir}\n"));
    }
    let view = sandbox.with(Overrides::new());
    view.close().await.unwrap();
    assert!(sandbox.run(Command::new("true")).await.is_err());
}

#[tokio::test]
async fn values_of_variables_do_not_render() {
    let command = Command::new("x").env("TOKEN", "hunter2");
    let overrides = Overrides::new().env("TOKEN", "hunter2");
    let shown = format!("{command:?} {overrides:?}");
    assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
}
