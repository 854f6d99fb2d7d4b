//! `connect`, `datagram`, `resolve`, `serve`, `addresses`.

use super::{Proc, Set, complain, usage};
use std::io;

pub(super) fn add(set: &mut Set) {
    set.add("connect", |p| async move {
        let Some((host, port)) = target(&p) else { return usage(&p, "connect HOST PORT").await };
        match listen_to(&p, host, port).await {
            Ok(()) => 0,
            Err(error) => complain(&p, &error.to_string()).await,
        }
    });
    set.add("datagram", |p| async move {
        let Some((host, port)) = target(&p) else { return usage(&p, "datagram HOST PORT").await };
        match p.datagram(host, port) {
            Ok(answer) => {
                p.print(&answer).await;
                0
            }
            Err(error) => complain(&p, &error.to_string()).await,
        }
    });
    set.add("resolve", |p| async move {
        let Some(host) = p.arg(1) else { return usage(&p, "resolve HOST").await };
        match p.resolve(host) {
            Ok(all) => {
                p.print(all.iter().map(|address| format!("{address}\n")).collect::<String>()).await;
                0
            }
            Err(error) => complain(&p, &error.to_string()).await,
        }
    });
    set.add("serve", |p| async move {
        let (Some(port), Some(text)) = (p.arg(1).and_then(|port| port.parse().ok()), p.arg(2)) else {
            return usage(&p, "serve PORT TEXT").await;
        };
        let listener = match p.listen(port) {
            Ok(listener) => listener,
            Err(error) => return complain(&p, &error.to_string()).await,
        };
        loop {
            // Whoever has left already is no affair of ours.
            let _ = listener.accept().await.write(format!("{text}\n")).await;
        }
    });
    set.add("addresses", |p| async move {
        p.print(p.addresses().iter().map(|address| format!("{address}\n")).collect::<String>()).await;
        0
    });
}

fn target(p: &Proc) -> Option<(&str, u16)> {
    Some((p.arg(1)?, p.arg(2)?.parse().ok()?))
}

/// Writes what the other side says, until it has said all.
async fn listen_to(p: &Proc, host: &str, port: u16) -> io::Result<()> {
    let stream = p.dial(host, port)?;
    stream.finish();
    loop {
        let piece = stream.read().await?;
        if piece.is_empty() {
            return Ok(());
        }
        p.write(piece).await?;
    }
}
