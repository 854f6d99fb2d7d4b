//! The terminal of a command: what is typed on it, with the modes that a new terminal has.

use super::{After, pipe::CAPACITY};
use bytes::Bytes;
use sandbox_core::{PtySize, Signal};
use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
};

/// As on Linux: what is longer is not taken.
const LONGEST_LINE: usize = 4095;

#[derive(Debug)]
pub(crate) struct Terminal {
    pub(crate) size: PtySize,
    /// The line that is being typed.
    line: Vec<u8>,
    /// Lines that nobody has read; an empty one is an end of file.
    lines: VecDeque<Bytes>,
    held: usize,
    /// Its command has ended.
    hung_up: bool,
    readers: Vec<Waker>,
    typists: Vec<Waker>,
}

/// What comes of typing, in this order.
#[derive(Debug, Default)]
pub(crate) struct Typed {
    pub(crate) echo: Vec<u8>,
    /// For the processes in the foreground.
    pub(crate) signals: Vec<i32>,
}

impl Terminal {
    pub(crate) fn new(size: PtySize) -> Self {
        let (readers, typists) = (Vec::new(), Vec::new());
        Self { size, line: Vec::new(), lines: VecDeque::new(), held: 0, hung_up: false, readers, typists }
    }

    /// Somebody types.
    pub(crate) fn type_in(&mut self, data: &[u8], after: &mut After) -> Typed {
        let mut typed = Typed::default();
        for byte in data {
            match byte {
                0x03 => self.interrupt(b"^C", Signal::Interrupt, &mut typed),
                0x1c => self.interrupt(b"^\\", Signal::Quit, &mut typed),
                0x1a => self.interrupt(b"^Z", Signal::TerminalStop, &mut typed),
                0x04 => self.enter(),
                b'\r' | b'\n' => {
                    self.line.push(b'\n');
                    typed.echo.extend(b"\r\n");
                    self.enter();
                }
                0x7f => self.erase(&mut typed.echo),
                0x15 => {
                    while !self.line.is_empty() {
                        self.erase(&mut typed.echo);
                    }
                }
                _ if self.line.len() >= LONGEST_LINE => typed.echo.push(0x07),
                _ => {
                    self.line.push(*byte);
                    echo(*byte, &mut typed.echo);
                }
            }
        }
        if !self.lines.is_empty() {
            after.wakers.append(&mut self.readers);
        }
        typed
    }

    /// Waits until there is room for the next piece.
    pub(crate) fn poll_room(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.held < CAPACITY || self.hung_up {
            return Poll::Ready(());
        }
        self.typists.push(cx.waker().clone());
        Poll::Pending
    }

    /// At most so many bytes of a line; nothing is an end of file.
    pub(crate) fn poll_read(&mut self, most: usize, cx: &Context<'_>, after: &mut After) -> Poll<Bytes> {
        if self.hung_up || most == 0 {
            return Poll::Ready(Bytes::new());
        }
        let Some(line) = self.lines.front_mut() else {
            self.readers.push(cx.waker().clone());
            return Poll::Pending;
        };
        let taken = line.split_to(line.len().min(most));
        if line.is_empty() {
            self.lines.pop_front();
        }
        self.held -= taken.len();
        after.wakers.append(&mut self.typists);
        Poll::Ready(taken)
    }

    pub(crate) fn hang_up(&mut self, after: &mut After) {
        self.hung_up = true;
        after.wakers.append(&mut self.readers);
        after.wakers.append(&mut self.typists);
    }

    pub(crate) fn is_hung_up(&self) -> bool {
        self.hung_up
    }

    /// Somebody waits for the user to type.
    pub(crate) fn waits_for_outside(&self) -> bool {
        !self.hung_up && self.lines.is_empty() && !self.readers.is_empty()
    }

    fn enter(&mut self) {
        let line = Bytes::from(std::mem::take(&mut self.line));
        self.held += line.len();
        self.lines.push_back(line);
    }

    /// What was typed before is gone, as with any terminal.
    fn interrupt(&mut self, shown: &[u8], signal: Signal, typed: &mut Typed) {
        typed.echo.extend(shown);
        typed.signals.push(signal.number());
        self.line.clear();
        self.lines.clear();
        self.held = 0;
    }

    /// Takes the last character back, however many bytes it has.
    fn erase(&mut self, shown: &mut Vec<u8>) {
        while let Some(byte) = self.line.pop() {
            if byte & 0xc0 != 0x80 {
                shown.extend(if is_control(byte) { &b"\x08 \x08\x08 \x08"[..] } else { b"\x08 \x08" });
                return;
            }
        }
    }
}

/// What a program writes, as it comes out of a terminal.
pub(crate) fn shown(data: &Bytes) -> Bytes {
    if !data.contains(&b'\n') {
        return data.clone();
    }
    let mut shown = Vec::with_capacity(data.len() + data.len() / 16);
    for byte in data {
        if *byte == b'\n' {
            shown.push(b'\r');
        }
        shown.push(*byte);
    }
    shown.into()
}

fn echo(byte: u8, shown: &mut Vec<u8>) {
    if is_control(byte) { shown.extend([b'^', byte ^ 0x40]) } else { shown.push(byte) }
}

fn is_control(byte: u8) -> bool {
    byte < 0x20 && byte != b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(terminal: &mut Terminal) -> Option<Bytes> {
        let cx = Context::from_waker(Waker::noop());
        match terminal.poll_read(1000, &cx, &mut After::default()) {
            Poll::Ready(line) => Some(line),
            Poll::Pending => None,
        }
    }

    #[test]
    fn lines_are_edited_and_echoed() {
        let mut terminal = Terminal::new(PtySize::default());
        let typed = terminal.type_in("ab\u{e9}\x7f\x7fc\x01\rd".as_bytes(), &mut After::default());
        assert_eq!(typed.echo, "ab\u{e9}\x08 \x08\x08 \x08c^A\r\nd".as_bytes());
        assert_eq!(read(&mut terminal).as_deref(), Some(&b"ac\x01\n"[..]));
        assert_eq!(read(&mut terminal), None, "a line is read once it is whole");
        terminal.type_in(b"\x04\x04", &mut After::default());
        assert_eq!(read(&mut terminal).as_deref(), Some(&b"d"[..]));
        assert_eq!(read(&mut terminal).as_deref(), Some(&b""[..]), "an end of file");
        assert_eq!(read(&mut terminal), None, "after an end of file it goes on");
    }

    #[test]
    fn control_characters_are_signals() {
        let mut terminal = Terminal::new(PtySize::default());
        let typed = terminal.type_in(b"lost\nx\x03\x1c\x1a", &mut After::default());
        assert_eq!((typed.echo.as_slice(), typed.signals), (&b"lost\r\nx^C^\\^Z"[..], vec![2, 3, 20]));
        assert_eq!(read(&mut terminal), None);
    }

    #[test]
    fn output_has_ends_of_lines_for_terminals() {
        assert_eq!(shown(&Bytes::from_static(b"a\nb\n\n")), Bytes::from_static(b"a\r\nb\r\n\r\n"));
    }
}
