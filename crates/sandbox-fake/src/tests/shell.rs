use super::*;
use bytes::Bytes;
use sandbox_core::{Cause, Control, Instance, ReadFile, WriteFile};
use std::time::Instant;

fn sh(text: &str) -> Exec {
    Exec::new(["/bin/sh", "-c", text])
}

async fn says(sandbox: &FakeSandbox, text: &str) -> String {
    let all = run(sandbox, &sh(text)).await;
    assert_eq!((all.status(), &*String::from_utf8_lossy(&all.stderr)), (Status::Code(0), ""), "{text}");
    all.text().to_string()
}

#[test]
fn speaks_the_language() {
    let own = |p: crate::Proc| async move {
        p.print("own\n").await;
        0
    };
    Lab::run(Fake::new().program("mine", own), |lab| async move {
        let sandbox = lab.create(Spec::new().env("A", "b c")).await.unwrap().instance;
        for (text, expected) in [
            ("echo \"$A\" | tr a-z A-Z && echo x >&1", "B C\nx\n"),
            ("cat <<E\n$((6 * 7))\nE", "42\n"),
            ("cd /tmp; echo hi >f; cat f; pwd", "hi\n/tmp\n"),
            ("for i in 1 2 3; do printf %s $i; done", "123"),
            ("false || echo no", "no\n"),
            ("x=$(echo in); echo $x", "in\n"),
            ("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo $i", "20000\n"),
            ("id -u; whoami", "0\nroot\n"),
            ("caps pids", "256\n"),
            ("caps | head -n 1", "cpu 1000\n"),
            ("/bin/echo a 'b  c'; sh -c 'echo $0' x; mine", "a b  c\nx\nown\n"),
            ("echo in | /bin/cat; /bin/false || echo $?", "in\n1\n"),
            ("nonesuch 2>/dev/null; echo $?", "127\n"),
        ] {
            assert_eq!(says(&sandbox, text).await, expected, "{text}");
        }
        assert_eq!(run(&sandbox, &sh("exit 7")).await.status(), Status::Code(7));
        let all = run(&sandbox, &Exec::new(["sh", "-c", r#"printf '%s|' "$0" "$@""#, "name", "a b", "", "c"])).await;
        assert_eq!(all.text(), "name|a b||c|");
        let all = run(&sandbox, &sh("echo out; echo err >&2; exit 3")).await;
        assert_eq!((all.text(), &*all.stderr, all.status()), ("out\n", &b"err\n"[..], Status::Code(3)));
        assert_eq!(run(&sandbox, &sh("if")).await.status(), Status::Code(2));
        let mut with = sh("read -r a; echo \"[$a]\"; cat");
        with.stdin = Stdin::Whole(Bytes::from_static(b"one\ntwo\n"));
        assert_eq!(run(&sandbox, &with).await.text(), "[one]\ntwo\n");
    });
}

#[test]
fn shares_the_files_and_their_permissions() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.create(Spec::new().user("app").cwd("/home/app")).await.unwrap().instance;
        sandbox.write_file(&WriteFile::new("/home/app/in"), Bytes::from_static(b"\0\xff").into()).await.unwrap();
        says(&sandbox, "mkdir d && cp in d/out && chmod 600 d/out && ln -s d l && mv in moved").await;
        let mut body = sandbox.read_file(&ReadFile::new("/home/app/l/out")).await.unwrap();
        assert_eq!(body.next().await.unwrap().unwrap(), &b"\0\xff"[..]);
        assert_eq!(says(&sandbox, "ls").await, "d\nl\nmoved\n");
        let all = run(&sandbox, &sh("echo x >/etc/passwd")).await;
        assert!(all.status() != Status::Code(0) && !all.stderr.is_empty());
        says(&sandbox, "echo '#!/bin/sh\necho from a script $1' >s; chmod +x s").await;
        assert_eq!(run(&sandbox, &exec("./s x")).await.text(), "from a script x\n");
        says(&sandbox, "rm -r d").await;
        says(&sandbox, "! [ -e d ]").await;
        says(&sandbox, "[ -L l ]").await;
        says(&sandbox, "rm l && ls").await;
    });
}

#[test]
fn sleeps_by_the_virtual_clock() {
    Lab::run(Fake::new(), |lab| async move {
        let (sandbox, real) = (lab.sandbox().await, Instant::now());
        let mut with = sh("sleep 1000; sleep 1000");
        with.timeout = Duration::from_secs(3000);
        assert_eq!(run(&sandbox, &with).await.status(), Status::Code(0));
        let now = lab.fake.world().now().as_secs();
        assert!((2000..2010).contains(&now) && real.elapsed() < Duration::from_secs(20), "{now}");
    });
}

#[test]
fn streams_and_is_held_back() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        let (control, mut events) = start(&sandbox, &sh("echo first; sleep 5; echo second; hang")).await;
        let mut seen = Vec::new();
        while seen != b"first\nsecond\n" {
            match events.next().await.unwrap() {
                Some(Event::Stdout(more)) => seen.extend(more),
                other => panic!("{other:?}"),
            }
        }
        control.kill().await.unwrap();
        assert_eq!(All::of(&mut events).await.ended.unwrap().cause, Cause::Killed);
        let all = run(
            &sandbox,
            &sh("i=0; while [ $i -lt 3000 ]; do echo 0123456789012345678901234567890123456789; i=$((i+1)); done"),
        )
        .await;
        assert_eq!((all.stdout.len(), all.status()), (3000 * 41, Status::Code(0)));
    });
}

/// Threads of this process that are shells.
fn shells() -> usize {
    let all = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = all.map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default());
    // The kernel keeps 15 bytes of a name.
    names.filter(|name| name.trim() == "sandbox-fake-sh").count()
}

#[test]
fn what_never_ends_is_ended() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        for text in
            ["while :; do :; done", "while :; do sleep 1; done", "hang", "sleep 100000", "/bin/yes >/dev/null | hang"]
        {
            let mut with = sh(text);
            with.timeout = Duration::from_secs(2);
            let all = run(&sandbox, &with).await;
            assert_eq!(all.ended, Some(Ended::new(Status::Signal(9), Cause::Deadline)), "{text}");
        }
        assert_eq!(says(&sandbox, "echo usable").await, "usable\n");
        let (control, mut events) = start(&sandbox, &sh("echo started; while :; do :; done")).await;
        assert!(matches!(events.next().await.unwrap(), Some(Event::Stdout(_))));
        assert!(shells() > 0, "the control: a shell that runs is seen");
        control.kill().await.unwrap();
        while shells() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn a_long_script_has_its_time() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        for script in ["x=1; y=$x\n".repeat(5_000), format!("echo {}1{}", "$(echo ".repeat(10), ")".repeat(10))] {
            // The deadline is inside, by the clock that would jump while the script is read.
            let mut with = sh(&script);
            with.timeout = Duration::from_secs(100);
            let all = run(&sandbox, &with).await;
            assert_eq!(all.status(), Status::Code(0), "{}", String::from_utf8_lossy(&all.stderr));
        }
        // The control: what waits is ended at once by the same clock.
        let begun = Instant::now();
        let mut with = sh("sleep 100000");
        with.timeout = Duration::from_secs(100);
        assert_eq!(run(&sandbox, &with).await.ended, Some(Ended::new(Status::Signal(9), Cause::Deadline)));
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    });
}
