//! What is under test: a fake with the programs that the suite's probes run, and the probes.

use bytes::Bytes;
use sandbox::{Client, Command};
use sandbox_contract::{Applied, Canary, Probes, Reach, Subject, Withheld};
use sandbox_core::{Backend, Error, ErrorKind, PtySize, Resource, SandboxId, Spec};
use sandbox_fake::{Credential, Fake, Fork, Operation, Proc, Trouble, World, failure};
use std::{future::ready, time::Duration};

pub(crate) const NAME: &str = "canary.test";
pub(crate) const ADDRESS: &str = "192.0.2.80";
const ADDRESS_6: &str = "2001:db8::80";
const METADATA: &str = "169.254.169.254";
const GATEWAY: &str = "10.255.255.254";
const ZONE: &str = "zone.test";
pub(crate) const PORT: u16 = 7;
const PAGE: usize = 3;
const TALKING: u16 = 8;

/// The fake, as the suite has it.
pub(crate) fn fake() -> Fake {
    outside(programs(Fake::new().page_size(PAGE)), &says()).credential(Credential::Given)
}

/// A subject whose backend is made of this fake.
pub(crate) fn subject<B: Backend>(fake: Fake, backend: impl Fn(Fake) -> B + Clone + Send + Sync + 'static) -> Subject {
    changed(fake, backend, |probes| probes)
}

/// The same with other probes.
pub(crate) fn changed<B: Backend>(
    fake: Fake,
    backend: impl Fn(Fake) -> B + Clone + Send + Sync + 'static,
    change: impl FnOnce(Probes) -> Probes,
) -> Subject {
    let probes = change(probes(&fake, backend.clone()));
    Subject::new(backend(fake)).spec(Spec::new().image("default")).probes(probes)
}

fn says() -> String {
    format!("canary of process {}", std::process::id())
}

/// What looks into this fake, and provokes it.
fn probes<B: Backend>(fake: &Fake, backend: impl Fn(Fake) -> B + Clone + Send + Sync + 'static) -> Probes {
    const WORDS: &str = "the oven is cold";
    let world = || fake.world();
    commands(Probes::new())
        .count({
            let world = world();
            move |labels| ready(Ok(world.count_labelled(&labels)))
        })
        .count_services({
            let world = world();
            move |labels| ready(Ok(world.count_services(&labels)))
        })
        .canary({
            let world = world();
            move |()| {
                let world = world.clone();
                let hits = move || world.hits(ADDRESS, PORT);
                ready(Ok(Canary::new(ADDRESS, PORT, says(), hits, ()).name(NAME)))
            }
        })
        .canary_at({
            let world = world();
            move |reach| ready(Ok(special(&world, &says(), reach)))
        })
        .survivors({
            let world = world();
            move |(id, marker): (SandboxId, String)| {
                let all = world.processes(&id).into_iter();
                ready(Ok(all.filter(|process| process.argv.iter().any(|arg| arg.contains(&marker))).count()))
            }
        })
        .expire({
            let world = world();
            move |id| {
                world.expire(&id);
                ready(Ok(()))
            }
        })
        .exhaust_quota({
            let world = world();
            move |()| {
                world.set_quota(Some(0));
                ready(Ok(()))
            }
        })
        .builds({
            let world = world();
            move |()| ready(Ok(world.builds()))
        })
        .remove_image({
            let world = world();
            move |name: String| {
                world.remove_built(&name);
                ready(Ok(()))
            }
        })
        .page_size(|()| ready(Ok(Some(PAGE))))
        .fail_create_at({
            let world = world();
            move |step| {
                world.no_trouble();
                let is_one = step <= Operation::Create.steps();
                if is_one {
                    world.trouble(Trouble::on(Operation::Create).step(step).fail(failure::unavailable()));
                }
                ready(Ok(is_one))
            }
        })
        .provider_failure({
            let world = world();
            move |()| {
                let failed = Error::new(ErrorKind::CreateFailed, WORDS);
                world.trouble(Trouble::on(Operation::Create).step(2).fail(failed));
                ready(Ok(WORDS.to_string()))
            }
        })
        .missing_credential(move |how| {
            let backend = backend.clone();
            async move {
                let credential = match how {
                    Withheld::Empty => Credential::Empty,
                    _ => Credential::Missing,
                };
                let client = Client::new(backend(Fake::new().credential(credential)))?;
                match client.create(Spec::new()).await {
                    Err(error) => Ok(error),
                    Ok(_) => Err(Error::new(ErrorKind::Internal, "a sandbox without a credential")),
                }
            }
        })
        .native_labels({
            let world = world();
            move |id| ready(Ok(world.labels(&id).unwrap_or_default()))
        })
        .inspect({
            let world = world();
            move |id| ready(Ok(world.inspect(&id).map(|shown| format!("{shown:?}")).unwrap_or_default()))
        })
        .applied_resources({
            let world = world();
            move |id| {
                let mut applied = Applied::new();
                if let Some(resources) = world.resources(&id) {
                    let value = |resource| resources.get(resource).map(|amount| amount.value);
                    applied.cpu_millis = value(Resource::Cpu);
                    applied.memory = value(Resource::Memory);
                    applied.disk = value(Resource::Disk);
                    applied.pids = resources.pids;
                }
                ready(Ok(applied))
            }
        })
}

