//! One folder, and the commands and trees in it.

use super::{
    MARK,
    process::{Group, Pipes},
    tree,
};
use sandbox_core::{
    Body, Error, ErrorKind, Exec, FileInfo, GetTree, Instance, PutTree, Result, SandboxId, Stat, Stdin, Tasks,
};
use std::{collections::BTreeMap, io, path::PathBuf, process::Stdio};
use tokio::{io::AsyncWriteExt, process::Command};

pub(crate) struct Room {
    id: SandboxId,
    dir: PathBuf,
    env: BTreeMap<String, String>,
    tasks: Tasks,
}

impl Room {
    pub(super) fn new(id: SandboxId, dir: PathBuf, env: BTreeMap<String, String>, tasks: Tasks) -> Self {
        Self { id, dir, env, tasks }
    }
}

impl Instance for Room {
    type Control = Group;
    type Events = Pipes;

    async fn spawn(&self, exec: &Exec) -> Result<(Group, Pipes)> {
        let dir = exec.cwd.as_ref().map_or_else(|| self.dir.clone(), PathBuf::from);
        let there = std::fs::metadata(&dir).map_err(|e| tree::error(&dir.to_string_lossy(), e))?;
        if !there.is_dir() {
            return Err(Error::new(ErrorKind::NotADirectory, format!("`{}` is not a directory", dir.display())));
        }
        let mut child = Command::new(&exec.argv[0])
            .args(&exec.argv[1..])
            .envs(&self.env)
            .envs(exec.env.iter().cloned())
            .env(MARK, self.id.as_str())
            .current_dir(dir)
            .stdin(if let Stdin::Null = exec.stdin { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|e| not_started(&exec.argv[0], e))?;
        let mut stdin = child.stdin.take();
        if let Stdin::Whole(all) = exec.stdin.clone() {
            if let Some(mut stdin) = stdin.take() {
                self.tasks.spawn(async move { drop(stdin.write_all(&all).await) });
            }
        }
        let pid = child.id().ok_or_else(|| Error::new(ErrorKind::Internal, "no process id"))?;
        Ok((Group::new(pid, stdin), Pipes::new(child)))
    }

    async fn stat_tree(&self, request: &Stat) -> Result<FileInfo> {
        tree::stat(&request.path)
    }

    async fn put_tree(&self, request: &PutTree, tar: Body) -> Result<()> {
        tree::put(&request.path, tar).await
    }

    async fn get_tree(&self, request: &GetTree) -> Result<Body> {
        tree::get(&request.path).await
    }
}

fn not_started(program: &str, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::ProgramNotFound,
        io::ErrorKind::ArgumentListTooLong => ErrorKind::ArgumentTooLarge,
        _ => ErrorKind::StartFailed,
    };
    Error::new(kind, format!("cannot start `{program}`")).with_source(error)
}
