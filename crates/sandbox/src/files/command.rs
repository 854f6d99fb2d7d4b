//! File operations made of small commands for the sandbox's `sh`. Paths are arguments, so nothing has to be quoted.

use super::{
    Files,
    stream::{self, Pace},
};
use crate::{Command, Overrides, Process, ProcessEvent, Sandbox};
use bytes::Bytes;
use sandbox_core::{
    Body, Chunks, Error, ErrorKind, FileInfo, FileKind, Meta, Output, ReadFile, Remove, Result, SetMeta, Status,
    WriteFile,
};
use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, SystemTime},
};

/// What all scripts begin with: `missing` tells why there is nothing at a path.
const PRELUDE: &str = r#"
export LC_ALL=C
missing() {
  d=$1
  while :; do
    d=${d%/*}
    [ -n "$d" ] || exit 60
    if [ -d "$d" ]; then [ -x "$d" ] || exit 64; exit 60; fi
    if [ -e "$d" ] || [ -L "$d" ]; then exit 62; fi
  done
}
there() { [ -e "$1" ] || [ -L "$1" ] || missing "$1"; }
p=$1
"#;

/// `$2` is the offset, `$3` the length or nothing. A pipe ends as its last part does: with what the first part says, and to
/// whoever has had all that he asked for it is all the same. An offset may be farther than file systems count.
const READ: &str = r#"
[ -e "$p" ] || missing "$p"
[ -d "$p" ] && exit 61
[ -f "$p" ] || exit 63
[ -r "$p" ] || exit 64
if [ "$2" = 0 ]; then
  if [ -z "$3" ]; then exec cat "$p"; fi
  exec head -c "$3" "$p"
fi
if [ "$2" -gt 1099511627776 ] && [ "$2" -ge "$(stat -L -c %s "$p")" ]; then exit 0; fi
if [ -z "$3" ]; then exec tail -c "+$(($2 + 1))" "$p"; fi
[ "$3" != 0 ] || exit 0
exec 4>&1
ended=$({ { tail -c "+$(($2 + 1))" "$p"; echo "$?" >&3; } | head -c "$3" >&4; } 3>&1)
exit "$ended"
"#;

/// `$2` is the temporary, `$3` the mode or nothing, `$4` the length or nothing.
const WRITE: &str = r#"
[ -d "$p" ] && exit 61
d=${p%/*}
if [ -n "$d" ] && [ ! -d "$d" ]; then
  e=$d
  while [ -n "$e" ] && [ ! -e "$e" ] && [ ! -L "$e" ]; do e=${e%/*}; done
  [ -z "$e" ] || [ -d "$e" ] || exit 62
  mkdir -p "$d" || exit 1
fi
t=$d/$2
if [ -n "$3" ]; then m=$3
elif [ -f "$p" ] && [ ! -L "$p" ]; then m=$(stat -c %a "$p")
else m=644; fi
cat > "$t" || { e=$?; rm -f "$t"; exit "$e"; }
if [ -n "$4" ] && [ "$(wc -c < "$t")" -ne "$4" ]; then rm -f "$t"; exit 70; fi
chmod "$m" "$t" && mv -f "$t" "$p" || { e=$?; rm -f "$t"; exit "$e"; }
"#;

const STAT: &str = r#"
there "$p"
stat -c '%f %s %u %g %Y' "$p" || exit 1
if [ -L "$p" ]; then readlink "$p"; fi
"#;

/// What is gone by the time it is looked at was not there. `-P`, here and below: `..` is up from where a link leads, as for
/// everybody else.
const LIST: &str = r#"
there "$p"
[ -d "$p" ] || exit 62
{ [ -r "$p" ] && [ -x "$p" ]; } || exit 64
cd -P "$p" || exit 64
for e in ./* ./.[!.]* ./..?*; do
  if [ -e "$e" ] || [ -L "$e" ]; then printf '%s\0' "$e"; fi
done | xargs -0 -r sh -c '
f=$1
shift
stat -c "$f" "$@" && exit 0
for e do
  n=0
  until stat -c "$f" "$e" > /dev/null; do
    [ -e "$e" ] || [ -L "$e" ] || break
    n=$((n + 1))
    [ "$n" -lt 10 ] || exit 1
  done
done' sh "$2 %f %s %u %g %Y %n"
"#;

const MAKE_DIR: &str = r#"
[ -d "$p" ] && exit 0
if [ -e "$p" ] || [ -L "$p" ]; then exit 65; fi
e=${p%/*}
while [ -n "$e" ] && [ ! -e "$e" ] && [ ! -L "$e" ]; do e=${e%/*}; done
[ -z "$e" ] || [ -d "$e" ] || exit 62
exec mkdir -p "$p"
"#;

const REMOVE: &str = r#"
there "$p"
if [ -d "$p" ] && [ ! -L "$p" ]; then exit 61; fi
exec rm -f "$p"
"#;

const REMOVE_ALL: &str = r#"exec rm -rf "$p""#;

const RENAME: &str = r#"
there "$p"
if [ -d "$2" ] && [ ! -L "$2" ]; then exit 61; fi
d=${2%/*}
[ -z "$d" ] || [ -d "$d" ] || missing "$2"
exec mv -f "$p" "$2"
"#;

/// The owner first: to change it takes set-uid bits away.
const SET_META: &str = r#"
there "$p"
if [ -n "$3" ]; then chown "$3" "$p" || exit 1; fi
if [ -n "$2" ]; then chmod "$2" "$p" || exit 1; fi
if [ -n "$4" ]; then touch -d "@$4" "$p" || exit 1; fi
"#;

const IDS: &str = "id -u && id -g";

/// A directory that trees are unpacked into by the provider, who heeds no permissions.
const WRITABLE: &str = r#"
e=$p
while [ -n "$e" ] && [ ! -e "$e" ] && [ ! -L "$e" ]; do e=${e%/*}; done
[ -z "$e" ] || [ -d "$e" ] || exit 62
{ [ -d "$p" ] || mkdir -p "$p"; } && [ -w "$p" ] && [ -x "$p" ] || exit 64
"#;

const PUT_TREE: &str = r#"
if [ -e "$p" ] && [ ! -d "$p" ]; then exit 62; fi
mkdir -p "$p" && cd -P "$p" && exec tar -xpf -
"#;

/// From inside, so that no name has to be told. One `tar` ends with 1 where files changed while it read them, others where
/// they could not be read.
const GET_TREE: &str = r#"
there "$p"
[ -d "$p" ] || exit 62
cd -P "$p" || exit 64
tar -cf - .
e=$?
[ "$e" != 1 ] || ! tar --version 2>&1 | grep -q GNU || exit 0
exit "$e"
"#;

impl Files {
    pub(super) async fn command_read(&self, request: &ReadFile) -> Result<Body> {
        // Shells do not count further than this.
        let (offset, length) = (request.offset.min(FARTHEST), request.length.filter(|length| *length <= FARTHEST));
        let args = [request.path.clone(), offset.to_string(), length.map_or_else(String::new, |n| n.to_string())];
        self.said(script(READ, args), &request.path, length.unwrap_or(u64::MAX)).await
    }

    pub(super) async fn command_write(&self, request: WriteFile, mut body: Body) -> Result<()> {
        let temporary = format!(".sb-{:016x}", RandomState::new().hash_one(SystemTime::UNIX_EPOCH.elapsed().ok()));
        let mode = request.mode.map_or_else(String::new, |mode| format!("{mode:o}"));
        // With its length, a body that is cut short cannot pass for a whole one.
        let body = match body.len {
            Some(_) => body,
            None => self.spooled(&mut body).await?,
        };
        let len = body.len.unwrap_or_default().to_string();
        let dir = request.path.rsplit_once('/').map_or("", |(dir, _)| dir);
        let mut cleanup = Cleanup { sandbox: Some(self.plain()), path: format!("{dir}/{temporary}") };
        self.fed(script(WRITE, [request.path.clone(), temporary, mode, len]), &request.path, body).await?;
        cleanup.sandbox = None;
        Ok(())
    }

    pub(super) async fn command_stat(&self, path: &str) -> Result<FileInfo> {
        let output = self.run(script(STAT, [path.to_string()]), path).await?;
        let text = output.stdout.bytes();
        let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        let name = if name.is_empty() { "/" } else { name };
        let info = parse_info(&String::from_utf8_lossy(line), name.into())?;
        if info.kind != FileKind::Symlink {
            return Ok(info);
        }
        let target = text.get(line.len() + 1..).unwrap_or_default();
        let target = target.strip_suffix(b"\n").unwrap_or(target);
        Ok(info.target(String::from_utf8_lossy(target)))
    }

    pub(super) async fn command_list(&self, path: &str) -> Result<Vec<FileInfo>> {
        // No name can hold it, so a newline in a name cannot pass for an entry.
        let mark = format!("{:016x}", RandomState::new().hash_one(path));
        let output = self.run(script(LIST, [path.to_string(), mark.clone()]), path).await?;
        if output.stdout.dropped > 0 {
            return Err(Error::new(ErrorKind::ResourceExhausted, "the listing is larger than what is held in memory"));
        }
        let text = String::from_utf8_lossy(&output.stdout.head).into_owned();
        let between = format!("{mark} ");
        let entries = text.split(&between).skip(1);
        entries
            .map(|entry| {
                let entry = entry.strip_suffix('\n').unwrap_or(entry);
                let mut parts = entry.splitn(6, ' ');
                let numbers = parts.by_ref().take(5).collect::<Vec<_>>().join(" ");
                let name = parts.next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
                parse_info(&numbers, name.into())
            })
            .collect()
    }

    pub(super) async fn command_make_dir(&self, path: &str) -> Result<()> {
        self.run(script(MAKE_DIR, [path.to_string()]), path).await.map(drop)
    }

    pub(super) async fn command_remove(&self, request: &Remove) -> Result<()> {
        let text = if request.recursive { REMOVE_ALL } else { REMOVE };
        self.run(script(text, [request.path.clone()]), &request.path).await.map(drop)
    }

    pub(super) async fn command_rename(&self, from: &str, to: &str) -> Result<()> {
        self.run(script(RENAME, [from.to_string(), to.to_string()]), from).await.map(drop)
    }

    pub(super) async fn command_set_meta(&self, request: &SetMeta) -> Result<()> {
        let mode = request.mode.map_or_else(String::new, |mode| format!("{mode:o}"));
        let owner = request.owner.map_or_else(String::new, |(uid, gid)| format!("{uid}:{gid}"));
        let seconds = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.as_secs());
        let mtime = request.mtime.map_or_else(String::new, |at| seconds(at).to_string());
        self.run(script(SET_META, [request.path.clone(), mode, owner, mtime]), &request.path).await.map(drop)
    }

    pub(super) async fn command_ids(&self) -> Result<(u32, u32)> {
        let output = self.run(Command::shell(IDS), "/").await?;
        let text = output.stdout.text();
        let mut ids = text.split_whitespace().map(str::parse);
        match (ids.next(), ids.next()) {
            (Some(Ok(uid)), Some(Ok(gid))) => Ok((uid, gid)),
            _ => Err(Error::new(ErrorKind::Protocol, format!("`id` answered {text:?}"))),
        }
    }

    /// Makes sure that the sandbox's user could write below a directory.
    pub(super) async fn command_writable(&self, path: &str) -> Result<()> {
        self.run(script(WRITABLE, [path.to_string()]), path).await.map(drop)
    }

    pub(super) async fn command_put_tree(&self, path: &str, tar: Body) -> Result<()> {
        self.fed(script(PUT_TREE, [path.to_string()]), path, tar).await
    }

    pub(super) async fn command_get_tree(&self, path: &str) -> Result<Body> {
        self.said(script(GET_TREE, [path.to_string()]), path, u64::MAX).await
    }

    /// What a script reads, step by step, and how it ends.
    async fn fed(&self, script: Command, path: &str, body: Body) -> Result<()> {
        let pace = Pace::of(self.lease()?);
        let command = script.pipe().output_limit(4096).timeout(self.longest());
        let mut process = self.started(&pace, command).await?;
        let (input, (mut body, progress)) = (process.take_input(), stream::watched(body));
        let feed = async {
            if let Some(input) = input {
                while let Some(piece) = body.next().await? {
                    if input.write(piece).await.is_err() {
                        break; // It takes no more: how it ended says why.
                    }
                }
            }
            Ok(())
        };
        let both = async { tokio::join!(feed, process.output()) };
        let (fed, output): (Result<()>, _) = tokio::select! {
            biased;
            both = both => both,
            stalled = pace.stalled(progress) => return Err(stalled),
        };
        fed?;
        explained(output?, path).map(drop)
    }

    /// What a script writes, up to so many bytes.
    async fn said(&self, script: Command, path: &str, most: u64) -> Result<Body> {
        let pace = Pace::of(self.lease()?);
        let process = self.started(&pace, script.timeout(self.longest())).await?;
        // Of nothing at all, the end has to say whether it could have been more.
        let (said, path, left) = (Vec::new(), path.to_string(), most.max(1));
        let mut written = Written { first: None, process, pace, said, path, left };
        // It either writes or ends, and only then its end says what is wrong.
        written.first = written.next().await?;
        Ok(Body::new(None, written))
    }

    /// The command may run for as long as the transfer needs; that it starts is one step.
    async fn started(&self, pace: &Pace, command: Command) -> Result<Process> {
        pace.within("the start of a command for files", self.plain().start(command)).await.map_err(no_shell)
    }

    /// The sandbox without its view, except for whom files belong to.
    fn plain(&self) -> Sandbox {
        let plain = self.sandbox.plain();
        match self.user() {
            Some(user) => plain.with(Overrides::new().user(user)),
            None => plain,
        }
    }

    /// A transfer is bounded by its sandbox's lifetime, and step by step.
    fn longest(&self) -> Duration {
        self.sandbox.longest_command().min(LONGEST)
    }

    async fn run(&self, command: Command, path: &str) -> Result<Output> {
        let limit = self.lease()?.spawner.limits.operation.min(self.sandbox.longest_command());
        let output = self.plain().run(command.timeout(limit)).await.map_err(no_shell)?;
        explained(output, path)
    }
}

fn script<const N: usize>(text: &str, args: [String; N]) -> Command {
    let mut command = Command::new("/bin/sh").arg("-c").arg([PRELUDE, text].concat()).arg("sh").args(args);
    command.ours = true;
    command
}

fn no_shell(error: Error) -> Error {
    match error.kind() {
        ErrorKind::ProgramNotFound => {
            Error::unsupported("file operations here are made of commands, and the image has no `/bin/sh`")
                .with_hint("use an image with a shell, or a backend with file operations of its own")
                .with_source(error)
        }
        ErrorKind::ExecutionTimeout => error.with_kind(ErrorKind::OperationTimeout),
        _ => error,
    }
}

/// What the end of a script means.
fn explained(output: Output, path: &str) -> Result<Output> {
    let Status::Code(code) = output.status else {
        return Err(Error::new(ErrorKind::Internal, format!("the command for `{path}` ended with {}", output.status)));
    };
    let said = output.stderr.text().trim().to_string();
    let kind = match code {
        0 => return Ok(output),
        60 => ErrorKind::PathNotFound,
        61 => ErrorKind::IsADirectory,
        62 => ErrorKind::NotADirectory,
        63 => ErrorKind::NotAFile,
        64 => ErrorKind::PermissionDenied,
        65 => ErrorKind::AlreadyExists,
        70 => return Err(Error::invalid(format!("the body for `{path}` has another length than it says"))),
        _ => [
            ("ermission denied", ErrorKind::PermissionDenied),
            ("not permitted", ErrorKind::PermissionDenied),
            ("No space left", ErrorKind::DiskFull),
            ("ead-only file system", ErrorKind::ReadOnly),
            ("File name too long", ErrorKind::InvalidArgument),
            ("s a directory", ErrorKind::IsADirectory),
            ("ot a directory", ErrorKind::NotADirectory),
            ("o such file", ErrorKind::PathNotFound),
            ("not found", ErrorKind::Unsupported),
        ]
        .iter()
        .find_map(|(text, kind)| said.contains(text).then_some(*kind))
        .unwrap_or(ErrorKind::Internal),
    };
    let what = match kind {
        ErrorKind::PathNotFound => "is not there",
        ErrorKind::IsADirectory => "is a directory",
        ErrorKind::NotADirectory => "is not a directory, or is below what is none",
        ErrorKind::NotAFile => "is not a regular file",
        ErrorKind::PermissionDenied => "is not permitted to the sandbox's user",
        ErrorKind::AlreadyExists => "is there and is no directory",
        _ => "could not be operated on",
    };
    let said = if said.is_empty() { said } else { format!(": {said}") };
    Err(Error::new(kind, format!("`{path}` {what}{said}")))
}

/// `%f %s %u %g %Y` of `stat`.
fn parse_info(line: &str, name: String) -> Result<FileInfo> {
    let wrong = || Error::new(ErrorKind::Protocol, format!("`stat` answered {line:?}"));
    let parts: Vec<_> = line.split(' ').collect();
    let [mode, size, uid, gid, mtime] = parts[..] else { return Err(wrong()) };
    let mode = u32::from_str_radix(mode, 16).map_err(|_| wrong())?;
    let kind = match mode & 0o170_000 {
        0o100_000 => FileKind::File,
        0o040_000 => FileKind::Directory,
        0o120_000 => FileKind::Symlink,
        _ => FileKind::Other,
    };
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let meta = Meta::new(mode & 0o7777, number(uid)?, number(gid)?, mtime.parse().map_err(|_| wrong())?);
    Ok(FileInfo::new(name, kind, size.parse().map_err(|_| wrong())?).meta(meta))
}

/// What a script writes.
struct Written {
    first: Option<Bytes>,
    process: Process,
    pace: Pace,
    said: Vec<u8>,
    path: String,
    /// More is not asked for: the script is only seen to its end then, which may be any.
    left: u64,
}

impl Chunks for Written {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let Self { process, pace, said, path, left, .. } = self;
        let piece = async {
            loop {
                match process.next().await? {
                    Some(ProcessEvent::Stdout(bytes)) if bytes.is_empty() || *left == 0 => {}
                    Some(ProcessEvent::Stdout(bytes)) => return Ok(Some(bytes)),
                    Some(ProcessEvent::Stderr(bytes)) => keep(said, &bytes),
                    Some(ProcessEvent::Exited(_)) if *left == 0 => {}
                    Some(ProcessEvent::Exited(status)) => check(status, said, path)?,
                    None => return Ok(None),
                }
            }
        };
        let Some(mut piece) = pace.within("the next piece of the file", piece).await? else { return Ok(None) };
        piece.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
        *left -= piece.len() as u64;
        Ok(Some(piece))
    }
}

fn keep(said: &mut Vec<u8>, bytes: &[u8]) {
    let room = 4096usize.saturating_sub(said.len()).min(bytes.len());
    said.extend_from_slice(&bytes[..room]);
}

fn check(status: Status, said: &[u8], path: &str) -> Result<()> {
    let output = Output::new(status, Default::default(), sandbox_core::Captured::whole(said.to_vec()));
    explained(output, path).map(drop)
}

/// Removes what a write that was cut short may have left.
struct Cleanup {
    sandbox: Option<Sandbox>,
    path: String,
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        let Some(sandbox) = self.sandbox.take() else { return };
        let Ok(lease) = sandbox.lease() else { return };
        if lease.life.is_ending() {
            return;
        }
        let (s, path) = (Arc::clone(&lease.spawner), std::mem::take(&mut self.path));
        s.watch("removing a temporary file", async move {
            let rm = Command::new("rm").arg("-f").arg(path).timeout(CLEANUP.min(sandbox.longest_command()));
            let _ = sandbox.run(rm).await;
        });
    }
}

/// What a shell counts to, less one.
const FARTHEST: u64 = i64::MAX as u64 - 1;
/// For a transfer through a command.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
const CLEANUP: Duration = Duration::from_secs(10);
