use super::*;
use crate::Fork;
use sandbox_core::{Cause, Control, Fate};

/// Leaves one of each kind: child, grandchild, other session, daemon, one that ignores TERM.
fn family() -> Fake {
    Fake::new().program("family", |p| async move {
        let marked =
            |line: &str| Fork::program(line.split(' ').chain([p.arg(1).unwrap_or("none")]).map(str::to_string));
        let children = [
            p.start(marked("hang")),
            p.start(marked("spawn-child hang")),
            p.start(marked("setsid hang")),
            p.start(marked("hang").session()),
            p.start(marked("ignore-term hang")),
            p.start(marked("daemon hang")),
            p.start(marked("hang").daemon().env([("A", "b")])),
        ];
        for child in children {
            if let Err(error) = child {
                p.eprint(error.to_string()).await;
                return 1;
            }
        }
        p.print("ready").await;
        p.hang().await;
        0
    })
}

async fn ready(events: &mut FakeEvents) {
    match events.next().await.unwrap() {
        Some(Event::Stdout(text)) => assert_eq!(text, "ready"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_kill_ends_the_whole_tree_and_nobody_else() {
    Lab::run(family(), |lab| async move {
        let made = lab.create(Spec::new()).await.unwrap();
        let sandbox = made.instance;
        let (control, mut events) = start(&sandbox, &exec("family one")).await;
        let (other, mut others) = start(&sandbox, &exec("family two")).await;
        ready(&mut events).await;
        ready(&mut others).await;
        // Time that passes lets each of them get to where it waits.
        let hanging =
            |mark: &str| names(&lab.fake, &made.id).iter().filter(|name| **name == format!("hang {mark}")).count();
        while hanging("one") < 7 || hanging("two") < 7 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(control.kill().await.unwrap(), Fate::Dead);
        assert_eq!((hanging("one"), hanging("two")), (0, 7));
        let all = All::of(&mut events).await;
        assert_eq!(all.ended, Some(Ended::new(Status::Signal(9), Cause::Killed)));
        assert_eq!(run(&sandbox, &exec("echo x")).await.text(), "x\n");
        other.kill().await.unwrap();
        assert!(names(&lab.fake, &made.id).is_empty());
        assert_eq!(control.kill().await.unwrap(), Fate::Dead, "again");
    });
}

#[test]
fn daemons_have_no_parent_and_live_on() {
    Lab::run(Fake::new(), |lab| async move {
        let made = lab.create(Spec::new()).await.unwrap();
        let sandbox = made.instance;
        let all = run(&sandbox, &exec("daemon hang marker")).await;
        assert_eq!(all.status(), Status::Code(0));
        let [daemon] = &lab.fake.world().processes(&made.id)[..] else { panic!("not one process") };
        assert_eq!((daemon.parent, daemon.session), (1, daemon.pid));
        let mut alive = exec("alive");
        alive.env = vec![("MARK".into(), "marker".into())];
        assert_eq!(run(&sandbox, &alive).await.text(), "1\n");
        lab.fake.destroy(&made.id).await.unwrap();
        assert_eq!(lab.fake.world().processes(&made.id), []);
    });
}

#[test]
fn survivors_write_after_the_end() {
    let fake = Fake::new().program("leave", |p| async move {
        p.print("mine;").await;
        let child = Fork::closure(["late"], |p| async move {
            p.sleep(Duration::from_secs(1)).await;
            p.print("late").await;
            0
        });
        i32::from(p.start(child).is_err())
    });
    Lab::run(fake, |lab| async move {
        let all = run(&lab.sandbox().await, &exec("leave")).await;
        assert_eq!((all.text(), all.late, all.status()), ("mine;late", 4, Status::Code(0)));
    });
}

#[test]
fn pipes_between_processes() {
    let fake = Fake::new().program("twice", |p| async move {
        let Ok(yes) = p.start(Fork::program(["yes", "a"]).piped()) else { return 1 };
        let first = yes.read().await;
        let pid = yes.pid();
        p.print(format!("{} ", first.len() > 100)).await;
        p.kill(pid, 15);
        p.print(format!("{:?}", yes.wait().await)).await;
        let Ok(echo) = p.start(Fork::program(["echo", "b"]).piped()) else { return 1 };
        p.print(echo.read_to_end().await).await;
        // Nobody reads: it dies of that.
        let Ok(yes) = p.start(Fork::program(["yes"]).piped()) else { return 1 };
        let closed = yes.pid();
        drop(yes);
        while p.kill(closed, 0) {
            p.give_way().await;
        }
        0
    });
    Lab::run(fake, |lab| async move {
        let all = run(&lab.sandbox().await, &exec("twice")).await;
        assert_eq!((all.text(), all.status()), ("true Signal(15)b\n", Status::Code(0)));
    });
}

#[test]
fn sandboxes_see_none_of_each_other() {
    Lab::run(Fake::new(), |lab| async move {
        let (one, two) = (lab.sandbox().await, lab.sandbox().await);
        let (_control, _events) = start(&one, &exec("hang secret")).await;
        run(&one, &exec("touch /tmp/one")).await;
        assert_eq!(run(&one, &exec("ls /tmp")).await.text(), "one\n");
        assert_eq!(run(&two, &exec("ls /tmp")).await.text(), "");
        assert!(!run(&two, &exec("ps")).await.text().contains("secret"));
        assert!(run(&one, &exec("ps")).await.text().contains("hang secret"));
    });
}

#[test]
fn many_at_once_do_not_mix() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = Arc::new(lab.sandbox().await);
        let mut all = tokio::task::JoinSet::new();
        for number in 0..64 {
            let sandbox = Arc::clone(&sandbox);
            all.spawn(async move { (number, run(&sandbox, &exec(&format!("echo {number}"))).await) });
        }
        while let Some(done) = all.join_next().await {
            let (number, all) = done.unwrap();
            assert_eq!(all.text(), format!("{number}\n"));
        }
    });
}

#[test]
fn zombies_stay_until_somebody_waits() {
    let fake = Fake::new().program("parent", |p| async move {
        let (Ok(child), Ok(_forgotten)) = (p.start(Fork::program(["true"])), p.start(Fork::program(["true"]))) else {
            return 1;
        };
        p.sleep(Duration::from_secs(1)).await;
        for _ in 0..2 {
            let Ok(zombies) = p.start(Fork::program(["zombies"])) else { return 1 };
            zombies.wait().await;
            child.wait().await;
        }
        0
    });
    Lab::run(fake, |lab| async move {
        let sandbox = lab.sandbox().await;
        assert_eq!(run(&sandbox, &exec("parent")).await.text(), "2\n1\n");
        assert_eq!(run(&sandbox, &exec("zombies")).await.text(), "0\n");
    });
}
