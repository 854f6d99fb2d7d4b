//! `cargo xtask engine`: a Docker engine that answers, started here if need be.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use xshell::{Shell, cmd};

use crate::{process, workspace};

/// An engine that is busy may take its time to answer.
const ANSWER: Duration = Duration::from_secs(20);
/// A first start makes its folders and its bridge.
const START: Duration = Duration::from_secs(90);

pub(crate) fn run() -> Result<()> {
    let version = ensure_answers(&workspace::root())?;
    println!("a Docker engine answers: {version}");
    Ok(())
}

/// The version of the engine that answers.
pub(crate) fn ensure_answers(root: &Path) -> Result<String> {
    if installed("docker") {
        match ask() {
            Ok(version) => return Ok(version),
            Err(why) => eprintln!("no Docker engine answers: {why:#}"),
        }
    }
    if let Some(host) = env::var_os("DOCKER_HOST").filter(|host| !host.is_empty()) {
        bail!("DOCKER_HOST is {host:?}, and no engine answers there; start that engine, or unset the variable");
    }
    install()?;
    let log = root.join("target/dockerd.log");
    start(&log)?;
    let started = Instant::now();
    loop {
        match ask() {
            Ok(version) => return Ok(version),
            Err(why) if started.elapsed() > START => {
                let text = fs::read_to_string(&log).unwrap_or_default();
                let tail =
                    text.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n");
                bail!(
                    "dockerd does not answer after {} s ({why:#}); the end of {}:\n{tail}",
                    START.as_secs(),
                    log.display()
                );
            }
            Err(_) => thread::sleep(Duration::from_millis(500)),
        }
    }
}

fn ask() -> Result<String> {
    let output =
        process::output_within(Command::new("docker").args(["version", "--format", "{{.Server.Version}}"]), ANSWER)?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_string();
    ensure!(output.status.success() && !version.is_empty(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(version)
}

fn install() -> Result<()> {
    if installed("dockerd") && installed("docker") {
        return Ok(());
    }
    let hint = "install and start a Docker engine, or point DOCKER_HOST to one";
    ensure!(cfg!(target_os = "linux"), "no Docker engine is installed; {hint}");
    ensure!(installed("apt-get"), "no Docker engine is installed and this is no Debian; {hint}");
    ensure!(is_root()?, "no Docker engine is installed and only root can install one; {hint}");
    let shell = Shell::new()?;
    shell.set_var("DEBIAN_FRONTEND", "noninteractive");
    let install = || cmd!(shell, "apt-get install -y --no-install-recommends docker.io").run();
    // The lists of a fresh machine may be missing or old.
    install().or_else(|_| {
        cmd!(shell, "apt-get update").run()?;
        install()
    })?;
    Ok(())
}

/// Starts the engine so that it outlives this program, and the lane that may have asked for it.
fn start(log: &Path) -> Result<()> {
    ensure!(
        is_root()?,
        "no Docker engine answers and only root can start one; start it, for example `systemctl start docker`"
    );
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let file = fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    println!("starting dockerd, which writes to {}", log.display());
    let status = Command::new("setsid")
        .args(["--fork", "dockerd"])
        .env_remove(process::VARIABLE)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(file.try_clone().context("cannot share the log")?)
        .stderr(file)
        .status()
        .context("cannot run setsid")?;
    ensure!(status.success(), "setsid could not start dockerd: {status}");
    Ok(())
}

fn is_root() -> Result<bool> {
    let shell = Shell::new()?;
    Ok(cmd!(shell, "id -u").quiet().read()? == "0")
}

pub(crate) fn installed(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| {
        env::split_paths(&path)
            .any(|folder| folder.join(program).is_file() || folder.join(format!("{program}.exe")).is_file())
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_program_is_found_by_its_path() {
        assert!(super::installed("cargo"));
        assert!(!super::installed("no-such-program-of-ours"));
    }
}
