//! Between the adapter and the engine: passes everything on, and makes trouble when told to. The adapter's client opens one
//! connection for each request.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

const ENGINE: &str = "/var/run/docker.sock";

/// What goes wrong, once.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trouble {
    /// The request with this number from now on, of those that only a create sends, reaches the engine, and its answer is lost.
    Cut { after: usize },
    /// The next request that begins so never reaches the engine, and is never answered.
    Hang { request: &'static str },
    /// The next request that begins so is refused in place of the engine.
    Refuse { request: &'static str, words: &'static str },
}

#[derive(Debug)]
pub(crate) struct Middleman {
    folder: tempfile::TempDir,
    armed: Arc<Mutex<Option<Trouble>>>,
    builds: Arc<AtomicUsize>,
}

impl Middleman {
    pub(crate) fn new() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let listener = UnixListener::bind(folder.path().join("engine.sock"))?;
        let armed = Arc::new(Mutex::new(None));
        let (troubles, builds) = (Arc::clone(&armed), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&builds);
        // It waits for connections until the process ends: the socket's file goes with the folder.
        thread::Builder::new().name("middleman".into()).spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let (troubles, counted) = (Arc::clone(&troubles), Arc::clone(&counted));
                thread::spawn(move || drop(serve(near, &troubles, &counted)));
            }
        })?;
        Ok(Self { folder, armed, builds })
    }

    pub(crate) fn address(&self) -> String {
        format!("unix://{}", self.folder.path().join("engine.sock").display())
    }

    /// How many builds the engine was asked for.
    pub(crate) fn builds(&self) -> usize {
        self.builds.load(Ordering::SeqCst)
    }

    pub(crate) fn arm(&self, trouble: Trouble) {
        *self.armed.lock().unwrap_or_else(PoisonError::into_inner) = Some(trouble);
    }
}

fn serve(mut near: UnixStream, armed: &Mutex<Option<Trouble>>, builds: &AtomicUsize) -> io::Result<()> {
    let mut head = vec![0; 64 << 10];
    let length = near.read(&mut head)?;
    head.truncate(length);
    let asked = head.split(|byte| matches!(byte, b'?' | b'\r')).next().unwrap_or_default();
    if asked.starts_with(b"POST /") && asked.ends_with(b"/build") {
        builds.fetch_add(1, Ordering::SeqCst);
    }
    let trouble = due(&mut armed.lock().unwrap_or_else(PoisonError::into_inner), &head);
    match trouble {
        Some(Trouble::Hang { .. }) => {
            // Until the other side gives up.
            while near.read(&mut [0; 4096])? > 0 {}
            return Ok(());
        }
        Some(Trouble::Refuse { words, .. }) => {
            let body = format!("{{\"message\":\"{words}\"}}");
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            near.write_all(answer.as_bytes())?;
            // What is still on its way is read, or closing would take the answer away.
            near.shutdown(Shutdown::Write)?;
            near.set_read_timeout(Some(Duration::from_secs(5)))?;
            while near.read(&mut [0; 4096])? > 0 {}
            return Ok(());
        }
        Some(Trouble::Cut { .. }) | None => {}
    }
    let mut far = UnixStream::connect(ENGINE)?;
    far.write_all(&head)?;
    let (mut from_near, mut to_far) = (near.try_clone()?, far.try_clone()?);
    thread::spawn(move || {
        drop(io::copy(&mut from_near, &mut to_far));
        drop(to_far.shutdown(Shutdown::Write));
    });
    if trouble.is_some() {
        // The engine has answered, so the request was carried out.
        let read = far.read(&mut [0; 1]);
        near.shutdown(Shutdown::Both)?;
        far.shutdown(Shutdown::Both)?;
        return read.map(drop);
    }
    let copied = io::copy(&mut far, &mut near);
    drop(near.shutdown(Shutdown::Write));
    copied.map(drop)
}

/// The trouble that this request meets, which is then over.
fn due(armed: &mut Option<Trouble>, head: &[u8]) -> Option<Trouble> {
    let now = match armed.as_mut()? {
        Trouble::Cut { after } => {
            // Earlier sandboxes may still be on their way out.
            *after -= usize::from(of_a_create(head));
            *after == 0
        }
        Trouble::Hang { request } | Trouble::Refuse { request, .. } => head.starts_with(request.as_bytes()),
    };
    if now { armed.take() } else { None }
}

fn of_a_create(head: &[u8]) -> bool {
    let line = String::from_utf8_lossy(head.split(|byte| *byte == b'\r').next().unwrap_or_default()).into_owned();
    let path = line.split([' ', '?']).nth(1).unwrap_or_default();
    match line.split(' ').next() {
        Some("GET") => path.starts_with("/images/"),
        Some("POST") => {
            ["/containers/create", "/attach", "/start"].iter().any(|end| path.ends_with(end))
                && !path.starts_with("/exec/")
        }
        _ => false,
    }
}
