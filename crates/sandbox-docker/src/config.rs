//! How the backend is configured.

use crate::Plain;
use std::{fmt, sync::Arc};

/// Where backends on a Docker engine come from.
#[derive(Debug)]
#[non_exhaustive]
pub struct Docker {}

impl Docker {
    /// Containers as they are, one exec per command, nothing of ours inside. A timeout ends the whole sandbox.
    pub fn plain() -> Plain {
        Plain::new(Config::default())
    }
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pull {
    /// When the engine does not have it.
    #[default]
    Missing,
    /// Never: an image that is not there is `image-not-found`.
    Never,
    /// Before every create.
    Always,
}

impl Pull {
    /// The policy with this name: `missing`, `never` or `always`.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "missing" => Some(Self::Missing),
            "never" => Some(Self::Never),
            "always" => Some(Self::Always),
            _ => None,
        }
    }
}

/// One report of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PullProgress {
    /// The image being pulled.
    pub image: String,
    /// The layer, where the report is about one.
    pub layer: Option<String>,
    /// What happens, in the engine's words.
    pub status: String,
    /// Bytes so far.
    pub current: Option<u64>,
    /// Bytes in all.
    pub total: Option<u64>,
}

type Tell = Arc<dyn Fn(&PullProgress) + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) struct Config {
    pub(crate) target: Option<Target>,
    pub(crate) image: Option<String>,
    pub(crate) pull: Pull,
    pub(crate) runtime: Option<String>,
    pub(crate) progress: Option<Tell>,
}

/// Where the caller says that the engine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Host(String),
    Context(String),
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("target", &self.target)
            .field("image", &self.image)
            .field("pull", &self.pull)
            .field("runtime", &self.runtime)
            .finish_non_exhaustive()
    }
}
