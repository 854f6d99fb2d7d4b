//! What runs beside the sandboxes of a fake, as its users' tests see it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use sandbox::{
    Capability, Client, Command, ErrorKind, ForkSandbox, NetworkPolicy, Sandbox, Service, Spec, TakeSnapshot,
};
use sandbox_fake::{Call, Fake, Image, On, Operation, Reply, Trouble, World, failure};
use std::{collections::BTreeMap, time::Duration};

const SERVE: [&str; 3] = ["serve", "80", "hello"];

fn serving() -> Service {
    Service::new("default").command(SERVE)
}

async fn open(fake: Fake, spec: Spec) -> (World, Client, Sandbox) {
    let world = fake.world();
    let client = Client::new(fake).unwrap();
    let sandbox = client.create(spec).await.unwrap();
    (world, client, sandbox)
}

async fn said(sandbox: &Sandbox, host: &str) -> String {
    let output = sandbox.run(Command::new("connect").args([host, "80"])).await.unwrap();
    output.stdout.text().into_owned()
}

#[tokio::test]
async fn they_are_seen_from_outside_and_are_no_sandboxes() {
    let fake = Fake::new()
        .image("web", Image::new().command(SERVE).env("A", "image").cwd("/srv"))
        .on_run(On::program("database").once(), Reply::hang());
    let database = Service::new("default").command(["database", "--fast"]).env("TOKEN", "hunter2");
    let spec = Spec::new().label("a", "1").service("web", Service::new("web")).service("db", database.clone());
    let (world, client, sandbox) = open(fake, spec).await;
    assert_eq!((world.count(), world.sandboxes()), (1, vec![sandbox.id().clone()]));
    let services = world.services(sandbox.id());
    assert_eq!(services.keys().collect::<Vec<_>>(), ["db", "web"]);
    assert_eq!(
        (&services["web"], sandbox.service("web").unwrap().cwd()),
        (sandbox.service("web").unwrap().id(), "/srv")
    );
    let main = world.processes(&services["db"]);
    assert_eq!(main.len(), 1);
    assert_eq!((&*main[0].argv, main[0].parent), (&["database".to_string(), "--fast".into()][..], 1));
    assert!(world.unmet().is_empty() && world.runs().is_empty(), "a main program is asked for with its sandbox");
    assert_eq!(said(&sandbox, "web").await, "hello\n");
    let calls = world.calls();
    let Call::Create(create) = &calls[0] else { panic!("{calls:?}") };
    assert_eq!(create.spec.services["db"], database);
    assert!(!format!("{calls:?}").contains("hunter2"), "{calls:?}");
    let labels = |name: &str| BTreeMap::from([(name.to_string(), "1".to_string())]);
    assert_eq!((world.count_services(&labels("a")), world.count_services(&labels("b"))), (2, 0));
    sandbox.service("web").unwrap().close().await.unwrap();
    assert_eq!(world.services(sandbox.id()).keys().collect::<Vec<_>>(), ["db"]);
    assert_eq!(said(&sandbox, "web").await, "", "its name is nobody's any more");
    client.close().await.unwrap();
    assert_eq!((world.count(), world.count_services(&BTreeMap::new())), (0, 0));
}

#[tokio::test]
async fn without_a_main_program_one_is_there_and_runs_nothing() {
    let (world, _client, sandbox) = open(Fake::new(), Spec::new().service("tools", Service::new("default"))).await;
    let tools = sandbox.service("tools").unwrap();
    assert!(world.processes(tools.id()).is_empty());
    drop(tools.run(Command::new("sleep").arg("100")).await.unwrap().check().unwrap());
    assert_eq!(tools.run(Command::new("echo").arg("here")).await.unwrap().stdout.text(), "here\n");
}

