//! The network of a world: names and services outside, sandboxes, and the connections between them.
//!
//! A sandbox asks one resolver, which goes by the sandbox's policy: what may not be looked up is asked of nobody. A connection
//! is made to an address, and judged by the names that this very sandbox has looked that address up by.

use super::{After, Pipe, State, Timer};
use bytes::Bytes;
use sandbox_core::{Destination, Error, NetworkPolicy};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// How long a service that talks is silent between two words.
const PAUSE: Duration = Duration::from_millis(200);
/// How much of that waits for who does not listen.
const UNHEARD: usize = 4096;
/// Where hosts get their addresses from whose registration names none.
const HOSTS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 0);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

/// Something outside that answers.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) answer: Bytes,
    /// Whether it says so again and again, until it is cut.
    pub(crate) talks: bool,
    hits: usize,
}

impl Service {
    pub(crate) fn new(answer: Bytes, talks: bool) -> Self {
        Self { answer, talks, hits: 0 }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Net {
    names: BTreeMap<String, BTreeSet<IpAddr>>,
    services: BTreeMap<(IpAddr, u16, Transport), Service>,
    /// Domains whose name server counts what it is asked.
    zones: BTreeMap<String, usize>,
    hosts: u32,
    connections: BTreeMap<u64, Connection>,
    last: u64,
}

impl Net {
    /// The addresses of a host, which gets one where it has none.
    pub(crate) fn addresses(&mut self, host: &str) -> BTreeSet<IpAddr> {
        if let Ok(address) = host.parse() {
            return [address].into();
        }
        let (hosts, name) = (&mut self.hosts, plain(host));
        let all = self.names.entry(name).or_insert_with(|| {
            *hosts += 1;
            [IpAddr::V4(Ipv4Addr::from_bits(HOSTS.to_bits() + *hosts))].into()
        });
        all.clone()
    }

    pub(crate) fn name(&mut self, name: &str, address: IpAddr) {
        self.names.entry(plain(name)).or_default().insert(address);
    }

    pub(crate) fn serve(&mut self, host: &str, port: u16, transport: Transport, answer: &Bytes, talks: bool) {
        for address in self.addresses(host) {
            self.services.insert((address, port, transport), Service::new(answer.clone(), talks));
        }
    }

    pub(crate) fn zone(&mut self, domain: &str) {
        self.zones.insert(plain(domain), 0);
    }

    pub(crate) fn lookups(&self, domain: &str) -> usize {
        self.zones.get(&plain(domain)).copied().unwrap_or_default()
    }

    pub(crate) fn hits(&self, host: &str, port: u16, transport: Transport) -> usize {
        let all = match host.parse() {
            Ok(address) => [address].into(),
            Err(_) => self.names.get(&plain(host)).cloned().unwrap_or_default(),
        };
        all.iter().filter_map(|address| self.services.get(&(*address, port, transport))).map(|one| one.hits).sum()
    }

    /// What the name servers outside say.
    fn ask(&mut self, name: &str) -> Option<BTreeSet<IpAddr>> {
        let mut found = self.names.get(name).cloned();
        for (domain, lookups) in &mut self.zones {
            if name.strip_suffix(domain.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')) {
                *lookups += 1;
                found.get_or_insert_with(|| [IpAddr::V4(HOSTS)].into());
            }
        }
        found
    }
}

/// What a sandbox has of the network.
#[derive(Debug)]
pub(crate) struct Link {
    policy: NetworkPolicy,
    addresses: [IpAddr; 2],
    /// The names that addresses were looked up by.
    known: BTreeMap<IpAddr, BTreeSet<String>>,
    seen: BTreeSet<Destination>,
    listeners: BTreeMap<u16, Listening>,
}

#[derive(Debug, Default)]
struct Listening {
    waiting: VecDeque<u64>,
    wakers: Vec<Waker>,
}

impl Link {
    pub(crate) fn new(room: u64, policy: NetworkPolicy) -> Self {
        // Fits: the low bits of a number that no world gets to.
        let low = (room as u32) & 0xff_ffff;
        let v4 = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() | low);
        let v6 = Ipv6Addr::from_bits(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0).to_bits() | u128::from(low));
        Self {
            policy,
            addresses: [v4.into(), v6.into()],
            known: BTreeMap::new(),
            seen: BTreeSet::new(),
            listeners: BTreeMap::new(),
        }
    }

    pub(crate) fn is_listening(&self, port: u16) -> bool {
        self.listeners.contains_key(&port)
    }