/// What there is outside.
fn outside(fake: Fake, says: &str) -> Fake {
    let says = || Bytes::from(says.to_string());
    let v4 = ADDRESS.parse().expect("an address");
    fake.address(NAME, v4)
        .host(ADDRESS, PORT, says())
        .host(ADDRESS_6, PORT, says())
        .host(METADATA, 80, says())
        .host(GATEWAY, PORT, says())
        .datagram(ADDRESS, PORT, says())
        .talker(ADDRESS, TALKING, says())
        .zone(ZONE)
}

fn special(world: &World, says: &str, reach: Reach) -> Option<Canary> {
    let world = world.clone();
    let tcp = |host: &'static str, port| {
        let world = world.clone();
        Canary::new(host, port, says, move || world.hits(host, port), ())
    };
    Some(match reach {
        Reach::Ipv6 => tcp(ADDRESS_6, PORT),
        Reach::Metadata => tcp(METADATA, 80),
        Reach::Gateway => tcp(GATEWAY, PORT),
        Reach::Talk => tcp(ADDRESS, TALKING),
        Reach::Udp => Canary::new(ADDRESS, PORT, says, move || world.datagrams(ADDRESS, PORT), ()),
        Reach::Lookup => Canary::new(ZONE, 53, "198.51.100.", move || world.lookups(ZONE), ()),
        _ => return None,
    })
}

fn commands(probes: Probes) -> Probes {
    let marked = |name: &'static str| move |marker: String| Command::new(name).env("MARK", marker);
    let counted = |name: &'static str| move |count: u32| Command::new(name).arg(count.to_string());
    probes
        .echo(|text| Command::new("echo").arg(text))
        .stderr(|text| Command::new("both").args(["", &text]))
        .both(|out, err| Command::new("both").args([out, err]))
        .exit(|code| Command::new("exit").arg(code.to_string()))
        .fail(|code| Command::new("both").args(["out", "err", &code.to_string()]))
        .signal(|number| Command::new("die").arg(number.to_string()))
        .env(|name| Command::new("variable").arg(name))
        .args(|all| Command::new("args").args(all))
        .count_stdin(|| Command::new("wc").arg("-c"))
        .lines(|count| Command::new("lines").args(["line ", &count.to_string()]))
        .tiny_writes(|count| Command::new("lines").args(["", &count.to_string()]))
        .two_with_pause(counted("two-with-pause"))
        .hang(|marker| Command::new("hang").arg(marker))
        .output_then_hang(|text, marker| Command::new("say-then-hang").args([text, marker]))
        .say_and_exit(|text, code| Command::new("both").args([&text, "", &code.to_string()]))
        .spawn_child(marked("child"))
        .spawn_grandchild(marked("grandchild"))
        .setsid_child(marked("session"))
        .daemonize(marked("leave-daemon"))
        .daemonize_then_hang(|marker| Command::new("leave-daemon").arg("hang").env("MARK", marker))
        .term_ignorer(|marker| Command::new("ignore-term").args(["hang", &marker]))
        .term_reporter(|marker| Command::new("report-term").arg(marker))
        .signal_reporter(|marker| Command::new("report-signals").arg(marker))
        .writer(|marker| Command::new("writer").arg(marker))
        .terminals(|| Command::new("terminals"))
        .terminal_size(|| Command::new("stty").arg("size"))
        .terminal_sizes(|| Command::new("terminal-sizes"))
        .alive(|marker| Command::new("alive").env("MARK", marker))
        .zombie_until_eof(|| Command::new("zombie-until-eof"))
        .zombies(|| Command::new("zombies"))
        .background_holder(|marker| Command::new("leave-holder").env("MARK", marker))
        .background_writer(|marker| Command::new("leave-writer").env("MARK", marker))
        .ticker(|| Command::new("ticker"))
        .wait_for(|path| Command::new("wait-for").arg(path))
        .write_file(|path, text| Command::new("write-file").args([path, text]))
        .read_file(|path| Command::new("cat").arg(path))
        .bump(|path| Command::new("bump").arg(path))
        .many_files(|directory, count| Command::new("many-files").args([directory, count.to_string()]))
        .bytes256(|| Command::new("bytes256"))
        .flood(|bytes| Command::new("flood").args([bytes.to_string(), "0".into(), "3".into()]))
        .flood_stderr(|bytes| {
            Command::new("flood").args(["0".to_string(), bytes.to_string(), "0".into(), "done".into()])
        })
        .egress(|host, port| Command::new("connect").args([host, port.to_string()]))
        .egress_udp(|host, port| Command::new("datagram").args([host, port.to_string()]))
        .egress_hold(|host, port| Command::new("connect").args([host, port.to_string()]))
        .lookup(|name| Command::new("resolve").arg(name))
        .listen(|port, text| Command::new("serve").args([port.to_string(), text]))
        .addresses(|| Command::new("addresses"))
        .memory_cap(|| Command::new("caps").arg("memory"))
        .cpu_cap(|| Command::new("caps").arg("cpu"))
        .pids_cap(|| Command::new("caps").arg("pids"))
        .oom(|| Command::new("eat").arg((1_u64 << 40).to_string()))
        .many_processes(counted("many-processes"))
        .fork_bomb(|| Command::new("bomb"))
        .exists(|path| Command::new("exists").arg(path))
        .every_variable(|| Command::new("env"))
        .pid(|| Command::new("pid"))
}

