//! One sandbox as its kernel knows it.

use super::{After, Beside, Env, Freezer, Key, Link, command::Command, pipe::Pipe, process::Process};
use crate::{ProcessInfo, fs::Fs, image::User, port::Relay};
use sandbox_core::{Ended, Resources, SandboxId, Secret};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    task::Waker,
    time::Duration,
};

/// Variables that nothing shows.
pub(crate) type Secrets = Arc<BTreeMap<String, Secret<String>>>;

#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) id: SandboxId,
    pub(crate) labels: BTreeMap<String, String>,
    /// What names the create that made it.
    pub(crate) marker: String,
    pub(crate) env: Env,
    pub(crate) secrets: Secrets,
    pub(crate) cwd: String,
    pub(crate) user: User,
    pub(crate) users: Arc<[User]>,
    pub(crate) link: Link,
    /// Its ports that are reached from outside.
    pub(crate) ports: BTreeMap<u16, Relay>,
    /// All of them set: what is asked for, else the default.
    pub(crate) resources: Resources,
    pub(crate) created: Duration,
    /// A service has none of its own.
    pub(crate) lifetime: Option<Key>,
    pub(crate) files: Arc<Mutex<Fs>>,
    pub(crate) processes: BTreeMap<u32, Process>,
    /// Processes that have ended and that their parents, by number, have not waited for.
    pub(crate) zombies: BTreeMap<u32, u32>,
    pub(crate) last_pid: u32,
    pub(crate) commands: BTreeMap<u64, Command>,
    /// How commands ended, those that ended last.
    pub(crate) ended: VecDeque<(u64, Ended)>,
    pub(crate) pipes: BTreeMap<u64, Pipe>,
    /// Names commands and pipes.
    pub(crate) number: u64,
    pub(crate) memory: u64,
    pub(crate) freezer: Freezer,
    pub(crate) stopped: bool,
    /// Of a service.
    pub(crate) beside: Option<Beside>,
    /// Whoever waits for its end.
    pub(crate) gone: Vec<Waker>,
}

/// Commands whose end is known.
const REMEMBERED: usize = 1024;

impl Room {
    pub(crate) fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub(crate) fn user(&self, name: &str) -> Option<User> {
        User::find(&self.users, name)
    }

    /// The environment of a command, with the secrets that it does not set itself. No record gets it.
    pub(crate) fn with_secrets(&self, env: &Env) -> Env {
        if self.secrets.is_empty() {
            return Arc::clone(env);
        }
        let mut all = (**env).clone();
        for (name, secret) in &*self.secrets {
            all.entry(name.clone()).or_insert_with(|| secret.expose().clone());
        }
        Arc::new(all)
    }

    /// Its processes, as they are seen from outside.
    pub(crate) fn infos(&self) -> impl Iterator<Item = ProcessInfo> + '_ {
        self.processes.iter().map(|(pid, process)| ProcessInfo {
            pid: *pid,
            parent: process.parent,
            group: process.group,
            session: process.session,
            argv: process.argv.to_vec(),
            user: process.user.name.to_string(),
        })
    }

    /// Whether one process more is too many.
    pub(crate) fn is_full(&self) -> bool {
        let most = self.resources.pids.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        self.processes.len() + self.zombies.len() >= most
    }

    /// Keeps how a command ended, for whoever reaches it later.
    pub(crate) fn remember(&mut self, command: u64, ended: Ended) {
        if self.ended.len() == REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back((command, ended));
    }

    /// How a command ended, where that is still known.
    pub(crate) fn end_of(&self, command: u64) -> Option<Ended> {
        self.ended.iter().rev().find(|(known, _)| *known == command).map(|(_, ended)| *ended)
    }

    /// A new pipe; its name.
    pub(crate) fn pipe(&mut self, pipe: Pipe) -> u64 {
        let name = self.number();
        self.pipes.insert(name, pipe);
        name
    }

    pub(crate) fn close_reader(&mut self, pipe: u64, after: &mut After) {
        if let Some(end) = self.pipes.get_mut(&pipe) {
            end.drop_reader(after);
        }
        self.forget_pipe(pipe);
    }

    pub(crate) fn forget_pipe(&mut self, pipe: u64) {
        if self.pipes.get(&pipe).is_some_and(Pipe::is_unused) {
            self.pipes.remove(&pipe);
        }
    }
}
