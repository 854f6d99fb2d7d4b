//! Output on its way from the pump to the reader, bounded by its bytes: a program that writes little is never held back by a
//! reader who is late.

use sandbox_core::Event;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// One command's output, for its only writer and its only reader.
pub(super) fn queue() -> (Outlet, Output) {
    let (events, received) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(ROOM));
    (Outlet { events, room: Arc::clone(&room) }, Output { events: received, room })
}

#[derive(Clone)]
pub(super) struct Outlet {
    events: mpsc::UnboundedSender<Event>,
    room: Arc<Semaphore>,
}

impl Outlet {
    /// Waits for room; without a reader the event is dropped.
    pub(super) async fn send(&self, event: Event) {
        if let Ok(room) = self.room.acquire_many(weight(&event)).await {
            room.forget();
            let _ = self.events.send(event);
        }
    }

    /// Resolves when nobody reads any more.
    pub(super) async fn closed(&self) {
        self.events.closed().await;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.events.is_closed()
    }
}

pub(super) struct Output {
    events: mpsc::UnboundedReceiver<Event>,
    room: Arc<Semaphore>,
}

impl Output {
    pub(super) async fn recv(&mut self) -> Option<Event> {
        let event = self.events.recv().await;
        self.took(event)
    }

    pub(super) fn try_recv(&mut self) -> Option<Event> {
        let event = self.events.try_recv().ok();
        self.took(event)
    }

    /// Takes no more; what was sent can still be received.
    pub(super) fn close(&mut self) {
        self.events.close();
        self.room.close();
    }

    fn took(&self, event: Option<Event>) -> Option<Event> {
        if let Some(event) = &event {
            self.room.add_permits(weight(event) as usize);
        }
        event
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.close();
    }
}

/// What an event takes of the room: its bytes, and what it takes to keep it.
fn weight(event: &Event) -> u32 {
    let bytes = match event {
        Event::Stdout(bytes) | Event::Stderr(bytes) => bytes.len(),
        _ => 0,
    };
    u32::try_from(bytes + KEPT).unwrap_or(u32::MAX).min(ROOM as u32)
}

/// Bytes under way at most.
const ROOM: usize = 16 << 20;
/// For one event, beside its bytes.
const KEPT: usize = 256;
