//! Memory, measured from outside: the test program itself, started once more, does the transfer and nothing else.

use crate::{
    Ctx, Labels,
    ctx::World,
    expect::{ensure, expect_eq, fail, unproven},
    row::{Done, Stop},
    settings::Settings,
    subject::Make,
};
use bytes::Bytes;
use sandbox::{Body, Chunks, Sandbox};
use sandbox_core::{Result, Status};
use std::{
    env, fs,
    io::{self, BufRead, BufReader, Write},
    process::{Child, Command, ExitCode, Stdio},
    sync::{
        OnceLock,
        mpsc::{Receiver, TryRecvError, channel},
    },
    thread,
    time::Duration,
};

/// What the child moves.
#[derive(Debug, Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(crate) enum Job {
    /// Output of a `run` with a small limit.
    Output,
    /// Output that nobody reads for a while, and then reads slowly.
    SlowReader,
    /// A file into the sandbox, from a stream.
    Upload,
    /// A file out of the sandbox, as a stream.
    Download,
}

/// What is moved, in bytes.
const SIZE: u64 = 256 << 20;
/// What memory may grow by meanwhile. Pieces under way are bounded by number, so this is not little.
const MOST: u64 = 96 << 20;

/// Fails the row if the job makes memory grow beyond the bound.
pub(crate) async fn bounded(cx: &Ctx, job: Job) -> Done {
    if cx.facts().largest_output().is_some_and(|most| most < SIZE) && matches!(job, Job::Output | Job::SlowReader) {
        unproven!("the wire carries less than {SIZE} bytes of a stream, so memory is bounded by that");
    }
    if HARNESS.get().is_none() {
        unproven!("memory is measured in a second process, where `contract_suite!` is the test program");
    }
    if resident().is_none() {
        unproven!("memory is read from /proc, which this host does not have");
    }
    let mut measured = start(&Order { job, labels: cx.labels().clone() })
        .map_err(|error| Stop::fail(format_args!("no second process: {error}")))?;
    let made = measured.said(cx, 120, "the second process's create").await?;
    ensure!(made == "made", "the second process said {made:?}");
    if cx.can_count() && cx.count().await? == 0 {
        unproven!("sandboxes of this backend live in the process that uses them, so its memory says nothing");
    }
    measured.go_on()?;
    let said = measured.said(cx, 150, "the transfer in the second process").await?;
    let mut numbers = said.strip_prefix("grew ").unwrap_or_default().split(' ').map(str::parse::<u64>);
    let (Some(Ok(grew)), Some(Ok(control))) = (numbers.next(), numbers.next()) else {
        fail!("the second process said {said:?}")
    };
    if control < SIZE {
        unproven!("held {SIZE} bytes on purpose, and the measure saw {control}");
    }
    cx.note(format_args!("memory grew by {grew} bytes; by {control} where all was held on purpose"));
    ensure!(grew <= MOST, "{job:?} of {SIZE} bytes made memory grow by {grew}; at most {MOST} are granted");
    Ok(())
}

/// Says in a child what it is to do, as JSON.
const VARIABLE: &str = "SANDBOX_CONTRACT_MEASURE";

/// That this program is a contract suite, so that started once more it is one again.
static HARNESS: OnceLock<()> = OnceLock::new();

#[derive(serde::Serialize, serde::Deserialize)]
struct Order {
    job: Job,
    /// Of the row's trial, so that its sandbox is counted and swept with the row's own.
    labels: Labels,
}

struct Measured {
    child: Child,
    said: Receiver<String>,
}

