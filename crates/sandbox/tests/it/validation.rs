//! What is refused before the adapter is asked for anything: each with its neighbour that is fine.

use crate::common::{
    any, ms,
    scripted::{Log, Script, code, script, script_of},
};
use sandbox::{
    Amount, Capability, Client, Command, ErrorKind, Facts, Honoured, Isolation, IsolationFact, Mode, NetworkPolicy,
    Overrides, PtySize, Query, Resource, Resources, Rule, Sandbox, Service, Spec,
};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Creates with either spec: the first is refused as `kind` before anything is sent, the second is made.
async fn specs(change: impl FnOnce(Facts) -> Facts, kind: ErrorKind, wrong: Spec, fine: Spec) {
    let script = script_of();
    let facts = change(script.facts.clone());
    let (client, log) = Script { facts, next: script_fine(), ..script }.client();
    refused_spec(&client, &log, kind, wrong).await;
    let made = client.create(fine.clone()).await;
    assert!(made.is_ok(), "{fine:?}: {made:?}");
}

async fn refused_spec(client: &Client, log: &Log, kind: ErrorKind, wrong: Spec) {
    let error = client.create(wrong.clone()).await.expect_err(&format!("{wrong:?}"));
    assert_eq!(error.kind(), kind, "{wrong:?}: {error:?}");
    assert_eq!((error.operation(), error.backend()), (Some("create"), Some("scripted")));
    assert!(!error.may_have_applied() && (error.hint().is_some() || kind == ErrorKind::Unsupported), "{error:?}");
    assert_eq!(log.count("create") + log.count("probe"), 0, "{wrong:?}");
}

fn script_fine() -> crate::common::scripted::Hook<usize, sandbox::Result<Option<sandbox_core::Event>>> {
    script(vec![code(0)])
}

async fn invalid(wrong: Spec, fine: Spec) {
    specs(|facts| facts, ErrorKind::InvalidArgument, wrong, fine).await;
}

async fn absent(capability: Capability, wrong: Spec) {
    let cannot = |facts: Facts| facts.absent(capability, "scripted");
    specs(cannot, ErrorKind::Unsupported, wrong.clone(), Spec::new().network(NetworkPolicy::Open)).await;
    let (client, _log) = Script { next: script_fine(), ..script_of() }.having([capability]).client();
    let made = client.create(wrong).await;
    assert!(made.is_ok(), "{capability}: {made:?}");
}

#[tokio::test]
async fn names_of_a_specs_variables() {
    for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0y")] {
        invalid(Spec::new().env(name, value), Spec::new().env("a.b-C", "x=y\nz")).await;
    }
}

#[tokio::test]
async fn secrets() {
    let secrets_can = |facts: Facts| facts.native([Capability::SecretStore]);
    let fine = || Spec::new().secret("TOKEN", "123456").env("OTHER", "x");
    for wrong in [
        Spec::new().secret("", "hunter2"),
        Spec::new().secret("A=B", "hunter2"),
        Spec::new().secret("A\0", "hunter2"),
        Spec::new().secret("A", "hunter\0two"),
        Spec::new().secret("A", "12345"),
        Spec::new().secret("A", "hunter2").env("A", "x"),
    ] {
        specs(secrets_can, ErrorKind::InvalidArgument, wrong, fine()).await;
    }
    absent(Capability::SecretStore, fine()).await;
    let (client, _log) = script_of().having([Capability::SecretStore]).client();
    let error = client.create(Spec::new().secret("A", "hunter\0two")).await.unwrap_err();
    assert!(!format!("{error:?} {error:#}").contains("hunter"), "{error:?}");
}

