//! Where the program's output goes.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use serde_json::{Value, json};
use std::io;
use tokio::io::{AsyncWrite, AsyncWriteExt as _, Stderr, Stdout};

/// One of a program's output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Our stdout and stderr: raw bytes, each stream on its own, or documents on stdout.
#[derive(Debug)]
pub(crate) struct Sink {
    json: bool,
    stdout: Stdout,
    stderr: Stderr,
    stdout_text: Text,
    stderr_text: Text,
    /// A write was begun and not seen to its end.
    cut: bool,
    at_line_start: bool,
}

impl Sink {
    /// Nothing written yet.
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            stdout: tokio::io::stdout(),
            stderr: tokio::io::stderr(),
            stdout_text: Text::default(),
            stderr_text: Text::default(),
            cut: false,
            at_line_start: true,
        }
    }

    /// Passes output on, and returns once it was taken.
    pub(crate) async fn write(&mut self, stream: Stream, bytes: &Bytes) -> io::Result<()> {
        let Some(last) = bytes.last() else { return Ok(()) };
        self.at_line_start = *last == b'\n';
        if !self.json {
            return self.raw(stream, bytes).await;
        }
        let text = match stream {
            Stream::Stdout => &mut self.stdout_text,
            Stream::Stderr => &mut self.stderr_text,
        };
        match text.push(bytes) {
            Some(piece) => self.document(&piece.document(stream)).await,
            None => Ok(()),
        }
    }

    /// Passes on what of the output waited for the rest of a character.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        let rest = [
            self.stdout_text.rest().map(|piece| piece.document(Stream::Stdout)),
            self.stderr_text.rest().map(|piece| piece.document(Stream::Stderr)),
        ];
        for document in rest.into_iter().flatten() {
            self.document(&document).await?;
        }
        Ok(())
    }

    /// One document on stdout, where documents are wanted.
    pub(crate) async fn document(&mut self, document: &Value) -> io::Result<()> {
        if !self.json {
            return Ok(());
        }
        self.line(format!("{document}\n")).await
    }

    /// A whole line on stdout, also after a write that was cut.
    pub(crate) async fn line(&mut self, line: String) -> io::Result<()> {
        let line = if self.cut { format!("\n{line}") } else { line };
        self.raw(Stream::Stdout, line.as_bytes()).await
    }

    /// Whether the terminal, if it is one, stands at the start of a line.
    pub(crate) fn at_line_start(&self) -> bool {
        self.at_line_start || self.json
    }

    async fn raw(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        async fn all(mut to: impl AsyncWrite + Unpin, bytes: &[u8]) -> io::Result<()> {
            to.write_all(bytes).await?;
            to.flush().await
        }
        self.cut = true;
        match stream {
            Stream::Stdout => all(&mut self.stdout, bytes).await?,
            Stream::Stderr => all(&mut self.stderr, bytes).await?,
        }
        self.cut = false;
        Ok(())
    }
}

/// Resolves once nobody can read our stdout any more, although nothing is written to it.
#[cfg(unix)]
pub(crate) async fn closed() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use tokio::sync::oneshot;
    let (tell, told) = oneshot::channel::<()>();
    // The runtime's own way would be unsafe code, or make our stdout non-blocking for everybody who shares it.
    let watch = move || {
        let stdout = io::stdout();
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        while !tell.is_closed() {
            let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
            match poll(&mut polled, Some(&second)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => {
                    _ = tell.send(());
                    return;
                }
                Err(_) => return,
            }
        }
    };
    let watched = std::thread::Builder::new().name("stdout".into()).spawn(watch).is_ok() && told.await.is_ok();
    if !watched {
        std::future::pending().await
    }
}

/// Other systems tell it at the next write.
#[cfg(not(unix))]
pub(crate) async fn closed() {
    std::future::pending().await
}

/// A stream as text, as far as it is text; the start of a character waits for its end.
#[derive(Debug, Default)]
struct Text(Vec<u8>);

#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Bytes(Vec<u8>),
}

impl Text {
    fn push(&mut self, bytes: &[u8]) -> Option<Piece> {
        let mut all = std::mem::take(&mut self.0);
        all.extend_from_slice(bytes);
        match String::from_utf8(all) {
            Ok(text) => Some(Piece::Text(text)),
            Err(error) if error.utf8_error().error_len().is_some() => Some(Piece::Bytes(error.into_bytes())),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let mut all = error.into_bytes();
                self.0 = all.split_off(valid);
                Some(all).filter(|all| !all.is_empty()).map(|all| match String::from_utf8(all) {
                    Ok(text) => Piece::Text(text),
                    Err(error) => Piece::Bytes(error.into_bytes()),
                })
            }
        }
    }

    fn rest(&mut self) -> Option<Piece> {
        Some(std::mem::take(&mut self.0)).filter(|rest| !rest.is_empty()).map(Piece::Bytes)
    }
}

impl Piece {
    fn document(&self, stream: Stream) -> Value {
        let event = match stream {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        match self {
            Self::Text(text) => json!({ "event": event, "text": text }),
            Self::Bytes(bytes) => json!({ "event": event, "base64": BASE64.encode(bytes) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_not_split_and_bytes_not_lost() {
        let mut text = Text::default();
        assert_eq!(text.push("aé".as_bytes()), Some(Piece::Text("aé".into())));
        assert_eq!(text.push(b"b\xc3"), Some(Piece::Text("b".into())));
        assert_eq!(text.push(b"\xa9"), Some(Piece::Text("é".into())));
        assert_eq!(text.push(b"\xe2\x82"), None);
        assert_eq!(text.push(b"x\xff"), Some(Piece::Bytes(b"\xe2\x82x\xff".to_vec())));
        assert_eq!(text.push(b"\xf0"), None);
        assert_eq!(text.rest(), Some(Piece::Bytes(b"\xf0".to_vec())));
        assert_eq!(text.rest(), None);
    }
}
