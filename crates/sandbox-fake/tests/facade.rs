//! The fake as users have it: behind a client, and behind a DSN.

use sandbox::{Client, Command, ErrorKind, Registry, Spec};
use sandbox_fake::{Fake, FakeProvider, Image};

#[tokio::test]
async fn opens_from_a_dsn() {
    let fake = Fake::new().image("mine", Image::new().env("FROM", "mine"));
    let world = fake.world();
    let registry = Registry::new().register(FakeProvider::of(fake)).unwrap();
    let client = registry.open("fake://mine").unwrap();
    let sandbox = client.create(Spec::new()).await.unwrap();
    assert_eq!(sandbox.run(Command::new("env").arg("FROM")).await.unwrap().stdout.text(), "mine\n");
    assert_eq!(world.count(), 1);
    let error = registry.open("fake://none").unwrap().create(Spec::new()).await.unwrap_err();
    assert_eq!((error.kind(), world.count()), (ErrorKind::ImageNotFound, 1));
    assert!(registry.open("fake://?nonsense=1").is_err());
    client.close().await.unwrap();
    assert_eq!(world.count(), 0);
}

#[tokio::test]
async fn worlds_of_a_plain_provider_are_apart() {
    let registry = Registry::new().register(FakeProvider::new()).unwrap();
    let (one, two) = (registry.open("fake://").unwrap(), registry.open("fake://").unwrap());
    let id = one.create(Spec::new()).await.unwrap().detach().await.unwrap();
    assert_eq!(one.list(sandbox::Query::new()).await.unwrap().len(), 1);
    assert_eq!(two.list(sandbox::Query::new()).await.unwrap().len(), 0);
    one.destroy(id.as_str()).await.unwrap();
    assert_eq!(one.list(sandbox::Query::new()).await.unwrap().len(), 0);
}

#[test]
fn dropping_needs_no_runtime_and_leaves_nothing() {
    let fake = Fake::new();
    let world = fake.world();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = Client::new(fake).unwrap();
    let (sandbox, process) = runtime.block_on(async {
        let sandbox = client.create(Spec::new()).await.unwrap();
        assert!(sandbox.run(Command::new("daemon").arg("hang")).await.unwrap().success());
        let process = sandbox.start(Command::new("hang")).await.unwrap();
        (sandbox, process)
    });
    let id = sandbox.id().clone();
    assert_eq!(world.processes(&id).len(), 2);
    drop(runtime);
    drop((process, sandbox, client));
    assert_eq!((world.count(), world.processes(&id).len()), (0, 0));
}