#[tokio::test]
async fn services() {
    let service = || Service::new("image");
    let spec = |name: &str, service| Spec::new().service(name, service);
    absent(Capability::Services, spec("db", service())).await;
    let having = |facts: Facts| facts.native([Capability::Services, Capability::User]);
    let invalid = |wrong, fine| specs(having, ErrorKind::InvalidArgument, wrong, fine);
    for name in ["", "Db", "a.b", "-a", "a-", "localhost", &"a".repeat(64)] {
        invalid(spec(name, service()), spec(&"a".repeat(63), service())).await;
    }
    invalid(spec("db", Service::new("a b")), spec("db", Service::new("a/b:c"))).await;
    invalid(spec("db", service().env("A=", "x")), spec("db", service().env("A", "=x"))).await;
    invalid(spec("db", service().cwd("data")), spec("db", service().cwd("/data"))).await;
    invalid(spec("db", service().user("-x")), spec("db", service().user("x"))).await;
    invalid(spec("db", service().command([""])), spec("db", service().command(["x", ""]))).await;
    let no_user = |facts: Facts| facts.native([Capability::Services]).absent(Capability::User, "scripted");
    specs(no_user, ErrorKind::Unsupported, spec("db", service().user("x")), spec("db", service())).await;
}

#[tokio::test]
async fn images() {
    for image in ["", " ", "a b", "a\n", "a\u{7}"] {
        invalid(Spec::new().image(image), Spec::new().image("registry.example:5000/team/img@sha256:0123")).await;
    }
}

#[tokio::test]
async fn working_directories_of_a_spec() {
    for cwd in ["", "work", "./work", "/a\0"] {
        invalid(Spec::new().cwd(cwd), Spec::new().cwd("/work")).await;
    }
}

#[tokio::test]
async fn users_of_a_spec() {
    for user in ["", "-u", "a:b", "a b", "a/b", "a\n", "a\0"] {
        let user_can = |facts: Facts| facts.native([Capability::User]);
        specs(user_can, ErrorKind::InvalidArgument, Spec::new().user(user), Spec::new().user("1000")).await;
    }
    absent(Capability::User, Spec::new().user("nobody")).await;
}

#[tokio::test]
async fn labels() {
    let long = "x".repeat(129);
    for (name, value) in
        [("sandbox.x", "v"), ("", "v"), (&long, "v"), ("a b", "v"), ("ä", "v"), ("a", "v\n"), ("a", &"v".repeat(1025))]
    {
        let labels_can = |facts: Facts| facts.native([Capability::Labels]);
        let fine = Spec::new().label("team.x/y_z-1", "v".repeat(1024)).label("x".repeat(128), "");
        specs(labels_can, ErrorKind::InvalidArgument, Spec::new().label(name, value), fine).await;
    }
    absent(Capability::Labels, Spec::new().label("team", "blue")).await;
}

#[tokio::test]
async fn ready_commands() {
    for argv in [&[][..], &[""], &["x", "a\0"]] {
        invalid(Spec::new().ready(argv.iter().copied()), Spec::new().ready(["x", ""])).await;
    }
    absent(Capability::Run, Spec::new().ready(["x"])).await;
    let ports_can = |facts: Facts| facts.native([Capability::Ports]);
    specs(ports_can, ErrorKind::InvalidArgument, Spec::new().ready_port(0), Spec::new()).await;
    let neither = |facts: Facts| facts.absent(Capability::Ports, "scripted").absent(Capability::Files, "scripted");
    specs(neither, ErrorKind::Unsupported, Spec::new().ready_port(80), Spec::new()).await;
}

#[tokio::test]
async fn isolation() {
    let tier = |tier| move |facts: Facts| facts.isolation(IsolationFact::new(tier, "scripted", "2026-11-30"));
    use Isolation::*;
    for (has, wants) in [(Unknown, Container), (None, Container), (Container, Gvisor), (Gvisor, MicroVm)] {
        let fine = if matches!(has, Unknown | None) { Spec::new() } else { Spec::new().isolation(has) };
        specs(tier(has), ErrorKind::IsolationTooWeak, Spec::new().isolation(wants), fine).await;
    }
    specs(tier(MicroVm), ErrorKind::InvalidArgument, Spec::new().isolation(Unknown), Spec::new().isolation(Container))
        .await;
}

