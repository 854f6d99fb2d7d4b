//! Something that answers, so that a denial is told from a probe that cannot work at all.

use std::{
    any::Any,
    fmt,
    io::{self, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A TCP service that a sandbox with an open network reaches, and one without does not.
pub struct Canary {
    /// Its address, as a sandbox writes it.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// A name for the same host, where sandboxes can resolve one.
    pub name: Option<String>,
    /// What it answers to every connection; nothing else in the world answers this.
    pub says: String,
    hits: Arc<dyn Fn() -> usize + Send + Sync>,
    _guard: Box<dyn Any + Send>,
}

impl Canary {
    /// A service of the caller's; `hits` counts the connections that it took, `guard` keeps it up until it is dropped.
    pub fn new(
        host: impl Into<String>,
        port: u16,
        says: impl Into<String>,
        hits: impl Fn() -> usize + Send + Sync + 'static,
        guard: impl Any + Send,
    ) -> Self {
        Self { host: host.into(), port, name: None, says: says.into(), hits: Arc::new(hits), _guard: Box::new(guard) }
    }

    /// A service on this host, for sandboxes that reach it under this address of its interfaces.
    ///
    /// # Errors
    ///
    /// Those of binding the address.
    pub fn listen(address: IpAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((address, 0))?;
        let at = listener.local_addr()?;
        let nonce = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let says = format!("canary-{nonce:x}-{}", std::process::id());
        let (hits, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (answer, counter, over) = (says.clone(), Arc::clone(&hits), Arc::clone(&stop));
        let thread = thread::Builder::new().name("contract-canary".into()).spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(stream) = stream {
                    counter.fetch_add(1, Ordering::SeqCst);
                    // A client that has left already is no affair of ours.
                    _ = serve(stream, &answer);
                }
            }
        })?;
        let guard = Listening { at, stop, thread: Some(thread) };
        Ok(Self::new(at.ip().to_string(), at.port(), says, move || hits.load(Ordering::SeqCst), guard))
    }

    /// Adds a name that sandboxes resolve to it.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How many connections it has taken.
    pub fn hits(&self) -> usize {
        (self.hits)()
    }
}

impl fmt::Debug for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canary")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("name", &self.name)
            .field("hits", &self.hits())
            .finish_non_exhaustive()
    }
}

fn serve(mut stream: TcpStream, answer: &str) -> io::Result<()> {
    stream.set_write_timeout(Some(Duration::from_secs(2)))?;
    writeln!(stream, "{answer}")?;
    stream.shutdown(std::net::Shutdown::Write)
}

struct Listening {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // A last connection wakes the accept; without one the thread stays, and joining it would wait for ever.
        if TcpStream::connect_timeout(&self.at, Duration::from_secs(2)).is_ok() {
            if let Some(thread) = self.thread.take() {
                _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Read, net::Ipv4Addr};

    #[test]
    fn it_answers_counts_and_ends() {
        let canary = Canary::listen(Ipv4Addr::LOCALHOST.into()).unwrap();
        let at = SocketAddr::new(canary.host.parse().unwrap(), canary.port);
        let mut heard = String::new();
        TcpStream::connect(at).unwrap().read_to_string(&mut heard).unwrap();
        assert_eq!((heard.trim(), canary.hits()), (&*canary.says, 1));
        drop(canary);
        assert!(TcpStream::connect(at).is_err());
    }
}
