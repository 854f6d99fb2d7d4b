//! Makes a client of every provider and asks for its facts, which is offline by contract. `cargo xtask construct` looks at
//! the system calls that it makes.
//!
//! `--credentials` prints the variables that the providers want instead, a line each; `--connect` also opens a connection,
//! so that the onlooker proves that it would see one.
#![expect(clippy::print_stdout, reason = "its output is what is looked at")]

#[path = "../src/providers.rs"]
mod providers;

use sandbox::{Error, ErrorKind, Result};

fn main() -> Result<()> {
    let option = std::env::args().nth(1);
    let registry = providers::registry()?;
    for scheme in registry.schemes() {
        if option.as_deref() == Some("--credentials") {
            registry.credentials(scheme).iter().for_each(|variable| println!("{}", variable.name));
            continue;
        }
        let client = registry.open(&format!("{scheme}://image"))?;
        println!("{scheme}: {}", client.facts().name());
    }
    if option.as_deref() == Some("--connect") {
        // Port 9 discards; whether anybody listens does not matter.
        match std::net::TcpStream::connect(("127.0.0.1", 9)) {
            Ok(_) => println!("connected"),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => println!("refused"),
            Err(error) => return Err(Error::new(ErrorKind::Internal, "connecting to this host").with_source(error)),
        }
    }
    Ok(())
}
