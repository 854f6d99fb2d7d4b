//! What the kernel does: births and deaths of processes, signals, timers, ends of sandboxes.

use super::{
    After, Env, Exit, Kernel, Key, Lie, Room, Sink, Source, Task, Timer,
    command::Command,
    net::Net,
    pipe::Pipe,
    process::{End, INIT, Process, Signals, bit, is_harmless, is_terminal_stop},
    snapshot::Snapshot,
    terminal::Terminal,
    timers::Timers,
};
use crate::{
    ProcessInfo,
    fs::Fs,
    image::User,
    program::{Proc, Program},
};
use sandbox_core::{Capability, Cause, Ended, Error, ErrorKind, SandboxId, Signal, SnapshotId, Status};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) rooms: BTreeMap<u64, Room>,
    /// The number of the last sandbox made.
    pub(crate) last_room: u64,
    pub(crate) timers: Timers,
    pub(crate) net: Net,
    pub(crate) snapshots: BTreeMap<SnapshotId, Snapshot>,
    pub(crate) last_snapshot: u64,
    pub(crate) last_workshop: u64,
    /// How many images were built.
    pub(crate) builds: usize,
    /// How many sandboxes may live at once.
    pub(crate) quota: Option<usize>,
    /// How many sandboxes a page of an enumeration has.
    pub(crate) page: usize,
    /// What the test took away.
    pub(crate) absent: BTreeSet<Capability>,
    pub(crate) lie: Option<Lie>,
    /// Processes that outlived their sandbox, by a lie.
    pub(crate) left: BTreeMap<SandboxId, Vec<ProcessInfo>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            rooms: BTreeMap::new(),
            last_room: 0,
            timers: Timers::default(),
            net: Net::default(),
            snapshots: BTreeMap::new(),
            last_snapshot: 0,
            last_workshop: 0,
            builds: 0,
            quota: None,
            page: 100,
            absent: BTreeSet::new(),
            lie: None,
            left: BTreeMap::new(),
        }
    }
}

/// Rooms from this number on are no sandboxes. Its low bits keep their addresses apart from those of sandboxes.
pub(crate) const WORKSHOPS: u64 = (1 << 63) | (1 << 23);

/// A program about to run.
pub(crate) struct Launch {
    pub(crate) program: Program,
    pub(crate) argv: Arc<[String]>,
    pub(crate) env: Env,
    pub(crate) cwd: String,
    pub(crate) user: User,
}

/// Where a process comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Birth {
    pub(crate) parent: u32,
    pub(crate) command: u64,
    pub(crate) stdin: Source,
    pub(crate) stdout: Sink,
    pub(crate) stderr: Sink,
    /// In a session of its own.
    pub(crate) session: bool,
    /// Its parent has ended already.
    pub(crate) orphan: bool,
}

impl State {
    pub(crate) fn room(&mut self, room: u64) -> Result<&mut Room, Error> {
        self.rooms.get_mut(&room).ok_or_else(gone)
    }

    /// Those that are sandboxes, in the order in which they were made: no services, and no image is being made in them.
    pub(crate) fn sandboxes(&self) -> impl Iterator<Item = (&u64, &Room)> {
        self.rooms.range(..WORKSHOPS).filter(|(_, room)| room.beside.is_none())
    }

    /// The number of a new room that is no sandbox.
    pub(crate) fn workshop(&mut self) -> u64 {
        self.last_workshop += 1;
        WORKSHOPS + self.last_workshop
    }

    /// The files of all sandboxes, by a lie.
    pub(crate) fn files_of_all(&self) -> Option<Arc<Mutex<Fs>>> {
        let other = self.rooms.values().next().filter(|_| self.lie == Some(Lie::FilesAreShared));
        other.map(|room| Arc::clone(&room.files))
    }

    /// How long a sandbox lives, here: for ever where nobody ends it.
    pub(crate) fn lifetime(&self, asked: Duration) -> Duration {
        if self.absent.contains(&Capability::Lifetime) { Duration::MAX } else { asked }
    }

    pub(crate) fn process(&mut self, room: u64, pid: u32) -> Option<&mut Process> {
        self.rooms.get_mut(&room)?.processes.get_mut(&pid)
    }