#[tokio::test]
async fn one_whose_main_program_is_over_at_once_is_gone() {
    let spec = Spec::new().service("short", Service::new("default").command(["true"])).service("web", serving());
    let (world, _client, sandbox) = open(Fake::new(), spec).await;
    let error = sandbox.service("short").unwrap().run(Command::new("true")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Gone);
    assert_eq!(world.services(sandbox.id()).len(), 1);
    assert_eq!(said(&sandbox, "web").await, "hello\n");
}

#[tokio::test]
async fn one_that_dies_behind_its_back_is_gone_alone() {
    let (world, _client, sandbox) = open(Fake::new(), Spec::new().service("web", serving())).await;
    let web = sandbox.service("web").unwrap();
    let mut process = web.start(Command::new("hang")).await.unwrap();
    assert!(world.expire(web.id()));
    assert_eq!(process.wait().await.unwrap_err().kind(), ErrorKind::Gone);
    drop(sandbox.run(Command::new("true")).await.unwrap().check().unwrap());
}

#[tokio::test]
async fn a_quota_is_of_sandboxes() {
    let (world, client, _sandbox) = open(Fake::new(), Spec::new().service("web", serving())).await;
    world.set_quota(Some(2));
    let _second = client.create(Spec::new().service("web", serving())).await.unwrap();
    assert_eq!(client.create(Spec::new()).await.unwrap_err().kind(), ErrorKind::QuotaExceeded);
}

#[tokio::test]
async fn what_cannot_be_made_says_which_and_leaves_nothing() {
    let fake = Fake::new();
    let world = fake.world();
    let client = Client::new(fake).unwrap();
    let of = |service| Spec::new().service("a", serving()).service("b", service).service("c", serving());
    for (service, kind) in [
        (Service::new("nowhere"), ErrorKind::ImageNotFound),
        (serving().user("stranger"), ErrorKind::InvalidArgument),
        (serving().command(["no-such-program"]), ErrorKind::CreateFailed),
    ] {
        let error = client.create(of(service)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.message().contains("service `b`") && error.hint().is_some(), "{error:?}");
    }
    world.trouble(Trouble::on(Operation::Create).step(3).fail(failure::unavailable()));
    assert!(client.create(of(serving())).await.is_err());
    client.close().await.unwrap();
    assert_eq!((world.count(), world.count_services(&BTreeMap::new())), (0, 0));
}

#[tokio::test]
async fn a_create_whose_answer_was_lost_finds_them_again() {
    let fake = Fake::new().trouble(Trouble::on(Operation::Create).step(4).fail(failure::connection_lost()));
    let (world, client, sandbox) = open(fake, Spec::new().service("web", serving())).await;
    assert_eq!((world.count(), world.count_services(&BTreeMap::new())), (1, 1));
    assert_eq!(said(&sandbox, "web").await, "hello\n");
    assert_eq!(said(&sandbox.service("web").unwrap(), "localhost").await, "hello\n");
    client.close().await.unwrap();
    assert_eq!((world.count(), world.count_services(&BTreeMap::new())), (0, 0));
}

#[tokio::test]
async fn a_detached_sandbox_keeps_them() {
    let fake = Fake::new();
    let (world, client, sandbox) = open(fake.clone(), Spec::new().service("web", serving())).await;
    let id = sandbox.detach().await.unwrap();
    drop(sandbox);
    client.close().await.unwrap();
    assert_eq!(world.services(&id).len(), 1);
    let other = Client::new(fake).unwrap();
    let sandbox = other.attach(&id).await.unwrap();
    assert_eq!(said(&sandbox.service("web").unwrap(), "localhost").await, "hello\n");
    sandbox.close().await.unwrap();
    assert_eq!((world.count(), world.count_services(&BTreeMap::new())), (0, 0));
}