fn programs(fake: Fake) -> Fake {
    let fake = fake
        .program("both", |p| async move {
            for (text, error) in [(p.arg(1), false), (p.arg(2), true)] {
                match text {
                    Some(text) if !text.is_empty() && error => p.eprint(format!("{text}\n")).await,
                    Some(text) if !text.is_empty() => p.print(format!("{text}\n")).await,
                    _ => {}
                }
            }
            number(&p, 3)
        })
        .program("variable", |p| async move {
            let value = p.arg(1).and_then(|name| p.var(name)).unwrap_or("unset");
            p.print(format!("{value}\n")).await;
            0
        })
        .program("args", |p| async move {
            for arg in &p.argv()[1..] {
                p.print(format!("{arg}\0")).await;
            }
            0
        })
        .program("lines", |p| async move {
            for line in 0..number(&p, 2) {
                if line % 500 == 499 {
                    // So that a reader can be faster than that.
                    p.sleep(Duration::from_millis(1)).await;
                }
                p.print(format!("{}{line}\n", p.arg(1).unwrap_or_default())).await;
            }
            0
        })
        .program("two-with-pause", |p| async move {
            p.print("first\n").await;
            p.sleep(Duration::from_millis(u64::try_from(number(&p, 1)).unwrap_or(0))).await;
            p.print("second\n").await;
            0
        })
        .program("exists", |p| async move { i32::from(p.arg(1).is_none_or(|path| p.stat(path).is_err())) })
        .program("wait-for", |p| async move {
            while p.arg(1).is_none_or(|path| p.stat(path).is_err()) {
                p.sleep(Duration::from_millis(200)).await;
            }
            0
        })
        .program("ticker", |p| async move {
            for tick in 0_u64.. {
                p.print(format!("tick {tick}\n")).await;
                p.sleep(Duration::from_millis(200)).await;
            }
            0
        })
        .program("say-then-hang", |p| async move {
            p.print(format!("{}\n", p.arg(1).unwrap_or_default())).await;
            p.hang().await;
            0
        })
        .program("report-term", |p| async move {
            let term = p.catch(15);
            p.print("ready\n").await;
            term.next().await;
            p.print("got TERM\n").await;
            0
        })
        .program("report-signals", |p| async move {
            let [hup, int, quit, usr1, usr2, term] = [1, 2, 3, 10, 12, 15].map(|signal| p.catch(signal));
            p.print("ready\n").await;
            loop {
                let name = tokio::select! {
                    () = hup.next() => "HUP",
                    () = int.next() => "INT",
                    () = quit.next() => "QUIT",
                    () = usr1.next() => "USR1",
                    () = usr2.next() => "USR2",
                    () = term.next() => "TERM",
                };
                p.print(format!("got {name}\n")).await;
                if name == "TERM" {
                    return 0;
                }
            }
        })
        .program("writer", |p| async move { write_for_ever(&p).await })
        .program("terminals", |p| async move {
            for stream in 0..3 {
                let what = if p.is_terminal(stream) { "terminal" } else { "none" };
                p.print(format!("{stream} {what}\n")).await;
            }
            0
        })
        .program("terminal-sizes", |p| async move {
            while !p.read_line().await.is_empty() {
                let size = p.terminal_size().unwrap_or(PtySize::new(0, 0));
                p.print(format!("{} {}\n", size.rows, size.cols)).await;
            }
            0
        })
        .program("bytes256", |p| async move {
            let all: Vec<u8> = (0..=255).collect();
            p.print(&all).await;
            p.eprint(&all).await;
            0
        })
        .program("flood", |p| async move {
            let piece = Bytes::from_static(&[b'x'; 32 << 10]);
            for (count, error) in [(1, false), (2, true)] {
                let mut left: usize = p.arg(count).and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
                while left > 0 {
                    let next = piece.slice(..left.min(piece.len()));
                    left -= next.len();
                    let written = if error { p.write_error(next).await } else { p.write(next).await };
                    if written.is_err() {
                        return 1;
                    }
                }
            }
            if let Some(text) = p.arg(4) {
                p.print(format!("{text}\n")).await;
            }
            number(&p, 3)
        })
        .program("pid", |p| async move {
            p.print(format!("{}\n", p.pid())).await;
            0
        });
    files(processes(fake))
}

