//! What a program has of the network.

use super::Proc;
use crate::world::{Kernel, Side};
use bytes::Bytes;
use std::{
    fmt,
    future::poll_fn,
    io,
    net::IpAddr,
    sync::Arc,
    task::{Context, Poll, Waker},
};

impl Proc {
    /// Looks a name up, as the sandbox's policy allows. An address is its own answer.
    ///
    /// # Errors
    ///
    /// `NetworkUnreachable` where there is no network, `NotFound` for a name that has no address or may not be asked for.
    pub fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.kernel().with(|state, _| state.resolve(self.room(), host)).map(|all| all.into_iter().collect())
    }

    /// The sandbox's own addresses.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.kernel()
            .with(|state, _| state.room(self.room()).map(|room| room.link.addresses().to_vec()))
            .unwrap_or_default()
    }

    /// Connects to a host, by name or address: what was registered with [`Fake::host`](crate::Fake::host), another sandbox, or
    /// itself.
    ///
    /// # Errors
    ///
    /// Those of [`resolve`](Self::resolve); `NetworkUnreachable` where the policy forbids it, `HostUnreachable` for an address
    /// that nobody has, `ConnectionRefused` for a port where nobody listens.
    pub fn dial(&self, host: &str, port: u16) -> io::Result<Stream> {
        let connection = self.kernel().with(|state, after| state.dial(self.room(), host, port, after))?;
        Ok(Stream::new(self.kernel(), connection, Side::Client))
    }

    /// Connects to a host and answers what it says at once.
    ///
    /// # Errors
    ///
    /// Those of [`dial`](Self::dial).
    pub fn connect(&self, host: &str, port: u16) -> io::Result<Bytes> {
        let stream = self.dial(host, port)?;
        match stream.poll_read(&Context::from_waker(Waker::noop())) {
            Poll::Ready(said) => said,
            Poll::Pending => Ok(Bytes::new()),
        }
    }

    /// Sends a datagram to a host and answers what comes back: what was registered with
    /// [`Fake::datagram`](crate::Fake::datagram).
    ///
    /// # Errors
    ///
    /// Those of [`dial`](Self::dial); `TimedOut` where nobody answers.
    pub fn datagram(&self, host: &str, port: u16) -> io::Result<Bytes> {
        self.kernel().with(|state, _| state.datagram(self.room(), host, port))
    }

    /// Listens at a port of the sandbox, until the listener is dropped.
    ///
    /// # Errors
    ///
    /// `AddrInUse`.
    pub fn listen(&self, port: u16) -> io::Result<Listener> {
        self.kernel().with(|state, _| state.listen(self.room(), port))?;
        Ok(Listener { kernel: Arc::clone(self.kernel()), room: self.room(), port })
    }
}

/// An open port of a sandbox.
pub struct Listener {
    kernel: Arc<Kernel>,
    room: u64,
    port: u16,
}

impl Listener {
    /// The next who connects.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn accept(&self) -> Stream {
        let next = poll_fn(|cx| self.kernel.with(|state, _| state.poll_accept(self.room, self.port, cx)));
        Stream::new(&self.kernel, next.await, Side::Server)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.kernel.with(|state, after| state.stop_listening(self.room, self.port, after));
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("port", &self.port).finish_non_exhaustive()
    }
}

/// One end of a connection. Dropping it closes it.
pub struct Stream {
    kernel: Arc<Kernel>,
    connection: u64,
    side: Side,
}

impl Stream {
    pub(crate) fn new(kernel: &Arc<Kernel>, connection: u64, side: Side) -> Self {
        Self { kernel: Arc::clone(kernel), connection, side }
    }

    /// Reads a piece; an empty one is the end.
    ///
    /// # Errors
    ///
    /// `ConnectionReset` where it was cut.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn read(&self) -> io::Result<Bytes> {
        poll_fn(|cx| self.poll_read(cx)).await
    }

    /// Writes, at the pace of whoever reads.
    ///
    /// # Errors
    ///
    /// `ConnectionReset` where it was cut, or where nobody reads any more; `BrokenPipe` after [`finish`](Self::finish).
    pub async fn write(&self, data: impl Into<Bytes>) -> io::Result<()> {
        let mut data = data.into();
        let sent =
            |state: &mut crate::world::State, after: &mut crate::world::After, cx: &Context<'_>, data: &mut Bytes| {
                state.poll_send(self.connection, self.side, data, cx, after)
            };
        poll_fn(|cx| self.kernel.with(|state, after| sent(state, after, cx, &mut data))).await
    }

    /// Says that no more will be written.
    pub fn finish(&self) {
        self.kernel.with(|state, after| state.finish_sending(self.connection, self.side, after));
    }

    /// Resolves once nothing that is written is read any more.
    pub(crate) async fn unheard(&self) {
        poll_fn(|cx| self.kernel.with(|state, _| state.poll_unheard(self.connection, self.side, cx))).await;
    }

    /// Cuts it, for both ends.
    pub(crate) fn reset(&self) {
        self.kernel.with(|state, after| state.reset(self.connection, after));
    }

    fn poll_read(&self, cx: &Context<'_>) -> Poll<io::Result<Bytes>> {
        self.kernel.with(|state, after| state.poll_receive(self.connection, self.side, cx, after))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.kernel.with(|state, after| state.hang_up(self.connection, self.side, after));
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("connection", &self.connection).finish_non_exhaustive()
    }
}
