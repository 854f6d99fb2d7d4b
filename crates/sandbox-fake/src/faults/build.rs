//! Lies about images that are made from definitions.

use super::{Fault, Liar};
use sandbox_core::{Backend, Body, BuildImage, Error, ErrorKind, Result};
use std::hash::{DefaultHasher, Hash, Hasher};

impl Liar {
    pub(super) async fn image(&self, request: &BuildImage, context: Body) -> Result<String> {
        let (lies, mut request) = (&self.0, request.clone());
        match lies.fault {
            Fault::BuildsAreTheirBase => {
                let base = request.dockerfile.lines().find_map(|line| line.strip_prefix("FROM "));
                return Ok(base.unwrap_or("default").to_string());
            }
            Fault::EveryBuildIsNew => request.rebuild = true,
            Fault::RebuildsAreFound => request.rebuild = false,
            Fault::BuildsGoByTheirText => {
                let mut hash = DefaultHasher::new();
                request.dockerfile.hash(&mut hash);
                request.digest = format!("{:064x}", hash.finish());
            }
            _ => {}
        }
        match lies.fake.build(&request, context).await {
            Err(error) if lies.is(Fault::FailedStepsSayNothing) && error.kind() == ErrorKind::CreateFailed => {
                Err(Error::new(ErrorKind::CreateFailed, "the build failed").applied(false))
            }
            Err(error) if lies.is(Fault::UnknownBaseIsTheDefault) && error.kind() == ErrorKind::ImageNotFound => {
                Ok("default".into())
            }
            built => built,
        }
    }
}