#[tokio::test]
async fn network_policies() {
    let deny_not = |facts: Facts| facts.absent(Capability::Deny, "scripted");
    specs(deny_not, ErrorKind::Unsupported, Spec::new(), Spec::new().network(NetworkPolicy::Open)).await;
    let rules = |rules: &[&str]| {
        let rules: Vec<Rule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Spec::new().network(NetworkPolicy::Allow(rules))
    };
    // A list without a rule is deny.
    specs(deny_not, ErrorKind::Unsupported, rules(&[]), Spec::new().network(NetworkPolicy::Open)).await;
    for (capability, rule) in [
        (Capability::AllowHost, "example.com"),
        (Capability::AllowWildcard, "*.example.com"),
        (Capability::AllowIpv4, "192.0.2.7"),
        (Capability::AllowIpv6, "2001:db8::7"),
        (Capability::AllowCidr, "192.0.2.0/24"),
    ] {
        absent(capability, rules(&[rule])).await;
        let host_can = move |facts: Facts| facts.native([capability]);
        let with_port = format!("{rule}:443");
        let with_port = if rule.contains("::") { "[2001:db8::7]:443" } else { &with_port };
        specs(host_can, ErrorKind::Unsupported, rules(&[with_port]), rules(&[rule])).await;
    }
    let all = |facts: Facts| facts.native([Capability::AllowHost]);
    specs(all, ErrorKind::Unsupported, rules(&["example.com", "192.0.2.7"]), rules(&["example.com", "example.org"]))
        .await;
}

#[tokio::test]
async fn resources() {
    let honours = |honoured: Honoured| move |facts: Facts| facts.resource(Resource::Memory, honoured);
    let memory = |amount: Amount| Spec::new().resources(Resources::new().set(Resource::Memory, amount));
    let limit = Honoured::limit(1 << 20).min(100).max(1000);
    for wrong in [0, 99, 1001] {
        let (wrong, fine) = (memory(Amount::new(wrong)), memory(Amount::new(100)));
        specs(honours(limit), ErrorKind::InvalidArgument, wrong, fine).await;
    }
    specs(
        honours(limit),
        ErrorKind::Unsupported,
        memory(Amount::new(100).mode(Mode::Request)),
        memory(Amount::new(1000)),
    )
    .await;
    let guarantee = memory(Amount::new(100).mode(Mode::Guarantee));
    specs(honours(limit), ErrorKind::Unsupported, guarantee.clone(), Spec::new()).await;
    specs(honours(Honoured::nothing()), ErrorKind::Unsupported, memory(Amount::new(1)), Spec::new()).await;
    // Nothing of a resource is nonsense everywhere.
    specs(honours(Honoured::nothing()), ErrorKind::InvalidArgument, memory(Amount::new(0)), Spec::new()).await;
    specs(honours(limit.request()), ErrorKind::InvalidArgument, memory(Amount::new(1)), guarantee).await;
    let pids = |most| Spec::new().resources(Resources::new().pids(most));
    absent(Capability::Pids, pids(9)).await;
    specs(|facts| facts.native([Capability::Pids]), ErrorKind::InvalidArgument, pids(0), pids(1)).await;
    let narrow = |facts: Facts| facts.native([Capability::Pids]).least_pids(16);
    specs(narrow, ErrorKind::InvalidArgument, pids(15), pids(16)).await;
}

#[tokio::test]
async fn times_of_a_spec() {
    let year = Duration::from_secs(367 * 24 * 3600);
    let setters: [fn(Duration) -> Spec; 4] = [
        |time| Spec::new().lifetime(time),
        |time| Spec::new().command_timeout(time),
        |time| Spec::new().create_timeout(time),
        |time| Spec::new().prepare_timeout(time),
    ];
    for set in setters {
        for wrong in [Duration::ZERO, year, Duration::MAX] {
            invalid(set(wrong), set(Duration::from_secs(1))).await;
        }
    }
    invalid(Spec::new().lifetime(ms(999)), Spec::new().lifetime(ms(1000))).await;
    // A year is the most, whatever the backend says.
    let endless = |facts: Facts| facts.max_lifetime(Duration::MAX);
    specs(endless, ErrorKind::InvalidArgument, Spec::new().lifetime(year), Spec::new().lifetime(HOUR)).await;
    // A command ends with its sandbox.
    let wrong = Spec::new().lifetime(HOUR).command_timeout(HOUR + ms(1));
    invalid(wrong, Spec::new().lifetime(HOUR).command_timeout(HOUR)).await;
    invalid(Spec::new().command_timeout(HOUR + ms(1)), Spec::new().command_timeout(HOUR)).await;
    let short = |facts: Facts| facts.max_lifetime(HOUR / 2);
    specs(short, ErrorKind::InvalidArgument, Spec::new().lifetime(HOUR), Spec::new().lifetime(HOUR / 2)).await;
    specs(short, ErrorKind::InvalidArgument, Spec::new().command_timeout(HOUR), Spec::new().command_timeout(HOUR / 2))
        .await;
    let short = |facts: Facts| facts.max_command_timeout(HOUR / 4);
    specs(
        short,
        ErrorKind::InvalidArgument,
        Spec::new().command_timeout(HOUR / 2),
        Spec::new().command_timeout(HOUR / 4),
    )
    .await;
}

