//! The connection to the engine, and what the engine is.

use crate::{
    config::Config,
    discovery::{self, Address, Found, Surroundings},
    error::{self, Meaning},
    pause::Stills,
    sweep::Swept,
};
use bollard::{API_DEFAULT_VERSION, Docker, models::SystemInfo};
use sandbox_core::{Error, ErrorKind, Result};
use std::{collections::BTreeMap, time::Duration};

/// Time limits are the callers': the client's own only keeps a request from staying for good. It counts whole seconds, so
/// anything below one would be none at all.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// For the first contact, where an address that swallows packets would hold everything up.
const FIRST_CONTACT: Duration = Duration::from_secs(10);

/// The oldest API whose answers this adapter knows.
const OLDEST_API: (u32, u32) = (1, 41);

/// An engine that has answered. Made inside an adapter's future, so that its sockets belong to that runtime.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) docker: Docker,
    pub(crate) engine: Engine,
    pub(crate) swept: Swept,
    pub(crate) stills: Stills,
}

/// What matters of an engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Engine {
    pub(crate) version: String,
    pub(crate) memory_limit: bool,
    pub(crate) swap_limit: bool,
    pub(crate) cpu_limit: bool,
    pub(crate) pids_limit: bool,
    /// Whether system calls can be filtered.
    pub(crate) seccomp: bool,
    pub(crate) cpus: Option<u64>,
    /// Names, and the programs behind them where the engine tells.
    pub(crate) runtimes: BTreeMap<String, Option<String>>,
    pub(crate) default_runtime: String,
}

impl Link {
    pub(crate) async fn open(config: &Config) -> Result<Self> {
        let target = config.target.clone();
        let look = move || discovery::resolve(target.as_ref(), &Surroundings::of_this_process());
        let found = tokio::task::spawn_blocking(look)
            .await
            .map_err(|error| Error::new(ErrorKind::Internal, "looking for the engine").with_source(error))??;
        let docker = connect(&found)?;
        let first = docker.clone().with_timeout(FIRST_CONTACT);
        first.ping().await.map_err(|error| unreachable(&found, error))?;
        let version = first.version().await.map_err(|e| error::fault("asking for the version", Meaning::OTHER, e))?;
        check_api(version.api_version.as_deref().unwrap_or_default())?;
        let info = first.info().await.map_err(|e| error::fault("asking about the engine", Meaning::OTHER, e))?;
        let engine = Engine::read(version.version.unwrap_or_default(), &info)?;
        let docker =
            docker.negotiate_version().await.map_err(|e| error::fault("agreeing on a version", Meaning::OTHER, e))?;
        tracing::debug!(
            address = %found.address,
            source = %found.source,
            version = %engine.version,
            storage = info.driver.as_deref().unwrap_or("unknown"),
            "the engine answers"
        );
        Ok(Self { docker, engine, swept: Swept::default(), stills: Stills::default() })
    }
}

fn connect(found: &Found) -> Result<Docker> {
    let seconds = CLIENT_TIMEOUT.as_secs();
    let docker = match &found.address {
        #[cfg(unix)]
        Address::Unix(path) => Docker::connect_with_unix(path, seconds, API_DEFAULT_VERSION),
        #[cfg(windows)]
        Address::Pipe(name) => Docker::connect_with_named_pipe(name, seconds, API_DEFAULT_VERSION),
        Address::Tcp(host) => Docker::connect_with_http(host, seconds, API_DEFAULT_VERSION),
        #[cfg(not(windows))]
        Address::Pipe(_) => {
            return Err(Error::unsupported("named pipes are for Windows").with_hint("use unix:// or tcp://"));
        }
        #[cfg(not(unix))]
        Address::Unix(_) => {
            return Err(Error::unsupported("unix sockets on this host").with_hint("use npipe:// or tcp://"));
        }
    };
    docker.map_err(|error| unreachable(found, error))
}

