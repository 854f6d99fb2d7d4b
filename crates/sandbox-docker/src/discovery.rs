//! Where the engine is.

use crate::config::Target;
use sandbox_core::{Error, ErrorKind, Result};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

/// An engine's address and why it is this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) address: Address,
    pub(crate) source: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// Path of a socket.
    Unix(String),
    /// Host and port, without TLS.
    Tcp(String),
    /// Name of a pipe, with forward slashes.
    Pipe(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{path}"),
            Self::Tcp(host) => write!(f, "tcp://{host}"),
            Self::Pipe(name) => write!(f, "npipe://{name}"),
        }
    }
}

/// What discovery looks at, so that tests need not change the process.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) root: PathBuf,
}

impl Surroundings {
    pub(crate) fn of_this_process() -> Self {
        const NAMES: &[&str] = &[
            "DOCKER_HOST",
            "DOCKER_CONTEXT",
            "DOCKER_CONFIG",
            "DOCKER_TLS",
            "DOCKER_TLS_VERIFY",
            "XDG_RUNTIME_DIR",
            "HOME",
            "USERPROFILE",
        ];
        let variables =
            NAMES.iter().filter_map(|name| Some(((*name).to_string(), std::env::var(name).ok()?))).collect();
        Self { variables, root: PathBuf::from("/") }
    }

    /// A variable; an empty one counts as unset, as it does for Docker's own tools.
    fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn home(&self) -> Option<PathBuf> {
        self.get("HOME").or_else(|| self.get("USERPROFILE")).map(PathBuf::from)
    }

    fn docker_config(&self) -> Option<PathBuf> {
        self.get("DOCKER_CONFIG").map(PathBuf::from).or_else(|| Some(self.home()?.join(".docker")))
    }
}

/// The engine's address: what the caller says, `DOCKER_HOST`, `DOCKER_CONTEXT`, the current context, the known sockets. What
/// is named and cannot be used is an error; nothing else is tried then. Reads files.
pub(crate) fn resolve(target: Option<&Target>, around: &Surroundings) -> Result<Found> {
    match target {
        Some(Target::Host(host)) => {
            return Ok(Found { address: parse(host, false)?, source: "the configured host".into() });
        }
        Some(Target::Context(name)) => return context(name, "the configured context", around),
        None => {}
    }
    if let Some(host) = around.get("DOCKER_HOST") {
        let tls = around.get("DOCKER_TLS_VERIFY").is_some() || around.get("DOCKER_TLS").is_some();
        return Ok(Found { address: parse(host, tls)?, source: "DOCKER_HOST".into() });
    }
    if let Some(name) = around.get("DOCKER_CONTEXT") {
        return context(name, "DOCKER_CONTEXT", around);
    }
    match current_context(around)? {
        Some(name) => context(&name, "the current context of the Docker configuration", around),
        None => well_known(around),
    }
}

/// The address that a text such as `unix:///run/docker.sock` or `tcp://host:2375` names.
pub(crate) fn parse(host: &str, tls: bool) -> Result<Address> {
    if let Some(path) = host.strip_prefix("unix://") {
        return if path.starts_with('/') { Ok(Address::Unix(path.into())) } else { Err(unreadable(host)) };
    }
    if let Some(name) = host.strip_prefix("npipe://") {
        return if name.is_empty() { Err(unreadable(host)) } else { Ok(Address::Pipe(name.replace('\\', "/"))) };
    }
    if host.starts_with("ssh://") {
        return Err(Error::unsupported(format!("an engine at {host}")).with_hint(
            "forward its socket with `ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST`, and use unix:///tmp/docker.sock",
        ));
    }
    if let Some(rest) = host.strip_prefix("https://") {
        return Err(no_tls(rest));
    }
    let Some(rest) = host.strip_prefix("tcp://").or_else(|| host.strip_prefix("http://")) else {
        return if host.starts_with('/') { Ok(Address::Unix(host.into())) } else { Err(unreadable(host)) };
    };
    let rest = rest.trim_end_matches('/');
    let (name, port) = rest.rsplit_once(':').unwrap_or((rest, "2375"));
    let sound = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]%".contains(c));
    match port.parse::<u16>() {
        Ok(port) if sound && port > 0 => {
            if tls {
                return Err(no_tls(rest));
            }
            Ok(Address::Tcp(format!("{name}:{port}")))
        }
        _ => Err(unreadable(host)),
    }
}

