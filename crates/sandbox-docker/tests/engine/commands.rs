use crate::lab::{Lab, Ran, collect, out, piped, refusal, run, sh, with_input, write};
use bollard::query_parameters::KillContainerOptionsBuilder;
use sandbox_core::{Control, ErrorKind, Event, Events, Exec, Instance};
use std::time::{Duration, Instant};

pub(crate) async fn failed_starts_are_errors(lab: Lab) {
    use ErrorKind as K;
    let made = lab.sandbox().await;
    let room = &made.instance;
    let with = |argv: &[&str], cwd: Option<&str>, user: Option<&str>| {
        let mut exec = Exec::new(argv.iter().copied());
        (exec.cwd, exec.user) = (cwd.map(String::from), user.map(String::from));
        exec
    };
    let table = [
        (with(&["no-such-program"], None, None), K::ProgramNotFound),
        (with(&["/no/such/program"], None, None), K::ProgramNotFound),
        (with(&["/etc/passwd"], None, None), K::StartFailed),
        (with(&["/etc"], None, None), K::StartFailed),
        (with(&["true"], Some("/no/such/place"), None), K::PathNotFound),
        (with(&["true"], Some("/etc/passwd"), None), K::NotADirectory),
        (with(&["true"], None, Some("nosuchuser")), K::InvalidArgument),
        (with(&["true", &"x".repeat(200_000)], None, None), K::ArgumentTooLarge),
    ];
    for (exec, kind) in table {
        let (found, error) = refusal(room, &exec).await;
        assert_eq!(found, kind, "{:?}: {error:?}", exec.argv[0]);
        // The control: the sandbox is of use all the same.
        assert_eq!(run(room, &with(&["true"], Some("/tmp"), Some("app"))).await.unwrap().code, Some(0));
    }
    let almost = run(room, &with(&["echo", &"x".repeat(131_071)], None, None)).await.unwrap();
    assert_eq!(almost.stdout.len(), 131_072);
    lab.destroy(made).await;
}

pub(crate) async fn text_of_the_engine_stays_output(lab: Lab) {
    let made = lab.sandbox().await;
    for code in [0, 126, 127] {
        let text = "OCI runtime exec failed: exec failed: unable to start container process: exec: \"x\": no such file or directory";
        let ran = run(&made.instance, &sh(&format!("echo '{text}'; echo 'unable to find user x' >&2; exit {code}")))
            .await
            .unwrap();
        assert_eq!((ran.text().trim(), ran.code), (text, Some(code)));
        assert_eq!(ran.stderr, b"unable to find user x\n");
    }
    lab.destroy(made).await;
}

pub(crate) async fn output_is_exact(lab: Lab) {
    let made = lab.sandbox().await;
    let all: Vec<u8> = (0..=255).cycle().take(256 * 4096).collect();
    let exec = with_input(sh("tee /dev/stderr"), all.clone());
    let ran = run(&made.instance, &exec).await.unwrap();
    assert_eq!(ran.code, Some(0));
    assert!(ran.stdout == all && ran.stderr == all, "{} and {} bytes", ran.stdout.len(), ran.stderr.len());
    let ran = run(&made.instance, &sh("i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done")).await.unwrap();
    let lines: Vec<usize> = ran.text().lines().map(|line| line.parse().unwrap()).collect();
    assert!(lines.into_iter().eq(0..2000));
    let argv = ["printf", "%s|", "a b", "$HOME", "`x`", "", "é\n", "'\"", "-n"];
    let ran = run(&made.instance, &Exec::new(argv)).await.unwrap();
    assert_eq!(ran.text(), "a b|$HOME|`x`||é\n|'\"|-n|");
    lab.destroy(made).await;
}

pub(crate) async fn a_slow_reader_loses_nothing(lab: Lab) {
    let made = lab.sandbox().await;
    const BYTES: usize = 3_000_000;
    let exec = sh(&format!("head -c {BYTES} /dev/zero; exit 9"));
    let (_control, mut events) = made.instance.spawn(&exec).await.unwrap();
    let mut ran = Ran::default();
    assert!(collect(&mut ran, &mut events).await.unwrap());
    tokio::time::sleep(Duration::from_secs(5)).await;
    // Others go on meanwhile.
    assert_eq!(out(&made.instance, "echo beside").await, "beside");
    while collect(&mut ran, &mut events).await.unwrap() {}
    assert_eq!((ran.stdout.len(), ran.code, ran.after_the_end), (BYTES, Some(9), 0));
    lab.destroy(made).await;
}

pub(crate) async fn codes_of_programs(lab: Lab) {
    let made = lab.sandbox().await;
    for code in [0, 1, 3, 126, 127, 255] {
        assert_eq!(run(&made.instance, &sh(&format!("exit {code}"))).await.unwrap().code, Some(code));
    }
    assert_eq!(run(&made.instance, &sh("kill -KILL $$")).await.unwrap().code, Some(137));
    lab.destroy(made).await;
}