#[tokio::test]
async fn a_copy_and_a_snapshot_have_none() {
    let (world, client, sandbox) = open(Fake::new(), Spec::new().service("web", serving())).await;
    let copy = sandbox.fork(ForkSandbox::new()).await.unwrap();
    assert!(!copy.facts().has(Capability::Services) && world.services(copy.id()).is_empty());
    let error = copy.service("web").unwrap_err();
    assert!(error.kind() == ErrorKind::Unsupported && error.message().contains("a copy"), "{error:?}");
    assert_eq!((said(&copy, "web").await, said(&sandbox, "web").await), (String::new(), "hello\n".into()));
    let snapshot = sandbox.snapshot(TakeSnapshot::new()).await.unwrap();
    let bare = client.create(Spec::new().snapshot(snapshot.clone())).await.unwrap();
    assert_eq!(bare.service("web").unwrap_err().kind(), ErrorKind::NotFound);
    // Nothing that a copy is for takes the services of what has none away.
    assert!(bare.fork(ForkSandbox::new()).await.unwrap().facts().has(Capability::Services));
    let own = client.create(Spec::new().snapshot(snapshot).service("web", serving())).await.unwrap();
    assert_eq!(said(&own, "web").await, "hello\n");
}

#[tokio::test]
async fn a_lifetime_is_that_of_all() {
    let minute = Duration::from_secs(60);
    let spec = Spec::new().lifetime(minute).service("web", serving());
    let (world, client, sandbox) = open(Fake::new(), spec).await;
    let web = sandbox.service("web").unwrap();
    sandbox.extend(3 * minute).await.unwrap();
    drop(web.run(Command::new("sleep").arg("100").timeout(2 * minute)).await.unwrap().check().unwrap());
    client.sleep(2 * minute).await;
    let error = web.run(Command::new("true")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Gone);
    assert_eq!((world.count(), world.count_services(&BTreeMap::new())), (0, 0));
}

#[tokio::test]
async fn they_go_on_while_their_sandbox_stands_still() {
    let (_world, _client, sandbox) = open(Fake::new(), Spec::new().service("web", serving())).await;
    let web = sandbox.service("web").unwrap();
    sandbox.pause().await.unwrap();
    assert_eq!(said(&web, "localhost").await, "hello\n");
    sandbox.resume().await.unwrap();
    sandbox.stop().await.unwrap();
    assert_eq!(said(&web, "localhost").await, "hello\n");
    sandbox.restart().await.unwrap();
    assert_eq!(said(&sandbox, "web").await, "hello\n");
}

#[tokio::test]
async fn a_change_of_the_policy_cuts_what_leaves_and_nothing_between_them() {
    let fake = Fake::new()
        .manual_time()
        .talker("news.example", 80, "news\n")
        .program("listen-on", |p| async move {
            // Whoever is served here hears nothing and stays.
            let listener = p.listen(81).unwrap();
            let _held = listener.accept().await;
            p.hang().await;
            0
        })
        .program("stay", |p| async move {
            let (Some(host), Some(port)) = (p.arg(1), p.arg(2).and_then(|port| port.parse().ok())) else { return 2 };
            let Ok(stream) = p.dial(host, port) else { return 3 };
            p.print("connected\n").await;
            while let Ok(piece) = stream.read().await {
                if piece.is_empty() {
                    return 0;
                }
            }
            4
        });
    let spec = Spec::new().network(NetworkPolicy::Open).service("held", Service::new("default").command(["listen-on"]));
    let (_world, _client, sandbox) = open(fake, spec).await;
    let held = sandbox.service("held").unwrap();
    let hour = Duration::from_secs(600);
    let mut between = sandbox.start(Command::new("stay").args(["held", "81"]).timeout(hour)).await.unwrap();
    let mut out = held.start(Command::new("stay").args(["news.example", "80"]).timeout(hour)).await.unwrap();
    assert!(between.next().await.unwrap().is_some() && out.next().await.unwrap().is_some(), "both are connected");
    sandbox.set_network(NetworkPolicy::Deny).await.unwrap();
    assert_eq!(out.wait().await.unwrap().as_code(), 4, "what a service reached outside is cut");
    assert_eq!(said(&held, "news.example").await, "");
    assert!(tokio::time::timeout(Duration::from_millis(200), between.wait()).await.is_err(), "the other stays");
}
