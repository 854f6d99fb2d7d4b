//! Images that the engine builds from definitions.

use crate::lab::{IMAGE, Lab, out, plain};
use bollard::query_parameters::{ListContainersOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptionsBuilder};
use bytes::Bytes;
use sandbox_core::{Backend, Body, BuildImage, Chunks, ErrorKind, Result, Spec};
use std::{
    collections::HashMap,
    fmt::Write as _,
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

/// As many digits as a digest has, which nobody else has.
fn digest() -> String {
    (0_u64..4).fold(String::new(), |mut text, n| {
        write!(text, "{:016x}", RandomState::new().hash_one(n)).unwrap();
        text
    })
}

fn request(steps: &str) -> BuildImage {
    BuildImage::new(format!("FROM {IMAGE}\n{steps}"), digest())
}

fn context(files: &[(&str, &str)]) -> Body {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        tar.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    Body::from(Bytes::from(tar.into_inner().unwrap()))
}

/// A source that must not be asked.
struct Unread;

impl Chunks for Unread {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        panic!("a context that is not needed was read")
    }
}

async fn images(lab: &Lab, request: &BuildImage) -> usize {
    let filters = HashMap::from([("label".to_string(), vec![format!("sandbox.build={}", request.digest)])]);
    let options = ListImagesOptionsBuilder::default().filters(&filters).build();
    lab.docker.list_images(Some(options)).await.unwrap().len()
}

async fn remove(lab: &Lab, image: &str) {
    let options = RemoveImageOptionsBuilder::default().force(true).build();
    lab.docker.remove_image(image, Some(options), None).await.unwrap();
}

/// Containers, in whatever state, whose command line shows a word.
async fn containers(lab: &Lab, word: &str) -> usize {
    let options = ListContainersOptionsBuilder::default().all(true).build();
    let all = lab.docker.list_containers(Some(options)).await.unwrap();
    all.iter().filter(|one| one.command.as_deref().is_some_and(|command| command.contains(word))).count()
}

pub(crate) async fn a_definition_is_built_and_found_again(lab: Lab) {
    let mut request = request(
        "ARG WORD\nENV SAID=$WORD\nWORKDIR /made\nCOPY . all/\nCOPY run.sh /bin/\nRUN run.sh $WORD >ran\n\
         RUN [\"/bin/sh\", \"-c\", \"echo exec >>ran\"]\nUSER 1000\n",
    );
    request.args.insert("WORD".into(), "hello world".into());
    let files = [("a", "A"), ("d/b", "B"), ("run.sh", "#!/bin/sh\necho ran \"$@\"\n")];
    let image = lab.plain.build(&request, context(&files)).await.unwrap();
    assert_eq!(image, format!("sandbox-build:{}", request.digest));
    let id = lab.docker.inspect_image(&image).await.unwrap().id;
    let spec: Spec = lab.spec().image(&*image);
    let made = lab.create(spec).await.unwrap();
    assert_eq!(made.cwd.as_deref(), Some("/made"));
    // Neither the Dockerfile nor what hides it was copied.
    assert_eq!(out(&made.instance, "find all -type f | sort").await, "all/a\nall/d/b\nall/run.sh");
    assert_eq!(
        out(&made.instance, "cat all/a all/d/b ran; echo \"$SAID\"; id -u").await,
        "ABran hello world\nexec\nhello world\n1000"
    );
    let labels = lab.plain.list(&sandbox_core::Query::new().label("engine-test.run", &lab.run)).await.unwrap().items;
    assert!(labels.iter().all(|one| !one.labels.contains_key("sandbox.build")), "{labels:?}");
    lab.destroy(made).await;
    assert_eq!(lab.plain.build(&request, Body::new(None, Unread)).await.unwrap(), image, "found");
    assert_eq!(plain().build(&request, Body::new(None, Unread)).await.unwrap(), image, "found by another one");
    assert_eq!(lab.docker.inspect_image(&image).await.unwrap().id, id);
    remove(&lab, &image).await;
    let gone = lab.refused_on(&sandbox_docker::Docker::plain(), lab.spec().image(&*image)).await;
    assert_eq!(gone.kind(), ErrorKind::ImageNotFound, "nobody asks a registry for it: {gone:?}");
    // A name alone proves nothing.
    let tag = bollard::query_parameters::TagImageOptionsBuilder::default().repo("sandbox-build").tag(&request.digest);
    lab.docker.tag_image(IMAGE, Some(tag.build())).await.unwrap();
    assert_eq!(lab.plain.build(&request, context(&files)).await.unwrap(), image);
    let own = lab.docker.inspect_image(&image).await.unwrap();
    assert_ne!(own.id, lab.docker.inspect_image(IMAGE).await.unwrap().id, "it was built");
    remove(&lab, &image).await;
}

