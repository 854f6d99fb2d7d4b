//! An adapter as its author writes it: host processes in a folder, told apart by a mark in their environment. No isolation.

mod process;
mod room;
mod tree;

use room::Room;
use sandbox_core::{
    Attempt, Backend, Capability, Error, ErrorKind, Facts, Isolation, IsolationFact, Made, Result, SandboxId, Spec,
    Tasks,
};
use std::{path::PathBuf, process::Stdio, time::Duration};

/// In the environment of every process of a room, so that `destroy` finds them all.
const MARK: &str = "FOLDER_ROOM";

/// Makes rooms, which are folders below one of the host's.
pub(crate) struct Folder {
    root: PathBuf,
    facts: Facts,
    ids: (u32, u32),
}

impl Folder {
    /// Commands alone.
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        use Capability::*;
        let facts = Facts::new("folder")
            .isolation(IsolationFact::new(Isolation::None, "processes of the host", "2026-11-30"))
            .native([Run, Argv, Stream, StreamExact, StdinWhole, Stdin, SignalStatus, KillOne, Term, Signals])
            .native([Background, Attach])
            .absent(Deny, "processes of the host reach what the host reaches");
        Self { root: root.into(), facts, ids: (0, 0) }
    }

    /// Files by commands alone.
    pub(crate) fn files_by_commands(mut self) -> Self {
        use Capability::*;
        let all = [Files, Tree, FileStream, FileMeta, AtomicWrite];
        self.facts = all.into_iter().fold(self.facts, |facts, capability| facts.emulated(capability, "by commands"));
        self
    }

    /// Trees of its own, single files made of them.
    pub(crate) fn trees(mut self) -> Self {
        use Capability::*;
        let all = [Files, FileStream, FileMeta];
        self.facts = all.into_iter().fold(self.facts, |facts, c| facts.emulated(c, "by trees of one")).native([Tree]);
        self
    }

    /// With nothing to kill one command by.
    pub(crate) fn without_kill(mut self) -> Self {
        self.facts = self.facts.absent(Capability::KillOne, "not asked for");
        self
    }

    /// Says that the user inside is this one.
    pub(crate) fn ids(mut self, uid: u32, gid: u32) -> Self {
        self.ids = (uid, gid);
        self
    }

    /// Says that trees do not see this directory.
    pub(crate) fn blind(mut self, directory: &str) -> Self {
        self.facts = self.facts.blind(directory.to_string());
        self
    }

    fn room(&self, id: &SandboxId, tasks: Tasks, spec: &Spec) -> Made<Room> {
        let dir = self.root.join(id.as_str());
        let cwd = spec.cwd.clone().unwrap_or_else(|| dir.to_string_lossy().into_owned());
        let room = Room::new(id.clone(), cwd.clone().into(), spec.env.clone(), tasks);
        Made::new(id.clone(), room).cwd(cwd).ids(self.ids.0, self.ids.1)
    }
}

impl Backend for Folder {
    type Instance = Room;

    fn info(&self) -> Facts {
        self.facts.clone()
    }

    async fn create(&self, spec: &Spec, attempt: &Attempt) -> Result<Made<Room>> {
        let id = attempt.expect(SandboxId::new(attempt.marker()));
        let made = tokio::fs::create_dir_all(self.root.join(id.as_str())).await;
        made.map_err(|e| Error::new(ErrorKind::CreateFailed, "cannot make the folder").with_source(e).applied(false))?;
        Ok(self.room(&id, attempt.tasks(), spec))
    }

    async fn attach(&self, id: &SandboxId, tasks: &Tasks) -> Result<Made<Room>> {
        if !self.root.join(id.as_str()).is_dir() {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no folder `{id}`")));
        }
        Ok(self.room(id, tasks.clone(), &Spec::new()))
    }

    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        loop {
            let pids = process::with_variable(&format!("{MARK}={id}"));
            if pids.is_empty() {
                break;
            }
            kill(9, pids.iter().map(u32::to_string)).await?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        match tokio::fs::remove_dir_all(self.root.join(id.as_str())).await {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::new(ErrorKind::TeardownFailed, "cannot remove the folder").with_source(e))
            }
            _ => Ok(()),
        }
    }
}

/// Some may be gone already, which is no error.
async fn kill(signal: i32, who: impl Iterator<Item = String>) -> Result<()> {
    let mut kill = tokio::process::Command::new("kill");
    let status = kill.arg(format!("-{signal}")).arg("--").args(who).stderr(Stdio::null()).status().await;
    status.map(drop).map_err(|e| Error::new(ErrorKind::Internal, "cannot run `kill`").with_source(e))
}