fn unreachable(found: &Found, error: bollard::errors::Error) -> Error {
    let Found { address, source } = found;
    Error::new(ErrorKind::BackendMissing, format!("no engine answers at {address}, which comes from {source}"))
        .with_hint("start it, for example with `sudo systemctl start docker`, and let this user open its socket; or correct the address where it comes from")
        .with_source(error)
}

fn check_api(version: &str) -> Result<()> {
    let parts = version.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    match parts {
        Some(api) if api >= OLDEST_API => Ok(()),
        Some(_) => {
            Err(Error::unsupported(format!("the engine speaks API {version}, and 1.41 is the oldest known here"))
                .with_hint("update the engine to Docker 20.10 or newer"))
        }
        None => Err(Error::new(ErrorKind::Protocol, format!("the engine's API version {version:?} is no version"))
            .applied(false)),
    }
}

impl Engine {
    fn read(version: String, info: &SystemInfo) -> Result<Self> {
        if info.os_type.as_deref().is_some_and(|os| os != "linux") {
            return Err(
                Error::unsupported("the engine runs Windows containers").with_hint("switch it to Linux containers")
            );
        }
        let runtimes =
            info.runtimes.iter().flatten().map(|(name, runtime)| (name.clone(), runtime.path.clone())).collect();
        Ok(Self {
            version,
            memory_limit: info.memory_limit == Some(true),
            swap_limit: info.swap_limit == Some(true),
            cpu_limit: info.cpu_cfs_quota == Some(true) && info.cpu_cfs_period != Some(false),
            // Engines that do not say can.
            pids_limit: info.pids_limit != Some(false),
            seccomp: info.security_options.iter().flatten().any(|option| option.starts_with("name=seccomp")),
            cpus: info.ncpu.and_then(|count| u64::try_from(count).ok()).filter(|count| *count > 0),
            runtimes,
            default_runtime: info.default_runtime.clone().unwrap_or_default(),
        })
    }

    /// Whether containers of this runtime keep their files where the engine's archive API does not see them.
    pub(crate) fn hides_files(&self, runtime: Option<&str>) -> bool {
        let name = runtime.unwrap_or(&self.default_runtime);
        let program = self.runtimes.get(name).and_then(Option::as_deref).unwrap_or(name);
        let program = program.rsplit('/').next().unwrap_or(program);
        ["runsc", "kata"].iter().any(|known| program.contains(known) || name.contains(known))
    }
}

/// Whether an id may stand in a request's path. The client puts ids there as they are: `../../info?x=` would ask something else.
///
/// Letters, digits, `_`, `.`, `-`, and no sign in front: what the engine takes as a name.
pub(crate) fn sound(id: &str) -> bool {
    id.len() <= 255
        && id.starts_with(|c: char| c.is_ascii_alphanumeric())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_one_part_of_a_path() {
        for good in ["sandbox-1", "a", "0ab_c.d-e", "f3c1"] {
            assert!(sound(good), "{good}");
        }
        for bad in ["", ".", "..", "../../info?x=", "a/b", "a?b", "a#b", "a b", "a%2fb", "-a", "ä", &"a".repeat(256)] {
            assert!(!sound(bad), "{bad}");
        }
    }

    #[test]
    fn old_engines_are_refused() {
        assert!(check_api("1.41").is_ok() && check_api("1.53").is_ok() && check_api("2.0").is_ok());
        assert_eq!(check_api("1.40").unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(check_api("").unwrap_err().kind(), ErrorKind::Protocol);
    }

    #[test]
    fn runtimes_that_hide_files_are_known_by_name_or_program() {
        let runtimes = [("runc", None), ("g", Some("/usr/bin/runsc")), ("kata-qemu", None)];
        let engine = Engine {
            runtimes: runtimes.into_iter().map(|(name, path)| (name.into(), path.map(String::from))).collect(),
            default_runtime: "runc".into(),
            ..Engine::default()
        };
        assert!(!engine.hides_files(None) && !engine.hides_files(Some("runc")));
        assert!(engine.hides_files(Some("g")) && engine.hides_files(Some("kata-qemu")));
        assert!(Engine { default_runtime: "g".into(), ..engine }.hides_files(None));
    }
}
