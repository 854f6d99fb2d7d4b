//! What rows know of services.

use crate::{
    ctx::{POLL, World},
    row::Stop,
};
use sandbox::{Command, Service};
use tokio::time::Instant;

impl World {
    /// A service whose main program is this probe; unproven where the subject has no image for it.
    pub(crate) fn service(&self, main: &Command) -> Result<Service, Stop> {
        let Some(service) = self.service.clone() else {
            return Err(Stop::unproven(
                "neither a spec with an image nor `Subject::service` says what services are made from",
            ));
        };
        Ok(service.command(main.argv()))
    }

    /// How many services of this trial the provider holds; unproven without the probe.
    pub(crate) async fn count_services(&self) -> Result<usize, Stop> {
        let Some(count) = &self.hooks().count_services else {
            return Err(Stop::unproven("the behaviour probe `count_services` is missing"));
        };
        Ok(self.within(30, "the probe `count_services`", count(self.labels().clone())).await??)
    }

    /// Waits until the provider holds exactly so many services of this trial, half a minute at most.
    pub(crate) async fn services_settle_at(&self, expected: usize, what: &str) -> Result<(), Stop> {
        let until = Instant::now() + self.secs(30);
        loop {
            let count = self.count_services().await?;
            if count == expected {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Stop::fail(format_args!("{what}: the provider holds {count} services, not {expected}")));
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