/// Runs either command: the first is refused as `kind` before anything is sent, the second runs.
async fn commands(change: impl FnOnce(Facts) -> Facts, kind: ErrorKind, wrong: Command, fine: Command) {
    views(change, kind, |sandbox| (sandbox.clone(), wrong), |sandbox| (sandbox.clone(), fine)).await;
}

async fn views(
    change: impl FnOnce(Facts) -> Facts,
    kind: ErrorKind,
    wrong: impl FnOnce(&Sandbox) -> (Sandbox, Command),
    fine: impl FnOnce(&Sandbox) -> (Sandbox, Command),
) {
    let script = script_of();
    let facts = change(script.facts.clone());
    let (client, log) = Script { facts, next: script_fine(), ..script }.client();
    let sandbox = client.create(Spec::new().lifetime(HOUR)).await.unwrap();
    let (view, command) = wrong(&sandbox);
    for error in [view.run(command.clone()).await.unwrap_err(), view.start(command.clone()).await.unwrap_err()] {
        assert_eq!(error.kind(), kind, "{command:?}: {error:?}");
        assert!(!error.may_have_applied() && (error.hint().is_some() || kind == ErrorKind::Unsupported), "{error:?}");
        assert_eq!((error.backend(), error.sandbox()), (Some("scripted"), Some(sandbox.id())));
    }
    assert_eq!(log.count("spawn"), 0, "{command:?}");
    let (view, command) = fine(&sandbox);
    let output = view.run(command.clone()).await;
    assert!(output.is_ok(), "{command:?}: {output:?}");
}

async fn invalid_command(wrong: Command, fine: Command) {
    commands(|facts| facts, ErrorKind::InvalidArgument, wrong, fine).await;
}

async fn absent_for(capability: Capability, wrong: Command) {
    commands(|facts| facts.absent(capability, "scripted"), ErrorKind::Unsupported, wrong.clone(), any()).await;
    commands(
        |facts| facts.native([capability]),
        ErrorKind::InvalidArgument,
        wrong.clone().timeout(Duration::ZERO),
        wrong,
    )
    .await;
}

#[tokio::test]
async fn arguments() {
    invalid_command(Command::new(""), Command::new("x").arg("")).await;
    invalid_command(Command::new("a\0"), Command::new("a b")).await;
    invalid_command(Command::new("x").arg("a\0b"), Command::new("x").arg("a\nb")).await;
    let (client, log) = Script { facts: Facts::new("none").native([Capability::Deny]), ..script_of() }.client();
    let sandbox = client.create(Spec::new()).await.unwrap();
    assert_eq!(sandbox.run(any()).await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(log.count("spawn"), 0);
}

#[tokio::test]
async fn variables_of_a_command_and_of_a_view() {
    for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "x\0y")] {
        invalid_command(any().env(name, value), any().env("A", "x=y")).await;
        let wrong = |sandbox: &Sandbox| (sandbox.with(Overrides::new().env(name, value)), any());
        let fine = |sandbox: &Sandbox| (sandbox.with(Overrides::new().env("A", "")), any());
        views(|facts| facts, ErrorKind::InvalidArgument, wrong, fine).await;
    }
}

#[tokio::test]
async fn users_of_a_command_and_of_a_view() {
    let can = |facts: Facts| facts.native([Capability::User]);
    for user in ["", "-u", "a:b", "a b"] {
        commands(can, ErrorKind::InvalidArgument, any().user(user), any().user("nobody")).await;
        let wrong = |sandbox: &Sandbox| (sandbox.with(Overrides::new().user(user)), any());
        let fine = |sandbox: &Sandbox| (sandbox.with(Overrides::new().user("1000")), any());
        views(can, ErrorKind::InvalidArgument, wrong, fine).await;
    }
    absent_for(Capability::User, any().user("nobody")).await;
    let wrong = |sandbox: &Sandbox| (sandbox.with(Overrides::new().user("nobody")), any());
    views(|facts| facts, ErrorKind::Unsupported, wrong, |sandbox| (sandbox.clone(), any())).await;
}

