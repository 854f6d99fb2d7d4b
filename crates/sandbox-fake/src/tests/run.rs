use super::*;
use bytes::Bytes;
use sandbox_core::{Cause, Control, ErrorKind, Signal};

#[test]
fn output_exit_codes_and_streams() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        let all = run(&sandbox, &Exec::new(["echo", "a  b", "$HOME", "", "é\n"])).await;
        assert_eq!((all.text(), all.status()), ("a  b $HOME  é\n\n", Status::Code(0)));
        for code in [0, 1, 3, 7, 42, 126, 127, 255] {
            assert_eq!(run(&sandbox, &exec(&format!("exit {code}"))).await.status(), Status::Code(code));
        }
        let all = run(&sandbox, &exec("cat /missing")).await;
        assert_eq!((all.stdout.len(), all.status()), (0, Status::Code(1)));
        assert!(String::from_utf8(all.stderr).unwrap().contains("/missing: no such file"));
    });
}

#[test]
fn who_cannot_start_says_why() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        assert_eq!(refused(&sandbox, &exec("nonesuch")).await.kind(), ErrorKind::ProgramNotFound);
        assert_eq!(refused(&sandbox, &exec("/bin/nonesuch")).await.kind(), ErrorKind::ProgramNotFound);
        assert_eq!(refused(&sandbox, &exec("/etc/passwd")).await.kind(), ErrorKind::StartFailed);
        assert_eq!(refused(&sandbox, &exec("/etc")).await.kind(), ErrorKind::StartFailed);
        let mut there = exec("pwd");
        for (cwd, kind) in [("/missing", ErrorKind::PathNotFound), ("/etc/passwd", ErrorKind::NotADirectory)] {
            there.cwd = Some(cwd.into());
            assert_eq!(refused(&sandbox, &there).await.kind(), kind, "{cwd}");
        }
        there.cwd = Some("/tmp".into());
        assert_eq!(run(&sandbox, &there).await.text(), "/tmp\n");
        let long = Exec::new(["echo".to_string(), "x".repeat(3 << 20)]);
        assert_eq!(refused(&sandbox, &long).await.kind(), ErrorKind::ArgumentTooLarge);
        let long = Exec::new(["echo".to_string(), "x".repeat(1 << 20)]);
        assert_eq!(run(&sandbox, &long).await.stdout.len(), (1 << 20) + 1);
        assert!(names(&lab.fake, &lab.fake.world().sandboxes()[0]).is_empty());
    });
}

#[cfg(not(feature = "shell"))]
#[test]
fn a_shell_is_missing_and_its_error_names_the_feature() {
    Lab::run(Fake::new(), |lab| async move {
        let error = refused(&lab.sandbox().await, &Exec::new(["/bin/sh", "-c", "true"])).await;
        assert_eq!(error.kind(), ErrorKind::ProgramNotFound);
        assert!(error.hint().unwrap().contains("`shell`"), "{error:?}");
    });
}

#[test]
fn users_environment_and_image() {
    let image = crate::Image::new().env("A", "image").env("B", "image").cwd("/work").user("app");
    Lab::run(Fake::new().image("mine", image), |lab| async move {
        let made = lab.create(Spec::new().image("mine").env("B", "spec").env("C", "spec")).await.unwrap();
        assert_eq!(made.cwd.as_deref(), Some("/work"));
        let sandbox = made.instance;
        let mut with = exec("env");
        with.env = vec![("C".into(), "call".into())];
        let all = run(&sandbox, &with).await;
        for line in ["A=image", "B=spec", "C=call", "HOME=/home/app"] {
            assert!(all.text().lines().any(|found| found == line), "{line} in {}", all.text());
        }
        assert_eq!(run(&sandbox, &exec("env C")).await.text(), "spec\n");
        for (user, id) in [("root", "0\n"), ("nobody", "65534\n"), ("1000", "1000\n"), ("4711", "4711\n")] {
            let mut with = exec("id -u");
            with.user = Some(user.into());
            assert_eq!(run(&sandbox, &with).await.text(), id);
        }
        assert_eq!(run(&sandbox, &exec("id -un")).await.text(), "app\n");
        assert_eq!(run(&sandbox, &exec("touch made")).await.status(), Status::Code(0), "its own directory");
        let mut with = exec("true");
        with.user = Some("nemo".into());
        let error = refused(&sandbox, &with).await;
        assert!(error.kind() == ErrorKind::InvalidArgument && error.message().contains("nemo"));
        let error = lab.create(Spec::new().image("none")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ImageNotFound);
        assert!(error.message().contains("`default`") && error.message().contains("`mine`"), "{error}");
        assert_eq!(lab.create(Spec::new().user("nemo")).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(lab.fake.world().count(), 1);
    });
}

#[test]
fn input_known_and_piped() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        assert_eq!(run(&sandbox, &exec("cat")).await.text(), "");
        let mut whole = exec("wc -c");
        whole.stdin = Stdin::Whole(Bytes::from(vec![b'x'; 50 << 20]));
        assert_eq!(run(&sandbox, &whole).await.text(), format!("{}\n", 50 << 20));
        whole.argv = vec!["true".into()];
        assert_eq!(run(&sandbox, &whole).await.status(), Status::Code(0));

        let (control, mut events) = start(&sandbox, &piped("cat")).await;
        control.write(Bytes::from_static(b"one")).await.unwrap();
        let Some(Event::Stdout(first)) = events.next().await.unwrap() else { panic!("no answer") };
        assert_eq!(first, "one");
        control.write(Bytes::from_static(b"two")).await.unwrap();
        control.close_stdin().await.unwrap();
        let all = All::of(&mut events).await;
        assert_eq!((all.text(), all.status()), ("two", Status::Code(0)));
        assert_eq!(control.write(Bytes::from_static(b"x")).await.unwrap_err().kind(), ErrorKind::ConnectionLost);
    });
}