fn unreadable(host: &str) -> Error {
    Error::invalid(format!("{host:?} is not the address of an engine"))
        .with_hint("write unix:///var/run/docker.sock, tcp://host:2375 or npipe:////./pipe/docker_engine")
}

fn no_tls(host: &str) -> Error {
    Error::unsupported(format!("an engine behind TLS at {host}"))
        .with_hint("forward its socket with `ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST`, and use unix:///tmp/docker.sock")
}

fn current_context(around: &Surroundings) -> Result<Option<String>> {
    let Some(file) = around.docker_config().map(|directory| directory.join("config.json")) else { return Ok(None) };
    let Some(config) = read_json(&file)? else { return Ok(None) };
    Ok(config["currentContext"].as_str().filter(|name| !name.is_empty()).map(String::from))
}

/// `None` where the file is not there; unreadable is an error, because what it says may matter.
fn read_json(file: &Path) -> Result<Option<Value>> {
    let failed = |what: &str| Error::new(ErrorKind::BackendMissing, format!("{} {what}", file.display()));
    let text = match fs::read(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(failed("cannot be read")
                .with_hint("make it readable, or name the engine's address")
                .with_source(error));
        }
    };
    let value = serde_json::from_slice(&text)
        .map_err(|error| failed("is not JSON").with_hint("mend it, or name the engine's address").with_source(error))?;
    Ok(Some(value))
}

fn context(name: &str, source: &str, around: &Surroundings) -> Result<Found> {
    if name == "default" {
        return well_known(around);
    }
    let missing = || {
        Error::new(ErrorKind::BackendMissing, format!("no Docker context is called {name:?}, which {source} names"))
            .with_hint("`docker context ls` shows what there is; or name the engine's address")
    };
    let config = around.docker_config().ok_or_else(missing)?;
    let entries = fs::read_dir(config.join("contexts/meta")).map_err(|error| missing().with_source(error))?;
    // The folders are named by hashes; the name itself is in the file.
    for entry in entries.filter_map(Result::ok) {
        let Some(meta) = read_json(&entry.path().join("meta.json"))? else { continue };
        if meta["Name"].as_str() != Some(name) {
            continue;
        }
        let Some(host) = meta["Endpoints"]["docker"]["Host"].as_str() else {
            return Err(Error::new(ErrorKind::BackendMissing, format!("the Docker context {name:?} names no address"))
                .with_hint("name the engine's address"));
        };
        let tls = config.join("contexts/tls").join(entry.file_name()).join("docker").is_dir();
        return Ok(Found { address: parse(host, tls)?, source: format!("{source} ({name})") });
    }
    Err(missing())
}

fn well_known(around: &Surroundings) -> Result<Found> {
    if cfg!(windows) {
        let address = Address::Pipe("//./pipe/docker_engine".into());
        return Ok(Found { address, source: "the usual pipe".into() });
    }
    let mut places = vec![around.root.join("var/run/docker.sock")];
    places.extend(around.get("XDG_RUNTIME_DIR").map(|directory| Path::new(directory).join("docker.sock")));
    if let Some(home) = around.home() {
        const BELOW_HOME: &[&str] = &[
            ".docker/run/docker.sock",
            ".docker/desktop/docker.sock",
            ".orbstack/run/docker.sock",
            ".colima/default/docker.sock",
            ".rd/docker.sock",
            ".lima/docker/sock/docker.sock",
        ];
        places.extend(BELOW_HOME.iter().map(|below| home.join(below)));
    }
    let found = places.iter().find(|place| place.exists());
    let Some(place) = found else {
        let all: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        return Err(Error::new(ErrorKind::BackendMissing, "no Docker engine was found").with_hint(format!(
            "start one, for example with `sudo systemctl start docker`, or set DOCKER_HOST; looked for {}",
            all.join(", ")
        )));
    };
    let path = place.to_str().ok_or_else(|| Error::invalid(format!("{} is not UTF-8", place.display())))?;
    Ok(Found { address: Address::Unix(path.into()), source: "the usual socket".into() })
}

#[cfg(test)]
mod tests;
