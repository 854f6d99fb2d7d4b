//! Images from definitions, as the fake carries them out.

use super::{All, Lab, exec, run};
use crate::{Call, Fake, Image, Operation, Trouble, failure};
use bytes::Bytes;
use sandbox_core::{Backend, Body, BuildImage, Error, ErrorKind, Query, Spec};
use std::{
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
    pin::pin,
    task::Poll,
    time::Instant,
};

fn request(text: &str) -> BuildImage {
    let mut hash = DefaultHasher::new();
    text.hash(&mut hash);
    BuildImage::new(text, format!("{:064x}", hash.finish()))
}

fn context(files: &[(&str, &str)]) -> Body {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    Body::from(Bytes::from(tar.into_inner().unwrap()))
}

async fn build(lab: &Lab, text: &str) -> Result<String, Error> {
    lab.fake.build(&request(text), context(&[("a", "A"), ("d/b", "B")])).await
}

async fn within(lab: &Lab, image: &str, line: &str) -> All {
    let made = lab.create(Spec::new().image(image)).await.unwrap();
    let all = run(&made.instance, &exec(line)).await;
    lab.fake.destroy(&made.id).await.unwrap();
    all
}

fn fake() -> Fake {
    Fake::new()
        .image("base", Image::new().env("OF", "base").cwd("/base").user("app"))
        .program("whoami", |p| async move {
            p.print(format!("{} {} {}\n", p.user().0, p.cwd(), p.var("OF").unwrap_or("none"))).await;
            0
        })
        .program("write", |p| async move {
            let content = p.argv()[2..].join(" ");
            p.write_file(p.arg(1).unwrap_or("x"), content).map_or(1, |()| 0)
        })
}

#[test]
fn every_instruction_does_what_it_says() {
    Lab::run(fake(), |lab| async move {
        let mut request = request(
            "ARG BASE=default\nARG WHO=root\nFROM ${BASE}\nARG WHO\nARG SAY=default\nARG GIVEN=x\nENV SAY=\"$SAY $GIVEN\" TWO='$SAY'\n\
             USER $WHO\nWORKDIR /w\nWORKDIR sub\nCOPY a ./\nCOPY d/ copied/\nRUN [\"write\", \"made\", \"by\", \"hand\"]\nENV OF=here\n",
        );
        request.args = [("BASE", "base"), ("GIVEN", "given"), ("OTHER", "unused")]
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into();
        let image = lab.fake.build(&request, context(&[("a", "A"), ("d/b", "B")])).await.unwrap();
        assert_eq!(within(&lab, &image, "cat a copied/b made").await.text(), "ABby hand");
        assert_eq!(within(&lab, &image, "whoami").await.text(), "root /w/sub here\n");
        let all = within(&lab, &image, "env").await;
        let has = |line: &str| all.text().lines().any(|known| known == line);
        assert!(has("SAY=default given") && has("TWO=$SAY") && !all.text().contains("GIVEN"), "{}", all.text());
        // What an image says goes on, and an image is one to begin with.
        let next = build(&lab, &format!("FROM {image}\nUSER nobody\n")).await.unwrap();
        assert_eq!(within(&lab, &next, "whoami").await.text(), "nobody /w/sub here\n");
    });
}

#[test]
fn a_build_is_found_again_recorded_and_may_be_taken_away() {
    Lab::run(fake(), |lab| async move {
        let world = lab.fake.world();
        let image = build(&lab, "FROM base\n").await.unwrap();
        assert_eq!((build(&lab, "FROM base\n").await.unwrap(), world.builds()), (image.clone(), 1));
        let mut again = request("FROM base\n");
        again.rebuild = true;
        assert_eq!((lab.fake.build(&again, context(&[])).await.unwrap(), world.builds()), (image.clone(), 2));
        let built: Vec<_> = world
            .calls()
            .into_iter()
            .map(|call| match call {
                Call::Build(call) => (call.image, call.built, call.rebuild, call.error),
                other => panic!("{other:?}"),
            })
            .collect();
        let one = |built, rebuild| (Some(image.clone()), built, rebuild, None);
        assert_eq!(built, [one(true, false), one(false, false), one(true, true)]);
        assert!(world.remove_built(&image) && !world.remove_built(&image) && !world.remove_built("base"));
        let gone = lab.create(Spec::new().image(&*image)).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::ImageNotFound);
        assert_eq!(build(&lab, "FROM no\n").await.unwrap_err().kind(), ErrorKind::ImageNotFound);
        build(&lab, "FROM base\n").await.unwrap();
        assert_eq!(world.builds(), 3);
    });
}

