use super::*;
use crate::Fork;
use sandbox_core::{Cause, Control};
use std::time::Instant;

/// What takes no real time takes less than this, also on a busy machine.
const NO_TIME: Duration = Duration::from_secs(20);

fn seconds(fake: &Fake) -> u64 {
    fake.world().now().as_secs()
}

#[test]
fn an_hour_takes_no_time() {
    Lab::run(Fake::new(), |lab| async move {
        let (sandbox, began) = (lab.sandbox().await, Instant::now());
        assert_eq!(run(&sandbox, &within("sleep 3000", 3500)).await.status(), Status::Code(0));
        assert!(began.elapsed() < NO_TIME && (3000..3010).contains(&seconds(&lab.fake)), "{:?}", lab.fake);
    });
}

#[test]
fn sleeps_end_in_order() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        let (_two, mut two) = start(&sandbox, &exec("sleep 2")).await;
        let (_one, mut one) = start(&sandbox, &exec("sleep 1")).await;
        let order = Mutex::new(Vec::new());
        let wait = async |events: &mut FakeEvents, name| {
            All::of(events).await;
            order.lock().unwrap().push((name, lab.fake.world().now().as_secs()));
        };
        tokio::join!(wait(&mut two, "two"), wait(&mut one, "one"));
        let order = order.into_inner().unwrap();
        assert_eq!((order[0].0, order[1].0), ("one", "two"));
    });
}

#[test]
fn a_deadline_fires_on_its_second() {
    let fake = Fake::new().program("times", |p| async move {
        p.print(format!("{}", p.now().as_nanos())).await;
        p.sleep(Duration::from_secs(3600)).await;
        0
    });
    Lab::run(fake, |lab| async move {
        let (sandbox, real) = (lab.sandbox().await, Instant::now());
        let all = run(&sandbox, &within("times", 5)).await;
        assert_eq!(all.ended, Some(Ended::new(Status::Signal(9), Cause::Deadline)));
        let began: u64 = all.text().parse().unwrap();
        let elapsed = lab.fake.world().now() - Duration::from_nanos(began);
        assert!((Duration::from_secs(5)..Duration::from_millis(5100)).contains(&elapsed), "{elapsed:?}");
        assert!(real.elapsed() < NO_TIME);
        let (began, real) = (seconds(&lab.fake), Instant::now());
        assert_eq!(run(&sandbox, &within("hang", 3500)).await.ended.unwrap().cause, Cause::Deadline);
        assert!((3500..3510).contains(&(seconds(&lab.fake) - began)) && real.elapsed() < NO_TIME);
    });
}

#[test]
fn grace_sends_term_first() {
    let fake = Fake::new().program("slow-end", |p| async move {
        let term = p.catch(15);
        term.next().await;
        p.print(format!("TERM at {}", p.now().as_secs())).await;
        p.hang().await;
        0
    });
    Lab::run(fake, |lab| async move {
        let sandbox = lab.sandbox().await;
        let mut with = within("slow-end", 10);
        with.grace = Some(Duration::from_secs(3));
        let all = run(&sandbox, &with).await;
        assert_eq!(all.ended.unwrap().cause, Cause::Deadline);
        assert_eq!((all.text(), seconds(&lab.fake)), ("TERM at 7", 10));
    });
}

#[test]
fn a_program_that_waits_for_input_gets_its_deadline() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        let mut with = piped("cat");
        with.timeout = Duration::from_secs(100);
        let all = run(&sandbox, &with).await;
        assert_eq!(all.ended.unwrap().cause, Cause::Deadline);
    });
}

#[test]
fn time_waits_for_a_user_who_takes_a_moment() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        let (control, mut events) = start(&sandbox, &piped("cat")).await;
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            control.write("x".into()).await.unwrap();
        }
        control.close_stdin().await.unwrap();
        let all = All::of(&mut events).await;
        assert_eq!((all.text(), all.status()), ("xxxxx", Status::Code(0)));
        // The same while nothing waits for input.
        let (control, mut events) = start(&sandbox, &exec("hang")).await;
        tokio::time::sleep(Duration::from_millis(30)).await;
        control.kill().await.unwrap();
        assert_eq!(All::of(&mut events).await.ended.unwrap().cause, Cause::Killed);
        assert!(seconds(&lab.fake) < 60, "{:?}", lab.fake);
    });
}

