//! Making, ending, finding sandboxes.

use crate::{
    Fake, FakeSandbox, VirtualClock,
    config::number,
    facts,
    fs::Fs,
    image::{Catalogue, User},
    program::join,
    world::Link,
    world::{Freezer, Room, Timer, gone, lead, lock},
};
use sandbox_core::{
    Attempt, Backend, Clock, Error, ErrorKind, Facts, Listed, Made, Page, Query, Resource, Result, SandboxId, Spec,
    Tasks,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

/// How many sandboxes one page of an enumeration has.
const PAGE: usize = 100;

impl Backend for Fake {
    type Instance = FakeSandbox;

    fn info(&self) -> Facts {
        facts::info()
    }

    async fn create(&self, spec: &Spec, attempt: &Attempt) -> Result<Made<FakeSandbox>> {
        let kernel = self.kernel();
        let name = spec.image.as_deref().unwrap_or(Catalogue::DEFAULT);
        let ((image, tree), users) = {
            let mut catalogue = lock(&kernel.catalogue);
            (catalogue.image(name)?, Arc::clone(&catalogue.users))
        };
        let named = spec.user.as_deref().unwrap_or(&image.user);
        let user = User::find(&users, named).ok_or_else(|| unknown_user(named))?;
        let cwd = join("/", spec.cwd.as_deref().unwrap_or(&image.cwd));
        let mut env = image.env;
        env.entry("HOME".into()).or_insert_with(|| user.home.to_string());
        env.extend(spec.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        let resources = facts::in_force(&spec.resources);
        let disk = resources.get(Resource::Disk).map_or(u64::MAX, |amount| amount.value);
        let mut files = Fs::new(tree, disk);
        if files.enter(&cwd, user.who()).is_err() {
            // As other engines do; but it belongs to whoever works there.
            let (root, now) = (crate::fs::Who::ROOT, kernel.seconds());
            files.make_dirs(&cwd, root, now)?;
            files.set_meta(&cwd, None, Some((user.uid, user.gid)), None, root)?;
        }
        let (number, id) = kernel.act(|state, _| {
            state.last_room += 1;
            let number = state.last_room;
            let id = SandboxId::new(format!("fake-{number}"));
            let room = Room {
                id: id.clone(),
                labels: spec.labels.clone(),
                env: Arc::new(env),
                cwd: cwd.clone(),
                user,
                users,
                link: Link::new(number, spec.effective_network().clone()),
                resources,
                created: state.timers.now(),
                lifetime: state.timers.set(spec.effective_lifetime(), Timer::Lifetime(number)),
                files: Arc::new(Mutex::new(files)),
                processes: BTreeMap::new(),
                zombies: BTreeMap::new(),
                last_pid: 1,
                commands: BTreeMap::new(),
                pipes: BTreeMap::new(),
                number: 0,
                memory: 0,
                freezer: Freezer::default(),
                stopped: false,
                gone: Vec::new(),
            };
            state.rooms.insert(number, room);
            (number, id)
        });
        let id = attempt.claim(id);
        attempt.tasks().spawn(lead(Arc::clone(kernel)));
        Ok(Made::new(id, FakeSandbox::owned(kernel, number)).cwd(cwd))
    }

    async fn destroy(&self, id: &SandboxId) -> Result<()> {
        self.kernel().stir();
        self.world().expire(id);
        Ok(())
    }

    async fn attach(&self, id: &SandboxId, tasks: &Tasks) -> Result<Made<FakeSandbox>> {
        let kernel = self.kernel();
        let found = number(id).filter(|number| *id == SandboxId::new(format!("fake-{number}")));
        let number = found.ok_or_else(|| unknown(id))?;
        let cwd = kernel.act(|state, _| match state.rooms.get(&number) {
            Some(room) => Ok(room.cwd.clone()),
            None if number <= state.last_room && number > 0 => Err(gone()),
            None => Err(unknown(id)),
        })?;
        tasks.spawn(lead(Arc::clone(kernel)));
        Ok(Made::new(id.clone(), FakeSandbox::attached(kernel, number)).cwd(cwd))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let after = match &query.cursor {
            Some(cursor) => {
                cursor.parse::<u64>().map_err(|_| Error::invalid(format!("`{cursor}` is no cursor of this backend")))?
            }
            None => 0,
        };
        let epoch = SystemTime::UNIX_EPOCH + Duration::from_secs(crate::world::EPOCH);
        let mut found: Vec<(u64, Listed)> = self.kernel().act(|state, _| {
            let later = state.rooms.range(after + 1..);
            let matching =
                later.filter(|(_, room)| query.labels.iter().all(|(name, value)| room.labels.get(name) == Some(value)));
            let listed = matching.map(|(number, room)| {
                (*number, Listed::new(room.id.clone(), room.labels.clone()).created(epoch + room.created))
            });
            listed.take(PAGE + 1).collect()
        });
        let more = found.len() > PAGE;
        found.truncate(PAGE);
        let last = found.last().map(|(number, _)| number.to_string());
        let items = found.into_iter().map(|(_, listed)| listed).collect();
        Ok(match last {
            Some(last) if more => Page::then(items, last),
            _ => Page::last(items),
        })
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(Arc::new(VirtualClock::new(self.kernel())))
    }
}

pub(crate) fn unknown_user(name: &str) -> Error {
    Error::invalid(format!("no user `{name}` in the sandbox")).with_hint("use `root`, `nobody`, `app`, or a uid")
}

fn unknown(id: &SandboxId) -> Error {
    Error::new(ErrorKind::NotFound, format!("no sandbox `{id}`"))
}
