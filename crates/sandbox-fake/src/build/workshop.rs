//! Where an image is made: a room that is no sandbox, and goes with whoever builds in it.

use crate::{
    config::id_of,
    double::{Done, Input, RunCall},
    facts,
    fs::Fs,
    image::User,
    process::FakeEvents,
    program::{Found, find},
    world::{Env, Freezer, Kernel, Launch, Leader, Link, Origin, Room, Secrets, lock},
};
use bytes::BytesMut;
use sandbox_core::{Cause, Error, Event, Events, Exec, NetworkPolicy, Resources, Result, Status};
use std::{
    collections::{BTreeMap, VecDeque},
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

pub(super) struct Workshop {
    kernel: Arc<Kernel>,
    room: u64,
    pub(super) files: Arc<Mutex<Fs>>,
    pub(super) users: Arc<[User]>,
    /// Of the image that it begins with.
    main: Option<Vec<String>>,
}

impl Workshop {
    pub(super) fn open(kernel: &Arc<Kernel>, origin: &Origin) -> Self {
        let users = Arc::clone(&lock(&kernel.catalogue).users);
        let files = Arc::new(Mutex::new(Fs::new(Arc::clone(&origin.tree), u64::MAX)));
        let user = User::find(&users, "root").unwrap_or_else(|| users[0].clone());
        let room = kernel.act(|state, _| {
            let number = state.workshop();
            let room = Room {
                id: id_of(number),
                labels: BTreeMap::new(),
                // Of no create.
                marker: String::new(),
                secrets: Secrets::default(),
                env: Env::default(),
                cwd: "/".into(),
                user,
                users: Arc::clone(&users),
                link: Link::new(number, NetworkPolicy::Open),
                ports: BTreeMap::new(),
                resources: facts::in_force(&Resources::new()),
                created: state.timers.now(),
                // That of the build.
                lifetime: None,
                files: Arc::clone(&files),
                processes: BTreeMap::new(),
                zombies: BTreeMap::new(),
                last_pid: 1,
                commands: BTreeMap::new(),
                ended: VecDeque::new(),
                pipes: BTreeMap::new(),
                number: 0,
                memory: 0,
                freezer: Freezer::default(),
                stopped: false,
                beside: None,
                gone: Vec::new(),
            };
            state.rooms.insert(number, room);
            number
        });
        Self { kernel: Arc::clone(kernel), room, files, users, main: origin.main.clone() }
    }

    /// Runs a program to its end: how it ended, and what it wrote to either stream. It has no deadline: the build has.
    pub(super) async fn run(&self, argv: Vec<String>, env: Env, cwd: &str, user: &User) -> Result<(Status, String)> {
        let exec = Exec::new(argv.clone());
        let call = RunCall {
            sandbox: id_of(self.room),
            argv: argv.clone(),
            env: Arc::clone(&env),
            cwd: cwd.to_string(),
            user: user.name.to_string(),
            stdin: Input::None,
            network: NetworkPolicy::Open,
            timeout: Duration::MAX,
            error: None,
        };
        let argv: Arc<[String]> = argv.into();
        let (program, argv) = match self.kernel.scripted(&call)? {
            Some(Done::Fails(error)) => return Err(error),
            Some(Done::Runs(program)) => (program, argv),
            None => {
                let path = env.get("PATH").map(String::as_str);
                let Found { program, argv } = find(&self.kernel, &self.files, argv, path, cwd, user.who())?;
                (program, argv)
            }
        };
        let launch = Launch { program, argv, env, cwd: cwd.to_string(), user: user.clone() };
        let command = self.kernel.act(|state, after| {
            let command = state.command(&self.kernel, self.room, launch, &exec, after)?;
            let timers = state.room(self.room)?.commands.get_mut(&command).map(|one| std::mem::take(&mut one.timers));
            timers.iter().flatten().for_each(|key| state.cancel(key));
            Ok::<_, Error>(command)
        })?;
        let events = FakeEvents::new(&self.kernel, self.room, command);
        let ended = self.led(ended(events)).await;
        // What it left behind ends with the step.
        self.kernel.act(|state, after| state.kill_command(self.room, command, Cause::Killed, after));
        ended
    }

    /// There may be no sandbox whose task could let programs run.
    async fn led<T>(&self, work: impl Future<Output = T>) -> T {
        let (mut leader, mut work) = (Leader::new(&self.kernel, false), pin!(work));
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(done),
            Poll::Pending => leader.poll(cx).map(|()| unreachable!("it leads for ever")),
        })
        .await
    }

    /// What was made.
    pub(super) fn origin(&self, env: BTreeMap<String, String>, cwd: String, user: String) -> Origin {
        Origin { tree: lock(&self.files).clone().into_tree(), env, cwd, user, main: self.main.clone() }
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        self.kernel.with(|state, after| state.end_room(self.room, after));
    }
}

async fn ended(mut events: FakeEvents) -> Result<(Status, String)> {
    let (mut status, mut wrote) = (None, BytesMut::new());
    while let Some(event) = events.next().await? {
        match event {
            Event::Stdout(piece) | Event::Stderr(piece) => {
                wrote.extend_from_slice(&piece);
                // Only the end is told.
                let much = wrote.len().saturating_sub(KEPT);
                drop(wrote.split_to(much));
            }
            Event::Ended(ended) => {
                status = Some(ended.status);
                break;
            }
            _ => {}
        }
    }
    let status = status.unwrap_or(Status::Signal(9));
    Ok((status, String::from_utf8_lossy(&wrote).into_owned()))
}

/// Bytes.
const KEPT: usize = 64 << 10;