#[test]
fn whoever_is_outside_can_wait_too() {
    Lab::run(Fake::new(), |lab| async move {
        let clock = lab.fake.clock().unwrap();
        let sandbox = lab.sandbox().await;
        let real = Instant::now();
        clock.sleep(Duration::from_secs(1000)).await;
        assert!(seconds(&lab.fake) >= 1000 && real.elapsed() < NO_TIME);
        clock.sleep(Duration::ZERO).await;
        drop(sandbox);
        clock.sleep(Duration::from_secs(1000)).await;
        assert!(seconds(&lab.fake) >= 2000, "without any sandbox");
        drop(clock.sleep(Duration::MAX));
    });
}

#[test]
fn nothing_moves_while_nobody_waits() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.create(Spec::new().lifetime(Duration::from_secs(1))).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!((lab.fake.world().now(), lab.fake.world().count()), (Duration::ZERO, 1));
        drop(sandbox);
        assert_eq!(lab.fake.world().count(), 0);
    });
}

#[test]
fn sleepers_that_never_end_do_not_let_time_run_away() {
    let fake = Fake::new().program("tick", |p| async move {
        loop {
            p.sleep(Duration::from_millis(100)).await;
        }
    });
    Lab::run(fake, |lab| async move {
        let sandbox = lab.sandbox().await;
        let (_control, _events) = start(&sandbox, &within("tick", 3000)).await;
        let real = Instant::now();
        tokio::time::sleep(Duration::from_millis(500)).await;
        // A tick of 5 ms moves it by 100 ms at most.
        let most = real.elapsed().as_millis() / 5 * 100 + 200;
        let now = lab.fake.world().now();
        assert!(now.as_millis() <= most && now > Duration::from_millis(500), "{now:?}");
    });
}

#[test]
fn a_program_that_computes_without_end_meets_its_deadline() {
    let fake = Fake::new().program("spin", |p| async move {
        loop {
            p.give_way().await;
        }
    });
    Lab::run(fake, |lab| async move {
        let sandbox = lab.sandbox().await;
        let all = run(&sandbox, &within("spin", 1)).await;
        assert_eq!(all.ended.unwrap().cause, Cause::Deadline);
    });
}

#[test]
fn children_sleep_beside_their_parents() {
    let fake = Fake::new().program("parent", |p| async move {
        let Ok(child) = p.start(Fork::program(["sleep", "100"])) else { return 1 };
        p.sleep(Duration::from_secs(50)).await;
        p.print(format!("{} ", p.now().as_secs())).await;
        child.wait().await;
        p.print(format!("{}", p.now().as_secs())).await;
        0
    });
    Lab::run(fake, |lab| async move {
        assert_eq!(run(&lab.sandbox().await, &exec("parent")).await.text(), "50 100");
    });
}

#[test]
fn the_clock_never_stalls_while_those_who_move_it_come_and_go() {
    Lab::run(Fake::new(), |lab| async move {
        let mut all = tokio::task::JoinSet::new();
        for number in 0..4_u64 {
            let lab = Arc::clone(&lab);
            all.spawn(async move {
                let clock = lab.fake.clock().unwrap();
                for turn in 0..60_u64 {
                    let sandbox = lab.sandbox().await;
                    let (_control, events) = start(&sandbox, &within("hang", 1 + turn % 3)).await;
                    let other = clock.sleep(Duration::from_millis(500 + 100 * number));
                    if turn % 2 == 0 {
                        assert_eq!(run(&sandbox, &exec("sleep 0.5")).await.status(), Status::Code(0));
                        drop(sandbox);
                        clock.sleep(Duration::from_millis(turn)).await;
                    }
                    other.await;
                    drop(events);
                }
            });
        }
        while let Some(done) = all.join_next().await {
            done.unwrap();
        }
    });
}
