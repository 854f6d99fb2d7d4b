//! What the facade costs, beside the raw adapter: one JSON line a figure on stdout.

use bytes::Bytes;
use sandbox::{Client, Command, ProcessEvent, Spec};
use sandbox_core::{
    Attempt, Backend, Capability, Control, Ended, Event, Events, Exec, Facts, Instance, Made, Result, SandboxId, Status,
};
use std::{
    future::Future,
    time::{Duration, Instant},
};

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        run(RUNS).await?;
        stream(BYTES).await
    })
}

/// A whole command over an adapter that answers at once.
async fn run(runs: usize) -> Result<()> {
    let raw = timed(runs, async || {
        let room = Quick { pieces: 1, size: 3 };
        let (_control, mut events) = room.spawn(&Exec::new(["x"])).await?;
        while events.next().await?.is_some() {}
        Ok(())
    });
    let raw = raw.await?;
    let client = Client::new(Quick { pieces: 1, size: 3 })?;
    let sandbox = client.create(Spec::new()).await?;
    let facade = timed(runs, async || sandbox.run(Command::new("x")).await.map(drop)).await?;
    print("run", "microseconds", micros(facade.0), Some(micros(facade.1)), runs as u64, Some(micros(raw.0)));
    sandbox.close().await
}

/// One stream, in pieces as a socket gives them.
async fn stream(bytes: u64) -> Result<()> {
    let room = Quick { pieces: bytes / PIECE as u64, size: PIECE };
    let begun = Instant::now();
    let (_control, mut events) = room.spawn(&Exec::new(["x"])).await?;
    while events.next().await?.is_some() {}
    let raw = rate(bytes, begun.elapsed());
    let client = Client::new(room)?;
    let sandbox = client.create(Spec::new()).await?;
    let before = peak();
    let begun = Instant::now();
    let mut process = sandbox.start(Command::new("x")).await?;
    let mut seen = 0;
    while let Some(event) = process.next().await? {
        if let ProcessEvent::Stdout(bytes) = event {
            seen += bytes.len() as u64;
        }
    }
    assert_eq!(seen, bytes, "nothing is lost");
    print("stream", "gigabytes per second", rate(bytes, begun.elapsed()), None, 1, Some(raw));
    print(
        "stream memory",
        "mebibytes more at the peak",
        (peak().saturating_sub(before)) as f64 / 1024.0,
        None,
        1,
        None,
    );
    sandbox.close().await
}

/// Median and 95th percentile.
async fn timed(runs: usize, work: impl AsyncFn() -> Result<()>) -> Result<(Duration, Duration)> {
    for _ in 0..runs / 10 {
        work().await?;
    }
    let mut all = Vec::with_capacity(runs);
    for _ in 0..runs {
        let begun = Instant::now();
        work().await?;
        all.push(begun.elapsed());
    }
    all.sort_unstable();
    Ok((all[runs / 2], all[runs * 95 / 100]))
}

#[expect(clippy::print_stdout, reason = "its output is its result")]
fn print(name: &str, unit: &str, median: f64, p95: Option<f64>, n: u64, raw: Option<f64>) {
    let figure = serde_json::json!({ "name": name, "unit": unit, "median": median, "p95": p95, "n": n, "raw": raw });
    println!("{figure}");
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}

fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e9
}

/// The process's peak of resident memory, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}

/// An adapter that answers at once.
#[derive(Clone, Copy)]
struct Quick {
    pieces: u64,
    size: usize,
}

impl Backend for Quick {
    type Instance = Self;
    fn info(&self) -> Facts {
        use Capability::*;
        Facts::new("quick").native([Run, Argv, Stream, StreamExact, KillOne, ProcessTree, Deadline, Deny])
    }
    async fn create(&self, _: &Spec, _: &Attempt) -> Result<Made<Self>> {
        Ok(Made::new(SandboxId::new("quick"), *self))
    }
    async fn destroy(&self, _: &SandboxId) -> Result<()> {
        Ok(())
    }
}

impl Instance for Quick {
    type Control = Nothing;
    type Events = Pieces;
    fn spawn(&self, _: &Exec) -> impl Future<Output = Result<(Nothing, Pieces)>> + Send {
        let piece = Bytes::from(vec![b'x'; self.size]);
        let left = self.pieces;
        async move { Ok((Nothing, Pieces { left, piece, ended: false })) }
    }
}

struct Nothing;

impl Control for Nothing {}

struct Pieces {
    left: u64,
    piece: Bytes,
    ended: bool,
}

impl Events for Pieces {
    async fn next(&mut self) -> Result<Option<Event>> {
        if self.left > 0 {
            self.left -= 1;
            return Ok(Some(Event::Stdout(self.piece.clone())));
        }
        if self.ended {
            return Ok(None);
        }
        self.ended = true;
        Ok(Some(Event::Ended(Ended::program(Status::Code(0)))))
    }
}

const RUNS: usize = 20_000;
const BYTES: u64 = 4 << 30;
const PIECE: usize = 64 << 10;
