//! A client carried into the child of a fork: every handle says so, and lets go of nothing that is the parent's.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, unused_imports, reason = "this binary uses a part of it")]
mod common;

use common::{any, block_on, ms, runtime, scripted::script_of, spec};
use fork::Fork;
use sandbox::{Capability, Error, ErrorKind};
use std::time::Instant;

/// Whether `child` says yes in the child of a fork.
fn in_a_child(child: impl FnOnce() -> bool) -> bool {
    match fork::fork().unwrap() {
        Fork::Parent(pid) => fork::waitpid(pid).unwrap() == 0,
        Fork::Child => {
            let yes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(false);
            #[expect(clippy::disallowed_methods, reason = "the child must not go on as a test harness")]
            std::process::exit(i32::from(!yes))
        }
    }
}

fn says_forked<T>(result: Result<T, Error>) -> bool {
    result.err().is_some_and(|error| error.kind() == ErrorKind::Forked && error.hint().is_some())
}

#[test]
fn the_way_of_asking_a_child_hears_a_no() {
    assert!(in_a_child(|| true) && !in_a_child(|| false) && !in_a_child(|| panic!("in the child")));
}

#[test]
fn a_create_is_answered_at_once() {
    let (client, log) = script_of().client();
    assert!(in_a_child(|| {
        let (tell, told) = std::sync::mpsc::channel();
        let client = client.clone();
        std::thread::spawn(move || {
            let said = says_forked(runtime().block_on(client.create(spec())));
            drop(client);
            let _ = tell.send(said);
        });
        told.recv_timeout(common::LONG) == Ok(true)
    }));
    assert_eq!(log.count("create"), 0);
}

#[test]
fn every_handle_says_so_and_lets_go() {
    let (client, log) = script_of().having([Capability::Files]).client();
    let runtime = runtime();
    let sandbox = runtime.block_on(client.create(spec())).unwrap();
    let mut process = runtime.block_on(sandbox.start(any())).unwrap();
    let files = sandbox.files();
    let begun = Instant::now();
    let forked = match fork::fork().unwrap() {
        Fork::Parent(pid) => fork::waitpid(pid).unwrap() == 0,
        Fork::Child => {
            let answers = block_on(async {
                [
                    ("close", says_forked(sandbox.close().await)),
                    ("start", says_forked(sandbox.start(any()).await)),
                    ("run", says_forked(sandbox.run(any()).await)),
                    ("detach", says_forked(sandbox.detach().await)),
                    ("next", says_forked(process.next().await)),
                    ("wait", says_forked(process.wait().await)),
                    ("kill", says_forked(process.kill().await)),
                    ("close the client", says_forked(client.close().await)),
                    ("destroy", says_forked(client.destroy("x").await)),
                    ("probe", says_forked(client.probe(&spec()).await)),
                    ("stat", says_forked(files.stat("/x").await)),
                ]
            });
            let said = answers.iter().all(|(_, said)| *said);
            if !said {
                eprintln!("{answers:?}");
            }
            let told =
                sandbox.id().as_str() == "s" && client.facts().name() == "scripted" && client.orphans().is_empty();
            drop((process, files, sandbox, client));
            #[expect(clippy::disallowed_methods, reason = "the child must not go on as a test harness")]
            std::process::exit(i32::from(!(said && told && begun.elapsed() < ms(5000))))
        }
    };
    assert!(forked);
    assert_eq!(log.count("kill") + log.count("destroy"), 0, "{:?}", log.all());
    drop((process, files, sandbox, client));
    assert_eq!(log.count("destroyed"), 1);
}