    /// Puts a process into the table and lets it run.
    pub(crate) fn birth(
        &mut self,
        kernel: &Arc<Kernel>,
        room: u64,
        launch: Launch,
        birth: Birth,
        after: &mut After,
    ) -> Result<(u32, Arc<Mutex<End>>), Error> {
        let number = room;
        let lie = self.lie;
        if lie == Some(Lie::PidsCapEndsEverything) && self.room(number)?.is_full() {
            self.rooms.keys().copied().collect::<Vec<_>>().into_iter().for_each(|room| self.end_room(room, after));
        }
        let room = self.room(number)?;
        if room.is_full() && lie != Some(Lie::PidsCapIsForShow) {
            return Err(Error::new(ErrorKind::StartFailed, "resource temporarily unavailable").applied(false));
        }
        // One that has ended already, between the parent and its orphan, had a number too.
        room.last_pid += 1 + u32::from(birth.orphan);
        let pid = room.last_pid.max(INIT + 1);
        room.last_pid = pid;
        let parent = room.processes.get(&birth.parent);
        let (group, session) = match parent {
            Some(parent) if !birth.session => (parent.group, parent.session),
            _ => (pid, pid),
        };
        let signals = parent.map(|parent| parent.signals.inherited()).unwrap_or_default();
        let task = Task::new(kernel, number, pid, room.freezer.flag());
        let proc = Proc::new(kernel, number, pid, &launch, &room.files);
        let program = launch.program;
        task.set(Box::pin(async move { program(proc).await }));
        let end = Arc::new(Mutex::new(End::default()));
        let process = Process {
            parent: if birth.orphan { INIT } else { birth.parent },
            group,
            session,
            argv: launch.argv,
            user: launch.user,
            command: birth.command,
            task: Arc::clone(&task),
            memory: 0,
            stdin: birth.stdin,
            stdout: birth.stdout,
            stderr: birth.stderr,
            signals,
            stopped: None,
            end: Arc::clone(&end),
        };
        if let Source::Pipe(pipe) = birth.stdin {
            room.pipes.entry(pipe).or_default().add_reader();
        }
        for sink in [birth.stdout, birth.stderr] {
            room.open(birth.command, sink);
        }
        if let Some(command) = room.commands.get_mut(&birth.command) {
            command.processes += 1;
        }
        room.processes.insert(pid, process);
        kernel.ready(&task);
        Ok((pid, end))
    }

    /// A program returned.
    pub(crate) fn exited(&mut self, room: u64, pid: u32, exit: Exit, after: &mut After) {
        let code = match exit {
            Exit::Code(code) => code & 0xff,
            Exit::Panic => 101,
        };
        self.die(room, pid, Status::Code(code), after);
    }

    /// Takes a process off the table.
    pub(crate) fn die(&mut self, room: u64, pid: u32, status: Status, after: &mut After) {
        let lie = self.lie;
        let [tells_memory, tells_signals, keeps_background] =
            [Capability::OomStatus, Capability::SignalStatus, Capability::Background]
                .map(|capability| !self.absent.contains(&capability));
        let Some(entry) = self.rooms.get_mut(&room) else { return };
        let Some(process) = entry.processes.remove(&pid) else { return };
        process.task.end();
        after.tasks.push(process.task);
        entry.memory -= process.memory;
        for child in entry.processes.values_mut().filter(|child| child.parent == pid) {
            child.parent = INIT;
        }
        entry.zombies.retain(|_, parent| *parent != pid || lie == Some(Lie::ZombiesStay));
        if entry.processes.contains_key(&process.parent) {
            entry.zombies.insert(pid, process.parent);
        }
        if let Source::Pipe(pipe) = process.stdin {
            entry.close_reader(pipe, after);
        }
        let (mut ended, mut hung_up, mut remembered) = (None, false, None);
        if let Some(command) = entry.commands.get_mut(&process.command) {
            command.processes -= 1;
            if command.main == pid {
                command.running = false;
                let cause = match (command.cause, status) {
                    (Some(cause), _) => cause,
                    (None, Status::Signal(9) | Status::Code(137)) if command.out_of_memory && tells_memory => {
                        Cause::OutOfMemory
                    }
                    _ => Cause::Program,
                };
                let status = if tells_signals { status } else { Status::Code(status.as_code()) };
                remembered = Some(Ended::new(status, cause));
                command.output.end(Ended::new(status, cause), after);
                ended = Some(std::mem::take(&mut command.timers));
                if let Some(terminal) = &mut command.terminal {
                    terminal.hang_up(after);
                    hung_up = command.cause.is_none();
                }
            }
        }
        if let Some(ended) = remembered {
            entry.remember(process.command, ended);
        }
        for sink in [process.stdout, process.stderr] {
            entry.close(process.command, sink, after);
        }
        entry.forget_command(process.command, after);
        let is_over = ended.is_some();
        ended.into_iter().flatten().for_each(|key| self.timers.cancel(&key));
        {
            let mut end = super::lock(&process.end);
            end.status = Some(status);
            after.wakers.append(&mut end.wakers);
        }
        if is_over && !keeps_background {
            self.kill_command(room, process.command, Cause::Program, after);
        }
        if hung_up {
            // Whoever is left in the foreground of a terminal that is no more.
            self.signal_group(room, process.command, pid, Signal::Hangup.number(), after);
            self.signal_group(room, process.command, pid, Signal::Continue.number(), after);
        }
        if is_over {
            self.follow_main(room, process.command, after);
        }
    }

