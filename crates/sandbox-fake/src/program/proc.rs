//! What a program sees of its process.

use super::{Caught, Child, Fork, wait::Sleep};
use crate::{
    fs::{Content, Device, Fs, Opened},
    image::User,
    program::join,
    world::{Env, Kernel, Launch, Sink, Source, Stream, lock, shown},
};
use bytes::{Bytes, BytesMut};
use sandbox_core::{FileInfo, PtySize, Resources};
use std::{
    fmt,
    future::{pending, poll_fn},
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

/// After so many operations that did not have to wait, a program gives way to others.
const SHARE: u32 = 128;

/// How much one read takes.
const READ: usize = 64 << 10;

/// A process, as its own program sees it. Clones are the same process.
///
/// All that waits is a future that ends with the process: a program that is killed is dropped at its next await. Programs
/// must not block, and must not wait for real time: for the virtual clock they are idle then.
#[derive(Clone)]
pub struct Proc(Arc<Inner>);

struct Inner {
    kernel: Arc<Kernel>,
    room: u64,
    pid: u32,
    argv: Arc<[String]>,
    env: Env,
    cwd: String,
    user: User,
    files: Arc<Mutex<Fs>>,
    operations: AtomicU32,
}

impl Proc {
    pub(crate) fn new(kernel: &Arc<Kernel>, room: u64, pid: u32, launch: &Launch, files: &Arc<Mutex<Fs>>) -> Self {
        Self(Arc::new(Inner {
            kernel: Arc::clone(kernel),
            room,
            pid,
            argv: Arc::clone(&launch.argv),
            env: Arc::clone(&launch.env),
            cwd: launch.cwd.clone(),
            user: launch.user.clone(),
            files: Arc::clone(files),
            operations: AtomicU32::new(0),
        }))
    }

    /// The command line, with the program's name first.
    pub fn argv(&self) -> &[String] {
        &self.0.argv
    }

    /// An argument, counted from 1.
    pub fn arg(&self, number: usize) -> Option<&str> {
        self.0.argv.get(number).map(String::as_str)
    }

    /// The value of a variable of its environment.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.0.env.get(name).map(String::as_str)
    }

    /// Its environment, by name.
    pub fn vars(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.env.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Its working directory.
    pub fn cwd(&self) -> &str {
        &self.0.cwd
    }

    /// The user's name, uid and gid.
    pub fn user(&self) -> (&str, u32, u32) {
        (&self.0.user.name, self.0.user.uid, self.0.user.gid)
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Its parent's number; 1 where that has ended.
    pub fn parent(&self) -> u32 {
        self.with_process(|process| process.parent).unwrap_or(1)
    }

    /// Whether its stdin (0), stdout (1) or stderr (2) is a terminal.
    pub fn is_terminal(&self, stream: u32) -> bool {
        let is = self.with_process(|process| match stream {
            0 => process.stdin == Source::Terminal,
            1 => process.stdout == Sink::Terminal,
            2 => process.stderr == Sink::Terminal,
            _ => false,
        });
        is.unwrap_or(false)
    }

    /// The size of its command's terminal, where there is one.
    pub fn terminal_size(&self) -> Option<PtySize> {
        self.0.kernel.with(|state, _| {
            let room = state.rooms.get(&self.0.room)?;
            let command = room.commands.get(&room.processes.get(&self.0.pid)?.command)?;
            command.terminal.as_ref().map(|terminal| terminal.size)
        })
    }

    /// What limits its sandbox, every amount set.
    pub fn resources(&self) -> Resources {
        self.0
            .kernel
            .with(|state, _| state.rooms.get(&self.0.room).map(|room| room.resources.clone()))
            .unwrap_or_default()
    }

    /// The virtual time since the fake was made.
    pub fn now(&self) -> Duration {
        self.0.kernel.now()
    }

    /// Reads a piece of stdin; an empty one is its end.
    pub async fn read(&self) -> Bytes {
        self.read_some(READ, None).await
    }

    /// Reads at most so many bytes of stdin; none is its end.
    pub async fn read_at_most(&self, most: usize) -> Bytes {
        self.read_some(most, None).await
    }

    /// Reads a line of stdin with its end; an empty one is the end of stdin.
    pub async fn read_line(&self) -> Bytes {
        self.read_some(READ, Some(b'\n')).await
    }

    /// Reads stdin to its end.
    pub async fn read_to_end(&self) -> Bytes {
        let mut all = BytesMut::new();
        loop {
            let piece = self.read().await;
            if piece.is_empty() {
                return all.freeze();
            }
            all.extend_from_slice(&piece);
        }
    }

    /// Writes to stdout, at the pace of whoever reads it. Where nobody reads any more, the process dies of PIPE.
    pub async fn print(&self, data: impl AsRef<[u8]>) {
        // An error needs that PIPE is ignored; such a program does not care.
        let _ = self.write(Bytes::copy_from_slice(data.as_ref())).await;
    }

    /// Writes to stderr.
    pub async fn eprint(&self, data: impl AsRef<[u8]>) {
        let _ = self.write_error(Bytes::copy_from_slice(data.as_ref())).await;
    }

    /// Writes to stdout without a copy.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` where nobody reads and PIPE is ignored.
    pub async fn write(&self, data: impl Into<Bytes>) -> io::Result<()> {
        self.write_to(data.into(), false).await
    }

    /// Writes to stderr without a copy.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` where nobody reads and PIPE is ignored.
    pub async fn write_error(&self, data: impl Into<Bytes>) -> io::Result<()> {
        self.write_to(data.into(), true).await
    }

    /// Sleeps, by the virtual clock.
    pub async fn sleep(&self, duration: Duration) {
        Sleep::new(self, duration).await;
    }

    /// Waits until it is killed.
    pub async fn hang(&self) {
        pending().await
    }

    /// Lets others run.
    pub async fn give_way(&self) {
        let mut given = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut given, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Ignores a signal from now on. KILL cannot be ignored.
    pub fn ignore(&self, signal: i32) {
        self.with_process(|process| {
            process.signals.ignored |= crate::world::bit(signal);
            process.signals.caught &= !crate::world::bit(signal);
        });
    }

    /// Catches a signal from now on. KILL cannot be caught.
    pub fn catch(&self, signal: i32) -> Caught {
        self.with_process(|process| process.signals.caught |= crate::world::bit(signal));
        Caught::new(self, signal)
    }

    /// Sends a signal to a process of its sandbox; false where there is none with this number.
    pub fn kill(&self, pid: u32, signal: i32) -> bool {
        self.0.kernel.with(|state, after| state.signal(self.0.room, pid, signal, after))
    }

    /// Sends a signal to itself. Does not return where it dies of that, and where it stands still not before it goes on.
    pub async fn raise(&self, signal: i32) {
        self.kill(self.0.pid, signal);
        match self.with_process(|process| process.stopped.is_some()) {
            Some(false) => {}
            Some(true) => self.give_way().await,
            None => pending().await,
        }
    }

    /// Takes memory until its end. Where that is more than the sandbox has, the process is killed for it.
    pub async fn allocate(&self, bytes: u64) {
        self.0.kernel.with(|state, after| state.allocate(self.0.room, self.0.pid, bytes, after));
        if !self.is_alive() {
            pending::<()>().await;
        }
        self.share().await;
    }

    /// Starts a child.
    ///
    /// # Errors
    ///
    /// `NotFound` for its program or directory, `PermissionDenied` for a file that is no program, `WouldBlock` at the cap on
    /// processes.
    pub fn start(&self, fork: Fork) -> io::Result<Child> {
        fork.start(self)
    }

    /// Reads a file; paths start at its working directory.
    ///
    /// # Errors
    ///
    /// As the system has them.
    pub fn read_file(&self, path: &str) -> io::Result<Bytes> {
        Ok(lock(&self.0.files).read(&self.path(path), self.0.user.who())?.whole())
    }

    /// Writes a file whole. Its directory is there.
    ///
    /// # Errors
    ///
    /// As the system has them.
    pub fn write_file(&self, path: &str, data: impl Into<Bytes>) -> io::Result<()> {
        self.change(path, |fs, path, who, now| {
            fs.stat(parent(path), true, who)?;
            fs.write(path, data.into().into(), None, who, now)
        })
    }

    /// Adds bytes to the end of a file, which is made where it is not there.
    ///
    /// # Errors
    ///
    /// As the system has them.
    pub fn append(&self, path: &str, data: impl Into<Bytes>) -> io::Result<()> {
        self.change(path, |fs, path, who, now| {
            fs.stat(parent(path), true, who)?;
            fs.append(path, data.into(), who, now)
        })
    }

    /// Makes a directory and its parents.
    ///
    /// # Errors
    ///
    /// As the system has them.
    pub fn make_dir(&self, path: &str) -> io::Result<()> {
        self.change(path, |fs, path, who, now| fs.make_dirs(path, who, now))
    }

    /// Removes a file, or with `recursive` a directory.
    ///
    /// # Errors
    ///
    /// As the system has them.
    pub fn remove(&self, path: &str, recursive: bool) -> io::Result<()> {
        self.change(path, |fs, path, who, now| fs.remove(path, recursive, who, now))
    }

    /// What is at a path; a link is not followed.
    ///
    /// # Errors
    ///
    /// As the system has them.
    pub fn stat(&self, path: &str) -> io::Result<FileInfo> {
        Ok(lock(&self.0.files).stat(&self.path(path), false, self.0.user.who())?)
    }

    /// What is in a directory, by name.
    ///
    /// # Errors
    ///
    /// As the system has them.
    pub fn list(&self, path: &str) -> io::Result<Vec<FileInfo>> {
        Ok(lock(&self.0.files).list(&self.path(path), self.0.user.who())?)
    }

    /// Sets permission bits.
    ///
    /// # Errors
    ///
    /// As the system has them.
    pub fn set_mode(&self, path: &str, mode: u32) -> io::Result<()> {
        self.change(path, |fs, path, who, _| fs.set_meta(path, Some(mode), None, None, who))
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    ///
    /// As the system has them.
    pub fn symlink(&self, target: &str, path: &str) -> io::Result<()> {
        let link = crate::fs::Kind::Link(target.to_string());
        self.change(path, |fs, path, who, now| fs.make(path, link, 0o777, who, now))
    }

    /// Makes a FIFO. Nothing can be read from it.
    ///
    /// # Errors
    ///
    /// As the system has them.
    pub fn make_fifo(&self, path: &str) -> io::Result<()> {
        self.change(path, |fs, path, who, now| fs.make(path, crate::fs::Kind::Fifo, 0o644, who, now))
    }

    /// A file's bytes, or the device that it is.
    pub(crate) fn open(&self, path: &str) -> io::Result<Result<Content, Device>> {
        let opened = lock(&self.0.files).open(&self.path(path), self.0.user.who())?;
        Ok(match opened {
            Opened::File(content) => Ok(content),
            Opened::Device(device) => Err(device),
        })
    }

    pub(crate) fn kernel(&self) -> &Arc<Kernel> {
        &self.0.kernel
    }

    pub(crate) fn room(&self) -> u64 {
        self.0.room
    }

    pub(crate) fn files(&self) -> &Arc<Mutex<Fs>> {
        &self.0.files
    }

    pub(crate) fn env(&self) -> &Env {
        &self.0.env
    }

    pub(crate) fn identity(&self) -> &User {
        &self.0.user
    }

    pub(crate) fn with_process<R>(&self, look: impl FnOnce(&mut crate::world::Process) -> R) -> Option<R> {
        self.0.kernel.with(|state, _| state.process(self.0.room, self.0.pid).map(look))
    }

    fn is_alive(&self) -> bool {
        self.with_process(|_| ()).is_some()
    }

    fn path(&self, path: &str) -> String {
        join(&self.0.cwd, path)
    }

    fn change<R>(
        &self,
        path: &str,
        change: impl FnOnce(&mut Fs, &str, crate::fs::Who, i64) -> Result<R, crate::fs::FsError>,
    ) -> io::Result<R> {
        let now = self.0.kernel.seconds();
        Ok(change(&mut lock(&self.0.files), &self.path(path), self.0.user.who(), now)?)
    }

    async fn read_some(&self, most: usize, until: Option<u8>) -> Bytes {
        let (room, pid) = (self.0.room, self.0.pid);
        let piece = poll_fn(|cx| {
            self.0.kernel.with(|state, after| {
                let Some(entry) = state.rooms.get_mut(&room) else { return Poll::Pending };
                let Some(process) = entry.processes.get_mut(&pid) else { return Poll::Pending };
                if process.waits_to_go_on(cx) {
                    return Poll::Pending;
                }
                match process.stdin {
                    Source::Null => Poll::Ready(Bytes::new()),
                    Source::Terminal => {
                        let command = entry.commands.get_mut(&process.command);
                        match command.and_then(|command| command.terminal.as_mut()) {
                            Some(terminal) => terminal.poll_read(most, cx, after),
                            None => Poll::Ready(Bytes::new()),
                        }
                    }
                    Source::Pipe(pipe) => match entry.pipes.get_mut(&pipe) {
                        Some(pipe) => pipe.poll_read(most, until, cx, after),
                        None => Poll::Ready(Bytes::new()),
                    },
                }
            })
        })
        .await;
        self.share().await;
        piece
    }

    async fn write_to(&self, mut data: Bytes, error: bool) -> io::Result<()> {
        let (room, pid) = (self.0.room, self.0.pid);
        let mut as_written = true;
        let written = poll_fn(|cx| {
            self.0.kernel.with(|state, after| {
                let Some(entry) = state.rooms.get_mut(&room) else { return Poll::Pending };
                let Some(process) = entry.processes.get_mut(&pid) else { return Poll::Pending };
                if process.waits_to_go_on(cx) {
                    return Poll::Pending;
                }
                match if error { process.stderr } else { process.stdout } {
                    Sink::Null => Poll::Ready(Ok(())),
                    Sink::Command(stream) => match entry.commands.get_mut(&process.command) {
                        Some(command) => command.output.poll_write(stream, &mut data, cx, after).map(Ok),
                        None => Poll::Ready(Ok(())),
                    },
                    Sink::Terminal => match entry.commands.get_mut(&process.command) {
                        Some(command) if command.terminal.as_ref().is_some_and(|one| !one.is_hung_up()) => {
                            if std::mem::take(&mut as_written) {
                                data = shown(&data);
                            }
                            command.output.poll_write(Stream::Stdout, &mut data, cx, after).map(Ok)
                        }
                        _ => Poll::Ready(Err(io::Error::other("input/output error"))),
                    },
                    Sink::Pipe(pipe) => {
                        let written = match entry.pipes.get_mut(&pipe) {
                            Some(pipe) => pipe.poll_write(&mut data, cx, after),
                            None => Poll::Ready(Err(crate::world::Closed)),
                        };
                        if let Poll::Ready(Err(_)) = written {
                            state.signal(room, pid, 13, after);
                            if state.process(room, pid).is_none() {
                                return Poll::Pending;
                            }
                        }
                        written.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
                    }
                }
            })
        })
        .await;
        self.share().await;
        written
    }

    async fn share(&self) {
        if self.0.operations.fetch_add(1, Relaxed) % SHARE == SHARE - 1 {
            self.give_way().await;
        }
    }
}

impl fmt::Debug for Proc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proc").field("pid", &self.0.pid).field("argv", &self.0.argv).finish_non_exhaustive()
    }
}

fn parent(path: &str) -> &str {
    match path.trim_end_matches('/').rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}
