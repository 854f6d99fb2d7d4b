//! Child processes that end in time, together with everything that they started.

use std::{
    process::{Child, Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

/// The variable that marks a process tree. Whoever inherits the environment inherits the mark, also a daemon that left
/// its session and its parent; whoever drops it is found as a child of the tree. Out of sight is only what dropped both
/// on purpose, and so what is meant to outlive its command is started without the variable.
pub(crate) const VARIABLE: &str = "XTASK_TREE";

const POLL: Duration = Duration::from_millis(50);
/// How long SIGKILL may take to show.
const KILLED: Duration = Duration::from_secs(10);

/// A process tree that can be found again.
#[derive(Debug)]
pub(crate) struct Tree {
    mark: String,
}

/// How a command of a tree ended.
#[derive(Debug)]
pub(crate) enum End {
    Exited(ExitStatus),
    OutOfTime,
}

impl Tree {
    pub(crate) fn new() -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        Self { mark: format!("{}-{now}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)) }
    }

    /// Runs one command of the tree to its end. At the deadline every process of the tree gets SIGTERM, and SIGKILL
    /// when `grace` has passed.
    pub(crate) fn run(&self, command: &mut Command, deadline: Instant, grace: Duration) -> Result<End> {
        // A tree inside a tree belongs to both.
        let outer = std::env::var(VARIABLE).unwrap_or_default();
        command.env(VARIABLE, format!("{outer}:{}", self.mark)).stdin(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
        if let Some(status) = wait(&mut child, deadline)? {
            return Ok(End::Exited(status));
        }
        self.end(grace);
        // Where trees cannot be listed, the command itself is still ended.
        child.kill().context("cannot kill a command whose time is over")?;
        child.wait().context("cannot wait for a killed command")?;
        Ok(End::OutOfTime)
    }

    /// Ends what is left of the tree and tells what it was: `name (pid)`.
    pub(crate) fn end(&self, grace: Duration) -> Vec<String> {
        // Whoever was seen once is remembered: its parent, by which it was found, may be the first to go.
        let mut seen = listing::members(&self.mark, &[]);
        if seen.is_empty() {
            return Vec::new();
        }
        let names = seen.iter().map(|member| format!("{} ({})", member.name, member.pid)).collect();
        seen.iter().for_each(listing::terminate);
        let asked = Instant::now();
        while asked.elapsed() < grace && !seen.is_empty() {
            thread::sleep(POLL);
            seen = listing::members(&self.mark, &seen);
        }
        let killed = Instant::now();
        // Processes may be forked while the list is read, so it is read again until it is empty.
        while !seen.is_empty() && killed.elapsed() < KILLED {
            seen.iter().for_each(listing::kill);
            thread::sleep(POLL);
            seen = listing::members(&self.mark, &seen);
        }
        names
    }

    /// Waits up to `patience` for the tree to be gone by itself.
    pub(crate) fn settle(&self, patience: Duration) {
        let start = Instant::now();
        while start.elapsed() < patience && !listing::members(&self.mark, &[]).is_empty() {
            thread::sleep(POLL);
        }
    }
}

/// Runs a command that prints little and returns what it printed; it is killed at the limit.
pub(crate) fn output_within(command: &mut Command, limit: Duration) -> Result<Output> {
    let program = command.get_program().to_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {program:?}"))?;
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    let Some(status) = wait(&mut child, Instant::now() + limit)? else {
        child.kill().with_context(|| format!("cannot kill {program:?}"))?;
        child.wait().with_context(|| format!("cannot wait for {program:?}"))?;
        bail!("{program:?} did not end within {} s", limit.as_secs());
    };
    let text = |reader: Option<thread::JoinHandle<Vec<u8>>>| reader.and_then(|reader| reader.join().ok());
    Ok(Output { status, stdout: text(stdout).unwrap_or_default(), stderr: text(stderr).unwrap_or_default() })
}

fn wait(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a command")? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

fn collect(mut pipe: impl std::io::Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A broken pipe ends the text; the exit status tells the rest.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

#[cfg(target_os = "linux")]
mod listing {
    use std::{collections::BTreeSet, fs};

    use rustix::process::{Pid, Signal, kill_process};

    #[derive(Debug)]
    pub(super) struct Member {
        pub(super) pid: i32,
        pub(super) name: String,
        parent: i32,
        /// In clock ticks since boot; with the number it names one process for good.
        started: u64,
        marked: bool,
    }

    /// Every live process that carries the mark or was seen before, and every descendant of one.
    pub(super) fn members(mark: &str, seen: &[Member]) -> Vec<Member> {
        let known: BTreeSet<_> = seen.iter().map(|member| (member.pid, member.started)).collect();
        let mut all: Vec<Member> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|pid| read(pid, mark))
            .collect();
        let mut ours: BTreeSet<i32> = all
            .iter()
            .filter(|member| member.marked || known.contains(&(member.pid, member.started)))
            .map(|member| member.pid)
            .collect();
        loop {
            let before = ours.len();
            ours.extend(
                all.iter().filter(|member| ours.contains(&member.parent)).map(|member| member.pid).collect::<Vec<_>>(),
            );
            if ours.len() == before {
                break;
            }
        }
        all.retain(|member| ours.contains(&member.pid));
        all
    }

    pub(super) fn terminate(member: &Member) {
        signal(member, Signal::TERM);
    }

    pub(super) fn kill(member: &Member) {
        signal(member, Signal::KILL);
    }

    fn signal(member: &Member, signal: Signal) {
        if let Some(pid) = Pid::from_raw(member.pid) {
            // It may have ended since it was listed; whoever survives is listed again.
            let _ = kill_process(pid, signal);
        }
    }

    fn read(pid: i32, mark: &str) -> Option<Member> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (head, tail) = stat.rsplit_once(") ")?;
        let mut fields = tail.split(' ');
        // A zombie runs nothing, and only its parent can remove it.
        if matches!(fields.next()?, "Z" | "X") {
            return None;
        }
        let parent = fields.next()?.parse().ok()?;
        // Field 22 of the file; field 5 comes next.
        let started = fields.nth(17)?.parse().ok()?;
        let name = head.split_once('(')?.1.to_string();
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let marked = environ.windows(mark.len()).any(|window| window == mark.as_bytes());
        Some(Member { pid, name, parent, started, marked })
    }
}

/// Elsewhere a tree cannot be listed: only the command itself is ended.
#[cfg(not(target_os = "linux"))]
mod listing {
    #[derive(Debug)]
    pub(super) struct Member {
        pub(super) pid: i32,
        pub(super) name: String,
    }

    pub(super) fn members(_mark: &str, _seen: &[Member]) -> Vec<Member> {
        Vec::new()
    }

    pub(super) fn terminate(_member: &Member) {}

    pub(super) fn kill(_member: &Member) {}
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(200);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn sleeping(seconds: &str) -> usize {
        let wanted = format!("sleep\0{seconds}\0");
        let is = |entry: std::io::Result<std::fs::DirEntry>| {
            std::fs::read(entry.ok()?.path().join("cmdline")).ok().filter(|line| line == wanted.as_bytes())
        };
        std::fs::read_dir("/proc").into_iter().flatten().filter_map(is).count()
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(700)
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn an_exit_in_time_keeps_its_status() {
        let end = Tree::new().run(&mut shell("exit 7"), later(), GRACE).unwrap();
        assert!(matches!(end, End::Exited(status) if status.code() == Some(7)), "{end:?}");
    }

    #[test]
    fn the_limit_ends_the_tree_and_spares_a_neighbour() {
        let (tree, neighbour) = (Tree::new(), Tree::new());
        neighbour.run(&mut shell("setsid sleep 301 >/dev/null 2>&1 &"), later(), GRACE).unwrap();
        // One child keeps the session, one leaves it, one also drops the environment and ignores SIGTERM.
        let script = "sleep 302 & setsid sleep 303 & env -i sh -c 'trap \"\" TERM; sleep 304 & wait' & wait";
        let start = Instant::now();
        let end = tree.run(&mut shell(script), soon(), GRACE).unwrap();
        assert!(matches!(end, End::OutOfTime), "{end:?}");
        assert_eq!(sleeping("304"), 0, "the one without the mark survived");
        assert!(start.elapsed() < Duration::from_secs(40), "took {:?}", start.elapsed());
        assert!(tree.end(GRACE).is_empty());
        let left = neighbour.end(GRACE);
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(left[0].starts_with("sleep ("), "{left:?}");
    }

    #[test]
    fn leftovers_of_a_finished_command_are_named_and_ended() {
        let tree = Tree::new();
        tree.run(&mut shell("setsid sleep 305 >/dev/null 2>&1 &"), later(), GRACE).unwrap();
        tree.settle(GRACE);
        assert_eq!(tree.end(GRACE).len(), 1);
        assert!(tree.end(GRACE).is_empty());
    }

    #[test]
    fn output_is_collected_or_cut_at_the_limit() {
        let output = output_within(&mut shell("echo out; echo err >&2"), Duration::from_secs(60)).unwrap();
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
        let error = output_within(Command::new("sleep").arg("306"), Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("did not end within"), "{error}");
    }
}