    pub(crate) fn addresses(&self) -> [IpAddr; 2] {
        self.addresses
    }

    pub(crate) fn policy(&self) -> &NetworkPolicy {
        &self.policy
    }

    pub(crate) fn destinations(&self) -> Vec<Destination> {
        self.seen.iter().cloned().collect()
    }

    /// Whether there is a network at all.
    fn is_up(&self) -> bool {
        match &self.policy {
            NetworkPolicy::Deny => false,
            NetworkPolicy::Allow(rules) => !rules.is_empty(),
            _ => true,
        }
    }

    fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.addresses.contains(&address)
    }

    fn allows(&self, address: IpAddr, port: u16) -> bool {
        let names = self.known.get(&address);
        self.is_own(address) || self.policy.allows(names.into_iter().flatten().map(String::as_str), address, port)
    }

    fn record(&mut self, address: IpAddr, port: u16) {
        if self.policy == NetworkPolicy::Learn && !self.is_own(address) {
            let names = self.known.get(&address).cloned().unwrap_or_default();
            let named = names.into_iter().map(Some).collect::<Vec<_>>();
            for name in if named.is_empty() { vec![None] } else { named } {
                self.seen.insert(Destination::reached(name, address, port));
            }
        }
    }
}

/// Bytes both ways between two who may each be a sandbox.
#[derive(Debug)]
struct Connection {
    client: Option<u64>,
    server: Option<u64>,
    to: (IpAddr, u16),
    /// To the server, and to the client.
    pipes: [Pipe; 2],
    cut: bool,
    open: [bool; 2],
}

/// Whose end of a connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