#[test]
fn trouble_comes_before_and_after_the_build() {
    Lab::run(fake(), |lab| async move {
        let world = lab.fake.world();
        for (step, builds) in [(1, 0), (2, 1)] {
            world.trouble(Trouble::on(Operation::Build).step(step).fail(failure::connection_lost()));
            let error = build(&lab, "FROM base\n").await.unwrap_err();
            assert_eq!((error.kind(), world.builds()), (ErrorKind::ConnectionLost, builds));
            assert_eq!(world.calls().last().and_then(Call::error), Some(ErrorKind::ConnectionLost));
        }
        build(&lab, "FROM base\n").await.unwrap();
        assert_eq!(world.builds(), 1, "it was there");
    });
}

#[test]
fn steps_run_on_the_fakes_time_and_leave_nothing() {
    Lab::run(fake(), |lab| async move {
        let begun = Instant::now();
        build(&lab, "FROM default\nRUN [\"sleep\", \"3600\"]\nRUN [\"sleep\", \"3600\"]\n").await.unwrap();
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
        assert!(lab.fake.world().now() >= std::time::Duration::from_secs(7200));
        for (steps, words) in [
            ("RUN [\"cat\", \"/a\", \"/nope\"]", "/nope"),
            ("RUN [\"no-such-program\"]", "no-such-program"),
            ("COPY nope /x", "not in the context"),
            ("ENV A", "has no value"),
            ("RUN [\"sleep\", \"x\"]", "sleep"),
        ] {
            let error = build(&lab, &format!("FROM default\nCOPY a /a\n{steps}\n")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CreateFailed, "{steps}: {error:?}");
            assert!(error.message().contains(steps) && error.message().contains(words), "{steps}: {error}");
        }
        assert_eq!(
            build(&lab, "FROM default\nUSER nobody-knows\nRUN [\"true\"]\n").await.unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
        assert_eq!(lab.fake.world().builds(), 1);
    });
}

#[test]
fn a_workshop_is_no_sandbox_and_goes_with_its_builder() {
    let fake = fake().program("stay", |p| async move {
        p.hang().await;
        0
    });
    Lab::run(fake, |lab| async move {
        let world = lab.fake.world();
        world.set_quota(Some(1));
        let (request, rooms) =
            (request("FROM default\nRUN [\"stay\"]\n"), || lab.fake.kernel().with(|state, _| state.rooms.len()));
        let mut building = Box::pin(lab.fake.build(&request, context(&[])));
        let mut pending = async || {
            let mut building = pin!(&mut building);
            std::future::poll_fn(|cx| Poll::Ready(building.as_mut().poll(cx).is_pending())).await
        };
        for _ in 0..20 {
            assert!(pending().await, "it is over");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!(rooms(), 1, "the control: it is being built");
        assert_eq!((world.count(), world.sandboxes()), (0, vec![]));
        assert_eq!(world.count_labelled(&Default::default()), 0);
        assert!(lab.fake.list(&Query::new()).await.unwrap().items.is_empty());
        let made = lab.create(Spec::new()).await.unwrap();
        assert_eq!((made.id.as_str(), world.count()), ("fake-1", 1));
        drop(building);
        assert_eq!(rooms(), 1, "the sandbox alone");
    });
}

#[test]
fn a_shell_runs_steps_where_there_is_one_or_a_script_stands_in() {
    let fake = Fake::new().on_run(crate::On::shell("make it"), "made\n");
    Lab::run(fake, |lab| async move {
        build(&lab, "FROM default\nRUN make it\n").await.unwrap();
        let built = build(&lab, "FROM default\nARG N=3\nRUN echo $((N + 1)) >/four && cat /four >&2\n").await;
        if cfg!(feature = "shell") {
            assert_eq!(within(&lab, &built.unwrap(), "cat /four").await.text(), "4\n");
            let error = build(&lab, "FROM default\nRUN echo so; echo what >&2; exit 7\n").await.unwrap_err();
            assert!(error.message().contains("code 7; it wrote: so | what"), "{error}");
        } else {
            let error = built.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().contains("feature `shell`") && error.hint().is_some(), "{error:?}");
        }
    });
}
