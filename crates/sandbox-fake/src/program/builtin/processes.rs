//! What needs processes: `true`, `false`, `exit`, `sleep`, `hang`, `kill`, `die`, `segv`, `ignore-term`, `spawn-child`, `setsid`,
//! `daemon`, `ps`, `alive`, `zombies`.

use super::{Proc, Set, complain, seconds, usage};
use crate::program::Fork;
use sandbox_core::Signal;

const TERM: i32 = Signal::Terminate.number();

pub(super) fn add(set: &mut Set) {
    set.add("true", |_| async { 0 });
    set.add("false", |_| async { 1 });
    set.add("exit", |p| async move {
        match p.arg(1).map_or(Some(0), |code| code.parse().ok()) {
            Some(code) => code,
            None => usage(&p, "exit [CODE]").await,
        }
    });
    set.add("sleep", |p| async move {
        match p.arg(1).and_then(seconds) {
            Some(time) => {
                p.sleep(time).await;
                0
            }
            None => usage(&p, "sleep SECONDS").await,
        }
    });
    set.add("hang", |p| async move {
        p.hang().await;
        0
    });
    set.add("kill", |p| async move {
        let (signal, pid) = match p.argv() {
            [_, signal, pid] => (signal.strip_prefix('-').and_then(|signal| signal.parse().ok()), pid.parse().ok()),
            [_, pid] => (Some(TERM), pid.parse().ok()),
            _ => (None, None),
        };
        match (signal, pid) {
            (Some(signal), Some(pid)) if p.kill(pid, signal) => 0,
            (Some(_), Some(_)) => complain(&p, "no such process").await,
            _ => usage(&p, "kill [-SIGNAL] PID").await,
        }
    });
    set.add("die", |p| async move {
        match p.arg(1).and_then(|signal| signal.parse().ok()) {
            Some(signal) => {
                p.raise(signal).await;
                0
            }
            None => usage(&p, "die SIGNAL").await,
        }
    });
    set.add("segv", |p| async move {
        p.raise(11).await;
        0
    });
    set.add("ignore-term", |p| async move {
        p.ignore(TERM);
        if p.argv().len() < 2 {
            p.hang().await;
        }
        run(&p, |fork| fork).await
    });
    set.add("spawn-child", |p| async move { run(&p, |fork| fork).await });
    set.add("setsid", |p| async move { run(&p, Fork::session).await });
    set.add("daemon", |p| async move {
        if p.argv().len() < 2 {
            return usage(&p, "daemon PROGRAM [ARGUMENT]…").await;
        }
        match p.start(Fork::program(&p.argv()[1..]).daemon()) {
            Ok(_) => 0,
            Err(error) => complain(&p, &error.to_string()).await,
        }
    });
    set.add("ps", |p| async move {
        let all = p.kernel().with(|state, _| {
            let room = state.rooms.get(&p.room());
            let line = |(pid, process): (&u32, &crate::world::Process)| {
                format!("{pid} {} {}\n", process.parent, process.argv.join(" "))
            };
            room.map(|room| room.processes.iter().map(line).collect::<String>()).unwrap_or_default()
        });
        p.print(all).await;
        0
    });
    set.add("alive", |p| async move {
        let Some(marker) = p.var("MARK").map(str::to_string) else { return usage(&p, "MARK=TEXT alive").await };
        let alive = p.kernel().with(|state, _| {
            let room = state.rooms.get(&p.room());
            let marked = |process: &&crate::world::Process| process.argv.iter().any(|arg| arg.contains(&marker));
            room.map_or(0, |room| room.processes.values().filter(marked).count())
        });
        p.print(format!("{alive}\n")).await;
        0
    });
    set.add("zombies", |p| async move {
        let zombies = p.kernel().with(|state, _| state.rooms.get(&p.room()).map_or(0, |room| room.zombies.len()));
        p.print(format!("{zombies}\n")).await;
        0
    });
}

/// Runs the rest of the command line as a child, and ends as it ends.
async fn run(p: &Proc, how: impl FnOnce(Fork) -> Fork) -> i32 {
    if p.argv().len() < 2 {
        return usage(p, "NAME PROGRAM [ARGUMENT]…").await;
    }
    match p.start(how(Fork::program(&p.argv()[1..]))) {
        Ok(child) => child.wait().await.as_code(),
        Err(error) => {
            complain(p, &error.to_string()).await;
            if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
        }
    }
}
