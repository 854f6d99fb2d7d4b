//! What the engine knows of an exec.

use crate::{
    error::{self, Meaning},
    wire::{self, Link},
};
use bollard::query_parameters::EventsOptionsBuilder;
use futures_util::StreamExt;
use sandbox_core::Result;
use std::{collections::HashMap, pin::pin, time::Duration};
use tokio::time::{sleep, timeout};

/// What the engine says of an exec.
pub(crate) enum Look {
    Starting,
    Running,
    NotStarted,
    Ended(i32),
    /// Its container ended, and the program with it.
    Died,
    /// The engine could not deliver output, because the stream was cut on the way.
    Cut,
}

/// Asks the engine.
pub(crate) async fn look(link: &Link, exec: &str) -> Result<Look> {
    let found = link.docker.inspect_exec(exec).await;
    let now = found.map_err(|wire| error::fault("asking about the command", Meaning::EXEC, wire))?;
    let pid = now.pid.unwrap_or(0);
    Ok(match (now.running.unwrap_or(false), now.exit_code) {
        // A code only counts when it no longer runs; but one that is there before says that the engine gave it up.
        (true, Some(126)) if pid != 0 => Look::Cut,
        (true, _) if pid == 0 => Look::Starting,
        (true, _) => Look::Running,
        (false, None) => Look::Starting,
        (false, Some(126 | 127)) if pid == 0 => Look::NotStarted,
        // The code that a program may have, and that the engine writes down when it gives up a stream.
        (false, Some(126)) if given_up(link, exec, now.container_id.as_deref(), pid).await => Look::Cut,
        // The first sign of a container's own death. Such a code is no exit.
        (false, Some(137)) if dies(link, now.container_id.as_deref()).await => Look::Died,
        (false, Some(code)) => Look::Ended(i32::try_from(code).unwrap_or(i32::MAX)),
    })
}

/// Whether the engine gave up the stream of an exec that it calls ended with 126. Then it no longer heard of the program's
/// own end: its event carries another code, or the program is still there.
async fn given_up(link: &Link, exec: &str, container: Option<&str>, pid: i64) -> bool {
    let Some(container) = container.filter(|id| wire::sound(id)) else { return false };
    let filters = HashMap::from([("container", vec![container]), ("event", vec!["exec_die"])]);
    // Since a moment long ago, by whatever clock: the engine keeps its latest few hundred events.
    let options = EventsOptionsBuilder::default().since("1").filters(&filters).build();
    let mut events = pin!(link.docker.events(Some(options)));
    let code = async {
        while let Some(Ok(event)) = events.next().await {
            let said = event.actor.and_then(|actor| actor.attributes).unwrap_or_default();
            if said.get("execID").is_some_and(|id| id == exec) {
                return said.get("exitCode").cloned();
            }
        }
        None
    };
    if let Ok(Some(code)) = timeout(Duration::from_secs(1), code).await {
        return code != "126";
    }
    command_of(link, container, pid).await.is_some()
}

/// Whether a container ends, or has ended. The engine hears of the end of its execs first, so a while is given to it.
async fn dies(link: &Link, container: Option<&str>) -> bool {
    let Some(container) = container.filter(|id| wire::sound(id)) else { return false };
    for round in 0..5 {
        let Ok(found) = link.docker.inspect_container(container, None).await else { return true };
        let state = found.state.unwrap_or_default();
        if state.running != Some(true) {
            return true;
        }
        // While the kernel ends the others, the first process is there, and has no command line any more.
        match command_of(link, container, state.pid.unwrap_or(0)).await {
            Some(command) if round > 0 && !command.starts_with('[') => return false,
            _ => sleep(Duration::from_millis(100)).await,
        }
    }
    false
}

/// The command line of a process of a container; `None` where there is no such process.
async fn command_of(link: &Link, container: &str, pid: i64) -> Option<String> {
    let top = link.docker.top_processes(container, None).await.ok()?;
    let titles = top.titles?;
    let column = |name: &str| titles.iter().position(|title| title == name);
    let (pids, commands) = (column("PID")?, column("CMD").or_else(|| column("COMMAND"))?);
    let pid = pid.to_string();
    let row = top.processes?.into_iter().find(|row| row.get(pids) == Some(&pid))?;
    row.into_iter().nth(commands)
}