    /// Sends a signal to the processes of a command in one group.
    pub(crate) fn signal_group(&mut self, room: u64, command: u64, group: u32, signal: i32, after: &mut After) {
        let Some(entry) = self.rooms.get(&room) else { return };
        let members = entry.processes.iter().filter(|(_, one)| one.command == command && one.group == group);
        let members: Vec<u32> = members.map(|(pid, _)| *pid).collect();
        members.into_iter().for_each(|pid| _ = self.signal(room, pid, signal, after));
    }

    /// Ends all processes of a command, at once.
    pub(crate) fn kill_command(&mut self, room: u64, command: u64, cause: Cause, after: &mut After) {
        let Some(entry) = self.rooms.get_mut(&room) else { return };
        let Some(entry_command) = entry.commands.get_mut(&command) else { return };
        if entry_command.running {
            entry_command.cause.get_or_insert(cause);
        }
        let alone = self.lie == Some(Lie::KillReachesTheProgramAlone);
        let main = entry_command.main;
        let reached = |pid: &u32| !alone || *pid == main;
        let tree = entry.processes.iter().filter(|(pid, process)| process.command == command && reached(pid));
        let tree: Vec<u32> = tree.map(|(pid, _)| *pid).collect();
        tree.into_iter().for_each(|pid| self.die(room, pid, Status::Signal(9), after));
    }

    /// Sends a signal to one process; false where it is not there.
    pub(crate) fn signal(&mut self, room: u64, pid: u32, signal: i32, after: &mut After) -> bool {
        if self.process(room, pid).is_none() {
            return false;
        }
        if signal == Signal::Kill.number() {
            self.die(room, pid, Status::Signal(signal), after);
            return true;
        }
        if signal == Signal::Continue.number() {
            self.go_on(room, pid, after);
        }
        let Some(process) = self.process(room, pid) else { return true };
        if let Some(waiting) = &mut process.stopped {
            waiting.push(signal);
        } else if signal == Signal::Stop.number() {
            process.stand_still();
        } else if process.signals.caught & bit(signal) != 0 {
            process.signals.pending.push_back(signal);
            after.wakers.append(&mut process.signals.wakers);
        } else if process.signals.ignored & bit(signal) == 0 && !is_harmless(signal) {
            if is_terminal_stop(signal) {
                process.stand_still();
            } else {
                self.die(room, pid, Status::Signal(signal), after);
            }
        }
        true
    }

    /// Lets a process that stands still go on, with the signals that have waited.
    fn go_on(&mut self, room: u64, pid: u32, after: &mut After) {
        let Some(process) = self.process(room, pid) else { return };
        let Some(waiting) = process.stopped.take() else { return };
        after.wakers.push(process.task.let_go());
        after.wakers.append(&mut process.signals.wakers);
        waiting.into_iter().for_each(|signal| _ = self.signal(room, pid, signal, after));
    }

    /// Takes memory for a process, or ends it.
    pub(crate) fn allocate(&mut self, room: u64, pid: u32, bytes: u64, after: &mut After) {
        let Some(entry) = self.rooms.get_mut(&room) else { return };
        let cap = entry.resources.get(sandbox_core::Resource::Memory).map_or(u64::MAX, |amount| amount.value);
        let Some(process) = entry.processes.get_mut(&pid) else { return };
        let total = entry.memory.saturating_add(bytes);
        if total <= cap {
            process.memory += bytes;
            entry.memory = total;
            return;
        }
        if let Some(command) = entry.commands.get_mut(&process.command) {
            command.out_of_memory = true;
        }
        self.die(room, pid, Status::Signal(Signal::Kill.number()), after);
    }

    /// Ends all that runs in a sandbox.
    pub(super) fn end_processes(&mut self, room: u64, after: &mut After) {
        let Some(entry) = self.rooms.get_mut(&room) else { return };
        if self.lie == Some(Lie::DestroyLeavesDaemons) {
            let daemons = entry.infos().filter(|process| process.parent == INIT && process.session == process.pid);
            self.left.insert(entry.id.clone(), daemons.collect());
        }
        let all: Vec<u32> = entry.processes.keys().copied().collect();
        for command in entry.commands.values_mut().filter(|command| command.running) {
            command.cause.get_or_insert(Cause::Killed);
        }
        all.into_iter().for_each(|pid| self.die(room, pid, Status::Signal(9), after));
    }

