//! Through the facade: what only shows with many at once.

use crate::lab::{Lab, plain};
use futures_util::future::join_all;
use sandbox::{Client, Command, ErrorKind, Limits, Resource, Resources};
use std::{
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

pub(crate) async fn caps_that_cannot_be_kept(lab: Lab) {
    let client = Client::new(plain()).unwrap();
    for resources in [Resources::new().pids(1), Resources::new().pids(15), Resources::new().memory(1 << 63)] {
        let error = client.create(lab.spec().resources(resources.clone())).await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::InvalidArgument, false), "{error:?}");
        assert!(resources.pids.is_none() || error.hint().is_some_and(|hint| hint.contains("16")), "{error:?}");
    }
    assert_eq!(client.facts().honours(Resource::Memory).max, Some(i64::MAX as u64));
    assert!(lab.left().await.is_empty());
    let sandbox = client.create(lab.spec().resources(Resources::new().pids(16))).await.unwrap();
    for _ in 0..5 {
        let output = sandbox.run(Command::shell("echo a | cat | cat")).await.unwrap();
        assert_eq!(output.stdout.text(), "a\n", "the control: {output:?}");
    }
    sandbox.close().await.unwrap();
    client.close().await.unwrap();
}

const CREATES: usize = 50;

/// Every second create is dropped at a random point of the time that all of them take.
pub(crate) async fn fifty_creates_half_of_them_dropped(lab: Lab) {
    let limits = Limits::new().teardown(Duration::from_secs(60)).drop_grace(Duration::from_secs(60));
    let client = Client::builder(plain()).limits(limits).build().unwrap();
    let begun = Instant::now();
    drop(client.create(lab.spec()).await.unwrap());
    let whole = begun.elapsed() * u32::try_from(CREATES).unwrap() / 4;
    let creates = (0..CREATES).map(|number| {
        let (client, spec) = (client.clone(), lab.spec());
        async move {
            if number % 2 == 0 {
                return Some(client.create(spec).await.unwrap());
            }
            let part = RandomState::new().hash_one(number) % 1000;
            let cut = whole * u32::try_from(part).unwrap() / 1000;
            drop(tokio::time::timeout(cut, client.create(spec)).await);
            None
        }
    });
    let kept: Vec<_> = join_all(creates).await.into_iter().flatten().collect();
    assert_eq!(kept.len(), CREATES / 2);
    // The control: those that were kept are there.
    assert!(lab.left().await.len() >= kept.len());
    let closed = join_all(kept.iter().map(|sandbox| sandbox.close())).await;
    closed.into_iter().collect::<sandbox::Result<()>>().unwrap();
    client.close().await.unwrap();
    let left = lab.left().await;
    assert!(left.is_empty(), "{left:?}, {:?}", client.orphans());
}
