//! What a run shall do, checked as far as this host can check it before anything is made.

use crate::{args, values::Transfer};
use sandbox::{Capability, Command, Definition, Error, ErrorKind, Facts, Resources, Result, Spec};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A run, ready to go.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) spec: Spec,
    pub(crate) command: Command,
    pub(crate) uploads: Vec<Upload>,
    pub(crate) downloads: Vec<Transfer>,
    pub(crate) output_limit: Option<u64>,
}

/// Something that goes in.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) host: PathBuf,
    pub(crate) inside: String,
    pub(crate) directory: bool,
}

/// How the program gets our stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feed {
    /// Not at all.
    Nothing,
    /// Piece by piece.
    Pipe,
    /// All of it, read before the program starts.
    Whole,
}

impl Plan {
    /// The run that these arguments ask for.
    pub(crate) fn of(args: args::Run) -> Result<Self> {
        let uploads = args.upload.into_iter().map(readable).collect::<Result<_>>()?;
        args.download.iter().try_for_each(writable)?;
        let mut resources = Resources::new();
        if let Some(bytes) = args.memory {
            resources = resources.memory(bytes);
        }
        if let Some(millis) = args.cpus {
            resources = resources.cpu_millis(millis);
        }
        if let Some(most) = args.pids {
            resources = resources.pids(most);
        }
        let mut spec = Spec::new().resources(resources);
        macro_rules! set {
            ($($field:ident)*) => { $(if let Some(value) = args.$field { spec = spec.$field(value); })* };
        }
        set!(image user lifetime network);
        if let Some(directory) = args.build {
            spec = spec.build(definition(&directory)?);
        }
        for (name, value) in args.label {
            spec = spec.label(name, value);
        }
        let mut command = match (args.shell, args.command.split_first()) {
            (Some(text), _) => Command::shell(text),
            (None, Some((program, _))) if program.is_empty() => {
                return Err(Error::invalid("the program is empty").with_hint("write its name after --"));
            }
            (None, Some((program, rest))) => Command::new(program).args(rest),
            (None, None) => {
                return Err(Error::invalid("there is no program to run").with_hint("write -- CMD, or --shell TEXT"));
            }
        };
        for (name, value) in args.env {
            command = command.env(name, value);
        }
        if let Some(dir) = args.workdir {
            if dir.is_empty() {
                return Err(Error::invalid("the working directory is empty").with_hint("leave --workdir out"));
            }
            command = command.cwd(dir);
        }
        if let Some(timeout) = args.timeout {
            command = command.timeout(timeout);
            // What is too long for the lifetime is refused with the spec, before anything is made.
            spec = spec.command_timeout(timeout);
        }
        Ok(Self { spec, command, uploads, downloads: args.download, output_limit: args.output_limit })
    }
}

impl Feed {
    /// How a backend with these facts takes input.
    pub(crate) fn of(wanted: bool, facts: &Facts) -> Result<Self> {
        if !wanted {
            Ok(Self::Nothing)
        } else if facts.has(Capability::Stdin) {
            Ok(Self::Pipe)
        } else if facts.has(Capability::StdinWhole) {
            Ok(Self::Whole)
        } else {
            let error = Error::unsupported("this backend gives programs no input");
            Err(error.with_hint("leave -i out"))
        }
    }
}

/// What the Dockerfile in a directory says, with the directory as its context.
fn definition(directory: &Path) -> Result<Definition> {
    let path = directory.join("Dockerfile");
    let text = fs::read_to_string(&path).map_err(|error| on_host(&path, error))?;
    Ok(Definition::new(text).context(directory))
}

fn readable(Transfer { host, inside }: Transfer) -> Result<Upload> {
    let there = fs::metadata(&host).map_err(|error| on_host(&host, error))?;
    let directory = there.is_dir();
    if !directory && !there.is_file() {
        let message = format!("`{}` on this host is neither a file nor a directory", host.display());
        return Err(Error::new(ErrorKind::NotAFile, message));
    }
    let opened = if directory { fs::read_dir(&host).map(drop) } else { fs::File::open(&host).map(drop) };
    opened.map_err(|error| on_host(&host, error))?;
    Ok(Upload { host, inside, directory })
}

/// A file that is there may be replaced; what is not there needs a directory to be in.
fn writable(Transfer { host, .. }: &Transfer) -> Result<()> {
    if let Ok(there) = fs::metadata(host) {
        if there.is_dir() || there.is_file() {
            return Ok(());
        }
        let message =
            format!("`{}` on this host is neither a file nor a directory, and is not replaced", host.display());
        return Err(Error::new(ErrorKind::NotAFile, message).with_hint("name another target"));
    }
    let parent = match host.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match fs::metadata(parent) {
        Ok(there) if there.is_dir() => Ok(()),
        Ok(_) => Err(on_host(parent, io::ErrorKind::NotADirectory.into())),
        Err(error) => Err(on_host(parent, error)),
    }
}

fn on_host(path: &Path, error: io::Error) -> Error {
    let path = path.display();
    let (kind, message) = match error.kind() {
        io::ErrorKind::NotFound => {
            (ErrorKind::PathNotFound, format!("no such file or directory on this host: `{path}`"))
        }
        io::ErrorKind::NotADirectory => (ErrorKind::NotADirectory, format!("not a directory on this host: `{path}`")),
        io::ErrorKind::PermissionDenied => {
            (ErrorKind::PermissionDenied, format!("not readable on this host: `{path}`"))
        }
        _ => (ErrorKind::InvalidArgument, format!("cannot look at `{path}` on this host: {error}")),
    };
    Error::new(kind, message).with_source(error)
}