    /// Ends a sandbox, all that runs in it, and its services; or a service alone.
    pub(crate) fn end_room(&mut self, room: u64, after: &mut After) {
        if let Some(beside) = self.rooms.get_mut(&room).and_then(|room| room.beside.as_mut()) {
            // What ends it is not the end of its program.
            beside.main = None;
        }
        self.end_services(room, after);
        self.end_processes(room, after);
        self.disconnect(room, after);
        if let Some(mut entry) = self.rooms.remove(&room) {
            entry.lifetime.iter().for_each(|key| self.timers.cancel(key));
            after.wakers.append(&mut entry.gone);
            after.wakers.append(&mut entry.freezer.wakers);
            after.relays.extend(std::mem::take(&mut entry.ports).into_values());
            after.files.push(Arc::clone(&entry.files));
            for command in entry.commands.values_mut() {
                command.output.ignore(after);
            }
        }
    }

    /// Makes it as late as the next timer.
    pub(crate) fn jump(&mut self, after: &mut After) {
        if let Some(((at, _), _)) = self.timers.next() {
            self.pass(at, after);
        }
    }

    /// Lets so much time pass; says whether a timer fired.
    pub(crate) fn flow(&mut self, time: Duration, after: &mut After) -> bool {
        let to = self.timers.now().saturating_add(time);
        let to = self.timers.next().map_or(to, |((at, _), _)| at.min(to));
        self.pass(to, after)
    }

    /// Makes it that late, and lets happen what is due by then; says whether a timer fired.
    pub(crate) fn pass(&mut self, to: Duration, after: &mut After) -> bool {
        let mut fired = false;
        while let Some(timer) = self.timers.pop(to) {
            fired = true;
            match self.postpone(timer) {
                None | Some(Timer::Outside(None)) => {}
                Some(Timer::Sleep(waker) | Timer::Outside(Some(waker))) => after.wakers.push(waker),
                Some(Timer::Lifetime(room)) => self.end_room(room, after),
                Some(Timer::Talk(connection)) => self.talk(connection, after),
                Some(of_a_command) => self.fire(of_a_command, after),
            }
        }
        self.timers.advance(to);
        fired
    }

    /// Whether a program waits for somebody outside.
    pub(crate) fn waits_for_outside(&self) -> bool {
        self.rooms.values().any(|room| {
            room.commands.values().any(|command| {
                command.output.waits_for_outside() || command.terminal.as_ref().is_some_and(Terminal::waits_for_outside)
            }) || room.pipes.values().any(Pipe::waits_for_outside)
        })
    }

    pub(crate) fn cancel(&mut self, key: &Key) {
        self.timers.cancel(key);
    }
}

impl Process {
    fn stand_still(&mut self) {
        self.stopped = Some(Vec::new());
        self.task.hold();
    }
}

impl Room {
    pub(crate) fn open(&mut self, command: u64, sink: Sink) {
        match sink {
            Sink::Null => {}
            Sink::Command(_) | Sink::Terminal => {
                if let Some(command) = self.commands.get_mut(&command) {
                    command.output.add_writer();
                }
            }
            Sink::Pipe(pipe) => self.pipes.entry(pipe).or_default().add_writer(),
        }
    }

    pub(crate) fn close(&mut self, command: u64, sink: Sink, after: &mut After) {
        match sink {
            Sink::Null => {}
            Sink::Command(_) | Sink::Terminal => {
                if let Some(command) = self.commands.get_mut(&command) {
                    command.output.drop_writer(after);
                }
            }
            Sink::Pipe(pipe) => {
                if let Some(end) = self.pipes.get_mut(&pipe) {
                    end.drop_writer(after);
                }
                self.forget_pipe(pipe);
            }
        }
    }

    /// Forgets a command that has no process and that nobody looks at.
    pub(crate) fn forget_command(&mut self, number: u64, after: &mut After) {
        let over = |command: &Command| command.processes == 0 && command.output.is_ignored();
        if self.commands.get(&number).is_some_and(over) {
            let stdin = self.commands.remove(&number).and_then(|command| command.stdin);
            if let Some(pipe) = stdin {
                if let Some(end) = self.pipes.get_mut(&pipe) {
                    end.close_outer(after);
                }
                self.forget_pipe(pipe);
            }
        }
    }
}

pub(crate) fn gone() -> Error {
    Error::new(ErrorKind::Gone, "the sandbox has ended").applied(false)
}

impl Signals {
    pub(crate) fn take(&mut self, signal: i32) -> bool {
        let at = self.pending.iter().position(|pending| *pending == signal);
        at.and_then(|at| self.pending.remove(at)).is_some()
    }
}
