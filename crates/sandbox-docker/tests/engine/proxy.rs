//! A connection to the engine that can be cut, and that tells what was asked.

use crate::lab::{Lab, Ran, collect, out, sh};
use sandbox_core::{ErrorKind, Instance};
use sandbox_docker::{Docker, Pull};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{UnixListener, UnixStream},
    sync::watch,
};

pub(crate) struct Proxy {
    pub(crate) address: String,
    cut: watch::Sender<u32>,
    /// The first line of each request: the adapter's client opens a connection for each.
    asked: Arc<Mutex<Vec<String>>>,
    _folder: tempfile::TempDir,
}

impl Proxy {
    pub(crate) fn new(lab: &Lab) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let (cut, cuts) = watch::channel(0);
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let lines = Arc::clone(&asked);
        let handle = lab.handle.clone();
        lab.handle.spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut cuts = cuts.clone();
                cuts.mark_unchanged();
                let lines = Arc::clone(&lines);
                handle.spawn(async move {
                    let Ok(mut far) = UnixStream::connect("/var/run/docker.sock").await else { return };
                    let passing = async {
                        let mut head = vec![0; 64 << 10];
                        let length = near.read(&mut head).await?;
                        let line =
                            String::from_utf8_lossy(&head[..length]).lines().next().unwrap_or_default().to_string();
                        lines.lock().unwrap().push(line);
                        far.write_all(&head[..length]).await?;
                        copy_bidirectional(&mut near, &mut far).await
                    };
                    tokio::select! {
                        _ = passing => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        Self { address: format!("unix://{}", path.display()), cut, asked, _folder: folder }
    }

    /// What was asked so far, as `METHOD /path HTTP/1.1`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Ends every connection that is open now.
    fn cut(&self) {
        self.cut.send_modify(|count| *count += 1);
    }
}

pub(crate) async fn a_cut_connection_is_no_exit(lab: Lab) {
    let proxy = Proxy::new(&lab);
    let plain = Docker::plain().pull(Pull::Never).host(&proxy.address);
    let made = lab.create_on(&plain, lab.spec()).await.unwrap();
    assert_eq!(out(&made.instance, "echo control").await, "control");
    let exec = sh("i=0; while [ $i -lt 40 ]; do echo $i; sleep 0.1; i=$((i+1)); done");
    let (_control, mut events) = made.instance.spawn(&exec).await.unwrap();
    let mut ran = Ran::default();
    assert!(collect(&mut ran, &mut events).await.unwrap());
    proxy.cut();
    let error = loop {
        match collect(&mut ran, &mut events).await {
            Ok(true) if ran.code.is_none() => {}
            Ok(_) => panic!("it ended with {:?} after a part of its output: {:?}", ran.code, ran.text()),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::ConnectionLost, true), "{error:?}");
    lab.destroy(made).await;
}

pub(crate) async fn gone_survives_a_cut_connection(lab: Lab) {
    let proxy = Proxy::new(&lab);
    let plain = Docker::plain().pull(Pull::Never).host(&proxy.address);
    let made = lab.create_on(&plain, lab.spec().lifetime(Duration::from_secs(6))).await.unwrap();
    let cutting = async {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(700)).await;
            proxy.cut();
        }
        std::future::pending::<()>().await;
    };
    let gone =
        async { tokio::time::timeout(Duration::from_secs(60), made.instance.gone()).await.expect("its lifetime ends") };
    let began = std::time::Instant::now();
    let gone = tokio::select! {
        gone = gone => gone,
        () = cutting => unreachable!("it never ends"),
    };
    assert_eq!(gone.kind(), ErrorKind::Gone);
    assert!(began.elapsed() > Duration::from_secs(3), "a cut is not an end: {gone}");
    lab.destroy(made).await;
}
