//! A sandbox is handed over once it is ready.

use crate::{Command, Sandbox};
use sandbox_core::{Capability, Captured, Error, ErrorKind, Listening, PartialOutput, Ready, Result, Spec};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Waits until it is, and no longer than the create timeout.
pub(crate) async fn ready(sandbox: &Sandbox, spec: &Spec) -> Result<()> {
    let Some(ready) = &spec.ready else { return Ok(()) };
    let (begun, limit) = (Instant::now(), spec.effective_create_timeout());
    let (mut pause, mut last) = (Duration::from_millis(50), String::new());
    loop {
        let left = limit.saturating_sub(begun.elapsed()).max(Duration::from_millis(1)).min(sandbox.longest_command());
        let look = match ready {
            // Boxed: few creates wait, and the futures of all would have room for it.
            Ready::Command(argv) => Box::pin(command(sandbox, argv, left)).await?,
            Ready::Port(port) => Box::pin(listens(sandbox, *port)).await?,
            other => return Err(Error::new(ErrorKind::Internal, format!("{other:?} is not known here"))),
        };
        match look {
            Look::Ready => return Ok(()),
            Look::Not(why) => last = why,
            // What an earlier look saw says more than nothing.
            Look::Nothing if last.is_empty() => last = "nothing was seen".into(),
            Look::Nothing => {}
        }
        if begun.elapsed() + pause >= limit {
            let message = format!("the sandbox was not ready within {limit:?}: {last}");
            return Err(Error::new(ErrorKind::CreateTimeout, message)
                .with_hint("raise the spec's `create_timeout`, or look at what keeps it"));
        }
        sandbox.lease()?.spawner.pause(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

enum Look {
    Ready,
    Not(String),
    Nothing,
}

async fn command(sandbox: &Sandbox, argv: &[String], left: Duration) -> Result<Look> {
    let command = Command::new(argv[0].clone()).args(argv[1..].iter().cloned()).output_limit(4096).timeout(left);
    match sandbox.run(command).await {
        Ok(output) if output.success() => Ok(Look::Ready),
        Ok(output) => Ok(Look::Not(diagnosis(&output.status.to_string(), &output.stdout, &output.stderr))),
        Err(error) if error.kind() == ErrorKind::ExecutionTimeout => {
            let wrote = error.output().filter(|partial| **partial != PartialOutput::default());
            Ok(wrote.map_or(Look::Nothing, |partial| {
                Look::Not(diagnosis("it was not over in time", &partial.stdout, &partial.stderr))
            }))
        }
        Err(error) => Err(failed("the ready command did not run", error)
            .with_hint("the spec's `ready` has to be a program of the image")),
    }
}

async fn listens(sandbox: &Sandbox, port: u16) -> Result<Look> {
    let asked = match sandbox.facts().is_native(Capability::Ports) {
        true => natively(sandbox, port).await,
        false => by_table(sandbox, port).await,
    };
    match asked {
        Ok(true) => Ok(Look::Ready),
        Ok(false) => Ok(Look::Not(format!("nobody listens at port {port}"))),
        Err(error) => Err(failed("whether a port is listened at could not be seen", error)
            .with_hint("wait for a command with the spec's `ready` instead")),
    }
}

async fn natively(sandbox: &Sandbox, port: u16) -> Result<bool> {
    let lease = sandbox.lease()?;
    let instance = Arc::clone(&lease.instance);
    let work = async move { instance.get().is_listening(&Listening::new(port)).await };
    lease.spawner.operate("a look at a port", Some(Arc::clone(&lease.life)), work).await
}

/// By the tables of sockets that Linux shows to every program.
async fn by_table(sandbox: &Sandbox, port: u16) -> Result<bool> {
    let files = sandbox.files();
    if is_in_table(&files.read_text("/proc/net/tcp").await?, port) {
        return Ok(true);
    }
    match files.read_text("/proc/net/tcp6").await {
        Ok(table) => Ok(is_in_table(&table, port)),
        // A kernel without IPv6 has no such table.
        Err(error) if error.kind() == ErrorKind::PathNotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// `sl local_address rem_address st …`; addresses are `HEX:PORT`, and 0A is the state of who listens (Linux,
/// `Documentation/networking/proc_net_tcp.rst`).
fn is_in_table(table: &str, port: u16) -> bool {
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next(), fields.nth(1));
        let at = local.and_then(|local| local.rsplit_once(':')).and_then(|(_, at)| u16::from_str_radix(at, 16).ok());
        at == Some(port) && state == Some("0A")
    })
}

/// The end of the sandbox, and of the way to it, keep their kinds.
fn failed(what: &str, error: Error) -> Error {
    let kind = match error.kind() {
        ErrorKind::Gone | ErrorKind::ConnectionLost | ErrorKind::Unavailable => error.kind(),
        _ => ErrorKind::CreateFailed,
    };
    Error::new(kind, format!("{what}: {}", error.message())).with_source(error)
}

fn diagnosis(end: &str, stdout: &Captured, stderr: &Captured) -> String {
    format!("{end}; the ready command wrote {:?}", [stdout.text(), stderr.text()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_listens_is_found() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \x20  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1\n\
            \x20  1: 0100007F:1F91 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 2 1\n\
            \x20  2: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 3 1\n";
        assert!(is_in_table(table, 8080) && is_in_table(table, 22));
        assert!(!is_in_table(table, 8081) && !is_in_table(table, 80) && !is_in_table("", 8080));
    }
}
