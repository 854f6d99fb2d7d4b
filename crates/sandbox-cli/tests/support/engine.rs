//! The Docker engine, seen through its own command.

use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

pub(crate) const BUSYBOX: &str = "sandbox-test/busybox:1";
pub(crate) const PYTHON: &str = "sandbox-test/python:1";

/// Why nothing can be tested here, if so.
pub(crate) fn missing() -> Option<String> {
    let fine = |arguments: &[&str]| match docker(arguments) {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(why) = fine(&["version"]) {
        return Some(format!("no Docker engine answers: {why}"));
    }
    let without = [BUSYBOX, PYTHON].into_iter().find(|image| fine(&["image", "inspect", image]).is_err());
    without.map(|image| format!("the engine has no image {image}: run `cargo xtask images`"))
}

/// A label that no other run has, and what bears it.
#[derive(Debug, Clone)]
pub(crate) struct Label(String);

impl Label {
    pub(crate) fn new(what: &str) -> Self {
        Self::named("cli-test", what)
    }

    pub(crate) fn named(name: &str, what: &str) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Self(format!("{name}={what}-{}-{}", std::process::id(), now.as_nanos()))
    }

    pub(crate) fn value(&self) -> &str {
        self.0.split_once('=').map_or("", |(_, value)| value)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The containers that bear it, whatever their state.
    pub(crate) fn containers(&self) -> Vec<String> {
        self.ids(&["ps", "--all"])
    }

    /// Those of them that run.
    pub(crate) fn running(&self) -> Vec<String> {
        self.ids(&["ps"])
    }

    /// Fails if anything bears it any more. Removal is seen a moment after it was asked for.
    pub(crate) fn nothing_left(&self) {
        super::until(&format!("nothing of {self:?} is left"), Duration::from_secs(20), || {
            self.containers().is_empty()
                && self.ids(&["network", "ls"]).is_empty()
                && self.ids(&["volume", "ls"]).is_empty()
        });
    }

    fn ids(&self, list: &[&str]) -> Vec<String> {
        let filter = format!("label={}", self.0);
        let output = docker(&[list, &["--quiet", "--filter", &filter]].concat()).unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(String::from).collect()
    }
}

/// What a failed test would leave behind.
impl Drop for Label {
    fn drop(&mut self) {
        for id in if std::thread::panicking() { self.containers() } else { Vec::new() } {
            _ = docker(&["rm", "--force", &id]);
        }
    }
}

/// One value of a container.
pub(crate) fn inspect(id: &str, format: &str) -> String {
    let output = docker(&["inspect", "--format", format, id]).unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// Removes a container.
pub(crate) fn remove(id: &str) {
    let output = docker(&["rm", "--force", id]).unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn docker(arguments: &[&str]) -> std::io::Result<Output> {
    Command::new("docker").args(arguments).output()
}