fn processes(fake: Fake) -> Fake {
    fake.program("child", |p| async move { wait_for(&p, hang(&p)).await })
        .program("session", |p| async move { wait_for(&p, hang(&p).session()).await })
        .program("grandchild", |p| async move {
            wait_for(&p, Fork::closure(["between"], |p| async move { wait_for(&p, hang(&p)).await })).await
        })
        .program("leave-daemon", |p| async move {
            if p.start(hang(&p).daemon().env([("A", "b")])).is_err() {
                return 1;
            }
            if p.arg(1).is_some() {
                p.hang().await;
            }
            0
        })
        .program("zombie-until-eof", |p| async move {
            let child = p.start(Fork::program(["true"]));
            p.read_to_end().await;
            i32::from(child.is_err())
        })
        .program("leave-holder", |p| async move {
            let child = p.start(hang(&p));
            p.print("started\n").await;
            i32::from(child.is_err())
        })
        .program("leave-writer", |p| async move {
            let marker = p.var("MARK").unwrap_or_default();
            let writer = Fork::closure(["writer", marker], |p| async move {
                loop {
                    p.print("more\n").await;
                    p.sleep(Duration::from_millis(200)).await;
                }
            });
            p.print("started\n").await;
            i32::from(p.start(writer).is_err())
        })
        .program("many-processes", |p| async move {
            let mut started = 0;
            for _ in 0..number(&p, 1) {
                started += i32::from(p.start(Fork::program(["sleep", "4"])).is_ok());
            }
            p.print(format!("{started}\n")).await;
            0
        })
        .program("bomb", |p| async move {
            if p.start(Fork::program(["fork-bomb"])).is_err() {
                return 1;
            }
            p.sleep(Duration::from_secs(2)).await;
            0
        })
}

fn files(fake: Fake) -> Fake {
    fake.program("write-file", |p| async move {
        let (path, text) = (p.arg(1).unwrap_or_default(), p.arg(2).unwrap_or_default().to_string());
        let written = p.write_file(path, text);
        done(&p, written).await
    })
    .program("bump", |p| async move {
        let written = p.append(p.arg(1).unwrap_or_default(), "x");
        done(&p, written).await
    })
    .program("many-files", |p| async move {
        for name in 0..number(&p, 2) {
            if let Err(error) = p.append(&format!("{}/{name}", p.arg(1).unwrap_or_default()), "") {
                return done(&p, Err(error)).await;
            }
        }
        0
    })
}

/// A process that shows the marker.
fn hang(p: &Proc) -> Fork {
    Fork::program(["hang", p.var("MARK").unwrap_or_default()])
}

async fn write_for_ever(p: &Proc) -> i32 {
    loop {
        p.print("more\n").await;
        p.sleep(Duration::from_millis(200)).await;
    }
}

async fn wait_for(p: &Proc, fork: Fork) -> i32 {
    match p.start(fork) {
        Ok(child) => child.wait().await.as_code(),
        Err(error) => done(p, Err(error)).await,
    }
}

async fn done(p: &Proc, result: std::io::Result<()>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            p.eprint(format!("{error}\n")).await;
            1
        }
    }
}

fn number(p: &Proc, arg: usize) -> i32 {
    p.arg(arg).and_then(|number| number.parse().ok()).unwrap_or(0)
}