pub(crate) async fn a_rebuild_leaves_one_image(lab: Lab) {
    let mut request = request("RUN head -c 16 /dev/urandom >/random\n");
    let image = lab.plain.build(&request, context(&[])).await.unwrap();
    let read = async || {
        let made = lab.create(lab.spec().image(&*image)).await.unwrap();
        let read = out(&made.instance, "md5sum </random").await;
        lab.destroy(made).await;
        read
    };
    let first = read().await;
    assert_eq!(read().await, first, "the control");
    request.rebuild = true;
    assert_eq!(lab.plain.build(&request, context(&[])).await.unwrap(), image);
    assert_ne!(read().await, first, "each step is carried out again");
    assert_eq!(images(&lab, &request).await, 1, "the one before is gone");
    remove(&lab, &image).await;
}

pub(crate) async fn failing_steps_are_told(lab: Lab) {
    // The engine brings both streams, in whatever order.
    let table: [(&str, &str, &[&str]); 3] = [
        (
            "RUN echo $((6 * 7)) out; echo $((7 * 8)) err >&2; exit 3\n",
            "RUN echo $((6 * 7)) out",
            &["it ended with code 3; it wrote: ", "42 out", "56 err"],
        ),
        ("COPY missing /x\n", "COPY missing /x", &["missing"]),
        ("RUN [\"/no/such\"]\n", "RUN [\"/no/such\"]", &["no such file"]),
    ];
    for (steps, step, words) in table {
        let request = request(steps);
        let error = lab.plain.build(&request, context(&[("a", "A")])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CreateFailed, "{error:?}");
        assert!(error.message().contains(step), "{steps}: {error}");
        assert!(words.iter().all(|word| error.message().contains(word)), "{steps}: {error}");
        assert_eq!(images(&lab, &request).await, 0, "{steps}");
        assert_eq!(containers(&lab, "echo $((6 * 7))").await, 0, "{steps}");
    }
}

pub(crate) async fn texts_that_are_no_dockerfile(lab: Lab) {
    for text in [format!("FROM {IMAGE}\nFETCH x\n"), format!("FROM {IMAGE}\nENV\n"), "FROM\n".into()] {
        let error = lab.plain.build(&BuildImage::new(&*text, digest()), context(&[])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}: {error:?}");
    }
}

pub(crate) async fn what_it_begins_with_has_to_be_there(lab: Lab) {
    let request = BuildImage::new("FROM sandbox-test/no-such-image:1\n", digest());
    let error = lab.plain.build(&request, context(&[])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ImageNotFound, "{error:?}");
    assert!(error.message().contains("sandbox-test/no-such-image:1"), "{error}");
    let copies = BuildImage::new(format!("FROM {IMAGE}\nCOPY --from=sandbox-test/no-such-image:1 /a /b\n"), digest());
    assert_eq!(lab.plain.build(&copies, context(&[])).await.unwrap_err().kind(), ErrorKind::ImageNotFound);
    // From several stages, whose names are no images. One with a step would stay at the engine, as its cache.
    let stages = BuildImage::new(
        format!("FROM {IMAGE} AS one\nFROM scratch\nFROM one AS two\nFROM {IMAGE}\nCOPY --from=two /bin/sh /y\n"),
        digest(),
    );
    let image = lab.plain.build(&stages, context(&[])).await.unwrap();
    remove(&lab, &image).await;
}

pub(crate) async fn a_dropped_build_leaves_nothing(lab: Lab) {
    let request = request(&format!("RUN echo {0}; sleep 100\n", lab.run));
    let mut building = Box::pin(lab.plain.build(&request, context(&[])));
    let begun = async {
        let until = Instant::now() + Duration::from_secs(60);
        while containers(&lab, &lab.run).await == 0 {
            assert!(Instant::now() < until, "the step never began");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        built = &mut building => panic!("it is over: {built:?}"),
        () = begun => {}
    }
    drop(building);
    let until = Instant::now() + Duration::from_secs(30);
    while containers(&lab, &lab.run).await > 0 {
        assert!(Instant::now() < until, "the step of a build that nobody waits for runs on");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(images(&lab, &request).await, 0);
}
