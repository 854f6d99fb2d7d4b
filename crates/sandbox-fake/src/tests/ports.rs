use super::*;
use crate::Proc;
use sandbox_core::{Capability, ErrorKind, Extend, OpenPort, Pause, Resume, Stop};
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

const PORT: u16 = 8080;

/// A program that serves at the port, for one who comes, and says what it made of him.
fn serving<F: Future<Output = String> + Send + 'static>(
    serve: impl Fn(crate::Stream) -> F + Send + Sync + Clone + 'static,
) -> Fake {
    Fake::new().program("serve-one", move |p: Proc| {
        let serve = serve.clone();
        async move {
            let listener = p.listen(PORT).unwrap();
            p.print(serve(listener.accept().await).await).await;
            0
        }
    })
}

/// Connects to the port from outside, on a thread that may block; then it is done with.
async fn outside(sandbox: &FakeSandbox, visit: impl FnOnce(TcpStream) + Send + 'static) {
    let at = sandbox.open_port(&OpenPort::new(PORT)).await.unwrap();
    let visited = tokio::task::spawn_blocking(move || {
        let stream = TcpStream::connect((at.host, at.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        visit(stream);
    });
    visited.await.unwrap();
}

#[test]
fn who_leaves_without_a_word_is_noticed_inside() {
    let fake = serving(|stream| async move {
        stream.write("unread").await.unwrap();
        match stream.read().await {
            Ok(said) => format!("{} bytes", said.len()),
            Err(error) => format!("{:?}", error.kind()),
        }
    });
    Lab::run(fake, |lab| async move {
        for (unread, told) in [(true, "ConnectionReset"), (false, "0 bytes")] {
            let sandbox = lab.sandbox().await;
            let (_control, mut events) = start(&sandbox, &within("serve-one", 3600)).await;
            outside(&sandbox, move |mut stream| {
                // A socket that is closed with bytes nobody has read is reset, not ended.
                let mut word = [0; 6];
                if unread {
                    assert!(stream.peek(&mut word).unwrap() > 0);
                } else {
                    stream.read_exact(&mut word).unwrap();
                }
            })
            .await;
            let all = All::of(&mut events).await;
            assert_eq!((all.text(), all.status()), (told, Status::Code(0)));
        }
    });
}

#[test]
fn who_says_no_more_still_listens() {
    let fake = serving(|stream| async move {
        stream.write("bye").await.unwrap();
        stream.finish();
        let late = stream.write("more").await.unwrap_err().kind();
        let mut heard = Vec::new();
        loop {
            match stream.read().await {
                Ok(said) if said.is_empty() => break,
                Ok(said) => heard.extend(said),
                Err(error) => return format!("{:?}", error.kind()),
            }
        }
        format!("{late:?}, {}", String::from_utf8(heard).unwrap())
    });
    Lab::run(fake, |lab| async move {
        let sandbox = lab.sandbox().await;
        let (_control, mut events) = start(&sandbox, &within("serve-one", 3600)).await;
        outside(&sandbox, |mut stream| {
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            assert_eq!(said, "bye");
            // What would be cut is cut by then.
            std::thread::sleep(Duration::from_millis(200));
            stream.write_all(b"last words").unwrap();
        })
        .await;
        assert_eq!(All::of(&mut events).await.text(), "BrokenPipe, last words");
    });
}

#[test]
fn a_sandbox_takes_its_connections_with_it() {
    let fake = Fake::new().program("never-accepts", |p: Proc| async move {
        let _listener = p.listen(PORT).unwrap();
        p.print("listens\n").await;
        p.hang().await;
        0
    });
    Lab::run(fake, |lab| async move {
        let made = lab.create(Spec::new()).await.unwrap();
        let (_control, mut events) = start(&made.instance, &within("never-accepts", 3600)).await;
        events.next().await.unwrap();
        let at = made.instance.open_port(&OpenPort::new(PORT)).await.unwrap();
        let mut waiting = TcpStream::connect((at.host.as_str(), at.port)).unwrap();
        waiting.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let connections = || lab.fake.kernel().with(|state, _| state.connections());
        let until = Instant::now() + Duration::from_secs(20);
        while connections() == 0 {
            assert!(Instant::now() < until, "nobody is let in");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        lab.fake.destroy(&made.id).await.unwrap();
        let ended = tokio::task::spawn_blocking(move || waiting.read(&mut [0; 1]));
        assert!(!matches!(ended.await.unwrap(), Ok(1)));
        while connections() > 0 {
            assert!(Instant::now() < until, "{} are left", connections());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(TcpStream::connect((at.host.as_str(), at.port)).is_err());
        let error = made.instance.open_port(&OpenPort::new(PORT)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Gone);
    });
}

#[test]
fn a_port_is_opened_once_and_not_while_nothing_runs() {
    Lab::run(Fake::new(), |lab| async move {
        let sandbox = lab.sandbox().await;
        let request = OpenPort::new(PORT);
        let open = || sandbox.open_port(&request);
        let port = open().await.unwrap().port;
        assert_eq!(open().await.unwrap().port, port);
        sandbox.pause(&Pause::new()).await.unwrap();
        assert_eq!(open().await.unwrap_err().kind(), ErrorKind::WrongState);
        sandbox.resume(&Resume::new()).await.unwrap();
        assert_eq!(open().await.unwrap().port, port);
        sandbox.stop(&Stop::new()).await.unwrap();
        assert_eq!(open().await.unwrap_err().kind(), ErrorKind::WrongState);
    });
}

#[test]
fn an_extension_is_a_lifetime_only_where_there_are_lifetimes() {
    for (fake, left) in [(Fake::new(), 0), (Fake::new().absent(Capability::Lifetime, "not here"), 1)] {
        Lab::run(fake, |lab| async move {
            let sandbox = lab.sandbox().await;
            sandbox.pause(&Pause::new()).await.unwrap();
            sandbox.extend(&Extend::new(Duration::from_secs(5), 0)).await.unwrap();
            lab.fake.clock().unwrap().sleep(Duration::from_secs(10)).await;
            assert_eq!(lab.fake.world().count(), left);
        });
    }
}
