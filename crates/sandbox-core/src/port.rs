//! Ports of a sandbox, as they are reached from outside.

use crate::Secret;

/// Makes a port reachable. See [`Instance::open_port`](crate::Instance::open_port).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenPort {
    /// The port that a program in the sandbox listens at; not zero.
    pub port: u16,
}

impl OpenPort {
    /// A port inside.
    pub fn new(port: u16) -> Self {
        Self { port }
    }
}

/// Where a port of a sandbox is reached. It ends with the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Endpoint {
    /// The host to connect to.
    pub host: String,
    /// The port to connect to.
    pub port: u16,
    /// All of it, and how to speak: `tcp://127.0.0.1:40123` takes any bytes, `https://…` HTTP alone.
    pub url: String,
    /// What has to go with every request: names of headers, and their values.
    pub headers: Vec<(String, Secret<String>)>,
}

impl Endpoint {
    /// An address that takes any bytes over TCP.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        let host = host.into();
        let url = if host.contains(':') { format!("tcp://[{host}]:{port}") } else { format!("tcp://{host}:{port}") };
        Self { host, port, url, headers: Vec::new() }
    }

    /// An address that takes HTTP over TLS, at port 443.
    pub fn https(host: impl Into<String>) -> Self {
        let host = host.into();
        let url = format!("https://{host}");
        Self { host, port: 443, url, headers: Vec::new() }
    }

    /// Adds a header that every request needs.
    pub fn header(mut self, name: impl Into<String>, value: Secret<String>) -> Self {
        self.headers.push((name.into(), value));
        self
    }
}