fn start(order: &Order) -> io::Result<Measured> {
    let mut child = Command::new(env::current_exe()?)
        .env(VARIABLE, serde_json::to_string(order)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (tell, said) = channel();
    if let Some(out) = child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(io::Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
    }
    Ok(Measured { child, said })
}

impl Measured {
    async fn said(&mut self, cx: &Ctx, seconds: u64, what: &str) -> Result<String, Stop> {
        let said = async {
            loop {
                match self.said.try_recv() {
                    Ok(line) => return Ok(line),
                    Err(TryRecvError::Disconnected) => {
                        return Err(Stop::fail(format_args!("{what}: the second process ended without a word")));
                    }
                    Err(TryRecvError::Empty) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        };
        cx.within(seconds, what, said).await?
    }

    fn go_on(&mut self) -> Done {
        let told = self.child.stdin.take().map(|mut input| input.write_all(b"go\n"));
        match told {
            Some(Ok(())) => Ok(()),
            other => fail!("the second process does not listen: {other:?}"),
        }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        // It closes its client before it ends, once it has said all or hears that nobody listens; else it is stuck.
        drop(self.child.stdin.take());
        for _ in 0..100 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// What a child does in place of the suite; `None` where this is no child.
pub(crate) fn run(make: &Make, settings: &Settings) -> Option<ExitCode> {
    let order: Option<Order> = env::var(VARIABLE).ok().and_then(|text| serde_json::from_str(&text).ok());
    let Some(order) = order else {
        _ = HARNESS.set(());
        return None;
    };
    let done = obey(order, make, settings);
    if let Err(stop) = &done {
        say(&format!("failed {stop:?}").replace('\n', " "));
    }
    Some(if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn obey(order: Order, make: &Make, settings: &Settings) -> Done {
    let cx = Ctx::new(Make::clone(make), make()?, order.labels, settings.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| Stop::fail(format_args!("no runtime: {error}")))?;
    runtime.block_on(async {
        // Longer than the row waits; with the row gone, this process ends by itself.
        let done = cx.within(240, "the job", moved(&cx, order.job)).await;
        cx.within(60, "close of the client", cx.client().close()).await??;
        done?
    })
}

async fn moved(world: &World, job: Job) -> Done {
    let sandbox = world.sandbox().await?;
    world.text(&sandbox, world.probes().echo("warm")).await?;
    let path = format!("{}/contract-large", sandbox.cwd().trim_end_matches('/'));
    if let Job::Download = job {
        sandbox.files().write_from(&path, source()).await?;
    }
    say("made");
    if io::stdin().lines().next().is_none() {
        // The row has what it wanted to know.
        sandbox.close().await?;
        return Ok(());
    }
    let before = settled();
    match job {
        Job::Output => output(world, &sandbox).await?,
        Job::SlowReader => slow_reader(world, &sandbox).await?,
        Job::Upload => {
            sandbox.files().write_from(&path, source()).await?;
        }
        Job::Download => download(&sandbox, &path).await?,
    }
    let grew = peak().saturating_sub(before);
    if let Job::Upload = job {
        // Outside the measure: that all of it has arrived.
        expect_eq!(sandbox.files().stat(&path).await?.size, SIZE, "the size of the file");
    }
    let before = settled();
    let all = vec![1_u8; usize::try_from(SIZE).unwrap_or(0) + (8 << 20)];
    let control = peak().saturating_sub(before);
    ensure!(std::hint::black_box(&all).last() == Some(&1), "the control is gone");
    sandbox.close().await?;
    say(&format!("grew {grew} {control}"));
    Ok(())
}

async fn output(world: &World, sandbox: &Sandbox) -> Done {
    let command = world.probes().flood(SIZE).output_limit(1 << 20).timeout(world.secs(140));
    let output = sandbox.run(command).await?;
    expect_eq!(output.status, Status::Code(3), "the status");
    expect_eq!(output.stdout.dropped, SIZE - (1 << 20), "bytes dropped");
    Ok(())
}

async fn slow_reader(world: &World, sandbox: &Sandbox) -> Done {
    let mut process = sandbox.start(world.probes().flood(SIZE).timeout(world.secs(140))).await?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    world.text(sandbox, world.probes().echo("beside")).await?;
    let mut bytes = 0;
    while let Some(event) = process.next().await? {
        if let sandbox::ProcessEvent::Stdout(piece) = event {
            bytes += piece.len() as u64;
        }
    }
    expect_eq!((bytes, process.wait().await?), (SIZE, Status::Code(3)), "bytes read in the end, and the status");
    Ok(())
}

async fn download(sandbox: &Sandbox, path: &str) -> Done {
    let mut body = sandbox.files().open(path).await?;
    let mut bytes = 0;
    while let Some(piece) = body.next().await? {
        bytes += piece.len() as u64;
        if bytes < (8 << 20) {
            // Somebody who is slow at first.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    expect_eq!(bytes, SIZE, "bytes read");
    Ok(())
}

/// As much as is moved, made piece by piece.
fn source() -> Body {
    struct Source(u64);
    impl Chunks for Source {
        async fn next(&mut self) -> Result<Option<Bytes>> {
            let size = self.0.min(128 << 10);
            self.0 -= size;
            Ok((size > 0).then(|| Bytes::from(vec![0x5a; usize::try_from(size).unwrap_or(0)])))
        }
    }
    Body::new(Some(SIZE), Source(SIZE))
}

#[expect(clippy::print_stdout, reason = "the second process speaks to the first")]
fn say(line: &str) {
    println!("{line}");
    _ = io::stdout().flush();
}

/// What is resident now, after the peak was set back to it.
fn settled() -> u64 {
    // Where this is refused, the peak is that of the whole life, which is only stricter.
    _ = fs::write("/proc/self/clear_refs", "5");
    resident().unwrap_or(0)
}

fn resident() -> Option<u64> {
    line("VmRSS:")
}

fn peak() -> u64 {
    line("VmHWM:").unwrap_or(0)
}

fn line(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(kib.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}