#[tokio::test]
async fn directories_of_a_command_and_of_a_view() {
    for cwd in ["", "a\0"] {
        invalid_command(any().cwd(cwd), any().cwd("work")).await;
        let wrong = |sandbox: &Sandbox| (sandbox.with(Overrides::new().cwd(cwd)), any());
        let fine = |sandbox: &Sandbox| (sandbox.with(Overrides::new().cwd("work")), any());
        views(|facts| facts, ErrorKind::InvalidArgument, wrong, fine).await;
    }
}

#[tokio::test]
async fn inputs() {
    absent_for(Capability::StdinWhole, any().input("x")).await;
    absent_for(Capability::Stdin, any().pipe()).await;
}

#[tokio::test]
async fn terminals() {
    absent_for(Capability::Pty, any().pty(PtySize::default())).await;
    let can = |facts: Facts| facts.native([Capability::Pty]);
    for (cols, rows) in [(0, 24), (80, 0), (0, 0)] {
        let wrong = any().pty(PtySize::new(cols, rows));
        commands(can, ErrorKind::InvalidArgument, wrong, any().pty(PtySize::new(1, 1))).await;
    }
    let whole = any().input("x").pty(PtySize::default());
    // A terminal is typed on, also where nothing can be piped.
    let fine = any().pipe().pty(PtySize::default());
    commands(|facts| can(facts).absent(Capability::Stdin, "scripted"), ErrorKind::InvalidArgument, whole, fine).await;
}

#[tokio::test]
async fn timeouts_of_a_command() {
    invalid_command(any().timeout(Duration::ZERO), any().timeout(ms(500))).await;
    invalid_command(any().timeout(HOUR + ms(1)), any().timeout(HOUR)).await;
    let short = |facts: Facts| facts.max_command_timeout(HOUR / 2);
    commands(short, ErrorKind::InvalidArgument, any().timeout(HOUR / 2 + ms(1)), any().timeout(HOUR / 2)).await;
}

#[tokio::test]
async fn defaults_are_cut_to_what_is_possible() {
    use std::sync::{Arc, Mutex};
    let seen: Arc<Mutex<Vec<(Duration, u64)>>> = Arc::default();
    for (most, lifetime) in [(None, 2), (Some(3), 60), (None, 3600)] {
        let times = Arc::clone(&seen);
        let spawn = crate::common::scripted::hook(move |exec: sandbox_core::Exec| {
            times.lock().unwrap().push((exec.timeout, exec.output_limit));
            async { Ok(()) }
        });
        let script = script_of();
        let facts = script.facts.clone();
        let facts = match most {
            Some(most) => facts.max_command_timeout(Duration::from_secs(most)).max_output(10),
            None => facts,
        };
        let (client, _log) = Script { facts, spawn, next: script_fine(), ..script }.client();
        let sandbox = client.create(Spec::new().lifetime(Duration::from_secs(lifetime))).await.unwrap();
        assert!(sandbox.run(any()).await.unwrap().success());
    }
    let whole = 64 << 20;
    let seen = seen.lock().unwrap();
    assert_eq!(*seen, [(2, whole), (3, 10), (300, whole)].map(|(time, bytes)| (Duration::from_secs(time), bytes)));
}

#[tokio::test]
async fn graces() {
    let can = |facts: Facts| facts.native([Capability::Term]);
    for grace in [ms(0), ms(500), ms(501)] {
        let fine = any().timeout(ms(500)).grace(ms(499));
        commands(can, ErrorKind::InvalidArgument, any().timeout(ms(500)).grace(grace), fine).await;
    }
    absent_for(Capability::Term, any().grace(ms(100))).await;
}

#[tokio::test]
async fn output_limits() {
    invalid_command(any().output_limit(0), any().output_limit(1)).await;
    let small = |facts: Facts| facts.max_output(10);
    commands(small, ErrorKind::Unsupported, any().output_limit(11), any().output_limit(10)).await;
    commands(small, ErrorKind::Unsupported, any().output_limit(11), any()).await;
}