#[test]
fn input_goes_at_the_pace_of_the_program() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        let (control, mut events) = start(&sandbox, &piped("hang")).await;
        let piece = Bytes::from(vec![0; 40 << 10]);
        control.write(piece.clone()).await.unwrap();
        let write = tokio::time::timeout(Duration::from_millis(100), control.write(piece)).await;
        assert!(write.is_err(), "a program that does not read took 80 KiB");
        control.kill().await.unwrap();
        assert_eq!(All::of(&mut events).await.ended, Some(Ended::new(Status::Signal(9), Cause::Killed)));
    });
}

#[test]
fn a_slow_reader_holds_the_program_back_and_loses_nothing() {
    let written = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let fake = Fake::new().program("pour", move |p| {
        let count = Arc::clone(&count);
        async move {
            for _ in 0..1000 {
                p.print([b'x'; 1000]).await;
                count.fetch_add(1000, std::sync::atomic::Ordering::SeqCst);
            }
            3
        }
    });
    Lab::run(fake, |lab| async move {
        let sandbox = lab.sandbox().await;
        let (_control, mut events) = start(&sandbox, &exec("pour")).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let ahead = written.load(std::sync::atomic::Ordering::SeqCst);
        assert!(ahead <= 64 << 10, "{ahead} bytes that nobody took");
        assert_eq!(run(&sandbox, &exec("echo beside")).await.text(), "beside\n");
        let all = All::of(&mut events).await;
        assert_eq!((all.stdout.len(), all.status()), (1_000_000, Status::Code(3)));
    });
}

#[test]
fn floods_and_endless_output() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        let all = run(&sandbox, &exec(&format!("head -c {} /dev/zero", 64 << 20))).await;
        assert_eq!((all.stdout.len(), all.status()), (64 << 20, Status::Code(0)));
        let (_control, mut events) = start(&sandbox, &within("yes", 1)).await;
        let mut bytes = 0;
        let ended = loop {
            match events.next().await.unwrap() {
                Some(Event::Stdout(more)) => bytes += more.len(),
                Some(Event::Ended(ended)) => break ended,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(ended.cause, Cause::Deadline);
        assert!(bytes > 1000 && events.next().await.unwrap().is_none());
        // Nobody looks: it still ends at its deadline, and nobody else waits for it.
        let (_control, events) = start(&sandbox, &within("yes", 1)).await;
        drop(events);
        assert_eq!(run(&sandbox, &exec("echo beside")).await.text(), "beside\n");
        let id = &lab.fake.world().sandboxes()[0];
        while !lab.fake.world().processes(id).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn every_byte_on_both_streams() {
    let bytes: Vec<u8> = (0..=255).collect();
    let all = bytes.clone();
    let fake = Fake::new().program("bytes", move |p| {
        let all = all.clone();
        async move {
            p.print(&all).await;
            p.eprint(&all).await;
            0
        }
    });
    Lab::run(fake, |lab| async move {
        let all = run(&lab.sandbox().await, &exec("bytes")).await;
        assert!(all.stdout == bytes && all.stderr == bytes);
    });
}

#[test]
fn signals() {
    let fake = Fake::new().program("careful", |p| async move {
        let term = p.catch(15);
        p.print("ready\n").await;
        term.next().await;
        p.print("got TERM\n").await;
        0
    });
    Lab::run(fake, |lab| async move {
        let sandbox = lab.sandbox().await;
        for signal in [9, 11, 15] {
            let ended = run(&sandbox, &exec(&format!("die {signal}"))).await.ended;
            assert_eq!(ended, Some(Ended::program(Status::Signal(signal))));
        }
        for signal in [Signal::Interrupt, Signal::Terminate, Signal::Kill] {
            let (control, mut events) = start(&sandbox, &exec("hang")).await;
            control.signal(signal).await.unwrap();
            assert_eq!(All::of(&mut events).await.status(), Status::Signal(signal.number()));
            assert_eq!(control.signal(signal).await.unwrap_err().kind(), ErrorKind::WrongState);
        }
        let (control, mut events) = start(&sandbox, &exec("careful")).await;
        control.signal(Signal::Terminate).await.unwrap();
        let all = All::of(&mut events).await;
        assert_eq!((all.text(), all.status()), ("ready\ngot TERM\n", Status::Code(0)));
        let (control, mut events) = start(&sandbox, &exec("ignore-term")).await;
        control.signal(Signal::Terminate).await.unwrap();
        control.signal(Signal::Kill).await.unwrap();
        assert_eq!(All::of(&mut events).await.status(), Status::Signal(9));
    });
}

#[test]
fn a_program_that_panics_is_its_own_affair() {
    let fake = Fake::new().program("panic", |p| async move {
        p.print("before").await;
        panic!("as it should")
    });
    Lab::run(fake, |lab| async move {
        let sandbox = lab.sandbox().await;
        let all = run(&sandbox, &exec("panic")).await;
        assert_eq!((all.text(), all.status()), ("before", Status::Code(101)));
        assert_eq!(run(&sandbox, &exec("echo x")).await.text(), "x\n");
    });
}

#[test]
fn programs_are_files() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        use sandbox_core::{ReadFile, SetMeta, WriteFile};
        let mut body = sandbox.read_file(&ReadFile::new("/bin/echo")).await.unwrap();
        let echo = body.next().await.unwrap().unwrap();
        sandbox.write_file(&WriteFile::new("/opt/mine"), echo.into()).await.unwrap();
        assert_eq!(refused(&sandbox, &exec("/opt/mine x")).await.kind(), ErrorKind::StartFailed);
        sandbox.set_meta(&SetMeta::new("/opt/mine").mode(Some(0o755))).await.unwrap();
        assert_eq!(run(&sandbox, &exec("/opt/mine x")).await.text(), "x\n");
        let mut with = exec("mine y");
        with.env = vec![("PATH".into(), "/nowhere:/opt".into())];
        assert_eq!(run(&sandbox, &with).await.text(), "y\n");
    });
}

