//! Ports of a sandbox, reached from this host: a listener on its loopback, relayed into the sandbox.

use crate::program::Stream;
use crate::world::{Kernel, Side};
use bytes::Bytes;
use std::{
    fmt,
    future::Future,
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

/// A listener of this host. Dropped, it takes nobody any more; who is connected goes with the sandbox.
pub(crate) struct Relay {
    at: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Relay {
    /// Listens at a free port of the loopback, for a port of a sandbox.
    pub(crate) fn open(kernel: &Arc<Kernel>, room: u64, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let at = listener.local_addr()?;
        let over = Arc::new(AtomicBool::new(false));
        let (kernel, stop) = (Arc::clone(kernel), Arc::clone(&over));
        named(move || {
            for near in listener.incoming() {
                if stop.load(SeqCst) {
                    return;
                }
                if let Ok(near) = near {
                    serve(&kernel, room, port, near);
                }
            }
        })?;
        Ok(Self { at, over })
    }

    pub(crate) fn at(&self) -> SocketAddr {
        self.at
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        // A last connection wakes the accept.
        let _ = TcpStream::connect_timeout(&self.at, Duration::from_secs(2));
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Moves bytes both ways; where nobody listens inside, the connection is closed at once.
fn serve(kernel: &Arc<Kernel>, room: u64, port: u16, near: TcpStream) {
    kernel.stir();
    let Ok(connection) = kernel.with(|state, after| state.dial_in(room, port, after)) else { return };
    let far = Arc::new(Stream::new(kernel, connection, Side::Client));
    let (Ok(from), Ok(to)) = (near.try_clone(), near.try_clone()) else { return };
    let inward = named({
        let (kernel, far) = (Arc::clone(kernel), Arc::clone(&far));
        move || {
            // Who is gone without a word reads and writes no more: a program that waits for him must learn of it.
            if send(&kernel, from, &far).is_err() {
                far.reset();
            }
        }
    });
    let outward = named(move || {
        drop(receive(to, &far));
        // Whatever the other direction waits for, it is over.
        drop(near.shutdown(Shutdown::Both));
    });
    drop((inward, outward));
}

/// An error is that of the one outside.
fn send(kernel: &Arc<Kernel>, mut near: TcpStream, far: &Stream) -> io::Result<()> {
    let mut piece = vec![0; 16 << 10];
    loop {
        let length = {
            let _waiting = kernel.transfer();
            near.read(&mut piece)?
        };
        kernel.stir();
        if length == 0 {
            far.finish();
            return Ok(());
        }
        if block_on(far.write(Bytes::copy_from_slice(&piece[..length]))).is_err() {
            // Nobody inside listens; what is said there still goes out.
            return Ok(());
        }
    }
}

fn receive(mut near: TcpStream, far: &Stream) -> io::Result<()> {
    loop {
        let piece = block_on(far.read())?;
        if piece.is_empty() {
            near.shutdown(Shutdown::Write)?;
            // What says no more may go on listening.
            block_on(far.unheard());
            return Ok(());
        }
        near.write_all(&piece)?;
    }
}

fn named(work: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name("fake-port".into()).spawn(work)
}

/// On a thread that has nothing else to do.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