impl State {
    /// What a sandbox's resolver says.
    pub(crate) fn resolve(&mut self, room: u64, host: &str) -> io::Result<BTreeSet<IpAddr>> {
        if let Ok(address) = host.parse() {
            return Ok([address].into());
        }
        let name = plain(host);
        if let Some(beside) = self.service_named(room, &name) {
            return Ok(beside.into());
        }
        let link = &mut self.room(room).map_err(io::Error::other)?.link;
        if name == "localhost" {
            return Ok([IpAddr::V4(Ipv4Addr::LOCALHOST)].into());
        }
        if !link.is_up() {
            return Err(unreachable());
        }
        let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("{name}: no such host"));
        if !link.policy.resolves(&name) {
            return Err(unknown());
        }
        if link.policy == NetworkPolicy::Learn {
            link.seen.insert(Destination::name(&*name));
        }
        let found = self.net.ask(&name).ok_or_else(unknown)?;
        let link = &mut self.room(room).map_err(io::Error::other)?.link;
        for address in &found {
            link.known.entry(*address).or_default().insert(name.clone());
        }
        Ok(found)
    }

    /// Makes a connection; its number.
    pub(crate) fn dial(&mut self, room: u64, host: &str, port: u16, after: &mut After) -> io::Result<u64> {
        let mut last = unreachable();
        for address in self.resolve(room, host)? {
            match self.connect(Some(room), room, address, port, after) {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Makes a connection from outside to a port of a sandbox.
    pub(crate) fn dial_in(&mut self, room: u64, port: u16, after: &mut After) -> io::Result<u64> {
        self.connect(None, room, Ipv4Addr::LOCALHOST.into(), port, after)
    }

    fn connect(
        &mut self,
        client: Option<u64>,
        room: u64,
        address: IpAddr,
        port: u16,
        after: &mut After,
    ) -> io::Result<u64> {
        if let Some(kin) = self.kin_at(room, address) {
            return self.join(client, kin, (address, port), after);
        }
        let link = &mut self.room(room).map_err(io::Error::other)?.link;
        link.record(address, port);
        if !link.allows(address, port) {
            return Err(unreachable());
        }
        if link.is_own(address) {
            return self.join(client, room, (address, port), after);
        }
        if let Some(service) = self.net.services.get_mut(&(address, port, Transport::Tcp)) {
            service.hits += 1;
            let (answer, talks) = (service.answer.clone(), service.talks);
            let number = self.net.add(Connection::new(client, None, (address, port)));
            if let Some(connection) = self.net.connections.get_mut(&number) {
                connection.pipes[1].push(answer, after);
                if talks {
                    self.timers.set(PAUSE, Timer::Talk(number));
                    after.armed = true;
                } else {
                    connection.pipes[1].drop_writer(after);
                }
                connection.open[1] = false;
            }
            return Ok(number);
        }
        // Services are no neighbours: who does not belong to them does not reach them.
        let neighbour =
            self.sandboxes().find(|(_, other)| other.link.is_up() && other.link.addresses.contains(&address));
        if let Some(number) = neighbour.map(|(number, _)| *number) {
            return self.join(client, number, (address, port), after);
        }
        Err(if self.net.services.keys().any(|(known, ..)| *known == address) { refused() } else { no_route() })
    }

    /// A connection to whoever listens in a sandbox.
    fn join(&mut self, client: Option<u64>, server: u64, to: (IpAddr, u16), after: &mut After) -> io::Result<u64> {
        let number = self.net.last + 1;
        let room = self.room(server).map_err(io::Error::other)?;
        let listening = room.link.listeners.get_mut(&to.1).ok_or_else(refused)?;
        listening.waiting.push_back(number);
        after.wakers.append(&mut listening.wakers);
        Ok(self.net.add(Connection::new(client, Some(server), to)))
    }

    /// Sends a datagram, and takes the answer.
    pub(crate) fn datagram(&mut self, room: u64, host: &str, port: u16) -> io::Result<Bytes> {
        let mut last = unreachable();
        for address in self.resolve(room, host)? {
            let link = &mut self.room(room).map_err(io::Error::other)?.link;
            link.record(address, port);
            if !link.allows(address, port) {
                continue;
            }
            match self.net.services.get_mut(&(address, port, Transport::Udp)) {
                Some(service) => {
                    service.hits += 1;
                    return Ok(service.answer.clone());
                }
                None => last = io::Error::new(io::ErrorKind::TimedOut, "no answer"),
            }
        }
        Err(last)
    }

    /// How many connections there are.
    #[cfg(test)]
    pub(crate) fn connections(&self) -> usize {
        self.net.connections.len()
    }

    /// Opens a port inside.
    pub(crate) fn listen(&mut self, room: u64, port: u16) -> io::Result<()> {
        let link = &mut self.room(room).map_err(io::Error::other)?.link;
        if link.listeners.contains_key(&port) {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "address in use"));
        }
        link.listeners.insert(port, Listening::default());
        Ok(())
    }

    pub(crate) fn stop_listening(&mut self, room: u64, port: u16, after: &mut After) {
        let waiting = self.rooms.get_mut(&room).and_then(|room| room.link.listeners.remove(&port));
        for connection in waiting.into_iter().flat_map(|listening| listening.waiting) {
            self.hang_up(connection, Side::Server, after);
        }
    }

    pub(crate) fn poll_accept(&mut self, room: u64, port: u16, cx: &Context<'_>) -> Poll<u64> {
        let listening = self.rooms.get_mut(&room).and_then(|room| room.link.listeners.get_mut(&port));
        let Some(listening) = listening else { return Poll::Pending };
        match listening.waiting.pop_front() {
            Some(connection) => Poll::Ready(connection),
            None => {
                listening.wakers.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Reads a piece; an empty one is the end.
    pub(crate) fn poll_receive(
        &mut self,
        connection: u64,
        side: Side,
        cx: &Context<'_>,
        after: &mut After,
    ) -> Poll<io::Result<Bytes>> {
        let Some(connection) = self.net.connections.get_mut(&connection) else { return Poll::Ready(Ok(Bytes::new())) };
        if connection.cut {
            return Poll::Ready(Err(reset()));
        }
        connection.pipes[1 - side as usize].poll_read(64 << 10, None, cx, after).map(Ok)
    }

    pub(crate) fn poll_send(
        &mut self,
        connection: u64,
        side: Side,
        data: &mut Bytes,
        cx: &Context<'_>,
        after: &mut After,
    ) -> Poll<io::Result<()>> {
        let Some(connection) = self.net.connections.get_mut(&connection) else { return Poll::Ready(Err(reset())) };
        if connection.cut {
            return Poll::Ready(Err(reset()));
        }
        if !connection.pipes[side as usize].has_writers() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, "this end said that it sends no more")));
        }
        if connection.client.is_some() && connection.server.is_none() {
            return Poll::Ready(Ok(())); // Outside, nobody looks at it.
        }
        connection.pipes[side as usize].poll_write(data, cx, after).map_err(|_| reset())
    }

    /// Waits until nothing that is sent is read any more.
    pub(crate) fn poll_unheard(&mut self, connection: u64, side: Side, cx: &Context<'_>) -> Poll<()> {
        match self.net.connections.get_mut(&connection) {
            Some(connection) if !connection.cut => connection.pipes[side as usize].poll_no_readers(cx),
            _ => Poll::Ready(()),
        }
    }

    /// Cuts a connection, as one end does that goes without a word.
    pub(crate) fn reset(&mut self, connection: u64, after: &mut After) {
        if let Some(connection) = self.net.connections.get_mut(&connection) {
            connection.cut(after);
        }
    }

    /// Says that no more will be sent.
    pub(crate) fn finish_sending(&mut self, connection: u64, side: Side, after: &mut After) {
        if let Some(connection) = self.net.connections.get_mut(&connection) {
            let pipe = &mut connection.pipes[side as usize];
            if pipe.has_writers() {
                pipe.drop_writer(after);
            }
        }
    }

    /// Closes one end.
    pub(crate) fn hang_up(&mut self, number: u64, side: Side, after: &mut After) {
        self.finish_sending(number, side, after);
        let Some(connection) = self.net.connections.get_mut(&number) else { return };
        let pipe = &mut connection.pipes[1 - side as usize];
        if pipe.has_readers() {
            pipe.drop_reader(after);
        }
        connection.open[side as usize] = false;
        if connection.open == [false, false] {
            self.net.connections.remove(&number);
        }
    }

    /// A service that talks says its word again.
    pub(super) fn talk(&mut self, number: u64, after: &mut After) {
        let Some(connection) = self.net.connections.get_mut(&number).filter(|one| !one.cut) else { return };
        let said = self.net.services.get(&(connection.to.0, connection.to.1, Transport::Tcp));
        if let Some(service) = said.filter(|_| connection.pipes[1].held() < UNHEARD) {
            connection.pipes[1].push(service.answer.clone(), after);
        }
        self.timers.set(PAUSE, Timer::Talk(number));
        after.armed = true;
    }

    /// Sets the policy of a sandbox and its services, and cuts what it forbids.
    pub(crate) fn set_policy(&mut self, number: u64, policy: &NetworkPolicy, after: &mut After) -> Result<(), Error> {
        self.room(number)?;
        let services: Vec<u64> = self.services(number).into_values().map(|(service, _)| service).collect();
        let kin: BTreeSet<u64> = services.into_iter().chain([number]).collect();
        for number in &kin {
            let link = &mut self.room(*number)?.link;
            link.policy = policy.clone();
            let (up, link) = (link.is_up(), &self.rooms[number].link);
            for connection in self.net.connections.values_mut() {
                let ends = [connection.client, connection.server];
                if ends.iter().all(|end| end.is_some_and(|end| kin.contains(&end))) {
                    continue;
                }
                let out = connection.client == Some(*number) && !link.allows(connection.to.0, connection.to.1);
                let inward = connection.server == Some(*number) && connection.client.is_some() && !up;
                if out || inward {
                    connection.cut(after);
                }
            }
        }
        Ok(())
    }

    /// Cuts everything that has an end in a sandbox.
    pub(super) fn disconnect(&mut self, room: u64, after: &mut After) {
        for connection in self.net.connections.values_mut() {
            if connection.client == Some(room) || connection.server == Some(room) {
                connection.cut(after);
            }
        }
        let listeners = self.rooms.get_mut(&room).map(|room| std::mem::take(&mut room.link.listeners));
        for mut listening in listeners.into_iter().flatten().map(|(_, listening)| listening) {
            after.wakers.append(&mut listening.wakers);
            for connection in listening.waiting {
                self.hang_up(connection, Side::Server, after);
            }
        }
    }
}

impl Net {
    fn add(&mut self, connection: Connection) -> u64 {
        self.last += 1;
        self.connections.insert(self.last, connection);
        self.last
    }
}

impl Connection {
    fn new(client: Option<u64>, server: Option<u64>, to: (IpAddr, u16)) -> Self {
        let pipes = [Pipe::between(), Pipe::between()];
        Self { client, server, to, pipes, cut: false, open: [true, true] }
    }

    fn cut(&mut self, after: &mut After) {
        self.cut = true;
        self.pipes.iter_mut().for_each(|pipe| pipe.wake(after));
    }
}

fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

fn unreachable() -> io::Error {
    io::Error::new(io::ErrorKind::NetworkUnreachable, "network is unreachable")
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused")
}

fn no_route() -> io::Error {
    io::Error::new(io::ErrorKind::HostUnreachable, "no route to host")
}

fn reset() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "connection reset")
}