#[test]
fn network_is_open_or_closed() {
    Lab::run(Fake::new().host("Canary.test", 80, "chirp"), |lab| async move {
        let (closed, open) = (lab.sandbox().await, lab.create(open()).await.unwrap().instance);
        assert_eq!(run(&open, &exec("connect canary.test 80")).await.text(), "chirp");
        assert_eq!(lab.fake.world().hits("canary.test", 80), 1);
        for line in ["connect canary.test 81", "connect other.test 80"] {
            assert_eq!(run(&open, &exec(line)).await.status(), Status::Code(1), "{line}");
        }
        let all = run(&closed, &exec("connect canary.test 80")).await;
        assert_eq!((all.text(), all.status()), ("", Status::Code(1)));
        assert!(String::from_utf8(all.stderr).unwrap().contains("unreachable"));
        assert_eq!(lab.fake.world().hits("canary.test", 80), 1);
    });
}

#[test]
fn caps_are_seen_inside_and_hold() {
    Lab::run(Fake::new(), |lab| async move {
        let made =
            lab.create(capped(Resources::new().memory(1 << 20).pids(8).cpu_millis(500).disk(1000))).await.unwrap();
        let sandbox = made.instance;
        let all = run(&sandbox, &exec("caps")).await;
        assert_eq!(all.text(), "cpu 500\nmemory 1048576\ndisk 1000\npids 8\n");
        assert_eq!(lab.fake.world().resources(&made.id).unwrap().pids, Some(8));
        assert_eq!(run(&sandbox, &exec("eat 1000")).await.ended, Some(Ended::program(Status::Code(0))));
        let out_of_memory = Some(Ended::new(Status::Signal(9), Cause::OutOfMemory));
        assert_eq!(run(&sandbox, &exec("eat 2000000")).await.ended, out_of_memory);
        let ended = run(&sandbox, &exec("spawn-child eat 2000000")).await.ended;
        assert_eq!(ended, Some(Ended::new(Status::Code(137), Cause::OutOfMemory)), "told for its child too");
        assert_eq!(run(&sandbox, &exec("exit 137")).await.ended, Some(Ended::program(Status::Code(137))));
        let (control, mut events) = start(&sandbox, &exec("fork-bomb")).await;
        let Some(Event::Stderr(text)) = events.next().await.unwrap() else { panic!("the bomb is silent") };
        assert!(std::str::from_utf8(&text).unwrap().contains("temporarily"));
        assert_eq!(lab.fake.world().processes(&made.id).len(), 8);
        let error = refused(&sandbox, &exec("true")).await;
        assert!(error.kind() == ErrorKind::StartFailed && error.hint().is_some());
        control.kill().await.unwrap();
        assert!(lab.fake.world().processes(&made.id).is_empty());
        assert_eq!(run(&sandbox, &exec("true")).await.status(), Status::Code(0));
        let defaults = lab.sandbox().await;
        assert_eq!(run(&defaults, &exec("caps pids")).await.text(), "256\n");
    });
}
