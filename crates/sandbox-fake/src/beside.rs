//! Making services: what runs beside a sandbox.

use crate::{
    Fake, FakeSandbox,
    backend::{Outfit, Plan},
    config::id_of,
    double::{Input, RunCall},
    facts,
    world::{Beside, Kernel, Lie, lock},
};
use sandbox_core::{Attempt, Error, ErrorKind, Made, Resources, Result, Service, Spec};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A service that is to be made.
pub(crate) struct Planned {
    name: String,
    plan: Plan,
    command: Option<Vec<String>>,
}

impl Fake {
    /// Everything about them that can be wrong before anything is made.
    pub(crate) fn plan_services(&self, spec: &Spec) -> Result<Vec<Planned>> {
        let planned = spec.services.iter().map(|(name, service)| {
            let (plan, command) =
                self.plan_service(service, spec).map_err(|error| of_service(name, error.kind(), error))?;
            Ok(Planned { name: name.clone(), plan, command })
        });
        planned.collect()
    }

    fn plan_service(&self, service: &Service, spec: &Spec) -> Result<(Plan, Option<Vec<String>>)> {
        let origin = lock(&self.kernel().catalogue).origin(&service.image)?;
        let command = service.command.clone().or_else(|| origin.main.clone());
        let (user, cwd) = (service.user.as_deref(), service.cwd.as_deref());
        let asked = Outfit { user, cwd, env: &service.env, secrets: &BTreeMap::new() };
        let resources = facts::in_force(&Resources::new());
        Ok((self.plan(origin, &asked, resources, spec)?, command))
    }

    /// Makes the services of a sandbox that is there, and starts their main programs.
    pub(crate) fn furnish_services(
        &self,
        sandbox: u64,
        planned: Vec<Planned>,
        attempt: &Attempt,
    ) -> Result<Vec<(String, Made<FakeSandbox>)>> {
        let kernel = self.kernel();
        let mut made = Vec::new();
        for Planned { name, plan, command } in planned {
            let (beside, cwd) = (Beside { sandbox, name: name.clone(), main: None }, plan.cwd.clone());
            let (number, is_claimed) = kernel.act(|state, _| {
                let number = state.move_in(plan, "", Some(beside));
                (number, state.lie != Some(Lie::ServicesAreNotClaimed))
            });
            if is_claimed {
                attempt.claim(id_of(number));
            }
            if let Some(argv) = command {
                self.begin(number, argv).map_err(|error| of_service(&name, ErrorKind::CreateFailed, error))?;
            }
            made.push((name, Made::new(id_of(number), FakeSandbox::attached(kernel, number)).cwd(cwd)));
        }
        Ok(made)
    }

    /// Starts the main program of a service.
    fn begin(&self, number: u64, argv: Vec<String>) -> Result<()> {
        let kernel = self.kernel();
        let call = kernel.with(|state, _| {
            let room = state.room(number)?;
            Ok::<_, Error>(RunCall {
                sandbox: room.id.clone(),
                argv,
                env: Arc::clone(&room.env),
                cwd: room.cwd.clone(),
                user: room.user.name.to_string(),
                stdin: Input::None,
                network: room.link.policy().clone(),
                timeout: Duration::MAX,
                error: None,
            })
        })?;
        let launch = FakeSandbox::attached(kernel, number).launch(&call)?;
        kernel.act(|state, after| state.begin(kernel, number, launch, after))
    }
}

/// The services that a sandbox still has, for whoever reaches it.
pub(crate) fn reached(kernel: &Arc<Kernel>, sandbox: u64) -> BTreeMap<String, Made<FakeSandbox>> {
    let services = kernel.with(|state, _| {
        let all = state.services(sandbox).into_iter();
        let at = |number: u64| state.rooms.get(&number).map(|room| room.cwd.clone()).unwrap_or_default();
        all.map(|(name, (number, id))| (name, number, id, at(number))).collect::<Vec<_>>()
    });
    let made = |number, id, cwd: String| Made::new(id, FakeSandbox::attached(kernel, number)).cwd(cwd);
    services.into_iter().map(|(name, number, id, cwd)| (name, made(number, id, cwd))).collect()
}

fn of_service(name: &str, kind: ErrorKind, error: Error) -> Error {
    let told = Error::new(kind, format!("service `{name}`: {}", error.message()));
    let hint = error.hint().map(str::to_string);
    hint.into_iter().fold(told, Error::with_hint).with_source(error)
}