#[tokio::test]
async fn ids() {
    let (client, log) = script_of().having([Capability::Attach]).client();
    for id in ["", "../../info?x=", "a b", "a/b", "a%2f", ".", "-f", "a\n", &"x".repeat(257)] {
        for error in [client.attach(id).await.unwrap_err(), client.destroy(id).await.unwrap_err()] {
            assert_eq!((error.kind(), error.hint().is_some()), (ErrorKind::InvalidArgument, true), "{id}");
        }
    }
    assert_eq!((log.count("attach"), log.count("destroy")), (0, 0));
    let longest = "x".repeat(256);
    for id in ["sb-0f.3_A:9", &longest] {
        assert!(client.attach(id).await.is_ok() && client.destroy(id).await.is_ok());
    }
}

#[tokio::test]
async fn labels_of_a_query() {
    let (client, log) = script_of().having([Capability::List]).client();
    for (name, value) in [("", "v"), ("a b", "v"), ("a", "v\n")] {
        let error = client.list(Query::new().label(name, value)).await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, Some("list")));
    }
    assert_eq!(log.count("list"), 0);
    assert!(client.list(Query::new().label(sandbox::labels::MARKER, "sb-1")).await.is_ok());
}

#[tokio::test]
async fn operations_of_absent_capabilities() {
    let (client, log) = script_of().client();
    let sandbox = client.create(Spec::new()).await.unwrap();
    let unsupported = [
        client.attach("x").await.unwrap_err(),
        client.list(Query::new()).await.unwrap_err(),
        client.sweep(sandbox::Sweep::new()).await.unwrap_err(),
        sandbox.detach().await.unwrap_err(),
        sandbox.files().read("/x").await.unwrap_err(),
        sandbox.files().write("/x", "").await.unwrap_err(),
        sandbox.files().stat("/x").await.unwrap_err(),
        sandbox.files().list("/x").await.unwrap_err(),
        sandbox.files().make_dir("/x").await.unwrap_err(),
        sandbox.files().remove("/x").await.unwrap_err(),
        sandbox.files().rename("/x", "/y").await.unwrap_err(),
        sandbox.files().set_meta(sandbox::SetMeta::new("/x").mode(Some(0o600))).await.unwrap_err(),
        sandbox.files().upload_dir("/proc/self/fdinfo", "/x").await.unwrap_err(),
        sandbox.files().download_dir("/x", "/nonexistent/y").await.unwrap_err(),
    ];
    for error in unsupported {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.operation().is_some() && error.backend() == Some("scripted") && !error.may_have_applied());
    }
    assert_eq!(
        log.all()
            .iter()
            .filter(|line| !["info", "clock", "probe key", "probe", "create", "gone"].contains(&line.as_str()))
            .count(),
        0,
        "{:?}",
        log.all()
    );
}

#[tokio::test]
async fn paths_and_modes() {
    let (client, log) = script_of().having([Capability::Files, Capability::FileMeta]).client();
    let sandbox = client.create(Spec::new()).await.unwrap();
    let files = sandbox.files();
    for path in ["", "a\0b"] {
        for error in [
            files.read(path).await.unwrap_err(),
            files.write(path, "").await.unwrap_err(),
            files.stat(path).await.unwrap_err(),
            files.rename(path, "/x").await.unwrap_err(),
            files.rename("/x", path).await.unwrap_err(),
            files.remove_all(path).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
    }
    for root in ["/", "//", "/."] {
        assert_eq!(files.remove_all(root).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let mode = |mode| sandbox::WriteFile::new("/x").mode(Some(mode));
    let body = || sandbox::Body::from(bytes::Bytes::new());
    assert_eq!(files.write_with(mode(0o10000), body()).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let set = |mode| sandbox::SetMeta::new("/x").mode(Some(mode));
    assert_eq!(files.set_meta(set(0o10000)).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(log.count("write file") + log.count("set meta") + log.count("remove") + log.count("read file"), 0);
    files.write_with(mode(0o7777), body()).await.unwrap();
    files.set_meta(set(0o7777)).await.unwrap();
}
