//! Lies about what runs beside a sandbox.

use super::{Fault, Labels, Liar, Lies};
use crate::{FakeSandbox, config::number, world::Lie};
use sandbox_core::{Listed, Made, Query, SandboxId, Spec};

impl Liar {
    /// A sandbox as it is handed over, by `create` or `attach`.
    pub(super) fn with_services(&self, mut made: Made<FakeSandbox>, attached: bool) -> Made<FakeSandbox> {
        match self.0.fault {
            Fault::AttachForgetsServices if attached => made.services.clear(),
            Fault::ServicesAreTheirSandbox => {
                let kernel = self.0.fake.kernel();
                let sandbox = number(&made.id).unwrap_or_default();
                for service in made.services.values_mut() {
                    service.instance = FakeSandbox::attached(kernel, sandbox);
                }
            }
            _ => {}
        }
        made
    }
}

impl Lies {
    /// The services as the provider gets them.
    pub(super) fn change_services(&self, spec: &mut Spec) {
        if !self.is(Fault::ServicesInheritTheSpec) {
            return;
        }
        for service in spec.services.values_mut() {
            let own = std::mem::replace(&mut service.env, spec.env.clone());
            let secrets = spec.secrets.iter().map(|(name, secret)| (name.clone(), secret.expose().clone()));
            service.env.extend(secrets);
            service.env.extend(own);
            service.cwd = service.cwd.take().or_else(|| spec.cwd.clone());
            service.user = service.user.take().or_else(|| spec.user.clone());
        }
    }

    /// From here on the engine hears of no service, and nobody ends one, or all is as it should be.
    pub(super) fn lose_services(&self, lose: bool) {
        if self.is(Fault::ServicesAreNotClaimed) {
            self.fake.kernel().with(|state, _| state.lie = lose.then_some(Lie::ServicesAreNotClaimed));
        }
    }

    /// The sandbox that ends with a service.
    pub(super) fn taken_along(&self, id: &SandboxId) -> Option<SandboxId> {
        let service = number(id).filter(|_| self.is(Fault::ServicesTakeTheirSandboxAlong))?;
        self.fake.kernel().with(|state, _| {
            let sandbox = state.rooms.get(&service)?.beside.as_ref()?.sandbox;
            state.rooms.get(&sandbox).map(|room| room.id.clone())
        })
    }

    pub(super) fn listed_services(&self, query: &Query) -> Vec<Listed> {
        if !self.is(Fault::ListShowsServices) {
            return Vec::new();
        }
        self.fake.kernel().with(|state, _| {
            let services = state.rooms.values().filter(|room| room.beside.is_some() && query.fits(&room.labels));
            services.map(|room| Listed::new(room.id.clone(), room.labels.clone() as Labels)).collect()
        })
    }
}
