//! The fixture of the guide `docs/testing.md`, word for word.

use rstest::{fixture, rstest};
use sandbox::{Client, Command, Sandbox, Spec};
use sandbox_fake::{Fake, On, World};

/// A strict double, with a sandbox in it.
struct Double {
    world: World,
    client: Client,
    sandbox: Sandbox,
}

#[fixture]
async fn double() -> Double {
    let fake = Fake::new().strict();
    let world = fake.world();
    let client = Client::new(fake).expect("an engine");
    let sandbox = client.create(Spec::new()).await.expect("a sandbox");
    Double { world, client, sandbox }
}

#[rstest]
#[case::clean(0, true)]
#[case::failing(101, false)]
#[tokio::test]
async fn says_whether_the_tests_pass(#[future(awt)] double: Double, #[case] code: i32, #[case] pass: bool) {
    double.world.on_run(On::argv(["cargo", "test"]).once(), code);
    assert_eq!(tests_pass(&double.sandbox).await.unwrap(), pass);
    assert_eq!(double.world.unmet(), [""; 0]);
    double.client.close().await.unwrap();
}

/// The code under test.
async fn tests_pass(sandbox: &Sandbox) -> sandbox::Result<bool> {
    Ok(sandbox.run(Command::new("cargo").arg("test")).await?.success())
}

#[test]
fn the_guide_shows_this_file() {
    let guide = include_str!("../../../docs/testing.md");
    let block = guide.split("```rust,ignore\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(include_str!("fixture.rs").contains(block), "the fixture in docs/testing.md is another one than here");
}