pub(crate) async fn a_dying_container_is_no_exit(lab: Lab) {
    let made = lab.sandbox().await;
    let (_control, mut events) = made.instance.spawn(&sh("echo begun; sleep 100")).await.unwrap();
    let mut ran = Ran::default();
    assert!(collect(&mut ran, &mut events).await.unwrap());
    let options = KillContainerOptionsBuilder::default().signal("KILL").build();
    lab.docker.kill_container(made.id.as_str(), Some(options)).await.unwrap();
    let error = loop {
        match collect(&mut ran, &mut events).await {
            Ok(going_on) => assert!(going_on && ran.code.is_none(), "{ran:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::Gone, true), "{error:?}");
    // The control: what comes after never ran.
    let late = run(&made.instance, &sh("true")).await.unwrap_err();
    assert_eq!((late.kind(), late.may_have_applied()), (ErrorKind::Gone, false), "{late:?}");
    lab.destroy(made).await;
}

pub(crate) async fn input_whole(lab: Lab) {
    let made = lab.sandbox().await;
    for size in [0, 1, 20_000_000] {
        let ran = run(&made.instance, &with_input(sh("wc -c"), vec![7; size])).await.unwrap();
        assert_eq!(ran.text().trim(), size.to_string());
    }
    assert_eq!(run(&made.instance, &sh("wc -c")).await.unwrap().text().trim(), "0", "no input is an empty one");
    lab.destroy(made).await;
}

pub(crate) async fn input_piece_by_piece(lab: Lab) {
    let made = lab.sandbox().await;
    let exec = piped(sh("while read line; do echo \"got $line\"; done; echo end; sleep 1; echo late"));
    let (control, mut events) = made.instance.spawn(&exec).await.unwrap();
    for word in ["one", "two"] {
        write(&control, &format!("{word}\n")).await;
        let Some(Event::Stdout(bytes)) = events.next().await.unwrap() else { panic!("no answer to {word}") };
        assert_eq!(bytes, format!("got {word}\n"));
    }
    control.close_stdin().await.unwrap();
    control.close_stdin().await.unwrap();
    let mut ran = Ran::default();
    while collect(&mut ran, &mut events).await.unwrap() {}
    assert_eq!((ran.text().as_str(), ran.code), ("end\nlate\n", Some(0)), "output goes on after the input's end");
    let late = control.write("x".into()).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::ConnectionLost);

    // The program's pace is the writer's.
    let (control, mut events) = made.instance.spawn(&piped(sh("sleep 3; wc -c"))).await.unwrap();
    let began = Instant::now();
    control.write(vec![0; 30_000_000].into()).await.unwrap();
    assert!(began.elapsed() > Duration::from_secs(1), "30 MB were taken before anybody read them");
    control.close_stdin().await.unwrap();
    let mut ran = Ran::default();
    while collect(&mut ran, &mut events).await.unwrap() {}
    assert_eq!(ran.text().trim(), "30000000");
    lab.destroy(made).await;
}

pub(crate) async fn input_that_nobody_reads(lab: Lab) {
    let made = lab.sandbox().await;
    let ran = run(&made.instance, &with_input(sh("exit 4"), vec![0; 50 << 20])).await.unwrap();
    assert_eq!(ran.code, Some(4));
    let (control, mut events) = made.instance.spawn(&piped(sh("exit 5"))).await.unwrap();
    let mut ran = Ran::default();
    while collect(&mut ran, &mut events).await.unwrap() {}
    assert_eq!(ran.code, Some(5));
    let mut refused = None;
    for _ in 0..64 {
        refused = control.write(vec![0; 1 << 20].into()).await.err();
        if refused.is_some() {
            break;
        }
    }
    assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::ConnectionLost));
    lab.destroy(made).await;
}

pub(crate) async fn a_background_child_does_not_hold_the_end(lab: Lab) {
    let made = lab.sandbox().await;
    let exec = sh("sleep 60 & echo $!; head -c 200000 /dev/zero; exit 3");
    let began = Instant::now();
    let (_control, mut events) = made.instance.spawn(&exec).await.unwrap();
    let mut ran = Ran::default();
    while ran.code.is_none() {
        assert!(collect(&mut ran, &mut events).await.unwrap());
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(ran.code, Some(3));
    let text = String::from_utf8_lossy(&ran.stdout);
    let (child, zeros) = text.split_once('\n').unwrap();
    assert_eq!(zeros.len(), 200_000, "all that the program wrote comes before its end");
    drop(events);
    assert_eq!(out(&made.instance, &format!("kill -0 {child} && echo alive")).await, "alive");
    lab.destroy(made).await;
}

pub(crate) async fn a_background_flood_does_not_hold_the_end(lab: Lab) {
    let made = lab.sandbox().await;
    let exec = sh("(i=0; while [ $i -lt 600 ]; do echo flood; sleep 0.05; i=$((i+1)); done) & echo mine; exit 6");
    let began = Instant::now();
    let (_control, mut events) = made.instance.spawn(&exec).await.unwrap();
    let mut ran = Ran::default();
    while ran.code.is_none() {
        assert!(collect(&mut ran, &mut events).await.unwrap());
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(ran.code, Some(6));
    assert!(ran.text().contains("mine\n"), "{}", ran.text());
    while collect(&mut ran, &mut events).await.unwrap() {}
    assert!(ran.text().contains("flood\n"));
    lab.destroy(made).await;
}

pub(crate) async fn a_program_that_closes_its_output(lab: Lab) {
    let made = lab.sandbox().await;
    let began = Instant::now();
    let ran = run(&made.instance, &sh("echo first; exec >&- 2>&-; sleep 2; exit 8")).await.unwrap();
    assert_eq!((ran.text().as_str(), ran.code), ("first\n", Some(8)));
    assert!(began.elapsed() > Duration::from_secs(1), "its end is not that of its output");
    lab.destroy(made).await;
}

pub(crate) async fn many_at_once(lab: Lab) {
    let made = lab.sandbox().await;
    let scripts: Vec<_> = (0..16).map(|i| (i, sh(&format!("echo {i}; echo e{i} >&2; exit {i}")))).collect();
    let all = futures_util::future::join_all(scripts.iter().map(async |(i, exec)| {
        let ran = run(&made.instance, exec).await.unwrap();
        assert_eq!((ran.text(), ran.stderr, ran.code), (format!("{i}\n"), format!("e{i}\n").into_bytes(), Some(*i)));
    }));
    assert_eq!(all.await.len(), 16);
    lab.destroy(made).await;
}
