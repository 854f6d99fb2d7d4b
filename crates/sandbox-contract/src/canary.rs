//! Something that answers, so that a denial is told from a probe that cannot work at all.

use std::{
    any::Any,
    fmt,
    io::{self, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A way out of a sandbox that a canary can sit at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reach {
    /// TCP to an IPv6 address.
    Ipv6,
    /// UDP: it answers any question of a name server's clients with the address that it `says`.
    Udp,
    /// A lookup through the sandbox's own resolver: `host` is a domain whose name server counts every question about it and
    /// about names below it, and answers with the address that it `says`.
    Lookup,
    /// The address of the cloud's metadata service, 169.254.169.254.
    Metadata,
    /// The host that the sandbox runs on, as the sandbox sees it.
    Gateway,
    /// TCP to something that says its words again and again, until it is cut.
    Talk,
}

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

    /// A name server on this host over UDP, for [`Reach::Udp`]. It answers everything with one address of a network that is kept
    /// for documentation.
    ///
    /// # Errors
    ///
    /// Those of binding the address.
    pub fn listen_udp(address: IpAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((address, 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
        let at = socket.local_addr()?;
        // Fits: a byte.
        let says = Ipv4Addr::new(203, 0, 113, (std::process::id() % 250 + 1) as u8);
        let (hits, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, over) = (Arc::clone(&hits), Arc::clone(&stop));
        let thread = thread::Builder::new().name("contract-canary".into()).spawn(move || {
            let mut asked = [0; 512];
            while !over.load(Ordering::SeqCst) {
                let Ok((length, from)) = socket.recv_from(&mut asked) else { continue };
                counter.fetch_add(1, Ordering::SeqCst);
                if let Some(answer) = answered(&asked[..length], says) {
                    // A client that has left already is no affair of ours.
                    _ = socket.send_to(&answer, from);
                }
            }
        })?;
        let guard = Answering { stop, thread: Some(thread) };
        Ok(Self::new(at.ip().to_string(), at.port(), says.to_string(), move || hits.load(Ordering::SeqCst), guard))
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

/// The question again, with one address for an answer.
fn answered(question: &[u8], address: Ipv4Addr) -> Option<Vec<u8>> {
    let (head, rest) = question.split_at_checked(12)?;
    let name = rest.iter().position(|byte| *byte == 0)? + 5;
    let mut answer = head[..2].to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    answer.extend(rest.get(..name)?);
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    answer.extend(address.octets());
    Some(answer)
}

struct Answering {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
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
    use std::io::Read;

    #[test]
    fn the_name_server_answers_counts_and_ends() {
        let canary = Canary::listen_udp(Ipv4Addr::LOCALHOST.into()).unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let question = [&[7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0], &b"\x01a\x00\x00\x01\x00\x01"[..]].concat();
        socket.send_to(&question, (&*canary.host, canary.port)).unwrap();
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).unwrap();
        let said: Ipv4Addr = canary.says.parse().unwrap();
        assert!(answer[..2] == [7, 7] && answer[..length].ends_with(&said.octets()));
        assert_eq!(canary.hits(), 1);
    }

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
